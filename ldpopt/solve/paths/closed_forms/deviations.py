"""One function of every deviation, on bounds and at most one total: the least squares solution.

Let φ be convex. On such a set the projection of f̃ moves every value that is off its bounds by the
same amount c, and every other one by less in that direction. So the slopes φ'(f_v - f̃_v) are those
that one multiplier of the total explains, and the projection minimises Σ φ(f_v - f̃_v) as well:
absolute deviations, Huber's function, and, as a limit of powers, the largest deviation.

Absolute deviations with weights are no one function. What clipping leaves of the total then goes to
the values of the smallest weights, each as far as its bound.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Huber, L1To, LeastAbsolute, MaxAbsolute
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family_of, solves_on_boxes


@solves_on_boxes(Huber, name="clip, then least squares")
@solves_on_boxes(LeastAbsolute, name="clip, then least squares")
@solves_on_boxes(MaxAbsolute, name="clip, then least squares")
def _least_deviations(estimate: FrequencyEstimate, formulation: Formulation) -> NDArray[np.float64]:
    # Of many minimisers this is the one nearest to f̃, so that the result is unique and keeps ties.
    region = formulation.region(estimate.d)
    target = formulation.loss.target(estimate)  # type: ignore[attr-defined]  # all three have it
    return closed_form.least_absolute(target, region.lower, region.upper, region.total)


@solves_family_of(L1To)
def weighted_deviations(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return the form of weighted deviations from a reference, on bounds and at most one total."""
    if not formulation.is_box(estimate.d):
        return None
    loss = cast("L1To", formulation.loss)

    def evaluate() -> NDArray[np.float64]:
        region = formulation.region(estimate.d)
        assert loss.weights is not None  # else its family is another one
        f = closed_form.weighted_deviations(
            loss.reference, loss.weights, region.lower, region.upper, region.total
        )
        # The same for all trials: the loss does not look at the estimate.
        return np.broadcast_to(f, estimate.frequencies.shape).copy()

    return Match("clip, then the smallest weights", evaluate)
