"""Reports in Parquet: the header in the schema's metadata, bounded row groups, page checksums."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldpopt.collection.header import Header
from ldpopt.collection.layout import Codes, Layout, layout_of
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.oracles.forms import Reports

CLIENT_ID = "client_id"
METADATA = b"ldpopt.reports"
_GROUP_BYTES = 1 << 26  # of reports in a row group: bounds a writer's memory
_BATCH_BYTES = 1 << 24  # of reports decoded at a time: bounds a reader's
_ROWS = 1 << 18  # rows of either, where reports are narrow
_FEWEST = 1 << 8  # rows of either, where reports are wide: fewer would cost more than they hold


class ParquetReports:
    """A file of reports that exists, opened: its header and the rows of its row groups.

    Raises an error that names the file if it is truncated, corrupt or does not state its protocol.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with readable(path), pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            groups = range(file.metadata.num_row_groups)
            self.group_rows = [file.metadata.row_group(i).num_rows for i in groups]
        self.header = _header(schema, path)
        self.layout: Layout = layout_of(self.header.oracle)
        missing = [name for name in self.layout.names if name not in schema.names]
        if missing:
            raise InvalidInputError(
                f"{path} has no column {' and '.join(map(repr, missing))}; found {schema.names}"
            )
        self.has_ids = CLIENT_ID in schema.names
        if self.has_ids and not _is_id(schema.field(CLIENT_ID).type):
            raise InvalidInputError(
                f"{path}: client ids are text or whole numbers, found "
                f"{schema.field(CLIENT_ID).type}"
            )

    def batches(self, first: int, last: int) -> Iterator[tuple[Reports, Codes]]:
        """Yield the rows of row groups ``first .. last-1``, and the codes of those not reports.

        Raises DataUnavailableError on corrupt pages.
        """
        size = max(_FEWEST, min(_ROWS, _BATCH_BYTES // self.layout.width))
        for batch in self._read(list(self.layout.names), size, first, last):
            yield self.layout.decode([batch.column(name) for name in self.layout.names])

    def ids(self, first: int, last: int) -> Iterator[pa.Array]:
        """Yield the client ids as text, null where one is missing.

        Raises DataUnavailableError on corrupt pages.
        """
        for batch in self._read([CLIENT_ID], _ROWS, first, last):
            column = batch.column(CLIENT_ID)
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            yield column.cast(pa.large_string())

    def _read(
        self, columns: list[str], size: int, first: int, last: int
    ) -> Iterator[pa.RecordBatch]:
        left = sum(self.group_rows[first:last])
        groups = list(range(first, last))
        with readable(self.path), self._file() as file:
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

    def _file(self) -> pq.ParquetFile:
        # Buffered page by page: a whole row group might not fit into memory.
        return pq.ParquetFile(
            self.path, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True
        )


class ParquetWriter:
    """Row groups appended to a draft; the header goes into the schema."""

    def __init__(self, draft: Path, header: Header, *, ids: pa.DataType | None) -> None:
        self.layout = layout_of(header.oracle)
        fields = [
            pa.field(name, kind, nullable=False)
            for name, kind in zip(self.layout.names, self.layout.types, strict=True)
        ]
        if ids is not None:
            fields.append(pa.field(CLIENT_ID, ids, nullable=False))
        self._schema = pa.schema(fields, metadata={METADATA: json.dumps(header.record())})
        # Reports are noise: a dictionary finds nothing in them, entropy coding finds bits that are
        # rarely 1.
        self._file = pq.ParquetWriter(
            draft,
            self._schema,
            compression="zstd",
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
        )
        self._rows = max(_FEWEST, min(_ROWS, _GROUP_BYTES // self.layout.width))

    def write(self, reports: Reports, ids: pa.Array | None) -> None:
        """Append reports."""
        for start in range(0, len(reports), self._rows):
            part = slice(start, start + self._rows)
            columns = self.layout.encode(reports[part])
            columns += [] if ids is None else [ids[part]]
            self._file.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """Write the footer."""
        self._file.close()


def _header(schema: pa.Schema, path: Path) -> Header:
    stored = (schema.metadata or {}).get(METADATA)
    name = METADATA.decode()
    if stored is None:
        raise InvalidInputError(
            f"{path} does not say which oracle made its reports: it has no {name} metadata"
        )
    try:
        record = json.loads(stored)
    except ValueError:
        raise InvalidInputError(f"{path}: its {name} metadata are not JSON") from None
    return Header.from_record(record, str(path))


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
    of_right_type = _is_id(column.type) or (n == 0 and not len(column))
    if column.null_count or not of_right_type:
        raise InvalidInputError(
            "client ids must be all text or all whole numbers of 64 bits, with none missing"
        )
    if len(column) != n:
        raise InvalidInputError(f"{n} reports need as many client ids, got {len(column)}")
    # One width of numbers, so that batches of a file agree.
    return column.cast(pa.int64() if pa.types.is_signed_integer(column.type) else pa.string())


def _is_id(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )


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
