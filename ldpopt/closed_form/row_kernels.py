"""Water levels and cuts of many vectors, compiled. Importing this module imports numba.

Numpy goes through a stack once per operation, and a stack of five million values does not stay in a
processor's cache. Here each vector is read from memory once, and what is left to do with it is done
while it is in the cache.

Sums are taken in lanes, which a processor adds at the same time: place v of a vector belongs to
lane v mod 64. Their order is thus the same on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry

Array = NDArray[np.float64]

# As many as keep the adders of current processors busy: half of them take 1.5 times as long, and
# more make the end longer.
_LANES = 64
# Newton's method takes 3 or 4 steps on estimates. Data made to defeat it are sorted after these.
_NEWTON_STEPS = 40
# As soon as a step changes the number of positive values by less than this part, the next reading
# of the vector writes the result too, since it is often the last.
_NEAR = 1.0 / 16.0
# A sum this close to what it should be, relative to it, is left: a level's last bit moves it more.
_EXACT = 2.0**-52


@compiled
def _folded(lanes: Array) -> float:
    """Return the sum of the lanes, added in pairs; overwrites them."""
    width = len(lanes) // 2
    while width > 0:
        for k in range(width):
            lanes[k] += lanes[k + width]
        width //= 2
    return float(lanes[0])


@compiled
def _poured(
    row: Array,
    origin: float,
    level: float,
    lanes: Array,
    hits: Array,
) -> tuple[float, float]:
    """Return the sum of the heights y = row - origin that y + level > 0 holds for, and how many."""
    cut = -level
    lanes[:] = 0.0
    hits[:] = 0.0
    for start in range(0, len(row), _LANES):
        values = row[start : start + _LANES]
        # A choice between two numbers compiles to one instruction for several values.
        for k in range(len(values)):
            height = values[k] - origin
            lanes[k] += height if height > cut else 0.0
            hits[k] += 1.0 if height > cut else 0.0
    return _folded(lanes), _folded(hits)


@compiled
def _filled(
    row: Array,
    origin: float,
    level: float,
    result: Array,
    lanes: Array,
    hits: Array,
) -> tuple[float, float]:
    """Write max(row - origin + level, 0) to the result; return its sum and how many are positive.

    The same values are positive, and counted, as in ``_poured``: a sum is 0 only of opposites.
    """
    lanes[:] = 0.0
    hits[:] = 0.0
    for start in range(0, len(row), _LANES):
        values = row[start : start + _LANES]
        depths = result[start : start + _LANES]
        for k in range(len(values)):
            depth = values[k] - origin + level
            depths[k] = depth if depth > 0.0 else 0.0
            lanes[k] += depth if depth > 0.0 else 0.0
            hits[k] += 1.0 if depth > 0.0 else 0.0
    return _folded(lanes), _folded(hits)


@compiled
def _lowered(result: Array, step: float, factor: float) -> None:
    """Lower all positive values by a step, though not below 0, and multiply them by a factor."""
    for v in range(len(result)):
        depth = result[v] - step
        # What was 0 stays 0, also where the step is negative.
        result[v] = depth * factor if (depth > 0.0) & (result[v] > 0.0) else 0.0


@compiled
def _highest(row: Array, lanes: Array) -> float:
    """Return the largest value."""
    lanes[:] = -np.inf
    for start in range(0, len(row), _LANES):
        values = row[start : start + _LANES]
        for k in range(len(values)):
            value = values[k]
            so_far = lanes[k]
            lanes[k] = value if value > so_far else so_far
    return float(lanes.max())


@compiled
def fill_row(
    row: Array,
    origin: float,
    slope: float,
    total: float,
    levels: tuple[float, float],
    guessed: float,
    rescaled: bool,
    result: Array,
) -> bool:
    """Write max(row - origin + u, 0) to the result; return whether its level u was found.

    The sum of what is written, plus slope·u, is total + slope·origin. Newton's steps lower the
    level from above (Michelot 1986).

    Parameters
    ----------
    row
        Values, shape (d,); -inf marks those that stay zero.
    origin, slope, total
        Any number, a number > -1, and a number >= 0.
    levels
        Where the search for u starts, and a level that it is not above.
    guessed
        How many values may be positive at the end, if that is known; -1 if not.
    rescaled
        Whether what is written is multiplied by the factor that makes it sum to the total.
    result
        Where the filled vector goes, shape (d,).
    """
    lanes = np.empty(_LANES)
    hits = np.empty(_LANES)
    volume = total + slope * origin
    level, ceiling = levels
    # A step from below leads above the level, though never above this.
    level = min(level, ceiling)
    before = guessed
    is_near = False
    for _ in range(_NEWTON_STEPS):
        if is_near:
            depth, count = _filled(row, origin, level, result, lanes, hits)
            step = (depth - (volume - slope * level)) / (max(count, 1.0) + slope)
            # The values of each level are among those of a higher one: equal counts, equal sets.
            if count == before:
                # The last bit of a level, times d, would show in the sum.
                is_exact = abs(step) * count <= _EXACT * total
                factor = 1.0
                if rescaled:
                    mass = depth if is_exact else depth - step * count
                    # Without mass there is nothing to scale: the total is then 0.
                    factor = total / mass if mass > 0.0 else 0.0
                if not is_exact or factor != 1.0:
                    _lowered(result, 0.0 if is_exact else step, factor)
                return True
            level -= step
        else:
            height, count = _poured(row, origin, level, lanes, hits)
            is_near = abs(count - before) <= _NEAR * count
            level = (volume - height) / (count + slope) if count > 0.0 else ceiling
        before = count
    return False


@entry("result")
def fill_rows(
    rows: Array,
    slope: float,
    totals: Array,
    rescaled: bool,
    result: Array,
) -> NDArray[np.bool_]:
    """Write max(row + t, 0) of each row to the result, where Σ max(row + t, 0) + slope·t = total.

    Parameters
    ----------
    rows
        Vectors, shape (trials, d); -inf marks values that stay zero.
    slope, totals
        A number > -1; numbers >= 0, shape (trials,).
    rescaled
        Whether each vector is multiplied by the factor that makes it sum to its total.
    result
        Where the filled vectors go, shape (trials, d).

    Returns
    -------
    Which rows have an answer, shape (trials,): the others took too many steps.
    """
    lanes = np.empty(_LANES)
    is_filled = np.empty(len(rows), np.bool_)
    for trial in range(len(rows)):
        row = rows[trial]
        total = totals[trial]
        top = _highest(row, lanes)
        origin = top if abs(top) > total else 0.0
        # The level if the highest value alone were positive: no level is above it.
        ceiling = (total + slope * origin - (top - origin)) / (1.0 + slope)
        # Most vectors are near their answer already: their own level is the first guess.
        levels = (0.0, ceiling)
        filled = result[trial]
        is_filled[trial] = fill_row(row, origin, slope, total, levels, -1.0, rescaled, filled)
    return is_filled


@compiled
def _middle(first: float, second: float, third: float) -> float:
    """Return the middle one of three numbers."""
    low = min(first, second)
    high = max(first, second)
    return max(low, min(high, third))


@compiled
def cut_rows(rows: Array, limit: float, result: Array) -> None:
    """Write each row without its values up to a cut to the result, the others as 0.

    The cut is the largest value that does not fit: the values above it sum to at most the limit,
    and with those equal to it to more. It is 0 where all positive values fit.

    Parameters
    ----------
    rows
        Vectors, shape (trials, d).
    limit
        A number > 0.
    result
        Where the vectors go, shape (trials, d).
    """
    width = rows.shape[1]
    higher = np.empty(width)
    lower = np.empty(width)
    left = np.empty(width)
    for trial in range(len(rows)):
        row = rows[trial]
        count = 0
        for v in range(width):
            # Written in any case, and kept if positive: no branch that a processor must guess.
            left[count] = row[v]
            count += row[v] > 0.0
        cut = 0.0
        # The sum of the values that fit, and are above all that are left.
        fitting = 0.0
        while count > 0:
            pivot = _middle(left[0], left[count // 2], left[count - 1])
            above = 0
            below = 0
            total = 0.0
            for v in range(count):
                value = left[v]
                higher[above] = value
                lower[below] = value
                above += value > pivot
                below += value < pivot
                total += value if value > pivot else 0.0
            with_equals = total + (count - above - below) * pivot
            if fitting + total > limit:
                higher, left = left, higher
                count = above
            elif fitting + with_equals > limit:
                cut = pivot
                break
            else:
                fitting += with_equals
                lower, left = left, lower
                count = below
        kept = result[trial]
        for v in range(width):
            kept[v] = row[v] if row[v] > cut else 0.0
