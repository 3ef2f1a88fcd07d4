"""Reports in Parquet: the header in the footer, bounded row groups, checksums of all bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ldpopt.collection.header import Header
from ldpopt.collection.layout import Codes, Layout, parquet_layout, stored_layout
from ldpopt.collection.pages import check_pages
from ldpopt.collection.schema import Schema
from ldpopt.collection.seal import check, has_place, sealed
from ldpopt.collection.untrusted import parse_json
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.oracles.forms import Reports
from ldpopt.printable import counted

CLIENT_ID = "client_id"
METADATA = b"ldpopt.reports"
LONGEST_ID = 1 << 10
"""Bytes of a client id."""

_GROUP_BYTES = 1 << 26  # of reports in a row group: bounds a writer's memory
_BATCH_BYTES = 1 << 24  # of reports decoded at a time: bounds a reader's
_ROWS = 1 << 18  # rows of either, where reports are narrow
_FEWEST = 1 << 8  # rows of either, where reports are wide: fewer would cost more than they hold

_MAGIC = b"PAR1"  # with which a Parquet file begins and ends
_TAIL = 4 + len(_MAGIC)  # bytes after the footer: its length and the magic
_LARGEST_FOOTER = 1 << 28  # bytes; that of 10^8 reports has some 100,000


class ParquetReports:
    """A file of reports that exists, opened: its header and the rows of its row groups.

    A file of another program is read by a schema. Raises an error that names the file if it is
    truncated, corrupt or, without a schema, does not state its protocol.
    """

    def __init__(self, path: Path, schema: Schema | None = None) -> None:
        self.path = path
        self._is_own = schema is None
        # The checksum that the file states.
        self.digits: str | None = None
        # Before Arrow reads it: a footer that was damaged could ask for anything.
        with readable(path):
            _, footer = _footer(path)
        is_sealed = self._is_own and has_place(footer)
        if is_sealed:
            self.digits = check(footer, path)
        with readable(path), opened(path) as source, pq.ParquetFile(source) as file:
            columns = file.schema_arrow
            stored = (file.metadata.metadata or {}).get(METADATA)
            groups = range(file.metadata.num_row_groups)
            self.group_rows = [file.metadata.row_group(i).num_rows for i in groups]
            self._texts = _texts(file.metadata)
        if schema is not None and stored is not None:
            raise InvalidInputError(
                f"{path} states its own protocol: read it without naming columns (Schema, --column)"
            )
        self.header = _header(stored, path) if schema is None else schema.header
        if self._is_own and not is_sealed:
            raise InvalidInputError(
                f"{path} has no checksum: a program that writes files of reports itself has to "
                "call ldpopt.collection.seal_reports"
            )
        if schema is None:
            first = columns.field(0).type if len(columns) else None
            self.layout: Layout = stored_layout(self.header.oracle, first)
            self._names: Sequence[str] = self.layout.names
            self._id = CLIENT_ID if CLIENT_ID in columns.names else None
        else:
            self.layout = schema.layout
            self._names = schema.columns
            self._id = schema.client_id
        _check_columns(columns, self._names, self._id, path)
        self.has_ids = self._id is not None

    def batches(self, first: int, last: int) -> Iterator[tuple[Reports, Codes]]:
        """Yield the rows of row groups ``first .. last-1``, and the codes of those not reports.

        Raises DataUnavailableError on corrupt pages.
        """
        size = max(_FEWEST, min(_ROWS, _BATCH_BYTES // self.layout.width))
        for batch in self._read(list(self._names), size, first, last):
            yield self.layout.decode([batch.column(name) for name in self._names])

    def ids(self, first: int, last: int) -> Iterator[pa.Array]:
        """Yield the client ids as text, null where one is missing, perhaps with a dictionary.

        Raises DataUnavailableError on corrupt pages.
        """
        assert self._id is not None  # otherwise there are no ids to read
        for batch in self._read([self._id], _ROWS, first, last):
            yield batch.column(self._id)

    def _read(
        self, columns: list[str], size: int, first: int, last: int
    ) -> Iterator[pa.RecordBatch]:
        left = sum(self.group_rows[first:last])
        groups = list(range(first, last))
        with readable(self.path), opened(self.path) as source, self._file(source) as file:
            # Before a page is read: what it claims to hold is what Arrow would allocate.
            check_pages(
                file.metadata,
                self.path,
                groups,
                columns,
                self.layout.width,
                # Other programs seldom write checksums of pages.
                with_checksums=self._is_own,
            )
            for batch in file.iter_batches(
                size, row_groups=groups, columns=columns, use_threads=False
            ):
                left -= len(batch)
                yield batch
        # A footer and pages that contradict each other pass Arrow's own checks.
        if left:
            raise DataUnavailableError(
                f"{self.path} is corrupt: {abs(left)} rows are "
                f"{'missing' if left > 0 else 'too many'}"
            )

    def _file(self, source: pa.NativeFile) -> pq.ParquetFile:
        # Buffered page by page: a whole row group might not fit into memory.
        return pq.ParquetFile(
            source,
            pre_buffer=False,
            buffer_size=1 << 20,
            page_checksum_verification=True,
            # A dictionary stays one: a long text that all rows repeat takes its memory once.
            read_dictionary=self._texts,
        )


class ParquetWriter:
    """Row groups appended to a draft; the header goes into the footer."""

    def __init__(self, draft: Path, header: Header, *, ids: pa.DataType | None) -> None:
        self.layout = parquet_layout(header.oracle)
        fields = [
            pa.field(name, kind, nullable=False)
            for name, kind in zip(self.layout.names, self.layout.types, strict=True)
        ]
        if ids is not None:
            fields.append(pa.field(CLIENT_ID, ids, nullable=False))
        self._schema = pa.schema(fields)
        self._draft = draft
        self._sink = opened(draft, "wb")
        # Reports are noise: a dictionary finds nothing in them, entropy coding finds bits that are
        # rarely 1. Members of sets are values of the domain, which a dictionary reads in half the
        # time of integers.
        self._file = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            use_dictionary=list(self.layout.repeated),
            write_statistics=False,
            write_page_checksum=True,
        )
        # Not in the schema, of which Arrow keeps a second copy that no checksum could be put into.
        self._file.add_key_value_metadata({METADATA: json.dumps(header.record())})
        self._rows = max(_FEWEST, min(_ROWS, _GROUP_BYTES // self.layout.width))

    def write(self, reports: Reports, ids: pa.Array | None) -> None:
        """Append reports."""
        for start in range(0, len(reports), self._rows):
            part = slice(start, start + self._rows)
            columns = self.layout.encode(reports[part])
            columns += [] if ids is None else [ids[part]]
            self._file.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def finish(self) -> None:
        """Write the footer and its checksum."""
        self.close()
        seal_footer(self._draft)

    def close(self) -> None:
        """Write the footer and let go of the draft."""
        with self._sink:
            self._file.close()


def seal_footer(path: Path) -> None:
    """Write the checksum of a footer into its place.

    Raises
    ------
    InvalidInputError
        If it has no place for it.
    DataUnavailableError, OSError
        If the file is not Parquet, or cannot be written.
    """
    start, footer = _footer(path)
    try:
        content = sealed(footer)
    except ValueError:
        raise InvalidInputError(
            f"{path} has no place for a checksum: its {METADATA.decode()} metadata must have a "
            "field sha256 of 64 zeros"
        ) from None
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


def _footer(path: Path) -> tuple[int, bytes]:
    """Return where the footer of a Parquet file begins, and the footer."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read()
        # The file ends with the footer, its length and the magic bytes.
        length = int.from_bytes(tail[:4], "little")
        start = size - _TAIL - length
        if not tail.endswith(_MAGIC) or len(tail) < _TAIL or start < len(_MAGIC):
            raise OSError("it does not end as a Parquet file does")
        if length > _LARGEST_FOOTER:
            raise OSError(f"its footer has more than {_LARGEST_FOOTER:,} bytes")
        file.seek(start)
        return start, file.read(length)


