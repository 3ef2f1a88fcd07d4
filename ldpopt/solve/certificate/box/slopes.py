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
    leaves = [(weight, leaf) for weight, leaf in loss.leaves() if weight > 0]
    if len(leaves) == 1 and leaves[0][1] is not loss:
        ((weight, term),) = leaves
        slope = slope_of(term, start, point)
        slope *= weight
        return slope
    if point.ndim == 1 and is_long(start.d):
        # Both import numba.
        from ldpopt.solve.certificate.box.box_kernels import LOGARITHMS, slopes
        from ldpopt.solve.certificate.box.formulas import Point, formula_of

        ends = (float(point.min()), float(point.max()))
        formula = formula_of(loss, Point(start, point, *ends, *ends))
        if formula is not None and formula.kind != LOGARITHMS:
            return slopes(formula, point)
    return np.require(loss.gradient(point, start), np.float64, ["C", "W"])
