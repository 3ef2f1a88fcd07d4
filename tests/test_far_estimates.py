"""Estimates made by hand, far outside the frequencies or between them: a prior, or a sentence."""

import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Problem, constraints, losses
from ldpopt.errors import InfeasibleError, InvalidInputError, LdpoptWarning
from ldpopt.estimate.noise import Noise
from ldpopt.priors import NPMLE, Mixture, binning
from ldpopt.solve import feasibility
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


DATA = np.array([0.5, -0.1, 0.3, 0.15, 0.2, -0.05])
CHAIN = constraints.Monotone(np.arange(6))


def sets_in(unit):
    """Sets whose numbers count in a unit, some with a closed form and some without."""
    total = constraints.SumsTo(unit)
    groups = constraints.GroupTotals([[0, 1], [2, 3]], [0.6 * unit, 0.3 * unit])
    row = constraints.Linear([[1.0, -2.0, 0.0, 0.0, 1.0, 0.0]], [-0.1 * unit], [0.2 * unit])
    return {
        "chain": [CHAIN],
        "chain, ball": [CHAIN, constraints.Near(np.full(6, unit / 6), 0.3 * unit, 2)],
        "mode, total": [constraints.Unimodal(2), total],
        "groups, chain": [groups, CHAIN],
        "row, top set": [row, constraints.TopSet([0, 2]), total],
        "variation, row": [constraints.Smooth(total_variation=0.4 * unit), row],
    }


def losses_in(unit):
    """Losses whose minimisers have the unit of the estimate."""
    return {
        "squares": losses.LeastSquares(),
        "absolute": losses.LeastAbsolute(),
        "Huber": losses.Huber(0.05 * unit),
        "squares and reference": losses.LeastSquares() + 0.1 * unit * losses.L1To(np.full(6, unit)),
    }


@pytest.mark.parametrize("loss", losses_in(1.0))
@pytest.mark.parametrize("where", sets_in(1.0))
def test_counts_of_users_are_as_good_as_frequencies(loss, where):
    # A power of two: numbers are the same but for their exponent.
    unit = 2.0**40
    small = Problem(losses_in(1.0)[loss], sets_in(1.0)[where]).solve(DATA)
    large = Problem(losses_in(unit)[loss], sets_in(unit)[where]).solve(DATA * unit)
    assert large.certificate.is_optimal(1e-8, relative=True)
    assert large.objective / small.objective == pytest.approx(
        unit if loss == "absolute" else unit**2, rel=1e-7
    )


@pytest.mark.parametrize("exponent", [340, 480])
@pytest.mark.parametrize(
    ("loss", "where"),
    [("squares", "chain"), ("squares", "chain, ball"), ("Huber", "chain"), ("absolute", "chain")],
)
def test_orders_have_a_minimum_in_any_unit(loss, where, exponent):
    unit = 2.0**exponent
    small = Problem(losses_in(1.0)[loss], sets_in(1.0)[where]).minimise(DATA)
    large = Problem(losses_in(unit)[loss], sets_in(unit)[where]).minimise(DATA * unit)
    assert large / unit == pytest.approx(small, rel=1e-9, abs=1e-9)


def test_the_weighted_likelihood_is_certified_in_a_large_unit():
    unit = 2.0**400
    noise = Noise(constant=(0.4 * unit) ** 2, slope=0.01 * unit, n=1_000)
    simplex = [constraints.NonNegative(), constraints.SumsTo(unit)]
    estimate = FrequencyEstimate(DATA * unit, noise=noise)
    certificate = Problem(losses.GaussianMLE(), simplex).solve(estimate).certificate
    assert certificate.is_optimal(1e-8, relative=True)


def test_data_beyond_the_doubles_are_no_loss_that_falls_for_ever():
    noise = Noise(constant=1.0, slope=1.0, n=1_000)
    estimate = FrequencyEstimate(np.abs(DATA) * 1e160, noise=noise)
    with pytest.raises(InvalidInputError, match="beyond the range of doubles"):
        Problem(losses.GaussianMLE(), [CHAIN]).solve(estimate)


def test_totals_that_differ_by_their_rounding_do_not_conflict():
    parts = np.array([0.1, 0.2, 0.3]) * 1e12
    sums = constraints.GroupTotals([[0], [1], [2]], parts)
    # One bit of 6e11 is 1e-4.
    rounded = constraints.SumsTo(float(np.nextafter(parts.sum(), np.inf)))
    positive = constraints.NonNegative()
    feasibility.require_feasible([sums, rounded, positive], 3)
    with pytest.raises(InfeasibleError, match="these conflict"):
        feasibility.require_feasible([sums, constraints.SumsTo(7e11), positive], 3)


@pytest.mark.parametrize(
    "where",
    [
        [constraints.NonNegative(), constraints.SumsTo(1.0)],
        [constraints.Bounds(0.0, 1.0)],
        [constraints.SumsTo(1.0)],
    ],
    ids=["simplex", "bounds", "total"],
)
@pytest.mark.parametrize("size", [1e155, 1e200, 1e300])
def test_where_the_loss_itself_is_no_double_nothing_is_called_optimal(where, size):
    """Its slopes are numbers, beside which a gap may look small."""
    problem = Problem(losses.LeastSquares(), where)
    with pytest.warns(LdpoptWarning, match="the solution is inaccurate"):
        alone = problem.solve([size, 0.0, 0.0])
    with pytest.warns(LdpoptWarning, match="the solution is inaccurate"):
        stack = problem.solve([[size, 0.0, 0.0], [0.5, 0.25, 0.0]])
    assert alone.status == stack.status == "inaccurate"
    assert problem.solve([1e140, 0.0, 0.0]).status == "optimal"
