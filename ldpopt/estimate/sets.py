"""Sets of values, and the total frequency of each: plain functions on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Sets = NDArray[np.bool_] | Sequence[ArrayLike]
Indices = NDArray[np.int64]


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

    validate.unmasked("sets", sets)
    if isinstance(sets, np.ndarray) and sets.dtype == np.bool_:
        if sets.ndim != 2 or sets.shape[1] != d:
            raise InvalidInputError(f"boolean sets must have shape (m, {d}), got {sets.shape}")
        return sparse.csr_array(sets.astype(np.float64))
    indices = [_members(i, row, d) for i, row in enumerate(_rows(sets))]
    starts = np.cumsum([0, *(len(members) for members in indices)])
    # The empty array gives the type where there is no set at all.
    columns = np.concatenate([np.empty(0, dtype=np.int64), *indices])
    return sparse.csr_array((np.ones(len(columns)), columns, starts), shape=(len(indices), d))


def _rows(sets: Sets) -> list[ArrayLike]:
    """Return the sets as a list, or raise an error for a single set or none of indices."""
    rows = list(sets) if np.iterable(sets) else None
    if rows is None or (rows and not np.iterable(rows[0])):
        raise InvalidTypeError(
            "sets must be a sequence of index arrays; for a single set pass [indices]"
        )
    return rows


def _members(i: int, row: ArrayLike, d: int) -> Indices:
    """Return the indices of the values in set i, or raise an error."""
    # As indices True and False would be the values 1 and 0.
    if isinstance(row, np.ndarray) and row.dtype == np.bool_:
        raise InvalidTypeError(
            f"set {i} is boolean: pass all boolean sets as one array of shape (m, {d})"
        )
    members = _array_of(row)
    if members.ndim != 1:
        raise InvalidInputError(f"set {i} must be a one-dimensional array of indices, got {row!r}")
    if members.dtype.kind in "US":
        raise InvalidTypeError(
            f"set {i} must hold indices, got text: look up the index of each label first"
        )
    # An empty list becomes an array of floats, and an empty set is allowed.
    members = members if members.size else np.empty(0, dtype=np.int64)
    indices: Indices = validate.whole_numbers(f"indices of set {i}", members, low=0, high=d - 1)
    # A value that is named twice would be added twice.
    if np.unique(indices).size != indices.size:
        raise InvalidInputError(f"set {i} has an index more than once")
    return indices


def _array_of(row: ArrayLike) -> NDArray[Any]:
    """Return a set as an array; lists of unequal lengths give one that is not one-dimensional."""
    try:
        return np.asarray(row)
    except ValueError:
        return np.empty((0, 0))


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
