"""The exact minimiser of weighted squares on a polyhedron, in rational numbers.

If the active rows C f = c are known, f = f̃ + W⁻¹ Cᵀ y with C W⁻¹ Cᵀ y = c - C f̃ for the values that
are at no bound. The floating-point certificate suggests which rows are active; whether the f of
these rows is the minimiser is decided by the KKT conditions, in fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, LeastSquares, Loss, WeightedLeastSquares
from ldpopt.solve.certificate.exact.box import Exact
from ldpopt.solve.certificate.exact.rationals import in_last_places, nearest_double, rounded_up
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.certificate.polyhedra.rows import has_own_rows
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]
Vector = list[Fraction]

# A multiplier below this part of the largest one does not suggest an active row at first.
_ROUNDING = 1e-9

# Rounds of repair. Points of solvers need a few; single changes need one per active row or value.
_ROUNDS = 200

# Largest number of active rows: elimination takes up to the cube of it in growing fractions.
_LARGEST = 600


class Rows(NamedTuple):
    """lower <= A f <= upper in fractions, each row as {index: coefficient}; None is no bound."""

    matrix: list[dict[int, Fraction]]
    lower: list[Fraction | None]
    upper: list[Fraction | None]


class Point(NamedTuple):
    """A vector of the KKT system and its multipliers: of the rows and of the bounds."""

    f: Vector
    row_multipliers: dict[int, Fraction]
    bound_multipliers: Vector


Active = dict[int, int]
"""Which rows or values are held at a bound: -1 stands for the lower one, 1 for the upper one."""


def rows_of(formulation: Formulation, region: Region, d: int) -> Rows | None:
    """Return the total and all rows that are not bounds; None if a constraint is no polyhedron.

    Rows with auxiliary variables count as none.
    """
    system = Rows([], [], [])
    if region.total is not None:
        _add(system, dict.fromkeys(range(d), Fraction(1)), region.total, region.total)
    for member in formulation.constraints:
        if not has_own_rows(member, d):
            continue
        stated = member.rows(d)
        if stated is None or stated.auxiliary is not None:
            return None
        matrix = stated.matrix.tocsr()
        for i, (lower, upper) in enumerate(zip(stated.lower, stated.upper, strict=True)):
            part = slice(matrix.indptr[i], matrix.indptr[i + 1])
            row: dict[int, Fraction] = {}
            for v, entry in zip(matrix.indices[part], matrix.data[part], strict=True):
                row[int(v)] = row.get(int(v), Fraction(0)) + Fraction(float(entry))
            _add(system, row, lower, upper)
    return system


def _add(system: Rows, row: dict[int, Fraction], lower: float, upper: float) -> None:
    system.matrix.append(row)
    system.lower.append(_bound(lower))
    system.upper.append(_bound(upper))


def _bound(value: float) -> Fraction | None:
    return Fraction(float(value)) if np.isfinite(value) else None


def exact(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    region: Region,
) -> Exact:
    """Return gap, distance and minimiser of Σ w (f - f̃)², all in fractions.

    Cost: a few eliminations over the active rows, whose fractions grow with each step: hundredths
    of a second for orders and trees of 64 values, about a second for 20 dense rows with weights.
    """
    system = rows_of(formulation, region, len(point))
    assert system is not None
    squares = weights_of(formulation, start)
    assert squares is not None
    weights, factor = squares
    target = [Fraction(float(value)) for value in start.frequencies]
    here = [Fraction(float(value)) for value in point]
    bounds = Rows([], [_bound(x) for x in region.lower], [_bound(x) for x in region.upper])
    violation = rounded_up(*_violation(here, system, bounds).as_integer_ratio())
    best = _minimiser(formulation, start, point, system, bounds, target, weights)
    if isinstance(best, str):
        return Exact(np.inf, np.inf, np.inf, violation, None, best)
    rise = factor * sum(
        weight * ((x - y) ** 2 - (z - y) ** 2)
        for weight, x, y, z in zip(weights, here, target, best, strict=True)
    )
    distance = max(abs(x - z) for x, z in zip(here, best, strict=True)).as_integer_ratio()
    minimiser = np.array([nearest_double(*value.as_integer_ratio()) for value in best])
    return Exact(
        max(rounded_up(*Fraction(rise).as_integer_ratio()), 0.0),
        rounded_up(*distance),
        in_last_places(*distance, float(np.max(np.abs(minimiser)))),
        violation,
        minimiser,
        "",
    )


def _violation(f: Vector, system: Rows, bounds: Rows) -> Fraction:
    """Return by how much a vector leaves the set, 0 inside."""
    excess = Fraction(0)
    for value, lower, upper in zip(f, bounds.lower, bounds.upper, strict=True):
        excess = max(excess, _outside(value, lower, upper))
    for row, lower, upper in zip(*system, strict=True):
        excess = max(excess, _outside(_product(row, f), lower, upper))
    return excess


def _outside(value: Fraction, lower: Fraction | None, upper: Fraction | None) -> Fraction:
    """Return how far a value is outside its bounds, negative or 0 inside."""
    below = Fraction(0) if lower is None else lower - value
    above = Fraction(0) if upper is None else value - upper
    return max(below, above)


def _product(row: dict[int, Fraction], f: Vector) -> Fraction:
    return sum((entry * f[v] for v, entry in row.items()), Fraction(0))


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
    return _by_dual_steps([*_half_spaces(system), *_half_spaces(bounds)], target, weights)


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
            return candidate.f
    return None


class _HalfSpace(NamedTuple):
    """row·f >= bound, or row·f = bound."""

    row: dict[int, Fraction]
    bound: Fraction
    is_equation: bool

    def turned(self) -> _HalfSpace:
        """Return the same from the other side."""
        row = {v: -entry for v, entry in self.row.items()}
        return _HalfSpace(row, -self.bound, self.is_equation)


def _half_spaces(limits: Rows) -> Iterator[_HalfSpace]:
    """Yield each side of rows, or of values if there is no matrix."""
    for i, (lower, upper) in enumerate(zip(limits.lower, limits.upper, strict=True)):
        row = limits.matrix[i] if limits.matrix else {i: Fraction(1)}
        is_equation = _is_equation(limits, i)
        if lower is not None:
            yield _HalfSpace(row, lower, is_equation)
        if upper is not None and not is_equation:
            yield _HalfSpace(row, upper, is_equation).turned()


def _by_dual_steps(limits: list[_HalfSpace], target: Vector, weights: Vector) -> Vector | str:
    """Return the minimiser by the dual steps of Goldfarb and Idnani (1983), or why there is none.

    The rows that are held stay independent, and their multipliers of the right sign. Each full step
    to the row that is violated most makes the minimum of the rows held larger, so that none comes
    back; the steps before it drop rows.
    """
    f = target.copy()
    held: list[_HalfSpace] = []
    multipliers: Vector = []
    for _ in range(_ROUNDS):
        added = _violated_most(limits, f)
        if added is None:
            return f
        price = Fraction(0)
        is_full = False
        while not is_full:
            direction, shares = _direction(added, held, weights)
            rise = _product(added.row, direction)
            droppable = [
                (multiplier / share, k)
                for k, (multiplier, share) in enumerate(zip(multipliers, shares, strict=True))
                if share > 0 and not held[k].is_equation
            ]
            # The first of the smallest: ties are broken by the order of the rows.
            step, dropped = min(droppable, default=(None, -1))
            if rise > 0:
                whole = (added.bound - _product(added.row, f)) / rise
                is_full = step is None or whole <= step
                step = whole if is_full else step
            if step is None:
                return "the constraints contradict each other: no point has exactly their numbers"
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


def _violated_most(limits: list[_HalfSpace], f: Vector) -> _HalfSpace | None:
    """Return the half space that f is farthest outside of, None if there is none."""
    farthest = Fraction(0)
    result = None
    for one in limits:
        excess = one.bound - _product(one.row, f)
        distance = abs(excess) if one.is_equation else excess
        if distance > farthest:
            farthest = distance
            result = one if excess > 0 else one.turned()
    return result


def _direction(added: _HalfSpace, held: list[_HalfSpace], weights: Vector) -> tuple[Vector, Vector]:
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
        if not _is_equation(limits, i):
            del active[i]


def _suggested(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    system: Rows,
    bounds: Rows,
) -> tuple[Active, Active]:
    """Return the rows and values that the floating-point certificate takes to be active."""
    explanation = polyhedron.evidence(formulation, start, point).explain()
    multipliers = explanation.row_multipliers
    if formulation.region(len(point)).total is not None:
        # The total is the first row of the system, and its multiplier has a name of its own.
        multipliers = np.append(0.0, multipliers)
    return _suggested_rows(multipliers, system), _suggested_values(point, bounds)


def _suggested_rows(multipliers: Array, system: Rows) -> Active:
    """Return the rows that are equations, and those with a multiplier that is no rounding."""
    rows: Active = {}
    threshold = _ROUNDING * float(np.max(np.abs(multipliers), initial=0.0))
    for i, multiplier in enumerate(multipliers):
        if _is_equation(system, i):
            rows[i] = -1
        elif abs(multiplier) > threshold:
            rows[i] = -1 if multiplier > 0 else 1
    return rows


def _is_equation(limits: Rows, i: int) -> bool:
    """Return whether a row or value has one bound from both sides."""
    return limits.lower[i] is not None and limits.lower[i] == limits.upper[i]


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
    solution = _eliminated(*_normal_equations(rows, values, system, f, weights))
    if solution is None:
        return None
    multipliers = dict(zip(sorted(rows), solution, strict=True))
    explained = _explained(multipliers, system, len(f))
    for v in range(len(f)):
        if v not in values:
            f[v] += explained[v] / weights[v]
    # What the rows leave of the slope is for the bounds; 0 for values at none.
    slopes = [
        weight * (x - y) - part
        for weight, x, y, part in zip(weights, f, target, explained, strict=True)
    ]
    return Point(f, multipliers, slopes)


def _bound_at(limits: Rows, i: int, side: int) -> Fraction:
    """Return the bound of a row or value on a side where it has one."""
    bound = limits.lower[i] if side < 0 else limits.upper[i]
    assert bound is not None
    return bound


def _explained(multipliers: dict[int, Fraction], system: Rows, d: int) -> Vector:
    """Return Aᵀy."""
    result = [Fraction(0)] * d
    for i, multiplier in multipliers.items():
        for v, entry in system.matrix[i].items():
            result[v] += entry * multiplier
    return result


def _normal_equations(
    rows: Active, values: Active, system: Rows, f: Vector, weights: Vector
) -> tuple[list[dict[int, Fraction]], Vector]:
    """Return C W⁻¹ Cᵀ of the values at no bound, and c - C f, of the active rows in order."""
    gram: list[dict[int, Fraction]] = []
    right: Vector = []
    # Only rows with a value in common have an entry: chains and trees stay sparse.
    users: dict[int, list[tuple[int, Fraction]]] = {}
    for k, i in enumerate(sorted(rows)):
        right.append(_bound_at(system, i, rows[i]) - _product(system.matrix[i], f))
        gram.append({})
        for v, entry in system.matrix[i].items():
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
            _subtract(gram[k], row, factor)
            # Its column is done with; what is left of it is 0.
            gram[k].pop(pivot, None)
            right[k] -= factor * right[pivot]
    solution = [Fraction(0)] * len(gram)
    for pivot in reversed(order):
        row = gram[pivot]
        rest = sum((row[k] * solution[k] for k in row if k != pivot), Fraction(0))
        solution[pivot] = (right[pivot] - rest) / row[pivot]
    return solution


def _subtract(row: dict[int, Fraction], other: dict[int, Fraction], factor: Fraction) -> None:
    """Subtract a multiple of another row, and drop entries that become 0."""
    for k, entry in other.items():
        changed = row.get(k, Fraction(0)) - factor * entry
        if changed:
            row[k] = changed
        else:
            row.pop(k, None)


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
    heights = [_product(row, candidate.f) for row in system.matrix]
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


def weights_of(
    formulation: Formulation, start: FrequencyEstimate
) -> tuple[Vector, Fraction] | None:
    """Return w and the factor of factor Σ w (f - f̃)²; None for a loss of another form."""
    loss: Any = formulation.loss
    weights = _WEIGHTS.get(type(loss))
    return None if weights is None else weights(loss, start)


def _of_squares(
    loss: LeastSquares | WeightedLeastSquares, start: FrequencyEstimate
) -> tuple[Vector, Fraction]:
    if loss.weights is None:
        return [Fraction(1)] * start.d, Fraction(1, 2)
    return [Fraction(float(weight)) for weight in loss.weights], Fraction(1, 2)


def _of_variances(_: GaussianMLE, start: FrequencyEstimate) -> tuple[Vector, Fraction] | None:
    # Of variances that grow with f the loss is no square.
    if np.any(start.noise.b):
        return None
    variances = np.broadcast_to(np.asarray(start.noise.a), (start.d,))
    return [1 / Fraction(float(variance)) for variance in variances], Fraction(1)


_WEIGHTS: Mapping[type[Loss], Callable[..., tuple[Vector, Fraction] | None]] = {
    LeastSquares: _of_squares,
    WeightedLeastSquares: _of_squares,
    GaussianMLE: _of_variances,
}
"""What returns the weights of each loss. A class of a user may change what a loss means."""
