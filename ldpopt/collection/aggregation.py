"""From files of reports to support counts: a plan, tallies part by part, and their sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import progress as bars
from ldpopt import validate
from ldpopt.collection.checkpoint import Checkpoint, Progress, in_order
from ldpopt.collection.duplicates import mark_duplicates
from ldpopt.collection.files import ReportFile, list_files, open_reports
from ldpopt.collection.header import Header
from ldpopt.collection.partition import (
    Partition,
    Stamp,
    Tally,
    count_partition,
    malformed_rows,
    partitions,
    stamp_of,
    weigh_partition,
)
from ldpopt.collection.refinement import Refinement
from ldpopt.collection.schema import Schema
from ldpopt.collection.sums import WeightedCounts
from ldpopt.errors import DataUnavailableError, InvalidInputError, WorkersError, warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.executors import PATIENCE, Executor, executor_for, results
from ldpopt.printable import counted
from ldpopt.reports.refinement import warn_of_a_wrong_start, weighing_of

# Logarithm of a probability that no collection meets, 1e-12.
_LOG_NEVER = -27.6


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Support counts over n reports of one protocol, and what became of every other row.

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
        The parts of files that could not be read: file, first row, rows (``None`` if unknown),
        reason.
    files
        The files counted, with their numbers of rows.
    parts
        The identities of those files that state one: counts that share a part belong together no
        more.
    refinement
        What a second pass over the same reports gave; None where there was none.
    labels
        The labels of the values, which the estimate then has; None where they are not known.
    """

    header: Header
    counts: NDArray[np.int64]
    n: int
    rejected: dict[str, int] = field(default_factory=dict)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    refinement: Refinement | None = None
    labels: Sequence[str] | None = None

    def __repr__(self) -> str:
        parts = [counted(self.n, "report"), repr(self.header.oracle)]
        if self.rejected:
            parts.append(f"{counted(sum(self.rejected.values()), 'row')} set aside")
        if self.unreadable:
            parts.append(counted(len(self.unreadable), "unreadable part"))
        return f"Aggregate({', '.join(parts)})"

    @property
    def estimate(self) -> FrequencyEstimate:
        """The unbiased estimate, from the reports themselves after a second pass.

        Raises an error if no report was counted.
        """
        raw = self.header.oracle.estimate(self.counts, self.n, labels=self.labels)
        if self.refinement is None:
            return raw
        estimate = self.refinement.estimate(self.header.oracle, self.n, raw)
        return estimate if self.labels is None else estimate.labelled(self.labels)


