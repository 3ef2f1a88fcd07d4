"""Least squares where groups of values have known totals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.simplex import norm_sub

Array = NDArray[np.float64]


def group_totals(
    f: Array,
    groups: Sequence[NDArray[np.int64]],
    totals: Array,
    rest: float | None = None,
) -> Array:
    """Return the nearest non-negative vector whose disjoint groups have the given totals.

    It is Norm-Sub within each group.

    Parameters
    ----------
    f
        Values of shape (..., d).
    groups
        Disjoint index arrays.
    totals
        The sum of each group, >= 0.
    rest
        The sum of the values outside all groups; None leaves it free, so that they are only
        clipped at 0.

    Notes
    -----
    Cost: as ``norm_sub``.

    Examples
    --------
    >>> group_totals(np.array([0.6, 0.2, -0.1, 0.3]), [np.array([0, 1])], np.array([0.5]))
    array([0.45, 0.05, 0.  , 0.3 ])
    """
    result = np.maximum(f, 0.0)
    outside = np.ones(f.shape[-1], dtype=np.bool_)
    sizes = np.array([len(group) for group in groups], dtype=np.int64)
    # Groups of one size are a stack, so that few calls do them all. An empty one has no highest
    # value, of which Norm-Sub takes one.
    for size in np.unique(sizes[sizes > 0]):
        chosen = np.flatnonzero(sizes == size)
        members = np.stack([groups[i] for i in chosen.tolist()])
        result[..., members] = norm_sub(f[..., members], totals[chosen, None])
        outside[members] = False
    # As one more group: nothing else ties the values outside together.
    if rest is not None and outside.any():
        result[..., outside] = norm_sub(f[..., outside], rest)
    return result
