"""The judgement of a solver's stack, in several processes where that pays.

A problem of the user's own takes programs to judge, often longer than to solve. What goes to other
processes is the problem itself: one with a lambda cannot be sent, and is judged here.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import WorkersError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.executors import executor_for
from ldpopt.solve.acceptance.judge import Judgement, judge
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.programs.solvers import Running
from ldpopt.solve.status import Accuracy, Status

# Seconds of judging from which other processes pay: each takes 1.3 s to start.
_WORTHWHILE = 4.0


@dataclass(frozen=True, eq=False)
class _Case:
    """One trial to judge: what all trials share as bytes, and what is its own."""

    common: bytes
    start: FrequencyEstimate
    point: NDArray[np.float64]


def judged(
    formulation: Formulation,
    start: FrequencyEstimate,
    outcome: Outcome,
    plan: Plan,
    accuracy: Accuracy,
    running: Running,
) -> Judgement:
    """Return what ``judge`` does, from as many processes as have solved the stack.

    Notes
    -----
    Cost: with several workers the first trial is judged here, and tells if others pay.
    """
    workers = running.workers or os.cpu_count() or 1
    is_stack = outcome.frequencies.size > start.d
    common = None
    if workers > 1 and is_stack and plan.path == "conic":
        common = _packed(formulation, outcome, plan, accuracy)
    if common is None:
        return judge(formulation, start, outcome, plan, accuracy)
    trials = list(np.ndindex(outcome.frequencies.shape[:-1]))
    cases = (_Case(common, start[trial], outcome.frequencies[trial]) for trial in trials)
    doubtful = np.zeros(outcome.frequencies.shape[:-1], dtype=bool)
    for trial, status in zip(trials, _statuses(cases, len(trials), workers), strict=True):
        doubtful[trial] = status is not Status.OPTIMAL
    if not doubtful.any():
        return Judgement(Status.OPTIMAL, "")
    # Here, where the reason names the worst of them, and an error is raised.
    part = replace(outcome, frequencies=outcome.frequencies[doubtful])
    return judge(formulation, start[doubtful], part, plan, accuracy)


def _statuses(cases: Iterator[_Case], number: int, workers: int) -> Iterator[Status | None]:
    """Yield the status of each case; None where judging it has raised an error."""
    began = time.perf_counter()
    yield _status_of(next(cases))
    seconds = time.perf_counter() - began
    pays = seconds * (number - 1) > _WORTHWHILE
    for _, status in executor_for(workers if pays else 1).run(_status_of, cases, in_order=True):
        if isinstance(status, WorkersError):
            raise status
        yield None if isinstance(status, Exception) else status


def _packed(
    formulation: Formulation, outcome: Outcome, plan: Plan, accuracy: Accuracy
) -> bytes | None:
    """Return what all trials share as bytes; None where it cannot be sent."""
    # Without the functions that follow the plan, which nobody needs after the solve.
    stated = replace(plan, run=None, again=None, tighter=None)
    nothing = replace(outcome, frequencies=np.empty(0), stats=())
    try:
        return pickle.dumps((formulation, nothing, stated, accuracy))
    # Each kind of object fails in its own way.
    except Exception:
        return None


@lru_cache(maxsize=4)
def _unpacked(common: bytes) -> tuple[Any, Any, Any, Any]:
    formulation, outcome, plan, accuracy = pickle.loads(common)
    return formulation, outcome, plan, accuracy


def _status_of(case: _Case) -> Status:
    """Return the status of one trial."""
    formulation, outcome, plan, accuracy = _unpacked(case.common)
    of_trial = replace(outcome, frequencies=case.point)
    return judge(formulation, case.start, of_trial, plan, accuracy).status
