"""The solver's path: a problem as cvxpy sees it, compiled once for a shape and solved for many estimates."""

from __future__ import annotations

import warnings
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.constraints import Constraint
from ldpopt.errors import InfeasibleError, SolverError
from ldpopt.losses import Loss

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

SETTINGS: dict[str, dict[str, Any]] = {
    "CLARABEL": {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9},
    "OSQP": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iter": 100_000, "polishing": True},
    "QOCO": {"abstol": 1e-8, "reltol": 1e-8},
    "SCS": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iters": 50_000},
}
"""Accuracy settings of the solvers that ldpopt is tested with: tighter than their defaults, which leave errors of 1e-5."""

DEFAULT_SOLVER = "CLARABEL"

_PARAMETRIC = 4096
"""Up to this many values a problem is compiled with parameters; cvxpy's parameter map needs memory quadratic in d, so
beyond it the estimate is compiled in as constants, which costs a fraction of the solve."""


class Status(StrEnum):
    """How a solution ended. ``status.explanation`` says what that means; an inaccurate solution is not an optimal one."""

    explanation: str

    def __new__(cls, value: str, explanation: str) -> Status:
        """Make a member that equals its short name and carries the explanation."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.explanation = explanation
        return member

    OPTIMAL = ("optimal", "the closed form applied, or the solver met its tolerances")
    INACCURATE = (
        "inaccurate",
        "the solver stopped before its tolerances: look at the certificate before using the point",
    )


def installed_solvers() -> list[str]:
    """Return the names of the solvers that cvxpy finds on this machine."""
    import cvxpy as cp

    return list(cp.installed_solvers())


def installed(name: str) -> str:
    """Return cvxpy's name of a solver, whatever its case, or raise an error that names the installed ones."""
    known = installed_solvers()
    if str(name).upper() not in known:
        nearest = validate.unknown_name("solver", name, known)
        raise SolverError(f"{nearest} (installed here: {', '.join(known)})")
    return str(name).upper()


class CompiledProblem:
    """A loss under constraints on d values as a cvxpy problem, with the estimate as its parameters.

    Not to be shared between threads: a solve writes to the parameters.
    """

    def __init__(
        self, loss: Loss, constraints: list[Constraint], shapes: list[tuple[int, ...]], constants: tuple[float, ...]
    ) -> None:
        import cvxpy as cp

        self._parameters = [cp.Parameter(shape, nonneg=loss.nonnegative_data) for shape in shapes]
        self._problem, self._f = _build(loss, constraints, shapes[0][0], tuple(self._parameters), constants)

    def solve(self, data: list[Array], solver: str, options: dict[str, Any]) -> tuple[Array, Status]:
        """Return the solver's point and how it ended."""
        for parameter, value in zip(self._parameters, data, strict=True):
            parameter.value = value
        return _run(self._problem, self._f, solver, options)

    @property
    def is_dpp(self) -> bool:
        """Whether re-solving reuses the compilation."""
        return bool(self._problem.is_dcp(dpp=True))


def solve_uncompiled(
    loss: Loss,
    constraints: list[Constraint],
    data: list[Array],
    constants: tuple[float, ...],
    solver: str,
    options: dict[str, Any],
) -> tuple[Array, Status]:
    """Return the solver's point for one estimate whose data are compiled in as constants."""
    problem, f = _build(loss, constraints, len(data[0]), tuple(data), constants)
    return _run(problem, f, solver, options)


def parametric(d: int) -> bool:
    """Return whether problems on d values are compiled with parameters."""
    return d <= _PARAMETRIC


def _build(
    loss: Loss, constraints: list[Constraint], d: int, data: tuple[Any, ...], constants: tuple[float, ...]
) -> tuple[cp.Problem, cp.Expression]:
    import cvxpy as cp

    # The variable counts in units of the uniform frequency 1/d: solvers' tolerances are made for numbers of order 1.
    f = cp.Variable(d) / d
    objective, extra = loss.cone_form(f, data, constants)
    return cp.Problem(cp.Minimize(objective), [*extra, *(form for c in constraints for form in c.cone_form(f))]), f


def _run(problem: cp.Problem, f: cp.Expression, solver: str, options: dict[str, Any]) -> tuple[Array, Status]:
    import cvxpy as cp

    reserved = sorted({"solver", "warm_start", "gp", "qcp", "parallel"} & set(options))
    if reserved:
        raise SolverError(f"{reserved[0]!r} is not a solver option here: pass options of {solver} itself")
    settings = {**SETTINGS.get(solver, {}), **options}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "solution may be inaccurate" is what the status says
            problem.solve(solver=solver, warm_start=False, **settings)
    except cp.error.SolverError as error:
        raise SolverError(f"{solver} returned no solution: {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise SolverError(f"{solver} does not take these options {options}: {error}") from error
    status = problem.status
    if status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
        raise InfeasibleError(f"no vector satisfies the constraints ({solver}: {status})")
    if f.value is None or status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.USER_LIMIT):
        raise SolverError(f"{solver} returned no point (status {status}): try another solver or looser settings")
    return np.asarray(f.value, dtype=np.float64), Status.OPTIMAL if status == cp.OPTIMAL else Status.INACCURATE
