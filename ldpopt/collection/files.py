"""Files of reports of any format: listing, opening, writing, appending."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from ldpopt import validate
from ldpopt.collection.header import Header, fingerprint
from ldpopt.collection.layout import Reason
from ldpopt.collection.parquet import (
    ParquetReports,
    ParquetWriter,
    id_column,
    readable,
    seal_footer,
)
from ldpopt.collection.schema import Schema
from ldpopt.collection.text import CsvReports, CsvWriter, ForeignCsv
from ldpopt.errors import DataUnavailableError, InvalidInputError
from ldpopt.oracles import FrequencyOracle
from ldpopt.storage import cannot_write, clear_drafts, drafted

ReportFile = ParquetReports | CsvReports | ForeignCsv

_READERS = {".parquet": ParquetReports, ".csv": CsvReports}
_FOREIGN = {".parquet": ParquetReports, ".csv": ForeignCsv}
_WRITERS = {".parquet": ParquetWriter, ".csv": CsvWriter}


def list_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the files that paths name: files themselves, and all files in folders, by name.

    Hidden files and folders are passed over: a writer that was killed leaves a hidden file.

    Raises
    ------
    InvalidInputError
        If a path does not exist, a file is named twice, or a folder holds anything that cannot be
        counted: a file that is neither Parquet nor CSV, a link to a folder or to nothing, a pipe.
    DataUnavailableError
        If a folder cannot be read.
    """
    files = [file for path in map(Path, paths) for file in _files_of(path)]
    # Two names of one file resolve to the same path.
    name_of: dict[Path, Path] = {}
    for path in files:
        _by_suffix(path, _READERS)
        real = path.resolve()
        if real in name_of:
            raise InvalidInputError(
                f"{path} is given twice (as {name_of[real]}): its reports would be counted twice"
            )
        name_of[real] = path
    return files


def _files_of(path: Path) -> list[Path]:
    mode = _mode(path)
    if mode is None:
        raise InvalidInputError(f"{path} does not exist")
    if not stat.S_ISDIR(mode):
        _check_file(path, mode)
        return [path]
    files = list(_files_in(path))
    if not files:
        raise InvalidInputError(f"{path} is a folder without files of reports")
    return sorted(files)


def _files_in(folder: Path) -> Iterator[Path]:
    """Yield the visible files in a folder and in those within it; all of them, or an error."""

    def stop(error: OSError) -> None:
        # Without it such a folder would be taken for an empty one.
        raise DataUnavailableError(f"cannot read the folder {error.filename}: {error.strerror}")

    for parent, folders, names in os.walk(folder, onerror=stop):
        visible = [name for name in folders if not name.startswith(".")]
        # In place: it decides into which folders the walk goes.
        folders[:] = visible
        for name in (*visible, *names):
            path = Path(parent, name)
            if name.startswith("."):
                continue
            if name not in visible:
                _check_file(path, _mode(path))
                yield path
            elif path.is_symlink():
                raise InvalidInputError(
                    f"{path} is a link to a folder: give that folder itself, or remove the link"
                )


