"""Linear equations: margins of a table alone, and any few beside bounds.

Least squares have bounds of any kind, divergences those that their logarithm implies. Of these a
hierarchy may have any number of nodes; for least squares it is in ``trees``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.closed_form import KnownMargins
from ldpopt.errors import InfeasibleError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.pooling import Pooling
from ldpopt.solve.certificate.prices.equation_prices import equations_of
from ldpopt.solve.certificate.prices.margin_prices import margins_of
from ldpopt.solve.formulation import Formulation, Region
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family

Array = NDArray[np.float64]
# What is projected, and the function that projects it on equations A f = b.
_Nearest = tuple[Array, Callable[[Array, Any, Array], Array]]

# Sums of the same cells by different margins may differ by so much, relative: less is rounding of
# who has published them, and no point misses a margin by more.
_ROUNDING = 1e-9

# How far weights may be from products of one factor per axis, relative.
_PRODUCT = 1e-12


def _squares(loss: Loss, estimate: FrequencyEstimate) -> Pooling | None:
    """Return target and weights of least squares; None for other losses."""
    pooling = loss.pooling(estimate)
    return pooling if pooling is not None and pooling.is_of_squares else None


@solves_family
def _with_margins(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return one shift per margin, where margins of one table and a total are all that is known."""
    margins = margins_of(formulation.constraints, estimate.d)
    squares = None if margins is None else _squares(formulation.loss, estimate)
    if margins is None or squares is None:
        return None
    density = None if squares.weights is None else 1 / squares.weights
    if density is not None and not _is_product(density, margins):
        return None

    def evaluate() -> Array:
        _require_agreement(margins)
        return closed_form.with_margins(squares.values, margins, density)

    return Match("one shift per margin", evaluate)


def _is_product(density: Array, margins: KnownMargins) -> bool:
    """Return whether a density on the cells has one factor per axis, but for rounding."""
    table = margins.tables(density)
    total = density.sum()
    product = np.full([1] * table.ndim, total)
    for axis in range(table.ndim):
        product = product * (margins.sums(table, (axis,)) / total)
    return bool(np.all(np.abs(product - table) <= _PRODUCT * table))


def _require_agreement(margins: KnownMargins) -> None:
    """Raise an error unless what several margins tell is the same."""
    largest = max(float(np.abs(margin.sums).max()) for margin in margins.margins)
    for first, second, apart in margins.conflicts(_ROUNDING * max(1.0, largest)):
        common = tuple(axis for axis in first.axes if axis in second.axes)
        what = f"sums along axes {common}" if common else "totals"
        names = " and ".join(
            f"the margin of axes {margin.axes}" if margin.axes else "the total"
            for margin in (first, second)
        )
        raise InfeasibleError(
            f"{names} contradict each other: their {what} differ by up to {apart:.3g}, so that no "
            "table has both"
        )


@solves_family
def _scaled_tree(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return Newton's method on the logarithms of a hierarchy, for divergences."""
    region = formulation.region(estimate.d)
    reference = _reference(formulation.loss, region, estimate)
    if reference is None or region.total is not None or len(region.tied) != 1:
        return None
    (tied,) = region.tied
    tree = tied.tree
    # A negative total has no solution: another path finds and names the conflict.
    if tree is None or (tree.root_total is not None and tree.root_total < 0):
        return None
    return Match(
        "scaled tree", lambda: closed_form.tree_scaling(reference, tree.parents, tree.root_total)
    )


@solves_family
def _with_equations(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return Newton's method on the multipliers, where all that is no bound is an equation."""
    d = estimate.d
    region = formulation.region(d)
    if region.is_box:
        return None
    nearest = _nearest_of(formulation.loss, region, estimate)
    if nearest is None:
        return None
    # Bounds are arrays of d values: they are looked at where an equation may be.
    others = [c for c in formulation.constraints if c in region.tied or c.total(d) is not None]
    equations = equations_of([one for one in others if one.box(d) is None], d)
    if equations is None or (len(equations.right) == 2 and _has_row_form(formulation, estimate)):
        return None
    target, project = nearest

    def evaluate() -> Array:
        points = np.empty(target.shape)
        for trial in np.ndindex(target.shape[:-1]):
            points[trial] = project(target[trial], *equations)
        return points

    return Match("newton on multipliers", evaluate, may_miss=True)


def _has_row_form(formulation: Formulation, estimate: FrequencyEstimate) -> bool:
    """Return whether an equation beside a total is left to ``one_row``: with weights it is."""
    squares = _squares(formulation.loss, estimate)
    is_weighted = squares is None or squares.weights is not None
    return is_weighted and formulation.total(estimate.d) is not None


def _nearest_of(loss: Loss, region: Region, estimate: FrequencyEstimate) -> _Nearest | None:
    """Return what a loss starts from, and its projection; None where it or a bound has none."""
    reference = _reference(loss, region, estimate)
    if reference is not None:
        return reference, closed_form.scaled_to_equations
    squares = _squares(loss, estimate)
    if squares is None:
        return None
    return squares.values, partial(_nearest, region, squares.weights)


def _nearest(
    region: Region, weights: Array | None, target: Array, matrix: Any, right: Array
) -> Array:
    """Return the nearest point on bounds and equations A f = b."""
    lower, upper = region.lower, region.upper
    if weights is None:
        return closed_form.with_equations(target, matrix, right, lower, upper)
    # In units of their own all values count the same.
    unit = 1 / np.sqrt(weights)
    ends = (lower / unit, upper / unit)
    point = closed_form.with_equations(target / unit, matrix * unit, right, *ends)
    return np.clip(point * unit, lower, upper)


def _reference(loss: Loss, region: Region, estimate: FrequencyEstimate) -> Array | None:
    """Return the reference of a divergence; None for other losses, and beside further bounds."""
    separable = loss.separable
    # The logarithm keeps values above 0 by itself.
    is_bounded = region.upper_count > 0 or not region.lower_is_zero
    if is_bounded or separable is None or not separable.is_divergence:
        return None
    reference: Array = separable.target(estimate)  # type: ignore[attr-defined]  # of divergences
    return np.broadcast_to(reference, estimate.frequencies.shape)
