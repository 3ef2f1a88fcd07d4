"""Groups that lie inside each other or apart, as a forest of values, and least squares on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.hierarchy import tree_consistency

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Forest(NamedTuple):
    """Values and groups as nodes: the groups first, then the d values.

    Attributes
    ----------
    parents
        The smallest group that holds each node, -1 above the largest ones.
    node_of_group
        The node of each group: equal groups share one.
    """

    parents: Index
    node_of_group: Index

    @property
    def groups(self) -> int:
        """How many nodes are groups."""
        return 0 if not len(self.node_of_group) else int(self.node_of_group.max()) + 1


def forest_of(members: csr_array) -> Forest | None:
    """Return the forest of groups, None if two of them overlap without one holding the other.

    Parameters
    ----------
    members
        Sparse (m, d) of zeros and ones; no group is empty.

    Notes
    -----
    Cost: one look at each member, after a sort of the groups by size.
    """
    m, d = members.shape
    sizes = np.diff(members.indptr)
    # The smallest group seen so far that holds each value, -1 for none.
    holder = np.full(d, -1, dtype=np.int64)
    parent_of_group: list[int] = []
    size_of_node: list[int] = []
    node_of_group = np.empty(m, dtype=np.int64)
    # The largest first: whatever a group lies in has then been seen.
    for group in np.argsort(-sizes, kind="stable"):
        values = members.indices[members.indptr[group] : members.indptr[group + 1]]
        holders = holder[values]
        above = int(holders[0])
        # Some values lie inside another group, and some do not.
        if (holders != above).any():
            return None
        # A group of the same size that holds it is the same group.
        if above >= 0 and size_of_node[above] == len(values):
            node_of_group[group] = above
            continue
        node = len(parent_of_group)
        parent_of_group.append(above)
        size_of_node.append(len(values))
        node_of_group[group] = node
        holder[values] = node
    parents = np.concatenate([np.array(parent_of_group, dtype=np.int64), holder])
    return Forest(parents, node_of_group)


class _Upwards(NamedTuple):
    """What the pass from leaves to roots leaves at each node, in the letters of ``variances``.

    Attributes
    ----------
    spread, variance
        u, and the true variance of z.
    share
        k, which is 0 for values.
    sum_spread, sum_variance
        U, and the true variance of Z.
    """

    spread: Array
    variance: Array
    share: Array
    sum_spread: Array
    sum_variance: Array


class ForestSquares:
    """The quadratic ½ Σ w_v f_v² + ½ Σ ω_g (Σ_g f)² of values and groups of a forest.

    Parameters
    ----------
    forest
        The groups.
    precision
        Weights w > 0 of the values, shape (d,).
    weights
        Weights ω > 0 of the groups, shape (m,).
    """

    def __init__(self, forest: Forest, precision: Array, weights: Array) -> None:
        self._forest = forest
        inner = np.bincount(forest.node_of_group, weights, forest.groups)
        self._trust = np.concatenate([inner, precision])
        self._precision = precision
        self._weights = weights
        self._levels = _levels(forest.parents)

    def solve(self, x: Array) -> Array:
        """Return P⁻¹ x for rows x of shape (k, d), with P the matrix of the quadratic."""
        groups = self._forest.groups
        # P⁻¹ x minimises the quadratic less xᵀf: measured are x/w, and 0 for each group.
        measured = np.concatenate([np.zeros((len(x), groups)), x / self._precision], axis=1)
        solved = tree_consistency(measured, self._forest.parents, self._trust)
        return solved[:, groups:]

    def variances(self, of_values: Array, of_groups: Array) -> tuple[Array, Array]:
        """Return the variance of each combined value, and how it follows its own measurement.

        Parameters
        ----------
        of_values
            True variances of the values' own measurements, shape (d,).
        of_groups
            Those of the groups' measurements, shape (m,).

        Notes
        -----
        The best total of what lies below a node is z, with a spread u = 1/weight; children sum to
        Z with the spread U. A measured group draws Z towards its total by the share k = ωU/(1+ωU).
        On the way down t_v = z_v + r (t_p - Z_p) with r = u_v/U_p. Both ways are linear, so that
        the variances of z, Z and t follow level by level, with D = dt/dz for their covariances.
        """
        up = self._upwards(of_values, of_groups)
        parents = self._forest.parents
        # A root is not moved from above: what is best below it is its total.
        variance = up.variance.copy()
        follows = np.ones(len(variance))
        for level in self._levels[1:]:
            above = parents[level]
            below = up.variance[level]
            sums = up.sum_variance[above]
            r = up.spread[level] / up.sum_spread[above]
            kept = 1 - r
            # D of the parent towards the sum of its children.
            through = (1 - up.share[above]) * follows[above]
            siblings = sums - below
            moved = kept**2 * below
            moved += r**2 * (siblings + variance[above])
            # The node is a part of its parent's total.
            common = 2 * r * through * (below - r * sums)
            variance[level] = moved + common
            follows[level] = kept + r * through
        groups = self._forest.groups
        return variance[groups:], follows[groups:]

    def _upwards(self, of_values: Array, of_groups: Array) -> _Upwards:
        """Return the best totals' spreads and variances, from what lies below each node."""
        count = self._forest.groups
        parents = self._forest.parents
        node_variance = self._variance_of_nodes(of_groups)
        # Groups get theirs from the level below, and so stand at 0 until then.
        unknown = np.zeros(count)
        spread = np.concatenate([unknown, 1 / self._precision])
        variance = np.concatenate([unknown, of_values])
        share = np.zeros(len(spread))
        sum_spread = np.zeros(len(spread))
        sum_variance = np.zeros(len(spread))
        for level in reversed(self._levels):
            group = level[level < count]
            part = self._trust[group] * sum_spread[group]
            drawn = part / (1 + part)
            share[group] = drawn
            spread[group] = sum_spread[group] / (1 + part)
            of_sum = (1 - drawn) ** 2 * sum_variance[group]
            variance[group] = of_sum + drawn**2 * node_variance[group]
            # Not += : several children have one parent.
            held = level[parents[level] >= 0]
            np.add.at(sum_spread, parents[held], spread[held])
            np.add.at(sum_variance, parents[held], variance[held])
        return _Upwards(spread, variance, share, sum_spread, sum_variance)

    def _variance_of_nodes(self, of_groups: Array) -> Array:
        """Return the variance of each group's measurement; equal groups were averaged."""
        nodes = self._forest.node_of_group
        count = self._forest.groups
        shares = self._weights / self._trust[nodes]
        return np.asarray(np.bincount(nodes, shares**2 * of_groups, count), dtype=np.float64)


def _levels(parents: Index) -> list[Index]:
    """Return the nodes by their distance from the top, the roots first."""
    depth = np.zeros(len(parents), dtype=np.int64)
    current = parents.copy()
    # All nodes at once, one level per step: groups are rarely more than a few deep.
    while (current >= 0).any():
        depth += current >= 0
        current = np.where(current >= 0, parents[current], -1)
    order = np.argsort(depth, kind="stable")
    ends = np.cumsum(np.bincount(depth))[:-1]
    return np.split(order, ends)
