"""Claims about Calibrate and Power: posterior means under a prior over counts."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.agreement import compare_with_solvers
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import Instance, InstanceSet
from ldpopt.claims.engine.measures import largest, relative_error, smallest
from ldpopt.claims.engine.tolerances import (
    CONFIDENCE,
    FORMULA,
    IDENTITY,
    POSTERIOR,
    SIGMAS,
)
from ldpopt.claims.topics.equivalences import CLS
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import postprocess
from ldpopt.oracles import OLH, OUE
from ldpopt.priors import PowerLaw

TITLE = "Calibrate and Power: posterior means under a prior over counts"
ORDER = 50

Array = NDArray[np.float64]

# Users and noise in counts, small enough that every sum below is taken term by term.
_N = 4_000
_NOISE = 60.0
_COUNTS = np.arange(1, _N + 1)
_EXPONENTS = (1.2, 2.0, 3.0)


def _weights(y: Array, noise: float, alpha: float, n: int) -> Array:
    """Return the posterior over counts 1 .. n given each y, shape (len(y), n) (K Eq. 11)."""
    k = np.arange(1, n + 1)
    # Less its maximum, so that no weight overflows and one of them is 1.
    exponent = -0.5 * ((y[:, None] - k) / noise) ** 2 - alpha * np.log(k)
    weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _observed(points: int) -> Array:
    """Return estimated counts from five standard deviations below 0 to twenty above."""
    return np.linspace(-5 * _NOISE, 20 * _NOISE, points)


def _power(y: Array, alpha: float) -> Array:
    """Return the library's posterior mean count, given each estimated count."""
    return PowerLaw(alpha, _N).posterior_mean(y, _NOISE)


@claim(
    "power-order",
    "D 3.2, first observation",
    "Power preserves the order of the estimates, strictly: "
    "f'_v1 < f'_v2 if and only if f̃_v1 < f̃_v2.",
    Verdict.PROVED,
    theorems=("power_preserves_order_strictly",),
)
def power_order(instances: InstanceSet) -> Finding:
    """Compare neighbouring estimates on a grid, and the slope of Power with the posterior variance.

    The derivative of the posterior mean in y is the posterior variance over s², which is positive.
    For three exponents. Red if a step is not positive, or if a slope differs by 1 % or more from
    the variance summed term by term (central differences of 0.02 s).
    """
    y = _observed(400 if instances.quick else 4_000)
    some = y[::40]  # the sums of squares take n terms each
    # The posterior mean is smooth at the scale of the noise: a fiftieth of it is a small step, and
    # still far above rounding.
    half_step = 0.02 * _NOISE
    steps = []
    slope_errors = []
    for alpha in _EXPONENTS:
        steps.append(smallest(np.diff(_power(y, alpha))))
        weights = _weights(some, _NOISE, alpha, _N)
        # As a difference of moments: counts are small here, and few digits cancel.
        variance = weights @ _COUNTS.astype(float) ** 2 - (weights @ _COUNTS) ** 2
        rise = _power(some + half_step, alpha) - _power(some - half_step, alpha)
        slope_errors.append(relative_error(rise / (2 * half_step), variance / _NOISE**2))
    return Finding(
        holds=smallest(steps) > 0 and largest(slope_errors) < 1e-2,
        instances=len(_EXPONENTS) * len(y),
        evidence={
            "smallest step between neighbouring estimates, in counts": smallest(steps),
            "largest relative difference of the slope to Var[k | y]/s²": largest(slope_errors),
        },
    )


