"""The gap under a largest number of non-zero values, against the best of all supports.

For least squares from f̃ with f >= 0 and a total, the k largest values of f̃ are a best support
(Kyrillidis, Becker, Cevher, Koch 2013). The projection s on it is certified like any other point,
and the loss of f above that of s is ½ Σ (f - s)(f + s - 2 f̃).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import at_most
from ldpopt.constraints import Fixed
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares, Loss
from ldpopt.solve.certificate import box
from ldpopt.solve.certificate.dual import EPS, with_rounding
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]


def best_of_all_supports(
    formulation: Formulation, start: FrequencyEstimate, point: Array
) -> Array | None:
    """Return the gap, or None where no formula for the best support is known."""
    loss = formulation.loss
    target = _target(loss, start)
    stated = [constraint.largest_support for constraint in formulation.constraints]
    sizes = [size for size in stated if size is not None]
    relaxed = Formulation(loss, formulation.convex_constraints)
    region = relaxed.region(start.d)
    if target is None or not sizes or not _is_simplex(region):
        return None
    assert region.total is not None  # of every simplex
    gaps = np.empty(point.shape[:-1])
    for trial in np.ndindex(gaps.shape):
        best = at_most(target[trial], min(sizes), region.total)
        zeros = np.flatnonzero(best == 0)
        on_support = Formulation(loss, (*relaxed.constraints, Fixed(zeros, np.zeros(len(zeros)))))
        gaps[trial] = box.gap(on_support, start[trial], best) + _difference(
            point[trial], best, target[trial]
        )
    return np.maximum(gaps, 0.0)


def _is_simplex(region: Region) -> bool:
    """Return whether a region is f >= 0 with a total."""
    if not region.is_box or region.total is None or region.total < 0:
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
