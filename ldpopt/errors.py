"""The exceptions of ldpopt, each a ``ValueError`` or ``TypeError`` too, and its warning."""

from __future__ import annotations

import sys
import warnings


class LdpoptError(Exception):
    """Base of every exception that ldpopt raises on purpose.

    A message states what is wrong, where it is, and what to do.
    """


class InvalidInputError(LdpoptError, ValueError):
    """A value that cannot be right: not finite, out of range, of a wrong shape, or unknown."""


class InvalidTypeError(LdpoptError, TypeError):
    """A value of the wrong kind, such as text where counts are expected."""


class MethodError(InvalidInputError):
    """A function of the user that returns what no method may, or changes its input."""


class InfeasibleError(InvalidInputError):
    """No vector satisfies the constraints."""


class SolverError(InvalidInputError):
    """A solver is missing, does not take such problems, or stopped without a usable point."""


class UnsupportedProblemError(SolverError):
    """A solver does not take problems of this kind."""


class DataUnavailableError(InvalidInputError):
    """A data set that is not on this machine, or a file that is not what it should be."""


class WorkersError(InvalidInputError):
    """Processes or a cluster that were to share the work cannot be reached, or died."""


class StoreError(InvalidInputError):
    """A file of results that cannot be used or written, or a run that stopped on the way."""


class LdpoptWarning(UserWarning):
    """The result follows the definition but is probably not what the caller intended."""


def warn(message: str) -> None:
    """Emit an ``LdpoptWarning`` at the first line outside the package, the caller's own."""
    level = 1
    frame = sys._getframe()
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == "ldpopt"
    ):
        frame = frame.f_back
        level += 1
    warnings.warn(message, LdpoptWarning, stacklevel=level)
