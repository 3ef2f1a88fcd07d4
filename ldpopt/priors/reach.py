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
    y: Array,
    noise: CountNoise,
    n: int,
    anchors: tuple[Array, Array],
    log_evidence_at: Array,
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
    ratios = noise.log_ratio(y[:, None], counts, nearest[:, None])
    # Both bounds are relative to the density of y under the nearest count.
    by_anchors = (logs + ratios).max(axis=1)
    evidence = np.maximum(by_anchors, log_evidence_at)
    radius = _radius(y, nearest, evidence, noise, n)
    # |y - k| = R s_k is a quadratic equation in k where the noise depends on it.
    half_slope = radius * noise.slope / 2
    middle = y + radius * half_slope
    discriminant = noise.variance(y) + half_slope**2
    discriminant = np.maximum(discriminant, 0)
    half_width = radius * np.sqrt(discriminant) * _OUTWARD
    lower = np.minimum(middle - half_width, nearest)
    upper = np.maximum(middle + half_width, nearest)
    lower = np.clip(np.floor(lower), 1, n)
    upper = np.clip(np.ceil(upper), 1, n)
    return lower, upper


def _radius(
    y: Array,
    nearest: Array,
    evidence: Array,
    noise: CountNoise,
    n: int,
) -> Array:
    """Return R, in standard deviations: counts k with |y - k| > R s_k are negligible.

    The evidence is a lower bound, relative to the density of y under the nearest count.
    """
    variance = noise.variance(nearest)
    squared_distance = (y - nearest) ** 2 / variance
    # A count far away has at most the density 1/s_min, against that of the nearest count here.
    narrowest = math.log(noise.smallest_sd(n))
    height = 0.5 * np.log(variance) - narrowest
    drop = _DROP + math.log(n) + height - evidence
    drop = np.maximum(drop, 0)
    return np.asarray(np.sqrt(squared_distance + 2 * drop))


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
    lower = _outermost(logs, floor, mode, 1.0)
    upper = _outermost(logs, floor, mode, float(n))
    return lower, upper


def _modes(logs: LogDensity, size: int, n: int) -> Array:
    """Return the count with the largest log-density of each, by bisection of its slope."""
    low = np.ones(size)
    high = np.full(size, float(n))
    while (high - low > 2).any():
        middle = np.floor((low + high) / 2)
        next_count = np.minimum(middle + 1, n)
        is_rising = logs(next_count) > logs(middle)
        fallen = np.minimum(next_count, high)
        low = np.where(is_rising, middle, low)
        high = np.where(is_rising, high, fallen)
    # At most three counts are left.
    between = np.minimum(low + 1, high)
    candidates = np.stack([low, between, high])
    values = np.stack([logs(k) for k in candidates])
    best = values.argmax(axis=0)
    return np.asarray(candidates[best, np.arange(size)])


def _outermost(
    logs: LogDensity,
    floor: Array,
    mode: Array,
    end: float,
) -> Array:
    """Return a count next to where the log-density falls below the floor, between mode and end."""
    inside = mode
    outside = np.full(len(mode), end)
    while (np.abs(outside - inside) > 1).any():
        middle = np.rint((outside + inside) / 2)
        is_inside = logs(middle) >= floor
        inside = np.where(is_inside, middle, inside)
        outside = np.where(is_inside, outside, middle)
    return outside


def nearest_counts(y: Array, n: int) -> Array:
    """Return the count in 1 .. n next to each estimate."""
    return np.clip(np.rint(y), 1, n)
