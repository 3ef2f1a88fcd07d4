"""Orders by pooling: before everything else where that may be, else inside the root of a total.

*Pool first.* Let the loss pool by means (``losses.pooling``) and all values have the same bounds.
Then the solution under an order is the solution without it for the pooled data: pooling minimises
every loss of the family at once, a multiplier of the total changes nothing but Φ, and a common clip
keeps the order and what is pooled. So under an order norm-sub stays norm-sub, and a likelihood's
root stays that root.

*Bounds of each value* are no common clip: a block then takes the value nearest to its mean that all
its members may have, and which values make a block depends on the multiplier of the total. They are
pooled anew at every step of its root. So are weighted squares, which the total moves each by its
own amount.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, validate
from ldpopt.constraints.isotonic import ForestOrder, Isotonic, joined
from ldpopt.errors import InfeasibleError, InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.pooling import Pooling
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.lookup import closed_form_for
from ldpopt.solve.paths.closed_forms.one_root import (
    STEEPEST,
    UNBOUNDED,
    bracket,
    finite_bounds,
    reachable_bounds,
)
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family

Array = NDArray[np.float64]

# Frequencies so many times their data are those of a loss that falls for ever: divisions by 0 are
# cut there.
_HUGE = 1e100
# By how much rounding may put a total outside what bounds allow, and a bound beyond another.
_ROUNDING = 1e-9


class Ordered(NamedTuple):
    """A problem taken apart: its order, and all that is left of it."""

    order: Isotonic
    rest: Formulation


def taken_apart(formulation: Formulation, d: int) -> Ordered | None:
    """Return the order and the rest, bounds and at most one total; None for other problems."""
    stated = {c: c.isotonic(d) for c in formulation.constraints}
    orders = [order for order in stated.values() if order is not None]
    if not orders:
        return None
    others = tuple(c for c, order in stated.items() if order is None)
    rest = formulation.under(others)
    # Anything beside bounds and a total would tie pooled values in a way of its own.
    order = joined(orders, d) if rest.is_box(d) else None
    return None if order is None else Ordered(order, rest)


@solves_family
def pool_first(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the form without the order, for pooled data, if one bound holds for all values."""
    d = estimate.d
    apart = taken_apart(formulation, d)
    # Different bounds could cut a block that pooling has joined.
    if apart is None or not has_common_bounds(apart.rest, d):
        return None
    pooling = formulation.loss.pooling(estimate)
    # A total moves values by amounts of their own, unless the loss is the same for all.
    if pooling is None or not (pooling.is_common or apart.rest.total(d) is None):
        return None
    if pooling.weights is not None and not apart.order.takes_weights:
        return None
    loss = formulation.loss.after_pooling
    rest = apart.rest.with_loss(loss)
    form = closed_form_for(rest, estimate)
    if form is None:
        return None

    def evaluate() -> Array:
        _require_doubles(pooling, rest.loss)
        pooled = apart.order.project(pooling.values, pooling.weights)
        if rest.total(d) is None:
            return _clipped(pooling, pooled, apart.rest, estimate)
        # From here on the order holds by itself: what follows moves all values of a block alike.
        start = pooling.without_order(estimate, pooled)
        match = closed_form_for(rest, start)
        assert match is not None  # the form of the same types, for the estimate as it was
        return match.evaluate()

    name = apart.order.name
    # "base" leaves the pooled values as they are, and would say nothing.
    return Match(name if form.name == "base" else f"{name}, {form.name}", evaluate)


def _clipped(
    pooling: Pooling, pooled: Array, rest: Formulation, estimate: FrequencyEstimate
) -> Array:
    """Return the frequencies of pooled data between bounds: without a total there is no root."""
    # Without a total its multiplier is 0.
    at_rest = np.zeros(1)
    lower, upper = reachable_bounds(rest, estimate)
    f = np.clip(pooling.frequencies(at_rest, pooling.levels(at_rest, pooled)), lower, upper)
    _require_minimum(f, pooling, rest)
    return on_support(f, estimate, rest)


def _require_doubles(pooling: Pooling, loss: Loss) -> None:
    """Raise an error where the data that a loss pools are beyond the range of doubles."""
    if not np.isfinite(pooling.values.max()):
        raise InvalidInputError(
            f"{loss!r} needs numbers beyond the range of doubles for such estimates: state them in "
            "a larger unit"
        )


def _require_minimum(f: Array, pooling: Pooling, rest: Formulation) -> None:
    """Raise an error where a loss falls for ever."""
    largest = float(np.max(np.abs(pooling.values)))
    # NaN would hide from ">".
    if not (np.abs(f) < _HUGE * max(1.0, largest)).all():
        raise InvalidInputError(UNBOUNDED.format(rest.loss))


def has_common_bounds(rest: Formulation, d: int) -> bool:
    """Return whether one lower and one upper bound hold for all values."""
    region = rest.region(d)
    # Mostly counts tell, without a pass over the bounds.
    are_zeros = region.lower_count == d and region.lower_is_zero
    has_common_lower = are_zeros or bool(np.all(region.lower == region.lower[0]))
    has_common_upper = not region.upper_count or bool(np.all(region.upper == region.upper[0]))
    return has_common_lower and has_common_upper


