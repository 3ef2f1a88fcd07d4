"""One page: every figure with the statements of its paper, judged on the tables of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from experiments.cells.populations import POPULATIONS
from experiments.errors import ExperimentError
from experiments.figures import FIGURES, Figure
from ldpopt.claims import Verdict
from ldpopt.claims.figures import STATEMENTS
from ldpopt.claims.figures.datasets import NAMES, STAND_INS
from ldpopt.claims.figures.judge import Judged, OnData, judge
from ldpopt.claims.figures.results import Results
from ldpopt.claims.figures.run import spoken
from ldpopt.errors import InvalidInputError
from ldpopt.rendering.page import MEANINGS, papers_among, papers_of
from ldpopt.rendering.page import environment as page_environment
from ldpopt.storage import write_whole

_SHOWN = 6  # readings of a statement on one data set that are shown


def write_page(out: Path) -> None:
    """Write ``out/compare.html`` from the tables in ``out``."""
    results = Results(out)
    judged = [judge(statement, results) for statement in STATEMENTS]
    page = (
        _environment()
        .get_template("compare.html.j2")
        .render(
            title="The papers' figures, and ours",
            places={"summary": "Summary", "statements": "Contents", "N": "N", "D": "D", "K": "K"},
            papers_here=papers_among(one.statement.source for one in judged),
            judged=judged,
            papers=_papers([_section(figure, judged, results) for figure in FIGURES.values()]),
            verdicts=Counter(one.verdict for one in judged),
            corrected=_corrected(judged),
        )
    )
    try:
        write_whole(out / "compare.html", page.encode())
    except InvalidInputError as error:
        raise ExperimentError(f"{error}: make room or give another --out") from None


def _environment() -> jinja2.Environment:
    environment = page_environment(Path(__file__).parent / "templates")
    environment.globals |= {
        "extremes": extremes,
        "spoken": spoken,
        "names": NAMES,
        "stand_ins": STAND_INS,
        "meanings": MEANINGS,
        "corrected_verdict": Verdict.CORRECTED,
    }
    return environment


def _papers(sections: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the figures of each paper, by its letter."""
    papers: dict[str, list[dict[str, Any]]] = {}
    for section in sections:
        (letter,) = papers_of(section["figure"].source)
        papers.setdefault(letter, []).append(section)
    return list(papers.items())


def _corrected(judged: Sequence[Judged]) -> list[tuple[str, str, str, str]]:
    """Return id, source, print and correction of what holds as corrected."""
    return [
        (one.statement.id, one.statement.source, one.statement.text, one.statement.correction.text)
        for one in judged
        if one.verdict is Verdict.CORRECTED and one.statement.correction is not None
    ]


def _section(figure: Figure, judged: Sequence[Judged], results: Results) -> dict[str, Any]:
    """Return what the template shows of a figure, whose table may be absent or incomplete."""
    rows = results.rows(figure.name)
    notes, missing = _notes_and_missing(figure, {row.dataset for row in rows})
    of_figure = [one for one in judged if one.statement.figure == figure.name]
    return {
        "figure": figure,
        "trials": sorted({row.trials for row in rows}),
        "notes": notes,
        "missing": missing,
        "judged": of_figure,
        "counts": Counter(one.verdict for one in of_figure),
    }


def _notes_and_missing(figure: Figure, present: set[str]) -> tuple[list[str], list[str]]:
    """Return what to know of a figure's populations, and the labels of those without rows."""
    notes = []
    missing = []
    for name in figure.experiment.populations:
        population = POPULATIONS[name]
        if name not in present:
            missing.append(population.label)
        # Most populations are the papers' own, and need no note.
        elif population.note:
            notes.append(population.note)
    return notes, missing


def extremes(part: OnData) -> list:
    """Return the readings that do not agree; where all agree, the lowest and the highest."""
    against = [*part.contradicting, *part.open]
    if against:
        return against[:_SHOWN]
    ordered = sorted(part.readings, key=lambda reading: reading.measured.value)
    return ordered if len(ordered) <= 2 else [ordered[0], ordered[-1]]
