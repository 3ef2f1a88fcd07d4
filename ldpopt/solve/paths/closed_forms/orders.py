"""Least squares under one known order, by pooling.

A common shift and a clip at zero keep every order, and pooled blocks stay pooled. So the step that
follows pooling is the one that would follow the raw estimate: base-pos, norm or norm-sub.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import (
    Constraint,
    Monotone,
    NonNegative,
    Order,
    SumsTo,
    TopSet,
    Unimodal,
)
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares, WeightedLeastSquares
from ldpopt.solve.paths.closed_forms.registry import solves

Array = NDArray[np.float64]
Distance = LeastSquares | WeightedLeastSquares


def _is_forest(_: Distance, estimate: FrequencyEstimate, order: Order, *__: Constraint) -> bool:
    """Return whether the order is one of rooted trees, which pooling solves."""
    return order.forest(estimate.d) is not None


def _pool(loss: Distance, estimate: FrequencyEstimate, order: Order) -> Array:
    """Return the isotonic regression."""
    target = loss.target(estimate)
    if order.order is not None:
        return closed_form.monotone(target, order.order, loss.weights)
    forest = order.forest(estimate.d)
    assert forest is not None  # _is_forest
    parents, sign = forest
    # Pooling wants roots that are the highest of their trees: turned over, lowest roots are
    # highest.
    return sign * closed_form.isotonic(sign * target, parents, loss.weights)


@solves(LeastSquares, Monotone, name="pava", applies=_is_forest)
@solves(LeastSquares, Unimodal, name="pava", applies=_is_forest)
@solves(WeightedLeastSquares, Monotone, name="pava", applies=_is_forest)
@solves(WeightedLeastSquares, Unimodal, name="pava", applies=_is_forest)
def _pooled(loss: Distance, estimate: FrequencyEstimate, order: Order) -> Array:
    return _pool(loss, estimate, order)


@solves(LeastSquares, Monotone, NonNegative, name="pava, base-pos", applies=_is_forest)
@solves(LeastSquares, Unimodal, NonNegative, name="pava, base-pos", applies=_is_forest)
@solves(WeightedLeastSquares, Monotone, NonNegative, name="pava, base-pos", applies=_is_forest)
@solves(WeightedLeastSquares, Unimodal, NonNegative, name="pava, base-pos", applies=_is_forest)
def _pooled_and_clipped(
    loss: Distance, estimate: FrequencyEstimate, order: Order, _: NonNegative
) -> Array:
    return closed_form.base_pos(_pool(loss, estimate, order))


# For equal weights alone: with weights w the total moves each value by μ/w, its own amount, which
# can break the order that pooling made.
@solves(LeastSquares, Monotone, SumsTo, name="pava, norm", applies=_is_forest)
@solves(LeastSquares, Unimodal, SumsTo, name="pava, norm", applies=_is_forest)
def _pooled_and_shifted(
    loss: LeastSquares, estimate: FrequencyEstimate, order: Order, total: SumsTo
) -> Array:
    return closed_form.norm(_pool(loss, estimate, order), total.total())


@solves(LeastSquares, Monotone, NonNegative, SumsTo, name="pava, norm-sub", applies=_is_forest)
@solves(LeastSquares, Unimodal, NonNegative, SumsTo, name="pava, norm-sub", applies=_is_forest)
def _pooled_and_projected(
    loss: LeastSquares, estimate: FrequencyEstimate, order: Order, _: NonNegative, total: SumsTo
) -> Array:
    return closed_form.norm_sub(_pool(loss, estimate, order), total.total())


def _lifted(loss: LeastSquares, estimate: FrequencyEstimate, top: TopSet) -> Array:
    """Return the nearest vector with these values at the top."""
    return closed_form.top_set(loss.target(estimate), top.members(estimate.d))


@solves(LeastSquares, TopSet, name="top set")
def _top(loss: LeastSquares, estimate: FrequencyEstimate, top: TopSet) -> Array:
    return _lifted(loss, estimate, top)


@solves(LeastSquares, TopSet, NonNegative, name="top set, base-pos")
def _top_and_clipped(
    loss: LeastSquares, estimate: FrequencyEstimate, top: TopSet, _: NonNegative
) -> Array:
    return closed_form.base_pos(_lifted(loss, estimate, top))


@solves(LeastSquares, TopSet, SumsTo, name="top set, norm")
def _top_and_shifted(
    loss: LeastSquares, estimate: FrequencyEstimate, top: TopSet, total: SumsTo
) -> Array:
    return closed_form.norm(_lifted(loss, estimate, top), total.total())


@solves(LeastSquares, TopSet, NonNegative, SumsTo, name="top set, norm-sub")
def _top_and_projected(
    loss: LeastSquares, estimate: FrequencyEstimate, top: TopSet, _: NonNegative, total: SumsTo
) -> Array:
    return closed_form.norm_sub(_lifted(loss, estimate, top), total.total())
