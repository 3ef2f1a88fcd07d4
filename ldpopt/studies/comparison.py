"""Closed forms beside solvers on one realistic instance a size: difference, gap, status and time, at every accuracy."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from ldpopt import validate
from ldpopt.constraints import Bounds, Constraint, Monotone, NonNegative, SumsTo
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import LdpoptWarning, SolverError, UnsupportedProblemError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import (
    BinomialMLE,
    GaussianMLE,
    KullbackLeibler,
    LeastAbsolute,
    LeastSquares,
    Loss,
    MultinomialMLE,
)
from ldpopt.oracles import GRR, OUE
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.solve.problem import Problem
from ldpopt.solve.solution import Solution
from ldpopt.solve.solvers import SOLVERS
from ldpopt.solve.status import Accuracy

_USERS = 1_000_000
_SLOW = 1.0  # seconds beyond which a solve is repeated once


@dataclass(frozen=True)
class Case:
    """A problem with a closed form: its label, loss and constraints, and the oracle of its estimate."""

    label: str
    loss: Loss
    constraints: Callable[[FrequencyEstimate], list[Constraint]]
    oracle: type[FrequencyOracle] = OUE


def _simplex(_: FrequencyEstimate) -> list[Constraint]:
    return [NonNegative(), SumsTo(1.0)]


def _capped(estimate: FrequencyEstimate) -> list[Constraint]:
    return [Bounds(0.0, max(float(estimate.frequencies.max()) / 2, 2 / estimate.d)), SumsTo(1.0)]


CASES: dict[str, Case] = {
    "cls": Case("CLS", LeastSquares(), _simplex),
    "mle": Case("weighted MLE", GaussianMLE(), _simplex),
    "base-pos": Case("Base-Pos", LeastSquares(), lambda _: [NonNegative()]),
    "norm": Case("Norm", LeastSquares(), lambda _: [SumsTo(1.0)]),
    "norm-mul": Case("Norm-Mul", KullbackLeibler(), lambda _: [SumsTo(1.0)]),
    "binomial": Case("binomial MLE", BinomialMLE(), _simplex),
    "multinomial": Case("multinomial MLE", MultinomialMLE(), _simplex, GRR),
    "capped": Case("capped simplex", LeastSquares(), _capped),
    "monotone": Case(
        "monotone simplex", LeastSquares(), lambda e: [Monotone(np.arange(e.d)), *_simplex(e)]
    ),
    "absolute": Case("least absolute", LeastAbsolute(), _simplex),
}
"""What can be compared, by the name that the command line takes."""


@dataclass(frozen=True)
class Row:
    """One solver on one problem, against the closed form. A missing number is None.

    Attributes
    ----------
    problem, d, path, solver, accuracy, status
        What was solved, how large, by what, with which settings, and how it ended.
    first_seconds, compile_seconds, seconds
        Wall time of a first solve, the part of it that was compilation, and wall time when solved again.
    slowdown
        ``seconds`` over those of the closed form.
    difference
        Largest coordinate difference to the closed form. Where solutions are not unique (least absolute) it says little.
    gap, violation
        Of the certificate, in the loss's own units and in frequencies.
    note
        Why a solver failed.
    """

    problem: str
    d: int
    path: str
    solver: str
    accuracy: str
    status: str
    first_seconds: float | None = None
    compile_seconds: float | None = None
    seconds: float | None = None
    slowdown: float | None = None
    difference: float | None = None
    gap: float | None = None
    violation: float | None = None
    note: str = ""


def zipf_estimate(
    d: int, rng: np.random.Generator, n: int = _USERS, oracle: type[FrequencyOracle] = OUE
) -> FrequencyEstimate:
    """Return one raw estimate at ε = 1 of n users with Zipf(1.5) values, from OUE if no other oracle is named."""
    made = oracle(epsilon=1.0, d=d)  # type: ignore[call-arg]  # p and q are the subclass's own
    users = apportion(np.arange(1, d + 1) ** -1.5, n)
    return made.estimate(made.simulate_counts(users, rng), n)


def compare_solvers(
    sizes: Sequence[int],
    solvers: Sequence[str],
    *,
    cases: Sequence[str] = ("cls", "mle"),
    accuracies: Sequence[Accuracy] = ("high",),
    time_limit: float = 30.0,
    seed: int = 0,
) -> Iterator[Row]:
    """Yield the closed form, then every solver at every accuracy, for every problem and size.

    Parameters
    ----------
    sizes
        Numbers of values d, each >= 2.
    solvers
        Names of installed cvxpy solvers. One that cannot take a problem, as OSQP cones, is told by its status.
    cases
        Names in ``CASES``.
    accuracies
        Named settings of ``status.ACCURACIES``.
    time_limit
        Seconds after which a solver is stopped, where it knows such a limit (CLARABEL, HIGHS, OSQP, SCS).
    seed
        Of the instances.

    Raises
    ------
    InvalidInputError
        If a case or an accuracy is unknown.
    """
    chosen = [validate.lookup("problem", name, CASES) for name in cases]
    for d in sizes:
        for case in chosen:
            estimate = zipf_estimate(d, np.random.default_rng(seed), oracle=case.oracle)
            problem = Problem(case.loss, case.constraints(estimate))
            first, closed = _timed(partial(problem.solve, estimate))
            yield _row(case.label, "", first, closed, closed)
            for solver in solvers:
                option = SOLVERS[solver].time_limit if solver in SOLVERS else None
                limit: dict[str, Any] = {} if option is None else {option: time_limit}
                for accuracy in accuracies:
                    fresh = Problem(case.loss, problem.constraints)  # with nothing compiled yet
                    solve = partial(fresh.solve, estimate, "conic", solver, accuracy, **limit)
                    try:
                        first, again = _timed(solve)
                    except UnsupportedProblemError:
                        yield Row(case.label, d, "conic", solver, accuracy, "not for it")
                    except SolverError as error:
                        note = str(error).splitlines()[0]
                        yield Row(case.label, d, "conic", solver, accuracy, "failed", note=note)
                    else:
                        yield _row(case.label, accuracy, first, again, closed)


def _timed(solve: Callable[[], Solution]) -> tuple[Solution, Solution]:
    """Return a first solution and the fastest of a few more; of slow ones one more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdpoptWarning)  # an inaccurate solution is told by its row
        first = solve()
        repeats = [solve() for _ in range(3 if first.seconds < _SLOW else 1)]
    return first, min(repeats, key=lambda solution: solution.seconds)


def _row(label: str, accuracy: str, first: Solution, again: Solution, closed: Solution) -> Row:
    return Row(
        problem=label,
        d=closed.start.d,
        path=again.path,
        solver=again.solver,
        accuracy=accuracy,
        status=str(again.status),
        first_seconds=first.seconds,
        compile_seconds=first.compile_seconds,
        seconds=again.seconds,
        slowdown=again.seconds / closed.seconds,
        difference=float(np.max(np.abs(again.frequencies - closed.frequencies))),
        gap=float(again.certificate.gap),
        violation=float(again.certificate.violation),
    )


def to_csv(rows: Sequence[Row]) -> str:
    """Return rows as CSV with a header; a missing number is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()
