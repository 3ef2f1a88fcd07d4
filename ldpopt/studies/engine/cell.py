"""A cell: one data set, oracle, number of users and budget, with all trials and measures."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ldpopt.datasets import Dataset
from ldpopt.errors import InvalidInputError, LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.studies.engine.candidate import Candidate, apply
from ldpopt.studies.engine.measures import Evaluate, Measure, Setting, declaration_of
from ldpopt.studies.engine.moments import Measured, Values
from ldpopt.studies.engine.provenance import fingerprint, made_by

_AT_A_TIME = 1 << 19  # values of a chunk of trials: what one method holds at a time
_MOST_TRIALS = 256  # of a chunk

# Parameters of a quantity whose trials are always kept: curves have a few dozen points, and 5,000
# trials of ten methods then take at most 26 MB. The values of a domain by rank are far more.
_FEW_PARAMETERS = 64

_CODE = __name__  # what this module imports is the code behind every cell


@dataclass(frozen=True)
class Cell:
    """The declaration of a cell: everything that determines its numbers, but seed and code.

    Attributes
    ----------
    population, n, d, digest
        Whose data: a name, the size, and a hash of the data themselves.
    oracle, epsilon
        A name and the budget; empty and 0 where the data themselves are shown.
    candidates, measures, trials
        What is done and measured, and how often.
    chunk
        Trials simulated at a time, each chunk from a stream of its own; 0 for as many as memory
        suggests: a function of d alone, so that results are reproducible.
    first_chunk
        Number of the cell's first chunk: cells that share the rest draw other reports.
    keeps_trials
        Whether the values of all trials are kept for every quantity. Otherwise a quantity with more
        than 64 parameters keeps its mean and covariance alone.
    """

    population: str
    n: int
    d: int
    digest: str
    oracle: str
    epsilon: float
    candidates: tuple[Candidate, ...]
    measures: tuple[Measure, ...]
    trials: int
    chunk: int = 0
    first_chunk: int = 0
    keeps_trials: bool = False

    def declaration(self) -> dict[str, Any]:
        """Return the cell as JSON takes it."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "candidates": {c.name: c.declaration() for c in self.candidates},
            "measures": [declaration_of(measure) for measure in self.measures],
        }

    @property
    def at_a_time(self) -> int:
        """Trials simulated at a time."""
        # At least one, however large the domain.
        return self.chunk or max(1, min(_MOST_TRIALS, _AT_A_TIME // self.d))

    @property
    def cost(self) -> float:
        """Approximate work, by which cells are ordered and the time left is estimated."""
        # Measures that simulate by themselves, such as the choice of a method, cost far more.
        inner = sum(getattr(m, "trials", 0) * len(getattr(m, "fits", ())) for m in self.measures)
        return 1e5 + self.trials * self.d * len(self.candidates) * (1 + inner)

    def generator(self, seed: int, *branch: int | str) -> np.random.Generator:
        """Return the generator of one use, spawned from the seed by the identity of the cell.

        Candidates, measures and the number of trials are not part of that identity: all cells on
        the same population, oracle and budget see the same reports.
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
    """All that the computation of a cell needs, and what determines the name of its result.

    Attributes
    ----------
    cell, data, seed
        What is computed, for whom.
    oracle
        None where the data themselves are shown.
    made_by
        What the numbers follow from besides, by name: see ``provenance_of``. Empty where nothing is
        kept.
    run
        The name of a run whose cells share draws: a process then keeps its last ones.
    """

    cell: Cell
    data: Dataset
    oracle: FrequencyOracle | None
    seed: int
    made_by: Mapping[str, str] = field(default_factory=dict)
    run: str = ""

    @cached_property
    def identity(self) -> str:
        """Hash of declaration and seed: what is computed, whatever the code that does it."""
        declaration = self.cell.declaration() | {"seed": self.seed}
        return _digest(declaration)

    @cached_property
    def key(self) -> str:
        """Name of the result: a hash of identity and provenance, ``made_by``.

        A result of other data or code has another name, so that it is never found by mistake.
        """
        return _digest({"identity": self.identity, "made_by": dict(self.made_by)})


def provenance_of(
    candidates: Sequence[Candidate], measures: Sequence[Measure], oracle: FrequencyOracle | None
) -> dict[str, str]:
    """Return what numbers follow from besides data and seed: sources and versions, by name.

    Raises
    ------
    InvalidInputError
        If something of the user's cannot be looked into.

    Notes
    -----
    Cost: a second or two at first, when the sources are read; milliseconds then.
    """
    methods = {
        f"the method {candidate.name}": fingerprint(candidate.own_parts)
        for candidate in candidates
        if candidate.own_parts
    }
    metrics = {
        f"the metric {getattr(m, 'name', type(m).__name__)}": fingerprint(m) for m in measures
    }
    return {**made_by(_CODE), **methods, **metrics, "the oracle": fingerprint(oracle)}


def _title_of(measure: Measure) -> str:
    """Return a metric's name, or else that of its class."""
    return str(getattr(measure, "name", type(measure).__name__))


def _digest(record: dict[str, Any]) -> str:
    # Sorted, so that the order of fields in the code is not part of the name.
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """A computed cell: what was measured, its seconds, and the seconds of each candidate."""

    measured: tuple[Measured, ...]
    seconds: float
    method_seconds: dict[str, float] = field(default_factory=dict)


def compute(task: Task) -> Outcome:
    """Simulate, post-process and measure all trials of a cell, a chunk at a time."""
    cell = task.cell
    start = time.perf_counter()
    setting = Setting(task.data, task.oracle, cell.candidates)
    evaluations = [m.start(setting) for m in cell.measures]
    if task.oracle is None:
        # The data themselves are measured: there are no trials.
        values = [part for evaluate in evaluations for part in evaluate(None, {}, None)]
        return Outcome(_kept(cell, values), time.perf_counter() - start)

    candidates = cell.candidates
    reports = _simulated
    if task.run:
        _memory.begin(task.run)
        candidates = _memory.candidates(task)
        reports = _memory.reports
    total: tuple[Measured, ...] = ()
    seconds: dict[str, float] = {}
    for number, trials in _chunks(cell):
        raw = reports(task, number, trials)
        # A stream of its own: measures that simulate leave the reports as they are.
        inner = cell.generator(task.seed, "inner", number)
        measured = _measured(candidates, raw, evaluations, inner, seconds)
        part = _kept(cell, measured)
        # Merged chunk by chunk: of what is large, memory does not grow with the number of trials.
        total = tuple(map(_merged, total, part)) if total else part
    return Outcome(total, time.perf_counter() - start, seconds)


def _chunks(cell: Cell) -> Iterator[tuple[int, int]]:
    """Yield number and trials of each chunk; only the last may have fewer than the others."""
    for place, first in enumerate(range(0, cell.trials, cell.at_a_time)):
        yield cell.first_chunk + place, min(cell.at_a_time, cell.trials - first)


# Draws that a process holds. Two, since the cells of two budgets may come in turn.
_DRAWS = 2


class _RunMemory:
    """What a process keeps of a run for its next cells: the last draws, and the candidates.

    A candidate that came by pickle would otherwise compile its problem anew for each cell.
    """

    def __init__(self) -> None:
        self._run = ""
        self._drawn: OrderedDict[tuple[Any, ...], FrequencyEstimate] = OrderedDict()
        self._candidates: dict[str, Candidate] = {}

    def begin(self, run: str) -> None:
        """Forget what belongs to another run."""
        if run != self._run:
            self._run = run
            self._drawn.clear()
            self._candidates.clear()

    def candidates(self, task: Task) -> tuple[Candidate, ...]:
        """Return the task's candidates: those that an earlier cell has used, if there are any."""
        return tuple(self._candidates.setdefault(c.name, c) for c in task.cell.candidates)

    def reports(self, task: Task, number: int, trials: int) -> FrequencyEstimate:
        """Return the raw estimates of a chunk: drawn, or those of a cell on the same draws."""
        cell = task.cell
        key = (cell.population, cell.n, cell.oracle, cell.epsilon, number, trials)
        if key not in self._drawn:
            self._drawn[key] = _simulated(task, number, trials)
            while len(self._drawn) > _DRAWS:
                self._drawn.popitem(last=False)
        return self._drawn[key]


_memory = _RunMemory()


def _simulated(task: Task, number: int, trials: int) -> FrequencyEstimate:
    assert task.oracle is not None  # compute has returned if there is no oracle
    rng = task.cell.generator(task.seed, "reports", number)
    counts = task.oracle.simulate_counts(task.data.counts, rng, trials=trials)
    return task.oracle.estimate(counts, task.data.n, labels=task.data.labels)


def _measured(
    candidates: Sequence[Candidate],
    raw: FrequencyEstimate,
    evaluations: Sequence[Evaluate],
    rng: np.random.Generator,
    seconds: dict[str, float],
) -> list[Values]:
    """Return what is measured on a chunk of trials, and add to the seconds of each candidate."""
    with warnings.catch_warnings():
        # A power law without an exponent falls back to its limit: with little signal this is one
        # of the results.
        warnings.simplefilter("ignore", LdpoptWarning)
        estimates = apply(candidates, raw, seconds)
        return [values for evaluate in evaluations for values in evaluate(raw, estimates, rng)]


def _kept(cell: Cell, measured: Sequence[Values]) -> tuple[Measured, ...]:
    """Return values, or their moments where they are many and the cell keeps no more.

    Values of the same trials in another cell can be compared with them in pairs later.
    """
    return tuple(
        values
        if cell.keeps_trials or len(values.parameters) <= _FEW_PARAMETERS
        else values.moments()
        for values in measured
    )


def _merged(first: Measured, second: Measured) -> Measured:
    """Return what was measured on both groups of trials."""
    return first.merged(second)  # type: ignore[arg-type]  # a cell keeps one kind


def digest_of(data: Dataset) -> str:
    """Return a short hash of counts, labels and sets: results of other data are not reused."""
    text = hashlib.sha256(data.counts.tobytes())
    # A method or a metric may read labels. As JSON: joined, two lists might read the same.
    text.update(json.dumps(data.labels).encode())
    # Sorted: the order in which families are declared changes no result.
    for family in sorted(data.sets):
        text.update(family.encode())
        for members in data.sets[family]:
            # The separator tells {1}, {2} from {1, 2}.
            text.update(np.asarray(members, dtype=np.int64).tobytes() + b";")
    return text.hexdigest()[:16]


def require_sendable(tasks: Sequence[Task]) -> None:
    """Raise an error that names what cannot be sent to other processes.

    Raises
    ------
    InvalidInputError
        If a candidate or a metric is a lambda, or a function inside another one.
    """
    import pickle

    for task in tasks:
        parts: list[tuple[str, Any]]
        parts = [(f"the method {c.name!r}", c) for c in task.cell.candidates]
        parts += [(f"the metric {m!r}", m) for m in task.cell.measures]
        for name, part in parts:
            try:
                pickle.dumps(part)
            # Each kind of object fails in its own way.
            except Exception as error:
                raise InvalidInputError(
                    f"{name} cannot be sent to other processes ({error}): define its functions at "
                    "the top of a module that can be imported, or use workers=1"
                ) from None
