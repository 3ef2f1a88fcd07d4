"""From figures to files: plan cells, compute those that are missing, write tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from experiments import tables
from experiments.cells import populations
from experiments.cells.cell import Cell, Outcome, Task, compute
from experiments.cells.moments import Moments
from experiments.errors import ExperimentError
from experiments.figures import Experiment, Figure
from experiments.store import Store
from ldpopt.claims.figures.manifest import write_manifest
from ldpopt.claims.figures.tables import Pair, Row
from ldpopt.datasets import Dataset
from ldpopt.errors import DataUnavailableError, InvalidInputError, WorkersError
from ldpopt.executors import Executor, executor_for, results
from ldpopt.storage import write_whole

SEED = 2020


@dataclass
class Plan:
    """The cells of each figure, each cell once, and the populations missing on this machine."""

    figures: dict[str, Figure]
    tasks: dict[str, list[Task]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def distinct(self) -> dict[str, Task]:
        """All tasks by key."""
        return {task.key: task for tasks in self.tasks.values() for task in tasks}

    def lacks(self, figure: Figure) -> list[str]:
        """Return which of a figure's populations are missing."""
        return [name for name in figure.experiment.populations if name in self.missing]


def plan(
    figures: Iterable[Figure], *, seed: int = SEED, trials: int | None = None, quick: bool = False
) -> Plan:
    """Load the data and return the cells to compute; missing data are noted with the reason."""
    result = Plan({})
    shelf = _Shelf(result.missing)
    for figure in figures:
        # Before trials: an explicit number of trials wins over that of a quick run.
        experiment = figure.experiment.quick() if quick else figure.experiment
        # Figures of the data themselves have no trials.
        if trials is not None and experiment.oracle:
            experiment = replace(experiment, trials=trials)
        # With the trials of this run, which tables and page then state.
        result.figures[figure.name] = replace(figure, experiment=experiment)
        result.tasks[figure.name] = [
            Task(cell, data, seed)
            for population, n in product(experiment.populations, experiment.ns or (None,))
            for data, digest in shelf.take(population, n)
            for cell in _cells(experiment, data, digest)
        ]
    return result


@dataclass
class _Shelf:
    """Populations, each loaded and hashed once for all figures; ``missing`` is added to."""

    missing: dict[str, str]
    loaded: dict[tuple[str, int | None], tuple[Dataset, str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def take(self, population: str, n: int | None) -> list[tuple[Dataset, str]]:
        """Return a population of n users with its digest, or nothing if its data are missing."""
        if population in self.missing:
            return []
        # By file, which several populations share: a download that failed is not tried again.
        file = populations.POPULATIONS[population].file or population
        if file in self.failed:
            self.missing[population] = self.failed[file]
            return []
        if (population, n) not in self.loaded:
            try:
                data = populations.load(population, n)
            except DataUnavailableError as error:
                self.failed[file] = str(error)
                self.missing[population] = str(error)
                return []
            self.loaded[population, n] = (data, populations.digest(data))
        return [self.loaded[population, n]]


def _cells(experiment: Experiment, data: Dataset, digest: str) -> list[Cell]:
    return [
        Cell(
            data.name,
            data.n,
            data.d,
            digest,
            experiment.oracle,
            epsilon,
            experiment.methods,
            experiment.measures,
            experiment.trials,
        )
        for epsilon in experiment.epsilons or (0.0,)
    ]


@dataclass
class Summary:
    """What a run did: keys of cells computed, reused and failed (with the error)."""

    computed: list[str] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0  # of computation, all workers together


def compute_cells(
    tasks: Mapping[str, Task],
    store: Store,
    executor: Executor,
    *,
    fresh: bool = False,
    order: Callable[[Sequence[Task]], Sequence[Task]] | None = None,
    finished: Callable[[Task], None] | None = None,
    summary: Summary | None = None,
) -> Summary:
    """Compute the cells that the store does not have, and put each there as soon as it is finished.

    Parameters
    ----------
    tasks
        By key.
    store, executor
        Where results go, and who computes them.
    fresh
        Whether to compute again what the store has.
    order
        Of the computation; the longest first by default, so that workers end together.
    finished
        Called after each cell.
    summary
        Filled as the run goes on: after an interruption it says what was done.
    """
    summary = Summary() if summary is None else summary
    there = set() if fresh else store.keys() & tasks.keys()
    summary.reused += sorted(there)
    todo = [task for key, task in tasks.items() if key not in there]
    # The longest first: a long cell that starts last would keep one worker busy alone.
    todo = list(order(todo)) if order else sorted(todo, key=lambda task: -task.cell.cost)
    if not todo:
        # Workers, or a cluster that may not be there, are not needed.
        return summary
    try:
        # In the order in which cells are finished: what waited for others would be lost by a kill.
        for task, outcome in executor.run(compute, todo):
            _keep(task, outcome, store, summary)
            if finished:
                finished(task)
    except WorkersError as error:
        raise ExperimentError(
            f"{error}. The finished cells are kept: run the same command again"
        ) from None
    return summary


def _keep(task: Task, outcome: Outcome | Exception, store: Store, summary: Summary) -> None:
    """Put a finished cell on disk, or note why it failed: others do not fail with it."""
    if isinstance(outcome, Exception):
        cell = task.cell
        summary.failed[task.key] = (
            f"{cell.population}, n = {cell.n}, ε = {cell.epsilon:g}: {outcome!r}"
        )
        return
    store.put(task, outcome)
    summary.computed.append(task.key)
    summary.seconds += outcome.seconds


def write_figures(planned: Plan, store: Store, out: Path, *, workers: int = 1) -> list[str]:
    """Write tables and pictures of all figures that have finished cells; return their names."""
    shown: dict[str, list[Row]] = {}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, figure in planned.figures.items():
            cells = _finished_cells(planned.tasks[name], store)
            if rows := tables.rows(figure, cells):
                shown[name] = rows
                write_whole(out / f"{name}.csv", tables.to_csv(rows, Row).encode())
            if pairs := tables.pairs(figure, cells):
                paired = tables.to_csv(pairs, Pair)
                write_whole(out / f"{name}.paired.csv", paired.encode())
        # Of all tables in the folder: a run may draw some of the figures.
        write_manifest(out)
        jobs = [(planned.figures[name], rows) for name, rows in shown.items()]
        for name, pictures in zip(shown, _pictures(jobs, workers), strict=True):
            for suffix, content in pictures.items():
                write_whole(out / f"{name}.{suffix}", content)
    except (OSError, InvalidInputError) as error:
        raise ExperimentError(
            f"{error}. The finished cells are kept in {store.path}: make room or give another "
            "--out, then run the same command again"
        ) from None
    return list(shown)


def _finished_cells(tasks: Sequence[Task], store: Store) -> dict[Cell, tuple[Moments, ...]]:
    cells = {task.key: task.cell for task in tasks}
    return {cells[key]: outcome.moments for key, outcome in store.get(cells).items()}


def _pictures(jobs: Sequence[tuple[Figure, list[Row]]], workers: int) -> Iterator[dict[str, bytes]]:
    """Yield the pictures in the order of the jobs; each takes a second, so processes share them."""
    # A new process must import matplotlib first: for one or two pictures that is not worth it.
    executor = executor_for(workers if len(jobs) > 2 else 1)
    return results(executor, _picture, jobs)


def _picture(job: tuple[Figure, list[Row]]) -> dict[str, bytes]:
    from experiments.pictures.draw import draw  # matplotlib is slow to import

    figure, rows = job
    return draw(figure, rows)
