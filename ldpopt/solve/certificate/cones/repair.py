"""A cone solver's multipliers, changed so that what they leave of the gradient costs less.

A solver leaves a residual of about its tolerance in every variable, and each is charged over the
whole range of its variable: thousands of absolute values together cost far more than the solver's
own gap. Mostly the residuals can be moved to where they cost little:

- Auxiliary variables stand in few rows each. The smallest change of the multipliers that leaves
  them no residual is one sparse system, and moves the residuals to the other variables.
- Those are the values of the fullest equation, as a total of frequencies is. Its multiplier
  changes all their residuals alike, and the one at which they cost least is a breakpoint of a
  function of one number. With a total the residuals then cost about the largest of them, not
  their sum.

Any multipliers prove something: whether these prove more is for their gap to say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones.conic_program import ConicProgram, Multipliers
from ldpopt.solve.certificate.prices.normal_equations import NormalEquations

Array = NDArray[np.float64]

# Multipliers below this, relative to the largest, are what a solver's tolerances leave.
_NOISE = 1e-7

# How much of their diagonal is added to the equations, and how often they are solved again for it.
_REGULAR = 1e-12
_STEPS = 3


def repaired(program: ConicProgram, point: Multipliers, box: Box) -> Multipliers | None:
    """Return multipliers whose residuals cost less, or None.

    An equation of several variables is needed. Cost: a sparse system of the auxiliary variables'
    size, and a sort.
    """
    from scipy import sparse

    equations = sparse.csr_array(program.matrix[: program.cones.zero])
    sizes = np.diff(equations.indptr)
    if sizes.max(initial=0) < 2:
        return None
    fullest = int(np.argmax(sizes))
    variables = equations.indices[equations.indptr[fullest] : equations.indptr[fullest + 1]]
    # A solver that gave up may have returned numbers near the end of the doubles.
    with np.errstate(all="ignore"):
        cleaned = _without_residuals(program, point, variables)
        result = _with_best_price(program, cleaned, box, fullest)
    return result if np.isfinite(result.z).all() else None


def _gradient(program: ConicProgram, x: Array, z: Array) -> Array:
    """Return c + P x + Aᵀz; rounding is charged later, by ``ConicProgram.rise``."""
    gradient: Array = program.linear + program.matrix.T @ z
    return gradient if program.quadratic is None else gradient + program.quadratic @ x


def _without_residuals(
    program: ConicProgram, point: Multipliers, kept: NDArray[np.integer[Any]]
) -> Multipliers:
    """Return multipliers of linear rows that leave no residual but in the variables ``kept``."""
    from scipy import sparse

    linear = program.cones.soc_start
    z = point.z.copy()
    inequalities = slice(program.cones.zero, linear)
    z[inequalities] = np.maximum(z[inequalities], 0.0)
    used = np.flatnonzero(np.abs(z[:linear]) > _NOISE * np.max(np.abs(z[:linear]), initial=0.0))
    is_private = np.ones(len(program.linear), dtype=bool)
    is_private[kept] = False
    part: Any = sparse.csr_array(program.matrix)[used].tocsc()
    private = np.flatnonzero(is_private & (np.diff(part.indptr) > 0))
    if not len(private):
        return point._replace(z=z)
    columns = sparse.csr_array(part[:, private].T)
    # The same change from either side, of which the smaller one is solved for.
    by_rows = len(used) < len(private)
    side = columns.T.tocsr() if by_rows else columns
    equations = NormalEquations(side, np.ones(side.shape[1]), _REGULAR)
    for _ in range(_STEPS):
        residual = _gradient(program, point.x, z)[private]
        if by_rows:
            z[used] -= equations.solve(side @ residual)
        else:
            z[used] -= side.T @ equations.solve(residual)
    return point._replace(z=z)


def _with_best_price(
    program: ConicProgram, point: Multipliers, box: Box, equation: int
) -> Multipliers:
    """Return multipliers with that of one equation at which the residuals cost least.

    With its change t, each residual r + a t costs |r + a t| times the way to the bound that it
    points to, and the equation itself t times what the point misses it by: a convex function that
    is linear between the zeros of the residuals.
    """
    row = program.matrix[[equation]].tocsr()
    variables = row.indices
    factors = row.data
    x = point.x[variables]
    down = np.maximum(x - box.lower[variables], 0.0)
    up = np.maximum(box.upper[variables] - x, 0.0)
    if not (np.isfinite(down).all() and np.isfinite(up).all()):
        return point
    zeros = -_gradient(program, point.x, point.z)[variables] / factors
    order = np.argsort(zeros)
    missed = float(program.right[equation] - factors @ x)
    first = missed - float(np.sum(np.where(factors > 0, factors * up, -factors * down)))
    slopes = first + np.cumsum((np.abs(factors) * (down + up))[order])
    place = min(int(np.searchsorted(slopes, 0.0)), len(order) - 1)
    z = point.z.copy()
    z[equation] += zeros[order[place]]
    return point._replace(z=z)
