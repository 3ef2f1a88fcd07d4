"""Absolute deviations on bounds and at most one total."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastAbsolute
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.registry import solves_on_boxes


@solves_on_boxes(LeastAbsolute, name="clip, then least squares")
def _least_absolute(estimate: FrequencyEstimate, formulation: Formulation) -> NDArray[np.float64]:
    # Of many minimisers this is the one nearest to f̃, so that the result is unique and keeps ties.
    region = formulation.region(estimate.d)
    return closed_form.least_absolute(
        estimate.frequencies, region.lower, region.upper, region.total
    )
