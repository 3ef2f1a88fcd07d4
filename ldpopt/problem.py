"""A loss under constraints, solved by its closed form where one is known and by a solver where not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import closed_form, conic, validate
from ldpopt.certificate import Certificate, certify
from ldpopt.conic import CompiledProblem, Status
from ldpopt.constraints import Constraint, NonNegative, SumsTo
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, KullbackLeibler, LeastSquares, Loss

Array = NDArray[np.float64]
Path = Literal["auto", "closed-form", "conic"]
_PATHS = ("auto", "closed-form", "conic")


@dataclass(frozen=True)
class ClosedForm:
    """A KKT solution: the name of its method and the function of (estimate, total)."""

    name: str
    solve: Callable[[FrequencyEstimate, float], Array]


_IDENTITY = ClosedForm("base", lambda e, _: e.frequencies.copy())
_CLIP = ClosedForm("base-pos", lambda e, _: closed_form.base_pos(e.frequencies))

CLOSED_FORMS: dict[tuple[type[Loss], frozenset[type[Constraint]]], ClosedForm] = {
    (LeastSquares, frozenset()): _IDENTITY,
    (LeastSquares, frozenset({NonNegative})): _CLIP,
    (LeastSquares, frozenset({SumsTo})): ClosedForm("norm", lambda e, total: closed_form.norm(e.frequencies, total)),
    (LeastSquares, frozenset({NonNegative, SumsTo})): ClosedForm(
        "norm-sub", lambda e, total: closed_form.norm_sub(e.frequencies, total)
    ),
    (GaussianMLE, frozenset()): _IDENTITY,
    (GaussianMLE, frozenset({NonNegative})): _CLIP,
    (GaussianMLE, frozenset({NonNegative, SumsTo})): ClosedForm(
        "mle-apx", lambda e, total: closed_form.mle_apx(e.frequencies, e.noise[1].kappa, total)
    ),
    (KullbackLeibler, frozenset({SumsTo})): ClosedForm(
        "norm-mul", lambda e, total: closed_form.norm_mul(e.frequencies, total)
    ),
    (KullbackLeibler, frozenset({NonNegative, SumsTo})): ClosedForm(
        "norm-mul", lambda e, total: closed_form.norm_mul(e.frequencies, total)
    ),
}
"""From (loss, kinds of constraints) to the method that solves it in closed form."""


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
            raise InvalidTypeError(f"loss must be an instance from ldpopt.losses, such as LeastSquares(), got {loss!r}")
        if not isinstance(constraints, Sequence) or not all(isinstance(c, Constraint) for c in constraints):
            raise InvalidTypeError(
                f"constraints must be a list of instances from ldpopt.constraints, such as [NonNegative()], got {constraints!r}"
            )
        self.loss = loss
        self.constraints = list(constraints)
        totals = {c.total for c in self.constraints if isinstance(c, SumsTo)}
        if len(totals) > 1:
            raise InfeasibleError(f"the frequencies cannot have different totals: {sorted(totals)}")
        self._total = totals.pop() if totals else None
        bounds = [loss] * loss.nonnegative_domain + [c for c in self.constraints if isinstance(c, NonNegative)]
        if self._total is not None and self._total < 0 and bounds:
            raise InfeasibleError(
                f"{bounds[0]!r} and SumsTo({self._total:g}) contradict each other: no value may be negative"
            )
        self._compiled: dict[tuple[Any, ...], CompiledProblem] = {}

    def closed_form(self) -> ClosedForm | None:
        """Return the closed form of this problem, or None."""
        return CLOSED_FORMS.get((type(self.loss), frozenset(map(type, self.constraints))))

    def explain(self, estimate: FrequencyEstimate | ArrayLike) -> str:
        """Return which path ``solve`` would take for this estimate, and why, without solving.

        Examples
        --------
        >>> Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)]).explain([0.5, 0.6])
        'closed-form: LeastSquares() under NonNegative(), SumsTo(1) is solved by norm-sub'
        """
        self.loss.check(_as_estimate(estimate))
        where = ", ".join(map(repr, self.constraints)) or "no constraints"
        form = self.closed_form()
        if form:
            return f"closed-form: {self.loss!r} under {where} is solved by {form.name}"
        return f"conic: {self.loss!r} under {where} has no closed form; {conic.DEFAULT_SOLVER} solves it through cvxpy"

    def solve(
        self,
        estimate: FrequencyEstimate | ArrayLike,
        path: Path = "auto",
        solver: str | None = None,
        **solver_options: Any,
    ) -> Solution:
        """Return the minimiser.

        Parameters
        ----------
        estimate
            Where f̃ comes from: one vector or a stack of trials. A plain array will do where the loss needs no noise level.
        path
            ``"closed-form"``, ``"conic"``, or ``"auto"``: the closed form if there is one and no solver is named.
        solver
            Name of an installed cvxpy solver for the conic path; CLARABEL by default.
        **solver_options
            Passed to the solver, over ``conic.SETTINGS``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the path is unknown, there is no closed form, or the loss is not defined for the estimate.
        InfeasibleError, SolverError
            If nothing satisfies the constraints, or the solver is missing or returns nothing.

        Notes
        -----
        Cost: closed forms are a sort or a few passes for all trials at once; the conic path solves trial by trial.
        """
        start = _as_estimate(estimate)
        validate.lookup("path", path, dict.fromkeys(_PATHS))
        self.loss.check(start)
        form = self.closed_form()
        if path == "closed-form" and form is None:
            raise InvalidInputError(
                f"path='closed-form' is not available: {self.explain(start).removeprefix('conic: ')}"
            )
        if path == "closed-form" and (solver is not None or solver_options):
            raise InvalidInputError(
                "path='closed-form' takes no solver: leave out solver and its options, or use path='conic'"
            )
        began = time.perf_counter()
        if form is not None and (path == "closed-form" or (path == "auto" and solver is None and not solver_options)):
            f = form.solve(start, 1.0 if self._total is None else self._total)
            taken: Literal["closed-form", "conic"] = "closed-form"
            status, used = Status.OPTIMAL, form.name
        else:
            used = conic.DEFAULT_SOLVER if solver is None else solver
            conic.check_solver(used)
            taken = "conic"
            f, status = self._solve_conic(start, used, solver_options)
        return Solution(self, start, f, status, taken, used, time.perf_counter() - began)

    def _solve_conic(self, start: FrequencyEstimate, solver: str, options: dict[str, Any]) -> tuple[Array, Status]:
        constants = self.loss.constants(start)
        data = self.loss.data(start)
        result = np.empty_like(start.frequencies)
        worst = Status.OPTIMAL
        for trial in np.ndindex(start.frequencies.shape[:-1]):
            row = [array[trial] for array in data]
            if conic.parametric(start.d):
                key = (start.d, constants)
                if key not in self._compiled:
                    shapes = [array.shape for array in row]
                    self._compiled[key] = CompiledProblem(self.loss, self.constraints, shapes, constants)
                result[trial], status = self._compiled[key].solve(row, solver, options)
            else:
                result[trial], status = conic.solve_uncompiled(
                    self.loss, self.constraints, row, constants, solver, options
                )
            worst = worst if status is Status.OPTIMAL else status
        support = self.loss.support(start)  # a solver's residue outside would make the loss infinite
        return (result if support is None else np.where(support, result, 0.0)), worst

    def __repr__(self) -> str:
        return f"Problem({self.loss!r}, {self.constraints!r})"


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
        ``"closed-form"`` or ``"conic"``.
    solver
        The solver's name, or that of the closed form.
    seconds
        Wall time, including compilation on a first conic solve.
    """

    problem: Problem
    estimate: FrequencyEstimate
    frequencies: Array
    status: Status
    path: Literal["closed-form", "conic"]
    solver: str
    seconds: float

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


def _as_estimate(estimate: FrequencyEstimate | ArrayLike) -> FrequencyEstimate:
    return estimate if isinstance(estimate, FrequencyEstimate) else FrequencyEstimate(np.asarray(estimate))
