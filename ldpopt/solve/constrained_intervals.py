"""Confidence intervals under any constraints: the range over all vectors that noise allows.

The raw intervals of all values, and of the sets in question, hold jointly: they are a box, a
confidence set. If the truth satisfies the constraints it lies in the intersection, so the range
over the intersection covers it with the same probability.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import progress
from ldpopt.constraints import Constraint, LinearInequalities
from ldpopt.errors import InfeasibleError, SolverError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.sets import Sets, membership
from ldpopt.printable import counted
from ldpopt.solve.programs.program import ConeProgram, LinearProgram, stacked

Array = NDArray[np.float64]
Maximum = Callable[[Array], float]


def interval(
    constraints: Sequence[Constraint],
    raw: FrequencyEstimate,
    level: float,
    sets: Sets | None,
    names: Sequence[str],
) -> tuple[Array, Array]:
    """Return the range of each value or answer over the joint confidence set; errors name a set.

    See ``Problem.interval``, which raises errors. Cost: two linear programs per answer and trial,
    or cone programs where a constraint is not polyhedral.
    """
    from scipy import sparse

    d = raw.d
    members: Any = sparse.csr_array(sparse.eye_array(d))
    if sets is not None:
        members = membership(sets, d, names)
    answers = members.shape[0]
    box = _confidence_box(constraints, raw, level, sets)
    parts = [constraint.rows(d) for constraint in constraints]
    trials = raw.frequencies.shape[:-1]
    lower = np.empty((*trials, answers))
    upper = np.empty((*trials, answers))
    indices = list(np.ndindex(trials))
    count = len(indices) * answers
    # Two programs per answer, which take minutes where there are thousands of answers.
    with progress.bar(counted(count, "interval"), count) as advance:
        for trial in indices:
            confidence = LinearInequalities(box.matrix, box.lower[trial], box.upper[trial])
            maximum = _maximum(constraints, parts, confidence, d)
            for i in range(answers):
                # One row at a time: all sets as a dense matrix take m·d numbers.
                weights = members[[i]].toarray()[0]
                lower[(*trial, i)] = -maximum(-weights)
                upper[(*trial, i)] = maximum(weights)
                advance(1)
    # A minimum of 0 is found as the maximum of -f, which makes it -0.0.
    return lower + 0.0, upper + 0.0


def _maximum(
    constraints: Sequence[Constraint],
    parts: Sequence[LinearInequalities | None],
    confidence: LinearInequalities,
    d: int,
) -> Maximum:
    """Return w ↦ max wᵀf over a confidence set and the constraints, with their rows as parts."""
    polyhedra = [part for part in parts if part is not None]
    # Linear programs are exact at a vertex and quicker: cones only where a constraint has no rows.
    if len(polyhedra) == len(parts):
        return _linear_maximum([confidence, *polyhedra], d)
    return _conic_maximum(confidence, constraints, d)


def _confidence_box(
    constraints: Sequence[Constraint], raw: FrequencyEstimate, level: float, sets: Sets | None
) -> LinearInequalities:
    """Return the joint raw intervals of all values, and of the sets if there are any.

    The ends have the estimate's leading axes. By Bonferroni's inequality the box covers with
    probability ``level`` if each of its intervals fails with probability (1 - level)/count.
    """
    from scipy import sparse

    d = raw.d
    matrices: list[Any] = [sparse.eye_array(d)]
    if sets is not None:
        matrices.append(membership(sets, d))
    rows: Any = sparse.vstack(matrices, format="csr")
    # The intervals of the values count even where only sets are of interest: all rows must cover
    # jointly for the truth to lie in the box.
    each = 1 - (1 - level) / rows.shape[0]
    lower, upper = raw.interval(each)
    lower = lower.copy()
    upper = upper.copy()
    for constraint in constraints:
        bounds = constraint.box(d)
        if bounds is not None:
            # A value beyond its bound gets the bound, as if the interval reached it.
            np.clip(lower, *bounds, out=lower)
            np.clip(upper, *bounds, out=upper)
    if sets is not None:
        set_lower, set_upper = raw.interval(each, sets)
        lower = np.concatenate([lower, set_lower], axis=-1)
        upper = np.concatenate([upper, set_upper], axis=-1)
    return LinearInequalities(rows, lower, upper)


def _linear_maximum(parts: Sequence[LinearInequalities], d: int) -> Maximum:
    """Return w ↦ max wᵀf over the polyhedron: a linear program in d f, whose values are near 1."""
    system = stacked(parts, d)
    # The matrix stays: in x = d f both sides of A f <= b grow by the factor d.
    scaled = LinearInequalities(system.matrix, d * system.lower, d * system.upper)
    program = LinearProgram(scaled)
    cost = np.zeros(system.matrix.shape[1])

    def maximum(weights: Array) -> float:
        """Return the maximum; without one an error is raised."""
        cost[:d] = -weights / d
        solution = program.minimise(cost)
        if solution.status == "infeasible":
            raise _refuted()
        if solution.status != "optimal":
            raise SolverError(f"HiGHS found no range of an answer: {solution.message}")
        return -solution.value

    return maximum


def _conic_maximum(
    confidence: LinearInequalities, constraints: Sequence[Constraint], d: int
) -> Maximum:
    """Return w ↦ max wᵀf over the box and the constraints: a cone program in d f."""
    import cvxpy as cp

    variable = cp.Variable(d)
    weights = cp.Parameter(d)
    inside = [
        confidence.matrix @ variable >= d * confidence.lower,
        confidence.matrix @ variable <= d * confidence.upper,
    ]
    forms = [form for c in constraints for form in c.cone_form(variable / d)]
    program = ConeProgram(-(weights @ variable), [*inside, *forms])

    def maximum(wanted: Array) -> float:
        """Return the maximum; without one an error is raised."""
        weights.value = wanted
        solution = program.solve()
        if solution.status == cp.INFEASIBLE:
            raise _refuted()
        point = solution.at(variable)
        # The end of an interval is stated as exact: an inaccurate one would not cover.
        if solution.status != cp.OPTIMAL or point is None:
            raise SolverError(f"CLARABEL found no range of an answer: {solution.status}")
        return float(wanted @ point) / d

    return maximum


def _refuted() -> InfeasibleError:
    return InfeasibleError(
        "no vector satisfies the constraints within the noise of this level: the data reject the "
        "constraints; alternatively the reports violate the protocol, or this is one of the few "
        "samples that the level lets fail"
    )
