"""Least squares in a hierarchy of totals: two passes over the tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import Hierarchy, NonNegative
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares, WeightedLeastSquares
from ldpopt.solve.paths.closed_forms.registry import solves

Array = NDArray[np.float64]
Distance = LeastSquares | WeightedLeastSquares


@solves((LeastSquares, WeightedLeastSquares), Hierarchy, name="two passes")
def _consistent(loss: Distance, estimate: FrequencyEstimate, tree: Hierarchy) -> Array:
    return closed_form.tree_consistency(
        loss.target(estimate), tree.parents, loss.weights, tree.root_total
    )


def _total_is_nonnegative(
    _: Distance, __: FrequencyEstimate, tree: Hierarchy, ___: NonNegative
) -> bool:
    # A negative total has no solution: another path finds and names the conflict.
    return tree.root_total is None or tree.root_total >= 0


@solves(
    (LeastSquares, WeightedLeastSquares),
    Hierarchy,
    NonNegative,
    name="two passes per round",
    applies=_total_is_nonnegative,
)
def _consistent_and_nonnegative(
    loss: Distance, estimate: FrequencyEstimate, tree: Hierarchy, _: NonNegative
) -> Array:
    return closed_form.tree_consistency(
        loss.target(estimate), tree.parents, loss.weights, tree.root_total, nonnegative=True
    )
