"""Bounds of every variable of a compiled program, by propagation through its rows and cones.

A lower bound by weak duality charges each variable's residual against the variable's range. Of the
frequencies the ranges are known; those of auxiliary variables follow from the rows A x + s = b,
s in K: the ranges of all other variables of a row limit what is left for one. Everything is
interval arithmetic rounded outward, so that every feasible point lies within the result.

Source: feasibility-based bound tightening, as in Belotti, Cafieri, Lee and Liberti 2010.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.bounds.exact_sums import two_product
from ldpopt.solve.certificate.bounds.intervals import (
    TINY,
    Box,
    Entries,
    RowTerms,
    outward,
    require_order,
)
from ldpopt.solve.certificate.cones.cone_ranges import contract
from ldpopt.solve.certificate.cones.dual_cones import Cones
from ldpopt.solve.certificate.cones.tied_ranges import tied

Array = NDArray[np.float64]

# Rounds of propagation: each takes bounds one row further. Chains of auxiliary variables are short.
_ROUNDS = 40

# Rounds after the first one that leaves no variable without bounds.
_FURTHER_ROUNDS = 4

# A bound that moves by less than this part of its range is not worth another round.
_PROGRESS = 1e-3

_NORMAL = 1e-250  # products above this lose nothing to underflow


class Cut(NamedTuple):
    """An inequality slope·x + ½ Σ curvature x² <= level, with curvature >= 0.

    The objective gives one: points of a larger objective than a value that is attained need not be
    looked at.
    """

    slope: Array
    curvature: Array
    level: float


class _Rows(NamedTuple):
    """The entries of A, and b up to an error."""

    entries: Entries
    right: Array
    error: Array


def propagate(matrix: Any, right: Array, cones: Cones, box: Box, cut: Cut | None = None) -> Box:
    """Return bounds of all x in the box with A x + s = b, s in K, and the cut.

    Parameters
    ----------
    matrix, right, cones
        A, b and K.
    box
        What is known of x.
    cut
        An inequality beside the rows.

    Raises
    ------
    Empty
        If no x fulfils all; then every number bounds the minimum over them from below.

    Notes
    -----
    Cost: a few passes over the entries of A per round, up to 40 rounds; where equations tie
    variables without bounds together, an inverse of their matrix.
    """
    lower, upper = box.lower.copy(), box.upper.copy()
    csr = matrix.tocsr()
    csr.sort_indices()
    _single_rows(csr, right, cones, lower, upper)
    system = _System(csr, right, cones)
    bounded_rounds = 0
    for _ in range(_ROUNDS):
        # What a residual costs is rounding times a range: once all ranges end, narrower ones are
        # worth little.
        bounded_rounds += bool(np.isfinite(lower).all() and np.isfinite(upper).all())
        if bounded_rounds > _FURTHER_ROUNDS:
            break
        before = (lower.copy(), upper.copy())
        slack = _row_pass(system, lower, upper)
        if cut is not None:
            _cut_pass(cut, lower, upper)
        if not _has_moved(before, (lower, upper)) and not tied(matrix, right, slack, lower, upper):
            break
    return Box(lower, upper)


def _single_rows(csr: Any, right: Array, cones: Cones, lower: Array, upper: Array) -> None:
    """Tighten lower and upper in place by the rows of one entry, exactly where b/a is exact.

    A steep objective makes the last bit of a bound count: a frequency fixed by x = 0.3 is 0.3.
    """
    rows = np.flatnonzero(np.diff(csr.indptr)[: cones.soc_start] == 1)
    entries = csr.data[csr.indptr[rows]]
    rows, entries = rows[entries != 0], entries[entries != 0]
    columns = csr.indices[csr.indptr[rows]]
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = right[rows] / entries
        product, remainder = two_product(quotient, entries)
    exact = (product == right[rows]) & (remainder == 0) & (np.abs(right[rows]) > _NORMAL)
    exact |= right[rows] == 0
    low, high = outward(quotient, quotient)
    low, high = np.where(exact, quotient, low), np.where(exact, quotient, high)
    equal = rows < cones.zero
    caps = equal | (entries > 0)
    floors = equal | (entries < 0)
    np.minimum.at(upper, columns[caps], high[caps])
    np.maximum.at(lower, columns[floors], low[floors])


class _System:
    """The rows of a program, and sums of two rows in which variables without bounds cancel.

    First those of two inequalities, whose slacks are not negative, so that each is at most their
    sum. Then s₀ + s₁ and s₀ - s₁ of second-order cones, which cvxpy makes of (s₀ + s₁)(s₀ - s₁)
    >= s₂² + …: neither is negative.
    """

    def __init__(self, matrix: Any, right: Array, cones: Cones) -> None:
        self.cones = cones
        self.count = len(right)
        self.pairs = _opposite_rows(matrix, cones)
        self.rotated = _Rotated.of(cones)
        self.rows = _Rows(Entries.of(matrix), right, np.zeros(len(right)))
        cone_pairs = self.rotated.first[:, None] + np.arange(2)
        pairs = np.concatenate([self.pairs, cone_pairs, cone_pairs])
        # Most programs of orders and bounds have none.
        if not len(pairs):
            return
        signs = np.ones(len(pairs))
        signs[len(pairs) - len(cone_pairs) :] = -1.0
        sums = _RowSums(matrix, right, pairs, signs)
        exact_pairs, plus, minus = np.split(sums.exact, self._ends())
        shorter_pairs, shorter_plus, shorter_minus = np.split(sums.shorter, self._ends())
        kept = exact_pairs & shorter_pairs
        usable = plus & minus & (shorter_plus | shorter_minus)
        self.pairs = self.pairs[kept]
        self.rotated = self.rotated.only(np.flatnonzero(usable))
        of_matrix = self.rows.entries
        added, ends = sums.take(np.concatenate([kept, usable, usable]), len(right))
        self.rows = _Rows(
            Entries(
                np.concatenate([of_matrix.data, added.data]),
                np.concatenate([of_matrix.columns, added.columns]),
                np.concatenate([of_matrix.rows, added.rows]),
            ),
            np.concatenate([right, ends]),
            np.concatenate([np.zeros(len(right)), EPS * np.abs(ends)]),
        )

    def _ends(self) -> tuple[int, int]:
        """Return where the sums of pairs end, and those s₀ + s₁ of cones."""
        return len(self.pairs), len(self.pairs) + len(self.rotated.first)

    def contract(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return what remains of the ranges of all slacks, those of sums included."""
        m = self.count
        first_cone = m + len(self.pairs)
        low[m:] = np.maximum(low[m:], 0.0)
        for part in self.pairs.T:
            np.minimum.at(high, part, high[m:first_cone])
        self.rotated.contract(low, high, first_cone)
        first, second = contract(self.cones, low[:m], high[:m])
        require_order(low[m:], high[m:])
        return np.concatenate([first, low[m:]]), np.concatenate([second, high[m:]])


