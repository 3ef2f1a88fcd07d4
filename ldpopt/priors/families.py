"""Gaussian, Laplace, Poisson and log-normal counts, and any smooth log-density (K III-C)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError, warn
from ldpopt.immutable import derived_property
from ldpopt.priors.counts import freeze
from ldpopt.priors.density import Density, point_mass
from ldpopt.priors.fitting import Kind
from ldpopt.priors.smoothness import rough_count
from ldpopt.priors.summation import NODES, resolved

Array = NDArray[np.float64]

_DIRECT = 1 << 14  # counts up to which any log-density is summed count by count
_SMOOTH = 1e-3  # nats between a log-density and a polynomial: a probability differs by 0.1 % then
_STIRLING = 16.0  # counts from which four terms of Stirling's series are exact to rounding
_LARGEST_LOG = 700.0  # exp of more overflows


@dataclass(frozen=True)
class _LocationScale(Density):
    """A family with a centre and a scale.

    Scale 0 is the limit with all mass on the count nearest to the centre.
    """

    centre: float
    scale: float
    n: int

    def __post_init__(self) -> None:
        freeze(
            self,
            centre=validate.real("centre", self.centre),
            scale=validate.real("scale", self.scale, minimum=0),
            n=validate.integer("n (the number of reports)", self.n, minimum=1),
        )

    @property
    def _point(self) -> float:
        """The count that holds all mass where the scale is 0."""
        return float(np.clip(np.rint(self.centre), 1, self.n))

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the one from 1."""
        if self.scale == 0:
            return np.array([self._point, self._point + 1])
        return np.empty(0)

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
            return point_mass(k, self._point)
        deviation = (k - self.centre) / self.scale
        return np.asarray(-0.5 * deviation**2)

    @classmethod
    def from_moments(
        cls,
        mean: float,
        variance: float,
        n: int,
    ) -> Gaussian:
        """Return the member with this mean and variance before it is cut off to 1 .. n."""
        mean, variance = possible_moments(mean, variance, n)
        return cls(mean, math.sqrt(variance), n)


class Laplace(_LocationScale):
    """π(k) ∝ exp(-abs(k - centre)/scale) over true counts k = 1 .. n.

    Examples
    --------
    >>> round(Laplace(centre=50.0, scale=2.0, n=100).variance(), 3)  # near 2 scale²
    7.835
    """

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        if self.scale == 0:
            return point_mass(k, self._point)
        return np.asarray(-np.abs(k - self.centre) / self.scale)

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the one from 1."""
        if self.scale == 0:
            return super().breaks
        # The kink at the centre: no polynomial reproduces it across.
        return np.array([math.floor(self.centre) + 1.0])

    @classmethod
    def from_moments(
        cls,
        mean: float,
        variance: float,
        n: int,
    ) -> Laplace:
        """Return the member with this mean and variance before it is cut off to 1 .. n."""
        mean, variance = possible_moments(mean, variance, n)
        return cls(mean, math.sqrt(variance / 2), n)


class LogNormal(_LocationScale):
    """π(k) ∝ exp(-(log k - centre)²/(2 scale²))/k over true counts k = 1 .. n.

    Centre and scale are those of log k.

    Examples
    --------
    >>> round(LogNormal(centre=math.log(50.0), scale=0.1, n=1000).mean(), 2)
    50.25
    """

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        if self.scale == 0:
            return point_mass(k, self._point)
        logs = np.log(k)
        deviation = (logs - self.centre) / self.scale
        return np.asarray(-0.5 * deviation**2 - logs)

    @property
    def _point(self) -> float:
        """The count that holds all mass where the scale is 0."""
        # Cut off first: a fit may ask for a centre whose exponential is no float.
        count = math.exp(min(self.centre, _LARGEST_LOG))
        return float(np.clip(np.rint(count), 1, self.n))

    @property
    def log_concave(self) -> bool:
        """Whether posteriors have one mode to look around."""
        return False

    @classmethod
    def from_moments(
        cls,
        mean: float,
        variance: float,
        n: int,
    ) -> LogNormal:
        """Return the member with this mean and variance before it is cut off to 1 .. n."""
        mean, variance = possible_moments(mean, variance, n)
        # By log1p, since the ratio may be far below rounding.
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
        freeze(
            self,
            rate=validate.real("rate", self.rate, minimum=0),
            n=validate.integer("n (the number of reports)", self.n, minimum=1),
        )

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        if self.rate == 0:
            return point_mass(k, 1.0)
        # Up to a constant; k log(rate) and log k! are far larger than their difference.
        return np.asarray(-_stirling_difference(k, self.rate))

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the one from 1."""
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
    def from_moments(
        cls,
        mean: float,
        variance: float,
        n: int,
    ) -> Poisson:
        """Return the member with this mean before it is cut off to 1 .. n.

        The variance is not used.
        """
        possible_mean, _ = possible_moments(mean, 1.0, n)
        return cls(possible_mean if mean >= 1 else 0.0, n)


