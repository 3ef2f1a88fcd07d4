"""Units for numbers far from 1: powers of two, so that nothing is rounded."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Numbers up to 2¹⁰ apart from 1 are taken as they are.
_NEAR_ONE = 10
# Powers beyond, and their inverses, are no normal doubles.
_FARTHEST = 1000


def own_unit(size: float) -> float:
    """Return the power of two next to a size >= 0; 1 for sizes near it, and for 0."""
    is_near_one = 2.0**-_NEAR_ONE <= size < 2.0 ** (_NEAR_ONE + 1)
    return 1.0 if is_near_one else power_below(size)


def power_below(size: float) -> float:
    """Return the largest power of two up to a size > 0; 1 where it, or its inverse, is none."""
    if not 0 < size < np.inf:
        return 1.0
    exponent = math.frexp(size)[1] - 1
    return float(2.0**exponent) if abs(exponent) < _FARTHEST else 1.0


def own_units(sizes: Array) -> Array:
    """Return ``own_unit`` of each size."""
    flat = [own_unit(size) for size in sizes.ravel().tolist()]
    return np.reshape(flat, sizes.shape)
