"""Closed forms beside solvers on one realistic instance a size: difference, gap, status and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import SolverError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, LeastSquares
from ldpopt.oracles import OUE
from ldpopt.problem import Problem, Solution

_TIME_LIMIT = {"CLARABEL": "time_limit", "OSQP": "time_limit", "SCS": "time_limit_secs"}
"""What solvers call their limit on wall time."""


@dataclass(frozen=True)
class Row:
    """One solver on one problem, against the closed form. A missing number is None.

    Attributes
    ----------
    problem, d, solver, status
        What was solved, how large, by what, and how it ended.
    first_seconds, seconds
        Wall time with compilation, and of a second solve.
    slowdown
        Time of the second solve over that of the closed form.
    difference
        Largest coordinate difference to the closed form.
    gap, violation
        Of the certificate, in the loss's own units and in frequencies.
    note
        Why a solver failed.
    """

    problem: str
    d: int
    solver: str
    status: str
    first_seconds: float | None = None
    seconds: float | None = None
    slowdown: float | None = None
    difference: float | None = None
    gap: float | None = None
    violation: float | None = None
    note: str = ""


def zipf_estimate(d: int, rng: np.random.Generator, n: int = 1_000_000) -> FrequencyEstimate:
    """Return one raw OUE estimate at ε = 1 of n users with Zipf(1.5) values."""
    oracle = OUE(epsilon=1.0, d=d)
    users = apportion(np.arange(1, d + 1) ** -1.5, n)
    return oracle.estimate(oracle.simulate_counts(users, rng), n)


def compare_solvers(
    sizes: Sequence[int], solvers: Sequence[str], *, time_limit: float = 30.0, seed: int = 0
) -> Iterator[Row]:
    """Yield the closed form, then every solver, for least squares and the weighted MLE on the simplex.

    Parameters
    ----------
    sizes
        Numbers of values d, each >= 2.
    solvers
        Names of installed cvxpy solvers.
    time_limit
        Seconds after which a solver is stopped, where it knows such a limit (CLARABEL, OSQP, SCS).
    seed
        Of the instances.
    """
    simplex = [NonNegative(), SumsTo(1.0)]
    for d in sizes:
        estimate = zipf_estimate(d, np.random.default_rng(seed))
        for name, loss in (("CLS", LeastSquares()), ("weighted MLE", GaussianMLE())):
            problem = Problem(loss, simplex)
            closed_first, closed = problem.solve(estimate), problem.solve(estimate)
            yield _row(name, closed_first, closed, closed)
            for solver in solvers:
                limit: dict[str, Any] = {_TIME_LIMIT[solver]: time_limit} if solver in _TIME_LIMIT else {}
                try:
                    first, again = (problem.solve(estimate, path="conic", solver=solver, **limit) for _ in range(2))
                except SolverError as error:
                    yield Row(name, d, solver, "failed", note=str(error).splitlines()[0])
                else:
                    yield _row(name, first, again, closed)


def _row(name: str, first: Solution, again: Solution, closed: Solution) -> Row:
    return Row(
        problem=name,
        d=closed.estimate.d,
        solver=again.solver,
        status=str(again.status),
        first_seconds=first.seconds,
        seconds=again.seconds,
        slowdown=again.seconds / closed.seconds,
        difference=float(np.max(np.abs(again.frequencies - closed.frequencies))),
        gap=float(again.certificate.gap),
        violation=float(again.certificate.violation),
    )
