"""What values of disjoint groups with totals can gain, compiled. Importing this imports numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@compiled
def rises(slope: Array, f: Array, group: Index, totals: Array, caps: Array) -> Array:
    """Return upper bounds of max g·(f - s) over s of the groups, and Σ |g f|, shape (trials, 2).

    Parameters
    ----------
    slope, f
        g and points, shape (trials, d).
    group
        The group of each value, shape (d,); as many as there are groups for values in none, which
        are bounded by 0 and their caps alone.
    totals
        Sums of the groups, shape (groups,).
    caps
        Upper bounds, shape (d,); empty if no value has one.

    Notes
    -----
    Two readings of all: one for the level of each group, one for what each value gains at it.
    """
    result = np.empty((len(slope), 2))
    for trial in range(len(slope)):
        if len(caps):
            result[trial] = _between_bounds(slope[trial], f[trial], group, totals, caps)
        else:
            result[trial] = _without_caps(slope[trial], f[trial], group, totals)
    return result


@compiled
def _without_caps(slope: Array, f: Array, group: Index, totals: Array) -> tuple[float, float]:
    """Return the rise where all of a total goes where the slope of its group is lowest."""
    number = len(totals)
    lowest = np.full(number + 1, np.inf)
    lowest[number] = 0.0
    for v in range(len(f)):
        # A branch that is hardly ever taken: nothing is written, and read back by a neighbour.
        if slope[v] < lowest[group[v]]:
            lowest[group[v]] = slope[v]
    terms = 0.0
    # A value in no group has no end to go to.
    if lowest[number] < 0.0:
        return np.inf, terms
    # Four sums per group take turns, as in ``violation_kernels``.
    sums = np.zeros((number + 1, 4))
    rise = 0.0
    for v in range(len(f)):
        # A lowest slope may be far from 0: taken off first, little cancels.
        rise += (slope[v] - lowest[group[v]]) * f[v]
        sums[group[v], v % 4] += f[v]
        terms += abs(slope[v] * f[v])
    for k in range(number):
        rise += lowest[k] * (sums[k].sum() - totals[k])
    return rise, terms


@compiled
def _between_bounds(
    slope: Array, f: Array, group: Index, totals: Array, caps: Array
) -> tuple[float, float]:
    """Return the rise where each value goes to the end that its slope above the level points to."""
    number = len(totals)
    # Mass, moment and sum of each group side by side: they are in the cache together.
    table = np.zeros((number + 1, 4))
    for v in range(len(f)):
        left = caps[v] - f[v]
        nearer = f[v] if f[v] < left else left
        weight = nearer if nearer > 0.0 else 0.0
        of_group = table[group[v]]
        of_group[0] += weight
        of_group[1] += weight * slope[v]
        of_group[2] += f[v]
    # Values in no group have the level 0, and groups at their bounds may have any.
    level = np.zeros(number + 1)
    rise = 0.0
    for k in range(number):
        mass, moment, size, _ = table[k]
        if mass > 0.0:
            level[k] = moment / mass
        rise += level[k] * (size - totals[k])
    # No value of a group is above its total, which may be less than a cap or take its place.
    ceiling = np.full(number + 1, np.inf)
    ceiling[:number] = totals
    terms = 0.0
    for v in range(len(f)):
        residual = slope[v] - level[group[v]]
        highest = ceiling[group[v]]
        highest = caps[v] if caps[v] < highest else highest
        # A choice of one number from two: a branch would be guessed wrongly half of the time.
        end = 0.0 if residual >= 0.0 else highest
        rise += residual * (f[v] - end)
        terms += abs(slope[v] * f[v])
    return rise, terms
