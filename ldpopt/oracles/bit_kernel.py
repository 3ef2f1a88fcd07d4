"""Sums over packed bits in whole numbers, compiled. Importing this module imports numba.

Eight values share a table of the 256 sums that a byte can stand for, as in ``packed``; here eight
bytes are read as one word, which takes a third of the time. Sums are whole numbers below 2⁶³: they
are the same in whatever order they are added. Compiling takes about a second per process.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Whole = NDArray[np.int64]

_BYTE = np.uint64(0xFF)
_BYTES = np.arange(256, dtype=np.uint8)

# The eight bits of each byte as whole numbers, shape (256, 8).
_BITS_OF = np.unpackbits(_BYTES[:, None], axis=1).astype(np.int64)


def words_of(bits: NDArray[np.uint8]) -> Words:
    """Return rows of bytes, shape (m, bytes), as rows of words of eight bytes, filled up with 0."""
    rows, width = bits.shape
    # A copy of its own: rows that were read from a file may start at any address.
    padded = np.zeros((rows, _words_for(width) * 8), dtype=np.uint8)
    padded[:, :width] = bits
    return padded.view(np.dtype("<u8"))


def _words_for(width: int) -> int:
    """Return the number of words that hold so many bytes."""
    return -(-width // 8)


def tables_of(values: Whole) -> Whole:
    """Return the sum of values, shape (d,), over the bits of each byte: shape (bytes, 256)."""
    # As many bytes as the rows have, whose last word is filled up with 0.
    padded = np.zeros(_words_for(-(-len(values) // 8)) * 64, dtype=np.int64)
    padded[: len(values)] = values
    return np.ascontiguousarray(padded.reshape(-1, 8) @ _BITS_OF.T)


def of_values(of_bytes: Whole, d: int) -> Whole:
    """Return what each of d values has, from what each byte of each column has, (bytes, 256)."""
    return np.asarray((of_bytes @ _BITS_OF).reshape(-1)[:d])


# The kernels let go of the interpreter's lock, so that threads may share the work.
@numba.njit(nogil=True)
def add_values(words: Words, tables: Whole, totals: Whole) -> None:
    """Add to the total of each row the values of its bits; tables as of ``tables_of``."""
    for column in range(words.shape[1]):
        # Eight tables at a time stay in the fastest memory.
        first = 8 * column
        t0 = tables[first]
        t1 = tables[first + 1]
        t2 = tables[first + 2]
        t3 = tables[first + 3]
        t4 = tables[first + 4]
        t5 = tables[first + 5]
        t6 = tables[first + 6]
        t7 = tables[first + 7]
        for i in range(len(totals)):
            word = words[i, column]
            # Two sums that do not wait for each other.
            even = t0[word & _BYTE] + t2[(word >> np.uint64(16)) & _BYTE]
            odd = t1[(word >> np.uint64(8)) & _BYTE] + t3[(word >> np.uint64(24)) & _BYTE]
            even += t4[(word >> np.uint64(32)) & _BYTE] + t6[(word >> np.uint64(48)) & _BYTE]
            odd += t5[(word >> np.uint64(40)) & _BYTE] + t7[(word >> np.uint64(56)) & _BYTE]
            totals[i] += even + odd


@numba.njit(nogil=True)
def add_weights(words: Words, weights: Whole, of_bytes: Whole) -> None:
    """Add the weight of each row to what its bytes have, shape (bytes, 256)."""
    for column in range(words.shape[1]):
        first = 8 * column
        t0 = of_bytes[first]
        t1 = of_bytes[first + 1]
        t2 = of_bytes[first + 2]
        t3 = of_bytes[first + 3]
        t4 = of_bytes[first + 4]
        t5 = of_bytes[first + 5]
        t6 = of_bytes[first + 6]
        t7 = of_bytes[first + 7]
        for i in range(len(weights)):
            word = words[i, column]
            weight = weights[i]
            t0[word & _BYTE] += weight
            t1[(word >> np.uint64(8)) & _BYTE] += weight
            t2[(word >> np.uint64(16)) & _BYTE] += weight
            t3[(word >> np.uint64(24)) & _BYTE] += weight
            t4[(word >> np.uint64(32)) & _BYTE] += weight
            t5[(word >> np.uint64(40)) & _BYTE] += weight
            t6[(word >> np.uint64(48)) & _BYTE] += weight
            t7[(word >> np.uint64(56)) & _BYTE] += weight
