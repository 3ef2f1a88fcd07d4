"""Claims about bias: the four lemmas, what each method does to rare and frequent values, false positives."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.reference.channels import count_law, marginal_law
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import postprocess
from ldpopt.oracles import GRR, OLH, ORACLES, OUE
from ldpopt.oracles.base import FrequencyOracle

TITLE = "Bias: the four lemmas, rare and frequent values, false positives"
ORDER = 80

Array = NDArray[np.float64]

_ROUNDING = 1e-12  # of sums over all count vectors
_SIGMAS = 5.0  # of simulated means, in their standard deviations
_NOT_NORMALISED = ("base-pos", "base-cut", "norm-cut")
_USERS = np.array([7, 5, 0])  # of the enumerated populations; the last value is nobody's


def _expected(oracle: FrequencyOracle, method: str, users: tuple[int, ...] = (7, 5, 0)) -> Array:
    """Return E f' of a method, exactly: every count vector with its probability."""
    counts, weights = count_law(oracle, np.array(users))
    estimate = oracle.estimate(counts, sum(users))
    return np.asarray(weights @ postprocess(estimate, method).frequencies / weights.sum())


@cache
def _zipf_draws(instances: InstanceSet) -> tuple[Array, FrequencyEstimate]:
    """Return the true frequencies and raw estimates of N's setting: OLH, ε = 1, Zipf(1.5), d = 1,024, n = 10⁶."""
    data = datasets.load("zipf")
    oracle = OLH(epsilon=1.0, d=data.d)
    trials = 60 if instances.quick else 400
    return data.frequencies, oracle.estimate(
        oracle.simulate_counts(data.counts, instances.rng(), trials=trials), data.n
    )


@claim(
    "lemma-1",
    "N Lemma 1; D 3.1",
    "Base-Pos introduces positive bias to all values.",
    Verdict.HOLDS,
)
def _lemma_1(instances: InstanceSet) -> Finding:
    """E max(f̃, 0) - f = E max(-f̃, 0): a sum of positive terms over the counts below nq, exact to the last digit."""
    n, biases = 400, {}
    for name, make in ORACLES.items():
        oracle = make(1.0, 64)
        below = np.maximum(oracle.q - np.arange(n + 1) / n, 0.0) / (oracle.p - oracle.q)
        for own in (0, 1, 20, 100, 400):
            biases[name, own] = float(marginal_law(oracle, n, own) @ below)
    sd = {name: make(1.0, 64).sd(n) for name, make in ORACLES.items()}
    half = max(
        abs(biases[name, 0] / (sd[name] / math.sqrt(2 * math.pi)) - 1)
        for name in ("oue", "olh", "sue", "hr")
    )
    return Finding(
        min(biases.values()) > 0,
        len(biases),
        {
            "smallest bias: of a value that all 400 users have": min(biases.values()),
            "bias of a value nobody has, OUE, in σ": biases["oue", 0] / sd["oue"],
            "it is σ/sqrt(2π) for Gaussian noise; largest relative difference, n = 400": half,
            "bias of a value that a quarter of the users have, OUE, in σ": biases["oue", 100]
            / sd["oue"],
            "exact": "over all counts 0 .. 400, all oracles, ε = 1, d = 64",
        },
    )


@claim(
    "lemma-2",
    "N Lemma 2",
    "A method whose answers add up to 1 has biases that sum to 0.",
    Verdict.HOLDS,
)
def _lemma_2(instances: InstanceSet) -> Finding:
    f = _USERS / _USERS.sum()
    worst, checked = 0.0, 0
    for make in ORACLES.values():
        for method in ("norm", "norm-sub", "mle-apx"):
            worst = max(worst, abs(float(np.sum(_expected(make(1.0, 3), method) - f))))
            checked += 1
    for method in (
        "norm-mul",
        "power-ns",
    ):  # others' counts may leave no positive value, or a mean below 1
        worst = max(worst, abs(float(np.sum(_expected(GRR(epsilon=1.0, d=3), method) - f))))
        checked += 1
    _, raw = _zipf_draws(instances)
    n = raw.noise.require_n()
    others = {
        m: n * float(np.mean(postprocess(raw, m).frequencies.sum(axis=-1) - 1))
        for m in _NOT_NORMALISED
    }
    return Finding(
        worst < _ROUNDING and min(map(abs, others.values())) > 1,
        checked,
        {
            "largest |sum of biases|: Norm, Norm-Sub, MLE-Apx on all oracles, Norm-Mul and PowerNS on GRR": worst,
            "exact": "over all count vectors of 12 users, d = 3, ε = 1",
            **{
                f"{m}, which does not add up to 1: sum of biases on Zipf, in counts": b
                for m, b in others.items()
            },
        },
    )


@claim(
    "lemma-3",
    "N Lemma 3; D 3.2",
    "Norm is unbiased for each value.",
    Verdict.HOLDS,
)
def _lemma_3(instances: InstanceSet) -> Finding:
    f = _USERS / _USERS.sum()
    worst = max(
        float(np.max(np.abs(_expected(make(1.0, 3), "norm") - f))) for make in ORACLES.values()
    )
    truth, raw = _zipf_draws(instances)
    mean = postprocess(raw, "norm").frequencies.mean(axis=0)
    sd = np.sqrt(raw.noise.variance(truth) / len(raw.frequencies))
    score = float(np.max(np.abs(mean - truth) / sd))
    return Finding(
        worst < _ROUNDING and score < _SIGMAS,
        len(ORACLES) * 3 + len(truth),
        {
            "largest |E f'_v - f_v| over all count vectors of 12 users, d = 3, all oracles": worst,
            f"simulated, OLH on Zipf, {len(raw.frequencies)} draws: largest error in standard deviations": score,
            "bound (1,024 values: false alarm below 1 in 1,000)": _SIGMAS,
        },
    )


@claim(
    "lemma-4",
    "N Lemma 4; D 3.3",
    "Any method whose answers are non-negative and add up to 1 has positive bias for values sufficiently close to 0.",
    Verdict.CORRECTED,
)
def _lemma_4(instances: InstanceSet) -> Finding:
    """E f'_v = 0 for a value with f_v = 0 unless its answer can be positive: the lemma needs that."""
    rare = [
        float(_expected(make(1.0, 3), method)[-1])
        for make in ORACLES.values()
        for method in ("norm-sub", "mle-apx")
    ]
    rare += [
        float(_expected(GRR(epsilon=1.0, d=3), method)[-1]) for method in ("norm-mul", "power-ns")
    ]
    n = 12
    bias = np.array(
        [
            _expected(OUE(epsilon=1.0, d=3), "norm-sub", (n - k, 0, k))[-1] - k / n
            for k in range(n // 2 + 1)
        ]
    )
    sign = "".join("+" if b > 1e-9 else "-" if b < -1e-9 else "0" for b in bias)
    counts, weights = count_law(OUE(epsilon=1.0, d=3), _USERS)
    constant = np.broadcast_to(
        [1.0, 0.0, 0.0], counts.shape
    )  # non-negative, sums to 1, and never lets the others up
    return Finding(
        holds=min(rare) > 0 and float((weights @ constant)[-1]) > 0,
        corrected=min(rare) > 0 and sign.startswith("+"),
        instances=len(rare) + len(bias),
        evidence={
            "smallest bias of a value nobody has: Norm-Sub, MLE-Apx on all oracles, Norm-Mul, PowerNS on GRR": min(
                rare
            ),
            "sign of Norm-Sub's bias for a value of 0, 1, .. 6 of 12 users (OUE, d = 3)": sign,
            "counter-example": "the answer (1, 0, 0) whatever the reports has no bias at the values that nobody has",
            "correction": "for every method under which the value's answer is positive with positive probability, as it is "
            "under all of the papers' methods; then by continuity also for frequencies near 0",
        },
    )


@claim(
    "norm-mul-bias",
    "N IV-B",
    "Norm-Mul biases rare values upwards and frequent ones downwards, the more the higher their frequency; typically γ <= 1.",
    Verdict.HOLDS,
)
def _norm_mul_bias(instances: InstanceSet) -> Finding:
    truth, raw = _zipf_draws(instances)
    result = postprocess(raw, "norm-mul").frequencies
    bias, rare = _bias(result, truth)
    gamma = result.max(axis=-1) / raw.frequencies.max(axis=-1)
    inside = float(np.mean((gamma >= 0) & (gamma <= 1)))
    return Finding(
        bool(np.all(np.diff(bias[:8]) > 0)) and bias[0] < 0 < rare and inside == 1,
        len(result),
        {
            "bias of the eight most frequent values": " ".join(f"{b:.4f}" for b in bias[:8]),
            "mean bias of the rarer half of the values, in standard deviations of that mean": rare,
            "share of draws with γ in [0, 1]": inside,
            "mean γ": float(gamma.mean()),
            "data": "OLH, ε = 1, Zipf(1.5), d = 1,024, n = 1,000,000",
        },
    )


@claim(
    "norm-sub-bias",
    "N IV-B",
    "Norm-Sub biases rare values upwards and frequent ones downwards, more evenly than Norm-Mul.",
    Verdict.HOLDS,
)
def _norm_sub_bias(instances: InstanceSet) -> Finding:
    truth, raw = _zipf_draws(instances)
    sub, rare = _bias(postprocess(raw, "norm-sub").frequencies, truth)
    mul, _ = _bias(postprocess(raw, "norm-mul").frequencies, truth)
    return Finding(
        bool(np.all(sub[:8] < 0)) and rare > _SIGMAS and float(np.std(sub)) < float(np.std(mul)),
        len(raw.frequencies),
        {
            "bias of the eight most frequent values": " ".join(f"{b:.4f}" for b in sub[:8]),
            "mean bias of the rarer half of the values, in standard deviations of that mean": rare,
            "standard deviation of the biases over the values, Norm-Sub": float(np.std(sub)),
            "Norm-Mul": float(np.std(mul)),
        },
    )


def _bias(result: Array, truth: Array) -> tuple[Array, float]:
    """Return the mean error of every value, and that of the rarer half in standard deviations; values by rank."""
    error = result - truth
    rare = error[:, len(truth) // 2 :].mean(axis=1)
    return error.mean(axis=0), float(rare.mean() / rare.std(ddof=1) * math.sqrt(len(rare)))


@claim(
    "base-cut-bias",
    "N IV-A, V-B; D 3.1",
    "Base-Cut has two biases, up for rare values and down for values near T, which cancel somewhere between; values well above T "
    "are estimated without bias, up to an exponentially small part.",
    Verdict.HOLDS,
)
def _base_cut_bias(instances: InstanceSet) -> Finding:
    n, d = 4_000, 1_024
    oracle = OUE(epsilon=1.0, d=d)
    sigma = oracle.sd(n)
    threshold = closed_form.significance_threshold(d, sigma)
    estimates = (np.arange(n + 1) / n - oracle.q) / (oracle.p - oracle.q)
    lost = np.where(estimates < threshold, estimates, 0.0)
    owners = [0, *range(4, round(n * (threshold + 9 * sigma)), 12)]
    bias = np.array([-float(marginal_law(oracle, n, own) @ lost) for own in owners]) / sigma
    f = np.array(owners) / n
    turns = np.flatnonzero(np.diff(np.sign(bias)))
    above = {k: float(np.abs(bias[f >= threshold + k * sigma]).max()) for k in (2, 4, 6)}
    return Finding(
        bias[0] > 0 > bias[1] and len(turns) == 1 and float(bias.min()) < -1 and above[6] < 1e-6,
        len(bias),
        {
            "T, in σ": threshold / sigma,
            "bias of a value nobody has, in σ": float(bias[0]),
            "largest bias downwards, in σ": float(bias.min()),
            "at f, in σ": float(f[np.argmin(bias)] / sigma),
            "the two cancel at f, in σ, about": float(np.interp(0.0, -bias[:2], f[:2]) / sigma),
            **{f"largest |bias| from T + {k}σ on, in σ": value for k, value in above.items()},
            "exact": "over all counts, OUE, ε = 1, d = 1,024, n = 4,000",
        },
    )


def _tail(oracle: FrequencyOracle, n: int, alpha: float, own: int = 0) -> float:
    """Return the probability that a value of ``own`` users is estimated at or above T."""
    from scipy.stats import binom

    threshold = closed_form.significance_threshold(oracle.d, oracle.sd(n), alpha)
    needed = math.ceil(n * (oracle.q + (oracle.p - oracle.q) * threshold) - 1e-9)
    if own == 0:
        return float(binom.sf(needed - 1, n, oracle.q))
    return float(marginal_law(oracle, n, own)[needed:].sum())


@claim(
    "false-positives",
    "N IV-A, D 3.1",
    "A value that nobody has is estimated above T with probability at most α/d, so that α = 2 gives about 2 false positives.",
    Verdict.CORRECTED,
)
def _false_positives(instances: InstanceSet) -> Finding:
    settings = {
        "OLH, Zipf's d and n": (OLH(epsilon=1.0, d=1_024), 1_000_000),
        "OUE, Zipf's d and n": (OUE(epsilon=1.0, d=1_024), 1_000_000),
        "OLH, emoji's d and n": (OLH(epsilon=1.0, d=1_573), 884_427),
        "OUE, Kosarak's d and n": (OUE(epsilon=1.0, d=42_178), 990_002),
        "OUE, d = 1,024, n = 10,000": (OUE(epsilon=1.0, d=1_024), 10_000),
        "GRR, Zipf's d and n": (GRR(epsilon=1.0, d=1_024), 1_000_000),
        "GRR, Kosarak's d and n": (GRR(epsilon=1.0, d=42_178), 990_002),
    }
    expected = {name: oracle.d * _tail(oracle, n, 2.0) for name, (oracle, n) in settings.items()}
    usual = [
        value
        for name, value in expected.items()
        if not name.startswith("GRR") and "10,000" not in name
    ]
    oracle, n, trials = OLH(epsilon=1.0, d=1_024), 1_000_000, 200 if instances.quick else 1_000
    users = np.zeros(1_024, dtype=np.int64)
    users[0] = n
    raw = oracle.estimate(oracle.simulate_counts(users, instances.rng(), trials=trials), n)
    found = np.count_nonzero(postprocess(raw, "base-cut").frequencies[:, 1:], axis=-1).mean()
    theory = 1_023 * _tail(oracle, n, 2.0)
    score = abs(found - theory) / math.sqrt(theory / trials)
    return Finding(
        holds=max(expected.values()) <= 2,
        corrected=max(abs(value / 2 - 1) for value in usual) < 0.05 and score < _SIGMAS,
        instances=len(settings) + trials,
        evidence={
            **{
                f"expected number if nobody has any value: {name}": value
                for name, value in expected.items()
            },
            f"simulated, OLH, 1,023 empty values, {trials} draws: mean number": float(found),
            "its distance to the exact one in standard deviations": score,
            "correction": "about α for OUE and OLH with many users; binomial counts are skewed to the right where q < 1/2, which "
            "lifts the number above α, far above where nq is small, as with GRR on a large domain",
        },
    )


@claim(
    "false-positive-share",
    "N IV-A, D 3.1",
    "When an estimate is above T, the probability that its true frequency is 0 is at most α, by the union bound.",
    Verdict.CORRECTED,
)
def _false_positive_share(instances: InstanceSet) -> Finding:
    """Show that the union bound is about any of the empty values; the share among the ones seen depends on the others."""
    n, d, alpha = 1_000, 1_000, 0.05
    oracle = OUE(epsilon=1.0, d=d)
    empty, rare = _tail(oracle, n, alpha), _tail(oracle, n, alpha, own=2)
    share = empty / (empty + rare)  # half of the values are empty, half have two users each
    any_false = 1 - (1 - empty) ** (d // 2)
    return Finding(
        holds=share <= alpha,
        corrected=any_false <= alpha,
        instances=2,
        evidence={
            "example": "OUE, ε = 1, d = 1,000, n = 1,000: half of the values have two users each, half none; α = 0.05",
            "probability that a value seen above T is nobody's": share,
            "probability that any of the empty values is seen above T": any_false,
            "correction": "the union bound limits the probability of one false positive or more, here to α (d/2)/d; with α = 2 "
            "the printed bound says nothing",
        },
    )
