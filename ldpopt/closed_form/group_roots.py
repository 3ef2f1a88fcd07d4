"""Any separable convex loss on a box where disjoint groups have totals: one root per group.

Each group has a multiplier of its own, so that the conditions of ``one_root`` hold in each: the
roots of all groups and trials are found at once. A value in no group has the multiplier 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.one_root import (
    EXCESS,
    MISSED,
    adjacent,
    beyond_precision,
    differ,
    filled,
    in_proportion,
    root,
    scale_of,
    spanning,
)

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Minimiser = Callable[[Array], Array]


class Groups(NamedTuple):
    """Disjoint groups of values, none of them empty.

    Attributes
    ----------
    of_value
        The group of each value, shape (d,); as many as there are groups for values in none.
    totals
        The sum of each group, shape (groups,).
    """

    of_value: Index
    totals: Array

    @property
    def number(self) -> int:
        """The number of groups."""
        return len(self.totals)

    def sums(self, values: Array) -> Array:
        """Return the sum of each group, of shape (trials, groups), for values (trials, d)."""
        # Counting adds up in one pass, without a copy of the values in the order of the groups.
        size = self.number + 1
        rows = [np.bincount(self.of_value, row, size)[: self.number] for row in values]
        return np.reshape(rows, (len(values), self.number))

    def extremes(self, values: Array, of_two: np.ufunc) -> Array:
        """Return the largest or smallest value of each group, of shape (trials, groups)."""
        # Numbers of 16 bits are sorted by their digits, five times as fast.
        is_short = self.number < np.iinfo(np.int16).max
        number = self.of_value.astype(np.int16) if is_short else self.of_value
        order = np.argsort(number, kind="stable")
        counts = np.bincount(self.of_value, minlength=self.number + 1)[: self.number]
        starts = np.cumsum(counts) - counts
        if not len(starts):
            return np.empty((len(values), 0))
        by_group = values[:, order[: int(counts.sum())]]
        extreme: Array = of_two.reduceat(by_group, starts, axis=-1)
        return extreme

    def of_each(self, numbers: Array, other: float) -> Array:
        """Return the number of each value's group, shape (trials, d), from (trials, groups)."""
        padded = np.full((len(numbers), self.number + 1), other)
        padded[:, : self.number] = numbers
        return padded[:, self.of_value]


def group_roots(
    minimiser: Minimiser,
    bracket: tuple[Array, Array] | None,
    box: tuple[Array, Array],
    groups: Groups,
    trials: int,
) -> Array:
    """Return the frequencies at the multipliers where every group sums to its total.

    Parameters
    ----------
    minimiser
        From multipliers of each value, shape (trials, d), to f of the same shape, inside the box.
    bracket
        Bounds of the multipliers of all trials and groups, each of shape (trials, groups); None to
        look for them.
    box
        Lower and upper bounds of the values, each of shape (d,).
    groups
        The groups and their totals, between the sums of their bounds.
    trials
        The number of trials.

    Returns
    -------
    Values of shape (trials, d), on the box, whose sums by group differ from the totals by rounding.

    Raises
    ------
    PrecisionError
        If double precision cannot meet a total.
    InvalidInputError
        If no multiplier can.

    Notes
    -----
    Cost: about a dozen evaluations of f for all trials, whatever the number of groups.

    Examples
    --------
    >>> target = np.array([[0.75, 0.5, 0.5, 0.25]])
    >>> halves = Groups(np.array([0, 0, 1, 1]), np.array([0.5, 0.5]))
    >>> box = (np.zeros(4), np.ones(4))
    >>> group_roots(lambda mu: np.clip(target - mu, 0, 1), None, box, halves, 1).round(3)
    array([[0.375, 0.125, 0.375, 0.125]])
    """
    shape = (trials, groups.number)
    # The border allows totals that the bounds miss by rounding: no multiplier would reach these.
    sums = [groups.sums(np.atleast_2d(end)) for end in box]
    totals = np.broadcast_to(np.clip(groups.totals, *sums), shape)

    def excess_of_all(mu: Array) -> Array:
        return groups.sums(minimiser(groups.of_each(mu, 0.0))) - totals

    def aim(is_short: NDArray[np.bool_]) -> str:
        return f"group {int(np.argmax(is_short.any(axis=0)))} to its total"

    ends = spanning(excess_of_all, shape, aim) if bracket is None else bracket
    current = np.broadcast_to(ends[0], shape).ravel().copy()

    def excess(mu: Array, elements: NDArray[np.intp]) -> Array:
        # All groups are evaluated at each step: the others stay where they were last.
        places = elements.astype(np.intp)
        current[places] = mu
        return excess_of_all(current.reshape(shape)).ravel()[places]

    numbers = np.arange(current.size)
    flat_ends = (ends[0].ravel(), ends[1].ravel())
    mu = root(excess, flat_ends, numbers, EXCESS * scale_of(groups.totals)).reshape(shape)
    f = minimiser(groups.of_each(mu, 0.0))
    is_doubtful = not _is_met(np.abs(groups.sums(f) - totals), f, groups).all()

    def sums_of_each(values: Array) -> Array:
        return groups.of_each(groups.sums(values), 0.0)

    rest = groups.of_each(groups.totals - groups.sums(f), 0.0)
    f = in_proportion(f, box, rest, sums_of_each)
    if is_doubtful:
        # Beside a jump at 0, multipliers are the smallest doubles.
        with np.errstate(over="ignore"):
            low, high = adjacent(excess, flat_ends, numbers)
            ends_of_jumps = [groups.of_each(mu.reshape(shape), 0.0) for mu in (low, high)]
            largest, smallest = map(minimiser, ends_of_jumps)
        missing = groups.of_each(totals, 0.0) - sums_of_each(smallest)
        mixed = filled(smallest, largest, missing, sums_of_each)
        is_chosen = sums_of_each(differ(mixed, f).astype(np.float64)) > 0
        f = np.where(is_chosen, mixed, f)
    _require_totals(np.abs(groups.sums(f) - totals), f, groups)
    return f


def _is_met(missed: Array, f: Array, groups: Groups) -> NDArray[np.bool_]:
    """Return whether what the groups of f, shape (trials, d), miss is rounding."""
    # Written so that NaN counts as missed.
    is_met: NDArray[np.bool_] = missed <= MISSED * scale_of(groups.totals)
    if is_met.all():
        return is_met
    # Of values that cancel, a total is no measure.
    size = np.maximum(np.abs(groups.totals), groups.sums(np.abs(f)))
    return np.asarray(missed <= MISSED * size.max(axis=-1, keepdims=True))


def _require_totals(missed: Array, f: Array, groups: Groups) -> None:
    """Raise an error unless what the groups of f miss is rounding."""
    is_met = _is_met(missed, f, groups)
    if not is_met.all():
        trial, group = np.unravel_index(int(np.argmin(is_met)), is_met.shape)
        amount = float(missed[trial, group])
        raise beyond_precision(int(trial), f"the total of group {group}", amount)
