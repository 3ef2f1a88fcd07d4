"""Estimated counts in narrow bins, and the likelihood of the bins.

Bins make the cost of a fit independent of d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidInputError
from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.noise import CountNoise

Array = NDArray[np.float64]

_PER_SD = 20  # bins per standard deviation: a bin's width adds 0.02 % to the variance of the noise
_REACH = 12.0  # standard deviations beyond which a likelihood, exp(-72), counts as 0
# Bins that share a window of support points: few, so that densities stay in the cache.
_ROWS = 24
# Entries of the likelihoods of bins, and of the shapes of a mixture: 1 GB.
_ENTRIES = 1 << 27


@dataclass(frozen=True, eq=False)
class Binned:
    """One vector of estimated counts y = k + N(0, s² + slope k) in bins of width s/20.

    Attributes
    ----------
    y
        Centres of the occupied bins, ascending, shape (bins,).
    size
        How many estimates each bin holds, shape (bins,).
    n
        Number of users.
    noise
        The noise in counts.
    share
        Which part of the users has one of these values: 1, unless others are treated apart.
    """

    y: Array
    size: Array
    n: int
    noise: CountNoise
    share: float = 1.0

    @classmethod
    def of(cls, counts: EstimatedCounts, share: float = 1.0) -> Binned:
        """Return the bins of one vector; a stack of trials raises an error.

        Cost: one pass, and a sort of the occupied bins.
        """
        noise = counts.noise
        # True counts lie in 0 .. n: an estimate far outside says no more than one at the cut-off.
        y = noise.clip(counts.vector().values, 0.0, counts.n)
        place = np.rint(y * (_PER_SD / noise.sd))
        places, size = np.unique(place, return_counts=True)
        centres = places * (noise.sd / _PER_SD)
        return cls(centres, size.astype(np.float64), counts.n, noise, share)

    @property
    def d(self) -> int:
        """Number of estimates."""
        return int(self.size.sum())

    @property
    def mean(self) -> float:
        """The mean of the true counts."""
        return self.share * self.n / self.d

    def near(self, spacing: float, reach: float) -> Array:
        """Return counts in 0 .. n near estimates, ascending, as support points.

        Parameters
        ----------
        spacing
            Distance between points, in standard deviations of the estimate of a count of 0.
        reach
            How far points may be from an estimate (from 0 or n, if it is outside), in standard
            deviations of its own noise.
        """
        step = self.noise.sd * spacing
        inside = np.clip(self.y, 0, self.n)
        distance = reach * np.sqrt(self.noise.variance(inside))
        low = np.floor((inside - distance) / step)
        high = np.ceil((inside + distance) / step)
        # Bins ascend, so intervals that overlap are merged from the left.
        furthest = np.maximum.accumulate(high)
        is_apart = low[1:] > furthest[:-1]
        is_first = np.append(True, is_apart)
        is_last = np.append(is_apart, True)
        stretches = []
        for start, stop in zip(low[is_first], furthest[is_last], strict=True):
            places = np.arange(max(start, 0), stop + 1)
            stretches.append(places)
        points = np.concatenate(stretches) * step
        return points[points <= self.n]

    def likelihoods(self, support: Array, masses: Array | None = None) -> Array:
        """Return the density of each bin under each support point, or under each distribution.

        Parameters
        ----------
        support
            Ascending counts u of shape (g,), of which some lie next to every estimate.
        masses
            Distributions on the support, shape (components, g); None for each point by itself.

        Returns
        -------
        Shape (bins, g) or (bins, components). Each row has a factor of its own, which changes
        neither a fit nor a ratio of likelihoods, so that none overflows. Support points beyond 12
        standard deviations count as impossible.
        """
        columns = len(support) if masses is None else len(masses)
        _require_room(len(self.y), max(columns, len(support)))
        result = np.zeros((len(self.y), columns))
        averages = None if masses is None else _averages_under(masses)
        inside = np.clip(self.y, support[0], support[-1])
        reach = _REACH * np.sqrt(self.noise.variance(inside))
        self._require_near(support, inside, reach)
        lowest = inside - reach
        highest = inside + reach
        for begin in range(0, len(self.y), _ROWS):
            rows = slice(begin, begin + _ROWS)
            # Bins ascend, so some neighbours need few of the points: the others stay impossible.
            first = np.searchsorted(support, lowest[rows].min())
            last = np.searchsorted(support, highest[rows].max(), side="right")
            kernel = self._kernel(rows, support[first:last], inside[rows])
            if averages is None:
                result[rows, first:last] = kernel
            else:
                result[rows] = averages(kernel, first)
        return result

    def _require_near(self, support: Array, inside: Array, reach: Array) -> None:
        """Raise an error unless each estimate has a support point within reach."""
        above = np.searchsorted(support, inside)
        below = np.maximum(above - 1, 0)
        distance = np.minimum(inside - support[below], support[above] - inside)
        # The first point has none below it, and is as far from itself as from nothing.
        lonely = np.abs(distance) > reach
        if lonely.any():
            at = int(np.argmax(lonely))
            remedy = "check the noise of the estimate and its n"
            if not self.noise.slope:
                remedy += (
                    "; where the noise grows with the frequency, as at a large ε, that of a "
                    "frequency of 0 is too small: use priors.posterior_mean(estimate, prior, "
                    "value_dependent=True), or a method without a prior such as norm-sub"
                )
            raise InvalidInputError(
                f"the estimate {self.y[at] / self.n:g} is more than {_REACH:g} standard deviations "
                f"({self.noise.sd / self.n:g}) from every frequency that {self.n:,} users can "
                f"have: {remedy}"
            )

    def _kernel(self, rows: slice, support: Array, inside: Array) -> Array:
        """Return the densities of some bins under support points, each row over its largest."""
        y = self.y[rows, None]
        logs = self.noise.log_ratio(y, support, inside[:, None])
        top = logs.max(axis=1, keepdims=True)
        return np.asarray(np.exp(logs - top))


def _averages_under(masses: Array) -> Callable[[Array, int], Array]:
    """Return the function from densities, shape (rows, points), and the number of the first point.

    It returns the mean density of each row under each distribution, shape (rows, components).
    """
    from ldpopt.priors.product_kernels import averages  # imports numba

    has_mass = masses > 0
    first = np.argmax(has_mass, axis=1)
    last = masses.shape[1] - np.argmax(has_mass[:, ::-1], axis=1)

    def under(densities: Array, start: int) -> Array:
        return averages(np.ascontiguousarray(densities.T), masses, first, last, start).T

    return under


def _require_room(bins: int, columns: int) -> None:
    """Raise an error where likelihoods would take more memory than fits are allowed."""
    if bins * columns > _ENTRIES:
        raise InvalidInputError(
            f"a fit of this prior would take {bins:,} x {columns:,} likelihoods, more than "
            f"{_ENTRIES:,}: the estimates are spread over too many standard deviations; use a "
            "family with a formula, such as 'power-ns'"
        )
