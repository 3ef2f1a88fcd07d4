"""Least squares on trees of totals, where every parent is the sum of its children."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def tree_consistency(
    f: Array,
    parents: NDArray[np.int64],
    weights: Array | None = None,
    total: float | None = None,
    *,
    nonnegative: bool = False,
) -> Array:
    """Return the nearest vector in which every parent is the sum of its children.

    This generalises Hay et al. (2010), where all weights are equal and all nodes have equally many
    children.

    Parameters
    ----------
    f
        One estimate per node, shape (..., d).
    parents
        Index of each node's parent, -1 for a root; no cycles. Shape (d,).
    weights
        Weight of each squared distance, > 0, shape (d,), such as an inverse variance; all equal
        by default.
    total
        The sum of the roots; None leaves it free.
    nonnegative
        Whether no node may be below zero; the total is then >= 0.

    Notes
    -----
    Two passes over the nodes, leaves first and then roots first.

    Leaves that the passes leave below zero are zero in the non-negative solution too, and stay so:
    they are set to zero and the passes repeated without them, until none is below. Why that is
    exact: as a function of the leaves x the distance is ½ xᵀHx - bᵀx, where H_ij is the weight of
    all nodes above both i and j. Such a matrix is ultrametric, so its inverse has no positive entry
    off its diagonal (Martínez, Michon, San Martín 1994): in x = H⁻¹(b + λ) a multiplier λ_j >= 0
    that raises leaf j lowers every other one. This is Chandrasekaran's method (1970) for such
    complementarity problems; on a star with a known total it is Michelot's algorithm for Norm-Sub.
    Zeroing whole subtrees (Hay et al. 2010) is not the projection.

    Cost: O(d) per trial, compiled on first use; with ``nonnegative`` O(d) per round, about ten
    rounds on noise and at most one per leaf.

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
    weight = np.ones(d) if weights is None else weights
    # The compiled function takes a flag and a number: None would be a second type to compile for.
    has_total = total is not None
    roots = 0.0 if total is None else total
    solved = two_passes(rows, weight, parents, has_total, roots, nonnegative)
    return np.asarray(solved.reshape(f.shape))
