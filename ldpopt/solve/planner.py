"""The choice of a path: a closed form, an algorithm of this library, or a cone solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ldpopt import validate
from ldpopt.errors import (
    InvalidInputError,
    PrecisionError,
    SolverError,
    UnsupportedProblemError,
    nearest,
)
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.solve.acceptance.judge import judge
from ldpopt.solve.feasibility import LARGEST
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths import convex_concave, mixture_weights
from ldpopt.solve.paths.closed_forms import Match, closed_form_for
from ldpopt.solve.paths.conic import ConicPath
from ldpopt.solve.plan import Again, Outcome, Path, Plan, Run, with_others
from ldpopt.solve.polish import polish
from ldpopt.solve.programs import solvers
from ldpopt.solve.programs.solvers import COLD, Running
from ldpopt.solve.status import ACCURACIES, Accuracy, Status

PathChoice = Literal["auto", "closed-form", "iterative", "conic"]
_PATHS = dict.fromkeys(("auto", "closed-form", "iterative", "conic"))

KEYWORDS = (
    "path",
    "solver",
    "accuracy",
    "verbose",
    "warm_start",
    "time_limit",
    "workers",
    "show_progress",
)
"""What ``Problem.solve`` takes besides an estimate and the options of a solver."""


@dataclass(frozen=True)
class Request:
    """How a problem is to be solved, in the words of ``Problem.solve``.

    Raises
    ------
    InvalidInputError
        If the path or the accuracy is unknown, or solver and options do not fit the path.
    """

    path: PathChoice = "auto"
    solver: str | None = None
    accuracy: Accuracy = "high"
    options: Mapping[str, Any] = field(default_factory=dict)
    running: Running = COLD
    time_limit: float | None = None

    def __post_init__(self) -> None:
        validate.lookup("path", self.path, _PATHS)
        validate.lookup("accuracy", self.accuracy, ACCURACIES)
        # Checked here, so that paths that need no limit refuse a wrong one too.
        if self.time_limit is not None:
            validate.real("time_limit", self.time_limit, above=0)
        if self.path == "closed-form" and self.solver is not None:
            raise InvalidInputError(
                "path='closed-form' takes no solver: leave out solver and its options, or use "
                "path='conic'"
            )
        if self.options and self.solver is None and self.path not in ("conic", "iterative"):
            close = [near for option in self.options for near in nearest(option, KEYWORDS)]
            hint = f"; did you mean {close[0]}?" if close else ""
            raise InvalidInputError(
                f"options ({', '.join(self.options)}) are those of a solver or an algorithm: name "
                f"it with solver=..., or use path='conic' or path='iterative'{hint}"
            )


class Planner:
    """Chooses paths, and keeps what the conic one compiled."""

    def __init__(self) -> None:
        self.conic = ConicPath()

    def plan(self, formulation: Formulation, start: FrequencyEstimate, request: Request) -> Plan:
        """Return the plan for an estimate that the problem accepts.

        Raises
        ------
        InvalidInputError
            If the requested path is not available (the reason is given), or the algorithm
            is unknown.
        SolverError
            If the solver is not installed.
        """
        path = request.path
        # First of all: who names the conic path wants it also where a shorter one exists.
        if path == "conic":
            return self._conic(formulation, start, request)
        if not _has_convex_steps(formulation, start):
            plan = _without_steps(formulation, request)
            if plan is not None:
                return plan
        # A solver that is named is wanted, even where a closed form would be shorter.
        if path != "iterative" and request.solver is None:
            plan = self._by_closed_form(formulation, start, request)
            if plan is not None:
                return plan
        if path != "closed-form":
            plan = self._by_algorithm(formulation, start, request)
            if plan is not None:
                return plan
        if path != "auto":
            raise self._unavailable(formulation, start, path)
        return self._conic(formulation, start, request)

    def _by_closed_form(
        self, formulation: Formulation, start: FrequencyEstimate, request: Request
    ) -> Plan | None:
        """Return the plan of the closed form, with a solver behind it."""
        match = closed_form_for(formulation, start)
        if match is None:
            return None
        if request.path != "auto" or not (match.may_miss or _takes_solver(formulation, start.d)):
            return _plan_of(formulation, match)

        def again(part: FrequencyEstimate) -> Outcome:
            """Return a solver's points, or raise its error, which names what conflicts."""
            second = self._conic(formulation, part, Request(accuracy=request.accuracy))
            assert second.run is not None  # a problem with such a form is convex
            return replace(second.run(), by=second.name)

        def run() -> Outcome:
            try:
                return Outcome(match.evaluate())
            except PrecisionError as error:
                # A plan of its own: one that holds itself would keep the arrays of every solve
                # until Python looks for circles.
                failed = Plan(*_by_form(formulation, match), again=again)
                return _trial_by_trial(failed, start, request.accuracy, error)

        return Plan(*_by_form(formulation, match), run, again)

    def _by_algorithm(
        self, formulation: Formulation, start: FrequencyEstimate, request: Request
    ) -> Plan | None:
        """Return the plan of an algorithm of this library, or None where none is wanted."""
        # Of this library alone; solvers are looked up by cvxpy's names.
        algorithms = _algorithms(formulation, start)
        # A name that is no algorithm of this library is one of cvxpy's, for the conic path.
        is_wanted = request.path == "iterative" or request.solver in (None, *algorithms)
        if not algorithms or not is_wanted:
            return None
        return self._iterative(formulation, start, request, algorithms)

    def _unavailable(
        self, formulation: Formulation, start: FrequencyEstimate, path: str
    ) -> InvalidInputError:
        # The reason of the path that ``auto`` takes says what this problem needs instead.
        reason = self.plan(formulation, start, Request()).reason
        return InvalidInputError(f"path={path!r} is not available: {reason}")

    def _iterative(
        self,
        formulation: Formulation,
        start: FrequencyEstimate,
        request: Request,
        algorithms: tuple[str, ...],
    ) -> Plan:
        # The first is the default, since the list begins with the best.
        names = dict.fromkeys(algorithms)
        name = request.solver if request.solver is not None else algorithms[0]
        validate.lookup("algorithm", name, names)
        _check_options(name, request.options)
        verdict = f"has no closed form; it is solved by {' or '.join(algorithms)}"
        if name == convex_concave.NAME:
            stages = Request("auto", None, request.accuracy)
            # Stages get the accuracy but not the options, which are those of the steps.
            steps = self._steps(formulation, start, stages, request.options)
            return Plan("iterative", name, formulation, verdict, steps)

        def run() -> Outcome:
            return mixture_weights.solve_mixture(
                formulation, start, name, request.accuracy, request.options
            )

        return Plan("iterative", name, formulation, verdict, run)

    def _conic(self, formulation: Formulation, start: FrequencyEstimate, request: Request) -> Plan:
        # With path="conic" the constraint itself raises the error, in its cone form.
        is_free = request.solver is None and request.path == "auto"
        if is_free and not formulation.has_convex_set:
            return _nowhere(formulation)
        # Not looked up: every installation has the default one.
        solver = solvers.DEFAULT_SOLVER
        if request.solver is not None:
            _require_no_algorithm(formulation, request)
            solver = solvers.installed(request.solver)
        verdict = f"has no closed form; {solver} solves it through cvxpy"
        if request.path == "conic":
            verdict = f"is solved by {solver} through cvxpy"
        if not formulation.loss.convex:
            # Every stage is convex: the requested solver takes it, though not the whole problem.
            stages = replace(request, path="conic", solver=solver)
            steps = self._steps(formulation, start, stages, {})
            return Plan("conic", solver, formulation, verdict, steps)
        given = solvers.by_name(solver, request.options)
        if request.time_limit is not None:
            # Above the options: a time limit that is stated by name is the plainer wish.
            given |= solvers.time_limit(solver, request.time_limit)
        chosen = solvers.settings(solver, request.accuracy, given)

        def run() -> Outcome:
            outcome = self.conic.solve(
                formulation, start, solver, chosen, given, request.running, again
            )
            # Who names a solver or its path wants to see what it returns: comparisons do.
            return polish(formulation, start, outcome) if is_free else outcome

        again = self._by_another_solver(formulation, request) if is_free else None
        tighter = self._more_tightly(formulation, solver, given) if is_free else None
        return Plan("conic", solver, formulation, verdict, run, again, tighter)

    def _more_tightly(self, formulation: Formulation, solver: str, given: dict[str, Any]) -> Again:
        """Return the function that solves trials by the same solver with tighter tolerances."""

        def tighter(part: FrequencyEstimate) -> Outcome:
            """Return polished points; the solver's error is raised if it has none."""
            chosen = {**solvers.SOLVERS[solver].tight, **given}
            outcome = self.conic.solve(formulation, part, solver, chosen, given)
            return polish(formulation, part, outcome)

        return tighter

    def _by_another_solver(self, formulation: Formulation, request: Request) -> Again:
        """Return the function that solves trials by the first other solver that takes them."""

        def again(part: FrequencyEstimate) -> Outcome:
            """Return polished points; the solver's error is raised if it has none."""
            for name in solvers.OTHERS:
                options = solvers.patient(name, request.time_limit, part.d)
                chosen = solvers.settings(name, request.accuracy, options)
                try:
                    outcome = self.conic.solve(formulation, part, name, chosen, {})
                # This one does not take such cones: the next may.
                except UnsupportedProblemError:
                    continue
                return replace(polish(formulation, part, outcome), by=name)
            raise UnsupportedProblemError("no other solver takes this problem")

        return again

    def _steps(
        self,
        formulation: Formulation,
        start: FrequencyEstimate,
        stages: Request,
        options: Mapping[str, Any],
    ) -> Run:
        """Return the function that runs convex-concave steps, each planned by itself."""

        def solve_stage(loss: Loss) -> Outcome:
            """Return the minimiser of one stage; raises an error if no path solves it."""
            # A stage is a problem like any other, with its own closed form where there is one.
            stage = Formulation(loss, formulation.constraints)
            plan = self.plan(stage, start, stages)
            if plan.run is None:
                raise InvalidInputError(plan.reason)
            return plan.run()

        def run() -> Outcome:
            return convex_concave.solve_by_steps(
                formulation, start, stages.accuracy, solve_stage, options
            )

        return run


