"""Multipliers of orders, without a program: rows c (f_i - f_j) whose pairs make a forest.

A row between a value and the one above it is the only way out of what hangs below that value. So
the conditions g = λ + Aᵀν at a minimum say what goes through each row: the sum of g - λ below it.
Where λ is 0 this is one number, as in a pooled block between its bounds. Where values are at their
bounds λ has a sign and no size, and what goes through a row is a range; the ranges of all rows
follow from the leaves upwards, and numbers within them from the roots downwards.

This is what pooling does to multipliers: on a chain the numbers are prefix sums (Best and
Chakravarti 1990). With a total, its multiplier is the mean of g over all blocks that no bound
holds; with several rows beside the forest, theirs explain the sum of g in each such block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import LinearInequalities
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.prices.active_rows import least_squares, rows_at_bounds
from ldpopt.solve.certificate.prices.forest_loops import (
    carry_bounds,
    join_blocks,
    pass_down,
    pass_up,
    peel,
    run,
)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

# Distance at which a row or a bound holds. What goes through a row that does not hold after all
# costs this distance times a multiplier that is then about 0.
_NEAR = 1e-9


class Forest(NamedTuple):
    """Rows c (f_i - f_j) that tie each value to at most one above it.

    Attributes
    ----------
    order
        All values, each before the one above it.
    above
        The value above each; -1 for roots.
    row
        The number among all rows of the one that ties each value to that above it; -1 for roots.
    factor
        The coefficient c of the value in that row; 1 for roots.
    """

    order: Index
    above: Index
    row: Index
    factor: Array

    @property
    def has_row(self) -> Mask:
        """Which values have one above them."""
        return self.row >= 0


def forest_of(matrix: Any) -> Forest | None:
    """Return the forest of the rows of a sparse matrix that are differences.

    None is returned if no row is one, or if they make another graph. Cost: a few operations per
    value and row.
    """
    rows = matrix.tocsr()
    d = rows.shape[1]
    numbers = np.flatnonzero(np.diff(rows.indptr) == 2)
    first = rows.indptr[numbers]
    values = np.stack([rows.indices[first], rows.indices[first + 1]], axis=1).astype(np.int64)
    factors = np.stack([rows.data[first], rows.data[first + 1]], axis=1)
    # A difference, of two values: a row may name one value twice.
    is_difference = (factors[:, 0] == -factors[:, 1]) & (factors[:, 0] != 0)
    is_difference &= values[:, 0] != values[:, 1]
    numbers = numbers[is_difference]
    values = values[is_difference]
    factors = factors[is_difference]
    if not len(numbers):
        return None
    order, above, row = _peeled(values, d)
    tied = np.flatnonzero(row >= 0)
    if len(tied) < len(numbers):
        return None
    factor = np.ones(d)
    is_second = values[row[tied], 1] == tied
    factor[tied] = factors[row[tied], is_second.astype(np.int64)]
    row[tied] = numbers[row[tied]]
    return Forest(order, above, row, factor)


def _peeled(pairs: Index, d: int) -> tuple[Index, Index, Index]:
    """Return the order of values when leaves are taken away one by one, what is above, and rows.

    Values on a cycle are never leaves: their rows are missing from the result.
    """
    degrees = np.bincount(pairs.ravel(), minlength=d)
    neighbours = np.zeros(d, dtype=np.int64)
    rows = np.zeros(d, dtype=np.int64)
    numbers = np.arange(len(pairs))
    for one, other in ((0, 1), (1, 0)):
        np.bitwise_xor.at(neighbours, pairs[:, one], pairs[:, other])
        np.bitwise_xor.at(rows, pairs[:, one], numbers)
    order = np.empty(d, dtype=np.int64)
    above = np.full(d, -1)
    row = np.full(d, -1)
    run(peel, degrees, neighbours, rows, order, above, row)
    return order, above, row


def bounds_along(forest: Forest, system: LinearInequalities, bounds: Box) -> Box:
    """Return what an order makes of bounds: no value is above the bound of a value above it.

    Nothing is calculated, so that nothing is rounded. A round of general propagation would carry a
    bound one row further, and chains are long.

    Parameters
    ----------
    forest
        Of rows of the system.
    system
        All rows.
    bounds
        Bounds of all values, shape (d,).
    """
    lower = np.array(bounds.lower)
    upper = np.array(bounds.upper)
    at_lower = system.lower[forest.row] == 0
    at_upper = system.upper[forest.row] == 0
    is_turned = forest.factor < 0
    is_higher = forest.has_row & np.where(is_turned, at_upper, at_lower)
    is_lower = forest.has_row & np.where(is_turned, at_lower, at_upper)
    run(carry_bounds, forest.order, forest.above, is_higher, is_lower, lower, upper)
    return Box(lower, upper)


class Ranges(NamedTuple):
    """What rows may carry and bounds may take at a point; each end is 0 or infinite.

    Attributes
    ----------
    flow_low, flow_high
        Of the row above each value, as the value feels it: factor times multiplier.
    bound_low, bound_high
        Of the multiplier of each value's own bounds.
    """

    flow_low: Array
    flow_high: Array
    bound_low: Array
    bound_high: Array

    @property
    def is_tied(self) -> Mask:
        """Which values hang on the one above by a row that holds."""
        return (self.flow_low < 0) | (self.flow_high > 0)

    @property
    def is_held(self) -> Mask:
        """Which values a bound of their own holds."""
        return (self.bound_low < 0) | (self.bound_high > 0)


def flowing_multipliers(
    forest: Forest, f: Array, slope: Array, system: LinearInequalities, bounds: Box
) -> Array | None:
    """Return multipliers of all rows that explain a slope, or nearly so where none do.

    Parameters
    ----------
    forest
        Of some rows of the system.
    f, slope
        The point and the gradient there, shape (d,).
    system
        All rows, without auxiliary variables.
    bounds
        Bounds of the values that have multipliers.

    Returns
    -------
    Numbers of shape (rows,); None where other rows hold, and no block tells their multipliers, as
    every one is held by a bound.

    Notes
    -----
    Cost: a few operations per value and row of a forest, and a least-squares problem with one
    unknown per other row that holds.
    """
    at_bounds = rows_at_bounds(f, system, _NEAR)
    ranges = _ranges(forest, f, at_bounds, bounds)
    multipliers = _rows_beside(forest, ranges, slope, system, at_bounds)
    if multipliers is None:
        return None
    left = slope - system.matrix.T @ multipliers
    flows = carried(forest, ranges, left)
    tied = np.flatnonzero(forest.has_row)
    multipliers[forest.row[tied]] = flows[tied] / forest.factor[tied]
    return multipliers


def _rows_beside(
    forest: Forest,
    ranges: Ranges,
    slope: Array,
    system: LinearInequalities,
    at_bounds: tuple[Mask, Mask],
) -> Array | None:
    """Return multipliers of the rows that are not the forest's, with 0 for these.

    In a block that no bound holds, what goes through the rows of the forest cancels. So the
    multipliers of other rows explain the sum of the slopes in each such block; the weights make
    that of a total alone the mean slope.
    """
    from scipy import sparse

    multipliers = np.zeros(len(system.lower))
    is_held = at_bounds[0] | at_bounds[1]
    is_held[forest.row[forest.has_row]] = False
    numbers = np.flatnonzero(is_held)
    if not len(numbers):
        return multipliers
    blocks, is_free = _joined(forest, ranges)
    if not is_free.any():
        return None
    d = len(slope)
    sizes = np.bincount(blocks[is_free], minlength=d)
    sums = np.bincount(blocks[is_free], slope[is_free], minlength=d).astype(np.float64)
    weights = 1 / np.maximum(sizes, 1) * (sizes > 0)
    # Blocks that a bound holds have no weight.
    entries = system.matrix[numbers].tocoo()
    pooled = sparse.csr_array((entries.data, (entries.row, blocks[entries.col])), entries.shape)
    rising, falling = (mask[numbers] for mask in at_bounds)
    active = np.arange(len(numbers))
    while len(active):
        solved = least_squares(pooled[active], sums, weights)
        is_wrong = ((solved > 0) & ~rising[active]) | ((solved < 0) & ~falling[active])
        if not is_wrong.any():
            multipliers[numbers[active]] = solved
            break
        active = active[~is_wrong]
    return multipliers


def _ranges(forest: Forest, f: Array, at_bounds: tuple[Mask, Mask], bounds: Box) -> Ranges:
    """Return which rows and bounds may have multipliers, and of which sign."""
    at_lower, at_upper = at_bounds
    has_row = forest.has_row
    pushes_up = has_row & at_lower[forest.row]
    pushes_down = has_row & at_upper[forest.row]
    # A negative coefficient turns the sign of a multiplier around.
    is_turned = forest.factor < 0
    return Ranges(
        _end(np.where(is_turned, pushes_up, pushes_down), -np.inf),
        _end(np.where(is_turned, pushes_down, pushes_up), np.inf),
        _end(bounds.upper - f <= _NEAR, -np.inf),
        _end(f - bounds.lower <= _NEAR, np.inf),
    )


def _end(is_open: Mask, infinity: float) -> Array:
    return np.where(is_open, infinity, 0.0)


def free_values(forest: Forest, ranges: Ranges) -> Mask:
    """Return which values are in blocks that no bound holds."""
    return _joined(forest, ranges)[1]


def _joined(forest: Forest, ranges: Ranges) -> tuple[Index, Mask]:
    """Return the number of each value's block, and which values are in blocks no bound holds."""
    blocks = np.arange(len(forest.order))
    run(join_blocks, forest.order, forest.above, ranges.is_tied, blocks)
    is_held = np.zeros(len(blocks), dtype=bool)
    is_held[blocks[ranges.is_held]] = True
    return blocks, np.asarray(~is_held[blocks])


def carried(forest: Forest, ranges: Ranges, slope: Array) -> Array:
    """Return what each value passes to the one above it; 0 for roots.

    It is the slope of the value, minus the multiplier of its bounds, plus what it gets from below.
    """
    low = slope - ranges.bound_high
    high = slope - ranges.bound_low
    ends = (ranges.flow_low, ranges.flow_high)
    flow, received, missing = np.zeros((3, len(slope)))
    along = (forest.order, forest.above)
    run(pass_up, *along, low, high, *ends, flow, received)
    of_bounds = (ranges.bound_low, ranges.bound_high)
    run(pass_down, *along, slope, received, *of_bounds, *ends, flow, missing)
    return flow
