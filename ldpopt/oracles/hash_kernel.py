"""The n·d hashes of a local-hashing server, compiled. Importing this module imports numba.

Nothing is cached on disk: numba would not notice a change of the hash family in its own file, and a
server that hashes otherwise than its clients counts noise. Compiling takes about half a second per
process.

The cores are shared out by threads of Python that end with each call, and not by those of numba:
these outlive the call, so that GNU OpenMP aborts a process which is forked later, and numba's
workqueue aborts the interpreter once two threads count at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from ldpopt.oracles.hash_family import bucket_of

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]
Bits = NDArray[np.uint8]
Result = TypeVar("Result")

# The client's own function, compiled: client and server cannot drift apart.
_bucket_of = numba.njit(inline="always")(bucket_of)

# Number of hashes below which starting threads costs more than they save.
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

    def count(start: int, stop: int) -> Counts:
        # Each thread has counts of its own: shared ones would have to be locked.
        counts = np.zeros(d, dtype=np.int64)
        _count(seeds[start:stop], buckets[start:stop], np.uint64(g), counts)
        return counts

    parts = _shared_out(count, len(seeds), hashes=len(seeds) * d)
    return np.asarray(np.sum(parts, axis=0))


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
    # A row per byte of the domain: threads write to rows of their own, one after another.
    bits = np.empty((-(-d // 8), len(seeds)), dtype=np.uint8)

    def set_bits(start: int, stop: int) -> None:
        _set_bits(seeds, buckets, np.uint64(g), start, bits[start:stop])

    _shared_out(set_bits, len(bits), hashes=len(seeds) * d)
    return bits


def _shared_out(work: Callable[[int, int], Result], size: int, *, hashes: int) -> list[Result]:
    """Return what ``work(start, stop)`` gives on consecutive parts of 0 .. size, one per core."""
    # The number that numba's own threads would have, which NUMBA_NUM_THREADS sets. To ask numba
    # for it by get_num_threads would start them.
    threads: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    parts = 1 if hashes < _SMALL else min(threads, size)
    if parts == 1:
        return [work(0, size)]
    ends = [size * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(work, ends[:-1], ends[1:]))


# Both kernels let go of the interpreter's lock, which is what makes the threads parallel.
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
            # Adding the truth value avoids a branch that no processor could predict.
            counts[value] += bucket == buckets[i]


@numba.njit(nogil=True)
def _set_bits(
    seeds: Words,
    buckets: Words,
    g: np.uint64,
    first_row: int,
    bits: Bits,
) -> None:
    for row in range(len(bits)):
        first = 8 * (first_row + row)
        for i in range(len(seeds)):
            byte = 0
            for value in range(first, first + 8):
                bucket = _bucket_of(seeds[i], np.uint64(value), g)
                byte = 2 * byte + (bucket == buckets[i])
            bits[row, i] = byte
