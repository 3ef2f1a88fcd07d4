"""Channels as matrices, and the likelihood of counts of their outcomes."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import Problem
from ldpopt.channels import Matrix, mix
from ldpopt.claims.reference.channels import channel
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import ChannelMLE, MultinomialMLE
from ldpopt.oracles import GRR, SUE
from tests.tolerances import UNPOLISHED

SIMPLEX = [NonNegative(), SumsTo(1.0)]
COIN = [[0.75, 0.25], [0.25, 0.75]]


def test_of_grr_it_is_the_multinomial_likelihood():
    oracle = GRR(1.0, 6)
    counts = np.array([400, 250, 150, 120, 50, 30])
    raw = oracle.estimate(counts, 1_000)
    matrix = np.full((6, 6), oracle.q) + np.diag(np.full(6, oracle.p - oracle.q))
    ours = Problem(ChannelMLE(matrix, counts), SIMPLEX).solve(raw)
    theirs = Problem(MultinomialMLE(), SIMPLEX).solve(raw)
    assert ours.certificate.is_optimal(1e-9)
    assert_allclose(ours.frequencies, theirs.frequencies, rtol=0, atol=1e-5)


def test_an_outcome_that_no_value_sends_and_nobody_sent_says_nothing():
    loss = ChannelMLE([*COIN, [0.0, 0.0]], [60, 40, 0])
    start = FrequencyEstimate([0.3, 0.7])
    f = start.frequencies
    assert loss.value(f, start) == ChannelMLE(COIN, [60, 40]).value(f, start)
    assert np.isfinite(loss.gradient(f, start)).all()


@UNPOLISHED
@pytest.mark.parametrize("way", [{"solver": "em", "max_steps": 100_000}, {"path": "conic"}])
def test_other_ways_lead_to_the_same_minimum(way):
    rng = np.random.default_rng(0)
    matrix = rng.dirichlet(np.ones(9), size=4).T
    loss = ChannelMLE(matrix, rng.integers(20, 200, 9))
    problem = Problem(loss, SIMPLEX)
    start = FrequencyEstimate(np.full(4, 0.25))
    fast = problem.solve(start)
    other = problem.solve(start, **way)
    assert fast.solver == "accelerated"
    assert fast.certificate.is_optimal(1e-9)
    values = [float(loss.value(each.frequencies, start)) for each in (fast, other)]
    assert_allclose(values[0], values[1], rtol=0, atol=1e-6)
    assert values[0] <= values[1] + 1e-9


def test_the_gradient_is_that_of_the_value():
    rng = np.random.default_rng(1)
    loss = ChannelMLE(rng.dirichlet(np.ones(5), size=3).T, [5, 0, 7, 2, 1])
    f = np.array([0.5, 0.3, 0.2])
    start = FrequencyEstimate(f)
    gradient = loss.gradient(f, start)
    for v, step in enumerate(1e-5 * np.eye(3)):
        slope = (loss.value(f + step, start) - loss.value(f - step, start)) / 2e-5
        assert slope == pytest.approx(gradient[v], abs=1e-6)


def test_mixed_users_are_estimated_together():
    weak = Matrix([[0.6, 0.4], [0.4, 0.6]])
    strong = Matrix([[0.9, 0.1], [0.1, 0.9]])
    both = mix([weak, strong], users=[3, 1])
    assert both.epsilon == strong.epsilon > weak.epsilon
    # Counts that a share of 0.7 would give exactly, in each channel.
    counts = [540, 460, 660, 340]
    start = FrequencyEstimate([0.5, 0.5])
    solution = Problem(ChannelMLE(both, counts), SIMPLEX).solve(start)
    assert_allclose(solution.frequencies, [0.7, 0.3], rtol=0, atol=1e-6)
    # How many users have each channel changes the loss by a constant alone.
    equal = Problem(ChannelMLE(mix([weak, strong]), counts), SIMPLEX).solve(start)
    assert_allclose(solution.frequencies, equal.frequencies, rtol=0, atol=1e-8)


def test_the_privacy_loss_is_that_of_the_matrix():
    oracle = SUE(1.0, 3)
    assert Matrix(channel(oracle).probability).epsilon == pytest.approx(1.0, abs=1e-9)
    assert Matrix([[0.5, 0.5], [0.5, 0.5]]).epsilon == 0
    assert Matrix([[1.0, 0.5], [0.0, 0.5]]).epsilon == math.inf
    assert Matrix([[1.0, 1.0], [0.0, 0.0]]).epsilon == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Matrix([0.5, 0.5]), "shape"),
        (lambda: Matrix([[1.2, 0.5], [-0.2, 0.5]]), "found 1.2 at outcome 0 of value 0"),
        (lambda: Matrix([[np.nan, 0.5], [0.5, 0.5]]), "found nan"),
        (lambda: Matrix([[0.5, 0.5], [0.5, 0.4]]), "column 1 sums to 0.9"),
        (lambda: Matrix([[0.9, 0.1], [0.3, 0.7]]), "pass its transpose"),
        # Neither do its rows: a transpose would be no remedy.
        (lambda: Matrix([[0.5, 0.5], [0.500001, 0.500001]]), r"sums to 1\.000001$"),
        (lambda: mix([]), "no channel"),
        (lambda: mix([COIN]), "channel 0 must be a Matrix"),
        (lambda: mix([Matrix(COIN), Matrix(np.full((2, 3), 0.5))]), "of 3 values"),
        (lambda: mix([Matrix(COIN)], users=[0]), "numbers > 0"),
        (lambda: ChannelMLE(COIN, [1, 2, 3]), "one per outcome"),
        (lambda: ChannelMLE(COIN, [0, 0]), "no reports"),
        (lambda: ChannelMLE(COIN, [0.5, 1]), "whole numbers"),
        (lambda: ChannelMLE([[1.0, 1.0], [0.0, 0.0]], [1, 1]), "outcome 1 was counted"),
        (
            lambda: Problem(ChannelMLE(COIN, [1, 2]), SIMPLEX).solve(
                FrequencyEstimate([0.2, 0.3, 0.5])
            ),
            "channel is of 2 values",
        ),
    ],
)
def test_what_is_no_channel_is_told(make, message):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        make()
