"""A price on total variation: the fused lasso first, then the form without the price.

A shift and a clip to bounds that all values share keep which neighbours are equal and which of them
is above. So the slopes of the price stay what they were, and what follows is least squares without
it, from the smoothed estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.lookup import closed_form_for
from ldpopt.solve.paths.closed_forms.orders import has_common_bounds
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family

Array = NDArray[np.float64]


class Smoothed(NamedTuple):
    """The form of least squares for smoothed data.

    Attributes
    ----------
    name
        Of the form.
    at
        The minimiser, as a function of what the price on variation is multiplied by.
    """

    name: str
    at: Callable[[float], Array]


def smoothed(formulation: Formulation, estimate: FrequencyEstimate) -> Smoothed | None:
    """Return the form at every multiple of the price, if one bound holds for all values."""
    d = estimate.d
    smoothing = formulation.loss.smoothing(d)
    if smoothing is None:
        return None
    rest = formulation.with_loss(smoothing.squares.after_pooling)
    if not (rest.is_box(d) and has_common_bounds(rest, d)):
        return None
    form = closed_form_for(rest, estimate)
    if form is None:
        return None

    def at(multiple: float) -> Array:
        (target,) = smoothing.squares.data(estimate)
        smooth = target.copy()
        smooth[..., smoothing.chain] = closed_form.fused(
            target[..., smoothing.chain], multiple * smoothing.price
        )
        match = closed_form_for(rest, estimate.processed(smooth))
        assert match is not None  # the form of the same types, for the estimate as it was
        return match.evaluate()

    return Smoothed(form.name, at)


@solves_family
def smooth_first(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the form of least squares for smoothed data, if one bound holds for all values."""
    form = smoothed(formulation, estimate)
    if form is None:
        return None
    name = "fused lasso" if form.name == "base" else f"fused lasso, {form.name}"
    return Match(name, lambda: form.at(1.0))
