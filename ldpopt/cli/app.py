"""The application: its general options, and how errors and interruptions end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from ldpopt.cli.shared import errors
from ldpopt.errors import LdpoptError

FAILED = 2  # exit status after an error, as after a usage error of typer's own
INTERRUPTED = 130  # 128 + SIGINT: what shells report of an interrupted program


class Interruptible(TyperGroup):
    """Commands that end with one line and status 130 when the user interrupts them."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the command line."""
        with _one_line_on_interruption():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _one_line_on_interruption():
            return super().invoke(ctx)


@contextmanager
def _one_line_on_interruption() -> Iterator[None]:
    try:
        yield
    # Otherwise click prints "Aborted!" and ends with status 1, which a failed check has too.
    except KeyboardInterrupt:
        errors.print("Interrupted.")
        raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=Interruptible,
    help="Post-process locally differentially private frequency estimates, and check the methods.",
    no_args_is_help=True,
    add_completion=False,
    # What is no LdpoptError is a defect: the plain traceback is what a report of it needs.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, by default with the arguments of the process.

    Raises
    ------
    SystemExit
        Always. Status 2 and one sentence on standard error after an error of this library.
    """
    try:
        app(args=arguments)
    except LdpoptError as error:
        # Paths and labels in messages may hold brackets, which are no markup.
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(FAILED)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"ldpopt {version('ldpopt')}")
        raise typer.Exit


@app.callback()
def _general_options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass
