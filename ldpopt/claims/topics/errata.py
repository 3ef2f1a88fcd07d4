"""Printed formulas that are wrong, with what is right."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet, small_reports
from ldpopt.claims.topics.equivalences import CLS, WEIGHTED_MLE
from ldpopt.oracles import BLH, OLH, OUE
from ldpopt.solve.certificate import certify

TITLE = "Printed formulas that are wrong, with what is right"
ORDER = 120

_EPSILONS = (0.1, 0.4, 0.5, 0.69, 1.0, 2.0, 4.0)


@claim(
    "olh-p",
    "N III-B, D 2.4",
    "In OLH the own value is supported with probability p = (e^ε - 1)/(e^ε + g - 1).",
    Verdict.CORRECTED,
)
def _olh_p(instances: InstanceSet) -> Finding:
    n, rng = 200_000, instances.rng()
    oracle = OLH(epsilon=1.0, d=16)
    counts = oracle.support_counts(oracle.perturb(np.full(n, 3), rng=rng))
    share = float(counts[3]) / n
    e = math.exp(oracle.epsilon)
    printed, right = (e - 1) / (e + oracle.g - 1), e / (e + oracle.g - 1)
    sd = math.sqrt(right * (1 - right) / n)
    # The bucket goes through randomised response: the other g-1 buckets share 1-p, and p : (1-p)/(g-1) must be e^ε.
    ratio = printed / ((1 - printed) / (oracle.g - 1))
    return Finding(
        holds=abs(share - printed) < 5 * sd and math.isclose(ratio, e, rel_tol=1e-9),
        corrected=abs(share - right) < 5 * sd
        and math.isclose(right / ((1 - right) / (oracle.g - 1)), e, rel_tol=1e-9),
        instances=n,
        evidence={
            "share of 200,000 reports that support the own value": share,
            "printed p": printed,
            "p = e^ε/(e^ε + g - 1)": right,
            "standard deviation of the share": sd,
        },
    )


@claim(
    "oue-estimator",
    "D 2.3",
    "OUE's unbiased estimator is c_v/(1/2 - 1/(e^ε + 1)).",
    Verdict.CORRECTED,
)
def _oue_estimator(instances: InstanceSet) -> Finding:
    n, d = 200_000, 16
    rng = instances.rng()
    oracle = OUE(epsilon=1.0, d=d)
    users = rng.multinomial(n, rng.dirichlet(np.ones(d)))
    counts = oracle.support_counts(oracle.perturb(np.repeat(np.arange(d), users), rng=rng))
    truth, sd = users / n, np.sqrt(oracle.variance(n, users / n))
    printed = np.max(np.abs(counts / (oracle.p - oracle.q) - truth) / sd)
    right = np.max(np.abs(oracle.estimate(counts, n).frequencies - truth) / sd)
    return Finding(
        holds=bool(printed < 5),
        corrected=bool(right < 5),
        instances=n,
        evidence={
            "largest error of the printed estimator on 200,000 reports, in standard deviations": float(
                printed
            ),
            "largest error of (c_v/n - q)/(p - q), in standard deviations": float(right),
        },
    )


@claim(
    "oue-flip",
    "N III-C",
    "OUE flips a 0 bit with probability 1/e^ε and has the same p and q as OLH.",
    Verdict.CORRECTED,
)
def _oue_flip(instances: InstanceSet) -> Finding:
    def loss(p: float, q: float) -> float:
        """Return the privacy loss of two unary encodings, which differ in two bits."""
        ratio = p * (1 - q) / (q * (1 - p))
        return abs(math.log(ratio))

    printed = {epsilon: loss(0.5, math.exp(-epsilon)) for epsilon in _EPSILONS}
    right = {epsilon: loss(0.5, 1 / (math.exp(epsilon) + 1)) for epsilon in _EPSILONS}
    # OLH has q = 1/g with g = e^ε + 1, which is a whole number at ε = ln 2, ln 3, …
    pairs = [(OUE(epsilon=math.log(k), d=8), OLH(epsilon=math.log(k), d=8)) for k in (2, 3, 7)]
    coded = all(math.isclose(oue.p, olh.p) and math.isclose(oue.q, olh.q) for oue, olh in pairs)
    return Finding(
        holds=all(math.isclose(printed[e], e, rel_tol=1e-9) for e in _EPSILONS),
        corrected=coded and all(math.isclose(right[e], e, rel_tol=1e-9) for e in _EPSILONS),
        instances=len(_EPSILONS),
        evidence={
            **{
                f"privacy loss if 0 flips with 1/e^ε, at ε = {e:g}": printed[e]
                for e in (0.1, 0.4, 1.0, 4.0)
            },
            "so at small ε": "1/e^ε > 1/2: a 0 flips more often than a 1, and the loss exceeds the budget",
            "largest |loss - ε| if 0 flips with 1/(e^ε + 1)": max(
                abs(right[e] - e) for e in _EPSILONS
            ),
            "p and q of OUE and OLH, at ε = ln 2, ln 3, ln 7": "equal" if coded else "different",
        },
    )


@claim(
    "olh-random-projection",
    "D 2.4",
    "For ε < ln 2 OLH is random matrix projection, local hashing with g = 2 (with D's g, the floor of e^ε + 1).",
    Verdict.HOLDS,
)
def _olh_projection(instances: InstanceSet) -> Finding:
    epsilons = np.linspace(0.01, math.log(2) - 1e-6, 20 if instances.quick else 200)
    floor = [OLH(epsilon=e, d=8, rounding="floor") for e in epsilons]
    nearest = [OLH(epsilon=e, d=8).g for e in epsilons]
    same = all(o.g == 2 and o.p == BLH(epsilon=o.epsilon, d=8).p and o.q == 0.5 for o in floor)
    wider = [float(e) for e, g in zip(epsilons, nearest, strict=True) if g > 2]
    return Finding(
        same and min(wider) > math.log(1.5),
        len(epsilons),
        {
            "smallest ε of the grid at which N's nearest integer gives g = 3, not 2": min(wider),
            "from where it does in theory, ln 1.5": math.log(1.5),
        },
    )


@claim(
    "norm-sub-words",
    "N IV-B",
    "Norm-Sub is: convert negative values to 0, then add δ to each remaining value so that the sum is 1.",
    Verdict.CORRECTED,
)
def _norm_sub_words(instances: InstanceSet) -> Finding:
    oracle, users = small_reports()
    draws = 300
    estimate = oracle.estimate(
        oracle.simulate_counts(users, instances.rng(), trials=draws), int(users.sum())
    )
    words, formula = _zero_first(estimate.frequencies), closed_form.norm_sub(estimate.frequencies)
    example = np.array([[0.5, 0.2, -0.01]])
    gap_words = certify(CLS, example, _zero_first(example)).gap.max()
    gap_formula = certify(CLS, example, closed_form.norm_sub(example)).gap.max()
    wrong = int(np.count_nonzero(np.max(np.abs(words - formula), axis=-1) > 1e-9))
    certified = certify(CLS, estimate, formula).is_optimal(1e-9)
    return Finding(
        holds=wrong == 0 and gap_words < 1e-9,
        corrected=certified and gap_formula < 1e-9,
        instances=draws + 1,
        evidence={
            "[.5, .2, -.01] by the words": "["
            + ", ".join(f"{x:.3f}" for x in _zero_first(example)[0])
            + "]",
            "[.5, .2, -.01] by max(f̃ + δ, 0)": "["
            + ", ".join(f"{x:.3f}" for x in closed_form.norm_sub(example)[0])
            + "]",
            "gap of the words' answer in constrained least squares": float(gap_words),
            f"wrong on real reports, of {draws} (OUE, ε = 1, Zipf(3), d = 8, n = 10,000)": wrong,
        },
    )


@claim(
    "mle-apx-words",
    "N Table I, D Table 1",
    "MLE-Apx is: convert negative estimates to 0, then add δ to the positive ones.",
    Verdict.CORRECTED,
)
def _mle_apx_words(instances: InstanceSet) -> Finding:
    oracle, users = small_reports()
    draws = 300
    estimate = oracle.estimate(
        oracle.simulate_counts(users, instances.rng(), trials=draws), int(users.sum())
    )
    words, formula = (
        _zero_first(estimate.frequencies),
        closed_form.mle_apx(estimate.frequencies, oracle.kappa),
    )
    wrong = int(np.count_nonzero(np.max(np.abs(words - formula), axis=-1) > 1e-9))
    gap = certify(WEIGHTED_MLE, estimate, words).gap
    return Finding(
        holds=wrong == 0,
        corrected=certify(WEIGHTED_MLE, estimate, formula).is_optimal(1e-9),
        instances=draws,
        evidence={
            f"wrong on real reports, of {draws} (OUE, ε = 1, Zipf(3), d = 8, n = 10,000)": wrong,
            "largest difference in frequency": float(np.max(np.abs(words - formula))),
            "largest gap of the words' answers in the weighted MLE problem": float(np.max(gap)),
            "correction": "max(f̃ + t, 0)/(1 - κt): values are scaled too, and negative ones may be lifted above 0",
        },
    )


def _zero_first(f: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what N IV-B's words say: values zeroed at first are never raised again."""
    active = f > 0
    while True:
        size = np.maximum(np.count_nonzero(active, axis=-1, keepdims=True), 1)
        shifted = f + (1 - np.sum(f, axis=-1, keepdims=True, where=active)) / size
        negative = active & (shifted < 0)
        if not negative.any():
            return np.where(active, shifted, 0.0)
        active &= ~negative


