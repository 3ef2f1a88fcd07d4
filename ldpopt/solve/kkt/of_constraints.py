"""Constraints as conditions: what each adds to stationarity, and when its multiplier is zero.

Multipliers have the signs of certificates: they are positive where a lower bound pushes up.
"""

from __future__ import annotations

from functools import partial, singledispatch
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from ldpopt import constraints
from ldpopt.constraints import Constraint
from ldpopt.constraints.base import Polyhedron
from ldpopt.constraints.orders import Order
from ldpopt.errors import UnsupportedProblemError
from ldpopt.solve.kkt.notation import (
    ALL_VALUES,
    ONCE,
    Condition,
    Everywhere,
    F,
    Kind,
    Names,
    Part,
    U,
    V,
    at_least,
    at_most,
    equation,
    number,
    sum_over,
    total_of,
    values_or_number,
)

Array = NDArray[Any]


class _Stated:
    """Conditions of one constraint, as they are collected."""

    def __init__(self, of: str) -> None:
        self.of = of
        self.conditions: list[Condition] = []

    def add(self, kind: Kind, relation: Any, where: Everywhere = ALL_VALUES) -> None:
        self.conditions.append(Condition(kind, relation, where, self.of))


@singledispatch
def constraint_part(constraint: Constraint, of: str, names: Names) -> Part:
    """Return what a constraint adds to the conditions.

    Raises
    ------
    UnsupportedProblemError
        If it is not convex, or states itself by cvxpy's expressions.
    """
    # The conditions are sufficient on convex sets alone.
    if not constraint.convex:
        reason = "it is not convex, so that multipliers decide nothing"
    else:
        reason = "its class states neither rows nor bounds in the library's own terms"
    raise UnsupportedProblemError(
        f"{constraint!r} has no conditions value by value: {reason}. The multipliers of a solution "
        "are in solution.duals"
    )


# --- bounds and totals ----------------------------------------------------------------------------


@constraint_part.register
def _nonnegative(constraint: constraints.NonNegative, of: str, names: Names) -> Part:
    multiplier = names.base("λ")
    stated = _Stated(of)
    stated.add("primal feasibility", at_least(F[V]))
    stated.add("dual feasibility", at_least(multiplier[V]))
    stated.add("complementarity", equation(multiplier[V] * F[V]))
    return Part(
        gradient=-multiplier[V],
        conditions=stated.conditions,
        meanings={multiplier.name: f"multipliers of {of}"},
        multipliers=lambda dual, f: {multiplier.name: np.asarray(dual)},
        # The case split cuts the response off at this end.
        ends=[(1, sp.Integer(0))],
    )


@constraint_part.register
def _bounds(constraint: constraints.Bounds, of: str, names: Names) -> Part:
    return _box_part(constraint.lower, constraint.upper, of, names)


def _box_part(lower: Array, upper: Array, of: str, names: Names) -> Part:
    """Return the conditions of bounds: one number for all values, or one per value."""
    stated = _Stated(of)
    meanings: dict[str, str] = {}
    arrays: dict[str, Array] = {}
    gradient: Any = sp.Integer(0)
    bases: list[tuple[int, str]] = []
    ends: list[tuple[int, Any]] = []
    for bound, letter, sign, kind in ((lower, "l", 1, "lower"), (upper, "u", -1, "upper")):
        # A side without bounds has no multipliers: no letter is spent on it.
        if not np.isfinite(bound).any():
            continue
        end, stored = values_or_number(bound, names, letter)
        arrays |= stored
        multiplier = names.base("α" if sign > 0 else "β")
        where = _where_finite(np.asarray(bound), stored)
        # One number for all values stands in the conditions itself, without a letter.
        meanings |= dict.fromkeys(stored, f"the {kind} bounds")
        meanings[multiplier.name] = f"multipliers of the {kind} bounds of {of}"
        stated.add("primal feasibility", (at_least if sign > 0 else at_most)(F[V], end), where)
        stated.add("dual feasibility", at_least(multiplier[V]))
        distance = sign * (F[V] - end)
        stated.add("complementarity", equation(multiplier[V] * distance), where)
        # A lower bound pushes up, against the slope of the loss; an upper one pushes down.
        gradient -= sign * multiplier[V]
        bases.append((sign, multiplier.name))
        ends.append((sign, end))

    def multipliers(dual: Any, f: Array) -> dict[str, Array]:
        # A certificate has one number per value: positive at a lower bound, negative at an upper.
        return {name: np.maximum(sign * np.asarray(dual), 0.0) for sign, name in bases}

    return Part(
        gradient=gradient,
        conditions=stated.conditions,
        meanings=meanings,
        multipliers=multipliers,
        data=lambda d: arrays,
        ends=ends,
    )


