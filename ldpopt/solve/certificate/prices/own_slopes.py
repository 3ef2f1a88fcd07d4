"""Proofs of losses that users state, by tangents that need no program.

A convex loss L with the gradient k at any point p has L(s) >= L(p) + k·(s - p), so that for every s

    L(f) - L(s) <= k·(f - s) + [L(f) - L(p) - k·(f - p)],

and the bracket, >= 0, is a cost that does not depend on s. With p = f there is no cost, but f is a
solver's point: what its gradient leaves is of first order in its error. One Newton step from f, on
the values that are not at their bounds, leads to a p where both are of second order. Any p proves
something, so that second derivatives need not be right: differences of gradients stand for them.
Those by the same value alone are enough where the loss is a sum over values. Elsewhere conjugate
gradients solve for the step, with a difference of gradients for each product by the second
derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.enclosure import Enclosed, Enclosure
from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import Tangent
from ldpopt.solve.certificate.prices.normal_equations import NormalEquations

Array = NDArray[np.float64]

NEARER = 1e-2
"""Tangents are looked for until they prove this part of what is sufficient."""

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

HOPELESS = 0.1
"""Where tangents leave more than this part of the size of the loss, no step makes up for it.

Other constraints hold, or the point is no minimum.
"""

DOUBTFUL = 1e-4
"""The same where other constraints are known, which a further proof counts.

