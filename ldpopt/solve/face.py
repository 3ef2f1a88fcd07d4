"""The face of the feasible set on which a minimiser stays while the estimate moves a little.

These are the constraints that hold with a multiplier. A constraint that holds without one is at a
kink of the solution: it holds for moves of the estimate to one side, and no longer for moves to the
other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, LinearInequalities
from ldpopt.errors import NoDerivativeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.base import Totals
from ldpopt.solve.certificate.bounds.competitors import domain_of_all, stated
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.polyhedra.rows import RowsOfTrials
from ldpopt.solve.certificate.prices.normal_equations import NormalEquations
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.programs.program import LinearProgram

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

NEAR = 1e-7
"""Distance from a bound at which a constraint may hold: cone solvers stop this far inside."""

EXACT = 1e-12
"""Closer than this it holds: closed forms and polished points are right to rounding."""

# A multiplier below this share of the largest slope is taken for 0: the constraint then holds by
# accident, and the solution has a kink there.
_NO_MULTIPLIER = 1e-8

# By how much the slope at a solver's point may miss what its constraints explain, as a share of it.
_UNEXPLAINED = 1e-5

# Damping of the normal equations, and how often their residual is solved for again.
_DAMPING = 1e-12
_REFINEMENTS = 4

# How much of each multiplier the program of ``_largest_support`` counts: low, so that it gives one
# to as many constraints as possible, and not much to a few.
_COUNTED = 1e-4

_TINY = float(np.finfo(np.float64).tiny)

# Rounds in which constraints near the point are recognised as not holding.
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Rows a·f that have reached one of their ends, or are equations.

    Attributes
    ----------
    matrix
        Sparse, (m, d).
    side
        1 at a lower end (a·f may grow), -1 at an upper end, 0 of an equation.
    distance
        How far each row is from that end.
    price
        Of a difference that a price on variation keeps at 0, this price, which bounds its
        multiplier on both sides; infinite for others.
    priced_by
        Of a difference that a bounded sum of differences keeps at 0, the number of the row of this
        sum, whose multiplier is the price; -1 for others.
    names
        What each row states, for messages; an array of text.
    """

    matrix: Any
    side: NDArray[np.int64]
    distance: Array
    price: Array
    priced_by: NDArray[np.int64]
    names: NDArray[Any]

    def chosen(self, mask: Mask) -> HeldRows:
        """Return some of the rows."""
        places = np.flatnonzero(mask)
        # A sum that is left out leaves its differences without a price, as equations.
        number = np.append(np.cumsum(mask) - 1, -1)
        number[:-1][~mask] = -1
        return HeldRows(
            self.matrix[places],
            self.side[places],
            self.distance[places],
            self.price[places],
            number[self.priced_by[places]],
            self.names[places],
        )

    def widened(self, count: int) -> HeldRows:
        """Return the rows in a space of further variables, which they leave out."""
        from scipy import sparse

        left_out = sparse.csr_array((len(self.side), count))
        return replace(self, matrix=sparse.hstack([self.matrix, left_out], format="csr"))

    def prices(self, multipliers: Array) -> Array:
        """Return what bounds the size of each row's multiplier, given the multipliers."""
        # Number -1 takes the infinite last entry: such a row has no sum that prices it.
        of_sums = np.append(np.abs(multipliers), np.inf)[self.priced_by]
        return np.asarray(np.minimum(self.price, of_sums))


