"""The statement of a problem, a loss and constraints, without any way to solve it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from threading import get_ident
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.units import power_below
from ldpopt.constraints import Constraint
from ldpopt.constraints.base import Ball
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError, LdpoptError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.units import PERCENT
from ldpopt.immutable import called_as, closed
from ldpopt.losses import Loss
from ldpopt.solve.own_classes import check_own_classes

Array = NDArray[np.float64]

_Set = TypeVar("_Set")

_KEPT_REGIONS = 3  # of a set, without its balls, and without what is not convex
_KEPT_SETS = 6  # per problem: rows, and two units, of two threads

# By how much rounding may put a total outside what the bounds allow, relative to 1 and the total.
_ROUNDING = 1e-9


class Region(NamedTuple):
    """What the constraints say about d values: all that does not depend on an estimate.

    Attributes
    ----------
    lower, upper
        The tightest bounds that are stated value by value, read-only, shape (d,).
    lower_sum, lower_is_zero, lower_count, upper_count
        The sum of the lower bounds, whether all are 0, and how many bounds of either kind are
        finite: looked at once, since every solve asks.
    total
        What the values sum to, or None.
    is_box
        Whether the constraints are bounds and at most one total, so that values interact through
        one multiplier only.
    tied
        The constraints that are neither bounds nor totals.
    by_kind
        The constraints by their types, without those that repeat another one; empty where two of
        one type differ.
    kinds
        The types of all constraints, None where two of one type differ.
    """

    lower: Array
    upper: Array
    lower_sum: float
    lower_is_zero: bool
    lower_count: int
    upper_count: int
    total: float | None
    is_box: bool
    tied: tuple[Constraint, ...]
    by_kind: Mapping[type[Constraint], Constraint]
    kinds: frozenset[type[Constraint]] | None


@called_as("Problem")
@dataclass(frozen=True)
class Formulation:
    """A loss under constraints. Immutable, and equal to another one of the same parts.

    Parameters
    ----------
    loss
        What is minimised, from ``ldpopt.losses``.
    constraints
        The feasible set, from ``ldpopt.constraints``; without constraints it is the whole space.

    Raises
    ------
    InvalidTypeError
        If an argument is not a loss or not a sequence of constraints.
    InfeasibleError
        If constraints state different totals.
    """

    loss: Loss
    constraints: tuple[Constraint, ...] = ()
    _regions: dict[Any, Region] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sets: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _stated_total: float | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            # A class can be called, too.
            is_function = callable(self.loss) and not isinstance(self.loss, type)
            remedy = "; a function of f and the estimate is stated by Custom(...)"
            raise InvalidTypeError(
                "loss must be an instance from ldpopt.losses, such as LeastSquares(), "
                f"got {self.loss!r}{remedy if is_function else ''}"
            )
        constraints: Any = self.constraints
        if not isinstance(constraints, Sequence) or not all(
            isinstance(constraint, Constraint) for constraint in constraints
        ):
            # cvxpy's are not about f of any length, which a function of f is.
            parts = constraints if isinstance(constraints, Sequence) else [constraints]
            of_cvxpy = any(type(part).__module__.partition(".")[0] == "cvxpy" for part in parts)
            remedy = "; cvxpy's are stated by Custom(lambda f: [f >= 0])" if of_cvxpy else ""
            raise InvalidTypeError(
                "constraints must be a list of instances from ldpopt.constraints, such as "
                f"[NonNegative()], got {constraints!r}{remedy}"
            )
        # A tuple: the caller may change a list later, and what is compiled is kept by its
        # constraints, which must be hashable for that.
        object.__setattr__(self, "constraints", tuple(constraints))
        # Totals that differ conflict for every number of values: an error now, not at the first
        # solve.
        total = _common_total([constraint.total() for constraint in self.constraints])
        object.__setattr__(self, "_stated_total", total)

    @property
    def convex(self) -> bool:
        """Whether the loss and all constraints are convex."""
        return self.loss.convex and self.has_convex_set

    @property
    def has_convex_set(self) -> bool:
        """Whether all constraints are convex."""
        return all(constraint.convex for constraint in self.constraints)

    @property
    def is_settled(self) -> bool:
        """Whether what is computed from loss and constraints may be kept for later solves.

        Otherwise an object of a class that is not of this library may change what they state.
        """
        # A loop: every solve asks, and a generator takes as long as three constraints.
        for constraint in self.constraints:
            if not constraint.is_settled:
                return False
        return self.loss.is_settled

    @property
    def varies(self) -> bool:
        """Whether the problem depends on parameters or functions whose values may change."""
        for constraint in self.constraints:
            if constraint.varies:
                return True
        return self.loss.varies

    def at(
        self,
        estimate: FrequencyEstimate | ArrayLike | None,
        values: Mapping[int, Any] | None = None,
    ) -> Formulation:
        """Return the problem at the present values of its parameters, unaffected by later ones.

        Parameters
        ----------
        estimate
            What is solved for: functions of ``Custom`` state what they mean for it, and labels
            belong to its values. None where it does not matter which values these are.
        values
            Values of some parameters, by ``id``, in place of those that they hold.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a parameter has no value or one that is not allowed, or a function fails.
        """
        if not self.varies:
            return self
        # Functions of the user get an estimate, whatever the caller has passed.
        start = None if estimate is None else self.start_of(estimate)
        chosen = {} if values is None else values
        loss = self.loss.at(start, chosen)
        return self._with(loss, tuple(part.at(start, chosen) for part in self.constraints))

    def start_of(self, estimate: FrequencyEstimate | ArrayLike) -> FrequencyEstimate:
        """Return what is solved for as an estimate, plain numbers in the unit of the stated total.

        Integers of the size of that total are not taken as counts of reports: no warning says so.
        """
        return FrequencyEstimate.of(estimate, total=self._stated_total)

    def parameters(self, estimate: FrequencyEstimate | ArrayLike) -> list[Any]:
        """Return the parameters that the problem has for an estimate, each once.

        Functions of ``Custom`` are called to see which they read.
        """
        start = self.start_of(estimate)
        parts = (self.loss, *self.constraints)
        used = [p for part in parts for p in part.parameters_for(start)]
        # By id: cvxpy's == builds a constraint.
        return list({p.id: p for p in used}.values())

    @property
    def convex_constraints(self) -> tuple[Constraint, ...]:
        """The constraints that are convex: a larger set, whose minimum is no higher."""
        return tuple(constraint for constraint in self.constraints if constraint.convex)

    def near_minimum(self, _: FrequencyEstimate) -> Array | None:
        """Return a point that is at a minimum over the convex constraints, or near one.

        None is returned where no short way to one is known: a statement alone knows none. Nothing
        may depend on where the point is: a certificate proves what it uses.
        """
        return None

    @property
    def statement(self) -> str:
        """The problem in words: ``LeastSquares() under NonNegative(), SumsTo(1)``."""
        where = ", ".join(map(repr, self.constraints)) or "no constraints"
        return f"{self.loss!r} under {where}"

    @property
    def formula(self) -> str:
        """The problem in the papers' letters, ``min ½‖f-f̃‖², f ≥ 0, Σf = 1``."""
        loss = self.loss.formula or repr(self.loss)
        where = [constraint.formula or repr(constraint) for constraint in self.constraints]
        return f"min {', '.join([loss, *where])}"

    @property
    def latex(self) -> str:
        """The problem in LaTeX, as loss and constraints state themselves."""
        rows = [rf"\min_f \quad & {self.loss.latex}"]
        # The first constraint stands beside the words, the others below it.
        begin = r"\text{s.t.} \quad"
        for constraint in self.constraints:
            rows.append(f"{begin} & {constraint.latex}")
            begin = ""
        lines = " \\\\\n".join(rows)
        return f"\\begin{{aligned}}\n{lines}\n\\end{{aligned}}"

    def region(self, d: int) -> Region:
        """Return what the constraints say about d values; errors as ``validate_for``.

        The region of the last size is kept: computing it takes a few passes over d values.
        """
        if type(d) is not int or d < 1:
            d = validate.integer("d", d, minimum=1)
        key = self._place_of_region(d)
        # What was needed last comes last.
        region = self._regions.pop(key, None)
        if region is None:
            region = _region(self.loss, self.constraints, d)
            # One size alone, and few sets: arrays of a million values would otherwise pile up. With
            # each value of a parameter comes a new set, and what is around its ball stays.
            if any(size != d for *_, size in list(self._regions)):
                self._regions.clear()
            for oldest in list(self._regions)[: 1 - _KEPT_REGIONS]:
                self._regions.pop(oldest, None)
        self._regions[key] = region
        return region

    def _place_of_region(self, d: int) -> tuple[Any, ...]:
        # By objects, which are immutable and compare by identity.
        # Of the loss it depends on this alone.
        return (self.loss.nonnegative_domain, self.constraints, d)

    def size(self, start: FrequencyEstimate) -> float:
        """Return the largest number that the constraints state of the estimate's values, at most 1.

        Violations count relative to it where no frequency is larger. Where only zeros are stated,
        as of orders, the numbers are those of the estimate.
        """
        start = self.start_of(start)
        total = self.region(start.d).total
        if total is not None and abs(total) >= 1:
            return 1.0
        stated = stated_size(self.constraints, start.d)
        return min(stated or _largest(start.frequencies), 1.0)

    def usual_size(self, d: int, largest: float = 1.0) -> float:
        """Return about how large d frequencies are, a power of two: a part of their total.

        ``largest`` stands for it where none is stated.
        """
        whole = abs(self.region(d).total or largest)
        return power_below(whole / d)

    def with_loss(self, loss: Loss) -> Formulation:
        """Return another loss under the same constraints, of which no region is computed twice."""
        return self._with(loss, self.constraints)

    def under(self, constraints: tuple[Constraint, ...]) -> Formulation:
        """Return the same loss under other constraints, whose regions are kept beside these."""
        return self._with(self.loss, constraints)

    def _with(self, loss: Loss, constraints: tuple[Constraint, ...]) -> Formulation:
        """Return another problem that shares the regions, which are kept by constraints."""
        other = self._restated(loss, constraints)
        object.__setattr__(other, "_regions", self._regions)
        object.__setattr__(other, "_sets", self._sets)
        return other

    def _restated(self, loss: Loss, constraints: tuple[Constraint, ...]) -> Formulation:
        """Return another statement that knows as many ways to a point as this one."""
        return Formulation(loss, constraints)

    def kept_set(self, kind: Hashable, make: Callable[[], _Set]) -> _Set:
        """Return what states the constraints for certificates, made once per kind and thread.

        A kind says all that it depends on beside the constraints, such as the number of values. A
        thread may write values to cvxpy's variables while it uses them.
        """
        if not all(constraint.is_settled for constraint in self.constraints):
            return make()
        key = (get_ident(), self.constraints, kind)
        stated = self._sets.get(key)
        if stated is None:
            stated = make()
            if len(self._sets) >= _KEPT_SETS:
                self._sets.clear()
            self._sets[key] = stated
        return cast("_Set", stated)

    def around_balls(self) -> tuple[list[Ball], Formulation]:
        """Return the balls among the constraints, and the problem without them."""
        stated = [(constraint, constraint.ball) for constraint in self.constraints]
        balls = [ball for _, ball in stated if ball is not None]
        others = tuple(constraint for constraint, ball in stated if ball is None)
        return balls, self.under(others)

    def box(self, d: int) -> tuple[Array, Array]:
        """Return the tightest (lower, upper) bounds that are stated value by value."""
        region = self.region(d)
        return region.lower, region.upper

    def total(self, d: int) -> float | None:
        """Return what d values sum to, or None if no constraint says so."""
        return self.region(d).total

    def is_box(self, d: int) -> bool:
        """Return whether the constraints are bounds and at most one total."""
        return self.region(d).is_box

    def is_separate(self, d: int) -> bool:
        """Return whether values interact through the multiplier of one total alone.

        The constraints are a box with at most one total, and no kink of the loss has two values.
        """
        return self.is_box(d) and not self.loss.has_shared_kinks

    def validate_for(self, d: int) -> None:
        """Raise an error unless the constraints fit d values and do not contradict each other.

        Raises
        ------
        InvalidInputError
            If a constraint is made for another number of values.
        InfeasibleError
            If bounds or totals contradict each other. Other conflicts need a program to be found:
            see ``feasibility``.
        """
        self.region(d)

    def accept(self, estimate: FrequencyEstimate | ArrayLike) -> FrequencyEstimate:
        """Return the estimate as such; raises an error unless loss and constraints fit it.

        A loss or constraint that was changed in spite of its seal is an error: what was compiled
        belongs to its old values.
        """
        start = self.start_of(estimate)
        start.require_unchanged()
        self.loss.require_unchanged()
        for constraint in self.constraints:
            constraint.require_unchanged()
        if start.labels is not None:
            for part in (*(leaf for _, leaf in self.loss.leaves()), *self.constraints):
                part.require_one_reading(start.labels)
        # A foreign object may state another set by now, without a change that a seal would notice.
        if not self.is_settled:
            self._regions.clear()
        place = self._place_of_region(start.d)
        is_new = place not in self._regions
        self.loss.validate_for(start)
        self.validate_for(start.d)
        # Once per size: it takes some evaluations of the loss.
        if is_new:
            try:
                check_own_classes(self.loss, self.constraints, start)
            except LdpoptError:
                # What was refused once is refused again.
                self._regions.pop(place, None)
                raise
        return start

    def violation(self, f: Array) -> Array:
        """Return the largest violation of a constraint by f of shape (..., d), shape (...).

        An estimate or a Series goes by its labels.

        Raises
        ------
        InvalidInputError
            If a number in a constraint is the index of one value and the label of another.
        """
        if not isinstance(f, np.ndarray) or not f.size or self.varies:
            start = self.start_of(f)
            # The loss is not used: an own one may need a noise level, which f has not.
            constraints = tuple(part.at(start, {}) for part in self.constraints)
            if start.labels is not None:
                for constraint in constraints:
                    constraint.require_one_reading(start.labels)
            return _largest_violation(constraints, start.frequencies)
        return _largest_violation(self.constraints, f)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was computed."""
        return {"loss": self.loss, "constraints": self.constraints}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start with nothing computed."""
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.loss!r}, {list(self.constraints)!r})"


