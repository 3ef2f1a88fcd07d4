"""The search for a closed form: all compositions of operators in order of length.

Compositions share prefixes: each one is kept with its values on the inputs of a screen, and every
operator is applied to the values of many prefixes at once. What has the same values as an earlier
composition is equal to it there, and so are all its extensions: they are not run. What a screen
does not refute is certified on every input. An input that refutes a survivor of the screen joins
it, and the search begins again: only then are compositions told apart that differ there.
"""

from __future__ import annotations

import heapq
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import executors, progress
from ldpopt.discovery.compositions import Composition, composed, expression_of, is_redundant
from ldpopt.discovery.judge import Screen, Verdict, certified, compared
from ldpopt.discovery.operator import Operator
from ldpopt.discovery.setting import Setting
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate

Array = NDArray[np.float64]

# Prefixes that are extended at a time. The same for any number of workers: roots of many rows at
# once differ from those of few in their last bits.
_CHUNK = 64
# Digits to which compositions with equal values are equal: roots are right to 1e-12.
_DECIMALS = 9
# Compositions that are kept because they were right on most inputs.
_NEAR = 12
# Rows of the last level from which on further processes are worth their start of two seconds.
_WORTH = 2_000_000


@dataclass(frozen=True)
class Survivor:
    """The first composition that is certified on every input, but for those without a solution."""

    operators: Composition
    verdict: Verdict
    is_rejected: NDArray[np.bool_]


@dataclass(frozen=True)
class Wrong:
    """Inputs that refute a composition which the screen has not refuted."""

    inputs: NDArray[np.int64]


@dataclass(frozen=True, order=True)
class NearMiss:
    """A refuted composition: the best are right on most inputs, of equals feasible on most."""

    right: int
    feasible: int
    # Negative, so that shorter and earlier compositions are better.
    length: int
    number: int
    operators: Composition = field(compare=False)


@dataclass
class Tally:
    """What a search has done so far."""

    tried: int = 0
    left: int = 0
    number: int = 0
    near: list[NearMiss] = field(default_factory=list)
    is_complete: bool = True

    def keep(self, operators: Composition, verdict: Verdict) -> None:
        """Keep a refuted composition if it is among the best."""
        self.number += 1
        miss = NearMiss(
            int(verdict.is_right.sum()),
            int(np.isfinite(verdict.gap).sum()),
            -len(operators),
            -self.number,
            operators,
        )
        heapq.heappush(self.near, miss)
        if len(self.near) > _NEAR:
            heapq.heappop(self.near)


