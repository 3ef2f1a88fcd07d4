"""Power laws: partial zeta sums, fits by the mean, posterior means of one vector and of many."""

import math
import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import zeta

from ldpopt import FrequencyEstimate, oracles, postprocess, priors
from ldpopt.errors import LdpoptWarning
from ldpopt.priors import Gaussian, LogNormal, PowerLaw, power_law
from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.family_curves import means_by_member
from ldpopt.priors.power_law import exponents
from ldpopt.priors.zeta import log_power_sum
from tests import reference
from tests.prior_estimates import N, collected, stack
from tests.tolerances import POSTERIOR, SIGMAS, ZETA

RISES = "ignore:.*the fitted power law rises:ldpopt.errors.LdpoptWarning"


# --- partial zeta sums ----------------------------------------------------------------------------


@cache
def logarithms_up_to(n):
    """In extended precision: powers of many numbers take several times as long as these once."""
    return np.log(np.arange(1, n + 1, dtype=np.longdouble))


@pytest.mark.parametrize("n", [1, 31, 128, 129, 1000, 300_000])
@pytest.mark.parametrize(
    "alpha", [-50.0, -2.5, -1.0, 0.0, 0.5, 1.0, 1.0 - 1e-12, 1.5, 3.0, 20.0, 60.0]
)
def test_power_sums_equal_direct_ones(alpha, n):
    logs = logarithms_up_to(n)
    largest = logs[-1] if alpha < 0 else np.longdouble(0)
    exponent = -np.longdouble(alpha)
    direct = np.log(np.sum(np.exp(exponent * (logs - largest)))) + exponent * largest
    assert abs(float(log_power_sum(alpha, n) - direct)) <= ZETA * max(1, abs(float(direct)))


@pytest.mark.parametrize("n", [10**8, 10**10, 10**12])
def test_power_sums_of_very_many_terms_equal_their_formulas(n):
    sums = {
        0.0: n,
        -1.0: n * (n + 1) // 2,
        -2.0: n * (n + 1) * (2 * n + 1) // 6,
        -3.0: (n * (n + 1) // 2) ** 2,
        1.0: math.log(n) + 0.5772156649015329 + 1 / (2 * n),
        1.5: zeta(1.5) - 2 / math.sqrt(n) + 0.5 * n**-1.5,
        2.0: zeta(2.0) - zeta(2.0, n + 1),
        4.5: zeta(4.5) - zeta(4.5, n + 1),
    }
    for alpha, expected in sums.items():
        assert_allclose(
            log_power_sum(alpha, n),
            math.log(expected),
            rtol=0,
            atol=ZETA * max(1, math.log(expected)),
        )


@pytest.mark.parametrize("n", [200, 10**6])
@pytest.mark.parametrize("per_count", [0.01, 0.3, 3.0, 60.0])
def test_power_sums_of_the_steepest_rising_laws(n, per_count):
    k = np.arange(max(1, n - 10_000), n + 1, dtype=np.longdouble)
    alpha = -per_count * n
    direct = np.log(np.sum(np.exp(-np.longdouble(alpha) * np.log(k / n))))
    assert_allclose(
        float(log_power_sum(alpha, n) + alpha * math.log(n)),
        float(direct),
        rtol=0,
        atol=1e-9 * per_count * n,
    )


@pytest.mark.parametrize("n", [1, 2, 17, 4095, 4096, 4097, 5000, 10_000])
@pytest.mark.parametrize(
    "alpha", [-200.0, -3.0, -1.0, 0.0, 0.5, 1.0, 1.0 + 1e-9, 2.0, 2.5, 12.0, 50.0]
)
def test_the_mean_of_a_power_law_equals_its_sums(alpha, n):
    assert_allclose(
        PowerLaw(alpha, n).mean(), reference.power_law_mean(alpha, n), rtol=ZETA, atol=0
    )


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0, 1.5, 2.0, 3.0])
def test_the_mean_for_many_counts_equals_its_sums(alpha):
    k = np.arange(1, 200_001, dtype=np.longdouble)
    direct = float(np.sum(k ** (1 - alpha)) / np.sum(k**-alpha))
    assert_allclose(PowerLaw(alpha, len(k)).mean(), direct, rtol=ZETA, atol=0)


