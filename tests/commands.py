"""The command line run inside this process: no interpreter starts, nothing is imported twice."""

import contextlib
import io
from typing import NamedTuple

from ldpopt import cli


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


def run(*arguments):
    """Run ``ldpopt ARGUMENTS`` and return its exit status and what it printed."""
    out = io.StringIO()
    err = io.StringIO()
    status = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = stop.code
    return Outcome(status or 0, out.getvalue(), err.getvalue())
