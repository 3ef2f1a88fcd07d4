"""The hash family of local hashing: one formula, in numpy for clients, compiled for servers."""

from __future__ import annotations

from typing import Any

import numpy as np

# 2⁶⁴/golden ratio, odd: consecutive values land far apart.
_STEP = np.uint64(0x9E3779B97F4A7C15)

# The multipliers and shifts of splitmix64 (Stafford's mix 13).
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE, _27, _30, _31, _32 = (np.uint64(i) for i in (1, 27, 30, 31, 32))


def bucket_of(seed: Any, value: Any, g: Any) -> Any:
    """Return the bucket in 0 .. g-1 of ``value`` under the hash function ``seed``.

    All arguments and the result are uint64. The 64-bit mix is a bijection of seed + (value +
    1)·step, so over uniform seeds the bucket of any value is uniform (to 2⁻³², the granularity
    of g buckets on 32 bits); pairs of values are independent as far as the mix avalanches, which
    the tests measure. A user's seed says nothing about the value: it is drawn first.
    """
    h = seed + (value + _ONE) * _STEP
    h = (h ^ (h >> _30)) * _MIX_1
    h = (h ^ (h >> _27)) * _MIX_2
    h = h ^ (h >> _31)
    return ((h >> _32) * g) >> _32
