"""How reports are stored in a file: one row per report, in columns that follow from their form.

Reading trusts nothing: a column of any type is decoded to reports and, for each row that is not a
report, the reason why.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.oracles import GRR, FrequencyOracle
from ldpopt.oracles.forms import BitsForm, HashForm, IndexForm, ReportForm, Reports, SubsetForm

Codes = NDArray[np.uint8]
Decoded = tuple[Reports, Codes]
Columns = Sequence[pa.Array]
Fields = Sequence[str]
Cell = tuple[Any, int]
"""The value of a row of text, and the reason why it is not a report: 0 if it is one."""


class Reason(IntEnum):
    """Why a row is set aside; 0 for a report."""

    NONE = 0
    MISSING = 1
    NAN = 2
    TYPE = 3
    LENGTH = 4
    RANGE = 5
    PADDING = 6
    ORDER = 7
    NO_ID = 8
    DUPLICATE = 9
    LONG_ID = 10
    LABEL = 11

    @property
    def words(self) -> str:
        """The reason as the rejects file states it."""
        return _WORDS[self]


_WORDS = {
    Reason.NONE: "",
    Reason.MISSING: "missing value",
    Reason.NAN: "not a number (NaN)",
    Reason.TYPE: "wrong type",
    Reason.LENGTH: "wrong length",
    Reason.RANGE: "out of range",
    Reason.PADDING: "bits beyond the domain",
    Reason.ORDER: "not a set in ascending order",
    Reason.NO_ID: "missing client id",
    Reason.DUPLICATE: "duplicate client id",
    Reason.LONG_ID: "client id of more than 1,024 bytes",
    Reason.LABEL: "unknown label",
}


class Layout(ABC):
    """The columns of reports of one form.

    ``decode`` and ``parse`` return as many reports as there are rows, with zeros in place of rows
    that are not reports, and the rows' codes (``Reason``).
    """

    names: tuple[str, ...] = ("report",)
    form: ReportForm
    """How decoded reports are held: what counts them."""
    work: int
    """Number of values that counting one report touches."""
    width: int
    """Bytes of a report."""
    repeated: tuple[str, ...] = ()
    """Paths of columns whose few values come again and again: a dictionary reads them faster."""
    shares_cores = False
    """Whether counting uses all cores by itself, so that two threads must not count at once."""

    @property
    @abstractmethod
    def types(self) -> tuple[pa.DataType, ...]:
        """Arrow types of the columns."""

    @abstractmethod
    def encode(self, reports: Reports) -> list[pa.Array]:
        """Return the columns of reports as ``oracle.perturb`` returns them."""

    @abstractmethod
    def decode(self, columns: Columns) -> Decoded:
        """Return the reports of columns of any type, and the rows' codes."""

    def reports(self, decoded: Reports) -> Reports:
        """Return decoded reports as ``oracle.perturb`` returns them."""
        return decoded

    @abstractmethod
    def text(self, reports: Reports) -> list[list[str]]:
        """Return one row of text per report."""

    @abstractmethod
    def parse(self, rows: Sequence[Fields]) -> Decoded:
        """Return the reports of rows of text with the right number of fields, and their codes."""


