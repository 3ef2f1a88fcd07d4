"""From files of reports to support counts: planned, counted part by part, added up as the parts finish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.collection.checkpoint import Checkpoint, Progress, in_order
from ldpopt.collection.duplicates import mark_duplicates
from ldpopt.collection.files import ReportFile, find, open_reports
from ldpopt.collection.header import Header
from ldpopt.collection.partition import Partition, partitions, stamp_of
from ldpopt.collection.runners import Runner, in_process, in_processes, on_dask
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.estimate import FrequencyEstimate


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Support counts over n reports of one protocol, and what became of every row that is not among them.

    Parameters
    ----------
    header
        The protocol.
    counts
        int64, shape (d,).
    n
        Number of reports counted.
    rejected
        How many rows were set aside, by reason.
    unreadable
        The parts of files that could not be read: file, first row, rows (``None`` if unknown), reason.
    files
        The files counted, with their numbers of rows.
    """

    header: Header
    counts: NDArray[np.int64]
    n: int
    rejected: dict[str, int] = field(default_factory=dict)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)

    @property
    def estimate(self) -> FrequencyEstimate:
        """The unbiased estimate; an error if no report was counted."""
        return self.header.oracle.estimate(self.counts, self.n)


def aggregate(
    paths: Sequence[str | Path] | str | Path,
    *,
    rejects: str | Path | None = None,
    max_reject_rate: float = 1.0,
    keep_going: bool = False,
    workers: int = 1,
    dask: str | None = None,
    state: str | Path | None = None,
    on_partition: Callable[[int, int], None] | None = None,
) -> Aggregate:
    """Count the support of every value in files of reports.

    Parameters
    ----------
    paths
        Files of reports, and folders of them.
    rejects
        CSV file for the rows that are not reports, with file, row (from 0) and reason; it is replaced. Without it they
        are only counted, by reason.
    max_reject_rate
        The run stops once more than this share of all rows is set aside.
    keep_going
        Whether to go on without the parts of files that cannot be read; else the first one is an error.
    workers
        Number of processes.
    dask
        Address of a Dask scheduler whose workers see the same files; instead of processes.
    state
        File that keeps finished parts: a run that was killed is taken up there by the same call. It is left in place:
        remove it once the result is safe.
    on_partition
        Called with the numbers of finished and of all partitions.

    Returns
    -------
    The counts. Which partition is counted where and when changes nothing: counts are sums of whole numbers.

    Raises
    ------
    InvalidInputError
        If files are of different protocols or do not say theirs, a file is given twice or copied, only some have client
        ids, too many rows were set aside, or ``state`` is of other files.
    DataUnavailableError
        If a file is truncated or corrupt, unless ``keep_going``.

    Notes
    -----
    Memory does not grow with the number of reports, 8 bytes a duplicate apart. A row counts once or is set aside with one
    reason; of the rows of one client the first counts, in the order of ``paths``. A part that cannot be read adds nothing.

    Examples
    --------
    >>> import tempfile
    >>> from ldpopt.oracles import GRR
    >>> from ldpopt.collection import append_reports
    >>> oracle = GRR(epsilon=1.0, d=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for seed in range(2):
    ...         path = append_reports(folder, oracle, oracle.perturb([0, 1, 1], rng=seed), client_ids=["a", "b", seed * "c"])
    ...     result = aggregate(folder, rejects=Path(folder).parent / "rejects.csv")
    >>> result.n, result.rejected
    (4, {'duplicate client id': 2})
    """
    runner = _runner(validate.integer("workers", workers, minimum=1), dask)
    if not 0 <= max_reject_rate <= 1:
        raise InvalidInputError(
            f"max_reject_rate is a share of rows from 0 to 1, got {max_reject_rate!r}"
        )
    found = find([paths] if isinstance(paths, str | Path) else paths)
    files, unreadable = _opened(found, keep_going=keep_going)
    header = files[0].header
    checkpoint = Checkpoint(_path(state), _path(rejects))
    progress = checkpoint.load(header.protocol)
    stamps = [stamp_of(file.path) for file in files]
    order = in_order([file.path for file in files], stamps, progress, checkpoint.state)
    finished = {name: done for name, (_, done) in progress.files.items()}
    planned: list[tuple[ReportFile, Partition]] = []
    for i in order:
        file, stamp, done = files[i], stamps[i], finished.get(str(files[i].path), 0)
        parts_of = (
            *partitions(file, stamp, 0, done),
            *partitions(file, stamp, done, len(file.group_rows)),
        )
        planned += [(file, part) for part in parts_of]
    parts = (
        mark_duplicates(planned) if files[0].has_ids else [partition for _, partition in planned]
    )
    left = [part for part in parts if part.first >= finished.get(str(part.path), 0)]
    rows = sum(part.rows for part in parts)

    def tell(done: int) -> None:
        if on_partition is not None:
            on_partition(len(parts) - len(left) + done, len(parts))

    _count(left, runner, checkpoint, progress, rows, max_reject_rate, keep_going, tell)
    return Aggregate(
        Header(header.oracle, header.labels),
        progress.counts,
        progress.n,
        progress.rejected,
        unreadable + progress.unreadable,
        {str(files[i].path): sum(files[i].group_rows) for i in order},
    )


