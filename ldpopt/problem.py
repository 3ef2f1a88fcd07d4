"""A loss under constraints, solved by its closed form where one is known and by a solver where not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import closed_form, conic, validate
from ldpopt.certificate import Certificate, certify
from ldpopt.conic import CompiledProblem, Status
from ldpopt.constraints import (
    AtMost,
    Constraint,
    GroupTotals,
    Hierarchy,
    Monotone,
    NonNegative,
    Order,
    SumsTo,
    Unimodal,
)
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, KullbackLeibler, LeastSquares, Loss, MultinomialMLE, WeightedLeastSquares

Array = NDArray[np.float64]
Path = Literal["auto", "closed-form", "conic"]
Kind = TypeVar("Kind", bound=Constraint)
_SLACK = 1e-9  # by how much rounding may put a total outside what the bounds allow
_RUNAWAY = 1e9  # times the estimate: where a solver's point has left for infinity
_NO_MINIMUM = "{!r} has no minimum here, it falls without end: add SumsTo(...) or upper Bounds"
_PATHS = ("auto", "closed-form", "conic")


@dataclass(frozen=True)
class ClosedForm:
    """A KKT solution: its name, the function of (estimate, problem), and a condition beyond the kinds of constraints."""

    name: str
    solve: Callable[[FrequencyEstimate, Problem], Array]
    applies: Callable[[Problem, FrequencyEstimate], bool] | None = None


def _of(problem: Problem, kind: type[Kind]) -> Kind:
    """Return the problem's one constraint of this kind."""
    return next(c for c in problem.constraints if isinstance(c, kind))


def _total(problem: Problem) -> float:
    return _of(problem, SumsTo).total


def _order(problem: Problem) -> Order:
    return next(c for c in problem.constraints if isinstance(c, Order))


def _weights(problem: Problem) -> Array | None:
    return problem.loss.weights if isinstance(problem.loss, WeightedLeastSquares) else None


def _pooled(estimate: FrequencyEstimate, problem: Problem) -> Array:
    f, order = estimate.frequencies, _order(problem)
    if isinstance(order, Monotone) and order.order is not None:
        return closed_form.monotone(f, order.order, _weights(problem))
    forest = order.forest(estimate.d)
    assert forest is not None  # _is_forest
    parents, sign = forest
    return sign * closed_form.isotonic(sign * f, parents, _weights(problem))


def _is_forest(problem: Problem, estimate: FrequencyEstimate) -> bool:
    return _order(problem).forest(estimate.d) is not None


def _consistent(estimate: FrequencyEstimate, problem: Problem) -> Array:
    tree = _of(problem, Hierarchy)
    nonnegative = any(isinstance(c, NonNegative) for c in problem.constraints)
    return closed_form.tree_consistency(
        estimate.frequencies, tree.parents, _weights(problem), tree.total, nonnegative=nonnegative
    )


def _grouped(estimate: FrequencyEstimate, problem: Problem) -> Array:
    groups = _of(problem, GroupTotals)
    rest = problem.total - groups.totals.sum() if problem.total is not None else None
    return closed_form.group_totals(estimate.frequencies, groups.groups, groups.totals, rest)


def _groups_apart(problem: Problem, estimate: FrequencyEstimate) -> bool:
    """Return whether the groups do not overlap and leave room for what the total asks of the others."""
    groups = _of(problem, GroupTotals)
    if not groups.disjoint or (groups.totals < 0).any() or any(not len(group) for group in groups.groups):
        return False
    covered = sum(map(len, groups.groups)) == estimate.d
    return problem.total is None or (not covered and problem.total >= groups.totals.sum())


_IDENTITY = ClosedForm("base", lambda e, _: e.frequencies.copy())
_CLIP = ClosedForm("base-pos", lambda e, _: closed_form.base_pos(e.frequencies))
_PAVA = ClosedForm("pava", _pooled, _is_forest)
_PAVA_CLIP = ClosedForm("pava, base-pos", lambda e, p: closed_form.base_pos(_pooled(e, p)), _is_forest)
# A common shift and a clip keep every order: what follows pooling is what follows the raw estimate.
_ORDERS: dict[tuple[type[Loss], frozenset[type[Constraint]]], ClosedForm] = {
    (loss, frozenset({order, *others})): form
    for order in (Monotone, Unimodal)
    for loss, others, form in (
        (LeastSquares, (), _PAVA),
        (LeastSquares, (NonNegative,), _PAVA_CLIP),
        (
            LeastSquares,
            (SumsTo,),
            ClosedForm("pava, norm", lambda e, p: closed_form.norm(_pooled(e, p), _total(p)), _is_forest),
        ),
        (
            LeastSquares,
            (NonNegative, SumsTo),
            ClosedForm("pava, norm-sub", lambda e, p: closed_form.norm_sub(_pooled(e, p), _total(p)), _is_forest),
        ),
        (WeightedLeastSquares, (), _PAVA),
        (WeightedLeastSquares, (NonNegative,), _PAVA_CLIP),
    )
}
_TREES: dict[tuple[type[Loss], frozenset[type[Constraint]]], ClosedForm] = {
    (loss, frozenset({Hierarchy, *others})): form
    for loss in (LeastSquares, WeightedLeastSquares)
    for others, form in (
        ((), ClosedForm("two passes", _consistent)),
        (
            (NonNegative,),
            ClosedForm("two passes a round", _consistent, lambda p, _: (_of(p, Hierarchy).total or 0.0) >= 0),
        ),
    )
}
_NORM_MUL = ClosedForm("norm-mul", lambda e, p: closed_form.norm_mul(e.frequencies, _total(p)))