def _mode(path: Path) -> int | None:
    """Return the kind of a file, links followed; None if there is none."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataUnavailableError(f"cannot read {path}: {reason}") from None


def _check_file(path: Path, mode: int | None) -> None:
    """Raise InvalidInputError unless it is a regular file, or a link to one."""
    if mode is None:
        raise InvalidInputError(
            f"{path} is a link to a file that is not there: its reports would be missing"
        )
    if not stat.S_ISREG(mode):
        raise InvalidInputError(f"{path} is not a regular file but a device, pipe or socket")


def open_reports(path: str | Path, schema: Schema | None = None) -> ReportFile:
    """Return a file of reports, opened; one of another program by its schema.

    Raises
    ------
    InvalidInputError
        If it does not state its protocol and there is no schema, or the reverse, or if it lacks a
        column.
    DataUnavailableError
        If it is truncated or corrupt.
    """
    path = Path(path)
    mode = _mode(path)
    if mode is None:
        raise InvalidInputError(f"{path} does not exist")
    _check_file(path, mode)
    if schema is not None:
        foreign: ReportFile = _by_suffix(path, _FOREIGN)(path, schema)
        return foreign
    file: ReportFile = _by_suffix(path, _READERS)(path)
    return file


def seal_reports(path: str | Path) -> None:
    """Write the checksum into a Parquet file of reports that another program wrote.

    ``ReportWriter`` does this itself. The header, JSON in the metadata ``ldpopt.reports``, must
    have a field ``sha256`` of 64 zeros or digits, and pages must have checksums (pyarrow's
    ``write_page_checksum``).

    Raises
    ------
    InvalidInputError, DataUnavailableError
        If there is no such field, or the file is not Parquet, cannot be written to, or is refused
        by ``open_reports`` afterwards.
    """
    path = Path(path)
    with readable(path):
        seal_footer(path)
    open_reports(path)


def read_reports(
    path: str | Path, schema: Schema | None = None
) -> tuple[FrequencyOracle, np.ndarray[Any, Any]]:
    """Return the oracle and all reports of one file, for files that fit into memory.

    Raises
    ------
    InvalidInputError, DataUnavailableError
        As ``open_reports``, and if a row is not a report; the first one is named.
    """
    file = open_reports(path, schema)
    batches = []
    row = 0
    for reports, codes in file.batches(0, len(file.group_rows)):
        # Here nothing is set aside: the caller gets arrays without a record of rejected rows.
        if codes.any():
            at = int(np.flatnonzero(codes)[0])
            raise InvalidInputError(
                f"{path}, row {row + at} is not a report: {Reason(codes[at]).words}"
            )
        batches.append(file.layout.reports(reports))
        row += len(codes)
    if not batches:
        raise InvalidInputError(f"{path} has no report")
    return file.header.oracle, np.concatenate(batches)


class ReportWriter:
    """Writes reports batch by batch in constant memory.

    The file appears when the block ends without an error.

    Parameters
    ----------
    path
        The file, ``.parquet`` or, for small ones, ``.csv``; a file of this name is replaced.
    oracle
        The oracle that made the reports.
    labels
        The labels of the domain, of which the file keeps a fingerprint.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the file cannot be written, or a batch does not hold reports of this oracle, with as many
        client ids in all batches or with none in all.

    Examples
    --------
    >>> import tempfile
    >>> from ldpopt.oracles import GRR
    >>> oracle = GRR(epsilon=1.0, d=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ReportWriter(Path(folder) / "reports.parquet", oracle) as writer:
    ...         writer.write(oracle.perturb([0, 1, 1], rng=0))
    ...     open_reports(Path(folder) / "reports.parquet").group_rows
    [3]
    """

    def __init__(
        self, path: str | Path, oracle: FrequencyOracle, *, labels: Sequence[str] | None = None
    ) -> None:
        self.path = Path(path)
        self.oracle = oracle
        self._make = _by_suffix(self.path, _WRITERS)
        self._header = Header.fresh(oracle, None if labels is None else fingerprint(labels))
        self._files = ExitStack()
        self._writer: ParquetWriter | CsvWriter | None = None
        self._ids: pa.DataType | None = None

    def __enter__(self) -> Self:
        return self

    def write(self, reports: ArrayLike, client_ids: Sequence[Any] | None = None) -> None:
        """Append reports as ``oracle.perturb`` returns them, and their clients' ids.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If they are not reports of the oracle, the ids do not fit, or the file cannot be
            written.
        """
        validate.unmasked("reports", reports)
        # A list of reports is as good as an array.
        batch = np.asarray(reports)
        self.oracle.report_form.check(batch)
        # Checked before the file is created: a wrong batch leaves no draft behind.
        ids = None if client_ids is None else id_column(client_ids, len(batch))
        kind = None if ids is None else ids.type
        # The first batch decides whether there is a column of ids, and of which type.
        if self._writer is None:
            self._ids = kind
            with cannot_write(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                draft = self._files.enter_context(drafted(self.path))
                self._writer = self._make(draft, self._header, ids=kind)
        if kind != self._ids:
            raise InvalidInputError(
                f"client ids of type {kind} after a batch with {self._ids}: a file has one kind of "
                "ids, or none"
            )
        with cannot_write(self.path):
            self._writer.write(batch, ids)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is None:
            # An empty file would count as a collection without clients.
            if kind is None:
                raise InvalidInputError(f"{self.path} would have no report")
            return
        if kind is not None:
            # The error of the block says more than that its file cannot be ended either.
            with suppress(OSError):
                self._writer.close()
            self._files.__exit__(kind, error, trace)
            return
        # Only a block that ended well gets a file; whatever was there before stays until then.
        with cannot_write(self.path), self._files:
            self._writer.finish()


def write_reports(
    path: str | Path,
    oracle: FrequencyOracle,
    reports: ArrayLike,
    *,
    client_ids: Sequence[Any] | None = None,
    labels: Sequence[str] | None = None,
) -> None:
    """Write one file of reports in one step; errors as ``ReportWriter``."""
    with ReportWriter(path, oracle, labels=labels) as writer:
        writer.write(reports, client_ids)


def append_reports(
    folder: str | Path,
    oracle: FrequencyOracle,
    reports: ArrayLike,
    *,
    client_ids: Sequence[Any] | None = None,
    labels: Sequence[str] | None = None,
) -> Path:
    """Add a part file to a folder of reports and return it.

    The part appears whole or not at all, and several clients may append at once. Raises
    InvalidInputError or InvalidTypeError as ``ReportWriter``, and if the folder's reports are of
    another protocol.
    """
    path = next_part(Path(folder), oracle, labels=labels, has_ids=client_ids is not None)
    write_reports(path, oracle, reports, client_ids=client_ids, labels=labels)
    return path


def next_part(
    folder: Path, oracle: FrequencyOracle, *, labels: Sequence[str] | None, has_ids: bool
) -> Path:
    """Return a name for the next part file of a folder, which is created where missing.

    Raises InvalidInputError if the folder has reports of another protocol, or either it or the new
    part has client ids and the other does not.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"cannot write to {folder}: {error.strerror}") from None
    # Names of parts are random: no later run would write over what a killed one left.
    clear_drafts(folder)
    parts = sorted(folder.glob("[!.]*.parquet"))
    if parts:
        last = open_reports(parts[-1])
        header = Header.fresh(oracle, None if labels is None else fingerprint(labels))
        header.agree(last.header, "the new part", str(last.path))
        if last.has_ids != has_ids:
            raise InvalidInputError(
                f"{last.path} has {'' if last.has_ids else 'no '}client ids: so must the new part"
            )
    # The random part keeps clients apart that append at the same time.
    return folder / f"part-{len(parts):06d}-{uuid4().hex[:8]}.parquet"


def _by_suffix(path: Path, formats: dict[str, Any]) -> Any:
    suffix = path.suffix.lower()
    if suffix not in formats:
        raise InvalidInputError(
            f"{path} is not a file of reports: they end in {' or '.join(formats)}"
        )
    return formats[suffix]
