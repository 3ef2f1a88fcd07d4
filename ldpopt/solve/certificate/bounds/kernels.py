"""Bounds of long vectors, compiled: every vector is read once. Importing this module imports numba.

Numpy reads a vector once per operation, and a certificate has about thirty of them. Here they are
done value by value, in blocks that a processor's vector instructions take. The compiled code is
kept on disk where numba finds a place to write: this file is all that it depends on.

Nothing is compiled with fast arithmetic: sums are taken in the order that is written here, since
the bounds of their rounding depend on it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled
from ldpopt.closed_form.rows import locked_vector
from ldpopt.solve.certificate.bounds.dual import EPS, with_rounding

Array = NDArray[np.float64]

# Values that are taken together, each with sums of its own: many enough that what is done per block
# costs nothing beside them, and few enough that all of it stays in the processor's first cache.
BLOCK = 256

# Curvatures below and above these are taken for 0 and for the number itself: both lower the bound
# of the loss, and neither overflows when it is inverted.
FLAT = 1e-290
STEEP = 1e290


class Sums(NamedTuple):
    """Sums over the values of one vector that a certificate on a box needs.

    Attributes
    ----------
    terms
        Σ |g_v f_v|, to rounding.
    size, error
        Σ f_v, and a bound of its rounding error.
    mass, moment
        Σ w_v and Σ w_v g_v with w the distance to the nearest bound: not finite where values have
        no bounds.
    free, free_moment
        How many values have no bounds, and Σ g_v over these.
    """

    terms: float
    size: float
    error: float
    mass: float
    moment: float
    free: float
    free_moment: float


def sums(slope: Array, f: Array, lower: Array, upper: Array) -> Sums:
    """Return the sums of one vector.

    Parameters
    ----------
    slope, f
        g and the point, shape (d,).
    lower, upper
        Bounds, shape (d,), or (1,) for the same bound of all.

    Notes
    -----
    Σ f is compensated: every addition is split into its rounded sum and its error, both exact
    (Knuth), and the errors are summed beside. By Ogita, Rump and Oishi (2005, Prop. 4.5) what is
    left is at most eps times the result plus (n eps)² Σ |f| with n additions one after another,
    here one per block. Σ |f| is at most d max |f|. The sums of the blocks are added exactly.
    """
    d = len(f)
    steps, vectors = operands(slope, f, lower, upper)
    lanes = np.zeros((6, BLOCK))
    _sums(d, steps, *vectors, *lanes)
    *plain, sizes, corrections, extremes = lanes
    with np.errstate(invalid="ignore"):
        terms, mass, moment = (float(np.sum(lane)) for lane in plain)
        # Beyond the doubles fsum raises an error; NaN proves nothing.
        is_finite = np.isfinite(sizes).all() and np.isfinite(corrections).all()
        size = math.fsum([*sizes, *corrections]) if is_finite else math.nan
        additions = d // BLOCK + 2
        error = EPS * abs(size) + (additions * EPS) ** 2 * d * float(extremes.max())
    # A distance to bounds that are not there: only then a look for them.
    free = _free(slope, lower, upper) if math.isinf(mass) else (0.0, 0.0)
    return Sums(terms, size, error, mass, moment, *free)


def _free(slope: Array, lower: Array, upper: Array) -> tuple[float, float]:
    """Return how many values have no bounds, and the sum of their slopes."""
    is_free = np.isinf(lower) & np.isinf(upper)
    if is_free.all():
        return float(len(slope)), float(np.sum(slope))
    return float(np.count_nonzero(is_free)), float(np.sum(slope[is_free]))


def rise(
    roundings: float,
    slope: Array,
    error: Array,
    modulus: Array,
    f: Array,
    price: Array,
    price_error: Array,
    lower: Array,
    upper: Array,
) -> float:
    """Return an upper bound of Σ_v max_{lower <= s <= upper} r_v (f_v - s_v) - ½ m_v (f_v - s_v)².

    Parameters
    ----------
    slope, price
        r_v is any number within e_v of slope_v - price_v.
    roundings, error, price_error
        e is roundings |slope| + error + price_error.
    modulus
        m >= 0.
    f
        The point, shape (d,), inside the bounds or not. All other arrays have the shape (d,), or
        (1,) where they are the same for all values.
    lower, upper
        Bounds of s, infinite if a side has none.

    Returns
    -------
    A number >= 0, infinite where a residual points to a side without bound and curvature, or where
    a number is NaN.

    Notes
    -----
    To each side the maximum is (a - ½ m t) t with the steepest slope a = e ± r, the length to the
    bound, and t = min(length, a/m). Every operation rounds by at most eps/2. The sums e and a have
    terms >= 0 but for r, which is one rounded difference; half of a at most is taken away, so that
    its relative error doubles; a t beside a/m lowers a parabola at its top by the square of that.
    So a term is right to 14 roundings, and ``dual.with_rounding`` charges 32 beside those of the
    sum: one addition per block, and those of the sums of blocks.
    """
    d = len(f)
    steps, vectors = operands(slope, error, modulus, f, price, price_error, lower, upper)
    lanes = np.zeros(BLOCK)
    _rise(d, roundings, steps, lanes, *vectors)
    with np.errstate(over="ignore"):
        total = float(with_rounding(np.asarray(np.sum(lanes)), d // BLOCK + BLOCK + 2))
    return math.inf if math.isnan(total) else total


def kinked_rise(
    f: Array,
    place: Array,
    below: Array,
    above: Array,
    price: Array,
    price_error: Array,
    lower: Array,
    upper: Array,
) -> float:
    """Return an upper bound of Σ_v max_{lower <= s <= upper} ℓ_v(f_v) - ℓ_v(s_v) - p_v (f_v - s_v).

    Parameters
    ----------
    f
        The point, shape (d,), inside the bounds or not. All other arrays have the shape (d,), or
        (1,) where they are the same for all values.
    place, below, above
        ℓ has one kink, and the slopes below and above on its sides.
    price, price_error
        p_v is any number within price_error_v of price_v.
    lower, upper
        Bounds of s, infinite if a side has none.

    Returns
    -------
    A number >= 0, infinite where a fall without bound is steeper than its price.

    Notes
    -----
    The maximum is at the kink or at an end. Its three terms cancel at the minimum, and each is
    charged with 4 eps of its size.
    """
    d = len(f)
    steps, vectors = operands(f, place, below, above, price, price_error, lower, upper)
    lanes = np.zeros(BLOCK)
    _kinked_rise(d, steps, lanes, *vectors)
    with np.errstate(over="ignore"):
        total = float(with_rounding(np.asarray(np.sum(lanes)), d // BLOCK + BLOCK + 2))
    return math.inf if math.isnan(total) else total


def operands(*arrays: Array) -> tuple[NDArray[np.int64], list[Array]]:
    """Return for each array how far the next value is, 0 or 1, and the array in one piece.

    What is the same for all values becomes one block of it, so that the compiled code has no case.
    Nor are there kinds of arrays for which it would be compiled again.
    """
    is_long = [len(array) > 1 for array in arrays]
    vectors = [
        locked_vector(array if long else np.full(BLOCK, array[0]))
        for array, long in zip(arrays, is_long, strict=True)
    ]
    return np.array(is_long, dtype=np.int64), vectors


# Below, a choice between two numbers is written so that it compiles to one instruction for several
# values: numba's min and max, which look for NaN, do not. Blocks are slices, whose indices numba
# knows to be positive.


@compiled
def _sums(
    d: int,
    steps: NDArray[np.int64],
    slope: Array,
    f: Array,
    lower: Array,
    upper: Array,
    terms: Array,
    mass: Array,
    moment: Array,
    size: Array,
    correction: Array,
    extreme: Array,
) -> None:
    """Add the sums of each place in a block to five arrays, and find each place's largest |f_v|."""
    for start in range(0, d, BLOCK):
        count = min(BLOCK, d - start)
        first = start * steps
        gradients = slope[first[0] : first[0] + count]
        values = f[first[1] : first[1] + count]
        lows = lower[first[2] : first[2] + count]
        highs = upper[first[3] : first[3] + count]
        for k in range(count):
            g = gradients[k]
            x = values[k]
            down = x - lows[k]
            up = highs[k] - x
            weight = down if down < up else up
            weight = weight if weight > 0.0 else 0.0
            # Infinity times 0 counts as 0.
            product = g * weight
            product = 0.0 if weight == 0.0 else product
            term = abs(g * x)
            term = 0.0 if x == 0.0 else term
            terms[k] += term
            mass[k] += weight
            moment[k] += product
        for k in range(count):
            x = values[k]
            so_far = extreme[k]
            before = size[k]
            after = before + x
            added = after - before
            length = abs(x)
            correction[k] += (before - (after - added)) + (x - added)
            size[k] = after
            extreme[k] = length if length > so_far else so_far


