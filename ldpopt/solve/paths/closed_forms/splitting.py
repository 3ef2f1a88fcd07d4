"""Any convex sum over values under an order: the slopes at a level tell who ends up above it.

Losses that pool by means have shorter forms (``orders``). Here are the others, absolute deviations
and Huber's among them, whose blocks take a median or have no formula.

A loss with kinks jumps: at one multiplier of the total many points are optimal, and the total lies
between the smallest and the largest of them. A mixture of the two is optimal as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.one_root import EXCESS, root, scale_of
from ldpopt.constraints.isotonic import ForestOrder
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.one_root import (
    UNBOUNDED,
    bracket_of_box,
    is_strictly_convex,
    reachable_bounds,
)
from ldpopt.solve.paths.closed_forms.orders import (
    on_support,
    require_bounds_in_order,
    taken_apart,
)
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Of a bracket by 4, to 1e30 times the estimates; of the sides of a root by 16.
_MAX_DOUBLINGS = 50
# Estimates between these are of order 1, the unit in which a bracket begins.
_ORDER_ONE = (2.0**-10, 2.0**10)
# A bracket goes no further: what is added to it has to stay a double.
_FARTHEST = 1e300
# Of a root, at which both of its sides are looked for first.
_NEAR = 2.0**-48
# Of the interval of all values, to which it is halved: what is nearer to a bound is at the bound.
_FINEST = 2.0**-63
# Halvings of a bracket of width 1: to the last bits of a slope of order 1.
_HALVINGS = 55
# Of a wider bracket, as slopes near the end of a loss's domain give it, at most so many more.
_MORE_HALVINGS = 80


@solves_family
def split_by_slopes(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the splitting of all values level by level, inside the root of the total."""
    d = estimate.d
    loss = formulation.loss
    if not (loss.adds_over_values and loss.convex):
        return None
    apart = taken_apart(formulation, d)
    order = None if apart is None else apart.order.forest
    if apart is None or order is None:
        return None
    rest = apart.rest
    name = "split by slopes" if rest.total(d) is None else "split by slopes, one root"
    return Match(name, lambda: _split_by_support(estimate, rest, order))


def _split_by_support(estimate: FrequencyEstimate, rest: Formulation, order: ForestOrder) -> Array:
    """Return what ``_split`` does, for trials with the same values at zero at a time."""
    d = estimate.d
    support = rest.loss.support(estimate)
    if support is None or support.all():
        return _split(estimate, rest, order, np.ones(d, dtype=bool))
    shape = estimate.frequencies.shape
    of_trials = np.broadcast_to(support, shape).reshape(-1, d)
    kinds, kind_of = np.unique(of_trials, axis=0, return_inverse=True)
    if len(kinds) == 1:
        return _split(estimate, rest, order, kinds[0])
    result = np.empty(shape)
    for number, kind in enumerate(kinds):
        chosen = (kind_of == number).reshape(shape[:-1])
        result[chosen] = _split(estimate[chosen], rest, order, kind)
    return result


def _split(
    estimate: FrequencyEstimate, rest: Formulation, order: ForestOrder, support: Mask
) -> Array:
    """Return the minimiser of a sum over values, under an order, bounds and at most one total.

    The loss lets the values of the support alone be positive.
    """
    d = estimate.d
    shape = estimate.frequencies.shape
    low, high = reachable_bounds(rest, estimate)
    # With them all values below them in the order are 0.
    stated = (low, np.where(support, high, np.minimum(high, 0.0)))
    lower, upper = order.bounds(*stated)
    require_bounds_in_order(rest, order, stated, (lower, upper))
    total = rest.total(d)
    lowest, highest = _range(estimate, rest, lower, upper)
    lower = np.maximum(lower, lowest)
    upper = np.minimum(upper, highest)
    ends = (np.array([[lowest]]), np.array([[highest]]))
    finest = _FINEST * (highest - lowest)

    def slopes_at(t: Array) -> Array:
        slopes = rest.loss.gradient(t.reshape(shape), estimate).reshape(t.shape)
        # A bound is an infinite slope.
        from_upper = np.where(t >= upper, np.inf, slopes)
        return np.where(t < lower, -np.inf, from_upper)

    count = int(np.prod(shape[:-1]))

    def minimiser(mu: Array) -> Array:
        wide = tuple(np.repeat(end, count, axis=0) for end in ends)
        f = order.by_slopes(lambda t: slopes_at(t) + mu, *wide)
        f = np.clip(f, lower, upper)
        f = np.where(f - lower <= finest, lower, f)
        return np.where(upper - f <= finest, upper, f)

    if total is None:
        f = minimiser(np.zeros((count, 1)))
    else:
        bracketed = _wide_bracket(estimate, rest, lower, upper)
        if is_strictly_convex(rest.loss):
            bracketed = _around_root(minimiser, bracketed, total)
            f = _with_total(minimiser, bracketed, 0, total)
        else:
            f = _with_total(minimiser, bracketed, _halvings(estimate, rest, bracketed), total)
    return on_support(f.reshape(shape), estimate, rest)