@claim(
    "power-positive",
    "D 3.2, second observation",
    "All of Power's estimates are positive.",
    Verdict.PROVED,
    theorems=("power_is_positive",),
)
def power_positive(instances: InstanceSet) -> Finding:
    """Evaluate Power on a grid and at estimates of -10³ and -10⁶ standard deviations.

    The prior starts at one user, so that no posterior mean is below 1. For three exponents. Red if
    an estimate is below 1 by more than POSTERIOR.
    """
    # Far beyond any draw, where a quotient of two underflowing sums would be NaN.
    far_below = [-1e3 * _NOISE, -1e6 * _NOISE]
    y = np.concatenate([_observed(400 if instances.quick else 4_000), far_below])
    # The library interpolates, so that a mean of 1 may come out a little lower.
    lowest = smallest([smallest(_power(y, alpha)) for alpha in _EXPONENTS])
    return Finding(
        holds=lowest >= 1 - POSTERIOR,
        instances=len(_EXPONENTS) * len(y),
        evidence={
            "smallest estimate, in users, which the prior bounds by 1": lowest,
            "smallest estimated count, in standard deviations": -1e6,
        },
    )


@claim(
    "power-shrinkage",
    "D 3.2, third observation",
    "When f̃ is large Power's change f̃ - f' is small, otherwise it is large.",
    Verdict.CORRECTED,
)
def power_shrinkage(instances: InstanceSet) -> Finding:
    """Follow Power's change from far above the noise down to negative estimates.

    Far above the noise it tends to α s²/y; towards small y it rises to a peak, falls through 0 and
    turns negative. For three exponents. Red if the change has no zero (then the statement holds),
    more than one, the wrong signs, or differs from α s²/y by 0.1 % or more at 300 s.
    """
    far = np.array([30.0, 100.0, 300.0]) * _NOISE
    # Close together, so that a change that crosses 0 twice cannot hide between two points.
    y = _observed(1_000)
    limits = []
    peaks = []
    zeros = []
    crosses_once = True
    for alpha in _EXPONENTS:
        power = PowerLaw(alpha, 40_000)  # 300 s is beyond the other claims' n
        change = far - power.posterior_mean(far, _NOISE)
        # The farthest of the three alone: nearer ones still have terms of higher order.
        limits.append(abs(change[-1] * far[-1] / (alpha * _NOISE**2) - 1))
        change = y - power.posterior_mean(y, _NOISE)
        sign_changes = np.flatnonzero(np.diff(np.sign(change)))
        # The signs at both ends as well: one change alone would allow the opposite shape.
        crosses_once &= len(sign_changes) == 1 and bool(change[0] < 0 < change[-1])
        zeros.append(float(y[sign_changes[0]] / _NOISE) if len(sign_changes) else math.nan)
        peaks.append(f"{change.max() / _NOISE:.2f} at {y[np.argmax(change)] / _NOISE:.2f}")
    exponents = ", ".join(f"{alpha:g}" for alpha in _EXPONENTS)
    return Finding(
        holds=all(math.isnan(zero) for zero in zeros),
        corrected=crosses_once and largest(limits) < 1e-3,
        instances=(len(far) + len(y)) * len(_EXPONENTS),
        evidence={
            "correction": "f̃ - f' is about α σ²/f̃ for large f̃; towards small f̃ it grows to a "
            "peak, falls through 0 and is negative below, where f' > 0 > f̃",
            f"largest change and its f̃, in σ, exponent {exponents}": "; ".join(peaks),
            "no change at f̃, in σ": ", ".join(f"{zero:.2f}" for zero in zeros),
            "largest relative difference to α σ²/f̃ at 300 σ": largest(limits),
        },
    )