def _closed_form(formulation: Formulation, start: FrequencyEstimate) -> Plan | None:
    """Return the plan of the closed form, or None."""
    match = closed_form_for(formulation, start)
    return None if match is None else _plan_of(formulation, match)


def _plan_of(formulation: Formulation, match: Match) -> Plan:
    """Return the plan that evaluates a closed form."""

    def run() -> Outcome:
        return Outcome(match.evaluate())

    return Plan(*_by_form(formulation, match), run)


def _by_form(formulation: Formulation, match: Match) -> tuple[Path, str, Formulation, str]:
    """Return what a plan states of a closed form."""
    return "closed-form", match.name, formulation, f"is solved by {match.name}"


def _takes_solver(formulation: Formulation, d: int) -> bool:
    """Return whether a solver may take the place of a closed form, and needs no minutes for it."""
    return d <= LARGEST and formulation.convex


def _trial_by_trial(
    plan: Plan, start: FrequencyEstimate, accuracy: Accuracy, error: PrecisionError
) -> Outcome:
    """Return the points of the closed form, and those of a solver for the trials that it fails.

    Raises
    ------
    PrecisionError
        The error of the form, where the solver has no optimal point either.
    """
    formulation = plan.formulation
    assert plan.again is not None  # the planner gave one
    points = np.empty(start.frequencies.shape)
    seconds = []
    for trial in np.ndindex(points.shape[:-1]):
        one = start[trial]
        match = closed_form_for(formulation, one)
        assert match is not None  # by the types of loss and constraints, as for all trials
        try:
            points[trial] = match.evaluate()
        except PrecisionError:
            try:
                second = plan.again(one)
            except SolverError:
                raise error from None
            if judge(formulation, one, second, plan, accuracy).status is not Status.OPTIMAL:
                raise error from None
            points[trial] = second.frequencies
            seconds.append(second)
    # Together trials share a tolerance that each meets by itself.
    return with_others(Outcome(points), points, seconds) if seconds else Outcome(points)


