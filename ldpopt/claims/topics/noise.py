"""Claims about the noise of the raw estimate: its mean, variance, covariance and law, exactly and by simulation."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.reference.channels import channel, has_uncorrelated_counts, marginal_law
from ldpopt.claims.topics.protocols import SMALL
from ldpopt.datasets.dataset import apportion
from ldpopt.oracles import GRR, ORACLES, OUE
from ldpopt.oracles.base import FrequencyOracle

TITLE = "Noise of the raw estimate: mean, variance, covariance and distribution"
ORDER = 90

Array = NDArray[np.float64]

SIGMAS = 5.0
"""Bound of simulated statistics, in their standard deviations: a false alarm in 1.7 million Gaussian draws."""

_ROUNDING = 1e-10  # of variances from up to 1,000 reports, relative
_BERRY_ESSEEN = (
    0.56  # constant for independent summands that are not identically distributed (Shevtsova 2010)
)


def _truth(d: int) -> Array:
    """Return frequencies k/Σk: all different, the last value not used by anybody."""
    weights = np.arange(d)[::-1].astype(np.float64)
    return np.asarray(weights / weights.sum())


def _small() -> list[FrequencyOracle]:
    return [make(epsilon, d) for make in ORACLES.values() for epsilon, d in SMALL]


def _printed_variance(oracle: FrequencyOracle, f: Array) -> Array:
    """Return n times N Eq. 5, as printed."""
    p, q = oracle.p, oracle.q
    return np.asarray((q * (1 - q) + f * (p - q) * (1 - p - q)) / (p - q) ** 2)


@cache
def _simulated(instances: InstanceSet) -> list[tuple[str, FrequencyOracle, Array, int, Array]]:
    """Return name, oracle, true frequencies, n, and the estimates of many collections, for every oracle."""
    d, n, trials = 8, 500, 400 if instances.quick else 4_000
    rng = instances.rng()
    drawn = []
    for name, make in ORACLES.items():
        oracle = make(1.0, d)
        users = apportion(_truth(d), n)
        estimates = oracle.estimate(
            oracle.simulate_counts(users, rng, trials=trials), n
        ).frequencies
        drawn.append((name, oracle, users / n, n, estimates))
    return drawn


@claim(
    "unbiased",
    "N III-D; D 2.2, 2.3; K Eq. 3",
    "f̃_v = (c_v/n - q)/(p - q) is unbiased for every oracle.",
    Verdict.HOLDS,
)
def _unbiased(instances: InstanceSet) -> Finding:
    exact = 0.0
    for oracle in _small():
        f = _truth(oracle.d)
        expected = (channel(oracle).expectation @ f - oracle.q) / (oracle.p - oracle.q)
        exact = max(exact, float(np.max(np.abs(expected - f))))
    scores = {}
    for name, oracle, f, n, estimates in _simulated(instances):
        sd = np.sqrt(_printed_variance(oracle, f) / n / len(estimates))
        scores[name] = float(np.max(np.abs(estimates.mean(axis=0) - f) / sd))
    return Finding(
        exact < _ROUNDING and max(scores.values()) < SIGMAS,
        len(_small()) + 8 * len(scores),
        {
            "largest |E[f̃_v] - f_v| over all reports of all oracles at d = 3, 4, 5": exact,
            **{
                f"simulated mean, {name}: largest error in standard deviations": z
                for name, z in scores.items()
            },
            "bound, in standard deviations (56 means: false alarm below 1 in 10,000)": SIGMAS,
        },
    )


@claim(
    "variance",
    "N III-D Eq. 5; D Eqs. 2, 5",
    "Var f̃_v = (q(1-q) + f_v (p-q)(1-p-q))/(n (p-q)²).",
    Verdict.HOLDS,
)
def _variance(instances: InstanceSet) -> Finding:
    exact = 0.0
    for oracle in _small():
        f = _truth(oracle.d)
        found = np.diag(channel(oracle).covariance(f)) / (oracle.p - oracle.q) ** 2
        exact = max(exact, float(np.max(np.abs(found / _printed_variance(oracle, f) - 1))))
    scores = {}
    for name, oracle, f, n, estimates in _simulated(instances):
        ratio = estimates.var(axis=0, ddof=1) / (_printed_variance(oracle, f) / n)
        scores[name] = float(np.max(np.abs(ratio - 1)) / math.sqrt(2 / (len(estimates) - 1)))
    return Finding(
        exact < _ROUNDING and max(scores.values()) < SIGMAS,
        len(_small()) + 8 * len(scores),
        {
            "largest relative error over all reports of all oracles at d = 3, 4, 5": exact,
            **{
                f"simulated variance, {name}: largest error in standard deviations": z
                for name, z in scores.items()
            },
            "bound, in standard deviations (56 variances: false alarm below 1 in 1,000)": SIGMAS,
            "what is random": "the reports; the users' values are fixed",
        },
    )


@claim(
    "variance-closed-forms",
    "D Eqs. 3, 6",
    "n Var f̃ is (d-2+e^ε)/(e^ε-1)² + f (d-2)/(e^ε-1) for GRR and 4e^ε/(e^ε-1)² + f for OUE.",
    Verdict.HOLDS,
)
def _closed_forms(instances: InstanceSet) -> Finding:
    worst, settings = 0.0, 0
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        e = math.exp(epsilon)
        for d in (2, 3, 10, 1024, 42_178):
            for f in (0.0, 0.3, 1.0):
                grr = (d - 2 + e) / (e - 1) ** 2 + f * (d - 2) / (e - 1)
                oue = 4 * e / (e - 1) ** 2 + f
                right = (float(make(epsilon=epsilon, d=d).variance(1, f)) for make in (GRR, OUE))
                worst = max(
                    worst,
                    *(abs(found / true - 1) for found, true in zip((grr, oue), right, strict=True)),
                )
                settings += 1
    return Finding(worst < _ROUNDING, settings, {"largest relative difference to N Eq. 5": worst})


@claim(
    "counts-binomial",
    "N III-D",
    "The support count c_v follows a binomial distribution.",
    Verdict.CORRECTED,
)
def _counts_binomial(instances: InstanceSet) -> Finding:
    oracle, n, own = OUE(epsilon=1.0, d=8), 200, 80
    law, counts = marginal_law(oracle, n, own), np.arange(n + 1)
    mean = float(law @ counts)
    variance = float(law @ (counts - mean) ** 2)
    share = own / n
    binomial = mean * (1 - mean / n)
    two = own * oracle.p * (1 - oracle.p) + (n - own) * oracle.q * (1 - oracle.q)
    excess = n * (oracle.p - oracle.q) ** 2 * share * (1 - share)
    return Finding(
        holds=math.isclose(variance, binomial, rel_tol=1e-9),
        corrected=math.isclose(variance, two, rel_tol=1e-9)
        and math.isclose(binomial - two, excess, rel_tol=1e-9),
        instances=n + 1,
        evidence={
            "example": "OUE, ε = 1, n = 200, 80 of them with the value",
            "variance of c_v": variance,
            "variance of the binomial law with the same n and mean": binomial,
            "correction": "the sum of Binomial(n f, p) and Binomial(n - n f, q), whose variance is Eq. 5's; one binomial law has "
            "n (p-q)² f(1-f) more, and is right where the users themselves are a random sample, or f is 0 or 1",
        },
    )


@claim(
    "variance-approximation",
    "N III-D Eq. 7, D Eq. 7",
    "For large d and ε not too large f_v's part of the variance is dominated, so σ² = q(1-q)/(n(p-q)²) is a good approximation.",
    Verdict.CORRECTED,
)
def _approximation(instances: InstanceSet) -> Finding:
    """Compare on data: the part of f_v is κ f_v of σ²: its mean over the domain is κ/d, whatever the distribution."""
    epsilons = (0.2, 1.0, 2.0, 4.0)
    worst, mean, formula, evidence = 0.0, 0.0, True, {}
    for data_name in ("zipf", "emoji"):
        f = datasets.load(data_name).frequencies
        for epsilon in epsilons:
            oracle = OUE(epsilon=epsilon, d=len(f))
            relative = oracle.variance(1, f) / oracle.variance(1) - 1
            worst, mean = max(worst, float(relative.max())), max(mean, float(relative.mean()))
            evidence[
                f"{data_name}, OUE, ε = {epsilon:g}: variance above σ² for the top value, relative"
            ] = float(relative.max())
            formula &= math.isclose(float(relative.mean()), oracle.kappa / len(f), rel_tol=1e-6)
    grr = GRR(epsilon=1.0, d=42_178)
    return Finding(
        holds=worst < 0.1,
        corrected=formula and mean < 0.02,
        instances=2 * len(epsilons),
        evidence={
            **evidence,
            "mean over the domain, κ/d, at most": mean,
            "GRR, ε = 1, d = 42,178: κ, which no domain size makes small": grr.kappa,
            "correction": "the relative error for a value is κ f_v: small on average over a large domain and for rare values, "
            "not for a frequent value",
        },
    )


@claim(
    "independent",
    "N III-D, IV-D; D 3.4",
    "The estimates of different values are independent.",
    Verdict.CORRECTED,
)
def _independent(instances: InstanceSet) -> Finding:
    largest: dict[str, float] = {}
    for name, make in ORACLES.items():
        for epsilon, d in SMALL:
            covariance = channel(make(epsilon, d)).covariance(_truth(d))
            sd = np.sqrt(np.diag(covariance))
            correlation = np.abs(covariance / np.outer(sd, sd) - np.eye(d))
            largest[name] = max(largest.get(name, 0.0), float(correlation.max()))
    free = [name for name, make in ORACLES.items() if has_uncorrelated_counts(make(1.0, 4))]
    return Finding(
        holds=max(largest.values()) < _ROUNDING,
        corrected=max(largest[name] for name in free) < _ROUNDING,
        instances=len(_small()),
        evidence={
            **{
                f"largest |correlation| of two estimates, {name}, d = 3, 4, 5": value
                for name, value in largest.items()
            },
            "correction": "uncorrelated for unary encoding and for local hashing with an ideal family; a GRR or subset report "
            "supports a fixed number of values, so that its estimates are negatively correlated, about -1/(d-1)",
        },
    )


@claim(
    "norm-variance",
    "D 3.2",
    "Norm's estimate has (d-1)/d times the variance of the raw one: under one per cent less when d is in the hundreds.",
    Verdict.CORRECTED,
)
def _norm_variance(instances: InstanceSet) -> Finding:
    """Var f'_v = V_v - 2 Cov(f̃_v, S)/d + Var S/d², S the sum of the estimates: V_v (1 - 2/d) + ΣV/d² if uncorrelated."""
    ratios: dict[str, float] = {}
    uncorrelated, equal = 0.0, 0.0
    for name, make in ORACLES.items():
        for epsilon, d in SMALL:
            oracle = make(epsilon, d)
            f = _truth(d)
            cov = channel(oracle).covariance(f) / (oracle.p - oracle.q) ** 2
            linear = closed_form.norm(np.eye(d)) - closed_form.norm(
                np.zeros(d)
            )  # its rows are what a unit becomes
            found, before = np.diag(linear.T @ cov @ linear), np.diag(cov)
            ratios[name] = max(ratios.get(name, 0.0), float(found[-1] / before[-1] / ((d - 1) / d)))
            if has_uncorrelated_counts(oracle):
                right = before * (1 - 2 / d) + before.sum() / d**2
                uncorrelated = max(uncorrelated, float(np.max(np.abs(found / right - 1))))
                if name == "sue":  # κ = 0: all variances are equal
                    equal = max(equal, float(np.max(np.abs(found / before - (d - 1) / d))))
    scores = 0.0
    for name, oracle, f, n, estimates in _simulated(instances):
        if name in {"oue", "olh"}:
            before = _printed_variance(oracle, f) / n
            right = before * (1 - 2 / oracle.d) + before.sum() / oracle.d**2
            found = closed_form.norm(estimates).var(axis=0, ddof=1)
            scores = max(
                scores,
                float(np.max(np.abs(found / right - 1)) / math.sqrt(2 / (len(estimates) - 1))),
            )
    return Finding(
        holds=max(abs(ratio - 1) for ratio in ratios.values()) < _ROUNDING,
        corrected=max(uncorrelated, equal) < _ROUNDING and scores < SIGMAS,
        instances=len(_small()),
        evidence={
            **{
                f"Var Norm / ((d-1)/d Var Base) of a value nobody has, {name}, at most": r
                for name, r in ratios.items()
            },
            "correction": "V_v (1 - 2/d) + ΣV/d² for uncorrelated estimates, which is (d-1)/d V where all variances are equal; "
            "for GRR and subset selection Norm changes nothing, so the ratio is 1",
            "largest relative error of the correction, unary encoding and hashing": uncorrelated,
            "largest error of (d-1)/d for SUE, whose variances are equal": equal,
            "simulated, OUE and OLH: largest error in standard deviations": scores,
        },
    )


