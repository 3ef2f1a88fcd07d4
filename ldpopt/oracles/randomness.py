"""Randomness of the client side: everything is made from uniform 64-bit words.

``rng=None`` draws the words from the operating system, which is what privacy rests on; a seeded numpy Generator gives the
same reports again and is for simulation and tests only. Probabilities are whole multiples of 2⁻⁶⁴, given as fractions, and
every draw has exactly the probability that is asked for if the words are uniform.
"""

from __future__ import annotations

import os
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidInputError

Rng = np.random.Generator | None
Words = NDArray[np.uint64]

_BLOCK = (
    1 << 16
)  # words of packed bits handled at a time: large enough to amortise calls, small enough for caches


def words(rng: Rng, shape: int | tuple[int, ...]) -> Words:
    """Return uniform 64-bit words."""
    shape = (shape,) if isinstance(shape, int) else shape
    if rng is None:
        return np.frombuffer(bytearray(os.urandom(8 * prod(shape))), dtype=np.uint64).reshape(shape)
    return rng.integers(0, 2**64 - 1, size=shape, dtype=np.uint64, endpoint=True)


def _threshold(probability: Fraction) -> int:
    """Return the whole number T with T/2⁶⁴ = probability, in (0, 1); an error where there is none."""
    threshold = probability * 2**64
    if threshold.denominator != 1 or not 0 < threshold < 2**64:
        raise InvalidInputError(
            f"a coin shows heads in T of 2**64 cases, T > 0 whole: not with probability {probability}"
        )
    return int(threshold)


def bernoulli(rng: Rng, probability: Fraction, size: int) -> NDArray[np.bool_]:
    """Return independent bits that are true with the given probability."""
    return words(rng, size) < np.uint64(_threshold(probability))


def below(rng: Rng, bound: int, size: int) -> NDArray[np.int64]:
    """Return uniform whole numbers in 0 .. bound-1, bound <= 2³² (an error beyond), without modulo bias (Lemire 2019)."""
    if bound > 2**32:
        raise InvalidInputError(f"at most 2**32 values can be drawn from, got {bound}")
    low_half = np.uint64(2**32 - 1)
    product = (words(rng, size) >> np.uint64(32)) * np.uint64(bound)
    biased = np.flatnonzero((product & low_half) < np.uint64(2**32 % bound))
    while biased.size:
        product[biased] = (words(rng, biased.size) >> np.uint64(32)) * np.uint64(bound)
        biased = biased[(product[biased] & low_half) < np.uint64(2**32 % bound)]
    return (product >> np.uint64(32)).astype(np.int64)


def packed_bernoulli(rng: Rng, probability: Fraction, n: int, d: int) -> NDArray[np.uint8]:
    """Return n rows of d independent bits, packed eight to a byte as by ``np.packbits``; padding bits are zero.

    A bit is true if a uniform number u < T/2⁶⁴. Comparing 64 lanes at once from the leading binary digit on, each random
    word settles half of the lanes that are still open, so about eight words are drawn where a plain comparison needs 64.
    """
    width = -(-d // 8)
    bits, threshold = np.empty(-(-n * width // 8), dtype=np.uint64), _threshold(probability)
    for start in range(0, len(bits), _BLOCK):
        block = bits[start : start + _BLOCK]
        block[:] = _bernoulli_words(rng, threshold, len(block))
    rows = bits.view(np.uint8)[: n * width].reshape(n, width)
    if d % 8:
        rows[:, -1] &= np.uint8(0xFF << (8 - d % 8) & 0xFF)
    return rows


def _bernoulli_words(rng: Rng, threshold: int, size: int) -> Words:
    """Return words whose 64 lanes are independently 1 with probability threshold / 2⁶⁴."""
    result = np.zeros(size, dtype=np.uint64)
    undecided = np.full(size, 2**64 - 1, dtype=np.uint64)
    index: slice | NDArray[np.intp] = slice(None)
    for digit in range(63, -1, -1):
        if threshold & ((1 << digit + 1) - 1) == 0 or not undecided.size:
            break  # all further digits of T are 0: the open lanes have u >= T
        draw = words(rng, undecided.size)
        if threshold >> digit & 1:
            result[index] |= undecided & ~draw  # digit 0 below T's 1: u < T
            undecided &= draw
        else:
            undecided &= ~draw
        if digit < 57:  # from here on most words are settled
            still = np.flatnonzero(undecided)
            index, undecided = still if isinstance(index, slice) else index[still], undecided[still]
    return result
