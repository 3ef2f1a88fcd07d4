"""The Gaussian likelihood with its normaliser: not convex, and solved by the convex-concave procedure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Loss
from ldpopt.losses.quadratic import GaussianMLE

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]


class NormalisedGaussianMLE(Loss):
    """-1/n log Π N(f̃_v; f_v, (a + b f_v)/n) = Σ (f_v - f̃_v)²/(2(a + b f_v)) + log(a + b f_v)/(2n), up to a constant.

    N IV-D leaves the logarithm out, which makes the problem convex. With it the loss is the sum of a convex and a concave
    function: the convex-concave procedure (Yuille, Rangarajan 2003) puts a tangent in place of the concave part, solves, and
    moves the tangent to the solution. It descends to a stationary point, which need not be the best one.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = FrequencyEstimate([0.5, 0.2], n=100, oracle=oracles.SUE(epsilon=1.0, d=2))
    >>> round(float(NormalisedGaussianMLE().value(np.array([0.5, 0.2]), estimate)), 5)
    0.01366
    """

    convex: ClassVar[bool] = False
    scope: ClassVar[str] = "the last convexified step"
    _distance = GaussianMLE()

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error where the weighted MLE does: n, the oracle and 1 + κ f̃ > 0 are needed."""
        self._distance.validate_for(estimate)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ (f - f̃)²/(2(a + bf)) + log(a + bf)/(2n); ``inf`` where a variance is not positive."""
        noise = estimate.noise
        variance = noise.a + noise.b * f
        spread = np.sum(np.log(variance, out=np.zeros_like(variance), where=variance > 0), axis=-1)
        return np.asarray(self._distance.value(f, estimate) / 2 + spread / (2 * (noise.n or 1)))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return r (2 - b r)/2 + b/(2n(a + bf)) with r = (f - f̃)/(a + bf)."""
        return np.asarray(self._distance.gradient(f, estimate) / 2 + self._tangent(f, estimate))

    def majorant(self, f: Array, estimate: FrequencyEstimate) -> TiltedGaussianMLE:
        """Return the loss with the tangent of its concave part at f."""
        return TiltedGaussianMLE(self._tangent(f, estimate))

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃."""
        return self._distance.data(estimate)

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Raise an error: a cone program is convex, so solvers get the majorant."""
        raise InvalidInputError(f"{self!r} is not convex: Problem.solve takes convex-concave steps")

    def _tangent(self, f: Array, estimate: FrequencyEstimate) -> Array:
        noise = estimate.noise
        return np.asarray(noise.b / (2 * (noise.n or 1) * (noise.a + noise.b * f)))


class TiltedGaussianMLE(GaussianMLE):
    """Half the weighted MLE plus a linear function: Σ (f_v - f̃_v)²/(2(a + b f_v)) + c_v f_v.

    Parameters
    ----------
    slopes
        c, of the shape of the frequencies.
    """

    def __init__(self, slopes: Array) -> None:
        self.slopes = slopes

    @property
    def compiled_key(self) -> type[TiltedGaussianMLE]:
        """Its type: the slopes are data, so that all steps share what was compiled."""
        return type(self)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ (f - f̃)²/(2(a + bf)) + c f."""
        return np.asarray(super().value(f, estimate) / 2 + np.sum(self.slopes * f, axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return r (2 - b r)/2 + c with r = (f - f̃)/(a + bf)."""
        return np.asarray(super().gradient(f, estimate) / 2 + self.slopes)

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃ and c."""
        target, *relative = super().data(estimate)
        return target, self.slopes, *relative

    def cone_form(
        self, f: cp.Expression, data: tuple[Any, ...], constants: tuple[float, ...]
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the weighted MLE's cones with twice the linear function, in their units."""
        distance, cones = super().cone_form(f, (data[0], *data[2:]), constants)
        _, a, unit = constants
        return distance + 2 * unit**2 * a / f.size * (data[1] @ f), cones

    def curvature(self, estimate: FrequencyEstimate, largest: float) -> Array:
        """Return half that of the weighted MLE."""
        return super().curvature(estimate, largest) / 2

    def response(self, mu: Array, data: tuple[Array, ...], constants: tuple[float, ...]) -> Array:
        """Return the weighted MLE's response to 2 (μ + c)."""
        return super().response(2 * (mu + data[1]), (data[0], *data[2:]), constants)
