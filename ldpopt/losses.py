"""What is minimised: each loss gives its value, its gradient and the expression that a solver sees.

Shapes: f and the estimate's frequencies are (..., d); values are (...); gradients are (..., d).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from ldpopt.closed_form.simplex import check_weighted_domain
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class Loss(ABC):
    """A convex function of the frequencies f, given an estimate."""

    nonnegative_domain: ClassVar[bool] = False
    """Whether the loss is infinite as soon as a value is negative."""

    @abstractmethod
    def check(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if the loss is not defined for this estimate."""

    @abstractmethod
    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss of f, in its own units."""

    @abstractmethod
    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the gradient at f; ``inf`` where a value must be zero."""

    @abstractmethod
    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return the arrays of shape (..., d) by which one estimate differs from another: the solver's parameters."""

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return the numbers that are compiled into the solver's problem."""
        return ()

    @abstractmethod
    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return an expression with the same minimiser over f, in units of order 1, and the constraints it needs."""

    def support(self, estimate: FrequencyEstimate) -> NDArray[np.bool_] | None:
        """Return where the loss lets a value be non-zero, shape (..., d); None is everywhere."""
        return None

    def strong_convexity(self) -> float:
        """Return m such that the loss minus m/2 ‖f‖² is convex; 0 if there is none."""
        return 0.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class LeastSquares(Loss):
    """½ ‖f - f̃‖² (N IV-C).

    Examples
    --------
    >>> estimate = FrequencyEstimate([0.5, 0.2])
    >>> float(LeastSquares().value(np.array([0.5, 0.4]), estimate))
    0.020000000000000004
    """

    def check(self, estimate: FrequencyEstimate) -> None:
        """Accept every estimate."""

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ Σ (f_v - f̃_v)²."""
        return np.asarray(0.5 * np.sum((f - estimate.frequencies) ** 2, axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return f - f̃."""
        return f - estimate.frequencies

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃."""
        return (estimate.frequencies,)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return ½ ‖d (f - f̃)‖²: in units of the uniform frequency, so that tolerances mean something."""
        import cvxpy as cp

        (target,) = data
        return 0.5 * cp.sum_squares(f.size * (f - target)), []

    def strong_convexity(self) -> float:
        """Return 1."""
        return 1.0


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

    def check(self, estimate: FrequencyEstimate) -> None:
        """Raise an error where the oracle is unknown or the model's variance would be negative."""
        check_weighted_domain(estimate.frequencies, self.constants(estimate)[0])

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ (f_v - f̃_v)²/(a + b f_v)."""
        oracle = estimate.noise[1]
        return np.asarray(np.sum((f - estimate.frequencies) ** 2 / (oracle.a + oracle.b * f), axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return r (2 - b r) with r = (f - f̃)/(a + b f)."""
        oracle = estimate.noise[1]
        ratio = (f - estimate.frequencies) / (oracle.a + oracle.b * f)
        return np.asarray(ratio * (2 - oracle.b * ratio))

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃."""
        return (estimate.frequencies,)

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return κ."""
        return (estimate.noise[1].kappa,)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return Σ t_v with (d (f_v - f̃_v))² <= t_v (1 + κ f_v): d second-order cones of dimension 3 in one constraint."""
        import cvxpy as cp

        (target,), (kappa,) = data, constants
        t = cp.Variable(f.size)
        weight = 1 + kappa * f
        cone = cp.SOC(t + weight, cp.vstack([2 * f.size * (f - target), t - weight]), axis=0)
        return cp.sum(t), [cone]


class KullbackLeibler(Loss):
    """Σ f_v log(f_v / max(f̃_v, 0)): the divergence whose projection is Norm-Mul. Values with f̃_v <= 0 must be zero.

    Examples
    --------
    >>> estimate = FrequencyEstimate([0.5, 0.25, -0.1])
    >>> float(KullbackLeibler().value(np.array([0.5, 0.25, 0.0]), estimate))
    0.0
    """

    nonnegative_domain = True

    def check(self, estimate: FrequencyEstimate) -> None:
        """Raise an error where a vector has no positive value."""
        dead = (estimate.frequencies <= 0).all(axis=-1)
        if np.any(dead):
            raise InvalidInputError(
                "the Kullback-Leibler loss needs a positive estimate in every vector: with all <= 0 every value must be zero"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ f log(f/max(f̃, 0)), ``inf`` outside its domain."""
        return np.asarray(np.sum(rel_entr(f, np.maximum(estimate.frequencies, 0.0)), axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return 1 + log(f/f̃); -inf at f = 0, inf where f̃ <= 0."""
        reference = np.broadcast_to(estimate.frequencies, f.shape)
        allowed = reference > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = 1 + np.log(np.maximum(f, 0.0)) - np.log(np.where(allowed, reference, 1.0))
        return np.where(allowed, slope, np.inf)

    def support(self, estimate: FrequencyEstimate) -> NDArray[np.bool_]:
        """Return where f̃ > 0."""
        return estimate.frequencies > 0

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return log(d f̃), with a reference of 1e-30 of the largest where f̃ is not positive: zero in double precision."""
        top = np.max(estimate.frequencies, axis=-1, keepdims=True)
        return (np.log(estimate.d * np.maximum(estimate.frequencies, 1e-30 * top)),)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -Σ entr(d f) - Σ d f log(d f̃): exponential cones."""
        import cvxpy as cp

        (log_reference,) = data
        z = f.size * f
        return -cp.sum(cp.entr(z)) - log_reference @ z, []