def _where_finite(bound: Array, stored: dict[str, Array]) -> Everywhere:
    # Words are spent on the exception alone: where some values have no such bound.
    if not stored or np.isfinite(bound).all():
        return ALL_VALUES
    (name,) = stored
    members = np.flatnonzero(np.isfinite(bound))
    latex = rf"\text{{where }} {name}_v \text{{ is finite}}"
    return Everywhere(V, f"where {name}_v is finite", latex, lambda *_: members)


@constraint_part.register
def _fixed(constraint: constraints.Fixed, of: str, names: Names) -> Part:
    multiplier = names.base("γ")
    value = names.base("c")
    where = Everywhere(
        V,
        f"for the {len(constraint.indices)} values of {of}",
        rf"\text{{for the {len(constraint.indices)} fixed values}}",
        lambda *_: constraint.indices,
    )
    stated = _Stated(of)
    stated.add("primal feasibility", equation(F[V], value[V]), where)

    def stored(d: int) -> dict[str, Array]:
        # The condition reads the fixed values alone: any number will do for the others.
        numbers = np.zeros(d)
        numbers[constraint.indices] = constraint.values
        return {value.name: numbers}

    return Part(
        gradient=-multiplier[V],
        conditions=stated.conditions,
        meanings={
            multiplier.name: f"multipliers of {of}, of either sign; 0 for all other values",
            value.name: "the fixed frequencies",
        },
        multipliers=lambda dual, f: {multiplier.name: np.asarray(dual)},
        data=stored,
    )


@constraint_part.register
def _sums_to(constraint: constraints.SumsTo, of: str, names: Names) -> Part:
    multiplier = names.symbol("μ")
    stated = _Stated(of)
    stated.add("primal feasibility", equation(total_of(F[U]), number(constraint.total())), ONCE)
    return Part(
        gradient=multiplier,
        conditions=stated.conditions,
        meanings={multiplier.name: f"the multiplier of {of}, of either sign"},
        # Opposite to a certificate, in which a positive number pushes up: this is the papers' μ.
        multipliers=lambda dual, f: {multiplier.name: -np.asarray(dual)},
        role="total",
    )


@constraint_part.register
def _groups(constraint: constraints.GroupTotals, of: str, names: Names) -> Part:
    # A value in two groups has two multipliers, for which h_v has no place.
    if not constraint.disjoint:
        return _equations(constraint, of, names)
    index = names.index("g")
    group_of = names.base("h")
    multiplier = names.base("τ")
    total = names.base("t")
    where = Everywhere(index, f"for all groups {index}", rf"\text{{for all groups }} {index}")
    # A sum over the members of group g, written as one over all values.
    member = sp.KroneckerDelta(group_of[U], index)
    stated = _Stated(of)
    stated.add("primal feasibility", equation(total_of(member * F[U]), total[index]), where)
    count = len(constraint.groups)

    def stored(d: int) -> dict[str, Array]:
        numbers = np.full(d, count)
        for number_of_group, group in enumerate(constraint.groups):
            numbers[group] = number_of_group
        return {group_of.name: numbers, total.name: constraint.totals}

    def multipliers(dual: Any, f: Array) -> dict[str, Array]:
        # Values in no group have the number behind the last one, and no multiplier.
        return {multiplier.name: -np.append(np.atleast_1d(dual), 0.0)}

    return Part(
        gradient=multiplier[group_of[V]],
        conditions=stated.conditions,
        meanings={
            group_of.name: "the group of each value",
            multiplier.name: f"multipliers of the totals of {of}, of either sign; 0 in no group",
            total.name: "the totals",
        },
        multipliers=multipliers,
        data=stored,
        ranges=lambda d: {index.name: count},
        role="totals",
    )


