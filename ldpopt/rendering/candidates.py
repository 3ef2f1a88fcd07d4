"""Tables with a row per candidate, for terminals of any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table


def candidates_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    below: Mapping[str, str],
    width: int,
) -> Table:
    """Return one row per candidate.

    Parameters
    ----------
    headings, rows
        Of all columns: the name of the candidate first, the verdict last.
    below
        Columns that belong together, each by the heading of the one that it may stand below.
    width
        Of the terminal, in characters. Columns that belong together stand below each other where
        it is too narrow for all; where that is not enough, a candidate's numbers stand one per
        line, each with its name.
    """
    if _width(headings, rows) <= width:
        return _table(headings, rows)
    joined = [[heading] for heading in headings if heading not in below]
    for upper in joined:
        upper += [heading for heading in headings if below.get(heading) == upper[0]]
    index = {heading: i for i, heading in enumerate(headings)}
    rows_joined = []
    for row in rows:
        cells = ["\n".join(row[index[name]] for name in names) for names in joined]
        rows_joined.append(cells)
    headings_joined = ["\n".join(names) for names in joined]
    if _width(headings_joined, rows_joined) <= width:
        return _table(headings_joined, rows_joined)
    listed = []
    for name, *numbers, verdict in rows:
        # All that stands between the name and the verdict.
        pairs = zip(headings[1:-1], numbers, strict=True)
        listed.append([name, "\n".join(f"{heading}: {text}" for heading, text in pairs), verdict])
    return _table((headings[0], "errors", headings[-1]), listed, wrapped="errors")


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], wrapped: str = "") -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        # A broken number would be two numbers.
        table.add_column(heading, no_wrap=heading != wrapped)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _width(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return how many characters a table takes."""
    # A space between columns, and one at either end.
    total = len(headings) + 1
    for column in zip(headings, *rows, strict=True):
        lines = [line for text in column for line in text.split("\n")]
        # A space on either side of its text.
        total += 2 + max(map(len, lines))
    return total
