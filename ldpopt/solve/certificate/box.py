"""Gap and multipliers on a box with at most one total, for all trials at once.

The only price is that of the total, -μ for every value. Any μ proves something. Two are good: the
mean gradient of the values between their bounds, where a loss is curved, and the price at which a
filling from the cheapest value on meets the total, where it is not.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.competitors import no_bound, reach, stated
from ldpopt.solve.certificate.dual import EPS, sum_with_error, usable
from ldpopt.solve.certificate.evidence import Evidence, Explanation, weighted_sum
from ldpopt.solve.certificate.intervals import Box
from ldpopt.solve.certificate.minorant import KinkedLoss, Minorant, MixedLoss, minorant
from ldpopt.solve.certificate.parts import absolute_sum, is_long, parts_of, vector_of
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

NEAR = 1e-9
"""Distance at which a bound holds: an interior point method leaves about this much."""

# Distances at which kinks and bounds may count: closed forms are exact, solvers are not.
_NEARNESS = (1e-12, NEAR, 1e-7, 1e-5)

# A gap of this size relative to Σ |g_v f_v| is rounding: no other price is tried.
_ROUNDING = 1e-13


class Bound(NamedTuple):
    """The multiplier of the total, and what it proves."""

    mu: Array
    gap: Array
    terms: Array


def evidence(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Evidence:
    """Return the gap, and the way to the multipliers."""
    model = _Model.of(formulation, start, point)
    result = model.bound()
    unknown = np.isinf(result.gap)
    reason = no_bound(model.limits) if unknown.any() else ""
    # The model has several arrays of the point's size, which a certificate should not keep.
    explain = partial(_explanation, formulation, start, point, result.mu)
    return Evidence(result.gap, result.terms, np.where(unknown, reason, ""), explain)


def gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Array:
    """Return the gap of ``evidence`` alone."""
    return bound(formulation, start, point).gap


def bound(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Bound:
    """Return the gap and the multiplier of the total that proves it."""
    return _Model.of(formulation, start, point).bound()


def _explanation(
    formulation: Formulation, start: FrequencyEstimate, point: Array, mu: Array
) -> Explanation:
    """Return the multipliers at a price of the total, and how well they explain the gradient."""
    model = _Model.of(formulation, start, point)
    price = np.broadcast_to(-mu[..., None], point.shape)
    residual = model.tangent.slope_towards(price) - price
    multipliers, stationarity, complementarity = bound_multipliers(residual, point, model.bounds)
    no_rows = np.empty((*point.shape[:-1], 0))
    return Explanation(stationarity, complementarity, mu, multipliers, no_rows)


class _Model(NamedTuple):
    """A problem at a point: the loss there, and what competes with the point.

    Attributes
    ----------
    tangent
        The loss.
    limits, bounds
        Everything that is known of the competitors, and the bounds that have multipliers.
    total
        What the values sum to, or None.
    """

    tangent: Minorant
    limits: Box
    bounds: Box
    total: float | None

    @classmethod
    def of(cls, formulation: Formulation, start: FrequencyEstimate, point: Array) -> _Model:
        region = formulation.region(start.d)
        loss = formulation.loss.convexified(point, start)
        limits = reach(loss, start, region)
        tangent = minorant(loss, start, point, *limits)
        return cls(tangent, limits, stated(loss, start, region, point), region.total)

    def bound(self) -> Bound:
        """Return the better gap of two multipliers of the total."""
        tangent = self.tangent
        if self.total is None:
            terms = absolute_sum(tangent.slope, tangent.f)
            nothing = np.zeros(tangent.f.shape[:-1])
            return Bound(nothing, tangent.rise(np.zeros(1), np.zeros(1), *self.limits), terms)
        if isinstance(tangent, KinkedLoss | MixedLoss):
            return self._kinked_bound(tangent, self.total)
        sums = _sums(tangent.slope, tangent.f, self.bounds)
        excess = _excess(sums.size, sums.error, self.total)
        mu = usable(_mean_multiplier(sums))
        gap = self._gap_at(mu, excess)
        # What rounding leaves of the total costs the same at any price near this one.
        rounding = np.abs(mu) * excess[1]
        if np.all(gap <= _ROUNDING * sums.terms + 2 * rounding):
            return Bound(mu, gap, sums.terms)
        other_mu = usable(_filling_multiplier(tangent.slope, self.bounds, self.total))
        other_gap = self._gap_at(other_mu, excess)
        is_better = other_gap < gap
        return Bound(np.where(is_better, other_mu, mu), np.minimum(gap, other_gap), sums.terms)

    def _kinked_bound(self, tangent: KinkedLoss | MixedLoss, total: float) -> Bound:
        """Return the gap of a loss with kinks."""
        terms = absolute_sum(tangent.slope, tangent.f)
        size, error = sum_with_error(tangent.f)
        excess = _excess(size, error, total)
        if isinstance(tangent, KinkedLoss):
            mu = usable(_kinked_multiplier(tangent, self.bounds, total))
            return Bound(mu, self._gap_at(mu, excess), terms)
        tries = [usable(_common_multiplier(tangent, self.bounds, near)) for near in _NEARNESS]
        gaps = np.stack([self._gap_at(mu, excess) for mu in tries])
        best = np.argmin(gaps, axis=0)[None]
        mu = np.take_along_axis(np.stack(tries), best, axis=0)[0]
        return Bound(mu, np.min(gaps, axis=0), terms)

    def _gap_at(self, mu: Array, excess: tuple[Array, Array]) -> Array:
        """Return the bound at one multiplier of the total: that of ``dual``.

        ``excess`` is Σf - total, with what rounding took from it.
        """
        rise = self.tangent.rise(-mu[..., None], np.zeros(1), *self.limits)
        beyond, error = excess
        # At a point beside the total -μ (Σf - total) may cancel the rise.
        with np.errstate(invalid="ignore", over="ignore"):
            missed = -mu * beyond + np.abs(mu) * error
            result = rise + missed + 4 * EPS * (rise + np.abs(missed))
        return np.where(np.isfinite(result), np.maximum(result, 0.0), np.inf)


class _Sums(NamedTuple):
    """Sums over the values of each trial, all of shape (...): those of ``kernels.Sums``."""

    terms: Array
    size: Array
    error: Array
    mass: Array
    moment: Array
    free: Array
    free_moment: Array


def _sums(slope: Array, point: Array, limits: Box) -> _Sums:
    """Return the sums that a multiplier and its gap need."""
    if is_long(point.shape[-1]):
        return _long_sums(slope, point, limits)
    size, error = sum_with_error(point)
    return _Sums(absolute_sum(slope, point), size, error, *_moments(slope, point, limits))


def _long_sums(slope: Array, point: Array, limits: Box) -> _Sums:
    """Return them with every vector read once."""
    from ldpopt.solve.certificate import kernels  # imports numba

    shape = point.shape[:-1]
    rows = [
        kernels.sums(*(vector_of(array, trial, shape) for array in (slope, point, *limits)))
        for trial in np.ndindex(shape)
    ]
    return _Sums(*(np.reshape(column, shape) for column in zip(*rows, strict=True)))


def _moments(slope: Array, point: Array, limits: Box) -> tuple[Array, Array, Array, Array]:
    """Return mass, moment, free and free moment, a part of the values after the other."""
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
    return mass, moment, free, free_moment


def _excess(size: Array, error: Array, total: float) -> tuple[Array, Array]:
    """Return Σf - total, and a bound of its rounding error, from those of Σf."""
    excess = size - total
    return excess, error + 2 * EPS * np.abs(excess)


def _mean_multiplier(sums: _Sums) -> Array:
    """Return minus the mean gradient, weighted by the distance to the nearest bound.

    At a bound the gradient does not determine the multiplier. Where some values have no bounds at
    all, these alone do.
    """
    mass = np.where(sums.free > 0, sums.free, sums.mass)
    moment = np.where(sums.free > 0, sums.free_moment, sums.moment)
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


def _common_multiplier(loss: MixedLoss, limits: Box, near: float) -> Array:
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
