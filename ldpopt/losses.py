"""What is minimised: each loss gives its value, its gradient and the expression that a solver sees.

Shapes: f and the estimate's frequencies are (..., d); values are (...); gradients are (..., d).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr, xlogy

from ldpopt import validate
from ldpopt.closed_form.simplex import check_weighted_domain
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

_ROUNDING = 1e-6  # how far shares of reports may leave [0, 1], or their sum 1, by rounding of huge estimates


class Loss(ABC):
    """A convex function of the frequencies f, given an estimate."""

    nonnegative_data: ClassVar[bool] = False
    """Whether ``data`` is never negative, which the cone form may need."""

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

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array | None:
        """Return, value by value, the minimiser of ℓ_v(f) + μ f over the line, ±inf where it escapes.

        Parameters
        ----------
        mu
            Multipliers, shape (m, 1).
        data, constants
            As ``data`` and ``constants`` return them, the arrays of shape (m, d).

        Returns
        -------
        Shape (m, d), not increasing in μ; None if the loss is not separable or has no such formula.
        """
        return None

    def domain_end(self, constants: tuple[float, ...]) -> float:
        """Return the value of f_v at which the loss ends, ``inf`` if nowhere."""
        return math.inf

    def strong_convexity(self) -> float:
        """Return m such that the loss minus m/2 ‖f‖² is convex; 0 if there is none."""
        return 0.0

    def curvature(self, estimate: FrequencyEstimate, largest: float) -> Array:
        """Return m such that it is convex on 0 <= f <= ``largest``, shape (...): what turns a gap into a distance."""
        return np.full(estimate.frequencies.shape[:-1], self.strong_convexity())

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

    def check(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless there is one weight a value."""
        if len(self.weights) != estimate.d:
            raise InvalidInputError(f"there are {len(self.weights)} weights for {estimate.d} values")

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
        return 0.5 * cp.sum_squares(cp.multiply(f.size * root, f) - cp.multiply(f.size * root, data[0])), []

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
        """Return κ, a, and 1/σ (but at most d): the unit in which residuals are of order 1."""
        oracle = estimate.noise[1]
        return oracle.kappa, oracle.a, min(float(estimate.d), 1 / estimate.sigma)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return mean t with ((f_v - f̃_v)/σ)² <= t_v (1 + κ f_v): d second-order cones of dimension 3 in one constraint."""
        import cvxpy as cp

        (target,), (kappa, _, unit) = data, constants
        t = cp.Variable(f.size)
        weight = 1 + kappa * f
        cone = cp.SOC(t + weight, cp.vstack([2 * unit * (f - target), t - weight]), axis=0)
        return cp.sum(t) / f.size, [cone]

    def domain_end(self, constants: tuple[float, ...]) -> float:
        """Return -1/κ where κ < 0: the model's variance vanishes there."""
        return -1 / constants[0] if constants[0] < 0 else math.inf

    def curvature(self, estimate: FrequencyEstimate, largest: float) -> Array:
        """Return the least of 2 (a + b f̃)²/(a + b f)³."""
        oracle = estimate.noise[1]
        steepest = oracle.a + oracle.b * (largest if oracle.b > 0 else 0.0)
        return np.asarray(np.min(2 * (oracle.a + oracle.b * estimate.frequencies) ** 2, axis=-1) / steepest**3)

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return (f̃ + a r)/(1 - b r), where r (2 - b r) = -μ."""
        kappa, a, _ = constants
        b = kappa * a
        inside = 1 + b * mu
        ratio = -mu / (1 + np.sqrt(np.maximum(inside, 0.0)))
        with np.errstate(divide="ignore", invalid="ignore"):  # at the end of the domain, which the other branch takes
            root = (data[0] + a * ratio) / (1 - b * ratio)
        return np.asarray(np.where(inside > 0, root, math.copysign(math.inf, b)))


class _Likelihood(Loss):
    """Minus the logarithm of a likelihood of support counts, over n: P_v = q + (p-q) f_v of the reports support v."""

    nonnegative_data = True

    @staticmethod
    def shares(estimate: FrequencyEstimate) -> Array:
        """Return c/n, the share of reports that support each value; an error if the estimate is not a raw one."""
        oracle = estimate.noise[1]
        share = oracle.q + (oracle.p - oracle.q) * estimate.frequencies
        outside = (share < -_ROUNDING) | (share > 1 + _ROUNDING)
        if outside.any():
            at = validate.first(outside)
            raise InvalidInputError(
                f"a likelihood needs raw estimates: at {validate.where(at)} f = {estimate.frequencies[at]:g} would mean that "
                f"{share[at]:.1%} of the reports support the value"
            )
        return np.clip(share, 0.0, 1.0)

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return q and p - q."""
        oracle = estimate.noise[1]
        return oracle.q, oracle.p - oracle.q


def _inverse(share: Array) -> Array:
    return np.divide(1.0, share, out=np.ones_like(share), where=share > 0)


