"""How statements are measured: each kind of check reads numbers from the tables and bounds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Literal, Protocol

from ldpopt.claims.figures.measured import (
    Measured,
    average,
    deviation_of,
    difference,
    exact,
    mean_of,
    mean_with_error,
    median,
    quotient,
    spread,
    variance_of,
)
from ldpopt.claims.figures.results import Results, place
from ldpopt.claims.figures.tables import Row

Where = Callable[[float], bool]
Wanted = Mapping[str, object]


def always(_: float) -> bool:
    """Let every point through."""
    return True


@dataclass(frozen=True)
class Reading:
    """One number of a statement: its place, its value, and the bounds that the statement sets."""

    dataset: str
    where: str
    measured: Measured
    low: float
    high: float

    def agrees(self, miss: float) -> bool:
        """Whether the whole interval lies within the bounds: chance cannot have put it there."""
        # An interval that crosses a bound neither agrees nor contradicts.
        low, high = self.measured.interval(miss)
        return self.low <= low and high <= self.high

    def contradicts(self, miss: float) -> bool:
        """Whether the whole interval lies outside the bounds: chance is no excuse."""
        low, high = self.measured.interval(miss)
        return high < self.low or low > self.high


class Check(Protocol):
    """Something that reads numbers for a statement; none if the data are missing."""

    @property
    def only(self) -> Wanted:
        """The rows that it reads: values by the name of the column."""

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield the numbers with their bounds."""


