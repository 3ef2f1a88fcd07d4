"""What a certificate knows of the loss: a function of s that nowhere lies above it.

A smooth loss is nowhere below its tangent plus what its curvature adds between the bounds of s. A
loss that is linear but for one kink per value is its own best bound: no gradient describes it near
a kink. Both come apart into values once a price p of each value is given, so that

    L(f) - L(s) <= p·(f - s) + Σ_v rise_v(p)   for all s between the bounds,

and only the multipliers, which make p, tie values together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import (
    are_within,
    collapsed,
    count_of_parts,
    parts_of,
    vector_of,
)
from ldpopt.closed_form.rows import is_long
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.base import ROUNDINGS, Loss
from ldpopt.losses.responses import Kinks
from ldpopt.solve.certificate.bounds.dual import EPS, separable_rise, with_rounding
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.shared_kinks import (
    NEARNESS,
    SharedKinks,
    Slopes,
    are_known,
    shared_kinks_of,
)

if TYPE_CHECKING:
    import cvxpy as cp

Array = NDArray[np.float64]

# A frequency beside 0, and a slope whose product with any range is above what it takes from a loss.
_TINY = 1e-300
_TILT = 1e-280

# Part of the largest frequency below which programs take the slope there for that at the point.
_RAISED = 2.0**-64

# Part of the curvature that programs leave out: it pays for errors of slopes on unbounded sets.
_SPARED = 2.0**-10

# What counts as beside a value, relative to it.
_BESIDE = 2.0**-10


class Minorant(Protocol):
    """A loss as certificates see it, at one point or a stack of them."""

    @property
    def f(self) -> Array:
        """The point, shape (..., d)."""

    @property
    def slope(self) -> Array:
        """A subgradient at f, shape (..., d)."""

    def rise(self, price: Array, error: Array, lower: Array, upper: Array) -> Array:
        """Return an upper bound of L(f) - L(s) - p·(f - s) for any s between the bounds.

        The prices p are any within ``error`` of ``price``, both of shape (..., d). The result is
        at least 0, of shape (...).
        """

    def slope_towards(self, price: Array) -> Array:
        """Return the subgradient at f that is nearest to the prices."""


@dataclass(frozen=True, eq=False)
class Tangent:
    """The tangent of a smooth loss, and a lower bound of its curvature.

    Attributes
    ----------
    f, slope
        The point and the gradient there, shape (..., d).
    roundings, further_error
        What rounding may have changed in the gradient: roundings |slope| + further_error, the
        latter of shape (..., d), or (1,) where it is 0.
    modulus
        Lower bounds of the second derivatives, >= 0, where the bounds hold.
    held
        Where any slope is a subgradient on the set: the loss is infinite but at 0, or it is
        infinitely steep and the value can be no other. None for nowhere.
    """

    f: Array
    slope: Array
    roundings: float
    further_error: Array
    modulus: Array
    held: NDArray[np.bool_] | None

    @property
    def error(self) -> Array:
        """What rounding may have changed in the gradient, of a shape that broadcasts with it."""
        if not self.roundings:
            return self.further_error
        return self.roundings * np.abs(self.slope) + self.further_error

    def rise(self, price: Array, error: Array, lower: Array, upper: Array) -> Array:
        """Return what the price leaves of the gradient, over the bounds."""
        arrays = (self.slope, self.further_error, self.modulus, self.f, price, error, lower, upper)
        shape = self.f.shape
        if is_long(shape[-1]):
            from ldpopt.solve.certificate.bounds import kernels

            return _trial_by_trial(partial(kernels.rise, self.roundings), arrays, shape[:-1])
        rise = np.zeros(shape[:-1])
        for _, pieces in parts_of(*arrays):
            rise = rise + _rise_of(self.roundings, *pieces)
        return with_rounding(rise, count_of_parts(shape[-1]))

    def slope_towards(self, price: Array) -> Array:
        """Return the gradient; the price itself where the loss holds a value at 0."""
        return self.slope if self.held is None else np.where(self.held, price, self.slope)


@dataclass(frozen=True, eq=False)
class KinkedLoss:
    """A loss that is linear in each value but for one kink.

    Attributes
    ----------
    f
        The point, shape (..., d).
    kinks
        Where the slopes change, and the slopes.
    """

    f: Array
    kinks: Kinks

    @property
    def slope(self) -> Array:
        """The subgradient at f that is nearest to 0."""
        return self.slope_towards(np.zeros(self.f.shape))

    def rise(self, price: Array, error: Array, lower: Array, upper: Array) -> Array:
        """Return the maximum, which is at the kink or at an end of the bounds."""
        place, below, above = self.kinks
        if is_long(self.f.shape[-1]):
            from ldpopt.solve.certificate.bounds import kernels

            arrays = (self.f, place, below, above, price, error, lower, upper)
            return _trial_by_trial(kernels.kinked_rise, arrays, self.f.shape[:-1])
        # The range is widened to hold the point, so that no maximum is negative.
        lower = np.minimum(lower, self.f)
        upper = np.maximum(upper, self.f)
        rise = self._rise_to(np.clip(place, lower, upper), price, error)
        # Without a bound there is no end to a fall that is steeper than its price.
        unbounded = ((lower == -np.inf) & (price - error < below)) | (
            (upper == np.inf) & (price + error > above)
        )
        for end in (lower, upper):
            to_end = self._rise_to(np.where(np.isfinite(end), end, self.f), price, error)
            np.maximum(rise, to_end, out=rise)
        rise[unbounded] = np.inf
        return with_rounding(np.sum(rise, axis=-1), rise.shape[-1])

    def slope_towards(self, price: Array) -> Array:
        """Return the subgradient at f that is nearest to the prices."""
        return self.kinks.subgradient(self.f, price)

    def objective(
        self, variable: cp.Variable, limits: Box, unit: float, price: float
    ) -> cp.Expression:
        """Return the loss over a price, up to a constant, for one trial.

        The variable counts the frequencies in a unit. Both are powers of two: nothing is rounded.
        """
        import cvxpy as cp

        place, below, above = self.kinks
        step = variable - place / unit
        return unit * (below / price) @ step + unit * ((above - below) / price) @ cp.pos(step)

    def rounding(self, limits: Box) -> float:
        """Return by how much the objective may be wrong: not at all."""
        return 0.0

    def _rise_to(self, s: Array, price: Array, error: Array) -> Array:
        """Return ℓ(f) - ℓ(s) - p (f - s) of each value, raised by its rounding; at least 0."""
        height = self._height(self.f)
        depth = self._height(s)
        step = self.f - s
        paid = price * step
        # These terms cancel at the minimum.
        rounding = 4 * EPS * (np.abs(height) + np.abs(depth) + np.abs(paid)) + error * np.abs(step)
        return np.maximum(height - depth - paid + rounding, 0.0)

    def _height(self, f: Array) -> Array:
        """Return the loss of each value above that of its kink."""
        place, below, above = self.kinks
        step = f - place
        return np.where(step < 0, below, above) * step


class Raised(NamedTuple):
    """The tangent of a smooth loss beside f, and by how much it is below the loss at f.

    A divergence is so steep at tiny frequencies that no price is as steep. The tangent at a tiny
    frequency that is a little larger is not, and costs next to nothing.
    """

    tangent: Tangent
    cost: float


@dataclass(frozen=True, eq=False)
class MixedLoss:
    """The sum of a smooth loss and of others with kinks, of single values or shared.

    Any slopes k of the kinked parts split a price p, so that the rise of the sum is at most the
    smooth part's at the price p - Σk and each kinked part's at its own k. Parts with shared kinks
    that ``shared_kinks`` does not know are known to cvxpy alone: with these the loss has an
    ``objective``, but no ``rise``.

    Attributes
    ----------
    f, slope
        The point, and a subgradient of the whole there, shape (..., d).
    smooth
        The tangent of the smooth part; of the zero function if there is no such part.
    kinked
        The parts that are linear in each value but for one kink.
    shared
        From a unit and a variable that counts in it to the parts with shared kinks; None without
        them.
    shared_kinks
        The same parts where their slopes are known without cvxpy; else empty.
    bend_beside
        Lower bounds of the second derivatives of the smooth part that programs state, so near its
        point that its slopes take any value within their error there; 0 where none is known.
    raised
        The smooth part for programs, where its slopes at f are too steep for these; else None.
    """

    f: Array
    slope: Array
    smooth: Tangent
    kinked: tuple[KinkedLoss, ...]
    shared: Callable[[float, cp.Expression], cp.Expression] | None
    shared_kinks: tuple[SharedKinks, ...] = ()
    bend_beside: Array | float = 0.0
    raised: Raised | None = None

    def slopes(self, near: float | Array) -> tuple[Array, Array]:
        """Return the smallest and the largest slope of each value near the point."""
        lowest = self.smooth.slope
        highest = self.smooth.slope
        for part in self.kinked:
            place, below, above = part.kinks
            lowest = lowest + np.where(self.f > place + near, above, below)
            highest = highest + np.where(self.f < place - near, below, above)
        if self.smooth.held is not None:
            # Such a value allows any price of the total.
            lowest = np.where(self.smooth.held, -np.inf, lowest)
            highest = np.where(self.smooth.held, np.inf, highest)
        return lowest, highest

    def rise(self, price: Array, error: Array, lower: Array, upper: Array) -> Array:
        """Return the sum of the parts' rises at the slopes that explain most of the price."""
        chosen = self._chosen(price, np.maximum(self.f - lower, upper - self.f))
        of_shared = self._shared_slopes(price, chosen)
        exact = np.zeros(1)
        slopes = [*chosen, *(part.slope for part in of_shared)]
        rest = price - sum(slopes)
        error = error + 4 * EPS * (np.abs(price) + sum(map(np.abs, slopes)))
        for part in of_shared:
            error = error + part.error
        rise = self.smooth.rise(rest, error, lower, upper)
        for kink, slope in zip(self.kinked, chosen, strict=True):
            rise = rise + kink.rise(slope, exact, lower, upper)
        for part in of_shared:
            rise = rise + part.cost
        return with_rounding(rise, len(slopes))

    def slope_towards(self, price: Array) -> Array:
        """Return the subgradient at f that is nearest to the prices."""
        chosen = self._chosen(price, np.zeros(1))
        taken = sum(chosen, np.zeros(self.f.shape))
        taken = sum((part.slope for part in self._shared_slopes(price, chosen)), taken)
        return taken + self.smooth.slope_towards(price - taken)

    def settled(self, near: float) -> tuple[Array, NDArray[np.bool_]]:
        """Return a subgradient, and the values at which it is the only one, or its sum is.

        Kinks within ``near`` times the largest value of its trial count.
        """
        largest = np.max(np.abs(self.f), axis=-1, keepdims=True)
        lowest, highest = self.slopes(near * largest)
        is_settled = lowest == highest
        # A value whose slope may be any number takes none of it.
        lowest = np.where(np.isinf(lowest), 0.0, lowest)
        for part in self.shared_kinks:
            slope, is_sure = part.subgradient(near)
            lowest = lowest + slope.reshape(self.f.shape)
            is_settled &= is_sure.reshape(self.f.shape)
        return lowest, is_settled

    def averaged(self, values: Array, weights: Array, near: float) -> Array:
        """Return numbers averaged where only their sums count: over runs of equal values."""
        result = np.broadcast_to(values, self.f.shape).reshape(-1, self.f.shape[-1])
        for part in self.shared_kinks:
            result = part.averaged(result, weights.reshape(result.shape), near)
        return result.reshape(self.f.shape)

    def settling(self, wanted: Array, further: Array, near: float) -> Array:
        """Return the μ >= 0 at which slopes of wanted + μ further use up what kinks must, or 0."""
        shape = self.f.shape
        mu = np.zeros(shape[:-1])
        wanted = np.broadcast_to(wanted, shape).reshape(-1, shape[-1])
        further = np.broadcast_to(further, shape).reshape(-1, shape[-1])
        for part in self.shared_kinks:
            mu = np.maximum(mu, part.settling(wanted, further, near).reshape(shape[:-1]))
        return mu

    def objective(
        self, variable: cp.Variable, limits: Box, unit: float, price: float
    ) -> cp.Expression:
        """Return the loss over a price, with the tangent for its smooth part, for one trial.

        The variable counts the frequencies in a unit, a power of two, and the price is one of four,
        so that its root is exact too.
        """
        import cvxpy as cp

        modulus, centre = self._bowl(limits)
        flat = modulus == 0
        objective = unit * (np.where(flat, self._stated.slope, 0.0) / price) @ variable
        if not flat.all():
            # As squares: each term has a bound of its own, also where the values have none.
            roots = np.sqrt(modulus) * (unit / np.sqrt(price))
            away = cp.multiply(roots, variable) - roots * (centre / unit)
            objective += 0.5 * cp.sum_squares(away)
        for part in self.kinked:
            objective += part.objective(variable, limits, unit, price)
        if self.shared is None:
            return objective
        return objective + self.shared(unit, variable) / price

    def rounding(self, limits: Box) -> float:
        """Return by how much the rounding of the smooth part's slope may change the objective."""
        modulus, centre = self._bowl(limits)
        # The slope at f is that of a bowl whose centre and curvature are rounded.
        error = self._stated.error + 8 * EPS * modulus * (np.abs(self.f) + np.abs(centre))
        # Limits that contradict each other are on no side of the point.
        reach = np.maximum(np.maximum(self.f - limits.lower, limits.upper - self.f), 0.0)
        # Where the objective is straight, its slope g is that of the loss at a point p beside f:
        # then no s is below the tangent at p, which costs (g - loss'(f)) (p - f) at the most.
        beside = np.where(modulus > 0, _SPARED * modulus, self.bend_beside)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Without an error an infinite range costs nothing.
            flat = np.where(error > 0, error * reach, 0.0)
            # The curvature that ``objective`` leaves out is above a slope of this size.
            bent = np.where(beside > 0, error**2 / beside, np.inf)
        cost = 0.0 if self.raised is None else self.raised.cost
        return (float(np.sum(np.minimum(flat, bent))) + cost) * (1 + len(self.f) * EPS)

    def _bowl(self, limits: Box) -> tuple[Array, Array]:
        """Return m and c with ½ Σ m_v (s_v - c_v)² the smooth part but for a constant."""
        # What has no width needs no curvature, which is infinite where a loss holds a value at 0.
        tangent = self._stated
        is_curved = (limits.upper > limits.lower) & np.isfinite(tangent.modulus)
        modulus = np.where(is_curved, (1 - _SPARED) * tangent.modulus, 0.0)
        shift = np.divide(tangent.slope, modulus, out=np.zeros(len(self.f)), where=modulus > 0)
        return modulus, tangent.f - shift

    @property
    def _stated(self) -> Tangent:
        """The tangent of the smooth part that programs state."""
        return self.smooth if self.raised is None else self.raised.tangent

    def _shared_slopes(self, price: Array, chosen: Sequence[Array]) -> list[Slopes]:
        """Return slopes of the parts with shared kinks, of the point's shape, beside chosen ones.

        Each takes what the others leave of the price.
        """
        if not self.shared_kinks:
            return []
        shape = self.f.shape
        d = shape[-1]
        left = price - self.smooth.slope_towards(price) - sum(chosen)
        # One part alone takes all of it, whatever slope it has at the point.
        others = [np.zeros(shape)]
        if len(self.shared_kinks) > 1:
            others = [part.subgradient(NEARNESS[0])[0].reshape(shape) for part in self.shared_kinks]
        result = []
        for i, part in enumerate(self.shared_kinks):
            wanted = left - sum(others[:i]) - sum(others[i + 1 :])
            slope, error, cost = part.slopes(np.broadcast_to(wanted, shape).reshape(-1, d))
            others[i] = slope.reshape(shape)
            errors = np.broadcast_to(error, slope.shape).reshape(shape)
            result.append(Slopes(others[i], errors, cost.reshape(shape[:-1])))
        return result

    def _chosen(self, price: Array, reach: Array) -> list[Array]:
        """Return a slope of each kinked part: together they leave little of the price.

        What is left of it costs up to ``reach`` times its size. Off its kink a part has one slope,
        and another one costs the distance times the difference.
        """
        taken = [part.slope for part in self.kinked]
        missing = price - self.smooth.slope_towards(price) - sum(taken)
        # Parts with shared kinks choose afterwards, from about what they have at the point.
        for shared in self.shared_kinks if self.kinked else ():
            missing = missing - shared.subgradient(NEARNESS[0])[0].reshape(self.f.shape)
        # First what costs nothing: a part that pays may take what another one has at its kink.
        for i, part in enumerate(self.kinked):
            at_point = part.slope_towards(taken[i] + missing)
            missing = missing - (at_point - taken[i])
            taken[i] = at_point
        for i, part in enumerate(self.kinked):
            place, below, above = part.kinks
            between = np.clip(taken[i] + missing, below, above)
            gain = np.abs(missing) - np.abs(missing - (between - taken[i]))
            with np.errstate(invalid="ignore", over="ignore"):
                pays = gain * reach > np.abs(between - taken[i]) * np.abs(self.f - place)
            paid = np.where(pays, between, taken[i])
            missing = missing - (paid - taken[i])
            taken[i] = paid
        return taken


