"""Many small problems as one: a solver takes a hundred vectors at a time, so that thousands are within reach."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ldpopt.claims.engine.agreement import Agreement, compare
from ldpopt.claims.engine.instances import Instance
from ldpopt.constraints import Bounds, Constraint, Linear, NonNegative
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import WeightedLeastSquares
from ldpopt.protocol import PureProtocol
from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

_LENGTH = 224  # values of a joined problem: solvers still reach their tolerances at once


def compare_joined(
    problem: Problem,
    closed_form: Callable[[FrequencyEstimate], Array],
    crowd: list[Instance],
    solvers: tuple[str, ...],
) -> Agreement:
    """Return how a closed form agrees with solvers that take many vectors at a time.

    The joined problem minimises the sum of the losses of all its vectors, each under its own constraints; its minimum is that
    of the vectors one by one, and its gap is the sum of their gaps.

    Parameters
    ----------
    problem
        Of one vector: bounds, totals, groups and orders.
    closed_form
        From an estimate to frequencies.
    crowd
        Stacks of many small vectors.
    solvers
        Names for the conic path.
    """
    parts, joined = [], {}
    for instance in crowd:
        d = instance.estimate.d
        for batch in batches(instance):
            key = d, batch.joined
            if key not in joined:
                joined[key] = join(problem, d, batch.joined)
            parts.append(compare(joined[key], by_block(closed_form, d), [batch], solvers))
    return Agreement.merged(parts)


def join(problem: Problem, d: int, copies: int) -> Problem:
    """Return the problem of several vectors of d values end to end.

    Examples
    --------
    >>> from ldpopt.constraints import SumsTo
    >>> from ldpopt.losses import LeastSquares
    >>> join(Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)]), d=2, copies=3)
    Problem(LeastSquares(), [NonNegative(), Linear(<3 rows>)])
    """
    loss = problem.loss
    if isinstance(loss, WeightedLeastSquares):
        loss = WeightedLeastSquares(np.tile(loss.weights, copies))
    return Problem(loss, [_in_blocks(constraint, copies, d) for constraint in problem.constraints])


def _in_blocks(constraint: Constraint, copies: int, d: int) -> Constraint:
    """Return a constraint on every block: bounds as bounds, everything else by its rows."""
    if isinstance(constraint, NonNegative):
        return constraint
    if (box := constraint.box(d)) is not None:
        return Bounds(np.tile(box[0], copies), np.tile(box[1], copies))
    rows = constraint.rows(d)
    assert rows is not None  # what is compared has them
    matrix = sparse.kron(sparse.eye_array(copies), rows.matrix, format="csr")
    return Linear(matrix, np.tile(rows.lower, copies), np.tile(rows.upper, copies))


def batches(instance: Instance) -> list[Instance]:
    """Return a stack as vectors end to end, as many to one as the length allows; a rest that fills none is left out."""
    n, protocol = instance.estimate.noise
    d = protocol.d
    copies = _LENGTH // d
    rows = instance.estimate.frequencies
    return [
        Instance(
            instance.name,
            instance.kind,
            FrequencyEstimate(
                rows[start : start + copies].reshape(1, -1), n, _protocol(protocol, copies * d)
            ),
            joined=copies,
        )
        for start in range(0, len(rows) - copies + 1, copies)
    ]


def _protocol(protocol: PureProtocol, d: int) -> PureProtocol:
    return PureProtocol(protocol.epsilon, d, p=protocol.p, q=protocol.q)


def by_block(
    closed_form: Callable[[FrequencyEstimate], Array], d: int
) -> Callable[[FrequencyEstimate], Array]:
    """Return a closed form of vectors of d values as one of vectors end to end."""

    def solve(estimate: FrequencyEstimate) -> Array:
        n, protocol = estimate.noise
        rows = FrequencyEstimate(estimate.frequencies.reshape(-1, d), n, _protocol(protocol, d))
        return closed_form(rows).reshape(estimate.frequencies.shape)

    return solve