def aggregate(
    paths: Sequence[str | Path] | str | Path,
    *,
    rejects: str | Path | None = None,
    max_reject_rate: float = 1.0,
    keep_going: bool = False,
    workers: int = 1,
    dask: str | None = None,
    dask_patience: float = PATIENCE,
    state: str | Path | None = None,
    schema: Schema | None = None,
    refine: str | None = None,
    on_partition: Callable[[int, int], None] | None = None,
) -> Aggregate:
    """Count the support of every value in files of reports.

    Parameters
    ----------
    paths
        Files of reports, and folders of them.
    rejects
        CSV file for the rows that are not reports, with file, row (from 0) and reason. It is
        replaced; where all rows are reports it is removed, and none is written. Without it they are
        only counted, by reason.
    max_reject_rate
        The run stops once more than this share of all rows is set aside.
    keep_going
        Whether to continue without the parts of files that cannot be read. Otherwise the first one
        raises an error.
    workers
        Number of processes.
    dask
        Address of a Dask scheduler whose workers see the same files; used instead of processes.
    dask_patience
        Seconds that the scheduler has for an answer, and that it may be without any worker.
    state
        File that keeps what was counted. The same call resumes a run that was killed; after a run
        that ended it reads only what is new: parts that were added, and of older parts the client
        ids alone. Remove the file to start again.
    schema
        Protocol and columns of files of another program, which do not state them.
    refine
        The method with which a second pass over the reports starts, such as ``"mixture-ns"``: see
        ``ldpopt.refine``. The ``estimate`` of the result is then the refined one. Where reports
        hold no more than their counts a warning states so, and there is no second pass. Its state
        is a file beside ``state``; new files change the start, so that all reports are read again.
    on_partition
        Called with the numbers of finished and of all partitions.

    Returns
    -------
    The counts, which do not depend on where and when a partition is counted.

    Raises
    ------
    InvalidInputError
        If files are of different protocols or state none, one is given twice or copied, only some
        have client ids, too many rows were set aside, ``rejects`` exists and is something else, or
        ``state`` is of files that are gone, changed or of another protocol, of another run that
        goes on at this moment, or of one with ``keep_going`` that left out parts.
    DataUnavailableError
        If a file is truncated or corrupt, unless ``keep_going``.

    Notes
    -----
    Memory does not grow with the number of reports, except for 20 bytes per row of clients that
    report again. A row counts once or is set aside with one reason; of the rows of one client the
    first that is a report counts, in the order of ``paths``. A part that cannot be read adds
    nothing. Another run with the same ``state`` or ``rejects`` has to wait for the end of this one.

    Examples
    --------
    >>> import tempfile
    >>> from ldpopt.oracles import GRR
    >>> from ldpopt.collection import append_reports
    >>> oracle = GRR(epsilon=1.0, d=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     day = Path(folder, "reports")
    ...     for seed in range(2):
    ...         reports = oracle.perturb([0, 1, 1], rng=seed)
    ...         path = append_reports(day, oracle, reports, client_ids=["a", "b", "cd"[seed]])
    ...     result = aggregate(day, rejects=Path(folder, "rejects.csv"))
    >>> result.n, result.rejected
    (4, {'duplicate client id': 2})
    """
    # Before any file is opened, which may take minutes.
    executor = executor_for(validate.integer("workers", workers, minimum=1), dask, dask_patience)
    _check_rate(max_reject_rate)
    chosen = list_files([paths] if isinstance(paths, str | Path) else paths)
    files, unreadable = _opened(chosen, schema, keep_going=keep_going)
    # All files have the same protocol: their opening has checked it.
    header = files[0].header
    checkpoint = Checkpoint(_path(state), _path(rejects), schema)
    # For the whole run: two that append to one file would spoil it.
    with checkpoint.held():
        progress = checkpoint.load(header, keep_going=keep_going)
        stamps = [stamp_of(file.path) for file in files]
        plan = _planned(files, stamps, progress, checkpoint, executor)
        limit = _Limit(max_reject_rate, plan.rows, checkpoint.rejects)
        # A run that is resumed with a lower rate may be beyond it already.
        limit.check(progress)
        tallies = _tallies(executor, plan.waiting, checkpoint.state)
        # A caller who learns of every part shows it in another way.
        wanted = None if on_partition is None else False
        number = len(plan.waiting)
        tallies = bars.track(tallies, f"{counted(number, 'part')} of files", number, wanted=wanted)
        for done in _committed(tallies, plan, checkpoint, progress, keep_going=keep_going):
            limit.check(progress)
            if on_partition is not None:
                on_partition(done, plan.partitions)
    result = _joined(plan.files, progress, unreadable)
    _warn_of_fewer_values(result)
    if refine is None:
        return result
    return _refined(result, plan, refine, checkpoint, executor, keep_going, on_partition)


def _warn_of_fewer_values(result: Aggregate) -> None:
    """Warn if a count is 0 where there are too many reports for chance.

    Bytes of reports over fewer values may be those of reports over more.
    """
    oracle = result.header.oracle
    # Every report supports every value with q at least.
    log_probability = result.n * math.log1p(-oracle.q)
    if log_probability < _LOG_NEVER and not result.counts.all():
        at = int(validate.first(result.counts == 0)[-1])
        warn(
            f"none of the {result.n:,} reports supports value {at}, and a report of "
            f"{oracle!r} does with a probability of {oracle.q:.3g} or more: they may be of another "
            "oracle or of fewer values"
        )


def _refined(
    result: Aggregate,
    plan: _Plan,
    method: str,
    checkpoint: Checkpoint,
    executor: Executor,
    keep_going: bool,
    on_partition: Callable[[int, int], None] | None,
) -> Aggregate:
    """Return the result with the sums of a second pass over the files that were counted."""
    oracle = result.header.oracle
    if result.n < 2:
        raise InvalidInputError(f"a second pass needs at least two reports, got {result.n}")
    weighing = weighing_of(oracle.estimate(result.counts, result.n), oracle, method)
    if weighing is None:
        return result
    state = checkpoint.state
    beside = None if state is None else state.with_name(f"{state.name}.refine")
    second = Checkpoint(beside, None, checkpoint.schema, WeightedCounts(weighing))
    with second.held():
        progress = second.load(result.header, keep_going=keep_going)
        # As they were counted: of a file that was replaced since, other reports would be weighed.
        again = _planned(plan.files, plan.stamps, progress, second, executor)
        function = partial(weigh_partition, weighing)
        tallies = _tallies(executor, again.waiting, second.state, function)
        wanted = None if on_partition is None else False
        number = len(again.waiting)
        tallies = bars.track(tallies, f"{counted(number, 'part')} again", number, wanted=wanted)
        for done in _committed(tallies, again, second, progress, keep_going=keep_going):
            if on_partition is not None:
                on_partition(done, again.partitions)
    # As many rows may be missing in another place.
    if progress.n != result.n or not _places(progress.unreadable) <= _places(result.unreadable):
        raise DataUnavailableError(
            f"the second pass found {counted(progress.n, 'report')}, the first one "
            f"{result.n:,}: parts of files became unreadable in between, or readable again; "
            "restore them, and count from the start (--recount, or without the state)"
        )
    warn_of_a_wrong_start(weighing, progress.counts, result.n)
    return replace(result, refinement=Refinement(weighing.shares, progress.counts))


