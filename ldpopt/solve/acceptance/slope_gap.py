"""An upper bound of a gap from slopes at hand, on the simplex, in a ball or under a row.

It is meant for acceptance, as ``quick_gap`` is, and for the points of closed forms. Let g be any
subgradient of the loss at f, and n any vector with n·(s - f) <= slack for all s of the ball. Then
for every μ >= 0

    L(f) - L(s) <= g·(f - s) <= (g + μ n)·(f - s) + μ slack,

and over {s >= lower, Σs = total} the first term is largest where all that the lower bounds leave of
the total is at the smallest entry of g + μ n. At a minimum the entries of the values above their
bounds are equal, so that least squares over these finds μ.

``normals`` has n of a ball and its slack. Of a row a·s <= b, n is a and the slack b - a·f. Of all
rounding that of n·f alone counts, μ times. The rest is below 1e-13 of the scale that a status is
relative to, which promises 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import (
    Pick,
    absolute_sum,
    longest_part,
    parts_of,
    some_blocks,
    whole,
)
from ldpopt.closed_form.rows import is_long, locked_vector
from ldpopt.constraints import Constraint
from ldpopt.constraints.base import Ball
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.acceptance.quick_gap import inner, measured_by, totals_alone
from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.bounds.evidence import CLEAR, Measured, SizedGap, is_within
from ldpopt.solve.certificate.box.slopes import LongSlopes, slope_of
from ldpopt.solve.certificate.prices.normals import Normal, normal_of, plain_slack
from ldpopt.solve.formulation import Formulation

if TYPE_CHECKING:
    from ldpopt.solve.acceptance.normal_kernels import Levels, Part, Rule, Turned

Array = NDArray[np.float64]

# So many values of a long vector are looked at first to find what is nearly equal.
_SOME = 4096

# Distance to the reference, relative to the largest value, below which a value counts as equal to
# it: closed forms put it there but for rounding. Any choice here proves something.
_EQUAL = 1e-9


def slope_gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for other sets, and where slopes are infinite.

    Parameters
    ----------
    formulation
        A convex loss under lower bounds with a total, and at most one further constraint: a row of
        coefficients, or a ball in a 1-norm, a 2-norm or a divergence.
    start
        The estimate.
    point
        f, of the estimate's shape.
    """
    loss = formulation.loss
    d = start.d
    region = formulation.region(d)
    is_simplex = region.lower_count == d and not region.upper_count
    if region.total is None or not is_simplex or len(region.tied) > 1 or not loss.convex:
        return None
    cut = region.tied[0] if region.tied else None
    if cut is not None and cut.ball is None and cut.row(d) is None:
        return None
    above = point if region.lower_is_zero else point - region.lower
    # Only what the lower bounds leave of the total can move.
    left = max(region.total - region.lower_sum, 0.0)
    if cut is not None and point.ndim == 1 and is_long(d):
        slopes = LongSlopes(loss, start, point)
        bound = _gap_of_long(cut, totals_alone(formulation, d), slopes, point, above, left)
        seen = measured_by(slopes.extent, formulation, region)
        return bound and bound._replace(measured=(*bound.measured, *seen))
    slope = slope_of(loss, start, point)
    terms = absolute_sum(slope, point)
    # Not a number either.
    if not np.isfinite(slope.min()) or not np.isfinite(slope.max()):
        return None
    paid: Array | float = 0.0
    if cut is not None:
        paid = _add_normal(slope, _facing(cut, point), above, left)
    with np.errstate(invalid="ignore"):
        gap = inner(slope, above) - slope.min(axis=-1) * left + paid
    return _sized(gap, terms)


def _sized(gap: Array, terms: Array) -> SizedGap:
    """Return the bound that a gap is; what overflows proves nothing."""
    return SizedGap(np.where(np.isfinite(gap), np.maximum(gap, 0.0), np.inf), terms)


def _roundings(d: int) -> float:
    """Return what a sum of d products is known to, relative to that of their sizes."""
    return (16 + math.sqrt(d)) * EPS


class _Facing(NamedTuple):
    """A normal at f, and what bounds n·(s - f), shape (...), for any numbers where n is open.

    Of an equation both are the same number, so that μ may have either sign.
    """

    normal: Normal
    slack: Callable[[Array], Array]
    is_equation: bool = False


