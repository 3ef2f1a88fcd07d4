"""A posterior as a curve in the estimate: computed at a few points, interpolated at many.

With L the log-evidence, e^L, e^L E[k|y] and e^L E[k²|y] are sums of Gaussians in y with positive
weights: entire functions, which polynomials on cells of half a standard deviation reach to eleven
digits, whereas the posterior mean itself has poles next to the real line. They are interpolated
after division by an exponential that makes e^L equal to 1 at the ends of a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Compute = Callable[[Array], Array]
"""From points y, shape (m,), to their posterior mean, variance and log-evidence, shape (3, m)."""

CELL = 0.5  # standard deviations of the noise that one polynomial spans
DEGREE = 12  # of the polynomials: the lowest that reaches the tolerance on most cells
TOLERANCE = 1e-11  # of the last two Chebyshev coefficients, relative to the smallest value
CHUNK = 1 << 13  # estimates evaluated at a time: few enough to stay in the processor's cache
_LARGEST_EXPONENT = 500.0  # exp of it, times squares of counts, does not overflow
_COUNTED = 1 << 18  # cells between the extreme estimates up to which an array counts them


def chebyshev(degree: int) -> tuple[Array, Array]:
    """Return Chebyshev points on [-1, 1], ends included, and the matrix to coefficients.

    The matrix takes values at the points to the coefficients of their interpolating polynomial.
    """
    angles = np.arange(degree + 1) * np.pi / degree
    points = -np.cos(angles)
    values = np.polynomial.chebyshev.chebvander(points, degree)
    to_coefficients = np.linalg.inv(values)
    return points, np.asarray(to_coefficients, dtype=np.float64)


POINTS, TO_SERIES = chebyshev(DEGREE)


class Cells(NamedTuple):
    """Estimates sorted into cells of equal width; only occupied cells are held.

    ``of_estimate`` is the cell of each estimate, ``left`` the left end of each cell and ``size``
    the number of estimates in it.
    """

    of_estimate: Whole
    left: Array
    size: Whole

    @classmethod
    def of(cls, y: Array, width: float) -> Cells:
        """Return the cells of estimates y, which must not be empty."""
        place = np.floor(y / width)
        lowest = place.min()
        if place.max() - lowest >= _COUNTED:
            places, index, sizes = np.unique(place, return_inverse=True, return_counts=True)
            return cls(index, places * width, sizes)
        # Counting is much faster than sorting, where there are few places.
        shifted = (place - lowest).astype(np.int64)
        sizes = np.bincount(shifted)
        occupied = np.flatnonzero(sizes)
        rank = np.cumsum(sizes > 0) - 1
        left = (lowest + occupied) * width
        return cls(rank[shifted], left, sizes[occupied])

    def place(
        self,
        y: Array,
        cell: Whole,
        width: float,
    ) -> Array:
        """Return where in its cell, [-1, 1] from end to end, each estimate lies."""
        return (y - self.left[cell]) * (2 / width) - 1


def cell_points(left: Array, width: float) -> Array | None:
    """Return the Chebyshev points of each cell, shape (cells, points).

    None stands for estimates so large that floats do not separate the points of a cell.
    """
    distances = (POINTS + 1) * (width / 2)
    points = left[:, None] + distances
    ascending = np.diff(points, axis=1) > 0
    return points if ascending.all() else None


def interpolated(compute: Compute, y: Array, width: float) -> Array:
    """Return ``compute(y)`` for any number of estimates, with a relative error of about 1e-10.

    Cells that hold few estimates are computed directly; cells on which the polynomial falls short
    of the tolerance are halved.

    Parameters
    ----------
    compute
        Returns posterior mean, variance and log-evidence.
    y
        Estimates, shape (m,).
    width
        Width of the first cells: half a standard deviation of the noise.

    Returns
    -------
    Array of shape (3, m).
    """
    if not len(y):
        return np.empty((3, 0))
    cells = Cells.of(y, width)
    is_crowded = cells.size > DEGREE  # a polynomial costs DEGREE + 1 computed points
    points = cell_points(cells.left[is_crowded], width)
    if points is None or not is_crowded.any():
        return compute(y)
    # Estimates in other cells and the points of crowded cells are computed together.
    direct = ~is_crowded[cells.of_estimate]
    computed = compute(np.concatenate([y[direct], points.ravel()]))
    split = np.count_nonzero(direct)
    result = np.empty((3, len(y)))
    result[:, direct] = computed[:, :split]
    at_points = computed[:, split:].reshape(3, *points.shape)
    curves = _Curves.through(at_points)
    number = np.cumsum(is_crowded) - 1  # of each crowded cell among the crowded ones
    indirect = np.flatnonzero(~direct)
    cell = cells.of_estimate[indirect]
    curve = number[cell]
    is_accurate = curves.accurate[curve]
    smooth = indirect[is_accurate]
    x = cells.place(y[smooth], cell[is_accurate], width)
    result[:, smooth] = curves.at(curve[is_accurate], x)
    # Where a polynomial falls short of the tolerance the cells are halved.
    rest = indirect[~is_accurate]
    result[:, rest] = interpolated(compute, y[rest], width / 2)
    return result


class _Curves(NamedTuple):
    """Polynomials for e^L, e^L E[k] and e^L E[k²] on each cell, shifted and scaled.

    Counts are measured from ``centre``; L is measured from ``start + slope x``, x in [-1, 1].
    """

    series: Array  # (3, cells, DEGREE + 1)
    centre: Array
    start: Array
    slope: Array
    accurate: NDArray[np.bool_]

    @classmethod
    def through(cls, moments: Array) -> _Curves:
        """Return the curves through mean, variance and log-evidence: (3, cells, points)."""
        mean, variance, evidence = moments
        # The line through the evidence at both ends.
        left = evidence[:, 0]
        right = evidence[:, -1]
        slope = (right - left) / 2
        start = left + slope
        exponent = evidence - start[:, None] - slope[:, None] * POINTS
        # Far outside, the evidence is so large that its rounding leaves exponents of any size: what
        # is cut off there is no polynomial, and its cells are computed directly in the end.
        weight = np.exp(np.clip(exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
        centre = mean[:, DEGREE // 2]  # squares of what is left lose fewer digits
        shift = mean - centre[:, None]
        square = variance + shift**2
        sums = np.stack([weight, weight * mean, weight * square])
        series = sums @ TO_SERIES.T
        # The variance is not held to the tolerance: it is a difference, known to fewer digits.
        last = np.abs(series[:2, :, -2:])
        allowed = TOLERANCE * sums[:2].min(axis=-1)
        is_accurate = last.max(axis=-1) <= allowed
        return cls(
            series=series,
            centre=centre,
            start=start,
            slope=slope,
            accurate=is_accurate.all(axis=0),
        )

    def at(self, cell: Whole, x: Array) -> Array:
        """Return mean, variance and log-evidence at the places x of the given cells: (3, m)."""
        total, first, second = evaluated(self.series, cell, x)
        mean = first / total
        square = second / total
        shift = mean - self.centre[cell]
        # Rounding may leave a variance of next to nothing below 0.
        variance = np.maximum(square - shift**2, 0.0)
        evidence = np.log(total) + self.start[cell] + self.slope[cell] * x
        return np.stack([mean, variance, evidence])


def evaluated(series: Array, cell: Whole, x: Array) -> Array:
    """Return Σ_j c_j T_j(x) of each estimate's cell, by Clenshaw's recurrence.

    Parameters
    ----------
    series
        Coefficients of some functions on some cells, shape (functions, cells, terms).
    cell, x
        The cell of each estimate and its place there, in [-1, 1]; shape (m,).

    Returns
    -------
    Values of shape (functions, m).
    """
    terms = np.ascontiguousarray(np.moveaxis(series, -1, 0))
    functions = series.shape[0]
    result = np.empty((functions, len(x)))
    # A chunk and its coefficients stay in the processor's cache.
    for begin in range(0, len(x), CHUNK):
        rows = slice(begin, begin + CHUNK)
        for function in range(functions):
            coefficients = terms[:, function]
            result[function, rows] = _clenshaw(coefficients, cell[rows], x[rows])
    return result


def _clenshaw(terms: Array, index: Whole, x: Array) -> Array:
    """Return Σ_j terms[j, index] T_j(x): b_j = 2x b_{j+1} - b_{j+2} + c_j downwards."""
    double = 2 * x
    after = np.zeros_like(x)
    current = terms[-1].take(index)
    for j in range(len(terms) - 2, 0, -1):
        # In place: the terms of a chunk stay in the processor's cache.
        before = double * current
        before -= after
        before += terms[j].take(index)
        after = current
        current = before
    constant = terms[0].take(index)
    return np.asarray(constant + x * current - after)
