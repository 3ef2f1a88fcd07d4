"""A warning of plain values in percent, or of counts, where frequencies are expected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import validate
from ldpopt.errors import ImplausibleUnitWarning, warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.origin import warn_of_counts
from ldpopt.solve.formulation import Formulation

_PERCENT = 100.0
_NEAR = 1.0  # totals that percents may be off: rounding, of up to 1 %
_NOISY = 10.0  # the same where noise has made some negative, and so moved their sum too
_MANY = 1000.0  # totals: no noise of frequencies that anyone would repair lifts their sum so far
_WHOLE = 2.0**53  # of doubles: beyond, all are whole numbers
_LARGE = 10.0  # totals, and at least 10: vectors of toys such as (1, 0, 2) have smaller sums


def warn_of_unit(problem: Formulation, start: FrequencyEstimate) -> None:
    """Warn where the values look like percent or counts, beside the total that the problem states.

    An estimate with noise has the unit of its noise, and a problem without a total any unit. Usual
    values cost one product of a vector with itself.
    """
    if start.has_noise:
        return
    f = start.frequencies
    d = f.shape[-1]
    # Of d numbers >= 0 with the sum s the squares have a sum of s²/d at least. A domain has two
    # values at least.
    if d * np.vdot(f, f) < _LARGE**2 or d < 2:
        return
    total = problem.region(d).total
    if total is None or total <= 0:
        return
    sums = f.sum(axis=-1)
    is_noisy = f.min(axis=-1) < 0
    # Of raw estimates most is positive; of a vector of any signs a sum that is large is chance.
    is_large = np.asarray(
        (sums >= _LARGE * max(total, 1.0)) & (~is_noisy | (2 * sums >= np.abs(f).sum(axis=-1)))
    )
    near = np.where(is_noisy, _NOISY, _NEAR) * total
    is_percent = is_large & (np.abs(sums - _PERCENT * total) <= near)
    is_many = is_large & is_noisy & (sums >= _MANY * max(total, 1.0)) & (sums < _WHOLE)
    if is_percent.any():
        about = "about " if np.all(is_noisy[is_percent]) else ""
        _warn_of_sum(
            sums, is_percent, f"{about}a hundred times", total, "percent, divide them by 100"
        )
    elif np.any(is_large & ~is_noisy & (sums < _WHOLE) & (f == np.rint(f)).all(axis=-1)):
        warn_of_counts()
    elif is_many.any():
        _warn_of_sum(
            sums,
            is_many,
            "more than a thousand times",
            total,
            "estimated counts, divide them by the number of reports",
        )


def _warn_of_sum(
    sums: NDArray[np.float64],
    is_implausible: NDArray[np.bool_],
    ratio: str,
    total: float,
    case: str,
) -> None:
    """Warn of the first sum that is implausible beside the total, and say in which case to mend."""
    trial = validate.first(is_implausible)
    where = f" in {validate.trial(trial)}" if trial else ""
    warn(
        f"these frequencies sum to {np.asarray(sums)[trial]:.6g}{where}, {ratio} the total "
        f"{total:g} of the problem: if they are {case}",
        ImplausibleUnitWarning,
    )
