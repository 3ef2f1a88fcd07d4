"""The claims ledger: statements of the papers, each with a check and an expected verdict.

A claim is one function with ``@claim`` in a module of ``topics``; nothing else lists it.
"""

from ldpopt.claims import topics
from ldpopt.claims.engine.claim import Claim, Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.ledger import collect
from ldpopt.claims.engine.own import read_claims
from ldpopt.claims.engine.run import Result, run_claim, to_json
from ldpopt.claims.figures import FigureRun, read_figure_run

LEDGER: dict[str, Claim] = collect(topics)
"""All claims by id, in the order of the report."""

__all__ = [
    "LEDGER",
    "Claim",
    "FigureRun",
    "Finding",
    "InstanceSet",
    "Result",
    "Verdict",
    "claim",
    "read_claims",
    "read_figure_run",
    "run_claim",
    "to_json",
]
