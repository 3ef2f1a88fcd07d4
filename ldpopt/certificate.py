"""Proof of optimality for any point, whoever produced it: computed from the problem and the point alone.

With the gradient g of a convex loss L at f, the Frank-Wolfe gap max_{s in C} <g, f - s> bounds L(f) - min L from above
(MATH 5); no dual variables are asked for. On sets without bound it is infinite unless g vanishes to the last bit, so a
strongly convex loss uses the smaller bound max_s <g, f - s> - m/2 ‖f - s‖² there.

Multipliers belong to the Lagrangian L(f) + μ (Σf - total) - Σ λ_v f_v with λ >= 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form import base_pos, norm
from ldpopt.constraints import NonNegative, SumsTo
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
        Upper bound of L(f) - min L in the loss's own units; ``inf`` if undefined.
    violation
        Largest violation of a constraint, in units of frequency.
    stationarity
        Largest component of the Lagrangian's gradient that no λ >= 0 explains.
    complementarity
        Largest λ_v f_v.
    sum_multiplier
        μ, the multiplier of the total: minus the mean gradient weighted by f; 0 without a total.
    bound_multipliers
        λ, shape (..., d): 0 without non-negativity.
    active
        Where the bound f_v >= 0 holds with equality (f_v <= 1e-9), shape (..., d).
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


def certify(problem: Problem, estimate: FrequencyEstimate | ArrayLike, f: ArrayLike) -> Certificate:
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
    Cost: a few passes over f.

    Examples
    --------
    >>> import ldpopt
    >>> from ldpopt import constraints, losses
    >>> cls = ldpopt.Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1.0)])
    >>> certify(cls, [0.5, 0.2, -0.01], [0.65, 0.35, 0.0]).is_optimal(1e-6)
    False
    """
    start = estimate if isinstance(estimate, FrequencyEstimate) else FrequencyEstimate(np.asarray(estimate))
    problem.loss.check(start)
    point = validate.frequencies(f)
    if point.shape != start.frequencies.shape:
        raise InvalidInputError(f"f must have the estimate's shape {start.frequencies.shape}, got {point.shape}")
    gradient = problem.loss.gradient(point, start)
    bounded = problem.loss.nonnegative_domain or any(isinstance(c, NonNegative) for c in problem.constraints)
    totals = [c.total for c in problem.constraints if isinstance(c, SumsTo)]
    total = totals[0] if totals else None

    mu = _sum_multiplier(gradient, point, bounded=bounded) if totals else np.zeros(point.shape[:-1])
    with np.errstate(invalid="ignore"):
        reduced = gradient + mu[..., None]
    multipliers = np.maximum(reduced, 0.0) if bounded else np.zeros_like(point)
    unexplained = np.where(reduced < 0, reduced, 0.0) if bounded else reduced
    with np.errstate(invalid="ignore"):
        products = np.where(point == 0, 0.0, multipliers * point)
    return Certificate(
        gap=_gap(gradient, point, problem.loss.strong_convexity(), total, bounded=bounded),
        violation=np.max([np.zeros(point.shape[:-1]), *(c.violation(point) for c in problem.constraints)], axis=0),
        stationarity=np.max(np.abs(unexplained), axis=-1),
        complementarity=np.max(np.abs(products), axis=-1),
        sum_multiplier=mu,
        bound_multipliers=multipliers,
        active=point <= _ACTIVE if bounded else np.zeros(point.shape, dtype=np.bool_),
    )


def _weighted_sum(gradient: Array, weights: Array) -> Array:
    """Return Σ g_v w_v, an infinite gradient counting as nothing where the weight is zero."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sum(np.where(weights == 0, 0.0, gradient * weights), axis=-1))


def _sum_multiplier(gradient: Array, f: Array, *, bounded: bool) -> Array:
    """Return minus the mean gradient: over the mass of f where f >= 0, over all values otherwise."""
    weights = np.maximum(f, 0.0) if bounded else np.ones_like(f)
    mass = np.maximum(np.sum(weights, axis=-1), np.finfo(np.float64).tiny)
    return np.asarray(-_weighted_sum(gradient, weights) / mass)


def _gap(gradient: Array, f: Array, modulus: float, total: float | None, *, bounded: bool) -> Array:
    """Return an upper bound of L(f) - min L over {f >= 0 if bounded, Σf = total if given}."""
    if bounded and total is not None:
        lowest = total * np.min(gradient, axis=-1) if total else 0.0
        return np.asarray(_weighted_sum(gradient, f) - lowest)
    if modulus > 0:
        # The maximiser s of <g, f-s> - m/2 ‖f-s‖² is the projection of f - g/m: a clip or a shift on these sets.
        target = f - gradient / modulus
        s = base_pos(target) if bounded else norm(target, total) if total is not None else target
        return np.asarray(np.sum(gradient * (f - s) - modulus / 2 * (f - s) ** 2, axis=-1))
    if bounded:
        return np.where(np.min(gradient, axis=-1) >= 0, _weighted_sum(gradient, f), np.inf)
    flat = np.all(gradient == gradient[..., :1], axis=-1) if total is not None else np.all(gradient == 0, axis=-1)
    offset = 0.0 if total is None else gradient[..., 0] * (np.sum(f, axis=-1) - total)
    return np.where(flat, offset, np.inf)
