"""Closed form against solvers, over many instances, and what counts as agreement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.claims.engine.instances import Instance
from ldpopt.errors import SolverError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate import Certificate, certify
from ldpopt.solve.paths.conic import Status
from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

GAP = 1e-9
"""Largest gap of a closed form, relative to the size of the gradient: rounding over 10⁴ values stays far below."""

EXCESS = 1e-6
"""Largest objective of a solver's point above the closed form's, relative to 1 + objective, for the solver to count as
converged. A point *below* the closed form's objective always counts, and refutes it."""

BELOW = 1e-7
"""How far below the closed form's objective a solver's may be, relative to 1 + objective: rounding of its violation."""

CONVERGED = 0.9
"""Share of the vectors given to it that each solver must solve."""

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
        By solver: largest coordinate difference to the closed form.
    ratio
        By solver: largest ratio of the distance ‖·‖₂ to what the difference of the objectives allows. A loss with curvature
        m keeps a point that is γ above the optimum within sqrt(2γ/m) of it.
    below
        By solver: by how much its objective is below the closed form's, beyond what its violation explains, relative to
        1 + objective.
    alone
        Real instances on which fewer than two solvers converged.
    gap, violation
        Largest certified gap (relative to the gradient) and violation of the closed form.
    closed, solved
        By solver: coordinates of both for the picture.
    """

    vectors: int = 0
    optimal: dict[str, int] = field(default_factory=dict)
    not_converged: dict[str, int] = field(default_factory=dict)
    difference: dict[str, float] = field(default_factory=dict)
    ratio: dict[str, float] = field(default_factory=dict)
    below: dict[str, float] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)
    gap: float = 0.0
    violation: float = 0.0
    closed: dict[str, Array] = field(default_factory=dict)
    solved: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def merged(cls, parts: list[Agreement]) -> Agreement:
        """Return several comparisons with the same solvers as one."""
        total = cls()
        for part in parts:
            total.vectors += part.vectors
            total.gap, total.violation = (
                _worst(total.gap, part.gap),
                _worst(total.violation, part.violation),
            )
            total.alone += part.alone
            for solver, count in part.optimal.items():
                total.optimal[solver] = total.optimal.get(solver, 0) + count
                total.not_converged[solver] = (
                    total.not_converged.get(solver, 0) + part.not_converged[solver]
                )
            for mine, theirs in (
                (total.difference, part.difference),
                (total.ratio, part.ratio),
                (total.below, part.below),
            ):
                for solver, largest in theirs.items():
                    mine[solver] = _worst(mine.get(solver, 0.0), largest)
            for solver in part.closed:
                total.closed[solver] = np.append(
                    total.closed.get(solver, np.empty(0)), part.closed[solver]
                )[:_PLOTTED]
                total.solved[solver] = np.append(
                    total.solved.get(solver, np.empty(0)), part.solved[solver]
                )[:_PLOTTED]
        return total

    @property
    def holds(self) -> bool:
        """Whether the closed form is certified, and every point that a solver calls optimal is the same point."""
        return bool(
            self.vectors > 0
            and self.gap <= GAP
            and self.violation <= GAP
            and all(
                self.optimal[s] >= CONVERGED * (self.optimal[s] + self.not_converged[s]) > 0
                for s in self.optimal
            )
            and all(ratio <= 1 for ratio in self.ratio.values())
            and all(below <= BELOW for below in self.below.values())
        )

    @property
    def evidence(self) -> dict[str, float | int | str]:
        """The numbers for the report."""
        return {
            "vectors certified by the closed form's own gap": self.vectors,
            "closed form's largest gap": self.gap,
            "closed form's largest violation": self.violation,
            **{f"vectors solved by {solver}": count for solver, count in self.optimal.items()},
            **{
                f"{solver} gave up or was inaccurate": count
                for solver, count in self.not_converged.items()
                if count
            },
            **{
                f"largest difference to {solver}, in frequency": value
                for solver, value in self.difference.items()
            },
            **{
                f"distance to {solver} over what its objective allows, at most": r
                for solver, r in self.ratio.items()
            },
            **{
                f"largest advantage of {solver} in the objective, relative": b
                for solver, b in self.below.items()
                if b > 0
            },
            **(
                {"real instances with fewer than two solvers": ", ".join(self.alone)}
                if self.alone
                else {}
            ),
        }


def compare(
    problem: Problem,
    closed_form: Callable[[FrequencyEstimate], Array],
    instances: list[Instance],
    solvers: tuple[str, ...],
    largest: dict[str, int] | None = None,
    options: dict[str, dict[str, Any]] | None = None,
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
    options
        By solver: settings, where the usual ones are out of its reach.
    """
    result = Agreement(optimal=dict.fromkeys(solvers, 0), not_converged=dict.fromkeys(solvers, 0))
    for instance in instances:
        estimate = instance.estimate
        f = closed_form(estimate)
        certificate = certify(problem, estimate, f)
        scale = np.maximum(1.0, np.abs(_finite(problem.loss.gradient(f, estimate))).max(axis=-1))
        result.vectors += instance.vectors
        result.gap = _worst(result.gap, float(np.max(certificate.gap / scale)))
        result.violation = _worst(result.violation, float(np.max(certificate.violation)))
        given = [s for s in solvers if estimate.d <= (largest or {}).get(s, estimate.d)]
        solved = [
            _solve(
                result, problem, instance, f, certificate, solver, (options or {}).get(solver, {})
            )
            for solver in given
        ]
        if instance.kind == "real" and sum(solved) < 2:
            result.alone.append(instance.name)
    return result


