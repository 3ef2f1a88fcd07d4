"""Printed formulas that are wrong, with what is right."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet, small_reports
from ldpopt.claims.engine.measures import as_text, largest
from ldpopt.claims.engine.tolerances import FORMULA, GAP, IDENTITY, SIGMAS
from ldpopt.claims.topics.equivalences import CLS, WEIGHTED_MLE
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles import BLH, OLH, OUE
from ldpopt.solve.certificate import certify

TITLE = "Printed formulas that are wrong, with what is right"
ORDER = 120

Array = NDArray[np.float64]

_EPSILONS = (0.1, 0.4, 0.5, 0.69, 1.0, 2.0, 4.0)  # about ln 2, where 1/e^ε = 1/2, and on both sides
# So many that 5 standard deviations of a share, 0.5 %, are far below the difference of both p.
_REPORTS = 200_000
_DRAWS = 300  # of the small population on which the words go wrong in one of three draws


@claim(
    "olh-p",
    "N III-B, D 2.4",
    "In OLH a report supports the user's value with probability p = (e^ε - 1)/(e^ε + g - 1).",
    Verdict.CORRECTED,
)
def olh_p(instances: InstanceSet) -> Finding:
    """Run OLH's client 200,000 times on one value, and count the reports that support it.

    The bucket goes through randomised response: the other g - 1 buckets share 1 - p, and
    p : (1-p)/(g-1) must be e^ε. Red if the printed p fits both (then the statement holds), or if
    e^ε/(e^ε + g - 1) is SIGMAS standard deviations or more from the share, or misses the ratio.
    """
    # Any value will do: a hash treats all alike.
    value = 3
    oracle = OLH(epsilon=1.0, d=16)
    e = math.exp(oracle.epsilon)
    values = np.full(_REPORTS, value)
    counts = oracle.support_counts(oracle.perturb(values, rng=instances.rng()))
    share = float(counts[value]) / _REPORTS
    printed = (e - 1) / (e + oracle.g - 1)
    corrected = e / (e + oracle.g - 1)
    sd = math.sqrt(corrected * (1 - corrected) / _REPORTS)

    def fits(p: float) -> bool:
        # The privacy of randomised response on g buckets: its largest ratio of probabilities.
        ratio = p / ((1 - p) / (oracle.g - 1))
        return abs(share - p) < SIGMAS * sd and math.isclose(ratio, e, rel_tol=FORMULA)

    return Finding(
        holds=fits(printed),
        corrected=fits(corrected),
        instances=_REPORTS,
        evidence={
            "share of 200,000 reports that support the user's value": share,
            "printed p": printed,
            "p = e^ε/(e^ε + g - 1)": corrected,
            "standard deviation of the share": sd,
            "correction": "p = e^ε/(e^ε + g - 1)",
        },
    )


@claim(
    "oue-estimator",
    "D 2.3",
    "OUE's unbiased estimator is c_v/(1/2 - 1/(e^ε + 1)).",
    Verdict.CORRECTED,
)
def oue_estimator(instances: InstanceSet) -> Finding:
    """Run OUE's client for 200,000 users, and compare both estimators with the true frequencies.

    Red if the printed one is within SIGMAS standard deviations (then the statement holds), or if
    (c_v/n - q)/(p - q) is not.
    """
    d = 16
    rng = instances.rng()
    oracle = OUE(epsilon=1.0, d=d)
    # Random frequencies of order 1/16, so that a wrong factor shows in every value.
    users = rng.multinomial(_REPORTS, rng.dirichlet(np.ones(d)))
    # By the client, user by user: nothing of the simulation of counts is used.
    counts = oracle.support_counts(oracle.perturb(np.repeat(np.arange(d), users), rng=rng))
    truth = users / _REPORTS
    sd = np.sqrt(oracle.variance(_REPORTS, truth))
    printed = largest((counts / (oracle.p - oracle.q) - truth) / sd)
    corrected = largest((oracle.estimate(counts, _REPORTS).frequencies - truth) / sd)
    return Finding(
        holds=printed < SIGMAS,
        corrected=corrected < SIGMAS,
        instances=_REPORTS,
        evidence={
            "largest error of the printed estimator on 200,000 reports, in standard deviations": (
                printed
            ),
            "largest error of (c_v/n - q)/(p - q), in standard deviations": corrected,
            "correction": "(c_v/n - q)/(1/2 - q) with q = 1/(e^ε + 1)",
        },
    )


@claim(
    "support-set",
    "N III-B",
    "The support count of v is c_v = |{i : H(v) ∈ Y_i}|, Y_i the set of values that report i "
    "represents.",
    Verdict.CORRECTED,
)
def support_set(instances: InstanceSet) -> Finding:
    """Count 50,000 reports of OLH's client with the printed condition, and with v ∈ Y_i.

    H(v) is a bucket, and Y_i a set of values. Red if the estimates from the printed counts are
    within SIGMAS standard deviations of the truth (then the statement holds), or if those from
    v ∈ Y_i are not.
    """
    # Fewer than above: sets of values for all reports are a matrix of this many rows.
    n = 50_000
    d = 16
    oracle = OLH(epsilon=1.0, d=d)
    rng = instances.rng()
    users = rng.multinomial(n, rng.dirichlet(np.ones(d)))
    reports = oracle.perturb(np.repeat(np.arange(d), users), rng=rng)
    # supported[i, v]: whether v is in Y_i.
    supported = np.stack(
        [oracle.report_form.buckets(reports["seed"], np.full(n, v)) for v in range(d)]
    )
    buckets = supported.T
    in_sets = buckets == reports["bucket"][:, None]
    # The printed condition asks about the value whose number is the bucket of v.
    printed_counts = np.take_along_axis(in_sets, buckets, axis=1).sum(axis=0)
    truth = users / n
    sd = np.sqrt(oracle.variance(n, truth))

    def error(counts: NDArray[np.int64]) -> float:
        return largest(((counts / n - oracle.q) / (oracle.p - oracle.q) - truth) / sd)

    printed = error(printed_counts)
    corrected = error(in_sets.sum(axis=0))
    return Finding(
        holds=printed < SIGMAS,
        corrected=corrected < SIGMAS,
        instances=n,
        evidence={
            "largest error with H(v) ∈ Y_i, in standard deviations": printed,
            "largest error with v ∈ Y_i, in standard deviations": corrected,
            "correction": "v ∈ Y_i, that is H_i(v) = r_i",
        },
    )


def _unary_loss(p: float, q: float) -> float:
    """Return the privacy loss of unary encoding: two encodings differ in two bits."""
    return abs(math.log(p * (1 - q) / (q * (1 - p))))


def _are_budgets(losses: dict[float, float]) -> bool:
    """Return whether every privacy loss is the ε that it is stated for."""
    return all(math.isclose(loss, e, rel_tol=FORMULA) for e, loss in losses.items())


def _oue_and_olh_agree(power: int) -> bool:
    """Return whether p and q of OUE and OLH are equal at e^ε = power.

    OLH has q = 1/g with g the whole number nearest to e^ε + 1: there it is that number.
    """
    oue = OUE(epsilon=math.log(power), d=8)
    olh = OLH(epsilon=math.log(power), d=8)
    # To rounding: e^ε comes back from its own logarithm.
    return math.isclose(oue.p, olh.p) and math.isclose(oue.q, olh.q)


@claim(
    "oue-flip",
    "N III-C",
    "OUE flips a 0 bit with probability 1/e^ε and has the same p and q as OLH.",
    Verdict.CORRECTED,
)
def oue_flip(instances: InstanceSet) -> Finding:
    """Compute the privacy loss with both flip probabilities, for seven budgets.

    Red if the loss is ε with the printed one (then the statement holds), or is not with
    1/(e^ε + 1), to FORMULA, or if the p and q of OUE and OLH differ where OLH's g is e^ε + 1.
    """
    # p is 1/2 in both: the flip of a 0 bit alone is in question.
    printed = {epsilon: _unary_loss(0.5, math.exp(-epsilon)) for epsilon in _EPSILONS}
    corrected = {epsilon: _unary_loss(0.5, 1 / (math.exp(epsilon) + 1)) for epsilon in _EPSILONS}
    same = all(_oue_and_olh_agree(e) for e in (2, 3, 7))
    return Finding(
        holds=_are_budgets(printed),
        corrected=same and _are_budgets(corrected),
        instances=len(_EPSILONS),
        evidence={
            **{
                f"privacy loss if 0 flips with 1/e^ε, at ε = {epsilon:g}": printed[epsilon]
                for epsilon in (0.1, 0.4, 1.0, 4.0)
            },
            "so at small ε": "1/e^ε > 1/2: a 0 flips more often than a 1, and the loss exceeds the "
            "budget",
            "largest |loss - ε| if 0 flips with 1/(e^ε + 1)": largest(
                [loss - epsilon for epsilon, loss in corrected.items()]
            ),
            "p and q of OUE and OLH, at ε = ln 2, ln 3, ln 7": "equal" if same else "different",
            "correction": "with probability 1/(e^ε + 1); then p and q are those of OLH with g = "
            "e^ε + 1",
        },
    )


@claim(
    "olh-random-projection",
    "D 2.4",
    "For ε < ln 2 OLH is random matrix projection, local hashing with g = 2 (with D's g, the floor "
    "of e^ε + 1).",
    Verdict.HOLDS,
)
def olh_random_projection(instances: InstanceSet) -> Finding:
    """Compare OLH with D's g and BLH on a grid of budgets below ln 2.

    Red if g, p or q differ, without tolerance, or if N's nearest integer gives g = 3 below ln 1.5,
    where e^ε + 1 is nearer to 2.
    """
    points = 20 if instances.quick else 200
    # Short of ln 2, where e^ε + 1 is 3 up to rounding.
    epsilons = [float(e) for e in np.linspace(0.01, math.log(2) - 1e-6, points)]
    same = True
    for epsilon in epsilons:
        olh = OLH(epsilon=epsilon, d=8, rounding="floor")
        blh = BLH(epsilon=epsilon, d=8)
        same &= olh.g == 2 and olh.p == blh.p and olh.q == 0.5
    # From where N's rule leaves BLH.
    three_buckets = [epsilon for epsilon in epsilons if OLH(epsilon=epsilon, d=8).g > 2]
    return Finding(
        holds=same and min(three_buckets) > math.log(1.5),
        instances=len(epsilons),
        evidence={
            "smallest ε of the grid at which N's nearest integer gives g = 3, not 2": min(
                three_buckets
            ),
            "in theory, from ln 1.5 on": math.log(1.5),
        },
    )


def _zero_first(f: Array) -> Array:
    """Return what N IV-B's words state: values that are zeroed at first are never raised again."""
    active = f > 0
    # At least one value is dropped in every round but the last.
    while True:
        size = np.maximum(np.count_nonzero(active, axis=-1, keepdims=True), 1)
        mass = np.sum(f, axis=-1, keepdims=True, where=active)
        shifted = f + (1 - mass) / size
        negative = active & (shifted < 0)
        if not negative.any():
            return np.where(active, shifted, 0.0)
        active &= ~negative


