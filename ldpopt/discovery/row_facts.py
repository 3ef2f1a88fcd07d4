"""What linear rows state: bounds, a total, groups with totals, orders and ties.

A constraint of cvxpy is a list of rows too, if it is linear: its coefficients are those of the
expression at unit vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, Custom, LinearInequalities
from ldpopt.constraints.custom import StatedConstraint

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
    lower = np.full(d, -np.inf)
    upper = np.full(d, np.inf)
    total: float | None = None
    groups: list[tuple[Index, float]] = []
    above: list[tuple[int, int]] = []
    equal: list[tuple[int, int]] = []
    for constraint in constraints:
        for members, factors, low, high in _rows(constraint, d):
            if len(members) == 1:
                ends = np.sort([low / factors[0], high / factors[0]])
                lower[members] = np.maximum(lower[members], ends[0])
                upper[members] = np.minimum(upper[members], ends[1])
            elif low == high and np.all(factors == factors[0]):
                if len(members) == d:
                    total = low / factors[0]
                else:
                    groups.append((members, low / factors[0]))
            elif len(members) == 2 and factors[0] == -factors[1]:
                first, second = (int(v) for v in members[np.argsort(-factors)])
                if low == high == 0:
                    equal.append((first, second))
                elif low == 0:
                    above.append((first, second))
                elif high == 0:
                    above.append((second, first))
    return RowFacts(lower, upper, total, groups, _pairs(above), _pairs(equal))


def _pairs(pairs: list[tuple[int, int]]) -> Index:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _rows(constraint: Constraint, d: int) -> list[tuple[Index, Array, float, float]]:
    """Return members, factors and bounds of each row; nothing for bounds, and for curved sets."""
    rows = None if constraint.box(d) is not None else rows_of(constraint, d)
    if rows is None:
        return []
    matrix = rows.matrix.tocsr()
    result = []
    for row in range(matrix.shape[0]):
        entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
        factors = matrix.data[entries]
        members = matrix.indices[entries][factors != 0].astype(np.int64)
        if len(members):
            low = float(rows.lower[row])
            high = float(rows.upper[row])
            result.append((members, factors[factors != 0], low, high))
    return result


def rows_of(constraint: Constraint, d: int) -> LinearInequalities | None:
    """Return a constraint as rows in f alone, cvxpy's too; None if it is no such set."""
    is_custom = isinstance(constraint, Custom | StatedConstraint)
    rows = _linear_rows(constraint, d) if is_custom else constraint.rows(d)
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
