"""Orders as pooling sees them: how to project on them, and which tree of values they make.

Several orders together are one: values that each is above the other are equal. What is left is a
forest where every other value above a value is above its parent too, and else any partial order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.closed_form.forests import FromAbove, from_above

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Isotonic(ABC):
    """An order that is met by giving blocks of values their mean."""

    name: str = "pava"
    """What the projection is called in the name of a closed form."""

    takes_weights: bool = True
    """Whether ``project`` takes weights."""

    @abstractmethod
    def project(self, values: Array, weights: Array | None = None) -> Array:
        """Return the nearest values that keep the order, of the same shape (..., d)."""

    @property
    def forest(self) -> ForestOrder | None:
        """The order itself if it is one of rooted trees, else None."""
        return None

    @property
    def top_set(self) -> NDArray[np.bool_] | None:
        """Which values are at least as large as all others, if that is the order, else None."""
        return None


class ForestOrder(Isotonic):
    """An order of rooted trees, whose nodes are single values or sets of equal ones.

    Parameters
    ----------
    parents
        The node above each node, -1 for a root.
    sign
        1 where roots are the highest values of their trees, -1 where they are the lowest.
    node_of_value
        The node of each value, shape (d,); None where each value is its own node.
    """

    def __init__(self, parents: Index, sign: int, node_of_value: Index | None = None) -> None:
        self.sign = sign
        numbers = np.arange(len(parents))
        node = numbers if node_of_value is None else node_of_value
        is_in_order = np.array_equal(parents, numbers - 1)
        chain = None if is_in_order else _chain_of(parents)
        if chain is not None:
            # In the order of the chain pooling is one pass: its place is the number of a node.
            node = _inverse(chain)[node]
            parents = numbers - 1
        self.parents = parents
        # Kept: a root asks at each of its steps, and a look at all parents takes a tenth of one.
        self.is_chain = is_in_order or chain is not None
        self._node: Index | None = None
        if np.array_equal(node, numbers):
            return
        self._node = node
        # The values node by node, and where each node starts among them.
        if len(node) == len(numbers):
            self._values_of_nodes = _inverse(node)
            self._starts = numbers
        else:
            self._values_of_nodes = np.argsort(node, kind="stable")
            self._starts = np.searchsorted(node[self._values_of_nodes], numbers)

    @property
    def forest(self) -> ForestOrder:
        """The order itself."""
        return self

    @classmethod
    def of_chain(cls, chain: Index) -> ForestOrder:
        """Return the order of all values in a chain, the highest first."""
        # Numbered along the chain: there is nothing to search for.
        return cls(np.arange(-1, len(chain) - 1), 1, _inverse(chain))

    def project(self, values: Array, weights: Array | None = None) -> Array:
        """Return the isotonic regression."""
        return self.bounded(values, weights, None, None)

    def bounded(
        self,
        values: Array,
        weights: Array | None,
        lower: Array | None,
        upper: Array | None,
    ) -> Array:
        """Return the isotonic regression between bounds of each value, that keep the order."""
        means, mass = self._by_node(values, weights)
        low = None if lower is None else self._extreme(lower, np.maximum)
        high = None if upper is None else self._extreme(upper, np.minimum)
        if self.sign > 0:
            pooled = closed_form.isotonic(
                means, self.parents, mass, low, high, is_chain=self.is_chain
            )
            return self._of_values(pooled)
        # Pooling wants roots that are the highest of their trees: turned over, the lowest are.
        turned_low = None if high is None else -high
        turned_high = None if low is None else -low
        turned = closed_form.isotonic(
            -means, self.parents, mass, turned_low, turned_high, is_chain=self.is_chain
        )
        return self._of_values(-turned)

    def by_slopes(self, slopes: Callable[[Array], Array], lowest: Array, highest: Array) -> Array:
        """Return the minimiser of a convex sum over values, as ``closed_form.split_by_slopes``."""
        ends = (lowest, highest) if self.sign > 0 else (-highest, -lowest)

        def of_nodes(middle: Array) -> Array:
            # Turned over, roots are the highest of their trees: so are the slopes.
            of_values = self.sign * slopes(self.sign * self._of_values(middle))
            if self._node is None:
                return of_values
            steepest = closed_form.STEEPEST_SLOPE
            by_node = np.clip(of_values[..., self._values_of_nodes], -steepest, steepest)
            return np.asarray(np.add.reduceat(by_node, self._starts, axis=-1))

        split = closed_form.split_by_slopes(of_nodes, *ends, self.parents)
        return self._of_values(self.sign * split)

    def _of_values(self, of_nodes: Array) -> Array:
        """Return what each value has from its node, shape (..., d)."""
        return of_nodes if self._node is None else of_nodes[..., self._node]

    def bounds(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return what the order makes of bounds of each value, all of shape (d,)."""
        low = self._extreme(lower, np.maximum)
        high = self._extreme(upper, np.minimum)
        if self.sign < 0:
            low, high = -high, -low
        low, high = closed_form.bounds_along_forest(low, high, self.parents)
        if self.sign < 0:
            low, high = -high, -low
        return self._of_values(low), self._of_values(high)

    @cached_property
    def chain(self) -> Index | None:
        """The values from the highest to the lowest where all are one chain, else None."""
        # A chain with the lowest value at its root runs the other way.
        if self.has_equal_values or not self.is_chain or self.sign < 0:
            return None
        return np.arange(len(self.parents)) if self._node is None else self._values_of_nodes

    @property
    def along_chain(self) -> Index | slice | None:
        """As ``chain``; a slice where values stand in its order: then no vector is copied."""
        if self.chain is None:
            return None
        return slice(None) if self._node is None else self.chain

    @cached_property
    def mode(self) -> int | None:
        """The value from which values fall to both sides as they are numbered; else None."""
        if self._node is not None or self.sign < 0:
            return None
        root = int(np.argmin(self.parents))
        return root if np.array_equal(self.parents, towards(root, len(self.parents))) else None

    @cached_property
    def parents_of_values(self) -> Index:
        """The value above each value in its tree, -1 above roots; no two may be equal."""
        if self._node is None:
            return self.parents
        values = self._values_of_nodes
        parents = np.full(len(values), -1)
        has_parent = self.parents >= 0
        parents[values[has_parent]] = values[self.parents[has_parent]]
        return parents

    @cached_property
    def values_from_above(self) -> FromAbove:
        """The values with each after its parent."""
        return from_above(self.parents_of_values)

    def pairs(self) -> Index:
        """Return pairs (a, b) of values with f[a] >= f[b] that make the order, shape (m, 2)."""
        value = np.arange(len(self.parents))
        if self._node is not None:
            value = self._values_of_nodes[self._starts]
        child = np.flatnonzero(self.parents >= 0)
        parent = self.parents[child]
        pairs = np.stack([value[parent], value[child]], axis=1)
        # Where roots are the lowest values, the child is the larger of the two.
        return pairs[:, :: self.sign]

    def chain_between(self, v: int, is_end: NDArray[np.bool_], is_start: NDArray[np.bool_]) -> str:
        """Return a chain through v, from a value of ``is_start`` down to one of ``is_end``.

        For messages: ``f[0] >= f[3] >= f[7]``. Both masks have shape (d,).
        """
        node = np.arange(len(is_end)) if self._node is None else self._node
        of_v = int(node[v])
        is_above = self._is_beside(node, of_v, self.sign)
        is_below = self._is_beside(node, of_v, -self.sign)
        first = int(np.flatnonzero(is_start & is_above)[0])
        last = int(np.flatnonzero(is_end & is_below)[0])
        # One value may be several of the three: each is named once.
        chain = dict.fromkeys([first, v, last])
        return " >= ".join(f"f[{value}]" for value in chain)

    def _is_beside(self, node: Index, start: int, sign: int) -> NDArray[np.bool_]:
        """Return which values are in the node ``start``, or towards its root (1) or leaves (-1)."""
        if sign > 0:
            ancestors = []
            while start >= 0:
                ancestors.append(start)
                start = int(self.parents[start])
            return np.isin(node, ancestors)
        is_below = np.zeros(len(self.parents), dtype=np.bool_)
        is_below[start] = True
        has_parent = self.parents >= 0
        is_chain = np.array_equal(self.parents, np.arange(-1, len(self.parents) - 1))
        # Each round goes one level down; a chain, whose nodes are in order, is done in one.
        while True:
            if is_chain:
                grown = np.logical_or.accumulate(is_below)
            else:
                grown = is_below | (has_parent & is_below[self.parents])
            if np.array_equal(grown, is_below):
                return np.asarray(is_below[node])
            is_below = grown

    @property
    def has_equal_values(self) -> bool:
        """Whether a node stands for several values."""
        return self._node is not None and len(self._node) > len(self.parents)

    def _by_node(self, values: Array, weights: Array | None) -> tuple[Array, Array | None]:
        """Return the mean of each node, and its mass; None where all nodes weigh the same."""
        if self._node is None:
            return values, weights
        values = values[..., self._values_of_nodes]
        if weights is not None:
            weights = weights[self._values_of_nodes]
        if not self.has_equal_values:
            return values, weights
        weight = np.ones(len(self._node)) if weights is None else weights
        mass = np.add.reduceat(weight, self._starts)
        sums = np.add.reduceat(weight * values, self._starts, axis=-1)
        # For pooling, equal values are one value at their mean with the weight of them all.
        return sums / mass, mass

    def _extreme(self, bound: Array, of_two: np.ufunc) -> Array:
        """Return the tightest bound of each node, of shape (..., nodes)."""
        if self._node is None:
            return bound
        by_node = bound[..., self._values_of_nodes]
        if not self.has_equal_values:
            return by_node
        tightest: Array = of_two.reduceat(by_node, self._starts, axis=-1)
        return tightest


