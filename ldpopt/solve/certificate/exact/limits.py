"""Limits of each value in fractions: of all vectors of a set whose loss is at most some number.

A value without a square and without limits leaves nothing proved, unless multipliers explain its
slope to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from ldpopt.solve.certificate.exact.half_spaces import HalfSpace, Rows, half_spaces
from ldpopt.solve.certificate.exact.rationals import rounded_up
from ldpopt.solve.certificate.exact.terms import Statement

Limits = list[tuple[Fraction | None, Fraction | None]]
"""A lower and an upper limit of each value or variable; None is no limit."""

# Passes over all rows, in both directions: a chain takes one, a tree a few.
_PASSES = 8


def limits_of(loss: Statement, value: Fraction, bounds: Rows, joined: Rows) -> Limits | None:
    """Return limits of each value where a loss is at most a value; None where no vector is left.

    ``joined`` are the rows of the set and then of the loss.
    """
    result: Limits = []
    for near, low, high in zip(loss.reaches, bounds.lower, bounds.upper, strict=True):
        for weight, place in near:
            # Rounded outward: quotients by different weights would have no short sum.
            lowest = -_above(value / weight - place)
            highest = _above(value / weight + place)
            low = lowest if low is None else max(low, lowest)
            high = highest if high is None else min(high, highest)
        result.append((low, high))
    pairs = zip(loss.terms, result, strict=True)
    if any(term.square == 0 and None in limits for term, limits in pairs):
        result = _by_rows(loss, value, result, joined)
    is_left = all(low is None or high is None or low <= high for low, high in result)
    return result if is_left else None


def _by_rows(loss: Statement, value: Fraction, limits: Limits, joined: Rows) -> Limits:
    """Return limits with those that follow from rows where there was none."""
    d = joined.d
    of_set: Limits = [(None, None)] * (joined.columns - d - len(loss.costs))
    # No part of the loss is below 0, so that each is at most the value.
    of_loss: Limits = [(Fraction(0), _above(value / cost)) for cost in loss.costs]
    lower = [low for low, _ in [*limits, *of_set, *of_loss]]
    upper = [high for _, high in [*limits, *of_set, *of_loss]]
    sides = [side for one in half_spaces(joined) for side in one.inequalities()]
    for _ in range(_PASSES):
        if not _pass(sides, lower, upper) | _pass(reversed(sides), lower, upper):
            break
    return list(zip(lower[:d], upper[:d], strict=True))


def _pass(
    sides: Iterable[HalfSpace], lower: list[Fraction | None], upper: list[Fraction | None]
) -> bool:
    """Fill in limits that follow from row·x >= bound and the other limits; return if any did."""
    is_changed = False
    for row, bound, *_ in sides:
        # The largest that each entry can add; None is without limit.
        largest = {}
        for v, entry in row.items():
            end = upper[v] if entry > 0 else lower[v]
            largest[v] = None if end is None else entry * end
        endless = [v for v, term in largest.items() if term is None]
        if len(endless) > 1:
            continue
        total = sum((term for term in largest.values() if term is not None), Fraction(0))
        for v in endless or row:
            entry = row[v]
            ends = lower if entry > 0 else upper
            if ends[v] is None:
                # entry x_v >= bound minus the largest sum of all others.
                left = bound - (total - (largest[v] or 0))
                ends[v] = -_above(-left / entry) if entry > 0 else _above(left / entry)
                is_changed = True
    return is_changed


def _above(number: Fraction) -> Fraction:
    """Return the double above a fraction, or the fraction beyond all doubles."""
    above = rounded_up(*number.as_integer_ratio())
    return Fraction(above) if np.isfinite(above) else number
