"""The path of a problem and the reason: ``explain`` prints them, ``solve`` follows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.status import Status

Path = Literal["closed-form", "iterative", "conic"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a path returned, before anything is checked.

    Attributes
    ----------
    frequencies
        The point, of the estimate's shape.
    status
        How the path itself ended.
    compile_seconds, solver_seconds
        Seconds of compilation and of the solver itself, 0 on other paths than the conic one.
    steps
        Number of steps of an iterative algorithm or of a solver, 0 of a closed form.
    stats
        Of a solver cvxpy's record of what it reports, for each trial.
    by
        The solver that a plan's own one was replaced by; empty where it was not.
    """

    frequencies: NDArray[np.float64]
    status: Status = Status.OPTIMAL
    compile_seconds: float = 0.0
    solver_seconds: float = 0.0
    steps: int = 0
    stats: tuple[Any, ...] = ()
    by: str = ""


def with_others(outcome: Outcome, points: NDArray[np.float64], others: list[Outcome]) -> Outcome:
    """Return an outcome with points that are in part those of others, at least one of them."""
    return replace(
        outcome,
        frequencies=points,
        compile_seconds=outcome.compile_seconds + sum(one.compile_seconds for one in others),
        solver_seconds=outcome.solver_seconds + sum(one.solver_seconds for one in others),
        steps=outcome.steps + sum(one.steps for one in others),
        # One name for all: trials of one problem that another solver takes are the same solver's.
        by=next((one.by for one in others if one.by), ""),
    )


Run = Callable[[], Outcome]
"""Follows a plan."""

Again = Callable[[FrequencyEstimate], Outcome]
"""Solves the problem of a plan for some of its trials in another way."""


@dataclass(frozen=True)
class Plan:
    """The path that a problem takes for an estimate.

    Attributes
    ----------
    path
        ``"closed-form"``, ``"iterative"`` or ``"conic"``; None where no path solves the problem.
    name
        The closed form, algorithm or solver; empty without a path.
    formulation, verdict
        What is solved, and the rest of a sentence about it: why by this path.
    run
        The function that follows the plan; None where no path solves the problem.
    tighter, again
        The same solver with tighter tolerances, and another one, for trials whose points turn out
        to be inaccurate; None where the caller has chosen one, and on other paths.
    """

    path: Path | None
    name: str
    formulation: Formulation
    verdict: str
    # Functions are no part of what a plan states: two plans are equal by what they would do.
    run: Run | None = field(default=None, repr=False, compare=False)
    again: Again | None = field(default=None, repr=False, compare=False)
    tighter: Again | None = field(default=None, repr=False, compare=False)

    @property
    def further_tries(self) -> tuple[Again, ...]:
        """What solves trials again whose points turn out to be inaccurate, in this order."""
        return tuple(one for one in (self.tighter, self.again) if one is not None)

    @property
    def reason(self) -> str:
        """Why this path, as a sentence that begins with the problem."""
        # Put together when it is read: stating a problem in words takes as long as to plan it.
        return f"{self.formulation.statement} {self.verdict}"

    def __str__(self) -> str:
        return f"{self.path or 'none'}: {self.reason}"
