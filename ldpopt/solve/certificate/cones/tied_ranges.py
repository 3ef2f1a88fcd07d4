"""Bounds of variables that several rows tie down together, though no row does alone.

For the variables J without bounds, and rows M x_J = y with a known range of y, let R be about the
left inverse of M. Then x = R y + (I - R M) x: if ‖I - R M‖ < 1 in the norm of row sums, x lies
about R y within |R| rad(y) + |I - R M| |x|, which bounds |x| first (Krawczyk 1969).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.bounds.intervals import TINY, outward, require_order

Array = NDArray[np.float64]

# Largest number of variables that are bounded together: their matrix is dense.
_INVERSE = 300

# Variables that the rows leave free have rows of R M far from those of the identity.
_FREE = 1e-6

# Times that free variables are taken out, and the rows with them.
_TURNS = 3


def tied(matrix: Any, right: Array, slack: tuple[Array, Array], lower: Array, upper: Array) -> bool:
    """Bound variables without bounds, in place, where rows tie them down; return if any are.

    ``slack`` holds the ranges of the slacks.
    """
    is_open = np.isinf(lower) | np.isinf(upper)
    columns = np.flatnonzero(is_open)
    csr = matrix.tocsr()
    is_finite = np.isfinite(slack[0]) & np.isfinite(slack[1])
    for _ in range(_TURNS):
        if not 0 < len(columns) <= _INVERSE:
            return False
        others = np.setdiff1d(np.flatnonzero(is_open), columns)
        uses = np.diff(csr[:, columns].tocsr().indptr) > 0
        uses &= np.diff(csr[:, others].tocsr().indptr) == 0
        rows = np.flatnonzero(uses & is_finite)
        dense = csr[rows][:, columns].toarray()
        try:
            inverse = np.linalg.pinv(dense)
        except np.linalg.LinAlgError:
            return False
        free = np.abs(inverse @ dense - np.eye(len(columns))).max(axis=1, initial=0.0) > _FREE
        if not free.any():
            ends = (slack[0][rows], slack[1][rows])
            closed = np.flatnonzero(~is_open)
            box = (lower[closed], upper[closed])
            middle, spread = _sides(csr[rows][:, closed], right[rows], ends, box)
            return _krawczyk(inverse, dense, middle, spread, columns, lower, upper)
        columns = columns[~free]
    return False


def _sides(
    rest: Any, right: Array, slack: tuple[Array, Array], box: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return middle and radius of y = b - s - (rest) x, for rows with finite ranges."""
    lower, upper = box
    middle = (lower + upper) / 2
    radius = np.maximum(upper - middle, middle - lower) * (1 + 4 * EPS)
    sizes = abs(rest)
    result = right - (slack[0] + slack[1]) / 2 - rest @ middle
    terms = np.abs(right) + np.abs(slack[0]) + np.abs(slack[1]) + sizes @ np.abs(middle)
    spread = (slack[1] - slack[0]) / 2 + sizes @ radius
    spread += (rest.shape[1] + 16) * EPS * (terms + spread) + TINY
    return result, spread


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
