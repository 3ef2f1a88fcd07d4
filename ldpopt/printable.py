"""Labels as text that a terminal, a spreadsheet or a picture shows, and neither runs nor misreads.

Anyone may have written the labels of a domain. JSON and Parquet keep them as they are; where people
look at them, in terminals, CSV and pictures, characters that act are written as their escapes.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from functools import cache
from typing import SupportsFloat

# Control characters (they move the cursor, ring, or begin an escape sequence, and SVG takes none),
# separators of lines and paragraphs, characters that change the direction of those that follow,
# halves of surrogate pairs and two noncharacters, which neither UTF-8 nor XML takes.
_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)

_UNBROKEN = "\u00a0"  # a space at which no line ends
_ANY_LENGTH = 1 << 20  # of a text that is not shortened

# What spreadsheets take for the beginning of a formula, in the widths of both scripts, unless the
# whole is a number.
_FORMULA = re.compile(r"\s*[=+@＝＋＠－-]")
_NUMBER = re.compile(r"\s*[+-]?\d+([.,]\d+)?(e[+-]?\d+)?\s*", re.IGNORECASE)


def printable(text: str) -> str:
    r"""Return a text with the characters that act on a terminal or a picture as their escapes.

    Examples
    --------
    >>> print(printable("red\x1b[31m\n"))
    red\x1b[31m\n
    """
    return _ACTING.sub(_escape, text)


def shortened(text: str, longest: int = 40) -> str:
    """Return a printable text of at most so many characters, the last of them … if it is cut.

    Examples
    --------
    >>> shortened("a long label", 6)
    'a lon…'
    """
    shown = printable(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def counted(number: int, noun: str) -> str:
    """Return how many of a thing there are, in plain words.

    Examples
    --------
    >>> counted(1, "group"), counted(2_000, "group")
    ('1 group', '2,000 groups')
    """
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def drawable(text: str, longest: int = 40) -> str:
    r"""Return a shortened text of which matplotlib draws every character, and none as a formula.

    Characters that its fonts lack, such as most emoji, would all be the same box: they are written
    as their Unicode names.

    Examples
    --------
    >>> print(drawable("\N{OK HAND SIGN} for $1"))
    ok hand sign for \$1
    """
    from matplotlib import rcParams  # slow to import

    characters = _characters(tuple(rcParams["font.family"]))
    without_glyph = {c for c in text if ord(c) not in characters}
    # Characters of control, category "C", have no name, and are escaped with the rest.
    missing = {c for c in without_glyph if not unicodedata.category(c).startswith("C")}
    for character in missing:
        text = text.replace(character, f" {unicodedata.name(character).lower()} ")
    named = " ".join(text.split()) if missing else text
    return shortened(named, longest).replace("$", r"\$")


def drawable_lines(text: str, width: int) -> list[str]:
    """Return a drawable text in lines of at most so many characters, as titles need it.

    No line ends at a space that does not break, or within brackets unless they are longer than one.

    Examples
    --------
    >>> drawable_lines("LeastSquares() under NonNegative(), Fixed(<2 values>)", 40)
    ['LeastSquares() under NonNegative(),', 'Fixed(<2 values>)']
    """
    whole = drawable(text, _ANY_LENGTH)
    depth = 0
    kept = []
    for character in whole:
        depth += (character in "([{") - (character in ")]}")
        kept.append(_UNBROKEN if character == " " and depth > 0 else character)
    parts = "".join(kept).split(" ")
    # What fills a line alone ends it wherever it has a space.
    fitting = [part if len(part) <= width else part.replace(_UNBROKEN, " ") for part in parts]
    lines = textwrap.wrap(" ".join(fitting), width, break_on_hyphens=False)
    return [line.replace(_UNBROKEN, " ") for line in lines]


@cache
def _characters(families: tuple[str, ...]) -> frozenset[int]:
    """Return the code points that some of these families of fonts have."""
    from matplotlib import font_manager

    paths = [font_manager.findfont(font_manager.FontProperties(family=[name])) for name in families]
    return frozenset().union(*(font_manager.get_font(path).get_charmap() for path in paths))


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def printable_json(text: str) -> str:
    r"""Return a JSON text with the same characters as JSON's own escapes: programs read it alike.

    Examples
    --------
    >>> print(printable_json('["\x9b1m"]'))
    ["\u009b1m"]
    """
    # Within strings JSON escapes newlines itself; those between them are layout.
    return _ACTING.sub(lambda acting: acting[0] if acting[0] == "\n" else _code(acting[0]), text)


def _code(character: str) -> str:
    return f"\\u{ord(character):04x}"


def latex_text(text: str) -> str:
    r"""Return a text as LaTeX shows it within a formula: none of its characters acts.

    Examples
    --------
    >>> print(latex_text("Custom(a_b)"))
    \text{Custom(a\_b)}
    """
    shown = "".join(_LATEX.get(character, character) for character in printable(text))
    return rf"\text{{{shown}}}"


# Characters that LaTeX takes for commands, and HTML for tags. Those without a name within a text
# interrupt it.
_LATEX = {character: rf"\{character}" for character in "{}$#%&_"} | {
    "\\": r"}\backslash\text{",
    "^": r"}{\wedge}\text{",
    "~": r"}{\sim}\text{",
    "<": r"}\lt\text{",
    ">": r"}\gt\text{",
}


def latex_number(number: SupportsFloat) -> str:
    r"""Return a number as LaTeX shows it.

    Examples
    --------
    >>> latex_number(0.5), latex_number(float("-inf"))
    ('0.5', '-\\infty')
    """
    return f"{float(number):g}".replace("inf", r"\infty")


def percent(share: float) -> str:
    """Return a share in percent, with two digits of what is missing to 0 or to 100.

    Examples
    --------
    >>> percent(0.95), percent(0.997283), percent(0.9999886), percent(0.025)
    ('95 %', '99.73 %', '99.9989 %', '2.5 %')
    """
    missing = 100 * min(share, 1 - share)
    decimals = 1 - math.floor(math.log10(missing)) if missing > 0 else 0
    digits = f"{100 * share:.{max(decimals, 0)}f}"
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} %"


def cell(text: str) -> str:
    """Return a text for one cell of a CSV file, which no spreadsheet runs as a formula.

    A formula gets an apostrophe in front, by which spreadsheets mark text; numbers stay as they
    are.

    Examples
    --------
    >>> cell("=1+1"), cell("-5"), cell("red")
    ("'=1+1", '-5', 'red')
    """
    shown = printable(text)
    runs = _FORMULA.match(shown) and not _NUMBER.fullmatch(shown)
    return f"'{shown}" if runs else shown
