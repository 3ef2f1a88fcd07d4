"""Every statement with its verdict: the empirical part of what is claimed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from experiments.compare import calibrate, draft, ndss
from experiments.compare.checks import Check, Reading
from experiments.compare.corrections import CORRECTIONS
from experiments.compare.results import Results
from experiments.compare.statement import Statement

STATEMENTS: tuple[Statement, ...] = (*ndss.STATEMENTS, *draft.STATEMENTS, *calibrate.STATEMENTS)
"""All statements, in the order of the papers."""

RESULTS = Path(__file__).parent.parent / "results"
"""The results of a full run that the repository keeps."""


class Verdict(StrEnum):
    """How a statement ended; the first three as in the claims ledger."""

    HOLDS = "holds"
    CORRECTED = "holds-as-corrected"
    FAILS = "fails"
    NOT_MEASURED = "not-measured"


@dataclass(frozen=True)
class Finding:
    """A statement with what was read.

    Attributes
    ----------
    statement
        What the paper says.
    readings
        The numbers it speaks of, with 95 % intervals over trials and the bounds the statement sets.
    corrected
        The readings of the corrected statement.
    verdict
        ``holds`` where readings agree and none contradicts, which it does if its whole interval
        lies outside the bounds. ``not-measured`` where the figure's data are missing.
    """

    statement: Statement
    readings: tuple[Reading, ...]
    corrected: tuple[Reading, ...]
    verdict: Verdict

    @property
    def correction(self) -> str:
        """Return what holds instead, where that is the verdict."""
        return CORRECTIONS[self.statement.id].text if self.verdict is Verdict.CORRECTED else ""

    @property
    def evidence(self) -> dict[str, Any]:
        """Return the numbers of readings and agreements, and the two extremes with their places."""
        return _summary(self.readings) | (
            {"corrected": _summary(self.corrected)} if self.corrected else {}
        )

    def record(self) -> dict[str, Any]:
        """Return id, source, statement, verdict and evidence as JSON takes them.

        The expected verdict is that of the kept statement: ``corrected`` if it has a correction.
        """
        s = self.statement
        # Derived, so that no list of verdicts has to follow the corrections.
        expected = Verdict.CORRECTED if s.id in CORRECTIONS else Verdict.HOLDS
        return {
            "id": s.id,
            "source": s.source,
            "statement": s.text,
            "figure": s.figure,
            "how": s.how,
            "verdict": str(self.verdict),
            "expected": str(expected),
            "corrected": self.correction,
            "instances": len(self.readings),
            "evidence": self.evidence,
        }


def statements(folder: Path = RESULTS) -> list[Finding]:
    """Return every statement with its verdict on the tables of a results folder.

    Cost: reads the CSV files once, a second for all figures; nothing is simulated.
    """
    results = Results(folder)
    return [judge(statement, results) for statement in STATEMENTS]


def judge(statement: Statement, results: Results) -> Finding:
    """Return a statement's verdict on these results."""
    readings, complete = _read(statement.checks, results)
    correction = CORRECTIONS.get(statement.id)
    corrected, corrected_complete = _read(correction.checks, results) if correction else ((), False)
    # A statement about two data sets is not judged by one of them.
    if not complete or not readings:
        verdict = Verdict.NOT_MEASURED
    elif _holds(readings):
        verdict = Verdict.HOLDS
    # The correction is tried only where the statement itself fails.
    elif corrected_complete and _holds(corrected):
        verdict = Verdict.CORRECTED
    else:
        verdict = Verdict.FAILS
    return Finding(statement, readings, corrected, verdict)


def _read(checks: tuple[Check, ...], results: Results) -> tuple[tuple[Reading, ...], bool]:
    """Return all readings, and whether every check has some."""
    # Read in full: whether a check has any reading is a result too.
    by_check = [tuple(check.read(results)) for check in checks]
    return tuple(reading for readings in by_check for reading in readings), all(by_check)


def _holds(readings: tuple[Reading, ...]) -> bool:
    # Of hundreds of readings some lie outside by chance: only a whole interval outside counts.
    return any(reading.agrees for reading in readings) and not any(
        reading.contradicts for reading in readings
    )


def _summary(readings: tuple[Reading, ...]) -> dict[str, Any]:
    if not readings:
        return {}
    lowest, highest = (key(readings, key=lambda r: r.measured.value) for key in (min, max))
    return {
        "read": len(readings),
        "agree": sum(r.agrees for r in readings),
        "contradict": sum(r.contradicts for r in readings),
        "lowest": _text(lowest),
        "highest": _text(highest),
    }


def _text(reading: Reading) -> str:
    m = reading.measured
    return f"{m.value:.4g} [{m.low:.4g}, {m.high:.4g}] ({reading.where})"
