"""The Karush-Kuhn-Tucker conditions of a problem, as text, in LaTeX, and in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from ldpopt.constraints import Constraint
from ldpopt.errors import InvalidInputError, InvalidTypeError, UnsupportedProblemError
from ldpopt.solve.certificate.duals import names_of
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.kkt.evaluation import Numbers
from ldpopt.solve.kkt.notation import (
    KINDS,
    Condition,
    Names,
    Part,
    as_latex,
    equation,
)
from ldpopt.solve.kkt.of_constraints import constraint_part
from ldpopt.solve.kkt.of_losses import (
    LossForm,
    kink_conditions,
    loss_form,
    no_loss,
    nonnegative_conditions,
    subgradients,
)
from ldpopt.solve.kkt.of_penalties import PricedPart, priced_part, split_off
from ldpopt.solve.kkt.split import MEMBER, SIZE, CaseSplit, split_of
from ldpopt.solve.solution import Solution
from ldpopt.tables import html_of

Array = NDArray[Any]

_AT_ZERO = 1e-9
"""Share of the largest frequency up to which a value counts as held at 0: a solver's rounding."""


@dataclass(frozen=True)
class KKT:
    """The conditions that a point and multipliers satisfy exactly if the point is the minimiser.

    ``str`` and ``print`` show them as text, ``latex()`` and notebooks as formulas.

    Attributes
    ----------
    problem
        The problem, at the present values of its parameters.
    conditions
        Stationarity, primal and dual feasibility, and complementarity, in this order. Each has a
        ``relation`` of sympy, the indices ``where`` it holds, and the part ``of`` the problem that
        it comes from.
    meanings
        What each symbol stands for.
    split
        The case split that leads to the closed form; None where no multiplier can be eliminated so.
    form
        How the problem is solved, for a usual estimate.
    """

    problem: Formulation
    conditions: tuple[Condition, ...]
    meanings: Mapping[str, str]
    split: CaseSplit | None
    form: str
    _loss_form: LossForm
    _parts: tuple[Part, ...]
    _priced: tuple[PricedPart, ...] = ()

    def of_kind(self, kind: str) -> list[Condition]:
        """Return the conditions of one kind."""
        return [condition for condition in self.conditions if condition.kind == kind]

    def latex(self) -> str:
        r"""Return the conditions in LaTeX, as one ``aligned`` environment.

        Examples
        --------
        >>> from ldpopt import Problem, constraints, losses
        >>> free = Problem(losses.LeastSquares(), [constraints.SumsTo(1.0)]).kkt()
        >>> print(free.latex().splitlines()[2])
        & f_{v} - \tilde f_{v} + \mu = 0 && \text{for all } v \\
        """
        rows = []
        for kind in KINDS:
            conditions = self.of_kind(kind)
            # Without inequalities there are two kinds alone, and an empty heading would puzzle.
            if not conditions:
                continue
            rows.append(rf"& \textbf{{{kind}}} &&")
            rows += [f"& {as_latex(c.relation)} && {c.where.latex}".rstrip() for c in conditions]
        if self.split is not None:
            rows += [r"& \textbf{case split} &&", *self.split.latex_rows]
        lines = " \\\\\n".join(rows)
        return f"\\begin{{aligned}}\n{lines}\n\\end{{aligned}}"

    def __repr__(self) -> str:
        lines = [f"KKT conditions of {self.problem.formula}"]
        for kind in KINDS:
            conditions = self.of_kind(kind)
            if conditions:
                lines += [f"{kind}:", *(f"    {condition}" for condition in conditions)]
        if self.split is not None:
            lines += [f"case split ({self.form}):"]
            lines += [f"    {line}" for line in self.split.lines]
        lines.append("where")
        lines += [f"    {name}: {meaning}" for name, meaning in self.meanings.items()]
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"

    def _repr_html_(self) -> str:
        """Return the conditions as a table, where a page does not typeset formulas."""
        rows: list[tuple[str, str]] = []
        for kind in KINDS:
            rows += _under(kind, [str(condition) for condition in self.of_kind(kind)])
        if self.split is not None:
            rows += _under("case split", self.split.lines)
        rows += _under("where", [f"{name}: {meaning}" for name, meaning in self.meanings.items()])
        return html_of((), rows, title=f"KKT conditions of {self.problem.formula}")

    def residuals(self, solution: Solution) -> Residuals:
        """Return by how much a solution fails each condition, with its certificate's multipliers.

        The stated relations themselves are evaluated, sign by sign.

        Parameters
        ----------
        solution
            Of one vector, by any path. The conditions are those of this object's problem.

        Raises
        ------
        InvalidInputError
            If it is a solution of a stack, or of another problem.

        Notes
        -----
        Cost: that of the certificate; and the product of rows and values where constraints have
        rows, which makes it a check for up to some thousand values.

        Examples
        --------
        >>> from ldpopt import Problem, constraints, losses
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> problem = Problem(losses.LeastSquares(), simplex)
        >>> residuals = problem.kkt().residuals(problem.solve([0.5, 0.2, -0.01]))
        >>> residuals.largest < 1e-12
        True
        """
        if not isinstance(solution, Solution):
            raise InvalidTypeError(
                f"residuals takes a solution, as problem.solve returns it, got a "
                f"{type(solution).__name__}"
            )
        f = solution.frequencies
        # The conditions of a stack would be those of its vectors, one by one.
        if f.ndim != 1:
            raise InvalidInputError(
                "residuals takes the solution of one vector, not of a stack: solve estimate[0], say"
            )
        # Parameters may have changed since the solve: its own values count.
        stated = solution.problem.at(solution.start)
        if (stated.loss, stated.constraints) != (self.problem.loss, self.problem.constraints):
            which = f"one of {stated.statement}"
            # Losses and constraints with arrays may read the same and hold other numbers.
            if stated.statement == self.problem.statement:
                which = "of a problem with other objects: ask solution.problem.kkt()"
            raise InvalidInputError(
                f"these are the conditions of {self.problem.statement}, and the solution is {which}"
            )
        numbers = self._numbers(solution)
        amounts = [numbers.residual(condition, len(f)) for condition in self.conditions]
        # The formula is no condition of its own, and yet it can be wrong.
        of_split = None
        if self.split is not None:
            of_split = self.split.excess(numbers, len(f))
        return Residuals(self.conditions, tuple(amounts), of_split)

    def _numbers(self, solution: Solution) -> Numbers:
        """Return the numbers of all symbols at a solution."""
        f = solution.frequencies
        start = solution.start
        d = len(f)
        arrays: dict[str, Array] = {"f": f, **self._loss_form.numbers(start)}
        ranges: dict[str, int | Array] = {"v": d, "j": d}
        # In the order of the constraints, as the parts are.
        duals = solution.certificate.duals.values()
        for part, dual in zip(self._parts, duals, strict=True):
            arrays |= {**part.data(d), **part.multipliers(dual, f)}
            ranges |= part.ranges(d)
        for priced in self._priced:
            arrays |= priced.data(d)
            ranges |= priced.ranges(d)
        # The number of values stands in some formulas as a symbol.
        arrays |= {"d": np.asarray(float(d))}
        if self._loss_form.kinks or self._priced:
            arrays |= self._slopes_at_kinks(Numbers(arrays, ranges), arrays, f)
        if self.split is not None:
            arrays |= self.split.pooled_data(self.problem.loss.bare, start)
            between = np.flatnonzero(np.abs(f) > _AT_ZERO * np.max(np.abs(f)))
            ranges[MEMBER.name] = between
            arrays[SIZE.name] = np.asarray(float(len(between)))
            if self.split.free is not None:
                short, long = self.split.free.args
                places = {"v": np.arange(d)}
                arrays[short.base.name] = Numbers(arrays, ranges).value(long, places)
        return Numbers(arrays, ranges)

    def _slopes_at_kinks(
        self, numbers: Numbers, arrays: Mapping[str, Array], f: Array
    ) -> dict[str, Array]:
        """Return the slopes of absolute values and of prices that explain a solution best.

        They are no multipliers of constraints, so that no certificate has them.
        """
        gradient = sp.Add(*[part.gradient for part in self._parts])
        gradient += self._loss_form.slope()
        # What is left of the gradient without these slopes is what they have to explain.
        signs = [kink.sign for kink in self._loss_form.kinks]
        smooth = gradient.subs(dict.fromkeys(signs, 0))
        rest = numbers.value(smooth, {"v": np.arange(len(f))})
        rest = np.broadcast_to(rest, f.shape)
        slopes = dict(subgradients(self._loss_form, arrays, rest, f))
        for priced in self._priced:
            slopes |= priced.slopes(rest)
        return slopes


