"""Bounds of variables that propagation leaves without: one cone program per variable and side.

Multipliers of max ±x_j over the feasible points of objective at most a level prove, for all j in
the set J of variables without bounds,

    |x_j - x̂_j| <= F_j + Σ_{k in J} R_jk |x_k - x̂_k|,

where R is what the multipliers leave of the gradients and F holds all the rest, which is finite.
If R has row sums below 1, so ‖x_J - x̂_J‖∞ <= max F / (1 - ‖R‖∞): nothing about the variables is
assumed, and the solver's tolerances are in R. Variables that go on for ever are left out of J if
the others' multipliers leave exactly nothing of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import LinearInequalities
from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.bounds.intervals import Box, outward
from ldpopt.solve.certificate.cones.conic_program import ConicProgram, Multipliers, Rise
from ldpopt.solve.certificate.cones.dual_cones import Cones
from ldpopt.solve.certificate.cones.multipliers import GRIDS, on_grid
from ldpopt.solve.certificate.cones.ranges import propagate
from ldpopt.solve.programs.program import Sides

Array = NDArray[np.float64]

# Each variable costs two programs: this many entries of them in all, some seconds.
_WORK = 300_000

_TOLERANCE = 1e-8

_SIDES = (1.0, -1.0)

# What multipliers leave of a direction, whose own size is 1, from which it counts as endless.
_ENDLESS = 0.5

# Accuracy of a point that only has to lie near the others.
_LOOSE = 1e-6

# How far above the level points are still looked at: solvers need a set with an inside.
_FAR = 0.1


def ranges_below(program: ConicProgram, level: float, terms: float) -> Box:
    """Return ranges of the variables where the objective is at most a little above the level.

    A bound that rests on them is one of the minimum or of what is above the level, whichever is
    smaller.

    Parameters
    ----------
    program
        What is minimised.
    level
        A value that is attained, or any other number.
    terms
        The size of the terms that the level is a sum of.

    Raises
    ------
    Empty
        If no point of the program has such an objective.
    """
    size = len(program.linear)
    above = level + _FAR * (terms + float(np.abs(program.linear).sum()))
    free = Box(np.full(size, -np.inf), np.full(size, np.inf))
    box = propagate(program.matrix, program.right, program.cones, free, program.cut(above))
    if np.isfinite([box.lower, box.upper]).all():
        return box
    solved = program.solve(_LOOSE)
    if solved is None:
        return box
    return bounded(program, box, np.clip(solved.x, box.lower, box.upper), above)


def with_cut(program: ConicProgram, level: float) -> ConicProgram:
    """Return the program with c·x + ½ Σ D x² <= level among its cones.

    With w = level - c·x the curved cut is (w + ½, w - ½, √D x) in a second-order cone, for
    (w + ½)² - (w - ½)² = 2 w. √D is rounded down and the level up, which only loosens it.
    """
    from scipy import sparse

    row = sparse.csr_array(program.linear[None, :])
    curved = np.flatnonzero(program.curvature)
    cones = program.cones
    first = cones.soc_start
    above, below = program.matrix[:first], program.matrix[first:]
    right = program.right
    if not len(curved):
        matrix = sparse.vstack([above, row, below], format="csc")
        whole = np.concatenate([right[:first], [level], right[first:]])
        return replace(
            program, matrix=matrix, right=whole, cones=replace(cones, nonneg=cones.nonneg + 1)
        )
    roots = np.nextafter(np.sqrt(program.curvature[curved]), 0.0)
    place = (-roots, (np.arange(len(curved)), curved))
    diagonal = sparse.csr_array(place, shape=(len(curved), len(program.linear)))
    matrix = sparse.vstack([above, row, row, diagonal, below], format="csc")
    # A looser level makes room for the rounding of its ends, of which the first may only be larger
    # and the second only smaller than meant: (w + ½)² - (w - ½)² then is at least 2 w.
    level += 8 * EPS * (abs(level) + 1)
    ends = [np.nextafter(level + 0.5, np.inf), np.nextafter(level - 0.5, -np.inf)]
    whole = np.concatenate([right[:first], ends, np.zeros(len(curved)), right[first:]])
    soc = (len(curved) + 2, *cones.soc)
    return replace(program, matrix=matrix, right=whole, cones=replace(cones, soc=soc))


def bounded(program: ConicProgram, box: Box, centre: Array, level: float) -> Box:
    """Return the box with bounds for all variables that have some, if cone programs prove them.

    Parameters
    ----------
    program, box
        What is minimised, and what is known of its variables.
    centre
        x̂, near which the variables are expected.
    level
        Points of a larger objective are left out.
    """
    is_open = np.isinf(box.lower) | np.isinf(box.upper)
    variables = np.flatnonzero(is_open)
    work = len(variables) * (program.matrix.nnz + len(centre))
    if not 0 < work <= _WORK:
        return box
    # With the open variables at their centre their terms vanish; they are charged below.
    shut = Box(np.where(is_open, centre, box.lower), np.where(is_open, centre, box.upper))
    ways = _ways(with_cut(program, level), variables, shut, centre)
    kept = [j for j in variables if all((int(j), side) in ways for side in _SIDES)]
    within = np.array(kept, dtype=np.int64)
    if not len(within):
        return box
    reach = np.zeros(len(within))
    rates = np.zeros((len(within), len(within)))
    for i, j in enumerate(within):
        for side in _SIDES:
            rise = _without(np.setdiff1d(variables, within), ways[int(j), side])
            if rise is None:
                return box
            reach[i] = max(reach[i], rise.value)
            rates[i] = np.maximum(rates[i], np.abs(rise.residual[within]) + rise.error[within])
    norm = float(rates.sum(axis=1).max()) * (1 + len(within) * EPS)
    if not norm < 0.5:
        return box
    radius = float(reach.max()) / (1 - norm) * (1 + 8 * EPS)
    low, high = outward(centre[within] - radius, centre[within] + radius)
    lower, upper = box.lower.copy(), box.upper.copy()
    lower[within] = np.maximum(lower[within], low)
    upper[within] = np.minimum(upper[within], high)
    return Box(lower, upper)


def bounded_rows(system: LinearInequalities, limits: Box, f: Array) -> Box:
    """Return the limits of linear rows with those that several rows together imply.

    ``limits`` itself is returned where there is nothing to gain, or it would take too long.

    Parameters
    ----------
    system
        lower <= A x <= upper over (f, auxiliary variables).
    limits
        Bounds of x, some of them infinite.
    f
        A point, near which the values are expected.
    """
    program = _of_rows(system, limits)
    is_open = np.isinf(limits.lower) | np.isinf(limits.upper)
    if not 0 < np.count_nonzero(is_open) * (program.matrix.nnz + len(is_open)) <= _WORK:
        return limits
    solved = program.solve(_LOOSE)
    if solved is None:
        return limits
    centre = np.clip(solved.x, limits.lower, limits.upper)
    centre[: len(f)] = f
    # Nothing is minimised, so that every level cuts nothing off.
    return bounded(program, limits, centre, 1.0)


def _of_rows(system: LinearInequalities, limits: Box) -> ConicProgram:
    """Return rows and bounds as a program that minimises nothing."""
    from scipy import sparse

    columns = system.matrix.shape[1]
    sides = Sides(system)
    below = np.flatnonzero(np.isfinite(limits.lower))
    above = np.flatnonzero(np.isfinite(limits.upper))
    unit = sparse.eye_array(columns, format="csr")
    parts = [sides.matrix, -unit[below], unit[above]]
    right = [sides.values, sides.caps, -limits.lower[below], limits.upper[above]]
    cones = Cones(zero=len(sides.values), nonneg=len(sides.caps) + len(below) + len(above))
    matrix = sparse.vstack(parts, format="csc")
    return ConicProgram(None, np.zeros(columns), matrix, np.concatenate(right), cones)


def _ways(
    program: ConicProgram, variables: NDArray[np.int64], shut: Box, centre: Array
) -> dict[tuple[int, float], list[Rise]]:
    """Return what multipliers prove of each variable's way to each side, if it ends at all.

    Multipliers on a grid come second: they leave nothing at all of some gradients.
    """
    result = {}
    for j in variables:
        for side in _SIDES:
            slope = np.zeros(len(centre))
            slope[j] = -side
            towards = replace(program, quadratic=None, linear=slope, linear_error=0.0)
            solved = towards.solve(_TOLERANCE)
            if solved is None:
                continue
            points = [Multipliers(centre, solved.z)]
            points += [on_grid(points[0], step) for step in GRIDS]
            rises = [towards.rise(point, shut) for point in points]
            # Of an unbounded direction the multipliers explain nothing.
            if abs(rises[0].residual[j]) < _ENDLESS:
                result[int(j), side] = rises
    return result


def _without(free: NDArray[np.int64], rises: list[Rise]) -> Rise | None:
    """Return the first rise that free variables add nothing to, or None."""
    for rise in rises:
        if not (rise.residual[free].any() or rise.error[free].any()) and np.isfinite(rise.value):
            return rise
    return None
