"""The solver's path: a problem as cvxpy sees it, compiled once and solved for many estimates."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import progress
from ldpopt.errors import InvalidInputError, SolverError, WorkersError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.executors import executor_for
from ldpopt.expressions import with_squares_in_units
from ldpopt.solve import feasibility
from ldpopt.solve.formulation import Formulation, largest_frequency
from ldpopt.solve.paths.closed_forms.one_root import UNBOUNDED
from ldpopt.solve.plan import Again, Outcome
from ldpopt.solve.programs import jobs
from ldpopt.solve.programs.jobs import Job, JobResult
from ldpopt.solve.programs.program import ConeProgram, ConeSolution
from ldpopt.solve.programs.solvers import COLD, SOLVERS, Running
from ldpopt.solve.programs.units import unit_of_size
from ldpopt.solve.status import ACCURACIES, Status

Array = NDArray[np.float64]

# Up to this many values a problem is compiled with parameters. Where these are factors, cvxpy
# takes memory quadratic in d, so beyond it the estimate is compiled in: a fraction of a solve.
_PARAMETRIC = 4096

# From this many values on, parameters make compilation a few times slower, and are worth it only
# where a problem is solved again: the first vector is compiled in.
_ONCE = 1024

# A point this many times larger than the estimate has left for infinity.
_RUNAWAY = 1e9

# Values of a point, relative to the largest, that solvers mean to be at the end of a loss's domain,
# and where they are put: by so little sums and losses change less than by a solver's tolerances.
_AT_END = 1e-8
_INSIDE = 1e-12

# Solves in finer units at most: each gains a factor of 10³ or more, down to double precision.
_REFINEMENTS = 4

# Compiled problems that are kept: several solvers, shapes and units of one problem.
_KEPT = 64

# Arguments of cvxpy's own solve: they would change what is solved, or how it is compiled.
_RESERVED = frozenset({"solver", "gp", "qcp", "parallel"})


@dataclass(frozen=True, eq=False)
class SolverResult:
    """What a solver returned for one estimate.

    Attributes
    ----------
    point
        Its frequencies, shape (d,), or None.
    status
        How it ended; None where there is no point.
    reported
        The status in cvxpy's words.
    compile_seconds, solver_seconds
        What compiling took, if it was not reported before, and what the solver itself took.
    steps
        Number of the solver's iterations.
    stats
        cvxpy's record of what the solver reports.
    """

    point: Array | None
    status: Status | None
    reported: str
    compile_seconds: float
    solver_seconds: float
    steps: int
    stats: Any = None


class CompiledProblem:
    """A loss under constraints as a cvxpy problem.

    Parameters
    ----------
    formulation
        What is compiled.
    data
        The loss's arrays for one estimate. With parameters only their shapes matter.
    constants
        The loss's numbers, which are compiled in.
    solver
        Its name; cvxpy compiles anew when the solver changes.
    factor
        What the objective is multiplied by: another unit for the solver's tolerances.
    unit
        A power of two near the largest frequency, where that is no number of order 1.
    with_parameters
        Whether the estimate enters as cvxpy Parameters, so that other estimates can follow it.
        Otherwise its numbers are constants.

    Raises
    ------
    UnsupportedProblemError
        If the solver does not take such problems.

    Notes
    -----
    Not to be shared between threads: a solve writes to the parameters.
    """

    def __init__(
        self,
        formulation: Formulation,
        data: Sequence[Array],
        constants: tuple[float, ...],
        solver: str,
        factor: float = 1.0,
        unit: float = 1.0,
        *,
        with_parameters: bool = True,
    ) -> None:
        # Before the import, which takes longer than all that follows.
        began = time.perf_counter()
        import cvxpy as cp

        d = len(data[0])
        loss = formulation.loss
        self._solver = solver
        self._parameters = []
        if with_parameters:
            signs = loss.nonnegative_arrays(len(data), constants)
            self._parameters = [
                # Only with a known sign may a parameter multiply a convex expression (cvxpy's DPP
                # rules).
                cp.Parameter(x.shape, nonneg=nonnegative)
                for x, nonnegative in zip(data, signs, strict=True)
            ]
        # The variable counts in units of the uniform frequency 1/d: solvers' tolerances are made
        # for numbers of order 1.
        self._x = cp.Variable(d)
        f = (self._x if unit == 1 else unit * self._x) / d
        self._unit = unit
        objective, extra = loss.cone_form(f, tuple(self._parameters or data), constants)
        forms, self._numbers = _constrained(formulation, f, with_parameters=with_parameters)
        # With values in place: they decide about units, and cvxpy evaluates them when it makes the
        # solver's data.
        self._set(data, numbers_of(formulation, d))
        forms = with_squares_in_units(forms, f, formulation.usual_size(d, unit))
        if factor != 1:
            objective = factor * objective
        is_in_units = all(part.is_in_units for part in formulation.constraints)
        anchor = None if is_in_units and unit == 1 else self._x
        self._program = ConeProgram(
            objective, [*extra, *forms], solver, anchor=anchor, with_objective=unit != 1
        )
        self._program.compile()
        self._unreported = time.perf_counter() - began

    def _set(self, data: Sequence[Array], numbers: Sequence[Array]) -> None:
        """Write the arrays of an estimate and of the constraints into the parameters, if any."""
        # Not by assignment, which looks through the numbers for sign and form: a tenth of a solve
        # at d = 64. Loss and constraints have checked them.
        for parameter, value in zip(self._parameters, data, strict=bool(self._parameters)):
            parameter.save_value(np.asarray(value, dtype=np.float64))
        for parameter, value in zip(self._numbers, numbers, strict=bool(self._numbers)):
            parameter.save_value(np.asarray(value, dtype=np.float64))

    def solve(
        self,
        data: Sequence[Array],
        numbers: Sequence[Array],
        settings: Mapping[str, Any],
        given: Mapping[str, Any],
        running: Running,
    ) -> SolverResult:
        """Return what the solver makes of one estimate; the first result has the compile time.

        Parameters
        ----------
        data, numbers
            The arrays of the loss for the estimate, and those of the constraints.
        settings
            The solver's options, the given ones among them.
        given
            Those of them that the caller chose, for messages.
        running
            Whether it prints, and where it starts.

        Raises
        ------
        SolverError
            If an option is not the solver's, or it fails.
        """
        import cvxpy as cp

        self._set(data, numbers)
        for name in given:
            if name in _RESERVED:
                raise SolverError(
                    f"{name!r} is not a solver option here: pass options of {self._solver} itself"
                )
        try:
            solution = self._program.solve(settings, running)
        # What solvers raise for options that they do not know, each in its own way.
        except (cp.error.SolverError, TypeError, ValueError, AttributeError) as error:
            raise self._failure(error, given) from error
        return self._result(solution)

    def job(
        self, data: Sequence[Array], numbers: Sequence[Array], settings: Mapping[str, Any]
    ) -> Job | None:
        """Return the solve of one estimate for another process; None if no other can run it."""
        self._set(data, numbers)
        return self._program.job(settings)

    def result_of(self, result: JobResult) -> SolverResult:
        """Return what a job has found; the first result has the compile time."""
        return self._result(self._program.solution_of(result))

    def _result(self, solution: ConeSolution) -> SolverResult:
        import cvxpy as cp

        compiling = self._unreported
        self._unreported = 0.0
        point = solution.at(self._x)
        spent = (compiling, solution.seconds, solution.steps, solution.stats)
        if point is None or solution.status not in _WITH_POINT:
            return SolverResult(None, None, solution.status, *spent)
        status = Status.OPTIMAL if solution.status == cp.OPTIMAL else Status.INACCURATE
        point = self._unit * point / self._x.size
        return SolverResult(point, status, solution.status, *spent)

    def _failure(self, error: Exception, given: Mapping[str, Any]) -> SolverError:
        """Return the error for an exception inside a solver: about an option if it names one."""
        # Compiled libraries explain themselves in several lines.
        explained = " ".join(str(error).split())
        about = [name for name in given if name in explained]
        if about:
            value = given[about[0]]
            return SolverError(
                f"{self._solver} does not take the option {about[0]}={value!r}: {explained}"
            )
        # Some solvers refuse an option without its name.
        remedy = f"check the options {dict(given)}, or " if given else ""
        return SolverError(
            f"{self._solver} failed with {type(error).__name__}: {explained}; "
            f"{remedy}try another solver or accuracy"
        )


# cvxpy's names for the ways to end that come with a point: cvxpy itself is imported late.
_WITH_POINT = ("optimal", "optimal_inaccurate", "user_limit")
_NUMERICAL = "solver_error"
_INFEASIBLE = ("infeasible", "infeasible_inaccurate", "infeasible_or_unbounded")


class ConicPath:
    """Problems through cvxpy, each compiled once.

    What was compiled is kept by all that was compiled in: the loss (but for the arrays that are
    parameters), its constants, the constraints, the number of values and the solver.
    """

    def __init__(self) -> None:
        self.compiled: dict[Hashable, CompiledProblem] = {}
        # Sizes at which a set of constraints is known not to contradict itself, with some numbers
        # of its parameters.
        self._feasible: set[Hashable] = set()
        # What was compiled once with an estimate's numbers, and not kept.
        self._solved_once: set[Hashable] = set()
        # A compiled problem holds one estimate's numbers at a time, and so does its solver.
        self._one_at_a_time = threading.RLock()

    def forget(self) -> None:
        """Compile the next problem anew."""
        with self._one_at_a_time:
            self.compiled.clear()
            self._feasible.clear()
            self._solved_once.clear()

    def solve(
        self,
        formulation: Formulation,
        start: FrequencyEstimate,
        solver: str,
        settings: Mapping[str, Any],
        given: Mapping[str, Any],
        running: Running = COLD,
        again: Again | None = None,
    ) -> Outcome:
        """Return a solver's points for all trials of an estimate; the status is the worst one's.

        Parameters
        ----------
        formulation
            A convex problem.
        start
            An estimate that it accepts.
        solver
            An installed solver, as cvxpy spells it.
        settings, given, running
            As in ``CompiledProblem.solve``.
        again
            What solves a trial for which the solver has no point; None for an error instead.

        Raises
        ------
        InfeasibleError
            If nothing satisfies the constraints; those that conflict are named.
        SolverError
            If the solver cannot take the problem, fails, or returns no point.
        InvalidInputError
            If the loss is unbounded below, or a constraint is not convex.
        """
        # A factor before the whole loss moves no minimiser, and one that is a parameter would stand
        # beside the estimate's, in a product that compiles into a worse program.
        if formulation.loss.bare is not formulation.loss:
            formulation = Formulation(formulation.loss.bare, formulation.constraints)
        stack = _Stack.of(formulation, start, solver, settings, given, running)
        with self._one_at_a_time:
            is_feasible = self._require_feasible(stack)
            firsts = zip(stack.trials, self._firsts(stack), strict=False)
            results = [
                self._solve_trial(stack, trial, first, again)
                for trial, first in _shown(firsts, stack)
            ]
        outcome = _outcome(stack, results)
        # The points prove it, unless they are outside.
        if not is_feasible and not _satisfies(stack, outcome):
            feasibility.require_feasible(feasibility.conditions(formulation, None), start.d)
        return outcome

    def _firsts(self, stack: _Stack) -> Iterator[SolverResult | None]:
        """Yield the first results of all trials from other processes; None to solve one here."""
        running = stack.running
        is_alone = len(stack.trials) == 1 or running.workers == 1
        if is_alone or running.warm_start or running.verbose:
            yield from repeat(None)
            return
        work = self._jobs(stack)
        first = next(work, None)
        if first is None:
            yield from repeat(None)
            return
        row = [array[stack.trials[0]] for array in stack.data]
        compiled = self._compiled_for(stack, row, stack.constants, 1.0)
        workers = running.workers
        if workers is None:
            workers = os.cpu_count() or 1
        pool = executor_for(workers)
        for _, outcome in pool.run(jobs.run, chain([first], work), in_order=True):
            if isinstance(outcome, WorkersError):
                raise outcome
            # An error of the solver is raised again here, where its trial is solved once more.
            yield None if isinstance(outcome, Exception) else compiled.result_of(outcome)

    def _jobs(self, stack: _Stack) -> Iterator[Job]:
        """Yield the first solve of each trial; nothing where no other process can run it."""
        for trial in stack.trials:
            row = [array[trial] for array in stack.data]
            compiled = self._compiled_for(stack, row, stack.constants, 1.0)
            job = compiled.job(row, stack.numbers, stack.settings)
            if job is None:
                return
            yield job

    def _solve_trial(
        self,
        stack: _Stack,
        trial: tuple[int, ...],
        prior_result: SolverResult | None,
        again: Again | None,
    ) -> SolverResult:
        """Return what the solver makes of one trial, or raise the error of a missing point.

        ``prior_result`` is what it has made of it at first, in another process.
        """
        formulation = stack.formulation
        loss = formulation.loss
        row = [array[trial] for array in stack.data]
        first = self._attempt(stack, row, stack.constants, prior_result=prior_result)
        if first.point is None and first.reported == _NUMERICAL:
            # A sum over values whose noise is far above 1/d is a large number in its own units.
            first = _better(first, self._attempt(stack, row, stack.constants, 1 / len(row[0])))
        if first.point is None:
            return self._without_point(stack, trial, first, again)
        best = first
        units = stack.constants
        for _ in range(_REFINEMENTS):
            assert best.point is not None  # an attempt without a point is not better
            finer = loss.finer_constants(best.point, stack.start[trial], units)
            if finer is None:
                break
            units = finer
            best = _better(best, self._attempt(stack, row, units))
        return best

    def _without_point(
        self, stack: _Stack, trial: tuple[int, ...], first: SolverResult, again: Again | None
    ) -> SolverResult:
        """Return another solver's result for a trial without a point, or raise an error.

        A solver may be wrong about an empty set: only what a program confirms ends here.
        """
        estimate = stack.start[trial]
        support = None if stack.support is None else stack.support[trial]
        if first.reported not in _INFEASIBLE and again is not None:
            return self._rescued(stack, estimate, first, again)
        error = _no_point(stack.formulation, estimate, support, stack.solver, first.reported)
        if again is None or not isinstance(error, SolverError):
            raise error
        try:
            return _replaced(first, again(estimate))
        except SolverError:
            raise error from None

    def _rescued(
        self, stack: _Stack, estimate: FrequencyEstimate, first: SolverResult, again: Again
    ) -> SolverResult:
        """Return another solver's result for one trial, or raise an error that says what failed."""
        try:
            second = again(estimate)
        except SolverError as error:
            raise SolverError(
                f"{stack.solver} returned no point (status {first.reported}), with careful "
                f"settings and in smaller units too, and neither did another solver ({error}); "
                f"{self._blame(stack, estimate)}"
            ) from None
        return _replaced(first, second)

    def _blame(self, stack: _Stack, estimate: FrequencyEstimate) -> str:
        """Return which constraint the solver cannot cope with: without it there is a point.

        Cost: a solve per constraint, which a problem without an answer is worth.
        """
        constraints = stack.formulation.constraints
        for constraint in constraints:
            rest = tuple(one for one in constraints if one is not constraint)
            easier = Formulation(stack.formulation.loss, rest)
            try:
                self.solve(easier, estimate, stack.solver, stack.settings, stack.given)
            # Without it the minimum may be at infinity, too.
            except InvalidInputError:
                continue
            return (
                f"without {constraint.name or repr(constraint)} there is a point: state that "
                "constraint in other terms, or leave it out"
            )
        return "no single constraint is to blame: state the loss in other units, or fewer values"

    def _attempt(
        self,
        stack: _Stack,
        row: list[Array],
        constants: tuple[float, ...],
        factor: float = 1.0,
        prior_result: SolverResult | None = None,
    ) -> SolverResult:
        """Return what the solver makes of one trial in the units of some constants."""
        compiled = self._compiled_for(stack, row, constants, factor)
        return _solve_carefully(compiled, stack, row, prior_result)

    def _require_feasible(self, stack: _Stack) -> bool:
        """Raise an error that names the conflict if no vector has a finite loss in the set.

        Returns
        -------
        False where the same constraints were feasible with other numbers of their parameters:
        looking again may take ten times as long as a solve, and its point tells.
        """
        formulation = stack.formulation
        d = stack.start.d
        if d > feasibility.LARGEST:
            return True
        key = (formulation.loss.nonnegative_domain, stack.constraint_keys, d)
        was_feasible = key in self._feasible
        if not was_feasible:
            feasibility.require_feasible(feasibility.conditions(formulation, None), d)
            # A function that returns something else each time would fill the memory.
            if len(self._feasible) >= _KEPT:
                self._feasible.clear()
            self._feasible.add(key)
        feasibility.require_finite_loss(formulation, stack.start)
        return not (was_feasible and stack.numbers)

    def _compiled_for(
        self, stack: _Stack, data: list[Array], constants: tuple[float, ...], factor: float
    ) -> CompiledProblem:
        """Return the compiled problem; one that was compiled before is used again."""
        d = len(data[0])
        formulation = stack.formulation
        arguments = (formulation, data, constants, stack.solver, factor, stack.unit)
        # Not kept: the estimate is compiled in, so that no other estimate could use it.
        if d > _PARAMETRIC or formulation.loss.needs_numbers:
            return CompiledProblem(*arguments, with_parameters=False)
        loss_key = formulation.loss.compiled_key
        key = (loss_key, stack.constraint_keys, d, constants, stack.solver, factor, stack.unit)
        if key in self.compiled:
            return self.compiled[key]
        is_alone = len(stack.trials) == 1
        if is_alone and d >= _ONCE and key not in self._solved_once:
            self._solved_once.add(key)
            return CompiledProblem(*arguments, with_parameters=False)
        # A function that returns something else each time would fill the memory.
        while len(self.compiled) >= _KEPT:
            del self.compiled[next(iter(self.compiled))]
        self.compiled[key] = CompiledProblem(*arguments)
        return self.compiled[key]


