"""Expected squared error under a prior, whose minimiser without constraints is the posterior mean."""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.quadratic import LeastSquares
from ldpopt.priors import Prior
from ldpopt.priors.base import require_same_users

Array = NDArray[np.float64]


class PosteriorMean(LeastSquares):
    """½ E‖f - F‖² over the posterior of the true frequencies F: ½ ‖f - E[F]‖² + ½ Σ Var[F_v] (N IV-E, K III).

    So under any constraints it is least squares from the posterior mean instead of f̃; on the simplex it is PowerNS.

    Parameters
    ----------
    prior
        A prior over true counts from ``ldpopt.priors``, or a family such as ``priors.PowerLaw``, which is then fitted to every
        vector of the estimate.

    Raises
    ------
    InvalidTypeError
        If it is neither. A prior of another n than the estimate that it is used with raises an ``InvalidInputError`` there.

    Examples
    --------
    >>> from ldpopt import oracles, priors
    >>> estimate = oracles.OUE(epsilon=1.0, d=3).estimate([5_000, 2_700, 2_600], n=10_000)
    >>> loss = PosteriorMean(priors.PowerLaw(alpha=1.5, n=10_000))
    >>> bool(np.all(np.abs(loss.target(estimate)) < np.abs(estimate.frequencies)))
    True
    """

    solved_for: ClassVar[str] = "the posterior mean"

    @property
    def family(self) -> type[LeastSquares]:
        """Least squares: the posterior mean takes the place of f̃."""
        return LeastSquares

    def __init__(self, prior: Prior | type[Prior]) -> None:
        if not isinstance(prior, Prior) and not (
            isinstance(prior, type) and issubclass(prior, Prior)
        ):
            raise InvalidTypeError(
                f"prior must be a prior from ldpopt.priors or a family to fit, such as priors.PowerLaw, got {prior!r}"
            )
        self.prior = prior
        self._known: WeakKeyDictionary[FrequencyEstimate, tuple[Array, Array]] = WeakKeyDictionary()

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the noise level is known and a given prior is one of counts among as many users."""
        n = estimate.noise.require_n()
        if isinstance(self.prior, Prior):
            require_same_users(self.prior, n)

    def _moments(self, estimate: FrequencyEstimate) -> tuple[Array, Array]:
        """Return mean (..., d) and total variance (...) of the true frequencies, found once an estimate."""
        if estimate not in self._known:
            self.validate_for(estimate)
            n = estimate.noise.require_n()
            f = estimate.frequencies
            mean, variance = np.empty(f.shape), np.empty(f.shape)
            given = self.prior if isinstance(self.prior, Prior) else None
            for part in (
                [()] if given else np.ndindex(f.shape[:-1])
            ):  # a prior that is given takes all trials at once
                prior = given or self.prior.fit(estimate[part])
                posterior = prior.posterior(n * f[part], n * estimate.sigma)
                mean[part], variance[part] = posterior.mean / n, posterior.variance / n**2
            self._known[estimate] = mean, variance.sum(axis=-1)
        return self._known[estimate]

    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return the posterior mean."""
        return self._moments(estimate)[0]

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ E‖f - F‖²."""
        return np.asarray(super().value(f, estimate) + self._moments(estimate)[1] / 2)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was computed, which weak references hold."""
        return {"prior": self.prior}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start with nothing computed."""
        super().__setstate__({**state, "_known": WeakKeyDictionary()})

    def __repr__(self) -> str:
        prior = self.prior if isinstance(self.prior, Prior) else self.prior.__name__
        return f"PosteriorMean({prior})"
