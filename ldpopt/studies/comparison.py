"""Closed forms beside solvers, on one realistic instance per problem and size."""

from __future__ import annotations

import csv
import io
import json
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from ldpopt import validate
from ldpopt.constraints import Bounds, Constraint, Monotone, NonNegative, SumsTo
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import InfeasibleError, LdpoptWarning, SolverError, UnsupportedProblemError
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

_USERS = 1_000_000  # as many as the largest data set of the papers, in round numbers
_SLOW = 1.0  # seconds beyond which a solve is repeated once: noise is a small share of it
_REPEATS = 3  # of faster solves


@dataclass(frozen=True)
class Case:
    """A problem with a closed form: its label, loss and constraints, and its estimate's oracle.

    ``constraints`` takes the estimate, since some depend on its size or on its largest value.
    """

    label: str
    loss: Loss
    constraints: Callable[[FrequencyEstimate], list[Constraint]]
    oracle: type[FrequencyOracle] = OUE


def _simplex(_: FrequencyEstimate) -> list[Constraint]:
    return [NonNegative(), SumsTo(1.0)]


def _capped_simplex(estimate: FrequencyEstimate) -> list[Constraint]:
    # Half of the largest estimate makes the cap bind; 2/d keeps the set non-empty.
    cap = max(float(estimate.frequencies.max()) / 2, 2 / estimate.d)
    return [Bounds(0.0, cap), SumsTo(1.0)]


def _monotone_simplex(estimate: FrequencyEstimate) -> list[Constraint]:
    return [Monotone(np.arange(estimate.d)), *_simplex(estimate)]


def _nonnegative(_: FrequencyEstimate) -> list[Constraint]:
    return [NonNegative()]


def _sum_of_one(_: FrequencyEstimate) -> list[Constraint]:
    return [SumsTo(1.0)]


CASES: dict[str, Case] = {
    "cls": Case("CLS", LeastSquares(), _simplex),
    "mle": Case("weighted MLE", GaussianMLE(), _simplex),
    "base-pos": Case("Base-Pos", LeastSquares(), _nonnegative),
    "norm": Case("Norm", LeastSquares(), _sum_of_one),
    "norm-mul": Case("Norm-Mul", KullbackLeibler(), _sum_of_one),
    "binomial": Case("binomial MLE", BinomialMLE(), _simplex),
    "multinomial": Case("multinomial MLE", MultinomialMLE(), _simplex, GRR),
    "capped": Case("capped simplex", LeastSquares(), _capped_simplex),
    "monotone": Case("monotone simplex", LeastSquares(), _monotone_simplex),
    "absolute": Case("least absolute", LeastAbsolute(), _simplex),
}
"""What can be compared, by the name that the command line takes."""


