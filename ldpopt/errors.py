"""The exceptions of ldpopt, and remedies.

Each is a ``ValueError`` or ``TypeError`` too, but that of a missing package, an ``ImportError``.
"""

from __future__ import annotations

import difflib
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_COMPARED = 10_000  # names that are compared letter by letter with a wrong one: up to a second


class LdpoptError(Exception):
    """Base of every exception that ldpopt raises on purpose.

    A message states what is wrong, where it is, and what to do.
    """


class InvalidInputError(LdpoptError, ValueError):
    """A value that cannot be right: not finite, out of range, of a wrong shape, or unknown."""


class InvalidTypeError(LdpoptError, TypeError):
    """A value of the wrong kind, such as text where counts are expected."""


class UnknownNameError(InvalidInputError, KeyError):
    """A name that is not known: the message has the nearest ones that are."""

    def __str__(self) -> str:
        """Return the message as it is, which a ``KeyError`` would show in quotes."""
        return str(self.args[0])


class MethodError(InvalidInputError):
    """A function of the user that returns what no method may, or changes its input."""


class FunctionError(LdpoptError, ValueError):
    """A function of the user raised an error that is not of this library."""


class InfeasibleError(InvalidInputError):
    """No vector satisfies the constraints."""


class PrecisionError(InvalidInputError):
    """A closed form that double precision is too coarse for."""


class SolverError(InvalidInputError):
    """A solver is missing, does not take such problems, or stopped without a usable point."""


class UnsupportedProblemError(SolverError):
    """A solver does not take problems of this kind."""


class NoDerivativeError(InvalidInputError):
    """A solution whose exact derivative in the estimate is not known."""


class DataUnavailableError(InvalidInputError):
    """A data set that is not on this machine, or a file that is not what it should be."""


class WorkersError(InvalidInputError):
    """Processes or a cluster that were to share the work cannot be reached, or died."""


class StoreError(InvalidInputError):
    """A file of results that cannot be used or written, or a run that stopped on the way."""


class MissingPackageError(LdpoptError, ImportError):
    """An optional package that is not installed: the message has the line that installs it."""


def described(error: BaseException) -> str:
    """Return an error of a function from outside in one line: type, message and place.

    The place is the last line that ran outside Python itself, installed packages and this library:
    what went wrong within them went wrong because of it.

    Examples
    --------
    >>> try:
    ...     [].pop()
    ... except IndexError as error:
    ...     described(error).partition(" (")[0]
    'IndexError: pop from empty list'
    """
    message = " ".join(str(error).split())
    stated = f"{type(error).__name__}: {message}" if message else type(error).__name__
    # Of code that never ran: the message has its place.
    if isinstance(error, SyntaxError):
        return stated
    places = traceback.extract_tb(error.__traceback__)
    paths = sysconfig.get_paths()
    installed = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    # Constructors of dataclasses have no file.
    foreign = ("<frozen ", "<string>", *installed)
    not_foreign = [place for place in places if not place.filename.startswith(foreign)]
    here = str(Path(__file__).parent)
    users = [place for place in not_foreign if not place.filename.startswith(here)]
    # Without places it was never raised.
    for place in (users or not_foreign or places)[-1:]:
        return f"{stated} ({Path(place.filename).name}, line {place.lineno})"
    return stated


@contextmanager
def users_code(what: str) -> Iterator[None]:
    """Turn what code of the user raises into an error that says what ran, and where it failed.

    Raises
    ------
    FunctionError
        In place of any error that this library does not raise on purpose.
    """
    try:
        yield
    # These have sentences of their own.
    except (LdpoptError, MemoryError):
        raise
    # Without a word about it sys.exit would end the command.
    except (Exception, SystemExit) as error:
        raise FunctionError(f"{what} failed: {described(error)}") from error


# The extra that brings each package, and what needs it.
_EXTRAS = {
    "distributed": ("dask", "a Dask cluster needs"),
    "jinja2": ("cli", "pages of HTML need"),
    "mbi": ("mbi", "measurements of private-pgm need"),
    "matplotlib": ("plot", "pictures need"),
    "pyarrow": ("files", "files of reports and counts need"),
    "rich": ("cli", "tables in a terminal need"),
    "sympy": ("formulas", "the conditions of a problem in formulas need"),
    "typer": ("cli", "the command ldpopt needs"),
}


@contextmanager
def extra_needed() -> Iterator[None]:
    """Turn the failure to import a package of an extra into an error that names the extra.

    Raises
    ------
    MissingPackageError
        If a package that an extra brings is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        extra, what_needs = _EXTRAS[package]
        raise MissingPackageError(
            f"{what_needs} the package {package}: pip install 'ldpopt[{extra}]'"
        ) from None


# How files of other kinds begin, which are taken for text by mistake.
_BEGINNINGS = {
    b"\x1f\x8b": "compressed by gzip: unpack it first",
    b"PK\x03\x04": "a zip archive or spreadsheet: save the table as CSV",
    b"PAR1": "Parquet: give its name the ending .parquet",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
}


def nearest(name: object, choices: Iterable[str]) -> list[str]:
    """Return up to three choices that are like a name, in any case, the nearest first.

    Of very many choices, only one that differs in case or by blanks: to compare letters takes
    0.1 ms for each.

    Examples
    --------
    >>> nearest("Cofee", ["tea", "coffee", "milk"])
    ['coffee']
    """
    wanted = str(name).strip().lower()
    in_any_case = {choice.strip().lower(): choice for choice in choices}
    if wanted in in_any_case:
        return [in_any_case[wanted]]
    if len(in_any_case) > _COMPARED:
        return []
    close = difflib.get_close_matches(wanted, in_any_case, n=3, cutoff=0.5)
    return [in_any_case[match] for match in close]


def other_separator(heading: Sequence[str]) -> str:
    """Return a remedy for columns that no comma separates, as messages end; empty without any."""
    # A comma in a line of several words would have made several columns of it.
    if len(heading) != 1:
        return ""
    (name,) = heading
    return ": separate columns by commas" if any(mark in name for mark in ";\t") else ""


def not_utf8(error: UnicodeDecodeError) -> str:
    """Return what is wrong with a file that is no text in UTF-8, by how its bytes begin.

    Examples
    --------
    >>> try:
    ...     "count".encode("utf-16").decode("utf-8")
    ... except UnicodeDecodeError as error:
    ...     print(not_utf8(error))
    it is UTF-16: save it as UTF-8
    """
    for beginning, kind in _BEGINNINGS.items():
        if error.object.startswith(beginning):
            return f"it is {kind}"
    return f"byte {error.start:,} is no text in UTF-8: save the file as UTF-8"


class LdpoptWarning(UserWarning):
    """The result follows the definition but is probably not what the caller intended."""


class ImplausibleCountsWarning(LdpoptWarning):
    """Counts whose sum reports of the protocol practically never give: epsilon or n may be wrong.

    Frequencies that are shares of reports, and no estimates yet, have it too, and so have those of
    a method that are stated to be raw.

    The estimate is computed all the same. Toy counts in tests of arithmetic deserve this warning
    too: ignore its category there.
    """


class ImplausibleUnitWarning(LdpoptWarning):
    """Numbers that look like percent or counts where frequencies are expected."""


class ImplausibleLevelWarning(LdpoptWarning):
    """A confidence below one half, as of 0.05 for 0.95, or a significance above it."""


def warn(message: str, category: type[LdpoptWarning] = LdpoptWarning) -> None:
    """Emit a warning at the first line outside the package, the caller's own."""
    level = 1
    frame = sys._getframe()
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == "ldpopt"
    ):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
