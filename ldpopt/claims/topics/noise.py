"""Claims about the noise of the raw estimate: its mean, variance, covariance and distribution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.measures import largest, relative_error
from ldpopt.claims.engine.tolerances import ENUMERATED, FORMULA, SIGMAS
from ldpopt.claims.reference.channels import channel, has_uncorrelated_counts, marginal_law
from ldpopt.claims.topics.protocols import SMALL
from ldpopt.datasets.dataset import apportion
from ldpopt.oracles import GRR, ORACLES, OUE, FrequencyOracle

TITLE = "Noise of the raw estimate: mean, variance, covariance and distribution"
ORDER = 90

Array = NDArray[np.float64]

# Constant of the Berry-Esseen bound for independent summands that are not identically distributed
# (Shevtsova 2010).
_BERRY_ESSEEN = 0.56

# What the papers neglect may be a tenth of a variance, 5 % of a standard deviation: they say
# "dominated" and "approximately".
_NEARLY_COMMON = 0.1


def _truth(d: int) -> Array:
    """Return frequencies k/Σk: all different, and nobody has the last value."""
    # Equal frequencies could hide an exchange of two values, and positive ones a wrong q.
    weights = np.arange(d)[::-1].astype(np.float64)
    return np.asarray(weights / weights.sum())


def _small() -> list[tuple[str, FrequencyOracle]]:
    """Return every oracle with its name, at the sizes whose reports are all enumerated."""
    return [(name, make(epsilon, d)) for name, make in ORACLES.items() for epsilon, d in SMALL]


def _printed_variance(oracle: FrequencyOracle, f: Array) -> Array:
    """Return n times N Eq. 5, as printed."""
    p, q = oracle.p, oracle.q
    return np.asarray((q * (1 - q) + f * (p - q) * (1 - p - q)) / (p - q) ** 2)


def _exact_covariance(oracle: FrequencyOracle, f: Array) -> Array:
    """Return n times the covariance of the estimates, from all reports."""
    # The estimate is the share of supporting reports, less q, over p - q.
    return channel(oracle).covariance(f) / (oracle.p - oracle.q) ** 2


class Simulation(NamedTuple):
    """Many collections through one oracle: true frequencies, n, and the estimates of each."""

    name: str
    oracle: FrequencyOracle
    frequencies: Array
    n: int
    estimates: Array

    @property
    def printed_variance(self) -> Array:
        """Variance of each estimate, by N Eq. 5."""
        return _printed_variance(self.oracle, self.frequencies) / self.n

    def variance_score(self, estimates: Array, variance: Array) -> float:
        """Return the largest error of a sample variance, in its standard deviations."""
        # The variance of m Gaussian draws has the relative standard deviation sqrt(2/(m-1)).
        ratio = estimates.var(axis=0, ddof=1) / variance
        return largest(ratio - 1) / math.sqrt(2 / (len(estimates) - 1))


@cache
def _simulated(instances: InstanceSet) -> list[Simulation]:
    """Return a simulation of every oracle: ε = 1, d = 8, 500 users."""
    d = 8
    # Few enough users for the exact laws of the counts, which are computed beside the draws.
    n = 500
    trials = 400 if instances.quick else 4_000
    rng = instances.rng()
    users = apportion(_truth(d), n)
    simulations = []
    for name, make in ORACLES.items():
        oracle = make(1.0, d)
        raw = oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), n)
        simulations.append(Simulation(name, oracle, users / n, n, raw.frequencies))
    return simulations


@claim(
    "unbiased",
    "N III-D; D 2.2, 2.3; K Eq. 3",
    "f̃_v = (c_v/n - q)/(p - q) is unbiased for every oracle.",
    Verdict.HOLDS,
)
def unbiased(instances: InstanceSet) -> Finding:
    """Average the estimate over all reports of every oracle at d = 3, 4, 5, and over simulations.

    Red if an exact mean differs from the truth by ENUMERATED or more, or a simulated one by SIGMAS
    standard deviations or more.
    """

    def error(oracle: FrequencyOracle, f: Array) -> float:
        # The expected share of reports that support each value.
        support = channel(oracle).expectation @ f
        return largest((support - oracle.q) / (oracle.p - oracle.q) - f)

    def score(simulation: Simulation) -> float:
        error = simulation.estimates.mean(axis=0) - simulation.frequencies
        sd = np.sqrt(simulation.printed_variance / len(simulation.estimates))
        return largest(error / sd)

    return _exact_and_simulated(
        instances,
        error,
        score,
        what="mean",
        error_name="largest |E[f̃_v] - f_v|",
        false_alarm="1 in 10,000",
    )


@claim(
    "variance",
    "N III-D Eq. 5; D Eqs. 2, 5",
    "Var f̃_v = (q(1-q) + f_v (p-q)(1-p-q))/(n (p-q)²).",
    Verdict.HOLDS,
)
def variance(instances: InstanceSet) -> Finding:
    """Compare Eq. 5 with the variance over all reports at d = 3, 4, 5, and with simulations.

    Red if an exact variance differs by ENUMERATED or more, relative, or a simulated one by SIGMAS
    standard deviations or more.
    """

    def error(oracle: FrequencyOracle, f: Array) -> float:
        # By the channel of the reports, which knows nothing of Eq. 5.
        exact = np.diag(_exact_covariance(oracle, f))
        return relative_error(exact, _printed_variance(oracle, f))

    def score(simulation: Simulation) -> float:
        return simulation.variance_score(simulation.estimates, simulation.printed_variance)

    return _exact_and_simulated(
        instances,
        error,
        score,
        what="variance",
        error_name="largest relative error",
        false_alarm="1 in 1,000",
        note={"what is random": "the reports; the users' values are fixed"},
    )


def _exact_and_simulated(
    instances: InstanceSet,
    error: Callable[[FrequencyOracle, Array], float],
    score: Callable[[Simulation], float],
    *,
    what: str,
    error_name: str,
    false_alarm: str,
    note: Mapping[str, str] | None = None,
) -> Finding:
    """Return the finding on a moment of every oracle's estimates, over all reports and simulated.

    Parameters
    ----------
    instances
        The instances of the claim.
    error
        From an oracle and true frequencies to the error of the formula over all reports.
    score
        From a simulation to its error in standard deviations.
    what, error_name, false_alarm, note
        Words of the evidence: the moment, its error, how often chance alone exceeds the bound, and
        what else is to be known.
    """
    errors = [error(oracle, _truth(oracle.d)) for _, oracle in _small()]
    scores = {simulation.name: score(simulation) for simulation in _simulated(instances)}
    evidence: dict[str, float | int | str] = {
        f"{error_name} over all reports of all oracles at d = 3, 4, 5": largest(errors)
    }
    for name, value in scores.items():
        evidence[f"simulated {what}, {name}: largest error in standard deviations"] = value
    # Each oracle's simulation has eight values.
    number = 8 * len(scores)
    bound = f"bound, in standard deviations ({number} {what}s: false alarm below {false_alarm})"
    evidence[bound] = SIGMAS
    return Finding(
        holds=largest(errors) < ENUMERATED and max(scores.values()) < SIGMAS,
        instances=len(_small()) + number,
        evidence={**evidence, **(note or {})},
    )


@claim(
    "variance-closed-forms",
    "D Eqs. 3, 6",
    "n Var f̃ is (d-2+e^ε)/(e^ε-1)² + f (d-2)/(e^ε-1) for GRR and 4e^ε/(e^ε-1)² + f for OUE.",
    Verdict.PROVED,
    theorems=("variance_of_grr", "variance_of_oue"),
)
def variance_closed_forms(instances: InstanceSet) -> Finding:
    """Compare both forms with the oracles' variance: five budgets, five sizes, three frequencies.

    Red if one differs by ENUMERATED or more, relative.
    """
    errors = []
    settings = 0
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        e = math.exp(epsilon)
        # At d = 2 GRR's slope vanishes; 42,178 is Kosarak's size.
        for d in (2, 3, 10, 1024, 42_178):
            grr = GRR(epsilon=epsilon, d=d)
            oue = OUE(epsilon=epsilon, d=d)
            # Both sides are affine in f: two points would do.
            for f in (0.0, 0.3, 1.0):
                grr_form = (d - 2 + e) / (e - 1) ** 2 + f * (d - 2) / (e - 1)
                oue_form = 4 * e / (e - 1) ** 2 + f
                errors.append(relative_error(grr_form, grr.variance(1, f)))
                errors.append(relative_error(oue_form, oue.variance(1, f)))
                settings += 1
    return Finding(
        holds=largest(errors) < ENUMERATED,
        instances=settings,
        evidence={"largest relative difference to N Eq. 5": largest(errors)},
    )


@claim(
    "counts-binomial",
    "N III-D",
    "The support count c_v follows a binomial distribution.",
    Verdict.CORRECTED,
)
def counts_binomial(instances: InstanceSet) -> Finding:
    """Compare the exact variance of one count with that of the binomial law of the same mean.

    OUE, ε = 1, 80 of 200 users have the value. Red if both agree to FORMULA (then the statement
    holds), or if the variance is not that of two binomials, or the difference not
    n (p-q)² f(1-f), each to FORMULA.
    """
    # Any d: a count of OUE depends on its own bits alone.
    oracle = OUE(epsilon=1.0, d=8)
    n = 200
    owners = 80
    share = owners / n
    law = marginal_law(oracle, n, owners)
    counts = np.arange(n + 1)
    mean = float(law @ counts)
    variance = float(law @ (counts - mean) ** 2)
    # One law for all users, of the mean share mean/n.
    binomial = mean * (1 - mean / n)
    of_owners = owners * oracle.p * (1 - oracle.p)
    of_others = (n - owners) * oracle.q * (1 - oracle.q)
    excess = n * (oracle.p - oracle.q) ** 2 * share * (1 - share)
    two_binomials = math.isclose(variance, of_owners + of_others, rel_tol=FORMULA)
    explained = math.isclose(binomial - variance, excess, rel_tol=FORMULA)
    return Finding(
        holds=math.isclose(variance, binomial, rel_tol=FORMULA),
        corrected=two_binomials and explained,
        instances=n + 1,
        evidence={
            "example": "OUE, ε = 1, n = 200, 80 of them with the value",
            "variance of c_v": variance,
            "variance of the binomial law with the same n and mean": binomial,
            "correction": "the sum of Binomial(n f, p) and Binomial(n - n f, q), whose variance is "
            "Eq. 5's; one binomial law has n (p-q)² f(1-f) more, and is right where the users "
            "themselves are a random sample, or f is 0 or 1",
        },
    )


@claim(
    "variance-approximation",
    "N III-D Eq. 7, D Eq. 7",
    "For large d and ε not too large f_v's part of the variance is dominated, so "
    "σ² = q(1-q)/(n(p-q)²) is a good approximation.",
    Verdict.CORRECTED,
)
def variance_approximation(instances: InstanceSet) -> Finding:
    """Compare σ² with the variance of every value of Zipf and emoji under OUE and GRR.

    The part of f_v is κ f_v of σ²: its mean over the domain is κ/d, whatever the distribution. Of
    four budgets those up to 1 are not too large, and decide. Red if σ² is within _NEARLY_COMMON
    for the top values too (then the statement holds), if the mean is not κ/d, or if it is 2 % or
    more.
    """
    evidence: dict[str, float | int | str] = {}
    top_errors = []
    mean_errors = []
    as_derived = True
    for data_name in ("zipf", "emoji"):
        f = datasets.load(data_name).frequencies
        # One whose κ depends on ε alone, and one whose κ hardly falls with d.
        for make in (OUE, GRR):
            for epsilon in (0.2, 1.0, 2.0, 4.0):
                oracle = make(epsilon=epsilon, d=len(f))
                # σ² is the variance at f = 0; n cancels.
                excess = oracle.variance(1, f) / oracle.variance(1) - 1
                name = f"{data_name}, {make.__name__}, ε = {epsilon:g}"
                evidence[f"{name}: variance above σ² for the top value, relative"] = float(
                    excess.max()
                )
                as_derived &= math.isclose(excess.mean(), oracle.kappa / len(f), rel_tol=1e-6)
                # The others are "too large" for the statement, and are only shown.
                if epsilon <= 1:
                    top_errors.append(float(excess.max()))
                    mean_errors.append(float(excess.mean()))
    return Finding(
        holds=largest(top_errors) < _NEARLY_COMMON,
        corrected=as_derived and largest(mean_errors) < 0.02,
        instances=len(top_errors),
        evidence={
            **evidence,
            "mean over the domain, κ/d, ε up to 1, at most": largest(mean_errors),
            "GRR, ε = 1, d = 42,178: κ, which no domain size makes small": GRR(
                epsilon=1.0, d=42_178
            ).kappa,
            "correction": "the relative error for a value is κ f_v: small on average over a large "
            "domain and for rare values, not for a frequent value",
        },
    )


@claim(
    "independent",
    "N III-D, IV-D; D 3.4",
    "The estimates of different values are independent.",
    Verdict.FAILS,
)
def independent(instances: InstanceSet) -> Finding:
    """Compute the correlations over all reports of every oracle at d = 3, 4, 5.

    Red if none is above ENUMERATED (then the statement holds), or if one is for the oracles whose
    reports support each value by itself, unary encoding and ideal hashing: then the correlations
    would be wrong.
    """
    correlations: dict[str, list[float]] = {}
    for name, oracle in _small():
        covariance = channel(oracle).covariance(_truth(oracle.d))
        sd = np.sqrt(np.diag(covariance))
        # Less the diagonal, where every estimate has the correlation 1 with itself.
        correlation = covariance / np.outer(sd, sd) - np.eye(oracle.d)
        correlations.setdefault(name, []).append(largest(correlation))
    worst = {name: largest(values) for name, values in correlations.items()}
    uncorrelated = [n for n, make in ORACLES.items() if has_uncorrelated_counts(make(1.0, 4))]
    explained = (
        # Zero correlation for some shows that the others' is no error of the enumeration.
        max(worst.values()) > 0.1 and largest([worst[name] for name in uncorrelated]) < ENUMERATED
    )
    return Finding(
        holds=not explained,
        instances=len(_small()),
        evidence={
            **{
                f"largest |correlation| of two estimates, {name}, d = 3, 4, 5": value
                for name, value in worst.items()
            },
            "so": "false for GRR and subset selection, whose reports support a fixed number of "
            "values (correlations about -1/(d-1)), and for Hadamard response; for unary encoding "
            "and local hashing with an ideal family estimates are uncorrelated. Uncorrelated is "
            "less than independent, and no correction",
        },
    )


def _uncorrelated_norm_variance(variance: Array) -> Array:
    """Return Var f'_v of Norm from the variances of uncorrelated estimates."""
    d = len(variance)
    # Norm is f̃ + 1/d - S/d: V - 2 Cov(f̃, S)/d + Var S/d², where Cov(f̃_v, S) = V_v.
    return np.asarray(variance * (1 - 2 / d) + variance.sum() / d**2)


