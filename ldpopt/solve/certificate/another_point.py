"""A gap by way of another point: how far the loss falls to it, and that point's own gap.

For any vectors f and s', and every s of the set,

    L(f) - L(s) = [L(f) - L(s')] + [L(s') - L(s)].

The last bracket is at most the gap of s', by the multipliers that are known at s'. The first one is
bounded by the loss's minorant at f, whose rise counts between f and s' alone: with the slope of the
loss at s' as its price it is largest at s'. So s' may be anything at which the loss is finite,
inside the set or not: nothing is assumed about where it comes from. From a minimum nothing is lost
but the changes of curvature between the two points, however far f is from it. That is what no
multipliers at f give without a program, since these follow from f.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.certificate.bounds.dual import EPS, sum_with_error, usable
from ldpopt.solve.certificate.bounds.evidence import SizedGap
from ldpopt.solve.certificate.bounds.minorant import MixedLoss, Tangent, minorant
from ldpopt.solve.certificate.bounds.shared_kinks import are_known
from ldpopt.solve.certificate.box import box
from ldpopt.solve.certificate.prices.ball_gap import ball_gap
from ldpopt.solve.certificate.prices.pooled_gap import pooled_gap
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]


class Detour(NamedTuple):
    """An upper bound of L(f) - min L, and the gap of the other point in it, each shape (...)."""

    gap: Array
    of_other: Array


def gap_by_way_of(
    formulation: Formulation, start: FrequencyEstimate, point: Array, other: Array
) -> Detour | None:
    """Return the gap of a point by way of another one; None where that proves nothing.

    Multipliers of the other point may take a program, or the loss there may be no finite number.

    Parameters
    ----------
    formulation
        A convex loss under convex constraints.
    start
        The estimate.
    point, other
        f and s', of the estimate's shape.

    Notes
    -----
    Cost: that of the gap of a closed form's point, and some ten passes.
    """
    loss = formulation.loss
    # What is not a number, or overflows, proves nothing.
    with np.errstate(all="ignore"):
        # Where a loss is infinite its slopes mean nothing: a small gap there would be no proof.
        if not np.isfinite(loss.value(other, start)).all():
            return None
        at_other = gap_at_hand(formulation, start, other)
        if at_other is None:
            return None
        fall = _fall(loss, start, point, other)
        if fall is None:
            return None
        gap = fall + at_other.gap + EPS * (np.abs(fall) + at_other.gap)
    return Detour(np.where(np.isnan(gap), np.inf, np.maximum(gap, 0.0)), at_other.gap)


def gap_at_hand(
    formulation: Formulation, start: FrequencyEstimate, point: Array
) -> SizedGap | None:
    """Return the gap by multipliers that take no program, with all rounding charged, or None."""
    if box.applies(formulation, start.d):
        _, gap, terms = box.bound(formulation, start, point)
        return SizedGap(gap, terms)
    pooled = pooled_gap(formulation, start, point)
    return ball_gap(formulation, start, point) if pooled is None else pooled


def _fall(loss: Loss, start: FrequencyEstimate, f: Array, other: Array) -> Array | None:
    """Return an upper bound of L(f) - L(s'), of any sign; None where kinks have unknown slopes."""
    if not are_known(loss):
        return None
    lower = np.minimum(f, other)
    upper = np.maximum(f, other)
    tangent = minorant(loss, start, f, lower, upper)
    step = f - other
    price = usable(loss.gradient(other, start))
    rise = tangent.rise(price, np.zeros(1), lower, upper)
    smooth = tangent.smooth if isinstance(tangent, MixedLoss) else tangent
    if isinstance(smooth, Tangent) and smooth.held is not None:
        # Any slope is right there only for vectors that are 0 there too.
        rise = np.where(np.any(smooth.held & (step != 0), axis=-1), np.inf, rise)
    products = price * step
    size, error = sum_with_error(products)
    # Steps and products are rounded as well as their sum.
    return np.asarray(size + error + rise + 4 * EPS * np.sum(np.abs(products), axis=-1))