@dataclass(frozen=True, eq=False)
class _Stack:
    """All trials of one call, with what the loss states of them.

    Attributes
    ----------
    formulation, start, solver, settings, given, running
        As in ``ConicPath.solve``.
    constants, data, support
        As the loss returns them for all trials.
    numbers, constraint_keys
        The arrays that the constraints leave open, and what they are compiled by.
    unit
        As in ``CompiledProblem``.
    largest
        The largest frequency that the estimate or the constraints speak of.
    """

    formulation: Formulation
    start: FrequencyEstimate
    solver: str
    settings: Mapping[str, Any]
    given: Mapping[str, Any]
    running: Running
    constants: tuple[float, ...]
    data: tuple[Array, ...]
    support: NDArray[np.bool_] | None
    numbers: tuple[Array, ...]
    constraint_keys: tuple[Hashable, ...]
    unit: float
    largest: float

    @classmethod
    def of(
        cls,
        formulation: Formulation,
        start: FrequencyEstimate,
        solver: str,
        settings: Mapping[str, Any],
        given: Mapping[str, Any],
        running: Running,
    ) -> _Stack:
        """Return the stack of an estimate."""
        loss = formulation.loss
        parts = loss.constants(start), loss.data(start), loss.support(start)
        numbers = numbers_of(formulation, start.d)
        keys = tuple(part.compiled_key(start.d) for part in formulation.constraints)
        # Frequencies beyond the usual get a unit of their own.
        of_estimate = float(np.abs(start.frequencies).max())
        largest = largest_frequency(formulation.constraints, start.d, of_estimate)
        unit = unit_of_size(largest, start.d)
        given_ones = formulation, start, solver, settings, given, running
        return cls(*given_ones, *parts, numbers, keys, unit, largest)

    @cached_property
    def trials(self) -> list[tuple[int, ...]]:
        """The index of each trial."""
        return list(np.ndindex(self.start.frequencies.shape[:-1]))


