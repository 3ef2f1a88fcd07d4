"""The sweeps that ``slope_gap`` takes over a long vector, compiled. Imports numba.

The normal n of a ball or a row is computed from the point and the reference where it is used, in
each sweep anew: that takes less time than to write it and to read it back. A value counts by its
height h above its lower bound, or by nothing where n is open.

The first two sweeps find a multiplier, and a part of the values is enough for them: at a minimum it
follows from any two values that no bound holds. The third one bounds the gap, whatever it is, and
takes the values in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, inlined
from ldpopt.closed_form.rows import locked_vector
from ldpopt.solve.certificate.bounds.kernels import BLOCK, operands

Array = NDArray[np.float64]

# The kinds of normal at a value x beside a number r: its reference, a coefficient or a normal.
ONE_NORM = 1  # the sign of x - r times a weight, open where they are nearly equal
TWO_NORM = 2  # (x - r)/length
GIVEN = 3  # r times a sign; open where it is NaN
LOGARITHM = 4  # r, that of x and the reference; open where it is NaN

_UNBOUNDED = np.full(1, np.inf)

# level, middle and μ of the third sweep.
Levels = tuple[float, float, float]

# The rule of some values, their slopes, their frequencies and their heights.
Part = tuple["Rule", Array, Array, Array]


class Rule(NamedTuple):
    """How normals are computed.

    Attributes
    ----------
    kind
        One of the kinds above.
    reference
        r, shape (d,).
    weights, step
        The largest |n| where it is open, and how far the next value's is: 1, or 0 for one number,
        which fills a block.
    near, factor
        Up to which distance values count as equal in a 1-norm; by what distances are multiplied.
    """

    kind: int
    reference: Array
    weights: Array
    step: int
    near: float
    factor: float

    def at(self, pick: Callable[[Array], Array]) -> Rule:
        """Return the rule of some of the values, which a function picks from an array of all."""
        weights = pick(self.weights) if self.step else self.weights
        return self._replace(reference=pick(self.reference), weights=weights)


# A choice between two numbers is written so that it compiles to one instruction for several values,
# and a kind is chosen once for all values: the compiler copies ``_normal`` to where it is called.
# The third sweep, which takes the most time, is compiled for each kind alone.


@compiled
def _normal(kind: int, x: float, r: float, weight: float, near: float, factor: float) -> float:
    """Return n at a value; NaN where it is open."""
    if kind in (GIVEN, LOGARITHM):
        return factor * r
    away = x - r
    if kind == TWO_NORM:
        return away * factor
    normal = weight if away > 0.0 else -weight
    return np.nan if abs(away) <= near else normal


def rule(
    kind: int, reference: Array, factor: float, weights: Array = _UNBOUNDED, near: float = 0.0
) -> Rule:
    """Return the rule of a normal; weights have shape (d,), or (1,) for one number."""
    (step,), (vector,) = operands(weights)
    return Rule(kind, locked_vector(reference), vector, int(step), near, factor)


class Means(NamedTuple):
    """Σ h, Σ h g and Σ h n."""

    mass: float
    slopes: float
    normals: float


def means(rule: Rule, slope: Array, f: Array, height: Array) -> Means:
    """Return the sums of the first sweep; arrays have shape (d,)."""
    lanes = np.zeros((3, BLOCK))
    _add_means(rule, slope, f, height, lanes)
    return Means(*lanes.sum(axis=1).tolist())


def products(
    rule: Rule,
    slope: Array,
    f: Array,
    height: Array,
    level: float,
    middle: float,
) -> tuple[float, float]:
    """Return Σ h (n - middle)(g - level) and Σ h (n - middle)²."""
    lanes = np.zeros((2, BLOCK))
    _add_products(rule, slope, f, height, level, middle, lanes)
    along, squares = lanes.sum(axis=1).tolist()
    return along, squares


class Turned(NamedTuple):
    """What t = g - level + μ (n - middle) sums to, with n chosen where it is open.

    Attributes
    ----------
    lowest, rise
        The smallest t, and Σ h t.
    along, size
        Σ n (f - r), Σ n f of a normal that is given, or Σ (n - 1) f of logarithms, and Σ |n h|.
    terms, mass
        Σ |g f|, no number where a slope is none, and Σ h.
    apart
        Σ w |f - r| in a 1-norm, where n may be open; else 0.
    """

    lowest: float
    rise: float
    along: float
    size: float
    terms: float
    mass: float
    apart: float


def turned(parts: Iterable[Part], levels: Levels) -> Turned:
    """Return the sums of the third sweep, for level, middle and μ; an open n is within its weight.

    It is the number that makes t zero where μ > 0, and opposes the slope where μ is 0. The values
    come in parts, each with its rule, slopes, f and heights, and the next may overwrite the last.
    """
    lanes = np.zeros((7, BLOCK))
    lanes[0] = np.inf
    for rule, slope, f, height in parts:
        _TURNED[rule.kind](rule, locked_vector(slope), f, height, levels, lanes)
    return Turned(float(lanes[0].min()), *lanes[1:].sum(axis=1).tolist())


@compiled
def _add_means(rule: Rule, slope: Array, f: Array, height: Array, lanes: Array) -> None:
    kind, reference, weights, step, near, factor = rule
    mass = lanes[0]
    slopes = lanes[1]
    normals = lanes[2]
    for start in range(0, len(f), BLOCK):
        count = min(BLOCK, len(f) - start)
        x = f[start : start + count]
        g = slope[start : start + count]
        r = reference[start : start + count]
        w = weights[start * step : start * step + count]
        h = height[start : start + count]
        for k in range(count):
            n = _normal(kind, x[k], r[k], w[k], near, factor)
            weight = h[k] if h[k] > 0.0 else 0.0
            weight = weight if n == n else 0.0
            mass[k] += weight
            slopes[k] += weight * g[k]
            normals[k] += weight * n if n == n else 0.0


@compiled
def _add_products(
    rule: Rule,
    slope: Array,
    f: Array,
    height: Array,
    level: float,
    middle: float,
    lanes: Array,
) -> None:
    kind, reference, weights, step, near, factor = rule
    along = lanes[0]
    squares = lanes[1]
    for start in range(0, len(f), BLOCK):
        count = min(BLOCK, len(f) - start)
        x = f[start : start + count]
        g = slope[start : start + count]
        r = reference[start : start + count]
        w = weights[start * step : start * step + count]
        h = height[start : start + count]
        for k in range(count):
            n = _normal(kind, x[k], r[k], w[k], near, factor)
            weight = h[k] if h[k] > 0.0 else 0.0
            off = n - middle if n == n else 0.0
            along[k] += weight * off * (g[k] - level)
            squares[k] += weight * off * off


@inlined
def _add_turned(
    kind: int,
    rule: Rule,
    slope: Array,
    f: Array,
    height: Array,
    levels: Levels,
    lanes: Array,
) -> None:
    """Add the sums of the third sweep of a kind that is constant where this is copied to."""
    _, reference, weights, step, near, factor = rule
    lowest = lanes[0]
    rise = lanes[1]
    along = lanes[2]
    size = lanes[3]
    terms = lanes[4]
    mass = lanes[5]
    apart = lanes[6]
    level, middle, mu = levels
    per_slope = 1.0 / mu if mu > 0.0 else 1.0
    for start in range(0, len(f), BLOCK):
        count = min(BLOCK, len(f) - start)
        x = f[start : start + count]
        g = slope[start : start + count]
        r = reference[start : start + count]
        w = weights[start * step : start * step + count]
        h = height[start : start + count]
        for k in range(count):
            value = x[k]
            other = r[k]
            above = h[k]
            so_far = lowest[k]
            left = g[k] - level
            term = abs(g[k] * value)
            wanted = middle - left * per_slope
            weight = 1.0
            # Where no number is too large, a comparison would take as long as a sum.
            if kind == ONE_NORM:
                weight = w[k]
                wanted = wanted if wanted < weight else weight
                wanted = wanted if wanted > -weight else -weight
            n = _normal(kind, value, other, weight, near, factor)
            n = n if n == n else wanted
            t = left + mu * (n - middle)
            lowest[k] = t if t < so_far else so_far
            rise[k] += t * above
            if kind == LOGARITHM:
                along[k] += (n - 1.0) * value
            else:
                along[k] += n * (value if kind == GIVEN else value - other)
            size[k] += abs(n * above)
            terms[k] += term
            mass[k] += above
            if kind == ONE_NORM:
                apart[k] += weight * abs(value - other)


def _turned_of(kind: int) -> Callable[..., None]:
    """Return the third sweep for one kind, compiled when it is used first."""

    @compiled
    def sweep(
        rule: Rule, slope: Array, f: Array, height: Array, levels: Levels, lanes: Array
    ) -> None:
        _add_turned(kind, rule, slope, f, height, levels, lanes)

    return sweep


_KINDS = (ONE_NORM, TWO_NORM, GIVEN, LOGARITHM)
_TURNED: Mapping[int, Callable[..., None]] = {kind: _turned_of(kind) for kind in _KINDS}
