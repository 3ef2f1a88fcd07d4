"""How far estimated risks are from the true ones: their mean over many draws, by method and oracle.

    python -m experiments.bench.risk [--draws 3000] [--oracles OUE GRR SubsetSelection] [--out FILE]

The users hold the same values in every draw and their reports are drawn anew. The bias of a cell is
the mean of the estimated squared errors less the mean of the true ones, over the latter. All rules
share the noise of the raw estimate, whose own miss has the mean 0 exactly: it is a control variate,
without which 3,000 draws leave 5 % of standard error for random halves. Nothing here is timed, so
that it may run on a busy machine.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ldpopt import METHODS, oracles
from ldpopt.datasets.dataset import apportion
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.risks import Collection, Evidence, Rule

METHOD_NAMES = (
    "base",
    "base-pos",
    "norm",
    "norm-mul",
    "norm-sub",
    "mle-apx",
    "power-ns",
    "mixture-ns",
)
ORACLES = ("OUE", "GRR", "SubsetSelection")

_D = 36
_N = 20_000
_EPSILON = 1.0
# Moves per draw. Any number leaves the estimate unbiased; over many draws few are enough.
_MOVES = 2

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bias:
    """One cell: how far the mean of the estimated risks is from that of the errors."""

    oracle: str
    method: str
    query: str
    draws: int
    bias: float
    standard_error: float


def users() -> NDArray[np.int64]:
    """Return users by value: a few frequent ones, and a long tail below the noise."""
    weights = 1 / np.arange(1.0, _D + 1) ** 1.2
    return apportion(weights / weights.sum(), _N)


def queries(rng: np.random.Generator) -> dict[str, list[Array] | None]:
    """Return the three kinds of queries by their names; None stands for the values."""
    half = _D // 2
    return {
        "values": None,
        # Neighbours by frequency, whose errors add up.
        "nine groups": list(np.array_split(np.arange(_D), 9)),
        "random halves": [rng.choice(_D, half, replace=False) for _ in range(20)],
    }


def _kept(rule: Rule) -> Rule:
    """Return a rule that processes an array of frequencies once for all kinds of queries."""
    kept: dict[bytes, FrequencyEstimate] = {}

    def answer(estimate: FrequencyEstimate) -> FrequencyEstimate:
        key = estimate.frequencies.tobytes()
        if key not in kept:
            # A draw needs the raw estimate and one stack of moves.
            if len(kept) > 2:
                kept.clear()
            kept[key] = rule(estimate)
        return kept[key]

    return answer


def misses(
    oracle: FrequencyOracle, names: Sequence[str], draws: int, seed: int
) -> dict[tuple[str, str], tuple[Array, Array]]:
    """Return, by method and kind of query, estimated less true squared errors, and the latter."""
    rng = np.random.default_rng(seed)
    kinds = queries(np.random.default_rng(0))
    true_counts = users()
    truth = true_counts / _N
    rules: dict[str, Callable[..., FrequencyEstimate]] = {
        name: _kept(METHODS[name].solve) for name in names
    }
    cells = [(name, kind) for name in names for kind in kinds]
    estimated = {cell: np.empty(draws) for cell in cells}
    true = {cell: np.empty(draws) for cell in cells}
    for draw in range(draws):
        raw = oracle.estimate(oracle.simulate_counts(true_counts, rng), _N)
        state = rng.integers(2**63)
        for kind, sets in kinds.items():
            collection = Collection(raw, sets)
            # The same moves for all kinds: every method processes one stack per draw.
            moves = collection.moves("sure", _MOVES, 0.1, np.random.default_rng(state))
            for name, rule in rules.items():
                evidence = Evidence.of(collection, rule, moves, "sure")
                answers = collection.answered(rule(raw).frequencies)
                estimated[name, kind][draw] = evidence.total
                true[name, kind][draw] = np.sum((answers - collection.answered(truth)) ** 2)
    return {cell: (estimated[cell] - true[cell], true[cell]) for cell in cells}


def _controlled(missed: Array, control: Array) -> Array:
    """Return samples with the same mean and less noise, given a control whose mean is 0."""
    covariance = np.cov(missed, control)
    return missed - covariance[0, 1] / covariance[1, 1] * control


def biases(
    oracle_names: Sequence[str], names: Sequence[str], draws: int, seed: int = 0
) -> Iterator[Bias]:
    """Yield the bias of every cell."""
    for oracle_name in oracle_names:
        oracle = getattr(oracles, oracle_name)(_EPSILON, _D)
        # The control comes first, whether it is reported or not.
        every = misses(oracle, ["base", *(name for name in names if name != "base")], draws, seed)
        for (name, kind), (missed, errors) in every.items():
            if name not in names:
                continue
            if name != "base":
                missed = _controlled(missed, every["base", kind][0])
            mean = float(np.mean(errors))
            spread = float(np.std(missed, ddof=1)) / draws**0.5
            yield Bias(
                oracle=oracle_name,
                method=name,
                query=kind,
                draws=draws,
                bias=float(np.mean(missed)) / mean,
                standard_error=spread / mean,
            )


def main() -> None:
    """Write the cells, and print the largest bias."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3_000)
    parser.add_argument("--oracles", nargs="+", default=list(ORACLES))
    parser.add_argument("--methods", nargs="+", default=list(METHOD_NAMES))
    parser.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    options = parser.parse_args()
    writer = csv.DictWriter(options.out, [field.name for field in fields(Bias)])
    writer.writeheader()
    rows = []
    for row in biases(options.oracles, options.methods, options.draws):
        rows.append(row)
        writer.writerow(asdict(row))
        options.out.flush()
    largest = max(rows, key=lambda row: abs(row.bias))
    print(f"largest: {largest}", file=sys.stderr)


if __name__ == "__main__":
    main()