@claim(
    "norm-delta",
    "D 3.2",
    "Norm's δ is 1/d plus or minus the average of d noises.",
    Verdict.CORRECTED,
)
def _norm_delta(instances: InstanceSet) -> Finding:
    """Use that true frequencies sum to 1: δ = (1 - Σf̃)/d = -(average noise), and the 1/d is not there."""
    rng = instances.rng()
    n, d, trials = 10_000, 16, 200
    oracle = OUE(epsilon=1.0, d=d)
    users = rng.multinomial(n, rng.dirichlet(np.ones(d)))
    raw = oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), n).frequencies
    delta = (closed_form.norm(raw) - raw)[:, 0]
    average = np.mean(raw - users / n, axis=-1)
    printed = min(float(np.max(np.abs(delta - (1 / d + sign * average)))) for sign in (1, -1))
    right = float(np.max(np.abs(delta + average)))
    # The formula for f' printed below it is consistent.
    formula = 1 / d + ((d - 1) * raw - (raw.sum(axis=-1, keepdims=True) - raw)) / d
    return Finding(
        holds=printed < 1e-12,
        corrected=right < 1e-12 and float(np.max(np.abs(formula - closed_form.norm(raw)))) < 1e-12,
        instances=trials,
        evidence={
            "largest difference of δ to 1/d ± the average noise (d = 16)": printed,
            "to minus the average noise": right,
            "mean of δ": float(delta.mean()),
        },
    )


