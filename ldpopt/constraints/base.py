"""What a constraint states about itself, and the polyhedra that most of them are.

A constraint has a violation and a cone form. Beyond these it may be a box (bounds value by value),
a total (the sum of all values), or rows (linear inequalities lower <= A f <= upper): problems of
boxes and one total have closed forms or a search for one root, and certificates of polyhedra use
the rows. Shapes: f is (..., d), a violation (...).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.immutable import Immutable

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]
INDEX_BOUND = 2**62
"""An upper bound for indices of a domain whose size is not known yet."""


@dataclass(frozen=True)
class LinearInequalities:
    """Linear inequalities lower <= matrix f + auxiliary t <= upper for some t.

    An equality has lower == upper. ``matrix`` is (m, d) and sparse, and so is ``auxiliary``,
    (m, k), for sets that take many rows in f alone and few with more variables; None without them.
    """

    matrix: Any
    lower: Array
    upper: Array
    auxiliary: Any = None


class Constraint(Immutable):
    """A set of frequency vectors.

    A new constraint states ``violation`` and ``cone_form``; everything else has a default, and each
    further method that it overrides opens a faster path to it.
    """

    convex: ClassVar[bool] = True
    """Whether the set is convex. Solvers take convex sets only."""

    remedy: ClassVar[str] = ""
    """For a set that is not convex: which problems with it have a closed form, for messages."""

    name: str = ""
    """What ``Solution.duals`` calls the constraint; its class's name if empty."""

    largest_support: int | None = None
    """How many values may differ from zero, None for any number."""

    reusable: ClassVar[bool] = True
    """Whether ``cone_form`` states the same set on every call, so that it may stay compiled."""

    @property
    def formula(self) -> str:
        """The set in the papers' letters, for tables; empty where it has none that is short."""
        return ""

    @abstractmethod
    def violation(self, f: Array) -> Array:
        """Return how far f of shape (..., d) is outside, in units of frequency, 0 inside."""

    @abstractmethod
    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the constraint on a cvxpy expression of shape (d,)."""

    def validate_for(self, d: int) -> None:
        """Raise an error if the constraint does not fit a domain of d values."""

    def box(self, d: int) -> tuple[Array, Array] | None:
        """Return (lower, upper), each (d,), if the constraint is nothing but bounds, else None."""
        return None

    def total(self, d: int | None = None) -> float | None:
        """Return the sum of all d values if the constraint fixes it and nothing else, or None.

        Without d: the sum that it fixes on every domain.
        """
        return None

    def rows(self, d: int) -> LinearInequalities | None:
        """Return the constraint as linear inequalities, or None if it is not polyhedral."""
        return None

    def row_name(self, row: int, d: int) -> str:
        """Return what a row of ``rows(d)`` states, for messages."""
        return f"row {row} of {self!r}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Polyhedron(Constraint):
    """Base class of polyhedral constraints: ``rows`` states them in full.

    Those whose rows have auxiliary variables measure their violation themselves.
    """

    @abstractmethod
    def rows(self, d: int) -> LinearInequalities:
        """Return the inequalities."""

    def violation(self, f: Array) -> Array:
        """Return the largest violation of a row."""
        rows = self.rows(f.shape[-1])
        flat = f.reshape(-1, f.shape[-1])
        values = (rows.matrix @ flat.T).T
        # A side without a bound gives -inf, which the maximum with 0 drops.
        outside = np.maximum(rows.lower - values, values - rows.upper)
        largest = outside.max(axis=-1, initial=0.0)
        return np.asarray(largest.reshape(f.shape[:-1]))

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return equalities and finite inequalities."""
        # The solver's variable is d f: times d, its coefficients are of order 1.
        return row_forms(self.rows(f.size), f, f.size)


def row_forms(rows: LinearInequalities, f: cp.Expression, unit: int) -> list[cp.Constraint]:
    """Return linear inequalities times a unit: equalities, then finite lower and upper bounds."""
    values = rows.matrix @ (unit * f)
    if rows.auxiliary is not None:
        import cvxpy as cp  # slow to import, as everywhere in this folder

        values += rows.auxiliary @ cp.Variable(rows.auxiliary.shape[1])
    # An equality as two inequalities would leave the feasible set without an interior, which
    # interior-point solvers need.
    is_equality = rows.lower == rows.upper
    equal = np.flatnonzero(is_equality)
    below = np.flatnonzero(~is_equality & np.isfinite(rows.lower))
    above = np.flatnonzero(~is_equality & np.isfinite(rows.upper))
    forms = []
    # cvxpy takes no constraint on an empty selection.
    if len(equal):
        forms.append(values[equal] == unit * rows.lower[equal])
    if len(below):
        forms.append(values[below] >= unit * rows.lower[below])
    if len(above):
        forms.append(values[above] <= unit * rows.upper[above])
    return forms


def distinct_indices(what: str, indices: ArrayLike) -> NDArray[np.int64]:
    """Return distinct indices as an int64 array of shape (m,).

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If one is repeated (the first is named), negative or no whole number.
    """
    validate.unmasked(what, indices)
    # An empty list would become an array of floats.
    given = np.asarray(indices) if np.size(indices) else np.empty(0, dtype=np.int64)
    checked = validate.whole_numbers(what, given, low=0, high=INDEX_BOUND)
    members = np.atleast_1d(checked)
    if members.ndim != 1:
        raise InvalidInputError(
            f"{what} must be a one-dimensional array of indices, got shape {members.shape}"
        )
    at = first_repetition(members)
    if at is not None:
        raise InvalidInputError(
            f"{what} must not repeat an index, found {members[at]} again at position {at}"
        )
    return members


def first_repetition(rows: NDArray[np.int64]) -> int | None:
    """Return the first position whose entry (of pairs: whose row) occurs before, or None."""
    _, first = np.unique(rows, axis=0, return_index=True)
    if len(first) == len(rows):
        return None
    return int(np.setdiff1d(np.arange(len(rows)), first)[0])