class IndexLayout(Layout):
    """One whole number in 0 .. high."""

    work = 1

    def __init__(self, form: IndexForm) -> None:
        self.form = form
        self.high = form.size - 1
        self.dtype = form.dtype
        self.width = self.dtype.itemsize

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The smallest unsigned type."""
        return (pa.from_numpy_dtype(self.dtype),)

    def encode(self, reports: Reports) -> list[pa.Array]:
        """Return the numbers."""
        return [pa.array(reports.astype(self.dtype, copy=False))]

    def decode(self, columns: Columns) -> Decoded:
        """Return the numbers of one column."""
        (column,) = columns
        return _integers(column, self.high, self.dtype)

    def text(self, reports: Reports) -> list[list[str]]:
        """Return decimal digits."""
        return [[str(index)] for index in reports.tolist()]

    def parse(self, rows: Sequence[Fields]) -> Decoded:
        """Return the numbers of decimal digits."""
        into = np.zeros(len(rows), self.dtype)
        return _parsed(rows, lambda row: _whole(row[0], self.high), into)


class LabelLayout(IndexLayout):
    """A value of the domain: its label as text, or its number.

    Only files of other programs have labels; the library's own hold numbers.
    """

    def __init__(self, form: IndexForm, labels: Sequence[str]) -> None:
        super().__init__(form)
        self._places = {label: place for place, label in enumerate(labels)}
        self._labels = pa.array(list(labels), pa.string())
        # UTF-8, and the four bytes in which Parquet states the length of a text.
        self.width = 4 + max(len(label.encode()) for label in labels)

    def decode(self, columns: Columns) -> Decoded:
        """Return the values of one column of labels or of numbers, as its type states."""
        column = _plain(columns[0])
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return super().decode(columns)
        codes = _nulls(column)
        places = pc.index_in(column.cast(pa.string()), self._labels)
        _note(codes, Reason.LABEL, where=_flags(places.is_null()))
        return places.fill_null(0).to_numpy().astype(self.dtype), codes

    def parse(self, rows: Sequence[Fields]) -> Decoded:
        """Return the values of rows of labels or of digits.

        Raises
        ------
        InvalidInputError
            If digits could mean either: a label is the number of another value.
        """
        self._require_single_meaning()
        return _parsed(rows, self._cell, np.zeros(len(rows), self.dtype))

    def _require_single_meaning(self) -> None:
        """Raise an error if a label is the number of another value."""
        for label, place in self._places.items():
            number, reason = _whole(label, self.high)
            if reason == Reason.NONE and number != place:
                raise InvalidInputError(
                    f"in text, {label!r} could be the label of value {place} or the number of "
                    f"value {number}: store the column in Parquet, as text if it has labels and "
                    "as whole numbers otherwise"
                )

    def _cell(self, row: Fields) -> Cell:
        """Return a value by its label, or else by its digits."""
        text = row[0]
        place = self._places.get(text)
        if place is not None:
            return place, Reason.NONE
        value, reason = _whole(text, self.high)
        # What is no number was meant as a label.
        return value, Reason.LABEL if reason == Reason.TYPE else reason


class BitsLayout(Layout):
    """``d`` bits packed into bytes, as in ``BitsForm``; hexadecimal in text."""

    def __init__(self, form: BitsForm) -> None:
        self.form: BitsForm = form
        self.work = form.d
        self.width = form.width
        self._padding = form.padding

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """Binary of fixed size."""
        return (pa.binary(self.width),)

    def encode(self, reports: Reports) -> list[pa.Array]:
        """Return the bytes of each row."""
        # Arrow takes the rows as they are in memory.
        rows = np.ascontiguousarray(reports, dtype=np.uint8)
        # The first buffer would say which rows are null: none is.
        buffers = [None, pa.py_buffer(rows)]
        kind = pa.binary(self.width)
        return [pa.FixedSizeBinaryArray.from_buffers(kind, len(rows), buffers)]

    def decode(self, columns: Columns) -> Decoded:
        """Return the bytes of a column of fixed or variable size."""
        (column,) = columns
        if pa.types.is_dictionary(column.type):
            return self._looked_up(column)
        codes = _nulls(column)
        kind = column.type
        rows = np.zeros((len(column), self.width), dtype=np.uint8)
        if pa.types.is_fixed_size_binary(kind):
            if kind.byte_width != self.width:
                _note(codes, Reason.LENGTH)
            elif len(column):
                rows = self._stored(column)
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            # A null has its reason already: it passes here as if it had the right length.
            lengths = pc.binary_length(column).fill_null(self.width).to_numpy()
            _note(codes, Reason.LENGTH, where=lengths != self.width)
            self._copy_texts(column, codes == 0, rows)
        else:
            _note(codes, Reason.TYPE)
        return self._checked(rows, codes)

    def _looked_up(self, column: pa.Array) -> Decoded:
        """Return the rows of a column with a dictionary, each entry of which is decoded once."""
        # One row more, of zeros, for rows without a value.
        entries, entry_codes = self.decode([column.dictionary])
        entries = np.concatenate([entries, np.zeros((1, self.width), np.uint8)])
        entry_codes = np.append(entry_codes, np.uint8(Reason.MISSING))
        at = column.indices.fill_null(len(column.dictionary)).to_numpy()
        return entries[at], entry_codes[at]

    def _copy_texts(self, column: pa.Array, right: NDArray[np.bool_], rows: Reports) -> None:
        """Copy the bytes of the rows that have the right length."""
        texts = column.filter(pa.array(right)).to_pylist()
        # Bytes of variable size lie apart in memory: joined, they are one array.
        content = np.frombuffer(b"".join(texts), dtype=np.uint8)
        rows[right] = content.reshape(-1, self.width)

    def _stored(self, column: pa.Array) -> Reports:
        """Return the rows of a column of this width, without a copy."""
        # The second buffer of a column holds its values, the first which of them are null.
        stored = np.frombuffer(column.buffers()[1], dtype=np.uint8)
        # A slice of a column shares its buffer.
        first = column.offset * self.width
        last = (column.offset + len(column)) * self.width
        return stored[first:last].reshape(-1, self.width)

    def text(self, reports: Reports) -> list[list[str]]:
        """Return hexadecimal digits."""
        rows = np.ascontiguousarray(reports, dtype=np.uint8)
        return [[row.tobytes().hex()] for row in rows]

    def parse(self, rows: Sequence[Fields]) -> Decoded:
        """Return the bytes of hexadecimal digits."""
        into = np.zeros((len(rows), self.width), np.uint8)
        return self._checked(*_parsed(rows, self._cell, into))

    def _cell(self, row: Fields) -> Cell:
        if not row[0]:
            return 0, Reason.MISSING
        # bytes.fromhex would accept blanks.
        if re.fullmatch(r"[0-9a-fA-F]+", row[0]) is None:
            return 0, Reason.TYPE
        if len(row[0]) != 2 * self.width:
            return 0, Reason.LENGTH
        return list(bytes.fromhex(row[0])), Reason.NONE

    def _checked(self, rows: Reports, codes: Codes) -> Decoded:
        stray = rows[:, -1] & self._padding
        _note(codes, Reason.PADDING, where=stray != 0)
        return rows, codes


class HashLayout(Layout):
    """A 64-bit seed and a bucket in 0 .. g-1."""

    names = ("seed", "bucket")
    shares_cores = True
    _LARGEST_SEED = 2**64 - 1

    def __init__(self, form: HashForm) -> None:
        self.form = form
        self.work = form.d
        self.g = form.g
        self.dtype = form.dtype
        self.width = self.dtype.itemsize

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """Unsigned 64 bits and the smallest unsigned type."""
        return pa.uint64(), pa.from_numpy_dtype(self.dtype["bucket"])

    def encode(self, reports: Reports) -> list[pa.Array]:
        """Return seeds and buckets."""
        columns = []
        for name in self.names:
            # A field of records lies between the others: Arrow wants it by itself.
            values = np.ascontiguousarray(reports[name], dtype=self.dtype[name])
            columns.append(pa.array(values))
        return columns

    def decode(self, columns: Columns) -> Decoded:
        """Return the records of two columns."""
        seeds, seed_codes = _integers(columns[0], self._LARGEST_SEED, self.dtype["seed"])
        buckets, bucket_codes = _integers(columns[1], self.g - 1, self.dtype["bucket"])
        reports = np.empty(len(seeds), dtype=self.dtype)
        reports["seed"] = seeds
        reports["bucket"] = buckets
        # A row has one reason: the seed's, where both are wrong.
        return reports, np.where(seed_codes > 0, seed_codes, bucket_codes)

    def text(self, reports: Reports) -> list[list[str]]:
        """Return decimal digits of both."""
        return [[str(seed), str(bucket)] for seed, bucket in reports.tolist()]

    def parse(self, rows: Sequence[Fields]) -> Decoded:
        """Return the records of decimal digits."""
        return _parsed(rows, self._cell, np.zeros(len(rows), self.dtype))

    def _cell(self, row: Fields) -> Cell:
        seed, seed_code = _whole(row[0], self._LARGEST_SEED)
        bucket, bucket_code = _whole(row[1], self.g - 1)
        return (seed, bucket), seed_code or bucket_code


class SubsetLayout(Layout):
    """``k`` distinct values of a domain of d in ascending order; separated by blanks in text."""

    repeated = ("report.list.element",)

    def __init__(self, form: SubsetForm) -> None:
        self.form = form
        self.d = form.d
        self.k = form.k
        self.work = form.k
        self.dtype = form.dtype
        self.width = form.k * self.dtype.itemsize

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """A list of fixed size, without nulls: levels that state them take a quarter of reading."""
        member = pa.field("element", pa.from_numpy_dtype(self.dtype), nullable=False)
        return (pa.list_(member, self.k),)

    def encode(self, reports: Reports) -> list[pa.Array]:
        """Return the lists."""
        sets = np.ascontiguousarray(reports, dtype=self.dtype)
        members = pa.array(sets.reshape(-1))
        return [pa.FixedSizeListArray.from_arrays(members, type=self.types[0])]

    def decode(self, columns: Columns) -> Decoded:
        """Return the sets of a column of lists of fixed or variable size."""
        (only,) = columns
        column = _plain(only)
        codes = self._list_codes(column)
        if not codes.any():
            members, member_codes = _integers(column.flatten(), self.d - 1, self.dtype)
            sets = members.reshape(-1, self.k)
            # Nearly always every member is one, and nothing is left to note.
            if member_codes.any():
                codes = member_codes.reshape(-1, self.k).max(axis=1)
            return self._checked(sets, codes)
        whole = np.flatnonzero(codes == 0)
        sets = np.zeros((len(column), self.k), self.dtype)
        if whole.size:
            # Without its nulls and lists of other lengths, the flat column has k members per list.
            lists = column.take(pa.array(whole))
            members, member_codes = _integers(lists.flatten(), self.d - 1, self.dtype)
            sets[whole] = members.reshape(-1, self.k)
            # One reason for a list: the largest code, as in text.
            by_list = member_codes.reshape(-1, self.k)
            codes[whole] = by_list.max(axis=1)
        return self._checked(sets, codes)

    def _list_codes(self, column: pa.Array) -> Codes:
        """Return the codes of rows by type and length of their lists."""
        codes = _nulls(column)
        kind = column.type
        if pa.types.is_fixed_size_list(kind):
            if kind.list_size != self.k:
                _note(codes, Reason.LENGTH)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            # As for bits: a null keeps the reason that it has.
            lengths = pc.list_value_length(column).fill_null(self.k).to_numpy()
            _note(codes, Reason.LENGTH, where=lengths != self.k)
        else:
            _note(codes, Reason.TYPE)
        return codes

    def text(self, reports: Reports) -> list[list[str]]:
        """Return the members of each set, separated by blanks."""
        return [[" ".join(map(str, members))] for members in reports.tolist()]

    def parse(self, rows: Sequence[Fields]) -> Decoded:
        """Return the sets of decimal digits."""
        into = np.zeros((len(rows), self.k), self.dtype)
        return self._checked(*_parsed(rows, self._cell, into))

    def _cell(self, row: Fields) -> Cell:
        cells = [_whole(member, self.d - 1) for member in row[0].split()]
        values = [value for value, _ in cells]
        # The largest code stands for all of a row's: any would do, as long as it is always the same
        # one.
        code = max((code for _, code in cells), default=Reason.MISSING)
        if code == 0 and len(values) != self.k:
            code = Reason.LENGTH
        return values, code

    def _checked(self, sets: Reports, codes: Codes) -> Decoded:
        # Strictly ascending: a member that is repeated is refused with the same comparison.
        in_order = sets[:, 1:] > sets[:, :-1]
        # All at once takes a tenth of the time of all rows by themselves.
        if not in_order.all():
            _note(codes, Reason.ORDER, where=~np.all(in_order, axis=1))
        return sets, codes


class PackedSubsetLayout(BitsLayout):
    """Sets of ``k`` values as d bits: they are read and counted as bits are."""

    def __init__(self, form: SubsetForm) -> None:
        super().__init__(BitsForm(form.d))
        self._sets = form

    def encode(self, reports: Reports) -> list[pa.Array]:
        """Return the bytes of each set."""
        return super().encode(self._sets.support_bits(reports))

    def reports(self, decoded: Reports) -> Reports:
        """Return the members of each set in ascending order."""
        return self._sets.unpacked(decoded)

    def _checked(self, rows: Reports, codes: Codes) -> Decoded:
        rows, codes = super()._checked(rows, codes)
        _note(codes, Reason.LENGTH, where=_ones(rows) != self._sets.k)
        return rows, codes


_LAYOUTS: Mapping[str, Callable[[Any], Layout]] = {
    "index": IndexLayout,
    "bits": BitsLayout,
    "hash": HashLayout,
    "subset": SubsetLayout,
}


def layout_of(oracle: FrequencyOracle, labels: Sequence[str] | None = None) -> Layout:
    """Return the layout of an oracle's reports, which follows from their form.

    With labels, reports that are values of the domain may be stored as their labels.

    Raises InvalidInputError for a form of an unknown kind.

    Examples
    --------
    >>> from ldpopt.oracles import OUE
    >>> layout_of(OUE(epsilon=1.0, d=12)).types
    (FixedSizeBinaryType(fixed_size_binary[2]),)
    """
    form = oracle.report_form
    # Reports of Hadamard response are numbers too, but not of values.
    if labels is not None and isinstance(oracle, GRR) and isinstance(form, IndexForm):
        return LabelLayout(form, labels)
    return validate.lookup("kind of reports", form.kind, _LAYOUTS)(form)


def parquet_layout(oracle: FrequencyOracle) -> Layout:
    """Return the layout in which Parquet files of the library hold an oracle's reports.

    Sets are bits wherever these take less room: nearly always, but for large budgets.

    Examples
    --------
    >>> from ldpopt.oracles import SubsetSelection
    >>> [parquet_layout(SubsetSelection(epsilon, d=1024)).width for epsilon in (1.0, 4.0, 8.0)]
    [128, 36, 2]
    """
    form = oracle.report_form
    sets = layout_of(oracle)
    if isinstance(form, SubsetForm):
        bits = PackedSubsetLayout(form)
        return bits if bits.width < sets.width else sets
    return sets


def stored_layout(oracle: FrequencyOracle, kind: pa.DataType | None) -> Layout:
    """Return the layout of a Parquet file of the library, by the type of its first column.

    Sets were lists in all files up to version 3 of the format.
    """
    form = oracle.report_form
    if isinstance(form, SubsetForm) and kind is not None and pa.types.is_fixed_size_binary(kind):
        return PackedSubsetLayout(form)
    return layout_of(oracle)


def _ones(rows: Reports) -> NDArray[np.int64]:
    """Return the number of bits of each row that are 1."""
    n, width = rows.shape
    # By words: a sum along short rows of bytes takes several times as long.
    words = np.zeros((n, -(-width // 8)), dtype=np.uint64)
    words.view(np.uint8)[:, :width] = rows
    return np.asarray(np.bitwise_count(words).sum(axis=1, dtype=np.int64))


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _note(codes: Codes, reason: Reason, where: NDArray[np.bool_] | None = None) -> None:
    """Set the code of rows that have none yet, of those alone that are flagged if any are.

    The first reason that was found stays: a row has one.
    """
    is_open = codes == 0
    if where is not None:
        is_open &= where
    codes[is_open] = reason


def _nulls(column: pa.Array) -> Codes:
    """Return codes of rows: a reason for those without a value."""
    if not column.null_count:
        return np.zeros(len(column), dtype=np.uint8)
    codes = np.zeros(len(column), dtype=np.uint8)
    codes[_flags(column.is_null())] = Reason.MISSING
    return codes


def _flags(column: pa.Array) -> NDArray[np.bool_]:
    """Return a column of truth values, which Arrow keeps as bits: hence the copy."""
    flags: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
    return flags


def _integers(column: pa.Array, high: int, dtype: np.dtype[Any]) -> Decoded:
    """Return whole numbers in 0 .. high.

    Floats are not reports, even if they are whole: a seed would have lost its last digits.
    """
    column = _plain(column)
    codes = _nulls(column)
    if not pa.types.is_integer(column.type):
        if pa.types.is_floating(column.type):
            # Arrow 17 has no kernel for half floats; nulls become NaN, but have their code already.
            _note(codes, Reason.NAN, where=np.isnan(column.to_numpy(zero_copy_only=False)))
        _note(codes, Reason.TYPE)
        return np.zeros(len(column), dtype), codes
    # Nulls become 0, in range; their code is already set.
    filled = column.fill_null(0) if column.null_count else column
    numbers = filled.to_numpy(zero_copy_only=False)
    # Two extremes are found without an array: nearly always all numbers are in range.
    if len(numbers) and (numbers.min() < 0 or numbers.max() > high):
        # Before the conversion, which would wrap around.
        outside = (numbers < 0) | (numbers > high)
        _note(codes, Reason.RANGE, where=outside)
    if codes.any():
        numbers = np.where(codes == 0, numbers, 0)
    return numbers.astype(dtype, copy=False), codes


def _whole(text: str, high: int) -> Cell:
    """Return the whole number in 0 .. high that a text stands for, or why it is not one."""
    if not text:
        return 0, Reason.MISSING
    if text.lower() == "nan":
        return 0, Reason.NAN
    # At most 30 digits, so that no text takes long to convert; more are out of range anyway.
    if re.fullmatch(r"-?[0-9]{1,30}", text) is None:
        return 0, Reason.TYPE
    value = int(text)
    if not 0 <= value <= high:
        return 0, Reason.RANGE
    return value, Reason.NONE


def _parsed(rows: Sequence[Fields], cell: Callable[[Fields], Cell], into: Reports) -> Decoded:
    """Fill ``into`` row by row: text is for small files."""
    codes = np.zeros(len(rows), dtype=np.uint8)
    for i, row in enumerate(rows):
        value, codes[i] = cell(row)
        if codes[i] == 0:
            into[i] = value
    return into, codes