def _committed(
    tallies: Iterable[tuple[Partition, Tally]],
    plan: _Plan,
    checkpoint: Checkpoint,
    progress: Progress,
    *,
    keep_going: bool,
) -> Iterator[int]:
    """Add each part to the progress as it is counted; yield how many are finished then."""
    for done, (partition, tally) in enumerate(tallies, plan.finished + 1):
        if tally.error and not keep_going:
            raise DataUnavailableError(tally.error)
        # On disk before anything may stop the run: what was counted is never lost.
        checkpoint.commit(progress, partition, tally)
        yield done


def _places(unreadable: Sequence[Mapping[str, Any]]) -> set[tuple[str, int]]:
    """Return which parts could not be read: files and first rows."""
    return {(part["file"], part["row"]) for part in unreadable}


def _joined(
    files: Sequence[ReportFile], progress: Progress, unreadable: list[dict[str, Any]]
) -> Aggregate:
    """Return what was counted, with the files and the parts of files that could not be read."""
    header = files[0].header
    return Aggregate(
        # Without the identity of the first file: the counts are of all of them.
        header=Header(header.oracle, header.labels),
        counts=progress.counts,
        n=progress.n,
        rejected=progress.rejected,
        unreadable=unreadable + progress.unreadable,
        files={str(file.path): sum(file.group_rows) for file in files},
        parts=[file.header.file for file in files if file.header.file is not None],
    )


def _check_rate(rate: float) -> None:
    """Raise an error unless a share of rows lies in 0 .. 1."""
    if not 0 <= rate <= 1:
        raise InvalidInputError(
            f"max_reject_rate (--max-reject-rate) is a share of rows from 0 to 1, got {rate!r}"
        )


@dataclass(frozen=True)
class _Plan:
    """The files in the order in which they count, and the partitions that are not yet counted."""

    files: list[ReportFile]
    stamps: list[Stamp]
    waiting: list[Partition]
    finished: int
    rows: int

    @property
    def partitions(self) -> int:
        """Number of all partitions."""
        return self.finished + len(self.waiting)


def _planned(
    files: Sequence[ReportFile],
    stamps: Sequence[Stamp],
    progress: Progress,
    checkpoint: Checkpoint,
    executor: Executor,
) -> _Plan:
    order = in_order(files, stamps, progress, checkpoint.state)
    ordered_files = [files[i] for i in order]
    ordered_stamps = [stamps[i] for i in order]
    _check_rows(progress, ordered_files, checkpoint.state)
    finished = {name: begun.groups for name, begun in progress.files.items()}
    stamped = list(zip(ordered_files, ordered_stamps, strict=True))
    parts = _all_parts(stamped, finished, checkpoint.schema, executor)
    # Partitions that begin within the finished row groups have been counted.
    waiting = [part for part in parts if part.first >= finished.get(str(part.path), 0)]
    return _Plan(
        files=ordered_files,
        stamps=ordered_stamps,
        waiting=waiting,
        finished=len(parts) - len(waiting),
        rows=sum(part.rows for part in parts),
    )


def _check_rows(progress: Progress, files: Sequence[ReportFile], state: Path | None) -> None:
    """Raise an error unless the finished row groups hold as many rows as the progress has."""
    rows = 0
    for file in files:
        begun = progress.files.get(str(file.path))
        finished = 0 if begun is None else begun.groups
        # A file that was replaced by a shorter one of the same name.
        if finished > len(file.group_rows):
            raise DataUnavailableError(
                f"{state} is of a file with more row groups than {file.path}: remove it to start "
                "again"
            )
        rows += sum(file.group_rows[:finished])
    if progress.rows != rows:
        raise DataUnavailableError(
            f"{state} accounts for {counted(progress.rows, 'row')}, but {rows:,} were "
            "finished: remove it to start again"
        )


