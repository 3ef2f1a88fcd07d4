"""What compiled libraries print, which goes past Python's ``sys.stdout``."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def printed_to(descriptor: int) -> Iterator[None]:
    """Send all that the process prints to another descriptor, such as 2, of standard error.

    Standard output is for results, which other programs read. All threads are concerned.
    """
    try:
        kept = os.dup(1)
    except OSError:
        # Without a standard output there is nothing to keep apart.
        yield
        return
    _flush()
    try:
        with suppress(OSError):
            os.dup2(descriptor, 1)
        yield
    finally:
        _flush()
        # What C has not written yet would come out later, among the results.
        if os.name == "posix":
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _flush() -> None:
    """Write what Python keeps; programs without a console have no ``sys.stdout``."""
    if sys.stdout is not None:
        sys.stdout.flush()