@dataclass(frozen=True, eq=False)
class Face:
    """What a minimiser keeps while the estimate moves a little.

    Attributes
    ----------
    fixed
        The values that stay where they are, shape (d,).
    rows
        The rows that stay equal to what they are.
    curvature, sensitivity
        Second derivatives of the loss: in f_v twice, and (negated) in f_v and f̃_v.
    is_centred
        Whether the loss looks at the estimate after a shift to a given sum.
    weak_sides
        For each value 1 or -1 where it is at its lower or upper end without a multiplier, else 0.
    weak_rows
        The rows that hold without a multiplier.
    kinks
        These constraints in words; nothing where the solution is differentiable.
    """

    fixed: Mask
    rows: HeldRows
    curvature: Array
    sensitivity: Array
    is_centred: bool
    weak_sides: NDArray[np.int64]
    weak_rows: HeldRows
    kinks: tuple[str, ...] = field(default=())

    def with_totals(self, totals: Totals) -> Face:
        """Return the face of values and totals t = A f of groups, shape (d + m,): a sum over both.

        The totals are free, and the rows A f - t = 0 tie them to the values.
        """
        from scipy import sparse

        m = len(totals.curvature)
        none = np.zeros(m, dtype=np.int64)
        ties = sparse.hstack([totals.members, -sparse.eye_array(m)], format="csr")
        names = [f"the total of measured group {i}" for i in range(m)]
        return Face(
            fixed=np.concatenate([self.fixed, none.astype(np.bool_)]),
            rows=_joined([self.rows.widened(m), _rows(ties, none, names)]),
            curvature=np.concatenate([self.curvature, totals.curvature]),
            sensitivity=np.concatenate([self.sensitivity, totals.sensitivity]),
            is_centred=self.is_centred,
            weak_sides=np.concatenate([self.weak_sides, none]),
            weak_rows=self.weak_rows.widened(m),
            kinks=self.kinks,
        )


@dataclass(eq=False)
class _Point:
    """A minimiser, what holds near it, and the multipliers that explain its slope.

    Attributes
    ----------
    f, curvature
        The point, and the second derivatives there.
    low, high
        The smallest and the largest slope of each value: they differ at kinks of the loss.
    bounds, at
        Bounds of the values; 1 and -1 at lower and upper ends, 2 where any multiplier is right, 0
        of values that are free.
    rows, multipliers
        The rows near their ends, and their multipliers.
    """

    f: Array
    curvature: Array
    low: Array
    high: Array
    bounds: Box
    at: NDArray[np.int64]
    rows: HeldRows
    multipliers: Array = field(default_factory=lambda: np.empty(0))

    @property
    def slope(self) -> Array:
        """A slope of each value, 0 where the loss holds it at 0 by an infinite one."""
        return np.asarray(np.where(np.isfinite(self.low), self.low, 0.0))

    @property
    def free(self) -> Mask:
        """The values whose slope only rows can explain."""
        return np.asarray((self.at == 0) & (self.low == self.high) & np.isfinite(self.low))

    @property
    def price(self) -> Array:
        """What the rows explain of the slope of each value."""
        return np.asarray(self.rows.matrix.T @ self.multipliers)

    @property
    def pull(self) -> Array:
        """The multipliers of the values at an end: how much the slope draws them to it."""
        side = np.where(self.at == -1, -1, 1)
        return np.asarray(side * (self.slope - self.price))

    @property
    def scale(self) -> float:
        """The size of the slopes: where all are 0, of the terms whose difference they are."""
        terms = np.abs(self.f) * np.where(np.isfinite(self.curvature), self.curvature, 0.0)
        return max(float(np.max(np.abs(self.slope))), float(np.max(terms)), _TINY)

    @property
    def nothing(self) -> float:
        """Multipliers up to this size are none."""
        return _NO_MULTIPLIER * self.scale

    def explain(self) -> None:
        """Find the multipliers; what a solver only left near an end is taken for free."""
        for _ in range(_ROUNDS):
            self.multipliers = _explaining(self)
            # From the end that each value is near.
            distance = np.where(
                self.at == 1, self.f - self.bounds.lower, self.bounds.upper - self.f
            )
            # A Newton step of its own would take such a value to its end: it belongs there.
            with np.errstate(divide="ignore", invalid="ignore"):
                drawn = self.pull / self.curvature >= distance
            inside = (np.abs(self.at) == 1) & (distance > EXACT) & ~drawn
            # A row at some distance that pushes nothing was merely close.
            loose = (self.rows.distance > EXACT) & self._without_multiplier
            if not (inside.any() or loose.any()):
                return
            self.at = np.where(inside, 0, self.at)
            self.rows = self.rows.chosen(~loose)

    @property
    def _without_multiplier(self) -> Mask:
        """The rows, equations aside, whose multiplier is none or has the wrong sign."""
        signed = self.rows.side * self.multipliers
        return np.asarray((self.rows.side != 0) & (signed <= self.nothing))

    def weak(self) -> tuple[NDArray[np.int64], Mask]:
        """Return the sides of the values, and the rows, that hold without a multiplier."""
        # Without a pull the value would stay if the bound were taken away.
        values = np.where((np.abs(self.at) == 1) & (self.pull <= self.nothing), self.at, 0)
        # Rows whose values are all held add nothing, whatever their multiplier.
        touches = np.asarray(abs(self.rows.matrix) @ self.free.astype(float)) > 0
        rows = self._without_multiplier & touches
        if values.any() or rows.any():
            # Where constraints depend on each other their multipliers are not unique: others may
            # show that these hold in earnest.
            return _without_any_multiplier(self)
        return values, rows


