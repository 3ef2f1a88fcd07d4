"""A prior on finitely many counts: the form of every fit without a formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.base import Prior
from ldpopt.priors.counts import freeze, require_masses
from ldpopt.priors.curve import CHUNK
from ldpopt.priors.noise import CountNoise
from ldpopt.priors.quantiles import reached_points

Array = NDArray[np.float64]

# Weights held at a time: arrays of 128 KB stay in the cache, and fresh memory costs more than sums.
_HELD = 1 << 14

# Support points whose sum takes less than a polynomial, as long as its terms stay in the cache.
_FEW = 32


@dataclass(frozen=True, eq=False)
class Discrete(Prior):
    """π(u_g) = w_g on support points u_1 < u_2 < ... in 0 .. n, which need not be whole.

    Parameters
    ----------
    support
        Ascending counts in 0 .. n.
    weights
        Non-negative, as many as support points, with a positive sum. They are normalised, and
        points without weight are dropped; both arrays are kept read-only.
    n
        Number of users.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the support does not ascend within 0 .. n, or weights are negative, not finite, all zero
        or of another number.

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
        support = _float_array("support", self.support)
        weights = _float_array("weights", self.weights)
        if not _ascends_within(support, n):
            raise InvalidInputError(f"support must be counts in ascending order within 0 .. {n}")
        if weights.shape != support.shape:
            raise InvalidInputError(
                f"{len(support)} support points need as many weights, got shape {weights.shape}"
            )
        require_masses("weights", weights)
        positive = weights > 0
        scaled = weights[positive] / weights.max()  # first: a sum of huge weights overflows
        freeze(
            self,
            n=n,
            support=support[positive],
            weights=scaled / scaled.sum(),
        )

    def mean(self) -> float:
        """Return E[k] of the prior."""
        return float(self.weights @ self.support)

    def variance(self) -> float:
        """Return Var[k] of the prior."""
        squares = (self.support - self.mean()) ** 2
        return float(self.weights @ squares)

    @property
    def _ends(self) -> tuple[float, float]:
        return float(self.support[0]), float(self.support[-1])

    def _moments(self, y: Array, noise: CountNoise) -> Array:
        if len(self.support) <= _FEW and len(y) <= CHUNK:
            return self._moments_at(y, noise)
        return super()._moments(y, noise)

    def _moments_at(self, y: Array, noise: CountNoise) -> Array:
        from ldpopt.priors.posterior_kernel import moments  # imports numba

        # Densities are relative to that at the nearest end: far outside they would all underflow.
        nearest = np.clip(y, *self._ends)
        log_weights = np.log(self.weights)
        variance = (noise.sd**2, float(noise.slope))
        result = moments(y, nearest, self.support, log_weights, variance)
        result[2] += noise.log_density(y, nearest)
        return result

    def _quantiles(
        self,
        y: Array,
        noise: CountNoise,
        shares: Array,
    ) -> Array:
        result = np.empty(shares.shape)
        for terms in relative_terms(y, noise, self.support, self.weights, _HELD):
            rows = terms.rows
            result[:, rows] = reached_points(terms.weight, shares[:, rows], self.support)
        return result

    @classmethod
    def fit(
        cls,
        estimate: FrequencyEstimate,
        *args: Any,
        **options: Any,
    ) -> Self:
        """Raise an error: only the subclasses, ``NPMLE`` and ``Mixture``, are fitted."""
        raise InvalidInputError("Discrete is a prior as given: fit NPMLE or Mixture")


class RelativeTerms(NamedTuple):
    """π(u) φ(y-u) of some estimates, shape (r, points), over the largest of each estimate.

    Attributes
    ----------
    rows
        Which estimates.
    weight
        The terms.
    top
        The logarithm of the largest, with φ relative to its value at the nearest end, shape (r,).
    """

    rows: slice
    weight: Array
    top: Array


def relative_terms(
    y: Array, noise: CountNoise, support: Array, weights: Array, held: int
) -> Iterator[RelativeTerms]:
    """Yield the terms of posteriors on support points, about ``held`` of them at a time."""
    # Densities are relative to that at the nearest end: far outside they would all underflow.
    nearest = np.clip(y, float(support[0]), float(support[-1]))
    log_weights = np.log(weights)
    # A dense support with many estimates would take their product in memory.
    step = max(1, held // len(support))
    for begin in range(0, len(y), step):
        rows = slice(begin, begin + step)
        ratio = noise.log_ratio(y[rows, None], support, nearest[rows, None])
        logs = log_weights + ratio
        # Relative to the largest term of each estimate no exponential overflows.
        top = logs.max(axis=1)
        yield RelativeTerms(rows, np.exp(logs - top[:, None]), top)


def _float_array(what: str, values: ArrayLike) -> Array:
    return np.asarray(validate.array(what, values), dtype=np.float64)


def _ascends_within(support: Array, n: int) -> bool:
    if support.ndim != 1 or not len(support):
        return False
    ascends = bool((np.diff(support) > 0).all())
    return ascends and bool(0 <= support[0] <= support[-1] <= n)