@dataclass(frozen=True)
class ComparisonRow:
    """One solver on one problem, against the closed form. A missing number is None.

    Attributes
    ----------
    problem, d, path, solver, accuracy
        The problem and its size; the path, solver and settings that were used.
    status
        Status of the solution; "unsupported" if the solver cannot take the problem, "failed" if it
        returned no point.
    first_seconds, compile_seconds, seconds
        Wall time of the first solve, the part of it that was compilation, and the wall time of the
        fastest repetition.
    slowdown
        ``seconds`` over those of the closed form.
    difference
        Largest coordinate difference to the closed form. Where solutions are not unique (least
        absolute deviations), it says little.
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
    """Return one raw estimate of n users whose values follow Zipf(1.5), at ε = 1."""
    protocol = oracle(epsilon=1.0, d=d)  # type: ignore[call-arg]  # p and q are the subclass's own
    true_counts = apportion(np.arange(1, d + 1) ** -1.5, n)
    return protocol.estimate(protocol.simulate_counts(true_counts, rng), n)


def compare_solvers(
    sizes: Sequence[int],
    solvers: Sequence[str],
    *,
    cases: Sequence[str] = ("cls", "mle"),
    accuracies: Sequence[Accuracy] = ("high",),
    time_limit: float = 30.0,
    seed: int = 0,
) -> Iterator[ComparisonRow]:
    """Yield the closed form, then every solver at every accuracy, for every size and problem.

    Parameters
    ----------
    sizes
        Numbers of values d, each >= 2.
    solvers
        Names of installed cvxpy solvers. One that cannot take a problem, such as OSQP on cones,
        yields a row with the status "unsupported".
    cases
        Names in ``CASES``.
    accuracies
        Some of ``status.ACCURACIES``.
    time_limit
        Seconds after which a solver is stopped, where it knows such a limit (CLARABEL, HIGHS, OSQP,
        SCS).
    seed
        Of the instances.

    Raises
    ------
    InvalidInputError
        If a case or an accuracy is unknown.

    Examples
    --------
    >>> [row.solver for row in compare_solvers([8], ["CLARABEL"], cases=["cls"])]
    ['norm-sub', 'CLARABEL']
    """
    chosen = [validate.lookup("problem", name, CASES) for name in cases]
    for d in sizes:
        for case in chosen:
            # The same seed for every case: those with the same oracle share their estimate.
            estimate = zipf_estimate(d, np.random.default_rng(seed), oracle=case.oracle)
            problem = Problem(case.loss, case.constraints(estimate))
            first, closed = _timed(partial(problem.solve, estimate))
            yield _row(case.label, "", first, closed, closed)
            for solver in solvers:
                for accuracy in accuracies:
                    # A fresh problem has nothing compiled: every row pays for its own compilation.
                    fresh = Problem(case.loss, problem.constraints)
                    solve = partial(
                        fresh.solve,
                        estimate,
                        "conic",
                        solver,
                        accuracy,
                        **_limit(solver, time_limit),
                    )
                    yield _solver_row(case.label, solver, accuracy, solve, closed)


def _limit(solver: str, seconds: float) -> dict[str, Any]:
    # Solvers without such an option, as QOCO, run for as long as they take.
    option = SOLVERS[solver].time_limit if solver in SOLVERS else None
    return {} if option is None else {option: seconds}


def _solver_row(
    label: str, solver: str, accuracy: Accuracy, solve: Callable[[], Solution], closed: Solution
) -> ComparisonRow:
    d = closed.start.d
    try:
        first, repeated = _timed(solve)
    except UnsupportedProblemError:
        return ComparisonRow(label, d, "conic", solver, accuracy, "unsupported")
    except (SolverError, InfeasibleError) as error:  # every case is feasible
        reason = str(error).splitlines()[0]
        return ComparisonRow(label, d, "conic", solver, accuracy, "failed", note=reason)
    return _row(label, accuracy, first, repeated, closed)


def _timed(solve: Callable[[], Solution]) -> tuple[Solution, Solution]:
    """Return the first solution and the fastest repetition: one of a slow solve, else three."""
    with warnings.catch_warnings():
        # That a solution is inaccurate is the status of its row.
        warnings.simplefilter("ignore", LdpoptWarning)
        first = solve()
        repetitions = [solve() for _ in range(_REPEATS if first.seconds < _SLOW else 1)]
    return first, min(repetitions, key=lambda solution: solution.seconds)


def _row(
    label: str, accuracy: str, first: Solution, repeated: Solution, closed: Solution
) -> ComparisonRow:
    return ComparisonRow(
        problem=label,
        d=closed.start.d,
        path=repeated.path,
        solver=repeated.solver,
        accuracy=accuracy,
        status=str(repeated.status),
        first_seconds=first.seconds,
        compile_seconds=first.compile_seconds,
        seconds=repeated.seconds,
        slowdown=repeated.seconds / closed.seconds,
        difference=float(np.max(np.abs(repeated.frequencies - closed.frequencies))),
        gap=float(repeated.certificate.gap),
        violation=float(repeated.certificate.violation),
    )


def to_csv(rows: Sequence[ComparisonRow]) -> str:
    """Return rows as CSV with a header; a missing number is empty."""
    text = io.StringIO()
    names = [field.name for field in fields(ComparisonRow)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def to_json(rows: Sequence[ComparisonRow]) -> str:
    """Return rows as a JSON list; a missing number is null, an infinite one or NaN is text."""
    return json.dumps([_finite(asdict(row)) for row in rows], indent=2, allow_nan=False)


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    # JSON has no infinity. A gap is infinite where no multipliers were found.
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }
