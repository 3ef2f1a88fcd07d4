"""Sums over long vectors that a few dense rows need, compiled. Importing this imports numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry

Array = NDArray[np.float64]

BLOCK = 4096
"""Values whose sums are taken by themselves: a running sum of all would lose digits."""


@compiled
def left_over(
    rows: Array, vectors: tuple[Array, Array, Array, Array], multipliers: Array, tolerance: float
) -> tuple[Any, ...]:
    """Return what multipliers of rows leave of the slopes that count, in one reading.

    Slopes count of values between their bounds, and where a value at a bound would gain from a move
    off it by more than the tolerance; with a tolerance of infinity, the former alone.

    Parameters
    ----------
    rows
        Coefficients, shape (m, d).
    vectors
        Slopes, the point, and its bounds, shape (d,) each.
    multipliers
        Shape (m,).

    Returns
    -------
    Σ rows rowsᵀ and Σ rows · (what is left) over the values that count, and the largest that is
    left of these.
    """
    slope, f, lower, upper = vectors
    m, d = rows.shape
    normal = np.zeros((m, m))
    moment = np.zeros(m)
    largest = 0.0
    for start in range(0, d, BLOCK):
        products = np.zeros((m, m))
        sums = np.zeros(m)
        for v in range(start, min(start + BLOCK, d)):
            may_fall = f[v] > lower[v]
            may_rise = f[v] < upper[v]
            if tolerance == np.inf and not (may_fall and may_rise):
                continue
            left = slope[v]
            for i in range(m):
                left -= rows[i, v] * multipliers[i]
            gains = (may_fall and left > tolerance) or (may_rise and left < -tolerance)
            if (may_fall and may_rise) or gains:
                largest = max(largest, abs(left))
                for i in range(m):
                    sums[i] += rows[i, v] * left
                    for j in range(m):
                        products[i, j] += rows[i, v] * rows[j, v]
        normal += products
        moment += sums
    return normal, moment, largest


@entry()
def sums_of_rows(rows: Array, f: Array) -> tuple[Array, Array]:
    """Return the rows' products with a vector, and the sums of their terms' sizes."""
    m, d = rows.shape
    totals = np.zeros(m)
    sizes = np.zeros(m)
    for i in range(m):
        for start in range(0, d, BLOCK):
            total = 0.0
            size = 0.0
            for v in range(start, min(start + BLOCK, d)):
                term = rows[i, v] * f[v]
                total += term
                size += abs(term)
            totals[i] += total
            sizes[i] += size
    return totals, sizes