# --- rows -----------------------------------------------------------------------------------------


@constraint_part.register
def _hierarchy(constraint: constraints.Hierarchy, of: str, names: Names) -> Part:
    # Its rows are equations: their multipliers may have any sign.
    return _equations(constraint, of, names)


@constraint_part.register
def _rows(constraint: Polyhedron, of: str, names: Names) -> Part:
    matrix = names.base("A")
    index = names.index("i")
    multiplier = names.base("ν")
    low = names.base("l")
    high = names.base("u")
    value = total_of(matrix[index, U] * F[U])
    stated = _Stated(of)
    for end, side in ((low, 0), (high, 1)):
        _state_side(stated, constraint, value, multiplier[index], end, index, side)

    def stored(d: int) -> dict[str, Array]:
        rows = constraint.rows(d)
        return {matrix.name: rows.matrix.toarray(), low.name: rows.lower, high.name: rows.upper}

    return Part(
        gradient=-sum_over(matrix[index, V] * multiplier[index], index),
        conditions=stated.conditions,
        meanings={
            matrix.name: f"the matrix of {of}",
            low.name: "the lower bounds of its rows",
            high.name: "the upper bounds of its rows",
            multiplier.name: "multipliers of its rows: positive where a lower bound holds",
        },
        multipliers=lambda dual, f: {multiplier.name: np.atleast_1d(dual) * constraint.row_units},
        data=stored,
        ranges=lambda d: {index.name: _count(constraint, d)},
    )


def _state_side(
    stated: _Stated,
    constraint: Polyhedron,
    value: Any,
    multiplier: Any,
    end: Any,
    index: Any,
    side: int,
) -> None:
    """Add the conditions of the lower bounds of rows, side 0, or of the upper ones, side 1."""
    letter = end.name
    # A positive multiplier pushes up from a lower bound, a negative one down from an upper bound.
    sign = 1 if side == 0 else -1
    relation = at_least if side == 0 else at_most
    wrong_way = at_most if side == 0 else at_least

    def members(d: int, _: Any) -> Array:
        return _finite(constraint, d, side)

    where = Everywhere(
        index,
        f"where {letter}_{index} is finite",
        rf"\text{{where }} {letter}_{{{index}}} \text{{ is finite}}",
        members,
    )
    opposite = Everywhere(
        index,
        f"where {letter}_{index} is infinite",
        rf"\text{{where }} {letter}_{{{index}}} \text{{ is infinite}}",
        partial(_infinite, members, constraint),
    )
    # The part of the multiplier that belongs to this side: both sides share one letter.
    price = sp.Max(sign * multiplier, 0)
    stated.add("primal feasibility", relation(value, end[index]), where)
    # Without a bound below nothing pushes up, and without one above nothing down.
    stated.add("dual feasibility", wrong_way(multiplier), opposite)
    stated.add("complementarity", equation(price * sign * (value - end[index])), where)


def _finite(constraint: Polyhedron, d: int, side: int) -> Array:
    rows = constraint.rows(d)
    return np.flatnonzero(np.isfinite((rows.lower, rows.upper)[side]))


def _infinite(finite: Any, constraint: Polyhedron, d: int, numbers: Any) -> Array:
    return np.setdiff1d(np.arange(_count(constraint, d)), finite(d, numbers))


def _count(constraint: Polyhedron, d: int) -> int:
    return len(constraint.rows(d).lower)


