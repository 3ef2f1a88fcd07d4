"""What a claim is, and what its check returns. N, D and K are the three papers (see the README)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ldpopt import validate
from ldpopt.claims.engine.agreement import Agreement
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.validate import unknown_name

Evidence = Mapping[str, float | int | str]
"""Measured numbers and short texts, by what they are, in the order in which they are shown."""


class Verdict(StrEnum):
    """How a statement ended: what is known about it, and how.

    The first four say that the statement is true or false, by a theorem or by a check that could
    have ended otherwise. The last two say that nothing is known, and why: lack of evidence against
    a statement never makes it hold.

    Attributes
    ----------
    PROVED
        True for every input: a proof checker accepted the theorem that the evidence names, and the
        check found nothing against it on its instances.
    HOLDS
        True as printed on every instance that was checked.
    CORRECTED
        False as printed, by a misprint or a missing condition, and true in a version that the
        authors would accept as what they meant. The evidence states it. The opposite of a
        statement is no correction of it.
    FAILS
        False as printed. It may be what the ledger expects: a paper's wrong statement stays in the
        ledger as wrong.
    INCONCLUSIVE
        It was measured, and the numbers are compatible with the statement and with its opposite.
    UNCHECKED
        What the statement is about is not available, for example its data set. What stands in for
        it is shown in the evidence and decides nothing.
    """

    PROVED = "proved"
    HOLDS = "holds"
    CORRECTED = "holds-as-corrected"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"
    UNCHECKED = "cannot be checked here"


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes
    ----------
    holds
        Whether the statement is true as printed; None where the check cannot decide.
    instances
        Number of vectors (or parameter settings) that it was checked on. On none of them nothing
        is decided.
    evidence
        Measured numbers and short texts, in the order in which they are shown.
    corrected
        Whether a corrected version holds; None where there is nothing to correct.
    agreement
        Closed form against solvers, where the claim compares them.
    proof
        File and theorem that a proof checker accepted for every input; empty without a proof. The
        run fills it in from the theorems of the claim. It never replaces the check: code that
        contradicts its theorem fails.
    missing
        What would be needed to decide and is not available here; empty where nothing is.

    Raises
    ------
    ValueError
        If something is missing and the check decides all the same.
    InvalidInputError, InvalidTypeError
        If a part is of another type, or there are fewer than 0 instances.

    Examples
    --------
    >>> Finding(True, 10, {}).verdict, Finding(True, 10, {}, proof="Simplex.v: cls").verdict
    (<Verdict.HOLDS: 'holds'>, <Verdict.PROVED: 'proved'>)
    >>> str(Finding(None, 0, {}, missing="the data of the paper").verdict)
    'cannot be checked here'
    """

    holds: bool | None
    instances: int
    evidence: Evidence
    corrected: bool | None = None
    agreement: Agreement | None = None
    proof: str = ""
    missing: str = ""

    def __post_init__(self) -> None:
        # Either the data are missing or the check has decided.
        if self.missing and self.holds is not None:
            raise ValueError(f"a check that lacks {self.missing} cannot decide: holds must be None")
        # Checks of users calculate with numpy, whose numbers JSON does not know: found out at the
        # end, they would cost the whole run its files.
        instances = validate.integer("instances of a Finding", self.instances, minimum=0)
        plain = {
            "holds": _decided("holds", self.holds),
            "corrected": _decided("corrected", self.corrected),
            "instances": instances,
            "evidence": _plain_evidence(self.evidence),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, agreement: Agreement) -> Finding:
        """Return the finding of a claim that stands or falls with one comparison with solvers."""
        return cls(agreement.holds, agreement.vectors, agreement.evidence, agreement=agreement)

    @property
    def verdict(self) -> Verdict:
        """The verdict that follows."""
        if self.holds is None:
            return Verdict.UNCHECKED if self.missing else Verdict.INCONCLUSIVE
        # Bounds over no instances are all met: such a check has shown nothing.
        if self.instances < 1:
            return Verdict.INCONCLUSIVE
        # A number that was not computed is no evidence for a statement; against one it may be.
        if (self.holds or self.corrected) and self._has_nan:
            return Verdict.INCONCLUSIVE
        # The statement first: a correction is of interest only where it is false.
        if self.holds:
            return Verdict.PROVED if self.proof else Verdict.HOLDS
        return Verdict.CORRECTED if self.corrected else Verdict.FAILS

    @property
    def correction(self) -> str:
        """What holds in the place of a statement that holds as corrected; empty otherwise."""
        if self.verdict is not Verdict.CORRECTED:
            return ""
        return str(self.evidence.get("correction", ""))

    @property
    def _has_nan(self) -> bool:
        """Whether a number of the evidence is undefined."""
        return any(isinstance(x, float) and math.isnan(x) for x in self.evidence.values())


