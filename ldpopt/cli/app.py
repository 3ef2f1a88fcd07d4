"""The application: its general options, and how errors and interruptions end."""

from __future__ import annotations

import platform
import re
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from types import MappingProxyType
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from ldpopt.cli.shared import errors, leave_pipe
from ldpopt.errors import LdpoptError, extra_needed
from ldpopt.printable import printable

# Status 1 is a check that failed (audit, verify) and nothing else.
FAILED = 2  # exit status after an error, as after a usage error of typer's own
DEFECT = 70  # EX_SOFTWARE of sysexits.h: an error that this library did not foresee
INTERRUPTED = 130  # 128 + SIGINT: what shells report of an interrupted program

# How versions of typer say that the text of an option is no number.
_NO_NUMBER = re.compile(
    r"(Invalid value for .+?): (?:('.*') is not|Input should be) a valid (number|float|integer)\b.*"
)

# In many languages a comma begins the decimals, and a point groups thousands.
_REAL = "it takes a number such as 0.5, with a decimal point and without commas"
_WHOLE = "it takes a whole number such as 1000, without commas and points"
_RULES = MappingProxyType({"number": _REAL, "float": _REAL, "integer": _WHOLE})

# typer has a copy of click, which offers this class under no public name.
_UsageError: type[Exception] = typer.BadParameter.__base__ or typer.BadParameter


# In the order in which `ldpopt --help` lists them: from values to an estimate, then what checks it.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "perturb": "Randomise users' values: one report per row.",
        "aggregate": "Count reports, in memory that does not grow.",
        "merge": "Add counts of days, regions or servers.",
        "estimate": "Estimate the frequencies of values and of sets.",
        "select": "Choose the method with the smallest error for given queries.",
        "risk": "Compare the errors of methods, estimated without the truth.",
        "methods": "Show every method with its problem and guarantees.",
        "coverage": "Show which problems have a closed form.",
        "compare": "Compare closed forms with solvers.",
        "audit": "Audit the privacy of an oracle, or of a client by its reports.",
        "verify": "Check every claim of the ledger.",
    }
)
"""Every command, a module and a function of this package, with its line in the list."""


class _StrictCommand(TyperCommand):
    """A command that refuses an option with one value where it is given twice."""

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Parse the arguments; otherwise the last of several values would silently be the one."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        times_of: Counter[Any] = Counter(given)
        for option, times in times_of.items():
            # A flag that is given twice states the same, and arguments have their own places.
            is_single = option.param_type_name == "option" and not option.is_flag
            if is_single and not option.multiple and times > 1:
                raise typer.BadParameter(f"it takes one value, and is given {times}", ctx, option)
        return super().parse_args(ctx, args)


class _Command(TyperCommand):
    """A command whose module is imported once it is needed: the list of all does without."""

    def loaded(self) -> Any:
        """Return the command with its options."""
        module = import_module(f"ldpopt.cli.{self.name}")
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        alone.command(self.name, cls=_StrictCommand)(getattr(module, str(self.name)))
        return typer.main.get_command(alone)

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments of the command, which then runs."""
        return self.loaded().make_context(info_name, args, parent=parent, **extra)


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


class _Commands(Interruptible):
    """All commands, none of which is imported yet."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.commands = {name: _Command(name, short_help=line) for name, line in COMMANDS.items()}


@contextmanager
def _one_line_on_interruption() -> Iterator[None]:
    try:
        yield
    # Otherwise typer prints "Aborted!" and ends with status 1, which a failed check has too.
    except KeyboardInterrupt:
        errors.print("Interrupted.")
        raise typer.Exit(INTERRUPTED) from None
    # Otherwise typer ends with status 1 here, too.
    except BrokenPipeError:
        leave_pipe()


app = typer.Typer(
    cls=_Commands,
    help="Post-process locally differentially private frequency estimates, and check the methods.",
    no_args_is_help=True,
    # Without markup brackets in help are shown as they are, and paragraphs fill the width.
    rich_markup_mode=None,
    # What is no LdpoptError is a defect, of which ``main`` prints a report.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, by default with the arguments of the process.

    Raises
    ------
    SystemExit
        Always. Status 2 and one sentence on standard error after an error of this library, of the
        system or of usage, status 70 and a report to paste after any other.

    Notes
    -----
    A warning is one line on standard error, once per command.
    """
    for stream in (sys.stdout, sys.stderr):
        # Terminals that are not UTF-8, and names of files that are no text: anything is printed.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        # Not in its standalone mode, in which it would print errors of usage in a look of its own.
        with extra_needed(), _warnings_in_one_line():
            status = app(args=arguments, prog_name="ldpopt", standalone_mode=False)
    except LdpoptError as error:
        _fail(str(error))
    except _UsageError as error:
        _fail_of_usage(error)
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
    # The status that a command ends with; None if it ended well.
    sys.exit(status or 0)


def _fail_of_usage(error: Any) -> None:
    """Print what is wrong with a command line, as other errors are printed, and where help is."""
    sentence = error.format_message()
    # The text is in the messages of older versions of typer, and in the error behind newer ones.
    checks = getattr(error.__context__, "errors", None)
    text = repr(checks()[0].get("input")) if callable(checks) else None
    no_number = _NO_NUMBER.fullmatch(sentence)
    if no_number is not None:
        option, older, kind = no_number.groups()
        sentence = f"{option}: {_RULES[kind]}, got {text or older}"
    elif text is not None:
        sentence += f", got {text}"
    # Without any argument the help is the message, and is printed already or now.
    if error.ctx is not None and sentence == error.ctx.get_help():
        typer.echo(sentence, err=True)
        sys.exit(FAILED)
    hint = "" if error.ctx is None else f"\nTry '{error.ctx.command_path} --help'."
    _fail(sentence + hint)


def _fail(sentence: str) -> None:
    _print_headed("[bold red]Error:[/]", sentence)
    sys.exit(FAILED)


def _print_headed(head: str, sentence: str) -> None:
    # Paths and labels in messages may hold anything: brackets are no markup there.
    shown = "\n".join(escape(printable(line)) for line in sentence.split("\n"))
    errors.print(f"{head} {shown}", highlight=False, soft_wrap=True)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print each warning as errors are printed: the line of code that Python adds helps nobody."""
    printed = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        sentence = " ".join(str(message).split())
        # Python's own list of those that were shown is emptied whenever filters change.
        if sentence not in printed:
            printed.add(sentence)
            _print_headed("[bold yellow]Warning:[/]", sentence)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


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
