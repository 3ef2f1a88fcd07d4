"""Where the minimum is sought: each constraint knows its violation and the forms that the paths need.

Three forms, each optional but one: a box (bounds value by value), rows (linear inequalities lower <= A f <= upper), and the
cvxpy constraints that every one of them has. Problems whose constraints are boxes and at most one total have closed forms
or a one-root path; certificates of polyhedra use the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Linear inequalities lower <= matrix f <= upper; an equality has lower == upper. ``matrix`` is (m, d), sparse."""

    matrix: Any
    lower: Array
    upper: Array


class Constraint(ABC):
    """A set of frequency vectors."""

    @abstractmethod
    def violation(self, f: Array) -> Array:
        """Return how far f of shape (..., d) is outside, in units of frequency, 0 inside: shape (...)."""

    @abstractmethod
    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the constraint on a cvxpy expression of shape (d,)."""

    def box(self, d: int) -> tuple[Array, Array] | None:
        """Return (lower, upper) of shape (d,) if the constraint is nothing but bounds, else None."""
        return None

    def rows(self, d: int) -> Rows | None:
        """Return the constraint as linear inequalities, or None if it is not polyhedral (or not known to be)."""
        return None

    def check(self, d: int) -> None:  # noqa: B027 - most constraints fit every domain
        """Raise an error if the constraint does not fit a domain of d values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Box(Constraint):
    """Bounds value by value, in whichever way they are said."""

    @abstractmethod
    def box(self, d: int) -> tuple[Array, Array]:
        """Return (lower, upper) of shape (d,)."""

    def violation(self, f: Array) -> Array:
        """Return the largest distance of a value from its bounds."""
        lower, upper = self.box(f.shape[-1])
        return np.asarray(np.max(np.maximum(lower - f, f - upper), axis=-1).clip(min=0.0))

    def rows(self, d: int) -> Rows:
        """Return the bounds as rows."""
        from scipy import sparse

        return Rows(sparse.eye_array(d, format="csr"), *self.box(d))

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the finite bounds, with coefficients of order 1 for the solver's variable, which counts in units of 1/d."""
        d = f.size
        lower, upper = self.box(d)
        forms = []
        for bound, sign in ((lower, 1), (upper, -1)):
            finite = np.flatnonzero(np.isfinite(bound))
            if len(finite):
                forms.append(sign * d * (f[finite] if len(finite) < d else f) >= sign * d * bound[finite])
        return forms


class NonNegative(_Box):
    """f_v >= 0 for every value.

    Examples
    --------
    >>> float(NonNegative().violation(np.array([0.5, -0.25])))
    0.25
    """

    def box(self, d: int) -> tuple[Array, Array]:
        """Return 0 and infinity."""
        return np.zeros(d), np.full(d, np.inf)


