"""The Gaussian likelihood with its normaliser: not convex, solved by convex-concave steps."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import Loss
from ldpopt.losses.quadratic import GaussianMLE

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)

# By how much a computed level is raised to be surely above the exact one.
_LOOSE = 1e-6


class NormalisedGaussianMLE(Loss):
    """-1/n log Π N(f̃_v; f_v, (a + b f_v)/n), up to a constant.

    That is Σ (f_v - f̃_v)²/(2(a + b f_v)) + log(a + b f_v)/(2n). N IV-D leaves the logarithm out,
    which makes the problem convex. With it the loss is the sum of a convex and a concave function:
    the convex-concave procedure (Yuille, Rangarajan 2003) puts a tangent in place of the concave
    part, solves, and moves the tangent to the solution. It descends to a stationary point, which
    need not be the best one.

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

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\sum_v \frac{(f_v - \tilde f_v)^2}{2 (a + b f_v)} + \frac{\log(a + b f_v)}{2 n}"

    @property
    def uses_noise(self) -> bool:
        """True: the model is that of raw estimates."""
        return True

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if the weighted MLE does: the noise and 1 + κ f̃ > 0 are needed."""
        self._distance.validate_for(estimate)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ (f - f̃)²/(2(a + bf)) + log(a + bf)/(2n); ``inf`` outside the domain."""
        variance = _variance(f, estimate)
        # Where a variance is not positive the distance is infinite, whatever its logarithm.
        zeros = np.zeros_like(variance)
        logs = np.log(variance, out=zeros, where=variance > 0)
        normaliser = np.sum(logs, axis=-1) / (2 * _users(estimate))
        distance = self._distance.value(f, estimate)
        return np.asarray(distance / 2 + normaliser)

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return r (2 - b r)/2 + b/(2n(a + bf)) with r = (f - f̃)/(a + bf)."""
        distance_slope = self._distance.gradient(f, estimate)
        return np.asarray(distance_slope / 2 + self._tangent(f, estimate))

    def majorant(self, f: Array, estimate: FrequencyEstimate) -> TiltedGaussianMLE:
        """Return the loss with the tangent of its concave part at f."""
        # A concave function is nowhere above its tangent.
        return TiltedGaussianMLE(self._tangent(f, estimate))

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return those of the weighted MLE."""
        return self._distance.data(estimate)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Raise an error, since a cone program is convex: solvers get the majorant."""
        raise InvalidInputError(f"{self!r} is not convex: Problem.solve takes convex-concave steps")

    def _tangent(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the slopes of the concave part at f."""
        # The derivative of log(a + b f)/(2n).
        doubled = 2 * _users(estimate) * _variance(f, estimate)
        return np.asarray(estimate.noise.b / doubled)


class TiltedGaussianMLE(GaussianMLE):
    """Half the weighted MLE plus a linear function: Σ (f_v - f̃_v)²/(2(a + b f_v)) + c_v f_v.

    Parameters
    ----------
    slopes
        c, of the shape of the frequencies.
    """

    is_nonnegative = False

    def __init__(self, slopes: Array) -> None:
        self.slopes = slopes

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\sum_v \frac{(f_v - \tilde f_v)^2}{2 (a + b f_v)} + c_v f_v"

    def __repr__(self) -> str:
        # A step of that loss: messages name what the user wrote.
        return repr(NormalisedGaussianMLE())

    @property
    def compiled_key(self) -> Hashable:
        """Its type: the slopes are data, so that all steps share what was compiled."""
        return type(self)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ (f - f̃)²/(2(a + bf)) + c f."""
        distance = super().value(f, estimate)
        linear = np.sum(self.slopes * f, axis=-1)
        return np.asarray(distance / 2 + linear)

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return r (2 - b r)/2 + c with r = (f - f̃)/(a + bf)."""
        distance_slope = super().gradient(f, estimate)
        return np.asarray(distance_slope / 2 + self.slopes)

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array] | None:
        """Return those of the weighted MLE, for twice what the linear terms leave of the level.

        None where a slope falls away from the end of the domain: its term has no lowest value.
        """
        noise = estimate.noise
        rises = self.slopes * noise.b
        if np.any((rises < 0) | ((rises == 0) & (self.slopes != 0))):
            return None
        # Where a + b f > 0, a slope with the sign of b leaves c f above -c a/b.
        share = np.divide(self.slopes, noise.b, out=np.zeros_like(self.slopes), where=rises > 0)
        others = np.sum(share * noise.a, axis=-1)
        highest = np.asarray(level)
        left = highest + others + _LOOSE * (np.abs(highest) + others)
        return super().sublevel(2 * left, estimate)

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return half that of the weighted MLE."""
        distance = super().sensitivity(f, estimate)
        assert distance is not None  # the weighted MLE states it
        return distance / 2

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃, c and, where a differs between values, each a over their mean."""
        # The slopes second: what follows is there only where a differs between values.
        target, *relative = super().data(estimate)
        return target, self.slopes, *relative

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the weighted MLE's cones with twice the linear function, in their units."""
        target, slopes, *relative = data
        distance, cones = super().cone_form(f, (target, *relative), constants)
        _, a, unit = constants
        # The weighted MLE's objective is the loss times unit² a / d.
        factor = 2 * unit**2 * a / f.size
        return distance + factor * (slopes @ f), cones

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return twice that of the weighted MLE, of which the loss is half."""
        return 2 * super().cone_factor(d, constants)

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return half that of the weighted MLE."""
        return super().curvature(estimate, lower, upper) / 2

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return the rounding of the two parts, which may cancel."""
        # The slopes of the distance: they are large where the sum of the two is small.
        of_distance = np.abs(gradient) + np.abs(self.slopes)
        distance = super().gradient_error(f, 2 * of_distance, estimate) / 2
        return distance + 4 * _EPS * of_distance

    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return the weighted MLE's response to 2 (μ + c)."""
        target, slopes, *relative = data
        # Half the loss answers to a multiplier as the whole loss does to twice of it.
        doubled = 2 * (mu + slopes)
        return super().response(doubled, (target, *relative), constants)


def _users(estimate: FrequencyEstimate) -> int:
    """Return n. Of noise given by hand a and b are themselves the variance: n counts as 1."""
    return estimate.noise.n or 1


def _variance(f: Array, estimate: FrequencyEstimate) -> Array:
    """Return n times the variance of an estimate of f, of the shape of f."""
    noise = estimate.noise
    return np.asarray(noise.a + noise.b * f)
