"""The papers' own algorithms, as their text describes them: for counting, not for use.

Each takes one vector, and only operations that ``reference.operations`` counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_BISECTIONS = 64  # halvings of an interval of length 1 or 2: to the last digit


def bisected_shift(f: Array, total: float = 1.0) -> Array:
    """Return max(f + δ, 0) with sum ``total``: δ by binary search (D 3.6).

    Examples
    --------
    >>> bisected_shift(np.array([0.5, 0.2, -0.01])).round(3)
    array([0.603, 0.303, 0.093])
    """
    top = float(f.max())
    # At low nothing is positive; at high the largest value alone reaches the total.
    low = -top
    high = total - top
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if float(np.maximum(f + middle, 0.0).sum()) > total:
            high = middle
        else:
            low = middle
    return np.maximum(f + high, 0.0)


def bisected_scale(f: Array, kappa: float) -> Array:
    """Return max(f + t, 0)/(1 - κt) with sum 1, κ >= 0: the partition by binary search (D 3.6).

    Examples
    --------
    >>> bisected_scale(np.array([0.5, 0.2, -0.01]), kappa=0.27).round(3)
    array([0.61 , 0.303, 0.087])
    """
    top = float(f.max())
    low = -top
    high = 1.0 - top
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        # Increasing in t, since κ >= 0.
        if float(np.maximum(f + middle, 0.0).sum()) + kappa * middle > 1:
            high = middle
        else:
            low = middle
    return np.maximum(f + high, 0.0) / (1 - kappa * high)


def bisected_cut(f: Array) -> Array:
    """Return f where f >= θ, else 0, θ the smallest with Σ_{f>=θ} f <= 1: by binary search.

    Examples
    --------
    >>> bisected_cut(np.array([0.6, 0.3, 0.2, -0.1]))
    array([0.6, 0.3, 0. , 0. ])
    """
    low = 0.0
    high = max(float(f.max()), 1.0)
    if float(np.maximum(f, 0.0).sum()) <= 1:
        return np.maximum(f, 0.0)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if float(np.where(f >= middle, f, 0.0).sum()) > 1:
            low = middle
        else:
            high = middle
    return np.where(f >= high, f, 0.0)


def repeated_partition(f: Array) -> tuple[Array, int]:
    """Return max(f + δ, 0) with sum 1, and the rounds: negative values leave D1 until none is left.

    N Appendices A and B, D 3.4.

    Examples
    --------
    >>> answer, rounds = repeated_partition(np.array([0.9, 0.5, -0.6]))
    >>> answer.round(3), rounds
    (array([0.7, 0.3, 0. ]), 2)
    """
    active = np.ones(f.shape, dtype=np.bool_)
    rounds = 0
    while True:
        rounds += 1
        size = int(active.sum())
        mass = float(np.where(active, f, 0.0).sum())
        # Over all values, although only those of D1 count: one formula as in the papers.
        shifted = f - (mass - 1) / size
        negative = active & (shifted < 0)
        if not bool(negative.any()):
            return np.where(active, shifted, 0.0), rounds
        active = active & ~negative


def window(y: float, noise: float, n: int, reach: float | None) -> tuple[int, int]:
    """Return the first and last count of the sum.

    Examples
    --------
    >>> window(50.0, noise=10.0, n=1_000, reach=3.0), window(50.0, 10.0, 1_000, None)
    ((20, 80), (1, 1000))
    """
    if reach is None:
        return 1, n
    low = max(1, int(np.ceil(y - reach * noise)))
    high = min(n, int(np.floor(y + reach * noise)))
    return low, high


def mean_over(counts: Array, y: float, noise: float, alpha: float) -> Any:
    """Return Σ k w_k / Σ w_k, w_k = exp(-(k-y)²/(2σ²)) k^(-alpha), over some counts."""
    # Less its largest value below: far from y every weight would underflow.
    exponent = -0.5 * ((counts - y) / noise) ** 2 - alpha * np.log(counts)
    weight = np.exp(exponent - exponent.max())
    return (counts * weight).sum() / weight.sum()
