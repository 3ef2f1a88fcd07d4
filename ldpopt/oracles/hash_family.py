"""The hash family of local hashing: one formula, in numpy for clients, compiled for servers."""

from __future__ import annotations

from typing import Any

import numpy as np

# 2⁶⁴/golden ratio, odd: consecutive values land far apart.
_STEP = np.uint64(0x9E3779B97F4A7C15)

# The multipliers and shifts of splitmix64 (Stafford's mix 13).
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1 = np.uint64(30)
_SHIFT_2 = np.uint64(27)
_SHIFT_3 = np.uint64(31)

_ONE = np.uint64(1)
_HALF = np.uint64(32)


def bucket_of(seed: Any, value: Any, g: Any) -> Any:
    """Return the bucket in 0 .. g-1 of ``value`` under the hash function ``seed``.

    All arguments and the result are uint64. The 64-bit mix is a bijection of seed + (value +
    1)·step, so over uniform seeds the bucket of any value is uniform (to 2⁻³², the granularity
    of g buckets on 32 bits); pairs of values are independent as far as the mix avalanches, which
    the tests measure. A user's seed says nothing about the value: it is drawn first.
    """
    h = seed + (value + _ONE) * _STEP
    h = h ^ (h >> _SHIFT_1)
    h = h * _MIX_1
    h = h ^ (h >> _SHIFT_2)
    h = h * _MIX_2
    h = h ^ (h >> _SHIFT_3)
    # The upper 32 bits, scaled to 0 .. g-1 without a division.
    upper = h >> _HALF
    return (upper * g) >> _HALF