@compiled
def _invert(modulus: Array, moduli: Array, inverses: Array) -> None:
    """Write curvatures that can be inverted to the second array, their inverses to the third."""
    for k in range(len(modulus)):
        m = modulus[k]
        m = 0.0 if m < FLAT else m
        m = STEEP if m > STEEP else m
        moduli[k] = m
        inverses[k] = 1.0 / m


@compiled
def _rise(
    d: int,
    roundings: float,
    steps: NDArray[np.int64],
    total: Array,
    slope: Array,
    error: Array,
    modulus: Array,
    f: Array,
    price: Array,
    price_error: Array,
    lower: Array,
    upper: Array,
) -> None:
    """Add the rises of each place in a block to an array."""
    # A division takes as long as all the rest, and mostly one number stands for all values.
    moduli = np.empty(BLOCK)
    inverses = np.empty(BLOCK)
    _invert(modulus[:BLOCK], moduli, inverses)
    for start in range(0, d, BLOCK):
        count = min(BLOCK, d - start)
        first = start * steps
        slopes = slope[first[0] : first[0] + count]
        errors = error[first[1] : first[1] + count]
        if steps[2] and start:
            _invert(modulus[start : start + count], moduli, inverses)
        values = f[first[3] : first[3] + count]
        prices = price[first[4] : first[4] + count]
        price_errors = price_error[first[5] : first[5] + count]
        lows = lower[first[6] : first[6] + count]
        highs = upper[first[7] : first[7] + count]
        for k in range(count):
            m = moduli[k]
            inverse = inverses[k]
            residual = slopes[k] - prices[k]
            size = abs(slopes[k])
            # An infinite slope is no result of rounding.
            size = 0.0 if size == np.inf else size
            doubt = roundings * size + errors[k] + price_errors[k]
            down = doubt + residual
            up = doubt - residual
            below = values[k] - lows[k]
            above = highs[k] - values[k]
            far = down * inverse
            far = below if below < far else far
            fall = (down - 0.5 * m * far) * far
            # Without curvature and bound the length is infinite, and so is the rise.
            fall = far if far == np.inf else fall
            fall = 0.0 if down <= 0.0 else fall
            fall = 0.0 if below <= 0.0 else fall
            far = up * inverse
            far = above if above < far else far
            climb = (up - 0.5 * m * far) * far
            climb = far if far == np.inf else climb
            climb = 0.0 if up <= 0.0 else climb
            climb = 0.0 if above <= 0.0 else climb
            larger = fall if fall > climb else climb
            # NaN is no larger than any number, and must not get lost.
            larger = fall if fall != fall else larger
            total[k] += larger


