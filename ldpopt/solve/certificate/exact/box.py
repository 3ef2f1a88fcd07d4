"""Gap, distance and minimiser of a vector on a box with at most one total, in integers.

The form of the minimiser, in one number ρ, is that of ``box_program``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.exact import enclosed_price, exact_price
from ldpopt.solve.certificate.exact.box_program import (
    NONE_HAS_TOTAL,
    Parameter,
    Program,
    Sides,
    program,
)
from ldpopt.solve.certificate.exact.rationals import in_last_places, nearest_double, rounded_up
from ldpopt.solve.certificate.exact.result import Exact
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]

# Bits of a quotient beyond its integer part where quotients with different denominators are added.
_GUARD = 64

# Bits of ρ beyond its integer part that decide nearly all roundings and comparisons of f̃ + ρ/w.
_FINE = 160

# Bits of the denominator of Σ 1/w: some 80,000 different weights, whose sum takes some seconds.
# With more ρ is enclosed.
_LARGEST = 2**22

# Bits of ρ and of Σ 1/w where these are enclosed, beyond those of the largest weight.
_ENCLOSING = 256


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
    answer = exact_price.solved(problem)
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
    bits = _ENCLOSING + enclosed_price.width(weights)
    near = enclosed_price.near_parameter(problem, bits)
    # Two sums are off by up to a last place per value. This much moves a value that is free, and so
    # the sum, by more than both.
    margin = 4 * len(weights) * int(max(weights))
    ends = [near - margin, near + margin]
    if enclosed_price.sum_at(problem, ends[0], bits)[1] > problem.total << bits:
        return NONE_HAS_TOTAL
    if enclosed_price.sum_at(problem, ends[1], bits)[0] < problem.total << bits:
        return NONE_HAS_TOTAL
    sides = problem.sides(Parameter(near, 1 << bits, (0, 1)))
    gap = _squares_rise(problem, enclosed_price.with_energy(problem, near, sides, bits), sides)
    lows, _ = enclosed_price.values_at(problem, ends[0], bits)
    _, highs = enclosed_price.values_at(problem, ends[1], bits)
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


def _bits(problem: Program) -> int:
    """Return how many bits the sum of 1/w has at most: those of all different w together."""
    if problem.weights is None:
        return 0
    different = set(problem.weights.tolist())
    return sum(int(weight).bit_length() for weight in different)


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
