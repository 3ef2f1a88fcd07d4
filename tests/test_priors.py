"""Priors: posteriors of every family against summation over every count, and what is refused."""

import math
import re
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import Problem, losses, priors
from ldpopt.constraints import SumsTo
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.priors import (
    Custom,
    Gaussian,
    Histogram,
    Laplace,
    LogNormal,
    Poisson,
    PowerLaw,
    ZeroInflated,
    quadrature,
)
from ldpopt.priors.curve import interpolated
from ldpopt.priors.families import _stirling_difference
from ldpopt.priors.noise import CountNoise
from tests import reference
from tests.every_two import every_two
from tests.prior_estimates import N, collected
from tests.tolerances import POSTERIOR, SIGMAS, SPREAD

# --- every family against summation over every count ----------------------------------------------

COUNTS = range(1, N + 1)
BUMPS = 400.0, 40.0, 1500.0, 100.0


def two_bumps(k):
    a, b, c, d = BUMPS
    return np.log(np.exp(-(((k - a) / b) ** 2)) + np.exp(-(((k - c) / d) ** 2)) + 1e-9 / k)


def bins(k):
    return next(
        (math.log(mass / (stop - first)) if mass else -math.inf)
        for first, stop, mass in [
            (1, 2, 0.5),
            (2, 40, 0.2),
            (40, 700, 0.0),
            (700, 1200, 0.3),
            (1200, N + 1, 0.0),
        ]
        if first <= k < stop
    )


# Each with the logarithm of its weights as the literature writes them.
FAMILIES = {
    "falling power law": (PowerLaw(1.3, N), lambda k: -1.3 * np.log(k)),
    "steep power law": (PowerLaw(30.0, N), lambda k: -30 * np.log(k)),
    "rising power law": (PowerLaw(-2.0, N), lambda k: 2 * np.log(k)),
    "wide Gaussian": (Gaussian(600.0, 100.0, N), lambda k: -(((k - 600) / 100) ** 2) / 2),
    "sharp Gaussian": (Gaussian(600.3, 0.7, N), lambda k: -(((k - 600.3) / 0.7) ** 2) / 2),
    "Gaussian centred below 1": (
        Gaussian(-300.0, 200.0, N),
        lambda k: -(((k + 300) / 200) ** 2) / 2,
    ),
    "Laplace": (Laplace(700.5, 30.0, N), lambda k: -abs(k - 700.5) / 30),
    "sharp Laplace": (Laplace(700.0, 0.3, N), lambda k: -abs(k - 700) / 0.3),
    "Poisson": (Poisson(120.0, N), lambda k: k * math.log(120) - math.lgamma(k + 1)),
    "Poisson below 1": (Poisson(0.4, N), lambda k: k * math.log(0.4) - math.lgamma(k + 1)),
    "log-normal": (LogNormal(4.0, 1.0, N), lambda k: -((np.log(k) - 4) ** 2) / 2 - np.log(k)),
    "sharp log-normal": (
        LogNormal(6.0, 0.02, N),
        lambda k: -(((np.log(k) - 6) / 0.02) ** 2) / 2 - np.log(k),
    ),
    "histogram": (Histogram([1, 2, 40, 700, 1200], [0.5, 0.2, 0.0, 0.3], N), bins),
    "any log-density": (Custom(two_bumps, N), two_bumps),
}


@cache
def weights(name):
    """The logarithms of a family's weights of all counts, in extended precision."""
    log_weight = FAMILIES[name][1]
    return np.array(
        [log_weight(k) for k in np.arange(1, N + 1, dtype=np.longdouble)], dtype=np.longdouble
    )


Y = [-20_000.0, -900.0, -70.0, 0.0, 1.0, 13.4, 300.0, 611.0, 1400.5, 2000.0, 2300.0, 30_000.0]


def crowded(y, noise):
    """The estimates, then so many around each that they are interpolated."""
    around = np.linspace(-0.3, 0.3, 41) * noise
    return np.concatenate([y, (np.asarray(y)[:, None] + around).ravel()])


