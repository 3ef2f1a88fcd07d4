"""Multipliers of a total: the sums over the values that they need, and the usual choices.

Any multiplier proves something. Two are good for a smooth loss: the mean gradient of the values
between their bounds, where it is curved, and the price at which a filling from the cheapest value
on meets the total, where it is not. Losses with kinks have prices of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum, parts_of, vector_of
from ldpopt.closed_form.rows import is_long
from ldpopt.solve.certificate.bounds.dual import EPS, sum_with_error
from ldpopt.solve.certificate.bounds.evidence import weighted_sum
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import KinkedLoss, MixedLoss

Array = NDArray[np.float64]

# A gap of this size relative to Σ |g_v f_v| is rounding.
ROUNDING = 1e-13

# The same for long vectors: all that a status promises. Another look takes dozens of passes.
_OF_LONG = 1e-8

# A gap relative to Σ |g_v f_v| that is worth another look only while looks make it smaller: a
# hundredth of what a status promises. From one look to the next, this part of it is not smaller.
_SMALL = 1e-10
_HARDLY_LESS = 0.9

# Distances at which kinks and bounds may count: closed forms are exact, solvers are not.
_NEARNESS = (1e-12, 1e-9, 1e-7, 1e-5)


def distances(enough: Array | float) -> tuple[float, ...]:
    """Return distances at which kinks and bounds may count, in the order in which to try them.

    Where a gap above rounding is enough the point is a solver's, and the widest mostly suffices.
    """
    return _NEARNESS[::-1] if np.any(enough) else _NEARNESS


def negligible(d: int) -> float:
    """Return the gap relative to Σ |g_v f_v| at which no other prices are tried."""
    return _OF_LONG if is_long(d) else ROUNDING


def gains_nothing(gap: Array, wider: Array, terms: Array) -> bool:
    """Return whether the next distance proves hardly more, of gaps that are small already.

    Kinks within both are mostly the same then, and so they are within a third one.
    """
    is_small = gap <= _SMALL * terms
    return bool(np.all(is_small & (wider >= _HARDLY_LESS * gap)))


class Bound(NamedTuple):
    """The multiplier of the total, the gap that it proves, and Σ |g_v f_v|; each of shape (...)."""

    mu: Array
    gap: Array
    terms: Array


def gap_at(rise: Array, mu: Array, excess: tuple[Array, Array]) -> Array:
    """Return the bound of ``dual`` at one multiplier of the total.

    Parameters
    ----------
    rise
        What the loss and the bounds leave at the price -μ.
    mu
        The multiplier.
    excess
        Σf - total, and a bound of its rounding error.
    """
    beyond, error = excess
    # At a point beside the total -μ (Σf - total) may cancel the rise.
    with np.errstate(invalid="ignore", over="ignore"):
        missed = -mu * beyond + np.abs(mu) * error
        result = rise + missed + 4 * EPS * (rise + np.abs(missed))
    return np.where(np.isfinite(result), np.maximum(result, 0.0), np.inf)


def is_enough(
    gap: Array,
    mu: Array,
    excess: tuple[Array, Array],
    limit: Array,
) -> bool:
    """Return whether gaps are at most a limit, but for rounding that no other price takes away."""
    # What rounding leaves of the total costs the same at any price near this one.
    of_total = np.abs(mu) * excess[1]
    return bool(np.all(gap <= limit + 2 * of_total))


class Moments(NamedTuple):
    """What the mean multiplier needs of each trial, as in ``kernels.Sums``; all of shape (...)."""

    mass: Array
    moment: Array
    free: Array
    free_moment: Array


class Sums(NamedTuple):
    """Sums over the values of each trial, all of shape (...): those of ``kernels.Sums``."""

    terms: Array
    size: Array
    error: Array
    moments: Moments


def sums_of(slope: Array, point: Array, limits: Box) -> Sums:
    """Return the sums that a multiplier and its gap need."""
    if is_long(point.shape[-1]):
        return _long_sums(slope, point, limits)
    size, error = sum_with_error(point)
    return Sums(absolute_sum(slope, point), size, error, _moments(slope, point, limits))


def _long_sums(slope: Array, point: Array, limits: Box) -> Sums:
    """Return them with every vector read once."""
    from ldpopt.solve.certificate.bounds import kernels

    shape = point.shape[:-1]
    rows = [
        kernels.sums(*(vector_of(array, trial, shape) for array in (slope, point, *limits)))
        for trial in np.ndindex(shape)
    ]
    terms, size, error, *moments = (np.reshape(column, shape) for column in zip(*rows, strict=True))
    return Sums(terms, size, error, Moments(*moments))


def _moments(slope: Array, point: Array, limits: Box) -> Moments:
    """Return the sums of distances and slopes, a part of the values after the other."""
    mass = np.zeros(slope.shape[:-1])
    moment = np.zeros(slope.shape[:-1])
    free = np.zeros(slope.shape[:-1])
    free_moment = np.zeros(slope.shape[:-1])
    for _, (gradient, f, lower, upper) in parts_of(slope, point, limits.lower, limits.upper):
        distance = np.minimum(f - lower, upper - f)
        if distance.min() < 0:
            np.maximum(distance, 0.0, out=distance)
        part_mass = np.sum(distance, axis=-1)
        if np.isinf(part_mass).any():
            is_free = np.isinf(distance)
            free = free + np.count_nonzero(is_free, axis=-1)
            free_moment = free_moment + weighted_sum(gradient, is_free.astype(np.float64))
            distance[is_free] = 0.0
            part_mass = np.sum(distance, axis=-1)
        mass = mass + part_mass
        moment = moment + weighted_sum(gradient, distance)
    return Moments(mass, moment, free, free_moment)


def excess_of(size: Array, error: Array, total: float) -> tuple[Array, Array]:
    """Return Σf - total, and a bound of its rounding error, from those of Σf."""
    excess = size - total
    return excess, error + 2 * EPS * np.abs(excess)


def mean_multiplier(moments: Moments) -> Array:
    """Return minus the mean gradient, weighted by the distance to the nearest bound.

    At a bound the gradient does not determine the multiplier. Where some values have no bounds at
    all, these alone do.
    """
    mass = np.where(moments.free > 0, moments.free, moments.mass)
    moment = np.where(moments.free > 0, moments.free_moment, moments.moment)
    # Where every value is at a bound all weights are 0, and so is then the multiplier.
    mean = moment / np.maximum(mass, np.finfo(np.float64).tiny)
    # An infinite slope, as of a logarithm at 0, has no price: the caller takes 0.
    return np.asarray(-mean)


def curved_multiplier(slope: Array, modulus: Array, point: Array, limits: Box) -> Array:
    """Return minus the mean gradient of the values off their bounds, weighted by 1/m.

    Without bounds the price μ leaves Σ (g_v + μ)²/(2 m_v) of a loss with second derivatives m, and
    this mean makes that smallest. Of curvatures that differ by many orders the plain mean is mostly
    the rounding of the steepest value.
    """
    is_off = (point > limits.lower) & (point < limits.upper) & (modulus > 0)
    smallest = np.min(np.where(is_off, modulus, np.inf), axis=-1, keepdims=True)
    weight = np.where(is_off, smallest / np.where(is_off, modulus, 1.0), 0.0)
    mass = np.maximum(weight.sum(axis=-1), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(-weighted_sum(slope, weight) / mass)


def filling_multiplier(slope: Array, limits: Box, total: float) -> Array:
    """Return minus the slope of the value that a filling by increasing slope takes last."""
    lower = np.broadcast_to(limits.lower, slope.shape)
    # Values without a lower bound take up any amount: they set the price.
    bottomless = np.isinf(lower)
    if bottomless.any():
        return np.asarray(-np.max(np.where(bottomless, slope, -np.inf), axis=-1))
    if np.isinf(limits.upper).all():
        return np.asarray(-np.min(slope, axis=-1))
    missing = total - np.sum(lower, axis=-1)
    return -_last_price(slope, np.broadcast_to(limits.upper - lower, slope.shape), missing)


def _last_price(price: Array, capacity: Array, amount: Array) -> Array:
    """Return the price at which an amount is placed, cheapest first (Dantzig 1957)."""
    order = np.argsort(price, axis=-1)
    placed = np.cumsum(np.take_along_axis(capacity, order, axis=-1), axis=-1)
    enough = placed >= amount[..., None]
    # Rounding may leave all capacity just short of the amount: then the dearest price counts.
    last = np.where(enough.any(axis=-1), np.argmax(enough, axis=-1), price.shape[-1] - 1)
    position = np.take_along_axis(order, last[..., None], axis=-1)
    return np.take_along_axis(price, position, axis=-1)[..., 0]


def kinked_multiplier(loss: KinkedLoss, limits: Box, total: float) -> Array:
    """Return minus the price at which the kinks, clipped to the bounds, are moved to the total."""
    place, below, above = loss.kinks
    clipped = np.clip(place, limits.lower, limits.upper)
    missing = np.asarray(total - np.sum(clipped, axis=-1))
    # A value off its kink lies at the bound beside it. It can only move away from the kink, so
    # that its slope lasts.
    rising = np.where(clipped >= place, above, below)
    falling = np.where(clipped <= place, below, above)
    # Each takes a sort, and one vector needs one of them.
    rise = fall = np.zeros(missing.shape)
    if np.any(missing > 0):
        rise = _last_price(rising, limits.upper - clipped, missing)
    if np.any(missing < 0):
        fall = -_last_price(-falling, clipped - limits.lower, -missing)
    # At the total already: any price between the slopes, and the one nearest to 0 by choice.
    highest = np.min(np.where(clipped < limits.upper, rising, np.inf), axis=-1)
    lowest = np.max(np.where(clipped > limits.lower, falling, -np.inf), axis=-1)
    stay = np.clip(0.0, lowest, highest)
    return -np.where(missing > 0, rise, np.where(missing < 0, fall, stay))


def common_multiplier(loss: MixedLoss, limits: Box, near: float) -> Array:
    """Return minus the price that every value's slopes and bounds allow, or allow most nearly.

    Kinks and bounds within ``near`` of a value count.
    """
    lowest, highest = loss.slopes(near)
    # A value at its lower bound allows any price below its slopes, one at its upper any above.
    at_lower = loss.f - limits.lower <= near
    at_upper = limits.upper - loss.f <= near
    low = np.max(np.where(at_lower, -np.inf, lowest), axis=-1)
    high = np.min(np.where(at_upper, np.inf, highest), axis=-1)
    low = np.where(np.isinf(low), np.minimum(high, 0.0), low)
    high = np.where(np.isinf(high), np.maximum(low, 0.0), high)
    return np.asarray(-(low + high) / 2)


def settled_multiplier(loss: MixedLoss, limits: Box, near: float) -> Array:
    """Return minus the mean slope of the values whose slopes the point settles.

    It is weighted by the distance to the nearest bound, as that of a smooth loss.
    """
    slope, is_settled = loss.settled(near)
    weights = np.maximum(np.minimum(loss.f - limits.lower, limits.upper - loss.f), 0.0)
    # Where some values have no bounds at all, these alone count.
    is_open = np.isinf(weights) & is_settled
    has_open = is_open.any(axis=-1, keepdims=True)
    weights = np.where(has_open, is_open, np.where(is_settled, weights, 0.0))
    mass = np.maximum(np.sum(weights, axis=-1), np.finfo(np.float64).tiny)
    return np.asarray(-weighted_sum(slope, weights) / mass)
