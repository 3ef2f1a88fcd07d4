"""Methods that keep or zero values: base-pos, base-cut, norm-cut, and norm-hyb, which adjusts the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ldpopt.closed_form.simplex import norm_sub

Array = NDArray[np.float64]


def base_pos(f: Array) -> Array:
    """Return max(f, 0): the nearest non-negative vector (Base-Pos, N IV-A). Shape (..., d); one pass.

    Examples
    --------
    >>> base_pos(np.array([0.7, 0.5, -0.1]))
    array([0.7, 0.5, 0. ])
    """
    return np.maximum(f, 0.0)


def significance_threshold(d: int, sigma: float, alpha: float = 2.0) -> float:
    """Return T = Φ⁻¹(1 - α/d) σ, above which about α values of d that nobody has are expected (N Eq. 9).

    Where α/d >= 1/2 the quantile is not positive and T is 0: negative estimates are never kept.

    Examples
    --------
    >>> round(significance_threshold(d=1024, sigma=0.001), 5)
    0.00289
    """
    return max(0.0, -float(ndtri(min(alpha / d, 0.5))) * sigma)


def kth_highest(f: Array, k: int) -> Array:
    """Return the k-th highest of the values, but at least 0, with shape (..., 1): the threshold of known top k (N V-E)."""
    d = f.shape[-1]
    return np.maximum(np.partition(f, d - k, axis=-1)[..., d - k, None], 0.0)


def base_cut(f: Array, threshold: float | Array) -> Array:
    """Return f where f >= threshold, else 0 (Base-Cut, N IV-A): min ½‖f'-f‖² + ½T²‖f'‖₀ over f' >= 0.

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


def norm_cut(f: Array) -> Array:
    """Return f where f >= θ, else 0, θ > 0 the smallest with Σ_{f>=θ} f <= 1 (Norm-Cut, N IV-B).

    Only positive values count: negative ones never make room. Values tied at the cut stay or go together. If the positive
    values sum to at most 1 all of them stay. A value above 1 cannot stay, and nor can any below it: the result is then 0
    everywhere, by the definition.

    Parameters
    ----------
    f
        Values of shape (..., d). Cost: a sort.

    Examples
    --------
    >>> norm_cut(np.array([0.6, 0.3, 0.2, -0.1]))
    array([0.6, 0.3, 0. , 0. ])
    """
    d = f.shape[-1]
    falling = np.sort(np.maximum(f, 0.0), axis=-1)[..., ::-1]
    with np.errstate(over="ignore"):
        sums = np.cumsum(falling, axis=-1)
    # Estimates that sum to exactly 1 (GRR's do) must not lose one to the d roundings of a running sum.
    fitting = np.count_nonzero(sums <= 1 + d * np.finfo(np.float64).eps, axis=-1, keepdims=True)
    first_out = np.take_along_axis(falling, np.minimum(fitting, d - 1), axis=-1)
    return np.where(f > np.where(fitting < d, first_out, 0.0), f, 0.0)


def norm_hyb(f: Array, threshold: float | Array) -> Array:
    """Keep values at or above the threshold and apply Norm-Sub to the others (Norm-Hyb, D 3.3).

    If the kept values sum to more than 1, only the k highest stay fixed, k the largest number whose sum is below 1 (of
    equal values the first). The others share the remaining mass. Where every value is kept nothing is left to adjust:
    Norm-Sub is then applied to all of them, so that the result always is a distribution.

    Parameters
    ----------
    f
        Values of shape (..., d). Cost: a sort.
    threshold
        T >= 0: a number, or one per vector with shape (..., 1).

    Examples
    --------
    >>> norm_hyb(np.array([0.31, 0.29, 0.29]), threshold=0.3)
    array([0.31 , 0.345, 0.345])
    """
    keep = f >= threshold
    with np.errstate(over="ignore"):
        heavy = np.sum(f, axis=-1, keepdims=True, where=keep) > 1
        if heavy.any():
            order = np.argsort(-f, axis=-1, kind="stable")
            fits = np.cumsum(np.take_along_axis(f, order, axis=-1), axis=-1) < 1
            prefix = np.logical_and.accumulate(fits, axis=-1)
            fitting = np.empty_like(keep)
            np.put_along_axis(fitting, order, prefix, axis=-1)
            keep &= fitting | ~heavy
    keep &= ~keep.all(axis=-1, keepdims=True)
    rest = 1 - np.sum(f, axis=-1, keepdims=True, where=keep)
    return np.where(keep, f, norm_sub(np.where(keep, -np.inf, f), total=np.maximum(rest, 0.0)))
