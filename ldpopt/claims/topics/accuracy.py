"""Claims that one answer is never worse than another, draw by draw, and what sums of 1 imply."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.measures import largest, smallest
from ldpopt.claims.engine.tolerances import IDENTITY
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import METHODS, postprocess
from ldpopt.oracles import OLH, ORACLES, OUE

TITLE = "Answers that are never worse than others, and what follows from sums of 1"
ORDER = 70

Array = NDArray[np.float64]

# Methods that fit a prior to every vector take 10 ms for each; an identity that holds on every
# vector is tested on fewer of theirs. An answer that does not sum to 1 breaks the identity in every
# draw, so that a quick run needs no more than two of each of its 14 populations.
_FITTED = ("power-ns", "npmle-ns", "mixture-ns", "auto-ns")
_FITTED_TRIALS = 10
_QUICK_FITTED_TRIALS = 2


def _draws(instances: InstanceSet) -> list[tuple[Array, FrequencyEstimate]]:
    """Return true frequencies and raw estimates of random populations through every oracle."""
    rng = instances.rng()
    # Few users: methods differ most where the noise is large.
    d = 32
    n = 2_000
    trials = 10 if instances.quick else 100
    draws = []
    for make in ORACLES.values():
        oracle = make(1.0, d)
        for concentration in (0.05, 1.0):  # few frequent values; nearly uniform
            users = rng.multinomial(n, rng.dirichlet(np.full(d, concentration)))
            raw = oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), n)
            draws.append((users / n, raw))
    return draws


def _sets(rng: np.random.Generator, d: int, number: int) -> NDArray[np.bool_]:
    """Return random sets of values of all sizes, after all single values."""
    sets = rng.random((number, d)) < rng.uniform(0.02, 0.98, (number, 1))
    # Single values first, so that a slice finds them again.
    return np.vstack([np.eye(d, dtype=np.bool_), sets])


@claim(
    "base-pos-accuracy",
    "N IV-A, D 3.1",
    "For each value Base-Pos is at least as accurate as Base, always.",
    Verdict.PROVED,
    theorems=("base_pos_is_at_least_as_accurate",),
)
def base_pos_accuracy(instances: InstanceSet) -> Finding:
    """Compare the errors value by value, on draws of random populations through every oracle.

    True frequencies are not negative, so that |max(f̃, 0) - f| <= |f̃ - f| for every report and
    every value. Red if one error grows, without tolerance.
    """
    worse = 0
    better = 0
    values = 0
    for truth, raw in _draws(instances):
        before = np.abs(raw.frequencies - truth)
        after = np.abs(postprocess(raw, "base-pos").frequencies - truth)
        # Without tolerance: differences round monotonically.
        worse += int(np.count_nonzero(after > before))
        better += int(np.count_nonzero(after < before))
        values += before.size
    return Finding(
        holds=worse == 0,
        instances=values,
        evidence={
            "estimates that became less accurate": worse,
            "estimates that became more accurate": better,
            "estimates": values,
        },
    )


@claim(
    "post-pos-queries",
    "N IV-A, D 3.1",
    "Post-Pos equals Base-Pos on single values, has the smaller positive bias on sets, and may "
    "contradict itself.",
    Verdict.HOLDS,
)
def post_pos_queries(instances: InstanceSet) -> Finding:
    """Query 60 random sets per population, and two halves with their union.

    max(Σ f̃, 0) lies between Σ f̃, unbiased, and Σ max(f̃, 0): its bias is between 0 and
    Base-Pos's, draw by draw. Red if an answer is outside of these two or less accurate than
    Base's, if single values differ from Base-Pos, each by more than IDENTITY, or if no draw
    contradicts itself.
    """
    rng = instances.rng()
    single_differences = []
    outside = 0
    worse = 0
    contradictions = 0
    answers = 0
    for truth, raw in _draws(instances):
        sets = _sets(rng, raw.d, 60)
        base = postprocess(raw, "base").query(sets)
        post_pos = postprocess(raw, "post-pos").query(sets)
        base_pos = postprocess(raw, "base-pos").query(sets)
        single_differences.append(largest(post_pos[:, : raw.d] - base_pos[:, : raw.d]))
        beyond = (post_pos < base - IDENTITY) | (post_pos > base_pos + IDENTITY)
        outside += int(np.count_nonzero(beyond))
        # Against the truth as well: being between two answers does not make one accurate.
        exact = sets @ truth
        errors = np.abs(post_pos - exact)
        worse += int(np.count_nonzero(errors > np.abs(base - exact) + IDENTITY))
        contradictions += _contradictions(raw)
        answers += post_pos.size
    return Finding(
        holds=(
            largest(single_differences) <= IDENTITY
            and outside == 0
            and worse == 0
            and contradictions > 0
        ),
        instances=answers,
        evidence={
            "largest difference to Base-Pos on single values": largest(single_differences),
            "answers outside of Base's and Base-Pos's": outside,
            "answers less accurate than Base's": worse,
            "draws in which the answers to two disjoint sets do not add up to their union's": (
                contradictions
            ),
        },
    )


def _contradictions(raw: FrequencyEstimate) -> int:
    """Return in how many draws Post-Pos's answers to two disjoint sets and their union disagree."""
    # Two disjoint sets, and their union.
    middle = raw.d // 2
    # Without the value 0: the answer to the whole domain is near 1, and hardly ever clipped.
    left = np.arange(1, middle)
    right = np.arange(middle, raw.d)
    union = np.arange(1, raw.d)
    of_left, of_right, of_union = postprocess(raw, "post-pos").query([left, right, union]).T
    excess = of_left + of_right - of_union
    return int(np.count_nonzero(np.abs(excess) > IDENTITY))


