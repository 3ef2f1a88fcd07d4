"""Known totals, and any linear inequalities."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.adjustable import holds_parameters
from ldpopt.closed_form import Groups, KnownMargins, Margin
from ldpopt.closed_form.rows import is_long, locked_rows
from ldpopt.constraints.base import (
    LinearInequalities,
    Polyhedron,
    Row,
    one_sided,
    with_open_bounds,
)
from ldpopt.constraints.bounds import Bounds
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.expressions import in_uniform_units
from ldpopt.frames import entries_of
from ldpopt.immutable import closed, derived_property
from ldpopt.printable import counted

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# Entries of a matrix that are compiled as parameters: 4,096 of them take ten times as long to
# compile as constants, which few paths win back.
_OPEN_ENTRIES = 1024

# Rows whose largest coefficient is within 2⁻²⁰ and 2²⁰ are taken as they are. Beyond, what rounding
# leaves of a row counts as a violation, or a violation as rounding.
_NEAR_ONE = 20

_LARGEST = float(np.finfo(np.float64).max)


class SumsTo(Polyhedron):
    """Σ f_v = total.

    Parameters
    ----------
    total
        A finite number; 1 for a distribution.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the total is not a finite number.

    Examples
    --------
    >>> float(SumsTo(1.0).violation(np.array([0.5, 0.25])))
    0.25
    """

    _definitions = Polyhedron._definitions | {"total"}

    def __init__(self, total: float = 1.0) -> None:
        # Any total: the frequencies of a part of the domain do not sum to 1.
        self._total = validate.real("total", total)

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        return rf"\sum_v f_v = {self._total:g}"

    @property
    def formula(self) -> str:
        """Σf = total."""
        return f"Σf = {self._total:g}"

    def total(self, d: int | None = None) -> float:
        """Return the sum, on every domain."""
        return self._total

    @property
    def is_in_units(self) -> bool:
        """True: all coefficients are 1."""
        return True

    def violation(self, f: Array) -> Array:
        """Return abs(Σ f - total)."""
        return np.asarray(np.abs(f.sum(axis=-1) - self._total))

    def rows(self, d: int) -> LinearInequalities:
        """Return one row of ones."""
        from scipy import sparse

        total = np.array([self._total])
        # From its arrays: scipy looks through a dense row for zeros.
        ones = (np.ones(d), np.arange(d, dtype=np.int32), np.array([0, d], dtype=np.int32))
        return LinearInequalities(sparse.csr_array(ones, shape=(1, d)), total, total)

    def row_name(self, row: int, d: int) -> str:
        """Return the constraint."""
        return repr(self)

    def __repr__(self) -> str:
        return f"SumsTo({self._total:g})"


class GroupTotals(Polyhedron):
    """Σ_{v in group} f_v = total for each group: totals known from elsewhere, such as a census.

    Groups may overlap.

    Parameters
    ----------
    groups
        Arrays of indices, or lists of labels of the estimate, each without repetition; or a mapping
        from names of groups to them.
    totals
        One finite number per group; with names, a mapping from these or in their order.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a group repeats an index, or there is not one finite total per group.

    Examples
    --------
    >>> float(GroupTotals([[0, 1], [2]], [0.5, 0.5]).violation(np.array([0.25, 0.25, 0.25])))
    0.25
    >>> pets = GroupTotals({"pets": ["cat", "dog"]}, {"pets": 0.5})
    >>> from ldpopt import FrequencyEstimate
    >>> float(pets.violation(FrequencyEstimate([0.5, 0.25, 0.25], labels=["cat", "cow", "dog"])))
    0.25
    """

    of_values: ClassVar[Mapping[str, int]] = {"groups": 2}

    @classmethod
    def _stated(cls, given: dict[str, Any]) -> dict[str, Any]:
        groups = entries_of(given.get("groups"))
        if groups is None:
            return given
        totals = entries_of(given.get("totals"))
        if totals is not None and set(totals) != set(groups):
            apart = next(
                name for name in [*groups, *totals] if (name in groups) != (name in totals)
            )
            raise InvalidInputError(
                f"groups and totals must have the same names, and {apart!r} is in one of them alone"
            )
        stated = {**given, "groups": list(groups.values())}
        if totals is not None:
            stated["totals"] = [totals[name] for name in groups]
        return stated

    def __init__(self, groups: Sequence[ArrayLike], totals: ArrayLike) -> None:
        if not np.iterable(groups):
            raise InvalidTypeError(f"groups must be a sequence of index arrays, got {groups!r}")
        # A value that is named twice would count twice in its group's sum.
        members = [validate.distinct_indices(f"group {i}", group) for i, group in enumerate(groups)]
        numbers = validate.array("totals", totals).astype(np.float64)
        # One group may have its total as a plain number.
        self.totals = np.atleast_1d(numbers)
        if self.totals.shape != (len(members),) or not np.isfinite(self.totals).all():
            raise InvalidInputError(
                f"totals must be {len(members)} finite numbers, one per group, got {self.totals}"
            )
        # One after the other: to go through groups takes longer than to go through values.
        sizes = np.array([len(group) for group in members], dtype=np.int64)
        self._sizes = sizes
        # The empty array is there for no groups at all.
        self._members = np.concatenate([np.empty(0, dtype=np.int64), *members])
        self._group_of_member = np.repeat(np.arange(len(sizes)), sizes)
        self._last_member = int(self._members.max(initial=-1))

    @derived_property
    def groups(self) -> tuple[NDArray[np.int64], ...]:
        """The indices of each group."""
        # No attribute: each solve looks at all attributes, and groups may be thousands.
        return tuple(np.split(self._members, np.cumsum(self._sizes)[:-1])) if self._number else ()

    @property
    def _number(self) -> int:
        return len(self._sizes)

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        return rf"\sum_{{v \in g}} f_v = t_g \text{{ for }} {self._number} \text{{ groups }} g"

    def validate_for(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        for i, group in enumerate(self.groups):
            what = f"group {i} of {type(self).__name__}"
            validate.whole_numbers(what, group, low=0, high=d - 1)

    def total(self, d: int | None = None) -> float | None:
        """Return the total of the only group if that holds all d values."""
        # Indices are distinct, so that d of them are all.
        if self._number == 1 and len(self._members) == d:
            return float(self.totals.item())
        return None

    @property
    def disjoint(self) -> bool:
        """Whether no value is in two groups."""
        # Ten times as fast as np.unique.
        members = np.sort(self._members)
        return bool((members[1:] != members[:-1]).all())

    @property
    def has_empty_group(self) -> bool:
        """Whether a group has no members."""
        return bool((self._sizes == 0).any())

    def disjoint_groups(self, d: int) -> Groups | None:
        """Return the groups; None if a value is in two of them, or one is empty."""
        return _kept_groups(self, d) if self.is_settled else self._disjoint_groups(d)

    def _disjoint_groups(self, d: int) -> Groups | None:
        of_value = np.full(d, self._number)
        of_value[self._members] = self._group_of_member
        # A value in two groups keeps one of them, so that fewer values are in groups than stated.
        in_groups = np.count_nonzero(of_value < self._number)
        if in_groups < len(self._members) or self.has_empty_group:
            return None
        # Kept and handed out: writing to it would change the set.
        return Groups(closed(of_value), self.totals)

    @property
    def is_in_units(self) -> bool:
        """True: all coefficients are 1."""
        return True

    def violation(self, f: Array) -> Array:
        """Return the largest difference of a group's sum from its total, in one pass."""
        if is_long(f.shape[-1]):
            return self._violation_of_long(f)
        has_members = self._sizes > 0
        starts = (np.cumsum(self._sizes) - self._sizes)[has_members]
        sums = np.zeros((*f.shape[:-1], self._number))
        # By group, so that no sum is longer than it must be: rounding is that of numpy's own sums.
        sums[..., has_members] = np.add.reduceat(f[..., self._members], starts, axis=-1)
        return np.asarray(np.abs(sums - self.totals).max(axis=-1, initial=0.0))

    def _violation_of_long(self, f: Array) -> Array:
        from ldpopt.constraints import violation_kernels  # imports numba

        d = f.shape[-1]
        if self._last_member >= d:
            self.validate_for(d)  # names the group
        rows = locked_rows(f)
        disjoint = self.disjoint_groups(d)
        if disjoint is not None:
            of_value = disjoint.of_value.view(np.uint64)
            missed = violation_kernels.largest_misses_of_disjoint(rows, of_value, self.totals)
        else:
            members = (self._members, self._sizes)
            missed = violation_kernels.largest_misses(rows, *members, self.totals)
        return missed.reshape(f.shape[:-1])

    def rows(self, d: int) -> LinearInequalities:
        """Return the membership matrix of the groups."""
        from scipy import sparse

        # Not by ``membership``, which looks at every set for repetitions: there are none here.
        starts = np.append(0, np.cumsum(self._sizes))
        # A copy: scipy sorts in place.
        columns = self._members.copy()
        if self._last_member >= d:
            self.validate_for(d)  # names the group
        entries = (np.ones(len(columns)), columns, starts)
        matrix = sparse.csr_array(entries, shape=(self._number, d))
        return LinearInequalities(matrix, self.totals, self.totals)

    def row_name(self, row: int, d: int) -> str:
        """Return the group's number, size and total."""
        return f"group {row} of {self._sizes[row]} values sums to {self.totals[row]:g}"

    def __repr__(self) -> str:
        return f"GroupTotals(<{counted(self._number, 'group')}>)"


