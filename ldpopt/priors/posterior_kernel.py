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
    variance, slope = noise
    result = np.empty((3, len(y)))
    logs = np.empty(len(support))
    for i in range(len(y)):
        base = nearest[i]
        distance = y[i] - base
        at_base = variance + slope * base
        top = -np.inf
        # With u = k - base and t = y - base: (y-k)² - t² = u² - 2ut, whatever the size of y.
        for g in range(len(support)):
            step = support[g] - base
            if slope == 0.0:
                exponent = step * (distance - step / 2) / at_base
            else:
                at_point = variance + slope * support[g]
                excess = (step - 2 * distance) * at_base - distance * distance * slope
                exponent = -excess * step / (2 * at_point * at_base)
                exponent -= 0.5 * np.log(at_point / at_base)
            logs[g] = log_weights[g] + exponent
            top = max(top, logs[g])
        total = 0.0
        first = 0.0
        for g in range(len(support)):
            logs[g] -= top
            if logs[g] > -_NEGLIGIBLE:
                logs[g] = np.exp(logs[g])
                total += logs[g]
                first += logs[g] * support[g]
            else:
                logs[g] = 0.0
        mean = first / total
        # Around the mean: the difference of two large second moments would cancel.
        second = 0.0
        for g in range(len(support)):
            second += logs[g] * (support[g] - mean) ** 2
        result[0, i] = mean
        result[1, i] = second / total
        result[2, i] = top + np.log(total)
    return result
