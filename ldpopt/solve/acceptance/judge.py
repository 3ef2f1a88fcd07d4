"""The last look at a point before it is called optimal.

Is it in the set, and is its gap small?

Whatever a path says of its own point, ``Status.OPTIMAL`` promises what ``status.ACCURACIES`` states
for the accuracy:

- Violation. Checked for every point; of long vectors mostly by the sweeps that prove the gap.
- Gap. Checked for every point too: an optimal point is a certified one. On a box with at most one
  total that takes a few passes: a quick bound first, and the certificate itself only where that
  bound is too large. So are the closed forms on orders, trees and groups, in balls, and with few
  values. All other points are checked by a certificate that need not be better than the accuracy,
  and takes programs where the rows that hold do not prove as much.

The quick bound counts the curvature of a loss only on boxes without a total and on the plane of a
total; the certificate counts it everywhere. Both are upper bounds, so that either may accept a
point.

A gap of infinity means that no bound is known, as on some unbounded sets (see
``Certificate.gap``): such a point may be right, but nothing proves it, and its status says so. A
path that stopped before it met its own tolerances may have come to an optimal point all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.adjustable import is_from_outside
from ldpopt.constraints import Constraint
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve import feasibility
from ldpopt.solve.acceptance.margin_gap import margin_gap
from ldpopt.solve.acceptance.order_gap import order_gap
from ldpopt.solve.acceptance.quick_gap import (
    is_outside_domain,
    of_bounds,
    of_total,
    quick_gap,
)
from ldpopt.solve.acceptance.slope_gap import slope_gap
from ldpopt.solve.acceptance.variation_gap import variation_gap
from ldpopt.solve.acceptance.vertex_gap import vertex_gap
from ldpopt.solve.certificate import certify
from ldpopt.solve.certificate.bounds.evidence import (
    VANISHING,
    Measured,
    SizedGap,
    is_within,
    largest_size,
)
from ldpopt.solve.certificate.box import box, few_values
from ldpopt.solve.certificate.box.long_box import least_stake, long_bound
from ldpopt.solve.certificate.certificate import (
    scale_of,
    share_at_stake,
    terms_of,
    vanishes,
    why_infinite,
)
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.certificate.prices.ball_gap import ball_gap
from ldpopt.solve.certificate.prices.own_ball_gap import own_ball_gap
from ldpopt.solve.certificate.prices.pooled_gap import pooled_gap
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.status import ACCURACIES, Accuracy, Status, Tolerances

Array = NDArray[np.float64]


# Values of a long vector that are looked at before all of them.
_SOME = 4096

# Where slopes times frequencies sum to more, the loss itself, a square say, may be no double: then
# nothing is small beside it.
_HUGE = 1e150

# Where they sum to more, multipliers may be too large for a certificate to use.
_TOO_STEEP = 1e295


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
    # First: on its way it may measure what the violation would take long for.
    quick = _quick_bound(formulation, start, point, plan, tolerances.gap)
    violation = _violation(formulation, point, () if quick is None else quick.measured)
    if not _is_met(formulation, start, violation, point, tolerances):
        # A closed form does not look for conflicts, so that it may have solved what cannot be.
        feasibility.require_feasible(feasibility.conditions(formulation, None), start.d)
        worst = _worst(formulation, point)
        reasons.append(f"{worst} is violated by {_largest(violation):.2g}")
    bound = _bound(formulation, start, point, plan, accuracy, quick)
    # This test comes first: it passes almost always, and spares the loss's value.
    is_small = is_within(bound.gap, bound.terms, tolerances.gap)
    if not is_small or np.any(bound.terms > _HUGE):
        reasons += _doubts(formulation, start, point, bound, tolerances.gap)
    # Solvers often stop short of tolerances that are tighter than these: a small gap proves the
    # point whatever they say of it. That of a convex part alone does not.
    if outcome.status is not Status.OPTIMAL and (reasons or not formulation.convex):
        reasons.insert(0, f"{plan.name} stopped before it met its tolerances")
    if reasons:
        *first, last = reasons
        listed = f"{', '.join(first)} and {last}" if first else last
        return Judgement(Status.INACCURATE, listed)
    return Judgement(Status.OPTIMAL, "")


def _violation(formulation: Formulation, point: Array, measured: Sequence[Measured]) -> Array:
    """Return the largest violation of a constraint, given those of some of them."""
    # A class of the user's measures it in a way of its own.
    measured = [one for one in measured if not is_from_outside(type(one.constraint))]
    if not measured:
        return formulation.violation(point)
    looked_at = {id(one.constraint) for one in measured}
    others = tuple(one for one in formulation.constraints if id(one) not in looked_at)
    result = formulation.under(others).violation(point)
    for one in measured:
        result = np.maximum(result, one.violation)
    return result


def _largest(values: Array) -> float:
    """Return the largest value of all trials, NaN if there is one."""
    # One vector has one value: a reduction of it would take ten times as long.
    return float(values if values.ndim == 0 else values.max())


def _worst(formulation: Formulation, point: Array) -> str:
    """Return the name of the constraint that is violated most."""

    def violation(constraint: Constraint) -> float:
        largest = _largest(constraint.violation(point))
        # What is not a number is worse than any.
        return np.inf if np.isnan(largest) else largest

    worst = max(formulation.constraints, key=violation)
    return worst.name or repr(worst)


def _is_met(
    formulation: Formulation,
    start: FrequencyEstimate,
    violation: Array,
    point: Array,
    tolerances: Tolerances,
) -> bool:
    """Return whether each trial is in the set but for rounding, in the set's units or its own."""
    largest = _largest(violation)
    total = formulation.region(start.d).total
    # Mostly nothing is violated but a total of 1. NaN counts as a violation.
    is_usual = total is not None and abs(total) >= 1
    if largest == 0 or (is_usual and largest <= tolerances.violation):
        return True
    # Huge frequencies of one trial excuse nothing in another. Some values are mostly large enough.
    for values in (point[..., :_SOME], point):
        if np.all(violation <= tolerances.violation * largest_size(values)):
            return True
    # The size of a set may take a look at all its numbers.
    return largest <= tolerances.violation * formulation.size(start)


