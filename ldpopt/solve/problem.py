"""A loss under constraints, solved by its closed form where one is known and by a solver where not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.constraints import Constraint, NonNegative
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.sets import Sets
from ldpopt.losses import Loss
from ldpopt.solve import constrained_intervals, feasibility
from ldpopt.solve.certificate import Certificate, certify
from ldpopt.solve.paths import closed_forms, conic, iterative
from ldpopt.solve.paths.closed_forms import NO_MINIMUM
from ldpopt.solve.paths.conic import Accuracy, CompiledProblem, Status

Array = NDArray[np.float64]
Path = Literal["auto", "closed-form", "iterative", "conic"]
_SLACK = 1e-9  # by how much rounding may put a total outside what the bounds allow
_RUNAWAY = 1e9  # times the estimate: where a solver's point has left for infinity
_PATHS = ("auto", "closed-form", "iterative", "conic")


class Problem:
    """Minimise a loss of the frequencies under constraints.

    Parameters
    ----------
    loss
        What is minimised, from ``ldpopt.losses``.
    constraints
        Where, from ``ldpopt.constraints``; none at all is the whole space.

    Raises
    ------
    InvalidTypeError
        If an argument is not a loss or not constraints.
    InfeasibleError
        If the constraints contradict each other on their face.

    Notes
    -----
    Solving on the conic path compiles a cvxpy problem per shape and keeps it; do not share a Problem between threads.

    Examples
    --------
    >>> from ldpopt import constraints, losses
    >>> cls = Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1.0)])
    >>> solution = cls.solve([0.5, 0.2, -0.01])
    >>> solution.frequencies.round(3), solution.solver
    (array([0.603, 0.303, 0.093]), 'norm-sub')
    >>> solution.certificate.is_optimal(1e-12)
    True
    """

    def __init__(self, loss: Loss, constraints: Sequence[Constraint] = ()) -> None:
        if not isinstance(loss, Loss):
            raise InvalidTypeError(
                f"loss must be an instance from ldpopt.losses, such as LeastSquares(), got {loss!r}"
            )
        if not isinstance(constraints, Sequence) or not all(
            isinstance(c, Constraint) for c in constraints
        ):
            raise InvalidTypeError(
                f"constraints must be a list of instances from ldpopt.constraints, such as [NonNegative()], got {constraints!r}"
            )
        self.loss = loss
        self.constraints = tuple(constraints)  # what is compiled depends on them
        totals = {t for c in self.constraints if (t := c.total()) is not None}
        if len(totals) > 1:
            raise InfeasibleError(f"the frequencies cannot have different totals: {sorted(totals)}")
        self.total = totals.pop() if totals else None
        bounds = [loss] * loss.nonnegative_domain + [
            c for c in self.constraints if isinstance(c, NonNegative)
        ]
        if self.total is not None and self.total < 0 and bounds:
            raise InfeasibleError(
                f"{bounds[0]!r} and SumsTo({self.total:g}) contradict each other: no value may be negative"
            )
        self._compiled: dict[tuple[Any, ...], CompiledProblem] = {}
        self._feasible: set[int] = (
            set()
        )  # sizes for which the constraints are known not to conflict

    def check(self, d: int) -> None:
        """Raise an error if a constraint does not fit d values, or bounds and total contradict each other."""
        for constraint in self.constraints:
            constraint.validate_for(d)
        lower, upper = self.box(d)
        crossed = lower > upper
        if crossed.any():
            at = int(np.argmax(crossed))
            raise InfeasibleError(
                f"the bounds contradict each other at index {at}: at least {lower[at]:g}, at most {upper[at]:g}"
            )
        if (
            self.total is not None
            and not lower.sum() - _SLACK <= self.total <= upper.sum() + _SLACK
        ):
            raise InfeasibleError(
                f"SumsTo({self.total:g}) cannot be met: the bounds let the sum be from {lower.sum():g} to {upper.sum():g}"
            )

    def box(self, d: int) -> tuple[Array, Array]:
        """Return the tightest (lower, upper) bounds of d values that the constraints state one by one."""
        lower = np.full(d, 0.0 if self.loss.nonnegative_domain else -np.inf)
        upper = np.full(d, np.inf)
        for constraint in self.constraints:
            if (box := constraint.box(d)) is not None:
                lower, upper = np.maximum(lower, box[0]), np.minimum(upper, box[1])
        return lower, upper

    @property
    def is_box(self) -> bool:
        """Whether the constraints are bounds and at most one total: then values interact through one multiplier only."""
        return all(
            c.total() is not None or type(c).box is not Constraint.box for c in self.constraints
        )

    def explain(self, estimate: FrequencyEstimate | ArrayLike) -> str:
        """Return which path ``solve`` would take for this estimate, and why, without solving.

        Examples
        --------
        >>> from ldpopt import constraints, losses
        >>> cls = Problem(losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo(1.0)])
        >>> cls.explain([0.5, 0.6])
        'closed-form: LeastSquares() under NonNegative(), SumsTo(1) is solved by norm-sub'
        """
        start = self._checked(estimate)
        where = f"{self.loss!r} under {', '.join(map(repr, self.constraints)) or 'no constraints'}"
        if form := closed_forms.find(self, start):
            return f"closed-form: {where} is solved by {form.name}"
        if rigid := [c for c in self.constraints if not c.convex]:
            return f"none: {where} is not convex and has no closed form, which {type(rigid[0]).__name__} needs: {rigid[0].remedy}"
        if algorithms := iterative.find(self):
            return (
                f"iterative: {where} has no closed form; it is solved by {' or '.join(algorithms)}"
            )
        return f"conic: {where} has no closed form; {conic.DEFAULT_SOLVER} solves it through cvxpy"

    def solve(
        self,
        estimate: FrequencyEstimate | ArrayLike,
        path: Path = "auto",
        solver: str | None = None,
        accuracy: Accuracy = "high",
        **solver_options: Any,
    ) -> Solution:
        """Return the minimiser.

        Parameters
        ----------
        estimate
            Where f̃ comes from: one vector or a stack of trials. A plain array will do where the loss needs no noise level.
        path
            ``"closed-form"``, ``"iterative"`` (an algorithm of ldpopt that steps towards the solution), ``"conic"``, or
            ``"auto"``: the first of them that there is, if no solver is named. ``explain`` tells which.
        solver
            Name of an installed cvxpy solver for the conic path, CLARABEL by default, or of an iterative algorithm.
        accuracy
            ``"low"`` (tolerances of 1e-4), ``"default"`` (what the solver chooses) or ``"high"`` (``conic.SETTINGS``).
        **solver_options
            Passed to the solver, over those settings.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the path is unknown or not available (the reason is given), or the loss is not defined for the estimate.
        InfeasibleError, SolverError
            If nothing satisfies the constraints (those that conflict are named), or the solver is missing or returns nothing.

        Notes
        -----
        Cost: closed forms are a sort or a few passes for all trials at once; the other paths solve trial by trial. A loss that
        is not convex is solved by convex-concave steps, each of them on the path asked for.
        """
        start = self._checked(estimate)
        validate.lookup("path", path, dict.fromkeys(_PATHS))
        validate.lookup("accuracy", accuracy, conic.SETTINGS)
        form, algorithms = closed_forms.find(self, start), iterative.find(self)
        if path in ("closed-form", "iterative") and not (
            form if path == "closed-form" else algorithms
        ):
            _, _, reason = self.explain(start).partition(": ")
            raise InvalidInputError(f"path={path!r} is not available: {reason}")
        if path == "closed-form" and solver is not None:
            raise InvalidInputError(
                "path='closed-form' takes no solver: leave out solver and its options, or use path='conic'"
            )
        if solver_options and solver is None and path not in ("conic", "iterative"):
            named = ", ".join(solver_options)
            raise InvalidInputError(
                f"options of a solver ({named}) need a solver: name one, or use path='conic'"
            )
        began = time.perf_counter()
        if form is not None and (path == "closed-form" or (path == "auto" and solver is None)):
            f = form.solve(start, self)
            return Solution(
                self,
                start,
                f,
                Status.OPTIMAL,
                "closed-form",
                form.name,
                time.perf_counter() - began,
            )
        if algorithms and (
            path == "iterative" or (path == "auto" and (solver is None or solver in algorithms))
        ):
            name = validate.lookup(
                "algorithm", solver or next(iter(algorithms)), {a: a for a in algorithms}
            )
            f, status, steps = algorithms[name](self, start, accuracy, solver_options)
            return Solution(
                self, start, f, status, "iterative", name, time.perf_counter() - began, steps=steps
            )
        used = conic.DEFAULT_SOLVER if solver is None else conic.installed(solver)
        settings = conic.settings(used, accuracy, solver_options)
        if not self.loss.convex:
            f, status, steps = iterative.convex_concave(
                self, start, accuracy, {"solver": used, **solver_options}
            )
            return Solution(
                self, start, f, status, "conic", used, time.perf_counter() - began, steps=steps
            )
        f, status, compiling, solving = self._solve_conic(start, used, settings)
        return Solution(
            self, start, f, status, "conic", used, time.perf_counter() - began, compiling, solving
        )

    def interval(
        self, estimate: FrequencyEstimate, level: float = 0.95, sets: Sets | None = None
    ) -> tuple[Array, Array]:
        """Return confidence intervals for values or sets that use the constraints; they hold jointly.

        Each is the range over all vectors that satisfy the constraints and lie within the joint raw intervals of all d
        values and of the sets (Bonferroni); a raw interval beyond a value's own bounds counts as reaching the nearer one. The
        loss plays no part. On the simplex, ``FrequencyEstimate.interval`` has
        closed forms, and narrower intervals where each may fail on its own.

        Parameters
        ----------
        estimate
            A raw estimate with n and oracle, or a post-processed one that knows it.
        level
            Probability, in (0, 1), that all intervals of a trial cover, if the truth satisfies the constraints.
        sets
            As in ``FrequencyEstimate.query``; None for the values.

        Returns
        -------
        Ends (lower, upper) of shape (..., d), or (..., m).

        Raises
        ------
        InvalidInputError, InvalidTypeError
            As ``FrequencyEstimate.interval``; and if a constraint is not convex.
        InfeasibleError, SolverError
            If the constraints contradict each other or, at this level, the reports; if a solver fails.

        Notes
        -----
        Cost: two linear programs an answer and trial; cone programs where a constraint is not polyhedral.

        Examples
        --------
        >>> from ldpopt import constraints, losses, oracles
        >>> raw = oracles.OUE(epsilon=1.0, d=3).estimate([3_750, 3_850, 2_750], 10_000)
        >>> ranked = Problem(losses.LeastSquares(), [constraints.SumsTo(1.0), constraints.Monotone([0, 1, 2])])
        >>> [end.round(3) for end in ranked.interval(raw)]
        [array([ 0.464,  0.454, -0.016]), array([0.508, 0.508, 0.073])]
        """
        start = self._checked(estimate)
        feasibility.check(self.constraints, start.d)
        if start.method != "base" and start.raw is not None:
            start = start.raw
        return constrained_intervals.interval(
            self.constraints, start, validate.real("level", level, above=0, below=1), sets
        )

    def _checked(self, estimate: FrequencyEstimate | ArrayLike) -> FrequencyEstimate:
        start = FrequencyEstimate.of(estimate)
        self.loss.validate_for(start)
        self.check(start.d)
        return start

    def _solve_conic(
        self, start: FrequencyEstimate, solver: str, options: dict[str, Any]
    ) -> tuple[Array, Status, float, float]:
        """Return point, status, and the seconds of compilation and of the solver itself."""
        if start.d <= feasibility.LARGEST:
            self._check_feasible(start)
        constants, data = self.loss.constants(start), self.loss.data(start)
        support = self.loss.support(start)
        result = np.empty_like(start.frequencies)
        worst, compiling, solving = Status.OPTIMAL, 0.0, 0.0
        for trial in np.ndindex(start.frequencies.shape[:-1]):
            row = [array[trial] for array in data]
            try:
                answer = self._compiled_for(start.d, row, constants, solver).solve(row, options)
            except InfeasibleError as error:
                asked = self._asked(None if support is None else support[trial])
                feasibility.check(asked, start.d)
                raise InfeasibleError(f"{error}: {feasibility.conflict(asked, start.d)}") from None
            result[trial] = answer.point
            compiling += answer.compile_seconds
            solving += answer.solver_seconds
            worst = worst if answer.status is Status.OPTIMAL else answer.status
        if np.abs(result).max() > _RUNAWAY * max(1.0, np.abs(start.frequencies).max()):
            raise InvalidInputError(NO_MINIMUM.format(self.loss))
        if support is not None:  # a solver's residue outside would make the loss infinite
            result = np.where(support, result, 0.0)
        if self.loss.nonnegative_domain:  # and so would one below zero
            result = np.maximum(result, 0.0)
        return result, worst, compiling, solving

    def _asked(self, support: NDArray[np.bool_] | None) -> list[Constraint]:
        """Return the constraints, and those that the loss makes by itself."""
        asked = [*self.constraints, *([NonNegative()] if self.loss.nonnegative_domain else [])]
        if support is not None and not support.all():
            asked.append(feasibility.Domain(self.loss, support))
        return asked

    def _check_feasible(self, start: FrequencyEstimate) -> None:
        """Raise an error that names the conflict if no vector satisfies the constraints where the loss is finite."""
        if start.d not in self._feasible:
            feasibility.check(self._asked(None), start.d)
            self._feasible.add(start.d)
        if (support := self.loss.support(start)) is not None:
            for one in np.unique(support.reshape(-1, start.d), axis=0):
                feasibility.check(self._asked(one), start.d)

    def _compiled_for(
        self, d: int, data: list[Array], constants: tuple[float, ...], solver: str
    ) -> CompiledProblem:
        if not conic.parametric(d):  # the data are compiled in
            return CompiledProblem(self.loss, self.constraints, data, constants, solver)
        key = (d, constants, solver)  # cvxpy compiles anew when the solver changes
        if key not in self._compiled:
            self._compiled[key] = CompiledProblem(
                self.loss, self.constraints, data, constants, solver
            )
        return self._compiled[key]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was compiled: solvers do not pickle, and another process compiles its own."""
        return {**self.__dict__, "_compiled": {}}

    def __repr__(self) -> str:
        return f"Problem({self.loss!r}, {list(self.constraints)!r})"