def _trial_by_trial(
    rise: Callable[..., float], arrays: Sequence[Array], shape: tuple[int, ...]
) -> Array:
    """Return the rise of each trial, with every array read once."""
    result = np.empty(shape)
    for trial in np.ndindex(shape):
        result[trial] = rise(*(vector_of(array, trial, shape) for array in arrays))
    return result


def _rise_of(
    roundings: float,
    slope: Array,
    further_error: Array,
    modulus: Array,
    f: Array,
    price: Array,
    price_error: Array,
    lower: Array,
    upper: Array,
) -> Array:
    """Return the rise over some of the values of a tangent."""
    error = further_error
    if roundings:
        error = np.abs(slope)
        error *= roundings
        if further_error.any():
            error += further_error
    # Mostly a price is exact: a pass less.
    if price_error.any():
        error = error + price_error
    return separable_rise(slope - price, error, f, lower, upper, modulus)


def minorant(
    loss: Loss, estimate: FrequencyEstimate, f: Array, lower: Array, upper: Array
) -> Minorant:
    """Return the minorant of a convex loss at f, which holds for s between the bounds."""
    smooth = loss.smooth_part
    if smooth is loss:
        return _tangent(loss, estimate, f, lower, upper)
    kinks = loss.kinks(loss.data(estimate), loss.constants(estimate)) if loss.has_kinks else ()
    kinked = tuple(KinkedLoss(f, one) for one in kinks)
    shared = partial(loss.expression_in, estimate=estimate) if loss.has_shared_kinks else None
    if smooth is None and shared is None and len(kinked) == 1:
        return kinked[0]
    slope = loss.gradient(f, estimate)
    # An infinite slope holds a value where it is.
    slope = np.where(np.isfinite(slope), slope, 0.0)
    nothing = np.zeros(f.shape)
    tangent = Tangent(f, nothing, 0.0, np.zeros(1), np.zeros(1), None)
    if smooth is not None:
        tangent = _tangent(smooth, estimate, f, lower, upper)
    shared_kinks: tuple[SharedKinks, ...] = ()
    if are_known(loss):
        shared_kinks = shared_kinks_of(loss, estimate, f, Box(lower, upper))
    bend_beside: Array | float = 0.0
    raised: Raised | None = None
    if smooth is not None and shared is not None:
        raised = _raised(smooth, estimate, tangent, Box(lower, upper))
        stated = tangent if raised is None else raised.tangent
        bend_beside = _bend_beside(smooth, estimate, stated)
    return MixedLoss(f, slope, tangent, kinked, shared, shared_kinks, bend_beside, raised)


