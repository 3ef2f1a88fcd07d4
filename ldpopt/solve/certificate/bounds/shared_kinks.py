"""Slopes of kinks that values share: total variation, norms of groups, the largest deviation.

Each of these functions h is the largest k·(s - c) over the slopes k of a convex set K, with a
centre c that is mostly 0. So every k of K, whatever it was chosen by, gives for every s

    h(f) - h(s) <= k·(f - s) + [h(f) - k·(f - c)],

and the bracket, >= 0, is a cost that does not depend on s. With a k beside it a loss is a tangent
plus a constant, so that no program is needed. At a minimum some k makes the gradient the price of
every value off its bounds, at no cost:

- total variation: k_i = y_{i-1} - y_i with |y_i| at most the weight; y are prefix sums of what the
  gradient leaves of the price, and the weight itself, with its sign, at every jump,
- a norm of a group: k of norm at most the weight; the direction of f, or what the gradient leaves,
- the largest deviation: Σ |k_v| at most the weight, and 0 off the largest ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GroupNorm, Loss, MaxAbsolute, TotalVariation
from ldpopt.solve.certificate.bounds.dual import EPS, usable, with_rounding
from ldpopt.solve.certificate.bounds.intervals import Box

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Distance at which a value counts as being at its bound: a slope may then be steeper than wanted.
# Any choice of slopes proves something.
_AT_BOUND = 1e-9

NEARNESS = (1e-12, 1e-9, 1e-6)
"""Differences that count as none, relative to the largest value: closed forms are exact, and points
of solvers are not."""

# Norms below it count as none: squares of such values underflow, and a direction would be too long.
_SMALLEST_NORM = 1e-140


class Slopes(NamedTuple):
    """Slopes k of K, of shape (trials, d), and what they cost.

    Attributes
    ----------
    slope, error
        Numbers, and how far a k of K may be from them.
    cost
        An upper bound of h(f) - k·(f - c), shape (trials,).
    """

    slope: Array
    error: Array
    cost: Array


class Point(NamedTuple):
    """Points of shape (trials, d), and which values are at a bound."""

    f: Array
    at_lower: Mask
    at_upper: Mask

    @classmethod
    def of(cls, f: Array, limits: Box) -> Point:
        """Return them for points and bounds that broadcast with each other."""
        d = f.shape[-1]
        lower, upper = (np.broadcast_to(end, f.shape) for end in limits)
        at_lower = f - lower <= _AT_BOUND
        at_upper = upper - f <= _AT_BOUND
        return cls(f.reshape(-1, d), at_lower.reshape(-1, d), at_upper.reshape(-1, d))

    def needed(self, wanted: Array) -> Array:
        """Return what a slope has to reach: at a bound one that pushes towards it is enough."""
        needed = np.where(self.at_lower, np.maximum(wanted, 0.0), wanted)
        return np.where(self.at_upper, np.minimum(needed, 0.0), needed)

    def unexplained(self, residual: Array) -> Array:
        """Return the size of what slopes are off, 0 where it pushes towards a bound at hand."""
        is_free = (self.at_lower & (residual > 0)) | (self.at_upper & (residual < 0))
        return np.where(is_free, 0.0, np.abs(residual))


class SharedKinks:
    """One function with shared kinks at a point. ``weight`` is the number in front of it."""

    def __init__(self, point: Point, weight: float) -> None:
        self._point = point
        self._weight = weight
        # The largest |f_v| of each trial, shape (trials, 1): differences are compared with it.
        self._reach = np.abs(point.f).max(axis=-1, keepdims=True)

    def subgradient(self, near: float) -> tuple[Array, Mask]:
        """Return a subgradient near f, and which values' slopes, or sums of slopes, it settles.

        Numbers that differ by at most ``near`` times the largest value count as equal.
        """
        raise NotImplementedError

    def averaged(self, values: Array, weights: Array, near: float) -> Array:
        """Return numbers of shape (trials, d), with their mean where only a sum is settled."""
        return values

    def settling(self, wanted: Array, further: Array, near: float) -> Array:
        """Return the μ at which wanted + μ further uses up the weight, 0 where nothing has to."""
        return np.zeros(len(wanted))

    def slopes(self, wanted: Array) -> Slopes:
        """Return slopes near the wanted ones, of shape (trials, d), at the least cost in sight."""
        # Wanted slopes may be of any size: what overflows is not chosen.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._cheapest(wanted)

    def _cheapest(self, wanted: Array) -> Slopes:
        best: Slopes | None = None
        price = np.zeros(0)
        for slopes in self._candidates(wanted):
            of_these = self._price(slopes, wanted)
            if best is None:
                best = slopes
                price = of_these
                continue
            is_better = of_these < price
            each = is_better[:, None]
            best = Slopes(
                np.where(each, slopes.slope, best.slope),
                np.where(each, slopes.error, best.error),
                np.where(is_better, slopes.cost, best.cost),
            )
            price = np.minimum(price, of_these)
        assert best is not None
        return best

    def _candidates(self, wanted: Array) -> Iterator[Slopes]:
        """Yield slopes, those of the sharpest look at the point first."""
        raise NotImplementedError

    def _price(self, slopes: Slopes, wanted: Array) -> Array:
        """Return about what slopes cost, with what they leave of the wanted ones."""
        left = self._point.unexplained(slopes.slope - wanted)
        return np.asarray(slopes.cost + self._reach[:, 0] * np.sum(left, axis=-1))


class _Variation(SharedKinks):
    """Σ |f_u - f_v| over the neighbours of a chain."""

    def __init__(self, term: TotalVariation, point: Point, weight: float, target: Array) -> None:
        super().__init__(point, weight)
        self._chain: Any = term.priced_chain
        self._jumps = np.diff(point.f[:, self._chain], axis=-1)

    def _signs(self, near: float) -> Array:
        return np.where(np.abs(self._jumps) > near * self._reach, np.sign(self._jumps), 0.0)

    def subgradient(self, near: float) -> tuple[Array, Mask]:
        """Return the signs of the jumps; a run's slopes sum to those at its two ends."""
        slope, _ = self._placed(self._weight * self._signs(near))
        return slope, np.ones(slope.shape, dtype=np.bool_)

    def averaged(self, values: Array, weights: Array, near: float) -> Array:
        """Return the weighted mean of each run."""
        is_new = np.abs(self._jumps) > near * self._reach
        first = np.ones((len(is_new), 1), dtype=np.bool_)
        # Runs of all trials are numbered one after the other.
        run = np.cumsum(np.hstack([first, is_new]).ravel()) - 1
        weight = weights[:, self._chain].ravel()
        mass = np.bincount(run, weight)
        sums = np.bincount(run, weight * values[:, self._chain].ravel())
        means = sums / np.where(mass > 0, mass, 1.0)
        result = values.copy()
        result[:, self._chain] = means[run].reshape(len(is_new), -1)
        return result

    def _candidates(self, wanted: Array) -> Iterator[Slopes]:
        """Yield slopes whose prefix sums follow the wanted ones as far as the weight allows."""
        from ldpopt.solve.certificate.bounds.variation_kernel import running_pulls

        left = np.ascontiguousarray(usable(-wanted[:, self._chain]))
        limits = np.full(len(left), self._weight)
        before: Array | None = None
        for near in NEARNESS:
            signs = self._signs(near)
            # Points of closed forms have no jump that is nearly none.
            if before is not None and np.array_equal(signs, before):
                continue
            before = signs
            pulls = np.empty(signs.shape)
            running_pulls(left, signs, limits, pulls)
            slope, size = self._placed(pulls)
            # At a jump the pull is mostly at its end, and costs nothing.
            unused = self._weight - pulls * np.sign(self._jumps)
            cost = np.einsum("tv,tv->t", unused, np.abs(self._jumps))
            yield Slopes(slope, EPS * size, with_rounding(cost, signs.shape[-1]))

    def _placed(self, pulls: Array) -> tuple[Array, Array]:
        """Return the slopes of all values, and the size of the pulls that each is a sum of."""
        before = np.pad(pulls, ((0, 0), (1, 0)))
        after = np.pad(pulls, ((0, 0), (0, 1)))
        slope = np.zeros(self._point.f.shape)
        size = np.zeros(self._point.f.shape)
        slope[:, self._chain] = before - after
        size[:, self._chain] = np.abs(before) + np.abs(after)
        return slope, size


