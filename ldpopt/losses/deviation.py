"""Deviations whose single outliers count less than in squares, or count alone."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.estimate import FrequencyEstimate
from ldpopt.expressions import in_uniform_units
from ldpopt.losses.responses import Kinks
from ldpopt.losses.targets import Deviation, FromReference, around

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


class LeastAbsolute(Deviation):
    """Σ |f_v - f̃_v|.

    Its minimiser is rarely unique; the closed form returns the one nearest to f̃ in least squares.

    Examples
    --------
    >>> float(LeastAbsolute().value(np.array([0.5, 0.25]), FrequencyEstimate([0.75, 0.25])))
    0.25
    """

    adds_over_values = True
    has_kinks = True

    weights: Array | None = None
    """What deviations count, shape (d,); None for 1 each."""

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\lVert f - \tilde f \rVert_1"

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the sum of absolute deviations, each times its weight."""
        deviations = self._weighted(np.abs(f - self.target(estimate)))
        return np.asarray(np.sum(deviations, axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the weight with the sign of f - f̃; 0, a subgradient, where they are equal."""
        return self._weighted(np.sign(f - self.target(estimate)))

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array]:
        """Return f̃ ± t/w: no term is above the level t."""
        width = np.asarray(level)[..., None] / self._weighted(np.ones(1))
        return around(self.target(estimate), width)

    def kinks(self, data: tuple[Array, ...], constants: tuple[Any, ...]) -> tuple[Kinks, ...]:
        """Return f̃ with the slopes -w and w."""
        (place,) = data
        slope = self._weighted(np.ones(place.shape))
        return (Kinks(place, -slope, slope),)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return ‖w d (f - f̃)‖₁: a linear program in units of the uniform frequency."""
        import cvxpy as cp

        (target,) = data
        away = in_uniform_units(f) - f.size * target
        return cp.norm1(away if self.weights is None else cp.multiply(self.weights, away)), []

    def _weighted(self, values: Array) -> Array:
        """Return what values of the deviations count."""
        return values if self.weights is None else self.weights * values


class L1To(FromReference, LeastAbsolute):
    """Σ w_v |f_v - r_v| with a reference r, such as last month's frequencies.

    It is meant as a part of a sum: ``LeastSquares() + 0.01 * L1To(r)`` moves a value away from its
    reference only where the estimate asks for more than 0.01, and has a closed form on bounds with
    at most one total.

    Parameters
    ----------
    reference
        Finite numbers, shape (d,).
    weights
        w, positive numbers of shape (d,); None for 1 each.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the reference is not a vector of finite numbers, or the weights are not as many positive
        ones.

    Examples
    --------
    >>> from ldpopt import Problem, constraints, losses
    >>> loss = losses.LeastSquares() + 0.1 * L1To([0.5, 0.25, 0.25])
    >>> Problem(loss, [constraints.SumsTo(1.0)]).solve([0.75, 0.3, -0.05]).frequencies.round(3)
    array([0.675, 0.25 , 0.075])
    """

    def __init__(self, reference: ArrayLike, weights: ArrayLike | None = None) -> None:
        super().__init__(reference)
        self.weights = None if weights is None else validate.positive_vector("weights", weights)
        if self.weights is not None:
            validate.one_per_value("weights", self.weights, len(self.reference))

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        if self.weights is None:
            return r"\lVert f - r \rVert_1"
        return r"\sum_v w_v \lvert f_v - r_v \rvert"

    @property
    def family(self) -> type[LeastAbsolute]:
        """Absolute deviations, the reference in the place of f̃; with weights a family apart."""
        return LeastAbsolute if self.weights is None else L1To

    @property
    def compiled_key(self) -> Hashable:
        """The parameters that it was built with, and the weights, which are no data."""
        key = super().compiled_key
        return key if self.weights is None else (key, self.weights.tobytes())


class Huber(Deviation):
    """Σ h(f_v - f̃_v) with h(r) = ½ r² up to |r| = δ, and δ |r| - ½ δ² beyond (Huber 1964).

    On bounds with at most one total the least squares solution minimises it too, as it does every
    convex function that is the same for all deviations.

    Parameters
    ----------
    delta
        δ > 0, from which deviations count as outliers, in units of frequency.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If δ is not a finite number > 0.

    Examples
    --------
    >>> float(Huber(0.25).value(np.array([0.5, 0.5]), FrequencyEstimate([0.25, 0.0])))
    0.125
    """

    adds_over_values = True
    degree = 2  # small deviations count as squares
    nonnegative_data = 1

    def __init__(self, delta: float) -> None:
        self.delta = validate.real("delta", delta, above=0)

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return rf"\sum_v h_{{{self.delta:g}}}(f_v - \tilde f_v)"

    @property
    def compiled_key(self) -> Hashable:
        """The parameters that it was built with: δ is data."""
        return self._recipe_or_self

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return Σ h(f_v - f̃_v)."""
        size = np.abs(f - estimate.frequencies)
        inner = np.minimum(size, self.delta)
        # ½ r² inside; outside the straight line with the slope δ.
        return np.asarray(np.sum(inner * (size - inner / 2), axis=-1))

    def sublevel(self, level: Array, estimate: FrequencyEstimate) -> tuple[Array, Array]:
        """Return f̃ ± (t/δ + δ/2): no term is above the level t."""
        target = self.target(estimate)
        width = np.asarray(level)[..., None] / self.delta + self.delta / 2
        # Above the rounding of a sum of d terms >= 0.
        width = (width + np.abs(target)) * 1e-6 + width
        return target - width, target + width

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return f - f̃, cut to -δ … δ."""
        return np.clip(f - estimate.frequencies, -self.delta, self.delta)

    def curvature(
        self, estimate: FrequencyEstimate, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf
    ) -> Array:
        """Return 1 where the bounds leave no deviation above δ, else 0."""
        # A single deviation beyond δ is on the straight part, which does not bend.
        low = np.asarray(lower) - estimate.frequencies
        high = np.asarray(upper) - estimate.frequencies
        return np.where((low >= -self.delta) & (high <= self.delta), 1.0, 0.0)

    def bend(self, f: Array, estimate: FrequencyEstimate, lower: Array, upper: Array) -> Array:
        """Return y (2 - y), with y the part of the way to the bounds on which the loss bends.

        With c from f to where the loss becomes straight, and x >= c from f to the bound, the loss
        is c (x - c/2) above its tangent there, which is ½ y (2 - y) x² for y = c/x. At points
        between it is more. Where f is on the straight part, nothing bends at first.
        """
        target = estimate.frequencies
        with np.errstate(divide="ignore", invalid="ignore"):
            deviation = f - target
            # A deviation is rounded: the way is taken a little shorter.
            rounding = 4 * _EPS * (self.delta + np.abs(f) + np.abs(target))
            # A length of -0 would turn the sign of what is divided by it.
            up = (self.delta - deviation - rounding) / np.abs(upper - f)
            down = (self.delta + deviation - rounding) / np.abs(f - lower)
            share = np.clip(np.fmin(up, down), 0.0, 1.0)
        return np.asarray(share * (2 - share))

    def data(self, estimate: FrequencyEstimate) -> tuple[Array, ...]:
        """Return δ, once per value, and f̃."""
        # As data it may be a parameter, which changes without a new compilation.
        return np.full(estimate.frequencies.shape, self.delta), estimate.frequencies

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return ½ ‖u‖² + d Σ δ_v |w_v| with u + w = d (f - f̃): a quadratic program."""
        import cvxpy as cp

        delta, target = data
        outlying = cp.Variable(f.size)
        inner = cp.Variable(f.size)
        # As variables: |·| of parameters times δ would be compiled anew for each δ.
        parts = inner + outlying == in_uniform_units(f) - f.size * target
        linear = cp.sum(cp.multiply(f.size * delta, cp.abs(outlying)))
        return 0.5 * cp.sum_squares(inner) + linear, [parts]

    def __repr__(self) -> str:
        return f"Huber({self.delta:g})"


class MaxAbsolute(Deviation):
    """max_v |f_v - f̃_v|: the largest deviation is as small as it can be.

    Its minimiser is rarely unique; on bounds with at most one total the closed form returns the
    least squares solution, which minimises it too.

    Examples
    --------
    >>> float(MaxAbsolute().value(np.array([0.5, 0.25]), FrequencyEstimate([0.75, 0.25])))
    0.25
    """

    has_shared_kinks = True

    @property
    def latex(self) -> str:
        """The loss in LaTeX."""
        return r"\lVert f - \tilde f \rVert_\infty"

    def value(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return the largest |f_v - f̃_v|."""
        return np.asarray(np.max(np.abs(f - estimate.frequencies), axis=-1))

    def gradient(self, f: Array, estimate: FrequencyEstimate) -> Array:
        """Return a subgradient: the sign of the largest deviation in its place, else 0."""
        deviations = f - estimate.frequencies
        # Of several largest deviations one is enough for a subgradient.
        place = np.argmax(np.abs(deviations), axis=-1)[..., None]
        slope = np.zeros(f.shape)
        sign = np.sign(np.take_along_axis(deviations, place, axis=-1))
        np.put_along_axis(slope, place, sign, axis=-1)
        return slope

    def expression(self, f: cp.Expression, estimate: FrequencyEstimate) -> cp.Expression:
        """Return the loss itself."""
        return self.expression_in(1.0, f, estimate)

    def expression_in(
        self, unit: float, counted: cp.Expression, estimate: FrequencyEstimate
    ) -> cp.Expression:
        """Return the loss, with the estimate counted in the unit too."""
        import cvxpy as cp

        return unit * cp.norm_inf(counted - estimate.frequencies / unit)

    def cone_form(
        self,
        f: cp.Expression,
        data: tuple[Any, ...],
        constants: tuple[float, ...],
    ) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return ‖d (f - f̃)‖ with the largest entry as norm."""
        import cvxpy as cp

        (target,) = data
        return cp.norm_inf(in_uniform_units(f) - f.size * target), []
