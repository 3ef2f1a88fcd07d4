"""Sums, counts and extremes of each vector of a stack, in a form that broadcasts with the stack.

From shape (..., d) that is (..., 1). Of one vector, shape (d,), it is a number: arithmetic with
numbers takes a tenth of the time that it takes with arrays of one element, and a short vector is
solved by little else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Values of a vector or a stack above which ``row_kernels`` is worth the half second that loading it
# takes once in a process. Studies take no more than this at a time, whose chunks are thus computed
# alike, however many trials the last of them has.
LARGE = 1 << 19

# Values of one vector from which compiled sweeps are worth it: of one that is short, numpy's own
# are as fast, and most programs never need numba.
_LONG = 1 << 17


def is_long(d: int) -> bool:
    """Return whether vectors of d values are for compiled sweeps."""
    return d >= _LONG


def sums(values: Array) -> Array:
    """Return the sum of each vector."""
    if values.ndim == 1:
        # Half the time of the method, which is written in Python.
        return np.add.reduce(values)  # type: ignore[no-any-return]
    total: Array = values.sum(axis=-1, keepdims=values.ndim > 1)
    return total


def counts(flags: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return how many entries of each vector are true."""
    if flags.ndim == 1:
        return np.intp(np.count_nonzero(flags))  # type: ignore[return-value]  # see above
    total: NDArray[np.intp] = flags.sum(axis=-1, keepdims=True)
    return total


def highest(values: Array) -> Array:
    """Return the largest value of each vector."""
    top: Array = values.max(axis=-1, keepdims=values.ndim > 1)
    return top


def lowest(values: Array) -> Array:
    """Return the smallest value of each vector."""
    bottom: Array = values.min(axis=-1, keepdims=values.ndim > 1)
    return bottom


def falling(values: Array) -> Array:
    """Return each vector sorted, the highest value first."""
    return np.sort(values, axis=-1)[..., ::-1]


def locked_view(value: Any) -> Any:
    """Return a view of an array that nobody may write to; anything else as it is."""
    if not isinstance(value, np.ndarray) or not value.flags.writeable:
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def locked_rows(values: Array) -> Array:
    """Return vectors in one piece as rows of a table that cannot be written to.

    Compiled code is compiled for each kind of array, and some estimates cannot be written to. It
    reads the bytes of any array in the order of this machine.
    """
    rows = np.ascontiguousarray(values, dtype=np.float64).reshape(-1, values.shape[-1])
    return np.asarray(locked_view(rows))


def locked_vector(values: Array) -> Array:
    """Return one vector in one piece that cannot be written to."""
    return locked_rows(values).ravel()
