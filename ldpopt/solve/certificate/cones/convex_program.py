"""Certificates of points for any convex cvxpy problem, from any source.

The point's own value and its violation come from what the user wrote, the bound of the minimum from
the program that cvxpy compiles for Clarabel: see ``conic_program`` for the theorem. What is taken
for granted:

- the compiled program states the problem: cvxpy's reductions are right, and the numbers in it,
  doubles, are the problem's own;
- its quadratic part is positive semidefinite, as cvxpy's rules (DCP) have found;
- the objective's value at the point is what numpy computes, up to a few units in the last place of
  the largest of its terms.

Nothing is assumed about the point or about a solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.units import own_unit
from ldpopt.errors import InvalidInputError, InvalidTypeError, UnsupportedProblemError
from ldpopt.expressions import is_power, outside_domain, without_constants
from ldpopt.solve.certificate import shown
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.bounds.evidence import SMALLEST_SCALE, VANISHING
from ldpopt.solve.certificate.bounds.intervals import Box, Empty
from ldpopt.solve.certificate.cones.compiled_problem import CompiledProblem, compiled_problem
from ldpopt.solve.certificate.cones.cone_gap import TARGET
from ldpopt.solve.certificate.cones.conic_program import ConicProgram, Multipliers, Rise
from ldpopt.solve.certificate.cones.dual_cones import HUGE, project
from ldpopt.solve.certificate.cones.multipliers import (
    best,
    explaining,
    failure,
    shortfall,
)
from ldpopt.solve.certificate.cones.open_variables import ranges_below
from ldpopt.solve.programs.units import Units
from ldpopt.tables import html_of

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# How far a value may be better than is possible by rounding, relative to the terms.
_EVALUATION = 1e-12

# Multipliers of a minimum fail their conditions by no more, relative to slopes and terms.
_EXPLAINED = 1e-6

# Violation, relative to the point, from which a point counts as outside the constraints.
_OUTSIDE = 1e-9

_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)

# Entries of a variable below this, as frequencies of many values are, need units of their own.
_SMALL_VALUES = 2.0**-6

# Rows with a coefficient beyond this, or below its inverse, tie values to auxiliary variables of
# another unit. Solvers that equilibrate such rows end with points that are not in the set.
_LARGE_COEFFICIENT = 2.0**8

# Entries below this may be 0 but for a solver's tolerance, which says nothing about units.
_NOTHING = 1e-7

_SHOWN = ("gap", "violation", "value", "bound")

_INDEFINITE = (
    "nothing proves a quadratic form of the objective positive semidefinite, whatever cvxpy takes "
    "it for: without that a tangent is no lower bound"
)

_VANISHES = (
    "the objective's terms vanish below the smallest doubles: state it in another unit, or the "
    "variables"
)


@dataclass(frozen=True, eq=False)
class ProgramCertificate:
    """How far a point is from the optimum of a cvxpy problem.

    Attributes
    ----------
    gap
        Upper bound of the distance of the point's value from the optimal value, in the units of the
        objective; ``inf`` where nothing can be proved.
    violation
        Largest violation of a constraint or of a variable's attributes, as cvxpy measures it.
    value, bound
        The objective at the point, and the bound of its optimum: from below if minimised.
    scale
        What ``is_optimal`` means by relative: the sum of the sizes of the objective's terms, of its
        gradient's times the point, and of what is at stake between the point and 0, or half of the
        point where the objective is infinite at 0, as far as cvxpy knows these. A constant that the
        objective adds is none of its terms.
    size
        The largest entry of the point, at least 1: to what its violation is relative.
    reason
        Why the gap is infinite or above 1e-8 of the scale, in a sentence; else empty.
    stationarity
        The largest slope of a variable of the compiled program that the multipliers do not explain.
    duals
        The multipliers by constraint, with cvxpy's signs: of those that were tried, the ones that
        explain most, which may prove less than the bound. Of a point that is better than any inside
        they are those of the optimum. Empty where there is no bound.
    """

    gap: float
    violation: float
    value: float
    bound: float
    scale: float
    size: float
    reason: str = ""
    stationarity: float = np.inf
    duals: Mapping[Any, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in (*_SHOWN, "scale", "size", "stationarity"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def is_optimal(self, tol: float = 1e-8, *, relative: bool = True) -> bool:
        """Return whether gap and violation are at most tol, by default times scale and size."""
        tol = validate.real("tol", tol, above=0)
        if not np.isfinite(self.gap):
            return False
        is_relative = validate.flag("relative", relative)
        scale, size = (self.scale, self.size) if is_relative else (1.0, 1.0)
        return bool(self.gap <= tol * scale and self.violation <= tol * size)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={getattr(self, name):.3g}" for name in _SHOWN)
        reason = f", reason={self.reason!r}" if self.reason else ""
        return f"ProgramCertificate({numbers}{reason})"

    def _repr_html_(self) -> str:
        """Return the numbers, and the multipliers by constraint."""
        facts = shown.numbers_of(self, _SHOWN)
        numbers = html_of((), facts, title="Certificate of a cvxpy problem")
        return numbers + html_of(shown.HEADINGS, shown.multiplier_rows(self.duals))


def certify_program(
    problem: cp.Problem,
    point: Mapping[cp.Variable, ArrayLike] | ArrayLike | None = None,
    sufficient: float = TARGET,
    reported_in: float = 1.0,
    *,
    with_scale: bool = True,
) -> ProgramCertificate:
    """Return the certificate of a point for any convex cvxpy problem.

    Parameters
    ----------
    problem
        A problem that follows cvxpy's rules (DCP), minimised or maximised.
    point
        The value of every variable, or that of the only one; those that the variables hold if left
        out.
    sufficient
        The search for a better bound ends at a gap of this size, relative to the objective's terms.
    reported_in
        What a unit of the objective is to the reader: ``reason`` states numbers times this.
    with_scale
        Whether ``scale`` is looked at. If not, what is at stake is left out of it unless ``reason``
        depends on that: cvxpy takes as long for a gradient as for a tenth of the certificate.

    Raises
    ------
    InvalidTypeError
        If the arguments are of another type.
    InvalidInputError
        If the problem is not DCP, a parameter or a variable has no value, or a value has another
        shape or is not finite.
    UnsupportedProblemError
        If variables are integers, or Clarabel does not take the problem.

    Notes
    -----
    Cost: about that of solving the problem a few times with Clarabel.

    Examples
    --------
    >>> import cvxpy as cp
    >>> x = cp.Variable(2)
    >>> nearest = cp.Problem(cp.Minimize(cp.sum_squares(x - [1.0, 0.0])), [x[0] <= x[1]])
    >>> certify_program(nearest, {x: [0.5, 0.5]}).is_optimal()
    True
    >>> certify_program(nearest, {x: [0.25, 0.25]}).is_optimal()
    False
    """
    _require_convex(problem)
    values = _checked(problem, point)
    problem, constant = _without_constant(problem)
    # Outside of domains numpy would warn of what is stated below.
    with _holding(values), np.errstate(all="ignore"):
        value, failure_of_value = _evaluated(problem.objective)
        violation = _violation(problem, values)
        outside = outside_domain(problem.objective.expr)
    size = max([1.0, *(float(np.max(np.abs(v), initial=0.0)) for v in values.values())])
    sign = -1.0 if _is_maximised(problem) else 1.0
    nothing = ProgramCertificate(np.inf, violation, value, -sign * np.inf, np.inf, size)
    reason = _approximation(problem)
    if failure_of_value:
        reason = f"the objective has no value at the point: {failure_of_value}"
    elif not np.isfinite(value):
        reason = f"the objective is {value} at the point"
    elif outside > _OUTSIDE * size:
        reason = "the objective is infinite at the point, outside the domain of its functions"
    if reason:
        return _with(nothing, value=value + constant, reason=reason)

    def reported(gap: float, point: Multipliers, scale: float, unit: float) -> tuple[float, str]:
        """Return the scale with what is at stake, and why the gap is large, from the terms."""
        smallest = unit * SMALLEST_SCALE
        is_doubtful = scale < unit * VANISHING or shortfall(gap, point, scale + smallest)
        if with_scale or is_doubtful:
            scale += _at_stake(problem, values, value)
        return scale, shortfall(gap, point, scale + smallest, reported_in)

    proved = _bounded_by_program(problem, values, sign, nothing, sufficient, reported)
    bound = proved.bound
    if constant:
        # The sum is rounded, and a bound of the optimum away from it.
        bound = float(np.nextafter(bound + constant, -sign * np.inf))
    return _with(proved, value=proved.value + constant, bound=bound)


def _at_stake(problem: cp.Problem, values: Mapping[cp.Variable, Any], value: float) -> float:
    """Return the terms of the scale that cvxpy knows: of the gradient, and of the way to 0."""
    with _holding(values):
        along = _along_gradient(problem, values)
    return along + _from_zero(problem, values, value)


def _from_zero(problem: cp.Problem, values: Mapping[cp.Variable, Any], value: float) -> float:
    """Return how far a value of the objective is from that at 0, or half-way; 0 if both are not."""
    for part in (0.0, 0.5):
        with _holding({variable: part * array for variable, array in values.items()}):
            there, _ = _evaluated(problem.objective)
        if np.isfinite(there):
            return abs(value - there)
    return 0.0


def _along_gradient(problem: cp.Problem, values: Mapping[cp.Variable, Any]) -> float:
    """Return Σ |g x| of the objective at the point that variables hold, 0 where it is unknown."""
    try:
        gradient = problem.objective.expr.grad
        sizes = [
            np.abs(gradient[variable].toarray().ravel() * array.ravel(order="F")).sum()
            for variable, array in values.items()
            if gradient.get(variable) is not None
        ]
    # Each atom fails in its own way where it has no gradient.
    except Exception:
        return 0.0
    along = float(np.sum(sizes))
    return along if np.isfinite(along) else 0.0


def _with(certificate: ProgramCertificate, **changes: Any) -> ProgramCertificate:
    return replace(certificate, **changes)


def _is_maximised(problem: cp.Problem) -> bool:
    import cvxpy as cp

    return isinstance(problem.objective, cp.Maximize)


def _without_constant(problem: cp.Problem) -> tuple[cp.Problem, float]:
    """Return the problem without what its objective adds to any point alike, and that number.

    Beside a large constant every point would be optimal, and digits of the rest would be lost.
    """
    import cvxpy as cp

    varying, constant = without_constants(problem.objective.expr)
    if constant is None:
        return problem, 0.0
    number = float(np.real(np.asarray(constant.value)).item())
    # An infinite one is for the value to show.
    if not np.isfinite(number):
        return problem, 0.0
    return cp.Problem(type(problem.objective)(varying), problem.constraints), number


def _evaluated(objective: cp.Minimize | cp.Maximize) -> tuple[float, str]:
    """Return the value of the objective, and why it has none: NaN if it has none."""
    try:
        value = objective.value
    # Each atom fails in its own way where it is not defined, as the inverse of a matrix of zeros.
    except Exception as error:
        return float("nan"), f"numpy raised {type(error).__name__}, {error}"
    if value is None:
        return float("nan"), ""
    return float(np.real(np.asarray(value)).item()), ""


def _require_convex(problem: cp.Problem) -> None:
    """Raise an error unless the problem is convex by cvxpy's rules and complete."""
    import cvxpy as cp

    if not isinstance(problem, cp.Problem):
        raise InvalidTypeError(f"certify_program takes a cvxpy.Problem first, got {problem!r}")
    empty = [parameter.name() for parameter in problem.parameters() if parameter.value is None]
    if empty:
        raise InvalidInputError(f"parameter {empty[0]} has no value: set its .value first")
    is_finite = any(type(one).__name__ == "FiniteSet" for one in problem.constraints)
    if problem.is_mixed_integer() or is_finite:
        raise UnsupportedProblemError(
            "variables are integers, booleans or in finite sets: only convex problems have "
            "certificates"
        )
    if not problem.is_dcp():
        parts = [problem.objective, *problem.constraints]
        wrong = next((str(part) for part in parts if not part.is_dcp()), "the problem")
        raise InvalidInputError(f"not convex by cvxpy's rules (DCP): {wrong}")