def _texts(metadata: pq.FileMetaData) -> list[str]:
    """Return the columns of texts that are stored with a dictionary in some row group."""
    groups = range(metadata.num_row_groups)
    return [
        metadata.schema.column(i).path
        for i in range(metadata.num_columns)
        if metadata.schema.column(i).physical_type == "BYTE_ARRAY"
        and any(metadata.row_group(group).column(i).has_dictionary_page for group in groups)
    ]


def _header(stored: bytes | None, path: Path) -> Header:
    name = METADATA.decode()
    if stored is None:
        raise InvalidInputError(
            f"{path} does not say which oracle made its reports: it has no {name} metadata; if "
            "another program wrote it, name its columns (Schema, --column)"
        )
    try:
        record = parse_json(stored)
    except ValueError as error:
        raise InvalidInputError(f"{path}: its {name} metadata are not JSON: {error}") from None
    return Header.from_record(record, str(path))


def require_columns(
    present: Sequence[str], names: Sequence[str], client_id: str | None, path: Path
) -> None:
    """Raise InvalidInputError unless all columns that are named are there, each of them once."""
    wanted = [*names, *([] if client_id is None else [client_id])]
    missing = [name for name in wanted if name not in present]
    if missing:
        raise InvalidInputError(
            f"{path} has no column {' and '.join(map(repr, missing))}; found {list(present)}"
        )
    for name in wanted:
        if list(present).count(name) > 1:
            raise InvalidInputError(f"{path} has more than one column {name!r}")


