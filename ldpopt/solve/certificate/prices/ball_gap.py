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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum
from ldpopt.constraints.base import Ball
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.bounds.competitors import domain_of_all, stated
from ldpopt.solve.certificate.bounds.dual import EPS, usable
from ldpopt.solve.certificate.bounds.evidence import Explanation, SizedGap
from ldpopt.solve.certificate.bounds.minorant import KinkedLoss, Minorant, MixedLoss, Tangent
from ldpopt.solve.certificate.box.box import Model, applies
from ldpopt.solve.certificate.box.total_prices import distances, gains_nothing, negligible
from ldpopt.solve.certificate.prices.normals import normal_of, one_ball, slack
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# Squares of differences between normals below this part of their own squares are rounding.
_SAME = 1e-20


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
    case = _case_of(formulation, start, point)
    if case is None:
        return None
    terms = absolute_sum(case.tangent.slope, point)
    gap = np.full(terms.shape, np.inf)
    size = terms + case.model.size
    limit = negligible(start.d) * size
    for near in distances(enough):
        proof = proof_at(near, case, enough)
        is_last = gains_nothing(gap, proof.gap, size)
        gap = np.fmin(gap, proof.gap)
        # What rounding adds to a gap it adds at any other multiplier near this one.
        if is_last or np.all(gap <= np.maximum(limit + 2 * proof.rounding, enough)):
            break
    return SizedGap(gap, terms)


def ball_explanation(
    formulation: Formulation, start: FrequencyEstimate, point: Array
) -> Explanation | None:
    """Return the multipliers that prove most, of all constraints; None where ``ball_gap`` is.

    Of a loss with kinks there are none either: which slopes these take is for a program to find.

    Notes
    -----
    With the price μ of the ball and its normal n, what is left for total and bounds is g + μ n. A
    1-norm has rows with auxiliary variables t, those of ``absolute_sum_rows``: the deviation of a
    value from below and from above shares the price μ w, so that the difference is μ n.
    """
    case = _case_of(formulation, start, point)
    if case is None or not isinstance(case.model.tangent, Tangent):
        return None
    return best_explanation(case)


def best_explanation(case: Case) -> Explanation:
    """Return the multipliers at hand that prove most of a smooth loss."""
    shape = case.tangent.f.shape[:-1]
    best: Explanation | None = None
    gap = np.full(shape, np.inf)
    for near in distances(0.0):
        proof = proof_at(near, case, 0.0)
        further = _explained(proof, case)
        is_better = proof.gap < gap
        gap = np.fmin(gap, proof.gap)
        best = further if best is None else further.where(is_better, best)
    assert best is not None
    return best


def _explained(proof: Proof, case: Case) -> Explanation:
    """Return the multipliers of a proof."""
    ball = case.ball
    point = case.tangent.f
    shape = point.shape[:-1]
    d = point.shape[-1]
    plain = proof.model.explanation(proof.of_total)
    mu = proof.mu
    # How far the ball is from its limit, at its price.
    with np.errstate(invalid="ignore"):
        product = np.abs(usable(mu * slack(ball, proof.normal, point).bound))
    complementarity = np.maximum(plain.complementarity, product)
    if ball.norm == "kl":
        plain = _with_slopes_of_logarithms(plain, proof, ball, point)
        complementarity = np.maximum(complementarity, plain.complementarity)
    if ball.norm != 1:
        # As cvxpy's multiplier of the ball: there the radius counts d times.
        of_trials = [[of_trial / d] for of_trial in mu.ravel()]
        of_ball = tuple(of_trials) if shape else of_trials[0]
        return plain._replace(
            complementarity=complementarity, row_sizes=(None,), of_curved=(of_ball,)
        )
    price = mu[..., None]
    weights = 1.0 if ball.weights is None else ball.weights
    from_above = -price * (weights + proof.normal) / 2
    from_below = price * (weights - proof.normal) / 2
    rows = np.concatenate([from_above, from_below, -price, np.zeros(point.shape)], axis=-1)
    return plain._replace(
        complementarity=complementarity, row_multipliers=rows, row_sizes=(rows.shape[-1],)
    )


