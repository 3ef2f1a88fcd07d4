"""One of several laws holds for all counts: posteriors are means over the laws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate, oracles, postprocess, priors
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.losses import PosteriorMean

N = 1_000
SD = 30.0
SUPPORT = np.linspace(0.0, 400.0, 41)
LAWS = np.array([np.exp(-((SUPPORT - centre) ** 2) / 5_000) for centre in (0.0, 150.0, 350.0)])
PROBABILITIES = np.array([0.5, 0.3, 0.2])
ESTIMATES = np.linspace(-60.0, 480.0, 19)


def blended():
    return priors.Blend(SUPPORT, LAWS, PROBABILITIES, N)


def of_each_law():
    return [priors.Discrete(SUPPORT, law, N) for law in LAWS]


def test_a_posterior_is_the_mean_of_those_under_each_law():
    posterior = blended().posterior(ESTIMATES, SD)
    each = [law.posterior(ESTIMATES, SD) for law in of_each_law()]
    means = np.array([part.mean for part in each])
    mean = PROBABILITIES @ means
    assert_allclose(posterior.mean, mean, rtol=1e-9)
    variance = PROBABILITIES @ np.array([part.variance for part in each])
    between = PROBABILITIES @ (means - mean) ** 2
    assert_allclose(posterior.variance, variance + between, rtol=1e-8)
    densities = np.exp([part.log_evidence for part in each])
    assert_allclose(posterior.log_evidence, np.log(PROBABILITIES @ densities), rtol=1e-9)


def test_the_slope_is_that_of_the_posterior_mean():
    step = 1e-3
    inside = ESTIMATES[(ESTIMATES > 0) & (ESTIMATES < 400)]
    higher = blended().posterior_mean(inside + step, SD)
    lower = blended().posterior_mean(inside - step, SD)
    slope = blended().slope(inside, SD)
    assert_allclose(slope, (higher - lower) / (2 * step), rtol=1e-5)
    # The variance has what the laws differ by besides: it would overstate the slope.
    variance = blended().posterior(inside, SD).variance / SD**2
    assert np.max(variance - slope) > 0.5
    one_law = of_each_law()[1]
    assert_allclose(one_law.slope(inside, SD), one_law.posterior(inside, SD).variance / SD**2)


def test_a_loss_under_a_blend_has_its_slope():
    oracle = oracles.OUE(1.0, 40)
    frequencies = np.random.default_rng(0).normal(0.05, 0.05, 40)
    raw = FrequencyEstimate(frequencies, n=N, oracle=oracle, is_raw=True)
    loss = PosteriorMean(blended())
    moved = FrequencyEstimate(frequencies + 1e-7, n=N, oracle=oracle, is_raw=True)
    measured = (loss.target(moved) - loss.target(raw)) / 1e-7
    assert_allclose(loss.sensitivity(raw.frequencies, raw), measured, rtol=1e-4, atol=1e-6)


def test_intervals_hold_what_the_laws_give_together():
    lower, upper = blended().interval(ESTIMATES, SD, level=0.9)
    weights = [np.exp(-((y - SUPPORT) ** 2) / (2 * SD**2)) * LAWS for y in ESTIMATES]
    for y, (low, high) in enumerate(zip(lower, upper, strict=True)):
        of_laws = weights[y] / weights[y].sum(axis=1, keepdims=True)
        upto = np.cumsum(PROBABILITIES @ of_laws)
        assert SUPPORT[np.searchsorted(upto, 0.05)] == low
        assert SUPPORT[np.searchsorted(upto, 0.95)] == high


def test_one_estimate_does_not_choose_the_law():
    flat = np.append(1.0, np.zeros(40))
    with_tail = np.append(0.99, np.full(40, 0.01 / 40))
    blend = priors.Blend(SUPPORT, [flat, with_tail], [0.9, 0.1], N)
    mean = priors.Discrete(SUPPORT, blend.weights, N)
    # Six standard deviations out: the mean law gives it nearly back, the blend a tenth of it.
    assert mean.posterior_mean([180.0], SD)[0] > 150
    assert blend.posterior_mean([180.0], SD)[0] < 20


def test_an_estimate_that_a_law_rules_out_has_a_posterior():
    point = np.append(1.0, np.zeros(40))
    blend = priors.Blend(SUPPORT, [point, point[::-1]], [0.5, 0.5], N)
    assert_allclose(blend.posterior_mean([0.0, 200.0, 400.0], SD), 200.0, rtol=1e-12)
    tails = priors.Blend(SUPPORT, LAWS, PROBABILITIES, N).posterior(np.array([-1e4, 1e4]), 1.0)
    assert np.isfinite(tails.mean).all()
    assert np.isfinite(tails.log_evidence).all()


def test_moments_are_those_of_the_mean_law():
    blend = blended()
    mean = priors.Discrete(SUPPORT, blend.weights, N)
    assert_allclose([blend.mean(), blend.variance()], [mean.mean(), mean.variance()], rtol=1e-12)


def test_unlikely_laws_are_left_out():
    blend = priors.Blend(SUPPORT, LAWS, [0.6, 1e-9, 0.4], N)
    assert_allclose(blend.probabilities, [0.6, 0.4], rtol=1e-8)
    assert_array_equal(blend.laws.shape, (2, 41))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"laws": LAWS[0]}, "row of masses and a probability for each law"),
        ({"probabilities": [0.5, 0.5]}, r"got shapes \(3, 41\) and \(2,\)"),
        ({"probabilities": [0.5, -0.5, 1.0]}, "probabilities must be finite, none negative"),
        ({"laws": np.zeros((3, 41))}, "masses of law 0"),
        ({"laws": np.where(np.eye(3, 41, 5) > 0, np.nan, LAWS)}, "masses of law 0"),
        ({"support": SUPPORT[:-1]}, "40 support points need as many weights"),
        ({"support": SUPPORT[::-1]}, "ascending order"),
        ({"n": 300}, "within 0 .. 300"),
        ({"laws": "wide"}, "laws must"),
    ],
)
def test_what_is_no_blend_is_told(change, message):
    arguments = {"support": SUPPORT, "laws": LAWS, "probabilities": PROBABILITIES, "n": N}
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        priors.Blend(**{**arguments, **change})
    with pytest.raises(InvalidInputError, match="fit Auto"):
        priors.Blend.fit(FrequencyEstimate([0.5, 0.5]))


def zipf(d, exponent=1.0):
    f = 1 / np.arange(1, d + 1) ** exponent
    return f / f.sum()


@pytest.mark.parametrize(("users", "exponent"), [(20_000, 1.0), (1_000_000, 1.5)])
def test_intervals_of_auto_hold_their_share_of_the_counts(users, exponent):
    d = 300
    draws = 12
    truth = np.floor(zipf(d, exponent) * users)
    truth[0] += users - truth.sum()
    oracle = oracles.OUE(1.0, d)
    counts = oracle.simulate_counts(truth.astype(int), 0, trials=draws)
    raw = oracle.estimate(counts, users)
    inside = 0.0
    for t in range(draws):
        prior = priors.Auto.fit(raw[t])
        sd = raw.sigma * users
        lower, upper = prior.interval(raw[t].frequencies * users, sd)
        # The counts of a law, not of cells: an end is the middle of a cell that may hold the count.
        margin = 0.25 * sd
        inside += np.mean((lower - margin <= truth) & (truth <= upper + margin)) / draws
    assert 0.93 < inside < 0.995


def test_intervals_of_auto_have_the_right_width():
    # Counts that differ by more than the noise: the fitted law is then no part of the error.
    d = 1_000
    users = 30_000_000
    draws = 6
    weights = np.random.default_rng(1).lognormal(0, 0.7, d)
    truth = np.floor(weights / weights.sum() * users)
    truth[0] += users - truth.sum()
    oracle = oracles.OUE(1.0, d)
    raw = oracle.estimate(oracle.simulate_counts(truth.astype(int), 0, trials=draws), users)
    # The normal law's shares within 1.28 standard deviations times each factor.
    expected = {0.8: 0.695, 1.0: 0.8, 1.2: 0.876}
    inside = dict.fromkeys(expected, 0.0)
    for t in range(draws):
        prior = priors.Auto.fit(raw[t])
        ends = prior.interval(raw[t].frequencies * users, raw.sigma * users, 0.8)
        middle = np.mean(ends, axis=0)
        half = (ends[1] - ends[0]) / 2
        for factor in expected:
            inside[factor] += np.mean(np.abs(truth - middle) <= factor * half) / draws
    # Of 6,000 counts the standard error is .005: a width that is wrong by a fifth is red by far.
    assert inside == pytest.approx(expected, abs=0.03)


def test_auto_within_groups_keeps_what_is_known_of_the_totals():
    d = 120
    users = 50_000
    truth = np.floor(zipf(d) * users)
    truth[0] += users - truth.sum()
    oracle = oracles.OUE(1.0, d)
    raw = oracle.estimate(oracle.simulate_counts(truth.astype(int), 0, trials=20), users)
    groups = np.split(np.arange(d), 12)
    sums = np.array([truth[group].sum() for group in groups]) / users
    error = {}
    for name, options in (("alone", {}), ("grouped", {"groups": groups})):
        f = postprocess(raw, "auto-ns", **options).frequencies
        totals = np.stack([f[:, group].sum(axis=1) for group in groups], axis=1)
        error[name] = np.mean((totals - sums) ** 2)
    assert error["grouped"] < 0.8 * error["alone"]
