"""How solvers look in pictures: each has a look of its own, however many there are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Literal, NamedTuple

from ldpopt.solve.solvers import SOLVERS

Line = Literal["-", "--", ":"]

BLUE = "#0072B2"  # of single series; the first of Okabe and Ito's colours, as the solvers' are

_COLOURS = ("#7F7F7F", "#882255", "#44AA99", "#999933", "#332288", "#AA4499", "#117733")
"""Of solvers without a record: none is a recorded solver's, and black is the closed form's."""

_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "p", "h")
"""Each of them has an inside, because a filled marker means an inaccurate solution."""

_LINES: tuple[Line, ...] = ("-", "--", ":")


class Look(NamedTuple):
    """The colour, the marker and the line of one solver."""

    colour: str
    marker: str
    line: Line = "-"


def looks_of(solvers: Iterable[str]) -> dict[str, Look]:
    """Return the look of each solver, in the order given; repeated names count once.

    A solver with a record looks the same in every picture; any other takes the next free look.

    Examples
    --------
    >>> looks_of(["MOSEK", "OSQP"])
    {'MOSEK': Look(colour='#7F7F7F', marker='o', line='-'),
     'OSQP': Look(colour='#0072B2', marker='o', line='-')}
    """
    looks = {}
    free = (_free_look(number) for number in count())
    for name in dict.fromkeys(solvers):
        record = SOLVERS.get(name)
        looks[name] = next(free) if record is None else Look(record.colour, record.marker)
    return looks


def _free_look(number: int) -> Look:
    # Lines change when the colours are used up: a histogram has no markers to tell them apart.
    # 7 colours and 11 markers have no common factor: 77 pairs of them are different.
    return Look(
        _COLOURS[number % len(_COLOURS)],
        _MARKERS[number % len(_MARKERS)],
        _LINES[number // len(_COLOURS) % len(_LINES)],
    )
