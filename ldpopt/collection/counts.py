"""Support counts in files: JSON or CSV that knows its protocol, and plain CSV that does not."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from ldpopt import validate
from ldpopt.collection.aggregation import Aggregate
from ldpopt.collection.domain import Domain, read_text
from ldpopt.collection.header import Header
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.oracles import FrequencyOracle
from ldpopt.storage import write_whole

_KIND = "ldpopt counts"
_MARK = f"# {_KIND} "


def write_counts(path: Path, aggregate: Aggregate) -> None:
    """Write counts to a ``.json`` or ``.csv`` file in one step; an error for any other ending."""
    about = {
        "format": _KIND,
        **aggregate.header.record(),
        "n": aggregate.n,
        "rejected": aggregate.rejected,
        "unreadable": aggregate.unreadable,
        "files": aggregate.files,
    }
    suffix = counts_suffix(path)
    if suffix == ".json":
        write_whole(
            path, (json.dumps({**about, "counts": aggregate.counts.tolist()}) + "\n").encode()
        )
        return
    lines = [f"{_MARK}{json.dumps(about)}", "value,count"]
    lines += [f"{value},{count}" for value, count in enumerate(aggregate.counts.tolist())]
    write_whole(path, ("\n".join(lines) + "\n").encode())


def counts_suffix(path: Path) -> str:
    """Return the ending of a file of counts; an error if it is none of ours."""
    if path.suffix.lower() not in (".json", ".csv"):
        raise InvalidInputError(f"counts are written to .json or .csv, got {path}")
    return path.suffix.lower()


def is_counts(path: Path) -> bool:
    """Return whether a file holds counts rather than reports."""
    if path.is_dir() or path.suffix.lower() == ".parquet":
        return False
    return path.suffix.lower() == ".json" or not read_text(path, f"cannot read {path}").startswith(
        "# ldpopt reports "
    )


def read_counts(
    path: Path, oracle: FrequencyOracle | None, domain: Domain | None, n: int | None
) -> Aggregate:
    """Return the counts of a file that ``write_counts`` wrote, or of a CSV file with the columns ``value`` and ``count``.

    Parameters
    ----------
    path
        The file.
    oracle, domain, n
        The protocol, the domain and the number of reports, which a plain CSV does not say. Where all reports support the
        same number of values (GRR, subset selection) n follows from the counts.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the file is not what it should be, a value is missing, twice or not in the domain, or n is unknown.
    """
    text = read_text(path, f"cannot read {path}")
    if path.suffix.lower() == ".json":
        record = _record(path, text)
        return _from_record(path, record, record.get("counts"))
    lines = text.splitlines()
    if lines and lines[0].startswith(_MARK):
        record = _record(path, lines[0][len(_MARK) :])
        own = Domain(Header.from_record(record, str(path)).oracle.d)
        return _from_record(path, record, _column(path, lines[1:], own))
    if oracle is None or domain is None:
        raise InvalidInputError(
            f"{path} does not say which oracle made its counts: give --oracle, --epsilon and --domain"
        )
    counts = _column(path, lines, domain)
    if n is None:
        n = _number_of_reports(path, oracle, int(counts.sum()))
    return Aggregate(Header(oracle, domain.fingerprint), counts, n)


def _number_of_reports(path: Path, oracle: FrequencyOracle, total: int) -> int:
    """Return n where all reports support the same number of values, so that the sum of the counts determines it."""
    size = oracle.report_form.fixed_size
    if size is None or total % size:
        raise InvalidInputError(f"{path} does not say how many reports were counted: give --n")
    return total // size


def _record(path: Path, text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except ValueError as error:
        raise DataUnavailableError(f"{path} is truncated or not JSON: {error}") from None
    if not isinstance(record, dict) or record.get("format") != _KIND or "n" not in record:
        raise InvalidInputError(f"{path} is not a file of counts that ldpopt aggregate wrote")
    return record


def _from_record(path: Path, record: dict[str, Any], counts: object) -> Aggregate:
    header = Header.from_record(record, str(path))
    d = header.oracle.d
    if not isinstance(counts, list | np.ndarray) or len(counts) != d:
        raise InvalidInputError(f"{path} must have {d} counts")
    found = validate.whole_numbers(f"counts of {path}", counts, low=0, high=2**62)
    more = {key: record[key] for key in ("rejected", "unreadable", "files") if key in record}
    return Aggregate(
        header, found, validate.integer(f"n of {path}", record["n"], minimum=0), **more
    )


def _column(
    path: Path, lines: list[str], domain: Domain
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rows = csv.reader(io.StringIO("\n".join(lines)))
    heading = next(rows, [])
    if not {"value", "count"} <= set(heading):
        raise InvalidInputError(
            f"{path} needs the columns value and count, got {','.join(heading)!r}"
        )
    at, counted = heading.index("value"), heading.index("count")
    index = {name: i for i, name in enumerate(domain.names)}
    found: dict[int, int] = {}
    for row in rows:
        if len(row) != len(heading) or not row[counted].strip().isdecimal():
            raise InvalidInputError(f"{path}: {','.join(row)!r} is not a value with a whole number")
        if row[at] not in index or index[row[at]] in found:
            what = "twice" if row[at] in index else "not in the domain"
            raise InvalidInputError(f"{path}: the value {row[at]!r} is {what}")
        found[index[row[at]]] = int(row[counted])
    missing = [name for name, i in index.items() if i not in found]
    if missing:
        raise InvalidInputError(
            f"{path} has no count of the value {missing[0]!r} ({len(missing)} missing)"
        )
    counts = [found[i] for i in range(domain.d)]
    return validate.whole_numbers("counts", np.array(counts, dtype=np.uint64), low=0, high=2**62)
