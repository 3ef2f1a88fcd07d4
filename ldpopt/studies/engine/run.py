"""Compute the cells that are missing, wherever workers are, and keep each as it finishes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ldpopt import progress
from ldpopt.errors import StoreError, WorkersError
from ldpopt.executors import Executor
from ldpopt.printable import counted
from ldpopt.studies.engine.cell import Outcome, Task, compute
from ldpopt.studies.engine.store import Memory, Shelf


@dataclass
class Summary:
    """What a run did.

    Attributes
    ----------
    computed, reused
        Keys of cells.
    failed
        Keys of cells that failed, with a sentence that names cell and error.
    errors
        The errors themselves.
    outdated
        How many cells were computed anew because something had changed, by its name.
    seconds
        Of computation, all workers together.
    """

    computed: list[str] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    outdated: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def changes(self) -> str:
        """A sentence about results that were made by other code; empty if there are none."""
        if not self.outdated:
            return ""
        names = ", ".join(
            f"{name} ({counted(number, 'cell')})" for name, number in self.outdated.items()
        )
        return f"Kept results are of other code, and are computed anew; changed: {names}."


def compute_cells(
    tasks: Mapping[str, Task],
    store: Shelf,
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
        Called after each cell that is computed.
    summary
        Filled as the run goes on: after an interruption it says what was done.

    Raises
    ------
    StoreError
        If results cannot be written, or workers die: the finished cells are kept.
    WorkersError
        If workers die and results are in memory alone.
    """
    summary = Summary() if summary is None else summary
    # Looked up once: what other runs add meanwhile is computed twice, and stored equally.
    there = set() if fresh else store.finished(tasks.keys())
    summary.reused += sorted(there)
    todo = [task for key, task in tasks.items() if key not in there]
    if not fresh:
        # Before anything is computed, so that an interrupted run can still report it.
        summary.outdated = store.outdated(todo)
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
    # Workers died, and with them nothing but the cells in progress.
    except WorkersError as error:
        if isinstance(store, Memory):
            raise
        raise StoreError(f"{error}. The finished cells are kept: run the same again") from None
    return summary


def _keep(task: Task, outcome: Outcome | Exception, store: Shelf, summary: Summary) -> None:
    """Put a finished cell on disk, or note why it failed: others do not fail with it."""
    if isinstance(outcome, Exception):
        cell = task.cell
        summary.failed[task.key] = (
            # By data and budget, since a key says nothing to a reader.
            f"{cell.population}, n = {cell.n}, ε = {cell.epsilon:g}: {outcome!r}"
        )
        summary.errors[task.key] = outcome
        return
    store.put(task, outcome)
    summary.computed.append(task.key)
    summary.seconds += outcome.seconds


def compute_behind_bar(
    tasks: Mapping[str, Task],
    store: Shelf,
    executor: Executor,
    *,
    fresh: bool = False,
    order: Callable[[Sequence[Task]], Sequence[Task]] | None = None,
    summary: Summary | None = None,
    wanted: bool | None = None,
) -> Summary:
    """Compute cells as ``compute_cells`` does, with a bar by cost: cells differ that much.

    The arguments are those of ``compute_cells``, and whether a bar is wanted (``progress.bar``).
    """
    total = sum(task.cell.cost for task in tasks.values())
    summary = Summary() if summary is None else summary
    with progress.bar(counted(len(tasks), "cell"), total, wanted=wanted) as advance:
        begun = False

        def finished(task: Task) -> None:
            nonlocal begun
            if not begun:
                # Cells that were there took no time.
                advance(sum(tasks[key].cell.cost for key in summary.reused))
                begun = True
            advance(task.cell.cost)

        return compute_cells(
            tasks, store, executor, fresh=fresh, order=order, finished=finished, summary=summary
        )