@dataclass(frozen=True)
class Ratio:
    """Mean of one method over another's, at every point of the axis that ``at`` lets through.

    ``over`` and ``under`` may name several methods: every pair is read. ``side`` takes only the
    points below (-1) or above (+1) the middle one of the axis, which is the significance threshold.
    ``signed`` is for numbers that may have either sign, such as biases.
    """

    figure: str
    over: str | tuple[str, ...]
    under: str | tuple[str, ...]
    low: float
    high: float
    along: str = "epsilon"
    at: Where = always
    only: Wanted = field(default_factory=dict)
    side: int = 0
    signed: bool = False

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield the ratio of every pair of methods at every point."""
        # Statements name groups of methods, which may overlap.
        for over, under in product(_names(self.over), _names(self.under)):
            if over != under:
                yield from self._pair(results, over, under)

    def _pair(self, results: Results, over: str, under: str) -> Iterator[Reading]:
        rows_under = results.select(self.figure, method=under, **self.only)
        # By place: rows of one place are of the same trials, and their ratio has a paired interval.
        below = {place(row): row for row in rows_under}
        # A statement about one side of the range is about that side of its middle point.
        points = sorted({_x(row, self.along) for row in below.values()})
        middle = points[len(points) // 2] if points else math.nan
        for row in results.select(self.figure, method=over, **self.only):
            x = _x(row, self.along)
            if not (self.at(x) and self._on_side(x, middle)):
                continue
            other = below.get(place(row))
            # Missing data leave one method at points where the other has none.
            if other is None:
                continue
            where = f"{over} / {under}, {_spot(row, self.along)}"
            ratio = results.ratio(row, other, signed=self.signed)
            yield Reading(row.dataset, where, ratio, self.low, self.high)

    def _on_side(self, x: float, middle: float) -> bool:
        # The middle itself is on neither side; it was rounded when it was written.
        return self.side == 0 or (x - middle) * self.side >= 1e-9


@dataclass(frozen=True)
class Value:
    """The mean of a method itself; ``per_user`` divides it by the number of users."""

    figure: str
    method: str | tuple[str, ...]
    low: float
    high: float
    along: str = "epsilon"
    at: Where = always
    unit: float = 1.0
    per_user: bool = False
    only: Wanted = field(default_factory=dict)

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield the mean of every method at every point."""
        for method in _names(self.method):
            # All points but those that the statement leaves out.
            for row in results.select(self.figure, method=method, **self.only):
                if self.at(_x(row, self.along)):
                    where = f"{method}, {_spot(row, self.along)}"
                    number = mean_of(row, row.n if self.per_user else self.unit)
                    yield Reading(row.dataset, where, number, self.low, self.high)


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
    only: Wanted = field(default_factory=dict)

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield the ratio of every point to its partner."""
        for method in _names(self.method):
            for dataset, by_x in _lines(results, self.figure, method, self.along, self.only):
                # In the order of the axis, so that the page reads from left to right.
                for x in sorted(by_x):
                    if not self.at(x):
                        continue
                    # One partner for all points, or one for each.
                    wanted = self.partner(x) if callable(self.partner) else self.partner
                    # The nearest point, since a table has rounded ones.
                    other = _nearest(by_x, wanted)
                    # Thresholds are rounded when they are written.
                    if math.isclose(other, wanted, rel_tol=0.01):
                        where = f"{method}, {_short(x)} over {_short(other)}"
                        ratio = results.ratio(by_x[x], by_x[other])
                        yield Reading(dataset, where, ratio, self.low, self.high)


@dataclass(frozen=True)
class Variance:
    """A row that is a variance, over the same method's at rank ``partner``; see `variance_of`."""

    figure: str
    method: str | tuple[str, ...]
    low: float
    high: float
    partner: float
    kurtosis: float = 3.0
    at: Where = always
    only: Wanted = field(default_factory=dict)

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield the ratio of every variance to the one at the partner."""
        for method in _names(self.method):
            for dataset, by_x in _lines(results, self.figure, method, "parameter", self.only):
                # A shortened table may lack the rank.
                if self.partner not in by_x:
                    continue
                under = variance_of(by_x[self.partner])
                for x in filter(self.at, sorted(by_x)):
                    ratio = quotient(variance_of(by_x[x], self.kurtosis), under)
                    where = f"{method}, rank {_short(x)} over {_short(self.partner)}"
                    yield Reading(dataset, where, ratio, self.low, self.high)


@dataclass(frozen=True)
class Spread:
    """Largest over smallest mean of a method along the axis: 1 is a flat line.

    With ``variances`` the rows are variances over trials.
    """

    figure: str
    method: str | tuple[str, ...]
    low: float
    high: float
    along: str = "parameter"
    at: Where = always
    variances: bool = False
    only: Wanted = field(default_factory=dict)

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield one number per method and data set."""
        # A variance over trials has an interval of its own kind.
        number = variance_of if self.variances else mean_of
        for method in _names(self.method):
            for dataset, by_x in _lines(results, self.figure, method, self.along, self.only):
                numbers = [number(by_x[x]) for x in filter(self.at, sorted(by_x))]
                # A table without the method yields nothing, which the judge counts as missing.
                if numbers:
                    yield Reading(dataset, method, spread(numbers), self.low, self.high)


@dataclass(frozen=True)
class Growth:
    """Growth of the ratio of two methods between two points of the axis."""

    figure: str
    over: str
    under: str | tuple[str, ...]
    first: float
    last: float
    low: float
    high: float
    along: str = "epsilon"
    only: Wanted = field(default_factory=dict)

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield one number per lower method and data set."""
        for under in _names(self.under):
            rows_under = results.select(self.figure, method=under, **self.only)
            below = {place(row): row for row in rows_under}
            for dataset, by_x in _lines(results, self.figure, self.over, self.along, self.only):
                first = by_x.get(self.first)
                last = by_x.get(self.last)
                # A quick run may lack one of the two points.
                if first is None or last is None:
                    continue
                if place(first) not in below or place(last) not in below:
                    continue
                at_first = results.ratio(first, below[place(first)])
                at_last = results.ratio(last, below[place(last)])
                # Of ratios at two places, whose trials are independent of each other.
                grown = quotient(at_last, at_first)
                yield Reading(dataset, f"{self.over} / {under}", grown, self.low, self.high)


@dataclass(frozen=True)
class Climb:
    """A method at each of some points of the axis minus itself at the point before."""

    figure: str
    method: str | tuple[str, ...]
    low: float
    high: float
    steps: tuple[float, ...]
    only: Wanted = field(default_factory=dict)

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield the difference of every step to the one before."""
        for method in _names(self.method):
            for dataset, by_x in _lines(results, self.figure, method, "parameter", self.only):
                # A shortened table may lack some of the points.
                if not all(step in by_x for step in self.steps):
                    continue
                for before, x in pairwise(self.steps):
                    climbed = difference(mean_of(by_x[x]), mean_of(by_x[before]))
                    where = f"{method}, {_short(x)} minus {_short(before)}"
                    yield Reading(dataset, where, climbed, self.low, self.high)


