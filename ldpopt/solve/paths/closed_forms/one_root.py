"""Any separable loss on bounds and at most one total: the root of its multiplier.

Values interact through that multiplier only, so one form solves every such loss.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, validate
from ldpopt.closed_form.rows import LARGE
from ldpopt.errors import InfeasibleError, InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares, Loss, WeightedLeastSquares
from ldpopt.solve.formulation import Formulation, rounding_of

Array = NDArray[np.float64]

UNBOUNDED = (
    "{!r} is unbounded below on this set: it has no minimum, add NonNegative() and SumsTo(...), or "
    "Bounds"
)

_NOWHERE_FINITE = (
    "no vector satisfies the constraints: they keep f[{}] at or {} {:g}, and {!r} is infinite {} "
    "{:.6g}"
)

# Multipliers beyond this change no double: it is twice the range of a double's exponent. It stands
# for slopes that are infinite everywhere, where any multiplier will do.
STEEPEST = 1500.0

# Losses whose minimisers are straight lines in the multiplier: large stacks of them are compiled.
_SQUARES = (LeastSquares, WeightedLeastSquares)

# The gradient is infinite at the end of a loss's domain: the search stays this much short of it,
# relative to the end. That is below ``certificate.box``'s distance at which a bound holds.
_SHORT_OF_THE_END = 1 - 1e-9


def solve_one_root(estimate: FrequencyEstimate, formulation: Formulation) -> Array:
    """Return the minimiser of a separable loss on a box with at most one total.

    Parameters
    ----------
    estimate
        An estimate that the problem accepts, d values, any leading axes.
    formulation
        A problem on a box: see ``Formulation.is_box``.

    Returns
    -------
    Frequencies of the estimate's shape.

    Raises
    ------
    InvalidInputError
        If the loss is unbounded below, or double precision cannot meet the total.
    InfeasibleError
        If the loss keeps values at zero that the bounds or the total need.

    Notes
    -----
    Cost: as ``closed_form.one_root``, about a dozen evaluations of the loss's ``response``.
    """
    d = estimate.d
    shape = estimate.frequencies.shape
    loss = formulation.loss
    separable = loss.separable
    assert separable is not None  # as the lookup made sure
    region = formulation.region(d)
    _require_support(loss, estimate, formulation)
    constants = loss.constants(estimate)
    lower, upper = reachable_bounds(formulation, estimate)
    if region.total is None:
        # No multiplier is searched: a value without reports has its minimum at the start itself.
        lower = region.lower
    # All leading axes as one: the search drops trials as they are done.
    data = tuple(np.broadcast_to(x, shape).reshape(-1, d) for x in loss.data(estimate))

    def minimiser(mu: Array, trials: NDArray[np.intp]) -> Array:
        # A single vector is not copied at every step.
        of_trials = data if len(data[0]) == 1 else tuple(array[trials] for array in data)
        response = separable.response(mu, of_trials, constants)
        return np.clip(response, lower, upper, out=response)

    # Without a total there is no multiplier: each value goes to its own minimum, at μ = 0.
    if region.total is None:
        count = int(np.prod(shape[:-1]))
        no_price = np.zeros((count, 1))
        f = minimiser(no_price, np.arange(count)).reshape(shape)
        if not np.isfinite(f).all():
            raise InvalidInputError(UNBOUNDED.format(loss))
        return f
    box = finite_bounds(lower, upper, region.total)
    lower, upper = box
    is_finite = bool(np.isfinite(lower).all() and np.isfinite(upper).all())
    if loss.family in _SQUARES and is_finite and estimate.frequencies.size > LARGE:
        (target, *_) = data
        f = closed_form.weighted_squares(target, separable.square_weights, box, region.total)
        return f.reshape(shape)
    ends = bracket(loss, estimate, box, minimiser, region.total)
    has_ends = bool(np.isfinite(loss.domain(constants)).any())
    is_steep = loss.nonnegative_domain or has_ends
    f = closed_form.one_root(minimiser, ends, box, region.total, is_steep=is_steep)
    return f.reshape(shape)


def has_own_minima(formulation: Formulation, estimate: FrequencyEstimate) -> bool:
    """Return whether each value has a minimum of its own between its bounds, without a price.

    That of a likelihood without failures lies at infinity, unless something else holds it.
    """
    separable = formulation.loss.separable
    if separable is None:
        return True
    constants = formulation.loss.constants(estimate)
    no_price = np.zeros((*estimate.frequencies.shape[:-1], 1))
    response = separable.response(no_price, formulation.loss.data(estimate), constants)
    _, upper = reachable_bounds(formulation, estimate)
    return not np.isposinf(np.minimum(response, upper)).any()


def reachable_bounds(formulation: Formulation, estimate: FrequencyEstimate) -> tuple[Array, Array]:
    """Return the bounds of a problem, just inside the domain of its loss.

    Raises
    ------
    InfeasibleError
        If the loss is infinite wherever a value is between its bounds.
    """
    region = formulation.region(estimate.d)
    start, end = formulation.loss.domain(formulation.loss.constants(estimate))
    # Most losses have no end, and need no pass.
    if end < np.inf and region.lower.max() > end:
        v = int(np.argmax(region.lower))
        raise InfeasibleError(
            _NOWHERE_FINITE.format(v, "above", region.lower[v], formulation.loss, "above", end)
        )
    if start > -np.inf and region.upper.min() < start:
        v = int(np.argmin(region.upper))
        raise InfeasibleError(
            _NOWHERE_FINITE.format(v, "below", region.upper[v], formulation.loss, "below", start)
        )
    lower = np.maximum(region.lower, _SHORT_OF_THE_END * start)
    return lower, np.minimum(region.upper, _SHORT_OF_THE_END * end)


def finite_bounds(lower: Array, upper: Array, total: float) -> tuple[Array, Array]:
    """Return tighter bounds: with the others at their bounds, the total bounds every value too.

    Where neither all lower nor all upper bounds are finite, nothing follows for the others.
    """
    if np.isfinite(lower).all():
        of_others = lower.sum() - lower
        return lower, np.minimum(upper, total - of_others)
    if np.isfinite(upper).all():
        of_others = upper.sum() - upper
        return np.maximum(lower, total - of_others), upper
    return lower, upper


def bracket(
    loss: Loss,
    estimate: FrequencyEstimate,
    box: tuple[Array, Array],
    minimiser: closed_form.Minimiser,
    total: float,
) -> tuple[Array, Array]:
    """Return between which multipliers the root of every trial lies, each of shape (trials,).

    ``box`` is as ``finite_bounds`` returns it, ``minimiser`` and ``total`` as ``one_root`` takes
    them.
    """
    shape = estimate.frequencies.shape
    lower, upper = box
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        return closed_form.doubled_bracket(minimiser, total, int(np.prod(shape[:-1])))
    return bracket_of_box(loss, estimate, lower, upper)


def bracket_of_box(
    loss: Loss, estimate: FrequencyEstimate, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Return the bracket that finite bounds give, each end of shape (trials,)."""
    slope_low, slope_high = slopes_at_bounds(loss, estimate, lower, upper)
    # At μ = -max ℓ'(upper) every value is at its upper bound, at -min ℓ'(lower) at its lower one:
    # the sum reaches the total in between.
    smallest = -slope_high.max(axis=-1)
    largest = -slope_low.min(axis=-1)
    # A root needs finite ends.
    return (
        np.nan_to_num(smallest, posinf=STEEPEST, neginf=-STEEPEST),
        np.nan_to_num(largest, posinf=STEEPEST, neginf=-STEEPEST),
    )


