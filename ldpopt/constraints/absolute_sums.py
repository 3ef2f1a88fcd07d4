"""Bounds of a sum of absolute values as rows, with one auxiliary variable per term.

In f alone a sum of m absolute values would take 2^m rows. The matrices are put together from their
arrays: scipy's own ways to stack blocks take longer than some solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.constraints.base import LinearInequalities

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


def absolute_sum_rows(
    differences: Any, centre: ArrayLike, weights: ArrayLike, bound: float
) -> LinearInequalities:
    """Return -t <= A f - c <= t, Σ w t <= bound and t >= 0, with auxiliary variables t.

    Parameters
    ----------
    differences
        A, sparse by rows, of shape (m, d).
    centre, weights
        c and w, numbers or arrays of shape (m,).
    bound
        What Σ w |A f - c| is at most.
    """
    from scipy import sparse

    m, d = differences.shape
    entries = differences.nnz
    # Stored by rows: entries, their columns, and where each row starts. A comes twice, first for
    # A f - t <= c, then for A f + t >= c; the sum and t >= 0 have no entry in f.
    twice = np.concatenate([differences.indptr, entries + differences.indptr[1:]])
    starts_in_f = np.concatenate([twice, np.full(m + 1, 2 * entries, dtype=twice.dtype)])
    parts_in_f = (np.tile(differences.data, 2), np.tile(differences.indices, 2), starts_in_f)
    matrix = sparse.csr_array(parts_in_f, shape=(3 * m + 1, d))
    # That t >= 0 follows from the others, but a certificate sees it only if it is stated.
    ones = np.ones(m)
    factors = np.concatenate([-ones, ones, weights * ones, ones])
    terms = np.tile(np.arange(m, dtype=np.int32), 4)
    # One entry of t in every row, but m of them in the row of the sum.
    before = np.arange(2 * m + 1, dtype=np.int32)
    after = np.arange(3 * m, 4 * m + 1, dtype=np.int32)
    starts_in_t = np.concatenate([before, after])
    auxiliary = sparse.csr_array((factors, terms, starts_in_t), shape=(3 * m + 1, m))
    unbounded = np.full(m, np.inf)
    centres = centre * ones
    lower = np.concatenate([-unbounded, centres, [-np.inf], np.zeros(m)])
    upper = np.concatenate([centres, unbounded, [bound], unbounded])
    return LinearInequalities(matrix, lower, upper, auxiliary)


def absolute_sum_face(
    differences: Any, centre: ArrayLike, weights: ArrayLike, bound: float, f: Array, near: float
) -> LinearInequalities:
    """Return rows in f alone that mean Σ w |A f - c| <= bound where A f - c has the signs at f.

    The first row is the sum. In the others, terms of at most ``near`` times the largest are held at
    0: only points with the same ones are left. A bound that is not near the sum has no rows.

    Parameters
    ----------
    differences, centre, weights, bound
        As in ``absolute_sum_rows``.
    f
        A point, shape (d,).
    near
        Also the distance between bound and sum at which the bound does not hold, relative to the
        larger one of the bound and the frequencies.
    """
    from scipy import sparse

    d = len(f)
    terms = np.asarray(weights * (differences @ f - centre))
    if bound - np.sum(np.abs(terms)) > near * max(bound, float(np.max(np.abs(f)))):
        return LinearInequalities(sparse.csr_array((0, d)), np.empty(0), np.empty(0))
    is_zero = np.abs(terms) <= near * np.max(np.abs(terms))
    signs = np.where(is_zero, 0.0, np.sign(terms)) * weights
    held = sparse.diags_array(np.broadcast_to(weights, terms.shape)[is_zero]) @ differences[is_zero]
    # With these signs the sum of absolute values is linear in f.
    matrix = sparse.vstack([sparse.csr_array((differences.T @ signs)[None, :]), held], format="csr")
    centres = np.broadcast_to(centre, terms.shape)
    fixed = (weights * centres)[is_zero]
    upper = np.append(bound + signs @ centres, fixed)
    return LinearInequalities(matrix, np.append(-np.inf, fixed), upper)


def differences_along(order: NDArray[np.int64], stencil: Sequence[float], d: int) -> Any:
    """Return the matrix of differences of neighbours along an order of some of d values."""
    from scipy import sparse

    width = len(stencil)
    m = len(order) - width + 1
    places = np.lib.stride_tricks.sliding_window_view(order, width).astype(np.int32)
    starts = np.arange(0, width * m + 1, width, dtype=np.int32)
    return sparse.csr_array((np.tile(stencil, m), places.ravel(), starts), shape=(m, d))


def absolute_sum_form(
    differences: cp.Expression, bound: Any, weights: Array | None = None
) -> list[cp.Constraint]:
    """Return Σ w |x| <= bound in cvxpy's terms, with the rows of ``absolute_sum_rows``.

    cvxpy's own norm leaves t >= 0 out, without which first-order solvers may not converge.
    """
    import cvxpy as cp

    terms = cp.Variable(differences.size)
    counted = terms if weights is None else cp.multiply(weights, terms)
    return [differences <= terms, -differences <= terms, cp.sum(counted) <= bound, terms >= 0]
