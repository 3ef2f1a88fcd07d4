"""Reports in CSV, for small files.

The first line holds the names of the columns. In a file of this library the last of these is the
header, a text of JSON with the file's checksum and its number of rows: a column that is empty in
every row. So the file is one rectangular table, which other programs read as it is.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from ldpopt import validate
from ldpopt.collection.header import Header
from ldpopt.collection.layout import Codes, Layout, Reason, layout_of
from ldpopt.collection.parquet import CLIENT_ID, readable, require_columns
from ldpopt.collection.schema import Schema
from ldpopt.collection.seal import Seal, sealed
from ldpopt.collection.untrusted import parse_json
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.oracles.forms import Reports
from ldpopt.printable import counted

OLD_MARKS = ("# ldpopt reports ", "# ldpopt counts ")
"""With which files in CSV began up to version 2 of the format."""

_ROWS = 1 << 12  # rows of text held at a time,
_BYTES = 1 << 24  # or so many bytes of reports, where they are wide

# Bytes of a line beside its report: a client id, or what is not a report and is set aside.
_MORE = 1 << 17


def header_cell(record: object) -> str:
    """Return a header as the name of a column."""
    return json.dumps(record)


def headed(heading: Sequence[str]) -> bool:
    """Return whether the last column of a table is a header of this library."""
    return bool(heading) and '"sha256"' in heading[-1]


def parsed_header(heading: Sequence[str], path: Path) -> Any:
    """Return what the last column of a file of this library states.

    Raises
    ------
    InvalidInputError
        If there is none, the file is of an older format, or the header is not JSON.
    """
    if heading and heading[0].startswith(OLD_MARKS):
        raise InvalidInputError(
            f"{path} is CSV of version 2 of the format or older, with a line of its own for the "
            "header: read it with the ldpopt that wrote it, and write it anew with this one"
        )
    # What is empty has one column without a name.
    if heading == [""]:
        raise InvalidInputError(f"{path} is empty, or its first line is")
    if not headed(heading):
        raise InvalidInputError(
            f"{path} does not say which oracle made its reports: the last column of its first line "
            "must be the header; if another program wrote it, name its columns (Schema, --column)"
        )
    try:
        return parse_json(heading[-1])
    except ValueError as error:
        raise InvalidInputError(
            f"{path}: the header in its first line is not JSON: {error}"
        ) from None


class _Table:
    """Rows of a CSV file, of which some columns hold reports and perhaps one client ids."""

    path: Path
    header: Header
    layout: Layout
    has_ids: bool
    group_rows: list[int]
    digits: str | None = None
    """The checksum that the file states."""
    _columns: list[str]
    """The names in the first line."""
    _reports: list[int]
    """Where the columns of reports are among them."""
    _id: int = -1

    def batches(self, first: int, last: int) -> Iterator[tuple[Reports, Codes]]:
        """Yield the rows and the codes of those that are not reports.

        Raises DataUnavailableError if the file is cut short.
        """
        nothing = [""] * len(self._reports)
        for chunk in self._chunks(first, last):
            fits = np.array([self._fits(row) for row in chunk])
            # Rows of another length are replaced, to be parsed, and then set aside for it.
            rows = [
                [row[i] for i in self._reports] if is_whole else nothing
                for row, is_whole in zip(chunk, fits, strict=True)
            ]
            reports, codes = self.layout.parse(rows)
            codes[~fits] = Reason.LENGTH
            yield reports, codes

    def _fits(self, row: list[str]) -> bool:
        """Return whether a row has a cell for every column."""
        return len(row) == len(self._columns)

    def ids(self, first: int, last: int) -> Iterator[pa.Array]:
        """Yield the client ids, null where one is missing.

        Raises DataUnavailableError if the file is cut short.
        """
        for chunk in self._chunks(first, last):
            # A row that is set aside for its length: its id cannot be trusted either.
            ids = [row[self._id] or None if self._fits(row) else None for row in chunk]
            yield pa.array(ids, pa.large_string())

    def _chunks(self, first: int, last: int) -> Iterator[list[list[str]]]:
        # A CSV file is one row group: all of it, or nothing.
        rows = self._rows() if last > first else iter(())
        size = max(1, min(_ROWS, _BYTES // self.layout.width))
        while chunk := list(islice(rows, size)):
            yield chunk

    def _rows(self) -> Iterator[list[str]]:
        """Yield all rows after the first line.

        Raises DataUnavailableError if they are not CSV, or not as many as the file states.
        """
        n = 0
        # Python's own limit is less than a report of a large domain takes.
        longest = _MORE + 16 * self.layout.width
        csv.field_size_limit(max(csv.field_size_limit(), longest))
        with readable(self.path), self.path.open("rb") as file:
            seal = self._seal(file.readline(_MORE))
            # Strict: an open quote would otherwise join rows silently.
            rows = csv.reader(_lines(file, seal, longest), strict=True)
            try:
                for row in rows:
                    n += 1
                    yield row
            except csv.Error as error:
                raise DataUnavailableError(f"{self.path} is corrupt in row {n}: {error}") from None
            # After the rows were passed on: the caller uses them after the end alone.
            if n != self.group_rows[0]:
                raise DataUnavailableError(
                    f"{self.path} is truncated or corrupt: it has {counted(n, 'row')} "
                    f"and not {self.group_rows[0]:,}"
                )
            if seal is not None:
                seal.check(self.path)

    def _seal(self, first: bytes) -> Seal | None:
        """Return the checksum of the file, which begins with some line; None if it has none."""
        return None


class CsvReports(_Table):
    """A CSV file of reports that exists, as one row group.

    Raises an error that names the file if it is cut short or does not state its protocol.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        first, self._columns = _heading(path)
        record = parsed_header(self._columns, path)
        self.header = Header.from_record(record, str(path))
        self.digits = self._seal(first).stated
        self.layout = layout_of(self.header.oracle)
        names = self._columns[:-1]
        expected = list(self.layout.names)
        if names not in (expected, [*expected, CLIENT_ID]):
            raise InvalidInputError(
                f"{path}: its columns must be {','.join(expected)}[,{CLIENT_ID}] and the header, "
                f"got {','.join(names)!r}"
            )
        self.has_ids = CLIENT_ID in names
        self._reports = list(range(len(expected)))
        self._id = len(expected)
        self.group_rows = [validate.integer(f"rows of {path}", record.get("rows"), minimum=0)]
        # Reads the whole file once, which finds out whether there are as many.
        for _ in self._rows():
            pass

    def _fits(self, row: list[str]) -> bool:
        # Below the header there is nothing: another number there would be one of a longer row.
        return super()._fits(row) and not row[-1]

    def _seal(self, first: bytes) -> Seal:
        try:
            return Seal(first)
        except ValueError:
            raise InvalidInputError(
                f"{self.path}: the checksum in its first line is not one"
            ) from None


