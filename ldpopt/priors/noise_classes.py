"""Values of one noise: where it differs between values, each class of values is treated apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise

Index = NDArray[np.int64]

# Standard deviations that differ by less than this share count as one, the quadratic mean: the
# error of a posterior mean changes by the square of it.
_ALIKE = 0.05

# Values that a prior is fitted to, at least: a class with fewer takes in others of up to twice its
# noise, which a sharp value never is.
_FEWEST = 64
_WIDEST = 2.0

_FEWEST_FITTED = 16  # values of one noise: fewer tell a family next to nothing about their law


class OneNoise(FrequencyEstimate):
    """Values of nearly one noise, set apart from others: their true frequencies do not sum to 1.

    Attributes
    ----------
    shares
        The part of the users that has one of these values, as estimated from each vector: shape
        (...).
    """

    shares: NDArray[np.float64]

    def __getitem__(self, trial: Any) -> Self:
        """Return one trial of a stack, or several (a slice), with the shares of these."""
        return super().__getitem__(trial)._altered(shares=self.shares[trial])


def share_of(vector: FrequencyEstimate) -> float:
    """Return the part of the users that has one of the values: 1 of a whole domain."""
    return float(vector.shares) if isinstance(vector, OneNoise) else 1.0


def noise_classes(estimate: FrequencyEstimate) -> Iterator[tuple[Index, FrequencyEstimate]]:
    """Return the indices of the values of each class of noise, and their estimate.

    An estimate whose values all have one noise is the only class. A prior is about values that
    nothing but their estimates tells apart; values of different noise are told apart by it, and
    each class has a prior of its own.
    """
    noise = estimate.noise
    if noise.is_common:
        yield np.arange(estimate.d), estimate
        return
    constant = np.broadcast_to(noise.constant, estimate.d)
    slope = np.broadcast_to(noise.slope, estimate.d)
    # Values of nearly the same noise share a class: a prior is then fitted once for all of them.
    for members in _classes(np.sqrt(constant)):
        common = Noise(float(constant[members].mean()), float(slope[members].mean()), noise.n)
        part = OneNoise(estimate.frequencies[..., members], noise=common, is_raw=estimate.is_raw)
        yield members, part._altered(shares=_shares(estimate, members))


def _shares(estimate: FrequencyEstimate, members: Index) -> NDArray[np.float64]:
    """Return which part of the users has one of the given values, per vector: shape (...)."""
    variance = np.broadcast_to(estimate.noise.constant, estimate.d)
    inside = variance[members].sum()
    # Rounding must leave no variance below 0 where there are no others.
    outside = max(float(variance.sum() - inside), 0.0)
    total = estimate.frequencies.sum(axis=-1)
    # What the sum of all estimates differs from 1 by is shared out by variance: the mean of the
    # members' sum and of what the others leave, by precision.
    theirs = (1 - total) * (inside / (inside + outside))
    sums = estimate.frequencies[..., members].sum(axis=-1) + theirs
    # A share that noise hides may be as large as the noise, or as that of as many other values.
    noise = np.sqrt(inside * outside / (inside + outside))
    lowest = min(noise, len(members) / estimate.d)
    return np.asarray(np.clip(sums, lowest, 1.0))


def _classes(sd: NDArray[np.float64]) -> Iterator[Index]:
    """Return the indices of values with nearly the same standard deviation."""
    order = np.argsort(sd, kind="stable")
    ascending = sd[order]
    first = 0
    while first < len(order):
        end = int(np.searchsorted(ascending, (1 + _ALIKE) * ascending[first], side="right"))
        reach = int(np.searchsorted(ascending, _WIDEST * ascending[first], side="right"))
        end = min(max(end, first + _FEWEST), reach)
        # A rest that is too small for a class of its own stays with this one, if it is alike.
        if len(order) - end < _FEWEST:
            end = reach
        yield order[first:end]
        first = end


def keeps_raw(part: FrequencyEstimate, whole: FrequencyEstimate, prior: object) -> bool:
    """Return whether a class of noise is too small for a family of priors to be fitted to it.

    Its values then keep their raw estimates. An estimate whose values all have one noise is fitted
    however small it is, and a prior that is given needs no fit.
    """
    return part is not whole and isinstance(prior, type) and part.d < _FEWEST_FITTED
