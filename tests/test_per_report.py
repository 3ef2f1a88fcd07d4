"""The likelihood of reports: against the channel by enumeration, finite differences, and losses of counts where they agree."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt.closed_form import water_filling
from ldpopt.mixture import mixture_weights
from ldpopt.oracles import GRR, ORACLES
from ldpopt.per_report import report_likelihoods, report_loss
from tests.test_oracles import enumerable, enumerate_channel, output_indices
from tests.tolerances import FINITE_DIFFERENCE, SUM

every_oracle = pytest.mark.parametrize("name", list(ORACLES))


def reports_and_likelihoods(oracle, n, seed=0):
    rng = np.random.default_rng(seed)
    reports = oracle.perturb(rng.choice(oracle.d, n, p=rng.dirichlet(np.ones(oracle.d))), rng=rng)
    return reports, report_likelihoods(oracle.support_operator(reports), oracle.likelihood_ratio)


@enumerable
def test_differences_of_the_loss_are_those_of_the_channel(oracle):
    reports, likelihoods = reports_and_likelihoods(oracle, 200)
    probability = enumerate_channel(oracle).probability[:, output_indices(oracle, reports)]
    first, second = np.random.default_rng(1).dirichlet(np.ones(oracle.d), 2)
    found = report_loss(likelihoods, first)[0] - report_loss(likelihoods, second)[0]
    assert_allclose(found, -np.mean(np.log(first @ probability) - np.log(second @ probability)), rtol=0, atol=1e-12)


@every_oracle
def test_gradient_is_that_of_the_value(name):
    _, likelihoods = reports_and_likelihoods(ORACLES[name](1.0, 9), 100)
    f = np.random.default_rng(2).dirichlet(np.ones(9))
    gradient = report_loss(likelihoods, f)[1]
    for v, step in enumerate(1e-5 * np.eye(9)):
        slope = (report_loss(likelihoods, f + step)[0] - report_loss(likelihoods, f - step)[0]) / 2e-5
        assert abs(slope - gradient[v]) <= FINITE_DIFFERENCE


@every_oracle
def test_the_maximum_is_a_mixture_whose_gap_the_gradient_confirms(name):
    _, likelihoods = reports_and_likelihoods(ORACLES[name](2.0, 30), 2_000)
    fit = mixture_weights(likelihoods)
    value, gradient = report_loss(likelihoods, fit.weights)
    assert_allclose(value, -fit.log_likelihood, rtol=SUM)
    assert -gradient.min() - 1 <= 1e-9 + SUM
    assert_allclose(-gradient[fit.weights > 1e-6], 1, rtol=0, atol=1e-7)


def test_of_grr_it_is_the_likelihood_of_counts():
    oracle = GRR(1.0, 40)
    reports, likelihoods = reports_and_likelihoods(oracle, 3_000)
    expected = water_filling(oracle.support_counts(reports) / 3_000, oracle.q / (oracle.p - oracle.q))
    assert_allclose(mixture_weights(likelihoods, tol=1e-12).weights, expected, rtol=0, atol=1e-9)


def test_an_impossible_report_is_infinite_loss():
    likelihoods = report_likelihoods(GRR(1.0, 2).support_operator([0, 1]), np.e)
    value, gradient = report_loss(likelihoods, np.array([1.0, -0.9]))
    assert value == np.inf
    assert np.isnan(gradient).all()
