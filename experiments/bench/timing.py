"""The one stopwatch of the benchmarks. Standard library only: it also runs inside the peers' environments."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the warm-up apart, then every repeat, and what the last repeat returned."""

    first: float
    repeats: tuple[float, ...]
    value: Any = None

    @property
    def best(self) -> float:
        """The least disturbed repeat: for calls of milliseconds, which other processes can only slow down."""
        return min(self.repeats)

    @property
    def median(self) -> float:
        return statistics.median(self.repeats)


def measure(
    call: Callable[[], Any],
    *,
    repeats: int = 5,
    warm_up: Callable[[], Any] | None = None,
    patience: float = 20.0,
) -> Timing:
    """Time ``call`` after one warm-up, which takes compilation and cold caches upon itself.

    Parameters
    ----------
    call
        What is timed.
    repeats
        Timed calls, at least one.
    warm_up
        The call made first; ``call`` itself unless a cheaper one compiles the same code.
    patience
        Seconds: once a repeat has taken longer, no further one is made.
    """
    first, value = _once(warm_up or call)
    seconds: list[float] = []
    while len(seconds) < max(repeats, 1) and max(seconds, default=0.0) <= patience:
        elapsed, value = _once(call)
        seconds.append(elapsed)
    return Timing(first, tuple(seconds), value)


def _once(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = call()
    return time.perf_counter() - start, value
