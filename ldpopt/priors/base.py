"""What a prior is, and what it makes of an estimated count: the interface of every prior here."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.traced import warn_unless_raw_noise
from ldpopt.immutable import Immutable
from ldpopt.priors.counts import EstimatedCounts, finite_counts
from ldpopt.priors.curve import CELL, interpolated
from ldpopt.priors.noise import CountNoise
from ldpopt.priors.noise_classes import keeps_raw, noise_classes

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of true counts k given their estimates y; every array has the shape of y.

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


class Prior(Immutable):
    """A distribution π of a true count k among n users.

    Subclasses state where their counts end and how posteriors follow for a few estimates; the
    posterior of any number of estimates is interpolated from these.
    """

    n: int

    @property
    @abstractmethod
    def _ends(self) -> tuple[float, float]:
        """The lowest and the highest count that may have mass."""

    @abstractmethod
    def _moments_at(self, y: Array, noise: CountNoise) -> Array:
        """Return the posterior mean, variance and log-evidence of a few estimates: (3, m)."""

    @abstractmethod
    def _quantiles(
        self,
        y: Array,
        noise: CountNoise,
        shares: Array,
    ) -> Array:
        """Return the smallest count k with Pr[counts up to k | y] >= share.

        Estimates have shape (m,); shares have shape (q, m), and so has the result.
        """

    @classmethod
    @abstractmethod
    def fit(
        cls,
        estimate: FrequencyEstimate,
        *args: Any,
        **options: Any,
    ) -> Self:
        """Return the member of this family that fits one vector of estimated frequencies."""

    @classmethod
    def fitted_means(cls, estimate: FrequencyEstimate, *, value_dependent: bool = False) -> Array:
        """Return posterior mean counts, shape (..., d), under a member fitted to each trial.

        Parameters
        ----------
        estimate
            With n and an oracle, frequencies of shape (..., d).
        value_dependent
            Whether the variance of an estimate grows with the true count.
        """
        counts = EstimatedCounts.of(estimate, value_dependent=value_dependent)
        # Not every family knows the option; those that do not raise an error where it is used.
        options = {"value_dependent": True} if value_dependent else {}
        means = np.empty_like(counts.values)
        for trial in np.ndindex(means.shape[:-1]):
            prior = cls.fit(estimate[trial], **options)
            posterior = prior._posterior(counts.values[trial], counts.noise)
            means[trial] = posterior.mean
        return means

    def posterior(
        self,
        counts: ArrayLike,
        noise: float,
        *,
        slope: float = 0.0,
    ) -> Posterior:
        """Return the posterior moments and evidence of y = k + N(0, s² + slope k) (K Eq. 11).

        Parameters
        ----------
        counts
            Estimated counts y, any shape; they may be negative or above n.
        noise
            Standard deviation s of the estimate of a count of 0, in counts, > 0.
        slope
            Growth of the variance with the true count; 0 is the constant noise of the papers.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a count is not finite or a variance is not positive.

        Notes
        -----
        A few points per standard deviation are summed over the counts that matter to them; the
        others are interpolated. Both are refined until relative errors are below about 1e-10.
        Cost: some hundreds of sums, whatever n and the noise, and one polynomial per estimate.
        """
        y = finite_counts(counts)
        return self._posterior(y, CountNoise.checked(noise, slope, self.n, y))

    def _posterior(self, y: Array, noise: CountNoise) -> Posterior:
        """Return the posterior of finite counts under noise that is valid for them."""
        lower, upper = self._ends
        # Interpolation would otherwise cover the whole way to an estimate far outside.
        near = noise.clip(y.ravel(), lower, upper)
        moments = self._moments(near, noise)
        mean, variance, log_evidence = moments.reshape(3, *y.shape)
        near = near.reshape(y.shape)
        is_cut = near != y
        if is_cut.any():
            # All mass is at the nearest end from there on, so the evidence falls like its density.
            end = np.clip(y[is_cut], lower, upper)
            at_estimate = noise.log_density(y[is_cut], end)
            at_cut = noise.log_density(near[is_cut], end)
            with np.errstate(over="ignore"):
                beyond = log_evidence[is_cut] + (at_estimate - at_cut)
            # The evidence is stated to be finite: minus infinity would turn sums over values into
            # NaN.
            lowest = -np.finfo(np.float64).max
            log_evidence[is_cut] = np.maximum(beyond, lowest)
        return Posterior(mean, variance, log_evidence)

    def _moments(self, y: Array, noise: CountNoise) -> Array:
        """Return the posterior mean, variance and log-evidence of near estimates, shape (3, m)."""

        def compute(points: Array) -> Array:
            return self._moments_at(points, noise)

        return interpolated(compute, y, CELL * noise.smallest_sd(self.n))

    def posterior_mean(
        self,
        counts: ArrayLike,
        noise: float,
        *,
        slope: float = 0.0,
    ) -> Array:
        """Return E[k | y] = Σ k π(k) φ((y-k)/s) / Σ π(k) φ((y-k)/s) (K Eq. 12).

        Parameters, errors and cost are those of ``posterior``; the shape is that of ``counts``.
        """
        return self.posterior(counts, noise, slope=slope).mean

    def slope(self, counts: ArrayLike, noise: float) -> Array:
        """Return the derivative of the posterior mean by the estimate: Tweedie's formula.

        It is the posterior variance over that of the noise, which is the same for all counts.
        Parameters, errors and cost are those of ``posterior``; the shape is that of ``counts``.
        """
        return np.asarray(self.posterior(counts, noise).variance / noise**2)

    def interval(
        self,
        counts: ArrayLike,
        noise: float,
        level: float = 0.95,
        *,
        slope: float = 0.0,
    ) -> tuple[Array, Array]:
        """Return the equal-tailed credible interval (lower, upper) of each true count.

        The lower end is the smallest count with Pr[k <= lower | y] >= (1 - level)/2, the upper end
        the smallest with Pr[k <= upper | y] >= (1 + level)/2. Both are counts that the prior
        allows, and exact; so the interval may hold more than ``level``.

        Parameters
        ----------
        counts, noise, slope
            As in ``posterior``.
        level
            Posterior probability of the interval, in (0, 1).

        Returns
        -------
        Two arrays of the shape of ``counts``.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a count is not finite, a variance is not positive, or ``level`` is out of range.
        """
        level = validate.confidence("level", level)
        y = finite_counts(counts)
        checked = CountNoise.checked(noise, slope, self.n, y)
        near = checked.clip(y.ravel(), *self._ends)
        # Both ends at once, since the terms of the posteriors are the costly part.
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        shares = np.broadcast_to(tails[:, None], (2, len(near)))
        ends = self._quantiles(near, checked, shares)
        lower, upper = ends.reshape(2, *y.shape)
        return lower, upper


def require_same_users(prior: Prior, n: int) -> None:
    """Raise an error unless the prior is one of counts among the estimate's n users."""
    if prior.n != n:
        raise InvalidInputError(
            f"the prior is one of counts among {prior.n} users, the estimate is of n = {n} "
            f"reports: build the prior with n={n}"
        )


