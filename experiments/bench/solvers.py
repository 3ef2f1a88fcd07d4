"""The closed forms against general solvers: speed, gap, and how far apart the answers are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import ldpopt
from experiments.bench import populations
from experiments.bench.limit import within
from experiments.bench.row import Row
from experiments.bench.timing import measure
from ldpopt import constraints, losses
from ldpopt.errors import LdpoptError

LOSSES = {"norm-sub": losses.LeastSquares, "mle-apx": losses.GaussianMLE}
# OSQP takes quadratics only.
SOLVERS = {"norm-sub": ("CLARABEL", "OSQP", "SCS"), "mle-apx": ("CLARABEL", "SCS")}


class Solved(NamedTuple):
    """One solver's second solve."""

    seconds: float
    first_seconds: float
    status: str
    gap: float
    difference: float


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return the speed-up of each closed form over each solver of its problem."""
    n, epsilon, repeats, limit = (settings[key] for key in ("n", "epsilon", "repeats", "limit"))
    rows = []
    for d in settings["d"]:
        estimate = populations.oue_estimate(d, n, epsilon, np.random.default_rng(d))
        for method, names in SOLVERS.items():
            closed = measure(partial(ldpopt.postprocess, estimate, method), repeats=repeats)
            for solver in names:
                solved, detail = attempt(limit, method, d, n, epsilon, solver)
                rows.append(
                    Row(
                        what=f"{method}, d = {d:,}",
                        seconds=closed.best,
                        measure="speed-up",
                        against=solver,
                        against_seconds=solved and solved.seconds,
                        first_seconds=closed.first,
                        detail=detail,
                    )
                )
    return rows


def attempt(limit: float, *task: Any) -> tuple[Solved | None, str]:
    """Return the measurement of ``solve_twice`` and its reading, or ``None`` and the reason."""
    try:
        # In a process of its own: some solvers do not stop, or take the process with them.
        solved: Solved | None = within(limit, solve_twice, *task)
    except (LdpoptError, ChildProcessError) as error:
        return None, str(error)
    if solved is None:
        return None, f"stopped: two solves took more than {limit:g} s"
    return solved, (
        f"{solved.status}, gap {solved.gap:.1e}, max difference {solved.difference:.1e}, "
        f"first solve {solved.first_seconds:.3g} s"
    )


def solve_twice(method: str, d: int, n: int, epsilon: float, solver: str) -> Solved:
    """Solve the method's problem twice with ``solver``; the second solve reuses the compilation."""
    estimate = populations.oue_estimate(d, n, epsilon, np.random.default_rng(d))
    problem = ldpopt.Problem(LOSSES[method](), [constraints.NonNegative(), constraints.SumsTo(1.0)])
    timing = measure(partial(problem.solve, estimate, path="conic", solver=solver), repeats=1)
    solution = timing.value
    closed = ldpopt.postprocess(estimate, method).frequencies
    # A speed-up over a solver that answers something else would mean nothing.
    difference = float(np.abs(solution.frequencies - closed).max())
    return Solved(
        timing.best, timing.first, str(solution.status), float(solution.certificate.gap), difference
    )
