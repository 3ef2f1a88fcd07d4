"""Gaps in a ball around a reference, from multipliers at hand and with all rounding charged.

Any vector n has a bound of n·(s - f) for all s of a ball, its slack (``normals``), so that for any
μ >= 0

    L(f) - L(s) <= [L(f) + μ n·f - L(s) - μ n·s] + μ slack.

The bracket is the rise of a loss with another slope on what is left of the set, which ``box``
bounds. At a minimum n is the normal of the ball at f, and least squares over the values between
their bounds finds μ. Both are only chosen: any choice proves something.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints.base import Ball
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.box import Model, applies
from ldpopt.solve.certificate.dual import EPS, usable
from ldpopt.solve.certificate.evidence import SizedGap
from ldpopt.solve.certificate.minorant import KinkedLoss, Minorant, MixedLoss, Tangent
from ldpopt.solve.certificate.normals import normal_of, one_ball, slack
from ldpopt.solve.certificate.parts import absolute_sum
from ldpopt.solve.certificate.total_prices import distances, negligible
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]


def ball_gap(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    enough: Array | float = 0.0,
) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for sets that are not a box and one ball.

    Parameters
    ----------
    formulation
        A convex loss under bounds, at most one total, and one ball in the 1-norm, the 2-norm or the
        divergence.
    start
        The estimate.
    point
        f, of the estimate's shape.
    enough
        A gap at which no other multipliers are tried.
    """
    parts = one_ball(formulation)
    if parts is None or not formulation.loss.convex:
        return None
    ball, around = parts
    if not applies(around, start.d):
        return None
    model = Model.of(around, start, point)
    tangent = _mixed(model.tangent)
    if tangent.smooth.held is not None or not np.isfinite(tangent.slope).all():
        return None
    terms = absolute_sum(tangent.slope, point)
    gap = np.full(terms.shape, np.inf)
    limit = negligible(start.d)
    for near in distances(enough):
        proved, rounding = _gap_at(near, model, tangent, ball, enough)
        gap = np.fmin(gap, proved)
        # What rounding adds to a gap it adds at any other multiplier near this one.
        if np.all(gap <= np.maximum(limit * terms + 2 * rounding, enough)):
            break
    return SizedGap(gap, terms)


def _gap_at(
    near: float, model: Model, tangent: MixedLoss, ball: Ball, enough: Array | float
) -> tuple[Array, Array]:
    """Return the gap that the multipliers prove, and what in it pays for rounding of the ball.

    Kinks within ``near`` count.
    """
    point = tangent.f
    down = point - model.bounds.lower
    up = model.bounds.upper - point
    weight = np.maximum(np.minimum(down, up), 0.0)
    weight = np.where(np.isinf(weight), 1.0, weight)
    normal, mu = _multiplier(tangent, ball, weight, near, has_total=model.total is not None)
    mu = usable(mu)
    turned = model._replace(tangent=_turned(tangent, mu[..., None] * normal))
    with np.errstate(invalid="ignore", over="ignore"):
        rise = turned.bound(enough).gap
        of_ball = slack(ball, normal, point)
        paid = mu * of_ball.bound
        # Outside the ball the second may be negative: each is rounded on its own.
        proved = np.maximum(rise + paid + 4 * EPS * (rise + np.abs(paid)), 0.0)
    # NaN, of multipliers that are not finite, proves nothing.
    gap = np.where(np.isnan(proved), np.inf, proved)
    return gap, usable(mu * of_ball.rounding)


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
    tangent: MixedLoss, ball: Ball, weight: Array, near: float, *, has_total: bool
) -> tuple[Array, Array]:
    """Return n, and the μ that makes slopes equal, or 0 without a total, by least squares."""
    largest = np.max(np.abs(tangent.f), axis=-1, keepdims=True)
    normal = normal_of(ball, tangent.f, near * largest)
    slope, is_settled = tangent.settled(near * float(largest.max()))
    counted = np.where(is_settled & ~normal.is_open, weight, 0.0)
    slope = tangent.averaged(slope, counted, near)
    of_normal = tangent.averaged(normal.vector, counted, near)
    level: Array = np.zeros(1)
    middle: Array = np.zeros(1)
    if has_total:
        mass = np.maximum(counted.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
        level = (counted * slope).sum(axis=-1, keepdims=True) / mass
        middle = (counted * of_normal).sum(axis=-1, keepdims=True) / mass
    turned = of_normal - middle
    along = (counted * turned * (slope - level)).sum(axis=-1)
    squares = (counted * turned**2).sum(axis=-1)
    mu = usable(np.maximum(-along, 0.0) / np.where(squares > 0, squares, 1.0))
    # Where n is open it takes what the slope misses.
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = (level + mu[..., None] * middle - slope) / np.where(mu > 0, mu, 1.0)[..., None]
    return normal.with_open(wanted), mu
