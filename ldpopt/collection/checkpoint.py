"""What an aggregation has finished, in a file that is replaced after every partition."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import __version__
from ldpopt.collection.files import ReportFile
from ldpopt.collection.header import Header
from ldpopt.collection.layout import Reason
from ldpopt.collection.partition import Partition, Stamp, Tally
from ldpopt.collection.schema import Schema
from ldpopt.collection.seal import BLANK, FIELD, check, sealed
from ldpopt.collection.sums import Sums, SupportCounts
from ldpopt.collection.untrusted import parse_json, read_bytes
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.printable import cell
from ldpopt.storage import cannot_write, check_draft, held, write_whole

_HEADING = "file,row,reason\n"


class Begun(NamedTuple):
    """A file of which a part was counted: how it is recognised, and its finished row groups."""

    size: int
    time: int
    digits: str | None
    groups: int

    def is_same(self, size: int, time: int, digits: str | None) -> bool:
        """Return whether a file of that size, time of change and checksum is this one, unchanged.

        Where the file states a checksum, its time does not matter: a copy is the same file.
        """
        if size != self.size or digits != self.digits:
            return False
        return digits is not None or time == self.time


@dataclass
class Progress:
    """Sums over finished partitions, and what they cover.

    ``files`` holds each file that was begun, in the order in which they are read.
    """

    protocol: dict[str, Any]
    sums: Sums
    counts: NDArray[np.int64]
    n: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, Begun] = field(default_factory=dict)
    rejects_bytes: int = 0

    @property
    def rows(self) -> int:
        """Number of rows of the finished partitions: counted, set aside, or unreadable."""
        lost = sum(int(part["rows"]) for part in self.unreadable)
        return self.n + sum(self.rejected.values()) + lost

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
            self.counts = self.sums.joined(self.counts, tally.counts)
            self.n += tally.n
            # By the words and not by the code: the state stays readable, and codes may change.
            for code, times in zip(*np.unique(tally.reasons, return_counts=True), strict=True):
                words = Reason(code).words
                self.rejected[words] = self.rejected.get(words, 0) + int(times)
        # Also after an error: a partition that cannot be read is finished, and not tried again.
        begun = Begun(*partition.stamp, partition.digits, partition.last)
        self.files[str(partition.path)] = begun


class Checkpoint:
    """The state file of an aggregation, and the rejects file beside it.

    It keeps sums, where studies keep every finished cell in a row of its own
    (``ldpopt.studies.engine.store``): cells are read again one by one, when a figure is drawn or
    changed, whereas of partitions only the sum is wanted, and the counts of each by themselves may
    take more space than the reports.

    Rejects are appended first, then the state is replaced. The state records how long the rejects
    file was: what a killed run wrote beyond that is cut off when the run is resumed.
    """

    def __init__(
        self,
        state: Path | None,
        rejects: Path | None,
        schema: Schema | None = None,
        sums: Sums | None = None,
    ) -> None:
        self.sums = sums
        self.state = state
        self.rejects = rejects
        self.schema = schema

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep both files for this run alone until the block ends.

        Raises InvalidInputError if another run has one of them.
        """
        with ExitStack() as files:
            for path in (self.state, self.rejects):
                if path is not None:
                    files.enter_context(held(path))
            yield

    def load(self, header: Header, *, keep_going: bool) -> Progress:
        """Return the progress of earlier runs, or empty progress if there was none.

        Raises
        ------
        InvalidInputError
            If the state is of other reports, of a file that has changed since, or of a run that was
            allowed to leave out parts where this one is not, if the rejects file exists and is
            something else, or if the files cannot be written.
        DataUnavailableError
            If the state file is not the state of an aggregation.
        """
        # Support is counted, unless another sum is given.
        sums = SupportCounts(header.oracle) if self.sums is None else self.sums
        progress = Progress(header.protocol, sums, sums.empty())
        if self.rejects is not None:
            _check_rejects(self.rejects)
        if self.state is not None and self.state.exists():
            # Of another start nothing can be used: all reports have other weights.
            progress = self._stored(self.state, header, sums) or progress
            if progress.unreadable and not keep_going:
                raise InvalidInputError(
                    f"the earlier run ({self.state}) left out what it could not read: "
                    f"{progress.unreadable[0]['reason']}. Continue it with --keep-going "
                    f"(keep_going), or {_again(self.state)}"
                )
        if self.rejects is not None:
            # Now and not at the first reject, which may come after hours.
            with cannot_write(self.rejects):
                check_draft(self.rejects)
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
            stored = {name: value for name, value in vars(progress).items() if name != "sums"}
            packed = base64.b64encode(progress.counts.astype("<i8").tobytes())
            record = {
                FIELD: BLANK,
                **stored,
                # Text of fixed length per count: a list of a million numbers is slow to write so
                # often.
                "counts": packed.decode(),
                "rejects": self._rejects_name,
                "schema": self._schema_record,
                "start": progress.sums.start,
                "version": __version__,
            }
            write_whole(self.state, sealed(json.dumps(record).encode()))

    @property
    def _rejects_name(self) -> str | None:
        return None if self.rejects is None else str(self.rejects)

    def _stored(self, path: Path, header: Header, sums: Sums) -> Progress | None:
        """Return the progress that a state file holds; None if its start is another one."""
        hint = _again(path)
        content = read_bytes(path, f"cannot read {path}")
        try:
            record = parse_json(content)
            # Another version may count, or set aside, other rows: half a sum of each is of neither.
            version = record["version"]
            if version != __version__:
                raise InvalidInputError(
                    f"{path} is the state of an aggregation by ldpopt {version}, this is "
                    f"{__version__}: {hint}"
                )
            check(content, path)
            start = record.get("start")
            progress = _progress(record, sums)
            rejects = record["rejects"]
            schema = record["schema"]
        except (InvalidInputError, DataUnavailableError):
            raise
        # A file of any other content fails in one of these ways.
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise DataUnavailableError(
                f"{path} is not the state of an aggregation: {hint}"
            ) from None
        if progress.protocol != header.protocol:
            raise InvalidInputError(
                f"{path} is the state of an aggregation of {progress.protocol}, not of "
                f"{header.protocol}: {hint}"
            )
        if start != sums.start and sums.start is not None:
            return None
        try:
            progress.counts = progress.counts.reshape(sums.empty().shape)
            sums.check(progress.counts, progress.n, str(path))
        except InvalidInputError:
            raise
        # Another number of sums, or sums that no reports have.
        except ValueError:
            raise DataUnavailableError(
                f"{path} is not the state of an aggregation: {hint}"
            ) from None
        self._require_the_same(rejects, schema, hint)
        return progress

    def _require_the_same(self, rejects: Any, schema: Any, hint: str) -> None:
        """Raise an error if the earlier run wrote its rejects elsewhere, or read other columns."""
        if rejects != self._rejects_name:
            raise InvalidInputError(
                f"the earlier run wrote its rejects to {rejects}: name the same file, or {hint}"
            )
        # The same rows of other columns are other reports.
        if schema != self._schema_record:
            raise InvalidInputError(
                f"the earlier run read {_columns(schema)}, and this one {_columns(self.schema)}: "
                f"name the same columns, or {hint}"
            )

    @property
    def _schema_record(self) -> dict[str, object] | None:
        return None if self.schema is None else self.schema.record

    def _cut(self, rejects: Path, size: int) -> None:
        # Of a new run, or of one that has set nothing aside: a file is of an older run, or of rows
        # that will be read again.
        if size == 0:
            with cannot_write(rejects):
                rejects.unlink(missing_ok=True)
            return
        if not rejects.exists() or rejects.stat().st_size < size:
            hint = "start again" if self.state is None else _again(self.state)
            raise InvalidInputError(
                f"{rejects} lost rows that an earlier run had written to it: {hint}"
            )
        # Rows beyond the state are of a partition that will be counted again.
        with cannot_write(rejects):
            os.truncate(rejects, size)


