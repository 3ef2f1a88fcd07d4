"""Least squares and the weighted MLE on the simplex: one water level, found exactly.

Both solutions are max(f̃ + t, 0) up to a common factor, where t solves Σ max(f̃_v + t, 0) + slope·t = total. With heights
y = f̃ - origin and the level u = t + origin this reads

    Σ max(y_v + u, 0) + slope·u = volume,  volume = total + slope·origin,

increasing and piecewise linear in u: the sum over the k highest values gives u for each k, and the right k is the last
one that is itself above -u. The origin is 0 for estimates of ordinary size, whose low bits then survive, and the highest
value otherwise, so that 0.2 beside 1e17 is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]

_LONG = 1 << 13  # rows longer than this are filtered before they are sorted
_NEWTON_STEPS = (
    40  # random data need about 8; data made to defeat Newton's method are sorted after these
)
_HEAD = 8  # largest values of the sample that bound the head
_SAMPLE = 1 << 11  # values looked at for the guess that the filter starts from


def norm_sub(f: Array, total: float | Array = 1.0) -> Array:
    """Return the point of {f' >= 0, Σ f' = total} nearest to f: max(f + δ, 0) (Norm-Sub; N IV-B, IV-C, Appendix A).

    Parameters
    ----------
    f
        Finite values of shape (..., d); -inf marks values that must be zero.
    total
        The sum to reach, >= 0: a number, or one per vector with shape (..., 1).

    Returns
    -------
    Non-negative values of shape (..., d), equal to the exact projection up to rounding of the largest result.

    Notes
    -----
    Cost: O(d log d) by sorting; for long vectors about three passes over memory and a sort of the few survivors.

    Examples
    --------
    >>> norm_sub(np.array([0.5, 0.2, -0.01])).round(3)
    array([0.603, 0.303, 0.093])
    """
    top = np.max(f, axis=-1, keepdims=True)
    return _raise(f, top, 0.0, np.broadcast_to(np.asarray(total, dtype=np.float64), top.shape))


def mle_apx(f: Array, kappa: float, total: float = 1.0) -> Array:
    """Return the minimiser of Σ (f'_v - f_v)²/(1 + κ f'_v) over the simplex (MLE-Apx; N IV-D, Appendix B, corrected).

    f' = max(f + t, 0)/(1 - κt), where t solves Σ max(f_v + t, 0) + total·κt = total.

    Parameters
    ----------
    f
        Finite values of shape (..., d) with 1 + κ f_v > 0, which estimates from support counts satisfy.
    kappa
        κ > -1, the protocol's ratio b/a.
    total
        The sum to reach, >= 0, with 1 + κ total > 0: always true up to 1.

    Returns
    -------
    Non-negative values of shape (..., d) that sum to ``total``. κ = 0 gives ``norm_sub``. Cost: as ``norm_sub``.

    Raises
    ------
    InvalidInputError
        If 1 + κ f_v <= 0 somewhere, or 1 + κ total <= 0: the model's variance would be negative there.

    Examples
    --------
    >>> mle_apx(np.array([0.5, 0.2, -0.01]), kappa=0.27).round(3)
    array([0.61 , 0.303, 0.087])
    """
    top = np.max(f, axis=-1, keepdims=True)
    check_weighted_domain(f, kappa)
    if not 1 + kappa * total > 0:
        raise InvalidInputError(
            f"the weighted MLE has no closed form for a total of {total:g} with kappa = {kappa:g}: 1 + kappa total must be > 0"
        )
    raised = _raise(f, top, total * kappa, np.full(top.shape, float(total)))
    mass = raised.sum(axis=-1, keepdims=True)  # total·(1 - κt)
    raised *= np.divide(total, mass, out=np.zeros_like(mass), where=mass > 0)
    return raised


def water_filling(share: Array, floor: float, total: float = 1.0) -> Array:
    """Return the maximiser of Σ share_v log(floor + f_v) over {f >= 0, Σf = total}: max(0, share/ν - floor).

    With share = c/n and floor = q/(p - q) this is the exact maximum likelihood estimate from GRR counts (Kairouz, Bonawitz,
    Ramage 2016).

    Parameters
    ----------
    share
        Values >= 0 of shape (..., d), one of them positive.
    floor
        A number > 0.
    total
        The sum to reach, >= 0.

    Notes
    -----
    Cost: a sort. The k values with the largest shares are positive for the largest k with share_k/ν > floor, where
    ν = Σ_k share/(total + k floor).

    Examples
    --------
    >>> water_filling(np.array([0.5, 0.4, 0.1]), floor=0.5).round(3)
    array([0.611, 0.389, 0.   ])
    """
    falling = np.sort(share, axis=-1)[..., ::-1]
    counts = np.arange(1, share.shape[-1] + 1)
    nu = np.cumsum(falling, axis=-1) / (total + counts * floor)
    positive = np.maximum(np.count_nonzero(falling > nu * floor, axis=-1, keepdims=True), 1)
    filled = np.maximum(share / np.take_along_axis(nu, positive - 1, axis=-1) - floor, 0.0)
    mass = filled.sum(axis=-1, keepdims=True)
    filled *= np.divide(total, mass, out=np.zeros_like(mass), where=mass > 0)
    return np.asarray(filled)


def check_weighted_domain(f: Array, kappa: float) -> None:
    """Raise an error unless 1 + κ f_v > 0 everywhere."""
    extreme = f.min() if kappa > 0 else f.max()
    if not 1 + kappa * extreme > 0:
        at = validate.first(~(1 + kappa * f > 0))
        raise InvalidInputError(
            f"the weighted MLE needs 1 + kappa f > 0, found f = {f[at]:g} at {validate.where(at)} with kappa = {kappa:g}: "
            "no support count gives such an estimate; use norm-sub for other vectors"
        )


def _raise(f: Array, top: Array, slope: float, total: Array) -> Array:
    """Return max(f + t, 0) for every vector, t its solution of Σ max(f_v + t, 0) + slope·t = total."""
    origin = np.where(np.abs(top) > total, top, 0.0)
    volume = total + slope * origin
    ceiling = (volume - (top - origin)) / (
        1 + slope
    )  # the level if only the highest value were positive
    if f.shape[-1] > _LONG:
        result = np.zeros(f.shape)
        for row in np.ndindex(f.shape[:-1]):
            index, values = _raise_long(
                f[row], top[row][0], origin[row][0], volume[row][0], ceiling[row][0], slope
            )
            result[(*row, index)] = values
        return result
    with np.errstate(
        over="ignore"
    ):  # a difference of huge numbers may be -inf: never positive anyway
        y = f - origin
    np.maximum(
        y, -ceiling - total, out=y
    )  # zero in any case, rounding included: now the sums are finite
    return _settle(y, _level(y, slope, volume), slope, volume)


def _level(y: Array, slope: float, volume: Array) -> Array:
    """Return the level u of every vector of heights. Sorts."""
    falling = np.sort(y, axis=-1)[..., ::-1]
    counts = np.arange(1, y.shape[-1] + 1)
    levels = (volume - np.cumsum(falling, axis=-1)) / (counts + slope)
    positive = np.maximum(np.count_nonzero(falling + levels > 0, axis=-1, keepdims=True), 1)
    level = np.take_along_axis(levels, positive - 1, axis=-1)
    # A running sum of d terms carries d roundings; one of Newton's steps from there only those of its residual.
    height = np.maximum(y + level, 0.0)
    return np.asarray(level - _newton_step(height, level, slope, volume))


def _settle(y: Array, level: Array, slope: float, volume: Array) -> Array:
    """Return max(y + level, 0) with the sum it should have: the last bit of a level, times d, would show in the sum."""
    height = np.add(y, level, out=y)
    np.maximum(height, 0.0, out=height)
    height -= _newton_step(height, level, slope, volume) * (height > 0)
    return np.maximum(height, 0.0, out=height)


def _newton_step(height: Array, level: Array, slope: float, volume: Array) -> Array:
    """Return by how much Newton's method lowers a level of Σ max(y+u, 0) + slope·u = volume."""
    positive = np.maximum(np.count_nonzero(height, axis=-1, keepdims=True), 1)
    excess = height.sum(axis=-1, keepdims=True) - (volume - slope * level)
    return np.asarray(excess / (positive + slope))


