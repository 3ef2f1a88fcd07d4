"""Sums over very many counts by few nodes: Gauss rules for runs of consecutive counts.

A rule with m nodes for N consecutive counts is exact for polynomials of degree 2m-1 over the *sum*,
so nothing has to be corrected where a sum is not an integral; its nodes are those of the discrete
Chebyshev polynomials. Runs are chosen such that prior times likelihood is as smooth on each of them
as a Gaussian over two or three of its standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
LogDensity = Callable[[Array], Array]

NODES = 10  # of a rule; runs of up to so many counts are summed count by count
_TABLE = (
    2 * NODES
)  # sizes up to here have tabulated rules; above, rules are interpolated in 1/size²
_POINTS = 16  # of that interpolation: its error is below the rounding of the rules
_GROWTH = 1.5  # of runs away from an edge: k^(-alpha) on [k, 1.5 k] is a polynomial to 1e-16
_CURVED = 1.0  # second difference of a log-density on five points of a run that a rule resolves
_ROUGH = 0.05  # its fourth difference that a rule resolves
_HIT = 1e-30  # stands for a distance of 0 in barycentric formulas: its weight drowns all others


class Runs(NamedTuple):
    """Runs of consecutive counts by their first counts and their sizes, arrays of one shape."""

    first: Array
    size: Array

    @property
    def stop(self) -> Array:
        """The count after the last of each run."""
        return self.first + self.size


# --- rules ------------------------------------------------------------------------------------


def _gauss(inverse_square: Array) -> tuple[Array, Array]:
    """Return the Gauss rules for runs of N counts, given 1/N² (Golub and Welsch 1969).

    Nodes lie in (-1, 1) and weights sum to 1; both have shape (rules, NODES).
    """
    k = np.arange(1, NODES)
    # Recurrence coefficients of the discrete Chebyshev polynomials on N points in [-1, 1].
    square = k**2
    beta = square * (1 - square * inverse_square[:, None]) / (4 * square - 1)
    off_diagonal = np.sqrt(beta)
    jacobi = np.zeros((len(inverse_square), NODES, NODES))
    jacobi[:, k - 1, k] = off_diagonal
    jacobi[:, k, k - 1] = off_diagonal
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, vectors[:, 0, :] ** 2


@cache
def _tabulated() -> tuple[Array, Array]:
    """Return offsets and weights of the rules for sizes 0 .. _TABLE, each (_TABLE + 1, NODES)."""
    offsets = np.zeros((_TABLE + 1, NODES))
    weights = np.zeros((_TABLE + 1, NODES))
    for size in range(NODES + 1):
        offsets[size, :size] = np.arange(size)
        offsets[size, size:] = max(size - 1, 0)  # padding stays inside the run
        weights[size, :size] = 1.0
    larger = np.arange(NODES + 1, _TABLE + 1.0)
    nodes, shares = _gauss(larger**-2)
    offsets[NODES + 1 :] = (larger[:, None] - 1 + larger[:, None] * nodes) / 2
    weights[NODES + 1 :] = larger[:, None] * shares
    return offsets, weights


@cache
def _interpolation() -> tuple[Array, Array, Array]:
    """Return points in 1/size² on [0, 1/_TABLE²], their barycentric weights, and rules there."""
    angles = (np.arange(_POINTS) + 0.5) * np.pi / _POINTS
    points = (1 - np.cos(angles)) / (2 * _TABLE**2)
    # Of Chebyshev points of the first kind: signs alternate, sizes follow the sine.
    signs = np.where(np.arange(_POINTS) % 2, -1.0, 1.0)
    return points, signs * np.sin(angles), np.concatenate(_gauss(points), axis=1)


def rule(sizes: Whole) -> tuple[Array, Array]:
    """Return offsets and weights with Σ_{k < size} F(k) = Σ_j weight_j F(offset_j).

    Runs of up to ``NODES`` counts are taken count by count, padded with weight 0.

    Parameters
    ----------
    sizes
        Numbers of counts, shape (m,).

    Returns
    -------
    Two arrays of shape (m, NODES).
    """
    offsets, weights = _tabulated()
    distinct, back = np.unique(sizes, return_inverse=True)
    large = distinct > _TABLE
    in_table = np.where(large, 0, distinct)
    offset = offsets[in_table]
    weight = weights[in_table]
    if large.any():
        size = distinct[large].astype(np.float64)[:, None]
        points, barycentric, rules = _interpolation()
        distance = size**-2 - points
        distance[distance == 0] = _HIT
        share = barycentric / distance
        interpolated = (share / share.sum(axis=1, keepdims=True)) @ rules
        nodes, shares = np.split(interpolated, 2, axis=1)
        offset[large] = (size - 1 + size * nodes) / 2
        weight[large] = size * shares
    return offset[back], weight[back]


# --- runs -------------------------------------------------------------------------------------


def graded(starts: Array, n: int) -> Array:
    """Return first counts of runs on 1 .. n that grow away from both ends of every smooth piece.

    Parameters
    ----------
    starts
        First counts of the smooth pieces, ascending; the first is the lowest count.
    n
        The highest count.
    """
    offsets = [0.0, NODES, 2.0 * NODES, 3.0 * NODES]
    while offsets[-1] < n:
        offsets.append(np.floor(_GROWTH * offsets[-1]))
    grid = np.array(offsets)
    stops = np.append(starts[1:], n + 1.0)
    middle = np.floor((starts + stops) / 2)[:, None]
    up = starts[:, None] + grid
    down = stops[:, None] - grid
    firsts = np.concatenate([up[up <= middle], down[down > middle], starts])
    return np.unique(firsts.clip(max=n))


def merged(low: Array, high: Array) -> tuple[Array, Array]:
    """Return the ends of disjoint ascending intervals of whole numbers with the same union."""
    order = np.argsort(low)
    low, reach = low[order], np.maximum.accumulate(high[order])
    new = np.append(True, low[1:] > reach[:-1] + 1)  # adjacent intervals become one
    last = np.append(np.flatnonzero(new)[1:] - 1, len(low) - 1)
    return low[new], reach[last]


def resolved(log_density: LogDensity, firsts: Array, n: int, low: Array, high: Array) -> Runs:
    """Return the runs that meet given intervals, halved until the log-density is smooth on each.

    Parameters
    ----------
    log_density
        From counts to log π up to a constant.
    firsts
        First counts of runs to start with; they cover ``firsts[0]`` .. n.
    n
        The highest count.
    low, high
        Ends of disjoint ascending intervals of counts.
    """
    runs = Runs(firsts, np.diff(firsts, append=n + 1.0))
    finished = [Runs(np.empty(0), np.empty(0))]
    while len(runs.first):
        nearest = np.minimum(np.searchsorted(high, runs.first), len(high) - 1)
        runs = _some(runs, (high[nearest] >= runs.first) & (low[nearest] < runs.stop))
        smooth, empty = _smoothness(log_density, runs)
        finished.append(_some(runs, smooth & ~empty))
        runs = _some(runs, ~smooth & ~empty)
        half = np.floor(runs.size / 2)
        runs = Runs(
            np.concatenate([runs.first, runs.first + half]),
            np.concatenate([half, runs.size - half]),
        )
    first = np.concatenate([part.first for part in finished])
    size = np.concatenate([part.size for part in finished])
    order = np.argsort(first)
    return Runs(first[order], size[order])


def _some(runs: Runs, mask: NDArray[np.bool_]) -> Runs:
    return Runs(runs.first[mask], runs.size[mask])


def _smoothness(log_density: LogDensity, runs: Runs) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which runs a rule resolves, and which have no mass, judged by five points of each."""
    short = runs.size <= NODES  # summed count by count, so always resolved
    last = runs.size[:, None] - 1
    values = log_density(runs.first[:, None] + last * np.linspace(0, 1, 5))
    a, b, c, d, e = values.T
    with np.errstate(invalid="ignore"):  # -inf - -inf, where there is no mass
        second = np.abs(a - 2 * c + e)
        fourth = np.abs(a - 4 * b + 6 * c - 4 * d + e)
    smooth = (second <= _CURVED) & (fourth <= _ROUGH)
    # Five points do not show whether each count of a short run is empty.
    empty = np.isneginf(values).all(axis=1) & ~short
    return smooth | short, empty
