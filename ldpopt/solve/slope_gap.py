"""An upper bound of a gap from slopes at hand, on the simplex and in a ball: a few passes.

It is meant for acceptance, as ``quick_gap`` is, and for the points of closed forms. Let g be any
subgradient of the loss at f, and n any vector with n·(s - f) <= slack for all s of the ball. Then
for every μ >= 0

    L(f) - L(s) <= g·(f - s) <= (g + μ n)·(f - s) + μ slack,

and over {s >= lower, Σs = total} the first term is largest where all that the lower bounds leave of
the total is at the smallest entry of g + μ n. At a minimum the entries of the values above their
bounds are equal, so that least squares over these finds μ.

The normals n are (f - r)/‖f - r‖ of the 2-norm, log(f/r) of the divergence, and of the 1-norm the
signs of f - r times the weights w, with any number between -w and w where f equals r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import kl_div

from ldpopt.constraints import Near
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.evidence import SizedGap
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# Distance to the reference, relative to the largest value, below which a value counts as equal to
# it: closed forms put it there but for rounding. Any choice here proves something.
_EQUAL = 1e-9


class _Normal(NamedTuple):
    """A normal of a ball at f, of shape (..., d).

    Attributes
    ----------
    vector
        n, with 0 where it is open.
    distance
        Of f from the reference, in the ball's own measure, shape (...,).
    open
        Where n may be any number between -w and w, as at kinks of the 1-norm.
    steepest
        w, the weights of the 1-norm's deviations.
    """

    vector: Array
    distance: Array
    open: NDArray[np.bool_]
    steepest: Array | float = 1.0


def slope_gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for other sets, and where slopes are infinite.

    Parameters
    ----------
    formulation
        A convex loss under lower bounds with a total, and at most one ball in a 1-norm, a 2-norm or
        a divergence.
    start
        The estimate.
    point
        f, of the estimate's shape.
    """
    balls = [part for part in formulation.constraints if isinstance(part, Near)]
    rest = tuple(part for part in formulation.constraints if not isinstance(part, Near))
    loss = formulation.loss
    if len(balls) > 1 or not loss.convex:
        return None
    around = Formulation(loss, rest)
    region = around.region(start.d)
    is_simplex = region.lower_count == start.d and not region.upper_count
    if region.total is None or not region.is_box or not is_simplex:
        return None
    slope = loss.gradient(point, start)
    terms = np.asarray(np.einsum("...v,...v->...", np.abs(slope), np.abs(point)))
    paid: Array | float = 0.0
    above = point - region.lower
    if balls:
        normal = _normal(balls[0], point)
        if not (np.isfinite(slope).all() and np.isfinite(normal.vector).all()):
            return None
        slope, paid = _with_ball(slope, normal, balls[0], point, np.maximum(above, 0.0))
    if not np.isfinite(slope).all():
        return None
    # Only what the lower bounds leave of the total can move.
    left = max(region.total - region.lower_sum, 0.0)
    rise = np.einsum("...v,...v->...", slope, above) - slope.min(axis=-1) * left
    return SizedGap(np.maximum(rise + paid, 0.0), terms)


def _normal(ball: Near, f: Array) -> _Normal:
    """Return a normal of a ball at f, infinite or NaN at its middle and its ends."""
    away = f - ball.reference
    nowhere = np.zeros(f.shape, dtype=np.bool_)
    if ball.norm == 1:
        near = _EQUAL * np.abs(f).max(axis=-1, keepdims=True)
        is_equal = np.abs(away) <= near
        weights = 1.0 if ball.weights is None else ball.weights
        vector = np.where(is_equal, 0.0, weights * np.sign(away))
        distance = np.abs(weights * away).sum(axis=-1)
        return _Normal(vector, distance, is_equal, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        if ball.norm == 2:
            distance = np.linalg.norm(away, axis=-1)
            return _Normal(away / distance[..., None], distance, nowhere)
        divergence = kl_div(f, ball.reference).sum(axis=-1)
        return _Normal(np.log(f / ball.reference), divergence, nowhere)


def _with_ball(
    slope: Array, normal: _Normal, ball: Near, f: Array, above: Array
) -> tuple[Array, Array]:
    """Return g + μ n, and μ slack.

    ``above`` is how far each value is above its lower bound, by which it counts.
    """
    weight = np.where(normal.open, 0.0, above)
    # Where no value counts, μ is 0.
    mass = np.maximum(weight.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    level = (weight * slope).sum(axis=-1, keepdims=True) / mass
    middle = (weight * normal.vector).sum(axis=-1, keepdims=True) / mass
    turned = normal.vector - middle
    along = (weight * turned * (slope - level)).sum(axis=-1, keepdims=True)
    squares = (weight * turned**2).sum(axis=-1, keepdims=True)
    mu = np.where(squares > 0, np.maximum(-along, 0.0) / np.where(squares > 0, squares, 1.0), 0.0)
    vector = normal.vector
    if normal.open.any():
        # What makes the slope there that of the others, as far as it may.
        common = level + mu * middle
        wanted = (common - slope) / np.where(mu > 0, mu, 1.0)
        vector = np.where(normal.open, np.clip(wanted, -normal.steepest, normal.steepest), vector)
    paid = mu[..., 0] * _slack(ball, normal, vector, f)
    return slope + mu * vector, np.asarray(paid)


def _slack(ball: Near, normal: _Normal, vector: Array, f: Array) -> Array:
    """Return an upper bound of n·(s - f) for all s of the ball."""
    if ball.norm == 1:
        # n·(s - r) is at most the radius; what an open entry has of n·(f - r) is nearly nothing.
        away = f - ball.reference
        return np.asarray(ball.radius - np.einsum("...v,...v->...", vector, away))
    # The distance is convex: it rises at least by n·(s - f).
    return ball.radius - normal.distance
