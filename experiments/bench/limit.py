"""A time limit that also stops compiled code."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)``, computed in another process; ``None`` if it takes longer.

    A solver's inner loop answers to no signal and no exception: only the end of its process ends
    it. An exception of the function is raised here; a process that dies raises ChildProcessError.
    """
    # Spawned, not forked: a forked child inherits the locks of the threads of solvers and BLAS.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(sender, function, arguments))
    process.start()
    sender.close()  # the child's end is then the only one, so its death is an end of file here
    try:
        # The limit includes the start of the process, a second of imports.
        if not receiver.poll(seconds):
            return None
        value, error = receiver.recv()
    except EOFError:
        raise ChildProcessError(
            f"the process of {function.__name__} died without an answer"
        ) from None
    finally:
        # Also after an answer: nothing of the process may run into the next measurement.
        process.kill()
        process.join()
    if error is not None:
        raise error
    return value


def _report(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        sender.send((function(*arguments), None))
    except Exception as error:
        sender.send((None, error))
