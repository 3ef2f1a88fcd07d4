"""Methods that keep or zero values: base-pos, base-cut, norm-cut, and norm-hyb."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.closed_form.rows import LARGE, counts, falling, locked_rows
from ldpopt.closed_form.simplex import norm_sub

Array = NDArray[np.float64]

Crossing = Literal["cut", "keep"]
"""What Norm-Cut does with the value at which the sum exceeds 1."""


def base_pos(f: Array) -> Array:
    """Return max(f, 0): the nearest non-negative vector (Base-Pos, N IV-A).

    Shape (..., d); one pass.

    Examples
    --------
    >>> base_pos(np.array([0.7, 0.5, -0.1]))
    array([0.7, 0.5, 0. ])
    """
    return np.maximum(f, 0.0)


def significance_threshold(d: int, sigma: float, alpha: float = 2.0) -> float:
    """Return T = Φ⁻¹(1 - α/d) σ, above which about α values of d without users lie (N Eq. 9).

    Where α/d >= 1/2 the quantile is not positive and T is 0: negative estimates are never kept.

    Parameters
    ----------
    d
        Number of values, a whole number.
    sigma
        Standard error of an estimate of a value without users, as ``estimate.sigma``.
    alpha
        Expected number of values without users above T, > 0: a number of values, no probability.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If d is no whole number >= 1, or sigma and alpha are no finite numbers > 0: an estimate's
        ``sigma`` in the place of d would give the threshold 0.

    Examples
    --------
    >>> round(significance_threshold(d=1024, sigma=0.001), 5)
    0.00289
    """
    d = validate.integer("d (the number of values)", d, minimum=1)
    sigma = validate.real("sigma", sigma, above=0)
    alpha = validate.real("alpha", alpha, above=0)
    from scipy.special import ndtri  # slow to import

    share = min(alpha / d, 0.5)
    # -Φ⁻¹(α/d) instead of Φ⁻¹(1 - α/d): the difference from 1 would lose the digits of a small α/d.
    quantile = -float(ndtri(share))
    return max(0.0, quantile * sigma)


def kth_highest(f: Array, k: int) -> Array:
    """Return the k-th highest of the values, at least 0, shape (..., 1).

    It is the threshold of the known top k (N V-E).
    """
    # Ascending: the k-th highest is k places before the end.
    place = f.shape[-1] - k
    ordered = np.partition(f, place, axis=-1)
    highest = ordered[..., place, None]
    return np.maximum(highest, 0.0)


def base_cut(f: Array, threshold: float | Array) -> Array:
    """Return f where f >= threshold, else 0: min ½‖f'-f‖² + ½T²‖f'‖₀ over f' >= 0.

    Source: Base-Cut, N IV-A.

    Parameters
    ----------
    f
        Values of shape (..., d).
    threshold
        T >= 0: a number, or one per vector with shape (..., 1).

    Examples
    --------
    >>> base_cut(np.array([0.7, 0.05, -0.1]), threshold=0.1)
    array([0.7, 0. , 0. ])
    """
    return np.where(f >= threshold, f, 0.0)


def norm_cut(f: Array, crossing: Crossing = "cut") -> Array:
    """Return f where f >= θ, else 0, θ > 0 the smallest with Σ_{f>=θ} f <= 1 (Norm-Cut, N IV-B).

    Only positive values count: negative ones do not offset them. Values tied at the cut stay or go
    together. If the positive values sum to at most 1 all of them stay. A value above 1 cannot stay,
    and nor can any below it: the result is then 0 everywhere, by the definition.

    Parameters
    ----------
    f
        Values of shape (..., d).
    crossing
        ``"cut"`` follows N's words. ``"keep"`` does what the code that drew N's figures does: it
        keeps the value at which the sum of the largest ones exceeds 1, and multiplies the result so
        that it sums to 1. Where the sum never exceeds 1 it cuts nothing: negative values stay, and
        are scaled too. Of equal values at the cut the first in f is kept first.

    Notes
    -----
    Cost: a sort; above 2¹⁹ values a search that is linear, compiled.

    Examples
    --------
    >>> f = np.array([0.6, 0.3, 0.2, -0.1])
    >>> norm_cut(f)
    array([0.6, 0.3, 0. , 0. ])
    >>> norm_cut(f, crossing="keep").round(3)
    array([0.545, 0.273, 0.182, 0.   ])
    """
    if crossing == "keep":
        return _cut_behind_crossing(f)
    d = f.shape[-1]
    # Estimates that sum to exactly 1 (GRR's do) must not lose one to the roundings of d additions.
    limit = 1 + d * float(np.finfo(np.float64).eps)
    if f.size > LARGE:
        from ldpopt.closed_form.row_kernels import cut_rows  # imports numba

        rows = locked_rows(f)
        result = np.empty(rows.shape)
        cut_rows(rows, limit, result)
        return result.reshape(f.shape)
    positive = falling(np.maximum(f, 0.0))
    with np.errstate(over="ignore"):
        running = np.cumsum(positive, axis=-1)
    fitting = counts(running <= limit)
    place = np.atleast_1d(np.minimum(fitting, d - 1))
    first_out = np.take_along_axis(positive, place, axis=-1)
    cut = np.where(fitting < d, first_out, 0.0)
    return np.where(f > cut, f, 0.0)


def _cut_behind_crossing(f: Array) -> Array:
    """Return the largest values up to the one at which their sum exceeds 1, scaled to a sum of 1.

    The quotient is not finite where no value crosses and all of them sum to 0.
    """
    order = np.argsort(-f, axis=-1, kind="stable")
    running = np.cumsum(np.take_along_axis(f, order, axis=-1), axis=-1)
    has_crossed = np.logical_or.accumulate(running > 1, axis=-1)
    # One place later: the value that crosses is itself still kept.
    is_behind = np.zeros(f.shape, dtype=np.bool_)
    is_behind[..., 1:] = has_crossed[..., :-1]
    dropped = np.empty(f.shape, dtype=np.bool_)
    np.put_along_axis(dropped, order, is_behind, axis=-1)
    kept = np.where(dropped, 0.0, f)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(kept / np.sum(kept, axis=-1, keepdims=True))


def zero_first(f: Array) -> Array:
    """Return Norm-Sub of the positive values alone; the others become 0 and stay 0.

    That is what N IV-B's words state and what the code that drew N's figures does. It is Norm-Sub
    itself where the positive values sum to at least 1: there no value is raised. Elsewhere Norm-Sub
    lifts values near 0 too, and this result is not the nearest distribution.

    Parameters
    ----------
    f
        Values of shape (..., d), at least one of each vector positive.

    Notes
    -----
    Cost: that of ``norm_sub``.

    Examples
    --------
    >>> f = np.array([0.5, 0.2, -0.01])
    >>> zero_first(f).round(3), norm_sub(f).round(3)
    (array([0.65, 0.35, 0.  ]), array([0.603, 0.303, 0.093]))
    """
    positive = np.where(f > 0, f, -np.inf)
    return norm_sub(positive)


def norm_hyb(f: Array, threshold: float | Array) -> Array:
    """Keep values at or above the threshold and apply Norm-Sub to the others (Norm-Hyb, D 3.3).

    If the kept values sum to more than 1, only the k highest stay fixed, k the largest number whose
    sum is below 1 (of equal values the first). The others share the remaining mass. Where every
    value is kept nothing is left to adjust: Norm-Sub is then applied to all of them, so that the
    result always is a distribution.

    Parameters
    ----------
    f
        Values of shape (..., d).
    threshold
        T >= 0: a number, or one per vector with shape (..., 1).

    Notes
    -----
    Cost: a sort.

    Examples
    --------
    >>> norm_hyb(np.array([0.31, 0.29, 0.29]), threshold=0.3)
    array([0.31 , 0.345, 0.345])
    """
    keep = kept_by_norm_hyb(f, threshold)
    rest = 1 - np.sum(f, axis=-1, keepdims=True, where=keep)
    rest = np.maximum(rest, 0.0)
    # Kept values take no part in the others' Norm-Sub.
    others = np.where(keep, -np.inf, f)
    adjusted = norm_sub(others, total=rest)
    return np.where(keep, f, adjusted)


def kept_by_norm_hyb(f: Array, threshold: float | Array) -> NDArray[np.bool_]:
    """Return which values ``norm_hyb`` leaves as they are, shape (..., d).

    Examples
    --------
    >>> kept_by_norm_hyb(np.array([0.31, 0.29, 0.29]), threshold=0.3)
    array([ True, False, False])
    """
    keep = f >= threshold
    with np.errstate(over="ignore"):
        kept_sum = np.sum(f, axis=-1, keepdims=True, where=keep)
        is_heavy = kept_sum > 1
        if is_heavy.any():
            keep &= _that_fit(f) | ~is_heavy
    keeps_all = keep.all(axis=-1, keepdims=True)
    return keep & ~keeps_all


def _that_fit(f: Array) -> NDArray[np.bool_]:
    """Return where the k highest values are, k the largest number whose sum is below 1."""
    order = np.argsort(-f, axis=-1, kind="stable")
    ordered = np.take_along_axis(f, order, axis=-1)
    running = np.cumsum(ordered, axis=-1, out=ordered)
    # Negative values bring a sum below 1 again: those after the first that does not fit are out.
    prefix = np.logical_and.accumulate(running < 1, axis=-1)
    fitting = np.empty(f.shape, dtype=np.bool_)
    np.put_along_axis(fitting, order, prefix, axis=-1)
    return fitting
