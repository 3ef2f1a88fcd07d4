"""Claims about choosing a method by simulation, as N V-D advises, for each kind of query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.datasets import Dataset
from ldpopt.estimate.sets import membership, totals
from ldpopt.methods import METHODS
from ldpopt.oracles import OUE
from ldpopt.studies.selection import select_method

TITLE = "Choosing a method by simulation"
ORDER = 127

Index = NDArray[np.int64]

# The methods of N that need no option, each the best somewhere.
_CHOSEN_FROM = ("base", "base-cut", "norm", "norm-cut", "norm-sub")

_MEMBERS = 32
_RANDOM_SETS = 40

# "Quite accurately" in N: what is lost stays below a fifth.
_ACCURATE = 1.2


def _queries(data: Dataset, rng: np.random.Generator) -> dict[str, list[Index]]:
    """Return the kinds of sets: single values, random ones, and those that belong together."""
    singles = [np.array([value]) for value in range(data.d)]
    random = [rng.choice(data.d, _MEMBERS, replace=False) for _ in range(_RANDOM_SETS)]
    categories = [np.asarray(members) for members in data.sets["category"]]
    return {"values": singles, "random sets": random, "categories": categories}


def _regret(
    data: Dataset, sets: list[Index], epsilon: float, draws: int, rng: np.random.Generator
) -> float:
    """Return the mean error of the methods that simulation chooses over that of the best one."""
    oracle = OUE(epsilon, data.d)
    members = membership(sets, data.d)
    truth = totals(data.frequencies, members)
    errors: dict[str, list[float]] = {name: [] for name in _CHOSEN_FROM}
    of_choice = []
    for _ in range(draws):
        raw = oracle.estimate(oracle.simulate_counts(data.counts, rng), data.n)
        for name in _CHOSEN_FROM:
            answers = totals(METHODS[name].solve(raw).frequencies, members)
            errors[name].append(float(np.mean((answers - truth) ** 2)))
        choice = select_method(raw, sets, _CHOSEN_FROM, trials=10, rng=rng)
        of_choice.append(errors[choice.simulated][-1])
    # The best method for all draws, which knows the truth.
    best = min(np.mean(values) for values in errors.values())
    return float(np.mean(of_choice) / best)


@claim(
    "choice-by-simulation",
    "N V-D; ours",
    "Norm-Sub's synthetic data choose a method whose error is within a fifth of the best one's for "
    "single values and for random sets; for categories the choices cost more than that at ε = 0.5.",
    Verdict.HOLDS,
)
def choice_by_simulation(instances: InstanceSet) -> Finding:
    """Choose by simulation among five methods on emoji, for three kinds of query.

    Red if the error of the choices for values or random sets is more than a fifth above that of the
    best method at some budget, or if for categories it is not at the smallest budget: the synthetic
    data have Norm-Sub's sums of categories, and believe its error to be small.
    """
    data = datasets.load("emoji")
    rng = instances.rng()
    queries = _queries(data, rng)
    budgets = (0.5,) if instances.quick else (0.5, 1.0, 2.0)
    # Nine answers have far more noise than hundreds.
    few, many = (30, 100) if instances.quick else (60, 200)
    draws = {"values": few, "random sets": few, "categories": many}
    regrets = {}
    evidence: dict[str, float | int | str] = {}
    for kind, sets in queries.items():
        of_kind = [_regret(data, sets, epsilon, draws[kind], rng) for epsilon in budgets]
        regrets[kind] = of_kind
        heading = f"{kind}: error of the choices over the best method's, by budget"
        evidence[heading] = ", ".join(f"{regret:.3f}" for regret in of_kind)
    accurate = max(*regrets["values"], *regrets["random sets"])
    stated = ", ".join(f"{epsilon:g}" for epsilon in budgets)
    evidence["data"] = f"OUE, ε = {stated}, emoji as bundled, {', '.join(_CHOSEN_FROM)}"
    return Finding(
        holds=accurate < _ACCURATE and regrets["categories"][0] > _ACCURATE,
        instances=sum(draws.values()) * len(budgets),
        evidence=evidence,
    )
