"""The passes along an order that bounds with variation take, compiled. Imports numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled

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


@compiled
def add_pulls(
    slope: Array, f: Array, chain: Index, price: float, lower: Array, upper: Array
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
        The gradient of the rest of the loss, shape (trials, d), which is overwritten.
    f
        The points, shape (trials, d).
    chain
        The values along which variation is counted.
    price
        What a unit of it costs.
    lower, upper
        Bounds, shape (d,), or of no length without bounds.
    """
    last = len(chain) - 1
    for trial in range(len(f)):
        moment = 0.0
        count = 0
        # The level is between the means of runs at upper and at lower bounds.
        highest = -np.inf
        lowest = np.inf
        size = 0.0
        length = 0
        before = 0.0
        for i in range(last + 1):
            v = chain[i]
            value = f[trial, v]
            size += slope[trial, v]
            length += 1
            after = 0.0
            if i < last:
                following = f[trial, chain[i + 1]]
                if following == value:
                    continue
                after = price if following > value else -price
            is_low = len(lower) > 0 and value <= lower[v]
            is_high = len(upper) > 0 and value >= upper[v]
            passed_on = size + before - after
            if not is_low and not is_high:
                moment += passed_on
                count += length
            elif not is_high:
                lowest = min(lowest, passed_on / length)
            elif not is_low:
                highest = max(highest, passed_on / length)
            before = after
            size = 0.0
            length = 0
        level = moment / count if count > 0 else min(max(0.0, highest), lowest)
        before = 0.0
        for i in range(last + 1):
            v = chain[i]
            after = 0.0
            if i < last:
                after = min(max(before + (slope[trial, v] - level), -price), price)
                step = f[trial, chain[i + 1]] - f[trial, v]
                if step != 0.0:
                    after = price if step > 0 else -price
            slope[trial, v] += before - after
            before = after
