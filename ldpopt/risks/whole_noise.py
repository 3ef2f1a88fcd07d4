"""Traces with the whole covariance, where it and all derivatives are a diagonal plus low rank.

Nothing is drawn then: each trace is a sum over values of products of a few numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DiagonalPlus:
    """The d x d matrix diag(diagonal) + Lᵀ R.

    Attributes
    ----------
    diagonal
        Shape (d,).
    left, right
        L and R, shape (r, d) with r small: rows, since sums over values are what they are for.
    """

    diagonal: Array
    left: Array
    right: Array

    @property
    def trace(self) -> float:
        """The sum of the diagonal."""
        return float(np.sum(self.diagonal) + np.vdot(self.left, self.right))

    def trace_with(self, other: DiagonalPlus) -> float:
        """Return the trace of the product with another such matrix."""
        total = float(self.diagonal @ other.diagonal)
        # A diagonal meets only the diagonal of Lᵀ R: the entries of L and R by column.
        ours = self.left * self.right
        theirs = other.left * other.right
        total += float(np.sum(theirs @ self.diagonal))
        total += float(np.sum(ours @ other.diagonal))
        # tr(Lᵀ R L'ᵀ R') = tr((R L'ᵀ)(R' Lᵀ)).
        crossed = (self.right @ other.left.T) * (self.left @ other.right.T)
        return total + float(np.sum(crossed))

    @cached_property
    def trace_of_square(self) -> float:
        """The trace of the product with itself."""
        return self.trace_with(self)


class WholeNoise:
    """The noise of all values, as ``Moves`` has it along some of its directions.

    With C = P Σ P the covariance of the unbiased values, P the projection to a sum of 0 where the
    total is known, what a rule lets through is T = J Σ P.

    Parameters
    ----------
    independent, basis, core
        Σ = diag(independent) + B K Bᵀ, as of ``Covariance``.
    knows_total
        Whether the total is known.
    """

    def __init__(self, independent: Array, basis: Array, core: Array, *, knows_total: bool) -> None:
        spread = core @ basis.T
        if not knows_total:
            self._shared = self._projected = DiagonalPlus(independent, spread, basis.T)
            return
        ones = np.ones((1, len(independent)))
        means = (independent + basis.sum(axis=0) @ spread) / len(independent)
        # Σ P = Σ - m 1ᵀ with m = Σ 1/d, and P Σ P = Σ P - 1 (m - 1ᵀm/d)ᵀ.
        left = np.concatenate([spread, -means[None]])
        right = np.concatenate([basis.T, ones])
        self._shared = DiagonalPlus(independent, left, right)
        corner = means.mean() - means
        left = np.concatenate([left, ones])
        self._projected = DiagonalPlus(independent, left, np.concatenate([right, corner[None]]))

    @cached_property
    def noise(self) -> float:
        """The trace of C."""
        return self._projected.trace

    @cached_property
    def noise_square(self) -> float:
        """The trace of C²."""
        return self._projected.trace_of_square

    def passed(self, low_rank: tuple[Array, Array, Array]) -> DiagonalPlus:
        """Return T for the derivative diag(a) - U Vᵀ, given as (a, U, V)."""
        gain, left, right = low_rank
        shared = self._shared
        # (Σ P)ᵀ V, which U meets from the left.
        noisy = shared.diagonal * right.T + (right.T @ shared.left.T) @ shared.right
        return DiagonalPlus(
            gain * shared.diagonal,
            np.concatenate([gain * shared.left, -left.T]),
            np.concatenate([shared.right, noisy]),
        )

    def trace(self, passed: DiagonalPlus) -> float:
        """Return tr T."""
        return passed.trace

    def with_noise(self, passed: DiagonalPlus) -> float:
        """Return tr(C T)."""
        return self._projected.trace_with(passed)

    def squares(self, passed: DiagonalPlus) -> tuple[float, float]:
        """Return tr(T²) and tr((T - C)²)."""
        square = passed.trace_of_square
        return square, square - 2 * self.with_noise(passed) + self.noise_square

    def square_of_difference(self, first: DiagonalPlus, second: DiagonalPlus) -> float:
        """Return tr((T - T')²) of two rules."""
        both = first.trace_of_square + second.trace_of_square
        return both - 2 * first.trace_with(second)