class Bounds(_Box):
    """lower <= f_v <= upper.

    Parameters
    ----------
    lower, upper
        A number for all values, or one a value; -inf and inf stand for no bound.

    Raises
    ------
    InvalidInputError
        If a lower bound is above its upper bound (the first index is named), or one is NaN.

    Examples
    --------
    >>> float(Bounds(0.0, 0.4).violation(np.array([0.5, 0.25])))
    0.09999999999999998
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower = validate.array("lower", lower).astype(np.float64)
        self.upper = validate.array("upper", upper).astype(np.float64)
        try:
            crossed = ~np.atleast_1d((self.lower <= self.upper) & (self.lower < np.inf) & (self.upper > -np.inf))
        except ValueError:
            raise InvalidInputError(
                f"lower and upper must be numbers or of one shape, got {self.lower.shape} and {self.upper.shape}"
            ) from None
        if crossed.any():
            at = int(np.argmax(crossed))
            low, high = (np.broadcast_to(x, crossed.shape)[at] for x in (self.lower, self.upper))
            raise InvalidInputError(
                f"lower must be <= upper, found {low} and {high} at index {at}: no number lies between"
            )

    def check(self, d: int) -> None:
        """Raise an error unless the bounds are numbers or d of them."""
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound.shape not in ((), (d,)):
                raise InvalidInputError(f"{name} must be a number or have shape ({d},), got {bound.shape}")

    def box(self, d: int) -> tuple[Array, Array]:
        """Return the bounds, one a value."""
        return np.broadcast_to(self.lower, (d,)).copy(), np.broadcast_to(self.upper, (d,)).copy()

    def __repr__(self) -> str:
        said = (f"{x:g}" if x.ndim == 0 else f"<{len(x)} values>" for x in (self.lower, self.upper))
        return f"Bounds({', '.join(said)})"


class Fixed(_Box):
    """f_v = value for some values: they are known.

    Parameters
    ----------
    indices
        Distinct indices of the domain.
    values
        One finite number an index.

    Examples
    --------
    >>> float(Fixed([1], [0.25]).violation(np.array([0.5, 0.5])))
    0.25
    """

    def __init__(self, indices: ArrayLike, values: ArrayLike) -> None:
        self.indices = _distinct("indices", indices)
        self.values = np.atleast_1d(validate.array("values", values).astype(np.float64))
        if self.values.shape != self.indices.shape or not np.isfinite(self.values).all():
            raise InvalidInputError(
                f"values must be {len(self.indices)} finite numbers, one an index, got {self.values}"
            )

    def check(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        validate.whole_numbers("indices", self.indices, low=0, high=d - 1)

    def box(self, d: int) -> tuple[Array, Array]:
        """Return the fixed values as both bounds, and no bounds elsewhere."""
        lower, upper = np.full(d, -np.inf), np.full(d, np.inf)
        lower[self.indices] = upper[self.indices] = self.values
        return lower, upper

    def __repr__(self) -> str:
        return f"Fixed(<{len(self.indices)} values>)"


class _Rows(Constraint):
    """Linear inequalities, in whichever way they are said."""

    @abstractmethod
    def rows(self, d: int) -> Rows:
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
        forms = []
        if equal.any():
            forms.append(values[np.flatnonzero(equal)] == d * rows.lower[equal])
        if below.any():
            forms.append(values[np.flatnonzero(below)] >= d * rows.lower[below])
        if above.any():
            forms.append(values[np.flatnonzero(above)] <= d * rows.upper[above])
        return forms


class SumsTo(_Rows):
    """Σ f_v = total.

    Parameters
    ----------
    total
        A finite number; 1 for a distribution.

    Examples
    --------
    >>> float(SumsTo(1.0).violation(np.array([0.5, 0.25])))
    0.25
    """

    def __init__(self, total: float = 1.0) -> None:
        self.total = validate.real("total", total)

    def violation(self, f: Array) -> Array:
        """Return abs(Σ f - total)."""
        return np.asarray(np.abs(np.sum(f, axis=-1) - self.total))

    def rows(self, d: int) -> Rows:
        """Return one row of ones."""
        from scipy import sparse

        total = np.array([self.total])
        return Rows(sparse.csr_array(np.ones((1, d))), total, total)

    def __repr__(self) -> str:
        return f"SumsTo({self.total:g})"


class GroupTotals(_Rows):
    """Σ_{v in group} f_v = total for each group: totals known from elsewhere, such as a census. Groups may overlap.

    Parameters
    ----------
    groups
        Index arrays, each without repetition.
    totals
        One finite number a group.

    Examples
    --------
    >>> float(GroupTotals([[0, 1], [2]], [0.5, 0.5]).violation(np.array([0.25, 0.25, 0.25])))
    0.25
    """

    def __init__(self, groups: Sequence[ArrayLike], totals: ArrayLike) -> None:
        if not np.iterable(groups):
            raise InvalidTypeError(f"groups must be a sequence of index arrays, got {groups!r}")
        self.groups = [_distinct(f"group {i}", group) for i, group in enumerate(groups)]
        self.totals = np.atleast_1d(validate.array("totals", totals).astype(np.float64))
        if self.totals.shape != (len(self.groups),) or not np.isfinite(self.totals).all():
            raise InvalidInputError(f"totals must be {len(self.groups)} finite numbers, one a group, got {self.totals}")

    def check(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        for i, group in enumerate(self.groups):
            validate.whole_numbers(f"group {i}", group, low=0, high=d - 1)

    @property
    def disjoint(self) -> bool:
        """Whether no value is in two groups."""
        members = np.concatenate([np.empty(0, dtype=np.int64), *self.groups])
        return len(np.unique(members)) == len(members)

    def rows(self, d: int) -> Rows:
        """Return the membership matrix of the groups."""
        from ldpopt.queries import membership

        return Rows(membership(self.groups, d), self.totals, self.totals)

    def __repr__(self) -> str:
        return f"GroupTotals(<{len(self.groups)} groups>)"


class Monotone(_Rows):
    """f does not increase along ``order``: f[order[0]] >= f[order[1]] >= … .

    Parameters
    ----------
    order
        Distinct indices, the most frequent value first; values outside it are free.

    Examples
    --------
    >>> float(Monotone([2, 0, 1]).violation(np.array([0.5, 0.25, 0.25])))
    0.25
    """

    def __init__(self, order: ArrayLike) -> None:
        self.order = _distinct("order", order)

    def check(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        validate.whole_numbers("order", self.order, low=0, high=d - 1)

    def rows(self, d: int) -> Rows:
        """Return one row of differences a neighbouring pair."""
        from scipy import sparse

        pairs = max(len(self.order) - 1, 0)
        row = np.repeat(np.arange(pairs), 2)
        column = np.stack([self.order[:-1], self.order[1:]], axis=1).reshape(-1)
        matrix = sparse.csr_array((np.tile([1.0, -1.0], pairs), (row, column)), shape=(pairs, d))
        return Rows(matrix, np.zeros(pairs), np.full(pairs, np.inf))

    def __repr__(self) -> str:
        return f"Monotone(<{len(self.order)} values>)"


class Linear(_Rows):
    """lower <= A f <= upper.

    Parameters
    ----------
    A
        Matrix of shape (m, d), dense or scipy sparse.
    lower, upper
        Numbers or arrays of shape (m,); -inf and inf stand for no bound, equal ones for an equality.

    Examples
    --------
    >>> float(Linear([[1.0, -1.0]], 0.0, np.inf).violation(np.array([0.25, 0.5])))
    0.25
    """

    def __init__(self, A: Any, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf) -> None:
        from scipy import sparse

        if not sparse.issparse(A) and np.ndim(A) > 2:
            raise InvalidInputError(f"A must have shape (m, d), got {np.shape(A)}")
        dense_or_sparse: Any = A if sparse.issparse(A) else np.atleast_2d(validate.array("A", A)).astype(np.float64)
        self.matrix = sparse.csr_array(dense_or_sparse)
        m = self.matrix.shape[0]
        bounds = Bounds(lower, upper)
        if not np.isfinite(self.matrix.data).all():
            raise InvalidInputError("A must be finite")
        if bounds.lower.shape not in ((), (m,)) or bounds.upper.shape not in ((), (m,)):
            raise InvalidInputError(f"lower and upper must be numbers or have shape ({m},), one a row of A")
        self.lower, self.upper = bounds.box(m)

    def check(self, d: int) -> None:
        """Raise an error unless A has d columns."""
        if self.matrix.shape[1] != d:
            raise InvalidInputError(
                f"A must have {d} columns, one a value of the domain, got shape {self.matrix.shape}"
            )

    def rows(self, d: int) -> Rows:
        """Return A with its bounds."""
        return Rows(self.matrix, self.lower, self.upper)

    def __repr__(self) -> str:
        return f"Linear(<{self.matrix.shape[0]} rows>)"


class AtMost(Constraint):
    """At most k values are not zero: not convex, yet exact with least squares on the simplex.

    Parameters
    ----------
    k
        Largest number of values that are not zero, >= 1.

    Examples
    --------
    >>> float(AtMost(1).violation(np.array([0.75, 0.25])))
    0.25
    """

    def __init__(self, k: int) -> None:
        self.k = validate.integer("k", k, minimum=1)

    def violation(self, f: Array) -> Array:
        """Return the (k+1)-th largest absolute value: what must become zero."""
        if self.k >= f.shape[-1]:
            return np.zeros(f.shape[:-1])
        return np.asarray(-np.partition(-np.abs(f), self.k, axis=-1)[..., self.k])

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Raise an error: a cone program is convex."""
        raise InvalidInputError(
            f"AtMost({self.k}) is not convex, so no cone solver takes it; it has a closed form with LeastSquares() under "
            "NonNegative() and SumsTo(...)"
        )

    def __repr__(self) -> str:
        return f"AtMost({self.k})"