def _largest_violation(constraints: Sequence[Constraint], f: Array) -> Array:
    """Return the largest violation of f of shape (..., d), shape (...)."""
    if not constraints:
        return np.zeros(f.shape[:-1])
    return reduce(np.maximum, [constraint.violation(f) for constraint in constraints])


def _region(loss: Loss, constraints: Sequence[Constraint], d: int) -> Region:
    """Return the region of d values, or raise the error of ``Formulation.validate_for``."""
    for constraint in constraints:
        constraint.validate_for(d)
    boxes = [_box(constraint, d) for constraint in constraints]
    totals = [constraint.total(d) for constraint in constraints]
    total = _common_total(totals)
    lower, upper = _intersection(loss, [box for box in boxes if box is not None], d)
    # Kept beside the bounds: closed forms ask for it at every solve.
    smallest = float(lower.sum())
    if total is not None:
        _check_total(total, smallest, float(upper.sum()), lower)
    # Each of them ties values together in a way of its own.
    tied = tuple(
        constraint
        for constraint, box, its_total in zip(constraints, boxes, totals, strict=True)
        if box is None and its_total is None
    )
    distinct = _distinct(constraints, boxes, totals)
    by_kind = {type(constraint): constraint for constraint in distinct}
    # Closed forms take each kind once: two of one type have none.
    is_simple = len(by_kind) == len(distinct)
    return Region(
        lower=lower,
        upper=upper,
        lower_sum=smallest,
        lower_is_zero=not lower.any(),
        lower_count=int(np.count_nonzero(np.isfinite(lower))),
        upper_count=int(np.count_nonzero(np.isfinite(upper))),
        total=total,
        is_box=not tied,
        tied=tied,
        by_kind=by_kind if is_simple else {},
        kinds=frozenset(by_kind) if is_simple else None,
    )