@dataclass(frozen=True, eq=False)
class Solution:
    """What a path returned, and a certificate that does not depend on the path.

    Attributes
    ----------
    problem, estimate
        What was solved.
    frequencies
        The minimiser, of the estimate's shape.
    status
        ``Status.OPTIMAL`` or ``Status.INACCURATE``; for a stack the worst of its trials.
    path
        ``"closed-form"``, ``"iterative"`` or ``"conic"``.
    solver
        The name of the solver, the algorithm or the closed form.
    seconds, compile_seconds, solver_seconds
        Wall time of it all, and the parts of it in which cvxpy compiled the problem, nothing when a shape is solved again, and
        in which the solver itself ran: 0 on the other paths.
    steps
        Number of steps of an iterative algorithm, 0 on the other paths.
    """

    problem: Problem
    estimate: FrequencyEstimate
    frequencies: Array
    status: Status
    path: Literal["closed-form", "iterative", "conic"]
    solver: str
    seconds: float
    compile_seconds: float = 0.0
    solver_seconds: float = 0.0
    steps: int = 0

    @cached_property
    def objective(self) -> Any:
        """The loss of the frequencies in its own units: a float, or an array with one value a trial."""
        value = self.problem.loss.value(self.frequencies, self.estimate)
        return float(value) if value.ndim == 0 else value

    @cached_property
    def certificate(self) -> Certificate:
        """The proof of optimality, computed from the problem and the point alone."""
        return certify(self.problem, self.estimate, self.frequencies)

    def __repr__(self) -> str:
        return (
            f"Solution(path={self.path!r}, solver={self.solver!r}, status={str(self.status)!r}, "
            f"seconds={self.seconds:.3g}, {self.certificate!r})"
        )
