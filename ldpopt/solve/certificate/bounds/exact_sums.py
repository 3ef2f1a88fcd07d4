"""Sums of products, rounded once.

A product of two doubles is the sum of two doubles exactly (Dekker 1971), and ``math.fsum`` rounds
once, however much cancels in the sum. Both hold in IEEE double precision unless a product
overflows, which gives NaN here, or underflows, which the error stated with each sum covers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.dual import EPS

Array = NDArray[np.float64]

# What underflow may take from one product: its lower half may be a few of the smallest doubles off.
_UNDERFLOW = 2.0**-1000

# Products from here on lose nothing to underflow.
_SAFE = 2.0**-960

# Columns with more products than this are few, and each of them is summed by itself.
_SHORT = 16

# Products up to which ``math.fsum`` of every column takes less time than whole arrays do.
_FEW = 1000

# Veltkamp's splitting of 53 bits into two halves of 26.
_SPLITTER = 2.0**27 + 1.0


def two_product(first: Array, second: Array) -> tuple[Array, Array]:
    """Return the rounded product and what rounding took from it; NaN where it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.asarray(first * second)
        high, low = _halves(np.asarray(first))
        other_high, other_low = _halves(np.asarray(second))
        # Every term is exact in this order.
        remainder = high * other_high - product
        remainder += high * other_low
        remainder += low * other_high
        remainder += low * other_low
    return product, remainder


def _halves(values: Array) -> tuple[Array, Array]:
    """Return values as sums of two halves, each of at most 26 bits."""
    scaled = _SPLITTER * values
    high = scaled - (scaled - values)
    return high, values - high


def total(*parts: Array) -> tuple[float, float]:
    """Return the sum of the halves of products, and a bound of its error; NaN if not finite."""
    terms = np.concatenate([np.ravel(part) for part in parts])
    result = _rounded_sum(terms.tolist())
    return result, float(_error(result, len(terms)))


def product_totals(first: Array, second: Array) -> tuple[Array, Array]:
    """Return Σ first·second along the last axis of one shape, errors as ``column_totals``."""
    shape = first.shape[:-1]
    starts = np.arange(math.prod(shape) + 1) * first.shape[-1]
    totals = _line_totals(starts, first.ravel(), second.ravel(), np.zeros(len(starts) - 1))
    return totals[0].reshape(shape), totals[1].reshape(shape)


def column_totals(
    matrix: Any, weights: Array, base: Array, of_columns: Sequence[tuple[Array, Array]] = ()
) -> tuple[Array, Array]:
    """Return base_j + Σ_i M_ij w_i for all columns j of a sparse matrix, and bounds of the errors.

    Each is the exact number rounded once; NaN with an infinite error where a product overflows.

    Parameters
    ----------
    matrix
        M, shape (m, n).
    weights, base
        Shapes (..., m) and (..., n).
    of_columns
        Pairs of vectors of shape (..., n) whose products are added too.
    """
    return _totals(matrix.tocsc(), weights, base, of_columns)


def row_totals(matrix: Any, weights: Array, base: Array) -> tuple[Array, Array]:
    """Return base_i + Σ_j M_ij w_j for all rows i; shapes and errors as ``column_totals``."""
    return _totals(matrix.tocsr(), weights, base, ())


def _totals(
    compressed: Any, weights: Array, base: Array, of_lines: Sequence[tuple[Array, Array]]
) -> tuple[Array, Array]:
    """Return the totals of the lines by which a matrix is compressed: rows of CSR, columns of CSC.

    What the lines are does not matter here, so that no matrix is transposed for it.
    """
    starts = compressed.indptr
    # The same lines once per vector of weights, one vector after the other.
    vectors = weights.reshape(math.prod(weights.shape[:-1]), weights.shape[-1])
    first = np.tile(compressed.data, len(vectors))
    second = vectors[:, compressed.indices].ravel()
    if len(vectors) > 1:
        before = np.arange(len(vectors))[:, None] * starts[-1]
        starts = np.append(starts[:-1] + before, len(first))
    if of_lines:
        starts, first, second = _with_more(starts, (first, second), of_lines)
    values, errors = _line_totals(starts, first, second, base.ravel())
    return values.reshape(base.shape), errors.reshape(base.shape)


