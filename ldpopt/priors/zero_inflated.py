"""A point mass at 0 beside any prior on 1 .. n, for values that nobody has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.base import Prior
from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.density import Density
from ldpopt.priors.fitting import LikelihoodFit, maximise
from ldpopt.priors.noise import CountNoise
from ldpopt.priors.power_law import PowerLaw

Array = NDArray[np.float64]

_SMALLEST_MASS = 1e-300  # the search stays inside the open interval (0, 1)
_LARGEST_MASS = 1 - 2**-53


@dataclass(frozen=True)
class ZeroInflated(Prior):
    """π(0) = mass, π(k) = (1 - mass) times another prior's on 1 .. n.

    Parameters
    ----------
    prior
        The prior on 1 .. n.
    mass
        Share of values that nobody has, in (0, 1).

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``mass`` is out of range or ``prior`` has no density on 1 .. n.

    Examples
    --------
    >>> prior = ZeroInflated(PowerLaw(alpha=1.0, n=1000), mass=0.5)
    >>> prior.posterior_mean([0.0, 100.0], noise=30.0).round(1)
    array([ 3.2, 84.3])
    """

    prior: Density
    mass: float

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Density):
            raise InvalidTypeError(
                f"prior must be a density on 1 .. n such as PowerLaw, got {self.prior!r}"
            )
        object.__setattr__(self, "mass", validate.real("mass", self.mass, above=0, below=1))

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of users."""
        return self.prior.n

    @property
    def _ends(self) -> tuple[float, float]:
        return 0.0, float(self.n)

    def _moments_at(self, y: Array, noise: CountNoise) -> Array:
        # With r = Pr[k = 0 | y] and the other prior's mean m and variance v, the mean is (1-r) m
        # and the variance (1-r)(v + r m²).
        mean, variance, log_evidence = self.prior._moments_at(y, noise)
        empty, others, total = self._at_zero(y, noise, log_evidence)
        spread = variance + empty * mean**2
        return np.stack([others * mean, others * spread, total])

    def _at_zero(
        self,
        y: Array,
        noise: CountNoise,
        log_evidence: Array,
    ) -> tuple[Array, Array, Array]:
        """Return Pr[k = 0 | y], Pr[k > 0 | y] and the log-evidence, from the other prior's."""
        from scipy.special import expit  # slow to import

        at_zero = noise.log_density(y, np.zeros_like(y))
        zero = at_zero + np.log(self.mass)
        others = log_evidence + np.log1p(-self.mass)
        # Each share by itself: 1 - Pr[k = 0 | y] would lose the digits of a small one.
        return expit(zero - others), expit(others - zero), np.logaddexp(zero, others)

    def _quantiles(
        self,
        y: Array,
        noise: CountNoise,
        shares: Array,
    ) -> Array:
        log_evidence = self.prior._posterior(y, noise).log_evidence
        empty, others, _ = self._at_zero(y, noise, log_evidence)
        is_above_zero = empty < shares
        # Where the mass at 0 suffices, any share does: the other prior's quantile is not used.
        remaining = np.full(shares.shape, 0.5)
        np.divide(shares - empty, others, out=remaining, where=is_above_zero)
        quantiles = self.prior._quantiles(y, noise, remaining)
        return np.where(is_above_zero, quantiles, 0.0)

    @classmethod
    def fit(
        cls,
        estimate: FrequencyEstimate,
        family: type[Density] = PowerLaw,
        *,
        value_dependent: bool = False,
    ) -> Self:
        """Return the share of empty values and the member of a family that maximise the likelihood.

        Mean and variance do not determine both, so there is no fit by moments (K Eq. 16).

        Parameters
        ----------
        estimate, value_dependent
            As in ``family.fit``, with the same errors and warnings.
        family
            Of the prior on 1 .. n.
        """
        fit = cls.maximum_likelihood(estimate, family, value_dependent=value_dependent)
        return cast(Self, fit.prior)

    @classmethod
    def maximum_likelihood(
        cls,
        estimate: FrequencyEstimate,
        family: type[Density] = PowerLaw,
        *,
        value_dependent: bool = False,
    ) -> LikelihoodFit:
        """Return share and member of maximum likelihood, with standard errors.

        Parameters, errors and warnings are those of ``fit``.
        """
        counts = EstimatedCounts.of(estimate, value_dependent=value_dependent).vector()

        def build(values: Mapping[str, float]) -> ZeroInflated:
            others = {name: value for name, value in values.items() if name != "mass"}
            # At a share of 0 or 1 one of the two parts drops out, and its parameters with it.
            mass = min(max(values["mass"], _SMALLEST_MASS), _LARGEST_MASS)
            return cls(cast(Any, family)(**others, n=counts.n), mass)

        return maximise(
            build,
            {"mass": 0.5, **family.start(counts)},
            {"mass": "share", **family.parameters()},
            counts,
        )
