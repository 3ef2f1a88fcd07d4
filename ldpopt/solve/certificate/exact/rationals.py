"""Doubles as integers of one power of two, and quotients of integers as doubles rounded outward."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.object_]
"""An array of Python integers, which have no largest value."""

_MANTISSA = 53


def integers(*arrays: Any) -> tuple[list[Integers], int]:
    """Return finite doubles as integers in units of 2^-e, and e >= 0, one for all arrays.

    Nothing is rounded: a double is an integer times a power of two.
    """
    parts = [np.frexp(np.asarray(values, dtype=np.float64)) for values in arrays]
    lowest = _MANTISSA
    for mantissa, exponent in parts:
        lowest = min(lowest, int(np.min(exponent, where=mantissa != 0, initial=_MANTISSA)))
    e = _MANTISSA - lowest
    results = []
    for mantissa, exponent in parts:
        whole = (mantissa * 2.0**_MANTISSA).astype(np.int64).astype(object)
        # A zero has any exponent.
        shift = np.where(mantissa == 0, 0, exponent.astype(np.int64) - _MANTISSA + e)
        results.append(np.asarray(np.left_shift(whole, shift.astype(object)), dtype=object))
    return results, e


def rounded_up(numerator: int, denominator: int) -> float:
    """Return the smallest double that is not below a quotient with a denominator > 0."""
    try:
        # Python rounds the quotient of two integers to the nearest double.
        nearest = numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -np.finfo(np.float64).max
    top, bottom = nearest.as_integer_ratio()
    if top * denominator < numerator * bottom:
        return math.nextafter(nearest, math.inf)
    return nearest


def nearest_double(numerator: int, denominator: int) -> float:
    """Return the double nearest to a quotient with a denominator > 0; infinite beyond them all."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def in_last_places(numerator: int, denominator: int, size: float) -> float:
    """Return a quotient >= 0 in units in the last place of a size, rounded up."""
    if not math.isfinite(size):
        return math.inf
    unit_top, unit_bottom = math.ulp(size).as_integer_ratio()
    return rounded_up(numerator * unit_bottom, denominator * unit_top)