def slopes_at_bounds(
    loss: Loss, estimate: FrequencyEstimate, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Return a loss's slopes at the lower and at the upper bounds, both of shape (trials, d).

    Where one is infinite it is that of the next double, by which a logarithm is finite. What is
    infinite there too stays at its bound, whatever the multiplier: no bracket needs its slope,
    which is infinite on the side that changes no extreme.
    """
    shape = estimate.frequencies.shape

    def slopes(at: Array, beside: Array, ignored: float) -> Array:
        result = loss.gradient(np.broadcast_to(at, shape), estimate)
        if not np.isfinite(result).all():
            near = loss.gradient(np.broadcast_to(np.nextafter(at, beside), shape), estimate)
            near = np.where(np.isfinite(near), near, ignored)
            result = np.where(np.isfinite(result), result, near)
        return np.asarray(result.reshape(-1, shape[-1]))

    return slopes(lower, upper, np.inf), slopes(upper, lower, -np.inf)


def _require_support(loss: Loss, estimate: FrequencyEstimate, formulation: Formulation) -> None:
    """Raise an error if bounds and total ask for values that the loss keeps at zero."""
    support = loss.support(estimate)
    if support is None:
        return
    region = formulation.region(estimate.d)
    forced = ~support & (region.lower > 0)
    if forced.any():
        *trial, v = validate.first(forced)
        low = region.lower[v]
        bound = f"f[{v}] = {low:g}" if low == region.upper[v] else f"{low:g} <= f[{v}]"
        where = f" in trial {', '.join(str(int(i)) for i in trial)}" if trial else ""
        raise InfeasibleError(
            f"no vector satisfies the constraints{where}; these conflict: f[{v}] = 0, "
            f"else {loss!r} is infinite; {bound}"
        )
    if region.total is None:
        return
    largest = np.sum(np.where(support, region.upper, 0.0), axis=-1)
    if np.any(largest < region.total - rounding_of(region.total)):
        raise InfeasibleError(
            f"no vector satisfies the constraints: {loss!r} keeps values at zero, and the bounds "
            f"of the others let the sum be at most {float(np.min(largest)):g}, "
            f"not {region.total:g}"
        )


def is_strictly_convex(loss: Loss) -> bool:
    """Return whether the minimiser is unique for every multiplier, and so changes continuously."""
    return any(
        weight > 0 and term.separable is not None and not term.has_kinks
        for weight, term in loss.leaves()
    )
