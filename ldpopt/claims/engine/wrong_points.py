"""Points that are not the minimiser, which a certificate must refuse."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.claims.engine.tolerances import GAP
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate import certify
from ldpopt.solve.problem import Problem

Array = NDArray[np.float64]

STEP = 1e-4
"""By how much wrong points differ in one value: of a point where the gradient vanishes it costs the
square, which is far above the rounding that GAP allows for."""


def wrong_points(point: Array, step: float = STEP) -> Array:
    """Return three points beside a minimiser, shape (3, d).

    Mass is moved from the largest value to the smallest; a value is negative, and the sum is kept;
    the sum is too large. None of them is optimal, or else it is outside of the set, wherever a
    total or non-negativity is among the constraints.

    Parameters
    ----------
    point
        The minimiser, shape (d,) with d >= 2.
    step
        By how much.

    Examples
    --------
    >>> wrong_points(np.array([0.75, 0.25]), step=0.25)
    array([[ 0.5 ,  0.5 ],
           [ 1.25, -0.25],
           [ 1.  ,  0.25]])
    """
    order = np.argsort(point, kind="stable")
    # Two different places, also where all values are equal.
    low = order[0]
    high = order[-1]
    moved = point.copy()
    moved[high] -= step
    moved[low] += step
    negative = point.copy()
    negative[low] = -step
    negative[high] += point[low] + step
    heavier = point.copy()
    heavier[high] += step
    return np.stack([moved, negative, heavier])


def is_accepted(problem: Problem, estimate: FrequencyEstimate, points: Array) -> NDArray[np.bool_]:
    """Return which points the certificate takes for minimisers, as the ledger does: within GAP.

    Parameters
    ----------
    problem
        What they claim to solve.
    estimate
        A stack, shape (m, d).
    points
        One point per vector of the stack.
    """
    certificate = certify(problem, estimate, points)
    gap = certificate.gap / slope_scale(problem, estimate, points)
    # Written so that NaN is refused.
    return np.asarray((gap <= GAP) & (certificate.violation <= GAP))


def slope_scale(problem: Problem, estimate: FrequencyEstimate, points: Array) -> Array:
    """Return what gaps are relative to: the largest slope at each point, but at least 1.

    A rounding of one unit of mass costs the largest slope.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.abs(problem.loss.gradient(points, estimate))
    finite = np.where(np.isfinite(slopes), slopes, 0.0)
    return np.asarray(np.maximum(1.0, finite.max(axis=-1)))
