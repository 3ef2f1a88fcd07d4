"""Multipliers near rounding level, from a solver's and a point: least squares on the active rows.

Any multipliers prove a bound; ``best`` keeps those that prove the best one.

An interior point method leaves residuals of about its tolerance times the largest gradient, so that
one steep coordinate hides the others. At a point that is known better than that, the face of the
cone on which the slack lies is known, and with it the directions that multipliers can have:

- an equation's, any number,
- an active inequality's, a number >= 0,
- a curved cone's at a smooth point of its boundary, a number >= 0 times the normal.

The numbers that leave the least of the gradient of the coordinates off their bounds are found by
least squares, refined with residuals that are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate import exact_sums
from ldpopt.solve.certificate.conic_program import ConicProgram, Multipliers, Rise
from ldpopt.solve.certificate.dual_cones import Cones
from ldpopt.solve.certificate.ranges import Box

Array = NDArray[np.float64]

# A multiplier is taken for 0 below this part of the largest one of its kind, and a slack likewise.
_ZERO = 1e-6

# Cosine between a solver's multiplier and the normal at the point: below, they are not of one face.
_SAME = 1 - 1e-4

# Steps of refinement; each gains some ten digits.
_STEPS = 3

# Largest number of directions: least squares are dense.
_MOST = 1500


# Tolerances to ask Clarabel for, one after the other while the bound is not yet good. At the last
# one it stops by itself with what rounding allows.
_TOLERANCES = (1e-9, 1e-12, 1e-15)

Solve = Callable[[float], Multipliers | None]
"""From a tolerance to a point and multipliers, of a solver with any status."""


def best(
    program: ConicProgram, box: Box, curvature: Array, target: float, solve: Solve
) -> tuple[Multipliers, Rise] | None:
    """Return the multipliers with the smallest rise among several tries, and that rise.

    The tries end when the rise is at most ``target``; None if the solver has no numbers at all.
    """
    kept: tuple[Multipliers, Rise] | None = None
    for point in _tries(program, box, solve):
        rise = program.rise(point, box, curvature)
        if kept is None or rise.value < kept[1].value:
            kept = (point, rise)
        if rise.value <= target:
            break
    return kept


def _tries(program: ConicProgram, box: Box, solve: Solve) -> Iterator[Multipliers]:
    """Yield multipliers from the cheapest try on."""
    for tolerance in _TOLERANCES:
        solved = solve(tolerance)
        if solved is None:
            continue
        yield solved
        better = polished(program, solved, box)
        if better is not None:
            yield better


def polished(program: ConicProgram, point: Multipliers, box: Box) -> Multipliers | None:
    """Return multipliers on the faces at the point, or None if there are too many directions."""
    slack = program.right - program.matrix @ point.x
    directions = _directions(program.cones, slack, point.z)
    if not 0 < directions.shape[1] <= _MOST:
        return None
    rows = (program.matrix.T @ directions).tocsr()
    bounded = np.zeros(directions.shape[1], dtype=bool)
    bounded[program.cones.zero :] = True
    numbers = directions.T @ point.z / np.asarray(directions.multiply(directions).sum(axis=0))
    gradient = program.linear
    if program.quadratic is not None:
        gradient = gradient + program.quadratic @ point.x
    # At a bound a residual of the right sign costs nothing; both signs do inside.
    inside = np.minimum(point.x - box.lower, box.upper - point.x) > _ZERO * (1e-3 + np.abs(point.x))
    wanted = np.flatnonzero(inside)
    dense = rows[wanted].toarray()
    sizes = np.linalg.norm(dense, axis=0)
    sizes[sizes == 0] = 1.0
    for _ in range(_STEPS):
        residual, _ = exact_sums.row_totals(rows, numbers, gradient)
        if not np.isfinite(residual).all():
            return None
        step = np.linalg.lstsq(dense / sizes, -residual[wanted], rcond=1e-13)[0] / sizes
        numbers = numbers + step
        numbers = np.where(bounded, np.maximum(numbers, 0.0), numbers)
    return Multipliers(point.x, np.asarray(directions @ numbers))


def _directions(cones: Cones, slack: Array, z: Array) -> Any:
    """Return the directions of multipliers, one per column, those of equations first."""
    from scipy import sparse

    size = float(np.max(np.abs(z), initial=0.0))
    inequalities = np.arange(cones.zero, cones.soc_start)
    # Strict complementarity: of slack and multiplier the larger one is not 0.
    spread = float(np.max(np.abs(slack), initial=0.0)) or 1.0
    active = inequalities[z[inequalities] / (size or 1.0) > slack[inequalities] / spread]
    rows = [np.arange(cones.zero), active]
    columns = [np.arange(cones.zero), cones.zero + np.arange(len(active))]
    entries = [np.ones(cones.zero), np.ones(len(active))]
    count = cones.zero + len(active)
    for kind, _, group in cones.groups():
        for block in group:
            normal = _normal(kind, slack[block], z[block])
            if normal is None:
                continue
            rows.append(block)
            columns.append(np.full(len(block), count))
            entries.append(normal)
            count += 1
    place = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csc_array((np.concatenate(entries), place), shape=(cones.rows, count))


def _normal(kind: str, slack: Array, z: Array) -> Array | None:
    """Return the direction of a cone's multiplier: the normal at the slack, or z's own."""
    length = float(np.linalg.norm(z))
    if length == 0:
        return None
    unit = z / length
    normal = None
    with np.errstate(all="ignore"):
        if kind == "soc":
            norm = np.linalg.norm(slack[1:])
            normal = np.concatenate([[1.0], -slack[1:] / norm])
        elif kind == "exp":
            # On the boundary s₀/s₁ is log(s₂/s₁), whatever solver gave s₀.
            quotient = np.log(slack[2] / slack[1])
            growth = np.exp(quotient)
            normal = np.array([-growth, growth * (quotient - 1), 1.0])
    if normal is None or not np.isfinite(normal).all():
        return unit
    normal = normal / np.linalg.norm(normal)
    return normal if normal @ unit > _SAME else unit
