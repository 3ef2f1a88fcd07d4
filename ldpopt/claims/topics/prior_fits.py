"""Claims about fitted priors of Calibrate and Power, and about heavy hitters."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ldpopt import closed_form
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.measures import largest
from ldpopt.claims.reference import published
from ldpopt.claims.reference.operations import CountedArray
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import postprocess
from ldpopt.oracles import OUE
from ldpopt.priors import Gaussian, PowerLaw

TITLE = "Calibrate and Power: fits of the prior, and heavy hitters"
ORDER = 55

Array = NDArray[np.float64]


def _zipf_oue(instances: InstanceSet, epsilon: float, n: int) -> tuple[Array, FrequencyEstimate]:
    """Return true frequencies and raw estimates of Zipf(1.5) on 512 values through OUE, as K's."""
    oracle = OUE(epsilon=epsilon, d=512)
    users = apportion(np.arange(1, 513) ** -1.5, n)
    trials = 10 if instances.quick else 40
    counts = oracle.simulate_counts(users, instances.rng(), trials=trials)
    return users / n, oracle.estimate(counts, n)


@claim(
    "calibrate-fitted",
    "K IV-B",
    "Theorem 2 shows that Calibrate is the optimal post-processing method.",
    Verdict.CORRECTED,
)
def calibrate_fitted(instances: InstanceSet) -> Finding:
    """Compare Calibrate, whose prior is fitted, with rivals on a power law and on two values alike.

    Theorem 2 is about the true prior. Red if Calibrate has the smallest MSE on both populations
    (then the statement holds), or if it has not on the power law.
    """
    # Small enough for twenty collections, large enough for a fit.
    d = 256
    n = 50_000
    evidence: dict[str, float | int | str] = {}
    beaten = {}
    populations = {
        "power law": np.arange(1.0, d + 1) ** -1.5,
        "ten equal values": np.repeat([1.0, 0.0], [10, d - 10]),
    }
    for name, weights in populations.items():
        oracle = OUE(epsilon=2.0, d=d)
        users = apportion(weights, n)
        counts = oracle.simulate_counts(users, instances.rng(), trials=20)
        raw = oracle.estimate(counts, n)
        errors = {
            method: float(np.mean((postprocess(raw, method).frequencies - users / n) ** 2))
            for method in ("power", "base", "base-pos", "base-cut", "base-zero")
        }
        # The best of the others: one that wins is enough to refute.
        rivals = {method: error for method, error in errors.items() if method != "power"}
        best = min(rivals, key=rivals.__getitem__)
        beaten[name] = rivals[best] < errors["power"]
        evidence[f"Calibrate's MSE over the best other, {best}, on {name}"] = (
            errors["power"] / rivals[best]
        )
    return Finding(
        holds=not any(beaten.values()),
        corrected=not beaten["power law"],
        instances=40,
        evidence={
            **evidence,
            "correction": "optimal where the prior is the distribution of the true counts; a "
            "fitted prior of another family can be beaten",
        },
    )


@claim(
    "power-can-be-poor",
    "N IV-E, D 3.2",
    "With much noise, or another distribution than a power law, fitting one could lead to poor "
    "accuracy.",
    Verdict.HOLDS,
)
def power_can_be_poor(instances: InstanceSet) -> Finding:
    """Compare Power with the other methods on ten equal values, and on Zipf under much noise.

    OUE, d = 256. Red unless another method's MSE is smaller by a tenth or more in both cases, and
    not on Zipf under less noise.
    """
    d = 256
    equal = np.repeat([1.0, 0.0], [10, d - 10])
    zipf = np.arange(1.0, d + 1) ** -1.5
    cases = {
        "ten equal values, ε = 2": (equal, 2.0, 50_000),
        "Zipf, ε = 0.1, n = 2,000": (zipf, 0.1, 2_000),
        "Zipf, ε = 2": (zipf, 2.0, 50_000),
    }
    ratios = {}
    for name, (weights, epsilon, n) in cases.items():
        oracle = OUE(epsilon=epsilon, d=d)
        users = apportion(weights, n)
        counts = oracle.simulate_counts(users, instances.rng(), trials=30)
        raw = oracle.estimate(counts, n)
        with warnings.catch_warnings():
            # Under much noise some draws have a mean that no power law has.
            warnings.simplefilter("ignore", LdpoptWarning)
            errors = {
                method: float(np.mean((postprocess(raw, method).frequencies - users / n) ** 2))
                for method in ("power", "base-cut", "base-zero", "norm-sub", "norm-mul")
            }
        # Taken out before the minimum: a method is no rival of itself.
        of_power = errors.pop("power")
        ratios[name] = of_power / min(errors.values())
    *poor, good = ratios.values()
    return Finding(
        holds=min(poor) > 1.1 and good < 1.1,
        instances=30 * len(cases),
        evidence={f"Power's MSE over the best other, {name}": r for name, r in ratios.items()},
    )


