"""The sweeps over a long vector on a box, compiled for each kind of loss. Imports numba.

``look_at`` reads the point alone, ``moments`` the slopes that tell the price of the total, mostly
those of few values, and ``rise`` bounds the gap at any price.

``kernels`` reads slopes, errors and curvatures from memory. Here they are computed from point and
estimate where they are used, in each sweep anew: that takes a fraction of the time in which a
vector is written and read back. What is the same for all values, bounds among it, is one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import Function, compiled
from ldpopt.closed_form.logarithms import log_ratios
from ldpopt.closed_form.rows import locked_vector
from ldpopt.solve.certificate.bounds.dual import EPS, with_rounding
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.kernels import BLOCK, FLAT, STEEP, operands

Array = NDArray[np.float64]
Numbers = tuple[float, float, float, float, float]
# The point and a formula's data; how far the next bound is, 0 or 1 of each end, and the bounds.
Vectors = tuple[Array, Array, Array]
Ends = tuple[NDArray[np.int64], tuple[Array, Array]]

# The kinds of formula: the slope of a value x, and what the two vectors of data are.
SQUARES = 1  # x - y with a target y
WEIGHTED_SQUARES = 2  # w (x - y) with weights w
VARIANCES = 3  # r (2 - b r) with r = (x - y)/(a + b x)
BINOMIAL = 4  # s (P - c)/(P (1 - P)) with P = q + s x, and c = q + s y cut to [0, 1]
MULTINOMIAL = 5  # -s c/P
LOGARITHMS = 6  # 1 + log(x/r), and any number where r <= 0; r twice, and log(x/r) in the sweeps
HUBER = 7  # x - y, cut to -δ … δ
SUPPORTED = 8  # x - y where x is not 0; a value that is 0 stays so, and any slope is right

LOWERED = 1 - 64 * EPS
"""What curvatures are multiplied by for their own rounding."""

# Quotients of normal numbers that are normal themselves have logarithms below this; that of the
# smallest of them is -708.
_LONG = 700.0

# Values whose logarithms are computed at a time, in whole blocks.
_PART = 1 << 16

_SIMPLEX = Box(np.zeros(1), np.full(1, math.inf))


class Formula(NamedTuple):
    """What the compiled code needs for the slopes of a loss at a point.

    Attributes
    ----------
    kind
        One of the kinds above.
    first, second
        Its data, shape (d,); where it has only one vector, that one twice.
    roundings, error
        A computed slope is within roundings |slope| + error of the true one, but for the error of
        P, which is computed value by value.
    numbers
        Of VARIANCES a, b and the curvature's factor of (a + b y)²; of BINOMIAL and MULTINOMIAL q,
        s, by what |q| + |s x| is multiplied for the error of P, and the curvature's factors of c
        and 1 - c; of LOGARITHMS the curvature; of HUBER δ and the ends of all values. The rest
        is 0.
    """

    kind: int
    first: Array
    second: Array
    roundings: float
    error: float
    numbers: Numbers

    def at(self, pick: Callable[[Array], Array]) -> Formula:
        """Return the formula of some of the values, which a function picks from all."""
        return self._replace(first=pick(self.first), second=pick(self.second))


class Seen(NamedTuple):
    """What one look at a point f has seen.

    Attributes
    ----------
    smallest, largest
        The extremes of its values, NaN where a value is.
    size, error
        Σ f, and a bound of its rounding error; see ``kernels.sums``.
    """

    smallest: float
    largest: float
    size: float
    error: float


def look_at(f: Array) -> Seen:
    """Return the extremes and the sum of one vector of finite values."""
    lanes = np.zeros((4, BLOCK))
    lanes[0] = math.inf
    lanes[1] = -math.inf
    _look_at(locked_vector(f), lanes)
    lows, highs, sizes, corrections = lanes
    size = math.fsum([*sizes, *corrections])
    if math.isnan(size):
        return Seen(math.nan, math.nan, size, size)
    smallest = float(np.min(lows))
    largest = float(np.max(highs))
    additions = len(f) // BLOCK + 2
    error = EPS * abs(size) + (additions * EPS) ** 2 * len(f) * max(-smallest, largest)
    return Seen(smallest, largest, size, error)


def moments(
    formula: Formula, f: Array, smallest: float, bounds: Box
) -> tuple[float, float, float, float]:
    """Return Σ w, Σ w g, how many values have no bounds, and Σ g over these; see ``kernels.Sums``.

    Parameters
    ----------
    formula, f, smallest
        That of the slopes, and the point, shape (d,), with what no value is below.
    bounds
        Those of the values, each of shape (d,), or (1,) for one number.
    """
    d = len(f)
    is_free = all(len(end) == 1 and math.isinf(end[0]) for end in bounds)
    # On the simplex a value is its own distance to the nearest bound.
    are_distances = smallest >= 0 and all(
        len(end) == 1 and end[0] == simplex for end, simplex in zip(bounds, _SIMPLEX, strict=True)
    )
    lanes = np.zeros((2, BLOCK))
    sweep = _MOMENTS[formula.kind]
    for vectors, ends in _pieces(formula, f, bounds):
        sweep(*vectors, formula.numbers, *ends, (is_free, are_distances), lanes)
    with np.errstate(invalid="ignore"):
        mass, moment = (float(np.sum(lane)) for lane in lanes)
    if is_free:
        # Without bounds all values count the same: their distances are 1 in the sweep.
        return math.inf, math.nan, float(d), moment
    return mass, moment, 0.0, 0.0


def write_slopes(formula: Formula, f: Array, result: Array) -> tuple[float, float, float]:
    """Write the slopes g of one vector, for any kind but LOGARITHMS.

    What is returned is, as computed, g·f, Σ f, and the smallest value or 0, whichever is lower.
    """
    lanes = np.zeros((3, BLOCK))
    _SLOPES[formula.kind](*_vectors(formula, f), formula.numbers, result, lanes)
    with np.errstate(over="ignore", invalid="ignore"):
        product, size = (float(np.sum(lane)) for lane in lanes[:2])
    # A comparison passes over what is no number; a sum does not.
    return product, size, size if math.isnan(size) else float(np.min(lanes[2]))


def stake(formula: Formula, f: Array) -> tuple[float, float]:
    """Return ½ Σ_v m_v f_v² with the curvatures m of a formula, and its largest |g_v|.

    For any kind but LOGARITHMS.
    """
    lanes = np.zeros((2, BLOCK))
    _STAKES[formula.kind](*_vectors(formula, f), formula.numbers, lanes)
    with np.errstate(over="ignore"):
        return 0.5 * float(np.sum(lanes[0])), float(np.max(lanes[1]))


def rise(formula: Formula, f: Array, price: float, limits: Box) -> tuple[float, float]:
    """Return an upper bound of Σ_v max_{lower <= s <= upper} r_v (f_v - s_v) - ½ m_v (f_v - s_v)².

    Σ |slope_v f_v| follows, to rounding.

    Parameters
    ----------
    formula, price
        r_v is any number within e_v of slope_v - price, where e is the error of the formula's
        slope, and m >= 0 is its curvature.
    f
        The point, shape (d,), inside the bounds or not.
    limits
        Bounds of s, infinite if a side has none; each of shape (d,), or (1,) for one number.

    Returns
    -------
    A number >= 0, infinite where a residual points to a side without bound and curvature, or where
    a number is NaN; and a number that is not finite where a slope is not.

    Notes
    -----
    To a side the maximum is at most (a - ½ m t) t with the steepest slope a = |r| + e, the length
    to the bound, and t = min(length, a/m). The side is that to which r points; where e is not below
    |r| it may be either, and the longer one counts. Every operation rounds by at most eps/2. The
    sums e and a have terms >= 0 but for r, which is one rounded difference; half of a at most is
    taken away, so that its relative error doubles; a t beside a/m lowers a parabola at its top by
    the square of that. So a term is right to 14 roundings, and ``dual.with_rounding`` charges 32
    beside those of the sum: one addition per block, and those of the sums of blocks.
    """
    lanes = np.zeros((2, BLOCK))
    level = (price, formula.roundings, formula.error)
    sweep = _RISES[formula.kind]
    for vectors, ends in _pieces(formula, f, limits):
        sweep(*vectors, formula.numbers, *ends, level, lanes)
    with np.errstate(over="ignore", invalid="ignore"):
        rises, terms = (float(np.sum(lane)) for lane in lanes)
        total = float(with_rounding(np.asarray(rises), len(f) // BLOCK + BLOCK + 2))
    return math.inf if math.isnan(total) else total, terms


def _vectors(formula: Formula, f: Array) -> Vectors:
    """Return the point and the data of a formula as one kind of array, to be compiled for once."""
    return locked_vector(f), locked_vector(formula.first), locked_vector(formula.second)


def _pieces(formula: Formula, f: Array, bounds: Box) -> Iterator[tuple[Vectors, Ends]]:
    """Yield the vectors and the bounds that a sweep takes one after the other, mostly all at once.

    Logarithms come in parts that are whole blocks, so that the sums are those of one sweep. Each
    part is used while it is in the processor's caches: an array of all logarithms would be written
    and read back.
    """
    steps, (lower, upper) = operands(*bounds)
    x, first, second = _vectors(formula, f)
    if formula.kind != LOGARITHMS:
        yield (x, first, second), (steps, (lower, upper))
        return
    into = np.empty(min(len(x), _PART))
    for start in range(0, len(x), _PART):
        part = slice(start, start + _PART)
        values = x[part]
        logs, _ = log_ratios(values, first[part], into[: len(values)])
        ends = (lower[part] if steps[0] else lower, upper[part] if steps[1] else upper)
        yield (values, locked_vector(logs), second[part]), (steps, ends)


def _inlined(function: Function) -> Function:
    """Return a function that the compiler copies to where it is called: its kind is constant there.

    So the branches below are chosen once, and what is left of a loop takes vector instructions.
    """
    return cast("Function", numba.njit(error_model="numpy")(function))


# A choice between two numbers is written so that it compiles to one instruction for several values;
# numba's min and max, which look for NaN, do not.


@_inlined
def _share(y: float, q: float, s: float) -> float:
    """Return q + s y, cut to [0, 1]."""
    share = q + s * y
    share = 0.0 if share < 0.0 else share
    return 1.0 if share > 1.0 else share


@_inlined
def _slope(kind: int, x: float, first: float, second: float, numbers: Numbers) -> float:
    """Return the slope at a value x."""
    if kind == SQUARES:
        return x - first
    if kind == WEIGHTED_SQUARES:
        return second * (x - first)
    if kind == SUPPORTED:
        return x - first if x != 0.0 else 0.0
    if kind == VARIANCES:
        ratio = (x - first) / (numbers[0] + numbers[1] * x)
        return ratio * (2.0 - numbers[1] * ratio)
    if kind == HUBER:
        away = x - first
        away = away if away < numbers[0] else numbers[0]
        return away if away > -numbers[0] else -numbers[0]
    if kind == LOGARITHMS:
        # A quotient of numbers so far apart has lost digits: NaN proves nothing.
        return np.nan if abs(first) > _LONG else 1.0 + first
    probability = numbers[0] + numbers[1] * x
    share = _share(first, numbers[0], numbers[1])
    if kind == BINOMIAL:
        return numbers[1] * (probability - share) / (probability * (1.0 - probability))
    return -numbers[1] * share / probability


@_inlined
def _bend(x: float, y: float, numbers: Numbers) -> float:
    """Return what ``losses.Huber.bend`` states, lowered by its rounding."""
    delta = numbers[0]
    away = x - y
    rounding = 4.0 * EPS * (delta + abs(x) + abs(y))
    up = (delta - away - rounding) / (numbers[2] - x)
    down = (delta + away - rounding) / (x - numbers[1])
    # Without a way to go a side has no end: any number is right.
    up = up if up < 1.0 else 1.0
    down = down if down < 1.0 else 1.0
    share = up if up < down else down
    share = share if share > 0.0 else 0.0
    return LOWERED * share * (2.0 - share)


@_inlined
def _curvature(kind: int, x: float, first: float, second: float, numbers: Numbers) -> float:
    """Return a lower bound of the second derivative, or of what it means between x and the ends."""
    if kind in (SQUARES, SUPPORTED):
        return LOWERED
    if kind == WEIGHTED_SQUARES:
        return LOWERED * second
    if kind == VARIANCES:
        variance = numbers[0] + numbers[1] * first
        return numbers[2] * (variance * variance)
    if kind == LOGARITHMS:
        return numbers[0]
    if kind == HUBER:
        return _bend(x, first, numbers)
    share = _share(first, numbers[0], numbers[1])
    return numbers[3] * share + numbers[4] * (1.0 - share)


@_inlined
def _further_error(kind: int, x: float, slope: float, numbers: Numbers) -> float:
    """Return by how much the slope of a likelihood may be wrong as P is."""
    if kind != BINOMIAL and kind != MULTINOMIAL:
        return 0.0
    growth = numbers[1] * x
    probability = numbers[0] + growth
    wrong = numbers[2] * (abs(numbers[0]) + abs(growth))
    if kind == MULTINOMIAL:
        return wrong * abs(slope) / probability
    # 1/P + 1/(1 - P) is 1/(P (1 - P)).
    return wrong * (abs(numbers[1]) + abs(slope)) / (probability * (1.0 - probability))


@compiled
def _write_slopes(
    kind: int,
    f: Array,
    first: Array,
    second: Array,
    numbers: Numbers,
    result: Array,
    lanes: Array,
) -> None:
    """Write the slope of each value; add its products and values, and keep the lowest, in lanes."""
    products = lanes[0]
    size = lanes[1]
    lowest = lanes[2]
    for start in range(0, len(f), BLOCK):
        count = min(BLOCK, len(f) - start)
        values = f[start : start + count]
        firsts = first[start : start + count]
        seconds = second[start : start + count]
        written = result[start : start + count]
        for k in range(count):
            x = values[k]
            low = lowest[k]
            slope = _slope(kind, x, firsts[k], seconds[k], numbers)
            written[k] = slope
            products[k] += slope * x
            size[k] += x
            lowest[k] = x if x < low else low


@compiled
def _add_stakes(
    kind: int, f: Array, first: Array, second: Array, numbers: Numbers, lanes: Array
) -> None:
    """Add m x² of each place in a block to the first lane, and keep the largest |g| in the other.

    The latter is 0 where a slope is not a number.
    """
    bends = lanes[0]
    steepest = lanes[1]
    for start in range(0, len(f), BLOCK):
        count = min(BLOCK, len(f) - start)
        values = f[start : start + count]
        firsts = first[start : start + count]
        seconds = second[start : start + count]
        for k in range(count):
            x = values[k]
            so_far = steepest[k]
            m = _curvature(kind, x, firsts[k], seconds[k], numbers)
            steep = abs(_slope(kind, x, firsts[k], seconds[k], numbers))
            bends[k] += (m if m < STEEP else STEEP) * (x * x)
            steepest[k] = steep if steep > so_far else so_far


@compiled
def _look_at(f: Array, lanes: Array) -> None:
    """Keep the extremes of each place in a block in two lanes, and add its values in two more."""
    lows = lanes[0]
    highs = lanes[1]
    size = lanes[2]
    correction = lanes[3]
    for start in range(0, len(f), BLOCK):
        count = min(BLOCK, len(f) - start)
        values = f[start : start + count]
        for k in range(count):
            x = values[k]
            low = lows[k]
            high = highs[k]
            lows[k] = x if x < low else low
            highs[k] = x if x > high else high
        for k in range(count):
            x = values[k]
            before = size[k]
            after = before + x
            added = after - before
            correction[k] += (before - (after - added)) + (x - added)
            size[k] = after


@compiled
def _add_moments(
    kind: int,
    f: Array,
    first: Array,
    second: Array,
    numbers: Numbers,
    steps: NDArray[np.int64],
    bounds: tuple[Array, Array],
    flags: tuple[bool, bool],
    lanes: Array,
) -> None:
    """Add the distances of each place in a block, and its slopes times these, to two lanes."""
    mass = lanes[0]
    moment = lanes[1]
    lower, upper = bounds
    is_free, are_distances = flags
    for start in range(0, len(f), BLOCK):
        count = min(BLOCK, len(f) - start)
        values = f[start : start + count]
        firsts = first[start : start + count]
        seconds = second[start : start + count]
        if are_distances or is_free:
            for k in range(count):
                x = values[k]
                slope = _slope(kind, x, firsts[k], seconds[k], numbers)
                # Infinity times 0 counts as 0.
                product = 0.0 if x == 0.0 else slope * x
                mass[k] += x
                moment[k] += slope if is_free else product
        else:
            lows = lower[start * steps[0] : start * steps[0] + count]
            highs = upper[start * steps[1] : start * steps[1] + count]
            for k in range(count):
                x = values[k]
                slope = _slope(kind, x, firsts[k], seconds[k], numbers)
                down = x - lows[k]
                up = highs[k] - x
                weight = down if down < up else up
                weight = weight if weight > 0.0 else 0.0
                mass[k] += weight
                moment[k] += 0.0 if weight == 0.0 else slope * weight


@compiled
def _add_rises(
    kind: int,
    f: Array,
    first: Array,
    second: Array,
    numbers: Numbers,
    steps: NDArray[np.int64],
    limits: tuple[Array, Array],
    level: tuple[float, float, float],
    lanes: Array,
) -> None:
    """Add the rises of each place in a block to a lane, and the sizes of slope times value."""
    rises = lanes[0]
    terms = lanes[1]
    price, roundings, error = level
    lower, upper = limits
    for start in range(0, len(f), BLOCK):
        count = min(BLOCK, len(f) - start)
        values = f[start : start + count]
        firsts = first[start : start + count]
        seconds = second[start : start + count]
        lows = lower[start * steps[0] : start * steps[0] + count]
        highs = upper[start * steps[1] : start * steps[1] + count]
        for k in range(count):
            x = values[k]
            first_datum = firsts[k]
            second_datum = seconds[k]
            below = x - lows[k]
            above = highs[k] - x
            slope = _slope(kind, x, first_datum, second_datum, numbers)
            # Infinity times 0 counts as 0.
            term = 0.0 if x == 0.0 else abs(slope * x)
            # A value that must be 0 may have any slope: that which costs nothing.
            if kind == LOGARITHMS:
                slope = price if second_datum <= 0.0 else slope
            if kind == SUPPORTED:
                slope = price if x == 0.0 else slope
            m = _curvature(kind, x, first_datum, second_datum, numbers)
            m = 0.0 if m < FLAT else m
            m = STEEP if m > STEEP else m
            residual = slope - price
            wrong = roundings * abs(slope) + error + _further_error(kind, x, slope, numbers)
            pull = abs(residual)
            # A residual that may have either sign, or that is NaN, may go to either side.
            either = below if below > above else above
            length = below if residual > 0.0 else above
            length = length if pull > wrong else either
            pull += wrong
            far = pull / m
            far = length if length < far else far
            larger = (pull - 0.5 * m * far) * far
            # Without curvature and bound the length is infinite, and so is the rise.
            larger = far if far == np.inf else larger
            larger = 0.0 if pull == 0.0 else larger
            larger = 0.0 if length <= 0.0 else larger
            terms[k] += term
            rises[k] += larger


def _slopes_of(kind: int) -> Callable[..., None]:
    """Return the sweep that writes slopes for one kind, compiled when it is used first."""

    @compiled
    def sweep(
        f: Array, first: Array, second: Array, numbers: Numbers, result: Array, lanes: Array
    ) -> None:
        _write_slopes(kind, f, first, second, numbers, result, lanes)

    return sweep


def _stakes_of(kind: int) -> Callable[..., None]:
    """Return the sweep of ``stake`` for one kind, compiled when it is used first."""

    @compiled
    def sweep(f: Array, first: Array, second: Array, numbers: Numbers, lanes: Array) -> None:
        _add_stakes(kind, f, first, second, numbers, lanes)

    return sweep


def _moments_of(kind: int) -> Callable[..., None]:
    """Return the sweep of ``moments`` for one kind, compiled when it is used first."""

    @compiled
    def sweep(
        f: Array,
        first: Array,
        second: Array,
        numbers: Numbers,
        steps: NDArray[np.int64],
        bounds: tuple[Array, Array],
        flags: tuple[bool, bool],
        lanes: Array,
    ) -> None:
        _add_moments(kind, f, first, second, numbers, steps, bounds, flags, lanes)

    return sweep


def _rises_of(kind: int) -> Callable[..., None]:
    """Return the sweep of ``rise`` for one kind."""

    @compiled
    def sweep(
        f: Array,
        first: Array,
        second: Array,
        numbers: Numbers,
        steps: NDArray[np.int64],
        limits: tuple[Array, Array],
        level: tuple[float, float, float],
        lanes: Array,
    ) -> None:
        _add_rises(kind, f, first, second, numbers, steps, limits, level, lanes)

    return sweep


_KINDS = (
    SQUARES,
    WEIGHTED_SQUARES,
    VARIANCES,
    BINOMIAL,
    MULTINOMIAL,
    LOGARITHMS,
    HUBER,
    SUPPORTED,
)
_SLOPES: Mapping[int, Callable[..., None]] = {kind: _slopes_of(kind) for kind in _KINDS}
_STAKES: Mapping[int, Callable[..., None]] = {kind: _stakes_of(kind) for kind in _KINDS}
_MOMENTS: Mapping[int, Callable[..., None]] = {kind: _moments_of(kind) for kind in _KINDS}
_RISES: Mapping[int, Callable[..., None]] = {kind: _rises_of(kind) for kind in _KINDS}
