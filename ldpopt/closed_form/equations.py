"""Projections on a few linear equations: Newton's method on their multipliers.

In least squares, with bounds, and in the Kullback-Leibler divergence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import LARGE, locked_vector

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)

# Ten steps are usual: the set of values at their bounds settles, and then one step is exact.
_MAX_STEPS = 100

# The damping of a step, as a share of the diagonal per unit of what the equations miss: equations
# that depend on each other have no unique multipliers.
_DAMPING = 1e-3
_LEAST_DAMPING = 1e-13

# What the equations miss where the function may be flat but for rounding.
_NEAR = 1e-6

# What the equations may miss by their own rounding.
_ROUNDED = 64 * _EPS

# A slope whose step changes the function by no more than this part of it.
_FLAT = 1e-12

# What they miss where a point that is projected once more may miss less, and how often it is.
_MET = 1e-12
_MOST_REPEATS = 24

# Equations that are held as a dense table where values are many.
_FEW = 8

# Products of coefficients up to which a table of all of them takes less time than sparse matrices,
# whose overhead is that of thousands of products.
_SHORT = 1 << 14

# Armijo's condition, and halvings after which a step is rounding.
_PROGRESS = 1e-4
_HALVINGS = 40


def with_equations(f: Array, matrix: Any, right: Array, lower: Array, upper: Array) -> Array:
    """Return the point of lower <= f' <= upper with A f' = b that is nearest to f.

    With multipliers λ of the equations it is clip(f + Aᵀλ), and the λ at which it meets them
    minimise a convex function that is quadratic in pieces. Newton's method ends after finitely many
    pieces (Li, Swetits 1997).

    Parameters
    ----------
    f
        One vector, shape (d,).
    matrix, right
        A, sparse of shape (m, d), and b.
    lower, upper
        Bounds, shape (d,), infinite ones too.

    Returns
    -------
    The nearest point but for rounding; where no point meets all equations, one that misses them.

    Notes
    -----
    Cost: about ten systems of m equations, m³ operations each.

    Examples
    --------
    >>> from scipy import sparse
    >>> A = sparse.csr_array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    >>> nothing = np.zeros(3)
    >>> with_equations(np.array([0.5, 0.4, -0.3]), A, np.array([0.6, 0.2]), nothing, nothing + 1)
    array([0.4, 0.2, 0. ])
    """
    columns = matrix.tocsc()
    # Equations of all of very many values, such as a total and a row: read once per step, compiled.
    is_dense = columns.shape[0] <= _FEW and columns.nnz > LARGE
    kind = _LongPlace if is_dense else _Place
    held = np.ascontiguousarray(columns.toarray()) if is_dense else columns
    nothing = np.zeros(len(right))
    # Once: of a few equations, a transpose takes as long as two products.
    transposed = held.T
    place = _settled(kind(_Problem(f, held, transposed, right, lower, upper), nothing))
    for _ in range(_MOST_REPEATS):
        if place.missed <= _MET:
            break
        # The last bits of values that are far away are worth more than what the equations miss. The
        # nearest point to the one found is no farther from the right one than that, and its numbers
        # are smaller.
        problem = _Problem(place.point, held, transposed, right, lower, upper)
        again = _settled(kind(problem, nothing))
        if again.missed > place.missed / 2:
            break
        place = again
    return place.point


def scaled_to_equations(reference: Array, matrix: Any, right: Array) -> Array:
    """Return the point f >= 0 with A f = b that has the least divergence Σ f log(f/r).

    With multipliers λ of the equations it is r exp(Aᵀλ - 1), and the λ at which it meets them
    minimise a smooth convex function. On the margins of a table, Newton's method ends where
    iterative proportional fitting does (Deming, Stephan 1940).

    Parameters
    ----------
    reference
        r, one vector, shape (d,). Where it is not positive the point is 0.
    matrix, right
        As of ``with_equations``.

    Returns
    -------
    The point but for rounding; where none meets all equations with positive numbers wherever the
    reference and the equations allow them, one that misses them.

    Notes
    -----
    Cost: about ten systems of m equations, m³ operations each.

    Examples
    --------
    >>> from scipy import sparse
    >>> rows_and_columns = sparse.csr_array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]])
    >>> sums = np.array([0.5, 0.5, 0.75])
    >>> scaled_to_equations(np.array([0.25, 0.25, 0.25, 0.25]), rows_and_columns, sums)
    array([0.375, 0.125, 0.375, 0.125])
    """
    kept = np.flatnonzero(_can_be_positive(reference > 0, matrix.tocsr(), right))
    result = np.zeros(len(reference))
    if len(kept):
        # The logarithms of what the multipliers scale.
        start = np.log(reference[kept]) - 1
        lower = np.full(len(kept), -np.inf)
        columns = matrix.tocsc()[:, kept]
        problem = _Problem(start, columns, columns.T, right, lower, -lower)
        result[kept] = _settled(_ScaledPlace(problem, np.zeros(len(right)))).point
    return result


def _can_be_positive(allowed: Any, matrix: Any, right: Array) -> Any:
    """Return which values can be positive: a sum of 0 with one sign leaves none of its terms."""
    rising = (matrix > 0).astype(np.int64)
    falling = (matrix < 0).astype(np.int64)
    while True:
        up = rising @ allowed
        down = falling @ allowed
        held = np.flatnonzero((right == 0) & (up + down > 0) & ((up == 0) | (down == 0)))
        if not len(held):
            return allowed
        allowed = allowed & ((rising + falling)[held].sum(axis=0) == 0)


def _settled(place: _Place) -> _Place:
    """Return the place at which Newton's steps end."""
    for _ in range(_MAX_STEPS):
        if place.missed <= _EPS:
            break
        better = _next(place)
        # A step from rounding to rounding may lead anywhere, and back.
        if better is None or place.missed <= min(better.missed, _ROUNDED):
            break
        place = better
    return place