def _equations(constraint: Polyhedron, of: str, names: Names) -> Part:
    """Return the conditions of A f = t: the multipliers may have either sign."""
    matrix = names.base("A")
    index = names.index("i")
    multiplier = names.base("ν")
    total = names.base("t")
    where = Everywhere(index, f"for all rows {index}", rf"\text{{for all rows }} {index}")
    stated = _Stated(of)
    value = total_of(matrix[index, U] * F[U])
    stated.add("primal feasibility", equation(value, total[index]), where)

    def stored(d: int) -> dict[str, Array]:
        rows = constraint.rows(d)
        return {matrix.name: rows.matrix.toarray(), total.name: rows.lower}

    return Part(
        gradient=-sum_over(matrix[index, V] * multiplier[index], index),
        conditions=stated.conditions,
        meanings={
            matrix.name: f"the matrix of {of}",
            total.name: "what its rows sum to",
            multiplier.name: "multipliers of its rows, of either sign",
        },
        # One group of all values is a total, whose dual is one number.
        multipliers=lambda dual, f: {multiplier.name: np.atleast_1d(dual)},
        data=stored,
        ranges=lambda d: {index.name: _count(constraint, d)},
    )


@constraint_part.register
def _order(constraint: Order, of: str, names: Names) -> Part:
    index = names.index("i")
    upper = names.base("a")
    lower = names.base("b")
    multiplier = names.base("ν")
    where = Everywhere(index, f"for all pairs {index}", rf"\text{{for all pairs }} {index}")
    difference = F[upper[index]] - F[lower[index]]
    stated = _Stated(of)
    stated.add("primal feasibility", at_least(difference), where)
    stated.add("dual feasibility", at_least(multiplier[index]), where)
    stated.add("complementarity", equation(multiplier[index] * difference), where)
    # A pair pushes its higher value up and its lower value down.
    is_upper = sp.KroneckerDelta(upper[index], V)
    is_lower = sp.KroneckerDelta(lower[index], V)

    def stored(d: int) -> dict[str, Array]:
        pairs = constraint.pairs(d)
        return {upper.name: pairs[:, 0], lower.name: pairs[:, 1]}

    return Part(
        gradient=-sum_over(multiplier[index] * is_upper, index)
        + sum_over(multiplier[index] * is_lower, index),
        conditions=stated.conditions,
        meanings={
            upper.name: "the higher value of each pair",
            lower.name: "the lower value of each pair",
            multiplier.name: f"multipliers of the pairs of {of}",
        },
        multipliers=lambda dual, f: {multiplier.name: np.atleast_1d(dual)},
        data=stored,
        ranges=lambda d: {index.name: len(constraint.pairs(d))},
        role="order",
    )


@constraint_part.register
def _top_set(constraint: constraints.TopSet, of: str, names: Names) -> Part:
    side = names.base("σ")
    multiplier = names.base("ν")
    level = names.symbol("t")
    # How far a value is on its own side of the level: one formula for both sets.
    distance = side[V] * (F[V] - level)
    stated = _Stated(of)
    # The level is a variable too, and this is the derivative of the Lagrangian by it.
    stated.add("stationarity", equation(total_of(side[U] * multiplier[U])), ONCE)
    stated.add("primal feasibility", at_least(distance))
    stated.add("dual feasibility", at_least(multiplier[V]))
    stated.add("complementarity", equation(multiplier[V] * distance))

    def multipliers(dual: Any, f: Array) -> dict[str, Array]:
        is_member = constraint.members(len(f))
        # Any level between the two sets will do; where one is empty, beyond all of the other.
        above = f[is_member] if is_member.any() else f + 1.0
        return {multiplier.name: np.asarray(dual), level.name: np.asarray(above.min())}

    return Part(
        gradient=-side[V] * multiplier[V],
        conditions=stated.conditions,
        meanings={
            side.name: f"1 for the values of {of}, -1 for all others",
            level.name: "a level between the two sets",
            multiplier.name: f"multipliers of {of}",
        },
        multipliers=multipliers,
        data=lambda d: {side.name: np.where(constraint.members(d), 1.0, -1.0)},
        role="order",
    )


# --- sums of absolute values, and balls -----------------------------------------------------------


