"""Support counts in files: JSON or CSV that states its protocol, and plain CSV that does not."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.collection.aggregation import Aggregate
from ldpopt.collection.header import Header, check_sum
from ldpopt.collection.labels import Labels
from ldpopt.collection.refinement import Refinement
from ldpopt.collection.seal import check, sealed
from ldpopt.collection.text import OLD_MARKS, headed, header_cell, names_in, parsed_header
from ldpopt.collection.untrusted import parse_json, read_text
from ldpopt.columns import COUNT, LABEL, VALUE, first_named
from ldpopt.errors import DataUnavailableError, InvalidInputError, other_separator
from ldpopt.estimate.labels import checked_labels
from ldpopt.oracles import FrequencyOracle
from ldpopt.printable import counted
from ldpopt.storage import write_whole

_KIND = "ldpopt counts"

_NAMES = (VALUE, COUNT)
"""Of the columns that are written; a table that is read may call the first one ``label``."""

# Counts beyond this would overflow int64 once added up.
_LARGEST = 2**62
_DIGITS = len(str(_LARGEST))
_SHOWN = 30  # digits of a count that is refused


def write_counts(path: Path, aggregate: Aggregate) -> None:
    """Write counts to a ``.json`` or ``.csv`` file in one step, with a checksum.

    Raises InvalidInputError for any other ending, and if the file cannot be written.
    """
    about = {
        # First of all the checksum, which no name of a file may come before.
        **aggregate.header.record(),
        "format": _KIND,
        "n": aggregate.n,
        "rejected": aggregate.rejected,
        "unreadable": aggregate.unreadable,
        "files": aggregate.files,
        "parts": aggregate.parts,
    }
    # Whole numbers of Python: JSON takes none of numpy's.
    counts = aggregate.counts.tolist()
    if aggregate.refinement is not None:
        about["refinement"] = aggregate.refinement.record()
    if counts_suffix(path) == ".json":
        text = json.dumps({**about, "counts": counts}) + "\n"
    else:
        # As in files of reports: the header is the name of a column that is empty in every row.
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow([*_NAMES, header_cell(about)])
        writer.writerows((value, count, "") for value, count in enumerate(counts))
        text = table.getvalue()
    write_whole(path, sealed(text.encode()))


def counts_suffix(path: Path) -> str:
    """Return the ending of a file of counts.

    Raises InvalidInputError unless it is one of those that are written.
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", ".csv"):
        raise InvalidInputError(f"counts are written to .json or .csv, got {path}")
    return suffix


def is_counts(path: Path) -> bool:
    """Return whether a file holds counts rather than reports."""
    suffix = path.suffix.lower()
    if path.is_dir() or suffix == ".parquet":
        return False
    # Reports are never JSON.
    if suffix == ".json":
        return True
    # By its content: both kinds of file end in .csv.
    first = read_text(path, f"cannot read {path}").split("\n", 1)[0]
    if first.startswith(OLD_MARKS):
        return first.startswith(OLD_MARKS[1])
    try:
        names = names_in(first, path)
    except DataUnavailableError:
        # Then it is no file of reports, and the table of counts says what is wrong.
        return True
    return not headed(names) or set(_NAMES) <= set(names)


def read_counts(
    path: str | Path,
    oracle: FrequencyOracle | None = None,
    labels: Labels | Sequence[str] | None = None,
    n: int | None = None,
) -> Aggregate:
    r"""Return the counts that ``ldpopt aggregate`` wrote, or those of another program's CSV file.

    Parameters
    ----------
    path
        The file; a plain CSV file has the columns ``value`` (or ``label``) and ``count``.
    oracle, labels, n
        The protocol, the labels of the domain (by default the numbers from 0), which the estimate
        then has, and the number of reports. A plain CSV does not state them; those that another
        file states must be the same. Where all reports support the same number of values (GRR,
        subset selection) n follows from the counts.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the file is not what it should be, a value is missing, twice or not in the domain, n is
        unknown, or the file states another protocol, other labels or another n.

    Examples
    --------
    >>> import tempfile
    >>> from ldpopt.oracles import GRR
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "counts.csv")
    ...     _ = path.write_text("value,count\n0,700\n1,300\n")
    ...     counted = read_counts(path, GRR(1.0, d=2))
    >>> counted.n, counted.estimate.frequencies.round(3)
    (1000, array([0.933, 0.067]))
    """
    path = Path(path)
    text = read_text(path, f"cannot read {path}")
    if not text.strip():
        raise InvalidInputError(f"{path} is empty")
    if path.suffix.lower() == ".json":
        record = _record(path, text)
        result = _from_record(path, record, record.get("counts"))
        return _agreeing(path, result, oracle, labels, n)
    lines = text.split("\n")
    if lines[0].startswith(OLD_MARKS) or headed(names_in(lines[0], path)):
        stated = parsed_header(names_in(lines[0], path), path)
        record = _checked_record(path, stated, text)
        # Written without labels: a value is its number.
        numbers = Labels(Header.from_record(record, str(path)).oracle.d)
        result = _from_record(path, record, _column(path, lines, numbers))
        return _agreeing(path, result, oracle, labels, n)
    if oracle is None:
        raise InvalidInputError(
            f"{path} does not say which oracle made its counts: give all of --oracle, "
            "--epsilon and --domain, or in Python oracle=... and labels=..."
        )
    domain = _domain(labels, oracle.d)
    counts = _column(path, lines, domain)
    if n is None:
        # Python's integers: sums of large counts leave 64 bits.
        n = _number_of_reports(path, oracle, sum(counts.tolist()))
    return Aggregate(Header(oracle, domain.fingerprint), counts, n, labels=domain.texts)


