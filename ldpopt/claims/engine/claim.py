"""What a claim is, and what its check returns. N, D and K are the three papers (see the README)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ldpopt.claims.engine.agreement import Agreement
from ldpopt.claims.engine.instances import InstanceSet

Evidence = Mapping[str, float | int | str]
"""Measured numbers and short texts, by what they are, in the order in which they are shown."""


class Verdict(StrEnum):
    """How a claim ended."""

    HOLDS = "holds"
    # False as printed, and true in a version that the evidence states.
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
        Number of vectors (or parameter settings) that it was checked on.
    evidence
        Measured numbers and short texts, in the order in which they are shown.
    corrected
        Whether a corrected version holds; None where there is nothing to correct.
    agreement
        Closed form against solvers, where the claim compares them.
    """

    holds: bool
    instances: int
    evidence: Evidence
    corrected: bool | None = None
    agreement: Agreement | None = None

    @classmethod
    def of(cls, agreement: Agreement) -> Finding:
        """Return the finding of a claim that stands or falls with one comparison with solvers."""
        return cls(agreement.holds, agreement.vectors, agreement.evidence, agreement=agreement)

    @property
    def verdict(self) -> Verdict:
        """The verdict that follows."""
        if self.holds:
            return Verdict.HOLDS
        return Verdict.CORRECTED if self.corrected else Verdict.FAILS


Check = Callable[[InstanceSet], Finding]


@dataclass(frozen=True)
class Claim:
    """A statement with its source, the expected verdict, and the check that decides.

    ``topic`` is the title of the module that holds the claim; `collect` fills it in.
    """

    id: str
    source: str
    statement: str
    expected: Verdict
    check: Check = field(repr=False)
    topic: str = ""


def claim(
    identifier: str, source: str, statement: str, expected: Verdict
) -> Callable[[Check], Claim]:
    """Make a claim of the decorated check: the only place that names the claim.

    Parameters
    ----------
    identifier
        Unique in the ledger, in lower case with hyphens.
    source
        Paper and section.
    statement
        What the paper states, in one sentence.
    expected
        The verdict that the check must reach; any other one makes `ldpopt verify` exit with 1.
    """

    def make(check: Check) -> Claim:
        return Claim(identifier, source, statement, expected, check)

    return make
