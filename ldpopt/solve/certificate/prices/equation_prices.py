"""Prices of values where a few linear equations tie them, such as two margins of a table.

At a minimum the slope of every value between its bounds is the sum of the multipliers of its
equations, and that of a value at a bound is at least, or at most, that sum. So multipliers follow
from the slopes by least squares of what is missed, mostly with one system of as many unknowns as
there are equations; where all values of an equation are at bounds it takes a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, SumsTo
from ldpopt.constraints.base import kept_rows
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.bounds.exact_sums import row_totals
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.prices.variation_prices import Prices

Array = NDArray[np.float64]

# The system is dense: beyond this many equations programs are faster.
MOST_EQUATIONS = 500

# Added to the diagonal, relative to its largest entry: equations may depend on each other, as the
# margins of a table do, which have the same total.
_DAMPING = 1e-13

# Systems per point at most. The second takes what damping and rounding have left of the first.
_ROUNDS = 20

# Slopes that are missed by so little, relative to the largest, are met.
_MET = 1e-14


# Sums over so many values are rounded once; that takes a hundred times as long as to add them up.
_SHORT = 2**13


class Equations(NamedTuple):
    """A f = b, with A sparse of shape (m, d)."""

    matrix: Any
    right: Array


def equations_of(constraints: Sequence[Constraint], d: int) -> Equations | None:
    """Return the equations that constraints state; None where one states anything else.

    A constraint without rows, and more than ``MOST_EQUATIONS`` equations, are None too.
    """
    from scipy import sparse

    stated = []
    for constraint in constraints:
        total = constraint.total(d)
        rows = SumsTo(total).rows(d) if total is not None else kept_rows(constraint, d)
        if rows is None or rows.auxiliary is not None or not rows.lower.size:
            return None
        if not np.array_equal(rows.lower, rows.upper):
            return None
        stated.append(rows)
    if not stated or sum(len(rows.lower) for rows in stated) > MOST_EQUATIONS:
        return None
    matrix = sparse.vstack([rows.matrix for rows in stated], format="csr")
    return Equations(matrix, np.concatenate([rows.lower for rows in stated]))


def equation_prices(equations: Equations, f: Array, slope: Array, bounds: Box) -> Prices:
    """Return the prices that explain the slopes as far as equations can.

    Parameters
    ----------
    equations
        All that tie the values, a total among them.
    f, slope
        Points and their gradients, shape (trials, d).
    bounds
        Of the values, of that shape too.
    """
    matrix, right = equations
    multipliers = np.array(
        [
            _explaining(matrix, of_slope, point > lower, point < upper)
            for point, of_slope, lower, upper in zip(f, slope, *bounds, strict=True)
        ]
    )
    multipliers = usable(multipliers.reshape(len(f), len(right)))
    sizes = abs(matrix)
    price = (matrix.T @ multipliers.T).T
    # Each price is a sum over the equations of its value.
    per_value = np.bincount(matrix.indices, minlength=matrix.shape[1]) + 4
    error = EPS * per_value * (sizes.T @ np.abs(multipliers).T).T
    missed, rounding = _missed(equations, f)
    products = np.sum(np.abs(multipliers) * (np.abs(missed) + rounding), axis=-1)
    return Prices(price, error, products * (1 + (len(right) + 4) * EPS))


def _missed(equations: Equations, f: Array) -> tuple[Array, Array]:
    """Return by how much points miss the equations, and bounds of the errors, (trials, m) each."""
    matrix, right = equations
    # A gap is at rounding level where these sums are rounded once.
    if f.shape[-1] <= _SHORT:
        of_points = [row_totals(matrix, point, -right) for point in f]
        missed, errors = zip(*of_points, strict=True)
        return np.array(missed), np.array(errors)
    # Each is a sum over the values of an equation.
    per_equation = np.diff(matrix.indptr) + 4
    sizes = (abs(matrix) @ np.abs(f).T).T + np.abs(right)
    return (matrix @ f.T).T - right, EPS * per_equation * sizes


def _explaining(matrix: Any, slope: Array, may_fall: Any, may_rise: Any) -> Array:
    """Return multipliers of one point whose sums explain the slopes.

    What a slope misses by counts where the value could move to where the loss is less. Half the
    squares of that are convex and quadratic in pieces: these are Newton's steps.
    """
    multipliers = np.zeros(matrix.shape[0])
    # An infinite slope leaves nothing to solve.
    if not np.isfinite(slope).all():
        return multipliers
    columns = matrix.tocsc()
    left = slope
    is_free = may_fall & may_rise
    tolerance = _MET * float(np.max(np.abs(slope), initial=0.0))
    counts: Any = None
    before = np.inf
    for _ in range(_ROUNDS):
        # Values between their bounds always count. First they count alone: mostly what explains
        # them suits all others, of which only those count that a move would gain something.
        now = is_free
        if counts is not None:
            now = (may_fall & (left > tolerance)) | (may_rise & (left < -tolerance)) | is_free
        missed = float(np.max(np.abs(left), initial=0.0, where=now))
        is_settled = counts is not None and np.array_equal(counts, now)
        if missed <= tolerance or (is_settled and missed > before / 2):
            break
        if not is_settled:
            counts = now
            part = columns[:, np.flatnonzero(counts)]
            gram = (part @ part.T).toarray()
            diagonal = np.einsum("ii->i", gram)
            diagonal += _DAMPING * max(float(diagonal.max(initial=0.0)), 1.0)
        multipliers += np.linalg.solve(gram, part @ left[counts])
        left = slope - matrix.T @ multipliers
        before = missed
    return multipliers
