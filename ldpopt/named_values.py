"""Values of the domain that are named by their labels, where indices could stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from ldpopt.errors import InvalidInputError, nearest

# Of what a list of indices holds: none of them has a label in it.
_NUMBERS = frozenset((int, float, np.int64, np.float64))


class Places:
    """Where each label of a domain stands.

    Parameters
    ----------
    labels
        Names of the values; the index of each is its place.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.index = {label: place for place, label in enumerate(labels)}
        numbers = Counter(labels) if len(self.index) < len(labels) else Counter()
        self._shared = {label for label, number in numbers.items() if number > 1}

    def of(self, label: object, what: str) -> int:
        """Return the index of a label that ``what`` has.

        Raises
        ------
        InvalidInputError
            If it is no label, or that of several values.
        """
        # Any one of these values alone would be a part of what is meant.
        if isinstance(label, str) and label in self._shared:
            raise InvalidInputError(
                f"{what} has {label!r}, which is the label of several values: pass their indices"
            )
        if isinstance(label, str) and label in self.index:
            return self.index[label]
        close = nearest(label, self.index) if isinstance(label, str) else []
        remedy = f"did you mean {close[0]!r}?" if close else "see estimate.labels"
        raise InvalidInputError(
            f"{what} has {label!r}, which is no label of this estimate: {remedy}"
        )


@dataclass(frozen=True, eq=False)
class Named:
    """An argument that names values by their labels, which an estimate gives their places.

    Attributes
    ----------
    what
        The argument, for messages.
    stated
        A label, or labels and indices in lists of any depth.
    """

    what: str
    stated: Any

    @classmethod
    def of(cls, what: str, values: Any, depth: int) -> Named | None:
        """Return what an argument names by labels; None without any label in it.

        A text in fewer lists than ``depth`` is no label, but one that stands for its letters.
        """
        if not has_labels(values):
            return None
        stated = _listed(values)
        return cls(what, stated) if _depth(stated) >= depth else None

    def by(self, labels: Sequence[str] | None) -> Any:
        """Return the same with an index for every label.

        Raises
        ------
        InvalidInputError
            If there are no labels, or one is unknown or that of several values.
        """
        if labels is None:
            raise InvalidInputError(
                f"{self.what} has the label {next(_labels_in(self.stated))!r}, and the estimate "
                "has no labels: pass labels=... where the estimate is made, or indices from 0"
            )
        places = Places(labels)
        require_one_reading(self.what, self.stated, places.index, labels)
        return _placed(self.stated, lambda label: places.of(label, self.what))

    def by_itself(self) -> Any:
        """Return the same with places in the order in which labels occur, beside its numbers.

        Constructors check with it what can be checked before there is an estimate.
        """
        # A label at the place of a number would seem to be a repetition of it.
        taken = set(numbers_in(self.stated))
        free = (place for place in count() if place not in taken)
        index = dict(zip(dict.fromkeys(_labels_in(self.stated)), free, strict=False))
        return _placed(self.stated, index.__getitem__)


def has_labels(value: Any) -> bool:
    """Return whether an argument is a text, or a list or an array with a text in it."""
    if isinstance(value, str):
        return True
    if isinstance(value, list | tuple):
        # Long lists are of numbers, and a look at types takes a fifth of one at each entry.
        return not _NUMBERS.issuperset(map(type, value)) and any(map(has_labels, value))
    return _may_hold_texts(value) and has_labels(np.asarray(value).tolist())


def _may_hold_texts(value: Any) -> bool:
    # Of numpy, pandas or polars; a class has the methods of its instances, and is none of them.
    if isinstance(value, type) or not hasattr(value, "__array__"):
        return False
    array = np.asarray(value)
    # What numpy cannot look into is an array without axes, of itself.
    return array.ndim > 0 and array.dtype.kind in "UO"


def _listed(value: Any) -> Any:
    """Return an argument with lists in place of tuples and arrays."""
    if _may_hold_texts(value):
        value = np.asarray(value).tolist()
    elif isinstance(value, np.ndarray):
        return value.tolist()
    return [_listed(member) for member in value] if isinstance(value, list | tuple) else value


def _depth(value: Any) -> int:
    """Return in how many lists labels stand at least."""
    if isinstance(value, str):
        return 0
    depths = [_depth(member) for member in value if isinstance(member, str | list)]
    return 1 + min(depths, default=1)


def numbers_in(value: Any) -> Iterator[int]:
    """Yield the whole numbers in an argument; in an array or a range they are indices for sure."""
    if isinstance(value, int | np.integer):
        if not isinstance(value, bool):
            yield int(value)
    # An index of pandas holds labels, and these may be numbers.
    elif np.iterable(value) and not isinstance(value, str | range | np.ndarray):
        for member in value:
            yield from numbers_in(member)


def require_one_reading(
    what: str, stated: Any, index: Mapping[str, int], labels: Sequence[str]
) -> None:
    """Raise an error if a number is the index of one value and the label of another.

    Parameters
    ----------
    what
        The argument, for the message.
    stated
        A number, or numbers in lists of any depth; other members are passed over.
    index
        Of each label.
    labels
        Names of the values.
    """
    for member in numbers_in(stated):
        place = index.get(str(member), member)
        if place == member:
            continue
        at_index = f"labelled {labels[member]!r}" if 0 <= member < len(labels) else "none"
        # One value alone, such as a mode, cannot be an array.
        is_alone = isinstance(stated, int | np.integer)
        arrays = f"the indices as an array, np.array([{member}])"
        as_index = "the label of that index" if is_alone else arrays
        raise InvalidInputError(
            f"{what} has the number {member}: the value of that index is {at_index}, and the "
            f"label {str(member)!r} is at index {place}; pass the text {str(member)!r} for the "
            f"label, or {as_index}"
        )


def _labels_in(value: Any) -> Iterator[str]:
    """Yield the labels in an argument, in their order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for member in value:
            yield from _labels_in(member)


def _placed(value: Any, place_of: Callable[[str], int]) -> Any:
    if isinstance(value, str):
        return place_of(value)
    return [_placed(member, place_of) for member in value] if isinstance(value, list) else value
