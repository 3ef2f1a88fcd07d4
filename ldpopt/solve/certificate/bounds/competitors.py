"""Bounds of what can compete with a point: every vector of finite loss in the set lies in them.

The tighter they are, the less a residual costs, so that everything known counts: the bounds that
are stated, the ends of the loss's own domain, what a total leaves for one value, and, on polyhedra,
what the rows say about each variable (bound propagation). Every bound is rounded outward.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import LinearInequalities
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.certificate.bounds.dual import EPS, sum_with_error
from ldpopt.solve.certificate.bounds.intervals import Box, Entries, RowTerms
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]

AT_END = 1e-8
"""Distance at which the end of a loss's domain counts as reached, of an end up to 1.

Paths stay short of it by a billionth, so that ten times as much is safe.
"""

# Rounds of propagation: each carries a bound from the variables of a row to another one of it.
# Orders that are forests are propagated whole before; the longest other chains are short.
_ROUNDS = 100


def at_end(end: float) -> float:
    """Return the distance at which this end counts as reached: relative to a large one."""
    return AT_END * max(abs(end), 1.0) if np.isfinite(end) else AT_END


def domain_of(loss: Loss, start: FrequencyEstimate) -> tuple[float, float]:
    """Return the ends of the interval of f_v in which the loss is finite."""
    # The numbers that a loss computes for its solver may take a pass over its weights.
    if type(loss).domain is Loss.domain:
        return -np.inf, np.inf
    return loss.domain(loss.constants(start))


def stated(region: Region, point: Array, domain: tuple[float, float]) -> Box:
    """Return the bounds that have multipliers: those of constraints, and an end that is reached.

    Beyond its domain a loss is infinite, and so is a divergence, so that an end that the point has
    reached acts as a bound.
    """
    lower, upper = ends_of(region)
    first, last = domain
    if np.isfinite(first):
        lower = np.where(point - first <= at_end(first), np.maximum(lower, first), lower)
    if np.isfinite(last):
        upper = np.where(last - point <= at_end(last), np.minimum(upper, last), upper)
    return Box(lower, upper)


def domain_of_all(formulation: Formulation, start: FrequencyEstimate) -> tuple[float, float]:
    """Return the interval in which the loss is finite and so are the divergences of all balls.

    A ball has no finite multiplier for what its divergence keeps at 0, where its slope is infinite.
    """
    first, last = domain_of(formulation.loss, start)
    balls, _ = formulation.around_balls()
    return (max(first, 0.0) if any(ball.norm == "kl" for ball in balls) else first), last


def reach(loss: Loss, start: FrequencyEstimate, region: Region) -> Box:
    """Return what bounds, total, domain and support say about the values."""
    lower, upper = reach_of_box(loss, start, region)
    support = loss.support(start)
    if support is not None:
        lower = np.where(support, lower, 0.0)
        upper = np.where(support, upper, 0.0)
    return Box(lower, upper)


def reach_of_box(loss: Loss, start: FrequencyEstimate, region: Region) -> Box:
    """Return the same without the support, which takes an array of its own."""
    lower, upper = ends_of(region)
    first, last = domain_of(loss, start)
    if np.isfinite(first):
        lower = np.maximum(lower, first - 8 * EPS * abs(first))
    if np.isfinite(last):
        upper = np.minimum(upper, last + 8 * EPS * abs(last))
    if region.total is not None:
        lower, upper = _within_total(lower, upper, region.total, start.d)
    return Box(lower, upper)


def within_sublevel(
    loss: Loss, start: FrequencyEstimate, point: Array, limits: Box, *, is_box: bool = False
) -> Box:
    """Return the limits with bounds of what has no larger loss than the point, where some miss.

    A vector of larger loss does not compete: that the gap is at least 0 covers it. On a box
    (``is_box``) a loss that is curved everywhere needs no bounds.
    """
    if np.isfinite([end.min() for end in limits] + [end.max() for end in limits]).all():
        return limits
    if is_box and loss.adds_over_values and float(np.min(loss.curvature(start))) > 0:
        return limits
    level = loss.value(point, start)
    ends = loss.sublevel(level, start) if np.isfinite(level).all() else None
    if ends is None:
        return limits
    return Box(np.maximum(limits.lower, ends[0]), np.minimum(limits.upper, ends[1]))


def ends_of(region: Region) -> Box:
    """Return the bounds of a region, each of shape (1,) where it is the same number for all."""
    lower = np.zeros(1) if region.lower_is_zero else _as_one(region.lower, region.lower_count)
    return Box(lower, _as_one(region.upper, region.upper_count))


def _as_one(bound: Array, finite_count: int) -> Array:
    """Return one number if all bounds are that number, else the bounds."""
    if finite_count == 0:
        return bound[:1]
    # One look for its extremes costs less than any array that is computed from a long vector.
    is_even = finite_count == len(bound) and bound.min() == bound.max()
    return bound[:1] if is_even else bound


def _within_total(lower: Array, upper: Array, total: float, d: int) -> tuple[Array, Array]:
    """Return the bounds with what the total leaves for a value when all others are at theirs."""
    highest = _left_by_others(lower, total, d, outward=1)
    lowest = _left_by_others(upper, total, d, outward=-1)
    if np.ndim(lowest) or np.isfinite(lowest):
        lower = np.maximum(lower, lowest)
    if np.ndim(highest) or np.isfinite(highest):
        upper = np.minimum(upper, highest)
    return lower, upper


def _left_by_others(bound: Array, total: float, d: int, outward: int) -> Array | float:
    """Return what all others at their bounds leave of a total, rounded outward.

    The total itself if they are at 0, and infinite where one of them has no bound.
    """
    # The two cases of every simplex come first: they need no further array.
    if not bound.any():
        return total
    if bound.shape[-1] == 1 and d > 1:
        others = (d - 1) * float(bound[0])
        # A steep loss makes the last bit of a bound count.
        rounding = EPS * (abs(total - others) + 2 * abs(others))
        return total - others + outward * rounding
    bound = np.broadcast_to(bound, (*bound.shape[:-1], d))
    infinite = np.isinf(bound)
    if np.count_nonzero(infinite) > 1:
        return outward * np.inf
    finite = np.where(infinite, 0.0, bound) if infinite.any() else bound
    size, error = sum_with_error(finite)
    rest = np.asarray(total - size)
    largest = np.abs(finite).max(axis=-1)
    error = error + EPS * (np.abs(rest) + np.abs(size) + largest)
    # What all leave, and its own bound.
    left = (rest + outward * error)[..., None] + finite
    # One infinite bound leaves a finite sum to its own value alone.
    is_known = np.count_nonzero(infinite) - infinite == 0
    return left if is_known.all() else np.where(is_known, left, outward * np.inf)


def propagated(system: LinearInequalities, lower: Array, upper: Array) -> Box:
    """Return bounds of all variables of linear inequalities, from some that are known.

    Parameters
    ----------
    system
        lower <= A x <= upper without auxiliary variables apart.
    lower, upper
        Bounds of x, shape (columns of A,), infinite where unknown.

    Notes
    -----
    In each row, a variable is bounded by what the others leave to it when they are at their own
    bounds. Cost: a few passes over the entries of A per round; rounds end when nothing changes.
    """
    entries = Entries.of(system.matrix)
    count = len(system.lower)
    lower = lower.copy()
    upper = upper.copy()
    for _ in range(_ROUNDS):
        before = _extent(lower, upper)
        RowTerms(entries, count, lower, upper).tighten(system.lower, system.upper, lower, upper)
        # What tightens a little may go on for ever: news are bounds where there was none, and
        # values that are fixed.
        if _extent(lower, upper) == before:
            break
    return Box(lower, upper)


def _extent(lower: Array, upper: Array) -> tuple[int, int, int]:
    """Return how many lower and upper bounds there are, and how many values they fix."""
    return (
        int(np.count_nonzero(np.isfinite(lower))),
        int(np.count_nonzero(np.isfinite(upper))),
        int(np.count_nonzero(lower >= upper)),
    )


def no_bound(limits: Box) -> str:
    """Return why no gap is known: the first value without a bound, or an infinite gradient."""
    unbounded = np.atleast_2d(np.isinf(limits.lower) | np.isinf(limits.upper)).any(axis=0)
    if not unbounded.any():
        return "the gradient is infinite at the point"
    return (
        f"value {int(np.argmax(unbounded))} is not bounded by the constraints, and the loss may "
        "fall towards infinity: state bounds or a total"
    )
