"""Losses: values by formulas, gradients by differences, responses by their definition."""

import gc
import math
import pickle
import warnings
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from ldpopt import FrequencyEstimate, Problem, losses, oracles, postprocess, priors
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Custom,
    GroupTotals,
    Monotone,
    NonNegative,
    SumsTo,
)
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError, LdpoptWarning
from ldpopt.estimate import Noise
from ldpopt.losses.normalised import TiltedGaussianMLE
from ldpopt.losses.quadratic import relative_roundings
from tests.tolerances import CERTIFIED, FINITE_DIFFERENCE, OBJECTIVE, SOLVER, SUM

D = 5
N = 400
STEP = 1e-5
ORACLES = {
    "kappa > 0": oracles.OUE(epsilon=1.0, d=D),
    "kappa = 0": oracles.SUE(epsilon=1.0, d=D),
    "kappa < 0": oracles.HadamardResponse(epsilon=2.0, d=D),
    "one value each": oracles.GRR(epsilon=1.0, d=D),
}
WEIGHTS = [0.5, 1.0, 2.0, 7.0, 0.25]
LOSSES = {
    "least squares": losses.LeastSquares(),
    "weighted": losses.WeightedLeastSquares(WEIGHTS),
    "gaussian": losses.GaussianMLE(),
    "binomial": losses.BinomialMLE(),
    "multinomial": losses.MultinomialMLE(),
}
COUNTS = {
    "ordinary": [200, 90, 60, 40, 10],
    "with zero": [0, 90, 60, 240, 10],
    "all and none": [N, 0, 0, 0, 0],
}
GAUSSIAN = LOSSES["gaussian"]
PAIRS = [
    (loss, oracle, counts)
    for loss in LOSSES
    for oracle in ORACLES
    for counts in COUNTS
    if loss != "multinomial" or oracle == "one value each"
]
every_pair = pytest.mark.parametrize(("name", "oracle", "counts"), PAIRS)


def estimate_of(oracle, counts):
    return ORACLES[oracle].estimate(COUNTS[counts], N)


def probabilities(f, estimate):
    return estimate.oracle.q + (estimate.oracle.p - estimate.oracle.q) * f


def term(loss, estimate, f, value):
    """The loss as a function of one value, the others staying: shape of f."""
    points = np.tile(np.full(D, 1 / D), (len(f), 1))
    points[:, value] = f
    return loss.value(points, estimate)


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("counts", COUNTS)
def test_the_binomial_loss_is_minus_the_log_likelihood_over_n_up_to_a_constant(oracle, counts):
    estimate = estimate_of(oracle, counts)
    rng = np.random.default_rng(1)
    f = rng.dirichlet(np.ones(D), 20)
    independent = (
        -stats.binom.logpmf(COUNTS[counts], N, probabilities(f, estimate)).sum(axis=-1) / N
    )
    difference = losses.BinomialMLE().value(f, estimate) - independent
    assert_allclose(difference, difference[0], rtol=0, atol=CERTIFIED)


@pytest.mark.parametrize("counts", COUNTS)
def test_the_multinomial_loss_is_minus_the_log_likelihood_over_n_up_to_a_constant(counts):
    estimate = estimate_of("one value each", counts)
    rng = np.random.default_rng(2)
    f = rng.dirichlet(np.ones(D), 20)
    law = [
        stats.multinomial.logpmf(COUNTS[counts], N, p / p.sum()) for p in probabilities(f, estimate)
    ]
    difference = losses.MultinomialMLE().value(f, estimate) + np.array(law) / N
    assert_allclose(difference, difference[0], rtol=0, atol=CERTIFIED)


@pytest.mark.parametrize("oracle", ORACLES)
def test_quadratic_losses_equal_their_sums_term_by_term(oracle):
    estimate = estimate_of(oracle, "ordinary")
    f = np.random.default_rng(3).dirichlet(np.ones(D))
    squares = [(x - y) ** 2 for x, y in zip(f, estimate.frequencies, strict=True)]
    variances = [estimate.oracle.a + estimate.oracle.b * x for x in f]
    assert_allclose(losses.LeastSquares().value(f, estimate), sum(squares) / 2, rtol=SUM)
    weighted = sum(w * s for w, s in zip(WEIGHTS, squares, strict=True)) / 2
    assert_allclose(losses.WeightedLeastSquares(WEIGHTS).value(f, estimate), weighted, rtol=SUM)
    gaussian = sum(s / v for s, v in zip(squares, variances, strict=True))
    assert_allclose(losses.GaussianMLE().value(f, estimate), gaussian, rtol=SUM)


@pytest.mark.parametrize("name", ["binomial", "multinomial"])
def test_a_likelihood_is_infinite_where_a_probability_is_negative(name):
    estimate = estimate_of("one value each", "ordinary")
    f = np.array([-2.0, 1.0, 1.0, 0.5, 0.5])
    assert LOSSES[name].value(f, estimate) == np.inf


@pytest.mark.parametrize("name", ["binomial", "multinomial"])
def test_probabilities_at_the_ends_of_their_range_are_so_up_to_rounding(name):
    """A value that no report supports may have a P of 0, which is computed as -1e-17."""
    loss = LOSSES[name]
    estimate = estimate_of("one value each", "ordinary")
    f = np.full(D, 1 / D)

    def is_inside(probability):
        probabilities = np.full(D, 0.5)
        probabilities[1] = probability
        return loss._is_inside(probabilities, f, estimate)

    assert all(map(is_inside, (0.0, 1.0, -1e-17, 1 + 2**-52)))
    assert not is_inside(-1e-14)
    assert is_inside(1 + 1e-14) == (name == "multinomial")


