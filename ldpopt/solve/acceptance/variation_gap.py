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
from ldpopt.solve.acceptance.quick_gap import gap_of_slopes, is_near_end
from ldpopt.solve.certificate.bounds.evidence import SizedGap
from ldpopt.solve.certificate.box.slopes import slope_of
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]


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
    d = start.d
    smooth = loss.smooth_part
    priced = _only_price(loss, d)
    if smooth is None or priced is None or not loss.convex:
        return None
    if not formulation.is_box(d) or is_near_end(formulation, start, point):
        return None
    slope = slope_of(smooth, start, point)
    # Not a number either.
    if not (np.isfinite(slope.min()) and np.isfinite(slope.max())):
        return None
    terms = absolute_sum(slope, point)
    from ldpopt.solve.certificate.bounds.variation_kernel import add_pulls

    region = formulation.region(d)
    none = np.empty(0)
    rows = np.ascontiguousarray(slope.reshape(-1, d))
    add_pulls(
        rows,
        np.ascontiguousarray(point.reshape(-1, d)),
        priced.chain,
        priced.price,
        region.lower if region.lower_count else none,
        region.upper if region.upper_count else none,
    )
    bound = gap_of_slopes(formulation, start, point, lambda: rows.reshape(point.shape))
    # In units of the slopes without those of the price, which may cancel them.
    return None if bound is None else SizedGap(np.maximum(bound.gap, 0.0), terms)


class _Price(NamedTuple):
    """A chain, and what a unit of variation along it costs in the loss."""

    chain: NDArray[np.int64]
    price: float


def _only_price(loss: Loss, d: int) -> _Price | None:
    """Return the price on variation where that is the only part of a loss with kinks."""
    kinked = [
        (weight, term)
        for weight, term in loss.leaves()
        if weight > 0 and (term.has_kinks or term.has_shared_kinks)
    ]
    if len(kinked) != 1:
        return None
    ((price, term),) = kinked
    chain = term.priced_chain(d)
    return None if chain is None else _Price(chain, float(price))
