"""Least squares on the simplex with few values that are not zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import AtMost, NonNegative, SumsTo
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares
from ldpopt.solve.paths.closed_forms.registry import solves


@solves(LeastSquares, AtMost, NonNegative, SumsTo, name="norm-sub of the k largest")
def _few(
    loss: LeastSquares,
    estimate: FrequencyEstimate,
    few: AtMost,
    _: NonNegative,
    total: SumsTo,
) -> NDArray[np.float64]:
    # The set is not convex, yet this is its nearest point: which k values to keep does not depend
    # on the shift (Kyrillidis, Becker, Cevher, Koch 2013).
    return closed_form.at_most(loss.target(estimate), few.k, total.total())
