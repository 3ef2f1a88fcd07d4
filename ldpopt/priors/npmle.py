"""The nonparametric maximum likelihood prior: nothing is assumed of the true counts (Kiefer, Wolfowitz 1956)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ldpopt import validate
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.binning import Binned
from ldpopt.priors.discrete import Discrete
from ldpopt.priors.mixture_weights import mixture_weights

_SPACING = (
    0.1  # standard deviations between support points: likelihoods do not tell finer ones apart
)
_MARGIN = 1.0  # standard deviations around an estimate that have support points: atoms lie among the estimates
TOLERANCE = 1e-7  # gap, in nats of the mean log likelihood: 0.004 nats in all at d = 42,178


@dataclass(frozen=True, eq=False)
class NPMLE(Discrete):
    """The prior that makes the estimates likeliest: max Σ_v log Σ_g w_g φ((y_v - u_g)/s)/s over the simplex of weights.

    Its maximum has few atoms, at places and in a number that the estimates choose. ``gap`` bounds what the mean log likelihood
    misses to its maximum on the grid, in nats.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = FrequencyEstimate([0.5, 0.5, 0.0, 0.0], n=10_000, oracle=oracles.OUE(epsilon=1.0, d=4))
    >>> prior = NPMLE.fit(estimate)
    >>> abs(prior.mean() - 2500) < 5, prior.gap < 1e-6
    (True, True)
    """

    gap: float = 0.0

    @classmethod
    def fit(cls, estimate: FrequencyEstimate, *, slope: float = 0.0) -> NPMLE:
        """Return the maximum likelihood prior of one vector of estimates.

        Parameters
        ----------
        estimate
            Raw estimates of shape (d,), with n and an oracle.
        slope
            Growth of a count's noise variance with the true count; 0 is the papers' constant noise.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the estimate is a stack of trials or has no noise level.

        Notes
        -----
        Estimates are binned to s/20 and support points lie s/10 apart, from 0 on and near estimates alone; the convex
        problem is solved to a proven gap of 1e-7 nats. Cost: one pass over d, then milliseconds that depend on how far the
        estimates are spread, in standard deviations.
        """
        binned = Binned.of(estimate, validate.real("slope", slope))
        support = binned.near(_SPACING, _MARGIN)
        found = mixture_weights(binned.likelihoods(support), binned.size, tol=TOLERANCE)
        weights = np.where(found.weights > 1e-12, found.weights, 0.0)
        return cls(support, weights, binned.n, found.gap)
