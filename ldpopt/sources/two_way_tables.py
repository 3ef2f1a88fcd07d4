"""Tables of pairs of attributes as they were measured: their cells in one vector, and the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.two_way import TwoWayLayout
from ldpopt.errors import InvalidInputError, warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import Immutable
from ldpopt.sources.noise import CombinedCovariance, CombinedNoise, Part
from ldpopt.sources.product import Product
from ldpopt.sources.source import Source
from ldpopt.sources.sources import origins_of, require_different_users, total_reports

Array = NDArray[np.float64]
Names = tuple[str, str]

# Variances of the cells of a table that differ by less are called equal: weights that are wrong by
# this share change the variance of the result by its square.
_ALIKE = 0.05

# Products of cells up to which variances account for how the cells of a table vary together, which
# changes them by a few per cent: a tenth of a second.
_EXACT = 2_000_000


class MeasuredTables(Immutable):
    """Estimates of the tables of pairs of attributes, each from users of its own.

    Parameters
    ----------
    domain
        The attributes.
    measured
        A raw estimate with its noise for each pair of names.
    total
        What each table sums to, > 0.
    independent
        States that tables with the same numbers are of different users.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a name is unknown, a pair stands twice, a table has another number of cells, or an
        estimate has no noise, is processed or a stack.

    Warns
    -----
    LdpoptWarning
        If the cells of a table have unlike noise: a table counts by one precision.
    """

    def __init__(
        self,
        domain: Product,
        measured: Mapping[Names, FrequencyEstimate],
        total: float,
        *,
        independent: bool,
    ) -> None:
        self.domain = domain
        self.total = total
        self.pairs = _checked_pairs(domain, measured)
        self.names = [name for name in domain.names if any(name in pair for pair in self.pairs)]
        self.sources = [
            _table(domain, pair, estimate)
            for pair, estimate in zip(self.pairs, measured.values(), strict=True)
        ]
        if not independent:
            require_different_users(self.sources)
        sizes = [domain.size(name) for name in self.names]
        # The layout knows attributes by their numbers.
        number = {name: i for i, name in enumerate(self.names)}
        pairs = [(number[first], number[second]) for first, second in self.pairs]
        precisions = [_precision(source, total) for source in self.sources]
        self.layout = TwoWayLayout(sizes, pairs, precisions)

    @property
    def cells(self) -> Array:
        """All measured cells, one table after the other."""
        return np.concatenate([source.estimate.frequencies for source in self.sources])

    def split(self, cells: Array) -> list[Array]:
        """Return the cells of each table, of one vector or of rows of them."""
        ends = np.cumsum(self.layout.cells)[:-1]
        return np.split(cells, ends, axis=-1)

    def shape(self, pair: Names) -> tuple[int, int]:
        """Return the number of rows and columns of a table."""
        first, second = pair
        return self.domain.size(first), self.domain.size(second)

    def noise(self, names: tuple[str, ...], nearest: Array) -> CombinedNoise:
        """Return the noise of a consistent table, or of a margin, that may have negative cells.

        Parameters
        ----------
        names
            A pair that was measured, or one attribute.
        nearest
            Consistent cells of all tables: the variances are those at these frequencies.
        """
        spread = _Spread(self, nearest)
        covariance = self._covariance(names, spread)
        if covariance.d * len(nearest) <= _EXACT:
            variance = covariance.diagonal
        else:
            is_margin = len(names) == 1
            variance = spread.of_margin(names[0]) if is_margin else spread.of_table(names)
        origins = frozenset().union(*(origins_of(source.estimate) for source in self.sources))
        count = total_reports(self.sources)

        joint = partial(_unchanged, covariance)
        # A constant: what it would add as a function of its own frequency is a part of a cell.
        return CombinedNoise(variance.ravel(), 0.0, count, joint=joint, origins=origins)

    def _covariance(self, names: tuple[str, ...], spread: _Spread) -> CombinedCovariance:
        """Return the covariance of a consistent table or margin, from those of all tables."""
        chosen = _Chosen(self, names)
        return CombinedCovariance(chosen.d, chosen.drawn, chosen.joined, spread.parts)


class _Chosen:
    """The map from measured cells to one consistent table or margin, and its transpose.

    Consistent cells are L y + const, L the projection onto tables that agree and sum to 0, with
    the weights W: W L is symmetric, so that Lᵀ is W L W⁻¹.
    """

    def __init__(self, tables: MeasuredTables, names: tuple[str, ...]) -> None:
        self._tables = tables
        self._layout = tables.layout
        self._weights = np.repeat(self._layout.weights, self._layout.cells)
        # A margin is read off any table that has it: they agree.
        self._at = next(i for i, pair in enumerate(tables.pairs) if {*names} <= {*pair})
        pair = tables.pairs[self._at]
        self._shape = tables.shape(pair)
        self._axis: int | None = None
        self.d = math.prod(self._shape)
        if len(names) == 1:
            # The axis that is summed over is that of the other attribute.
            self._axis = 1 - pair.index(names[0])
            self.d = tables.domain.size(names[0])

    def drawn(self, rows: Array) -> list[Array]:
        """Return what answers Σ x_v f_v take from each cell of each table, x in rows."""
        table = rows
        if self._axis is not None:
            # An answer about a margin is one about all cells of each line.
            along = np.expand_dims(rows, 1 + self._axis)
            whole = np.broadcast_to(along, (len(rows), *self._shape))
            table = whole.reshape(len(rows), -1)
        inside = [np.zeros((len(rows), size)) for size in self._layout.cells]
        inside[self._at] = table
        scaled = np.concatenate(inside, axis=1) / self._weights
        moved = np.stack([self._layout.consistent(row, 0.0) for row in scaled])
        return self._tables.split(moved * self._weights)

    def joined(self, measured: Sequence[Array]) -> Array:
        """Return L y for rows of measured cells, of the table or margin alone."""
        cells = np.concatenate(measured, axis=1)
        # Row by row: the layout takes one vector of all cells.
        moved = np.stack([self._layout.consistent(row, 0.0) for row in cells])
        table = self._tables.split(moved)[self._at]
        if self._axis is None:
            return table
        by_cell = table.reshape(-1, *self._shape)
        return np.asarray(by_cell.sum(axis=1 + self._axis))


class _Spread:
    """The variances of consistent tables, where the errors of all measured cells are independent.

    Those of one table may depend on each other through its total, as counts of GRR do. That hardly
    matters here, because totals are known: what follows from them is taken out of every line.
    """

    def __init__(self, tables: MeasuredTables, nearest: Array) -> None:
        self._tables = tables
        # A cell below 0 would have a negative part of the sample's variance.
        self._frequencies = [np.maximum(cells, 0.0) for cells in tables.split(nearest)]
        # Users of several tables are samples of one population, as in ``Sources``.
        self._sampled = len(tables.sources) > 1

    @cached_property
    def parts(self) -> list[Part]:
        """The covariance of each measured table."""
        parts = []
        for source, frequencies in zip(self._tables.sources, self._frequencies, strict=True):
            covariance = source.estimate.noise.covariance(frequencies)
            parts.append(Part(covariance, source.besides(frequencies, sampled=self._sampled)))
        return parts

    @cached_property
    def _variances(self) -> list[Array]:
        """The variance of each measured cell, as tables."""
        of_tables = []
        stated = zip(self._tables.pairs, self._tables.sources, self._frequencies, strict=True)
        for pair, source, frequencies in stated:
            variance = source.variance(frequencies, sampled=self._sampled)
            of_tables.append(np.asarray(variance).reshape(self._tables.shape(pair)))
        return of_tables

    def _shares(self, name: str) -> dict[int, float]:
        """Return the weight of each table in the margin of an attribute, by the table's number."""
        weights: dict[int, float] = {}
        for i, pair in enumerate(self._tables.pairs):
            if name in pair:
                (other,) = {*pair} - {name}
                weight = float(self._tables.layout.weights[i])
                # A line sum has the noise of as many cells as the other attribute has values.
                weights[i] = weight / self._tables.domain.size(other)
        whole = sum(weights.values())
        return {i: weight / whole for i, weight in weights.items()}

    def of_margin(self, name: str, without: int | None = None) -> Array:
        """Return the variance of each value of an attribute: of Σ_u s_u (R_u - T_u/m).

        R_u are the line sums of table u, T_u its total, m the number of values, s_u the shares.

        Parameters
        ----------
        name
            The attribute.
        without
            The number of a table whose part is left out.
        """
        m = self._tables.domain.size(name)
        variance = np.zeros(m)
        for i, share in self._shares(name).items():
            if i == without:
                continue
            across = 1 - self._tables.pairs[i].index(name)
            of_lines = self._variances[i].sum(axis=across)
            # A cell counts 1 - 1/m in its own line, and -1/m in all others.
            centred = (1 - 2 / m) * of_lines + of_lines.sum() / m**2
            variance += share**2 * centred
        return variance

    def of_table(self, names: tuple[str, ...]) -> Array:
        """Return the variance of each cell of a consistent table, in its shape.

        A cell is y - R/n - C/m + T/(mn) + M/n + N/m but for a constant, with R and C its row's and
        column's sums, and M and N their consistent margins: means over tables, this one included.
        """
        pair = (names[0], names[1])
        # Every cell enters by its row, its column and its table: three sums of squares.
        at = self._tables.pairs.index(pair)
        m, n = self._tables.shape(pair)
        variance = self._variances[at]
        row_share = self._shares(pair[0])[at]
        column_share = self._shares(pair[1])[at]
        # What the cell takes from its own table: from all cells, from its row and from its column.
        by_all = (1 - row_share - column_share) / (m * n)
        by_row = (row_share - 1) / n
        by_column = (column_share - 1) / m
        of_all = variance.sum()
        of_row = variance.sum(axis=1)[:, None]
        of_column = variance.sum(axis=0)[None, :]
        in_row = (by_all + by_row) ** 2
        in_column = (by_all + by_column) ** 2
        itself = (1 + by_all + by_row + by_column) ** 2
        # The cells that share neither its row nor its column.
        outside = of_all - of_row - of_column + variance
        total = itself * variance
        total = total + in_row * (of_row - variance)
        total = total + in_column * (of_column - variance)
        total = total + by_all**2 * outside
        # What the other tables bring comes through the margins alone.
        through_row = self.of_margin(pair[0], without=at)[:, None] / n**2
        through_column = self.of_margin(pair[1], without=at)[None, :] / m**2
        return np.asarray(total + through_row + through_column)


