"""A part of a file that is counted as a whole or not at all, by whoever has the time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldpopt.collection.files import ReportFile, open_reports
from ldpopt.collection.layout import Reason
from ldpopt.errors import DataUnavailableError, InvalidInputError

_WORK = (
    1 << 28
)  # values that counting a partition touches: seconds, so that little is lost and a commit costs little
_FEWEST, _MOST = 1 << 16, 1 << 22  # rows
_ONE_AT_A_TIME = threading.Lock()

Stamp = tuple[int, int]


def stamp_of(path: Path) -> Stamp:
    """Return size and time of change of a file: what tells it from another one of the same name."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class Partition:
    """Row groups ``first .. last-1`` of a file, which hold the rows from ``row`` on.

    ``duplicates`` are the numbers, in the file, of the rows whose client has reported before, ``nameless`` of those without
    the id that the others have; ``trouble`` says why the ids cannot be read.
    """

    path: Path
    stamp: Stamp
    first: int
    last: int
    row: int
    rows: int
    duplicates: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    nameless: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    trouble: str = ""


@dataclass(frozen=True)
class Tally:
    """What a partition adds: support counts over n reports, and the rows set aside with their reasons.

    ``trouble`` says why a partition could not be read; it then adds nothing.
    """

    counts: NDArray[np.int64]
    n: int = 0
    rejected: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    reasons: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    trouble: str = ""


def partitions(file: ReportFile, stamp: Stamp, first: int, last: int) -> Iterator[Partition]:
    """Yield row groups ``first .. last-1`` as partitions of up to a number of rows that depends on the oracle alone."""
    size = min(max(_WORK // file.layout.work, _FEWEST), _MOST)
    row, rows = sum(file.group_rows[:first]), 0
    for group in range(first, last):
        more = file.group_rows[group]
        if rows and rows + more > size:
            yield Partition(file.path, stamp, first, group, row, rows)
            first, row, rows = group, row + rows, 0
        rows += more
    if rows:
        yield Partition(file.path, stamp, first, last, row, rows)


def count_partition(partition: Partition) -> Tally:
    """Count the reports of a partition in constant memory.

    Raises InvalidInputError if the file is not the one that was planned with; what cannot be read is told in the tally.
    """
    if partition.trouble:
        return Tally(np.empty(0, np.int64), trouble=partition.trouble)
    try:
        changed = stamp_of(partition.path) != partition.stamp
        file = None if changed else open_reports(partition.path)
    except (OSError, DataUnavailableError) as error:
        return Tally(np.empty(0, np.int64), trouble=str(error))
    if file is None:
        raise InvalidInputError(f"{partition.path} changed while it was being counted: start again")
    oracle, layout = file.header.oracle, file.layout
    counts, n, row = np.zeros(oracle.d, dtype=np.int64), 0, partition.row
    rejected, reasons = [np.empty(0, np.int64)], [np.empty(0, np.uint8)]
    try:
        for reports, codes in file.batches(partition.first, partition.last):
            for rows, reason in (
                (partition.duplicates, Reason.DUPLICATE),
                (partition.nameless, Reason.NO_ID),
            ):
                here = rows[slice(*np.searchsorted(rows, [row, row + len(codes)]))] - row
                codes[here[codes[here] == 0]] = reason
            good = codes == 0
            kept = reports if good.all() else reports[good]
            with _ONE_AT_A_TIME if layout.shares_cores else nullcontext():
                counts += oracle.support_counts(kept)
            n += len(kept)
            at = np.flatnonzero(codes)
            rejected.append(at + row)
            reasons.append(codes[at])
            row += len(codes)
    except DataUnavailableError as error:
        return Tally(np.empty(0, np.int64), trouble=str(error))
    return Tally(counts, n, np.concatenate(rejected), np.concatenate(reasons))
