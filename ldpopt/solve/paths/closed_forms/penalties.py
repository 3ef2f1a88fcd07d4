"""Squared distances that are added, and a price beside them: reduced to least squares alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GroupNorm, L1To, LeastSquares, Loss
from ldpopt.solve.formulation import Formulation, Region
from ldpopt.solve.paths.closed_forms.lookup import closed_form_for
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family

Array = NDArray[np.float64]


class _Squares(NamedTuple):
    """Σ weight · ½ ‖f - target‖² of all squares together, and what stands beside them."""

    terms: list[tuple[float, LeastSquares]]
    weight: float
    others: list[tuple[float, Loss]]

    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return the one point from which the same distance differs by a constant alone."""
        parts = [weight * term.target(estimate) for weight, term in self.terms]
        return np.asarray(sum(parts) / self.weight)


def _squares_of(loss: Loss) -> _Squares | None:
    """Return the squares of a sum; None where there is no sum, or no square in it."""
    leaves = list(loss.leaves())
    if leaves[0][1] is loss:
        return None
    squares = []
    others = []
    for weight, term in leaves:
        if weight == 0:
            continue
        # By the family: a posterior mean, say, is the point that another square starts from.
        if term.family is LeastSquares:
            squares.append((weight, cast("LeastSquares", term)))
        else:
            others.append((weight, term))
    if not squares:
        return None
    return _Squares(squares, sum(weight for weight, _ in squares), others)


@solves_family
def added_squares(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the form of least squares from the mean of several targets."""
    squares = _squares_of(formulation.loss)
    if squares is None or squares.others:
        return None
    return _from_target(formulation, estimate, lambda: squares.target(estimate))


@solves_family
def _with_variation(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the fused lasso from the mean of several targets, and least squares from there.

    With a single square it is the form of ``variation``.
    """
    squares = _squares_of(formulation.loss)
    if squares is None or len(squares.terms) < 2 or len(squares.others) != 1:
        return None
    ((price, term),) = squares.others
    region = formulation.region(estimate.d)
    chain = term.priced_chain
    if chain is None or not _treats_values_alike(region):
        return None

    def target() -> Array:
        smooth = np.array(squares.target(estimate))
        smooth[..., chain] = closed_form.fused(smooth[..., chain], price / squares.weight)
        return smooth

    match = _from_target(formulation, estimate, target)
    return None if match is None else match._replace(name=f"fused lasso, {match.name}")


def _treats_values_alike(region: Region) -> bool:
    """Return whether the constraints are one interval for all values, and at most one total."""
    ends = (region.lower, region.upper)
    return region.is_box and all((end == end[0]).all() for end in ends)


def _from_target(
    formulation: Formulation,
    estimate: FrequencyEstimate,
    target: Callable[[], Array],
) -> Match | None:
    """Return the form of plain least squares under the same constraints, from another point."""
    plain = formulation.with_loss(LeastSquares())
    match = closed_form_for(plain, estimate)
    if match is None:
        return None

    def evaluate() -> Array:
        # What the form is called may depend on the constraints, but not on the point.
        moved = closed_form_for(plain, estimate.processed(target()))
        assert moved is not None
        return moved.evaluate()

    return match._replace(evaluate=evaluate)


@solves_family
def squares_and_penalty(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the form of squares and one penalty that has a form beside them."""
    squares = _squares_of(formulation.loss)
    if squares is None or len(squares.others) != 1:
        return None
    ((price, term),) = squares.others
    form = _BESIDE_SQUARES.get(type(term))
    if form is None:
        return None
    region = formulation.region(estimate.d)
    return form(term, price / squares.weight, lambda: squares.target(estimate), region)


def _towards_reference(
    term: L1To, price: float, target: Callable[[], Array], region: Region
) -> Match | None:
    """Return the form of deviations from a reference, with f >= 0 and a total.

    The root of one multiplier solves it too, on any bounds; ``balls`` asks for this one first.
    """
    is_nonnegative = region.is_box and region.lower_is_zero and not region.upper_count
    total = region.total
    if term.weights is not None or not is_nonnegative or total is None or total <= 0:
        return None
    # Last, since it is a pass over the reference.
    if term.reference.min() < 0:
        return None

    def evaluate() -> Array:
        return closed_form.towards_reference(target(), term.reference, price, total)

    return Match("norm-sub towards a reference", evaluate)


def _with_group_norms(
    term: GroupNorm, price: float, target: Callable[[], Array], region: Region
) -> Match | None:
    """Return the root of one multiplier, at which every group shrinks on its own."""
    if term.overlaps or region.upper_count:
        return None
    is_free = region.lower_count == 0
    if not (region.is_box and (is_free or region.lower_is_zero)):
        return None

    def evaluate() -> Array:
        return closed_form.group_norms(
            target(), term.groups, price * term.weights, region.total, nonnegative=not is_free
        )

    return Match("group shrinkage", evaluate)


_Form = Callable[[Any, float, Callable[[], Array], Region], Match | None]

_BESIDE_SQUARES: Mapping[type[Loss], _Form] = {
    L1To: _towards_reference,
    GroupNorm: _with_group_norms,
}
"""The forms of a penalty at a price beside one square, by the penalty.

From the penalty, its price per unit of squares, what returns the target of these, and the region.
"""