@dataclass(frozen=True)
class TopRanks:
    """Error of a method's k most frequent values over another's, or over itself at another k.

    The mean squared error of a value is its squared bias (N Fig. 2) and its variance (N Fig. 3):
    5,000 trials of the setting of which N Fig. 10 shows 30. ``ks`` are pairs: k of the upper
    number, k of the lower one. Without ``under`` a method is compared with itself.
    """

    over: str | tuple[str, ...]
    ks: tuple[tuple[int, int], ...]
    low: float
    high: float
    under: str | None = None
    only: Wanted = field(default_factory=lambda: {"dataset": "zipf"})

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield one ratio per upper method and pair of ks."""
        for over in _names(self.over):
            under = self.under or over
            for upper, lower in self.ks:
                # From sums over ranks, where thirty trials of the figure itself would decide
                # little.
                above = _top(results, over, upper)
                below = _top(results, under, lower)
                # Two methods are not in the figures of biases and variances.
                if above is None or below is None:
                    continue
                where = f"{over}, k = {upper} / {under}, k = {lower}, of 5,000 trials"
                yield Reading("zipf", where, quotient(above, below), self.low, self.high)


_TOP_KURTOSIS = 20.0
"""Allowed for in the variances of the 32 most frequent values: a method that zeroes one of them in
nine trials of ten leaves a kurtosis of about 10."""


@dataclass(frozen=True)
class AddedRanks:
    """Error of the values that a larger k adds, over that of the values before them.

    Above 1 the error of the top k grows from one k to the other. Both parts are of different
    values, which two nested top k are not; see `TopRanks` for where the errors come from. ``ks``
    are pairs: the larger k, the smaller one.
    """

    method: str | tuple[str, ...]
    ks: tuple[tuple[int, int], ...]
    low: float
    high: float
    only: Wanted = field(default_factory=lambda: {"dataset": "zipf"})

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield one ratio per method and pair of ks."""
        for method in _names(self.method):
            for larger, smaller in self.ks:
                # Ranks count from 1, and the smaller k is part of the values before.
                added = _over_ranks(results, method, range(smaller + 1, larger + 1))
                before = _over_ranks(results, method, range(1, smaller + 1))
                if added is None or before is None:
                    continue
                ranks = f"ranks {smaller + 1} to {larger}"
                where = f"{method}, {ranks} over those before, of 5,000 trials"
                yield Reading("zipf", where, quotient(added, before), self.low, self.high)


