"""Proofs of losses that users state, by tangents that need no program.

A convex loss L with the gradient k at any point p has L(s) >= L(p) + k·(s - p), so that for every s

    L(f) - L(s) <= k·(f - s) + [L(f) - L(p) - k·(f - p)],

and the bracket, >= 0, is a cost that does not depend on s. With p = f there is no cost, but f is a
solver's point: what its gradient leaves is of first order in its error. One Newton step from f, on
the values that are not at their bounds, leads to a p where both are of second order. Any p proves
something, so that second derivatives need not be right: differences of gradients stand for them,
which are right where the loss is a sum over values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.enclosure import Enclosure
from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import Tangent

Array = NDArray[np.float64]

# Newton steps: each squares the error of a solver's point, and the last ones meet rounding.
_STEPS = 6

# The step of a difference, relative to each value, and to this part of their mean where one is as
# good as 0.
_DIFFERENCE = 2.0**-20
_LEAST = (2.0**-10, 2.0**-40)

# By how many times its error a difference is more than rounding.
_SURE = 4.0

# A step leaves this part of the way to a bound: beyond it the loss may not be defined.
_LEFT = 2.0**-4

# A step has to take this part of the gap away for another one to be worth its time.
_GAIN = 0.5


class Beside(NamedTuple):
    """A tangent at a point beside f, and what it proves there.

    Attributes
    ----------
    gap
        An upper bound of L(f) - min L.
    tangent
        The slope k at f.
    multipliers
        Those that prove it.
    """

    gap: float
    tangent: Tangent
    multipliers: Any


Prove = Callable[[Tangent, Tangent, float], tuple[float, Any, Array]]
"""From a tangent, the same with about the loss's curvature, and a gap that is enough, to the gap
that the best multipliers prove, these, and the prices that they put on the values."""


class Surroundings(NamedTuple):
    """A loss with known gradients at a point and beside it.

    Attributes
    ----------
    enclosed
        The loss, as ``Loss.enclosed`` returns it.
    f, here
        The point, and value and gradient there.
    steep
        About the second derivatives.
    size
        What a gap is relative to: about ``Certificate.scale``.
    """

    enclosed: Callable[[Array], Enclosure | None]
    f: Array
    here: Enclosure
    steep: Array
    size: float

    @classmethod
    def of(cls, loss: Loss, estimate: FrequencyEstimate, f: Array) -> Surroundings | None:
        """Return them, None where the loss has no gradient that is known."""
        enclosed = loss.enclosed(estimate)
        if enclosed is None:
            return None
        here = enclosed(f)
        if here is None:
            return None
        steep = _second_derivatives(enclosed, f, here)
        if steep is None:
            return None
        at_zero = enclosed(np.zeros(f.shape))
        stake = 0.0 if at_zero is None else abs(here.value - at_zero.value)
        size = abs(here.value) + float(absolute_sum(here.gradient, f)) + stake
        return cls(enclosed, f, here, steep, size)


def best_beside(around: Surroundings, limits: Box, prove: Prove, enough: float) -> Beside | None:
    """Return the best proof by tangents at f and beside it; None where none proves anything.

    No further one is looked for once the gap is at most ``enough``.
    """
    f = around.f
    here = around.here
    best: Beside | None = None
    at = f
    there = here
    for _ in range(_STEPS):
        tangent = Tangent(f, there.gradient, 0.0, there.gradient_error, np.zeros(1), None)
        cost = _cost(f, here, at, there)
        curved = replace(tangent, modulus=around.steep)
        gap, multipliers, price = prove(tangent, curved, enough - cost)
        gap += cost
        before = np.inf if best is None else best.gap
        if gap < before:
            best = Beside(gap, tangent, multipliers)
        # A step that overshoots, as beside a logarithm's end, is made good by the next one.
        is_still = _GAIN * before < gap <= before / _GAIN
        if gap <= enough or is_still or not np.isfinite(gap):
            break
        at = _stepped(at, (there.gradient - price) / around.steep, limits)
        further = around.enclosed(at)
        if further is None:
            break
        there = further
    return best


def _second_derivatives(
    enclosed: Callable[[Array], Enclosure | None], f: Array, here: Enclosure
) -> Array | None:
    """Return differences of gradients over those of values, all positive; None if none is."""
    steep = np.full(f.shape, -np.inf)
    mean = float(np.mean(np.abs(f)))
    # Beside 0 the loss may not be defined on the other side.
    signs = np.where((np.arange(len(f)) % 2 == 0) | (np.abs(f) < _LEAST[0] * mean), 1.0, -1.0)
    # Logarithms bend most at the smallest values. Where a step that is small beside these is lost
    # in rounding, the one before counts.
    for part in _LEAST:
        # Signs alternate: what a sum over all values adds to each gradient then nearly cancels.
        beside = f + signs * _DIFFERENCE * np.maximum(np.abs(f), part * mean)
        there = enclosed(beside)
        if there is None:
            continue
        rise = there.gradient - here.gradient
        is_sure = signs * rise > _SURE * (there.gradient_error + here.gradient_error)
        with np.errstate(all="ignore"):
            steep = np.where(is_sure, rise / (beside - f), steep)
    steepest = float(np.max(steep))
    if not 0 < steepest < np.inf:
        return None
    # A flat value takes no step worth the name, and counts little for prices.
    return np.where(steep > 0, steep, steepest)


def _stepped(at: Array, step: Array, limits: Box) -> Array:
    """Return the point less a step; a value stays where a bound is in its way, as if at that."""
    target = at - step
    with np.errstate(invalid="ignore"):
        is_below = target - limits.lower <= _LEFT * (at - limits.lower)
        is_above = limits.upper - target <= _LEFT * (limits.upper - at)
    # Of infinities neither is a number's comparison: without a bound nothing is in the way.
    is_below &= np.isfinite(limits.lower)
    is_above &= np.isfinite(limits.upper)
    return np.where(is_below | is_above, at, target)


def _cost(f: Array, here: Enclosure, at: Array, there: Enclosure) -> float:
    """Return an upper bound of L(f) - L(p) - k·(f - p) at p for any k that the slope may be."""
    if there is here:
        return 0.0
    way = f - at
    size = np.abs(way) * (1 + 2 * EPS)
    rise = here.value - there.value
    along = float(there.gradient @ way)
    products = float(np.abs(there.gradient) @ size)
    errors = here.value_error + there.value_error + float(there.gradient_error @ size)
    errors += 2 * EPS * (abs(here.value) + abs(there.value) + abs(along))
    errors += (len(f) + 8) * EPS * (products + errors)
    return max(rise - along + errors, 0.0)
