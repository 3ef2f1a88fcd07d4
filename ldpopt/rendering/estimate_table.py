"""An estimate in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.printable import printable

LINES = 20  # that fit one screen


def estimate_table(columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> Table:
    """Return the largest frequencies of values or sets, and a caption if there are more.

    Parameters
    ----------
    columns
        ``value`` or ``set``, ``frequency`` and, with intervals, ``lower`` and ``upper``.
    about
        At least ``method``, ``oracle``, ``epsilon`` and ``n``, for the title.
    """
    heading, *numbers = columns
    # Sets, too, by their frequency: what a reader looks for first is large.
    rows = sorted(zip(*columns.values(), strict=True), key=lambda row: -row[1])
    title = (
        f"{about['method']}, {about['oracle']}, epsilon = {about['epsilon']:g}, n = {about['n']:,}"
    )
    caption = None
    if len(rows) > LINES:
        caption = f"the {LINES} largest of {len(rows):,}; --out writes all"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", caption=caption)
    table.add_column(heading)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    for name, *values in rows[:LINES]:
        # Labels are the user's own: brackets in them are no markup.
        table.add_row(escape(printable(str(name))), *(f"{value:.5f}" for value in values))
    return table
