"""Power: the power law's sums against direct ones, its fit, and posterior means against summation over every count."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import zeta

from ldpopt import FrequencyEstimate, oracles, postprocess
from ldpopt.errors import LdpoptWarning
from ldpopt.priors import PowerLaw
from tests import reference
from tests.tolerances import POSTERIOR, ZETA

N = 2000


def collected(d=12, n=N, exponent=1.5, oracle=oracles.OUE, seed=1):
    population = np.random.default_rng(seed).multinomial(n, (w := np.arange(1.0, d + 1) ** -exponent) / w.sum())
    chosen = oracle(epsilon=1.0, d=d)
    return chosen.estimate(chosen.simulate_counts(population, seed), n)


# --- partial zeta sums ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 17, 4095, 4096, 4097, 5000, 10_000])
@pytest.mark.parametrize("alpha", [-200.0, -3.0, -1.0, 0.0, 0.5, 1.0, 1.0 + 1e-9, 2.0, 2.5, 12.0, 50.0])
def test_the_mean_of_a_power_law_equals_its_sums(alpha, n):
    assert_allclose(PowerLaw(alpha, n).mean(), reference.power_law_mean(alpha, n), rtol=ZETA, atol=0)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0, 1.5, 2.0, 3.0])
def test_the_mean_for_a_million_counts_equals_its_sums(alpha):
    k = np.arange(1, 1_000_001, dtype=np.longdouble)
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


@settings(max_examples=40)
@given(st.integers(2, 10**7), st.floats(0.001, 0.999))
def test_the_fitted_law_has_the_mean_it_was_fitted_to(n, share):
    mean = float(n**share)
    assert_allclose(PowerLaw.fit_mean(mean, n).mean(), mean, rtol=1e-9, atol=0)


@pytest.mark.parametrize("mean", [1.5, 20.0, 166.0, 900.0])
def test_the_fitted_exponent_equals_the_one_found_by_bisection_of_direct_sums(mean):
    assert_allclose(PowerLaw.fit_mean(mean, N).alpha, reference.power_law_exponent(mean, N), rtol=0, atol=POSTERIOR)


@pytest.mark.parametrize("mean", [0.999, 0.2, 0.0, -30.0])
def test_a_mean_below_one_gives_the_limit_and_a_warning(mean):
    with pytest.warns(LdpoptWarning, match="no power law on counts 1 .. 2000 has the mean"):
        assert PowerLaw.fit_mean(mean, N).alpha == math.inf


def test_a_mean_above_n_gives_the_other_limit_and_a_warning():
    with pytest.warns(LdpoptWarning, match="all mass on 2000"):
        assert PowerLaw.fit_mean(2000.5, N).alpha == -math.inf


@pytest.mark.parametrize("mean", [1, 2000])
def test_a_mean_at_the_limit_is_no_surprise(mean):
    assert PowerLaw.fit_mean(float(mean), N).mean() == mean


# --- posterior means ------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.3, 5.0, 60.0, 700.0])
@pytest.mark.parametrize("alpha", [-1.0, 0.0, 1.3, 4.0])
def test_the_posterior_mean_equals_summation_over_every_count(alpha, noise):
    y = np.array([-800.0, -3.0, 0.0, 1.0, 2.4, 57.9, 600.0, 1999.0, 2100.0, 3500.0])
    expected = [reference.posterior_mean(v, alpha, N, noise) for v in y]
    assert_allclose(PowerLaw(alpha, N).posterior_mean(y, noise), expected, rtol=POSTERIOR, atol=0)


@pytest.mark.parametrize("oracle", [oracles.OUE, oracles.SUE, oracles.HadamardResponse])
@pytest.mark.parametrize("d", [2, 12, 40])
def test_power_equals_its_definition(d, oracle):
    estimate = collected(d, oracle=oracle)
    expected = reference.power(estimate.frequencies.tolist(), estimate.n, estimate.sigma)
    assert_allclose(postprocess(estimate, "power").frequencies, expected, rtol=POSTERIOR, atol=0)
    assert_allclose(
        postprocess(estimate, "power-ns").frequencies, reference.floats(reference.norm_sub(expected)), atol=POSTERIOR
    )


def test_power_of_a_stack_is_fitted_to_each_trial():
    rows = [collected(seed=seed).frequencies for seed in (1, 2)]
    oracle = collected().oracle
    stack = postprocess(FrequencyEstimate(np.stack(rows), n=N, oracle=oracle), "power").frequencies
    for found, row in zip(stack, rows, strict=True):
        alone = postprocess(FrequencyEstimate(row, n=N, oracle=oracle), "power").frequencies
        assert_allclose(found, alone, rtol=POSTERIOR)
    assert not np.allclose(stack[0], stack[1])


@settings(max_examples=40)
@given(st.floats(-2, 5), st.floats(0.2, 1000), st.lists(st.floats(-3000, 5000), min_size=2, max_size=20))
def test_the_posterior_mean_rises_with_the_estimate_and_stays_among_the_counts(alpha, noise, y):
    found = PowerLaw(alpha, N).posterior_mean(np.sort(y), noise)
    assert (np.diff(found) >= -POSTERIOR * found[:-1]).all()
    assert found.min() >= 1 - POSTERIOR
    assert found.max() <= N * (1 + POSTERIOR)


def test_power_is_positive_and_preserves_order():
    estimate = collected(300, exponent=1.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = postprocess(estimate, "power").frequencies
    assert found.min() >= 1 / N
    assert (np.diff(found[np.argsort(estimate.frequencies)]) >= 0).all()


def test_power_where_noise_hides_the_mean_warns_and_returns_the_limit():
    oracle = oracles.OUE(epsilon=0.1, d=3)
    estimate = FrequencyEstimate([-0.2, 0.1, 0.05], n=N, oracle=oracle)
    with pytest.warns(LdpoptWarning, match="norm-sub"):
        assert_allclose(postprocess(estimate, "power").frequencies, 1 / N)


def test_power_does_not_depend_on_the_order_of_the_values():
    estimate = collected(30)
    shuffled = np.random.default_rng(0).permutation(30)
    found = postprocess(
        FrequencyEstimate(estimate.frequencies[shuffled], n=N, oracle=estimate.oracle), "power"
    ).frequencies
    assert_allclose(found, postprocess(estimate, "power").frequencies[shuffled], rtol=POSTERIOR)
