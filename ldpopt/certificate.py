"""Proof of optimality for any point, whoever produced it: computed from the problem and the point alone.

With the gradient g of a convex loss L at f, the Frank-Wolfe gap max_{s in C} <g, f - s> bounds L(f) - min L from above
(MATH 5); no dual variables are asked for. Its maximum is a greedy filling where C is a box with at most one total, a linear
program (HiGHS) on other polyhedra, and a cone program where a constraint is a cvxpy expression. On sets without bound it is
infinite unless g vanishes to the last bit, so a strongly convex loss uses the smaller bound
max_s <g, f - s> - m/2 ‖f - s‖² there, where it is known in closed form.

Multipliers belong to the Lagrangian L(f) + μ (Σf - total) - Σ λ_v f_v + …, with λ >= 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form import norm
from ldpopt.constraints import AtMost, Constraint, Fixed, Rows
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate

if TYPE_CHECKING:
    from ldpopt.problem import Problem

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Certificate:
    """How far a point is from optimal. All fields have the leading (trial) axes of the point.

    Attributes
    ----------
    gap
        Upper bound of L(f) - min L in the loss's own units; ``inf`` if undefined. It is undefined on sets without bound,
        as without a total, unless the loss is strongly convex or the gradient is exactly what the bounds explain.
    violation
        Largest violation of a constraint, in units of frequency.
    stationarity
        Largest component of the Lagrangian's gradient that no λ >= 0 explains.
    complementarity
        Largest |λ_v| times the distance to its bound; on polyhedra largest |multiplier| times the slack of its row.
    sum_multiplier
        μ, the multiplier of the total: minus the mean gradient weighted by the distance to the nearest bound; 0 without one.
    bound_multipliers
        λ, shape (..., d): positive where a lower bound pushes up, negative where an upper bound pushes down.
    active
        Where a bound holds with equality (within 1e-9), shape (..., d).

    Stationarity and complementarity are NaN where only a cone program knows the set, and both kinds of multipliers are NaN
    wherever the set is more than bounds and one total; gap and violation are always there.
    """

    gap: Array
    violation: Array
    stationarity: Array
    complementarity: Array
    sum_multiplier: Array
    bound_multipliers: Array
    active: NDArray[np.bool_]

    def is_optimal(self, tol: float = 1e-9) -> bool:
        """Return whether gap <= tol and violation <= tol, absolute, in every trial."""
        tol = validate.real("tol", tol, above=0)
        return bool(np.all(self.gap <= tol) and np.all(self.violation <= tol))

    def __repr__(self) -> str:
        worst = {name: float(np.max(getattr(self, name))) for name in _SCALARS}
        return f"Certificate({', '.join(f'{name}={value:.3g}' for name, value in worst.items())})"


_SCALARS = ("gap", "violation", "stationarity", "complementarity")
_ACTIVE = 1e-9  # an interior point method leaves about this much where the solution is zero


def certify(problem: Problem, estimate: FrequencyEstimate | ArrayLike, f: FrequencyEstimate | ArrayLike) -> Certificate:
    """Return the certificate of any vector f, or stack of vectors, for a problem and an estimate.

    Parameters
    ----------
    problem
        The problem that f claims to solve.
    estimate
        The estimate it started from (a plain vector where the loss needs no noise level).
    f
        Finite frequencies of the estimate's shape.

    Raises
    ------
    InvalidInputError
        If f is not finite or has another shape, or the loss is not defined for the estimate.

    Notes
    -----
    Cost: a few passes over f, and a sort where values have upper bounds; one linear or cone program a trial for other sets.
    A problem that is not convex (``AtMost``) is certified on its convex restriction: the non-zeros of f.

    Examples
    --------
    >>> import ldpopt
    >>> from ldpopt import constraints, losses
    >>> cls = ldpopt.Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1.0)])
    >>> certify(cls, [0.5, 0.2, -0.01], [0.65, 0.35, 0.0]).is_optimal(1e-6)
    False
    """
    start = FrequencyEstimate.of(estimate)
    problem.loss.check(start)
    problem.check(start.d)
    point = FrequencyEstimate.of(f).frequencies
    if point.shape != start.frequencies.shape:
        raise InvalidInputError(f"f must have the estimate's shape {start.frequencies.shape}, got {point.shape}")
    gradient = problem.loss.gradient(point, start)
    violation = np.max([np.zeros(point.shape[:-1]), *(c.violation(point) for c in problem.constraints)], axis=0)
    if problem.is_box:
        lower, upper = problem.box(start.d)
        return _box_certificate(gradient, point, violation, problem, lower, upper)
    gap, stationarity, complementarity = _trial_by_trial(problem, gradient, point)
    lower, upper = problem.box(start.d)
    return Certificate(
        gap=gap,
        violation=violation,
        stationarity=stationarity,
        complementarity=complementarity,
        sum_multiplier=np.full(point.shape[:-1], np.nan),
        bound_multipliers=np.full(point.shape, np.nan),
        active=np.minimum(point - lower, upper - point) <= _ACTIVE,
    )


def _box_certificate(
    gradient: Array, point: Array, violation: Array, problem: Problem, lower: Array, upper: Array
) -> Certificate:
    total = problem.total
    below, above = point - lower, upper - point
    mu = _sum_multiplier(gradient, np.minimum(below, above)) if total is not None else np.zeros(point.shape[:-1])
    with np.errstate(invalid="ignore"):
        reduced = gradient + mu[..., None]
        # A gradient that points out of the box is explained by the bound in its way.
        multipliers = np.where(np.where(reduced > 0, np.isfinite(lower), np.isfinite(upper)), reduced, 0.0)
        distance = np.where(reduced > 0, below, above)
        products = np.where((distance == 0) | (multipliers == 0), 0.0, np.abs(multipliers) * np.maximum(distance, 0.0))
        unexplained = np.where(multipliers == reduced, 0.0, reduced)
    return Certificate(
        gap=_box_gap(gradient, point, problem.loss.strong_convexity(), total, lower, upper),
        violation=violation,
        stationarity=np.max(np.abs(unexplained), axis=-1),
        complementarity=np.max(products, axis=-1),
        sum_multiplier=mu,
        bound_multipliers=multipliers,
        active=np.minimum(below, above) <= _ACTIVE,
    )


def _weighted_sum(gradient: Array, weights: Array) -> Array:
    """Return Σ g_v w_v, an infinite gradient counting as nothing where the weight is zero."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sum(np.where(weights == 0, 0.0, gradient * weights), axis=-1))


