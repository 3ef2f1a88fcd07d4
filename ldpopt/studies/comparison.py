"""Paths of this library beside solvers: on realistic instances, or on problems of the user."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldpopt import progress, validate
from ldpopt.constraints import Bounds, Constraint, Monotone, NonNegative, SumsTo
from ldpopt.datasets.dataset import apportion
from ldpopt.errors import (
    InfeasibleError,
    InvalidInputError,
    InvalidTypeError,
    LdpoptError,
    LdpoptWarning,
    SolverError,
    UnsupportedProblemError,
)
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
from ldpopt.printable import counted
from ldpopt.solve.implausible_unit import warn_of_unit
from ldpopt.solve.problem import Problem
from ldpopt.solve.programs.solvers import SOLVERS, installed, installed_solvers
from ldpopt.solve.solution import Solution
from ldpopt.solve.status import ACCURACIES, Accuracy
from ldpopt.studies.comparison_result import Comparison
from ldpopt.studies.comparison_rows import ComparisonRow

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
    # All names first: an unknown one should not appear after an hour of solves.
    chosen = [validate.lookup("problem", name, CASES) for name in cases]
    names = validate.distinct("solvers", solvers)
    for d in sizes:
        for case in chosen:
            # The same seed for every case: those with the same oracle share their estimate.
            estimate = zipf_estimate(d, np.random.default_rng(seed), oracle=case.oracle)
            problem = Problem(case.loss, case.constraints(estimate))
            yield from _compared(case.label, problem, estimate, names, accuracies, time_limit)


def compare(
    problems: Any,
    estimate: FrequencyEstimate | ArrayLike,
    *,
    solvers: Sequence[str] | None = None,
    accuracies: Sequence[Accuracy] = ("high",),
    time_limit: float = 30.0,
) -> Comparison:
    """Compare the path that this library takes with solvers, on problems and a vector of your own.

    Parameters
    ----------
    problems
        A Problem, several, or a dictionary from names to them.
    estimate
        One vector, shape (d,): an estimate, or frequencies where the losses need no noise.
    solvers
        Names of installed cvxpy solvers; by default all that this library knows. One that cannot
        take a problem has a row with the status "unsupported", and a note that names all that can.
    accuracies
        Some of ``"low"``, ``"default"`` and ``"high"``.
    time_limit
        Seconds after which a solver is stopped, where it knows such a limit.

    Returns
    -------
    Comparison with ``rows`` (difference, gap, violation, status, times, iterations), ``to_csv``,
    ``to_frame`` and ``plot``. Differences are to the closed form if there is one, and otherwise to
    the point whose certificate is the best.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Before any solve, if a problem does not fit the estimate, or an argument is not what it
        should be.
    SolverError
        If a solver is not installed.

    Notes
    -----
    Cost: each solver compiles each problem anew, and solves it two to four times.

    Examples
    --------
    >>> from ldpopt import Problem, constraints, losses
    >>> simplex = Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1)])
    >>> comparison = compare({"ours": simplex}, [0.7, 0.4, -0.1], solvers=["CLARABEL"])
    >>> [(row.solver, row.status) for row in comparison.rows]
    [('norm-sub', 'optimal'), ('CLARABEL', 'optimal')]
    >>> comparison.rows[0].is_reference, comparison.rows[1].difference < 1e-6
    (True, True)
    """
    named = _named_problems(problems)
    rows = comparing(named, estimate, solvers, accuracies, time_limit)
    count = len(named) * (1 + len(accuracies) * len(_names_of(solvers)))
    return Comparison(tuple(progress.track(rows, counted(count, "solve"), count)))


def comparing(
    problems: Any,
    estimate: FrequencyEstimate | ArrayLike,
    solvers: Sequence[str] | None = None,
    accuracies: Sequence[Accuracy] = ("high",),
    time_limit: float = 30.0,
) -> Iterator[ComparisonRow]:
    """Check the arguments of ``compare``, and return an iterator over its rows.

    Without a closed form a problem's rows come together, once the reference is known.

    Raises
    ------
    InvalidInputError, InvalidTypeError, SolverError
        As ``compare``.
    """
    # Checked here and not in the generator, which would raise at the first row.
    start = FrequencyEstimate.of(estimate)
    if start.frequencies.ndim != 1:
        raise InvalidInputError(
            f"compare takes one vector, got frequencies of shape {start.frequencies.shape}: pass "
            "estimate[0]"
        )
    # Names before problems are solved: two of one name would share a row.
    named = _named_problems(problems)
    # A solver that is named must be there; without names those that are there are taken.
    names = _names_of(solvers)
    for accuracy in validate.distinct("accuracies", _listed("accuracies", accuracies)):
        validate.lookup("accuracy", accuracy, ACCURACIES)
    limit = validate.real("time_limit", time_limit, above=0)
    for name, problem in named.items():
        try:
            plan = problem.plan(start)
        except LdpoptError as error:
            raise type(error)(f"the problem {name!r}: {error}") from None
        if plan.path is None:
            raise InvalidInputError(f"the problem {name!r}: {plan.reason}")
        # The solves are quiet, since what they warn of is a column.
        warn_of_unit(problem.at(start), start)
    return (
        row
        for name, problem in named.items()
        for row in _compared(name, problem, start, names, accuracies, limit)
    )


def _names_of(solvers: Sequence[str] | None) -> list[str]:
    if solvers is None:
        return known_solvers()
    return validate.distinct("solvers", map(installed, _listed("solvers", solvers)))


def _listed(what: str, names: Sequence[str]) -> Sequence[str]:
    # A text is a list of letters to Python.
    if isinstance(names, str):
        raise InvalidTypeError(f"{what} must be a list of names, got {names!r}: pass [{names!r}]")
    if not np.iterable(names):
        raise InvalidTypeError(f"{what} must be a list of names, got {names!r}")
    return names


def known_solvers() -> list[str]:
    """Return the solvers with a record that are installed."""
    return [name for name in SOLVERS if name in installed_solvers()]


def _named_problems(what: Any) -> dict[str, Problem]:
    """Return problems by name, by default by their statements; a repeated name is an error."""
    if isinstance(what, Mapping):
        items = [(str(name), problem) for name, problem in what.items()]
    else:
        # What is neither a problem nor iterable is refused below, by its name; a text is iterable
        # by its letters.
        is_one = isinstance(what, Problem | str) or not np.iterable(what)
        problems = [what] if is_one else what
        items = [(getattr(problem, "statement", ""), problem) for problem in problems]
    named: dict[str, Problem] = {}
    for name, problem in items:
        if not isinstance(problem, Problem):
            remedy = ""
            if isinstance(problem, str):
                remedy = ": that of a method is METHODS[name].problem"
            elif isinstance(problem, np.generic | np.ndarray):
                remedy = ", a number: a method that returns frequencies is not a problem"
            raise InvalidTypeError(f"compare takes problems, got {problem!r}{remedy}")
        if name in named:
            raise InvalidInputError(
                f"two problems are called {name!r}: pass a dictionary from distinct names to them"
            )
        named[name] = problem
    if not named:
        raise InvalidInputError("compare needs at least one problem")
    return named


# Distances of two minimisers relative to the largest frequency, and their gaps: squares that are
# nearly flat have much smaller distances at such gaps.
_FAR = 1e-2
_EQUAL = 1e-12

_SEVERAL = (
    f"far from the reference, and both are optimal to {_EQUAL:g}: the minimum has several points, "
    "or the loss is nearly flat between them, and differences say little"
)


@dataclass(frozen=True)
class _Run:
    """One way to solve a problem: its first solution and a repeated one, or why there is none."""

    solver: str
    accuracy: str
    first: Solution | None = None
    repeated: Solution | None = None
    status: str = ""
    note: str = ""


def _compared(
    label: str,
    problem: Problem,
    estimate: FrequencyEstimate,
    solvers: Sequence[str],
    accuracies: Sequence[Accuracy],
    time_limit: float,
) -> Iterator[ComparisonRow]:
    """Yield the row of the library's own path, then those of solvers."""
    # An error of the library's own path is not caught: there would be nothing to compare with.
    first, repeated = _timed(partial(problem.solve, estimate))
    ours = _Run(repeated.solver, "", first, repeated)
    # A fresh problem has nothing compiled: every row pays for its own compilation.
    runs = (
        _solver_run(problem, estimate, solver, accuracy, time_limit)
        for solver in solvers
        for accuracy in accuracies
    )
    if repeated.path == "closed-form":
        yield _row(label, ours, ours, repeated)
        for run in runs:
            yield _row(label, run, ours, repeated)
        return
    solved = [ours, *runs]
    # Which point is the reference shows when all are there.
    reference = min((run.repeated for run in solved if run.repeated is not None), key=_inexactness)
    for run in solved:
        yield _row(label, run, ours, reference)