def _solve(
    result: Agreement,
    problem: Problem,
    instance: Instance,
    f: Array,
    certificate: Certificate,
    solver: str,
    options: dict[str, Any],
) -> bool:
    """Add what one solver makes of an instance, and return whether it converged on every vector."""
    start, converged = instance.estimate, True
    value = problem.loss.value(f, start)
    curvature = problem.loss.curvature(start, max(1.0, float(f.max())))
    price = np.abs(certificate.sum_multiplier)
    for multipliers in (certificate.bound_multipliers, certificate.row_multipliers):
        price = price + np.abs(_finite(multipliers)).sum(axis=-1)
    # Where the certificate has no multipliers the gradient stands in for their size.
    price = np.where(
        np.isnan(price), np.abs(_finite(problem.loss.gradient(f, start))).sum(axis=-1), price
    )
    for trial in np.ndindex(f.shape[:-1]):
        estimate = FrequencyEstimate(start.frequencies[trial], start.n, start.oracle)
        try:
            solution = problem.solve(estimate, path="conic", solver=solver, **options)
        except SolverError:
            solution = None
        size = 1 + abs(float(value[trial]))
        if (
            solution is None
            or solution.status is not Status.OPTIMAL
            or solution.objective - value[trial] > EXCESS * size
        ):
            result.not_converged[solver] += instance.joined
            converged = False
            continue
        result.optimal[solver] += instance.joined
        # A point outside the set may lie below the optimum: by no more than the multipliers times its violation.
        outside = max(
            (float(c.violation(solution.frequencies)) for c in problem.constraints), default=0.0
        )
        excess = max(solution.objective - value[trial], 0.0) + price[trial] * outside + 1e-15 * size
        allowed = float(np.sqrt(2 * excess / curvature[trial])) if curvature[trial] > 0 else np.inf
        allowed += outside * start.d + 1e-13
        below = (value[trial] - solution.objective - price[trial] * outside) / size
        result.below[solver] = _worst(result.below.get(solver, 0.0), float(below))
        step = solution.frequencies - f[trial]
        result.difference[solver] = _worst(
            result.difference.get(solver, 0.0), float(np.max(np.abs(step)))
        )
        result.ratio[solver] = _worst(
            result.ratio.get(solver, 0.0), float(np.linalg.norm(step)) / allowed
        )
        if result.closed.get(solver, np.empty(0)).size < _PLOTTED:
            result.closed[solver] = np.append(result.closed.get(solver, np.empty(0)), f[trial])
            result.solved[solver] = np.append(
                result.solved.get(solver, np.empty(0)), solution.frequencies
            )
    return converged


def _worst(first: float, second: float) -> float:
    """Return the larger number; NaN if either is, which no threshold lets pass."""
    return float(np.maximum(first, second))


def _finite(gradient: Array) -> Array:
    return np.where(np.isfinite(gradient), gradient, 0.0)