def test_the_binomial_loss_is_infinite_above_one():
    assert LOSSES["binomial"].value(np.full(D, 5.0), estimate_of("kappa > 0", "ordinary")) == np.inf


@pytest.mark.parametrize("name", ["binomial", "multinomial"])
def test_a_likelihood_is_least_at_the_estimate(name):
    estimate = estimate_of("one value each", "ordinary")
    best = LOSSES[name].value(estimate.frequencies, estimate)
    shifts = np.random.default_rng(4).normal(0, 0.02, (50, D))
    others = estimate.frequencies + shifts - shifts.mean(axis=-1, keepdims=True)
    assert np.all(LOSSES[name].value(others, estimate) > best)


# --- gradients ------------------------------------------------------------------------------------


@every_pair
def test_the_gradient_equals_central_differences(name, oracle, counts):
    loss = LOSSES[name]
    estimate = estimate_of(oracle, counts)
    f = np.random.default_rng(5).dirichlet(np.ones(D)) * 0.8 + 0.1 / D
    gradient = loss.gradient(f, estimate)
    for v, step in enumerate(np.eye(D) * STEP):
        slope = (loss.value(f + step, estimate) - loss.value(f - step, estimate)) / (2 * STEP)
        assert_allclose(gradient[v], slope, rtol=FINITE_DIFFERENCE, atol=FINITE_DIFFERENCE)


@every_pair
def test_values_and_gradients_of_a_stack_are_those_of_its_rows(name, oracle, counts):
    loss = LOSSES[name]
    alone = [estimate_of(oracle, counts), estimate_of(oracle, "ordinary")]
    stack = FrequencyEstimate([e.frequencies for e in alone], n=N, oracle=ORACLES[oracle])
    f = np.random.default_rng(6).dirichlet(np.ones(D), 2)
    loss.validate_for(stack)
    for i, estimate in enumerate(alone):
        assert_allclose(loss.value(f, stack)[i], loss.value(f[i], estimate), rtol=SUM)
        assert_allclose(loss.gradient(f, stack)[i], loss.gradient(f[i], estimate), rtol=SUM)


@every_pair
def test_the_loss_is_strongly_convex_by_what_it_says(name, oracle, counts):
    loss = LOSSES[name]
    estimate = estimate_of(oracle, counts)
    f, g = np.random.default_rng(7).dirichlet(np.ones(D), (2, 30))
    slope = np.sum(loss.gradient(f, estimate) * (g - f), axis=-1)
    quadratic = np.sum(loss.curvature(estimate) / 2 * (g - f) ** 2, axis=-1)
    assert np.all(
        loss.value(g, estimate) >= loss.value(f, estimate) + slope + quadratic - CERTIFIED
    )


# --- responses ------------------------------------------------------------------------------------


def responses(loss, estimate, mu):
    """f(μ) of shape (len(mu), d)."""
    data = tuple(np.broadcast_to(x, (len(mu), D)) for x in loss.data(estimate))
    return loss.response(np.asarray(mu)[:, None], data, loss.constants(estimate))


MULTIPLIERS = np.array([-3.0, -1.0, -0.3, -0.1, -0.01, -1e-9, 0.0, 1e-9, 0.01, 0.1, 0.3, 1.0, 3.0])


@every_pair
def test_the_response_does_not_increase_with_the_multiplier(name, oracle, counts):
    loss = LOSSES[name]
    estimate = estimate_of(oracle, counts)
    mu = np.sort(
        np.concatenate(
            [np.linspace(-5, 5, 401), np.geomspace(1e-12, 1e6, 60), -np.geomspace(1e-12, 1e6, 60)]
        )
    )
    result = responses(loss, estimate, mu)
    assert not np.isnan(result).any()
    before, after = result[:-1], result[1:]
    assert np.all(
        after <= before + SUM * np.maximum(1, np.abs(np.where(np.isfinite(before), before, 0)))
    )


@every_pair
def test_the_response_has_a_derivative_of_minus_the_multiplier(name, oracle, counts):
    loss = LOSSES[name]
    estimate = estimate_of(oracle, counts)
    checked = 0
    for mu, result in zip(MULTIPLIERS, responses(loss, estimate, MULTIPLIERS), strict=True):
        at = probabilities(result, estimate)
        inside = np.isfinite(result)
        if name in ("binomial", "multinomial"):  # at the ends of [0, 1] there is no derivative
            inside &= (at > 1e-6) & (at < 1 - 1e-6)
        gradient = loss.gradient(np.where(inside, result, 0.5), estimate)
        assert_allclose(gradient[inside], -mu, rtol=1e-9, atol=1e-9)
        checked += inside.sum()
    assert checked >= (2 if counts == "all and none" else 10)


@every_pair
def test_the_clipped_response_is_the_best_point_of_a_dense_grid(name, oracle, counts):
    loss = LOSSES[name]
    estimate = estimate_of(oracle, counts)
    grid = np.linspace(0, 1, 2001)
    for mu, result in zip(
        MULTIPLIERS, np.clip(responses(loss, estimate, MULTIPLIERS), 0, 1), strict=True
    ):
        for v in range(D):
            with np.errstate(invalid="ignore"):
                best = np.min(term(loss, estimate, grid, v) + mu * grid)
                here = term(loss, estimate, result[v : v + 1], v)[0] + mu * result[v]
            assert here <= best + CERTIFIED