def _outcome(stack: _Stack, results: Sequence[SolverResult]) -> Outcome:
    """Return the results of all trials as one outcome."""
    shape = stack.start.frequencies.shape
    points = np.reshape([result.point for result in results], shape)
    # One trial that is not optimal makes the outcome inaccurate: who reads one status reads the
    # worst.
    is_optimal = all(result.status is Status.OPTIMAL for result in results)
    return Outcome(
        frequencies=_plausible(points, stack),
        status=Status.OPTIMAL if is_optimal else Status.INACCURATE,
        compile_seconds=sum(result.compile_seconds for result in results),
        solver_seconds=sum(result.solver_seconds for result in results),
        steps=sum(result.steps for result in results),
        stats=tuple(result.stats for result in results),
    )


def _replaced(first: SolverResult, second: Outcome) -> SolverResult:
    """Return a result without a point as another solver has replaced it, with both efforts."""
    return replace(
        first,
        point=second.frequencies,
        status=second.status,
        solver_seconds=first.solver_seconds + second.solver_seconds,
        compile_seconds=first.compile_seconds + second.compile_seconds,
        steps=first.steps + second.steps,
    )


def _satisfies(stack: _Stack, outcome: Outcome) -> bool:
    """Return whether the points are as near to all constraints as an optimal status promises."""
    violation = np.max(stack.formulation.violation(outcome.frequencies))
    return bool(violation <= ACCURACIES["high"].violation)


