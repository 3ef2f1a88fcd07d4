"""The passes from the leaves of an order to its roots, compiled. Importing it imports numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry, inlined

Array = NDArray[np.float64]
Index = NDArray[np.integer]


@entry()
def flows_to_mode(
    slope: Array, f: Array, lower: Array, upper: Array, level: Array, modulus: float, mode: int
) -> Array:
    """Return what ``flows_to_roots`` does where each value is below its neighbour nearer to a mode.

    Parameters
    ----------
    slope, f, lower, upper, level, modulus
        As there.
    mode
        The value that is above all others: 0 in a chain as it is numbered.
    """
    trials, d = f.shape
    result = np.empty((trials, 3))
    for trial in range(trials):
        of_trial = (slope[trial], f[trial], lower, level[trial], modulus)
        left_gap, left_terms, left_rises, from_left = _along(*of_trial, 0, mode, 1)
        gap, terms, rises, from_right = _along(*of_trial, d - 1, mode, -1)
        left = slope[trial, mode] - level[trial] - from_left - from_right
        gap += left_gap + _at_root(left, f[trial, mode], lower, upper, mode, modulus)
        result[trial, 0] = gap
        result[trial, 1] = terms + left_terms + abs(slope[trial, mode] * f[trial, mode])
        result[trial, 2] = max(rises, left_rises)
    return result


@compiled
def _along(
    slope: Array,
    f: Array,
    lower: Array,
    level: float,
    modulus: float,
    first: int,
    mode: int,
    towards: int,
) -> tuple[float, float, float, float]:
    """Return the sums over the values on one side of a mode, and what they pass on to it."""
    per_modulus = 1.0 / modulus
    half = modulus / 2
    gap = 0.0
    terms = 0.0
    rises = 0.0
    passed = 0.0
    value = f[first]
    for k in range(abs(mode - first)):
        v = first + k * towards
        following = f[v + towards]
        of_value = slope[v]
        terms += abs(of_value * value)
        drop = following - value
        # Choices of one number from two: branches would be guessed wrongly half of the time.
        rises = -drop if -drop > rises else rises
        lacks = passed - (of_value - level)
        passed = lacks if lacks > 0.0 else 0.0
        gap += passed * drop + _gain(passed - lacks, value, lower, v, per_modulus, half)
        value = following
    return gap, terms, rises, passed


@entry("received")
def flows_to_roots(
    slope: Array,
    f: Array,
    lower: Array,
    upper: Array,
    level: Array,
    modulus: float,
    labels: Index,
    above: Index,
    received: Array,
) -> Array:
    """Return the bound of ``order_gap`` but for the total, Σ |g_v f_v|, and the largest rise.

    Parameters
    ----------
    slope, f
        Gradients and points, shape (trials, d), which are finite.
    lower, upper
        Bounds, shape (d,), or of no length without bounds.
    level
        The price of the total, shape (trials,).
    modulus
        The smallest second derivative of the loss, 0 or a number whose inverse is a double.
    labels, above
        The value at each of the places 1 .. d, and the place above each; 0 is above roots. Each
        place comes after the one above it. No value is higher than the one above it.
    received
        Zeros, shape (d + 1,), which are zeros again in the end.

    Returns
    -------
    Shape (trials, 3). A rise f_v - f_above is a violation of the order. Without a modulus the bound
    is no finite number where a value has no bound.
    """
    trials, d = f.shape
    result = np.empty((trials, 3))
    per_modulus = 1.0 / modulus
    half = modulus / 2
    for trial in range(trials):
        off = level[trial]
        gap = 0.0
        terms = 0.0
        rises = 0.0
        for place in range(d, 0, -1):
            v = labels[place - 1]
            value = f[trial, v]
            of_value = slope[trial, v]
            terms += abs(of_value * value)
            lacks = received[place] - (of_value - off)
            received[place] = 0.0
            target = above[place]
            if target == 0:
                gap += _at_root(-lacks, value, lower, upper, v, modulus)
                continue
            drop = f[trial, labels[target - 1]] - value
            rises = -drop if -drop > rises else rises
            passed = lacks if lacks > 0.0 else 0.0
            received[target] += passed
            gap += passed * drop + _gain(passed - lacks, value, lower, v, per_modulus, half)
        result[trial, 0] = gap
        result[trial, 1] = terms
        result[trial, 2] = rises
    return result


@inlined
def _gain(
    left: float, value: float, lower: Array, v: int, per_modulus: float, half: float
) -> float:
    """Return what ``_at_root`` does for left >= 0, which no upper bound stops."""
    step = left * per_modulus
    if len(lower) > 0:
        distance = value - lower[v]
        step = step if step < distance else distance
    return step * (left - half * step)


@compiled
def _at_root(
    left: float, value: float, lower: Array, upper: Array, v: int, modulus: float
) -> float:
    """Return max left (f_v - s) - m/2 (f_v - s)² over s between the bounds of a value."""
    # 0/0 where nothing is left and there is no modulus: then any step is as good.
    step = left / modulus
    if len(lower) > 0:
        distance = value - lower[v]
        step = step if step < distance else distance
    if len(upper) > 0:
        distance = value - upper[v]
        step = step if step > distance else distance
    return step * (left - modulus / 2 * step)
