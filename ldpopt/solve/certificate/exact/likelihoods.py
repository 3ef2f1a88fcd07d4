"""Rigorous gaps and distances of likelihoods: weak duality evaluated in ball arithmetic.

The theorem is that of ``dual``: for any multiplier μ of the total and every s in the set,

    L(f) - L(s) <= Σ_v max_{s_v} [(g_v + μ)(f_v - s_v) - ½ m_v (f_v - s_v)²] - μ (Σ f - total),

where g is the gradient at f and m_v a lower bound of the second derivative between f_v and the
bounds. Each number is a ball of 160 bits that contains the true one, logarithms included, so that
the result is a bound whatever is rounded, and 10⁻³⁰ of the terms is all that is lost.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.errors import UnsupportedProblemError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import BinomialMLE, KullbackLeibler, MultinomialMLE
from ldpopt.solve.certificate.bounds.competitors import domain_of
from ldpopt.solve.certificate.box import box
from ldpopt.solve.certificate.exact.enclosures import UNKNOWN, Enclosure, ball_of, enclosure
from ldpopt.solve.certificate.exact.rationals import rounded_up
from ldpopt.solve.certificate.exact.result import Exact
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]

LOSSES = (BinomialMLE, MultinomialMLE, KullbackLeibler)
"""Losses whose gradient and second derivative are known here."""

# Three times the digits of a double: squares of differences in the last place still have some.
_BITS = 160


_INFINITE = "the loss or its slope is infinite at the point"
_OPEN = (
    "no bound follows from the slopes at values without finite bounds: bound the frequencies by "
    "constraints"
)


class Slope(NamedTuple):
    """What is known of the loss of one value beside its point, in balls.

    Attributes
    ----------
    gradient, modulus
        The gradient, and the smallest second derivative where competitors are.
    stretch
        How far above the point this derivative holds, where it does not hold everywhere.
    """

    gradient: Any
    modulus: Any
    stretch: Any = None


def library() -> Any:
    """Return python-flint.

    Raises
    ------
    UnsupportedProblemError
        If it is not installed, with the name of the extra.
    """
    try:
        import flint
    except ImportError:
        raise UnsupportedProblemError(
            "exact certificates of likelihoods and of the Kullback-Leibler loss need ball "
            'arithmetic, which is not installed: pip install "ldpopt[exact]"'
        ) from None
    return flint


def exact(
    formulation: Formulation, start: FrequencyEstimate, point: Array, region: Region
) -> Exact:
    """Return the rigorous gap of one vector on a box with at most one total, and its distance.

    Cost: about 20 operations with balls for the gap, and for the distance ten for each of some 20
    prices; together 40 to 90 µs per value. Values that agree in all of it are calculated once:
    reports of n users have few different counts.
    """
    flint = library()
    kinds = _kinds(formulation, start, point, region)
    before = flint.ctx.prec
    flint.ctx.prec = _BITS
    try:
        slopes = _slopes(formulation, start, point, region, kinds, flint)
        gap = math.inf
        if slopes is not None:
            gap = _gap(formulation, start, point, region, kinds, slopes, flint)
        near = _enclosure(formulation, start, point, region, kinds, flint)
    finally:
        flint.ctx.prec = before
    violation = rounded_up(*_violation(point, region, kinds).as_integer_ratio())
    reason = near.reason
    if not math.isfinite(gap):
        reason = _INFINITE if slopes is None else _OPEN
    minimiser = None if near.minimiser is None else near.minimiser[kinds.of_value]
    return Exact(gap, near.distance, near.ulps, violation, minimiser, reason)


class _Kinds(NamedTuple):
    """The different values of a problem at a point.

    Attributes
    ----------
    places
        The first value of each kind, shape (kinds,).
    counts
        How many values are of the kind.
    of_value
        The kind of each value, shape (d,).
    """

    places: NDArray[np.intp]
    counts: list[int]
    of_value: NDArray[np.intp]


def _kinds(
    formulation: Formulation, start: FrequencyEstimate, point: Array, region: Region
) -> _Kinds:
    """Return which values agree in what they are given, in their frequencies and their bounds."""
    loss: Any = formulation.loss
    columns = [loss.shares(start) if loss.is_likelihood else start.frequencies]
    columns += [point, region.lower, region.upper]
    support = loss.support(start)
    if support is not None:
        columns.append(support)
    of_value = np.zeros(len(point), np.intp)
    for column in columns:
        _, other = np.unique(column, return_inverse=True)
        _, places, of_value, counts = np.unique(
            of_value * len(point) + other,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
    return _Kinds(places, counts.tolist(), of_value)


def _violation(point: Array, region: Region, kinds: _Kinds) -> Fraction:
    """Return by how much the point leaves the set, 0 inside."""
    # A difference from a double that is nearest to it may be rounded: only the largest few matter,
    # but all are cheap beside the balls.
    excess = Fraction(0)
    total = Fraction(0)
    for v, count in zip(kinds.places, kinds.counts, strict=True):
        value = Fraction(float(point[v]))
        total += count * value
        if point[v] < region.lower[v]:
            excess = max(excess, Fraction(float(region.lower[v])) - value)
        elif point[v] > region.upper[v]:
            excess = max(excess, value - Fraction(float(region.upper[v])))
    if region.total is not None:
        excess = max(excess, abs(total - Fraction(region.total)))
    return excess


def _gap(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    region: Region,
    kinds: _Kinds,
    slopes: list[Slope | None],
    flint: Any,
) -> float:
    """Return the better bound of two multipliers of the total."""
    lower, upper = _reach(formulation, start, region)
    prices = [0.0]
    excess = flint.arb(0)
    if region.total is not None:
        # Any price proves something: that of the certificate in doubles, and the cheapest value's.
        gradients = [float(slope.gradient.mid()) for slope in slopes if slope is not None]
        prices = [float(box.bound(formulation, start, point).mu), -min(gradients)]
        for v, count in zip(kinds.places, kinds.counts, strict=True):
            excess += count * ball_of(point[v], flint)
        excess -= ball_of(region.total, flint)
    gaps = []
    for mu in prices:
        if math.isfinite(mu):
            bound = flint.arb(0)
            for v, count, slope in zip(kinds.places, kinds.counts, slopes, strict=True):
                if slope is not None:
                    bound += count * _rise(slope, mu, point[v], lower[v], upper[v], flint)
            gaps.append(_upper(bound - ball_of(mu, flint) * excess))
    return min(gaps, default=math.inf)


def _reach(
    formulation: Formulation, start: FrequencyEstimate, region: Region
) -> tuple[Array, Array]:
    """Return bounds of each value that bounds, total and the loss's domain imply together."""
    loss = formulation.loss
    lower = region.lower.copy()
    upper = region.upper.copy()
    support = loss.support(start)
    if support is not None:
        upper[~support] = np.minimum(upper[~support], 0.0)
    if region.total is not None and np.isfinite(lower).all():
        # With the other values at their lower bounds, and a bit more than rounding takes.
        size = abs(region.total) + float(np.sum(np.abs(lower)))
        left = region.total - float(lower.sum())
        np.minimum(upper, lower + max(left, 0.0) + 1e-9 * size, out=upper)
    return lower, upper


