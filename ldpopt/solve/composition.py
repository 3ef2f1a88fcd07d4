"""Two problems in turn: the solution of the first states the second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.traced import warn_unless_raw_noise
from ldpopt.solve.acceptance.judge import Judgement, judge
from ldpopt.solve.certificate import Certificate, certify
from ldpopt.solve.certificate.certificate import of_trials
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.problem import Problem
from ldpopt.solve.solution import Solution
from ldpopt.solve.status import Status

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Composition:
    """A problem whose constraints depend on the estimate, through the solution of another problem.

    Parameters
    ----------
    first
        The problem that is solved first. It also states which estimates are accepted.
    stated_by
        From one vector to the problem that its solution of ``first`` states.
    closed_form
        The closed form of that problem, for a stack of trials at once; None where each trial's own
        problem is solved.
    name
        What ``Solution.solver`` calls it.
    formula
        Both problems in the papers' letters.
    """

    first: Problem
    stated_by: Callable[[FrequencyEstimate], Problem]
    closed_form: Callable[[FrequencyEstimate], Array] | None
    name: str
    formula: str

    def __repr__(self) -> str:
        return f"Composition({self.formula})"

    def problem_for(self, estimate: FrequencyEstimate | ArrayLike) -> Problem:
        """Return the problem that one vector states; an error is raised as by ``first``."""
        # Checked first: the second problem is built from numbers of the estimate.
        return self.stated_by(self.first.accept(estimate))

    def minimise(self, estimate: FrequencyEstimate | ArrayLike) -> Array:
        """Return the frequencies of ``solve(estimate)`` alone; errors are those of ``first``."""
        start = self._accepted(estimate)
        if self.closed_form is not None:
            return self.closed_form(start)
        return _minimisers(self._stated(start), start)

    def solve(self, estimate: FrequencyEstimate | ArrayLike) -> Solution:
        """Return the minimiser for one vector or a stack of trials.

        Other paths are those of ``problem_for(vector).solve``. An estimate that ``first`` does
        not accept raises its error. Cost: that of the closed form, which ``minimise`` alone takes,
        and for each trial 1 ms, in which its own problem is stated and its point judged.

        Warns
        -----
        LdpoptWarning
            As ``Problem.solve``.
        """
        start = self._accepted(estimate)
        began = time.perf_counter()
        if self.closed_form is None:
            stated = self._stated(start)
            frequencies = _minimisers(stated, start)
            seconds = time.perf_counter() - began
        else:
            frequencies = self.closed_form(start)
            # As for a problem, the clock stops before anything is judged.
            seconds = time.perf_counter() - began
            stated = self._stated(start)
        judgement = _judged(stated, start, frequencies, self.name)
        if judgement.status is not Status.OPTIMAL:
            warn(f"the solution is inaccurate: {judgement.reason}; see its certificate")
        return ComposedSolution(
            # The first problem stands for what was accepted; each trial has stated its own.
            self.first,
            start,
            frequencies,
            judgement.status,
            "closed-form",
            self.name,
            seconds,
            stated=stated,
        )

    def _accepted(self, estimate: FrequencyEstimate | ArrayLike) -> FrequencyEstimate:
        """Return an estimate that ``first`` accepts; an error is raised as by it."""
        start = self.first.accept(estimate)
        if self.first.loss.uses_noise:
            # The closed form does not pass through ``Problem.solve``, which would warn.
            warn_unless_raw_noise(start)
        return start

    # A stack has no single problem, so that each trial is solved and certified for its own.
    def _stated(self, start: FrequencyEstimate) -> tuple[Problem, ...]:
        """Return the problem that each trial states, in the order of ``np.ndindex``."""
        return tuple(self.stated_by(start[trial]) for trial in _trials(start.frequencies))


@dataclass(frozen=True, eq=False, repr=False)
class ComposedSolution(Solution):
    """The solution of a composition; ``problem`` is the first one, each trial states its own.

    Attributes
    ----------
    stated
        What each trial states, in the order of ``np.ndindex``.
    """

    stated: tuple[Problem, ...] = ()

    @cached_property
    def objective(self) -> Any:
        """The loss of each trial's own problem: a float, or an array with one value per trial."""
        values = [
            problem.loss.value(self.frequencies[trial], self.start[trial])
            for trial, problem in self._of_trials()
        ]
        shape = self.frequencies.shape[:-1]
        return np.reshape(values, shape) if shape else float(values[0])

    @cached_property
    def certificate(self) -> Certificate:
        """The proof of optimality of each trial for the problem that it states."""
        parts = [
            certify(problem, self.start[trial], self.frequencies[trial])
            for trial, problem in self._of_trials()
        ]
        return of_trials(parts, self.frequencies.shape[:-1])

    def _of_trials(self) -> Iterator[tuple[tuple[int, ...], Problem]]:
        """Return each trial with its problem."""
        return zip(_trials(self.frequencies), self.stated, strict=True)


def _trials(f: Array) -> Iterator[tuple[int, ...]]:
    """Return the index of each vector of a stack, the empty one of a single vector."""
    return np.ndindex(f.shape[:-1])


def _minimisers(stated: Sequence[Problem], start: FrequencyEstimate) -> Array:
    """Return the minimiser of each trial's own problem, in the shape of the estimate."""
    result = np.empty_like(start.frequencies)
    for trial, problem in zip(_trials(result), stated, strict=True):
        result[trial] = problem.minimise(start[trial])
    return result


def _judged(
    stated: Sequence[Problem], start: FrequencyEstimate, frequencies: Array, name: str
) -> Judgement:
    """Return the judgement of the first point that is not optimal, or that all are."""
    for trial, problem in zip(_trials(frequencies), stated, strict=True):
        about = start[trial]
        formulation = problem.at(about)
        plan = Plan("closed-form", name, formulation, "")
        # What overflows proves nothing, and the reason says so.
        with np.errstate(over="ignore", invalid="ignore"):
            judgement = judge(formulation, about, Outcome(frequencies[trial]), plan, "high")
        if judgement.status is not Status.OPTIMAL:
            return judgement
    return Judgement(Status.OPTIMAL, "")