class _Problem(NamedTuple):
    """What the multipliers move, A, Aᵀ and b, and bounds of the point."""

    f: Array
    matrix: Any
    transposed: Any
    right: Array
    lower: Array
    upper: Array


class _Place:
    """Multipliers, their point, and what the equations miss there."""

    def __init__(self, problem: _Problem, multipliers: Array) -> None:
        self.problem = problem
        right = problem.right
        self.multipliers = multipliers
        # The function whose gradient the residual is: ∫ clip, value by value.
        self.point, left, value = self._moved_point()
        self.residual = left - right
        # In units of the equations, or of the point where that is larger.
        size = max(float(np.max(np.abs(part), initial=0.0)) for part in (right, self.point)) or 1.0
        self.missed = float(np.max(np.abs(self.residual), initial=0.0)) / size
        self.value = float(value - right @ multipliers)

    def _moved_point(self) -> tuple[Array, Array, float]:
        """Return the point, what the equations have on their left there, and the sum of ∫ clip."""
        f, matrix, transposed, _, lower, upper = self.problem
        moved = f + transposed @ self.multipliers
        point: Array = np.clip(moved, lower, upper)
        self._free = (lower < moved) & (moved < upper)
        outside = moved - point
        return point, matrix @ point, float(np.sum(point * outside + point**2 / 2))

    def normal(self) -> Array:
        """Return A Aᵀ of the values between their bounds."""
        matrix = self.problem.matrix
        m, d = matrix.shape
        if m * m * d > _SHORT:
            free = matrix[:, np.flatnonzero(self._free)]
            return np.asarray((free @ free.T).toarray())
        columns = matrix.toarray()[:, self._free].T
        products = np.zeros((len(columns) + 1, m, m))
        np.multiply(columns[:, :, None], columns[:, None, :], out=products[1:])
        # In the order of the values, as of sparse matrices: the same bits.
        return np.asarray(products.cumsum(axis=0)[-1])

    def moved(self, step: Array) -> _Place:
        """Return the place after a step of the multipliers."""
        return type(self)(self.problem, self.multipliers + step)


class _LongPlace(_Place):
    """The same of very many values and few dense equations, by one compiled reading."""

    def _moved_point(self) -> tuple[Array, Array, float]:
        from ldpopt.closed_form.equation_kernels import moved_point  # imports numba

        f, rows, _, _, lower, upper = self.problem
        values = locked_vector(f)
        bounds = (locked_vector(lower), locked_vector(upper))
        point, left, self._normal, value = moved_point(values, rows, bounds, self.multipliers)
        return point, left, value

    def normal(self) -> Array:
        """Return A Aᵀ of the values between their bounds."""
        # A copy: steps add their damping to it.
        return np.array(self._normal)


class _ScaledPlace(_Place):
    """The same where multipliers move logarithms."""

    def _moved_point(self) -> tuple[Array, Array, float]:
        f, matrix, transposed, *_ = self.problem
        # What overflows is no progress.
        with np.errstate(over="ignore", invalid="ignore"):
            point: Array = np.exp(f + transposed @ self.multipliers)
            return point, matrix @ point, float(np.sum(point))

    def normal(self) -> Array:
        """Return A diag(f) Aᵀ."""
        matrix = self.problem.matrix
        return np.asarray(((matrix * self.point) @ matrix.T).toarray())


def _next(place: _Place) -> _Place | None:
    """Return the place after a Newton step; None where no step makes progress."""
    normal = place.normal()
    diagonal = np.einsum("ii->i", normal)
    size = float(diagonal.max(initial=0.0)) or 1.0
    diagonal += size * (_LEAST_DAMPING + _DAMPING * min(place.missed, 1.0))
    step: Array = np.asarray(-np.linalg.solve(normal, place.residual), dtype=np.float64)
    slope = float(place.residual @ step)
    for _ in range(_HALVINGS):
        new = place.moved(step)
        # Near the minimum the function's own rounding hides progress that the equations show.
        has_progress = new.value <= place.value + _PROGRESS * slope
        is_flat = place.missed < _NEAR or abs(slope) <= _FLAT * abs(place.value)
        is_last = is_flat and new.missed < place.missed / 2
        if has_progress or is_last:
            return new
        step = step / 2
        slope = slope / 2
    return None
