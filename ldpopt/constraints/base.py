"""What a constraint states about itself, and the polyhedra that most of them are.

A constraint has a violation and a cone form. Beyond these it may be a box (bounds value by value),
a total (the sum of all values), or rows (linear inequalities lower <= A f <= upper): problems of
boxes and one total have closed forms or a search for one root, and certificates of polyhedra use
the rows. Shapes: f is (..., d), a violation (...).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.adjustable import Adjustable
from ldpopt.closed_form.forests import FromAbove, from_above
from ldpopt.estimate import FrequencyEstimate
from ldpopt.expressions import in_uniform_units
from ldpopt.immutable import closed
from ldpopt.printable import latex_text

if TYPE_CHECKING:
    import cvxpy as cp

    from ldpopt.closed_form import Groups, KnownMargins
    from ldpopt.constraints.isotonic import Isotonic

Array = NDArray[np.float64]
Norm = float | Literal["kl"]


@dataclass(frozen=True)
class LinearInequalities:
    """Linear inequalities lower <= matrix f + auxiliary t <= upper for some t.

    An equality has lower == upper. ``matrix`` is (m, d) and sparse, and so is ``auxiliary``,
    (m, k), for sets that take many rows in f alone and few with more variables; None without them.
    A dense array is made sparse.
    """

    matrix: Any
    lower: Array
    upper: Array
    auxiliary: Any = None

    def __post_init__(self) -> None:
        for name in ("matrix", "auxiliary"):
            if isinstance(getattr(self, name), np.ndarray):
                from scipy import sparse  # slow to import, as everywhere in this folder

                object.__setattr__(self, name, sparse.csr_array(getattr(self, name)))


@dataclass(frozen=True)
class Ball:
    """All vectors within ``radius`` of a reference, by a distance that is no bound of each value.

    ``norm`` and ``weights`` are those of ``Near``.
    """

    reference: Array
    radius: float
    norm: Norm
    weights: Array | None = None

    @cached_property
    def size(self) -> float:
        """Σ r."""
        return float(self.reference.sum())


class Row(NamedTuple):
    """lower <= a·f <= upper with coefficients a of shape (d,).

    ``measures_violation`` is whether the set's violation is by how much a·f is outside. A class of
    a user may count it in another way.
    """

    coefficients: Array
    lower: float
    upper: float
    measures_violation: bool = False


@dataclass(frozen=True, eq=False)
class Tree:
    """Every node that has children is their sum.

    Attributes
    ----------
    parents
        The node above each node, shape (d,); -1 above a root.
    root_total
        What the roots sum to; None where that is not stated.
    """

    parents: NDArray[np.int64]
    root_total: float | None

    @cached_property
    def nodes_from_above(self) -> FromAbove:
        """The nodes with each after its parent."""
        return from_above(self.parents)


class Variation(NamedTuple):
    """Σ |difference| <= bound, of neighbours in an order, or in that of the values for None."""

    order: NDArray[np.int64] | None
    bound: float


_MOST_VALUES = 2**31  # beyond what any computer of today holds; sizes are checked by one look


def _of_any_vector(violation: Callable[..., Array]) -> Callable[..., Array]:
    """Return the violation of a class for whatever users have as f: lists, Series, estimates.

    Labels in the constraint are those of f. Arrays go through as they are, since violations are
    looked at in loops.
    """

    @wraps(violation)
    def checked(self: Constraint, f: Any) -> Array:
        is_open = self._recipe is not None and self.varies
        is_array = type(f) is np.ndarray and f.dtype == np.float64
        if is_open or not is_array or not f.ndim or not f.size:
            start = FrequencyEstimate.of(f)
            return self.at(start, {}).violation(start.frequencies)
        try:
            return violation(self, f)
        except (IndexError, ValueError):
            # Of numpy, where f has another number of values.
            self.validate_for(f.shape[-1])
            raise

    return checked


def _of_any_size(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a class that refuses what is no number of values."""

    @wraps(method)
    def checked(self: Constraint, d: Any) -> Any:
        if type(d) is not int or not 0 < d <= _MOST_VALUES:
            d = validate.integer("d", d, minimum=1)
        return method(self, d)

    return checked


