"""K's improvements over OUE-Zero on Retail, with both of its fits, beside the best that any rule could do.

Run as ``python -m experiments.calibrate_retail`` with the folder of ``retail.dat.gz`` in ``LDPOPT_DATA``, or let it download.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ldpopt import FrequencyEstimate, datasets, oracles, postprocess, priors

PRINTED = {1.0: 0.024, 5.0: 0.65}  # K IV-B: relative improvement of OUE-Calibrate upon OUE-Zero on Retail
WAYS = ("moments", "likelihood", "limit")


@dataclass(frozen=True)
class Improvement:
    """How far errors are below OUE-Zero's, for each way to choose a prior: 1 - MSE/MSE(OUE-Zero), with standard errors."""

    epsilon: float
    mean: dict[str, float]
    error: dict[str, float]


def truth_as_prior(counts: np.ndarray, n: int) -> priors.Histogram:
    """Return the multiset of the true counts, all above 0.

    The posterior mean under it has the least error of all rules that treat values alike: a limit that needs the truth.
    """
    values, how_often = np.unique(counts, return_counts=True)
    edges = np.unique(np.concatenate([values, values + 1]))
    masses = np.zeros(len(edges) - 1)
    masses[np.searchsorted(edges, values)] = how_often
    return priors.Histogram(edges, masses, n)


def improvement(epsilon: float, trials: int, rng: np.random.Generator) -> Improvement:
    """Return what K's Calibrate gains over OUE-Zero at one budget, from simulated collections of Retail."""
    data = datasets.load("retail")
    oracle = oracles.OUE(epsilon, data.d)
    stack = oracle.estimate(oracle.simulate_counts(data.counts, rng, trials=trials), data.n)
    limit = truth_as_prior(data.counts, data.n)
    gains: dict[str, list[float]] = {way: [] for way in WAYS}
    for f in stack.frequencies:
        estimate = FrequencyEstimate(f, data.n, oracle)
        zero = squared_error(postprocess(estimate, "base-zero").frequencies, data)
        for way, found in gains.items():
            prior = limit if way == "limit" else priors.PowerLaw.fit(estimate, by=way)
            found.append(1 - squared_error(priors.posterior_mean(estimate, prior), data) / zero)
    return Improvement(
        epsilon,
        {way: float(np.mean(found)) for way, found in gains.items()},
        {way: float(np.std(found, ddof=1) / np.sqrt(trials)) for way, found in gains.items()},
    )


def squared_error(f: np.ndarray, data: datasets.Dataset) -> float:
    return float(np.mean((f - data.frequencies) ** 2))


def main(
    trials: Annotated[int, typer.Option(min=2, help="Simulated collections for each budget.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulation.")] = 0,
) -> None:
    """Print the improvements for ε = 1 .. 5."""
    rng = np.random.default_rng(seed)
    table = Table("ε", "K prints", "fit by mean", "fit by likelihood", "limit of any rule")
    for epsilon in (1.0, 2.0, 3.0, 4.0, 5.0):
        found = improvement(epsilon, trials, rng)
        cells = [f"{found.mean[way]:.1%} ± {found.error[way]:.1%}" for way in WAYS]
        table.add_row(f"{epsilon:g}", f"{PRINTED[epsilon]:.1%}" if epsilon in PRINTED else "", *cells)
    console = Console()
    console.print("Improvement over OUE-Zero on Retail (n = 908,576 purchases, d = 16,470), mean and standard error:")
    console.print(table)
    console.print(
        "The limit is the posterior mean under the true multiset of counts, which no rule that treats values alike beats.\n"
        "K's 65 % at ε = 5 lies above it: with OUE at this n, d and ε no prior explains the printed number."
    )


if __name__ == "__main__":
    typer.run(main)
