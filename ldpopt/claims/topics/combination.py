"""Claims about several measurements as one: their combination has the least noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.tolerances import SIGMAS
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.sets import membership
from ldpopt.oracles import OUE
from ldpopt.sources import Source, Sources

TITLE = "Several measurements as one"
ORDER = 129

Array = NDArray[np.float64]
Groups = Sequence[Sequence[int]]

_D = 9
_APART = [[0, 1, 2], [3, 4, 5, 6]]
_INSIDE = [[0, 1], [3, 4], [3, 4, 5, 6]]
_CROSSING = [[0, 3, 6], [1, 4, 7], [2, 5, 6]]

# What is measured beside two estimates of the values: nothing, or groups of each kind.
_KINDS: dict[str, list[Groups]] = {
    "values alone": [],
    "groups apart": [_APART],
    "groups inside each other": [_APART, _INSIDE],
    "groups that overlap": [_APART, _CROSSING],
}

# Relative size of what an optimal map leaves of the conditions of Gauss and Markov: rounding.
_ROUNDING = 1e-9

# And what weights by the number of users leave: far more, or the check would see nothing.
_SEEN = 1e-3

_BUDGETS = (0.5, 1.0, 2.0)


class _Measurements(NamedTuple):
    """Independent measurements y = A f + noise, written out.

    Attributes
    ----------
    groups
        Of each measurement; None for the values.
    noises
        Of each measurement.
    """

    groups: list[Groups | None]
    noises: list[Noise]

    @property
    def matrix(self) -> Array:
        """A, of all measurements one below the other."""
        return np.concatenate([_rows(groups) for groups in self.groups])

    @property
    def variances(self) -> Array:
        """The variances at the uniform distribution, the sample's part included."""
        parts = []
        for groups, noise in zip(self.groups, self.noises, strict=True):
            share = _rows(groups).sum(axis=1) / _D
            assert noise.n is not None
            parts.append(noise.constant + (noise.slope + 1 / noise.n) * share)
        return np.concatenate(parts)

    def combined(self, measured: Array) -> Array:
        """Return the combination of measured numbers."""
        sizes = [len(_rows(groups)) for groups in self.groups]
        parts = np.split(measured, np.cumsum(sizes)[:-1])
        rows = zip(parts, self.groups, self.noises, strict=True)
        sources = [
            Source(FrequencyEstimate(part, noise=noise, is_raw=True), groups)
            for part, groups, noise in rows
        ]
        # The unit vectors that write out the map have equal parts.
        return Sources(sources, independent=True).combined().frequencies

    @property
    def linear_map(self) -> Array:
        """The matrix L of the combination L y."""
        columns = [self.combined(unit) for unit in np.eye(len(self.matrix))]
        return np.stack(columns, axis=1)


def _rows(groups: Groups | None) -> Array:
    return np.eye(_D) if groups is None else np.asarray(membership(groups, _D).toarray())


def _drawn(groups: list[Groups], rng: np.random.Generator) -> _Measurements:
    """Return measurements with budgets and users drawn at random."""
    noises = []
    for _ in range(2 + len(groups)):
        # From much weaker to much stronger than the others.
        constant = 10.0 ** rng.uniform(-5, -3)
        noises.append(
            Noise(constant, constant * rng.uniform(0, 3), n=int(rng.integers(500, 9_000)))
        )
    return _Measurements([None, None, *groups], noises)


def _left_over(linear_map: Array, measurements: _Measurements) -> float:
    """Return by how much a map is off the unbiased one with the least variance, relative to it.

    L is unbiased if L A = I. All others are L + Z (I - A L), and none of them has a smaller
    variance if L C (I - A L)ᵀ = 0 (Gauss and Markov).
    """
    a = measurements.matrix
    noise = np.diag(measurements.variances)
    bias = float(np.abs(linear_map @ a - np.eye(_D)).max())
    moved = linear_map @ noise
    condition = moved @ (np.eye(len(a)) - a @ linear_map).T
    return max(bias, float(np.abs(condition).max() / np.abs(moved).max()))


def _by_users(measurements: _Measurements) -> Array:
    """Return the plain least-squares map in which each measurement counts by its users."""
    a = measurements.matrix
    counts = [
        np.full(len(_rows(groups)), float(noise.n or 1))
        for groups, noise in zip(measurements.groups, measurements.noises, strict=True)
    ]
    weighted = a.T * np.concatenate(counts)
    return np.asarray(np.linalg.solve(weighted @ a, weighted))


