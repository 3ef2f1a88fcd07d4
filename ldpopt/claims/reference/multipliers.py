"""The multiplier of the simplex solutions, read off their largest value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def multiplier(solution: Array, raw: Array, kappa: float) -> Array:
    """Return t of f' = (f̃ + t)/(1 - κt), from the largest value of every vector.

    The largest value is positive, so that the formula holds for it: t = (f' - f̃)/(1 + κf').
    With κ = 0 this is Norm-Sub's δ.

    Parameters
    ----------
    solution
        f', MLE-Apx's answers (Norm-Sub's for κ = 0), shape (..., d).
    raw
        f̃, of the same shape.
    kappa
        κ = b/a, the slope of the variance a + b f over its constant.

    Examples
    --------
    >>> multiplier(np.array([0.75, 0.25]), np.array([0.5, 0.0]), kappa=0.0)
    array(0.25)
    """
    # At a value of zero the clip hides t, and at a small one the quotient would lose digits.
    top = np.argmax(solution, axis=-1, keepdims=True)
    high = np.take_along_axis(solution, top, axis=-1)[..., 0]
    before = np.take_along_axis(raw, top, axis=-1)[..., 0]
    return np.asarray((high - before) / (1 + kappa * high))