def _checked(
    problem: cp.Problem, point: Mapping[cp.Variable, ArrayLike] | ArrayLike | None
) -> dict[cp.Variable, Any]:
    """Return a finite value of the right shape for every variable."""
    variables = problem.variables()
    if point is None or isinstance(point, Mapping):
        return {variable: _value_of(variable, point) for variable in variables}
    if len(variables) != 1:
        names = ", ".join(variable.name() for variable in variables)
        raise InvalidTypeError(
            f"the point must map variables to values, got {point!r}: this problem has "
            f"{len(variables)} variables ({names}), and a value alone is enough for one variable"
        )
    (variable,) = variables
    return {variable: _value_of(variable, {variable: point})}


def _value_of(variable: cp.Variable, point: Mapping[cp.Variable, ArrayLike] | None) -> Any:
    """Return the value of one variable as an array, after a check."""
    value: Any = variable.value if point is None else point.get(variable)
    if value is None:
        where = "set its .value" if point is None else "add it to the point"
        raise InvalidInputError(f"variable {variable.name()} has no value: {where}")
    # cvxpy holds the values of sparse variables as scipy's matrices.
    dense = value.toarray() if hasattr(value, "toarray") else value
    validate.unmasked(f"the value of variable {variable.name()}", dense)
    try:
        array: NDArray[Any] = np.asarray(dense, dtype=np.complex128)
    except (TypeError, ValueError, OverflowError):
        raise InvalidTypeError(
            f"the value of variable {variable.name()} must be numbers, got {value!r}"
        ) from None
    if not variable.is_complex():
        if np.any(array.imag):
            raise InvalidInputError(
                f"variable {variable.name()} is real, and its value has an imaginary part: declare "
                "the variable complex=True, or take the real part"
            )
        array = array.real.copy()
    if array.shape != variable.shape:
        raise InvalidInputError(
            f"variable {variable.name()} has shape {variable.shape}, "
            f"its value has shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise InvalidInputError(f"the value of variable {variable.name()} is not finite")
    return array


@contextmanager
def _holding(values: Mapping[cp.Variable, Any]) -> Iterator[None]:
    """Let variables hold values for a while; the setter would refuse points outside."""
    before = {variable: variable.value for variable in values}
    for variable, value in values.items():
        variable.save_value(value)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        for variable, value in before.items():
            variable.save_value(value)


def _violation(problem: cp.Problem, values: Mapping[cp.Variable, Any]) -> float:
    """Return the largest violation of constraints and of attributes, such as ``nonneg=True``."""
    sizes = [0.0]
    for constraint in problem.constraints:
        try:
            violation = np.asarray(constraint.violation())
        # What has no value at the point is not met there, and each atom says so in its own way.
        except Exception:
            sizes.append(np.inf)
            continue
        # NaN: an expression that is not defined at the point.
        sizes.append(float(np.max(np.nan_to_num(violation, nan=np.inf), initial=0.0)))
        sizes.append(outside_domain(constraint))
    for variable, value in values.items():
        if value.size:
            sizes += _outside_attributes(variable, value)
    return max(sizes)


def _outside_attributes(variable: cp.Variable, value: Any) -> list[float]:
    """Return how far a value is from what each attribute of its variable demands.

    One after the other: cvxpy projects on none where there are several, nor on bounds that depend
    on parameters.
    """
    import cvxpy as cp

    distances = []
    for name, stated in variable.attributes.items():
        if stated is None or stated is False:
            continue
        if name == "bounds":
            lower, upper = (getattr(end, "value", end) for end in stated)
            distances.append(float(np.max([lower - value, value - upper])))
            continue
        inside = cp.Variable(variable.shape, **{name: stated}).project(value)
        dense = inside.toarray() if hasattr(inside, "toarray") else np.asarray(inside)
        distances.append(float(np.max(np.abs(value - dense))))
    return distances


def _approximation(problem: cp.Problem) -> str:
    """Return a sentence if cvxpy compiles another problem than the one stated; empty if not."""
    nodes: list[Any] = [problem.objective.expr, *problem.constraints]
    while nodes:
        node = nodes.pop()
        error = getattr(node, "approx_error", 0.0) or 0.0
        # Powers are compiled by their own exponents.
        if error > 4 * EPS and not is_power(node):
            return (
                f"cvxpy replaces the exponents of {node} by fractions: state it with approx=False"
            )
        has_quadrature = type(node).__name__ in ("RelEntrConeQuad", "OpRelEntrConeQuad")
        # The atoms that are compiled to such cones say so by their numbers of nodes.
        if has_quadrature or getattr(node, "quad_approx", None):
            return f"cvxpy replaces {type(node).__name__} by a quadrature, which is no bound"
        nodes.extend(getattr(node, "args", []))
    return ""


def _has_its_sign(problem: cp.Problem) -> bool:
    """Return whether cvxpy knows that the objective is at least 0, at most if it is maximised."""
    objective = problem.objective.expr
    return bool(objective.is_nonpos() if _is_maximised(problem) else objective.is_nonneg())


def _better_than_possible(nothing: ProgramCertificate, scale: float) -> ProgramCertificate:
    """Return the certificate of a point whose value is better than that of any feasible point.

    A point outside the constraints may have it. One inside disproves itself: its value is not what
    numpy computed, as of the inverse of a matrix that is nearly singular.
    """
    if nothing.violation > _OUTSIDE * nothing.size:
        return _with(nothing, gap=0.0, bound=nothing.value, scale=scale)
    return _with(
        nothing,
        reason="the objective at the point is better than at any feasible point, though it "
        f"violates the constraints by {nothing.violation:.1g} only: numpy's values of the "
        "objective, or of nearly dependent constraints, are not accurate there",
    )


def _bounded_by_program(
    problem: cp.Problem,
    values: Mapping[cp.Variable, Any],
    sign: float,
    nothing: ProgramCertificate,
    sufficient: float,
    reported: Callable[[float, Multipliers, float, float], tuple[float, str]],
) -> ProgramCertificate:
    """Return the certificate with the bound that the compiled program gives.

    ``reported`` makes the scale and the reason of the gap, its multipliers, the sum of the
    program's terms and their unit.
    """
    compiled = compiled_problem(problem)
    if compiled is None:
        return _with(nothing, gap=0.0, bound=nothing.value, scale=abs(nothing.value))
    program, unit = _in_own_unit(compiled.program)
    if not program.is_convex:
        return _with(nothing, reason=_INDEFINITE)
    # The point's value in the program's units.
    offset = compiled.offset / unit
    own_value = sign * nothing.value / unit
    terms = abs(own_value) + abs(offset)
    level = own_value - offset + 4 * EPS * terms
    units = _units_of_values(compiled, values)
    try:
        box = ranges_below(program, level, terms)
    except Empty:
        # No feasible point has a value as good as the point's own.
        if terms < VANISHING and _has_vanishing_numbers(program):
            return _with(nothing, reason=_VANISHES)
        better = _better_than_possible(nothing, unit * terms)
        return _with_own_multipliers(better, problem, compiled, program, unit, units)

    def solve(tolerance: float) -> Multipliers | None:
        return _solved_inside(program, box, level, tolerance, units)

    target = sufficient * terms
    result = best(program, box, program.curvature, target, solve, sufficient, moves=True)
    if result is None:
        return _with(nothing, reason="Clarabel returned no multipliers")
    point, rise, _ = result
    if not np.isfinite(rise.value):
        return _with(nothing, reason=_reason(problem, compiled, rise))
    value, error = program.value(point.x)
    scale = terms + float(np.abs(program.linear) @ np.abs(point.x))
    gap = level - value + rise.value + error + 4 * EPS * (abs(level) + abs(value) + rise.value)
    # Of ranges that follow from the constraints the residuals are the prices.
    price = float(np.abs(project(point.z, program.cones)).sum() + np.abs(rise.residual).sum())
    if gap < -_EVALUATION * scale - 4 * price * nothing.violation:
        better = _better_than_possible(nothing, unit * scale)
        return _with_multipliers(
            better, problem, compiled, program, unit, result.explaining(program)
        )
    gap = unit * max(float(gap), 0.0)
    if _has_its_sign(problem):
        # No value is on the other side of 0.
        gap = min(gap, abs(nothing.value) * (1 + 4 * EPS))
    # Among the smallest doubles a product is rounded.
    gap = np.nextafter(gap, np.inf) if gap < _SMALLEST_NORMAL else gap
    judged = point._replace(attained=unit * point.attained, z=unit * point.z)
    scale, reason = reported(gap, judged, unit * scale, unit)
    if scale < unit * VANISHING and _has_vanishing_numbers(program):
        return _with(nothing, reason=_VANISHES)
    scale += unit * SMALLEST_SCALE
    proved = _with(nothing, gap=gap, bound=nothing.value - sign * gap, scale=scale, reason=reason)
    return _with_multipliers(proved, problem, compiled, program, unit, result.explaining(program))


def _with_multipliers(
    certificate: ProgramCertificate,
    problem: cp.Problem,
    compiled: CompiledProblem,
    program: ConicProgram,
    unit: float,
    point: Multipliers,
) -> ProgramCertificate:
    """Return a certificate with the multipliers of a program, if it has a bound."""
    if np.isinf(certificate.gap):
        return certificate
    duals = compiled.duals(point._replace(z=unit * point.z))
    return _with(
        certificate,
        stationarity=unit * _largest_residual(program, point),
        duals={c: duals[c.id] for c in problem.constraints if c.id in duals},
    )


def _with_own_multipliers(
    certificate: ProgramCertificate,
    problem: cp.Problem,
    compiled: CompiledProblem,
    program: ConicProgram,
    unit: float,
    units: Units | None,
) -> ProgramCertificate:
    """Return a certificate with the multipliers of the program's minimum, where a solver has them.

    A point that is better than any inside needs none for its bound. Those of the minimum are right
    for it as well: they do not depend on a point.
    """
    if np.isinf(certificate.gap):
        return certificate
    size = len(program.linear)
    free = Box(np.full(size, -np.inf), np.full(size, np.inf))
    point = explaining(program, lambda tolerance: program.solve(tolerance, units), free)
    # Of contradicting constraints a solver has no multipliers.
    if point is None or failure(program, point) > _EXPLAINED:
        return certificate
    return _with_multipliers(certificate, problem, compiled, program, unit, point)


def _in_own_unit(program: ConicProgram) -> tuple[ConicProgram, float]:
    """Return the program with costs of order 1, and the unit in which they are, a power of two.

    Products of costs would be lost below the smallest doubles, or beyond the largest.
    """
    largest = float(np.max(np.abs(program.linear), initial=0.0))
    quadratic = program.quadratic
    if quadratic is not None:
        largest = max(largest, float(np.max(np.abs(quadratic.data), initial=0.0)))
    unit = own_unit(largest)
    if quadratic is not None:
        quadratic = quadratic / unit
    return replace(program, linear=program.linear / unit, quadratic=quadratic), unit


def _largest_residual(program: ConicProgram, point: Multipliers) -> float:
    """Return the largest slope of a variable that multipliers in the dual cone leave."""
    inside = project(point.z, program.cones)
    return float(np.max(np.abs(program.residual(point.x, inside)[0]), initial=0.0))


def _has_vanishing_numbers(program: ConicProgram) -> bool:
    """Return whether a square of a number in the program is nearly lost, though that is not 0."""
    numbers = [program.linear, program.matrix.data, program.right]
    if program.quadratic is not None:
        numbers.append(program.quadratic.data)
    sizes = np.abs(np.concatenate(numbers))
    return bool(np.any((sizes > 0) & (sizes < np.sqrt(VANISHING))))


def _solved_inside(
    program: ConicProgram, box: Box, level: float, tolerance: float, units: Units | None
) -> Multipliers | None:
    """Return the solver's multipliers, with its point moved into the ranges, or None."""
    solved = program.solve(tolerance, units)
    if solved is None:
        return None
    inside = np.clip(solved.x, box.lower, box.upper)
    with np.errstate(over="ignore", invalid="ignore"):
        attained = level - program.value(usable(solved.x, HUGE))[0]
    return solved._replace(x=inside, attained=attained)


def _units_of_values(compiled: CompiledProblem, values: Mapping[cp.Variable, Any]) -> Units | None:
    """Return the variables' units if numbers are too far from 1 for the solver's own, else None."""
    sizes = _sizes(compiled, values)
    is_small = bool(np.any((sizes > 0) & (sizes < _SMALL_VALUES)))
    coefficients = np.abs(compiled.program.matrix.data)
    coefficients = coefficients[coefficients > 0]
    is_steep = np.max(coefficients, initial=0.0) > _LARGE_COEFFICIENT
    is_flat = np.min(coefficients, initial=1.0) < 1 / _LARGE_COEFFICIENT
    return compiled.program.units_near(sizes) if is_small or is_steep or is_flat else None


def _sizes(compiled: CompiledProblem, values: Mapping[cp.Variable, Any]) -> Array:
    """Return how large the variables of the compiled program are at the point, 0 where unknown.

    Entries of one variable are taken to be alike: their mean size is that of all.
    """
    sizes = np.zeros(len(compiled.program.linear))
    for variable, value in values.items():
        start = compiled.starts.get(variable.id)
        if start is not None and value.size:
            sizes[start : start + variable.size] = float(np.mean(np.abs(value)))
    return np.where(sizes > _NOTHING, sizes, 0.0)


def _reason(problem: cp.Problem, compiled: CompiledProblem, rise: Rise) -> str:
    """Return why there is no bound, with the name of a variable where one is the reason."""
    if not len(rise.open):
        return "Clarabel returned no multipliers from which a finite bound follows"
    return (
        f"{len(rise.open)} of {len(compiled.program.linear)} variables of the compiled program "
        f"have no finite bounds (first: {_name(problem, compiled, int(rise.open[0]))}): bound the "
        "variables by constraints, if the problem has a minimum"
    )


def _name(problem: cp.Problem, compiled: CompiledProblem, column: int) -> str:
    """Return the user's name for the variable in a column of the compiled program."""
    for variable in problem.variables():
        start = compiled.starts.get(variable.id)
        if start is not None and start <= column < start + variable.size:
            return f"entry {column - start} of {variable.name()}"
    return f"auxiliary variable {column}"
