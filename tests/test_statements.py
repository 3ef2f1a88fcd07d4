"""The list of the papers' statements: complete, and true of the claims that exist."""

import dataclasses
import io
import re
from collections import Counter
from pathlib import Path

import pytest
from markupsafe import escape
from rich.console import Console

from ldpopt.claims import LEDGER, InstanceSet, Verdict, run_claim, statements
from ldpopt.claims.figures import STATEMENTS
from ldpopt.claims.statements import (
    NUMBER,
    PAPERS,
    PaperStatement,
    defects_of_list,
    own_claims,
    read_statements,
    tallies,
)
from ldpopt.rendering.claims_page import claims_page
from ldpopt.rendering.claims_table import papers_table

FIGURE_IDS = {statement.id for statement in STATEMENTS}
LISTED = {claim for statement in read_statements() for claim in statement.claims}
PAPER_SECTION = r"\b[NDK] [IVX\d\w]"
OWN = [claim for claims in own_claims(LEDGER.values()).values() for claim in claims]


def test_the_numbers_of_statements_are_those_that_were_counted():
    """Deleting a statement must not go unnoticed."""
    counted = Counter(statement.paper for statement in read_statements())
    assert counted == NUMBER == {"N": 209, "D": 103, "K": 47}


def test_the_list_and_the_ledger_match():
    assert list(defects_of_list(LEDGER, FIGURE_IDS)) == []


def test_a_lost_statement_and_a_lost_claim_are_defects(monkeypatch):
    shortened = read_statements()[1:]
    monkeypatch.setattr(statements, "read_statements", lambda: shortened)
    claims = set(LEDGER) - {"cls-norm-sub"}
    assert list(defects_of_list(claims, {*FIGURE_IDS, "new"})) == [
        "208 statements of N are listed, and not 209",
        "the claim cls-norm-sub is listed and does not exist",
        "the claim new is not listed",
    ]


def test_the_explanation_states_how_many_there_are_and_how_many_have_no_verdict():
    page = Path(__file__).parent.parent / "docs" / "explanation" / "ledger.md"
    text = page.read_text("utf-8")
    without = sum(bool(statement.reason) for statement in read_statements())
    assert f"{len(read_statements())} in three files" in text
    assert f"({without} have none)" in text


def test_every_statement_has_a_claim_or_a_reason_and_not_both():
    for statement in read_statements():
        assert bool(statement.claims) != bool(statement.reason), statement.text
        assert len(set(statement.claims)) == len(statement.claims), statement.text


def test_every_statement_has_a_place_in_its_paper_and_stands_once():
    statements = read_statements()
    for statement in statements:
        assert re.match(rf"{statement.paper} \S", statement.place), statement
        assert statement.text.strip() == statement.text != ""
        assert "\n" not in statement.text
    assert len({(s.place, s.text) for s in statements}) == len(statements)


def test_every_claim_that_the_list_names_exists():
    assert LISTED - set(LEDGER) - FIGURE_IDS == set()
    assert set(OWN) - set(LEDGER) == set()


def test_every_claim_is_one_of_the_papers_or_one_of_our_own():
    assert (set(LEDGER) | FIGURE_IDS) - LISTED - set(OWN) == set()
    assert set(OWN) & LISTED == set()
    assert len(set(OWN)) == len(OWN)
    chapter = "Negative controls: what certificates and comparisons refuse, and long vectors"
    assert "certificates-refuse" in own_claims(LEDGER.values())[chapter]


def test_a_claim_of_the_papers_states_a_paper_as_its_source():
    sources = {claim.id: claim.source for claim in LEDGER.values() if claim.id not in OWN}
    without = {name for name, source in sources.items() if not re.search(PAPER_SECTION, source)}
    # Two are known from others than the three papers.
    assert without <= {"multinomial-mle", "binomial-mle"}


VERDICTS = {"a": Verdict.HOLDS, "b": Verdict.CORRECTED, "c": Verdict.FAILS, "d": Verdict.UNCHECKED}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ("a", Verdict.HOLDS),
        ("ab", Verdict.CORRECTED),
        ("bd", Verdict.UNCHECKED),
        ("dc", Verdict.FAILS),
        ("az", Verdict.HOLDS),  # a claim that was not run decides nothing
        ("z", None),
    ],
)
def test_a_statement_is_as_good_as_its_weakest_claim(claims, expected):
    assert PaperStatement("N", "N I", "x", tuple(claims)).verdict(VERDICTS) is expected


def test_every_verdict_has_a_place_in_that_order():
    for verdict in Verdict:
        assert PaperStatement("N", "N I", "x", ("e",)).verdict({"e": verdict}) is verdict


def test_a_tally_accounts_for_every_statement():
    ledger_alone = {claim.id: claim.expected for claim in LEDGER.values()}
    with_figures = ledger_alone | {statement.id: statement.expected for statement in STATEMENTS}
    for verdicts in ({}, ledger_alone, with_figures):
        rows = tallies(verdicts)
        assert [row.paper for row in rows] == list(PAPERS)
        assert [row.total for row in rows] == [209, 103, 47]
    # With the figures nothing is left that was not run.
    assert [row.not_run for row in rows] == [0, 0, 0]
    assert tallies({})[0].verdicts.total() == 0
    assert tallies(ledger_alone)[0].not_run > 20
    without = sum(row.without_claim for row in rows)
    assert without == sum(bool(statement.reason) for statement in read_statements())


def test_the_table_has_a_row_per_verdict_and_a_column_per_paper():
    table = papers_table([])
    assert "--figures" in str(table.caption)
    verdicts, *papers, total = (list(column.cells) for column in table.columns)
    assert verdicts == [*map(str, Verdict), "not run", "no claim, with the reason", "all"]
    assert len(papers) == len(PAPERS)
    assert [numbers[-1] for numbers in papers] == ["209", "103", "47"]
    assert total[-1] == "359"
    # It fits a narrow terminal: a broken number could not be read.
    screen = Console(width=80, file=io.StringIO())
    screen.print(table)
    assert "…" not in screen.file.getvalue()


def test_the_page_lists_every_statement_with_its_claims_or_its_reason():
    result = run_claim(LEDGER["oue-flip"], InstanceSet(quick=True))
    control = dataclasses.replace(result, claim=LEDGER["certificates-refuse"])
    page = claims_page([result, control])
    for statement in read_statements():
        assert str(escape(statement.text)) in page
        assert str(escape(statement.reason)) in page
        # A link only where the page has the claim itself.
        assert all(f"; {claim}" in page or f'href="#{claim}"' in page for claim in statement.claims)
    ours = page.partition("Not counted as the papers'")[2]
    assert 'vectors:\n<a href="#certificates-refuse">certificates-refuse</a>.' in ours
    assert "oue-flip" not in ours
    rows = tallies({"oue-flip": result.finding.verdict})
    assert rows[0].verdicts.total() > 0
    assert page.count("not run</span>") == sum(row.not_run for row in rows)
