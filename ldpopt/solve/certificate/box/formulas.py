"""Which losses the compiled code knows, and the numbers that it needs for each.

A formula is only returned where few numbers, the extremes of point and target among them, show that
nothing cancels and that no end of the loss's domain is near. Everything else is for ``minorant``,
which looks at every value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import (
    BinomialMLE,
    Entropy,
    GaussianMLE,
    HardThreshold,
    Huber,
    KLTo,
    KullbackLeibler,
    LeastSquares,
    Loss,
    MultinomialMLE,
    WeightedLeastSquares,
)
from ldpopt.losses.base import ROUNDINGS
from ldpopt.losses.quadratic import relative_roundings
from ldpopt.solve.certificate.bounds.competitors import at_end, domain_of
from ldpopt.solve.certificate.bounds.dual import EPS
from ldpopt.solve.certificate.box.box_kernels import (
    BINOMIAL,
    HUBER,
    LOGARITHMS,
    LOWERED,
    MULTINOMIAL,
    SQUARES,
    SUPPORTED,
    VARIANCES,
    WEIGHTED_SQUARES,
    Formula,
)

Array = NDArray[np.float64]

# A probability is at least this part of the numbers that it is a difference of, and as far from 1:
# its relative error is then far below 1, and the square of that counts for nothing.
_CLEAR = 1e-3

# The error of P = q + s x relative to |q| + |s x|: two roundings, doubled for what they change in
# second order, and doubled again.
_OF_PROBABILITY = 4 * EPS

# Logarithms are right to one unit in the last place; the quotient and the sum add one.
_OF_LOGARITHM = 8 * EPS

_NO_NUMBERS = (0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Point:
    """One trial.

    Attributes
    ----------
    estimate, f
        The estimate and the point, shape (d,).
    further
        Two numbers between which, or between which and the values of the point, all competitors
        lie; None where it has none.
    seen_ends
        The smallest and the largest value of the point, where somebody has looked.
    """

    estimate: FrequencyEstimate
    f: Array
    further: tuple[float, float] | None = None
    seen_ends: tuple[float, float] | None = None

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value: a pass each, and only where they are needed."""
        return self.seen_ends or (float(self.f.min()), float(self.f.max()))

    @property
    def smallest(self) -> float:
        """The smallest value."""
        return self.ends[0]

    @property
    def largest(self) -> float:
        """The largest value."""
        return self.ends[1]

    @property
    def lower(self) -> float:
        """What no value of the point or of a competitor is below."""
        return self.smallest if self.further is None else min(self.smallest, self.further[0])

    @property
    def upper(self) -> float:
        """What no value of the point or of a competitor is above."""
        return self.largest if self.further is None else max(self.largest, self.further[1])


def may_have_formula(loss: Loss) -> bool:
    """Return whether ``formula_of`` knows the loss, which depends on the point as well."""
    # Of the very type: a class derived from one may state another loss.
    return type(loss) in _FORMULAS


def formula_of(loss: Loss, point: Point) -> Formula | None:
    """Return the formula of a loss at a point; None for other losses and points near an end.

    Parameters
    ----------
    loss
        Any loss.
    point
        The point of one trial; both ends hold for all values.
    """
    if not may_have_formula(loss) or _is_near_end(loss, point):
        return None
    return _FORMULAS[type(loss)](loss, point)


def _is_near_end(loss: Loss, point: Point) -> bool:
    """Return whether a value is near the end of the interval in which the loss is finite."""
    first, last = domain_of(loss, point.estimate)
    # Most losses have no end, and need no extremes.
    is_low = first > -np.inf and point.smallest - first <= at_end(first)
    return is_low or (last < np.inf and last - point.largest <= at_end(last))


def _of_squares(_: Loss, point: Point) -> Formula:
    target = point.estimate.frequencies
    return Formula(SQUARES, target, target, ROUNDINGS, 0.0, _NO_NUMBERS)


def _of_supported(_: HardThreshold, point: Point) -> Formula:
    """Return the formula of the convex part on the support found: squares of values beside 0."""
    target = point.estimate.frequencies
    return Formula(SUPPORTED, target, target, ROUNDINGS, 0.0, _NO_NUMBERS)