def _box(constraint: Constraint, d: int) -> tuple[Array, Array] | None:
    """Return the bounds of a constraint, after a check that they are such; None if it has none."""
    box = constraint.box(d)
    _check_box(constraint, box, d)
    return box


def _check_box(constraint: Constraint, box: tuple[Array, Array] | None, d: int) -> None:
    """Raise an error unless the bounds of a constraint, perhaps a user's own, are two vectors."""
    if box is None:
        return
    # Wrong shapes would broadcast, and NaN compares as "not crossed".
    if any(np.shape(end) != (d,) for end in box) or np.isnan(box).any():
        shapes = " and ".join(str(np.shape(end)) for end in box)
        raise InvalidInputError(
            f"the box of {constraint!r} must be two arrays of shape ({d},) without NaN, "
            f"got shapes {shapes}"
        )


def _common_total(totals: Sequence[float | None]) -> float | None:
    """Return the total that the constraints agree on, if any; several raise an error."""
    # Exactly equal ones agree: a total is stated, not computed.
    values = sorted({value for value in totals if value is not None})
    if len(values) > 1:
        stated = " and ".join(map(repr, values))
        raise InfeasibleError(f"the constraints state different totals: {stated}; keep one of them")
    return values[0] if values else None


# The largest frequency of an estimate from which on its unit is not in doubt.
_SMALL = 2.0**-6