def _inexactness(solution: Solution) -> float:
    certificate = solution.certificate
    # The worse of the two: a small gap means little outside of the set.
    return max(abs(float(certificate.gap)), float(certificate.violation))


def _limit(solver: str, seconds: float) -> dict[str, Any]:
    # Solvers without such an option, as QOCO, run for as long as they take.
    option = SOLVERS[solver].time_limit if solver in SOLVERS else None
    return {} if option is None else {option: seconds}


def _solver_run(
    problem: Problem,
    estimate: FrequencyEstimate,
    solver: str,
    accuracy: Accuracy,
    time_limit: float,
) -> _Run:
    fresh = Problem(problem.loss, problem.constraints)
    solve = partial(fresh.solve, estimate, "conic", solver, accuracy, **_limit(solver, time_limit))
    try:
        first, repeated = _timed(solve)
    except UnsupportedProblemError as error:
        return _Run(solver, accuracy, status="unsupported", note=_first_line(error))
    except (SolverError, InfeasibleError) as error:
        return _Run(solver, accuracy, status="failed", note=_first_line(error))
    return _Run(repeated.solver, accuracy, first, repeated)


def _first_line(error: Exception) -> str:
    # A row has one line; solvers add theirs below.
    return str(error).splitlines()[0]


def _timed(solve: Callable[[], Solution]) -> tuple[Solution, Solution]:
    """Return the first solution and the fastest repetition, of three, or of one if it is slow."""
    with warnings.catch_warnings():
        # That a solution is inaccurate is the status of its row.
        warnings.simplefilter("ignore", LdpoptWarning)
        first = solve()
        repetitions = [solve() for _ in range(_REPEATS if first.seconds < _SLOW else 1)]
    return first, min(repetitions, key=lambda solution: solution.seconds)