def _agreeing(
    path: Path,
    result: Aggregate,
    oracle: FrequencyOracle | None,
    labels: Labels | Sequence[str] | None,
    n: int | None,
) -> Aggregate:
    """Return counts with their labels, once what was given is what the file states itself."""
    header = result.header
    if oracle is not None:
        Header(oracle, header.labels).agree(header, "the given oracle", str(path))
    if n is not None and n != result.n:
        raise InvalidInputError(f"{path} has counts of {result.n} reports, not of n = {n}")
    if labels is None:
        return result
    domain = _domain(labels, header.oracle.d)
    # A file of numbers has no labels to compare.
    if domain.texts is not None and header.labels is not None:
        Header(header.oracle, domain.fingerprint).agree(
            header, "the list of labels", str(path), domain.texts
        )
    return replace(result, labels=domain.texts)


def _domain(labels: Labels | Sequence[str] | None, d: int) -> Labels:
    """Return the labels of d values in the form of this package."""
    if isinstance(labels, Labels):
        return labels
    if labels is None:
        return Labels(d)
    texts = checked_labels(labels, d)
    validate.distinct("labels", texts)
    return Labels(d, texts)


def _number_of_reports(path: Path, oracle: FrequencyOracle, total: int) -> int:
    """Return n where all reports support the same number of values: counts sum to n·size."""
    size = oracle.report_form.fixed_size
    # A remainder means counts of another oracle, or of a part of the domain.
    if size is None or total % size:
        raise InvalidInputError(
            f"{path} does not say how many reports were counted: give --n, or in Python n=..."
        )
    return total // size


def _record(path: Path, text: str) -> dict[str, Any]:
    """Return what the JSON of a file states, once it has its checksum."""
    try:
        record = parse_json(text)
    except ValueError as error:
        raise DataUnavailableError(f"{path} is truncated or not JSON: {error}") from None
    return _checked_record(path, record, text)


def _checked_record(path: Path, record: Any, content: str) -> dict[str, Any]:
    """Return the record of a file of counts, once the file's whole content has its checksum."""
    if not isinstance(record, dict) or record.get("format") != _KIND or "n" not in record:
        raise InvalidInputError(f"{path} is not a file of counts that ldpopt aggregate wrote")
    # Before the checksum: files of another version may have none.
    Header.from_record(record, str(path))
    try:
        check(content.encode(), path)
    except DataUnavailableError:
        raise
    except ValueError:
        raise InvalidInputError(f"{path}: its sha256 is not a checksum") from None
    return record


def _from_record(path: Path, record: dict[str, Any], counts: object) -> Aggregate:
    header = Header.from_record(record, str(path))
    d = header.oracle.d
    if not isinstance(counts, list | np.ndarray) or len(counts) != d:
        raise InvalidInputError(f"{path} must have {d} counts")
    n = validate.integer(f"n of {path}", record["n"], minimum=0)
    checked = validate.whole_numbers(f"counts of {path}", counts, low=0, high=n)
    # Python's integers: sums of large counts leave 64 bits.
    check_sum(header.oracle, sum(checked.tolist()), n, str(path))
    more = {key: _of_kind(record, key, path) for key in _MORE if key in record}
    if "refinement" in record:
        refinement = Refinement.from_record(record["refinement"], header.oracle, n, str(path))
        more["refinement"] = refinement
    return Aggregate(header, checked, n, **more)


