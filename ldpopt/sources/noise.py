"""The noise of combined estimates: exact for values, and for sums through the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.covariance import Covariance
from ldpopt.estimate.noise import Noise

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
Weights = Callable[[Array], list[Array]]
Combine = Callable[[Sequence[Array]], Array]

_ROWS = 64  # sets whose variances are computed together: each takes a few vectors of d numbers


class CombinedCovariance(Covariance):
    """Σ_k L_k C_k L_kᵀ: the covariance of an estimate that adds up linear maps of measurements.

    Parameters
    ----------
    d
        Number of values.
    weights
        From rows x of shape (k, d) to the rows L_kᵀ x for each measurement.
    combine
        From rows for each measurement, as ``weights`` returns them, to Σ_k L_k of them.
    parts
        The covariance C_k of each measurement.
    independent
        Variances of independent errors besides, shape (d,); none by default.
    """

    def __init__(
        self,
        d: int,
        weights: Weights,
        combine: Combine,
        parts: list[Covariance],
        independent: Array | None = None,
    ) -> None:
        besides = np.zeros(d) if independent is None else independent
        super().__init__(besides, np.zeros((d, 0)), np.zeros((0, 0)))
        self._weights = weights
        self._combine = combine
        self._parts = parts

    @property
    def diagonal(self) -> Array:
        """The variance of every value, shape (d,): d products."""
        return np.concatenate([self.quadratic(rows) for rows in _blocks(np.eye(self.d))])

    def scaled(self, factor: float) -> Covariance:
        """Return the matrix times ``factor`` >= 0."""
        parts = [part.scaled(factor) for part in self._parts]
        besides = factor * self._independent
        return CombinedCovariance(self.d, self._weights, self._combine, parts, besides)

    def with_diagonal(self, variances: Array) -> Covariance:
        """Return the matrix plus diag(variances): independent errors besides, shape (d,)."""
        besides = self._independent + variances
        return CombinedCovariance(self.d, self._weights, self._combine, self._parts, besides)

    def _product(self, columns: Array) -> Array:
        drawn = self._weights(columns.T)
        spread = [(part @ rows.T).T for part, rows in zip(self._parts, drawn, strict=True)]
        return self._combine(spread).T + self._independent[:, None] * columns


@dataclass(frozen=True, eq=False, repr=False)
class CombinedNoise(Noise):
    """The noise of a combined estimate whose values share measurements.

    Attributes
    ----------
    joint
        From true frequencies, shape (d,), to the covariance of the whole estimate.
    """

    joint: Callable[[Array], Covariance] | None = field(default=None)

    def covariance(self, frequencies: ArrayLike) -> Covariance:
        """Return the covariance matrix of the whole estimate, which no one writes out.

        Parameters
        ----------
        frequencies
            True frequencies f, or estimates in their place, shape (d,).
        """
        assert self.joint is not None  # Sources states it
        return self.joint(validate.frequencies(frequencies))

    def answer_variance(
        self, frequencies: Array, members: csr_array | None = None, *, centred: bool = False
    ) -> tuple[Array, Array]:
        """Return (α, β): the answer to a set query has the variance α + β F, with β = 0 for sets.

        The variance of a set depends on the frequencies of all measured groups: the estimates
        stand in their place, cut to 0 .. 1.
        """
        if members is None:
            return super().answer_variance(frequencies, None)
        covariance = self.covariance(np.clip(frequencies, 0.0, 1.0))
        blocks = [covariance.quadratic(rows.toarray()) for rows in _blocks(members)]
        return np.concatenate([np.empty(0), *blocks]), np.zeros(1)


def _blocks(rows: Any) -> Iterator[Any]:
    """Return the rows of a matrix, a few at a time."""
    return (rows[first : first + _ROWS] for first in range(0, rows.shape[0], _ROWS))
