"""A warning of plain values in percent, or of counts, where frequencies are expected."""

from __future__ import annotations

import numpy as np

from ldpopt import validate
from ldpopt.errors import ImplausibleUnitWarning, warn
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.origin import warn_of_counts
from ldpopt.solve.formulation import Formulation

_PERCENT = 100.0
_NEAR = 1.0  # totals that percents may be off: rounding, of up to 1 %
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
    is_large = np.asarray((sums >= _LARGE * max(total, 1.0)) & (f.min(axis=-1) >= 0))
    is_percent = is_large & (np.abs(sums - _PERCENT * total) <= _NEAR * total)
    if is_percent.any():
        trial = validate.first(is_percent)
        where = f" in {validate.trial(trial)}" if trial else ""
        warn(
            f"these frequencies sum to {np.asarray(sums)[trial]:.6g}{where}, a hundred times the "
            f"total {total:g} of the problem: if they are percent, divide them by 100",
            ImplausibleUnitWarning,
        )
    elif np.any(is_large & (sums < _WHOLE) & (f == np.rint(f)).all(axis=-1)):
        warn_of_counts()
