"""Normals of balls around a reference, and what they prove of all points of the ball.

Let D(s) <= R be a ball in the 1-norm, the 2-norm or the divergence of s from r. With the conjugate
D* of D (Fenchel's inequality), every vector n, a normal or not, has for all s of the ball

    n·(s - f) <= R ‖n‖* - n·(f - r)                 for a norm with the dual norm ‖·‖*,
    n·(s - f) <= R + Σ r_v (exp(n_v) - 1) - n·f     for the divergence Σ s log(s/r) - s + r.

Deviations of the 1-norm may have weights w; ‖n‖* is then the largest |n_v|/w_v. Where n is the
normal at a point f of the boundary, the right side is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.constraints.base import Ball
from ldpopt.solve.certificate.bounds.dual import EPS, sum_with_error
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]

# Operations on one value, each rounded by EPS/2 at most, and exponentials by a few times as much.
_OPERATIONS = 16


class Normal(NamedTuple):
    """A normal of a ball at f, of shape (..., d).

    Attributes
    ----------
    vector
        n, with some number that is allowed where it is open.
    is_open
        Where n may be any number between -largest and largest.
    largest
        The weights at the kinks of the 1-norm; infinite for the divergence where f is nearly 0, so
        that its logarithm says little.
    """

    vector: Array
    is_open: NDArray[np.bool_]
    largest: Array | float

    def with_open(self, wanted: Array) -> Array:
        """Return n with the numbers that are nearest to the wanted ones where it is open."""
        return np.where(self.is_open, np.clip(wanted, -self.largest, self.largest), self.vector)


def one_ball(formulation: Formulation) -> tuple[Ball, Formulation] | None:
    """Return the only ball of a problem, and the problem without it; None for other problems."""
    balls, around = formulation.around_balls()
    return (balls[0], around) if len(balls) == 1 else None


def normal_of(ball: Ball, f: Array, near: float) -> Normal:
    """Return a normal of a ball at f; differences up to ``near`` count as none."""
    away = f - ball.reference
    if ball.norm == 1:
        is_equal = np.abs(away) <= near
        weights = _weights(ball)
        return Normal(np.copysign(weights, away, out=away), is_equal, weights)
    if ball.norm == 2:
        length = np.linalg.norm(away, axis=-1, keepdims=True)
        away /= np.where(length > 0, length, 1.0)
        return Normal(away, np.zeros(f.shape, dtype=np.bool_), 1.0)
    is_open = (ball.reference == 0) | (f <= near)
    ratio = np.divide(f, ball.reference, out=np.ones(f.shape), where=~is_open)
    return Normal(np.log(ratio), is_open, np.inf)


class Slack(NamedTuple):
    """An upper bound of n·(s - f) for all s of a ball, and how much of it pays for rounding."""

    bound: Array
    rounding: Array


def slack(ball: Ball, vector: Array, f: Array) -> Slack:
    """Return an upper bound of n·(s - f) for all s of the ball, whatever n is, rounding included.

    NaN or infinity where n is so large that no bound is left.
    """
    if ball.norm == "kl":
        # Where r is 0, f can only be 0, and n may be so large that its exponential is infinite.
        is_held = ball.reference == 0
        gained = np.where(is_held, 0.0, ball.reference * np.expm1(np.where(is_held, 0.0, vector)))
        paid = vector * f
        terms = gained - paid
        sizes = np.abs(gained) + np.abs(paid)
        largest = np.asarray(ball.radius)
    else:
        terms = -vector * (f - ball.reference)
        sizes = np.abs(vector) * (np.abs(f) + np.abs(ball.reference))
        largest = _dual_norm(ball, vector) * ball.radius
    total, rounding = sum_with_error(terms)
    # What is left is rounded by its own size, value by value, and so are the last additions.
    rounding = rounding + EPS * _OPERATIONS * (np.abs(largest) + np.sum(sizes, axis=-1))
    return Slack(np.asarray(largest + total + rounding), rounding)


def plain_slack(ball: Ball, normal: Normal, vector: Array, f: Array) -> Array:
    """Return ``slack`` in a few passes, for a normal at f with any numbers where it is open.

    Rounding is not charged. A normal of a norm has the dual norm 1, or 0 at the reference, and
    r exp(n) is f where n is the logarithm of f/r.
    """
    reference = ball.reference
    if ball.norm != "kl":
        return np.asarray(ball.radius - _inner(vector, f) + _inner(vector, reference))
    gained = f.sum(axis=-1) - ball.size
    if normal.is_open.any():
        # Where r is 0, f can only be 0, and n may be so large that its exponential is infinite.
        is_held = reference == 0
        exact = np.where(is_held, 0.0, reference * np.expm1(np.where(is_held, 0.0, vector)))
        gained += np.where(normal.is_open, exact - (f - reference), 0.0).sum(axis=-1)
    return np.asarray(ball.radius + gained - _inner(vector, f))


def _inner(first: Array, second: Array) -> Array:
    return np.asarray(np.einsum("...v,...v->...", first, second))


def _dual_norm(ball: Ball, vector: Array) -> Array:
    """Return the dual norm, right to a few roundings or above."""
    if ball.norm == 1:
        return np.asarray(np.max(np.abs(vector) / _weights(ball), axis=-1))
    square, error = sum_with_error(vector**2)
    return np.asarray(np.sqrt(square + error))


def _weights(ball: Ball) -> Array | float:
    """Return the weights of a 1-norm's deviations."""
    return 1.0 if ball.weights is None else ball.weights