class TopSetOrder(Isotonic):
    """Members above all others.

    Parameters
    ----------
    is_member
        Which values are in the set, shape (d,).
    """

    name = "top set"
    takes_weights = False

    def __init__(self, is_member: NDArray[np.bool_]) -> None:
        self.is_member = is_member

    @property
    def top_set(self) -> NDArray[np.bool_]:
        """The members."""
        return self.is_member

    def project(self, values: Array, weights: Array | None = None) -> Array:
        """Return the nearest values; all weights are the same."""
        assert weights is None  # takes_weights
        return closed_form.top_set(values, self.is_member)


class PartialOrder(Isotonic):
    """Any order of pairs, whose nodes are single values or sets of equal ones.

    Parameters
    ----------
    edges
        Pairs of nodes (a, b) with a above b, without a cycle, shape (m, 2).
    node_of_value
        The node of each value, shape (d,).
    """

    name = "pooling by flows"

    def __init__(self, edges: Index, node_of_value: Index) -> None:
        self.edges = edges
        self._node = node_of_value
        self._size = int(node_of_value.max()) + 1

    def project(self, values: Array, weights: Array | None = None) -> Array:
        """Return the isotonic regression."""
        weight = np.ones(len(self._node)) if weights is None else weights
        mass = np.bincount(self._node, weight, self._size).astype(np.float64)
        # For pooling, equal values are one value at their mean with the weight of them all.
        rows = values.reshape(-1, values.shape[-1])
        sums = [np.bincount(self._node, weight * row, self._size) for row in rows]
        means = np.reshape(sums, (len(rows), self._size)) / mass
        pooled = closed_form.isotonic_on_pairs(means, self.edges, mass)
        return np.asarray(pooled[:, self._node].reshape(values.shape))

    @property
    def has_equal_values(self) -> bool:
        """Whether some pairs make values equal."""
        return self._size < len(self._node)

    def pairs(self) -> Index:
        """Return pairs (a, b) of values with f[a] >= f[b] that make the order, shape (m, 2)."""
        value = np.empty(self._size, dtype=np.int64)
        # Any value of a node stands for it.
        value[self._node] = np.arange(len(self._node))
        return value[self.edges]

    @cached_property
    def values_above(self) -> tuple[Index, Index]:
        """Which values must not be below each one: those of v are above[starts[v]:starts[v + 1]].

        The starts, shape (d + 1,), and the values, shape (m,).
        """
        upper, lower = self.pairs().T
        by_lower = np.argsort(lower, kind="stable")
        starts = np.zeros(len(self._node) + 1, dtype=np.int64)
        np.cumsum(np.bincount(lower, minlength=len(self._node)), out=starts[1:])
        return starts, upper[by_lower]


