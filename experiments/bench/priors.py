"""Power against direct summation, and its cost against the number of users and of values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import ldpopt
from experiments.bench import populations
from experiments.bench.row import Row
from experiments.bench.timing import measure
from ldpopt import FrequencyEstimate, datasets, oracles, style
from ldpopt.priors import PowerLaw

DIRECT = "direct summation over ±10 s"
TARGETS = {"one vector": 0.005, "kosarak": 0.05, "trials": 5.0, "direct": 50.0}


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return Power's time, fit included, at the sizes of the papers, then along n and along d."""
    d, n, epsilon, repeats, trials = (
        settings[key] for key in ("d", "n", "epsilon", "repeats", "trials")
    )
    rows = [
        single(d, n, epsilon, repeats, target=TARGETS["one vector"]),
        against_direct(d, n, epsilon, repeats),
        single(*settings["kosarak"], epsilon, repeats, target=TARGETS["kosarak"]),
        many(trials, epsilon),
    ]
    # Flat along n, which is what a sum over all counts would not be.
    rows += [single(d, users, epsilon, repeats) for users in settings["users"]]
    rows += [single(size, n, epsilon, repeats) for size in settings["sizes"]]
    return rows


def named(d: int, n: int) -> str:
    return f"power, d = {d:,}, n = {n:,}"


def single(d: int, n: int, epsilon: float, repeats: int, target: float | None = None) -> Row:
    """Return the time of one vector."""
    estimate = populations.oue_estimate(d, n, epsilon, np.random.default_rng(d))
    timing = measure(partial(ldpopt.postprocess, estimate, "power"), repeats=repeats)
    return Row(named(d, n), timing.best, "seconds", target=target, first_seconds=timing.first)


def against_direct(d: int, n: int, epsilon: float, repeats: int) -> Row:
    """Return the time of one vector beside direct summation over the counts near each estimate."""
    estimate = populations.oue_estimate(d, n, epsilon, np.random.default_rng(d))
    timing = measure(partial(ldpopt.postprocess, estimate, "power"), repeats=repeats)
    # The reference gets the fit for nothing: its time is that of the sums alone.
    alpha = PowerLaw.fit(estimate).alpha
    direct = measure(partial(direct_power, estimate, alpha), repeats=3)
    difference = float(np.max(np.abs(timing.value.frequencies / direct.value - 1)))
    return Row(
        named(d, n),
        timing.best,
        "speed-up",
        DIRECT,
        direct.best,
        TARGETS["direct"],
        timing.first,
        f"largest relative difference {difference:.1e}",
    )


def direct_power(estimate: FrequencyEstimate, alpha: float) -> np.ndarray:
    """Return posterior means by summation over counts within 10 sd, one value at a time."""
    n = estimate.n
    noise = estimate.sigma * estimate.n
    counts = np.arange(1.0, n + 1)
    log_prior = -alpha * np.log(counts)
    result = np.empty(estimate.d)
    for v, y in enumerate(estimate.frequencies * n):
        nearest = min(max(y, 1), n)
        near = slice(max(1, int(nearest - 10 * noise)) - 1, min(n, int(nearest + 10 * noise) + 1))
        # In place, as a careful user of numpy writes it: the reference must not lose by
        # allocations.
        weight = counts[near] - y
        weight *= weight
        weight *= -0.5 / noise**2
        weight += log_prior[near]
        weight -= weight.max()
        np.exp(weight, out=weight)
        result[v] = weight @ counts[near] / weight.sum()
    return result / n


def many(trials: int, epsilon: float) -> Row:
    """Return the time of a stack, with a fit for each of its trials."""
    data = datasets.load("zipf")
    oracle = oracles.OUE(epsilon, data.d)
    estimate = oracle.estimate(
        oracle.simulate_counts(data.counts, np.random.default_rng(0), trials=trials), data.n
    )
    # Thousands of fits: one run is an average already.
    timing = measure(partial(ldpopt.postprocess, estimate, "power"), repeats=3)
    return Row(
        f"power, {trials:,} trials of d = {data.d:,}, a fit for each",
        timing.best,
        "seconds",
        target=TARGETS["trials"],
        first_seconds=timing.first,
        detail=f"{timing.best / trials * 1e6:.3g} µs per trial",
    )


@style.styled
def picture(settings: Mapping[str, Any], rows: list[Row]) -> Figure:
    """Return the cost against n and against d, both on logarithmic axes."""
    seconds = {row.what: row.seconds for row in rows}
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    users = settings["users"]
    sizes = settings["sizes"]
    left.plot(
        users, [1e3 * seconds[named(settings["d"], n)] for n in users], "o-", color=style.BLUE
    )
    right.plot(
        sizes, [1e3 * seconds[named(d, settings["n"])] for d in sizes], "o-", color=style.BLUE
    )
    left.set(
        xscale="log",
        yscale="log",
        xlabel="users n",
        ylabel="milliseconds",
        title=f"Power, d = {settings['d']:,}",
    )
    right.set(xscale="log", yscale="log", xlabel="values d", title=f"Power, n = {settings['n']:,}")
    left.set_ylim(1, 100)
    return figure