@lru_cache(maxsize=4)
def _kept_groups(totals: GroupTotals, d: int) -> Groups | None:
    # One solve needs them several times.
    return totals._disjoint_groups(d)


class Margins(GroupTotals):
    """Known sums of a table along some of its axes, such as the share of each age and sex.

    The values of the domain are the cells of the table, the last axis changing fastest.

    Parameters
    ----------
    shape
        The lengths of the table's axes, d in all.
    axes
        The axis or axes that the known table keeps; it sums over the others.
    values
        The known sums, of the shape of these axes.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an axis does not exist or is repeated, or there is not one finite value per sum.

    Examples
    --------
    >>> sexes = Margins((3, 2), axes=1, values=[0.5, 0.5])  # three ages, two sexes
    >>> float(sexes.violation(np.array([0.125, 0.25, 0.125, 0.25, 0.125, 0.125])))
    0.125
    """

    def __init__(self, shape: Sequence[int], axes: int | Sequence[int], values: ArrayLike) -> None:
        if not np.iterable(shape):
            raise InvalidTypeError(
                f"shape must be a list of lengths, one per axis of the table, got {shape!r}"
            )
        lengths = [validate.integer("a length of shape", length, minimum=1) for length in shape]
        chosen = validate.distinct_indices("axes", axes)
        if not len(chosen):
            raise InvalidInputError("axes must name at least one axis: use SumsTo for the total")
        validate.whole_numbers("axes", chosen, low=0, high=len(lengths) - 1)
        kept = tuple(lengths[axis] for axis in chosen)
        sums = validate.array("values", values).astype(np.float64)
        if sums.shape != kept:
            raise InvalidInputError(
                f"values must have shape {kept}, that of the axes {tuple(chosen.tolist())}, "
                f"got {sums.shape}"
            )
        self.table_shape = tuple(lengths)
        self.axes = tuple(chosen.tolist())
        cells = np.arange(int(np.prod(lengths))).reshape(lengths)
        # The cells of one sum side by side.
        kept_first = np.moveaxis(cells, self.axes, range(len(self.axes)))
        by_sum = kept_first.reshape(sums.size, -1)
        super().__init__(list(by_sum), sums.ravel())

    def validate_for(self, d: int) -> None:
        """Raise an error unless the table has d cells."""
        cells = int(np.prod(self.table_shape))
        if cells != d:
            raise InvalidInputError(
                f"the table of {type(self).__name__} with shape {self.table_shape} has {cells} "
                f"cells, the domain {d} values"
            )

    @property
    def margins(self) -> KnownMargins:
        """The sums that are known, with their axes in the order of the table."""
        in_order = [self.table_shape[axis] for axis in self.axes]
        sums = self.totals.reshape(in_order).transpose(np.argsort(self.axes))
        lengths = enumerate(self.table_shape)
        kept = [length if axis in self.axes else 1 for axis, length in lengths]
        margin = Margin(tuple(sorted(self.axes)), sums.reshape(kept))
        return KnownMargins(self.table_shape, (margin,))

    def violation(self, f: Array) -> Array:
        """Return the largest difference of a sum from what it should be, in a pass."""
        rank = len(self.table_shape)
        tables = f.reshape(*f.shape[:-1], *self.table_shape)
        others = tuple(axis - rank for axis in range(rank) if axis not in self.axes)
        sums = tables.sum(axis=others) if others else tables
        # They come in the order of the table's axes, and the totals in the order that was stated.
        in_order = [self.table_shape[axis] for axis in self.axes]
        totals = self.totals.reshape(in_order).transpose(np.argsort(self.axes))
        stated_axes = tuple(range(-len(self.axes), 0))
        return np.asarray(np.abs(sums - totals).max(axis=stated_axes))

    def row_name(self, row: int, d: int) -> str:
        """Return the sum by its place in the table of sums."""
        kept = tuple(self.table_shape[axis] for axis in self.axes)
        place = ", ".join(str(int(i)) for i in np.unravel_index(row, kept))
        return f"the margin at ({place}) of axes {self.axes} is {self.totals[row]:g}"

    def __repr__(self) -> str:
        return f"Margins({self.table_shape}, axes={self.axes})"