def order_of(pairs: Index, d: int) -> ForestOrder | PartialOrder:
    """Return the order of pairs (a, b), f[a] >= f[b], of d values.

    Notes
    -----
    Cost: linear in values and pairs, beside sorting the pairs.
    """
    if not len(pairs):
        return ForestOrder(np.full(d, -1), 1)
    nodes, node_of_value = _equal_values(pairs, d)
    numbers = node_of_value[pairs]
    # As one number each: rows of two, and a hash table of them, take ten times as long.
    codes = np.sort(numbers[:, 0] * nodes + numbers[:, 1])
    is_first = np.append(True, codes[1:] != codes[:-1])
    edges = np.stack(np.divmod(codes[is_first], nodes), axis=1)
    # Pairs of equal values are within one node, and order nothing.
    edges = edges[edges[:, 0] != edges[:, 1]]
    # Roots may be the highest values of their trees, or all of them the lowest.
    downwards = edges
    upwards = edges[:, ::-1]
    for sign, directed in ((1, downwards), (-1, upwards)):
        parents = _parents(directed, nodes)
        if parents is not None:
            has_equal_values = nodes < d
            return ForestOrder(parents, sign, node_of_value if has_equal_values else None)
    return PartialOrder(edges, node_of_value)


def towards(mode: int, d: int) -> Index:
    """Return the neighbour of each of d values that is nearer to a mode, -1 for the mode."""
    values = np.arange(d)
    parents = values + np.where(values < mode, 1, -1)
    parents[mode] = -1
    return parents


