"""Least squares on bounds with any few linear equations, such as two margins of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import Constraint, LinearInequalities, SumsTo
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family

Array = NDArray[np.float64]

# Each step solves a dense system of the equations: beyond this a sparse solver is faster.
_MOST = 500


@solves_family
def _with_equations(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return Newton's method on the multipliers, where all that is no bound is an equation."""
    loss = formulation.loss
    d = estimate.d
    region = formulation.region(d)
    if loss.family is not LeastSquares or not isinstance(loss, LeastSquares) or region.is_box:
        return None
    rows = [_equations(one, d) for one in formulation.constraints if one.box(d) is None]
    stated = [part for part in rows if part is not None]
    if len(stated) < len(rows) or sum(len(part.lower) for part in stated) > _MOST:
        return None

    def evaluate() -> Array:
        from scipy import sparse

        matrix = sparse.vstack([part.matrix for part in stated], format="csc")
        right = np.concatenate([part.lower for part in stated])
        target = loss.target(estimate)
        points = np.empty(target.shape)
        for trial in np.ndindex(target.shape[:-1]):
            points[trial] = closed_form.with_equations(
                target[trial], matrix, right, region.lower, region.upper
            )
        return points

    return Match("newton on multipliers", evaluate, may_miss=True)


def _equations(constraint: Constraint, d: int) -> LinearInequalities | None:
    """Return the rows of a constraint if all are equations in f alone, else None."""
    total = constraint.total(d)
    rows = SumsTo(total).rows(d) if total is not None else constraint.rows(d)
    if rows is None or rows.auxiliary is not None or not np.array_equal(rows.lower, rows.upper):
        return None
    # An order without pairs has no rows: it belongs to the family of orders.
    if not rows.lower.size:
        return None
    return rows