def _no_point(
    formulation: Formulation,
    estimate: FrequencyEstimate,
    support: NDArray[np.bool_] | None,
    solver: str,
    reported: str,
) -> Exception:
    """Return the error for a solver that returned no point; "infeasible" is verified."""
    if reported not in _INFEASIBLE:
        return SolverError(
            f"{solver} returned no point (status {reported}): try another solver or accuracy"
        )
    return feasibility.verdict(formulation, estimate, support, f"{solver}: {reported}")


def _plausible(points: Array, stack: _Stack) -> Array:
    """Return a solver's points without its residue outside the loss's domain.

    Raises
    ------
    InvalidInputError
        If a point is so far out that the loss must be unbounded below.
    """
    loss = stack.formulation.loss
    # A point far out along a ray, which some solvers return with the status "optimal".
    if np.abs(points).max() > _RUNAWAY * max(1.0, stack.largest):
        raise InvalidInputError(UNBOUNDED.format(loss))
    # A solver's residue where the loss is infinite would make the point worthless.
    if stack.support is not None:
        points = np.where(stack.support, points, 0.0)
    if loss.nonnegative_domain:
        return np.maximum(points, 0.0)
    is_finite = np.isfinite(loss.value(points, stack.start)).all()
    return points if is_finite else _inside(points, stack)


