"""Two problems in turn: the solution of the first states the second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.traced import warn_unless_raw_noise
from ldpopt.solve.certificate import Certificate, certify
from ldpopt.solve.certificate.certificate import of_trials
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
        The closed form of that problem, for a stack of trials at once.
    name
        What ``Solution.solver`` calls it.
    formula
        Both problems in the papers' letters.
    """

    first: Problem
    stated_by: Callable[[FrequencyEstimate], Problem]
    closed_form: Callable[[FrequencyEstimate], Array]
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
        return self._minimised(self.first.accept(estimate))

    def _minimised(self, start: FrequencyEstimate) -> Array:
        """Return the minimiser for an estimate that ``first`` has accepted."""
        if self.first.loss.uses_noise:
            # The closed form does not pass through ``Problem.solve``, which would warn.
            warn_unless_raw_noise(start)
        return self.closed_form(start)

    def solve(self, estimate: FrequencyEstimate | ArrayLike) -> Solution:
        """Return the minimiser for one vector or a stack of trials.

        Other paths are those of ``problem_for(vector).solve``. An estimate that ``first`` does
        not accept raises its error. Cost: that of the closed form; the certificate, on demand,
        takes one problem per trial.
        """
        start = self.first.accept(estimate)
        began = time.perf_counter()
        frequencies = self._minimised(start)
        seconds = time.perf_counter() - began
        return ComposedSolution(
            # The first problem stands for what was accepted; each trial states its own on demand.
            self.first,
            start,
            frequencies,
            Status.OPTIMAL,
            "closed-form",
            self.name,
            seconds,
            composition=self,
        )


@dataclass(frozen=True, eq=False, repr=False)
class ComposedSolution(Solution):
    """The solution of a composition; ``problem`` is the first one, each trial states its own.

    Attributes
    ----------
    composition
        What was solved.
    """

    composition: Composition | None = None

    @cached_property
    def objective(self) -> Any:
        """The loss of each trial's own problem: a float, or an array with one value per trial."""
        values = [
            problem.loss.value(self.frequencies[trial], self.start[trial])
            for trial, problem in self._stated()
        ]
        shape = self.frequencies.shape[:-1]
        return np.reshape(values, shape) if shape else float(values[0])

    @cached_property
    def certificate(self) -> Certificate:
        """The proof of optimality of each trial for the problem that it states."""
        parts = [
            certify(problem, self.start[trial], self.frequencies[trial])
            for trial, problem in self._stated()
        ]
        return of_trials(parts, self.frequencies.shape[:-1])

    # A stack has no single problem, so that each trial is certified for its own.
    def _stated(self) -> list[tuple[tuple[int, ...], Problem]]:
        """Return each trial with its problem."""
        assert self.composition is not None  # ``Composition.solve`` gives it
        shape = self.frequencies.shape[:-1]
        return [
            (trial, self.composition.stated_by(self.start[trial])) for trial in np.ndindex(shape)
        ]