CLOSED_FORMS: dict[tuple[type[Loss], frozenset[type[Constraint]]], ClosedForm] = {
    (LeastSquares, frozenset()): _IDENTITY,
    (LeastSquares, frozenset({NonNegative})): _CLIP,
    (LeastSquares, frozenset({SumsTo})): ClosedForm("norm", lambda e, p: closed_form.norm(e.frequencies, _total(p))),
    (LeastSquares, frozenset({NonNegative, SumsTo})): ClosedForm(
        "norm-sub", lambda e, p: closed_form.norm_sub(e.frequencies, _total(p))
    ),
    **_ORDERS,
    **_TREES,
    (LeastSquares, frozenset({GroupTotals, NonNegative})): ClosedForm("norm-sub by group", _grouped, _groups_apart),
    (LeastSquares, frozenset({GroupTotals, NonNegative, SumsTo})): ClosedForm(
        "norm-sub by group", _grouped, _groups_apart
    ),
    (LeastSquares, frozenset({AtMost, NonNegative, SumsTo})): ClosedForm(
        "norm-sub of the k largest", lambda e, p: closed_form.at_most(e.frequencies, _of(p, AtMost).k, _total(p))
    ),
    (GaussianMLE, frozenset()): _IDENTITY,
    (GaussianMLE, frozenset({NonNegative})): _CLIP,
    (GaussianMLE, frozenset({NonNegative, SumsTo})): ClosedForm(
        "mle-apx",
        lambda e, p: closed_form.mle_apx(e.frequencies, e.noise[1].kappa, _total(p)),
        lambda p, e: 1 + e.noise[1].kappa * _total(p) > 0,
    ),
    (MultinomialMLE, frozenset({NonNegative, SumsTo})): ClosedForm(
        "water-filling",
        lambda e, p: closed_form.water_filling(
            MultinomialMLE.shares(e), e.noise[1].q / (e.noise[1].p - e.noise[1].q), _total(p)
        ),
    ),
    (KullbackLeibler, frozenset({SumsTo})): _NORM_MUL,
    (KullbackLeibler, frozenset({NonNegative, SumsTo})): _NORM_MUL,
}
"""From (loss, kinds of constraints) to the method that solves it in closed form, if each kind is there once."""

