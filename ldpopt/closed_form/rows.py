"""Sums and counts along the last axis, kept as an axis of length 1 so that results broadcast."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sums(values: Array) -> Array:
    """Return the sum of each vector, from shape (..., d) to (..., 1)."""
    return np.asarray(values.sum(axis=-1, keepdims=True))


def counts(flags: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return how many entries of each vector are true, from shape (..., d) to (..., 1)."""
    return np.asarray(flags.sum(axis=-1, keepdims=True))


def falling(values: Array) -> Array:
    """Return each vector sorted, the highest value first."""
    return np.sort(values, axis=-1)[..., ::-1]
