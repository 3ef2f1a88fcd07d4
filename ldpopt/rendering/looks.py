"""How solvers look in pictures: each has a colour and a marker of its own, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ldpopt.solve.solvers import SOLVERS

BLUE = "#0072B2"

_COLOURS = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
"""Okabe and Ito's, which colour-blind readers can tell apart, and grey; black is the closed form's."""

_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "p", "h")
"""Each of them has an inside, because a filled marker means an inaccurate solution."""


class Look(NamedTuple):
    """The colour and the marker of one solver."""

    colour: str
    marker: str


def looks_of(solvers: Iterable[str]) -> dict[str, Look]:
    """Return the look of each solver, in the order given; repeated names count once.

    A solver with a record looks the same in every picture; any other takes the next free look.

    Examples
    --------
    >>> looks_of(["MOSEK", "OSQP"])
    {'MOSEK': Look(colour='#0072B2', marker='s'), 'OSQP': Look(colour='#0072B2', marker='o')}
    """
    recorded = {name: Look(solver.colour, solver.marker) for name, solver in SOLVERS.items()}
    free = (look for look in _all_looks() if look not in recorded.values())
    return {name: recorded.get(name) or next(free) for name in dict.fromkeys(solvers)}


def _all_looks() -> Iterator[Look]:
    # 7 colours and 11 markers have no common factor: the first 77 pairs are all different.
    for number in range(len(_COLOURS) * len(_MARKERS)):
        yield Look(_COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)])
