"""A prior on finitely many counts: the form of every fit without a formula."""

from __future__ import annotations

import math
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
from ldpopt.priors.noise import CountNoise
from ldpopt.priors.quantiles import ROUNDED

Array = NDArray[np.float64]

# Weights held at a time: arrays of 128 KB stay in the cache, and fresh memory costs more than sums.
_HELD = 1 << 14
# Standard deviations that estimates treated together span.
_CLOSE = 8.0
# Standard deviations outside the counts beyond which all support points are held.
_FAR = 1000.0
# Terms below exp(-100) of the largest change no moment by a digit, and no quantile.
_NEGLIGIBLE = 100.0


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

    def _moments_at(self, y: Array, noise: CountNoise) -> Array:
        result = np.empty((3, len(y)))
        for terms in self._terms(y, noise):
            # The largest weight is 1, so that the total cannot be 0.
            support = self.support[terms.points]
            total = terms.weight.sum(axis=1)
            mean = terms.weight @ support / total
            # Around the mean: the difference of two large second moments would cancel.
            squares = support - mean[:, None]
            squares *= squares
            squares *= terms.weight
            variance = squares.sum(axis=1) / total
            log_evidence = terms.log_scale + np.log(total)
            result[:, terms.rows] = mean, variance, log_evidence
        return result

    def _quantiles(
        self,
        y: Array,
        noise: CountNoise,
        shares: Array,
    ) -> Array:
        result = np.empty(shares.shape)
        for terms in self._terms(y, noise):
            rows = terms.rows
            upto = np.cumsum(terms.weight, axis=1)
            total = upto[:, -1:]
            for end, share in zip(result, shares, strict=True):
                # Of the rounded total, at which the sums end: so every share below 1 is reached.
                target = share[rows, None] * ROUNDED * total
                below = np.count_nonzero(upto < target, axis=1)
                end[rows] = self.support[terms.points][below]
        return result

    def _terms(self, y: Array, noise: CountNoise) -> Iterator[_Terms]:
        """Yield the terms of the posteriors, some neighbouring estimates at a time."""
        order = np.argsort(y)
        ascending = y[order]
        log_weights = np.log(self.weights)
        # A dense support with many estimates would take their product in memory.
        most = max(1, _HELD // len(self.support))
        begin = 0
        while begin < len(y):
            # Close to each other, so that few support points matter to them.
            close = np.searchsorted(ascending, ascending[begin] + _CLOSE * noise.sd, side="right")
            end = min(begin + most, max(int(close), begin + 1))
            of_rows = ascending[begin:end]
            points = self._points_near(of_rows, noise, log_weights)
            # Densities are relative to that at the nearest end: far outside they would underflow.
            base = np.clip(of_rows[(end - begin) // 2], *self._ends)
            logs = noise.log_ratios(of_rows, self.support[points], float(base))
            logs += log_weights[points]
            # Relative to the largest term of each estimate no exponential overflows.
            top = logs.max(axis=1)
            logs -= top[:, None]
            weight = np.exp(logs, out=logs)
            log_scale = top + noise.log_density(of_rows, base)
            yield _Terms(order[begin:end], points, weight, log_scale)
            begin = end

    def _points_near(self, ascending: Array, noise: CountNoise, log_weights: Array) -> slice:
        """Return the support points whose terms are above e^-100 of the largest of some estimate.

        The nearest support point, with the smallest weight, bounds the largest term from below.
        """
        low = ascending[0]
        high = ascending[-1]
        outside = max(float(self.support[0] - low), float(high - self.support[-1]), 0.0)
        # Squares of long ways do not show what a step between two points changes.
        if noise.slope or outside > _FAR * noise.sd:
            return slice(None)
        # An estimate between two support points has one within half of the longest way between.
        first, last = np.searchsorted(self.support, (low, high))
        around = self.support[max(first - 1, 0) : last + 1]
        between = float(np.diff(around).max(initial=0.0)) / 2
        spread = float(log_weights.max() - log_weights.min())
        room = math.sqrt(2 * (_NEGLIGIBLE + spread)) * noise.sd
        reach = math.hypot(max(outside, between), room)
        start = int(np.searchsorted(self.support, low - reach))
        stop = int(np.searchsorted(self.support, high + reach, side="right"))
        return slice(start, stop)

    @classmethod
    def fit(
        cls,
        estimate: FrequencyEstimate,
        *args: Any,
        **options: Any,
    ) -> Self:
        """Raise an error: only the subclasses, ``NPMLE`` and ``Mixture``, are fitted."""
        raise InvalidInputError("Discrete is a prior as given: fit NPMLE or Mixture")


class _Terms(NamedTuple):
    """π(u) φ(y-u) of some estimates at some points, (r, points), over exp(log_scale), (r,)."""

    rows: NDArray[np.intp]
    points: slice
    weight: Array
    log_scale: Array


def _float_array(what: str, values: ArrayLike) -> Array:
    return np.asarray(validate.array(what, values), dtype=np.float64)


def _ascends_within(support: Array, n: int) -> bool:
    if support.ndim != 1 or not len(support):
        return False
    ascends = bool((np.diff(support) > 0).all())
    return ascends and bool(0 <= support[0] <= support[-1] <= n)
