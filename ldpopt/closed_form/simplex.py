"""Minimisers on the simplex: least squares, the weighted MLE, and the likelihood of GRR's counts.

The first two are max(f̃ + t, 0) up to a common factor, where t solves an equation of one water
level (``water_level``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.closed_form.rows import counts, falling
from ldpopt.closed_form.water_level import fill_to_level, rescaled_to
from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]


def norm_sub(f: Array, total: float | Array = 1.0) -> Array:
    """Return the point of {f' >= 0, Σ f' = total} nearest to f: max(f + δ, 0) (Norm-Sub).

    Sources: N IV-B, IV-C, Appendix A.

    Parameters
    ----------
    f
        Finite values of shape (..., d); -inf marks values that must be zero.
    total
        The sum to reach, >= 0: a number, or one per vector with shape (..., 1).

    Returns
    -------
    Non-negative values of shape (..., d), equal to the exact projection up to rounding of the
    largest result.

    Notes
    -----
    Cost: O(d log d) by sorting; for long vectors about three passes over memory and a sort of the
    few survivors; for stacks of more than 2¹⁹ values one pass, compiled (the first call in a
    process loads numba, half a second).

    Examples
    --------
    >>> norm_sub(np.array([0.5, 0.2, -0.01])).round(3)
    array([0.603, 0.303, 0.093])
    """
    return fill_to_level(f, 0.0, total)


def at_most(f: Array, k: int, total: float = 1.0) -> Array:
    """Return the nearest vector on the simplex with at most k values that are not zero.

    It is Norm-Sub of the k largest values; of equal values the first are kept.

    Parameters
    ----------
    f
        Values of shape (..., d).
    k
        Number of values that may be positive, >= 1.
    total
        The sum to reach, >= 0.

    Notes
    -----
    Cost: a selection, in linear time.

    Examples
    --------
    >>> at_most(np.array([0.5, 0.4, 0.3]), k=2)
    array([0.55, 0.45, 0.  ])
    """
    if k >= f.shape[-1]:
        return norm_sub(f, total)
    smallest = np.partition(f, -k, axis=-1)[..., -k, None]
    is_kept = f > smallest
    left = k - np.count_nonzero(is_kept, axis=-1, keepdims=True)
    is_smallest = f == smallest
    is_kept |= is_smallest & (np.cumsum(is_smallest, axis=-1) <= left)
    return norm_sub(np.where(is_kept, f, -np.inf), total)


def mle_apx(f: Array, kappa: float, total: float = 1.0) -> Array:
    """Return the minimiser of Σ (f'_v - f_v)²/(1 + κ f'_v) over the simplex (MLE-Apx).

    f' = max(f + t, 0)/(1 - κt), where t solves Σ max(f_v + t, 0) + total·κt = total. Sources:
    N IV-D and Appendix B, corrected.

    Parameters
    ----------
    f
        Finite values of shape (..., d) with 1 + κ f_v > 0, which estimates from support counts
        satisfy.
    kappa
        κ > -1, the protocol's ratio b/a.
    total
        The sum to reach, >= 0, with 1 + κ total > 0: always true up to 1.

    Returns
    -------
    Non-negative values of shape (..., d) that sum to ``total``; κ = 0 gives ``norm_sub``.

    Raises
    ------
    InvalidInputError
        If 1 + κ f_v <= 0 somewhere, or 1 + κ total <= 0: the model's variance would be negative.

    Notes
    -----
    Cost: as ``norm_sub``.

    Examples
    --------
    >>> mle_apx(np.array([0.5, 0.2, -0.01]), kappa=0.27).round(3)
    array([0.61 , 0.303, 0.087])
    """
    check_weighted_domain(f, kappa)
    return weighted_projection(f, kappa, total)


def weighted_projection(f: Array, kappa: float, total: float) -> Array:
    """Return ``mle_apx(f, kappa, total)`` where 1 + κ f_v > 0 is known to hold.

    A problem looks at that when it accepts an estimate, and once is enough. A total without a
    closed form raises the error of ``mle_apx``.
    """
    if not 1 + kappa * total > 0:
        raise InvalidInputError(
            f"the weighted MLE has no closed form for a total of {total:g} with kappa = "
            f"{kappa:g}: 1 + kappa total must be > 0"
        )
    # The filled values sum to total·(1 - κt).
    return fill_to_level(f, total * kappa, total, rescaled=True)


def water_filling(share: Array, floor: float, total: float = 1.0) -> Array:
    """Return the maximiser of Σ share_v log(floor + f_v) over {f >= 0, Σf = total}.

    It is max(0, share/ν - floor). With share = c/n and floor = q/(p - q) this is the exact maximum
    likelihood estimate from GRR's counts (Kairouz, Bonawitz, Ramage 2016).

    Parameters
    ----------
    share
        Values >= 0 of shape (..., d), one of them positive.
    floor
        A number > 0.
    total
        The sum to reach, >= 0.

    Notes
    -----
    Cost: a sort. The k values with the largest shares are positive for the largest k with
    share_k/ν > floor, where ν = Σ_k share/(total + k floor).

    Examples
    --------
    >>> water_filling(np.array([0.5, 0.4, 0.1]), floor=0.5).round(3)
    array([0.611, 0.389, 0.   ])
    """
    ordered = falling(share)
    ranks = np.arange(1, share.shape[-1] + 1)
    nu = np.cumsum(ordered, axis=-1)
    nu /= total + ranks * floor
    # At least one value is positive, however small all shares are.
    positive = np.maximum(counts(ordered > nu * floor), 1)
    last = np.atleast_1d(positive - 1)
    level = np.take_along_axis(nu, last, axis=-1)
    filled = np.maximum(share / level - floor, 0.0)
    return rescaled_to(total, filled)


def check_weighted_domain(f: Array, kappa: float) -> None:
    """Raise an error that names the first value where 1 + κ f_v > 0 does not hold."""
    # One pass for the extreme; the mask of all values is needed for the message alone.
    extreme = np.minimum.reduce(f, axis=None) if kappa > 0 else np.maximum.reduce(f, axis=None)
    if not 1 + kappa * extreme > 0:
        at = validate.first(~(1 + kappa * f > 0))
        raise InvalidInputError(
            f"the weighted MLE needs 1 + kappa f > 0, found f = {f[at]:g} at "
            f"{validate.where(at)} with kappa = {kappa:g}: no support count gives such an "
            "estimate; use norm-sub for other vectors"
        )
