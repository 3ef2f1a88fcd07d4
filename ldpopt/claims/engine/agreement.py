"""Closed forms against solvers, over many instances, and what counts as agreement."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.claims.engine.exactness import ExactRecord
from ldpopt.claims.engine.instances import Instance
from ldpopt.claims.engine.tolerances import BELOW, CONVERGED, DISTANCE, EXCESS, GAP, IDENTICAL
from ldpopt.claims.engine.wrong_points import is_accepted, slope_scale, wrong_points
from ldpopt.errors import LdpoptWarning, SolverError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate import Certificate, certify
from ldpopt.solve.problem import Problem
from ldpopt.solve.solution import Solution

Array = NDArray[np.float64]
ClosedForm = Callable[[FrequencyEstimate], Array]

_PLOTTED = 20_000  # coordinates kept for the report's picture: more do not show

# Vectors of a random stack that go to the solvers, which take milliseconds for each: all of them
# are compared with the exact minimiser, or certified. Where the set is no box, a solver's point
# takes a search for multipliers besides.
_PER_STACK = 2
_PER_STACK_ON_POLYHEDRA = 1

# Largest d at which a certificate on a polyhedron is to refuse wrong points: there it looks for
# multipliers by a program, which finds none and takes long.
_REFUSED_ON_POLYHEDRA = 32


def _no_values() -> Array:
    return np.empty(0)


@dataclass
class SolverRecord:
    """What one solver made of the vectors that it was given.

    Attributes
    ----------
    converged
        Number of vectors for which it returned a point that is as good as the closed form's: its
        violation is at most EXCESS, and its objective at most EXCESS above. The status does not
        decide: a certified gap can be large at a point that is right to ten digits.
    not_converged
        Number of vectors on which it gave up, or that it solved inaccurately.
    difference
        Largest coordinate difference to the closed form.
    ratio
        Largest ratio of the distance ‖·‖₂ to what the difference of the objectives allows: a loss
        with curvature m keeps a point that is γ above the optimum within sqrt(2γ/m) of it.
    below
        How far the solver's objective is below the closed form's, beyond what its violation
        explains, relative to 1 + objective.
    steps
        Number of iterations that the solver took in all.
    points, identical
        Number of its points, one per solve, and of those that are the closed form's in every bit.
        Two ways of computing agree so well by chance on few vectors only.
    closed, solved
        Coordinates of both points, for the picture.
    """

    converged: int = 0
    not_converged: int = 0
    difference: float = 0.0
    ratio: float = 0.0
    below: float = 0.0
    steps: int = 0
    points: int = 0
    identical: int = 0
    closed: Array = field(default_factory=_no_values)
    solved: Array = field(default_factory=_no_values)

    @property
    def agrees(self) -> bool:
        """Whether the solver converged often enough, and always to the closed form's point."""
        given = self.converged + self.not_converged
        return (
            # A solver that no vector was given to confirms nothing.
            given > 0
            and self.converged >= CONVERGED * given
            and self.ratio <= 1
            and self.below <= BELOW
            and self.is_a_solvers
        )

    @property
    def is_a_solvers(self) -> bool:
        """Whether the points come from a solver, and are not the closed form's own."""
        if self.steps == 0:
            # Where only equations hold, an interior point method starts at the solution and reports
            # no iteration: then its bits alone show that it has computed.
            return self.identical == 0
        return self.identical <= IDENTICAL * self.points

    def numbers(self, solver: str) -> list[tuple[str, float | int | None]]:
        """Return headings and numbers for the report; None where there is nothing to report."""
        return [
            (f"vectors solved by {solver}", self.converged),
            (f"iterations of {solver}", self.steps),
            (f"points of {solver}, one per solve", self.points),
            (f"points of {solver} that are the closed form's in every bit", self.identical),
            (f"vectors on which {solver} gave up or was inaccurate", self.not_converged or None),
            (
                f"largest difference to {solver}, in frequency",
                self.difference if self.converged else None,
            ),
            (
                f"largest distance to {solver} over what its objective allows",
                self.ratio if self.converged else None,
            ),
            (
                f"largest advantage of {solver} in the objective, relative",
                self.below if self.below > 0 else None,
            ),
        ]

    def add(self, other: SolverRecord) -> None:
        """Add what the same solver made of further vectors."""
        self.converged += other.converged
        self.not_converged += other.not_converged
        self.difference = _larger(self.difference, other.difference)
        self.ratio = _larger(self.ratio, other.ratio)
        self.below = _larger(self.below, other.below)
        self.steps += other.steps
        self.points += other.points
        self.identical += other.identical
        # Appending copies: full arrays are left alone.
        if self.closed.size < _PLOTTED:
            self.closed = np.append(self.closed, other.closed)[:_PLOTTED]
            self.solved = np.append(self.solved, other.solved)[:_PLOTTED]


