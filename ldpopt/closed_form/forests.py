"""Forests as arrays of parents, -1 above a root, without cycles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import locked_view

Index = NDArray[np.int64]
Narrow = NDArray[np.integer]

# Lengths up to which every index of a vector, and one more, has 32 bits.
_NARROW = np.iinfo(np.uint32).max - 1


class FromAbove(NamedTuple):
    """The nodes of a forest with each after its parent.

    Attributes
    ----------
    labels
        The nodes in this order, shape (d,): those at the places 1 .. d.
    above
        The place above each place, shape (d + 1,); 0 stands above the roots, and above itself.
    is_leaf
        Which of the places 1 .. d have nothing below them, shape (d,).
    is_as_numbered
        Whether the nodes come in the order of their numbers.
    """

    labels: Narrow
    above: Narrow
    is_leaf: NDArray[np.bool_]
    is_as_numbered: bool


def from_above(parents: Index) -> FromAbove:
    """Return the nodes with each after its parent."""
    d = len(parents)
    nodes = np.arange(d)
    # Trees of groups are numbered from above already.
    if np.all(parents < nodes):
        above = narrow(np.append(0, parents + 1))
        return FromAbove(narrow(nodes), above, _leaves(above), is_as_numbered=True)
    from ldpopt.closed_form.tree_kernels import breadth_first  # imports numba

    # Other compiled code calls it too, with parents that nobody may write to.
    labels, above = map(narrow, breadth_first(locked_view(parents)))
    return FromAbove(labels, above, _leaves(above), is_as_numbered=False)


def narrow(index: Index) -> Narrow:
    """Return an index in 32 bits if it fits: to read 64 takes as long as the value that it names.

    Its numbers have no sign: compiled code looks at each index that has one, as it may count from
    the end. The indices of all vectors of the same length have the same type.
    """
    return index.astype(np.uint32) if len(index) <= _NARROW else index


def _leaves(above: Narrow) -> NDArray[np.bool_]:
    """Return which places 1 .. d are above no other."""
    is_leaf = np.ones(len(above), dtype=np.bool_)
    is_leaf[above[1:]] = False
    return is_leaf[1:]
