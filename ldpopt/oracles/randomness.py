"""Randomness of the client side: all draws are made from uniform 64-bit words.

``rng=None`` draws the words from the operating system, on which privacy rests. A seeded numpy
Generator repeats the same reports and is for simulations and tests only. Probabilities are whole
multiples of 2⁻⁶⁴, given as fractions, and every draw has exactly the given probability if the
words are uniform.
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

# Words of packed bits handled at a time: large enough to amortise calls, small enough for caches.
_BLOCK = 1 << 16


def words(rng: Rng, shape: int | tuple[int, ...]) -> Words:
    """Return uniform 64-bit words."""
    shape = (shape,) if isinstance(shape, int) else shape
    if rng is None:
        entropy = os.urandom(8 * prod(shape))
        # A bytearray, unlike bytes, is an array that callers may change in place.
        return np.frombuffer(bytearray(entropy), dtype=np.uint64).reshape(shape)
    return rng.integers(0, 2**64 - 1, size=shape, dtype=np.uint64, endpoint=True)


def _threshold(probability: Fraction) -> int:
    """Return the whole number T with T/2⁶⁴ = probability, which must lie in (0, 1)."""
    threshold = probability * 2**64
    if threshold.denominator != 1 or not 0 < threshold < 2**64:
        raise InvalidInputError(
            f"probability must be a multiple of 2**-64 in (0, 1), got {probability}"
        )
    return int(threshold)


def bernoulli(rng: Rng, probability: Fraction, size: int) -> NDArray[np.bool_]:
    """Return independent bits that are true with the given probability."""
    threshold = np.uint64(_threshold(probability))
    return words(rng, size) < threshold


def below(rng: Rng, bound: int, size: int) -> NDArray[np.int64]:
    """Return uniform whole numbers in 0 .. bound-1 without modulo bias (Lemire 2019).

    Raises InvalidInputError if bound > 2³².
    """
    if bound > 2**32:
        raise InvalidInputError(f"at most 2**32 values can be drawn from, got {bound}")
    half = np.uint64(32)
    low_half = np.uint64(2**32 - 1)
    factor = np.uint64(bound)
    # The upper half of a product is the number drawn. 2³² mod bound lower halves are left out, so
    # that as many words remain for each number.
    left_out = np.uint64(2**32 % bound)
    product = (words(rng, size) >> half) * factor
    biased = np.flatnonzero((product & low_half) < left_out)
    while biased.size:
        drawn_again = (words(rng, biased.size) >> half) * factor
        product[biased] = drawn_again
        still_biased = (drawn_again & low_half) < left_out
        biased = biased[still_biased]
    return (product >> half).astype(np.int64)


def packed_bernoulli(
    rng: Rng,
    probability: Fraction,
    n: int,
    d: int,
) -> NDArray[np.uint8]:
    """Return n rows of d independent bits, packed into bytes as by ``np.packbits``.

    Padding bits are zero. A bit is true if a uniform number u < T/2⁶⁴. 64 lanes are compared
    at once, from the leading binary digit on: each random word settles half of the lanes that are
    still open, so about eight words are drawn where a plain comparison needs 64.
    """
    width = -(-d // 8)
    # Rows of bytes are drawn as words, all rows in one; the last word may have bytes to spare.
    size = n * width
    bits = np.empty(-(-size // 8), dtype=np.uint64)
    threshold = _threshold(probability)
    for start in range(0, len(bits), _BLOCK):
        block = bits[start : start + _BLOCK]
        block[:] = _bernoulli_words(rng, threshold, len(block))
    rows = bits.view(np.uint8)[:size].reshape(n, width)
    used = d % 8
    if used:
        # The highest bits of the last byte are values, the others are padding.
        mask = 0xFF << (8 - used) & 0xFF
        rows[:, -1] &= np.uint8(mask)
    return rows


def _bernoulli_words(rng: Rng, threshold: int, size: int) -> Words:
    """Return words whose 64 lanes are independently 1 with probability threshold / 2⁶⁴."""
    result = np.zeros(size, dtype=np.uint64)
    undecided = np.full(size, 2**64 - 1, dtype=np.uint64)
    index: slice | NDArray[np.intp] = slice(None)  # of the words that are still undecided
    for digit in range(63, -1, -1):
        mask = (1 << digit + 1) - 1
        digits_left = threshold & mask
        if digits_left == 0 or not undecided.size:
            break  # all further digits of T are 0: the open lanes have u >= T
        draw = words(rng, undecided.size)
        digit_of_threshold = threshold >> digit & 1
        if digit_of_threshold:
            result[index] |= undecided & ~draw  # digit 0 below T's 1: u < T
            undecided &= draw
        else:
            undecided &= ~draw
        # After seven digits a lane is open in 1 of 128 cases: most words are settled.
        if digit < 57:
            still = np.flatnonzero(undecided)
            index = still if isinstance(index, slice) else index[still]
            undecided = undecided[still]
    return result
