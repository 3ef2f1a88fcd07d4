"""Small values cut to zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import NonNegative
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import HardThreshold
from ldpopt.solve.paths.closed_forms.registry import solves


@solves(HardThreshold, NonNegative, name="base-cut")
def _cut(loss: HardThreshold, estimate: FrequencyEstimate, _: NonNegative) -> NDArray[np.float64]:
    # The price of a value is ½T² and its distance to zero costs ½f̃²: zero is cheaper where f̃ < T.
    return closed_form.base_cut(estimate.frequencies, loss.threshold(estimate))