@claim(
    "norm-sub-nearer",
    "N IV-C, from the theorem of Pythagoras for projections",
    "Norm-Sub is never farther than Base from any distribution: ‖f' - g‖² <= ‖f̃ - g‖² - ‖f̃ - f'‖².",
    Verdict.PROVED,
    theorems=("norm_sub_never_increases_the_error",),
)
def norm_sub_nearer(instances: InstanceSet) -> Finding:
    """Compare the distances to the truth on random draws, and to three distributions elsewhere.

    The three, on all instances, are uniform, a point mass and a random one. Red if the inequality
    is missed by IDENTITY or more, relative to 1 + ‖f̃ - g‖².
    """
    rng = instances.rng()
    pairs = [(raw.frequencies, [truth]) for truth, raw in _draws(instances)]
    for instance in instances.all:
        d = instance.estimate.d
        # The theorem is about every point of the simplex: its centre, a vertex, and one near its
        # faces.
        others = [np.full(d, 1 / d), np.eye(d)[-1], rng.dirichlet(np.full(d, 0.1))]
        pairs.append((instance.estimate.frequencies, others))
    slacks = []
    ratios = []
    vectors = 0
    for raw, distributions in pairs:
        f = closed_form.norm_sub(raw)
        # The third side of the triangle, which makes the inequality sharper than "not farther".
        moved = np.sum((raw - f) ** 2, axis=-1)
        for g in distributions:
            before = np.sum((raw - g) ** 2, axis=-1)
            after = np.sum((f - g) ** 2, axis=-1)
            slacks.append(smallest((before - moved - after) / (1 + before)))
            ratios.append(float(np.mean(after) / np.mean(before)))
            vectors += before.size
    return Finding(
        holds=smallest(slacks) > -IDENTITY,
        instances=vectors,
        evidence={
            "smallest ‖f̃-g‖² - ‖f̃-f'‖² - ‖f'-g‖², relative": smallest(slacks),
            "median ratio of the squared distances after and before": float(np.median(ratios)),
        },
    )


@claim(
    "set-symmetry",
    "N V-D, D 4.3",
    "Where the answers are normalised, a set and its complement have the same squared error: MSE "
    "is symmetric about ρ = 50.",
    Verdict.PROVED,
    theorems=("errors_of_sets_are_symmetric",),
)
def set_symmetry(instances: InstanceSet) -> Finding:
    """Compare the squared errors of 40 random sets and their complements, for every method.

    Red if they differ by IDENTITY or more under a method whose answers sum to 1, or by IDENTITY or
    less under Base-Pos or Base-Cut, whose answers do not.
    """
    rng = instances.rng()
    # By the library's own table: a new method that sums to 1 is checked without being listed here.
    normalised = [name for name, method in METHODS.items() if method.sums_to_one == "yes"]
    fitted_trials = _QUICK_FITTED_TRIALS if instances.quick else _FITTED_TRIALS
    differences = []
    other_differences = []
    answers = 0
    for truth, raw in _draws(instances):
        sets = _sets(rng, raw.d, 40)
        for name in normalised:
            # Norm-Mul has no answer without a positive value.
            if name == "norm-mul" and not (raw.frequencies > 0).any(axis=-1).all():
                continue
            estimate = raw[:fitted_trials] if name in _FITTED else raw
            # Errors sum to 0 where both sum to 1: the error of a set is minus that of its
            # complement.
            errors = postprocess(estimate, name).frequencies - truth
            differences.append(_asymmetry(errors, sets))
            answers += len(errors) * len(sets)
        # Without these the check would pass for any errors at all.
        for name in ("base-pos", "base-cut"):
            errors = postprocess(raw, name).frequencies - truth
            other_differences.append(_asymmetry(errors, sets))
    return Finding(
        holds=largest(differences) < IDENTITY < smallest(other_differences),
        instances=answers,
        evidence={
            "methods": ", ".join(normalised),
            "largest difference of the squared errors of a set and its complement": largest(
                differences
            ),
            "smallest such difference of Base-Pos and Base-Cut, over populations": smallest(
                other_differences
            ),
        },
    )


