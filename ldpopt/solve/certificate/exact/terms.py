"""Losses in fractions: a function of each value, and of values together what rows bound from below.

Squares and absolute deviations are sums over the values. The largest deviation and total variation
are the smallest sums of auxiliary variables t that satisfy rows, such as t_i >= ±(f_{i+1} - f_i).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import (
    GaussianMLE,
    L1To,
    LeastAbsolute,
    LeastSquares,
    Loss,
    MaxAbsolute,
    TotalVariation,
    WeightedLeastSquares,
    WeightedSum,
)
from ldpopt.solve.certificate.exact.half_spaces import Rows, Vector

Array = NDArray[np.float64]

_NOTHING = Fraction(0)
_HALF = Fraction(1, 2)


class Kink(NamedTuple):
    """weight |x - place|, with a weight above 0."""

    weight: Fraction
    place: Fraction


@dataclass(frozen=True)
class Term:
    """square x² - 2 linear x + constant + Σ weight |x - place| of one value x, square >= 0."""

    square: Fraction = _NOTHING
    linear: Fraction = _NOTHING
    constant: Fraction = _NOTHING
    kinks: tuple[Kink, ...] = ()

    def plus(self, other: Term) -> Term:
        """Return the sum of both."""
        return Term(
            self.square + other.square,
            self.linear + other.linear,
            self.constant + other.constant,
            self.kinks + other.kinks,
        )

    def value(self, x: Fraction) -> Fraction:
        """Return the term at x."""
        of_kinks = sum((weight * abs(x - place) for weight, place in self.kinks), _NOTHING)
        return (self.square * x - 2 * self.linear) * x + self.constant + of_kinks

    def smallest(
        self, slope: Fraction, lower: Fraction | None, upper: Fraction | None
    ) -> Fraction | None:
        """Return the minimum of the term minus slope times x between bounds; None without one."""
        if self.square == 0 and not self._is_bounded(slope, lower, upper):
            return None
        ends = sorted({clipped(kink.place, lower, upper) for kink in self.kinks})
        candidates = [end for end in (lower, upper, *ends) if end is not None]
        if self.square:
            # Between two kinks the slope of all of them is a number.
            for low, high in itertools.pairwise((lower, *ends, upper)):
                left = slope + 2 * self.linear - self._slope_of_kinks(low, high)
                candidates.append(clipped(left / (2 * self.square), low, high))
        # Without kinks, bounds or a slope the term is the constant.
        candidates = candidates or [_NOTHING]
        return min(self.value(x) - slope * x for x in candidates)

    def _is_bounded(self, slope: Fraction, lower: Fraction | None, upper: Fraction | None) -> bool:
        """Return whether a term without a square has a minimum minus slope times x."""
        rest = slope + 2 * self.linear
        outer = sum((kink.weight for kink in self.kinks), _NOTHING)
        falls_below = lower is None and rest < -outer
        return not (falls_below or (upper is None and rest > outer))

    def _slope_of_kinks(self, low: Fraction | None, high: Fraction | None) -> Fraction:
        """Return the slope of the kinks between two neighbours of them; None is infinite."""
        result = _NOTHING
        for weight, place in self.kinks:
            is_below = low is not None and place <= low
            is_above = high is not None and place >= high
            # Where both ends are one place, any slope between the two of the kink will do.
            result += weight * (int(is_below) - int(is_above))
        return result


def clipped(x: Fraction, lower: Fraction | None, upper: Fraction | None) -> Fraction:
    """Return the number between two bounds that is nearest to x; None is no bound."""
    x = x if lower is None else max(x, lower)
    return x if upper is None else min(x, upper)


@dataclass(frozen=True, eq=False)
class Statement:
    """A loss Σ_v term_v(f_v) + min Σ_j cost_j t_j, with the rows of ``shared`` between f and t.

    Attributes
    ----------
    terms
        One per value.
    shared
        Rows over f and t with lower bounds alone, each t with the entry 1 in its rows.
    costs
        One above 0 per t.
    neutral
        Multipliers of the rows that sum to the cost of each t and have no slope in f.
    reaches
        Of each value, weights and places with weight |f_v - place| at most the loss.
    """

    terms: list[Term]
    shared: Rows
    costs: Vector
    neutral: Vector
    reaches: list[list[Kink]]

    @property
    def is_square(self) -> bool:
        """Whether it is Σ square (f - centre)², with all squares above 0, and a constant."""
        has_kinks = bool(self.costs) or any(term.kinks for term in self.terms)
        return not has_kinks and self.is_strongly_convex

    @property
    def is_strongly_convex(self) -> bool:
        """Whether each value has a square."""
        return all(term.square > 0 for term in self.terms)

    def value(self, f: Vector) -> Fraction:
        """Return the loss at f."""
        result = sum((term.value(x) for term, x in zip(self.terms, f, strict=True)), _NOTHING)
        if not self.costs:
            return result
        assert self.shared.projection is not None
        further = self.shared.projection.extended(f)[len(f) :]
        return result + sum(
            (cost * t for cost, t in zip(self.costs, further, strict=True)), _NOTHING
        )


class _Part(NamedTuple):
    """What one loss adds: terms, and the rows of each of its t as pairs of an f-part and a bound.

    ``neutral`` are the numbers of the rows of one t that get half of its cost each.
    """

    terms: list[Term] | None
    rows: list[list[tuple[dict[int, Fraction], Fraction]]]
    reaches: list[Kink] | None


def stated(loss: Loss, start: FrequencyEstimate) -> Statement | None:
    """Return a loss of one estimate in fractions, None for one of another kind."""
    d = start.d
    terms = [Term()] * d
    reaches: list[list[Kink]] = [[] for _ in range(d)]
    matrix: list[dict[int, Fraction]] = []
    lower: list[Fraction | None] = []
    costs: Vector = []
    neutral: Vector = []
    for factor, leaf in _leaves(loss, Fraction(1)):
        state = _STATED.get(type(leaf))
        part = None if state is None else state(leaf, start)
        if part is None:
            return None
        if part.terms is not None:
            scaled = [_times(factor, term) for term in part.terms]
            terms = [one.plus(other) for one, other in zip(terms, scaled, strict=True)]
            for near, term in zip(reaches, scaled, strict=True):
                near += term.kinks
        for near, kink in zip(reaches, part.reaches or (), strict=False):
            near.append(Kink(factor * kink.weight, kink.place))
        for rows in part.rows:
            j = d + len(costs)
            costs.append(factor)
            matrix += [{**row, j: Fraction(1)} for row, _ in rows]
            lower += [bound for _, bound in rows]
            # The first two rows of each t are opposite to each other.
            neutral += [factor / 2] * 2 + [_NOTHING] * (len(rows) - 2)
    shared = Rows(matrix, lower, [None] * len(matrix), d, d + len(costs))
    return Statement(terms, shared, costs, neutral, reaches)


def _leaves(loss: Loss, factor: Fraction) -> list[tuple[Fraction, Loss]]:
    """Return the losses that a sum consists of behind their factors, whose products are exact."""
    parts_of = _PARTS.get(type(loss))
    if parts_of is None:
        return [(factor, loss)]
    return [
        leaf for weight, term in parts_of(loss) for leaf in _leaves(term, factor * Fraction(weight))
    ]


def _times(factor: Fraction, term: Term) -> Term:
    kinks = tuple(Kink(factor * kink.weight, kink.place) for kink in term.kinks)
    return Term(factor * term.square, factor * term.linear, factor * term.constant, kinks)


def _squares(loss: Any, start: FrequencyEstimate) -> _Part:
    weights = np.ones(start.d) if loss.weights is None else loss.weights
    return _around(_fractions(loss.target(start)), [_HALF * w for w in _fractions(weights)])


def _over_variances(_: Any, start: FrequencyEstimate) -> _Part | None:
    # Of variances that grow with f the loss is no square.
    if np.any(start.noise.b):
        return None
    variances = _fractions(np.broadcast_to(np.asarray(start.noise.a), (start.d,)))
    return _around(_fractions(start.frequencies), [1 / variance for variance in variances])


def _around(target: Vector, weights: Vector) -> _Part:
    """Return Σ w (f - target)²."""
    terms = [Term(w, w * y, w * y * y) for w, y in zip(weights, target, strict=True)]
    return _Part(terms, [], None)


def _absolute(loss: Any, start: FrequencyEstimate) -> _Part:
    weights = np.ones(start.d) if loss.weights is None else loss.weights
    pairs = zip(_fractions(weights), _fractions(loss.target(start)), strict=True)
    return _Part([Term(kinks=(Kink(weight, place),)) for weight, place in pairs], [], None)


def _largest(loss: Any, start: FrequencyEstimate) -> _Part:
    """Return t >= ±(f_v - f̃_v) for all v."""
    rows = []
    target = _fractions(loss.target(start))
    for v, place in enumerate(target):
        for sign in (Fraction(1), Fraction(-1)):
            rows.append(({v: sign}, sign * place))
    return _Part(None, [rows], [Kink(Fraction(1), place) for place in target])


def _variation(loss: Any, start: FrequencyEstimate) -> _Part:
    """Return t_i >= ±(f_{i+1} - f_i) along the chain."""
    chain = np.arange(start.d)[loss.priced_chain].tolist()
    one = Fraction(1)
    rows = []
    for first, second in itertools.pairwise(chain):
        rows.append([({first: sign, second: -sign}, _NOTHING) for sign in (one, -one)])
    return _Part(None, rows, None)


def _fractions(values: Array) -> Vector:
    return [Fraction(value) for value in values.tolist()]


_STATED: Mapping[type[Loss], Callable[[Any, FrequencyEstimate], _Part | None]] = {
    LeastSquares: _squares,
    WeightedLeastSquares: _squares,
    GaussianMLE: _over_variances,
    LeastAbsolute: _absolute,
    L1To: _absolute,
    MaxAbsolute: _largest,
    TotalVariation: _variation,
}
"""What states each loss. A class of a user may change what a loss means."""

_PARTS: Mapping[type[Loss], Callable[[Any], list[tuple[float, Loss]]]] = {
    WeightedSum: lambda loss: loss.parts,
}
"""What returns the weights and terms of a sum. A class of a user may change what a sum means."""

LOSSES = tuple(_STATED)
"""The losses that have a statement; so have their sums."""
