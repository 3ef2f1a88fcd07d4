"""Points that turn out to be inaccurate get a second try, and then one by another kind of solver.

A solver's tolerances are absolute, and mostly tighter ones are enough. Solvers also stop early for
reasons of their own: what one cannot solve is mostly easy for another. Only the trials whose points
nothing proves are solved again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import SolverError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.acceptance.judge import Judgement, judge
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.plan import Outcome, Plan, with_others
from ldpopt.solve.polish import polished_by_differences
from ldpopt.solve.status import Accuracy, Status


def remedy(plan: Plan) -> str:
    """Return what was tried for a point that is still inaccurate, and what is left to do."""
    if plan.again is not None:
        return (
            "another solver does no better: see its certificate, or allow more iterations or time"
        )
    if plan.path == "conic":
        # Its own point is returned, since the caller has named the solver or the path.
        return (
            "allow more iterations or time, or leave out solver and path: others are tried then, "
            "and the point is polished"
        )
    return "see its certificate, or allow more iterations or time"


def improved(
    formulation: Formulation,
    start: FrequencyEstimate,
    outcome: Outcome,
    judgement: Judgement,
    plan: Plan,
    accuracy: Accuracy,
) -> tuple[Outcome, Judgement]:
    """Return an outcome whose inaccurate points are replaced by optimal ones where there are such.

    Parameters
    ----------
    formulation, start, plan, accuracy
        What was solved, and how.
    outcome, judgement
        What came out, and what was made of it.

    Returns
    -------
    Both as they are where the plan has no other way, or that is no better.
    """
    if judgement.status is Status.OPTIMAL or not plan.further_tries:
        return outcome, judgement
    # The first outcome stays as it is: it is returned where nothing is better.
    points = outcome.frequencies.copy()
    seconds: list[Outcome] = []
    is_proved = True
    for trial in np.ndindex(points.shape[:-1]):
        estimate = start[trial]
        first = replace(outcome, frequencies=points[trial])
        # Of a single vector it is known.
        if points.ndim > 1 and _is_optimal(formulation, estimate, first, plan, accuracy):
            continue
        second = _optimal(formulation, estimate, first, plan, accuracy)
        if second is None:
            is_proved = False
        else:
            points[trial] = second.frequencies
            seconds.append(second)
    # Nothing changed: the first judgement is still right, and costs nothing.
    if not seconds:
        return outcome, judgement
    result = with_others(outcome, points, seconds)
    # All trials were proved one by one: to judge the stack again would repeat that.
    if is_proved:
        return result, Judgement(Status.OPTIMAL, "")
    return result, judge(formulation, start, result, plan, accuracy)


def _optimal(
    formulation: Formulation,
    estimate: FrequencyEstimate,
    first: Outcome,
    plan: Plan,
    accuracy: Accuracy,
) -> Outcome | None:
    """Return the first optimal outcome of further tries for one trial, None if there is none."""
    # The cheapest first, for points of solvers.
    if plan.tighter is not None:
        for improve in (_zeros, polished_by_differences):
            point = improve(formulation, estimate, first.frequencies)
            outcome = None if point is None else replace(first, frequencies=point)
            if outcome is not None and _is_optimal(formulation, estimate, outcome, plan, accuracy):
                return outcome
    for solve in plan.further_tries:
        try:
            outcome = solve(estimate)
        # A further try is a favour: its error must not hide the first point.
        except SolverError:
            continue
        if _is_optimal(formulation, estimate, outcome, plan, accuracy):
            return outcome
    return None


def _zeros(
    formulation: Formulation, estimate: FrequencyEstimate, point: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Return zeros where these are in the set and no worse than a point, else None.

    A loss that is 0 there has no size that tolerances could be relative to near its minimum.
    """
    zeros = np.zeros(point.shape)
    if np.any(formulation.violation(zeros) > 0):
        return None
    with np.errstate(all="ignore"):
        at_zero, at_point = (formulation.loss.value(f, estimate) for f in (zeros, point))
    return zeros if at_zero <= at_point else None


def _is_optimal(
    formulation: Formulation,
    estimate: FrequencyEstimate,
    outcome: Outcome,
    plan: Plan,
    accuracy: Accuracy,
) -> bool:
    """Return whether the point of one trial may be called optimal."""
    return judge(formulation, estimate, outcome, plan, accuracy).status is Status.OPTIMAL