def stated_size(constraints: Sequence[Constraint], d: int) -> float:
    """Return the largest number that constraints state of frequencies, 0 if there is none.

    That is a bound, a total, the reference of a ball, or up to 1 the radius of a ball and what a
    row is compared with. A constraint that does not say which numbers it states counts as 1, unless
    a total and bounds at 0 say how large frequencies can be.
    """
    return _largest_size(constraints, d, [_size_of_one(one, d) for one in constraints])


def largest_frequency(constraints: Sequence[Constraint], d: int, of_estimate: float) -> float:
    """Return the largest frequency that constraints or an estimate speak of, for the unit.

    What a row is compared with is a frequency times a coefficient. Dividing by these takes a look
    at all coefficients, which is spared where the estimate has usual frequencies.
    """
    stated = stated_size(constraints, d)
    if stated <= of_estimate or of_estimate > _SMALL:
        return max(stated, of_estimate)
    sizes = [_size_of_one(one, d, per_coefficient=True) for one in constraints]
    return max(of_estimate, _largest_size(constraints, d, sizes))


def _largest_size(
    constraints: Sequence[Constraint], d: int, sizes: Sequence[float | None]
) -> float:
    """Return the largest of the sizes that constraints state, None of which is one of them."""
    stated = [size for size in sizes if size is not None]
    if len(stated) < len(sizes) and not _is_bounded_by_total(constraints, d):
        stated.append(1.0)
    return max(stated, default=0.0)


