"""An upper bound of a gap from slopes at hand, on the simplex and in a ball: a few passes.

It is meant for acceptance, as ``quick_gap`` is, and for the points of closed forms. Let g be any
subgradient of the loss at f, and n any vector with n·(s - f) <= slack for all s of the ball. Then
for every μ >= 0

    L(f) - L(s) <= g·(f - s) <= (g + μ n)·(f - s) + μ slack,

and over {s >= lower, Σs = total} the first term is largest where all that the lower bounds leave of
the total is at the smallest entry of g + μ n. At a minimum the entries of the values above their
bounds are equal, so that least squares over these finds μ.

``normals`` has n and its slack, in which rounding counts. That of all other terms does not: it is
below 1e-13 of the scale that a status is relative to, and a status promises 1e-8 of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints.base import Ball
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.evidence import SizedGap
from ldpopt.solve.certificate.normals import normal_of, one_ball, slack
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# Distance to the reference, relative to the largest value, below which a value counts as equal to
# it: closed forms put it there but for rounding. Any choice here proves something.
_EQUAL = 1e-9


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
    loss = formulation.loss
    if not loss.convex:
        return None
    ball, around = one_ball(formulation) or (None, formulation)
    region = around.region(start.d)
    is_simplex = region.lower_count == start.d and not region.upper_count
    if region.total is None or not region.is_box or not is_simplex:
        return None
    slope = loss.gradient(point, start)
    terms = np.asarray(np.einsum("...v,...v->...", np.abs(slope), np.abs(point)))
    if not np.isfinite(slope).all():
        return None
    paid: Array | float = 0.0
    above = point - region.lower
    if ball is not None:
        slope, paid = _with_ball(slope, ball, point, np.maximum(above, 0.0))
    # Only what the lower bounds leave of the total can move.
    left = max(region.total - region.lower_sum, 0.0)
    rise = np.einsum("...v,...v->...", slope, above) - slope.min(axis=-1) * left
    return SizedGap(np.maximum(rise + paid, 0.0), terms)


def _with_ball(slope: Array, ball: Ball, f: Array, above: Array) -> tuple[Array, Array]:
    """Return g + μ n, and μ times the slack of n.

    ``above`` is how far each value is above its lower bound, by which it counts.
    """
    normal = normal_of(ball, f, _EQUAL * np.abs(f).max(axis=-1, keepdims=True))
    weight = np.where(normal.is_open, 0.0, above)
    # Where no value counts, μ is 0.
    mass = np.maximum(weight.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    level = (weight * slope).sum(axis=-1, keepdims=True) / mass
    middle = (weight * normal.vector).sum(axis=-1, keepdims=True) / mass
    turned = normal.vector - middle
    along = (weight * turned * (slope - level)).sum(axis=-1, keepdims=True)
    squares = (weight * turned**2).sum(axis=-1, keepdims=True)
    mu = np.where(squares > 0, np.maximum(-along, 0.0) / np.where(squares > 0, squares, 1.0), 0.0)
    # What makes an open slope that of the others, as far as it may.
    with np.errstate(over="ignore"):
        wanted = (level + mu * middle - slope) / np.where(mu > 0, mu, 1.0)
    vector = normal.with_open(wanted)
    # Of a steep slope the conjugate of a divergence is beyond the doubles: then nothing is proved.
    with np.errstate(over="ignore", invalid="ignore"):
        return slope + mu * vector, np.asarray(mu[..., 0] * slack(ball, vector, f).bound)
