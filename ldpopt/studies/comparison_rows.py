"""The rows of a comparison of paths and solvers, as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ldpopt.printable import cell


@dataclass(frozen=True)
class ComparisonRow:
    """One solver on one problem, against the closed form. A missing number is None.

    Attributes
    ----------
    problem, d, path, solver, accuracy
        The problem and its size; the path, solver and settings that were used.
    status
        Status of the solution; "unsupported" if the solver cannot take the problem, "failed" if it
        returned no point.
    first_seconds, compile_seconds, seconds
        Wall time of the first solve, the part of it that was compilation, and the wall time of the
        fastest repetition.
    slowdown
        ``seconds`` over those of the first row, the path that ``Problem.solve`` takes by itself.
    difference
        Largest coordinate difference to the reference: the closed form, or else the best certified
        point. Where solutions are not unique (least absolute deviations), it says little.
    gap, violation
        Of the certificate, in the loss's own units and in frequencies.
    note
        Why a solver failed, or which could take the problem; or that a point is far from the
        reference and as good.
    iterations
        Of the solver; 0 where it reports none.
    is_reference
        Whether differences are to this row's point.
    """

    problem: str
    d: int
    path: str
    solver: str
    accuracy: str
    status: str
    # What follows is missing where a solver returned no point.
    first_seconds: float | None = None
    compile_seconds: float | None = None
    seconds: float | None = None
    slowdown: float | None = None
    difference: float | None = None
    gap: float | None = None
    violation: float | None = None
    note: str = ""
    iterations: int | None = None
    is_reference: bool = False

    @property
    def is_own_path(self) -> bool:
        """Whether this is the path that the library takes by itself, which has no setting."""
        return not self.accuracy


def notes_of(rows: Sequence[ComparisonRow]) -> list[tuple[ComparisonRow, str]]:
    """Return each note once, with the first row that has it and all solvers that have it.

    Accuracies are named where a solver has the note at some of them alone.
    """
    noted: dict[tuple[str, int, str], list[ComparisonRow]] = {}
    for row in rows:
        if row.note:
            noted.setdefault((row.problem, row.d, row.note), []).append(row)
    notes = []
    for (problem, d, _), having in noted.items():
        of_problem = [row for row in rows if (row.problem, row.d) == (problem, d)]
        names = []
        for name in dict.fromkeys(map(_named, having)):
            at = [row.accuracy for row in having if _named(row) == name]
            is_always = len(at) == sum(_named(row) == name for row in of_problem)
            names.append(name if is_always else f"{name} at {', '.join(at)}")
        notes.append((having[0], "; ".join(names)))
    return notes


def _named(row: ComparisonRow) -> str:
    # Without a closed form the same solver may stand in two rows: by itself, and as named.
    return f"auto: {row.solver}" if row.is_own_path else row.solver


def to_csv(rows: Sequence[ComparisonRow]) -> str:
    """Return rows as CSV with a header; a missing number is empty."""
    text = io.StringIO()
    names = [field.name for field in fields(ComparisonRow)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        # Texts of users could begin as formulas of a spreadsheet.
        {k: cell(v) if isinstance(v, str) else v for k, v in asdict(row).items()}
        for row in rows
    )
    return text.getvalue()


def to_json(rows: Sequence[ComparisonRow]) -> str:
    """Return rows as a JSON list; a missing number is null, an infinite one or NaN is text."""
    return json.dumps([_finite(asdict(row)) for row in rows], indent=2, allow_nan=False)


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    # JSON has no infinity. A gap is infinite where no multipliers were found.
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }
