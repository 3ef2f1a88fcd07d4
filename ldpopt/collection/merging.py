"""The sum of support counts of several days, regions or servers, if they belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ldpopt.collection.aggregation import Aggregate
from ldpopt.collection.duplicates import mark_duplicates
from ldpopt.collection.files import ReportFile, open_reports
from ldpopt.collection.header import Header, fingerprint
from ldpopt.collection.layout import Reason
from ldpopt.collection.partition import Partition, malformed_rows, partitions, stamp_of
from ldpopt.errors import InvalidInputError, LdpoptError

# Counts beyond this would overflow int64 once added up.
_LARGEST = 2**62


@dataclass(frozen=True, eq=False)
class Merged:
    """Counts of several aggregations together.

    Attributes
    ----------
    counts
        Their sum, with all that became of other rows, and with the labels that all of them have.
    ids_compared
        Whether the client ids behind all of them were compared: each client then reported in one of
        them alone.
    """

    counts: Aggregate
    ids_compared: bool


def merge(parts: Mapping[str, Aggregate]) -> Merged:
    """Return the sum of counts by the names of their files.

    Parameters
    ----------
    parts
        At least two, of one protocol, which share no file of reports. Where all reports are still
        in the files that were counted, and have client ids, these are compared.

    Raises
    ------
    InvalidInputError
        If there are fewer than two, their protocols or labels differ (what differs is named), some
        counted the same file of reports, a client reported in two of them, or the sum leaves 62
        bits.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> oracle = GRR(epsilon=1.0, d=3)
    >>> days = {
    ...     day: Aggregate(Header(oracle), oracle.support_counts(reports), len(reports))
    ...     for day, reports in {"monday": [0, 1, 1], "tuesday": [2]}.items()
    ... }
    >>> merge(days).counts.counts, merge(days).counts.n
    (array([1, 2, 1]), 4)
    """
    if len(parts) < 2:
        raise InvalidInputError(f"merge takes at least two files of counts, got {len(parts)}")
    (first_name, first), *others = parts.items()
    # Each against the first is enough: equality passes on.
    for name, part in others:
        part.header.agree(first.header, name, first_name)
    labels = _common_labels(parts)
    # Files before clients: one that was counted twice would show as thousands of clients.
    _require_apart(parts)
    ids_compared = _compare_ids(parts)
    n = sum(part.n for part in parts.values())
    if n > _LARGEST:
        raise InvalidInputError(f"together the counts are of {n} reports, more than 2**62")
    counts = np.zeros_like(first.counts)
    rejected: Counter[str] = Counter()
    unreadable = []
    identities = []
    for part in parts.values():
        counts = counts + part.counts
        rejected.update(part.rejected)
        unreadable += part.unreadable
        identities += part.parts
    merged = Aggregate(
        header=Header(first.header.oracle, first.header.labels),
        counts=counts,
        n=n,
        rejected=dict(rejected),
        unreadable=unreadable,
        files=_files(parts),
        parts=identities,
        labels=labels,
    )
    return Merged(merged, ids_compared)


def _common_labels(parts: Mapping[str, Aggregate]) -> tuple[str, ...] | None:
    """Return the labels that all counts have; None where those of some are not known.

    Raises InvalidInputError if two lists of labels differ.
    """
    stated = {name: tuple(part.labels) for name, part in parts.items() if part.labels is not None}
    if not stated:
        return None
    (first_name, labels), *others = stated.items()
    for name, other in others:
        # Files of numbers have no fingerprint that would show it.
        given = Header(parts[name].header.oracle, fingerprint(other))
        given.agree(Header(given.oracle, fingerprint(labels)), name, first_name, other)
    # One fingerprint is that of one list; without it other counts may have another list.
    is_of_all = len(stated) == len(parts) or parts[first_name].header.labels is not None
    return labels if is_of_all else None


def _require_apart(parts: Mapping[str, Aggregate]) -> None:
    """Raise an error if two of the counts are of the same file of reports."""
    counted_in: dict[str, str] = {}
    for name, part in parts.items():
        for identity in part.parts:
            other = counted_in.setdefault(str(identity), name)
            if other != name:
                raise InvalidInputError(
                    f"{name} and {other} both counted the file of reports with the identity "
                    f"{identity}: its reports would be counted twice"
                )


def _files(parts: Mapping[str, Aggregate]) -> dict[str, int]:
    """Return the files of reports with their numbers of rows, each by a name of its own."""
    files: dict[str, int] = {}
    for name, part in parts.items():
        for path, rows in part.files.items():
            # Two servers may have folders of the same name.
            key = path if path not in files else f"{path} ({name})"
            files[key] = rows
    return files


def _compare_ids(parts: Mapping[str, Aggregate]) -> bool:
    """Return whether all client ids could be compared; raise an error if some occur in two parts.

    Only duplicates within one part are allowed: its own aggregation has set them aside.
    """
    opened = [_reports_of(part) for part in parts.values()]
    if not all(opened):
        return False
    by_part = [files for files in opened if files]
    within = sum(map(_repeated, by_part))
    together = _repeated([file for files in by_part for file in files])
    # What is more than within the parts is between them.
    if together > within:
        more = together - within
        raise InvalidInputError(
            f"{more} {'client' if more == 1 else 'clients'} reported in more than one of "
            f"{', '.join(parts)}: count the reports together with ldpopt aggregate, where each "
            "client counts once"
        )
    return True


def _reports_of(part: Aggregate) -> list[ReportFile] | None:
    """Return the files behind some counts, opened; None unless all are there and have ids."""
    files = []
    for path in part.files:
        try:
            file = open_reports(Path(path))
        except LdpoptError:
            return None
        # A file of the same name may be another one by now.
        if not file.has_ids or file.header.file not in part.parts:
            return None
        files.append(file)
    return files or None


def _repeated(files: list[ReportFile]) -> int:
    """Return how many rows of files are not the first report of their client."""
    work: list[tuple[ReportFile, Partition]] = []
    for file in files:
        whole = partitions(file, stamp_of(file.path), 0, len(file.group_rows))
        work += [(file, part) for part in whole]
    marked = mark_duplicates(work, lambda waiting: map(malformed_rows, waiting))
    return sum(len(part.marks.get(Reason.DUPLICATE, ())) for part in marked)
