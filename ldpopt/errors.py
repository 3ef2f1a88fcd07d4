"""The exceptions of ldpopt: each is also a ``ValueError`` or a ``TypeError``, so callers need not know this module."""


class LdpoptError(Exception):
    """Base of every exception that ldpopt raises on purpose; its message says what, where and what to do."""


class InvalidInputError(LdpoptError, ValueError):
    """A value that cannot be right: not finite, out of range, of the wrong shape, or an unknown name."""


class InvalidTypeError(LdpoptError, TypeError):
    """A value of the wrong kind, such as text where counts are expected."""


class InfeasibleError(InvalidInputError):
    """No vector satisfies the constraints."""


class SolverError(InvalidInputError):
    """A solver is missing, does not take this class of problem, or stopped without a usable point."""


class UnsupportedProblemError(SolverError):
    """A solver does not take problems of this kind."""


class DataUnavailableError(InvalidInputError):
    """A data set that is not on this machine, or a file that is not what it should be."""


class LdpoptWarning(UserWarning):
    """An answer that is right by its definition and yet probably not what was hoped for."""
