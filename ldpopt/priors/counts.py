"""Estimated counts: the border at which frequencies become the counts that priors are about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.immutable import locked
from ldpopt.priors.noise import CountNoise

Array = NDArray[np.float64]

_HUGE = 1e140  # estimates are cut off there: times n and squared they must not overflow


def finite_counts(counts: ArrayLike) -> Array:
    """Return counts as float64, or raise an error that names the first one that is not finite."""
    y = np.asarray(validate.array("counts", counts), dtype=np.float64)
    if not np.isfinite(y).all():
        at = validate.first(~np.isfinite(y))
        raise InvalidInputError(f"counts must be finite, found {y[at]}{validate.placed(at)}")
    return y


@dataclass(frozen=True, eq=False)
class EstimatedCounts:
    """Frequency estimates and their noise, in counts instead of fractions of the users.

    Attributes
    ----------
    values
        Estimated counts y = n f̃, shape (..., d).
    n
        Number of users.
    noise
        Var[y | k] = n (a + b k/n) in counts, or n a for constant noise.
    """

    values: Array
    n: int
    noise: CountNoise

    @classmethod
    def of(
        cls,
        estimate: FrequencyEstimate | ArrayLike,
        *,
        value_dependent: bool = False,
    ) -> EstimatedCounts:
        """Return the counts of an estimate.

        An error is raised if its noise level is unknown or, where it depends on the value, not
        positive at every estimate.

        Parameters
        ----------
        estimate
            Frequencies of shape (..., d), with n and an oracle.
        value_dependent
            Whether the variance grows with the true count (K Eq. 14) instead of being that of a
            count of 0 throughout.
        """
        estimate = FrequencyEstimate.of(estimate)
        n, sd, growth = estimate.noise.in_counts()
        values = np.clip(estimate.frequencies, -_HUGE, _HUGE) * n
        # Constant noise is the papers' model, and the default: b k/n is small where most values
        # are.
        slope = growth if value_dependent else 0.0
        return cls(values, n, CountNoise.checked(sd, slope, n, values))

    def vector(self) -> EstimatedCounts:
        """Return the counts if they are one vector; a stack of trials raises an error."""
        if self.values.ndim != 1:
            raise InvalidInputError(
                "a prior is fitted to one vector of shape (d,), got shape "
                f"{self.values.shape}: fit each trial"
            )
        return self

    def frequencies(self, counts: Array) -> Array:
        """Return counts as fractions of the users."""
        return counts / self.n

    def frequency_variances(self, variances: Array) -> Array:
        """Return variances of counts as variances of fractions of the users."""
        return variances / self.n**2

    def means(self) -> Array:
        """Return the mean of each vector, unbiased for that of its true counts: shape (...)."""
        # Divided before they are added: no sum overflows.
        shares = self.values / self.values.shape[-1]
        return np.asarray(np.sum(shares, axis=-1))

    def true_moments(self) -> tuple[float, float]:
        """Return the mean and variance of the true counts behind one vector (K Eq. 17-20).

        The estimates vary by the variance of the true counts and by their noise, which is
        sd² + slope · mean on average; so the result may be negative. A stack of trials raises an
        error.
        """
        # A mean over several trials would mix the noise of each into the variance.
        mean = float(self.vector().means())
        squares = (self.values - mean) ** 2
        of_noise = float(self.noise.variance(mean))
        return mean, float(np.mean(squares)) - of_noise


def freeze(instance: object, **values: object) -> None:
    """Set attributes of a frozen dataclass to values in canonical form; arrays become read-only.

    What a prior derives from its parameters is kept, so these must never change: the arrays passed
    here belong to the caller alone.
    """
    for name, value in values.items():
        object.__setattr__(instance, name, locked(value))


def require_masses(what: str, values: Array) -> None:
    """Raise an error unless the values can be masses: finite, none negative, not all zero."""
    is_mass = np.isfinite(values) & (values >= 0)
    if not is_mass.all() or not values.any():
        raise InvalidInputError(f"{what} must be finite, none negative and not all zero")