def face_of(formulation: Formulation, start: FrequencyEstimate, f: Array) -> Face:
    """Return the face at the minimiser f of a problem for one vector.

    Raises
    ------
    NoDerivativeError
        If the loss is not a smooth sum over values with known second derivatives, a set is curved
        or has rows with further variables, or the slope at f is not what constraints that hold can
        explain.
    """
    loss = formulation.loss
    curvature, sensitivity = _second_derivatives(loss, start, f)
    low, high = _slopes(loss, start, f)
    bounds = _bounds(formulation, start, f)
    rows = _rows_near(formulation, start, f)
    point = _Point(f, curvature, low, high, bounds, _at_ends(f, bounds), rows)
    point.explain()
    # By how much each multiplier is beyond its price: at most 0 where the point is a minimiser.
    excess = np.abs(point.multipliers) - point.rows.prices(point.multipliers)
    _require_explained(point, excess)
    weak, weak_rows = point.weak()
    at_kink = point.low < point.high
    # What is held in earnest, by a kink or by an infinite slope stays; what holds by accident may
    # move to one side.
    is_held = (point.at != 0) & (weak == 0)
    return Face(
        fixed=is_held | at_kink | ~np.isfinite(low),
        rows=point.rows.chosen(~weak_rows),
        curvature=curvature,
        sensitivity=sensitivity,
        is_centred=loss.is_centred,
        weak_sides=weak,
        weak_rows=point.rows.chosen(weak_rows),
        kinks=tuple(_kinks_in_words(point, weak, weak_rows, excess)),
    )


def _require_explained(point: _Point, excess: Array) -> None:
    """Raise an error if the constraints that hold do not explain the slope at the point."""
    missed = np.where(point.free, point.slope - point.price, 0.0)
    unexplained = float(np.max(np.abs(missed)))
    beyond = max(unexplained, float(np.max(excess, initial=0.0)))
    if beyond > _UNEXPLAINED * point.scale:
        raise NoDerivativeError(
            "no exact derivative: the constraints that hold do not explain the slope at the "
            "solution; solve to a higher accuracy"
        )


def _kinks_in_words(
    point: _Point, weak: NDArray[np.int64], weak_rows: Mask, excess: Array
) -> list[str]:
    """Return what makes the solution have a kink in the estimate; nothing where it has none."""
    names = point.rows.names
    kinks = [f"value {v} is at its bound without a multiplier" for v in np.flatnonzero(weak)]
    kinks += [f"{name} holds without a multiplier" for name in names[weak_rows]]
    # A tie whose multiplier has reached its price is about to break.
    at_price = np.isfinite(excess) & (excess >= -point.nothing)
    kinks += [f"{name} is at the end of its price" for name in names[at_price]]
    # So is a kink of the loss whose slope has reached one of its two sides.
    at_kink = point.low < point.high
    is_lowest = point.price <= point.low + point.nothing
    is_highest = point.price >= point.high - point.nothing
    leaving = np.flatnonzero(at_kink & (is_lowest | is_highest))
    kinks += [f"value {v} leaves a kink of the loss" for v in leaving]
    return kinks


def _second_derivatives(loss: Loss, start: FrequencyEstimate, f: Array) -> tuple[Array, Array]:
    """Return ∂²L/∂f² and -∂²L/∂f∂f̃ of each value, or raise the error that they are not known."""
    smooth = loss.smooth_part
    sensitivity = None if smooth is None else loss.sensitivity(f, start)
    # Of several measurements the totals of groups are added by ``Face.with_totals``.
    is_sum = smooth is not None and (smooth.separable is not None or smooth.adds_over_totals)
    if smooth is None or sensitivity is None or not loss.convex or not is_sum:
        raise NoDerivativeError(
            f"no exact derivative: {loss!r} is not a smooth convex sum over values whose second "
            "derivatives are known (a fitted prior moves with the estimate); ldpopt.risk takes "
            "random probes instead"
        )
    curvature = np.broadcast_to(smooth.curvature(start, f, f), f.shape)
    return curvature, np.broadcast_to(sensitivity, f.shape)


