"""Gap and multipliers on sets that only cvxpy knows, one trial at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, LinearInequalities
from ldpopt.constraints.base import row_forms
from ldpopt.solve.certificate.cone_gap import ConeSet, cone_gap
from ldpopt.solve.certificate.convex_program import certify_program
from ldpopt.solve.certificate.evidence import Evidence, Explanation, evidence_of
from ldpopt.solve.certificate.intervals import Box
from ldpopt.solve.certificate.minorant import KinkedLoss, Minorant, Tangent
from ldpopt.solve.certificate.parts import absolute_sum

Array = NDArray[np.float64]


def evidence(members: Sequence[Constraint], tangent: Minorant, limits: Box) -> Evidence:
    """Return the evidence of one trial; the multipliers are those of cvxpy's constraints."""
    import cvxpy as cp

    d = len(tangent.f)
    variable = cp.Variable(d)
    forms = [_forms(member, variable) for member in members]
    every_form = [form for part in forms for form in part]
    duals: Mapping[Any, Any] = {}
    if isinstance(tangent, Tangent):
        proof = cone_gap(
            tangent.slope, tangent.error, tangent.f, tangent.modulus, *limits, variable, every_form
        )
        gap = proof.gap
        reason = proof.reason
        residual = proof.residual
        duals = proof.multipliers
    else:
        assert isinstance(tangent, KinkedLoss)
        place, below, above = tangent.kinks
        step = variable - place
        objective = below @ step + (above - below) @ cp.pos(step)
        problem = cp.Problem(cp.Minimize(objective), every_form)
        # Auxiliary variables of the constraints are not used in the objective: any value will do.
        values = {other: np.zeros(other.shape) for other in problem.variables()}
        whole = certify_program(problem, {**values, variable: tangent.f})
        gap = whole.gap
        reason = whole.reason
        residual = np.nan
        duals = {form.id: value for form, value in whole.duals.items()}
    explanation = Explanation(
        np.asarray(residual),
        np.asarray(gap),
        *_unknown(members, d),
        (),
        tuple([duals.get(form.id) for form in part] for part in forms),
    )
    return evidence_of(gap, absolute_sum(tangent.slope, tangent.f), reason, explanation)


def _forms(member: Constraint, variable: Any) -> list[Any]:
    """Return a constraint for cvxpy, bounds and rows without the factor that a solver likes.

    A bound times d is rounded, and a steep loss makes the last bit of a bound count.
    """
    d = variable.size
    box = member.box(d)
    if box is None:
        rows = member.rows(d)
        return member.cone_form(variable) if rows is None else row_forms(rows, variable, 1)
    forms = []
    for bound, sign in zip(box, (1, -1), strict=True):
        finite = np.flatnonzero(np.isfinite(bound))
        if len(finite):
            forms.append(sign * variable[finite] >= sign * bound[finite])
    return forms


def linear_rows(member: Constraint, d: int) -> LinearInequalities | None:
    """Return what cvxpy makes of a constraint as linear inequalities in f alone.

    None is returned if it is curved, or needs auxiliary variables.
    """
    import cvxpy as cp
    from scipy import sparse

    variable = cp.Variable(d)
    forms = member.cone_form(variable)
    if not forms:
        return LinearInequalities(sparse.csr_array((0, d)), np.empty(0), np.empty(0))
    unknown = np.full(d, np.inf)
    compiled = ConeSet.of(variable, forms, -unknown, unknown)
    program = compiled.program
    if not program.cones.linear or program.matrix.shape[1] > d:
        return None
    # A x + s = b with s = 0 in the first rows and s >= 0 in the others.
    right = program.right
    lower = np.where(np.arange(len(right)) < program.cones.zero, right, -np.inf)
    return LinearInequalities(program.matrix.tocsr(), lower, right.copy())


def _unknown(members: Sequence[Constraint], d: int) -> tuple[Array, Array, Array]:
    """Return NaN for μ, λ and ν: cvxpy's multipliers stand under the constraints' names."""
    sizes = [0]
    for member in members:
        rows = member.rows(d)
        if rows is not None and member.total(d) is None and member.box(d) is None:
            sizes.append(len(rows.lower))
    return np.asarray(np.nan), np.full(d, np.nan), np.full(sum(sizes), np.nan)
