"""The power law of Calibrate and Power (K III, N IV-E)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import derived_property
from ldpopt.priors.counts import EstimatedCounts, freeze
from ldpopt.priors.density import Density, point_mass
from ldpopt.priors.family_curves import means_by_member
from ldpopt.priors.fitting import Kind
from ldpopt.priors.zeta import log_power_sum

Array = NDArray[np.float64]

# Exponents beyond which all mass is on one count in double precision: 2^-60 is below rounding, and
# so is (1 - 1/n)^(60 n), the share of the count next to n in a rising law.
_STEEPEST = 60.0
_FLATTEST_PER_COUNT = -60.0

_STEPS = 60  # of the root search: bisection alone reaches the last digit in as many
_REACHED = 1e-14  # error of log(mean) at which the search ends, relative to 1 + |log(mean)|
_NARROW = 4e-16  # relative width of a bracket that holds no further floats


@dataclass(frozen=True)
class PowerLaw(Density):
    """π(k) ∝ k^(-alpha) over true counts k = 1 .. n.

    Parameters
    ----------
    alpha
        Exponent; negative for a law that rises. ``inf`` is the limit with all mass on the count 1,
        ``-inf`` the one with all mass on n.
    n
        Number of users.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If alpha is no number or n < 1.

    Examples
    --------
    >>> round(PowerLaw(alpha=2.0, n=3).mean(), 9)  # Σ k^-1 / Σ k^-2 = 66/49
    1.346938776
    """

    alpha: float
    n: int

    def __post_init__(self) -> None:
        is_limit = isinstance(self.alpha, float) and math.isinf(self.alpha)
        freeze(
            self,
            alpha=self.alpha if is_limit else validate.real("alpha", self.alpha),
            n=validate.integer("n (the number of reports)", self.n, minimum=1),
        )

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        if math.isinf(self.alpha):
            return point_mass(k, self._limit)
        return np.asarray(-self.alpha * np.log(k))

    @property
    def _limit(self) -> float:
        """The count that holds all mass where alpha is infinite."""
        return 1.0 if self.alpha > 0 else float(self.n)

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the one from 1."""
        if math.isinf(self.alpha):
            return np.array([2.0, self.n])
        return np.empty(0)

    @derived_property
    def _mass(self) -> tuple[float, float, float]:
        if math.isinf(self.alpha):
            return 0.0, self._limit, 0.0
        # Logarithms of Σ k^-alpha, Σ k k^-alpha and Σ k² k^-alpha.
        exponents_of_sums = self.alpha - np.arange(3)
        total, first, second = log_power_sum(exponents_of_sums, self.n)
        # As logarithms until here: k^-alpha itself overflows for steep rising laws.
        mean = math.exp(first - total)
        square = math.exp(second - total)
        return float(total), mean, max(square - mean**2, 0.0)

    # --- fits ---------------------------------------------------------------------------------

    @classmethod
    def parameters(cls) -> Mapping[str, Kind]:
        """Return what a fit determines."""
        return {"alpha": "real"}

    @classmethod
    def from_moments(
        cls,
        mean: float,
        variance: float,
        n: int,
    ) -> PowerLaw:
        """Return the power law with this mean, with the warnings of ``fit_mean``.

        The variance is not used.
        """
        return cls.fit_mean(mean, n)

    @classmethod
    def fit_mean(cls, mean: float, n: int) -> PowerLaw:
        """Return the power law with the given mean (K Eq. 17 for one parameter).

        A mean above (n+1)/2, that of equal weights, has a rising law, alpha < 0. A mean below 1 or
        above n belongs to no power law, and the nearest limit is returned. Both raise a warning.

        Examples
        --------
        >>> round(PowerLaw.fit_mean(66 / 49, n=3).alpha, 9)
        2.0
        """
        means = np.array([mean])
        alphas = exponents(means, n)
        _explain(means, alphas, n)
        return cls(float(alphas[0]), n)

    @classmethod
    def fitted_means(cls, estimate: FrequencyEstimate, *, value_dependent: bool = False) -> Array:
        """Return posterior mean counts, shape (..., d), with an exponent fitted to each trial.

        The curves of different exponents are interpolated as well, which makes many trials cheap.
        Parameters are those of ``Prior.fitted_means``.
        """
        counts = EstimatedCounts.of(estimate, value_dependent=value_dependent)
        n = counts.n
        means = counts.means().ravel()
        alphas = exponents(means, n)
        _explain(means, alphas, n)
        # To the same range for all trials, whose laws have the counts 1 .. n whatever the exponent.
        near = counts.noise.clip(cls._evaluated_at(counts.values), 0.0, n)
        near = near.reshape(-1, near.shape[-1])
        result = np.empty_like(near)
        # Where all mass is on one count, so is every posterior.
        is_limit = np.isinf(alphas)
        limits = np.where(alphas[is_limit] > 0, 1.0, float(n))
        result[is_limit] = limits[:, None]
        result[~is_limit] = means_by_member(
            lambda alpha: cls(alpha, n),
            replace(counts, values=near[~is_limit]),
            alphas[~is_limit],
        )
        return result.reshape(counts.values.shape)

    @classmethod
    def _evaluated_at(cls, counts: Array) -> Array:
        """Return the estimated counts at which ``fitted_means`` takes posterior means: all."""
        return counts


