"""Posterior means of many trials, each under its own member of a one-parameter family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.counts import EstimatedCounts
from ldpopt.priors.curve import (
    CELL,
    CHUNK,
    DEGREE,
    POINTS,
    TO_SERIES,
    TOLERANCE,
    Cells,
    cell_points,
    chebyshev,
    evaluated,
)
from ldpopt.priors.density import Density

Array = NDArray[np.float64]
Member = Callable[[float], Density]

_NODES, _TO_SERIES = chebyshev(8)  # in the parameter
_FEW = 2 * len(_NODES)  # trials that are computed one by one: interpolation costs nine curves
_SAME = 1e-12  # relative width below which a range of parameters has no distinct nodes


def means_by_member(member: Member, estimated: EstimatedCounts, parameters: Array) -> Array:
    """Return posterior means of counts, each trial under its own member of a family.

    Curves are computed for nine members on the range of the parameters, and interpolated between
    them as sums of exponentials. A range on which that falls short of the tolerance is halved.

    Parameters
    ----------
    member
        From a parameter to the prior.
    estimated
        Counts of shape (trials, d).
    parameters
        The parameter of each trial, shape (trials,).

    Returns
    -------
    Array of shape (trials, d).
    """
    result = np.empty_like(estimated.values)
    # Sorted, so that the two halves of a range share no parameter.
    waiting = [np.argsort(parameters, kind="stable")]
    while waiting:
        rows = waiting.pop()
        if len(rows) <= _FEW:
            for row in rows:
                prior = member(float(parameters[row]))
                posterior = prior._posterior(estimated.values[row], estimated.noise)
                result[row] = posterior.mean
            continue
        part = replace(estimated, values=estimated.values[rows])
        means = _interpolated(member, part, parameters[rows])
        if means is None:
            half = len(rows) // 2
            waiting += [rows[:half], rows[half:]]
        else:
            result[rows] = means
    return result


def _interpolated(member: Member, estimated: EstimatedCounts, parameters: Array) -> Array | None:
    """Return the posterior means, or None where polynomials of this degree do not reach them.

    Parameters are ascending.
    """
    low = parameters[0]
    high = parameters[-1]
    length = high - low
    if length < _SAME * abs(low):
        return None
    noise = estimated.noise
    width = CELL * noise.smallest_sd(estimated.n)
    cells = Cells.of(estimated.values.ravel(), width)
    # Estimates so large that floats cannot tell the points of a cell apart have none.
    points = cell_points(cells.left, width)
    if points is None:
        return None
    moments = []
    for value in low + (_NODES + 1) * (length / 2):
        prior = member(float(value))
        at_points = prior._moments_at(points.ravel(), noise)
        moments.append(at_points.reshape(3, *points.shape))
    mean = np.stack([of_member[0] for of_member in moments])
    log_evidence = np.stack([of_member[2] for of_member in moments])
    series = _series(mean, log_evidence)
    if series is None:
        return None
    place = (parameters - low) * (2 / length) - 1
    degrees = np.polynomial.chebyshev.chebvander(place, len(_NODES) - 1)
    cell = cells.of_estimate.reshape(estimated.values.shape)
    x = cells.place(estimated.values, cell, width)
    return _evaluated(series, degrees, cell, x)


def _series(mean: Array, evidence: Array) -> Array | None:
    """Return the coefficients of e^L and e^L E[k] in parameter and place: (parameters, 2, ...).

    None stands for a tolerance that is missed. Arguments have shape (parameters, cells, points).
    """
    # Relative to a function that both interpolations hold exactly, no exponential overflows.
    weight = np.exp(evidence - _bilinear(evidence))
    sums = np.stack([weight, weight * mean])
    series = np.einsum("ap,qpcx,yx->aqcy", _TO_SERIES, sums, TO_SERIES, optimize=True)
    allowed = TOLERANCE * sums.min(axis=(1, 3))
    last_in_parameter = np.abs(series[-2:]).max(axis=(0, 3))
    last_in_place = np.abs(series[..., -2:]).max(axis=(0, 3))
    last = np.maximum(last_in_parameter, last_in_place)
    if (last > allowed).any():
        return None
    return np.asarray(series)


def _evaluated(
    series: Array,
    degrees: Array,
    cell: NDArray[np.int64],
    x: Array,
) -> Array:
    """Return the posterior mean of each estimate, some trials at a time.

    Parameters
    ----------
    series
        Coefficients of shape (parameters, 2, cells, DEGREE + 1).
    degrees
        Chebyshev polynomials at the parameter of each trial, shape (trials, parameters).
    cell, x
        Cell of each estimate and its place there, in [-1, 1]; shape (trials, d).
    """
    trials, d = cell.shape
    cells = series.shape[2]
    flat = series.reshape(len(series), -1)
    result = np.empty((trials, d))
    step = max(1, CHUNK // d)
    for begin in range(0, trials, step):
        rows = slice(begin, begin + step)
        # The series in the place alone, of each trial's own parameter.
        in_place = degrees[rows] @ flat
        by_trial = in_place.reshape(-1, 2, cells, DEGREE + 1)
        count = len(by_trial)
        # Both functions first, then the cells of all trials in one row.
        by_function = np.moveaxis(by_trial, 1, 0).reshape(2, -1, DEGREE + 1)
        first_cell = np.arange(count)[:, None] * cells
        index = first_cell + cell[rows]
        total, first = evaluated(by_function, index.ravel(), x[rows].ravel())
        mean = first / total
        result[rows] = mean.reshape(count, d)
    return result


def _bilinear(evidence: Array) -> Array:
    """Return what is linear in both arguments and equals the log-evidence at a cell's corners."""
    right = (POINTS + 1) / 2
    up = (_NODES + 1) / 2
    up = up[:, None, None]
    first = _linear(evidence[0], right)
    last = _linear(evidence[-1], right)
    return np.asarray(first * (1 - up) + last * up)


def _linear(evidence: Array, right: Array) -> Array:
    """Return what is linear in a cell and equals the values at its ends: (cells, points)."""
    at_left = evidence[:, :1]
    at_right = evidence[:, -1:]
    return np.asarray(at_left * (1 - right) + at_right * right)