@dataclass(frozen=True)
class Residuals:
    """By how much conditions fail at a point, in their own units.

    Attributes
    ----------
    conditions, amounts
        The conditions, and the largest failure of each.
    of_split
        By how much the formula of the case split, and what it leaves for the multiplier, fail at
        most; None without one.
    """

    conditions: tuple[Condition, ...]
    amounts: tuple[float, ...]
    of_split: float | None

    @property
    def largest(self) -> float:
        """The largest failure of all."""
        # A problem without conditions on a free set fails none.
        return max([*self.amounts, self.of_split or 0.0], default=0.0)

    def by_kind(self) -> dict[str, float]:
        """Return the largest failure of each kind of condition."""
        largest: dict[str, float] = {}
        for condition, amount in zip(self.conditions, self.amounts, strict=True):
            largest[condition.kind] = max(amount, largest.get(condition.kind, 0.0))
        if self.of_split is not None:
            largest["case split"] = self.of_split
        return largest

    def __repr__(self) -> str:
        parts = ", ".join(f"{kind}: {amount:.2g}" for kind, amount in self.by_kind().items())
        return f"Residuals({parts})"

    def _rows(self) -> list[tuple[str, str, str]]:
        rows: list[tuple[str, str, str]] = [
            (condition.kind, str(condition), f"{amount:.2g}")
            for condition, amount in zip(self.conditions, self.amounts, strict=True)
        ]
        if self.of_split is not None:
            rows.append(("case split", "f as its formula", f"{self.of_split:.2g}"))
        return rows

    def _repr_html_(self) -> str:
        """Return a table of the conditions and their failures."""
        return html_of(("kind", "condition", "fails by"), self._rows(), title="Residuals")


