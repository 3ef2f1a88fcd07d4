"""The passes along an order that bounds with variation take, compiled. Imports numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry, inlined

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@compiled
def running_pulls(residual: Array, signs: Array, limit: Array, pulls: Array) -> None:
    """Write y of all differences, given what is left of the slopes.

    A value between its bounds passes on all that it gets. One at a bound may keep some, so that a
    sum that would leave -ν … ν stays at its end: what another value keeps wrongly is charged.

    Parameters
    ----------
    residual
        Slopes less the price of the total, shape (trials, d).
    signs
        Those of the jumps, 0 for none, shape (trials, d - 1).
    limit
        ν of each trial.
    pulls
        Where the result goes, shape (trials, d - 1).
    """
    for trial in range(len(limit)):
        highest = limit[trial]
        pull = 0.0
        for i in range(signs.shape[1]):
            pull += residual[trial, i]
            pull = min(max(pull, -highest), highest)
            if signs[trial, i] != 0.0:
                pull = signs[trial, i] * highest
            pulls[trial, i] = pull


@entry("slope")
def add_pulls(
    slope: Array, f: Array, price: float, lower: Array, upper: Array, enough: int
) -> None:
    """Add the subgradient of price Σ |f_{i+1} - f_i| that levels the slopes along a chain.

    It is y_{i-1} - y_i for any |y_i| <= price that have the sign of the jump where f jumps. At a
    minimum all values between their bounds have one slope, the level, which is 0 without a total.
    A run of equal values states it: its y cancel but for both ends. Where f does not jump each
    value passes on what it has beyond the level, as far as the price goes. At a lower bound that is
    the largest y that leaves no slope below the level, and at an upper bound the smallest.

    Parameters
    ----------
    slope
        The gradient of the rest of the loss along the chain, shape (trials, m), which is
        overwritten.
    f
        The points along the chain, shape (trials, m).
    price
        What a unit of variation costs.
    lower, upper
        Bounds along the chain, shape (m,), or of no length without bounds.
    enough
        How many values between their bounds tell the level.
    """
    for trial in range(len(f)):
        level = _level(slope[trial], f[trial], price, lower, upper, enough)
        _pass_on(slope[trial], f[trial], price, level)


@compiled
def _level(slope: Array, f: Array, price: float, lower: Array, upper: Array, enough: int) -> float:
    """Return the mean slope of runs between their bounds, at which a minimum has all of them.

    No further runs are looked at when these have as many values as are enough.
    """
    last = len(f) - 1
    moment = 0.0
    count = 0
    # The level is between the means of runs at upper and at lower bounds, which count where there
    # are no others: mostly their slopes are not read.
    highest = -np.inf
    lowest = np.inf
    for is_at_bound in (False, True):
        begin = 0
        before = 0.0
        for i in range(last + 1):
            value = f[i]
            after = 0.0
            if i < last:
                following = f[i + 1]
                if following == value:
                    continue
                after = price if following > value else -price
            is_low = len(lower) > 0 and value <= lower[i]
            is_high = len(upper) > 0 and value >= upper[i]
            if (is_low or is_high) == is_at_bound:
                length = i + 1 - begin
                passed_on = np.sum(slope[begin : i + 1]) + before - after
                if not is_at_bound:
                    moment += passed_on
                    count += length
                    if count >= enough:
                        break
                elif not is_high:
                    lowest = min(lowest, passed_on / length)
                elif not is_low:
                    highest = max(highest, passed_on / length)
            before = after
            begin = i + 1
        if count > 0:
            return moment / count
    return min(max(0.0, highest), lowest)


@compiled
def _pass_on(slope: Array, f: Array, price: float, level: float) -> None:
    """Turn slopes into those with the subgradient in which each value passes on what it has.

    What is passed on at a jump follows from the jump alone. So four parts take turns, each of which
    begins after one: within a part each value waits for the one before it.
    """
    last = len(f) - 1
    starts = np.full(5, last)
    before = np.zeros(4)
    starts[0] = 0
    for part in range(1, 4):
        start = max(part * last // 4, starts[part - 1], 1)
        while start < last and f[start] == f[start - 1]:
            start += 1
        starts[part] = min(start, last)
        before[part] = _passed(0.0, f[start - 1], f[start], price) if start < last else 0.0
    shortest = np.min(starts[1:] - starts[:4])
    second = slope[starts[1] :]
    third = slope[starts[2] :]
    fourth = slope[starts[3] :]
    f_two = f[starts[1] :]
    f_three = f[starts[2] :]
    f_four = f[starts[3] :]
    one = float(before[0])
    two = float(before[1])
    three = float(before[2])
    four = float(before[3])
    for i in range(shortest):
        one = _step(slope, f, i, one, level, price)
        two = _step(second, f_two, i, two, level, price)
        three = _step(third, f_three, i, three, level, price)
        four = _step(fourth, f_four, i, four, level, price)
    # The last value gets what the one before it passes on, whichever part that is in.
    of_last = 0.0
    for part, passed_on in enumerate((one, two, three, four)):
        for i in range(starts[part] + shortest, starts[part + 1]):
            passed_on = _step(slope, f, i, passed_on, level, price)
        if starts[part] < starts[part + 1]:
            of_last = passed_on
    slope[last] += of_last


@inlined
def _step(slope: Array, f: Array, i: int, before: float, level: float, price: float) -> float:
    """Return what a value passes on, and add what it gets less that to its slope."""
    after = _passed(before + (slope[i] - level), f[i], f[i + 1], price)
    slope[i] += before - after
    return after


@inlined
def _passed(beyond: float, value: float, following: float, price: float) -> float:
    """Return what a value passes on of what it has beyond the level."""
    # Choices of one number from two: branches would be guessed wrongly half of the time.
    after = beyond if beyond < price else price
    after = after if after > -price else -price
    # There are few jumps in what a price on them has smoothed.
    if following != value:
        after = price if following > value else -price
    return after
