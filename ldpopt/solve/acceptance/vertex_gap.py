"""An upper bound of a gap on forests, hierarchies and groups, from slopes at vertices of the set.

It is meant for acceptance, as ``quick_gap`` is: rounding is not charged. A convex loss has
L(f) - L(s) <= g·(f - s) for all s, and a linear function is smallest at a vertex of the set. No
multipliers are needed, and little more than the gradient is read.

**Orders.** Under f >= 0, a total T and an order of rooted trees a vertex is T/|U| on a set U which
has, with each value, all that must not be lower. Whatever the level t,

    min_s g·s >= T t + T min(0, min_U Σ_U (g - t)),   for |U| >= 1,

and that minimum follows from the leaves upwards. The level is g·f/T: at a minimum of the loss every
block of f has this mean slope, and no U has a smaller one. Of a chain U is a beginning, and blocks
bound its mean.

**Other orders.** For any y >= 0, one number per pair, g·s >= g'·s with g' = g - y at the upper
value of a pair and g + y at the lower one, so that min_s g·s >= T min g'. Flows between equal
values make the entries of g' equal as far as they can.

**Chains with caps.** What is at least h of a vector along a chain is a begin of it, U_h, that ends
before the first value with a cap below h. With the sums W_k of g - t over the first k values, and
the smallest cap c_k of these (T without one, and c_{d+1} = 0),

    min_s g·s >= T t + Σ_k (c_k - c_{k+1}) min(0, min_{m <= k} W_m).

The level is the mean slope of the blocks between 0 and their caps. Of two levels the better counts:
a sum below 0 is rounding, and counts less as a lower level of all.

**Groups.** Each of long vectors' disjoint groups with totals T_g has a simplex of its own, perhaps
with caps c. Whatever the levels t_g,

    min_s g·s >= Σ_g T_g t_g + Σ_v c_v min(0, g_v - t_g),

and without caps the lowest slope of the group is its best level. A level is the mean slope of the
values of a group by their distances to the nearer bound.

**Hierarchies.** All nodes follow from the leaves, whose slopes are the sums of g on their ways from
the root. The leaves have the total T, and bounds f >= 0 or none: these sets are those of
``quick_gap``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import Groups
from ldpopt.closed_form.parts import absolute_sum
from ldpopt.closed_form.rows import is_long, locked_rows, locked_vector
from ldpopt.constraints import Constraint
from ldpopt.constraints.base import Tree
from ldpopt.constraints.isotonic import ForestOrder, PartialOrder
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.acceptance.quick_gap import (
    Moments,
    has_zeros,
    measured_by,
    of_bounds,
    of_orders,
    plane_gap,
    slope_and_product,
    smallest,
)
from ldpopt.solve.certificate.bounds.evidence import CLEAR, Measured, SizedGap, is_within
from ldpopt.solve.certificate.box.slopes import slope_of
from ldpopt.solve.certificate.prices.pooled_gap import structure_of, with_rest
from ldpopt.solve.formulation import Formulation, Region

if TYPE_CHECKING:
    from ldpopt.solve.certificate.prices.tree_prices import Product

Array = NDArray[np.float64]

_NO_CAPS: Array = np.empty(0)
_NO_CAPS.flags.writeable = False

# Relative to the level and to the total: slopes that are lower by no more need no flow, and values
# that differ by no more are equal. Any choice here proves something.
_ROUNDING = 1e-12


def vertex_gap(formulation: Formulation, start: FrequencyEstimate, point: Array) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for other sets, and where slopes are infinite.

    Parameters
    ----------
    formulation
        A smooth convex loss on an order with bounds of 0 and a total, where a single chain may have
        caps, on a hierarchy with a total and bounds of 0 or none, or on disjoint groups of a long
        vector with bounds of 0 and perhaps caps.
    start
        The estimate.
    point
        f, of the estimate's shape.

    Notes
    -----
    Cost: the gradient, and one pass along the tree.
    """
    loss = formulation.loss
    if not loss.convex or loss.smooth_part is not loss:
        return None
    region = formulation.region(start.d)
    # The look at other sets takes longer.
    if not any(_is_covered(constraint, start.d) for constraint in region.tied):
        return None
    structure = structure_of(formulation, start.d)
    bound = _BOUNDS.get(type(structure))
    return None if bound is None else bound(formulation, start, point, structure, region)


