"""The simplex solutions in exact rational arithmetic: slow, and independent of the closed forms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


def exact_solution(f: NDArray[np.float64], kappa: float) -> NDArray[np.float64]:
    """Return f' = max(f + t, 0)/(1 - κt), with t such that Σf' = 1.

    Computed in fractions and rounded once. With κ = 0 it is Norm-Sub, else MLE-Apx.

    Examples
    --------
    >>> exact_solution(np.array([1e17, 0.2]), kappa=0.0)
    array([1., 0.])
    """
    # A double is a fraction: nothing is rounded on the way in.
    values = [Fraction(float(x)) for x in f]
    slope = Fraction(float(kappa))
    # Σ max(f + t, 0) + κt = 1 over the k largest values gives t; the right k is the last one that
    # leaves its own smallest value positive.
    running_sum = Fraction(0)
    shift = Fraction(0)
    for k, value in enumerate(sorted(values, reverse=True), start=1):
        running_sum += value
        candidate = (1 - running_sum) / (k + slope)
        if value + candidate > 0:
            shift = candidate
    lifted = [max(value + shift, Fraction(0)) for value in values]
    total = sum(lifted)  # 1 - κt
    return np.array([float(x / total) for x in lifted])
