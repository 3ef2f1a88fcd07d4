"""An audit of an oracle in the terminal."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.studies.audit import OracleAudit


def audit_table(audit: OracleAudit) -> Table:
    """Return one row each for the exact loss, the bound from reports, p and q."""
    oracle = audit.oracle
    name = f"{type(oracle).__name__}, ε = {oracle.epsilon:g}, d = {oracle.d:,}"
    table = Table(box=box.SIMPLE_HEAD, title=f"Audit of {escape(name)}", title_justify="left")
    for heading in ("quantity", "claimed", "measured", ""):
        table.add_column(heading)
    claimed = f"<= {oracle.epsilon:g}"
    # The loss is rounded up, so a loss below ε may differ from it by rounding alone: say by how much.
    exact = repr(audit.loss)
    if audit.loss < oracle.epsilon:
        exact = f"ε - {oracle.epsilon - audit.loss:.1e}"
    bound = audit.reports
    pair = f"{bound.reports:,} reports each of {bound.pair[0]} and {bound.pair[1]}"
    rows = [
        ("privacy loss, exactly", claimed, exact, audit.loss <= oracle.epsilon),
        (
            f"privacy loss, by reports\n[dim]{escape(pair)}[/]",
            claimed,
            f">= {bound.lower:.4f}",
            bound.passed,
        ),
    ]
    for quantity, share in (
        ("support of the own value", audit.own),
        ("support of another value", audit.other),
    ):
        measured = f"{share.low:.5f} .. {share.high:.5f}"
        rows.append((quantity, f"{share.expected:.5f}", measured, share.passed))
    for quantity, claim, measured, passed in rows:
        outcome = "[green]passed[/]" if passed else "[bold red]failed[/]"
        table.add_row(quantity, claim, measured, outcome)
    return table
