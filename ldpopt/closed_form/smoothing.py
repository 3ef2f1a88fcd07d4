"""Weighted means over time of a quantity that drifts: a random walk seen through noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Drifts over the noise that count as none, and as one that leaves each time alone.
_NO_DRIFT = 1e-5
_FREE = 1e6


def random_walk_weights(precisions: Array, drifts: Array) -> Array:
    """Return what the best linear estimate of each time takes from the measurement of each.

    With measurements y_t = f_t + noise of precision w_t, and steps f_{t+1} - f_t of standard
    deviation τ, the estimates are (W + DᵀD/τ²)⁻¹ W y, with D the differences of neighbours. Rows
    sum to 1: without drift all are the weighted mean, with an infinite one the measurements
    themselves.

    Parameters
    ----------
    precisions
        w > 0, shape (T,).
    drifts
        τ >= 0, infinity included, shape (k,).

    Returns
    -------
    Weights of shape (k, T, T): row t is for time t.

    Examples
    --------
    >>> random_walk_weights(np.array([1.0, 3.0]), np.array([0.0, 1.0, np.inf])).round(2).tolist()
    [[[0.25, 0.75], [0.25, 0.75]], [[0.57, 0.43], [0.14, 0.86]], [[1.0, 0.0], [0.0, 1.0]]]
    """
    times = len(precisions)
    steps = np.diff(np.eye(times), axis=0)
    weights = np.empty((len(drifts), times, times))
    # In units of the noise; beyond these bounds the system has too few digits, and no need of them.
    relative = drifts * np.sqrt(precisions.max())
    weights[relative <= _NO_DRIFT] = precisions / precisions.sum()
    weights[relative >= _FREE] = np.eye(times)
    between = (relative > _NO_DRIFT) & (relative < _FREE)
    # Times τ², so that a small drift does not make the other term large.
    measured = drifts[between, None, None] ** 2 * np.diag(precisions)
    weights[between] = np.linalg.solve(measured + steps.T @ steps, measured)
    return weights


def random_walk_spread(weights: Array, drifts: Array) -> Array:
    """Return the variance that drift adds to each estimate: what others measured was not yet so.

    Parameters
    ----------
    weights, drifts
        As of ``random_walk_weights``.

    Returns
    -------
    Variances of shape (k, T): zero where there is no drift, or nothing is taken from other times.
    """
    times = weights.shape[-1]
    # The step between j and j + 1 lies between time t and all measurements beyond it.
    after = weights[..., ::-1].cumsum(axis=-1)[..., ::-1][..., 1:]
    before = weights.cumsum(axis=-1)[..., :-1]
    is_after = np.arange(times - 1) >= np.arange(times)[:, None]
    crossed = np.where(is_after, after, before)
    # A drift that leaves each time alone is crossed by no weight.
    finite = np.where(np.any(crossed != 0, axis=(1, 2)), drifts, 0.0)
    return np.asarray(finite[:, None] ** 2 * np.sum(crossed**2, axis=-1))