def _inside(points: Array, stack: _Stack) -> Array:
    """Return points of which all values near a bound, or near 0 without one, are inside.

    A loss that users state may end there, as the entropy does at 0. Just inside, its slopes are
    numbers too.
    """
    region = stack.formulation.region(stack.start.d)
    size = np.max(np.abs(points), axis=-1, keepdims=True)
    lower = np.where(np.isfinite(region.lower), region.lower, 0.0)
    is_low = np.abs(points - lower) <= _AT_END * size
    is_high = np.abs(points - region.upper) <= _AT_END * size
    above = np.where(is_low, lower + _INSIDE * size, points)
    return np.where(is_high & ~is_low, region.upper - _INSIDE * size, above)


def _constrained(
    formulation: Formulation, f: Any, *, with_parameters: bool
) -> tuple[list[Any], list[Any]]:
    """Return the constraints on f, and the parameters for numbers that may change later."""
    forms: list[Any] = []
    numbers: list[Any] = []
    for constraint in formulation.constraints:
        if with_parameters:
            stated, open_numbers = constraint.adjustable_form(f)
            numbers += open_numbers
        else:
            stated = constraint.cone_form(f)
        forms += stated
    return forms, numbers


def numbers_of(formulation: Formulation, d: int) -> tuple[Array, ...]:
    """Return the arrays that constraints with parameters leave open."""
    return tuple(number for part in formulation.constraints for number in part.data(d))


