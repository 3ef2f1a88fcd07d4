"""Prices of values whose total variation along an order is bounded, from the gradient alone.

Let |y_i| <= ν for every difference f_{i+1} - f_i, and let p_i = c + y_i - y_{i-1}. Then for every s
with the same total and Σ |s_{i+1} - s_i| <= B

    p·(f - s) = Σ_i y_i (s_{i+1} - s_i) - Σ_i y_i (f_{i+1} - f_i) <= ν B - Σ_i y_i (f_{i+1} - f_i).

At a minimum p is the gradient of the values between their bounds, and y is ν or -ν wherever f
jumps. So a run of equal values that no bound holds has a sum of slopes that is linear in c and ν:
least squares over these runs finds the two, and running sums of the slopes find y.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.bounds.dual import EPS, usable

Array = NDArray[np.float64]

# A determinant below this, relative to its terms, does not tell c and ν apart: ν is then 0.
_DEPENDENT = 1e-12


class Prices(NamedTuple):
    """A price of every value, and what it costs.

    Attributes
    ----------
    price, error
        p, and what rounding may have changed in it, shape (trials, d); the latter has one number
        per trial where that is a bound for all.
    products
        An upper bound of p·(f - s) for all s of the set, shape (trials,), but for its rounding.
    """

    price: Array
    error: Array
    products: Array


class _Runs(NamedTuple):
    """Runs of equal values of all trials, one after the other.

    Attributes
    ----------
    start
        Where each begins in the flattened array.
    length, trial
        How many values it has, and of which trial it is.
    turn
        The sign of the jump at its end less that at its beginning; there is none at either end of
        a trial.
    """

    start: NDArray[np.int64]
    length: Array
    trial: NDArray[np.int64]
    turn: Array


def variation_prices(
    f: Array, slope: Array, freedom: Array, bound: float, total: float | None, near: float
) -> Prices:
    """Return the prices where Σ |f_{i+1} - f_i| is at most a bound.

    Parameters
    ----------
    f, slope, freedom
        Points, gradients and distances to the nearest bound, shape (trials, d).
    bound, total
        B, and what the values sum to, if anything.
    near
        Differences and distances up to this part of the largest value count as none.
    """
    from ldpopt.solve.certificate.bounds.variation_kernel import running_pulls

    jumps = np.diff(f, axis=-1)
    shortest = near * np.max(np.abs(f), axis=-1, keepdims=True)
    signs = np.where(np.abs(jumps) > shortest, np.sign(jumps), 0.0)
    runs = _runs_of(signs)
    level, limit = _level_and_limit(runs, slope, freedom > shortest, has_total=total is not None)
    pulls = np.empty(signs.shape)
    running_pulls(usable(slope - level[:, None]), signs, limit, pulls)
    sides = np.pad(pulls, ((0, 0), (1, 1)))
    price = level[:, None] + sides[:, 1:] - sides[:, :-1]
    error = 4 * EPS * (np.abs(level)[:, None] + np.abs(sides[:, 1:]) + np.abs(sides[:, :-1]))
    used = np.sum(pulls * jumps, axis=-1)
    sizes = limit * abs(bound) + np.sum(np.abs(pulls * jumps), axis=-1)
    # The two cancel where the bound holds.
    products = limit * bound - used + (f.shape[-1] + 8) * EPS * sizes
    if total is not None:
        beyond = np.abs(np.sum(f, axis=-1) - total)
        beyond += (f.shape[-1] + 2) * EPS * np.sum(np.abs(f), axis=-1)
        products = products + np.abs(level) * beyond
    # A point of too much variation would make them negative: 0 is an upper bound too.
    return Prices(price, error, np.maximum(products, 0.0))


def _runs_of(signs: Array) -> _Runs:
    """Return the runs between jumps, whose signs are given, 0 for none."""
    trials = len(signs)
    d = signs.shape[-1] + 1
    begins = np.ones((trials, d), dtype=bool)
    begins[:, 1:] = signs != 0
    start = np.flatnonzero(begins)
    before = np.zeros((trials, d))
    before[:, 1:] = signs
    # The jump at the end of a run is that before the next one, which has none in a new trial.
    at_begin = before.ravel()[start]
    at_end = np.append(at_begin[1:], 0.0)
    length = np.diff(np.append(start, trials * d)).astype(np.float64)
    return _Runs(start, length, start // d, at_end - at_begin)


def _level_and_limit(
    runs: _Runs, slope: Array, is_open: NDArray[np.bool_], *, has_total: bool
) -> tuple[Array, Array]:
    """Return c and ν >= 0 of each trial, by least squares over the runs that no bound holds.

    Each run states that its slopes sum to length c + turn ν.
    """
    trials = len(slope)
    is_free = np.logical_and.reduceat(is_open.ravel(), runs.start)
    sums = usable(np.add.reduceat(slope.ravel(), runs.start))

    def added(terms: Array) -> Array:
        total = np.bincount(runs.trial, np.where(is_free, terms, 0.0), trials)
        return np.asarray(total, dtype=np.float64)

    lengths = added(runs.length)
    turns = added(runs.turn)
    squares = added(runs.turn**2 / runs.length)
    slopes = added(sums)
    turned = added(runs.turn * sums / runs.length)
    if not has_total:
        return np.zeros(trials), np.maximum(_quotient(turned, squares, squares > 0), 0.0)
    determinant = lengths * squares - turns**2
    is_clear = determinant > _DEPENDENT * lengths * squares
    limit = np.maximum(_quotient(lengths * turned - turns * slopes, determinant, is_clear), 0.0)
    return _quotient(slopes - turns * limit, lengths, lengths > 0), limit


def _quotient(numerator: Array, denominator: Array, is_used: NDArray[np.bool_]) -> Array:
    """Return quotients, 0 where they are not used."""
    return np.divide(numerator, denominator, out=np.zeros(numerator.shape), where=is_used)
