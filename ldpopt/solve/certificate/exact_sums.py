"""Sums of products, rounded once.

A product of two doubles is the sum of two doubles exactly (Dekker 1971), and ``math.fsum`` rounds
once, however much cancels in the sum. Both hold in IEEE double precision unless a product
overflows, which gives NaN here, or underflows, which the error stated with each sum covers.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.dual import EPS

Array = NDArray[np.float64]

# What underflow may take from one product: its lower half may be a few of the smallest doubles off.
_UNDERFLOW = 2.0**-1000

# Products from here on lose nothing to underflow.
_SAFE = 2.0**-960

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


def product_total(first: Array, second: Array) -> tuple[float, float]:
    """Return Σ first·second, and a bound of the error; NaN if not finite."""
    return total(*two_product(first, second))


def column_totals(matrix: Any, weights: Array, base: Array) -> tuple[Array, Array]:
    """Return base_j + Σ_i M_ij w_i for all columns j of a sparse matrix, and bounds of the errors.

    Each is the exact number rounded once; NaN with an infinite error where a product overflows.
    """
    matrix = matrix.tocsc()
    products, remainders = two_product(matrix.data, weights[matrix.indices])
    counts = np.diff(matrix.indptr)
    columns = np.repeat(np.arange(matrix.shape[1]), counts)
    # Column by column: its base, then both halves of its products.
    starts = 2 * matrix.indptr + np.arange(matrix.shape[1] + 1)
    at = 2 * np.arange(len(products)) + columns + 1
    terms = np.empty(2 * len(products) + matrix.shape[1])
    terms[starts[:-1]] = base
    terms[at] = products
    terms[at + 1] = remainders
    listed = terms.tolist()
    bounds = starts.tolist()
    columns_terms = (listed[start:end] for start, end in pairwise(bounds))
    values = np.array([_rounded_sum(part) for part in columns_terms], dtype=np.float64)
    # An exact 0 has no error: variables without bounds stand on that.
    at_risk = (np.abs(products) < _SAFE) & (matrix.data != 0) & (weights[matrix.indices] != 0)
    return values, _error(values, np.bincount(columns, at_risk, matrix.shape[1]))


def row_totals(matrix: Any, weights: Array, base: Array) -> tuple[Array, Array]:
    """Return base_i + Σ_j M_ij w_j for all rows i; errors as ``column_totals``."""
    return column_totals(matrix.T, weights, base)


def _rounded_sum(terms: list[float]) -> float:
    """Return a sum rounded once; NaN where a term or the sum is not finite."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):  # infinite terms of both signs, or a sum beyond the doubles
        return math.nan


def _error(values: Any, count: Any) -> Any:
    """Return the error of sums rounded once: half a unit in the last place, and underflow."""
    error = np.abs(values) * EPS + count * _UNDERFLOW
    return np.where(np.isfinite(values), error, np.inf)[()]
