"""The exact minimiser on a box with at most one total, in integers.

The losses ½ Σ w_v (f_v - f̃_v)² and Σ (f_v - f̃_v)²/(a_v + b f_v) have minimisers of one form: there
is a number ρ with

    f_v = (f̃_v + s_v ρ)/(1 - b ρ)   between its bounds, and else the bound that is nearest,

where s_v is 1/w_v or a_v. For the second loss r = (f_v - f̃_v)/(a_v + b f_v) = ρ is the same for all
free values, because the gradient r (2 - b r) rises with r; with b ≠ 0 all a_v must be equal. Every
f_v rises with ρ, so that the KKT conditions are Σ f_v = total and, for each value, on which side of
its bounds the quotient lies. Given these sides the total is linear in ρ: no square root occurs, and
doubles being rationals, so is ρ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, LeastSquares, Loss, WeightedLeastSquares
from ldpopt.solve.certificate.exact.rationals import (
    Integers,
    in_last_places,
    integers,
    nearest_double,
    rounded_up,
)
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# The sides settle in two or three rounds where the point is near the minimiser. Elsewhere a search
# that always ends takes over.
_ROUNDS = 12

# Bits of a quotient beyond its integer part where quotients with different denominators are added.
_GUARD = 64

# Bits of ρ beyond its integer part that decide nearly all roundings and comparisons of f̃ + ρ/w.
_FINE = 160

# Bits of the denominator of Σ 1/w: some 80,000 different weights, whose sum takes some seconds.
# With more ρ is enclosed.
_LARGEST = 2**22

# Bits of ρ and of Σ 1/w where these are enclosed, beyond those of the largest weight.
_ENCLOSING = 256


_NONE_HAS_TOTAL = "no vector within the bounds has exactly this total"


class Exact(NamedTuple):
    """What is proved of one vector; the minimiser is None where it is not known."""

    gap: float
    distance: float
    ulps: float
    violation: float
    minimiser: Array | None
    reason: str


class Sides(NamedTuple):
    """Which values are at their lower and which at their upper bound."""

    below: Mask
    above: Mask

    @property
    def free(self) -> Mask:
        """Values that are at no bound."""
        return ~(self.below | self.above)

    def equals(self, other: Sides) -> bool:
        """Return whether all values are on the same sides."""
        same = np.array_equal(self.below, other.below)
        return same and np.array_equal(self.above, other.above)


class Parameter(NamedTuple):
    """ρ as a quotient, and Σ (f*_v - f̃_v)²/s_v of the free values, also as one."""

    numerator: int
    denominator: int
    energy: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Program:
    """Loss, set and point in integers; frequencies in units of 2^-e.

    ``weights`` are None where all are equal. ``spread`` is s_v (a number where all are equal),
    times w_v where there are weights; ``growth`` is b. Both are in a unit of their own, which ρ
    takes up. ``scale`` is the power of two by which the loss of integers exceeds the loss.
    """

    target: Integers
    point: Integers
    lower: Integers
    upper: Integers
    has_lower: Mask
    has_upper: Mask
    total: int | None
    weights: Integers | None
    spread: Any
    growth: int
    e: int
    scale: int
    is_gaussian: bool

    def bound_sum(self, sides: Sides) -> int:
        """Return the sum of the values that are at a bound."""
        return int(self.lower[sides.below].sum()) + int(self.upper[sides.above].sum())

    def bounds(self, sides: Sides) -> Integers:
        """Return the bound of each value that is at one; of the others any number."""
        return np.where(sides.below, self.lower, self.upper)

    def scaled(self, parameter: Parameter) -> tuple[Integers, int]:
        """Return f̃_v + s_v ρ and 1 - b ρ over one denominator, without weights."""
        top = parameter.numerator
        bottom = parameter.denominator
        return self.target * bottom + self.spread * top, bottom - self.growth * top

    def sides(self, parameter: Parameter) -> Sides:
        """Return on which side of its bounds each value is at ρ; a bound itself counts."""
        if self.weights is None:
            values, divisor = self.scaled(parameter)
            below = values <= self.lower * divisor
            above = values >= self.upper * divisor
        else:
            # f̃ + ρ/w <= l is ρ <= w (l - f̃), an integer: ρ rounded to integers, which are short,
            # compares like ρ.
            down = parameter.numerator // parameter.denominator
            up = -(-parameter.numerator // parameter.denominator)
            below = (self.lower - self.target) * self.weights >= up
            above = (self.upper - self.target) * self.weights <= down
        below = self.has_lower & below.astype(bool)
        return Sides(below, self.has_upper & above.astype(bool) & ~below)

    def is_inside(self, parameter: Parameter) -> bool:
        """Return whether the variance stays positive at ρ: 1 - b ρ > 0."""
        return parameter.denominator > self.growth * parameter.numerator


def program(
    formulation: Formulation, start: FrequencyEstimate, point: Array, region: Region
) -> Program | str:
    """Return the program of one trial in integers, or the reason why there is none."""
    has_lower = np.isfinite(region.lower)
    has_upper = np.isfinite(region.upper)
    (target, values, lower, upper, total), e = integers(
        start.frequencies,
        point,
        np.where(has_lower, region.lower, 0.0),
        np.where(has_upper, region.upper, 0.0),
        0.0 if region.total is None else region.total,
    )
    parts: dict[str, Any] = {
        "target": target,
        "point": values,
        "lower": lower,
        "upper": upper,
        "has_lower": has_lower,
        "has_upper": has_upper,
        "total": None if region.total is None else int(total[()]),
        "e": e,
    }
    return _PROGRAMS[type(formulation.loss)](parts, formulation.loss, start)


def _squares_program(
    parts: dict[str, Any], loss: LeastSquares | WeightedLeastSquares, _: FrequencyEstimate
) -> Program:
    """Return the program of squares with weights or without."""
    weights = None
    digits = 0
    if loss.weights is not None:
        (weights,), digits = integers(loss.weights)
    return Program(
        **parts,
        weights=weights,
        spread=1,
        growth=0,
        # One more for the factor ½.
        scale=2 * parts["e"] + digits + 1,
        is_gaussian=False,
    )


def _gaussian_program(
    parts: dict[str, Any], _: GaussianMLE, start: FrequencyEstimate
) -> Program | str:
    """Return the program of squares over variances a + b f, or the reason why there is none."""
    (a, b), digits = integers(start.noise.a, start.noise.b)
    growths = {int(number) for number in np.ravel(b)}
    spreads = {int(number) for number in np.ravel(a)}
    if growths != {0} and (len(growths) > 1 or len(spreads) > 1):
        return "the variances of the values differ and grow: their minimiser is irrational"
    e = parts["e"]
    spread = np.asarray(a) << e if len(spreads) > 1 else spreads.pop() << e
    # (f - f̃)²/(a + b f): squares of 2^-e over variances in units of 2^-(e + digits).
    return Program(
        **parts,
        weights=None,
        spread=spread,
        growth=growths.pop(),
        scale=e - digits,
        is_gaussian=True,
    )


_PROGRAMS: Mapping[type[Loss], Callable[..., Program | str]] = {
    LeastSquares: _squares_program,
    WeightedLeastSquares: _squares_program,
    GaussianMLE: _gaussian_program,
}
"""What states the program of each loss. A class of a user may change what a loss means."""


def solved(problem: Program) -> tuple[Parameter, Sides] | str:
    """Return ρ and the sides of the exact minimiser, or the reason why there is none."""
    # The sides that the point itself suggests.
    below = problem.has_lower & (problem.point <= problem.lower).astype(bool)
    above = problem.has_upper & (problem.point >= problem.upper).astype(bool)
    sides = Sides(below, above & ~below)
    if problem.total is None:
        still = Parameter(0, 1, (0, 1))
        return still, problem.sides(still)
    for _ in range(_ROUNDS):
        parameter = _parameter(problem, sides)
        if parameter is None or not problem.is_inside(parameter):
            break
        now = problem.sides(parameter)
        if now.equals(sides):
            return parameter, sides
        sides = now
    return _searched(problem)


def _bits(problem: Program) -> int:
    """Return how many bits the sum of 1/w has at most: those of all different w together."""
    if problem.weights is None:
        return 0
    different = set(problem.weights.tolist())
    return sum(int(weight).bit_length() for weight in different)


def _parameter(problem: Program, sides: Sides) -> Parameter | None:
    """Return the ρ with which the values sum to the total if these are their sides, or None."""
    assert problem.total is not None
    free = sides.free
    # What is left for the free values.
    rest = problem.total - problem.bound_sum(sides)
    missing = rest - int(problem.target[free].sum())
    divisor = 1
    if problem.weights is not None:
        total_spread, divisor = _sum_of_inverses(problem.weights[free].tolist())
    elif np.ndim(problem.spread):
        total_spread = int(problem.spread[free].sum())
    else:
        total_spread = problem.spread * int(np.count_nonzero(free))
    total_spread += problem.growth * rest if total_spread else 0
    if total_spread <= 0:
        return None
    # Σ (f* - f̃)²/s over the free values is ρ² Σ s, or for growing variances ρ² Σ (a + b f*).
    return Parameter(missing * divisor, total_spread, (missing**2 * divisor, total_spread))


def _sum_of_inverses(weights: list[int]) -> tuple[int, int]:
    """Return Σ 1/w as numerator and denominator, (0, 1) for none.

    Halves are added to each other, so that most additions are of short numbers.
    """
    counts: dict[int, int] = {}
    for weight in weights:
        counts[weight] = counts.get(weight, 0) + 1
    sums = [(count, weight) for weight, count in counts.items()]
    while len(sums) > 1:
        paired = [
            (first[0] * second[1] + second[0] * first[1], first[1] * second[1])
            for first, second in zip(sums[::2], sums[1::2], strict=False)
        ]
        sums = paired + sums[2 * len(paired) :]
    return sums[0] if sums else (0, 1)


def _searched(problem: Program) -> tuple[Parameter, Sides] | str:
    """Return the same by bisection over the ρ at which a value meets a bound.

    Between two neighbours of them the sides do not change. Cost: a sort of 2d fractions, and
    log₂ 2d passes.
    """
    edges = _edges(problem)
    low = 0
    high = len(edges)
    while low < high:
        middle = (low + high) // 2
        if _reaches_total(problem, edges[middle]):
            high = middle
        else:
            low = middle + 1
    # Without bounds ρ = 0 has the sides of all others.
    inner = _between(problem, edges, low) if edges else Fraction(0)
    for candidate in (inner, *edges[max(low - 1, 0) : low + 1]):
        at = _as_parameter(candidate)
        sides = problem.sides(at)
        exact = _parameter(problem, sides)
        if exact is None:
            # No value is free: every ρ at which these are the sides will do.
            if problem.total == problem.bound_sum(sides) and not sides.free.any():
                return at, sides
            continue
        if problem.is_inside(exact) and problem.sides(exact).equals(sides):
            return exact, sides
    return _NONE_HAS_TOTAL


def _edges(problem: Program) -> list[Fraction]:
    """Return the ρ at which values meet their bounds and the variance is positive, sorted."""
    d = len(problem.target)
    ones = np.ones(d, dtype=object)
    weights = ones if problem.weights is None else problem.weights
    spread = np.broadcast_to(np.asarray(problem.spread, dtype=object), (d,))
    edges = set()
    for has_bound, bounds in (
        (problem.has_lower, problem.lower),
        (problem.has_upper, problem.upper),
    ):
        steps = (bounds - problem.target) * weights
        divisors = spread + bounds * weights * problem.growth
        for step, divisor in zip(steps[has_bound], divisors[has_bound], strict=True):
            # A bound where the variance is not positive is never met.
            if divisor > 0:
                edges.add(Fraction(step, divisor))
    return sorted(edges)


def _between(problem: Program, edges: list[Fraction], index: int) -> Fraction:
    """Return a ρ between two neighbouring edges, or beyond the first or the last."""
    if 0 < index < len(edges):
        return (edges[index - 1] + edges[index]) / 2
    nearest = edges[0] if index == 0 else edges[-1]
    beyond = nearest - 1 if index == 0 else nearest + 1
    growth = problem.growth
    # The variance vanishes at 1/b, on one side.
    if growth and growth * beyond >= 1:
        return (nearest + Fraction(1, growth)) / 2
    return beyond


def _reaches_total(problem: Program, candidate: Fraction) -> bool:
    """Return whether the values at ρ sum to at least the total."""
    at = _as_parameter(candidate)
    sides = problem.sides(at)
    assert problem.total is not None
    rest = problem.total - problem.bound_sum(sides)
    free = sides.free
    if problem.weights is None:
        values, divisor = problem.scaled(at)
        return bool(int(values[free].sum()) >= rest * divisor)
    # Each weight has a denominator of its own: f̃ is added apart from ρ/w.
    inverse, common = _sum_of_inverses(problem.weights[free].tolist())
    moved = int(problem.target[free].sum()) - rest
    return moved * at.denominator * common + at.numerator * inverse >= 0


def _as_parameter(value: Fraction) -> Parameter:
    return Parameter(value.numerator, value.denominator, (0, 1))


def exact(
    formulation: Formulation, start: FrequencyEstimate, point: Array, region: Region
) -> Exact:
    """Return gap, distance and minimiser of one vector in exact arithmetic.

    Cost: about 20 passes over d Python integers; with weights the sum of their inverses besides, a
    number that has as many digits as all different weights together. Where these are too many, gap
    and distance are upper bounds, and 20 more passes.
    """
    problem = program(formulation, start, point, region)
    if isinstance(problem, str):
        return Exact(np.inf, np.inf, np.inf, float(formulation.violation(point)), None, problem)
    violation = rounded_up(_violation(problem), 1 << problem.e)
    is_enclosed = problem.total is not None and _bits(problem) > _LARGEST
    proof = _enclosed(problem) if is_enclosed else _solved(problem)
    if isinstance(proof, str):
        return Exact(np.inf, np.inf, np.inf, violation, None, proof)
    gap, distance, minimiser, reason = proof
    size = float(np.max(np.abs(point if minimiser is None else minimiser)))
    return Exact(
        np.inf if gap is None else gap,
        rounded_up(*distance),
        in_last_places(*distance, size),
        violation,
        minimiser,
        reason,
    )


class _Proof(NamedTuple):
    """What is proved; the gap is None outside the domain of the loss."""

    gap: float | None
    distance: tuple[int, int]
    minimiser: Array | None
    reason: str


def _solved(problem: Program) -> _Proof | str:
    """Return what the exact ρ proves."""
    answer = solved(problem)
    if isinstance(answer, str):
        return answer
    parameter, sides = answer
    placed = _placed if problem.weights is None else _placed_by_weight
    minimiser, distance = placed(problem, parameter, sides)
    rise = _gaussian_rise if problem.is_gaussian else _squares_rise
    gap = rise(problem, parameter, sides)
    reason = "" if gap is not None else "the loss is infinite at the point"
    return _Proof(gap, distance, minimiser, reason)


def _enclosed(problem: Program) -> _Proof | str:
    """Return what two numbers below and above ρ prove, of squares with weights and a total.

    Weak duality holds for every ρ: L(f*) >= Σ min ½ w (x - f̃)² - ρ x + ρ total, which is flat at
    the right one, so that one that is off by 2^-256 gives up the square of this. The values rise
    with ρ, so that each value of the minimiser is between those at the two numbers.
    """
    weights = problem.weights
    assert weights is not None
    assert problem.total is not None
    bits = _ENCLOSING + _width(weights)
    near = _near_parameter(problem, bits)
    # Two sums are off by up to a last place per value. This much moves a value that is free, and so
    # the sum, by more than both.
    margin = 4 * len(weights) * int(max(weights))
    ends = [near - margin, near + margin]
    if _sum_at(problem, ends[0], bits)[1] > problem.total << bits:
        return _NONE_HAS_TOTAL
    if _sum_at(problem, ends[1], bits)[0] < problem.total << bits:
        return _NONE_HAS_TOTAL
    sides = problem.sides(Parameter(near, 1 << bits, (0, 1)))
    gap = _squares_rise(problem, _with_energy(problem, near, sides, bits), sides)
    lows, _ = _values_at(problem, ends[0], bits)
    _, highs = _values_at(problem, ends[1], bits)
    unit = 1 << (bits + problem.e)
    minimiser = [nearest_double(low, unit) for low in lows.tolist()]
    others = [nearest_double(high, unit) for high in highs.tolist()]
    here = problem.point << bits
    distance = max(int(np.max(highs - here)), int(np.max(here - lows)))
    if minimiser != others:
        return _Proof(
            gap, (distance, unit), None, "a value of the minimiser is between two doubles"
        )
    return _Proof(gap, (distance, unit), np.array(minimiser), "")


def _width(weights: Integers) -> int:
    """Return how many bits the largest weight has."""
    return int(np.max(weights)).bit_length()


def _near_parameter(problem: Program, bits: int) -> int:
    """Return ρ times 2^bits, rounded, by bisection over where values meet bounds and one step."""
    weights = problem.weights
    assert weights is not None
    assert problem.total is not None
    goal = problem.total << bits
    steps = [
        ((bounds - problem.target) * weights)[has_bound]
        for has_bound, bounds in (
            (problem.has_lower, problem.lower),
            (problem.has_upper, problem.upper),
        )
    ]
    edges = sorted(set(np.concatenate(steps).tolist()))
    low = 0
    high = len(edges)
    while low < high:
        middle = (low + high) // 2
        if _sum_at(problem, edges[middle] << bits, bits)[0] >= goal:
            high = middle
        else:
            low = middle + 1
    # Between two edges the sum is linear, and before the first and behind the last one too.
    first = edges[low - 1] if low else None
    last = edges[low] if low < len(edges) else None
    if first is None or last is None:
        nearest = last if first is None else first
        inner = 0 if nearest is None else nearest + (1 if last is None else -1)
        inner <<= bits
    else:
        inner = (first + last) << (bits - 1)
    free = problem.sides(Parameter(inner, 1 << bits, (0, 1))).free
    missing = goal - _sum_at(problem, inner, bits)[0]
    # So many digits that what they leave out of ρ is below its own last place.
    digits = 2 * _width(weights) + abs(missing).bit_length() + len(weights).bit_length()
    slope = int(np.sum(np.floor_divide(1 << digits, weights[free])))
    if not slope:
        # No value is free: any ρ between the edges has the same sum.
        return inner
    return inner + (missing << digits) // slope


def _values_at(problem: Program, parameter: int, bits: int) -> tuple[Integers, Integers]:
    """Return the values at ρ times 2^-bits in units of 2^-bits, rounded down and up."""
    assert problem.weights is not None
    sides = problem.sides(Parameter(parameter, 1 << bits, (0, 1)))
    bounds = problem.bounds(sides) << bits
    target = problem.target << bits
    low = target + np.floor_divide(parameter, problem.weights)
    high = target - np.floor_divide(-parameter, problem.weights)
    return np.where(sides.free, low, bounds), np.where(sides.free, high, bounds)


def _sum_at(problem: Program, parameter: int, bits: int) -> tuple[int, int]:
    """Return numbers below and above the sum of the values at ρ times 2^-bits."""
    low, high = _values_at(problem, parameter, bits)
    return int(low.sum()), int(high.sum())


def _with_energy(problem: Program, parameter: int, sides: Sides, bits: int) -> Parameter:
    """Return ρ with the energy 2 ρ m - ρ² Σ 1/w that it proves, rounded down, of the free values.

    m is what is missing of the total without ρ.
    """
    assert problem.weights is not None
    assert problem.total is not None
    free = sides.free
    missing = problem.total - problem.bound_sum(sides) - int(problem.target[free].sum())
    squares = -int(np.sum(np.floor_divide(-(parameter**2), problem.weights[free])))
    energy = (2 * parameter * missing << bits) - squares
    return Parameter(parameter, 1 << bits, (energy, 1 << 2 * bits))


def _violation(problem: Program) -> int:
    """Return by how much the point leaves the set, 0 inside."""
    low = np.where(problem.has_lower, problem.lower - problem.point, 0)
    high = np.where(problem.has_upper, problem.point - problem.upper, 0)
    excess = 0 if problem.total is None else abs(int(problem.point.sum()) - problem.total)
    return max(0, int(np.max(low)), int(np.max(high)), excess)


def _placed(problem: Program, parameter: Parameter, sides: Sides) -> tuple[Array, tuple[int, int]]:
    """Return the minimiser rounded, and the distance of the point from it as a quotient."""
    values, divisor = problem.scaled(parameter)
    # Values at a bound are that bound, whatever ρ is.
    values = np.where(sides.free, values, problem.bounds(sides) * divisor)
    denominator = divisor << problem.e
    minimiser = np.array([nearest_double(value, denominator) for value in values.tolist()])
    return minimiser, (int(np.max(np.abs(problem.point * divisor - values))), denominator)


def _placed_by_weight(
    problem: Program, parameter: Parameter, sides: Sides
) -> tuple[Array, tuple[int, int]]:
    """Return the same for f̃ + ρ/w, where ρ has as many digits as all weights together.

    ρ to some bits settles nearly everything; only the others take all its digits.
    """
    weights = problem.weights
    assert weights is not None
    top = parameter.numerator
    bottom = parameter.denominator
    low, remainder = divmod(top << _FINE, bottom)
    high = low + bool(remainder)
    unit = 1 << problem.e
    bounds = problem.bounds(sides)
    minimiser = np.array([nearest_double(bound, unit) for bound in bounds.tolist()])
    held = np.abs(problem.point - bounds)[~sides.free]
    farthest = (int(np.max(held, initial=0)), unit)
    reaches = []
    for v in np.flatnonzero(sides.free).tolist():
        weight = weights[v]
        start = problem.target[v] * weight
        divisor = weight << (_FINE + problem.e)
        value = nearest_double((start << _FINE) + low, divisor)
        if value != nearest_double((start << _FINE) + high, divisor):
            value = nearest_double(start * bottom + top, (weight * bottom) << problem.e)
        minimiser[v] = value
        # The distance is |step - ρ|/w.
        step = problem.point[v] * weight - start
        ends = abs((step << _FINE) - low), abs((step << _FINE) - high)
        reaches.append((max(min(ends) - 1, 0) // weight, max(ends) // weight + 1, step, weight))
    nearest = max((reach[0] for reach in reaches), default=0)
    for _, furthest, step, weight in reaches:
        # Others cannot be the largest.
        if furthest >= nearest:
            distance = abs(step * bottom - top), (weight * bottom) << problem.e
            if distance[0] * farthest[1] > farthest[0] * distance[1]:
                farthest = distance
    return minimiser, farthest


def _squares_rise(problem: Program, parameter: Parameter, sides: Sides) -> float:
    """Return ½ Σ w (x - f̃)² - ½ Σ w (f* - f̃)², exact and then rounded up, at least 0."""
    terms = (problem.point - problem.target) ** 2
    at_bounds = ~sides.free
    bounds = problem.bounds(sides)
    terms -= np.where(at_bounds, (bounds - problem.target) ** 2, 0)
    if problem.weights is not None:
        terms *= problem.weights
    top, bottom = parameter.energy
    rise = int(terms.sum()) * bottom - top
    return max(rounded_up(rise, bottom << problem.scale), 0.0)


def _gaussian_rise(problem: Program, parameter: Parameter, sides: Sides) -> float | None:
    """Return the rise of Σ (x - f̃)²/(a + b x), rounded up, at least 0; None outside the domain."""
    variances = problem.spread + problem.growth * problem.point
    if np.min(variances) <= 0:
        return None
    at_bounds = ~sides.free
    bounds = problem.bounds(sides)[at_bounds]
    spread = problem.spread[at_bounds] if np.ndim(problem.spread) else problem.spread
    bound_variances = spread + problem.growth * bounds
    # Quotients with different denominators are added as multiples of 2^-digits: those of the point
    # rounded up, those of the minimiser down.
    digits = int(np.max(variances)).bit_length() + _GUARD
    squares = (problem.point - problem.target) ** 2
    here = -np.sum(np.floor_divide(np.left_shift(-squares, digits), variances))
    squares = (bounds - problem.target[at_bounds]) ** 2
    there = np.sum(np.floor_divide(np.left_shift(squares, digits), bound_variances))
    top, bottom = parameter.energy
    rise = int(here - there) * bottom - (top << digits)
    divisor = bottom << digits
    # The scale of the loss may be of either sign.
    if problem.scale < 0:
        return max(rounded_up(rise << -problem.scale, divisor), 0.0)
    return max(rounded_up(rise, divisor << problem.scale), 0.0)