def _slopes(loss: Loss, start: FrequencyEstimate, f: Array) -> tuple[Array, Array]:
    """Return the smallest and largest slope of each value at f, without kinks that values share."""
    smooth = loss.smooth_part
    assert smooth is not None  # _second_derivatives has looked
    # A copy: kinks are added to it, and the loss may have returned an array that it keeps.
    low = np.array(smooth.gradient(f, start), dtype=np.float64)
    high = low.copy()
    if loss.has_kinks:
        for place, below, above in loss.kinks(loss.data(start), loss.constants(start)):
            # Within NEAR of a kink any slope between its two sides is right: low and high differ.
            low += np.where(f > place + NEAR, above, below)
            high += np.where(f < place - NEAR, below, above)
    chain = loss.smoothing(start.d) if loss.has_shared_kinks else None
    if chain is not None:
        # The price of the differences that are not 0 is a slope like any other.
        along = f[chain.chain]
        signs = _signs(np.diff(along), along)
        slope = np.zeros(len(f))
        np.add.at(slope, chain.chain[1:], chain.price * signs)
        np.add.at(slope, chain.chain[:-1], -chain.price * signs)
        weight = _weight_of_squares(loss)
        low += weight * slope
        high += weight * slope
    elif loss.has_shared_kinks:
        raise NoDerivativeError(
            f"no exact derivative: {loss!r} has kinks that values share; of these only total "
            "variation beside squares that all count the same is known here"
        )
    return low, high


def _weight_of_squares(loss: Loss) -> float:
    """Return the weight of the squares in squares with a price on variation."""
    parts = getattr(loss, "parts", [])
    return next(float(weight) for weight, term in parts if not term.has_shared_kinks)


def _signs(differences: Array, along: Array) -> Array:
    """Return the signs of differences, 0 for those that are rounding."""
    near = NEAR * float(np.max(np.abs(along)))
    return np.where(np.abs(differences) <= near, 0.0, np.sign(differences))


def _bounds(formulation: Formulation, start: FrequencyEstimate, f: Array) -> Box:
    region = formulation.region(start.d)
    ends = stated(region, f, domain_of_all(formulation, start))
    return Box(*(np.broadcast_to(end, f.shape) for end in ends))


def _at_ends(f: Array, bounds: Box) -> NDArray[np.int64]:
    """Return 1 at lower ends, -1 at upper ones, 2 where both are the same, else 0."""
    low = f - bounds.lower <= NEAR
    high = bounds.upper - f <= NEAR
    # A value between two close ends counts as at the lower one.
    at = np.where(low, 1, np.where(high, -1, 0))
    return np.where(bounds.lower == bounds.upper, 2, at)


def _rows_near(formulation: Formulation, start: FrequencyEstimate, f: Array) -> HeldRows:
    """Return the rows of all constraints that are near one of their ends at f."""
    d = start.d
    # Sums of differences and top sets have a form without further variables near f.
    faces = {one: one.face(f, NEAR) for one in formulation.constraints}
    plain = [one for one, face in faces.items() if face is None]
    source = RowsOfTrials(Formulation(formulation.loss, tuple(plain)), d)
    if source.curved:
        raise NoDerivativeError(
            f"no exact derivative: {source.curved[0]!r} is curved, and its face moves"
        )
    system = source.of(formulation.loss, start).system
    if system.matrix.shape[1] > d:
        raise NoDerivativeError(
            "no exact derivative: a constraint has rows with further variables, whose faces are "
            "not known here"
        )
    parts = [_held(system, f, "a row of the constraints")]
    for one, face in faces.items():
        if face is not None:
            is_order = one.isotonic(d) is not None
            held = _held(face, f, repr(one)) if is_order else _held_differences(one, face, f)
            parts.append(held)
    loss = formulation.loss
    smoothing = loss.smoothing(d) if loss.has_shared_kinks else None
    if smoothing is not None:
        price = _weight_of_squares(loss) * smoothing.price
        parts.append(_ties(smoothing.chain, f, price))
    return _joined(parts)


