"""A partition: the part of a file that is counted as a whole or not at all, by any worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldpopt.collection.files import ReportFile, open_reports
from ldpopt.collection.layout import Codes, Reason
from ldpopt.collection.schema import Schema
from ldpopt.collection.sums import Sums, SupportCounts, WeightedCounts
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.reports.weighing import Weighing

Rows = NDArray[np.int64]

# Values that counting a partition touches: seconds, so that little is lost and a commit costs
# little.
_WORK = 1 << 28

# Rows of a partition, whatever their work is: between reading often and losing much.
_FEWEST = 1 << 16
_MOST = 1 << 22

# Held while a kernel uses all cores by itself: two at a time would slow each other down.
_ONE_AT_A_TIME = threading.Lock()

Stamp = tuple[int, int]


def stamp_of(path: Path) -> Stamp:
    """Return size and time of change of a file, which tell it from another one of the same name."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _no_rows() -> Rows:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Partition:
    """Row groups ``first .. last-1`` of a file, which hold the rows from ``row`` on.

    ``marks`` are the numbers, in the file, of the rows that are set aside because of their client
    id, by reason. ``error`` is the reason why the ids cannot be read. ``schema`` is that of a file
    of another program, ``digits`` the checksum that any other file states.
    """

    path: Path
    stamp: Stamp
    first: int
    last: int
    row: int
    rows: int
    marks: Mapping[Reason, Rows] = field(default_factory=dict)
    error: str = ""
    schema: Schema | None = None
    digits: str | None = None


@dataclass(frozen=True)
class Tally:
    """What a partition adds: support counts, or sums of weights, of n reports; rejected rows.

    Each rejected row has a reason. ``error`` states why a partition could not be read; it then adds
    nothing.
    """

    counts: NDArray[np.int64]
    n: int = 0
    rejected: Rows = field(default_factory=_no_rows)
    reasons: Codes = field(default_factory=lambda: np.empty(0, np.uint8))
    error: str = ""


def partitions(
    file: ReportFile, stamp: Stamp, first: int, last: int, schema: Schema | None = None
) -> Iterator[Partition]:
    """Yield row groups ``first .. last-1`` as partitions.

    They have up to a number of rows that depends on the oracle alone, so that a resumed run has the
    same ones.
    """
    part = partial(Partition, file.path, stamp, schema=schema, digits=file.digits)
    size = min(max(_WORK // file.layout.work, _FEWEST), _MOST)
    row = sum(file.group_rows[:first])
    rows = 0
    for group in range(first, last):
        more = file.group_rows[group]
        # A row group that is larger than the limit by itself is a partition by itself.
        if rows and rows + more > size:
            yield part(first, group, row, rows)
            first = group
            row += rows
            rows = 0
        rows += more
    if rows:
        yield part(first, last, row, rows)


def count_partition(partition: Partition) -> Tally:
    """Count the reports of a partition in constant memory.

    Raises InvalidInputError if the file is not the one that was planned with. A file that cannot be
    read is reported in the tally.
    """
    return _tally(partition, None)


def weigh_partition(weighing: Weighing, partition: Partition) -> Tally:
    """Add up the weights of the reports of a partition, as ``count_partition`` counts them."""
    return _tally(partition, weighing)


def _tally(partition: Partition, weighing: Weighing | None) -> Tally:
    try:
        # The ids could not be read: without them duplicates would count.
        if partition.error:
            raise DataUnavailableError(partition.error)
        file = _opened(partition)
        sums: Sums = SupportCounts(file.header.oracle)
        if weighing is not None:
            sums = WeightedCounts(weighing)
        return _counted(file, partition, sums)
    except DataUnavailableError as error:
        return Tally(np.empty(0, np.int64), error=str(error))


def malformed_rows(partition: Partition) -> Rows:
    """Return the numbers of a partition's rows that are not reports.

    They are all of its rows if it cannot be read. Errors as ``count_partition``.
    """
    row = partition.row
    malformed = [_no_rows()]
    try:
        for _, codes in _opened(partition).batches(partition.first, partition.last):
            malformed.append(row + np.flatnonzero(codes))
            row += len(codes)
    except DataUnavailableError:
        return np.arange(partition.row, partition.row + partition.rows)
    return np.concatenate(malformed)


def _opened(partition: Partition) -> ReportFile:
    """Return the file of a partition, if it is the one that was planned with."""
    try:
        # A file that grew or was replaced would be counted in part twice, or not at all.
        changed = stamp_of(partition.path) != partition.stamp
    except OSError as error:
        raise DataUnavailableError(str(error)) from None
    if changed:
        raise InvalidInputError(f"{partition.path} changed while it was being counted: start again")
    return open_reports(partition.path, partition.schema)


def _counted(file: ReportFile, partition: Partition, sums: Sums) -> Tally:
    counts = sums.empty()
    n = 0
    row = partition.row
    rejected = [_no_rows()]
    reasons = [np.empty(0, np.uint8)]
    # Batch by batch: memory does not grow with the size of the partition.
    for reports, codes in file.batches(partition.first, partition.last):
        for reason, rows in partition.marks.items():
            _mark(codes, row, rows, reason)
        good = codes == 0
        # Most batches have no bad row, and are counted without a copy.
        kept = reports if good.all() else reports[good]
        with _ONE_AT_A_TIME if file.layout.shares_cores else nullcontext():
            counts = sums.joined(counts, sums.of(kept, file.layout.form))
        n += len(kept)
        at = np.flatnonzero(codes)
        rejected.append(at + row)
        reasons.append(codes[at])
        row += len(codes)
    return Tally(counts, n, np.concatenate(rejected), np.concatenate(reasons))


def _mark(codes: Codes, row: int, rows: Rows, reason: Reason) -> None:
    """Set the codes of rows that have no reason yet; ``codes`` begin at ``row``."""
    # Both are sorted: only the marked rows of this batch are looked at.
    start, end = np.searchsorted(rows, [row, row + len(codes)])
    here = rows[start:end] - row
    codes[here[codes[here] == 0]] = reason
