"""The likelihood of mixture weights behind its products: A x, Aᵀ r, and what a point is worth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError

Array = NDArray[np.float64]

FORMED = 1 << 25  # entries of a matrix that may be formed from an operator: 256 MB
EPS = float(np.finfo(np.float64).eps)
_SMALLEST = float(np.finfo(np.float64).tiny)  # of a probability whose inverse is finite


class Point(NamedTuple):
    """Weights x on the simplex, with what is computed of them: A x, the scores g and the gap."""

    x: Array
    probability: Array
    score: Array
    gap: float


def nonnegative(what: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return finite values >= 0 of the given shape, not all zero; raise an error otherwise."""
    result = validate.array(what, values).astype(np.float64)
    if result.shape != shape:
        raise InvalidInputError(f"{what} must have shape {shape}, got {result.shape}")
    wrong = ~_is_finite_and_nonnegative(result)
    if wrong.any():
        at = validate.first(wrong)
        raise InvalidInputError(
            f"{what} must be finite and >= 0, found {result[at]} at {validate.where(at)}"
        )
    # Weights or likelihoods of zero alone leave nothing to maximise.
    if not result.any():
        raise InvalidInputError(f"{what} must not be all zero")
    return result


def _is_finite_and_nonnegative(values: Array) -> NDArray[np.bool_]:
    return np.asarray((values >= 0) & np.isfinite(values))


class LikelihoodModel:
    """Σ_i c_i log (A x)_i for an array or an operator A; products are counted.

    Parameters
    ----------
    likelihoods, weights
        A of shape (m, d) and c of shape (m,), as in ``mixture_weights``, with its errors.
    """

    def __init__(self, likelihoods: Any, weights: ArrayLike | None) -> None:
        self.products = 0
        self.columns: Array | None = None  # A as an array, where it is held
        self.offset = 0.0  # mean logarithm of what the rows were divided by
        is_operator = hasattr(likelihoods, "matvec") and hasattr(likelihoods, "rmatvec")
        self.operator = likelihoods if is_operator else None
        matrix = likelihoods if is_operator else validate.array("likelihoods", likelihoods)
        if len(matrix.shape) != 2 or 0 in matrix.shape:
            raise InvalidInputError(
                f"likelihoods must have shape (m, d) with m, d >= 1, got {matrix.shape}"
            )
        m, self.d = (int(size) for size in matrix.shape)
        self.share = _shares(weights, m)
        self.observed = self.share > 0
        self.rows = np.arange(m)  # numbers of the rows that are held
        if not is_operator:
            self._hold(matrix)

    def _hold(self, dense: NDArray[Any]) -> None:
        """Keep the rows with c > 0, divided by their largest entries; scores do not change."""
        self.rows = self.rows[self.observed]
        columns = np.asarray(dense[self.rows], dtype=np.float64)  # a copy: an index array selects
        wrong = ~_is_finite_and_nonnegative(columns)
        if wrong.any():
            row, column = (int(i) for i in validate.first(wrong))
            raise InvalidInputError(
                f"likelihoods must be finite and >= 0, found {columns[row, column]} at row "
                f"{self.rows[row]}, column {column}"
            )
        largest = columns.max(axis=1)
        if not largest.all():
            first_zero = int(np.argmin(largest))
            raise self._impossible(first_zero)
        columns /= largest[:, None]
        self.share = self.share[self.rows]
        self.observed = self.observed[self.rows]
        self.columns = columns
        self.offset += float(self.share @ np.log(largest))

    def _impossible(self, row: int) -> InvalidInputError:
        return InvalidInputError(
            f"observation {self.rows[row]} has probability zero, or next to it, under every "
            "component that may have weight: check that row, scale it (a factor per row changes "
            "nothing), or give it weight 0"
        )

    def form(self) -> bool:
        """Return whether A is held as an array, after forming it from d products if it fits."""
        if self.columns is None and len(self.share) * self.d <= FORMED:
            dense = np.empty((len(self.share), self.d))
            unit = np.zeros(self.d)
            for v in range(self.d):
                unit[v] = 1.0
                dense[:, v] = self.forward(unit)
                unit[v] = 0.0
            # Rows are not rescaled: points that exist hold their probabilities.
            self.columns = dense
        return self.columns is not None

    def forward(self, x: Array) -> Array:
        """Return A x."""
        self.products += 1
        if self.columns is not None:
            return np.asarray(self.columns @ x)
        return np.asarray(self.operator.matvec(x), dtype=np.float64)  # type: ignore[union-attr]

    def back(self, r: Array) -> Array:
        """Return Aᵀ r."""
        self.products += 1
        if self.columns is not None:
            return np.asarray(r @ self.columns)
        return np.asarray(self.operator.rmatvec(r), dtype=np.float64)  # type: ignore[union-attr]

    def over(self, numerator: Array, probability: Array) -> Array:
        """Return the quotient, 0 where nothing was observed."""
        zeros = np.zeros_like(probability)
        return np.divide(numerator, probability, out=zeros, where=self.observed)

    def begin(self, x: Array) -> Point:
        """Return the first point; an error is raised if an observation is impossible there."""
        probability = self.forward(x)
        if probability.shape != self.share.shape:
            raise InvalidTypeError(
                f"matvec must return shape {self.share.shape} for a vector of shape {x.shape}, "
                f"got {probability.shape}"
            )
        observed = probability[self.observed]
        if not _is_finite_and_nonnegative(observed).all():
            raise InvalidInputError("likelihoods must be finite and >= 0, but A x is not")
        # The scores, shares over probabilities, overflow for smaller numbers too.
        impossible = self.observed & (probability < _SMALLEST)
        if impossible.any():
            first = int(np.argmax(impossible))
            raise self._impossible(first)
        return self.point(x, probability)

    def point(self, x: Array, probability: Array | None = None) -> Point:
        """Return a point; its probability A x may be given."""
        if probability is None:
            probability = self.forward(x)
        ratios = self.over(self.share, probability)
        score = self.back(ratios)
        gap = max(float(score.max()) - 1, EPS)  # no gap is known to less than rounding
        return Point(x, probability, score, gap)

    def log_likelihood(self, probability: Array) -> float:
        """Return Σ c log (A x), given A x."""
        zeros = np.zeros_like(probability)
        logs = np.log(probability, out=zeros, where=self.observed)
        return float(self.share @ logs) + self.offset


def _shares(weights: ArrayLike | None, m: int) -> Array:
    """Return the share of each of m observations, from how often it was made."""
    counts = np.ones(m) if weights is None else nonnegative("weights", weights, (m,))
    counts = counts / counts.max()  # first: a sum of huge weights overflows
    return np.asarray(counts / counts.sum())