@claim(
    "calibrate-fewer",
    "K IV-B",
    "Calibrate lowers high estimates, and so reports fewer true and false positives than OUE.",
    Verdict.HOLDS,
)
def calibrate_fewer(instances: InstanceSet) -> Finding:
    """Count both at twenty thresholds from 1 to 20 standard deviations, on draws of Zipf.

    Red if Calibrate reports more of either at a threshold, or at none fewer of both.
    """
    truth, raw = _zipf_oue(instances, epsilon=2.0, n=20_000)
    calibrated = postprocess(raw, "power").frequencies
    more = 0
    fewer = 0
    # Below σ the threshold would be among the noise of empty values.
    for threshold in float(raw.sigma) * np.arange(1, 21):
        is_hitter = truth > threshold
        numbers = []
        # Both on the same draws, so that every difference is Calibrate's.
        for f in (calibrated, raw.frequencies):
            found_values = f > threshold
            numbers.append(
                (int((found_values & is_hitter).sum()), int((found_values & ~is_hitter).sum()))
            )
        (true, false), (true_before, false_before) = numbers
        # Values at the threshold itself count as below for both, and change nothing.
        more += true > true_before or false > false_before
        fewer += true < true_before and false < false_before
    return Finding(
        holds=more == 0 and fewer > 0,
        instances=20 * len(calibrated),
        evidence={
            "thresholds with more true or false positives": more,
            "thresholds with fewer of both": fewer,
        },
    )


@claim(
    "zero-moves",
    "K IV-B",
    "As the threshold falls OUE-Zero has more true positives, fewer false positives, and even more "
    "false negatives.",
    Verdict.HOLDS,
)
def zero_moves(instances: InstanceSet) -> Finding:
    """Follow the three numbers below the significance threshold, on draws of Zipf.

    There OUE-Zero reports one and the same set, while more values count as frequent. Red if true
    positives fall, false positives rise, or false negatives do not rise by more than true
    positives do.
    """
    truth, raw = _zipf_oue(instances, epsilon=2.0, n=20_000)
    # One set for all thresholds below the significance threshold.
    kept = postprocess(raw, "base-zero").frequencies > 0
    significance = closed_form.significance_threshold(raw.d, float(raw.sigma), alpha=0.05)
    true = []
    false = []
    missed = []
    for factor in (1.0, 0.8, 0.6, 0.4, 0.2, 0.1):
        # The truth is compared with the falling threshold, the reported set stays.
        is_hitter = truth > factor * significance
        true.append(np.count_nonzero(kept & is_hitter))
        false.append(np.count_nonzero(kept & ~is_hitter))
        missed.append(np.count_nonzero(~kept & is_hitter))
    is_monotone = bool(np.all(np.diff(true) >= 0) and np.all(np.diff(false) <= 0))
    misses_more = bool(missed[-1] - missed[0] > true[-1] - true[0] > 0)
    return Finding(
        holds=is_monotone and misses_more,
        instances=len(kept) * len(true),
        evidence={
            "true positives": ", ".join(map(str, true)),
            "false positives": ", ".join(map(str, false)),
            "false negatives": ", ".join(map(str, missed)),
        },
    )


@claim(
    "likelihood-fit",
    "K III-C Eq. 16",
    "The maximum likelihood fit maximises Σ_v log Σ_k π(k) φ((y_v - k)/s) over the parameters.",
    Verdict.HOLDS,
)
def likelihood_fit(instances: InstanceSet) -> Finding:
    """Fit a power law to one estimate, and sum the likelihood count by count at other exponents.

    Red if an exponent 0.02 or 0.2 away has a larger likelihood, or the fit by moments does.
    """
    # Few users: the likelihood is summed count by count.
    n = 2_000
    _, raw = _zipf_oue(instances, epsilon=2.0, n=n)
    estimate = raw[0]
    y = n * estimate.frequencies
    noise = n * float(estimate.sigma)
    fitted = PowerLaw.fit(estimate, by="likelihood").alpha

    def log_likelihood(alpha: float) -> float:
        # Count by count, without the library's own sums and nodes.
        k = np.arange(1, n + 1)
        law = k**-alpha / np.sum(k**-alpha)
        densities = np.exp(-0.5 * ((y[:, None] - k) / noise) ** 2) @ law
        return float(np.sum(np.log(densities)))

    best = log_likelihood(fitted)
    # Near and far, since a local maximum would pass the near ones alone.
    others = {shift: best - log_likelihood(fitted + shift) for shift in (-0.2, -0.02, 0.02, 0.2)}
    by_moments = best - log_likelihood(PowerLaw.fit(estimate).alpha)
    return Finding(
        holds=min(others.values()) > 0 and by_moments >= 0,
        instances=1 + len(others),
        evidence={
            "fitted exponent": fitted,
            **{f"log-likelihood lost at {shift:+g}": loss for shift, loss in others.items()},
            "log-likelihood lost by the fit by moments": by_moments,
        },
    )