@compiled
def _fall(x: float, s: float, kink: float, below: float, above: float, price: float) -> float:
    """Return ℓ(x) - ℓ(s) - p (x - s), raised by its rounding."""
    start = x - kink
    height = (below if start < 0.0 else above) * start
    end = s - kink
    depth = (below if end < 0.0 else above) * end
    paid = price * (x - s)
    return height - depth - paid + 4.0 * EPS * (abs(height) + abs(depth) + abs(paid))


@compiled
def _kinked_rise(
    d: int,
    steps: NDArray[np.int64],
    total: Array,
    f: Array,
    place: Array,
    below: Array,
    above: Array,
    price: Array,
    price_error: Array,
    lower: Array,
    upper: Array,
) -> None:
    """Add the rises of each place in a block to an array."""
    for start in range(0, d, BLOCK):
        count = min(BLOCK, d - start)
        first = start * steps
        values = f[first[0] : first[0] + count]
        kinks = place[first[1] : first[1] + count]
        belows = below[first[2] : first[2] + count]
        aboves = above[first[3] : first[3] + count]
        prices = price[first[4] : first[4] + count]
        errors = price_error[first[5] : first[5] + count]
        lows = lower[first[6] : first[6] + count]
        highs = upper[first[7] : first[7] + count]
        for k in range(count):
            x = values[k]
            kink = kinks[k]
            pays = prices[k]
            error = errors[k]
            # The range is widened to hold the point, so that no maximum is negative.
            low = lows[k] if lows[k] < x else x
            high = highs[k] if highs[k] > x else x
            between = low if kink < low else kink
            between = high if between > high else between
            largest = _fall(x, between, kink, belows[k], aboves[k], pays) + error * abs(x - between)
            # Without a bound there is no end to a fall that is steeper than its price.
            is_open = (low == -np.inf and pays - error < belows[k]) or (
                high == np.inf and pays + error > aboves[k]
            )
            # NaN is no larger than any number, and must not get lost.
            end = x if low == -np.inf else low
            to_end = _fall(x, end, kink, belows[k], aboves[k], pays) + error * abs(x - end)
            largest = to_end if to_end > largest or to_end != to_end else largest
            end = x if high == np.inf else high
            to_end = _fall(x, end, kink, belows[k], aboves[k], pays) + error * abs(x - end)
            largest = to_end if to_end > largest or to_end != to_end else largest
            largest = 0.0 if largest < 0.0 else largest
            total[k] += np.inf if is_open else largest