def _nowhere(formulation: Formulation) -> Plan:
    """Return the plan of a problem that no path solves, because of a set that is not convex."""
    # The first is enough for a remedy.
    rigid = next(c for c in formulation.constraints if not c.convex)
    verdict = (
        f"is not convex and has no closed form, which {type(rigid).__name__} needs: {rigid.remedy}"
    )
    return Plan(None, "", formulation, verdict)


def _without_steps(formulation: Formulation, request: Request) -> Plan | None:
    """Return the plan where no path solves the convex-concave steps that the loss needs.

    None if a solver is named: then the constraint raises the error, as with path="conic".
    """
    nowhere = _nowhere(formulation)
    if request.path != "auto":
        raise InvalidInputError(f"path={request.path!r} is not available: {nowhere.reason}")
    return nowhere if request.solver in (None, convex_concave.NAME) else None


def _has_convex_steps(formulation: Formulation, start: FrequencyEstimate) -> bool:
    """Return whether convex-concave steps, if the loss needs them, can be solved by some path.

    Solvers take convex sets only. On others every step needs a closed form, which depends on the
    kinds of loss and constraints alone: that of the first step stands for all.
    """
    if formulation.loss.convex or formulation.has_convex_set:
        return True
    # Any point will do: the kinds of loss and constraints are the same for all.
    uniform = np.full(start.frequencies.shape, 1 / start.d)
    first = Formulation(formulation.loss.majorant(uniform, start), formulation.constraints)
    return _closed_form(formulation, start) is not None or _closed_form(first, start) is not None