def _of_weighted_squares(loss: WeightedLeastSquares, point: Point) -> Formula:
    target = point.estimate.frequencies
    return Formula(WEIGHTED_SQUARES, target, loss.weights, ROUNDINGS, 0.0, _NO_NUMBERS)


def _of_huber(loss: Huber, point: Point) -> Formula:
    target = point.estimate.frequencies
    numbers = (loss.delta, point.lower, point.upper, 0.0, 0.0)
    return Formula(HUBER, target, target, ROUNDINGS, 0.0, numbers)


def _of_variances(_: Loss, point: Point) -> Formula | None:
    """Return the formula of the weighted MLE where one variance law holds for all values."""
    noise = point.estimate.noise
    if np.ndim(noise.a) or np.ndim(noise.b):
        return None
    a = float(noise.a)
    b = float(noise.b)
    target = point.estimate.frequencies
    ends = np.array(point.ends)
    roundings = relative_roundings(ends, np.array(point.estimate.extremes), a, b)
    if roundings is None:
        return None
    # The second derivative 2 (a + b y)²/(a + b s)³ is smallest where the variance is largest.
    growth = max(b * point.lower, b * point.upper) if b else 0.0
    factor = LOWERED * 2 / (a + growth) ** 3
    return Formula(VARIANCES, target, target, roundings, 0.0, (a, b, factor, 0.0, 0.0))


def _of_counts(loss: BinomialMLE | MultinomialMLE, point: Point) -> Formula | None:
    """Return the formula of a likelihood of support counts."""
    floor, slope = loss.constants(point.estimate)
    ends = np.array(point.ends)
    probabilities = floor + slope * ends
    size = abs(floor) + float(np.abs(slope * ends).max())
    is_binomial = loss.is_two_sided
    is_clear = probabilities.min() > _CLEAR * size
    if is_binomial:
        is_clear &= 1 - probabilities.max() > _CLEAR * (1 + size)
    if not is_clear:
        return None
    # Σ s² (c/P² + (1 - c)/(1 - P)²): each term is smallest at one end of P.
    lowest, highest = sorted([floor + slope * point.lower, floor + slope * point.upper])
    of_share = _curvature_at(slope, min(highest, 1.0) if is_binomial else highest)
    of_rest = _curvature_at(slope, 1 - max(lowest, 0.0)) if is_binomial else 0.0
    kind = BINOMIAL if is_binomial else MULTINOMIAL
    target = point.estimate.frequencies
    numbers = (floor, slope, _OF_PROBABILITY, of_share, of_rest)
    return Formula(kind, target, target, ROUNDINGS, 0.0, numbers)


def _curvature_at(slope: float, probability: float) -> float:
    """Return (s/P)², lowered by its rounding; 0 for an infinite P."""
    return LOWERED * (slope / probability) ** 2


def _of_divergence(loss: KullbackLeibler | KLTo | Entropy, point: Point) -> Formula | None:
    """Return the formula of a divergence, which needs a logarithm per value."""
    # Below 0 the loss is infinite, and numbers that are all 0 have no curvature to state.
    if point.smallest < 0 or point.upper <= 0:
        return None
    reference = loss.target(point.estimate)
    numbers = (LOWERED / point.upper, 0.0, 0.0, 0.0, 0.0)
    return Formula(LOGARITHMS, reference, reference, _OF_LOGARITHM, _OF_LOGARITHM, numbers)


_FORMULAS: Mapping[type[Loss], Callable[[Any, Point], Formula | None]] = {
    LeastSquares: _of_squares,
    WeightedLeastSquares: _of_weighted_squares,
    HardThreshold: _of_supported,
    GaussianMLE: _of_variances,
    Huber: _of_huber,
    BinomialMLE: _of_counts,
    MultinomialMLE: _of_counts,
    KullbackLeibler: _of_divergence,
    KLTo: _of_divergence,
    Entropy: _of_divergence,
}
