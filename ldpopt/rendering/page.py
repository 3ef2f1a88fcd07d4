"""What all self-contained pages share: a template to extend, its words and its looks.

Such a page is one file, which can be sent on: style, script and pictures are inside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import jinja2

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.statements import PAPERS

MEANINGS = {
    Verdict.PROVED: "true for every input, by theorems that a proof checker accepted; the code "
    "agrees with them wherever it was tried.",
    Verdict.HOLDS: "true wherever it was tried. Each could have ended otherwise.",
    Verdict.CORRECTED: "false as printed, by a misprint or a missing condition, and true in a "
    "version that stands beside each.",
    Verdict.FAILS: "false as printed, with the numbers that contradict it.",
    Verdict.INCONCLUSIVE: "measured, with intervals that allow the statement and its opposite.",
    Verdict.UNCHECKED: "about data or code that are not available here.",
}
"""What a verdict says of a statement."""


def environment(folder: Path | None = None) -> jinja2.Environment:
    """Return the environment of a page, with templates of a folder beside those of this package.

    A template extends ``page.html.j2``, and is rendered with ``title``, ``places`` (anchors of the
    page with their words), and the block ``main``.
    """
    loaders: list[jinja2.BaseLoader] = [jinja2.PackageLoader("ldpopt.rendering", "templates")]
    if folder is not None:
        loaders.append(jinja2.FileSystemLoader(folder))
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        # A name that a template misspells is an error, and not an empty place on the page.
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    # The name of a class has no spaces, the words of a verdict do.
    environment.filters["class"] = lambda verdict: str(verdict).replace(" ", "-")
    environment.globals |= {
        "every_verdict": list(Verdict),
        "papers_of": papers_of,
        "titles": {**PAPERS, OTHER: "derived here"},
    }
    return environment


OTHER = "other"
"""Stands for a paper where a statement is of none."""


def papers_of(source: str) -> list[str]:
    """Return the letters of the papers that a source names, or ``OTHER`` where it names none.

    Examples
    --------
    >>> papers_of("N IV-C, D 3.6; N VI"), papers_of("Nielsen")
    (['N', 'D'], ['other'])
    """
    words = [part.split() for part in source.replace(";", ",").split(",")]
    letters = [first for first, *_ in filter(None, words) if first in PAPERS]
    return list(dict.fromkeys(letters)) or [OTHER]


def papers_among(sources: Iterable[str]) -> list[str]:
    """Return the papers that any of the sources names, in their order, for a filter."""
    present = {letter for source in sources for letter in papers_of(source)}
    return [letter for letter in (*PAPERS, OTHER) if letter in present]
