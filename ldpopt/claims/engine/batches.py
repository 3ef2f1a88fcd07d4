"""Many small problems as one: a solver takes a hundred vectors at a time, not one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ldpopt.claims.engine.agreement import Agreement, ClosedForm, compare_with_solvers
from ldpopt.claims.engine.exactness import ExactRecord
from ldpopt.claims.engine.instances import Instance
from ldpopt.constraints import Bounds, Constraint, Linear
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.protocol import PureProtocol
from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

_LENGTH = 224  # values of a joined problem: solvers still reach their tolerances at once

# Batches of a stack that are certified where the set is no box: there each takes a search for
# multipliers, and on a box a few passes.
_ON_POLYHEDRA = 2


@dataclass(frozen=True)
class Case:
    """A problem on d values, and the closed form that solves it.

    Attributes
    ----------
    problem
        With bounds, totals, groups and orders.
    closed_form
        From an estimate to frequencies.
    tiled_loss
        The loss of so many vectors end to end; None if the problem's own loss serves, as one
        without weights does.
    """

    problem: Problem
    closed_form: ClosedForm
    tiled_loss: Callable[[int], Loss] | None = None

    def joined(self, d: int, copies: int) -> Problem:
        """Return the problem of several vectors of d values end to end.

        Examples
        --------
        >>> from ldpopt.constraints import NonNegative, SumsTo
        >>> from ldpopt.losses import LeastSquares
        >>> simplex = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)])
        >>> Case(simplex, closed_form=lambda estimate: estimate.frequencies).joined(2, 3)
        Problem(LeastSquares(), [Bounds(<6 values>, <6 values>), Linear(<3 rows>)])
        """
        loss = self.problem.loss if self.tiled_loss is None else self.tiled_loss(copies)
        constraints = [_in_blocks(c, copies, d) for c in self.problem.constraints]
        return Problem(loss, constraints)


def compare_joined(case: Case, crowd: list[Instance], solvers: tuple[str, ...]) -> Agreement:
    """Return how a closed form agrees with solvers that take many vectors at a time.

    The joined problem minimises the sum of the losses of all its vectors, each under its own
    constraints; its minimum is that of the vectors one by one, and its gap the sum of their gaps.
    Solvers get the first batch of each stack. On boxes all batches are certified, elsewhere two;
    the exact minimisers are those of the vectors one by one.

    Parameters
    ----------
    case
        The problem of one vector.
    crowd
        Stacks of many small vectors.
    solvers
        Names for the conic path.
    """
    parts = []
    joined: dict[tuple[int, int], Problem] = {}
    for instance in crowd:
        d = instance.estimate.d
        points = case.closed_form(instance.estimate)
        # The exact minimisers of joined vectors would be those of a problem of another size.
        exact = ExactRecord.of(case.problem, instance.estimate, points)
        parts.append(Agreement(exact=exact))
        certified = batches(instance)
        if not case.problem.is_box(d):
            certified = certified[:_ON_POLYHEDRA]
        for number, batch in enumerate(certified):
            size = (d, batch.joined)
            # Compiling takes longer than solving: one problem serves all batches of a size.
            if size not in joined:
                joined[size] = case.joined(*size)
            closed_form = by_block(case.closed_form, d)
            chosen = solvers if number == 0 else ()
            parts.append(compare_with_solvers(joined[size], closed_form, [batch], chosen))
    return Agreement.merged(parts)


def _in_blocks(constraint: Constraint, copies: int, d: int) -> Constraint:
    """Return a constraint on every block: bounds as bounds, everything else by its rows."""
    box = constraint.box(d)
    if box is not None:
        lower, upper = box
        return Bounds(np.tile(lower, copies), np.tile(upper, copies))
    rows = constraint.rows(d)
    if rows is None:
        raise TypeError(f"{constraint!r} has neither bounds nor rows, so it cannot be joined")
    # Block diagonal: every vector keeps its own rows, and nothing ties two vectors together.
    matrix = sparse.kron(sparse.eye_array(copies), rows.matrix, format="csr")
    return Linear(matrix, np.tile(rows.lower, copies), np.tile(rows.upper, copies))


def batches(instance: Instance) -> list[Instance]:
    """Return a stack as vectors end to end, as many per batch as the length allows.

    Vectors that are left over and fill no batch are dropped.
    """
    n = instance.estimate.noise.require_n()
    protocol = instance.estimate.noise.require_protocol()
    d = protocol.d
    copies = _LENGTH // d
    rows = instance.estimate.frequencies
    long_protocol = _with_size(protocol, copies * d)
    result = []
    # Whole batches alone, so that all have one size, and one compiled problem serves them.
    for start in range(0, len(rows) - copies + 1, copies):
        row = rows[start : start + copies].reshape(1, -1)
        estimate = FrequencyEstimate(row, n, long_protocol, is_raw=True)
        result.append(Instance(instance.name, instance.kind, estimate, joined=copies))
    return result


def _with_size(protocol: PureProtocol, d: int) -> PureProtocol:
    """Return a protocol with the same probabilities on d values."""
    # Losses take p and q alone from it; an oracle of this size could have others, as GRR's.
    return PureProtocol(protocol.epsilon, d, p=protocol.p, q=protocol.q)


def by_block(closed_form: ClosedForm, d: int) -> ClosedForm:
    """Return a closed form of vectors of d values as one of vectors end to end."""

    def solve(estimate: FrequencyEstimate) -> Array:
        n = estimate.noise.require_n()
        protocol = estimate.noise.require_protocol()
        rows = estimate.frequencies.reshape(-1, d)
        vectors = FrequencyEstimate(rows, n, _with_size(protocol, d), is_raw=True)
        return closed_form(vectors).reshape(estimate.frequencies.shape)

    return solve
