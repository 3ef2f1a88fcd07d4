"""One root of one function between two places, without the overhead of many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

_EPS = 2.0**-52

# The search halves the bracket at least every third time: so many steps are never taken.
_MAX_STEPS = 200


class End(NamedTuple):
    """A place, and the value of the function there."""

    place: float
    value: float


def bracketed_root(
    function: Callable[[float], float],
    ends: tuple[End, End],
    accepts: Callable[[float], bool],
) -> tuple[End, End]:
    """Return the last bracket of a root, the place that was looked at last in front.

    Parameters
    ----------
    function
        A function of a place.
    ends
        Two places where its values have different signs; the first is nearer to the root, if that
        is known.
    accepts
        Whether a value is near enough to 0.

    Notes
    -----
    Cost: about ten evaluations (Chandrupatla 1997), until a value is accepted or the bracket is as
    narrow as double precision.
    """
    new, other = ends
    # First where a straight line would cross.
    part = new.value / (new.value - other.value)
    for _ in range(_MAX_STEPS):
        width = other.place - new.place
        largest = max(abs(new.place), abs(other.place))
        if 4 * _EPS * largest >= abs(width):
            break
        margin = 2 * _EPS * largest / abs(width)
        place = new.place + min(max(part, margin), 1 - margin) * width
        value = function(place)
        is_same = (value > 0) == (new.value > 0)
        third = new if is_same else other
        other = other if is_same else new
        new = End(place, value)
        if accepts(value):
            break
        part = _next_part(new, other, third)
    return new, other


def _next_part(new: End, other: End, third: End) -> float:
    """Return where to look next, as a share of the way from the new place to the other one."""
    rise = third.value - other.value
    if rise == 0:
        return 0.5
    place = (new.place - other.place) / (third.place - other.place)
    height = (new.value - other.value) / rise
    # A quadratic through three places is trusted only where it is monotone between them.
    if not (height**2 < place and (1 - height) ** 2 < 1 - place):
        return 0.5
    first = new.value / (other.value - new.value) * third.value / (other.value - third.value)
    ahead = (third.place - new.place) / (other.place - new.place)
    second = new.value / (third.value - new.value) * other.value / (third.value - other.value)
    return first + ahead * second
