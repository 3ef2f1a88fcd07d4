"""Files that an analyst provides: the domain's labels, users' values, sets to query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from csv import Error, reader
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from ldpopt import validate
from ldpopt.collection.header import fingerprint
from ldpopt.collection.pages import check_pages
from ldpopt.collection.parquet import CLIENT_ID, is_name, opened
from ldpopt.collection.untrusted import check_regular, parse_json, read_text
from ldpopt.columns import COUNT, LABEL, VALUE, first_named
from ldpopt.errors import InvalidInputError, nearest, not_utf8, other_separator
from ldpopt.printable import counted

_NAMES = (VALUE, LABEL)  # of a column of values, the first that a file has

_ROWS = 1 << 16  # rows of Parquet read at a time
_WIDTH = 64  # bytes of a label: eight times as many are allowed on average, and a client id


@dataclass(frozen=True)
class Labels:
    """The names of ``d`` values: texts or, without them, their numbers from 0.

    Examples
    --------
    >>> Labels(2).names, Labels(2, ("red", "blue")).names
    (['0', '1'], ['red', 'blue'])
    """

    d: int
    texts: tuple[str, ...] | None = None

    @classmethod
    def read(cls, text: str) -> Labels:
        """Return the labels that a number of values or the name of a file stands for.

        A file has one label per line, or is a JSON list. Raises InvalidInputError if it cannot be
        read, its first line is a heading, or a label is empty or occurs twice; the first such line
        is named.
        """
        # A number of values, unless a file of that name is meant: write ./64 for it.
        if text.strip().isdecimal():
            return cls(_size(text))
        content = read_text(
            Path(text), f"the domain {text!r} is neither a number of values nor a file of labels"
        )
        is_json = text.lower().endswith(".json")
        labels = _json(text, content) if is_json else _lines(content)
        # In JSON a list has no heading.
        if not is_json:
            _refuse_heading(text, labels)
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise InvalidInputError(f"{text} must be a JSON list of labels")
        _require_distinct(text, labels)
        # After the check of each label, whose message says more.
        if len(labels) < 2:
            raise InvalidInputError(
                f"{text} has {counted(len(labels), 'label')}: a domain has at least 2 values, "
                "each on a line of its own"
            )
        return cls(len(labels), tuple(labels))

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the texts, if there are any."""
        return None if self.texts is None else fingerprint(self.texts)

    @property
    def names(self) -> list[str]:
        """The name of each value."""
        return list(map(str, range(self.d)) if self.texts is None else self.texts)

    def indices(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the indices of values given as text, -1 for text that is not in the domain."""
        if self.texts is not None:
            indices = pc.index_in(column, pa.array(self.texts))
        else:
            # Ten digits fit into int64; "01" and "+1" are not how a number is written here.
            plain = pc.match_substring_regex(column, r"^(0|[1-9][0-9]{0,9})$").fill_null(False)
            indices = pc.if_else(plain, column, None)
        values: NDArray[np.int64] = (
            indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        )
        return np.where(values < self.d, values, -1)

    def index(self, name: str) -> int:
        """Return the index of a label; raise InvalidInputError if the domain lacks it."""
        at = self._places.get(name)
        if at is None:
            raise InvalidInputError(f"{name!r} is {self.lacks(name)}")
        return at

    def lacks(self, name: object) -> str:
        """Return that the domain lacks a name, and what to do about it, for messages."""
        is_word = isinstance(name, str) and not name.isdecimal()
        hint = ""
        if is_word and self.texts is None:
            hint = "; name them by --domain FILE"
        elif is_word and self.texts is not None:
            close = nearest(name, self.texts)
            hint = f": did you mean {close[0]!r}?" if close else ""
        return f"not in the domain of {self.d} values{hint}"

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def sets(self, path: Path) -> dict[str, NDArray[np.int64]]:
        """Return the sets of a JSON file by name.

        The file holds an object of lists, or a list of lists, of labels or indices. Raises
        InvalidInputError if it does not, or names a value that is not in the domain, or has a
        number that is the index of one value and the label of another.
        """
        content = _json(str(path), read_text(path, f"cannot read the sets {path}"))
        # Sets without names are named by their numbers.
        sets = dict(enumerate(content)) if isinstance(content, list) else content
        lists = isinstance(sets, dict) and all(isinstance(group, list) for group in sets.values())
        if not lists or not sets:
            raise InvalidInputError(
                f"{path} must be an object of lists, or a list of lists, of labels or indices"
            )
        indices = {}
        for name, members in sets.items():
            # Arrays hold indices, whatever the labels are.
            places = [self._member(member, path, name) for member in members]
            indices[str(name)] = np.array(places, dtype=np.int64)
        return indices

    def _member(self, member: Any, path: Path, set_name: object) -> int:
        """Return the index of a member of a set, given as a label or an index."""
        # A label that looks like a number is still text: indices are numbers in JSON.
        if isinstance(member, str) and member in self._places:
            return self._places[member]
        # JSON's true and false are instances of int in Python.
        is_number = isinstance(member, int) and not isinstance(member, bool)
        if not is_number or not 0 <= member < self.d:
            raise InvalidInputError(
                f"{path}: {member!r} in set {set_name!r} is {self.lacks(member)}"
            )
        if self._places.get(str(member), member) != member:
            raise InvalidInputError(
                f"{path}: {member} in set {set_name!r} is the index of {self.names[member]!r}, and "
                f'the label of another value is "{member}": write the label as text, in quotes'
            )
        return int(member)


def read_values(path: Path, labels: Labels) -> Iterator[tuple[NDArray[np.int64], pa.Array | None]]:
    """Yield the values of a file as indices, batch by batch, with client ids if it has them.

    Parameters
    ----------
    path
        CSV or Parquet with the columns ``value`` or ``label`` (in Parquet text or whole numbers)
        and, optionally, ``client_id``; CSV of one column may have no heading, but no other one.
    labels
        The domain of the values.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, has other columns, is a table of counts, or a value is not in
        the domain; the first such line or row is named.
    """
    is_parquet = path.suffix.lower() == ".parquet"
    place, first, batches = _parquet_values(path) if is_parquet else _csv_values(path, labels)
    try:
        for column, ids in batches:
            values = labels.indices(column)
            # An index below 0 stands for a label that the domain does not have.
            if (values < 0).any():
                at = int(np.argmax(values < 0))
                name = column[at].as_py()
                raise InvalidInputError(
                    f"{path}, {place} {first + at}: {name!r} is {labels.lacks(name)}"
                )
            yield values, ids
            first += len(values)
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from None


def has_heading(path: Path, labels: Labels) -> bool:
    """Return whether a file of values names its columns; errors are those of ``read_values``."""
    return path.suffix.lower() == ".parquet" or _heading(path, labels)[1]


Batches = Iterator[tuple[pa.Array, pa.Array | None]]


def _csv_values(path: Path, labels: Labels) -> tuple[str, int, Batches]:
    """Return what a place in a file is called, the number of the first, and its values as text."""
    names, headed = _heading(path, labels)
    name = first_named(names, *_NAMES)

    def batches() -> Batches:
        for batch in _batches(path, names, headed=headed):
            yield batch.column(name), batch.column(CLIENT_ID) if CLIENT_ID in names else None

    # Line numbers are those that an editor shows.
    return "line", 1 + headed, batches()


def _parquet_values(path: Path) -> tuple[str, int, Batches]:
    """Return the same of a Parquet file, whose rows are counted from 0."""
    check_regular(path, f"cannot read {path}")
    try:
        with opened(path) as source, pq.ParquetFile(source) as file:
            schema = file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from None
    name = first_named(schema.names, *_NAMES)
    if name is None:
        raise _no_values(path, schema.names)
    for wanted in (name, CLIENT_ID):
        if schema.names.count(wanted) > 1:
            raise InvalidInputError(f"{path} has more than one column {wanted!r}")
    kind = schema.field(name).type
    if not is_name(kind):
        raise InvalidInputError(
            f"{path}: the column {name!r} must hold text or whole numbers, found {kind}; with "
            "missing values pandas makes floats of whole numbers"
        )
    _refuse_counts(path, schema.names)
    columns = [wanted for wanted in (name, CLIENT_ID) if wanted in schema.names]

    def batches() -> Batches:
        with opened(path) as source, pq.ParquetFile(source) as file:
            groups = range(file.metadata.num_row_groups)
            # A page of a few bytes could ask for any memory.
            check_pages(file.metadata, path, groups, columns, _WIDTH, with_checksums=False)
            for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
                texts = batch.column(name).cast(pa.string())
                yield texts, batch.column(CLIENT_ID) if CLIENT_ID in columns else None

    return "row", 0, batches()


def _no_values(path: Path, names: Sequence[str]) -> InvalidInputError:
    """Return the error for a table in which no column is named as that of the values is."""
    return InvalidInputError(
        f"{path} has no column {VALUE!r} or {LABEL!r}: its columns are {', '.join(names)}; rename "
        f"the one that holds the values to {VALUE!r}"
    )


def _refuse_counts(path: Path, names: Sequence[str]) -> None:
    """Raise an InvalidInputError for a table of counts: each row of it would be one user."""
    if COUNT in names:
        raise InvalidInputError(
            f"{path} has a column {COUNT!r}, and each row is one user here: repeat every value as "
            "often as it was counted, or leave the column out if the rows are users"
        )


def _heading(path: Path, labels: Labels) -> tuple[list[str], bool]:
    """Return the columns' names, and whether the file's first line holds them."""
    check_regular(path, f"cannot read {path}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = next(reader(file), None)
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"cannot read {path}: {not_utf8(error)}") from None
    except (OSError, Error) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from None
    if first is None:
        raise InvalidInputError(f"{path} is empty")
    # An empty line has no field; it is an empty value.
    first = first or [""]
    # A heading decides, even where its words are labels too.
    if first_named(first, *_NAMES) is not None:
        for name in first:
            if first.count(name) > 1:
                raise InvalidInputError(f"{path} has more than one column {name!r}")
        _refuse_counts(path, first)
        return first, True
    if len(first) > 1:
        raise _no_values(path, first)
    # A word that is neither may be a misspelt value: taken for a heading, it would be lost.
    if labels.indices(pa.array(first, pa.string()))[0] < 0:
        raise InvalidInputError(
            f"{path}, line 1: {first[0]!r} is neither the heading {VALUE!r} or {LABEL!r} nor in "
            f"the domain of {labels.d} values{other_separator(first)}"
        )
    return [VALUE], False


def _batches(path: Path, names: list[str], *, headed: bool) -> Iterator[pa.RecordBatch]:
    with opened(path) as source:
        yield from csv.open_csv(
            source,
            read_options=csv.ReadOptions(
                column_names=names, skip_rows=int(headed), use_threads=False
            ),
            # An empty line is an empty value, which is then refused by its line.
            parse_options=csv.ParseOptions(ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
                include_columns=names,
            ),
        )


def _size(text: str) -> int:
    """Return the number of values that digits state."""
    # Python reads at most 4,300 digits: a longer number is refused by its length.
    digits = text.strip().lstrip("0")
    if len(digits) > 30:
        raise InvalidInputError(f"the domain is a number of {len(digits)} digits: too many values")
    return validate.integer("the domain", int(digits or "0"), minimum=2)


def _refuse_heading(path: str, lines: Sequence[str]) -> None:
    """Raise an InvalidInputError if the first of some labels names a column of values."""
    cells = re.split("[,;\t]", lines[0]) if lines else []
    # Plurals and capitals too: what stands above a list is for people.
    if any(cell.strip(' "').lower().removesuffix("s") in _NAMES for cell in cells):
        raise InvalidInputError(
            f"{path}, line 1: {lines[0]!r} is a heading, and would be a value of the domain: leave "
            "one label per line and nothing else; if it is a label, write the list as .json"
        )


def _require_distinct(name: str, labels: list[str]) -> None:
    line_of: dict[str, int] = {}
    for line, label in enumerate(labels, 1):
        if not label.strip():
            raise InvalidInputError(f"{name}: label {line} is empty")
        if any(map(_is_half, label)):
            raise InvalidInputError(
                f"{name}: label {line} is {label!r}, with half of a surrogate pair: no file in "
                "UTF-8 can hold it"
            )
        if label in line_of:
            raise InvalidInputError(
                f"{name}: label {line} is {label!r}, and so is label {line_of[label]}"
            )
        line_of[label] = line


def _is_half(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _lines(content: str) -> list[str]:
    """Return the lines of a text without their ends; only newlines end them."""
    # splitlines would end a label at each of seven other characters, which labels may contain.
    lines = content.removesuffix("\n").split("\n") if content else []
    # Windows ends a line with two characters.
    return [line.removesuffix("\r") for line in lines]


def _json(name: str, content: str) -> Any:
    try:
        return parse_json(content)
    except ValueError as error:
        raise InvalidInputError(f"{name} is not JSON: {error}") from None
