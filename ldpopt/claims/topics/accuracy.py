"""Claims that one answer is never worse than another, draw by draw, and what follows from sums of 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import METHODS, postprocess
from ldpopt.oracles import OLH, ORACLES, OUE

TITLE = "Answers that are never worse than others, and what follows from sums of 1"
ORDER = 70

Array = NDArray[np.float64]

_ROUNDING = 1e-12


def _draws(instances: InstanceSet) -> list[tuple[Array, FrequencyEstimate]]:
    """Return true frequencies and raw estimates of random populations through every oracle."""
    rng, drawn = instances.rng(), []
    d, n, trials = 32, 2_000, 10 if instances.quick else 100
    for make in ORACLES.values():
        oracle = make(1.0, d)
        for concentration in (0.05, 1.0):
            users = rng.multinomial(n, rng.dirichlet(np.full(d, concentration)))
            raw = oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), n)
            drawn.append((users / n, raw))
    return drawn


def _sets(rng: np.random.Generator, d: int, number: int) -> NDArray[np.bool_]:
    """Return random sets of values of all sizes, single values among them."""
    sets = rng.random((number, d)) < rng.uniform(0.02, 0.98, (number, 1))
    return np.vstack([np.eye(d, dtype=np.bool_), sets])


@claim(
    "base-pos-accuracy",
    "N IV-A, D 3.1",
    "For each value Base-Pos is at least as accurate as Base, always.",
    Verdict.HOLDS,
)
def _base_pos(instances: InstanceSet) -> Finding:
    """Use that true frequencies are not negative: |max(f̃, 0) - f| <= |f̃ - f| for every report and every value."""
    worse, better, values = 0, 0, 0
    for truth, raw in _draws(instances):
        before = np.abs(raw.frequencies - truth)
        after = np.abs(postprocess(raw, "base-pos").frequencies - truth)
        worse += int(np.count_nonzero(after > before))
        better += int(np.count_nonzero(after < before))
        values += before.size
    return Finding(
        worse == 0,
        values,
        {
            "estimates that became less accurate": worse,
            "that became more accurate": better,
            "of": values,
        },
    )


@claim(
    "post-pos-queries",
    "N IV-A, D 3.1",
    "Post-Pos equals Base-Pos on single values, has the smaller positive bias on sets, and may contradict itself.",
    Verdict.HOLDS,
)
def _post_pos(instances: InstanceSet) -> Finding:
    """max(Σ f̃, 0) lies between Σ f̃, unbiased, and Σ max(f̃, 0): its bias is between 0 and Base-Pos's, draw by draw."""
    rng = instances.rng()
    singles, outside, worse, contradictions, answers = 0.0, 0, 0, 0, 0
    for truth, raw in _draws(instances):
        sets = _sets(rng, raw.d, 60)
        base, post, pos = (
            postprocess(raw, method).query(sets) for method in ("base", "post-pos", "base-pos")
        )
        singles = max(singles, float(np.max(np.abs(post[:, : raw.d] - pos[:, : raw.d]))))
        outside += int(np.count_nonzero((post < base - _ROUNDING) | (post > pos + _ROUNDING)))
        worse += int(
            np.count_nonzero(np.abs(post - sets @ truth) > np.abs(base - sets @ truth) + _ROUNDING)
        )
        halves = np.arange(raw.d) < raw.d // 2
        left, right, both = (
            postprocess(raw, "post-pos").query([np.flatnonzero(part)])[:, 0]
            for part in (halves & (np.arange(raw.d) > 0), ~halves, np.arange(raw.d) > 0)
        )
        contradictions += int(np.count_nonzero(np.abs(left + right - both) > _ROUNDING))
        answers += post.size
    return Finding(
        singles <= _ROUNDING and outside == 0 and worse == 0 and contradictions > 0,
        answers,
        {
            "largest difference to Base-Pos on single values": singles,
            "answers outside of Base's and Base-Pos's": outside,
            "answers less accurate than Base's": worse,
            "draws in which the answers to two disjoint sets do not add up to that of their union": contradictions,
        },
    )


@claim(
    "norm-sub-nearer",
    "N IV-C, from the theorem of Pythagoras for projections",
    "Norm-Sub is never farther than Base from any distribution: ‖f' - g‖² <= ‖f̃ - g‖² - ‖f̃ - f'‖².",
    Verdict.HOLDS,
)
def _nearer(instances: InstanceSet) -> Finding:
    rng, slack, vectors, gains = instances.rng(), np.inf, 0, []
    pairs = [(raw.frequencies, [truth]) for truth, raw in _draws(instances)]
    for instance in instances.all:
        d = instance.estimate.d
        others = [np.full(d, 1 / d), np.eye(d)[-1], rng.dirichlet(np.full(d, 0.1))]
        pairs.append((instance.estimate.frequencies, others))
    for raw, distributions in pairs:
        f = closed_form.norm_sub(raw)
        for g in distributions:
            before, after = np.sum((raw - g) ** 2, axis=-1), np.sum((f - g) ** 2, axis=-1)
            left = before - np.sum((raw - f) ** 2, axis=-1) - after
            slack = min(slack, float(np.min(left / (1 + before))))
            vectors += left.size
            gains.append(float(np.mean(after) / np.mean(before)))
    return Finding(
        slack > -_ROUNDING,
        vectors,
        {
            "smallest ‖f̃-g‖² - ‖f̃-f'‖² - ‖f'-g‖², relative": slack,
            "median ratio of the squared distances after and before": float(np.median(gains)),
        },
    )


