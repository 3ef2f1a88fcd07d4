"""An upper bound of a gap with a price on total variation, from one pass along its chain.

It is meant for acceptance, as ``quick_gap`` is: rounding is not charged. The price λ Σ |f_{i+1} -
f_i| has as subgradients all y_{i-1} - y_i with |y_i| <= λ that have the sign of a jump where f has
one, and the bound of ``quick_gap`` holds with any subgradient of the loss. At a minimum there is
one whose slopes are equal at all values between their bounds, and ``add_pulls`` finds it: what a
value has beyond that level goes to the next one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.acceptance.quick_gap import gap_of_slopes, measured_by, slope_and_product
from ldpopt.solve.certificate.bounds.evidence import CLEAR, SizedGap, is_within
from ldpopt.solve.certificate.box.slopes import slope_of
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]

# Values between their bounds that tell the level of all.
_FEW = 1024


def variation_gap(
    formulation: Formulation, start: FrequencyEstimate, point: Array
) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for other losses and sets.

    Parameters
    ----------
    formulation
        A smooth convex loss with a price on total variation, on a box with at most one total.
    start
        The estimate.
    point
        f, of the estimate's shape.

    Notes
    -----
    Cost: the gradient, and two passes along the chain.
    """
    loss = formulation.loss
    smooth = loss.smooth_part
    priced = _only_price(loss)
    if smooth is None or priced is None or not loss.convex or not formulation.is_box(start.d):
        return None
    # At a minimum all runs between their bounds have one level: mostly a few of them tell it.
    bound = None
    for enough in sorted({min(_FEW, start.d), start.d}):
        bound = _bound(formulation, start, point, smooth, priced, enough)
        if bound is None or is_within(bound.gap, bound.terms, CLEAR):
            break
    return bound


def _bound(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    smooth: Loss,
    priced: _Price,
    enough: int,
) -> SizedGap | None:
    """Return the bound at the level that so many values tell."""
    sloped = slope_and_product(smooth, start, point)
    # An infinite slope makes the product no finite number.
    if sloped is None or not np.isfinite(sloped.product).all():
        return None
    slope, product, extent = sloped
    region = formulation.region(start.d)
    _level_along(priced, slope, point, region, enough)
    bound = gap_of_slopes(formulation, start, point, lambda: slope)
    if bound is None:
        return None
    gap = np.maximum(bound.gap, 0.0)
    # In units of the slopes without those of the price, which may cancel them.
    terms = np.abs(product)
    if not is_within(gap, terms, CLEAR):
        terms = absolute_sum(slope_of(smooth, start, point), point)
    return SizedGap(gap, terms, tuple(measured_by(extent, formulation, region)))


def _level_along(priced: _Price, slope: Array, point: Array, region: Region, enough: int) -> None:
    """Add a subgradient of the price to slopes, in place."""
    from ldpopt.solve.certificate.bounds.variation_kernel import add_pulls

    none = np.empty(0)
    chain = priced.chain
    rows = slope.reshape(-1, slope.shape[-1])
    # A chain of all values as they stand is a slice, and these are then views.
    along = np.ascontiguousarray(rows[:, chain])
    add_pulls(
        along,
        np.ascontiguousarray(point.reshape(rows.shape)[:, chain]),
        priced.price,
        np.ascontiguousarray(region.lower[chain]) if region.lower_count else none,
        np.ascontiguousarray(region.upper[chain]) if region.upper_count else none,
        enough,
    )
    if not isinstance(chain, slice):
        rows[:, chain] = along


class _Price(NamedTuple):
    """A chain, and what a unit of variation along it costs in the loss."""

    chain: NDArray[np.int64] | slice
    price: float


def _only_price(loss: Loss) -> _Price | None:
    """Return the price on variation where that is the only part of a loss with kinks."""
    kinked = [
        (weight, term)
        for weight, term in loss.leaves()
        if weight > 0 and (term.has_kinks or term.has_shared_kinks)
    ]
    if len(kinked) != 1:
        return None
    ((price, term),) = kinked
    chain = term.priced_chain
    return None if chain is None else _Price(chain, float(price))
