"""An upper bound of a gap under an order, from one pass that passes slopes on towards the roots.

It is meant for acceptance, as ``quick_gap`` is: rounding is not charged. With the gradient g and
the strong convexity m of the loss at f, a price t of the total T, one y_v >= 0 for the row that
ties a value v to the one above it, and what these leave,

    r_v = g_v - t + y_v - Σ y_c   over all c below v,

every s of the set has

    L(f) - L(s) <= g·(f - s) - m/2 ‖f - s‖²
                <= t (Σ f - T) + Σ_v y_v (f_above - f_v) + Σ_v (r_v (f_v - s_v) - m/2 (f_v - s_v)²),

where each last term is at most its maximum between the bounds of s_v. From the leaves upwards y_v
is what the value v lacks. So r_v is negative at roots alone. A positive r_v costs nothing at a
lower bound, and a negative one nothing at an upper bound. On a simplex no curvature is needed:
``vertex_gap``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form.rows import locked_rows, locked_vector
from ldpopt.constraints.isotonic import ForestOrder, joined
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.acceptance.quick_gap import (
    measured_by,
    of_orders,
    slope_and_product,
    smallest,
)
from ldpopt.solve.certificate.bounds.evidence import SizedGap
from ldpopt.solve.formulation import Formulation, Region

Array = NDArray[np.float64]

# Of a modulus, whose inverse is a double.
_SMALLEST = float(np.finfo(np.float64).tiny)

_NO_BOUNDS: Array = np.empty(0)
_NO_BOUNDS.flags.writeable = False


def order_gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for other sets, and where slopes are infinite.

    Parameters
    ----------
    formulation
        A smooth convex loss on an order of rooted trees, with bounds and at most one total.
    start
        The estimate.
    point
        f, of the estimate's shape.

    Notes
    -----
    Cost: the gradient, and one pass along the trees; three more for a price between bounds.
    """
    loss = formulation.loss
    d = start.d
    if not loss.convex or loss.smooth_part is not loss:
        return None
    region = formulation.region(d)
    forest = _forest_of(region)
    if forest is None or forest.has_equal_values:
        return None
    sloped = slope_and_product(loss, start, point)
    if sloped is None or not np.isfinite(sloped.product).all():
        return None
    slope = sloped.slope.reshape(-1, d)
    f = locked_rows(point)
    modulus = smallest(loss.curvature(start))
    if modulus < _SMALLEST:
        modulus = 0.0
    # What overflows proves nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        level, paid = _price_of_total(slope, f, region)
        bounds = _flow_bounds(forest, slope, f, region, level, modulus)
    gap, terms, rises = (part.reshape(point.shape[:-1]) for part in bounds.T)
    measured = measured_by(sloped.extent, formulation, region)
    measured += of_orders(region, rises)
    gap = gap + paid.reshape(gap.shape)
    gap = np.where(np.isfinite(gap), np.maximum(gap, 0.0), np.inf)
    return SizedGap(gap, np.asarray(terms), tuple(measured))


def _forest_of(region: Region) -> ForestOrder | None:
    """Return the trees that all constraints make which are neither bounds nor a total, or None."""
    d = len(region.lower)
    orders = [order for order in (one.isotonic(d) for one in region.tied) if order is not None]
    if not orders or len(orders) < len(region.tied):
        return None
    order = joined(orders, d)
    return None if order is None else order.forest


def _flow_bounds(
    order: ForestOrder, slope: Array, f: Array, region: Region, level: Array, modulus: float
) -> Array:
    """Return the bound but for the total, Σ |g_v f_v| and the largest rise, shape (trials, 3)."""
    from ldpopt.solve.acceptance.order_kernel import flows_to_mode, flows_to_roots  # imports numba

    lower = locked_vector(region.lower) if region.lower_count else _NO_BOUNDS
    upper = locked_vector(region.upper) if region.upper_count else _NO_BOUNDS
    if order.mode is not None:
        return flows_to_mode(slope, f, lower, upper, level, modulus, order.mode)
    if order.sign < 0:
        # Turned over, roots are the highest values of their trees.
        slope, f, level = -slope, -f, -level
        lower, upper = -upper, -lower
    nodes = order.values_from_above
    received = np.zeros(f.shape[-1] + 1)
    return flows_to_roots(
        slope, f, lower, upper, level, modulus, nodes.labels, nodes.above, received
    )


def _price_of_total(slope: Array, f: Array, region: Region) -> tuple[Array, Array]:
    """Return the price of the total of each trial, and what the sum of f is off costs at it.

    It is the mean slope of the values between their bounds: each of their blocks has that mean.
    """
    total = region.total
    if total is None:
        nothing = np.zeros(len(f))
        return nothing, nothing
    if region.lower_count or region.upper_count:
        is_free = (f > region.lower) & (f < region.upper)
        number = np.count_nonzero(is_free, axis=-1)
        moment = np.sum(slope, axis=-1, where=is_free)
    else:
        number = np.full(len(f), f.shape[-1])
        moment = np.sum(slope, axis=-1)
    price = moment / np.maximum(number, 1)
    return price, price * (np.sum(f, axis=-1) - total)
