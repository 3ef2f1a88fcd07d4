"""Gap and multipliers on sets that need a program: linear for polyhedra, by duality without bound, conic for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, Fixed, LinearInequalities, NonNegative
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve import feasibility
from ldpopt.solve.certificate.evidence import Evidence, weighted_sum
from ldpopt.solve.paths.conic import SETTINGS

if TYPE_CHECKING:
    from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

_NEAR = 1e-6  # slack of a row that may carry a multiplier where it is sought by least squares
_TINY = float(np.finfo(np.float64).tiny)


class _Bound(NamedTuple):
    """A function below the loss, up to ``offset``: Σ below·min(s - k, 0) + above·max(s - k, 0), or linear without kinks k."""

    below: Array
    above: Array
    kinks: Array | None
    offset: Array


def evidence(problem: Problem, start: FrequencyEstimate, point: Array) -> Evidence:
    """Return what certificates of all trials are made of: one program a trial."""
    gradient = problem.loss.gradient(point, start)
    parts = []
    for trial in np.ndindex(point.shape[:-1]):
        one = FrequencyEstimate(start.frequencies[trial], start.n, start.oracle)
        parts.append(_of_one(problem, one, point[trial], gradient[trial]))
    return Evidence(
        *(
            np.stack(field).reshape((*point.shape[:-1], *np.shape(field[0])))
            for field in zip(*parts, strict=True)
        )
    )


def _of_one(problem: Problem, one: FrequencyEstimate, f: Array, gradient: Array) -> Evidence:
    d, loss = len(f), problem.loss
    members = [*problem.constraints, *([NonNegative()] if loss.nonnegative_domain else [])]
    members = [c.restricted_to(f) for c in members]
    # A value with an infinite gradient must be zero, whatever the constraints say.
    closed = np.flatnonzero(np.isposinf(gradient))
    if len(closed):
        members.append(Fixed(closed, np.zeros(len(closed))))
        gradient = np.where(np.isposinf(gradient), 0.0, gradient)
    said = [c.rows(d) for c in members]
    parts = [rows for rows in said if rows is not None]
    own = [c.total() is None and c.box(d) is None for c in members]
    width = sum(
        len(rows.lower) for rows, mine in zip(said, own, strict=True) if rows is not None and mine
    )
    unknown = np.full(d, np.nan), np.full(width, np.nan)
    bound = _bound(problem, one, f, gradient)
    if not np.isfinite(bound.below).all():
        return _made(np.inf, np.nan, np.nan, np.nan, *unknown)
    if len(parts) < len(members):
        gap, residue = _cone_program(bound, members, d)
        return _made(gap, residue, abs(gap), np.nan, *unknown)
    matrix, lower, upper = feasibility.stacked(parts, d)
    found = _linear_program(bound, matrix, lower, upper, d)
    if (
        found is None
        and bound.kinks is None
        and loss.strong_convexity() > 0
        and matrix.shape[1] == d
    ):
        found = _by_duality(gradient, f, loss.strong_convexity(), matrix, lower, upper)
    if found is None and bound.kinks is None and loss.strong_convexity() > 0:
        gap, residue = _cone_program(bound, members, d, loss.strong_convexity(), f)
        return _made(gap, residue, abs(gap), np.nan, *unknown)
    if found is None:
        return _made(np.inf, np.nan, np.nan, np.nan, *unknown)
    gap, pushes = found
    pushes = np.where(
        (pushes > 0) & np.isinf(lower) | (pushes < 0) & np.isinf(upper), 0.0, pushes
    )  # the program's rounding
    explained = (matrix.T @ pushes)[:d]
    kinks = loss.kinks(one)
    slope = gradient if kinks is None else kinks.subgradient(f, explained)
    products: Any = abs(gap)
    if matrix.shape[1] == d:
        values, pushed = matrix @ f, pushes != 0
        room = np.where(pushes > 0, values - lower, upper - values)
        products = np.max(np.abs(pushes[pushed] * room[pushed]), initial=0.0)
    return _made(
        gap, np.max(np.abs(slope - explained)), products, *_sorted_out(members, parts, own, pushes)
    )


def _made(*fields: Any) -> Evidence:
    return Evidence(*(np.asarray(field, dtype=np.float64) for field in fields))


def _bound(problem: Problem, one: FrequencyEstimate, f: Array, gradient: Array) -> _Bound:
    """Return the tangent at f, or the loss itself where it is linear but for kinks."""
    kinks = problem.loss.kinks(one)
    if kinks is None:
        return _Bound(gradient, gradient, None, weighted_sum(gradient, f))
    place, below, above = kinks
    return _Bound(
        below,
        above,
        place,
        problem.loss.value(f, one) - problem.loss.value(place, one) + below @ place,
    )


def _linear_program(
    bound: _Bound, matrix: Any, lower: Array, upper: Array, d: int
) -> tuple[float, Array] | None:
    """Return the gap and a multiplier for every row, positive where its lower bound pushes up; None without a minimum.

    A value with a kink k is the sum of a part up to k and a part above 0, each with its own slope.
    """
    from scipy import optimize, sparse

    cost = np.concatenate([bound.below, np.zeros(matrix.shape[1] - d)])
    ranges: Any = [(None, None)] * len(cost)
    if bound.kinks is not None:
        matrix = sparse.hstack([matrix, matrix[:, :d]], format="csr")
        cost = np.concatenate([cost, bound.above])
        ranges = [(None, k) for k in bound.kinks] + ranges[d:] + [(0, None)] * d
    equal, above, below = (
        lower == upper,
        (lower != upper) & np.isfinite(upper),
        (lower != upper) & np.isfinite(lower),
    )
    capped = sparse.vstack(
        [matrix[np.flatnonzero(above)], -matrix[np.flatnonzero(below)]], format="csr"
    )
    caps = np.concatenate([upper[above], -lower[below]])
    scale = max(float(np.abs(cost).max()), _TINY)  # HiGHS's tolerances are absolute
    result: Any = optimize.linprog(
        cost / scale, A_ub=capped, b_ub=caps, A_eq=matrix[np.flatnonzero(equal)], b_eq=lower[equal], bounds=ranges,
        method="highs", options=feasibility.HIGHS,
    )  # fmt: skip
    if result.status != 0:
        return None
    pushes = np.zeros(len(lower))
    pushes[equal] = result.eqlin.marginals
    pushes[above] += result.ineqlin.marginals[: np.count_nonzero(above)]
    pushes[below] -= result.ineqlin.marginals[np.count_nonzero(above) :]
    return float(bound.offset - cost @ result.x), scale * pushes


def _by_duality(
    gradient: Array, f: Array, modulus: float, matrix: Any, lower: Array, upper: Array
) -> tuple[float, Array] | None:
    """Return the gap ‖g - Aᵀν‖²/(2m) + Σ ν·slack of a strongly convex loss, and ν: any ν of the right sign gives a bound.

    ν explains as much of the gradient as rows near their bounds can: least squares with signs.
    """
    from scipy import optimize

    values = matrix @ f
    low, high = values - lower <= _NEAR, upper - values <= _NEAR
    near = np.flatnonzero(low | high)
    pushes = np.zeros(len(lower))
    if len(near):
        signs = np.where(high[near], -np.inf, 0.0), np.where(low[near], np.inf, 0.0)
        pushes[near] = optimize.lsq_linear(
            matrix[near].T, gradient, bounds=signs, tol=1e-14, lsmr_tol="auto"
        ).x
    residue = gradient - matrix.T @ pushes
    room = np.where(pushes > 0, values - lower, upper - values)
    slack = float(np.sum(np.abs(pushes[near]) * room[near]))
    return float(residue @ residue / (2 * modulus) + slack), pushes


def _cone_program(
    bound: _Bound,
    members: Sequence[Constraint],
    d: int,
    modulus: float = 0.0,
    f: Array | None = None,
) -> tuple[float, float]:
    """Return gap and stationarity over any constraints; (inf, NaN) if the program fails.

    ``modulus`` and the point f make the bound quadratic, for sets without bound.
    """
    import cvxpy as cp

    s = cp.Variable(d)
    scale = max(float(np.abs(bound.below).max()), _TINY)  # as above: tolerances are absolute
    objective = (bound.below / scale) @ s
    if bound.kinks is not None:
        objective += ((bound.above - bound.below) / scale) @ cp.pos(s - bound.kinks)
    if modulus > 0 and f is not None:
        objective += modulus / (2 * scale) * cp.sum_squares(s - f)
    program = cp.Problem(cp.Minimize(objective), [form for c in members for form in c.cone_form(s)])
    try:
        data, chain, _ = program.get_problem_data(cp.CLARABEL)
        raw = chain.solve_via_data(program, data, solver_opts=SETTINGS["high"]["CLARABEL"])
    except cp.error.SolverError:
        return np.inf, np.nan
    if str(raw.status) != "Solved":
        return np.inf, np.nan
    # Its dual point (x, z) bounds the program from below by -½ xᵀPx - bᵀz, whether or not the primal point is exact.
    x, z = np.asarray(raw.x), np.asarray(raw.z)
    curved = data["P"] @ x if "P" in data else 0.0
    residue = np.max(np.abs(data["c"] + curved + data["A"].T @ z))
    return float(bound.offset + scale * (np.sum(x * curved) / 2 + data["b"] @ z)), scale * float(
        residue
    )


def _sorted_out(
    members: Sequence[Constraint],
    parts: Sequence[LinearInequalities],
    own: Sequence[bool],
    pushes: Array,
) -> tuple[Array, Array, Array]:
    """Return μ, λ and ν from the multipliers of all rows; those of a member's own rows are its ν."""
    mu, bounds, others, at = 0.0, np.zeros(parts[0].matrix.shape[1]), [np.empty(0)], 0
    for member, rows, mine in zip(members, parts, own, strict=True):
        found, at = pushes[at : at + len(rows.lower)], at + len(rows.lower)
        if mine:
            others.append(found)
        elif member.total() is not None:
            mu -= float(found.sum())
        else:
            bounds += found
    return np.asarray(mu), bounds, np.concatenate(others)
