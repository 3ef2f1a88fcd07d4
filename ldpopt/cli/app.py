"""The command line itself: its options, its two consoles, and how errors end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
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
from typer.core import TyperGroup

from ldpopt.errors import InvalidInputError, LdpoptError
from ldpopt.oracles import ORACLES


class Interruptible(TyperGroup):
    """Commands that end with one line and status 130 when the user interrupts them."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the command line."""
        with _one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _one_line():
            return super().invoke(ctx)


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        errors.print("Interrupted.")
        raise typer.Exit(INTERRUPTED) from None


INTERRUPTED = 130
app = typer.Typer(
    cls=Interruptible,
    help="Post-process locally differentially private frequency estimates, and check what is said about it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
output = Console()
errors = Console(stderr=True)

ORACLE_NAMES = f"One of {', '.join(ORACLES)}."
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def main() -> None:
    """Run the command line; an error of ours is one sentence on standard error and exit status 2."""
    try:
        app()
    except LdpoptError as error:
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)


def progress_bar() -> Progress:
    """Return a bar on standard error that disappears at the end."""
    columns = (
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ldpopt {version('ldpopt')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def prepare(folder: Path, *names: str) -> None:
    """Create the folder, and raise an error now if the files could not be written at the end."""
    wanted = folder / names[0]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for wanted in (folder / name for name in names):
            if wanted.is_dir():
                raise IsADirectoryError(21, "is a folder")
        probe = folder / f".{names[0]}.probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InvalidInputError(f"cannot write to {wanted}: {error.strerror}") from None


def picture_kind(path: Path) -> str:
    """Return the format that a picture's name asks for: png, svg or pdf."""
    kind = path.suffix.lower()[1:]
    if kind not in ("png", "svg", "pdf"):
        raise InvalidInputError(f"pictures are written to .png, .svg or .pdf, got {path}")
    return kind
