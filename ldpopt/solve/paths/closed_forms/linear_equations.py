"""Least squares with linear equations: margins of a table alone, and any few beside bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.closed_form import KnownMargins
from ldpopt.errors import InfeasibleError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import Loss
from ldpopt.losses.pooling import SquaresPooling
from ldpopt.solve.certificate.equation_prices import equations_of
from ldpopt.solve.certificate.margin_prices import margins_of
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths.closed_forms.registry import Match, solves_family

Array = NDArray[np.float64]

# Sums of the same cells by different margins may differ by so much, relative: less is rounding of
# who has published them, and no point misses a margin by more.
_ROUNDING = 1e-9

# How far weights may be from products of one factor per axis, relative.
_PRODUCT = 1e-12


def _squares(loss: Loss, estimate: FrequencyEstimate) -> SquaresPooling | None:
    """Return target and weights of least squares; None for other losses."""
    pooling = loss.pooling(estimate)
    return pooling if isinstance(pooling, SquaresPooling) else None


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
def _with_equations(formulation: Formulation, estimate: FrequencyEstimate) -> Match | None:
    """Return Newton's method on the multipliers, where all that is no bound is an equation."""
    d = estimate.d
    region = formulation.region(d)
    squares = None if region.is_box else _squares(formulation.loss, estimate)
    if squares is None or squares.weights is not None:
        return None
    equations = equations_of([one for one in formulation.constraints if one.box(d) is None], d)
    if equations is None:
        return None

    def evaluate() -> Array:
        target = squares.values
        points = np.empty(target.shape)
        for trial in np.ndindex(target.shape[:-1]):
            points[trial] = closed_form.with_equations(
                target[trial], *equations, region.lower, region.upper
            )
        return points

    return Match("newton on multipliers", evaluate, may_miss=True)