def _check_columns(
    schema: pa.Schema, names: Sequence[str], client_id: str | None, path: Path
) -> None:
    """Raise InvalidInputError unless there are the columns, of types that can hold reports."""
    require_columns(schema.names, names, client_id, path)
    for name in names:
        if not _is_flat(schema.field(name).type):
            raise InvalidInputError(
                f"{path}: the column {name!r} has the type {schema.field(name).type}, in which "
                "no oracle's reports are stored"
            )
    if client_id is not None and not is_name(schema.field(client_id).type):
        raise InvalidInputError(
            f"{path}: client ids are text or whole numbers, found {schema.field(client_id).type}"
        )


def _is_flat(kind: pa.DataType) -> bool:
    """Return whether a type is a plain value, or a list of them."""
    # A list that is itself of fixed or variable size has no other types inside than its values.
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return not pa.types.is_nested(kind)


def id_column(ids: Sequence[Any] | np.ndarray[Any, Any] | pa.Array, n: int) -> pa.Array:
    """Return client ids as a column of text or 64-bit whole numbers.

    Raises InvalidInputError unless there are n of them, with none missing.
    """
    try:
        # Arrow finds one type for all ids, or raises an error where they are mixed.
        column = ids if isinstance(ids, pa.Array) else pa.array(ids)
    except (pa.ArrowException, OverflowError):
        column = pa.nulls(1)
    # An empty column has no type of its own.
    of_right_type = is_name(column.type) or (n == 0 and not len(column))
    if column.null_count or not of_right_type:
        raise InvalidInputError(
            "client ids must be all text or all whole numbers of 64 bits, with none missing"
        )
    if len(column) != n:
        raise InvalidInputError(
            f"{counted(n, 'report')} must have as many client ids, got {len(column)}"
        )
    if not pa.types.is_integer(column.type):
        _require_lengths(column)
    # One width of numbers, so that batches of a file agree.
    kind = pa.int64() if pa.types.is_signed_integer(column.type) else pa.string()
    return column.cast(kind)


def _require_lengths(ids: pa.Array) -> None:
    """Raise an error unless texts have a length that is counted: others would be set aside."""
    lengths = pc.binary_length(ids.cast(pa.large_string()))
    shortest = pc.min(lengths).as_py()
    longest = pc.max(lengths).as_py()
    # Both are None where there are no ids.
    if shortest == 0 or (longest or 0) > LONGEST_ID:
        raise InvalidInputError(f"client ids must have 1 to {LONGEST_ID:,} bytes")


def is_name(kind: pa.DataType) -> bool:
    """Return whether values of a type may be client ids or labels: text or whole numbers."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )


def opened(path: Path, mode: str = "rb") -> pa.NativeFile:
    """Return a file that Arrow has opened. It takes names that are not text as bytes alone."""
    return pa.OSFile(os.fsencode(path), mode)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn every failure to read a file into an error that names it."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow adds lines about its own sources, which tell a reader nothing.
        reason = str(error).strip().splitlines()
        raise DataUnavailableError(
            f"{path} is truncated, corrupt or unreadable: {(reason or ['?'])[0]}"
        ) from None
