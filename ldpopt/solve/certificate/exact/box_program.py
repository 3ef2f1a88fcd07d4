"""Losses on a box with at most one total, in integers, and the form of their minimisers.

The losses ½ Σ w_v (f_v - f̃_v)² and Σ (f_v - f̃_v)²/(a_v + b f_v) have minimisers of one form: there
is a number ρ with

    f_v = (f̃_v + s_v ρ)/(1 - b ρ)   between its bounds, and else the bound that is nearest,

where s_v is 1/w_v or a_v. For the second loss r = (f_v - f̃_v)/(a_v + b f_v) = ρ is the same for all
free values, because the gradient r (2 - b r) rises with r; with b ≠ 0 all a_v must be equal. Every
f_v rises with ρ, so that the KKT conditions are Σ f_v = total and, for each value, on which side of
its bounds the quotient lies. Given these sides the total is linear in ρ: no square root occurs, and
doubles being rationals, so is ρ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, LeastSquares, Loss, WeightedLeastSquares
from ldpopt.solve.certificate.exact.rationals import Integers, integers
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

NONE_HAS_TOTAL = "no vector within the bounds has exactly this total"


class Sides(NamedTuple):
    """Which values are at their lower and which at their upper bound."""

    below: Mask
    above: Mask

    @property
    def free(self) -> Mask:
        """Values that are at no bound."""
        return ~(self.below | self.above)

    def equals(self, other: Sides) -> bool:
        """Return whether all values are on the same sides."""
        same = np.array_equal(self.below, other.below)
        return same and np.array_equal(self.above, other.above)


class Parameter(NamedTuple):
    """ρ as a quotient, and Σ (f*_v - f̃_v)²/s_v of the free values, also as one."""

    numerator: int
    denominator: int
    energy: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Program:
    """Loss, set and point in integers; frequencies in units of 2^-e.

    ``weights`` are None where all are equal. ``spread`` is s_v (a number where all are equal),
    times w_v where there are weights; ``growth`` is b. Both are in a unit of their own, which ρ
    takes up. ``scale`` is the power of two by which the loss of integers exceeds the loss.
    """

    target: Integers
    point: Integers
    lower: Integers
    upper: Integers
    has_lower: Mask
    has_upper: Mask
    total: int | None
    weights: Integers | None
    spread: Any
    growth: int
    e: int
    scale: int
    is_gaussian: bool

    def bound_sum(self, sides: Sides) -> int:
        """Return the sum of the values that are at a bound."""
        return int(self.lower[sides.below].sum()) + int(self.upper[sides.above].sum())

    def bounds(self, sides: Sides) -> Integers:
        """Return the bound of each value that is at one; of the others any number."""
        return np.where(sides.below, self.lower, self.upper)

    def scaled(self, parameter: Parameter) -> tuple[Integers, int]:
        """Return f̃_v + s_v ρ and 1 - b ρ over one denominator, without weights."""
        top = parameter.numerator
        bottom = parameter.denominator
        return self.target * bottom + self.spread * top, bottom - self.growth * top

    def sides(self, parameter: Parameter) -> Sides:
        """Return on which side of its bounds each value is at ρ; a bound itself counts."""
        if self.weights is None:
            values, divisor = self.scaled(parameter)
            below = values <= self.lower * divisor
            above = values >= self.upper * divisor
        else:
            # f̃ + ρ/w <= l is ρ <= w (l - f̃), an integer: ρ rounded to integers, which are short,
            # compares like ρ.
            down = parameter.numerator // parameter.denominator
            up = -(-parameter.numerator // parameter.denominator)
            below = (self.lower - self.target) * self.weights >= up
            above = (self.upper - self.target) * self.weights <= down
        below = self.has_lower & below.astype(bool)
        return Sides(below, self.has_upper & above.astype(bool) & ~below)

    def is_inside(self, parameter: Parameter) -> bool:
        """Return whether the variance stays positive at ρ: 1 - b ρ > 0."""
        return parameter.denominator > self.growth * parameter.numerator


def program(
    formulation: Formulation, start: FrequencyEstimate, point: Array, region: Region
) -> Program | str:
    """Return the program of one trial in integers, or the reason why there is none."""
    has_lower = np.isfinite(region.lower)
    has_upper = np.isfinite(region.upper)
    (target, values, lower, upper, total), e = integers(
        start.frequencies,
        point,
        np.where(has_lower, region.lower, 0.0),
        np.where(has_upper, region.upper, 0.0),
        0.0 if region.total is None else region.total,
    )
    parts: dict[str, Any] = {
        "target": target,
        "point": values,
        "lower": lower,
        "upper": upper,
        "has_lower": has_lower,
        "has_upper": has_upper,
        "total": None if region.total is None else int(total[()]),
        "e": e,
    }
    return _PROGRAMS[type(formulation.loss)](parts, formulation.loss, start)


def _squares_program(
    parts: dict[str, Any], loss: LeastSquares | WeightedLeastSquares, _: FrequencyEstimate
) -> Program:
    """Return the program of squares with weights or without."""
    weights = None
    digits = 0
    if loss.weights is not None:
        (weights,), digits = integers(loss.weights)
    return Program(
        **parts,
        weights=weights,
        spread=1,
        growth=0,
        # One more for the factor ½.
        scale=2 * parts["e"] + digits + 1,
        is_gaussian=False,
    )


def _gaussian_program(
    parts: dict[str, Any], _: GaussianMLE, start: FrequencyEstimate
) -> Program | str:
    """Return the program of squares over variances a + b f, or the reason why there is none."""
    (a, b), digits = integers(start.noise.a, start.noise.b)
    growths = {int(number) for number in np.ravel(b)}
    spreads = {int(number) for number in np.ravel(a)}
    if growths != {0} and (len(growths) > 1 or len(spreads) > 1):
        return "the variances of the values differ and grow: their minimiser is irrational"
    e = parts["e"]
    spread = np.asarray(a) << e if len(spreads) > 1 else spreads.pop() << e
    # (f - f̃)²/(a + b f): squares of 2^-e over variances in units of 2^-(e + digits).
    return Program(
        **parts,
        weights=None,
        spread=spread,
        growth=growths.pop(),
        scale=e - digits,
        is_gaussian=True,
    )


_PROGRAMS: Mapping[type[Loss], Callable[..., Program | str]] = {
    LeastSquares: _squares_program,
    WeightedLeastSquares: _squares_program,
    GaussianMLE: _gaussian_program,
}
"""What states the program of each loss. A class of a user may change what a loss means."""
