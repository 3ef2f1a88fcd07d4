"""The sums behind posteriors: prior times likelihood at the nodes of the blocks that matter.

Blocks on which the prior is smooth are cut into pieces on which the likelihood is smooth as well.
Pieces are common to all estimates, so that the prior is evaluated once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt.priors.noise import CountNoise
from ldpopt.priors.reach import nearest_counts
from ldpopt.priors.summation import NODES, Runs, merged, rule

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
LogDensity = Callable[[Array], Array]

_SPAN = 2.5  # standard deviations of the noise that one rule spans: its error is below 1e-11
_HELD = 1 << 21  # nodes held at a time: 16 MB per array


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of some posteriors, block by block.

    Attributes
    ----------
    rows
        Which estimates these are, shape (r,).
    first, stop
        First counts of the blocks and the counts after their last, shape (r, blocks).
    k, logs
        Nodes, shape (r, blocks * NODES), and log(weight of the node × prior × likelihood), up to
        the logarithms of the prior's normaliser and of the density of y under the nearest count.
        Estimates that need fewer blocks than others have minus infinity at the end.
    """

    rows: Whole
    first: Array
    stop: Array
    k: Array
    logs: Array


def weighted_nodes(log_density: LogDensity, runs: Runs) -> tuple[Array, Array]:
    """Return the nodes of runs of counts and log(weight × density): the runs' shape and NODES."""
    offset, weight = rule(runs.size.astype(np.int64).ravel())
    shape = (*runs.size.shape, NODES)
    k = runs.first[..., None] + offset.reshape(shape)
    with np.errstate(divide="ignore"):  # runs shorter than NODES are padded with weight 0
        return k, log_density(k) + np.log(weight).reshape(shape)


def posterior_terms(
    log_density: LogDensity, blocks: Runs, y: Array, noise: CountNoise, reach: Runs, n: int
) -> Iterator[Terms]:
    """Yield the terms of the posteriors of all estimates, some estimates at a time.

    Parameters
    ----------
    log_density
        Of the prior, up to a constant.
    blocks
        Disjoint ascending runs of counts on which the prior is smooth; they cover all that reach
        covers.
    y, noise, n
        Estimates of shape (m,), their noise, and the largest count.
    reach
        For each estimate the run of counts that matter.
    """
    pieces = _Pieces(blocks, noise)
    begin = pieces.containing(reach.first)
    end = pieces.containing(reach.stop - 1)
    # Of all pieces only those that matter to some estimate are evaluated: they come in stretches,
    # which are held one after another.
    lowest, highest = merged(begin, end)
    length = (highest - lowest + 1).astype(np.int64)
    offset = np.append(0, np.cumsum(length))
    held = np.repeat(lowest - offset[:-1], length) + np.arange(offset[-1])
    runs = pieces.runs(held)
    nodes, logs = weighted_nodes(log_density, runs)
    stretch = np.searchsorted(lowest, begin, side="right") - 1
    position = (begin - lowest[stretch]).astype(np.int64) + offset[stretch]
    count = (end - begin).astype(np.int64) + 1
    nearest = nearest_counts(y, n)
    for rows in _chunks(count):
        steps = np.arange(count[rows].max())
        index = np.minimum(position[rows, None] + steps, len(held) - 1)
        needed = (steps < count[rows, None])[..., None]
        k = nodes[index].reshape(len(rows), -1)
        terms = np.where(needed, logs[index], -np.inf).reshape(len(rows), -1)
        terms += noise.log_ratio(y[rows, None], k, nearest[rows, None])
        first = runs.first[index]
        yield Terms(rows, first, first + runs.size[index], k, terms)


class _Pieces:
    """Blocks cut into pieces that span few standard deviations, numbered in ascending order."""

    def __init__(self, blocks: Runs, noise: CountNoise) -> None:
        self.blocks = blocks
        ends = noise.variance(blocks.first), noise.variance(blocks.stop)
        longest = np.maximum(_SPAN * np.sqrt(np.minimum(*ends)), NODES)
        self.parts = np.ceil(blocks.size / longest)
        self.before = np.append(0.0, np.cumsum(self.parts))  # pieces in all blocks before each

    def containing(self, k: Array) -> Array:
        """Return the number of the piece that holds each count."""
        block = np.searchsorted(self.blocks.first, k, side="right") - 1
        block = np.clip(block, 0, len(self.parts) - 1)
        distance = k - self.blocks.first[block]
        part = np.floor(distance * self.parts[block] / self.blocks.size[block])
        return np.asarray(self.before[block] + np.clip(part, 0, self.parts[block] - 1))

    def runs(self, piece: Array) -> Runs:
        """Return the counts that pieces hold."""
        block = np.searchsorted(self.before, piece, side="right") - 1
        part = piece - self.before[block]
        size = self.blocks.size[block]
        begin = np.floor(part * size / self.parts[block])
        end = np.floor((part + 1) * size / self.parts[block])
        return Runs(self.blocks.first[block] + begin, end - begin)


def _chunks(count: Whole) -> Iterator[Whole]:
    """Yield the numbers of estimates with similarly many pieces, so many that their nodes fit."""
    order = np.argsort(count, kind="stable")
    position = 0
    while position < len(order):
        rest = order[position:]
        # A chunk is as wide as its last row, which needs most.
        held = count[rest] * NODES * np.arange(1, len(rest) + 1)
        rows = rest[: max(1, int(np.searchsorted(held, _HELD, side="right")))]
        position += len(rows)
        yield rows
