"""Squares in a ball around a reference, compiled. Importing this imports numba.

λ is the price of the ball and μ the multiplier of the total. In a ball of the Kullback-Leibler
divergence, f = r eˢ where s solves w r eˢ + λ s = w y - μ: the condition of a minimum, an
increasing and convex equation in s. In one of weighted deviations, f - r is (w (y - r) - μ)/w, by
λ k/w nearer to 0, and clipped. Both multipliers maximise the Lagrangian's minimum, which is concave
and smooth: Newton's steps in two unknowns, each of which reads the vectors once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled, entry

Array = NDArray[np.float64]
# Row, weights and reference; for deviations their weights k too, and the lower and upper bounds.
Data = tuple[Array, Array, Array, Array, Array, Array]

# Newton's steps for s: one or two from where the previous multipliers left it, and a dozen from
# afar. What takes more is at the last bit already.
_INNER_STEPS = 60
# Of s, at which its search ends: the next step of Newton's method would be its square.
_SMALL_STEP = 1e-9
# Below it the divergence of a value is taken by its series: the plain formula would cancel.
_SERIES = 0.02
# Newton's steps of the multipliers. Eight are usual from a sample's multipliers.
_STEPS = 200
# A step is halved until the dual rises by so much of what its slope promises (Armijo 1966).
_RISE = 1e-4
_HALVINGS = 40
# The price stays positive: a step takes it down to a tenth at the most.
_LOWEST_SHARE = 0.1
# Of total and radius, at which the search ends; a sum of d terms is known to √d last bits.
_EXACT = 1e-14
_EPS = 2.0**-52
# Values from which the multipliers are first looked for on a part of them.
_LONG = 1 << 15
_SAMPLE = 1 << 12
# Few values of many may deviate in the end: a part must have some of them.
_LARGE_SAMPLE = 1 << 16
# Of the mean slope at the reference, the price from which that of deviations is looked for.
_LOW_PRICE = 1e-2


@compiled
def _log_ratio(height: float, weighted: float, price: float, start: float) -> float:
    """Return s with weighted · eˢ + price · s = height, from a start."""
    s = start
    for _ in range(_INNER_STEPS):
        term = weighted * math.exp(s)
        step = (term + price * s - height) / (term + price)
        s -= step
        if abs(step) <= _SMALL_STEP * max(1.0, abs(s)):
            break
    return s


@compiled
def _first_guess(height: float, weighted: float, price: float) -> float:
    """Return an s from which Newton's steps do not overflow."""
    # The left side is above the height at each of these: its two terms are not negative there.
    if height > weighted:
        return min(math.log(height / weighted), height / price)
    return min(0.0, height / price)


@compiled
def _divergence(s: float) -> float:
    """Return s eˢ - eˢ + 1, which is the divergence of one value over its reference."""
    if abs(s) < _SERIES:
        series = 1 / 30 + s * (1 / 144 + s / 840)
        return s * s * (0.5 + s * (1 / 3 + s * (0.125 + s * series)))
    power = math.exp(s)
    return s * power - power + 1


@compiled
def _divergences(
    data: Data, ratios: Array, price: float, mu: float
) -> tuple[float, float, float, float, float, float]:
    """Return sum, divergence and Lagrangian at two multipliers, and the three second derivatives.

    ``ratios`` holds s of each value: as a start, and afterwards as found.
    """
    row, weights, reference, _, _, _ = data
    mass = 0.0
    divergence = 0.0
    lagrangian = 0.0
    by_mu = 0.0
    by_both = 0.0
    by_price = 0.0
    for v in range(len(row)):
        r = reference[v]
        # Where r is 0 the value is 0, whatever the multipliers.
        if r <= 0.0:
            continue
        weight = weights[v]
        s = _log_ratio(weight * row[v] - mu, weight * r, price, ratios[v])
        ratios[v] = s
        f = r * math.exp(s)
        beyond = r * _divergence(s)
        mass += f
        divergence += beyond
        lagrangian += 0.5 * weight * f * (f - 2 * row[v]) + price * beyond + mu * f
        bend = f / (weight * f + price)
        by_mu += bend
        by_both += bend * s
        by_price += bend * s * s
    return mass, divergence, lagrangian, by_mu, by_both, by_price


