"""One water level, found exactly: max(f + t, 0) where t solves Σ max(f_v + t, 0) + slope·t = total.

With heights y = f - origin and the level u = t + origin this reads

    Σ max(y_v + u, 0) + slope·u = volume,  volume = total + slope·origin,

increasing and piecewise linear in u. The sum over the k highest values gives u for each k, and the
right k is the last one whose value is itself above -u. The origin is 0 for estimates of ordinary
size, whose low bits then survive, and the highest value otherwise, so that 0.2 beside 1e17 is
exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import (
    LARGE,
    counts,
    falling,
    highest,
    locked_rows,
    locked_vector,
    lowest,
    sums,
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]

# Rows longer than this are filtered before they are sorted: below it the sort is as fast.
_LONG = 1 << 13
# Random data need about 8 steps. Data made to defeat Newton's method are sorted after these.
_NEWTON_STEPS = 40
# A sum this close to what it should be, relative to it, is left as it is.
_EXACT = float(np.finfo(np.float64).eps)
# The largest values of the sample, which bound the head of the whole vector.
_HEAD = 8
# Size of the sample whose level is the guess from which the filter starts. Half of it would leave
# a third more candidates, and to pick them out is the dearest step; twice as much costs more to
# sort than it saves.
_SAMPLE = 1 << 12
# From this share of positive values in the sample on (one in 8), picking them out costs more than
# passing over all values.
_DENSE = 8
# Ranks below the last positive value of the sample at which the filter starts, besides four
# standard deviations of the count: without a margin a small sample would often start too high.
_MARGIN = 8
# By how much the rank grows when the filter has started too high.
_WIDEN = 4


def fill_to_level(
    f: Array,
    slope: float,
    total: float | Array,
    *,
    rescaled: bool = False,
) -> Array:
    """Return max(f + t, 0) for every vector, where t solves Σ max(f_v + t, 0) + slope·t = total.

    Parameters
    ----------
    f
        Values of shape (..., d); -inf marks values that stay zero.
    slope
        A number > -1.
    total
        A number >= 0, or one per vector with shape (..., 1).
    rescaled
        Whether each vector is then multiplied by the factor that makes it sum to its total.

    Notes
    -----
    Cost: O(d log d) by sorting; for long vectors about three passes over memory and a sort of the
    few values that may be positive; for large stacks one pass, compiled.
    """
    if f.ndim == 1 and len(f) <= _LONG:
        number = total.item() if isinstance(total, np.ndarray) else total
        filled = _fill_vector(f, slope, number)
        return rescaled_to(number, filled) if rescaled else filled
    if f.size > LARGE and f.shape[-1] <= _LONG:
        return _fill_stack(f, slope, total, rescaled=rescaled)
    top = highest(f)
    is_large = np.abs(top) > total
    origin = np.where(is_large, top, 0.0)
    volume = total + slope * origin
    # The level if only the highest value were positive: no level is above it.
    ceiling = (volume - (top - origin)) / (1 + slope)
    if f.shape[-1] > _LONG:
        equations = (origin, volume, ceiling, np.asarray(total))
        return _fill_each(f, top, slope, equations, rescaled=rescaled)
    # What lies below this is zero in any case, rounding included; from here on sums are finite.
    floor = -ceiling - total
    if is_large.any():
        # A difference of huge numbers may be -inf, which is never positive anyway.
        with np.errstate(over="ignore"):
            heights = np.maximum(f - origin, floor)
    else:
        heights = np.maximum(f, floor)
    level = _sorted_level(heights, slope, volume)
    filled = _settle(heights, level, slope, volume)
    return rescaled_to(total, filled) if rescaled else filled


def rescaled_to(total: float | Array, f: Array) -> Array:
    """Return every vector f >= 0 times the factor that makes it sum to the total; changes f."""
    mass = sums(f)
    # Without mass there is nothing to scale: the total is then 0.
    if f.ndim == 1:
        f *= total / mass if mass > 0 else 0.0
        return f
    zeros = np.zeros_like(mass)
    f *= np.divide(total, mass, out=zeros, where=mass > 0)
    return f


def _fill_vector(f: Array, slope: float, total: float) -> Array:
    """Return one short vector filled: what a stack's are, by fewer calls and without its axes.

    A call takes as long as arithmetic on a thousand values, and numbers of Python a tenth of
    numpy's. Newton's steps, which lower the level from above and drop values (Michelot 1986), are
    four on estimates and take half the time of a sort.
    """
    highest = float(np.maximum.reduce(f))
    volume = total
    if abs(highest) > total:
        # A difference of huge numbers may be -inf, which is never positive anyway.
        with np.errstate(over="ignore"):
            f = f - highest
        volume += slope * highest
        highest = 0.0
    # The level if only the highest value were positive: no level is above it.
    ceiling = (volume - highest) / (1 + slope)
    # Most vectors are near their answer already.
    level = min(0.0, ceiling)
    left = f
    before = -1
    for _ in range(_NEWTON_STEPS):
        kept = left[left > -level]
        positive = len(kept)
        # The values of each level are among those of a higher one: equal counts are equal sets.
        if positive == before:
            break
        previous = level
        poured = volume - float(np.add.reduce(kept))
        level = poured / (positive + slope) if positive else ceiling
        # A step from below leads above the level, where values come back.
        left = kept if level <= previous else f
        before = positive
    else:
        heights = np.maximum(f, -ceiling - total)
        wanted = np.asarray(volume)
        return _settle(heights, _sorted_level(heights, slope, wanted), slope, wanted)
    return _settled(f + level, max(positive, 1) + slope, volume - slope * level)


def _settled(depth: Array, positive: float, wanted: float) -> Array:
    """Return max(depth, 0) with the wanted sum; overwrites the depth.

    ``positive`` is how many values are positive, plus the slope of the equation.
    """
    np.maximum(depth, 0.0, out=depth)
    excess = float(np.add.reduce(depth)) - wanted
    # The last bit of a level, times d, would show in the sum.
    if abs(excess) > _EXACT * abs(wanted):
        depth -= excess / positive * (depth > 0)
        np.maximum(depth, 0.0, out=depth)
    return depth


def _fill_stack(f: Array, slope: float, total: float | Array, *, rescaled: bool) -> Array:
    """Return every vector of a large stack of short ones filled."""
    from ldpopt.closed_form.row_kernels import fill_rows  # imports numba

    trials = f.shape[:-1]
    rows = locked_rows(f)
    totals = np.broadcast_to(np.asarray(total, dtype=np.float64), (*trials, 1)).reshape(-1)
    result = np.empty(rows.shape)
    is_filled = fill_rows(rows, slope, np.ascontiguousarray(totals), rescaled, result)
    # Vectors made to defeat Newton's method are sorted, one after the other: there are few.
    for trial in np.flatnonzero(~is_filled):
        wanted = float(totals[trial])
        filled = _fill_vector(rows[trial], slope, wanted)
        result[trial] = rescaled_to(wanted, filled) if rescaled else filled
    return result.reshape(f.shape)


def _sorted_level(heights: Array, slope: float, volume: Array) -> Array:
    """Return the level of every vector of heights, by sorting it."""
    ordered = falling(heights)
    ranks = np.arange(1, heights.shape[-1] + 1)
    # In place: on many vectors fresh memory costs more than arithmetic.
    levels = volume - ordered.cumsum(axis=-1)
    levels /= ranks + slope
    # The left side is the largest of the lines that the k highest values alone give, so that none
    # of their levels lies below the right one, and one of them meets it.
    level = lowest(levels)
    # A running sum of d terms carries d roundings, a Newton step from there only its residual's.
    depth = np.maximum(heights + level, 0.0)
    step = _newton_step(depth, depth > 0, level, slope, volume)
    return level - step


def _newton_step(
    depth: Array,
    filled: NDArray[np.bool_],
    level: Array,
    slope: float,
    volume: Array,
) -> Array:
    """Return by how much Newton's method lowers the level.

    ``depth`` is max(heights + level, 0), and ``filled`` states where it is positive.
    """
    positive = np.maximum(counts(filled), 1)
    wanted = volume - slope * level
    excess = sums(depth) - wanted
    step: Array = excess / (positive + slope)
    return step


def _settle(
    heights: Array,
    level: Array,
    slope: float,
    volume: Array,
) -> Array:
    """Return max(heights + level, 0) with the sum that it should have; overwrites the heights.

    The last bit of a level, times d, would show in the sum.
    """
    depth = np.add(heights, level, out=heights)
    np.maximum(depth, 0.0, out=depth)
    filled = depth > 0
    step = _newton_step(depth, filled, level, slope, volume)
    depth -= step * filled
    return np.maximum(depth, 0.0, out=depth)


# --- long vectors: filtered, not sorted -----------------------------------------------------------


class _Vessel(NamedTuple):
    """One long vector and the equation of its level; ``volume`` has shape (1,).

    ``rescaled`` states whether the filled vector is then to sum to the total.
    """

    values: Array
    top: float
    origin: float
    slope: float
    volume: Array
    total: float
    rescaled: bool


class _Guess(NamedTuple):
    """The level that a sample suggests, and how far down it looks.

    ``heights`` are sampled heights, the highest first, ``levels`` the level if the values of each
    height and above were positive, ``positive`` how many of them are, and ``sampled`` how many of
    those stand for others too.
    """

    heights: Array
    levels: Array
    positive: int
    sampled: int
    sample_size: int


def _fill_each(
    f: Array,
    top: Array,
    slope: float,
    equations: tuple[Array, Array, Array, Array],
    *,
    rescaled: bool,
) -> Array:
    """Return every vector of a stack of long ones filled, one after the other.

    The equations are origins, volumes, ceilings and totals: numbers or arrays of shape (..., 1).
    """
    trials = f.shape[:-1]
    tops = np.reshape(top, trials)
    # One total may stand for all vectors of a stack.
    whole = [np.broadcast_to(part, (*trials, 1)) for part in equations]
    origins, volumes, ceilings, totals = whole

    def fill(trial: tuple[int, ...]) -> Array:
        origin, ceiling, total = (float(part[trial][0]) for part in (origins, ceilings, totals))
        top = float(tops[trial])
        vessel = _Vessel(f[trial], top, origin, slope, volumes[trial], total, rescaled)
        return _filled_vector(vessel, ceiling)

    if not trials:
        return fill(trials)
    result = np.empty(f.shape)
    for trial in np.ndindex(trials):
        result[trial] = fill(trial)
    return result


def _filled_vector(vessel: _Vessel, ceiling: float) -> Array:
    """Return one long vector filled."""
    index, filled = _fill_long(vessel, ceiling)
    if isinstance(index, slice):
        return filled
    # Allocated last: fresh memory costs more than arithmetic, and by now the memory of the search
    # is free again.
    result = np.zeros(len(vessel.values))
    result[index] = filled
    return result


def _fill_long(vessel: _Vessel, ceiling: float) -> tuple[Index | slice, Array]:
    """Return where one long vector can be positive, and its values there.

    A level w with Σ max(y+w, 0) + slope·w >= volume is at or above u, so values below -w stay
    zero. A guess of w comes from a sample; a test makes sure, and lowers the guess if need be.
    """
    highest = vessel.top - vessel.origin
    if highest + ceiling <= 0:
        return np.empty(0, dtype=np.intp), np.empty(0)
    with np.errstate(over="ignore"):
        heights = vessel.values - vessel.origin if vessel.origin else vessel.values
    guess = _guess(heights, ceiling, vessel.slope, vessel.volume)
    is_dense = guess.sampled > guess.sample_size // _DENSE
    # Compiled, passing over all values is always cheaper than picking out what the sample shows.
    if is_dense or (guess.sampled and len(heights) > LARGE):
        return slice(None), _fill_dense(heights, guess, ceiling, vessel)
    index, candidates = _candidates(heights, guess, ceiling, vessel)
    level = _level_from_above(candidates, vessel.slope, vessel.volume)
    filled = _settle(candidates, level, vessel.slope, vessel.volume)
    return index, rescaled_to(vessel.total, filled) if vessel.rescaled else filled


def _guess(
    heights: Array,
    ceiling: float,
    slope: float,
    volume: Array,
) -> _Guess:
    """Return a level from the head, taken whole, and a sample of the rest.

    Each value of the sample stands for many others. A few huge values would distort the guess, so
    that every value above the sample's ninth highest is examined.
    """
    stride = len(heights) // _SAMPLE
    sample = falling(heights[::stride])
    cut = sample[_HEAD]
    above_cut = np.flatnonzero(heights > cut)
    head = falling(heights[above_cut])
    body = sample[sample <= cut]
    guessed = np.concatenate([head, body])
    # A value of the head stands for itself, one of the sample for many.
    of_head = np.ones(len(head))
    of_body = np.full(len(body), len(heights) / len(sample))
    weight = np.concatenate([of_head, of_body])
    # Heights below -ceiling are never positive; as they are, -inf among them, sums would overflow.
    finite = np.maximum(guessed, -ceiling)
    poured = volume - np.cumsum(weight * finite)
    levels = poured / (np.cumsum(weight) + slope)
    positive = int(np.count_nonzero(guessed + levels > 0))
    sampled = max(positive - len(head), 0)
    return _Guess(guessed, levels, positive, sampled, len(sample))


def _fill_dense(
    heights: Array,
    guess: _Guess,
    ceiling: float,
    vessel: _Vessel,
) -> Array:
    """Return the filled values of a long vector, many of which are positive.

    From a good guess Newton's method is exact once the set of positive values stays the same. Of
    the longest vectors it is compiled.
    """
    slope = vessel.slope
    volume = vessel.volume
    guessed = guess.levels[guess.positive - 1]
    if len(heights) > LARGE:
        from ldpopt.closed_form.row_kernels import fill_row  # imports numba

        result = np.empty(len(heights))
        row = locked_vector(vessel.values)
        levels = (float(guessed), ceiling)
        # Of the sample each value stands for many, of the head for itself.
        stands_for = len(heights) / guess.sample_size
        positive = guess.positive - guess.sampled + guess.sampled * stands_for
        origin = vessel.origin
        total = vessel.total
        if fill_row(row, origin, slope, total, levels, positive, vessel.rescaled, result):
            return result
    heights = np.maximum(heights, -ceiling - vessel.total)
    level = np.array([guessed])
    depth = np.empty_like(heights)
    positive = -1
    for _ in range(_NEWTON_STEPS):
        np.add(heights, level, out=depth)
        np.maximum(depth, 0.0, out=depth)
        before = positive
        positive = int(np.count_nonzero(depth))
        if positive == before:
            break
        level = level - _newton_step(depth, depth > 0, level, slope, volume)
    else:
        level = _sorted_level(heights, slope, volume)
    filled = _settle(heights, level, slope, volume)
    return rescaled_to(vessel.total, filled) if vessel.rescaled else filled


def _candidates(
    heights: Array,
    guess: _Guess,
    ceiling: float,
    vessel: _Vessel,
) -> tuple[Index, Array]:
    """Return indices and heights of all values that may be positive, and of few others."""
    guessed = guess.heights
    # Four standard deviations of a count beyond the guess: rarely is more than one pass needed.
    deviation = int(4 * guess.sampled**0.5)
    rank = guess.positive + _MARGIN + deviation
    while True:
        level = ceiling
        if rank < len(guessed):
            level = min(-float(guessed[rank]), ceiling)
        index = np.flatnonzero(heights > -level)
        candidates = heights[index]
        poured = np.sum(candidates + level) + vessel.slope * level
        if level == ceiling or poured >= vessel.volume[0]:
            return index, candidates
        rank *= _WIDEN


def _level_from_above(heights: Array, slope: float, volume: Array) -> Array:
    """Return the level of heights among which are all that end up positive.

    Newton's method from above (Michelot 1986): every step lowers the level and drops more values.
    """
    left = heights
    for _ in range(_NEWTON_STEPS):
        poured = volume - np.sum(left)
        level = poured / (len(left) + slope)
        above = left[left > -level]
        if len(above) == len(left):
            return np.asarray(level)
        left = above
    return _sorted_level(left, slope, volume)
