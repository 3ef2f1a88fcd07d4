"""ρ of ``box_program`` as a quotient of integers.

The sides of the bounds settle in two or three rounds where the point is near the minimiser. A
search over the ρ at which values meet their bounds always ends.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldpopt.solve.certificate.exact.box_program import NONE_HAS_TOTAL, Parameter, Program, Sides

# Elsewhere than near the minimiser the search takes over.
_ROUNDS = 12


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
    return NONE_HAS_TOTAL


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