def _row(label: str, run: _Run, ours: _Run, reference: Solution) -> ComparisonRow:
    """Return the row of a run; the reference is the point that differences are to."""
    d = reference.start.d
    if run.first is None or run.repeated is None:
        return ComparisonRow(label, d, "conic", run.solver, run.accuracy, run.status, note=run.note)
    assert ours.repeated is not None  # an error of the library's own path is not caught
    repeated = run.repeated
    return ComparisonRow(
        problem=label,
        d=d,
        path=repeated.path,
        solver=run.solver,
        accuracy=run.accuracy,
        status=str(repeated.status),
        first_seconds=run.first.seconds,
        compile_seconds=run.first.compile_seconds,
        seconds=repeated.seconds,
        # Of repeated solves, for which everything is compiled already.
        slowdown=repeated.seconds / ours.repeated.seconds,
        difference=float(np.max(np.abs(repeated.frequencies - reference.frequencies))),
        gap=float(repeated.certificate.gap),
        violation=float(repeated.certificate.violation),
        iterations=repeated.iterations,
        is_reference=repeated is reference,
        note=_SEVERAL if _is_another_minimum(repeated, reference) else "",
    )


def _is_another_minimum(solution: Solution, reference: Solution) -> bool:
    """Return whether a point is far from the reference, as good, and nothing rules that out."""
    distances = np.abs(solution.frequencies - reference.frequencies)
    place = int(distances.argmax())
    if distances[place] <= _FAR * np.abs(reference.frequencies).max():
        return False
    if not all(s.certificate.is_optimal(_EQUAL, relative=True) for s in (solution, reference)):
        return False
    # A loss that is curved here has its minimum at one point, however flat it looks.
    problem = solution.problem
    region = problem.region(solution.start.d)
    curvature = problem.loss.curvature(solution.start, region.lower, region.upper)
    return bool(np.broadcast_to(curvature, distances.shape)[place] <= 0)