class BinomialMLE(_Likelihood):
    """-1/n Σ c_v log P_v + (n - c_v) log(1 - P_v): the likelihood of independent counts, as of unary encoding and hashing.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = oracles.OUE(epsilon=1.0, d=2).estimate([40, 30], n=100)
    >>> round(float(BinomialMLE().value(np.array([0.5, 0.5]), estimate)), 4)
    1.3
    """

    def check(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the estimate is raw and its oracle known."""
        self.shares(estimate)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss; ``inf`` where a probability leaves [0, 1]."""
        (floor, slope), share = self.constants(estimate), self.shares(estimate)
        probability = floor + slope * f
        inside = np.all((probability >= 0) & (probability <= 1), axis=-1)
        clipped = np.clip(probability, 0.0, 1.0)
        return np.asarray(
            np.where(inside, -np.sum(xlogy(share, clipped) + xlogy(1 - share, 1 - clipped), axis=-1), np.inf)
        )

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -(p-q) (c/(n P) - (1 - c/n)/(1 - P))."""
        (floor, slope), share = self.constants(estimate), self.shares(estimate)
        probability = floor + slope * f
        return np.asarray(-slope * (share / probability - (1 - share) / (1 - probability)))

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return c/n and 1 - c/n, and their inverses (1 where they are 0)."""
        share = self.shares(estimate)
        return share, 1 - share, _inverse(share), _inverse(1 - share)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the loss above its least value without constraints: two exponential cones a value, with arguments near 1."""
        import cvxpy as cp

        floor, slope = constants
        share, rest, per_share, per_rest = data
        u, v = cp.Variable(f.size), cp.Variable(f.size)
        relative = [u == cp.multiply(per_share, floor + slope * f), v == cp.multiply(per_rest, 1 - floor - slope * f)]
        return -(share @ cp.log(u)) - rest @ cp.log(v), relative

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return f with m P² - (1 + m) P + c/n = 0, m = μ/(p-q), by the root that does not cancel."""
        floor, slope = constants
        m = mu / slope
        total = 1 + m
        root = np.sqrt(np.maximum(total**2 - 4 * m * data[0], 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            probability = np.where(total >= 0, 2 * data[0] / (total + root), (total - root) / (2 * m))
        return np.asarray((np.nan_to_num(probability, nan=0.0) - floor) / slope)


class MultinomialMLE(_Likelihood):
    """-1/n Σ c_v log P_v: the likelihood of GRR's counts, whose reports support one value each.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = oracles.GRR(epsilon=1.0, d=2).estimate([60, 40], n=100)
    >>> round(float(MultinomialMLE().value(np.array([0.5, 0.5]), estimate)), 4)
    0.6931
    """

    def check(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless every report supports exactly one value, as in GRR."""
        total = self.shares(estimate).sum(axis=-1)
        oracle = estimate.noise[1]
        if abs(oracle.p + (oracle.d - 1) * oracle.q - 1) > _ROUNDING or np.any(np.abs(total - 1) > _ROUNDING):
            raise InvalidInputError(
                f"the multinomial likelihood is that of GRR, whose reports support one value each, not of {oracle!r}: "
                "use BinomialMLE()"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the loss; ``inf`` where a probability is negative."""
        (floor, slope), share = self.constants(estimate), self.shares(estimate)
        probability = floor + slope * f
        inside = np.all(probability >= 0, axis=-1)
        return np.asarray(np.where(inside, -np.sum(xlogy(share, np.maximum(probability, 0.0)), axis=-1), np.inf))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return -(p-q) c/(n P)."""
        (floor, slope), share = self.constants(estimate), self.shares(estimate)
        return np.asarray(-slope * share / (floor + slope * f))

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return c/n."""
        return (self.shares(estimate),)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -Σ c/n log(d P): an exponential cone a value."""
        import cvxpy as cp

        floor, slope = constants
        return -(data[0] @ cp.log(f.size * (floor + slope * f))), []

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return f with P = (p-q) c/(n μ); infinite for μ <= 0."""
        floor, slope = constants
        with np.errstate(divide="ignore", invalid="ignore"):
            probability = np.where(mu > 0, slope * data[0] / mu, np.inf)
        return np.asarray((probability - floor) / slope)


class KullbackLeibler(Loss):
    """Σ f_v log(f_v / max(f̃_v, 0)): the divergence whose projection is Norm-Mul. Values with f̃_v <= 0 must be zero.

    It is meant for frequencies with a given total; without one its minimiser is max(f̃, 0)/e.

    Examples
    --------
    >>> estimate = FrequencyEstimate([0.5, 0.25, -0.1])
    >>> float(KullbackLeibler().value(np.array([0.5, 0.25, 0.0]), estimate))
    0.0
    """

    nonnegative_domain = True
    nonnegative_data = True

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
        """Return max(f̃, 0) with a sum of 1."""
        positive = np.maximum(estimate.frequencies, 0.0)
        return (positive / positive.sum(axis=-1, keepdims=True),)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -Σ g_v entr(u_v) with f = g u, g the reference with a sum of 1: exponential cones with arguments near 1."""
        import cvxpy as cp

        (reference,) = data
        u = cp.Variable(f.size)
        return -(reference @ cp.entr(u)), [f.size * f == cp.multiply(f.size * reference, u)]

    def curvature(self, estimate: FrequencyEstimate, largest: float) -> Array:
        """Return 1/largest."""
        return np.full(estimate.frequencies.shape[:-1], 1 / largest)
