"""Reports in CSV, for small files.

A file has a first line with the header and the file's checksum, the columns' names, the rows, and a
last line with their number.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from ldpopt.collection.header import Header
from ldpopt.collection.layout import Codes, Layout, Reason, layout_of
from ldpopt.collection.parquet import CLIENT_ID, readable
from ldpopt.collection.seal import Seal, sealed
from ldpopt.collection.untrusted import parse_json
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.oracles.forms import Reports

_MARK = "# ldpopt reports "
_END = "# rows "
_ROWS = 1 << 12  # rows of text held at a time,
_BYTES = 1 << 24  # or so many bytes of reports, where they are wide

# Bytes of a line beside its report: a client id, or what is not a report and is set aside.
_MORE = 1 << 17


class CsvReports:
    """A CSV file of reports that exists, as one row group.

    Raises an error that names the file if it is cut short or does not state its protocol.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with readable(path), path.open("rb") as file:
            first = file.readline(_MORE)
            columns = file.readline(_MORE).decode().strip()
        if not first.startswith(_MARK.encode()):
            raise InvalidInputError(
                f"{path} does not say which oracle made its reports: the first line must begin "
                f"with {_MARK!r}"
            )
        try:
            record = parse_json(first[len(_MARK) :])
        except ValueError as error:
            raise InvalidInputError(
                f"{path}: the header in its first line is not JSON: {error}"
            ) from None
        self.header = Header.from_record(record, str(path))
        self._seal(first)
        self.layout: Layout = layout_of(self.header.oracle)
        self._columns = columns.split(",")
        expected = list(self.layout.names)
        if self._columns not in (expected, [*expected, CLIENT_ID]):
            raise InvalidInputError(
                f"{path}: its columns must be {','.join(expected)}[,{CLIENT_ID}], got {columns!r}"
            )
        self.has_ids = CLIENT_ID in self._columns
        # Reads the whole file once, which also finds out whether it is complete.
        self.group_rows = [sum(1 for _ in self._rows())]

    def batches(self, first: int, last: int) -> Iterator[tuple[Reports, Codes]]:
        """Yield the rows and the codes of those that are not reports.

        Raises DataUnavailableError if the file is cut short.
        """
        n = len(self.layout.names)
        width = len(self._columns)
        for chunk in self._chunks(first, last):
            # Short rows are filled up, to be parsed, and then set aside for their length.
            reports, codes = self.layout.parse([(row + [""] * n)[:n] for row in chunk])
            codes[np.array([len(row) for row in chunk]) != width] = Reason.LENGTH
            yield reports, codes

    def ids(self, first: int, last: int) -> Iterator[pa.Array]:
        """Yield the client ids, null where one is missing.

        Raises DataUnavailableError if the file is cut short.
        """
        width = len(self._columns)
        for chunk in self._chunks(first, last):
            # The row has been set aside for its length: its id cannot be trusted either.
            ids = [row[width - 1] or None if len(row) == width else None for row in chunk]
            yield pa.array(ids, pa.large_string())

    def _chunks(self, first: int, last: int) -> Iterator[list[list[str]]]:
        # A CSV file is one row group: all of it, or nothing.
        rows = self._rows() if last > first else iter(())
        size = max(1, min(_ROWS, _BYTES // self.layout.width))
        while chunk := list(islice(rows, size)):
            yield chunk

    def _seal(self, first: bytes) -> Seal:
        try:
            return Seal(first)
        except ValueError:
            raise InvalidInputError(
                f"{self.path}: the checksum in its first line is not one"
            ) from None

    def _rows(self) -> Iterator[list[str]]:
        n = 0
        # Python's own limit is less than a report of a large domain takes.
        longest = _MORE + 16 * self.layout.width
        csv.field_size_limit(max(csv.field_size_limit(), longest))
        with readable(self.path), self.path.open("rb") as file:
            seal = self._seal(file.readline(_MORE))
            # Strict: an open quote would otherwise join rows silently.
            rows = csv.reader(islice(_lines(file, seal, longest), 1, None), strict=True)
            try:
                for row in rows:
                    # No report begins with a hash sign, so that the last line cannot be mistaken
                    # for one.
                    if len(row) == 1 and row[0].startswith(_END):
                        if row[0] != f"{_END}{n}" or next(rows, None) is not None:
                            raise DataUnavailableError(
                                f"{self.path} is corrupt: {row[0]!r} follows {n} rows"
                            )
                        # After the rows were passed on: the caller uses them after the end alone.
                        seal.check(self.path)
                        return
                    n += 1
                    yield row
            except csv.Error as error:
                raise DataUnavailableError(f"{self.path} is corrupt in row {n}: {error}") from None
        raise DataUnavailableError(
            f"{self.path} is truncated: {n} rows without the last line {_END!r}"
        )


def _lines(file: BinaryIO, seal: Seal, longest: int) -> Iterator[str]:
    """Yield the lines of a file, which its seal sees too.

    Raises OSError if one is longer than any row: without an end it would fill the memory.
    """
    while line := file.readline(longest):
        if len(line) == longest:
            raise OSError(f"a line has {longest:,} bytes or more")
        seal.add(line)
        yield line.decode()


class CsvWriter:
    """Rows appended to a draft."""

    def __init__(self, draft: Path, header: Header, *, ids: pa.DataType | None) -> None:
        self.layout = layout_of(header.oracle)
        self._n = 0
        self._draft = draft
        self._file = draft.open("w", encoding="utf-8", newline="")
        self._file.write(f"{_MARK}{json.dumps(header.record())}\n")
        self._csv: Any = csv.writer(self._file, lineterminator="\n")
        self._csv.writerow([*self.layout.names, *([] if ids is None else [CLIENT_ID])])

    def write(self, reports: Reports, ids: pa.Array | None) -> None:
        """Append reports."""
        rows = self.layout.text(reports)
        if ids is not None:
            rows = [[*row, str(name)] for row, name in zip(rows, ids.to_pylist(), strict=True)]
        self._csv.writerows(rows)
        self._n += len(rows)

    def finish(self) -> None:
        """Write the last line and the checksum."""
        self._file.write(f"{_END}{self._n}\n")
        self._file.close()
        # Whole in memory: CSV is for small files.
        self._draft.write_bytes(sealed(self._draft.read_bytes()))

    def close(self) -> None:
        """Let go of the draft."""
        self._file.close()