def _raised(loss: Loss, estimate: FrequencyEstimate, tangent: Tangent, box: Box) -> Raised | None:
    """Return ``MixedLoss.raised`` of a smooth loss, for one trial."""
    f = tangent.f
    if f.ndim > 1 or not (loss.nonnegative_domain and loss.adds_over_values):
        return None
    floor = np.minimum(_RAISED * np.max(f), box.upper)
    is_tiny = (f >= 0) & (f < floor)
    if tangent.held is not None:
        is_tiny &= ~tangent.held
    if not is_tiny.any():
        return None
    beside = _tangent(loss, estimate, np.where(is_tiny, floor, f), *box)
    # Slopes rise from f to the point beside it, and lie between those at its two ends. At 0 that at
    # a far smaller frequency stands for the one at f, and twice as much pays for what is below it.
    rise = beside.slope - tangent.slope + beside.error + tangent.error
    return Raised(beside, 2 * float(np.sum(np.where(is_tiny, rise * floor, 0.0))))


def _bend_beside(loss: Loss, estimate: FrequencyEstimate, tangent: Tangent) -> Array:
    """Return ``MixedLoss.bend_beside`` of a smooth loss."""
    f = tangent.f
    if not loss.adds_over_values:
        return np.zeros(f.shape)
    away = _BESIDE * np.abs(f)
    bend = np.asarray(loss.curvature(estimate, f - away, f + away))
    # Twice as much: the ends and the bend itself are rounded.
    return np.where(bend * away >= 2 * tangent.error, bend / 2, 0.0)