class _Groups(SharedKinks):
    """Σ w_g ‖f_g‖ over disjoint groups."""

    def __init__(self, term: GroupNorm, point: Point, weight: float, target: Array) -> None:
        super().__init__(point, weight)
        self._members = term.members
        lengths = term.sizes
        self._starts = np.cumsum(lengths) - lengths
        self._lengths = lengths
        self._limit = weight * term.weights
        self._inside = point.f[:, self._members]
        self._norms = self._norm(self._inside)
        norms = self._each(np.where(self._norms > _SMALLEST_NORM, self._norms, 1.0))
        self._along = self._each(self._limit) * (self._inside / norms)

    def subgradient(self, near: float) -> tuple[Array, Mask]:
        """Return the direction of each group; that of a group that is zero is open."""
        is_settled = np.ones(self._point.f.shape, dtype=np.bool_)
        is_settled[:, self._members] = self._each(self._norms > near * self._reach)
        return self._placed(self._along), is_settled

    def _candidates(self, wanted: Array) -> Iterator[Slopes]:
        """Yield each group's direction, or what is wanted within the weight: the cheaper one."""
        inside = self._point._replace(
            at_lower=self._point.at_lower[:, self._members],
            at_upper=self._point.at_upper[:, self._members],
        )
        of_members = wanted[:, self._members]
        needed = usable(inside.needed(of_members))
        size = self._norm(needed)
        # Rounding must not carry a slope out of the ball of its group.
        shrunk = 1 - (self._lengths + 8) * EPS
        divisor = np.where(size > _SMALLEST_NORM, size, 1.0)
        share = np.minimum(1.0, self._limit / divisor) * shrunk
        turned = needed * self._each(share)
        along = self._along * self._each(shrunk)
        prices = [self._price_of_groups(one, of_members, inside) for one in (turned, along)]
        cheaper = prices[0] < prices[1]
        slope = np.where(self._each(cheaper), turned, along)
        terms = self._sums(slope * self._inside)
        missed = self._limit * self._norms - terms
        rounding = (self._lengths + 8) * EPS * (self._limit * self._norms)
        cost = np.sum(np.maximum(missed, 0.0) + 2 * rounding, axis=-1)
        yield Slopes(self._placed(slope), np.zeros((1, 1)), cost)

    def _price_of_groups(self, slope: Array, wanted: Array, inside: Point) -> Array:
        """Return about what slopes cost, with what they leave of the others, group by group."""
        missed = self._limit * self._norms - self._sums(slope * self._inside)
        return missed + self._sums(inside.unexplained(slope - wanted) * self._reach)

    def _sums(self, values: Array) -> Array:
        return np.asarray(np.add.reduceat(values, self._starts, axis=-1))

    def _norm(self, values: Array) -> Array:
        return np.sqrt(self._sums(values**2))

    def _each(self, of_group: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(of_group, self._lengths, axis=-1)

    def _placed(self, of_members: Array) -> Array:
        slope = np.zeros(self._point.f.shape)
        slope[:, self._members] = of_members
        return slope


class _Largest(SharedKinks):
    """max_v |f_v - c_v|."""

    def __init__(self, term: MaxAbsolute, point: Point, weight: float, target: Array) -> None:
        super().__init__(point, weight)
        away = point.f - target
        self._sign = np.sign(away)
        self._size = np.abs(away)
        self._largest = self._size.max(axis=-1, keepdims=True)
        # Which deviations count as largest, by how near: every choice of slopes asks.
        self._masks: dict[float, Mask] = {}

    def _is_largest(self, near: float) -> Mask:
        if near not in self._masks:
            self._masks[near] = self._size >= self._largest - near * self._reach
        return self._masks[near]

    def subgradient(self, near: float) -> tuple[Array, Mask]:
        """Return 0, which is right off the largest deviations; where all have them, equal shares.

        Which of the largest deviations has which share of the weight is open.
        """
        is_largest = self._is_largest(near)
        is_inside = ~(self._point.at_lower | self._point.at_upper)
        is_alone = np.all(is_largest | ~is_inside, axis=-1, keepdims=True)
        signs = np.where(is_largest & is_inside, self._sign, 0.0)
        count = np.maximum(np.sum(np.abs(signs), axis=-1, keepdims=True), 1.0)
        return np.where(is_alone, self._weight * signs / count, 0.0), ~is_largest | is_alone

    def settling(self, wanted: Array, further: Array, near: float) -> Array:
        """Return the μ at which the sizes of the largest deviations' slopes sum to the weight."""
        is_largest = self._is_largest(near)
        # One at a bound may take any part of the weight, so that nothing follows from the others.
        is_held = is_largest & (self._point.at_lower | self._point.at_upper)
        sign = np.where(is_largest, self._sign, 0.0)
        missing = self._weight - np.sum(sign * wanted, axis=-1)
        gained = np.sum(sign * further, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = np.where((gained > 0) & ~is_held.any(axis=-1), missing / gained, 0.0)
        return usable(mu)

    def _candidates(self, wanted: Array) -> Iterator[Slopes]:
        """Yield what is wanted of the largest deviations, and the rest of the weight at bounds."""
        before: Mask | None = None
        for near in NEARNESS:
            is_largest = self._is_largest(near)
            # Points of closed forms have no deviation that is nearly the largest.
            if before is not None and np.array_equal(is_largest, before):
                continue
            before = is_largest
            yield self._slopes_of(is_largest, wanted)

    def _slopes_of(self, is_largest: Mask, wanted: Array) -> Slopes:
        sign = self._sign
        needed = np.where(is_largest, usable(self._point.needed(wanted)), 0.0)
        # A slope against the sign of its deviation costs twice what it gains.
        size = np.maximum(needed * sign, 0.0)
        total = np.sum(size, axis=-1, keepdims=True)
        shrunk = 1 - (size.shape[-1] + 8) * EPS
        limit = self._weight * shrunk
        size *= np.minimum(1.0, limit / np.where(total > 0, total, 1.0))
        # Values at a bound may push towards it with whatever is left.
        is_held = (self._point.at_lower & (sign > 0)) | (self._point.at_upper & (sign < 0))
        is_held &= is_largest
        left = np.maximum(limit - np.sum(size, axis=-1, keepdims=True), 0.0) * shrunk
        size += left * is_held / np.maximum(np.sum(is_held, axis=-1, keepdims=True), 1)
        slope = sign * size
        terms = np.sum(size * self._size, axis=-1)
        value = self._weight * self._largest[:, 0]
        cost = np.maximum(value - terms, 0.0) + 2 * (size.shape[-1] + 8) * EPS * value
        return Slopes(slope, np.zeros((1, 1)), cost)


Family = Callable[[Any, Point, float, Array], SharedKinks]

# By the very type: a class derived from one may be another function.
_FAMILIES: dict[type[Loss], Family] = {
    TotalVariation: _Variation,
    GroupNorm: _Groups,
    MaxAbsolute: _Largest,
}


def _terms(loss: Loss) -> list[tuple[float, Loss]]:
    """Return the terms with shared kinks, each behind its weight."""
    return [(weight, term) for weight, term in loss.leaves() if weight and term.has_shared_kinks]


def are_known(loss: Loss) -> bool:
    """Return whether the slopes of all shared kinks of a loss are among those here."""
    return all(type(term) in _FAMILIES and not term.overlaps for _, term in _terms(loss))


def shared_kinks_of(
    loss: Loss, estimate: FrequencyEstimate, f: Array, limits: Box
) -> tuple[SharedKinks, ...]:
    """Return the functions with shared kinks that a loss has, at f."""
    if not loss.has_shared_kinks:
        return ()
    point = Point.of(f, limits)
    target = estimate.frequencies.reshape(-1, estimate.d)
    return tuple(_FAMILIES[type(term)](term, point, w, target) for w, term in _terms(loss))
