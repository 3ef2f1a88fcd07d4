"""Normal equations of active rows, which are sparse, solved for many right sides.

Most rows are short, such as those of an order. Few others may be long, such as totals of groups
whose values are far apart in it. Together they fill a factorisation in, so that long rows come last
and get a dense matrix: their Schur complement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# A column with more entries gets an unknown of its own, if there are so few of them.
_CROWDED = 256
_FEW = 16

# Rows with more entries come last, if there are so few of them, and so many at a time.
_LONG = 64
_MOST_LONG = 512
_BLOCK = 16

# A pivot off the diagonal is taken where that on it is below this part of the largest.
_PIVOT = 0.01

# Up to this number of entries a dense array is faster than a sparse one.
_DENSE = 4096


class NormalEquations:
    """A W Aᵀ y = b for the rows A of active constraints, a little damped.

    Rows may depend on each other; what damping takes is for the caller to solve again. Few entries
    are computed with as a dense array: of a small sparse one, the overhead is ten times the work.

    Parameters
    ----------
    matrix
        A, sparse.
    weights
        The diagonal of W, numbers >= 0.
    damping
        What is added to the diagonal, relative to it.

    Attributes
    ----------
    rows, weighted
        A and A W.
    """

    def __init__(self, matrix: Any, weights: Array, damping: float) -> None:
        self.rows: Any
        self.weighted: Any
        if matrix.shape[0] * matrix.shape[1] <= _DENSE:
            self.rows = matrix.toarray()
            self.weighted = self.rows * weights
            gram = self.weighted @ self.rows.T
            ridge = damping * _sizes(gram.diagonal())
            self._solve = _dense_solver(gram + np.diag(ridge))
        else:
            self.rows = matrix.tocsr()
            self.weighted = _times_diagonal(self.rows, weights)
            ridge = damping * _sizes(self.weighted.multiply(self.rows).sum(axis=1))
            self._solve = _sparse_solver(self.rows, weights, ridge)

    def solve(self, right: Array) -> Array:
        """Return y for a right side b."""
        return np.asarray(self._solve(right))

    def product(self, y: Array) -> Array:
        """Return A W Aᵀ y."""
        return np.asarray(self.weighted @ (self.rows.T @ y))


def _sizes(diagonal: Array) -> Array:
    """Return the size of every row, by which it is damped.

    Each has its own: steep and flat rows stand side by side. A row whose values all have the weight
    0 gets any size, so that its multiplier is 0.
    """
    return np.where(diagonal > 0, diagonal, diagonal.max(initial=0.0) or 1.0)


def _times_diagonal(rows: Any, weights: Array) -> Any:
    """Return a sparse matrix with every column multiplied by its weight."""
    from scipy import sparse

    # Not rows.multiply, which lists all entries twice on its way.
    entries = rows.data * weights[rows.indices]
    return sparse.csr_array((entries, rows.indices, rows.indptr), rows.shape)


def _dense_solver(matrix: Array) -> Callable[[Array], Array]:
    """Return a function that solves a positive definite system for one right side."""
    from scipy.linalg import lu_factor, lu_solve

    factor = lu_factor(matrix, check_finite=False)
    return lambda right: lu_solve(factor, right, check_finite=False)


def _sparse_solver(rows: Any, weights: Array, ridge: Array) -> Callable[[Array], Array]:
    """Return the same for A W Aᵀ of sparse rows A, with ``ridge`` added to its diagonal.

    A column u with many entries, as that of auxiliary variables under one sum, would make the
    matrix dense. It gets an unknown t = w uᵀy of its own: [G, u; uᵀ, -1/w] is sparse.
    """
    from scipy import sparse

    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    is_long = (counts > _CROWDED) & (weights > 0)
    # Of many such columns no row is short either.
    if np.count_nonzero(is_long) > _FEW:
        is_long[:] = False
    short = rows[:, np.flatnonzero(~is_long)]
    matrix = _times_diagonal(short, weights[~is_long]) @ short.T
    size = len(ridge)
    places = np.arange(size + 1)
    matrix = matrix + sparse.csr_array((ridge, places[:-1], places))
    apart = rows[:, np.flatnonzero(is_long)]
    if apart.shape[1]:
        corner = sparse.diags_array(-1 / weights[is_long])
        matrix = sparse.block_array([[matrix, apart], [apart.T, corner]])
    # A row of zeros for each further unknown is as short as can be.
    entries = np.append(np.diff(rows.indptr), np.zeros(apart.shape[1], dtype=np.int64))
    solve = _solver_of(matrix.tocsr(), np.flatnonzero(entries > _LONG))
    nothing = np.zeros(apart.shape[1])
    return lambda right: solve(np.append(right, nothing))[:size]


def _solver_of(matrix: Any, long: NDArray[np.intp]) -> Callable[[Array], Array]:
    """Return a function that solves a sparse symmetric system, of which some rows are long.

    Cost: with n short rows, k long ones and N the former's part of the matrix, k solves with N. One
    factorisation of all costs up to n k² operations, but little where long rows and short ones
    have few values in common, as chains within groups: then it is taken.
    """
    is_long = np.zeros(matrix.shape[0], dtype=np.bool_)
    is_long[long] = True
    short = np.flatnonzero(~is_long)
    if not 0 < len(long) <= _MOST_LONG or len(short) < len(long):
        return _factorised(matrix)
    upper = matrix[short]
    shared = upper[:, long].tocsc()
    shared.eliminate_zeros()
    if shared.nnz < len(short):
        return _factorised(matrix)
    solve_short = _factorised(upper[:, short])
    across = shared.T.tocsr()
    complement = matrix[long][:, long].toarray()
    for first in range(0, len(long), _BLOCK):
        block = slice(first, first + _BLOCK)
        complement[:, block] -= across @ solve_short(shared[:, block].toarray())
    solve_long = _dense_solver(complement)

    def solve(right: Array) -> Array:
        result = np.empty(len(right))
        of_short = solve_short(right[short])
        result[long] = solve_long(right[long] - across @ of_short)
        result[short] = of_short - solve_short(shared @ result[long])
        return result

    return solve


def _factorised(matrix: Any) -> Callable[[Array], Array]:
    """Return a function that solves a sparse symmetric system by a factorisation."""
    from scipy.sparse.linalg import splu

    # The usual order of columns is for matrices that are not symmetric: several times slower. This
    # one is for pivots on the diagonal, and others would fill in up to twenty times as much. They
    # are seldom needed: the matrix is positive definite, but for unknowns of columns.
    factor = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=_PIVOT)
    return lambda right: np.asarray(factor.solve(right))