@solves_family
def pool_in_the_root(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return pooling between bounds inside the root of the total's multiplier."""
    d = estimate.d
    apart = taken_apart(formulation, d)
    order = None if apart is None else apart.order.forest
    if apart is None or order is None:
        return None
    pooling = formulation.loss.pooling(estimate)
    if pooling is None:
        return None
    # Only the name depends on it here: the root is chosen when the form is evaluated.
    has_total = apart.rest.total(d) is not None
    name = "pava between bounds, one root" if has_total else "pava between bounds"
    return Match(name, lambda: _pooled_between_bounds(estimate, apart.rest, order, pooling))


def _pooled_between_bounds(
    estimate: FrequencyEstimate, rest: Formulation, order: ForestOrder, pooling: Pooling
) -> Array:
    """Return the minimiser of a loss that pools by means, under an order, bounds and a total."""
    _require_doubles(pooling, rest.loss)
    d = estimate.d
    shape = estimate.frequencies.shape
    region = rest.region(d)
    stated = reachable_bounds(rest, estimate)
    lower, upper = order.bounds(*stated)
    require_bounds_in_order(rest, order, stated, (lower, upper))
    values = pooling.values.reshape(-1, d)

    def minimiser(mu: Array, trials: NDArray[np.intp]) -> Array:
        levels = pooling.levels(mu, values[trials])
        ends = (pooling.levels_at(mu, lower), pooling.levels_at(mu, upper))
        pooled = order.bounded(levels, pooling.weights, *ends)
        f = pooling.frequencies(mu, pooled)
        # The pooled levels are nobody else's: without fresh memory the clip costs half.
        return np.clip(f, lower, upper, out=f)

    trials = np.arange(len(values))
    if region.total is None:
        f = minimiser(np.zeros((len(values), 1)), trials)
        _require_minimum(f, pooling, rest)
        return on_support(f.reshape(shape), estimate, rest)
    lower, upper = finite_bounds(lower, upper, region.total)
    _require_support(estimate, rest, minimiser)
    ends = bracket(rest.loss, estimate, (lower, upper), minimiser, region.total)
    is_plain = pooling.is_of_squares and pooling.weights is None
    slope = None
    if is_plain and order.chain is not None:
        slope = partial(_free_on_chain, lower[order.chain], upper[order.chain], order.chain)
    f = closed_form.one_root(minimiser, ends, (lower, upper), region.total, slope)
    return on_support(f.reshape(shape), estimate, rest)


def _free_on_chain(lower: Array, upper: Array, chain: NDArray[np.int64] | slice, f: Array) -> float:
    """Return how many values of one trial are in blocks that are off their bounds.

    Bounds fall along the chain too: of a block the first value has the tightest lower bound, and
    the last one the tightest upper bound.
    """
    along = f[0][chain]
    is_last = np.append(along[1:] != along[:-1], True)
    last = np.flatnonzero(is_last)
    first = np.append(0, last[:-1] + 1)
    is_free = (lower[first] < along[first]) & (along[last] < upper[last])
    return float(np.sum((last - first + 1)[is_free]))


def require_bounds_in_order(
    rest: Formulation,
    order: ForestOrder,
    stated: tuple[Array, Array],
    tightened: tuple[Array, Array],
) -> None:
    """Raise an error that names the chain if bounds contradict the order, or the total does.

    Bounds are pairs (lower, upper): those of each value, and what the order makes of them.
    """
    lower, upper = tightened
    region = rest.region(len(lower))
    # Bounds that the order has tightened carry its rounding.
    crossed = lower > upper + _ROUNDING * np.maximum(1.0, np.abs(upper))
    if crossed.any():
        v = int(np.argmax(crossed))
        low, high = stated
        chain = order.chain_between(v, low == lower[v], high == upper[v])
        # One value may be both, where the loss holds it.
        first, last = chain.split(" >= ")[0], chain.split(" >= ")[-1]
        raise InfeasibleError(
            f"bounds and order contradict each other: {chain}, but {first} <= {upper[v]:g} and "
            f"{last} >= {lower[v]:g}"
        )
    total = region.total
    smallest = float(lower.sum())
    largest = float(upper.sum())
    if total is not None and not smallest - _ROUNDING <= total <= largest + _ROUNDING:
        raise InfeasibleError(
            f"a sum of {total:g} cannot be met: the bounds and the order allow sums from "
            f"{smallest:g} to {largest:g}"
        )


def _require_support(
    estimate: FrequencyEstimate, rest: Formulation, minimiser: closed_form.Minimiser
) -> None:
    """Raise an error if values that the loss keeps at zero leave too little for the total."""
    if rest.loss.support(estimate) is None:
        return
    total = rest.total(estimate.d)
    trials = np.arange(int(np.prod(estimate.frequencies.shape[:-1])))
    # The most negative price lifts every value as far as it can go.
    largest = minimiser(np.full((len(trials), 1), -STEEPEST), trials).sum(axis=-1)
    if total is not None and np.any(largest < total - _ROUNDING * max(1.0, abs(total))):
        raise InfeasibleError(
            f"no vector satisfies the constraints: {rest.loss!r} keeps values at zero, and the "
            f"order those below them; the others sum to {float(largest.min()):g} at most, "
            f"not {total:g}"
        )


def on_support(f: Array, estimate: FrequencyEstimate, rest: Formulation) -> Array:
    """Return f; raises an error if it is positive where the loss asks for 0."""
    support = rest.loss.support(estimate)
    if support is None:
        return f
    forced = ~support & (f > 0)
    if forced.any():
        *_, v = validate.first(forced)
        raise InfeasibleError(
            f"no vector satisfies the constraints; these conflict: f[{v}] = 0, else "
            f"{rest.loss!r} is infinite; bounds, order and total ask for more"
        )
    return f