def _sum_multiplier(gradient: Array, room: Array) -> Array:
    """Return minus the mean gradient, weighted by how far a value is from its bounds: at a bound it tells nothing."""
    free = np.isinf(room).all(axis=-1, keepdims=True)
    weights = np.where(free, 1.0, np.maximum(np.where(np.isinf(room), 0.0, room), 0.0))
    mass = np.maximum(np.sum(weights, axis=-1), np.finfo(np.float64).tiny)
    return np.asarray(-_weighted_sum(gradient, weights) / mass)


def _box_gap(gradient: Array, f: Array, modulus: float, total: float | None, lower: Array, upper: Array) -> Array:
    """Return an upper bound of L(f) - min L over {lower <= f <= upper, Σf = total if given}."""
    unbounded = (np.isinf(lower) & np.isinf(upper)).all()
    if modulus > 0 and (total is None or unbounded):
        # The maximiser s of <g, f-s> - m/2 ‖f-s‖² is the projection of f - g/m: a clip or a shift on these sets.
        target = f - gradient / modulus
        s = np.clip(target, lower, upper) if total is None else norm(target, total)
        return np.asarray(np.sum(gradient * (f - s) - modulus / 2 * (f - s) ** 2, axis=-1))
    if total is None:
        with np.errstate(invalid="ignore"):
            end = np.where(gradient > 0, lower, np.where(gradient < 0, upper, f))
            terms = np.where((gradient == 0) | (f == end), 0.0, gradient * (f - end))
        return np.asarray(np.sum(terms, axis=-1))
    if np.isfinite(upper).all():  # with the others at their upper bounds the total bounds every value below
        lower = np.maximum(lower, total - (upper.sum() - upper))
    if not np.isfinite(lower).all():
        flat = np.all(gradient == gradient[..., :1], axis=-1)
        return np.where(flat & unbounded, gradient[..., 0] * (np.sum(f, axis=-1) - total), np.inf)
    return np.asarray(_weighted_sum(gradient, f) - _greedy_minimum(gradient, lower, upper, total))


