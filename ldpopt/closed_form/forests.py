"""Forests as arrays of parents, -1 above a root, without cycles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


def from_above(parents: Index) -> tuple[Index, Index]:
    """Return the nodes with each after its parent, and the place above each, counted from 1.

    The second array has d + 1 numbers: that of place 0, which stands above the roots, is 0.
    """
    nodes = np.arange(len(parents))
    # Trees of groups are numbered from above already.
    if np.all(parents < nodes):
        return nodes, np.append(0, parents + 1)
    from ldpopt.closed_form.tree_kernels import breadth_first  # imports numba

    labels, above = breadth_first(parents)
    return labels, above