def _is_bounded_by_total(constraints: Sequence[Constraint], d: int) -> bool:
    """Return whether no frequency can exceed a total, since none is negative."""
    boxes = [constraint.box(d) for constraint in constraints]
    is_nonnegative = any(box is not None and np.min(box[0]) >= 0 for box in boxes)
    return is_nonnegative and any(one.total(d) is not None for one in constraints)


def _size_of_one(constraint: Constraint, d: int, *, per_coefficient: bool = False) -> float | None:
    """Return the largest number that a constraint states of frequencies, None if it is unknown."""
    total = constraint.total(d)
    if total is not None:
        return abs(total)
    box = constraint.box(d)
    if box is not None:
        return max(map(_largest, box))
    # Orders compare values with each other, and their rows would take long; a number of values is
    # none of frequencies.
    if constraint.isotonic(d) is not None or constraint.largest_support is not None:
        return 0.0
    ball = constraint.ball
    if ball is not None:
        return max(_largest(ball.reference), min(ball.radius, 1.0))
    groups = constraint.disjoint_groups(d)
    if groups is not None:
        return _largest(groups.totals)
    # What a row is compared with has the unit of its coefficients, which may be any.
    rows = constraint.rows(d)
    if rows is None:
        return None
    units: Array = np.ones(1)
    if per_coefficient:
        units = np.asarray(abs(rows.matrix).max(axis=1).todense()).ravel()
        units[units == 0] = 1.0
    return min(max(_largest(rows.lower / units), _largest(rows.upper / units)), 1.0)


