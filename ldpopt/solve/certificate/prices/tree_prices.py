"""Prices of orders and hierarchies, node by node, compiled. Importing this module imports numba.

Nodes have the places 1 .. d in any order in which each comes after its parent; 0 stands above the
roots. The closed forms whose points are priced have imported numba already.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry
from ldpopt.closed_form.forests import FromAbove
from ldpopt.solve.certificate.bounds.dual import EPS

Array = NDArray[np.float64]
Index = NDArray[np.integer]

# Distance, relative to the total, at which two values of a chain count as equal.
_TIED = 1e-12

# Values of a chain that are added up before a mean is looked at.
_BEGINNING = 1024

# Nodes that are looked at before their sums go to nodes far above.
_BLOCK = 256


@entry()
def flows(slope: Array, order: Index, above: Index, sign: int) -> tuple[Array, Array]:
    """Return the multiplier of each row and what each value receives from below.

    Parameters
    ----------
    slope
        What the rows have to explain, shape (trials, d).
    order, above
        The label of nodes 1 .. d, and the node above each; 0 stands above roots.
    sign
        Of sign·f a value has no more than its parent.

    Notes
    -----
    The row above a value is the only way out of what hangs below: its multiplier is what is left
    of their slopes, or 0 where that has the sign that only a bound explains.
    """
    trials, d = slope.shape
    passed = np.zeros((trials, d))
    received = np.zeros((trials, d))
    for trial in range(trials):
        for node in range(d, 0, -1):
            parent = above[node]
            if parent == 0:
                continue
            label = order[node - 1]
            flow = received[trial, label] - sign * slope[trial, label]
            if flow > 0.0:
                passed[trial, label] = flow
                received[trial, order[parent - 1]] += flow
    return passed, received


@entry()
def chain_prices(slope: Array, f: Array, level: Array, chain: Index) -> tuple[Array, Array, Array]:
    """Return the price of each value, what it may be wrong by, and what the rows cost.

    Parameters
    ----------
    slope, f
        Gradients and points, shape (trials, d).
    level
        The price of the total, shape (trials,).
    chain
        The values from the highest to the lowest.

    Notes
    -----
    A row passes on what is left of the slopes above it, or nothing where that has the sign that
    only a bound explains. Nothing is below the last value.
    """
    trials, d = slope.shape
    price = np.empty((trials, d))
    error = np.empty((trials, d))
    cost = np.zeros(trials)
    for trial in range(trials):
        of_total = level[trial]
        left = 0.0
        received = 0.0
        for place in range(d):
            value = chain[place]
            left += slope[trial, value] - of_total
            passed = 0.0
            if place < d - 1 and left > 0.0:
                passed = left
                drop = f[trial, value] - f[trial, chain[place + 1]]
                if drop > 0.0:
                    cost[trial] += passed * drop
            # What a value passes on, less what it gets from above; and the size of the two.
            price[trial, value] = passed + of_total - received
            error[trial, value] = 8 * EPS * (passed + received + abs(of_total))
            received = passed
    return price, error, cost


@entry()
def tree_multipliers(
    slope: Array, f: Array, is_held: NDArray[np.bool_], order: Index, above: Index
) -> tuple[Array, Array]:
    """Return multipliers of the rows f_v = Σ f_c, and the sum Σ f_c of each node.

    Every child c says what the multiplier of its parent would have to be: its own multiplier minus
    its slope. They agree at a minimum but for rounding, and their mean counts. A child that is held
    at its bound, 0, only says how small the multiplier may not be.
    """
    trials, d = slope.shape
    multipliers = np.zeros((trials, d))
    sums = np.zeros((trials, d))
    wanted = np.zeros(d)
    smallest = np.zeros(d)
    free = np.zeros(d, np.int64)
    held = np.zeros(d, np.int64)
    for trial in range(trials):
        wanted[:] = 0.0
        smallest[:] = -np.inf
        free[:] = 0
        held[:] = 0
        for node in range(d, 0, -1):
            label = order[node - 1]
            multiplier = 0.0
            if free[label] > 0:
                multiplier = wanted[label] / free[label]
            elif held[label] > 0:
                multiplier = smallest[label]
            multipliers[trial, label] = multiplier
            parent = above[node]
            if parent == 0:
                continue
            up = order[parent - 1]
            sums[trial, up] += f[trial, label]
            needed = multiplier - slope[trial, label]
            if is_held[trial, label]:
                held[up] += 1
                smallest[up] = max(smallest[up], needed)
            else:
                free[up] += 1
                wanted[up] += needed
    return multipliers, sums


def lowest_sums(slope: Array, level: Array, nodes: FromAbove, sign: int) -> Array:
    """Return min(0, min Σ (slope - level)) over sets closed upwards in the order, (trials,).

    Parameters
    ----------
    slope
        Shape (trials, d), which is overwritten: long arrays that are new take as long to get as
        the sweep.
    level
        What each value's slope is less, shape (trials,).
    nodes, sign
        The values from above. With sign 1 a set has, with a value, all those above it in its tree,
        and with sign -1 all those below it.
    """
    result = np.empty(len(slope))
    # Long arrays come from numpy, which gets them in larger pages than compiled code. One that
    # nobody writes to takes no time.
    other = np.empty(slope.shape[-1] + 1)
    for trial, of_nodes in enumerate(slope):
        # Before anything is added: sums of branches are known to the last bits of the rest alone.
        of_nodes -= level[trial]
        if not nodes.is_as_numbered:
            _put_in_order(of_nodes, nodes.labels, other)
        if sign > 0:
            result[trial] = _lowest_from_roots(of_nodes, nodes.above)
        else:
            result[trial] = _lowest_from_leaves(of_nodes, nodes.above, other)
    return result


@compiled
def _put_in_order(slope: Array, order: Index, other: Array) -> None:
    """Turn slopes of values into those of nodes, by way of another array."""
    # Of an index of 32 bits numpy would make another one first.
    for place in range(len(slope)):
        other[place] = slope[order[place]]
    slope[:] = other[: len(slope)]


@compiled
def _lowest_from_roots(slope: Array, above: Index) -> float:
    """Return the lowest sum where a value is taken with all those above it; overwrites slopes."""
    # What is taken of the branches below a node is added to its slope. The last branch waits for
    # the next node, which is often the one above it: a sum that is written and read back at once,
    # as along a chain, would take twice as long.
    waiting = 0.0
    target = 0
    of_roots = 0.0
    # Nodes above may be anywhere. Those beyond a block get their sums after it, one at once after
    # the other: the processor then waits for several of them at a time.
    sums = np.empty(_BLOCK)
    places = np.empty(_BLOCK, above.dtype)
    for last in range(len(slope), 0, -_BLOCK):
        before = max(last - _BLOCK, 0)
        count = 0
        for node in range(last, before, -1):
            whole = slope[node - 1]
            if target == node:
                whole += waiting
            elif target > before:
                slope[target - 1] += waiting
            else:
                # Mostly nothing is taken, but nobody can guess when: the next one takes its place.
                sums[count] = waiting
                places[count] = target
                count += waiting != 0.0
            # From the root down a branch is taken or left out.
            waiting = whole if whole < 0.0 else 0.0
            target = above[node]
        for k in range(count):
            if places[k] > 0:
                slope[places[k] - 1] += sums[k]
            else:
                of_roots += sums[k]
    return of_roots + waiting


@compiled
def _lowest_from_leaves(slope: Array, above: Index, best: Array) -> float:
    """Return the lowest sum where a value is taken with all those below it; overwrites both."""
    best[:] = 0.0
    for node in range(len(slope), 0, -1):
        # All of a branch, whose slopes are added to that of its root, or the best of its branches.
        parent = above[node]
        whole = slope[node - 1]
        best[parent] += whole if whole < best[node] else best[node]
        if parent > 0:
            slope[parent - 1] += whole
    return float(best[0])


@entry("slope")
def add_from_above(slope: Array, f: Array, above: Index, is_leaf: NDArray[np.bool_]) -> Array:
    """Turn slopes into their sums from the root to each node; return three numbers of the leaves.

    Parameters
    ----------
    slope, f
        Slopes of the nodes 1 .. d, which are overwritten, and their values: shape (trials, d).
    above
        The place above each node.
    is_leaf
        Which nodes have nothing below them, shape (d,).

    Returns
    -------
    For each trial the lowest sum of slopes, the sum of all of them, and Σ f; shape (trials, 3).
    """
    trials, d = slope.shape
    result = np.empty((trials, 3))
    for trial in range(trials):
        of_node = slope[trial]
        values = f[trial]
        lowest = np.inf
        whole = 0.0
        size = 0.0
        for v in range(d):
            parent = above[v + 1]
            if parent > 0:
                of_node[v] += of_node[parent - 1]
            if is_leaf[v]:
                lowest = of_node[v] if of_node[v] < lowest else lowest
                whole += of_node[v]
                size += values[v]
        result[trial] = (lowest, whole, size)
    return result


@entry()
def moments_of_leaves(slope: Array, f: Array, is_leaf: NDArray[np.bool_], mean: Array) -> Array:
    """Return Σ g, Σ g f and Σ g² over the leaves with slopes above their mean, (trials, 3).

    Parameters
    ----------
    slope, f, is_leaf
        As of ``add_from_above``, after it.
    mean
        The mean slope of the leaves, shape (trials,).
    """
    trials, d = slope.shape
    result = np.empty((trials, 3))
    for trial in range(trials):
        rest = 0.0
        along = 0.0
        squares = 0.0
        for v in range(d):
            if is_leaf[v]:
                beyond = slope[trial, v] - mean[trial]
                rest += beyond
                along += beyond * f[trial, v]
                squares += beyond * beyond
        result[trial] = (rest, along, squares)
    return result


@compiled
def lowest_means(slope: Array, level: Array) -> Array:
    """Return lower bounds of the least mean of slope - level over a beginning of a chain, up to 0.

    Parameters
    ----------
    slope
        The slopes along the chain, shape (trials, d).
    level
        What each is less, shape (trials,).

    Returns
    -------
    One number <= 0 per trial, at most twice the mean itself.
    """
    trials, d = slope.shape
    result = np.empty(trials)
    for trial in range(trials):
        off = level[trial]
        running = 0.0
        lowest = 0.0
        # A division takes longer than all else: past these beginnings there is one per block.
        for k in range(min(_BEGINNING, d)):
            running += slope[trial, k] - off
            lowest = min(lowest, running / (k + 1))
        for start in range(_BEGINNING, d, _BEGINNING):
            block = slope[trial, start : start + _BEGINNING]
            low, added = _lowest_sum(block, off)
            # Of a longer beginning the mean is nearer to 0.
            lowest = min(lowest, (running + low) / start)
            running += added
        # A comparison passes over what is no number, which is no bound.
        result[trial] = lowest if abs(running) < np.inf else -np.inf
    return result


def lowest_around(slope: Array, level: Array, mode: int) -> Array:
    """Return what ``lowest_sums`` does where each value is below its neighbour nearer to a mode.

    Parameters
    ----------
    slope
        Shape (trials, d).
    level
        What each value's slope is less, shape (trials,).
    mode
        The value that is above all others.
    """
    beginnings = [slope[:, :mode][:, ::-1], slope[:, mode + 1 :]]
    sides = [np.array(list(map(_lowest_beginning, side, level))) for side in beginnings]
    return np.asarray(np.minimum(slope[:, mode] - level + sides[0] + sides[1], 0.0))


@compiled
def _lowest_beginning(slope: Array, off: float) -> float:
    """Return min Σ (slope - off) over the beginnings of a chain, the one without values included.

    Minus infinity where a sum is not finite.
    """
    running = 0.0
    lowest = 0.0
    for start in range(0, len(slope), _BEGINNING):
        low, added = _lowest_sum(slope[start : start + _BEGINNING], off)
        lowest = min(lowest, running + low)
        running += added
    return lowest if abs(running) < np.inf else -np.inf


@compiled
def _lowest_sum(slope: Array, off: float) -> tuple[float, float]:
    """Return min Σ (slope - off) over the beginnings of a block, and the sum over all of it."""
    # Four parts take turns: each addition waits for the one before it in its part.
    quarter = len(slope) // 4
    second = slope[quarter:]
    third = slope[2 * quarter :]
    rest = slope[3 * quarter :]
    one = 0.0
    two = 0.0
    three = 0.0
    last = 0.0
    low_one = np.inf
    low_two = np.inf
    low_three = np.inf
    low_last = np.inf
    for k in range(quarter):
        one += slope[k] - off
        two += second[k] - off
        three += third[k] - off
        last += rest[k] - off
        low_one = one if one < low_one else low_one
        low_two = two if two < low_two else low_two
        low_three = three if three < low_three else low_three
        low_last = last if last < low_last else low_last
    for k in range(quarter, len(rest)):
        last += rest[k] - off
        low_last = last if last < low_last else low_last
    of_two = one + two
    of_three = of_two + three
    lowest = min(low_one, one + low_two, of_two + low_three, of_three + low_last)
    return lowest, of_three + last


class Product(NamedTuple):
    """A lower bound of a product over a chain, and what f violates, each of shape (trials,).

    Attributes
    ----------
    bound
        At most min g·s.
    steps
        The largest rise f[k + 1] - f[k] along the chain, at least 0; NaN where a number is.
    outside
        How far a value is below 0 or above its cap.
    """

    bound: Array
    steps: Array
    outside: Array


def smallest_product(slope: Array, f: Array, caps: Array, total: float, enough: Array) -> Product:
    """Return lower bounds of min g·s over 0 <= s <= caps that fall along a chain.

    All vectors are along the chain, the highest value first.

    Parameters
    ----------
    slope, f
        g, and points of which only blocks between 0 and their caps are used, shape (trials, d).
    caps
        Upper bounds, shape (d,).
    total
        Σ s.
    enough
        Bounds from which on no other level is tried, shape (trials,).
    """
    return Product(*_smallest_products(slope, f, caps, total, enough))


@entry()
def _smallest_products(
    slope: Array, f: Array, caps: Array, total: float, enough: Array
) -> tuple[Array, Array, Array]:
    bound = np.empty(len(slope))
    steps = np.empty(len(slope))
    outside = np.empty(len(slope))
    for trial in range(len(slope)):
        given = (slope[trial], f[trial], caps, total, enough[trial])
        # All blocks have one mean at a minimum: mostly a few of them tell it.
        bound[trial], steps[trial], outside[trial] = _product_of(*given, _BEGINNING)
        if bound[trial] < enough[trial]:
            bound[trial] = max(bound[trial], _product_of(*given, len(caps))[0])
    return bound, steps, outside


@compiled
def _product_of(
    slope: Array, f: Array, caps: Array, total: float, enough: float, values: int
) -> tuple[float, float, float]:
    """Return the bound at the level of blocks with so many values, or a better one beside it.

    The violations follow. In the loop over trials itself all this would take twice as long.
    """
    level = _level_of_blocks(slope, f, caps, total, values)
    product, lowest_mean, steps, outside = _product_at(level, slope, f, caps, total)
    if lowest_mean < 0.0 and product < enough:
        other = _product_at(level + lowest_mean, slope, f, caps, total)
        product = max(product, other[0])
    return product, steps, outside


@compiled
def _level_of_blocks(slope: Array, f: Array, caps: Array, total: float, values: int) -> float:
    """Return the mean slope of blocks between 0 and their caps; 0 without such blocks.

    No further blocks are looked at when these have so many values.
    """
    count = 0
    moment = 0.0
    begin = 0
    of_block = 0.0
    cap = total
    # Closed forms put values into a block, and at its cap, but for rounding.
    near = _TIED * total
    d = len(slope)
    for place in range(d):
        cap = caps[place] if caps[place] < cap else cap
        of_block += slope[place]
        height = f[place]
        # The last value of a block has the tightest cap.
        if place == d - 1 or f[place + 1] < height - near:
            if near < height < cap - near:
                count += place + 1 - begin
                moment += of_block
                if count >= values:
                    break
            begin = place + 1
            of_block = 0.0
    return moment / count if count else 0.0


@compiled
def _product_at(
    level: float, slope: Array, f: Array, caps: Array, total: float
) -> tuple[float, float, float, float]:
    """Return the bound at a level, and the lowest mean of g - level over a begin of the chain.

    The violations of ``Product`` follow.
    """
    product = level * total
    cap = total
    running = 0.0
    lowest = 0.0
    lowest_mean = 0.0
    steps = 0.0
    outside = 0.0
    before = np.inf
    for place in range(len(slope)):
        value = f[place]
        # Branches that are hardly ever taken, also where a number is none.
        if value - before > steps or value != value:
            steps = value - before
        left = caps[place] - value
        left = value if value < left else left
        if left < -outside or left != left:
            outside = -left
        before = value
        # What is higher than this cap ends before this value.
        tighter = caps[place] if caps[place] < cap else cap
        product += (cap - tighter) * lowest
        cap = tighter
        running += slope[place] - level
        lowest = running if running < lowest else lowest
        # Hardly ever: a division takes longer than all else here.
        if running < lowest_mean * (place + 1):
            lowest_mean = running / (place + 1)
    return product + cap * lowest, lowest_mean, steps, outside
