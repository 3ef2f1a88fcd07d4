"""A cell: one population, oracle, number of users and budget, with all trials and measures."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from experiments.cells import treatments
from experiments.cells.measures import Evaluate, Measure
from experiments.cells.moments import Moments
from experiments.provenance import made_by
from ldpopt import FrequencyEstimate, oracles
from ldpopt.datasets import Dataset
from ldpopt.errors import LdpoptWarning
from ldpopt.oracles.base import FrequencyOracle

FORMAT = 1  # of the records in the results file: raise it when they get another form

ORACLES: Mapping[str, Callable[..., FrequencyOracle]] = {
    "olh": oracles.OLH,  # N: g is the nearest integer to e^ε + 1
    "olh-floor": partial(oracles.OLH, rounding="floor"),  # D
    "oue": oracles.OUE,
}

_AT_A_TIME = 1 << 19  # values of a chunk of trials: what one method holds at a time
_MOST_TRIALS = 256  # of a chunk


@dataclass(frozen=True)
class Cell:
    """The declaration of a cell: everything that its numbers follow from, but the seed.

    Attributes
    ----------
    population, n, d, digest
        Whose data: a name in POPULATIONS, its size, and a hash of the data themselves.
    oracle, epsilon
        A name in ORACLES and the budget; empty and 0 where the data themselves are shown.
    methods, measures, trials
        What is done and measured, and how often.
    """

    population: str
    n: int
    d: int
    digest: str
    oracle: str
    epsilon: float
    methods: tuple[str, ...]
    measures: tuple[Measure, ...]
    trials: int

    def declaration(self) -> dict[str, Any]:
        """Return the cell as JSON takes it."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            # By their steps: a treatment that is redefined must not find the numbers of its old
            # meaning.
            "methods": {name: treatments.TREATMENTS[name].steps for name in self.methods},
            "measures": [{"measure": type(m).__name__} | asdict(m) for m in self.measures],
        }

    def key(self, seed: int) -> str:
        """Return the name of the result: a hash of declaration, seed, code and versions.

        A result of other data or code has another name, so that it is never found by mistake.
        """
        # Sorted, so that the order of fields in the code is not part of the name.
        text = json.dumps(self.declaration() | {"seed": seed} | made_by("cells"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def chunk(self) -> int:
        """Trials simulated at a time: a function of d alone, so that results are reproducible."""
        # At least one, however large the domain.
        return max(1, min(_MOST_TRIALS, _AT_A_TIME // self.d))

    @property
    def cost(self) -> float:
        """Rough work, to order cells and to tell the time left."""
        # Measures that simulate by themselves, such as the choice of a method, cost far more.
        inner = sum(getattr(m, "trials", 0) * len(getattr(m, "fits", ())) for m in self.measures)
        return 1e5 + self.trials * self.d * len(self.methods) * (1 + inner)

    def generator(self, seed: int, *branch: int | str) -> np.random.Generator:
        """Return the generator of one use, spawned from the seed by the identity of the cell.

        Methods, measures and the number of trials are not part of that identity: all experiments
        on the same population, oracle and budget see the same reports.
        """
        # By what the cell is, and not by its place in the run: it draws the same first or last,
        # alone or beside others, in any process.
        identity = json.dumps([self.population, self.n, self.oracle, self.epsilon, *branch])
        spawn_key = np.frombuffer(hashlib.sha256(identity.encode()).digest(), dtype="<u4")
        return np.random.default_rng(
            np.random.SeedSequence(seed, spawn_key=tuple(map(int, spawn_key)))
        )


@dataclass(frozen=True)
class Task:
    """A cell with its data and seed: all that its computation needs."""

    cell: Cell
    data: Dataset
    seed: int

    @property
    def key(self) -> str:
        """Name of the result."""
        return self.cell.key(self.seed)


@dataclass(frozen=True)
class Outcome:
    """A computed cell: its moments, its seconds, and the seconds of each method."""

    moments: tuple[Moments, ...]
    seconds: float
    method_seconds: dict[str, float] = field(default_factory=dict)


def compute(task: Task) -> Outcome:
    """Simulate, post-process and measure all trials of a cell, a chunk at a time."""
    cell = task.cell
    data = task.data
    seed = task.seed
    start = time.perf_counter()
    # In the worker: an oracle is cheaper to make than to send.
    oracle = ORACLES[cell.oracle](cell.epsilon, data.d) if cell.oracle else None
    # Sets are drawn before the first trial, and are the same for all of them.
    evaluations = [
        m.start(data, oracle, cell.generator(seed, "sets", type(m).__name__)) for m in cell.measures
    ]
    if oracle is None:
        # The data themselves are measured: there are no trials.
        moments = [part for evaluate in evaluations for part in evaluate(None, {}, None)]
        return Outcome(tuple(moments), time.perf_counter() - start)

    total: list[Moments] = []
    seconds: dict[str, float] = {}
    for number, trials in enumerate(_chunks(cell)):
        counts = oracle.simulate_counts(
            data.counts, cell.generator(seed, "reports", number), trials=trials
        )
        raw = oracle.estimate(counts, data.n)
        # A stream of its own: measures that simulate leave the reports as they are.
        inner = cell.generator(seed, "inner", number)
        part = _measured(cell, raw, evaluations, inner, seconds)
        # Merged chunk by chunk: memory does not grow with the number of trials.
        total = [a.merged(b) for a, b in zip(total, part, strict=True)] if total else part
    return Outcome(tuple(total), time.perf_counter() - start, seconds)


def _chunks(cell: Cell) -> Iterator[int]:
    """Yield how many trials each chunk has; only the last may have fewer than the others."""
    for first in range(0, cell.trials, cell.chunk):
        yield min(cell.chunk, cell.trials - first)


def _measured(
    cell: Cell,
    raw: FrequencyEstimate,
    evaluations: Sequence[Evaluate],
    rng: np.random.Generator,
    seconds: dict[str, float],
) -> list[Moments]:
    """Return the moments of a chunk of trials, and add to the seconds of each method."""
    with warnings.catch_warnings():
        # A power law without an exponent falls back to its limit: with little signal this is one
        # of the results.
        warnings.simplefilter("ignore", LdpoptWarning)
        estimates = treatments.apply(cell.methods, raw, seconds)
        return [moments for evaluate in evaluations for moments in evaluate(raw, estimates, rng)]