@dataclass
class Agreement:
    """A closed form and several solvers on the same vectors.

    Attributes
    ----------
    vectors
        Number of vectors, each certified by the gap of the closed form's point.
    gap, violation
        Largest certified gap (relative to the gradient) and violation of the closed form.
    exact
        How far its points are from the exact minimisers, of the vectors for which these are
        computed.
    planted, refused
        Number of wrong points that the certificate looked at, and of those that it refused.
    solvers
        What each solver made of the vectors; those beyond its size limit are not counted.
    unconfirmed
        Names of the real instances on which fewer than two solvers converged.
    """

    vectors: int = 0
    gap: float = 0.0
    violation: float = 0.0
    exact: ExactRecord = field(default_factory=ExactRecord)
    planted: int = 0
    refused: int = 0
    solvers: dict[str, SolverRecord] = field(default_factory=dict)
    unconfirmed: list[str] = field(default_factory=list)

    @classmethod
    def merged(cls, parts: list[Agreement]) -> Agreement:
        """Return several comparisons as one; each keeps the solvers that it used."""
        total = cls()
        for part in parts:
            total.vectors += part.vectors
            # The worst of all parts, and NaN if one has it: max would let it pass.
            total.gap = _larger(total.gap, part.gap)
            total.violation = _larger(total.violation, part.violation)
            total.exact.add(part.exact)
            total.planted += part.planted
            total.refused += part.refused
            total.unconfirmed += part.unconfirmed
            for solver, record in part.solvers.items():
                total.solvers.setdefault(solver, SolverRecord()).add(record)
        return total

    @property
    def holds(self) -> bool:
        """Whether the closed form is certified, and every solver converged to the same point."""
        return (
            # Without vectors all bounds below would hold.
            self.vectors > 0
            and self.gap <= GAP
            and self.violation <= GAP
            and self.exact.distance <= DISTANCE
            and self.refused == self.planted
            and all(record.agrees for record in self.solvers.values())
        )

    @property
    def evidence(self) -> dict[str, float | int | str]:
        """The numbers for the report."""
        numbers: dict[str, float | int | str] = {
            "vectors certified by the closed form's own gap": self.vectors,
            "closed form's largest gap": self.gap,
            "closed form's largest violation": self.violation,
        }
        if self.exact.vectors:
            numbers |= {
                "vectors compared with the exact minimiser, a rational number": self.exact.vectors,
                "largest distance to it, in units in the last place": self.exact.ulps,
                "the same in frequency": self.exact.distance,
            }
        if self.planted:
            numbers["wrong points that the certificate refused"] = (
                f"{self.refused:,} of {self.planted:,}"
            )
        # By number, then by solver: a reader compares solvers.
        records = [record.numbers(solver) for solver, record in self.solvers.items()]
        for same_number in zip(*records, strict=True):
            numbers.update({heading: x for heading, x in same_number if x is not None})
        if self.unconfirmed:
            numbers["real instances with fewer than two solvers"] = ", ".join(self.unconfirmed)
        return numbers


