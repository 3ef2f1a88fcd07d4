"""The list of all checkable statements of the three papers, and what became of each.

The list is data: ``ndss.toml``, ``draft.toml`` and ``calibrate.toml``. An entry has the place, the
statement in our own short words, and the claims that judge it or the reason that it has no verdict.
All other claims are our own.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ldpopt.claims.engine.claim import Claim, Verdict

PAPERS: Mapping[str, str] = {
    "N": "Wang et al., NDSS 2020",
    "D": "its draft of 2019",
    "K": "Jia and Gong, INFOCOM 2019",
}
"""The papers by the letter that places begin with."""

NUMBER: Mapping[str, int] = {"N": 209, "D": 103, "K": 47}
"""How many statements of each paper there must be: one that is lost is a defect of the list."""

_FILES = {"N": "ndss.toml", "D": "draft.toml", "K": "calibrate.toml"}

# From what decides first to what decides last: a statement is as good as its weakest claim.
_WEAKEST_FIRST = (
    Verdict.FAILS,
    Verdict.UNCHECKED,
    Verdict.INCONCLUSIVE,
    Verdict.CORRECTED,
    Verdict.HOLDS,
    Verdict.PROVED,
)


@dataclass(frozen=True)
class PaperStatement:
    """A sentence, formula or table entry of a paper that a check could refute.

    Attributes
    ----------
    paper
        "N", "D" or "K". A statement that several papers share stands with the first.
    place, text
        Where it stands, and what it states, in our own words.
    claims
        The claims that judge it, by id: of the ledger, or of a run of the figures.
    reason
        Why nothing judges it; empty if claims do.
    """

    paper: str
    place: str
    text: str
    claims: tuple[str, ...] = ()
    reason: str = ""

    def verdict(self, verdicts: Mapping[str, Verdict]) -> Verdict | None:
        """Return the weakest verdict of its claims; None without a claim that was checked.

        Parameters
        ----------
        verdicts
            Of the claims that were checked, by id. Figures are not among them if no run of the
            figures was given: then the other claims decide.

        Examples
        --------
        >>> shared = PaperStatement("N", "N I", "It is so.", claims=("first", "second"))
        >>> str(shared.verdict({"first": Verdict.HOLDS, "second": Verdict.CORRECTED}))
        'holds-as-corrected'
        >>> shared.verdict({}) is None
        True
        """
        reached = {verdicts[claim] for claim in self.claims if claim in verdicts}
        return next((verdict for verdict in _WEAKEST_FIRST if verdict in reached), None)


@dataclass(frozen=True)
class Tally:
    """How the statements of a paper ended.

    Attributes
    ----------
    paper
        Its letter.
    verdicts
        Number of statements by verdict.
    not_run
        Number of statements whose claims were not checked in this run: those on figures.
    without_claim
        Number of statements that nothing judges, for a reason that the list gives.
    """

    paper: str
    verdicts: Counter[Verdict]
    not_run: int
    without_claim: int

    @property
    def total(self) -> int:
        """Number of the paper's statements."""
        return self.verdicts.total() + self.not_run + self.without_claim


@cache
def read_statements() -> tuple[PaperStatement, ...]:
    """Return all statements of the three papers, in the order of the papers.

    Examples
    --------
    >>> len(read_statements())
    359
    """
    return tuple(
        PaperStatement(
            paper,
            place=entry["place"],
            text=entry["text"],
            claims=tuple(entry.get("claims", ())),
            reason=entry.get("reason", ""),
        )
        for paper, file in _FILES.items()
        for entry in _read(file)["statement"]
    )


def own_claims(claims: Iterable[Claim]) -> dict[str, list[str]]:
    """Return the ids of those claims that judge no statement of the papers, by topic."""
    listed = _listed()
    chapters: dict[str, list[str]] = {}
    for claim in claims:
        if claim.id not in listed:
            chapters.setdefault(claim.topic, []).append(claim.id)
    return chapters


def defects_of_list(claims: Iterable[str], figures: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with the list, one sentence each; nothing if it is whole.

    Parameters
    ----------
    claims, figures
        The ids of all claims that exist: those of the ledger, and those on the papers' figures,
        which the papers state all.

    Examples
    --------
    >>> next(defects_of_list([], []))
    'the claim alpha-few-kept is listed and does not exist'
    """
    present = Counter(statement.paper for statement in read_statements())
    for paper, number in NUMBER.items():
        # An entry that a careless edit drops would otherwise be missed by nobody.
        if present[paper] != number:
            yield f"{present[paper]} statements of {paper} are listed, and not {number}"
    listed = _listed()
    # A statement whose claims are gone would look like one that was not run.
    for claim in sorted(listed - {*claims, *figures}):
        yield f"the claim {claim} is listed and does not exist"
    for claim in sorted(set(figures) - listed):
        yield f"the claim {claim} is not listed"


def _listed() -> set[str]:
    """Return the ids of the claims that judge a statement."""
    return {claim for statement in read_statements() for claim in statement.claims}


def _read(file: str) -> dict[str, Any]:
    text = resources.files(__package__).joinpath(file).read_text("utf-8")
    return tomllib.loads(text)


def tallies(verdicts: Mapping[str, Verdict]) -> list[Tally]:
    """Return how the statements of each paper ended.

    Parameters
    ----------
    verdicts
        Of the claims that were checked, by id.
    """
    result = []
    for paper in PAPERS:
        of_paper = [statement for statement in read_statements() if statement.paper == paper]
        # The rest has a reason in place of a claim.
        judged = [statement for statement in of_paper if statement.claims]
        reached = [statement.verdict(verdicts) for statement in judged]
        counts = Counter(verdict for verdict in reached if verdict is not None)
        without_claim = len(of_paper) - len(judged)
        result.append(Tally(paper, counts, reached.count(None), without_claim))
    return result
