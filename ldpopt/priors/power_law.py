"""Posterior means under a prior over true counts: the power law of Calibrate and Power (K III, N IV-E)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.base import Posterior, Prior

Array = NDArray[np.float64]

_DIRECT = 1 << 12  # terms that a partial zeta sum adds one by one before the Euler-Maclaurin tail
_STEEPEST, _FLATTEST = 60.0, -500.0  # exponents beyond which all mass is on one count in double precision
_REACH = 10.0  # noise standard deviations beyond which a count's weight, exp(-50), is dropped
_CELLS = 1 << 22  # weights held at a time


@dataclass(frozen=True)
class PowerLaw(Prior):
    """π(k) ∝ k^(-alpha) over true counts k = 1 .. n.

    ``alpha = inf`` is the limit with all mass on one user, ``-inf`` the one with all mass on all n.

    Examples
    --------
    >>> round(PowerLaw(alpha=2.0, n=3).mean(), 12)
    1.34693877551
    """

    alpha: float
    n: int

    def mean(self) -> float:
        """Return E[k], between 1 and n. Cost: does not depend on n."""
        if math.isinf(self.alpha):
            return 1.0 if self.alpha > 0 else float(self.n)
        # Powers of k/n where large counts dominate: nothing overflows.
        scale = 1.0 if self.alpha > 0 else float(self.n)
        return scale * _power_sum(self.alpha - 1, self.n, scale) / _power_sum(self.alpha, self.n, scale)

    @classmethod
    def fit_mean(cls, mean: float, n: int) -> PowerLaw:
        """Return the power law with the given mean (K Eq. 17 for one parameter).

        Where none has it (mean <= 1 or >= n) the limiting law is returned, with a warning.

        Examples
        --------
        >>> round(PowerLaw.fit_mean(1.3469387755102042, n=3).alpha, 9)
        2.0
        """
        if mean <= cls(_STEEPEST, n).mean() or mean >= cls(_FLATTEST, n).mean():
            limit = cls(math.inf if mean < (n + 1) / 2 else -math.inf, n)
            if not math.isclose(mean, limit.mean(), rel_tol=1e-9):
                warnings.warn(
                    f"no power law on counts 1 .. {n} has the mean {mean:g} of the estimated counts: the limit with all mass on "
                    f"{limit.mean():g} is used; with this much noise power tells little, consider norm-sub",
                    LdpoptWarning,
                    stacklevel=6,  # through power, the method and postprocess to the caller
                )
            return limit
        from scipy.optimize import brentq  # slow to import, and only fits need it

        return cls(float(brentq(lambda alpha: cls(alpha, n).mean() - mean, _FLATTEST, _STEEPEST, xtol=1e-13)), n)

    @classmethod
    def fit(cls, estimate: FrequencyEstimate, **options: Any) -> PowerLaw:
        """Return the power law whose mean is that of the estimated counts (K Eq. 17)."""
        n, _ = estimate.noise
        return cls.fit_mean(float(np.mean(estimate.frequencies)) * n, n)

    def interval(self, counts: ArrayLike, noise: float, level: float = 0.95) -> tuple[Array, Array]:
        """Not there yet."""
        raise NotImplementedError

    def posterior(self, counts: ArrayLike, noise: float) -> Posterior:
        """Return E[k | y] for estimated counts y = k + N(0, noise²): Σ k π(k) φ((y-k)/s) / Σ π(k) φ((y-k)/s) (K Eq. 7).

        Parameters
        ----------
        counts
            Estimated counts y, any shape; negative ones and ones above n too.
        noise
            Standard deviation s of the noise in counts, > 0.

        Notes
        -----
        Direct summation over all counts up to 10 standard deviations above y: O(y + 10 s) terms a value.
        """
        counts = np.asarray(counts, dtype=np.float64)
        if math.isinf(self.alpha):
            evidence = -0.5 * ((counts - self.mean()) / noise) ** 2 - math.log(noise * math.sqrt(2 * math.pi))
            return Posterior(np.full(counts.shape, self.mean()), np.zeros(counts.shape), evidence)
        y, back = np.unique(counts, return_inverse=True)
        # Far below 0 or above n the weights fall off from the nearest count on.
        last = np.ceil(np.clip(y, 1, self.n) + _REACH * noise).clip(max=self.n).astype(np.int64)
        result, variance, evidence = np.empty_like(y), np.empty_like(y), np.empty_like(y)
        total = math.log(_power_sum(self.alpha, self.n, 1.0) * noise * math.sqrt(2 * math.pi))
        start = 0
        while start < len(y):
            stop = start + max(1, int(np.searchsorted(np.arange(1, len(y) - start + 1) * last[start:], _CELLS)))
            k = np.arange(1, last[min(stop, len(y)) - 1] + 1, dtype=np.float64)
            exponent = -0.5 * ((y[start:stop, None] - k) / noise) ** 2 - self.alpha * np.log(k)
            top = exponent.max(axis=1, keepdims=True)
            weight = np.exp(exponent - top)
            evidence[start:stop] = top[:, 0] + np.log(weight.sum(axis=1)) - total
            weight /= weight.sum(axis=1, keepdims=True)
            result[start:stop] = weight @ k
            variance[start:stop] = np.sum(weight * (k - result[start:stop, None]) ** 2, axis=1)
            start = stop
        shape = counts.shape
        return Posterior(*(part[back].reshape(shape) for part in (result, variance, evidence)))


def _power_sum(alpha: float, n: int, scale: float) -> float:
    """Return Σ_{k=1..n} (k/scale)^(-alpha): the first terms directly, the rest by Euler-Maclaurin."""
    head = np.arange(1, min(n, _DIRECT) + 1) / scale
    total = float(np.sum(head**-alpha))
    if n <= _DIRECT:
        return total
    low, high = _DIRECT / scale, n / scale
    rise = math.log(n / _DIRECT)

    def term(x: float) -> float:  # ½ f + Σ B_2j/(2j)! f^(2j-1), with f' = -alpha f/k and so on, per unit of k
        k = x * scale
        first = -alpha / k
        third = first * (alpha + 1) * (alpha + 2) / k**2
        return float(x**-alpha * (first / 12 + third / -720))

    power = 1 - alpha  # of the integral, written from its larger end: no overflow, no cancellation at 0
    larger, sign = (high, -1) if power > 0 else (low, 1)
    integral = larger**power * (sign * math.expm1(sign * power * rise) / power if power else rise)
    return float(total + scale * integral + 0.5 * (high**-alpha - low**-alpha) + term(high) - term(low))


def power(frequencies: Array, n: int, noise: float) -> Array:
    """Return posterior mean frequencies under a power law fitted to each vector by its mean (Power; N IV-E, K III).

    Parameters
    ----------
    frequencies
        Estimates of shape (..., d).
    n
        Number of users.
    noise
        Standard deviation of an estimate of a value that nobody has, as a frequency.
    """
    d = frequencies.shape[-1]
    # Beyond 10¹² standard deviations the posterior mean is at an end of 1 .. n anyway, and squares stay finite.
    counts = np.clip(frequencies, -1e12 * noise, 1 + 1e12 * noise) * n
    result = np.empty_like(counts)
    for trial in np.ndindex(counts.shape[:-1]):
        mean = float(np.clip(np.sum(frequencies[trial] / d), -1e200, 1e200)) * n
        result[trial] = PowerLaw.fit_mean(mean, n).posterior_mean(counts[trial], noise * n)
    return result / n
