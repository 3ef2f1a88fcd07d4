"""Gap and multipliers on sets that need a program.

Linear for polyhedra, by duality where a polyhedron is unbounded, conic for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, Fixed, LinearInequalities, NonNegative
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.evidence import Evidence, weighted_sum
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.programs import ConeProgram, LinearProgram, stacked

Array = NDArray[np.float64]

# Slack of a row that may carry a multiplier where multipliers come from least squares: solvers
# leave up to this much.
_NEAR = 1e-6

_TINY = float(np.finfo(np.float64).tiny)


class _Minorant(NamedTuple):
    """A function nowhere above the loss, up to ``offset``, whose minimum is a program.

    Without kinks it is ``below``·s, the tangent. With kinks k it is
    Σ below·min(s - k, 0) + above·max(s - k, 0), the loss itself.
    """

    below: Array
    above: Array
    kinks: Array | None
    offset: Array


class _Certified(NamedTuple):
    """A gap, and the multipliers of all rows that prove it: positive where a lower bound holds."""

    gap: float
    multipliers: Array


def evidence(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Evidence:
    """Return what certificates of all trials are made of; one program per trial."""
    gradient = formulation.loss.gradient(point, start)
    parts = []
    for trial in np.ndindex(point.shape[:-1]):
        one = start[trial]
        parts.append(_of_trial(formulation, one, point[trial], gradient[trial]))
    columns = zip(*parts, strict=True)
    return Evidence(
        *(np.stack(column).reshape((*point.shape[:-1], *column[0].shape)) for column in columns)
    )


def _of_trial(
    formulation: Formulation, one: FrequencyEstimate, f: Array, gradient: Array
) -> Evidence:
    """Return the evidence of one trial: by a linear program, by duality, or by a cone program."""
    d = len(f)
    modulus = float(formulation.loss.strong_convexity(one))
    members, gradient = _members(formulation, f, gradient)
    rows = [member.rows(d) for member in members]
    polyhedra = [part for part in rows if part is not None]
    nothing = _unknown(members, rows, d)
    minorant = _minorant(formulation, one, f, gradient)
    # Left is -inf, as a logarithm has at its end: no tangent there is finite.
    if not np.isfinite(minorant.below).all():
        return nothing
    # A constraint without rows, such as Custom, is known to cvxpy alone.
    if len(polyhedra) < len(members):
        return _with_residual(nothing, *_cone_gap(minorant, members, d))
    system = stacked(polyhedra, d)
    certified = _linear_gap(minorant, system, d)
    if certified is None and minorant.kinks is None and modulus > 0:
        # The set is unbounded in a direction in which the tangent falls.
        # The bound by duality needs the slack of every row, and the point does not say what the
        # auxiliary variables are.
        if system.matrix.shape[1] > d:
            return _with_residual(nothing, *_cone_gap(minorant, members, d, modulus, f))
        certified = _dual_gap(gradient, f, modulus, system)
    if certified is None:
        return nothing
    return _explained(formulation, one, f, gradient, members, polyhedra, system, certified)


def _members(formulation: Formulation, f: Array, gradient: Array) -> tuple[list[Constraint], Array]:
    """Return the convex constraints around f, and a gradient that is finite on their set.

    A value with an infinite gradient must be zero, whatever the constraints say: fixing it there
    keeps the minimum and leaves a finite program.
    """
    # A constraint that is not convex is replaced by the convex part of it that holds f, as AtMost
    # by the zeros of f: the proof is about that part, and ``scope`` says so.
    members = [constraint.restricted_to(f) for constraint in formulation.constraints]
    if formulation.loss.nonnegative_domain:
        members.append(NonNegative())
    closed = np.isposinf(gradient)
    if closed.any():
        indices = np.flatnonzero(closed)
        members.append(Fixed(indices, np.zeros(len(indices))))
        gradient = np.where(closed, 0.0, gradient)
    return members, gradient


def _has_own_multipliers(member: Constraint, d: int) -> bool:
    """Return whether a constraint's rows are neither the total nor bounds value by value."""
    return member.total(d) is None and member.box(d) is None


