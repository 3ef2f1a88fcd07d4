"""Gaps of long vectors on a box, in two compiled sweeps.

The first looks at the point, the second bounds the gap. It computes the loss's slopes from point
and estimate, so that nothing of the vectors' size is written. The multiplier of the total follows
from a part of the values, and from all of them only where that proves less. Other losses are for
``box``, and so is every gap that is more than rounding: it has further multipliers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import Pick, some_blocks, whole
from ldpopt.closed_form.rows import is_long
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.bounds.competitors import domain_of, ends_of, reach_of_box
from ldpopt.solve.certificate.bounds.dual import usable
from ldpopt.solve.certificate.bounds.evidence import is_lost
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.box.total_prices import (
    ROUNDING,
    Bound,
    Moments,
    excess_of,
    gap_at,
    is_enough,
    mean_multiplier,
    negligible,
)
from ldpopt.solve.formulation import Formulation

if TYPE_CHECKING:
    from ldpopt.solve.certificate.box.box_kernels import Seen

Array = NDArray[np.float64]


class LongBound(NamedTuple):
    """A bound, and what its sweeps have seen of f.

    Attributes
    ----------
    bound
        Multiplier, gap and terms.
    seen
        The extremes and the sum of each trial, in the order of a stack that is laid flat.
    outside
        How far a value is outside the bounds, shape (...); None where these differ between values.
    """

    bound: Bound
    seen: tuple[Seen, ...]
    outside: Array | None

    @property
    def size(self) -> Array:
        """Σ f, shape (...)."""
        return np.reshape([one.size for one in self.seen], self.bound.gap.shape)


def long_bound(
    formulation: Formulation, start: FrequencyEstimate, point: Array
) -> LongBound | None:
    """Return gaps that are rounding; None for short vectors, other losses, and larger gaps.

    Parameters
    ----------
    formulation
        A loss on a box with at most one total.
    start, point
        The estimate, and f of its shape.
    """
    if not is_long(start.d):
        return None
    region = formulation.region(start.d)
    bounds = ends_of(region)
    limits = reach_of_box(formulation.loss, start, region)
    shape = point.shape[:-1]
    proofs = []
    seen = []
    for trial in np.ndindex(shape):
        proof = _of_trial(formulation, start[trial], point[trial], bounds, limits, region.total)
        if proof is None:
            return None
        *numbers, seen_of_trial = proof
        proofs.append(numbers)
        seen.append(seen_of_trial)
    bound = Bound(*(np.reshape(column, shape) for column in zip(*proofs, strict=True)))
    outside = None
    if all(len(end) == 1 for end in bounds):
        smallest, largest, _, _ = np.transpose(seen)
        farthest = np.maximum(bounds.lower - smallest, largest - bounds.upper)
        outside = np.asarray(np.maximum(farthest, 0.0)).reshape(shape)
    return LongBound(bound, tuple(seen), outside)


def least_stake(
    formulation: Formulation, start: FrequencyEstimate, point: Array, seen: Seen | None = None
) -> float | None:
    """Return a lower bound of Σ |g_v f_v| + |L(0) - L(f)| of one long vector, in one sweep.

    A convex loss is at least L(f) - g·f + ½ Σ m_v f_v² at 0, with curvatures m that hold between 0
    and f. So the bound is ½ Σ m_v f_v²: it needs no value of the loss, and does not vanish with the
    slopes. A loss that is not convex has a number only where all slopes are 0: then the gap of its
    convex part is 0 as well, and any scale is right. None otherwise, for short vectors, several,
    other losses, where L(0) is infinite, and where the slopes are lost, as in ``vanishes``.

    ``seen`` is what a look at the point has seen, if there was one.
    """
    if point.ndim > 1 or not is_long(start.d):
        return None
    # Both import numba.
    from ldpopt.solve.certificate.box import box_kernels
    from ldpopt.solve.certificate.box.formulas import Point, formula_of

    first, last = domain_of(formulation.loss, start)
    if not first < 0 < last:
        return None
    ends = None if seen is None else (seen.smallest, seen.largest)
    around = Point(start, point, (0.0, 0.0), ends)
    formula = formula_of(formulation.loss, around)
    if formula is None or formula.kind == box_kernels.LOGARITHMS:
        return None
    size, steepest = box_kernels.stake(formula, point)
    if steepest > 0 and not formulation.loss.convex:
        return None
    farthest = max(around.largest, -around.smallest)
    return None if is_lost(steepest, farthest) else size


def _of_trial(
    formulation: Formulation,
    estimate: FrequencyEstimate,
    f: Array,
    bounds: Box,
    limits: Box,
    total: float | None,
) -> tuple[float, float, float, Seen] | None:
    """Return multiplier, gap and terms of one trial, and what was seen of it."""
    # Both import numba.
    from ldpopt.solve.certificate.box import box_kernels
    from ldpopt.solve.certificate.box.formulas import Point, formula_of, may_have_formula

    if not may_have_formula(formulation.loss):
        return None
    seen = box_kernels.look_at(f)
    # A point outside the bounds widens them: the loss bends between it and its competitors.
    further = (float(limits.lower.min()), float(limits.upper.max()))
    around = Point(estimate, f, further, (seen.smallest, seen.largest))
    formula = formula_of(formulation.loss, around)
    if formula is None:
        return None
    # Which values tell the price, and which share of the terms is then a small gap.
    looks: list[tuple[Pick, float]] = [(whole, negligible(len(f)))]
    excess = (np.zeros(()), np.zeros(()))
    if total is not None:
        excess = excess_of(np.asarray(seen.size), np.asarray(seen.error), total)
        # At a minimum all values that no bound holds have one slope: a part of them tells it.
        looks.insert(0, (some_blocks, ROUNDING))
    for pick, share in looks:
        mu = np.zeros(())
        if total is not None:
            some = Box(*(end if len(end) == 1 else pick(end) for end in bounds))
            sums = box_kernels.moments(formula.at(pick), pick(f), seen.smallest, some)
            mass, _, free, _ = sums
            if pick is some_blocks and mass == free == 0:
                # All of its values are at their bounds, where slopes say nothing of the price.
                continue
            mu = usable(mean_multiplier(Moments(*map(np.asarray, sums))))
        rise, terms = box_kernels.rise(formula, f, float(-mu), limits)
        gap = gap_at(np.asarray(rise), mu, excess)
        # NaN, as of the sums of an infinite slope, is no number that proves anything.
        if np.isfinite(terms) and is_enough(gap, mu, excess, np.asarray(share * terms)):
            return float(mu), float(gap), terms, seen
    return None
