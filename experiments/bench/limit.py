"""A time limit that also stops compiled code."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any


def within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)``, computed in a process of its own, or ``None`` if it takes longer.

    A solver's inner loop answers to no signal and no exception: only the end of its process ends it.
    """
    # Spawned, not forked: a forked child inherits the locks of the threads of solvers and BLAS.
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # leaving the block ends the process
        try:
            return pool.apply_async(function, arguments).get(timeout=seconds)
        except multiprocessing.TimeoutError:
            return None
