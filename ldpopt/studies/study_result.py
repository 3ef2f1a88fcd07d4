"""What a study returns: a tidy table with paired ratios, its values draw by draw, and a picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldpopt import validate
from ldpopt.errors import InvalidInputError, extra_needed
from ldpopt.printable import cell, counted, percent
from ldpopt.storage import write_whole
from ldpopt.studies.study_rows import Array, Interval, Place, StudyRow, mean_of, ratio_of
from ldpopt.tables import ShownAsTable, TitledTable, data_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Study(ShownAsTable):
    """Candidates on common draws: the result of ``ldpopt.study``.

    Attributes
    ----------
    values
        What was measured: for each place the candidates' values, shape (draws,), draw by draw.
    seconds
        Time per draw, by data, oracle, budget and candidate.
    candidates, baseline
        Names, and the one that ratios refer to.
    draws, level, seed
        Collections per place, probability of the intervals, and the seed.
    failed
        Candidates that had no answer in some draw, with place and reason: they have no rows there.
    """

    values: Mapping[Place, Mapping[str, Array]]
    seconds: Mapping[tuple[str, str, float, str], float]
    candidates: tuple[str, ...]
    baseline: str
    draws: int
    level: float
    seed: int
    failed: Mapping[str, str]

    @cached_property
    def rows(self) -> tuple[StudyRow, ...]:
        """The table, one row per place and candidate."""
        return tuple(self._rows())

    def _rows(self) -> Iterator[StudyRow]:
        for place, by_candidate in self.values.items():
            # The same draws as every candidate: their ratios are paired.
            others = by_candidate.get(self.baseline)
            for candidate, values in by_candidate.items():
                # A baseline that failed in a place leaves its ratios open there, and the means
                # stand.
                nothing = Interval(math.nan, math.nan, math.nan)
                ratio = nothing if others is None else ratio_of(values, others, self.level)
                mean = mean_of(values, self.level)
                yield StudyRow(
                    **asdict(place),
                    candidate=candidate,
                    draws=len(values),
                    mean=mean.value,
                    low=mean.low,
                    high=mean.high,
                    ratio=ratio.value,
                    ratio_low=ratio.low,
                    ratio_high=ratio.high,
                    seconds=self.seconds[place.data, place.oracle, place.epsilon, candidate],
                )

    def ratio(self, candidate: str, other: str | None = None, **where: Any) -> Interval:
        """Return one candidate's mean over another's (the baseline's), with its paired interval.

        Parameters
        ----------
        candidate, other
            Names.
        **where
            Which place, where there are several: ``data``, ``oracle``, ``epsilon``, ``query``,
            ``metric`` or ``parameter``.

        Raises
        ------
        InvalidInputError
            If a name is unknown, no place or more than one fits, or the candidate failed there.
        """
        # One place at a time: a ratio over several would mix errors of different sizes.
        place = self._place(where)
        values = self._values(place, candidate)
        others = self._values(place, other or self.baseline)
        return ratio_of(values, others, self.level)

    def draws_of(self, candidate: str, **where: Any) -> Array:
        """Return one candidate's values draw by draw; arguments and errors are those of ``ratio``.

        Draw i of every candidate has the same reports.
        """
        # A copy, so that nobody changes the values behind the table.
        return self._values(self._place(where), candidate).copy()

    def _values(self, place: Place, candidate: str) -> Array:
        validate.lookup("candidate", candidate, dict.fromkeys(self.candidates))
        if candidate not in self.values[place]:
            raise InvalidInputError(f"{candidate!r} has no values here: {self.failed[candidate]}")
        return self.values[place][candidate]

    def _place(self, where: Mapping[str, Any]) -> Place:
        for name in where:
            validate.lookup("part of a place", name, dict.fromkeys(_PARTS))
        # A part that is not named may have any value.
        places = [p for p in self.values if all(getattr(p, k) == v for k, v in where.items())]
        if len(places) == 1:
            return places[0]
        # Only the parts that differ can tell the places apart.
        parts = self._that_differ(_PARTS)
        raise InvalidInputError(
            f"{len(places)} places of this study fit {dict(where)}: name one by "
            f"{', '.join(parts) or 'nothing, since there is one place'}"
        )

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the table as CSV, and write it to a file if one is given; NaN is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows([_csv(value) for value in astuple(row)] for row in self.rows)
        # Whole or not at all, as every file of the library.
        if path is not None:
            write_whole(Path(path), text.getvalue().encode())
        return text.getvalue()

    def to_frame(self) -> Any:
        """Return the table as a DataFrame; the error of a missing pandas names the remedy."""
        return data_frame([asdict(row) for row in self.rows], "to_csv")

    def plot(self, metric: str | None = None) -> Figure:
        """Return a picture of one metric, by default the first: a panel per data set and oracle.

        Means run along ε, or along a parameter such as k, where there are several; otherwise the
        panel shows each candidate's ratio to the baseline with its interval.

        Raises
        ------
        InvalidInputError
            If the metric is unknown.
        """
        with extra_needed():
            from ldpopt.studies.study_figure import study_figure

        return study_figure(self.rows, self.candidates, self.baseline, metric, level=self.level)

    @property
    def _table(self) -> TitledTable:
        title = (
            f"Study of {counted(len(self.candidates), 'candidate')}, "
            f"{counted(self.draws, 'common draw')}, ratios to {self.baseline!r}"
        )
        rows = [self._texts(row) for row in self.rows]
        notes = [f"failed: {name}: {reason}" for name, reason in self.failed.items()]
        return TitledTable(title, self._headings(), rows, [*self._common(), *notes])

    @cached_property
    def _varying(self) -> tuple[str, ...]:
        """The parts of a place that differ between rows, which a printed table must have."""
        return self._that_differ(_STATED)

    def _common(self) -> list[str]:
        """Return a note of what is the same in all rows: numbers need their metric and data."""
        if not self.rows:
            return []
        first = self.rows[0]
        parts = [
            f"{name} {getattr(first, name)}"
            for name in _STATED
            if name not in self._varying and getattr(first, name) != ""
        ]
        return [f"in all rows: {', '.join(parts)}"] if parts else []

    def _that_differ(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those parts of a place that are not the same in all places."""
        values = {name: {getattr(place, name) for place in self.values} for name in names}
        return tuple(name for name, different in values.items() if len(different) > 1)

    def _headings(self) -> list[str]:
        interval = f"{percent(self.level)} interval"
        return [*self._varying, "candidate", "mean", "ratio", interval, "s per draw"]

    def _texts(self, row: StudyRow) -> list[str]:
        return [
            *(str(getattr(row, name)) for name in self._varying),
            row.candidate,
            f"{row.mean:.3g}",
            f"{row.ratio:.3f}",
            # One draw has no spread.
            "–" if math.isnan(row.ratio_low) else f"{row.ratio_low:.3f} .. {row.ratio_high:.3f}",
            f"{row.seconds:.1g}" if row.seconds < 10 else f"{row.seconds:,.0f}",
        ]


# The parts of a place that a printed table states, in a column or, where they are common, below.
_STATED = ("data", "oracle", "epsilon", "query", "metric", "parameter")

_PARTS = tuple(field.name for field in fields(Place))
_COLUMNS = tuple(field.name for field in fields(StudyRow))


def _csv(value: object) -> object:
    if isinstance(value, float):
        # All digits: another program may compute with them.
        return "" if math.isnan(value) else repr(value)
    return cell(value) if isinstance(value, str) else value