def _enclosure(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    region: Region,
    kinds: _Kinds,
    flint: Any,
) -> Enclosure:
    """Return how far the point is from the minimiser."""
    loss: Any = formulation.loss
    support = loss.support(start)
    first, last = domain_of(loss, start)
    # Bounds that leave no finite loss to a value leave no minimiser.
    is_empty = bool(np.any(region.upper < first) or np.any(region.lower > last))
    if support is not None:
        is_empty |= bool(np.any(region.lower[~support] > 0))
    if is_empty:
        return UNKNOWN
    of_value: Any = _divergence_response
    if loss.is_likelihood:
        of_value = _two_sided_response if loss.is_two_sided else _one_sided_response
    given = _given(formulation, start)
    responses = [
        partial(of_value, _balls(given[v], flint)) if support is None or support[v] else None
        for v in kinds.places
    ]
    price = 0.0
    if region.total is not None:
        price = float(box.bound(formulation, start, point).mu)
    return enclosure(
        responses,
        point[kinds.places],
        region.lower[kinds.places],
        region.upper[kinds.places],
        kinds.counts,
        region.total,
        price,
        flint,
    )


def _given(formulation: Formulation, start: FrequencyEstimate) -> list[Any]:
    """Return the numbers by which the loss of each value is computed."""
    loss: Any = formulation.loss
    if not loss.is_likelihood:
        return [(reference,) for reference in start.frequencies.tolist()]
    floor, slope = loss.constants(start)
    return [(share, floor, slope, loss.is_two_sided) for share in loss.shares(start).tolist()]


def _balls(numbers: Any, flint: Any) -> list[Any]:
    """Return the numbers by which a loss is computed as balls."""
    return [ball_of(number, flint) for number in numbers]


def _divergence_response(balls: Any, mu: Any) -> Any:
    """Return f with 1 + log(f/f̃) = -μ."""
    (reference,) = balls
    return reference * (-1 - mu).exp()


def _one_sided_response(balls: Any, mu: Any) -> Any:
    """Return f with the probability P = (p-q) c/(n μ).

    Infinite where the loss falls everywhere, and NaN where it is level.
    """
    share, floor, slope, _ = balls
    if not mu > 0:
        return type(share)("inf" if share > 0 or mu < 0 else "nan")
    return (slope * share / mu - floor) / slope


