"""Estimates for tests of priors."""

import numpy as np

from ldpopt import FrequencyEstimate, oracles

N = 2000


def collected(d=12, n=N, exponent=1.5, oracle=oracles.OUE, seed=1):
    """An estimate of a population drawn from a power law."""
    weights = np.arange(1.0, d + 1) ** -exponent
    population = np.random.default_rng(seed).multinomial(n, weights / weights.sum())
    protocol = oracle(epsilon=1.0, d=d)
    return protocol.estimate(protocol.simulate_counts(population, seed), n)


def stack(trials, d=60, seed=5):
    """Trials of one population among a million users."""
    weights = np.arange(1.0, d + 1) ** -1.2
    data = np.random.default_rng(seed).multinomial(10**6, weights / weights.sum())
    oracle = oracles.OUE(epsilon=1.0, d=d)
    return oracle.estimate(oracle.simulate_counts(data, seed, trials), 10**6)


def drawn(prior_counts, n=10**6, seed=0):
    """An estimate whose true counts are given, with Gaussian noise of OUE's size."""
    oracle = oracles.OUE(epsilon=2.0, d=len(prior_counts))
    noise = oracle.sd(n) * np.random.default_rng(seed).standard_normal(len(prior_counts))
    return FrequencyEstimate(prior_counts / n + noise, n=n, oracle=oracle)
