"""A loss under constraints, solved by the shortest path that there is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import progress, validate
from ldpopt.constraints import Constraint
from ldpopt.errors import (
    InvalidInputError,
    InvalidTypeError,
    LdpoptError,
    PrecisionError,
    extra_needed,
    warn,
)
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.sets import NamedSets, Sets, named_sets
from ldpopt.estimate.traced import warn_unless_raw_noise
from ldpopt.losses import Loss
from ldpopt.risks import Collection
from ldpopt.solve import constrained_intervals, feasibility, parameter_path
from ldpopt.solve.acceptance.stacks import judged
from ldpopt.solve.audit import Audit, audit
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.implausible_unit import warn_of_unit
from ldpopt.solve.joint import about_one, require_combinable
from ldpopt.solve.paths.closed_forms import closed_form_for
from ldpopt.solve.plan import Plan
from ldpopt.solve.planner import PathChoice, Planner, Request
from ldpopt.solve.programs.solvers import Running
from ldpopt.solve.second_try import improved, remedy
from ldpopt.solve.solution import Solution
from ldpopt.solve.status import ACCURACIES, Accuracy, Status
from ldpopt.solve.usual_path import usual_path
from ldpopt.sources import Sources
from ldpopt.tables import html_of

if TYPE_CHECKING:
    import cvxpy as cp

    from ldpopt.solve.kkt import KKT

Array = NDArray[np.float64]
Measured = FrequencyEstimate | Sources | ArrayLike


@dataclass(frozen=True, repr=False)
class Problem(Formulation):
    """Minimise a loss of the frequencies under constraints.

    A problem is immutable: to change a part, build a new one.

    Parameters
    ----------
    loss
        What is minimised, from ``ldpopt.losses``.
    constraints
        The feasible set, from ``ldpopt.constraints``; unconstrained if empty.

    Raises
    ------
    InvalidTypeError
        If an argument is not a loss or not constraints.
    InfeasibleError
        If constraints state different totals.

    Notes
    -----
    Solving on the conic path compiles a cvxpy problem per shape and keeps it. Threads may share a
    Problem: on that path one waits for the other.

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

    _planner: Planner = field(default_factory=Planner, init=False, repr=False, compare=False)

    def __init__(self, loss: Loss, constraints: Sequence[Constraint] = ()) -> None:
        super().__init__(loss, constraints)  # type: ignore[arg-type]  # made a tuple there
        object.__setattr__(self, "_planner", Planner())

    def near_minimum(self, start: FrequencyEstimate) -> Array | None:
        """Return the point of the closed form over the convex constraints, if there is one."""
        stated = self.at(start)
        convex = stated.under(stated.convex_constraints)
        try:
            match = closed_form_for(convex, start, explains=False)
            return None if match is None else match.evaluate()
        # What has no minimum, or none that a form can find, has none that is known.
        except LdpoptError:
            return None

    def _restated(self, loss: Loss, constraints: tuple[Constraint, ...]) -> Formulation:
        """Return another problem, which knows the closed forms too."""
        return Problem(loss, constraints)

    def plan(self, estimate: Measured) -> Plan:
        """Return the path that ``solve`` takes for this estimate, its name and the reason.

        Examples
        --------
        >>> from ldpopt import constraints, losses
        >>> order = Problem(losses.LeastSquares(), [constraints.Monotone([0, 1])])
        >>> order.plan([0.5, 0.6]).name
        'pava'
        """
        problem, estimate = self._about(estimate)
        return self._planner.plan(problem, problem.accept(estimate), Request())

    def explain(self, estimate: Measured) -> str:
        """Return which path ``solve`` takes for this estimate, and why, without solving.

        Examples
        --------
        >>> from ldpopt import constraints, losses
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> Problem(losses.LeastSquares(), simplex).explain([0.5, 0.6])
        'closed-form: LeastSquares() under NonNegative(), SumsTo(1) is solved by norm-sub'
        """
        return str(self.plan(estimate))

    def kkt(self) -> KKT:
        """Return the conditions of optimality: what every minimiser satisfies with multipliers.

        Stationarity, feasibility and complementarity are relations of sympy, shown as text and in
        LaTeX, with the case split that leads to the closed form where there is one.

        Returns
        -------
        A ``KKT``: ``print`` and notebooks show it, ``latex()`` returns it in LaTeX, and
        ``residuals(solution)`` says how well a solution satisfies what is written.

        Raises
        ------
        MissingPackageError
            Without sympy.
        UnsupportedProblemError
            If the loss is no sum over values (``MaxAbsolute``, ``TotalVariation``, ``GroupNorm``,
            ``PerReportMLE``, ``Custom``) or not convex, or a constraint has no conditions value by
            value (``AtMost``, ``Custom``).

        Notes
        -----
        Parameters stand as the numbers that they hold. Cost: importing sympy takes some 0.5 s, the
        conditions some milliseconds, for any number of values.

        Examples
        --------
        >>> from ldpopt import constraints, losses
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> print(Problem(losses.LeastSquares(), simplex).kkt())
        KKT conditions of min ½‖f-f̃‖², f ≥ 0, Σf = 1
        stationarity:
            f_v - f̃_v + μ - λ_v = 0   for all v
        ...
        """
        with extra_needed():
            from ldpopt.solve.kkt import conditions_of  # sympy is slow to import

        problem: Formulation = self
        # A function of the user may need more values, and is refused below under its own name.
        if self.varies and not any(part.is_cvxpy for part in self.constraints):
            # What constraints state of themselves depends on no estimate, where they state rows.
            problem = self.at(None)
        return conditions_of(problem, usual_path(self, self._planner))

    def _repr_latex_(self) -> str:
        """Return the stated problem for notebooks that show LaTeX."""
        return f"$${self.latex}$$"

    def _repr_html_(self) -> str:
        """Return loss, constraints and the path that ``solve`` takes, as notebooks show them."""
        rows = [("minimise", self.loss.formula or repr(self.loss))]
        begin = "under"
        for constraint in self.constraints:
            rows.append((begin, constraint.formula or repr(constraint)))
            begin = ""
        rows.append(("convex", "yes" if self.convex else "no"))
        rows.append(("solved by", usual_path(self, self._planner)))
        return html_of((), rows, title="Problem")

    def solve(
        self,
        estimate: Measured,
        path: PathChoice = "auto",
        solver: str | None = None,
        accuracy: Accuracy = "high",
        *,
        verbose: bool = False,
        warm_start: bool = False,
        time_limit: float | None = None,
        workers: int | None = 1,
        show_progress: bool | None = None,
        **solver_options: Any,
    ) -> Solution:
        """Return the minimiser.

        Parameters
        ----------
        estimate
            Where f̃ comes from: one vector or a stack of trials. A plain array is enough where the
            loss needs no noise level. Several measurements are a ``Sources``: squares then add up
            over them by their precision, and likelihoods by themselves.
        path
            ``"closed-form"``, ``"iterative"`` (an algorithm of this library that steps towards the
            solution), ``"conic"``, or ``"auto"``: the first of them that is available, if no solver
            is named. ``explain`` returns which.
        solver
            Name of an installed cvxpy solver for the conic path, CLARABEL by default, or of an
            iterative algorithm.
        accuracy
            ``"low"`` (tolerances of 1e-4), ``"default"`` (what the solver chooses) or ``"high"``
            (``solvers.SOLVERS``). ``status.ACCURACIES`` states what an optimal status promises:
            with ``"high"`` a certificate that is optimal to a relative 1e-8.
        verbose
            Whether a solver prints its progress.
        warm_start
            Whether a solver starts at its last result for this problem, if it can (OSQP, SCS, HiGHS
            and PIQP); others only keep what they have set up. The point then depends on what was
            solved before.
        time_limit
            Wall time in seconds after which a solver stops, per trial: one name for all solvers
            that have such an option.
        workers
            In how many processes a solver solves the trials of a stack; None for one per core. The
            points are the same for any number. A script that uses more than one needs
            ``if __name__ == "__main__":``, as with Python's own pools, which is a reason for the
            default. Another is that a process costs 1.3 s of processor time before its first solve,
            and a trial 1.5 ms more than here: two workers save time where the solves take more than
            about four seconds. Where the judgement of the points takes as long, several processes
            share it too, if loss and constraints can be sent to them: a lambda cannot.
        show_progress
            Whether a bar counts the trials that a solver has solved; by default on a terminal and
            in a notebook, after two seconds.
        **solver_options
            Passed to the solver, over those settings, those in cvxpy's dictionary ``highs_options``
            too; or to the iterative algorithm, which takes ``max_steps``, ``tol`` (the gap in the
            loss's units at which it stops) and, for likelihoods of reports, ``progress`` (called
            with step and gap).

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the path is unknown or not available (the reason is given), or the loss is not
            defined for the estimate.
        InfeasibleError, SolverError
            If nothing satisfies the constraints (those that conflict are named), or the solver is
            missing, returns nothing, or has no time limit.

        Warns
        -----
        LdpoptWarning
            If nothing proves the point to the accuracy: it violates a constraint, or its certified
            gap is too large or not known. If the loss is made for the noise of raw estimates, and
            this one is processed.
        ImplausibleUnitWarning
            If numbers look like percent or counts beside the problem's total T:

            - values without noise, all at least 0, that sum to 100 T within 1 %, or are all whole
              and sum to 10 T or more (and to 10 at least);
            - values without noise, some of them negative, that sum to 100 T within a half of that,
              or, if not all are whole, to more (up to 10¹¹), where noise as large as the lowest
              value cannot explain the sum;
            - integers above 1, unless all are below 10 T and T is above 1;
            - values that sum to 1 within 0.5, where T is 100 or the number of reports;
            - upper bounds of some of the values that all exceed T, where no value may be negative;
            - a bound of ``Near``, ``Smooth`` or ``Linear`` that excludes nothing, between 2 T and
              100 T, with one decimal.

        Notes
        -----
        Where no path and no solver is named, a solver's point is polished by Newton steps on the
        constraints that hold (``ldpopt.solve.polish``), and kept if its certified gap is smaller.
        A trial without an accurate point is solved again by a second solver, SCS say, or by a first
        one where it came from a closed form (of up to 2,048 values); ``Solution.solver`` then names
        both.

        Cost: closed forms are a sort or a few passes for all trials at once; the other paths solve
        trial by trial. A loss that is not convex is solved by convex-concave steps, each of them on
        the requested path.
        """
        if workers is not None:
            workers = validate.integer("workers", workers, minimum=1)
        if solver is not None and not isinstance(solver, str):
            raise InvalidTypeError(f"solver must be the name of one, or None, got {solver!r}")
        is_loud = validate.flag("verbose", verbose)
        starts_warm = validate.flag("warm_start", warm_start)
        running = Running(is_loud, starts_warm, workers, show_progress)
        request = Request(path, solver, accuracy, solver_options, running, time_limit)
        return self._solve(*self._about(estimate), request)

    def _about(self, measured: Measured) -> tuple[Formulation, FrequencyEstimate]:
        """Return the problem at this moment, and the estimate that it is about."""
        problem, estimate = about_one(self, measured)
        # One object for both: a loss keeps what it stated for the estimate that it was made for.
        start = problem.start_of(estimate)
        return problem.at(start), start

    def _solve(
        self, problem: Formulation, estimate: FrequencyEstimate | ArrayLike, request: Request
    ) -> Solution:
        """Return the minimiser of this problem at one moment."""
        # Raises what is wrong with the input before any path is chosen.
        start = problem.accept(estimate)
        if problem.loss.uses_noise:
            warn_unless_raw_noise(start)
        warn_of_unit(problem, start)
        plan = self._planner.plan(problem, start, request)
        if plan.path is None or plan.run is None:
            raise InvalidInputError(plan.reason)
        if not problem.is_settled:
            # An object of an unknown class may have changed since it was compiled.
            self._planner.conic.forget()
        began = time.perf_counter()
        outcome = plan.run()
        seconds = time.perf_counter() - began
        # Judging is no part of what the path took, and comparisons time paths.
        accuracy = request.accuracy
        began = time.perf_counter()
        # What overflows proves nothing, and the reason says so.
        with np.errstate(over="ignore", invalid="ignore"):
            judgement = judged(problem, start, outcome, plan, accuracy, request.running)
        proof_seconds = time.perf_counter() - began
        if judgement.status is not Status.OPTIMAL:
            began = time.perf_counter()
            with np.errstate(over="ignore", invalid="ignore"):
                outcome, judgement = improved(problem, start, outcome, judgement, plan, accuracy)
            # Some of it is judging, which here is a part of how the point was found.
            seconds += time.perf_counter() - began
        if judgement.status is not Status.OPTIMAL:
            warn(f"the solution is inaccurate: {judgement.reason}; {remedy(plan)}")
        return Solution(
            problem=problem,
            start=start,
            frequencies=outcome.frequencies,
            status=judgement.status,
            path=plan.path,
            solver=f"{plan.name}, {outcome.by}" if outcome.by else plan.name,
            seconds=seconds,
            compile_seconds=outcome.compile_seconds,
            solver_seconds=outcome.solver_seconds,
            proof_seconds=proof_seconds,
            iterations=outcome.steps,
            stats=outcome.stats,
        )

    def path(
        self,
        estimate: Measured,
        *,
        solver: str | None = None,
        accuracy: Accuracy = "high",
        **grids: Sequence[Any] | NDArray[np.float64],
    ) -> list[Solution]:
        """Return the minimiser for each value of a parameter, or of several that move together.

        Parameters
        ----------
        estimate, solver, accuracy
            As in ``solve``.
        **grids
            Under the name of a ``Parameter`` the values that it takes in turn. With several names
            all have as many values. What the parameters hold is neither used nor changed.

        Returns
        -------
        One solution per value, each about its own: certificates are not affected by later changes.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the problem has no parameter of a name, there is no name, two parameters share it,
            or the grids have different lengths; and as ``solve``.
        InfeasibleError, SolverError
            As ``solve``.

        Notes
        -----
        Cost: one compilation, and one solve per value, which starts at the last result where the
        solver can do that. So the values are best in order.

        Examples
        --------
        >>> from ldpopt import Parameter, constraints, losses
        >>> lam = Parameter("lam")
        >>> near = constraints.Custom(lambda f: f[0] - f[1] <= lam)
        >>> problem = Problem(losses.LeastSquares(), [constraints.SumsTo(1.0), near])
        >>> solutions = problem.path([0.7, 0.3], lam=[0.0, 0.2, 0.4])
        >>> [float(solution.frequencies[0].round(3)) for solution in solutions]
        [0.5, 0.6, 0.7]
        """
        stated, about = about_one(self, estimate)
        start = stated.start_of(about)
        steps = parameter_path.values_along(stated.parameters(start), grids)
        # Values in order are near each other, and so are their solutions.
        running = Running(warm_start=True)
        request = Request("auto", solver, accuracy, running=running)
        counted = progress.track(steps, f"{len(steps):,} values", len(steps))
        return [self._solve(stated.at(start, values), start, request) for values in counted]

    def to_cvxpy(self, estimate: Measured) -> cp.Problem:
        """Return the problem for one vector as a ``cvxpy.Problem``, for what cvxpy can do besides.

        Its variable ``f`` is ``problem.var_dict["f"]``, in units of frequency; its minimum is the
        loss but for a constant. Parameters have become the numbers that they hold.

        Raises
        ------
        InvalidInputError
            If the estimate is a stack, or loss or constraints are not convex; and as ``solve``.

        Examples
        --------
        >>> from ldpopt import constraints, losses
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> stated = Problem(losses.LeastSquares(), simplex).to_cvxpy([0.5, 0.2, -0.01])
        >>> _ = stated.solve(solver="CLARABEL")
        >>> stated.var_dict["f"].value.round(3)
        array([0.603, 0.303, 0.093])
        """
        problem, estimate = self._about(estimate)
        start = problem.accept(estimate)
        if start.frequencies.ndim > 1:
            raise InvalidInputError(
                "to_cvxpy takes one vector, not a stack of trials: pass estimate[0], say"
            )
        import cvxpy as cp  # slow to import

        loss = problem.loss
        f = cp.Variable(start.d, name="f")
        constants = loss.constants(start)
        objective, cones = loss.cone_form(f, loss.data(start), constants)
        forms = [form for constraint in problem.constraints for form in constraint.cone_form(f)]
        # Divided out: who takes the problem along reads the minimum in the loss's own units.
        scale = loss.cone_factor(start.d, constants)
        return cp.Problem(cp.Minimize(objective / scale), [*cones, *forms])

    def minimise(self, estimate: Measured) -> Array:
        """Return the frequencies of ``solve(estimate)`` alone, of the estimate's shape.

        A closed form is not checked again, which takes several times as long as to evaluate it.
        Arguments and errors are those of ``solve``.

        Examples
        --------
        >>> from ldpopt import constraints, losses
        >>> Problem(losses.LeastSquares(), [constraints.SumsTo(1.0)]).minimise([0.5, 0.25])
        array([0.625, 0.375])
        """
        problem, estimate = self._about(estimate)
        start = problem.accept(estimate)
        form = closed_form_for(problem, start)
        if form is None:
            return self._solve(problem, start, Request()).frequencies
        try:
            point = form.evaluate()
        # A solver may be behind it.
        except PrecisionError:
            return self._solve(problem, start, Request()).frequencies
        # Where constraints contradict each other, the error that names them comes from a solve.
        if form.may_miss and np.max(problem.violation(point)) > ACCURACIES["high"].violation:
            return self._solve(problem, start, Request()).frequencies
        if problem.loss.uses_noise:
            warn_unless_raw_noise(start)
        warn_of_unit(problem, start)
        return point

    def audit(
        self,
        raw: FrequencyEstimate | Sources,
        sets: Sets | NamedSets | None = None,
        *,
        level: float = 0.05,
        trials: int = 199,
        rng: np.random.Generator | int | None = 0,
    ) -> Audit:
        """Return what each constraint is worth on this collection, and if the reports refute it.

        The worth is the difference of two unbiased risks, without the constraint and with it. The
        test compares how far f̃ is, in standard deviations, from the vectors that satisfy the
        constraint and the total, if one is stated, and from those that have the total alone. That
        difference has a chi-bar-square law, which is simulated at the truth in the set where
        violations are hardest to tell.

        Parameters
        ----------
        raw
            One raw estimate of shape (d,), with n and an oracle, or with noise given by hand; or
            ``Sources``, with squares for a loss: the reports are then those of all.
        sets
            The queries whose error counts, as in ``FrequencyEstimate.query``; None for the values.
        level
            Probability, in (0, 1), of refuting a constraint that holds: 0.05, where intervals have
            0.95. Above 0.5 there is an ``ImplausibleLevelWarning``.
        trials
            Simulated collections per test, at least 19.
        rng
            Generator or seed; the same seed gives the same audit.

        Returns
        -------
        An ``Audit`` with a row per constraint, which ``print`` shows.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If there is no constraint, the estimate is not one raw estimate with its noise, a number
            is out of its range, or a likelihood meets several measurements: what it finds does not
            depend on their combination alone, whose noise is known.

        Notes
        -----
        Cost: a solve and a derivative per constraint, and two projections per trial: fast where
        these have closed forms, a program each where not. Where sources measure groups, the noise
        of the combination takes d products besides.

        Examples
        --------
        >>> from ldpopt import constraints, losses, oracles
        >>> oracle = oracles.OUE(epsilon=1.0, d=4)
        >>> raw = oracle.estimate(oracle.simulate_counts([9_000, 600, 300, 100], rng=0), 10_000)
        >>> census = constraints.GroupTotals([[0, 1]], [0.5])  # 0.96 of the users have them
        >>> simplex = [constraints.NonNegative(), constraints.SumsTo(1.0)]
        >>> Problem(losses.LeastSquares(), [*simplex, census]).audit(raw).refuted
        ('GroupTotals(<1 group>)',)
        """
        if not self.constraints:
            raise InvalidInputError("an audit is of constraints, and this problem has none")
        level = validate.significance("level", level)
        # With fewer no p-value could be 0.05.
        trials = validate.integer("trials", trials, minimum=19)
        generator = validate.generator(rng)
        stated, about = about_one(self, raw)
        require_combinable(stated.loss)
        collection = Collection(about, sets, "an audit")  # type: ignore[arg-type]  # it looks
        formulation = stated.at(collection.raw)
        return audit(formulation, Problem, collection, level=level, trials=trials, rng=generator)

    def interval(
        self, estimate: FrequencyEstimate | Sources, level: float = 0.95, sets: Sets | None = None
    ) -> tuple[Array, Array]:
        """Return confidence intervals for values or sets that use the constraints.

        They hold jointly: each is the range over all vectors that satisfy the constraints and lie
        within the joint raw intervals of all d values and of the sets (Bonferroni). A raw interval
        beyond a value's own bounds counts as reaching the nearer one. The loss is not used. On the
        simplex, ``FrequencyEstimate.interval`` has closed forms, and narrower intervals where each
        may fail on its own.

        Parameters
        ----------
        estimate
            A raw estimate with n and oracle, or a post-processed one that knows its raw one.
        level
            Probability, in (0, 1), that all intervals of a trial cover, if the truth satisfies the
            constraints. Below 0.5 there is an ``ImplausibleLevelWarning``.
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
            If the constraints contradict each other or, at this level, the reports; if a solver
            fails.

        Notes
        -----
        Cost: two linear programs per answer and trial; cone programs where a constraint is not
        polyhedral.

        Examples
        --------
        >>> from ldpopt import constraints, losses, oracles
        >>> raw = oracles.OUE(epsilon=1.0, d=3).estimate([3_750, 3_850, 2_750], 10_000)
        >>> falling = [constraints.SumsTo(1.0), constraints.Monotone([0, 1, 2])]
        >>> ranked = Problem(losses.LeastSquares(), falling)
        >>> [end.round(3) for end in ranked.interval(raw)]
        [array([ 0.464,  0.454, -0.016]), array([0.508, 0.508, 0.073])]
        """
        problem, about = self._about(estimate)
        start = problem.accept(about)
        # First, because a program over an empty set would blame the reports for a conflict that the
        # constraints have among themselves.
        feasibility.require_feasible(problem.constraints, start.d)
        raw = start.require_raw("intervals need")
        probability = validate.confidence("level", level)
        names, rows = ([], None) if sets is None else named_sets(sets, start.labels)
        return constrained_intervals.interval(problem.constraints, raw, probability, rows, names)
