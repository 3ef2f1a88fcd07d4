"""The case split that leads from the conditions to the closed form.

Where values interact through the multiplier of a total alone, each is in one of three cases: at its
lower bound, at its upper one, or between them, where its own multipliers are zero and stationarity
is an equation of one unknown. An order adds blocks of equal values: the multipliers of their pairs
cancel in the sum over a block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import sympy as sp
from numpy.typing import NDArray

from ldpopt import constraints, losses
from ldpopt.constraints import Constraint
from ldpopt.constraints.orders import Order
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.certificate.margin_prices import margins_of
from ldpopt.solve.kkt.notation import (
    D,
    Everywhere,
    Expression,
    F,
    Names,
    Part,
    U,
    V,
    as_latex,
    as_text,
    equation,
    total_of,
)
from ldpopt.solve.kkt.of_losses import LossForm

Array = NDArray[Any]

_LONG = 30  # characters of a formula that is written once, not in every case
_MEMBER = sp.Symbol("j ∈ S")
_SIZE = sp.Symbol("|S|")
_POOLED = {"f̃": "f̄", "m": "m̄", "y": "ȳ"}


@dataclass(frozen=True)
class Case:
    """One case: if a condition holds, what f_v is, and why.

    Attributes
    ----------
    when
        A relation of data and the price; None for all that no other case holds.
    then
        What f_v is.
    why
        How that follows from the conditions.
    """

    when: Expression | None
    then: Expression
    why: str

    def __str__(self) -> str:
        when = "otherwise" if self.when is None else f"if {as_text(self.when)}"
        return f"{as_text(self.then)}   {when}   ({self.why})"

    def latex(self) -> str:
        """Return the case as a row of an aligned environment."""
        when = r"\text{otherwise}" if self.when is None else rf"\text{{if }} {as_latex(self.when)}"
        return f"& {as_latex(self.then)} && {when}"


@dataclass(frozen=True)
class CaseSplit:
    """The cases, and the equation that is left for the multipliers.

    Attributes
    ----------
    before
        What happens to the data first, line by line; empty where nothing does.
    free
        What a value would be without bounds, where that is long: x_v stands for it then.
    cases
        The cases of a value.
    formula
        All cases as one equation, f_v = ….
    multiplier
        What is left to solve: an equation per total; None where there is no total.
    solved
        The multiplier in closed form; None where it is the root of a decreasing function.
    pooled
        The name of the pooled data, and that of what is pooled; None without an order.
    """

    before: tuple[str, ...]
    free: Expression | None
    cases: tuple[Case, ...]
    formula: Expression
    multiplier: tuple[Expression, Everywhere] | None
    solved: Expression | None = None
    pooled: tuple[str, str] | None = None
    orders: tuple[Constraint, ...] = field(default=(), repr=False)

    def pooled_data(self, loss: Loss, estimate: FrequencyEstimate) -> dict[str, Array]:
        """Return the numbers of the pooled data of an estimate."""
        if self.pooled is None:
            return {}
        pooling = loss.pooling(estimate)
        order = self.orders[0].isotonic(estimate.d)
        assert pooling is not None  # _pooled_response
        assert order is not None
        return {self.pooled[0]: order.project(pooling.values)}

    @property
    def lines(self) -> list[str]:
        """The split as lines of text."""
        lines = [*self.before]
        if self.free is not None:
            lines.append(f"without bounds: {as_text(self.free)}")
        if len(self.cases) == 1:
            lines.append(f"{as_text(self.cases[0].then)}   for all v")
        else:
            lines += [str(case) for case in self.cases]
        if self.multiplier is not None:
            relation, where = self.multiplier
            words = f"   {where.words}" if where.words else ""
            lines.append(f"which leaves {as_text(relation)}{words}")
        if self.solved is not None:
            inside = ", with S the values that are not at a bound" * self.solved.has(_MEMBER)
            lines.append(f"solved by {as_text(self.solved)}{inside}")
        elif self.multiplier is not None:
            lines.append("whose left side decreases in the multiplier: one root")
        return lines

    @property
    def latex_rows(self) -> list[str]:
        """The split as rows of an aligned environment."""
        rows = [] if self.free is None else [f"& {as_latex(self.free)} &&"]
        rows += [case.latex() for case in self.cases]
        if self.multiplier is not None:
            relation, where = self.multiplier
            rows.append(rf"& {as_latex(relation)} && {where.latex}")
        if self.solved is not None:
            rows.append(rf"& {as_latex(self.solved)} &&")
        return rows


def split_of(
    loss: Loss,
    form: LossForm,
    stated: list[tuple[Constraint, Part]],
    names: Names,
) -> CaseSplit | None:
    """Return the case split; None where none is known."""
    kinds = _kinds_of(stated)
    if kinds is None or form.response is None:
        return None
    sums = kinds.sums
    if len(sums) > 1 and loss.family is not losses.LeastSquares:
        return None
    response = form.response
    data = form.pooled
    if kinds.orders:
        if not _pools_first(form, kinds):
            return None
        data = names.base(_POOLED[form.pooled.name])
        response = partial(_pooled_response, form, data)
    price = sp.Add(*[part.gradient for _, part in sums])
    if not sums and isinstance(loss, losses.MultinomialMLE | losses.KullbackLeibler):
        # Without a price the first falls for ever, and the second has another mass.
        return None
    between = response(price)
    ends = _ends_of(form, kinds)
    shown = between
    if len(as_text(between)) > _LONG:
        shown = names.base("x")[V]
    return CaseSplit(
        before=_before(form, data, kinds),
        free=None if shown is between else equation(shown, between),
        cases=tuple(_cases(shown, ends)),
        formula=equation(F[V], _clipped(between, ends)),
        multiplier=_left(shown, ends, sums),
        solved=_solved(loss, form, data, ends, sums),
        pooled=(data.name, form.pooled.name) if kinds.orders else None,
        orders=kinds.orders,
    )


class _Kinds(NamedTuple):
    """The constraints of a split: at most one total, at most one order, and any bounds.

    Or any number of margins of one table, and nothing else.
    """

    sums: list[tuple[Constraint, Part]]
    orders: tuple[Constraint, ...]
    boxes: list[tuple[Constraint, Part]]


def _kinds_of(stated: list[tuple[Constraint, Part]]) -> _Kinds | None:
    """Return the constraints by kind; None where one is of no kind, or two are of one."""
    sums = [(c, part) for c, part in stated if _is_sum(c)]
    orders = tuple(c for c, _ in stated if c.isotonic is not None and _is_order(c))
    boxes = [(c, part) for c, part in stated if part.ends]
    is_whole = len(sums) + len(orders) + len(boxes) >= len(stated)
    # Two multipliers of totals, or of orders, cannot both be eliminated by one root.
    is_single = len(sums) <= 1 and len(orders) <= 1
    if len(sums) == len(stated) > 1:
        is_single = margins_of([c for c, _ in sums], None) is not None
    return _Kinds(sums, orders, boxes) if is_whole and is_single else None


def _pooled_response(form: LossForm, data: Any, price: Any) -> Expression:
    """Return the response with the means of blocks in place of the data of single values."""
    assert form.response is not None  # split_of asks for it
    return form.response(price).subs(form.pooled[V], data[V])


def _ends_of(form: LossForm, kinds: _Kinds) -> list[tuple[int, Expression]]:
    """Return the ends of bounds, each once, without those that the loss keeps by itself."""
    ends = list(dict.fromkeys(end for _, part in kinds.boxes for end in part.ends))
    if not form.logarithmic:
        return ends
    # Such a loss keeps values above 0.
    return [end for end in ends if end != (1, 0)]


def _is_sum(constraint: Constraint) -> bool:
    if isinstance(constraint, constraints.GroupTotals):
        return constraint.disjoint
    return isinstance(constraint, constraints.SumsTo)


def _is_order(constraint: Constraint) -> bool:
    return isinstance(constraint, Order | constraints.TopSet)


def _pools_first(form: LossForm, kinds: _Kinds) -> bool:
    """Return whether the order may be imposed on the data, before everything else."""
    if form.pooled is None or form.pooled.name not in _POOLED:
        return False
    # Totals of groups and bounds of single values cut blocks that pooling has joined.
    if any(isinstance(c, constraints.GroupTotals) for c, _ in kinds.sums):
        return False
    return all(not end.has(sp.Indexed) for _, part in kinds.boxes for _, end in part.ends)


def _before(form: LossForm, data: Any, kinds: _Kinds) -> tuple[str, ...]:
    """Return what happens first: pooling, or the shifts of several margins."""
    if len(kinds.sums) > 1:
        return (
            "each margin is met in turn, and keeps those that were met before:",
            f"x = {data.name}, then x_v + (t_g - Σ_j [h_j = g]·x_j)/|g| for the sum g of v, "
            "|g| its cells; f is the last x",
        )
    if not kinds.orders:
        return ()
    name = form.pooled.name
    return (
        "in a block of equal values the multipliers of the order cancel:",
        f"{data.name}_v is the mean of {name} over the block of v, from pooling along the order",
    )


def _clipped(between: Expression, ends: list[tuple[int, Expression]]) -> Expression:
    lower = [end for sign, end in ends if sign > 0]
    upper = [end for sign, end in ends if sign < 0]
    value = sp.Max(between, *lower, evaluate=False) if lower else between
    return sp.Min(value, *upper, evaluate=False) if upper else value


def _cases(between: Expression, ends: list[tuple[int, Expression]]) -> list[Case]:
    """Return the cases of a value: at each end, and between them."""
    inside = None
    if len(ends) == 1:
        ((sign, end),) = ends
        inside = sp.Gt(between, end) if sign > 0 else sp.Lt(between, end)
    why = "no bound holds: the multiplier is 0"
    first = Case(inside, equation(F[V], between), why)
    cases = []
    for sign, end in ends:
        when = sp.Le(between, end) if sign > 0 else sp.Ge(between, end)
        which = "lower" if sign > 0 else "upper"
        why = f"the {which} bound holds: the multiplier is ≥ 0"
        cases.append(Case(when, equation(F[V], end), why))
    return [first, *cases] if len(ends) == 1 else [*cases, first]


def _left(
    between: Expression, ends: list[tuple[int, Expression]], sums: list[tuple[Constraint, Part]]
) -> tuple[Expression, Everywhere] | None:
    """Return the total with the cases in place of f; None without one, and of several margins."""
    if len(sums) != 1:
        return None
    ((_, part),) = sums
    condition = part.conditions[0]
    term = _clipped(between, ends).subs(V, U)
    left = condition.relation.lhs
    # In the sum over j of [g_j = g] f_j, or of f_j, the frequency alone is replaced.
    inner = left.function.subs(F[U], term)
    return equation(total_of(inner), condition.relation.rhs), condition.where


def _solved(
    loss: Loss,
    form: LossForm,
    data: Any,
    ends: list[tuple[int, Expression]],
    sums: list[tuple[Constraint, Part]],
) -> Expression | None:
    """Return the multiplier of one total, where the response is linear or proportional."""
    if len(sums) != 1 or not isinstance(sums[0][0], constraints.SumsTo):
        return None
    multiplier = sums[0][1].gradient
    total = sums[0][1].conditions[0].relation.rhs
    if isinstance(loss, losses.LeastSquares) and all(end == 0 for _, end in ends):
        # Σ over S, the values between their ends, and how many these are.
        held = sp.Sum(data[U], (_MEMBER, 0, D - 1)) if ends else total_of(data[U])
        return equation(multiplier, (held - total) / (_SIZE if ends else D))
    if form.reference is not None and all(end == 0 and sign > 0 for sign, end in ends):
        mass = total_of(form.reference[U])
        return equation(multiplier, sp.log(mass / total) - 1)
    return None
