"""The loop of a comparison: candidates on common draws, measured, kept, and put into one table."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ldpopt import validate
from ldpopt.datasets import Dataset
from ldpopt.errors import InvalidInputError, warn
from ldpopt.executors import Executor, executor_for
from ldpopt.methods import METHODS
from ldpopt.studies.engine.candidate import Candidate, candidates_of
from ldpopt.studies.engine.cell import (
    Cell,
    Task,
    digest_of,
    provenance_of,
    require_sendable,
)
from ldpopt.studies.engine.measures import Measure
from ldpopt.studies.engine.moments import Measured, Values
from ldpopt.studies.engine.provenance import fingerprint
from ldpopt.studies.engine.run import Summary, compute_behind_bar
from ldpopt.studies.engine.store import Memory, Shelf, Store
from ldpopt.studies.rehearsal import rehearse
from ldpopt.studies.study_inputs import (
    Collection,
    budgets_of,
    collections_of,
    data_sets_of,
    measures_of,
)
from ldpopt.studies.study_result import Study
from ldpopt.studies.study_rows import Array, Place

# Draws of a cell. A kill loses one candidate on so many; more cells would cost more to keep.
_DRAWS = 20


def study(
    candidates: Any,
    data: Any,
    oracles: Any = "oue",
    *,
    epsilons: Sequence[float] = (1.0,),
    draws: int = 30,
    metrics: Any = "mse",
    baseline: str | None = None,
    level: float = 0.95,
    seed: int = 0,
    labels: Sequence[str] | None = None,
    workers: int = 1,
    dask: str | None = None,
    store: str | Path | None = None,
    fresh: bool = False,
    progress: bool | None = None,
) -> Study:
    """Compare methods, problems and functions of your own on common simulated collections.

    Every candidate gets the same raw estimates, so that ratios to a baseline have paired intervals.
    The same seed gives the same numbers for any number of workers, with a store or without.

    Parameters
    ----------
    candidates
        Names of methods, Problems, or functions from an estimate of shape (d,) to frequencies of
        that shape; a dictionary names them.
    data
        Names of data sets, Datasets, CSV files with the columns label and count, counts, or
        DataFrames and Series of counts; a dictionary names them.
    oracles
        Names, classes, functions of (epsilon, d), or oracles; a dictionary names them.
    epsilons
        Budgets of oracles that are given by name, class or function.
    draws
        Collections per data set, oracle and budget.
    metrics
        Names ("mse", "mae", "largest error", "total variation"), functions of (answer, truth), or
        measures of ``ldpopt.studies.engine.measures`` such as ``Top((10,))`` and
        ``FixedSets(("category",))``; a dictionary names functions.
    baseline
        The candidate that ratios refer to; by default the first. The name of a method that is no
        candidate adds it.
    level
        Probability of each interval.
    seed
        Of everything that is drawn.
    labels
        The domain that CSV files must have.
    workers, dask
        Processes of this machine, or the address of a Dask scheduler. Functions must then be
        importable; in a script, call ``study`` below ``if __name__ == "__main__":``.
    store
        A file that keeps finished cells, so that a study which was stopped resumes, and one with
        another candidate computes that alone. Keys follow from the sources of candidates, metrics,
        and what they import: changed code is computed anew, with a warning that names it.
    fresh
        Whether to compute again what the store has.
    progress
        Whether to show a bar; by default on a terminal and in a notebook, after two seconds.

    Returns
    -------
    Study with ``rows``, ``ratio``, ``draws_of``, ``to_csv``, ``to_frame`` and ``plot``.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Before any draw, if an argument is not what it should be, two candidates have one name, a
        function returns another shape or numbers that are not finite, or changes its input, a
        problem does not fit the data, or a metric returns no number. Afterwards, if no candidate
        has an answer in every draw.
    StoreError, WorkersError
        If the store cannot be used, or workers cannot be reached; a store keeps finished cells.

    Warns
    -----
    LdpoptWarning
        If candidates fail in some draw (they are in ``Study.failed``); if kept results are of other
        code, or damaged.

    Notes
    -----
    Cost: each candidate once per draw, and the simulation. The seconds of a table include the
    compilation of problems, which each cell of 20 draws does once, and that of the code of priors,
    which a new installation does once: with few draws it may be nearly all of them.

    Examples
    --------
    >>> from ldpopt import Problem, constraints, losses
    >>> simplex = Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1)])
    >>> def shrunk(estimate):
    ...     return 0.5 * estimate.frequencies + 0.5 / estimate.d
    >>> result = study(
    ...     {"base": "base", "simplex": simplex, "shrunk": shrunk}, {"coins": [700, 300]}, draws=20
    ... )
    >>> result.ratio("simplex").value < 1
    True
    >>> [row.candidate for row in result.rows if row.ratio_high < 1]
    ['simplex']
    """
    chosen, reference = _candidates(candidates, baseline)
    measures = measures_of(metrics)
    sets = data_sets_of(data, labels)
    draws = validate.integer("draws", draws, minimum=1)
    seed = validate.integer("seed", seed, minimum=0)
    level = validate.confidence("level", level)
    executor = _executor(workers, dask)
    budgets = budgets_of(epsilons)
    settings = [
        (each, collection)
        for each in sets.values()
        for collection in collections_of(oracles, budgets, each)
    ]
    _rehearse(chosen, measures, settings, seed)
    # Everything is checked by now: from here on only computation can fail.
    tasks = _tasks(chosen, measures, settings, draws, seed, is_kept=store is not None)
    # A function that cannot be sent would fail once per cell, deep inside a worker.
    if workers > 1:
        require_sendable([task for task in tasks.values() if task.cell.first_chunk == 0])
    with nullcontext(Memory()) if store is None else Store(Path(store)) as shelf:
        summary = _computed(tasks, shelf, executor, fresh=fresh, progress=progress)
        # Of a file alone: memory has nothing to remark.
        for remark in (*getattr(shelf, "remarks", ()), summary.changes):
            if remark:
                warn(remark)
        values, seconds = _gathered(tasks, shelf, summary)
    failed = _failed(tasks, summary)
    if not any(values.values()):
        raise InvalidInputError(f"no candidate has an answer: {'; '.join(failed.values())}")
    names = tuple(candidate.name for candidate in chosen)
    return Study(values, seconds, names, reference, draws, level, seed, failed)


def _candidates(what: Any, baseline: str | None) -> tuple[tuple[Candidate, ...], str]:
    """Return candidates, the baseline among them, and its name."""
    chosen = candidates_of(what)
    names = [candidate.name for candidate in chosen]
    # Each once: a candidate may be one of the methods.
    baselines = dict.fromkeys([*names, *METHODS])
    if baseline is None:
        return chosen, names[0]
    if not isinstance(baseline, str):
        raise validate.unknown_name("baseline", baseline, baselines)
    if baseline in names:
        return chosen, baseline
    if baseline in METHODS:
        # In front, so that tables begin with what others are compared with.
        return (Candidate.of(baseline), *chosen), baseline
    raise validate.unknown_name("baseline", baseline, baselines)


def _executor(workers: int, dask: str | None) -> Executor:
    workers = validate.integer("workers", workers, minimum=1)
    # One of the two would be ignored, and the user would not learn which.
    if dask is not None and workers > 1:
        raise InvalidInputError("dask uses the workers of its cluster: leave out workers")
    return executor_for(workers, dask)


def _rehearse(
    candidates: Sequence[Candidate],
    measures: Sequence[Measure],
    settings: Sequence[tuple[Dataset, Collection]],
    seed: int,
) -> None:
    """Raise the errors of the user's candidates and metrics, on one draw of each data set."""
    rehearsed = set()
    for data, collection in settings:
        # What can be wrong depends on the domain, and hardly on the budget.
        if data.name not in rehearsed:
            rehearsed.add(data.name)
            rehearse(candidates, measures, data, collection.oracle, seed)


