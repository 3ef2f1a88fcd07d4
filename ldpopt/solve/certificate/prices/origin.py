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
from ldpopt.constraints import LinearInequalities
from ldpopt.constraints.base import kept_rows
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.expanded import ExpandedSquares
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.bounds.exact_sums import (
    column_totals,
    product_total,
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
    """L' about one point f, and an upper bound of p·(E f - b), of either sign."""

    loss: ExpandedSquares
    excess: float


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


def restated(
    formulation: Formulation, start: FrequencyEstimate, f: Array, price: Array | None
) -> Restated | None:
    """Return L' of a squared distance about one point; None where the set states no equations.

    Parameters
    ----------
    formulation, start, f
        The problem, the estimate and the point, of one trial.
    price
        That of the total where it is the only equation; None to look for those of all equations.
    """
    equations = _equations(formulation, len(f))
    if equations is None:
        return None
    if price is None:
        lower, upper = formulation.box(len(f))
        weights = np.where((lower < f) & (f < upper), 1.0, _HELD)
        slope = formulation.loss.gradient(f, start)
        prices = usable(least_squares(equations.matrix, slope, weights))
    else:
        prices = np.atleast_1d(price)
    excess = _excess(equations, prices, f)
    slope, error = _slopes(formulation.loss, start, f, equations.matrix, prices)
    if not (np.isfinite(excess) and np.isfinite(error).all()):
        return None
    return Restated(ExpandedSquares(f, slope, error, formulation.loss.square_weights), excess)


def _equations(formulation: Formulation, d: int) -> LinearInequalities | None:
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
    right = np.concatenate(ends)
    return LinearInequalities(sparse.vstack(matrices).tocsr(), right, right)


def _excess(equations: LinearInequalities, prices: Array, f: Array) -> float:
    """Return p·(E f - b), rounded up: a point that is off a row by its rounding pays its price."""
    beyond, error = row_totals(equations.matrix, f, -equations.lower)
    excess, further = product_total(prices, beyond)
    # Rows that are met exactly have no error but underflow.
    further += float(np.abs(prices) @ error) * (1 + (len(prices) + 2) * EPS)
    return excess + further


def _slopes(
    loss: Loss, start: FrequencyEstimate, f: Array, matrix: Any, prices: Array
) -> tuple[Array, Array]:
    """Return w (f - f̃) - Eᵀp, each the exact number rounded once, and bounds of the errors."""
    from scipy import sparse

    d = len(f)
    away, lost = two_sum(f, -loss.data(start)[0])
    weights = sparse.diags_array(np.broadcast_to(loss.square_weights, d))
    terms = sparse.vstack([weights, weights, matrix])
    return column_totals(terms, np.concatenate([away, lost, -prices]), np.zeros(d))
