"""Totals that contain each other: a tree whose every level is estimated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.constraints.base import LinearInequalities, Polyhedron
from ldpopt.constraints.orders import find_cycle
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Hierarchy(Polyhedron):
    """f_v = Σ f_c over the children c of v, for every node v that has children (Hay et al. 2010).

    The vector has one entry a node, so an estimate has the estimates of every level in it. Each level sums to the same, and
    all nodes together do not sum to 1: say ``total`` here instead of ``SumsTo``.

    Parameters
    ----------
    parents
        Index of each node's parent, -1 for a root, shape (d,). One root or many.
    total
        What the roots sum to, 1 for a distribution; None leaves that free.

    Raises
    ------
    InvalidInputError
        If a parent is out of range, or nodes hang below themselves (the cycle is named).

    Examples
    --------
    >>> float(Hierarchy([-1, 0, 0]).violation(np.array([1.0, 0.5, 0.25])))
    0.25
    >>> from ldpopt import Problem, losses
    >>> Problem(losses.LeastSquares(), [Hierarchy([-1, 0, 0], total=1.0)]).solve([0.9, 0.5, 0.2]).frequencies
    array([1.  , 0.65, 0.35])
    """

    def __init__(self, parents: ArrayLike, total: float | None = None) -> None:
        d = np.size(parents)
        self.parents = validate.whole_numbers("parents", parents, low=-1, high=d - 1)
        if self.parents.ndim != 1 or not d:
            raise InvalidInputError(
                f"parents must have shape (d,), one a node, got shape {self.parents.shape}"
            )
        self.root_total = None if total is None else validate.real("total", total)
        below = np.flatnonzero(self.parents >= 0)
        itself = below[self.parents[below] == below]
        if len(itself):
            raise InvalidInputError(f"node {itself[0]} is its own parent: a root has the parent -1")
        if len(below) and (cycle := find_cycle(np.stack([self.parents[below], below], axis=1))):
            raise InvalidInputError(
                f"parents go round in a cycle: {' above '.join(map(str, cycle))}"
            )

    @classmethod
    def balanced(cls, leaves: int, branching: int, total: float | None = None) -> Hierarchy:
        """Return the tree of ranges on a scale: every ``branching`` neighbours have a parent, up to one root.

        Nodes are numbered from the root down and from left to right, so the leaves come last; the last group of a level may
        be smaller.

        Parameters
        ----------
        leaves
            Number of values on the scale, >= 1.
        branching
            Number of children of a node, >= 2.
        total
            What the root is, if that is known.

        Examples
        --------
        >>> Hierarchy.balanced(leaves=3, branching=2).parents
        array([-1,  0,  0,  1,  1,  2])
        """
        leaves = validate.integer("leaves", leaves, minimum=1)
        branching = validate.integer("branching", branching, minimum=2)
        groups = []
        while leaves > 1:
            groups.append(np.arange(leaves) // branching)
            leaves = -(-leaves // branching)
        return cls.of_groups(*groups, total=total) if groups else cls([-1], total)

    @classmethod
    def of_groups(cls, *groups: ArrayLike, total: float | None = None) -> Hierarchy:
        """Return the forest of items in groups, groups in larger groups, and so on.

        Nodes are numbered level by level, the largest groups first and the items last.

        Parameters
        ----------
        *groups
            The group of each item, then the larger group of each group, …: indices from 0, each of them used.
        total
            What the largest groups sum to, if that is known.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a group does not exist or has no members, or there is no grouping at all.

        Examples
        --------
        >>> category_of_item = [0, 0, 1, 2]
        >>> Hierarchy.of_groups(category_of_item, total=1.0).parents
        array([-1, -1, -1,  0,  0,  1,  2])
        """
        if not groups:
            raise InvalidTypeError("of_groups takes at least one array: the group of each item")
        levels = [
            validate.whole_numbers(f"grouping {i}", g, low=0, high=2**62)
            for i, g in enumerate(groups)
        ]
        if any(level.ndim != 1 or not level.size for level in levels):
            raise InvalidInputError(
                "a grouping must be a one-dimensional array with the group of each item"
            )
        sizes = [*map(len, levels), int(levels[-1].max()) + 1]
        for i, level in enumerate(levels):
            validate.whole_numbers(f"grouping {i}", level, low=0, high=sizes[i + 1] - 1)
            empty = np.setdiff1d(np.arange(sizes[i + 1]), level)
            if len(empty):
                raise InvalidInputError(
                    f"grouping {i} puts nothing into group {empty[0]}: every group needs a member"
                )
        starts = (
            np.cumsum(sizes[::-1]) - sizes[::-1]
        )  # where levels begin, the largest groups first
        above = [level + start for level, start in zip(levels[::-1], starts, strict=False)]
        return cls(np.concatenate([np.full(sizes[-1], -1), *above]), total)

    @staticmethod
    def stack(levels: Sequence[FrequencyEstimate]) -> tuple[Array, Array]:
        """Return the estimates of all levels as one vector, and the weights 1/σ² of its entries.

        Parameters
        ----------
        levels
            Estimates with a noise level, in the order of the nodes; each may have its own oracle and n. The value of a root
            that has no estimate, as it is known, is put in front by hand, with any weight.

        Raises
        ------
        InvalidInputError
            If an estimate has no noise level, or stacks of trials differ.

        Examples
        --------
        >>> from ldpopt import oracles
        >>> categories = FrequencyEstimate([0.7, 0.3], n=5000, oracle=oracles.GRR(1.0, d=2))
        >>> items = FrequencyEstimate([0.5, 0.1, 0.3], n=5000, oracle=oracles.GRR(1.0, d=3))
        >>> f, weights = Hierarchy.stack([categories, items])
        >>> f, weights.round()
        (array([0.7, 0.3, 0.5, 0.1, 0.3]), array([5431., 5431., 3970., 3970., 3970.]))
        """
        shapes = {level.frequencies.shape[:-1] for level in levels}
        if len(shapes) != 1:
            raise InvalidInputError(
                f"levels must be estimates with the same trials, got stacks of shapes {sorted(shapes)}"
            )
        weights = np.concatenate([np.full(level.d, level.sigma**-2) for level in levels])
        return np.concatenate([level.frequencies for level in levels], axis=-1), weights

    @property
    def leaves(self) -> Index:
        """The nodes without children: the finest frequencies, of which all others are sums."""
        return np.setdiff1d(np.arange(len(self.parents)), self.parents)

    def validate_for(self, d: int) -> None:
        """Raise an error unless there are d nodes."""
        if len(self.parents) != d:
            raise InvalidInputError(
                f"parents must have one entry a node: {len(self.parents)} for {d} estimates"
            )

    def rows(self, d: int) -> LinearInequalities:
        """Return one row a parent, and one for the total."""
        from scipy import sparse

        below, roots = np.flatnonzero(self.parents >= 0), np.flatnonzero(self.parents < 0)
        inner, row = np.unique(self.parents[below], return_inverse=True)
        known = [] if self.root_total is None else [self.root_total]
        values = np.concatenate(
            [np.ones(len(inner)), -np.ones(len(below)), np.ones(len(roots) * len(known))]
        )
        at = np.concatenate(
            [np.arange(len(inner)), row, np.repeat(len(inner), len(roots) * len(known))]
        )
        column = np.concatenate([inner, below, roots if known else roots[:0]])
        bound = np.concatenate([np.zeros(len(inner)), known])
        return LinearInequalities(
            sparse.csr_array((values, (at, column)), shape=(len(bound), d)), bound, bound
        )

    def row_name(self, row: int, d: int) -> str:
        """Return the node whose children are added up."""
        inner = np.unique(self.parents[self.parents >= 0])
        return (
            f"f[{inner[row]}] = sum of its children"
            if row < len(inner)
            else f"the roots sum to {self.root_total:g}"
        )

    def __repr__(self) -> str:
        return f"Hierarchy(<{len(self.parents)} nodes>{'' if self.root_total is None else f', total={self.root_total:g}'})"