def _quick_bound(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    plan: Plan,
    tolerance: float,
) -> SizedGap | None:
    """Return a bound of a long vector on a box, or of a closed form's point by the slopes there."""
    if formulation.is_separate(start.d):
        return _of_long_box(formulation, start, point, tolerance)
    if plan.path != "closed-form" or not formulation.has_convex_set:
        return None
    quick = None
    # Of kinks that several values share ``box`` knows more slopes than the others.
    on_box = box.applies(formulation, start.d)
    others = (vertex_gap, order_gap, slope_gap, margin_gap)
    for of_slopes in (variation_gap,) if on_box else others:
        quick = of_slopes(formulation, start, point) or quick
        if quick is not None and _is_small(quick, tolerance):
            break
    return quick


def _of_long_box(
    formulation: Formulation, start: FrequencyEstimate, point: Array, tolerance: float
) -> SizedGap | None:
    """Return the bound of compiled sweeps, and the violations that they have seen.

    It is in units of what is at stake where that proves it, and the slopes do not: all slopes
    vanish at a minimum without constraints.
    """
    proof = long_bound(formulation, start, point)
    if proof is None:
        return None
    region = formulation.region(start.d)
    measured = of_total(formulation, region, proof.size)
    if proof.outside is not None:
        measured += of_bounds(formulation, region, proof.outside)
    _, gap, terms = proof.bound
    if point.ndim == 1 and not is_within(gap, terms, tolerance):
        stake = least_stake(formulation, start, point, proof.seen[0])
        if stake is not None and is_within(gap, np.asarray(stake), tolerance):
            terms = np.asarray(stake)
    return SizedGap(gap, terms, tuple(measured))


def _bound(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    plan: Plan,
    accuracy: Accuracy,
    quick: SizedGap | None,
) -> SizedGap:
    """Return a bound of the gap of every trial: the quick one where that is small."""
    tolerance = ACCURACIES[accuracy].gap
    if quick is not None and _is_small(quick, tolerance):
        return quick
    enough: Array | float = 0.0
    if plan.path == "conic":
        # No multipliers make a solver's gap as small as rounding. Slopes of kinks may vanish.
        terms = terms_of(formulation, start, point)
        value = np.abs(formulation.loss.value(point, start))
        enough = tolerance * np.where(np.isfinite(terms), np.maximum(terms, value), value)
    is_separate = formulation.is_separate(start.d)
    if is_separate:
        # Compiled sweeps over long vectors take no longer than a gradient and what follows from it.
        if quick is not None:
            return quick
        of_slopes = quick_gap(formulation, start, point)
        if of_slopes is not None:
            return of_slopes
    # Outside, slopes prove nothing. The quick proofs above end before the loss's domain does.
    if is_outside_domain(formulation.loss, start, point):
        shape = point.shape[:-1]
        return SizedGap(np.full(shape, np.inf), np.ones(shape))
    if is_separate:
        _, gap, terms = box.bound(formulation, start, point, enough)
        return SizedGap(gap, terms)
    is_convex = formulation.has_convex_set
    bound: SizedGap | None = None
    # Multipliers that follow from the gradient come first, also for the points of solvers: they
    # take no program.
    if is_convex:
        bound = _at_hand(formulation, start, point, enough) or quick
    elif plan.path == "closed-form":
        bound = few_values.quick_gap(formulation, start, point)
    # Of a kink that takes one slope only, and of the curvature nothing.
    if is_convex and not _is_small(bound, tolerance):
        in_ball = ball_gap(formulation, start, point, enough)
        if in_ball is None:
            in_ball = own_ball_gap(formulation, start, point, tolerance)
        bound = in_ball or bound
    # The only slope of a largest deviation may be that of a value at 0: then the terms vanish.
    if bound is not None and not _is_small(bound, tolerance):
        size = scale_of(formulation, start, point, bound.terms)
        # An infinite loss is no measure of a gap.
        bound = SizedGap(bound.gap, np.where(np.isfinite(size), size, bound.terms))
    # A bound that is too large may be one that knows too little.
    if bound is not None and _is_small(bound, tolerance):
        return bound
    if is_convex:
        return _by_programs(formulation, start, point, tolerance)
    certificate = certify(formulation, start, point)
    return SizedGap(certificate.gap, certificate.scale)


