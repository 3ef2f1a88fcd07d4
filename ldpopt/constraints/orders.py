"""Known orders: values that do not increase along them."""

from __future__ import annotations

from abc import abstractmethod
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.constraints.base import LinearInequalities, Polyhedron, distinct
from ldpopt.errors import InvalidInputError

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Order(Polyhedron):
    """A partial order of the values, said by pairs (a, b) with f[a] >= f[b]."""

    @abstractmethod
    def pairs(self, d: int) -> Index:
        """Return the pairs, shape (m, 2)."""

    def rows(self, d: int) -> LinearInequalities:
        """Return one row of differences a pair."""
        from scipy import sparse

        pairs = self.pairs(d)
        row = np.repeat(np.arange(len(pairs)), 2)
        signs = np.tile([1.0, -1.0], len(pairs))
        matrix = sparse.csr_array((signs, (row, pairs.reshape(-1))), shape=(len(pairs), d))
        return LinearInequalities(matrix, np.zeros(len(pairs)), np.full(len(pairs), np.inf))

    def row_name(self, row: int, d: int) -> str:
        """Return the pair."""
        a, b = self.pairs(d)[row]
        return f"f[{a}] >= f[{b}]"

    def forest(self, d: int) -> tuple[Index, int] | None:
        """Return the parents of the values and a sign, or None if the order is not a forest of rooted trees.

        sign·f of a value is at most that of its parent; the parent is -1 where there is none.
        """
        pairs = self.pairs(d)
        for child, parent, sign in ((1, 0, 1), (0, 1, -1)):
            parents = np.full(d, -1)
            parents[pairs[:, child]] = pairs[:, parent]
            if np.count_nonzero(parents >= 0) == len(pairs):
                return parents, sign
        return None


class Monotone(Order):
    """f does not increase along ``order``: f[order[0]] >= f[order[1]] >= …, or along each of many pairs.

    Parameters
    ----------
    order
        Distinct indices, the most frequent value first; or pairs of shape (m, 2), where (a, b) says f[a] >= f[b]: a tree,
        several chains, any partial order. Values outside it are free.

    Raises
    ------
    InvalidInputError
        If an index or a pair is repeated, a pair has one value twice, or pairs go round in a cycle (it is named).

    Examples
    --------
    >>> float(Monotone([2, 0, 1]).violation(np.array([0.5, 0.25, 0.25])))
    0.25
    >>> float(Monotone([(0, 1), (0, 2)]).violation(np.array([0.25, 0.5, 0.25])))
    0.25
    """

    def __init__(self, order: ArrayLike) -> None:
        given = validate.array("order", order)
        self.order = None if given.ndim == 2 else distinct("order", given)
        self._pairs = (
            _pairs(given)
            if self.order is None
            else np.stack([self.order[:-1], self.order[1:]], axis=1)
        )

    def validate_for(self, d: int) -> None:
        """Raise an error if an index is outside the domain."""
        validate.whole_numbers(
            "order", self._pairs if self.order is None else self.order, low=0, high=d - 1
        )

    def pairs(self, d: int) -> Index:
        """Return the pairs as given, or the neighbours of the chain."""
        return self._pairs

    def __repr__(self) -> str:
        return (
            f"Monotone(<{len(self._pairs)} pairs>)"
            if self.order is None
            else f"Monotone(<{len(self.order)} values>)"
        )


class Unimodal(Order):
    """f rises up to the index ``mode`` and falls after it: f_0 <= … <= f_mode >= … >= f_{d-1}.

    Parameters
    ----------
    mode
        Index of the highest value; the indices are in the order of a scale, such as ages or hours.

    Examples
    --------
    >>> float(Unimodal(1).violation(np.array([0.5, 0.25, 0.25])))
    0.25
    """

    def __init__(self, mode: int) -> None:
        self.mode = validate.integer("mode", mode, minimum=0)

    def validate_for(self, d: int) -> None:
        """Raise an error if the mode is outside the domain."""
        validate.whole_numbers("mode", self.mode, low=0, high=d - 1)

    def pairs(self, d: int) -> Index:
        """Return the neighbours, the one nearer to the mode first."""
        left = np.arange(d - 1)
        return np.where(
            (left < self.mode)[:, None],
            np.stack([left + 1, left], 1),
            np.stack([left, left + 1], 1),
        )

    def forest(self, d: int) -> tuple[Index, int]:
        """Return the neighbour nearer to the mode as parent of each value."""
        values = np.arange(d)
        parents = values + np.where(values < self.mode, 1, -1)
        parents[self.mode] = -1
        return parents, 1

    def __repr__(self) -> str:
        return f"Unimodal({self.mode})"


def _pairs(given: NDArray[np.generic]) -> Index:
    if given.shape[1] != 2:
        raise InvalidInputError(
            f"order must be a chain of indices or pairs of shape (m, 2), got shape {given.shape}"
        )
    pairs = validate.whole_numbers("order", given, low=0, high=2**62)
    alone = pairs[:, 0] == pairs[:, 1]
    if alone.any():
        at = int(np.argmax(alone))
        raise InvalidInputError(
            f"order must have pairs of different values, found {_said(pairs[at])} at position {at}"
        )
    _, first, count = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    if (count > 1).any():
        repeated = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        raise InvalidInputError(
            f"order must not repeat a pair, found {_said(pairs[repeated])} again at position {repeated}"
        )
    if len(pairs) and (cycle := find_cycle(pairs)):
        raise InvalidInputError(
            f"order must have no cycle, found {' >= '.join(map(str, cycle))}: drop one of its pairs"
        )
    return pairs


def _said(pair: Index) -> str:
    return f"({pair[0]}, {pair[1]})"


def find_cycle(pairs: Index) -> list[int]:
    """Return the values of a cycle in the order of its pairs (a, b), the first value again at the end; empty if none."""
    from scipy import sparse

    nodes, found = np.unique(pairs, return_inverse=True)
    found = found.reshape(-1, 2)
    graph = sparse.csr_array(
        (np.ones(len(found)), (found[:, 0], found[:, 1])), shape=(len(nodes), len(nodes))
    )
    count, part = sparse.csgraph.connected_components(graph, connection="strong")
    if count == len(nodes):
        return []
    tangled = np.argmax(np.bincount(part) > 1)  # only one part is looked at in Python
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for a, b in pairs[(part[found] == tangled).all(axis=1)].tolist():
        sorter.add(b, a)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
