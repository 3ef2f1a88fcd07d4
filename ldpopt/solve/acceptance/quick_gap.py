"""An upper bound of a gap for the boxes that occur most, in as few passes as possible.

Every solve looks at the gap before a point may be called optimal, and the closed forms themselves
take two or three passes over the values. So the bound here needs the gradient and at most one array
beside it. It is meant for acceptance, where a small gap settles the matter; the certificate that a
reader gets is computed in the folder ``certificate``, whatever comes out here. Rounding is not
charged: it is below 1e-13 of the scale that a status is relative to, which promises 1e-8 of it.

With the gradient g and the strong convexity m of the loss at f, L(f) - min L is at most

    max_s <g, f - s> - m/2 ‖f - s‖²

over the set, or over any larger one. Its maximum is

- on {s >= lower, Σs = total}: all that the lower bounds leave of the total goes where g is least,
- on {lower <= s <= upper, Σs = total}: each value at one end, at a price of the total,
- on {Σs = total}: f - s is g/m, shifted to the sum that it must have,
- on a box without a total: f - s is g/m, cut to the box.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.certificate.bounds.evidence import Measured, SizedGap, weighted_sum
from ldpopt.solve.certificate.box.slopes import Extent, plain_slope, swept_slope
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]

# Distance at which the end of a loss's domain acts as a bound: paths stay short of it by a
# billionth, so that ten times as much is safe.
_END = 1e-8


def quick_gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> SizedGap | None:
    """Return an upper bound of L(f) - min L, where few passes are enough; else None.

    None is returned where the set is of another kind, where the loss has kinks, or no strong
    convexity where that is needed, and near the end of the loss's domain.

    Parameters
    ----------
    formulation
        A loss with a box and at most one total.
    start
        The estimate.
    point
        f, of the estimate's shape.
    """
    loss = formulation.loss
    if loss.smooth_part is not loss or is_near_end(loss, start, point):
        return None
    return gap_of_slopes(formulation, start, point, lambda: plain_slope(loss, start, point))


def gap_of_slopes(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    slopes: Callable[[], Array],
) -> SizedGap | None:
    """Return the bound from any subgradient of the loss at f, which ``slopes`` computes.

    None is returned for other sets, before that is computed. Its array may be overwritten.
    """
    region = formulation.region(start.d)
    if region.total is not None and (region.lower_count or region.upper_count):
        return _bounded_gap(slopes, point, region, region.total)
    modulus = smallest(formulation.loss.curvature(start))
    if modulus <= 0:
        return None
    if region.total is not None:
        return _plane_gap(slopes(), point, modulus, region.total)
    return _box_gap(slopes(), point, modulus, region)


def _bounded_gap(
    slopes: Callable[[], Array], point: Array, region: Region, total: float
) -> SizedGap | None:
    """Return the maximum over the total and bounds; None unless each value has the same kinks."""
    d = point.shape[-1]
    if region.lower_count < d:
        return None
    if not region.upper_count:
        return _simplex_gap(slopes(), point, region, total)
    if region.upper_count < d:
        return None
    return _capped_gap(slopes(), point, region, total)


def is_near_end(loss: Loss, start: FrequencyEstimate, point: Array) -> bool:
    """Return whether a value has come to the end of the interval in which the loss is finite."""
    return is_outside_domain(loss, start, point, _END)


def is_outside_domain(
    loss: Loss, start: FrequencyEstimate, point: Array, margin: float = 0.0
) -> bool:
    """Return whether a value is outside the interval in which the loss is finite, or nearly so."""
    first, last = loss.domain(loss.constants(start))
    # The infinities are looked at first: most losses have no end, and need no pass.
    is_low = first > -np.inf and point.min() - first < margin
    return bool(is_low or (last < np.inf and last - point.max() < margin))


class Sloped(NamedTuple):
    """A gradient, and what was seen of the point on the way.

    Attributes
    ----------
    slope
        g, which may be written to.
    product
        g·f, of shape (...).
    extent
        What the sweep over a long vector has seen of f, or None.
    """

    slope: Array
    product: Array
    extent: Extent | None


def slope_and_product(loss: Loss, start: FrequencyEstimate, point: Array) -> Sloped | None:
    """Return the gradient g and g·f; None near the end of the loss's domain.

    Infinite slopes are left to the products with f, which are then no numbers either.
    """
    swept = swept_slope(loss, start, point)
    if swept is not None:
        return Sloped(swept.slope, np.asarray(swept.product), swept.extent)
    if is_near_end(loss, start, point):
        return None
    slope = plain_slope(loss, start, point)
    return Sloped(slope, inner(slope, point), None)


def measured_by(extent: Extent | None, formulation: Formulation, region: Region) -> list[Measured]:
    """Return the violations of the total and of bounds of 0 alone, where a sweep has seen them."""
    if extent is None:
        return []
    measured = of_total(formulation, region, np.asarray(extent.size))
    if has_zeros(region) and not region.upper_count:
        measured += of_bounds(formulation, region, np.asarray(-extent.lowest))
    return measured


def of_total(formulation: Formulation, region: Region, size: Array) -> list[Measured]:
    """Return by how much sums of shape (...) miss what constraints state as their total."""
    if region.total is None:
        return []
    missed = np.asarray(np.abs(size - region.total))
    return [Measured(one, missed) for one in totals_alone(formulation, len(region.lower))]


def totals_alone(formulation: Formulation, d: int) -> list[Constraint]:
    """Return the constraints that state the total and no bounds, which may be violated as well."""
    stated = [one for one in formulation.constraints if one.total(d) is not None]
    return [one for one in stated if one.box(d) is None]


def of_bounds(formulation: Formulation, region: Region, outside: Array) -> list[Measured]:
    """Return for all bounds of a region what is known of their intersection, shape (...)."""
    d = len(region.lower)
    others = [one for one in formulation.constraints if one not in region.tied]
    return [Measured(one, outside) for one in others if one.total(d) is None]


def of_orders(region: Region, rises: Array) -> list[Measured]:
    """Return that orders are not violated where no value exceeds the one above it, (...).

    Where one does the violation is left to them: they may state more pairs than a forest has.
    """
    if rises.any():
        return []
    return [Measured(one, rises) for one in region.tied]


def has_zeros(region: Region) -> bool:
    """Return whether the lower bounds are f >= 0."""
    return region.lower_count == len(region.lower) and region.lower_is_zero


def _simplex_gap(gradient: Array, f: Array, region: Region, total: float) -> SizedGap:
    """Return max <g, f - s> over s >= lower with the total; may overwrite the gradient."""
    left = max(total - region.lower_sum, 0.0)
    # A gradient may be infinite where a value must be zero; nothing times it is nothing.
    cheapest = gradient.min(axis=-1) * left if left else 0.0
    rise = inner(gradient, f)
    finite = np.isfinite(rise)
    if np.count_nonzero(finite) < finite.size:
        gradient[(f == 0) & np.isinf(gradient)] = 0.0
        rise = inner(gradient, f)
    terms = np.abs(rise)
    if not region.lower_is_zero:
        rise = rise - weighted_sum(gradient, np.broadcast_to(region.lower, f.shape))
    return SizedGap(np.asarray(rise - cheapest), terms)


class Moments(NamedTuple):
    """What the bound on a plane needs of slopes g and values f: numbers of shape (...).

    Attributes
    ----------
    mean
        The mean slope, which the others are without. It may be a million times what the slopes
        differ by, and would hide that in the squares.
    size
        Σ f.
    rest, along, squares
        Σ (g - mean), which is rounding, Σ (g - mean) f and Σ (g - mean)².
    """

    mean: Array
    size: Array
    rest: Array
    along: Array
    squares: Array


def _plane_gap(gradient: Array, f: Array, modulus: float, total: float) -> SizedGap:
    """Return the maximum over the total alone; overwrites the gradient."""
    d = f.shape[-1]
    mean = gradient.sum(axis=-1) / d
    gradient -= mean[..., None]
    rest = gradient.sum(axis=-1)
    along = inner(gradient, f)
    squares = inner(gradient, gradient)
    return plane_gap(Moments(mean, f.sum(axis=-1), rest, along, squares), d, modulus, total)


def plane_gap(moments: Moments, d: int, modulus: float, total: float) -> SizedGap:
    """Return the maximum over the total of d values alone."""
    # The mean slope counts by what the sum is off.
    excess = moments.size - total
    step_sum = moments.rest / modulus
    shift = (excess - step_sum) / d
    # The squares of all g/m + shift, without an array of them.
    squares = moments.squares / modulus**2 + shift * (2 * step_sum + d * shift)
    # <g, step> - m/2 ‖step‖² with g = m (step - shift) and Σ step = excess.
    gap = modulus * (squares / 2 - shift * excess) + moments.mean * excess
    return SizedGap(np.asarray(gap), np.abs(moments.along + moments.mean * moments.size))


def _capped_gap(gradient: Array, f: Array, region: Region, total: float) -> SizedGap:
    """Return max <g, f - s> over the bounds at a price μ of the total; overwrites the gradient.

    Weak duality: any μ gives an upper bound. Where f is optimal the price is minus the gradient of
    the values between their bounds, so that it is averaged with the distance to the nearer bound.
    """
    down = f - region.lower
    up = region.upper - f
    slack = np.maximum(np.minimum(down, up), 0.0)
    mass = slack.sum(axis=-1)
    mu = -inner(gradient, slack) / np.maximum(mass, np.finfo(np.float64).tiny)
    if np.count_nonzero(mass) < mass.size:
        mu = np.where(mass > 0, mu, _held_price(gradient, down, up))
    terms = np.abs(inner(gradient, f))
    gradient += mu[..., None]
    # Every value goes to the end that its slope points to: there one product is not negative.
    down *= gradient
    up *= np.negative(gradient, out=gradient)
    apart = np.maximum(down, up, out=down).sum(axis=-1)
    # The price counts by what the sum is off: with rounding alone it is nearly nothing.
    excess = f.sum(axis=-1) - total
    return SizedGap(np.asarray(apart - mu * excess), terms)


def _held_price(gradient: Array, down: Array, up: Array) -> Array:
    """Return a price where every value is at a bound, given the distances down and up.

    Slopes plus the price should be negative at upper bounds, and positive at lower ones.
    """
    highest = np.max(np.where(down > up, gradient, -np.inf), axis=-1)
    lowest = np.min(np.where(down < up, gradient, np.inf), axis=-1)
    return np.asarray(-np.minimum(np.maximum(0.0, highest), lowest))


def _box_gap(gradient: Array, f: Array, modulus: float, region: Region) -> SizedGap:
    """Return the maximum over the bounds alone."""
    terms = np.abs(inner(gradient, f))
    # Without bounds it is the vertex of a parabola in each value.
    if not region.lower_count and not region.upper_count:
        return SizedGap(inner(gradient, gradient) / (2 * modulus), terms)
    step = gradient / modulus
    if region.lower_count:
        np.minimum(step, f if region.lower_is_zero else f - region.lower, out=step)
    if region.upper_count:
        np.maximum(step, f - region.upper, out=step)
    gap = np.asarray(inner(gradient, step) - modulus / 2 * inner(step, step))
    return SizedGap(gap, terms)


def smallest(values: Array) -> float:
    """Return the smallest value; of a broadcast number without a pass."""
    return float(values.min() if any(values.strides) else values.flat[0])


def inner(first: Array, second: Array) -> Array:
    """Return Σ a_v b_v, shape (...), without the array of products."""
    return np.asarray(np.einsum("...v,...v->...", first, second))
