"""How statements are measured: each kind of check reads numbers from the tables and judges them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Protocol

from experiments.compare.results import Measured, Results, mean_of, within_factor
from experiments.tables import Row

Where = Callable[[float], bool]


def always(_: float) -> bool:
    """Let every point through."""
    return True


@dataclass(frozen=True)
class Reading:
    """One number of a statement: its place, its value, and the bounds that the statement sets."""

    where: str
    measured: Measured
    low: float
    high: float

    @property
    def agrees(self) -> bool:
        """Whether the value lies within the bounds."""
        return self.low <= self.measured.value <= self.high

    @property
    def contradicts(self) -> bool:
        """Whether the whole 95 % interval lies outside them: chance is no excuse."""
        return self.measured.high < self.low or self.measured.low > self.high


class Check(Protocol):
    """Something that reads numbers for a statement; none if the data are missing."""

    def read(self, results: Results) -> Iterator[Reading]: ...


def _x(row: Row, along: str) -> float:
    value = getattr(row, along)
    return float(value) if value != "" else math.nan


@dataclass(frozen=True)
class Ratio:
    """Mean of one method over another's, at every point of the axis that ``at`` lets through.

    ``over`` and ``under`` may name several methods: every pair is read. ``side`` takes only the
    points below (-1) or above (+1) the middle one of the axis, which is the significance threshold.
    """

    figure: str
    over: str | tuple[str, ...]
    under: str | tuple[str, ...]
    low: float
    high: float
    along: str = "epsilon"
    at: Where = always
    only: dict[str, object] = field(default_factory=dict)
    side: int = 0

    def read(self, results: Results) -> Iterator[Reading]:
        for over, under in product(_names(self.over), _names(self.under)):
            if over != under:
                yield from self._pair(results, over, under)

    def _pair(self, results: Results, over: str, under: str) -> Iterator[Reading]:
        below = {_key(row): row for row in results.select(self.figure, method=under, **self.only)}
        points = sorted({_x(row, self.along) for row in below.values()})
        middle = points[len(points) // 2] if points else math.nan
        for row in results.select(self.figure, method=over, **self.only):
            x = _x(row, self.along)
            # Missing data leave one method at points where the other has none.
            if _key(row) in below and self.at(x) and self._on_side(x, middle):
                ratio = results.ratio(row, below[_key(row)])
                where = f"{over} / {under}, {_spot(row, self.along)}"
                yield Reading(where, ratio, self.low, self.high)

    def _on_side(self, x: float, middle: float) -> bool:
        # The middle itself is on neither side; it was rounded when it was written.
        return self.side == 0 or (x - middle) * self.side >= 1e-9


@dataclass(frozen=True)
class Value:
    """The mean of a method itself, over ``unit``."""

    figure: str
    method: str | tuple[str, ...]
    low: float
    high: float
    along: str = "epsilon"
    at: Where = always
    unit: float = 1.0
    only: dict[str, object] = field(default_factory=dict)

    def read(self, results: Results) -> Iterator[Reading]:
        for method in _names(self.method):
            # All points but those that the statement leaves out.
            for row in results.select(self.figure, method=method, **self.only):
                if self.at(_x(row, self.along)):
                    yield Reading(
                        f"{method}, {_spot(row, self.along)}",
                        mean_of(row, self.unit),
                        self.low,
                        self.high,
                    )


@dataclass(frozen=True)
class Against:
    """A method at one point of the axis over itself at its ``partner`` point (one, or one each)."""

    figure: str
    method: str | tuple[str, ...]
    low: float
    high: float
    partner: float | Callable[[float], float]
    along: str = "parameter"
    at: Where = always
    only: dict[str, object] = field(default_factory=dict)

    def read(self, results: Results) -> Iterator[Reading]:
        for method in _names(self.method):
            # Compared within one data set and query alone.
            groups: dict[tuple, dict[float, Row]] = {}
            for row in results.select(self.figure, method=method, **self.only):
                groups.setdefault((row.dataset, row.query), {})[_x(row, self.along)] = row
            for (dataset, _), by_x in groups.items():
                for x in sorted(by_x):
                    wanted = self.partner(x) if callable(self.partner) else self.partner
                    other = min(by_x, key=lambda at: abs(at - wanted))
                    # Thresholds are rounded when they are written.
                    if self.at(x) and math.isclose(other, wanted, rel_tol=0.01):
                        where = f"{method}, {dataset}, {_short(x)} over {_short(other)}"
                        yield Reading(
                            where, results.ratio(by_x[x], by_x[other]), self.low, self.high
                        )


@dataclass(frozen=True)
class Spread:
    """Largest over smallest mean of a method along the axis: 1 is a flat line."""

    figure: str
    method: str | tuple[str, ...]
    low: float
    high: float
    along: str = "parameter"
    at: Where = always
    only: dict[str, object] = field(default_factory=dict)

    def read(self, results: Results) -> Iterator[Reading]:
        for method in _names(self.method):
            groups: dict[str, list[Row]] = {}
            for row in results.select(self.figure, method=method, **self.only):
                if self.at(_x(row, self.along)):
                    groups.setdefault(row.dataset, []).append(row)
            for dataset, rows in groups.items():
                top, bottom = max(rows, key=lambda r: r.mean), min(rows, key=lambda r: r.mean)
                yield Reading(
                    f"{method}, {dataset}", results.ratio(top, bottom), self.low, self.high
                )


@dataclass(frozen=True)
class Growth:
    """Growth of the ratio of two methods between two points of the axis; trials independent."""

    figure: str
    over: str
    under: str | tuple[str, ...]
    first: float
    last: float
    low: float
    high: float
    along: str = "epsilon"

    def read(self, results: Results) -> Iterator[Reading]:
        for under in _names(self.under):
            ratios: dict[str, dict[float, Measured]] = {}
            below = {_key(row): row for row in results.select(self.figure, method=under)}
            for row in results.select(self.figure, method=self.over):
                if _key(row) in below:
                    ratios.setdefault(row.dataset, {})[_x(row, self.along)] = results.ratio(
                        row, below[_key(row)]
                    )
            for dataset, by_x in ratios.items():
                # A quick run may lack one of the two points.
                if self.first in by_x and self.last in by_x:
                    grown = _quotient(by_x[self.last], by_x[self.first])
                    yield Reading(f"{self.over} / {under}, {dataset}", grown, self.low, self.high)


@dataclass(frozen=True)
class Deviation:
    """Standard deviation of a method's trials over their mean."""

    figure: str
    method: str | tuple[str, ...]
    low: float
    high: float

    def read(self, results: Results) -> Iterator[Reading]:
        for method in _names(self.method):
            for row in results.select(self.figure, method=method):
                # Exact as far as the trials go: it has no interval of its own.
                value = row.std / row.mean
                yield Reading(
                    f"{method}, {_spot(row, 'epsilon')}",
                    Measured(value, value, value),
                    self.low,
                    self.high,
                )