def _is_covered(constraint: Constraint, d: int) -> bool:
    """Return whether a constraint is an order, a hierarchy or disjoint groups."""
    has_groups = constraint.disjoint_groups(d) is not None
    return constraint.tree is not None or has_groups or constraint.isotonic(d) is not None


class _Ordered(NamedTuple):
    """The gradient g, g·f, the total, and what a sweep has measured on its way."""

    slope: Array
    rise: Array
    total: float
    measured: list[Measured]


def _slope_in_order(
    formulation: Formulation,
    start: FrequencyEstimate,
    f: Array,
    order: ForestOrder | PartialOrder,
    region: Region,
) -> _Ordered | None:
    """Return what the bounds need; None for sets other than those of orders above."""
    total = region.total
    if order.has_equal_values or not has_zeros(region):
        return None
    sloped = None if total is None or total <= 0 else slope_and_product(formulation.loss, start, f)
    if sloped is None or total is None:
        return None
    if not np.isfinite(sloped.product).all():
        return None
    measured = measured_by(sloped.extent, formulation, region)
    return _Ordered(sloped.slope, sloped.product, total, measured)


def _forest_gap(
    formulation: Formulation,
    start: FrequencyEstimate,
    f: Array,
    order: ForestOrder,
    region: Region,
) -> SizedGap | None:
    """Return the bound under an order of trees."""
    from ldpopt.solve.certificate.prices.tree_prices import lowest_around, lowest_sums

    chain = order.along_chain
    # Caps cut sets of branches in ways of their own: only those of a chain are in a line.
    if region.upper_count and chain is None:
        return None
    parts = _slope_in_order(formulation, start, f, order, region)
    if parts is None:
        return None
    slope, rise, total, measured = parts
    d = f.shape[-1]
    slopes = slope.reshape(-1, d)
    if chain is None:
        level = (rise / total).reshape(-1)
        if order.mode is not None:
            lowest = lowest_around(slopes, level, order.mode)
        else:
            lowest = lowest_sums(slopes, level, order.values_from_above, order.sign)
        gap = np.asarray(total * np.maximum(-lowest.reshape(rise.shape), 0.0))
        if not is_within(gap, np.abs(rise), CLEAR):
            # Sums may have taken the place of the slopes.
            slope = slope_of(formulation.loss, start, f)
        return SizedGap(gap, _terms(gap, rise, slope, f), tuple(measured))
    along = np.ascontiguousarray(slopes[:, chain])
    values_along = np.ascontiguousarray(f.reshape(-1, d)[:, chain])
    caps = region.upper[chain] if region.upper_count else None
    gap, product = _chain_gap(along, values_along, caps, rise.reshape(-1), total)
    gap = gap.reshape(rise.shape)
    if product is not None:
        measured += of_bounds(formulation, region, product.outside.reshape(rise.shape))
        measured += of_orders(region, product.steps.reshape(rise.shape))
    return SizedGap(gap, _terms(gap, rise, slope, f), tuple(measured))


def _terms(gap: Array, product: Array, slope: Array, f: Array) -> Array:
    """Return |g·f| where it is clear that a gap is small beside it, and Σ |g_v f_v| elsewhere.

    The products may cancel, and then say little of their size; else they are known already.
    """
    terms = np.abs(product)
    return terms if is_within(gap, terms, CLEAR) else absolute_sum(slope, f)


def _chain_gap(
    slopes: Array, f: Array, caps: Array | None, rise: Array, total: float
) -> tuple[Array, Product | None]:
    """Return the bounds of several trials along a chain, the highest value first, (trials,).

    The product that they come from follows, if there is one.
    """
    from ldpopt.solve.certificate.prices.tree_prices import lowest_means, smallest_product

    if caps is None:
        gap = -total * lowest_means(slopes, rise / total)
        if is_within(gap, np.abs(rise), CLEAR):
            return gap, None
        caps = np.full(f.shape[-1], np.inf)
    enough = rise - CLEAR * np.abs(rise)
    product = smallest_product(slopes, f, caps, total, enough)
    return np.maximum(rise - product.bound, 0.0), product


