"""The power law of Calibrate and Power (K III, N IV-E)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.density import FAR, Density, Noise, point
from ldpopt.priors.fitting import Kind
from ldpopt.priors.many import many_means
from ldpopt.priors.trouble import warn
from ldpopt.priors.zeta import log_power_sum

Array = NDArray[np.float64]

_STEEPEST, _FLATTEST = (
    60.0,
    -60.0,
)  # exponents, the latter per count: beyond them all mass is on one count in double precision


@dataclass(frozen=True)
class PowerLaw(Density):
    """π(k) ∝ k^(-alpha) over true counts k = 1 .. n.

    ``alpha = inf`` is the limit with all mass on one user, ``-inf`` the one with all mass on all n. An error is raised where
    alpha is no number or n < 1.

    Examples
    --------
    >>> round(PowerLaw(alpha=2.0, n=3).mean(), 12)
    1.34693877551
    """

    alpha: float
    n: int

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, float) or not math.isinf(self.alpha):
            object.__setattr__(self, "alpha", validate.real("alpha", self.alpha))
        object.__setattr__(
            self, "n", validate.integer("n (the number of reports)", self.n, minimum=1)
        )

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        if math.isinf(self.alpha):
            return point(k, 1.0 if self.alpha > 0 else float(self.n))
        return np.asarray(-self.alpha * np.log(k))

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the first."""
        return np.array([2.0, self.n]) if math.isinf(self.alpha) else np.empty(0)

    @cached_property
    def _mass(self) -> tuple[float, float, float]:
        if math.isinf(self.alpha):
            return 0.0, 1.0 if self.alpha > 0 else float(self.n), 0.0
        total, first, second = log_power_sum(self.alpha - np.arange(3), self.n)
        mean = math.exp(first - total)
        return float(total), mean, max(math.exp(second - total) - mean**2, 0.0)

    # --- fits ---------------------------------------------------------------------------------------------------------

    @classmethod
    def parameters(cls) -> Mapping[str, Kind]:
        """Return what a fit determines."""
        return {"alpha": "real"}

    @classmethod
    def from_moments(cls, mean: float, variance: float, n: int) -> PowerLaw:
        """Return the power law with this mean; the variance is not used. Warnings as of ``fit_mean``."""
        return cls.fit_mean(mean, n)

    @classmethod
    def fit_mean(cls, mean: float, n: int) -> PowerLaw:
        """Return the power law with the given mean (K Eq. 17 for one parameter).

        A mean above (n+1)/2, that of equal weights, has a rising law, alpha < 0; a mean below 1 or above n has none, and the
        limit next to it is returned. Both come with a warning.

        Examples
        --------
        >>> round(PowerLaw.fit_mean(1.3469387755102042, n=3).alpha, 9)
        2.0
        """
        alpha = float(exponents(np.array([mean]), n)[0])
        _explain(np.array([mean]), np.array([alpha]), n)
        return cls(alpha, n)

    @classmethod
    def fitted_means(cls, estimate: FrequencyEstimate, slope: float) -> Array:
        """Return posterior mean counts with an exponent for each trial: their curves are interpolated in alpha as well."""
        n, _ = estimate.noise
        f = estimate.frequencies.reshape(-1, estimate.d)
        # Beyond 10¹² standard deviations a posterior mean is at an end of 1 .. n anyway, and squares stay finite.
        far = FAR * estimate.sigma
        means = np.clip(np.sum(f / estimate.d, axis=1), -1e200, 1e200) * n
        alphas = exponents(means, n)
        _explain(means, alphas, n)
        counts = np.clip(f, -far, 1 + far) * n
        noise = Noise.checked(estimate.sigma * n, slope, n, counts)
        limit = np.isinf(alphas)
        result = np.empty_like(counts)
        result[limit] = np.where(alphas[limit] > 0, 1.0, float(n))[:, None]
        result[~limit] = many_means(
            lambda alpha: cls(alpha, n), counts[~limit], alphas[~limit], noise, n
        )
        return result.reshape(estimate.frequencies.shape)


