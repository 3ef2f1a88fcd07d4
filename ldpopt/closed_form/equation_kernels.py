"""Values moved by the multipliers of a few dense equations. Importing this module imports numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled

Array = NDArray[np.float64]

# Values whose sums are taken by themselves: a running sum of all would lose digits.
_BLOCK = 4096


@compiled
def moved_point(
    f: Array, rows: Array, bounds: tuple[Array, Array], multipliers: Array
) -> tuple[Any, ...]:
    """Return clip(f + rowsᵀ multipliers), and sums over it, by one reading of all.

    Parameters
    ----------
    f, rows
        Values, shape (d,), and the coefficients of the equations, shape (m, d).
    bounds
        Lower and upper bounds, shape (d,).
    multipliers
        Of the equations, shape (m,).

    Returns
    -------
    The point, the equations' left sides there, Σ rows rowsᵀ over values between their bounds, shape
    (m, m), and the sum of the function whose gradient the left sides are.
    """
    lower, upper = bounds
    d = len(f)
    m = len(rows)
    point = np.empty(d)
    left = np.zeros(m)
    normal = np.zeros((m, m))
    value = 0.0
    for start in range(0, d, _BLOCK):
        stop = min(start + _BLOCK, d)
        sums = np.zeros(m)
        products = np.zeros((m, m))
        part = 0.0
        for v in range(start, stop):
            moved = f[v]
            for i in range(m):
                moved += rows[i, v] * multipliers[i]
            x = min(max(moved, lower[v]), upper[v])
            point[v] = x
            part += x * (moved - x) + x * x / 2
            is_free = lower[v] < moved < upper[v]
            for i in range(m):
                sums[i] += rows[i, v] * x
                if is_free:
                    for j in range(m):
                        products[i, j] += rows[i, v] * rows[j, v]
        left += sums
        normal += products
        value += part
    return point, left, normal, value
