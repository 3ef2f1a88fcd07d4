"""Whether frequencies are those that counts gave, judged by the numbers alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.protocol import PureProtocol

Array = NDArray[np.float64]

# By how many units in the last place of n a support count may differ from a whole number: the
# estimate of a count, and the count of that estimate, round about six times. Beyond 2**40
# reports the differences could hide any number.
_COUNT_ROUNDING = 16 * float(np.finfo(np.float64).eps)
_COUNTABLE = 2**40

# Probability that changed frequencies pass for raw ones which is small enough.
_CHANCE = 1e-6

# By how much a shift of all values by one number may differ between them, relative to the
# largest of them.
_SHIFT_ROUNDING = 1e-12

# Raw frequencies may have come through a file, or through floats of 32 bits: rounded to so many
# digits or fewer they are not judged, and rounding to more moves none of 0 .. 1 this far.
_DIGITS = 7
_ROUNDED = 10.0**-_DIGITS

# By how much a sum of frequencies may differ from 1 that a method has made 1.
_SUM_ROUNDING = 1e-9


def are_surely_raw(frequencies: Array, n: int, protocol: PureProtocol) -> bool:
    """Return whether frequencies follow from whole counts, and changed ones hardly could.

    The counts n (q + (p-q) f) of raw frequencies are whole numbers in 0 .. n, which changed
    frequencies satisfy by chance with a probability below 1e-6. False states nothing: the
    frequencies may be raw all the same.
    """
    if n > _COUNTABLE:
        return False
    # Numbers beyond the largest double are no counts: that needs no warning.
    with np.errstate(over="ignore"):
        counts = n * (protocol.q + (protocol.p - protocol.q) * frequencies)
    if not _are_whole(counts, n).all():
        return False
    return not _may_be_counts_by_chance(frequencies, n, protocol)


def _may_be_counts_by_chance(frequencies: Array, n: int, protocol: PureProtocol) -> bool:
    """Return whether changed frequencies might follow from whole counts as these ones do."""
    d = frequencies.shape[-1]
    # Each of d numbers is whole by chance with this probability; a known sum leaves d - 1.
    whole_by_chance = 2 * _COUNT_ROUNDING * n
    if whole_by_chance ** (d - 1) >= _CHANCE:
        return True
    # If n p and n q are whole, round frequencies such as 0.25 follow from whole counts, and so do
    # many shifted ones.
    shares = n * np.array([protocol.p, protocol.q])
    if np.max(np.abs(shares - np.rint(shares))) <= _COUNT_ROUNDING * n:
        return True
    # Methods that cut leave zeros, and a zero follows from a whole count if n q is whole.
    if np.any(frequencies == 0):
        return True
    # A shift to the sum 1 is whole for one vector in d where n (d q + p - q) is whole, as for
    # symmetric unary encoding of two values. Raw frequencies have the sum 1 themselves only if
    # all reports support as many values.
    sums = frequencies.sum(axis=-1)
    size = 1 + np.abs(frequencies).sum(axis=-1)
    sum_is_one = np.abs(sums - 1) <= _SHIFT_ROUNDING * size
    return not sum_is_one.all() if protocol.has_fixed_size else bool(sum_is_one.any())


def are_uncorrected(frequencies: Array, n: int, protocol: PureProtocol) -> NDArray[np.bool_]:
    """Return which vectors are shares of n reports, and not estimates from whole counts.

    Vectors that may be both count as estimates.
    """
    if n > _COUNTABLE:
        return np.zeros(frequencies.shape[:-1], dtype=np.bool_)
    of_estimates = n * (protocol.q + (protocol.p - protocol.q) * frequencies)
    return _are_whole(n * frequencies, n) & ~_are_whole(of_estimates, n)


def are_surely_processed(frequencies: Array, n: int, protocol: PureProtocol) -> NDArray[np.bool_]:
    """Return which vectors a method has made distributions with zeros, from whatever counts.

    They have no negative value, some that are 0, and the sum 1, and do not follow from whole
    counts. Of raw frequencies, rounded or not, this is never true. False states nothing.
    """
    # Nearly all raw frequencies end here: none is 0.
    if n > _COUNTABLE or np.count_nonzero(frequencies) == frequencies.size:
        return np.zeros(frequencies.shape[:-1], dtype=np.bool_)
    distance = np.abs(frequencies.sum(axis=-1) - 1)
    is_cut = (frequencies.min(axis=-1) == 0) & (distance <= _SUM_ROUNDING)
    if not is_cut.any():
        return np.asarray(is_cut)
    gain = protocol.p - protocol.q
    counts = n * (protocol.q + gain * frequencies)
    rounding = _COUNT_ROUNDING + _ROUNDED * gain
    result = np.asarray(is_cut & ~_are_whole(counts, n, rounding))
    result[result] = ~_are_short(frequencies[result])
    return result


def _are_short(frequencies: Array) -> NDArray[np.bool_]:
    """Return which vectors >= 0 consist of numbers with few digits, as files may have them."""
    magnitudes = np.floor(np.log10(np.where(frequencies > 0, frequencies, 1.0)))
    # A whole number over a power of ten rounds as the same number in a text does.
    scale = 10.0 ** (_DIGITS - 1 - magnitudes)
    return np.asarray((np.rint(frequencies * scale) / scale == frequencies).all(axis=-1))


def _are_whole(counts: Array, n: int, rounding: float = _COUNT_ROUNDING) -> NDArray[np.bool_]:
    """Return which vectors consist of whole numbers in 0 .. n, up to rounding relative to n."""
    nearest = np.clip(np.rint(counts), 0, n)
    return np.asarray((np.abs(counts - nearest) <= rounding * n).all(axis=-1))


def is_shift(frequencies: Array, raw: Array) -> bool:
    """Return whether frequencies are the raw ones moved by one number per vector.

    Rounding is allowed for, relative to the largest raw frequency, or to 1.
    """
    shift = frequencies - raw
    size = max(1.0, float(np.abs(raw).max()))
    return bool(np.ptp(shift, axis=-1).max() <= _SHIFT_ROUNDING * size)
