"""Multipliers that explain a gradient by the rows that hold with equality: least squares.

At a minimum the gradient of every value between its bounds is a combination of these rows, so that
least squares finds the multipliers to rounding, whatever found the point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import LinearInequalities
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import Minorant, Tangent
from ldpopt.solve.certificate.prices.normal_equations import NormalEquations
from ldpopt.solve.programs.units import frequency_unit

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Rounds of exchanges: some ten settle most sets, and a few go round in circles.
_ROUNDS = 40

# A multiplier, or what it could take off the slopes, of this size relative to the largest is
# rounding.
_ROUNDED = 1e-9

# A slope of this size, relative to the largest, is rounding.
_SIGN = 1e-12

# Weight of ‖ν‖² relative to the largest diagonal entry: it keeps the matrix regular where rows
# depend on each other. The steps below take its effect away again.
_REGULAR = 1e-11
_STEPS = 6


def rows_at_bounds(f: Array, system: LinearInequalities, near: float) -> tuple[Mask, Mask]:
    """Return which rows are within ``near`` of their lower bound, and which of their upper one.

    The distance counts relative to the largest of 1, |bound| and the unit of the frequencies.
    """
    values = system.matrix @ f
    unit = frequency_unit(f)
    with np.errstate(invalid="ignore"):
        at_lower = values - system.lower <= near * np.maximum(unit, np.abs(system.lower))
        at_upper = system.upper - values <= near * np.maximum(unit, np.abs(system.upper))
    return at_lower & np.isfinite(system.lower), at_upper & np.isfinite(system.upper)


def values_at_bounds(f: Array, limits: Box, near: float) -> tuple[Mask, Mask]:
    """Return which values are at their lower bound, and which at their upper one.

    ``near`` counts in the unit of the frequencies.
    """
    distance = near * frequency_unit(f)
    return f - limits.lower <= distance, limits.upper - f <= distance


def explaining_multipliers(
    tangent: Minorant,
    system: LinearInequalities,
    limits: Box,
    at_lower: Mask,
    at_upper: Mask,
    near: float,
) -> Array:
    """Return multipliers of the rows at their bounds, 0 for all others, shape (rows,).

    Parameters
    ----------
    tangent
        The loss at the point.
    system, limits
        Rows without auxiliary variables, and the bounds of all values.
    at_lower, at_upper
        Which rows may carry a positive and which a negative multiplier.
    near
        Distance from its bounds, in the unit of the frequencies, at which a value does not count
        as free.

    Notes
    -----
    Which rows and bounds carry something is found by block principal pivoting (Portugal, Júdice,
    Vicente 1994): in each round all change places whose multiplier, or slope, has the wrong sign.
    Its rule against circles is left out, since one exchange at a time takes more rounds than a
    program does. Whatever comes out is a choice of multipliers: what it proves is computed
    elsewhere.
    """
    f = tangent.f
    at_low, at_high = values_at_bounds(f, limits, near)
    # A bound explains any slope towards it. A value that is held by both, or whose slope is
    # infinite, needs no row.
    explained = at_low | at_high | ~np.isfinite(tangent.slope)
    slope = np.where(np.isfinite(tangent.slope), tangent.slope, 0.0)
    rounding = _SIGN * float(np.max(np.abs(slope), initial=0.0))
    multipliers = np.zeros(len(system.lower))
    candidates = np.flatnonzero(at_lower | at_upper)
    if not len(candidates):
        return multipliers
    rows = system.matrix[candidates]
    columns = rows.T
    rising = at_lower[candidates]
    falling = at_upper[candidates]
    active = np.ones(len(candidates), dtype=np.bool_)
    for _ in range(_ROUNDS):
        weights = np.where(explained, 0.0, 1 / _steepness(tangent, ~explained))
        chosen = np.flatnonzero(active)
        solved = np.zeros(len(candidates))
        if len(chosen):
            # In the first round all of them: no need to take them out of the matrix.
            part = rows if len(chosen) == len(candidates) else rows[chosen]
            solved[chosen] = least_squares(part, slope, weights)
        wrong = ((solved > 0) & ~rising) | ((solved < 0) & ~falling)
        multipliers[candidates] = np.where(wrong, 0.0, solved)
        residual = slope - columns @ solved
        # A row without a multiplier that could take something off the residual gets one. What is
        # small is rounding.
        pull = rows @ (weights * residual)
        limit = _ROUNDED * np.max(np.abs(weights * slope))
        leaving = wrong & (np.abs(solved) > _ROUNDED * np.max(np.abs(solved)))
        entering = ~active & ((rising & (pull > limit)) | (falling & (pull < -limit)))
        # A slope away from a bound is one that rows have to explain; towards it, the bound does.
        pulled_up = residual < -rounding
        pulled_down = residual > rounding
        opening = explained & ((at_low & ~at_high & pulled_up) | (at_high & ~at_low & pulled_down))
        closing = ~explained & ((at_low & pulled_down) | (at_high & pulled_up))
        turning = leaving | entering
        changing = opening | closing
        if not turning.any() and not changing.any():
            break
        active ^= turning
        explained ^= changing
    return multipliers


def _steepness(tangent: Minorant, free: Mask) -> Array:
    """Return the curvature of each value, by which a residual costs less; 1 where it has none."""
    d = len(tangent.f)
    if isinstance(tangent, Tangent):
        modulus = np.broadcast_to(tangent.modulus, d)
        if np.all(modulus[free] > 0):
            return np.where(free, modulus, 1.0)
    return np.ones(d)


def least_squares(matrix: Any, slope: Array, weights: Array) -> Array:
    """Return the ν of smallest Σ w (g - Aᵀν)², by normal equations that are refined."""
    equations = NormalEquations(matrix, weights, _REGULAR)
    # Once: of a small system, a transpose takes longer than a product.
    columns = equations.rows.T
    solution = np.zeros(matrix.shape[0])
    residual = slope
    for _ in range(_STEPS):
        solution = solution + equations.solve(equations.weighted @ residual)
        residual = slope - columns @ solution
    return solution