def _simulated(draws: int, rng: np.random.Generator) -> tuple[dict[str, Array], float]:
    """Return squared errors of ways to combine three budgets, and the stated noise's total."""
    data = datasets.load("emoji").scaled(30_000)
    truth = data.frequencies
    users = data.n // len(_BUDGETS)
    errors: dict[str, list[float]] = {"combination": [], "plain mean": [], "best alone": []}
    stated = 0.0
    for _ in range(draws):
        parts = []
        for epsilon in _BUDGETS:
            oracle = OUE(epsilon, data.d)
            counts = rng.multinomial(users, truth)
            parts.append(oracle.estimate(oracle.simulate_counts(counts, rng), users))
        combined = Sources(parts).combined()
        ways = {
            "combination": combined.frequencies,
            "plain mean": np.mean([part.frequencies for part in parts], axis=0),
            # Budgets ascend: the last one has the least noise.
            "best alone": parts[-1].frequencies,
        }
        for way, frequencies in ways.items():
            errors[way].append(float(np.sum((frequencies - truth) ** 2)))
        stated = float(np.sum(combined.noise.variance(truth)))
    return {way: np.array(values) for way, values in errors.items()}, stated


@claim(
    "combination-optimal",
    "Gauss and Markov; ours",
    "Of all linear unbiased estimates from several independent measurements, of values and of "
    "groups of them, the combination has the smallest variance of every value at the uniform "
    "distribution, and its stated noise is its error.",
    Verdict.HOLDS,
)
def combination_optimal(instances: InstanceSet) -> Finding:
    """Check the conditions of optimality on random measurements, and errors on simulated ones.

    Red if a combination is biased or leaves more of the conditions than rounding, for groups apart,
    inside each other or overlapping; if weights by users pass the same check; if on simulated
    collections of three budgets a plain mean or the best of them alone is not worse by two
    standard errors; or if the mean error is SIGMAS standard errors from the stated noise.
    """
    rng = instances.rng()
    rounds = 2 if instances.quick else 25
    left, refused = _conditions(rng, rounds)
    draws = 25 if instances.quick else 200
    errors, stated = _simulated(draws, rng)
    ours = errors["combination"]
    gains = {}
    ratios = {}
    for way in ("plain mean", "best alone"):
        difference = errors[way] - ours
        spread = _standard_error(difference)
        # A way that never differs gains nothing.
        gains[way] = float(np.mean(difference)) / spread if spread > 0 else 0.0
        ratios[way] = float(np.mean(errors[way]) / np.mean(ours))
    off = abs(float(np.mean(ours)) - stated) / _standard_error(ours)
    is_optimal = max(left.values()) < _ROUNDING and refused > _SEEN
    budgets = ", ".join(map(str, _BUDGETS))
    return Finding(
        holds=is_optimal and min(gains.values()) > 2 and off < SIGMAS,
        instances=rounds * len(_KINDS) + draws,
        evidence={
            **{f"{kind}: conditions left over": size for kind, size in left.items()},
            "weights by users, which must fail": refused,
            **{f"{way}: excess error in standard errors": gain for way, gain in gains.items()},
            **{f"{way}: error over the combination's": ratio for way, ratio in ratios.items()},
            "distance of the error from the stated noise in standard errors": off,
            "data": f"simulated: OUE, ε = {budgets}, emoji, n = 30,000",
        },
    )


def _conditions(rng: np.random.Generator, rounds: int) -> tuple[dict[str, float], float]:
    """Return what combinations leave of the conditions of optimality, by kind of groups.

    The second number is the least that weights by users leave, which are not optimal.
    """
    left = {}
    by_users = []
    for kind, groups in _KINDS.items():
        drawn = [_drawn(groups, rng) for _ in range(rounds)]
        left[kind] = max(_left_over(each.linear_map, each) for each in drawn)
        by_users += [_left_over(_by_users(each), each) for each in drawn]
    return left, min(by_users)


def _standard_error(draws: Array) -> float:
    """Return the standard error of the mean of some draws."""
    return float(np.std(draws, ddof=1)) / math.sqrt(len(draws))
