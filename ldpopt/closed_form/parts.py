"""Long vectors in parts: fresh arrays of a million values cost more than all arithmetic on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import locked_vector

Array = NDArray[np.float64]

# Values that are taken together: many enough that calls cost little beside them, and few enough
# that a few such arrays stay in a processor's caches.
_PART = 1 << 17

# The first of so many blocks of a long vector, and how many values a block has.
_EVERY = 64
_BLOCK = 256

# What is looked at: of an array of d values, some or all of them.
Pick = Callable[[Array], Array]


def vector_of(array: Array, trial: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Return what an array that broadcasts with (*shape, d) has for one trial: (d,) or (1,)."""
    vector: Array = np.broadcast_to(array, (*shape, array.shape[-1]))[trial]
    return vector


def parts_of(*arrays: Any) -> Iterator[tuple[slice, list[Any]]]:
    """Yield slices of the last axis of arrays that broadcast, and what each array has there.

    Arrays of length 1 on that axis come whole each time. Without values there are no parts.
    """
    d = max(array.shape[-1] for array in arrays)
    for first in range(0, d, _PART):
        part = slice(first, first + _PART)
        yield part, [array if array.shape[-1] == 1 else array[..., part] for array in arrays]


def whole(values: Array) -> Array:
    """Return all values."""
    return values


def some_blocks(values: Array) -> Array:
    """Return the first of every 64 blocks of a long vector, which stand for all values."""
    stride = _EVERY * _BLOCK
    count = len(values) // stride
    if count == 0:
        return values[:_BLOCK]
    return locked_vector(values[: count * stride].reshape(count, stride)[:, :_BLOCK])


def longest_part(d: int) -> int:
    """Return how many of d values are taken together at most."""
    return min(d, _PART)


def collapsed(array: Array) -> Array:
    """Return an array with one value on its last axis if all values there are one in memory."""
    return array[..., :1] if array.strides[-1] == 0 else array


def are_within(values: Array, lower: Array, upper: Array) -> bool:
    """Return whether lower <= values <= upper everywhere, without an array if bounds are equal."""
    smallest = values.min(axis=-1, keepdims=True) if lower.size == 1 else values
    largest = values.max(axis=-1, keepdims=True) if upper.size == 1 else values
    return bool(np.all(smallest >= lower) and np.all(largest <= upper))


def count_of_parts(d: int) -> int:
    """Return in how many parts d values are taken."""
    return -(-d // _PART)


def absolute_sum(first: Array, second: Array | None = None) -> Array:
    """Return Σ |a_v|, or Σ |a_v b_v|, shape (...); infinity times 0 counts as 0."""
    if first.shape[-1] <= _PART:
        # Most vectors are one part, and a proof takes several of these sums.
        return _sum_of_sizes(first, second)
    total = np.zeros(first.shape[:-1])
    for part, (piece,) in parts_of(first):
        total = total + _sum_of_sizes(piece, None if second is None else second[..., part])
    return total


def _sum_of_sizes(first: Array, second: Array | None) -> Array:
    if second is None:
        return np.asarray(np.abs(first).sum(axis=-1))
    with np.errstate(invalid="ignore", over="ignore"):
        size = first * second
        np.abs(size, out=size)
        total = np.asarray(size.sum(axis=-1))
    if np.isnan(total).any():
        size[second == 0] = 0.0
        total = np.asarray(size.sum(axis=-1))
    return total
