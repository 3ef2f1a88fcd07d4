"""The gap on sets that only cvxpy can state, from any multipliers of their cones.

For a convex loss with gradient g at f and second derivatives of at least m,

    L(f) - min L <= max over s in the set of g·(f - s) - ½ m ‖f - s‖².

cvxpy compiles the set to A_f s + A_t t + slack = b, slack in K, with auxiliary variables t. The
theorem of ``conic_program`` at x̂ = (f, t̂) bounds the maximum whatever multipliers z in K* are:

    z·(b - A_f f - A_t t̂) + Σ_v max [r_v (f_v - s_v) - ½ m (f_v - s_v)²] + Σ_t max r_t (t̂ - t)

with r = (g, 0) + Aᵀz, and s and t in ranges that all points of the set have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.bounds.intervals import Box, Empty
from ldpopt.solve.certificate.cones.compiled_problem import CompiledProblem
from ldpopt.solve.certificate.cones.conic_program import ConicProgram, Multipliers, Rise
from ldpopt.solve.certificate.cones.dual_cones import HUGE, project
from ldpopt.solve.certificate.cones.multipliers import best, explaining, polished, shortfall
from ldpopt.solve.certificate.cones.open_variables import bounded
from ldpopt.solve.certificate.cones.ranges import propagate
from ldpopt.solve.certificate.cones.repair import repaired
from ldpopt.solve.programs.units import Units

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# A bound follows from others where these imply one that is narrower by this part of it, or as wide
# but for rounding.
_CLEAR = 1e-9

# Accuracy of a point that only has to lie near the others.
_LOOSE = 1e-6

# Accuracy of multipliers of which a solver gets one try.
_TIGHT = 1e-12

TARGET = 5e-10
"""What a gap is worth polishing to, relative to Σ |g_v f_v|."""


class ConeGap(NamedTuple):
    """An upper bound of how far the loss at a point is above its minimum over a set.

    Attributes
    ----------
    gap
        The bound, >= 0; ``inf`` where nothing is proved.
    multipliers
        Returns cvxpy's multipliers of each constraint, by its id; empty if there is no bound.
    residual
        r of the frequencies, shape (d,): what the multipliers of all constraints leave of the
        gradient; NaN without multipliers.
    of_auxiliary
        The largest r of an auxiliary variable.
    reason
        Why the gap is infinite or above 1e-8 of the terms, in a sentence; else empty.
    """

    gap: float
    multipliers: Callable[[], Mapping[int, Any]]
    residual: Array
    of_auxiliary: float
    reason: str


@dataclass(frozen=True, eq=False)
class ConeSet:
    """A set of frequencies that compiled cvxpy constraints and bounds state.

    Attributes
    ----------
    program
        The rows and cones; without an objective.
    columns
        Where the frequencies stand among the variables.
    box
        Ranges of all variables; None where the constraints contradict each other.
    stated
        The bounds of the frequencies that are part of the program, infinite where they follow from
        its rows: a solver takes the longer, the more rows there are.
    compiled
        What cvxpy made of the constraints.
    """

    program: ConicProgram
    columns: slice
    box: Box | None
    stated: Box
    compiled: CompiledProblem
    _units_by_size: dict[float, Units] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def within(
        cls, compiled: CompiledProblem, variable: cp.Variable, lower: Array, upper: Array
    ) -> ConeSet:
        """Return the set with the bounds of the frequencies as the only ranges."""
        program = compiled.program
        first = compiled.starts[variable.id]
        columns = slice(first, first + variable.size)
        size = len(program.linear)
        box = Box(np.full(size, -np.inf), np.full(size, np.inf))
        box.lower[columns] = lower
        box.upper[columns] = upper
        program = replace(program, linear=np.zeros(size))
        return cls(program, columns, box, Box(lower, upper), compiled)

    @classmethod
    def of(
        cls, compiled: CompiledProblem, variable: cp.Variable, lower: Array, upper: Array
    ) -> ConeSet:
        """Return compiled constraints on a variable of shape (d,) that is in lower … upper too.

        Bounds are infinite where none is known.
        """
        result = cls.within(compiled, variable, lower, upper)
        program = result.program
        try:
            assert result.box is not None
            ranges = propagate(program.matrix, program.right, program.cones, result.box)
            stated = _independent(program, result.columns, result.stated, ranges)
            ranges = _with_reach(program, ranges, result.columns)
        except Empty:
            return replace(result, box=None)
        return replace(result, box=ranges, stated=stated)

    def gap(
        self,
        gradient: Array,
        gradient_error: Array | float,
        f: Array,
        modulus: Array | float,
        sufficient: float = TARGET,
    ) -> ConeGap:
        """Return an upper bound of max g·(f - s) - ½ m ‖f - s‖² over s in the set.

        Parameters
        ----------
        gradient, gradient_error
            g up to an error, shape (d,) or a number.
        f
            The point, in the set or not.
        modulus
            m >= 0, a number or shape (d,).
        sufficient
            The search for better multipliers ends at a gap of this size, relative to Σ |g_v f_v|.
        """
        if self.box is None:
            return self._nothing("the constraints contradict each other")
        if not np.isfinite(gradient).all():
            return self._nothing("the gradient is infinite at the point")
        # The search leaves out what it cannot count with, and would prove another point.
        if not np.max(np.abs(f)) < HUGE:
            return self._nothing("the products of frequencies and slopes overflow")
        curvature = np.zeros(len(self.program.linear))
        curvature[self.columns] = modulus
        tangent = self._tangent(gradient, gradient_error)
        target = sufficient * float(np.abs(gradient) @ np.abs(f))
        solvable = self._solvable(tangent, f, modulus)
        units = self._units(f)

        def solve(tolerance: float) -> Multipliers | None:
            solved = solvable.solve(tolerance, units)
            if solved is None:
                return None
            attained = self._attained(solved.x[self.columns], gradient, f, modulus)
            return self._at(f, solved)._replace(attained=attained)

        result = best(tangent, self.box, curvature, target, solve, sufficient)
        if result is None:
            return self._nothing("Clarabel returned no multipliers")
        point, rise, _ = result
        reason = self._reason(rise)
        if not reason:
            terms = float(np.abs(gradient) @ np.abs(f))
            reason = shortfall(rise.value, point, terms)
        return self._result(max(rise.value, 0.0), point, rise.residual, reason)

    def multipliers(self, gradient: Array, f: Array, steepness: Array) -> Iterator[Multipliers]:
        """Yield multipliers for a tangent and second derivatives that may be wrong.

        They are a solver's, and what improves them.
        """
        assert self.box is not None
        tangent = self._tangent(gradient, 0.0)
        solvable = self._solvable(tangent, f, steepness)
        solved = solvable.solve(_TIGHT, self._units(f))
        if solved is None:
            return
        point = self._at(f, solved)
        yield point
        for improve in (polished, repaired):
            better = improve(tangent, point, self.box)
            if better is not None:
                yield better

    def proved(
        self, gradient: Array, gradient_error: Array | float, f: Array, point: Multipliers
    ) -> ConeGap:
        """Return the gap that multipliers prove of a tangent."""
        assert self.box is not None
        tangent = self._tangent(gradient, gradient_error)
        rise = tangent.rise(point, self.box, np.zeros(len(tangent.linear)))
        return self._result(max(rise.value, 0.0), point, rise.residual, self._reason(rise))

    def explained(self, gradient: Array, f: Array, modulus: Array | float) -> ConeGap | None:
        """Return the multipliers that explain most, with their own products as gap, or None.

        They are those of the stated set, in which nothing that follows from others has a
        multiplier: of a set as ``within`` returns it.
        """
        tangent = self._tangent(gradient, 0.0)
        solvable = self._solvable(tangent, f, modulus)
        units = self._units(f)
        size = len(solvable.linear)
        nothing = Box(np.full(size, -np.inf), np.full(size, np.inf))
        solved = explaining(solvable, lambda tolerance: solvable.solve(tolerance, units), nothing)
        if solved is None:
            return None
        point = self._at(f, solved)
        z = project(point.z, self.program.cones)
        product = abs(float(z @ (self.program.right - self.program.matrix @ point.x)))
        return self._result(product, point, tangent.residual(point.x, z)[0], "")

    def _result(self, gap: float, point: Multipliers, residual: Array, reason: str) -> ConeGap:
        """Return a gap with the multipliers by constraint, and what they leave."""
        of_auxiliary = np.abs(residual)
        of_auxiliary[self.columns] = 0.0
        return ConeGap(
            gap,
            partial(self.compiled.duals, point),
            residual[self.columns].copy(),
            float(np.max(of_auxiliary, initial=0.0)),
            reason,
        )

    def _tangent(self, gradient: Array, gradient_error: Array | float) -> ConicProgram:
        """Return the program with the tangent as objective."""
        slope = np.zeros(len(self.program.linear))
        error = np.zeros(len(slope))
        slope[self.columns] = gradient
        error[self.columns] = gradient_error
        return replace(self.program, quadratic=None, linear=slope, linear_error=error)

    def _units(self, f: Array) -> Units:
        """Return the units of the program: frequencies of a million values are small numbers."""
        # Units are powers of two: few for all points of a set.
        size = float(np.exp2(np.round(np.log2(float(np.mean(np.abs(f))) or 1.0))))
        units = self._units_by_size.get(size)
        if units is None:
            sizes = np.zeros(len(self.program.linear))
            sizes[self.columns] = size
            units = self._with_bounds.units_near(sizes)
            self._units_by_size[size] = units
        return units

    def _at(self, f: Array, solved: Multipliers) -> Multipliers:
        """Return f with a solver's auxiliary variables, and the multipliers of the set's rows.

        Those of the bounds are left out: ranges do their work.
        """
        assert self.box is not None
        x = np.clip(solved.x, self.box.lower, self.box.upper)
        x[self.columns] = f
        first = self.program.cones.zero
        extra = len(solved.z) - len(self.program.right)
        return solved._replace(x=x, z=np.concatenate([solved.z[:first], solved.z[first + extra :]]))

    def _attained(self, s: Array, gradient: Array, f: Array, modulus: Array | float) -> float:
        """Return g·(f - s) - ½ m ‖f - s‖², and 0 where a solver's numbers are beyond all others."""
        step = np.where(self._is_open, f - s, 0.0)
        # Of values that are held the modulus may be infinite.
        bend = np.where(step == 0, 0.0, modulus)
        with np.errstate(over="ignore", invalid="ignore"):
            attained = float(gradient @ step - (bend * step) @ step / 2)
        return attained if np.isfinite(attained) else 0.0

    @cached_property
    def _is_open(self) -> NDArray[np.bool_]:
        """Which frequencies can have more than one value."""
        assert self.box is not None
        lower, upper = self.box.lower[self.columns], self.box.upper[self.columns]
        rounding = 16 * EPS * (np.abs(lower) + np.abs(upper))
        return np.asarray((upper - lower > rounding) | np.isinf(rounding))

    def _solvable(self, tangent: ConicProgram, f: Array, modulus: Array | float) -> ConicProgram:
        """Return the program of the gap as a solver takes it: with the bounds as rows.

        A frequency that can only have one value gets no slope: it would hide those of the others,
        as tolerances are relative to the largest, and it changes no other multiplier.
        """
        from scipy import sparse

        # A value that can only be 0 has an infinite modulus.
        bend = np.where(self._is_open, modulus, 0.0)
        slope = tangent.linear.copy()
        slope[self.columns] = np.where(self._is_open, slope[self.columns], 0.0) - bend * f
        quadratic = None
        if bend.any():
            curvature = np.zeros(len(slope))
            curvature[self.columns] = bend
            used = np.flatnonzero(curvature)
            starts = np.searchsorted(used, np.arange(len(slope) + 1))
            # A diagonal that is written as it is stored: scipy's way to it takes ten times as long.
            quadratic = sparse.csc_array((curvature[used], used, starts), (len(slope), len(slope)))
        return replace(self._with_bounds, quadratic=quadratic, linear=slope)

    @cached_property
    def _with_bounds(self) -> ConicProgram:
        """The program with the bounds of the frequencies as rows; without an objective."""
        from scipy import sparse

        assert self.box is not None
        lower, upper = self.stated
        is_open = self._is_open
        program = self.program
        size = len(program.linear)
        numbers = np.arange(size)[self.columns]
        fixed = numbers[~is_open]
        below = np.flatnonzero(np.isfinite(lower) & is_open)
        above = np.flatnonzero(np.isfinite(upper) & is_open)
        values = np.concatenate([self.box.lower[fixed], -lower[below], upper[above]])
        unit = sparse.eye_array(size, format="csr")
        rows = [unit[fixed], -unit[numbers[below]], unit[numbers[above]]]
        bounds = sparse.vstack(rows, format="csr")
        first = program.cones.zero
        matrix = sparse.vstack(
            [program.matrix[:first], bounds, program.matrix[first:]], format="csc"
        )
        right = np.concatenate([program.right[:first], values, program.right[first:]])
        cones = replace(
            program.cones,
            zero=first + len(fixed),
            nonneg=program.cones.nonneg + len(below) + len(above),
        )
        return ConicProgram(None, np.zeros(size), matrix, right, cones)

    def _nothing(self, reason: str) -> ConeGap:
        """Return that no gap is known."""
        d = self.columns.stop - self.columns.start
        return ConeGap(np.inf, dict, np.full(d, np.nan), np.nan, reason)

    def _reason(self, rise: Rise) -> str:
        """Return what has no bound; empty where the rise is one."""
        if np.isfinite(rise.value):
            return ""
        if not len(rise.open):
            return "the multipliers are not finite"
        position = int(rise.open[0]) - self.columns.start
        if 0 <= position < self.columns.stop - self.columns.start:
            return f"frequency {position} has no bound on the side to which the tangent falls"
        return f"auxiliary variable {int(rise.open[0])} of the cones has no finite bound"


