"""Priors without a formula: binning, sums, fits against cones, and the limit of accuracy against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, datasets, oracles, postprocess
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import metrics
from ldpopt.priors import NPMLE, Discrete, Mixture
from ldpopt.priors.binning import Binned
from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.mixture_prior import cell_edges, dictionaries, penalised_weights
from ldpopt.priors.mixture_weights import mixture_weights
from ldpopt.priors.npmle import TOLERANCE
from tests.tolerances import OBJECTIVE, POSTERIOR, SUM

FITS = {"npmle": NPMLE, "mixture": Mixture}


def collected(name="zipf", epsilon=1.0, trials=None, seed=3):
    data = datasets.load(name)
    oracle = oracles.OUE(epsilon, data.d)
    return oracle.estimate(oracle.simulate_counts(data.counts, seed, trials=trials), data.n), data


def directly(prior, y, noise, slope=0.0):
    """Posterior mean, variance and log-evidence by the sums of their definition, in extended precision."""
    y, u = np.asarray(y, dtype=np.longdouble)[:, None], prior.support.astype(np.longdouble)
    variance = np.longdouble(noise) ** 2 + slope * u
    level = np.log(prior.weights) - (y - u) ** 2 / (2 * variance) - np.log(2 * np.pi * variance) / 2
    top = level.max(axis=1, keepdims=True)
    weight = np.exp(level - top)
    total = weight.sum(axis=1)
    mean = weight @ u / total
    return (
        mean,
        (weight * (u - mean[:, None]) ** 2).sum(axis=1) / total,
        (top[:, 0] + np.log(total)),
    )


def binned_counts(estimate, *, value_dependent=False):
    return Binned.of(EstimatedCounts.of(estimate, value_dependent=value_dependent))


# --- finitely many counts -------------------------------------------------------------------------


@pytest.mark.parametrize("slope", [0.0, 1.0])
@pytest.mark.parametrize("noise", [1.0, 30.0, 1e5])
def test_posteriors_are_sums_over_the_support(noise, slope):
    rng = np.random.default_rng(0)
    prior = Discrete(np.arange(0, 1000, 25.0), rng.random(40), 1000)
    y = np.concatenate(
        [rng.uniform(-3 * noise, 1000 + 3 * noise, 300), [-20 * noise, 1000 + 20 * noise]]
    )
    y = y[noise**2 + slope * y > 0]
    found = prior.posterior(y, noise, slope=slope)
    mean, variance, evidence = directly(prior, y, noise, slope)
    assert_allclose(found.mean, mean.astype(float), rtol=POSTERIOR, atol=1e-9)
    assert_allclose(found.variance, variance.astype(float), rtol=1e-7, atol=1e-7 * noise**2)
    assert_allclose(found.log_evidence, evidence.astype(float), rtol=POSTERIOR, atol=POSTERIOR)


def test_far_estimates_have_finite_evidence_and_the_ends_as_means():
    prior = Discrete([0.0, 10.0, 90.0], [1.0, 1.0, 1.0], 100)
    found = prior.posterior(np.array([-1e300, -1e6, 1e6, 1e300]), 5.0)
    assert_allclose(found.mean, [0, 0, 90, 90])
    assert np.isfinite(found.log_evidence).all()


def test_intervals_hold_their_share_of_the_support():
    prior = Discrete(np.arange(101.0), np.ones(101), 100)
    lower, upper = prior.interval(np.array([50.0, 0.0]), 10.0, level=0.9)
    weight = np.exp(-0.5 * ((50 - np.arange(101)) / 10) ** 2)
    upto = np.cumsum(weight) / weight.sum()
    assert lower[0] == np.argmax(upto >= 0.05)
    assert upper[0] == np.argmax(upto >= 0.95)
    assert 0 <= lower[1] <= upper[1] < 30


@pytest.mark.parametrize(
    ("support", "weights", "words"),
    [
        ([3.0, 2.0], [1, 1], "ascending"),
        ([0.0, 11.0], [1, 1], "within 0 .. 10"),
        ([0.0, 1.0], [1], "2 support points need as many weights"),
        ([0.0, 1.0], [1, -1], "none negative"),
        ([0.0, 1.0], [0, 0], "not all zero"),
    ],
)
def test_what_is_no_prior_is_refused(support, weights, words):
    with pytest.raises(InvalidInputError, match=words):
        Discrete(support, weights, 10)


def test_a_prior_as_given_is_not_fitted():
    with pytest.raises(InvalidInputError, match="NPMLE or Mixture"):
        Discrete.fit(collected()[0])


# --- bins -----------------------------------------------------------------------------------------


def test_every_estimate_is_in_a_bin_next_to_it():
    raw, data = collected()
    binned = binned_counts(raw)
    y = np.sort(raw.frequencies * data.n)
    assert binned.d == data.d
    assert np.abs(
        np.repeat(binned.y, binned.size.astype(int)) - y
    ).max() <= binned.noise.sd / 40 * (1 + 1e-9)


def test_binning_loses_nothing_that_can_be_measured():
    raw, data = collected()
    binned = binned_counts(raw)
    order = np.argsort(raw.frequencies)
    exact = Binned(raw.frequencies[order] * data.n, np.ones(data.d), data.n, binned.noise)
    truth = data.counts[order]
    found, unbinned = (Discrete(*npmle_weights(bins), data.n) for bins in (binned, exact))
    noise = binned.noise.sd
    likelier = (
        unbinned.posterior(exact.y, noise).log_evidence
        - found.posterior(exact.y, noise).log_evidence
    ).sum()
    assert (
        abs(likelier) < 0.1
    )  # nats of 1,024 estimates; a prior that chance alone makes wrong differs by several
    error, exactly = (
        np.mean((prior.posterior_mean(exact.y, noise) - truth) ** 2) for prior in (found, unbinned)
    )
    assert abs(error / exactly - 1) < 0.01


def npmle_weights(binned):
    support = binned.near(0.1, 1.0)
    return support, mixture_weights(binned.likelihoods(support), binned.size, tol=TOLERANCE).weights


@pytest.mark.parametrize("value_dependent", [False, True])
def test_likelihoods_are_normal_densities_up_to_a_factor_per_row(value_dependent):
    raw, _ = collected("beta")
    binned = binned_counts(raw, value_dependent=value_dependent)
    slope = raw.oracle.b if value_dependent else 0.0
    support = np.linspace(0, binned.n, 400)
    found = binned.likelihoods(support)
    variance = binned.noise.sd**2 + slope * support
    level = -((binned.y[:, None] - support) ** 2) / (2 * variance) - 0.5 * np.log(variance)
    direct = np.exp(level - level.max(axis=1, keepdims=True))
    assert_allclose(found / found.max(axis=1, keepdims=True), direct, rtol=1e-8, atol=1e-30)
    masses = np.random.default_rng(0).random((3, 400))
    assert_allclose(binned.likelihoods(support, masses), found @ masses.T, rtol=1e-12)


# --- fits -----------------------------------------------------------------------------------------


def small():
    """A problem of a size for cones: 64 values, few standard deviations wide."""
    oracle = oracles.OUE(1.0, 64)
    counts = np.array([2000, 1000, 500, 500, 250, 250, *[20] * 58])
    n = int(counts.sum())
    return oracle.estimate(oracle.simulate_counts(counts, 5), n)


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
@pytest.mark.parametrize("form", ["primal", "dual"])
def test_npmle_reaches_the_optimum_of_exponential_cones(form, solver):
    import cvxpy as cp

    binned = binned_counts(small())
    support = binned.near(0.5, 1.0)
    likelihoods = binned.likelihoods(support)
    share = binned.size / binned.d
    if form == "primal":
        x = cp.Variable(len(support))
        problem = cp.Problem(cp.Maximize(share @ cp.log(likelihoods @ x)), [x >= 0, cp.sum(x) == 1])
    else:  # Koenker, Mizera (2014): max Σ c log ν, Aᵀ(c ν) <= 1; Σ c log(A x) = -Σ c log ν at the optimum
        nu = cp.Variable(len(share))
        problem = cp.Problem(
            cp.Maximize(share @ cp.log(nu)), [likelihoods.T @ cp.multiply(share, nu) <= 1]
        )
    options = {"eps": 1e-9, "max_iters": 100_000} if solver == "SCS" else {}
    value = problem.solve(solver=solver, **options) * (1 if form == "primal" else -1)
    found = mixture_weights(likelihoods, binned.size, tol=TOLERANCE)
    assert found.gap <= TOLERANCE
    assert_allclose(
        share @ np.log(likelihoods @ found.weights), value, atol=OBJECTIVE + TOLERANCE + 1e-6
    )


def test_a_dictionary_reaches_the_optimum_of_exponential_cones():
    import cvxpy as cp

    binned = binned_counts(small())
    edges = cell_edges(binned)
    support = np.append(0.0, (edges[1:] + edges[:-1]) / 2)
    for shapes in dictionaries(binned, edges)[:6:2]:
        columns = binned.likelihoods(support, shapes)
        w = cp.Variable(len(shapes))
        penalised = binned.size @ cp.log(columns @ w) + 0.5 * cp.sum(cp.log(w))
        value = cp.Problem(cp.Maximize(penalised), [cp.sum(w) == 1]).solve(solver="CLARABEL")
        found = penalised_weights(columns, binned.size).weights
        reached = binned.size @ np.log(columns @ found) + 0.5 * np.log(found).sum()
        assert_allclose(reached, value, atol=1e-4)  # nats of all estimates together


@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_proven_and_is_a_prior(name):
    for data in ("zipf", "beta"):
        raw, _ = collected(data)
        prior = FITS[name].fit(raw)
        assert 0 < prior.gap <= TOLERANCE
        assert_allclose(prior.weights.sum(), 1, atol=SUM)
        assert prior.support[0] >= 0
        assert prior.support[-1] <= prior.n


def test_the_npmle_is_likelier_than_the_true_frequencies():
    raw, data = collected()
    y, noise = raw.frequencies * data.n, raw.sigma * data.n
    counts, size = np.unique(data.counts, return_counts=True)
    true = Discrete(counts, size, data.n).posterior(y, noise).log_evidence.sum()
    assert NPMLE.fit(raw).posterior(y, noise).log_evidence.sum() > true


def test_components_are_distributions():
    binned = binned_counts(collected()[0])
    edges = cell_edges(binned)
    assert (np.diff(edges) > 0).all()
    assert edges[0] == 0.5
    assert edges[-1] == binned.n
    for shapes in dictionaries(binned, edges):
        assert (shapes >= 0).all()
        assert_allclose(shapes.sum(axis=1), 1, atol=SUM)
        assert shapes[0, 0] == 1


def test_one_hump_is_seen_as_one_hump():
    oracle = oracles.OUE(1.0, 2048)
    counts = np.random.default_rng(0).gamma(4.0, 60.0, 2048).astype(np.int64) + 1
    n = int(counts.sum())
    one = Mixture.fit(oracle.estimate(oracle.simulate_counts(counts, 1), n))
    two = Mixture.fit(collected("emoji")[0])
    assert one.simple > 0.9
    assert two.simple < 0.1


def test_stacks_are_fitted_trial_by_trial():
    stack, data = collected("beta", trials=3)
    for name in ("npmle", "mixture-ns"):
        together = postprocess(stack, name).frequencies
        for trial in range(3):
            one = FrequencyEstimate(stack.frequencies[trial], n=data.n, oracle=stack.oracle)
            assert_allclose(
                together[trial], postprocess(one, name).frequencies, rtol=POSTERIOR, atol=1e-14
            )
    for fit in FITS.values():
        with pytest.raises(InvalidInputError, match="fit each trial"):
            fit.fit(stack)


@pytest.mark.parametrize("name", FITS)
@given(
    st.lists(
        st.sampled_from([-1e300, -5.0, -0.01, 0.0, 1e-300, 0.1, 0.3, 2.0, 1e300]),
        min_size=2,
        max_size=6,
    ),
    st.sampled_from([1, 7, 10_000]),
    st.sampled_from([0.1, 1.0, 8.0]),
)
def test_any_estimates_have_posterior_means_within_the_counts(name, values, n, epsilon):
    raw = FrequencyEstimate(values, n=n, oracle=oracles.OUE(epsilon, len(values)))
    found = postprocess(raw, name).frequencies
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert (np.diff(found[np.argsort(values, kind="stable")]) >= -POSTERIOR).all()


def test_mixture_and_npmle_beat_norm_sub_on_zipf():
    """Errors at 58 % and 65 % of Norm-Sub's: 40 % of difference against a spread of 5 % over 5 draws."""
    stack, data = collected("zipf", trials=5)
    error = {
        m: metrics.mean_squared_error(postprocess(stack, m).frequencies, data.frequencies).mean()
        for m in ("norm-sub", "npmle-ns", "mixture-ns")
    }
    limit = metrics.mean_squared_error(
        metrics.accuracy_limit(stack, data.frequencies), data.frequencies
    ).mean()
    assert limit < error["mixture-ns"] < error["npmle-ns"] < 0.85 * error["norm-sub"]