def _quotient(over: Measured, under: Measured) -> Measured:
    """Return the ratio of two independent ratios; their relative errors add in squares."""
    # Without a logarithm the quotient has no interval.
    if not over.value > 0 or not under.value > 0:
        value = over.value / under.value if under.value else math.inf
        return Measured(value, value, value)
    return within_factor(
        over.value / under.value,
        # Half-widths on the logarithmic scale, where the intervals are symmetric.
        math.hypot(math.log(over.high / over.value), math.log(under.high / under.value)),
    )


@dataclass(frozen=True)
class Share:
    """Share of another check's readings within their bounds: as for "in some cases"."""

    check: Check
    low: float
    high: float = 1.0

    def read(self, results: Results) -> Iterator[Reading]:
        readings = list(self.check.read(results))
        # Without readings there is no share: the data are missing.
        if readings:
            share = sum(reading.agrees for reading in readings) / len(readings)
            low, high = _short(readings[0].low), _short(readings[0].high)
            what = f"share of {len(readings)} points within {low} .. {high}"
            yield Reading(what, Measured(share, share, share), self.low, self.high)


def _names(method: str | tuple[str, ...]) -> tuple[str, ...]:
    return (method,) if isinstance(method, str) else method


def _key(row: Row) -> tuple:
    return row.dataset, row.n, row.epsilon, row.query, row.parameter, row.metric


def _spot(row: Row, along: str) -> str:
    query = f"{row.query}, " if row.query.endswith("sets") and row.query != "random sets" else ""
    sign = {"epsilon": "ε", "n": "n", "parameter": "at"}[along]
    value = getattr(row, along)
    return (
        f"{row.dataset}, {query}{sign} {_short(value)}"
        if value != ""
        else f"{row.dataset}, {query}".rstrip(", ")
    )


def _short(x: object) -> str:
    if isinstance(x, float):
        return f"{x:g}"
    return f"{x:,}" if isinstance(x, int) else str(x)
