"""Thresholds of frequencies, and those in percent that stand in their place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import ImplausibleUnitWarning, warn
from ldpopt.estimate.noise import Noise
from ldpopt.estimate.units import AROUND, sum_to_about

_ERRORS = 10.0  # standard errors: no threshold of significance is higher, in any domain


def checked_threshold(
    what: str, threshold: object, frequencies: NDArray[np.float64], noise: Noise | None
) -> float:
    """Return a threshold; warn of one that shares of 1 cannot exceed, and noise does not explain.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is not a finite number.

    Examples
    --------
    >>> checked_threshold("threshold", 0.2, np.array([0.5, 0.5]), None)
    0.2
    """
    number = validate.real(what, threshold)
    if number < 1:
        return number
    is_noisy = noise is not None and number <= _ERRORS * np.max(noise.sd)
    sums = frequencies.sum(axis=-1)
    are_in_range = np.all((frequencies >= -AROUND) & (frequencies <= 1 + AROUND))
    if are_in_range and sum_to_about(1, sums) and not is_noisy:
        warn(
            f"{what} is {number:g}, and these frequencies are shares of 1 that sum to "
            f"{np.ravel(sums)[0]:.6g}: {number:g} % is {number / 100:g}",
            ImplausibleUnitWarning,
        )
    return number
