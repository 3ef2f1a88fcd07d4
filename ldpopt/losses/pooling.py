"""How a loss treats values that must be equal: it sees one mean of their data.

Let the loss be Σ ℓ_v(f_v) with ℓ_v(f) = Φ(f) - y_v θ(f), θ increasing. The sum over a block B of
equal values is |B| (Φ(f) - ȳ θ(f)), with the mean ȳ of the y_v: the loss of one value with the
datum ȳ, |B| times. So are the conditions of a multiplier μ of the total, which adds μ f to Φ. That
is least squares of y as far as blocks are concerned, for any Φ and θ: the vector that the pooling
of least squares returns minimises all such losses at once, under chains and any other partial order
(Barlow, Brunk 1972; Jordan, Mühlemann, Ziegel 2019, arXiv 1904.04761).

Frequencies of one loss, multiplier and mean are a strictly increasing function of the mean, the
*level*. Bounds of frequencies are bounds of levels, so that pooling between bounds of single values
is bounded least squares of the levels (Best, Chakravarti, Ubhaya 2000).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InfeasibleError
from ldpopt.estimate import FrequencyEstimate

Array = NDArray[np.float64]

# Stands for 0 in divisions, where everything goes to a bound: results stay below 1e300.
_SMALLEST = 1e-200
# Stands for -inf, the logarithm of 0: any mean with it is as good as infinite, and no sum of a
# million of them overflows.
_NOTHING = -1e290


class Pooling(ABC):
    """The data y of a loss for one estimate, and how frequencies follow from their means.

    Parameters
    ----------
    values
        Returns y. Who asks how a loss pools may not need it, and of long vectors it takes a while.

    Attributes
    ----------
    weights
        Weights of the means, shape (d,); None where all are equal.
    """

    weights: Array | None = None

    is_of_squares: ClassVar[bool] = False
    """Whether the loss is squares of deviations from the data: levels are frequencies."""

    def __init__(self, values: Callable[[], Array]) -> None:
        self._values = values

    @cached_property
    def values(self) -> Array:
        """y, of the frequencies' shape (..., d)."""
        return self._values()

    @property
    def is_common(self) -> bool:
        """Whether a multiplier of the total moves all levels alike, and so keeps what is pooled."""
        return self.weights is None

    @abstractmethod
    def levels(self, mu: Array, values: Array) -> Array:
        """Return the data of each value under multipliers of shape (m, 1), for y of shape (m, d).

        Their means are levels.
        """

    @abstractmethod
    def frequencies(self, mu: Array, levels: Array) -> Array:
        """Return the frequencies at levels, increasing in them."""

    @abstractmethod
    def levels_at(self, mu: Array, f: Array) -> Array:
        """Return the levels of frequencies, infinite ones too: the inverse of ``frequencies``."""

    @abstractmethod
    def without_order(self, estimate: FrequencyEstimate, pooled: Array) -> FrequencyEstimate:
        """Return an estimate from which ``Loss.after_pooling`` takes pooled data in place of y."""


class SquaresPooling(Pooling):
    """½ Σ w_v (f_v - t_v)²: means of the target, weighted."""

    is_of_squares = True

    def __init__(self, target: Array, weights: Array | None) -> None:
        super().__init__(lambda: target)
        self.weights = weights

    def levels(self, mu: Array, values: Array) -> Array:
        """Return t - μ/w."""
        return values - (mu if self.weights is None else mu / self.weights)

    def frequencies(self, mu: Array, levels: Array) -> Array:
        """Return the levels themselves."""
        return levels

    def levels_at(self, mu: Array, f: Array) -> Array:
        """Return the frequencies themselves."""
        return f

    def without_order(self, estimate: FrequencyEstimate, pooled: Array) -> FrequencyEstimate:
        """Return the pooled target."""
        return estimate.processed(pooled)


class VariancePooling(Pooling):
    """Σ (f - f̃)²/(a (1 + κ f)): means of f̃ + κ f̃²/2, quadratic means of the standard deviations.

    With V = 1 + κ f and s = 1 + κ f̃ a term is (V - 2 s + s²/V)/(a κ²): but for a linear part it
    depends on s² alone, and s² = 1 + 2 κ (f̃ + κ f̃²/2). A multiplier divides V² by 1 + a κ μ.
    """

    def __init__(self, target: Array, a: float, kappa: float) -> None:
        super().__init__(lambda: _with_square(target, kappa))
        self._a = a
        self._kappa = kappa

    def levels(self, mu: Array, values: Array) -> Array:
        """Return (y - a μ/2)/(1 + a κ μ)."""
        # Beyond the pole the loss falls for ever: everything is at a bound.
        inside = np.maximum(1 + self._a * self._kappa * mu, _SMALLEST)
        return np.asarray((values - self._a / 2 * mu) / inside)

    def frequencies(self, mu: Array, levels: Array) -> Array:
        """Return (√(1 + 2 κ y) - 1)/κ, by the form that does not cancel."""
        root = np.sqrt(np.maximum(1 + 2 * self._kappa * levels, 0.0))
        return np.asarray(2 * levels / (1 + root))

    def levels_at(self, mu: Array, f: Array) -> Array:
        """Return f + κ f²/2, of f in the domain."""
        # An infinite bound is one of the level, too: inf - inf would be NaN.
        with np.errstate(invalid="ignore"):
            levels = f + self._kappa / 2 * f**2
        return np.where(np.isfinite(f), levels, f)

    def without_order(self, estimate: FrequencyEstimate, pooled: Array) -> FrequencyEstimate:
        """Return the quadratic means."""
        return estimate.processed(self.frequencies(np.zeros(1), pooled))