@claim(
    "power-sigma",
    "D 3.2 Eq. 10",
    "Power weighs a count i by exp(-(i - f̃ n)²/(2σ²)) i^(-s), with σ of Eq. 8.",
    Verdict.CORRECTED,
)
def power_sigma(instances: InstanceSet) -> Finding:
    """Take the printed sum with σ and with nσ, and compare both with the library.

    Eq. 8's σ belongs to frequencies; in counts the noise is nσ. As printed, only the nearest count
    has any weight. OUE, ε = 1, d = 64, n = 4,000, 200 estimates. Red if the printed sum comes
    within one count of the library, or the corrected one differs by POSTERIOR or more.
    """
    alpha = 1.5
    sigma = OUE(epsilon=1.0, d=64).sd(_N)
    # Off the whole numbers: the nearest count then differs from the estimate.
    y = np.linspace(1.3, 6 * _N * sigma, 200)
    with np.errstate(under="ignore"):  # as printed, nearly all weights are below 1e-308
        printed = _weights(y, sigma, alpha, _N) @ _COUNTS
    # The same sum with nothing changed but the unit of σ.
    corrected = _weights(y, _N * sigma, alpha, _N) @ _COUNTS
    library = PowerLaw(alpha, _N).posterior_mean(y, _N * sigma)
    return Finding(
        holds=largest(printed - library) < 1,
        corrected=relative_error(library, corrected) < POSTERIOR,
        instances=len(y),
        evidence={
            "σ of Eq. 8, a frequency (OUE, ε = 1, n = 4,000)": sigma,
            "with it, largest change of an estimate by Power, in counts": largest(printed - y),
            "with nσ, largest change of an estimate by Power, in counts": largest(corrected - y),
            "correction": "nσ in place of σ, the noise of the count f̃ n",
            "largest relative difference of the corrected sum to the library": relative_error(
                library, corrected
            ),
        },
    )


@claim(
    "power-density",
    "N IV-E Eq. 13",
    "With a power law as the density Pr[x] on (0, 1), Eq. 13's integrals give Power's estimate.",
    Verdict.CORRECTED,
)
def power_density(instances: InstanceSet) -> Finding:
    """Take Eq. 13's integrals from four lower ends, 10⁻⁶ to 10⁻²⁴, and the sum over counts.

    x^(-s) is not integrable at 0 for s ≥ 1: the estimate falls to 0 with the lower end. At f̃ =
    3σ, s = 1.5. Red if the last two lower ends agree (then the integrals converge), or if the sum
    over counts falls as low as the integral.
    """
    s = 1.5
    sigma = OLH(epsilon=1.0, d=1_024).sd(1_000_000)
    f = 3 * sigma
    lower_ends = (1e-6, 1e-12, 1e-18, 1e-24)
    integrals = {end: _integral_estimate(f, sigma, s, end) for end in lower_ends}
    # Beside the integral: the sum has a smallest count, and with it a limit.
    sums = {}
    for n in (10_000, 40_000):
        # At two n: a sum over counts must not depend on them as the integral does on its end.
        count = PowerLaw(s, n).posterior_mean(np.array([f * n]), sigma * n)[0]
        sums[n] = float(count) / n
    return Finding(
        # A convergent integral would no longer change with so small a lower end.
        holds=math.isclose(integrals[1e-24], integrals[1e-18], rel_tol=1e-3),
        corrected=integrals[1e-24] < 1e-6 < min(sums.values()),
        instances=len(lower_ends),
        evidence={
            **{
                f"Eq. 13 in σ for f̃ = 3σ, s = 1.5, integrals from {end:g}": estimate / sigma
                for end, estimate in integrals.items()
            },
            "correction": "the sum over counts 1 .. n (D Eq. 10, K Eq. 12); the integral would "
            "have to begin at 1/n",
            **{
                f"the sum over counts, n = {n:,}, in σ": estimate / sigma
                for n, estimate in sums.items()
            },
        },
    )


def _integral_estimate(f: float, sigma: float, s: float, lower_end: float) -> float:
    """Return Eq. 13 on (lower end, 1), as a sum over the logarithm of x."""
    # Evenly in log x, as the mass near 0 is spread over all orders of magnitude.
    x = np.exp(np.linspace(math.log(lower_end), 0.0, 200_001))
    weight = np.exp(-0.5 * ((f - x) / sigma) ** 2) * x ** (1 - s)  # dx = x d(log x)
    return float(np.sum(weight * x) / np.sum(weight))