def _with_more(
    starts: Any, factors: tuple[Array, Array], further: Sequence[tuple[Array, Array]]
) -> tuple[Any, Array, Array]:
    """Return starts and factors of lines with one more product each per pair of vectors."""
    lines = np.arange(len(starts))
    longer = starts + len(further) * lines
    is_stored = np.ones(longer[-1], dtype=np.bool_)
    # The new products of a line come first.
    new = longer[:-1] + np.arange(len(further))[:, None]
    is_stored[new] = False
    result = []
    for stored, more in zip(factors, zip(*further, strict=True), strict=True):
        of_lines = np.empty(len(is_stored))
        of_lines[is_stored] = stored
        of_lines[new] = np.reshape(more, new.shape)
        result.append(of_lines)
    first, second = result
    return longer, first, second


def _line_totals(starts: Any, first: Array, second: Array, base: Array) -> tuple[Array, Array]:
    """Return base and Σ first·second of each line; line k has the products from starts[k] on."""
    products, remainders = two_product(first, second)
    counts = np.diff(starts)
    if len(products) <= _FEW:
        values = _sums_of_few(starts, products, remainders, base)
    else:
        values, is_open = _short_totals(starts, products, remainders, base, counts <= _SHORT)
        # Both halves of the products of a line, and its base.
        for line in np.flatnonzero(is_open).tolist():
            part = slice(starts[line], starts[line + 1])
            terms = [*products[part].tolist(), *remainders[part].tolist(), float(base[line])]
            values[line] = _rounded_sum(terms)
    lines = np.repeat(np.arange(len(counts)), counts)
    # An exact 0 has no error: variables without bounds stand on that.
    at_risk = (np.abs(products) < _SAFE) & (first != 0) & (second != 0)
    return values, _error(values, np.bincount(lines, at_risk, len(counts)))


def _sums_of_few(starts: Any, products: Array, remainders: Array, base: Array) -> Array:
    """Return the sums of all lines, each rounded once."""
    ends = starts.tolist()
    first_halves = products.tolist()
    second_halves = remainders.tolist()
    return np.array(
        [
            _rounded_sum([*first_halves[begin:end], *second_halves[begin:end], start])
            for begin, end, start in zip(ends[:-1], ends[1:], base.tolist(), strict=True)
        ],
        dtype=np.float64,
    )


def _short_totals(
    starts: Any, products: Array, remainders: Array, base: Array, is_short: Any
) -> tuple[Array, Any]:
    """Return the sums of columns, and which of them are not known to be rounded once.

    All columns at once take a product after the other. What each addition loses is added up beside
    the sum, and what these additions lose bounds the error: where it is not far below the sum, the
    sum is for ``math.fsum``, which takes twenty times as long.
    """
    counts = np.where(is_short, np.diff(starts), 0)
    total = np.array(base, dtype=np.float64) + np.zeros(len(counts))
    lost = np.zeros(len(counts))
    lost_twice = np.zeros(len(counts))
    with np.errstate(invalid="ignore", over="ignore"):
        for place in range(int(counts.max(initial=0))):
            columns = np.flatnonzero(counts > place)
            at = starts[columns] + place
            total[columns], error = two_sum(total[columns], products[at])
            for part in (error, remainders[at]):
                lost[columns], error = two_sum(lost[columns], part)
                lost_twice[columns] += np.abs(error)
        values = total + lost
        # Counted generously: as many additions of absolute values, each a little off.
        is_exact = lost_twice * 2 <= EPS / 8 * np.abs(values)
    return values, ~(is_exact & is_short & np.isfinite(values))


def two_sum(first: Array, second: Array) -> tuple[Array, Array]:
    """Return the rounded sum and what rounding took from it (Knuth)."""
    result = first + second
    added = result - first
    return result, (first - (result - added)) + (second - added)


def _rounded_sum(terms: list[float]) -> float:
    """Return a sum rounded once; NaN where a term or the sum is not finite."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):  # infinite terms of both signs, or a sum beyond the doubles
        return math.nan


def _error(values: Any, count: Any) -> Any:
    """Return the error of sums rounded once: a unit in the last place, and underflow."""
    error = np.abs(values) * EPS + count * _UNDERFLOW
    return np.where(np.isfinite(values), error, np.inf)[()]