@dataclass(frozen=True, eq=False)
class _Reference:
    """The closed form's points on one instance, and what each says of a solver's point.

    Attributes
    ----------
    value
        Objective at each point, shape (trials...).
    curvature
        Least curvature of the loss between 0 and the largest coordinate.
    price
        What a violation of 1 may lower the objective by: the sum of the |multipliers|.
    """

    problem: Problem
    instance: Instance
    points: Array
    value: Array
    curvature: Array
    price: Array

    @classmethod
    def of(
        cls, problem: Problem, instance: Instance, points: Array, certificate: Certificate
    ) -> _Reference:
        """Return the reference of an instance; further points than it has are dropped."""
        estimate = instance.estimate
        vectors = len(estimate.frequencies)
        points = points[:vectors]
        # Multipliers are shadow prices: by so much the minimum falls per unit of violation.
        price = np.abs(certificate.sum_multiplier)
        for multipliers in (certificate.bound_multipliers, certificate.row_multipliers):
            price = price + np.abs(_finite(multipliers)).sum(axis=-1)
        price = price[:vectors]
        # Where the certificate has no multipliers the gradient stands in for their size.
        slope = np.abs(_finite(problem.loss.gradient(points, estimate))).sum(axis=-1)
        return cls(
            problem,
            instance,
            points,
            value=problem.loss.value(points, estimate),
            # A solver's point may have any value up to 1, or up to the closed form's largest.
            curvature=problem.loss.curvature(
                estimate, lower=0.0, upper=max(1.0, float(points.max()))
            ).min(axis=-1),
            price=np.where(np.isnan(price), slope, price),
        )

    def judge(self, trial: tuple[int, ...], solution: Solution | None) -> SolverRecord:
        """Return the record of one vector, from the solver's solution (None: it gave up)."""
        vectors = self.instance.joined
        if solution is None:
            return SolverRecord(not_converged=vectors)
        value = float(self.value[trial])
        size = 1 + abs(value)
        violations = [float(c.violation(solution.frequencies)) for c in self.problem.constraints]
        outside = max(violations, default=0.0)
        # An objective far below the closed form's is not sorted out here: it would refute the
        # claim.
        if outside > EXCESS or solution.objective - value > EXCESS * size:
            return SolverRecord(not_converged=vectors)
        # A point outside the set may lie below the optimum: by at most price times its violation.
        allowance = float(self.price[trial]) * outside
        excess = max(solution.objective - value, 0.0) + allowance
        step = solution.frequencies - self.points[trial]
        return SolverRecord(
            converged=vectors,
            steps=solution.iterations,
            points=1,
            identical=0 if step.any() else 1,
            difference=float(np.max(np.abs(step))),
            ratio=float(np.linalg.norm(step)) / self._allowed(trial, excess, outside, size),
            below=_larger(0.0, (value - solution.objective - allowance) / size),
            closed=self.points[trial],
            solved=solution.frequencies,
        )

    def _allowed(self, trial: tuple[int, ...], excess: float, outside: float, size: float) -> float:
        """Return how far from the optimum a point may be whose objective is ``excess`` higher."""
        curvature = float(self.curvature[trial])
        # A flat loss, or NaN, says nothing about distances.
        if not curvature > 0:
            return np.inf
        rounding = 1e-15 * size  # of the two objectives, whose difference is the excess
        distance = float(np.sqrt(2 * (excess + rounding) / curvature))
        # Back onto the set, and the rounding of the points themselves.
        return distance + outside * self.instance.estimate.d + 1e-13


