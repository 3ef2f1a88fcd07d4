"""The gradient at a point, of a long vector in one sweep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import is_long
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss

Array = NDArray[np.float64]


class Swept(NamedTuple):
    """What one sweep over a long vector f knows.

    Attributes
    ----------
    slope
        The gradient g, in an array that may be written to.
    product
        g·f.
    size
        Σ f.
    lowest
        The smallest value where it is negative, 0 elsewhere, and NaN where a value is.
    """

    slope: Array
    product: float
    size: float
    lowest: float


def slope_of(loss: Loss, start: FrequencyEstimate, point: Array) -> Array:
    """Return the gradient of a loss at f of shape (..., d), in an array that may be written to.

    ``Loss.gradient`` goes through a long vector once per operation. The formulas that ``long_box``
    knows take one compiled sweep, with the same roundings.
    """
    swept = swept_slope(loss, start, point)
    return plain_slope(loss, start, point) if swept is None else swept.slope


def plain_slope(loss: Loss, start: FrequencyEstimate, point: Array) -> Array:
    """Return the gradient as the loss computes it, in an array that may be written to."""
    slope = loss.gradient(point, start)
    # One look, where ``require`` takes as long as a gradient of a thousand values.
    is_usual = slope.flags.carray and slope.dtype == np.float64
    return slope if is_usual else np.require(slope, np.float64, ["C", "W"])


def swept_slope(loss: Loss, start: FrequencyEstimate, point: Array) -> Swept | None:
    """Return the gradient at one long vector, and sums over it, from one compiled sweep.

    None for short vectors, several, other losses, and near an end of the loss's domain.
    """
    if point.ndim > 1 or not is_long(start.d):
        return None
    leaves = [(weight, leaf) for weight, leaf in loss.leaves() if weight > 0]
    if len(leaves) != 1:
        return None
    # Both import numba.
    from ldpopt.solve.certificate.box.box_kernels import LOGARITHMS, slopes
    from ldpopt.solve.certificate.box.formulas import Point, formula_of

    ((weight, leaf),) = leaves
    formula = formula_of(leaf, Point(start, point))
    if formula is None or formula.kind == LOGARITHMS:
        return None
    slope, product, size, lowest = slopes(formula, point)
    if weight != 1:
        slope *= weight
    return Swept(slope, weight * product, size, lowest)
