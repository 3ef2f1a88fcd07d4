"""Total variation along chains, value by value, compiled. Importing this module imports numba.

The compiled code is kept on disk where numba finds a place to write: this file is all that it
depends on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, inlined

Array = NDArray[np.float64]


@inlined
def _passed(
    place: Array,
    steeper: Array,
    higher: Array,
    first: int,
    last: int,
    height: float,
    level: float,
) -> tuple[int, float, float]:
    """Return the first knot beyond which the slope exceeds a level, and the line before it."""
    slope = 1.0
    while first <= last and slope * place[first] + height <= level:
        slope += steeper[first]
        height += higher[first]
        first += 1
    return first, slope, height


@compiled
def denoise_rows(rows: Array, price: float) -> Array:
    """Return the minimisers of ½ Σ (f - y)² + price Σ |f_v - f_{v+1}| for rows y (trials, d).

    Going along the chain, the least cost of all values so far is a convex function of the last of
    them, whose slope is linear between knots. The price cuts the slope to -price .. price before
    the next square adds its own: where it cuts is the range that the last value may take beside its
    neighbour. Cuts remove knots at both ends and add one each, so that all of them together take
    linear time. On the way back every value is its neighbour's, moved into that range.
    """
    trials, d = rows.shape
    result = np.empty_like(rows)
    # Knots in the middle of a long array, so that both ends may grow: their places, and by how much
    # the slope's two coefficients change there.
    place = np.empty(2 * d + 2)
    steeper = np.empty(2 * d + 2)
    higher = np.empty(2 * d + 2)
    low = np.empty(d)
    high = np.empty(d)
    for trial in range(trials):
        row = rows[trial]
        total = 0.0
        for v in range(d):
            total += row[v]
        mean = total / d
        spread = 0.0
        for v in range(d):
            spread += abs(row[v] - mean)
        # No sum of the first values is farther from as many means: nothing jumps at such a price,
        # beside which the values themselves would be rounding.
        if price >= spread:
            result[trial] = mean
            continue
        first = d + 1
        last = d
        for v in range(d - 1):
            # Left of all knots the slope is t - y - price, and right of them t - y + price; before
            # the first value nothing was cut.
            cut = price if v > 0 else 0.0
            height = -float(row[v]) - cut
            first, slope, height = _passed(place, steeper, higher, first, last, height, -price)
            low[v] = (-price - height) / slope
            first -= 1
            place[first] = low[v]
            steeper[first] = slope
            higher[first] = height + price
            slope = 1.0
            height = -float(row[v]) + cut
            while first < last and slope * place[last] + height >= price:
                slope -= float(steeper[last])
                height -= float(higher[last])
                last -= 1
            high[v] = (price - height) / slope
            last += 1
            place[last] = high[v]
            steeper[last] = -slope
            higher[last] = price - height
        cut = price if d > 1 else 0.0
        height = -float(row[d - 1]) - cut
        _, slope, height = _passed(place, steeper, higher, first, last, height, 0.0)
        result[trial, d - 1] = -height / slope
        for v in range(d - 2, -1, -1):
            result[trial, v] = min(max(result[trial, v + 1], low[v]), high[v])
    return result
