"""The claims ledger: statements of the papers, each with a check that can fail and the verdict that is expected."""

from ldpopt.claims.engine.claim import ENTERED, Claim, Finding, Verdict
from ldpopt.claims.engine.instances import Bench
from ldpopt.claims.engine.run import Result, check, to_json
from ldpopt.claims.figures import FIGURE_STATEMENTS, FigureStatement
from ldpopt.claims.topics import (
    accuracy,
    agreements,
    bias,
    complexity,
    empirical,
    errata,
    guarantees,
    likelihoods,
    noise,
    posterior,
    power,
    protocols,
    shapes,
    variants,
)

_TOPICS = (
    agreements,
    variants,
    shapes,
    likelihoods,
    posterior,
    power,
    guarantees,
    accuracy,
    bias,
    noise,
    protocols,
    complexity,
    errata,
)

LEDGER: dict[str, Claim] = {
    identifier: claim
    for topic in _TOPICS
    for identifier, claim in ENTERED.items()
    if claim.check.__module__ == topic.__name__
}
"""All claims by id, in the order of the report."""

__all__ = [
    "FIGURE_STATEMENTS",
    "LEDGER",
    "Bench",
    "Claim",
    "FigureStatement",
    "Finding",
    "Result",
    "Verdict",
    "check",
    "empirical",
    "to_json",
]
