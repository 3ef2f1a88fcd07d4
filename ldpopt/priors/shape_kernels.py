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
def pieces(logs: Array, knots: Array, components: Array) -> int:
    """Write an atom at 0 and laws ∝ 1/k between neighbouring knots, and return their number.

    Parameters
    ----------
    logs, knots
        Edges of cells and knots, as logarithms of counts, both ascending.
    components
        Zeros, at least as many rows as knots, a column for the mass at 0 and one for each cell.
        Shapes without mass on any cell are left out: those beyond n, or between two support points.
    """
    components[0, 0] = 1.0
    row = 1
    for j in range(len(knots) - 1):
        low = knots[j]
        high = knots[j + 1]
        # Edges below the knot get no mass of this piece.
        first = max(np.searchsorted(logs, low, side="right"), 1)
        before = max(logs[first - 1], low)
        i = first
        while i < len(logs) and before < high:
            # A mass ∝ 1/k is uniform in the logarithm: shares of the length between the knots.
            after = min(logs[i], high)
            components[row, i] = (after - low) / (high - low) - (before - low) / (high - low)
            before = after
            i += 1
        row += _has_mass(components[row, first:i])
    return row


@compiled
def hats(logs: Array, knots: Array, components: Array) -> int:
    """Write an atom at 0 and triangles from a knot to the next but one, and return their number.

    The arguments are those of ``pieces``.
    """
    components[0, 0] = 1.0
    row = 1
    for j in range(len(knots) - 2):
        high = knots[j + 2]
        first = max(np.searchsorted(logs, knots[j], side="right"), 1)
        before = max(logs[first - 1], knots[j])
        upto_before = _upto(before, knots[j : j + 3])
        i = first
        while i < len(logs) and before < high:
            before = min(logs[i], high)
            upto = _upto(before, knots[j : j + 3])
            # Rounding may make a distribution function fall by a bit.
            components[row, i] = max(upto - upto_before, 0.0)
            upto_before = upto
            i += 1
        row += _has_mass(components[row, first:i])
    return row


@compiled
def _has_mass(cells: Array) -> bool:
    """Return whether cells have mass, after dividing it by its sum; otherwise they become 0."""
    mass = cells.sum()
    if mass > 0.0:
        cells /= mass
        return True
    cells[:] = 0.0
    return False


@compiled
def _upto(x: float, knots: Array) -> float:
    """Return the distribution function of a triangle between its ends, whose two sides differ."""
    low, peak, high = knots
    if x < peak:
        return float((x - low) ** 2 / ((peak - low) * (high - low)))
    return float(1 - (high - x) ** 2 / ((high - peak) * (high - low)))
