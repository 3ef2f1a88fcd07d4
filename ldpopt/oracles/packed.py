"""Products with a matrix of bits that stays packed.

Eight values share a table of the 256 sums that a byte can stand for: the method of four Russians
(Arlazarov, Dinic, Kronrod, Faradzhev 1970) on bytes. Bits are given by columns of bytes, shape
(ceil(d/8), n), the first value in the highest bit of the first row; bits beyond the last value are
ignored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bits = NDArray[np.uint8]

# The eight bits of each byte as numbers, shape (256, 8), for products with eight values.
_BYTES = np.arange(256, dtype=np.uint8)
_BITS_OF = np.unpackbits(_BYTES[:, None], axis=1).astype(np.float64)


def bit_sums(bits: Bits, f: Array) -> Array:
    """Return for each of n rows the sum of f, shape (d,), over its bits that are set.

    Cost: n·d/8 table look-ups.

    Examples
    --------
    >>> bit_sums(np.array([[0b10100000, 0b01000000]], dtype=np.uint8), np.array([1.0, 2.0, 4.0]))
    array([5., 2.])
    """
    # Bits beyond the last value meet zeros.
    padded = np.zeros(8 * len(bits))
    padded[: len(f)] = f
    by_column = padded.reshape(-1, 8)
    total = np.zeros(bits.shape[1])
    for column, values in zip(bits, by_column, strict=True):
        if values.any():  # the later steps of an iteration have few values left
            sums = _BITS_OF @ values
            total += sums[column]
    return total


def bit_counts(bits: Bits, w: Array, d: int) -> Array:
    """Return for each of d values the sum of w, shape (n,), over the rows whose bit is set.

    Cost: n·d/8 additions.

    Examples
    --------
    >>> bit_counts(np.array([[0b10100000, 0b01000000]], dtype=np.uint8), np.array([0.5, 3.0]), 3)
    array([0.5, 3. , 0.5])
    """
    counts = np.empty((len(bits), 8))
    for column, values in zip(bits, counts, strict=True):
        # All weights of equal bytes first, then each byte's bits: 256 instead of n rows.
        of_bytes = np.bincount(column, weights=w, minlength=256)
        values[:] = of_bytes @ _BITS_OF
    return counts.reshape(-1)[:d]
