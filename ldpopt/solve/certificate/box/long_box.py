"""Gaps of long vectors on a box, in two compiled sweeps.

The first finds the multiplier of the total, the second the gap. Both compute the loss's slopes from
point and estimate, so that nothing of the vectors' size is written. Other losses are for ``box``,
and so is every gap that is more than rounding: it has further multipliers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import is_long
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.bounds.competitors import domain_of, ends_of, reach_of_box
from ldpopt.solve.certificate.bounds.dual import usable
from ldpopt.solve.certificate.bounds.evidence import is_lost
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.box.total_prices import (
    Bound,
    Sums,
    excess_of,
    gap_at,
    is_enough,
    mean_multiplier,
    negligible,
)
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]


class LongBound(NamedTuple):
    """A bound, and what its sweeps have seen of f.

    Attributes
    ----------
    bound
        Multiplier, gap and terms.
    size
        Σ f, shape (...).
    outside
        How far a value is outside the bounds, shape (...); None where these differ between values.
    """

    bound: Bound
    size: Array
    outside: Array | None


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
    for trial in np.ndindex(shape):
        proof = _of_trial(formulation, start[trial], point[trial], bounds, limits, region.total)
        if proof is None:
            return None
        proofs.append(proof)
    *bound, size, smallest, largest = (
        np.reshape(column, shape) for column in zip(*proofs, strict=True)
    )
    outside = None
    if all(len(end) == 1 for end in bounds):
        farthest = np.maximum(bounds.lower - smallest, largest - bounds.upper)
        outside = np.asarray(np.maximum(farthest, 0.0)).reshape(shape)
    return LongBound(Bound(*bound), size, outside)


def least_stake(formulation: Formulation, start: FrequencyEstimate, point: Array) -> float | None:
    """Return a lower bound of Σ |g_v f_v| + |L(0) - L(f)| of one long vector, in one sweep.

    A convex loss is at least L(f) - g·f + ½ Σ m_v f_v² at 0, with curvatures m that hold between 0
    and f. So the bound is ½ Σ m_v f_v²: it needs no value of the loss, and does not vanish with the
    slopes. A loss that is not convex has a number only where all slopes are 0: then the gap of its
    convex part is 0 as well, and any scale is right. None otherwise, for short vectors, several,
    other losses, where L(0) is infinite, and where the slopes are lost, as in ``vanishes``.
    """
    if point.ndim > 1 or not is_long(start.d):
        return None
    # Both import numba.
    from ldpopt.solve.certificate.box import box_kernels
    from ldpopt.solve.certificate.box.formulas import Point, formula_of

    first, last = domain_of(formulation.loss, start)
    if not first < 0 < last:
        return None
    around = Point(start, point, (0.0, 0.0))
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
) -> tuple[float, float, float, float, float, float] | None:
    """Return multiplier, gap, terms, sum, smallest and largest value of one trial."""
    # Both import numba.
    from ldpopt.solve.certificate.box import box_kernels
    from ldpopt.solve.certificate.box.formulas import Point, formula_of

    # A point outside the bounds widens them: the loss bends between it and its competitors.
    around = Point(estimate, f, (float(limits.lower.min()), float(limits.upper.max())))
    formula = formula_of(formulation.loss, around)
    if formula is None:
        return None
    ends = (around.smallest, around.largest)
    sums = Sums(*map(np.asarray, box_kernels.sums(formula, f, ends, bounds)))
    mu = np.zeros(())
    excess = (np.zeros(()), np.zeros(()))
    if total is not None:
        mu = usable(mean_multiplier(sums))
        excess = excess_of(sums.size, sums.error, total)
    rise = box_kernels.rise(formula, f, float(-mu), limits)
    gap = gap_at(np.asarray(rise), mu, excess)
    limit = negligible(len(f)) * sums.terms
    # NaN, as of the sums of an infinite slope, is no number that proves anything.
    if not (np.isfinite(sums.terms) and is_enough(gap, mu, excess, limit)):
        return None
    return float(mu), float(gap), float(sums.terms), float(sums.size), *ends
