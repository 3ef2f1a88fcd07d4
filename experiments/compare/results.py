"""The tables of a results folder, and numbers with 95 % intervals read from them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from experiments.tables import Pair, Row, read_pairs, read_rows


@dataclass(frozen=True)
class Measured:
    """A number with its 95 % interval over trials (the number itself where it has none)."""

    value: float
    low: float
    high: float


class Results:
    """The CSV files of a folder; a figure that is not there has no rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # A figure is read by many statements, and from disk once.
        self.rows = cache(self._rows)
        self.pairs = cache(self._pairs)

    def _rows(self, figure: str) -> tuple[Row, ...]:
        path = self.folder / f"{figure}.csv"
        return tuple(read_rows(path)) if path.exists() else ()

    def _pairs(self, figure: str) -> dict[tuple, Pair]:
        path = self.folder / f"{figure}.paired.csv"
        return (
            {(*_place(p), p.method, p.reference): p for p in read_pairs(path)}
            if path.exists()
            else {}
        )

    def select(self, figure: str, **wanted: object) -> Iterator[Row]:
        """Yield the rows with these values, each place and method once (panels may share one)."""
        seen = set()
        for row in self.rows(figure):
            if all(getattr(row, name) == value for name, value in wanted.items()):
                key = (*_place(row), row.method)
                if key not in seen:
                    seen.add(key)
                    yield row

    def ratio(self, over: Row, under: Row) -> Measured:
        """Return the ratio of two means, by the delta method on its logarithm.

        Where both are of the same trials, their covariance follows from the standard deviation of
        their difference.
        """
        # A mean of 0 is an error that cannot be undercut.
        value = over.mean / under.mean if under.mean else math.inf
        variances = [0.0 if math.isnan(row.std) else row.std**2 for row in (over, under)]
        covariance = 0.0
        pairs = self.pairs(over.figure)
        # The table holds each pair once, in one of the two orders.
        for first, second in ((over, under), (under, over)):
            pair = pairs.get((*_place(first), first.method, second.method))
            if pair is not None and _place(over) == _place(under):
                # From Var(x - y) = Var x + Var y - 2 Cov(x, y).
                covariance = (sum(variances) - pair.std**2) / 2
        # A logarithm needs positive numbers, a spread two trials.
        if not value > 0 or over.trials < 2 or math.isinf(value):
            return Measured(value, value, value)
        relative = (
            variances[0] / over.mean**2
            + variances[1] / under.mean**2
            - 2 * covariance / (over.mean * under.mean)
        )
        # Rounding of the tables to six digits may leave a variance just below 0.
        reach = student(over.trials) * math.sqrt(max(relative, 0.0) / over.trials)
        return within_factor(value, reach)


def within_factor(value: float, reach: float) -> Measured:
    """Return a ratio with the interval that its logarithm ± ``reach`` has."""
    factor = math.exp(min(reach, 700.0))  # beyond, doubles end: nothing is known
    return Measured(value, value / factor, value * factor)


def mean_of(row: Row, unit: float = 1.0) -> Measured:
    """Return a row's mean with its interval, over ``unit``."""
    # Figures of the data themselves have no spread.
    half = (
        0.0
        if math.isnan(row.std) or row.trials < 2
        else student(row.trials) * row.std / math.sqrt(row.trials)
    )
    return Measured(row.mean / unit, (row.mean - half) / unit, (row.mean + half) / unit)


@cache
def student(trials: int) -> float:
    """Return the 97.5 % quantile of Student's t for a mean over trials."""
    from scipy.special import stdtrit

    return float(stdtrit(trials - 1, 0.975))


def _place(row: Row | Pair) -> tuple:
    """Return where a number stands, apart from its method."""
    return row.dataset, row.n, row.epsilon, row.query, row.parameter, row.metric
