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
_PADDED = 1 << 21  # nodes of the estimates that are given as many pieces as one of them needs
_HELD = 1 << 13  # nodes held at a time: an array of 64 kB stays in the processor's cache


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of some posteriors, block by block.

    Attributes
    ----------
    rows
        Which estimates these are, shape (r,).
    first, stop
        First counts of the blocks and the counts after their last, shape (r, blocks).
    k
        Nodes, shape (r, blocks * NODES).
    logs
        log(weight of the node × prior × likelihood), of the shape of ``k``, up to the logarithms
        of the prior's normaliser and of the density of y under the nearest count. Estimates that
        need fewer blocks than others have minus infinity at the end.
    """

    rows: Whole
    first: Array
    stop: Array
    k: Array
    logs: Array


def weighted_nodes(log_density: LogDensity, runs: Runs) -> tuple[Array, Array]:
    """Return the nodes of runs of counts and log(weight × density) at each.

    Both have the shape of the runs with an axis of length ``NODES`` behind.
    """
    sizes = runs.size.astype(np.int64)
    offset, weight = rule(sizes.ravel())
    shape = (*sizes.shape, NODES)
    k = runs.first[..., None] + offset.reshape(shape)
    with np.errstate(divide="ignore"):  # runs shorter than NODES are padded with weight 0
        log_weight = np.log(weight).reshape(shape)
        return k, log_density(k) + log_weight


def posterior_terms(
    log_density: LogDensity,
    blocks: Runs,
    y: Array,
    noise: CountNoise,
    reach: Runs,
    n: int,
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
    held = _HeldPieces(begin, end)
    runs = pieces.runs(held.pieces)
    nodes, logs = weighted_nodes(log_density, runs)
    position = held.position(begin)
    count = (end - begin).astype(np.int64) + 1
    nearest = nearest_counts(y, n)
    for rows, widest in _parts(count):
        m = len(rows)
        steps = np.arange(widest)
        # Rows that need fewer pieces than others repeat one, which then has no weight.
        index = position[rows, None] + steps
        index = np.minimum(index, len(held.pieces) - 1)
        needed = steps < count[rows, None]
        k = nodes[index].reshape(m, -1)
        terms = np.where(needed[..., None], logs[index], -np.inf)
        terms = terms.reshape(m, -1)
        terms += noise.log_ratio(y[rows, None], k, nearest[rows, None])
        first = runs.first[index]
        stop = first + runs.size[index]
        yield Terms(rows, first, stop, k, terms)


class _Pieces:
    """Blocks cut into pieces that span few standard deviations, numbered in ascending order."""

    def __init__(self, blocks: Runs, noise: CountNoise) -> None:
        self.blocks = blocks
        # The variance is affine in the count, so its minimum over a block is at an end.
        smallest = np.minimum(
            noise.variance(blocks.first),
            noise.variance(blocks.stop),
        )
        longest = np.maximum(_SPAN * np.sqrt(smallest), NODES)
        self.parts = np.ceil(blocks.size / longest)
        self.before = np.append(0.0, np.cumsum(self.parts))  # pieces in all blocks before each

    def containing(self, k: Array) -> Array:
        """Return the number of the piece that holds each count."""
        first = self.blocks.first
        block = np.searchsorted(first, k, side="right") - 1
        block = np.clip(block, 0, len(first) - 1)
        parts = self.parts[block]
        distance = k - first[block]
        part = np.floor(distance * parts / self.blocks.size[block])
        # Counts outside of all blocks go to the piece next to them.
        part = np.clip(part, 0, parts - 1)
        return np.asarray(self.before[block] + part)

    def runs(self, piece: Array) -> Runs:
        """Return the counts that pieces hold."""
        block = np.searchsorted(self.before, piece, side="right") - 1
        part = piece - self.before[block]
        parts = self.parts[block]
        size = self.blocks.size[block]
        begin = np.floor(part * size / parts)
        end = np.floor((part + 1) * size / parts)
        first = self.blocks.first[block] + begin
        return Runs(first, end - begin)


class _HeldPieces:
    """The pieces that matter to some estimate, in ascending order.

    They come in stretches of neighbours, which are held one after another: only these pieces are
    evaluated.

    Attributes
    ----------
    pieces
        Their numbers, shape (held,).
    """

    def __init__(self, begin: Array, end: Array) -> None:
        self._lowest, highest = merged(begin, end)
        length = (highest - self._lowest + 1).astype(np.int64)
        # Of each stretch, how many pieces are held before it.
        self._before = np.append(0, np.cumsum(length))
        shift = np.repeat(self._lowest - self._before[:-1], length)
        self.pieces: Array = shift + np.arange(self._before[-1])

    def position(self, piece: Array) -> Whole:
        """Return where pieces, each in some stretch, are held."""
        stretch = np.searchsorted(self._lowest, piece, side="right") - 1
        distance = (piece - self._lowest[stretch]).astype(np.int64)
        return np.asarray(distance + self._before[stretch])


def _parts(count: Whole) -> Iterator[tuple[Whole, int]]:
    """Yield the numbers of some estimates, few enough to be held, and how many pieces they get."""
    for rows in _chunks(count):
        # The last bits of a row's sums depend on its length: it is that of the chunk.
        widest = int(count[rows].max())
        step = max(1, _HELD // (widest * NODES))
        for first in range(0, len(rows), step):
            yield rows[first : first + step], widest


def _chunks(count: Whole) -> Iterator[Whole]:
    """Yield the numbers of estimates with similarly many pieces, with at most ``_PADDED`` nodes."""
    order = np.argsort(count, kind="stable")
    position = 0
    while position < len(order):
        rest = order[position:]
        # A chunk is as wide as its last row, which needs most.
        rows_up_to = np.arange(1, len(rest) + 1)
        nodes = count[rest] * NODES * rows_up_to
        fitting = int(np.searchsorted(nodes, _PADDED, side="right"))
        rows = rest[: max(1, fitting)]
        position += len(rows)
        yield rows
