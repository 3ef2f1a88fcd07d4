"""Priors given by a log-density on the counts: one smooth curve from estimates to posteriors."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError, LdpoptWarning
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import derived_property
from ldpopt.priors.base import Prior
from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.fitting import Kind, LikelihoodFit, maximise
from ldpopt.priors.noise import CountNoise
from ldpopt.priors.quadrature import Terms, posterior_terms, weighted_nodes
from ldpopt.priors.quantiles import quantiles
from ldpopt.priors.reach import around_estimates, around_mode, nearest_counts
from ldpopt.priors.summation import Runs, graded, merged, resolved

Array = NDArray[np.float64]

_ANCHORS = 128  # the largest number of counts that bound the evidence from below
# Standard deviations of the noise that the counts vary by, at least, where a search starts.
_NARROWEST_START = 0.1


class Density(Prior):
    """A prior π(k) ∝ exp(log_density(k)) on the counts 1 .. n.

    Subclasses give the log-density, also between whole counts, and the counts at which a new
    smooth piece begins (``breaks``). From these follow the normaliser, moments, posteriors and
    intervals, at a cost that grows with log n at most.
    """

    n: int

    @abstractmethod
    def log_density(self, k: Array) -> Array:
        """Return log π(k) up to a constant, for real k in 1 .. n; minus infinity without mass."""

    @property
    def breaks(self) -> Array:
        """First counts of smooth pieces after the one from 1: where there is a jump or a kink."""
        return np.empty(0)

    @property
    def log_concave(self) -> bool:
        """Whether the log-density is concave, so that posteriors have one mode to look around."""
        return False

    # --- the prior itself ---------------------------------------------------------------------

    def mean(self) -> float:
        """Return E[k] of the prior."""
        return self._mass[1]

    def variance(self) -> float:
        """Return Var[k] of the prior."""
        return self._mass[2]

    @derived_property
    def _starts(self) -> Array:
        """First counts of the runs to start with."""
        return self._graded()

    def _graded(self) -> Array:
        """Return first counts of runs that are short next to breaks."""
        inner = np.asarray(self.breaks, dtype=np.float64)
        inner = np.unique(inner[(inner > 1) & (inner <= self.n)])
        return graded(np.append(1.0, inner), self.n)

    @property
    def _candidates(self) -> Array:
        """Counts that are searched for some with mass."""
        return self._starts

    @derived_property
    def _anchors(self) -> tuple[Array, Array]:
        """Some counts with positive mass, and their log-densities."""
        candidates = self._candidates
        logs = self.log_density(candidates)
        positive = np.flatnonzero(logs > -np.inf)
        if not len(positive):
            raise _no_mass()
        step = -(-len(positive) // _ANCHORS)  # rounded up
        some = positive[::step]
        return candidates[some], logs[some]

    @derived_property
    def _mass(self) -> tuple[float, float, float]:
        """Log of the normaliser, mean and variance of the prior."""
        low = np.ones(1)
        high = np.full(1, float(self.n))
        if self.log_concave:  # a sharp peak can lie between the nodes of long runs
            low, high = around_mode(self.log_density, 1, self.n)
        runs = resolved(self.log_density, self._starts, self.n, low, high)
        k, logs = weighted_nodes(self.log_density, runs)
        top = logs.max()  # relative to it no exponential overflows
        if top == -np.inf:
            raise _no_mass()
        share = np.exp(logs - top)
        total = share.sum()
        mean = float((share * k).sum() / total)
        squares = (k - mean) ** 2
        variance = float((share * squares).sum() / total)
        log_total = float(top + math.log(total))
        return log_total, mean, variance

    # --- posteriors ---------------------------------------------------------------------------

    @property
    def _ends(self) -> tuple[float, float]:
        return 1.0, float(self.n)

    def _moments_at(self, y: Array, noise: CountNoise) -> Array:
        result = np.empty((3, len(y)))
        for terms in self._terms(y, noise):
            # Relative to the largest term of each estimate no exponential overflows.
            top = terms.logs.max(axis=1, keepdims=True)
            weight = np.exp(terms.logs - top)
            total = weight.sum(axis=1)
            mean = (weight * terms.k).sum(axis=1) / total
            squares = (terms.k - mean[:, None]) ** 2
            squares *= weight
            variance = squares.sum(axis=1) / total
            log_evidence = top[:, 0] + np.log(total)
            result[:, terms.rows] = mean, variance, log_evidence
        # So far the evidence was relative to the nearest count and to the prior's normaliser.
        log_total = self._mass[0]
        result[2] += noise.log_density(y, nearest_counts(y, self.n)) - log_total
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
            for end, share in zip(result, shares, strict=True):
                end[rows] = quantiles(
                    self.log_density,
                    terms,
                    y[rows],
                    noise,
                    self.n,
                    share[rows],
                )
        return result

    def _terms(self, y: Array, noise: CountNoise) -> Iterator[Terms]:
        """Return the terms of the posteriors, some estimates at a time."""
        if not len(y):
            return iter(())
        low, high = self._reach(y, noise)
        reach = Runs(low, high - low + 1)
        # Resolved once for all estimates: they share most of the counts.
        low, high = merged(low, high)
        blocks = resolved(self.log_density, self._starts, self.n, low, high)
        return posterior_terms(self.log_density, blocks, y, noise, reach, self.n)

    def _reach(self, y: Array, noise: CountNoise) -> tuple[Array, Array]:
        """Return the counts (low, high) outside of which posteriors are negligible."""
        nearest = nearest_counts(y, self.n)
        # With one peak the search may stop on each side where the product has fallen enough.
        if self.log_concave:

            def logs(k: Array) -> Array:
                return self.log_density(k) + noise.log_ratio(y, k, nearest)

            return around_mode(logs, len(y), self.n)
        log_total = self._mass[0]
        counts, log_density = self._anchors
        anchors = (counts, log_density - log_total)
        at_nearest = self.log_density(nearest) - log_total
        return around_estimates(y, noise, self.n, anchors, at_nearest)

    # --- fits ---------------------------------------------------------------------------------

    @classmethod
    def parameters(cls) -> Mapping[str, Kind]:
        """Return the names of what a fit determines, each with the values that it may take."""
        return {}

    @classmethod
    def from_moments(
        cls,
        mean: float,
        variance: float,
        n: int,
    ) -> Self:
        """Return the member of the family with this mean and variance of the true counts.

        Families with one parameter use the mean alone (K Eq. 17-18). Where no member has these
        moments the nearest limit is returned, with a warning.

        Raises
        ------
        InvalidInputError
            If the family has no parameters.
        """
        raise _nothing_to_fit(cls)

    @classmethod
    def fit(
        cls,
        estimate: FrequencyEstimate,
        *,
        by: str = "moments",
        value_dependent: bool = False,
    ) -> Self:
        """Return the member of this family that fits one vector of estimated frequencies.

        Parameters
        ----------
        estimate
            With n and an oracle, frequencies of shape (d,).
        by
            ``moments`` equates mean and variance, E ŷ = E k and Var ŷ = Var k + s² (K Eq. 17-20);
            ``likelihood`` maximises Σ_v log Σ_k π(k) φ((y_v-k)/s) (K Eq. 16).
            ``maximum_likelihood`` also gives standard errors.
        value_dependent
            Whether the variance of an estimate grows with the true count, s² + b k, or is s² for
            all.

        Raises
        ------
        InvalidInputError
            If ``by`` is unknown, the noise level is unknown, or there is more than one vector.
        """
        if validate.lookup("way to fit", by, {"moments": False, "likelihood": True}):
            fit = cls.maximum_likelihood(estimate, value_dependent=value_dependent)
            return cast(Self, fit.prior)
        counts = EstimatedCounts.of(estimate, value_dependent=value_dependent)
        mean, variance = counts.true_moments()
        return cls.from_moments(mean, variance, counts.n)

    @classmethod
    def maximum_likelihood(
        cls,
        estimate: FrequencyEstimate,
        *,
        value_dependent: bool = False,
    ) -> LikelihoodFit:
        """Return the member that makes the estimates likeliest, with standard errors (K Eq. 16).

        The search starts from the fit by moments. Where the likelihood has no maximum inside the
        range of the parameters (noise hides the counts) the point reached is returned, with a
        warning and infinite standard errors.

        Parameters
        ----------
        estimate, value_dependent
            As in ``fit``, with the same errors.

        Notes
        -----
        Cost: some dozens of posterior curves.

        Examples
        --------
        >>> from ldpopt import datasets, oracles
        >>> from ldpopt.priors import PowerLaw
        >>> data = datasets.load("zipf")
        >>> oracle = oracles.OUE(epsilon=2.0, d=data.d)
        >>> estimate = oracle.estimate(oracle.simulate_counts(data.counts, rng=0), data.n)
        >>> fit = PowerLaw.maximum_likelihood(estimate)
        >>> print(f"alpha = {fit.parameters['alpha']:.2f} ± {fit.standard_errors['alpha']:.2f}")
        alpha = 1.40 ± 0.02
        """
        counts = EstimatedCounts.of(estimate, value_dependent=value_dependent).vector()

        def build(values: Mapping[str, float]) -> Density:
            return cast(Any, cls)(**values, n=counts.n)  # type: ignore[no-any-return]

        return maximise(build, cls.start(counts), cls.parameters(), counts)

    @classmethod
    def start(cls, counts: EstimatedCounts) -> dict[str, float]:
        """Return parameters to begin a search from: those of the fit by moments, inside limits.

        Raises
        ------
        InvalidInputError
            If the family has no parameters.
        """
        if not cls.parameters():
            raise _nothing_to_fit(cls)
        mean, variance = counts.true_moments()
        n = counts.n
        # Away from the limits of all families: all mass on 1, equal weights, scale 0.
        mean = min(max(mean, 2.0), (n + 1) / 2)
        narrowest = _NARROWEST_START * counts.noise.sd
        variance = max(variance, narrowest**2, 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LdpoptWarning)  # a start need not be right
            first = cls.from_moments(mean, variance, n)
        return {name: float(getattr(first, name)) for name in cls.parameters()}


def _no_mass() -> InvalidInputError:
    return InvalidInputError(
        "the log-density is minus infinity at 1 and at every break: the prior has no mass there; "
        "if it has mass elsewhere, give the counts where it begins as kinks"
    )


def _nothing_to_fit(family: type[Density]) -> InvalidInputError:
    return InvalidInputError(f"{family.__name__} has no parameters to fit: construct it instead")


def point_mass(k: Array, count: float) -> Array:
    """Return the log-density of all mass on one count."""
    return np.where(k == count, 0.0, -np.inf)
