"""Solves in other processes: what they get is numbers, never a function of the user.

A compiled problem differs from trial to trial in c and b alone. All else is packed once, as bytes
that every job carries, and unpacked once in each process. A solve depends on nothing but its job,
so that its result is the same in every process.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.programs.solvers import hide_its_name

Array = NDArray[np.float64]

# What is kept of a solver's report: the rest may be objects that no other process can be given.
_REPORTED = ("num_iters", "solve_time", "setup_time")


@dataclass(frozen=True, eq=False)
class Job:
    """One solve.

    Attributes
    ----------
    common
        What all jobs of a compiled problem share, packed by ``pack``.
    numbers
        The arrays that are a job's own, by their names in the solver's data.
    options
        The solver's.
    """

    common: bytes
    numbers: Mapping[str, Any]
    options: Mapping[str, Any]


class JobResult(NamedTuple):
    """What a solver returned: its status in cvxpy's words, all variables, its report, its time."""

    status: str
    x: Array | None
    report: dict[str, Any]
    seconds: float


def pack(interface: Any, data: Mapping[str, Any], inverse: Mapping[str, Any]) -> bytes:
    """Return cvxpy's interface of a solver and the data that its jobs share, as bytes.

    Multipliers of constraints are left out: they belong to expressions of this process.
    """
    without = {name: [] if isinstance(value, list) else value for name, value in inverse.items()}
    # Once for all jobs, which differ by a few arrays only.
    return pickle.dumps((interface, without_program(data), without))


def without_program(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a solver's data without cvxpy's own record of the program, which is large."""
    return {name: value for name, value in data.items() if name != "param_prob"}


@lru_cache(maxsize=4)
def _unpacked(common: bytes) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    interface, data, inverse = pickle.loads(common)
    return interface, data, inverse


def run(job: Job) -> JobResult:
    """Return what the solver makes of a job; its own errors are raised."""
    from cvxpy.reductions.solvers.solver_inverse_data import SolverInverseData

    interface, data, inverse = _unpacked(job.common)
    options = dict(job.options)
    hide_its_name(interface.name())
    began = time.perf_counter()
    # A fresh store for each solve: none may start at the result of another one.
    raw = interface.solve_via_data({**data, **job.numbers}, False, False, options, {})
    seconds = time.perf_counter() - began
    solution = interface.invert(raw, SolverInverseData(inverse, interface, options))
    x = None
    if solution.primal_vars:
        # Here cvxpy has one vector for all variables.
        values = next(iter(solution.primal_vars.values()))
        x = np.asarray(values, dtype=np.float64).ravel()
    report = {name: solution.attr[name] for name in _REPORTED if name in solution.attr}
    return JobResult(solution.status, x, report, seconds)
