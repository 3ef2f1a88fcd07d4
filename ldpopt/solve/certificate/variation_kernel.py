"""The pass along an order that prices of bounded variation take, compiled. Imports numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.solve.certificate.kernels import compiled

Array = NDArray[np.float64]


@compiled
def running_pulls(residual: Array, signs: Array, limit: Array, pulls: Array) -> None:
    """Write y of all differences, given what is left of the slopes.

    A value between its bounds passes on all that it gets. One at a bound may keep some, so that a
    sum that would leave -ν … ν stays at its end: what another value keeps wrongly is charged.

    Parameters
    ----------
    residual
        Slopes less the price of the total, shape (trials, d).
    signs
        Those of the jumps, 0 for none, shape (trials, d - 1).
    limit
        ν of each trial.
    pulls
        Where the result goes, shape (trials, d - 1).
    """
    for trial in range(len(limit)):
        highest = limit[trial]
        pull = 0.0
        for i in range(signs.shape[1]):
            pull += residual[trial, i]
            pull = min(max(pull, -highest), highest)
            if signs[trial, i] != 0.0:
                pull = signs[trial, i] * highest
            pulls[trial, i] = pull
