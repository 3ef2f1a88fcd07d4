"""Least squares under shape constraints: groups with known totals, known orders, hierarchies, few non-zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.simplex import norm_sub

Array = NDArray[np.float64]


def group_totals(
    f: Array, groups: Sequence[NDArray[np.int64]], totals: Array, rest: float | None = None
) -> Array:
    """Return the nearest non-negative vector whose disjoint groups have the given totals: Norm-Sub in each group.

    Parameters
    ----------
    f
        Values of shape (..., d).
    groups, totals
        Disjoint index arrays and what each sums to, >= 0.
    rest
        What the values outside all groups sum to; None leaves that free, so they are only clipped at 0.

    Examples
    --------
    >>> group_totals(np.array([0.6, 0.2, -0.1, 0.3]), [np.array([0, 1])], np.array([0.5]))
    array([0.45, 0.05, 0.  , 0.3 ])
    """
    result = np.maximum(f, 0.0)
    outside = np.ones(f.shape[-1], dtype=np.bool_)
    for group, total in zip(groups, totals, strict=True):
        if len(group):
            result[..., group] = norm_sub(f[..., group], total)
            outside[group] = False
    if rest is not None and outside.any():
        result[..., outside] = norm_sub(f[..., outside], rest)
    return result


def monotone(f: Array, order: NDArray[np.int64], weights: Array | None = None) -> Array:
    """Return the nearest vector that does not increase along ``order``: isotonic regression by pooling (PAVA).

    Values outside the order stay. Norm-Sub of the result is the nearest such vector on the simplex: a common shift and a
    clip keep the order, and pooled blocks stay pooled.

    Parameters
    ----------
    f
        Values of shape (..., d).
    order
        Distinct indices, the largest value first. Cost: linear, trial by trial.
    weights
        What a squared distance counts, > 0, shape (d,); all the same if left out.

    Examples
    --------
    >>> monotone(np.array([0.3, 0.5, 0.2]), np.array([0, 1, 2]))
    array([0.4, 0.4, 0.2])
    """
    from scipy.optimize import isotonic_regression

    result = f.copy()
    along = None if weights is None else weights[order]
    for trial in np.ndindex(f.shape[:-1]):
        result[(*trial, order)] = isotonic_regression(
            f[trial][order], weights=along, increasing=False
        ).x
    return result


def isotonic(f: Array, parents: NDArray[np.int64], weights: Array | None = None) -> Array:
    """Return the nearest vector in which no value is above its parent's: isotonic regression on a forest by pooling.

    Norm-Sub of the result is the nearest such vector on the simplex, as it is for ``monotone``.

    Parameters
    ----------
    f
        Values of shape (..., d).
    parents
        Index of the value that is at least as large, -1 where there is none; no cycles. Shape (d,).
    weights
        What a squared distance counts, > 0, shape (d,); all the same if left out.

    Notes
    -----
    Every vertex pools with the highest block below it as long as that is higher (Thompson 1962; Pardalos and Xue 1999).
    Cost: O(d log d) a trial, compiled on first use.

    Examples
    --------
    >>> isotonic(np.array([0.1, 0.5, 0.4, 0.3]), np.array([-1, 0, 0, 2])).round(3)
    array([0.333, 0.333, 0.333, 0.3  ])
    """
    from ldpopt.closed_form.tree_kernels import pool  # imports numba

    d = f.shape[-1]
    rows = np.ascontiguousarray(f.reshape(-1, d))
    return np.asarray(
        pool(rows, np.ones(d) if weights is None else weights, parents).reshape(f.shape)
    )


def tree_consistency(
    f: Array,
    parents: NDArray[np.int64],
    weights: Array | None = None,
    total: float | None = None,
    *,
    nonnegative: bool = False,
) -> Array:
    """Return the nearest vector in which every parent is the sum of its children (Hay et al. 2010, generalised).

    Parameters
    ----------
    f
        One estimate a node, shape (..., d).
    parents
        The node that each hangs below, -1 for a root; no cycles. Shape (d,).
    weights
        What a squared distance counts, > 0, shape (d,), such as inverse variances; all the same if left out.
    total
        What the roots sum to; None leaves that free.
    nonnegative
        Whether no node may be below zero; the total is then >= 0.

    Notes
    -----
    Two passes over the nodes, leaves first and then roots first. Hay et al. have equal weights and as many children
    everywhere.

    Leaves that the passes leave below zero are zero in the non-negative solution too, and stay so: they are set to zero and
    the passes repeated without them, until none is below. Why that is exact: as a function of the leaves x the distance is
    ½ xᵀHx - bᵀx, where H_ij is the weight of all nodes above both i and j. Such a matrix is ultrametric, so its inverse has no
    positive entry off its diagonal (Martínez, Michon, San Martín 1994): in x = H⁻¹(b + λ) a multiplier λ_j >= 0 that pushes
    leaf j up pushes every other one down. This is Chandrasekaran's method (1970) for such complementarity problems; on a
    star with a known total it is Michelot's algorithm for Norm-Sub. Zeroing whole subtrees (Hay et al. 2010) is not the
    projection.

    Cost: O(d) a trial, compiled on first use; with ``nonnegative`` O(d) a round, about ten rounds on noise and at most one a
    leaf.

    Examples
    --------
    >>> parents = np.array([-1, 0, 0])
    >>> tree_consistency(np.array([1.0, 0.5, 0.2]), parents).round(3)
    array([0.9, 0.6, 0.3])
    >>> tree_consistency(np.array([1.0, 1.0, -0.5]), parents, total=1.0, nonnegative=True)
    array([1., 1., 0.])
    """
    from ldpopt.closed_form.tree_kernels import two_passes  # imports numba

    d = f.shape[-1]
    rows = np.ascontiguousarray(f.reshape(-1, d))
    trust = np.ones(d) if weights is None else weights
    found = two_passes(
        rows, trust, parents, total is not None, 0.0 if total is None else total, nonnegative
    )
    return np.asarray(found.reshape(f.shape))


def at_most(f: Array, k: int, total: float = 1.0) -> Array:
    """Return the nearest vector on the simplex with at most k non-zeros: Norm-Sub of the k largest (of ties the first).

    Parameters
    ----------
    f
        Values of shape (..., d).
    k
        Number of values that may be positive, >= 1.
    total
        The sum to reach, >= 0.

    Examples
    --------
    >>> at_most(np.array([0.5, 0.4, 0.3]), k=2)
    array([0.55, 0.45, 0.  ])
    """
    order = np.argsort(-f, axis=-1, kind="stable")
    kept = np.full(f.shape, -np.inf)
    largest = order[..., :k]
    np.put_along_axis(kept, largest, np.take_along_axis(f, largest, axis=-1), axis=-1)
    return norm_sub(kept, total)