def _small_draws(instances: InstanceSet) -> FrequencyEstimate:
    """Return estimates of the small population whose negative values matter."""
    # Few values and a sharp distribution: there the positive estimates sum to less than 1.
    oracle, users = small_reports()
    counts = oracle.simulate_counts(users, instances.rng(), trials=_DRAWS)
    return oracle.estimate(counts, int(users.sum()))


def _differing(words: Array, formula: Array) -> int:
    """Return in how many vectors the words' answer differs from the formula's."""
    return int(np.count_nonzero(np.max(np.abs(words - formula), axis=-1) > FORMULA))


@claim(
    "norm-sub-words",
    "N IV-B",
    "Norm-Sub is: convert negative values to 0, then add δ to each remaining value so that the sum "
    "is 1.",
    Verdict.CORRECTED,
    theorems=("zeroing_first_is_not_the_projection", "zeroing_first_is_right_for_enough_mass"),
)
def norm_sub_words(instances: InstanceSet) -> Finding:
    """Apply the words and the formula to [.5, .2, -.01] and to draws of OUE, and certify both.

    Red if the words' answers are those of the formula and optimal (then the statement holds), or
    if the formula's gap exceeds GAP.
    """
    estimate = _small_draws(instances)
    words = _zero_first(estimate.frequencies)
    formula = closed_form.norm_sub(estimate.frequencies)
    # Random draws beside the example, to show that users would meet the difference.
    wrong = _differing(words, formula)
    # A certificate decides which of the two is right: it knows neither.
    certified = certify(CLS, estimate, formula).is_optimal(GAP)
    example = np.array([[0.5, 0.2, -0.01]])
    example_words = _zero_first(example)
    example_formula = closed_form.norm_sub(example)
    words_gap = largest(certify(CLS, example, example_words).gap)
    formula_gap = largest(certify(CLS, example, example_formula).gap)
    return Finding(
        holds=wrong == 0 and words_gap < GAP,
        corrected=certified and formula_gap < GAP,
        instances=_DRAWS + 1,
        evidence={
            "[.5, .2, -.01] by the words": as_text(example_words[0]),
            "[.5, .2, -.01] by max(f̃ + δ, 0)": as_text(example_formula[0]),
            "correction": "max(f̃ + δ, 0) with the δ for which the sum is 1: a negative value may "
            "end above 0",
            "gap of the words' answer in constrained least squares": words_gap,
            f"wrong on simulated reports, of {_DRAWS} (OUE, ε = 1, Zipf(3), d = 8, n = 10,000)": (
                wrong
            ),
        },
    )