def _is_small(bound: SizedGap | None, tolerance: float) -> bool:
    """Return whether a bound is known and proves the accuracy."""
    return bound is not None and is_within(bound.gap, bound.terms, tolerance)


def _at_hand(
    formulation: Formulation, start: FrequencyEstimate, point: Array, enough: Array | float
) -> SizedGap | None:
    """Return the bound of multipliers that follow from the gradient; None for other sets."""
    if not box.applies(formulation, start.d):
        return pooled_gap(formulation, start, point, enough)
    _, gap, terms = box.bound(formulation, start, point, enough)
    return SizedGap(gap, terms)


def _by_programs(
    formulation: Formulation, start: FrequencyEstimate, point: Array, tolerance: float
) -> SizedGap:
    """Return the bound of multipliers at hand, or of programs where these prove too little."""
    value = formulation.loss.value(point, start)
    is_defined = np.isfinite(value)
    # The search for multipliers may end where they prove what the accuracy promises: it counts in
    # units of the terms alone, which may be small beside what is at stake.
    terms = terms_of(formulation, start, point)
    size = scale_of(formulation, start, point, terms, value)
    share = share_at_stake(size, terms)
    # With kinks the terms of a program are others than these.
    sufficient = (
        tolerance * share if formulation.loss.smooth_part is formulation.loss else tolerance
    )
    evidence = polyhedron.evidence(formulation, start, point, sufficient)
    return SizedGap(np.where(is_defined, evidence.gap, np.inf), evidence.terms)


def _doubts(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    bound: SizedGap,
    tolerance: float,
) -> list[str]:
    """Return why gaps that are not obviously small make a point doubtful, if they do."""
    # The loss is evaluated here alone: points with a small gap need no more than its gradient.
    value = formulation.loss.value(point, start)
    if not np.isfinite(value).all():
        return [why_infinite(formulation.loss, start, point)]
    gap = bound.gap
    # A part of the scale is often enough: all of it takes the loss at 0 as well.
    is_steep = np.any(bound.terms > _TOO_STEEP)
    is_usual = not is_steep and not vanishes(formulation, start, point, bound.terms).any()
    if is_usual and is_within(gap, np.abs(value - formulation.loss.offset(start)), tolerance):
        return []
    scale = scale_of(formulation, start, point, bound.terms, value)
    if not is_steep and is_within(gap, scale, tolerance):
        return []
    # The bound so far was a quick one, or the search for it ended early, by looser programs: that
    # it is large proves nothing against the point. The slopes at kinks are the certificate's too,
    # and with them its scale.
    certificate = certify(formulation, start, point)
    size = np.asarray(certificate.scale)
    # A quick bound does not see what vanishes below the smallest doubles.
    is_lost = is_steep | (size < VANISHING)
    gap = np.where(is_lost, certificate.gap, np.fmin(gap, certificate.gap))
    excessive = gap[~(gap <= np.where(np.isfinite(size), tolerance * size, 0.0))]
    if not excessive.size:
        return []
    if np.isinf(excessive).any():
        return [f"no bound of its gap is known: {certificate.reason}"]
    return [f"its certified gap is {float(np.max(excessive)):.2g}"]


def size_of(
    formulation: Formulation, start: FrequencyEstimate, point: Array, value: Array
) -> Array:
    """Return what the promise of a gap is relative to: the certificate's ``scale``.

    ``value`` is the loss at the point, shape (...).
    """
    terms = terms_of(formulation, start, point)
    return scale_of(formulation, start, point, terms, value)