@claim(
    "norm-variance",
    "D 3.2",
    "With independent noise of one σ (Eq. 8) Norm's estimate has (d-1)/d times the variance of the "
    "raw one: under one per cent less when d is in the hundreds.",
    Verdict.HOLDS,
)
def norm_variance(instances: InstanceSet) -> Finding:
    """Compute Norm's variance over all reports at d = 3, 4, 5, and simulate it for OUE and OLH.

    D derives it from Eq. 8, one σ and independent noise: that is SUE, whose κ is 0. In general
    Var f'_v = V_v - 2 Cov(f̃_v, S)/d + Var S/d², S the sum of the estimates. Red if (d-1)/d is
    missed for SUE by ENUMERATED or more, or if the general formula is: for uncorrelated estimates
    V_v (1 - 2/d) + ΣV/d², by enumeration, and within SIGMAS in the simulation.
    """
    ratios: dict[str, list[float]] = {}
    errors = []
    equal_errors = []
    for name, oracle in _small():
        d = oracle.d
        covariance = _exact_covariance(oracle, _truth(d))
        # Norm is affine: its rows are what a unit becomes.
        linear = closed_form.norm(np.eye(d)) - closed_form.norm(np.zeros(d))
        before = np.diag(covariance)
        after = np.diag(linear.T @ covariance @ linear)
        # The last value, which nobody has: its variance is σ².
        ratios.setdefault(name, []).append(float(after[-1] / before[-1] / ((d - 1) / d)))
        if has_uncorrelated_counts(oracle):
            errors.append(relative_error(after, _uncorrelated_norm_variance(before)))
        if name == "sue":  # κ = 0: Eq. 8 is exact
            equal_errors.append(largest(after / before - (d - 1) / d))
    scores = []
    for simulation in _simulated(instances):
        # Two oracles are enough here: the enumeration covers all of them.
        if simulation.name in ("oue", "olh"):
            # In the simulation estimates of hashing are uncorrelated too: its family is ideal
            # there.
            predicted = _uncorrelated_norm_variance(simulation.printed_variance)
            normed = closed_form.norm(simulation.estimates)
            scores.append(simulation.variance_score(normed, predicted))
    return Finding(
        holds=largest([*errors, *equal_errors]) < ENUMERATED and largest(scores) < SIGMAS,
        instances=len(_small()),
        evidence={
            **{
                f"largest Var Norm / ((d-1)/d Var Base) of a value nobody has, {name}": max(values)
                for name, values in ratios.items()
            },
            "largest error of (d-1)/d for SUE, where Eq. 8 is exact": largest(equal_errors),
            "beyond Eq. 8": "V_v (1 - 2/d) + ΣV/d² for uncorrelated estimates; for GRR and subset "
            "selection Norm changes nothing, so that the ratio is 1",
            "largest relative error of that, unary encoding and hashing": largest(errors),
            "simulated, OUE and OLH: largest error in standard deviations": largest(scores),
        },
    )


