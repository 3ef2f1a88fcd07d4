"""What the operators of the library do to vectors of shape (trials, d)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.discovery.setting import Setting
from ldpopt.errors import InvalidInputError, LdpoptError
from ldpopt.losses import Loss
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms import closed_form_for

Array = NDArray[np.float64]

# --- shifts, factors and clips --------------------------------------------------------------------


def clip(values: Array, setting: Setting) -> Array:
    """Return the values between their bounds; a bound that is missing does not bind."""
    return np.clip(values, setting.lower, setting.upper)


def clip_at_zero(values: Array, _: Setting) -> Array:
    """Return the positive parts."""
    return np.maximum(values, 0.0)


def clip_above(values: Array, setting: Setting) -> Array:
    """Return the values below their upper bounds."""
    assert setting.upper is not None  # it is a parameter: a search leaves the operator out
    return np.asarray(np.minimum(values, setting.upper))


def shift(values: Array, setting: Setting) -> Array:
    """Return the values plus one number per row, so that they have the total."""
    assert setting.total is not None
    rest = setting.total - values.sum(axis=-1, keepdims=True)
    return np.asarray(values + rest / setting.d)


def scale(values: Array, setting: Setting) -> Array:
    """Return the values times one number per row, so that they have the total."""
    assert setting.total is not None
    sums = values.sum(axis=-1)
    factors: Array = _factor(np.full(len(values), setting.total), sums)
    return np.asarray(values * factors[:, None])


def shift_by_group(values: Array, setting: Setting) -> Array:
    """Return the values plus one number per group, so that each has its total."""
    groups = setting.groups
    assert groups is not None
    sizes = np.bincount(groups.of_value, minlength=groups.number)[: groups.number]
    rest = groups.totals - groups.sums(values)
    return np.asarray(values + groups.of_each(rest / sizes, 0.0))


def scale_by_group(values: Array, setting: Setting) -> Array:
    """Return the values times one number per group, so that each has its total."""
    groups = setting.groups
    assert groups is not None
    sums = groups.sums(values)
    return values * groups.of_each(_factor(np.broadcast_to(groups.totals, sums.shape), sums), 1.0)


def _factor(target: Array, sums: Array) -> Array:
    """Return target/sums, and 1 where that would be negative: the order of the values is kept."""
    return np.divide(target, sums, out=np.ones(sums.shape), where=(sums > 0) & (target >= 0))


# --- pooling and means ----------------------------------------------------------------------------


def pool(values: Array, setting: Setting) -> Array:
    """Return the nearest values in the order."""
    assert setting.order is not None
    return setting.order.project(values)


def pool_in_mean(values: Array, setting: Setting) -> Array:
    """Pool in the mean of the problem's loss: geometric for KL, quadratic for GaussianMLE."""
    order = setting.order
    assert order is not None
    return _in_mean(values, setting, order.project, takes_weights=order.takes_weights)


def _in_mean(
    values: Array,
    setting: Setting,
    project: Callable[..., Array],
    *,
    takes_weights: bool,
) -> Array:
    """Return what a projection makes of the loss's data; NaN where the loss is not defined."""
    result = np.full(values.shape, np.nan)
    rows = _is_defined(setting.loss, values, setting)
    if not rows.any():
        return result
    pooling = setting.loss.pooling(setting.estimate(values[rows]))
    if pooling is None or (pooling.weights is not None and not takes_weights):
        result[rows] = project(values[rows])
        return result
    data = pooling.values
    pooled = project(data, pooling.weights) if takes_weights else project(data)
    # Without a total its multiplier is 0.
    zero = np.zeros((len(data), 1))
    result[rows] = pooling.frequencies(zero, pooling.levels(zero, pooled))
    return result


def mean_of_ties(values: Array, setting: Setting) -> Array:
    """Return the mean of its class for each value."""
    classes = setting.ties
    assert classes is not None
    sizes = np.bincount(classes)
    # The members of a class side by side, so that one pass adds up all classes of all rows.
    order = np.argsort(classes, kind="stable")
    starts = np.cumsum(sizes) - sizes
    means: Array = np.add.reduceat(values[:, order], starts, axis=1) / sizes
    return means[:, classes]


def mean_of_ties_in_mean(values: Array, setting: Setting) -> Array:
    """Return the mean of ties that minimises the problem's loss, such as a geometric one."""

    def project(data: Array) -> Array:
        return mean_of_ties(data, setting)

    return _in_mean(values, setting, project, takes_weights=False)


def tree_passes(values: Array, setting: Setting) -> Array:
    """Return the nearest values in which each parent is the sum of its children."""
    tree = setting.tree
    assert tree is not None
    return closed_form.tree_consistency(values, tree.parents, total=tree.root_total)


def level_the_highest(values: Array, setting: Setting) -> Array:
    """Return the nearest values on the simplex with at most so many positive ones."""
    assert setting.count is not None
    assert setting.total is not None
    return closed_form.at_most(values, setting.count, setting.total)


# --- the minimiser of a loss under bounds and totals ----------------------------------------------


@dataclass(frozen=True)
class Root:
    """The minimiser of a separable loss under the bounds and the total, or the groups' totals.

    It depends on values through one multiplier, or one per group.
    """

    loss: Loss
    by_group: bool = False

    def __call__(self, values: Array, setting: Setting) -> Array:
        """Return the minimisers; a row for which the loss is not defined is NaN."""
        problem = setting.bounded(self.loss, by_group=self.by_group)
        result = np.full(values.shape, np.nan)
        rows = np.flatnonzero(_is_defined(self.loss, values, setting))
        if not len(rows):
            return result
        result[rows] = _minimised_or_nan(values[rows], setting, problem)
        return result


def _minimised(values: Array, setting: Setting, problem: Formulation) -> Array:
    estimate = setting.estimate(values)
    # That a row has no minimum is all that a search needs to know: the reasons would cost more
    # than everything else.
    match = closed_form_for(problem, estimate, explains=False)
    if match is None:
        raise InvalidInputError(f"{problem.statement} has no closed form")
    return match.evaluate()


def _minimised_or_nan(values: Array, setting: Setting, problem: Formulation) -> Array:
    """Return the minimisers; a row without a minimum is NaN.

    Few rows have none, such as those without a positive value for KL. A stack is refused as a
    whole: by halves such a row is found in a dozen calls, where one call per row takes hundreds.
    """
    try:
        return _minimised(values, setting, problem)
    except LdpoptError:
        if len(values) == 1:
            return np.full(values.shape, np.nan)
    half = len(values) // 2
    parts = [_minimised_or_nan(part, setting, problem) for part in (values[:half], values[half:])]
    return np.concatenate(parts)


def _is_defined(loss: Loss, values: Array, setting: Setting) -> NDArray[np.bool_]:
    """Return for which rows all values are finite and such that the loss can have come from them.

    Shape (trials,).
    """
    rows = np.asarray(np.isfinite(values).all(axis=-1))
    # An estimate holds finite numbers alone.
    rows[rows] = loss.is_defined(setting.estimate(values[rows]))
    return rows
