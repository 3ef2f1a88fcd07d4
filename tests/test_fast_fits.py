"""Weights of priors by the short ways, against the search for any mixture weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import datasets, oracles
from ldpopt.errors import InvalidInputError
from ldpopt.priors import grid_weights as grid
from ldpopt.priors import penalised, weight_kernels
from ldpopt.priors.binning import Binned
from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.mixture_prior import cell_edges, dictionaries
from ldpopt.priors.mixture_weights import SHORTEST, SUFFICIENT, mixture_weights
from ldpopt.priors.npmle import TOLERANCE
from ldpopt.priors.weight_kernels import grid_newton

PSEUDO = 0.5


@pytest.fixture(scope="module", params=["zipf", "beta"])
def binned(request):
    data = datasets.load(request.param)
    oracle = oracles.OUE(1.0, data.d)
    raw = oracle.estimate(oracle.simulate_counts(data.counts, 3), data.n)
    return Binned.of(EstimatedCounts.of(raw, value_dependent=False))


def forbidden(*_, **__):
    raise AssertionError("the search for any mixture was called")


def test_npmle_on_the_grid_is_as_likely_as_the_search_finds(binned, monkeypatch):
    likelihoods = binned.likelihoods(binned.near(0.1, 1.0))
    searched = mixture_weights(likelihoods, binned.size, tol=TOLERANCE)
    monkeypatch.setattr(grid, "mixture_weights", forbidden)
    weights, gap = grid.grid_weights(likelihoods, binned.size, TOLERANCE)
    assert 0 < gap <= TOLERANCE
    assert weights.min() >= 0
    assert_allclose(weights.sum(), 1, rtol=1e-12)
    share = binned.size / binned.d
    reached = share @ np.log(likelihoods @ weights)
    assert_allclose(reached, share @ np.log(likelihoods @ searched.weights), atol=2 * TOLERANCE)
    # The gap is a bound by its definition: scores of all places, not of the chosen ones.
    score = (share / (likelihoods @ weights)) @ likelihoods
    assert_allclose(score.max() - 1, gap, atol=1e-12)


def test_npmle_goes_on_by_the_search_where_steps_end(binned, monkeypatch):
    likelihoods = binned.likelihoods(binned.near(0.1, 1.0))
    monkeypatch.setattr(grid, "_STEPS", 2)
    _, gap = grid.grid_weights(likelihoods, binned.size, TOLERANCE)
    assert gap <= TOLERANCE


@pytest.mark.parametrize(
    ("score", "peaks"),
    [
        ([3.0, 2.0, 1.5], [0]),
        ([1.5, 2.0, 3.0], [2]),
        ([2.0, 0.5, 3.0], [0, 2]),
        ([2.0, 3.0, 2.0, 0.5, 0.9, 0.5], [1]),
        ([2.0, 2.0, 0.0], [1]),
        ([1.0, 0.5], []),
    ],
)
def test_new_places_are_peaks_of_the_scores_above_one(score, peaks):
    # In Python, where a place past the end is an error: compiled code reads what lies there.
    kept = weight_kernels._places_and_peaks.py_func(np.zeros(len(score)), np.array(score))
    assert kept.tolist() == peaks


def test_steps_too_flat_to_compare_end_where_the_gap_would_rise(binned):
    likelihoods = binned.likelihoods(binned.near(0.1, 1.0))
    start = np.zeros(likelihoods.shape[1])
    start[grid._first_places(likelihoods)] = 1.0
    start /= start.sum()
    # With an infinite threshold every rise is too flat, and the gap alone accepts a step.
    gaps = []
    for steps in range(8):
        limits = (1e-14, steps, np.inf, SUFFICIENT, SHORTEST)
        gaps.append(grid_newton(likelihoods, binned.size / binned.d, start.copy(), limits))
    assert (np.diff(gaps) <= 0).all()
    assert gaps[2] < gaps[0]


def test_npmle_of_estimates_that_the_first_places_do_not_explain():
    # Place 5 alone explains the second bin, and no first place is there.
    likelihoods = np.zeros((2, 30))
    likelihoods[0] = np.exp(-((np.arange(30) - 10.0) ** 2) / 50)
    likelihoods[1, 5] = 1.0
    weights, gap = grid.grid_weights(likelihoods, np.array([3.0, 1.0]), TOLERANCE)
    assert gap <= TOLERANCE
    assert weights[5] > 0.2


def test_penalised_weights_are_those_of_the_search(binned, monkeypatch):
    edges = cell_edges(binned)
    support = np.append(0.0, (edges[1:] + edges[:-1]) / 2)
    for shapes in dictionaries(binned, edges)[::5]:
        likelihoods = binned.likelihoods(support, shapes)
        expected = penalised._by_search(likelihoods, binned.size, PSEUDO, 1e-12)
        with monkeypatch.context() as patch:
            patch.setattr(penalised, "mixture_weights", forbidden)
            fit = penalised.penalised_weights(likelihoods, binned.size, PSEUDO, 1e-12)
        assert 0 < fit.gap <= 1e-12
        assert_allclose(fit.weights, expected.weights, atol=1e-5)
        assert_allclose(fit.weights.sum(), 1, rtol=1e-12)


def test_penalised_weights_go_on_by_the_search_where_newton_ends(binned, monkeypatch):
    edges = cell_edges(binned)
    support = np.append(0.0, (edges[1:] + edges[:-1]) / 2)
    likelihoods = binned.likelihoods(support, dictionaries(binned, edges)[-1])
    right = penalised.penalised_weights(likelihoods, binned.size, PSEUDO, TOLERANCE)
    monkeypatch.setattr(penalised, "_STEPS", 1)
    fit = penalised.penalised_weights(likelihoods, binned.size, PSEUDO, TOLERANCE)
    assert_allclose(fit.weights, right.weights, atol=1e-3)


def test_a_bin_that_no_component_explains_is_an_error():
    likelihoods = np.array([[1.0, 0.5], [0.0, 0.0]])
    with pytest.raises(InvalidInputError, match="observation 1 has probability zero"):
        penalised.penalised_weights(likelihoods, np.ones(2), PSEUDO, TOLERANCE)
    with pytest.raises(InvalidInputError, match="observation 1 has probability zero"):
        grid.grid_weights(likelihoods, np.ones(2), TOLERANCE)
