"""What several commands share: the two consoles, options, checks of output files, messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

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
from ldpopt.oracles import ORACLES
from ldpopt.printable import printable, printable_json

output = Console()  # results alone, so that they can be piped
errors = Console(stderr=True)  # progress, remarks and errors

ORACLE_NAMES = f"One of {', '.join(ORACLES)}"
DOMAIN_HELP = "Number of values, or a file of labels: one per line, or a JSON list."

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
    """Say which files were written; those that were not requested are None."""
    for path in paths:
        if path is not None:
            remark(f"Wrote {path}.")


def require_writable(*paths: Path | None) -> None:
    """Create the folders of files to be written at the end of a long run.

    Raises
    ------
    InvalidInputError
        If one of the files could not be written.
    """
    for path in paths:
        if path is not None:
            _require_writable(path)


def _require_writable(path: Path) -> None:
    # The file itself may exist and hold results: only a neighbour is created and removed.
    probe = path.parent / f".{path.name}.probe"
    try:
        # Now and not at the end: a folder that cannot be made would lose the run.
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file beside it could be created, and the write at the end would fail.
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InvalidInputError(f"cannot write to {path}: {error.strerror}") from None


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
