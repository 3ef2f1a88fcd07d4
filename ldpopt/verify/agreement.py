"""Closed form against solvers, over many instances, and what counts as agreement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldpopt.certificate import certify
from ldpopt.conic import Status
from ldpopt.errors import SolverError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.problem import Problem
from ldpopt.verify.instances import Instance

Array = NDArray[np.float64]

GAP = 1e-9
"""Largest gap of a closed form, relative to the size of the gradient: rounding over 10⁴ values stays far below."""

DIFFERENCE = 1e-4
"""Largest coordinate difference to a point that a solver calls optimal: interior point methods stop at a gap of about
1e-9, and where the loss has curvature 1 the square root of twice the gap bounds the error in x. The proof is the closed
form's own gap; this says that the solver means the same problem."""

CONVERGED = 0.9
"""Share of the vectors that each solver must solve: a comparison with a solver that gives up proves nothing."""

_PLOTTED = 20_000  # points kept for the report's picture


@dataclass
class Agreement:
    """Closed form and solvers on the same vectors.

    Attributes
    ----------
    vectors
        Number of vectors.
    optimal, not_converged
        By solver: vectors it called optimal, and those it gave up on or returned as inaccurate. Vectors beyond a solver's
        size limit are in neither.
    difference
        By solver: largest coordinate difference to the closed form over its optimal points.
    gap, violation
        Largest certified gap (relative to the gradient) and violation of the closed form.
    closed, solved
        By solver: coordinates of both for the picture.
    """

    vectors: int = 0
    optimal: dict[str, int] = field(default_factory=dict)
    not_converged: dict[str, int] = field(default_factory=dict)
    difference: dict[str, float] = field(default_factory=dict)
    gap: float = 0.0
    violation: float = 0.0
    closed: dict[str, Array] = field(default_factory=dict)
    solved: dict[str, Array] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether the closed form is certified, and every point that a solver calls optimal is the same point."""
        return bool(
            self.vectors > 0
            and self.gap <= GAP
            and self.violation <= GAP
            and all(self.optimal[s] >= CONVERGED * (self.optimal[s] + self.not_converged[s]) > 0 for s in self.optimal)
            and all(difference <= DIFFERENCE for difference in self.difference.values())
        )

    @property
    def evidence(self) -> dict[str, float | int | str]:
        """The numbers for the report."""
        return {
            "closed form's largest gap": self.gap,
            "closed form's largest violation": self.violation,
            **{f"vectors solved by {solver}": count for solver, count in self.optimal.items()},
            **{f"{solver} gave up or was inaccurate": count for solver, count in self.not_converged.items() if count},
            **{f"largest difference to {solver}": value for solver, value in self.difference.items()},
        }


def compare(
    problem: Problem,
    closed_form: Callable[[FrequencyEstimate], Array],
    instances: list[Instance],
    solvers: tuple[str, ...],
    largest: dict[str, int] | None = None,
) -> Agreement:
    """Return how a closed form compares with solvers on every instance.

    Parameters
    ----------
    problem
        What both solve.
    closed_form
        From an estimate to frequencies; must not go through ``problem``.
    instances
        Stacks of estimates.
    solvers
        Names for the conic path.
    largest
        By solver: the largest d it is given, where it is too slow beyond.
    """
    result = Agreement(optimal=dict.fromkeys(solvers, 0), not_converged=dict.fromkeys(solvers, 0))
    for instance in instances:
        estimate = instance.estimate
        f = closed_form(estimate)
        certificate = certify(problem, estimate, f)
        scale = np.maximum(1.0, np.abs(_finite(problem.loss.gradient(f, estimate))).max(axis=-1))
        result.vectors += instance.vectors
        result.gap = max(result.gap, float(np.max(certificate.gap / scale)))
        result.violation = max(result.violation, float(np.max(certificate.violation)))
        for solver in solvers:
            if estimate.d <= (largest or {}).get(solver, estimate.d):
                _solve(result, problem, instance, f, solver)
    return result


def _solve(result: Agreement, problem: Problem, instance: Instance, f: Array, solver: str) -> None:
    for trial in np.ndindex(f.shape[:-1]):
        estimate = FrequencyEstimate(
            instance.estimate.frequencies[trial], instance.estimate.n, instance.estimate.oracle
        )
        try:
            solution = problem.solve(estimate, path="conic", solver=solver)
        except SolverError:
            solution = None
        if solution is None or solution.status is not Status.OPTIMAL:
            result.not_converged[solver] += 1
            continue
        result.optimal[solver] += 1
        difference = float(np.max(np.abs(solution.frequencies - f[trial])))
        result.difference[solver] = max(result.difference.get(solver, 0.0), difference)
        if result.closed.get(solver, np.empty(0)).size < _PLOTTED:
            result.closed[solver] = np.append(result.closed.get(solver, np.empty(0)), f[trial])
            result.solved[solver] = np.append(result.solved.get(solver, np.empty(0)), solution.frequencies)


def _finite(gradient: Array) -> Array:
    return np.where(np.isfinite(gradient), gradient, 0.0)