class Linear(Polyhedron):
    """lower <= A f <= upper.

    Parameters
    ----------
    A
        Matrix of shape (m, d), dense or scipy sparse; or a list of m mappings from labels of the
        estimate to coefficients, 0 of the others. As a ``Parameter`` it may change between
        solves without a new compilation, up to 1,024 entries and as long as the same of them are 0.
    lower, upper
        Numbers or arrays of shape (m,); -inf and inf stand for no bound, equal ones for an
        equality.

    Notes
    -----
    A row is the same set in any unit. One whose largest coefficient is beyond 10⁶ or below 10⁻⁶
    counts in that unit, but for a power of two: so do its violation and the numbers of ``rows``.
    Its multiplier is that of the bound as stated.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If A is not a finite matrix, a bound has another shape, or bounds are in the wrong order.

    Examples
    --------
    >>> float(Linear([[1.0, -1.0]], 0.0, np.inf).violation(np.array([0.25, 0.5])))
    0.25
    """

    _per_column = frozenset({"A"})
    _rest: ClassVar[Mapping[str, float]] = {"A": 0.0}

    def __init__(self, A: Any, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf) -> None:
        from scipy import sparse

        if not sparse.issparse(A):
            rows = validate.array("A", A)
            if rows.ndim > 2:
                raise InvalidInputError(f"A must have shape (m, d), got {rows.shape}")
            # A vector is one row.
            A = np.atleast_2d(rows).astype(np.float64)
        matrix = sparse.csr_array(A)
        entries = validate.array("A", matrix.data).astype(np.float64)
        if not np.isfinite(entries).all():
            raise InvalidInputError("A must be finite")
        # The parts, not the matrix: assigning to an entry of a sparse matrix gives it new parts.
        self._parts = (entries, matrix.indices, matrix.indptr)
        self.shape: tuple[int, int] = matrix.shape
        m = matrix.shape[0]
        # Bounds checks that no number is missing between the two.
        bounds = Bounds(lower, upper)
        if bounds.lower.shape not in ((), (m,)) or bounds.upper.shape not in ((), (m,)):
            raise InvalidInputError(
                f"lower and upper must be numbers or have shape ({m},), one per row of A"
            )
        self.lower, self.upper = bounds.box(m)
        self._exponents = _exponents_of(matrix)
        # One row that is mostly full is read several times as fast as a vector.
        is_full = m == 1 and 2 * matrix.nnz >= matrix.shape[1]
        self._vector = None
        if is_full:
            self._vector = closed(self.rows(matrix.shape[1]).matrix.toarray().ravel())

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        return rf"l \le A f \le u \text{{ with }} {self.shape[0]} \text{{ rows}}"

    @property
    def matrix(self) -> Any:
        """A as a new sparse array on read-only memory."""
        from scipy import sparse

        return sparse.csr_array(self._parts, shape=self.shape)

    def row(self, d: int) -> Row | None:
        """Return the only row, if there is one, in its own unit."""
        if self._vector is None:
            # So a matrix of many rows is not made in order to count them.
            return super().row(d) if self.shape[0] == 1 else None
        (lower,), (upper,) = self.ends
        return Row(self._vector, float(lower), float(upper), measures_violation=True)

    def given_rows(self, d: int) -> LinearInequalities:
        """Return the rows."""
        return self.rows(d)

    def violation(self, f: Array) -> Array:
        """Return the largest violation of a row."""
        if self._vector is None or f.shape[-1] != self.shape[1]:
            return super().violation(f)
        value = f @ self._vector
        (lower,), (upper,) = self.ends
        return np.asarray(np.maximum(np.maximum(lower - value, value - upper), 0.0))

    def validate_for(self, d: int) -> None:
        """Raise an error unless A has d columns."""
        if self.shape[1] != d:
            raise InvalidInputError(
                f"A of {type(self).__name__} must have {d} columns, one per value of the domain, "
                f"got shape {self.shape}"
            )

    def rows(self, d: int) -> LinearInequalities:
        """Return A with its bounds, each row in its own unit."""
        matrix = self.matrix
        if self._exponents.any():
            of_entries = np.repeat(self._exponents, np.diff(matrix.indptr))
            matrix.data = np.ldexp(matrix.data, -of_entries)
        return LinearInequalities(matrix, *self.ends)

    def idle_bound(self, total: float) -> float | None:
        """Return a bound if all exceed the sums and differences of shares with this sum.

        With other coefficients than 1 and -1 rows are no shares.
        """
        # An infinite bound passes.
        if self.upper.min() <= total or self.lower.max() >= -total:
            return None
        bounds = np.concatenate([self.upper, self.lower])
        bounds = bounds[np.isfinite(bounds)]
        entries, _, _ = self._parts
        is_of_shares = np.isin(entries, [-1.0, 0.0, 1.0]).all()
        return float(bounds[0]) if len(bounds) and is_of_shares else None

    @property
    def ends(self) -> tuple[Array, Array]:
        """The lower and upper bounds, each in the unit of its row, shape (m,)."""
        if not self._exponents.any():
            return self.lower, self.upper
        return self._in_units(self.lower), self._in_units(self.upper)

    def _in_units(self, bounds: Array) -> Array:
        """Return bounds in the units of their rows; those beyond all doubles are the largest."""
        with np.errstate(over="ignore"):
            scaled = np.ldexp(bounds, -self._exponents)
        return np.where(np.isfinite(bounds), np.clip(scaled, -_LARGEST, _LARGEST), bounds)

    @property
    def row_units(self) -> Array:
        """By what each of the ``rows`` is smaller than the stated one, shape (m,)."""
        return np.ldexp(1.0, self._exponents)

    def adjustable_form(self, f: cp.Expression) -> tuple[list[cp.Constraint], list[cp.Parameter]]:
        """Return the rows with parameters for the bounds, and for the entries of A if it has any.

        Where an entry is 0 it stays so: which of them are is compiled in.
        """
        if not self._has_open_matrix:
            return super().adjustable_form(f)
        import cvxpy as cp
        from scipy import sparse

        rows = self.rows(f.size)
        matrix = rows.matrix
        entries = cp.Parameter(matrix.nnz)
        # One product per entry, added up by rows: sparse parameters of cvxpy are slower.
        ones = np.ones(matrix.nnz)
        places = np.arange(matrix.nnz)
        shape = (matrix.shape[0], matrix.nnz)
        sums = sparse.csr_array((ones, places, matrix.indptr), shape=shape)
        products = cp.multiply(entries, in_uniform_units(f)[matrix.indices])
        forms, bounds = with_open_bounds(rows, sums @ products)
        return forms, [entries, *bounds]

    def data(self, d: int) -> tuple[Array, ...]:
        """Return the arrays that ``adjustable_form`` leaves open."""
        bounds = super().data(d)
        return (self.rows(d).matrix.data, *bounds) if self._has_open_matrix else bounds

    def compiled_key(self, d: int) -> Hashable:
        """Equal for constraints whose ``adjustable_form`` differs by ``data`` alone."""
        if not self._has_open_matrix:
            return super().compiled_key(d)
        sides = tuple(members.tobytes() for _, members in one_sided(self.rows(d)))
        matrix = self.matrix
        return (self._recipe, sides, matrix.indices.tobytes(), matrix.indptr.tobytes())

    @property
    def _has_open_matrix(self) -> bool:
        """Whether A is a parameter that is compiled as one."""
        if self._recipe is None or not 0 < self.matrix.nnz <= _OPEN_ENTRIES:
            return False
        stated = self._recipe.args[0] if self._recipe.args else self._recipe.kwargs["A"]
        return holds_parameters(stated)

    def __repr__(self) -> str:
        return f"Linear(<{counted(self.shape[0], 'row')}>)"


def _exponents_of(matrix: Any) -> NDArray[np.int64]:
    """Return the binary exponent of each row's unit, 0 for the usual ones."""
    sizes = np.zeros(matrix.shape[0])
    np.maximum.at(sizes, np.repeat(np.arange(len(sizes)), np.diff(matrix.indptr)), abs(matrix.data))
    exponents = np.where(sizes > 0, np.frexp(sizes)[1] - 1, 0)
    return np.where(np.abs(exponents) > _NEAR_ONE, exponents, 0).astype(np.int64)
