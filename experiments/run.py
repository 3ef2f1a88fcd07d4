"""From figures to files: plan cells, compute those that are missing, write tables and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from experiments import tables
from experiments.cells import populations
from experiments.cells.measures import Selection
from experiments.cells.protocols import ORACLES
from experiments.errors import ExperimentError
from experiments.figures import Experiment, Figure
from ldpopt.claims.figures.manifest import write_manifest
from ldpopt.claims.figures.tables import Pair, Row
from ldpopt.datasets import Dataset
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.executors import executor_for, results
from ldpopt.storage import write_whole
from ldpopt.studies.engine.cell import Cell, Task, digest_of, provenance_of
from ldpopt.studies.engine.moments import Measured, Moments, moments_of, side_by_side
from ldpopt.studies.engine.provenance import fingerprint
from ldpopt.studies.engine.store import Store

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
    figures: Iterable[Figure],
    *,
    seed: int = SEED,
    trials: int | None = None,
    quick: bool = False,
    data: Mapping[str, Dataset] | None = None,
) -> Plan:
    """Load the data and return the cells to compute; missing data are noted with the reason.

    ``data`` are populations of the user's, by the names that the figures call them.
    """
    result = Plan({})
    shelf = _Shelf(result.missing, data or {})
    for figure in figures:
        # Before trials: an explicit number of trials wins over that of a quick run.
        experiment = figure.experiment.quick() if quick else figure.experiment
        # Figures of the data themselves have no trials.
        if trials is not None and experiment.oracle:
            experiment = replace(experiment, trials=trials)
        # With the trials of this run, which tables and page then state.
        result.figures[figure.name] = replace(figure, experiment=experiment)
        parts = _parts(experiment)
        # Once per figure: its cells differ in data and oracle alone.
        origins = [provenance_of(part.candidates, part.measures, None) for part in parts]
        result.tasks[figure.name] = [
            _task(part, population, digest, epsilon, seed, made_by)
            for name, n in product(experiment.populations, experiment.ns or (None,))
            for population, digest in shelf.take(name, n)
            for epsilon in experiment.epsilons or (0.0,)
            for part, made_by in zip(parts, origins, strict=True)
        ]
    return result


def _parts(experiment: Experiment) -> list[Experiment]:
    """Return an experiment in parts: that of the paper, and one per method that the user adds.

    Cells of all parts see the same reports and random sets, so that their errors stay paired. The
    paper's cells are those of a run without additions, and each method is computed by itself.
    """
    chooses = any(isinstance(measure, Selection) for measure in experiment.measures)
    if chooses or not experiment.additions:
        return [experiment]
    alone = [replace(experiment, methods=(), additions=(each,)) for each in experiment.additions]
    return [replace(experiment, additions=()), *alone]


@dataclass
class _Shelf:
    """Populations, each loaded and hashed once for all figures; ``missing`` is added to."""

    missing: dict[str, str]
    supplied: Mapping[str, Dataset]
    loaded: dict[tuple[str, int | None], tuple[Dataset, str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def take(self, population: str, n: int | None) -> list[tuple[Dataset, str]]:
        """Return a population of n users with its digest, or nothing if its data are missing."""
        if population in self.missing:
            return []
        # By file, which several populations share: a download that failed is not tried again.
        file = population
        if population in populations.POPULATIONS:
            file = populations.POPULATIONS[population].file or population
        if file in self.failed:
            self.missing[population] = self.failed[file]
            return []
        if (population, n) not in self.loaded:
            try:
                data = self._load(population, n)
            except DataUnavailableError as error:
                self.failed[file] = str(error)
                self.missing[population] = str(error)
                return []
            self.loaded[population, n] = (data, digest_of(data))
        return [self.loaded[population, n]]

    def _load(self, population: str, n: int | None) -> Dataset:
        if population not in self.supplied:
            return populations.load(population, n)
        data = self.supplied[population]
        return data if n is None else data.scaled(n)


def _task(
    experiment: Experiment,
    data: Dataset,
    digest: str,
    epsilon: float,
    seed: int,
    made_by: Mapping[str, str],
) -> Task:
    """Return one cell of an experiment with all that its computation needs."""
    cell = Cell(
        data.name,
        data.n,
        data.d,
        digest,
        experiment.oracle,
        epsilon,
        experiment.candidates,
        experiment.measures,
        experiment.trials,
    )
    oracle = ORACLES[experiment.oracle](epsilon, data.d) if experiment.oracle else None
    return Task(cell, data, oracle, seed, {**made_by, "the oracle": fingerprint(oracle)})


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
    """Return what was measured, by the paper's cells, with the user's methods beside them."""
    outcomes = store.get({task.key: task for task in tasks})
    joined: dict[Cell, tuple[Measured, ...]] = {}
    cell_of: dict[Cell, Cell] = {}
    for task in tasks:
        # The parts of an experiment differ in their candidates; the paper's own comes first.
        place = replace(task.cell, candidates=())
        cell = cell_of.setdefault(place, task.cell)
        if task.key not in outcomes:
            continue
        measured = outcomes[task.key].measured
        if cell is task.cell:
            joined[cell] = measured
        # Without the paper's methods a line has nothing beside it.
        elif cell in joined:
            joined[cell] = tuple(map(side_by_side, joined[cell], measured))
    return {cell: tuple(map(moments_of, measured)) for cell, measured in joined.items()}


def _pictures(jobs: Sequence[tuple[Figure, list[Row]]], workers: int) -> Iterator[dict[str, bytes]]:
    """Yield the pictures in the order of the jobs; each takes a second, so processes share them."""
    # A new process must import matplotlib first: for one or two pictures that is not worth it.
    executor = executor_for(workers if len(jobs) > 2 else 1)
    return results(executor, _picture, jobs)


def _picture(job: tuple[Figure, list[Row]]) -> dict[str, bytes]:
    from experiments.pictures.draw import draw  # matplotlib is slow to import

    figure, rows = job
    return draw(figure, rows)
