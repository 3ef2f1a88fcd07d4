"""Squares over several measurements of values and of groups in each other: passes over a forest."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses.joint import JointLoss
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family_of

Array = NDArray[np.float64]


@solves_family_of(JointLoss)
def forest_passes(problem: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return two passes over the sources' forest, for a total and signs or without them."""
    loss = cast("JointLoss", problem.loss)
    kinds = problem.region(estimate.d).kinds
    if not loss.of_squares or kinds is None:
        return None
    if not kinds:
        return Match("weighted mean", lambda: estimate.frequencies.copy())
    if loss.sources.forest is None or not kinds <= {NonNegative, SumsTo}:
        return None
    nonnegative = NonNegative in kinds
    total = problem.total(estimate.d)
    # A negative total has no solution: another path finds and names the conflict.
    if nonnegative and total is not None and total < 0:
        return None
    name = "two passes per round" if nonnegative else "two passes"
    return Match(name, lambda: _solved(loss, estimate, total, nonnegative))


def _solved(
    loss: JointLoss, estimate: FrequencyEstimate, total: float | None, nonnegative: bool
) -> Array:
    """Return the minimiser on the forest of values and groups."""
    measured, parents, trust = loss.sources.on_forest()
    solved = closed_form.tree_consistency(measured, parents, trust, total, nonnegative=nonnegative)
    return solved[-estimate.d :]
