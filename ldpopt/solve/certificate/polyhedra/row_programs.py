"""Multipliers of rows from programs, where none are at hand: HiGHS's and those of a cone solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import LinearInequalities
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import KinkedLoss, Minorant, Tangent
from ldpopt.solve.programs.program import LinearProgram, quadratic_multipliers
from ldpopt.solve.programs.units import frequency_unit

Array = NDArray[np.float64]

Ranges = list[tuple[float | None, float | None]]
"""(lower, upper) of each variable as HiGHS takes them, None for no bound."""


def by_linear_program(tangent: Minorant, system: LinearInequalities, limits: Box) -> Array | None:
    """Return the multipliers of the linear program that minimises the minorant, if it ends."""
    if isinstance(tangent, KinkedLoss):
        return _of_kinked_loss(tangent, system, limits)
    if not np.isfinite(tangent.slope).all():
        return None
    columns = system.matrix.shape[1]
    cost = np.append(tangent.slope, np.zeros(columns - len(tangent.f)))
    unit = frequency_unit(tangent.f)
    solution = LinearProgram(_counted(system, unit), _ranges(limits, unit)).minimise(cost)
    return solution.multipliers if solution.status == "optimal" else None


def _of_kinked_loss(loss: KinkedLoss, system: LinearInequalities, limits: Box) -> Array | None:
    """Return the same for a loss with kinks, which is linear in parts of each value.

    A value with a kink k is the sum of a part up to k and a part above 0, each with its own slope.
    """
    from scipy import sparse

    d = len(loss.f)
    columns = system.matrix.shape[1]
    # Convex means below <= above, so that the minimum fills the part below the kink first: no
    # whole number has to choose between the parts. Bounds are rows here, of both parts together.
    place, below, above = loss.kinks
    eye = sparse.eye_array(d, columns, format="csr")
    matrix: Any = sparse.vstack([system.matrix, eye], format="csr")
    both = LinearInequalities(
        sparse.hstack([matrix, matrix[:, :d]], format="csr"),
        np.append(system.lower, limits.lower[:d]),
        np.append(system.upper, limits.upper[:d]),
    )
    unit = frequency_unit(loss.f)
    up_to_kink = [(None, float(kink)) for kink in place / unit]
    ranges = [*up_to_kink, *_ranges(limits, unit)[d:], *([(0.0, None)] * d)]
    cost = np.concatenate([below, np.zeros(columns - d), above])
    solution = LinearProgram(_counted(both, unit), ranges).minimise(cost)
    if solution.status != "optimal":
        return None
    return solution.multipliers[: len(system.lower)]


def _counted(system: LinearInequalities, unit: float) -> LinearInequalities:
    """Return rows for variables that count in a unit; their multipliers stay the same."""
    if unit == 1:
        return system
    return LinearInequalities(system.matrix, system.lower / unit, system.upper / unit)


def _ranges(limits: Box, unit: float) -> Ranges:
    return [
        (_or_none(low / unit), _or_none(high / unit))
        for low, high in zip(limits.lower, limits.upper, strict=True)
    ]


def _or_none(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None


def by_curved_program(tangent: Minorant, system: LinearInequalities, limits: Box) -> Array | None:
    """Return the multipliers of the program that minimises tangent and curvature.

    On sets that are unbounded where the tangent falls the linear program has no minimum.
    """
    from scipy import sparse

    if not isinstance(tangent, Tangent) or not np.all(tangent.modulus > 0):
        return None
    if not np.isfinite(tangent.slope).all():
        return None
    d = len(tangent.f)
    columns = system.matrix.shape[1]
    # Solvers' tolerances are absolute: slopes are made of order 1.
    scale = max(float(np.abs(tangent.slope).max()), np.finfo(np.float64).tiny)
    # A value that must be zero has an infinite modulus, which solvers do not take. Any will do:
    # whatever the multipliers are, the gap that they prove is computed from the tangent itself.
    modulus = np.where(np.isinf(tangent.modulus), scale, tangent.modulus)
    curvature = np.zeros(columns)
    unit = frequency_unit(tangent.f)
    # Beyond the doubles a curvature is infinite, and the solver gives up: there is no program then.
    with np.errstate(over="ignore"):
        curvature[:d] = unit * (modulus / scale)
    slope = np.zeros(columns)
    slope[:d] = tangent.slope / scale
    # In steps from the point, where the function needs no constant.
    point = np.zeros(columns)
    point[:d] = tangent.f
    values = np.concatenate([system.matrix @ point, point])
    rows = LinearInequalities(
        sparse.vstack([system.matrix, sparse.eye_array(columns)], format="csr"),
        np.concatenate([system.lower, limits.lower]) - values,
        np.concatenate([system.upper, limits.upper]) - values,
    )
    multipliers = quadratic_multipliers(_counted(rows, unit), slope, curvature)
    # Those of the bounds follow from the gradient: the gap charges them by itself.
    return None if multipliers is None else scale * multipliers[: len(system.lower)]


def bounds_of(x: Any, limits: Box) -> list[Any]:
    """Return the finite bounds of a cvxpy variable: lower ones, then upper ones.

    They are stated without the factor that a solver likes: a bound times d is rounded, and a steep
    loss makes the last bit of a bound count.
    """
    low = np.flatnonzero(np.isfinite(limits.lower))
    high = np.flatnonzero(np.isfinite(limits.upper))
    return [x[low] >= limits.lower[low], x[high] <= limits.upper[high]]
