"""One page: every figure with the statements of its paper, measured on ours; and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import jinja2

from experiments.cells.populations import POPULATIONS
from experiments.compare.findings import Finding, Verdict, statements
from experiments.errors import ExperimentError
from experiments.figures import FIGURES
from experiments.run import replace_text
from experiments.tables import read_rows

_SHOWN = 6  # readings of a statement that are shown: those farthest from its bounds


def write_page(out: Path) -> None:
    """Write ``out/compare.html`` and ``out/statements.json`` from the tables in ``out``."""
    findings = statements(out)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["short"] = lambda x: f"{x:,.4g}" if abs(x) < 1e5 else f"{x:,.0f}"
    environment.globals["extremes"] = extremes
    sections = []
    for figure in FIGURES.values():
        path = out / f"{figure.name}.csv"
        rows = read_rows(path) if path.exists() else []
        there = {row.dataset for row in rows}
        sections.append(
            {
                "figure": figure,
                "trials": sorted({row.trials for row in rows}),
                "notes": [
                    POPULATIONS[p].note
                    for p in figure.experiment.populations
                    if p in there and POPULATIONS[p].note
                ],
                "missing": [
                    POPULATIONS[p].label for p in figure.experiment.populations if p not in there
                ],
                "findings": [f for f in findings if f.statement.figure == figure.name],
            }
        )
    page = environment.get_template("compare.html.j2").render(
        sections=sections,
        verdicts=Counter(str(f.verdict) for f in findings),
        Verdict=Verdict,
        findings=findings,
    )
    records = json.dumps([f.record() for f in findings], indent=1, ensure_ascii=False)
    try:
        replace_text(out / "compare.html", page)
        replace_text(out / "statements.json", records + "\n")
    except OSError as error:
        raise ExperimentError(
            f"cannot write the comparison to {out}: {error.strerror}; "
            "make room or give another --out"
        ) from None


def extremes(finding: Finding) -> list:
    """Return the readings that contradict most; where all agree, the lowest and the highest."""
    # Readings that contradict come first: they decide the verdict.
    against = sorted((r for r in finding.readings if not r.agrees), key=lambda r: not r.contradicts)
    if against:
        return against[:_SHOWN]
    ordered = sorted(finding.readings, key=lambda r: r.measured.value)
    return ordered if len(ordered) <= 2 else [ordered[0], ordered[-1]]