@claim(
    "calibrate-optimal",
    "K Theorem 2, Lemma 3",
    "The posterior mean has the smallest expected squared error given the estimate, among all "
    "calibrators.",
    Verdict.PROVED,
    theorems=("posterior_mean_is_optimal", "posterior_mean_is_the_bayes_rule"),
)
def calibrate_optimal(instances: InstanceSet) -> Finding:
    """Shift the posterior mean, and compare its error with five rivals on simulated counts.

    The risk is summed over counts term by term, for three exponents on a grid of 100 estimates: a
    shift by δ must raise it by exactly δ². Red if a shift does not raise the risk, if the increase
    is not δ² to 1e-5, if the library's mean differs from the sum by POSTERIOR or more, or if a
    rival is not worse by more than CONFIDENCE standard errors.
    """
    # Fewer than elsewhere, since every rival shift sums the posterior of each.
    y = _observed(100)
    mean_errors = []
    increases = []
    increase_errors = []
    # Far below, near and far above the spread of the posterior.
    shifts = (-30.0, -1.0, -0.01, 0.01, 1.0, 30.0)
    for alpha in _EXPONENTS:
        weights = _weights(y, _NOISE, alpha, _N)
        best = _power(y, alpha)
        mean_errors.append(relative_error(best, weights @ _COUNTS))
        risk = _risk(weights, best)
        for shift in shifts:
            increase = _risk(weights, best + shift) - risk
            increases.append(smallest(increase))
            # Relative to the risk, whose rounding the difference of two risks carries.
            increase_errors.append(largest((increase - shift**2) / (1 + risk)))
    draws = 20_000 if instances.quick else 60_000
    ratios, margins = _rivals(instances.rng(), draws)
    return Finding(
        holds=(
            smallest(increases) > 0
            and largest(mean_errors) < POSTERIOR
            and largest(increase_errors) < 1e-5
            and smallest(margins) > CONFIDENCE
        ),
        instances=len(_EXPONENTS) * len(y) * len(shifts) + draws,
        evidence={
            "largest error of E(f'-f)² - min = (f' - E f)², relative": largest(increase_errors),
            "smallest increase of the risk by a shift": smallest(increases),
            "largest relative difference of the library's mean to the sum over counts": largest(
                mean_errors
            ),
            **{
                f"mean squared error over the posterior mean's: {rival}": ratio
                for rival, ratio in ratios.items()
            },
            "smallest margin over a rival, in standard errors of the paired difference": smallest(
                margins
            ),
            "simulated": f"{draws:,} counts from k^-2 with Gaussian noise of {_RIVAL_NOISE:g}",
        },
    )


_RIVAL_NOISE = 20.0  # in counts: small enough that the rivals are not all alike


def _rivals(rng: np.random.Generator, draws: int) -> tuple[dict[str, float], list[float]]:
    """Return by which factor each rival's mean squared error is larger, and by what margin.

    The margins are in standard errors of the paired difference.
    """
    noise = _RIVAL_NOISE
    powers = _COUNTS**-2.0
    law = powers / np.sum(powers)
    # From the prior itself: under it the posterior mean must be the best.
    truth = rng.choice(_COUNTS, size=draws, p=law)
    estimate = truth + noise * rng.standard_normal(draws)
    # Fitted to the truth itself, which no method can do.
    slope = np.cov(truth, estimate)[0, 1] / np.var(estimate)
    rivals = {
        "the estimate itself": estimate,
        "Base-Pos": np.maximum(estimate, 0.0),
        "Base-Cut at 3σ": np.where(estimate >= 3 * noise, estimate, 0.0),
        "the best straight line": truth.mean() + slope * (estimate - estimate.mean()),
        "the power law with exponent 3": PowerLaw(3.0, _N).posterior_mean(estimate, noise),
    }
    errors = (PowerLaw(2.0, _N).posterior_mean(estimate, noise) - truth) ** 2
    ratios = {}
    margins = []
    for name, rival in rivals.items():
        rival_errors = (rival - truth) ** 2
        ratios[name] = float(rival_errors.mean() / errors.mean())
        # Paired by draw, because both errors share the noise of it.
        difference = rival_errors - errors
        # A rival that equals the posterior mean has no spread, and a margin of 0.
        spread = max(difference.std(), 1e-300)
        margins.append(float(difference.mean() * math.sqrt(draws) / spread))
    return ratios, margins