class ForeignCsv(_Table):
    """A CSV file of another program, read by a schema. Its first line names the columns."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self.path = path
        _, self._columns = _heading(path)
        if headed(self._columns) or self._columns[0].startswith(OLD_MARKS):
            raise InvalidInputError(
                f"{path} states its own protocol: read it without naming columns (Schema, --column)"
            )
        self.header = schema.header
        self.layout = schema.layout
        require_columns(self._columns, schema.columns, schema.client_id, path)
        self._reports = [self._columns.index(name) for name in schema.columns]
        self.has_ids = schema.client_id is not None
        if schema.client_id is not None:
            self._id = self._columns.index(schema.client_id)
        # Only reading all of it tells how many rows there are.
        self.group_rows = [_count(path, _MORE + 16 * self.layout.width)]


def _heading(path: Path) -> tuple[bytes, list[str]]:
    """Return the first line of a file, and the names of columns in it."""
    with readable(path), path.open("rb") as file:
        first = file.readline(_MORE)
        return first, names_in(first.decode("utf-8-sig"), path)


def names_in(line: str, path: Path) -> list[str]:
    """Return the names of columns in the first line of a file, at least one.

    Raises DataUnavailableError if it is not CSV.
    """
    # Python's own limit is less than the header of a file of counts may take.
    csv.field_size_limit(max(csv.field_size_limit(), len(line)))
    try:
        return next(csv.reader([line], strict=True), []) or [""]
    except csv.Error as error:
        raise DataUnavailableError(
            f"{path} is truncated or corrupt in its first line: {error}"
        ) from None


def _count(path: Path, longest: int) -> int:
    """Return the number of rows after the first line."""
    csv.field_size_limit(max(csv.field_size_limit(), longest))
    with readable(path), path.open("rb") as file:
        file.readline(_MORE)
        try:
            return sum(1 for _ in csv.reader(_lines(file, None, longest), strict=True))
        except csv.Error as error:
            raise DataUnavailableError(f"{path} is not CSV: {error}") from None


def _lines(file: BinaryIO, seal: Seal | None, longest: int) -> Iterator[str]:
    """Yield the lines of a file, which its seal sees too.

    Raises OSError if one is longer than any row: without an end it would fill the memory.
    """
    while line := file.readline(longest):
        if len(line) == longest:
            raise OSError(f"a line has {longest:,} bytes or more")
        if seal is not None:
            seal.add(line)
        yield line.decode()


class CsvWriter:
    """Rows appended to a draft."""

    def __init__(self, draft: Path, header: Header, *, ids: pa.DataType | None) -> None:
        self.layout = layout_of(header.oracle)
        self._header = header
        self._names = [*self.layout.names, *([] if ids is None else [CLIENT_ID])]
        self._n = 0
        self._draft = draft
        self._file = draft.open("w", encoding="utf-8", newline="")
        self._csv: Any = csv.writer(self._file, lineterminator="\n")

    def write(self, reports: Reports, ids: pa.Array | None) -> None:
        """Append reports."""
        rows = self.layout.text(reports)
        if ids is not None:
            rows = [[*row, str(name)] for row, name in zip(rows, ids.to_pylist(), strict=True)]
        # The last column, that of the header, is empty.
        self._csv.writerows([*row, ""] for row in rows)
        self._n += len(rows)

    def finish(self) -> None:
        """Write the first line, with the number of rows and the checksum."""
        self._file.close()
        first = io.StringIO()
        record = {**self._header.record(), "rows": self._n}
        csv.writer(first, lineterminator="\n").writerow([*self._names, header_cell(record)])
        # Whole in memory: CSV is for small files.
        self._draft.write_bytes(sealed(first.getvalue().encode() + self._draft.read_bytes()))

    def close(self) -> None:
        """Let go of the draft."""
        self._file.close()
