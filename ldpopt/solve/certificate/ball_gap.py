"""Gaps in a ball around a reference, from multipliers at hand and with all rounding charged.

Let ‖s - r‖ <= R in the 1-norm or the 2-norm. For any vector n, with the dual norm ‖n‖*,

    n·(s - f) <= ‖n‖* R - n·(f - r)

for all s of the ball, so that for any μ >= 0

    L(f) - L(s) <= [L(f) + μ n·f - L(s) - μ n·s] + μ (‖n‖* R - n·(f - r)).

The bracket is the rise of a loss with another slope on what is left of the set, which ``box``
bounds. At a minimum n is the direction of f - r, of the 1-norm its signs, and least squares over
the values between their bounds finds μ. Both are only chosen: any choice proves something. Weights
w of the 1-norm's deviations multiply the signs, and ‖n‖* is the largest |n_v|/w_v.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints import Near
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.box import Model, applies
from ldpopt.solve.certificate.dual import EPS, usable
from ldpopt.solve.certificate.evidence import SizedGap
from ldpopt.solve.certificate.minorant import KinkedLoss, Minorant, MixedLoss, Tangent
from ldpopt.solve.certificate.parts import absolute_sum
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# Differences that count as none, relative to the largest value.
_NEARNESS = (1e-12, 1e-9, 1e-7, 1e-5)

# The norms for which any vector has a bound.
_NORMS = (1, 2)


def ball_gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for sets that are not a box and one ball.

    Parameters
    ----------
    formulation
        A convex loss under bounds, at most one total, and one ball in the 1-norm or the 2-norm.
    start
        The estimate.
    point
        f, of the estimate's shape.
    """
    balls = [part for part in formulation.constraints if isinstance(part, Near)]
    rest = tuple(part for part in formulation.constraints if not isinstance(part, Near))
    if len(balls) != 1 or balls[0].norm not in _NORMS or not formulation.loss.convex:
        return None
    around = Formulation(formulation.loss, rest)
    if not applies(around, start.d):
        return None
    model = Model.of(around, start, point)
    tangent = _mixed(model.tangent)
    if tangent.smooth.held is not None or not np.isfinite(tangent.slope).all():
        return None
    weight = np.maximum(np.minimum(point - model.bounds.lower, model.bounds.upper - point), 0.0)
    weight = np.where(np.isinf(weight), 1.0, weight)
    gap: Array | None = None
    for near in _NEARNESS:
        normal, mu = _multiplier(tangent, balls[0], weight, near, has_total=model.total is not None)
        mu = usable(mu)
        turned = model._replace(tangent=_turned(tangent, mu[..., None] * normal))
        with np.errstate(invalid="ignore", over="ignore"):
            rise = turned.bound().gap
            paid = mu * _slack(balls[0], normal, point)
            # Outside the ball the second may be negative: each is rounded on its own.
            proved = np.maximum(rise + paid + 4 * EPS * (rise + np.abs(paid)), 0.0)
        gap = proved if gap is None else np.fmin(gap, proved)
    assert gap is not None
    gap = np.where(np.isnan(gap), np.inf, gap)
    return SizedGap(gap, absolute_sum(tangent.slope, point))


def _mixed(tangent: Minorant) -> MixedLoss:
    """Return any minorant as a smooth part and parts with kinks."""
    if isinstance(tangent, MixedLoss):
        return tangent
    if isinstance(tangent, Tangent):
        return MixedLoss(tangent.f, tangent.slope, tangent, (), None)
    assert isinstance(tangent, KinkedLoss)
    nothing = Tangent(tangent.f, np.zeros(tangent.f.shape), 0.0, np.zeros(1), np.zeros(1), None)
    return MixedLoss(tangent.f, tangent.slope, nothing, (tangent,), None)


def _turned(tangent: MixedLoss, further: Array) -> Minorant:
    """Return the loss with a linear function beside it, whose slope is rounded."""
    smooth = tangent.smooth
    slope = smooth.slope + further
    error = smooth.error + 2 * EPS * (np.abs(slope) + np.abs(further))
    smooth = replace(smooth, slope=slope, roundings=0.0, further_error=error)
    if not tangent.kinked and not tangent.shared_kinks:
        return smooth
    return replace(tangent, slope=tangent.slope + further, smooth=smooth)


def _multiplier(
    tangent: MixedLoss, ball: Near, weight: Array, near: float, *, has_total: bool
) -> tuple[Array, Array]:
    """Return n, and the μ that makes slopes equal, or 0 without a total, by least squares."""
    away = tangent.f - ball.reference
    reach = near * np.max(np.abs(tangent.f), axis=-1, keepdims=True)
    is_equal = np.abs(away) <= reach
    weights = 1.0 if ball.weights is None else ball.weights
    if ball.norm == 1:
        normal = np.where(is_equal, 0.0, weights * np.sign(away))
    else:
        length = np.linalg.norm(away, axis=-1, keepdims=True)
        normal = away / np.where(length > 0, length, 1.0)
    slope, is_settled = tangent.settled(near * float(np.max(np.abs(tangent.f))))
    if ball.norm == 1:
        is_settled = is_settled & ~is_equal
    counted = np.where(is_settled, weight, 0.0)
    slope = tangent.averaged(slope, counted, near)
    of_normal = tangent.averaged(normal, counted, near)
    mass = np.maximum(counted.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    level = (counted * slope).sum(axis=-1, keepdims=True) / mass if has_total else np.zeros(1)
    middle = (counted * of_normal).sum(axis=-1, keepdims=True) / mass if has_total else np.zeros(1)
    turned = of_normal - middle
    along = (counted * turned * (slope - level)).sum(axis=-1)
    squares = (counted * turned**2).sum(axis=-1)
    mu = usable(np.maximum(-along, 0.0) / np.where(squares > 0, squares, 1.0))
    if ball.norm == 1:
        # Where f is r, any number between -w and w is a slope of the norm: that which is missing.
        wanted = (level + mu[..., None] * middle - slope) / np.where(mu > 0, mu, 1.0)[..., None]
        normal = np.where(is_equal, np.clip(wanted, -weights, weights), normal)
    return normal, mu


def _slack(ball: Near, normal: Array, f: Array) -> Array:
    """Return an upper bound of n·(s - f) for all s of the ball, whatever n is."""
    away = f - ball.reference
    products = normal * away
    if ball.norm == 1:
        weights = 1.0 if ball.weights is None else ball.weights
        size = np.max(np.abs(normal) / weights, axis=-1)
    else:
        size = np.sqrt(np.sum(normal**2, axis=-1))
    terms = f.shape[-1] + 8
    # f - r, the products, their sum and the norm are rounded.
    error = terms * EPS * (size * ball.radius + np.sum(np.abs(products), axis=-1))
    error = error + 2 * EPS * np.sum(np.abs(normal) * (np.abs(f) + np.abs(ball.reference)), axis=-1)
    return np.asarray(size * ball.radius - np.sum(products, axis=-1) + error)