@pytest.mark.parametrize("name", ["least squares", "weighted", "gaussian", "binomial"])
@pytest.mark.parametrize("oracle", ORACLES)
def test_without_a_multiplier_the_response_is_the_estimate(name, oracle):
    estimate = estimate_of(oracle, "with zero")
    assert_allclose(
        responses(LOSSES[name], estimate, [0.0])[0],
        estimate.frequencies,
        rtol=0,
        atol=SUM / (estimate.oracle.p - estimate.oracle.q),
    )


def test_the_multinomial_likelihood_escapes_without_a_multiplier():
    estimate = estimate_of("one value each", "ordinary")
    result = responses(LOSSES["multinomial"], estimate, [-1.0, 0.0])
    assert np.all(result == np.inf)


@pytest.mark.parametrize("total", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("bounds", [(0.0, np.inf), (0.0, 0.6), (0.01, 0.9)])
def test_the_divergence_on_a_box_is_solved_by_one_root(bounds, total):
    raw = np.abs(np.random.default_rng(8).normal(0.5, 1.0, (3, D))) + 1e-3
    problem = Problem(losses.KullbackLeibler(), [Bounds(*bounds), SumsTo(total)])
    solution = problem.solve(raw)
    assert solution.solver == "one root"
    assert solution.certificate.violation.max() < CERTIFIED
    assert solution.certificate.gap.max() < 1e-9
    # Clarabel stops before its tolerances on some of these.
    numeric = problem.solve(raw, path="conic", solver="SCS")
    assert_allclose(solution.objective, numeric.objective, rtol=0, atol=3 * OBJECTIVE)


@pytest.mark.parametrize("path", ["auto", "conic"])
def test_without_a_total_the_divergence_is_least_at_the_estimate_over_e(path):
    raw = np.array([2.0, 0.5, -0.1, 0.25])
    result = Problem(losses.KullbackLeibler(), [NonNegative()]).solve(raw, path=path).frequencies
    assert_allclose(result, np.maximum(raw, 0) / math.e, rtol=0, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("total", [1.0, 1e15])
@pytest.mark.parametrize(
    "loss", [losses.Entropy(), losses.KullbackLeibler(), losses.LeastSquares()]
)
def test_caps_that_add_up_to_the_total_but_for_rounding_meet_it(loss, total):
    d = 6
    caps = np.full(d, total / d)
    assert caps.sum() < total
    solution = Problem(loss, [Bounds(0.0, caps), SumsTo(total)]).solve(np.arange(0.5, d))
    assert solution.status == "optimal"
    assert_allclose(solution.frequencies, caps, rtol=1e-12)


def test_the_divergence_refuses_a_total_that_its_values_cannot_reach():
    with pytest.raises(InfeasibleError, match=r"keeps values at zero.*at most 0\.6, not 1"):
        Problem(losses.KullbackLeibler(), [Bounds(0.0, 0.6), SumsTo()]).solve([0.5, -0.2, -0.7])


def test_the_divergence_refuses_a_lower_bound_where_the_estimate_is_not_positive():
    with pytest.raises(
        InfeasibleError, match=r"f\[1\] = 0, else KullbackLeibler\(\) is infinite; 0\.1 <= f\[1\]"
    ):
        Problem(losses.KullbackLeibler(), [Bounds(0.1, 1.0), SumsTo()]).solve([0.5, -0.2, 0.7])


# --- weights --------------------------------------------------------------------------------------


def test_equal_weights_are_least_squares():
    estimate = estimate_of("kappa > 0", "ordinary")
    simplex = [NonNegative(), SumsTo()]
    weighted = Problem(losses.WeightedLeastSquares(np.full(D, 3.0)), simplex).solve(estimate)
    plain = Problem(losses.LeastSquares(), simplex).solve(estimate)
    assert_allclose(weighted.frequencies, plain.frequencies, rtol=0, atol=CERTIFIED)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([1.0, 0.0, 2.0], r"positive .*found 0 at index 1"),
        ([1.0, 2.0, -3.0], r"positive .*found -3 at index 2"),
        ([[1.0, 2.0]], r"shape \(d,\), got shape \(1, 2\)"),
        ([1.0, math.nan], r"weights .*index 1"),
        ([math.inf, 1.0], r"weights .*index 0"),
        ([], "weights"),
        (2.0, "weights"),
        (["a"], "weights"),
    ],
    ids=str,
)
def test_weights_must_be_positive_numbers(weights, match):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        losses.WeightedLeastSquares(weights)


def test_there_must_be_one_weight_a_value():
    with pytest.raises(InvalidInputError, match="3 weights for 2 values"):
        Problem(losses.WeightedLeastSquares([1.0, 2.0, 3.0]), [SumsTo()]).solve([0.5, 0.5])


def test_weights_are_those_of_when_the_loss_was_made():
    weights = np.ones(2)
    loss = losses.WeightedLeastSquares(weights)
    weights[:] = -1.0
    assert_allclose(loss.value(np.array([0.5, 0.5]), FrequencyEstimate([0.5, 0.0])), 0.125)


# --- likelihoods need raw estimates ---------------------------------------------------------------


