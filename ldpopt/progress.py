"""Progress bars of everything that may take more than two seconds: one place decides on them.

A bar is shown on standard error if that is a terminal, or in a notebook, once two seconds have
passed; it disappears at the end. The environment variable ``TQDM_DISABLE=1`` turns all bars off.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

Item = TypeVar("Item")
Advance = Callable[[float], None]

_DELAY = 2.0  # seconds: what ends earlier needs no bar

# Of the time that is left only, since steps differ: seconds per step would mislead.
_FORMAT = "{desc} {percentage:3.0f} %|{bar}| {elapsed}, {remaining} left{postfix}"

_shown: list[str] = []
"""The bars of this process, at most one: what runs within a step of another bar has none."""


def is_watched() -> bool:
    """Return whether somebody looks at what this process writes to standard error."""
    # Processes of a pool share the terminal of the one that started them, which shows the bar.
    if multiprocessing.parent_process() is not None:
        return False
    return in_notebook() or bool(sys.stderr is not None and sys.stderr.isatty())


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextmanager
def bar(what: str, total: float, *, wanted: bool | None = None) -> Iterator[Advance]:
    """Yield a function that moves a bar by some amount, up to the total.

    Parameters
    ----------
    what
        What stands before the bar.
    total
        The sum of all amounts.
    wanted
        Whether there is a bar; by default if somebody watches.
    """
    if _shown or not (is_watched() if wanted is None else wanted):
        yield _nothing
        return
    _shown.append(what)
    try:
        # Widgets need another package, without which tqdm would warn.
        if in_notebook() and find_spec("ipywidgets"):
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
        options: dict[str, Any] = {"desc": what, "total": total, "leave": False}
        with tqdm(**options, delay=_DELAY, bar_format=_FORMAT, file=sys.stderr) as shown:
            yield shown.update
    finally:
        _shown.remove(what)


def track(
    items: Iterable[Item], what: str, total: int, *, wanted: bool | None = None
) -> Iterator[Item]:
    """Yield items, and move a bar by one after each: ``total`` is their number.

    Examples
    --------
    >>> [2 * item for item in track([1, 2], "doubling", 2)]
    [2, 4]
    """
    with bar(what, total, wanted=wanted) as advance:
        for item in items:
            yield item
            advance(1)


def _nothing(amount: float) -> None:
    """Show nothing."""
