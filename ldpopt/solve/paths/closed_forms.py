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

from ldpopt import closed_form, validate
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
from ldpopt.errors import InfeasibleError, InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import (
    GaussianMLE,
    KullbackLeibler,
    LeastAbsolute,
    LeastSquares,
    Loss,
    MultinomialMLE,
    WeightedLeastSquares,
)

if TYPE_CHECKING:
    from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]
Kind = TypeVar("Kind", bound=Constraint)
_STEEPEST = 1500.0  # twice the exponent range of doubles
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
    return (
        problem.loss.target(estimate)
        if isinstance(problem.loss, LeastSquares)
        else estimate.frequencies
    )


def _weights(problem: Problem) -> Array | None:
    return problem.loss.weights if isinstance(problem.loss, WeightedLeastSquares) else None


def _total(problem: Problem) -> float:
    return _of(problem, SumsTo).total()


def _order(problem: Problem) -> Order:
    return next(c for c in problem.constraints if isinstance(c, Order))


def _pooled(estimate: FrequencyEstimate, problem: Problem) -> Array:
    f, order = _target(estimate, problem), _order(problem)
    if isinstance(order, Monotone) and order.order is not None:
        return closed_form.monotone(f, order.order, _weights(problem))
    forest = order.forest(estimate.d)
    assert forest is not None  # _is_forest
    parents, sign = forest
    return sign * closed_form.isotonic(sign * f, parents, _weights(problem))


def _is_forest(problem: Problem, estimate: FrequencyEstimate) -> bool:
    return _order(problem).forest(estimate.d) is not None


def _consistent(estimate: FrequencyEstimate, problem: Problem) -> Array:
    tree, f = _of(problem, Hierarchy), _target(estimate, problem)
    nonnegative = any(isinstance(c, NonNegative) for c in problem.constraints)
    return closed_form.tree_consistency(
        f, tree.parents, _weights(problem), tree.root_total, nonnegative=nonnegative
    )


def _grouped(estimate: FrequencyEstimate, problem: Problem) -> Array:
    groups = _of(problem, GroupTotals)
    rest = max(problem.total - groups.totals.sum(), 0.0) if problem.total is not None else None
    return closed_form.group_totals(_target(estimate, problem), groups.groups, groups.totals, rest)


def _groups_apart(problem: Problem, estimate: FrequencyEstimate) -> bool:
    """Return whether the groups do not overlap and leave to the others what the total asks of them."""
    groups = _of(problem, GroupTotals)
    if (
        not groups.disjoint
        or (groups.totals < 0).any()
        or any(not len(group) for group in groups.groups)
    ):
        return False
    rest = 0.0 if problem.total is None else problem.total - groups.totals.sum()
    covered = sum(map(len, groups.groups)) == estimate.d
    return abs(rest) <= _ROUNDING * max(1.0, abs(problem.total or 0.0)) or (
        rest > 0 and not covered
    )


def _floor(estimate: FrequencyEstimate) -> float:
    """Return q/(p - q), the water level's floor."""
    protocol = estimate.noise.require_protocol()
    return protocol.q / (protocol.p - protocol.q)


_IDENTITY = ClosedForm("base", lambda e, _: e.frequencies.copy())
_CLIP = ClosedForm("base-pos", lambda e, _: closed_form.base_pos(e.frequencies))
_NORM_MUL = ClosedForm("norm-mul", lambda e, p: closed_form.norm_mul(e.frequencies, _total(p)))

Table = dict[tuple[type[Loss], frozenset[type[Constraint]]], ClosedForm]
_PAVA = ClosedForm("pava", _pooled, _is_forest)
_PAVA_CLIP = ClosedForm(
    "pava, base-pos", lambda e, p: closed_form.base_pos(_pooled(e, p)), _is_forest
)
_PAVA_SHIFT = ClosedForm(
    "pava, norm", lambda e, p: closed_form.norm(_pooled(e, p), _total(p)), _is_forest
)
_PAVA_BOTH = ClosedForm(
    "pava, norm-sub", lambda e, p: closed_form.norm_sub(_pooled(e, p), _total(p)), _is_forest
)
# A common shift and a clip keep every order: what follows pooling is what follows the raw estimate.
_ORDERS: Table = {
    (loss, frozenset({order, *others})): form
    for order in (Monotone, Unimodal)
    for loss, others, form in (
        (LeastSquares, (), _PAVA),
        (LeastSquares, (NonNegative,), _PAVA_CLIP),
        (LeastSquares, (SumsTo,), _PAVA_SHIFT),
        (LeastSquares, (NonNegative, SumsTo), _PAVA_BOTH),
        (WeightedLeastSquares, (), _PAVA),
        (WeightedLeastSquares, (NonNegative,), _PAVA_CLIP),
    )
}
_TREES: Table = {
    (loss, frozenset({Hierarchy, *others})): form
    for loss in (LeastSquares, WeightedLeastSquares)
    for others, form in (
        ((), ClosedForm("two passes", _consistent)),
        (
            (NonNegative,),
            ClosedForm(
                "two passes a round",
                _consistent,
                lambda p, _: (_of(p, Hierarchy).root_total or 0.0) >= 0,
            ),
        ),
    )
}

