"""What a certificate knows of the loss: a function of s that nowhere lies above it.

A smooth loss is nowhere below its tangent plus what its curvature adds between the bounds of s. A
loss that is linear but for one kink per value is its own best bound: no gradient describes it near
a kink. Both come apart into values once a price p of each value is given, so that

    L(f) - L(s) <= p·(f - s) + Σ_v rise_v(p)   for all s between the bounds,

and only the multipliers, which make p, tie values together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Kinks, Loss
from ldpopt.solve.certificate.dual import EPS, separable_rise, with_rounding
from ldpopt.solve.certificate.intervals import Box
from ldpopt.solve.certificate.parts import are_within, collapsed, count_of_parts, parts_of

Array = NDArray[np.float64]


class Minorant(Protocol):
    """A loss as certificates see it, at one point or a stack of them."""

    @property
    def f(self) -> Array:
        """The point, shape (..., d)."""

    @property
    def slope(self) -> Array:
        """A subgradient at f, shape (..., d)."""

    def rise(self, price: Array, error: Array, lower: Array, upper: Array) -> Array:
        """Return an upper bound of L(f) - L(s) - p·(f - s) for any s between the bounds.

        The prices p are any within ``error`` of ``price``, both of shape (..., d). The result is
        at least 0, of shape (...).
        """

    def slope_towards(self, price: Array) -> Array:
        """Return the subgradient at f that is nearest to the prices."""


@dataclass(frozen=True, eq=False)
class Tangent:
    """The tangent of a smooth loss, and a lower bound of its curvature.

    Attributes
    ----------
    f, slope
        The point and the gradient there, shape (..., d).
    error
        What rounding may have changed in the gradient.
    modulus
        Lower bounds of the second derivatives, >= 0, where the bounds hold.
    held
        Where any slope is a subgradient on the set: the loss is infinite but at 0, or it is
        infinitely steep and the value can be no other. None for nowhere.
    """

    f: Array
    slope: Array
    error: Array
    modulus: Array
    held: NDArray[np.bool_] | None

    def rise(self, price: Array, error: Array, lower: Array, upper: Array) -> Array:
        """Return what the price leaves of the gradient, over the bounds."""
        arrays = (self.slope, self.error, self.modulus, self.f, price, error, lower, upper)
        rise = np.zeros(self.f.shape[:-1])
        for _, pieces in parts_of(*arrays):
            rise = rise + _rise_of(*pieces)
        return with_rounding(rise, count_of_parts(self.f.shape[-1]))

    def slope_towards(self, price: Array) -> Array:
        """Return the gradient; the price itself where the loss holds a value at 0."""
        return self.slope if self.held is None else np.where(self.held, price, self.slope)


@dataclass(frozen=True, eq=False)
class KinkedLoss:
    """A loss that is linear in each value but for one kink.

    Attributes
    ----------
    f
        The point, shape (..., d).
    kinks
        Where the slopes change, and the slopes.
    """

    f: Array
    kinks: Kinks

    @property
    def slope(self) -> Array:
        """The subgradient at f that is nearest to 0."""
        return self.slope_towards(np.zeros(self.f.shape))

    def rise(self, price: Array, error: Array, lower: Array, upper: Array) -> Array:
        """Return the maximum, which is at the kink or at an end of the bounds."""
        place, below, above = self.kinks
        # The range is widened to hold the point, so that no maximum is negative.
        lower = np.minimum(lower, self.f)
        upper = np.maximum(upper, self.f)
        rise = self._rise_to(np.clip(place, lower, upper), price, error)
        # Without a bound there is no end to a fall that is steeper than its price.
        unbounded = ((lower == -np.inf) & (price - error < below)) | (
            (upper == np.inf) & (price + error > above)
        )
        for end in (lower, upper):
            to_end = self._rise_to(np.where(np.isfinite(end), end, self.f), price, error)
            np.maximum(rise, to_end, out=rise)
        rise[unbounded] = np.inf
        return with_rounding(np.sum(rise, axis=-1), rise.shape[-1])

    def slope_towards(self, price: Array) -> Array:
        """Return the subgradient at f that is nearest to the prices."""
        return self.kinks.subgradient(self.f, price)

    def _rise_to(self, s: Array, price: Array, error: Array) -> Array:
        """Return ℓ(f) - ℓ(s) - p (f - s) of each value, raised by its rounding; at least 0."""
        height = self._height(self.f)
        depth = self._height(s)
        step = self.f - s
        paid = price * step
        # These terms cancel at the minimum.
        rounding = 4 * EPS * (np.abs(height) + np.abs(depth) + np.abs(paid)) + error * np.abs(step)
        return np.maximum(height - depth - paid + rounding, 0.0)

    def _height(self, f: Array) -> Array:
        """Return the loss of each value above that of its kink."""
        place, below, above = self.kinks
        step = f - place
        return np.where(step < 0, below, above) * step


def _rise_of(
    slope: Array,
    slope_error: Array,
    modulus: Array,
    f: Array,
    price: Array,
    price_error: Array,
    lower: Array,
    upper: Array,
) -> Array:
    """Return the rise over some of the values of a tangent."""
    # Mostly a price is exact: an array of sums less.
    error = slope_error + price_error if price_error.any() else slope_error
    return separable_rise(slope - price, error, f, lower, upper, modulus)


def minorant(
    loss: Loss, estimate: FrequencyEstimate, f: Array, lower: Array, upper: Array
) -> Minorant:
    """Return the minorant of a convex loss at f, which holds for s between the bounds."""
    kinks = loss.kinks(estimate)
    if kinks is not None:
        return KinkedLoss(f, kinks)
    slope = loss.gradient(f, estimate)
    error = loss.gradient_error(f, slope, estimate)
    held = _held(loss, estimate, f, slope, Box(lower, upper))
    if held is not None:
        # The gradient is infinite there, and any number in its place is right.
        slope = np.where(held, 0.0, slope)
        error = np.where(held, 0.0, error)
    # The tangent bends between s and f: f may be outside the bounds. Mostly it is not, and a test
    # is cheaper than two arrays.
    if not are_within(f, lower, upper):
        lower = np.minimum(lower, f)
        upper = np.maximum(upper, f)
    modulus = collapsed(np.asarray(loss.curvature(estimate, lower, upper)))
    # Lowered by its own rounding.
    return Tangent(f, slope, error, modulus * (1 - 64 * EPS), held)


def _held(
    loss: Loss, estimate: FrequencyEstimate, f: Array, slope: Array, bounds: Box
) -> NDArray[np.bool_] | None:
    """Return where any slope is right, as no other value competes; None for nowhere."""
    support = loss.support(estimate)
    # The extremes are finite only if all values are; they take no array.
    is_steep = not np.isfinite([slope.min(), slope.max()]).all()
    if support is None and not is_steep:
        return None
    held = np.zeros(slope.shape, dtype=bool) if support is None else ~support
    if is_steep:
        held |= np.isinf(slope) & (bounds.lower == f) & (bounds.upper == f)
    return held
