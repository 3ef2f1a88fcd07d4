"""Newton's steps for the weights of a mixture, compiled. Importing this module imports numba.

A fit takes a dozen steps on some hundred bins, so that calls of numpy would cost several times what
their arithmetic does; and each trial of a stack has its own fit.

Loops run along contiguous rows and add to many sums at once, since a single sum, taken in the order
in which it is written, waits for each addition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.compiling import compiled

Array = NDArray[np.float64]

_DROPPED = 1e-14  # weights up to this part of the largest are rounding errors of 0
_RISING = 1e-12  # slopes below it, in units of the right side 1, are rounding errors of 0


@compiled
def penalised_newton(likelihoods: Array, size: Array, w: Array, c: float, limits: Any) -> float:
    """Move w to the maximum of Σ_i size_i log (A w)_i + c Σ_j log w_j on the simplex.

    Parameters
    ----------
    likelihoods
        A >= 0, shape (bins, components).
    size, w
        Estimates in each bin; the weights, which are replaced.
    c
        The pseudo-count, > 0.
    limits
        The gap to reach, the EM steps first, the Newton steps after them, and the largest part of
        the way to a weight of 0 that a step may go.

    Returns
    -------
    The gap, infinite where the steps do not reach that of the limits, or a row is all zero.
    """
    tol, warm, steps, inside = limits
    # Of a row of zeros all gaps are NaN, which reaches no tolerance.
    rows = _rows_over_largest(likelihoods)
    components = len(w)
    observations = size.sum() + c * components
    hessian = np.empty((components, components))
    step = np.empty(components)
    for _ in range(warm):
        score = _scores(rows, size, _mixed(rows, w))
        for j in range(components):
            w[j] = (w[j] * score[j] + c) / observations
    for _ in range(steps):
        probability = _mixed(rows, w)
        score = _scores(rows, size, probability)
        gap = -1.0
        for j in range(components):
            excess = (score[j] + c / w[j]) / observations - 1.0
            step[j] = observations * excess
            # Written so that NaN is kept: it reaches no tolerance.
            if not excess <= gap:
                gap = excess
        if gap <= tol:
            return max(gap, 0.0)
        _curvature(rows, size / probability**2, hessian)
        for j in range(components):
            hessian[j, j] += c / w[j] ** 2
        if not _solve(hessian, step, components):
            return np.inf
        # How fast the step takes a weight to 0, at the most: at 1 the whole step just reaches it.
        shrink = 0.0
        for j in range(components):
            rate = -step[j] / w[j]
            # Written so that NaN is kept, and then ends the search.
            if not rate <= shrink:
                shrink = rate
        if not shrink < np.inf:
            return np.inf
        part = 1.0 if shrink < inside else inside / shrink
        w += part * step
        w /= w.sum()
    return np.inf


@compiled
def grid_newton(likelihoods: Array, share: Array, x: Array, limits: Any) -> float:
    """Move x to the maximum of Σ_i share_i log (A x)_i on the simplex.

    Parameters
    ----------
    likelihoods
        A >= 0, shape (bins, places); neighbouring places are alike.
    share, x
        The share of each bin, all > 0; the weights, which are replaced.
    limits
        The gap to reach, the steps, the rise below which likelihoods cannot be compared, the part
        of the predicted gain that a step must bring, and the shortest part of a step.

    Returns
    -------
    The gap of the last point, above the tolerance where steps come to an end, and infinite where a
    bin is impossible under the first weights.
    """
    tol, steps, flat, sufficient, shortest = limits
    rows = _rows_over_largest(likelihoods)
    probability = _mixed(rows, x)
    for i in range(len(probability)):
        # NaN, of a row of zeros, is no probability either.
        if not probability[i] > 0.0:
            return np.inf
    score = _scores(rows, share, probability)
    gap = score.max() - 1.0
    for _ in range(steps):
        if gap <= tol:
            break
        kept = _places_and_peaks(x, score)
        columns = _columns_over(rows, kept, probability)
        y = x[kept]
        if not _least_squares(columns, share, y):
            break
        ahead = _mixed_over(rows, kept, y)
        change = ahead / probability - 1.0
        rise = 0.0
        for i in range(len(share)):
            rise += share[i] * change[i]
        part = 1.0
        if rise > flat:
            part = _part_of_step(share, change, sufficient * rise, shortest)
            if part == 0.0:
                break
        probability_ahead = (1.0 - part) * probability + part * ahead
        if not probability_ahead.min() > 0.0:
            break
        score_ahead = _scores(rows, share, probability_ahead)
        gap_ahead = score_ahead.max() - 1.0
        # Too flat to compare likelihoods: the full step, if its gap is smaller.
        if rise <= flat and not gap_ahead < gap:
            break
        x *= 1.0 - part
        for k in range(len(kept)):
            x[kept[k]] += part * y[k]
        probability = probability_ahead
        score = score_ahead
        gap = gap_ahead
    return float(gap)


@compiled
def _rows_over_largest(likelihoods: Array) -> Array:
    """Return each row over its largest entry, which changes no score; NaN for a row of zeros."""
    rows = np.empty(likelihoods.shape)
    for i in range(len(rows)):
        largest = likelihoods[i].max()
        for j in range(likelihoods.shape[1]):
            rows[i, j] = likelihoods[i, j] / largest
    return rows


@compiled
def _mixed(rows: Array, w: Array) -> Array:
    """Return A w."""
    result = np.empty(len(rows))
    for i in range(len(rows)):
        # Four sums at a time: one alone would wait for each addition.
        a = b = c = d = 0.0
        whole = len(w) - len(w) % 4
        for j in range(0, whole, 4):
            a += rows[i, j] * w[j]
            b += rows[i, j + 1] * w[j + 1]
            c += rows[i, j + 2] * w[j + 2]
            d += rows[i, j + 3] * w[j + 3]
        for j in range(whole, len(w)):
            a += rows[i, j] * w[j]
        result[i] = (a + b) + (c + d)
    return result


@compiled
def _scores(rows: Array, size: Array, probability: Array) -> Array:
    """Return Aᵀ(size/probability)."""
    result = np.zeros(rows.shape[1])
    for i in range(len(rows)):
        ratio = size[i] / probability[i]
        for j in range(rows.shape[1]):
            result[j] += ratio * rows[i, j]
    return result


@compiled
def _curvature(rows: Array, weights: Array, hessian: Array) -> None:
    """Write the upper half of Aᵀ diag(weights) A."""
    bins, components = rows.shape
    hessian[:] = 0.0
    whole = bins - bins % 4
    # Four bins at a time: each sum is then read and written once for four products.
    for i in range(0, whole, 4):
        for j in range(components):
            a = weights[i] * rows[i, j]
            b = weights[i + 1] * rows[i + 1, j]
            c = weights[i + 2] * rows[i + 2, j]
            d = weights[i + 3] * rows[i + 3, j]
            for k in range(j, components):
                first = a * rows[i, k] + b * rows[i + 1, k]
                hessian[j, k] += first + (c * rows[i + 2, k] + d * rows[i + 3, k])
    # The fewer than four bins that are left.
    for i in range(whole, bins):
        for j in range(components):
            a = weights[i] * rows[i, j]
            for k in range(j, components):
                hessian[j, k] += a * rows[i, k]


@compiled
def _solve(matrix: Array, right: Array, size: int) -> bool:
    """Replace the right side by the solution, and the upper half of the matrix by its factor.

    Returns whether the matrix is positive definite.
    """
    for j in range(size):
        # NaN is no positive pivot either.
        if not matrix[j, j] > 0.0:
            return False
        root = np.sqrt(matrix[j, j])
        for k in range(j, size):
            matrix[j, k] /= root
        for i in range(j + 1, size):
            factor = matrix[j, i]
            for k in range(i, size):
                matrix[i, k] -= factor * matrix[j, k]
        right[j] /= root
        for k in range(j + 1, size):
            right[k] -= right[j] * matrix[j, k]
    for j in range(size - 1, -1, -1):
        total = right[j]
        for k in range(j + 1, size):
            total -= matrix[j, k] * right[k]
        right[j] = total / matrix[j, j]
    return True


@compiled
def _places_and_peaks(x: Array, score: Array) -> NDArray[np.intp]:
    """Return the places that have weight, and peaks of the scores above 1: one of equal peaks."""
    kept = np.empty(len(x), np.intp)
    count = 0
    for v in range(len(x)):
        before = score[v - 1] if v > 0 else 0.0
        after = score[v + 1] if v + 1 < len(x) else 0.0
        # A score above 1 says that weight there would raise the likelihood. The strict sign on one
        # side chooses the last one of equal neighbours.
        is_peak = score[v] > 1.0 and score[v] >= before and score[v] > after
        if x[v] > 0.0 or is_peak:
            kept[count] = v
            count += 1
    return kept[:count]


@compiled
def _columns_over(rows: Array, kept: NDArray[np.intp], probability: Array) -> Array:
    """Return the kept columns of A over the probabilities, minus 2: ½ Σ c (S y - 2)² on Σy = 1."""
    result = np.empty((len(rows), len(kept)))
    for i in range(len(rows)):
        for k in range(len(kept)):
            result[i, k] = rows[i, kept[k]] / probability[i] - 2.0
    return result


@compiled
def _mixed_over(rows: Array, kept: NDArray[np.intp], y: Array) -> Array:
    """Return A y for weights of the kept columns."""
    result = np.zeros(len(rows))
    for i in range(len(rows)):
        for k in range(len(kept)):
            result[i] += rows[i, kept[k]] * y[k]
    return result


@compiled
def _part_of_step(share: Array, change: Array, enough: float, shortest: float) -> float:
    """Return the first of 1, 1/2, 1/4, .. of a step that gains enough, or 0."""
    part = 1.0
    while part >= shortest:
        gain = 0.0
        for i in range(len(share)):
            gain += share[i] * np.log1p(part * change[i])
        # A gain of minus infinity or NaN is not enough either.
        if gain >= enough * part:
            return part
        part /= 2.0
    return 0.0


@compiled
def _least_squares(columns: Array, share: Array, y: Array) -> bool:
    """Move y >= 0 to the minimum of Σ_i share_i (B y)_i² on Σy = 1; return whether it is reached.

    It is that of ‖√share B y‖² + (Σy - 1)², over its sum (Dax 1990). The active set begins with the
    positive values of y (Lawson, Hanson 1974, with products of columns: Bro, de Jong 1997).
    """
    size = len(y)
    products = np.zeros((size, size))
    _curvature(columns, share, products)
    trace = 0.0
    for j in range(size):
        trace += products[j, j] + 1.0
        for k in range(j, size):
            products[j, k] += 1.0
            products[k, j] = products[j, k]
    # What is added to make it definite is of the order of its rounding.
    for j in range(size):
        products[j, j] += 8.9e-16 * trace
    free = y > 0.0
    for _ in range(30 * size):
        if not _to_minimum_on(products, y, free):
            return False
        rising = -1
        steepest = _RISING
        for j in range(size):
            if free[j]:
                continue
            slope = 1.0
            for k in range(size):
                slope -= products[j, k] * y[k]
            if slope > steepest:
                steepest = slope
                rising = j
        # No fixed value would grow: this is the minimum.
        if rising < 0:
            y /= y.sum()
            return True
        free[rising] = True
    return False


@compiled
def _to_minimum_on(products: Array, y: Array, free: NDArray[np.bool_]) -> bool:
    """Move y to the minimum over its free values, of which some may become 0 and are fixed."""
    size = len(y)
    matrix = np.empty((size, size))
    target = np.empty(size)
    while True:
        places = np.flatnonzero(free)
        count = len(places)
        if count == 0:
            return False
        for j in range(count):
            target[j] = 1.0
            for k in range(j, count):
                matrix[j, k] = products[places[j], places[k]]
        if not _solve(matrix, target, count):
            return False
        # The first value that reaches 0 on the way ends the step.
        part = 1.0
        for j in range(count):
            now = y[places[j]]
            if target[j] <= 0.0:
                until_zero = now / (now - target[j]) if now > target[j] else 0.0
                part = min(part, until_zero)
        largest = 0.0
        for j in range(count):
            v = places[j]
            y[v] += part * (target[j] - y[v])
            largest = max(largest, y[v])
        if part == 1.0:
            return True
        for j in range(count):
            v = places[j]
            if y[v] <= _DROPPED * largest and target[j] <= 0.0:
                y[v] = 0.0
                free[v] = False