def _facing(cut: Constraint, f: Array) -> _Facing:
    """Return the normal of a ball or a row at f."""
    ball = cut.ball
    if ball is not None:
        normal = normal_of(ball, f, _EQUAL * np.abs(f).max(axis=-1, keepdims=True))
        return _Facing(normal, lambda vector: plain_slack(ball, normal, vector, f))
    row = _row_at(cut, f)
    normal = Normal(row.sign[..., None] * row.coefficients, np.zeros(f.shape, dtype=np.bool_), 0.0)
    return _Facing(normal, lambda _: row.distance, row.is_equation)


class _Row(NamedTuple):
    """The side of a row that is nearer: a, shape (d,), 1 or -1, and how far a·f is from it.

    Both may be infinitely far: such a row is never active, and has the sign 0. ``violation`` is by
    how much a·f is beyond a side, None where the set may count it in another way.
    """

    coefficients: Array
    sign: Array
    distance: Array
    is_equation: bool
    violation: Array | None


def _row_at(cut: Constraint, f: Array) -> _Row:
    """Return the side of a row that f is nearer to."""
    row = cut.row(f.shape[-1])
    assert row is not None  # slope_gap takes no other set without a ball
    coefficients, lower, upper, measures_violation = row
    value = f @ coefficients
    below = value - lower
    above = upper - value
    is_equation = bool(lower == upper)
    is_upper = (above <= below) | is_equation
    distance = np.where(is_upper, above, below)
    is_active = np.isfinite(distance)
    sign = np.where(is_active, np.where(is_upper, 1.0, -1.0), 0.0)
    violation = np.maximum(-below, -above) if measures_violation else None
    return _Row(coefficients, sign, np.where(is_active, distance, 0.0), is_equation, violation)


def _add_normal(slope: Array, facing: _Facing, above: Array, left: float) -> Array:
    """Turn g into g + μ n less its mean, and return μ times the slack of n and the mean's cost.

    ``above`` is how far each value is above its lower bound, by which it counts, and ``left`` what
    that sums to in the set.
    """
    normal = facing.normal
    has_open = bool(normal.is_open.any())
    weight = above
    if has_open or above.min() < 0:
        weight = np.where(normal.is_open, 0.0, np.maximum(above, 0.0))
    # Where no value counts, μ is 0.
    mass = np.maximum(weight.sum(axis=-1), np.finfo(np.float64).tiny)
    level = (inner(weight, slope) / mass)[..., None]
    middle = (inner(weight, normal.vector) / mass)[..., None]
    slope -= level
    along = np.zeros(level.shape)
    squares = np.zeros(level.shape)
    for _, (g, n, w) in parts_of(slope, normal.vector, weight):
        turned = n - middle
        weighted = w * turned
        along += inner(weighted, g)[..., None]
        squares += inner(weighted, turned)[..., None]
    mu = _price(along, squares, facing.is_equation)
    vector = normal.vector
    # Of a steep slope the conjugate of a divergence is beyond the doubles: then nothing is proved.
    with np.errstate(over="ignore", invalid="ignore"):
        if has_open:
            # What makes an open slope that of the others, as far as it may.
            vector = normal.with_open(middle - slope / np.where(mu > 0, mu, 1.0))
        # Of a normal that is nearly the same for all values, μ is large, and n·f is known to bits.
        unknown = _roundings(above.shape[-1]) * absolute_sum(vector, above)
        paid = mu[..., 0] * facing.slack(vector) + np.abs(mu[..., 0]) * unknown
        for _, (g, n) in parts_of(slope, vector):
            g += mu * (n - middle)
        mean = (level + mu * middle)[..., 0]
        return np.asarray(paid + mean * (above.sum(axis=-1) - left))


def _price(along: Array, squares: Array, is_equation: bool) -> Array:
    """Return μ, the least squares solution of g + μ n = 0; at least 0 but for an equation."""
    if not is_equation:
        along = np.minimum(along, 0.0)
    return np.where(squares > 0, -along / np.where(squares > 0, squares, 1.0), 0.0)


class _Swept(NamedTuple):
    """What the third sweep adds up, what bounds n·(s - f), and by how much f violates the set.

    The violation is None where the set may count it in another way.
    """

    turned: Turned
    slack: float
    violation: float | None