class _Differences(NamedTuple):
    """Names of the differences of one order, first or second, whose absolute values are added."""

    order: int
    matrix: Any
    index: Any
    slope: Any
    price: Any

    def length(self, constraint: constraints.Smooth, d: int) -> int:
        """Return how many differences there are of d values."""
        values = d if constraint.order is None else len(constraint.order)
        return values - self.order

    def meanings(self, of: str) -> dict[str, str]:
        """Return what the letters stand for."""
        ordinal = "first" if self.order == 1 else "second"
        return {
            self.matrix.name: f"the {ordinal} differences of {of}",
            self.slope.name: f"slopes of {self.price.name} |difference|",
            self.price.name: "the multiplier of their sum",
        }

    def state(self, stated: _Stated, bound: Any) -> None:
        """Add the conditions of a bound on the sum of absolute differences."""
        index = self.index
        price = self.price
        slope = self.slope[index]
        value = total_of(self.matrix[index, U] * F[U])
        size = sum_over(sp.Abs(value), index)
        where = Everywhere(
            index, f"for all differences {index}", rf"\text{{for all differences }} {index}"
        )
        stated.add("primal feasibility", at_most(size, bound), ONCE)
        stated.add("dual feasibility", at_least(price), ONCE)
        # A difference of 0 may have any slope between those on its two sides.
        stated.add("dual feasibility", at_most(sp.Abs(slope), price), where)
        stated.add("complementarity", equation(price * (size - bound)), ONCE)
        stated.add("complementarity", equation(slope * value, price * sp.Abs(value)), where)


@constraint_part.register
def _smooth(constraint: constraints.Smooth, of: str, names: Names) -> Part:
    stated = _Stated(of)
    gradient: Any = sp.Integer(0)
    meanings: dict[str, str] = {}
    parts = []
    for order, bound in constraint._parts:
        part = _Differences(
            order, names.base("D"), names.index("i"), names.base("s"), names.symbol("ρ")
        )
        part.state(stated, number(bound))
        gradient += sum_over(part.matrix[part.index, V] * part.slope[part.index], part.index)
        meanings |= part.meanings(of)
        parts.append(part)

    def stored(d: int) -> dict[str, Array]:
        # Differences are taken along the order: rows of the identity, in that order, make them.
        chain = np.arange(d) if constraint.order is None else constraint.order
        eye = np.eye(d)[chain]
        return {part.matrix.name: np.diff(eye, part.order, axis=0) for part in parts}

    def multipliers(dual: Any, f: Array) -> dict[str, Array]:
        numbers: dict[str, Array] = {}
        rest = np.asarray(dual)
        for part in parts:
            m = part.length(constraint, len(f))
            # In the order of the rows: difference - t <= 0, difference + t >= 0, Σ t, t >= 0.
            ends = np.cumsum([m, m, 1, m])
            below, above, total, _positive, rest = np.split(rest, ends)
            numbers[part.slope.name] = -(below + above)
            numbers[part.price.name] = -total[0]
        return numbers

    return Part(
        gradient=gradient,
        conditions=stated.conditions,
        meanings=meanings,
        multipliers=multipliers,
        data=stored,
        ranges=lambda d: {part.index.name: part.length(constraint, d) for part in parts},
    )


@constraint_part.register
def _near(constraint: constraints.Near, of: str, names: Names) -> Part:
    # In the maximum norm the ball is a box, with multipliers value by value.
    if constraint.norm == np.inf:
        lower = constraint.reference - constraint.radius
        return _box_part(lower, constraint.reference + constraint.radius, of, names)
    if constraint.norm == 1:
        return _absolute_ball(constraint, of, names)
    _require_slopes(constraint)
    return _smooth_ball(constraint, of, names)


