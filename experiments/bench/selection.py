"""How good the choices of ``select_method`` are: their errors over that of the best fixed method.

    python -m experiments.bench.selection [--draws 20] [--epsilon 0.5 1 2] [--out FILE.csv]

For each data set, oracle, budget and kind of query the same collections are chosen for by both
kinds of evidence, by simulation alone and by risk alone. The regret of a cell is the mean error of
the chosen methods over the mean error of the method that is best in this cell. Nothing here is
timed, so that it may run on a busy machine.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import METHODS, datasets, oracles, select_method
from ldpopt.estimate.sets import answers

DATA = ("emoji", "zipf", "beta")
ORACLES = ("OUE", "GRR", "OLH")
METHOD_NAMES = ("base", "base-pos", "norm", "norm-mul", "norm-sub")
RULES = ("both", "simulation", "risk")

_SETS = 20  # random sets per kind
_GROUPS = 9  # of values that belong together, where a data set names none
_TOP = 32


@dataclass(frozen=True)
class Regret:
    """One cell: the mean error of the chosen methods over that of the best fixed one."""

    data: str
    oracle: str
    epsilon: float
    query: str
    draws: int
    both: float
    simulation: float
    risk: float


def queries(data: datasets.Dataset, rng: np.random.Generator) -> dict[str, list[Any]]:
    """Return the five kinds of queries: sets of values by the name of the kind."""
    d = data.d
    by_size = np.argsort(-data.frequencies)
    named = data.sets.get("category")
    together = np.array_split(by_size, _GROUPS) if named is None else list(named)
    return {
        "together": together,
        "values": [[v] for v in range(d)],
        "a tenth": [rng.choice(d, d // 10, replace=False) for _ in range(_SETS)],
        "half": [rng.choice(d, d // 2, replace=False) for _ in range(_SETS)],
        "top": [[v] for v in by_size[:_TOP]],
    }


def regret(
    data: datasets.Dataset,
    oracle: oracles.FrequencyOracle,
    sets: Sequence[Any],
    *,
    draws: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return the regret of each rule in one cell."""
    truth = answers(data.frequencies, sets)
    errors = np.empty((draws, len(METHOD_NAMES)))
    chosen: dict[str, NDArray[np.float64]] = {rule: np.empty(draws) for rule in RULES}
    for draw in range(draws):
        raw = oracle.estimate(oracle.simulate_counts(data.counts, rng), data.n)
        for place, name in enumerate(METHOD_NAMES):
            given = answers(METHODS[name].solve(raw).frequencies, sets)
            errors[draw, place] = np.mean((given - truth) ** 2)
        both = select_method(raw, sets, METHOD_NAMES, trials=10, rng=rng)
        assert both.risks is not None  # both kinds of evidence
        names = {"both": both.method, "simulation": both.simulated, "risk": both.risks.best}
        for rule, name in names.items():
            chosen[rule][draw] = errors[draw, METHOD_NAMES.index(name)]
    best = errors.mean(axis=0).min()
    return {rule: float(of_draws.mean() / best) for rule, of_draws in chosen.items()}


def cells(epsilons: Sequence[float], draws: int, seed: int = 0) -> Iterator[Regret]:
    """Yield the regrets of all cells."""
    rng = np.random.default_rng(seed)
    for name in DATA:
        data = datasets.load(name)
        # The same sets for all oracles and budgets.
        kinds = queries(data, np.random.default_rng(seed))
        for oracle_name in ORACLES:
            for epsilon in epsilons:
                oracle = getattr(oracles, oracle_name)(epsilon, data.d)
                for query, sets in kinds.items():
                    ratios = regret(data, oracle, sets, draws=draws, rng=rng)
                    yield Regret(name, oracle_name, epsilon, query, draws, **ratios)


def main() -> None:
    """Print mean and worst regret of each rule, and write the cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    options = parser.parse_args()
    writer = csv.DictWriter(options.out, [field.name for field in fields(Regret)])
    writer.writeheader()
    rows = []
    for row in cells(options.epsilon, options.draws):
        rows.append(row)
        writer.writerow(asdict(row))
        options.out.flush()
    for rule in RULES:
        regrets = [getattr(row, rule) for row in rows]
        print(f"{rule}: mean {np.mean(regrets):.3f}, worst {max(regrets):.2f}", file=sys.stderr)


if __name__ == "__main__":
    main()