# What the algorithms of this library solve, for who names one where it does not apply.
_SOLVED_BY = {
    **dict.fromkeys(
        mixture_weights.ALGORITHMS,
        "likelihoods of reports (PerReportMLE, ChannelMLE) under NonNegative() and SumsTo() alone",
    ),
    convex_concave.NAME: "losses that are not convex (NormalisedGaussianMLE)",
}


def _require_no_algorithm(formulation: Formulation, request: Request) -> None:
    """Raise an error if an algorithm of this library is named where a cvxpy solver is wanted."""
    name = str(request.solver).lower()
    if name not in _SOLVED_BY:
        return
    if request.path == "conic":
        raise InvalidInputError(
            f"solver={request.solver!r} is no solver of cvxpy, which path='conic' takes: leave the "
            "path out"
        )
    raise UnsupportedProblemError(
        f"solver={request.solver!r} is for {_SOLVED_BY[name]}, and not for {formulation.statement}:"
        " leave it out, or name a solver of cvxpy"
    )


def _check_options(algorithm: str, options: Mapping[str, Any]) -> None:
    """Raise an error that names the first option which an algorithm of this library lacks."""
    is_stepwise = algorithm == convex_concave.NAME
    names = convex_concave.OPTIONS if is_stepwise else mixture_weights.OPTIONS
    for option in options:
        if option not in names:
            error = validate.unknown_name(f"option of {algorithm}", option, names)
            raise InvalidInputError(f"{error}; options of a solver need path='conic'")


def _algorithms(formulation: Formulation, start: FrequencyEstimate) -> tuple[str, ...]:
    """Return the algorithms of this library for a problem, the best first; none for most."""
    # Steps before mixture weights, which need a convex loss.
    if not formulation.loss.convex:
        return (convex_concave.NAME,)
    if mixture_weights.applies(formulation, start.d):
        return mixture_weights.ALGORITHMS
    return ()
