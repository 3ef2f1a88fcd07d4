"""The likelihood of reports: against enumeration, differences, and counts for GRR."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt.closed_form import water_filling
from ldpopt.losses import PerReportMLE
from ldpopt.oracles import GRR, ORACLES
from ldpopt.priors.mixture_weights import mixture_weights
from tests.test_oracles import enumerable, enumerate_channel, output_indices
from tests.tolerances import FINITE_DIFFERENCE, SUM

every_oracle = pytest.mark.parametrize("name", list(ORACLES))


def collect(oracle, n, seed=0):
    """Return reports, their loss and their raw estimate."""
    rng = np.random.default_rng(seed)
    reports = oracle.perturb(rng.choice(oracle.d, n, p=rng.dirichlet(np.ones(oracle.d))), rng=rng)
    return (
        reports,
        PerReportMLE(oracle, reports),
        oracle.estimate(oracle.support_counts(reports), n),
    )


@enumerable
def test_differences_of_the_loss_are_those_of_the_channel(oracle):
    reports, loss, raw = collect(oracle, 200)
    probability = enumerate_channel(oracle).probability[:, output_indices(oracle, reports)]
    first, second = np.random.default_rng(1).dirichlet(np.ones(oracle.d), 2)
    difference = loss.value(first, raw) - loss.value(second, raw)
    assert_allclose(
        difference,
        -np.mean(np.log(first @ probability) - np.log(second @ probability)),
        rtol=0,
        atol=1e-12,
    )


@every_oracle
def test_gradient_is_that_of_the_value(name):
    _, loss, raw = collect(ORACLES[name](1.0, 9), 100)
    f = np.random.default_rng(2).dirichlet(np.ones(9))
    gradient = loss.gradient(f, raw)
    for v, step in enumerate(1e-5 * np.eye(9)):
        slope = (loss.value(f + step, raw) - loss.value(f - step, raw)) / 2e-5
        assert abs(slope - gradient[v]) <= FINITE_DIFFERENCE


@every_oracle
def test_the_maximum_is_a_mixture_whose_gap_the_gradient_confirms(name):
    _, loss, raw = collect(ORACLES[name](2.0, 30), 2_000)
    fit = mixture_weights(loss.channel)
    gradient = loss.gradient(fit.weights, raw)
    assert_allclose(loss.value(fit.weights, raw), -fit.log_likelihood, rtol=SUM)
    assert -gradient.min() - 1 <= 1e-9 + SUM
    assert_allclose(-gradient[fit.weights > 1e-6], 1, rtol=0, atol=1e-7)


def test_of_grr_it_is_the_likelihood_of_counts():
    oracle = GRR(1.0, 40)
    reports, loss, _ = collect(oracle, 3_000)
    expected = water_filling(
        oracle.support_counts(reports) / 3_000, oracle.q / (oracle.p - oracle.q)
    )
    assert_allclose(mixture_weights(loss.channel, tol=1e-12).weights, expected, rtol=0, atol=1e-9)


def test_an_impossible_report_is_infinite_loss():
    oracle = GRR(1.0, 2)
    loss = PerReportMLE(oracle, np.array([0, 1]))
    raw = oracle.estimate([1, 1], 2)
    assert loss.value(np.array([1.0, -0.9]), raw) == np.inf
