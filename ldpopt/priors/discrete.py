"""A prior on finitely many counts: what a fit without a formula comes to, and sums over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.base import Posterior, Prior
from ldpopt.priors.curve import read_off
from ldpopt.priors.density import CELL, FAR, Noise, finite

Array = NDArray[np.float64]

_TERMS = 1 << 21  # weights held at a time


@dataclass(frozen=True, eq=False)
class Discrete(Prior):
    """π(u_g) = w_g on support points u_1 < u_2 < ... in 0 .. n, which need not be whole.

    Parameters
    ----------
    support
        Ascending counts in 0 .. n.
    weights
        Non-negative, as many as support points, with a positive sum; they are normalised, and points without weight dropped.
    n
        Number of users.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the support does not ascend within 0 .. n, or weights are negative, not finite, all zero or of another number.

    Examples
    --------
    >>> coin = Discrete(support=[0.0, 100.0], weights=[1.0, 1.0], n=1000)
    >>> coin.posterior_mean([50.0, 60.0], noise=30.0).round(2)
    array([50.  , 75.23])
    """

    support: Array
    weights: Array
    n: int

    def __post_init__(self) -> None:
        n = validate.integer("n (the number of reports)", self.n, minimum=1)
        support = np.asarray(validate.array("support", self.support), dtype=np.float64)
        weights = np.asarray(validate.array("weights", self.weights), dtype=np.float64)
        ascends = support.ndim == 1 and len(support) > 0 and bool((np.diff(support) > 0).all())
        if not ascends or not 0 <= support[0] <= support[-1] <= n:
            raise InvalidInputError(f"support must be counts in ascending order within 0 .. {n}")
        if weights.shape != support.shape:
            raise InvalidInputError(
                f"{len(support)} support points need as many weights, got shape {weights.shape}"
            )
        if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
            raise InvalidInputError("weights must be finite, none negative and not all zero")
        held = weights > 0
        scaled = weights[held] / weights.max()
        for name, value in {
            "n": n,
            "support": support[held],
            "weights": scaled / scaled.sum(),
        }.items():
            object.__setattr__(self, name, value)

    def mean(self) -> float:
        """Return E[k] of the prior."""
        return float(self.weights @ self.support)

    def variance(self) -> float:
        """Return Var[k] of the prior."""
        return float(self.weights @ (self.support - self.mean()) ** 2)

    def posterior(self, counts: ArrayLike, noise: float, *, slope: float = 0.0) -> Posterior:
        """Return the posterior moments and evidence for estimated counts (K Eq. 11).

        Parameters
        ----------
        counts
            Estimated counts y, any shape.
        noise, slope
            Var[y | k] = noise² + slope k, in squared counts.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a count is not finite or a variance not positive.

        Notes
        -----
        Sums over the support at few points a standard deviation, the rest by interpolation to about 1e-10: O(d) beside them.
        """
        y = finite(counts)
        level = Noise.checked(noise, slope, self.n, y)
        clipped = np.clip(y.ravel(), -FAR * level.sd, self.n + FAR * level.sd)
        found = read_off(
            lambda points: self._moments(points, level), clipped, CELL * level.smallest(self.n)
        )
        mean, variance, evidence = found.reshape(3, *y.shape)
        beyond = clipped.reshape(y.shape) != y
        if beyond.any():
            nearest = np.clip(y[beyond], self.support[0], self.support[-1])
            evidence[beyond] += level.at(y[beyond], nearest) - level.at(
                clipped.reshape(y.shape)[beyond], nearest
            )
            evidence[beyond] = np.maximum(evidence[beyond], -np.finfo(np.float64).max)
        return Posterior(mean, variance, evidence)

    def interval(
        self, counts: ArrayLike, noise: float, level: float = 0.95, *, slope: float = 0.0
    ) -> tuple[Array, Array]:
        """Return (lower, upper) support points that hold a share ``level`` of each posterior, equal tails cut off.

        Parameters
        ----------
        counts, noise, slope
            As in ``posterior``.
        level
            In (0, 1).

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a count is not finite, a variance not positive, or ``level`` out of range.
        """
        share = validate.real("level", level, above=0, below=1)
        y = finite(counts)
        checked = Noise.checked(noise, slope, self.n, y)
        flat = np.clip(y.ravel(), -FAR * checked.sd, self.n + FAR * checked.sd)
        lower, upper = np.empty(len(flat)), np.empty(len(flat))
        for rows, weight, _ in self._weights(flat, checked):
            upto = np.cumsum(weight, axis=1)
            for tail, result in (((1 - share) / 2, lower), ((1 + share) / 2, upper)):
                below = np.count_nonzero(upto < (tail * (1 - 1e-13)) * upto[:, -1:], axis=1)
                result[rows] = self.support[below]
        return lower.reshape(y.shape), upper.reshape(y.shape)

    def _moments(self, y: Array, noise: Noise) -> Array:
        """Return posterior mean, variance and log-evidence: (3, m)."""
        result = np.empty((3, len(y)))
        for rows, weight, top in self._weights(y, noise):
            total = weight.sum(axis=1)
            mean = weight @ self.support / total
            result[0, rows] = mean
            result[1, rows] = (weight * (self.support - mean[:, None]) ** 2).sum(axis=1) / total
            result[2, rows] = top + np.log(total)
        return result

    def _weights(self, y: Array, noise: Noise) -> Iterator[tuple[slice, Array, Array]]:
        """Yield (rows, π(u) φ(y-u) over its largest term, log of that term) for chunks of the points."""
        nearest = np.clip(y, self.support[0], self.support[-1])
        step = max(1, _TERMS // len(self.support))
        for begin in range(0, len(y), step):
            rows = slice(begin, begin + step)
            level = np.log(self.weights) + noise.relative(
                y[rows, None], self.support, nearest[rows, None]
            )
            top = level.max(axis=1)
            yield rows, np.exp(level - top[:, None]), top + noise.at(y[rows], nearest[rows])

    @classmethod
    def fit(cls, estimate: FrequencyEstimate, *args: Any, **options: Any) -> Self:
        """Raise an error: only the subclasses, ``NPMLE`` and ``Mixture``, are fitted."""
        raise InvalidInputError("Discrete is a prior as given: fit NPMLE or Mixture")
