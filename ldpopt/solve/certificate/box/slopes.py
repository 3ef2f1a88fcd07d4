"""The gradient at a point, of a long vector in one sweep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import is_long
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss

Array = NDArray[np.float64]


def slope_of(loss: Loss, start: FrequencyEstimate, point: Array) -> Array:
    """Return the gradient of a loss at f of shape (..., d), in an array that may be written to.

    ``Loss.gradient`` goes through a long vector once per operation. The formulas that ``long_box``
    knows take one compiled sweep, with the same roundings.
    """
    swept = swept_slope(loss, start, point)
    return plain_slope(loss, start, point) if swept is None else swept[0]


def plain_slope(loss: Loss, start: FrequencyEstimate, point: Array) -> Array:
    """Return the gradient as the loss computes it, in an array that may be written to."""
    slope = loss.gradient(point, start)
    # One look, where ``require`` takes as long as a gradient of a thousand values.
    is_usual = slope.flags.carray and slope.dtype == np.float64
    return slope if is_usual else np.require(slope, np.float64, ["C", "W"])


def swept_slope(loss: Loss, start: FrequencyEstimate, point: Array) -> tuple[Array, float] | None:
    """Return the gradient g at one long vector f, and g·f, from one compiled sweep.

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
    slope, product = slopes(formula, point)
    if weight != 1:
        slope *= weight
    return slope, weight * product
