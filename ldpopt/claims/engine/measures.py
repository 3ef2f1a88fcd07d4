"""Numbers that checks compare with a tolerance; NaN stays NaN, which no tolerance lets pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def largest(values: ArrayLike) -> float:
    """Return the largest |x|.

    Python's own ``max(0.0, nan)`` is 0.0: it would hide a closed form that returns NaN.

    Examples
    --------
    >>> largest([0.5, -2.0]), largest([0.5, float("nan")])
    (2.0, nan)
    """
    return float(np.max(np.abs(values)))


def smallest(values: ArrayLike) -> float:
    """Return the smallest x, with its sign.

    Examples
    --------
    >>> smallest([0.5, -2.0])
    -2.0
    """
    return float(np.min(values))


def relative_error(measured: ArrayLike, reference: ArrayLike) -> float:
    """Return the largest relative difference of two arrays, or of an array and a number.

    Examples
    --------
    >>> relative_error([1.0, 3.0], [1.0, 2.0])
    0.5
    """
    return largest(np.asarray(measured) / np.asarray(reference) - 1)


def as_text(values: ArrayLike, digits: int = 3) -> str:
    """Return a vector as text, for the report.

    Examples
    --------
    >>> as_text([0.6, 0.3, 0.0], digits=2)
    '[0.60, 0.30, 0.00]'
    """
    numbers = ", ".join(f"{x:.{digits}f}" for x in np.asarray(values))
    return f"[{numbers}]"
