"""Least squares under known orders: isotonic regression by pooling, on chains and on forests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import locked_rows

Array = NDArray[np.float64]

# Below the last bit of the largest value, and of a frequency of 1e-3 beside it.
_HALVINGS = 64

# Values of an order's parts that are pooled at a time.
_TOGETHER = 1_024

STEEPEST_SLOPE = 1e200
"""Stands for an infinite slope: no sum of a million others comes near."""


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


def isotonic(
    f: Array,
    parents: NDArray[np.int64],
    weights: Array | None = None,
    lower: Array | None = None,
    upper: Array | None = None,
    *,
    is_chain: bool | None = None,
) -> Array:
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
    lower, upper
        Bounds of each value, of shape (d,) or that of f, which keep the order themselves
        (``bounds_along_forest`` makes them do so); none by default.
    is_chain
        Whether the parents are -1, 0, 1, ..; if it is not stated, a pass looks.

    Notes
    -----
    Every vertex pools with the highest block below it as long as that is higher (Thompson 1962;
    Pardalos and Xue 1999). A block with bounds takes the value nearest to its mean that all its
    members may have: blocks of any convex functions pool so (Best, Chakravarti, Ubhaya 2000), and a
    function may be infinite beyond bounds. Cost: O(d log d) per trial, O(d) where values are in the
    order of a chain, compiled on first use.

    Examples
    --------
    >>> isotonic(np.array([0.1, 0.5, 0.4, 0.3]), np.array([-1, 0, 0, 2])).round(3)
    array([0.333, 0.333, 0.333, 0.3  ])
    >>> chain = np.array([-1, 0, 1])
    >>> caps = np.array([0.5, 0.5, 0.25])
    >>> isotonic(np.array([0.5, 0.1, 0.7]), chain, upper=caps).round(3)
    array([0.5 , 0.25, 0.25])
    """
    from ldpopt.closed_form.tree_kernels import pool, pool_chain  # imports numba

    d = f.shape[-1]
    rows = np.ascontiguousarray(f.reshape(-1, d))
    weight = np.ones(d) if weights is None else weights
    low = _bounds_by_row(lower, -np.inf, d)
    high = _bounds_by_row(upper, np.inf, d)
    if is_chain is None:
        is_chain = np.array_equal(parents, np.arange(-1, d - 1))
    if is_chain:
        pooled = pool_chain(rows, weight, low, high)
    else:
        pooled = pool(rows, weight, parents, low, high)
    return np.asarray(pooled.reshape(f.shape))


def _bounds_by_row(bound: Array | None, default: float, d: int) -> Array:
    """Return bounds as rows: one for all trials, or one each."""
    if bound is None:
        return np.full((1, d), default)
    return np.ascontiguousarray(bound.reshape(-1, d))