@pytest.mark.parametrize("noise", [1.0, 30.0, 1000.0, 1e5])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_posterior_equals_summation_over_every_count_in_extended_precision(name, noise):
    prior, _ = FAMILIES[name]
    mean, variance, evidence = np.transpose(
        [reference.posterior(weights(name), y, COUNTS, noise) for y in Y]
    )
    for posterior in (prior.posterior(Y, noise), prior.posterior(crowded(Y, noise), noise)):
        assert_allclose(posterior.mean[: len(Y)], mean, rtol=POSTERIOR, atol=0)
        assert_allclose(
            posterior.variance[: len(Y)], variance, rtol=SPREAD, atol=SPREAD * 1e-6 * noise**2
        )
        assert_allclose(posterior.log_evidence[: len(Y)], evidence, rtol=POSTERIOR, atol=POSTERIOR)


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        ("steep power law", 60.0),
        ("steep power law", 20.0),
        ("histogram", 20.0),
        ("any log-density", 90.0),
    ],
)
def test_a_posterior_that_leaps_from_one_part_of_the_counts_to_another_is_interpolated_as_well(
    name, noise
):
    prior, _ = FAMILIES[name]
    y = np.linspace(0, 2000, 6001)
    posterior = prior.posterior(y, noise)
    for i in range(0, len(y), 37):
        mean, variance, evidence = reference.posterior(weights(name), y[i], COUNTS, noise)
        assert_allclose(posterior.mean[i], mean, rtol=POSTERIOR, atol=0)
        assert_allclose(posterior.variance[i], variance, rtol=SPREAD, atol=SPREAD * 1e-6 * noise**2)
        assert_allclose(posterior.log_evidence[i], evidence, rtol=POSTERIOR, atol=POSTERIOR)


@pytest.mark.parametrize("slope", [0.2, 3.0, -0.3])
@pytest.mark.parametrize("name", FAMILIES)
def test_value_dependent_noise_equals_summation_over_every_count(name, slope):
    prior, _ = FAMILIES[name]
    y = [-200.0, 0.0, 13.4, 300.0, 1400.5, 2300.0]
    noise = 40.0
    mean, variance, evidence = np.transpose(
        [reference.posterior(weights(name), v, COUNTS, noise, slope) for v in y]
    )
    for posterior in (
        prior.posterior(y, noise, slope=slope),
        prior.posterior(crowded(y, 20.0), noise, slope=slope),
    ):
        assert_allclose(posterior.mean[: len(y)], mean, rtol=POSTERIOR, atol=0)
        assert_allclose(
            posterior.variance[: len(y)], variance, rtol=SPREAD, atol=SPREAD * 1e-6 * noise**2
        )
        assert_allclose(posterior.log_evidence[: len(y)], evidence, rtol=POSTERIOR, atol=POSTERIOR)


@pytest.mark.parametrize("n", [10**8, 10**10])
@pytest.mark.parametrize("noise", [1.0, 300.0])
@pytest.mark.parametrize("alpha", [0.0, 1.2, 2.5])
def test_so_many_counts_that_only_those_nearby_can_be_summed(alpha, noise, n):
    y = [-40 * noise, 0.0, 3 * noise, 9 * noise, n / 3, float(n), n + 40 * noise]
    posterior = PowerLaw(alpha, n).posterior(y, noise)
    for mean, variance, v in zip(posterior.mean, posterior.variance, y, strict=True):
        nearest = round(min(max(v, 1), n))
        nearby = np.arange(
            max(1, nearest - round(25 * noise)), min(n, nearest + round(25 * noise)) + 1
        )
        weight = -np.longdouble(alpha) * np.log(nearby.astype(np.longdouble))
        expected = reference.posterior(weight, v, nearby, noise)
        assert_allclose(mean, expected[0], rtol=POSTERIOR, atol=0)
        assert_allclose(variance, expected[1], rtol=SPREAD, atol=SPREAD * 1e-6 * noise**2)


@pytest.mark.parametrize("noise", [1e3, 1e4])
def test_a_wide_posterior_over_many_counts(noise):
    n = 10**5
    y = [-50 * noise, -noise, 2 * noise, 7 * noise, 2.0 * n]
    counts = np.arange(1, n + 1)
    for alpha in (0.6, 1.8):
        weight = -np.longdouble(alpha) * np.log(counts.astype(np.longdouble))
        means = PowerLaw(alpha, n).posterior_mean(np.repeat(y, 20), noise)[::20]
        for mean, v in zip(means, y, strict=True):
            expected = reference.posterior(weight, v, counts, noise)[0]
            assert_allclose(mean, expected, rtol=POSTERIOR, atol=0)


