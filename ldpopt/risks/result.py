"""What an estimate of risk returns: one number with its interval, or a table of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpopt.errors import extra_needed
from ldpopt.estimate.intervals import reach_of
from ldpopt.printable import percent
from ldpopt.risks.collection import Collection, Kind, names_of
from ldpopt.risks.evidence import Evidence
from ldpopt.tables import ShownAsTable, TitledTable, data_frame, html_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What rounding may change in a difference of two risks, and nobody would call one: as a part of the
# noise of the raw answers, of which both are made.
_ROUNDING = 1e-9

_HEADINGS = ("method", "MSE", "interval", "above the best", "verdict")

_ROUNDING = 64 * float(np.finfo(np.float64).eps)

_KINDS: dict[Kind, str] = {
    "sure": "Stein's unbiased estimate",
    "bootstrap": "the coupled bootstrap",
}


@dataclass(frozen=True)
class Risk:
    """The mean squared error of a method's answers on one collection, estimated without the truth.

    Attributes
    ----------
    method
        Its name.
    mean
        The unbiased estimate, per answer. It may be negative where the error is small beside the
        noise.
    low, high
        Interval for the squared error on this collection, cut off at 0. It is wide for a few sets,
        where it covers more often than stated.
    by
        ``"sure"``, or ``"bootstrap"``, which is about noise of 1 + ``alpha`` times the variance.
    answers
        What is answered, in words.
    level
        Of the interval.
    alpha
        Of the bootstrap; 0 of Stein's estimate.
    """

    method: str
    mean: float
    low: float
    high: float
    by: Kind
    answers: str
    level: float = 0.95
    alpha: float = 0.0

    @classmethod
    def of(
        cls, method: str, evidence: Evidence, collection: Collection, by: Kind, **rest: float
    ) -> Risk:
        """Return the risk per answer from what is known of all answers together."""
        level = rest["level"]
        k = collection.count
        low, high = evidence.interval(collection, reach_of(level))
        # What the sum of all values leaves is rounding, in units of their variances.
        rounding = _ROUNDING * float(np.sum(collection.covariance.diagonal))
        total, low, high = (
            0.0 if abs(number) <= rounding else number for number in (evidence.total, low, high)
        )
        mean = total / k
        answers = names_of(collection.names, k)
        # Unbiased estimates may be negative, though squared errors never are.
        ends = (max(low, 0.0) / k, max(high, 0.0) / k)
        return cls(method, mean, *ends, by, answers, **rest)

    @property
    def how(self) -> str:
        """How it was estimated, in words."""
        return stated_kind(self.by, self.alpha)

    def __repr__(self) -> str:
        return (
            f"{self.method}: MSE {self.mean:.3g}  [{self.low:.3g}, {self.high:.3g}] of "
            f"{self.answers}, by {self.how}"
        )

    def _repr_html_(self) -> str:
        """Return the risk as notebooks show it."""
        facts = [
            ("mean squared error", f"{self.mean:.3g}"),
            (f"{percent(self.level)} interval", f"{self.low:.3g} .. {self.high:.3g}"),
            ("of", self.answers),
            ("by", self.how),
        ]
        return html_of((), facts, title=f"Risk of {self.method}")


def stated_kind(by: Kind, alpha: float) -> str:
    """Return how a risk was estimated, in words."""
    return f"{_KINDS[by]}, at {1 + alpha:g} x the noise" if by == "bootstrap" else _KINDS[by]


@dataclass(frozen=True)
class RiskRow:
    """One candidate among several.

    Attributes
    ----------
    risk
        Its risk.
    excess
        Its error minus that of the best candidate on the same collection.
    excess_low, excess_high
        Interval of that difference, which the noise of the raw estimate does not enter; all three
        are 0 of the best.
    """

    risk: Risk
    excess: float
    excess_low: float
    excess_high: float

    @property
    def method(self) -> str:
        """Its name."""
        return self.risk.method


@dataclass(frozen=True, repr=False)
class RiskTable(ShownAsTable):
    """The risks of several candidates on one collection, the smallest first.

    Attributes
    ----------
    rows
        One per candidate.
    dropped
        Why each candidate without an answer is not among them, by its name.
    """

    rows: tuple[RiskRow, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The name of the candidate with the smallest estimated error."""
        return self.rows[0].method

    def row(self, method: str) -> RiskRow:
        """Return the row of a candidate; a name that is not among them raises a KeyError."""
        by_name = {row.method: row for row in self.rows}
        return by_name[method]

    @classmethod
    def of(
        cls,
        evidence: Mapping[str, Evidence],
        collection: Collection,
        by: Kind,
        dropped: Mapping[str, str],
        *,
        level: float,
        alpha: float,
    ) -> RiskTable:
        """Return the table of several candidates' evidence on the same moves."""
        # Of equal risks the candidate that was named first is the best.
        names = sorted(evidence, key=lambda name: evidence[name].total)
        best = evidence[names[0]]
        k = collection.count
        # Any other candidate might have been the best of this collection: what is chosen as the
        # smallest was likely estimated too low. Intervals that hold for each of them hold for it.
        reach = reach_of(1 - (1 - level) / max(len(names) - 1, 1))
        rows = []
        for name in names:
            risk = Risk.of(name, evidence[name], collection, by, level=level, alpha=alpha)
            excess = evidence[name].excess(best) / k
            half = 0.0
            if evidence[name] is not best:
                half = evidence[name].excess_reach(best, collection, reach) / k
                # Equal answers of two formulas differ by rounding, which makes neither worse.
                half = max(half, _ROUNDING * collection.noise_total / k)
            rows.append(RiskRow(risk, excess, excess - half, excess + half))
        return cls(tuple(rows), dict(dropped))

    def to_frame(self) -> Any:
        """Return the rows as a DataFrame; the error of a missing pandas names the remedy."""
        records = []
        for row in self.rows:
            record = asdict(row.risk)
            record["excess"] = row.excess
            record["excess_low"] = row.excess_low
            record["excess_high"] = row.excess_high
            records.append(record)
        return data_frame(records, "the attribute rows")

    def plot(self) -> Figure:
        """Return a picture of how far each candidate is above the best, with intervals."""
        with extra_needed():
            from ldpopt.risks.figure import risk_figure

        excess = [[row.excess, row.excess_low, row.excess_high] for row in self.rows]
        title = f"{self.title}; bars: {percent(self.rows[0].risk.level)} intervals"
        return risk_figure([row.method for row in self.rows], np.array(excess), title)

    @property
    def title(self) -> str:
        """What the table is of."""
        first = self.rows[0].risk
        return f"Risk of {first.answers}, by {first.how}"

    def _texts(self) -> list[list[str]]:
        texts = []
        for row in self.rows:
            risk = row.risk
            interval = f"{risk.low:.3g} .. {risk.high:.3g}"
            above = f"{row.excess:.3g} ({row.excess_low:.3g} .. {row.excess_high:.3g})"
            if row is self.rows[0]:
                above = "–"
            texts.append([row.method, f"{risk.mean:.3g}", interval, above, self.verdict(row)])
        return texts

    def verdict(self, row: RiskRow) -> str:
        """Return "best", "worse", or "undecided" where the difference may be 0."""
        if row is self.rows[0]:
            return "best"
        return "undecided" if row.excess_low <= 0 else "worse"

    def notes(self) -> list[str]:
        """Return sentences: the level of the intervals, and which candidates have no answer."""
        level = f"intervals have a level of {percent(self.rows[0].risk.level)}"
        return [level, *(f"{name} is dropped: {reason}" for name, reason in self.dropped.items())]

    @property
    def _table(self) -> TitledTable:
        return TitledTable(self.title, _HEADINGS, self._texts(), self.notes())
