"""Prices of the cells of a table whose margins are known, with no bounds beside them.

At a minimum slopes are a sum of one multiplier per known sum, which the means of the slopes tell,
margin after margin, as ``closed_form.with_margins`` finds the minimum itself. There is no system to
solve, however many sums there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import KnownMargins, Margin
from ldpopt.closed_form.parts import absolute_sum
from ldpopt.constraints import Constraint
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.prices.variation_prices import Prices

Array = NDArray[np.float64]


def margins_of(constraints: Sequence[Constraint], d: int | None) -> KnownMargins | None:
    """Return the margins of one table that constraints state; None where one states anything else.

    The total of all cells is the margin of no axes.
    """
    of_each = [one.margins for one in constraints]
    shapes = {margins.shape for margins in of_each if margins is not None}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    margins: list[Margin] = []
    for one, of_one in zip(constraints, of_each, strict=True):
        if of_one is not None:
            margins += of_one.margins
            continue
        total = one.total(d)
        if total is None:
            return None
        margins.append(Margin((), np.full([1] * len(shape), total)))
    return KnownMargins(shape, tuple(margins))


def margin_prices(margins: KnownMargins, f: Array, slope: Array) -> Prices:
    """Return the prices that explain the slopes as far as margins can.

    Parameters
    ----------
    margins
        All that ties the cells.
    f, slope
        Points and their gradients, shape (trials, d).

    Notes
    -----
    Cost: three passes, and one per margin.
    """
    tables = margins.tables(f)
    mass = absolute_sum(f)
    multipliers = multipliers_of(margins, margins.tables(slope))
    price: Array = np.zeros((len(f), *[1] * len(margins.shape)))
    error = np.zeros(len(f))
    products = np.zeros(len(f))
    for (axes, sums), of_margin in zip(margins.margins, multipliers, strict=True):
        price = price + of_margin
        flat = np.abs(of_margin).reshape(len(f), -1)
        largest = flat.max(axis=-1)
        error += (len(margins.margins) + 1) * EPS * largest
        missed = np.abs(margins.sums(tables, axes) - sums) + EPS * np.abs(sums)
        product = np.sum(flat * missed.reshape(len(f), -1), axis=-1)
        # Each cell is in one sum of so many cells.
        rounding = (margins.cells_per_sum(axes) + 4) * EPS * largest * mass
        products += (product + rounding) * (1 + (flat.shape[-1] + 8) * EPS)
    price = np.broadcast_to(price, tables.shape)
    return Prices(price.reshape(f.shape), error[:, None], products)


def multipliers_of(margins: KnownMargins, slope: Array) -> list[Array]:
    """Return the multipliers of each margin: means of the slopes that those before have left.

    What these take from a mean follows from their own sums, with no further look at the cells.
    """
    multipliers: list[Array] = []
    for axes, _ in margins.margins:
        left = margins.sums(slope, axes)
        for before, (others, _) in zip(multipliers, margins.margins, strict=False):
            shared = margins.cells_per_overlap(axes, others)
            left = left - shared * margins.sums(before, axes)
        multipliers.append(usable(left / margins.cells_per_sum(axes)))
    return multipliers