@pytest.mark.parametrize("alpha", [2.5, 3.0, 4.0])
def test_the_mean_for_a_trillion_counts_equals_hurwitz_zeta_functions(alpha):
    n = 10**12
    numerator = zeta(alpha - 1) - zeta(alpha - 1, n + 1)
    denominator = zeta(alpha) - zeta(alpha, n + 1)
    assert_allclose(PowerLaw(alpha, n).mean(), numerator / denominator, rtol=ZETA, atol=0)


def test_flat_and_linear_laws_have_their_textbook_means():
    assert_allclose(PowerLaw(0.0, 10**9).mean(), (10**9 + 1) / 2, rtol=ZETA)
    assert_allclose(PowerLaw(-1.0, 10**9).mean(), (2 * 10**9 + 1) / 3, rtol=ZETA)


def test_the_limits_have_all_mass_on_one_count():
    assert PowerLaw(math.inf, 50).mean() == 1.0
    assert PowerLaw(-math.inf, 50).mean() == 50.0


# --- the fit --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(RISES)
@settings(max_examples=40)
@given(st.integers(2, 10**7), st.floats(0.001, 0.999))
def test_the_fitted_law_has_the_mean_it_was_fitted_to(n, share):
    mean = float(n**share)
    assert_allclose(PowerLaw.fit_mean(mean, n).mean(), mean, rtol=1e-9, atol=0)


@pytest.mark.parametrize("mean", [1.5, 20.0, 166.0, 900.0])
def test_the_fitted_exponent_equals_the_one_found_by_bisection_of_direct_sums(mean):
    assert_allclose(
        PowerLaw.fit_mean(mean, N).alpha,
        reference.power_law_exponent(mean, N),
        rtol=0,
        atol=POSTERIOR,
    )


@pytest.mark.parametrize("mean", [0.999, 0.2, 0.0, -30.0])
def test_a_mean_below_one_gives_the_limit_and_a_warning(mean):
    with pytest.warns(LdpoptWarning, match="no power law on counts 1 .. 2000 has the mean"):
        assert PowerLaw.fit_mean(mean, N).alpha == math.inf


def test_a_mean_above_n_gives_the_other_limit_and_a_warning():
    with pytest.warns(LdpoptWarning, match="all mass on 2000"):
        assert PowerLaw.fit_mean(2000.5, N).alpha == -math.inf


def test_a_mean_at_the_limit_is_no_surprise():
    assert PowerLaw.fit_mean(1.0, N).mean() == 1.0


@pytest.mark.parametrize("mean", [1000.6, 1500.0, 1999.0, 1999.9, 2000.0])
def test_a_mean_above_that_of_equal_weights_gives_a_rising_law_and_a_warning(mean):
    with pytest.warns(
        LdpoptWarning, match="above 1000.5, that of equal weights: the fitted power law rises"
    ):
        fitted = PowerLaw.fit_mean(mean, N)
    assert fitted.alpha < 0
    assert_allclose(fitted.mean(), mean, rtol=1e-9)


@settings(max_examples=30)
@given(st.integers(2, 10**10), st.lists(st.floats(-0.2, 1.2), min_size=1, max_size=30))
def test_exponents_of_many_means_have_them_all(n, shares):
    means = np.array([float(n) ** share for share in shares])
    alphas = exponents(means, n)
    assert (alphas[means <= 1] == np.inf).all()
    assert (alphas[means >= n] == -np.inf).all()
    for alpha, mean in zip(alphas, means, strict=True):
        assert_allclose(PowerLaw(alpha, n).mean(), min(max(mean, 1), n), rtol=ZETA, atol=0)


# --- posterior means of power laws ----------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.3, 5.0, 60.0, 700.0])
@pytest.mark.parametrize("alpha", [-1.0, 0.0, 1.3, 4.0])
def test_the_posterior_mean_equals_summation_over_every_count(alpha, noise):
    y = np.array([-800.0, -3.0, 0.0, 1.0, 2.4, 57.9, 600.0, 1999.0, 2100.0, 3500.0])
    expected = [reference.posterior_mean(v, alpha, N, noise) for v in y]
    assert_allclose(PowerLaw(alpha, N).posterior_mean(y, noise), expected, rtol=POSTERIOR, atol=0)


@pytest.mark.filterwarnings(RISES)  # d = 2: a mean near n/2
@pytest.mark.parametrize("oracle", [oracles.OUE, oracles.SUE, oracles.HadamardResponse])
@pytest.mark.parametrize("d", [2, 12, 40])
def test_power_equals_its_definition(d, oracle):
    estimate = collected(d, oracle=oracle)
    expected = reference.power(estimate.frequencies.tolist(), estimate.n, estimate.sigma)
    assert_allclose(postprocess(estimate, "power").frequencies, expected, rtol=POSTERIOR, atol=0)
    assert_allclose(
        postprocess(estimate, "power-ns").frequencies,
        reference.floats(reference.norm_sub(expected)),
        atol=POSTERIOR,
    )