def _dense_level(y: Array, level: float, slope: float, volume: float) -> Array:
    """Return the level of one long vector from a good guess: Newton's method is exact once the positive values stay."""
    guess, goal, positive = np.array([level]), np.array([volume]), -1
    height = np.empty_like(y)
    for _ in range(_NEWTON_STEPS):
        np.maximum(np.add(y, guess, out=height), 0.0, out=height)
        before, positive = positive, int(np.count_nonzero(height))
        if positive == before:
            return guess
        guess = guess - _newton_step(height, guess, slope, goal)
    return _level(y, slope, goal)


def _raise_long(
    f: Array, top: float, origin: float, volume: float, ceiling: float, slope: float
) -> tuple[NDArray[np.intp] | slice, Array]:
    """Return where max(f + t, 0) can be positive for one long vector, and its values there. Does not sort f.

    A level w with Σ max(y+w, 0) + slope·w >= volume is at or above u, so values below -w stay zero. A guess of w comes from
    the head, taken whole, and a sample of the rest whose values stand for many each; the test makes sure. From above,
    Newton's method (Michelot 1986) falls to u and drops more values in every step.
    """
    if top - origin + ceiling <= 0:
        return np.empty(0, dtype=np.intp), np.empty(0)
    with np.errstate(over="ignore"):
        heights = f - origin if origin else f
    sample = np.sort(heights[:: len(f) // _SAMPLE])[::-1]
    cut = sample[_HEAD]
    head, body = np.sort(heights[np.flatnonzero(heights > cut)])[::-1], sample[sample <= cut]
    guess = np.concatenate([head, body])
    weight = np.concatenate([np.ones(len(head)), np.full(len(body), len(f) / len(sample))])
    levels = (volume - np.cumsum(weight * np.maximum(guess, -ceiling))) / (
        np.cumsum(weight) + slope
    )
    positive = int(np.count_nonzero(guess + levels > 0))
    sampled = max(positive - len(head), 0)
    if sampled > len(sample) // 8:  # so many that picking them out costs more than passing over all
        y = np.maximum(heights, -ceiling - (volume - slope * origin))
        return slice(None), _settle(
            y, _dense_level(y, levels[positive - 1], slope, volume), slope, np.array([volume])
        )
    rank = positive + 8 + int(4 * sampled**0.5)  # four standard deviations of a sample's count
    while True:
        level = min(-float(guess[rank]), ceiling) if rank < len(guess) else ceiling
        index = np.flatnonzero(heights > -level)
        y = heights[index]
        if level == ceiling or np.sum(y + level) + slope * level >= volume:
            break
        rank *= 4
    rest = y
    for _ in range(_NEWTON_STEPS):
        level = float(volume - np.sum(rest)) / (len(rest) + slope)
        still = rest[rest > -level]
        if len(still) == len(rest):
            break
        rest = still
    else:
        level = float(_level(rest, slope, np.array([volume]))[0])
    return index, _settle(y, np.array([level]), slope, np.array([volume]))
