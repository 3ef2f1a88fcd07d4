"""What several commands share: the two consoles, options, checks of output files, messages."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from ldpopt.errors import InvalidInputError
from ldpopt.printable import printable, printable_json
from ldpopt.storage import check_draft, draft_of, lock_of

PARTIAL = 3
"""Exit status of a result that something was left out of, as of ``python -m experiments run``."""

CLOSED = 141
"""Exit status after the reader of the output went away, as ``head`` does: 128 + SIGPIPE."""


class _Output(Console):
    """A console whose end of a pipe is no failed check: rich would leave with status 1."""

    def on_broken_pipe(self) -> None:
        """Leave without another word, as other programs do."""
        self.quiet = True
        leave_pipe()


def leave_pipe() -> NoReturn:
    """Leave after the reader of the output went away."""
    # What is still to be printed would fail when the process ends; a stream that is not a file has
    # nothing left then.
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    raise SystemExit(CLOSED)


output = _Output()  # results alone, so that they can be piped
errors = Console(stderr=True)  # progress, remarks and errors

DOMAIN_HELP = "Number of values, or a file of labels: one per line, no heading, or a JSON list."

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def progress_bar() -> Progress:
    """Return a bar on standard error that disappears at the end."""
    # In a file or a log each step of the bar would leave a line, and rich before 14.3 writes an
    # empty one even where the bar is disabled.
    shown = errors.is_terminal
    return Progress(
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=errors if shown else Console(quiet=True),
        transient=True,
        disable=not shown,
    )


def print_json(record: Any) -> None:
    """Print a record as JSON, with Greek letters and labels as they are."""
    # Not by rich, which wraps long lines and colours them: programs read this.
    typer.echo(printable_json(json.dumps(record, indent=2, ensure_ascii=False)))


def remark(text: str, style: str | None = None) -> None:
    """Print text on standard error; brackets in it are no markup, and labels do not act."""
    lines = "\n".join(printable(line) for line in text.split("\n"))
    errors.print(escape(lines), style=style, highlight=False, soft_wrap=True)


def report_written(*paths: Path | None) -> None:
    """Print which files were written; those that were not requested are None."""
    for path in paths:
        if path is not None:
            remark(f"Wrote {path}.")


def require_writable(*outputs: Path | None, inputs: Iterable[Path | None] = ()) -> None:
    """Check all files of a command before it begins, and create the folders of its outputs.

    Parameters
    ----------
    outputs
        Files that the command writes; those that were not requested are None.
    inputs
        Files and folders that it reads.

    Raises
    ------
    InvalidInputError
        If one of the outputs could not be written, is an input, lies in a folder that is one, or is
        another output: under the same name or by a link.
    """
    written = [path for path in outputs if path is not None]
    read = {_identity(path): path for path in inputs if path is not None}
    first: dict[object, Path] = {}
    for path in written:
        with _cannot_write(path):
            _require_regular(path)
        _require_apart(path, read)
        other = first.setdefault(_identity(path), path)
        if other is not path:
            raise InvalidInputError(f"{other} and {path} are one file: two outputs need two names")
    for path in written:
        with _cannot_write(path):
            # Now and not at the end: a folder that cannot be made would lose the run.
            path.parent.mkdir(parents=True, exist_ok=True)
            # Also a name that is too long, and one that another run is writing to.
            check_draft(path)


def require_distinct(paths: Iterable[Path]) -> None:
    """Raise InvalidInputError if two inputs are one file, under the same name or by a link."""
    first: dict[object, Path] = {}
    for path in paths:
        other = first.setdefault(_identity(path), path)
        if other is not path:
            raise InvalidInputError(f"{other} and {path} are one file: it would count twice")


@contextmanager
def _cannot_write(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(f"cannot write to {path}: {error.strerror}") from None


def _require_apart(path: Path, read: dict[object, Path]) -> None:
    """Raise an error if writing a file, or the draft of it, would change what a command reads."""
    for name in (path, draft_of(path), lock_of(path)):
        source = read.get(_identity(name))
        if source is not None:
            raise InvalidInputError(
                f"writing {path} would replace {source}, which is read: choose another name"
            )
    # Links in between are resolved: each parent is then a folder that the file lies in.
    for folder in path.resolve().parents:
        source = read.get(_identity(folder))
        if source is not None:
            raise InvalidInputError(
                f"{path} lies in {source}, whose files are all read as reports: write it to "
                "another folder"
            )


def _identity(path: Path) -> object:
    """Return what all names of a file have in common; a file that is not there has its path."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def _require_regular(path: Path) -> None:
    """Raise OSError if a name is that of something that a file must not replace."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(22, "it is a device, pipe or socket")


def labels_file(domain: str | None) -> Path | None:
    """Return the file that --domain names; None if it is a number, or was not given."""
    return None if domain is None or domain.strip().isdecimal() else Path(domain)


def picture_kind(path: Path) -> str:
    """Return the format that a picture's name ends in.

    Raises
    ------
    InvalidInputError
        If it is not png, svg or pdf.
    """
    kind = path.suffix.lower()[1:]
    if kind not in ("png", "svg", "pdf"):
        raise InvalidInputError(f"pictures are written to .png, .svg or .pdf, got {path}")
    return kind


def split_list(option: str, text: str) -> list[str]:
    """Return the parts of an option's comma-separated list.

    Raises
    ------
    InvalidInputError
        If there is none.
    """
    # A trailing comma, and blanks after commas, are forgiven.
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InvalidInputError(f"{option} takes at least one name or number, got {text!r}")
    return parts
