"""Projections on trees of totals, where every parent is the sum of its children.

In least squares and in the Kullback-Leibler divergence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidInputError

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


def tree_scaling(reference: Array, parents: NDArray[np.int64], total: float | None = None) -> Array:
    """Return the vector with the least divergence in which every parent is the sum of its children.

    It minimises Σ f log(f/r) over all nodes, so that a sum and its parts that contradict each other
    meet at a geometric mean: with one parent r and children whose sum is s, it is the multiple of
    the children that sums to √(r s)/e.

    Parameters
    ----------
    reference
        r of every node, shape (..., d). A node with r <= 0 is 0, and so is all below it.
    parents
        As of ``tree_consistency``.
    total
        The sum of the roots, >= 0; None leaves it free.

    Raises
    ------
    InvalidInputError
        If all nodes must be 0 but the total is not, or numbers are beyond the range of doubles.

    Notes
    -----
    Cost: O(d) per step of Newton's method, compiled on first use; four to seven steps are usual,
    whatever the reference and the depth.

    Examples
    --------
    >>> parents = np.array([-1, 0, 0])
    >>> tree_scaling(np.array([1.0, 0.75, 0.25]), parents, total=1.0)
    array([1.  , 0.75, 0.25])
    """
    from ldpopt.closed_form.tree_kernels import scaled_tree  # imports numba

    d = reference.shape[-1]
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.maximum(reference.reshape(-1, d), 0.0))
    has_total = total is not None
    roots = 0.0 if total is None else total
    solved, is_settled = scaled_tree(logarithms, parents, has_total, roots)
    if not is_settled.all():
        trial = int(np.argmin(is_settled))
        raise InvalidInputError(
            f"no vector of finite divergence has the sums of the tree in trial {trial}: where the "
            "reference is not positive, a node and all below it are 0"
        )
    return np.asarray(solved.reshape(reference.shape))
