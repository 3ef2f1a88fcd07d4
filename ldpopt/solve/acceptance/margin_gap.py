"""An upper bound of a gap on tables with known margins and no bounds, from means of the slopes.

It is meant for acceptance, as ``quick_gap`` is: rounding is not charged. With the gradient g and
the strong convexity m of the loss at f, one multiplier λ per known sum, and r = g - Σ λ over the
sums that a cell is in,

    L(f) - L(s) <= g·(f - s) - m/2 ‖f - s‖² <= ‖r‖²/(2 m) + Σ λ (what f misses of the sum)

for all s that meet the sums. At a minimum r is 0: ``margin_prices`` has the λ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import count_of_parts
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.acceptance.quick_gap import inner, slope_and_product, smallest
from ldpopt.solve.certificate.bounds.evidence import Measured, SizedGap
from ldpopt.solve.certificate.prices.margin_prices import margins_of, multipliers_of
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]


def margin_gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for other sets, and without strong convexity.

    Parameters
    ----------
    formulation
        A smooth loss on a table with known margins.
    start
        The estimate.
    point
        f, of the estimate's shape.

    Notes
    -----
    Cost: the gradient, and three passes per margin. The violation of each comes with it.
    """
    loss = formulation.loss
    margins = margins_of(formulation.constraints, start.d)
    if margins is None or loss.smooth_part is not loss:
        return None
    modulus = smallest(loss.curvature(start))
    sloped = None if modulus <= 0 else slope_and_product(loss, start, point)
    if sloped is None:
        return None
    slope, rise, _ = sloped
    if not np.isfinite(rise).all():
        return None
    tables = margins.tables(point)
    slopes = margins.tables(slope)
    multipliers = multipliers_of(margins, slopes)
    paid = np.zeros(point.shape[:-1])
    axes_of_table = tuple(range(point.ndim - 1, tables.ndim))
    measured = []
    # Each constraint states one margin.
    for constraint, margin, of_margin in zip(
        formulation.constraints, margins.margins, multipliers, strict=True
    ):
        missed = margins.sums(tables, margin.axes) - margin.sums
        paid += np.sum(of_margin * missed, axis=axes_of_table)
        # A constraint that states bounds as well may be violated by these too.
        if constraint.box(start.d) is None:
            measured.append(Measured(constraint, np.abs(missed).max(axis=axes_of_table)))
    gap = paid + _squares_left(slopes, multipliers, len(axes_of_table)) / (2 * modulus)
    return SizedGap(np.maximum(gap, 0.0), np.abs(rise), tuple(measured))


def _squares_left(slopes: Array, multipliers: Sequence[Array], rank: int) -> Array:
    """Return Σ r² of what multipliers leave of the slopes of tables with so many axes, (...).

    The slopes are overwritten.
    """
    result = np.zeros(slopes.shape[:-rank])
    along = slopes.shape[-rank]
    length = -(-along // count_of_parts(slopes.size))
    # In slices of the first axis, which stay in the caches while the multipliers are taken off.
    for first in range(0, along, length):
        part: Any = (..., slice(first, first + length), *[slice(None)] * (rank - 1))
        left = slopes[part]
        for one in multipliers:
            left -= one if one.shape[-rank] == 1 else one[part]
        squares = left.reshape(*result.shape, -1)
        result += inner(squares, squares)
    return result
