"""A posterior as a curve: computed at few estimates, read off at many.

With L the log-evidence, e^L, e^L E[k|y] and e^L E[k²|y] are sums of Gaussians in y with positive weights: entire functions,
which polynomials on cells of half a standard deviation reach to eleven digits, where the posterior mean itself has poles
next to the real line. They are interpolated after division by an exponential that makes e^L equal 1 at the ends of a cell.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Compute = Callable[[Array], Array]
"""From points y, shape (m,), to their posterior mean, variance and log-evidence, shape (3, m)."""

DEGREE = 12
_TOLERANCE = 1e-11  # of the last two Chebyshev coefficients beside the smallest value: more is left out above it
CHUNK = 1 << 13  # estimates evaluated at a time: what fits the cache
_FLAT = (
    1 << 18
)  # number of cells between the lowest and the highest estimate that are counted in an array


def second_kind(degree: int) -> tuple[Array, Array]:
    """Return points on [-1, 1], ends included, and the matrix from values there to Chebyshev coefficients."""
    points = -np.cos(np.arange(degree + 1) * np.pi / degree)
    return points, np.asarray(
        np.linalg.inv(np.polynomial.chebyshev.chebvander(points, degree)), dtype=np.float64
    )


POINTS, TO_SERIES = second_kind(DEGREE)


def cells(y: Array, width: float) -> tuple[NDArray[np.int64], Array, NDArray[np.int64]]:
    """Return each estimate's cell as an index into the occupied cells, their left ends, and how many are in each."""
    place = np.floor(y / width)
    low = place.min()
    if place.max() - low < _FLAT:
        index = (place - low).astype(np.int64)
        counts = np.bincount(index)
        occupied = np.flatnonzero(counts)
        return (np.cumsum(counts > 0) - 1)[index], (low + occupied) * width, counts[occupied]
    found, index, counts = np.unique(place, return_inverse=True, return_counts=True)
    return index, found * width, counts


def read_off(compute: Compute, y: Array, width: float) -> Array:
    """Return ``compute(y)`` for any number of estimates, from few points a cell: (3, m), relative error about 1e-10.

    Cells with few estimates are computed as they are; cells where the polynomial falls short are halved.

    Parameters
    ----------
    y
        Estimates, shape (m,).
    width
        Of the first cells: half a standard deviation of the noise.
    """
    result = np.empty((3, len(y)))
    if not len(y):
        return result
    cell, left, counts = cells(y, width)
    crowded = counts > DEGREE
    single = ~crowded[cell]
    numbers = np.cumsum(crowded) - 1
    left = left[crowded]
    points = left[:, None] + (POINTS + 1) * (width / 2)
    if not (
        np.diff(points, axis=1) > 0
    ).all():  # estimates so large that a cell has no points between its ends
        single[:], points = True, points[:0]
    few = compute(np.concatenate([y[single], points.ravel()]))
    result[:, single] = few[:, : np.count_nonzero(single)]
    if single.all():
        return result
    mean, variance, evidence = few[:, np.count_nonzero(single) :].reshape(3, *points.shape)
    centre = mean[:, DEGREE // 2, None]
    slope = (evidence[:, -1:] - evidence[:, :1]) / 2
    start = evidence[:, :1] + slope
    weight = np.exp(evidence - start - slope * POINTS)
    sums = np.stack([weight, weight * mean, weight * (variance + (mean - centre) ** 2)])
    series = sums @ TO_SERIES.T
    short = np.abs(series[:2, :, -2:]).max(axis=-1) > _TOLERANCE * sums[:2].min(axis=-1)
    good = ~short.any(axis=0)
    many = np.flatnonzero(~single)
    cell = numbers[cell[many]]
    smooth = good[cell]
    at, cell = many[smooth], cell[smooth]
    x = (y[at] - left[cell]) * (2 / width) - 1
    total, first, second = evaluate(series, cell, x)
    result[0, at] = first / total
    spread = second / total - (result[0, at] - centre[cell, 0]) ** 2
    result[1, at] = np.maximum(spread, 0.0)
    result[2, at] = np.log(total) + start[cell, 0] + slope[cell, 0] * x
    rest = many[~smooth]
    result[:, rest] = read_off(compute, y[rest], width / 2)
    return result


def evaluate(series: Array, cell: NDArray[np.int64], x: Array) -> Array:
    """Return Σ_j c_j T_j(x) of each estimate's cell, by Clenshaw's recurrence.

    Parameters
    ----------
    series
        Coefficients of some functions on some cells, shape (functions, cells, terms).
    cell, x
        Each estimate's cell and its place there, in [-1, 1]; shape (m,).

    Returns
    -------
    Values of shape (functions, m).
    """
    terms = np.ascontiguousarray(np.moveaxis(series, -1, 0))
    result = np.empty((series.shape[0], len(x)))
    for begin in range(0, len(x), CHUNK):
        rows = slice(begin, begin + CHUNK)
        index, two = cell[rows], 2 * x[rows]
        for function in range(series.shape[0]):
            after, now = np.zeros_like(two), terms[-1, function].take(index)
            for j in range(len(terms) - 2, 0, -1):
                following = two * now
                following -= after
                following += terms[j, function].take(index)
                after, now = now, following
            result[function, rows] = terms[0, function].take(index) + x[rows] * now - after
    return result