# --- the limit of accuracy ------------------------------------------------------------------------


def test_the_limit_is_the_posterior_mean_under_the_true_frequencies():
    rng = np.random.default_rng(0)
    oracle = oracles.GRR(1.0, 5)
    truth = np.array([0.4, 0.2, 0.2, 0.1, 0.1])
    raw = FrequencyEstimate(rng.normal(truth, 0.1, (3, 5)), n=100, oracle=oracle)
    found = metrics.accuracy_limit(raw, truth)
    for trial in range(3):
        for v in range(5):
            weight = [
                np.exp(
                    -((raw.frequencies[trial, v] - f) ** 2) / (2 * float(oracle.variance(100, f)))
                )
                / np.sqrt(float(oracle.variance(100, f)))
                for f in truth
            ]
            assert_allclose(found[trial, v], np.dot(weight, truth) / np.sum(weight), rtol=1e-12)


def test_the_limit_is_the_noise_free_truth_where_values_are_far_apart():
    raw = FrequencyEstimate([0.69, 0.21, 0.1], n=10**8, oracle=oracles.OUE(2.0, 3))
    assert_allclose(metrics.accuracy_limit(raw, [0.7, 0.2, 0.1]), [0.7, 0.2, 0.1], rtol=1e-12)


def test_no_method_without_the_sum_beats_the_limit():
    stack, data = collected("emoji", trials=20)
    error = {
        m: metrics.mean_squared_error(postprocess(stack, m).frequencies, data.frequencies).mean()
        for m in ("base", "base-pos", "power", "npmle", "mixture")
    }
    limit = metrics.mean_squared_error(
        metrics.accuracy_limit(stack, data.frequencies), data.frequencies
    ).mean()
    assert all(limit < value for value in error.values())


def test_the_limit_names_what_does_not_fit():
    raw, _ = collected("beta")
    with pytest.raises(InvalidInputError, match=r"truth must have shape \(400,\), got \(3,\)"):
        metrics.accuracy_limit(raw, [0.2, 0.3, 0.5])
    with pytest.raises(InvalidInputError, match="noise level"):
        metrics.accuracy_limit(FrequencyEstimate([0.5, 0.5]), [0.5, 0.5])
    with pytest.raises(InvalidInputError, match=r"0 \.\. 1"):
        metrics.accuracy_limit(
            FrequencyEstimate([0.5, 0.5], n=10, oracle=oracles.OUE(1.0, 2)), [-0.5, 1.5]
        )
