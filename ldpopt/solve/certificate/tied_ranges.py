"""Bounds of variables that several rows tie down together, though no row does alone.

For the variables J without bounds, and rows M x_J = y with a known range of y, let R be about the
left inverse of M. Then x = R y + (I - R M) x: if ‖I - R M‖ < 1 in the norm of row sums, x lies
about R y within |R| rad(y) + |I - R M| |x|, which bounds |x| first (Krawczyk 1969).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.cone_ranges import TINY, outward, require_order
from ldpopt.solve.certificate.dual import EPS

Array = NDArray[np.float64]

# Largest number of variables that are bounded together: their matrix is dense.
_INVERSE = 1000


def tied(matrix: Any, right: Array, slack: tuple[Array, Array], lower: Array, upper: Array) -> bool:
    """Bound all variables without bounds, in place, if rows tie them down; return whether they do.

    ``slack`` holds the ranges of the slacks.
    """
    is_open = np.isinf(lower) | np.isinf(upper)
    columns = np.flatnonzero(is_open)
    if not 0 < len(columns) <= _INVERSE:
        return False
    csr = matrix.tocsr()
    block = csr[:, columns]
    closed = np.flatnonzero(~is_open)
    rest = csr[:, closed]
    rows = np.flatnonzero(
        (np.diff(block.tocsr().indptr) > 0) & np.isfinite(slack[0]) & np.isfinite(slack[1])
    )
    if len(rows) < len(columns):
        return False
    dense = block[rows].toarray()
    middle = (lower[closed] + upper[closed]) / 2
    radius = np.maximum(upper[closed] - middle, middle - lower[closed]) * (1 + 4 * EPS)
    taken = abs(rest[rows])
    centre = right[rows] - (slack[0][rows] + slack[1][rows]) / 2 - rest[rows] @ middle
    size = np.abs(right[rows]) + np.abs(slack[0][rows]) + np.abs(slack[1][rows])
    size += taken @ np.abs(middle)
    spread = (slack[1][rows] - slack[0][rows]) / 2 + taken @ radius
    spread += (matrix.shape[1] + 16) * EPS * (size + spread) + TINY
    try:
        inverse = np.linalg.pinv(dense)
    except np.linalg.LinAlgError:
        return False
    return _krawczyk(inverse, dense, centre, spread, columns, lower, upper)


def _krawczyk(
    inverse: Array,
    dense: Array,
    centre: Array,
    spread: Array,
    columns: NDArray[np.int64],
    lower: Array,
    upper: Array,
) -> bool:
    """Put the bounds of ``tied`` in place; return False if the inverse is too far off."""
    count = len(columns)
    size = np.abs(inverse)
    defect = np.abs(np.eye(count) - inverse @ dense)
    defect += (dense.shape[0] + 4) * EPS * (size @ np.abs(dense) + np.eye(count))
    norm = float(defect.sum(axis=1).max()) * (1 + count * EPS)
    if not norm < 0.5:
        return False
    x = inverse @ centre
    reach = size @ spread + defect @ np.abs(x)
    reach += (dense.shape[0] + count + 8) * EPS * (size @ np.abs(centre) + reach)
    # |x - x₀| <= reach + defect |x - x₀|
    largest = float(reach.max()) / (1 - norm) * (1 + 8 * EPS)
    reach += defect.sum(axis=1) * largest * (1 + 2 * count * EPS)
    low, high = outward(x - reach, x + reach)
    lower[columns] = np.maximum(lower[columns], low)
    upper[columns] = np.minimum(upper[columns], high)
    require_order(lower, upper)
    return bool(np.isfinite(lower[columns]).all() and np.isfinite(upper[columns]).all())
