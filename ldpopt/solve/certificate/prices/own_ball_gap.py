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
from ldpopt.solve.certificate.prices.normals import one_ball
from ldpopt.solve.certificate.prices.own_slopes import (
    NEARER,
    Proved,
    Surroundings,
    best_beside,
)
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]


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
    beside = best_beside(around, case.model.limits, partial(_prove, case), enough)
    gap = np.inf if beside is None else beside.gap
    return gap, float(absolute_sum(gradient, f))


def _prove(case: Case, tangent: Tangent, _: Tangent, enough: float) -> Proved:
    """Return what the multipliers at hand prove of a tangent."""
    turned = Case(case.ball, case.model._replace(tangent=tangent), mixed(tangent))
    best: Proof | None = None
    for near in distances(max(enough, 0.0)):
        proof = proof_at(near, turned, max(enough, 0.0))
        if best is None or proof.gap < best.gap:
            best = proof
        # A 2-norm has no kinks that could be nearer or farther.
        if best.gap <= enough or case.ball.norm == 2:
            break
    assert best is not None
    of_total = 0.0 if case.model.total is None else best.of_total
    price = -(best.mu * best.normal + of_total)
    # The price of the ball stays while the next tangent is looked for: that of the total follows.
    count = 0 if case.model.total is None else 1
    held = sparse.csr_array(np.ones((count, len(price))))
    return Proved(float(best.gap), best, np.asarray(price), held)
