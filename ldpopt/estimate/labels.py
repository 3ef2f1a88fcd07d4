"""Names of values: given, or those that objects of pandas bring with them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.frames import column_of, is_frame, is_from


def checked_labels(labels: Sequence[str], d: int) -> tuple[str, ...]:
    """Return the names of d values as a tuple.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If they are a text, a set or no sequence, or not d.
    """
    if isinstance(labels, str):  # a sequence too, of letters: of d letters, perhaps
        raise InvalidInputError(f"labels must be a sequence of {d} names, got the text {labels!r}")
    # A set has another order in each process: values would swap their names.
    if isinstance(labels, Set):
        raise InvalidTypeError(f"labels must be in the order of the values, got {labels!r}")
    try:
        names = tuple(map(str, labels))
    except TypeError:
        raise InvalidTypeError(f"labels must be a sequence of {d} names, got {labels!r}") from None
    if len(names) != d:
        raise InvalidInputError(f"labels must be a sequence of {d} names, got {len(names)}")
    return names


def labels_of(values: Any) -> tuple[str, ...] | None:
    """Return the index of a Series of pandas, or the labels of a DataFrame; None of anything else.

    The index that pandas makes by itself, 0 to d - 1, names nothing.

    Examples
    --------
    >>> labels_of([0.5, 0.25]) is None
    True
    """
    if is_frame(values):
        return column_of(values).labels
    if not is_from(values, "Series", "pandas") or type(values.index).__name__ == "RangeIndex":
        return None
    return tuple(map(str, values.index))