def _tasks(
    candidates: Sequence[Candidate],
    measures: tuple[Measure, ...],
    settings: Sequence[tuple[Dataset, Collection]],
    draws: int,
    seed: int,
    *,
    is_kept: bool,
) -> dict[str, Task]:
    """Return the cells by key: one candidate on one chunk of draws each, those of a chunk in turn.

    So a candidate that is added, or changed, is computed alone, and a kill loses little.
    """
    # Processes keep draws and candidates of one run: the mark tells them when another begins.
    run = secrets.token_hex(8)
    digests = {data.name: digest_of(data) for data, _ in settings}
    made_by: dict[str, Mapping[str, str]] = {
        # Reading the sources takes a second or two, which a study that keeps nothing can save.
        c.name: provenance_of([c], measures, None) if is_kept else {}
        for c in candidates
    }
    tasks = {}
    for data, collection in settings:
        oracle = {"the oracle": fingerprint(collection.oracle)} if is_kept else {}
        for number, first in enumerate(range(0, draws, _DRAWS)):
            for candidate in candidates:
                cell = Cell(
                    data.name,
                    data.n,
                    data.d,
                    digests[data.name],
                    collection.name,
                    collection.epsilon,
                    (candidate,),
                    measures,
                    trials=min(_DRAWS, draws - first),
                    chunk=_DRAWS,
                    first_chunk=number,
                    keeps_trials=True,
                )
                # A cell changes its key with any of these: its candidate, the metrics, and the
                # oracle.
                origin = {**made_by[candidate.name], **oracle}
                task = Task(cell, data, collection.oracle, seed, origin, run)
                tasks[task.key] = task
    return tasks