def compare_with_solvers(
    problem: Problem,
    closed_form: ClosedForm,
    instances: list[Instance],
    solvers: tuple[str, ...],
    largest: Mapping[str, int] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Agreement:
    """Return how a closed form compares with the exact minimiser, and with solvers.

    Every vector is certified, and compared with its exact minimiser where that is rational
    (`ExactRecord`). Solvers are the second voice: they get two vectors of each random stack (one
    where the set is no box), and all others.

    Parameters
    ----------
    problem
        What both solve.
    closed_form
        From an estimate to frequencies; must not go through ``problem``.
    instances
        Stacks of estimates.
    solvers
        Names for the conic path; none leaves the certificates alone.
    largest
        By solver: the largest d that it is given, where it is too slow beyond.
    options
        By solver: settings, where it cannot reach the usual accuracy.
    """
    largest = largest or {}
    options = options or {}
    result = Agreement(solvers={solver: SolverRecord() for solver in solvers})
    for instance in instances:
        d = instance.estimate.d
        points = closed_form(instance.estimate)
        certificate = _certify(result, problem, instance, points)
        number = _PER_STACK if problem.is_box(d) else _PER_STACK_ON_POLYHEDRA
        few = instance.first(number)
        chosen = [solver for solver in solvers if d <= largest.get(solver, d)]
        confirmed = 0
        if chosen:
            reference = _Reference.of(problem, few, points, certificate)
            confirmed = _solve_by_all(result, reference, chosen, options)
        # One solver alone could share an error with the closed form.
        if solvers and instance.kind == "real" and confirmed < 2:
            result.unconfirmed.append(instance.name)
    return result


def _certify(result: Agreement, problem: Problem, instance: Instance, points: Array) -> Certificate:
    """Add what certificates say of a closed form's points on an instance; return theirs."""
    estimate = instance.estimate
    # The certificate needs no solver: it is the proof, and the solvers a second opinion.
    certificate = certify(problem, estimate, points)
    scale = slope_scale(problem, estimate, points)
    result.vectors += instance.vectors
    result.gap = _larger(result.gap, float(np.max(certificate.gap / scale)))
    result.violation = _larger(result.violation, float(np.max(certificate.violation)))
    if instance.joined == 1:
        result.exact.add(ExactRecord.of(problem, estimate, points))
    if problem.is_box(estimate.d) or estimate.d <= _REFUSED_ON_POLYHEDRA:
        # A certificate that accepts everything would accept these: one vector per stack shows it.
        wrong = wrong_points(points[0])
        copies = estimate[np.zeros(len(wrong), dtype=np.intp)]
        result.planted += len(wrong)
        result.refused += int(np.count_nonzero(~is_accepted(problem, copies, wrong)))
    return certificate


def _solve_by_all(
    result: Agreement,
    reference: _Reference,
    solvers: list[str],
    options: Mapping[str, Mapping[str, Any]],
) -> int:
    """Add what solvers make of an instance; return how many of them solved all its vectors."""
    confirmed = 0
    for solver in solvers:
        record = _solve(reference, solver, options.get(solver, {}))
        result.solvers[solver].add(record)
        confirmed += record.not_converged == 0
    return confirmed


def _solve(reference: _Reference, solver: str, options: Mapping[str, Any]) -> SolverRecord:
    """Return what one solver makes of all vectors of an instance."""
    total = SolverRecord()
    estimate = reference.instance.estimate
    for trial in np.ndindex(reference.points.shape[:-1]):
        vector = estimate[trial]
        try:
            with warnings.catch_warnings():
                # The record counts inaccurate points.
                warnings.simplefilter("ignore", LdpoptWarning)
                solution = reference.problem.solve(vector, path="conic", solver=solver, **options)
        except SolverError:  # it returned no point
            solution = None
        total.add(reference.judge(trial, solution))
    return total


def _larger(first: float, second: float) -> float:
    """Return the larger number; NaN if either is, which no threshold lets pass."""
    return float(np.maximum(first, second))


def _finite(values: Array) -> Array:
    """Return values with 0 in place of infinities and NaN."""
    return np.where(np.isfinite(values), values, 0.0)