@claim(
    "mle-apx-words",
    "N Table I, D Table 1",
    "MLE-Apx is: convert negative estimates to 0, then add δ to the positive ones.",
    Verdict.CORRECTED,
)
def mle_apx_words(instances: InstanceSet) -> Finding:
    """Apply the words and the formula to draws of OUE, and certify both in the MLE problem.

    Red if the words' answers are those of the formula (then the statement holds), or if the
    formula's gap exceeds GAP.
    """
    estimate = _small_draws(instances)
    words = _zero_first(estimate.frequencies)
    formula = closed_form.mle_apx(estimate.frequencies, estimate.noise.kappa)
    # The population of Norm-Sub's words, which have the same fault.
    wrong = _differing(words, formula)
    return Finding(
        holds=wrong == 0,
        corrected=certify(WEIGHTED_MLE, estimate, formula).is_optimal(GAP),
        instances=_DRAWS,
        evidence={
            f"wrong on simulated reports, of {_DRAWS} (OUE, ε = 1, Zipf(3), d = 8, n = 10,000)": (
                wrong
            ),
            "largest difference in frequency": largest(words - formula),
            "largest gap of the words' answers in the weighted MLE problem": largest(
                certify(WEIGHTED_MLE, estimate, words).gap
            ),
            "correction": "max(f̃ + t, 0)/(1 - κt): values are scaled too, and negative ones may "
            "be lifted above 0",
        },
    )


