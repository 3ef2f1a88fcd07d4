"""Isotonic regression on any partial order, compiled. Importing this module imports numba.

A block of values that are all at their mean is the minimum unless some of them, with all that must
be above them, have a larger mean than the rest. Which ones is a question of flow: what values have
above the mean is sent along the order, from lower values to the higher ones that they must not
exceed, until it meets values below the mean. What cannot be sent stays on a set that rises, and the
block falls apart there (Spouge, Wan, Wilbur 2003; Luss, Rosset, Shahar 2012). All blocks are looked
at together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry

Array = NDArray[np.float64]
Index = NDArray[np.int64]
# Where the edges of each value start, their numbers, and the values at their other ends. An edge
# upward has its number, and the same edge downward that number's negative less 1.
Network = tuple[Index, Index, Index]

# Of what a block has above its mean, which rounding may leave behind: a block that would fall apart
# for less stays one, at a loss of the square of it.
_ROUNDING = 1e-13


@compiled
def _levels(network: Network, flow: Array, excess: Array, level: Index, queue: Index) -> bool:
    """Write how many steps each value is away from one with an excess; -1 for unreachable ones.

    Returns
    -------
    Whether a value with a deficit was reached.
    """
    starts, edges, others = network
    last = 0
    for v in range(len(level)):
        level[v] = -1
        if excess[v] > 0.0:
            level[v] = 0
            queue[last] = v
            last += 1
    is_reached = False
    first = 0
    while first < last:
        v = queue[first]
        first += 1
        if excess[v] < 0.0:
            # What comes here stays here.
            is_reached = True
            continue
        for place in range(starts[v], starts[v + 1]):
            edge = edges[place]
            # Upward there is always space; back only what was sent.
            if edge < 0 and flow[-edge - 1] <= 0.0:
                continue
            other = others[place]
            if level[other] < 0:
                level[other] = level[v] + 1
                queue[last] = other
                last += 1
    return is_reached


@compiled
def _pushed(
    source: int, network: Network, flow: Array, excess: Array, path: Index, depth: int
) -> int:
    """Send what a path to a deficit takes; return up to which of its edges it can be used again."""
    _, edges, others = network
    end = others[path[depth - 1]]
    amount = min(excess[source], -excess[end])
    for step in range(depth):
        edge = edges[path[step]]
        if edge < 0:
            amount = min(amount, flow[-edge - 1])
    # If no edge is used up, the deficit is filled, or nothing is left to send.
    usable = depth - 1
    for step in range(depth):
        edge = edges[path[step]]
        if edge >= 0:
            flow[edge] += amount
            continue
        flow[-edge - 1] -= amount
        if flow[-edge - 1] <= 0.0:
            usable = min(usable, step)
    excess[source] -= amount
    excess[end] += amount
    return usable


@compiled
def _sent(
    source: int,
    network: Network,
    flow: Array,
    excess: Array,
    level: Index,
    following: Index,
    path: Index,
) -> None:
    """Send the excess of one value along shortest ways until no way is left."""
    starts, edges, others = network
    depth = 0
    v = source
    while excess[source] > 0.0:
        if excess[v] < 0.0:
            depth = _pushed(source, network, flow, excess, path, depth)
            v = source if depth == 0 else others[path[depth - 1]]
            continue
        is_ahead = False
        while following[v] < starts[v + 1]:
            place = following[v]
            edge = edges[place]
            if level[others[place]] == level[v] + 1 and (edge >= 0 or flow[-edge - 1] > 0.0):
                path[depth] = place
                depth += 1
                v = others[place]
                is_ahead = True
                break
            following[v] += 1
        if is_ahead:
            continue
        if depth == 0:
            return
        # A dead end: the value before it goes on with its next edge.
        depth -= 1
        v = source if depth == 0 else others[path[depth - 1]]
        following[v] += 1


@compiled
def _network(above: Index, below: Index, block: Index) -> Network:
    """Return the edges within blocks that may still fall apart."""
    size = len(block)
    starts = np.zeros(size + 1, np.int64)
    for edge in range(len(above)):
        if block[above[edge]] == block[below[edge]] and block[above[edge]] >= 0:
            starts[above[edge] + 1] += 1
            starts[below[edge] + 1] += 1
    for v in range(size):
        starts[v + 1] += starts[v]
    place = starts[:-1].copy()
    edges = np.empty(starts[size], np.int64)
    others = np.empty(starts[size], np.int64)
    for edge in range(len(above)):
        a = above[edge]
        b = below[edge]
        if block[a] == block[b] and block[a] >= 0:
            edges[place[b]] = edge
            others[place[b]] = a
            place[b] += 1
            edges[place[a]] = -edge - 1
            others[place[a]] = b
            place[a] += 1
    return starts, edges, others


@compiled
def _means(row: Array, weights: Array, block: Index, count: int, result: Array) -> None:
    """Write the mean of its block to each value of a block that may still fall apart."""
    mass = np.zeros(count)
    moment = np.zeros(count)
    lowest = np.full(count, np.inf)
    highest = np.full(count, -np.inf)
    for v in range(len(row)):
        b = block[v]
        if b >= 0:
            mass[b] += weights[v]
            moment[b] += weights[v] * row[v]
            lowest[b] = min(lowest[b], row[v])
            highest[b] = max(highest[b], row[v])
    for v in range(len(row)):
        b = block[v]
        if b >= 0:
            # Rounding must not take a mean out of its values: a block of one is that value.
            result[v] = min(max(moment[b] / mass[b], lowest[b]), highest[b])


@compiled
def _apart(
    excess: Array, level: Index, before: Array, block: Index, count: int, new_block: Index
) -> int:
    """Write the new block of each value, -1 where a block stays; return how many there are."""
    left = np.zeros(count)
    all_of_it = np.zeros(count)
    rising = np.zeros(count, np.int64)
    members = np.zeros(count, np.int64)
    for v in range(len(block)):
        b = block[v]
        if b < 0:
            continue
        members[b] += 1
        rising[b] += level[v] >= 0
        all_of_it[b] += max(before[v], 0.0)
        left[b] += max(excess[v], 0.0)
    number = np.full(count, -1)
    new = 0
    for b in range(count):
        is_split = left[b] > _ROUNDING * all_of_it[b] and 0 < rising[b] < members[b]
        if is_split:
            number[b] = new
            new += 2
    for v in range(len(block)):
        b = block[v]
        new_block[v] = -1
        if b >= 0 and number[b] >= 0:
            new_block[v] = number[b] + (level[v] >= 0)
    return new


@compiled
def _send(above: Index, below: Index, block: Index, excess: Array, level: Index) -> Array:
    """Send what values have too much along the edges within blocks; return what each edge carries.

    What cannot be sent stays in ``excess``, and ``level`` is not negative where it can reach.
    """
    size = len(block)
    queue = np.empty(size, np.int64)
    path = np.empty(size + 1, np.int64)
    network = _network(above, below, block)
    flow = np.zeros(len(above))
    # Shortest ways first: their length grows, so that there are at most d rounds.
    while _levels(network, flow, excess, level, queue):
        following = network[0][:-1].copy()
        for v in range(size):
            if excess[v] > 0.0:
                _sent(v, network, flow, excess, level, following, path)
    return flow


@entry("excess", "result")
def flows(excess: Array, f: Array, above: Index, below: Index, result: Array) -> None:
    """Write what edges between equal values carry upward from excesses to deficits, by trial.

    Parameters
    ----------
    excess
        What each value has too much, shape (trials, d); it may be written to.
    f
        The values, of the same shape.
    above, below
        The pairs of the order, each of shape (pairs,).
    result
        Where the flows go, shape (trials, pairs).
    """
    size = f.shape[1]
    level = np.empty(size, np.int64)
    is_equal = np.empty(len(above), np.bool_)
    together = np.zeros(size, np.int64)
    for trial in range(len(f)):
        for edge in range(len(above)):
            is_equal[edge] = f[trial, above[edge]] == f[trial, below[edge]]
        result[trial] = 0.0
        chosen = np.flatnonzero(is_equal)
        sent = _send(above[chosen], below[chosen], together, excess[trial], level)
        for number in range(len(chosen)):
            result[trial, chosen[number]] = sent[number]


@entry("slope")
def lift(
    slope: Array,
    f: Array,
    near: float,
    low: float,
    level: float,
    starts: Index,
    above: Index,
) -> None:
    """Raise slopes that are too low by flows from equal values above them, in place.

    Parameters
    ----------
    slope, f
        Slopes, which are overwritten, and values, shape (d,).
    near
        Distance up to which values are equal.
    low, level
        A slope below ``low`` is raised up to the level as far as those above it have more.
    starts, above
        The values that must not be below value v are above[starts[v]:starts[v + 1]].

    Notes
    -----
    Only what hangs together with a low slope by pairs of equal values is looked at.
    """
    d = len(slope)
    place = np.full(d, -1, np.int32)
    # Untouched memory costs nothing.
    members = np.empty(d, np.int64)
    size = 0
    for v in range(d):
        if slope[v] < low:
            place[v] = size
            members[size] = v
            size += 1
    pairs = 0
    first = 0
    while first < size:
        v = members[first]
        first += 1
        for k in range(starts[v], starts[v + 1]):
            a = above[k]
            if abs(f[a] - f[v]) > near:
                continue
            pairs += 1
            if place[a] < 0:
                place[a] = size
                members[size] = a
                size += 1
    uppers = np.empty(pairs, np.int64)
    lowers = np.empty(pairs, np.int64)
    excess = np.empty(size)
    pair = 0
    for number in range(size):
        v = members[number]
        excess[number] = level - slope[v]
        for k in range(starts[v], starts[v + 1]):
            if abs(f[above[k]] - f[v]) <= near:
                uppers[pair] = place[above[k]]
                lowers[pair] = number
                pair += 1
    together = np.zeros(size, np.int64)
    flow = _send(uppers, lowers, together, excess, np.empty(size, np.int64))
    for pair in range(pairs):
        slope[members[uppers[pair]]] -= flow[pair]
        slope[members[lowers[pair]]] += flow[pair]


@entry("result")
def pooled_rows(
    rows: Array, weights: Array, above: Index, below: Index, parts: Index, result: Array
) -> None:
    """Write the nearest vector in which above[e] is not below below[e], for each row.

    Blocks are looked for from parts that no pair joins: a common block of several would have to
    fall apart first, at a round of flows per halving.

    Parameters
    ----------
    rows
        Vectors, shape (trials, d).
    weights
        Numbers > 0, shape (d,).
    above, below
        The pairs of the order, each of shape (pairs,), without a cycle.
    parts
        The part of each value, numbered from 0, shape (d,).
    result
        Where the vectors go, shape (trials, d).
    """
    size = rows.shape[1]
    level = np.empty(size, np.int64)
    split = np.empty(size, np.int64)
    before = np.empty(size)
    for trial in range(len(rows)):
        row = rows[trial]
        block = parts.copy()
        count = parts.max() + 1
        while count > 0:
            _means(row, weights, block, count, result[trial])
            for v in range(size):
                distance = weights[v] * (row[v] - result[trial, v])
                before[v] = distance if block[v] >= 0 else 0.0
            excess = before.copy()
            _send(above, below, block, excess, level)
            count = _apart(excess, level, before, block, count, split)
            block = split.copy()
