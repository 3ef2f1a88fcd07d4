"""The exact minimiser of weighted squares on a polyhedron, in rational numbers.

If the active rows C f = c are known, f = f̃ + W⁻¹ Cᵀ y with C W⁻¹ Cᵀ y = c - C f̃ for the values that
are at no bound. Rows with auxiliary variables are added to each other so that these drop out. The
floating-point certificate suggests which rows are active, and of sums of absolute values the point;
whether the f of these rows is the minimiser is decided by the KKT conditions, in fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.exact import duality
from ldpopt.solve.certificate.exact.half_spaces import (
    Combined,
    HalfSpace,
    Rows,
    Vector,
    half_spaces,
    product,
    subtract,
    violation_of,
    without_auxiliary,
)
from ldpopt.solve.certificate.exact.rationals import in_last_places, nearest_double, rounded_up
from ldpopt.solve.certificate.exact.result import Exact
from ldpopt.solve.certificate.exact.terms import Statement, stated
from ldpopt.solve.certificate.polyhedra.rows import has_own_rows, rows_in_full
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]

# A multiplier below this part of the largest one does not suggest an active row at first.
_ROUNDING = 1e-9

# Rounds of repair. Points of solvers need a few; single changes need one per active row or value.
_ROUNDS = 200

# Full steps that look for a contradiction: seconds for 64 values, and enough for small sets.
_FEW = 24

# Largest number of active rows: elimination takes up to the cube of it in growing fractions.
_LARGEST = 600

CONTRADICTION = "the constraints contradict each other: no point has exactly their numbers"


class Point(NamedTuple):
    """A vector of the KKT system and its multipliers: of the rows and of the bounds.

    ``x`` are its values with the auxiliary variables that fit them best.
    """

    f: Vector
    x: Vector
    row_multipliers: dict[int, Fraction]
    bound_multipliers: Vector


Active = dict[int, int]
"""Which rows or values are held at a bound: -1 stands for the lower one, 1 for the upper one."""


def rows_of(formulation: Formulation, region: Region, d: int) -> Rows | None:
    """Return the total and all rows that are not bounds; None if a constraint is no polyhedron.

    Those of cvxpy are what it compiles. Rows with auxiliary variables count if for any f it is
    plain which values fit it best: see ``Rows.projection``.
    """
    matrix: list[dict[int, Fraction]] = []
    lower: list[float] = []
    upper: list[float] = []
    if region.total is not None:
        matrix.append(dict.fromkeys(range(d), Fraction(1)))
        lower.append(region.total)
        upper.append(region.total)
    columns = d
    for member in formulation.constraints:
        if not has_own_rows(member, d):
            continue
        stated = rows_in_full(member, d)
        if stated is None:
            return None
        stated_rows = _fractions_by_row(stated.matrix, 0)
        if stated.auxiliary is not None:
            further = _fractions_by_row(stated.auxiliary, columns)
            pairs = zip(stated_rows, further, strict=True)
            stated_rows = [{**row, **more} for row, more in pairs]
            columns += stated.auxiliary.shape[1]
        matrix += stated_rows
        lower += stated.lower.tolist()
        upper += stated.upper.tolist()
    system = Rows(matrix, [_bound(x) for x in lower], [_bound(x) for x in upper], d, columns)
    return None if system.projection is None else system


def _fractions_by_row(matrix: Any, first: int) -> list[dict[int, Fraction]]:
    """Return the rows of a sparse matrix whose columns are counted from a first one."""
    by_row = matrix.tocsr()
    rows: list[dict[int, Fraction]] = []
    for i in range(by_row.shape[0]):
        part = slice(by_row.indptr[i], by_row.indptr[i + 1])
        row: dict[int, Fraction] = {}
        for v, entry in zip(by_row.indices[part], by_row.data[part], strict=True):
            # A sparse matrix may store an entry in parts.
            row[first + int(v)] = row.get(first + int(v), Fraction(0)) + Fraction(float(entry))
        rows.append({v: entry for v, entry in row.items() if entry})
    return rows


def _bound(value: float) -> Fraction | None:
    return Fraction(float(value)) if np.isfinite(value) else None


def bounds_of(region: Region) -> Rows:
    """Return the bounds of all values, without a matrix."""
    d = len(region.lower)
    lower = [_bound(x) for x in region.lower]
    upper = [_bound(x) for x in region.upper]
    return Rows([], lower, upper, d, d)


def exact(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    region: Region,
) -> Exact:
    """Return gap, distance and minimiser of a sum of squares, all in fractions.

    Where the active rows do not settle, the gap is what the multipliers in doubles prove.

    Cost: a few eliminations over the active rows, whose fractions grow with each step: hundredths
    of a second for orders and trees of 64 values, about a second for 20 dense rows with weights.
    """
    system = rows_of(formulation, region, len(point))
    assert system is not None
    loss = stated(formulation.loss, start)
    assert loss is not None
    here = [Fraction(float(value)) for value in point]
    bounds = bounds_of(region)
    violation = rounded_up(*violation_of(here, system, bounds).as_integer_ratio())
    weights = [term.square for term in loss.terms]
    target = [term.linear / term.square for term in loss.terms]
    best = _minimiser(formulation, start, point, system, bounds, target, weights)
    value = loss.value(here)
    if isinstance(best, str):
        gap = np.inf
        if best != CONTRADICTION:
            prices = duality.suggested(formulation, start, point)
            gap = _proved_gap(value, prices, system, bounds, loss)
        return Exact(gap, np.inf, np.inf, violation, None, best)
    rise = value - loss.value(best)
    distance = max(abs(x - z) for x, z in zip(here, best, strict=True)).as_integer_ratio()
    minimiser = np.array([nearest_double(*value.as_integer_ratio()) for value in best])
    return Exact(
        max(rounded_up(*rise.as_integer_ratio()), 0.0),
        rounded_up(*distance),
        in_last_places(*distance, float(np.max(np.abs(minimiser)))),
        violation,
        minimiser,
        "",
    )


def _proved_gap(
    value: Fraction, prices: Array, system: Rows, bounds: Rows, loss: Statement
) -> float:
    """Return what multipliers prove of the gap of squares, where no minimiser is known."""

    def smallest(v: int, slope: Fraction) -> Fraction | None:
        return loss.terms[v].smallest(slope, bounds.lower[v], bounds.upper[v])

    nothing = [Fraction(0)] * (system.columns - system.d)
    proved = duality.lower_bound(prices, system, smallest, nothing)
    return np.inf if proved is None else max(rounded_up(*(value - proved).as_integer_ratio()), 0.0)


def _minimiser(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    system: Rows,
    bounds: Rows,
    target: Vector,
    weights: Vector,
) -> Vector | str:
    """Return the minimiser, or why the active rows do not lead to it."""
    settled = _by_repairs(formulation, start, point, system, bounds, target, weights)
    if settled is not None:
        return settled
    return _by_dual_steps(system, list(half_spaces(bounds)), target, weights, _ROUNDS)


def _by_repairs(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    system: Rows,
    bounds: Rows,
    target: Vector,
    weights: Vector,
) -> Vector | str | None:
    """Return the minimiser of rows near those that are suggested; None where they do not settle.

    So many rows may hold at a vertex that none of the repairs has the ones whose multipliers have
    the right signs.
    """
    rows, values = _suggested(formulation, start, point, system, bounds)
    seen = set()
    one_by_one = False
    for _ in range(_ROUNDS):
        state = (frozenset(rows.items()), frozenset(values.items()))
        # All changes at once may go round in a circle, where single ones do not.
        one_by_one |= state in seen
        seen.add(state)
        if len(rows) > _LARGEST:
            return f"{len(rows)} active rows are too many for exact fractions"
        candidate = _at(rows, values, system, bounds, target, weights)
        if candidate is None and one_by_one:
            return None
        if candidate is None:
            # More was held than can be: from the equations alone, one after the other.
            one_by_one = True
            _keep_equations(rows, system)
            _keep_equations(values, bounds)
            continue
        if not _repair(candidate, rows, values, system, bounds, one_by_one=one_by_one):
            # Rows that are held may still be violated where none is held that ties their auxiliary
            # variables to f.
            is_inside = violation_of(candidate.f, system, bounds) == 0
            return candidate.f if is_inside else None
    return None


def _by_dual_steps(
    system: Rows,
    bounds: list[HalfSpace],
    target: Vector,
    weights: Vector,
    rounds: int,
) -> Vector | str:
    """Return the minimiser by the dual steps of Goldfarb and Idnani (1983), or why there is none.

    Rows in f alone take the place of those with auxiliary variables: ``Projection.cuts``. The rows
    that are held stay independent, and their multipliers of the right sign. Each full step
    to the row that is violated most makes the minimum of the rows held larger, so that none comes
    back; the steps before it drop rows.
    """
    f = target.copy()
    held: list[HalfSpace] = []
    multipliers: Vector = []
    for _ in range(rounds):
        assert system.projection is not None
        added = _violated_most([*system.projection.cuts(f), *bounds], f)
        if added is None:
            return f
        price = Fraction(0)
        is_full = False
        while not is_full:
            direction, shares = _direction(added, held, weights)
            rise = product(added.row, direction)
            droppable = [
                (multiplier / share, k)
                for k, (multiplier, share) in enumerate(zip(multipliers, shares, strict=True))
                if share > 0 and not held[k].is_equation
            ]
            # The first of the smallest: ties are broken by the order of the rows.
            step, dropped = min(droppable, default=(None, -1))
            if rise > 0:
                whole = (added.bound - product(added.row, f)) / rise
                is_full = step is None or whole <= step
                step = whole if is_full else step
            if step is None:
                return CONTRADICTION
            f = [value + step * move for value, move in zip(f, direction, strict=True)]
            multipliers = [m - step * share for m, share in zip(multipliers, shares, strict=True)]
            price += step
            if not is_full:
                del held[dropped], multipliers[dropped]
        held.append(added)
        multipliers.append(price)
        if len(held) > _LARGEST:
            return f"{len(held)} active rows are too many for exact fractions"
    return "the active rows do not settle: pass a point that is nearer to the minimiser"


def nearest_vector(f: Vector, system: Rows, bounds: Rows) -> Vector | str:
    """Return the vector of the set that is nearest to f, or why it is not known.

    From an f that is nearly in the set it is few steps away; more are not taken.
    """
    ones = [Fraction(1)] * system.d
    return _by_dual_steps(system, list(half_spaces(bounds)), f, ones, _FEW)


def _violated_most(limits: list[HalfSpace], f: Vector) -> HalfSpace | None:
    """Return the half space that f is farthest outside of, None if there is none."""
    farthest = Fraction(0)
    result = None
    for one in limits:
        excess = one.bound - product(one.row, f)
        distance = abs(excess) if one.is_equation else excess
        if distance > farthest:
            farthest = distance
            result = one if excess > 0 else one.turned()
    return result


def _direction(added: HalfSpace, held: list[HalfSpace], weights: Vector) -> tuple[Vector, Vector]:
    """Return how f moves per unit of a multiplier, and by how much those of held rows fall."""
    rows = [one.row for one in held]
    gram = [
        {k: product for k, other in enumerate(rows) if (product := _weighted(row, other, weights))}
        for row in rows
    ]
    shares = _eliminated(gram, [_weighted(row, added.row, weights) for row in rows])
    assert shares is not None  # rows that are held are independent
    direction = [Fraction(0)] * len(weights)
    for row, share in [(added.row, Fraction(1)), *zip(rows, [-s for s in shares], strict=True)]:
        for v, entry in row.items():
            direction[v] += share * entry / weights[v]
    return direction, shares


def _weighted(first: dict[int, Fraction], second: dict[int, Fraction], weights: Vector) -> Fraction:
    """Return Σ a b / w of two rows."""
    return sum(
        (entry * second[v] / weights[v] for v, entry in first.items() if v in second), Fraction(0)
    )


def _keep_equations(active: Active, limits: Rows) -> None:
    """Leave out all rows or values that are held at one bound of two different ones."""
    for i in list(active):
        if not limits.is_equation(i):
            del active[i]


def _suggested(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    system: Rows,
    bounds: Rows,
) -> tuple[Active, Active]:
    """Return the rows and values that the floating-point certificate takes to be active."""
    multipliers = duality.suggested(formulation, start, point)
    if formulation.region(len(point)).total is not None:
        # The total holds whatever its multiplier is, which says nothing about the size of others.
        multipliers[0] = 0.0
    rows = _suggested_rows(multipliers, system)
    if system.columns > system.d:
        rows = _with_touched(rows, point, system)
    return rows, _suggested_values(point, bounds)


def _suggested_rows(multipliers: Array, system: Rows) -> Active:
    """Return the rows that are equations, and those with a multiplier that is no rounding."""
    rows: Active = {}
    threshold = _ROUNDING * float(np.max(np.abs(multipliers), initial=0.0))
    for i, multiplier in enumerate(multipliers):
        if system.is_equation(i):
            rows[i] = -1
        elif abs(multiplier) > threshold and not system.only_bounds_auxiliary(i):
            side = -1 if multiplier > 0 else 1
            # Where a total or values explain all but rounding, a row's own sign may be rounding.
            if (system.lower[i] if side < 0 else system.upper[i]) is not None:
                rows[i] = side
    return rows


def _with_touched(rows: Active, point: Array, system: Rows) -> Active:
    """Return rows with those of a sum's terms that hold with equality at a point, or nearly.

    Multipliers alone do not say which terms of a sum of absolute values are 0.
    """
    assert system.projection is not None
    x = system.projection.extended([Fraction(float(value)) for value in point])
    near = Fraction(_ROUNDING) * max(map(abs, x))
    held: Active = {}
    for i, row in enumerate(system.matrix):
        height = product(row, x)
        for side, bound in ((-1, system.lower[i]), (1, system.upper[i])):
            is_met = bound is not None and abs(height - bound) <= near
            if is_met and not system.only_bounds_auxiliary(i):
                held[i] = side
    # Terms count where their sum is at its bound.
    sums = [system.matrix[i] for i in held if len(system.auxiliary(i)) > 1]
    terms = {j for row in sums for j in row}
    others = {i: side for i, side in rows.items() if not terms & set(system.auxiliary(i))}
    return others | {i: side for i, side in held.items() if terms & set(system.auxiliary(i))}


def _suggested_values(point: Array, bounds: Rows) -> Active:
    """Return the values that are at a bound or beyond it."""
    values: Active = {}
    for v, value in enumerate(point):
        low = bounds.lower[v]
        high = bounds.upper[v]
        if low is not None and value <= low:
            values[v] = -1
        elif high is not None and value >= high:
            values[v] = 1
    return values


def _at(
    rows: Active, values: Active, system: Rows, bounds: Rows, target: Vector, weights: Vector
) -> Point | None:
    """Return the minimiser with the active rows as equations, None if they contradict each other.

    A row that depends on others gets the multiplier 0.
    """
    f = target.copy()
    for v, side in values.items():
        f[v] = _bound_at(bounds, v, side)
    held = [
        Combined(system.matrix[i], _bound_at(system, i, rows[i]), {i: Fraction(1)})
        for i in sorted(rows)
    ]
    combined = without_auxiliary(held, system)
    solution = _eliminated(*_normal_equations(combined, values, f, weights))
    if solution is None:
        return None
    multipliers = dict.fromkeys(rows, Fraction(0))
    for one, price in zip(combined, solution, strict=True):
        for i, share in one.shares.items():
            multipliers[i] += share * price
    explained = _explained(multipliers, system)
    for v in range(len(f)):
        if v not in values:
            f[v] += explained[v] / weights[v]
    # What the rows leave of the slope is for the bounds; 0 for values at none.
    slopes = [
        weight * (x - y) - part
        for weight, x, y, part in zip(weights, f, target, explained, strict=True)
    ]
    assert system.projection is not None
    return Point(f, system.projection.extended(f), multipliers, slopes)


def _bound_at(limits: Rows, i: int, side: int) -> Fraction:
    """Return the bound of a row or value on a side where it has one."""
    bound = limits.lower[i] if side < 0 else limits.upper[i]
    assert bound is not None
    return bound


def _explained(multipliers: dict[int, Fraction], system: Rows) -> Vector:
    """Return Aᵀy, without what is left of auxiliary variables, which is 0."""
    return system.slopes(multipliers)[: system.d]


def _normal_equations(
    held: list[Combined], values: Active, f: Vector, weights: Vector
) -> tuple[list[dict[int, Fraction]], Vector]:
    """Return C W⁻¹ Cᵀ of the values at no bound, and c - C f, of rows C f = c."""
    gram: list[dict[int, Fraction]] = []
    right: Vector = []
    # Only rows with a value in common have an entry: chains and trees stay sparse.
    users: dict[int, list[tuple[int, Fraction]]] = {}
    for k, one in enumerate(held):
        right.append(one.bound - product(one.row, f))
        gram.append({})
        for v, entry in one.row.items():
            if v not in values:
                users.setdefault(v, []).append((k, entry))
    for v, entries in users.items():
        for k, first in entries:
            row = gram[k]
            for j, second in entries:
                row[j] = row.get(j, Fraction(0)) + first * second / weights[v]
    return gram, right


def _eliminated(gram: list[dict[int, Fraction]], right: Vector) -> Vector | None:
    """Return a solution of a symmetric, positive semidefinite system, or None if there is none.

    Rows with few entries come first, so that chains and trees fill nothing in.
    """
    left = set(range(len(gram)))
    order = []
    while left:
        pivot = min(left, key=lambda k: len(gram[k]))
        left.remove(pivot)
        row = gram[pivot]
        diagonal = row.get(pivot, Fraction(0))
        if diagonal == 0:
            # A zero on the diagonal of a semidefinite matrix means a zero row.
            if right[pivot] != 0:
                return None
            continue
        order.append(pivot)
        for k in [k for k in row if k != pivot]:
            factor = row[k] / diagonal
            subtract(gram[k], row, factor)
            # Its column is done with; what is left of it is 0.
            gram[k].pop(pivot, None)
            right[k] -= factor * right[pivot]
    solution = [Fraction(0)] * len(gram)
    for pivot in reversed(order):
        row = gram[pivot]
        rest = sum((row[k] * solution[k] for k in row if k != pivot), Fraction(0))
        solution[pivot] = (right[pivot] - rest) / row[pivot]
    return solution


def _repair(
    candidate: Point,
    rows: Active,
    values: Active,
    system: Rows,
    bounds: Rows,
    *,
    one_by_one: bool,
) -> bool:
    """Drop what is held with a multiplier of the wrong sign, hold what is violated.

    Returns whether anything had to be changed: if not, the KKT conditions hold exactly.
    """
    heights = [product(row, candidate.x) for row in system.matrix]
    of_values = dict(enumerate(candidate.bound_multipliers))
    changed = False
    for active, limits, multipliers, reached in (
        (rows, system, candidate.row_multipliers, heights),
        (values, bounds, of_values, candidate.f),
    ):
        for i, height in enumerate(reached):
            multiplier = multipliers.get(i, Fraction(0))
            side = _side(height, limits.lower[i], limits.upper[i], active.get(i), multiplier)
            if side == active.get(i):
                continue
            changed = True
            if side is None:
                del active[i]
            else:
                active[i] = side
            if one_by_one:
                return True
    return _hold_terms(candidate, rows, system) or changed


def _hold_terms(candidate: Point, rows: Active, system: Rows) -> bool:
    """Hold both rows of auxiliary variables on the other side of which the candidate is.

    A term of a sum of absolute values that has another sign than was assumed is held at 0. Returns
    whether there was any.
    """
    if system.columns == system.d:
        return False
    assert system.projection is not None
    defining = system.projection.defining(candidate.f)
    changed = False
    for i, side in list(rows.items()):
        row = system.matrix[i]
        if product(row, candidate.x) == _bound_at(system, i, side):
            continue
        for place in [defining[j].place for j in row if j in defining]:
            assert place is not None
            if place[0] not in rows:
                rows[place[0]] = place[1]
                changed = True
    return changed


def _side(
    height: Fraction,
    lower: Fraction | None,
    upper: Fraction | None,
    side: int | None,
    multiplier: Fraction,
) -> int | None:
    """Return at which bound a row or value should be held next, None for neither."""
    if side is not None:
        is_equation = lower is not None and lower == upper
        # A lower bound pushes up: its multiplier is not negative.
        return side if is_equation or side * multiplier <= 0 else None
    if lower is not None and height < lower:
        return -1
    return 1 if upper is not None and height > upper else None
