"""The rows of a problem: everything that is neither a bound nor curved, as one linear system."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, LinearInequalities
from ldpopt.constraints.base import row_forms
from ldpopt.estimate import FrequencyEstimate
from ldpopt.expressions import with_squares_in_units
from ldpopt.losses import Loss
from ldpopt.solve.certificate.bounds.competitors import propagated, reach
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones.compiled_problem import CompiledProblem, compiled_set
from ldpopt.solve.certificate.cones.cone_gap import ConeSet
from ldpopt.solve.certificate.cones.conic_program import Multipliers
from ldpopt.solve.certificate.prices.forests import Forest, bounds_along, forest_of
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.programs.program import stacked

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# A relative distance of the sides of an inequality that a solver's tolerance may leave.
_HELD = 1e-6


class Rows(NamedTuple):
    """All rows that are not bounds, over (f, auxiliary variables), and bounds of these.

    Attributes
    ----------
    system
        lower <= A x <= upper, with the columns of f first.
    limits
        Bounds of x.
    has_total
        Whether the first row is that of the total.
    sizes
        How many further rows each constraint has that is neither bounds nor a total; None for a
        curved one.
    forest
        The forest of the rows that are differences of two values, or None.
    tangents
        What the last rows are tangents of; None if none is one.
    """

    system: LinearInequalities
    limits: Box
    has_total: bool
    sizes: tuple[int | None, ...]
    forest: Forest | None
    tangents: Tangents | None = None

    def shared_out(self, multipliers: Array) -> tuple[float, Array]:
        """Return μ, and the multipliers of all other rows but tangents."""
        if self.tangents is not None:
            multipliers = multipliers[: -len(self.tangents.places)]
        if not self.has_total:
            return 0.0, multipliers
        # The Lagrangian in ``certificate`` has + μ (Σf - total), but - ν for all rows.
        return -float(multipliers[0]), multipliers[1:]

    def joined(self, mu: Array, multipliers: Array) -> Array:
        """Return the multipliers of all rows from what ``shared_out`` returns."""
        return np.append(-mu, multipliers) if self.has_total else multipliers


Held = Sequence[tuple[Any, NDArray[np.intp]]]
"""Inequalities of cvxpy, and the places of their entries that hold with equality, in C order."""


class Tangents(NamedTuple):
    """Curved inequalities that have rows: their tangents at a point.

    Attributes
    ----------
    stated
        All constraints.
    places
        The ``id`` of the inequality that each row belongs to, and the entry in C order.
    """

    stated: StatedRows
    places: tuple[tuple[int, int], ...]

    def of_curved(self, multipliers: Array) -> tuple[list[Array], ...]:
        """Return the multipliers of the curved constraints, as cvxpy's, from those of all rows."""
        forms = self.stated.of_curved
        duals = {form.id: np.zeros(form.shape) for part in forms for form in part}
        of_tangents = multipliers[-len(self.places) :]
        # A tangent is an upper bound, and such a row has a negative multiplier.
        for (number, entry), multiplier in zip(self.places, of_tangents, strict=True):
            duals[number].flat[entry] = 0.0 - multiplier
        return tuple([duals[form.id] for form in part] for part in forms)


class StatedRows:
    """Rows and curved constraints as cvxpy states them, for the points of any trials.

    Parameters
    ----------
    system, curved
        The rows, and the other constraints.
    d
        How many values there are.
    unit
        The unit, a power of two, in which the variable counts the frequencies.
    size
        About how large a frequency is, a power of two: squares are stated in this unit.

    Attributes
    ----------
    variable, values
        The variable, and the frequencies that it stands for.
    linear, of_curved
        The forms of the rows, and those of each curved constraint.
    """

    def __init__(
        self,
        system: LinearInequalities,
        curved: Sequence[Constraint],
        d: int,
        unit: float,
        size: float,
    ) -> None:
        import cvxpy as cp

        self.variable = cp.Variable(d)
        self.unit = unit
        self.values = self.variable if unit == 1 else unit * self.variable
        self.linear = row_forms(_of_values(system, d), self.values, 1)
        self.of_curved = [
            with_squares_in_units(member.cone_form(self.values), self.values, size)
            for member in curved
        ]
        self._within: tuple[Box, ConeSet] | None = None

    @property
    def forms(self) -> list[cp.Constraint]:
        """All forms in one list."""
        return [*self.linear, *(form for part in self.of_curved for form in part)]

    def held(self, f: Array) -> Held:
        """Return the curved inequalities that hold with equality at f, to a solver's accuracy.

        Of cones that are stated as such nothing is known.
        """
        self.variable.save_value(f / self.unit)
        with np.errstate(all="ignore"):
            entries = [_close_entries(form) for form in self._curved_inequalities]
        self.variable.save_value(None)
        parts = zip(self._curved_inequalities, entries, strict=True)
        return [(form, places) for form, places in parts if len(places)]

    @cached_property
    def _curved_inequalities(self) -> list[cp.Constraint]:
        import cvxpy as cp

        return [
            form
            for part in self.of_curved
            for form in part
            if isinstance(form, cp.constraints.Inequality)
            and not all(side.is_affine() for side in form.args)
        ]

    @cached_property
    def compiled(self) -> CompiledProblem:
        """What cvxpy makes of the forms, without an objective: often longer than a proof."""
        return compiled_set(self.variable, self.forms)

    def set_within(self, limits: Box) -> ConeSet:
        """Return the set of the forms and of bounds beside them; the last one is kept.

        What solvers take of it depends on no estimate, and often takes longer than a proof.
        """
        before = self._within
        if before is None or not _are_equal(before[0], limits):
            before = (limits, ConeSet.of(self.compiled, self.variable, *limits))
            self._within = before
        return before[1]


