"""Two-way tables that share their one-way margins: main effects and interactions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# Steps from one look at the gap to the next: a look takes as long as a step.
_BETWEEN = 4


class TwoWayLayout:
    """Where the cells of several tables stand in one vector, and what they weigh.

    Parameters
    ----------
    sizes
        Number of values of each attribute.
    pairs
        The attributes (a, b) of each table, by number; its cells run over b fastest.
    precisions
        The weight w > 0 of the squared distances in each table.
    """

    def __init__(
        self, sizes: Sequence[int], pairs: Sequence[tuple[int, int]], precisions: Sequence[float]
    ) -> None:
        self.starts_of_margins = np.concatenate([[0], np.cumsum(sizes)])
        rows_of = np.array([sizes[a] for a, _ in pairs])
        columns_of = np.array([sizes[b] for _, b in pairs])
        self.cells = rows_of * columns_of
        table = np.repeat(np.arange(len(pairs)), self.cells)
        place = np.arange(len(table)) - np.repeat(np.cumsum(self.cells) - self.cells, self.cells)
        # Lines are numbered through all tables: the rows of each, then the columns of each.
        lines = np.concatenate([rows_of, columns_of])
        first_line = np.cumsum(lines) - lines
        width = columns_of[table]
        self._row = first_line[: len(pairs)][table] + place // width
        self._column = first_line[len(pairs) :][table] + place % width
        self._table = table
        attribute = np.concatenate([[a for a, _ in pairs], [b for _, b in pairs]]).astype(np.int64)
        across = np.concatenate([columns_of, rows_of])
        of_line = np.repeat(np.arange(len(lines)), lines)
        within = np.arange(len(of_line)) - first_line[of_line]
        self._margin_of_line = self.starts_of_margins[attribute[of_line]] + within
        self._table_of_line = np.tile(np.arange(len(pairs)), 2)[of_line]
        self._length_of_line = across[of_line]
        self._lines_beside = lines[of_line]
        self.weights = np.asarray(precisions, dtype=np.float64)
        self._weight_of_cell = self.weights[table]
        self._first_cell = np.cumsum(self.cells) - self.cells
        self._first_row = first_line[: len(pairs)]
        self._rows = int(rows_of.sum())
        self._weight_of_line = self.weights[self._table_of_line] / self._length_of_line
        self._mass = np.bincount(self._margin_of_line, self._weight_of_line)

    def consistent(self, cells: Array, total: float) -> Array:
        """Return the nearest cells whose tables agree in their margins and sum to the total.

        A table over (a, b) is M_a/|b| + M_b/|a| - T/(|a||b|) plus an interaction whose rows and
        columns sum to 0. These parts are orthogonal: so the interactions stay as they are, and
        each margin is the mean of those of the tables, the table over (a, b) counting w/|b|.

        Parameters
        ----------
        cells
            All cells of all tables, in the order of the layout.
        total
            What each table sums to.

        Notes
        -----
        Cost: three passes over the cells.

        Examples
        --------
        >>> layout = TwoWayLayout([2, 2, 2], [(0, 1), (0, 2)], [1.0, 1.0])
        >>> tables = layout.consistent(np.array([0.5, 0.1, 0.2, 0.2, 0.4, 0.3, 0.1, 0.2]), 1.0)
        >>> tables[:4].reshape(2, 2).sum(axis=1), tables[4:].reshape(2, 2).sum(axis=1)
        (array([0.65, 0.35]), array([0.65, 0.35]))
        """
        lines = self._sums(cells)
        # The sums of a table's rows add up to its own.
        missing = total - np.add.reduceat(lines[: self._rows], self._first_row)
        effects = lines + missing[self._table_of_line] / self._lines_beside
        moments = np.bincount(self._margin_of_line, self._weight_of_line * effects)
        margins = moments / self._mass
        shift = (margins[self._margin_of_line] - lines) / self._length_of_line
        # What is common to a table is taken from its rows: a pass over all cells less.
        shift[: self._rows] -= (missing / self.cells)[self._table_of_line[: self._rows]]
        # In place: new arrays of a million numbers take as long as their sums.
        moved: Array = shift[self._row]
        moved += shift[self._column]
        moved += cells
        return moved

    def margins(self, cells: Array) -> Array:
        """Return the margins of all attributes, one after the other, of consistent cells."""
        margins = np.zeros(len(self._mass))
        # Every table has the same: the last one is taken.
        margins[self._margin_of_line] = self._sums(cells)
        return margins

    def distance(self, cells: Array, measured: Array) -> float:
        """Return ½ Σ w (cells - measured)²."""
        away = cells - measured
        return float(0.5 * np.dot(self._weight_of_cell * away, away))

    def nonnegative(
        self, measured: Array, total: float, tolerance: float, max_steps: int
    ) -> tuple[Array, float, int]:
        """Return the nearest consistent cells that are not negative, a gap, and the steps taken.

        The multipliers w u of f >= 0 maximise the dual function, whose minimiser over consistent
        cells is that of measured + u; accelerated projected gradient steps of length 1 (Beck and
        Teboulle 2009), begun anew when they turn around. Each dual value bounds the minimum from
        below, and each point is made feasible by a small share of equal cells: their difference is
        the gap.

        Parameters
        ----------
        measured, total
            As in ``consistent``; the total is positive.
        tolerance
            Gap, relative to the squared noise Σ ½ w (measured - nearest)², at which it stops.
        max_steps
            Steps at most.
        """
        equal = total / self.cells
        push = np.zeros(len(measured))
        ahead = np.zeros(len(measured))
        momentum = 1.0
        best = self._feasible(self.consistent(measured, total), equal)
        value = self.distance(best, measured)
        bound = 0.0
        steps = 0
        while True:
            point = self.consistent(measured + ahead, total)
            if steps % _BETWEEN == 0 or steps == max_steps:
                # The dual value at ``ahead``: the Lagrangian at its minimiser.
                priced = float(np.dot(self._weight_of_cell * ahead, point))
                bound = max(bound, self.distance(point, measured) - priced)
                feasible = self._feasible(point, equal)
                reached = self.distance(feasible, measured)
                if reached < value:
                    value = reached
                    best = feasible
                if value - bound <= tolerance * value or steps == max_steps:
                    return best, max(value - bound, 0.0), steps
            steps += 1
            moved = ahead - point
            np.maximum(moved, 0.0, out=moved)
            change = moved - push
            ahead -= moved
            if float(np.dot(ahead, change)) > 0:
                momentum = 1.0
            after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            change *= (momentum - 1) / after
            change += moved
            # Prices of f >= 0 are not negative; extrapolation may make them so.
            ahead = np.maximum(change, 0.0, out=change)
            push = moved
            momentum = after

    def _feasible(self, cells: Array, equal: Array) -> Array:
        """Return consistent cells with the least share of equal ones that leaves none negative.

        ``equal`` has the cell of each table.
        """
        lowest = np.minimum.reduceat(cells, self._first_cell)
        below = lowest < 0
        if not below.any():
            return cells
        # The lowest cell of a table needs the largest share.
        share = float(np.max(lowest[below] / (lowest[below] - equal[below])))
        return np.maximum((1 - share) * cells + (share * equal)[self._table], 0.0)

    def _sums(self, cells: Array) -> Array:
        """Return the sums of all rows, and of all columns."""
        count = len(self._margin_of_line)
        rows = np.bincount(self._row, cells, count)
        return np.asarray(rows + np.bincount(self._column, cells, count))
