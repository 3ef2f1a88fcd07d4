"""Proof of optimality for any point: computed from the problem and the point alone.

With the gradient g of a convex loss L at f, the Frank-Wolfe gap max_{s in C} <g, f - s> bounds
L(f) - min L from above; it needs no dual variables. Its maximum is

- a greedy filling where C is a box with at most one total,
- a linear program (HiGHS) on other polyhedra,
- a cone program where a constraint is a cvxpy expression.

On unbounded sets this gap is infinite unless g vanishes to the last bit, so that a strongly convex
loss uses a smaller bound there: max_s <g, f - s> - m/2 ‖f - s‖², in closed form on boxes and by
duality on polyhedra. A loss that is linear but for one kink per value is its own best bound: no
gradient describes it near a kink.

Multipliers belong to the Lagrangian L(f) + μ (Σf - total) - Σ λ_v f_v - Σ ν_i (A f)_i + …: λ and ν
are positive where a lower bound pushes up and negative where an upper bound pushes down. At a
minimum g + μ = λ + Aᵀν.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate import box, polyhedron
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Certificate:
    """How far a point is from optimal. All arrays have the leading (trial) axes of the point.

    Attributes
    ----------
    gap
        Upper bound of L(f) - min L in the loss's own units; ``inf`` if undefined. It is undefined
        where the loss is infinite, and on unbounded sets, as without a total, unless the loss is
        strongly convex or the bounds explain the gradient exactly.
    violation
        Largest violation of a constraint, in units of frequency.
    stationarity
        Largest component of the Lagrangian's gradient that no multiplier of the right sign
        explains.
    complementarity
        Largest |multiplier| times the distance to its bound. Where a constraint is a cvxpy
        expression, or has auxiliary variables, the sum of these products.
    sum_multiplier
        μ, the multiplier of the total: minus the mean gradient weighted by the distance to the
        nearest bound; 0 without a total.
    bound_multipliers
        λ, shape (..., d).
    row_multipliers
        ν, shape (..., m): of the rows of all other constraints in their order, as their
        ``rows(d)`` returns them.
    active
        Where a bound holds with equality (within 1e-9), shape (..., d).
    scope
        What is certified: the problem, or the convex part of it that was solved last.

    Multipliers are NaN where a constraint is a cvxpy expression; gap and violation are always
    computed.
    """

    gap: Array
    violation: Array
    stationarity: Array
    complementarity: Array
    sum_multiplier: Array
    bound_multipliers: Array
    row_multipliers: Array
    active: NDArray[np.bool_]
    scope: str = "the problem"

    def is_optimal(self, tol: float = 1e-9) -> bool:
        """Return whether gap <= tol and violation <= tol, absolute, in every trial."""
        tol = validate.real("tol", tol, above=0)
        return bool(np.all(self.gap <= tol) and np.all(self.violation <= tol))

    @property
    def worst(self) -> dict[str, float]:
        """The largest gap, violation, stationarity and complementarity of all trials."""
        return {name: float(np.max(getattr(self, name))) for name in _SCALARS}

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value:.3g}" for name, value in self.worst.items())
        scope = "" if self.scope == "the problem" else f", scope={self.scope!r}"
        return f"Certificate({numbers}{scope})"


_SCALARS = ("gap", "violation", "stationarity", "complementarity")


def certify(
    problem: Formulation, estimate: FrequencyEstimate | ArrayLike, f: FrequencyEstimate | ArrayLike
) -> Certificate:
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
    InvalidInputError, InvalidTypeError
        If f is not finite or has another shape, or the loss is not defined for the estimate.

    Notes
    -----
    Cost: a few passes over f, and a sort where values have upper bounds; one linear or cone program
    per trial for other sets. A problem that is not convex is certified on a convex part of it,
    which ``scope`` names: with ``AtMost`` on the non-zeros of f, and for a loss that is not convex
    on the tangent at f of its concave part.

    Examples
    --------
    >>> import ldpopt
    >>> from ldpopt import constraints, losses
    >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
    >>> cls = ldpopt.Problem(losses.LeastSquares(), simplex)
    >>> certify(cls, [0.5, 0.2, -0.01], [0.65, 0.35, 0.0]).is_optimal(1e-6)
    False
    """
    if not isinstance(problem, Formulation):
        raise InvalidTypeError(f"certify takes a Problem first, got {problem!r}")
    start = problem.accept(estimate)
    # An estimate is finite: NaN or infinity in f raises its error here.
    point = FrequencyEstimate.of(f).frequencies
    if point.shape != start.frequencies.shape:
        raise InvalidInputError(
            f"f must have the estimate's shape {start.frequencies.shape}, got {point.shape}"
        )
    region = problem.region(start.d)
    # On boxes no program is needed, and all trials are certified at once.
    kind = box if region.is_box else polyhedron
    evidence = kind.evidence(problem, start, point)
    # Outside its domain a loss is infinite, and its gradient means nothing there.
    defined = np.isfinite(problem.loss.value(point, start))
    slack = np.minimum(point - region.lower, region.upper - point)
    return Certificate(
        **evidence._replace(gap=np.where(defined, evidence.gap, np.inf))._asdict(),
        violation=problem.violation(point),
        active=slack <= box.NEAR,
        scope=_scope(problem),
    )


def _scope(problem: Formulation) -> str:
    """Return what is certified: the problem, or the convex part of it around the point."""
    if not problem.loss.convex:
        return problem.loss.scope
    parts = (constraint.scope for constraint in problem.constraints if not constraint.convex)
    return next(parts, "the problem")