CLOSED_FORMS: Table = {
    (LeastSquares, frozenset()): ClosedForm("base", lambda e, p: _target(e, p).copy()),
    (LeastSquares, frozenset({NonNegative})): ClosedForm(
        "base-pos", lambda e, p: closed_form.base_pos(_target(e, p))
    ),
    (LeastSquares, frozenset({SumsTo})): ClosedForm(
        "norm", lambda e, p: closed_form.norm(_target(e, p), _total(p))
    ),
    (LeastSquares, frozenset({NonNegative, SumsTo})): ClosedForm(
        "norm-sub", lambda e, p: closed_form.norm_sub(_target(e, p), _total(p))
    ),
    **_ORDERS,
    **_TREES,
    (LeastSquares, frozenset({GroupTotals, NonNegative})): ClosedForm(
        "norm-sub by group", _grouped, _groups_apart
    ),
    (LeastSquares, frozenset({GroupTotals, NonNegative, SumsTo})): ClosedForm(
        "norm-sub by group", _grouped, _groups_apart
    ),
    (LeastSquares, frozenset({AtMost, NonNegative, SumsTo})): ClosedForm(
        "norm-sub of the k largest",
        lambda e, p: closed_form.at_most(_target(e, p), _of(p, AtMost).k, _total(p)),
    ),
    (GaussianMLE, frozenset()): _IDENTITY,
    (GaussianMLE, frozenset({NonNegative})): _CLIP,
    (GaussianMLE, frozenset({NonNegative, SumsTo})): ClosedForm(
        "mle-apx",
        lambda e, p: closed_form.mle_apx(e.frequencies, e.noise.kappa, _total(p)),
        lambda p, e: e.noise.is_common and 1 + e.noise.kappa * _total(p) > 0,
    ),
    (MultinomialMLE, frozenset({NonNegative, SumsTo})): ClosedForm(
        "water-filling",
        lambda e, p: closed_form.water_filling(MultinomialMLE.shares(e), _floor(e), _total(p)),
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
    form = None
    if len(set(single)) == len(single):
        form = CLOSED_FORMS.get((loss.family, frozenset(kinds)))
    if form is None or (form.applies is not None and not form.applies(problem, estimate)):
        form = _on_box(problem, estimate)
    return (
        replace(form, name=f"{form.name} of {loss.solved_for}")
        if form and loss.solved_for
        else form
    )


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
    if (support := loss.support(estimate)) is not None:
        _check_support(loss, support, lower, upper, problem.total)
    constants = loss.constants(estimate)
    upper = np.minimum(
        upper, (1 - 1e-9) * loss.domain(constants)[1]
    )  # the gradient is finite short of the end
    data = tuple(
        np.broadcast_to(x, estimate.frequencies.shape).reshape(-1, d) for x in loss.data(estimate)
    )

    def minimiser(mu: Array, trials: NDArray[np.intp]) -> Array:
        found = loss.response(mu, tuple(x[trials] for x in data), constants)
        assert found is not None  # closed_form() asks for a response
        return np.clip(found, lower, upper, out=found)

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
    # Where a slope is infinite at the bound, as a logarithm's is, no multiplier beyond this changes a double any more.
    low, high = (
        np.nan_to_num(x, posinf=_STEEPEST, neginf=-_STEEPEST)
        for x in (-slope_high.max(-1), -slope_low.min(-1))
    )
    bracket = low, high
    return closed_form.one_root(minimiser, bracket, (lower, upper), problem.total).reshape(shape)


def _check_support(
    loss: Loss, support: NDArray[np.bool_], lower: Array, upper: Array, total: float | None
) -> None:
    """Raise an error if bounds and total ask for values that the loss keeps at zero."""
    forced = ~support & (lower > 0)
    if forced.any():
        *trial, v = validate.first(forced)
        bound = f"f[{v}] = {lower[v]:g}" if lower[v] == upper[v] else f"{lower[v]:g} <= f[{v}]"
        where = f" in trial {', '.join(str(int(i)) for i in trial)}" if trial else ""
        raise InfeasibleError(
            f"no vector satisfies the constraints{where}; these conflict: f[{v}] = 0, else {loss!r} is infinite; {bound}"
        )
    most = np.sum(np.where(support, upper, 0.0), axis=-1)
    if total is not None and np.any(most < total):
        raise InfeasibleError(
            f"no vector satisfies the constraints: {loss!r} keeps values at zero, and the bounds of the others let the sum be at "
            f"most {float(np.min(most)):g}, not {total:g}"
        )