class _RowSums:
    """Sums of pairs of rows, or differences, with what is on the right side.

    Attributes
    ----------
    exact
        Whether no entry of a sum was rounded.
    shorter
        Whether a sum has fewer entries than its two rows, since some cancel.
    """

    def __init__(self, matrix: Any, right: Array, pairs: NDArray[np.int64], signs: Array) -> None:
        count = len(pairs)
        # By arrays of entries: operations on sparse matrices cost ten times as much where these
        # are small.
        of_one = _entries_of_rows(matrix, pairs[:, 0])
        of_other = _entries_of_rows(matrix, pairs[:, 1])
        columns = np.concatenate([of_one.columns, of_other.columns])
        rows = np.concatenate([of_one.rows, of_other.rows])
        places, at = np.unique(rows * matrix.shape[1] + columns, return_inverse=True)
        split = len(of_one.rows)
        one = np.bincount(at[:split], of_one.data, len(places))
        other = np.bincount(at[split:], signs[of_other.rows] * of_other.data, len(places))
        self._rows, self._columns = np.divmod(places, matrix.shape[1])
        # In floating point a + b is exact if and only if both differences give the parts back.
        with np.errstate(over="ignore", invalid="ignore"):
            self._data = one + other
            wrong = np.abs((self._data - one) - other) + np.abs((self._data - other) - one)
        self.exact = np.bincount(self._rows, wrong != 0, count) == 0
        length = np.bincount(rows, minlength=count)
        self.shorter = np.bincount(self._rows, self._data != 0, count) < length
        self._right = right[pairs[:, 0]] + signs * right[pairs[:, 1]]

    def take(self, kept: NDArray[np.bool_], start: int) -> tuple[Entries, Array]:
        """Return the entries of some sums, which become rows from ``start`` on, and right sides."""
        used = kept[self._rows] & (self._data != 0)
        number = start - 1 + np.cumsum(kept)
        rows = number[self._rows[used]]
        return Entries(self._data[used], self._columns[used], rows), self._right[kept]


