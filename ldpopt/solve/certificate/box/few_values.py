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
    shape = point.shape[:-1]
    f = point.reshape(-1, start.d)
    before = np.broadcast_to(target, point.shape).reshape(f.shape)
    # Slopes are looked at where they count alone: of a long vector that is a small part.
    trial, value = _places(f != 0)
    moment = (f[trial, value] - before[trial, value]) * f[trial, value]
    terms = np.bincount(trial, moment, minlength=len(f))
    gap = np.maximum(terms - total * _cheapest(f, before, size), 0.0)
    return SizedGap(gap.reshape(shape), np.abs(terms).reshape(shape))


def _cheapest(f: Array, before: Array, size: int) -> Array:
    """Return the lowest slope f - f̃ among values that hold a best support, shape (trials,).

    These are the values of the point, and those with a higher target than the lowest of them. A
    best support has all values above the ``size``-th highest target t, and any that are equal to t.
    If the lowest target of the point's own values is below t, all of these are above it. If it is
    t, the point has as many of the equal ones as a best support needs, or more.
    """
    trial, value = _places(f > 0)
    cheapest = np.full(len(f), np.inf)
    np.minimum.at(cheapest, trial, f[trial, value] - before[trial, value])
    lowest = np.full(len(f), np.inf)
    np.minimum.at(lowest, trial, before[trial, value])
    is_full = np.bincount(trial, minlength=len(f)) >= size
    # A point with fewer values may get any others.
    for row in np.flatnonzero(~is_full):
        lowest[row] = np.inf
        cheapest[row] = (f[row] - before[row]).min()
    trial, value = _places(before > lowest[:, None])
    np.minimum.at(cheapest, trial, f[trial, value] - before[trial, value])
    return cheapest


def _places(chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and columns of what is chosen of a table."""
    # On one axis numpy takes a tenth of the time that it takes on two.
    rows, columns = np.divmod(np.flatnonzero(chosen), chosen.shape[-1])
    return rows, columns


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