@dataclass
class Search:
    """A search through all compositions up to a length.

    Attributes
    ----------
    screen
        Inputs with reference solutions.
    everything
        All inputs, on which survivors are certified.
    setting, operators, length
        The operators, their parameters, and how many are composed at most.
    ends_at
        The time, by ``time.monotonic``, from which on no further chunk is begun.
    workers, show_progress
        As of ``discover``.
    rejected
        Expressions that a certificate has refuted, or has not proven.
    tally
        What has been done.
    """

    screen: Screen
    everything: FrequencyEstimate
    setting: Setting
    operators: Sequence[Operator]
    length: int
    ends_at: float = np.inf
    workers: int | None = None
    show_progress: bool | None = None
    rejected: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)

    def run(self) -> Survivor | Wrong | None:
        """Return the first survivor of the screen with its certificates; None without one.

        It is a ``Survivor`` if it is certified on every input. It is ``Wrong`` if it is not: the
        search is then to begin again with what refutes it.
        """
        start = self.screen.estimates.frequencies
        # The identity is no composition: what leaves all values as they are is equal to it.
        seen = {_key(start)}
        level: list[tuple[Composition, Array]] = [((), start)]
        total = number_of(len(self.operators), self.length)
        self.tally.left = total
        with progress.bar(f"{total:,} compositions", total, wanted=self.show_progress) as advance:
            for depth in range(1, self.length + 1):
                deeper = total - number_of(len(self.operators), depth)
                following: list[tuple[Composition, Array]] = []
                for prefixes_left, extensions in self._extensions(level):
                    before = self.tally.left
                    self.tally.left = prefixes_left * len(self.operators) + deeper
                    advance(before - self.tally.left)
                    new = self._new(extensions, seen)
                    survivor = self._judged(new)
                    if survivor is not None:
                        return survivor
                    # What is equal to an earlier composition has equal extensions too.
                    following += new
                    if time.monotonic() > self.ends_at and self.tally.left:
                        self.tally.is_complete = False
                        return None
                level = following
        self.tally.left = 0
        return None

    def _extensions(
        self, level: Sequence[tuple[Composition, Array]]
    ) -> Iterator[tuple[int, list[tuple[Composition, Array]]]]:
        """Yield the extensions of each chunk, with how many prefixes are behind it."""
        tasks = [
            Task(level[i : i + _CHUNK], self.operators, self.setting)
            for i in range(0, len(level), _CHUNK)
        ]
        executor = executors.executor_for(self._processes(tasks))
        done = 0
        for extensions in executors.results(executor, extended, tasks):
            done += _CHUNK
            yield max(len(level) - done, 0), extensions

    def _processes(self, tasks: Sequence[Task]) -> int:
        """Return in how many processes a level is run."""
        rows = sum(len(task.prefixes) for task in tasks) * len(self.operators)
        rows *= len(self.screen.loss)
        # One chunk cannot be shared, and a few rows take less time than a process needs to start.
        if self.workers == 1 or len(tasks) == 1 or (self.workers is None and rows < _WORTH):
            return 1
        try:
            pickle.dumps((self.operators, self.setting))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            # Processes are no more than a default here: the search goes on without them.
            if self.workers is None:
                return 1
            raise InvalidInputError(
                "an operator or the loss cannot be sent to other processes: define its function "
                f"at the top of a module, or use workers=1 ({error})"
            ) from error
        return min(self.workers or os.cpu_count() or 1, len(tasks))

    def _new(
        self, extensions: Sequence[tuple[Composition, Array]], seen: set[bytes]
    ) -> list[tuple[Composition, Array]]:
        """Return the extensions that are defined on the screen and equal to no earlier one."""
        new = []
        for operators, values in extensions:
            self.tally.tried += 1
            # Undefined for one input: no extension of it is defined there.
            if not np.isfinite(values).all():
                continue
            key = _key(values)
            if key not in seen:
                seen.add(key)
                new.append((operators, values))
        return new

    def _judged(self, new: Sequence[tuple[Composition, Array]]) -> Survivor | Wrong | None:
        """Return the first composition that survives the screen; keep the others."""
        if not new:
            return None
        verdicts = compared(self.screen, np.stack([values for _, values in new]))
        for (operators, _), verdict in zip(new, verdicts, strict=True):
            if verdict.is_right.all() and expression_of(operators) not in self.rejected:
                points = composed(operators, self.everything.frequencies, self.setting)
                self._require_row_by_row(operators, points)
                whole, is_rejected = self._certified(points)
                if whole.is_right.all():
                    return Survivor(operators, whole, is_rejected)
                # It passes the screen again if a certificate fails where a reference agrees.
                self.rejected.add(expression_of(operators))
                return Wrong(np.flatnonzero(~whole.is_right & ~np.isnan(whole.gap)))
            self.tally.keep(operators, verdict)
        return None

    def _require_row_by_row(self, operators: Composition, points: Array) -> None:
        """Raise an error if a user's operator lets a row depend on other rows or on earlier calls.

        A form that is right for all inputs together would be wrong for the next estimate alone.
        """
        if not any(operator.is_own for operator in operators):
            return
        rows = self.everything.frequencies
        alone = [composed(operators, row[None], self.setting)[0] for row in rows]
        if not np.allclose(np.stack(alone), points, rtol=1e-9, atol=1e-12, equal_nan=True):
            named = ", ".join(repr(operator.name) for operator in operators if operator.is_own)
            raise InvalidInputError(
                f"the operator {named} must be a function of each row alone: one row by itself "
                "gives another result than among others, or at another call"
            )

    def _certified(self, points: Array) -> tuple[Verdict, NDArray[np.bool_]]:
        """Return the verdict on all inputs; points that are not defined somewhere are wrong."""
        defined = np.isfinite(points).all(axis=-1)
        if not defined.all():
            # Of the others nothing is known yet: they are neither right nor wrong.
            beyond = np.where(defined, np.nan, np.inf)
            return Verdict(beyond, beyond, np.zeros_like(defined)), np.zeros_like(defined)
        return certified(self.screen.solutions, self.everything, points)


class Task(NamedTuple):
    """Some prefixes with their values, to be extended by each operator."""

    prefixes: Sequence[tuple[Composition, Array]]
    operators: Sequence[Operator]
    setting: Setting


def extended(task: Task) -> list[tuple[Composition, Array]]:
    """Return every extension with its values, in the order of prefixes, then of operators.

    An operator is applied to the values of all its prefixes at once.
    """
    extensions = []
    for k, operator in enumerate(task.operators):
        chosen = [
            i
            for i, (prefix, _) in enumerate(task.prefixes)
            if not is_redundant(prefix, operator, task.setting)
        ]
        if not chosen:
            continue
        stacked = np.stack([task.prefixes[i][1] for i in chosen])
        rows = stacked.reshape(-1, stacked.shape[-1])
        applied = operator.apply(rows, task.setting).reshape(stacked.shape)
        extensions += [(i, k, values) for i, values in zip(chosen, applied, strict=True)]
    # As if each prefix had been extended on its own: the first survivor is then the same.
    extensions.sort(key=lambda extension: extension[:2])
    compositions: list[tuple[Composition, Array]] = []
    for i, k, values in extensions:
        prefix, _ = task.prefixes[i]
        compositions.append(((*prefix, task.operators[k]), values))
    return compositions


def number_of(operators: int, length: int) -> int:
    """Return how many compositions of 1 to ``length`` operators there are."""
    return sum(operators**k for k in range(1, length + 1))


def _key(values: Array) -> bytes:
    """Return what is equal for values that are equal but for rounding, whatever their size."""
    largest = np.abs(values).max(axis=-1, keepdims=True)
    # In units of the largest value of each input: beside 1, values of 1e-10 would all be 0.
    exponent = np.floor(np.log10(np.where(largest > 0, largest, 1.0)))
    scaled = values / 10.0**exponent
    # Adding 0 turns -0 into 0, which has other bytes.
    return (np.round(scaled, _DECIMALS) + 0.0).tobytes() + exponent.tobytes()