@compiled
def _deviations(
    data: Data, point: Array, price: float, mu: float
) -> tuple[float, float, float, float, float, float]:
    """Return the same of weighted deviations; ``point`` holds f afterwards."""
    row, weights, reference, costs, lower, upper = data
    mass = 0.0
    distance = 0.0
    lagrangian = 0.0
    by_mu = 0.0
    by_both = 0.0
    by_price = 0.0
    for v in range(len(row)):
        weight = weights[v]
        r = reference[v]
        cost = costs[v]
        pull = weight * (row[v] - r) - mu
        f = r
        # What pulls less than the price stays at its reference.
        if abs(pull) > price * cost:
            way = 1.0 if pull > 0.0 else -1.0
            free = r + (pull - way * price * cost) / weight
            f = min(max(free, lower[v]), upper[v])
            if f == free:
                by_mu += 1 / weight
                by_both += way * cost / weight
                by_price += cost * cost / weight
        beyond = cost * abs(f - r)
        mass += f
        distance += beyond
        lagrangian += 0.5 * weight * f * (f - 2 * row[v]) + price * beyond + mu * f
        point[v] = f
    return mass, distance, lagrangian, by_mu, by_both, by_price


@compiled
def _looked_at(
    data: Data, state: Array, price: float, mu: float, is_divergence: bool
) -> tuple[float, float, float, float, float, float]:
    """Return what the ball in question has at two multipliers."""
    if is_divergence:
        return _divergences(data, state, price, mu)
    return _deviations(data, state, price, mu)


@compiled
def _guess_ratios(data: Data, ratios: Array, start: tuple[float, float]) -> None:
    """Write where the search for each value's ratio begins, at the first price and μ."""
    row, weights, reference, _, _, _ = data
    price, mu = start
    for v in range(len(row)):
        weight = weights[v]
        r = reference[v]
        if r > 0.0:
            ratios[v] = _first_guess(weight * row[v] - mu, weight * r, price)


@compiled
def _newton_step(
    excess: float, beyond: float, by_mu: float, by_both: float, by_price: float, price: float
) -> tuple[float, float]:
    """Return Newton's steps of price and μ, of which the price stays positive."""
    # The dual's gradient is (excess, beyond), and its second derivatives are minus these.
    determinant = by_mu * by_price - by_both * by_both
    if not determinant > 0.0:
        # All s are equal: only the total can be mended.
        step_mu = excess / by_mu
        step_price = 0.0
    else:
        step_mu = (by_price * excess - by_both * beyond) / determinant
        step_price = (by_mu * beyond - by_both * excess) / determinant
    if step_price < -(1 - _LOWEST_SHARE) * price:
        # The best step of those that keep the price: a share of the whole step would hardly
        # move μ where the price is almost 0, and end far from the answer.
        step_price = -(1 - _LOWEST_SHARE) * price
        step_mu = (excess - by_both * step_price) / by_mu
    return step_price, step_mu


@compiled
def _multipliers(
    data: Data,
    state: Array,
    total: float,
    radius: float,
    start: tuple[float, float],
    is_divergence: bool,
) -> tuple[float, float, bool]:
    """Return price and μ at which one row has its total and its distance, and whether it has."""
    price, mu = start
    if is_divergence:
        _guess_ratios(data, state, start)
    exact = max(_EXACT, _EPS * math.sqrt(len(state)))
    look = _looked_at(data, state, price, mu, is_divergence)
    for _ in range(_STEPS):
        mass, distance, lagrangian, by_mu, by_both, by_price = look
        excess = mass - total
        beyond = distance - radius
        if abs(excess) <= exact * total and abs(beyond) <= exact * radius:
            return price, mu, True
        step_price, step_mu = _newton_step(excess, beyond, by_mu, by_both, by_price, price)
        rise = excess * step_mu + beyond * step_price
        share = 1.0
        dual = lagrangian - mu * total - price * radius
        is_better = False
        for _ in range(_HALVINGS):
            ahead_price = price + share * step_price
            ahead_mu = mu + share * step_mu
            look = _looked_at(data, state, ahead_price, ahead_mu, is_divergence)
            ahead = look[2] - ahead_mu * total - ahead_price * radius
            shrinks = abs(look[0] - total) < abs(excess) and abs(look[1] - radius) < abs(beyond)
            # Near the end the dual is flat to its last bit, and the gradient decides.
            if ahead >= dual + _RISE * share * rise or shrinks:
                is_better = True
                break
            share *= 0.5
        if not is_better:
            break
        price = ahead_price
        mu = ahead_mu
    look = _looked_at(data, state, price, mu, is_divergence)
    # Rounding may end the search before the last bits: a thousand of them are still a solution.
    is_near = abs(look[0] - total) <= 1e3 * _EXACT * total
    return price, mu, is_near and abs(look[1] - radius) <= 1e3 * _EXACT * radius


