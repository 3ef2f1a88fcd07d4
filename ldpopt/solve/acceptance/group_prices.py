"""What values of disjoint groups with totals can gain, compiled. Importing this imports numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry

Array = NDArray[np.float64]
# Without a sign: compiled code looks at each index that has one, as it may count from the end.
Index = NDArray[np.uint64]

# Places of a block in which values are compared with their bounds.
_LANES = 256

# Numbers that a processor's cache takes from memory at once.
_PER_LINE = 8


@entry()
def rises(
    slope: Array, f: Array, group: Index, totals: Array, stated: int, caps: Array
) -> tuple[Array, Array, Array]:
    """Return upper bounds of max g·(f - s) over s of the groups, and what f violates, (trials,).

    These are the largest missed total, and how far a value is below 0 or above its cap.

    Parameters
    ----------
    slope, f
        g and points, shape (trials, d).
    group
        The group of each value, shape (d,); as many as there are groups for values in none, which
        are bounded by 0 and their caps alone.
    totals
        Sums of the groups, shape (groups,).
    stated
        How many of them, from the first on, count as missed.
    caps
        Upper bounds, shape (d,); empty if no value has one.

    Notes
    -----
    Two readings of all: one for the level of each group, one for what each value gains at it.
    """
    result = np.empty(len(slope))
    missed = np.empty(len(slope))
    outside = np.empty(len(slope))
    for trial in range(len(slope)):
        # Four sums per group take turns, as in ``violation_kernels``.
        sums = np.zeros((len(totals) + 1, 4))
        if len(caps):
            ends = (totals, caps)
            rise, level, beyond = _between_bounds(slope[trial], f[trial], group, ends, sums)
        else:
            rise, level, beyond = _without_caps(slope[trial], f[trial], group, len(totals), sums)
        largest = 0.0
        undefined = 0
        for k in range(len(totals)):
            excess = sums[k].sum() - totals[k]
            rise += level[k] * excess
            if k < stated:
                largest = abs(excess) if abs(excess) > largest else largest
                undefined += excess != excess
        result[trial] = rise
        missed[trial] = largest if undefined == 0 else np.nan
        outside[trial] = beyond
    return result, missed, outside


@compiled
def _without_caps(
    slope: Array, f: Array, group: Index, number: int, sums: Array
) -> tuple[float, Array, float]:
    """Return the rise where all of a total goes where the slope of its group is lowest.

    The rise is without what the sums are off their totals, at these slopes, which are returned too,
    with how far a value is below 0.
    """
    lowest = np.full(number + 1, np.inf)
    lowest[number] = 0.0
    below = 0.0
    for v in range(len(f)):
        below = _farther(f[v], below)
        # A branch that is hardly ever taken: nothing is written, and read back by a neighbour.
        if slope[v] < lowest[group[v]]:
            lowest[group[v]] = slope[v]
    # A value in no group has no end to go to.
    rise = np.inf if lowest[number] < 0.0 else 0.0
    for v in range(len(f)):
        # A lowest slope may be far from 0: taken off first, little cancels.
        rise += (slope[v] - lowest[group[v]]) * f[v]
        sums[group[v], v % 4] += f[v]
    return rise, lowest, below


@compiled
def _farther(left: float, outside: float) -> float:
    """Return how far outside values are, given what one more has left to its nearer bound."""
    # Hardly ever taken. What is no number stays.
    if left < -outside or left != left:
        return -left
    return outside


@compiled
def _between_bounds(
    slope: Array, f: Array, group: Index, ends: tuple[Array, Array], sums: Array
) -> tuple[float, Array, float]:
    """Return the rise where each value goes to the end that its slope above the level points to.

    It is without what the sums are off their totals, at the levels, which are returned too, with
    how far a value is below 0 or above its cap. ``ends`` are the totals and the caps.
    """
    totals, caps = ends
    number = len(totals)
    level, outside = _levels(slope, f, group, number, caps)
    # No value of a group is above its total, which may be less than a cap or take its place.
    ceiling = np.full(number + 1, np.inf)
    ceiling[:number] = totals
    rise = 0.0
    ahead = 0.0
    for v in range(len(f)):
        k = group[v]
        residual = slope[v] - level[k]
        # Few caps count, and the processor would wait for each of these. One per line of its cache
        # is read in order, so that it fetches them ahead.
        if v % _PER_LINE == 0:
            ahead += caps[v]
        # Mostly most values are 0 and stay there.
        if f[v] == 0.0 and residual >= 0.0:
            continue
        highest = caps[v] if caps[v] < ceiling[k] else ceiling[k]
        # A choice of one number from two: a branch would be guessed wrongly half of the time.
        end = 0.0 if residual >= 0.0 else highest
        rise += residual * (f[v] - end)
        sums[k, v % 4] += f[v]
    # Without a use the compiler would leave the reads out. Caps are numbers, and so is their sum.
    return rise if ahead == ahead else np.nan, level, outside


@compiled
def _levels(slope: Array, f: Array, group: Index, number: int, caps: Array) -> tuple[Array, float]:
    """Return the mean slope of each group, and how far outside its bounds a value is.

    Slopes are weighted by the distance to the nearer bound. Values in no group have the level 0,
    and groups at their bounds may have any.
    """
    # Mass and moment of each group side by side: they are in the cache together.
    table = np.zeros((number + 1, 2))
    weights = np.empty(_LANES)
    # The farthest of each place in a block: so a processor takes several values at a time.
    farthest = np.zeros(_LANES)
    undefined = np.zeros(_LANES, np.int64)
    for start in range(0, len(f), _LANES):
        count = min(_LANES, len(f) - start)
        values = f[start : start + count]
        tops = caps[start : start + count]
        for k in range(count):
            so_far = farthest[k]
            value = values[k]
            left = tops[k] - value
            left = value if value < left else left
            weights[k] = left
            farthest[k] = -left if -left > so_far else so_far
            undefined[k] += left != left
        for k in range(count):
            # Mostly most values of a long vector are at a bound: of these nothing else is read.
            if weights[k] > 0.0:
                v = start + k
                of_group = table[group[v]]
                of_group[0] += weights[k]
                of_group[1] += weights[k] * slope[v]
    level = np.zeros(number + 1)
    for k in range(number):
        mass, moment = table[k]
        if mass > 0.0:
            level[k] = moment / mass
    return level, farthest.max() if undefined.max() == 0 else np.nan
