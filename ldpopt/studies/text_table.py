"""Tables as lines of text, as a notebook shows them, and as data frames."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from ldpopt.errors import InvalidInputError
from ldpopt.printable import printable


def lines_of(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines of columns of equal width.

    Examples
    --------
    >>> lines_of(["name", "sum"], [["norm", "1"], ["base-pos", "1.2"]])
    ['name      sum', 'norm      1', 'base-pos  1.2']
    """
    shown = [[printable(text) for text in line] for line in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in shown
    ]


def html_of(
    headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    """Return a table in HTML, with notes below it.

    Examples
    --------
    >>> html_of(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    heading = _line("th", headings)
    body = "".join(_line("td", row) for row in rows)
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return f"<table><thead>{heading}</thead><tbody>{body}</tbody></table>{below}"


def _line(kind: str, texts: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(text)}</{kind}>' for text in texts)}</tr>"


def data_frame(records: Sequence[Mapping[str, Any]]) -> Any:
    """Return records as a DataFrame of pandas.

    Raises
    ------
    InvalidInputError
        If pandas is not installed.
    """
    try:
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise InvalidInputError(
            "to_pandas needs the package pandas: pip install pandas, or use to_csv"
        ) from None
    return pd.DataFrame(records)
