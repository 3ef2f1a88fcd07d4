"""Derivatives in exact arithmetic: numbers that carry their slope."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

Exact = Fraction | int


@dataclass(frozen=True)
class Dual:
    """A value and its derivative, under the four operations: no limit and no rounding.

    Examples
    --------
    >>> x = Dual(Fraction(3), Fraction(1))
    >>> (x * x / (x + 1)).slope  # (x² + 2x)/(x + 1)² at 3
    Fraction(15, 16)
    """

    value: Fraction
    slope: Fraction

    @classmethod
    def of(cls, number: Dual | Exact) -> Dual:
        """Return a number as one with a slope; a constant has the slope 0."""
        # Formulas mix both kinds, as on paper.
        return number if isinstance(number, Dual) else cls(Fraction(number), Fraction(0))

    def __add__(self, other: Dual | Exact) -> Dual:
        other = Dual.of(other)
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Dual | Exact) -> Dual:
        other = Dual.of(other)
        return Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: Dual | Exact) -> Dual:
        other = Dual.of(other)
        # The product rule, and below the quotient rule in terms of the quotient itself.
        slope = self.slope * other.value + self.value * other.slope
        return Dual(self.value * other.value, slope)

    def __truediv__(self, other: Dual | Exact) -> Dual:
        other = Dual.of(other)
        quotient = self.value / other.value
        return Dual(quotient, (self.slope - quotient * other.slope) / other.value)

    __radd__ = __add__
    __rmul__ = __mul__
