"""The benchmarks by name, with the settings that key their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.bench import (
    aggregation,
    closed_forms,
    discovery,
    framework,
    imports,
    methods,
    nonparametric,
    overhead,
    peers,
    priors,
    simulation,
    solvers,
)
from experiments.bench.row import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its title, its function from settings to rows, and the settings."""

    title: str
    run: Callable[[Mapping[str, Any]], list[Row]]
    settings: Mapping[str, Any]
    downloads: bool = False
    picture: Callable[[Mapping[str, Any], list[Row]], Figure] | None = None


BENCHMARKS = {
    "closed-form": Benchmark(
        "Norm-Sub and MLE-Apx in passes over 10^6 values",
        closed_forms.run,
        {"d": 10**6, "n": 10**6, "epsilon": 1.0, "repeats": 30},
    ),
    "every-closed-form": Benchmark(
        "Every closed form at 10^6 values",
        closed_forms.every,
        {"d": 10**6, "n": 10**6, "epsilon": 1.0, "repeats": 10},
    ),
    "methods": Benchmark(
        "Every method on a stack of 5,000 trials",
        methods.run,
        {"trials": 5000, "few_trials": 10, "epsilon": 1.0, "repeats": 5},
    ),
    "priors": Benchmark(
        "Power against direct summation, n and d",
        priors.run,
        {
            "d": 1024,
            "n": 10**6,
            "kosarak": [42178, 990002],
            "trials": 5000,
            "users": [10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 10**10],
            # Up to a third of n: a mean count below 1 has no power law.
            "sizes": [10**2, 10**3, 10**4, 10**5, 3 * 10**5],
            "epsilon": 1.0,
            "repeats": 20,
        },
        picture=priors.picture,
    ),
    "nonparametric": Benchmark(
        "NPMLE and the mixture, fits included",
        nonparametric.run,
        {
            "sizes": [[1024, 10**6], [42178, 990002], [10**6, 10**6]],
            "trials": 50,
            "epsilon": 1.0,
            "repeats": 5,
        },
    ),
    "simulate": Benchmark(
        "1,000 simulated collections of 10^6 users",
        simulation.run,
        {"trials": 1000, "epsilon": 1.0, "repeats": 3},
    ),
    "solvers": Benchmark(
        "The closed forms against general solvers",
        solvers.run,
        {"d": [1024, 42178], "n": 10**6, "epsilon": 1.0, "repeats": 30, "limit": 120.0},
    ),
    "overhead": Benchmark(
        "postprocess and Problem.solve beside the bare closed forms",
        overhead.run,
        {"d": [10, 1024, 10**6], "n": 10**6, "epsilon": 1.0, "repeats": 100},
    ),
    "framework": Benchmark(
        "The problem framework beside bare solvers",
        framework.run,
        {
            "small": [64, 1024],
            "stack": [1024, 1000, 5],
            "large": 42178,
            "n": 10**6,
            "epsilon": 1.0,
            "repeats": 20,
            "limit": 120.0,
        },
    ),
    "discovery": Benchmark(
        "Twenty searches for a closed form whose answer is known",
        discovery.run,
        {"lengths": [2, 3], "inputs": 200},
    ),
    "import": Benchmark("Importing the library", imports.run, {"repeats": 5}),
    "aggregation": Benchmark(
        "Counting files of reports",
        aggregation.run,
        {
            "d": [1024, 42178],
            "epsilon": 1.0,
            "repeats": 3,
            "stream": [10**6, 10**7, 10**8],
            "stream_d": 64,
            "hashed": 500_000,
        },
    ),
    "peers": Benchmark(
        "Perturb and aggregate against other libraries",
        peers.run,
        {"n": 10**5, "d": 1024, "epsilon": 1.0, "repeats": 3},
        downloads=True,
    ),
}
