"""Estimates in files: one row per value or set, as CSV, Parquet or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ldpopt.errors import InvalidInputError
from ldpopt.printable import cell, printable_json
from ldpopt.storage import write_whole

Columns = Mapping[str, Sequence[Any]]


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """Return columns of equal length as rows.

    Examples
    --------
    >>> rows_of({"value": ["a", "b"], "frequency": [0.5, 0.25]})
    [{'value': 'a', 'frequency': 0.5}, {'value': 'b', 'frequency': 0.25}]
    """
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write_columns(path: Path, columns: Columns, about: Mapping[str, Any]) -> None:
    """Write columns in the format that the ending of the path names, in one step.

    JSON and Parquet also keep ``about``: where the numbers come from. In CSV, labels that a
    spreadsheet would run get an apostrophe, and control characters become escapes. Raises
    InvalidInputError for any other ending, and if the file cannot be written.
    """
    write = {".csv": _csv, ".json": _json, ".parquet": _parquet}[result_suffix(path)]
    write_whole(path, write(columns, about))


# CSV has no place for what the numbers mean: programs that read it expect a heading first.
def _csv(columns: Columns, _: Mapping[str, Any]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    # The names of the columns are the keys.
    writer.writerow(columns)
    names, *numbers = columns.values()
    # Files of this kind are opened in spreadsheets.
    writer.writerows(zip(map(cell, names), *numbers, strict=True))
    return text.getvalue().encode()


def _json(columns: Columns, about: Mapping[str, Any]) -> bytes:
    record = {**about, "rows": rows_of(columns)}
    text = json.dumps(record, indent=1, ensure_ascii=False)
    return f"{printable_json(text)}\n".encode()


def _parquet(columns: Columns, about: Mapping[str, Any]) -> bytes:
    content = io.BytesIO()
    # Parquet keeps metadata in its schema, as text.
    metadata = {"ldpopt.estimate": json.dumps(dict(about))}
    pq.write_table(pa.table(dict(columns)).replace_schema_metadata(metadata), content)
    return content.getvalue()


def result_suffix(path: Path) -> str:
    """Return the ending of a result file.

    Raises InvalidInputError unless it is one of those that are written.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet", ".json"):
        raise InvalidInputError(f"results are written to .csv, .parquet or .json, got {path}")
    return suffix