@pytest.mark.parametrize("name", FAMILIES)
def test_moments_of_priors_equal_their_sums(name):
    prior = FAMILIES[name][0]
    level = weights(name)
    weight = np.exp(level - level.max()) / np.exp(level - level.max()).sum()
    mean = float((weight * np.array(COUNTS)).sum())
    assert_allclose(prior.mean(), mean, rtol=POSTERIOR)
    assert_allclose(
        prior.variance(),
        float((weight * (np.array(COUNTS) - mean) ** 2).sum()),
        rtol=1e-6,
        atol=1e-9,
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_the_mean_rises_by_the_variance(name):
    prior, _ = FAMILIES[name]
    y = np.linspace(-100, 2100, 200)
    noise = 50.0
    step = 0.05
    slope = (prior.posterior_mean(y + step, noise) - prior.posterior_mean(y - step, noise)) / (
        2 * step
    )
    assert_allclose(prior.posterior(y, noise).variance / noise**2, slope, rtol=1e-4, atol=1e-6)


@every_two(name=[*FAMILIES], level=[0.5, 0.95, 0.999], noise=[3.0, 200.0])
def test_intervals_are_the_quantiles_of_the_sums(name, level, noise):
    prior, _ = FAMILIES[name]
    lower, upper = prior.interval(Y[1:-1], noise, level)
    for low, high, y in zip(lower, upper, Y[1:-1], strict=True):
        assert low == reference.quantile(weights(name), y, COUNTS, noise, (1 - level) / 2)
        assert high == reference.quantile(weights(name), y, COUNTS, noise, (1 + level) / 2)


def test_intervals_cover_what_they_promise():
    rng = np.random.default_rng(3)
    n = 10**5
    noise = 300.0
    weights = np.arange(1, n + 1) ** -1.2
    truth = rng.choice(n, size=20_000, p=weights / weights.sum()) + 1
    y = truth + noise * rng.standard_normal(len(truth))
    lower, upper = PowerLaw(1.2, n).interval(y, noise, 0.9)
    inside = np.mean((truth >= lower) & (truth <= upper))
    assert inside >= 0.9 - SIGMAS * math.sqrt(0.09 / len(truth))
    assert np.mean(truth < lower) <= 0.05 + SIGMAS * math.sqrt(0.0475 / len(truth))
    assert np.mean(truth > upper) <= 0.05 + SIGMAS * math.sqrt(0.0475 / len(truth))


def test_few_nodes_are_held_at_a_time_and_change_nothing(monkeypatch):
    y = np.linspace(-500, 2500, 40)
    prior = PowerLaw(0.5, N)
    noise = CountNoise(150.0)
    monkeypatch.setattr(quadrature, "_HELD", 1 << 20)
    (_,) = prior._terms(y, noise)
    together = prior._moments_at(y, noise)
    monkeypatch.setattr(quadrature, "_HELD", 2_000)
    sizes = [terms.k.size for terms in prior._terms(y, noise)]
    assert len(sizes) > 1
    assert max(sizes) <= 2_000
    assert_array_equal(prior._moments_at(y, noise), together)


def test_far_away_evidence_is_finite_and_means_are_at_the_ends():
    for prior in (PowerLaw(1.5, N), Gaussian(500.0, 100.0, N), Histogram([3, 9], [1.0], N)):
        posterior = prior.posterior([-1e300, -1e18, 1e18, 1e300], 7.0)
        assert np.isfinite(posterior.log_evidence).all()
        lowest, highest = (3, 8) if isinstance(prior, Histogram) else (1, N)
        assert_allclose(posterior.mean, [lowest, lowest, highest, highest], rtol=POSTERIOR)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_posteriors_have_the_shape_of_the_counts(shape):
    posterior = PowerLaw(1.5, N).posterior(np.ones(shape), 10.0)
    assert posterior.mean.shape == posterior.variance.shape == posterior.log_evidence.shape == shape
    lower, upper = PowerLaw(1.5, N).interval(np.ones(shape), 10.0)
    assert lower.shape == upper.shape == shape


# --- a point mass at 0 ----------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [0.01, 0.6, 0.999])
@pytest.mark.parametrize("name", ["falling power law", "Poisson", "histogram"])
def test_a_point_mass_at_zero_is_one_more_count(name, mass):
    inner = FAMILIES[name][0]
    level = weights(name)
    prior = ZeroInflated(inner, mass)
    counts = range(N + 1)
    others = level - np.log(np.exp(level).sum()) + math.log1p(-mass)
    inflated = np.concatenate([[np.log(np.longdouble(mass))], others])
    for noise in (4.0, 120.0):
        posterior = prior.posterior(Y[1:-1], noise)
        lower, upper = prior.interval(Y[1:-1], noise, 0.9)
        for i, y in enumerate(Y[1:-1]):
            mean, variance, evidence = reference.posterior(inflated, y, counts, noise)
            assert_allclose(posterior.mean[i], mean, rtol=POSTERIOR, atol=POSTERIOR)
            assert_allclose(posterior.variance[i], variance, rtol=SPREAD, atol=SPREAD * noise)
            assert_allclose(posterior.log_evidence[i], evidence, rtol=POSTERIOR, atol=POSTERIOR)
            assert lower[i] == reference.quantile(inflated, y, counts, noise, 0.05)
            assert upper[i] == reference.quantile(inflated, y, counts, noise, 0.95)


@pytest.mark.parametrize("y", [-100.0, -400.0, -600.0, -5_000.0])
def test_posterior_means_far_below_zero_keep_their_digits(y):
    """Pr[k > 0 | y] is far below the last digit of Pr[k = 0 | y] there."""
    noise = 4.0
    mass = 0.75
    k = np.arange(1.0, N + 1)
    share = (1 - mass) * k**-1.0 / np.sum(k**-1.0)
    # Every density is divided by that of k = 0.
    ratio = share * np.exp((k * y - k**2 / 2) / noise**2)
    expected = np.sum(k * ratio) / (mass + np.sum(ratio))
    prior = ZeroInflated(PowerLaw(1.0, N), mass)
    posterior = prior.posterior([y], noise)
    assert 0 < expected < 1e-2
    assert_allclose(posterior.mean, expected, rtol=POSTERIOR)
    square = np.sum(k**2 * ratio) / (mass + np.sum(ratio))
    assert_allclose(posterior.variance, square - expected**2, rtol=SPREAD)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf])