def _independent(program: ConicProgram, columns: slice, stated: Box, ranges: Box) -> Box:
    """Return bounds of the frequencies, infinite where they follow from others and the rows.

    They do where ``ranges`` are narrower, and where an equation of positive coefficients, as that
    of a total, caps each value by the lower bounds of the others.
    """
    lower, upper = stated
    sizes = [np.where(np.isfinite(end), np.abs(end), 0.0) for end in stated]
    allowed = _CLEAR * np.add(*sizes)
    lower = np.where(ranges.lower[columns] > lower + allowed, -np.inf, lower)
    upper = np.where(ranges.upper[columns] < upper - allowed, np.inf, upper)
    caps = _caps_by_equations(program, columns, lower)
    return Box(lower, np.where(upper >= caps - allowed, np.inf, upper))


def _caps_by_equations(program: ConicProgram, columns: slice, lower: Array) -> Array:
    """Return how large equations let each frequency be where the others are as small as can be.

    Only equations count whose coefficients are all positive and whose variables are all bounded.
    """
    equations = program.matrix[: program.cones.zero].tocsr()
    count, size = equations.shape
    ends = np.full(size, -np.inf)
    ends[columns] = lower
    is_open = np.isinf(ends)
    row = np.repeat(np.arange(count), np.diff(equations.indptr))
    is_unfit = (equations.data <= 0) | is_open[equations.indices]
    is_used = np.bincount(row, is_unfit, count) == 0
    left = program.right[:count] - equations @ np.where(is_open, 0.0, ends)
    entries = np.flatnonzero(is_used[row])
    places = equations.indices[entries]
    caps = np.full(size, np.inf)
    np.minimum.at(caps, places, ends[places] + left[row[entries]] / equations.data[entries])
    return caps[columns]


def _with_reach(program: ConicProgram, box: Box, columns: slice) -> Box:
    """Return the box with bounds for auxiliary variables that propagation leaves without.

    Frequencies without bounds are not worth it: they have none, or curvature of the loss.
    """
    is_open = np.isinf(box.lower) | np.isinf(box.upper)
    is_open[columns] = False
    if not is_open.any():
        return box
    solved = program.solve(_LOOSE)
    if solved is None:
        return box
    # Nothing is minimised, so that every level cuts nothing off.
    return bounded(program, box, np.clip(solved.x, box.lower, box.upper), 1.0)