def _tangent(
    loss: Loss, estimate: FrequencyEstimate, f: Array, lower: Array, upper: Array
) -> Tangent:
    """Return the tangent of a smooth loss."""
    slope = loss.gradient(f, estimate)
    roundings = ROUNDINGS
    error = np.zeros(1)
    # An error that is relative to the slope needs no array.
    if type(loss).gradient_error is not Loss.gradient_error:
        roundings = 0.0
        error = loss.gradient_error(f, slope, estimate)
    if loss.nonnegative_domain and np.isneginf(slope).any():
        slope, error = _tilted(loss, estimate, f, slope, error)
    held = _held(loss, estimate, f, slope, Box(lower, upper))
    if held is not None:
        # The gradient is infinite there, and any number in its place is right.
        slope = np.where(held, 0.0, slope)
        error = np.where(held, 0.0, error)
    # The tangent bends between s and f: f may be outside the bounds. Mostly it is not, and a test
    # is cheaper than two arrays.
    if not are_within(f, lower, upper):
        lower = np.minimum(lower, f)
        upper = np.maximum(upper, f)
    modulus = collapsed(np.asarray(loss.bend(f, estimate, lower, upper)))
    # Lowered by its own rounding.
    return Tangent(f, slope, roundings, error, modulus * (1 - 64 * EPS), held)