def _decided(what: str, answer: object) -> bool | None:
    """Return an answer as Python's own; raises an error for what is neither yes, no nor None."""
    if answer is None:
        return None
    if not isinstance(answer, bool | np.bool_):
        raise InvalidTypeError(f"{what} of a Finding is True, False or None, got {answer!r}")
    return bool(answer)


def _plain_evidence(evidence: object) -> Evidence:
    """Return evidence with Python's own numbers; raises an error for what is no number or text."""
    if not isinstance(evidence, Mapping):
        raise InvalidTypeError(
            "evidence of a Finding maps what was measured to numbers and short texts, got "
            f"{evidence!r}"
        )
    plain: dict[str, float | int | str] = {}
    for name, value in evidence.items():
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, float | int | str):
            raise InvalidTypeError(
                f"evidence {name!r} of a Finding is a number or a short text, got {value!r}: "
                "state one number of it, such as the largest"
            )
        plain[str(name)] = number
    return plain


Check = Callable[[InstanceSet], Finding]

# Ids are anchors of the report's page and names of files.
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Claim:
    """A statement with its source, the expected verdict, and the check that decides.

    ``theorems`` are the names of those in ``ldpopt.proofs`` that prove the statement, or the
    corrected one. ``topic`` is the title of the module that holds the claim; reading the ledger
    fills it in.
    """

    id: str
    source: str
    statement: str
    expected: Verdict
    check: Check = field(repr=False)
    topic: str = ""
    theorems: tuple[str, ...] = ()


def claim(
    identifier: str = "",
    source: str = "",
    statement: str = "",
    expected: Verdict | str = "",
    theorems: tuple[str, ...] = (),
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
        The verdict that the check must reach; any other one makes ``ldpopt verify`` exit with 1.
    theorems
        Names of the theorems that prove the statement for every input, if there are any.

    Raises
    ------
    InvalidInputError
        If the id is missing or not of that form, if source or statement are empty, or if the
        verdict is none.

    Examples
    --------
    >>> @claim("halves", "arithmetic", "Two halves are one.", "holds")
    ... def halves(instances):
    ...     return Finding(holds=0.5 + 0.5 == 1, instances=1, evidence={})
    >>> halves.id, halves.check(None).verdict
    ('halves', <Verdict.HOLDS: 'holds'>)
    """
    # What is left out is refused by a sentence, and not by Python's own. A bare @claim passes the
    # function in the place of the id.
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
        raise InvalidInputError(
            "a claim needs an id in lower case with hyphens, @claim('my-claim', ...), got "
            f"{identifier!r}"
        )
    if not source or not statement:
        raise InvalidInputError(f"the claim {identifier!r} needs a source and a statement")
    if expected not in list(Verdict):
        raise unknown_name("verdict", str(expected), [str(verdict) for verdict in Verdict])
    verdict = Verdict(expected)

    def make(check: Check) -> Claim:
        return Claim(identifier, source, statement, verdict, check, theorems=theorems)

    return make