@entry("result")
def divergence_rows(
    rows: Array,
    weights: Array,
    reference: Array,
    total: float,
    radius: float,
    result: Array,
) -> NDArray[np.bool_]:
    """Write the minimiser of ½ Σ w (f - y)² on the edge of a divergence ball for each row y.

    Parameters
    ----------
    rows
        y, shape (trials, d), whose minimisers without the ball are outside of it.
    weights, reference
        w > 0 and r >= 0, shape (d,).
    total, radius
        Σ f > 0, and Σ f log(f/r) - f + r > 0, more than the smallest with this total.
    result
        Where the minimisers go, shape (trials, d).

    Returns
    -------
    Which rows were solved, shape (trials,): of the others rounding hides the multipliers.
    """
    d = rows.shape[1]
    is_solved = np.empty(len(rows), np.bool_)
    ratios = np.zeros(d)
    stride = max(d // _SAMPLE, 1)
    offset = stride // 2
    nothing = np.empty(0)
    held = 0.0
    for v in range(d):
        held += reference[v]
    for trial in range(len(rows)):
        row = rows[trial]
        # Of a uniform vector the price would be of the order of its values.
        start = (total / d, 0.0)
        if d >= _LONG:
            # A sample that has its share of the total, as measured by the reference, and of the
            # ball: its multipliers are those of all values but for chance.
            part = reference[offset::stride].copy()
            share = part.sum() / held
            looked = row[offset::stride].copy(), weights[offset::stride].copy(), part
            price, mu, is_near = _multipliers(
                (*looked, nothing, nothing, nothing),
                ratios[: len(part)],
                total * share,
                radius * share,
                start,
                True,
            )
            if share > 0.0 and is_near:
                start = (price, mu)
        data = row, weights, reference, nothing, nothing, nothing
        price, mu, is_near = _multipliers(data, ratios, total, radius, start, True)
        for v in range(d):
            result[trial, v] = reference[v] * math.exp(ratios[v]) if reference[v] > 0.0 else 0.0
        is_solved[trial] = is_near
    return is_solved


@compiled
def _low_start(data: Data) -> tuple[float, float]:
    """Return a price at which most values are free, and a μ of 0."""
    row, weights, reference, costs, _, _ = data
    slope = 0.0
    cost = 0.0
    for v in range(len(row)):
        slope += weights[v] * abs(row[v] - reference[v])
        cost += costs[v]
    return _LOW_PRICE * slope / cost, 0.0


@entry("result")
def deviation_rows(
    rows: Array,
    weights: Array,
    reference: Array,
    costs: Array,
    lower: Array,
    upper: Array,
    total: float,
    radius: float,
    result: Array,
) -> NDArray[np.bool_]:
    """Write the minimiser of ½ Σ w (f - y)² at Σ k |f - r| = radius on a box, for each row y.

    Parameters
    ----------
    rows
        y, shape (trials, d), whose minimisers without the ball are outside of it.
    weights, costs
        w > 0 and k > 0, shape (d,).
    reference, lower, upper
        r, within bounds of shape (d,), infinite ones too.
    total, radius
        Σ f and Σ k |f - r|, more than the smallest with this total.
    result
        Where the minimisers go, shape (trials, d).

    Returns
    -------
    Which rows were solved, shape (trials,): of the others rounding hides the multipliers.
    """
    d = rows.shape[1]
    is_solved = np.empty(len(rows), np.bool_)
    stride = max(d // _LARGE_SAMPLE, 1)
    moved = total - reference.sum()
    for trial in range(len(rows)):
        data = rows[trial], weights, reference, costs, lower, upper
        start = _low_start(data)
        state = result[trial]
        is_near = False
        if stride > 1:
            row = rows[trial, ::stride].copy()
            part = reference[::stride].copy()
            bounds = lower[::stride].copy(), upper[::stride].copy()
            looked = row, weights[::stride].copy(), part, costs[::stride].copy()
            share = len(row) / d
            price, mu, is_near = _multipliers(
                (*looked, *bounds),
                state[: len(row)],
                part.sum() + moved * share,
                radius * share,
                start,
                False,
            )
            if is_near:
                near = price, mu
                _, _, is_near = _multipliers(data, state, total, radius, near, False)
        if not is_near:
            _, _, is_near = _multipliers(data, state, total, radius, start, False)
        is_solved[trial] = is_near
    return is_solved
