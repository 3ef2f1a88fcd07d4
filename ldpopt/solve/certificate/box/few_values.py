"""The gap under a largest number of non-zero values, against the best of all supports.

For least squares from f̃ with f >= 0 and a total, the k largest values of f̃ are a best support
(Kyrillidis, Becker, Cevher, Koch 2013). The projection s on it is certified like any other point,
and the loss of f above that of s is ½ Σ (f - s)(f + s - 2 f̃).

Multipliers are those on the support that f has, which say how fast the minimum rises with the total
as long as the support stays. What holds the other values at 0 is the largest number of non-zero
values, which has no multiplier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import at_most
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares, Loss
from ldpopt.solve.certificate.bounds.dual import EPS, with_rounding
from ldpopt.solve.certificate.bounds.evidence import (
    Explanation,
    SizedGap,
    stacked,
    weighted_sum,
)
from ldpopt.solve.certificate.box import box
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]


def best_of_all_supports(
    formulation: Formulation, start: FrequencyEstimate, point: Array
) -> Array | None:
    """Return the gap, or None where no formula for the best support is known."""
    stated = _support_problem(formulation, start)
    if stated is None:
        return None
    target, size, total = stated
    gaps = np.empty(point.shape[:-1])
    for trial in np.ndindex(gaps.shape):
        best = at_most(target[trial], size, total)
        gap = box.gap(_around(best, formulation), start[trial], best)
        gaps[trial] = gap + _difference(point[trial], best, target[trial])
    return np.maximum(gaps, 0.0)


def explanation(formulation: Formulation, start: FrequencyEstimate, point: Array) -> Explanation:
    """Return the multipliers where ``best_of_all_supports`` knows the gap."""
    trials = list(np.ndindex(point.shape[:-1]))
    parts = [
        box.evidence(_around(point[trial], formulation), start[trial], point[trial])
        for trial in trials
    ]
    result = stacked(parts, point.shape[:-1]).explain()
    # Below 0 they are of the bound that stands for the support, which nobody stated.
    return result._replace(bound_multipliers=np.maximum(result.bound_multipliers, 0.0))


def _around(f: Array, formulation: Formulation) -> Formulation:
    """Return the convex problem around one point."""
    return formulation.under(tuple(one.restricted_to(f) for one in formulation.constraints))


def quick_gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> SizedGap | None:
    """Return a bound of the gap in a few passes, or None where no formula is known.

    That is how far the tangent falls to the vertex of the simplex on the best support, which is 0
    at the minimum but for rounding: the point may be anywhere.
    """
    stated = _support_problem(formulation, start)
    if stated is None:
        return None
    target, size, total = stated
    slope = point - target
    cheapest = np.where(_may_be_best(point, target, size), slope, np.inf).min(axis=-1)
    terms = weighted_sum(slope, point)
    return SizedGap(np.maximum(terms - total * cheapest, 0.0), np.abs(terms))


def _may_be_best(point: Array, target: Array, size: int) -> NDArray[np.bool_]:
    """Return values among which a best support is, by the values that the point has, (..., d).

    These are ``size`` values, and those with a higher target than the lowest of them. A best
    support has all values above the ``size``-th highest target t, and any that are equal to t. If
    the lowest target of the point's own values is below t, all of these are above it. If it is t,
    the point has as many of the equal ones as a best support needs, or more.
    """
    has_value = point > 0
    lowest = np.where(has_value, target, np.inf).min(axis=-1)
    is_full = np.count_nonzero(has_value, axis=-1) >= size
    return has_value | (target > np.where(is_full, lowest, -np.inf)[..., None])


def _support_problem(
    formulation: Formulation, start: FrequencyEstimate
) -> tuple[Array, int, float] | None:
    """Return target, largest support and total where the best support is known."""
    target = _target(formulation.loss, start)
    stated = [constraint.largest_support for constraint in formulation.constraints]
    sizes = [size for size in stated if size is not None]
    if target is None or not sizes:
        return None
    region = formulation.region(start.d)
    # Constraints that are neither bounds nor a total nor such a number tie the values.
    if any(constraint.largest_support is None for constraint in region.tied):
        return None
    if not _is_simplex(region):
        return None
    assert region.total is not None  # of every simplex
    return target, min(*sizes, start.d), region.total


def _is_simplex(region: Region) -> bool:
    """Return whether the bounds of a region are f >= 0 with a total."""
    if region.total is None or region.total < 0:
        return False
    return region.lower_is_zero and region.upper_count == 0


def _target(loss: Loss, start: FrequencyEstimate) -> Array | None:
    """Return the point from which a plain squared distance is measured, None for other losses."""
    return loss.target(start) if loss.family is LeastSquares else None  # type: ignore[attr-defined]


def _difference(f: Array, s: Array, target: Array) -> Array:
    """Return ½ Σ (f - s)(f + s - 2 f̃), the loss of f above that of s, rounded up."""
    first, second = f - target, s - target
    terms = (f - s) * (first + second) / 2
    # The factors cancel where f and s are on both sides of the target.
    sizes = np.abs(f - s) * (np.abs(first) + np.abs(second))
    return np.asarray(np.sum(terms) + with_rounding(np.sum(sizes), len(f)) * (len(f) + 8) * EPS)
