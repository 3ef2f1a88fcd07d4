"""Sums over very many counts by few nodes: Gauss rules for runs of consecutive counts.

A rule with m nodes for N consecutive counts is exact for polynomials of degree 2m-1 over the *sum*,
so nothing has to be corrected where a sum is not an integral; its nodes are those of the discrete
Chebyshev polynomials. Runs are chosen such that prior times likelihood is as smooth on each of them
as a Gaussian over two or three of its standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]
LogDensity = Callable[[Array], Array]

NODES = 10  # of a rule; runs of up to so many counts are summed count by count
_TABLE = (
    2 * NODES
)  # sizes up to here have tabulated rules; larger ones' are interpolated in 1/size²
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
    shrink = 1 - square * inverse_square[:, None]
    beta = square * shrink / (4 * square - 1)
    off_diagonal = np.sqrt(beta)
    # The nodes are the eigenvalues of the Jacobi matrix, whose diagonal is 0 by symmetry.
    rules = len(inverse_square)
    jacobi = np.zeros((rules, NODES, NODES))
    jacobi[:, k - 1, k] = off_diagonal
    jacobi[:, k, k - 1] = off_diagonal
    nodes, vectors = np.linalg.eigh(jacobi)
    first_entries = vectors[:, 0, :]
    return nodes, first_entries**2


@cache
def _tabulated() -> tuple[Array, Array]:
    """Return offsets and weights of the rules for sizes 0 .. _TABLE, each (_TABLE + 1, NODES)."""
    shape = (_TABLE + 1, NODES)
    offsets = np.zeros(shape)
    weights = np.zeros(shape)
    for size in range(NODES + 1):
        last = max(size - 1, 0)
        offsets[size, :size] = np.arange(size)
        offsets[size, size:] = last  # padding stays inside the run
        weights[size, :size] = 1.0
    larger = np.arange(NODES + 1, _TABLE + 1.0)
    nodes, shares = _gauss(larger**-2)
    size_column = larger[:, None]
    offsets[NODES + 1 :] = _offsets(size_column, nodes)
    weights[NODES + 1 :] = size_column * shares
    return offsets, weights


def _offsets(size: Array, nodes: Array) -> Array:
    """Return nodes in (-1, 1) as distances from the first of ``size`` counts."""
    return (size - 1 + size * nodes) / 2


@cache
def _interpolation() -> tuple[Array, Array, Array]:
    """Return points in 1/size² on [0, 1/_TABLE²], their barycentric weights, and rules there."""
    angles = (np.arange(_POINTS) + 0.5) * np.pi / _POINTS
    points = (1 - np.cos(angles)) / (2 * _TABLE**2)
    # Of Chebyshev points of the first kind: signs alternate, sizes follow the sine.
    is_odd = np.arange(_POINTS) % 2
    signs = np.where(is_odd, -1.0, 1.0)
    barycentric = signs * np.sin(angles)
    rules = np.concatenate(_gauss(points), axis=1)
    return points, barycentric, rules


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
    # Equal sizes have equal rules: each is computed once.
    distinct, back = np.unique(sizes, return_inverse=True)
    large = distinct > _TABLE
    in_table = np.where(large, 0, distinct)
    offset = offsets[in_table]
    weight = weights[in_table]
    if large.any():
        offset[large], weight[large] = _interpolated(distinct[large])
    return offset[back], weight[back]


def _interpolated(sizes: Whole) -> tuple[Array, Array]:
    """Return offsets and weights of the rules for sizes above the table, each (m, NODES)."""
    size = sizes.astype(np.float64)[:, None]
    points, barycentric, rules = _interpolation()
    distance = size**-2 - points
    distance[distance == 0] = _HIT
    share = barycentric / distance
    share = share / share.sum(axis=1, keepdims=True)
    nodes, weights = np.split(share @ rules, 2, axis=1)
    return _offsets(size, nodes), size * weights


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
        longer = np.floor(_GROWTH * offsets[-1])
        offsets.append(longer)
    grid = np.array(offsets)
    stops = np.append(starts[1:], n + 1.0)
    # Runs grow upwards to the middle of a piece, and downwards to it from its end.
    middle = np.floor((starts + stops) / 2)[:, None]
    up = starts[:, None] + grid
    down = stops[:, None] - grid
    firsts = np.concatenate(
        [
            up[up <= middle],
            down[down > middle],
            starts,
        ]
    )
    return np.unique(firsts.clip(max=n))


def merged(low: Array, high: Array) -> tuple[Array, Array]:
    """Return the ends of disjoint ascending intervals of whole numbers with the same union."""
    order = np.argsort(low)
    low = low[order]
    # The furthest end of all intervals that begin no later.
    reach = np.maximum.accumulate(high[order])
    # Adjacent intervals become one.
    is_apart = low[1:] > reach[:-1] + 1
    is_first = np.append(True, is_apart)
    is_last = np.append(is_apart, True)
    return low[is_first], reach[is_last]


def resolved(
    log_density: LogDensity,
    firsts: Array,
    n: int,
    low: Array,
    high: Array,
) -> Runs:
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
    sizes = np.diff(firsts, append=n + 1.0)
    runs = Runs(firsts, sizes)
    finished: list[Runs] = []
    while len(runs.first):
        runs = _meeting(runs, low, high)
        smooth, empty = _smoothness(log_density, runs)
        # Runs without mass need no sum.
        finished.append(_some(runs, smooth & ~empty))
        rough = _some(runs, ~smooth & ~empty)
        runs = _halved(rough)
    together = _joined(finished)
    order = np.argsort(together.first)
    return _some(together, order)


def _joined(parts: Sequence[Runs]) -> Runs:
    """Return all runs of the parts, one part after the other."""
    first = np.concatenate([part.first for part in parts])
    size = np.concatenate([part.size for part in parts])
    return Runs(first, size)


def _meeting(runs: Runs, low: Array, high: Array) -> Runs:
    """Return the runs that meet one of the disjoint ascending intervals low .. high."""
    # The first interval that does not end before the run; if there is none, the last.
    nearest = np.searchsorted(high, runs.first)
    nearest = np.minimum(nearest, len(high) - 1)
    ends_after = high[nearest] >= runs.first
    begins_before = low[nearest] < runs.stop
    return _some(runs, ends_after & begins_before)


def _halved(runs: Runs) -> Runs:
    """Return the lower halves of all runs, then the upper ones."""
    half = np.floor(runs.size / 2)
    lower = Runs(runs.first, half)
    upper = Runs(runs.first + half, runs.size - half)
    return _joined([lower, upper])


def _some(runs: Runs, chosen: Flags | Whole) -> Runs:
    """Return the runs at places, or those that are flagged."""
    return Runs(runs.first[chosen], runs.size[chosen])


def _smoothness(log_density: LogDensity, runs: Runs) -> tuple[Flags, Flags]:
    """Return which runs a rule resolves, and which have no mass, judged by five points of each."""
    is_short = runs.size <= NODES  # summed count by count, so always resolved
    # From the first count to the last.
    shares = np.linspace(0, 1, 5)
    last = runs.size[:, None] - 1
    counts = runs.first[:, None] + last * shares
    values = log_density(counts)
    a, b, c, d, e = values.T
    with np.errstate(invalid="ignore"):  # -inf - -inf, where there is no mass
        second = a - 2 * c + e
        fourth = a - 4 * b + 6 * c - 4 * d + e
    is_flat = np.abs(second) <= _CURVED
    is_even = np.abs(fourth) <= _ROUGH
    is_smooth = is_flat & is_even
    # Five points do not show whether each count of a short run is empty.
    has_no_mass = np.isneginf(values).all(axis=1)
    return is_smooth | is_short, has_no_mass & ~is_short