class Constraint(Adjustable):
    """A set of frequency vectors.

    A new constraint states ``violation`` and ``cone_form``; everything else has a default, and each
    further method that it overrides opens a faster path to it.
    """

    _for_callers = MappingProxyType(
        {
            "violation": _of_any_vector,
            **dict.fromkeys(
                ("validate_for", "box", "rows", "isotonic", "disjoint_groups"), _of_any_size
            ),
        }
    )

    _is_general = True
    _definitions = frozenset({"violation", "rows", "cone_form"})
    # What a class does not define is that of its base, which may be another set.
    _statements = _definitions | {
        *("largest_support", "restricted_to", "ball", "variation", "tree", "margins", "is_cvxpy"),
        *("extent", "face", "box", "total", "row", "given_rows", "row_units", "row_name"),
        *("isotonic", "disjoint_groups", "idle_bound", "formula", "latex"),
        *("rates", "is_in_units", "adjustable_form", "data", "compiled_key"),
    }

    convex: ClassVar[bool] = True
    """Whether the set is convex. Solvers take convex sets only."""

    remedy: ClassVar[str] = ""
    """For a set that is not convex: which problems with it have a closed form, for messages."""

    name: str = ""
    """What ``Solution.duals`` calls the constraint; its class's name if empty."""

    largest_support: int | None = None
    """How many values may differ from zero, None for any number."""

    def restricted_to(self, f: Array) -> Constraint:
        """Return the convex part of the set around f, shape (d,): of a convex set the set itself.

        A point that is best in this part may still be worse than one elsewhere in the set.
        """
        return self

    @property
    def formula(self) -> str:
        """The set in the papers' letters, for tables; empty where it has none that is short."""
        return ""

    @property
    def ball(self) -> Ball | None:
        """The ball that the set is; None for another set, and for a ball that is a box."""
        return None

    @property
    def variation(self) -> Variation | None:
        """The bound of a total variation that the set is; None for another set."""
        return None

    @property
    def tree(self) -> Tree | None:
        """The tree that the set is; None for another set."""
        return None

    @property
    def margins(self) -> KnownMargins | None:
        """What the set tells of a table and nothing else; None for another set."""
        return None

    is_cvxpy: ClassVar[bool] = False
    """Whether constraints of cvxpy are all that it states of the set."""

    @property
    def latex(self) -> str:
        """The set in LaTeX, its name where it has no formula."""
        return latex_text(self.name or repr(self))

    @abstractmethod
    def violation(self, f: Array) -> Array:
        """Return how far f of shape (..., d) is outside, in units of frequency, 0 inside."""

    @abstractmethod
    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return the constraint on a cvxpy expression of shape (d,)."""

    def rates(self, of_cone_form: list[Any], d: int) -> Any:
        """Return the multipliers of a curved constraint from those of its ``cone_form``.

        By default they are what cvxpy calls dual values. A constraint with a bound of its own, as a
        radius, returns how fast the minimum rises with it.
        """
        return of_cone_form

    @property
    def is_in_units(self) -> bool:
        """Whether the numbers of ``cone_form`` are near 1 already, as solvers like them.

        Otherwise its rows and cones get units that ``solve.units`` finds.
        """
        return False

    def adjustable_form(self, f: cp.Expression) -> tuple[list[cp.Constraint], list[cp.Parameter]]:
        """Return ``cone_form`` with cvxpy parameters for the arrays of ``data``, in their order.

        So a constraint whose ``Parameter`` changes stays compiled. By default the bounds of
        ``rows`` are such arrays.
        """
        rows = self._adjustable_rows(f.size)
        if rows is None:
            return self.cone_form(f), []
        return adjustable_row_forms(rows, in_uniform_units(f))

    def data(self, d: int) -> tuple[Array, ...]:
        """Return the arrays that ``adjustable_form`` leaves open, none unless it has parameters."""
        rows = self._adjustable_rows(d)
        if rows is None:
            return ()
        sides = one_sided(rows)
        # In the order of the parameters of ``adjustable_row_forms``, which has none for no rows.
        return tuple(d * bound[members] for bound, members in sides if len(members))

    def compiled_key(self, d: int) -> Hashable:
        """Equal for constraints whose ``adjustable_form`` differs by ``data`` alone: itself."""
        rows = self._adjustable_rows(d)
        if rows is None:
            return self
        # A bound that becomes infinite, or meets the other one, changes which rows are compared.
        members = tuple(members.tobytes() for _, members in one_sided(rows))
        matrices = (_matrix_bytes(rows.matrix), _matrix_bytes(rows.auxiliary))
        return (self._recipe, members, *matrices)

    def _adjustable_rows(self, d: int) -> LinearInequalities | None:
        """Return the rows whose bounds are parameters of what is compiled, if there are any."""
        return None if self._recipe is None else kept_rows(self, d)

    def validate_for(self, d: int) -> None:
        """Raise an error if the constraint does not fit a domain of d values."""

    def require_definition(self, d: int) -> None:
        """Raise an error if what a user's class defines the set by is no such definition."""

    def box(self, d: int) -> tuple[Array, Array] | None:
        """Return (lower, upper), each (d,), if the constraint is nothing but bounds, else None."""
        return None

    def extent(self, d: int) -> tuple[Array, Array] | None:
        """Return bounds (lower, upper) that follow from a curved set, rounded outward, or None.

        Certificates use them where nothing else bounds a value.
        """
        return None

    def face(self, f: Array, near: float) -> LinearInequalities | None:
        """Return rows in f alone that stand for rows with further variables around f, or None."""
        return None

    def total(self, d: int | None = None) -> float | None:
        """Return the sum of all d values if the constraint fixes it and nothing else, or None.

        Without d: the sum that it fixes on every domain.
        """
        return None

    def rows(self, d: int) -> LinearInequalities | None:
        """Return the constraint as linear inequalities, or None if it is not polyhedral."""
        return None

    def row(self, d: int) -> Row | None:
        """Return the only row that the set is, of coefficients in f alone; None for another set.

        An order or groups have forms of their own, and are no row here.
        """
        return None

    def given_rows(self, d: int) -> LinearInequalities | None:
        """Return the rows where their coefficients are given one by one; None for another set."""
        return None

    @property
    def row_units(self) -> Array | float:
        """By what the ``rows`` are smaller than the stated ones, whose multipliers are smaller."""
        return 1.0

    def isotonic(self, d: int) -> Isotonic | None:
        """Return the order that the set is, if pooling projects on it, else None."""
        return None

    def disjoint_groups(self, d: int) -> Groups | None:
        """Return the set as groups with totals, in rows' order; None if it is something else."""
        return None

    def idle_bound(self, total: float) -> float | None:
        """Return a bound of the set if none of its bounds excludes any f >= 0 with this sum.

        The bound is in units of frequency, since a warning takes it for one in percent. None is
        returned where a bound excludes something, or it is not known that none does.
        """
        return None

    def row_name(self, row: int, d: int) -> str:
        """Return what a row of ``rows(d)`` states, for messages."""
        return f"row {row} of {self!r}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def kept_rows(constraint: Constraint, d: int) -> LinearInequalities | None:
    """Return the rows of a constraint, which one solve may need several times."""
    # What a class of the user's holds may change from call to call.
    return _rows_of(constraint, d) if constraint.is_settled else constraint.rows(d)


