"""Gaussian, Laplace, Poisson and log-normal counts, and log-densities smooth between kinks (K III-C)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.priors.density import Density, point
from ldpopt.priors.fitting import Kind
from ldpopt.priors.summation import NODES, resolved_blocks, unresolved
from ldpopt.priors.trouble import warn

Array = NDArray[np.float64]

_DIRECT = 1 << 14  # counts up to which any log-density is summed count by count
_SMOOTH = 1e-3  # nats by which a log-density may differ from a polynomial: so much does a probability then, relatively


@dataclass(frozen=True)
class _LocationScale(Density):
    """A family with a centre and a scale; scale 0 is the limit with all mass on the count nearest to the centre."""

    centre: float
    scale: float
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", validate.real("centre", self.centre))
        object.__setattr__(self, "scale", validate.real("scale", self.scale, minimum=0))
        object.__setattr__(
            self, "n", validate.integer("n (the number of reports)", self.n, minimum=1)
        )

    @property
    def _point(self) -> float:
        return float(np.clip(np.rint(self.centre), 1, self.n))

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the first."""
        return np.array([self._point, self._point + 1]) if self.scale == 0 else np.empty(0)

    @property
    def log_concave(self) -> bool:
        """Whether posteriors have one mode to look around."""
        return self.scale > 0

    @classmethod
    def parameters(cls) -> Mapping[str, Kind]:
        """Return what a fit determines."""
        return {"centre": "real", "scale": "positive"}


class Gaussian(_LocationScale):
    """π(k) ∝ exp(-(k - centre)²/(2 scale²)) over true counts k = 1 .. n.

    Examples
    --------
    >>> round(Gaussian(centre=50.0, scale=5.0, n=100).mean(), 9)
    50.0
    """

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        if self.scale == 0:
            return point(k, self._point)
        return np.asarray(-0.5 * ((k - self.centre) / self.scale) ** 2)

    @classmethod
    def from_moments(cls, mean: float, variance: float, n: int) -> Gaussian:
        """Return the Gaussian with this mean and variance before it is cut off to 1 .. n."""
        mean, variance = possible(mean, variance, n)
        return cls(mean, math.sqrt(variance), n)


class Laplace(_LocationScale):
    """π(k) ∝ exp(-abs(k - centre)/scale) over true counts k = 1 .. n.

    Examples
    --------
    >>> round(Laplace(centre=50.0, scale=2.0, n=100).variance(), 3)  # 2 scale², less what whole counts take away
    7.835
    """

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        if self.scale == 0:
            return point(k, self._point)
        return np.asarray(-np.abs(k - self.centre) / self.scale)

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the first."""
        return np.array([math.floor(self.centre) + 1.0]) if self.scale > 0 else super().breaks

    @classmethod
    def from_moments(cls, mean: float, variance: float, n: int) -> Laplace:
        """Return the Laplace distribution with this mean and variance before it is cut off to 1 .. n."""
        mean, variance = possible(mean, variance, n)
        return cls(mean, math.sqrt(variance / 2), n)


class LogNormal(_LocationScale):
    """π(k) ∝ exp(-(log k - centre)²/(2 scale²))/k over true counts k = 1 .. n: centre and scale are those of log k.

    Examples
    --------
    >>> round(LogNormal(centre=math.log(50.0), scale=0.1, n=1000).mean(), 2)
    50.25
    """

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        if self.scale == 0:
            return point(k, self._point)
        logs = np.log(k)
        return np.asarray(-0.5 * ((logs - self.centre) / self.scale) ** 2 - logs)

    @property
    def _point(self) -> float:
        return float(np.clip(np.rint(math.exp(min(self.centre, 700.0))), 1, self.n))

    @property
    def log_concave(self) -> bool:
        """Whether posteriors have one mode to look around."""
        return False

    @classmethod
    def from_moments(cls, mean: float, variance: float, n: int) -> LogNormal:
        """Return the log-normal distribution with this mean and variance before it is cut off to 1 .. n."""
        mean, variance = possible(mean, variance, n)
        square = math.log1p(variance / mean**2)
        return cls(math.log(mean) - square / 2, math.sqrt(square), n)


@dataclass(frozen=True)
class Poisson(Density):
    """π(k) ∝ rate^k/k! over true counts k = 1 .. n; rate 0 is the limit with all mass on 1.

    Examples
    --------
    >>> round(Poisson(rate=30.0, n=1000).variance(), 6)
    30.0
    """

    rate: float
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", validate.real("rate", self.rate, minimum=0))
        object.__setattr__(
            self, "n", validate.integer("n (the number of reports)", self.n, minimum=1)
        )

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        if self.rate == 0:
            return point(k, 1.0)
        # Beside its value at the rate: k log(rate) and log k! are far larger than their difference.
        return np.asarray(-_stirling_difference(k, self.rate))

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the first."""
        return np.array([2.0]) if self.rate == 0 else np.empty(0)

    @property
    def log_concave(self) -> bool:
        """Whether posteriors have one mode to look around."""
        return self.rate > 0

    @classmethod
    def parameters(cls) -> Mapping[str, Kind]:
        """Return what a fit determines."""
        return {"rate": "positive"}

    @classmethod
    def from_moments(cls, mean: float, variance: float, n: int) -> Poisson:
        """Return the Poisson distribution with this mean before it is cut off to 1 .. n; the variance is not used."""
        possible_mean, _ = possible(mean, 1.0, n)
        return cls(possible_mean if mean >= 1 else 0.0, n)


