"""The one stopwatch of the benchmarks; standard library only, since the peers use it too."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the warm-up, then every repeat, and the value of the last repeat."""

    first: float
    repeats: tuple[float, ...]
    value: Any = None

    @property
    def best(self) -> float:
        """The fastest repeat: for calls of milliseconds, which other processes only slow down."""
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
    # Its seconds are kept: what the first user of a process waits for.
    first, value = _once(warm_up or call)
    seconds: list[float] = []
    # At least one call is timed, however slow it is.
    while len(seconds) < max(repeats, 1) and max(seconds, default=0.0) <= patience:
        elapsed, value = _once(call)
        seconds.append(elapsed)
    return Timing(first, tuple(seconds), value)


def _once(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = call()
    return time.perf_counter() - start, value
