"""Expected squared error under a prior, whose minimiser without constraints is the posterior mean."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.quadratic import LeastSquares
from ldpopt.priors import Prior
from ldpopt.priors.base import require_same_users
from ldpopt.priors.counts import EstimatedCounts

Array = NDArray[np.float64]


class PosteriorMean(LeastSquares):
    """½ E‖f - F‖² over the posterior of the true frequencies F (N IV-E, K III).

    It equals ½ ‖f - E[F]‖² + ½ Σ Var[F_v]. So under any constraints it is least squares from the
    posterior mean instead of f̃; on the simplex it is PowerNS.

    Parameters
    ----------
    prior
        A prior over true counts from ``ldpopt.priors``, or a family such as ``priors.PowerLaw``,
        which is then fitted to every vector of the estimate.

    Raises
    ------
    InvalidTypeError
        If it is neither. A prior of another n than the estimate's raises an ``InvalidInputError``
        when the loss is used with that estimate.

    Examples
    --------
    >>> from ldpopt import oracles, priors
    >>> estimate = oracles.OUE(epsilon=1.0, d=3).estimate([5_000, 2_700, 2_600], n=10_000)
    >>> loss = PosteriorMean(priors.PowerLaw(alpha=1.5, n=10_000))
    >>> bool(np.all(np.abs(loss.target(estimate)) < np.abs(estimate.frequencies)))
    True
    """

    solved_for: ClassVar[str] = "the posterior mean"

    def __init__(self, prior: Prior | type[Prior]) -> None:
        is_family = isinstance(prior, type) and issubclass(prior, Prior)
        if not isinstance(prior, Prior) and not is_family:
            raise InvalidTypeError(
                "prior must be a prior from ldpopt.priors or a family to fit, such as "
                f"priors.PowerLaw, got {prior!r}"
            )
        self.prior = prior
        # Posteriors take seconds on large domains, and a solve needs them several times.
        self._moments_of: WeakKeyDictionary[FrequencyEstimate, _Moments] = WeakKeyDictionary()

    @property
    def family(self) -> type[LeastSquares]:
        """Least squares: the posterior mean takes the place of f̃."""
        return LeastSquares

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the noise is known and a given prior is about as many users."""
        n = estimate.noise.require_n()
        if isinstance(self.prior, Prior):
            require_same_users(self.prior, n)

    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return the posterior mean."""
        return self._moments(estimate).mean

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ E‖f - F‖²."""
        distance = super().value(f, estimate)
        return np.asarray(distance + self._moments(estimate).total_variance / 2)

    def _moments(self, estimate: FrequencyEstimate) -> _Moments:
        """Return the moments of the true frequencies, computed once per estimate."""
        if estimate not in self._moments_of:
            self.validate_for(estimate)
            self._moments_of[estimate] = _moments(self.prior, estimate)
        return self._moments_of[estimate]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was computed: weak references do not pickle."""
        return {"prior": self.prior}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start with nothing computed."""
        super().__setstate__({**state, "_moments_of": WeakKeyDictionary()})

    def __repr__(self) -> str:
        prior = self.prior if isinstance(self.prior, Prior) else self.prior.__name__
        return f"PosteriorMean({prior})"


class _Moments(NamedTuple):
    """Posterior means (..., d) and the sum of the posterior variances (...), of frequencies."""

    mean: Array
    total_variance: Array


def _moments(prior: Prior | type[Prior], estimate: FrequencyEstimate) -> _Moments:
    counts = EstimatedCounts.of(estimate)
    shape = counts.values.shape
    mean = np.empty(shape)
    variance = np.empty(shape)
    # A given prior takes all trials at once; a family is fitted to each.
    given = prior if isinstance(prior, Prior) else None
    parts = np.ndindex(shape[:-1]) if given is None else [()]
    for part in parts:
        fitted = given or prior.fit(estimate[part])
        posterior = fitted.posterior(counts.values[part], counts.noise.sd)
        mean[part] = counts.frequencies(posterior.mean)
        variance[part] = counts.frequency_variances(posterior.variance)
    return _Moments(mean, variance.sum(axis=-1))