@claim(
    "moment-fit-cheaper",
    "K III-C",
    "The mean-variance method is much more efficient than maximum likelihood.",
    Verdict.HOLDS,
)
def moment_fit_cheaper(instances: InstanceSet) -> Finding:
    """Count the terms that each fit of a power law sums, at d = 512, n = 2,000.

    By moments: d estimates, and n terms for the mean of a law, at each of 60 exponents. By
    likelihood: n terms for each of d estimates, at each of 60. Red if the second is not at least a
    hundred times the first, or if the two exponents differ by more than 0.3: then they would not
    be fits of the same.
    """
    n = 2_000
    steps = 60
    _, raw = _zipf_oue(instances, epsilon=4.0, n=n)
    # Counted, not timed: no machine and no load decides.
    counts = np.arange(1.0, n + 1).view(CountedArray)
    counts.tally = [0.0]
    power = counts**-1.5
    _ = (counts * power).sum() / power.sum()
    of_mean = counts.tally[0]
    counts.tally = [0.0]
    published.mean_over(counts, 100.0, n * float(raw.sigma), 1.5)
    of_estimate = counts.tally[0]
    by_moments = raw.d + steps * of_mean
    by_likelihood = steps * raw.d * of_estimate
    exponents = [PowerLaw.fit(raw[0], by=by).alpha for by in ("moments", "likelihood")]
    return Finding(
        holds=by_likelihood > 100 * by_moments and abs(exponents[0] - exponents[1]) < 0.3,
        instances=2,
        evidence={
            "operations by moments": by_moments,
            "operations by likelihood": by_likelihood,
            "exponent by moments": exponents[0],
            "exponent by likelihood": exponents[1],
        },
    )


@claim(
    "moments-determine",
    "K III-C",
    "The two equations for mean and variance determine a law of one or two parameters.",
    Verdict.HOLDS,
)
def moments_determine(instances: InstanceSet) -> Finding:
    """Compute the moments of power laws and Gaussians, and find their parameters again.

    Red if a parameter differs by 1e-4 or more, relative.
    """
    n = 5_000
    errors = []
    # A heavy tail, the usual one, and a light one.
    for alpha in (1.2, 2.0, 3.0):
        law = PowerLaw(alpha, n)
        errors.append(PowerLaw.from_moments(law.mean(), law.variance(), n).alpha / alpha - 1)
    for centre, scale in ((500.0, 100.0), (2_000.0, 300.0)):
        gaussian = Gaussian(centre, scale, n)
        again = Gaussian.from_moments(gaussian.mean(), gaussian.variance(), n)
        errors += [again.centre / centre - 1, again.scale / scale - 1]
    return Finding(
        holds=largest(errors) < 1e-4,
        instances=len(errors),
        evidence={"largest relative error of a parameter": largest(errors)},
    )


@claim(
    "noise-convolution",
    "K III-C Eq. 21",
    "The estimated counts follow the convolution of the law of the true counts with the noise.",
    Verdict.HOLDS,
)
def noise_convolution(instances: InstanceSet) -> Finding:
    """Draw true counts from a power law, collect them through OUE, and compare the distributions.

    Red if Kolmogorov's distance of the estimates of all items to the convolution exceeds 0.03, or
    if that to the law of the true counts alone does not.
    """
    n = 20_000
    d = 10_000
    rng = instances.rng()
    k = np.arange(1, 401)
    law = k**-2.0 / np.sum(k**-2.0)
    true = rng.choice(k, size=d, p=law)
    oracle = OUE(epsilon=3.0, d=d)
    # Counts of items are independent under K's model: each is collected from n users of its own.
    supported = rng.binomial(true, oracle.p) + rng.binomial(n - true, oracle.q)
    y = np.sort((supported - n * oracle.q) / (oracle.p - oracle.q))
    noise = n * oracle.sd(n)
    empirical = (np.arange(d) + 0.5) / d
    convolved = ndtr((y[:, None] - k) / noise) @ law
    # The law of the true counts as a step function: 0 below the first count.
    alone = np.cumsum(law)[np.clip(y.astype(int), 1, len(k)) - 1] * (y >= 1)
    distance = largest(empirical - convolved)
    distance_alone = largest(empirical - alone)
    return Finding(
        holds=distance < 0.03 < distance_alone,
        instances=d,
        evidence={
            "Kolmogorov distance to the convolution": distance,
            "to the law of the true counts alone": distance_alone,
            "chance alone gives, in 1 of 1,000 runs": 1.95 / math.sqrt(d),
        },
    )
