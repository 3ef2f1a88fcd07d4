"""What an aggregation has finished, in a file that is replaced after every partition."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import __version__
from ldpopt.collection.layout import Reason
from ldpopt.collection.partition import Partition, Stamp, Tally
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.storage import write_whole

_COLUMNS = ("file", "row", "reason")


@dataclass
class Progress:
    """Sums over finished partitions, and what they cover.

    ``files`` holds each file that was begun, in the order in which they are read, with its stamp
    and the number of its row groups that are finished.
    """

    protocol: dict[str, Any]
    counts: NDArray[np.int64]
    n: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, tuple[Stamp, int]] = field(default_factory=dict)
    rejects_bytes: int = 0

    def add(self, partition: Partition, tally: Tally) -> None:
        """Add a finished partition: counts and rejects, or the error that made it unreadable."""
        if tally.error:
            part = {
                "file": str(partition.path),
                "row": partition.row,
                "rows": partition.rows,
                "reason": tally.error,
            }
            self.unreadable.append(part)
        else:
            self.counts += tally.counts
            self.n += tally.n
            # By the words and not by the code: the state stays readable, and codes may change.
            for code, times in zip(*np.unique(tally.reasons, return_counts=True), strict=True):
                words = Reason(code).words
                self.rejected[words] = self.rejected.get(words, 0) + int(times)
        # Also after an error: a partition that cannot be read is finished, and not tried again.
        self.files[str(partition.path)] = (partition.stamp, partition.last)


class Checkpoint:
    """The state file of an aggregation, and the rejects file beside it.

    It keeps sums, where studies keep every finished cell in a row of its own
    (``ldpopt.studies.engine.store``): cells are read again one by one, when a figure is drawn or
    changed, whereas of partitions only the sum is wanted, and the counts of each by themselves may
    take more space than the reports.

    Rejects are appended first, then the state is replaced. The state records how long the rejects
    file was: what a killed run wrote beyond that is cut off when the run is resumed.
    """

    def __init__(self, state: Path | None, rejects: Path | None) -> None:
        self.state = state
        self.rejects = rejects

    def load(self, protocol: dict[str, Any]) -> Progress:
        """Return the progress of an unfinished run, or empty progress if there was no such run.

        Raises
        ------
        InvalidInputError
            If the state is of other reports or of a file that has changed since, or the files
            cannot be written.
        DataUnavailableError
            If the state file is not the state of an aggregation.
        """
        progress = Progress(protocol, np.zeros(protocol["d"], dtype=np.int64))
        if self.state is not None and self.state.exists():
            progress = self._stored(self.state, protocol)
        # A new run replaces the rejects of an older one.
        elif self.rejects is not None:
            write_whole(self.rejects, (",".join(_COLUMNS) + "\n").encode())
            progress.rejects_bytes = self.rejects.stat().st_size
        if self.rejects is not None:
            self._cut(self.rejects, progress.rejects_bytes)
        return progress

    def commit(self, progress: Progress, partition: Partition, tally: Tally) -> None:
        """Add a finished partition to the progress and write both to disk.

        Raises InvalidInputError if the state cannot be written.
        """
        progress.add(partition, tally)
        if self.rejects is not None and len(tally.rejected):
            # Rows first, then the state that counts them: the other order could lose rows.
            progress.rejects_bytes = _append_rejects(self.rejects, partition.path, tally)
        if self.state is not None:
            record = {
                **vars(progress),
                # Text of fixed length per count: a list of a million numbers is slow to write so
                # often.
                "counts": base64.b64encode(progress.counts.astype("<i8").tobytes()).decode(),
                "rejects": self._rejects_name,
                "version": __version__,
            }
            write_whole(self.state, json.dumps(record).encode())

    @property
    def _rejects_name(self) -> str | None:
        return None if self.rejects is None else str(self.rejects)

    def _stored(self, path: Path, protocol: dict[str, Any]) -> Progress:
        hint = f"remove {path} to start again"
        try:
            record = json.loads(path.read_bytes())
            rejects = record.pop("rejects")
            version = record.pop("version")
            stored = np.frombuffer(base64.b64decode(record.pop("counts")), dtype="<i8")
            files = {
                name: (tuple(stamp), groups)
                for name, (stamp, groups) in record.pop("files").items()
            }
            progress = Progress(counts=stored.astype(np.int64), files=files, **record)
        # A file of any other content fails in one of these ways.
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise DataUnavailableError(
                f"{path} is not the state of an aggregation: {hint}"
            ) from None
        # Another version may count, or set aside, other rows: half a sum of each is of neither.
        if version != __version__:
            raise InvalidInputError(
                f"{path} is the state of an aggregation by ldpopt {version}, this is "
                f"{__version__}: {hint}"
            )
        if progress.protocol != protocol:
            raise InvalidInputError(
                f"{path} is the state of an aggregation of {progress.protocol}, not of {protocol}: "
                f"{hint}"
            )
        if rejects != self._rejects_name:
            raise InvalidInputError(
                f"the unfinished aggregation wrote its rejects to {rejects}: name the same file, "
                f"or {hint}"
            )
        return progress

    @staticmethod
    def _cut(rejects: Path, size: int) -> None:
        if not rejects.exists() or rejects.stat().st_size < size:
            raise InvalidInputError(
                f"{rejects} lost rows that an unfinished aggregation had written to it: start again"
            )
        # Rows beyond the state are of a partition that will be counted again.
        os.truncate(rejects, size)


def _append_rejects(rejects: Path, path: Path, tally: Tally) -> int:
    """Append the rejected rows of a partition, and return the size of the rejects file."""
    lines = io.StringIO()
    rows = [
        (str(path), row, Reason(code).words)
        for row, code in zip(tally.rejected.tolist(), tally.reasons, strict=True)
    ]
    csv.writer(lines, lineterminator="\n").writerows(rows)
    with rejects.open("ab") as file:
        file.write(lines.getvalue().encode())
        file.flush()
        # The state that is written next counts on these rows.
        os.fsync(file.fileno())
        return file.tell()


def in_order(
    paths: Sequence[Path], stamps: Sequence[Stamp], progress: Progress, state: Path | None
) -> list[int]:
    """Return the order in which to read files: those of an unfinished run first, in its order.

    A client's first report then remains the first when files are added. Raises InvalidInputError if
    a file that was begun is gone or changed.
    """
    index = {str(path): i for i, path in enumerate(paths)}
    for name, (stamp, _) in progress.files.items():
        if name not in index or stamps[index[name]] != stamp:
            what = "is not among the files" if name not in index else "has changed"
            raise InvalidInputError(
                f"{name} was counted in part by an unfinished run and {what}: remove {state} to "
                "start again"
            )
    # A dict keeps the first of equal keys, so that begun files come first and once.
    begun = [index[name] for name in progress.files]
    return list(dict.fromkeys([*begun, *range(len(paths))]))
