"""What an aggregation has finished, on disk: replaced in one step after every partition, together with what it covers."""

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

from ldpopt.collection.layout import Reason
from ldpopt.collection.partition import Partition, Stamp, Tally
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.storage import write_whole

_COLUMNS = ("file", "row", "reason")


@dataclass
class Progress:
    """Sums over finished partitions, and for each file, in the order they are read, how many of its row groups those cover."""

    protocol: dict[str, Any]
    counts: NDArray[np.int64]
    n: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, tuple[Stamp, int]] = field(default_factory=dict)
    rejects_bytes: int = 0

    def add(self, partition: Partition, tally: Tally) -> None:
        """Add a finished partition: counts, rejects, or the trouble that kept it from being read."""
        if tally.trouble:
            self.unreadable.append(
                {
                    "file": str(partition.path),
                    "row": partition.row,
                    "rows": partition.rows,
                    "reason": tally.trouble,
                }
            )
        else:
            self.counts += tally.counts
            self.n += tally.n
            for code, times in zip(*np.unique(tally.reasons, return_counts=True), strict=True):
                words = Reason(code).words
                self.rejected[words] = self.rejected.get(words, 0) + int(times)
        self.files[str(partition.path)] = (partition.stamp, partition.last)


class Checkpoint:
    """The state file of an aggregation, and the rejects file beside it.

    Rejects are appended first, then the state is replaced; it records how long the rejects file was, and whatever a killed
    run wrote beyond that is cut off when it is taken up again.
    """

    def __init__(self, state: Path | None, rejects: Path | None) -> None:
        self.state, self.rejects = state, rejects

    def load(self, protocol: dict[str, Any]) -> Progress:
        """Return the progress of an unfinished run, or none if there was none.

        Raises
        ------
        InvalidInputError
            If the state is of other reports or of a file that has changed since, or the files cannot be written.
        """
        progress = Progress(protocol, np.zeros(protocol["d"], dtype=np.int64))
        if self.state is not None and self.state.exists():
            progress = self._stored(self.state, protocol)
        elif self.rejects is not None:
            write_whole(self.rejects, (",".join(_COLUMNS) + "\n").encode())
            progress.rejects_bytes = self.rejects.stat().st_size
        if self.rejects is not None:
            self._cut(self.rejects, progress.rejects_bytes)
        return progress

    def commit(self, progress: Progress, partition: Partition, tally: Tally) -> None:
        """Add a finished partition to the progress and make it last; an error if that cannot be written."""
        progress.add(partition, tally)
        if self.rejects is not None and len(tally.rejected):
            lines = io.StringIO()
            name = str(partition.path)
            reasons = [Reason(code).words for code in tally.reasons]
            csv.writer(lines, lineterminator="\n").writerows(
                zip([name] * len(reasons), tally.rejected.tolist(), reasons, strict=True)
            )
            with self.rejects.open("ab") as file:
                file.write(lines.getvalue().encode())
                file.flush()
                os.fsync(file.fileno())
                progress.rejects_bytes = file.tell()
        if self.state is not None:
            record = {
                **vars(progress),
                "counts": base64.b64encode(progress.counts.astype("<i8").tobytes()).decode(),
            }
            record["rejects"] = None if self.rejects is None else str(self.rejects)
            write_whole(self.state, json.dumps(record).encode())

    def _stored(self, path: Path, protocol: dict[str, Any]) -> Progress:
        hint = f"remove {path} to start again"
        try:
            record = json.loads(path.read_bytes())
            rejects = record.pop("rejects")
            counts = np.frombuffer(base64.b64decode(record.pop("counts")), dtype="<i8").astype(
                np.int64
            )
            files = {
                name: (tuple(stamp), done) for name, (stamp, done) in record.pop("files").items()
            }
            progress = Progress(counts=counts, files=files, **record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise DataUnavailableError(
                f"{path} is not the state of an aggregation: {hint}"
            ) from None
        if progress.protocol != protocol:
            raise InvalidInputError(
                f"{path} is the state of an aggregation of {progress.protocol}, not of {protocol}: {hint}"
            )
        if rejects != (None if self.rejects is None else str(self.rejects)):
            raise InvalidInputError(
                f"the unfinished aggregation wrote its rejects to {rejects}: name the same file, or {hint}"
            )
        return progress

    @staticmethod
    def _cut(rejects: Path, size: int) -> None:
        if not rejects.exists() or rejects.stat().st_size < size:
            raise InvalidInputError(
                f"{rejects} lost rows that an unfinished aggregation had written to it: start again"
            )
        os.truncate(rejects, size)


def in_order(
    paths: Sequence[Path], stamps: Sequence[Stamp], progress: Progress, state: Path | None
) -> list[int]:
    """Return the order to read files in: those that an unfinished run has begun, in its order, then the others.

    So a client's first report stays the first when files are added. Raises InvalidInputError if a begun file is gone or
    changed.
    """
    index = {str(path): i for i, path in enumerate(paths)}
    for name, (stamp, _) in progress.files.items():
        if name not in index or stamps[index[name]] != stamp:
            what = "is not among the files" if name not in index else "has changed"
            raise InvalidInputError(
                f"{name} was counted in part by an unfinished run and {what}: remove {state} to start again"
            )
    begun = [index[name] for name in progress.files]
    return list(dict.fromkeys([*begun, *range(len(paths))]))
