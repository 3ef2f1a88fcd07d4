"""Weak duality in fractions: what multipliers of rows prove of the minimum, whatever they are.

For y of the right signs whose slopes in all auxiliary variables are their costs, mostly 0, and
every f in the set,

    L(f) >= Σ_v min_x [ℓ_v(x) - (Aᵀy)_v x] + Σ_i y_i c_i

with the lower bound c_i of a row where y_i > 0, and the upper one where y_i < 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.exact.half_spaces import Rows, Vector
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

Smallest = Callable[[int, Fraction], Fraction | None]
"""From a value and a slope c to the minimum of ℓ_v(x) - c x; None if it has no minimum."""


def suggested(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Array:
    """Return the multipliers of all rows that the floating-point certificate takes, total first."""
    explanation = polyhedron.evidence(formulation, start, point).explain()
    multipliers = np.nan_to_num(explanation.row_multipliers)
    if formulation.region(len(point)).total is None:
        return multipliers
    # The Lagrangian of certificates has + μ (Σf - total).
    return np.append(-np.nan_to_num(explanation.sum_multiplier), multipliers)


def lower_bound(
    multipliers: Array, system: Rows, smallest: Smallest, costs: Vector
) -> Fraction | None:
    """Return what multipliers prove that the loss is at least; None where they prove nothing.

    There is one cost per auxiliary variable.
    """
    prices = _balanced(_signed(multipliers, system), system, costs)
    if prices is None:
        return None
    slopes = system.slopes(prices)
    result = Fraction(0)
    for v in range(system.d):
        lowest = smallest(v, slopes[v])
        if lowest is None:
            return None
        result += lowest
    for i, price in prices.items():
        bound = system.lower[i] if price > 0 else system.upper[i]
        assert bound is not None
        result += price * bound
    return result


def _signed(multipliers: Array, system: Rows) -> dict[int, Fraction]:
    """Return multipliers as fractions, without infinite ones and those of bounds not there."""
    return {
        i: Fraction(price)
        for i, price in enumerate(multipliers.tolist())
        if price
        and math.isfinite(price)
        and (system.lower if price > 0 else system.upper)[i] is not None
    }


def _balanced(
    prices: dict[int, Fraction], system: Rows, costs: Vector
) -> dict[int, Fraction] | None:
    """Return multipliers whose slopes in auxiliary variables are their costs, not only nearly.

    A slope above 0 is taken by the sum that bounds its variable, as a program does that knows
    bounds of auxiliary variables; what is left of slopes, by rows with no other auxiliary variable.
    None is returned where that leaves anything.
    """
    balanced = dict(prices)
    single: dict[int, list[int]] = {}
    sums = []
    for i in range(len(system.matrix)):
        further = system.auxiliary(i)
        if len(further) == 1:
            single.setdefault(further[0], []).append(i)
        elif further:
            sums.append(i)
    slopes = system.slopes(prices)
    for j, cost in enumerate(costs, start=system.d):
        slopes[j] -= cost
    for i in sums:
        row = {j: system.matrix[i][j] for j in system.auxiliary(i)}
        is_upper = system.upper[i] is not None
        excess = max(slopes[j] / abs(entry) for j, entry in row.items())
        if excess > 0:
            change = -excess if is_upper else excess
            balanced[i] = balanced.get(i, Fraction(0)) + change
            for j, entry in row.items():
                slopes[j] += change * entry

    def order(i: int) -> tuple[int, Fraction]:
        # Bounds of auxiliary variables alone move no slope of the values; and a row that has a
        # multiplier mostly holds with equality, where more of it costs nothing.
        return len(system.matrix[i]), -abs(balanced.get(i, Fraction(0)))

    for j in range(system.d, system.columns):
        left = slopes[j]
        for i in sorted(single.get(j, []), key=order):
            entry = system.matrix[i][j]
            before = balanced.get(i, Fraction(0))
            after = before - left / entry
            if after and (system.lower if after > 0 else system.upper)[i] is None:
                after = Fraction(0)
            balanced[i] = after
            left += (after - before) * entry
        if left:
            return None
    return {i: price for i, price in balanced.items() if price}