def test_noise_must_be_positive(noise):
    with pytest.raises(InvalidInputError, match="noise must be"):
        PowerLaw(1.0, N).posterior([1.0], noise)


def test_counts_must_be_finite_numbers():
    with pytest.raises(
        InvalidInputError, match="counts must be finite, found nan at trial 1, index 0"
    ):
        PowerLaw(1.0, N).posterior([[1.0, 2.0], [math.nan, 3.0]], 1.0)
    with pytest.raises(InvalidTypeError, match="counts must be an array of numbers"):
        PowerLaw(1.0, N).posterior(["a"], 1.0)


def test_value_dependent_noise_must_have_a_variance():
    with pytest.raises(
        InvalidInputError,
        match="positive variance at every estimate, found the count -500 at index 1",
    ):
        PowerLaw(1.0, N).posterior([1.0, -500.0], 10.0, slope=0.5)
    with pytest.raises(InvalidInputError, match=r"positive variance, got 10² -0\.5 k at k = 2000"):
        PowerLaw(1.0, N).posterior([1.0], 10.0, slope=-0.5)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 95])
def test_levels_of_intervals_lie_between_zero_and_one(level):
    for prior in (PowerLaw(1.0, N), ZeroInflated(PowerLaw(1.0, N), 0.5)):
        with pytest.raises(InvalidInputError, match="level must be"):
            prior.interval([1.0], 1.0, level)


def test_arguments_of_families_are_checked():
    with pytest.raises(InvalidInputError, match="scale must be"):
        Gaussian(1.0, -1.0, N)
    with pytest.raises(InvalidInputError, match="rate must be"):
        Poisson(-1.0, N)
    with pytest.raises(InvalidInputError, match=r"n .* must be at least 1"):
        Laplace(1.0, 1.0, 0)
    with pytest.raises(InvalidInputError, match="alpha must be"):
        PowerLaw(math.nan, N)
    with pytest.raises(InvalidInputError, match="mass must be"):
        ZeroInflated(PowerLaw(1.0, N), 1.0)
    with pytest.raises(InvalidTypeError, match="prior must be a density"):
        ZeroInflated(ZeroInflated(PowerLaw(1.0, N), 0.5), 0.5)
    with pytest.raises(InvalidTypeError, match="prior must be a prior or a family"):
        priors.posterior_mean(collected(), "power")