def test_power_of_a_stack_is_fitted_to_each_trial():
    rows = [collected(seed=seed).frequencies for seed in (1, 2)]
    oracle = collected().oracle
    stack = postprocess(FrequencyEstimate(np.stack(rows), n=N, oracle=oracle), "power").frequencies
    for together, row in zip(stack, rows, strict=True):
        alone = postprocess(FrequencyEstimate(row, n=N, oracle=oracle), "power").frequencies
        assert_allclose(together, alone, rtol=POSTERIOR)
    assert not np.allclose(stack[0], stack[1])


@settings(max_examples=40)
@given(
    st.floats(-2, 5),
    st.floats(0.2, 1000),
    st.lists(st.floats(-3000, 5000), min_size=2, max_size=20),
)
def test_the_posterior_mean_rises_with_the_estimate_and_stays_among_the_counts(alpha, noise, y):
    means = PowerLaw(alpha, N).posterior_mean(np.sort(y), noise)
    assert (np.diff(means) >= -POSTERIOR * means[:-1]).all()
    assert means.min() >= 1 - POSTERIOR
    assert means.max() <= N * (1 + POSTERIOR)


def test_power_is_positive_and_preserves_order():
    estimate = collected(300, exponent=1.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = postprocess(estimate, "power").frequencies
    assert f.min() >= 1 / N
    assert (np.diff(f[np.argsort(estimate.frequencies)]) >= 0).all()


def test_power_where_noise_hides_the_mean_warns_and_returns_the_limit():
    oracle = oracles.OUE(epsilon=0.1, d=3)
    estimate = FrequencyEstimate([-0.2, 0.1, 0.05], n=N, oracle=oracle)
    with pytest.warns(LdpoptWarning, match="norm-sub"):
        assert_allclose(postprocess(estimate, "power").frequencies, 1 / N)


def test_power_does_not_depend_on_the_order_of_the_values():
    estimate = collected(30)
    order = np.random.default_rng(0).permutation(30)
    shuffled = FrequencyEstimate(estimate.frequencies[order], n=N, oracle=estimate.oracle)
    expected = postprocess(estimate, "power").frequencies[order]
    assert_allclose(postprocess(shuffled, "power").frequencies, expected, rtol=POSTERIOR)


# --- stacks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [3, 40, 300])
@pytest.mark.parametrize("value_dependent", [False, True])
def test_power_of_many_trials_equals_that_of_each(trials, value_dependent):
    estimate = stack(trials)
    together = priors.posterior_mean(estimate, PowerLaw, value_dependent=value_dependent)
    slope = estimate.oracle.b * value_dependent
    noise = estimate.sigma * estimate.n
    for row in range(0, trials, max(1, trials // 4)):
        one = FrequencyEstimate(estimate.frequencies[row], estimate.n, estimate.oracle)
        prior = PowerLaw.fit(one)
        # One value at a time is summed, nothing is interpolated.
        singly = [
            prior.posterior_mean(y, noise, slope=slope) / one.n for y in one.frequencies * one.n
        ]
        assert_allclose(together[row], singly, rtol=POSTERIOR, atol=0)


@pytest.mark.filterwarnings(RISES)
def test_power_of_many_trials_with_exponents_of_all_sizes():
    rng = np.random.default_rng(0)
    oracle = oracles.OUE(epsilon=3.0, d=8)
    f = rng.dirichlet(np.full(8, 0.3), 200) * rng.uniform(0.01, 3.9, (200, 1))
    f += rng.normal(0, 0.001, (200, 8))
    f[17] = -0.1
    f[90] = 1.0
    estimate = FrequencyEstimate(f, n=10_000, oracle=oracle)
    with pytest.warns(
        LdpoptWarning, match="no power law .* has the mean .* limit with all mass on 1 "
    ):
        together = priors.posterior_mean(estimate, PowerLaw)
    assert (together[17] == 1e-4).all()
    assert (together[90] == 1.0).all()
    for row in range(0, 200, 9):
        alpha = exponents(np.array([f[row].mean() * 10_000]), 10_000)[0]
        law = PowerLaw(alpha, 10_000)
        means = law.posterior_mean(f[row] * 10_000, estimate.sigma * 10_000)
        assert_allclose(together[row], means / 10_000, rtol=POSTERIOR, atol=0)


def test_few_curves_serve_many_trials():
    estimated = EstimatedCounts.of(stack(300))
    built = []

    def member(alpha):
        built.append(alpha)
        return PowerLaw(alpha, estimated.n)

    alphas = exponents(estimated.means(), estimated.n)
    means_by_member(member, estimated, alphas)
    assert len(built) == 9  # the nodes of one polynomial in the exponent, ends included
    assert_allclose([min(built), max(built)], [alphas.min(), alphas.max()], rtol=1e-12)


def test_a_warning_of_a_stack_counts_its_trials():
    estimate = FrequencyEstimate(np.full((3, 4), -0.1), n=100, oracle=oracles.OUE(epsilon=1.0, d=4))
    with pytest.warns(LdpoptWarning, match=r"\(and in 2 further trials\)"):
        priors.posterior_mean(estimate, PowerLaw)


def test_one_trial_with_a_rising_law_is_enough_for_the_warning():
    # The mean counts are 10 and 60; equal weights on 1 .. 100 have the mean 50.5.
    frequencies = np.array([[0.1] * 4, [0.6] * 4])
    estimate = FrequencyEstimate(frequencies, n=100, oracle=oracles.OUE(epsilon=1.0, d=4))
    with pytest.warns(LdpoptWarning, match=r"mean 60 of the estimated counts is above 50\.5"):
        priors.posterior_mean(estimate, PowerLaw)


def test_a_warning_points_at_the_line_that_called_the_library():
    estimate = FrequencyEstimate(np.full(4, -0.1), n=100, oracle=oracles.OUE(epsilon=1.0, d=4))
    with pytest.warns(LdpoptWarning) as caught:
        postprocess(estimate, "power")
    assert caught[0].filename == __file__


@pytest.mark.parametrize("value_dependent", [False, True])
@pytest.mark.parametrize("family", [Gaussian, LogNormal])
def test_other_families_are_fitted_to_each_trial(family, value_dependent):
    estimate = stack(3)
    together = priors.posterior_mean(estimate, family, value_dependent=value_dependent)
    for row in range(3):
        one = FrequencyEstimate(estimate.frequencies[row], estimate.n, estimate.oracle)
        prior = family.fit(one, value_dependent=value_dependent)
        alone = priors.posterior_mean(one, prior, value_dependent=value_dependent)
        assert_allclose(together[row], alone, rtol=POSTERIOR)


def test_a_prior_serves_a_whole_stack():
    estimate = stack(3)
    prior = PowerLaw(1.2, estimate.n)
    together = priors.posterior_mean(estimate, prior)
    one = FrequencyEstimate(estimate.frequencies[1], estimate.n, estimate.oracle)
    assert_allclose(together[1], priors.posterior_mean(one, prior), rtol=POSTERIOR)


def test_the_posterior_mean_has_the_least_error_under_its_prior():
    rng = np.random.default_rng(8)
    n = 10**5
    noise = 300.0
    weights = np.arange(1, n + 1) ** -1.1
    truth = rng.choice(n, size=100_000, p=weights / weights.sum()) + 1
    y = truth + noise * rng.standard_normal(len(truth))
    best = (PowerLaw(1.1, n).posterior_mean(y, noise) - truth) ** 2
    for other in (
        y,
        np.maximum(y, 0),
        PowerLaw(0.7, n).posterior_mean(y, noise),
        PowerLaw(1.6, n).posterior_mean(y, noise),
    ):
        excess = (other - truth) ** 2 - best
        assert excess.mean() > -SIGMAS * excess.std() / math.sqrt(len(y))


def test_the_search_for_an_exponent_moves_both_ends(monkeypatch):
    """Illinois takes 4 to 8 steps; with one end that never counts half it takes up to 12."""
    n = 10**6
    table, log_means = power_law._table(n)
    targets = np.log(np.geomspace(1.001, 0.99 * n, 100))
    original = power_law._log_mean
    steps = []
    monkeypatch.setattr(power_law, "_log_mean", lambda *a: steps.append(a) or original(*a))
    longest = 0
    for target in targets[(targets > log_means[-1]) & (targets < log_means[0])]:
        steps.clear()
        (alpha,) = power_law._root(np.array([target]), table, log_means, n)
        assert original(np.array([alpha]), n) == pytest.approx(target, abs=1e-9)
        longest = max(longest, len(steps))
    assert 4 <= longest <= 10
