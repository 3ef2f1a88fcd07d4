"""The measured populations: Zipf frequencies at any domain size, and noisy estimates of them."""

from __future__ import annotations

import numpy as np

from ldpopt import FrequencyEstimate, oracles

EXPONENT = 1.5  # that of the papers' synthetic data set


def zipf(d: int) -> np.ndarray:
    """Return frequencies proportional to rank^-1.5, summing to 1."""
    weights = np.arange(1, d + 1) ** -EXPONENT
    return weights / weights.sum()


def oue_estimate(d: int, n: int, epsilon: float, rng: np.random.Generator) -> FrequencyEstimate:
    """Return OUE's estimate for ``n`` users with Zipf frequencies."""
    oracle = oracles.OUE(epsilon, d)
    return oracle.estimate(oracle.simulate_counts(rng.multinomial(n, zipf(d)), rng), n)
