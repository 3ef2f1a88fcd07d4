"""Sets of values, and the total frequency of each: plain functions on arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.named_values import Places, require_one_reading

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Sets = NDArray[np.bool_] | Sequence[ArrayLike]
NamedSets = Mapping[str, ArrayLike]
Indices = NDArray[np.int64]


def membership(sets: Sets, d: int, names: Sequence[str] | None = None) -> csr_array:
    """Return the (m, d) 0/1 matrix whose rows are the sets.

    Parameters
    ----------
    sets
        A boolean array of shape (m, d), or a sequence of m arrays of indices in 0 .. d-1
        without repetition.
    d
        Number of values in the domain.
    names
        Of the sets, as ``named_sets`` returns them, for messages.

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
    rows = _rows(sets)
    if not _are_plain(rows, d):
        # One by one, each with an error of its own.
        titles = _numbered(len(rows)) if names is None else map(_title, range(len(rows)), names)
        rows = [_members(title, row, d) for title, row in zip(titles, rows, strict=True)]
    columns, starts = _joined(rows)
    # The three arrays of a matrix stored by rows: entries, their columns, where each row starts.
    entries = np.ones(len(columns))
    return sparse.csr_array((entries, columns, starts), shape=(len(rows), d))


def _joined(rows: list[Any]) -> tuple[Indices, Indices]:
    """Return the members of all sets one after the other, and where each set starts."""
    starts = np.cumsum([0, *map(len, rows)])
    # The empty array gives the type where there is no set at all.
    return np.concatenate([np.empty(0, dtype=np.int64), *rows]), starts


def _are_plain(rows: list[ArrayLike], d: int) -> bool:
    """Return whether all sets are arrays of distinct indices: looked at together, not one by one.

    Simulations make thousands of small sets, whose checks would take ten times as long as the rest.
    """
    for row in rows:
        if type(row) is not np.ndarray or row.dtype != np.int64 or row.ndim != 1:
            return False
    columns, starts = _joined(rows)
    if not len(columns) or columns.min() < 0 or columns.max() >= d:
        return False
    # Members of different sets are in different ranges.
    keys = columns + np.repeat(np.arange(len(rows)) * d, np.diff(starts))
    keys.sort()
    return bool((keys[1:] != keys[:-1]).all())


def named_sets(sets: Sets | NamedSets, labels: Sequence[str] | None) -> tuple[list[str], Sets]:
    """Return the name of each set, and the sets as indices.

    Parameters
    ----------
    sets
        As in ``membership``, or a mapping from names to sets; their members may be labels.
    labels
        Names of the values, if there are any. Where they are texts of whole numbers, a whole number
        in a list is refused unless both readings are the same value; in an array it is an index.

    Raises
    ------
    InvalidInputError
        If a set has a text that is no label, or that of several values, or a whole number that
        could be the index of one value and the label of another, or two sets share a name.

    Examples
    --------
    >>> named_sets({"pets": ["cat", "dog"]}, ("cow", "cat", "dog"))
    (['pets'], [[1, 2]])
    """
    if isinstance(sets, Mapping):
        rows = list(sets.values())
        names = [str(name) for name in sets]
        _require_distinct(names)
        return names, _indexed(rows, list(sets), labels)
    # Arrays of numbers and of truth values have no labels in them.
    if isinstance(sets, np.ndarray) and sets.ndim and sets.dtype.kind not in "USO":
        return _numbered(len(sets)), sets
    rows = _rows(sets)
    return _numbered(len(rows)), _indexed(rows, range(len(rows)), labels)


def _numbered(count: int) -> list[str]:
    """Return names for sets without names."""
    return [f"set {i}" for i in range(count)]


def _title(i: int, name: str) -> str:
    """Return the subject of a message about a set: its name, if it has one of its own."""
    return name if name == f"set {i}" else f"set {name!r}"


def _indexed(
    rows: list[ArrayLike], names: Sequence[object], labels: Sequence[str] | None
) -> list[ArrayLike]:
    """Return sets with the index of each label; those of indices stay as they are."""
    _require_no_texts(rows, names)
    if labels is None or all(_is_numeric(row) for row in rows):
        return rows
    stands = Places(labels)
    result: list[ArrayLike] = []
    for row, name in zip(rows, names, strict=True):
        if _has_text(row):
            members: Any = row
            places = [stands.of(member, f"set {name!r}") for member in members]
            _require_each_once(name, list(members), places)
            # A Python set of texts has another order in each process: sums would differ in bits.
            result.append(sorted(places) if isinstance(row, AbstractSet) else places)
        else:
            require_one_reading(f"set {name!r}", row, stands.index, labels)
            result.append(row)
    return result


