"""Least squares with a price: norms of groups, and deviations from a reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.one_root import doubled_bracket, one_root

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def group_norms(
    f: Array,
    groups: Sequence[Index],
    prices: Array,
    total: float | None = None,
    *,
    nonnegative: bool = False,
) -> Array:
    """Return the minimiser of ½ ‖f' - f‖² + Σ_g price_g ‖f'_g‖ with disjoint groups.

    Without a total each group shrinks towards 0 by its price, after its negative values have become
    0 where none may be negative. A total adds one multiplier to all values, whose root is found.

    Parameters
    ----------
    f
        Values of shape (..., d).
    groups
        Index arrays without common members.
    prices
        One number >= 0 per group.
    total
        The sum to reach, not negative if no value may be; None for none.
    nonnegative
        Whether no value may be below zero.

    Notes
    -----
    Cost: a few passes without a total; with one as ``one_root``.

    Examples
    --------
    >>> group_norms(np.array([3.0, 4.0, 1.0]), [np.array([0, 1])], np.array([2.5]))
    array([1.5, 2. , 1. ])
    """
    rows = f.reshape(-1, f.shape[-1])
    d = rows.shape[1]
    # Values in no group are a last group without a price.
    group_of = np.full(d, len(groups))
    for i, group in enumerate(groups):
        group_of[group] = i
    price_of = np.append(prices, 0.0)
    order = np.argsort(group_of, kind="stable")
    used, starts = np.unique(group_of[order], return_index=True)

    def shrunk(mu: Array, trials: NDArray[np.intp]) -> Array:
        moved = rows[trials] - mu
        if nonnegative:
            np.maximum(moved, 0.0, out=moved)
        norms = np.zeros((len(moved), len(price_of)))
        norms[:, used] = np.sqrt(np.add.reduceat(moved[:, order] ** 2, starts, axis=1))
        # A group whose norm is at most its price is zero.
        left = np.maximum(norms - price_of, 0.0)
        factors = np.divide(left, norms, out=np.zeros(norms.shape), where=norms > 0)
        moved *= factors[:, group_of]
        return moved

    if total is None:
        return shrunk(np.zeros((len(rows), 1)), np.arange(len(rows))).reshape(f.shape)
    lowest = 0.0 if nonnegative else -np.inf
    box = (np.full(d, lowest), np.full(d, np.inf))
    bracket = doubled_bracket(shrunk, total, len(rows))
    return one_root(shrunk, bracket, box, total).reshape(f.shape)


def towards_reference(f: Array, reference: Array, price: float, total: float) -> Array:
    """Return the minimiser of ½ ‖f' - f‖² + price · Σ |f'_v - r_v| with f' >= 0 and Σ f' = total.

    At the multiplier μ of the total a value is r where f - μ is within the price of r, and else
    f - μ moved towards r by the price, but not below 0. So the sum falls along straight pieces,
    whose ends are sorted.

    Parameters
    ----------
    f
        Values of shape (..., d).
    reference
        r, no number negative, shape (d,).
    price
        A number >= 0.
    total
        The sum to reach, >= 0.

    Notes
    -----
    Cost: one sort of 3 d numbers per trial.

    Examples
    --------
    >>> towards_reference(np.array([0.75, 0.25, 0.25]), np.array([0.5, 0.25, 0.25]), 0.125, 1.0)
    array([0.5 , 0.25, 0.25])
    """
    rows = f.reshape(-1, f.shape[-1])
    d = rows.shape[1]
    # A value falls, rests at r, falls again, and rests at 0 from there on.
    offset = rows - reference
    ends = np.concatenate([offset - price, offset + price, rows + price], axis=1)
    # By how much the number of falling values changes at each end.
    change = np.repeat([-1.0, 1.0, -1.0], d)
    order = np.argsort(ends, axis=1, kind="stable")
    ends = np.take_along_axis(ends, order, axis=1)
    falling = d + np.cumsum(change[order], axis=1)
    # The sum at the first end, where all values still fall, and what is left of it at the others.
    at_first = (rows.sum(axis=1) - d * (price + ends[:, 0]))[:, None]
    steps = falling[:, :-1] * np.diff(ends, axis=1)
    left = np.concatenate([at_first, at_first - np.cumsum(steps, axis=1)], axis=1)
    # The last end from which the sum is not below the total; before the first all values fall.
    last = np.sum(left >= total, axis=1) - 1
    place = np.maximum(last, 0)[:, None]
    start = np.take_along_axis(ends, place, axis=1)
    surplus = np.take_along_axis(left, place, axis=1) - total
    slope = np.take_along_axis(falling, place, axis=1)
    slope = np.where(last[:, None] < 0, d, slope)
    mu = start + surplus / np.maximum(slope, 1.0)
    moved = rows - mu - reference
    distance = np.maximum(np.abs(moved) - price, 0.0)
    nearest = reference + np.sign(moved) * distance
    result: Array = np.maximum(nearest, 0.0)
    # What rounding has left is shared by the values that move.
    moving = (result > 0) & (distance > 0)
    missing = total - result.sum(axis=1, keepdims=True)
    count = np.maximum(moving.sum(axis=1, keepdims=True), 1)
    result += np.where(moving, missing / count, 0.0)
    return result.reshape(f.shape)
