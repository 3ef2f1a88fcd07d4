"""The solver's path: a problem as cvxpy sees it, compiled once for a shape and solved for many estimates."""

from __future__ import annotations

import difflib
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint
from ldpopt.errors import InfeasibleError, SolverError, UnsupportedProblemError
from ldpopt.losses import Loss

Array = NDArray[np.float64]
Accuracy = Literal["low", "default", "high"]


def _tolerances(tolerance: float, *names: str, **others: Any) -> dict[str, Any]:
    return {**dict.fromkeys(names, tolerance), **others}


_CLARABEL = "tol_gap_abs", "tol_gap_rel", "tol_feas"
_EPS = "eps_abs", "eps_rel"
_PIQP = *_EPS, "eps_duality_gap_abs", "eps_duality_gap_rel"
_QOCO = "abstol", "reltol"
_HIGHS = "primal_feasibility_tolerance", "dual_feasibility_tolerance"

SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "low": {
        "CLARABEL": _tolerances(1e-4, *_CLARABEL),
        "HIGHS": _tolerances(1e-4, *_HIGHS),
        "OSQP": _tolerances(1e-4, *_EPS),
        "PIQP": _tolerances(1e-4, *_PIQP),
        "QOCO": _tolerances(1e-4, *_QOCO),
        "SCS": _tolerances(1e-4, *_EPS),
    },
    "default": {},
    "high": {
        "CLARABEL": _tolerances(1e-9, *_CLARABEL),
        "HIGHS": _tolerances(1e-10, *_HIGHS),
        "OSQP": _tolerances(1e-9, *_EPS, max_iter=100_000, polishing=True),
        "PIQP": _tolerances(1e-10, *_PIQP),
        "QOCO": _tolerances(1e-8, *_QOCO),  # below that it often stops for numerical reasons
        "SCS": _tolerances(1e-10, *_EPS, max_iters=50_000),
    },
}
"""Named accuracy settings. ``default`` is what the solvers choose themselves, which leaves errors of 1e-5; ``high`` is what
ldpopt uses: the tightest that the solvers reach on real estimates."""

DEFAULT_SOLVER = "CLARABEL"
"""It takes every problem of this library, exponential cones too, and is the fastest where there are cones; on plain quadratic
programs QOCO and PIQP are two or three times as fast (README, Speed)."""

_PARAMETRIC = 4096
"""Up to this many values a problem is compiled with parameters; cvxpy's parameter map needs memory quadratic in d, so
beyond it the estimate is compiled in as constants, which costs a fraction of the solve."""

_OPTIONAL = ("HIGHS", "PIQP")  # of the solvers in SETTINGS, those that the extra brings


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


@cache
def installed_solvers() -> tuple[str, ...]:
    """Return the names of the solvers that cvxpy finds on this machine. Looked up once a process: it takes milliseconds."""
    import cvxpy as cp

    return tuple(cp.installed_solvers())


def installed(name: str) -> str:
    """Return cvxpy's name of a solver, whatever its case, or raise an error that names the installed ones."""
    known = installed_solvers()
    wanted = str(name).upper()
    if wanted not in known:
        near = difflib.get_close_matches(
            wanted, known, n=1, cutoff=0.7
        )  # names are short: half of one is in many others
        hint = f": did you mean {near[0]!r}?" if near else ""
        extra = (
            f"; {wanted} comes with: pip install 'ldpopt[solvers]'" if wanted in _OPTIONAL else ""
        )
        raise SolverError(
            f"unknown solver {name!r}{hint} (installed here: {', '.join(known)}{extra})"
        )
    return wanted


