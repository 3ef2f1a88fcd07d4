"""Whether any vector satisfies all constraints, and which of them conflict where none does.

On polyhedra one linear program decides: the least amount by which all bounds must give way. Its
multipliers at a vertex are a proof (Farkas), and the rows in that proof are a conflict from which
no row can be left out (Gleeson, Ryan 1990).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Bounds, Constraint, Fixed, LinearInequalities, NonNegative
from ldpopt.errors import InfeasibleError, SolverError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.printable import counted
from ldpopt.solve.certificate.cones.compiled_problem import compiled_set
from ldpopt.solve.certificate.cones.dual_cones import project
from ldpopt.solve.formulation import Formulation, stated_size
from ldpopt.solve.programs.program import ConeProgram, LinearProgram, stacked
from ldpopt.solve.programs.units import unit_of_size

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

LARGEST = 2048
"""Number of values up to which a program is cheap beside the solve: on a long order of 40,000
values the linear program takes minutes."""

# By how much bounds may give way before that is a conflict: totals that differ by rounding do not.
_TOLERANCE = 1e-9

# HiGHS leaves multipliers of this size on rows that are not part of a proof.
_NO_MULTIPLIER = 1e-9

# How large the variables of a program may be on average, in units in which those of frequencies are
# of order 1: an empty set is one without points up to there.
_FARTHEST = 1e4

_SHOWN = 6  # rows named in a message


class SupportConstraint(Fixed):
    """f_v = 0 outside the values where a loss is finite for f_v > 0."""

    def __init__(self, loss: Loss, support: NDArray[np.bool_]) -> None:
        outside = np.flatnonzero(~support)
        super().__init__(outside, np.zeros(len(outside)))
        self._loss = loss

    def row_name(self, row: int, d: int) -> str:
        """Return which value the loss keeps at zero."""
        return f"f[{row}] = 0, else {self._loss!r} is infinite"

    def __repr__(self) -> str:
        return f"the {counted(len(self.indices), 'value')} that {self._loss!r} keeps at zero"


def conditions(
    formulation: Formulation, support: NDArray[np.bool_] | None
) -> tuple[Constraint, ...]:
    """Return the constraints of a problem, and those that follow from where its loss is finite.

    Parameters
    ----------
    formulation
        The problem.
    support
        Where its loss lets a value be positive, shape (d,); None is everywhere.
    """
    members = list(formulation.constraints)
    if formulation.loss.nonnegative_domain:
        members.append(NonNegative())
    if support is not None and not support.all():
        members.append(SupportConstraint(formulation.loss, support))
    return tuple(members)


def require_feasible(constraints: Sequence[Constraint], d: int) -> None:
    """Raise an error that names the conflict if the polyhedral constraints contradict each other.

    Constraints without rows (``Custom``, ``AtMost``) are not looked at. Cost: a few passes where
    equal frequencies with the right total satisfy them all, otherwise a linear program.

    Raises
    ------
    InfeasibleError
        With the rows that conflict, and by how much each of them would have to give way.
    """
    members: list[Constraint] = []
    parts: list[LinearInequalities] = []
    for constraint in constraints:
        rows = constraint.rows(d)
        if rows is not None:
            members.append(constraint)
            parts.append(rows)
    # Most sets in use contain this point, and checking it is far cheaper than a program.
    point = _equal_frequencies(constraints, d)
    if all(np.all(member.violation(point) <= _TOLERANCE) for member in members):
        return
    excess, multipliers = _elastic(parts, d)
    if excess <= _TOLERANCE * _size_of_rows(parts, multipliers, d):
        return
    names = _names_of_rows(members, parts, multipliers, d)
    # Rows of several constraints may have the same name, such as f[0] >= 0: each is named once.
    shown = "; ".join(dict.fromkeys(names[:_SHOWN]))
    if len(names) > _SHOWN:
        shown += f"; … ({len(names)} rows)"
    raise InfeasibleError(
        f"no vector satisfies the constraints; these conflict: {shown} "
        f"(each would have to give way by {excess:.3g})"
    )


def _size_of_rows(parts: Sequence[LinearInequalities], multipliers: Array, d: int) -> float:
    """Return the largest end of the rows that have a multiplier, at least 1."""
    system = stacked(parts, d)
    used = multipliers > 0
    ends = np.abs(np.concatenate([system.lower[used], system.upper[used]]))
    return max(1.0, float(ends[np.isfinite(ends)].max(initial=0.0)))


def _names_of_rows(
    members: Sequence[Constraint], parts: Sequence[LinearInequalities], multipliers: Array, d: int
) -> list[str]:
    """Return the names of the rows that have a multiplier, those with several values first."""
    # In the order in which ``stacked`` puts the rows, so that a multiplier's index finds its owner.
    owners: list[tuple[Constraint, int]] = []
    for member, rows in zip(members, parts, strict=True):
        owners += [(member, row) for row in range(len(rows.lower))]
    # Totals and orders first: a message that lists f_v >= 0 for six of many values says nothing.
    entries = np.diff(stacked(parts, d).matrix.tocsr().indptr)
    conflicting = sorted(np.flatnonzero(multipliers), key=lambda i: entries[i] == 1)
    chosen = [owners[i] for i in conflicting]
    return [member.row_name(row, d) for member, row in chosen]


def require_finite_loss(formulation: Formulation, start: FrequencyEstimate) -> None:
    """Raise an error that names the conflict if values that a loss keeps at zero are part of one.

    Raises
    ------
    InfeasibleError
        As ``require_feasible``, for the first trial without a vector of finite loss in the set.
    """
    support = formulation.loss.support(start)
    if support is not None:
        # Trials with the same zeros share one program.
        for inside in np.unique(support.reshape(-1, start.d), axis=0):
            require_feasible(conditions(formulation, inside), start.d)


def _equal_frequencies(constraints: Sequence[Constraint], d: int) -> Array:
    """Return equal frequencies of all values that may be positive, with the stated total or 1."""
    positive = np.ones(d, dtype=np.bool_)
    total = 1.0
    for constraint in constraints:
        box = constraint.box(d)
        if box is not None:
            positive &= box[1] > 0
        stated = constraint.total(d)
        if stated is not None:
            total = stated
    count = max(int(np.count_nonzero(positive)), 1)
    return np.where(positive, total / count, 0.0)


def _elastic(parts: Sequence[LinearInequalities], d: int) -> tuple[float, Array]:
    """Return the least t with lower - t <= A f <= upper + t, and how much each row needs it."""
    from scipy import sparse

    system = stacked(parts, d)
    above = np.flatnonzero(np.isfinite(system.upper))
    below = np.flatnonzero(np.isfinite(system.lower))
    # One t for all rows: with it every system has a solution, so that the program has a vertex, and
    # with it multipliers, whether or not the constraints conflict.
    signs = np.concatenate([-np.ones(len(above)), np.ones(len(below))])
    give_way = sparse.csr_array(signs[:, None])
    sides: Any = system.matrix[np.concatenate([above, below])]
    matrix = sparse.hstack([sides, give_way], format="csr")
    # Each row has one side here: the other is open.
    nothing_below = np.full(len(above), -np.inf)
    nothing_above = np.full(len(below), np.inf)
    lower = np.concatenate([nothing_below, system.lower[below]])
    upper = np.concatenate([system.upper[above], nothing_above])
    rows = LinearInequalities(matrix, lower, upper)
    columns = system.matrix.shape[1]
    free: list[tuple[float | None, float | None]] = [(None, None)] * columns
    cost = np.zeros(columns + 1)
    cost[-1] = 1.0
    # The multipliers of an interior point would be spread over all rows of all conflicts.
    solution = LinearProgram(rows, [*free, (0.0, None)], at_vertex=True).minimise(cost)
    needed = np.zeros(len(system.lower))
    if solution.status != "optimal":
        return 0.0, needed  # undecided: the solver of the problem itself will tell
    # A row with two sides is in both lists: plain indexing would keep only the latter of its
    # shares.
    np.add.at(needed, np.concatenate([above, below]), np.abs(solution.multipliers))
    return solution.value, np.where(needed > _NO_MULTIPLIER, needed, 0.0)


def _search(
    constraints: Sequence[Constraint], d: int
) -> tuple[Literal["feasible", "infeasible", "undecided"], Array | None]:
    """Return whether a cone program finds a vector in all constraints, and that vector."""
    import cvxpy as cp

    variable = cp.Variable(d)
    # In units of 1/d, the solver's numbers are of order 1, for which its tolerances are made.
    unit = unit_of_size(stated_size(constraints, d), d)
    f = (variable if unit == 1 else unit * variable) / d
    anchor = None if unit == 1 else variable
    forms = [form for constraint in constraints for form in constraint.cone_form(f)]
    # Infinite bounds state nothing, and of nothing cvxpy makes no cone program.
    if not forms:
        return "feasible", np.zeros(d)
    try:
        solution = ConeProgram(cp.Constant(0.0), forms, anchor=anchor).solve()
    except cp.error.SolverError:
        return "undecided", None
    if solution.status == cp.INFEASIBLE:
        return ("infeasible" if _is_proved(variable, forms) else "undecided"), None
    point = solution.at(variable)
    if solution.status != cp.OPTIMAL or point is None:
        return "undecided", None
    return "feasible", unit * point / d


def _is_proved(variable: cp.Variable, forms: Sequence[cp.Constraint]) -> bool:
    """Return whether a ray proves that no point of any plausible size satisfies the forms.

    Points of A x + s = b with s in a cone have z·b - (Aᵀz)·x = z·s >= 0 for every z of the dual
    cone. Where z·b < 0, the sum of all |x| is therefore at least -z·b over the largest |Aᵀz|.
    """
    program = compiled_set(variable, forms).program
    program = replace(program, linear=np.zeros(len(program.linear)))
    solved = program.solve(_TOLERANCE)
    if solved is None:
        return False
    ray = project(solved.z, program.cones)
    left = np.max(np.abs(program.matrix.T @ ray), initial=0.0)
    return bool(-(ray @ program.right) > _FARTHEST * len(program.linear) * left)


def conflict(constraints: Sequence[Constraint], d: int) -> str:
    """Return which constraints conflict where cvxpy alone knows some of them.

    None of those named can be left out. Each constraint is left out in turn, and stays out if the
    others still conflict. Cost: one cone program per constraint.
    """
    if _search(constraints, d)[0] != "infeasible":
        return "the constraints alone do not conflict, but leave no point where the loss is finite"
    needed = list(constraints)
    for candidate in constraints:
        rest = [constraint for constraint in needed if constraint is not candidate]
        # This is the deletion filter (Chinneck, Dravnieks 1991). An undecided search keeps the
        # candidate: the list may then be too long, but what it names does conflict.
        if rest and _search(rest, d)[0] == "infeasible":
            needed = rest
    names = [repr(constraint) for constraint in needed]
    remedy = "" if names.count("Custom()") < 2 else "; give each Custom a name to tell them apart"
    return f"these conflict: {', '.join(names)}{remedy}"


def verdict(
    formulation: Formulation,
    estimate: FrequencyEstimate,
    support: NDArray[np.bool_] | None,
    reported: str,
) -> InfeasibleError | SolverError:
    """Return the error for a solver that calls the problem infeasible.

    A solver may be wrong about that, so that a program of feasibility alone confirms it: by the
    rows, which decide where all constraints have some, else by a ray that proves it, at last on
    the loss's own domain.

    Parameters
    ----------
    formulation, estimate
        What was solved: one trial, shape (d,).
    support
        As in ``conditions``.
    reported
        The solver and its status, for the message.

    Returns
    -------
    InfeasibleError if the program confirms it, SolverError if not.
    """
    d = estimate.d
    members = conditions(formulation, support)
    try:
        require_feasible(members, d)
    except InfeasibleError as error:
        return error
    is_curved = any(member.rows(d) is None for member in members)
    if is_curved and _search(members, d)[0] == "infeasible":
        return InfeasibleError(
            f"no vector satisfies the constraints ({reported}): {conflict(members, d)}"
        )
    # Left is a loss that is infinite on the whole set, as a logarithm is beyond its end.
    first, last = formulation.loss.domain(formulation.loss.constants(estimate))
    outcome, point = _search([*members, Bounds(first, last)], d)
    if outcome == "infeasible":
        return InfeasibleError(
            f"no vector satisfies the constraints ({reported}): they do not conflict by "
            "themselves, but leave no point where the loss is finite"
        )
    # A loss of the user's own does not state where it is finite.
    if point is not None and not np.isfinite(formulation.loss.value(point, estimate)):
        return SolverError(
            f"{reported}: a vector satisfies the constraints, but {formulation.loss!r} is not "
            "finite there: state one that is finite on the set, as a logarithm of an estimate "
            "below 0 is not"
        )
    witness = "a vector satisfies the constraints" if outcome == "feasible" else "no program agrees"
    return SolverError(
        f"{reported}, yet {witness}: allow more iterations, or use another solver or accuracy"
    )
