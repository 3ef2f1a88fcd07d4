"""Tables as lines of text, as a notebook shows them, and as data frames.

Everything that shows itself in a notebook does so by ``html_of``: its tables inherit colours, so
that they can be read on light and dark pages, and scroll within their own width.
"""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ldpopt.errors import MissingPackageError
from ldpopt.printable import printable

# What stands to the right in its column, so that digits are below digits.
_NUMBER = re.compile(r"[-−+±]?[\d.,∞]+(e[-+]?\d+)?( ?[±%s]?| \.\. .*)|–|nan|-?inf", re.IGNORECASE)

_FRAME = "max-width:100%;overflow-x:auto"
_TABLE = "border-collapse:collapse;width:auto;margin:0.4em 0;color:inherit;background:none"
_CELL = "padding:0.15em 0.7em;vertical-align:top"
_LEFT = "text-align:left"
_RIGHT = "text-align:right"
# Long texts break, also those without a space; columns of short ones, numbers say, do not.
_LONG = "white-space:pre-wrap;overflow-wrap:anywhere;min-width:9em;max-width:32em"
_WHOLE = "white-space:nowrap"
_SHORT = 24  # characters
_TITLE = "caption-side:top;padding:0.2em 0.7em;font-weight:bold;text-align:left;color:inherit"
# A line of the text's own colour: a fixed grey would vanish on one of the two pages.
_RULE = "border-bottom:1px solid currentColor"
_NOTE = "margin:0.2em 0.7em;font-size:90%"


def lines_of(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines of columns of equal width.

    Examples
    --------
    >>> lines_of(["name", "sum"], [["norm", "1"], ["base-pos", "1.2"]])
    ['name      sum', 'norm      1', 'base-pos  1.2']
    """
    # Before the widths: an escape is longer than the character that it stands for.
    shown = [[printable(text) for text in line] for line in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = []
    for texts in shown:
        cells = [text.ljust(width) for text, width in zip(texts, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def html_of(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    title: str = "",
) -> str:
    """Return a table in HTML, with a title above and notes below it.

    Parameters
    ----------
    headings
        Of the columns; none for a list of facts, whose first column then names them.
    rows, notes, title
        Texts of any origin: what would act in HTML or on a terminal is shown as its escape.

    Examples
    --------
    >>> "<b>" in html_of(["a"], [["<b>"]]), "&lt;b&gt;" in html_of(["a"], [["<b>"]])
    (False, True)
    """
    caption = _element("caption", _TITLE, title) if title else ""
    lines = _table(headings, rows) if headings else "".join(map(_fact, rows))
    table = f'<table style="{_TABLE}">{caption}{lines}</table>'
    # Outside of the table: notes may be longer than it is wide.
    below = "".join(_element("p", _NOTE, note) for note in notes)
    return f'<div style="{_FRAME}">{table}{below}</div>'


class TitledTable(NamedTuple):
    """A table with a title above it and notes below.

    Attributes
    ----------
    title
        What the table is of.
    headings, rows
        Of its columns, and one text per column.
    notes
        Sentences.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


class ShownAsTable(ABC):
    """A result that shows itself as one table: lines in a terminal, HTML in a notebook.

    A dataclass that derives from it states ``repr=False``: otherwise it would get one of its own.
    """

    @property
    @abstractmethod
    def _table(self) -> TitledTable:
        """The table."""

    def __str__(self) -> str:
        """Return the table as lines of text."""
        title, headings, rows, notes = self._table
        # Notes name candidates and data, whose names may have escapes.
        return "\n".join([title, *lines_of(headings, rows), *map(printable, notes)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table as notebooks show it."""
        title, headings, rows, notes = self._table
        return html_of(headings, rows, notes, title=title)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the head and the body of a table, with columns of numbers to the right."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(headings)
    head = []
    styles = []
    for heading, column in zip(headings, columns, strict=True):
        is_numeric = bool(column) and all(map(_NUMBER.fullmatch, column))
        # A narrow column never breaks: half a number on a second line would be misread.
        is_short = max(map(len, column), default=0) <= _SHORT
        side = _RIGHT if is_numeric else _LEFT
        of_heading = f"{_CELL};{side};{_RULE}"
        head.append(_element("th", of_heading, heading, ' scope="col"'))
        breaks = _WHOLE if is_short else _LONG
        styles.append(f"{_CELL};{side};{breaks}")
    lines = []
    for row in rows:
        cells = [_element("td", style, text) for style, text in zip(styles, row, strict=True)]
        lines.append(_row(cells))
    body = "".join(lines)
    return f"<thead>{_row(head)}</thead><tbody>{body}</tbody>"


def _row(cells: Sequence[str]) -> str:
    inside = "".join(cells)
    return f"<tr>{inside}</tr>"


def _fact(row: Sequence[str]) -> str:
    """Return a row that its first cell names."""
    name, *texts = row
    of_name = f"{_CELL};{_LEFT}"
    of_texts = f"{_CELL};{_LEFT};{_LONG}"
    cells = [_element("th", of_name, name, ' scope="row"')]
    for text in texts:
        cells.append(_element("td", of_texts, text))
    return _row(cells)


def _element(kind: str, style: str, text: str, attribute: str = "") -> str:
    # Line feeds are layout here; all other control characters become escapes.
    lines = [html.escape(printable(line)) for line in text.split("\n")]
    shown = "\n".join(lines)
    return f'<{kind}{attribute} style="{style}">{shown}</{kind}>'


def data_frame(columns: Mapping[str, Any] | Sequence[Mapping[str, Any]], instead: str) -> Any:
    """Return columns, or records, as a DataFrame of pandas.

    Parameters
    ----------
    columns
        Sequences by name, or one mapping per row.
    instead
        What to use without pandas, for the message.

    Raises
    ------
    MissingPackageError
        If pandas is not installed.
    """
    try:
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise MissingPackageError(
            f"a DataFrame needs the package pandas: pip install pandas, or use {instead}"
        ) from None
    return pd.DataFrame(columns)