ROUGH = {
    "even counts": lambda k: np.where(k % 2 == 0, 0.0, -5.0),
    "even counts alone": lambda k: np.where(k % 2 == 0, -k / 100, -np.inf),
    "sine": np.sin,
    "spike": lambda k: np.logaddexp(-k / 100, 5 - 0.5 * ((k - 1234) / 0.5) ** 2),
    "one count": lambda k: np.where(k == 1234, 0.0, -np.inf),
}


@pytest.mark.parametrize("name", ROUGH)
def test_a_rough_log_density_over_few_counts_is_summed_count_by_count(name):
    y = np.array([-30.0, 80.0, 1200.0, 2100.0])
    k = np.arange(1.0, N + 1)
    level = ROUGH[name](k)
    prior = Custom(ROUGH[name], N)
    logs = level - (y[:, None] - k) ** 2 / (2 * 40.0**2)
    weight = np.exp(logs - logs.max(axis=1, keepdims=True))
    expected = weight @ k / weight.sum(axis=1)
    assert_allclose(prior.posterior_mean(y, 40.0), expected, rtol=POSTERIOR, atol=0)
    upto = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)
    for share, end in zip((0.025, 0.975), prior.interval(y, 40.0), strict=True):
        assert_allclose(end, k[np.argmax(upto >= share, axis=1)])


@pytest.mark.parametrize("n", [20_000, 250_000])
@pytest.mark.parametrize("name", ROUGH)
def test_a_rough_log_density_over_many_counts_is_refused(name, n):
    with pytest.raises(InvalidInputError, match=r"not smooth near the count \d+: give kinks"):
        Custom(ROUGH[name], n)


@pytest.mark.parametrize("name", ["spike", "one count"])
def test_the_error_names_a_count_at_which_the_log_density_is_rough(name):
    with pytest.raises(InvalidInputError, match=r"near the count \d+") as caught:
        Custom(ROUGH[name], 20_000)
    count = int(re.search(r"near the count (\d+)", str(caught.value))[1])
    assert abs(count - 1234) <= 5


def test_roughness_over_very_many_counts_is_found_by_counts_drawn():
    for name in ("even counts", "sine"):
        with pytest.raises(InvalidInputError, match="not smooth"):
            Custom(ROUGH[name], 10**7)


@pytest.mark.parametrize("rate", [3.0, 16.5, 40.0])
@pytest.mark.parametrize("k", [1, 15, 16, 17, 60])
def test_stirlings_series_has_the_digits_of_the_factorial(k, rate):
    expected = math.log(math.factorial(k)) - k * math.log(rate) + rate
    assert_allclose(_stirling_difference(np.array([float(k)]), rate), expected, atol=3e-13, rtol=0)


def test_many_estimates_in_a_cell_are_interpolated():
    sizes = []

    def compute(y):
        sizes.append(len(y))
        return np.stack([10 + y, 1 + y / 4, -y])

    # 200 estimates in six cells of half a standard deviation, each with 13 points of a polynomial;
    # the last value lies alone in its cell, and is computed.
    y = np.append(np.linspace(0.0, 2.99, 200), 7.2)
    # At y = 0 one of the values is 0, where only an absolute error means something.
    assert_allclose(interpolated(compute, y, 0.5), compute(y), rtol=1e-9, atol=1e-12)
    assert sizes == [6 * 13 + 1, len(y)]


@pytest.mark.parametrize("slope", [40.0, -40.0])
def test_a_steep_line_of_the_evidence_is_taken_out_before_a_polynomial(slope):
    sizes = []

    def compute(y):
        sizes.append(len(y))
        return np.stack([np.full(len(y), 3.0), np.ones(len(y)), slope * y])

    # e^(40 y) is no polynomial of degree 12 on a cell of 1/2: without the line, cells are halved.
    y = np.linspace(0.0, 0.99, 200)
    assert_allclose(interpolated(compute, y, 0.5), compute(y), rtol=1e-12, atol=1e-12)
    assert sizes == [2 * 13, len(y)]


