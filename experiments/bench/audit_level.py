"""How often ``problem.audit`` refutes constraints: true ones, and false ones that double the risk.

    python -m experiments.bench.audit_level [--draws 2000] [--cells NAME ...] [--out FILE.csv]

The constraint holds for the users of every collection, whose reports are drawn anew; those of
several sources are drawn from one population, for which it holds. A false census has as much moved
from the first group to the last as makes least squares under it err twice as much as without it, on
the mean of 60 collections. The share of p-values of at most
.05 has the standard error beside it. Nothing here is timed, so that it may run on a busy machine.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ldpopt import FrequencyEstimate, Problem, Source, Sources, oracles
from ldpopt.constraints import Constraint, GroupTotals, Monotone, NonNegative, SumsTo
from ldpopt.losses import LeastSquares
from ldpopt.oracles.base import FrequencyOracle

Array = NDArray[np.float64]
Collect = Callable[[Array, np.random.Generator], FrequencyEstimate | Sources]

_D = 20
_N = 20_000
_LEVEL = 0.05
# The smallest number with which .05 is a p-value: (1 + 1)/(1 + 39).
_TRIALS = 39

_GROUPS = [list(group) for group in np.array_split(np.arange(_D), 4)]
# Multiples of 1/n, so that they are frequencies of users.
_FALLING = np.arange(1.95, 0, -0.1) / _D
_EQUAL = np.full(_D, 1 / _D)
_HALF_EMPTY = np.where(np.arange(_D) < _D // 2, 2 / _D, 0.0)


@dataclass(frozen=True)
class Refuted:
    """One cell: the share of collections that refute its constraint."""

    cell: str
    draws: int
    share: float
    standard_error: float
    mean_p_value: float  # 1/2 where the law is the right one


def sampled(
    oracle: FrequencyOracle, n: int, truth: Array, rng: np.random.Generator
) -> FrequencyEstimate:
    """Return the estimate of n users drawn from the truth."""
    users = rng.multinomial(n, truth)
    return oracle.estimate(oracle.simulate_counts(users, rng), n)


def by(name: str) -> Collect:
    """Return how one oracle collects."""
    oracle = getattr(oracles, name)(1.0, _D)

    def collect(truth: Array, rng: np.random.Generator) -> FrequencyEstimate:
        # An audit of one collection is about its own users.
        users = np.rint(_N * truth).astype(np.int64)
        return oracle.estimate(oracle.simulate_counts(users, rng), _N)

    return collect


def by_two(truth: Array, rng: np.random.Generator) -> Sources:
    """Return collections of the values by two oracles."""
    weak = sampled(oracles.OUE(1.0, _D), _N, truth, rng)
    return Sources([weak, sampled(oracles.GRR(2.0, _D), _N // 2, truth, rng)])


def by_groups(truth: Array, rng: np.random.Generator) -> Sources:
    """Return a collection of the values and one of the groups."""
    totals = np.array([truth[group].sum() for group in _GROUPS])
    of_groups = sampled(oracles.GRR(1.0, len(_GROUPS)), _N // 2, totals, rng)
    values = sampled(oracles.OUE(1.0, _D), _N, truth, rng)
    return Sources([values, Source(of_groups, groups=_GROUPS)])


def census(truth: Array, moved: float = 0.0) -> Constraint:
    """Return the totals of the groups, with a share moved from the first one to the last."""
    totals = np.array([truth[group].sum() for group in _GROUPS])
    totals[0] -= moved
    totals[-1] += moved
    return GroupTotals(_GROUPS, totals)


_ORDER = Monotone(np.arange(_D))

CELLS: dict[str, tuple[Constraint, Array, Collect]] = {
    "census, OUE": (census(_FALLING), _FALLING, by("OUE")),
    "census, GRR": (census(_FALLING), _FALLING, by("GRR")),
    "census, Hadamard response": (census(_FALLING), _FALLING, by("HadamardResponse")),
    "order of equal values, OUE": (_ORDER, _EQUAL, by("OUE")),
    "order of falling values, OUE": (_ORDER, _FALLING, by("OUE")),
    "signs, half of the values empty, OUE": (NonNegative(), _HALF_EMPTY, by("OUE")),
    "signs, half of the values empty, GRR": (NonNegative(), _HALF_EMPTY, by("GRR")),
    "census, two sources": (census(_FALLING), _FALLING, by_two),
    "census, values and groups": (census(_FALLING), _FALLING, by_groups),
    "order of equal values, values and groups": (_ORDER, _EQUAL, by_groups),
    "false census, OUE": (census(_FALLING, 0.0955), _FALLING, by("OUE")),
    "false census, GRR": (census(_FALLING, 0.1365), _FALLING, by("GRR")),
}


def refuted(cell: str, draws: int) -> Refuted:
    """Return how often one cell refutes its constraint."""
    constraint, truth, collect = CELLS[cell]
    problem = Problem(LeastSquares(), [constraint, SumsTo(1.0)])
    rng = np.random.default_rng(0)
    values = np.empty(draws)
    for draw in range(draws):
        collected = collect(truth, rng)
        audit = problem.audit(collected, trials=_TRIALS, rng=rng)
        values[draw] = audit.rows[0].p_value
    # p-values are multiples of 1/40, which rounding may lift above .05.
    share = float(np.mean(values <= _LEVEL + 1e-9))
    return Refuted(cell, draws, share, (share * (1 - share) / draws) ** 0.5, float(np.mean(values)))


def main() -> None:
    """Write the cells as they are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    options = parser.parse_args()
    writer = csv.DictWriter(options.out, [field.name for field in fields(Refuted)])
    writer.writeheader()
    for cell in options.cells:
        writer.writerow(asdict(refuted(cell, options.draws)))
        options.out.flush()


if __name__ == "__main__":
    main()
