"""Squares by their slopes at one point, without the estimate that these were computed from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import ROUNDINGS, Loss

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class ExpandedSquares(Loss):
    """g·(f - c) + ½ Σ w_v (f_v - c_v)², which is any squared distance but for a constant.

    Certificates state a distance so where its estimate is far from c: a slope that is known at c to
    its last digit is not computed again, as a difference to the estimate that would lose it.

    Parameters
    ----------
    centre
        c, shape (..., d).
    slope, error
        g, and a bound of what rounding has changed in it, of that shape.
    weights
        w > 0, one number or of a shape that broadcasts to it.
    """

    adds_over_values = True

    def __init__(self, centre: Array, slope: Array, error: Array, weights: Array | float) -> None:
        self.centre = centre
        self.slope = slope
        self.error = error
        self.weights = weights

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss above that of the centre."""
        step = f - self.centre
        return np.asarray(np.sum((self.slope + self.weights * step / 2) * step, axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return g + w (f - c)."""
        return np.asarray(self.slope + self.weights * (f - self.centre))

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return the error of g, and the rounding of the two terms."""
        moved = np.abs(gradient - self.slope)
        return np.asarray(self.error + ROUNDINGS * (np.abs(self.slope) + moved))

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return the weights."""
        return np.broadcast_to(self.weights, estimate.frequencies.shape)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return c and g."""
        return self.centre, self.slope

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the loss itself."""
        import cvxpy as cp

        centre, slope = data
        step = f - centre
        roots = np.broadcast_to(np.sqrt(self.weights), f.shape)
        return slope @ step + 0.5 * cp.sum_squares(cp.multiply(roots, step)), []
