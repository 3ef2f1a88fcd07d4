"""Weighted squares on a box with a total, compiled. Importing this module imports numba.

f_v(μ) = clip(y_v - μ s_v, lower_v, upper_v) with s_v = 1/w_v, and Σ f_v(μ) falls, piecewise
linearly. As in ``row_kernels``, a row is read while it is in the cache, and sums are taken in
lanes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry

Array = NDArray[np.float64]

# As in ``row_kernels``.
_LANES = 64
# Newton's steps on estimates are 5 to 10. Where they would leave the bracket it is halved, which
# takes 60 halvings to the last bit of a multiplier of order 1.
_STEPS = 100
# Of the sum, from which on rounding decides.
_EXACT = 2.0**-51


@compiled
def _total(lanes: Array) -> float:
    """Return the sum of the lanes, added in pairs; overwrites them."""
    width = len(lanes) // 2
    while width > 0:
        for k in range(width):
            lanes[k] += lanes[k + width]
        width //= 2
    return float(lanes[0])


@compiled
def _clipped(
    row: Array,
    mu: float,
    share: Array,
    lower: Array,
    upper: Array,
    sums: Array,
    slopes: Array,
) -> tuple[float, float]:
    """Return Σ f_v(μ), and Σ s_v of the values between their bounds."""
    sums[:] = 0.0
    slopes[:] = 0.0
    for start in range(0, len(row), _LANES):
        values = row[start : start + _LANES]
        part = share[start : start + _LANES]
        lows = lower[start : start + _LANES]
        highs = upper[start : start + _LANES]
        for k in range(len(values)):
            f = values[k] - mu * part[k]
            is_free = (f > lows[k]) & (f < highs[k])
            f = f if f < highs[k] else highs[k]
            f = f if f > lows[k] else lows[k]
            sums[k] += f
            slopes[k] += part[k] if is_free else 0.0
    return _total(sums), _total(slopes)


@compiled
def _multiplier(
    row: Array,
    share: Array,
    lower: Array,
    upper: Array,
    total: float,
    lanes: tuple[Array, Array],
) -> float:
    """Return the multiplier at which one row has its total, by Newton's steps inside a bracket."""
    low = np.inf
    high = -np.inf
    for v in range(len(row)):
        # Below the first every value is at its upper bound, above the second at its lower one.
        low = min(low, (row[v] - upper[v]) / share[v])
        high = max(high, (row[v] - lower[v]) / share[v])
    mu = min(max(0.0, low), high)
    for _ in range(_STEPS):
        mass, slope = _clipped(row, mu, share, lower, upper, lanes[0], lanes[1])
        excess = mass - total
        if abs(excess) <= _EXACT * abs(total):
            break
        if excess > 0.0:
            low = mu
        else:
            high = mu
        ahead = mu + excess / slope
        # Without free values the slope is 0, and the step infinite: outside.
        if not (low < ahead < high):
            ahead = low + (high - low) / 2
        if ahead == mu:
            break
        mu = ahead
    return mu


@compiled
def _mass(f: Array, lanes: Array) -> float:
    """Return the sum of a row."""
    lanes[:] = 0.0
    for start in range(0, len(f), _LANES):
        values = f[start : start + _LANES]
        for k in range(len(values)):
            lanes[k] += values[k]
    return _total(lanes)


@compiled
def _shared(f: Array, lower: Array, upper: Array, rest: float) -> None:
    """Share the rest of the sum among the values that it does not take to a bound."""
    size = abs(rest)
    count = 0
    for v in range(len(f)):
        count += (lower[v] + size < f[v]) & (f[v] + size < upper[v])
    if count == 0:
        return
    part = rest / count
    for v in range(len(f)):
        is_free = (lower[v] + size < f[v]) & (f[v] + size < upper[v])
        f[v] += part if is_free else 0.0


@entry("result")
def clip_rows(
    rows: Array,
    share: Array,
    lower: Array,
    upper: Array,
    total: float,
    result: Array,
) -> Array:
    """Write clip(row - μ s, lower, upper) of each row to the result, with μ where it has its total.

    Parameters
    ----------
    rows
        Vectors, shape (trials, d).
    share, lower, upper
        s > 0 and finite bounds, shape (d,).
    total
        The sum to reach, between the sums of the bounds.
    result
        Where the vectors go, shape (trials, d).

    Returns
    -------
    By how much each sum misses the total, shape (trials,); not finite beyond double precision.
    """
    lanes = (np.empty(_LANES), np.empty(_LANES))
    missed = np.empty(len(rows))
    for trial in range(len(rows)):
        row = rows[trial]
        mu = _multiplier(row, share, lower, upper, total, lanes)
        f = result[trial]
        for v in range(len(row)):
            f[v] = min(max(row[v] - mu * share[v], lower[v]), upper[v])
        # The last bit of the multiplier may be worth more than that of the sum.
        _shared(f, lower, upper, total - _mass(f, lanes[0]))
        missed[trial] = total - _mass(f, lanes[0])
    return missed
