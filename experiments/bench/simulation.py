"""Simulated collections: support counts of whole populations, drawn without users."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from experiments.bench.row import PASS, Row
from experiments.bench.timing import measure
from ldpopt import datasets, oracles

AGGREGATE_LAW = ("OUE", "SUE", "GRR", "OLH", "BLH")
TARGET_SECONDS = {"OUE": 1.0}


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return every oracle that has an exact law of the aggregate."""
    trials, epsilon, repeats = (settings[key] for key in ("trials", "epsilon", "repeats"))
    data = datasets.load("zipf")
    rows = []
    for name in AGGREGATE_LAW:
        oracle = getattr(oracles, name)(epsilon, data.d)
        # Anew for each oracle, whose time then does not depend on those before it.
        rng = np.random.default_rng(0)
        timing = measure(
            partial(oracle.simulate_counts, data.counts, rng, trials=trials), repeats=repeats
        )
        # A pass over as many doubles as counts were drawn.
        counts = timing.value.astype(np.float64)
        one_pass = measure(lambda x=counts: np.maximum(x, 0).sum(), repeats=repeats)
        rows.append(
            Row(
                what=f"{name}, {trials:,} trials, n = {data.n:,}, d = {data.d:,}",
                seconds=timing.best,
                measure="seconds",
                against=PASS,
                against_seconds=one_pass.best,
                target=TARGET_SECONDS.get(name),
                first_seconds=timing.first,
            )
        )
    return rows
