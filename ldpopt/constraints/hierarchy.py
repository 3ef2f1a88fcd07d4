"""Totals that contain each other: a tree whose every level is estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpopt import validate
from ldpopt.closed_form.rows import is_long, locked_rows
from ldpopt.constraints.base import LinearInequalities, Polyhedron, Tree
from ldpopt.constraints.linear import GroupTotals
from ldpopt.constraints.orders import find_cycle
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.printable import counted

Array = NDArray[np.float64]
Index = NDArray[np.int64]


# By how much the parts of a group may differ from its total.
_ROUNDING = 1e-9


class Hierarchy(Polyhedron):
    """f_v = Σ f_c over the children c of v, for every node v that has children (Hay et al. 2010).

    The vector has one entry per node, so that an estimate holds the estimates of every level. Each
    level has the same sum, and all nodes together do not sum to 1: give ``total`` here instead of
    adding ``SumsTo``.

    Parameters
    ----------
    parents
        Index of each node's parent, -1 for a root, shape (d,). One root or many.
    total
        The sum of the roots, 1 for a distribution; None leaves it free.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a parent is out of range, or nodes are below themselves (the cycle is named).

    Examples
    --------
    >>> float(Hierarchy([-1, 0, 0]).violation(np.array([1.0, 0.5, 0.25])))
    0.25
    >>> from ldpopt import Problem, losses
    >>> problem = Problem(losses.LeastSquares(), [Hierarchy([-1, 0, 0], total=1.0)])
    >>> problem.solve([0.9, 0.5, 0.2]).frequencies
    array([1.  , 0.65, 0.35])
    """

    def __init__(self, parents: ArrayLike, total: float | None = None) -> None:
        given = validate.array("parents", parents)
        d = given.size
        self.parents = validate.whole_numbers("parents", given, low=-1, high=d - 1)
        if self.parents.ndim != 1 or not d:
            raise InvalidInputError(
                f"parents must have shape (d,), one per node, got shape {self.parents.shape}"
            )
        self.root_total = None if total is None else validate.real("total", total)
        self._is_in_order = bool((self.parents[1:] >= self.parents[:-1]).all())
        below = np.flatnonzero(self.parents >= 0)
        self._has_children = len(below) > 0
        above = self.parents[below]
        # A loop is a cycle too, but has a plainer message.
        loops = below[above == below]
        if len(loops):
            raise InvalidInputError(f"node {loops[0]} is its own parent: a root has the parent -1")
        # Otherwise sums over the nodes below would never end.
        cycle = find_cycle(np.stack([above, below], axis=1))
        if cycle:
            raise InvalidInputError(
                f"parents go round in a cycle: {' above '.join(map(str, cycle))}"
            )

    @property
    def latex(self) -> str:
        """The set in LaTeX."""
        tree = r"f_v = \sum_{c \text{ below } v} f_c"
        if self.root_total is None:
            return tree
        return rf"{tree}, \quad \sum_{{\text{{roots}}}} f_v = {self.root_total:g}"

    @classmethod
    def balanced(cls, leaves: int, branching: int, total: float | None = None) -> Hierarchy:
        """Return the tree of ranges on a scale: so many neighbours have a parent, up to one root.

        Nodes are numbered from the root down and from left to right, so that the leaves come last;
        the last group of a level may be smaller.

        Parameters
        ----------
        leaves
            Number of values on the scale, >= 1.
        branching
            Number of children per node, >= 2.
        total
            The value of the root, if it is known.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a number is not whole or too small.

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
            # Rounded up: the last group may be smaller.
            leaves = -(-leaves // branching)
        # One leaf needs no grouping: it is the root.
        return cls.of_groups(*groups, total=total) if groups else cls([-1], total)

    @classmethod
    def of_groups(cls, *groups: ArrayLike, total: float | None = None) -> Hierarchy:
        """Return the forest of items in groups, groups in larger groups, and so on.

        Nodes are numbered level by level, the largest groups first and the items last.

        Parameters
        ----------
        *groups
            The group of each item, then the larger group of each group, …: indices from 0, each of
            them used.
        total
            The sum of the largest groups, if it is known.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If a group does not exist or has no members, or no grouping is given.

        Examples
        --------
        >>> category_of_item = [0, 0, 1, 2]
        >>> Hierarchy.of_groups(category_of_item, total=1.0).parents
        array([-1, -1, -1,  0,  0,  1,  2])
        """
        if not groups:
            raise InvalidTypeError("of_groups takes at least one array: the group of each item")
        levels = _checked_groupings(groups)
        largest_groups = int(levels[-1].max()) + 1
        sizes = [*map(len, levels), largest_groups]
        # Nodes are numbered from the largest groups down: where each level of them begins.
        from_the_top = sizes[::-1]
        starts = np.cumsum(from_the_top) - from_the_top
        parents = [np.full(largest_groups, -1)]
        for level, start in zip(reversed(levels), starts[:-1], strict=True):
            parents.append(level + start)
        return cls(np.concatenate(parents), total)

    @staticmethod
    def stack(levels: Sequence[FrequencyEstimate]) -> tuple[Array, Array]:
        """Return the estimates of all levels as one vector, and the weights 1/σ² of its entries.

        Parameters
        ----------
        levels
            Estimates with a noise level, in the order of the nodes; each may have another oracle
            and n. A root that is known instead of estimated is put in front by hand, with any
            weight.

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
                "levels must be estimates with the same trials, got stacks of shapes "
                f"{sorted(shapes)}"
            )
        # Least squares with these weights is the best linear estimate, if levels are of different
        # users.
        weights = np.concatenate([np.full(level.d, level.sigma**-2) for level in levels])
        return np.concatenate([level.frequencies for level in levels], axis=-1), weights

    @property
    def leaves(self) -> Index:
        """The nodes without children: the finest frequencies, which add up to all others."""
        return np.setdiff1d(np.arange(len(self.parents)), self.parents)

    @property
    def tree(self) -> Tree:
        """The parents with their total."""
        return _kept_tree(self) if self.is_settled else Tree(self.parents, self.root_total)

    def validate_for(self, d: int) -> None:
        """Raise an error unless there are d nodes."""
        if len(self.parents) != d:
            raise InvalidInputError(
                f"parents of {type(self).__name__} must have one entry per node: "
                f"{len(self.parents)} for {d} estimates"
            )

    def violation(self, f: Array) -> Array:
        """Return the largest difference of a node from the sum of its children, or of the roots."""
        if is_long(f.shape[-1]):
            return self._violation_of_long(f)
        below = np.flatnonzero(self.parents >= 0)
        above = self.parents[below]
        is_inner = np.zeros(len(self.parents), dtype=np.bool_)
        is_inner[above] = True
        excess = np.zeros(f.shape[:-1])
        # Counting adds up one vector at a time.
        for trial in np.ndindex(excess.shape):
            values = f[trial]
            sums = np.bincount(above, values[below], len(self.parents))
            excess[trial] = np.max(np.abs(sums - values), where=is_inner, initial=0.0)
        if self.root_total is not None:
            roots = f[..., self.parents < 0].sum(axis=-1)
            np.maximum(excess, np.abs(roots - self.root_total), out=excess)
        # A root without children is in no sum.
        return np.where(np.isnan(f).any(axis=-1), np.nan, excess)

    def _violation_of_long(self, f: Array) -> Array:
        from ldpopt.constraints import violation_kernels  # imports numba

        self.validate_for(f.shape[-1])
        rows = locked_rows(f)
        if self._is_in_order:
            excess, roots = violation_kernels.largest_differences_in_order(rows, self.parents)
        else:
            sums = np.empty(f.shape[-1])
            excess, roots = violation_kernels.largest_differences(rows, self.parents, sums)
        if self.root_total is not None:
            excess = np.maximum(excess, np.abs(roots - self.root_total))
        return excess.reshape(f.shape[:-1])

    def box(self, d: int) -> tuple[Array, Array] | None:
        """Return no bounds where no node has children and no total is known: nothing is stated."""
        if self.root_total is not None or self._has_children:
            return None
        return np.full(d, -np.inf), np.full(d, np.inf)

    def total(self, d: int | None = None) -> float | None:
        """Return the sum of the roots where no node has children."""
        return None if self._has_children else self.root_total

    @property
    def is_in_units(self) -> bool:
        """True: all coefficients are 1."""
        return True

    def rows(self, d: int) -> LinearInequalities:
        """Return one row per node with children, f_v - Σ f_c = 0, and one for the total."""
        from scipy import sparse

        below = np.flatnonzero(self.parents >= 0)
        # Sorted by index, which ``row_name`` relies on.
        inner, row_of_child = np.unique(self.parents[below], return_inverse=True)
        # Each row has 1 for its node and -1 for each child of it.
        row = [np.arange(len(inner)), row_of_child]
        column = [inner, below]
        sign = [np.ones(len(inner)), -np.ones(len(below))]
        bound = np.zeros(len(inner))
        # Last, so that the numbers of the other rows do not depend on it.
        if self.root_total is not None:
            roots = np.flatnonzero(self.parents < 0)
            row.append(np.full(len(roots), len(inner)))
            column.append(roots)
            sign.append(np.ones(len(roots)))
            bound = np.append(bound, self.root_total)
        places = (np.concatenate(row), np.concatenate(column))
        entries = (np.concatenate(sign), places)
        matrix = sparse.csr_array(entries, shape=(len(bound), d))
        return LinearInequalities(matrix, bound, bound)

    def row_name(self, row: int, d: int) -> str:
        """Return the node whose children are added up, or the sum of the roots."""
        # In the order of ``rows``.
        inner = np.unique(self.parents[self.parents >= 0])
        if row < len(inner):
            return f"f[{inner[row]}] = sum of its children"
        return f"the roots sum to {self.root_total:g}"

    def __repr__(self) -> str:
        total = "" if self.root_total is None else f", total={self.root_total:g}"
        return f"Hierarchy(<{len(self.parents)} nodes>{total})"


@lru_cache(maxsize=4)
def _kept_tree(hierarchy: Hierarchy) -> Tree:
    # Every solve needs its nodes in order, which follow from the parents alone.
    return Tree(hierarchy.parents, hierarchy.root_total)


class HierarchyTotals(GroupTotals):
    """Some known totals of groups in larger groups: a census of categories and a few subcategories.

    Where the total of a group is known, the known totals of its parts are subtracted from it, and
    the rest is the total of its other members. So totals that contain each other are totals of
    disjoint groups, and have their closed forms.

    Parameters
    ----------
    groups
        The group of each value of the domain, then the larger group of each group, …: as in
        ``Hierarchy.of_groups``.
    totals
        For each of these groupings the totals of its groups, NaN where one is not known.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a group does not exist or has no members, the totals do not fit the groups, or none is
        known.
    InfeasibleError
        If the parts of a group are all known, and have another sum than the group.

    Examples
    --------
    >>> subcategory = [0, 0, 1, 2]
    >>> category = [0, 0, 1]
    >>> unknown = float("nan")
    >>> census = HierarchyTotals([subcategory, category], [[0.5, unknown, unknown], [0.75, 0.25]])
    >>> [group.tolist() for group in census.groups], census.totals
    ([[0, 1], [2], [3]], array([0.5 , 0.25, 0.25]))
    """

    # Numbers of groups, which have no labels.
    of_values: ClassVar[Mapping[str, int]] = {}

    def __init__(self, groups: Sequence[ArrayLike], totals: Sequence[ArrayLike]) -> None:
        levels = _checked_groupings(groups)
        if not np.iterable(totals):
            raise InvalidTypeError(
                f"totals must be a list of arrays, one per grouping, got {totals!r}"
            )
        stated = [
            validate.array(f"totals {i}", one).astype(np.float64) for i, one in enumerate(totals)
        ]
        sizes = [int(level.max()) + 1 for level in levels]
        shapes = [one.shape for one in stated]
        if shapes != [(size,) for size in sizes]:
            raise InvalidInputError(
                f"totals must have one number per group of each grouping, {sizes} in all, got "
                f"shapes {shapes}"
            )
        if not any(np.isfinite(one).any() for one in stated):
            raise InvalidInputError("no total is known: state at least one that is not NaN")
        names = []
        groups_left = []
        totals_left = []
        for name, members, total in _disjoint_parts(levels, stated):
            names.append(name)
            groups_left.append(members)
            totals_left.append(total)
        self._names = tuple(names)
        self._d = len(levels[0])
        super().__init__(groups_left, totals_left)

    def validate_for(self, d: int) -> None:
        """Raise an error unless the first grouping has one group per value."""
        if d != self._d:
            raise InvalidInputError(
                f"the first grouping of {type(self).__name__} has {self._d} members for a domain "
                f"of {d} values"
            )

    def row_name(self, row: int, d: int) -> str:
        """Return the group whose total is known."""
        return f"{self._names[row]} sums to {self.totals[row]:g}"

    def __repr__(self) -> str:
        return f"HierarchyTotals(<{counted(len(self.totals), 'total')}>)"


def _disjoint_parts(
    levels: Sequence[Index], totals: Sequence[Array]
) -> list[tuple[str, Index, float]]:
    """Return a name, the members and the total of what each known group has beside its parts."""
    group_of_value = np.arange(len(levels[0]))
    is_taken = np.zeros(len(levels[0]), dtype=np.bool_)
    # What the known groups inside each group of the level below sum to.
    inside: Array = np.zeros(len(levels[0]))
    parts = []
    for number, (level, stated) in enumerate(zip(levels, totals, strict=True)):
        group_of_value = level[group_of_value]
        inside = np.bincount(level, inside, len(stated)).astype(np.float64)
        for group in np.flatnonzero(~np.isnan(stated)):
            members = np.flatnonzero((group_of_value == group) & ~is_taken)
            rest = float(stated[group] - inside[group])
            name = f"grouping {number}, group {group}"
            if len(members):
                parts.append((name, members, rest))
            elif abs(rest) > _ROUNDING:
                raise InfeasibleError(
                    f"{name} has the total {stated[group]:g}, but its parts sum to "
                    f"{inside[group]:g}: correct one of them"
                )
            is_taken[members] = True
            inside[group] = stated[group]
    return parts


def _checked_groupings(groups: Sequence[ArrayLike]) -> list[Index]:
    """Return groupings of groups as index arrays; each group has members, and a larger group."""
    is_list = np.iterable(groups) and hasattr(groups, "__len__")
    if not is_list or not len(groups):
        raise InvalidTypeError(
            f"groupings are needed: a list with the group of each value at least, got {groups!r}"
        )
    levels = []
    for i, group in enumerate(groups):
        level = validate.whole_numbers(f"grouping {i}", group, low=0, high=validate.INDEX_BOUND)
        if level.ndim != 1 or not level.size:
            raise InvalidInputError(
                "a grouping must be a one-dimensional array with the group of each item"
            )
        levels.append(level)
    # Nothing is above the largest groups: their number follows from those that are used.
    sizes = [*map(len, levels[1:]), int(levels[-1].max()) + 1]
    for i, (level, size) in enumerate(zip(levels, sizes, strict=True)):
        _check_grouping(f"grouping {i}", level, size)
    return levels


def _check_grouping(name: str, level: Index, groups: int) -> None:
    """Raise an error if a group is outside 0 .. ``groups`` - 1, or has no member."""
    validate.whole_numbers(name, level, low=0, high=groups - 1)
    empty = np.setdiff1d(np.arange(groups), level)
    if len(empty):
        raise InvalidInputError(
            f"{name} puts nothing into group {empty[0]}: every group needs a member"
        )
