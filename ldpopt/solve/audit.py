"""What each constraint of a problem is worth on one collection, and whether the reports refute it.

The worth is the difference of two unbiased risks, without the constraint and with it, on the same
reports. The test compares distances: how much farther from f̃ the nearest vector is once the
constraint is imposed, in standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Constraint, Fixed, Linear
from ldpopt.errors import InvalidInputError, NoDerivativeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.intervals import reach_of
from ldpopt.losses import Loss, WeightedLeastSquares
from ldpopt.risks import ALPHA, PROBES, Collection, Derivative, Evidence
from ldpopt.risks.collection import Kind, Moves
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.jacobian import jacobian
from ldpopt.tables import ShownAsTable, TitledTable, data_frame

Array = NDArray[np.float64]

# Rows of up to so many values are written out.
_DENSE = 5_000

# Differences of risks up to this share of the noise are rounding.
_ROUNDING = 1e-12

_HEADINGS = ("constraint", "worth in MSE", "interval", "in users", "p-value", "verdict")


class Solvable(Protocol):
    """A problem, as far as an audit uses it."""

    def minimise(self, estimate: FrequencyEstimate) -> Array:
        """Return the minimisers of a vector or a stack."""


Build = Callable[[Loss, Sequence[Constraint]], Solvable]


@dataclass(frozen=True)
class AuditRow:
    """One constraint.

    Attributes
    ----------
    constraint
        Its name, or what it states.
    worth, low, high
        By how much the mean squared error would be higher without it, and the interval of that
        difference; NaN where the problem has no solution without it. Negative: it does harm.
    users
        How many more users would be worth as much, if errors fall with 1/n; NaN where that is not
        known.
    p_value
        Probability of reports that are as far from it, if it holds and is as hard to tell from a
        violation as it can be; NaN where there is no test.
    is_refuted
        Whether the p-value is at most the level of the audit.
    note
        Why a number is missing.
    """

    constraint: str
    worth: float
    low: float
    high: float
    users: float
    p_value: float
    is_refuted: bool
    note: str = ""


@dataclass(frozen=True, repr=False)
class Audit(ShownAsTable):
    """The constraints of a problem on one collection: what ``problem.audit`` returns.

    Attributes
    ----------
    rows
        One per constraint, in their order.
    risk
        Estimated mean squared error with all of them.
    level
        Of the tests.
    """

    rows: tuple[AuditRow, ...]
    risk: float
    level: float

    @property
    def refuted(self) -> tuple[str, ...]:
        """The constraints that the reports refute."""
        return tuple(row.constraint for row in self.rows if row.is_refuted)

    def to_frame(self) -> Any:
        """Return the rows as a DataFrame; the error of a missing pandas names the remedy."""
        return data_frame([asdict(row) for row in self.rows], "the attribute rows")

    def _texts(self) -> list[list[str]]:
        return [
            [
                row.constraint,
                f"{row.worth:.3g}",
                f"{row.low:.3g} .. {row.high:.3g}",
                f"{row.users:,.0f}",
                f"{row.p_value:.3g}",
                "refuted" if row.is_refuted else _verdict(row),
            ]
            for row in self.rows
        ]

    @property
    def _table(self) -> TitledTable:
        title = f"Estimated MSE with all constraints {self.risk:.3g}; tests at {self.level:g}"
        notes = [f"{row.constraint}: {row.note}" for row in self.rows if row.note]
        return TitledTable(title, _HEADINGS, self._texts(), notes)


def _verdict(row: AuditRow) -> str:
    if np.isnan(row.worth):
        return ""
    if row.low > 0:
        return "helps"
    return "harms" if row.high < 0 else "undecided"


def audit(
    formulation: Formulation,
    build: Build,
    collection: Collection,
    *,
    level: float,
    trials: int,
    rng: np.random.Generator,
) -> Audit:
    """Return the audit of a problem, which ``build`` makes of a loss and constraints.

    ``Problem.audit`` states arguments and errors.
    """
    constraints = formulation.constraints
    kind: Kind = "sure" if formulation.convex else "bootstrap"
    moves = collection.moves(kind, PROBES, ALPHA, rng)
    judge = _Judge(formulation.loss, build, collection, moves, kind)
    whole = judge.evidence(constraints)
    tests = _Tests(build, collection, trials, rng)
    rows = []
    for place, constraint in enumerate(constraints):
        others = [*constraints[:place], *constraints[place + 1 :]]
        worth, half, note = judge.worth(whole, others)
        p_value, why = tests.p_value(constraint, others)
        rows.append(
            AuditRow(
                constraint=constraint.name or repr(constraint),
                worth=worth,
                low=worth - half,
                high=worth + half,
                users=_users(collection, worth, whole.total / collection.count),
                p_value=p_value,
                is_refuted=bool(p_value <= level),
                note="; ".join(filter(None, [note, why])),
            )
        )
    return Audit(tuple(rows), whole.total / collection.count, level)


def _users(collection: Collection, worth: float, risk: float) -> float:
    """Return how many users a difference of risks is worth, if errors fall with 1/n."""
    n = collection.raw.n
    # An unbiased estimate of a small risk may be negative, and then tells no ratio.
    return float("nan") if n is None or not risk > 0 else n * worth / risk


@dataclass(frozen=True, eq=False)
class _Judge:
    """Risks of one loss under different constraints, on the same moves."""

    loss: Loss
    build: Build
    collection: Collection
    moves: Moves
    kind: Kind

    def evidence(self, constraints: Sequence[Constraint]) -> Evidence:
        """Return the evidence about the loss under constraints."""
        problem = self.build(self.loss, constraints)

        def rule(estimate: FrequencyEstimate) -> FrequencyEstimate:
            return estimate.processed(self._minimised(estimate, constraints, problem))

        exact = self._exactly(constraints, problem) if self.kind == "sure" else None
        if exact is None:
            return Evidence.of(self.collection, rule, self.moves, self.kind)
        return Evidence.exact(self.collection, *exact, self.moves)

    def _minimised(
        self, estimate: FrequencyEstimate, constraints: Sequence[Constraint], problem: Solvable
    ) -> Array:
        """Return the minimisers for a stack of moved estimates."""
        raw = self.collection.raw
        if self.loss.moved(np.zeros(raw.d)) is self.loss:
            return problem.minimise(estimate)
        # Groups are measured too: what moved the combination moved each measurement.
        rows = []
        for row in estimate.frequencies:
            loss = self.loss.moved(row - raw.frequencies)
            moved = self.collection.moved(row)
            rows.append(self.build(loss, constraints).minimise(moved))
        return np.stack(rows)

    def _exactly(
        self, constraints: Sequence[Constraint], problem: Solvable
    ) -> tuple[Array, Derivative] | None:
        """Return the minimiser and its exact derivative, None where none is known."""
        raw = self.collection.raw
        formulation = Formulation(self.loss, tuple(constraints))
        point = problem.minimise(raw)
        try:
            return point, jacobian(formulation, formulation.accept(raw), point)
        except NoDerivativeError:
            return None

    def worth(self, whole: Evidence, others: Sequence[Constraint]) -> tuple[float, float, str]:
        """Return what a constraint is worth, half its interval, and why that is not known."""
        k = self.collection.count
        try:
            without = self.evidence(others)
        except InvalidInputError as reason:
            return float("nan"), float("nan"), f"without it there is no solution: {reason}"
        worth = without.excess(whole)
        # What the others imply is worth nothing; the rest of a difference of equals is rounding.
        if abs(worth) <= _ROUNDING * self.collection.noise_total:
            return 0.0, 0.0, ""
        half = without.excess_reach(whole, self.collection, reach_of(0.95))
        return worth / k, half / k, ""


@dataclass(frozen=True, eq=False)
class _Tests:
    """Distance tests of single constraints, in standard deviations of the raw estimate.

    Of the other constraints only the total is imposed, which is a matter of the domain. A false one
    would make constraints that contradict it look false; and what inequalities add to a distance
    has no law that is free of the truth: it depends on which of them hold there.
    """

    build: Build
    collection: Collection
    trials: int
    rng: np.random.Generator

    def p_value(self, constraint: Constraint, others: Sequence[Constraint]) -> tuple[float, str]:
        """Return the p-value of a constraint, or NaN and the reason why there is none."""
        if not constraint.convex:
            return float("nan"), "there is no test of a set that is not convex"
        d = self.collection.raw.d
        totals = [one for one in others if one.total(d) is not None]
        raw = self.collection.raw.frequencies
        try:
            observed = self._statistic(raw[None], constraint, totals)[0]
            hardest = self._least_favourable(constraint, totals)
            draws = hardest + self.collection.covariance.draws(self.trials, self.rng)
            simulated = self._statistic(draws, constraint, totals)
        except InvalidInputError as reason:
            return float("nan"), f"no test: {reason}"
        # Distances that vanish differ by rounding: they are no evidence.
        rounding = 1e-9 * (1 + float(np.max(simulated)))
        beyond = np.count_nonzero(simulated >= observed - rounding)
        return (1 + beyond) / (1 + self.trials), ""

    def _statistic(
        self, points: Array, constraint: Constraint, totals: Sequence[Constraint]
    ) -> Array:
        """Return how much farther the constraint is than the total alone, per point."""
        with_it = self._distance(points, [*totals, constraint])
        return np.maximum(with_it - self._distance(points, totals), 0.0)

    def _distance(self, points: Array, constraints: Sequence[Constraint]) -> Array:
        """Return squared distances from a set, each value in units of its standard deviation."""
        weights = 1 / self.collection.covariance.diagonal
        if not constraints:
            return np.zeros(len(points))
        nearest = self._nearest(points, constraints)
        return np.asarray(np.sum(weights * (points - nearest) ** 2, axis=-1))

    def _nearest(self, points: Array, constraints: Sequence[Constraint]) -> Array:
        weights = 1 / self.collection.covariance.diagonal
        # Of order 1: the conic path is made for such losses.
        loss = WeightedLeastSquares(weights / weights.mean())
        return self.build(loss, constraints).minimise(FrequencyEstimate(points))

    def _least_favourable(self, constraint: Constraint, totals: Sequence[Constraint]) -> Array:
        """Return the truth at which violations are hardest to tell, as far as the reports allow.

        That is where as many inequalities as possible hold with equality: all those within the
        largest noise of d values of the nearest point of the set (Andrews, Soares 2010).
        """
        raw = self.collection.raw.frequencies[None]
        nearest = self._nearest(raw, [*totals, constraint])
        tight = self._tightened(constraint, nearest[0])
        if tight is None:
            return nearest
        try:
            return self._nearest(nearest, [*totals, constraint, tight])
        # Not all of them can hold at once: the nearest point itself then has to do.
        except InvalidInputError:
            return nearest

    def _tightened(self, constraint: Constraint, point: Array) -> Constraint | None:
        """Return the inequalities near a point as equations; None if there is no such one."""
        d = len(point)
        # As many standard errors as the largest of d normal errors has.
        reach = float(np.sqrt(2 * np.log(max(d, 2))))
        box = constraint.box(d)
        if box is not None:
            lower, upper = box
            near = reach * np.sqrt(self.collection.covariance.diagonal)
            low = np.flatnonzero((point - lower <= near) & (lower < upper))
            return Fixed(low, lower[low]) if len(low) else None
        rows = constraint.rows(d)
        if rows is None or rows.auxiliary is not None:
            return None
        if d > _DENSE:
            return None
        values = np.asarray(rows.matrix @ point)
        dense = rows.matrix.toarray()
        variances = self.collection.covariance.quadratic(dense)
        sd = np.sqrt(np.maximum(variances, 0.0))
        side = np.where(np.isfinite(rows.lower), rows.lower, rows.upper)
        # What is an equation already cannot become tighter.
        one_sided = rows.lower < rows.upper
        is_near = np.abs(values - side) <= reach * sd
        chosen = np.flatnonzero(one_sided & is_near)
        if not len(chosen):
            return None
        return Linear(dense[chosen], side[chosen], side[chosen])