def _require_each_once(name: object, members: list[Any], places: list[int]) -> None:
    """Raise an error that names the label if a set has one value twice."""
    if len(set(places)) == len(places):
        return
    for at, place in enumerate(places):
        if place in places[:at]:
            raise InvalidInputError(
                f"set {name!r} has {members[at]!r} more than once, again at position {at}: name "
                "each value once"
            )


def _require_no_texts(rows: list[ArrayLike], names: Sequence[object]) -> None:
    for row, name in zip(rows, names, strict=True):
        # Read letter by letter, it would be a set of other labels.
        if isinstance(row, str | bytes):
            raise InvalidTypeError(f"set {name!r} is the text {row!r}: pass a list, [{row!r}]")


def _has_text(row: ArrayLike) -> bool:
    # Arrays of numbers need no look at each of them.
    if _is_numeric(row) or not np.iterable(row):
        return False
    return any(isinstance(member, str) for member in row)


def _is_numeric(row: ArrayLike) -> bool:
    return isinstance(row, np.ndarray) and row.dtype.kind not in "USO"


def _require_distinct(names: list[str]) -> None:
    """Raise an error if names such as 1 and "1" are one text: an answer would be lost."""
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidInputError(f"{count} sets have the name {name!r}: name them apart")


def _rows(sets: Sets) -> list[ArrayLike]:
    """Return the sets as a list, or raise an error for a single set or none of indices."""
    rows = list(sets) if np.iterable(sets) else None
    if rows is None or (rows and not np.iterable(rows[0])):
        raise InvalidTypeError(
            "sets must be a sequence of index arrays; for a single set pass [indices]"
        )
    return rows


def _members(title: str, row: ArrayLike, d: int) -> Indices:
    """Return the indices of the values in a set, or raise an error that begins with its title."""
    # As indices True and False would be the values 1 and 0.
    if isinstance(row, np.ndarray) and row.dtype == np.bool_:
        raise InvalidTypeError(
            f"{title} is boolean: pass all boolean sets as one array of shape (m, {d})"
        )
    members = _array_of(row)
    if members.ndim != 1:
        raise InvalidInputError(f"{title} must be a one-dimensional array of indices, got {row!r}")
    if members.dtype.kind in "US":
        raise InvalidTypeError(
            f"{title} must hold indices, got text, and this estimate has no labels: look up the "
            "index of each, or pass labels=... where the estimate is made"
        )
    # An empty list becomes an array of floats, and an empty set is allowed.
    members = members if members.size else np.empty(0, dtype=np.int64)
    indices: Indices = validate.whole_numbers(f"indices of {title}", members, low=0, high=d - 1)
    # A value that is named twice would be added twice.
    at = validate.first_repetition(indices)
    if at is not None:
        raise InvalidInputError(
            f"{title} has an index more than once, {indices[at]} again at position {at}: name each "
            "value once"
        )
    return indices


def _array_of(row: ArrayLike) -> NDArray[Any]:
    """Return a set as an array; lists of unequal lengths give one that is not one-dimensional."""
    try:
        # numpy takes a Python set for a single object.
        return np.asarray([*row] if isinstance(row, AbstractSet) else row)
    except ValueError:
        return np.empty((0, 0))


def answers(
    frequencies: NDArray[np.float64], sets: Sets, names: Sequence[str] | None = None
) -> NDArray[np.float64]:
    """Return the total frequency of each of m sets, shape (..., m), in one pass over members."""
    return totals(frequencies, membership(sets, frequencies.shape[-1], names))


def totals(frequencies: NDArray[np.float64], members: csr_array) -> NDArray[np.float64]:
    """Return the total frequency of each row of a membership matrix, shape (..., m)."""
    *trials, d = frequencies.shape
    # scipy multiplies from the left: the domain must be the first axis.
    by_set = members @ frequencies.reshape(-1, d).T
    result: NDArray[np.float64] = by_set.T.reshape(*trials, members.shape[0])
    return result
