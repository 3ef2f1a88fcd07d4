"""Which closed form solves which problem: one table, and the rules for problems on a box.

A closed form is found by the kinds of loss and constraints, each there once, and may ask for more than kinds. Every separable
loss on a box with at most one total has one: the root of its multiplier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import AtMost, Constraint, GroupTotals, Monotone, NonNegative, SumsTo
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, KullbackLeibler, LeastAbsolute, LeastSquares, Loss, MultinomialMLE, PosteriorMean

if TYPE_CHECKING:
    from ldpopt.problem import Problem

Array = NDArray[np.float64]
Kind = TypeVar("Kind", bound=Constraint)
_ROUNDING = 1e-12  # by how much the sum of all groups may differ from the total
NO_MINIMUM = "{!r} has no minimum here, it falls without end: add SumsTo(...) or upper Bounds"


@dataclass(frozen=True)
class ClosedForm:
    """A KKT solution: its name, the function of (estimate, problem), and a condition beyond the kinds of constraints."""

    name: str
    solve: Callable[[FrequencyEstimate, Problem], Array]
    applies: Callable[[Problem, FrequencyEstimate], bool] | None = None


def _of(problem: Problem, kind: type[Kind]) -> Kind:
    """Return the problem's one constraint of this kind."""
    return next(c for c in problem.constraints if isinstance(c, kind))


def _target(estimate: FrequencyEstimate, problem: Problem) -> Array:
    """Return the point from which least squares measures: f̃, or the posterior mean."""
    assert isinstance(problem.loss, LeastSquares)  # the table asks for it
    return problem.loss.target(estimate)


def _total(problem: Problem) -> float:
    return _of(problem, SumsTo).total


def _pooled(estimate: FrequencyEstimate, problem: Problem) -> Array:
    return closed_form.monotone(_target(estimate, problem), _of(problem, Monotone).order)


def _whole_order(problem: Problem, estimate: FrequencyEstimate) -> bool:
    return len(_of(problem, Monotone).order) == estimate.d


def _grouped(estimate: FrequencyEstimate, problem: Problem) -> Array:
    groups = _of(problem, GroupTotals)
    rest = max(problem.total - groups.totals.sum(), 0.0) if problem.total is not None else None
    return closed_form.group_totals(_target(estimate, problem), groups.groups, groups.totals, rest)


def _groups_apart(problem: Problem, estimate: FrequencyEstimate) -> bool:
    """Return whether the groups do not overlap and leave to the others what the total asks of them."""
    groups = _of(problem, GroupTotals)
    if not groups.disjoint or (groups.totals < 0).any() or any(not len(group) for group in groups.groups):
        return False
    rest = 0.0 if problem.total is None else problem.total - groups.totals.sum()
    covered = sum(map(len, groups.groups)) == estimate.d
    return abs(rest) <= _ROUNDING * max(1.0, abs(problem.total or 0.0)) or (rest > 0 and not covered)


_IDENTITY = ClosedForm("base", lambda e, _: e.frequencies.copy())
_CLIP = ClosedForm("base-pos", lambda e, _: closed_form.base_pos(e.frequencies))
_NORM_MUL = ClosedForm("norm-mul", lambda e, p: closed_form.norm_mul(e.frequencies, _total(p)))

CLOSED_FORMS: dict[tuple[type[Loss], frozenset[type[Constraint]]], ClosedForm] = {
    (LeastSquares, frozenset()): ClosedForm("base", lambda e, p: _target(e, p).copy()),
    (LeastSquares, frozenset({NonNegative})): ClosedForm("base-pos", lambda e, p: closed_form.base_pos(_target(e, p))),
    (LeastSquares, frozenset({SumsTo})): ClosedForm("norm", lambda e, p: closed_form.norm(_target(e, p), _total(p))),
    (LeastSquares, frozenset({NonNegative, SumsTo})): ClosedForm(
        "norm-sub", lambda e, p: closed_form.norm_sub(_target(e, p), _total(p))
    ),
    (LeastSquares, frozenset({Monotone})): ClosedForm("pava", _pooled),
    (LeastSquares, frozenset({Monotone, NonNegative})): ClosedForm(
        "pava, base-pos", lambda e, p: closed_form.base_pos(_pooled(e, p)), _whole_order
    ),
    (LeastSquares, frozenset({Monotone, NonNegative, SumsTo})): ClosedForm(
        "pava, norm-sub", lambda e, p: closed_form.norm_sub(_pooled(e, p), _total(p)), _whole_order
    ),
    (LeastSquares, frozenset({GroupTotals, NonNegative})): ClosedForm("norm-sub by group", _grouped, _groups_apart),
    (LeastSquares, frozenset({GroupTotals, NonNegative, SumsTo})): ClosedForm(
        "norm-sub by group", _grouped, _groups_apart
    ),
    (LeastSquares, frozenset({AtMost, NonNegative, SumsTo})): ClosedForm(
        "norm-sub of the k largest", lambda e, p: closed_form.at_most(_target(e, p), _of(p, AtMost).k, _total(p))
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


def find(problem: Problem, estimate: FrequencyEstimate) -> ClosedForm | None:
    """Return the closed form of a problem for an estimate, or None."""
    loss, kinds = problem.loss, [type(c) for c in problem.constraints]
    # A second NonNegative() or SumsTo(same) says nothing new.
    single = [kind for kind in kinds if kind not in (NonNegative, SumsTo)]
    about_posterior = isinstance(loss, PosteriorMean)
    form = None
    if len(set(single)) == len(single):
        form = CLOSED_FORMS.get((LeastSquares if about_posterior else type(loss), frozenset(kinds)))
    if form is None or (form.applies is not None and not form.applies(problem, estimate)):
        form = _on_box(problem, estimate)
    return replace(form, name=f"{form.name} of the posterior mean") if form and about_posterior else form


def _on_box(problem: Problem, estimate: FrequencyEstimate) -> ClosedForm | None:
    """Return the form that needs nothing but bounds and at most one total."""
    loss = problem.loss
    if not problem.is_box:
        return None
    if isinstance(loss, LeastAbsolute):
        return ClosedForm("clip, then least squares", _least_absolute)
    lower, upper = problem.box(estimate.d)
    bounded = problem.total is None or np.isfinite(lower).all() or np.isfinite(upper).all()
    return ClosedForm("one root", solve_one_root) if loss.separable and bounded else None


def _least_absolute(estimate: FrequencyEstimate, problem: Problem) -> Array:
    return closed_form.least_absolute(estimate.frequencies, *problem.box(estimate.d), problem.total)


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
            raise InvalidInputError(NO_MINIMUM.format(loss))
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
