"""The ledger's results in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.engine.run import Result
from ldpopt.claims.statements import PAPERS, tallies
from ldpopt.printable import counted

# Red is for surprises alone, and green for statements that are true: not for those of which
# nothing is known.
_COLOURS = {
    Verdict.PROVED: "bold green",
    Verdict.HOLDS: "green",
    Verdict.CORRECTED: "yellow",
    Verdict.FAILS: "magenta",
    Verdict.INCONCLUSIVE: "cyan",
    Verdict.UNCHECKED: "blue",
}


def claims_table(results: Iterable[Result], title: str = "Claims ledger") -> Table:
    """Return one row per claim: its statement and source, its verdict, the size of its check."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    table.add_column("claim")
    # Statements give way where the terminal is narrow; a broken verdict would be hard to find.
    table.add_column("verdict", no_wrap=True)
    table.add_column("checks", justify="right", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for result in results:
        claim = result.claim
        statement = f"{escape(claim.statement)} [dim]({escape(claim.source)})[/]"
        table.add_row(
            f"[bold]{claim.id}[/]\n{statement}",
            _verdict(result),
            f"{result.finding.instances:,}",
            f"{result.seconds:.1f}",
        )
    return table


def corrections_table(results: Iterable[Result]) -> Table:
    """Return one row per claim that holds as corrected: what is printed, and what is right."""
    table = Table(
        box=box.SIMPLE_HEAD, title="What is printed, and what is right", title_justify="left"
    )
    # Equal halves: both are sentences of any length.
    table.add_column("as printed", ratio=1)
    table.add_column("corrected", ratio=1)
    for result in results:
        claim = result.claim
        table.add_row(
            # The id first, in bold: it shows where a row begins.
            f"[bold]{claim.id}:[/] {escape(claim.statement)} [dim]({escape(claim.source)})[/]",
            escape(result.finding.correction),
        )
    return table


def failures_table(results: Iterable[Result]) -> Table:
    """Return one row per claim that fails: what is printed, and where."""
    table = Table(box=box.SIMPLE_HEAD, title="What is printed, and false", title_justify="left")
    table.add_column("as printed")
    table.add_column("source")
    for result in results:
        claim = result.claim
        table.add_row(f"[bold]{claim.id}:[/] {escape(claim.statement)}", escape(claim.source))
    return table


def papers_table(results: Iterable[Result]) -> Table:
    """Return one column per paper: how its statements ended, and how many have no verdict."""
    title = "Statements of the papers, each by the weakest of its claims"
    table = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        # The summary, a line below, has other numbers for the same words.
        caption="The numbers of claims differ: a statement may need several of them, and one claim "
        "may check several statements. Those about figures run with --figures alone.",
        caption_justify="left",
    )
    table.add_column("verdict", no_wrap=True)
    for letter, title in PAPERS.items():
        table.add_column(f"{letter}: {title}", justify="right")
    table.add_column("all", justify="right")
    for heading, numbers in tally_rows(results):
        table.add_row(heading, *map(str, [*numbers, sum(numbers)]))
    return table


def tally_rows(results: Iterable[Result]) -> list[tuple[str, list[int]]]:
    """Return how the papers' statements ended: a heading, and a number per paper."""
    papers = list(tallies({result.claim.id: result.finding.verdict for result in results}))
    # In the order of the verdicts, so that empty rows show too.
    return [
        *((str(verdict), [tally.verdicts[verdict] for tally in papers]) for verdict in Verdict),
        ("not run", [tally.not_run for tally in papers]),
        ("no claim, with the reason", [tally.without_claim for tally in papers]),
        ("all", [tally.total for tally in papers]),
    ]


def _verdict(result: Result) -> str:
    verdict = result.finding.verdict
    if result.as_expected:
        return f"[{_COLOURS[verdict]}]{verdict}[/]\n[dim]as expected[/]"
    return f"[bold red]{verdict}[/]\n[bold red]expected\n{result.expectation}[/]"


def claims_summary(results: Sequence[Result]) -> str:
    """Return one line: the number of claims by verdict, and those that are surprises."""
    counts = Counter(result.finding.verdict for result in results)
    by_verdict = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
    summary = f"{counted(len(results), 'claim')}: {by_verdict}"
    # By name, since a table of a hundred rows hides them.
    surprises = [_surprise(result) for result in results if not result.as_expected]
    if surprises:
        listed = ", ".join(surprises)
        return f"[bold red]{summary}; not what the ledger expects:[/] {listed}"
    return f"[green]{summary}; all as expected[/] (fails: the papers' statement is wrong)."


def _surprise(result: Result) -> str:
    """Return the id of a claim, with the exception that ended its check if there is one."""
    if not result.raised:
        return result.claim.id
    return f"{result.claim.id} [dim](its check raised {escape(result.raised)})[/]"


def lost_line(lost: Sequence[str]) -> str:
    """Return one line about how the list of statements and the ledger differ."""
    listed = escape("; ".join(lost))
    return f"[bold red]The list of statements and the ledger do not match:[/] {listed}."


def defects_line(defects: Sequence[str]) -> str:
    """Return one line about what is wrong with the tables of a run of the figures."""
    return f"[bold red]The tables of the figures are not whole:[/] {escape('; '.join(defects))}."
