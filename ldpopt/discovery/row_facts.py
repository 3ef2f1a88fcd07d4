"""What linear rows state: bounds, a total, groups with totals, orders and ties.

A constraint of cvxpy is a list of rows too, if it is linear: its coefficients are those of the
expression at unit vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, LinearInequalities

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class RowFacts(NamedTuple):
    """What the rows of some constraints state for d values.

    Attributes
    ----------
    lower, upper
        Bounds, shape (d,), infinite where no row states one.
    total
        The sum of all values, None if no row states it.
    groups
        Members and total of each group whose sum is stated.
    above, equal
        Pairs (a, b) with f[a] >= f[b], and with f[a] = f[b], shape (m, 2).
    """

    lower: Array
    upper: Array
    total: float | None
    groups: list[tuple[Index, float]]
    above: Index
    equal: Index


def row_facts(constraints: tuple[Constraint, ...], d: int) -> RowFacts:
    """Return what the rows of constraints state; rows of other kinds are passed over."""
    collected = _Collected(d)
    for constraint in constraints:
        for row in _rows(constraint, d):
            collected.add(row)
    return RowFacts(
        collected.lower,
        collected.upper,
        collected.total,
        collected.groups,
        _pairs(collected.above),
        _pairs(collected.equal),
    )


class _Row(NamedTuple):
    """low <= Σ factors · f[members] <= high, without factors of 0."""

    members: Index
    factors: Array
    low: float
    high: float


class _Collected:
    """The facts of the rows that were added so far; attributes are those of ``RowFacts``."""

    def __init__(self, d: int) -> None:
        self.d = d
        self.lower = np.full(d, -np.inf)
        self.upper = np.full(d, np.inf)
        self.total: float | None = None
        self.groups: list[tuple[Index, float]] = []
        self.above: list[tuple[int, int]] = []
        self.equal: list[tuple[int, int]] = []

    def add(self, row: _Row) -> None:
        """Add the fact that a row states, if it is of a kind that operators know."""
        if len(row.members) == 1:
            self._add_bound(row)
        elif row.low == row.high and np.all(row.factors == row.factors[0]):
            self._add_sum(row)
        elif len(row.members) == 2 and row.factors[0] == -row.factors[1]:
            self._add_pair(row)

    def _add_bound(self, row: _Row) -> None:
        factor = row.factors[0]
        # A negative factor turns the bounds over.
        low, high = np.sort([row.low / factor, row.high / factor])
        members = row.members
        self.lower[members] = np.maximum(self.lower[members], low)
        self.upper[members] = np.minimum(self.upper[members], high)

    def _add_sum(self, row: _Row) -> None:
        stated = row.low / row.factors[0]
        if len(row.members) == self.d:
            self.total = stated
        else:
            self.groups.append((row.members, stated))

    def _add_pair(self, row: _Row) -> None:
        # The row is a positive multiple of f[first] - f[second].
        first, second = (int(v) for v in row.members[np.argsort(-row.factors)])
        if row.low == row.high == 0:
            self.equal.append((first, second))
        elif row.low == 0:
            self.above.append((first, second))
        elif row.high == 0:
            self.above.append((second, first))


def _pairs(pairs: list[tuple[int, int]]) -> Index:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _rows(constraint: Constraint, d: int) -> list[_Row]:
    """Return the rows of a constraint; nothing for bounds, and for curved sets."""
    rows = None if constraint.box(d) is not None else rows_of(constraint, d)
    if rows is None:
        return []
    matrix = rows.matrix.tocsr()
    result = []
    for row in range(matrix.shape[0]):
        entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
        # A sparse matrix may store zeros.
        is_there = matrix.data[entries] != 0
        members = matrix.indices[entries][is_there].astype(np.int64)
        if len(members):
            factors = matrix.data[entries][is_there]
            result.append(_Row(members, factors, float(rows.lower[row]), float(rows.upper[row])))
    return result


def rows_of(constraint: Constraint, d: int) -> LinearInequalities | None:
    """Return a constraint as rows in f alone, cvxpy's too; None if it is no such set."""
    rows = _linear_rows(constraint, d) if constraint.is_cvxpy else constraint.rows(d)
    return None if rows is None or rows.auxiliary is not None else rows


def _linear_rows(constraint: Constraint, d: int) -> LinearInequalities | None:
    """Return a cvxpy constraint as rows; None if some part of it is not linear.

    Notes
    -----
    Cost: d + 1 evaluations of each expression.
    """
    import cvxpy as cp  # slow to import
    from scipy import sparse

    f = cp.Variable(d)
    matrices = []
    lowers = []
    uppers = []
    for form in constraint.cone_form(f):
        is_equality = isinstance(form, cp.constraints.Zero | cp.constraints.Equality)
        is_inequality = isinstance(form, cp.constraints.Inequality)
        if not (is_equality or is_inequality) or not form.expr.is_affine():
            return None
        f.value = np.zeros(d)
        constant = np.ravel(form.expr.value)
        columns = np.empty((len(constant), d))
        for v in range(d):
            f.value = np.eye(1, d, v).ravel()
            columns[:, v] = np.ravel(form.expr.value) - constant
        matrices.append(columns)
        # cvxpy writes "<= 0": the constant goes to the other side.
        uppers.append(-constant)
        lowers.append(-constant if is_equality else np.full(len(constant), -np.inf))
    if not matrices:
        return None
    return LinearInequalities(
        sparse.csr_array(np.concatenate(matrices)), np.concatenate(lowers), np.concatenate(uppers)
    )
