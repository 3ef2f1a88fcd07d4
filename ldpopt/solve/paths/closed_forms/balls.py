"""A ball around a reference beside other constraints: the root of its multiplier.

min L(f) with f in C and D(f) <= ρ is min L(f) + λ D(f) with f in C for some λ >= 0: the smallest at
which D(f) <= ρ. The larger λ, the smaller D; and where L + λ D has a closed form on C, so has the
problem in the ball, at the price of a dozen of them. ``ball_roots`` knows the balls where one look
for both multipliers is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.brackets import End, bracketed_root
from ldpopt.constraints import Constraint
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import KLTo, L1To, LeastSquares, Loss, TotalVariation
from ldpopt.losses.targets import FromReference
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.ball_roots import BallRoots, ball_roots
from ldpopt.solve.paths.closed_forms.lookup import closed_form_for
from ldpopt.solve.paths.closed_forms.one_root import has_own_minima, is_strictly_convex
from ldpopt.solve.paths.closed_forms.penalties import added_squares, squares_and_penalty
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family
from ldpopt.solve.paths.closed_forms.variation import smoothed

Array = NDArray[np.float64]

# Rounding may leave the first multiplier too small: how often it is doubled.
_DOUBLINGS = 20

# Of the limit, by which the distance may stay below it: the gap is the multiplier times this.
_SLACK = 1e-13

_EPS = float(np.finfo(np.float64).eps)


class _SquaresTo(FromReference, LeastSquares):
    """½ ‖f - r‖² with a reference r."""

    @property
    def family(self) -> type[LeastSquares]:
        """Least squares: the reference takes the place of f̃."""
        return LeastSquares


class _Ball(NamedTuple):
    """A ball as a loss that is at most a limit."""

    distance: Loss
    limit: float


def _ball_of(constraint: Constraint, total: float | None) -> _Ball | None:
    """Return a constraint as a ball, None if it is no ball, or one that needs a total."""
    return _kept_ball(constraint, total) if constraint.is_settled else _as_ball(constraint, total)


@lru_cache(maxsize=4)
def _kept_ball(constraint: Constraint, total: float | None) -> _Ball | None:
    # Every solve asks for it, and a loss checks and copies its reference.
    return _as_ball(constraint, total)


def _as_ball(constraint: Constraint, total: float | None) -> _Ball | None:
    variation = constraint.variation
    # With a bound of 0 the multiplier would be infinite.
    if variation is not None and variation.bound:
        return _Ball(TotalVariation(variation.order), variation.bound)
    ball = constraint.ball
    if ball is None:
        return None
    reference = ball.reference
    radius = ball.radius
    if ball.norm == 1:
        return _Ball(L1To(reference, ball.weights), radius)
    if ball.norm == 2:
        # A power that is too large for a double would be an error, a product is infinite.
        return _Ball(_SquaresTo(reference), radius * radius / 2)
    # The divergence of the constraint has the term Σ r - Σ f too, which a total fixes.
    if total is not None and reference.any():
        return _Ball(KLTo(reference), radius + total - ball.size)
    return None


@solves_family
def _in_ball(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the form on the set without its only ball, at the multiplier of the ball."""
    if not is_strictly_convex(formulation.loss):
        return None
    total = formulation.region(estimate.d).total
    balls = [(one, _ball_of(one, total)) for one in formulation.constraints]
    stated = [(one, ball) for one, ball in balls if ball is not None]
    if len(stated) != 1:
        return None
    ((constraint, ball),) = stated
    others = tuple(one for one in formulation.constraints if one is not constraint)
    rest = formulation.under(others)
    # The search begins at the minimum without the ball.
    if total is None and not has_own_minima(rest, estimate):
        return None
    at_once = ball_roots(rest, constraint, estimate.d)
    search = _Search(formulation.loss, ball, rest, at_once)
    inside = search.form_at(estimate, 1.0)
    outside = search.form_at(estimate, 0.0)
    if inside is None or outside is None or not search.knows_the_nearest(estimate):
        return None
    name = inside.name if at_once is None else at_once.name
    return Match(f"ball, {name}", lambda: search.solve(estimate), may_miss=True)


