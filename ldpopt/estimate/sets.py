"""Sets of values, and the total frequency of each: plain functions on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Sets = NDArray[np.bool_] | Sequence[ArrayLike]


def membership(sets: Sets, d: int) -> csr_array:
    """Return the (m, d) 0/1 matrix whose rows are the sets.

    Parameters
    ----------
    sets
        A boolean array of shape (m, d), or a sequence of m arrays of indices in 0 .. d-1
        without repetition.
    d
        Number of values in the domain.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a set has an index outside the domain or twice, or a boolean array does not have d
        columns.
    """
    from scipy import sparse  # slow to import, and only set queries need it

    if isinstance(sets, np.ndarray) and sets.dtype == np.bool_:
        if sets.ndim != 2 or sets.shape[1] != d:
            raise InvalidInputError(f"boolean sets must have shape (m, {d}), got {sets.shape}")
        return sparse.csr_array(sets.astype(np.float64))
    rows = list(sets) if np.iterable(sets) else []
    if not np.iterable(sets) or (rows and not np.iterable(rows[0])):
        raise InvalidTypeError(
            "sets must be a sequence of index arrays; for a single set pass [indices]"
        )
    indices = []
    for i, row in enumerate(rows):
        # As indices True and False would be the values 1 and 0.
        if isinstance(row, np.ndarray) and row.dtype == np.bool_:
            raise InvalidTypeError(
                f"set {i} is boolean: pass all boolean sets as one array of shape (m, {d})"
            )
        try:
            members = np.asarray(row)
        except ValueError:  # ragged
            members = np.empty((0, 0))
        if members.ndim != 1:
            raise InvalidInputError(
                f"set {i} must be a one-dimensional array of indices, got {row!r}"
            )
        if members.dtype.kind in "US":
            raise InvalidTypeError(
                f"set {i} must hold indices, got text: look up the index of each label first"
            )
        # An empty list becomes an array of floats, and an empty set is allowed.
        members = members if members.size else np.empty(0, dtype=np.int64)
        members = validate.whole_numbers(f"indices of set {i}", members, low=0, high=d - 1)
        if np.unique(members).size != members.size:
            raise InvalidInputError(f"set {i} has an index more than once")
        indices.append(members)
    starts = np.cumsum([0, *(len(members) for members in indices)])
    columns = np.concatenate([np.empty(0, dtype=np.int64), *indices])
    return sparse.csr_array((np.ones(len(columns)), columns, starts), shape=(len(indices), d))


def answers(frequencies: NDArray[np.float64], sets: Sets) -> NDArray[np.float64]:
    """Return the total frequency of each of m sets, shape (..., m), in one pass over members."""
    return totals(frequencies, membership(sets, frequencies.shape[-1]))


def totals(frequencies: NDArray[np.float64], members: csr_array) -> NDArray[np.float64]:
    """Return the same for sets that are already a matrix."""
    flat = frequencies.reshape(-1, frequencies.shape[-1])
    # scipy multiplies from the left: the domain must be the first axis.
    result: NDArray[np.float64] = (members @ flat.T).T.reshape(
        *frequencies.shape[:-1], members.shape[0]
    )
    return result
