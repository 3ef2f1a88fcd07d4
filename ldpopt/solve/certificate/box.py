"""Gap and multipliers on a box with at most one total, for all trials at once.

The only price is that of the total, -μ for every value. Any μ proves something. Two are good: the
mean gradient of the values between their bounds, where a loss is curved, and the price at which a
filling from the cheapest value on meets the total, where it is not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.competitors import no_bound, reach, stated
from ldpopt.solve.certificate.dual import EPS, sum_with_error, usable
from ldpopt.solve.certificate.evidence import Evidence, weighted_sum
from ldpopt.solve.certificate.intervals import Box
from ldpopt.solve.certificate.minorant import KinkedLoss, Minorant, minorant
from ldpopt.solve.certificate.parts import absolute_sum, parts_of
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

NEAR = 1e-9
"""Distance at which a bound holds: an interior point method leaves about this much."""

# A gap of this size relative to Σ |g_v f_v| is rounding: no other price is tried.
_ROUNDING = 1e-13


def evidence(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Evidence:
    """Return gap, multipliers, and how well they explain the gradient."""
    mu, gap, tangent, limits = _bound(formulation, start, point)
    loss = formulation.loss.convexified(point, start)
    price = np.broadcast_to(-mu[..., None], point.shape)
    region = formulation.region(start.d)
    residual = tangent.slope_towards(price) - price
    multipliers, stationarity, complementarity = bound_multipliers(
        residual, point, stated(loss, start, region, point)
    )
    unknown = np.isinf(gap)
    return Evidence(
        gap=gap,
        stationarity=stationarity,
        complementarity=complementarity,
        sum_multiplier=mu,
        bound_multipliers=multipliers,
        row_multipliers=np.empty((*point.shape[:-1], 0)),
        reason=np.where(unknown, no_bound(limits) if unknown.any() else "", ""),
    )


def gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Array:
    """Return the gap of ``evidence`` alone."""
    return _bound(formulation, start, point)[1]


def _bound(
    formulation: Formulation, start: FrequencyEstimate, point: Array
) -> tuple[Array, Array, Minorant, Box]:
    """Return the multiplier of the total, the gap that it proves, and what these were made of."""
    region = formulation.region(start.d)
    loss = formulation.loss.convexified(point, start)
    limits = reach(loss, start, region)
    tangent = minorant(loss, start, point, *limits)
    nothing = np.zeros(point.shape[:-1])
    total = region.total
    if total is None:
        return nothing, _gap_at(nothing, tangent, limits, None), tangent, limits
    if isinstance(tangent, KinkedLoss):
        mu = usable(_kinked_multiplier(tangent, stated(loss, start, region, point), total))
        return mu, _gap_at(mu, tangent, limits, total), tangent, limits
    bounds = stated(loss, start, region, point)
    mu = usable(_mean_multiplier(tangent.slope, point, bounds))
    gap = _gap_at(mu, tangent, limits, total)
    # What rounding leaves of the total costs the same at any price near this one.
    rounding = np.abs(mu) * _excess(point, total)[1]
    scale = absolute_sum(tangent.slope, point)
    if np.all(gap <= _ROUNDING * scale + 2 * rounding):
        return mu, gap, tangent, limits
    other_mu = usable(_filling_multiplier(tangent.slope, bounds, total))
    other_gap = _gap_at(other_mu, tangent, limits, total)
    is_better = other_gap < gap
    return np.where(is_better, other_mu, mu), np.minimum(gap, other_gap), tangent, limits


def _gap_at(mu: Array, tangent: Minorant, limits: Box, total: float | None) -> Array:
    """Return the bound at one multiplier of the total: that of ``dual``."""
    point = tangent.f
    exact = np.zeros((*point.shape[:-1], 1))
    rise = tangent.rise(-mu[..., None], exact, *limits)
    if total is None:
        return rise
    excess, error = _excess(point, total)
    # -μ (Σf - total), with what rounding took from the sum. At a point beside the total it may
    # cancel the rise.
    with np.errstate(invalid="ignore", over="ignore"):
        missed = -mu * excess + np.abs(mu) * error
        result = rise + missed + 4 * EPS * (rise + np.abs(missed))
    return np.where(np.isfinite(result), np.maximum(result, 0.0), np.inf)


def _excess(point: Array, total: float) -> tuple[Array, Array]:
    """Return Σf - total, and a bound of its rounding error."""
    size, error = sum_with_error(point)
    excess = size - total
    return excess, error + 2 * EPS * np.abs(excess)


def _mean_multiplier(slope: Array, point: Array, limits: Box) -> Array:
    """Return minus the mean gradient, weighted by the distance to the nearest bound.

    At a bound the gradient does not determine the multiplier. Where some values have no bounds at
    all, these alone do.
    """
    shape = slope.shape[:-1]
    mass = np.zeros(shape)
    moment = np.zeros(shape)
    free_mass = np.zeros(shape)
    free_moment = np.zeros(shape)
    for _, (gradient, f, lower, upper) in parts_of(slope, point, limits.lower, limits.upper):
        distance = np.maximum(np.minimum(f - lower, upper - f), 0.0)
        is_free = np.isinf(distance)
        if is_free.any():
            free_mass = free_mass + np.count_nonzero(is_free, axis=-1)
            free_moment = free_moment + weighted_sum(gradient, is_free.astype(np.float64))
            distance[is_free] = 0.0
        mass = mass + np.sum(distance, axis=-1)
        moment = moment + weighted_sum(gradient, distance)
    mass = np.where(free_mass > 0, free_mass, mass)
    moment = np.where(free_mass > 0, free_moment, moment)
    # Where every value is at a bound all weights are 0, and so is then the multiplier.
    mean = moment / np.maximum(mass, np.finfo(np.float64).tiny)
    # An infinite slope, as of a logarithm at 0, has no price: the caller takes 0.
    return np.asarray(-mean)


def _filling_multiplier(slope: Array, limits: Box, total: float) -> Array:
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


def _kinked_multiplier(loss: KinkedLoss, limits: Box, total: float) -> Array:
    """Return minus the price at which the kinks, clipped to the bounds, are moved to the total."""
    place, below, above = loss.kinks
    clipped = np.clip(place, limits.lower, limits.upper)
    missing = np.asarray(total - np.sum(clipped, axis=-1))
    # A value off its kink lies at the bound beside it. It can only move away from the kink, so
    # that its slope lasts.
    rising = np.where(clipped >= place, above, below)
    falling = np.where(clipped <= place, below, above)
    rise = _last_price(rising, limits.upper - clipped, missing)
    fall = -_last_price(-falling, clipped - limits.lower, -missing)
    # At the total already: any price between the slopes, and the one nearest to 0 by choice.
    highest = np.min(np.where(clipped < limits.upper, rising, np.inf), axis=-1)
    lowest = np.max(np.where(clipped > limits.lower, falling, -np.inf), axis=-1)
    stay = np.clip(0.0, lowest, highest)
    return -np.where(missing > 0, rise, np.where(missing < 0, fall, stay))


def bound_multipliers(residual: Array, point: Array, limits: Box) -> tuple[Array, Array, Array]:
    """Return multipliers, the largest |residual| they leave, and |multiplier| times distance.

    A residual that points out of the box is explained by the bound in its way, if it has one.
    The multipliers have the shape of the residual, (..., d), and the two maxima (...). The array
    of the residual becomes that of the multipliers: a fresh one costs more than this function.
    """
    unexplained = np.zeros(residual.shape[:-1])
    product = np.zeros(residual.shape[:-1])
    for part, pieces in parts_of(residual, point, limits.lower, limits.upper):
        share, rest, products = _multipliers_of_values(*pieces)
        residual[..., part] = share
        unexplained = np.maximum(unexplained, np.max(np.abs(rest), axis=-1))
        product = np.maximum(product, np.max(products, axis=-1))
    return residual, unexplained, product


def _multipliers_of_values(
    residual: Array, point: Array, lower: Array, upper: Array
) -> tuple[Array, Array, Array]:
    """Return the multipliers of some values, what is left of each residual, and the products."""
    with np.errstate(invalid="ignore"):
        falls = residual > 0
        has_bound = np.where(falls, np.isfinite(lower), np.isfinite(upper))
        multipliers = np.where(has_bound, residual, 0.0)
        unexplained = np.where(multipliers == residual, 0.0, residual)
        distance = np.where(falls, point - lower, upper - point)
        no_product = (distance == 0) | (multipliers == 0)
        products = np.abs(multipliers) * np.maximum(distance, 0.0)
    return multipliers, unexplained, np.where(no_product, 0.0, products)