def _entries_of_rows(matrix: Any, rows: NDArray[np.int64]) -> Entries:
    """Return the entries of some rows of a matrix by rows, numbered as they stand in the list."""
    starts = matrix.indptr[rows]
    counts = matrix.indptr[rows + 1] - starts
    number = np.repeat(np.arange(len(rows)), counts)
    at = np.arange(len(number)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    return Entries(matrix.data[at], matrix.indices[at], number)


class _Rotated(NamedTuple):
    """Second-order cones seen as (s₀ + s₁)(s₀ - s₁) >= s₂² + ….

    Attributes
    ----------
    first
        The row of s₀ of each cone.
    others, owner
        The rows of s₂ … of all cones, and the number of the cone that each belongs to.
    """

    first: NDArray[np.int64]
    others: NDArray[np.int64]
    owner: NDArray[np.int64]

    @classmethod
    def of(cls, cones: Cones) -> _Rotated:
        """Return all second-order cones of two rows or more."""
        starts = cones.soc_start + np.cumsum([0, *cones.soc])[:-1].astype(np.int64)
        sizes = np.array(cones.soc, dtype=np.int64)
        wide = sizes > 1
        counts = sizes[wide] - 2
        owner = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return cls(starts[wide], starts[wide][owner] + 2 + within, owner)

    def only(self, kept: NDArray[np.int64]) -> _Rotated:
        """Return some of the cones."""
        number = np.full(len(self.first), -1)
        number[kept] = np.arange(len(kept))
        belongs = number[self.owner] >= 0
        return _Rotated(self.first[kept], self.others[belongs], number[self.owner[belongs]])

    def contract(self, low: Array, high: Array, at: int) -> None:
        """Tighten ranges in place: those of s₀ + s₁ start at a row, those of s₀ - s₁ follow."""
        count = len(self.first)
        plus = slice(at, at + count)
        minus = slice(at + count, at + 2 * count)
        mean_low, mean_high = outward((low[plus] + low[minus]) / 2, (high[plus] + high[minus]) / 2)
        low[self.first] = np.maximum(low[self.first], mean_low)
        high[self.first] = np.minimum(high[self.first], mean_high)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            limit = np.sqrt(high[plus]) * np.sqrt(high[minus]) * (1 + 8 * EPS) + TINY
            # 0 times infinity says nothing.
            limit = np.where(np.isnan(limit), np.inf, limit)[self.owner]
            nearest = np.maximum(np.maximum(low[self.others], -high[self.others]), 0.0)
            # bincount of nothing returns integers.
            squares = np.bincount(self.owner, nearest * nearest, count).astype(np.float64)
            squares *= 1 - (len(self.owner) + 8) * EPS
            for part, other in ((plus, minus), (minus, plus)):
                smallest = np.nan_to_num(squares / high[other], nan=0.0, posinf=0.0)
                low[part] = np.maximum(low[part], smallest * (1 - 4 * EPS))
        high[self.others] = np.minimum(high[self.others], limit)
        low[self.others] = np.maximum(low[self.others], -limit)


def _opposite_rows(matrix: Any, cones: Cones) -> NDArray[np.int64]:
    """Return pairs of inequalities with entries of the same sizes, as |y| <= t makes them."""
    groups: dict[tuple[bytes, bytes], list[int]] = {}
    indptr = matrix.indptr
    columns = matrix.indices
    sizes = np.abs(matrix.data)
    for row in range(cones.zero, cones.soc_start):
        part = slice(indptr[row], indptr[row + 1])
        if indptr[row + 1] - indptr[row] > 1:
            key = (columns[part].tobytes(), sizes[part].tobytes())
            groups.setdefault(key, []).append(row)
    pairs = [(rows[0], row) for rows in groups.values() for row in rows[1:]]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _has_moved(before: tuple[Array, Array], after: tuple[Array, Array]) -> bool:
    """Return whether a bound became finite, or moved by a part of the range worth a round."""
    width = after[1] - after[0]
    for old, new in zip(before, after, strict=True):
        moved = old != new
        if not moved.any():
            continue
        with np.errstate(invalid="ignore"):
            step = np.abs(old - new)[moved]
        if (np.isinf(step) | (step > _PROGRESS * width[moved])).any():
            return True
    return False


def _row_pass(system: _System, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Tighten lower and upper in place by every row once; return the ranges of the slacks s."""
    rows = system.rows
    terms = RowTerms(rows.entries, len(rows.right), lower, upper)
    smallest, largest = terms.sums()
    slack = system.contract(*outward(rows.right - largest, rows.right - smallest, rows.error))
    # A x = b - s
    terms.tighten(*outward(rows.right - slack[1], rows.right - slack[0], rows.error), lower, upper)
    require_order(lower, upper)
    return slack[0][: system.count], slack[1][: system.count]


def _cut_pass(cut: Cut, lower: Array, upper: Array) -> None:
    """Tighten lower and upper in place by slope·x + ½ Σ curvature x² <= level."""
    used = (cut.slope != 0) | (cut.curvature != 0)
    slope = cut.slope[used]
    curvature = cut.curvature[used]
    minima = _least_terms(slope, curvature, lower[used], upper[used])
    infinite = np.isinf(minima)
    if infinite.sum() > 1:
        return
    finite = np.where(infinite, 0.0, minima)
    rounding = (len(minima) + 4) * EPS * (float(np.abs(finite).sum()) + abs(cut.level)) + TINY
    # What the level leaves for one term when all the others are as small as they can be.
    rest = cut.level - float(finite.sum()) + rounding + finite
    if infinite.any():
        rest = np.where(infinite, rest, np.inf)
    low, high = _sublevel(slope, curvature, rest)
    lower[used] = np.maximum(lower[used], low)
    upper[used] = np.minimum(upper[used], high)
    require_order(lower, upper)


def _least_terms(slope: Array, curvature: Array, low: Array, high: Array) -> Array:
    """Return lower bounds of the minima of slope x + ½ curvature x² over ranges."""
    with np.errstate(all="ignore"):
        end = np.where(slope > 0, low, high)
        linear = np.where(slope == 0, 0.0, slope * end)
        bowl = np.where(curvature > 0, -slope * slope / (2 * curvature), -np.inf)
        # Curvature is not negative, so that both are lower bounds.
        result = np.fmax(linear, bowl)
        result -= 4 * EPS * np.abs(result) + TINY
    return np.where(np.isnan(result), -np.inf, result)


def _sublevel(slope: Array, curvature: Array, rest: Array) -> tuple[Array, Array]:
    """Return ranges of x with slope x + ½ curvature x² <= rest, rounded outward."""
    with np.errstate(all="ignore"):
        end = rest / slope
        low = np.where(slope < 0, end, -np.inf)
        high = np.where(slope > 0, end, np.inf)
        low, high = outward(low, high)
        square = slope * slope + 2 * curvature * rest
        # Near its lowest point a bowl is flat: what cancels here would count for half its digits.
        square += 8 * EPS * (slope * slope + 2 * curvature * np.abs(rest))
        root = np.sqrt(np.maximum(square, 0.0))
        rounding = 16 * EPS * (np.abs(slope) + root) / curvature
        bowl_low = (-slope - root) / curvature - rounding
        bowl_high = (root - slope) / curvature + rounding
    curved = curvature > 0
    low = np.where(curved & np.isfinite(bowl_low), bowl_low, low)
    high = np.where(curved & np.isfinite(bowl_high), bowl_high, high)
    return low, high
