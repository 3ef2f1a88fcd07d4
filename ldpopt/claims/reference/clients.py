"""Clients that run: what their reports say of their privacy, and of their probabilities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ldpopt.claims.engine.measures import largest
from ldpopt.oracles import FrequencyOracle
from ldpopt.studies.audit import OracleAudit, audit_oracle

# Of each audit: a correct client fails once in a million times, and the reports are seeded.
_CONFIDENCE = 1 - 1e-6


class ClientRun(NamedTuple):
    """What the reports of one oracle's client show.

    Attributes
    ----------
    audit
        The audit: exact probabilities, and what reports prove about ε, p and q.
    score
        Largest difference of a share of supporting reports to p or q, over all pairs of values, in
        its standard deviations.
    reports
        How many reports were drawn for the shares.
    """

    audit: OracleAudit
    score: float
    reports: int


def run_client(oracle: FrequencyOracle, seed: int, reports: int) -> ClientRun:
    """Run an oracle's client on every value, and audit it.

    Parameters
    ----------
    oracle
        On few values.
    seed
        Of the client's randomness.
    reports
        Per value for the shares, and of each of two values for the audit. A share that is off by
        5 % shows from about 10,000 on.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> run_client(GRR(epsilon=1.0, d=3), seed=0, reports=1_000).audit.passed
    True
    """
    rng = np.random.default_rng(seed)
    d = oracle.d
    shares = np.empty((d, d))
    for value in range(d):
        sent = oracle.perturb(np.full(reports, value), rng=rng)
        shares[value] = oracle.support_counts(sent) / reports
    # Every pair by itself: errors of some pairs may cancel in a mean over all of them.
    stated = np.full((d, d), oracle.q)
    np.fill_diagonal(stated, oracle.p)
    deviation = np.sqrt(stated * (1 - stated) / reports)
    audited = audit_oracle(
        oracle,
        client=lambda values: oracle.perturb(values, rng=rng),
        reports=reports,
        confidence=_CONFIDENCE,
    )
    return ClientRun(audited, largest((shares - stated) / deviation), d * reports)


def proved_share(run: ClientRun) -> float:
    """Return which part of its ε a client's reports prove; above 1 they refute it."""
    return run.audit.reports.lower / run.audit.oracle.epsilon
