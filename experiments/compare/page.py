"""One page: every figure with the statements of its paper, measured on ours; and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from experiments.cells.populations import POPULATIONS
from experiments.compare.findings import Finding, Verdict, statements
from experiments.errors import ExperimentError
from experiments.figures import FIGURES, Figure
from experiments.tables import read_rows
from ldpopt.errors import InvalidInputError
from ldpopt.storage import write_whole

_SHOWN = 6  # readings of a statement that are shown: those farthest from its bounds


def write_page(out: Path) -> None:
    """Write ``out/compare.html`` and ``out/statements.json`` from the tables in ``out``."""
    findings = statements(out)
    page = (
        _environment()
        .get_template("compare.html.j2")
        .render(
            sections=[
                _section(figure, [f for f in findings if f.statement.figure == figure.name], out)
                for figure in FIGURES.values()
            ],
            verdicts=Counter(str(finding.verdict) for finding in findings),
            Verdict=Verdict,
            findings=findings,
        )
    )
    records = json.dumps([f.record() for f in findings], indent=1, ensure_ascii=False)
    try:
        write_whole(out / "compare.html", page.encode())
        write_whole(out / "statements.json", f"{records}\n".encode())
    except InvalidInputError as error:
        raise ExperimentError(f"{error}: make room or give another --out") from None


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        # A misspelt name in the template is an error, not an empty place on the page.
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["short"] = lambda x: f"{x:,.4g}" if abs(x) < 1e5 else f"{x:,.0f}"
    environment.globals["extremes"] = extremes
    return environment


def _section(figure: Figure, findings: Sequence[Finding], out: Path) -> dict[str, Any]:
    """Return what the template shows of a figure, whose table may be absent or incomplete."""
    path = out / f"{figure.name}.csv"
    rows = read_rows(path) if path.exists() else []
    present = {row.dataset for row in rows}
    names = figure.experiment.populations
    notes = [POPULATIONS[name].note for name in names if name in present]
    return {
        "figure": figure,
        "trials": sorted({row.trials for row in rows}),
        "notes": [note for note in notes if note],
        "missing": [POPULATIONS[name].label for name in names if name not in present],
        "findings": findings,
    }


def extremes(finding: Finding) -> list:
    """Return the readings that contradict most; where all agree, the lowest and the highest."""
    # Readings that contradict come first: they decide the verdict.
    against = sorted((r for r in finding.readings if not r.agrees), key=lambda r: not r.contradicts)
    if against:
        return against[:_SHOWN]
    ordered = sorted(finding.readings, key=lambda r: r.measured.value)
    return ordered if len(ordered) <= 2 else [ordered[0], ordered[-1]]
