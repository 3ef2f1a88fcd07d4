"""A point mass at 0 beside any prior on 1 .. n: values that nobody has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from ldpopt import validate
from ldpopt.errors import InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.priors.base import Posterior, Prior
from ldpopt.priors.density import Density, Noise, finite, moments
from ldpopt.priors.fitting import LikelihoodFit, maximise
from ldpopt.priors.power_law import PowerLaw

Array = NDArray[np.float64]


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
    >>> bool(prior.posterior_mean(np.array([0.0]), noise=30.0) < prior.prior.posterior_mean(np.array([0.0]), noise=30.0))
    True
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

    def posterior(self, counts: ArrayLike, noise: float, *, slope: float = 0.0) -> Posterior:
        """Return the posterior moments and evidence for estimated counts; arguments and errors as for its prior.

        With r = Pr[k = 0 | y] and the other prior's mean m and variance v the mean is (1-r) m, the variance (1-r)(v + r m²).
        """
        y = finite(counts)
        inner = self.prior.posterior(y, noise, slope=slope)
        empty, log_evidence = self._at_zero(y, inner.log_evidence, Noise(noise, slope))
        return Posterior(
            (1 - empty) * inner.mean,
            (1 - empty) * (inner.variance + empty * inner.mean**2),
            log_evidence,
        )

    def _at_zero(self, y: Array, others: Array, noise: Noise) -> tuple[Array, Array]:
        """Return Pr[k = 0 | y] and the log-evidence, from the other prior's."""
        zero = noise.at(y, np.zeros_like(y)) + np.log(self.mass)
        rest = others + np.log1p(-self.mass)
        return expit(zero - rest), np.logaddexp(zero, rest)

    def interval(
        self, counts: ArrayLike, noise: float, level: float = 0.95, *, slope: float = 0.0
    ) -> tuple[Array, Array]:
        """Return (lower, upper) counts that hold a share ``level`` of each posterior; arguments and errors as for its prior."""
        level = validate.real("level", level, above=0, below=1)
        y = finite(counts)
        checked = Noise.checked(noise, slope, self.n, y)
        empty, _ = self._at_zero(
            y, self.prior.posterior(y, noise, slope=slope).log_evidence, checked
        )
        ends = []
        for probability in ((1 - level) / 2, (1 + level) / 2):
            beyond = empty < probability
            end = np.zeros_like(y)
            share = (probability - empty[beyond]) / (1 - empty[beyond])
            end[beyond] = self.prior._quantile(y[beyond], checked, share)
            ends.append(end)
        return ends[0], ends[1]

    @classmethod
    def fit(
        cls,
        estimate: FrequencyEstimate,
        family: type[Density] = PowerLaw,
        *,
        value_dependent: bool = False,
    ) -> Self:
        """Return the share of empty values and the member of a family that maximise the likelihood (K Eq. 16).

        Mean and variance do not determine both: there is no fit by moments. Errors and warnings as of the family's own fit.
        """
        return cast(
            Self, cls.maximum_likelihood(estimate, family, value_dependent=value_dependent).prior
        )

    @classmethod
    def maximum_likelihood(
        cls,
        estimate: FrequencyEstimate,
        family: type[Density] = PowerLaw,
        *,
        value_dependent: bool = False,
    ) -> LikelihoodFit:
        """Return share and member of maximum likelihood with standard errors; all else as of the family's own fit."""
        _, _, n = moments(estimate)

        def build(values: Mapping[str, float]) -> ZeroInflated:
            others = {name: value for name, value in values.items() if name != "mass"}
            return cls(
                cast(Any, family)(**others, n=n), min(max(values["mass"], 1e-300), 1 - 2**-53)
            )

        return maximise(
            build,
            {"mass": 0.5, **family.start(estimate)},
            {"mass": "share", **family.parameters()},
            estimate,
            estimate.noise[1].b if value_dependent else 0.0,
        )
