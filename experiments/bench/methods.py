"""Every method but the posterior means, on a stack of trials."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

import ldpopt
from experiments.bench.row import COPY, PASS, Row
from experiments.bench.timing import measure
from ldpopt import FrequencyEstimate, datasets, oracles

PAPER = tuple(ldpopt.METHODS)[:12]  # what follows the papers' twelve methods is our own
POSTERIOR_MEANS = ("power", "power-ns")  # they fit a prior to every trial: a benchmark of their own
TARGET_SECONDS = 3.0
# Passes of the methods that look for a level or a cut: without a sort per trial.
SEARCHING = ("norm-cut", "norm-sub", "norm-hyb", "mle-apx")
TARGET_PASSES = 8.0


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return the sum over the paper's methods without posterior means, then each method alone."""
    trials, few, epsilon, repeats = (
        settings[key] for key in ("trials", "few_trials", "epsilon", "repeats")
    )
    data = datasets.load("zipf")
    oracle = oracles.OUE(epsilon, data.d)
    estimate = oracle.estimate(
        oracle.simulate_counts(data.counts, np.random.default_rng(0), trials=trials), data.n
    )
    # Most of these methods fit a prior to every trial, which takes milliseconds.
    a_few = estimate[:few]
    fast = [
        time(name, estimate, repeats)
        for name in ldpopt.METHODS
        if name in PAPER and name not in POSTERIOR_MEANS
    ]
    slow = [
        time(name, a_few, repeats)
        for name in ldpopt.METHODS
        if name not in PAPER or name in POSTERIOR_MEANS
    ]
    summary = Row(
        what=f"{len(fast)} methods together, {trials:,} trials",
        seconds=sum(row.seconds for row in fast),
        measure="seconds",
        against=PASS,
        against_seconds=fast[0].against_seconds,
        target=TARGET_SECONDS,
    )
    f = estimate.frequencies
    one_copy = measure(partial(np.copyto, np.empty_like(f), f), repeats=repeats)
    limit = Row(COPY, one_copy.best, "cost", PASS, fast[0].against_seconds)
    return [summary, limit, *fast, *slow]


def time(name: str, estimate: FrequencyEstimate, repeats: int) -> Row:
    """Return one method's row: its time on this stack beside a pass over the stack."""
    f = estimate.frequencies
    # On this very stack: a pass costs more per value where it leaves the cache.
    one_pass = measure(lambda: np.maximum(f, 0).sum(), repeats=repeats)
    timing = measure(partial(ldpopt.postprocess, estimate, name), repeats=repeats, patience=2.0)
    return Row(
        what=f"{name}, {len(f):,} trials of d = {f.shape[-1]:,}",
        seconds=timing.best,
        measure="cost",
        against=PASS,
        against_seconds=one_pass.best,
        target=TARGET_PASSES if name in SEARCHING else None,
        first_seconds=timing.first,
        detail=f"{timing.best / len(f) * 1e6:.3g} µs per trial",
    )
