"""What a prior is, and what it makes of an estimated count: the interface of every prior in this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.estimate import FrequencyEstimate

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of true counts once their estimates y are seen; every array has the shape of y.

    Attributes
    ----------
    mean, variance
        E[k | y] in counts and Var[k | y] in squared counts.
    log_evidence
        log Σ_k π(k) φ((y-k)/s)/s: the log-density of y itself, finite for every finite y.
    """

    mean: Array
    variance: Array
    log_evidence: Array


class Prior(ABC):
    """A distribution π of a true count k in 1 .. n (0 .. n where a point mass at 0 is asked for)."""

    n: int

    @abstractmethod
    def posterior(self, counts: ArrayLike, noise: float) -> Posterior:
        """Return the posterior moments and evidence for estimated counts y = k + N(0, s²) (K Eq. 11).

        Parameters
        ----------
        counts
            Estimated counts y, any shape; negative ones and ones above n too.
        noise
            Standard deviation s of the noise in counts, > 0.
        """

    @abstractmethod
    def interval(self, counts: ArrayLike, noise: float, level: float = 0.95) -> tuple[Array, Array]:
        """Return (lower, upper): the equal-tailed credible interval of each true count."""

    @classmethod
    @abstractmethod
    def fit(cls, estimate: FrequencyEstimate, **options: Any) -> Self:
        """Return the member of this family that fits one vector of estimated frequencies."""

    def posterior_mean(self, counts: ArrayLike, noise: float) -> Array:
        """Return E[k | y] = Σ k π(k) φ((y-k)/s) / Σ π(k) φ((y-k)/s) (K Eq. 12), of the shape of ``counts``."""
        return self.posterior(counts, noise).mean


def posterior_mean(estimate: FrequencyEstimate, prior: Prior | type[Prior]) -> Array:
    """Return posterior mean frequencies, shape (..., d), under a prior or under a family fitted to each trial (K III)."""
    n, _ = estimate.noise
    noise = estimate.sigma * n
    if isinstance(prior, Prior):
        return prior.posterior_mean(estimate.frequencies * n, noise) / n
    f = estimate.frequencies
    result = np.empty_like(f)
    for trial in np.ndindex(f.shape[:-1]):
        fitted = prior.fit(FrequencyEstimate(f[trial], n, estimate.oracle))
        result[trial] = fitted.posterior_mean(f[trial] * n, noise) / n
    return result