def _greedy_minimum(gradient: Array, lower: Array, upper: Array, total: float) -> Array:
    """Return min <g, s> over the box with the total: from the lower bounds, fill up where the gradient is least."""
    base, room = _weighted_sum(gradient, np.broadcast_to(lower, gradient.shape)), total - lower.sum()
    if room <= 0:
        return base
    if np.isinf(upper).all():
        return np.asarray(base + room * np.min(gradient, axis=-1))
    order = np.argsort(gradient, axis=-1)
    capacity = np.minimum((upper - lower)[order], room)
    before = np.cumsum(capacity, axis=-1) - capacity
    filled = np.clip(room - before, 0.0, capacity)
    return np.asarray(base + _weighted_sum(np.take_along_axis(gradient, order, axis=-1), filled))


def _trial_by_trial(problem: Problem, gradient: Array, point: Array) -> tuple[Array, Array, Array]:
    """Return gap, stationarity and complementarity on sets that need a program a trial."""
    results = np.empty((3, *point.shape[:-1]))
    for trial in np.ndindex(point.shape[:-1]):
        g, f = gradient[trial], point[trial]
        rows = [_restricted(c, f) for c in problem.constraints]
        if np.isfinite(g).all() and all(r is not None for r in rows):
            results[(slice(None), *trial)] = _linear_program(g, f, [r for r in rows if r is not None])
        else:
            results[(slice(None), *trial)] = (_cone_program(g, f, problem.constraints), np.nan, np.nan)
    return results[0], results[1], results[2]


def _restricted(constraint: Constraint, f: Array) -> Rows | None:
    """Return the constraint's rows; for AtMost those that keep the zeros of f."""
    if isinstance(constraint, AtMost):
        return Fixed(np.flatnonzero(f == 0), np.zeros(np.count_nonzero(f == 0))).rows(len(f))
    return constraint.rows(len(f))


def _linear_program(gradient: Array, f: Array, parts: list[Rows]) -> tuple[float, float, float]:
    """Return the gap over {lower <= A s <= upper}, and how well the program's multipliers explain the gradient at f."""
    from scipy import optimize, sparse

    matrix = sparse.vstack([part.matrix for part in parts], format="csr")
    lower, upper = (np.concatenate([getattr(part, side) for part in parts]) for side in ("lower", "upper"))
    equal, above, below = lower == upper, (lower != upper) & np.isfinite(upper), (lower != upper) & np.isfinite(lower)
    capped = sparse.vstack([matrix[np.flatnonzero(above)], -matrix[np.flatnonzero(below)]], format="csr")
    caps = np.concatenate([upper[above], -lower[below]])
    scale = max(float(np.abs(gradient).max()), np.finfo(np.float64).tiny)  # HiGHS's tolerances are absolute
    rows = matrix[np.flatnonzero(equal)]
    result: Any = optimize.linprog(
        gradient / scale, A_ub=capped, b_ub=caps, A_eq=rows, b_eq=lower[equal], bounds=(None, None), method="highs"
    )
    if result.status != 0:
        return np.inf, np.nan, np.nan
    pushes = scale * result.ineqlin.marginals
    unexplained = gradient - capped.T @ pushes - rows.T @ (scale * result.eqlin.marginals)
    slack = np.abs(pushes * (caps - capped @ f))
    return float(gradient @ (f - result.x)), float(np.max(np.abs(unexplained))), float(np.max(slack, initial=0.0))


def _cone_program(gradient: Array, f: Array, constraints: list[Constraint]) -> float:
    """Return the gap over constraints that only cvxpy knows."""
    import cvxpy as cp

    if not np.isfinite(gradient).all():
        return np.inf
    s = cp.Variable(len(f))
    program = cp.Problem(cp.Minimize(gradient @ s), [form for c in constraints for form in c.cone_form(s)])
    try:
        program.solve(solver=cp.CLARABEL)
    except cp.error.SolverError:
        return np.inf
    return float(gradient @ f - program.value) if program.status == cp.OPTIMAL else np.inf
