"""The errors of all candidates in the terminal."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.studies.selection import Selection

# Characters that all columns take where no number is broken.
_WIDE = 100


def selection_table(selection: Selection, width: int) -> Table:
    """Return one row per candidate.

    Parameters
    ----------
    selection
        What is shown.
    width
        Of the terminal, in characters. On a narrow one a candidate's errors stand one per line.
    """
    headings, rows = selection.texts()
    table = Table(box=box.SIMPLE_HEAD)
    is_wide = width >= _WIDE
    for heading in headings if is_wide else (headings[0], "errors", headings[-1]):
        table.add_column(heading, no_wrap=heading != "errors")
    for row in rows:
        shown = [escape(text) for text in row]
        if not is_wide:
            # All that stands between the name and the verdict.
            pairs = zip(headings[1:-1], shown[1:-1], strict=True)
            lines = "\n".join(f"{heading}: {text}" for heading, text in pairs)
            shown = [shown[0], lines, shown[-1]]
        table.add_row(*shown)
    return table