@claim(
    "kkt-multiplier",
    "D Appendix A; N Appendix B Eq. 15",
    "At the solution of the weighted MLE (p-q)(1-p-q) x² + 2(p-q) x = μ = 0 for every positive value.",
    Verdict.CORRECTED,
)
def _kkt_multiplier(instances: InstanceSet) -> Finding:
    """Evaluate both papers' conditions at the solution: D's x is N's with the other sign, and μ is not 0."""
    spread, largest, difference, vectors = 0.0, 0.0, 0.0, 0
    for instance in instances.crowd:
        oracle = instance.estimate.noise.require_protocol()
        p, q, raw = oracle.p, oracle.q, instance.estimate.frequencies
        f = closed_form.mle_apx(raw, oracle.kappa)
        x = (p - q) * (raw - f) / (q * (1 - q) + (p - q) * (1 - p - q) * f)
        left = (p - q) * (1 - p - q) * x**2 + 2 * (p - q) * x
        right = (p - q) * (1 - p - q) * (-x) ** 2 - 2 * (p - q) * (
            -x
        )  # N's condition for its own x
        active = f > 0
        high = np.max(np.where(active, left, -np.inf), axis=-1)
        low = np.min(np.where(active, left, np.inf), axis=-1)
        spread = max(spread, float(np.max((high - low) / (1 + np.abs(high)))))
        largest = max(largest, float(np.max(np.abs(high))))
        difference = max(difference, float(np.max(np.abs(left - right))))
        vectors += instance.vectors
    return Finding(
        holds=largest < 1e-9,
        corrected=max(spread, difference) < 1e-9,
        instances=vectors,
        evidence={
            "largest |μ|": largest,
            "largest difference of μ between the positive values of a vector, relative": spread,
            "correction": "the left side equals μ, the same for all positive values; N's Eq. 15 says so",
        },
    )
