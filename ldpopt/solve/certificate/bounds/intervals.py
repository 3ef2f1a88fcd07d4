"""Interval arithmetic on the rows of a matrix: what a row leaves to each of its variables.

Every bound is rounded outward, so that a range holds whatever the exact numbers would allow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.dual import EPS

Array = NDArray[np.float64]

TINY = 1e-300
"""Above what underflow may take."""


class Box(NamedTuple):
    """Bounds of values or variables, of shapes that broadcast; infinite where none is known."""

    lower: Array
    upper: Array


class Empty(Exception):
    """Ranges contradict each other: no point is feasible, or none is below a cut."""


def require_order(lower: Array, upper: Array) -> None:
    """Raise ``Empty`` if a lower bound is above its upper bound."""
    if np.any(lower > upper):
        raise Empty


def outward(lower: Array, upper: Array, rounding: Any = 0.0) -> tuple[Array, Array]:
    """Return bounds moved apart by a relative rounding step and an absolute one."""
    with np.errstate(over="ignore"):
        low = lower - (2 * EPS * np.abs(lower) + rounding + TINY)
        high = upper + (2 * EPS * np.abs(upper) + rounding + TINY)
    low = np.where(np.isnan(low), -np.inf, low)
    return low, np.where(np.isnan(high), np.inf, high)


class Entries(NamedTuple):
    """The entries of a matrix that are not 0: each one's number, column and row."""

    data: Array
    columns: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, matrix: Any) -> Entries:
        """Return the entries of a sparse matrix."""
        triples = matrix.tocoo()
        used = triples.data != 0
        data = np.asarray(triples.data[used], dtype=np.float64)
        return cls(data, triples.col[used], triples.row[used])


class RowTerms:
    """The ranges of all terms a_ij x_j, from bounds of x.

    Parameters
    ----------
    entries
        Those of A.
    count
        The number of rows.
    lower, upper
        Bounds of x, shape (columns,), infinite where unknown.
    """

    def __init__(self, entries: Entries, count: int, lower: Array, upper: Array) -> None:
        self.entries = entries
        data = entries.data
        columns = entries.columns
        self.positive = data > 0
        low = _product(data, np.where(self.positive, lower[columns], upper[columns]), -1.0)
        high = _product(data, np.where(self.positive, upper[columns], lower[columns]), 1.0)
        self.lows = _Sums(low, entries.rows, count)
        self.highs = _Sums(high, entries.rows, count)

    def sums(self) -> tuple[Array, Array]:
        """Return the range of A x, row by row."""
        return self.lows.all_terms(-1.0), self.highs.all_terms(1.0)

    def tighten(self, row_lower: Array, row_upper: Array, lower: Array, upper: Array) -> None:
        """Tighten bounds of x in place where row_lower <= A x <= row_upper, both of shape (rows,).

        Every variable gets what the others of its row leave when they are at their own bounds.
        """
        data, columns, rows = self.entries
        with np.errstate(invalid="ignore"):
            rest_low = row_lower[rows] - self.highs.others(1.0)
            rest_high = row_upper[rows] - self.lows.others(-1.0)
        low, high = outward(rest_low, rest_high)
        # A difference of doubles is 0 only if they are equal: a value that must be 0 is exactly 0.
        low = np.where(rest_low == 0, 0.0, low)
        high = np.where(rest_high == 0, 0.0, high)
        with np.errstate(over="ignore"):
            at_low = low / data
            at_high = high / data
        np.maximum.at(lower, columns, np.where(self.positive, at_low, at_high))
        np.minimum.at(upper, columns, np.where(self.positive, at_high, at_low))


def _product(entries: Array, bounds: Array, side: float) -> Array:
    """Return products rounded towards a side; those with 0 are exact."""
    with np.errstate(invalid="ignore", over="ignore"):
        product = entries * bounds
        rounded = product + side * (2 * EPS * np.abs(product) + TINY)
    # Infinity times an entry that is not 0 stays infinite; a product beyond the doubles is unknown.
    rounded = np.where(np.isnan(rounded), side * np.inf, rounded)
    return np.where((bounds == 0) | np.isinf(bounds), product, rounded)


class _Sums:
    """Sums of terms by row, without one infinite term where it is the only one."""

    def __init__(self, terms: Array, rows: NDArray[np.int64], count: int) -> None:
        self.rows = rows
        self.is_infinite = np.isinf(terms)
        self.finite = np.where(self.is_infinite, 0.0, terms)
        self.infinite = np.bincount(rows, self.is_infinite, count)
        self.sums = np.bincount(rows, self.finite, count)
        sizes = np.bincount(rows, np.abs(self.finite), count)
        # γ_n Σ |terms| for a sum in any order, and one more for a subtraction from it.
        self.rounding = (np.bincount(rows, minlength=count) + 2) * EPS * sizes

    def all_terms(self, side: float) -> Array:
        """Return sums rounded towards a side, infinite on it where a term is infinite."""
        return np.where(self.infinite > 0, side * np.inf, self.sums + side * self.rounding)

    def others(self, side: float) -> Array:
        """Return the sum of a row without each of its terms, rounded towards a side."""
        left = self.infinite[self.rows] - self.is_infinite
        sums = self.sums[self.rows] - self.finite + side * self.rounding[self.rows]
        return np.where(left > 0, side * np.inf, sums)
