"""Priors without a formula: fits and posterior means of one large vector and of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

import ldpopt
from experiments.bench import populations
from experiments.bench.row import Row
from experiments.bench.timing import measure
from ldpopt import datasets, oracles

METHODS = ("npmle-ns", "mixture-ns")
# the target is set for Kosarak's size
TARGET_SECONDS = 1.0
LARGEST = 42_178
# Seconds per trial of a stack, fit and posterior means together.
TRIAL_TARGETS = {"npmle-ns": 1e-3, "mixture-ns": 3e-3}


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return each method's time by size of the domain, and a trial's share of a stack."""
    epsilon, repeats, trials = (settings[key] for key in ("epsilon", "repeats", "trials"))
    rows = []
    for d, n in settings["sizes"]:
        estimate = populations.oue_estimate(d, n, epsilon, np.random.default_rng(d))
        for method in METHODS:
            timing = measure(partial(ldpopt.postprocess, estimate, method), repeats=repeats)
            rows.append(
                Row(
                    what=f"{method}, d = {d:,}, n = {n:,}",
                    seconds=timing.best,
                    measure="seconds",
                    target=TARGET_SECONDS if d <= LARGEST else None,
                    first_seconds=timing.first,
                )
            )
    data = datasets.load("zipf")
    oracle = oracles.OUE(epsilon, data.d)
    stack = oracle.estimate(
        oracle.simulate_counts(data.counts, np.random.default_rng(0), trials=trials), data.n
    )
    for method in METHODS:
        # The stack repeats the fit for every trial: one run is an average already.
        timing = measure(partial(ldpopt.postprocess, stack, method), repeats=1)
        rows.append(
            Row(
                what=f"{method}, {trials} trials of d = {data.d:,}",
                seconds=timing.best,
                measure="seconds",
                target=trials * TRIAL_TARGETS[method],
                detail=f"{timing.best / trials * 1e3:.3g} ms per trial, each with its own fit",
            )
        )
    return rows
