"""What every constraint tells the paths and the certificate.

Three forms, each optional but one: a box (bounds value by value), rows (linear inequalities lower <= A f <= upper), and the
cvxpy constraints that every one of them has. Problems whose constraints are boxes and at most one total have closed forms
or a one-root path; certificates of polyhedra use the rows.
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


@dataclass(frozen=True)
class LinearInequalities:
    """Linear inequalities lower <= matrix f + auxiliary t <= upper for some t; an equality has lower == upper.

    ``matrix`` is (m, d) and sparse, and so is ``auxiliary``, (m, k), where a set needs more variables than f to be said in few
    rows; None where it does not.
    """

    matrix: Any
    lower: Array
    upper: Array
    auxiliary: Any = None


class Constraint(Immutable):
    """A set of frequency vectors."""

    convex: ClassVar[bool] = True
    """Whether the set is convex. Solvers and certificates take convex sets only."""

    scope: ClassVar[str] = "the problem"
    """What a certificate on ``restricted_to(f)`` covers."""

    remedy: ClassVar[str] = ""
    """For a set that is not convex: which problems with it have a closed form. Used in messages."""

    reusable: ClassVar[bool] = True
    """Whether ``cone_form`` states the same set whenever it is called, so that what was compiled may be kept."""

    @abstractmethod
    def violation(self, f: Array) -> Array:
        """Return how far f of shape (..., d) is outside, in units of frequency, 0 inside: shape (...)."""

    @abstractmethod
    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the constraint on a cvxpy expression of shape (d,)."""

    def box(self, d: int) -> tuple[Array, Array] | None:
        """Return (lower, upper) of shape (d,) if the constraint is nothing but bounds, else None."""
        return None

    def total(self, d: int | None = None) -> float | None:
        """Return the sum of all d values if the constraint fixes it and states nothing else, else None.

        Without d: the sum that it fixes on every domain.
        """
        return None

    def restricted_to(self, f: Array) -> Constraint:
        """Return a convex subset that contains f, shape (d,): the constraint itself where it is convex."""
        return self

    def rows(self, d: int) -> LinearInequalities | None:
        """Return the constraint as linear inequalities, or None if it is not polyhedral (or not known to be)."""
        return None

    def row_name(self, row: int, d: int) -> str:
        """Return what a row of ``rows(d)`` says, for messages."""
        return f"row {row} of {self!r}"

    def validate_for(self, d: int) -> None:
        """Raise an error if the constraint does not fit a domain of d values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Polyhedron(Constraint):
    """Linear inequalities, in whichever way they are said. Those with auxiliary variables measure their own violation."""

    @abstractmethod
    def rows(self, d: int) -> LinearInequalities:
        """Return the inequalities."""

    def violation(self, f: Array) -> Array:
        """Return the largest violation of a row."""
        rows = self.rows(f.shape[-1])
        flat = f.reshape(-1, f.shape[-1])
        values = (rows.matrix @ flat.T).T
        outside = np.maximum(rows.lower - values, values - rows.upper).max(axis=-1, initial=0.0)
        return np.asarray(outside.reshape(f.shape[:-1]))

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return equalities and finite inequalities, with coefficients of order 1 for the solver's variable."""
        d = f.size
        rows = self.rows(d)
        equal = rows.lower == rows.upper
        below = ~equal & np.isfinite(rows.lower)
        above = ~equal & np.isfinite(rows.upper)
        values = rows.matrix @ (d * f)
        if rows.auxiliary is not None:
            import cvxpy as cp

            values += rows.auxiliary @ cp.Variable(rows.auxiliary.shape[1])
        forms = []
        if equal.any():
            forms.append(values[np.flatnonzero(equal)] == d * rows.lower[equal])
        if below.any():
            forms.append(values[np.flatnonzero(below)] >= d * rows.lower[below])
        if above.any():
            forms.append(values[np.flatnonzero(above)] <= d * rows.upper[above])
        return forms


def distinct(what: str, indices: ArrayLike) -> NDArray[np.int64]:
    """Return distinct indices as an int64 array; an error names the first that is repeated or not a whole number."""
    found = np.asarray(indices) if np.size(indices) else np.empty(0, dtype=np.int64)
    members = np.atleast_1d(validate.whole_numbers(what, found, low=0, high=2**62))
    if members.ndim != 1:
        raise InvalidInputError(
            f"{what} must be a one-dimensional array of indices, got shape {members.shape}"
        )
    unique, first = np.unique(members, return_index=True)
    if len(unique) != len(members):
        repeated = int(np.setdiff1d(np.arange(len(members)), first)[0])
        raise InvalidInputError(
            f"{what} must not repeat an index, found {members[repeated]} again at position {repeated}"
        )
    return members
