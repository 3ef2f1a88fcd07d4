"""Gap and multipliers on a box with at most one total: greedy fillings, for all trials at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Kinks, Loss
from ldpopt.solve.certificate.evidence import Evidence, weighted_sum
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# Distance at which the end of a loss's domain is a bound that holds: paths stay short of it by a
# billionth, so that ten times as much is safe.
_END = 1e-8

NEAR = 1e-9
"""Distance at which a bound holds: an interior point method leaves about this much."""


class _Bounds(NamedTuple):
    """Bounds of shape (d,) or that of the point, and the total or None."""

    lower: Array
    upper: Array
    total: float | None


def evidence(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Evidence:
    """Return gap, multipliers, and how well they explain the gradient."""
    loss = formulation.loss
    bounds = _bounds_at(formulation, start, point)
    kinks = loss.kinks(start)
    if kinks is None:
        gradient = loss.gradient(point, start)
        mu = _sum_multiplier(gradient, point, bounds)
        # A modulus of every trial: the smallest serves the whole stack.
        modulus = float(np.min(loss.strong_convexity(start)))
        gap = _smooth_gap(gradient, point, modulus, bounds, mu)
    else:
        mu = _kinked_multiplier(kinks, point, bounds)
        gap = loss.value(point, start) - _kinked_minimum(loss, start, kinks, bounds)
        # Of all subgradients the one that the multiplier of the total explains best.
        gradient = kinks.subgradient(point, np.broadcast_to(-mu[..., None], point.shape))
    multipliers, unexplained, products = _bound_multipliers(gradient, mu, point, bounds)
    return Evidence(
        gap=gap,
        stationarity=np.max(np.abs(unexplained), axis=-1),
        complementarity=np.max(products, axis=-1),
        sum_multiplier=mu,
        bound_multipliers=multipliers,
        row_multipliers=np.empty((*point.shape[:-1], 0)),
    )


def gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Array:
    """Return an upper bound of the loss above its minimum, in a few passes and without a sort.

    It is the gap of ``evidence`` but where values have upper bounds and a total: there the price
    of the total is estimated instead of found by sorting, so that this bound may be larger.
    """
    loss = formulation.loss
    bounds = _bounds_at(formulation, start, point)
    kinks = loss.kinks(start)
    if kinks is not None:
        return loss.value(point, start) - _kinked_minimum(loss, start, kinks, bounds)
    gradient = loss.gradient(point, start)
    lower, upper, total = bounds
    if total is not None and np.isfinite(lower).all():
        if np.isinf(upper).all():
            return _filling_gap(gradient, point, bounds)
        mu = _sum_multiplier(gradient, point, bounds)
        # Weak duality: at any price μ of the total the values come apart, and the maximum is at
        # least the gap of ``evidence``.
        excess = np.sum(point, axis=-1) - total
        apart = _apart_gap(gradient + mu[..., None], point, lower, upper)
        return np.asarray(apart - mu * excess)
    modulus = float(np.min(loss.strong_convexity(start)))
    mu = np.zeros(point.shape[:-1])
    if total is not None and not (np.isinf(lower) & np.isinf(upper)).all():
        mu = _sum_multiplier(gradient, point, bounds)
    return _smooth_gap(gradient, point, modulus, bounds, mu)


def _bounds_at(formulation: Formulation, start: FrequencyEstimate, point: Array) -> _Bounds:
    """Return the bounds of the problem, and the loss's end where the point has reached it.

    Beyond its end a loss is infinite, so that an end that is reached acts as a bound.
    """
    region = formulation.region(start.d)
    lower = region.lower
    upper = region.upper
    loss = formulation.loss
    first, last = loss.domain(loss.constants(start))
    if np.isfinite(first):
        lower = np.where(point - first <= _END, np.maximum(lower, first), lower)
    if np.isfinite(last):
        upper = np.where(last - point <= _END, np.minimum(upper, last), upper)
    return _Bounds(lower, upper, region.total)


def _bound_multipliers(
    gradient: Array, mu: Array, point: Array, bounds: _Bounds
) -> tuple[Array, Array, Array]:
    """Return multipliers, what they leave of the gradient, and |multiplier| times distance.

    A gradient that points out of the box is explained by the bound in its way, if it has one.
    """
    with np.errstate(invalid="ignore"):
        reduced = gradient + mu[..., None]
        pushes_down = reduced > 0
        has_bound = np.where(pushes_down, np.isfinite(bounds.lower), np.isfinite(bounds.upper))
        multipliers = np.where(has_bound, reduced, 0.0)
        unexplained = np.where(multipliers == reduced, 0.0, reduced)
        distance = np.where(pushes_down, point - bounds.lower, bounds.upper - point)
        no_product = (distance == 0) | (multipliers == 0)
        products = np.abs(multipliers) * np.maximum(distance, 0.0)
    return multipliers, unexplained, np.where(no_product, 0.0, products)


def _sum_multiplier(gradient: Array, point: Array, bounds: _Bounds) -> Array:
    """Return minus the mean gradient, weighted by the distance to the nearest bound; 0 if no total.

    At a bound the gradient does not determine the multiplier. Where some values have no bounds at
    all, these alone do.
    """
    if bounds.total is None:
        return np.zeros(point.shape[:-1])
    slack = np.minimum(point - bounds.lower, bounds.upper - point)
    free = np.isinf(slack)
    distance = np.maximum(np.where(free, 0.0, slack), 0.0)
    weights = np.where(free.any(axis=-1, keepdims=True), free, distance)
    # Where every value is at a bound all weights are 0, and so is then the multiplier.
    mass = np.maximum(np.sum(weights, axis=-1), np.finfo(np.float64).tiny)
    return np.asarray(-weighted_sum(gradient, weights) / mass)


def _kinked_multiplier(kinks: Kinks, point: Array, bounds: _Bounds) -> Array:
    """Return the multiplier nearest to 0 that subgradients and bounds can explain; 0 if no total.

    Each value limits μ: -(largest slope) <= μ unless its upper bound pushes down, and
    μ <= -(smallest slope) unless its lower bound pushes up. Where limits cross, their middle
    leaves the least unexplained.
    """
    if bounds.total is None:
        return np.zeros(point.shape[:-1])
    # At a kink every slope between the two sides is a subgradient: these are the ends.
    smallest_slope = kinks.subgradient(point, np.full(point.shape, -np.inf))
    largest_slope = kinks.subgradient(point, np.full(point.shape, np.inf))
    at_lower = point - bounds.lower <= NEAR
    at_upper = bounds.upper - point <= NEAR
    low = np.where(at_upper, -np.inf, -largest_slope).max(axis=-1)
    high = np.where(at_lower, np.inf, -smallest_slope).min(axis=-1)
    with np.errstate(invalid="ignore"):  # of infinite limits, which do not cross
        return np.asarray(np.where(low <= high, np.clip(0.0, low, high), (low + high) / 2))


def _smooth_gap(gradient: Array, f: Array, modulus: float, bounds: _Bounds, mu: Array) -> Array:
    """Return an upper bound of L(f) - min L over the bounds with the total; any μ gives one."""
    lower, upper, total = bounds
    unbounded = bool((np.isinf(lower) & np.isinf(upper)).all())
    if modulus > 0 and (total is None or unbounded):
        # The maximiser s of <g, f-s> - m/2 ‖f-s‖² is the projection of f - g/m, which is a clip
        # or a shift on these sets. Its step f - s is clipped or shifted in place: on long vectors
        # fresh memory costs more than arithmetic.
        step = gradient / modulus
        if total is None:
            np.minimum(step, f - lower, out=step)
            if np.isfinite(upper).any():
                np.maximum(step, f - upper, out=step)
        else:
            excess = np.sum(f, axis=-1, keepdims=True) - total
            step += (excess - np.sum(step, axis=-1, keepdims=True)) / f.shape[-1]
        return weighted_sum(gradient, step) - modulus / 2 * weighted_sum(step, step)
    if total is None:
        return _apart_gap(gradient, f, lower, upper)
    if np.isfinite(upper).all():
        # With the others at their upper bounds the total bounds every value from below.
        lower = np.maximum(lower, total - (upper.sum(axis=-1, keepdims=True) - upper))
    if np.isfinite(lower).all():
        return _filling_gap(gradient, f, _Bounds(lower, upper, total))
    if modulus > 0:
        # With the total in the objective, at the price μ, values do not interact.
        slope = gradient + mu[..., None]
        s = np.clip(f - slope / modulus, lower, upper)
        apart = np.sum(slope * (f - s) - modulus / 2 * (f - s) ** 2, axis=-1)
        return np.asarray(apart - mu * (np.sum(f, axis=-1) - total))
    # No bound is known but for a gradient that is the same everywhere: then all s are as good.
    flat = np.all(gradient == gradient[..., :1], axis=-1)
    excess = np.sum(f, axis=-1) - total
    return np.where(flat & unbounded, gradient[..., 0] * excess, np.inf)


def _apart_gap(gradient: Array, f: Array, lower: Array, upper: Array) -> Array:
    """Return max <g, f - s> over a box: every value goes to the end that its gradient points to."""
    with np.errstate(invalid="ignore"):
        end = np.where(gradient > 0, lower, np.where(gradient < 0, upper, f))
        # The gradient may be infinite at an end that is reached, and 0 times that would be NaN.
        stays = f == end
        terms = np.where(stays, 0.0, gradient * (f - end))
    return np.asarray(np.sum(terms, axis=-1))


def _filling_gap(gradient: Array, f: Array, bounds: _Bounds) -> Array:
    """Return max <g, f - s> over finite lower bounds, upper bounds and the total."""
    minimum = _greedy_minimum(gradient, bounds)
    return np.asarray(weighted_sum(gradient, f) - minimum)


def _greedy_minimum(gradient: Array, bounds: _Bounds) -> Array:
    """Return min <g, s>: from the lower bounds, values fill up where the gradient is least."""
    lower, upper, total = bounds
    assert total is not None
    base = np.zeros(gradient.shape[:-1])
    if lower.any():
        base = weighted_sum(gradient, np.broadcast_to(lower, gradient.shape))
    amount = np.broadcast_to(total - lower.sum(axis=-1), base.shape)
    if np.isinf(upper).all():  # without the arrays of slack: this is every simplex
        cheapest = np.min(gradient, axis=-1, keepdims=True)
        return np.asarray(base + weighted_sum(cheapest, np.maximum(amount, 0.0)[..., None]))
    slack = np.broadcast_to(upper - lower, gradient.shape)
    return np.asarray(base + _fill(gradient, slack, amount))


def _fill(price: Array, slack: Array, amount: Array) -> Array:
    """Return the least cost of placing an amount where there is slack, at a price per unit.

    The cost is 0 for an amount that is not positive.
    """
    amount = np.maximum(amount, 0.0)
    if np.isinf(slack).all():
        return weighted_sum(np.min(price, axis=-1, keepdims=True), amount[..., None])
    # A fractional knapsack: cheapest first is optimal (Dantzig 1957).
    order = np.argsort(price, axis=-1)
    # No value takes more than the whole amount. Without the cut an infinite slack would leave inf -
    # inf in the difference below.
    capacity = np.minimum(np.take_along_axis(slack, order, axis=-1), amount[..., None])
    before = np.cumsum(capacity, axis=-1) - capacity
    filled = np.clip(amount[..., None] - before, 0.0, capacity)
    return weighted_sum(np.take_along_axis(price, order, axis=-1), filled)


def _kinked_minimum(loss: Loss, start: FrequencyEstimate, kinks: Kinks, bounds: _Bounds) -> Array:
    """Return min L: the kinks clipped to the box, then moved to the total where it costs least."""
    lower, upper, total = bounds
    clipped = np.clip(kinks.place, lower, upper)
    minimum = loss.value(clipped, start)
    if total is None:
        return minimum
    missing = total - clipped.sum(axis=-1)
    # A value off its kink lies at the bound beside it. It can only move away from the kink, so that
    # its slope lasts.
    rising = np.where(clipped >= kinks.place, kinks.above, kinks.below)
    falling = -np.where(clipped <= kinks.place, kinks.below, kinks.above)
    rise = _fill(rising, upper - clipped, missing)
    fall = _fill(falling, clipped - lower, -missing)
    return np.asarray(minimum + rise + fall)
