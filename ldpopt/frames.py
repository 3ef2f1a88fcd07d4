"""Numbers with labels: a Series of pandas, or the one column of numbers of a data frame.

Neither pandas nor polars is imported: who has such an object has imported its package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.columns import COUNT, FREQUENCY, LABEL, VALUE
from ldpopt.errors import InvalidInputError, InvalidTypeError, nearest

# Names by which columns are known where there are several of numbers, as in CSV files.
_LABELS = (LABEL, VALUE)
_NUMBERS = (COUNT, FREQUENCY)

_SHOWN = 5  # columns that a message names


class Column(NamedTuple):
    """A column of numbers: its name, its values, and the labels of its rows, if they have any."""

    name: str
    numbers: NDArray[Any]
    labels: tuple[str, ...] | None


def is_from(values: Any, kind: str, *packages: str) -> bool:
    """Return whether an object is of a class of one of some packages, without importing it."""
    return any(
        parent.__name__ == kind and parent.__module__.partition(".")[0] in packages
        for parent in type(values).__mro__
    )


def is_frame(values: Any) -> bool:
    """Return whether an object is a DataFrame."""
    return is_from(values, "DataFrame", "pandas", "polars")


def numbers_of(values: Any) -> Any:
    """Return the column of numbers of a DataFrame, and anything else as it is.

    numpy would make a stack of it, with one trial per row.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        See ``column_of``.
    """
    return column_of(values).numbers if is_frame(values) else values


def column_of(frame: Any) -> Column:
    """Return the one column of numbers of a DataFrame.

    Labels are those of the only other column, or else the index of pandas. Where several columns
    have numbers, those of the names ``label`` (or ``value``) and ``count`` (or ``frequency``) are
    meant, as in CSV files.

    Raises
    ------
    InvalidTypeError
        If no column has numbers.
    InvalidInputError
        If several could be meant, or a label occurs twice.
    """
    if is_from(frame, "DataFrame", "polars"):
        series = frame.get_columns()
    else:
        # By place: two columns may have one name.
        series = [frame.iloc[:, place] for place in range(frame.shape[1])]
    names = [str(name) for name in frame.columns]
    columns = [np.asarray(one) for one in series]
    number, label = _chosen(names, columns)
    labels = None
    if label is not None:
        labels = texts_of(columns[label].tolist())
    # Row numbers that pandas makes up are no labels.
    elif hasattr(frame, "index") and not _is_made_up(frame.index):
        labels = texts_of(frame.index)
    if labels is not None:
        _require_distinct(labels)
    return Column(names[number], columns[number], labels)


def _is_made_up(index: Any) -> bool:
    """Return whether an index is the one that pandas makes by itself, 0 to d - 1.

    A series that is reversed or sliced keeps a range too, but one that names where each row was.
    """
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def may_have_labels(values: Any) -> bool:
    """Return whether an object is a DataFrame, or a Series of pandas."""
    return is_frame(values) or is_from(values, "Series", "pandas")


# What str() makes of missing values: None, NaN, and those of pandas.
_MISSING = frozenset({"None", "nan", "NaT", "<NA>"})


def texts_of(labels: Iterable[Any]) -> tuple[str, ...]:
    """Return labels as texts.

    Raises
    ------
    InvalidInputError
        If one is missing, such as None or NaN: it would be the label 'None' or 'nan'.

    Examples
    --------
    >>> texts_of(["cat", 7])
    ('cat', '7')
    """
    given = tuple(labels)
    texts = tuple(map(str, given))
    # The texts themselves may be names of values: the first look finds hardly any.
    if not _MISSING.isdisjoint(texts):
        for place, (label, text) in enumerate(zip(given, texts, strict=True)):
            if text in _MISSING and not isinstance(label, str):
                raise InvalidInputError(
                    f"labels must name every value, got {text} at index {place}: give it a name "
                    "(pandas reads texts such as NA as missing, unless keep_default_na=False)"
                )
    return texts


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
    if not is_from(values, "Series", "pandas") or _is_made_up(values.index):
        return None
    return texts_of(values.index)


def entries_of(values: Any) -> dict[Any, Any] | None:
    """Return what a mapping or a Series of pandas states of each key; None of anything else.

    The keys of a Series are its index, as text unless it is the one that pandas makes by itself.
    """
    if isinstance(values, Mapping):
        return dict(values)
    if not is_from(values, "Series", "pandas"):
        return None
    keys = labels_of(values) or tuple(values.index)
    return dict(zip(keys, values.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Labelled:
    """One number per label, which belong to the values of these names wherever they stand.

    Attributes
    ----------
    what
        The argument, for messages.
    numbers, labels
        Both in the same order, that of the last axis; the numbers are a copy.
    rest
        The number of all values without a label here; None if each must have its own.
    """

    what: str
    numbers: NDArray[Any]
    labels: tuple[str, ...]
    rest: float | None = None

    @classmethod
    def of(cls, what: str, values: Any) -> Labelled | None:
        """Return the numbers of an object of pandas or polars with its labels; None without any."""
        labels = labels_of(values)
        return None if labels is None else cls(what, np.array(numbers_of(values)), labels)

    @classmethod
    def of_columns(cls, what: str, frame: Any) -> Labelled | None:
        """Return the matrix of a DataFrame of pandas with the names of its columns, or None."""
        if not is_from(frame, "DataFrame", "pandas"):
            return None
        if _is_made_up(frame.columns):
            return None
        return cls(what, np.array(frame), tuple(map(str, frame.columns)))

    @classmethod
    def of_mappings(cls, what: str, rows: Any, rest: float | None) -> Labelled | None:
        """Return the numbers of a mapping from labels, or one row per mapping in a list; or None.

        ``rest`` is that of the class; rows need one, unless all name the same values.

        Raises
        ------
        InvalidTypeError
            If a key is no text, or what it has is no number.
        """
        mappings = rows if isinstance(rows, list | tuple) else [rows]
        if not mappings or not all(isinstance(row, Mapping) for row in mappings):
            return None
        for row in mappings:
            for key, number in row.items():
                if not isinstance(key, str) or isinstance(number, str) or np.ndim(number):
                    raise InvalidTypeError(
                        f"{what} must map labels to numbers, found {key!r}: {number!r}"
                        + ("" if isinstance(key, str) else f"; a label is a text, '{key}'")
                    )
        labels = tuple(dict.fromkeys(label for row in mappings for label in row))
        if not labels:
            raise InvalidInputError(f"{what} must map labels to numbers, and the mapping is empty")
        numbers = np.array([[row.get(label, rest) for label in labels] for row in mappings], float)
        return cls(what, numbers if mappings is rows else numbers[0], labels, rest)

    def by_itself(self) -> NDArray[Any]:
        """Return the numbers as they are."""
        return self.numbers

    def by(self, labels: Sequence[str] | None) -> NDArray[Any]:
        """Return the numbers in the order of some labels; as they are without any.

        Raises
        ------
        InvalidInputError
            If a label is missing, unknown, or there twice, or only some values have a number and
            there are no labels.
        """
        if labels is None and self.rest is not None:
            raise InvalidInputError(
                f"{self.what} goes by labels, {self.labels[0]!r} first, and the estimate has none: "
                "pass labels=... where the estimate is made, or an array with a number per value"
            )
        if labels is None or tuple(labels) == self.labels:
            return self.numbers
        places = {label: place for place, label in enumerate(self.labels)}
        wanted = dict.fromkeys(labels)
        missing = [label for label in wanted if label not in places]
        unknown = [label for label in places if label not in wanted]
        if missing and self.rest is None:
            raise self._refused(f"has no number for {missing[0]!r}")
        if unknown:
            close = nearest(unknown[0], wanted)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise self._refused(f"has a number for {unknown[0]!r}, which is no value{hint}")
        for names in (self.labels, labels):
            if len(wanted) < len(names):
                twice = next(label for label in wanted if list(names).count(label) > 1)
                raise self._refused(f"leaves open which {twice!r} is meant, which is there twice")
        if self.rest is None:
            return self.numbers[..., [places[label] for label in labels]]
        result = np.full((*self.numbers.shape[:-1], len(labels)), self.rest)
        named = [place for place, label in enumerate(labels) if label in places]
        result[..., named] = self.numbers[..., [places[labels[place]] for place in named]]
        return result

    def _refused(self, reason: str) -> InvalidInputError:
        if self.rest is not None:
            return InvalidInputError(f"{self.what} {reason}: see estimate.labels")
        return InvalidInputError(
            f"{self.what} goes by its labels, and {reason}: pass one number per label of the "
            f"estimate, or {self.what}.to_numpy() if its order is that of the estimate"
        )


def by_label(what: str, values: Any, labels: Sequence[str] | None) -> Any:
    """Return labelled numbers in the order of some labels, and anything else as it is.

    Raises
    ------
    InvalidInputError
        See ``Labelled.by``.

    Examples
    --------
    >>> by_label("the truth", [0.5, 0.25], ["a", "b"])
    [0.5, 0.25]
    """
    labelled = Labelled.of(what, values)
    return values if labelled is None else labelled.by(labels)


def _chosen(names: Sequence[str], columns: Sequence[NDArray[Any]]) -> tuple[int, int | None]:
    """Return the places of the column of numbers, and of the one of labels, if there is one."""
    named_numbers = [place for place, name in enumerate(names) if name in _NUMBERS]
    named_labels = [place for place, name in enumerate(names) if name in _LABELS]
    if len(named_numbers) == 1 and len(named_labels) == 1:
        return named_numbers[0], named_labels[0]
    # Of whole and real numbers; dates and truth values are no frequencies.
    numeric = [place for place, column in enumerate(columns) if column.dtype.kind in "iuf"]
    others = [place for place in range(len(columns)) if place not in numeric]
    if not numeric:
        raise InvalidTypeError(
            f"a DataFrame needs a column of numbers without gaps; this one has {_list_of(names)}: "
            "count the values first (value_counts), or fill the gaps"
        )
    if len(numeric) > 1:
        if len(columns[0]) == 1:
            raise InvalidInputError(
                f"a DataFrame needs a row per value, and this one has one row and "
                f"{_list_of(names)}: pass the row, in pandas frame.iloc[0]"
            )
        # A name of the user's own in the message: it can be copied.
        first = names[numeric[0]]
        raise InvalidInputError(
            f"a DataFrame with several columns of numbers has no single meaning: of "
            f"{_list_of(names)} pass one, such as frame[{first!r}]; if its rows are trials, pass "
            "frame.to_numpy()"
        )
    if len(others) > 1:
        raise InvalidInputError(
            f"which column has the labels is open: of {_list_of(names)} keep {names[numeric[0]]!r} "
            "and one of labels"
        )
    return numeric[0], others[0] if others else None


def _list_of(names: Sequence[str]) -> str:
    """Return the first few names of columns, as a message states them."""
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return f"the columns {shown}, …" if len(names) > _SHOWN else f"the columns {shown or '(none)'}"


def _require_distinct(labels: Sequence[str]) -> None:
    """Raise an error for a label that occurs twice."""
    seen = set()
    for label in labels:
        if label in seen:
            raise InvalidInputError(
                f"the label {label!r} occurs twice in a DataFrame: add up the numbers of each "
                "label first (groupby)"
            )
        seen.add(label)
