"""Known orders: values that do not increase along them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.constraints.base import Polyhedron, Rows, distinct

if TYPE_CHECKING:
    pass

Array = NDArray[np.float64]


class Monotone(Polyhedron):
    """f does not increase along ``order``: f[order[0]] >= f[order[1]] >= … .

    Parameters
    ----------
    order
        Distinct indices, the most frequent value first; values outside it are free.

    Examples
    --------
    >>> float(Monotone([2, 0, 1]).violation(np.array([0.5, 0.25, 0.25])))
    0.25
    """

    def __init__(self, order: ArrayLike) -> None:
        self.order = distinct("order", order)

    def check(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        validate.whole_numbers("order", self.order, low=0, high=d - 1)

    def rows(self, d: int) -> Rows:
        """Return one row of differences a neighbouring pair."""
        from scipy import sparse

        pairs = max(len(self.order) - 1, 0)
        row = np.repeat(np.arange(pairs), 2)
        column = np.stack([self.order[:-1], self.order[1:]], axis=1).reshape(-1)
        matrix = sparse.csr_array((np.tile([1.0, -1.0], pairs), (row, column)), shape=(pairs, d))
        return Rows(matrix, np.zeros(pairs), np.full(pairs, np.inf))

    def row_name(self, row: int, d: int) -> str:
        """Return which two values a row compares."""
        return f"f[{self.order[row]}] >= f[{self.order[row + 1]}]"

    def __repr__(self) -> str:
        return f"Monotone(<{len(self.order)} values>)"