# What counts may tell of their reports, with the type of each.
_MORE: Mapping[str, type] = {"rejected": dict, "unreadable": list, "files": dict, "parts": list}


def _of_kind(record: dict[str, Any], key: str, path: Path) -> Any:
    """Return a field of a record, if it has its type; numbers of rows are added up later."""
    value = record[key]
    is_right = isinstance(value, _MORE[key])
    if is_right and key == "rejected":
        # By the very type: True is an int too.
        is_right = all(type(number) is int and number >= 0 for number in value.values())
    if not is_right:
        raise InvalidInputError(f"{path} says {key} = {value!r}, of the wrong type")
    return value


def _column(path: Path, lines: Sequence[str], labels: Labels) -> NDArray[np.int64]:
    """Return the counts of a table in text, in the order of the domain."""
    # Strict: an open quote would otherwise join rows silently.
    rows = _rows(path, csv.reader((f"{line}\n" for line in lines), strict=True))
    _, heading = next(rows, (0, []))
    at_value, at_count = _places_of_columns(path, heading)
    # Before anything is made of the domain's size, which a number can state beyond any memory.
    if labels.texts is None and labels.d > len(lines) > 0:
        raise InvalidInputError(
            f"{path} has {counted(len(lines), 'line')}, and the domain has {labels.d:,} values: "
            "each of them needs a line with its count"
        )
    # In the order of the domain, whatever the order of the rows is; -1 where a count is missing.
    counts: dict[str, int] = dict.fromkeys(labels.names, -1)
    for line, row in rows:
        if not row:  # an empty line
            continue
        place = f"{path}, line {line}"
        _require_width(place, row, heading)
        value = row[at_value]
        if counts.get(value) != -1:
            what = "there twice" if value in counts else labels.lacks(value)
            raise InvalidInputError(f"{place}: the value {value!r} is {what}")
        counts[value] = _count(f"{place}: the count of the value {value!r}", row[at_count].strip())
    missing = [value for value, count in counts.items() if count < 0]
    if missing:
        raise InvalidInputError(
            f"{path} has no count of the value {missing[0]!r} ({len(missing)} missing)"
        )
    column = np.array(list(counts.values()), dtype=np.uint64)
    return validate.whole_numbers("counts", column, low=0, high=_LARGEST)


def _require_width(place: str, row: list[str], heading: list[str]) -> None:
    if len(row) != len(heading):
        raise InvalidInputError(
            f"{place}: expected {len(heading)} columns ({_shortened(heading)}), "
            f"found {len(row)} in {','.join(row)!r}"
        )


def _places_of_columns(path: Path, heading: list[str]) -> tuple[int, int]:
    """Return where rows have their value and their count, each of which a heading names once."""
    name_of_values = first_named(heading, VALUE, LABEL)
    if name_of_values is None or COUNT not in heading:
        remedy = other_separator(heading) or (
            ": its first line must name them, as in value,count; if the rows are reports, name "
            "their columns (Schema, --column)"
        )
        raise InvalidInputError(
            f"{path} needs the columns value (or label) and count, got "
            f"{','.join(heading)!r}{remedy}"
        )
    for name in (name_of_values, COUNT):
        if heading.count(name) > 1:
            raise InvalidInputError(f"{path} has more than one column {name!r}")
    return heading.index(name_of_values), heading.index(COUNT)


def _shortened(heading: Sequence[str]) -> str:
    """Return the names of columns, without the long one that is a header."""
    return ",".join([*heading[:-1], "header"] if headed(heading) else heading)


def _rows(path: Path, rows: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table with their last line."""
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise InvalidInputError(f"{path}, line {rows.line_num} is not CSV: {error}") from None


def _count(what: str, text: str) -> int:
    """Return the count that a text states."""
    digits = validate.digits_of(text)
    if digits is None:
        raise InvalidInputError(f"{what} must be a whole number >= 0, found {text!r}")
    # Python reads numbers of up to 4,300 digits: a longer one is refused by its length.
    if len(digits.lstrip("0")) > _DIGITS or int(digits) > _LARGEST:
        raise InvalidInputError(
            f"{what} is {_excerpt(digits)}, and a count is at most {_LARGEST:,}"
        )
    return int(digits)


def _excerpt(digits: str) -> str:
    return digits if len(digits) <= _SHOWN else f"{digits[:_SHOWN]}... ({len(digits)} digits)"