def _with_slopes_of_logarithms(
    plain: Explanation, proof: Proof, ball: Ball, point: Array
) -> Explanation:
    """Return the multipliers beside the divergence's own slopes, where a proof has others.

    Nearly at 0 the proof takes any slope in place of log(f/r), and at the point itself the
    multiplier of the bound 0 takes the rest. Of 0 itself no logarithm is known.
    """
    is_known = (point > 0) & (ball.reference > 0)
    ratio = np.divide(point, ball.reference, out=np.ones(point.shape), where=is_known)
    missed = np.where(is_known, np.log(ratio) - proof.normal, 0.0)
    rest = usable(proof.mu[..., None] * missed)
    share = np.maximum(rest, 0.0)
    left = np.max(share - rest, axis=-1)
    products = np.max(share * np.maximum(point, 0.0), axis=-1)
    return plain._replace(
        bound_multipliers=plain.bound_multipliers + share,
        stationarity=np.maximum(plain.stationarity, left),
        complementarity=np.maximum(plain.complementarity, products),
    )


class Case(NamedTuple):
    """What a proof at f is about.

    Attributes
    ----------
    ball, model
        The ball, and what is around it.
    tangent
        The loss at f, as a smooth part and parts with kinks.
    at
        The point of which the normal is taken; None for f.
    has_price
        False where the ball has the price 0.
    """

    ball: Ball
    model: Model
    tangent: MixedLoss
    at: Array | None = None
    has_price: bool = True


def _case_of(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Case | None:
    """Return what is known at a point; None for other sets, and where slopes are infinite."""
    parts = one_ball(formulation)
    if parts is None or not formulation.loss.convex:
        return None
    ball, around = parts
    if not applies(around, start.d):
        return None
    model = Model.of(around, start, point)
    bounds = stated(around.region(start.d), point, domain_of_all(formulation, start))
    model = model._replace(bounds=bounds)
    tangent = mixed(model.tangent)
    # Where any slope is right the tangent has a 0, which is one of them.
    if not np.isfinite(tangent.slope).all():
        return None
    return Case(ball, model, tangent)


class Proof(NamedTuple):
    """A gap, and the multipliers that prove it.

    Attributes
    ----------
    gap, rounding
        The bound, and what in it pays for rounding of the ball, shape (...).
    normal, mu
        n and its price, shapes (..., d) and (...).
    model
        The problem without the ball, with what the price adds to the slopes.
    of_total
        The multiplier of the total there, shape (...).
    """

    gap: Array
    rounding: Array
    normal: Array
    mu: Array
    model: Model
    of_total: Array


def proof_at(near: float, case: Case, enough: Array | float) -> Proof:
    """Return what the multipliers at hand prove; kinks within ``near`` count."""
    model = case.model
    point = case.tangent.f
    down = point - model.bounds.lower
    up = model.bounds.upper - point
    weight = np.maximum(np.minimum(down, up), 0.0)
    weight = np.where(np.isinf(weight), 1.0, weight)
    has_total = model.total is not None
    normal, mu = _multiplier(case, weight, near, has_total=has_total)
    mu = usable(mu) if case.has_price else np.zeros(mu.shape)
    turned = model._replace(tangent=_turned(case.tangent, mu[..., None] * normal))
    with np.errstate(invalid="ignore", over="ignore"):
        bound = turned.bound(enough, near)
        of_ball = slack(case.ball, normal, point)
        paid = mu * of_ball.bound
        # Outside the ball the second may be negative: each is rounded on its own.
        rounding = 4 * EPS * (bound.gap + np.abs(paid))
        proved = np.maximum(bound.gap + paid + rounding, 0.0)
        rounded_away = usable(mu * of_ball.rounding)
    # NaN, of multipliers that are not finite, proves nothing.
    gap = np.where(np.isnan(proved), np.inf, proved)
    return Proof(gap, rounded_away, normal, mu, turned, bound.mu)


def mixed(tangent: Minorant) -> MixedLoss:
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


def _multiplier(case: Case, weight: Array, near: float, *, has_total: bool) -> tuple[Array, Array]:
    """Return n, and the μ that makes slopes equal, or 0 without a total, by least squares."""
    tangent = case.tangent
    largest = np.max(np.abs(tangent.f), axis=-1, keepdims=True)
    at = tangent.f if case.at is None else case.at
    normal = normal_of(case.ball, at, near * largest)
    slope, is_settled = tangent.settled(near)
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
    # Values with one normal among them move together, whatever its price: the others settle it.
    leaves_open = squares <= _SAME * (counted * of_normal**2).sum(axis=-1)
    if leaves_open.any():
        by_sums = tangent.settling(level - slope, middle - normal.vector, near)
        mu = np.where(leaves_open, by_sums, mu)
    # Where n is open it takes what the slope misses.
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = (level + mu[..., None] * middle - slope) / np.where(mu > 0, mu, 1.0)[..., None]
    return normal.with_open(wanted), mu
