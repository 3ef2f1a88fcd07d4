"""The application: its general options, and how errors and interruptions end."""

from __future__ import annotations

import platform
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from ldpopt.cli.shared import errors, leave_pipe
from ldpopt.errors import LdpoptError
from ldpopt.printable import printable

# Status 1 is a check that failed (audit, verify) and nothing else.
FAILED = 2  # exit status after an error, as after a usage error of typer's own
DEFECT = 70  # EX_SOFTWARE of sysexits.h: an error that this library did not foresee
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
    # Otherwise typer ends with status 1 here, too.
    except BrokenPipeError:
        leave_pipe()


app = typer.Typer(
    cls=Interruptible,
    help="Post-process locally differentially private frequency estimates, and check the methods.",
    no_args_is_help=True,
    add_completion=False,
    # What is no LdpoptError is a defect, of which ``main`` prints a report.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, by default with the arguments of the process.

    Raises
    ------
    SystemExit
        Always. Status 2 and one sentence on standard error after an error of this library or of the
        system, status 70 and a report to paste after any other.
    """
    for stream in (sys.stdout, sys.stderr):
        # Terminals that are not UTF-8, and names of files that are no text: anything is printed.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(args=arguments)
    except LdpoptError as error:
        _fail(str(error))
    except BrokenPipeError:
        leave_pipe()
    except MemoryError:
        _fail("there is not enough memory")
    except OSError as error:
        # Of a full disk behind standard output there is no name.
        place = "cannot read or write" if error.filename is None else error.filename
        _fail(f"{place}: {error.strerror or error}")
    except Exception:
        _report(sys.argv[1:] if arguments is None else arguments)
        sys.exit(DEFECT)


def _fail(sentence: str) -> None:
    # Paths and labels in messages may hold anything: brackets are no markup there.
    shown = "\n".join(escape(printable(line)) for line in sentence.split("\n"))
    errors.print(f"[bold red]Error:[/] {shown}", highlight=False, soft_wrap=True)
    sys.exit(FAILED)


def _report(arguments: Sequence[str]) -> None:
    """Print what a report of a defect needs."""
    python = f"Python {platform.python_version()} on {platform.platform()}"
    lines = [
        "ldpopt stopped at an error that it did not foresee. This is a defect: please report it",
        "with the lines below, without names of files that are nobody's business.",
        "",
        f"ldpopt {version('ldpopt')}, {python}",
        f"ldpopt {' '.join(map(repr, arguments))}",
        traceback.format_exc(),
    ]
    # Not by rich, which would wrap lines and take brackets for markup.
    print("\n".join(lines), file=sys.stderr)


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