@pytest.mark.parametrize("path", ["auto", "conic"])
@pytest.mark.parametrize("oracle", ["kappa > 0", "kappa = 0", "kappa < 0"])
def test_the_multinomial_likelihood_is_that_of_one_value_each_only(oracle, path):
    with pytest.raises(InvalidInputError, match=r"likelihood is that of GRR.*use BinomialMLE\(\)"):
        Problem(losses.MultinomialMLE(), [NonNegative(), SumsTo()]).solve(
            estimate_of(oracle, "ordinary"), path=path
        )


def test_the_multinomial_likelihood_needs_counts_that_sum_to_n():
    estimate = FrequencyEstimate([0.5, 0.2, 0.1, 0.0, 0.0], n=N, oracle=ORACLES["one value each"])
    with pytest.raises(InvalidInputError, match="support one value each"):
        losses.MultinomialMLE().validate_for(estimate)


@pytest.mark.parametrize("name", ["binomial", "multinomial"])
@pytest.mark.parametrize("path", ["auto", "conic"])
def test_a_likelihood_refuses_an_estimate_that_no_counts_give(name, path):
    estimate = FrequencyEstimate([4.0, -3.0, 0.0, 0.0, 0.0], n=N, oracle=ORACLES["one value each"])
    with pytest.raises(InvalidInputError, match=r"raw estimates: at index 0 f = 4"):
        Problem(LOSSES[name], [NonNegative(), SumsTo()]).solve(estimate, path=path)


def test_a_likelihood_names_the_trial_that_is_not_raw():
    estimate = FrequencyEstimate(
        [[0.2] * D, [0.2, 0.2, 0.2, 0.2, -3.0]], n=N, oracle=ORACLES["kappa > 0"]
    )
    with pytest.raises(InvalidInputError, match="at trial 1, index 4 f = -3"):
        losses.BinomialMLE().validate_for(estimate)


@pytest.mark.parametrize("name", ["gaussian", "binomial", "multinomial"])
@pytest.mark.parametrize(
    "estimate", [FrequencyEstimate([0.2] * D), FrequencyEstimate([0.2] * D, n=N)], ids=["bare", "n"]
)
def test_a_likelihood_without_an_oracle_is_refused(name, estimate):
    with pytest.raises(InvalidInputError, match="noise level"):
        Problem(LOSSES[name], [NonNegative(), SumsTo()]).solve(estimate)


# --- absolute deviations --------------------------------------------------------------------------

LAD = losses.LeastAbsolute()


def test_absolute_deviations_are_their_sum_and_their_slopes_the_signs():
    estimate = FrequencyEstimate([[0.5, 0.2, -0.1], [0.1, 0.1, 0.1]])
    f = np.array([[0.4, 0.2, 0.4], [0.2, 0.0, 0.1]])
    assert_allclose(LAD.value(f, estimate), [0.6, 0.2], rtol=SUM)
    assert LAD.gradient(f, estimate).tolist() == [[-1, 0, 1], [1, -1, 0]]


@pytest.mark.parametrize(("target", "expected"), [(-3.0, -1.0), (0.25, 0.25), (7.0, 1.0)])
def test_the_subgradient_at_a_kink_is_the_one_nearest_to_the_target(target, expected):
    estimate = FrequencyEstimate([0.5, 0.2, -0.1])
    f = np.array([0.5, 0.2 + 1e-10, 0.3])  # at a kink, as near as solvers come, and off it
    result = LAD.kinks(LAD.data(estimate), ())[0].subgradient(f, np.full(3, target))
    assert result.tolist() == [expected, expected, 1.0]


def test_every_subgradient_bounds_absolute_deviations_from_below():
    estimate = FrequencyEstimate([0.5, 0.2, -0.1])
    rng = np.random.default_rng(0)
    f = np.array([0.5, 0.1, -0.1])
    for target in rng.normal(0, 1, (20, 3)):
        slope = LAD.kinks(LAD.data(estimate), ())[0].subgradient(f, target)
        for other in rng.normal(0, 1, (20, 3)):
            assert LAD.value(other, estimate) >= LAD.value(f, estimate) + slope @ (other - f) - SUM


# --- expected squared error under a prior ---------------------------------------------------------

PRIOR_N = 60


def posterior_by_counting(y, alpha, n, noise):
    """Mean and variance of a count by summation over all of 1 .. n."""
    k = np.arange(1, n + 1)
    weight = k**-alpha * np.exp(-0.5 * ((y - k) / noise) ** 2)
    weight /= weight.sum()
    return weight, float(weight @ k), float(weight @ k**2 - (weight @ k) ** 2)


def small_estimate(trials=None):
    oracle = oracles.OUE(epsilon=3.0, d=3)
    counts = [[24, 10, 4], [18, 18, 3], [5, 22, 6]]
    return oracle.estimate(counts[0] if trials is None else counts[:trials], PRIOR_N)


def test_the_expected_squared_error_is_that_of_the_enumerated_posterior():
    estimate = small_estimate()
    prior = priors.PowerLaw(alpha=1.2, n=PRIOR_N)
    f = np.array([0.6, 0.3, 0.1])
    expected = 0.0
    for value, y in zip(f, estimate.frequencies * PRIOR_N, strict=True):
        weight, _, _ = posterior_by_counting(y, 1.2, PRIOR_N, estimate.sigma * PRIOR_N)
        expected += weight @ (value - np.arange(1, PRIOR_N + 1) / PRIOR_N) ** 2 / 2
    loss = losses.PosteriorMean(prior)
    assert_allclose(loss.value(f, estimate), expected, rtol=1e-9)
    for v, step in enumerate(np.eye(3) * STEP):
        slope = (loss.value(f + step, estimate) - loss.value(f - step, estimate)) / (2 * STEP)
        assert_allclose(loss.gradient(f, estimate)[v], slope, rtol=0, atol=FINITE_DIFFERENCE)


