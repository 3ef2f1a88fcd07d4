"""Claims about the risk of methods: its unbiased estimate, and choices by it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ldpopt import datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.tolerances import SIGMAS
from ldpopt.datasets.dataset import apportion
from ldpopt.methods import METHODS
from ldpopt.oracles import ORACLES, OUE, FrequencyOracle
from ldpopt.risks import Collection, Evidence
from ldpopt.studies.selection import select_method

TITLE = "Risk without the truth"
ORDER = 128

Array = NDArray[np.float64]

_D = 16
_N = 20_000
_MOVES = 4

# What Σ at Norm-Sub's frequencies in place of the true ones may change of a risk.
_PLUG_IN = 0.03

_CHOSEN_FROM = ("base", "norm", "norm-sub")


def _truth() -> NDArray[np.int64]:
    """Return users by value, few of the last ones: some are below the noise."""
    weights = 1 / np.arange(1.0, _D + 1) ** 1.5
    return apportion(weights / weights.sum(), _N)


def _sets() -> list[NDArray[np.int64]]:
    # Frequent values beside rare ones in each: their counts are dependent under GRR.
    return [np.arange(first, _D, 2, dtype=np.int64) for first in range(2)]


def _misses(
    oracle: FrequencyOracle, name: str, draws: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return by how much each estimated squared error of a method exceeds the true one, and that.

    Every draw is a collection of its own, whose users hold the same values.
    """
    users = _truth()
    method = METHODS[name]
    misses = np.empty(draws)
    errors = np.empty(draws)
    for draw in range(draws):
        raw = oracle.estimate(oracle.simulate_counts(users, rng), _N)
        collection = Collection(raw, _sets())
        moves = collection.moves("sure", _MOVES, 0.1, rng)
        evidence = Evidence.of(collection, method.solve, moves, "sure")
        answers = collection.answered(method.solve(raw).frequencies)
        errors[draw] = np.sum((answers - collection.answered(users / _N)) ** 2)
        misses[draw] = evidence.total - errors[draw]
    return misses, errors


def _score(misses: Array, errors: Array) -> float:
    """Return how far a mean is from 0 in standard errors, beyond what the plug-in may change."""
    spread = float(np.std(misses, ddof=1)) / math.sqrt(len(misses))
    beyond = abs(float(np.mean(misses))) - _PLUG_IN * float(np.mean(errors))
    return max(beyond, 0.0) / spread


@claim(
    "risk-unbiased",
    "Stein 1981; ours",
    "The risk that is estimated from one collection is unbiased, for every oracle.",
    Verdict.HOLDS,
)
def risk_unbiased(instances: InstanceSet) -> Finding:
    """Compare the estimated squared error of Norm-Sub's answers to sets with the true one.

    Red if for some oracle the means differ by SIGMAS standard errors beyond the share that the
    plug-in may change; or if the same test passes GRR's counts as independent ones, whose variances
    of sums are too large.
    """
    draws = 150 if instances.quick else 1_000
    rng = instances.rng()
    scores: dict[str, float] = {}
    for name, make in ORACLES.items():
        misses, errors = _misses(make(1.0, _D), "norm-sub", draws, rng)
        scores[name] = _score(misses, errors)
    # Of the raw answers the estimated risk is the sum of their variances.
    oracle = ORACLES["grr"](1.0, _D)
    # More draws: nothing is solved for them, and the control must be far beyond the limit.
    misses, errors = _misses(oracle, "base", 4 * draws, rng)
    frequencies = _truth() / _N
    members = np.zeros((2, _D))
    for row, chosen in zip(members, _sets(), strict=True):
        row[chosen] = 1.0
    covariance = oracle.covariance(frequencies)
    excess = float(np.sum(members @ covariance.diagonal) - covariance.quadratic(members).sum())
    wrong = _score(misses + excess / _N, errors)
    return Finding(
        holds=max(scores.values()) < SIGMAS and wrong > SIGMAS,
        instances=draws * len(scores),
        evidence={
            **{
                f"{name}: distance of the means in standard errors": s for name, s in scores.items()
            },
            "GRR with independent counts, which must fail": wrong,
            "data": f"d = {_D}, n = {_N:,}, ε = 1, Norm-Sub, two sets",
        },
    )


@cache
def _choices(instances: InstanceSet) -> dict[str, Array]:
    """Return the errors of what each kind of evidence chooses, over those of the best method."""
    data = datasets.load("emoji")
    oracle = OUE(epsilon=1.0, d=data.d)
    rng = instances.rng()
    sets = data.sets["category"]
    draws = 40 if instances.quick else 150
    chosen: dict[str, list[float]] = {"simulation": [], "both": [], "risk": []}
    fixed: dict[str, list[float]] = {name: [] for name in _CHOSEN_FROM}
    for _ in range(draws):
        raw = oracle.estimate(oracle.simulate_counts(data.counts, rng), data.n)
        collection = Collection(raw, sets)
        truth = collection.answered(data.frequencies)
        for name in _CHOSEN_FROM:
            answers = collection.answered(METHODS[name].solve(raw).frequencies)
            fixed[name].append(float(np.mean((answers - truth) ** 2)))
        choice = select_method(raw, sets, _CHOSEN_FROM, trials=10, rng=rng)
        assert choice.risks is not None  # by="both" estimates them
        names = {"simulation": choice.simulated, "both": choice.method, "risk": choice.risks.best}
        for kind, name in names.items():
            chosen[kind].append(fixed[name][-1])
    best = min(np.mean(errors) for errors in fixed.values())
    return {kind: np.array(errors) / best for kind, errors in chosen.items()}


@claim(
    "choice-by-both",
    "ours; N V-D",
    "Where the members of sets belong together, Norm-Sub's synthetic data choose a method whose "
    "error is 1.4 times that of the best or more; corrected by the raw answers they choose "
    "better.",
    Verdict.HOLDS,
)
def choice_by_both(instances: InstanceSet) -> Finding:
    """Choose for the nine categories of emoji from Base, Norm and Norm-Sub, by each evidence.

    Red if the errors of what simulation chooses are below 1.4 times those of the best method, or
    not larger on the same draws than those of the corrected choice.
    """
    regrets = _choices(instances)
    gain = regrets["simulation"] - regrets["both"]
    spread = float(np.std(gain, ddof=1)) / math.sqrt(len(gain))
    means = {kind: float(np.mean(values)) for kind, values in regrets.items()}
    # Two standard errors: a choice that never differed would have a gain of exactly 0.
    return Finding(
        holds=means["simulation"] > 1.4 and float(np.mean(gain)) > 2 * spread,
        instances=len(gain),
        evidence={
            **{f"error by {kind} over the best method's": mean for kind, mean in means.items()},
            "data": "OUE, ε = 1, emoji as bundled, nine categories",
        },
    )
