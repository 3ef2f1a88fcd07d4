"""Products of matrices in a fixed order of addition, compiled. Importing this module imports numba.

A library of linear algebra shares a product among its threads, and the order in which it adds
depends on how many there are: so would the last bits of a fit. Here each entry is a sum in one
order, four terms at a time, on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@compiled
def averages(densities: Array, masses: Array, first: Index, last: Index, start: int) -> Array:
    """Return the mean density of each row under distributions, of which most mass is 0.

    Parameters
    ----------
    densities
        Of some rows at some points of the support, one after the other: shape (points, rows).
    masses
        Distributions on the whole support, shape (components, g).
    first, last
        Where the masses of each component begin and end.
    start
        The number of the first point.

    Returns
    -------
    Shape (components, rows).
    """
    points, rows = densities.shape
    result = np.zeros((len(masses), rows))
    for v in range(len(masses)):
        total = result[v]
        begin = max(first[v] - start, 0)
        end = min(last[v] - start, points)
        mass = masses[v, start : start + points]
        whole = begin + max(end - begin, 0) // 4 * 4
        # Every row has a sum of its own, so that none waits for another.
        for j in range(begin, whole, 4):
            four = mass[j : j + 4]
            at = densities[j : j + 4]
            for i in range(rows):
                first_half = four[0] * at[0, i] + four[1] * at[1, i]
                second_half = four[2] * at[2, i] + four[3] * at[3, i]
                total[i] += first_half + second_half
        for j in range(whole, end):
            for i in range(rows):
                total[i] += mass[j] * densities[j, i]
    return result


@entry("result")
def add_products(left: Array, right: Array, result: Array) -> None:
    """Add the product of two matrices to a third one.

    Parameters
    ----------
    left, right
        Shapes (m, k) and (k, n), rows contiguous.
    result
        Shape (m, n).
    """
    inner = left.shape[1]
    whole = inner - inner % 4
    # Along rows: every entry of a row has a sum of its own, so that none waits for another.
    for i in range(left.shape[0]):
        row = result[i]
        for j in range(0, whole, 4):
            four = left[i, j : j + 4]
            at = right[j : j + 4]
            for v in range(len(row)):
                first_half = four[0] * at[0, v] + four[1] * at[1, v]
                second_half = four[2] * at[2, v] + four[3] * at[3, v]
                row[v] += first_half + second_half
        for j in range(whole, inner):
            for v in range(len(row)):
                row[v] += left[i, j] * right[j, v]


def product(left: Array, right: Array) -> Array:
    """Return left @ right of two matrices, or of a matrix and a vector."""
    columns = np.ascontiguousarray(right if right.ndim == 2 else right[:, None])
    result = np.zeros((left.shape[0], columns.shape[1]))
    add_products(np.ascontiguousarray(left), columns, result)
    return result if right.ndim == 2 else result[:, 0]
