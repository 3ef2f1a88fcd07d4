"""The n·d hashes of a local-hashing server, compiled. Importing this module imports numba.

Nothing is cached on disk: numba would not notice a change of the hash family in its own file, and a
server that hashes otherwise than its clients counts noise. Compiling takes about half a second per
process.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ldpopt.oracles.hash_family import bucket_of

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]
Bits = NDArray[np.uint8]

_bucket_of = numba.njit(inline="always")(bucket_of)

# Number of hashes below which waking the other cores costs more than they save.
_SMALL = 1 << 20


def hashed_support_counts(
    seeds: Words,
    buckets: Words,
    d: int,
    g: int,
) -> Counts:
    """Return how many reports support each of d values.

    Cost: n·d hashes, shared by all cores; memory cores·d.
    """
    g64 = np.uint64(g)
    if len(seeds) * d < _SMALL:
        counts = np.zeros(d, dtype=np.int64)
        _count(seeds, buckets, g64, counts)
        return counts
    threads = numba.get_num_threads()
    partial = np.zeros((threads, d), dtype=np.int64)
    _count_parts(seeds, buckets, g64, partial)
    return np.asarray(partial.sum(axis=0))


def hashed_support_bits(
    seeds: Words,
    buckets: Words,
    d: int,
    g: int,
) -> Bits:
    """Return the support of n reports as bits, shape (ceil(d/8), n).

    The first value is the highest bit of the first row. Bits beyond the last value are those of
    values beyond the domain, which are ignored. Cost: n·d hashes, shared by all cores, and n·d/8
    bytes.
    """
    bits = np.empty((-(-d // 8), len(seeds)), dtype=np.uint8)
    _set_bits(seeds, buckets, np.uint64(g), bits)
    return bits


@numba.njit(nogil=True)
def _count(
    seeds: Words,
    buckets: Words,
    g: np.uint64,
    counts: Counts,
) -> None:
    for i in range(len(seeds)):
        for value in range(len(counts)):
            bucket = _bucket_of(seeds[i], np.uint64(value), g)
            counts[value] += bucket == buckets[i]


@numba.njit(parallel=True)
def _count_parts(
    seeds: Words,
    buckets: Words,
    g: np.uint64,
    partial: Counts,
) -> None:
    parts = len(partial)
    n = len(seeds)
    # Each thread has counts of its own: shared ones would have to be locked.
    for part in numba.prange(parts):
        first = n * part // parts
        stop = n * (part + 1) // parts
        _count(seeds[first:stop], buckets[first:stop], g, partial[part])


@numba.njit(parallel=True)
def _set_bits(
    seeds: Words,
    buckets: Words,
    g: np.uint64,
    bits: Bits,
) -> None:
    for row in numba.prange(len(bits)):
        first = 8 * row
        for i in range(len(seeds)):
            byte = 0
            for value in range(first, first + 8):
                bucket = _bucket_of(seeds[i], np.uint64(value), g)
                byte = 2 * byte + (bucket == buckets[i])
            bits[row, i] = byte
