"""Least squares on tables with known margins: one shift per sum, margin after margin."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Axes = tuple[int, ...]


class Margin(NamedTuple):
    """Known sums of a table.

    Attributes
    ----------
    axes
        The axes that are kept, rising; none for the total of all cells.
    sums
        The sums, of the table's shape but for a length of 1 on all other axes.
    """

    axes: Axes
    sums: Array


class KnownMargins(NamedTuple):
    """Margins of one table whose cells run over its last axis fastest.

    Attributes
    ----------
    shape
        The lengths of the table's axes.
    margins
        What is known of it.
    """

    shape: tuple[int, ...]
    margins: tuple[Margin, ...]

    def tables(self, f: Array) -> Array:
        """Return vectors of cells, shape (..., d), as tables: a view if it can be."""
        return f.reshape(*f.shape[:-1], *self.shape)

    def sums(self, tables: Array, axes: Axes) -> Array:
        """Return what tables sum to over all axes but some, which keep the length 1."""
        rank = len(self.shape)
        # From the end: tables of a stack have further axes in front.
        others = tuple(axis - rank for axis in range(rank) if axis not in axes)
        return np.asarray(tables.sum(axis=others, keepdims=True)) if others else tables

    def cells_per_sum(self, axes: Axes) -> int:
        """Return how many cells are in each sum of the margin of some axes."""
        lengths = (length for axis, length in enumerate(self.shape) if axis not in axes)
        return int(np.prod([1, *lengths]))

    def group_of_cells(self, margin: Margin) -> NDArray[np.int64]:
        """Return for each cell the number of its sum in a margin, shape (d,)."""
        numbers = np.arange(margin.sums.size).reshape(margin.sums.shape)
        return np.broadcast_to(numbers, self.shape).ravel()

    def cells_per_overlap(self, axes: Axes, others: Axes) -> int:
        """Return how many cells each sum of one margin shares with each sum of another one."""
        return self.cells_per_sum(tuple({*axes, *others}))

    def conflicts(self, tolerance: float) -> Iterator[tuple[Margin, Margin, float]]:
        """Yield the pairs of margins whose own sums disagree on what both tell, and by how much."""
        for first, second in combinations(self.margins, 2):
            common = tuple(axis for axis in first.axes if axis in second.axes)
            apart = np.abs(self.sums(first.sums, common) - self.sums(second.sums, common))
            if apart.max() > tolerance:
                yield first, second, float(apart.max())


def with_margins(f: Array, margins: KnownMargins, density: Array | None = None) -> Array:
    """Return the table with known margins that is nearest to f.

    The nearest table with one margin has a shift of its cells for each sum, r_g/|g| with r_g what
    the sum of group g misses. Functions of some axes and of others are orthogonal but for what both
    tell, so that to meet a margin keeps all that were met before: one shift per margin is the
    projection on all of them. Of a table of I rows and J columns it is f + r_i/J + c_j/I - t/(IJ),
    main effects, while interactions stay.

    Parameters
    ----------
    f
        Cells, shape (..., d).
    margins
        Known ones that agree with each other; otherwise the last one is met.
    density
        Where distances have weights, their inverses, shape (d,): products of one factor per axis,
        for which the same holds. Shifts are proportional to them.

    Notes
    -----
    Cost: two passes per margin.

    Examples
    --------
    >>> rows = Margin((0,), np.array([[0.5], [0.5]]))
    >>> columns = Margin((1,), np.array([[0.75, 0.25]]))
    >>> with_margins(np.array([0.4, 0.2, 0.3, 0.2]), KnownMargins((2, 2), (rows, columns)))
    array([0.4 , 0.1 , 0.35, 0.15])
    """
    result = np.array(f, dtype=np.float64, order="C")
    tables = margins.tables(result)
    shares = None if density is None else margins.tables(density)
    for axes, sums in margins.margins:
        missing = sums - margins.sums(tables, axes)
        if shares is None:
            tables += missing / margins.cells_per_sum(axes)
        else:
            tables += shares * (missing / margins.sums(shares, axes))
    return result
