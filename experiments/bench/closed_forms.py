"""Norm-Sub and MLE-Apx on a large domain, in passes over the array."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from experiments.bench import populations
from experiments.bench.row import PASS, Row
from experiments.bench.timing import measure
from ldpopt import closed_form, oracles

TARGET = 6.0


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return both closed forms on real counts' estimates and on frequencies with little noise."""
    d, n, epsilon, repeats = (settings[key] for key in ("d", "n", "epsilon", "repeats"))
    rng = np.random.default_rng(0)
    kappa = oracles.OUE(epsilon, d).kappa
    ranked = {
        f"OUE counts of {n:,} users": populations.oue_estimate(d, n, epsilon, rng).frequencies,
        "noise of sd 1/d": populations.zipf(d) + rng.standard_normal(d) / d,
    }
    # The answer does not depend on the order of the domain; the time should not either.
    instances = {f"{name}, frequent first": f for name, f in ranked.items()}
    instances |= {f"{name}, random order": rng.permutation(f) for name, f in ranked.items()}
    methods: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "norm-sub": closed_form.norm_sub,
        "mle-apx": lambda f: closed_form.mle_apx(f, kappa),
    }
    rows = []
    # The cheapest pass is the unit: what a pass costs depends on the allocator's mood, not on the values.
    one_pass = min(measure(lambda f=f: np.maximum(f, 0).sum(), repeats=repeats).best for f in instances.values())
    one_read = min(measure(f.sum, repeats=repeats).best for f in instances.values())
    for instance, f in instances.items():
        for name, method in methods.items():
            timing = measure(lambda f=f, method=method: method(f), repeats=repeats)
            rows.append(
                Row(
                    what=f"{name}, {instance}",
                    seconds=timing.best,
                    measure="cost",
                    against=PASS,
                    against_seconds=one_pass,
                    target=TARGET,
                    first_seconds=timing.first,
                    detail=f"{timing.best / one_read:.1f} times x.sum(); "
                    f"{np.count_nonzero(timing.value):,} values stay positive",
                )
            )
    return rows
