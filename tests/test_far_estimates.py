"""Estimates made by hand, far outside the frequencies or between them: a prior, or a sentence."""

import numpy as np
import pytest

from ldpopt import FrequencyEstimate
from ldpopt.errors import InvalidInputError
from ldpopt.estimate.noise import Noise
from ldpopt.priors import NPMLE, Mixture, binning
from tests.tolerances import ROUNDING


def by_hand(frequencies, *, sigma, n):
    noise = Noise(constant=sigma**2, slope=0.0, n=n)
    return FrequencyEstimate(np.array(frequencies), noise=noise)


@pytest.mark.parametrize("far", [1e30, -1e30])
@pytest.mark.parametrize(("sigma", "n"), [(1e-6, 1), (1e-3, 100)])
def test_many_estimates_at_one_far_place_have_means_at_the_end(far, sigma, n):
    # More than a polynomial has points: their evidence is too large for its rounding to cancel.
    estimate = by_hand([far] * 16, sigma=sigma, n=n)
    prior = Mixture.fit(estimate)
    means = prior.posterior_mean(estimate.frequencies * n, sigma * n)
    end = prior.support[0 if far < 0 else -1]
    # A mean is a sum over points: its last bits are those of the machine.
    assert means == pytest.approx(np.full(16, end), rel=ROUNDING, abs=0.0)


def test_estimates_between_whole_counts_are_refused_in_words():
    estimate = by_hand([0.5, 0.0, 0.0], sigma=1e-9, n=1)
    with pytest.raises(InvalidInputError, match=r"the estimate 0.5 is more than 12 standard dev"):
        Mixture.fit(estimate)


@pytest.mark.parametrize("prior", [NPMLE, Mixture])
def test_likelihoods_that_take_too_much_memory_are_refused_in_words(prior, monkeypatch):
    monkeypatch.setattr(binning, "_ENTRIES", 1000)
    estimate = by_hand(np.linspace(0, 0.1, 20), sigma=1e-4, n=10**6)
    with pytest.raises(InvalidInputError, match=r"would take 20 x .* likelihoods, more than 1,000"):
        prior.fit(estimate)
