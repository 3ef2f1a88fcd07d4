"""Least squares with groups that overlap: one dense system of as many rows as groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import UnsupportedProblemError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]

LARGEST = 4_096
"""Overlapping groups up to which their dense system is solved: 128 MB, about a second."""

_COLUMNS = 4_096  # values looked at together: the largest intermediate result has m rows of these

# Where precisions differ by up to 10¹⁰ they leave 1e-7 of a standard deviation in place of 8e-3.
_REFINEMENTS = 2


class OverlapSquares:
    """The quadratic ½ Σ w_v f_v² + ½ Σ ω_g (Σ_g f)² of values and any groups.

    With D = 1/w and A the groups, its matrix has the inverse D - D Aᵀ K A D by Woodbury's identity,
    where K = (1/ω + A D Aᵀ)⁻¹.

    Parameters
    ----------
    members
        A, sparse (m, d) of zeros and ones.
    precision
        Weights w > 0 of the values, shape (d,).
    weights
        Weights ω > 0 of the groups, shape (m,).

    Raises
    ------
    UnsupportedProblemError
        If there are more than ``LARGEST`` groups.
    """

    def __init__(self, members: csr_array, precision: Array, weights: Array) -> None:
        from scipy import linalg

        m = members.shape[0]
        if m > LARGEST:
            raise UnsupportedProblemError(
                f"{m:,} groups overlap, and up to {LARGEST:,} can: leave some out, or use groups "
                "that lie inside each other or apart"
            )
        self._members = members
        self._precision = precision
        self._weights = weights
        # Sparse, so that only the system of the groups is dense.
        self._shared: Any = members.multiply(1 / precision).tocsr()  # A D
        system = (self._shared @ members.T).toarray() + np.diag(1 / weights)
        self._core: Array = linalg.inv(system)

    def solve(self, x: Array) -> Array:
        """Return P⁻¹ x for rows x of shape (k, d), with P the matrix of the quadratic."""
        solved = self._approximately(x)
        # The identity is a difference, of which little is left where groups that overlap are far
        # more precise than values.
        for _ in range(_REFINEMENTS):
            seen = self._weights[:, None] * (self._members @ solved.T)
            product = self._precision * solved + (self._members.T @ seen).T
            solved = solved + self._approximately(x - product)
        return solved

    def _approximately(self, x: Array) -> Array:
        """Return the same by Woodbury's identity, as exact as rounding leaves it."""
        plain = x / self._precision
        # From right to left: no product is larger than groups × rows.
        of_groups = self._core @ (self._shared @ x.T)
        return np.asarray(plain - (self._shared.T @ of_groups).T)

    def variances(self, of_values: Array, of_groups: Array) -> tuple[Array, Array]:
        """Return the variance of each combined value, and how it follows its own measurement.

        As of ``ForestSquares``. With B = A D a value's weights on the measurements are those of
        (D - Bᵀ K B) w and of Bᵀ K.
        """
        measured = self._precision**2 * of_values
        inner = (self._shared.multiply(measured) @ self._shared.T).toarray()
        spread = self._core @ (inner + np.diag(of_groups)) @ self._core
        # By how much the groups draw each value away from its own measurement.
        drawn = self._precision * self._quadratic(self._core)
        common = 2 * of_values * drawn
        variance = of_values - common + self._quadratic(spread)
        return variance, 1 - drawn

    def _quadratic(self, matrix: Array) -> Array:
        """Return the diagonal of Bᵀ M B."""
        result = np.empty(len(self._precision))
        by_value = self._shared.tocsc()
        for first in range(0, len(result), _COLUMNS):
            columns = by_value[:, first : first + _COLUMNS]
            result[first : first + _COLUMNS] = columns.multiply(matrix @ columns).sum(axis=0)
        return result
