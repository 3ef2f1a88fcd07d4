"""Exact laws at small sizes: every report enumerated, and the counts of all users added up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt.oracles import FrequencyOracle

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Channel:
    """All reports of an oracle.

    Attributes
    ----------
    supports
        Which values each report supports, shape (reports, d).
    probability
        Of each report, given the user's value, shape (reports, d): columns sum to 1.
    """

    supports: NDArray[np.bool_]
    probability: Array

    @property
    def expectation(self) -> Array:
        """Probability that a report supports u, given v: shape (d, d)."""
        return np.asarray(self.supports.T.astype(np.float64) @ self.probability)

    @property
    def privacy_loss(self) -> float:
        """The largest log-ratio of a report's probabilities under two values: the ε it keeps."""
        ratios = self.probability.max(axis=1) / self.probability.min(axis=1)
        return float(np.max(np.log(ratios)))

    def covariance(self, frequency: Array) -> Array:
        """Return n times the covariance of the shares c/n, shape (d, d).

        The users' values are fixed, so it is the mean over users of the covariance of their
        support indicators.
        """
        mean = self.expectation
        # both[v, u, w]: the probability that a report of v supports u and w together.
        both = np.einsum("ru,rw,rv->vuw", self.supports, self.supports, self.probability)
        of_value = both - np.einsum("uv,wv->vuw", mean, mean)
        return np.asarray(np.einsum("v,vuw->uw", frequency, of_value))


def channel(oracle: FrequencyOracle) -> Channel:
    """Return all reports of an oracle on a few values, from its parameters.

    Examples
    --------
    >>> from ldpopt.oracles import SubsetSelection
    >>> len(channel(SubsetSelection(epsilon=1.0, d=4)).supports)
    4
    """
    supports = oracle.report_form.supports()
    # A report is drawn without regard to the value, once it is settled whether it supports it.
    blind = np.ones(len(supports))
    # Every other bit is on with probability q; the factor of the own bit cancels below.
    if oracle.report_form.kind == "bits":
        blind = np.prod(np.where(supports, oracle.q, 1 - oracle.q), axis=1)
    inside = blind[:, None] * supports
    outside = blind[:, None] * ~supports
    return Channel(
        supports,
        oracle.p * inside / inside.sum(axis=0) + (1 - oracle.p) * outside / outside.sum(axis=0),
    )


def has_uncorrelated_counts(oracle: FrequencyOracle) -> bool:
    """Return whether counts of different values are uncorrelated, by the oracle's own statement."""
    return oracle.exchangeable and oracle.exact_both == oracle.exact_p * oracle.exact_q


def count_law(oracle: FrequencyOracle, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
    """Return all possible vectors of support counts, shape (m, d), and their probabilities, (m,).

    Parameters
    ----------
    oracle
        On d values.
    users
        How many have each value. Cost: (n+1)^d numbers for each of n users.

    Examples
    --------
    >>> from ldpopt.oracles import GRR
    >>> counts, weights = count_law(GRR(epsilon=1.0, d=2), np.array([1, 1]))
    >>> counts.tolist(), round(float(weights.sum()), 12)
    ([[0, 2], [1, 1], [2, 0]], 1.0)
    """
    reports = channel(oracle)
    # Many reports support the same values: each pattern is rolled once.
    patterns, index = np.unique(reports.supports, axis=0, return_inverse=True)
    probability = np.zeros((len(patterns), oracle.d))
    np.add.at(probability, index.ravel(), reports.probability)
    axes = tuple(range(oracle.d))
    law = np.zeros((int(users.sum()) + 1,) * oracle.d)
    law[(0,) * oracle.d] = 1.0
    for value in np.repeat(np.arange(oracle.d), users):
        next_law = np.zeros_like(law)
        for pattern, chance in zip(patterns, probability[:, value], strict=True):
            # No count exceeds the number of users so far, so rolling never wraps.
            next_law += chance * np.roll(law, pattern.astype(int), axis=axes)
        law = next_law
    # Most vectors of counts are impossible.
    counts = np.argwhere(law > 0)
    return counts, law[tuple(counts.T)]


def marginal_law(oracle: FrequencyOracle, n: int, owners: int) -> Array:
    """Return the probabilities of 0 .. n supports of a value that ``owners`` of n users have.

    The count is the sum of two binomial ones.

    Examples
    --------
    >>> from ldpopt.oracles import OUE
    >>> marginal_law(OUE(epsilon=1.0, d=2), n=1, owners=1)
    array([0.5, 0.5])
    """
    from scipy.stats import binom

    # Users' values are fixed, so that the count is not one binomial: see `counts-binomial`.
    of_owners = binom.pmf(np.arange(owners + 1), owners, oracle.p)
    of_others = binom.pmf(np.arange(n - owners + 1), n - owners, oracle.q)
    return np.convolve(of_owners, of_others)