def _held(system: LinearInequalities, f: Array, name: str) -> HeldRows:
    """Return the equations and the rows near an end."""
    values = np.asarray(system.matrix @ f)
    above = values - system.lower
    below = system.upper - values
    # An equation has no side, and holds whatever a solver left over.
    equal = system.lower == system.upper
    # Rows of large sums are right to as many digits, and so to less in absolute terms.
    nearest_end = np.minimum(np.abs(system.lower), np.abs(system.upper))
    size = np.maximum(1.0, nearest_end)
    at_lower = above <= NEAR * size
    at_upper = (below <= NEAR * size) & ~at_lower
    side = np.where(equal, 0, np.where(at_lower, 1, -1))
    kept = np.flatnonzero(equal | at_lower | at_upper)
    distance = np.where(equal, 0.0, np.where(at_lower, above, below))
    return _rows(
        system.matrix.tocsr()[kept],
        side[kept],
        [f"{name} ({i})" for i in kept],
        distance=distance[kept],
    )


def _rows(
    matrix: Any,
    side: NDArray[np.int64],
    names: list[str],
    *,
    distance: Array | float = 0.0,
    price: float = np.inf,
    priced_by: NDArray[np.int64] | int = -1,
) -> HeldRows:
    """Return rows, of which some numbers are the same for all."""
    count = len(side)
    return HeldRows(
        matrix,
        side,
        np.full(count, distance, dtype=np.float64),
        np.full(count, price),
        np.full(count, priced_by, dtype=np.int64),
        np.array(names, dtype=object),
    )


def _held_differences(one: Constraint, rows: LinearInequalities, f: Array) -> HeldRows:
    """Return the sums of differences that have reached their bound, and the differences at 0."""
    from scipy import sparse

    # The rows of ``face`` are one sum, then its differences that are 0, for each bound.
    sums = np.flatnonzero(rows.lower == -np.inf)
    ends = [*sums, len(rows.lower)][1:]
    values = np.asarray(rows.matrix @ f)
    kept: list[int] = []
    priced_by: list[int] = []
    for first, end in zip(sums, ends, strict=True):
        # A sum below its bound says nothing, and then its differences are 0 by accident.
        if rows.upper[first] - values[first] <= NEAR * max(1.0, float(rows.upper[first])):
            priced_by += [-1] + [len(kept)] * (end - first - 1)
            kept += range(first, end)
    side = np.where(rows.lower[kept] == -np.inf, -1, 0)
    matrix = sparse.csr_array(rows.matrix)[kept]
    names = [repr(one)] * len(kept)
    return _rows(matrix, side, names, priced_by=np.array(priced_by, dtype=np.int64))


def _ties(chain: NDArray[np.int64], f: Array, price: float) -> HeldRows:
    """Return the differences along a chain that a price on variation keeps at 0."""
    from scipy import sparse

    along = f[chain]
    tied = np.flatnonzero(_signs(np.diff(along), along) == 0)
    # Each row is the upper value of a tie minus the lower one.
    count = len(tied)
    places = np.concatenate([np.arange(count), np.arange(count)])
    columns = np.concatenate([chain[tied], chain[tied + 1]])
    entries = np.concatenate([-np.ones(count), np.ones(count)])
    matrix = sparse.csr_array((entries, (places, columns)), shape=(count, len(f)))
    names = [f"the difference of values {chain[i]} and {chain[i + 1]}" for i in tied]
    return _rows(matrix, np.zeros(count, dtype=np.int64), names, price=price)


def _joined(parts: list[HeldRows]) -> HeldRows:
    """Return all rows as one."""
    from scipy import sparse

    # Numbers of rows count from the beginning of their own part: they move with it.
    offsets = np.cumsum([0, *(len(part.side) for part in parts)])
    priced_by = [
        np.where(part.priced_by >= 0, part.priced_by + offset, -1)
        for part, offset in zip(parts, offsets[:-1], strict=True)
    ]
    return HeldRows(
        sparse.csr_array(sparse.vstack([part.matrix for part in parts], format="csr")),
        np.concatenate([part.side for part in parts]),
        np.concatenate([part.distance for part in parts]),
        np.concatenate([part.price for part in parts]),
        np.concatenate(priced_by),
        np.concatenate([part.names for part in parts]),
    )


