"""Posterior means of many trials, each under its own member of a one-parameter family."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.curve import CHUNK, DEGREE, POINTS, TO_SERIES, cells, evaluate, second_kind
from ldpopt.priors.density import CELL, Density, Noise

Array = NDArray[np.float64]

_POINTS, _TO_SERIES = second_kind(8)  # in the parameter
_TOLERANCE = 1e-11  # as for the curve of one prior


def many_means(
    member: Callable[[float], Density], counts: Array, parameters: Array, noise: Noise, n: int
) -> Array:
    """Return posterior means of counts (trials, d), row by row under ``member(parameters[row])``.

    Curves are computed for nine members on the range of the parameters and interpolated, as sums of exponentials, between
    them; a range on which that falls short is halved, few trials are computed one by one.
    """
    result = np.empty_like(counts)
    waiting = [np.argsort(parameters, kind="stable")]
    while waiting:
        rows = waiting.pop()
        found = (
            None
            if len(rows) <= 2 * len(_POINTS)
            else _interpolated(member, counts[rows], parameters[rows], noise, n)
        )
        if found is not None:
            result[rows] = found
        elif len(rows) > 2 * len(_POINTS):
            waiting += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        else:
            for row in rows:
                prior = member(float(parameters[row]))
                result[row] = prior.posterior_mean(counts[row], noise.sd, slope=noise.slope)
    return result


def _interpolated(
    member: Callable[[float], Density], counts: Array, parameters: Array, noise: Noise, n: int
) -> Array | None:
    """Return the posterior means, or None where polynomials of this degree do not reach them."""
    low, high = parameters[0], parameters[-1]
    width = CELL * noise.smallest(n)
    cell, left, _ = cells(counts.ravel(), width)
    points = left[:, None] + (POINTS + 1) * (width / 2)
    if high - low < 1e-12 * abs(low) or not (np.diff(points, axis=1) > 0).all():
        return None
    tables = [
        member(float(value)).moments_at(points.ravel(), noise).reshape(3, *points.shape)
        for value in low + (_POINTS + 1) * ((high - low) / 2)
    ]
    mean, evidence = (
        np.stack([table[0] for table in tables]),
        np.stack([table[2] for table in tables]),
    )
    weight = np.exp(evidence - _bilinear(evidence))
    sums = np.stack([weight, weight * mean])  # (2, parameters, cells, points)
    series = np.einsum("ap,qpcx,yx->qacy", _TO_SERIES, sums, TO_SERIES, optimize=True)
    smallest = _TOLERANCE * sums.min(axis=(1, 3))
    if (np.abs(series[:, -2:]).max(axis=(1, 3)) > smallest).any():
        return None
    rough = (np.abs(series[..., -2:]).max(axis=(1, 3)) > smallest).any(axis=0)
    if rough.any():
        return None
    share = np.polynomial.chebyshev.chebvander(
        (parameters - low) * (2 / (high - low)) - 1, len(_POINTS) - 1
    )
    result = np.empty(counts.shape)
    cell = cell.reshape(counts.shape)
    flat = np.moveaxis(series, 1, 0).reshape(len(_POINTS), -1)
    step = max(1, CHUNK // counts.shape[1])
    for begin in range(0, len(counts), step):
        rows = slice(begin, begin + step)
        trials = len(share[rows])
        own = (share[rows] @ flat).reshape(trials, 2, len(left), DEGREE + 1)
        own = np.moveaxis(own, 1, 0).reshape(2, -1, DEGREE + 1)
        at = (np.arange(trials)[:, None] * len(left) + cell[rows]).ravel()
        x = ((counts[rows] - left[cell[rows]]) * (2 / width) - 1).ravel()
        total, first = evaluate(own, at, x)
        result[rows] = (first / total).reshape(trials, -1)
    return result


def _bilinear(evidence: Array) -> Array:
    """Return the function that is linear in either argument and equals the log-evidence at each cell's corners."""
    along, across = (POINTS + 1) / 2, ((_POINTS + 1) / 2)[:, None, None]
    first = evidence[0, :, :1] * (1 - along) + evidence[0, :, -1:] * along
    last = evidence[-1, :, :1] * (1 - along) + evidence[-1, :, -1:] * along
    return np.asarray(first * (1 - across) + last * across)
