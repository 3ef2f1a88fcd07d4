"""Masses of log-uniform pieces and of hats on cells, compiled. Importing this module imports numba.

A shape covers few cells, and a fit has more than a hundred shapes: written for whole arrays, most
of the work would be on zeros.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled

Array = NDArray[np.float64]


@compiled
def pieces(logs: Array, knots: Array) -> Array:
    """Return masses ∝ 1/k between neighbouring knots, shape (pieces, edges); column 0 is 0.

    Edges of cells and knots are logarithms of counts, both ascending.
    """
    masses = np.zeros((len(knots) - 1, len(logs)))
    for j in range(len(knots) - 1):
        low = knots[j]
        high = knots[j + 1]
        # Edges below the knot get no mass of this piece.
        first = max(np.searchsorted(logs, low, side="right"), 1)
        before = max(logs[first - 1], low)
        for i in range(first, len(logs)):
            # A mass ∝ 1/k is uniform in the logarithm: shares of the length between the knots.
            if before >= high:
                break
            after = min(logs[i], high)
            masses[j, i] = (after - low) / (high - low) - (before - low) / (high - low)
            before = after
    return masses


@compiled
def hats(logs: Array, knots: Array) -> Array:
    """Return masses of triangles from a knot to the next but one: (hats, edges); column 0 is 0.

    Edges of cells and knots are logarithms of counts, both ascending.
    """
    masses = np.zeros((len(knots) - 2, len(logs)))
    for j in range(len(knots) - 2):
        high = knots[j + 2]
        first = max(np.searchsorted(logs, knots[j], side="right"), 1)
        before = max(logs[first - 1], knots[j])
        upto_before = _upto(before, knots[j : j + 3])
        for i in range(first, len(logs)):
            if before >= high:
                break
            before = min(logs[i], high)
            upto = _upto(before, knots[j : j + 3])
            # Rounding may make a distribution function fall by a bit.
            masses[j, i] = max(upto - upto_before, 0.0)
            upto_before = upto
    return masses


@compiled
def _upto(x: float, knots: Array) -> float:
    """Return the distribution function of a triangle between its ends, whose two sides differ."""
    low, peak, high = knots
    if x < peak:
        return float((x - low) ** 2 / ((peak - low) * (high - low)))
    return float(1 - (high - x) ** 2 / ((high - peak) * (high - low)))