def exponents(means: Array, n: int) -> Array:
    """Return the exponent of the power law on 1 .. n with each mean; ``inf`` or ``-inf`` where none has it.

    Bracketed by a table, then regula falsi (Illinois) on the logarithm of the mean, for all at once: to a relative error of
    1e-13 in the mean.
    """
    table, logs = _table(n)
    result = np.where(means <= 1, np.inf, -np.inf)
    inside = (means > 1) & (means < n)
    target = np.log(means[inside])
    result[inside] = np.where(target <= logs[-1], np.inf, -np.inf)
    inside[inside] = (target > logs[-1]) & (target < logs[0])
    target = np.log(means[inside])
    if not len(target):
        return result
    place = np.clip(
        len(table) - np.searchsorted(logs[::-1], target, side="right"), 1, len(table) - 1
    )
    low, high = table[place - 1], table[place]  # the mean falls as the exponent rises
    above, below = logs[place - 1] - target, logs[place] - target
    last = np.zeros(len(target))
    found = low
    for _ in range(60):
        with np.errstate(invalid="ignore", divide="ignore"):
            middle = (low * below - high * above) / (below - above)
        middle = np.where((middle > low) & (middle < high), middle, (low + high) / 2)
        error = _log_mean(middle, n) - target
        over = error > 0
        # Illinois: an end that stays twice counts half, so that both ends move.
        below = np.where(over, np.where(last > 0, below / 2, below), error)
        above = np.where(over, error, np.where(last < 0, above / 2, above))
        low, high = np.where(over, middle, low), np.where(over, high, middle)
        last = np.where(over, 1.0, -1.0)
        found = middle
        if (np.abs(error) <= 1e-14 * (1 + np.abs(target))).all() or (
            high - low <= 4e-16 * np.abs(low)
        ).all():
            break
    result[inside] = found
    return result


def _log_mean(alpha: Array, n: int) -> Array:
    first, total = log_power_sum(np.stack([alpha - 1, alpha]), n)
    return np.asarray(first - total)


@lru_cache(maxsize=64)
def _table(n: int) -> tuple[Array, Array]:
    """Return ascending exponents and the logarithms of their means, which fall."""
    steep = np.concatenate([np.linspace(-2, 6, 161)[:-1], np.geomspace(6, _STEEPEST, 40)])
    rising = -np.geomspace(2, -_FLATTEST * n, 60)[:0:-1] if -_FLATTEST * n > 2 else np.empty(0)
    table = np.concatenate([rising, steep])
    return table, np.minimum.accumulate(_log_mean(table, n))


def _explain(means: Array, alphas: Array, n: int) -> None:
    """Warn of means that no power law has, and of laws that rise."""
    limits = np.where(alphas > 0, 1.0, float(n))
    none = np.isinf(alphas) & (np.abs(means - limits) > 1e-9 * limits)
    of = (
        f" (and in {np.count_nonzero(none) - 1} further trials)"
        if np.count_nonzero(none) > 1
        else ""
    )
    if none.any():
        first = int(np.argmax(none))
        warn(
            f"no power law on counts 1 .. {n} has the mean {means[first]:g} of the estimated counts{of}: the limit with all mass "
            f"on {limits[first]:g} is used; with this much noise power tells little, consider norm-sub"
        )
    rising = ~none & (means > (n + 1) / 2)
    of = (
        f" (and in {np.count_nonzero(rising) - 1} further trials)"
        if np.count_nonzero(rising) > 1
        else ""
    )
    if rising.any():
        warn(
            f"the mean {means[np.argmax(rising)]:g} of the estimated counts{of} is above {(n + 1) / 2:g}, that of equal weights: "
            "the fitted power law rises, large counts are the likelier ones"
        )
