"""The claims ledger as pages: a table to filter, and each claim with its evidence and its code."""

import html
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ldpopt.claims import LEDGER, Claim, Verdict
from ldpopt.claims.statements import PAPERS
from ldpopt.proofs import accepted_theorems
from ldpopt.rendering.page import MEANINGS, OTHER, papers_of

Record = dict[str, Any]
"""A claim as `ldpopt verify` writes it: id, source, statement, verdict, evidence, ..."""

_ABOUT = """# Claims ledger

Each line is a statement about post-processing, most of them from three papers, with the verdict
that its check reaches: N is Wang et al. (NDSS 2020), D its draft of 2019, K Jia and Gong (INFOCOM
2019). `ldpopt verify` computes every verdict anew; `make verify` also judges the papers' figures.
An id leads to the evidence and to the code that decides.

Statements use the papers' symbols: f̃ is the raw estimate, f' the answer, D1 the values whose answer
is positive and D0 the others, p and q the probabilities of the protocol, and κ = b/a how much the
variance grows with the frequency ([noise](../explanation/noise.md)).

"""


def write(folder: Path, records: Sequence[Record]) -> None:
    """Write the ledger's table and one page per topic.

    Parameters
    ----------
    folder
        Of the pages.
    records
        The claims of the ledger; statements about figures are on the figures' pages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    computed = [record for record in records if record["id"] in LEDGER]
    topics: dict[str, list[Record]] = {}
    for record in computed:
        topics.setdefault(LEDGER[record["id"]].topic, []).append(record)
    pages = {topic: slug(LEDGER[of[0]["id"]]) for topic, of in topics.items()}
    for topic, of_topic in topics.items():
        text = "\n".join([f"# {topic}", "", *_claims(of_topic)])
        (folder / f"{pages[topic]}.md").write_text(text, encoding="utf-8")
    links = {record["id"]: pages[LEDGER[record["id"]].topic] for record in computed}
    toctree = ["```{toctree}", ":hidden:", "", *pages.values(), "```", ""]
    index = [_ABOUT, *_meanings(), *table(computed, links), "", *toctree]
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")


def _meanings() -> Iterator[str]:
    """Yield a folded list of the verdicts, in the words of the report."""
    yield ":::{dropdown} What the verdicts mean"
    for verdict, meaning in MEANINGS.items():
        yield f"- **{verdict}**: {meaning}"
    yield from (":::", "")


def slug(claim: Claim) -> str:
    """Return the name of the page of a claim's topic: that of its module."""
    return claim.check.__module__.rpartition(".")[-1]


def badge(verdict: str) -> str:
    """Return a verdict as a coloured word."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def table(records: Sequence[Record], links: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a table that readers filter by paper, verdict and words.

    Parameters
    ----------
    records
        The rows.
    links
        By id: the page that holds the claim.
    """
    yield "```{raw} html"
    yield '<form class="filter" role="search" aria-label="Claims">'
    yield _choice("paper", "all papers", {**PAPERS, OTHER: "derived here"})
    yield _choice("verdict", "all verdicts", {str(v): str(v) for v in Verdict})
    yield '<input type="search" name="words" placeholder="words" aria-label="Words">'
    yield '<output class="count"></output></form>'
    yield '<div class="pst-scrollable-table-container"><table class="table claims"><thead><tr>'
    yield "<th>Claim</th><th>Source</th><th>Statement</th><th>Verdict</th></tr></thead><tbody>"
    for record in records:
        name = record["id"]
        papers = " ".join(papers_of(record["source"]))
        yield (
            f'<tr data-paper="{papers}" data-verdict="{record["verdict"]}">'
            f'<td><a href="{links[name]}.html#{name}"><code>{name}</code></a></td>'
            f"<td>{html.escape(record['source'])}</td><td>{html.escape(record['statement'])}</td>"
            f"<td>{badge(record['verdict'])}</td></tr>"
        )
    yield "</tbody></table></div>"
    yield "```"


def _choice(name: str, everything: str, options: dict[str, str]) -> str:
    listed = "".join(f'<option value="{key}">{text}</option>' for key, text in options.items())
    return (
        f'<select name="{name}" aria-label="{name.capitalize()}">'
        f'<option value="">{everything}</option>{listed}</select>'
    )


def _claims(records: Sequence[Record]) -> Iterator[str]:
    theorems = accepted_theorems()
    for record in records:
        claim = LEDGER[record["id"]]
        yield from entry(record)
        for name in claim.theorems:
            if name not in theorems:
                continue
            theorem = theorems[name]
            yield from (f":::{{dropdown}} Theorem `{name}` of `{theorem.file}`", theorem.prose, "")
            yield from ("```coq", theorem.statement, "```", ":::", "")
        yield from (":::{dropdown} The code that decides", "`````python")
        yield inspect.getsource(claim.check).rstrip()
        yield from ("`````", ":::", "")


def entry(record: Record) -> Iterator[str]:
    """Yield a claim's heading, statement, verdict and evidence."""
    yield from (f"({record['id']})=", f"## `{record['id']}`", "")
    yield "```{raw} html"
    yield f"<p>{html.escape(record['statement'])}"
    yield f'<span class="source">({html.escape(record["source"])})</span></p>'
    yield f"<p>{badge(record['verdict'])}{_extent(record)}</p>"
    evidence = dict(record["evidence"])
    if correction := evidence.pop("correction", ""):
        printed = html.escape(record["statement"])
        yield f'<div class="pair"><div><strong>As printed</strong>{printed}</div>'
        yield f"<div><strong>Corrected</strong>{html.escape(correction)}</div></div>"
    yield '<details class="evidence"><summary>Evidence</summary><table class="table"><tbody>'
    for what, value in evidence.items():
        yield f"<tr><td>{html.escape(what)}</td><td>{html.escape(_shown(value))}</td></tr>"
    yield from ("</tbody></table></details>", "```", "")


def _extent(record: Record) -> str:
    """Return on how many inputs a verdict rests; nothing where nothing could be tried."""
    instances = record["instances"]
    if not instances:
        return ""
    inputs = f"{instances:,} input{'' if instances == 1 else 's'}"
    # Of other data, or of those among the paper's that are at hand.
    if record["verdict"] == Verdict.UNCHECKED:
        return f" (the evidence shows {inputs}, and decides nothing)"
    return f" on {inputs}"


def _shown(value: float | int | str) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