class _LongFacing(Protocol):
    """As ``_Facing``, of one long vector."""

    @property
    def is_equation(self) -> bool:
        """Whether μ may have either sign."""

    def rule(self, pick: Pick) -> Rule:
        """Return how the normal is computed at some values."""

    def swept(self, slopes: LongSlopes, f: Array, above: Array, levels: Levels) -> _Swept:
        """Return what the third sweep gives."""


class _OneRule(NamedTuple):
    """A row, or a ball in a norm: one sweep, and what follows from its sums."""

    whole: Rule
    slack: Callable[[Turned], float]
    violation: Callable[[Turned], float] | None
    is_equation: bool = False

    def rule(self, pick: Pick) -> Rule:
        """Return how the normal is computed at some values."""
        return self.whole.at(pick)

    def swept(self, slopes: LongSlopes, f: Array, above: Array, levels: Levels) -> _Swept:
        """Return what one sweep gives."""
        from ldpopt.solve.acceptance import normal_kernels

        parts = (
            (self.whole.at(itemgetter(part)), slope, f[part], above[part])
            for part, slope in slopes.parts()
        )
        turned = normal_kernels.turned(parts, levels)
        violation = None if self.violation is None else self.violation(turned)
        return _Swept(turned, self.slack(turned), violation)


class _Divergence(NamedTuple):
    """A ball in the divergence.

    Its logarithms are computed part by part and used while they are in the processor's caches: an
    array of all of them would be written and read back.
    """

    ball: Ball
    f: Array
    is_equation: bool = False

    def rule(self, pick: Pick) -> Rule:
        """Return how the normal is computed at some values."""
        from ldpopt.closed_form.logarithms import log_ratios
        from ldpopt.solve.acceptance import normal_kernels

        logs, _ = log_ratios(pick(self.f), pick(self.ball.reference))
        return normal_kernels.rule(normal_kernels.LOGARITHM, logs, 1.0)

    def swept(self, slopes: LongSlopes, f: Array, above: Array, levels: Levels) -> _Swept:
        """Return what a sweep gives whose slack is R - Σ r + Σ (r exp(n) - f) - Σ (n - 1) f."""
        from ldpopt.closed_form.logarithms import log_ratios
        from ldpopt.solve.acceptance import normal_kernels

        level, middle, mu = levels
        slack = self.ball.radius
        size = self.ball.size
        are_zeros = True

        def parts() -> Iterator[Part]:
            nonlocal slack, are_zeros
            # New memory for each part would take as long as its logarithms.
            into = np.empty(longest_part(len(f)))
            for part, slope in slopes.parts():
                x = f[part]
                r = self.ball.reference[part]
                logs, are_numbers = log_ratios(x, r, into[: len(x)])
                yield (
                    normal_kernels.rule(normal_kernels.LOGARITHM, logs, 1.0),
                    slope,
                    x,
                    above[part],
                )
                # Where n is the logarithm of f/r, r exp(n) is f.
                if not are_numbers:
                    is_open = np.isnan(logs)
                    chosen = middle - (slope[is_open] - level) / (mu or 1.0)
                    slack += _further(chosen, x[is_open], r[is_open])
                    are_zeros &= not x[is_open].any()

        turned = normal_kernels.turned(parts(), levels)
        # A value of 0 adds its reference to the distance, and the others have logarithms.
        violation = turned.along + size - self.ball.radius if are_zeros else None
        return _Swept(turned, slack - size - turned.along, violation)


def _long_facing(cut: Constraint, f: Array, some: Array) -> _LongFacing:
    """Return the normal of a ball or a row at a long f, of which some values tell the size."""
    from ldpopt.solve.acceptance import normal_kernels

    ball = cut.ball
    if ball is None:
        row = _row_at(cut, f)
        rule = normal_kernels.rule(normal_kernels.GIVEN, row.coefficients, float(row.sign))
        beyond = row.violation
        violation = None if beyond is None else lambda _: float(beyond)
        return _OneRule(rule, lambda _: float(row.distance), violation, row.is_equation)
    if ball.norm == "kl":
        return _Divergence(ball, f)
    if ball.norm == 2:
        return _facing_two_norm(ball.reference, ball.radius)
    near = _EQUAL * max(some.max(), -some.min())
    weights = np.ones(1) if ball.weights is None else ball.weights
    return _OneRule(
        normal_kernels.rule(normal_kernels.ONE_NORM, ball.reference, 1.0, weights, near),
        lambda turned: ball.radius - turned.along,
        lambda turned: turned.apart - ball.radius,
    )


