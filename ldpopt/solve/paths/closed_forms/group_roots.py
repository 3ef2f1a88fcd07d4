"""Any separable loss on bounds where disjoint groups have totals: the root of each multiplier.

Values of a group interact through its multiplier alone, and values outside all groups not at all,
unless the total of everything leaves them a sum: they are one more group then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.closed_form import Groups
from ldpopt.constraints import Constraint
from ldpopt.errors import InfeasibleError, InvalidInputError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.one_root import (
    STEEPEST,
    UNBOUNDED,
    reachable_bounds,
    slopes_at_bounds,
)
from ldpopt.solve.paths.closed_forms.registry import BOX_FORMS, Match, solves_family

Array = NDArray[np.float64]

# 0.1 + 0.2 + 0.7 is not 1 in floating point: by how much sums of bounds and totals may differ,
# relative, and still be equal.
_ROUNDING = 1e-9


class _Grouped(NamedTuple):
    """A problem taken apart: its groups, the constraint that states them, and its bounds."""

    groups: Groups
    constraint: Constraint
    rest: Formulation


def _taken_apart(formulation: Formulation, d: int) -> _Grouped | None:
    """Return groups and bounds; None for other problems, and for sums that contradict each other.

    Conflicts are left to the other paths, which name them.
    """
    stated = {c: c.disjoint_groups(d) for c in formulation.constraints}
    grouped = [c for c, groups in stated.items() if groups is not None]
    # Two constraints with groups could overlap: those problems are for other paths.
    if len(grouped) != 1:
        return None
    groups = stated[grouped[0]]
    rest = formulation.under(tuple(c for c in stated if c is not grouped[0]))
    if groups is None or not rest.is_box(d):
        return None
    total = rest.total(d)
    if total is not None:
        groups = _with_rest(groups, total)
    return None if groups is None else _Grouped(groups, grouped[0], rest)


def _with_rest(groups: Groups, total: float) -> Groups | None:
    """Return the groups with what the total leaves to the other values as one more."""
    of_groups = float(groups.totals.sum())
    left = total - of_groups
    # Values in no group have the number behind the last one.
    has_others = bool((groups.of_value == groups.number).any())
    if has_others:
        return Groups(groups.of_value, np.append(groups.totals, left))
    return groups if abs(left) <= _ROUNDING * max(abs(of_groups), abs(total)) else None


@solves_family
def roots_by_group(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return one root per group for a separable loss, or one projection for one of deviations."""
    apart = _taken_apart(formulation, estimate.d)
    if apart is None:
        return None
    if formulation.loss.family in BOX_FORMS:
        return Match("clip, then least squares by group", lambda: _projected(estimate, apart))
    if formulation.loss.separable is None:
        return None
    return Match("one root per group", lambda: _rooted(estimate, apart))


def _rooted(estimate: FrequencyEstimate, apart: _Grouped) -> Array:
    """Return the minimiser of a separable loss on bounds with totals of groups."""
    loss = apart.rest.loss
    separable = loss.separable
    assert separable is not None  # roots_by_group
    groups = apart.groups
    shape = estimate.frequencies.shape
    d = estimate.d
    lower, upper = reachable_bounds(apart.rest, estimate)
    _require_reachable(apart, *_on_support(estimate, apart, lower, upper))
    constants = loss.constants(estimate)
    # All trials as rows, each with a root per group.
    data = tuple(np.broadcast_to(x, shape).reshape(-1, d) for x in loss.data(estimate))

    def minimiser(mu: Array) -> Array:
        response = separable.response(mu, data, constants)
        return np.clip(response, lower, upper, out=response)

    count = int(np.prod(shape[:-1]))
    f = closed_form.group_roots(
        minimiser, _bracket(estimate, apart, lower, upper), (lower, upper), groups, count
    )
    if not np.isfinite(f).all():
        raise InvalidInputError(UNBOUNDED.format(loss))
    return f.reshape(shape)


def _bracket(
    estimate: FrequencyEstimate, apart: _Grouped, lower: Array, upper: Array
) -> tuple[Array, Array] | None:
    """Return between which multipliers the roots lie; None where bounds do not tell."""
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        return None
    groups = apart.groups
    slope_low, slope_high = slopes_at_bounds(apart.rest.loss, estimate, lower, upper)
    # At -max ℓ'(upper) every value of a group is at its upper bound, at -min ℓ'(lower) at its lower
    # one.
    low = -groups.extremes(slope_high, np.maximum)
    high = -groups.extremes(slope_low, np.minimum)
    return (
        np.nan_to_num(low, posinf=STEEPEST, neginf=-STEEPEST),
        np.nan_to_num(high, posinf=STEEPEST, neginf=-STEEPEST),
    )


def _on_support(
    estimate: FrequencyEstimate, apart: _Grouped, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Return the bounds of all trials, with 0 as upper bound where the loss asks for 0."""
    d = estimate.d
    support = apart.rest.loss.support(estimate)
    if support is None:
        return lower[None], upper[None]
    # Per trial, since another trial may keep other values at zero.
    tops = np.where(support.reshape(-1, d), upper, 0.0)
    return np.broadcast_to(lower, tops.shape), tops


def _require_reachable(apart: _Grouped, lower: Array, upper: Array) -> None:
    """Raise an error that names the first group whose bounds, of shape (m, d), miss its total."""
    crossed = lower > upper
    if crossed.any():
        v = int(np.argmax(crossed.any(axis=0)))
        raise InfeasibleError(
            f"no vector satisfies the constraints; these conflict: f[{v}] = 0, else "
            f"{apart.rest.loss!r} is infinite; f[{v}] >= {lower[:, v].max():g}"
        )
    groups = apart.groups
    smallest = groups.sums(lower).max(axis=0)
    largest = groups.sums(upper).min(axis=0)
    slack = _ROUNDING * np.maximum(1.0, np.abs(groups.totals))
    outside = (groups.totals < smallest - slack) | (groups.totals > largest + slack)
    if not outside.any():
        return
    group = int(np.argmax(outside))
    stated = apart.constraint.disjoint_groups(lower.shape[-1])
    # The group of the rest has no row in the constraint, and so no name there.
    is_rest = stated is not None and group == stated.number
    name = f"the values in no group sum to {groups.totals[group]:g}"
    if not is_rest:
        name = apart.constraint.row_name(group, lower.shape[-1])
    raise InfeasibleError(
        f"no vector satisfies the constraints; these conflict: {name}, but its bounds allow sums "
        f"from {smallest[group]:g} to {largest[group]:g}"
    )


def _projected(estimate: FrequencyEstimate, apart: _Grouped) -> Array:
    """Return the least squares solution by group, for losses that are one function of deviations.

    The minimum of the largest deviation is that of the largest of all groups.
    """
    target: Array = apart.rest.loss.target(estimate)  # type: ignore[attr-defined]  # of all in BOX_FORMS
    groups = apart.groups
    lower, upper = reachable_bounds(apart.rest, estimate)
    _require_reachable(apart, lower[None], upper[None])
    result = np.clip(target, lower, upper)
    for number, total in enumerate(groups.totals):
        group = np.flatnonzero(groups.of_value == number)
        result[..., group] = closed_form.least_absolute(
            target[..., group], lower[group], upper[group], float(total)
        )
    return result
