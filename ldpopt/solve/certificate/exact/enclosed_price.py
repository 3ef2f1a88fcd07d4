"""ρ of ``box_program`` to some bits, where its quotient has too many: that of different weights.

The values at ρ are enclosed, and with them their sum, so that two numbers near each other are
proved to be below and above ρ.
"""

from __future__ import annotations

import numpy as np

from ldpopt.solve.certificate.exact.box_program import Parameter, Program, Sides
from ldpopt.solve.certificate.exact.rationals import Integers


def width(weights: Integers) -> int:
    """Return how many bits the largest weight has."""
    return int(np.max(weights)).bit_length()


def near_parameter(problem: Program, bits: int) -> int:
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
        if sum_at(problem, edges[middle] << bits, bits)[0] >= goal:
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
    missing = goal - sum_at(problem, inner, bits)[0]
    # So many digits that what they leave out of ρ is below its own last place.
    digits = 2 * width(weights) + abs(missing).bit_length() + len(weights).bit_length()
    slope = int(np.sum(np.floor_divide(1 << digits, weights[free])))
    if not slope:
        # No value is free: any ρ between the edges has the same sum.
        return inner
    return inner + (missing << digits) // slope


def values_at(problem: Program, parameter: int, bits: int) -> tuple[Integers, Integers]:
    """Return the values at ρ times 2^-bits in units of 2^-bits, rounded down and up."""
    assert problem.weights is not None
    sides = problem.sides(Parameter(parameter, 1 << bits, (0, 1)))
    bounds = problem.bounds(sides) << bits
    target = problem.target << bits
    low = target + np.floor_divide(parameter, problem.weights)
    high = target - np.floor_divide(-parameter, problem.weights)
    return np.where(sides.free, low, bounds), np.where(sides.free, high, bounds)


def sum_at(problem: Program, parameter: int, bits: int) -> tuple[int, int]:
    """Return numbers below and above the sum of the values at ρ times 2^-bits."""
    low, high = values_at(problem, parameter, bits)
    return int(low.sum()), int(high.sum())


def with_energy(problem: Program, parameter: int, sides: Sides, bits: int) -> Parameter:
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
