"""A process that has imported libraries and runs pytest in forks of itself.

    python -m tools.preloaded LIBRARY...    # reads one JSON order per line, answers with a status

Most runs of ``tools.mutants`` last a second or two, and importing the libraries lasts longer. The
package itself is not imported here: every fork imports it as the files are at that time.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

LIBRARIES = (
    "numpy",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "cvxpy",
    "numba",
    "pyarrow.parquet",
    "hypothesis.extra.numpy",
    "pytest",
    "rich.console",
    "typer.testing",
)
"""What most test files import, and what imports slowly."""

MEMORY = 6 * 2**30
"""Bytes that the tests may use: a planted loop that fills memory must not harm the machine."""

_PAUSE = 0.02  # seconds between two looks at the fork


def _run(arguments: list[str], output: Path, seconds: float) -> int:
    """Run pytest in a fork; return its status, negative if a signal ended it."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        os.setsid()  # so that all processes that the tests start can be ended
        with output.open("w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _end_with_pytest(arguments)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_PAUSE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    # The same answer as to too much processor time: the tests hang.
    return -signal.SIGXCPU


def _end_with_pytest(arguments: list[str]) -> None:
    """Run pytest and end the process, without the parent's clean-up."""
    import pytest

    status = 2
    try:
        status = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        os._exit(status)


def main() -> None:
    """Serve until the input ends."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        status = _run(order["arguments"], Path(order["output"]), order["seconds"])
        print(status, flush=True)


if __name__ == "__main__":
    main()
