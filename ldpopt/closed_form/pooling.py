"""Isotonic regression on trees by pooling blocks, compiled. Importing this module imports numba.

The compiled code is kept on disk beside this file, which is all that it depends on; the first compilation takes a second.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@numba.njit(nogil=True, cache=True)
def pool(f: Array, weights: Array, parents: Index) -> Array:
    """Return the nearest rows of f (trials, d) in which no node is above its parent; weights (d,), -1 for a root's parent.

    Leaves first, each node starts a block of its own and absorbs the highest block below it as long as that is higher than
    itself: the blocks below a block wait in a heap. The order is right: a block that a node absorbs cannot grow any more,
    and one that it leaves alone is no higher than the node ends up.
    """
    trials, d = f.shape
    order = _leaves_first(parents)
    result = np.empty_like(f)
    heap, child, sibling, owner = (
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
    )
    mean, mass = np.empty(d), np.empty(d)
    for trial in range(trials):
        heap[:] = -1
        for node in order:
            mean[node], mass[node], owner[node], child[node], sibling[node] = (
                f[trial, node],
                weights[node],
                node,
                -1,
                -1,
            )
            while heap[node] >= 0 and mean[heap[node]] > mean[node]:
                top = heap[node]
                mass[node] += mass[top]
                mean[node] += (mean[top] - mean[node]) * (mass[top] / mass[node])
                owner[top] = node
                heap[node] = _meld(_without_top(top, mean, child, sibling), heap[top], mean, child, sibling)
            if parents[node] >= 0:
                heap[parents[node]] = _meld(heap[parents[node]], node, mean, child, sibling)
        for node in order[::-1]:
            result[trial, node] = mean[node] if owner[node] == node else result[trial, owner[node]]
    return result


@numba.njit(cache=True)
def _leaves_first(parents: Index) -> Index:
    """Return the nodes in an order that has every node before its parent."""
    waiting = np.zeros(len(parents), np.int64)
    for parent in parents:
        if parent >= 0:
            waiting[parent] += 1
    order, found = np.empty(len(parents), np.int64), 0
    for node in range(len(parents)):
        if waiting[node] == 0:
            order[found] = node
            found += 1
    for i in range(len(parents)):
        parent = parents[order[i]]
        if parent >= 0:
            waiting[parent] -= 1
            if waiting[parent] == 0:
                order[found] = parent
                found += 1
    return order


# Pairing heaps with the highest mean on top: ``child`` is a node's first child in its heap, ``sibling`` the next one.


@numba.njit(cache=True)
def _meld(one: int, other: int, mean: Array, child: Index, sibling: Index) -> int:
    if one < 0 or other < 0:
        return max(one, other)
    low, high = (one, other) if mean[one] <= mean[other] else (other, one)
    sibling[low] = child[high]
    child[high] = low
    return high


@numba.njit(cache=True)
def _without_top(top: int, mean: Array, child: Index, sibling: Index) -> int:
    pairs, node = -1, child[top]
    while node >= 0:  # melded two by two, then one by one: this keeps heaps shallow
        partner = sibling[node]
        after = sibling[partner] if partner >= 0 else -1
        pair = _meld(node, partner, mean, child, sibling)
        sibling[pair] = pairs
        pairs, node = pair, after
    rest = -1
    while pairs >= 0:
        after = sibling[pairs]
        rest = _meld(rest, pairs, mean, child, sibling)
        pairs = after
    return rest
