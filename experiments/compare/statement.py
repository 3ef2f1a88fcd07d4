"""A statement of a paper about its figures, and how it is measured on ours."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.compare.checks import Check


@dataclass(frozen=True)
class Statement:
    """What a paper says, where, and what would make it true.

    Attributes
    ----------
    id, source, text
        Name, place in the paper, and the statement.
    figure
        The figure it speaks of.
    how
        How it is measured, in words.
    checks
        The readings; all of them must agree.
    """

    id: str
    source: str
    text: str
    figure: str
    how: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Correction:
    """What holds on our figures in place of a statement that does not: text and measurement."""

    text: str
    checks: tuple[Check, ...]
