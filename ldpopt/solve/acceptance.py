"""The last look at a point before it is called optimal.

Is it in the set, and is its gap small?

Whatever a path says of its own point, ``Status.OPTIMAL`` promises what ``status.ACCURACIES`` states
for the accuracy:

- Violation. Checked for every point.
- Gap. On a box with at most one total it is checked for every point, in a few passes: a quick bound
  first, and the certificate itself only where that bound is too large. On other sets it is checked
  for points of solvers and algorithms, by a certificate that need not be better than the accuracy:
  that takes at most one program, looser than the one that the point is from. The closed forms on
  other sets are proved; their gap is computed when the certificate is read.

The quick bound counts the curvature of a loss only on boxes without a total and on the plane of a
total; the certificate counts it everywhere. Both are upper bounds, so that either may accept a
point.

A gap of infinity means that no bound is known, as on unbounded sets (see ``Certificate.gap``): it
does not make a point inaccurate. A loss of infinity does. Where a path stopped before it met its
own tolerances, its point is optimal only if a finite gap proves that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve import feasibility
from ldpopt.solve.certificate import box, certify, polyhedron
from ldpopt.solve.certificate.certificate import scale_of
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.quick_gap import quick_gap
from ldpopt.solve.status import ACCURACIES, Accuracy, Status

Array = NDArray[np.float64]


class Judgement(NamedTuple):
    """The status of a point, and why it is not optimal; the reason is empty if it is."""

    status: Status
    reason: str


def judge(
    formulation: Formulation,
    start: FrequencyEstimate,
    outcome: Outcome,
    plan: Plan,
    accuracy: Accuracy,
) -> Judgement:
    """Return the status that a path's point deserves at an accuracy.

    Raises
    ------
    InfeasibleError
        If the point violates the constraints because these contradict each other.
    """
    point = outcome.frequencies
    tolerances = ACCURACIES[accuracy]
    reasons = []
    violation = _largest(formulation.violation(point))
    # Written so that NaN counts as a violation.
    if not violation <= tolerances.violation * _size(point, violation):
        # A closed form does not look for conflicts, so that it may have solved what cannot be.
        feasibility.require_feasible(feasibility.conditions(formulation, None), start.d)
        reasons.append(f"the constraints are violated by {violation:.2g}")
    gap = _gap(formulation, start, point, plan, accuracy)
    # The absolute test comes first: it passes almost always, and spares the loss's value.
    if gap is not None and not _largest(gap) <= tolerances.gap:
        reasons += _doubts(formulation, start, point, gap, tolerances.gap)
    if outcome.status is not Status.OPTIMAL:
        # Solvers often stop short of tolerances that are tighter than these. A small gap proves
        # the point whatever they say; an infinite gap, or one of a convex part, proves nothing.
        is_small = not reasons and gap is not None and bool(np.isfinite(gap).all())
        if not (is_small and formulation.convex):
            reasons.insert(0, f"{plan.name} stopped before it met its tolerances")
    if reasons:
        return Judgement(Status.INACCURATE, ", and ".join(reasons))
    return Judgement(Status.OPTIMAL, "")


def _largest(values: Array) -> float:
    """Return the largest value of all trials, NaN if there is one."""
    # One vector has one value: a reduction of it would take ten times as long.
    return float(values if values.ndim == 0 else values.max())


def _size(point: Array, violation: float) -> float:
    """Return the largest |f_v|, at least 1; simply 1 where nothing is violated."""
    return max(1.0, float(np.max(np.abs(point)))) if violation > 0 else 1.0


def _gap(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    plan: Plan,
    accuracy: Accuracy,
) -> Array | None:
    """Return the certified gap of every trial, or None where it would cost too much."""
    if formulation.is_separate(start.d):
        gap = quick_gap(formulation, start, point)
        return box.gap(formulation, start, point) if gap is None else gap
    if plan.path == "closed-form":
        return None
    tolerance = ACCURACIES[accuracy].gap
    if formulation.constraints == formulation.convex_constraints:
        # The search for multipliers may end where they prove what the accuracy promises.
        gap = polyhedron.evidence(formulation, start, point, tolerance).gap
        value = formulation.loss.value(point, start)
        return np.where(np.isfinite(value), gap, np.inf)
    return certify(formulation, start, point).gap


def _doubts(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    gap: Array,
    tolerance: float,
) -> list[str]:
    """Return why gaps above an absolute tolerance make a point doubtful, if they do."""
    # The loss is evaluated here alone: points with a small absolute gap need no scale.
    value = formulation.loss.value(point, start)
    if not np.isfinite(value).all():
        return ["the loss is infinite there"]
    size = 1.0 + scale_of(formulation, start, point, value)
    if np.all(gap <= tolerance * size):
        return []
    if formulation.is_separate(start.d):  # there the gap so far is a quick bound of this one
        gap = certify(formulation, start, point).gap
    excessive = ~(gap <= tolerance * size) & ~np.isposinf(gap)
    if not excessive.any():
        return []
    return [f"its certified gap is {float(np.max(gap[excessive])):.2g}"]