def _stirling_difference(k: Array, rate: float) -> Array:
    """Return log k! - k log(rate) + rate: k log(k/rate) - (k - rate) + ½ log(2πk) + 1/(12k) - ..., stable for large k."""
    ratio = (k - rate) / rate
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.where(
            np.abs(ratio) < 0.5, k * np.log1p(ratio) - (k - rate), k * np.log(k / rate) - (k - rate)
        )
    large = np.maximum(k, 16.0)
    tail = (
        0.5 * np.log(2 * math.pi * large)
        + 1 / (12 * large)
        - 1 / (360 * large**3)
        + 1 / (1260 * large**5)
    )
    tail = tail - 1 / (1680 * large**7)
    return np.where(k < 16, gammaln(k + 1) - k * math.log(rate) + rate, near + tail)


@dataclass(frozen=True)
class Custom(Density):
    """π(k) ∝ exp(function(k)) over true counts k = 1 .. n, for any log-density that is smooth between its kinks.

    Up to n = 16,384 every count is summed, and the log-density may be as rough as it likes. Above, sums are by few nodes, which
    only a smooth one allows.

    Parameters
    ----------
    function
        Takes an array of counts, which need not be whole, and returns log π up to a constant: finite or minus infinity.
    n
        Number of users.
    kinks
        First counts of new smooth pieces: where the function jumps or has a kink. Between them it must be smooth.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the function does not return a number for each count, or one that is no log-density, or if it is not smooth between
        kinks: for n > 16,384 it is compared with polynomials through the nodes, at every count up to n = 262,144 and at as many
        drawn ones above. A spike of few counts can be missed there: give it as kinks.

    Examples
    --------
    >>> round(Custom(lambda k: -2 * np.log(k), n=3).mean(), 12)
    1.34693877551
    """

    function: Callable[[Array], Array]
    n: int
    kinks: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "n", validate.integer("n (the number of reports)", self.n, minimum=1)
        )
        if not callable(self.function):
            raise InvalidTypeError(
                f"function must take counts and return log-densities, got {self.function!r}"
            )
        tried = self._tried
        values = np.asarray(self.function(tried), dtype=np.float64)
        if values.shape != tried.shape:
            raise InvalidInputError(
                f"the log-density of {len(tried)} counts must have as many values, got {values.shape}"
            )
        bad = np.isnan(values) | (values == np.inf)
        if bad.any():
            raise InvalidInputError(
                f"the log-density must be finite or -inf, found {values[bad][0]} at {tried[bad][0]:g}"
            )
        if self.n > _DIRECT:
            whole = np.ones(1), np.full(1, float(self.n))
            blocks = resolved_blocks(self.log_density, self._starts, self.n, *whole)
            rough = unresolved(self.log_density, *blocks, self.n, _SMOOTH)
            if rough is not None:
                raise InvalidInputError(
                    f"the log-density is not smooth near the count {rough:.0f}: give kinks, the first counts of its smooth "
                    "pieces, or use Discrete with the masses of the counts that matter"
                )

    @cached_property
    def _starts(self) -> Array:
        if self.n <= _DIRECT:
            return np.arange(1.0, self.n + 1, NODES)  # runs so short are summed count by count
        return self._graded()

    @property
    def _tried(self) -> Array:
        if self.n <= _DIRECT:
            return np.arange(1.0, self.n + 1)
        return np.unique(np.append(np.arange(1.0, NODES + 1), self._starts))

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        return np.asarray(self.function(k), dtype=np.float64)

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the first."""
        return np.asarray(self.kinks, dtype=np.float64)


def possible(mean: float, variance: float, n: int) -> tuple[float, float]:
    """Return moments that some distribution on 1 .. n has; a warning says which were moved."""
    if not 1 <= mean <= n:
        moved = min(max(mean, 1.0), float(n))
        warn(
            f"no distribution on counts 1 .. {n} has the mean {mean:g} of the estimated counts: {moved:g} is used instead"
        )
        mean = moved
    if variance <= 0:
        warn(
            f"the estimates vary less than their noise alone would, by {-variance:g} squared counts: the limit with all mass on "
            "one count is used; with this much noise a prior tells little, consider norm-sub"
        )
        variance = 0.0
    return mean, variance