def posterior_mean(
    estimate: FrequencyEstimate,
    prior: Prior | type[Prior],
    *,
    value_dependent: bool = False,
) -> Array:
    """Return the posterior mean frequencies E[f_v | f̃_v].

    No other function of one estimate at a time has a smaller mean squared error, if the prior is
    the distribution of the true counts (K Theorem 2).

    Parameters
    ----------
    estimate
        Raw estimates of shape (..., d), with n and an oracle. Post-processed estimates raise a
        warning, since their noise differs.
    prior
        A prior for all trials, or a family of priors, of which one member is fitted to each trial.
    value_dependent
        Whether the variance of an estimated count depends on the true count, n (a + b k/n), or is
        n a for all (K Eq. 14).

    Returns
    -------
    Frequencies of shape (..., d), each in 0 .. 1. They need not sum to 1.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the noise level is unknown, ``prior`` is neither a prior nor a family, or it is a prior
        for another n than the estimate's.

    Notes
    -----
    Cost: that of one smooth curve, which grows with log n at most, and one polynomial per value.
    Where the noise differs between values, those of nearly the same noise are treated together, at
    least 64 of them, and a family is fitted to each such class.

    Examples
    --------
    >>> from ldpopt import oracles, priors
    >>> oracle = oracles.OUE(epsilon=1.0, d=3)
    >>> estimate = FrequencyEstimate([0.7, 0.4, -0.1], n=1000, oracle=oracle)
    >>> posterior_mean(estimate, priors.PowerLaw(alpha=1.0, n=1000)).round(3)
    array([0.695, 0.39 , 0.008])
    """
    estimate = FrequencyEstimate.of(estimate)
    warn_unless_raw_noise(estimate)
    return posterior_frequencies(estimate, prior, value_dependent=value_dependent)


def posterior_frequencies(
    estimate: FrequencyEstimate,
    prior: Prior | type[Prior],
    *,
    value_dependent: bool = False,
) -> Array:
    """Return the same as ``posterior_mean``, without its warning about processed estimates.

    Arguments and errors are those of ``posterior_mean``.
    """
    if not isinstance(prior, Prior) and not (isinstance(prior, type) and issubclass(prior, Prior)):
        raise InvalidTypeError(
            f"prior must be a prior or a family of priors such as PowerLaw, got {prior!r}"
        )
    # Values of different noise are different in shrinkage too: a prior is fitted to each class.
    means = np.empty_like(estimate.frequencies)
    for members, part in noise_classes(estimate):
        if keeps_raw(part, estimate, prior):
            means[..., members] = part.frequencies
            continue
        means[..., members] = _of_one_noise(part, prior, value_dependent=value_dependent)
    return means


def _of_one_noise(
    estimate: FrequencyEstimate, prior: Prior | type[Prior], *, value_dependent: bool
) -> Array:
    """Return the posterior mean of values that all have the same noise."""
    counts = EstimatedCounts.of(estimate, value_dependent=value_dependent)
    if isinstance(prior, Prior):
        require_same_users(prior, counts.n)
        posterior = prior._posterior(counts.values, counts.noise)
        return counts.frequencies(posterior.mean)
    means = prior.fitted_means(estimate, value_dependent=value_dependent)
    return counts.frequencies(means)