def _facing_two_norm(reference: Array, radius: float) -> _OneRule:
    """Return the normal (f - r)/radius, so that no sweep has to find the norm of f - r first."""
    from ldpopt.solve.acceptance import normal_kernels

    per_radius = 1.0 / radius if radius > 0 else 0.0

    def slack(turned: Turned) -> float:
        # The slack is radius ‖n‖ - n·(f - r).
        along = turned.along
        return math.sqrt(radius * along) - along

    rule = normal_kernels.rule(normal_kernels.TWO_NORM, reference, per_radius)
    excess = (lambda turned: math.sqrt(radius * turned.along) - radius) if radius > 0 else None
    return _OneRule(rule, slack, excess)


def _further(normal: Array, f: Array, reference: Array) -> float:
    """Return Σ r exp(n) - f over values where the normal n of a divergence is open."""
    # Where r is 0, f can only be 0, and n may be so large that its exponential is infinite.
    is_held = reference == 0
    gained = np.where(is_held, 0.0, reference * np.exp(np.where(is_held, 0.0, normal)))
    return float(np.sum(gained - f))


def _gap_of_long(
    cut: Constraint,
    totals: Sequence[Constraint],
    slopes: LongSlopes,
    f: Array,
    above: Array,
    left: float,
) -> SizedGap | None:
    """Return the bound of one long vector in compiled sweeps; see ``_add_normal``.

    ``totals`` are the constraints that state the total and nothing else.
    """
    bound = None
    # One kind of array, for which the sweeps are compiled once.
    f, above = map(locked_vector, (f, above))
    # The few values that no bound holds may all be among the others.
    for some, pick in ((f[:_SOME], some_blocks), (f, whole)):
        facing = _long_facing(cut, f, some)
        bound = _bound_of_long(cut, totals, facing, slopes, f, above, left, pick)
        if bound is None or is_within(bound.gap, bound.terms, CLEAR):
            break
    return bound


def _bound_of_long(
    cut: Constraint,
    totals: Sequence[Constraint],
    facing: _LongFacing,
    slopes: LongSlopes,
    f: Array,
    above: Array,
    left: float,
    pick: Pick,
) -> SizedGap | None:
    """Return the bound for the μ that follows from the values that are picked."""
    # What is infinite or no number in a part of the values is so in the sums over all.
    with np.errstate(over="ignore", invalid="ignore"):
        levels = _levels(facing, pick, slopes.at(pick), pick(f), pick(above))
        turned, slack, violation = facing.swept(slopes, f, above, levels)
        if not np.isfinite(turned.terms):
            return None
        level, middle, mu = levels
        paid = mu * slack
        paid += abs(mu) * _roundings(len(f)) * turned.size
        excess = turned.mass - left
        gap = turned.rise - turned.lowest * left + paid + (level + mu * middle) * excess
    bound = _sized(np.asarray(gap), np.asarray(turned.terms))
    measured = [Measured(one, np.abs(np.asarray(excess))) for one in totals]
    if violation is not None:
        measured.append(Measured(cut, np.asarray(max(violation, 0.0))))
    return bound._replace(measured=tuple(measured))


def _levels(facing: _LongFacing, pick: Pick, slope: Array, f: Array, above: Array) -> Levels:
    """Return the means of g and n by weight, and μ, of the values that are picked."""
    from ldpopt.solve.acceptance import normal_kernels

    rule = facing.rule(pick)
    slope = locked_vector(slope)
    sums = normal_kernels.means(rule, slope, f, above)
    mass = max(sums.mass, np.finfo(np.float64).tiny)
    level = sums.slopes / mass
    middle = sums.normals / mass
    products = normal_kernels.products(rule, slope, f, above, level, middle)
    along, squares = (np.asarray(product) for product in products)
    return level, middle, float(_price(along, squares, facing.is_equation))
