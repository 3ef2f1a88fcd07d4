"""The case split that leads from the conditions to the closed form.

Where values interact through the multiplier of a total alone, each is in one of three cases: at its
lower bound, at its upper one, or between them, where its own multipliers are zero and stationarity
is an equation of one unknown. An order adds blocks of equal values: the multipliers of their pairs
cancel in the sum over a block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import sympy as sp
from numpy.typing import NDArray

from ldpopt.constraints import Constraint
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.certificate.prices.margin_prices import margins_of
from ldpopt.solve.kkt.evaluation import Numbers
from ldpopt.solve.kkt.notation import (
    ALL_VALUES,
    ONCE,
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
MEMBER = sp.Symbol("j ∈ S")
"""The index of a sum over S, the values that are not at a bound."""

SIZE = sp.Symbol("|S|")
"""How many these values are."""

_POOLED = {"f̃": "f̄", "m": "m̄", "y": "ȳ"}


@dataclass(frozen=True)
class Case:
    """One case: if a condition holds, what f_v is, and why.

    Attributes
    ----------
    when
        A relation of data and the price; None for the case that holds wherever no other one does.
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

    def excess(self, numbers: Numbers, d: int) -> float:
        """Return by how much the formula, and the equations of the multiplier, fail at most."""
        relations = [(self.formula, ALL_VALUES)]
        if self.multiplier is not None:
            relations.append(self.multiplier)
        if self.solved is not None and len(numbers.places_of(MEMBER)):
            # Where all values are at bounds no value tells the multiplier.
            relations.append((self.solved, ONCE))
        return max(numbers.excess(relation, where, d) for relation, where in relations)

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
            inside = ""
            if self.solved.has(MEMBER, SIZE):
                inside = ", with S the values that are not at a bound"
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
    form: LossForm, stated: list[tuple[Constraint, Part]], names: Names
) -> CaseSplit | None:
    """Return the case split; None where none is known."""
    kinds = _kinds_of(stated)
    if kinds is None or form.response is None:
        return None
    sums = kinds.sums
    # Means pool, and one division meets a total: both hold for squares alone.
    is_square = form.pooled is not None and form.price is not None
    if len(sums) > 1 and not is_square:
        return None
    response = form.response
    data = form.reference if form.pooled is None else form.pooled
    if kinds.orders:
        if not _pools_first(form, kinds):
            return None
        data = names.base(_POOLED[form.pooled.name])
        response = partial(_pooled_response, form, data)
    if form.needs_price and not sums:
        return None
    # The totals' part of the Lagrangian's slope is the price of a value.
    price = sp.Add(*[part.gradient for _, part in sums])
    between = response(price)
    ends = _ends_of(form, kinds)
    shown = between
    # Written out once, and as a letter in every case.
    if len(as_text(between)) > _LONG:
        shown = names.base("x")[V]
    return CaseSplit(
        before=_before(form, data, kinds),
        free=None if shown is between else equation(shown, between),
        cases=tuple(_cases(shown, ends)),
        formula=equation(F[V], _clipped(between, ends)),
        multiplier=_left(shown, ends, sums),
        solved=_solved(form, data, ends, sums),
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
    sums = [(c, part) for c, part in stated if part.role in ("total", "totals")]
    orders = tuple(c for c, part in stated if part.role == "order")
    boxes = [(c, part) for c, part in stated if part.ends]
    if len(sums) + len(orders) + len(boxes) < len(stated):
        return None
    kinds = _Kinds(sums, orders, boxes)
    if len(sums) == len(stated) > 1:
        # Margins of one table are met in turn, however many there are.
        totals = [c for c, _ in sums]
        return None if margins_of(totals, None) is None else kinds
    # Two multipliers of totals, or of orders, cannot both be eliminated by one root.
    if len(sums) > 1 or len(orders) > 1:
        return None
    return kinds


def _pooled_response(form: LossForm, data: Any, price: Any) -> Expression:
    """Return the response with the means of blocks in place of the data of single values."""
    assert form.response is not None  # split_of asks for it
    return form.response(price).subs(form.pooled[V], data[V])


def _ends_of(form: LossForm, kinds: _Kinds) -> list[tuple[int, Expression]]:
    """Return the lower and the upper end of a value, without what the loss keeps by itself."""
    lower = []
    upper = []
    for _, part in kinds.boxes:
        for sign, end in part.ends:
            if sign < 0:
                upper.append(end)
            # A loss with a logarithm keeps values above 0 by itself.
            elif not (form.logarithmic and end == 0):
                lower.append(end)
    # Of several bounds on one side the tightest decides: with a case for each, two would hold.
    tightest: list[tuple[int, Expression]] = []
    if lower:
        tightest.append((1, sp.Max(*lower)))
    if upper:
        tightest.append((-1, sp.Min(*upper)))
    return tightest


def _pools_first(form: LossForm, kinds: _Kinds) -> bool:
    """Return whether the order may be imposed on the data, before everything else."""
    if form.pooled is None or form.pooled.name not in _POOLED:
        return False
    # Totals of groups and bounds of single values cut blocks that pooling has joined.
    if any(part.role == "totals" for _, part in kinds.sums):
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
    value = between
    for sign, end in ends:
        cut = sp.Max if sign > 0 else sp.Min
        value = cut(value, end, evaluate=False)
    return value


def _cases(between: Expression, ends: list[tuple[int, Expression]]) -> list[Case]:
    """Return the cases of a value: at each end, and between them."""
    at_ends = []
    for sign, end in ends:
        if sign > 0:
            when = sp.Le(between, end)
            which = "lower"
        else:
            when = sp.Ge(between, end)
            which = "upper"
        why = f"the {which} bound holds: the multiplier is ≥ 0"
        at_ends.append(Case(when, equation(F[V], end), why))
    inside = Case(None, equation(F[V], between), "no bound holds: the multiplier is 0")
    if len(ends) != 1:
        # What is left when the value is at neither end.
        return [*at_ends, inside]
    # Of two cases the one without a bound comes first, with its own condition.
    ((sign, end),) = ends
    when = sp.Gt(between, end) if sign > 0 else sp.Lt(between, end)
    return [replace(inside, when=when), *at_ends]


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
    form: LossForm,
    data: Any,
    ends: list[tuple[int, Expression]],
    sums: list[tuple[Constraint, Part]],
) -> Expression | None:
    """Return the multiplier of one total, where the response is linear or proportional."""
    if len(sums) != 1 or form.price is None:
        return None
    ((_, part),) = sums
    # Values at other ends would take their share of the total first.
    if part.role != "total" or any(end != 0 for _, end in ends):
        return None
    summand = 0 if data is None else data[U]
    if ends:
        # Σ over S, the values between their ends, and how many these are.
        held = sp.Sum(summand, (MEMBER, 0, D - 1))
        count = SIZE
    else:
        held = total_of(summand)
        count = D
    total = part.conditions[0].relation.rhs
    return equation(part.gradient, form.price(held, count, total))
