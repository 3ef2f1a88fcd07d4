"""The simplex solutions in exact rational arithmetic: slow, and independent of the floating-point closed forms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


def exact_solution(f: NDArray[np.float64], kappa: float) -> NDArray[np.float64]:
    """Return max(f + t, 0)/(1 - κt) with Σ max(f + t, 0) + κt = 1, computed in fractions and rounded once.

    Examples
    --------
    >>> exact_solution(np.array([1e17, 0.2]), kappa=0.0)
    array([1., 0.])
    """
    values, slope = [Fraction(float(x)) for x in f], Fraction(float(kappa))
    running, shift = Fraction(0), Fraction(0)
    for count, value in enumerate(sorted(values, reverse=True), start=1):
        running += value
        candidate = (1 - running) / (count + slope)
        if value + candidate > 0:
            shift = candidate
    lifted = [max(value + shift, Fraction(0)) for value in values]
    total = sum(lifted)
    return np.array([float(x / total) for x in lifted])