def settings(solver: str, accuracy: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return a solver's settings at a named accuracy, with options over them."""
    return {**SETTINGS[accuracy].get(solver, {}), **options}


@dataclass(frozen=True)
class Answer:
    """A solver's point, how it ended, and the seconds that compiling took and that the solver itself took."""

    point: Array
    status: Status
    compile_seconds: float
    solver_seconds: float


class CompiledProblem:
    """A loss under constraints as a cvxpy problem: its data are parameters, or constants if given.

    Parameters
    ----------
    loss, constraints, constants
        What is compiled.
    data
        The loss's arrays for one estimate. Up to 4,096 values only their shapes matter; beyond, they are compiled in.
    solver, options
        Its name and settings; cvxpy compiles anew when the solver changes.

    Notes
    -----
    Not to be shared between threads: a solve writes to the parameters.
    """

    def __init__(
        self,
        loss: Loss,
        constraints: Sequence[Constraint],
        data: Sequence[Array],
        constants: tuple[float, ...],
        solver: str,
    ) -> None:
        import cvxpy as cp

        began = time.perf_counter()
        d = len(data[0])
        self._solver = solver
        self._parameters = (
            [cp.Parameter(x.shape, nonneg=i < loss.nonnegative_data) for i, x in enumerate(data)]
            if parametric(d)
            else []
        )
        # The variable counts in units of the uniform frequency 1/d: solvers' tolerances are made for numbers of order 1.
        self._x = cp.Variable(d)
        f = self._x / d
        objective, extra = loss.cone_form(f, tuple(self._parameters or data), constants)
        forms = [form for c in constraints for form in c.cone_form(f)]
        self._problem = cp.Problem(cp.Minimize(objective), [*extra, *forms])
        self._set(data)
        try:
            self._problem.get_problem_data(solver)
        except cp.error.SolverError as error:
            raise UnsupportedProblemError(f"{solver} cannot take this problem: {error}") from None
        self._unreported = time.perf_counter() - began

    def _set(self, data: Sequence[Array]) -> None:
        for parameter, value in zip(self._parameters, data, strict=bool(self._parameters)):
            parameter.value = value

    def solve(self, data: Sequence[Array], options: dict[str, Any]) -> Answer:
        """Return the solver's point and how it ended; the first answer carries the time of compilation.

        Raises
        ------
        InfeasibleError, SolverError
            If nothing satisfies the constraints, an option is not the solver's, or it returns no point.
        """
        import cvxpy as cp

        self._set(data)
        options = dict(options)  # cvxpy's interfaces write their defaults into it
        reserved = sorted({"solver", "warm_start", "gp", "qcp", "parallel"} & set(options))
        if reserved:
            raise SolverError(
                f"{reserved[0]!r} is not a solver option here: pass options of {self._solver} itself"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # "solution may be inaccurate" is what the status says
                # What Problem.solve does, without the values of duals and objective, which nobody asks for.
                form, chain, inverse = self._problem.get_problem_data(
                    self._solver, solver_opts=options
                )
                began = time.perf_counter()
                raw = chain.solve_via_data(
                    self._problem, form, warm_start=False, solver_opts=options
                )
                seconds = time.perf_counter() - began
                solution = chain.invert(raw, inverse)
        except cp.error.SolverError as error:
            raise SolverError(f"{self._solver} returned no solution: {error}") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise SolverError(
                f"{self._solver} does not take these options {options}: {error}"
            ) from error
        status = solution.status
        if status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
            raise InfeasibleError(f"no vector satisfies the constraints ({self._solver}: {status})")
        point = solution.primal_vars.get(self._x.id) if solution.primal_vars else None
        if point is None or status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.USER_LIMIT):
            raise SolverError(
                f"{self._solver} returned no point (status {status}): try another solver or accuracy"
            )
        compiling, self._unreported = self._unreported, 0.0
        ended = Status.OPTIMAL if status == cp.OPTIMAL else Status.INACCURATE
        return Answer(np.asarray(point, dtype=np.float64) / self._x.size, ended, compiling, seconds)

    @property
    def is_dpp(self) -> bool:
        """Whether re-solving reuses the compilation."""
        return bool(self._problem.is_dcp(dpp=True))


def parametric(d: int) -> bool:
    """Return whether problems on d values are compiled with parameters."""
    return d <= _PARAMETRIC