def _tilted(
    loss: Loss, estimate: FrequencyEstimate, f: Array, slope: Array, error: Array
) -> tuple[Array, Array]:
    """Return slope and error with the tangent at a tiny frequency where that at 0 is vertical.

    It is nowhere above the loss either, and at 0 it is below it by about the frequency times the
    slope, which the error charges.
    """
    is_steep = np.isneginf(slope)
    beside = np.where(is_steep, _TINY, f)
    tilted = loss.gradient(beside, estimate)
    rounding = loss.gradient_error(beside, tilted, estimate)
    return np.where(is_steep, tilted, slope), np.where(is_steep, rounding + _TILT, error)


def _held(
    loss: Loss, estimate: FrequencyEstimate, f: Array, slope: Array, bounds: Box
) -> NDArray[np.bool_] | None:
    """Return where any slope is right, as no other value competes; None for nowhere."""
    support = loss.support(estimate)
    # The extremes are finite only if all values are; they take no array.
    is_steep = not np.isfinite([slope.min(), slope.max()]).all()
    if support is None and not is_steep:
        return None
    held = np.zeros(slope.shape, dtype=bool) if support is None else ~support
    if is_steep:
        held |= np.isinf(slope) & (bounds.lower == f) & (bounds.upper == f)
    return held if held.any() else None
