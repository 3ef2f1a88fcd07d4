"""Gap and multipliers on a box with at most one total: greedy fillings, for all trials at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import norm
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.evidence import Evidence, weighted_sum

if TYPE_CHECKING:
    from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]
_END = 1e-8  # distance at which a loss has ended: paths stay short of it by a billionth
NEAR = 1e-9  # distance at which a bound holds: an interior point method leaves about this much


def evidence(problem: Problem, start: FrequencyEstimate, point: Array) -> Evidence:
    """Return gap, multipliers, and how well they explain the gradient."""
    lower, upper = problem.box(start.d)
    loss, total = problem.loss, problem.total
    first, last = loss.domain(
        loss.constants(start)
    )  # beyond it the loss is infinite: an end that is reached is a bound
    lower = np.where(point - first <= _END, np.maximum(lower, first), lower)
    upper = np.where(last - point <= _END, np.minimum(upper, last), upper)
    gradient = loss.gradient(point, start)
    below, above = point - lower, upper - point
    mu = np.zeros(point.shape[:-1])
    kinks = loss.kinks(start)
    if kinks is None:
        if total is not None:
            mu = _sum_multiplier(gradient, np.minimum(below, above))
        gap = _box_gap(gradient, point, loss.strong_convexity(), total, lower, upper, mu)
    else:
        if total is not None:
            least, most = (
                kinks.subgradient(point, np.full(point.shape, end)) for end in (-np.inf, np.inf)
            )
            mu = _kinked_multiplier(least, most, below <= NEAR, above <= NEAR)
        gap = loss.value(point, start) - _kinked_minimum(problem, start, kinks, lower, upper)
        gradient = kinks.subgradient(point, np.broadcast_to(-mu[..., None], point.shape))
    with np.errstate(invalid="ignore"):
        reduced = gradient + mu[..., None]
        # A gradient that points out of the box is explained by the bound in its way.
        multipliers = np.where(
            np.where(reduced > 0, np.isfinite(lower), np.isfinite(upper)), reduced, 0.0
        )
        distance = np.where(reduced > 0, below, above)
        products = np.where(
            (distance == 0) | (multipliers == 0),
            0.0,
            np.abs(multipliers) * np.maximum(distance, 0.0),
        )
        unexplained = np.where(multipliers == reduced, 0.0, reduced)
    return Evidence(
        gap=gap,
        stationarity=np.max(np.abs(unexplained), axis=-1),
        complementarity=np.max(products, axis=-1),
        sum_multiplier=mu,
        bound_multipliers=multipliers,
        row_multipliers=np.empty((*point.shape[:-1], 0)),
    )


def _sum_multiplier(gradient: Array, room: Array) -> Array:
    """Return minus the mean gradient, weighted by how far a value is from its bounds: at a bound it tells nothing.

    Where values have no bounds at all they alone tell.
    """
    free = np.isinf(room)
    weights = np.where(
        free.any(axis=-1, keepdims=True), free, np.maximum(np.where(free, 0.0, room), 0.0)
    )
    mass = np.maximum(np.sum(weights, axis=-1), np.finfo(np.float64).tiny)
    return np.asarray(-weighted_sum(gradient, weights) / mass)


def _kinked_multiplier(
    least: Array, most: Array, at_lower: NDArray[np.bool_], at_upper: NDArray[np.bool_]
) -> Array:
    """Return the multiplier nearest to 0 that subgradients between ``least`` and ``most``, and bounds, can explain.

    Each value sets limits: -most <= μ unless its upper bound pushes down, μ <= -least unless its lower one pushes up. Where
    limits cross, the middle leaves least unexplained.
    """
    low = np.where(at_upper, -np.inf, -most).max(axis=-1)
    high = np.where(at_lower, np.inf, -least).min(axis=-1)
    with np.errstate(invalid="ignore"):  # of infinite limits, which do not cross
        return np.asarray(np.where(low <= high, np.clip(0.0, low, high), (low + high) / 2))


def _box_gap(
    gradient: Array,
    f: Array,
    modulus: float,
    total: float | None,
    lower: Array,
    upper: Array,
    mu: Array,
) -> Array:
    """Return an upper bound of L(f) - min L over {lower <= f <= upper, Σf = total if given}; any μ gives one."""
    unbounded = (np.isinf(lower) & np.isinf(upper)).all()
    if modulus > 0 and (total is None or unbounded):
        # The maximiser s of <g, f-s> - m/2 ‖f-s‖² is the projection of f - g/m: a clip or a shift on these sets.
        target = f - gradient / modulus
        s = np.clip(target, lower, upper) if total is None else norm(target, total)
        return np.asarray(np.sum(gradient * (f - s) - modulus / 2 * (f - s) ** 2, axis=-1))
    if total is None:
        with np.errstate(invalid="ignore"):
            end = np.where(gradient > 0, lower, np.where(gradient < 0, upper, f))
            terms = np.where((gradient == 0) | (f == end), 0.0, gradient * (f - end))
        return np.asarray(np.sum(terms, axis=-1))
    if np.isfinite(
        upper
    ).all():  # with the others at their upper bounds the total bounds every value below
        lower = np.maximum(lower, total - (upper.sum(axis=-1, keepdims=True) - upper))
    if not np.isfinite(lower).all():
        if modulus > 0:  # the total in the objective, at the price μ: values are apart then
            slope = gradient + mu[..., None]
            s = np.clip(f - slope / modulus, lower, upper)
            apart = np.sum(slope * (f - s) - modulus / 2 * (f - s) ** 2, axis=-1)
            return np.asarray(apart - mu * (np.sum(f, axis=-1) - total))
        flat = np.all(gradient == gradient[..., :1], axis=-1)
        return np.where(flat & unbounded, gradient[..., 0] * (np.sum(f, axis=-1) - total), np.inf)
    return np.asarray(weighted_sum(gradient, f) - _greedy_minimum(gradient, lower, upper, total))


def _greedy_minimum(gradient: Array, lower: Array, upper: Array, total: float) -> Array:
    """Return min <g, s> over the box with the total: from the lower bounds, fill up where the gradient is least."""
    base = weighted_sum(gradient, np.broadcast_to(lower, gradient.shape))
    room = np.broadcast_to(upper - lower, gradient.shape)
    return np.asarray(
        base + _fill(gradient, room, np.broadcast_to(total - lower.sum(axis=-1), base.shape))
    )


def _fill(price: Array, room: Array, amount: Array) -> Array:
    """Return the least cost of placing an amount where there is room, at a price a unit; nothing if it is not positive."""
    amount = np.maximum(amount, 0.0)
    if np.isinf(room).all():
        return weighted_sum(np.min(price, axis=-1, keepdims=True), amount[..., None])
    order = np.argsort(price, axis=-1)
    capacity = np.minimum(np.take_along_axis(room, order, axis=-1), amount[..., None])
    before = np.cumsum(capacity, axis=-1) - capacity
    filled = np.clip(amount[..., None] - before, 0.0, capacity)
    return weighted_sum(np.take_along_axis(price, order, axis=-1), filled)


def _kinked_minimum(
    problem: Problem,
    start: FrequencyEstimate,
    kinks: tuple[Array, Array, Array],
    lower: Array,
    upper: Array,
) -> Array:
    """Return min L: the kinks clipped to the box, then moved to the total where that costs least."""
    place, below, above = kinks
    clipped = np.clip(place, lower, upper)
    least = problem.loss.value(clipped, start)
    if problem.total is None:
        return least
    missing = problem.total - clipped.sum(axis=-1)
    rise = _fill(np.where(clipped >= place, above, below), upper - clipped, missing)
    fall = _fill(-np.where(clipped <= place, below, above), clipped - lower, -missing)
    return np.asarray(least + rise + fall)
