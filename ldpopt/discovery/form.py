"""What a search returns: a form with its evidence, or the statement that no form survived."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.discovery.compositions import Composition, composed, expression_of
from ldpopt.discovery.setting import Setting
from ldpopt.errors import InvalidInputError, warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.acceptance.judge import judge
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.solution import Solution
from ldpopt.solve.status import Status
from ldpopt.tables import data_frame, html_of

Array = NDArray[np.float64]
Family = Formulation | Callable[[int], Formulation]
"""A problem, or a function that returns it for a number of values."""

_SHOWN = 3  # refuted expressions that a representation lists


@dataclass(frozen=True)
class Evidence:
    """What a search looked at.

    Attributes
    ----------
    inputs
        By kind the number of inputs that every accepted composition was certified on.
    rejected
        By kind the number of inputs for which the problem has no solution, or the loss no value.
    tried, pruned
        The number of compositions that were run, and of those that are equal to another one.
    left
        The number of compositions that were not tried, because a form was there or time was up.
    is_complete
        Whether all compositions up to the length were tried or a form was found.
    gap, violation
        The largest certified gap, relative to the certificate's scale, and the largest violation
        of the form; infinite without one.
    seconds
        Wall time.
    """

    inputs: Mapping[str, int]
    rejected: Mapping[str, int]
    tried: int
    pruned: int
    left: int
    is_complete: bool
    gap: float
    violation: float
    seconds: float = field(compare=False)

    def __str__(self) -> str:
        kinds = _listed(self.inputs)
        lines = [
            f"inputs     {sum(self.inputs.values()):,}: {kinds}",
            f"tried      {self.tried:,} compositions, {self.pruned:,} more are equal to others",
        ]
        if self.rejected:
            kinds = _listed(self.rejected)
            lines.append(f"rejected   {sum(self.rejected.values()):,} without a solution: {kinds}")
        if self.left:
            lines.append(f"not tried  {self.left:,} compositions")
        if np.isfinite(self.gap):
            lines.append(f"gap        {self.gap:.2g} relative, violation {self.violation:.2g}")
        lines.append(f"seconds    {self.seconds:.2f}")
        return "\n".join(lines)


def _listed(kinds: Mapping[str, int]) -> str:
    """Return numbers by kind, the largest first."""
    ranked = sorted(kinds.items(), key=lambda item: -item[1])
    return ", ".join(f"{number} {kind}" for kind, number in ranked)


@dataclass(frozen=True, eq=False)
class Refuted:
    """A composition that is no form of the problem, with an input that shows it.

    Attributes
    ----------
    expression
        The composition.
    frequencies
        The simplest input at which it was seen to fail, shape (d,).
    kind
        The kind of input that it was made from.
    gap, violation
        By how much the point is above the minimum, in the loss's units (a lower bound), and the
        largest violation of a constraint. The gap of an infeasible point is NaN, and the violation
        infinite where the composition is not defined.
    right, compared
        On how many inputs it agreed with a reference solution, and with how many it was compared.
    """

    expression: str
    frequencies: Array
    kind: str
    gap: float
    violation: float
    right: int
    compared: int

    @property
    def reason(self) -> str:
        """Why it is no form, in a few words."""
        if np.isinf(self.violation):
            return "it is not defined there"
        if np.isnan(self.gap):
            return f"a constraint is violated by {self.violation:.2g}"
        return f"its loss is {self.gap:.2g} above the minimum"

    @property
    def place(self) -> str:
        """The input as a list; ``0 × 10`` stands for ten zeros."""
        parts = []
        for value, repeated in itertools.groupby(f"{value:.4g}" for value in self.frequencies):
            count = len(list(repeated))
            parts.append(f"{value} × {count}" if count > 2 else ", ".join([value] * count))
        return f"[{', '.join(parts)}]"

    def __repr__(self) -> str:
        return f"Refuted({self.expression!r}: {self.reason}, at {self.place})"


@dataclass(frozen=True, eq=False, repr=False)
class _Answer:
    """What both answers of a search have in common."""

    problem: Formulation
    evidence: Evidence
    refuted: tuple[Refuted, ...]

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("problem", self.problem.formula)]
        for line in str(self.evidence).splitlines():
            # Their first words may be two, followed by at least two spaces.
            name, _, text = line.partition("  ")
            rows.append((name, text.strip()))
        return rows

    def _lines_of_refuted(self) -> list[tuple[str, str]]:
        return [(one.expression, f"{one.reason}, at {one.place}") for one in self.refuted[:_SHOWN]]

    def to_frame(self) -> Any:
        """Return the refuted compositions as a pandas DataFrame, one row per composition.

        Raises
        ------
        MissingPackageError
            If pandas is not installed.
        """
        rows = [
            {
                "expression": one.expression,
                "gap": one.gap,
                "violation": one.violation,
                "right": one.right,
                "compared": one.compared,
                "kind": one.kind,
                "frequencies": one.frequencies,
            }
            for one in self.refuted
        ]
        return data_frame(rows, "answer.refuted")


@dataclass(frozen=True, eq=False, repr=False)
class Form(_Answer):
    """A composition of operators that was certified on every input of a search.

    Attributes
    ----------
    problem
        The problem of the size that was searched.
    evidence, refuted
        What was looked at, and shorter or more obvious compositions with counterexamples.
    operators
        The operators, the first to be applied first.
    setting
        The parameters that they take from the problem.
    family
        The problem, or the function that returns it for any number of values.
    """

    operators: Composition
    setting: Setting
    family: Family

    @cached_property
    def expression(self) -> str:
        """The operators by their names, ``pool -> level``."""
        return expression_of(self.operators)

    def __bool__(self) -> bool:
        return True

    def apply(self, values: ArrayLike) -> Array:
        """Return the form's vectors for values of shape (d,) or (..., d), without a check.

        They are of the size that was searched; ``solve`` takes any.
        """
        start = self.setting.estimate(np.asarray(values, dtype=np.float64))
        return composed(self.operators, start.frequencies, self.setting)

    def solve(self, estimate: FrequencyEstimate | ArrayLike) -> Solution:
        """Return the form's point for an estimate, judged and certified as any other solution.

        Parameters
        ----------
        estimate
            One vector or a stack of trials. Its number of values is that of the problem, or any
            that the function takes which ``discover`` was given.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If problem and estimate do not fit, or the form is not defined for the estimate.

        Warns
        -----
        LdpoptWarning
            If the point is not optimal: the form is then refuted, by this estimate.
        """
        start = FrequencyEstimate.of(estimate)
        stated = self.family(start.d) if callable(self.family) else self.family
        problem = stated.at(start)
        start = problem.accept(start)
        setting = Setting.of(problem, start)
        # The clock covers the form alone, as with other paths: judging comes after it.
        began = time.perf_counter()
        point = composed(self.operators, start.frequencies, setting)
        seconds = time.perf_counter() - began
        if not np.isfinite(point).all():
            raise InvalidInputError(
                f"{self.expression} is not defined for this estimate: solve the problem instead"
            )
        outcome = Outcome(point)
        plan = Plan("closed-form", self.expression, problem, f"is solved by {self.expression}")
        judgement = judge(problem, start, outcome, plan, "high")
        if judgement.status is not Status.OPTIMAL:
            warn(f"the form {self.expression} is refuted by this estimate: {judgement.reason}")
        return Solution(
            problem, start, point, judgement.status, "closed-form", self.expression, seconds
        )

    def latex(self) -> str:
        r"""Return the form in LaTeX, the first operator innermost.

        Multipliers t are those that meet the total.
        """
        shown = r"\tilde f"
        for operator in self.operators:
            shown = operator.latex.replace("{x}", shown)
        return rf"\hat f = {shown}"

    def code(self, language: str = "c", *, name: str = "post_process") -> str:
        """Return the form as source code that needs nothing of this library.

        Parameters
        ----------
        language
            ``"numpy"``, ``"c"`` or ``"javascript"``.
        name
            The name of the function. Its arguments and what it does with bad input stand in the
            comment at the top: see ``discovery.code_of``.

        Raises
        ------
        InvalidInputError
            If there is no such language, or the name is no identifier.
        UnsupportedProblemError
            If an operator has no source: one of a user, say.
        """
        from ldpopt.discovery.code import source_of  # only for those who take the form along

        return source_of(self.operators, self.setting, language, name=name)

    def __repr__(self) -> str:
        lines = [f"Form {self.expression}", f"  of {self.problem.statement}"]
        lines += [f"  {line}" for line in str(self.evidence).splitlines()]
        lines += [f"  refuted    {name}: {why}" for name, why in self._lines_of_refuted()]
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"

    def _repr_html_(self) -> str:
        """Return the form, its evidence and what was refuted, as notebooks show them."""
        facts = html_of((), self._rows(), title=f"Form: {self.expression}")
        return facts + html_of(("refuted", "because"), self._lines_of_refuted())


@dataclass(frozen=True, eq=False, repr=False)
class NoForm(_Answer):
    """The answer that none of the compositions survives; it is false in conditions.

    Attributes
    ----------
    problem, evidence
        As of ``Form``.
    refuted
        The best compositions first: those that were right on most inputs.
    """

    expression = ""
    operators: Composition = ()

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        number = self.evidence.tried + self.evidence.pruned
        sentence = f"none of {number:,} compositions survives"
        if not self.evidence.is_complete:
            sentence += f"; time was up with {self.evidence.left:,} more to try"
        if self.refuted:
            best = self.refuted[0]
            sentence += (
                f"; the best, {best.expression}, is right on {best.right} of {best.compared} inputs"
            )
        return sentence

    def solve(self, estimate: FrequencyEstimate | ArrayLike) -> Solution:
        """Raise an error: there is no form.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError(f"{self}: use problem.solve(estimate)")

    def __repr__(self) -> str:
        lines = [f"NoForm: {self}", f"  of {self.problem.statement}"]
        lines += [f"  {line}" for line in str(self.evidence).splitlines()]
        lines += [f"  refuted    {name}: {why}" for name, why in self._lines_of_refuted()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the sentence, the evidence and what was refuted, as notebooks show them."""
        facts = html_of((), self._rows(), [str(self)], title="No form")
        return facts + html_of(("refuted", "because"), self._lines_of_refuted())
