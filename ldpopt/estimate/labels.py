"""Names of values, as they are given."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.frames import texts_of


def checked_labels(labels: Sequence[str], d: int) -> tuple[str, ...]:
    """Return the names of d values as a tuple.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If they are a text, a set or no sequence, or not d, or one is missing.
    """
    if isinstance(labels, str):  # a sequence too, of letters: of d letters, perhaps
        raise InvalidInputError(f"labels must be a sequence of {d} names, got the text {labels!r}")
    # A set has another order in each process: values would swap their names.
    if isinstance(labels, Set):
        raise InvalidTypeError(f"labels must be in the order of the values, got {labels!r}")
    try:
        names = texts_of(labels)
    except TypeError:
        raise InvalidTypeError(f"labels must be a sequence of {d} names, got {labels!r}") from None
    if len(names) != d:
        raise InvalidInputError(f"labels must be a sequence of {d} names, got {len(names)}")
    return names
