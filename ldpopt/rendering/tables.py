"""Tables for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.engine.run import Result
from ldpopt.methods import METHODS
from ldpopt.studies.audit import OracleAudit
from ldpopt.studies.comparison import Row

_COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.CORRECTED: "yellow",
    Verdict.FAILS: "magenta",
}  # red is for surprises alone
_LINES = 20  # of an estimate that fit one screen
_ROOMY = 100  # columns of a terminal that hold all there is to say of a comparison


def claims_table(results: Iterable[Result]) -> Table:
    """Return one row a claim: what it says and where, its verdict, and on how much it was checked."""
    table = Table(box=box.SIMPLE_HEAD, title="Claims ledger", title_justify="left")
    table.add_column("claim")
    table.add_column("verdict", no_wrap=True)
    table.add_column("checks", justify="right", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for result in results:
        claim, verdict = result.claim, result.finding.verdict
        text = f"[{_COLOURS[verdict] if result.as_expected else 'bold red'}]{verdict}[/]"
        text += (
            "\n[dim]as expected[/]"
            if result.as_expected
            else f"\n[bold red]expected\n{claim.expected}[/]"
        )
        statement = (
            f"[bold]{claim.id}[/]\n{escape(claim.statement)} [dim]({escape(claim.source)})[/]"
        )
        table.add_row(statement, text, f"{result.finding.instances:,}", f"{result.seconds:.1f}")
    return table


def claims_summary(results: Sequence[Result]) -> str:
    """Return the ledger in one line: how many statements hold, hold as corrected and fail, and which are surprises."""
    counts = Counter(result.finding.verdict for result in results)
    told = f"{len(results)} statements: " + ", ".join(
        f"{counts[verdict]} {verdict}" for verdict in Verdict
    )
    surprises = [result.claim.id for result in results if not result.as_expected]
    if surprises:
        return f"[bold red]{told}; other than the ledger expects:[/] {', '.join(surprises)}"
    return f"[green]{told}; all as expected[/] (what fails is a statement of the papers that is wrong)."


def methods_table() -> Table:
    """Return Table I of the paper: every method with its guarantees."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title="Post-processing methods (N Table I, D Table 1)",
        title_justify="left",
    )
    table.add_column("method", style="bold", no_wrap=True)
    table.add_column("what it does")
    for column in ("≥ 0", "Σ = 1", "order", "cost"):
        table.add_column(column, no_wrap=True)
    for method in METHODS.values():
        details = [f"[dim]{escape(method.problem)}[/]"] if method.problem else []
        if method.options:
            details.append(
                "options: " + ", ".join(f"{name}={value}" for name, value in method.options.items())
            )
        description = "\n".join(
            [f"{escape(method.description)} [dim]({method.source})[/]", *details]
        )
        order = "yes" if method.preserves_order else "no"
        table.add_row(
            method.name, description, method.nonnegative, method.sums_to_one, order, method.complexity
        )  # fmt: skip
    return table


def audit_table(found: OracleAudit) -> Table:
    """Return what an audit compared: a row each for the exact loss, the reports, p and q."""
    oracle = found.oracle
    name = f"{type(oracle).__name__}, ε = {oracle.epsilon:g}, d = {oracle.d:,}"
    table = Table(box=box.SIMPLE_HEAD, title=f"Audit of {escape(name)}", title_justify="left")
    for column in ("what", "claimed", "found", ""):
        table.add_column(column)

    def row(what: str, claimed: str, seen: str, passed: bool) -> None:
        table.add_row(what, claimed, seen, "[green]passed[/]" if passed else "[bold red]failed[/]")

    exact = (
        f"ε - {oracle.epsilon - found.loss:.1e}"
        if found.loss < oracle.epsilon
        else repr(found.loss)
    )
    row("privacy loss, exactly", f"<= {oracle.epsilon:g}", exact, found.loss <= oracle.epsilon)
    pair = f"\n[dim]{found.reports.reports:,} reports each of {found.reports.pair[0]} and {found.reports.pair[1]}[/]"
    row(
        f"privacy loss, by reports{pair}",
        f"<= {oracle.epsilon:g}",
        f">= {found.reports.lower:.4f}",
        found.reports.passed,
    )
    for what, share in (
        ("own value supported", found.own),
        ("another value supported", found.other),
    ):
        row(what, f"{share.expected:.5f}", f"{share.low:.5f} .. {share.high:.5f}", share.passed)
    return table


def comparison_table(rows: Sequence[Row], width: int = 80) -> Table:
    """Return closed forms beside solvers: status, time, difference and certificate, every number whole in ``width`` columns.

    With several accuracies 80 columns have no room for the seconds of compilation, nor for a second digit of the errors.
    """
    table = Table(
        box=box.SIMPLE_HEAD,
        title="Closed form against solvers",
        title_justify="left",
        padding=(0, 0),
        pad_edge=False,
    )
    several = len({row.accuracy for row in rows if row.accuracy}) > 1
    roomy = not several or width >= _ROOMY
    table.add_column("solver", overflow="fold")  # the one that gives way
    if several:
        table.add_column("setting", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for column in ("compile",) * roomy + ("again s", "× closed", "max |Δ|", "gap", "violat."):
        table.add_column(column, justify="right", no_wrap=True)
    group = None
    for row in rows:
        if (row.problem, row.d) != group:
            group = (row.problem, row.d)
            table.add_section()
            table.add_row(f"[bold]{row.problem}[/]", *("",) * several, f"[bold]d={row.d:,}[/]")
        times = [
            _short(time) for time in (row.compile_seconds,) * roomy + (row.seconds, row.slowdown)
        ]
        errors = [
            _short(error, 2 if roomy else 1) for error in (row.difference, row.gap, row.violation)
        ]
        table.add_row(row.solver, *(row.accuracy,) * several, row.status, *times, *errors)
    return table


def _short(number: float | None, digits: int = 2) -> str:
    if number is None:
        return "–"
    if number == 0 or 0.01 <= abs(number) < 100:
        return f"{number:.2g}"
    return f"{number:,.0f}" if 100 <= abs(number) < 1e6 else f"{number:.{digits - 1}e}"


def comparison_notes(rows: Iterable[Row]) -> list[str]:
    """Return why solvers failed, a line each."""
    return [f"{row.solver} on {row.problem}, d = {row.d:,}: {row.note}" for row in rows if row.note]


def estimate_table(columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> Table:
    """Return the largest of ``value (or set), frequency[, lower, upper]``, with a caption that says if there are more."""
    name, *numbers = columns
    rows = sorted(zip(*columns.values(), strict=True), key=lambda row: -row[1])
    title = (
        f"{about['method']}, {about['oracle']}, epsilon = {about['epsilon']:g}, n = {about['n']:,}"
    )
    more = (
        f"the {_LINES} largest of {len(rows):,}; --out writes all" if len(rows) > _LINES else None
    )
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", caption=more)
    table.add_column(name)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows[:_LINES]:
        table.add_row(escape(str(row[0])), *(f"{number:.5f}" for number in row[1:]))
    return table
