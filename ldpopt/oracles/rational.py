"""Probabilities without rounding errors: rational bounds of exponentials, multiples of 2⁻⁶⁴.

A privacy budget is a promise about e^ε, and a formula in double precision breaks it by an ulp
about every other time. So oracles start from a rational number that is not above e^ε, and round
every probability to the side that never costs privacy.
"""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from functools import lru_cache

_WORD = 2**64  # clients compare 64-bit words: all their coins are multiples of 1/_WORD
_DIGITS = decimal.Context(prec=60, Emin=-9999, Emax=9999)  # far more than the 20 digits of a word


@lru_cache(maxsize=256)
def exp_below(x: Fraction | float) -> Fraction:
    """Return a rational number below e^x, by less than 2·10⁻⁵⁹ of it, for 0 < x <= 100.

    ``decimal`` rounds an exponential correctly in its last digit, so that one unit less is below. x
    itself is rounded down where 60 digits do not hold it.

    Examples
    --------
    >>> bound = exp_below(1.0)
    >>> bound < Fraction("2.71828182845904523536028747135266249775724709369995957496697")
    True
    >>> float(bound) == math.e
    True

    Notes
    -----
    The latest bounds are kept: studies build many oracles for few budgets.
    """
    exact = Fraction(x)
    down = _DIGITS.copy()
    down.rounding = decimal.ROUND_FLOOR
    # Rounded down at every step, so that the result is a bound.
    numerator = decimal.Decimal(exact.numerator)
    denominator = decimal.Decimal(exact.denominator)
    argument = down.divide(numerator, denominator)
    exponential = _DIGITS.exp(argument)
    return Fraction(_DIGITS.next_minus(exponential))


def log_above(ratio: Fraction) -> float:
    """Return a tight upper bound of log(ratio), ratio > 1: the first float above it by 10⁻⁵⁰.

    Examples
    --------
    >>> log_above(Fraction(3)) - math.log(3)
    0.0
    """
    up = _DIGITS.copy()
    up.rounding = decimal.ROUND_CEILING
    # Rounded up at every step, so that the result is a bound.
    numerator = decimal.Decimal(ratio.numerator)
    denominator = decimal.Decimal(ratio.denominator)
    quotient = up.divide(numerator, denominator)
    logarithm = _DIGITS.ln(quotient)
    bound = Fraction(_DIGITS.next_plus(logarithm))
    nearest = float(bound)
    return nearest if Fraction(nearest) >= bound else math.nextafter(nearest, math.inf)


def word_below(probability: Fraction) -> Fraction:
    """Return the largest multiple of 2⁻⁶⁴ that is not above a probability.

    Examples
    --------
    >>> word_below(Fraction(1, 3)) * 2**64 == (2**64 - 1) // 3
    True
    """
    return Fraction(math.floor(probability * _WORD), _WORD)