class _Common:
    """What the rows of all estimates have in common.

    Parameters
    ----------
    formulation
        A problem, of which the constraints count that are convex.
    d
        How many values there are.

    Attributes
    ----------
    system, sizes, forest
        As in ``Rows``.
    curved
        The convex constraints that have no rows.
    """

    def __init__(self, formulation: Formulation, d: int) -> None:
        members = [one for one in formulation.convex_constraints if has_own_rows(one, d)]
        stated = [rows_in_full(member, d) for member in members]
        linear = [rows for rows in stated if rows is not None]
        self.curved = [one for one, rows in zip(members, stated, strict=True) if rows is None]
        extents = [one.extent(d) for one in self.curved]
        self._extents = [Box(*extent) for extent in extents if extent is not None]
        self._d = d
        self.system = stacked([*_total_row(formulation.region(d).total, d), *linear], d)
        self.sizes = tuple(None if rows is None else len(rows.lower) for rows in stated)
        # Auxiliary variables are no values of a tree.
        is_plain = self.system.matrix.shape[1] == d
        self.forest = forest_of(self.system.matrix) if is_plain else None
        self._stated: Box | None = None
        self._limits: Box | None = None

    def limits(self, stated: Box) -> Box:
        """Return bounds of all variables from those of the values; the last ones are kept."""
        before = self._stated
        if self._limits is None or before is None or not _are_equal(stated, before):
            self._limits = self._propagated(stated)
            self._stated = stated
        return self._limits

    def _propagated(self, stated: Box) -> Box:
        """Return the bounds that follow from those of the values and the constraints."""
        lower, upper = stated
        for extent in self._extents:
            lower = np.maximum(lower, extent.lower)
            upper = np.minimum(upper, extent.upper)
        values = Box(*(np.broadcast_to(end, self._d) for end in (lower, upper)))
        if self.forest is not None:
            values = bounds_along(self.forest, self.system, values)
        further = self.system.matrix.shape[1] - self._d
        return propagated(
            self.system,
            np.append(values.lower, np.full(further, -np.inf)),
            np.append(values.upper, np.full(further, np.inf)),
        )


class RowsOfTrials:
    """The rows of a problem for one estimate after the other.

    What the estimates have in common is computed once: all but the bounds. Curved constraints have
    no rows: without them the set is larger, and what is proved for it holds for the set too.

    Parameters
    ----------
    formulation
        A problem.
    d
        How many values there are.

    Attributes
    ----------
    curved
        The convex constraints that have no rows.
    """

    def __init__(self, formulation: Formulation, d: int) -> None:
        self._formulation = formulation
        self._region = formulation.region(d)
        self._d = d
        # Polish and certificate need it, and every estimate.
        self._common = formulation.kept_set((_Common, d), lambda: _Common(formulation, d))
        self.curved = self._common.curved

    def stated_in(self, unit: float) -> StatedRows:
        """Return the rows and the curved constraints as cvxpy states them in a unit."""
        size = self._formulation.usual_size(self._d)
        return self._formulation.kept_set(
            (StatedRows, self._d, unit),
            lambda: StatedRows(self._common.system, self.curved, self._d, unit, size),
        )

    def of(self, loss: Loss, estimate: FrequencyEstimate) -> Rows:
        """Return the rows with the bounds that a convex loss and one estimate leave."""
        common = self._common
        limits = common.limits(reach(loss, estimate, self._region))
        has_total = self._region.total is not None
        return Rows(common.system, limits, has_total, common.sizes, common.forest)


