"""Normalisations by one number: norm shifts, norm-mul scales."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.closed_form.rows import highest, lowest, sums
from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]

_FAR = 2.0**26  # a mean beyond which less than half the digits of a total near 1 would be left


def norm(f: Array, total: float = 1.0) -> Array:
    """Return f + (total - Σf)/d: the nearest vector with that sum (Norm, N IV-B).

    Shape (..., d); two passes. Rounding is relative to the differences between values.

    Examples
    --------
    >>> norm(np.array([0.7, 0.5, -0.05])).round(2)
    array([ 0.65,  0.45, -0.1 ])
    """
    d = f.shape[-1]
    with np.errstate(over="ignore"):
        mean = sums(f) / d
    near = np.abs(mean) <= _FAR
    # Not true of a mean that overflowed either.
    if not near.all():
        # Only differences count, and a large common part would hide the total from the sum.
        f = np.where(near, f, f - _middle(f))
        # Divided before they are added, which takes an array more, no sum overflows.
        mean = np.where(near, mean, sums(f / d))
    shift = total / d - mean
    return np.asarray(f + shift)


def _middle(f: Array) -> Array:
    """Return the number half way between the lowest and the highest value of each vector."""
    return lowest(f) / 2 + highest(f) / 2  # halved first, because the sum may overflow


def norm_mul(f: Array, total: float = 1.0) -> Array:
    """Return γ max(f, 0) with the sum ``total``: min KL(f' ‖ max(f, 0)) over Σf' = total.

    Source: Norm-Mul, N IV-B.

    Parameters
    ----------
    f
        Values of shape (..., d), at least one of them positive in every vector.
    total
        The sum to reach, >= 0.

    Raises
    ------
    InvalidInputError
        If a vector has no positive value: no factor γ gives it a positive sum.

    Notes
    -----
    Cost: three passes.

    Examples
    --------
    >>> norm_mul(np.array([0.9, 0.6, -0.1]))
    array([0.6, 0.4, 0. ])
    """
    top = highest(f)
    if not (top > 0).all():
        trial = validate.first(~(top > 0))[:-1]
        where = f" in {validate.trial(trial)}" if trial else ""
        raise InvalidInputError(
            f"norm-mul needs a positive estimate, but all are <= 0{where}: use norm-sub instead"
        )
    # In 0 .. 1, so that the sum neither overflows nor vanishes.
    positive = np.maximum(f, 0.0)
    positive /= top
    # In place: on long vectors fresh memory costs more than arithmetic.
    mass = sums(positive)
    positive *= total
    positive /= mass
    return positive