def _all_parts(
    files: Sequence[tuple[ReportFile, Stamp]],
    finished: Mapping[str, int],
    schema: Schema | None,
    executor: Executor,
) -> list[Partition]:
    """Return the partitions of files, marked where their clients have reported before."""
    work: list[tuple[ReportFile, Partition]] = []
    for file, stamp in files:
        groups = finished.get(str(file.path), 0)
        work += [(file, part) for part in _parts(file, stamp, groups, schema)]
    # Finished partitions take part in the search for duplicates, since their clients count.
    if files[0][0].has_ids:
        # Shared out as the counting is: it reads the reports of clients that report again.
        return mark_duplicates(work, lambda parts: results(executor, malformed_rows, parts))
    return [part for _, part in work]


def _parts(
    file: ReportFile, stamp: Stamp, finished: int, schema: Schema | None
) -> Iterator[Partition]:
    """Yield the partitions of a file, of which none holds finished and unfinished row groups."""
    yield from partitions(file, stamp, 0, finished, schema)
    yield from partitions(file, stamp, finished, len(file.group_rows), schema)


@dataclass(frozen=True)
class _Limit:
    """The largest share of rows that may be set aside."""

    rate: float
    rows: int
    rejects: Path | None

    def check(self, progress: Progress) -> None:
        """Raise an error if too many rows have been set aside."""
        if sum(progress.rejected.values()) <= self.rate * self.rows:
            return
        reasons = ", ".join(
            f"{times:,} with {reason}" for reason, times in progress.rejected.items()
        )
        hint = "aggregate them with a rejects file first"
        if self.rejects is not None:
            hint = f"see {self.rejects}"
        raise InvalidInputError(
            f"more than {self.rate:g} of {counted(self.rows, 'row')} are not reports: {reasons} "
            f"so far; {hint}"
        )


def _tallies(
    executor: Executor,
    waiting: Sequence[Partition],
    state: Path | None,
    function: Callable[[Partition], Tally] | None = None,
) -> Iterator[tuple[Partition, Tally]]:
    """Yield partitions with their tallies, in the order of the partitions.

    The state of a run counts the finished row groups of each file, so that no partition may
    overtake another one; the rejects file, too, keeps the order of the rows.
    """
    try:
        outcomes = results(executor, function or count_partition, waiting)
        yield from zip(waiting, outcomes, strict=True)
    except WorkersError as error:
        if state is None:
            raise
        raise WorkersError(
            f"{error}. Finished partitions are kept in {state}: the same call resumes the run"
        ) from None


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _opened(
    paths: Iterable[Path], schema: Schema | None, *, keep_going: bool
) -> tuple[list[ReportFile], list[dict[str, Any]]]:
    """Open all files and check that they belong together; return them and the unreadable ones."""
    files: list[ReportFile] = []
    unreadable: list[dict[str, Any]] = []
    for path in paths:
        try:
            files.append(open_reports(path, schema))
        except DataUnavailableError as error:
            if not keep_going:
                raise
            unreadable.append({"file": str(path), "row": 0, "rows": None, "reason": str(error)})
    # With keep_going too: counts of no file would be an empty estimate that looks like a result.
    if not files and unreadable:
        raise DataUnavailableError(f"none of the files can be read: {unreadable[0]['reason']}")
    if not files:
        raise DataUnavailableError("no files of reports")
    _require_one_protocol(files)
    _require_no_copies(files)
    return files, unreadable


def _require_one_protocol(files: Sequence[ReportFile]) -> None:
    first = files[0]
    for file in files[1:]:
        file.header.agree(first.header, str(file.path), str(first.path))
        # Clients that are in both files could otherwise count twice unnoticed.
        if file.has_ids != first.has_ids:
            raise InvalidInputError(
                f"only one of {file.path} and {first.path} has client ids: duplicates among them "
                "could not be found"
            )


def _require_no_copies(files: Sequence[ReportFile]) -> None:
    paths: dict[str, Path] = {}
    for file in files:
        identity = file.header.file
        # Files that other programs wrote may have no identity.
        if identity is None:
            continue
        if identity in paths:
            raise InvalidInputError(
                f"{file.path} is a copy of {paths[identity]}: its reports would be counted twice"
            )
        paths[identity] = file.path