What a solver's point leaves where they do not hold is well below it.
"""

# Conjugate gradients: the products of a step, the part of the error that is left, and the length of
# a difference, relative to the largest value.
_PRODUCTS = 30
_INEXACT = 1e-3
_SHORT = 2.0**-16

# What is added to the diagonal of the equations for prices, relative to it.
_REGULAR = 1e-12


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


class Proved(NamedTuple):
    """What multipliers prove of a tangent.

    Attributes
    ----------
    gap, multipliers
        The best multipliers, and the gap that they prove.
    price
        What they put on the values.
    rows
        The rows that have some, if they may change; a sparse matrix.
    bend
        What the price changes by with each value, where it is that of a curved constraint.
    """

    gap: float
    multipliers: Any
    price: Array
    rows: Any
    bend: Array | float = 0.0


Prove = Callable[[Tangent, Array, float], Proved]
"""From a tangent at f, the point that its slope is from, and enough of a gap, to a proof."""


class Surroundings(NamedTuple):
    """A loss with known gradients at a point and beside it.

    Attributes
    ----------
    enclosed
        The loss, as ``Loss.enclosed`` returns it.
    f, here
        The point, and value and gradient there.
    is_sum
        Whether the loss seems to be a sum over values.
    bend
        About the second derivatives by each value alone; 0 where the loss is straight, or seems so
        beside rounding.
    steep
        The same, and the largest of them where a value has none: such a value takes no step worth
        the name, and counts little for prices.
    size
        What a gap is relative to: about ``Certificate.scale``.
    """

    enclosed: Enclosed
    f: Array
    here: Enclosure
    is_sum: bool
    bend: Array
    steep: Array
    size: float

    @classmethod
    def of(cls, loss: Loss, estimate: FrequencyEstimate, f: Array) -> Surroundings | None:
        """Return them; None where the loss has no gradient that is known, or a flat one."""
        enclosed = loss.enclosed(estimate)
        if enclosed is None:
            return None
        here = enclosed(f)
        if here is None:
            return None
        step = _DIFFERENCE * np.maximum(np.abs(f), float(np.mean(np.abs(f))))
        is_sum = _is_sum_over_values(enclosed, f, here, step)
        bend = second_derivatives(enclosed, f, here, is_sum=is_sum)
        steepest = float(np.max(bend))
        if not 0 < steepest < np.inf:
            return None
        steep = np.where(bend > 0, bend, steepest)
        at_zero = enclosed(np.zeros(f.shape))
        stake = 0.0 if at_zero is None else abs(here.value - at_zero.value)
        size = abs(here.value) + float(absolute_sum(here.gradient, f)) + stake
        return cls(enclosed, f, here, is_sum, bend, steep, size)


def known_at(loss: Loss, estimate: FrequencyEstimate, f: Array) -> Enclosure | None:
    """Return value and gradient of a loss at a point with errors, None if they are unknown."""
    enclosed = loss.enclosed(estimate)
    return None if enclosed is None else enclosed(f)


def best_beside(
    around: Surroundings,
    limits: Box,
    prove: Prove,
    enough: float,
    hopeless: float = HOPELESS,
) -> Beside | None:
    """Return the best proof by tangents at f and beside it; None where none proves anything.

    No further one is looked for once the gap is at most ``enough``, or where those so far leave
    more than the part ``hopeless`` of the size of the loss.
    """
    f = around.f
    here = around.here
    best: Beside | None = None
    at = f
    there = here
    for _ in range(_STEPS):
        tangent = Tangent(f, there.gradient, 0.0, there.gradient_error, np.zeros(1), None)
        cost = _cost(f, here, at, there)
        proof = prove(tangent, at, enough - cost)
        gap = proof.gap + cost
        before = np.inf if best is None else best.gap
        if gap < before:
            best = Beside(gap, tangent, proof.multipliers)
        # A step that overshoots, as beside a logarithm's end, is made good by the next one.
        is_still = _GAIN * before < gap <= before / _GAIN
        is_hopeless = best is None or best.gap > hopeless * around.size
        if gap <= enough or is_still or is_hopeless:
            break
        step = (there.gradient - proof.price) / (around.steep + proof.bend)
        if not around.is_sum:
            step = _coupled_step(around, at, there, proof, ~_is_held(at, step, limits))
        at = _stepped(at, step, limits)
        further = around.enclosed(at)
        if further is None:
            break
        there = further
    return best


def _coupled_step(
    around: Surroundings, at: Array, there: Enclosure, proof: Proved, is_free: NDArray[np.bool_]
) -> Array:
    """Return Newton's step of the free values that keeps the rows, by conjugate gradients.

    The second derivatives by the same value alone precondition them.
    """
    weights = np.where(is_free, 1 / (around.steep + proof.bend), 0.0)
    equations = NormalEquations(proof.rows, weights, _REGULAR)

    def projected(slopes: Array) -> Array:
        prices = equations.solve(equations.weighted @ slopes)
        return np.asarray(weights * (slopes - equations.rows.T @ prices))

    left = there.gradient - proof.price
    direction = further = projected(left)
    product = first = float(left @ further)
    step = np.zeros(at.shape)
    for _ in range(_PRODUCTS):
        bent = _bent(around, at, there, direction)
        if bent is None:
            break
        bent += proof.bend * direction
        curvature = float(direction @ bent)
        if not curvature > 0:
            break
        length = product / curvature
        step += length * direction
        left = left - length * bent
        further = projected(left)
        before = product
        product = float(left @ further)
        if not product > _INEXACT**2 * first:
            break
        direction = further + (product / before) * direction
    return step


def _bent(around: Surroundings, at: Array, there: Enclosure, direction: Array) -> Array | None:
    """Return the second derivatives times a direction, by a difference; None where unknown."""
    longest = float(np.max(np.abs(direction)))
    if not longest > 0:
        return None
    length = _SHORT * float(np.max(np.abs(at))) / longest
    beside = around.enclosed(at + length * direction)
    return None if beside is None else (beside.gradient - there.gradient) / length


def _is_sum_over_values(enclosed: Enclosed, f: Array, here: Enclosure, step: Array) -> bool:
    """Return whether no gradient changes where every second value alone takes a step."""
    is_moved = np.arange(len(f)) % 2 == 0
    there = enclosed(np.where(is_moved, f + step, f))
    if there is None:
        return True
    error = _SURE * (there.gradient_error + here.gradient_error)
    is_changed = np.abs(there.gradient - here.gradient) > error
    return not np.any(is_changed & ~is_moved)


def second_derivatives(enclosed: Enclosed, f: Array, here: Enclosure, *, is_sum: bool) -> Array:
    """Return about the second derivatives by each value alone, 0 where none is known."""
    mean = float(np.mean(np.abs(f)))
    steps = [_DIFFERENCE * np.maximum(np.abs(f), part * mean) for part in _LEAST]
    if not is_sum:
        # What the others add to each gradient nearly cancels where signs alternate, and is not
        # divided by less than their own steps. Beside 0 there may be no loss on the other side.
        step = np.full(f.shape, _DIFFERENCE * mean)
        steps = [np.where((np.arange(len(f)) % 2 == 0) | (np.abs(f) <= step), step, -step)]
    bend = np.zeros(f.shape)
    # Logarithms bend most at the smallest values. Where a step that is small beside these is lost
    # in rounding, the one before counts.
    for step in steps:
        beside = f + step
        there = enclosed(beside)
        if there is None:
            continue
        rise = there.gradient - here.gradient
        is_sure = np.sign(step) * rise > _SURE * (there.gradient_error + here.gradient_error)
        with np.errstate(all="ignore"):
            bend = np.where(is_sure, rise / (beside - f), bend)
    return bend


def _stepped(at: Array, step: Array, limits: Box) -> Array:
    """Return the point less a step; a value stays where a bound is in its way, as if at that."""
    return np.where(_is_held(at, step, limits), at, at - step)


def _is_held(at: Array, step: Array, limits: Box) -> NDArray[np.bool_]:
    """Return which values have a bound in the way of their step."""
    target = at - step
    with np.errstate(invalid="ignore"):
        is_below = target - limits.lower <= _LEFT * (at - limits.lower)
        is_above = limits.upper - target <= _LEFT * (limits.upper - at)
    # Of infinities neither is a number's comparison: without a bound nothing is in the way.
    is_below &= np.isfinite(limits.lower)
    is_above &= np.isfinite(limits.upper)
    return is_below | is_above


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
