"""Violations of long vectors in one reading, compiled. Importing this module imports numba.

A vector here is a row of a table, shape (trials, d), and each function returns one number per row.
A violation is NaN where one of the numbers is, as numpy's largest value is. No function here checks
that an index is inside its vector: callers do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled

Array = NDArray[np.float64]
Index = NDArray[np.integer]

# Values that are added one by one: rounding grows with the length of such a sum.
_BLOCK = 128

# Places of a block in which bounds are compared with values.
_LANES = 256

# Values whose sums per group are added one by one: four sums of up to 128 of each group.
_PART = 512


@compiled
def largest_rises(rows: Array, higher: Index, lower: Index) -> Array:
    """Return by how much values ``lower`` exceed those of ``higher``, at least 0, (trials,).

    Both have an index per pair.
    """
    result = np.empty(len(rows))
    for trial in range(len(rows)):
        row = rows[trial]
        largest = 0.0
        undefined = 0
        for k in range(len(higher)):
            rise = row[lower[k]] - row[higher[k]]
            largest = rise if rise > largest else largest
            undefined += rise != rise
        result[trial] = largest if undefined == 0 else np.nan
    return result


@compiled
def _lowest(row: Array, sign: float) -> float:
    """Return the smallest sign f, or minus infinity where a value is no number."""
    # The lowest of each place in a block: so a processor takes several values at a time.
    lowest = np.full(_LANES, np.inf)
    undefined = np.zeros(_LANES, np.int64)
    for start in range(0, len(row), _LANES):
        count = min(_LANES, len(row) - start)
        values = row[start : start + count]
        for k in range(count):
            so_far = lowest[k]
            value = sign * values[k]
            undefined[k] += value != value
            lowest[k] = value if value < so_far else so_far
    return lowest.min() if undefined.max() == 0 else -np.inf


@compiled
def largest_rises_in_forest(rows: Array, above: Index, sign: float) -> Array:
    """Return by how much sign f of a value exceeds that of the value above, at least 0, (trials,).

    ``above`` has an index for each value, its own for roots.
    """
    result = np.empty(len(rows))
    for trial in range(len(rows)):
        row = rows[trial]
        lowest = _lowest(row, sign)
        # A value that exceeds the lowest by no more than the largest rise so far needs no look at
        # the one above, which may be anywhere. Those are most: of a long vector most values are 0.
        largest = 0.0
        for v in range(len(row)):
            value = sign * row[v]
            if value - lowest <= largest:
                continue
            rise = value - sign * row[above[v]]
            largest = rise if rise > largest else largest
            # Of an infinite root, infinity less itself, it means nothing.
            if rise != rise and above[v] != v:
                largest = np.nan
                break
        result[trial] = largest
    return result


@compiled
def largest_steps(rows: Array, first: int, last: int, sign: float) -> Array:
    """Return the largest step sign (f[k + 1] - f[k]) for first <= k < last, at least 0, (trials,).

    Of neighbours no index is read.
    """
    result = np.empty(len(rows))
    for trial in range(len(rows)):
        # The largest of each place in a block: so a processor takes several values at a time.
        largest = np.zeros(_LANES)
        undefined = np.zeros(_LANES, np.int64)
        for start in range(first, last, _LANES):
            count = min(_LANES, last - start)
            before = rows[trial, start : start + count]
            after = rows[trial, start + 1 : start + 1 + count]
            for k in range(count):
                so_far = largest[k]
                step = sign * (after[k] - before[k])
                largest[k] = step if step > so_far else so_far
                undefined[k] += step != step
        result[trial] = largest.max() if undefined.max() == 0 else np.nan
    return result


@compiled
def farthest_outside(rows: Array, lower: Array, upper: Array) -> Array:
    """Return the largest distance of a value from its bounds, (trials,).

    ``lower`` and ``upper`` have shape (d,), or (1,) for one number.
    """
    # With a step of 0 one number stands for all values.
    lower_step = 1 if len(lower) > 1 else 0
    upper_step = 1 if len(upper) > 1 else 0
    trials, d = rows.shape
    result = np.empty(trials)
    # One number stands for all values of a block.
    low = np.empty(_LANES)
    high = np.empty(_LANES)
    for trial in range(trials):
        # The largest of each place in a block: so a processor takes several values at a time.
        largest = np.zeros(_LANES)
        undefined = np.zeros(_LANES, np.int64)
        for start in range(0, d, _LANES):
            count = min(_LANES, d - start)
            values = rows[trial, start : start + count]
            if start == 0 or lower_step:
                low[:count] = lower[start * lower_step : start * lower_step + count]
            if start == 0 or upper_step:
                high[:count] = upper[start * upper_step : start * upper_step + count]
            for k in range(count):
                so_far = largest[k]
                below = low[k] - values[k]
                above = values[k] - high[k]
                farther = below if below > above else above
                largest[k] = farther if farther > so_far else so_far
                # Infinity from infinity is no number either.
                undefined[k] += (below != below) or (above != above)
        result[trial] = largest.max() if undefined.max() == 0 else np.nan
    return result


@compiled
def largest_differences(rows: Array, parents: Index, sums: Array) -> tuple[Array, Array]:
    """Return the largest difference of a node from the sum of its children, and the sum of roots.

    Parameters
    ----------
    rows
        Vectors, shape (trials, d).
    parents
        The parent of each node, negative for a root, shape (d,).
    sums
        Overwritten, shape (d,). Long arrays come from numpy, which gets them in larger pages: the
        small ones of compiled code would take as long as all else here.
    """
    trials, d = rows.shape
    result = np.empty(trials)
    of_roots = np.zeros(trials)
    for trial in range(trials):
        row = rows[trial]
        # A leaf is its own sum, at no distance from itself even where it is infinite.
        sums[:] = row
        for v in range(d):
            if parents[v] >= 0:
                sums[parents[v]] = 0.0
        for v in range(d):
            if parents[v] >= 0:
                sums[parents[v]] += row[v]
            else:
                of_roots[trial] += row[v]
        largest = 0.0
        undefined = 0
        for v in range(d):
            difference = abs(sums[v] - row[v]) if sums[v] != row[v] else 0.0
            largest = difference if difference > largest else largest
            undefined += difference != difference
        result[trial] = largest if undefined == 0 else np.nan
    return result, of_roots


@compiled
def largest_differences_in_order(rows: Array, parents: Index) -> tuple[Array, Array]:
    """Return what ``largest_differences`` does where the parents of nodes never fall.

    The children of a node are side by side then, and the roots come first: nothing is kept.
    """
    trials, d = rows.shape
    result = np.empty(trials)
    of_roots = np.zeros(trials)
    for trial in range(trials):
        row = rows[trial]
        undefined = 0
        v = 0
        while v < d and parents[v] < 0:
            of_roots[trial] += row[v]
            undefined += row[v] != row[v]
            v += 1
        largest = 0.0
        while v < d:
            parent = parents[v]
            total = 0.0
            while v < d and parents[v] == parent:
                total += row[v]
                v += 1
            difference = abs(total - row[parent]) if total != row[parent] else 0.0
            largest = difference if difference > largest else largest
            undefined += difference != difference
        result[trial] = largest if undefined == 0 else np.nan
    return result, of_roots


@compiled
def largest_misses(rows: Array, members: Index, sizes: Index, totals: Array) -> Array:
    """Return the largest difference of a group's sum from its total, (trials,).

    Parameters
    ----------
    rows
        Vectors, shape (trials, d).
    members, sizes
        The values of all groups, one group after the other, and how many each has.
    totals
        What they should sum to, shape (groups,).
    """
    result = np.empty(len(rows))
    for trial in range(len(rows)):
        row = rows[trial]
        largest = 0.0
        undefined = 0
        first = 0
        for group in range(len(sizes)):
            last = first + sizes[group]
            missed = abs(_sum_of(row, members[first:last]) - totals[group])
            largest = missed if missed > largest else largest
            undefined += missed != missed
            first = last
        result[trial] = largest if undefined == 0 else np.nan
    return result


@compiled
def largest_misses_of_disjoint(rows: Array, group_of_value: Index, totals: Array) -> Array:
    """Return what ``largest_misses`` does for groups that share no value: vectors are read forward.

    ``group_of_value`` has shape (d,), and the number of groups for values in none. Its numbers have
    no sign: compiled code looks at each index that has one, as it may count from the end.
    """
    trials, d = rows.shape
    number = len(totals)
    result = np.empty(trials)
    sums = np.empty(number + 1)
    # What rounding has taken from each sum: the sums of parts are many.
    lost = np.empty(number + 1)
    # Four sums per group take turns: neighbours are often in one group, and a sum that has just
    # been written takes as long to read as four values.
    part = np.zeros((number + 1, 4))
    # To add up the sums of parts takes a quarter of the time in which a part is read.
    length = max(_PART, 16 * number)
    for trial in range(trials):
        row = rows[trial]
        sums[:] = 0.0
        lost[:] = 0.0
        for start in range(0, d, length):
            for v in range(start, min(start + length, d)):
                part[group_of_value[v], v % 4] += row[v]
            for group in range(number + 1):
                of_group = part[group]
                added = (of_group[0] + of_group[1]) + (of_group[2] + of_group[3])
                before = sums[group]
                after = before + added
                kept = after - before
                lost[group] += (before - (after - kept)) + (added - kept)
                sums[group] = after
                of_group[:] = 0.0
        largest = 0.0
        undefined = 0
        for group in range(number):
            size = sums[group] + lost[group] if abs(sums[group]) < np.inf else sums[group]
            missed = abs(size - totals[group])
            largest = missed if missed > largest else largest
            undefined += missed != missed
        result[trial] = largest if undefined == 0 else np.nan
    return result


@compiled
def _sum_of(row: Array, members: Index) -> float:
    """Return the sum of some values in blocks, which are added in pairs as numpy adds them."""
    # Sums of blocks, of twice as many, and so on: as many as there are ones in the count of blocks.
    waiting = np.empty(64)
    depth = 0
    for number in range((len(members) + _BLOCK - 1) // _BLOCK):
        block = members[number * _BLOCK : (number + 1) * _BLOCK]
        part = 0.0
        for k in range(len(block)):
            part += row[block[k]]
        pairs = number + 1
        while pairs % 2 == 0:
            depth -= 1
            part += waiting[depth]
            pairs //= 2
        waiting[depth] = part
        depth += 1
    total = 0.0
    for k in range(depth):
        total += waiting[depth - 1 - k]
    return total
