"""Rigorous gaps of losses with kinks, and of their sums with squares: weak duality in fractions.

Whatever multipliers of the rows are tried, what they prove holds; those of a linear program that
has the slope of the squares at the point are best at the minimiser. A vector with a smaller loss
than the point's own L(f) has w |s_v - y_v| <= L(f) for each absolute deviation, so that only these
have to be excluded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import LinearInequalities
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.box import box
from ldpopt.solve.certificate.exact import duality
from ldpopt.solve.certificate.exact.half_spaces import Rows, Vector, product, violation_of
from ldpopt.solve.certificate.exact.limits import Limits, limits_of
from ldpopt.solve.certificate.exact.rationals import in_last_places, nearest_double, rounded_up
from ldpopt.solve.certificate.exact.result import Exact
from ldpopt.solve.certificate.exact.rows import (
    CONTRADICTION,
    bounds_of,
    nearest_vector,
    rows_of,
)
from ldpopt.solve.certificate.exact.terms import Statement, clipped, stated
from ldpopt.solve.certificate.polyhedra.polyhedron import LONG_FOR_PROGRAMS
from ldpopt.solve.formulation import Formulation, Region
from ldpopt.solve.programs.program import LinearProgram, quadratic_multipliers
from ldpopt.solve.programs.units import frequency_unit

Array = NDArray[np.float64]

# The best multipliers of absolute deviations without weights are mostly whole numbers or simple
# fractions: multiples of this, without the rounding of what computes them.
_UNIT = 2.0**-20

# Up to so many values a price of the total alone is sought by programs too, in about a second.
_LONG_FOR_PRICES = 1 << 12

# Steps of least squares towards multipliers that explain the slopes.
_STEPS = 1_000

# Bits of the root of a gap.
_ROOT = 128

_SEVERAL = "absolute deviations may have several minimisers: no distance from one is proved"
_BELOW_ALL = "the point is outside the set, and no vector of the set has a loss as small as its own"
_NOT_NEAR = "no vector of the set is known that is near enough for a distance"
_NO_MINIMISER = "beside absolute deviations gap and distance are bounds, and no minimiser is known"


def exact(
    formulation: Formulation, start: FrequencyEstimate, point: Array, region: Region
) -> Exact:
    """Return the rigorous gap of one vector on a polyhedron, and with squares the distance.

    Cost: about 0.2 ms per value, and with rows or shared kinks two programs. A point outside the
    set is first moved into it by exact steps, which takes a few seconds for 64 values.
    """
    d = len(point)
    loss = stated(formulation.loss, start)
    system = rows_of(formulation, region, d)
    assert loss is not None
    assert system is not None
    bounds = bounds_of(region)
    here = [Fraction(value) for value in point.tolist()]
    violation = rounded_up(*violation_of(here, system, bounds).as_integer_ratio())
    # A vector of the set shows by itself that there is one.
    if violation > 0 and _is_empty(region, here, system, bounds):
        return Exact(np.inf, np.inf, np.inf, violation, None, CONTRADICTION)
    value = loss.value(here)
    joined = _joined(system, loss)
    limits = limits_of(loss, value, bounds, joined)
    if limits is None:
        return Exact(0.0, np.inf, np.inf, violation, None, _BELOW_ALL)

    candidates = list(_candidates(formulation, start, point, region, loss, system, joined))
    bound = _largest_bound(candidates, joined, loss, limits)
    if bound is None:
        reason = "no multipliers of the rows are known that prove a gap"
        return Exact(np.inf, np.inf, np.inf, violation, None, reason)
    gap = max(rounded_up(*(value - bound).as_integer_ratio()), 0.0)
    if not loss.is_strongly_convex:
        return Exact(gap, np.inf, np.inf, violation, None, _SEVERAL)
    inside = _inside(here, region, system, bounds)
    if inside is None:
        return Exact(gap, np.inf, np.inf, violation, None, _NOT_NEAR)
    level = loss.value(inside)
    if level > value:
        # The minimiser may have a larger loss than a point outside the set, and be beyond its
        # limits.
        wider = limits_of(loss, level, bounds, joined)
        assert wider is not None
        bound = _largest_bound(candidates, joined, loss, wider)
        assert bound is not None
    distance = _distance(loss, here, inside, bound)
    # The largest |f*_v| is not known: it is at least this.
    largest = max(max(map(abs, here)) - distance, Fraction(0))
    size = -rounded_up(*(-largest).as_integer_ratio())
    ratio = distance.as_integer_ratio()
    last_places = in_last_places(*ratio, size)
    return Exact(gap, rounded_up(*ratio), last_places, violation, None, _NO_MINIMISER)


def _largest_bound(
    candidates: list[Array],
    joined: Rows,
    loss: Statement,
    limits: Limits,
) -> Fraction | None:
    """Return the largest minimum within limits that any of the multipliers proves."""
    costs = [Fraction(0)] * (joined.columns - joined.d - len(loss.costs)) + loss.costs

    def smallest(v: int, slope: Fraction) -> Fraction | None:
        return loss.terms[v].smallest(slope, *limits[v])

    proved = [duality.lower_bound(prices, joined, smallest, costs) for prices in candidates]
    return max((bound for bound in proved if bound is not None), default=None)


def _is_empty(region: Region, here: Vector, system: Rows, bounds: Rows) -> bool:
    """Return whether no vector satisfies the constraints, however nearly one does."""
    if not region.is_box:
        return nearest_vector(here, system, bounds) == CONTRADICTION
    total = region.total
    return total is not None and not (
        _reaches(bounds.lower, -1, total) and _reaches(bounds.upper, 1, total)
    )


def _reaches(ends: list[Fraction | None], side: int, total: float) -> bool:
    """Return whether values within the lower (-1) or upper (1) bounds can be as far as a total."""
    finite = [end for end in ends if end is not None]
    return len(finite) < len(ends) or side * (sum(finite) - Fraction(total)) >= 0


def _joined(system: Rows, loss: Statement) -> Rows:
    """Return the rows of the set and those of the loss, whose variables are the last columns."""
    shared = loss.shared
    moved = system.columns - system.d
    of_loss = [
        {v if v < system.d else v + moved: entry for v, entry in row.items()}
        for row in shared.matrix
    ]
    return Rows(
        system.matrix + of_loss,
        system.lower + shared.lower,
        system.upper + shared.upper,
        system.d,
        shared.columns + moved,
    )


def _candidates(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    region: Region,
    loss: Statement,
    system: Rows,
    joined: Rows,
) -> Iterator[Array]:
    """Yield multipliers of the rows: those of the certificate, of programs, and ones near them."""
    neutral = np.array(_doubles(loss.neutral))
    is_box = region.is_box and not loss.costs
    if is_box and region.total is None:
        yield neutral
        return
    if is_box:
        price = -float(box.bound(formulation, start, point).mu)
        price = price if np.isfinite(price) else 0.0
        yield np.array([price])
        # What is proved of kinks alone is largest where the slope of some value is a weight.
        weights = _doubles([kink.weight for term in loss.terms for kink in term.kinks])
        nearest = min(weights, key=lambda weight: abs(weight - abs(price)), default=0.0)
        yield np.array([np.copysign(nearest, price)])
        if len(point) > _LONG_FOR_PRICES:
            return
    # Mostly both are one unit. An estimate may be tiny beside all vectors of the set, and the point
    # be far away.
    units = {frequency_unit(start.frequencies), frequency_unit(point)}
    suggested = [
        prices for unit in sorted(units) for prices in _programs(loss, joined, region, point, unit)
    ]
    if not (is_box or loss.costs):
        suggested.append(duality.suggested(formulation, start, point))
    # Without multipliers the gap is at most the loss, where weights of 1e±12 spoil all others.
    suggested.append(np.append(np.zeros(len(system.matrix)), neutral))
    for prices in suggested:
        yield prices
        yield np.round(prices / _UNIT) * _UNIT
        yield _refined(prices, loss, joined, region, point)


def _refined(prices: Array, loss: Statement, joined: Rows, region: Region, point: Array) -> Array:
    """Return multipliers moved so little that they explain the slopes at the point to rounding.

    Only rows that have multipliers, or hold with equality, get others. Values at a bound or a kink
    have no single slope.
    """
    from scipy.sparse import linalg

    d = joined.d
    kinks = np.zeros(d)
    is_open = (point > region.lower) & (point < region.upper)
    for v, (term, x) in enumerate(zip(loss.terms, point.tolist(), strict=True)):
        for kink in term.kinks:
            place = float(kink.place)
            kinks[v] += nearest_double(*kink.weight.as_integer_ratio()) * np.sign(x - place)
            is_open[v] &= x != place
    slopes = np.append(_slopes(loss, point) + kinks, _costs(loss, joined))
    columns = np.append(is_open, np.ones(joined.columns - d, dtype=bool))
    rows = np.flatnonzero((prices != 0) | _hold(joined, [Fraction(x) for x in point.tolist()]))
    matrix = _as_program(joined, [], 1.0).matrix
    left = (slopes - matrix.T @ prices)[columns]
    step = linalg.lsqr(matrix[rows][:, columns].T, left, atol=0.0, btol=0.0, iter_lim=_STEPS)[0]
    result = prices.copy()
    result[rows] += step
    return result


def _hold(joined: Rows, f: Vector) -> NDArray[np.bool_]:
    """Return which rows are at a bound, with the auxiliary variables that fit f best."""
    assert joined.projection is not None
    x = joined.projection.extended(f)
    heights = [product(row, x) for row in joined.matrix]
    ends = zip(heights, joined.lower, joined.upper, strict=True)
    return np.array([height in (low, high) for height, low, high in ends], dtype=bool)


def _slopes(loss: Statement, point: Array) -> Array:
    """Return the slopes of the squares."""
    slopes = [
        2 * (term.square * Fraction(x) - term.linear)
        for term, x in zip(loss.terms, point.tolist(), strict=True)
    ]
    return np.array(_doubles(slopes))


def _doubles(numbers: Vector) -> list[float]:
    """Return the nearest doubles, infinite where they reach no further."""
    return [nearest_double(*number.as_integer_ratio()) for number in numbers]


def _costs(loss: Statement, joined: Rows) -> Array:
    """Return what each auxiliary variable costs: those of the set nothing."""
    costs = np.zeros(joined.columns - joined.d)
    costs[len(costs) - len(loss.costs) :] = _doubles(loss.costs)
    return costs


def _programs(
    loss: Statement, joined: Rows, region: Region, point: Array, unit: float
) -> list[Array]:
    """Return the multipliers of the program of tangents, and of that with the squares.

    The programs have the bounds that are stated, no bounds that follow from rows: what these take
    of the slopes would be missing in the multipliers of the rows. Frequencies count in the unit.
    """
    d = joined.d
    if d >= LONG_FOR_PROGRAMS:
        return []
    kinks = [(v, kink) for v, term in enumerate(loss.terms) for kink in term.kinks]
    rows = _as_program(joined, kinks, unit)
    columns = rows.matrix.shape[1]
    lower = np.broadcast_to(region.lower, d) / unit
    upper = np.broadcast_to(region.upper, d) / unit
    squares = np.array(_doubles([term.square for term in loss.terms]))
    costs = np.append(_costs(loss, joined), _doubles([kink.weight for _, kink in kinks]))
    slopes = _slopes(loss, point)
    at_zero = _slopes(loss, np.zeros(d))
    # Products beyond all doubles say nothing to a solver.
    if not all(np.isfinite(part).all() for part in (squares, costs, slopes, at_zero)):
        return []
    result = []
    ranges: list[tuple[float | None, float | None]] = [
        (low if np.isfinite(low) else None, high if np.isfinite(high) else None)
        for low, high in zip(lower.tolist(), upper.tolist(), strict=True)
    ]
    ranges += [(None, None)] * (columns - d)
    solution = LinearProgram(rows, ranges).minimise(np.append(slopes, costs))
    if solution.status == "optimal":
        result.append(solution.multipliers[: len(joined.matrix)])
    if not squares.any():
        return result
    # In units of the largest square: the solver's tolerances are absolute.
    size = unit * float(squares.max())
    curvature = np.append(2 * squares * unit / size, np.zeros(columns - d))
    cost = np.append(at_zero, costs) / size
    prices = quadratic_multipliers(_with_bounds(rows, lower, upper), cost, curvature)
    if prices is not None:
        result.append(prices[: len(joined.matrix)] * size)
    return result


def _as_program(joined: Rows, kinks: list[Any], unit: float) -> LinearInequalities:
    """Return rows in doubles that count frequencies in a unit, with t >= ±(f_v - place) of kinks.

    All auxiliary variables count in the unit too.
    """
    from scipy import sparse

    entries = [(i, v, float(x)) for i, row in enumerate(joined.matrix) for v, x in row.items()]
    lower = [-np.inf if end is None else float(end) for end in joined.lower]
    upper = [np.inf if end is None else float(end) for end in joined.upper]
    for j, (v, kink) in enumerate(kinks, start=joined.columns):
        for sign in (1.0, -1.0):
            entries += [(len(lower), v, sign), (len(lower), j, 1.0)]
            lower.append(sign * float(kink.place))
            upper.append(np.inf)
    shape = (len(lower), joined.columns + len(kinks))
    places, columns, numbers = zip(*entries, strict=True) if entries else ((), (), ())
    matrix = sparse.csr_array((numbers, (places, columns)), shape=shape)
    return LinearInequalities(matrix, np.array(lower) / unit, np.array(upper) / unit)


def _with_bounds(rows: LinearInequalities, lower: Array, upper: Array) -> LinearInequalities:
    """Return rows with the bounds of the first variables as further rows."""
    from scipy import sparse

    eye = sparse.eye_array(len(lower), rows.matrix.shape[1], format="csr")
    matrix: Any = sparse.vstack([rows.matrix, eye], format="csr")
    lows = np.append(rows.lower, lower)
    return LinearInequalities(matrix, lows, np.append(rows.upper, upper))


def _inside(here: Vector, region: Region, system: Rows, bounds: Rows) -> Vector | None:
    """Return a vector of the set near another one; None where that is not known."""
    if not region.is_box:
        nearest = nearest_vector(here, system, bounds)
        return None if isinstance(nearest, str) else nearest
    ends = zip(here, bounds.lower, bounds.upper, strict=True)
    result = [clipped(x, low, high) for x, low, high in ends]
    if region.total is None:
        return result
    missing = Fraction(region.total) - sum(result)
    for v, (x, low, high) in enumerate(zip(result, bounds.lower, bounds.upper, strict=True)):
        result[v] = clipped(x + missing, low, high)
        missing -= result[v] - x
    return None if missing else result


def _distance(loss: Statement, here: Vector, inside: Vector, bound: Fraction) -> Fraction:
    """Return how far the point is at most from the minimiser f*.

    For s in the set L(s) - L(f*) >= Σ square (s - f*)²: the point itself is inside, or a vector
    near it.
    """
    moved = max(abs(x - s) for x, s in zip(here, inside, strict=True))
    rise = max(loss.value(inside) - bound, Fraction(0))
    smallest_square = min(term.square for term in loss.terms)
    return moved + _root_above(rise / smallest_square)


def _root_above(number: Fraction) -> Fraction:
    """Return a fraction that is at least a square root, to some bits."""
    if number == 0:
        return number
    # So many bits that the root has as many of its own, however small it is.
    digits = max(number.denominator.bit_length() - number.numerator.bit_length(), 0) // 2 + _ROOT
    scaled = (number.numerator << (2 * digits)) // number.denominator
    return Fraction(math.isqrt(scaled) + 1, 1 << digits)
