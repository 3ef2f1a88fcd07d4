"""What a claim is, and the ledger that collects them. N, D and K are the three papers (see the README)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from ldpopt.claims.engine.agreement import Agreement
from ldpopt.claims.engine.instances import Bench


class Verdict(StrEnum):
    """How a claim ended."""

    HOLDS = "holds"
    CORRECTED = "holds-as-corrected"
    FAILS = "fails"


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes
    ----------
    holds
        Whether the statement is true as printed.
    instances
        Number of vectors (or parameter settings) it was checked on.
    evidence
        Measured numbers and short texts, in the order in which they are shown.
    corrected
        Whether a corrected version holds; None where there is nothing to correct.
    agreement
        Closed form against solvers, where the claim compares them.
    """

    holds: bool
    instances: int
    evidence: dict[str, float | int | str]
    corrected: bool | None = None
    agreement: Agreement | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict that follows."""
        if self.holds:
            return Verdict.HOLDS
        return Verdict.CORRECTED if self.corrected else Verdict.FAILS


@dataclass(frozen=True)
class Claim:
    """A statement with its source, the verdict we expect, and the check that decides."""

    id: str
    source: str
    statement: str
    expected: Verdict
    check: Callable[[Bench], Finding] = field(repr=False)

    @property
    def topic(self) -> str:
        """What the claim's module is about: the first line of its docstring."""
        check = self.check.func if isinstance(self.check, partial) else self.check
        return (sys.modules[check.__module__].__doc__ or "").partition("\n")[0].rstrip(".")


ENTERED: dict[str, Claim] = {}
"""All claims by id, in the order in which their modules were imported."""


def claim(
    identifier: str, source: str, statement: str, expected: Verdict
) -> Callable[[Callable[[Bench], Finding]], Callable[[Bench], Finding]]:
    """Enter the decorated check into the ledger."""

    def enter(check: Callable[[Bench], Finding]) -> Callable[[Bench], Finding]:
        assert identifier not in ENTERED, identifier
        ENTERED[identifier] = Claim(identifier, source, statement, expected, check)
        return check

    return enter