def joined(orders: Sequence[Isotonic], d: int) -> Isotonic | None:
    """Return several orders of d single values as one; None if one of them has no pairs."""
    if len(orders) == 1:
        return orders[0]
    paired = [order for order in orders if isinstance(order, (ForestOrder, PartialOrder))]
    if len(paired) < len(orders):
        return None
    return order_of(np.concatenate([order.pairs() for order in paired]), d)


def _equal_values(pairs: Index, d: int) -> tuple[int, Index]:
    """Return how many nodes there are, and the node of each value: cycles of pairs are one."""
    from scipy import sparse  # slow to import, as everywhere in this folder

    entries = (np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1]))
    graph = sparse.csr_array(entries, shape=(d, d))
    count, part = sparse.csgraph.connected_components(graph, connection="strong")
    if count == d:
        return d, np.arange(d)
    return count, part.astype(np.int64)


def _parents(edges: Index, nodes: int) -> Index | None:
    """Return the parents in the forest of edges (parent, child); None for another graph.

    A node may have several nodes above it if these are on one way to the root: the lowest is its
    parent.
    """
    parents = np.full(nodes, -1)
    above_each, below_each = edges.T
    counts = np.bincount(below_each, minlength=nodes)
    single = counts[below_each] == 1
    parents[below_each[single]] = above_each[single]
    if single.all():
        return parents
    from ldpopt.closed_form.tree_kernels import lowest_above  # imports numba

    lowest, is_forest = lowest_above(above_each.copy(), below_each.copy(), nodes)
    return np.asarray(lowest) if is_forest else None


def _inverse(permutation: Index) -> Index:
    """Return where each number stands in a permutation of 0 .. n - 1."""
    place = np.empty(len(permutation), dtype=np.int64)
    place[permutation] = np.arange(len(permutation))
    return place


def _chain_of(parents: Index) -> Index | None:
    """Return the nodes of a single chain from its root to its leaf; None for other forests."""
    size = len(parents)
    children = np.full(size, -1)
    below = np.flatnonzero(parents >= 0)
    children[parents[below]] = below
    # One root, and nobody with two children: the second would have replaced the first.
    if len(below) != size - 1 or np.count_nonzero(children >= 0) != len(below):
        return None
    chain = np.empty(size, dtype=np.int64)
    node = int(np.argmin(parents))
    following = children.tolist()
    for place in range(size):
        chain[place] = node
        node = following[node]
    return chain