def _with_square(target: Array, kappa: float) -> Array:
    # Squares beyond the doubles are infinite here, and refused where they are pooled.
    with np.errstate(over="ignore"):
        return np.asarray(target + kappa / 2 * target**2)


class SharesPooling(Pooling):
    """Base class of likelihoods of counts: means of the shares of reports, c/n.

    The shares are linear in f̃, so that means of f̃ do as well.
    """

    def __init__(self, shares: Callable[[], Array], floor: float, slope: float) -> None:
        super().__init__(shares)
        self._floor = floor
        self._slope = slope

    def levels(self, mu: Array, values: Array) -> Array:
        """Return the shares: the multiplier acts on all of them alike."""
        return values

    def _of_probability(self, probability: Array) -> Array:
        return np.asarray((probability - self._floor) / self._slope)

    def _probability(self, f: Array) -> Array:
        return np.asarray(self._floor + self._slope * f)

    def without_order(self, estimate: FrequencyEstimate, pooled: Array) -> FrequencyEstimate:
        """Return the estimate of pooled counts."""
        return estimate.processed(self._of_probability(pooled))


class MultinomialPooling(SharesPooling):
    """-Σ c/n log P: P = (p-q) c/(n μ)."""

    def frequencies(self, mu: Array, levels: Array) -> Array:
        """Return f with P = (p-q) y/μ."""
        return self._of_probability(levels * (self._slope / np.maximum(mu, _SMALLEST)))

    def levels_at(self, mu: Array, f: Array) -> Array:
        """Return μ P/(p-q)."""
        return np.asarray(self._probability(f) * (np.maximum(mu, _SMALLEST) / self._slope))


class BinomialPooling(SharesPooling):
    """-Σ c/n log P + (1 - c/n) log(1 - P): y = P + m P (1 - P) with m = μ/(p-q).

    That is increasing up to the P where it is 1, and from the one where it is 0. No share is
    outside 0 .. 1, so that levels beyond may stand for any P beyond: they go on with the slope 1.
    """

    def frequencies(self, mu: Array, levels: Array) -> Array:
        """Return f at the smaller root of the quadratic, or on the straight parts."""
        m = mu / self._slope
        lowest, highest = _increasing_range(m)
        share = np.clip(levels, 0.0, 1.0)
        total = 1 + m
        root = np.sqrt(np.maximum(total**2 - 4 * m * share, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            # By the sum that does not cancel.
            by_sum = 2 * share / (total + root)
            by_difference = (total - root) / (2 * m)
            probability = np.where(total >= 0, by_sum, by_difference)
        # 0/0, where no report supports the value.
        probability = np.where(np.isnan(probability), 0.0, probability)
        probability = np.where(levels < 0, lowest + levels, probability)
        probability = np.where(levels > 1, highest + levels - 1, probability)
        return self._of_probability(probability)

    def levels_at(self, mu: Array, f: Array) -> Array:
        """Return P + m P (1 - P), and the straight parts beyond."""
        m = mu / self._slope
        lowest, highest = _increasing_range(m)
        probability = self._probability(f)
        # Only there the quadratic increases; beyond, levels go on straight.
        inside = np.clip(probability, lowest, highest)
        levels = inside + m * inside * (1 - inside)
        levels = np.where(probability < lowest, probability - lowest, levels)
        return np.where(probability > highest, 1 + probability - highest, levels)


def _increasing_range(m: Array) -> tuple[Array, Array]:
    """Return where P + m P (1 - P) is 0 and 1 and increases between."""
    # The parabola turns at (1 + 1/m)/2, which is within 0 .. 1 only for |m| > 1.
    with np.errstate(divide="ignore"):
        inverse = 1 / m
    return np.where(m < -1, 1 + inverse, 0.0), np.where(m > 1, inverse, 1.0)


def _logarithms(reference: Array) -> Array:
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.maximum(reference, 0.0))
    return np.maximum(logarithms, _NOTHING)


class LogarithmPooling(Pooling):
    """Σ f log(f/r): means of log r, geometric means of r.

    A value with r = 0 must be 0, and with it all that is below it: its logarithm stands for -inf.
    """

    def __init__(self, reference: Array) -> None:
        super().__init__(lambda: _logarithms(reference))

    def levels(self, mu: Array, values: Array) -> Array:
        """Return log r - 1 - μ."""
        return values - (1 + mu)

    def frequencies(self, mu: Array, levels: Array) -> Array:
        """Return the exponentials."""
        # A bracket's end may be far out: there infinity and 0 are right.
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(levels)

    def levels_at(self, mu: Array, f: Array) -> Array:
        """Return log f."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(f, 0.0))

    def without_order(self, estimate: FrequencyEstimate, pooled: Array) -> FrequencyEstimate:
        """Return the pooled reference.

        Raises
        ------
        InfeasibleError
            If the order leaves no value that may be positive.
        """
        reference = self.frequencies(np.zeros(1), pooled)
        # One trial without any positive value has no distribution at all.
        if not reference.any(axis=-1).all():
            raise InfeasibleError(
                "the order leaves no value that may be positive: those above all others have "
                "estimates <= 0, where the Kullback-Leibler divergence asks for 0; use "
                "LeastSquares()"
            )
        return estimate.processed(reference)
