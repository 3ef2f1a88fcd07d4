"""Risks without the truth in the terminal."""

from __future__ import annotations

from rich.table import Table

from ldpopt.rendering.candidates import candidates_table
from ldpopt.risks import RiskTable

_HEADINGS = ("method", "MSE", "interval", "above the best", "its interval", "verdict")
_BELOW = {"interval": "MSE", "its interval": "above the best"}


def risk_table(table: RiskTable, width: int) -> Table:
    """Return one row per candidate, the best first, for a terminal of so many characters."""
    rows = []
    for row in table.rows:
        risk = row.risk
        # Of the best there is no difference.
        above = ["–", "–"]
        if row is not table.rows[0]:
            above = [f"{row.excess:.3g}", f"{row.excess_low:.3g} .. {row.excess_high:.3g}"]
        interval = f"{risk.low:.3g} .. {risk.high:.3g}"
        rows.append([row.method, f"{risk.mean:.3g}", interval, *above, table.verdict(row)])
    return candidates_table(_HEADINGS, rows, _BELOW, width)
