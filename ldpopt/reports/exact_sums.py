"""Sums of whole numbers that no order of adding changes, beyond what 64 bits hold.

A vector of sums has two rows: a sum is 2³¹ times its entry in the first row plus its entry in the
second, which lies in 0 .. 2³¹-1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]

_BITS = 31  # of the second row: 2³² vectors could be added before it overflowed
_MASK = (1 << _BITS) - 1

UNIT = 1 << 40
"""The fixed point: a number x in 0 .. 1 is kept as the whole number next to 2⁴⁰ x."""

ROWS = 1 << 20
"""Numbers in fixed point that may be added up before 64 bits could overflow, with room to spare."""


def fixed(x: NDArray[np.float64]) -> Whole:
    """Return numbers in 0 .. 1 in fixed point.

    Examples
    --------
    >>> fixed(np.array([0.0, 0.5])) / UNIT
    array([0. , 0.5])
    """
    return np.rint(x * UNIT).astype(np.int64)


def no_sums(size: int) -> Whole:
    """Return a vector of sums that are 0, shape (2, size)."""
    return np.zeros((2, size), dtype=np.int64)


def with_more(sums: Whole, more: Whole) -> Whole:
    """Return sums to which whole numbers of 64 bits, shape (size,), were added.

    Examples
    --------
    >>> sums = with_more(no_sums(2), np.array([2**40, -1]))
    >>> as_floats(with_more(sums, np.array([2**60, 3]))) == [2**60 + 2**40, 2]
    array([ True,  True])
    """
    return joined(sums, np.stack([more >> _BITS, more & _MASK]))


def joined(first: Whole, second: Whole) -> Whole:
    """Return the sums of two parts, shape (2, size) each."""
    total = first + second
    carry = total[1] >> _BITS
    return np.stack([total[0] + carry, total[1] & _MASK])


def as_floats(sums: Whole) -> NDArray[np.float64]:
    """Return sums as floats, shape (size,), each rounded at most twice."""
    high, low = sums.astype(np.float64)
    return np.asarray(high * (1 << _BITS) + low)


def is_possible(sums: Whole, n: int) -> bool:
    """Return whether sums may be those of n numbers in 0 .. 1: of sums that were read from files.

    Examples
    --------
    >>> is_possible(with_more(no_sums(1), np.array([3 * UNIT])), 3)
    True
    """
    high, low = sums
    is_carried = bool(((low >= 0) & (low <= _MASK)).all())
    return is_carried and bool((high >= 0).all() and (as_floats(sums) <= n * UNIT).all())
