"""Every method but the posterior means, on a stack of trials."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

import ldpopt
from experiments.bench.row import PASS, Row
from experiments.bench.timing import measure
from ldpopt import datasets, oracles

PAPER = tuple(ldpopt.METHODS)[:12]  # what follows the papers' twelve methods is our own
POSTERIOR_MEANS = ("power", "power-ns")  # the only ones of the paper's methods with a fit to the whole vector
TARGET_SECONDS = 3.0


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return the sum over the paper's methods without the posterior means, then every method by itself."""
    trials, epsilon, repeats = (settings[key] for key in ("trials", "epsilon", "repeats"))
    data = datasets.load("zipf")
    oracle = oracles.OUE(epsilon, data.d)
    estimate = oracle.estimate(oracle.simulate_counts(data.counts, np.random.default_rng(0), trials=trials), data.n)
    one_pass = measure(lambda: np.maximum(estimate.frequencies, 0).sum(), repeats=repeats).best

    rows = []
    for name in ldpopt.METHODS:
        timing = measure(partial(ldpopt.postprocess, estimate, name), repeats=repeats, patience=2.0)
        rows.append(Row(name, timing.best, "cost", against=PASS, against_seconds=one_pass, first_seconds=timing.first))
    together = [row.what for row in rows if row.what in PAPER and row.what not in POSTERIOR_MEANS]
    total = sum(row.seconds for row in rows if row.what in together)
    summary = Row(
        what=f"{len(together)} methods on {trials:,} x {data.d:,}",
        seconds=total,
        measure="seconds",
        against=PASS,
        against_seconds=one_pass,
        target=TARGET_SECONDS,
        detail=", ".join(together),
    )
    return [summary, *rows]
