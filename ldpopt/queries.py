"""Questions asked of a frequency vector, and how wrong its answers are: plain functions on arrays.

Shapes: estimates are (..., d) with any leading axes for trials; the truth is (d,); errors have the leading axes.
"""

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
        A boolean array of shape (m, d), or a sequence of m arrays of indices in 0 .. d-1 without repetition.
    d
        Number of values in the domain.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a set has an index outside the domain or twice, or a boolean array does not have d columns.
    """
    from scipy import sparse  # slow to import, and only set queries need it

    if isinstance(sets, np.ndarray) and sets.dtype == np.bool_:
        if sets.ndim != 2 or sets.shape[1] != d:
            raise InvalidInputError(f"boolean sets must have shape (m, {d}), got {sets.shape}")
        return sparse.csr_array(sets.astype(np.float64))
    rows = list(sets) if np.iterable(sets) else []
    if not np.iterable(sets) or (rows and not np.iterable(rows[0])):
        raise InvalidTypeError("sets must be a sequence of index arrays; for a single set pass [indices]")
    indices = []
    for i, row in enumerate(rows):
        if isinstance(row, np.ndarray) and row.dtype == np.bool_:
            raise InvalidTypeError(f"set {i} is boolean: pass all boolean sets as one array of shape (m, {d})")
        try:
            members = np.asarray(row)
        except ValueError:  # ragged
            members = np.empty((0, 0))
        if members.ndim != 1:
            raise InvalidInputError(f"set {i} must be a one-dimensional array of indices, got {row!r}")
        members = members if members.size else np.empty(0, dtype=np.int64)
        members = validate.whole_numbers(f"indices of set {i}", members, low=0, high=d - 1)
        if np.unique(members).size != members.size:
            raise InvalidInputError(f"set {i} has an index more than once")
        indices.append(members)
    starts = np.cumsum([0, *(len(members) for members in indices)])
    columns = np.concatenate([np.empty(0, dtype=np.int64), *indices])
    return sparse.csr_array((np.ones(len(columns)), columns, starts), shape=(len(indices), d))


def answers(frequencies: NDArray[np.float64], sets: Sets) -> NDArray[np.float64]:
    """Return the total frequency of each set: (..., d) and m sets to (..., m). Cost: one pass over the members."""
    return totals(frequencies, membership(sets, frequencies.shape[-1]))


def totals(frequencies: NDArray[np.float64], members: csr_array) -> NDArray[np.float64]:
    """Return the same for sets that are already a matrix."""
    flat = frequencies.reshape(-1, frequencies.shape[-1])
    result: NDArray[np.float64] = (members @ flat.T).T.reshape(*frequencies.shape[:-1], members.shape[0])
    return result


def mean_squared_error(estimate: ArrayLike, truth: ArrayLike) -> NDArray[np.float64]:
    """Return mean_v (f_v - f'_v)² over the last axis (N V-A); works on values and on the answers to set queries.

    Shapes that do not match, and numbers that are not finite, raise an error.

    Examples
    --------
    >>> float(mean_squared_error([0.5, 0.5], [0.75, 0.25]))
    0.0625
    """
    return np.asarray(np.mean(_difference(estimate, truth) ** 2, axis=-1))


def mean_absolute_error(estimate: ArrayLike, truth: ArrayLike) -> NDArray[np.float64]:
    """Return mean_v abs(f_v - f'_v) over the last axis (D V)."""
    return np.asarray(np.mean(np.abs(_difference(estimate, truth)), axis=-1))


def _difference(estimate: ArrayLike, truth: ArrayLike) -> NDArray[np.float64]:
    found, true = validate.frequencies(estimate), validate.frequencies(truth)
    if found.shape[-1] != true.shape[-1]:
        raise InvalidInputError(f"estimate and truth must have the same last axis, got {found.shape} and {true.shape}")
    return np.asarray(found - true)