@claim(
    "noise-gaussian",
    "N Eq. 6, D Eq. 4, K III-B",
    "By the central limit theorem the noise of an estimate is approximately Gaussian with mean 0 "
    "and variance σ_v².",
    Verdict.HOLDS,
)
def noise_gaussian(instances: InstanceSet) -> Finding:
    """Measure Kolmogorov's distance between the exact law of c_v and N(E c_v, Var c_v).

    For all oracles at ε = 1, d = 64, values of 0, 1 % and a third of the users. Red if a distance
    exceeds the Berry-Esseen bound, if it does not fall by 0.6 or more from one n to the next, or
    if simulated counts are outside of the band that chance allows around their exact law.
    """
    # Sixteen and four times as many: the distance should fall to a quarter and a half.
    sizes = (400, 6_400) if instances.quick else (400, 6_400, 25_600)
    evidence: dict[str, float | int | str] = {}
    ratios: list[float] = []
    falling = True
    for name, make in ORACLES.items():
        # Every size by itself: the distance is a property of a law, not of draws.
        laws = [_distances_to_gaussian(make(1.0, 64), n) for n in sizes]
        distances = [largest([distance for distance, _ in law]) for law in laws]
        ratios += [distance / bound for law in laws for distance, bound in law]
        falling &= _falls(distances)
        key = f"Kolmogorov distance, {name}, n = {_listed(sizes, ',')}"
        evidence[key] = _listed(distances, ".4f")
    outside = _outside_band(instances)
    return Finding(
        holds=falling and largest(ratios) <= 1 and outside < 1,
        instances=len(ratios),
        evidence={
            **evidence,
            "largest ratio to the Berry-Esseen bound": largest(ratios),
            "falls like": "1/sqrt(n), as the theorem states",
            "simulated counts of every oracle against their exact law: Kolmogorov distance over "
            "the bound": outside,
            "bound": "Dvoretzky, Kiefer, Wolfowitz and Massart: a false alarm in less than 1 of "
            "10,000 runs",
        },
    )