def _again(state: Path) -> str:
    """Return what a user does who does not want to continue an earlier run."""
    return f"remove {state} to start again (--recount)"


def _columns(schema: Any) -> str:
    """Return the columns of a schema, or of what a state keeps of it, in words."""
    record = schema.record if isinstance(schema, Schema) else schema
    if record is None:
        return "files that state their protocol"
    columns = record.get("columns") if isinstance(record, Mapping) else None
    # A state that was made up may hold anything.
    if not isinstance(columns, list):
        return "other columns"
    ids = record.get("client_id")
    names = [*columns, *([] if ids is None else [ids])]
    return f"the columns {', '.join(map(str, names))}"


def _check_rejects(path: Path) -> None:
    """Raise an error if a file exists that is not one of rejects: it would be replaced."""
    first = b""
    with cannot_write(path), suppress(FileNotFoundError), path.open("rb") as file:
        first = file.readline(len(_HEADING))
    # An empty file holds nothing that could be lost.
    if first not in (b"", _HEADING.encode()):
        raise InvalidInputError(
            f"{path} exists and is not a file of rejects: its first line would be "
            f"{_HEADING.strip()!r}; choose another name, or remove it"
        )


def _progress(record: Mapping[str, Any], sums: Sums) -> Progress:
    """Return the progress that a state file holds.

    Raises ValueError, KeyError, TypeError or OverflowError if it holds none: a checksum tells what
    was damaged, not what was made up.
    """
    packed = base64.b64decode(record["counts"])
    counts = np.frombuffer(packed, dtype="<i8").astype(np.int64)
    rejected = {reason: _number(times) for reason, times in record["rejected"].items()}
    unreadable = [{**part, "rows": _number(part["rows"])} for part in record["unreadable"]]
    files = {}
    for name, (size, time, digits, groups) in record["files"].items():
        files[name] = Begun(_number(size), _number(time), _digits(digits), _number(groups))
    # A state of another version, or one that was edited.
    words = {reason.words for reason in Reason}
    if set(rejected) - words:
        raise ValueError("these are no reasons")
    return Progress(
        protocol=dict(record["protocol"]),
        sums=sums,
        counts=counts,
        n=_number(record["n"]),
        rejected=rejected,
        unreadable=unreadable,
        files=files,
        rejects_bytes=_number(record["rejects_bytes"]),
    )