@claim(
    "set-symmetry",
    "N V-D, D 4.3",
    "Where the answers are normalised, a set and its complement have the same squared error: MSE is symmetric about ρ = 50.",
    Verdict.HOLDS,
)
def _symmetry(instances: InstanceSet) -> Finding:
    rng = instances.rng()
    normalised = [
        m
        for m in METHODS.values()
        if m.sums_to_one == "yes" and m.name not in ("power", "power-ns")
    ]
    others = ("base-pos", "base-cut")
    worst, least, answers = 0.0, np.inf, 0
    for truth, raw in _draws(instances):
        sets = _sets(rng, raw.d, 40)
        for method in (*(m.name for m in normalised), *others):
            if method == "norm-mul" and not (raw.frequencies > 0).any(axis=-1).all():
                continue
            error = postprocess(raw, method).frequencies - truth
            total = float(np.max(np.abs((error @ sets.T) ** 2 - (error @ ~sets.T) ** 2)))
            if method in others:
                least = min(least, total)
            else:
                worst = max(worst, total)
                answers += error.shape[0] * len(sets)
    return Finding(
        worst < _ROUNDING < least,
        answers,
        {
            "methods": ", ".join(m.name for m in normalised),
            "largest difference of the squared errors of a set and its complement": worst,
            "Base-Pos and Base-Cut, at least, on every population": float(least),
        },
    )


@claim(
    "norm-cut-threshold",
    "N V-C, V-E; D 4.2, 4.4",
    "Norm-Cut's threshold θ is likely lower than Base-Cut's T.",
    Verdict.HOLDS,
)
def _threshold(instances: InstanceSet) -> Finding:
    rng, trials = instances.rng(), 5 if instances.quick else 30
    epsilons = (0.2, 0.4, 1.0, 2.0, 4.0)
    evidence: dict[str, float | int | str] = {}
    lower, draws = 0, 0
    for data_name in ("zipf", "emoji"):
        data = datasets.load(data_name)
        shares = []
        for epsilon in epsilons:
            oracle = OLH(epsilon=epsilon, d=data.d)
            raw = oracle.estimate(oracle.simulate_counts(data.counts, rng, trials=trials), data.n)
            kept = closed_form.norm_cut(raw.frequencies)
            theta = np.min(np.where(kept > 0, kept, np.inf), axis=-1)
            below = theta < closed_form.significance_threshold(data.d, raw.sigma)
            shares.append(float(below.mean()))
            lower, draws = lower + int(below.sum()), draws + trials
        evidence[
            f"share of draws with θ < T, {data_name}, ε = {', '.join(f'{e:g}' for e in epsilons)}"
        ] = ", ".join(f"{share:.2f}" for share in shares)
    return Finding(lower > 0.5 * draws, draws, {**evidence, "share in all": lower / draws})


@claim(
    "oue-zero-sets",
    "K IV-B",
    "Zeroing below the significance threshold does not change the heavy hitters of higher thresholds, and gives one and the same "
    "set for all lower ones.",
    Verdict.HOLDS,
)
def _oue_zero(instances: InstanceSet) -> Finding:
    data = datasets.load("zipf").scaled(100_000)
    oracle = OUE(epsilon=4.0, d=data.d)
    raw = oracle.estimate(
        oracle.simulate_counts(data.counts, instances.rng(), trials=10 if instances.quick else 50),
        data.n,
    )
    significance = closed_form.significance_threshold(data.d, raw.sigma, alpha=0.05)
    zero = postprocess(raw, "base-cut", alpha=0.05).frequencies
    changed, thresholds = 0, np.linspace(0.05, 3.0, 60)
    for factor in thresholds:
        hitters, plain = zero > factor * significance, raw.frequencies > factor * significance
        expected = plain if factor >= 1 else raw.frequencies >= significance
        changed += int(np.count_nonzero(hitters != expected))
    fewer = int(
        np.count_nonzero(raw.frequencies > 0.5 * significance)
        - np.count_nonzero(zero > 0.5 * significance)
    )
    return Finding(
        changed == 0 and fewer > 0,
        len(thresholds) * len(zero),
        {
            "values that are wrongly in or out, 60 thresholds from 0.05 to 3 times the significance threshold": changed,
            "values that only the plain estimate reports at half of it": fewer,
        },
    )
