"""The ledger's results as one self-contained HTML page."""

from __future__ import annotations

import base64
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from ldpopt.claims.engine.agreement import Agreement
from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.engine.run import Result
from ldpopt.claims.figures import FigureRun
from ldpopt.claims.statements import (
    PaperStatement,
    Tally,
    own_claims,
    read_statements,
    tallies,
)
from ldpopt.proofs import accepted_theorems
from ldpopt.rendering.agreement_figure import agreement_figure
from ldpopt.rendering.claims_table import tally_rows
from ldpopt.rendering.page import MEANINGS, environment, papers_among
from ldpopt.solve.programs.solvers import SOLVERS

_PLACES = {"summary": "Summary", "statements": "Claims", "papers": "Papers"}

_PACKAGES = ("ldpopt", "numpy", "scipy", "cvxpy")

# Claims that the first screen states in full, with their verdicts: what readers of the papers ask
# first, the equivalence of CLS, Norm-Sub and the MLE and what does not hold.
HEADLINES = (
    "cls-norm-sub",
    "mle-apx",
    "mle-cls-bound",
    "norm-sub-nearer",
    "independent",
    "authors-norm-sub",
)


def claims_page(
    results: Sequence[Result],
    figure_run: FigureRun | None = None,
    lost: Sequence[str] = (),
    pictures: Mapping[str, bytes] | None = None,
) -> str:
    """Return the page: what is known in words, then all claims by topic with their evidence.

    Parameters
    ----------
    results
        Of the claims that were checked.
    figure_run
        A run of the papers' figures: its statements follow the results.
    lost
        How the list of the papers' statements and the ledger differ, if they do.
    pictures
        Those of `pictures_of` that are there already; by default all are drawn now.
    """
    if figure_run is not None:
        # Statements about figures are results like all others: they count in the summary too.
        results = [*results, *figure_run.results]
    template = environment().get_template("claims.html.j2")
    if pictures is None:
        pictures = pictures_of(results)
    by_id = {result.claim.id: result for result in results}
    return template.render(
        title="ldpopt: claims ledger",
        places=_PLACES,
        papers_here=papers_among(result.claim.source for result in results),
        results=results,
        # As text inside the page: it is one file, which can be sent on.
        pictures={name: base64.b64encode(png).decode() for name, png in pictures.items()},
        theorems=accepted_theorems(),
        with_figures=figure_run is not None,
        defects=() if figure_run is None else figure_run.defects,
        lost=lost,
        surprises=[result for result in results if not result.as_expected],
        summary=_summary(results),
        headlines=[by_id[name] for name in HEADLINES if name in by_id],
        accuracy=_accuracy(results),
        corrected=_corrected(results),
        topics=_topics(results),
        counted=_counted,
        shown=_shown,
        papers=_papers(results),
        tally_rows=tally_rows(results),
        # Links lead to these alone: the others have no place on the page.
        checked=by_id.keys(),
        chapters=own_claims(result.claim for result in results),
        seconds=sum(result.seconds for result in results),
        versions=_versions(),
    )


def pictures_of(results: Iterable[Result]) -> dict[str, bytes]:
    """Return the pictures of those claims that compare a closed form with solvers, by claim.

    Each takes a fifth of a second, which a caller may spend while other claims are checked.
    """
    return {
        result.claim.id: agreement_figure(result.finding.agreement)
        for result in results
        if result.finding.agreement is not None
    }


@dataclass(frozen=True)
class _Paper:
    """A paper's statements with their verdicts, None for those without one, and their tally."""

    tally: Tally
    statements: list[tuple[PaperStatement, Verdict | None]]


def _papers(results: Sequence[Result]) -> list[_Paper]:
    """Return all statements of the papers, whether something judges them or not."""
    verdicts = {result.claim.id: result.finding.verdict for result in results}
    return [
        _Paper(
            tally,
            [
                (statement, statement.verdict(verdicts))
                for statement in read_statements()
                if statement.paper == tally.paper
            ],
        )
        for tally in tallies(verdicts)
    ]