def _asymmetry(errors: Array, sets: NDArray[np.bool_]) -> float:
    """Return the largest difference of the squared errors of a set and of its complement."""
    return largest((errors @ sets.T) ** 2 - (errors @ ~sets.T) ** 2)


@claim(
    "norm-cut-threshold",
    "N V-C, V-E; D 4.2, 4.4",
    "Norm-Cut's threshold θ is likely lower than Base-Cut's T.",
    Verdict.HOLDS,
)
def norm_cut_threshold(instances: InstanceSet) -> Finding:
    """Compare both thresholds on draws of Zipf and emoji through OLH, for five budgets.

    θ is the smallest value that Norm-Cut keeps. Red if θ < T in at most half of all draws.
    """
    rng = instances.rng()
    trials = 5 if instances.quick else 30
    epsilons = (0.2, 0.4, 1.0, 2.0, 4.0)
    listed = ", ".join(f"{epsilon:g}" for epsilon in epsilons)
    evidence: dict[str, float | int | str] = {}
    lower = 0
    draws = 0
    for data_name in ("zipf", "emoji"):
        data = datasets.load(data_name)
        shares = []
        for epsilon in epsilons:
            oracle = OLH(epsilon=epsilon, d=data.d)
            raw = oracle.estimate(oracle.simulate_counts(data.counts, rng, trials=trials), data.n)
            # θ is not returned by the method: it is read off the answer.
            kept = closed_form.norm_cut(raw.frequencies)
            theta = np.min(np.where(kept > 0, kept, np.inf), axis=-1)
            # Where Norm-Cut keeps nothing θ is infinite here, and counts as not below.
            below = theta < closed_form.significance_threshold(data.d, raw.sigma)
            shares.append(float(below.mean()))
            lower += int(below.sum())
            draws += trials
        name = f"share of draws with θ < T, {data_name}, ε = {listed}"
        evidence[name] = ", ".join(f"{share:.2f}" for share in shares)
    return Finding(
        holds=lower > 0.5 * draws,
        instances=draws,
        evidence={**evidence, "share in all": lower / draws},
    )


@claim(
    "oue-zero-sets",
    "K IV-B",
    "Zeroing below the significance threshold does not change the heavy hitters of higher "
    "thresholds, and gives one and the same set for all lower ones.",
    Verdict.HOLDS,
)
def oue_zero_sets(instances: InstanceSet) -> Finding:
    """Compare the heavy hitters of Base and Base-Cut at 60 thresholds, on draws of Zipf.

    The thresholds are 0.05 to 3 times the significance threshold (OUE, ε = 4, n = 100,000). Red if
    a value is wrongly in or out, or if Base finds no more than Base-Cut at half of the threshold.
    """
    data = datasets.load("zipf").scaled(100_000)
    oracle = OUE(epsilon=4.0, d=data.d)
    trials = 10 if instances.quick else 50
    counts = oracle.simulate_counts(data.counts, instances.rng(), trials=trials)
    raw = oracle.estimate(counts, data.n)
    significance = closed_form.significance_threshold(data.d, raw.sigma, alpha=0.05)
    zeroed = postprocess(raw, "base-cut", alpha=0.05).frequencies
    # Below 1 the threshold lies under the cut, above 1 beyond it: the two halves of the statement.
    factors = np.linspace(0.05, 3.0, 60)
    wrong = 0
    for factor in factors:
        hitters = zeroed > factor * significance
        # Base-Cut keeps what reaches the threshold: below it, one set for all factors.
        expected = raw.frequencies >= significance
        if factor >= 1:
            expected = raw.frequencies > factor * significance
        wrong += int(np.count_nonzero(hitters != expected))
    # Half of the threshold is where the two must differ: Base reports noise there.
    plain_hitters = np.count_nonzero(raw.frequencies > 0.5 * significance)
    lost = int(plain_hitters - np.count_nonzero(zeroed > 0.5 * significance))
    return Finding(
        holds=wrong == 0 and lost > 0,
        instances=len(factors) * len(zeroed),
        evidence={
            "values that are wrongly in or out, 60 thresholds from 0.05 to 3 times the "
            "significance threshold": wrong,
            "values that only the plain estimate reports at half of it": lost,
        },
    )
