"""Squared distance plus a price per value that is not zero, which cuts small estimates to zero."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form import kth_highest, significance_threshold
from ldpopt.closed_form.parts import parts_of
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Loss, ones
from ldpopt.losses.quadratic import LeastSquares

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class HardThreshold(Loss):
    """½ ‖f - f̃‖² + ½ T² ‖f‖₀, where ‖f‖₀ counts the values that are not zero (N IV-A).

    Keeping a value costs ½ T² and zeroing it costs ½ f̃², so under f >= 0 the minimiser keeps the
    estimates of at least T: Base-Cut. It is not convex; a certificate covers the support found.

    Parameters
    ----------
    false_positives
        Expected number of values above T among d values that nobody has, which sets T (N Eq. 9).
    top_k
        Instead of it, T is the k-th highest estimate of each vector: the number of values of
        interest is known, and the noise is not needed.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is out of range.

    Examples
    --------
    >>> loss = HardThreshold(top_k=1)
    >>> estimate = FrequencyEstimate([0.5, 0.25])
    >>> float(loss.value(np.array([0.5, 0.0]), estimate)), loss.threshold(estimate)
    (0.15625, array([0.5]))
    """

    convex: ClassVar[bool] = False
    scope: ClassVar[str] = "the support found"
    formula: ClassVar[str] = "½‖f-f̃‖² + ½T²‖f‖₀"

    def __init__(self, false_positives: float = 2.0, *, top_k: int | None = None) -> None:
        self.false_positives = validate.real("false_positives", false_positives, above=0)
        # Without it the threshold follows from the noise.
        self.top_k: int | None = None
        if top_k is not None:
            self.top_k = validate.integer("top_k", top_k, minimum=1)

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\tfrac{1}{2} \lVert f - \tilde f \rVert_2^2 + \tfrac{1}{2} T^2 \lVert f \rVert_0"

    @property
    def uses_noise(self) -> bool:
        """Whether T follows from the noise."""
        return self.top_k is None

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless the noise is known, or there are k values."""
        if self.top_k is None:
            # Raises an error that names the remedy if the noise is unknown.
            _ = estimate.noise
        elif self.top_k > estimate.d:
            raise InvalidInputError(
                f"top_k = {self.top_k} is more than the {estimate.d} values of the domain"
            )

    def threshold(self, estimate: FrequencyEstimate) -> Array | float:
        """Return T: a number, or an array that broadcasts to the frequencies."""
        if self.top_k is not None:
            return kth_highest(estimate.frequencies, self.top_k)
        # In standard deviations first: these may differ between values.
        in_sds = significance_threshold(estimate.d, 1.0, self.false_positives)
        return in_sds * estimate.noise.sd

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ ‖f - f̃‖² + ½ T² ‖f‖₀."""
        # One price per value that is kept, whatever its size.
        prices = np.atleast_1d(np.square(self.threshold(estimate)))
        total = np.zeros(f.shape[:-1])
        for _, (values, target, price) in parts_of(f, estimate.frequencies, prices):
            terms = np.asarray(values - target)
            terms *= terms
            kept = values != 0
            if price.shape[-1] == 1:
                # One price for all values needs their number alone.
                paid = price[..., 0] * np.count_nonzero(kept, axis=-1)
            else:
                paid = np.sum(price * kept, axis=-1)
            total = total + np.sum(terms, axis=-1) + paid
        return np.asarray(0.5 * total)

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return f - f̃ on the support of f, and 0 at the values that the support keeps at zero."""
        # A step away from zero costs its price at once: no slope outweighs that.
        slope = f - estimate.frequencies
        # In place: a choice of one of two arrays takes several times as long.
        slope *= f != 0
        return slope

    def majorant(self, f: Array, estimate: FrequencyEstimate) -> SupportedLeastSquares:
        """Return the squared distance on the support of f, the convex part that is certified."""
        return SupportedLeastSquares(f != 0)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃."""
        return (estimate.frequencies,)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Raise an error: a cone program is convex, so solvers get the majorant."""
        raise InvalidInputError(f"{self!r} is not convex: Problem.solve takes convex-concave steps")

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return 1, that of the squared distance on the support."""
        return ones(estimate.frequencies.shape)

    def __repr__(self) -> str:
        if self.top_k is not None:
            return f"HardThreshold(top_k={self.top_k})"
        return f"HardThreshold({self.false_positives:g})"


class SupportedLeastSquares(LeastSquares):
    """½ ‖f - f̃‖² where all values outside a support are zero.

    Parameters
    ----------
    allowed
        Which values may differ from zero, of the shape of the frequencies.
    """

    is_square = False  # the support bounds it beside the square

    def __init__(self, allowed: NDArray[np.bool_]) -> None:
        self.allowed = allowed

    def support(self, estimate: FrequencyEstimate) -> NDArray[np.bool_]:
        """Return the support."""
        return self.allowed

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ ‖f - f̃‖²; ``inf`` outside the support."""
        is_outside = (f != 0) & ~self.allowed
        leaves_support = np.any(is_outside, axis=-1)
        return np.where(leaves_support, np.inf, super().value(f, estimate))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return f - f̃ on the support, and 0 outside, where values do not move."""
        return np.where(self.allowed, super().gradient(f, estimate), 0.0)

    def enclosed(self, estimate: FrequencyEstimate) -> None:
        """Return None: the loss is infinite beside its support."""

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃, and 1 where a value may differ from zero."""
        return estimate.frequencies, self.allowed.astype(np.float64)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the squared distance, and that values outside the support are zero."""
        import cvxpy as cp

        target, allowed = data
        distance, cones = super().cone_form(f, (target,), constants)
        # One equation per value: the support is data, not a part of the program.
        stay_zero = cp.multiply(1 - allowed, f) == 0
        return distance, [*cones, stay_zero]

    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return f̃ - μ on the support and 0 outside."""
        target, allowed = data
        # As solvers get it, the support is an array of 0 and 1.
        return np.where(allowed > 0, target - mu, 0.0)
