"""A squared distance to a far estimate, restated without the digits that are lost beside it.

Let E s = b be the equations of a set: its total, and rows whose two ends are equal. For any prices
p, the loss

    L'(s) = L(s) - p·(E s - b)

is L itself on the set, and at any f

    L(f) - min L = L'(f) - min L' + p·(E f - b).

Beside an estimate of 10¹² the slopes f - f̃ are of this size too, and doubles there are 10⁻⁴ apart.
What they have in common the equations pay for. So with prices that explain the slopes of values
between their bounds, those of L' are of the size of the frequencies: f - f̃ - Eᵀp, rounded once.
What is certified is L'. This is the origin by which closed forms shift estimates, as one number per
equation. Prices need not be right: the certificate of L' has multipliers of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum
from ldpopt.constraints.base import kept_rows
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.expanded import ExpandedSquares
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.bounds.exact_sums import (
    column_totals,
    product_totals,
    row_totals,
    two_sum,
)
from ldpopt.solve.certificate.prices.active_rows import least_squares
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# How far slopes are above the size of frequencies before an origin is looked for: with less, their
# rounding costs below 1e-10 of the square of that size.
_FAR = 1e3

# Weight of the slope of a value that a bound holds, beside 1: the bound may explain any part of it.
_HELD = 1e-12


class Restated(NamedTuple):
    """L' about points f of shape (..., d), and upper bounds of p·(E f - b), of either sign."""

    loss: ExpandedSquares
    excess: Array


def is_far(formulation: Formulation, point: Array, terms: Array) -> NDArray[np.bool_]:
    """Return for which trials a squared distance is to a far estimate, given Σ |g_v f_v|.

    Nowhere for other losses.
    """
    loss = formulation.loss
    if not loss.is_square:
        return np.zeros(terms.shape, dtype=np.bool_)
    # A total is at most Σ |f_v|, and takes no look at the point.
    size = abs(formulation.region(point.shape[-1]).total or 0.0) or absolute_sum(point)
    return np.asarray(terms > _FAR * np.max(loss.square_weights) * size * size)


class Equations(NamedTuple):
    """The equations E s = b of a set, with E compressed by rows and by columns."""

    rows: Any
    columns: Any
    right: Array


def equations_of(formulation: Formulation, d: int) -> Equations | None:
    """Return the total and the rows whose two ends are equal; None without any."""
    from scipy import sparse

    region = formulation.region(d)
    matrices = []
    ends = []
    if region.total is not None:
        matrices.append(sparse.csr_array(np.ones((1, d))))
        ends.append(np.array([region.total]))
    for constraint in region.tied:
        rows = None if constraint.ball is not None else kept_rows(constraint, d)
        if rows is None or rows.auxiliary is not None:
            continue
        held = np.flatnonzero(rows.lower == rows.upper)
        if len(held):
            matrices.append(rows.matrix.tocsr()[held])
            ends.append(rows.lower[held])
    if not matrices:
        return None
    stacked = sparse.vstack(matrices).tocsr()
    return Equations(stacked, stacked.tocsc(), np.concatenate(ends))


def restated(
    formulation: Formulation,
    start: FrequencyEstimate,
    f: Array,
    equations: Equations,
    prices: Array | None,
) -> Restated:
    """Return L' of a squared distance about the points of one trial or several.

    Parameters
    ----------
    formulation, start, f
        The problem, the estimate and the points, shape (..., d).
    equations
        Those of the set.
    prices
        Those of the equations, shape (..., m); None to look for those of one trial.

    Returns
    -------
    The loss, and an excess that is infinite where numbers are lost.
    """
    if prices is None:
        lower, upper = formulation.box(len(f))
        weights = np.where((lower < f) & (f < upper), 1.0, _HELD)
        slope = formulation.loss.gradient(f, start)
        prices = usable(least_squares(equations.rows, slope, weights))
    excess = _excess(equations, prices, f)
    slope, error = _slopes(formulation.loss, start, f, equations, prices)
    is_finite = np.isfinite(excess) & np.isfinite(error).all(axis=-1)
    # A trial without an origin leaves the others as they are.
    kept = is_finite[..., None]
    slope = np.where(kept, slope, 0.0)
    error = np.where(kept, error, 0.0)
    loss = ExpandedSquares(f, slope, error, formulation.loss.square_weights)
    return Restated(loss, np.where(is_finite, excess, np.inf))


def _excess(equations: Equations, prices: Array, f: Array) -> Array:
    """Return p·(E f - b), rounded up: a point that is off a row by its rounding pays its price."""
    right = np.broadcast_to(equations.right, prices.shape)
    beyond, error = row_totals(equations.rows, f, -right)
    excess, further = product_totals(prices, beyond)
    # Rows that are met exactly have no error but underflow.
    further += np.sum(np.abs(prices) * error, axis=-1) * (1 + (prices.shape[-1] + 2) * EPS)
    return excess + further


def _slopes(
    loss: Loss, start: FrequencyEstimate, f: Array, equations: Equations, prices: Array
) -> tuple[Array, Array]:
    """Return w (f - f̃) - Eᵀp, each the exact number rounded once, and bounds of the errors."""
    weights = np.broadcast_to(loss.square_weights, f.shape)
    # The difference itself is two numbers, what is rounded and what that loses.
    of_values = [(weights, part) for part in two_sum(f, -loss.data(start)[0])]
    return column_totals(equations.columns, -prices, np.zeros(f.shape), of_values)