def _stirling_difference(k: Array, rate: float) -> Array:
    """Return log k! - k log(rate) + rate without cancellation for large k.

    Stirling's series: k log(k/rate) - (k - rate) + ½ log(2πk) + 1/(12k) - ...
    """
    from scipy.special import gammaln  # slow to import

    # Small counts cancel little.
    direct = gammaln(k + 1) - k * math.log(rate) + rate
    # Where the series is not used its argument is still evaluated: 0 would divide by 0.
    large = np.maximum(k, _STIRLING)
    tail = (
        0.5 * np.log(2 * math.pi * large)
        + 1 / (12 * large)
        - 1 / (360 * large**3)
        + 1 / (1260 * large**5)
        - 1 / (1680 * large**7)
    )
    # The difference first: next to the rate, log(k/rate) would lose the digits that remain.
    difference = k - rate
    ratio = difference / rate
    is_near = np.abs(ratio) < 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        log_quotient = np.log(k / rate)
        log_ratio = np.where(is_near, np.log1p(ratio), log_quotient)
        leading = k * log_ratio - difference
    return np.where(k < _STIRLING, direct, leading + tail)


@dataclass(frozen=True)
class Custom(Density):
    """π(k) ∝ exp(function(k)) over true counts k = 1 .. n, for a log-density smooth between kinks.

    Up to n = 16,384 every count is summed, and the log-density may be as rough as it likes. Above,
    sums are by few nodes, which only a smooth one allows.

    Parameters
    ----------
    function
        Takes an array of counts, which need not be whole, and returns log π up to a constant:
        finite or minus infinity. It must always return the same.
    n
        Number of users.
    kinks
        First counts of new smooth pieces, where the function jumps or has a kink. Between them it
        must be smooth.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the function does not return a number for each count, if one of these is no log-density,
        or if it is not smooth between kinks: for n > 16,384 it is compared with polynomials through
        the nodes, at every count up to n = 262,144 and at as many drawn ones above. A spike of few
        counts can be missed there: give it as kinks.

    Examples
    --------
    >>> round(Custom(lambda k: -2 * np.log(k), n=3).mean(), 9)  # Σ k^-1 / Σ k^-2 = 66/49
    1.346938776
    """

    function: Callable[[Array], Array]
    n: int
    kinks: Sequence[int] = ()

    def __post_init__(self) -> None:
        n = validate.integer("n (the number of reports)", self.n, minimum=1)
        freeze(self, n=n, kinks=tuple(self.kinks))
        if not callable(self.function):
            raise InvalidTypeError(
                f"function must take counts and return log-densities, got {self.function!r}"
            )
        # At once, so that the error names the caller's function and not a sum deep inside.
        self._require_log_density(self._candidates)
        if self.n > _DIRECT:
            self._require_smoothness()

    def _require_log_density(self, k: Array) -> None:
        """Raise an error unless the function returns log-densities of the given counts."""
        values = np.asarray(self.function(k), dtype=np.float64)
        if values.shape != k.shape:
            raise InvalidInputError(
                f"the log-density of {len(k)} counts must have as many values, got {values.shape}"
            )
        is_wrong = np.isnan(values) | (values == np.inf)
        if is_wrong.any():
            at = validate.first(is_wrong)
            raise InvalidInputError(
                f"the log-density must be finite or -inf, found {values[at]} at {k[at]:g}"
            )

    def _require_smoothness(self) -> None:
        """Raise an error unless polynomials through the nodes reproduce the log-density."""
        lowest = np.ones(1)
        highest = np.full(1, float(self.n))
        # The runs that posteriors will use: what is smooth on others would prove nothing.
        runs = resolved(self.log_density, self._starts, self.n, lowest, highest)
        rough = rough_count(self.log_density, runs, self.n, _SMOOTH)
        if rough is not None:
            raise InvalidInputError(
                f"the log-density is not smooth near the count {rough:.0f}: give kinks, the first "
                "counts of its smooth pieces, or use Discrete with the masses of the counts that "
                "matter"
            )

    @derived_property
    def _starts(self) -> Array:
        if self.n <= _DIRECT:
            return np.arange(1.0, self.n + 1, NODES)  # runs so short are summed count by count
        return self._graded()

    @property
    def _candidates(self) -> Array:
        if self.n <= _DIRECT:
            return np.arange(1.0, self.n + 1)
        # Small counts hold the mass of many laws, so that each of the first is tried.
        first = np.arange(1.0, NODES + 1)
        return np.unique(np.append(first, self._starts))

    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k."""
        return np.asarray(self.function(k), dtype=np.float64)

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the one from 1."""
        return np.asarray(self.kinks, dtype=np.float64)


def possible_moments(mean: float, variance: float, n: int) -> tuple[float, float]:
    """Return moments that some distribution on 1 .. n has; a warning states which were moved."""
    if not 1 <= mean <= n:
        moved = min(max(mean, 1.0), float(n))
        warn(
            f"no distribution on counts 1 .. {n} has the mean {mean:g} of the estimated counts: "
            f"{moved:g} is used instead"
        )
        mean = moved
    # Noise is subtracted from the spread of the estimates, so that this happens with flat data.
    if variance <= 0:
        warn(
            "the estimates vary less than their noise alone would, by "
            f"{-variance:g} squared counts: the limit with all mass on one count is used; with "
            "this much noise the estimates say little about a prior, consider norm-sub"
        )
        variance = 0.0
    return mean, variance
