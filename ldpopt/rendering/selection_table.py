"""The errors of all candidates of a choice in the terminal."""

from __future__ import annotations

from rich.table import Table

from ldpopt.rendering.candidates import candidates_table
from ldpopt.studies.selection import Selection

_BELOW = {
    "interval": "simulated MSE",
    "corrected": "simulated MSE",
    "above the best": "estimated MSE",
}


def selection_table(selection: Selection, width: int) -> Table:
    """Return one row per candidate, for a terminal of so many characters."""
    headings, rows = selection.texts()
    return candidates_table(headings, rows, _BELOW, width)
