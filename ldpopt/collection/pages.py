"""What the pages of a Parquet file claim to hold, read before Arrow allocates it.

A page of a few bytes may state any size up to 2 GiB, and so may each of its texts. The headers of
all pages that are about to be read are added up here, and compared with what so many reports can
take. They are structs of Thrift's compact protocol (parquet.thrift, ``PageHeader``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow.parquet as pq

from ldpopt.errors import DataUnavailableError, InvalidInputError

# Bytes of a row besides eight times its report: a client id, or what is no report and is set aside.
_PER_ROW = 1 << 10
_PER_GROUP = 1 << 20

# Encodings whose values take no more memory than their page states, by their number in
# parquet.thrift; prefixes that texts share (DELTA_BYTE_ARRAY) would multiply.
_ENCODINGS = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}

_HEADER = 1 << 8  # bytes read at a time: a header has some 30, more with statistics
_LONGEST_HEADER = 1 << 16


class _Page(NamedTuple):
    """A page's header: where its content ends, its size in memory, and how values are encoded."""

    end: int
    size: int
    encoding: int
    has_checksum: bool


def check_pages(
    metadata: pq.FileMetaData,
    path: Path,
    groups: Sequence[int],
    columns: Sequence[str],
    width: int,
    *,
    with_checksums: bool = True,
) -> None:
    """Raise an error if columns of row groups would take more memory than reports can.

    Parameters
    ----------
    metadata
        The footer of the file at ``path``.
    groups, columns
        What is about to be read.
    width
        Bytes of a report.
    with_checksums
        Whether every page must have a checksum.

    Raises
    ------
    InvalidInputError
        If they would, or a page has no checksum or an unusual encoding.
    DataUnavailableError
        If pages do not follow one another as the footer states.
    """
    # Without a buffer, of which a page would use a small part.
    with path.open("rb", buffering=0) as file:
        for group in groups:
            rows = metadata.row_group(group).num_rows
            allowed = _PER_GROUP + rows * (8 * width + _PER_ROW)
            for index in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(index)
                if not _is_of(chunk.path_in_schema, columns):
                    continue
                length = metadata.schema.column(index).length
                size = _size_of(file, path, chunk, allowed, with_checksums)
                claimed = max(size, chunk.num_values * length)
                if claimed > allowed:
                    raise InvalidInputError(
                        f"{path} claims to hold {claimed:,} bytes in {rows:,} rows of the column "
                        f"{chunk.path_in_schema!r}: more than reports and client ids can take"
                    )


def _is_of(name: str, columns: Sequence[str]) -> bool:
    """Return whether stored values belong to one of some columns."""
    # A list's values are in a column named after it: "report.list.element".
    return any(name == column or name.startswith(f"{column}.") for column in columns)


def _size_of(
    file: BinaryIO, path: Path, chunk: Any, allowed: int, with_checksums: bool = True
) -> int:
    """Return what the pages of a column take in memory, or the first sum that is too large."""
    # A dictionary, if there is one, comes before the pages that use it.
    offsets = (chunk.dictionary_page_offset, chunk.data_page_offset)
    at = min((offset for offset in offsets if offset), default=0)
    if at < 0:
        raise DataUnavailableError(f"{path} is corrupt: a column begins at {at}")
    end = at + chunk.total_compressed_size
    # Values of numbers, which runs of equal ones could hide in few bytes.
    total = 8 * int(chunk.num_values)
    while at < end and total <= allowed:
        page = _page(file, path, at)
        # Also backwards, which would never end.
        if not at < page.end <= end or page.size < 0:
            raise DataUnavailableError(f"{path} is corrupt: a page at {at} leaves its column")
        if with_checksums and not page.has_checksum:
            raise InvalidInputError(
                f"{path} has a page without a checksum: write it with pyarrow's "
                "write_page_checksum=True"
            )
        if page.encoding not in _ENCODINGS:
            raise InvalidInputError(
                f"{path} has values of the encoding {page.encoding}: "
                f"{', '.join(_ENCODINGS.values())} are read"
            )
        total += page.size
        at = page.end
    return total


def _page(file: BinaryIO, path: Path, at: int) -> _Page:
    """Return the header of the page that begins at a position."""
    size = _HEADER
    while True:
        file.seek(at)
        content = file.read(size)
        try:
            fields, length = _struct(content, 0)
            # Of data pages of version 2, of version 1, and of dictionaries.
            encoding = fields[8][4] if 8 in fields else fields[5 if 5 in fields else 7][2]
            return _Page(at + length + fields[3], fields[2], encoding, 4 in fields)
        # Cut short, or anything but a page.
        except (IndexError, KeyError, TypeError, ValueError, RecursionError):
            if len(content) < size or size >= _LONGEST_HEADER:
                raise DataUnavailableError(f"{path} is corrupt: there is no page at {at}") from None
        size = _LONGEST_HEADER


def _struct(content: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct that begins at a position, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while first := content[at]:
        at += 1
        kind = first & 15
        # A field that is not within 15 of the last one states its number.
        if first >= 16:
            number += first >> 4
        else:
            number, at = _zigzag(content, at)
        # Most are short numbers: here for speed, since narrow reports have many pages.
        if kind == 5 and content[at] < 128:
            fields[number] = (content[at] >> 1) ^ -(content[at] & 1)
            at += 1
        else:
            fields[number], at = _value(content, at, kind)
    return fields, at + 1


def _value(content: bytes, at: int, kind: int) -> tuple[Any, int]:
    """Return a value of a type of the protocol, and where it ends."""
    if kind in (1, 2):
        # The type itself is the truth value.
        return kind == 1, at
    if kind == 3:
        return content[at], at + 1
    if kind in (4, 5, 6):
        return _zigzag(content, at)
    if kind == 7:
        return None, at + 8
    if kind == 8:
        length, at = _varint(content, at)
        return None, at + length
    if kind == 12:
        return _struct(content, at)
    raise ValueError(f"no field of a page has the type {kind}")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a whole number in groups of seven bits, the lowest first, and where it ends."""
    number = 0
    # 64 bits take ten groups: what is longer is no number.
    for shift in range(0, 70, 7):
        byte = content[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise ValueError("a number of more than 64 bits")


def _zigzag(content: bytes, at: int) -> tuple[int, int]:
    """Return a number whose sign is its lowest bit, and where it ends."""
    number, at = _varint(content, at)
    return (number >> 1) ^ -(number & 1), at