def _range(
    estimate: FrequencyEstimate, rest: Formulation, lower: Array, upper: Array
) -> tuple[float, float]:
    """Return an interval that holds all values of a minimiser in every trial.

    Without the total they are where the slopes change sign. The total moves all values in the same
    direction, and none by more than what is missing.
    """
    shape = estimate.frequencies.shape
    size = float(np.max(np.abs(estimate.frequencies), initial=0.0))
    if size == 0 or _ORDER_ONE[0] <= size <= _ORDER_ONE[1]:
        size = 1.0
    low = -size
    high = size
    for _ in range(_MAX_DOUBLINGS):
        slope_low = rest.loss.gradient(np.broadcast_to(np.maximum(lower, low), shape), estimate)
        slope_high = rest.loss.gradient(np.broadcast_to(np.minimum(upper, high), shape), estimate)
        # A value at its own bound may stay there, and no value is beyond it.
        is_low = np.all((slope_low <= 0) | (lower >= low)) and low <= upper.min()
        is_high = np.all((slope_high >= 0) | (upper <= high)) and high >= lower.max()
        if is_low and is_high:
            break
        if not is_low:
            low = max(4.0 * low, -_FARTHEST)
        if not is_high:
            high = min(4.0 * high, _FARTHEST)
    else:
        raise InvalidInputError(UNBOUNDED.format(rest.loss))
    total = rest.total(len(lower))
    missing = 0.0
    if total is not None:
        missing = abs(total) + len(lower) * max(-low, high)
    smallest = max(low - missing, float(lower.min()))
    return smallest, min(high + missing, float(upper.max()))


def _wide_bracket(
    estimate: FrequencyEstimate, rest: Formulation, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Return multipliers at which all values are surely at their upper and lower bounds."""
    low, high = bracket_of_box(rest.loss, estimate, lower, upper)
    # At a kink the slope of a bound is one of many, none of them steeper than on its other side.
    steepest = np.maximum(np.abs(low), np.abs(high))
    further = np.where(steepest > 0, steepest, 1.0)
    return low - further, high + further


def _halvings(estimate: FrequencyEstimate, rest: Formulation, ends: tuple[Array, Array]) -> int:
    """Return how often the multiplier's bracket is halved."""
    loss = rest.loss
    kinks = loss.kinks(loss.data(estimate), loss.constants(estimate))
    if loss.smooth_part is not None or len(kinks) != 1:
        low, high = ends
        width = max(float(np.max(high - low)), 1.0)
        return _HALVINGS + min(math.ceil(math.log2(width)), _MORE_HALVINGS)
    _, below, above = kinks[0]
    if np.ptp(above) > 0 or np.any(below != -above):
        return _HALVINGS
    # The slopes of blocks are multiples of one number, and their multipliers fractions of it: no
    # two are nearer than 1/d² of it, and one in the bracket is enough.
    return min(_HALVINGS, 4 + 2 * math.ceil(math.log2(max(estimate.d, 2))))


def _around_root(
    minimiser: Callable[[Array], Array], ends: tuple[Array, Array], total: float
) -> tuple[Array, Array]:
    """Return multipliers just below and above the one that has the total, for each trial.

    Without jumps a dozen multipliers lead there, where halving takes fifty.
    """
    low, high = ends
    trials = np.arange(len(low))

    def excess(mu: Array, active: NDArray[np.intp]) -> Array:
        # Slopes are those of all trials: the ones that are done are evaluated along.
        of_all = low.copy()
        of_all[active] = mu
        return np.asarray(minimiser(of_all[:, None])[active].sum(axis=-1) - total)

    mu = root(excess, ends, trials, EXCESS * scale_of(total))
    near = []
    for sign, end in ((-1.0, low), (1.0, high)):
        # In a small unit of the loss all multipliers are small.
        width = _NEAR * np.maximum(np.abs(mu), np.minimum(high - low, 1.0))
        side = mu
        for _ in range(_MAX_DOUBLINGS):
            side = np.clip(mu + sign * width, low, high)
            is_beyond = sign * excess(side, trials) <= 0
            if (is_beyond | (side == end)).all():
                break
            width = np.where(is_beyond, width, 16 * width)
        near.append(side)
    return near[0], near[1]


def _with_total(
    minimiser: Callable[[Array], Array],
    ends: tuple[Array, Array],
    halvings: int,
    total: float,
) -> Array:
    """Return the mixture of the points on both sides of the multiplier that has the total."""
    low, high = ends
    for _ in range(halvings):
        middle = low + (high - low) / 2
        is_above = minimiser(middle[:, None]).sum(axis=-1) > total
        low = np.where(is_above, middle, low)
        high = np.where(is_above, high, middle)
    largest = minimiser(low[:, None])
    smallest = minimiser(high[:, None])
    below = total - smallest.sum(axis=-1, keepdims=True)
    width = np.sum(largest - smallest, axis=-1, keepdims=True)
    share = np.divide(below, width, out=np.zeros_like(width), where=width > 0)
    mixed: Array = smallest + np.clip(share, 0.0, 1.0) * (largest - smallest)
    return mixed