_ONE_ROOT = "one root"


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
        self.total = totals.pop() if totals else None
        bounds = [loss] * loss.nonnegative_domain + [c for c in self.constraints if isinstance(c, NonNegative)]
        if self.total is not None and self.total < 0 and bounds:
            raise InfeasibleError(
                f"{bounds[0]!r} and SumsTo({self.total:g}) contradict each other: no value may be negative"
            )
        self._compiled: dict[tuple[Any, ...], CompiledProblem] = {}

    def check(self, d: int) -> None:
        """Raise an error if a constraint does not fit d values, or bounds and total contradict each other."""
        for constraint in self.constraints:
            constraint.check(d)
        lower, upper = self.box(d)
        crossed = lower > upper
        if crossed.any():
            at = int(np.argmax(crossed))
            raise InfeasibleError(
                f"the bounds contradict each other at index {at}: at least {lower[at]:g}, at most {upper[at]:g}"
            )
        if self.total is not None and not lower.sum() - _SLACK <= self.total <= upper.sum() + _SLACK:
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
        return all(isinstance(c, SumsTo) or type(c).box is not Constraint.box for c in self.constraints)

    def closed_form(self, estimate: FrequencyEstimate) -> ClosedForm | None:
        """Return the closed form of this problem for an estimate, or None."""
        kinds = [type(c) for c in self.constraints]
        # A second NonNegative() or SumsTo(same) says nothing new.
        single = [kind for kind in kinds if kind not in (NonNegative, SumsTo)]
        form = CLOSED_FORMS.get((type(self.loss), frozenset(kinds))) if len(set(single)) == len(single) else None
        if form is not None and (form.applies is None or form.applies(self, estimate)):
            return form
        separable = type(self.loss).response is not Loss.response
        lower, upper = self.box(estimate.d)
        if separable and self.is_box and (self.total is None or np.isfinite(lower).all() or np.isfinite(upper).all()):
            return ClosedForm(_ONE_ROOT, solve_one_root)
        return None

    def explain(self, estimate: FrequencyEstimate | ArrayLike) -> str:
        """Return which path ``solve`` would take for this estimate, and why, without solving.

        Examples
        --------
        >>> Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)]).explain([0.5, 0.6])
        'closed-form: LeastSquares() under NonNegative(), SumsTo(1) is solved by norm-sub'
        """
        start = self._checked(estimate)
        where = ", ".join(map(repr, self.constraints)) or "no constraints"
        form = self.closed_form(start)
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
        start = self._checked(estimate)
        validate.lookup("path", path, dict.fromkeys(_PATHS))
        form = self.closed_form(start)
        if path == "closed-form" and form is None:
            raise InvalidInputError(
                f"path='closed-form' is not available: {self.explain(start).removeprefix('conic: ')}"
            )
        if solver_options and solver is None and path != "conic":
            named = ", ".join(solver_options)
            raise InvalidInputError(f"options of a solver ({named}) need a solver: name one, or use path='conic'")
        if path == "closed-form" and solver is not None:
            raise InvalidInputError(
                "path='closed-form' takes no solver: leave out solver and its options, or use path='conic'"
            )
        began = time.perf_counter()
        if form is not None and (path == "closed-form" or (path == "auto" and solver is None)):
            f = form.solve(start, self)
            taken: Literal["closed-form", "conic"] = "closed-form"
            status, used = Status.OPTIMAL, form.name
        else:
            used = conic.DEFAULT_SOLVER if solver is None else conic.installed(solver)
            taken = "conic"
            f, status = self._solve_conic(start, used, solver_options)
        return Solution(self, start, f, status, taken, used, time.perf_counter() - began)

    def _checked(self, estimate: FrequencyEstimate | ArrayLike) -> FrequencyEstimate:
        start = FrequencyEstimate.of(estimate)
        self.loss.check(start)
        self.check(start.d)
        return start

    def _solve_conic(self, start: FrequencyEstimate, solver: str, options: dict[str, Any]) -> tuple[Array, Status]:
        constants = self.loss.constants(start)
        data = self.loss.data(start)
        result = np.empty_like(start.frequencies)
        worst = Status.OPTIMAL
        for trial in np.ndindex(start.frequencies.shape[:-1]):
            row = [array[trial] for array in data]
            if conic.parametric(start.d):
                key = (start.d, constants, solver)  # cvxpy compiles anew when the solver changes
                if key not in self._compiled:
                    shapes = [array.shape for array in row]
                    self._compiled[key] = CompiledProblem(self.loss, self.constraints, shapes, constants)
                result[trial], status = self._compiled[key].solve(row, solver, options)
            else:
                result[trial], status = conic.solve_uncompiled(
                    self.loss, self.constraints, row, constants, solver, options
                )
            worst = worst if status is Status.OPTIMAL else status
        if np.abs(result).max() > _RUNAWAY * max(1.0, np.abs(start.frequencies).max()):
            raise InvalidInputError(_NO_MINIMUM.format(self.loss))
        support = self.loss.support(start)  # a solver's residue outside would make the loss infinite
        return (result if support is None else np.where(support, result, 0.0)), worst

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was compiled: solvers do not pickle, and another process compiles its own."""
        return {**self.__dict__, "_compiled": {}}

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


def solve_one_root(estimate: FrequencyEstimate, problem: Problem) -> Array:
    """Return the minimiser of a separable loss on a box with at most one total (``closed_form.one_root``).

    Raises
    ------
    InvalidInputError
        If the loss falls without end, or double precision cannot meet the total.
    """
    d, loss = estimate.d, problem.loss
    lower, upper = problem.box(d)
    constants = loss.constants(estimate)
    upper = np.minimum(upper, (1 - 1e-9) * loss.domain_end(constants))  # the gradient is finite short of the end
    data = tuple(np.broadcast_to(x, estimate.frequencies.shape).reshape(-1, d) for x in loss.data(estimate))

    def minimiser(mu: Array, trials: NDArray[np.intp]) -> Array:
        found = loss.response(mu, tuple(x[trials] for x in data), constants)
        assert found is not None  # closed_form() asks for a response
        return np.clip(found, lower, upper)

    everyone = np.arange(len(data[0]))
    if problem.total is None:
        f = minimiser(np.zeros((len(everyone), 1)), everyone)
        if not np.isfinite(f).all():
            raise InvalidInputError(_NO_MINIMUM.format(loss))
        return f.reshape(estimate.frequencies.shape)
    # With the others at their bounds, the total bounds every value on the other side too.
    if np.isfinite(lower).all():
        upper = np.minimum(upper, problem.total - (lower.sum() - lower))
    else:
        lower = np.maximum(lower, problem.total - (upper.sum() - upper))
    shape = estimate.frequencies.shape
    slope_low = loss.gradient(np.broadcast_to(lower, shape), estimate).reshape(-1, d)
    slope_high = loss.gradient(np.broadcast_to(upper, shape), estimate).reshape(-1, d)
    bracket = -slope_high.max(axis=-1), -slope_low.min(axis=-1)
    return closed_form.one_root(minimiser, bracket, (lower, upper), problem.total).reshape(shape)