def _shown(trials: Iterable[Any], stack: _Stack) -> Iterable[Any]:
    """Return the trials, with a bar that counts them if there are several."""
    if len(stack.trials) == 1:
        return trials
    what = f"{stack.solver}, {len(stack.trials):,} trials"
    return progress.track(trials, what, len(stack.trials), wanted=stack.running.progress)


def _solve_carefully(
    compiled: CompiledProblem, stack: _Stack, row: list[Array], prior_result: SolverResult | None
) -> SolverResult:
    """Return a solver's result: that of a second try where it stopped for numerical reasons.

    ``prior_result`` is the first one, where another process has found it.
    """
    first = prior_result
    if first is None:
        first = compiled.solve(row, stack.numbers, stack.settings, stack.given, stack.running)
    careful = SOLVERS[stack.solver].careful if stack.solver in SOLVERS else {}
    if first.reported != _NUMERICAL or not careful:
        return first
    # The caller's options win over careful ones.
    options = {**stack.settings, **careful, **stack.given}
    second = compiled.solve(row, stack.numbers, options, stack.given, stack.running)
    return replace(
        # The first result has carried the compile time; the second states 0.
        second,
        compile_seconds=first.compile_seconds,
        solver_seconds=first.solver_seconds + second.solver_seconds,
        steps=first.steps + second.steps,
    )


def _better(first: SolverResult, second: SolverResult) -> SolverResult:
    """Return the second result unless only the first is good, with the effort of both."""
    is_worse = second.point is None or (
        second.status is not Status.OPTIMAL and first.status is Status.OPTIMAL
    )
    return replace(
        first if is_worse else second,
        compile_seconds=first.compile_seconds + second.compile_seconds,
        solver_seconds=first.solver_seconds + second.solver_seconds,
        steps=first.steps + second.steps,
    )
