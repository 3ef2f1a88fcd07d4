"""The rows of a problem: everything that is neither a bound nor curved, as one linear system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, LinearInequalities
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.certificate.competitors import propagated, reach
from ldpopt.solve.certificate.cone import linear_rows
from ldpopt.solve.certificate.forests import Forest, bounds_along, forest_of
from ldpopt.solve.certificate.intervals import Box
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.programs import stacked

Array = NDArray[np.float64]


class Rows(NamedTuple):
    """All rows that are not bounds, over (f, auxiliary variables), and bounds of these.

    Attributes
    ----------
    system
        lower <= A x <= upper, with the columns of f first.
    limits
        Bounds of x.
    members
        The constraints in the order of their rows; None stands for the total, which is the first.
    sizes
        How many rows each has.
    forest
        The forest that all rows but the total's make, or None.
    """

    system: LinearInequalities
    limits: Box
    members: list[Constraint | None]
    sizes: list[int]
    forest: Forest | None

    @property
    def has_total(self) -> bool:
        """Whether the first row is that of the total."""
        return bool(self.members) and self.members[0] is None


class RowsOfTrials:
    """The rows of a problem for one estimate after the other.

    What the estimates have in common is computed once: all but the bounds.

    Parameters
    ----------
    formulation
        A problem whose convex constraints are bounds, a total, or rows.
    d
        How many values there are.
    """

    def __init__(self, formulation: Formulation, d: int) -> None:
        self._region = formulation.region(d)
        parts = _parts(formulation.convex_constraints, self._region.total, d)
        self.is_polyhedron = parts is not None
        if parts is None:
            return
        inequalities = [part for _, part in parts]
        self._d = d
        self._system = stacked(inequalities, d)
        self._members = [member for member, _ in parts]
        self._sizes = [len(part.lower) for part in inequalities]
        first = int(self._region.total is not None)
        self._forest = forest_of(self._system.matrix[first:])
        self._stated: Box | None = None
        self._limits: Box | None = None

    def of(self, loss: Loss, estimate: FrequencyEstimate) -> Rows:
        """Return the rows with the bounds that a convex loss and one estimate leave."""
        limits = self._propagated(reach(loss, estimate, self._region))
        return Rows(self._system, limits, self._members, self._sizes, self._forest)

    def _propagated(self, stated: Box) -> Box:
        """Return bounds of all variables, those of the last trial if the same are stated."""
        before = self._stated
        if self._limits is None or before is None or not _are_equal(stated, before):
            values = Box(*(np.broadcast_to(end, self._d) for end in stated))
            if self._forest is not None:
                first = len(self._system.lower) - np.count_nonzero(self._forest.has_row)
                values = bounds_along(self._forest, self._system, int(first), values)
            further = self._system.matrix.shape[1] - self._d
            self._limits = propagated(
                self._system,
                np.append(values.lower, np.full(further, -np.inf)),
                np.append(values.upper, np.full(further, np.inf)),
            )
            self._stated = stated
        return self._limits


def _are_equal(first: Box, second: Box) -> bool:
    return np.array_equal(first.lower, second.lower) and np.array_equal(first.upper, second.upper)


def _parts(
    members: Sequence[Constraint], total: float | None, d: int
) -> list[tuple[Constraint | None, LinearInequalities]] | None:
    """Return the rows of each constraint that is not bounds, and one for the total.

    None is returned where a constraint is not polyhedral. What cvxpy compiles to linear rows is.
    """
    from scipy import sparse

    parts: list[tuple[Constraint | None, LinearInequalities]] = []
    if total is not None:
        everything = sparse.csr_array(np.ones((1, d)))
        parts.append((None, LinearInequalities(everything, np.array([total]), np.array([total]))))
    for member in members:
        if not has_own_rows(member, d):
            continue
        rows = member.rows(d)
        if rows is None:
            rows = linear_rows(member, d)
        if rows is None:
            return None
        parts.append((member, rows))
    return parts


def has_own_rows(member: Constraint, d: int) -> bool:
    """Return whether a constraint's rows are neither the total nor bounds value by value."""
    return member.total(d) is None and member.box(d) is None
