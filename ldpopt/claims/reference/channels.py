"""Exact laws at small sizes: every report of every oracle enumerated, and the counts of all users added up."""

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
        """The largest log-ratio of a report's probabilities under two values: the ε of Definition 1."""
        return float(np.max(np.log(self.probability.max(axis=1) / self.probability.min(axis=1))))

    def covariance(self, frequency: Array) -> Array:
        """Return the covariance of the support indicators, averaged over users: n times that of c/n, shape (d, d)."""
        mean = self.expectation
        second = np.einsum("ru,rw,rv->vuw", self.supports, self.supports, self.probability)
        return np.asarray(
            np.einsum("v,vuw->uw", frequency, second - np.einsum("uv,wv->vuw", mean, mean))
        )


def channel(oracle: FrequencyOracle) -> Channel:
    """Return all reports of an oracle on a few values, from its parameters.

    Examples
    --------
    >>> from ldpopt.oracles import SubsetSelection
    >>> len(channel(SubsetSelection(epsilon=1.0, d=4)).supports)
    4
    """
    supports = oracle.report_form.supports()
    # A report is drawn from a law that does not know the value, once it is settled whether it supports the value.
    blind = np.ones(len(supports))
    if oracle.report_form.kind == "bits":
        blind = np.prod(np.where(supports, oracle.q, 1 - oracle.q), axis=1)
    inside = blind[:, None] * supports
    outside = blind[:, None] * ~supports
    return Channel(
        supports,
        oracle.p * inside / inside.sum(axis=0) + (1 - oracle.p) * outside / outside.sum(axis=0),
    )


def has_uncorrelated_counts(oracle: FrequencyOracle) -> bool:
    """Return whether counts of different values are uncorrelated, by what the oracle states of itself."""
    return oracle.exchangeable and oracle.exact_both == oracle.exact_p * oracle.exact_q


def count_law(oracle: FrequencyOracle, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
    """Return every possible vector of support counts, shape (m, d), and its probability, shape (m,).

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
    patterns, which = np.unique(reports.supports, axis=0, return_inverse=True)
    chance = np.zeros((len(patterns), oracle.d))
    np.add.at(chance, which.reshape(-1), reports.probability)
    law = np.zeros((int(users.sum()) + 1,) * oracle.d)
    law[(0,) * oracle.d] = 1.0
    for value in np.repeat(np.arange(oracle.d), users):
        # No count exceeds the number of users so far, so rolling never wraps.
        law = sum(
            (
                probability * np.roll(law, pattern.astype(int), axis=tuple(range(oracle.d)))
                for pattern, probability in zip(patterns, chance[:, value], strict=True)
            ),
            np.zeros_like(law),
        )
    counts = np.argwhere(law > 0)
    return counts, law[tuple(counts.T)]


def marginal_law(oracle: FrequencyOracle, n: int, own: int) -> Array:
    """Return the probabilities of 0 .. n supports of a value that ``own`` of n users have: a sum of two binomials.

    Examples
    --------
    >>> from ldpopt.oracles import OUE
    >>> marginal_law(OUE(epsilon=1.0, d=2), n=1, own=1)
    array([0.5, 0.5])
    """
    from scipy.stats import binom

    mine = binom.pmf(np.arange(own + 1), own, oracle.p)
    return np.convolve(mine, binom.pmf(np.arange(n - own + 1), n - own, oracle.q))
