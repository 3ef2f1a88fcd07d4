"""Whether any vector satisfies all constraints, and which of them conflict where none does.

On polyhedra one linear program decides: how much all bounds must give way at least. Its multipliers at a vertex are a proof
(Farkas), and the rows in that proof are a conflict of which no row can be left out (Gleeson, Ryan 1990).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, Fixed, LinearInequalities
from ldpopt.errors import InfeasibleError
from ldpopt.losses import Loss

Array = NDArray[np.float64]

LARGEST = 2048
"""Number of values up to which the linear program is cheap beside the solve: a long order takes it minutes at 40,000."""

HIGHS: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""The tightest that HiGHS takes: its own 1e-7 is more than what a certificate should notice."""

_TOLERANCE = 1e-9  # by how much bounds may give way before a conflict is one
_SHOWN = 6  # rows named in a message


class Domain(Fixed):
    """f_v = 0 outside the values where a loss is finite for f_v > 0."""

    def __init__(self, loss: Loss, support: NDArray[np.bool_]) -> None:
        outside = np.flatnonzero(~support)
        super().__init__(outside, np.zeros(len(outside)))
        self._loss = loss

    def row_name(self, row: int, d: int) -> str:
        """Return which value the loss keeps at zero."""
        return f"f[{row}] = 0, else {self._loss!r} is infinite"

    def __repr__(self) -> str:
        return f"the {len(self.indices)} values that {self._loss!r} keeps at zero"


def check(constraints: Sequence[Constraint], d: int) -> None:
    """Raise an error that names the conflict if the polyhedral constraints contradict each other.

    Constraints without rows (``Custom``, ``AtMost``) are not looked at. Cost: nothing where equal frequencies with the right
    total satisfy them all, else a linear program.

    Raises
    ------
    InfeasibleError
        With the rows that conflict, and by how much they do.
    """
    parts = [(c, rows) for c in constraints if (rows := c.rows(d)) is not None]
    if all(np.all(c.violation(_level(constraints, d)) <= _TOLERANCE) for c, _ in parts):
        return
    excess, pushes = _elastic([rows for _, rows in parts], d)
    if excess <= _TOLERANCE:
        return
    owners = [(c, i) for c, rows in parts for i in range(len(rows.lower))]
    named = [owners[i][0].row_name(owners[i][1], d) for i in np.flatnonzero(pushes)]
    shown = "; ".join(dict.fromkeys(named[:_SHOWN])) + (
        f"; … ({len(named)} rows)" if len(named) > _SHOWN else ""
    )
    raise InfeasibleError(
        f"no vector satisfies the constraints; these conflict: {shown} (each would have to give way by {excess:.3g})"
    )


def _level(constraints: Sequence[Constraint], d: int) -> Array:
    """Return equal frequencies of all values that may be positive, with the total asked for, or 1."""
    positive = np.ones(d, dtype=np.bool_)
    for constraint in constraints:
        if (box := constraint.box(d)) is not None:
            positive &= box[1] > 0
    total: float = next((t for c in constraints if (t := c.total(d)) is not None), 1.0)
    return np.where(positive, total / max(int(np.count_nonzero(positive)), 1), 0.0)


def _elastic(parts: list[LinearInequalities], d: int) -> tuple[float, Array]:
    """Return the least t with lower - t <= A f <= upper + t, and the multiplier of every row."""
    from scipy import optimize, sparse

    matrix, lower, upper = stacked(parts, d)
    above, below = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))
    give = -sparse.csr_array(np.ones((len(above) + len(below), 1)))
    rows = sparse.hstack([sparse.vstack([matrix[above], -matrix[below]]), give], format="csr")
    caps = np.concatenate([upper[above], -lower[below]])
    cost = np.zeros(rows.shape[1])
    cost[-1] = 1.0
    free: Any = [(None, None)] * (len(cost) - 1) + [(0, None)]
    result: Any = optimize.linprog(
        cost, A_ub=rows, b_ub=caps, bounds=free, method="highs-ds", options=HIGHS
    )
    if result.status != 0:
        return 0.0, np.zeros(len(lower))  # undecided: the solver of the problem itself will tell
    pushes = np.zeros(len(lower))
    np.add.at(pushes, np.concatenate([above, below]), np.abs(result.ineqlin.marginals))
    return float(result.fun), np.where(pushes > 1e-9, pushes, 0.0)


def stacked(parts: Sequence[LinearInequalities], d: int) -> tuple[Any, Array, Array]:
    """Return all rows as one matrix over (f, auxiliary variables of every part), with lower and upper bounds."""
    from scipy import sparse

    widths = [0 if part.auxiliary is None else part.auxiliary.shape[1] for part in parts]
    before, total = np.concatenate([[0], np.cumsum(widths)]), sum(widths)
    blocks = []
    for part, offset, width in zip(parts, before, widths, strict=False):
        m = len(part.lower)
        beside = [
            sparse.csr_array((m, int(offset))),
            sparse.csr_array((m, int(total - offset - width))),
        ]
        middle = [] if part.auxiliary is None else [part.auxiliary]
        blocks.append(sparse.hstack([part.matrix, beside[0], *middle, beside[1]], format="csr"))
    lower, upper = (
        np.concatenate([np.empty(0), *(getattr(part, side) for part in parts)])
        for side in ("lower", "upper")
    )
    matrix = sparse.vstack(blocks, format="csr") if blocks else sparse.csr_array((0, d + total))
    return matrix, lower, upper


def conflict(constraints: Sequence[Constraint], d: int) -> str:
    """Return which constraints conflict when some are known to cvxpy alone: none of those named can be left out.

    Each constraint is left out in turn, and stays out if the others still conflict: one cone program a constraint.
    """
    import cvxpy as cp

    def possible(kept: Sequence[Constraint]) -> bool:
        f = cp.Variable(d) / d
        program = cp.Problem(cp.Minimize(0), [form for c in kept for form in c.cone_form(f)])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an inaccurate answer counts by its status
                program.solve(solver=cp.CLARABEL)
        except cp.error.SolverError:
            return True
        return program.status not in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE)

    if possible(constraints):
        return "the constraints alone do not conflict, but leave no point where the loss is finite"
    needed = list(constraints)
    for candidate in constraints:
        rest = [c for c in needed if c is not candidate]
        if rest and not possible(rest):
            needed = rest
    return f"these conflict: {', '.join(map(repr, needed))}"