@pytest.mark.parametrize(
    "prior", [priors.PowerLaw(alpha=1.2, n=PRIOR_N), priors.PowerLaw], ids=["given", "family"]
)
def test_the_target_is_the_posterior_mean_in_every_trial(prior):
    stack = small_estimate(3)
    loss = losses.PosteriorMean(prior)
    assert_allclose(loss.target(stack), priors.posterior_mean(stack, prior), rtol=1e-12)
    f = np.full((3, 3), 1 / 3)
    for trial, row in enumerate(stack.frequencies):
        alone = FrequencyEstimate(row, n=PRIOR_N, oracle=stack.oracle)
        assert_allclose(loss.target(stack)[trial], loss.target(alone), rtol=1e-12)
        assert_allclose(loss.value(f, stack)[trial], loss.value(f[trial], alone), rtol=1e-12)
        assert_allclose(loss.gradient(f, stack)[trial], loss.gradient(f[trial], alone), rtol=1e-9)


def test_a_prior_that_is_given_takes_all_trials_at_once_and_a_posterior_is_found_once(monkeypatch):
    calls = []
    original = priors.PowerLaw.posterior
    monkeypatch.setattr(priors.PowerLaw, "posterior", lambda *a: calls.append(a) or original(*a))
    stack = small_estimate(3)
    problem = Problem(
        losses.PosteriorMean(priors.PowerLaw(1.2, PRIOR_N)),
        [NonNegative(), SumsTo(), Monotone([0, 1])],
    )
    # The scale alone needs the loss's value, and that the variances.
    assert problem.solve(stack).certificate.is_optimal(1e-6, relative=True)
    assert len(calls) == 1
    solution = Problem(losses.PosteriorMean(priors.PowerLaw), problem.constraints).solve(stack)
    assert solution.certificate.is_optimal(1e-6, relative=True)
    assert len(calls) == 1 + 3