def exponents(means: Array, n: int) -> Array:
    """Return the exponent of the power law on 1 .. n with each mean, to 1e-13 of the mean.

    ``inf`` and ``-inf`` stand for means that none has, too small or too large.
    """
    table, log_means = _table(n)
    # Logarithms of the table fall. Next to its ends no exponent differs from the limit either.
    highest = log_means[0]
    lowest = log_means[-1]
    possible = (means > 1) & (means < n)
    target = np.log(means, out=np.zeros(means.shape), where=possible)
    too_small = (means <= 1) | (possible & (target <= lowest))
    result = np.where(too_small, np.inf, -np.inf)
    inside = possible & (target > lowest) & (target < highest)
    if inside.any():
        result[inside] = _root(target[inside], table, log_means, n)
    return result


def _root(
    target: Array,
    table: Array,
    log_means: Array,
    n: int,
) -> Array:
    """Return exponents whose log-mean is the target, within the table.

    Regula falsi with the Illinois rule (Dowell and Jarratt 1971), for all targets at once. Between
    the exponents ``low`` and ``high`` the log-mean falls from ``above`` the target to ``below`` it.
    """
    # Searched from behind, because a search takes ascending numbers.
    place = len(table) - np.searchsorted(log_means[::-1], target, side="right")
    place = np.clip(place, 1, len(table) - 1)
    low = table[place - 1]
    high = table[place]
    above = log_means[place - 1] - target
    below = log_means[place] - target
    last_side = np.zeros(len(target))
    middle = low
    for _ in range(_STEPS):
        middle = _secant(low, high, above, below)
        error = _log_mean(middle, n) - target
        is_over = error > 0
        # Illinois: an end that stays twice counts half, so that both ends move.
        halved_below = np.where(last_side > 0, below / 2, below)
        halved_above = np.where(last_side < 0, above / 2, above)
        below = np.where(is_over, halved_below, error)
        above = np.where(is_over, error, halved_above)
        low = np.where(is_over, middle, low)
        high = np.where(is_over, high, middle)
        last_side = np.where(is_over, 1.0, -1.0)
        is_reached = np.abs(error) <= _REACHED * (1 + np.abs(target))
        is_narrow = high - low <= _NARROW * np.abs(low)
        if is_reached.all() or is_narrow.all():
            break
    return middle


def _secant(
    low: Array,
    high: Array,
    above: Array,
    below: Array,
) -> Array:
    """Return where the line through both ends is 0, or the middle where that is not between."""
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = (low * below - high * above) / (below - above)
    is_between = (crossing > low) & (crossing < high)
    return np.where(is_between, crossing, (low + high) / 2)


def _log_mean(alpha: Array, n: int) -> Array:
    """Return the logarithm of the mean of each power law."""
    both = np.stack([alpha - 1, alpha])
    first, total = log_power_sum(both, n)
    return np.asarray(first - total)


@lru_cache(maxsize=64)
def _table(n: int) -> tuple[Array, Array]:
    """Return ascending exponents and the logarithms of their means, which fall."""
    # Dense where data lie: Zipf's law has alpha near 1.7, and equal weights 0.
    usual = np.linspace(-2, 6, 161)[:-1]
    steep = np.geomspace(6, _STEEPEST, 40)
    rising = np.empty(0)
    flattest = -_FLATTEST_PER_COUNT * n
    if flattest > 2:
        rising = -np.geomspace(2, flattest, 60)[:0:-1]
    table = np.concatenate([rising, usual, steep])
    # Rounding must not make the logarithms rise: a search takes them as sorted.
    log_means = np.minimum.accumulate(_log_mean(table, n))
    return table, log_means


def _explain(means: Array, alphas: Array, n: int) -> None:
    """Warn of means that no power law has, and of laws that rise."""
    limits = np.where(alphas > 0, 1.0, float(n))
    is_off = np.abs(means - limits) > 1e-9 * limits  # by more than rounding
    impossible = np.isinf(alphas) & is_off
    if impossible.any():
        first = int(np.argmax(impossible))
        warn(
            f"no power law on counts 1 .. {n} has the mean {means[first]:g} of the estimated "
            f"counts{_further(impossible)}: the limit with all mass on {limits[first]:g} is used; "
            "with this much noise the method power says little, consider norm-sub"
        )
    middle = (n + 1) / 2
    rising = ~impossible & (means > middle)
    if rising.any():
        first = int(np.argmax(rising))
        warn(
            f"the mean {means[first]:g} of the estimated counts{_further(rising)} is "
            f"above {middle:g}, that of equal weights: the fitted power law rises, large counts "
            "are the likelier ones"
        )


def _further(trials: NDArray[np.bool_]) -> str:
    """Return how many trials there are after the first, for a sentence, or nothing."""
    further = np.count_nonzero(trials) - 1
    return f" (and in {further} further trials)" if further else ""