def _largest(numbers: Array) -> float:
    """Return the largest absolute value among the finite numbers, 0 if there is none."""
    values = np.asarray(numbers)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def rounding_of(total: float) -> float:
    """Return by how much a total may be outside of what bounds allow and still be met."""
    return _ROUNDING * max(1.0, abs(total))


def _check_total(total: float, smallest: float, largest: float, lower: Array) -> None:
    """Raise an error unless the total lies between the sums that the bounds allow."""
    rounding = rounding_of(total)
    if not smallest - rounding <= total <= largest + rounding:
        place = int(lower.argmax())
        highest = float(lower[place])
        hint = ""
        if lower.min() >= 0 and total < highest <= PERCENT * total:
            hint = (
                f"; the value at index {place} alone is at least {highest:g}: if that is percent, "
                "divide it by 100"
            )
        raise InfeasibleError(
            f"a sum of {total:g} cannot be met: the bounds allow sums from {smallest:g} to "
            f"{largest:g}{hint}"
        )


def _intersection(loss: Loss, boxes: Sequence[tuple[Array, Array]], d: int) -> tuple[Array, Array]:
    """Return the tightest bounds, read-only; bounds that cross raise an error."""
    # A loss that is infinite below zero bounds the values as a constraint would.
    lower = np.full(d, 0.0 if loss.nonnegative_domain else -np.inf)
    upper = np.full(d, np.inf)
    for box_lower, box_upper in boxes:
        np.maximum(lower, box_lower, out=lower)
        np.minimum(upper, box_upper, out=upper)
    crossed = lower > upper
    if crossed.any():
        at = int(np.argmax(crossed))
        raise InfeasibleError(
            f"the bounds contradict each other at index {at}: at least {lower[at]:g}, "
            f"at most {upper[at]:g}"
        )
    # The region is kept, and its arrays are handed out: writing to them would change the problem.
    return closed(lower), closed(upper)


def _distinct(
    constraints: Sequence[Constraint],
    boxes: Sequence[tuple[Array, Array] | None],
    totals: Sequence[float | None],
) -> tuple[Constraint, ...]:
    """Return the constraints without equal boxes or totals of the same kind: those add nothing."""
    kept: list[int] = []
    for i, constraint in enumerate(constraints):
        # Closed forms are registered for each kind once, so that NonNegative() stated twice would
        # hide them. Two totals of one kind have the same value here: others have raised an error.
        rivals = [k for k in kept if type(constraints[k]) is type(constraint)]
        is_repeated = any(
            constraint is constraints[k] or totals[i] is not None or _same_box(boxes[i], boxes[k])
            for k in rivals
        )
        if not is_repeated:
            kept.append(i)
    return tuple(constraints[k] for k in kept)


def _same_box(first: tuple[Array, Array] | None, second: tuple[Array, Array] | None) -> bool:
    return (
        first is not None
        and second is not None
        and np.array_equal(first[0], second[0])
        and np.array_equal(first[1], second[1])
    )