def _risk(weights: Array, point: Array) -> Array:
    """Return E[(k - point)² | y] term by term."""
    k = np.arange(1, weights.shape[1] + 1)
    return np.asarray(np.einsum("yk,yk->y", weights, (k - point[:, None]) ** 2))


@claim(
    "calibrate-moments",
    "K III-C Eqs. 17, 18",
    "Mean and variance of the estimated counts over the items are E f and Var f + n q(1-q)/(p-q)².",
    Verdict.HOLDS,
)
def calibrate_moments(instances: InstanceSet) -> Finding:
    """Simulate Zipf(1.5) through OUE, and compare both moments over the items with the formulas.

    Exactly, the noise adds n(a + b/d)(1 - 1/d): Eq. 18 is right up to the factor (1 + κ/d)(1 -
    1/d). Red if a simulated moment is SIGMAS standard deviations or more from Eq. 17 or from the
    exact form of Eq. 18, or if Eq. 18 differs from that form by 1 % or more (d = 500, n = 50,000).
    """
    # Large against d, so that the variance over the items is not all noise.
    n = 50_000
    d = 500
    trials = 200 if instances.quick else 2_000
    oracle = OUE(epsilon=1.0, d=d)
    users = apportion(np.arange(1, d + 1) ** -1.5, n)
    raw = oracle.estimate(oracle.simulate_counts(users, instances.rng(), trials=trials), n)
    counts = n * raw.frequencies
    # Per collection, so that collections are the independent draws.
    means = counts.mean(axis=1)
    variances = counts.var(axis=1)
    printed = users.var() + n * oracle.a
    # Over d items the variance about their own mean loses a d-th of the noise: the factor 1 - 1/d.
    exact = users.var() + n * (oracle.a + oracle.b / d) * (1 - 1 / d)
    mean_score = abs(means.mean() - users.mean()) / means.std() * math.sqrt(trials)
    variance_score = abs(variances.mean() - exact) / variances.std() * math.sqrt(trials)
    departure = relative_error(exact, printed)
    return Finding(
        holds=mean_score < SIGMAS and variance_score < SIGMAS and departure < 0.01,
        instances=trials,
        evidence={
            "Eq. 18 over the exact expectation, relative difference": departure,
            "simulated mean against Eq. 17, in standard deviations": float(mean_score),
            "simulated variance against the exact one, in standard deviations": float(
                variance_score
            ),
            "exact": "Eq. 18 with n(a + b/d)(1 - 1/d) for the noise: close for large d",
            "data": f"Zipf(1.5), d = {d}, n = {n:,}, OUE, ε = 1, {trials} draws",
        },
    )


@claim(
    "calibrate-lowers",
    "K IV-B",
    "Under a power law Calibrate tends to reduce the frequencies that the oracle estimates as "
    "high.",
    Verdict.HOLDS,
)
def calibrate_lowers(instances: InstanceSet) -> Finding:
    """Evaluate the change at 500 estimates from 3 to 50 standard deviations, for three exponents.

    Red if one of them is not reduced.
    """
    y = np.linspace(3 * _NOISE, 50 * _NOISE, 500)
    # From 3σ on, since smaller estimates may be raised (power-shrinkage).
    reductions = {alpha: smallest(y - _power(y, alpha)) for alpha in _EXPONENTS}
    return Finding(
        holds=smallest(list(reductions.values())) > 0,
        instances=len(y) * len(_EXPONENTS),
        evidence={
            f"smallest reduction from 3σ to 50σ, in σ, exponent {alpha:g}": reduction / _NOISE
            for alpha, reduction in reductions.items()
        },
    )