class _Search(NamedTuple):
    """The search for the multiplier of a ball."""

    loss: Loss
    ball: _Ball
    others: Formulation
    at_once: BallRoots | None

    def form_at(self, estimate: FrequencyEstimate, multiplier: float) -> Match | None:
        """Return the closed form of L + λ D without the ball."""
        loss = self.loss
        if multiplier > 0:
            loss = loss + multiplier * self.ball.distance
        problem = self.others.with_loss(loss)
        # These are a sort each, where the root of the sum would take a dozen passes.
        return (
            added_squares(problem, estimate)
            or squares_and_penalty(problem, estimate)
            or closed_form_for(problem, estimate)
        )

    def solve(self, estimate: FrequencyEstimate) -> Array:
        """Return the minimisers of all trials; the nearest points where a ball is out of reach."""
        result = self._at(estimate, 0.0)
        outside = np.asarray(self._excess(estimate, result) > 0)
        if self.at_once is not None and outside.any():
            points, is_found = self.at_once.solve(estimate[outside])
            result[outside] = points
            outside[outside] = ~is_found
        for trial in np.ndindex(outside.shape):
            if outside[trial]:
                result[trial] = self._solve_trial(estimate[trial])
        return result

    def _at(self, estimate: FrequencyEstimate, multiplier: float) -> Array:
        match = self.form_at(estimate, multiplier)
        assert match is not None  # by the types of loss and constraints, as at another multiplier
        return match.evaluate()

    def _form_of(self, estimate: FrequencyEstimate) -> Callable[[float], Array]:
        """Return the minimiser of one vector as a function of the multiplier."""
        # With a price of its own the loss would not be priced in proportion to the multiplier.
        if self._is_variation and self.loss.smoothing(estimate.d) is None:
            priced = self.others.with_loss(self.loss + self.ball.distance)
            form = smoothed(priced, estimate)
            # One form for all multipliers: to find it takes longer than to evaluate it.
            if form is not None:
                return form.at
        return lambda multiplier: self._at(estimate, multiplier)

    @property
    def _is_variation(self) -> bool:
        return self.ball.distance.priced_chain is not None

    def _excess(self, estimate: FrequencyEstimate, f: Array) -> Array:
        return self.ball.distance.value(f, estimate) - self.ball.limit

    def knows_the_nearest(self, estimate: FrequencyEstimate) -> bool:
        """Return whether there is a form for the other constraints' deepest point in the ball."""
        if self._is_variation:
            return True
        return closed_form_for(self.others.with_loss(self.ball.distance), estimate) is not None

    def _deepest(self, estimate: FrequencyEstimate, start: Array) -> Array:
        """Return that point; ``start`` satisfies the other constraints."""
        if self._is_variation:
            # All values are treated alike there, so that they may all be their mean.
            return np.full(start.shape, start.mean())
        match = closed_form_for(self.others.with_loss(self.ball.distance), estimate)
        assert match is not None  # knows_the_nearest
        return match.evaluate()

    def _solve_trial(self, estimate: FrequencyEstimate) -> Array:
        """Return the minimiser of one vector, at the smallest multiplier that is large enough.

        The minimum as a function of the limit is convex, and its slope is minus the multiplier: no
        steeper than what L rises by, from its own minimum to the deepest point, over the depth of
        that.
        """
        start = self._at(estimate, 0.0)
        low = _Place(0.0, float(self._excess(estimate, start)), start)
        deepest = self._deepest(estimate, start)
        depth = -float(self._excess(estimate, deepest))
        # A single point is left, or none: its violation is for the caller to judge.
        if depth <= 0:
            return deepest
        rise = float(self.loss.value(deepest, estimate) - self.loss.value(start, estimate))
        multiplier = max(rise / depth, _EPS) if np.isfinite(rise) else 1.0
        form = self._form_of(estimate)
        place = self._place(estimate, form, multiplier)
        for _ in range(_DOUBLINGS):
            if place.excess <= 0:
                break
            low = place
            place = self._place(estimate, form, 2 * place.multiplier)
        if place.excess > 0:
            return place.point
        inside = place
        slack = _SLACK * abs(self.ball.limit)

        def excess(multiplier: float) -> float:
            nonlocal inside
            looked_at = self._place(estimate, form, multiplier)
            # The search only narrows: what is inside later is nearer to the edge.
            if looked_at.excess <= 0:
                inside = looked_at
            return looked_at.excess

        ends = (End(place.multiplier, place.excess), End(low.multiplier, low.excess))
        bracketed_root(excess, ends, lambda value: -slack <= value <= 0)
        return inside.point

    def _place(
        self, estimate: FrequencyEstimate, form: Callable[[float], Array], multiplier: float
    ) -> _Place:
        point = form(multiplier)
        return _Place(multiplier, float(self._excess(estimate, point)), point)


class _Place(NamedTuple):
    """A multiplier, its minimiser, and how far that is outside the ball."""

    multiplier: float
    excess: float
    point: Array
