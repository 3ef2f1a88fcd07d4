"""Expected squared error under a prior, whose free minimiser is the posterior mean."""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.closed_form import norm
from ldpopt.errors import InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import locked
from ldpopt.losses.quadratic import LeastSquares
from ldpopt.priors import Prior
from ldpopt.priors.base import posterior_frequencies, require_same_users
from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.noise_classes import keeps_raw, noise_classes

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
    total
        What the true frequencies sum to, if that is known. Estimates are first shifted to this
        sum: without the sum's noise the bottom of a prior is fitted better.

    Raises
    ------
    InvalidTypeError
        If ``prior`` is neither a prior nor a family. A prior of another n than the estimate's
        raises an ``InvalidInputError`` when the loss is used with that estimate.

    Examples
    --------
    >>> from ldpopt import oracles, priors
    >>> estimate = oracles.OUE(epsilon=1.0, d=3).estimate([5_000, 2_700, 2_600], n=10_000)
    >>> loss = PosteriorMean(priors.PowerLaw(alpha=1.5, n=10_000))
    >>> bool(np.all(np.abs(loss.target(estimate)) < np.abs(estimate.frequencies)))
    True
    """

    solved_for: ClassVar[str] = "the posterior mean"
    formula: ClassVar[str] = "E‖f-f′‖²"
    _kept = frozenset({"_means", "_variances"})

    def __init__(self, prior: Prior | type[Prior], *, total: float | None = None) -> None:
        is_family = isinstance(prior, type) and issubclass(prior, Prior)
        if not isinstance(prior, Prior) and not is_family:
            raise InvalidTypeError(
                "prior must be a prior from ldpopt.priors or a family to fit, such as "
                f"priors.PowerLaw, got {prior!r}"
            )
        self.prior = prior
        self.known_total = None if total is None else validate.real("total", total)
        # Posteriors take seconds on large domains, and a solve needs them several times. Their
        # variances are apart: only the loss's value needs them, and they take a fit per trial.
        self._means: WeakKeyDictionary[FrequencyEstimate, Array] = WeakKeyDictionary()
        self._variances: WeakKeyDictionary[FrequencyEstimate, Array] = WeakKeyDictionary()

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\tfrac{1}{2} \, \mathbb{E} \lVert f - F \rVert_2^2"

    @property
    def uses_noise(self) -> bool:
        """True: the model is that of raw estimates."""
        return True

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
        """Return the posterior mean, shape (..., d)."""
        if estimate not in self._means:
            self.validate_for(estimate)
            means = posterior_frequencies(self._observed(estimate), self.prior)
            self._means[estimate] = locked(means)  # callers get it, and a later solve uses it
        return self._means[estimate]

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ E‖f - F‖²."""
        distance = super().value(f, estimate)
        # It does not depend on f, but makes the loss the expected error itself.
        return np.asarray(distance + self._variance(estimate) / 2)

    @property
    def is_centred(self) -> bool:
        """Whether the sum is known, to which estimates are shifted."""
        return self.known_total is not None

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return the slope of the posterior mean under a given prior.

        None for a family: its fit moves too.
        """
        if not isinstance(self.prior, Prior):
            return None
        counts = EstimatedCounts.of(self._observed(estimate))
        return self.prior.slope(counts.values, counts.noise.sd)

    def _observed(self, estimate: FrequencyEstimate) -> FrequencyEstimate:
        """Return the estimate, shifted to the total where that is known."""
        if self.known_total is None:
            return estimate
        # The noise is taken as that of the raw estimate: the shift lowers a variance by one part
        # in d.
        f = estimate.frequencies
        if estimate.noise.is_common:
            return estimate.processed(norm(f, self.known_total))
        # In the metric of the noise: sharp values are not moved by what weak ones miss.
        variances = np.broadcast_to(estimate.noise.constant, estimate.d)
        missing = self.known_total - f.sum(axis=-1, keepdims=True)
        return estimate.processed(f + missing * variances / variances.sum())

    def _variance(self, estimate: FrequencyEstimate) -> Array:
        """Return Σ Var[F_v], shape (...)."""
        if estimate not in self._variances:
            observed = self._observed(estimate)
            variances = []
            for _, part in noise_classes(observed):
                if keeps_raw(part, observed, self.prior):
                    # Raw estimates are left as they are, with the variance of a count of 0.
                    trials = part.frequencies.shape[:-1]
                    variances.append(np.full(trials, part.d * part.sigma**2))
                else:
                    variances.append(_total_variance(self.prior, part))
            self._variances[estimate] = locked(np.sum(variances, axis=0))
        return self._variances[estimate]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was computed: weak references do not pickle."""
        return {"prior": self.prior, "known_total": self.known_total}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start with nothing computed."""
        computed: dict[str, Any] = {
            "_means": WeakKeyDictionary(),
            "_variances": WeakKeyDictionary(),
        }
        super().__setstate__({**state, **computed})

    def __repr__(self) -> str:
        prior = self.prior if isinstance(self.prior, Prior) else self.prior.__name__
        total = "" if self.known_total is None else f", total={self.known_total:g}"
        return f"PosteriorMean({prior}{total})"


def _total_variance(prior: Prior | type[Prior], estimate: FrequencyEstimate) -> Array:
    """Return Σ Var[F_v] under one prior, or under a member fitted to each trial, shape (...)."""
    if isinstance(prior, Prior):
        counts = EstimatedCounts.of(estimate)
        posterior = prior.posterior(counts.values, counts.noise.sd)
        variances = counts.frequency_variances(posterior.variance)
        return np.asarray(np.sum(variances, axis=-1))
    total = np.empty(estimate.frequencies.shape[:-1])
    for trial in np.ndindex(total.shape):
        vector = estimate[trial]
        # A family has one member per trial, as for the means.
        total[trial] = _total_variance(prior.fit(vector), vector)
    return total
