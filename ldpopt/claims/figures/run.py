"""All statements on the papers' figures, judged on one run, as results that the ledger can show."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ldpopt.claims.engine.claim import Claim, Finding, Verdict
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.run import Result
from ldpopt.claims.figures import calibrate, draft, ndss
from ldpopt.claims.figures.checks import Reading
from ldpopt.claims.figures.datasets import NAMES, STAND_INS
from ldpopt.claims.figures.judge import MISS, Judged, OnData, judge
from ldpopt.claims.figures.manifest import ROWS, defects_of
from ldpopt.claims.figures.results import Results
from ldpopt.claims.figures.statement import Statement
from ldpopt.errors import DataUnavailableError

STATEMENTS: tuple[Statement, ...] = (*ndss.STATEMENTS, *draft.STATEMENTS, *calibrate.STATEMENTS)
"""All statements, in the order of the papers."""

NUMBER = {"N": 55, "D": 45, "K": 26}
"""How many statements of each paper there must be: one that is lost is a defect of the ledger."""


@dataclass(frozen=True)
class FigureRun:
    """A run of the figures and what it says of the papers' statements.

    Attributes
    ----------
    results
        Every statement with its verdict and evidence, in the order of the papers.
    defects
        What is wrong with the run itself: tables that are missing, shortened or altered, and
        statements that are lost. Nothing that such a run says is to be believed.
    """

    results: tuple[Result, ...]
    defects: tuple[str, ...]


def read_figure_run(folder: Path) -> FigureRun:
    """Judge all statements on the tables of a run of the figures.

    Parameters
    ----------
    folder
        Where the run wrote its tables.

    Raises
    ------
    DataUnavailableError
        If the folder has none of the tables, or one that cannot be read.

    Notes
    -----
    The expected verdicts are those of the run that the repository keeps, at the papers' numbers of
    trials and without Kosarak, POS and Fire. A run with more data or fewer trials differs from
    them, and the ledger says so.

    Cost: about half a second for all figures; nothing is simulated.
    """
    if not any((folder / f"{figure}.csv").exists() for figure in ROWS):
        raise DataUnavailableError(
            f"{folder} has no tables of the figures: "
            f"`python -m experiments run all --out {folder}` writes them"
        )
    tables = Results(folder)
    results = []
    try:
        defects = (*defects_of(tables), *_lost(STATEMENTS, NUMBER))
        for statement in STATEMENTS:
            # Reading a table counts for the statement that asks for it first.
            began = time.perf_counter()
            judged = judge(statement, tables)
            results.append(_result(judged, time.perf_counter() - began))
    except ValueError as error:
        raise DataUnavailableError(f"{error}; write the tables anew") from None
    return FigureRun(tuple(results), defects)


def _lost(statements: Iterable[Statement], number: Mapping[str, int]) -> Iterator[str]:
    # A source begins with the letter of its paper.
    present = Counter(statement.source[0] for statement in statements)
    for paper, expected in number.items():
        if present[paper] != expected:
            yield f"{present[paper]} statements on figures of {paper}, and not {expected}"


def _result(judged: Judged, seconds: float) -> Result:
    """Return a judged statement as the result of a claim."""
    statement = judged.statement
    finding = _finding(judged)

    def check(_: InstanceSet) -> Finding:
        # Judged on the tables, which have nothing to do with the ledger's instances.
        return finding

    claim = Claim(
        id=statement.id,
        source=statement.source,
        statement=statement.text,
        expected=statement.expected,
        check=check,
        topic=f"Figures of {statement.source[0]}, judged on the tables of a run",
    )
    return Result(claim, finding, seconds)


# Whether a statement holds, and whether its correction does.
_HOLDS = {
    Verdict.HOLDS: (True, None),
    Verdict.CORRECTED: (False, True),
    Verdict.FAILS: (False, False),
    Verdict.INCONCLUSIVE: (None, None),
    Verdict.UNCHECKED: (None, None),
}


def _finding(judged: Judged) -> Finding:
    """Return the verdict of a statement with its evidence."""
    holds, corrected = _HOLDS[judged.verdict]
    deciding = [part for part in judged.on_data if part.dataset not in STAND_INS]
    return Finding(
        holds=holds,
        instances=sum(len(part.readings) for part in deciding),
        evidence=_evidence(judged),
        corrected=corrected,
        missing=_missing(judged) if judged.verdict is Verdict.UNCHECKED else "",
    )


def _missing(judged: Judged) -> str:
    """Return what would be needed to decide: the paper's data sets that are not here."""
    if judged.statement.missing:
        return judged.statement.missing
    absent = [
        NAMES[part.dataset]
        for part in judged.on_data
        if part.dataset in STAND_INS or part.verdict is Verdict.UNCHECKED
    ]
    return ", ".join(absent)


def _evidence(judged: Judged) -> dict[str, float | int | str]:
    statement = judged.statement
    evidence: dict[str, float | int | str] = {
        "figure": statement.figure,
        # First of all, so that a reader sees the rule before the numbers.
        "how it is judged": statement.how,
    }
    # A reason that was written for another verdict would mislead.
    if statement.why and judged.verdict is statement.expected:
        evidence["reason"] = statement.why
    # Without checks there is nothing to show on any of them.
    for part in judged.on_data if statement.checks else ():
        evidence[f"on {NAMES[part.dataset]}"] = describe(part)
    if judged.verdict is Verdict.CORRECTED and statement.correction is not None:
        evidence["correction"] = statement.correction.text
        for part in judged.corrected:
            evidence[f"correction on {NAMES[part.dataset]}"] = describe(part)
    return evidence


def describe(part: OnData) -> str:
    """Return what a statement's readings say on one data set, in words."""
    if not part.readings:
        return "not judged" if part.dataset in STAND_INS else "not here, or not judged"
    counts = (
        (len(part.agreeing), "agree"),
        (len(part.open), "leave it open"),
        (len(part.contradicting), "contradict"),
    )
    shares = ", ".join(f"{number} {what}" for number, what in counts if number)
    # The readings that speak most against a statement come first.
    text = f"{part.verdict}: of {len(part.readings)} readings {shares}"
    text += "; " + "; ".join(spoken(reading) for reading in _shown(part))
    if part.dataset in STAND_INS:
        return f"{STAND_INS[part.dataset]}, which decides nothing: {text}"
    return text


def _shown(part: OnData) -> list[Reading]:
    """Return the first reading against a statement, or the two extremes of those for it."""
    against = [*part.contradicting[:1], *part.open[:1]]
    if against:
        return against
    ordered = sorted(part.readings, key=lambda reading: reading.measured.value)
    return ordered if len(ordered) == 1 else [ordered[0], ordered[-1]]


def spoken(reading: Reading) -> str:
    """Return a reading as text: its place, its value, and its 95 % interval."""
    low, high = reading.measured.interval(MISS / 2)
    return f"{reading.where}: {reading.measured.value:.4g} [{low:.4g}, {high:.4g}]"