def _absolute_ball(constraint: constraints.Near, of: str, names: Names) -> Part:
    """Return the conditions of a ball of absolute deviations, with weights or without."""
    reference, price, meanings = _letters_of_ball(of, names)
    numbers: dict[str, Array] = {reference.name: constraint.reference}
    weight: Any = sp.Integer(1)
    if constraint.weights is not None:
        weights = names.base("w")
        weight = weights[V]
        meanings[weights.name] = "the weights of the deviations"
        numbers[weights.name] = constraint.weights
    weighted = "" if constraint.weights is None else " w_v"
    # The absolute value has no derivative where f is the reference: a letter stands for it.
    slope = names.base("s")
    meanings[slope.name] = f"slopes of {price.name}{weighted} |f_v - {reference.name}_v|"
    difference = F[V] - reference[V]
    deviation = weight * sp.Abs(difference)
    stated = _Stated(of)
    stated.add("dual feasibility", at_most(sp.Abs(slope[V]), price * weight))
    # Only where f is the reference may a slope lie between -ρ w and ρ w.
    stated.add("complementarity", equation(slope[V] * difference, price * deviation))
    _state_radius(stated, total_of(deviation.subs(V, U)), number(constraint.radius), price)

    def multipliers(dual: Any, f: Array) -> dict[str, Array]:
        d = len(f)
        # Rows f - r - t <= 0 and f - r + t >= 0, then the sum of t, which the radius bounds.
        ends = np.cumsum([d, d, 1])
        below, above, total, _ = np.split(np.asarray(dual), ends)
        return {slope.name: -(below + above), price.name: -total[0]}

    return Part(
        gradient=slope[V],
        conditions=stated.conditions,
        meanings=meanings,
        multipliers=multipliers,
        data=lambda d: numbers,
    )


def _smooth_ball(constraint: constraints.Near, of: str, names: Names) -> Part:
    """Return the conditions of a ball in the 2-norm or in the divergence."""
    reference, price, meanings = _letters_of_ball(of, names)
    distance, limit, gradient = _distance_of(constraint, reference, price)
    stated = _Stated(of)
    _state_radius(stated, distance, limit, price)

    def multipliers(dual: Any, f: Array) -> dict[str, Array]:
        # The minimum falls with the radius.
        rate = -float(dual)
        if constraint.norm == 2:
            length = float(np.linalg.norm(f - constraint.reference))
            rate = rate / length if length else 0.0
        return {price.name: np.asarray(rate)}

    numbers = {reference.name: constraint.reference}
    return Part(
        gradient=gradient,
        conditions=stated.conditions,
        meanings=meanings,
        multipliers=multipliers,
        data=lambda d: numbers,
    )


def _letters_of_ball(of: str, names: Names) -> tuple[Any, Any, dict[str, str]]:
    """Return the letters of the reference and of the multiplier, and what they stand for."""
    reference = names.base("r")
    price = names.symbol("ρ")
    meanings = {reference.name: "the reference", price.name: f"the multiplier of {of}"}
    return reference, price, meanings


def _state_radius(stated: _Stated, distance: Any, limit: Any, price: Any) -> None:
    """Add the conditions of a bound on the distance."""
    stated.add("primal feasibility", at_most(distance, limit), ONCE)
    stated.add("dual feasibility", at_least(price), ONCE)
    stated.add("complementarity", equation(price * (distance - limit)), ONCE)


def _require_slopes(constraint: constraints.Near) -> None:
    """Raise an error where the divergence from the reference has no slope."""
    if constraint.norm == "kl" and not constraint.reference.all():
        raise UnsupportedProblemError(
            f"{constraint!r} has no conditions value by value: the reference has zeros, where the "
            "divergence has no slope. Fix these values to 0 with Fixed(...), and leave them out"
        )


def _distance_of(constraint: constraints.Near, reference: Any, price: Any) -> tuple[Any, Any, Any]:
    """Return a smooth distance from the reference, its limit, and the price's push on f_v."""
    radius = number(constraint.radius)
    if constraint.norm == 2:
        # Half the square: its gradient is the difference, where the norm's own divides by 0.
        slope = F[V] - reference[V]
        term = slope**2 / 2
        limit = radius**2 / 2
    else:
        slope = sp.log(F[V] / reference[V])
        term = F[V] * slope - F[V] + reference[V]
        limit = radius
    return total_of(term.subs(V, U)), limit, price * slope
