"""Least squares and the weighted MLE on the simplex: one water level, found exactly.

Both solutions are max(f̃ + t, 0) up to a common factor, where t solves Σ max(f̃_v + t, 0) + slope·t = total. With depths
y = f̃ - max f̃ <= 0 and the level u = t + max f̃ this reads

    Σ max(y_v + u, 0) + slope·u = volume,

increasing and piecewise linear in u: the sum over the k highest values gives u for each k, and the right k is the last
one that is itself under water. Measuring depths from the maximum keeps 0.2 beside 1e17 exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]

_LONG = 1 << 13  # rows longer than this are filtered before they are sorted
_NEWTON_STEPS = 40  # random data need about 8; data made to defeat Newton's method are sorted after these
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
    return _drain(f, top, slope=0.0, volume=np.broadcast_to(np.asarray(total, dtype=np.float64), top.shape))


def mle_apx(f: Array, kappa: float) -> Array:
    """Return the minimiser of Σ (f'_v - f_v)²/(1 + κ f'_v) over the simplex (MLE-Apx; N IV-D, Appendix B, corrected).

    f' = max(f + t, 0)/(1 - κt), where t solves Σ max(f_v + t, 0) + κt = 1.

    Parameters
    ----------
    f
        Finite values of shape (..., d) with 1 + κ f_v > 0, which estimates from support counts satisfy.
    kappa
        κ > -1, the protocol's ratio b/a.

    Returns
    -------
    Values of shape (..., d) on the simplex. κ = 0 gives ``norm_sub``. Cost: as ``norm_sub``.

    Raises
    ------
    InvalidInputError
        If 1 + κ f_v <= 0 somewhere: the model's variance would be negative there.

    Examples
    --------
    >>> mle_apx(np.array([0.5, 0.2, -0.01]), kappa=0.27).round(3)
    array([0.606, 0.302, 0.092])
    """
    top = np.max(f, axis=-1, keepdims=True)
    check_weighted_domain(f, kappa)
    level = _drain(f, top, slope=kappa, volume=1 + kappa * top)
    level /= level.sum(axis=-1, keepdims=True)  # the sum is 1 - κt
    return level


def check_weighted_domain(f: Array, kappa: float) -> None:
    """Raise an error unless 1 + κ f_v > 0 everywhere."""
    extreme = f.min() if kappa > 0 else f.max()
    if not 1 + kappa * extreme > 0:
        at = validate.first(~(1 + kappa * f > 0))
        raise InvalidInputError(
            f"the weighted MLE needs 1 + kappa f > 0, found f = {f[at]:g} at {validate.where(at)} with kappa = {kappa:g}: "
            "no support count gives such an estimate; use norm-sub for other vectors"
        )


def _drain(f: Array, top: Array, *, slope: float, volume: Array) -> Array:
    """Return max(f - top + u, 0) for the level u of every vector."""
    if f.shape[-1] > _LONG:
        result = np.zeros(f.shape)
        for row in np.ndindex(f.shape[:-1]):
            index, level = _drain_long(f[row], float(top[row][0]), float(volume[row][0]), slope)
            result[(*row, index)] = level
        return result
    with np.errstate(over="ignore"):  # a difference of huge numbers may be -inf: below water anyway
        depth = f - top
    np.maximum(depth, -volume / (1 + slope), out=depth)  # no level is higher than this
    depth += _level(depth, slope, volume)
    return np.maximum(depth, 0.0, out=depth)


def _level(depth: Array, slope: float, volume: Array) -> Array:
    """Return the level of every vector of depths; the highest depth is 0. Sorts."""
    falling = np.sort(depth, axis=-1)[..., ::-1]
    counts = np.arange(1, depth.shape[-1] + 1)
    levels = (volume - np.cumsum(falling, axis=-1)) / (counts + slope)
    wet = np.maximum(np.count_nonzero(falling + levels > 0, axis=-1, keepdims=True), 1)
    level = np.take_along_axis(levels, wet - 1, axis=-1)
    # A running sum of d terms carries d roundings. Newton's step from there, with a pairwise sum, carries log d.
    under = depth > -level
    wet = np.maximum(np.count_nonzero(under, axis=-1, keepdims=True), 1)
    result: Array = (volume - np.sum(depth, axis=-1, keepdims=True, where=under)) / (wet + slope)
    return result


def _drain_long(f: Array, top: float, volume: float, slope: float) -> tuple[NDArray[np.intp], Array]:
    """Return where max(f - top + u, 0) can be positive for one long vector, and its values there. Does not sort f.

    A level w with Σ max(y+w, 0) + slope·w >= volume is at or above u, so values below -w stay dry. A sorted sample, which
    stands for as many values each, guesses such a w from its own wet values and some more; the test makes sure. From
    above, Newton's method (Michelot 1986) falls to u and drops more dry values in every step.
    """
    if volume == 0:
        return np.empty(0, dtype=np.intp), np.empty(0)
    ceiling = volume / (1 + slope)
    with np.errstate(over="ignore"):
        sample = np.sort(f[:: len(f) // _SAMPLE] - top)[::-1]
    share = len(sample) / len(f)
    levels = (volume * share - np.cumsum(np.maximum(sample, -ceiling))) / (np.arange(1, len(sample) + 1) + slope * share)
    rank = 8 + 2 * int(np.count_nonzero(sample + levels > 0))
    while True:
        level = min(-float(sample[rank]), ceiling) if rank < len(sample) else ceiling
        index = np.flatnonzero(f > top - level)
        with np.errstate(over="ignore"):
            depth = f[index] - top
        if level == ceiling or np.sum(depth + level) + slope * level >= volume:
            break
        rank *= 4
    np.maximum(depth, -ceiling, out=depth)
    wet = depth
    for _ in range(_NEWTON_STEPS):
        level = float(volume - np.sum(wet)) / (len(wet) + slope)
        still_wet = wet[wet > -level]
        if len(still_wet) == len(wet):
            break
        wet = still_wet
    else:
        level = float(_level(wet, slope, np.array([volume]))[0])
    return index, np.maximum(depth + level, 0.0)