@dataclass(frozen=True)
class _Part:
    """A verdict with its words on the first screen, and the results that it opens."""

    verdict: Verdict
    words: str
    results: list[Result]


def _summary(results: Sequence[Result]) -> list[_Part]:
    """Return what is known, and what is not, in words: one part per verdict that occurs."""
    by_verdict: dict[Verdict, list[Result]] = {verdict: [] for verdict in Verdict}
    for result in results:
        by_verdict[result.finding.verdict].append(result)
    words = {
        **MEANINGS,
        Verdict.HOLDS: _tried(by_verdict[Verdict.HOLDS]),
        Verdict.UNCHECKED: _needed(by_verdict[Verdict.UNCHECKED]),
    }
    # A sentence about no statement would only be in a reader's way.
    return [_Part(verdict, words[verdict], ended) for verdict, ended in by_verdict.items() if ended]


def _corrected(results: Sequence[Result]) -> list[tuple[str, str, str, str]]:
    """Return id, source, print and correction of what holds as corrected."""
    return [
        (result.claim.id, result.claim.source, result.claim.statement, result.finding.correction)
        for result in results
        if result.finding.correction
    ]


def _topics(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    """Return the topics in their order, each with its results."""
    topics: dict[str, list[Result]] = {}
    for result in results:
        topics.setdefault(result.claim.topic, []).append(result)
    return list(topics.items())


def _counted(results: Sequence[Result]) -> Counter[Verdict]:
    return Counter(result.finding.verdict for result in results)


def _tried(results: Sequence[Result]) -> str:
    """Return on how many inputs statements hold."""
    # Figures are judged by readings, numbers of their tables; the rest on vectors and settings.
    readings = sum(r.finding.instances for r in results if "figure" in r.finding.evidence)
    inputs = sum(result.finding.instances for result in results) - readings
    figures = f", and in {readings:,} numbers of the figures" if readings else ""
    return (
        f"true wherever they were tried: on {inputs:,} vectors, reports and settings{figures}. "
        "Each could have ended otherwise."
    )


def _needed(results: Sequence[Result]) -> str:
    """Return what is missing, with the number of statements that need it."""
    # What most statements lack comes first: that is what to look for.
    numbers = Counter(part for r in results for part in r.finding.missing.split(", "))
    listed = ", ".join(f"{part} ({number})" for part, number in numbers.most_common())
    return (
        f"about data or code that are not available here: {listed}. Data that stand in for a "
        "paper's are shown in the evidence, and decide nothing."
    )


def _accuracy(results: Sequence[Result]) -> str:
    """Return to what accuracy closed forms solve their problems; empty if none was compared."""
    compared = [r.finding.agreement for r in results if r.finding.agreement is not None]
    if not compared:
        return ""
    # The worst over all of them, not a mean: one wrong answer must be seen.
    total = Agreement.merged(compared)
    text = (
        f"{len(compared)} of the claims compare a closed form with {len(total.solvers)} solvers. "
        f"By its certificate the closed form's loss is at most {total.gap:.1g} above the minimum "
        f"(divided by the largest slope of the loss), on {total.vectors:,} vectors."
    )
    if total.exact.vectors:
        text += (
            f" On {total.exact.vectors:,} of them the exact minimiser was computed too, in "
            "rational numbers: no frequency of the closed form differs from it by more than "
            f"{total.exact.distance:.1g}."
        )
    return text


def _versions() -> dict[str, str]:
    """Return the versions of Python, of the packages and of the solvers that are installed."""
    versions = {"Python": platform.python_version()}
    for package in (*_PACKAGES, *(solver.package for solver in SOLVERS.values())):
        with suppress(PackageNotFoundError):  # some solvers come with an extra
            versions[package] = version(package)
    return versions


def _shown(value: float | int | str) -> str:
    # Four digits: the page is read, and claims.json has all of them.
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