def _unknown(
    members: Sequence[Constraint], rows: Sequence[LinearInequalities | None], d: int
) -> Evidence:
    """Return evidence of nothing: an infinite gap, and NaN for all multipliers."""
    width = sum(
        len(part.lower)
        for member, part in zip(members, rows, strict=True)
        if part is not None and _has_own_multipliers(member, d)
    )
    nan = np.asarray(np.nan)
    return Evidence(np.asarray(np.inf), nan, nan, nan, np.full(d, np.nan), np.full(width, np.nan))


def _with_residual(nothing: Evidence, gap: float, residual: float) -> Evidence:
    """Return evidence without multipliers: of a cone program only gap and residual are known."""
    return nothing._replace(
        gap=np.asarray(gap),
        stationarity=np.asarray(residual),
        complementarity=np.asarray(abs(gap)),
    )


def _minorant(
    formulation: Formulation, one: FrequencyEstimate, f: Array, gradient: Array
) -> _Minorant:
    """Return the tangent at f, or the loss itself where it is linear but for kinks."""
    loss = formulation.loss
    kinks = loss.kinks(one)
    if kinks is None:
        return _Minorant(gradient, gradient, None, weighted_sum(gradient, f))
    # The programs below count below·s from 0 where the loss counts below·(s - k) from the kink: the
    # last term of the offset makes up for that.
    height = loss.value(f, one) - loss.value(kinks.place, one)
    return _Minorant(kinks.below, kinks.above, kinks.place, height + kinks.below @ kinks.place)


def _linear_gap(minorant: _Minorant, system: LinearInequalities, d: int) -> _Certified | None:
    """Return the gap by a linear program; None if the program has no minimum.

    A value with a kink k is the sum of a part up to k and a part above 0, each with its own slope.
    """
    from scipy import sparse

    columns = system.matrix.shape[1]
    cost = np.concatenate([minorant.below, np.zeros(columns - d)])
    ranges: list[tuple[float | None, float | None]] = [(None, None)] * columns
    if minorant.kinks is not None:
        # Convex means below <= above, so that the minimum fills the part below the kink first: no
        # whole number has to choose between the parts.
        matrix = sparse.hstack([system.matrix, system.matrix[:, :d]], format="csr")
        system = LinearInequalities(matrix, system.lower, system.upper)
        cost = np.concatenate([cost, minorant.above])
        up_to_kink = [(None, float(kink)) for kink in minorant.kinks]
        ranges = [*up_to_kink, *ranges[d:], *([(0.0, None)] * d)]
    solution = LinearProgram(system, ranges).minimise(cost)
    if solution.status != "optimal":
        return None
    # A multiplier towards a bound that does not exist is the program's rounding.
    multipliers = solution.multipliers
    rounding = ((multipliers > 0) & np.isinf(system.lower)) | (
        (multipliers < 0) & np.isinf(system.upper)
    )
    gap = float(minorant.offset - solution.value)
    return _Certified(gap, np.where(rounding, 0.0, multipliers))


def _dual_gap(gradient: Array, f: Array, modulus: float, system: LinearInequalities) -> _Certified:
    """Return the gap ‖g - Aᵀν‖²/(2m) + Σ ν·slack of a strongly convex loss.

    Any ν of the right sign gives such a bound. This one explains as much of the gradient as rows
    near their bounds can: least squares with signs.
    """
    from scipy import optimize

    values = system.matrix @ f
    at_lower = values - system.lower <= _NEAR
    at_upper = system.upper - values <= _NEAR
    near = np.flatnonzero(at_lower | at_upper)
    multipliers = np.zeros(len(system.lower))
    if len(near):
        signs = (
            np.where(at_upper[near], -np.inf, 0.0),
            np.where(at_lower[near], np.inf, 0.0),
        )
        # What stays unexplained enters the gap squared and over 2m: hence a tolerance near
        # rounding.
        multipliers[near] = optimize.lsq_linear(
            system.matrix[near].T, gradient, bounds=signs, tol=1e-14, lsmr_tol="auto"
        ).x
    # max over s of <g, f - s> - m/2 ‖f - s‖², where the rows are moved into the objective at the
    # prices ν: without constraints its maximum is ‖g - Aᵀν‖²/(2m).
    residual = gradient - system.matrix.T @ multipliers
    slack = _slack(multipliers, values, system)
    products = float(np.sum(np.abs(multipliers[near]) * slack[near]))
    return _Certified(float(residual @ residual / (2 * modulus) + products), multipliers)


