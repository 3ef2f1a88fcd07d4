"""What a certificate is made of, whichever way its numbers are computed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Evidence(NamedTuple):
    """The fields of a ``Certificate`` that depend on the kind of set.

    ``row_sizes`` says how many of the row multipliers each constraint with rows of its own has.
    Where a cone solver is used, ``by_constraint`` has the multipliers of each convex constraint.
    """

    gap: Array
    stationarity: Array
    complementarity: Array
    sum_multiplier: Array
    bound_multipliers: Array
    row_multipliers: Array
    reason: NDArray[np.str_]
    row_sizes: tuple[int, ...] = ()
    by_constraint: tuple[Any, ...] = ()


def weighted_sum(gradient: Array, weights: Array) -> Array:
    """Return Σ g_v w_v, shape (...); an infinite gradient counts as 0 where the weight is 0."""
    with np.errstate(invalid="ignore"):
        # Without the array of products. An infinite gradient times a weight of 0 is NaN here, which
        # the slower way below repairs.
        total = np.asarray(np.einsum("...v,...v->...", gradient, weights))
        if np.isfinite(total).all():
            return total
        return np.asarray(np.sum(np.where(weights == 0, 0.0, gradient * weights), axis=-1))
