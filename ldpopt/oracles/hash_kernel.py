"""The n·d hashes of a local-hashing server, compiled. Importing this module imports numba."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ldpopt.oracles.hash_family import bucket_of

_bucket_of = numba.njit(inline="always")(bucket_of)


def hashed_support_counts(seeds: NDArray[np.uint64], buckets: NDArray[np.uint64], d: int, g: int) -> NDArray[np.int64]:
    """Return how many reports support each of d values. Cost: n·d hashes, shared by all cores; memory cores·d."""
    partial = _count(seeds, buckets, d, np.uint64(g), numba.get_num_threads())
    return np.asarray(partial.sum(axis=0))


@numba.njit(parallel=True, cache=True)
def _count(
    seeds: NDArray[np.uint64], buckets: NDArray[np.uint64], d: int, g: np.uint64, parts: int
) -> NDArray[np.int64]:
    counts = np.zeros((parts, d), dtype=np.int64)
    n = len(seeds)
    for part in numba.prange(parts):
        mine = counts[part]
        for i in range(n * part // parts, n * (part + 1) // parts):
            for value in range(d):
                mine[value] += _bucket_of(seeds[i], np.uint64(value), g) == buckets[i]
    return counts
