"""Sums over very many counts by few nodes: Gauss rules for runs of consecutive counts, and the blocks that they need.

A rule with m nodes for N consecutive counts is exact for polynomials of degree 2m-1 over the *sum*, so nothing has to be
corrected where a sum is not an integral; its nodes are those of the discrete Chebyshev polynomials. Blocks are chosen such
that prior times likelihood is as smooth as a Gaussian over two or three of its standard deviations on each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

NODES = 10  # of a rule: runs of up to so many counts are summed one by one
_TABLE = (
    2 * NODES
)  # sizes up to here have tabulated rules; above, rules are interpolated in 1/size²
_GROWTH = 1.5  # of blocks away from an edge: k^(-alpha) on [k, 1.5 k] is a polynomial of degree 19 to 1e-16
_CHECKED = 1 << 18  # counts at which blocks are compared with their rules
_EACH = 32  # counts of a block that are compared at least, where there are so many
_CURVED, _ROUGH = (
    1.0,
    0.05,
)  # second and fourth differences of a log-density on five points that a rule resolves


def _gauss(inverse_square: Array) -> tuple[Array, Array]:
    """Return nodes in (-1, 1) and weights of sum 1 for ``1/inverse_square**0.5`` counts (Golub and Welsch 1969)."""
    k = np.arange(1, NODES)
    beta = k**2 * (1 - k**2 * inverse_square[:, None]) / (4 * k**2 - 1)
    jacobi = np.zeros((len(inverse_square), NODES, NODES))
    jacobi[:, k - 1, k] = jacobi[:, k, k - 1] = np.sqrt(beta)
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, vectors[:, 0, :] ** 2


@cache
def _tables() -> tuple[Array, Array, Array, Array]:
    """Return offsets and weights for sizes 0 .. _TABLE, and points in 1/size² with nodes and weights for the larger."""
    offsets, weights = np.zeros((2, _TABLE + 1, NODES))
    for size in range(NODES + 1):
        offsets[size, :size], weights[size, :size] = np.arange(size), 1.0
        offsets[size, size:] = max(size - 1, 0)
    larger = np.arange(NODES + 1, _TABLE + 1.0)
    nodes, shares = _gauss(larger**-2)
    offsets[NODES + 1 :] = (larger[:, None] - 1 + larger[:, None] * nodes) / 2
    weights[NODES + 1 :] = larger[:, None] * shares
    points = (1 - np.cos((np.arange(16) + 0.5) * np.pi / 16)) / (2 * _TABLE**2)
    return offsets, weights, points, np.concatenate(_gauss(points), axis=1)


def rule(sizes: Whole) -> tuple[Array, Array]:
    """Return offsets from the first count and weights w with Σ_{k < size} F(k) = Σ_j w_j F(offset_j), each (m, NODES).

    Runs of up to ``NODES`` counts are taken as they are, padded with weight 0.
    """
    offsets, weights, points, values = _tables()
    distinct, back = np.unique(sizes, return_inverse=True)
    small = distinct <= _TABLE
    at, w = offsets[np.where(small, distinct, 0)], weights[np.where(small, distinct, 0)]
    if not small.all():
        size = distinct[~small].astype(np.float64)[:, None]
        # First-kind Chebyshev points: barycentric weights alternate in sign and follow the sine.
        degree = np.arange(len(points))
        barycentric = (-1.0) ** degree * np.sin((degree + 0.5) * np.pi / len(points))
        distance = size**-2 - points
        distance[distance == 0] = 1e-30  # a hit: its weight drowns all others
        share = barycentric / distance
        found = (share / share.sum(axis=1, keepdims=True)) @ values
        at[~small] = (size - 1 + size * found[:, :NODES]) / 2
        w[~small] = size * found[:, NODES:]
    return at[back], w[back]


def graded(starts: Array, n: int) -> Array:
    """Return first counts of blocks on 1 .. n that grow away from both ends of every smooth piece.

    Parameters
    ----------
    starts
        First counts of the smooth pieces, ascending; the first is the lowest count.
    """
    offsets = [0.0, NODES, 2.0 * NODES, 3.0 * NODES]
    while offsets[-1] < n:
        offsets.append(np.floor(_GROWTH * offsets[-1]))
    grid, stops = np.array(offsets), np.append(starts[1:], n + 1.0)
    middle = np.floor((starts + stops) / 2)[:, None]
    up, down = starts[:, None] + grid, stops[:, None] - grid
    return np.unique(np.concatenate([up[up <= middle], down[down > middle][:], starts]).clip(max=n))


def merged(low: Array, high: Array) -> tuple[Array, Array]:
    """Return disjoint ascending intervals with the same union."""
    order = np.argsort(low)
    low, reach = low[order], np.maximum.accumulate(high[order])
    new = np.append(True, low[1:] > reach[:-1] + 1)
    return low[new], reach[np.append(np.flatnonzero(new)[1:] - 1, len(low) - 1)]


def resolved_blocks(
    log_density: Callable[[Array], Array], firsts: Array, n: int, low: Array, high: Array
) -> tuple[Array, Array]:
    """Return (first, size) of the blocks that meet the given intervals, halved until the log-density is smooth on each.

    Parameters
    ----------
    firsts
        Blocks to start with; they cover ``firsts[0]`` .. n.
    low, high
        Disjoint ascending intervals of counts.
    """
    first, stop = firsts, np.append(firsts[1:], n + 1.0)
    done = []
    while len(first):
        nearest = np.minimum(np.searchsorted(high, first), len(high) - 1)
        met = (high[nearest] >= first) & (low[nearest] < stop)
        first, stop = first[met], stop[met]
        size = stop - first
        values = log_density(first[:, None] + (size[:, None] - 1) * np.linspace(0, 1, 5))
        with np.errstate(invalid="ignore"):  # -inf - -inf, where there is nothing
            second = values[:, 0] - 2 * values[:, 2] + values[:, 4]
            fourth = (
                values[:, 0] - 4 * values[:, 1] + 6 * values[:, 2] - 4 * values[:, 3] + values[:, 4]
            )
            smooth = (np.abs(second) <= _CURVED) & (np.abs(fourth) <= _ROUGH)
        finished = smooth | (size <= NODES)
        empty = (values == -np.inf).all(axis=1) & (
            size > NODES
        )  # five points do not tell of each count
        done.append(np.stack([first, stop])[:, finished & ~empty])
        rest = ~finished & ~empty
        first, stop = first[rest], stop[rest]
        middle = np.floor((first + stop) / 2)
        first, stop = np.concatenate([first, middle]), np.concatenate([middle, stop])
    first, stop = np.concatenate(done, axis=1) if done else np.empty((2, 0))
    order = np.argsort(first)
    return first[order], (stop - first)[order]


def unresolved(
    log_density: Callable[[Array], Array], first: Array, size: Array, n: int, tolerance: float
) -> float | None:
    """Return a count at which the log-density is not what the rules' nodes say it is, or None.

    Through the nodes of each block goes a polynomial of degree 9; it is compared at every count, or at counts drawn from every
    block, or from 8,192 blocks, where there are more than 262,144.

    Parameters
    ----------
    first, size
        Blocks from ``resolved_blocks`` on 1 .. n; what they leave out is to have no mass.
    tolerance
        Difference in nats that is let pass.
    """
    gaps, stops = np.append(1.0, first + size), np.append(first, n + 1.0)
    first, size = np.append(first, gaps), np.append(size, stops - gaps)
    long = size > NODES
    first, size = first[long], size[long]
    if not len(first):
        return None
    draw = np.random.default_rng(0)
    if len(first) > _CHECKED // _EACH:
        some = np.sort(draw.choice(len(first), _CHECKED // _EACH, replace=False))
        first, size = first[some], size[some]
    offset, _ = rule(size.astype(np.int64))
    known = log_density(first[:, None] + offset)
    nodes = offset / size[:, None]
    apart = nodes[:, :, None] - nodes[:, None, :] + np.eye(NODES)
    barycentric = 1 / apart.prod(axis=2)
    checked = np.minimum(size, np.inf if size.sum() <= _CHECKED else _CHECKED // len(size)).astype(
        np.int64
    )
    block = np.repeat(np.arange(len(size)), checked)
    inside = np.arange(len(block)) - np.repeat(np.cumsum(checked) - checked, checked).astype(
        np.float64
    )
    drawn = checked[block] < size[block]
    inside[drawn] = np.floor(draw.random(np.count_nonzero(drawn)) * size[block[drawn]])
    for begin in range(0, len(block), 1 << 15):
        rows = slice(begin, begin + (1 << 15))
        at, place = block[rows], inside[rows]
        distance = (place / size[at])[:, None] - nodes[at]
        distance[distance == 0] = 1e-30  # a hit: its weight drowns all others
        share = barycentric[at] / distance
        found = log_density(first[at] + place)
        with np.errstate(invalid="ignore"):  # -inf among the nodes
            expected = (share * known[at]).sum(axis=1) / share.sum(axis=1)
            good = np.abs(found - expected) <= tolerance + 1e-12 * np.abs(found)
        good |= (found == -np.inf) & (known == -np.inf).all(axis=1)[at]
        if not good.all():
            worst = int(np.argmin(good))
            return float(first[at[worst]] + place[worst])
    return None
