"""Symbols of conditions, how they are printed, and the pieces that losses and constraints add.

Indices run over values v and j, over rows, pairs or differences i, and over groups g. An index that
is bound by a sum or by "for all" knows its set by its name. Names are the papers' letters in
Unicode; ``LATEX`` states them for LaTeX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

Array = NDArray[Any]
Expression = Any
"""An expression or a relation of sympy."""

Kind = Literal["stationarity", "primal feasibility", "dual feasibility", "complementarity"]
KINDS: tuple[Kind, ...] = (
    "stationarity",
    "primal feasibility",
    "dual feasibility",
    "complementarity",
)

# Shared by all conditions: two symbols of one name with other assumptions would be unlike.
V = sp.Symbol("v", integer=True)
U = sp.Symbol("j", integer=True)
D = sp.Symbol("d", integer=True)
M = sp.Symbol("m", integer=True)
F = sp.IndexedBase("f")

# sympy knows Greek letters by their names, and letters with a tilde or a bar not at all.
LATEX = {
    "f̃": r"\tilde f",
    "f̄": r"\bar f",
    "m̄": r"\bar m",
    "ȳ": r"\bar y",
    "λ": r"\lambda",
    "μ": r"\mu",
    "ν": r"\nu",
    "ρ": r"\rho",
    "τ": r"\tau",
    "α": r"\alpha",
    "β": r"\beta",
    "γ": r"\gamma",
    "σ": r"\sigma",
    "δ": r"\delta",
    "κ": r"\kappa",
    "j ∈ S": r"j \in S",
}


@dataclass(frozen=True)
class Everywhere:
    """For which indices a condition holds: in words, in LaTeX, and as arrays of indices.

    Attributes
    ----------
    index
        The symbol that the condition leaves open; None where it leaves none.
    words, latex
        The set, to follow the condition.
    members
        From the number of values and the numbers of all symbols to the indices; None where the
        index has all that its name stands for.
    """

    index: Any = None
    words: str = ""
    latex: str = ""
    members: Callable[[int, Mapping[str, Array]], Array] | None = None


ONCE = Everywhere()
ALL_VALUES = Everywhere(V, "for all v", r"\text{for all } v")


@dataclass(frozen=True)
class Condition:
    """One of the conditions: a relation, and for which indices it holds.

    Attributes
    ----------
    kind
        Stationarity, primal or dual feasibility, or complementarity.
    relation
        An equation or inequality of sympy.
    where
        For which indices.
    of
        The loss or constraint that it comes from.
    """

    kind: Kind
    relation: Expression
    where: Everywhere
    of: str

    def __str__(self) -> str:
        words = f"   {self.where.words}" if self.where.words else ""
        return f"{as_text(self.relation)}{words}"


@dataclass
class Part:
    """What a constraint adds to the conditions.

    Attributes
    ----------
    gradient
        What it adds to the derivative of the Lagrangian by f_v.
    conditions
        Its feasibility, the signs of its multipliers, and complementarity.
    meanings
        What its symbols stand for, by their names.
    data
        From a number of values to the numbers of its symbols, by name.
    multipliers
        From its entry of ``Certificate.duals`` and the point to the numbers of its multipliers.
    ranges
        From a number of values to how far its own indices run, by their names.
    ends
        Of bounds: 1 and the lower ends, -1 and the upper ones.
    role
        What it is in a case split beside bounds: a ``total`` of all values, ``totals`` of disjoint
        groups, or an ``order`` that may be imposed by pooling; None for all others.
    """

    gradient: Expression
    conditions: list[Condition]
    meanings: dict[str, str]
    multipliers: Callable[[Any, Array], Mapping[str, Array]]
    data: Callable[[int], Mapping[str, Array]] = field(default=lambda _: {})
    ranges: Callable[[int], Mapping[str, int]] = field(default=lambda _: {})
    ends: list[tuple[int, Expression]] = field(default_factory=list)
    role: Literal["total", "totals", "order"] | None = None


class Names:
    """Names of symbols, each given once: the second λ is λ2."""

    def __init__(self) -> None:
        # The frequencies have this letter in every problem.
        self._used: set[str] = {"f"}

    def new(self, letter: str) -> str:
        """Return a name that nothing else has."""
        name = letter
        # The first has no number: most problems need each letter once.
        number = 2
        while name in self._used:
            name = f"{letter}{number}"
            number += 1
        self._used.add(name)
        return name

    def base(self, letter: str) -> Any:
        """Return a new family of symbols, indexed by values or rows."""
        return sp.IndexedBase(self.new(letter))

    def symbol(self, letter: str) -> Any:
        """Return a new symbol of one number."""
        return sp.Symbol(self.new(letter), real=True)

    def index(self, letter: str) -> Any:
        """Return a new index."""
        return sp.Symbol(self.new(letter), integer=True)


def number(value: float) -> Any:
    """Return a number as sympy's: an integer where it is one, so that 1.0 is printed as 1."""
    value = float(value)
    # From the shortest text that is this number: 0.1 is printed as 0.1, not with 17 digits.
    return sp.Integer(int(value)) if value.is_integer() else sp.Float(repr(value))


def values_or_number(bound: Array, names: Names, letter: str) -> tuple[Any, dict[str, Array]]:
    """Return a bound as an expression in v, and the numbers of its symbol if it needs one."""
    if np.ndim(bound) == 0:
        return number(float(bound)), {}
    base = names.base(letter)
    return base[V], {base.name: np.asarray(bound)}


def total_of(term: Expression) -> Any:
    """Return Σ_j of an expression in j, over all values."""
    # The end is a symbol, so that conditions are of any number of values.
    return sp.Sum(term, (U, 0, D - 1))


