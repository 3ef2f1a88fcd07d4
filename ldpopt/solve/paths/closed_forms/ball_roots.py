"""Balls around a reference whose multipliers are found at once: deviations, and the divergence.

*Deviations.* Write f = r + p - n with 0 <= p <= u - r and 0 <= n <= r - l. Total and radius fix
Σ p - Σ n and Σ p + Σ n, and so both sums; p and n then have a problem of their own each, the same
loss on a box with a total. Where the ball is needed the price of rising is above that of falling,
so that no value does both.

With weights on the deviations the two sums do not follow from total and radius.

*Squares* with the divergence or weighted deviations: two multipliers, of the total and of the ball,
by Newton's steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.closed_form.rows import locked_rows, locked_vector
from ldpopt.constraints import Bounds, Constraint, SumsTo
from ldpopt.constraints.base import Ball
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.lookup import closed_form_for
from ldpopt.solve.paths.closed_forms.one_root import reachable_bounds

Array = NDArray[np.float64]

# Of the radius, below which the sum of all rises or falls is rounding, and nothing moves.
_ROUNDING = 1e-12
# A radius is taken that much smaller than it is stated: the point then is inside, and the loss
# larger by the price times this.
_SLACK = 1e-13


class BallRoots(NamedTuple):
    """A form for what a ball holds back.

    Attributes
    ----------
    name
        What it is called.
    solve
        From an estimate with one leading axis, whose trials are all outside the ball without it, to
        its minimisers and which of them were found, (trials, d) and (trials,).
    """

    name: str
    solve: Callable[[FrequencyEstimate], tuple[Array, NDArray[np.bool_]]]


def ball_roots(rest: Formulation, constraint: Constraint, d: int) -> BallRoots | None:
    """Return the form for a ball beside a box with a total; None for other problems.

    ``rest`` is the problem without the ball, whose loss is strictly convex.
    """
    ball = constraint.ball
    if ball is None or not rest.is_box(d) or rest.total(d) is None:
        return None
    # A loss that keeps values at zero would keep the halves' values there too, below their bounds.
    separable = rest.loss.separable
    is_plain = ball.norm == 1 and ball.weights is None
    if is_plain and separable is not None and not separable.is_divergence:
        return BallRoots("two roots", lambda estimate: _of_deviations(rest, ball, estimate))
    region = rest.region(d)
    is_nonnegative = not region.lower_count or region.lower_is_zero
    is_square = separable is rest.loss and separable is not None and separable.is_square
    if ball.norm == 1 and is_square:
        return BallRoots("two multipliers", lambda e: _of_weighted_deviations(rest, ball, e))
    if ball.norm == "kl" and is_square and is_nonnegative and not region.upper_count:
        return BallRoots("two multipliers", lambda estimate: _of_divergence(rest, ball, estimate))
    return None


def _of_deviations(
    rest: Formulation, ball: Ball, estimate: FrequencyEstimate
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the minimisers in a ball of the 1-norm."""
    shape = estimate.frequencies.shape
    unsolved = np.zeros(shape), np.zeros(shape[:-1], dtype=np.bool_)
    lower, upper = reachable_bounds(rest, estimate)
    # Outside the box the distance grows with f as it does from the nearest point of the box.
    reference = np.clip(ball.reference, lower, upper)
    radius = ball.radius * (1 - _SLACK) - float(np.abs(ball.reference - reference).sum())
    total = rest.total(estimate.d)
    assert total is not None  # as ball_roots made sure
    of_reference = float(reference.sum())
    rising = (radius + (total - of_reference)) / 2
    falling = (radius - (total - of_reference)) / 2
    # A single point is left, or none.
    if min(rising, falling) < 0:
        return unsolved
    support = rest.loss.support(estimate)
    if support is not None and not support.all():
        return unsolved
    f = np.broadcast_to(reference, shape).copy()
    halves = [
        (rising, np.maximum, (reference, upper), of_reference + rising),
        (falling, np.minimum, (lower, reference), of_reference - falling),
    ]
    for amount, further, box, sum_of_half in halves:
        if amount > _ROUNDING * max(radius, abs(of_reference)):
            half = Formulation(rest.loss, (Bounds(*box), SumsTo(sum_of_half)))
            match = closed_form_for(half, estimate)
            if match is None:
                return unsolved
            moved = match.evaluate()
            # Nothing both rises and falls: what has not moved keeps the other half's value.
            f = np.where(further(moved, reference) != reference, moved, f)
    return f, np.ones(shape[:-1], dtype=np.bool_)


def _of_weighted_deviations(
    rest: Formulation, ball: Ball, estimate: FrequencyEstimate
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the minimisers of squares in a ball of weighted deviations."""
    from ldpopt.closed_form.ball_kernels import deviation_rows  # imports numba

    separable = rest.loss.separable
    total = rest.total(estimate.d)
    costs = ball.weights
    assert separable is not None
    assert total is not None
    assert costs is not None  # ball_roots
    lower, upper = reachable_bounds(rest, estimate)
    # As in _of_deviations: up to the box the distance is there for every point.
    reference = np.clip(ball.reference, lower, upper)
    radius = ball.radius * (1 - _SLACK) - float(costs @ np.abs(ball.reference - reference))
    deepest = closed_form.weighted_deviations(reference, costs, lower, upper, total)
    rows = locked_rows(np.asarray(rest.loss.data(estimate)[0]))
    result = np.zeros(rows.shape)
    # A single point is left, or none.
    if not radius > float(costs @ np.abs(deepest - reference)):
        return result, np.zeros(len(rows), dtype=np.bool_)
    given = (separable.square_weights, reference, costs, lower, upper)
    weights, reference, costs, lower, upper = (
        locked_vector(np.broadcast_to(one, rows.shape[-1:])) for one in given
    )
    is_solved = deviation_rows(rows, weights, reference, costs, lower, upper, total, radius, result)
    return result, is_solved


def _of_divergence(
    rest: Formulation, ball: Ball, estimate: FrequencyEstimate
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the minimisers of squares in a ball of the divergence."""
    from ldpopt.closed_form.ball_kernels import divergence_rows  # imports numba

    loss = rest.loss
    separable = loss.separable
    total = rest.total(estimate.d)
    assert separable is not None
    assert total is not None
    held = ball.size
    radius = ball.radius * (1 - _SLACK)
    rows = locked_rows(np.asarray(loss.data(estimate)[0]))
    result = np.zeros(rows.shape)
    # The nearest vector with the total is in proportion to the reference.
    nearest = total * np.log(total / held) - total + held if total > 0 < held else np.inf
    if not radius > nearest:
        return result, np.zeros(len(rows), dtype=np.bool_)
    weights = locked_vector(np.broadcast_to(separable.square_weights, rows.shape[-1:]))
    reference = locked_vector(ball.reference)
    is_solved = divergence_rows(rows, weights, reference, total, radius, result)
    return result, is_solved