@claim(
    "norm-delta",
    "D 3.2",
    "Norm's δ is 1/d plus or minus the average of d noises.",
    Verdict.CORRECTED,
)
def norm_delta(instances: InstanceSet) -> Finding:
    """Compare Norm's δ with both signs of the printed formula, on 200 draws of OUE, d = 16.

    True frequencies sum to 1, so that δ = (1 - Σf̃)/d is minus the average noise: there is no 1/d.
    Red if a printed sign fits to IDENTITY (then the statement holds), or if the corrected formula,
    or the one for f' printed below it, does not.
    """
    rng = instances.rng()
    n = 10_000
    d = 16
    trials = 200
    oracle = OUE(epsilon=1.0, d=d)
    users = rng.multinomial(n, rng.dirichlet(np.ones(d)))
    raw = oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), n).frequencies
    normed = closed_form.norm(raw)
    # One shift for all values: the first stands for it.
    delta = (normed - raw)[:, 0]
    average_noise = np.mean(raw - users / n, axis=-1)
    with_plus = largest(delta - (1 / d + average_noise))
    with_minus = largest(delta - (1 / d - average_noise))
    # The better of the two signs: the statement leaves it open.
    printed = min(with_plus, with_minus)
    corrected = largest(delta + average_noise)
    # The formula for f' printed below it is consistent.
    # D writes it with the sum over all other values.
    others = raw.sum(axis=-1, keepdims=True) - raw
    printed_below = 1 / d + ((d - 1) * raw - others) / d
    return Finding(
        holds=printed < IDENTITY,
        corrected=corrected < IDENTITY and largest(printed_below - normed) < IDENTITY,
        instances=trials,
        evidence={
            "largest difference of δ to 1/d ± the average noise (d = 16)": printed,
            "largest difference of δ to minus the average noise": corrected,
            "mean of δ": float(delta.mean()),
            "correction": "minus the average of the d noises: there is no 1/d",
        },
    )


