"""The n·d hashes of a local-hashing server, compiled. Importing this module imports numba.

A server that hashes otherwise than its clients counts noise, and numba, which keeps compiled code
on disk, would not notice that another file has changed. So the kernels are made by functions of a
fingerprint of the hash family: numba keeps code by what its function closes over, too.

The cores are shared out by threads of Python that end with each call, and not by those of numba:
these outlive the call, so that GNU OpenMP aborts a process which is forked later, and numba's
workqueue aborts the interpreter once two threads count at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, inlined
from ldpopt.oracles.hash_family import bucket_of

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]
Bits = NDArray[np.uint8]
Result = TypeVar("Result")

# The client's own function, compiled: client and server cannot drift apart.
_bucket_of = inlined(bucket_of)

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


def _fingerprint(function: FunctionType) -> int:
    """Return 63 bits of what a function computes: of its code and the global numbers it names."""
    code = function.__code__
    numbers = [function.__globals__[name] for name in code.co_names]
    parts = repr((code.co_code, code.co_consts, numbers))
    # One bit less than a word, so that numba takes the number for a signed one.
    return int.from_bytes(hashlib.sha256(parts.encode()).digest()[:8]) >> 1


# Both kernels let go of the interpreter's lock, which is what makes the threads parallel. They
# return the fingerprint because a function closes over no more than it uses.
def _count_of(family: int) -> Callable[[Words, Words, np.uint64, Counts], int]:
    """Return the kernel that counts, for the hash family with a fingerprint."""

    @compiled
    def count(
        seeds: Words,
        buckets: Words,
        g: np.uint64,
        counts: Counts,
    ) -> int:
        for i in range(len(seeds)):
            for value in range(len(counts)):
                bucket = _bucket_of(seeds[i], np.uint64(value), g)
                # Adding the truth value avoids a branch that no processor could predict.
                counts[value] += bucket == buckets[i]
        return family

    return count


def _set_bits_of(family: int) -> Callable[[Words, Words, np.uint64, int, Bits], int]:
    """Return the kernel that sets bits, for the hash family with a fingerprint."""

    @compiled
    def set_bits(
        seeds: Words,
        buckets: Words,
        g: np.uint64,
        first_row: int,
        bits: Bits,
    ) -> int:
        for row in range(len(bits)):
            first = 8 * (first_row + row)
            for i in range(len(seeds)):
                byte = 0
                for value in range(first, first + 8):
                    bucket = _bucket_of(seeds[i], np.uint64(value), g)
                    byte = 2 * byte + (bucket == buckets[i])
                bits[row, i] = byte
        return family

    return set_bits


_FAMILY = _fingerprint(cast("FunctionType", bucket_of))
_count = _count_of(_FAMILY)
_set_bits = _set_bits_of(_FAMILY)
