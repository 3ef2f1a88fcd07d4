"""Draws of N's setting, and the errors of methods on them by task."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ldpopt import datasets
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.tolerances import CONFIDENCE
from ldpopt.estimate import FrequencyEstimate
from ldpopt.methods import METHODS, postprocess
from ldpopt.oracles import OLH, OUE

Array = NDArray[np.float64]

SETTING = "OLH, ε = 1, Zipf(1.5), d = 1,024, n = 1,000,000"
"""What ``zipf_draws`` draws, for evidence."""

_BOTH = list(METHODS)[:12]  # of both papers
NDSS = [name for name in _BOTH if name != "norm-hyb"]
DRAFT = [name for name in _BOTH if name != "power-ns"]
RARE = slice(512, 1_024)  # the rarer half; Zipf's values are in the order of their frequencies
RHOS = (1, 10, 50, 90)  # sizes of sets, per cent of the domain
_SETS = 60  # random sets per size


@cache
def zipf_draws(instances: InstanceSet) -> tuple[Array, FrequencyEstimate]:
    """Return the true frequencies and raw estimates of N's setting."""
    data = datasets.load("zipf")
    oracle = OLH(epsilon=1.0, d=data.d)
    trials = 60 if instances.quick else 400
    counts = oracle.simulate_counts(data.counts, instances.rng(), trials=trials)
    return data.frequencies, oracle.estimate(counts, data.n)


@cache
def answers_of(instances: InstanceSet, method: str, **options: float) -> Array:
    """Return a method's answers on the draws of N's setting, shape (draws, d)."""
    _, raw = zipf_draws(instances)
    return postprocess(raw, method, **options).frequencies


def errors_of(instances: InstanceSet, method: str, **options: float) -> Array:
    """Return a method's errors on the draws of N's setting, shape (draws, d)."""
    truth, _ = zipf_draws(instances)
    return answers_of(instances, method, **options) - truth


@cache
def random_sets(d: int, rho: int) -> Array:
    """Return random sets of ρ per cent of the domain as rows of zeros and ones."""
    # By ρ, so that every method answers about the same sets.
    rng = np.random.default_rng(rho)
    # As rows of a matrix, one product answers all sets of all draws.
    sets = np.zeros((_SETS, d))
    for row in sets:
        row[rng.permutation(d)[: round(d * rho / 100)]] = 1.0
    return sets


def set_errors(errors: Array, rho: int) -> Array:
    """Return the mean squared error of each draw, over all sets of ρ per cent of the domain.

    E(Σ_S e)² = m/d ((1 - c) Σe² + c (Σe)²), c = (m-1)/(d-1), for uniform sets S of m values.
    """
    # All sets, not some: which of them are drawn would be an error that all draws share.
    d = errors.shape[-1]
    size = round(d * rho / 100)
    both = (size - 1) / (d - 1)
    squares = np.sum(errors**2, axis=-1)
    return np.asarray(size / d * ((1 - both) * squares + both * errors.sum(axis=-1) ** 2))


def _post_pos_set_errors(instances: InstanceSet, rho: int) -> Array:
    """Return the same for Post-Pos, which clips the answers to sets."""
    truth, raw = zipf_draws(instances)
    sets = random_sets(raw.d, rho).T
    answers = raw.frequencies @ sets
    # What clipping changes has no formula: it is averaged over some sets, and is little.
    clipped = (np.maximum(answers, 0) - truth @ sets) ** 2
    change = np.mean(clipped - (answers - truth @ sets) ** 2, axis=-1)
    return np.asarray(set_errors(raw.frequencies - truth, rho) + change)


def single_errors(instances: InstanceSet, method: str) -> Array:
    """Return errors of single values; Post-Pos clips these answers too, as Base-Pos does."""
    return errors_of(instances, "base-pos" if method == "post-pos" else method)


def task_errors(instances: InstanceSet, method: str) -> dict[str, Array]:
    """Return the mean squared error of each draw by task."""
    single = single_errors(instances, method)
    # Of each draw by itself: paired over the draws, two methods differ by far less than their
    # noise.
    tasks = {"single values": np.mean(single**2, axis=-1)}
    for k in (10, 32):
        tasks[f"the top {k}"] = np.mean(single[:, :k] ** 2, axis=-1)
    for rho in RHOS:
        on_sets = set_errors(errors_of(instances, method), rho)
        if method == "post-pos":
            on_sets = _post_pos_set_errors(instances, rho)
        tasks[f"sets of {rho} %"] = on_sets
    return tasks


def is_larger(errors: Array, others: Array) -> bool:
    """Return whether paired errors are larger by CONFIDENCE standard errors or more."""
    difference = errors - others
    # Two methods that answer alike have no spread to divide by.
    if not difference.any():
        return False
    standard_error = difference.std(ddof=1) / math.sqrt(len(difference))
    return bool(difference.mean() > CONFIDENCE * standard_error)


def collected(
    users: NDArray[np.int64], epsilon: float, trials: int, instances: InstanceSet
) -> tuple[Array, FrequencyEstimate]:
    """Return true frequencies and raw estimates through OUE, as D collects them."""
    oracle = OUE(epsilon=epsilon, d=len(users))
    n = int(users.sum())
    counts = oracle.simulate_counts(users, instances.rng(), trials=trials)
    return users / n, oracle.estimate(counts, n)


def mse_of(raw: FrequencyEstimate, truth: Array, method: str, **options: float) -> Array:
    """Return a method's mean squared error over the domain, per draw."""
    answers = postprocess(raw, method, **options).frequencies
    return np.asarray(np.mean((answers - truth) ** 2, axis=-1))
