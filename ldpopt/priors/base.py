"""What a prior is, and what it makes of an estimated count: the interface of every prior in this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.trouble import expect_raw

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
    def posterior(self, counts: ArrayLike, noise: float, *, slope: float = 0.0) -> Posterior:
        """Return the posterior moments and evidence for estimated counts y = k + N(0, s² + slope k) (K Eq. 11).

        Parameters
        ----------
        counts
            Estimated counts y, any shape; negative ones and ones above n too.
        noise
            Standard deviation s of the noise in counts, > 0.
        slope
            Growth of the variance with the true count; 0 is the papers' constant noise.
        """

    @abstractmethod
    def interval(
        self, counts: ArrayLike, noise: float, level: float = 0.95, *, slope: float = 0.0
    ) -> tuple[Array, Array]:
        """Return (lower, upper): the equal-tailed credible interval of each true count."""

    @classmethod
    @abstractmethod
    def fit(cls, estimate: FrequencyEstimate, *args: Any, **options: Any) -> Self:
        """Return the member of this family that fits one vector of estimated frequencies."""

    @classmethod
    def fitted_means(cls, estimate: FrequencyEstimate, slope: float) -> Array:
        """Return posterior mean counts with a fit for each trial of a stack."""
        n, oracle = estimate.noise
        f = estimate.frequencies
        result = np.empty_like(f)
        for trial in np.ndindex(f.shape[:-1]):
            fitted = cls.fit(FrequencyEstimate(f[trial], n, oracle))
            result[trial] = fitted.posterior_mean(f[trial] * n, estimate.sigma * n, slope=slope)
        return result

    def posterior_mean(self, counts: ArrayLike, noise: float, *, slope: float = 0.0) -> Array:
        """Return E[k | y] = Σ k π(k) φ((y-k)/s) / Σ π(k) φ((y-k)/s) (K Eq. 12), of the shape of ``counts``."""
        return self.posterior(counts, noise, slope=slope).mean


def same_users(prior: Prior, n: int) -> None:
    """Raise an error unless the prior is one of counts among the estimate's n users."""
    if prior.n != n:
        raise InvalidInputError(
            f"the prior is one of counts among {prior.n} users, the estimate is of n = {n} reports: build the prior with n={n}"
        )


def posterior_mean(
    estimate: FrequencyEstimate, prior: Prior | type[Prior], *, value_dependent: bool = False
) -> Array:
    """Return posterior mean frequencies E[f_v | f̃_v], the estimator with the least mean squared error (K Theorem 2).

    Parameters
    ----------
    estimate
        Raw estimates of shape (..., d), with n and an oracle; of post-processed ones a warning says that their noise is another.
    prior
        A prior for all trials, or a family of priors: a member is then fitted to each trial by its moments.
    value_dependent
        Whether an estimate's variance depends on the true count, n (a + b k/n), instead of being n a for all (K Eq. 14).

    Returns
    -------
    Frequencies of shape (..., d), each in 0 .. 1; their sum is not 1.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the noise level is not known, ``prior`` is neither a prior nor a family, or it is one of another n than the estimate.

    Notes
    -----
    Cost: that of one smooth curve, which grows with log n at most, and a polynomial a value.

    Examples
    --------
    >>> from ldpopt import oracles, priors
    >>> estimate = FrequencyEstimate([0.7, 0.4, -0.1], n=1000, oracle=oracles.OUE(epsilon=1.0, d=3))
    >>> posterior_mean(estimate, priors.PowerLaw(alpha=1.0, n=1000)).round(3)
    array([0.695, 0.39 , 0.008])
    """
    estimate = FrequencyEstimate.of(estimate)
    n, oracle = estimate.noise
    expect_raw(estimate)
    slope = oracle.b if value_dependent else 0.0
    if isinstance(prior, Prior):
        same_users(prior, n)
        return prior.posterior_mean(estimate.frequencies * n, estimate.sigma * n, slope=slope) / n
    if not (isinstance(prior, type) and issubclass(prior, Prior)):
        raise InvalidTypeError(
            f"prior must be a prior or a family of priors such as PowerLaw, got {prior!r}"
        )
    return prior.fitted_means(estimate, slope) / n
