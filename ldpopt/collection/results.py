"""Estimates in files: one row a value or a set, as CSV, Parquet or JSON."""

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
    """Write columns in the format that the ending of the path names, in one step; an error for any other ending.

    JSON and Parquet also keep ``about``: where the numbers come from.
    """
    suffix = result_suffix(path)
    if suffix == ".json":
        write_whole(
            path,
            (
                json.dumps({**about, "rows": rows_of(columns)}, indent=1, ensure_ascii=False) + "\n"
            ).encode(),
        )
    elif suffix == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        write_whole(path, text.getvalue().encode())
    else:
        content = io.BytesIO()
        table = pa.table(dict(columns)).replace_schema_metadata(
            {"ldpopt.estimate": json.dumps(dict(about))}
        )
        pq.write_table(table, content)
        write_whole(path, content.getvalue())


def result_suffix(path: Path) -> str:
    """Return the ending of a result file; an error if it is none of ours."""
    if path.suffix.lower() not in (".csv", ".parquet", ".json"):
        raise InvalidInputError(f"results are written to .csv, .parquet or .json, got {path}")
    return path.suffix.lower()
