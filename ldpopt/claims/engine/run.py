"""Run claims and keep what their checks found."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ldpopt.claims.engine.claim import Claim, Finding
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.errors import described
from ldpopt.proofs import proof_of


@dataclass(frozen=True)
class Result:
    """A claim, what its check found, and how many seconds that took.

    ``raised`` is the exception that ended the check early; empty where it came to its end.
    """

    claim: Claim
    finding: Finding
    seconds: float
    raised: str = ""

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the one that the ledger expects, with the theorems it cites."""
        # A check that broke off has shown nothing, whatever the ledger expects.
        if self.raised:
            return False
        # A theorem may stand behind "fails" or a correction too, which hold without it.
        if self.claim.theorems and not self.finding.proof:
            return False
        # "Fails" may be what is expected: a paper's wrong statement stays in the ledger as wrong.
        return self.finding.verdict == self.claim.expected

    @property
    def expectation(self) -> str:
        """The expected verdict in words, and whether theorems are to stand behind it."""
        return f"{self.claim.expected}{', with its theorems' if self.claim.theorems else ''}"


def run_claim(claim: Claim, instances: InstanceSet) -> Result:
    """Return what the check of a claim finds on a set of instances.

    An exception in the check is part of the result, so that the other claims are still checked.
    """
    began = time.perf_counter()
    raised = ""
    try:
        finding = _finding_of(claim, instances)
    # Whatever it is: the check is any code, a user's own included, which may even exit.
    except (Exception, SystemExit) as error:
        raised = described(error)
        finding = Finding(None, 0, {"the check raised": raised})
    if claim.theorems:
        finding = with_proof(finding, claim.theorems)
    return Result(claim, finding, time.perf_counter() - began, raised)


def _finding_of(claim: Claim, instances: InstanceSet) -> Finding:
    """Return what a check finds, or raise where it returns something else."""
    finding = claim.check(instances)
    if not isinstance(finding, Finding):
        raise TypeError(f"the check returned {type(finding).__name__}, and not a Finding")
    return finding


def with_proof(finding: Finding, theorems: tuple[str, ...]) -> Finding:
    """Return a finding with its theorems, if Coq accepted them with their present content.

    Otherwise the evidence names them as withdrawn, and the verdict cannot be `proved`.
    """
    proof = proof_of(*theorems)
    shown = proof or f"withdrawn, not as Coq accepted them: {', '.join(theorems)}"
    return replace(finding, proof=proof, evidence={**finding.evidence, "theorems": shown})


def to_json(results: Iterable[Result]) -> str:
    """Return results as JSON: a list of objects, one per claim.

    Each has ``id, source, statement, verdict, expected, instances, evidence``.
    """
    rows = [
        {
            "id": result.claim.id,
            "source": result.claim.source,
            "statement": result.claim.statement,
            "verdict": str(result.finding.verdict),
            "expected": str(result.claim.expected),
            "instances": result.finding.instances,
            "evidence": {key: _plain(value) for key, value in result.finding.evidence.items()},
        }
        for result in results
    ]
    # Formulas are readable as they are, and NaN is no JSON.
    return json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: float | int | str) -> float | int | str:
    """Return a value that JSON can hold: infinity and NaN become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
