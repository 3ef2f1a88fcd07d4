"""Squared distances to the estimate: plain, weighted, and weighted by the implied variance."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.parts import parts_of
from ldpopt.closed_form.simplex import check_weighted_domain
from ldpopt.errors import InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.expressions import in_uniform_units
from ldpopt.losses.base import SeparableLoss, ones
from ldpopt.losses.enclosure import Enclosed, squares_enclosure
from ldpopt.losses.pooling import SquaresPooling, VariancePooling
from ldpopt.losses.targets import Deviation, around

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# A unit that is this many times the largest residual is too coarse for a solver: its tolerance of
# 1e-9 for the mean square is one of 3e-5 for residuals in that unit, and of 1e-3 relative to them.
_COARSE = 30

# By how much a computed loss is raised for a level that is surely above it.
_LOOSE = 1e-6

_EPS = float(np.finfo(np.float64).eps)


class LeastSquares(Deviation, SeparableLoss):
    """½ ‖f - f̃‖² (N IV-C).

    Examples
    --------
    >>> estimate = FrequencyEstimate([0.5, 0.25])
    >>> float(LeastSquares().value(np.array([0.5, 0.75]), estimate))
    0.125
    """

    degree = 2
    is_square = True

    weights: ClassVar[None] = None
    """All squares count the same."""

    formula: ClassVar[str] = "½‖f-f̃‖²"

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\tfrac{1}{2} \lVert f - \tilde f \rVert_2^2"

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ Σ (f_v - f̃_v)²."""
        squares = (f - self.target(estimate)) ** 2
        return np.asarray(0.5 * np.sum(squares, axis=-1))

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array]:
        """Return f̃ ± √(2t): no square is above the level t."""
        return around(self.target(estimate), np.sqrt(2 * np.asarray(level)[..., None]))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return f - f̃."""
        return f - self.target(estimate)

    def enclosed(self, estimate: FrequencyEstimate) -> Enclosed | None:
        """Return the function from f to value and gradient with bounds of their errors."""
        return partial(squares_enclosure, self.target(estimate), 1.0)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return ½ ‖d (f - f̃)‖²: residuals in units of the uniform frequency."""
        import cvxpy as cp  # slow to import, as everywhere in this folder

        (target,) = data
        residual = in_uniform_units(f) - f.size * target
        return 0.5 * cp.sum_squares(residual), []

    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return f̃ - μ."""
        (target,) = data
        return target - mu

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return 1."""
        return ones(estimate.frequencies.shape)

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return 1: the slope is f - f̃."""
        return ones(f.shape)

    @property
    def after_pooling(self) -> LeastSquares:
        """Plain least squares: a loss with a target of its own is that, once this is pooled."""
        return LeastSquares()

    def pooling(self, estimate: FrequencyEstimate) -> SquaresPooling:
        """Return means of the target."""
        return SquaresPooling(self.target(estimate), None)


class WeightedLeastSquares(Deviation, SeparableLoss):
    """½ Σ w_v (f_v - f̃_v)².

    Parameters
    ----------
    weights
        One finite number > 0 per value, shape (d,): how much each estimate is trusted, such as its
        inverse variance.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a weight is not finite and positive (the first index is named), or their sum is beyond
        the largest double.

    Examples
    --------
    >>> loss = WeightedLeastSquares([1.0, 4.0])
    >>> float(loss.value(np.array([0.5, 0.5]), FrequencyEstimate([0.5, 0.0])))
    0.5
    """

    is_square = True
    _per_value = frozenset({"weights"})

    def __init__(self, weights: ArrayLike) -> None:
        self.weights = validate.positive_vector("weights", weights)
        with np.errstate(over="ignore"):
            if np.isinf(self.weights.sum()):
                raise InvalidInputError(
                    "the sum of the weights is beyond the largest double: state them in a larger "
                    "unit"
                )

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\tfrac{1}{2} \sum_v w_v (f_v - \tilde f_v)^2"

    @property
    def square_weights(self) -> Array:
        """The weights."""
        return self.weights

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error unless there is one weight per value."""
        if len(self.weights) != estimate.d:
            raise InvalidInputError(
                f"there are {len(self.weights)} weights for {estimate.d} values"
            )

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return ½ Σ w (f - f̃)²."""
        squares = (f - estimate.frequencies) ** 2
        return np.asarray(0.5 * np.sum(self.weights * squares, axis=-1))

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array]:
        """Return f̃ ± √(2t/w): no square is above the level t."""
        width = np.sqrt(2 * np.asarray(level)[..., None] / self.weights)
        return around(estimate.frequencies, width)

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return w (f - f̃)."""
        return np.asarray(self.weights * (f - estimate.frequencies))

    def enclosed(self, estimate: FrequencyEstimate) -> Enclosed | None:
        """Return the function from f to value and gradient with bounds of their errors."""
        return partial(squares_enclosure, estimate.frequencies, self.weights)

    @property
    def compiled_key(self) -> Hashable:
        """The parameters that it was built with: then the weights are data."""
        return self._recipe_or_self

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃; where the weights are a parameter, their roots r and r f̃ too."""
        target = estimate.frequencies
        # As factors of the variable, parameters take memory: numbers stay numbers.
        if self._recipe is None:
            return (target,)
        (unit,) = self.constants(estimate)
        roots = np.broadcast_to(np.sqrt(self.weights / unit), target.shape)
        # A product of two parameters would be compiled anew for each value.
        return target, roots, roots * target

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return the unit of the weights: a power of four near their mean, whose root is exact."""
        return (4.0 ** math.floor(math.log(float(self.weights.mean()), 4)),)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return ½ ‖d √w (f - f̃)‖² with the weights in their unit."""
        import cvxpy as cp

        (unit,) = constants
        target, *open_roots = data
        if open_roots:
            roots, moved = open_roots
        else:
            roots = np.sqrt(self.weights / unit)
            moved = cp.multiply(roots, target)
        # One factor for f and one for f̃: a product with their difference would not be DPP.
        residual = cp.multiply(roots, in_uniform_units(f)) - f.size * moved
        return 0.5 * cp.sum_squares(residual), []

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return d² over the unit of the weights."""
        (unit,) = constants
        return float(d) ** 2 / float(unit)

    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return f̃ - μ/w."""
        target = data[0]
        return target - mu / self.weights

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return the weights."""
        return np.broadcast_to(self.weights, estimate.frequencies.shape)

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return the weights: the slope is w (f - f̃)."""
        return np.broadcast_to(self.weights, f.shape)

    def pooling(self, estimate: FrequencyEstimate) -> SquaresPooling:
        """Return weighted means of f̃."""
        return SquaresPooling(estimate.frequencies, self.weights)


class GaussianMLE(SeparableLoss):
    """Σ (f_v - f̃_v)²/(a + b f_v): the paper's weighted MLE (N Eq. 11, without the normaliser).

    The estimate needs its noise, and 1 + κ f̃_v > 0 everywhere, which support counts guarantee.

    Examples
    --------
    >>> from ldpopt import oracles
    >>> estimate = FrequencyEstimate([0.5, 0.2], n=100, oracle=oracles.SUE(epsilon=1.0, d=2))
    >>> float(GaussianMLE().value(np.array([0.5, 0.2]), estimate))
    0.0
    """

    is_nonnegative = True
    is_likelihood = True

    formula: ClassVar[str] = "Σ(f-f̃)²/(a+bf)"

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\sum_v \frac{(f_v - \tilde f_v)^2}{a + b f_v}"

    @property
    def uses_noise(self) -> bool:
        """True: the model is that of raw estimates."""
        return True

    def is_defined(self, estimate: FrequencyEstimate) -> NDArray[np.bool_]:
        """Return for which vectors all variances that the model states are positive."""
        kappa = estimate.noise.kappa
        lowest, highest = estimate.extremes
        return np.asarray(1 + kappa * (lowest if kappa > 0 else highest) > 0)

    def validate_for(self, estimate: FrequencyEstimate) -> None:
        """Raise an error if the noise is unknown or the model's variance would be negative."""
        if not self.is_defined(estimate).all():
            check_weighted_domain(estimate.frequencies, estimate.noise.kappa)

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ (f_v - f̃_v)²/(a + b f_v); ``inf`` where a variance is not positive."""
        noise = estimate.noise
        ends = (np.atleast_1d(noise.a), np.atleast_1d(noise.b))
        total = np.zeros(f.shape[:-1])
        for _, (values, target, a, b) in parts_of(f, estimate.frequencies, *ends):
            # In place: fresh memory costs more than arithmetic.
            variance = np.asarray(b * values)
            variance += a
            squares = np.asarray(values - target)
            squares *= squares
            inside = variance.min(axis=-1) > 0
            if not np.all(inside):
                # Any positive number stands for such a variance: the result is infinite there.
                variance[~(variance > 0)] = 1.0
            squares /= variance
            total = total + np.where(inside, np.sum(squares, axis=-1), np.inf)
        return np.asarray(total)

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return r (2 - b r) with r = (f - f̃)/(a + b f)."""
        noise = estimate.noise
        # The quotient rule in terms of the ratio: one division instead of three. In place, since on
        # long vectors fresh memory costs more than arithmetic.
        slope = np.asarray(noise.b * f)
        slope += noise.a
        ratio = f - estimate.frequencies
        ratio /= slope
        np.multiply(ratio, -noise.b, out=slope)
        slope += 2
        slope *= ratio
        return slope

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return f̃ and, where a differs between values, each a over their mean."""
        return (estimate.frequencies, *_relative_variances(estimate))

    def constants(self, estimate: FrequencyEstimate) -> tuple[float, ...]:
        """Return κ, a (the mean), and the unit in which residuals are of order 1.

        That is 1/σ, but at most d: f itself is solved for in units of 1/d.
        """
        noise = estimate.noise
        # One number for all values: what differs between them is data.
        mean_a = _mean(noise.a)
        sd = math.sqrt(_mean(noise.constant))
        unit = min(float(estimate.d), 1 / sd)
        return noise.kappa, mean_a, unit

    def finer_constants(
        self,
        f: Array,
        estimate: FrequencyEstimate,
        constants: tuple[float, ...],
    ) -> tuple[float, ...] | None:
        """Return them with a unit near the largest residual at f, or σ, if both are far below it.

        At first only a unit of order 1/d is safe: in units of σ a residual could be 10⁶, which
        solvers do not bear. Yet where it turns out to be small, their absolute tolerances in the
        first unit would leave errors of many σ.
        """
        kappa, a, unit = constants
        sd = math.sqrt(_mean(estimate.noise.constant))
        largest_residual = float(np.abs(f - estimate.frequencies).max())
        finest = 1 / max(sd, largest_residual)
        if finest < _COARSE * unit:
            return None
        # A power of ten, so that most estimates share what is compiled.
        digits = math.floor(math.log10(finest))
        return kappa, a, 10.0**digits

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return mean t with ((f_v - f̃_v)/σ)² <= t_v (1 + κ f_v).

        These are d second-order cones of dimension 3, in one cvxpy constraint.
        """
        import cvxpy as cp

        target, *relative = data
        kappa, _, unit = constants
        t = cp.Variable(f.size)
        # The variance over that of a frequency of 0: near 1, as solvers like it.
        weight = 1 + kappa * f
        if relative:
            weight = cp.multiply(relative[0], weight)
        doubled = 2 * unit * (f - target)
        # (2 r)² + (t - w)² <= (t + w)² is r² <= t w.
        sides = cp.vstack([doubled, t - weight])
        cones = cp.SOC(t + weight, sides, axis=0)
        return cp.sum(t) / f.size, [cones]

    def cone_factor(self, d: int, constants: tuple[Any, ...]) -> float:
        """Return a/d times the square of the unit."""
        _, a, unit = constants
        return float(unit) ** 2 * float(a) / d

    def domain(self, constants: tuple[float, ...]) -> tuple[float, float]:
        """Return -1/κ as upper end if κ < 0, as lower end if κ > 0: there the variance vanishes."""
        kappa = constants[0]
        # A variance that does not depend on f vanishes nowhere.
        if kappa == 0:
            return -math.inf, math.inf
        end = -1 / kappa
        if kappa > 0:
            return end, math.inf
        return -math.inf, end

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array] | None:
        """Return f̃ + (b t ± √(b² t² + 4 t (a + b f̃)))/2: no term is above the level t."""
        noise = estimate.noise
        target = estimate.frequencies
        # Above its rounding: a sum of d terms >= 0 is right to d roundings.
        highest = np.asarray(level)[..., None] * (1 + _LOOSE)
        growth = noise.b * highest
        variance = np.maximum(noise.a + noise.b * target, 0.0)
        root = np.sqrt(growth**2 + 4 * highest * variance)
        rounding = 8 * _EPS * (root + np.abs(growth) + np.abs(target))
        lower = target + (growth - root) / 2 - rounding
        upper = target + (growth + root) / 2 + rounding
        return lower, upper

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return the smallest 2 (a + b f̃)²/(a + b f)³: 0 where the variance has no upper bound."""
        noise = estimate.noise
        arrays = [*map(np.atleast_1d, (noise.a, noise.b, lower, upper)), estimate.frequencies]
        result = np.empty(np.broadcast_shapes(*(array.shape for array in arrays)))
        for _, (a, b, low, high, target, second) in parts_of(*arrays, result):
            # The second derivative is smallest where the variance is largest; 0 times inf is NaN.
            end = np.where(b > 0, high, low)
            largest = a + np.multiply(b, end, out=np.zeros(end.shape), where=b != 0)
            np.multiply(b, target, out=second)
            second += a
            # Where the variance is not positive the loss is infinite, and nothing bends it there.
            # No power of a variance alone: in a large unit it would leave the doubles.
            largest = np.where(largest > 0, largest, np.inf)
            second /= largest
            second *= second
            second *= 2 / largest
        return result

    def sensitivity(self, f: Array, estimate: FrequencyEstimate) -> Array | None:
        """Return 2 (1 - b r)/(a + b f) with r = (f - f̃)/(a + b f)."""
        noise = estimate.noise
        variance = noise.a + noise.b * f
        ratio = (f - estimate.frequencies) / variance
        return np.asarray(2 * (1 - noise.b * ratio) / variance)

    def pooling(self, estimate: FrequencyEstimate) -> VariancePooling | None:
        """Return quadratic means of 1 + κ f̃, where all values have the same variance."""
        noise = estimate.noise
        if not noise.is_common:
            return None
        return VariancePooling(estimate.frequencies, _mean(noise.a), noise.kappa)

    def gradient_error(self, f: Array, gradient: Array, estimate: FrequencyEstimate) -> Array:
        """Return the rounding of the variance, which cancels near the end of the domain."""
        noise = estimate.noise
        target = estimate.frequencies
        ends = np.array([f.min(), f.max()])
        roundings = relative_roundings(ends, np.array(estimate.extremes), noise.a, noise.b)
        if roundings is not None:
            error = np.abs(gradient)
            error *= roundings
            return error
        growth = noise.b * f
        variance = noise.a + growth
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs((f - target) / variance)
            # How much larger the variance's terms are than itself, where they cancel.
            cancelled = (np.abs(noise.a) + np.abs(growth)) / np.abs(variance)
            error = 8 * _EPS * (1 + cancelled) * ratio * (2 + np.abs(noise.b) * ratio)
        # At the end of the domain the gradient is infinite, and has no error.
        return np.where(np.isfinite(error), error, 0.0)

    def response(
        self,
        mu: Array,
        data: tuple[Array, ...],
        constants: tuple[float, ...],
    ) -> Array:
        """Return (f̃ + a r)/(1 - b r), where r (2 - b r) = -μ."""
        kappa, mean_a, _ = constants
        result = np.empty(np.broadcast_shapes(mu.shape, data[0].shape))
        for _, (multiplier, target, *relative, f) in parts_of(mu, *data, result):
            a = mean_a * relative[0] if relative else mean_a
            b = kappa * a
            inside = 1 + b * multiplier
            # By the root that does not cancel for small μ.
            ratio = np.sqrt(np.maximum(inside, 0.0))
            ratio += 1
            np.divide(-multiplier, ratio, out=ratio)
            # At the end of the domain 1 - b r is 0: there the other branch is taken.
            with np.errstate(divide="ignore", invalid="ignore"):
                np.multiply(a, ratio, out=f)
                f += target
                f /= 1 - b * ratio
            # There the loss plus μ f is unbounded, on the side on which the variance grows.
            np.copyto(f, np.copysign(np.inf, b), where=~(inside > 0))
        return result


def relative_roundings(ends: Array, target_ends: Array, a: Any, b: Any) -> float | None:
    """Return a factor of |r (2 - b r)| that bounds its rounding, with r = (f - f̃)/(a + b f).

    None is returned unless one a and b, and the smallest and largest f and f̃ alone, show that
    nothing cancels: the variance is then at least a share of its terms, and b |r| at most 1, so
    that 2 + b |r| is at most three times |2 - b r|. No vector has to be read for it. The variances
    at f̃, by which curvatures are computed, then cancel little too: each is at least half of one
    at f.
    """
    if np.ndim(a) or np.ndim(b):
        return None
    growths = b * ends
    smallest = a + growths.min()
    size = abs(a) + np.abs(growths).max()
    farthest = max(ends.max() - target_ends.min(), target_ends.max() - ends.min())
    steepest = abs(b) * farthest
    # Halves and eighths, so that the rounding of these numbers themselves does not count.
    if not (smallest > size / 8 and steepest < smallest / 2):
        return None
    return float(3 * 8 * _EPS * (1 + 2 * size / smallest))


def _mean(values: Array | float) -> float:
    """Return the mean of a vector, and a number as it is: np.mean of one takes long."""
    return float(values if isinstance(values, float) else np.mean(values))


def _relative_variances(estimate: FrequencyEstimate) -> tuple[Array, ...]:
    """Return each value's a over their mean, of the frequencies' shape; nothing if all agree."""
    noise = estimate.noise
    # One factor for all values is a constant: a parameter more would slow every solve.
    if noise.is_common:
        return ()
    relative = noise.a / _mean(noise.a)
    return (np.broadcast_to(relative, estimate.frequencies.shape),)
