"""Prices of many values that a few rows tie together: lower <= A f <= upper, a total among them.

At a minimum only rows that hold have a multiplier, and slopes of values between their bounds are
sums of these. So a system of as many unknowns as there are such rows tells them, a few times over
where values at bounds count too. Shorter vectors get a better gap from ``polyhedron``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import is_long, locked_rows, locked_vector
from ldpopt.constraints import Constraint
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.prices.variation_prices import Prices

Array = NDArray[np.float64]

# Rows that are held as a dense table.
_MOST_ROWS = 8

# A row within this of its bound, relative to the sizes of its terms, holds.
_NEAR = 1e-9

# Systems per point at most, and slopes that are met, relative to the largest.
_ROUNDS = 20
_MET = 1e-14

# Added to the diagonal, relative to its largest entry: rows may depend on each other.
_DAMPING = 1e-13


Vectors = tuple[Array, Array, Array, Array]
"""Slopes, the point and its bounds."""


class FewRows(NamedTuple):
    """lower <= A f <= upper with A dense, shape (m, d), and bounds of shape (m,)."""

    matrix: Array
    lower: Array
    upper: Array


def few_rows_of(tied: Sequence[Constraint], total: float | None, d: int) -> FewRows | None:
    """Return rows that are given one by one, and the total, of many values; else None.

    Any other constraint, more than ``_MOST_ROWS`` rows, or few values, are None.
    """
    if not is_long(d):
        return None
    given = [one.given_rows(d) for one in tied]
    parts = [rows for rows in given if rows is not None]
    totals = [] if total is None else [total]
    number = sum(len(one.lower) for one in parts) + len(totals)
    if len(parts) < len(tied) or number > _MOST_ROWS:
        return None
    matrix = np.concatenate([one.matrix.toarray() for one in parts] + [np.ones((len(totals), d))])
    lower = np.concatenate([*(one.lower for one in parts), totals])
    upper = np.concatenate([*(one.upper for one in parts), totals])
    return FewRows(locked_rows(matrix), lower, upper)


def row_prices(rows: FewRows, f: Array, slope: Array, bounds: Box) -> Prices:
    """Return the prices that explain the slopes as far as the rows can.

    Parameters
    ----------
    rows
        All that tie the values.
    f, slope
        Points and their gradients, shape (trials, d).
    bounds
        Of the values, of that shape too.

    Notes
    -----
    Cost: a reading of all for each of a few systems, and some five passes.
    """
    parts = [_of_point(rows, *vectors) for vectors in zip(f, slope, *bounds, strict=True)]
    price, error, products = (np.array(column) for column in zip(*parts, strict=True))
    return Prices(price, error, products)


def _of_point(
    rows: FewRows, f: Array, slope: Array, lower: Array, upper: Array
) -> tuple[Array, Array, float]:
    """Return price, error and products of one point."""
    from ldpopt.solve.certificate.prices import row_kernels

    point = locked_vector(f)
    ends = (locked_vector(lower), locked_vector(upper))
    vectors = (locked_vector(slope), point, *ends)
    totals, sizes = row_kernels.sums_of_rows(rows.matrix, point)
    near = _NEAR * np.maximum(sizes, 1.0)
    at_lower = totals - rows.lower <= near
    at_upper = rows.upper - totals <= near
    holding = np.flatnonzero(at_lower | at_upper)
    multipliers = np.zeros(len(totals))
    multipliers[holding] = _explaining(locked_rows(rows.matrix[holding]), vectors)
    # A multiplier pushes away from its bound: the other sign would be charged for the other bound.
    lowest = np.where(at_upper, -np.inf, 0.0)
    highest = np.where(at_lower, np.inf, 0.0)
    multipliers = usable(np.clip(multipliers, lowest, highest))
    price = multipliers @ rows.matrix
    error = (len(totals) + 2) * EPS * (np.abs(multipliers) @ np.abs(rows.matrix))
    # Sums of blocks of values, and the sum over the blocks.
    block = row_kernels.BLOCK
    additions = min(block, len(f)) + len(f) // block + 4
    rounding = additions * EPS * sizes
    slack = np.where(multipliers > 0, totals - rows.lower, rows.upper - totals)
    # An infinite bound has no multiplier: infinity times 0 is not a number.
    slack = np.where(multipliers == 0, 0.0, np.abs(slack))
    charged = np.where(multipliers > 0, rows.lower, rows.upper)
    rounding = rounding + EPS * np.where(multipliers == 0, 0.0, np.abs(charged))
    products = float(np.sum(np.abs(multipliers) * (slack + rounding)))
    return price, error, products * (1 + (len(totals) + 4) * EPS)


def _explaining(matrix: Array, vectors: Vectors) -> Array:
    """Return multipliers of rows whose sums explain the slopes that count: Newton's steps."""
    from ldpopt.solve.certificate.prices.row_kernels import left_over

    multipliers = np.zeros(len(matrix))
    extremes = np.array([vectors[0].min(), vectors[0].max()])
    # An infinite slope leaves nothing to solve.
    if not len(matrix) or not np.isfinite(extremes).all():
        return multipliers
    tolerance = _MET * float(np.abs(extremes).max())
    before = np.inf
    # Values between their bounds alone first: mostly what explains them suits all others.
    counted = np.inf
    for _ in range(_ROUNDS):
        normal, moment, missed = left_over(matrix, vectors, multipliers, counted)
        if counted < np.inf and (missed <= tolerance or missed >= before):
            break
        diagonal = np.einsum("ii->i", normal)
        diagonal += _DAMPING * max(float(diagonal.max()), 1.0)
        multipliers = multipliers + np.linalg.solve(normal, moment)
        before = missed if counted < np.inf else np.inf
        counted = tolerance
    return multipliers
