"""Which counts matter to a posterior: intervals outside of which its mass is negligible."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.noise import CountNoise

Array = NDArray[np.float64]
LogDensity = Callable[[Array], Array]

_DROP = 30.0
"""Nats below the evidence (or the mode) at which counts are left out: e^-30 is 1e-13. A multiple of
log n is added, since there are n counts and each is weighted by up to n in the mean."""

_OUTWARD = 1 + 1e-12  # an interval may not lose its last count to rounding


def around_estimates(
    y: Array, noise: CountNoise, n: int, anchors: tuple[Array, Array], log_evidence_at: Array
) -> tuple[Array, Array]:
    """Return counts (lower, upper) outside of which the posterior of each y is negligible.

    A lower bound of the evidence, from some counts that certainly have mass, limits how unlikely
    an estimate may be under a count that matters: |y - k| <= R s_k.

    Parameters
    ----------
    y
        Estimates, shape (m,).
    noise
        The noise of the estimates.
    n
        Largest count.
    anchors
        Some counts and the logarithms of their probabilities, shape (a,) each.
    log_evidence_at
        Logarithm of the probability of the count nearest to each estimate, shape (m,).
    """
    nearest = nearest_counts(y, n)
    counts, logs = anchors
    terms = logs + noise.log_ratio(y[:, None], counts, nearest[:, None])
    # Both are relative to the density of y under the nearest count.
    evidence = np.maximum(terms.max(axis=1), log_evidence_at)
    variance = noise.variance(nearest)
    distance = (y - nearest) ** 2 / variance
    narrowest = math.log(noise.smallest_sd(n))
    # A count far away has at most the density 1/s_min, against that of the nearest count here.
    height = 0.5 * np.log(variance) - narrowest
    drop = _DROP + math.log(n) + height - evidence
    radius = np.sqrt(distance + 2 * np.maximum(drop, 0))
    # |y - k| = R s_k is a quadratic equation in k where the noise depends on it.
    half_slope = radius * noise.slope / 2
    middle = y + radius * half_slope
    discriminant = np.maximum(noise.variance(y) + half_slope**2, 0)
    half_width = radius * np.sqrt(discriminant) * _OUTWARD
    lower = np.minimum(middle - half_width, nearest)
    upper = np.maximum(middle + half_width, nearest)
    return np.clip(np.floor(lower), 1, n), np.clip(np.ceil(upper), 1, n)


def around_mode(logs: LogDensity, size: int, n: int) -> tuple[Array, Array]:
    """Return counts (lower, upper) outside of which log-concave distributions are negligible.

    Parameters
    ----------
    logs
        From one count for each distribution, shape (size,), to its log-probability up to a
        constant.
    size
        Number of distributions.
    n
        Largest count.
    """
    mode = _modes(logs, size, n)
    floor = logs(mode) - _DROP - 2 * math.log(n)
    return _outermost(logs, floor, mode, 1.0), _outermost(logs, floor, mode, float(n))


def _modes(logs: LogDensity, size: int, n: int) -> Array:
    """Return the count with the largest log-density of each, by bisection of its slope."""
    low, high = np.ones(size), np.full(size, float(n))
    while (high - low > 2).any():
        middle = np.floor((low + high) / 2)
        next_count = np.minimum(middle + 1, n)
        rising = logs(next_count) > logs(middle)
        low = np.where(rising, middle, low)
        high = np.where(rising, high, np.minimum(next_count, high))
    candidates = np.stack([low, np.minimum(low + 1, high), high])
    best = np.stack([logs(k) for k in candidates]).argmax(axis=0)
    return np.asarray(candidates[best, np.arange(size)])


def _outermost(logs: LogDensity, floor: Array, mode: Array, end: float) -> Array:
    """Return a count next to where the log-density falls below the floor, between mode and end."""
    inside = mode
    outside = np.full(len(mode), end)
    while (np.abs(outside - inside) > 1).any():
        middle = np.rint((outside + inside) / 2)
        above = logs(middle) >= floor
        inside = np.where(above, middle, inside)
        outside = np.where(above, outside, middle)
    return outside


def nearest_counts(y: Array, n: int) -> Array:
    """Return the count in 1 .. n next to each estimate."""
    return np.clip(np.rint(y), 1, n)
