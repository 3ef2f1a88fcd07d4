"""Absolute deviations, which are robust to single outliers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Kinks, Loss

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class LeastAbsolute(Loss):
    """Σ |f_v - f̃_v|.

    Its minimiser is rarely unique; the closed form returns the one nearest to f̃ in least squares.

    Examples
    --------
    >>> float(LeastAbsolute().value(np.array([0.5, 0.25]), FrequencyEstimate([0.75, 0.25])))
    0.25
    """

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ |f_v - f̃_v|."""
        deviations = np.abs(f - estimate.frequencies)
        return np.asarray(np.sum(deviations, axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the sign of f - f̃; 0, which is a subgradient, where they are equal."""
        return np.sign(f - estimate.frequencies)

    def kinks(self, estimate: FrequencyEstimate) -> Kinks:
        """Return f̃ with the slopes -1 and 1."""
        # Deviations all count the same: every kink turns from -1 to 1.
        slope = np.ones(estimate.frequencies.shape)
        return Kinks(estimate.frequencies, -slope, slope)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃."""
        return (estimate.frequencies,)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return ‖d (f - f̃)‖₁: a linear program in units of the uniform frequency."""
        import cvxpy as cp

        # Times d: solvers' tolerances are absolute, and frequencies of order 1/d.
        (target,) = data
        return cp.norm1(f.size * (f - target)), []