def sum_over(term: Expression, index: Any) -> Any:
    """Return the sum of an expression over all that an index of rows or pairs stands for."""
    return sp.Sum(term, (index, 0, M - 1))


def equation(left: Expression, right: Expression = 0) -> Any:
    """Return left = right, as it is stated: sympy would decide what it can see to be true."""
    return sp.Eq(left, right, evaluate=False)


def at_least(left: Expression, right: Expression = 0) -> Any:
    """Return left >= right."""
    return sp.Ge(left, right, evaluate=False)


def at_most(left: Expression, right: Expression = 0) -> Any:
    """Return left <= right."""
    return sp.Le(left, right, evaluate=False)


# --- how they are printed -------------------------------------------------------------------------


def _subscripts(indices: Any, shown: Callable[[Any], str]) -> str:
    return "".join(shown(index) for index in indices)


# Letters that multipliers begin with: they stand behind the data in a sum.
_MULTIPLIERS = set("λμνρταβγs")


def _ordered_terms(expr: Any) -> list[Any]:
    """Return the terms of a sum as readers expect them: those of f, of data, of multipliers."""

    def place(term: Any) -> tuple[int, bool, str]:
        letters = {symbol.name[:1] for symbol in term.free_symbols if hasattr(symbol, "name")}
        if term.has(F):
            group = 0
        elif letters & _MULTIPLIERS:
            group = 2
        else:
            group = 1
        return group, term.could_extract_minus_sign(), str(term)

    terms = sorted(expr.args, key=place)
    # No sign in front where a term without one may stand there.
    unsigned = [i for i, term in enumerate(terms) if not term.could_extract_minus_sign()]
    first = unsigned[0] if unsigned else 0
    return [terms[first], *terms[:first], *terms[first + 1 :]]


class _Text(StrPrinter):  # type: ignore[misc]  # Any, as all of sympy is
    """Conditions as text in the papers' letters."""

    # The name of a method that no expression has: indexed symbols would print themselves.
    printmethod = "_as_conditions"

    def _as_ordered_terms(self, expr: Any, order: Any = None) -> list[Any]:
        return _ordered_terms(expr)

    def _print_Indexed(self, expr: Any) -> str:
        # f_v, but f[a_i]: an index with an index of its own wants brackets.
        plain = all(index.is_Symbol for index in expr.indices)
        inner = _subscripts(expr.indices, self._print)
        base = self._print(expr.base.label)
        return f"{base}_{inner}" if plain else f"{base}[{inner}]"

    def _print_Sum(self, expr: Any) -> str:
        term = self._print(expr.function)
        # A sum reaches as far as its bracket, or over one product.
        if expr.function.is_Add or expr.function.is_Relational:
            term = f"({term})"
        return f"Σ_{expr.limits[0][0]} {term}"

    def _print_Abs(self, expr: Any) -> str:
        return f"|{self._print(expr.args[0])}|"

    def _print_KroneckerDelta(self, expr: Any) -> str:
        # sympy sorts the two sides by its own order: the longer one first reads as a statement.
        left, right = sorted(map(self._print, expr.args), key=len, reverse=True)
        return f"[{left} = {right}]"

    def _print_Relational(self, expr: Any) -> str:
        signs = {"==": "=", ">=": "≥", "<=": "≤", ">": ">", "<": "<"}
        return f"{self._print(expr.lhs)} {signs[expr.rel_op]} {self._print(expr.rhs)}"

    def _print_Max(self, expr: Any) -> str:
        # sympy puts the number first: max(f, 0) is what papers write.
        return f"max({', '.join(map(self._print, reversed(expr.args)))})"

    def _print_Min(self, expr: Any) -> str:
        return f"min({', '.join(map(self._print, reversed(expr.args)))})"


def as_text(expression: Expression) -> str:
    """Return an expression as text."""
    text = _Text({"full_prec": False}).doprint(expression)
    # Squares first: the general power would take them for its own.
    return str(text).replace("**2", "²").replace("**", "^").replace("*", "·")


class _Latex(LatexPrinter):  # type: ignore[misc]  # Any, as all of sympy is
    """Conditions in LaTeX: sums name their index alone, and brackets are Iverson's."""

    def _as_ordered_terms(self, expr: Any, order: Any = None) -> list[Any]:
        return _ordered_terms(expr)

    def _print_Sum(self, expr: Any) -> str:
        term = self._print(expr.function)
        if expr.function.is_Add:
            term = rf"\left({term}\right)"
        return rf"\sum_{{{self._print(expr.limits[0][0])}}} {term}"

    def _print_KroneckerDelta(self, expr: Any, exp: Any = None) -> str:
        left, right = sorted(map(self._print, expr.args), key=len, reverse=True)
        return f"[{left} = {right}]"

    def _print_Indexed(self, expr: Any) -> str:
        inner = _subscripts(expr.indices, self._print)
        return f"{self._print(expr.base.label)}_{{{inner}}}"

    def _print_Symbol(self, expr: Any, style: str = "plain") -> str:
        # The second λ is λ2 in text, and gets a raised number here.
        letter = expr.name.rstrip("0123456789")
        count = expr.name[len(letter) :]
        prime = rf"^{{({count})}}" if count else ""
        return f"{LATEX.get(letter, letter)}{prime}"


def as_latex(expression: Expression) -> str:
    """Return an expression in LaTeX."""
    # Fractions in full: folded ones, x / 2, read badly beside sums.
    printer = _Latex({"full_prec": False, "mul_symbol": None, "fold_short_frac": False})
    return str(printer.doprint(expression))
