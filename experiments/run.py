"""From figures to files: plan cells, compute those that are missing, write tables and pictures."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from experiments import tables
from experiments.cells import populations
from experiments.cells.cell import Cell, Task
from experiments.errors import ExperimentError
from experiments.executors import Executor, leave_interrupts
from experiments.figures import Experiment, Figure
from experiments.store import Store
from ldpopt.datasets import Dataset
from ldpopt.errors import DataUnavailableError

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
    loaded: dict[tuple[str, int | None], tuple[Dataset, str]] = {}
    failed: dict[str, str] = {}  # by file: a download that failed is not tried again
    for figure in figures:
        experiment = figure.experiment.quick() if quick else figure.experiment
        # Figures of the data themselves have no trials.
        if trials is not None and experiment.oracle:
            experiment = replace(experiment, trials=trials)
        result.figures[figure.name] = replace(figure, experiment=experiment)
        result.tasks[figure.name] = []
        for population, n in product(experiment.populations, experiment.ns or (None,)):
            if population in result.missing:
                continue
            file = populations.POPULATIONS[population].file or population
            if file in failed:
                result.missing[population] = failed[file]
                continue
            if (population, n) not in loaded:
                try:
                    data = populations.load(population, n)
                except DataUnavailableError as error:
                    result.missing[population] = failed[file] = str(error)
                    continue
                loaded[population, n] = data, populations.digest(data)
            data, digest = loaded[population, n]
            result.tasks[figure.name] += [
                Task(cell, data, seed) for cell in _cells(experiment, data, digest)
            ]
    return result


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
    todo = list(order(todo)) if order else sorted(todo, key=lambda task: -task.cell.cost)
    if not todo:
        return summary
    for task, outcome in executor.run(todo):
        if isinstance(outcome, Exception):
            cell = task.cell
            summary.failed[task.key] = (
                f"{cell.population}, n = {cell.n}, ε = {cell.epsilon:g}: {outcome!r}"
            )
        else:
            store.put(task, outcome)
            summary.computed.append(task.key)
            summary.seconds += outcome.seconds
        if finished:
            finished(task)
    return summary


def write_figures(planned: Plan, store: Store, out: Path, *, workers: int = 1) -> list[str]:
    """Write tables and pictures of all figures that have finished cells; return their names."""
    shown: dict[str, list[tables.Row]] = {}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, figure in planned.figures.items():
            by_key = {task.key: task.cell for task in planned.tasks[name]}
            cells = {by_key[key]: outcome.moments for key, outcome in store.get(by_key).items()}
            rows = tables.rows(figure, cells)
            pairs = tables.pairs(figure, cells)
            if rows:
                shown[name] = rows
                replace_text(out / f"{name}.csv", tables.to_csv(rows, tables.Row))
            if pairs:
                replace_text(out / f"{name}.paired.csv", tables.to_csv(pairs, tables.Pair))
        jobs = [(planned.figures[name], rows) for name, rows in shown.items()]
        for name, pictures in zip(shown, _pictures(jobs, workers), strict=True):
            for suffix, content in pictures.items():
                replace_bytes(out / f"{name}.{suffix}", content)
    except OSError as error:
        raise ExperimentError(
            f"cannot write to {error.filename or out}: {error.strerror or error}. The finished "
            f"cells are kept in {store.path}: make room or give another --out, then run the same "
            "command again"
        ) from None
    return list(shown)


def _pictures(
    jobs: Sequence[tuple[Figure, list[tables.Row]]], workers: int
) -> Iterator[dict[str, bytes]]:
    """Yield the pictures in the order of the jobs; each takes a second, so processes share them."""
    from experiments.pictures.draw import draw  # matplotlib is slow to import

    # A new process must import matplotlib first: for one or two pictures that is not worth it.
    if workers == 1 or len(jobs) < 3:
        yield from (draw(figure, rows) for figure, rows in jobs)
        return
    with ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=leave_interrupts
    ) as pool:
        yield from pool.map(draw, *zip(*jobs, strict=True))


def replace_text(path: Path, text: str) -> None:
    """Write a file in one step: readers see the old one or the whole new one."""
    replace_bytes(path, text.encode())


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a file in one step: readers see the old one or the whole new one."""
    # In the same folder, since only within a file system a file can be replaced in one step.
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