@lru_cache(maxsize=16)
def _rows_of(constraint: Constraint, d: int) -> LinearInequalities | None:
    return constraint.rows(d)


@lru_cache(maxsize=4)
def _kept_row(constraint: Constraint, d: int) -> Row | None:
    rows = constraint.rows(d)
    return None if rows is None else _only_row(rows)


def _only_row(rows: LinearInequalities) -> Row | None:
    """Return the row of an (1, d) matrix as a vector; None for other rows."""
    if rows.auxiliary is not None or len(rows.lower) != 1:
        return None
    # Kept and handed out: writing to it would change the set.
    coefficients = closed(np.asarray(rows.matrix.toarray(), dtype=np.float64).ravel())
    return Row(coefficients, float(rows.lower[0]), float(rows.upper[0]))


def unit_matrix(d: int) -> Any:
    """Return the sparse unit matrix by rows, in a tenth of the time that scipy's own takes."""
    from scipy import sparse  # slow to import, as everywhere in this folder

    starts = np.arange(d + 1, dtype=np.int32)
    return sparse.csr_array((np.ones(d), starts[:-1], starts), shape=(d, d))


class Polyhedron(Constraint):
    """Base class of polyhedral constraints: ``rows`` states them in full.

    Those whose rows have auxiliary variables measure their violation themselves.
    """

    _is_general = True

    @abstractmethod
    def rows(self, d: int) -> LinearInequalities:
        """Return the inequalities."""

    def row(self, d: int) -> Row | None:
        """Return the only row, if there is one, in its own unit."""
        if self.isotonic(d) is not None or self.disjoint_groups(d) is not None:
            return None
        # Every solve asks for it.
        return _kept_row(self, d) if self.is_settled else _only_row(self.rows(d))

    def violation(self, f: Array) -> Array:
        """Return the largest violation of a row."""
        rows = self.rows(f.shape[-1])
        # scipy multiplies matrices of two axes alone: all trials become one.
        flat = f.reshape(-1, f.shape[-1])
        values = (rows.matrix @ flat.T).T
        # A side without a bound gives -inf, which the maximum with 0 drops.
        outside = np.maximum(rows.lower - values, values - rows.upper)
        largest = outside.max(axis=-1, initial=0.0)
        return np.asarray(largest.reshape(f.shape[:-1]))

    def cone_form(self, f: cp.Expression) -> list[cp.Constraint]:
        """Return equalities and finite inequalities."""
        # The solver's variable is d f: times d, its coefficients are of order 1.
        return row_forms(self.rows(f.size), in_uniform_units(f), f.size)


