"""Where the minimiser of a likelihood is: each value between its responses to two prices.

A loss that is a sum over values, on bounds with a total, has the minimiser f_v(μ) that answers to
the right price μ of the total: f_v(μ) is where the slope of value v is -μ, or the bound in its way.
Every f_v falls as μ grows, and so does their sum. So two prices at which the sum is surely above
and surely below the total enclose the right one, and the responses to them the minimiser. Numbers
are balls that contain the true ones, whatever is rounded.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.exact.rationals import in_last_places, rounded_up

Array = NDArray[np.float64]

Response = Callable[[Any], Any]
"""From a price, a ball, to the ball of the frequency that answers to it without bounds."""

# The bracket of the price ends as narrow as this, relative to the price: 2⁻⁶⁰ of a last place.
_NARROW = 2.0**-112

_MAX_STEPS = 120  # from a price of double precision some ten lead there

# The first bracket, relative to the price or 1, and by how much it grows until it holds: to 2¹⁵².
_FIRST_STEP = 2.0**-40
_GROWTH = 16
_MAX_GROWTHS = 48

_BETWEEN = "the minimiser is enclosed, but not between numbers with one nearest double"


class Enclosure(NamedTuple):
    """Distance from the minimiser, in last places too, and the minimiser; or why they are unknown.

    The minimiser is None, and the distances are infinite, where they are not known.
    """

    distance: float
    ulps: float
    minimiser: Array | None
    reason: str


UNKNOWN = Enclosure(
    math.inf,
    math.inf,
    None,
    "no prices enclose the minimiser: there may be several, or the set is a point, or empty",
)


def enclosure(
    responses: Sequence[Response | None],
    point: Array,
    lower: Array,
    upper: Array,
    counts: Sequence[int],
    total: float | None,
    price: float,
    flint: Any,
) -> Enclosure:
    """Return how far a vector is from the minimiser on bounds, with a total if there is one.

    Parameters
    ----------
    responses
        Of each value; None of a value that must be 0.
    point, lower, upper
        The vector and the bounds, shape (d,).
    counts
        How often each value counts in the total.
    total
        The sum of the frequencies, None if it is free.
    price
        A price of the total that is near the right one, if possible.
    flint
        The library of balls, with its precision set.
    """

    def answers(mu: Any) -> list[Any]:
        return [
            flint.arb(0) if response is None else _within(response(mu), low, high, flint)
            for response, low, high in zip(responses, lower, upper, strict=True)
        ]

    lowest = highest = flint.arb(0)
    if total is not None:
        limit = ball_of(total, flint)

        def excess(mu: Any) -> Any:
            return sum(map(operator.mul, counts, answers(mu)), -limit)

        ends = _bracket(excess, price, flint)
        if ends is None:
            return UNKNOWN
        lowest, highest = (end.price for end in ends)
    # Frequencies fall as the price grows.
    lows = [ball.lower() for ball in answers(highest)]
    highs = [ball.upper() for ball in answers(lowest)]
    if not all(ball.is_finite() for ball in [*lows, *highs]):
        return UNKNOWN
    return _of_interval(point, lows, highs, flint)


def _of_interval(point: Array, lows: list[Any], highs: list[Any], flint: Any) -> Enclosure:
    """Return the enclosure of a minimiser between two vectors of numbers."""
    distance = flint.arb(0)
    for value, low, high in zip(point, lows, highs, strict=True):
        here = ball_of(value, flint)
        distance = distance.max((here - low).upper()).max((high - here).upper())
    farthest = _quotient(distance.upper())
    nearest = np.array([float(low) for low in lows])
    is_known = np.array_equal(nearest, np.array([float(high) for high in highs]))
    size = float(np.max(np.abs(nearest)))
    return Enclosure(
        rounded_up(*farthest),
        in_last_places(*farthest, size),
        nearest if is_known else None,
        "" if is_known else _BETWEEN,
    )


def _within(ball: Any, low: float, high: float, flint: Any) -> Any:
    """Return a ball of what the nearest number between two bounds is; NaN stays NaN."""
    if math.isfinite(low):
        ball = ball.max(ball_of(low, flint))
    return ball.min(ball_of(high, flint)) if math.isfinite(high) else ball


class _End(NamedTuple):
    """A price, and the excess there, which is surely not 0: numbers without a radius."""

    price: Any
    excess: Any


def _bracket(excess: Callable[[Any], Any], price: float, flint: Any) -> tuple[_End, _End] | None:
    """Return prices at which the excess is surely above and surely below 0; None if there are none.

    By secants from both sides, of which the one that stays counts half (the Illinois method), and
    halves.
    """

    def at(mu: Any) -> _End | None:
        value = excess(mu)
        return _End(mu, value.mid()) if value > 0 or value < 0 else None

    start = ball_of(price if math.isfinite(price) else 0.0, flint)
    ends = _first_bracket(at, start)
    if ends is None:
        return None
    above, below = ends
    # The excesses by which the secants are drawn.
    first, last = above.excess, below.excess
    for step in range(_MAX_STEPS):
        width = below.price - above.price
        narrow = _NARROW * abs(above.price).max(abs(below.price))
        if width <= narrow:
            break
        # Where the excess is far from straight, halves are the quicker way.
        share = 0.5 if step % 3 == 2 else first / (first - last)
        middle = (above.price + width * share).mid()
        new = at(middle)
        if new is None:
            # Rounding alone is left there: the zero is between two prices beside it.
            beside = (at((middle - narrow).mid()), at((middle + narrow).mid()))
            above, below = (end or old for end, old in zip(beside, (above, below), strict=True))
            break
        if new.excess > 0:
            above, first, last = new, new.excess, last / 2
        else:
            below, first, last = new, first / 2, new.excess
    return above, below


def _first_bracket(at: Callable[[Any], _End | None], start: Any) -> tuple[_End, _End] | None:
    """Return the ends of a bracket that grows from a start: few steps from a price of doubles."""
    step = _FIRST_STEP * (abs(start) + 1)
    above: _End | None = None
    below: _End | None = None
    for _ in range(_MAX_GROWTHS):
        for price in ((start - step).mid(), (start + step).mid()):
            end = at(price)
            if end is None:
                continue
            # The nearest ones of either kind: the first that there are.
            if end.excess > 0:
                above = above or end
            else:
                below = below or end
        if above is not None and below is not None:
            return above, below
        step *= _GROWTH
    return None


def ball_of(value: float, flint: Any) -> Any:
    """Return a double as a ball without a radius."""
    return flint.arb(float(value))


def _quotient(number: Any) -> tuple[int, int]:
    """Return a ball without a radius as a quotient of integers."""
    mantissa, exponent = number.man_exp()
    shift = int(exponent)
    return (int(mantissa) << max(shift, 0)), 1 << max(-shift, 0)