@claim(
    "power-ns-optimal",
    "N IV-E, derived here",
    "PowerNS minimises the expected squared error E‖f - f'‖² over the distributions, not over all "
    "vectors.",
    Verdict.PROVED,
    theorems=("norm_sub_of_the_posterior_mean_is_optimal", "posterior_mean_is_optimal"),
)
def power_ns_optimal(instances: InstanceSet) -> Finding:
    """Certify PowerNS as the projection of Power's answer, and compare its risk with 22 rivals.

    E‖f - f'‖² = ‖E f - f'‖² + Σ Var f_v given the estimate, so that the projection of E f
    minimises it over the distributions. On Zipf(1.5) through OUE, d = 32. Red if PowerNS is not
    Norm-Sub of Power to IDENTITY, if solvers disagree, if another distribution has a smaller risk,
    or if the identity is missed by FORMULA or more in the posterior summed count by count.
    """
    # One generator for reports and rivals, so that nothing depends on how many there are.
    rng = instances.rng()
    n = 3_000
    d = 32
    trials = 4 if instances.quick else 60
    oracle = OUE(epsilon=1.0, d=d)
    users = apportion(np.arange(1, d + 1) ** -1.5, n)
    raw = oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdpoptWarning)  # a draw whose mean count is below 1
        means = postprocess(raw, "power").frequencies
        answers = postprocess(raw, "power-ns").frequencies
    difference = largest(closed_form.norm_sub(means) - answers)
    power_answers = Instance("Power's answers", "random", FrequencyEstimate(means, n, oracle))
    agreement = compare_with_solvers(
        CLS,
        lambda e: closed_form.norm_sub(e.frequencies),
        [power_answers],
        solvers=("CLARABEL", "OSQP"),
    )
    # The first two are what a user would take instead.
    rivals = [closed_form.norm_sub(raw.frequencies), closed_form.norm_mul(means)]
    # Near PowerNS, where the risk differs least.
    for _ in range(20):
        rivals.append(0.999 * answers + 0.001 * rng.dirichlet(np.ones(d), size=trials))
    excesses, identity_errors = _power_ns_risks(raw, means, answers, rivals)
    return Finding(
        holds=(
            agreement.holds
            and smallest(excesses) > 0
            and largest(identity_errors) < FORMULA
            and difference < IDENTITY
        ),
        instances=agreement.vectors,
        evidence={
            "largest error of E‖f-f'‖² = ‖E f - f'‖² + const, by enumeration of the posterior, "
            "relative": largest(identity_errors),
            "smallest relative excess over PowerNS of 22 other distributions per vector": smallest(
                excesses
            ),
            **agreement.evidence,
        },
        agreement=agreement,
    )


def _power_ns_risks(
    raw: FrequencyEstimate, means: Array, answers: Array, rivals: list[Array]
) -> tuple[list[float], list[float]]:
    """Return the rivals' excess risk over PowerNS, and the errors of the identity, both relative.

    For twenty draws at most: the posterior has n probabilities for each of d values.
    """
    n = raw.noise.require_n()
    excesses = []
    identity_errors = []
    for trial in range(min(len(answers), 20)):
        counts = n * raw.frequencies[trial]
        # The prior that ``power`` fits to this very vector, by the mean count (K III-C).
        prior = PowerLaw.fit_mean(float(counts.sum()) / raw.d, n)
        weights = _weights(counts, n * float(raw.sigma), prior.alpha, n)
        risk = _expected_error(weights, answers[trial])
        lowest_risk = _expected_error(weights, means[trial])
        # The one part of the risk that an answer can change.
        distance = float(np.sum((answers[trial] - means[trial]) ** 2))
        # The posterior variance is common to all answers: what differs is the distance to the mean.
        identity_errors.append((risk - lowest_risk - distance) / risk)
        excesses += [_expected_error(weights, rival[trial]) / risk - 1 for rival in rivals]
    return excesses, identity_errors


def _expected_error(weights: Array, f: Array) -> float:
    """Return E‖f - f'‖² over the posterior, count by count."""
    n = weights.shape[1]
    return float(np.sum(weights * (np.arange(1, n + 1) / n - f[:, None]) ** 2))
