"""Least squares under known orders: isotonic regression by pooling, on chains and on forests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def monotone(f: Array, order: NDArray[np.int64], weights: Array | None = None) -> Array:
    """Return the nearest vector that does not increase along ``order``: isotonic regression (PAVA).

    Values outside the order stay. Norm-Sub of the result is the nearest such vector on the
    simplex: a common shift and a clip keep the order, and pooled blocks stay pooled.

    Parameters
    ----------
    f
        Values of shape (..., d).
    order
        Distinct indices, the largest value first.
    weights
        Weight of each squared distance, > 0, shape (d,); all equal by default.

    Notes
    -----
    Cost: linear, trial by trial.

    Examples
    --------
    >>> monotone(np.array([0.3, 0.5, 0.2]), np.array([0, 1, 2]))
    array([0.4, 0.4, 0.2])
    """
    from scipy.optimize import isotonic_regression  # slow to import

    result = f.copy()
    along = None if weights is None else weights[order]
    for trial in np.ndindex(f.shape[:-1]):
        pooled = isotonic_regression(f[trial][order], weights=along, increasing=False)
        result[(*trial, order)] = pooled.x
    return result


def isotonic(f: Array, parents: NDArray[np.int64], weights: Array | None = None) -> Array:
    """Return the nearest vector in which no value is above its parent's, on a forest.

    Norm-Sub of the result is the nearest such vector on the simplex, as it is for ``monotone``.

    Parameters
    ----------
    f
        Values of shape (..., d).
    parents
        Index of the value that is at least as large, -1 for a root; no cycles. Shape (d,).
    weights
        Weight of each squared distance, > 0, shape (d,); all equal by default.

    Notes
    -----
    Every vertex pools with the highest block below it as long as that is higher (Thompson 1962;
    Pardalos and Xue 1999). Cost: O(d log d) per trial, compiled on first use.

    Examples
    --------
    >>> isotonic(np.array([0.1, 0.5, 0.4, 0.3]), np.array([-1, 0, 0, 2])).round(3)
    array([0.333, 0.333, 0.333, 0.3  ])
    """
    from ldpopt.closed_form.tree_kernels import pool  # imports numba

    d = f.shape[-1]
    rows = np.ascontiguousarray(f.reshape(-1, d))
    weight = np.ones(d) if weights is None else weights
    return np.asarray(pool(rows, weight, parents).reshape(f.shape))
