"""The tables of a results folder, and ratios read from them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ldpopt.claims.figures.measured import Interval, Measured, exact, student, unknown
from ldpopt.claims.figures.tables import Pair, Row, read_table

Place = tuple[object, ...]


class Results:
    """The CSV files of a folder; a figure that is not there has no rows.

    Parameters
    ----------
    folder
        Where a run of the figures wrote its tables.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # A figure is read by many statements, and from disk once.
        self.rows = cache(self._rows)
        self.pairs = cache(self._pairs)
        self._groups = cache(self._grouped)

    def _rows(self, figure: str) -> tuple[Row, ...]:
        path = self.folder / f"{figure}.csv"
        return tuple(read_table(path, Row)) if path.exists() else ()

    def _pairs(self, figure: str) -> dict[Place, Pair]:
        path = self.folder / f"{figure}.paired.csv"
        if not path.exists():
            return {}
        return {(*place(p), p.method, p.reference): p for p in read_table(path, Pair)}

    def select(self, figure: str, **wanted: object) -> Iterator[Row]:
        """Yield the rows with these values, each place and method once (panels may share one)."""
        groups = self._groups(figure, tuple(wanted))
        yield from groups.get(tuple(wanted.values()), {}).values()

    def _grouped(
        self, figure: str, columns: tuple[str, ...]
    ) -> dict[tuple[object, ...], dict[Place, Row]]:
        """Return a figure's rows by their values in some columns, then by place and method.

        The statements ask for the same few columns thousands of times.
        """
        groups: dict[tuple[object, ...], dict[Place, Row]] = {}
        for row in self.rows(figure):
            values = tuple(getattr(row, column) for column in columns)
            groups.setdefault(values, {}).setdefault((*place(row), row.method), row)
        return groups

    def ratio(self, over: Row, under: Row, *, signed: bool = False) -> Measured:
        """Return the ratio of two means by the delta method.

        Where both are of the same trials, their covariance follows from the standard deviation of
        their difference; otherwise they count as independent.

        Parameters
        ----------
        over, under
            The two rows.
        signed
            Whether the upper mean may have either sign. The interval of a ratio of positive means
            is symmetric on the logarithm, that of another around the ratio itself.
        """
        # A mean of 0 is an error that cannot be undercut.
        value = over.mean / under.mean if under.mean else math.inf
        trials = min(over.trials, under.trials)
        # The data themselves have no trials.
        if trials == 0:
            return exact(value)
        if trials == 1 or math.isinf(value) or math.isnan(over.std) or math.isnan(under.std):
            return unknown(value)
        # The derivatives of the ratio by both means.
        by_over = 1 / under.mean
        by_under = -value / under.mean
        covariance = self._covariance(over, under)
        of_both = 2 * by_over * by_under * covariance
        variance = (by_over * over.std) ** 2 + (by_under * under.std) ** 2 + of_both
        # Rounding of the tables to six digits may leave a variance just below 0.
        error = math.sqrt(max(variance, 0.0) / trials)

        def interval(miss: float) -> Interval:
            half = student(trials, miss) * error
            if signed or value <= 0:
                return value - half, value + half
            # Beyond e^700 doubles end: nothing is known there.
            factor = math.exp(min(half / value, 700.0))
            return value / factor, value * factor

        return Measured(value, interval)

    def _covariance(self, over: Row, under: Row) -> float:
        """Return the covariance of two methods' single trials, 0 if no pair is in the tables."""
        if place(over) != place(under):
            return 0.0
        pairs = self.pairs(over.figure)
        *here, metric = place(over)
        effective = metric == EFFECTIVE
        # The table holds each pair once, in one of the two orders, and errors where the figure
        # shows the number of users with that error.
        for first, second in ((over, under), (under, over)):
            pair = pairs.get((*here, "mse" if effective else metric, first.method, second.method))
            if pair is not None:
                return _of_users(pair, first, second) if effective else _of(pair, over, under)
        return 0.0


EFFECTIVE = "effective n"
"""The number of users n' for which the raw estimate has a given error: n' is c over the error."""


def _of(pair: Pair, over: Row, under: Row) -> float:
    # From Var(x - y) = Var x + Var y - 2 Cov(x, y).
    return (over.std**2 + under.std**2 - pair.std**2) / 2


def _of_users(pair: Pair, method: Row, reference: Row) -> float:
    """Return the covariance of two numbers of users, from the difference of their errors.

    With n' = c/x, relative deviations of n' and of the error x are the same, and so are relative
    covariances. The constant c follows from x - y = c/n'(x) - c/n'(y).
    """
    inverse = 1 / method.mean - 1 / reference.mean
    # Equal errors: one method, under two names.
    if inverse == 0 or pair.std == 0:
        return method.std * reference.std
    c = pair.difference / inverse
    # The errors x and y, and their standard deviations.
    x = c / method.mean
    y = c / reference.mean
    sd_x = x * (method.std / method.mean)
    sd_y = y * (reference.std / reference.mean)
    # Of errors, from Var(x - y) = Var x + Var y - 2 Cov(x, y).
    covariance = (sd_x**2 + sd_y**2 - pair.std**2) / 2
    # Relative, it is that of the numbers of users.
    return covariance / (x * y) * method.mean * reference.mean


def place(row: Row | Pair) -> Place:
    """Return where a number stands, apart from its method."""
    return row.dataset, row.n, row.epsilon, row.query, row.parameter, row.metric