@dataclass(frozen=True)
class Size:
    """Number of users or of values of a data set, as the tables state it."""

    figure: str
    of: Literal["n", "d"]
    number: int
    only: Wanted = field(default_factory=dict)

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield one number per data set."""
        sizes = {
            row.dataset: getattr(row, self.of) for row in results.select(self.figure, **self.only)
        }
        for dataset, size in sizes.items():
            yield Reading(dataset, self.of, exact(size), self.number, self.number)


def _top(results: Results, method: str, k: int) -> Measured | None:
    """Return the mean squared error of the k most frequent values, None without their rows."""
    return _over_ranks(results, method, range(1, k + 1))


def _over_ranks(results: Results, method: str, ranks: range) -> Measured | None:
    """Return the mean squared error of the values of these ranks, None without their rows."""
    zipf = {"method": method, "dataset": "zipf"}
    bias_rows = results.select("ndss-fig2", metric="bias (counts)", **zipf)
    biases = {row.parameter: row for row in bias_rows}
    variances = {row.parameter: row for row in results.select("ndss-fig3", **zipf)}
    if not all(rank in biases and rank in variances for rank in ranks):
        return None
    trials = biases[ranks[0]].trials
    errors = []
    squares = []
    # Rows of two figures with the same setting: bias from one, variance from the other.
    for rank in ranks:
        bias = biases[rank].mean
        # Figure 3 shows variances over n.
        variance = variances[rank].mean * variances[rank].n
        errors.append(bias**2 + variance)
        # The error of a squared mean, and that of a variance.
        of_bias = 4 * bias**2 * variance / trials
        of_variance = (_TOP_KURTOSIS - 1) * variance**2 / trials
        squares.append(of_bias + of_variance)
    # Different values are nearly independent: their squared errors add up.
    error = math.sqrt(sum(squares)) / len(ranks)
    return mean_with_error(sum(errors) / len(ranks), error, trials)


@dataclass(frozen=True)
class Deviation:
    """Standard deviation of a method's trials over their mean."""

    figure: str
    method: str | tuple[str, ...]
    low: float
    high: float
    only: Wanted = field(default_factory=dict)

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield one number per method and point."""
        for method in _names(self.method):
            for row in results.select(self.figure, method=method, **self.only):
                where = f"{method}, {_spot(row, 'epsilon')}"
                yield Reading(row.dataset, where, deviation_of(row), self.low, self.high)


@dataclass(frozen=True)
class Some:
    """Another check of which one reading is enough: as for "in some cases"."""

    check: Check

    @property
    def only(self) -> Wanted:
        """The rows that the other check reads."""
        return self.check.only

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield what the other check yields."""
        return self.check(results)


@dataclass(frozen=True)
class Together:
    """All readings of another check as one number per data set: their median or their average."""

    check: Check
    summary: Callable[[list[Measured]], Measured]

    @property
    def only(self) -> Wanted:
        """The rows that the other check reads."""
        return self.check.only

    def __call__(self, results: Results) -> Iterator[Reading]:
        """Yield one number per data set."""
        by_dataset: dict[str, list[Reading]] = {}
        for reading in self.check(results):
            by_dataset.setdefault(reading.dataset, []).append(reading)
        for dataset, readings in by_dataset.items():
            number = self.summary([reading.measured for reading in readings])
            where = f"{self.summary.__name__} of {len(readings)} readings"
            yield Reading(dataset, where, number, readings[0].low, readings[0].high)


def typical(check: Check) -> Together:
    """Return the median of a check's readings: as for "typically"."""
    return Together(check, median)


def on_average(check: Check) -> Together:
    """Return the average of a check's readings, which vary independently about a common number."""
    return Together(check, average)


def _lines(
    results: Results, figure: str, method: str, along: str, only: Wanted
) -> Iterator[tuple[str, dict[float, Row]]]:
    """Yield a method's rows by their place on the axis, for each data set and query."""
    lines: dict[tuple[str, str], dict[float, Row]] = {}
    for row in results.select(figure, method=method, **only):
        lines.setdefault((row.dataset, row.query), {})[_x(row, along)] = row
    for (dataset, _), by_x in lines.items():
        yield dataset, by_x


def _x(row: Row, along: str) -> float:
    value = getattr(row, along)
    return math.nan if isinstance(value, str) else float(value)


def _names(method: str | tuple[str, ...]) -> tuple[str, ...]:
    return (method,) if isinstance(method, str) else method


def _spot(row: Row, along: str) -> str:
    """Return where a row stands in its data set, for a reader."""
    value = getattr(row, along)
    sign = {"epsilon": "ε", "n": "n", "parameter": "at"}[along]
    # Random sets and the full domain are what the figure shows anyway.
    query = f"{row.query}, " if row.query.endswith("sets") and row.query != "random sets" else ""
    return f"{query}{sign} {_short(value)}" if value != "" else f"{query}sum"


def _nearest(points: Iterable[float], wanted: float) -> float:
    return min(points, key=lambda point: abs(point - wanted))


def _short(x: object) -> str:
    if isinstance(x, float):
        return f"{x:g}"
    return f"{x:,}" if isinstance(x, int) else str(x)