@claim(
    "kkt-multiplier",
    "D Appendix A",
    "At the solution of the weighted MLE (p-q)(1-p-q) x² + 2(p-q) x = μ = 0 for every positive "
    "value.",
    Verdict.CORRECTED,
)
def kkt_multiplier(instances: InstanceSet) -> Finding:
    """Evaluate both papers' conditions at the solution, on the crowd instances.

    D's x is N's with the other sign, and μ is not 0. Red if |μ| stays below FORMULA (then the
    statement holds), or if μ differs between the positive values of a vector, or between the two
    papers' forms, by FORMULA or more.
    """
    multipliers = []
    spreads = []
    differences = []
    vectors = 0
    for instance in instances.crowd:
        oracle = instance.estimate.noise.require_protocol()
        p, q = oracle.p, oracle.q
        # The factor of f in the variance, as the papers write it.
        slope = (p - q) * (1 - p - q)
        raw = instance.estimate.frequencies
        f = closed_form.mle_apx(raw, oracle.kappa)
        # x_v of D's Appendix A, from the solution instead of the other way round.
        x = (p - q) * (raw - f) / (q * (1 - q) + slope * f)
        draft_condition = slope * x**2 + 2 * (p - q) * x
        ndss_x = -x  # N's x has the other sign
        ndss_condition = slope * ndss_x**2 - 2 * (p - q) * ndss_x
        # Values at zero have an inequality in place of this condition.
        active = f > 0
        high = np.max(np.where(active, draft_condition, -np.inf), axis=-1)
        low = np.min(np.where(active, draft_condition, np.inf), axis=-1)
        multipliers.append(largest(high))
        spreads.append(largest((high - low) / (1 + np.abs(high))))
        differences.append(largest(draft_condition - ndss_condition))
        vectors += instance.vectors
    return Finding(
        holds=largest(multipliers) < FORMULA,
        corrected=largest([*spreads, *differences]) < FORMULA,
        instances=vectors,
        evidence={
            "largest |μ|": largest(multipliers),
            "largest difference of μ between the positive values of a vector, relative": largest(
                spreads
            ),
            "correction": "the left side equals μ, the same for all positive values; N's Eq. 15 "
            "states this",
        },
    )