def _number(value: object) -> int:
    """Return a whole number that is not negative; anything else is an error."""
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is not a number of rows, bytes or files")
    return value


def _digits(value: object) -> str | None:
    """Return a checksum as text; anything else is an error."""
    if not isinstance(value, str | None):
        raise TypeError(f"{value!r} is not a checksum")
    return value


def _append_rejects(rejects: Path, path: Path, tally: Tally) -> int:
    """Append the rejected rows of a partition, and return the size of the rejects file.

    The first ones create it: where nothing is set aside there is no file.
    """
    lines = io.StringIO()
    rows = [
        (cell(str(path)), row, Reason(code).words)
        for row, code in zip(tally.rejected.tolist(), tally.reasons, strict=True)
    ]
    csv.writer(lines, lineterminator="\n").writerows(rows)
    with cannot_write(rejects), rejects.open("ab") as file:
        heading = "" if file.tell() else _HEADING
        file.write(f"{heading}{lines.getvalue()}".encode())
        file.flush()
        # The state that is written next counts on these rows.
        os.fsync(file.fileno())
        return file.tell()


def in_order(
    files: Sequence[ReportFile], stamps: Sequence[Stamp], progress: Progress, state: Path | None
) -> list[int]:
    """Return the order in which to read files: those of an earlier run first, in its order.

    A client's first report then remains the first when files are added. Raises InvalidInputError if
    files that were counted are gone or changed; the first of them is named.
    """
    index = {str(file.path): i for i, file in enumerate(files)}
    differences = []
    for name, begun in progress.files.items():
        at = index.get(name)
        if at is None:
            differences.append(f"{name} is not among the files")
        elif not begun.is_same(*stamps[at], files[at].digits):
            differences.append(f"{name} has changed")
    if differences:
        more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
        # Without a state there is no earlier run, and nothing differs.
        assert state is not None
        raise InvalidInputError(
            f"{differences[0]}{more} since an earlier run counted it: restore it, or "
            f"{_again(state)}"
        )
    # A dict keeps the first of equal keys, so that begun files come first and once.
    begun_first = [index[name] for name in progress.files]
    return list(dict.fromkeys([*begun_first, *range(len(files))]))
