"""The noise of an estimated count, as a function of the true count."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]

FAR = 1e12
"""Standard deviations beyond the counts at which estimates are cut off: posteriors are at an end of
the counts there, and the squares of larger numbers lose their meaning."""

_LOWEST_LOG = -float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class CountNoise:
    """Gaussian noise of an estimated count y of a true count k, with Var[y | k] = sd² + slope k.

    Attributes
    ----------
    sd
        Standard deviation of the estimate of a count of 0, in counts.
    slope
        Growth of the variance with the true count, in squared counts per count; 0 for constant
        noise.
    """

    sd: float
    slope: float = 0.0

    @classmethod
    def checked(
        cls,
        sd: float,
        slope: float,
        n: int,
        counts: Array,
    ) -> CountNoise:
        """Return the noise, or raise an error where a count or an estimate has no variance.

        Parameters
        ----------
        sd, slope
            As in the class.
        n
            Largest true count.
        counts
            Estimated counts, any shape.
        """
        noise = cls(validate.real("noise", sd, above=0), validate.real("slope", slope))
        if not noise.slope:
            return noise
        if noise.variance(n) <= 0:
            raise InvalidInputError(
                f"the noise must have a positive variance, got {noise.sd:g}² {noise.slope:+g} k "
                f"at k = {n}"
            )
        # Where b < 0 the variance falls with the count, and an estimate may exceed every real one.
        negative = noise.variance(counts) <= 0
        if negative.any():
            at = validate.first(negative)
            raise InvalidInputError(
                "value-dependent noise needs a positive variance at every estimate, found the "
                f"count {counts[at]:g}{validate.placed(at)}: no support count gives it; "
                "use constant noise"
            )
        return noise

    def variance(self, k: ArrayLike) -> Array:
        """Return Var[y | k] in squared counts, of the shape of ``k``."""
        return self.sd**2 + self.slope * np.asarray(k, dtype=np.float64)

    def smallest_sd(self, n: int) -> float:
        """Return the smallest standard deviation over the true counts 0 .. n."""
        # The variance is affine in the count, so its minimum is at an end.
        return math.sqrt(min(self.sd**2, float(self.variance(n))))

    def clip(
        self,
        counts: Array,
        lower: float,
        upper: float,
    ) -> Array:
        """Return the counts cut off ``FAR`` standard deviations outside ``lower`` .. ``upper``."""
        # By the noise of a count of 0 on both sides: so far outside no other noise matters.
        beyond = FAR * self.sd
        return np.clip(counts, lower - beyond, upper + beyond)

    def log_density(self, y: Array, k: Array) -> Array:
        """Return log φ((y-k)/s_k)/s_k, the log-density of y given the count k; always finite."""
        variance = self.variance(k)
        with np.errstate(over="ignore"):
            value = -((y - k) ** 2) / (2 * variance)
            value -= 0.5 * np.log(2 * math.pi * variance)
        return np.maximum(value, _LOWEST_LOG)

    def log_ratio(
        self,
        y: Array,
        k: Array,
        base: Array,
    ) -> Array:
        """Return ``log_density(y, k) - log_density(y, base)`` without cancellation for distant y.

        Parameters
        ----------
        y, k, base
            Estimated counts and two true counts for each, of shapes that broadcast.
        """
        # With u = k - base and t = y - base: (y-k)² - t² = u² - 2ut, whatever the size of y.
        step = k - base
        distance = y - base
        at_base = self.sd**2 + self.slope * base
        if not self.slope:
            return np.asarray(step * (distance - step / 2) / at_base)
        at_k = self.variance(k)
        # Twice the difference of the exponents over the common denominator.
        excess = (step - 2 * distance) * at_base
        excess -= distance**2 * self.slope
        excess *= step
        exponent = -excess / (2 * at_k * at_base)
        log_ratio = 0.5 * np.log(at_k / at_base)
        return np.asarray(exponent - log_ratio)
