"""Gaps of losses that users state in a ball, by tangents beside the point and without a program.

``own_slopes`` looks for a tangent, and ``ball_gap`` knows what the multipliers at hand prove of it.
Both state a theorem for any choice; here they choose for each other.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ldpopt.closed_form.parts import absolute_sum
from ldpopt.constraints.base import Ball
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.bounds.competitors import domain_of_all, reach, stated
from ldpopt.solve.certificate.bounds.evidence import Explanation, SizedGap
from ldpopt.solve.certificate.bounds.minorant import Tangent
from ldpopt.solve.certificate.box.box import Model
from ldpopt.solve.certificate.box.total_prices import distances
from ldpopt.solve.certificate.prices.ball_gap import (
    Case,
    Proof,
    best_explanation,
    mixed,
    proof_at,
)
from ldpopt.solve.certificate.prices.normals import normal_of, one_ball, slack
from ldpopt.solve.certificate.prices.own_slopes import (
    NEARER,
    Proved,
    Surroundings,
    best_beside,
)
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# A point that is farther from the boundary, relative to the radius, has no price for the ball: with
# one it would pay for the way to the boundary.
_FAR = 1e-3


def own_ball_gap(
    formulation: Formulation, start: FrequencyEstimate, point: Array, sufficient: float
) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for other sets, and where no gradient is known.

    Parameters
    ----------
    formulation
        A convex loss that knows its gradient with its error, under bounds, at most one total, and
        one ball in the 1-norm, the 2-norm or the divergence.
    start
        The estimate.
    point
        f, of the estimate's shape.
    sufficient
        The search ends well below this gap, relative to the size of the loss.
    """
    gap = np.empty(point.shape[:-1])
    terms = np.empty(point.shape[:-1])
    for trial in np.ndindex(gap.shape):
        of_trial = _gap_of(formulation, start[trial], point[trial], sufficient)
        if of_trial is None:
            return None
        gap[trial], terms[trial] = of_trial
    return SizedGap(gap, terms)


def own_ball_explanation(
    formulation: Formulation, start: FrequencyEstimate, point: Array
) -> Explanation | None:
    """Return the multipliers at hand of one point; None for stacks and where the gap is None."""
    if point.ndim > 1:
        return None
    around = _surroundings(formulation, start, point)
    if around is None:
        return None
    here = around.here
    tangent = Tangent(point, here.gradient, 0.0, here.gradient_error, np.zeros(1), None)
    return best_explanation(_case_of(formulation, start, tangent))


def _surroundings(
    formulation: Formulation, start: FrequencyEstimate, f: Array
) -> Surroundings | None:
    """Return the loss around one point; None for other sets, and where no gradient is known."""
    parts = one_ball(formulation)
    if parts is None or not formulation.loss.convex or not parts[1].is_box(start.d):
        return None
    return Surroundings.of(formulation.loss, start, f)


def _case_of(formulation: Formulation, start: FrequencyEstimate, tangent: Tangent) -> Case:
    """Return the ball, and what is around it, with a tangent in place of the loss."""
    parts = one_ball(formulation)
    assert parts is not None
    ball, around = parts
    region = around.region(start.d)
    limits = reach(formulation.loss, start, region)
    bounds = stated(region, tangent.f, domain_of_all(formulation, start))
    model = Model(tangent, limits, bounds, region.total, np.zeros(()))
    return Case(ball, model, mixed(tangent))


def _gap_of(
    formulation: Formulation, start: FrequencyEstimate, f: Array, sufficient: float
) -> tuple[float, float] | None:
    """Return the gap of one point, and Σ |g_v f_v|."""
    around = _surroundings(formulation, start, f)
    if around is None:
        return None
    gradient = around.here.gradient
    case = _case_of(formulation, start, Tangent(f, gradient, 0.0, np.zeros(1), np.zeros(1), None))
    enough = NEARER * sufficient * around.size
    case = case._replace(has_price=_is_near(case))
    beside = best_beside(around, case.model.limits, partial(_prove, case), enough)
    gap = np.inf if beside is None else beside.gap
    return gap, float(absolute_sum(gradient, f))


def _is_near(case: Case) -> bool:
    """Return whether a point is so near the boundary of the ball that a price of it may prove."""
    f = case.tangent.f
    normal = normal_of(case.ball, f, 0.0)
    with np.errstate(all="ignore"):
        left = float(slack(case.ball, normal.vector, f).bound)
    return not left > _FAR * case.ball.radius


def _prove(case: Case, tangent: Tangent, at: Array, enough: float) -> Proved:
    """Return what the multipliers at hand prove of a tangent, with the normal where it is from.

    There both are those of one point, which steps lead to the minimum: what is left at f is of
    second order in its distance.
    """
    ball = case.ball
    model = case.model._replace(tangent=tangent)
    turned = case._replace(model=model, tangent=mixed(tangent), at=at)
    best: Proof | None = None
    for near in distances(max(enough, 0.0)):
        proof = proof_at(near, turned, max(enough, 0.0))
        if best is None or proof.gap < best.gap:
            best = proof
        # A 2-norm has no kinks that could be nearer or farther.
        if best.gap <= enough or ball.norm == 2:
            break
    assert best is not None
    of_total = 0.0 if model.total is None else best.of_total
    price = -(best.mu * best.normal + of_total)
    # The price of the ball stays while the next tangent is looked for: that of the total follows.
    count = 0 if model.total is None else 1
    held = sparse.csr_array(np.ones((count, len(price))))
    bend = best.mu * _bend(ball, at)
    return Proved(float(best.gap), best, np.asarray(price), held, bend)


def _bend(ball: Ball, at: Array) -> Array | float:
    """Return about the derivatives of the normal by each value."""
    if ball.norm == 2:
        length = float(np.linalg.norm(at - ball.reference))
        return 1 / length if length > 0 else 0.0
    if ball.norm == "kl":
        return np.where(at > 0, 1 / np.where(at > 0, at, 1.0), 0.0)
    return 0.0
