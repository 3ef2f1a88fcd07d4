"""Any separable convex loss on a box with one total: one multiplier, one bracketed root.

min Σ ℓ_v(f_v), lower <= f <= upper, Σf = total. With the multiplier μ, f_v(μ) minimises
ℓ_v(f) + μf on its interval, and Σ f_v(μ) does not increase. At μ <= -ℓ'_v(upper_v) a value is at
its upper bound and at μ >= -ℓ'_v(lower_v) at its lower one, so the bracket is known. The roots of
all trials are found at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.brackets import End, bracketed_root
from ldpopt.closed_form.rows import counts, locked_rows, locked_vector, sums
from ldpopt.errors import InvalidInputError, PrecisionError

Array = NDArray[np.float64]
Trials = NDArray[np.intp]
Minimiser = Callable[[Array, Trials], Array]
Slope = Callable[[Array], float]

# Of the sum, at which the search ends: the free values share the rest, and its effect on the loss
# is of second order.
EXCESS = 1e-12
# Of the sum, from which on the result is refused: a thousand times what rounding leaves.
MISSED = 1e-9
# Of its distance from a bound, by which a value may be moved where slopes are infinite there.
_LITTLE = 1e-6
# Three times a factor of 1,000 and square roots: enough for brackets of Gaussian noise.
_NARROWINGS = 3
_SHRINK = 2.0**-10
# A factor of 4 each: up to 3e153, whose square is a number too.
_MAX_DOUBLINGS = 255
# Of totals far below 1 multipliers may be as small. A first step of 2⁻¹⁰ that is squared each time
# is beyond all doubles after seven, and as many square roots lead back to the factor of two.
_FAR_BELOW_ONE = EXCESS * 2.0**-30
_MANY_NARROWINGS = 18
# A step away from where no value moves is so many times as long as the one before.
_LONGER = 8.0
# Values of the smallest weights that are sorted first: often a few take all that is missing.
_SELECTED = 1_024
# Each step of the search halves the bracket at least every third time: 200 are never reached.
_MAX_STEPS = 200


def one_root(
    minimiser: Minimiser,
    bracket: tuple[Array, Array],
    box: tuple[Array, Array],
    total: float,
    slope: Slope | None = None,
    *,
    is_steep: bool = False,
) -> Array:
    """Return the frequencies at the multiplier where they sum to the total.

    Parameters
    ----------
    minimiser
        From multipliers of shape (m, 1) and the numbers of m trials to f(μ) of shape (m, d), inside
        the box.
    bracket
        Bounds of the multiplier for every trial, each of shape (trials,).
    box
        Lower and upper bounds of the values, each of shape (d,) or (trials, d).
    total
        The sum to reach, between the sums of the bounds.
    slope
        From f(μ) of one trial to by how much their sum falls per unit of μ, next to it; None where
        that is not known. With it a single trial takes half as many evaluations.
    is_steep
        Whether slopes are infinite at the bounds, so that little may be moved there.

    Returns
    -------
    Values of shape (trials, d), on the box, whose sums differ from the total by rounding.

    Raises
    ------
    PrecisionError
        If double precision cannot meet the total, which takes estimates of 10⁹ and more.

    Notes
    -----
    Cost: about a dozen evaluations of f(μ) for all trials (Chandrupatla 1997).
    """
    trials = np.arange(len(bracket[0]))

    def excess(mu: Array, trial: NDArray[np.intp]) -> Array:
        f = minimiser(mu[:, None], trial.astype(np.intp))
        return np.asarray(f.sum(axis=-1) - total)

    if slope is not None and len(trials) == 1:
        f = _along_slopes(minimiser, bracket, total, slope)
    else:
        mu = root(excess, bracket, trials, EXCESS * scale_of(total))
        f = minimiser(mu[:, None], trials)
    doubtful = np.flatnonzero(~_is_met(np.abs(total - f.sum(axis=-1)), f, box, total))
    f = _shared(f, box, total, is_steep=is_steep)
    if len(doubtful):
        # Beside a jump at 0, multipliers are the smallest doubles.
        with np.errstate(over="ignore"):
            low, high = adjacent(excess, (bracket[0][doubtful], bracket[1][doubtful]), doubtful)
            largest, smallest = (minimiser(mu[:, None], doubtful) for mu in (low, high))
        mixed = filled(smallest, largest, total - _row_sums(smallest), _row_sums)
        chosen = differ(mixed, f[doubtful]).any(axis=-1)
        f[doubtful[chosen]] = mixed[chosen]
    _require_total(np.abs(total - f.sum(axis=-1)), f, box, total)
    return f


def _row_sums(values: Array) -> Array:
    return np.asarray(values.sum(axis=-1, keepdims=True))


def adjacent(
    excess: Callable[[Array, Trials], Array],
    bracket: tuple[Array, Array],
    numbers: Trials,
) -> tuple[Array, Array]:
    """Return the two neighbouring doubles between which each falling function changes its sign.

    Where a loss is linear in some values their minimisers jump at one multiplier, and between these
    two the sum takes all that it has on the way.

    Parameters
    ----------
    excess
        From multipliers, and the numbers of their functions, to the values there.
    bracket
        Multipliers on both sides, each of shape (len(numbers),).
    numbers
        Which functions are looked at.

    Notes
    -----
    Cost: 64 evaluations. The order of doubles is that of the integers with the same bits, which
    leads to a jump at 0 as fast as to any other one.
    """
    # A jump may be at an end of the bracket.
    low, high = _places(bracket[0]) - 1, _places(bracket[1]) + 1
    for _ in range(64):
        # Halved first: the sum of two places may be beyond all integers.
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        is_above = excess(_doubles(middle), numbers) > 0
        low = np.where(is_above, middle, low)
        high = np.where(is_above, high, middle)
    return _doubles(low), _doubles(high)


def _places(values: Array) -> NDArray[np.int64]:
    """Return the place of each double in the order of all, with 0 for 0."""
    bits = np.asarray(values, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _doubles(places: NDArray[np.int64]) -> Array:
    """Return the doubles of ``_places``."""
    bits = np.where(places < 0, np.iinfo(np.int64).min - places, places)
    return bits.view(np.float64)


def filled(
    smallest: Array, largest: Array, missing: Array, sums_of_each: Callable[[Array], Array]
) -> Array:
    """Return values between the smallest and the largest that have what the smallest miss.

    All rise by the same share of their way; where that is longer than what is missing, of this.

    Parameters
    ----------
    smallest, largest
        Values of shape (trials, d), the largest possibly infinite.
    missing
        What is missing to the sum of which each value is a part, of a shape that broadcasts.
    sums_of_each
        From values to the sum of which each is a part, of such a shape.
    """
    way = np.clip(largest - smallest, 0.0, np.maximum(missing, 0.0))
    whole = sums_of_each(way)
    share = np.divide(missing, whole, out=np.zeros(whole.shape), where=whole > 0)
    return np.asarray(smallest + np.clip(share, 0.0, 1.0) * way)


def differ(mixed: Array, shared: Array) -> NDArray[np.bool_]:
    """Return where values that a jump makes differ from those that share what is missing.

    Where f(μ) has no jump the last bit of the multiplier was worth more than the sum, and both are
    the same but for rounding.
    """
    size = np.abs(mixed).max(axis=-1, keepdims=True)
    # Written so that NaN, of a root that was not found, differs.
    return np.asarray(~(np.abs(mixed - shared) <= MISSED * size))


def scale_of(total: Array | float) -> float:
    """Return what the sums of a search are relative to: the largest total, and 1 if all are 0."""
    return float(np.max(np.abs(total), initial=0.0)) or 1.0


def _is_met(missed: Array, f: Array, box: tuple[Array, Array], total: float) -> NDArray[np.bool_]:
    """Return whether what the sums of f, shape (trials, d), miss is rounding."""
    # Written so that NaN counts as missed.
    is_met: NDArray[np.bool_] = missed <= MISSED * abs(total)
    if is_met.all():
        return is_met
    # Of values that cancel, the total is no measure; and a total that the bounds just miss, as the
    # border allows, has the nearest sum that they do not.
    lower, upper = (end.sum(axis=-1) for end in box)
    reached = np.abs(f.sum(axis=-1) - np.clip(total, lower, upper))
    return np.asarray(reached <= MISSED * np.maximum(abs(total), np.abs(f).sum(axis=-1)))


def _require_total(missed: Array, f: Array, box: tuple[Array, Array], total: float) -> None:
    """Raise an error unless what the sums of f, shape (trials, d), miss is rounding."""
    is_met = _is_met(missed, f, box, total)
    if not is_met.all():
        worst = int(np.argmin(is_met))
        raise beyond_precision(worst, "its total", float(missed[worst]))


def _along_slopes(
    minimiser: Minimiser, bracket: tuple[Array, Array], total: float, slope: Slope
) -> Array:
    """Return f(μ) of a single trial where Newton's steps, kept inside the bracket, reach the total.

    Where f(μ) is linear piece by piece, the step from the right piece is exact.
    """
    only = np.zeros(1, dtype=np.intp)
    low, high = float(bracket[0][0]), float(bracket[1][0])
    # The multiplier is often near 0, and the ends of the bracket are far away.
    mu = min(max(0.0, low), high)
    shrink = 1.0
    for _ in range(_MAX_STEPS):
        f = minimiser(np.full((1, 1), mu), only)
        missing = float(f.sum()) - total
        if abs(missing) <= EXCESS * scale_of(total):
            break
        if missing > 0:
            low = mu
        else:
            high = mu
        fall = slope(f)
        if fall == 0:
            # Every value is at a bound. With all of them off their bounds the step would be this
            # one; from the second time on it is longer.
            fall = f.size * shrink
            shrink /= _LONGER
        ahead = mu + missing / fall
        if not low < ahead < high:
            ahead = low + (high - low) / 2
        if ahead == mu:
            break
        mu = ahead
    return f


def weighted_squares(
    f: Array,
    weights: Array | float,
    box: tuple[Array, Array],
    total: float,
) -> Array:
    """Return the minimiser of ½ Σ w_v (f'_v - f_v)² on a finite box with a total, compiled.

    Parameters
    ----------
    f
        Values of shape (trials, d).
    weights
        Numbers > 0, shape (d,), or one for all.
    box, total
        As of ``one_root``; bounds are finite, of shape (d,).

    Raises
    ------
    PrecisionError
        As ``one_root``.

    Notes
    -----
    Cost: one pass over memory, and about ten over each vector while it is in the cache. The first
    call in a process loads numba.

    Examples
    --------
    >>> box = (np.zeros(3), np.full(3, 0.5))
    >>> weighted_squares(np.array([[0.75, 0.25, -0.25]]), np.array([1.0, 1.0, 2.0]), box, 1.0)
    array([[0.5, 0.5, 0. ]])
    """
    from ldpopt.closed_form.box_kernels import clip_rows  # imports numba

    d = f.shape[-1]
    share = np.ascontiguousarray(np.broadcast_to(1 / np.asarray(weights), (d,)))
    lower, upper = (locked_vector(bound) for bound in box)
    result = np.empty(f.shape)
    # What overflows is reported by the sums.
    missed = np.abs(clip_rows(locked_rows(f), share, lower, upper, total, result))
    _require_total(missed, result, box, total)
    return result


def doubled_bracket(minimiser: Minimiser, total: float, trials: int) -> tuple[Array, Array]:
    """Return a bracket of the multiplier of every trial where no bounds give one.

    Its ends are -4ᵏ and 4ᵏ with the smallest k that holds the root.

    Parameters
    ----------
    minimiser, total
        As of ``one_root``; without bounds f(μ) may be infinite.
    trials
        The number of trials.

    Raises
    ------
    InvalidInputError
        If no multiplier that double precision has meets the total.
    """
    numbers = np.arange(trials)

    def excess(mu: Array) -> Array:
        return np.asarray(minimiser(mu[:, None], numbers).sum(axis=-1) - total)

    return spanning(excess, (trials,), lambda _: f"the sum of the values to {total:g}")


def spanning(
    excess: Callable[[Array], Array],
    shape: tuple[int, ...],
    aim: Callable[[NDArray[np.bool_]], str],
) -> tuple[Array, Array]:
    """Return for each root of a falling function the smallest k whose -4ᵏ and 4ᵏ hold it.

    Parameters
    ----------
    excess
        From multipliers of this shape to the excess of each sum over its total.
    shape
        That of the roots.
    aim
        From where no multiplier reaches the root to what it should have brought to where, for the
        message.

    Raises
    ------
    InvalidInputError
        If a root is beyond all multipliers that double precision has.
    """
    low = np.full(shape, -1.0)
    high = np.full(shape, 1.0)
    for end, sign in ((low, 1), (high, -1)):
        for _ in range(_MAX_DOUBLINGS):
            # Written so that NaN counts as short.
            is_short = ~(sign * excess(end) >= 0)
            if not is_short.any():
                break
            end[is_short] *= 4
        else:
            raise InvalidInputError(
                f"no multiplier brings {aim(is_short)}: either the loss has no minimum on this "
                "set (add NonNegative() or Bounds), or its numbers are beyond the range of doubles "
                "(state them in a larger unit)"
            )
    return low, high


def beyond_precision(trial: int, total: str, missed: float) -> PrecisionError:
    """Return the error for a total that double precision cannot meet."""
    return PrecisionError(
        f"trial {trial} is beyond double precision on this path: {total} is missed by {missed:g}, "
        "because estimates are so large that their last bit is worth more; clip them, state them "
        "in a larger unit, or use path='conic'"
    )


def root(
    excess: Callable[[Array, Trials], Array],
    bracket: tuple[Array, Array],
    trials: Trials,
    tolerance: float,
) -> Array:
    """Return the multiplier of every trial; the better end of its bracket where none is found.

    So a total that the bounds miss by rounding has the nearest sum that they allow.
    """
    from scipy.optimize import elementwise  # slow to import

    is_small = tolerance < _FAR_BELOW_ONE
    low, high = _narrowed(excess, *bracket, trials, is_small=is_small)
    if len(trials) == 1:
        # A fifth of the time: scipy's search is made for many roots at once.
        return np.array([_single_root(excess, float(low[0]), float(high[0]), tolerance)])
    tolerances: Any = {
        "xatol": 0.0,
        "xrtol": 2 * float(np.finfo(np.float64).eps),
        "fatol": tolerance,
        "frtol": 0.0,
    }
    result = elementwise.find_root(
        excess,
        (low, high),
        args=(trials,),
        maxiter=_MAX_STEPS,
        tolerances=tolerances,
    )
    is_found = np.isfinite(result.x)
    if is_found.all():
        return np.asarray(result.x)
    is_lower = np.abs(excess(low, trials)) <= np.abs(excess(high, trials))
    return np.where(is_found, result.x, np.where(is_lower, low, high))


def _single_root(
    excess: Callable[[Array, Trials], Array], low: float, high: float, tolerance: float
) -> float:
    """Return the multiplier of the only trial; the better end where no sign changes."""
    only = np.zeros(1, dtype=np.intp)

    def value(mu: float) -> float:
        return float(excess(np.array([mu]), only)[0])

    ends = (End(low, value(low)), End(high, value(high)))
    for end in ends:
        if abs(end.value) <= tolerance:
            return end.place
    if (ends[0].value > 0) == (ends[1].value > 0):
        return min(ends, key=lambda end: abs(end.value)).place
    bracket = bracketed_root(value, ends, lambda missing: abs(missing) <= tolerance)
    return min(bracket, key=lambda end: abs(end.value)).place


def _narrowed(
    excess: Callable[[Array, Trials], Array],
    low: Array,
    high: Array,
    trials: Trials,
    *,
    is_small: bool,
) -> tuple[Array, Array]:
    """Return a smaller bracket: the multiplier is often far nearer to 0 than the steepest slope.

    With ``is_small`` it may be nearer than all that usual totals need.
    """
    zero = np.clip(0.0, low, high)
    is_above = excess(zero, trials) > 0
    # Both ends are measured from zero, on the side where the root is.
    far = np.where(is_above, high, low) - zero
    near = np.zeros(len(zero))
    shrink = _SHRINK
    for _ in range(_MANY_NARROWINGS if is_small else _NARROWINGS):
        if is_small:
            # The product of two such numbers may be 0.
            mean = np.sqrt(np.abs(near)) * np.sqrt(np.abs(far))
        else:
            mean = np.sqrt(np.abs(near * far))
        geometric = np.sign(far) * mean
        # No geometric mean leads away from 0: the first step shrinks by a factor.
        middle = np.where(near == 0, far * shrink, geometric)
        shrink = shrink**2 if is_small else shrink
        middle_is_above = excess(zero + middle, trials) > 0
        is_beyond = middle_is_above != is_above
        near = np.where(is_beyond, near, middle)
        far = np.where(is_beyond, middle, far)
    lower = zero + np.where(is_above, near, far)
    upper = zero + np.where(is_above, far, near)
    return lower, upper


def _shared(f: Array, box: tuple[Array, Array], total: float, *, is_steep: bool) -> Array:
    """Return f with the missing sum shared among the values off their bounds; f is changed.

    The last bit of the multiplier may be worth more than that of the sum.
    """
    lower, upper = box
    rest = total - sums(f)
    # What is nearer to a bound than that would be clipped: a tiny frequency has its own logarithm.
    size = np.abs(rest)
    is_free = (lower + size < f) & (f + size < upper)
    share = rest / np.maximum(counts(is_free), 1)
    if is_steep:
        with np.errstate(invalid="ignore"):
            distance = np.minimum(f - lower, upper - f)
            if np.any(is_free & (np.abs(share) > _LITTLE * distance)):
                return in_proportion(f, box, rest, _row_sums)
    f += is_free * share
    return np.clip(f, lower, upper, out=f)


def in_proportion(
    f: Array, box: tuple[Array, Array], rest: Array, sums_of_each: Callable[[Array], Array]
) -> Array:
    """Return f with what its sums miss shared in proportion to the distances from bounds.

    A tiny frequency has its own logarithm: an equal share would be most of it.

    Parameters
    ----------
    f, box
        Values of shape (trials, d), and their bounds.
    rest, sums_of_each
        As of ``filled``, of either sign.
    """
    lower, upper = box
    # A frequency that is infinite is for the caller to refuse.
    with np.errstate(invalid="ignore"):
        distance = np.minimum(f - lower, upper - f)
        distance = np.where(np.isfinite(distance), distance, 1.0)
        space = sums_of_each(distance)
        share = np.divide(rest, space, out=np.zeros(space.shape), where=space > 0)
        shared: Array = np.clip(f + share * distance, lower, upper)
    return shared


def least_absolute(
    f: Array,
    lower: Array,
    upper: Array,
    total: float | None = None,
) -> Array:
    """Return a minimiser of Σ |f'_v - f_v| on a box with at most one total.

    Of many minimisers it is the one nearest to f in least squares. Clipping is optimal without the
    total. What is then missing or too much may be spread over the values in any way that stays in
    the box and moves none of them back: the nearest such point is a projection with one root.

    Parameters
    ----------
    f
        Values of shape (..., d).
    lower, upper
        Bounds of shape (d,), infinite ones too.
    total
        The sum to reach, between the sums of the bounds; None for none.

    Raises
    ------
    PrecisionError
        As ``one_root``.

    Notes
    -----
    Cost: as ``one_root``.

    Examples
    --------
    >>> least_absolute(np.array([0.9, 0.6, -0.1]), np.zeros(3), np.full(3, np.inf), 1.0)
    array([0.65, 0.35, 0.  ])
    """
    clipped = np.clip(f, lower, upper)
    if total is None:
        return clipped
    start = clipped.reshape(-1, f.shape[-1])
    flat = f.reshape(start.shape)
    rest = total - sums(start)
    moved = start + rest
    # If the sum must fall, no value rises; if it must rise, none falls. None moves by more than the
    # whole rest.
    low = np.where(rest < 0, np.maximum(lower, moved), start)
    high = np.where(rest > 0, np.minimum(upper, moved), start)

    def minimiser(mu: Array, trials: Trials) -> Array:
        return np.clip(flat[trials] - mu, low[trials], high[trials])

    # From where every value is at its upper bound to where each is at its lower one.
    bracket = (
        (flat - high).min(axis=-1),
        (flat - low).max(axis=-1),
    )
    f_nearest = one_root(minimiser, bracket, (low, high), total)
    return f_nearest.reshape(f.shape)


def weighted_deviations(
    reference: Array,
    weights: Array,
    lower: Array,
    upper: Array,
    total: float | None = None,
) -> Array:
    """Return a minimiser of Σ w_v |f_v - r_v| on a box with at most one total.

    Clipping is optimal without the total. What is then missing or too much costs least where the
    weights are smallest: these values move first, each as far as its bound, and the last in part.
    Of equal weights the first value moves first.

    Parameters
    ----------
    reference, weights
        r, and positive w, shape (d,).
    lower, upper
        Bounds of shape (d,), infinite ones too.
    total
        The sum to reach; None for none.

    Raises
    ------
    InvalidInputError
        If the bounds do not allow the total.

    Notes
    -----
    Cost: linear, and a sort of the values that move, but for at least a thousand.

    Examples
    --------
    >>> reference = np.array([0.5, 0.3, 0.1])
    >>> weights = np.array([3.0, 1.0, 2.0])
    >>> weighted_deviations(reference, weights, np.zeros(3), np.full(3, 0.35), 0.8)
    array([0.35, 0.35, 0.1 ])
    """
    f: Array = np.clip(reference, lower, upper)
    if total is None:
        return f
    rest = total - float(f.sum())
    slack = upper - f if rest > 0 else f - lower
    cheapest = _cheapest(weights, slack, abs(rest))
    slack = slack[cheapest]
    # What all before a value can take does not reach it.
    before = np.append(0.0, np.cumsum(slack)[:-1])
    moved = np.clip(abs(rest) - before, 0.0, slack)
    if abs(rest) - float(moved.sum()) > MISSED * max(abs(total), float(np.abs(f).sum())):
        raise InvalidInputError(f"the bounds do not allow a sum of {total:g}")
    f[cheapest] += np.copysign(moved, rest)
    return f


def _cheapest(weights: Array, slack: Array, needed: float) -> NDArray[np.intp]:
    """Return values by rising weight, as many as can move by what is needed or all."""
    count = _SELECTED
    while count < len(weights):
        # With all of equal weight, so that the first of them still comes first.
        chosen = np.flatnonzero(weights <= np.partition(weights, count)[count])
        if slack[chosen].sum() > needed:
            return chosen[np.argsort(weights[chosen], kind="stable")]
        count *= 16
    return np.argsort(weights, kind="stable")
