"""Squared distances to the estimate: plain, weighted, and weighted by the variance that f itself implies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.simplex import check_weighted_domain
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class LeastSquares(Loss):
    """½ ‖f - f̃‖² (N IV-C).

    Examples
    --------
    >>> estimate = FrequencyEstimate([0.5, 0.2])
    >>> float(LeastSquares().value(np.array([0.5, 0.4]), estimate))
    0.020000000000000004
    """

    weights: ClassVar[None] = None

    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return the point whose distance is measured, shape (..., d): f̃."""
        return estimate.frequencies

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ Σ (f_v - f̃_v)²."""
        return np.asarray(0.5 * np.sum((f - self.target(estimate)) ** 2, axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return f - f̃."""
        return f - self.target(estimate)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃."""
        return (self.target(estimate),)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return ½ ‖d (f - f̃)‖²: in units of the uniform frequency, so that tolerances mean something."""
        import cvxpy as cp

        (target,) = data
        return 0.5 * cp.sum_squares(f.size * (f - target)), []

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return f̃ - μ."""
        return data[0] - mu

    def strong_convexity(self) -> float:
        """Return 1."""
        return 1.0


class WeightedLeastSquares(Loss):
    """½ Σ w_v (f_v - f̃_v)².

    Parameters
    ----------
    weights
        One finite number > 0 a value, shape (d,): how much each estimate is trusted, such as its inverse variance.

    Raises
    ------
    InvalidInputError
        If a weight is not finite and positive (the first index is named).

    Examples
    --------
    >>> loss = WeightedLeastSquares([1.0, 4.0])
    >>> float(loss.value(np.array([0.5, 0.5]), FrequencyEstimate([0.5, 0.0])))
    0.5
    """

    def __init__(self, weights: ArrayLike) -> None:
        self.weights = validate.array("weights", weights).astype(np.float64)  # a copy
        wrong = ~((self.weights > 0) & np.isfinite(self.weights))
        if self.weights.ndim != 1 or not self.weights.size:
            raise InvalidInputError(f"weights must have shape (d,), got shape {self.weights.shape}")
        if wrong.any():
            at = validate.first(wrong)
            raise InvalidInputError(
                f"weights must be positive and finite, found {self.weights[at]:g} at {validate.where(at)}"
            )

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless there is one weight a value."""
        if len(self.weights) != estimate.d:
            raise InvalidInputError(
                f"there are {len(self.weights)} weights for {estimate.d} values"
            )

    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return the point whose distance is measured, shape (..., d): f̃."""
        return estimate.frequencies

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ Σ w (f - f̃)²."""
        return np.asarray(0.5 * np.sum(self.weights * (f - estimate.frequencies) ** 2, axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return w (f - f̃)."""
        return np.asarray(self.weights * (f - estimate.frequencies))

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃."""
        return (estimate.frequencies,)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return ½ ‖d √w (f - f̃)‖² with the weights relative to their mean."""
        import cvxpy as cp

        root = np.sqrt(self.weights / self.weights.mean())
        return 0.5 * cp.sum_squares(
            cp.multiply(f.size * root, f) - cp.multiply(f.size * root, data[0])
        ), []

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return f̃ - μ/w."""
        return data[0] - mu / self.weights

    def strong_convexity(self) -> float:
        """Return the smallest weight."""
        return float(self.weights.min())


class GaussianMLE(Loss):
    """Σ (f_v - f̃_v)²/(a + b f_v): the paper's weighted MLE (N Eq. 11, without the normaliser).

    Its estimate needs an oracle, and 1 + κ f̃_v > 0 everywhere, which support counts guarantee.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = FrequencyEstimate([0.5, 0.2], n=100, oracle=oracles.SUE(epsilon=1.0, d=2))
    >>> float(GaussianMLE().value(np.array([0.5, 0.2]), estimate))
    0.0
    """

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error where the oracle is unknown or the model's variance would be negative."""
        check_weighted_domain(estimate.frequencies, self.constants(estimate)[0])

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ (f_v - f̃_v)²/(a + b f_v); ``inf`` where a variance is not positive."""
        noise = estimate.noise
        variance = noise.a + noise.b * f
        inside = np.all(variance > 0, axis=-1)
        squares = (f - estimate.frequencies) ** 2 / np.where(variance > 0, variance, 1.0)
        return np.asarray(np.where(inside, np.sum(squares, axis=-1), np.inf))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return r (2 - b r) with r = (f - f̃)/(a + b f)."""
        noise = estimate.noise
        ratio = (f - estimate.frequencies) / (noise.a + noise.b * f)
        return np.asarray(ratio * (2 - noise.b * ratio))

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃ and, where a differs between values, each a over their mean."""
        return (estimate.frequencies, *_relative_variances(estimate))

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return κ, a (the mean), and 1/σ (but at most d): the unit in which residuals are of order 1."""
        noise = estimate.noise
        sd = float(np.sqrt(np.mean(noise.constant)))
        return noise.kappa, float(np.mean(noise.a)), min(float(estimate.d), 1 / sd)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return mean t with ((f_v - f̃_v)/σ)² <= t_v (1 + κ f_v): d second-order cones of dimension 3 in one constraint."""
        import cvxpy as cp

        target, *relative = data
        kappa, _, unit = constants
        t = cp.Variable(f.size)
        weight = 1 + kappa * f
        if relative:
            weight = cp.multiply(relative[0], weight)
        cone = cp.SOC(t + weight, cp.vstack([2 * unit * (f - target), t - weight]), axis=0)
        return cp.sum(t) / f.size, [cone]

    def domain(self, constants: tuple[float, ...]) -> tuple[float, float]:
        """Return -1/κ as the end where κ < 0, as the start where κ > 0: the model's variance vanishes there."""
        kappa = constants[0]
        return (-1 / kappa if kappa > 0 else -math.inf), (-1 / kappa if kappa < 0 else math.inf)

    def curvature(self, estimate: FrequencyEstimate, largest: float) -> Array:
        """Return the least of 2 (a + b f̃)²/(a + b f)³."""
        noise = estimate.noise
        steepest = noise.a + np.maximum(noise.b * largest, 0.0)
        variance = noise.a + noise.b * estimate.frequencies
        return np.asarray(np.min(2 * variance**2 / steepest**3, axis=-1))

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return (f̃ + a r)/(1 - b r), where r (2 - b r) = -μ."""
        kappa, common, _ = constants
        a = common * data[1] if len(data) > 1 else np.asarray(common)
        b = kappa * a
        inside = 1 + b * mu
        ratio = -mu / (1 + np.sqrt(np.maximum(inside, 0.0)))
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # at the end of the domain, which the other branch takes
            root = (data[0] + a * ratio) / (1 - b * ratio)
        return np.asarray(np.where(inside > 0, root, np.copysign(np.inf, b)))


def _relative_variances(estimate: FrequencyEstimate) -> tuple[Array, ...]:
    """Return each value's a over the mean of them, of the frequencies' shape; nothing if all are the same."""
    noise = estimate.noise
    if noise.is_common:
        return ()
    return (np.broadcast_to(noise.a / np.mean(noise.a), estimate.frequencies.shape),)