def _count(
    left: Sequence[Partition],
    runner: Runner,
    checkpoint: Checkpoint,
    progress: Progress,
    rows: int,
    max_reject_rate: float,
    keep_going: bool,
    on_partition: Callable[[int], None],
) -> None:
    def _check() -> None:
        bad = sum(progress.rejected.values())
        if bad > max_reject_rate * rows:
            reasons = ", ".join(
                f"{times} with {reason}" for reason, times in progress.rejected.items()
            )
            where = (
                checkpoint.rejects and f"see {checkpoint.rejects}"
            ) or "aggregate them with a rejects file first"
            raise InvalidInputError(
                f"more than {max_reject_rate:g} of {rows} rows are not reports: {reasons} so far; {where}"
            )

    _check()  # a run that is taken up with a lower rate
    for done, (partition, tally) in enumerate(zip(left, runner(left), strict=True), 1):
        if tally.trouble and not keep_going:
            raise DataUnavailableError(tally.trouble)
        checkpoint.commit(progress, partition, tally)
        _check()
        on_partition(done)


def _runner(workers: int, dask: str | None) -> Runner:
    if dask is not None:
        return on_dask(dask)
    return in_process if workers == 1 else in_processes(workers)


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _opened(
    paths: Iterable[Path], *, keep_going: bool
) -> tuple[list[ReportFile], list[dict[str, Any]]]:
    """Open all files and check that they belong together; return them and those that cannot be read."""
    files: list[ReportFile] = []
    unreadable: list[dict[str, Any]] = []
    identities: dict[str, Path] = {}
    for path in paths:
        try:
            file = open_reports(path)
        except DataUnavailableError as error:
            if not keep_going:
                raise
            unreadable.append({"file": str(path), "row": 0, "rows": None, "reason": str(error)})
            continue
        if files:
            file.header.agree(files[0].header, str(path), str(files[0].path))
            if file.has_ids != files[0].has_ids:
                raise InvalidInputError(
                    f"only one of {path} and {files[0].path} has client ids: duplicates among them could not be found"
                )
        identity = file.header.file
        if identity is not None and identity in identities:
            raise InvalidInputError(
                f"{path} is a copy of {identities[identity]}: its reports would be counted twice"
            )
        if identity is not None:
            identities[identity] = path
        files.append(file)
    if not files:
        raise DataUnavailableError(
            f"none of the files can be read: {unreadable[0]['reason']}"
            if unreadable
            else "no files of reports"
        )
    return files, unreadable
