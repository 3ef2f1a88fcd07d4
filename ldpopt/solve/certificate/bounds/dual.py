"""The bound that every certificate rests on: weak duality with a residual, and its rounding.

Let L be convex with the (sub)gradient g at f, let C be the set lower <= s <= upper, A s <= b, and
let ν >= 0 be any multipliers. For every s in C

    L(f) - L(s) <= g·(f - s) - ½ Σ m_v (f_v - s_v)²
                 = r·(f - s) - ½ Σ m_v (f_v - s_v)² + ν·(A s - A f)    with r = g + Aᵀν
                <= Σ_v max_{s_v} [r_v (f_v - s_v) - ½ m_v (f_v - s_v)²] + ν·(b - A f),

where m_v >= 0 is a lower bound of the second derivative in value v. The last line is an upper bound
of L(f) - min L whatever ν is and wherever f lies: nothing about a solver is assumed. Its terms are
not negative at a feasible f, so that nothing cancels, and rounding only has to be added: that of
the residual value by value, that of sums as a factor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.parts import absolute_sum

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)

# Relative roundings of one term below: a handful of operations, each of EPS/2 at most.
_OPERATIONS = 16

# How far, in units of f, the errors of residuals may move a maximum where they are squared.
_SHARP = 1e-9

# Larger multipliers than any loss has: products with frequencies overflow soon beyond it.
_LARGEST = 1e300


def usable(multipliers: Array, largest: float = _LARGEST) -> Array:
    """Return multipliers with 0 in place of NaN, infinite and absurdly large ones.

    Any multipliers prove something, but no arithmetic is left with these.
    """
    # Extremes take no array, and mostly they are small enough; NaN is not.
    if multipliers.size and -largest < multipliers.min() and multipliers.max() < largest:
        return multipliers
    return np.where(np.abs(multipliers) < largest, multipliers, 0.0)


def separable_rise(
    residual: Array, error: Array, f: Array, lower: Array, upper: Array, modulus: Array | float
) -> Array:
    """Return an upper bound of Σ_v max_{lower <= s <= upper} r_v (f_v - s_v) - ½ m_v (f_v - s_v)².

    Parameters
    ----------
    residual, error
        r up to an error: each r_v is any number within error_v of residual_v; shape (..., d).
    f
        The point, shape (..., d), inside the bounds or not.
    lower, upper
        Bounds of s; infinite stands for no bound.
    modulus
        m, finite numbers >= 0.

    Returns
    -------
    Numbers >= 0 of shape (...): above the exact maximum in spite of rounding, and infinite where
    the residual points to a side that has no bound and no curvature.
    """
    modulus = np.atleast_1d(modulus)
    if np.all(modulus > 0):
        rise = _curved_rise(residual, error, f, lower, upper, modulus)
        if rise is not None:
            return rise
    with np.errstate(invalid="ignore", over="ignore"):
        # A point outside the bounds gets the larger range up to them, which contains the true one.
        down = _rise_along(residual + error, np.maximum(f - lower, 0.0), modulus)
        up = _rise_along(error - residual, np.maximum(upper - f, 0.0), modulus)
        terms = np.maximum(down, up, out=down)
    # NaN, as of an infinite residual times nothing known, proves nothing.
    terms[np.isnan(terms)] = np.inf
    with np.errstate(over="ignore"):  # beyond the doubles nothing is proved
        return with_rounding(np.sum(terms, axis=-1), terms.shape[-1])


def _curved_rise(
    residual: Array, error: Array, f: Array, lower: Array, upper: Array, modulus: Array
) -> Array | None:
    """Return the rise for m > 0, in fewer operations; None where it is large or not finite.

    v(r) = max_x r x - ½ m x², over a range of x = f - s, has the derivative x, which changes by at
    most 1/m per unit of r. So v at any number within e of r is at most v(r) + e |x| + ½ e²/m, and
    with the best x, v(r) is m x (r/m - ½ x).
    """
    with np.errstate(all="ignore"):
        lowest, largest = _steps(f, lower, upper)
        # A product is a pass, a quotient two.
        inverse = 1 / modulus
        ratio = residual * inverse
        step = np.maximum(ratio, lowest, out=lowest)
        np.minimum(step, largest, out=step)
        # At most half of the ratio is taken away: no cancellation.
        half = np.multiply(step, 0.5, out=largest)
        ratio -= half
        ratio *= step
        rise = _weighted_sum(ratio, modulus)
        np.abs(step, out=step)
        step *= error
        rise = rise + np.sum(step, axis=-1)
        squares = _weighted_sum(np.multiply(error, error, out=step), inverse)
        # An error that moves the maximum a long way may cost less than its square.
        is_sharp = np.all(squares <= _SHARP * np.sum(error, axis=-1))
        rise = rise + squares / 2
    if not (is_sharp and np.isfinite(rise).all()):
        return None
    return with_rounding(rise, f.shape[-1])


def _steps(f: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the range of f - s, which contains 0: of points outside the bounds too."""
    lowest = f - upper
    largest = f - lower
    # To look is cheaper than to cut.
    if lowest.max(initial=0.0) > 0:
        np.minimum(lowest, 0.0, out=lowest)
    if largest.min(initial=0.0) < 0:
        np.maximum(largest, 0.0, out=largest)
    return lowest, largest


def _weighted_sum(terms: Array, weights: Array) -> Array:
    """Return Σ w t, shape (...); overwrites the terms unless there is one weight for all."""
    if weights.shape[-1] == 1:
        return np.asarray(weights[..., 0] * np.sum(terms, axis=-1))
    terms *= weights
    return np.asarray(np.sum(terms, axis=-1))


def _rise_along(slope: Array, length: Array, modulus: Array | float) -> Array:
    """Return max_{0 <= t <= length} slope t - ½ m t², at least 0; infinite if unbounded."""
    slope = np.maximum(slope, 0.0)
    if np.any(modulus):
        # Where a value has no curvature the quotient is infinite, or NaN for a slope of 0.
        with np.errstate(divide="ignore"):
            length = np.fmin(length, slope / modulus)
        taken = np.asarray(modulus * length / 2)
        if not np.all(modulus):
            taken = np.where(modulus == 0, 0.0, taken)
        # What curvature takes is at most half the slope: no cancellation.
        slope = slope - taken
    rise = np.asarray(slope * length)
    # An infinite length without slope, or an infinite slope without length, rises by nothing.
    unclear = np.isnan(rise)
    if unclear.any():
        rise[unclear & ((slope == 0) | (length == 0))] = 0.0
    return rise


def with_rounding(total: Array, terms: int) -> Array:
    """Return a sum of so many terms >= 0, raised by what rounding may have taken from it."""
    return np.asarray(total * (1 + (terms + _OPERATIONS) * EPS))


def sum_with_error(terms: Array) -> tuple[Array, Array]:
    """Return Σ terms over the last axis, and a bound of its rounding error; each shape (...).

    The sum is taken in blocks of about √d terms, whose rounding grows with 2√d instead of d.
    """
    d = terms.shape[-1]
    width = max(int(np.sqrt(d)), 1)
    whole = d - d % width
    blocks = terms[..., :whole].reshape(*terms.shape[:-1], -1, width)
    partial = np.sum(blocks, axis=-1)
    total = np.sum(partial, axis=-1) + np.sum(terms[..., whole:], axis=-1)
    size = absolute_sum(terms)
    additions = width + partial.shape[-1] + 4
    # The size itself is rounded by less than one part in a thousand.
    return total, additions * EPS * size
