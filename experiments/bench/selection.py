"""How good the choices of ``select_method`` are: their errors over that of the best fixed method.

    python -m experiments.bench.selection [--draws 20] [--again 400] [--data emoji INCOME ...]

For each data set, oracle, budget and kind of query the same collections are chosen for by both
kinds of evidence, by simulation alone and by risk alone. Where the first two name two methods, the
mean of their answers is judged too. The regret of a cell is the mean error over the mean error of
the method that is best in this cell; the standard error, of the mean's regret, is that of a ratio
of means. The largest of many noisy regrets is too large: each cell where it exceeds 1.20 with this
error is measured again, on ``--again`` draws of other seeds.
Nothing here is timed, so that it may run on a busy machine.

The four data sets of the papers are 180 cells. The others are kept aside: no rule was chosen by
them. They are read from the folder ``LDPOPT_DATA``. Each data set has a seed of its own, so that
they may run one by one. ``experiments/results/selection.csv`` has what was measured.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.priors_study import USERS, true_counts
from ldpopt import METHODS, datasets, oracles, select_method
from ldpopt.estimate.sets import answers

DATA = ("emoji", "zipf", "beta", "us-cities")
KEPT_ASIDE = ("HEPTH", "INCOME", "PATENT", "SEARCHLOGS")
ORACLES = ("OUE", "GRR", "OLH")
METHOD_NAMES = ("base", "base-pos", "norm", "norm-mul", "norm-sub")
RULES = ("both", "mean", "simulation", "risk")

_SETS = 20  # random sets per kind
_GROUPS = 9  # of values that belong together, where a data set names none
_TOP = 32
_VALUES = 1_024  # of larger domains a sample of so many values: each is a set of its own
_SUSPECT = 1.20  # regret and standard error above which a cell is measured again


@dataclass(frozen=True)
class Regret:
    """One cell: the mean error of the chosen methods over that of the best fixed one."""

    data: str
    oracle: str
    epsilon: float
    query: str
    draws: int
    both: float
    mean: float
    simulation: float
    risk: float
    standard_error: float  # of ``mean``


def data_of(name: str) -> datasets.Dataset:
    """Return a data set by its name; one kept aside is read from ``LDPOPT_DATA``."""
    if name in KEPT_ASIDE:
        counts = true_counts(name)
        labels = tuple(str(value) for value in range(len(counts)))
        return datasets.Dataset(name, counts, labels, "DPBench")
    data = datasets.load(name)
    # All inhabitants of the cities leave no noise to choose by: the papers' sample of them does.
    return data.scaled(USERS[name]) if name == "us-cities" else data


def queries(data: datasets.Dataset, rng: np.random.Generator) -> dict[str, list[Any]]:
    """Return the five kinds of queries: sets of values by the name of the kind."""
    d = data.d
    by_size = np.argsort(-data.frequencies)
    named = data.sets.get("category", data.sets.get("division"))
    together = np.array_split(by_size, _GROUPS) if named is None else list(named)
    return {
        "together": together,
        "values": [[v] for v in np.sort(rng.permutation(d)[:_VALUES])],
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
    """Return the regret of each rule in one cell, and the standard error of the mean's."""
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
        assert both.estimate is not None  # each of these methods has an answer
        chosen["mean"][draw] = np.mean((answers(both.estimate.frequencies, sets) - truth) ** 2)
    best = errors[:, errors.mean(axis=0).argmin()]
    ratios = {rule: float(of_draws.mean() / best.mean()) for rule, of_draws in chosen.items()}
    # Of a ratio of means: the spread of what is left of the errors once the ratio is taken out.
    left = chosen["mean"] - ratios["mean"] * best
    ratios["standard_error"] = float(np.std(left, ddof=1) / best.mean() / draws**0.5)
    return ratios


def cells(
    names: Sequence[str], epsilons: Sequence[float], draws: int, seed: int = 0
) -> Iterator[Regret]:
    """Yield the regrets of all cells of these data sets."""
    for name in names:
        rng = np.random.default_rng([seed, *name.encode()])
        data = data_of(name)
        # The same sets for all oracles and budgets.
        kinds = queries(data, np.random.default_rng(seed))
        for oracle_name in ORACLES:
            for epsilon in epsilons:
                oracle = getattr(oracles, oracle_name)(epsilon, data.d)
                for query, sets in kinds.items():
                    ratios = regret(data, oracle, sets, draws=draws, rng=rng)
                    yield Regret(name, oracle_name, epsilon, query, draws, **ratios)


def again(cell: Regret, draws: int, seed: int = 0) -> Regret:
    """Return a cell as other draws show it."""
    data = data_of(cell.data)
    sets = queries(data, np.random.default_rng(seed))[cell.query]
    oracle = getattr(oracles, cell.oracle)(cell.epsilon, data.d)
    text = f"{cell.data} {cell.oracle} {cell.epsilon} {cell.query}"
    rng = np.random.default_rng([seed, *text.encode()])
    ratios = regret(data, oracle, sets, draws=draws, rng=rng)
    return replace(cell, draws=draws, **ratios)


def main() -> None:
    """Print mean and worst regret of each rule, and write the cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--again", type=int, default=400)
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=[*DATA, *KEPT_ASIDE])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    options = parser.parse_args()
    writer = csv.DictWriter(options.out, [field.name for field in fields(Regret)])
    writer.writeheader()
    rows = []
    for row in cells(options.data, options.epsilon, options.draws):
        if max(row.both, row.mean) + row.standard_error > _SUSPECT:
            row = again(row, options.again)
        rows.append(row)
        writer.writerow(asdict(row))
        options.out.flush()
    worst = max(rows, key=lambda row: row.mean)
    print(f"worst: {worst}", file=sys.stderr)
    for rule in RULES:
        regrets = [getattr(row, rule) for row in rows]
        print(f"{rule}: mean {np.mean(regrets):.3f}, worst {max(regrets):.2f}", file=sys.stderr)


if __name__ == "__main__":
    main()
