"""Gaps of long vectors on a box whose bounds are one number each, in two compiled sweeps.

The first finds the multiplier of the total, the second the gap. Both compute the loss's slopes from
point and estimate, so that nothing of the vectors' size is written. Other losses and bounds are for
``box``, and so is every gap that is more than rounding: it has further multipliers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.competitors import ends_of, reach_of_box
from ldpopt.solve.certificate.dual import usable
from ldpopt.solve.certificate.intervals import Box
from ldpopt.solve.certificate.parts import is_long
from ldpopt.solve.certificate.total_prices import (
    Bound,
    Sums,
    excess_of,
    gap_at,
    is_enough,
    mean_multiplier,
)
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]


def long_bound(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Bound | None:
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
    if any(end.size > 1 for end in (*bounds, *limits)):
        return None
    shape = point.shape[:-1]
    proofs = []
    for trial in np.ndindex(shape):
        proof = _of_trial(formulation, start[trial], point[trial], bounds, limits, region.total)
        if proof is None:
            return None
        proofs.append(proof)
    return Bound(*(np.reshape(column, shape) for column in zip(*proofs, strict=True)))


def _of_trial(
    formulation: Formulation,
    estimate: FrequencyEstimate,
    f: Array,
    bounds: Box,
    limits: Box,
    total: float | None,
) -> tuple[float, float, float] | None:
    """Return multiplier, gap and terms of one trial."""
    # Both import numba.
    from ldpopt.solve.certificate import box_kernels
    from ldpopt.solve.certificate.formulas import Point, formula_of

    lower, upper = (float(end[0]) for end in limits)
    smallest = float(f.min())
    largest = float(f.max())
    # A point outside the bounds widens them: the loss bends between it and its competitors.
    around = Point(estimate, f, smallest, largest, min(lower, smallest), max(upper, largest))
    formula = formula_of(formulation.loss, around)
    if formula is None:
        return None
    ends = (smallest, largest)
    totals = box_kernels.sums(formula, f, ends, float(bounds.lower[0]), float(bounds.upper[0]))
    sums = Sums(*map(np.asarray, totals))
    mu = np.zeros(())
    excess = (np.zeros(()), np.zeros(()))
    if total is not None:
        mu = usable(mean_multiplier(sums))
        excess = excess_of(sums.size, sums.error, total)
    rise = box_kernels.rise(formula, f, float(-mu), lower, upper)
    gap = gap_at(np.asarray(rise), mu, excess)
    # NaN, as of the sums of an infinite slope, is no number that proves anything.
    if not (np.isfinite(sums.terms) and is_enough(gap, mu, excess, sums.terms)):
        return None
    return float(mu), float(gap), float(sums.terms)
