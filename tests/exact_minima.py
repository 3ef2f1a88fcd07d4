"""Exact minima over a box with a total, and how far points are above them: slow and independent.

Doubles are taken at face value. Quadratic losses are computed with fractions, the others with 60
digits, where a minimum is at most 10⁻⁴⁰ too high.
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

import numpy as np

DIGITS = 60

# Width of the range of the total's multiplier at which the search ends.
_NARROW = Decimal("1e-50")


class Quadratic(NamedTuple):
    """½ Σ w (s - t)² over lower <= s <= upper with Σ s = total: its minimiser in fractions."""

    weights: list[Fraction]
    target: list[Fraction]
    minimiser: list[Fraction]

    @classmethod
    def of(cls, weights, target, lower, upper, total):
        """Return the problem with its minimiser; None if no point is feasible."""
        w, t, low, high = (fractions(part) for part in (weights, target, lower, upper))
        total = Fraction(float(total))
        if not sum(low) <= total <= sum(high):
            return None

        def values(mu):
            pairs = zip(w, t, low, high, strict=True)
            return [min(max(ti - mu / wi, li), hi) for wi, ti, li, hi in pairs]

        # The sum falls with μ, in pieces that are linear between these.
        ends = {
            wi * (ti - end) for wi, ti, *both in zip(w, t, low, high, strict=True) for end in both
        }
        places = sorted(ends)
        first, last = 0, len(places) - 1
        while last - first > 1:
            middle = (first + last) // 2
            if sum(values(places[middle])) >= total:
                first = middle
            else:
                last = middle
        above, below = (sum(values(places[at])) for at in (first, last))
        share = Fraction(0) if above == below else (above - total) / (above - below)
        return cls(w, t, values(places[first] + share * (places[last] - places[first])))

    def rise(self, f: Sequence[float]) -> Fraction:
        """Return the loss at f above the minimum."""
        (result,) = self.rises([f])
        return result

    def rises(self, points: Sequence[Sequence[float]]) -> list[Fraction]:
        """Return the rise of each point: in integers, which have no common divisors to look for."""
        w, t, *values = map(fractions, (self.weights, self.target, *points))
        minimum = sum(wi * (si - ti) ** 2 for wi, ti, si in zip(w, t, self.minimiser, strict=True))
        unit = math.lcm(*(number.denominator for part in (w, t, *values) for number in part))
        w, t, *values = (multiples(part, unit) for part in (w, t, *values))
        losses = [
            sum(wi * (xi - ti) ** 2 for wi, ti, xi in zip(w, t, x, strict=True)) for x in values
        ]
        return [(Fraction(loss, unit**3) - minimum) / 2 for loss in losses]


def sizes(target: Sequence[float], points: Sequence[Sequence[float]]) -> list[Fraction]:
    """Return Σ |s - t| of each point: in integers too."""
    t, *values = map(fractions, (target, *points))
    unit = math.lcm(*(number.denominator for part in (t, *values) for number in part))
    t, *values = (multiples(part, unit) for part in (t, *values))
    return [Fraction(sum(abs(xi - ti) for xi, ti in zip(x, t, strict=True)), unit) for x in values]


def multiples(numbers: Sequence[Fraction], unit: int) -> list[int]:
    """Return fractions times a common multiple of their denominators."""
    return [number.numerator * (unit // number.denominator) for number in numbers]


def fractions(numbers):
    """Return doubles as fractions; fractions stay."""
    # Numbers of Python are converted faster than those of numpy.
    plain = numbers.tolist() if isinstance(numbers, np.ndarray) else numbers
    return [number if isinstance(number, Fraction) else Fraction(float(number)) for number in plain]


class Model(NamedTuple):
    """A loss Σ ℓ_v(s_v) for numbers with many digits.

    Attributes
    ----------
    value
        ℓ_v from v and s; None where it is infinite.
    response
        The s >= 0 with ℓ_v'(s) = -μ, or the end beyond which none is, from v and μ.
    prices
        A range that holds the total's multiplier.
    """

    value: Callable[[int, Decimal], Decimal | None]
    response: Callable[[int, Decimal], Decimal]
    prices: tuple[Decimal, Decimal]


def minimum_on_simplex(model: Model, d: int, total: float) -> Decimal:
    """Return the minimum over s >= 0 with Σ s = total, by a bracket of the multiplier."""
    with localcontext() as context:
        context.prec = DIGITS

        def excess(mu):
            return sum(model.response(v, mu) for v in range(d)) - Decimal(total)

        price = _upper_end(excess, *model.prices)
        return _value(model, [model.response(v, price) for v in range(d)])


def _upper_end(excess, low, high):
    """Return the upper end of a narrow range at whose lower end the falling function is >= 0.

    By false position, where the value at an end that stays is halved (Illinois), and by halves
    where three steps have not halved the range: a dozen steps of a smooth function, where halves
    alone take two hundred.
    """
    at_low = excess(low)
    at_high = excess(high)
    widths = [high - low] * 3
    side = 0
    while high - low > _NARROW:
        is_slow = 2 * (high - low) > widths[-3]
        widths.append(high - low)
        middle = (low + high) / 2
        if at_high < 0 <= at_low and not is_slow:
            false = low + (high - low) * at_low / (at_low - at_high)
            # Not on an end, but next to it: the step may then close the range.
            middle = min(max(false, low + _NARROW / 2), high - _NARROW / 2)
        value = excess(middle)
        if value >= 0:
            low = middle
            at_low = value
            at_high = at_high / 2 if side > 0 else at_high
            side = 1
        else:
            high = middle
            at_high = value
            at_low = at_low / 2 if side < 0 else at_low
            side = -1
    return high


def rise(model: Model, minimum: Decimal, f: Sequence[float]) -> Decimal:
    """Return the loss at f above the minimum; infinity where it is infinite."""
    with localcontext() as context:
        context.prec = DIGITS
        return _value(model, [Decimal(float(x)) for x in f]) - minimum


def _value(model, values):
    terms = [model.value(v, s) for v, s in enumerate(values)]
    return Decimal("inf") if None in terms else sum(terms)


def gaussian(estimate, a, b) -> Model:
    """Return Σ (s - f̃)²/(a + b s) for numbers a > 0 and b."""
    target = [Decimal(float(x)) for x in estimate]
    a, b = Decimal(float(a)), Decimal(float(b))

    def value(v, s):
        variance = a + b * s
        return (s - target[v]) ** 2 / variance if variance > 0 else None

    def slope(v, s):
        ratio = (s - target[v]) / (a + b * s)
        return ratio * (2 - b * ratio)

    def response(v, mu):
        # Between 0 and 1 the loss is finite and its slope rises, so that ends tell where s is.
        if -mu <= slope(v, Decimal(0)):
            return Decimal(0)
        if -mu >= slope(v, Decimal(1)):
            return Decimal(1)
        ratio = -mu / (1 + (1 + b * mu).sqrt())
        return (target[v] + a * ratio) / (1 - b * ratio)

    with localcontext() as context:
        context.prec = DIGITS
        slopes = [slope(v, Decimal(end)) for v in range(len(target)) for end in (0, 1)]
    return Model(value, response, (-max(slopes), -min(slopes)))


def binomial(shares, floor, step) -> Model:
    """Return -Σ c log P + (1 - c) log(1 - P) with P = floor + step s, 0 < c < 1."""
    shares = [Decimal(float(x)) for x in shares]
    floor, step = Decimal(float(floor)), Decimal(float(step))

    def value(v, s):
        chance = floor + step * s
        if not 0 < chance < 1:
            return None
        return -(shares[v] * chance.ln() + (1 - shares[v]) * (1 - chance).ln())

    def slope(v, s):
        chance = floor + step * s
        return -step * (shares[v] / chance - (1 - shares[v]) / (1 - chance))

    def response(v, mu):
        if -mu <= slope(v, Decimal(0)):
            return Decimal(0)
        if -mu >= slope(v, Decimal(1)):
            return Decimal(1)
        m = mu / step
        # m P² - (1 + m) P + c = 0, by the root that does not cancel.
        root = ((1 + m) ** 2 - 4 * m * shares[v]).sqrt()
        chance = 2 * shares[v] / (1 + m + root) if 1 + m > 0 else (1 + m - root) / (2 * m)
        return (chance - floor) / step

    with localcontext() as context:
        context.prec = DIGITS
        slopes = [slope(v, Decimal(end)) for v in range(len(shares)) for end in (0, 1)]
    return Model(value, response, (-max(slopes), -min(slopes)))


def multinomial(shares, floor, step) -> Model:
    """Return -Σ c log P with P = floor + step s, c > 0."""
    shares = [Decimal(float(x)) for x in shares]
    floor = Decimal(float(floor))
    step = Decimal(float(step))

    def value(v, s):
        chance = floor + step * s
        return -shares[v] * chance.ln() if chance > 0 else None

    def response(v, mu):
        return max((shares[v] - floor * mu / step) / mu, Decimal(0))

    with localcontext() as context:
        context.prec = DIGITS
        # Σ s is 1 at a price between those at which a value alone would be 1 and all would be 0.
        prices = [step * share / (floor + step) for share in shares]
        return Model(value, response, (min(prices), max(step * c / floor for c in shares)))


def absolute(target, lower, upper, total):
    """Return the minimum of Σ |s - t| over lower <= s <= upper with Σ s = total, and a minimiser.

    Clipped to the bounds, every value costs as little as it can, and each step from there costs its
    own length. Both are fractions; None if no point is feasible.
    """
    t, low, high = (fractions(part) for part in (target, lower, upper))
    total = Fraction(float(total))
    if not sum(low) <= total <= sum(high):
        return None
    clipped = [min(max(ti, li), hi) for ti, li, hi in zip(t, low, high, strict=True)]
    outside = sum(abs(ci - ti) for ci, ti in zip(clipped, t, strict=True))
    missing = total - sum(clipped)
    minimum = outside + abs(missing)
    minimiser = []
    for value, floor, cap in zip(clipped, low, high, strict=True):
        step = min(max(missing, floor - value), cap - value)
        minimiser.append(value + step)
        missing -= step
    return minimum, minimiser


def divergence(estimate) -> Model:
    """Return Σ s log(s/f̃) where f̃ > 0; elsewhere s must be 0."""
    target = [Decimal(float(x)) for x in estimate]

    def value(v, s):
        if s == 0:
            return Decimal(0)
        return s * (s.ln() - target[v].ln()) if s > 0 and target[v] > 0 else None

    def response(v, mu):
        return target[v] * (-1 - mu).exp() if target[v] > 0 else Decimal(0)

    with localcontext() as context:
        context.prec = DIGITS
        mass = sum(t for t in target if t > 0)
        # For a total of 1 the multiplier is log(mass) - 1.
        return Model(value, response, (mass.ln() - 3, mass.ln() + 1))


def as_doubles(numbers) -> np.ndarray:
    """Return the nearest doubles."""
    return np.array([float(number) for number in numbers])