def _pairs_gap(
    formulation: Formulation,
    start: FrequencyEstimate,
    f: Array,
    order: PartialOrder,
    region: Region,
) -> SizedGap | None:
    """Return the bound under any other order; None with caps."""
    from ldpopt.closed_form.partial_order_kernels import lift  # imports numba

    if region.upper_count:
        return None
    parts = _slope_in_order(formulation, start, f, order, region)
    if parts is None:
        return None
    slope, rise, total, measured = parts
    d = f.shape[-1]
    slopes = slope.reshape(-1, d)
    level = (rise / total).reshape(-1)
    # A slope that is below the level by rounding alone is paid for.
    low = level - _ROUNDING * np.abs(level)
    near = _ROUNDING * total
    for trial, values in enumerate(f.reshape(-1, d)):
        lift(slopes[trial], values, near, low[trial], level[trial], *order.values_above)
    # What pairs of unequal values cost is in g·f.
    gap = rise - slope.min(axis=-1) * total
    return SizedGap(np.maximum(gap, 0.0), np.abs(rise), tuple(measured))


def _groups_gap(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    groups: Groups,
    region: Region,
) -> SizedGap | None:
    """Return the bound on groups; None for short vectors and other bounds."""
    if not is_long(start.d) or not has_zeros(region):
        return None
    sloped = slope_and_product(formulation.loss, start, point)
    if sloped is None:
        return None
    slope, product, _ = sloped
    if not np.isfinite(product).all():
        return None
    from ldpopt.solve.acceptance.group_prices import rises

    whole = with_rest(groups, region.total)
    # The same kinds of array each time: for others the sweeps would be compiled again.
    caps = locked_vector(region.upper) if region.upper_count else _NO_CAPS
    of_value = whole.of_value.view(np.uint64)
    totals = locked_vector(whole.totals)
    rows = (locked_rows(slope), locked_rows(point))
    rise, missed, outside = rises(*rows, of_value, totals, groups.number, caps)
    gap = np.maximum(rise, 0.0).reshape(product.shape)
    (member,) = region.tied
    measured = of_bounds(formulation, region, outside.reshape(product.shape))
    measured.append(Measured(member, missed.reshape(product.shape)))
    return SizedGap(gap, _terms(gap, product, slope, point), tuple(measured))


def _hierarchy_gap(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    tree: Tree,
    region: Region,
) -> SizedGap | None:
    """Return the bound on a hierarchy, in terms of its leaves."""
    total = tree.root_total
    is_free = not region.lower_count
    if total is None or region.upper_count or not (is_free or has_zeros(region)):
        return None
    sloped = slope_and_product(formulation.loss, start, point)
    if sloped is None:
        return None
    slope, rise, extent = sloped
    if not np.isfinite(rise).all():
        return None
    measured = tuple(measured_by(extent, formulation, region))
    from ldpopt.solve.certificate.prices.tree_prices import add_from_above, moments_of_leaves

    d = start.d
    nodes = tree.nodes_from_above
    is_leaf = nodes.is_leaf
    rows = (slope.reshape(-1, d), point.reshape(-1, d))
    if not nodes.is_as_numbered:
        # Rows one after the other: indexing two axes would put columns so.
        rows = (np.take(rows[0], nodes.labels, axis=1), np.take(rows[1], nodes.labels, axis=1))
    of_leaves = add_from_above(*rows, nodes.above, is_leaf).T
    lowest, whole, size = of_leaves.reshape(3, *point.shape[:-1])
    if not is_free:
        gap = np.asarray(np.maximum(rise - lowest * total, 0.0))
        return SizedGap(gap, np.abs(rise), measured)
    # The nodes above the leaves bend the loss too, which is left out.
    modulus = smallest(formulation.loss.curvature(start))
    if modulus <= 0:
        return None
    leaves = int(np.count_nonzero(is_leaf))
    mean = np.asarray(whole / leaves)
    beyond = moments_of_leaves(*rows, is_leaf, mean.reshape(-1)).T
    moments = Moments(mean, size, *beyond.reshape(3, *point.shape[:-1]))
    # What the nodes of the point differ from the sums of their leaves, at their slopes.
    beside = rise - (moments.along + moments.mean * moments.size)
    bound = plane_gap(moments, leaves, modulus, total)
    return SizedGap(np.asarray(bound.gap + beside), bound.terms, measured)


_BOUNDS: Mapping[type, Callable[..., SizedGap | None]] = {
    Groups: _groups_gap,
    Tree: _hierarchy_gap,
    ForestOrder: _forest_gap,
    PartialOrder: _pairs_gap,
}
"""What bounds the gap on each structure."""
