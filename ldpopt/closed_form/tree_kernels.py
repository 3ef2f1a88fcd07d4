"""Least squares on trees, node by node, compiled. Importing this module imports numba.

The compiled code is kept on disk where numba finds a place to write: this file is all that it depends on. Trees are arrays
of parents, -1 above a root, without cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]
_NONE = -1  # the end of a list, the empty heap
Function = TypeVar("Function", bound=Callable[..., object])


def _compiled(function: Function) -> Function:
    try:
        made = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # nowhere to write
        made = numba.njit(nogil=True)(function)
    return cast("Function", made)


@_compiled
def _breadth_first(parents: Index) -> tuple[Index, Index]:
    """Return the nodes level by level, siblings together, and for each place 1 .. d that of its parent, 0 for a root.

    Passes in this order go through memory once, whatever the labels of the nodes.
    """
    d = len(parents)
    first = np.zeros(d + 2, np.int64)
    for parent in parents:
        first[parent + 2] += 1
    first = np.cumsum(
        first
    )  # children of v end up at first[v + 1] .. first[v + 2], the roots at first[0] .. first[1]
    children, filled = np.empty(d, np.int64), first[:-1].copy()
    for node in range(d):
        children[filled[parents[node] + 1]] = node
        filled[parents[node] + 1] += 1
    order, above, found = np.empty(d, np.int64), np.zeros(d + 1, np.int64), 0
    for place in range(d + 1):
        node = order[place - 1] if place > 0 else -1
        for child in children[first[node + 1] : first[node + 2]]:
            order[found] = child
            found += 1
            above[found] = place
    return order, above


# Pairing heaps with the highest mean on top: ``child`` is a node's first child in its heap, ``sibling`` the next one.


@_compiled
def _meld(one: int, other: int, mean: Array, child: Index, sibling: Index) -> int:
    if one == _NONE or other == _NONE:
        return max(one, other)
    low, high = (one, other) if mean[one] <= mean[other] else (other, one)
    sibling[low] = child[high]
    child[high] = low
    return high


@_compiled
def _without_top(top: int, mean: Array, child: Index, sibling: Index) -> int:
    pairs, node = _NONE, child[top]
    while node != _NONE:  # melded two by two, then one by one: this keeps heaps shallow
        partner = sibling[node]
        after = sibling[partner] if partner != _NONE else _NONE
        pair = _meld(node, partner, mean, child, sibling)
        sibling[pair] = pairs
        pairs, node = pair, after
    rest = _NONE
    while pairs != _NONE:
        after = sibling[pairs]
        rest = _meld(rest, pairs, mean, child, sibling)
        pairs = after
    return rest


@_compiled
def pool(f: Array, weights: Array, parents: Index) -> Array:
    """Return the nearest rows to f (trials, d) in which no node is above its parent.

    Leaves first, each node starts a block of its own and absorbs the highest block below it as long as that is higher than
    itself: the blocks below a block wait in a heap. A node meets blocks that are final but for what is above them, and one
    that it leaves alone is no higher than the node ends up, so nothing has to be undone.
    """
    trials, d = f.shape
    order, above = _breadth_first(parents)
    result, value = np.empty_like(f), np.empty(d + 1)
    mean, mass = np.empty(d + 1), np.empty(d + 1)
    heap, child, sibling = (
        np.empty(d + 1, np.int64),
        np.empty(d + 1, np.int64),
        np.empty(d + 1, np.int64),
    )
    owner = np.empty(d + 1, np.int64)
    for trial in range(trials):
        heap[:] = _NONE
        for node in range(d, 0, -1):
            mean[node], mass[node] = f[trial, order[node - 1]], weights[order[node - 1]]
            owner[node], child[node], sibling[node] = node, _NONE, _NONE
            while heap[node] != _NONE and mean[heap[node]] > mean[node]:
                top = heap[node]
                mass[node] += mass[top]
                mean[node] += (mean[top] - mean[node]) * (mass[top] / mass[node])
                owner[top] = node
                heap[node] = _meld(
                    _without_top(top, mean, child, sibling), heap[top], mean, child, sibling
                )
            if above[node] > 0:
                heap[above[node]] = _meld(heap[above[node]], node, mean, child, sibling)
        for node in range(1, d + 1):
            value[node] = mean[node] if owner[node] == node else value[owner[node]]
            result[trial, order[node - 1]] = value[node]
    return result


@_compiled
def two_passes(
    f: Array, weights: Array, parents: Index, known: bool, total: float, nonnegative: bool
) -> Array:
    """Return the nearest rows to f (trials, d) in which parents are the sums of their children, and the roots' sum is known.

    Seen from above, the subtree of a node is one measurement z of its total t with a spread u: the least squared distance of
    a subtree with total t is (t - z)²/(2u) + const. A leaf has its own estimate and u = 1/w. Children add up to Z = Σ z,
    U = Σ u, which their parent's estimate f̃ sharpens to z = (Z + w U f̃)/(1 + w U), u = U/(1 + w U). On the way down what t
    differs from Z is shared in proportion to the spreads.
    """
    trials, d = f.shape
    order, above = _breadth_first(parents)
    leaf = np.ones(d + 1, np.bool_)
    for node in range(1, d + 1):
        leaf[above[node]] = False
    result, zero = np.empty_like(f), np.empty(d + 1, np.bool_)
    own, trust = np.empty(d + 1), np.empty(d + 1)
    z, u, sums, spreads = np.empty(d + 1), np.empty(d + 1), np.empty(d + 1), np.empty(d + 1)
    for node in range(1, d + 1):
        trust[node] = weights[order[node - 1]]
    for trial in range(trials):
        for node in range(1, d + 1):
            own[node] = f[trial, order[node - 1]]
        zero[:] = False
        again = True
        while again:
            again = False
            sums[:], spreads[:] = 0.0, 0.0
            for node in range(d, 0, -1):
                if zero[node]:
                    z[node], u[node] = 0.0, 0.0
                    continue
                if leaf[node]:
                    z[node], u[node] = own[node], 1 / trust[node]
                else:
                    shrink = 1 / (1 + trust[node] * spreads[node])
                    z[node] = (sums[node] + trust[node] * spreads[node] * own[node]) * shrink
                    u[node] = spreads[node] * shrink
                sums[above[node]] += z[node]
                spreads[above[node]] += u[node]
            z[0] = total if known else sums[0]
            for node in range(d + 1):  # from here on z is t, and sums the share of a unit of spread
                if node > 0:
                    z[node] += u[node] * sums[above[node]]
                if leaf[node]:
                    if nonnegative and z[node] < 0:
                        zero[node] = again = True
                else:
                    sums[node] = (
                        (z[node] - sums[node]) / spreads[node] if spreads[node] > 0 else 0.0
                    )
        sums[:] = 0.0
        for node in range(
            d, 0, -1
        ):  # added up once more, so that parents are the sums of what their children became
            if leaf[node]:
                sums[node] = z[node]
            sums[above[node]] += sums[node]
            result[trial, order[node - 1]] = sums[node]
    return result
