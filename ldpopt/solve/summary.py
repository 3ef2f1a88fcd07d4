"""A solution on one screen, in the manner of statsmodels."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ldpopt.printable import printable
from ldpopt.tables import html_of, lines_of

_GAP = 4  # columns between the two halves of a summary


@dataclass(frozen=True)
class Summary:
    """What ``Solution.summary`` returns: ``print`` and notebooks show it.

    Attributes
    ----------
    title
        The problem.
    facts
        Names and texts.
    headings, rows
        Of the table of multipliers.
    notes
        Sentences below it.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        title = printable(self.title)
        facts = _in_two_halves(self.facts)
        table = lines_of(self.headings, self.rows) if self.rows else []
        width = max(map(len, (title, *facts, *table)))
        notes = [line for note in self.notes for line in textwrap.wrap(note, width)]
        lines = [title.center(width).rstrip(), "=" * width, *facts]
        if table:
            lines += ["-" * width, *table]
        return "\n".join([*lines, "=" * width, *notes])

    def _repr_html_(self) -> str:
        """Return the summary as notebooks show it."""
        facts = html_of((), self.facts, title=self.title)
        return facts + (html_of(self.headings, self.rows, self.notes) if self.rows else "")


def _in_two_halves(facts: Sequence[tuple[str, str]]) -> list[str]:
    """Return facts as lines, the second half of them beside the first."""
    half = -(-len(facts) // 2)
    left = _column(facts[:half])
    right = _column(facts[half:])
    width = max(map(len, left))
    right += [""] * (half - len(right))
    return [f"{one:{width + _GAP}}{other}".rstrip() for one, other in zip(left, right, strict=True)]


def _column(facts: Sequence[tuple[str, str]]) -> list[str]:
    shown = [(f"{printable(name)}:", printable(text)) for name, text in facts]
    width = max((len(name) for name, _ in shown), default=0)
    return [f"{name:{width}}  {text}" for name, text in shown]
