"""Rigorous gaps of absolute deviations: weak duality of a linear program, in fractions.

A vector with a smaller loss Σ w |s - f̃| than L(f) has |s_v - f̃_v| <= L(f)/w_v, so that only these
have to be excluded, and each min |x - f̃_v| w_v - c x is that of at most three numbers x.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import minorant
from ldpopt.solve.certificate.box import box
from ldpopt.solve.certificate.exact import duality
from ldpopt.solve.certificate.exact.half_spaces import Rows, Vector, violation_of
from ldpopt.solve.certificate.exact.rationals import rounded_up
from ldpopt.solve.certificate.exact.result import Exact
from ldpopt.solve.certificate.exact.rows import (
    CONTRADICTION,
    are_contradictory,
    bounds_of,
    rows_of,
)
from ldpopt.solve.certificate.polyhedra.polyhedron import LONG_FOR_PROGRAMS
from ldpopt.solve.certificate.polyhedra.row_programs import by_linear_program
from ldpopt.solve.certificate.polyhedra.rows import RowsOfTrials
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]

# Where no weights are, the best multipliers of most rows are whole numbers or simple fractions:
# multiples of this, without the rounding of what computes them.
_UNIT = 2.0**-20

_SEVERAL = "absolute deviations may have several minimisers: no distance from one is proved"


class _Term(NamedTuple):
    """w |x - target| for lower <= x <= upper."""

    weight: Fraction
    target: Fraction
    lower: Fraction
    upper: Fraction

    def smallest(self, slope: Fraction) -> Fraction:
        """Return the minimum of the term minus slope times x."""
        # The term is linear on both sides of its target.
        inner = min(max(self.target, self.lower), self.upper)
        return min(
            self.weight * abs(x - self.target) - slope * x for x in (self.lower, inner, self.upper)
        )


def exact(
    formulation: Formulation, start: FrequencyEstimate, point: Array, region: Region
) -> Exact:
    """Return the rigorous gap of one vector on a polyhedron.

    Cost: about 0.2 ms per value, and beside rows a linear program; of a point outside the set
    some exact steps to it besides, a few seconds for 64 values.
    """
    d = len(point)
    loss: Any = formulation.loss
    system = rows_of(formulation, region, d)
    assert system is not None
    bounds = bounds_of(region)
    here = [Fraction(value) for value in point.tolist()]
    target = [Fraction(value) for value in loss.target(start).tolist()]
    given = np.ones(d) if loss.weights is None else loss.weights
    weights = [Fraction(value) for value in given.tolist()]
    parts = zip(weights, here, target, strict=True)
    value = sum((weight * abs(x - y) for weight, x, y in parts), Fraction(0))
    violation = rounded_up(*violation_of(here, system, bounds).as_integer_ratio())
    # A vector of the set shows by itself that there is one.
    if violation > 0 and _is_empty(region, here, system, bounds):
        return Exact(np.inf, np.inf, np.inf, violation, None, CONTRADICTION)
    terms = []
    for v, (weight, place) in enumerate(zip(weights, target, strict=True)):
        # Rounded outward: quotients by different weights would have no short sum.
        low = -_above(value / weight - place)
        high = _above(value / weight + place)
        lower = bounds.lower[v]
        upper = bounds.upper[v]
        low = low if lower is None else max(low, lower)
        high = high if upper is None else min(high, upper)
        if low > high:
            # The point is outside: no vector of the set has a loss as small as its own.
            return Exact(0.0, np.inf, np.inf, violation, None, _SEVERAL)
        terms.append(_Term(weight, place, low, high))
    proved = [
        duality.lower_bound(prices, system, lambda v, slope: terms[v].smallest(slope))
        for prices in _candidates(formulation, start, point, region, weights)
    ]
    bound = max((number for number in proved if number is not None), default=None)
    if bound is None:
        reason = "no multipliers of the rows are known that prove a gap"
        return Exact(np.inf, np.inf, np.inf, violation, None, reason)
    gap = max(rounded_up(*(value - bound).as_integer_ratio()), 0.0)
    return Exact(gap, np.inf, np.inf, violation, None, _SEVERAL)


def _is_empty(region: Region, here: Vector, system: Rows, bounds: Rows) -> bool:
    """Return whether no vector satisfies the constraints, however nearly one does."""
    if not region.is_box:
        return are_contradictory(here, system, bounds)
    total = region.total
    return total is not None and not (
        _reaches(bounds.lower, -1, total) and _reaches(bounds.upper, 1, total)
    )


def _reaches(ends: list[Fraction | None], side: int, total: float) -> bool:
    """Return whether values within the lower (-1) or upper (1) bounds can be as far as a total."""
    finite = [end for end in ends if end is not None]
    return len(finite) < len(ends) or side * (sum(finite) - Fraction(total)) >= 0


def _by_program(
    formulation: Formulation, start: FrequencyEstimate, target: Array, region: Region
) -> Array | None:
    """Return the multipliers of the linear program; those of the certificate explain slopes.

    It has the bounds that are stated, no bounds that follow from rows: what these bounds take of
    the slopes would be missing in the multipliers of the rows. The point may be far away; the
    targets have the size of the frequencies.
    """
    d = len(target)
    if d >= LONG_FOR_PROGRAMS:
        return None
    system = RowsOfTrials(formulation, d).of(formulation.loss, start).system
    lower = np.broadcast_to(region.lower, d)
    upper = np.broadcast_to(region.upper, d)
    further = np.full(system.matrix.shape[1] - d, np.inf)
    tangent = minorant(formulation.loss, start, target, lower, upper)
    limits = Box(np.append(lower, -further), np.append(upper, further))
    return by_linear_program(tangent, system, limits)


def _above(number: Fraction) -> Fraction:
    """Return the double above a fraction, or the fraction beyond all doubles."""
    above = rounded_up(*number.as_integer_ratio())
    return Fraction(above) if np.isfinite(above) else number


def _candidates(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    region: Region,
    weights: Vector,
) -> list[Array]:
    """Return multipliers of the rows: those of the certificate, and exact ones near them."""
    if not region.is_box:
        suggested = [duality.suggested(formulation, start, point)]
        loss: Any = formulation.loss
        by_program = _by_program(formulation, start, loss.target(start), region)
        if by_program is not None:
            suggested.append(by_program)
        # Without multipliers the gap is at most the loss, where weights of 1e±12 spoil all others.
        suggested.append(np.zeros_like(suggested[0]))
        return [*suggested, *(np.round(prices / _UNIT) * _UNIT for prices in suggested)]
    if region.total is None:
        return [np.empty(0)]
    price = -float(box.bound(formulation, start, point).mu)
    if not np.isfinite(price):
        price = 0.0
    # What is proved is largest where the slope of some value is a weight.
    sizes = np.array([float(weight) for weight in weights])
    nearest = sizes[np.argmin(np.abs(sizes - abs(price)))]
    return [np.array([price]), np.array([np.copysign(nearest, price)])]
