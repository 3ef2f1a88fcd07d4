"""Gap and multipliers on a box with at most one total, for all trials at once.

The only price is that of the total, -μ for every value; ``total_prices`` has the usual choices.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum, parts_of
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.bounds.competitors import (
    domain_of,
    no_bound,
    reach,
    stated,
    within_sublevel,
)
from ldpopt.solve.certificate.bounds.dual import sum_with_error, usable
from ldpopt.solve.certificate.bounds.evidence import (
    UNEXPLAINED,
    Evidence,
    Explanation,
    explains_more,
)
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import (
    KinkedLoss,
    Minorant,
    MixedLoss,
    Tangent,
    minorant,
)
from ldpopt.solve.certificate.bounds.shared_kinks import are_known
from ldpopt.solve.certificate.box.long_box import long_bound
from ldpopt.solve.certificate.box.total_prices import (
    Bound,
    common_multiplier,
    curved_multiplier,
    distances,
    excess_of,
    filling_multiplier,
    gains_nothing,
    gap_at,
    is_enough,
    kinked_multiplier,
    mean_multiplier,
    negligible,
    settled_multiplier,
    sums_of,
)
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.programs.units import frequency_unit

Array = NDArray[np.float64]

NEAR = 1e-9
"""Distance at which a bound holds: an interior point method leaves about this much."""


def evidence(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Evidence:
    """Return the gap, and the way to the multipliers."""
    quick = long_bound(formulation, start, point)
    reason = ""
    if quick is not None:
        result = quick.bound
    else:
        model = Model.of(formulation, start, point)
        result = model.bound()
        if np.isinf(result.gap).any():
            reason = no_bound(model.limits)
    # The model has several arrays of the point's size, which a certificate should not keep.
    explain = partial(_explanation, formulation, start, point, result.mu)
    reasons = np.where(np.isinf(result.gap), reason, "")
    return Evidence(result.gap, result.terms, reasons, explain)


def applies(formulation: Formulation, d: int) -> bool:
    """Return whether the set is a box with at most one total, and slopes of all kinks are known."""
    return formulation.is_box(d) and are_known(formulation.loss)


def gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Array:
    """Return the gap of ``evidence`` alone."""
    return bound(formulation, start, point).gap


def bound(
    formulation: Formulation, start: FrequencyEstimate, point: Array, enough: Array | float = 0.0
) -> Bound:
    """Return the gap and the multiplier of the total that proves it.

    No other multipliers are tried once the gap is at most ``enough``.
    """
    quick = long_bound(formulation, start, point)
    return Model.of(formulation, start, point).bound(enough) if quick is None else quick.bound


def _explanation(
    formulation: Formulation, start: FrequencyEstimate, point: Array, mu: Array
) -> Explanation:
    """Return the multipliers at a price of the total, and how well they explain the gradient."""
    model = Model.of(formulation, start, point)
    explanation = model.explanation(mu)
    slope = model.tangent.slope
    if model.total is None or np.all(explanation.failure(slope, point) <= UNEXPLAINED):
        return explanation
    # Where all values are at bounds any price proves the point, and only some explain it.
    filling = usable(filling_multiplier(slope, model.bounds, model.total))
    other = model.explanation(filling)
    return other.where(explains_more(other, explanation, slope, point), explanation)


class Model(NamedTuple):
    """A problem at a point: the loss there, and what competes with the point.

    Attributes
    ----------
    tangent
        The loss.
    limits, bounds
        Everything that is known of the competitors, and the bounds that have multipliers.
    total
        What the values sum to, or None.
    size
        What gaps are relative to beside Σ |g_v f_v|, which vanishes at a minimum where slopes of
        shared kinks may be 0; else 0.
    """

    tangent: Minorant
    limits: Box
    bounds: Box
    total: float | None
    size: Array

    @classmethod
    def of(cls, formulation: Formulation, start: FrequencyEstimate, point: Array) -> Model:
        """Return the problem at f, of the estimate's shape."""
        region = formulation.region(start.d)
        loss = formulation.loss.convexified(point, start)
        limits = within_sublevel(loss, start, point, reach(loss, start, region), is_box=True)
        tangent = minorant(loss, start, point, *limits)
        domain = domain_of(loss, start)
        size = np.zeros(())
        if loss.has_shared_kinks:
            size = np.abs(loss.value(point, start) - loss.offset(start))
        return cls(tangent, limits, stated(region, point, domain), region.total, size)

    def explanation(self, mu: Array) -> Explanation:
        """Return the multipliers at a price of the total, and how well they explain the slopes."""
        point = self.tangent.f
        price = np.broadcast_to(-mu[..., None], point.shape)
        residual = self.tangent.slope_towards(price) - price
        multipliers, stationarity, complementarity = bound_multipliers(residual, point, self.bounds)
        no_rows = np.empty((*point.shape[:-1], 0))
        return Explanation(stationarity, complementarity, mu, multipliers, no_rows)

    def bound(self, enough: Array | float = 0.0, near: float | None = None) -> Bound:
        """Return the best gap of three multipliers of the total, or one that is small enough.

        Of a loss with kinks those within ``near`` count; with None all distances are tried.
        """
        tangent = self.tangent
        if self.total is None:
            terms = absolute_sum(tangent.slope, tangent.f)
            nothing = np.zeros(tangent.f.shape[:-1])
            return Bound(nothing, tangent.rise(np.zeros(1), np.zeros(1), *self.limits), terms)
        if isinstance(tangent, KinkedLoss | MixedLoss):
            return self._kinked_bound(tangent, self.total, enough, near)
        sums = sums_of(tangent.slope, tangent.f, self.bounds)
        excess = excess_of(sums.size, sums.error, self.total)
        mu = usable(mean_multiplier(sums.moments))
        gap = self._gap_at(mu, excess)
        limit = np.maximum(negligible(tangent.f.shape[-1]) * sums.terms, enough)
        if is_enough(gap, mu, excess, limit):
            return Bound(mu, gap, sums.terms)
        others = [filling_multiplier(tangent.slope, self.bounds, self.total)]
        if isinstance(tangent, Tangent) and np.any(tangent.modulus > 0):
            others.append(curved_multiplier(tangent.slope, tangent.modulus, tangent.f, self.bounds))
        for other_mu in map(usable, others):
            other_gap = self._gap_at(other_mu, excess)
            mu = np.where(other_gap < gap, other_mu, mu)
            gap = np.minimum(gap, other_gap)
        return Bound(mu, gap, sums.terms)

    def _kinked_bound(
        self,
        tangent: KinkedLoss | MixedLoss,
        total: float,
        enough: Array | float,
        near: float | None,
    ) -> Bound:
        """Return the gap of a loss with kinks."""
        terms = absolute_sum(tangent.slope, tangent.f)
        size, error = sum_with_error(tangent.f)
        excess = excess_of(size, error, total)
        if isinstance(tangent, KinkedLoss):
            mu = usable(kinked_multiplier(tangent, self.bounds, total))
            return Bound(mu, self._gap_at(mu, excess), terms)
        multiplier = settled_multiplier if tangent.shared_kinks else common_multiplier
        mu = np.zeros(terms.shape)
        gap = np.full(terms.shape, np.inf)
        limit = np.maximum(negligible(tangent.f.shape[-1]) * (terms + self.size), enough)
        unit = frequency_unit(tangent.f)
        for distance in distances(enough) if near is None else (near,):
            other_mu = usable(multiplier(tangent, self.bounds, distance * unit))
            other_gap = self._gap_at(other_mu, excess)
            is_last = gains_nothing(gap, other_gap, terms + self.size)
            mu = np.where(other_gap < gap, other_mu, mu)
            gap = np.minimum(gap, other_gap)
            # Closed forms are exact, so that the sharpest look is the last one.
            if is_last or is_enough(gap, mu, excess, limit):
                break
        return Bound(mu, gap, terms)

    def _gap_at(self, mu: Array, excess: tuple[Array, Array]) -> Array:
        """Return the bound at one multiplier of the total: that of ``dual``."""
        rise = self.tangent.rise(-mu[..., None], np.zeros(1), *self.limits)
        return gap_at(rise, mu, excess)


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
