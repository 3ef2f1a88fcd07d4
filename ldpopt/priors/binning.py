"""Estimated counts in narrow bins, and the likelihood of the bins: what makes a fit's cost independent of d."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.density import FAR, Noise, finite

Array = NDArray[np.float64]

_PER_SD = 20  # bins a standard deviation: a bin's width adds 0.02 % to the variance of the noise
_REACH = 12.0  # standard deviations beyond which a likelihood, exp(-72), is 0
_ROWS = 64  # bins that share a window of support points


@dataclass(frozen=True, eq=False)
class Binned:
    """One vector of estimated counts y = k + N(0, s² + slope k) in bins of s/20.

    Attributes
    ----------
    y, size
        Centres of the occupied bins, ascending, and how many estimates each holds.
    n, noise
        Number of users, and the noise in counts.
    """

    y: Array
    size: Array
    n: int
    noise: Noise

    @classmethod
    def of(cls, estimate: FrequencyEstimate, slope: float) -> Binned:
        """Return one vector's bins; a stack of trials raises an error. Cost: one pass and a sort of the occupied bins."""
        estimate = FrequencyEstimate.of(estimate)
        n, _ = estimate.noise
        if estimate.frequencies.ndim != 1:
            raise InvalidInputError(
                f"a prior is fitted to one vector of shape (d,), got shape {estimate.frequencies.shape}: fit each trial"
            )
        sd = estimate.sigma * n
        # No true count is beyond 0 or n: an estimate far outside says no more than one at the edge of belief.
        y = np.clip(finite(estimate.frequencies * n), -FAR * sd, n + FAR * sd)
        noise = Noise.checked(sd, slope, n, y)
        place, size = np.unique(np.rint(y * (_PER_SD / sd)), return_counts=True)
        return cls(place * (sd / _PER_SD), size.astype(np.float64), n, noise)

    @property
    def d(self) -> int:
        """Number of estimates."""
        return int(self.size.sum())

    def near(self, spacing: float, reach: float) -> Array:
        """Return multiples of ``spacing`` standard deviations in 0 .. n that have an estimate within ``reach`` of them."""
        step = self.noise.sd * spacing
        widest = np.sqrt(self.noise.variance(np.clip(self.y, 0, self.n)))
        low = np.floor((np.clip(self.y, 0, self.n) - reach * widest) / step)
        high = np.ceil((np.clip(self.y, 0, self.n) + reach * widest) / step)
        new = np.append(
            True, low[1:] > np.maximum.accumulate(high)[:-1]
        )  # bins ascend: intervals merge from the left
        starts = np.maximum(low[new], 0)
        stops = np.append(np.maximum.accumulate(high)[:-1][new[1:]], high.max())
        found = (
            np.concatenate(
                [np.arange(start, stop + 1) for start, stop in zip(starts, stops, strict=True)]
            )
            * step
        )
        return found[found <= self.n]

    def likelihoods(self, support: Array, masses: Array | None = None) -> Array:
        """Return the density of each bin under each support point, or under each distribution on them.

        Parameters
        ----------
        support
            Ascending counts u of shape (g,), of which some lie next to every estimate.
        masses
            Distributions on the support, shape (components, g); None: each point by itself.

        Returns
        -------
        Shape (bins, g) or (bins, components). Each row has a factor of its own, which changes no fit and no ratio of
        likelihoods; none overflows. Support points beyond 12 standard deviations count as impossible.
        """
        columns = len(support) if masses is None else len(masses)
        result = np.zeros((len(self.y), columns))
        inside = np.clip(self.y, support[0], support[-1])
        reach = _REACH * np.sqrt(self.noise.variance(inside))
        for begin in range(0, len(self.y), _ROWS):
            rows = slice(begin, min(begin + _ROWS, len(self.y)))
            first = np.searchsorted(support, (inside[rows] - reach[rows]).min())
            last = np.searchsorted(support, (inside[rows] + reach[rows]).max(), side="right")
            u = support[first:last]
            level = self.noise.relative(self.y[rows, None], u, inside[rows, None])
            kernel = np.exp(level - level.max(axis=1, keepdims=True))
            if masses is None:
                result[rows, first:last] = kernel
            else:
                result[rows] = kernel @ masses[:, first:last].T
        return result