def _unchanged(covariance: CombinedCovariance, _: Array) -> CombinedCovariance:
    """Return a covariance at any frequencies: that at those of the consistent tables.

    A function by itself, unlike a lambda, pickles.
    """
    return covariance


def _checked_pairs(domain: Product, measured: Mapping[Names, Any]) -> list[Names]:
    """Return the pairs of attributes, after a check that each is one, and stands once."""
    pairs: list[Names] = []
    for pair in measured:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidInputError(f"a table belongs to a pair of attributes, got {pair!r}")
        domain.axes(pair)
        if pair in pairs or pair[::-1] in pairs:
            raise InvalidInputError(f"the pair {' and '.join(pair)} stands twice")
        pairs.append(pair)
    return pairs


def _table(domain: Product, pair: Names, estimate: FrequencyEstimate) -> Source:
    """Return the estimate of a table as a source, after a check of its number of cells."""
    source = Source(estimate, name=f"the table of {' and '.join(pair)}")
    size = domain.size(pair[0]) * domain.size(pair[1])
    if source.size != size:
        raise InvalidInputError(
            f"{source.name} has {source.size} cells for {size} combinations of values"
        )
    return source


def _precision(source: Source, total: float) -> float:
    """Return the weight of a table: the mean of its cells' at the uniform distribution."""
    variances = source.variance(total / source.size)
    if np.ptp(variances) > _ALIKE * variances.mean():
        # The closed form needs one weight per table: main effects are plain means of its lines.
        warn(
            f"the cells of {source.name} have variances from {variances.min():.2g} to "
            f"{variances.max():.2g}: it counts by the mean of their precisions, which is not the "
            "best weight of each; Sources weigh every cell by itself"
        )
    return float((1 / variances).mean())
