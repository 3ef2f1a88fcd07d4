"""An audit of an oracle in the terminal."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.printable import printable
from ldpopt.studies.audit import Audit, OracleAudit, Share


def audit_table(audit: OracleAudit) -> Table:
    """Return one row each for the exact loss, the bound from reports, p and q."""
    epsilon = audit.oracle.epsilon
    name = f"{type(audit.oracle).__name__}, ε = {epsilon:g}, d = {audit.oracle.d:,}"
    table = Table(box=box.SIMPLE_HEAD, title=f"Audit of {escape(name)}", title_justify="left")
    for heading in ("quantity", "claimed", "measured", ""):
        table.add_column(heading)
    claimed = f"<= {epsilon:g}"
    table.add_row(
        "privacy loss, exactly", claimed, _exact_loss(audit), _outcome(audit.loss <= epsilon)
    )
    bound = audit.reports
    pair = f"{bound.reports:,} reports each of {bound.pair[0]} and {bound.pair[1]}"
    table.add_row(
        f"privacy loss, by reports\n[dim]{escape(pair)}[/]",
        claimed,
        f">= {bound.lower:.4f}",
        _outcome(bound.passed),
    )
    _add_share(table, "support of the user's value", audit.own)
    _add_share(table, "support of another value", audit.other)
    return table


def reports_audit_table(audit: Audit, detected: float, power: float) -> Table:
    """Return what two files of reports prove about ε, and what would have been noticed.

    Parameters
    ----------
    audit
        Its pair are the names of the files.
    detected, power
        An excess that is found with this probability: of ``smallest_detected``.
    """
    table = Table(box=box.SIMPLE_HEAD, title="Audit of reports", title_justify="left")
    for heading in ("quantity", "claimed", "measured", ""):
        table.add_column(heading)
    bound = f">= {audit.lower:.4f}"
    table.add_row(
        "privacy loss, by reports", f"<= {audit.epsilon:g}", bound, _outcome(audit.passed)
    )
    for name, hits in zip(audit.pair, audit.hits, strict=True):
        share = f"{hits:,} of {audit.reports:,}"
        table.add_row(f"reports in the event, {escape(printable(str(name)))}", "", share, "")
    table.add_row("an honest client passes with", f">= {audit.confidence:g}", "", "")
    table.add_row(f"found with probability {power:g}, about", "", f"ε >= {detected:.4f}", "")
    return table


def _exact_loss(audit: OracleAudit) -> str:
    # A loss just below ε is the usual case (probabilities are multiples of 2⁻⁶⁴), and its digits
    # would look like ε: the distance says more.
    distance = audit.oracle.epsilon - audit.loss
    return f"ε - {distance:.1e}" if distance > 0 else repr(audit.loss)


def _add_share(table: Table, quantity: str, share: Share) -> None:
    measured = f"{share.low:.5f} .. {share.high:.5f}"
    table.add_row(quantity, f"{share.expected:.5f}", measured, _outcome(share.passed))


def _outcome(passed: bool) -> str:
    return "[green]passed[/]" if passed else "[bold red]failed[/]"