class Custom(Constraint):
    """Any cvxpy constraints on the frequencies.

    Parameters
    ----------
    build
        Function from a cvxpy expression of shape (d,) to a list of cvxpy constraints.

    Examples
    --------
    >>> first_is_largest = Custom(lambda f: [f[0] >= f[1], f[0] >= f[2]])
    >>> float(first_is_largest.violation(np.array([0.25, 0.5, 0.25])))
    0.25
    """

    def __init__(self, build: Callable[[cp.Expression], Sequence[cp.Constraint]]) -> None:
        if not callable(build):
            raise InvalidTypeError(f"Custom takes a function from f to a list of cvxpy constraints, got {build!r}")
        self.build = build

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return what the function returns; an error if that is not a list of cvxpy constraints."""
        import cvxpy as cp

        forms = self.build(f)
        if not isinstance(forms, Sequence) or not all(isinstance(form, cp.Constraint) for form in forms):
            raise InvalidTypeError(f"the function of Custom must return a list of cvxpy constraints, got {forms!r}")
        return list(forms)

    def violation(self, f: Array) -> Array:
        """Return the largest violation that cvxpy measures."""
        import cvxpy as cp

        variable = cp.Variable(f.shape[-1])
        forms = self.cone_form(variable)
        result = np.zeros(f.shape[:-1])
        for trial in np.ndindex(f.shape[:-1]):
            variable.value = f[trial]
            result[trial] = max((float(np.max(form.violation())) for form in forms), default=0.0)
        return result


def _distinct(what: str, indices: ArrayLike) -> NDArray[np.int64]:
    found = np.asarray(indices) if np.size(indices) else np.empty(0, dtype=np.int64)
    members = np.atleast_1d(validate.whole_numbers(what, found, low=0, high=2**62))
    if members.ndim != 1:
        raise InvalidInputError(f"{what} must be a one-dimensional array of indices, got shape {members.shape}")
    unique, first = np.unique(members, return_index=True)
    if len(unique) != len(members):
        repeated = int(np.setdiff1d(np.arange(len(members)), first)[0])
        raise InvalidInputError(
            f"{what} must not repeat an index, found {members[repeated]} again at position {repeated}"
        )
    return members