def _explaining(point: _Point) -> Array:
    """Return the multipliers of rows that explain the slopes of free values, by least squares."""
    matrix = point.rows.matrix
    free = point.free
    multipliers = np.zeros(matrix.shape[0])
    # Rows of held values alone have nothing to explain.
    touches = np.flatnonzero(np.asarray(abs(matrix) @ free.astype(float)) > 0)
    if not len(touches):
        return multipliers
    rows = matrix[touches]
    # Weighted by how far a value moves with its slope: the fit is that of one Newton step.
    with np.errstate(divide="ignore"):
        weights = np.where(free & (point.curvature > 0), 1 / point.curvature, free.astype(float))
    equations = NormalEquations(rows, weights, _DAMPING)
    # The damping makes each solve inexact: what is left over is solved for again.
    residual = point.slope
    solved = np.zeros(len(touches))
    for _ in range(_REFINEMENTS):
        solved = solved + equations.solve(equations.weighted @ residual)
        residual = point.slope - rows.T @ solved
    multipliers[touches] = solved
    return multipliers


def _without_any_multiplier(point: _Point) -> tuple[NDArray[np.int64], Mask]:
    """Return the sides of the values, and the rows, that no explanation gives a multiplier.

    A linear program looks for the explanation with most multipliers (Goldman, Tucker 1956): the
    others are 0 in all of them.
    """
    from scipy import sparse

    d = len(point.slope)
    m = len(point.rows.side)
    # Where a kink or an infinite slope holds a value any multiplier is right.
    at = np.where(point.free | (np.abs(point.at) == 1), point.at, 2)
    held = np.flatnonzero(at)
    places = np.arange(len(held))
    unit = sparse.csr_array((np.ones(len(held)), (held, places)), shape=(d, len(held)))
    sides = np.concatenate([point.rows.side, np.where(at[held] == 2, 0, at[held])])
    counted = np.flatnonzero(sides)
    # Equations, and values that a kink holds, need no count: they stay in any case.
    # Variables: one multiplier per row and per held value, then what is counted of each.
    entries = (-sides[counted].astype(float), (np.arange(len(counted)), counted))
    picked = sparse.csr_array(entries, shape=(len(counted), m + len(held)))
    none = sparse.csr_array((d, len(counted)))
    explained = sparse.hstack([point.rows.matrix.T, unit, none])
    at_most = sparse.hstack([picked, sparse.eye_array(len(counted))])
    # In units of the slope: the tolerances of the program are absolute.
    target = point.slope / point.scale
    system = LinearInequalities(
        sparse.vstack([explained, at_most], format="csr"),
        np.concatenate([target - _NO_MULTIPLIER, np.full(len(counted), -np.inf)]),
        np.concatenate([target + _NO_MULTIPLIER, np.zeros(len(counted))]),
    )
    # A multiplier has the sign of its side; that of an equation has either.
    signs: dict[int, tuple[float | None, float | None]] = {1: (0, None), -1: (None, 0)}
    ranges = [signs.get(int(side), (None, None)) for side in sides]
    ranges += [(0, _COUNTED)] * len(counted)
    # As many as possible, each counted up to a small amount.
    cost = np.concatenate([np.zeros(len(sides)), -np.ones(len(counted))])
    solution = LinearProgram(system, ranges).minimise(cost)
    if solution.status != "optimal":
        raise NoDerivativeError(
            "no exact derivative: no multipliers of the constraints that hold explain the slope "
            "at the solution; solve to a higher accuracy"
        )
    is_weak = np.zeros(len(sides), dtype=np.bool_)
    # Multipliers of the program are right to its tolerance, and are counted up to far more.
    is_weak[counted] = solution.point[len(sides) :] <= 0.01 * _COUNTED
    weak = np.zeros(d, dtype=np.int64)
    weak[held] = np.where(is_weak[m:], at[held], 0)
    return weak, is_weak[:m]