def _slack(multipliers: Array, values: Array, system: LinearInequalities) -> Array:
    """Return the distance of every row to the bound that its multiplier belongs to."""
    return np.where(multipliers > 0, values - system.lower, system.upper - values)


def _cone_gap(
    minorant: _Minorant,
    members: Sequence[Constraint],
    d: int,
    modulus: float = 0.0,
    f: Array | None = None,
) -> tuple[float, float]:
    """Return gap and stationarity over any convex constraints; (inf, NaN) if the program fails.

    ``modulus`` and the point f make the minorant quadratic, for sets that are unbounded.
    """
    import cvxpy as cp

    s = cp.Variable(d)
    # Solvers' tolerances are absolute: the slopes are made of order 1.
    scale = max(float(np.abs(minorant.below).max()), _TINY)
    objective = (minorant.below / scale) @ s
    if minorant.kinks is not None:
        change = (minorant.above - minorant.below) / scale
        objective += change @ cp.pos(s - minorant.kinks)
    if modulus > 0 and f is not None:
        objective += modulus / (2 * scale) * cp.sum_squares(s - f)
    forms = [form for member in members for form in member.cone_form(s)]
    try:
        solution = ConeProgram(objective, forms).solve()
    except cp.error.SolverError:
        return np.inf, np.nan
    if solution.status != cp.OPTIMAL:
        return np.inf, np.nan
    # The dual point is used, not the value: the value of an inexact primal point may lie above the
    # minimum, and then proves nothing.
    lower_bound, residual = solution.lower_bound()
    return float(minorant.offset - scale * lower_bound), scale * residual


def _explained(
    formulation: Formulation,
    one: FrequencyEstimate,
    f: Array,
    gradient: Array,
    members: Sequence[Constraint],
    parts: Sequence[LinearInequalities],
    system: LinearInequalities,
    certified: _Certified,
) -> Evidence:
    """Return the evidence that the multipliers of all rows give."""
    d = len(f)
    multipliers = certified.multipliers
    explained = (system.matrix.T @ multipliers)[:d]
    kinks = formulation.loss.kinks(one)
    slope = gradient if kinks is None else kinks.subgradient(f, explained)
    products: Any = abs(certified.gap)
    # With auxiliary variables the slack of a row is not known; the gap is then the sum of products.
    if system.matrix.shape[1] == d:
        slack = _slack(multipliers, system.matrix @ f, system)
        used = multipliers != 0
        products = np.max(np.abs(multipliers[used] * slack[used]), initial=0.0)
    return Evidence(
        np.asarray(certified.gap),
        np.asarray(np.max(np.abs(slope - explained))),
        np.asarray(products),
        *_by_kind(members, parts, multipliers, d),
    )


def _by_kind(
    members: Sequence[Constraint],
    parts: Sequence[LinearInequalities],
    multipliers: Array,
    d: int,
) -> tuple[Array, Array, Array]:
    """Return μ, λ and ν: the multipliers of the total, of bounds, and of all other rows."""
    mu = 0.0
    bounds = np.zeros(d)
    others = [np.empty(0)]
    position = 0
    for member, part in zip(members, parts, strict=True):
        share = multipliers[position : position + len(part.lower)]
        position += len(part.lower)
        if _has_own_multipliers(member, d):
            others.append(share)
        elif member.total(d) is not None:
            # With the sign of the Lagrangian in ``certificate``: + μ (Σf - total), but - ν for all
            # rows.
            mu -= float(share.sum())
        else:
            bounds += share
    return np.asarray(mu), bounds, np.concatenate(others)