def row_forms(rows: LinearInequalities, scaled: cp.Expression, unit: int) -> list[cp.Constraint]:
    """Return linear inequalities times a unit: equalities, then finite lower and upper bounds.

    ``scaled`` is the unit times f.
    """
    sides = one_sided(rows)
    chosen = [members for _, members in sides]
    ends = [unit * bound[members] for bound, members in sides]
    return _compared(_values_of(rows, scaled), chosen, ends)


def adjustable_row_forms(
    rows: LinearInequalities, scaled: cp.Expression
) -> tuple[list[cp.Constraint], list[cp.Parameter]]:
    """Return the forms of ``row_forms`` with parameters in place of the finite bounds."""
    return with_open_bounds(rows, _values_of(rows, scaled))


def with_open_bounds(
    rows: LinearInequalities, values: cp.Expression
) -> tuple[list[cp.Constraint], list[cp.Parameter]]:
    """Return the values of rows between bounds that are parameters, and these parameters."""
    import cvxpy as cp

    chosen = [members for _, members in one_sided(rows)]
    # cvxpy has no parameter without entries.
    ends = [cp.Parameter(len(members)) if len(members) else np.empty(0) for members in chosen]
    forms = _compared(values, chosen, ends)
    return forms, [end for end in ends if isinstance(end, cp.Parameter)]


def one_sided(rows: LinearInequalities) -> list[tuple[Array, NDArray[np.int64]]]:
    """Return bounds with the rows that they hold for: equalities, finite lower and upper ones."""
    # An equality as two inequalities would leave the feasible set without an interior, which
    # interior-point solvers need.
    is_equality = rows.lower == rows.upper
    equal = np.flatnonzero(is_equality)
    below = np.flatnonzero(~is_equality & np.isfinite(rows.lower))
    above = np.flatnonzero(~is_equality & np.isfinite(rows.upper))
    return [(rows.lower, equal), (rows.lower, below), (rows.upper, above)]


def _values_of(rows: LinearInequalities, scaled: cp.Expression) -> cp.Expression:
    """Return A f + B t times a unit, from f in that unit and new variables t."""
    values = rows.matrix @ scaled
    if rows.auxiliary is not None:
        import cvxpy as cp

        values += rows.auxiliary @ cp.Variable(rows.auxiliary.shape[1])
    return values


def _compared(values: Any, chosen: list[Any], ends: list[Any]) -> list[cp.Constraint]:
    """Return values as equal to the first ends, at least the second, and at most the third."""
    equal, below, above = chosen
    forms = []
    # cvxpy takes no constraint on an empty selection.
    if len(equal):
        forms.append(values[equal] == ends[0])
    if len(below):
        forms.append(values[below] >= ends[1])
    if len(above):
        forms.append(values[above] <= ends[2])
    return forms


def _matrix_bytes(matrix: Any) -> bytes:
    """Return what is equal for equal sparse matrices; nothing for None."""
    if matrix is None:
        return b""
    # One format for all: the same matrix may be stored by rows, by columns or by diagonals.
    csr = matrix.tocsr()
    return b"".join(part.tobytes() for part in (csr.data, csr.indices, csr.indptr))
