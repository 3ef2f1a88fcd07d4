"""Least squares on trees, node by node, compiled. Importing this module imports numba.

The compiled code is kept on disk where numba finds a place to write: this file is all that it
depends on. Trees are arrays of parents, -1 above a root, without cycles. Inside, nodes are numbered
1 .. d in breadth-first order, and 0 stands above the roots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry, inlined

Array = NDArray[np.float64]
Index = NDArray[np.int64]
_NONE = -1  # the end of a list, the empty heap

# What the roots of a tree may miss their total by, relative to the largest number, and how often
# the passes are repeated: each time takes sixteen digits from what is too large.
_TOTAL_MET = 1e-12
_MOST_REPEATS = 24

# Newton's steps for logarithms, of which seven are usual, and what sums of logarithms may miss.
_MOST_STEPS = 100
_LOGARITHMS_MET = 1e-11


@compiled
def breadth_first(parents: Index) -> tuple[Index, Index]:
    """Return the labels of nodes 1 .. d level by level, siblings together, and their parents.

    Passes in this order go through memory once, whatever the labels of the nodes.
    """
    d = len(parents)
    first = np.zeros(d + 2, np.int64)
    for parent in parents:
        first[parent + 2] += 1
    # From here on children of v are at first[v + 1] .. first[v + 2], the roots at 0 .. first[1].
    first = np.cumsum(first)
    children = np.empty(d, np.int64)
    free_place = first[:-1].copy()
    for label in range(d):
        parent = parents[label]
        place = free_place[parent + 1]
        children[place] = label
        free_place[parent + 1] += 1
    order = np.empty(d, np.int64)
    above = np.zeros(d + 1, np.int64)
    count = 0
    for node in range(d + 1):
        label = order[node - 1] if node > 0 else -1
        begin = first[label + 1]
        end = first[label + 2]
        for child in children[begin:end]:
            order[count] = child
            count += 1
            above[count] = node
    return order, above


# --- orders ---------------------------------------------------------------------------------------

# Pairing heaps with the highest value on top: ``child`` is a node's first child in its heap,
# ``sibling`` the next one.


@compiled
def _meld(
    heap: int,
    other: int,
    value: Array,
    child: Index,
    sibling: Index,
) -> int:
    """Return the top of two heaps as one."""
    if heap == _NONE or other == _NONE:
        # _NONE is -1: the larger one is the heap that exists, or _NONE.
        return max(heap, other)
    if value[heap] <= value[other]:
        low = heap
        high = other
    else:
        low = other
        high = heap
    sibling[low] = child[high]
    child[high] = low
    return high


@compiled
def _without_top(
    top: int,
    value: Array,
    child: Index,
    sibling: Index,
) -> int:
    """Return the top of the heap that is left when the top is taken away."""
    # Melded two by two, then one by one: this keeps heaps shallow.
    pairs = _NONE
    node = child[top]
    while node != _NONE:
        partner = sibling[node]
        after = sibling[partner] if partner != _NONE else _NONE
        pair = _meld(node, partner, value, child, sibling)
        sibling[pair] = pairs
        pairs = pair
        node = after
    rest = _NONE
    while pairs != _NONE:
        after = sibling[pairs]
        rest = _meld(rest, pairs, value, child, sibling)
        pairs = after
    return rest


@entry()
def pool(f: Array, weights: Array, parents: Index, lower: Array, upper: Array) -> Array:
    """Return the nearest rows to f (trials, d) in which no node is above its parent.

    Leaves first, each node starts a block of its own and absorbs the highest block below it as long
    as that is higher than itself: the blocks below a block wait in a heap. A node meets blocks that
    are final but for what is above them, and a block that it leaves alone is no higher than the
    node ends up, so nothing has to be undone.

    The value of a block is its mean, cut to the bounds of all its members: ``lower`` and ``upper``
    have one row for all trials, or one each. They must not contradict the order: no lower bound is
    above that of the parent, and no upper one.
    """
    trials, d = f.shape
    order, above = breadth_first(parents)
    result = np.empty_like(f)
    mean = np.empty(d + 1)
    mass = np.empty(d + 1)
    low = np.empty(d + 1)
    high = np.empty(d + 1)
    value = np.empty(d + 1)
    heap = np.empty(d + 1, np.int64)
    child = np.empty(d + 1, np.int64)
    sibling = np.empty(d + 1, np.int64)
    owner = np.empty(d + 1, np.int64)
    for trial in range(trials):
        heap[:] = _NONE
        child[:] = _NONE
        sibling[:] = _NONE
        bounds = min(trial, len(lower) - 1)
        for node in range(d, 0, -1):
            label = order[node - 1]
            mean[node] = f[trial, label]
            mass[node] = weights[label]
            low[node] = lower[bounds, label]
            high[node] = upper[bounds, label]
            value[node] = min(max(mean[node], low[node]), high[node])
            owner[node] = node
            _absorb(node, mean, mass, low, high, value, owner, heap, child, sibling)
            parent = above[node]
            if parent > 0:
                heap[parent] = _meld(heap[parent], node, value, child, sibling)
        # Owners come before what they own, so that their values are final here.
        for node in range(1, d + 1):
            value[node] = value[owner[node]]
            result[trial, order[node - 1]] = value[node]
    return result


@inlined
def _absorb(
    node: int,
    mean: Array,
    mass: Array,
    low: Array,
    high: Array,
    value: Array,
    owner: Index,
    heap: Index,
    child: Index,
    sibling: Index,
) -> None:
    """Let a block absorb the highest block below it, as long as that is higher than itself."""
    while heap[node] != _NONE and value[heap[node]] > value[node]:
        top = heap[node]
        mass[node] += mass[top]
        # As a step towards the other mean: a sum of products divided again would lose a digit per
        # merge.
        share = mass[top] / mass[node]
        mean[node] += (mean[top] - mean[node]) * share
        low[node] = max(low[node], low[top])
        high[node] = min(high[node], high[top])
        value[node] = min(max(mean[node], low[node]), high[node])
        # The block below is reached through its owner: labels are not renamed, which would cost d
        # per merge.
        owner[top] = node
        rest = _without_top(top, value, child, sibling)
        heap[node] = _meld(rest, heap[top], value, child, sibling)


@entry()
def pool_chain(f: Array, weights: Array, lower: Array, upper: Array) -> Array:
    """Return ``pool`` of a chain whose first value is the highest, ten times as fast.

    Each value starts a block, and the last two blocks merge as long as the later one is higher.
    """
    trials, d = f.shape
    result = np.empty_like(f)
    mean = np.empty(d)
    mass = np.empty(d)
    low = np.empty(d)
    high = np.empty(d)
    value = np.empty(d)
    end = np.empty(d, np.int64)
    for trial in range(trials):
        bounds = min(trial, len(lower) - 1)
        last = -1
        for v in range(d):
            last += 1
            mean[last] = f[trial, v]
            mass[last] = weights[v]
            low[last] = lower[bounds, v]
            high[last] = upper[bounds, v]
            value[last] = min(max(mean[last], low[last]), high[last])
            end[last] = v + 1
            while last > 0 and value[last] > value[last - 1]:
                last -= 1
                mass[last] += mass[last + 1]
                share = mass[last + 1] / mass[last]
                mean[last] += (mean[last + 1] - mean[last]) * share
                low[last] = max(low[last], low[last + 1])
                high[last] = min(high[last], high[last + 1])
                value[last] = min(max(mean[last], low[last]), high[last])
                end[last] = v + 1
        first = 0
        for block in range(last + 1):
            result[trial, first : end[block]] = value[block]
            first = end[block]
    return result


@entry()
def bounds_on_forest(lower: Array, upper: Array, parents: Index) -> tuple[Array, Array]:
    """Return what the order makes of bounds (d,): none is above the same bound of the parent."""
    order, above = breadth_first(parents)
    low = lower.copy()
    high = upper.copy()
    d = len(parents)
    for node in range(d, 0, -1):
        if above[node] > 0:
            parent = order[above[node] - 1]
            low[parent] = max(low[parent], low[order[node - 1]])
    for node in range(1, d + 1):
        if above[node] > 0:
            child = order[node - 1]
            high[child] = min(high[child], high[order[above[node] - 1]])
    return low, high


@entry()
def lowest_above(above: Index, below: Index, size: int) -> tuple[Index, bool]:
    """Return the lowest of the nodes above each node, -1 without one, and if all are on its way up.

    Edges (above[e], below[e]) make no cycle. The lowest nodes make a forest; numbered so that every
    subtree is an interval, one look tells whether a node is on the way from another to the root.
    """
    lowest, order = _downward(above, below, size)
    begin, sizes = _intervals(lowest, order)
    for edge in range(len(above)):
        depth = begin[lowest[below[edge]]] - begin[above[edge]]
        if not 0 <= depth < sizes[above[edge]]:
            return lowest, False
    return lowest, True


@compiled
def _downward(above: Index, below: Index, size: int) -> tuple[Index, Index]:
    """Return the lowest node above each node, and all nodes, each after those above it."""
    starts = np.zeros(size + 1, np.int64)
    missing = np.zeros(size, np.int64)
    for edge in range(len(above)):
        starts[above[edge] + 1] += 1
        missing[below[edge]] += 1
    # Loops: numpy's functions for them would take seconds to compile.
    for node in range(size):
        starts[node + 1] += starts[node]
    place = starts[:-1].copy()
    children = np.empty(len(above), np.int64)
    for edge in range(len(above)):
        children[place[above[edge]]] = below[edge]
        place[above[edge]] += 1
    lowest = np.full(size, -1)
    order = np.empty(size, np.int64)
    last = 0
    for node in range(size):
        if missing[node] == 0:
            order[last] = node
            last += 1
    for first in range(size):
        node = order[first]
        # A node follows once all above it have: the last of them is its lowest.
        for child in children[starts[node] : starts[node + 1]]:
            lowest[child] = node
            missing[child] -= 1
            if missing[child] == 0:
                order[last] = child
                last += 1
    return lowest, order


@compiled
def _intervals(parents: Index, order: Index) -> tuple[Index, Index]:
    """Return where the interval of each subtree begins, and how many nodes it has."""
    size = len(parents)
    sizes = np.ones(size, np.int64)
    for node in order[::-1]:
        if parents[node] >= 0:
            sizes[parents[node]] += sizes[node]
    begin = np.zeros(size, np.int64)
    following = np.zeros(size, np.int64)
    of_roots = 0
    for node in order:
        if parents[node] < 0:
            begin[node] = of_roots
            of_roots += sizes[node]
        else:
            begin[node] = following[parents[node]]
            following[parents[node]] += sizes[node]
        following[node] = begin[node] + 1
    return begin, sizes


@entry()
def split(slopes: Array, low: Array, high: Array, parents: Index) -> NDArray[np.bool_]:
    """Return which nodes end up above the middle of their intervals, for rows (trials, nodes).

    Nodes of one interval that hang together are split by the smallest set with the least sum of
    slopes among those that hold the parent of each of their nodes.
    """
    trials, d = slopes.shape
    order, above = breadth_first(parents)
    is_up = np.zeros((trials, d), np.bool_)
    lowest_sum = np.empty(d)
    hangs = np.empty(d, np.bool_)
    for trial in range(trials):
        for node in range(1, d + 1):
            label = order[node - 1]
            parent = order[above[node] - 1] if above[node] > 0 else label
            is_same = low[trial, parent] == low[trial, label]
            is_same = is_same and high[trial, parent] == high[trial, label]
            hangs[label] = is_same and parent != label
            lowest_sum[label] = slopes[trial, label]
        for node in range(d, 0, -1):
            label = order[node - 1]
            # What is not worth taking along with the parent is left below.
            if hangs[label] and lowest_sum[label] < 0:
                lowest_sum[order[above[node] - 1]] += lowest_sum[label]
        for node in range(1, d + 1):
            label = order[node - 1]
            is_parent_up = is_up[trial, order[above[node] - 1]] if hangs[label] else True
            is_up[trial, label] = lowest_sum[label] < 0 and is_parent_up
    return is_up


# --- hierarchies ----------------------------------------------------------------------------------


@entry()
def two_passes(
    f: Array,
    weights: Array,
    parents: Index,
    has_total: bool,
    total: float,
    nonnegative: bool,
) -> Array:
    """Return the nearest rows to f (trials, d) in which parents are the sums of their children.

    With ``has_total`` the roots sum to the total. Seen from above, the subtree of a node is one
    measurement z of its total t with a spread u: the least squared distance of a subtree with
    total t is (t - z)²/(2u) + const. A leaf has its own estimate and u = 1/w. Children add up to
    Z = Σ z, U = Σ u, which their parent's estimate f̃ sharpens to z = (Z + w U f̃)/(1 + w U),
    u = U/(1 + w U). On the way down the difference of t from Z is shared in proportion to the
    spreads.
    """
    trials, d = f.shape
    order, above = breadth_first(parents)
    leaf = np.ones(d + 1, np.bool_)
    trust = np.empty(d + 1)
    for node in range(1, d + 1):
        leaf[above[node]] = False
        trust[node] = weights[order[node - 1]]
    result = np.empty_like(f)
    measured = np.empty(d + 1)
    zero = np.empty(d + 1, np.bool_)
    z = np.empty(d + 1)
    u = np.empty(d + 1)
    sums = np.empty(d + 1)
    spreads = np.empty(d + 1)
    for trial in range(trials):
        for node in range(1, d + 1):
            measured[node] = f[trial, order[node - 1]]
        zero[:] = False
        for _ in range(_MOST_REPEATS):
            # As an active set: a negative leaf becomes a zero, and no zero returns, so that d
            # rounds suffice.
            again = True
            while again:
                _upwards(measured, trust, above, leaf, zero, z, u, sums, spreads)
                z[0] = total if has_total else sums[0]
                again = _downwards(above, leaf, zero, z, u, sums, spreads, nonnegative)
            # Added up once more, so that parents are the sums of what their children became.
            sums[:] = 0.0
            largest = abs(total)
            for node in range(d, 0, -1):
                if leaf[node]:
                    sums[node] = z[node]
                    largest = max(largest, abs(z[node]))
                sums[above[node]] += sums[node]
            if not has_total or abs(sums[0] - total) <= _TOTAL_MET * largest:
                break
            # Of an estimate far above the total the last bits are worth more: what is nearest to
            # the result is the same, and its numbers are smaller.
            measured[1:] = sums[1:]
        for node in range(1, d + 1):
            result[trial, order[node - 1]] = sums[node]
    return result


@inlined
def _upwards(
    measured: Array,
    trust: Array,
    above: Index,
    leaf: NDArray[np.bool_],
    zero: NDArray[np.bool_],
    z: Array,
    u: Array,
    sums: Array,
    spreads: Array,
) -> None:
    """Write z and u of every node, and the sums Z and U of its children: leaves first."""
    sums[:] = 0.0
    spreads[:] = 0.0
    for node in range(len(z) - 1, 0, -1):
        if zero[node]:
            z[node] = 0.0
            # A fixed total of 0: no spread, so that no difference is shared with it.
            u[node] = 0.0
            continue
        if leaf[node]:
            z[node] = measured[node]
            u[node] = 1 / trust[node]
        else:
            precision = trust[node] * spreads[node]
            shrink = 1 / (1 + precision)
            z[node] = (sums[node] + precision * measured[node]) * shrink
            u[node] = spreads[node] * shrink
        sums[above[node]] += z[node]
        spreads[above[node]] += u[node]


@inlined
def _downwards(
    above: Index,
    leaf: NDArray[np.bool_],
    zero: NDArray[np.bool_],
    z: Array,
    u: Array,
    sums: Array,
    spreads: Array,
    nonnegative: bool,
) -> bool:
    """Overwrite z with the totals t, roots first; return whether a leaf has become a zero.

    The sums are overwritten with the share of each child per unit of its spread.
    """
    has_new_zero = False
    for node in range(len(z)):
        if node > 0:
            share = sums[above[node]]
            z[node] += u[node] * share
        if leaf[node]:
            if nonnegative and z[node] < 0:
                zero[node] = True
                has_new_zero = True
        # Without spread all leaves below are zeros: then the sum is 0 and stays.
        elif spreads[node] > 0:
            difference = z[node] - sums[node]
            sums[node] = difference / spreads[node]
    return has_new_zero


@entry()
def scaled_tree(
    logarithms: Array, parents: Index, has_total: bool, total: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the rows nearest in divergence in which parents are the sums of their children.

    With ``has_total`` the roots sum to the total; the second array tells of each trial whether the
    steps have settled. Nodes whose logarithm (trials, d) is -inf are 0.

    With a multiplier λ per sum the logarithm of a node is that of its reference, less 1, less its
    own λ, plus that of its parent. Stated in logarithms, each sum F_v = log Σ f_c - log f_v is
    convex in λ, rises by 2 with its own λ, and falls by 1 with that of its parent and by the share
    f_c / Σ f_c with that of each child. Such a matrix has an inverse without negative numbers, so
    that Newton's steps fall to the root from anywhere (Ortega and Rheinboldt 1970, 13.3.4). Each is
    two passes: leaves first, where a node's step is α times that of its parent plus β, with
    0 < α <= 1, and then roots first.
    """
    trials, d = logarithms.shape
    order, above = breadth_first(parents)
    leaf = np.ones(d + 1, np.bool_)
    for node in range(1, d + 1):
        leaf[above[node]] = False
    # Above the roots stands the total, whose reference is never looked at.
    leaf[0] = False
    result = np.zeros((trials, d))
    is_settled = np.ones(trials, np.bool_)
    size = np.empty(d + 1)
    alpha = np.empty(d + 1)
    beta = np.empty(d + 1)
    highest = np.empty(d + 1)
    sums = np.empty((3, d + 1))
    for trial in range(trials):
        for node in range(1, d + 1):
            size[node] = logarithms[trial, order[node - 1]] - 1
        if not _keep_what_can_be_positive(size, above, leaf):
            is_settled[trial] = not has_total or total == 0
            continue
        if has_total and total == 0:
            continue
        wanted = np.log(total) if has_total else 0.0
        missed = np.inf
        for _ in range(_MOST_STEPS):
            before = missed
            missed = _steps_upwards(size, above, leaf, alpha, beta, highest, sums)
            step = 0.0
            if has_total:
                excess = highest[0] + np.log(sums[0, 0]) - wanted
                missed = max(missed, abs(excess))
                step = (sums[2, 0] / sums[0, 0] - excess) / (1 - sums[1, 0] / sums[0, 0])
            # What is left is rounding once it no longer falls.
            if missed <= _LOGARITHMS_MET and missed >= before / 2:
                break
            _move_downwards(size, above, leaf, alpha, beta, step)
        is_settled[trial] = missed <= _LOGARITHMS_MET
        # Added up, so that parents are the sums of their children.
        sums[0] = 0.0
        for node in range(d, 0, -1):
            if leaf[node]:
                sums[0, node] = np.exp(size[node])
            sums[0, above[node]] += sums[0, node]
        factor = total / sums[0, 0] if has_total else 1.0
        for node in range(1, d + 1):
            result[trial, order[node - 1]] = sums[0, node] * factor
    return result, is_settled