def _two_sided_response(balls: Any, mu: Any) -> Any:
    """Return f with c/(n P) - (1 - c/n)/(1 - P) = m for m = μ/(p-q): m P² - (m + 1) P + c/n = 0."""
    share, floor, slope, _ = balls
    m = mu / slope
    root = ((m + 1) ** 2 - 4 * m * share).sqrt()
    # Of the two forms of the one root between 0 and 1, the one in which nothing cancels.
    probability = 2 * share / (m + 1 + root) if m + 1 > 0 else (m + 1 - root) / (2 * m)
    return (probability - floor) / slope


def _slopes(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    region: Region,
    kinds: _Kinds,
    flint: Any,
) -> list[Slope | None] | None:
    """Return the slopes of each kind; None for values that must be 0, or if one is infinite."""
    loss: Any = formulation.loss
    support = loss.support(start)
    if support is not None and np.any(point[~support] != 0):
        # Outside the support of the loss a value other than 0 costs everything.
        return None
    lower, upper = _reach(formulation, start, region)
    slopes: list[Slope | None] = []
    of_value: Any = _likelihood if loss.is_likelihood else _divergence
    given = _given(formulation, start)
    for v in kinds.places:
        if support is not None and (not support[v] or point[v] == upper[v] == 0):
            slopes.append(None)
            continue
        # The second derivative is bounded between the point and all competitors.
        ends = min(point[v], lower[v]), max(point[v], upper[v])
        slope_of_value = of_value(point[v], ends, given[v], flint)
        if slope_of_value is None or not slope_of_value.gradient.is_finite():
            return None
        slopes.append(slope_of_value)
    return slopes


def _divergence(f: float, ends: tuple[float, float], numbers: Any, flint: Any) -> Slope | None:
    """Return the slope of f log(f/f̃): 1 + log(f/f̃), and 1/f."""
    if f <= 0:
        return None
    (reference,) = numbers
    _, high = ends
    value = ball_of(f, flint)
    gradient = 1 + (value / ball_of(reference, flint)).log()
    if math.isfinite(high):
        return Slope(gradient, 1 / ball_of(high, flint))
    # As far as to twice the value.
    return Slope(gradient, 1 / (2 * value), value)


def _likelihood(f: float, ends: tuple[float, float], numbers: Any, flint: Any) -> Slope | None:
    """Return the slope of -c/n log P - (1 - c/n) log(1 - P), the second term for counts alone.

    c/n is taken as the double that the loss computes; P = q + (p-q) f is exact up to the ball.
    """
    share, floor, slope, two_sided = numbers
    low, high = ends
    share_ball = ball_of(share, flint)
    slope_ball = ball_of(slope, flint)
    floor_ball = ball_of(floor, flint)
    probability = floor_ball + slope_ball * ball_of(f, flint)
    # P is 0 or 1 at the ends of the domain.
    if not probability > 0 or (two_sided and not probability < 1):
        return None
    gradient = -slope_ball * share_ball / probability
    modulus = flint.arb(0)
    stretch = None
    if math.isfinite(high):
        highest = floor_ball + slope_ball * ball_of(high, flint)
        modulus += slope_ball**2 * share_ball / highest**2
    elif not two_sided:
        # As far as to twice the probability.
        modulus += slope_ball**2 * share_ball / (2 * probability) ** 2
        stretch = probability / slope_ball
    if two_sided:
        rest = 1 - share_ball
        gradient += slope_ball * rest / (1 - probability)
        # No competitor has a probability below 0.
        lowest = (
            floor_ball + slope_ball * ball_of(low, flint) if math.isfinite(low) else flint.arb(0)
        )
        modulus += slope_ball**2 * rest / (1 - (lowest if lowest > 0 else flint.arb(0))) ** 2
    return Slope(gradient, modulus, stretch)


def _rise(slope: Slope, mu: float, f: float, lower: float, upper: float, flint: Any) -> Any:
    """Return a ball of an upper bound of the largest rise in one value."""
    residual = slope.gradient + ball_of(mu, flint)
    best = flint.arb(0)
    for steepness, limit, is_outside in (
        (residual, lower, f < lower),
        (-residual, upper, f > upper),
    ):
        steep = steepness.upper()
        # Beyond a bound every competitor lies on the other side.
        if steep <= 0 or is_outside:
            continue
        bounds = []
        if math.isfinite(limit):
            bounds.append(steep * abs(ball_of(f, flint) - ball_of(limit, flint)))
        # Upwards: where a loss rises again before the derivative's range ends, it rises ever after.
        is_beyond = slope.stretch is not None and limit == upper
        if slope.modulus > 0 and not (is_beyond and steep > slope.modulus * slope.stretch):
            bounds.append(steep**2 / (2 * slope.modulus))
        if not bounds:
            return flint.arb("inf")
        rise = min((bound.upper() for bound in bounds), key=float)
        best = rise if rise > best else best
    return best


def _upper(ball: Any) -> float:
    """Return a double above a ball, at least 0."""
    if not ball.is_finite():
        return math.inf
    return max(math.nextafter(float(ball.upper()), math.inf), 0.0)
