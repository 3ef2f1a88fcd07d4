"""Confidence intervals under any constraints: the range of values and answers over all vectors that noise and constraints allow.

The raw intervals of all values, and of the sets that are asked for, hold jointly: they are a box, a confidence set. Truth that
satisfies the constraints lies in both, so whatever is true of all vectors in both is true of it, at the same level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, LinearInequalities
from ldpopt.errors import InfeasibleError, SolverError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.sets import Sets, membership
from ldpopt.solve.feasibility import HIGHS, stacked

Array = NDArray[np.float64]
Highest = Callable[[Array], float]


def interval(
    constraints: Sequence[Constraint], raw: FrequencyEstimate, level: float, sets: Sets | None
) -> tuple[Array, Array]:
    """Return the range of each value or answer over the joint confidence set; see ``Problem.interval``, which raises errors.

    Cost: two linear programs an answer and trial, or cone programs where a constraint is not polyhedral.
    """
    from scipy import sparse

    d = raw.d
    members: Any = sparse.csr_array(sparse.eye_array(d)) if sets is None else membership(sets, d)
    asked = 0 if sets is None else members.shape[0]
    each = 1 - (1 - level) / (d + asked)  # Bonferroni: the box holds at the level
    bounds = [raw.interval(each)] + ([raw.interval(each, sets)] if asked else [])
    least, most = (np.concatenate([b[side] for b in bounds], axis=-1) for side in (0, 1))
    rows: Any = sparse.vstack([sparse.eye_array(d), members[:asked]], format="csr")
    lower, upper = (np.empty((*raw.frequencies.shape[:-1], members.shape[0])) for _ in range(2))
    for constraint in constraints:
        if (
            known := constraint.box(d)
        ) is not None:  # a value beyond its bound gets the bound, as if the box reached it
            least[..., :d], most[..., :d] = (
                np.clip(ends[..., :d], *known) for ends in (least, most)
            )
    parts = [constraint.rows(d) for constraint in constraints]
    for trial in np.ndindex(raw.frequencies.shape[:-1]):
        box = LinearInequalities(rows, least[trial], most[trial])
        polyhedron = [box, *(part for part in parts if part is not None)]
        highest = _linear(polyhedron, d) if None not in parts else _conic(box, constraints, d)
        for i in range(members.shape[0]):
            weights = members[[i]].toarray()[0]
            lower[(*trial, i)], upper[(*trial, i)] = -highest(-weights), highest(weights)
    return lower, upper


def _linear(parts: Sequence[LinearInequalities], d: int) -> Highest:
    """Return w ↦ max wᵀf over the polyhedron, by HiGHS on d f."""
    from scipy import optimize, sparse

    matrix, low, high = stacked(parts, d)
    equal = low == high
    above, below = ~equal & np.isfinite(high), ~equal & np.isfinite(low)
    matrices: Any = sparse.vstack([matrix[above], -matrix[below]], format="csr"), matrix[equal]
    caps = np.concatenate([high[above], -low[below]]) * d

    def highest(weights: Array) -> float:
        """Return the maximum; an error if there is none."""
        cost = np.zeros(matrix.shape[1])
        cost[:d] = -weights / d
        result: Any = optimize.linprog(
            cost,
            matrices[0],
            caps,
            matrices[1],
            d * low[equal],
            bounds=(None, None),
            method="highs",
            options=HIGHS,
        )
        if result.status == 2:
            raise _refuted()
        if result.status != 0:
            raise SolverError(f"HiGHS found no range of an answer: {result.message}")
        return -float(result.fun)

    return highest


def _conic(box: LinearInequalities, constraints: Sequence[Constraint], d: int) -> Highest:
    """Return w ↦ max wᵀf over the box and the constraints, by Clarabel on d f."""
    import cvxpy as cp

    variable, weights = cp.Variable(d), cp.Parameter(d)
    within = [box.matrix @ variable >= d * box.lower, box.matrix @ variable <= d * box.upper]
    forms = [form for constraint in constraints for form in constraint.cone_form(variable / d)]
    program = cp.Problem(cp.Maximize(weights @ variable), within + forms)

    def highest(wanted: Array) -> float:
        """Return the maximum; an error if there is none."""
        weights.value = wanted
        program.solve(solver=cp.CLARABEL)
        if program.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
            raise _refuted()
        if program.status != cp.OPTIMAL:
            raise SolverError(f"CLARABEL found no range of an answer: {program.status}")
        return float(program.value) / d

    return highest


def _refuted() -> InfeasibleError:
    return InfeasibleError(
        "no vector satisfies the constraints within the noise of this level: they are refuted, unless reports do not follow the "
        "protocol or the estimate is one of the few that the level lets fail"
    )
