"""The noise of combined estimates: exact for values, and for sums through the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form import norm_sub
from ldpopt.covariance import Covariance
from ldpopt.estimate.noise import Noise

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
Weights = Callable[[Array], list[Array]]
Combine = Callable[[Sequence[Array]], Array]

# Numbers in the rows that are computed together, 32 MB: about three copies of them exist at once.
_AT_ONCE = 1 << 22


class Part(NamedTuple):
    """The covariance of one measurement, and the variances of independent errors besides."""

    covariance: Covariance
    besides: Array

    def product(self, rows: Array) -> Array:
        """Return the product with each row of a matrix (k, size)."""
        return np.asarray((self.covariance @ rows.T).T + self.besides * rows)

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Return normal errors of mean 0, shape (count, size)."""
        independent = np.sqrt(self.besides) * rng.standard_normal((count, len(self.besides)))
        return self.covariance.draws(count, rng) + independent


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
    shares
        Where each value is a sum of its own measurements, Σ_k s_k ỹ_k: the shares s_k, numbers or
        of shape (d,). The variances of values then take no products.
    """

    def __init__(
        self,
        d: int,
        weights: Weights,
        combine: Combine,
        parts: Sequence[Part],
        shares: Sequence[Array] | None = None,
    ) -> None:
        # No part of it is stated by its diagonal: the products are those of the measurements.
        super().__init__(np.zeros(d), np.zeros((d, 0)), np.zeros((0, 0)))
        self._weights = weights
        self._combine = combine
        self._parts = tuple(parts)
        self._shares = shares

    @property
    def diagonal(self) -> Array:
        """The variance of every value, shape (d,): d products where groups were measured."""
        if self._shares is None:
            blocks = [self.quadratic(rows) for rows in self._identity()]
            return np.concatenate(blocks)
        variance = np.zeros(self.d)
        for share, part in zip(self._shares, self._parts, strict=True):
            variance += share**2 * (part.covariance.diagonal + part.besides)
        return variance

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Return normal vectors with this covariance and mean 0, shape (count, d)."""
        return self._combine([part.draws(count, rng) for part in self._parts])

    def variances(self, members: Any) -> Array:
        """Return the diagonal of A Σ Aᵀ for a sparse (m, d) matrix A of zeros and ones, (m,)."""
        size = self._rows_at_once()
        # Sparse rows are filled up block by block.
        starts = range(0, members.shape[0], size)
        blocks = [self.quadratic(members[first : first + size].toarray()) for first in starts]
        # The empty array is the answer where there are no sets.
        return np.concatenate([np.empty(0), *blocks])

    def trace_with(self, derivative: Any) -> float:
        """Return tr(J Σ) for a matrix J that knows its products (``@``): d products."""
        total = 0.0
        for rows in self._identity():
            moved = derivative @ self._product(rows.T)
            total += float(np.sum(moved * rows.T))
        return total

    def scaled(self, factor: float) -> CombinedCovariance:
        """Return the matrix times ``factor`` >= 0."""
        parts = [
            Part(each.covariance.scaled(factor), factor * each.besides) for each in self._parts
        ]
        return CombinedCovariance(self.d, self._weights, self._combine, parts, self._shares)

    def _rows_at_once(self) -> int:
        """Return how many rows of d numbers fit into memory, for every measurement."""
        return max(_AT_ONCE // (self.d * len(self._parts)), 1)

    def _identity(self) -> Iterator[Array]:
        """Return the rows of the identity matrix, a few at a time: of large d it has no room."""
        size = self._rows_at_once()
        for first in range(0, self.d, size):
            count = min(size, self.d - first)
            rows = np.zeros((count, self.d))
            rows[np.arange(count), first + np.arange(count)] = 1.0
            yield rows

    def _product(self, columns: Array) -> Array:
        # Σ L C Lᵀ x from right to left: no matrix of d × d is written out.
        drawn = self._weights(columns.T)
        spread = [part.product(rows) for part, rows in zip(self._parts, drawn, strict=True)]
        return self._combine(spread).T


@dataclass(frozen=True, eq=False, repr=False)
class CombinedNoise(Noise):
    """The noise of a combined estimate whose values share measurements.

    Attributes
    ----------
    joint
        From true frequencies, shape (d,), to the covariance of the whole estimate.
    origins
        What identifies the collections that went into it: none of them may be counted again.
    """

    joint: Callable[[Array], CombinedCovariance] | None = field(default=None)
    origins: frozenset[Any] = field(default=frozenset())

    def covariance(self, frequencies: ArrayLike) -> CombinedCovariance:
        """Return the covariance matrix of the whole estimate, which is never written out.

        Parameters
        ----------
        frequencies
            True frequencies f, or estimates in their place, shape (d,).
        """
        assert self.joint is not None  # Sources states it
        # A distribution: where raw estimates are cut their sum is above 1, and the variance of
        # large sets would be negative.
        return self.joint(norm_sub(validate.frequencies(frequencies)))

    def answer_variance(
        self, frequencies: Array, members: csr_array | None = None, *, centred: bool = False
    ) -> tuple[Array, Array]:
        """Return (α, β): the answer to a set query has the variance α + β F, with β = 0 for sets.

        The variance of a set depends on the frequencies of all measured groups: Norm-Sub's stand in
        their place.
        """
        if members is None:
            return super().answer_variance(frequencies, None)
        return self.covariance(frequencies).variances(members), np.zeros(1)