@inlined
def _keep_what_can_be_positive(size: Array, above: Index, leaf: NDArray[np.bool_]) -> bool:
    """Write -inf for nodes that are 0 with one above or all below them; return if any is left."""
    size[0] = 0.0
    for node in range(1, len(size)):
        if size[above[node]] == -np.inf:
            size[node] = -np.inf
    # A node with children is 0 if all of them are: which it has, they tell.
    has_child = np.zeros(len(size), np.bool_)
    for node in range(len(size) - 1, 0, -1):
        if not (leaf[node] or has_child[node]):
            size[node] = -np.inf
        if size[node] > -np.inf:
            has_child[above[node]] = True
    return bool(has_child[0])


@inlined
def _steps_upwards(
    size: Array,
    above: Index,
    leaf: NDArray[np.bool_],
    alpha: Array,
    beta: Array,
    highest: Array,
    sums: Array,
) -> float:
    """Write α and β of every node, and return the largest |F_v|.

    ``sums`` are those of f, α f and β f over the children, relative to the largest child, whose
    logarithm is ``highest``.
    """
    highest[:] = -np.inf
    for node in range(1, len(size)):
        highest[above[node]] = max(highest[above[node]], size[node])
    sums[:] = 0.0
    missed = 0.0
    for node in range(len(size) - 1, 0, -1):
        if size[node] == -np.inf:
            continue
        alpha[node] = 0.0
        beta[node] = 0.0
        if not leaf[node]:
            excess = highest[node] + np.log(sums[0, node]) - size[node]
            missed = max(missed, abs(excess))
            alpha[node] = 1 / (2 - sums[1, node] / sums[0, node])
            beta[node] = (sums[2, node] / sums[0, node] - excess) * alpha[node]
        share = np.exp(size[node] - highest[above[node]])
        sums[0, above[node]] += share
        sums[1, above[node]] += share * alpha[node]
        sums[2, above[node]] += share * beta[node]
    return missed


@inlined
def _move_downwards(
    size: Array, above: Index, leaf: NDArray[np.bool_], alpha: Array, beta: Array, step: float
) -> None:
    """Move all logarithms by the steps of the multipliers, of which that of the total is given.

    The steps are left in β.
    """
    beta[0] = step
    for node in range(1, len(size)):
        if size[node] == -np.inf:
            continue
        of_parent = beta[above[node]]
        beta[node] = 0.0 if leaf[node] else alpha[node] * of_parent + beta[node]
        size[node] += of_parent - beta[node]
