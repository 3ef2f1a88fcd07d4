"""A statement of a paper about its figures: how it is measured, and how it is expected to end."""

from __future__ import annotations

from dataclasses import dataclass

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures.checks import Check


@dataclass(frozen=True)
class Correction:
    """What the authors would accept as what they meant: a misprint or a condition put right.

    Attributes
    ----------
    text
        The statement that holds.
    checks
        Its readings; all of them must agree.
    """

    text: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Statement:
    """What a paper says of a figure, where, and what would make it true.

    Attributes
    ----------
    id, source, text
        Name, place in the paper, and the statement.
    figure
        The figure it speaks of.
    how
        How it is measured, in words.
    checks
        The readings; all of them must agree. Empty if no table can show it.
    missing
        What is needed instead of tables, for a statement without checks.
    data
        The paper's data sets that it speaks of; those of its figure if empty.
    expected
        The verdict on the run that the repository keeps.
    why
        The reason for a verdict that is not ``holds``, in one line.
    correction
        What holds in its place, for a statement that is expected to hold as corrected.
    """

    id: str
    source: str
    text: str
    figure: str
    how: str
    # What follows has a default: most statements hold, and need no reason.
    checks: tuple[Check, ...]
    missing: str = ""
    data: tuple[str, ...] = ()
    expected: Verdict = Verdict.HOLDS
    why: str = ""
    correction: Correction | None = None