def _falls(distances: Sequence[float]) -> bool:
    # The theorem predicts a quarter, then a half; 0.6 leaves room for the lattice of counts.
    return all(late < 0.6 * early for early, late in itertools.pairwise(distances))


def _listed(numbers: Iterable[float], form: str) -> str:
    return ", ".join(format(number, form) for number in numbers)


def _distances_to_gaussian(oracle: FrequencyOracle, n: int) -> list[tuple[float, float]]:
    """Return distance and bound for a value of nobody, of 1 % and of a third of the users."""
    return [_distance_to_gaussian(oracle, n, owners) for owners in (0, n // 100, n // 3)]


def _distance_to_gaussian(oracle: FrequencyOracle, n: int, owners: int) -> tuple[float, float]:
    """Return Kolmogorov's distance of a count's law to the Gaussian, and the Berry-Esseen bound.

    The Gaussian has the printed variance of f̃, so that a wrong one would show.
    """
    from scipy.special import ndtr

    law = marginal_law(oracle, n, owners)
    mean = owners * oracle.p + (n - owners) * oracle.q
    variance = float(_printed_variance(oracle, np.array(owners / n)))
    # The printed variance is n Var f̃, and the count is n (q + (p-q) f̃).
    sd = (oracle.p - oracle.q) * math.sqrt(n * variance)
    gaussian = ndtr((np.arange(n + 1) - mean) / sd)
    up_to = np.cumsum(law)
    distance = largest([up_to - gaussian, up_to - law - gaussian])  # at and before each jump
    # Users are independent, so that their third moments add up as the variances do.
    third_moments = owners * _third_moment(oracle.p) + (n - owners) * _third_moment(oracle.q)
    return distance, _BERRY_ESSEEN * third_moments / sd**3


def _third_moment(p: float) -> float:
    """Return E|X - p|³ of a report that supports with probability p."""
    return p * (1 - p) * (p * p + (1 - p) ** 2)


def _outside_band(instances: InstanceSet) -> float:
    """Return the largest distance of simulated counts to their law, over the band of chance.

    The band is left in 10⁻⁶ of the cases.
    """
    ratios = []
    for simulation in _simulated(instances):
        oracle = simulation.oracle
        n = simulation.n
        # The inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant.
        band = math.sqrt(math.log(2 / 1e-6) / (2 * len(simulation.estimates)))
        shares = oracle.q + (oracle.p - oracle.q) * simulation.estimates
        counts = np.rint(n * shares).astype(int)
        for value in range(oracle.d):
            frequency = np.bincount(counts[:, value], minlength=n + 1) / len(counts)
            law = marginal_law(oracle, n, round(n * simulation.frequencies[value]))
            ratios.append(largest(np.cumsum(frequency) - np.cumsum(law)) / band)
    return largest(ratios)


@claim(
    "noise-common",
    "K III-B Eq. 14, N Eq. 8",
    "The noise of all items approximately follows the same Gaussian law: in counts of mean 0 and "
    "variance n q(1-q)/(p-q)².",
    Verdict.CORRECTED,
)
def noise_common(instances: InstanceSet) -> Finding:
    """Simulate the noise of all items of Zipf through OUE, OLH and GRR, and compare with Eq. 14.

    In one trial the noises of d items have the mean square n(a + b/d): Eq. 14 leaves out b/d. Red
    if the most frequent item's variance is within _NEARLY_COMMON of Eq. 14 under all three (then
    the statement holds), or if the simulated mean square is SIGMAS standard deviations or more from
    n(a + b/d).
    """
    rng = instances.rng()
    data = datasets.load("zipf")
    f = data.frequencies
    n = data.n
    trials = 20 if instances.quick else 100
    evidence: dict[str, float | int | str] = {}
    top_excesses = []
    scores = []
    for name in ("oue", "olh", "grr"):
        oracle = ORACLES[name](1.0, data.d)
        raw = oracle.estimate(oracle.simulate_counts(data.counts, rng, trials=trials), n)
        # Over the items of a collection, as K's figure shows it, and not over collections.
        mean_square = float(n * n * np.mean((raw.frequencies - f) ** 2))
        printed = n * oracle.q * (1 - oracle.q) / (oracle.p - oracle.q) ** 2
        corrected = n * (oracle.a + oracle.b / data.d)
        # A mean of d squares per trial, as if they were independent and Gaussian.
        scores.append(abs(mean_square / corrected - 1) / math.sqrt(2 / (trials * data.d)))
        top_excesses.append(oracle.kappa * float(f.max()))
        evidence[f"{name}: mean square of the noise over items, in counts, over Eq. 14"] = (
            mean_square / printed
        )
        evidence[f"{name}: variance of the most frequent item over Eq. 14"] = 1 + top_excesses[-1]
    return Finding(
        holds=largest(top_excesses) < _NEARLY_COMMON,
        corrected=largest(scores) < SIGMAS,
        instances=3 * trials,
        evidence={
            **evidence,
            "correction": "item v has n(a + b f_v); over the items of one trial the mean is "
            "n(a + b/d), close to Eq. 14 for large d",
            "simulated mean square against n(a + b/d): largest error in standard deviations": (
                largest(scores)
            ),
            "data": f"Zipf(1.5), d = {data.d:,}, n = {n:,}, ε = 1, {trials} trials",
        },
    )


@claim(
    "mse-any-distribution",
    "N V-C",
    "Base's expected MSE over the domain is a/n + b/(dn): it does not depend on the distribution.",
    Verdict.HOLDS,
)
def mse_any_distribution(instances: InstanceSet) -> Finding:
    """Compute Base's expected MSE over all reports for four populations of every oracle.

    A point mass, uniform, k/Σk and a random one, at d = 3, 4, 5. Red if one differs from the
    formula by ENUMERATED or more, relative.
    """
    rng = instances.rng()
    errors = []
    for _, oracle in _small():
        d = oracle.d
        formula = oracle.a + oracle.b / d
        # The two extremes, one in between, and one that nobody has chosen.
        for f in (np.eye(d)[0], np.full(d, 1 / d), _truth(d), rng.dirichlet(np.ones(d))):
            # The estimate is unbiased: its expected MSE over the domain is its mean variance.
            errors.append(relative_error(np.trace(_exact_covariance(oracle, f)) / d, formula))
    return Finding(
        holds=largest(errors) < ENUMERATED,
        instances=len(errors),
        evidence={
            "largest relative error, four populations, all reports enumerated": largest(errors)
        },
    )