def conditions_of(problem: Formulation, form: str) -> KKT:
    """Return the conditions of a problem without open parameters.

    Parameters
    ----------
    problem
        The problem.
    form
        How it is solved, in words.

    Raises
    ------
    UnsupportedProblemError
        If the loss is no sum over values, or a constraint has no conditions value by value.
    """
    # One set of names for loss and constraints, so that no letter means two things.
    names = Names()
    by_value, prices = split_off(problem.loss)
    form_of_loss = no_loss() if by_value is None else loss_form(by_value, names)
    if prices and form_of_loss.kinks:
        raise UnsupportedProblemError(
            f"{problem.loss!r}: conditions are written of absolute values or of a price on several "
            "values, not of both, whose slopes a solution does not tell apart"
        )
    loss = repr(problem.loss)
    priced = [priced_part(weight, penalty, loss, names) for weight, penalty in prices]
    stated: list[tuple[Constraint, Part]] = []
    for name, constraint in zip(names_of(problem.constraints), problem.constraints, strict=True):
        stated.append((constraint, constraint_part(constraint, name, names)))
    parts = [part for _, part in stated]
    every: list[Part | PricedPart] = [*priced, *parts]
    # Stationarity: the slope of the loss and what everything else adds to it cancel.
    gradient = sp.Add(form_of_loss.slope(), *[part.gradient for part in every])
    conditions = [
        Condition("stationarity", equation(gradient), form_of_loss.where(), loss),
        *kink_conditions(form_of_loss, loss),
        *nonnegative_conditions(form_of_loss, loss),
    ]
    meanings = dict(form_of_loss.meanings)
    for part in every:
        conditions += part.conditions
        meanings |= part.meanings
    # A price on several values leaves no multiplier that can be eliminated value by value.
    split = None if priced else split_of(form_of_loss, stated, names)
    return KKT(
        problem=problem,
        conditions=_by_kind(_distinct(conditions)),
        meanings=meanings,
        split=split,
        form=form,
        _loss_form=form_of_loss,
        _parts=tuple(parts),
        _priced=tuple(priced),
    )


def _by_kind(conditions: list[Condition]) -> tuple[Condition, ...]:
    """Return conditions in the order of kinds, within a kind in that of loss and constraints."""
    # Sorting keeps the order of what is equal.
    return tuple(sorted(conditions, key=lambda condition: KINDS.index(condition.kind)))


def _under(heading: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return rows of a table whose heading stands in the first of them alone."""
    return [(heading if i == 0 else "", line) for i, line in enumerate(lines)]


def _distinct(conditions: list[Condition]) -> list[Condition]:
    """Return the conditions without those that an earlier one states in the same words."""
    # A divergence and f >= 0 state the same sign; readers should meet it once.
    seen: dict[str, Condition] = {}
    for condition in conditions:
        seen.setdefault(f"{condition.kind}: {condition}", condition)
    return list(seen.values())
