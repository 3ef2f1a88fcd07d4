"""Quantiles of posteriors: whole counts, found exactly by ever smaller blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.noise import CountNoise
from ldpopt.priors.quadrature import Terms, weighted_nodes
from ldpopt.priors.reach import nearest_counts
from ldpopt.priors.summation import NODES, Runs

Array = NDArray[np.float64]
LogDensity = Callable[[Array], Array]

_ROUNDED = 1 - 1e-13
"""Factor on the mass that a quantile must reach: a sum that equals it may round to less."""


def reached_points(weight: Array, shares: Array, support: Array) -> Array:
    """Return the smallest support points up to which estimates have shares of their weights.

    Parameters
    ----------
    weight
        Non-negative weights of the points, shape (m, points).
    shares
        In (0, 1), shape (r, m): r of each estimate.
    support
        The points, ascending.
    """
    upto = np.cumsum(weight, axis=1)
    # The rounded total, at which the sums end: so every share below 1 is reached.
    total = upto[:, -1:]
    points = np.empty(shares.shape)
    for of_share, share in zip(points, shares, strict=True):
        target = share[:, None] * _ROUNDED * total
        below = np.count_nonzero(upto < target, axis=1)
        of_share[:] = support[below]
    return points


def quantiles(
    log_density: LogDensity,
    terms: Terms,
    y: Array,
    noise: CountNoise,
    n: int,
    shares: Array,
) -> Array:
    """Return the smallest count k with Pr[counts up to k | y] >= share, for each estimate.

    Parameters
    ----------
    log_density
        Of the prior, up to a constant.
    terms
        The terms of some estimates' posteriors.
    y
        These estimates, shape (r,).
    noise
        Their noise.
    n
        The largest count.
    shares
        Posterior probabilities in (0, 1), shape (r,).
    """
    nearest = nearest_counts(y, n)
    # All masses of an estimate are relative to its largest term, whatever the size of the blocks.
    top = terms.logs.max(axis=1, keepdims=True)
    mass = np.exp(terms.logs - top)
    # Per run of nodes: where the mass is reached is found among runs first, then inside one.
    mass = mass.reshape(len(y), -1, NODES).sum(axis=2)
    blocks = Runs(terms.first, terms.stop - terms.first)
    target = shares * mass.sum(axis=1)
    while True:  # blocks become ten times smaller until they are single counts
        chosen, target = _reaching(mass, target)
        first = np.take_along_axis(blocks.first, chosen, axis=1)
        size = np.take_along_axis(blocks.size, chosen, axis=1)
        if (size <= 1).all():
            return np.asarray(first[:, 0])
        blocks = _parts(Runs(first, size))
        k, logs = weighted_nodes(log_density, blocks)
        logs = logs + noise.log_ratio(y[:, None, None], k, nearest[:, None, None])
        mass = np.exp(logs - top[..., None]).sum(axis=2)


def _reaching(mass: Array, target: Array) -> tuple[NDArray[np.int64], Array]:
    """Return the block in which the cumulative mass reaches the target, and what is missing there.

    Shapes: mass (r, blocks), target (r,), the block (r, 1).
    """
    upto = np.cumsum(mass, axis=1)
    needed = (target * _ROUNDED)[:, None]
    below = np.count_nonzero(upto < needed, axis=1)
    last = mass.shape[1] - 1
    # Where rounding leaves the target above the whole mass, the last block has it.
    chosen = np.minimum(below, last)[:, None]
    before = np.take_along_axis(upto - mass, chosen, axis=1)[:, 0]
    return chosen, target - before


def _parts(block: Runs) -> Runs:
    """Return the ``NODES`` parts of each block, shape (r, NODES); some may be empty."""
    tenths = np.arange(NODES + 1)
    cuts = np.floor(block.size * tenths / NODES)
    first = block.first + cuts[:, :-1]
    return Runs(first, np.diff(cuts, axis=1))