def _of_values(system: LinearInequalities, d: int) -> LinearInequalities:
    """Return a system with auxiliary variables apart."""
    has_more = system.matrix.shape[1] > d
    auxiliary = system.matrix[:, d:] if has_more else None
    return LinearInequalities(system.matrix[:, :d], system.lower, system.upper, auxiliary)


def _close_entries(form: cp.Constraint) -> NDArray[np.intp]:
    """Return where the sides of an inequality differ by what a solver's tolerance leaves."""
    sides = [_value_and_size(side) for side in form.args]
    numbers = [side for side in sides if side is not None]
    # An auxiliary variable has no value.
    if len(numbers) < len(sides):
        return np.empty(0, dtype=np.intp)
    (first, first_size), (second, second_size) = numbers
    size = first_size + second_size
    is_close = (np.abs(first - second) <= _HELD * size) & np.isfinite(size)
    return np.flatnonzero(np.broadcast_to(is_close, form.shape))


def _value_and_size(side: cp.Expression) -> tuple[Array, Array] | None:
    """Return the numbers of a side of an inequality, and the sizes of its terms; None if unknown.

    The terms of a - b <= 0 are as large as those of a <= b.
    """
    terms = side.args if type(side).__name__ == "AddExpression" else [side]
    values = [term.value for term in terms]
    if any(value is None for value in values):
        return None
    numbers = [value.toarray() if hasattr(value, "toarray") else value for value in values]
    return sum(numbers), sum(np.abs(number) for number in numbers)


def _are_equal(first: Box, second: Box) -> bool:
    return np.array_equal(first.lower, second.lower) and np.array_equal(first.upper, second.upper)


def _total_row(total: float | None, d: int) -> list[LinearInequalities]:
    """Return the total as one row, if there is one."""
    from scipy import sparse

    if total is None:
        return []
    everything = sparse.csr_array(np.ones((1, d)))
    return [LinearInequalities(everything, np.array([total]), np.array([total]))]


def rows_in_full(member: Constraint, d: int) -> LinearInequalities | None:
    """Return the rows of a constraint, those that cvxpy finds included; None if it is curved."""
    rows = member.rows(d)
    return _linear_rows(member, d) if rows is None else rows


def has_own_rows(member: Constraint, d: int) -> bool:
    """Return whether a constraint's rows are neither the total nor bounds value by value."""
    return member.total(d) is None and member.box(d) is None


def _linear_rows(member: Constraint, d: int) -> LinearInequalities | None:
    """Return what cvxpy makes of a constraint as linear inequalities in f alone.

    None is returned if it is curved, or needs auxiliary variables.
    """
    import cvxpy as cp
    from scipy import sparse

    variable = cp.Variable(d)
    forms = member.cone_form(variable)
    if not forms:
        return LinearInequalities(sparse.csr_array((0, d)), np.empty(0), np.empty(0))
    # To compile takes longer than to ask: anything else is curved or needs auxiliary variables.
    if not all(side.is_affine() for form in forms for side in form.args):
        return None
    program = compiled_set(variable, forms).program
    if not program.cones.linear or program.matrix.shape[1] > d:
        return None
    # A x + s = b with s = 0 in the first rows and s >= 0 in the others.
    right = program.right
    lower = np.where(np.arange(len(right)) < program.cones.zero, right, -np.inf)
    return LinearInequalities(program.matrix.tocsr(), lower, right.copy())


def dual_values(member: Constraint, multipliers: Array, d: int) -> list[Any]:
    """Return what cvxpy calls the dual values of the forms of a constraint, from ν of its rows.

    cvxpy compiles equations before inequalities, whichever was stated first, and subtracts what is
    at least 0: its dual values have another order, and other signs, than ν.
    """
    import cvxpy as cp

    variable = cp.Variable(d)
    forms = member.cone_form(variable)
    # Without a bound there are no multipliers, which cvxpy would make zeros of.
    if not np.isfinite(multipliers).all():
        return [np.full(form.shape, np.nan) for form in forms]
    if not forms:
        return []
    duals = compiled_set(variable, forms).duals(Multipliers(np.zeros(d), -multipliers))
    return [duals[form.id] for form in forms]