@claim(
    "noise-gaussian",
    "N Eq. 6, D Eq. 4, K III-B",
    "By the central limit theorem the noise of an estimate is approximately Gaussian with mean 0 and variance σ_v².",
    Verdict.HOLDS,
)
def _gaussian(instances: InstanceSet) -> Finding:
    """Kolmogorov's distance between the exact law of c_v and N(E c_v, Var c_v), beside the Berry-Esseen bound."""
    from scipy.special import ndtr

    sizes = (400, 6_400) if instances.quick else (400, 6_400, 25_600)
    evidence: dict[str, float | int | str] = {}
    ratio, falling, laws = 0.0, True, 0
    for name, make in ORACLES.items():
        oracle = make(1.0, 64)
        distances = []
        for n in sizes:
            largest = 0.0
            for own in (0, n // 100, n // 3):
                law = marginal_law(oracle, n, own)
                mean = own * oracle.p + (n - own) * oracle.q
                # Through the printed variance of f̃, so that a wrong one would show.
                frequency = np.array(own / n)
                sd = (oracle.p - oracle.q) * math.sqrt(
                    n * float(_printed_variance(oracle, frequency))
                )
                after = np.cumsum(law)
                gaussian = ndtr((np.arange(n + 1) - mean) / sd)
                largest = max(
                    largest,
                    float(np.max(np.abs(after - gaussian))),
                    float(np.max(np.abs(after - law - gaussian))),
                )
                third = sum(
                    count * x * (1 - x) * (x * x + (1 - x) ** 2)
                    for count, x in ((own, oracle.p), (n - own, oracle.q))
                )
                ratio = max(ratio, largest / (_BERRY_ESSEEN * third / sd**3))
                laws += 1
            distances.append(largest)
        falling &= all(late < 0.6 * early for early, late in itertools.pairwise(distances))
        evidence[f"Kolmogorov distance, {name}, n = {', '.join(f'{n:,}' for n in sizes)}"] = (
            ", ".join(f"{x:.4f}" for x in distances)
        )
    outside = _outside_band(instances)
    return Finding(
        falling and ratio <= 1 and outside < 1,
        laws,
        {
            **evidence,
            "largest ratio to the Berry-Esseen bound": ratio,
            "falls like": "1/sqrt(n), as the theorem says",
            "simulated counts of every oracle against their exact law: Kolmogorov distance over the bound": outside,
            "bound": "Dvoretzky, Kiefer, Wolfowitz and Massart: a false alarm in less than 1 of 10,000 runs",
        },
    )


def _outside_band(instances: InstanceSet) -> float:
    """Return the largest distance of simulated counts to their exact law over what chance allows in 10⁻⁶ of the cases."""
    largest = 0.0
    for _, oracle, f, n, estimates in _simulated(instances):
        band = math.sqrt(math.log(2 / 1e-6) / (2 * len(estimates)))
        for value in range(oracle.d):
            counts = np.rint(n * (oracle.q + (oracle.p - oracle.q) * estimates[:, value])).astype(
                int
            )
            found = np.cumsum(np.bincount(counts, minlength=n + 1)) / len(counts)
            law = np.cumsum(marginal_law(oracle, n, round(n * f[value])))
            largest = max(largest, float(np.max(np.abs(found - law))) / band)
    return largest


@claim(
    "noise-common",
    "K III-B Eq. 14, N Eq. 8",
    "The noise of all items follows the same Gaussian law: in counts of mean 0 and variance n q(1-q)/(p-q)².",
    Verdict.CORRECTED,
)
def _common(instances: InstanceSet) -> Finding:
    """In one trial the noises of d items have the mean square n(a + b/d): Eq. 14 leaves out b/d."""
    rng = instances.rng()
    data = datasets.load("zipf")
    f, n, trials = data.frequencies, data.n, 20 if instances.quick else 100
    evidence: dict[str, float | int | str] = {}
    top, corrected = 0.0, 0.0
    for name in ("oue", "olh", "grr"):
        oracle = ORACLES[name](1.0, data.d)
        noise = (
            oracle.estimate(oracle.simulate_counts(data.counts, rng, trials=trials), n).frequencies
            - f
        )
        printed = n * oracle.q * (1 - oracle.q) / (oracle.p - oracle.q) ** 2
        square = n * n * np.mean(noise**2)
        right = n * (oracle.a + oracle.b / data.d)
        corrected = max(
            corrected, abs(float(square) / right - 1) / math.sqrt(2 / (trials * data.d))
        )
        evidence[f"{name}: mean square of the noise over items, in counts, over Eq. 14"] = float(
            square / printed
        )
        evidence[f"{name}: variance of the most frequent item over Eq. 14"] = float(
            1 + oracle.kappa * f.max()
        )
        top = max(top, oracle.kappa * float(f.max()))
    return Finding(
        holds=top < 0.01,
        corrected=corrected < SIGMAS,
        instances=3 * trials,
        evidence={
            **evidence,
            "correction": "item v has n(a + b f_v); over the items of one trial the mean is n(a + b/d), close to Eq. 14 for "
            "large d",
            "simulated mean square against n(a + b/d): largest error in standard deviations": corrected,
            "data": f"Zipf(1.5), d = {data.d:,}, n = {n:,}, ε = 1, {trials} trials",
        },
    )


@claim(
    "mse-any-distribution",
    "N V-C",
    "Base's expected MSE over the domain is a/n + b/(dn): it does not depend on the distribution.",
    Verdict.HOLDS,
)
def _mse(instances: InstanceSet) -> Finding:
    worst, settings = 0.0, 0
    rng = instances.rng()
    for oracle in _small():
        d, a, b = oracle.d, oracle.a, oracle.b
        for f in (np.eye(d)[0], np.full(d, 1 / d), _truth(d), rng.dirichlet(np.ones(d))):
            found = np.trace(channel(oracle).covariance(f)) / d / (oracle.p - oracle.q) ** 2
            worst = max(worst, abs(float(found) / (a + b / d) - 1))
            settings += 1
    return Finding(
        worst < _ROUNDING,
        settings,
        {"largest relative error, four populations, all reports enumerated": worst},
    )
