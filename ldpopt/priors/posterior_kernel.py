"""Posterior moments under a prior on finitely many counts, compiled. Importing it imports numba.

No array of estimates times counts is held, and exponentials that change no digit are not computed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled

Array = NDArray[np.float64]

# Terms below exp(-100) of the largest: they change no sum of finitely many doubles by a digit.
_NEGLIGIBLE = 100.0


@compiled
def moments(
    y: Array, nearest: Array, support: Array, log_weights: Array, noise: tuple[float, float]
) -> Array:
    """Return the posterior mean and variance, and the log of the sum of terms, shape (3, m).

    A term is π(u) φ(y-u)/φ(y-nearest), so that the last row is the log-evidence less the
    log-density of y at the nearest end of the support.

    Parameters
    ----------
    y, nearest
        Estimates and the nearest counts between the ends of the support, shape (m,).
    support, log_weights
        Counts u, and log π(u), shape (g,).
    noise
        The variance of an estimate of a count of 0, and its growth with the count.
    """
    result = np.empty((3, len(y)))
    logs = np.empty(len(support))
    for i in range(len(y)):
        _log_terms(logs, (y[i], nearest[i]), support, log_weights, noise)
        top = _largest(logs)
        first, last = _ends(logs, top - _NEGLIGIBLE)
        terms = logs[first:last]
        _exponentials(terms, top)
        points = support[first:last]
        ones = np.ones(len(points))
        total = _weighted_sum(terms, ones)
        mean = _weighted_sum(terms, points) / total
        # Around the mean: the difference of two large second moments would cancel.
        squares = (points - mean) ** 2
        result[0, i] = mean
        result[1, i] = _weighted_sum(terms, squares) / total
        result[2, i] = top + np.log(total)
    return result


@compiled
def _log_terms(
    logs: Array,
    at: tuple[float, float],
    support: Array,
    log_weights: Array,
    noise: tuple[float, float],
) -> None:
    """Write the logarithms of all terms of one estimate, given with the nearest count."""
    y, base = at
    variance, slope = noise
    distance = y - base
    at_base = variance + slope * base
    # With u = k - base and t = y - base: (y-k)² - t² = u² - 2ut, whatever the size of y.
    if slope == 0.0:
        for g in range(len(support)):
            step = support[g] - base
            logs[g] = log_weights[g] + step * (distance - step / 2) / at_base
        return
    for g in range(len(support)):
        step = support[g] - base
        at_point = variance + slope * support[g]
        excess = (step - 2 * distance) * at_base - distance * distance * slope
        exponent = -excess * step / (2 * at_point * at_base)
        exponent -= 0.5 * np.log(at_point / at_base)
        logs[g] = log_weights[g] + exponent


@compiled
def _largest(values: Array) -> float:
    """Return the largest value."""
    # Four at a time: a single maximum would wait for each comparison.
    a = b = c = d = -np.inf
    whole = len(values) - len(values) % 4
    for g in range(0, whole, 4):
        a = max(a, values[g])
        b = max(b, values[g + 1])
        c = max(c, values[g + 2])
        d = max(d, values[g + 3])
    for g in range(whole, len(values)):
        a = max(a, values[g])
    return max(a, b, c, d)


@compiled
def _ends(logs: Array, lowest: float) -> tuple[int, int]:
    """Return where the terms begin and end that are above the lowest; one of them is."""
    first = 0
    last = len(logs)
    while not logs[first] > lowest:
        first += 1
    while not logs[last - 1] > lowest:
        last -= 1
    return first, last


@compiled
def _exponentials(terms: Array, top: float) -> None:
    """Replace logarithms by terms over the largest, and negligible ones by 0."""
    for g in range(len(terms)):
        relative = terms[g] - top
        terms[g] = np.exp(relative) if relative > -_NEGLIGIBLE else 0.0


@compiled
def _weighted_sum(terms: Array, values: Array) -> float:
    """Return Σ terms · values."""
    # Four sums at a time: one alone would wait for each addition.
    a = b = c = d = 0.0
    whole = len(terms) - len(terms) % 4
    for g in range(0, whole, 4):
        a += terms[g] * values[g]
        b += terms[g + 1] * values[g + 1]
        c += terms[g + 2] * values[g + 2]
        d += terms[g + 3] * values[g + 3]
    for g in range(whole, len(terms)):
        a += terms[g] * values[g]
    return (a + b) + (c + d)