def bounds_along_forest(
    lower: Array, upper: Array, parents: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Return the bounds that an order makes of bounds of each value, all of shape (d,).

    A value is at least what its descendants are at least, and at most what its ancestors are at
    most. Where a lower bound ends up above the upper one, bounds and order contradict each other.

    Parameters
    ----------
    lower, upper
        Bounds, infinite ones too.
    parents
        As of ``isotonic``.

    Notes
    -----
    Cost: linear, compiled on first use.

    Examples
    --------
    >>> chain = np.array([-1, 0])
    >>> bounds_along_forest(np.array([0.0, 0.25]), np.array([0.5, 1.0]), chain)
    (array([0.25, 0.25]), array([0.5, 0.5]))
    """
    from ldpopt.closed_form.tree_kernels import bounds_on_forest  # imports numba

    low, high = bounds_on_forest(lower, upper, parents)
    return low, high


def split_by_slopes(
    slopes: Callable[[Array], Array],
    lowest: Array,
    highest: Array,
    parents: NDArray[np.int64],
) -> Array:
    """Return the minimiser of any convex Σ ℓ_v(f_v) in which no value is above its parent's.

    Whether a value ends up above t is a question of the slopes at t alone: those that do are the
    smallest set with the least Σ ℓ'_v(t) among the sets that hold the parent of each member
    (Hochbaum, Queyranne 2003). So every value's interval is halved until doubles end.

    Parameters
    ----------
    slopes
        From t of shape (trials, d), one per value, to the slopes ℓ'_v(t_v), infinite ones too.
    lowest, highest
        An interval that holds all values, of shape (trials, 1).
    parents
        As of ``isotonic``.

    Notes
    -----
    Cost: 64 evaluations of the slopes, and as many passes up and down the forest.

    Examples
    --------
    >>> target = np.array([[0.0, 0.5, 0.4]])
    >>> ends = (np.array([[0.0]]), np.array([[1.0]]))
    >>> split_by_slopes(lambda t: np.sign(t - target), *ends, np.array([-1, 0, 1])).round(3)
    array([[0.4, 0.4, 0.4]])
    """
    from ldpopt.closed_form.tree_kernels import split  # imports numba

    shape = (len(lowest), len(parents))
    low = np.broadcast_to(lowest, shape).astype(np.float64)
    high = np.broadcast_to(highest, shape).astype(np.float64)
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        # Infinite slopes would cancel to NaN where they meet.
        steepness = np.minimum(np.maximum(slopes(middle), -STEEPEST_SLOPE), STEEPEST_SLOPE)
        is_up = split(steepness, low, high, parents)
        low = np.where(is_up, middle, low)
        high = np.where(is_up, high, middle)
    return np.asarray(low + (high - low) / 2)


def isotonic_on_pairs(f: Array, pairs: NDArray[np.int64], weights: Array) -> Array:
    """Return the isotonic regression under any partial order: Σ w (f' - f)² is least.

    A block at its mean falls apart where a maximal flow along the order leaves an excess: the flows
    of all blocks are one (Spouge, Wan, Wilbur 2003; flows by Dinic 1970).

    Parameters
    ----------
    f
        Values of shape (trials, d).
    pairs
        Pairs (a, b) with f'[a] >= f'[b], without a cycle, shape (m, 2).
    weights
        Numbers > 0, shape (d,).

    Notes
    -----
    Cost: a maximal flow per round of splitting, of which there are a dozen on estimates. Compiled,
    a random order of three pairs per value takes about .04 s for 10⁴ values and 1 s for 10⁵, and a
    table of 316 × 316 values that falls along rows and columns 4 s. Chains and trees have linear
    algorithms: ``isotonic``.

    Examples
    --------
    >>> diamond = np.array([[0, 1], [0, 2], [1, 3], [2, 3]])
    >>> isotonic_on_pairs(np.array([[0.25, 0.5, 0.25, 0.5]]), diamond, np.ones(4))
    array([[0.375, 0.375, 0.375, 0.375]])
    """
    from ldpopt.closed_form.partial_order_kernels import pooled_rows  # imports numba

    pieces, order = _pieces(pairs, f.shape[-1])
    along = f[:, order]
    pooled = np.empty(f.shape)
    for values, above, below, parts in pieces:
        part = np.empty((len(f), values.stop - values.start))
        mass = np.ascontiguousarray(weights[order[values]])
        pooled_rows(locked_rows(along[:, values]), mass, above, below, parts, part)
        pooled[:, values] = part
    result = np.empty(f.shape)
    result[:, order] = pooled
    return result


class _Piece(NamedTuple):
    """Parts of an order that no pair joins to others.

    Attributes
    ----------
    values
        Their places among the values in the order of parts.
    above, below
        Their pairs, by places within this range.
    parts
        The part of each value, numbered from 0.
    """

    values: slice
    above: NDArray[np.int64]
    below: NDArray[np.int64]
    parts: NDArray[np.int64]


def _pieces(pairs: NDArray[np.int64], d: int) -> tuple[list[_Piece], NDArray[np.int64]]:
    """Return the pieces of an order, and the values in the order of its parts.

    Small parts are taken together until they have a thousand values, which the fast memory of a
    core holds.
    """
    from scipy import sparse  # slow to import

    graph = sparse.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(d, d))
    count, part = sparse.csgraph.connected_components(graph, directed=False)
    order = np.argsort(part, kind="stable")
    place = np.empty(d, dtype=np.int64)
    place[order] = np.arange(d)
    ends = np.cumsum(np.bincount(part, minlength=count))
    # The last part that begins in each range of so many values ends the range.
    is_last = np.append(ends[:-1] // _TOGETHER < ends[1:] // _TOGETHER, True)
    bounds = np.append(0, ends[is_last])
    along = place[pairs]
    along = along[np.argsort(along[:, 0], kind="stable")]
    cuts = np.searchsorted(along[:, 0], bounds)
    pieces = []
    for i in range(len(bounds) - 1):
        above, below = np.ascontiguousarray(along[cuts[i] : cuts[i + 1]].T - bounds[i])
        values = slice(bounds[i], bounds[i + 1])
        parts = part[order[values]].astype(np.int64)
        pieces.append(_Piece(values, above, below, parts - parts[0]))
    return pieces, order


def top_set(f: Array, is_member: NDArray[np.bool_]) -> Array:
    """Return the nearest vector in which no other value is above a member.

    Members below a level t rise to it and others above it fall to it, where t is such that as much
    rises as falls: the mean of all that move. Norm-Sub of the result is the nearest such vector on
    the simplex, as it is for ``monotone``.

    Parameters
    ----------
    f
        Values of shape (..., d).
    is_member
        Which values are in the set, shape (d,).

    Notes
    -----
    Cost: a sort.

    Examples
    --------
    >>> top_set(np.array([0.5, 0.1, 0.3, 0.1]), np.array([True, True, False, False]))
    array([0.5, 0.2, 0.2, 0.1])
    """
    if is_member.all() or not is_member.any():
        return f.copy()
    order = np.argsort(f, axis=-1, kind="stable")
    levels = np.take_along_axis(f, order, axis=-1)
    members = is_member[order]
    # Of each level t in turn: the members up to it, and the others above it.
    below = np.cumsum(members, axis=-1)
    sum_below = np.cumsum(np.where(members, levels, 0.0), axis=-1)
    above = _of_those_behind((~members).astype(np.int64))
    sum_above = _of_those_behind(np.where(members, 0.0, levels))
    # How much more rises than falls at that level; it grows with the level.
    rising = below * levels - sum_below
    falling = sum_above - above * levels
    surplus = rising - falling
    not_above = np.count_nonzero(surplus <= 0, axis=-1)
    last = np.maximum(not_above - 1, 0)[..., None]
    moved = np.take_along_axis(below + above, last, axis=-1)
    total = np.take_along_axis(sum_below + sum_above, last, axis=-1)
    # Without any that moves every level between members and others will do.
    unmoved = np.take_along_axis(levels, last, axis=-1)
    level = np.where(moved > 0, total / np.maximum(moved, 1), unmoved)
    return np.where(is_member, np.maximum(f, level), np.minimum(f, level))


def _of_those_behind(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return for each entry the sum of all entries behind it, along the last axis."""
    from_the_end = np.cumsum(numbers[..., ::-1], axis=-1)
    # Less the entry itself, which a running sum includes.
    return np.asarray(from_the_end[..., ::-1] - numbers)
