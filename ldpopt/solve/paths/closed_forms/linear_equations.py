"""Least squares on bounds with any few linear equations, such as two margins of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares
from ldpopt.solve.certificate.equation_prices import equations_of
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family

Array = NDArray[np.float64]


@solves_family
def _with_equations(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return Newton's method on the multipliers, where all that is no bound is an equation."""
    loss = formulation.loss
    d = estimate.d
    region = formulation.region(d)
    if loss.family is not LeastSquares or not isinstance(loss, LeastSquares) or region.is_box:
        return None
    equations = equations_of([one for one in formulation.constraints if one.box(d) is None], d)
    if equations is None:
        return None

    def evaluate() -> Array:
        target = loss.target(estimate)
        points = np.empty(target.shape)
        for trial in np.ndindex(target.shape[:-1]):
            points[trial] = closed_form.with_equations(
                target[trial], *equations, region.lower, region.upper
            )
        return points

    return Match("newton on multipliers", evaluate, may_miss=True)
