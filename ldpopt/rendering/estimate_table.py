"""An estimate in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from ldpopt.estimate import Shown
from ldpopt.estimate.shown import decimals_for, title_of
from ldpopt.printable import printable

LINES = 20  # that fit one screen

# Rich breaks a title or caption at the width of its table: one of few columns is made as wide as
# these, up to this many characters, which fit every terminal.
_WIDEST = 75


def estimate_table(shown: Shown, heading: str, about: Mapping[str, Any]) -> Table:
    """Return the largest frequencies of values or sets, and a caption if there are more.

    Parameters
    ----------
    shown
        What is listed.
    heading
        Of the names: value or set.
    about
        At least ``method``, ``oracle``, ``epsilon`` and ``n``, for the title; ``refined`` after a
        second pass over the reports.
    """
    title = (
        f"{about['method']}, {about['oracle']}, epsilon = {about['epsilon']:g}, n = {about['n']:,}"
    )
    if about.get("refined"):
        title += ", refined"
    caption = ""
    if len(shown.names) < shown.count:
        largest = title_of(len(shown.names), shown.count, f"{heading}s")
        option = "--answers" if heading == "set" else "--out"
        caption = f"{largest}; --top shows more, {option} writes all"
    table = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        caption=caption,
        min_width=min(max(len(title), len(caption)), _WIDEST),
    )
    table.add_column(heading)
    columns = {"frequency": shown.frequencies}
    if shown.lower is not None and shown.upper is not None:
        columns |= {"lower": shown.lower, "upper": shown.upper}
    for number in columns:
        table.add_column(number, justify="right", no_wrap=True)
    decimals = decimals_for(shown.frequencies.tolist())
    for name, *values in zip(shown.names, *columns.values(), strict=True):
        # Labels are the user's own: brackets in them are no markup.
        table.add_row(escape(printable(name)), *(f"{value:.{decimals}f}" for value in values))
    return table
