"""The Kullback-Leibler divergence, whose projection is Norm-Mul."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.units import own_units
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.expressions import in_uniform_units
from ldpopt.losses.base import SeparableLoss, ones
from ldpopt.losses.pooling import LogarithmPooling
from ldpopt.losses.targets import FromReference

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# Logarithms of quotients that are this large have lost digits: the normal numbers end at exp(±708).
_LONG = 700.0

# By how much computed bounds are raised so that they surely hold.
_LOOSE = 1e-6

_EPS = float(np.finfo(np.float64).eps)


class _Divergence(SeparableLoss):
    """Base class of Σ f_v log(f_v / r_v) with r >= 0: where r_v = 0, f_v must be zero."""

    is_divergence = True
    nonnegative_domain = True
    nonnegative_data = 1  # the logarithm of the mass may be negative

    @abstractmethod
    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return r, of the frequencies' shape; negative numbers count as 0."""

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ f log(f/r), ``inf`` outside its domain."""
        from scipy.special import rel_entr  # slow to import

        reference = np.maximum(self.target(estimate), 0.0)
        # rel_entr knows that 0 log 0 is 0, and is infinite where f > 0 meets a reference of 0.
        return np.asarray(np.sum(rel_entr(f, reference), axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return 1 + log(f/r); -inf at f = 0, inf where r is 0."""
        reference = np.broadcast_to(self.target(estimate), f.shape)
        allowed = reference > 0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            slope = np.maximum(f, 0.0)
            slope /= reference
            np.log(slope, out=slope)
            # Where the quotient of tiny numbers overflows, or vanishes, logarithms are subtracted.
            lost = ((slope > _LONG) | (slope < -_LONG)) & allowed & (f > 0)
            if lost.any():
                slope[lost] = np.log(f[lost]) - np.log(reference[lost])
        slope += 1
        slope[~allowed] = np.inf
        return slope

    def support(self, estimate: FrequencyEstimate) -> NDArray[np.bool_]:
        """Return where r > 0."""
        return self.target(estimate) > 0

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array]:
        """Return 0, and the larger of e r and what the other terms leave: each is at least -r/e.

        From e r on the logarithm of f/r is at least 1, so that f is at most its term.
        """
        reference = np.maximum(self.target(estimate), 0.0)
        others = -self.lowest(estimate)[..., None]
        highest = np.asarray(level)[..., None]
        left = highest + others + _LOOSE * (np.abs(highest) + others)
        upper = np.maximum(math.e * reference, left) * (1 + _LOOSE)
        return np.zeros(upper.shape), upper

    def lowest(self, estimate: FrequencyEstimate) -> Array:
        """Return -Σ r/e, the value at f = r/e."""
        reference = np.maximum(self.target(estimate), 0.0)
        return np.asarray(-np.sum(reference, axis=-1) / math.e)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return r over its sum, and the logarithm of that sum, once per value.

        Of a sum far from 1 its power of two stays with r.
        """
        positive = np.maximum(self.target(estimate), 0.0)
        # Without its mass the reference is of order 1/d, and with its unit as large as f is.
        mass = positive.sum(axis=-1, keepdims=True)
        unit = own_units(mass)
        log_mass = np.broadcast_to(np.log(mass / unit), positive.shape)
        return positive / mass * unit, log_mass

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -Σ g_v entr(u_v) - log(s) Σ f_v with f = g u and r = s g; see ``data``.

        In u the exponential cones have arguments near 1, however small the frequencies are.
        """
        import cvxpy as cp

        reference, log_mass = data
        u = cp.Variable(f.size)
        ratios = in_uniform_units(f) == cp.multiply(f.size * reference, u)
        # Σ f log(f/r) is Σ g u log u and a linear rest.
        negative_entropy = -(reference @ cp.entr(u))
        return negative_entropy - log_mass @ f, [ratios]

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return 1: the form is the loss."""
        return 1.0

    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return r exp(-1 - μ)."""
        reference, log_mass = data
        # By logarithms: the factor may overflow although the product does not.
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            f = np.exp(np.log(reference) + log_mass - 1 - mu)
        return np.asarray(np.where(reference > 0, f, 0.0))

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return 1/upper: the second derivative is 1/f."""
        # The inverse of a number below the normal ones overflows like that of 0.
        with np.errstate(divide="ignore", over="ignore"):
            second = 1 / np.maximum(upper, 0.0)
        return np.broadcast_to(second, estimate.frequencies.shape)

    @property
    def after_pooling(self) -> KullbackLeibler:
        """The divergence from the estimate, which the pooled reference then is."""
        return KullbackLeibler()

    def pooling(self, estimate: FrequencyEstimate) -> LogarithmPooling:
        """Return geometric means of r."""
        return LogarithmPooling(self.target(estimate))

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return the rounding of the two logarithms, which may cancel."""
        reference = np.broadcast_to(self.target(estimate), f.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            of_f = np.abs(np.log(np.maximum(f, 0.0)))
            of_reference = np.abs(np.log(np.maximum(reference, 0.0)))
        logs = of_f + of_reference
        # Where a logarithm is infinite so is the gradient, which has no error.
        return np.where(np.isfinite(logs), 4 * _EPS * (1 + logs), 0.0)


class KullbackLeibler(_Divergence):
    """Σ f_v log(f_v / max(f̃_v, 0)); values with f̃_v <= 0 must be zero.

    It is meant for frequencies with a given total; without one its minimiser is max(f̃, 0)/e.

    Examples
    --------
    >>> estimate = FrequencyEstimate([0.5, 0.25, -0.1])
    >>> float(KullbackLeibler().value(np.array([0.5, 0.25, 0.0]), estimate))
    0.0
    """

    formula: ClassVar[str] = "KL(f ‖ max(f̃,0))"

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\sum_v f_v \log \frac{f_v}{\max(\tilde f_v, 0)}"

    def is_defined(self, estimate: FrequencyEstimate) -> NDArray[np.bool_]:
        """Return which vectors have a positive value."""
        _, highest = estimate.extremes
        return np.asarray(highest > 0)

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if a vector has no positive value."""
        dead = ~self.is_defined(estimate)
        if np.any(dead):
            place = f" in {validate.trial(validate.first(dead))}" if dead.ndim else ""
            raise InvalidInputError(
                f"the Kullback-Leibler loss (norm-mul) needs a positive estimate{place}: "
                "with all <= 0 every value must be zero; use norm-sub"
            )

    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return f̃."""
        return estimate.frequencies

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return 1/f̃; where f̃ <= 0 the value is 0, and so is this."""
        reference = estimate.frequencies
        zeros = np.zeros(f.shape)
        return np.divide(1.0, reference, out=zeros, where=reference > 0)


class KLTo(FromReference, _Divergence):
    """Σ f_v log(f_v / r_v) with a reference r, such as last month's frequencies.

    As a part of a sum it pulls towards the reference: ``LeastSquares() + 0.01 * KLTo(r)``. Where
    r_v = 0, f_v must be zero.

    Parameters
    ----------
    reference
        Finite numbers >= 0, not all 0, shape (d,).

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the reference is not such a vector.

    Examples
    --------
    >>> float(KLTo([0.5, 0.5]).value(np.array([1.0, 0.0]), FrequencyEstimate([0.9, 0.2])))
    0.6931471805599453
    """

    def __init__(self, reference: ArrayLike) -> None:
        super().__init__(reference)
        negative = self.reference < 0
        if negative.any():
            at = validate.first(negative)
            raise InvalidInputError(
                f"reference must be >= 0, found {self.reference[at]:g} at {validate.where(at)}"
            )
        if not self.reference.any():
            raise InvalidInputError("reference must have a positive value, all are 0")

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\sum_v f_v \log \frac{f_v}{r_v}"


class Entropy(_Divergence):
    """Σ f_v log f_v, the negative entropy: the smaller, the more even the frequencies.

    As a part of a sum it draws them together: ``LeastSquares() + 0.01 * Entropy()``.

    Examples
    --------
    >>> float(Entropy().value(np.array([0.5, 0.5]), FrequencyEstimate([0.9, 0.2])))
    -0.6931471805599453
    """

    formula: ClassVar[str] = "Σf log f"
    is_penalty = True

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\sum_v f_v \log f_v"

    def target(self, estimate: FrequencyEstimate) -> Array:
        """Return ones."""
        return ones(estimate.frequencies.shape)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return -Σ entr(d f_v)/d - log(d) Σ f_v: of ones the ratios are the frequencies."""
        import cvxpy as cp

        # Without variables of their own, which take a third of the time to compile.
        ratios = in_uniform_units(f)
        return -cp.sum(cp.entr(ratios)) / f.size - math.log(f.size) * cp.sum(f), []

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return 0: the loss does not look at the estimate."""
        return np.zeros(f.shape)
