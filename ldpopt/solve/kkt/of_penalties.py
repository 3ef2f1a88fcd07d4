"""Prices on what several values do together: variation along a chain, and norms of groups.

They are no sums over values, so that a symbol stands for their slope: one per difference, or one
per value of a group. What bounds it, and where it is exact, are conditions of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from ldpopt.errors import UnsupportedProblemError
from ldpopt.losses import GroupNorm, Loss, TotalVariation, WeightedSum
from ldpopt.solve.kkt.notation import (
    Condition,
    Everywhere,
    Expression,
    F,
    Names,
    U,
    V,
    at_most,
    equation,
    number,
    sum_over,
    total_of,
)

Array = NDArray[Any]


@dataclass
class PricedPart:
    """What a price on several values adds to the conditions.

    Attributes
    ----------
    gradient
        What it adds to the derivative of the Lagrangian by f_v.
    conditions
        The bounds of its slopes, and where they are exact.
    meanings
        What its symbols stand for, by their names.
    data
        From a number of values to the numbers of its symbols, by name.
    ranges
        From a number of values to how far its index runs, by its name.
    slopes
        From what all other terms add to the gradient to the slopes that cancel it, by name.
    """

    gradient: Expression
    conditions: list[Condition]
    meanings: dict[str, str]
    data: Callable[[int], Mapping[str, Array]]
    ranges: Callable[[int], Mapping[str, int]]
    slopes: Callable[[Array], Mapping[str, Array]]


def split_off(loss: Loss) -> tuple[Loss | None, list[tuple[float, Loss]]]:
    """Return a loss without its prices on several values, and these with their weights.

    Where nothing else is left the loss is None.

    Raises
    ------
    UnsupportedProblemError
        If it has two such prices: their slopes do not follow from a solution.
    """
    priced = []
    others = []
    for weight, term in loss.leaves():
        if type(term) in _PRICED:
            priced.append((weight, term))
        else:
            others.append((weight, term))
    if not priced:
        return loss, []
    if len(priced) > 1:
        raise _not_written(loss)
    if not others:
        return None, priced
    rest = WeightedSum([term for _, term in others], [weight for weight, _ in others])
    return rest, priced


def _not_written(loss: Loss) -> UnsupportedProblemError:
    return UnsupportedProblemError(
        f"{loss!r}: conditions are written of sums with one TotalVariation, or one GroupNorm "
        "whose groups do not overlap; solution.duals has the multipliers of constraints"
    )


def priced_part(weight: float, penalty: Loss, of: str, names: Names) -> PricedPart:
    """Return what a price adds to the conditions.

    Raises
    ------
    UnsupportedProblemError
        If it is on groups that overlap: their slopes do not follow from a solution.
    """
    return _PRICED[type(penalty)](weight, penalty, of, names)


def _variation(weight: float, penalty: TotalVariation, of: str, names: Names) -> PricedPart:
    matrix = names.base("D")
    index = names.index("i")
    slopes = names.base("s")
    slope = slopes[index]
    value = total_of(matrix[index, U] * F[U])
    where = Everywhere(
        index, f"for all differences {index}", rf"\text{{for all differences }} {index}"
    )
    price = number(weight)
    factor = "" if weight == 1 else f"{weight:g} "
    conditions = [
        # A difference of 0 may have any slope between those on its two sides.
        Condition("dual feasibility", at_most(sp.Abs(slope), price), where, of),
        Condition("complementarity", equation(slope * value, price * sp.Abs(value)), where, of),
    ]

    def cancelling(rest: Array) -> dict[str, Array]:
        # Along the chain each slope is the one before and what the value between has left over.
        along = rest[penalty.priced_chain]
        return {slopes.name: np.cumsum(along)[:-1]}

    def differences(d: int) -> dict[str, Array]:
        return {matrix.name: np.diff(np.eye(d)[penalty.priced_chain], axis=0)}

    return PricedPart(
        gradient=sum_over(matrix[index, V] * slope, index),
        conditions=conditions,
        meanings={
            matrix.name: "the differences of neighbours",
            slopes.name: f"slopes of {factor}|difference|",
        },
        data=differences,
        ranges=lambda d: {index.name: len(np.arange(d)[penalty.priced_chain]) - 1},
        slopes=cancelling,
    )


def _norms(weight: float, penalty: GroupNorm, of: str, names: Names) -> PricedPart:
    if not penalty.disjoint:
        raise _not_written(penalty)
    member = names.base("G")
    price = names.base("c")
    slopes = names.base("s")
    index = names.index("g")
    where = Everywhere(index, f"for all groups {index}", rf"\text{{for all groups }} {index}")
    # No member is in two groups: a value has one slope.
    square = total_of(member[index, U] * slopes[U] ** 2)
    product = total_of(member[index, U] * slopes[U] * F[U])
    norm = sp.sqrt(total_of(member[index, U] * F[U] ** 2))
    conditions = [
        Condition("dual feasibility", at_most(sp.sqrt(square), price[index]), where, of),
        Condition("complementarity", equation(product, price[index] * norm), where, of),
    ]
    number_of_groups = len(penalty.groups)

    def members(d: int) -> dict[str, Array]:
        table = np.zeros((number_of_groups, d))
        for row, group in zip(table, penalty.groups, strict=True):
            row[group] = 1.0
        return {member.name: table, price.name: weight * penalty.weights}

    def cancelling(rest: Array) -> dict[str, Array]:
        is_member = members(len(rest))[member.name].any(axis=0)
        return {slopes.name: np.where(is_member, -rest, 0.0)}

    return PricedPart(
        gradient=slopes[V],
        conditions=conditions,
        meanings={
            member.name: "1 for the members of a group, 0 for all others",
            price.name: "the price of each group's norm",
            slopes.name: "slopes of the price, 0 for values in no group",
        },
        data=members,
        ranges=lambda _: {index.name: number_of_groups},
        slopes=cancelling,
    )


# By the very type: a class derived from one may be another function.
_PRICED: dict[type[Loss], Callable[[float, Any, str, Names], PricedPart]] = {
    TotalVariation: _variation,
    GroupNorm: _norms,
}
