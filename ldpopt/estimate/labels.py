"""Names of values: given, or those that objects of pandas bring with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ldpopt.errors import InvalidInputError, InvalidTypeError


def checked_labels(labels: Sequence[str], d: int) -> tuple[str, ...]:
    """Return the names of d values as a tuple.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If they are a text or no sequence, or not d.
    """
    if isinstance(labels, str):  # a sequence too, of letters: of d letters, perhaps
        raise InvalidInputError(f"labels must be a sequence of {d} names, got the text {labels!r}")
    try:
        names = tuple(map(str, labels))
    except TypeError:
        raise InvalidTypeError(f"labels must be a sequence of {d} names, got {labels!r}") from None
    if len(names) != d:
        raise InvalidInputError(f"labels must be a sequence of {d} names, got {len(names)}")
    return names


def labels_of(values: Any) -> tuple[str, ...] | None:
    """Return the index of a Series of pandas as labels; None of anything else.

    The index that pandas makes by itself, 0 to d - 1, names nothing.

    Examples
    --------
    >>> labels_of([0.5, 0.25]) is None
    True
    """
    if not is_pandas(values, "Series") or type(values.index).__name__ == "RangeIndex":
        return None
    return tuple(map(str, values.index))


def is_pandas(values: Any, kind: str) -> bool:
    """Return whether an object is of a class of pandas, without importing it."""
    # Who has such an object has imported pandas; others do without.
    return any(
        parent.__name__ == kind and parent.__module__.partition(".")[0] == "pandas"
        for parent in type(values).__mro__
    )
