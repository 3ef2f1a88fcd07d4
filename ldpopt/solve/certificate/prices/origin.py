"""A squared distance to a far estimate, restated without the digits that are lost beside it.

Let E s = b be the equations of a set: its total, and rows whose two ends are equal. For any prices
p, the loss

    L'(s) = L(s) - p·(E s - b)

is L itself on the set, and at any f

    L(f) - min L = L'(f) - min L' + p·(E f - b).

Beside an estimate of 10¹² the slopes f - f̃ are of this size too, and doubles there are 10⁻⁴ apart.
What they have in common the equations pay for. So with the multipliers of E at the point as prices,
the slopes of L' are of the size of the frequencies. They are f - f̃ - Eᵀp, rounded once, and what
is certified is L'. This is the origin by which closed forms shift estimates, as one number per
equation. Prices need not be right: the certificate of L' has multipliers of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum
from ldpopt.constraints.base import kept_rows
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.expanded import ExpandedSquares
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.bounds.exact_sums import (
    column_totals,
    product_total,
    row_totals,
    two_sum,
)
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# How far slopes are above the size of frequencies before an origin is looked for: with less, their
# rounding costs below 1e-10 of the square of that size.
_FAR = 1e3


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
    return np.asarray(terms > _FAR * np.max(loss.square_weights) * size**2)


def restated(
    formulation: Formulation,
    start: FrequencyEstimate,
    f: Array,
    of_total: Array,
    of_rows: Array,
    row_sizes: tuple[int | None, ...],
) -> Restated | None:
    """Return L' of a squared distance; None where the set states no equations.

    Parameters
    ----------
    formulation
        The loss and the set.
    start, f
        The estimate and the point, of one trial.
    of_total, of_rows, row_sizes
        Multipliers there as an ``Explanation`` has them, which are the prices.
    """
    equations = _equations(formulation, len(f), of_total, of_rows, row_sizes)
    if equations is None:
        return None
    matrix, right, prices = equations
    excess = _excess(matrix, right, prices, f)
    slope, error = _slopes(formulation, start, f, matrix, prices)
    if not (np.isfinite(excess) and np.isfinite(error).all()):
        return None
    loss = ExpandedSquares(f, slope, error, formulation.loss.square_weights)
    return Restated(loss, excess)


def _equations(
    formulation: Formulation,
    d: int,
    of_total: Array,
    of_rows: Array,
    row_sizes: tuple[int | None, ...],
) -> tuple[Any, Array, Array] | None:
    """Return E, b and the multipliers of E; None without equations."""
    from scipy import sparse

    region = formulation.region(d)
    matrices = []
    right = []
    prices = []
    if region.total is not None:
        matrices.append(sparse.csr_array(np.ones((1, d))))
        right.append(np.array([region.total]))
        # The total's multiplier has the other sign.
        prices.append(-np.ravel(of_total))
    first = 0
    for constraint, count in zip(region.tied, row_sizes, strict=False):
        multipliers = of_rows[first : first + (count or 0)]
        first += len(multipliers)
        rows = kept_rows(constraint, d)
        if rows is None or rows.auxiliary is not None or len(rows.lower) != len(multipliers):
            continue
        held = np.flatnonzero((rows.lower == rows.upper) & (multipliers != 0))
        matrices.append(rows.matrix.tocsr()[held])
        right.append(rows.lower[held])
        prices.append(multipliers[held])
    if not matrices:
        return None
    return sparse.vstack(matrices), np.concatenate(right), usable(np.concatenate(prices))


def _excess(matrix: Any, right: Array, prices: Array, f: Array) -> float:
    """Return p·(E f - b), rounded up: a point that is off a row by its rounding pays its price."""
    beyond, error = row_totals(matrix, f, -right)
    excess, further = product_total(prices, beyond)
    # Rows that are met exactly have no error but underflow.
    further += float(np.abs(prices) @ error) * (1 + (len(prices) + 2) * EPS)
    return excess + further


def _slopes(
    formulation: Formulation, start: FrequencyEstimate, f: Array, matrix: Any, prices: Array
) -> tuple[Array, Array]:
    """Return w (f - f̃) - Eᵀp, each the exact number rounded once, and bounds of the errors."""
    from scipy import sparse

    loss = formulation.loss
    d = len(f)
    away, lost = two_sum(f, -loss.data(start)[0])
    weights = sparse.diags_array(np.broadcast_to(loss.square_weights, d))
    terms = sparse.vstack([weights, weights, matrix])
    return column_totals(terms, np.concatenate([away, lost, -prices]), np.zeros(d))