def _computed(
    tasks: Mapping[str, Task],
    shelf: Shelf,
    executor: Executor,
    *,
    fresh: bool,
    progress: bool | None,
) -> Summary:
    """Compute the cells in their order, in which those on the same draws are neighbours."""
    return compute_behind_bar(tasks, shelf, executor, fresh=fresh, order=list, wanted=progress)


def _gathered(
    tasks: Mapping[str, Task], shelf: Shelf, summary: Summary
) -> tuple[dict[Place, dict[str, Array]], dict[tuple[str, str, float, str], float]]:
    """Return values and seconds per draw of the candidates that failed in no draw of a place."""
    # A candidate that failed once is left out of a place: a mean over the other draws would flatter
    # it.
    broken = {_where(tasks[key].cell) for key in summary.failed}
    values: dict[Place, dict[str, list[Array]]] = {}
    seconds: dict[tuple[str, str, float, str], float] = {}
    draws: dict[tuple[str, str, float, str], int] = {}
    outcomes = shelf.get(tasks)
    for key, task in tasks.items():
        where = _where(task.cell)
        if where in broken:
            continue
        name = where[-1]
        outcome = outcomes[key]
        draws[where] = draws.get(where, 0) + task.cell.trials
        seconds[where] = seconds.get(where, 0.0) + outcome.method_seconds[name]
        for place, of_place in _values_of(task.cell, outcome.measured):
            # Chunks come in the order of the draws, which is that of the tasks.
            values.setdefault(place, {}).setdefault(name, []).append(of_place)
    joined = {place: _joined(by_name) for place, by_name in values.items()}
    per_draw = {where: total / draws[where] for where, total in seconds.items()}
    return joined, per_draw


def _values_of(cell: Cell, outcomes: Iterable[Measured]) -> Iterator[tuple[Place, Array]]:
    """Yield the places of a cell with the values of its only candidate, draw by draw."""
    for measured in outcomes:
        assert isinstance(measured, Values)  # a study's cells keep them
        for k, parameter in enumerate(measured.parameters):
            yield _place(cell, measured, parameter), measured.values[:, k, 0]


def _joined(parts: Mapping[str, list[Array]]) -> dict[str, Array]:
    """Return the values of all chunks of each candidate as one array."""
    return {name: np.concatenate(chunks) for name, chunks in parts.items()}


def _where(cell: Cell) -> tuple[str, str, float, str]:
    return cell.population, cell.oracle, cell.epsilon, cell.candidates[0].name


def _place(cell: Cell, measured: Values, parameter: Any) -> Place:
    return Place(
        cell.population,
        cell.n,
        cell.d,
        cell.oracle,
        cell.epsilon,
        measured.query,
        measured.metric,
        parameter,
    )


def _failed(tasks: Mapping[str, Task], summary: Summary) -> dict[str, str]:
    """Return the first failure of each candidate, with its place, and warn of them."""
    failed: dict[str, str] = {}
    for key, error in summary.errors.items():
        population, oracle, epsilon, name = _where(tasks[key].cell)
        reason = f"{population}, {oracle}, ε = {epsilon:g}: {error}"
        # The first reason is enough: the others are mostly the same.
        failed.setdefault(name, reason)
    for name, reason in failed.items():
        warn(f"the candidate {name!r} has no answer in some draw, and is left out there: {reason}")
    return failed