@pytest.mark.parametrize(
    "constraints",
    [
        [],
        [NonNegative()],
        [SumsTo()],
        [NonNegative(), SumsTo()],
        [NonNegative(), SumsTo(), Monotone([2, 0, 1])],
        [Bounds(0, 0.5), SumsTo()],
        [NonNegative(), GroupTotals([[0, 1]], [0.75])],
        [NonNegative(), SumsTo(), AtMost(2)],
    ],
    ids=str,
)
def test_under_any_constraints_it_is_least_squares_from_the_posterior_mean(constraints):
    stack = small_estimate(2)
    prior = priors.PowerLaw
    solution = Problem(losses.PosteriorMean(prior), constraints).solve(stack)
    plain = Problem(losses.LeastSquares(), constraints).solve(priors.posterior_mean(stack, prior))
    assert solution.path == plain.path == "closed-form"
    assert solution.solver == f"{plain.solver} of the posterior mean"
    assert_allclose(solution.frequencies, plain.frequencies, rtol=0, atol=CERTIFIED)
    numeric = [] if constraints[-1:] and isinstance(constraints[-1], AtMost) else ["conic"]
    for path in numeric:
        other = Problem(losses.PosteriorMean(prior), constraints).solve(stack, path=path)
        assert_allclose(other.frequencies, solution.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


def test_on_the_simplex_the_posterior_mean_under_a_fitted_power_law_is_power_ns():
    estimate = small_estimate(3)
    solution = Problem(losses.PosteriorMean(priors.PowerLaw), [NonNegative(), SumsTo()]).solve(
        estimate
    )
    assert_allclose(
        solution.frequencies, postprocess(estimate, "power-ns").frequencies, rtol=0, atol=CERTIFIED
    )


def test_a_posterior_mean_pickles_without_what_it_found():
    loss = losses.PosteriorMean(priors.PowerLaw(1.5, N))
    estimate = estimate_of("kappa > 0", "ordinary")
    before = loss.target(estimate)
    again = pickle.loads(pickle.dumps(loss))
    assert not len(again._means)
    assert_allclose(again.target(estimate), before, rtol=0, atol=0)
    assert repr(again) == repr(loss) == f"PosteriorMean(PowerLaw(alpha=1.5, n={N}))"


def test_what_was_found_is_forgotten_with_the_estimate():
    loss = losses.PosteriorMean(priors.PowerLaw(1.5, N))
    estimate = estimate_of("kappa > 0", "ordinary")
    loss.target(estimate)
    assert len(loss._means) == 1
    del estimate
    gc.collect()
    assert not len(loss._means)


@pytest.mark.parametrize("prior", ["power", None, 1.5, dict, FrequencyEstimate])
def test_a_prior_must_be_one_or_a_family(prior):
    with pytest.raises(
        InvalidTypeError, match=r"prior must be a prior from ldpopt\.priors or a family"
    ):
        losses.PosteriorMean(prior)


def test_a_posterior_needs_the_noise_level():
    with pytest.raises(InvalidInputError, match="noise level"):
        Problem(losses.PosteriorMean(priors.PowerLaw), [SumsTo()]).solve([0.5, 0.5])


# --- strong convexity on an interval, by hand -----------------------------------------------------


def by_hand(constant, slope, frequencies=(1.0, 0.0)):
    """An estimate whose noise has the variance constant + slope f."""
    noise = Noise(constant, slope)
    return FrequencyEstimate(frequencies, noise=noise)


def test_the_weighted_mle_is_least_convex_where_its_variance_is_largest():
    # 2 (a + b f̃)²/(a + b f)³: the variances at f̃ are 2 and 1, the largest on 0 .. 1 is 2.
    rising = by_hand(1.0, 1.0)
    assert GAUSSIAN.curvature(rising, 0.0, 1.0).tolist() == [2 * 2**2 / 2**3, 2 * 1**2 / 2**3]
    assert GAUSSIAN.curvature(rising, 0.0, 3.0).tolist() == [2 * 2**2 / 4**3, 2 * 1**2 / 4**3]
    # Bounds of one value alone: the variance of the second is at most 1 + .5.
    apart = GAUSSIAN.curvature(rising, [0.0, 0.0], [1.0, 0.5])
    assert apart.tolist() == [2 * 2**2 / 2**3, 2 * 1**2 / 1.5**3]
    # They are 1 and 2, and the largest is at the lower end: 2 at 0 and 3 at -1.
    falling = by_hand(2.0, -1.0)
    assert GAUSSIAN.curvature(falling, 0.0, 0.5).tolist() == [2 * 1**2 / 2**3, 2 * 2**2 / 2**3]
    assert GAUSSIAN.curvature(falling, -1.0, 0.5).tolist() == [2 * 1**2 / 3**3, 2 * 2**2 / 3**3]
    assert GAUSSIAN.curvature(by_hand(4.0, 0.0)).tolist() == [2 / 4, 2 / 4]


@pytest.mark.parametrize("slope", [1.0, -1.0])
def test_the_weighted_mle_is_not_strongly_convex_on_the_whole_line(slope):
    assert GAUSSIAN.curvature(by_hand(2.0, slope)).tolist() == [0.0, 0.0]


def test_half_the_weighted_mle_is_half_as_convex():
    tilted = TiltedGaussianMLE(np.array([0.3, -0.2]))
    assert tilted.curvature(by_hand(1.0, 1.0), 0.0, 1.0).tolist() == [2**2 / 2**3, 1**2 / 2**3]


def test_where_slopes_cancel_the_rounding_is_that_of_the_distance():
    estimate = by_hand(4.0, 1.0)
    f = np.array([0.5, 0.25])
    slope = GAUSSIAN.gradient(f, estimate)
    tilted = TiltedGaussianMLE(-slope / 2)
    gradient = tilted.gradient(f, estimate)
    assert gradient.tolist() == [0.0, 0.0]
    stated = tilted.gradient_error(f, gradient, estimate)
    assert np.all(stated > GAUSSIAN.gradient_error(f, slope, estimate) / 2)
    assert np.all(stated > 0)


def test_other_losses_are_as_convex_as_their_second_derivatives():
    stack = FrequencyEstimate([[0.5, 0.2], [0.3, 0.3], [0.9, 0.1]])
    weighted = losses.WeightedLeastSquares([3.0, 0.25])
    assert np.array_equal(losses.LeastSquares().curvature(stack), np.ones((3, 2)))
    assert np.array_equal(weighted.curvature(stack), [[3.0, 0.25]] * 3)
    divergence = losses.KullbackLeibler()
    assert np.array_equal(divergence.curvature(stack, 0.0, [4.0, 2.0]), [[0.25, 0.5]] * 3)
    assert np.array_equal(divergence.curvature(stack), np.zeros((3, 2)))
    assert np.array_equal(losses.LeastAbsolute().curvature(stack), np.zeros((3, 2)))


@pytest.mark.parametrize(
    "loss",
    [
        losses.LeastSquares(),
        losses.WeightedLeastSquares([3.0, 0.25, 1.0]),
        GAUSSIAN,
        losses.KullbackLeibler(),
        losses.BinomialMLE(),
        losses.MultinomialMLE(),
    ],
    ids=repr,
)
def test_the_curvature_at_one_point_is_the_second_derivative(loss):
    estimate = oracles.GRR(epsilon=1.0, d=3).estimate([450, 300, 250], 1000)
    f = np.array([0.5, 0.2, 0.3])
    step = 1e-5
    second = np.empty(3)
    for v in range(3):
        moved = np.eye(3)[v] * step
        above = loss.gradient(f + moved, estimate)[v]
        below = loss.gradient(f - moved, estimate)[v]
        second[v] = (above - below) / (2 * step)
    assert_allclose(loss.curvature(estimate, f, f), second, rtol=1e-6)
    # Between bounds it is smaller, or the same.
    smallest = loss.curvature(estimate, f - 0.1, f + 0.1)
    assert np.all(smallest <= loss.curvature(estimate, f, f) * (1 + 1e-12))


# --- what losses state about themselves -----------------------------------------------------------


def test_the_kinks_of_absolute_deviations_are_at_the_estimate():
    (kinks,) = LAD.kinks((np.array([0.5, 0.2]),), ())
    assert kinks.place.tolist() == [0.5, 0.2]
    assert kinks.below.tolist() == [-1.0, -1.0]
    assert kinks.above.tolist() == [1.0, 1.0]
    assert losses.LeastSquares().kinks((np.array([0.5, 0.2]),), ()) == ()


def test_closed_forms_of_least_squares_solve_the_posterior_mean_too():
    loss = losses.PosteriorMean(priors.PowerLaw)
    assert loss.family is losses.LeastSquares
    assert loss.solved_for == "the posterior mean"
    assert losses.WeightedLeastSquares([1.0]).family is losses.WeightedLeastSquares
    assert losses.LeastSquares().solved_for == ""


@pytest.mark.parametrize("name", LOSSES)
def test_a_separable_loss_is_its_separable_self(name):
    assert LOSSES[name].separable is LOSSES[name]


def test_other_losses_are_not_separable():
    for loss in (losses.LeastAbsolute(), losses.NormalisedGaussianMLE()):
        assert loss.separable is None


def test_losses_are_finite_between_the_ends_of_their_domain():
    assert GAUSSIAN.domain((2.0, 1.0, 1.0)) == (-0.5, math.inf)
    assert GAUSSIAN.domain((-0.5, 1.0, 1.0)) == (-math.inf, 2.0)
    assert GAUSSIAN.domain((0.0, 1.0, 1.0)) == (-math.inf, math.inf)
    assert losses.BinomialMLE().domain((0.25, 0.5)) == (-0.5, 1.5)
    assert losses.LeastSquares().domain(()) == (-math.inf, math.inf)


def test_counts_of_none_and_all_have_one_slope_at_their_ends_of_the_domain():
    """The other term is 0/0 there, since P is 0 or 1 to the last bit."""
    estimate = oracles.SUE(epsilon=1.0, d=2).estimate([0, N], N)
    loss = losses.BinomialMLE()
    floor, slope = loss.constants(estimate)
    ends = np.array([-floor, 1 - floor]) / slope
    assert list(floor + slope * ends) == [0, 1]
    assert_allclose(loss.gradient(ends, estimate), [slope, -slope])


def test_a_count_of_none_has_no_slope_under_the_multinomial_likelihood():
    oracle = oracles.GRR(epsilon=1.0, d=3)
    raw = oracle.estimate([0, 70, 50], 120).frequencies
    # Below 0 by rounding, a share is 0: above it by rounding, as it is elsewhere, it would count.
    raw = raw - [1e-15, 0.0, 0.0]
    estimate = FrequencyEstimate(raw, n=120, oracle=oracle, is_raw=True)
    loss = losses.MultinomialMLE()
    assert loss.shares(estimate)[0] == 0
    floor, slope = loss.constants(estimate)
    for end in (-floor / slope, np.nextafter(-floor / slope, -1), 0.0):
        f = np.array([end, 0.5, 0.5])
        assert loss.gradient(f, estimate)[0] == 0
    assert (loss.gradient(f, estimate)[1:] < 0).all()


def test_only_a_loss_that_is_not_convex_has_a_majorant():
    with pytest.raises(NotImplementedError, match=r"LeastSquares\(\) has no majorant"):
        losses.LeastSquares().majorant(np.zeros(2), FrequencyEstimate([0.5, 0.2]))


def test_residuals_are_in_units_of_the_noise_but_at_most_of_the_uniform_frequency():
    # a = b = 0.25 · 100 = 25 and σ = 1/2: the unit is 2, or d where that is less.
    estimate = FrequencyEstimate([0.5, 0.25, 0.25], noise=Noise(0.25, 0.25, 100))
    assert GAUSSIAN.constants(estimate) == (1.0, 25.0, 2.0)
    single = FrequencyEstimate([1.0], noise=Noise(0.25, 0.25, 100))
    assert GAUSSIAN.constants(single) == (1.0, 25.0, 1.0)


@pytest.mark.parametrize(
    "estimate",
    [
        FrequencyEstimate([0.6, 0.4001, -0.00002], n=10**9, oracle=oracles.OUE(epsilon=1.0, d=3)),
        FrequencyEstimate([0.6, 0.400002, -1e-6], noise=[1e-12, 2e-12, 3e-12]),
        FrequencyEstimate([0.6, 0.40000002, -1e-8], noise=Noise([1e-16, 2e-16, 3e-16])),
    ],
    ids=["a billion reports", "variances of 1e-12", "variances of 1e-16"],
)
def test_a_solver_is_within_a_thousandth_of_small_noise(estimate):
    problem = Problem(GAUSSIAN, [NonNegative(), SumsTo()])
    closed = problem.solve(estimate)
    with warnings.catch_warnings():
        # The gap is in units of the noise, where the constraints' rounding is large.
        warnings.simplefilter("ignore", LdpoptWarning)
        conic = problem.solve(estimate, path="conic")
    difference = (conic.frequencies - closed.frequencies) / estimate.noise.sd
    assert np.abs(difference).max() < 1e-3


def test_units_become_finer_only_where_residuals_are_small():
    estimate = FrequencyEstimate([0.5, 0.25, 0.25], noise=Noise(1e-8, 0.0))
    first = GAUSSIAN.constants(estimate)
    assert first[2] == 3.0
    near = estimate.frequencies + 2e-4
    assert GAUSSIAN.finer_constants(near, estimate, first) == (*first[:2], 1000.0)
    assert GAUSSIAN.finer_constants(near, estimate, (*first[:2], 1000.0)) is None
    assert GAUSSIAN.finer_constants(estimate.frequencies, estimate, first) == (*first[:2], 1e4)
    assert GAUSSIAN.finer_constants(estimate.frequencies + 0.5, estimate, first) is None
    assert losses.LeastSquares().finer_constants(near, estimate, ()) is None


def test_the_binomial_likelihood_of_many_reports_is_steep_enough_for_loose_tolerances():
    oracle = oracles.OUE(epsilon=1.0, d=256)
    truth = np.arange(1, 257) ** -1.3
    counts = np.rint(1_000_000 * (oracle.q + (oracle.p - oracle.q) * truth / truth.sum()))
    problem = Problem(losses.BinomialMLE(), [NonNegative(), SumsTo()])
    noise = np.random.default_rng(0).normal(0, 440, 256).round()
    estimate = oracle.estimate((counts + noise).astype(np.int64), 1_000_000)
    loose = problem.solve(estimate, solver="SCS", accuracy="default")
    exact = problem.solve(estimate)
    assert exact.solver == "one root"
    assert_allclose(loose.frequencies, exact.frequencies, rtol=0, atol=1e-4)


def test_the_divergence_needs_a_positive_value_and_zero_is_none():
    with pytest.raises(InvalidInputError, match="needs a positive estimate"):
        losses.KullbackLeibler().validate_for(FrequencyEstimate([[0.5, 0.5], [0.0, -0.25]]))


def test_one_trial_that_is_not_of_grr_is_enough_for_the_multinomial_to_refuse_a_stack():
    oracle = ORACLES["one value each"]
    good = estimate_of("one value each", "ordinary").frequencies
    stack = FrequencyEstimate([good, good * 0.5], n=N, oracle=oracle)
    with pytest.raises(InvalidInputError, match="use BinomialMLE"):
        losses.MultinomialMLE().validate_for(stack)


def test_the_support_of_the_divergence_has_no_zeros():
    support = losses.KullbackLeibler().support(FrequencyEstimate([0.5, 0.0, -0.25]))
    assert support.tolist() == [True, False, False]


@pytest.mark.parametrize("slope", [1.0, -1.0])
@pytest.mark.parametrize(
    ("first", "last", "is_near"),
    [(-0.18, 0.1, True), (-0.37, 0.1, False), (0.2, 0.48, True), (0.2, 0.67, False)],
)
def test_the_rounding_is_relative_where_no_estimate_is_far_on_either_side(
    slope, first, last, is_near
):
    # Of the frequencies 0.1 to 0.2 the smallest variance is 1.1 or 0.8, and half of it is far.
    targets = np.array([first, last])
    roundings = relative_roundings(np.array([0.1, 0.2]), targets, 1.0, slope)
    assert (roundings is not None) == is_near


def test_the_rounding_of_a_binomial_gradient_near_certainty_is_covered():
    """Against exact fractions, where 1 - P is small and its own rounding counts most."""
    oracle = oracles.GRR(epsilon=12.0, d=2)
    estimate = oracle.estimate([N - 40, 40], N)
    loss = losses.BinomialMLE()
    floor, slope = map(Fraction, loss.constants(estimate))
    shares = [Fraction(float(share)) for share in loss.shares(estimate)]
    rng = np.random.default_rng(0)
    for f in 1 - rng.uniform(0, 1e-3, (20, 2)):
        gradient = loss.gradient(f, estimate)
        stated = loss.gradient_error(f, gradient, estimate)
        for value, share, number, error in zip(f, shares, gradient, stated, strict=True):
            chance = floor + slope * Fraction(float(value))
            exact = -slope * (share / chance - (1 - share) / (1 - chance))
            assert abs(Fraction(float(number)) - exact) <= Fraction(float(error))


@pytest.mark.parametrize("weight", [5e-324, 1e-310])
def test_subnormal_weights_are_refused(weight):
    """Products with them vanish: a wrong point had a gap of 0."""
    with pytest.raises(InvalidInputError, match="at index 1, where doubles have lost their digits"):
        losses.WeightedLeastSquares([1.0, weight])
    assert losses.WeightedLeastSquares([1.0, 3e-308]).weights[1] == 3e-308


@pytest.mark.parametrize("name", ["OUE", "SUE"])
@pytest.mark.parametrize("epsilon", [0.3, 2.13, 4.82, 6.17, 12.0])
def test_no_report_and_all_reports_are_shares_of_0_and_1(name, epsilon):
    """Rounding would leave 1e-17 of them, whose inverse is a number of the cone program."""
    oracle = getattr(oracles, name)(epsilon, 4)
    loss = losses.BinomialMLE()
    for n in (101, 16_430, 840_327):
        estimate = FrequencyEstimate.from_counts([0, 1, n - 1, n], n, oracle)
        share = loss.shares(estimate)
        assert (share[0], share[3]) == (0.0, 1.0)
        assert_allclose(share[1:3] * n, [1.0, n - 1], rtol=1e-9)
        assert max(np.max(number) for number in loss.data(estimate)) <= 2 * n


@pytest.mark.filterwarnings("ignore::ldpopt.errors.ImplausibleCountsWarning")
def test_values_that_all_reports_support_have_an_optimal_answer_by_a_solver():
    oracle = oracles.OUE(8.0, 16)
    estimate = oracle.estimate(np.full(16, 2_000), 2_000)
    ball = Custom(lambda f: [cp.sum_squares(f - 1 / 16) <= 0.02])
    solution = Problem(losses.BinomialMLE(), [NonNegative(), SumsTo(1.0), ball]).solve(estimate)
    assert solution.status == "optimal"
    assert_allclose(solution.frequencies, 1 / 16, atol=1e-4)
