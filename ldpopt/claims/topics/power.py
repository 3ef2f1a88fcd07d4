"""What N's figures say of Power, in N's setting and with as many runs."""

from __future__ import annotations

import math

from ldpopt import datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import Bench
from ldpopt.methods import postprocess
from ldpopt.oracles import OLH

_PRINTED = -96_332.0
_WITHIN = 0.02  # of the printed sum: N's own 5,000 runs leave a standard error of 0.2 %


@claim(
    "power-bias-sum",
    "N Fig. 2h",
    "Power's biases sum to -96,332 counts over the domain (OLH, ε = 1, Zipf(1.5), d = 1,024, n = 10⁶, 5,000 runs).",
    Verdict.HOLDS,
)
def _power_bias_sum(bench: Bench) -> Finding:
    data = datasets.load("zipf")
    oracle = OLH(epsilon=1.0, d=data.d)
    trials = 500 if bench.quick else 2_000
    estimate = oracle.estimate(
        oracle.simulate_counts(data.counts, bench.rng(), trials=trials), data.n
    )
    sums = (postprocess(estimate, "power").frequencies.sum(axis=-1) - 1) * data.n
    found = float(sums.mean())
    return Finding(
        abs(found / _PRINTED - 1) <= _WITHIN,
        trials,
        {
            "printed sum of biases, in counts": _PRINTED,
            "sum of biases": found,
            "its standard error": float(sums.std() / math.sqrt(trials)),
            "relative difference": found / _PRINTED - 1,
        },
    )