@pytest.mark.parametrize(("centre", "after"), [(700.5, 701.0), (700.0, 701.0), (-0.5, 0.0)])
def test_a_laplace_prior_is_smooth_up_to_its_peak_and_after_it(centre, after):
    assert Laplace(centre, 30.0, N).breaks.tolist() == [after]


@pytest.mark.parametrize("n", [20_000, 10**6, 10**12])
def test_smooth_log_densities_over_many_counts_pass(n):
    assert_allclose(
        Custom(lambda k: -2 * np.log(k), n).mean(), PowerLaw(2.0, n).mean(), rtol=POSTERIOR
    )
    wide = n / 20
    assert_allclose(
        Custom(lambda k: -0.5 * ((k - n / 3) / wide) ** 2, n).mean(),
        Gaussian(n / 3, wide, n).mean(),
        rtol=POSTERIOR,
    )
    laplace = Custom(lambda k: -np.abs(k - n // 2) / wide, n, kinks=[n // 2])
    assert_allclose(laplace.variance(), Laplace(n // 2, wide, n).variance(), rtol=POSTERIOR)


@pytest.mark.parametrize("family", [Gaussian, Laplace, LogNormal])
def test_scales_from_zero_on_are_asked_for_as_such(family):
    with pytest.raises(InvalidInputError, match=r"scale must be a finite number >= 0, got -1$"):
        family(3, -1, N)
    with pytest.raises(InvalidInputError, match=r"rate must be a finite number >= 0, got -1$"):
        Poisson(-1, N)


def test_a_single_count_that_is_wrong_has_no_position():
    with pytest.raises(InvalidInputError, match=r"counts must be finite, found nan$"):
        PowerLaw(1.0, N).posterior(np.nan, 1.0)


def test_a_prior_of_another_number_of_users_is_refused():
    estimate = collected(n=100)
    for use in (
        lambda prior: priors.posterior_mean(estimate, prior),
        lambda prior: losses.PosteriorMean(prior).target(estimate),
        lambda prior: Problem(losses.PosteriorMean(prior), [SumsTo()]).solve(estimate),
    ):
        for prior in (PowerLaw(1.5, 10_000), priors.Discrete([0.0, 10.0], [0.5, 0.5], 99)):
            with pytest.raises(
                InvalidInputError,
                match=rf"counts among {prior.n} users, the estimate is of n = 100",
            ):
                use(prior)


@pytest.mark.parametrize(
    "family", ["PowerLaw", "Gaussian", "Poisson", "ZeroInflated", "NPMLE", "Mixture"]
)
def test_fits_to_plain_frequencies_ask_for_the_noise_level(family):
    with pytest.raises(InvalidInputError, match="needs the noise level"):
        getattr(priors, family).fit([0.1, 0.2])
    with pytest.raises(InvalidInputError, match="needs the noise level"):
        priors.posterior_mean([0.1, 0.2], getattr(priors, family))


def test_other_uses_of_plain_frequencies_ask_for_the_noise_level():
    for call in (
        lambda: PowerLaw.maximum_likelihood([0.1, 0.2]),
        lambda: Histogram.fit([0.1, 0.2], [3, 4]),
    ):
        with pytest.raises(InvalidInputError, match="needs the noise level"):
            call()


def test_histograms_are_not_fitted_without_open_users():
    for call in (
        priors.posterior_mean,
        lambda estimate, family: losses.PosteriorMean(family).target(estimate),
    ):
        with pytest.raises(InvalidInputError, match="Histogram is fitted to open counts"):
            call(collected(), Histogram)


def test_what_is_no_log_density_is_refused():
    with pytest.raises(InvalidTypeError, match="must take counts"):
        Custom(3, N)
    with pytest.raises(InvalidInputError, match="must have as many values"):
        Custom(np.sum, N)
    with pytest.raises(InvalidInputError, match="finite or -inf, found nan at 1"):
        Custom(lambda k: k * np.nan, N)
    with pytest.raises(InvalidInputError, match="no mass"):
        Custom(lambda k: np.where(k == 1234.5, 0.0, -np.inf), N).posterior([1.0], 1.0)
