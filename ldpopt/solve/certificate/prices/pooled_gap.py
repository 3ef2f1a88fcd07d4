"""An upper bound of a gap on the sets whose closed forms pool, group or add up values.

Orders that are forests, known top sets, disjoint groups with totals, hierarchies, bounds of total
variation, margins of a table, a few rows of many values, and a few equations of any kind: at a
minimum their multipliers follow from the gradient in a pass or two, with no program. So the points
of these closed forms are judged in about the time that they take. As everywhere, any multipliers
prove something. In a price p of every value they give

    L(f) - L(s) <= p·(f - s) + Σ_v rise_v(p),

and p·(f - s) is at most the sum of the multipliers times the distances of f to the rows' bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpopt.closed_form import Groups, KnownMargins
from ldpopt.closed_form.parts import absolute_sum, parts_of
from ldpopt.closed_form.rows import is_long
from ldpopt.constraints.base import Tree, Variation
from ldpopt.constraints.isotonic import ForestOrder, Isotonic, PartialOrder, TopSetOrder, joined
from ldpopt.estimate import FrequencyEstimate
from ldpopt.solve.certificate.bounds.competitors import domain_of, reach, stated, within_sublevel
from ldpopt.solve.certificate.bounds.dual import EPS, sum_with_error, usable
from ldpopt.solve.certificate.bounds.evidence import SizedGap
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.minorant import Tangent, minorant
from ldpopt.solve.certificate.box.total_prices import distances, negligible
from ldpopt.solve.certificate.prices.equation_prices import Equations, equation_prices, equations_of
from ldpopt.solve.certificate.prices.forests import Forest, Ranges, carried, free_values
from ldpopt.solve.certificate.prices.margin_prices import margin_prices, margins_of
from ldpopt.solve.certificate.prices.row_prices import FewRows, few_rows_of, row_prices
from ldpopt.solve.certificate.prices.variation_prices import Prices, variation_prices
from ldpopt.solve.formulation import Formulation

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Structure = Isotonic | Groups | Tree | Variation | KnownMargins | FewRows | Equations

# So that a vector of zeros has a logarithm.
_SMALLEST = 1e-200

# Distance at which values of a top set count as one: closed forms make them equal.
_NEAR = 1e-9


# Distance at which two values of an order between bounds count as equal.
_TIED = 1e-12


class _Point(NamedTuple):
    """A point and the gradient there, shape (trials, d), bounds, and the total or None."""

    f: Array
    slope: Array
    bounds: Box
    total: float | None

    @property
    def freedom(self) -> Array:
        """The distance to the nearest bound; 1 for values without bounds."""
        distance = np.maximum(np.minimum(self.f - self.bounds.lower, self.bounds.upper - self.f), 0)
        return np.where(np.isinf(distance), 1.0, distance)


def pooled_gap(
    formulation: Formulation,
    start: FrequencyEstimate,
    point: Array,
    enough: Array | float = 0.0,
) -> SizedGap | None:
    """Return an upper bound of L(f) - min L; None for losses and sets of other kinds.

    Parameters
    ----------
    formulation
        A smooth loss on orders that make one forest, or one of the other sets above, with bounds
        and at most one total.
    start
        The estimate.
    point
        f, of the estimate's shape.
    enough
        A gap at which no other prices are tried.

    Notes
    -----
    Cost: some ten passes over f, and one along the tree.
    """
    d = start.d
    structure = structure_of(formulation, d)
    loss = formulation.loss
    if structure is None or not loss.convex or loss.smooth_part is not loss:
        return None
    region = formulation.region(d)
    limits = within_sublevel(loss, start, point, reach(loss, start, region), is_box=True)
    tangent = minorant(loss, start, point, *limits)
    if not isinstance(tangent, Tangent) or tangent.held is not None:
        return None
    bounds = stated(region, point, domain_of(loss, start))
    by_trial = Box(*(np.broadcast_to(end, point.shape).reshape(-1, d) for end in bounds))
    slope = tangent.slope.reshape(-1, d)
    rows = _Point(point.reshape(-1, d), slope, by_trial, region.total)
    terms = absolute_sum(tangent.slope, point)
    gap: Array | None = None
    # Slopes near the largest double add up to more: what overflows proves nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        for prices in _prices(structure, rows, enough):
            proved = _gap_at(prices, tangent, limits)
            gap = proved if gap is None else np.minimum(gap, proved)
            if np.all(gap <= np.maximum(negligible(d) * terms, enough)):
                break
    return None if gap is None else SizedGap(gap, terms)


def _gap_at(prices: Prices, tangent: Tangent, limits: Box) -> Array:
    """Return the gap that prices prove, shape (...)."""
    shape = tangent.f.shape
    # Where a slope is infinite or NaN there are no multipliers that prove anything.
    price = usable(prices.price).reshape(shape)
    error = prices.error.reshape(*shape[:-1], -1)
    rise = tangent.rise(price, error, *limits)
    products = prices.products.reshape(shape[:-1])
    gap = rise + products * (1 + (shape[-1] + 16) * EPS)
    return np.where(np.isfinite(gap), np.maximum(gap, 0.0), np.inf)


def structure_of(formulation: Formulation, d: int) -> Structure | None:
    """Return what ties the values together beside bounds and a total; None for other sets."""
    tied = formulation.region(d).tied
    # No structure has a ball, whose rows would take most of the time of this look.
    if any(c.ball is not None for c in tied):
        return None
    totals = [c for c in formulation.constraints if c.total(d) is not None]
    orders = [order for order in (c.isotonic(d) for c in tied) if order is not None]
    if orders and len(orders) == len(tied):
        order = joined(orders, d)
        # A user's order may be one of trees as well.
        return order if order is None or order.forest is None else order.forest
    if len(tied) == 1:
        (member,) = tied
        if member.variation is not None:
            return member.variation
        # All nodes of a tree together have no total that means anything, so that one makes it a
        # set of equations.
        if member.tree is not None and not totals:
            return member.tree
        groups = member.disjoint_groups(d)
        if groups is not None:
            return groups
    # With bounds, slopes of cells at them would spoil the means that margins take.
    is_unbounded = len(tied) + len(totals) == len(formulation.constraints)
    margins = margins_of(formulation.constraints, d) if is_unbounded else None
    if margins is not None:
        return margins
    if not tied:
        return None
    few = few_rows_of(tied, formulation.total(d), d)
    if few is not None:
        return few
    # With the total, which is an equation beside them.
    return equations_of([*tied, *totals], d)


def _prices(structure: Structure, point: _Point, enough: Array | float) -> Iterable[Prices]:
    """Return prices for a structure; none for orders with equal values, and for other bounds."""
    prices = _PRICES.get(type(structure))
    return () if prices is None else prices(structure, point, enough)


def _price_of_total(point: _Point) -> tuple[Array, Array]:
    """Return the price of the total, shape (trials, 1), and an upper bound of what it costs.

    It is the mean slope of the values that no bound holds: each of their blocks has that mean.
    """
    if point.total is None:
        return np.zeros((len(point.f), 1)), np.zeros(len(point.f))
    count = np.zeros(len(point.f))
    moment = np.zeros(len(point.f))
    for _, (slope, f, lower, upper) in parts_of(point.slope, point.f, *point.bounds):
        is_free = (f > lower) & (f < upper)
        count += np.count_nonzero(is_free, axis=-1)
        moment += np.sum(np.where(is_free, slope, 0.0), axis=-1)
    price = usable(moment / np.maximum(count, 1.0))
    size, error = sum_with_error(point.f)
    excess = np.abs(size - point.total)
    error = error + 2 * EPS * (excess + abs(point.total))
    return price[:, None], np.abs(price) * (excess + error)


def _of_forest_order(order: ForestOrder, point: _Point, _: Array | float) -> list[Prices]:
    """Return the prices of an order of trees; none where some of its nodes are several values."""
    return [_of_order(order, point)] if len(order.parents) == point.f.shape[-1] else []


def _of_other_order(order: PartialOrder, point: _Point, _: Array | float) -> list[Prices]:
    """Return the prices of any other order; none where it makes values equal."""
    return [] if order.has_equal_values else [_of_partial_order(order, point)]


def _of_order(order: ForestOrder, point: _Point) -> Prices:
    """Return the prices of an order: what hangs below a value goes through the row above it."""
    if any(bool((end != end[:, :1]).any()) for end in point.bounds):
        return _of_held_order(order, point)
    price, products = _price_of_total(point)
    chain = order.chain
    # What the values of a block at its cap lack goes upwards, as in a forest, and never down.
    has_caps = bool((point.bounds.upper[:, 0] < np.inf).any())
    if chain is not None and not has_caps:
        return _of_chain(chain, price, point, products)
    slope = point.slope - price
    return _of_forest(order, price, slope, point, products)


def _of_held_order(order: ForestOrder, point: _Point) -> Prices:
    """Return the prices of an order between bounds of each value, which may hold any of a block.

    Such a bound takes what its block leaves over: what goes through the rows is a range, and one
    passage up and one down the forest find numbers in it.
    """
    parents = order.parents_of_values
    labels = order.values_from_above.labels.astype(np.int64)
    forest = Forest(labels[::-1].copy(), parents, parents, np.ones(len(parents)))
    prices = [
        _held_trial(forest, order.sign, point.slope[k], point.f[k], Box(*bounds), point.total)
        for k, bounds in enumerate(zip(*point.bounds, strict=True))
    ]
    return Prices(*(np.stack(part) for part in zip(*prices, strict=True)))


def _held_trial(
    forest: Forest, sign: int, slope: Array, f: Array, bounds: Box, total: float | None
) -> Prices:
    """Return the prices of one vector."""
    has_parent = forest.has_row
    parent = forest.above[has_parent]
    through = np.zeros(len(f))
    drops = np.maximum(sign * (f[parent] - f[has_parent]), 0.0)
    # What goes through the row of two equal values has one sign and any size. A sum's rounding may
    # have been shared among those of a block that are off their bounds.
    through[has_parent] = np.where(drops <= _TIED, np.inf, 0.0)
    nothing = np.zeros(len(f))
    ranges = Ranges(
        *((-through, nothing) if sign > 0 else (nothing, through)),
        np.where(f >= bounds.upper, -np.inf, 0.0),
        np.where(f <= bounds.lower, np.inf, 0.0),
    )
    price = 0.0
    cost = 0.0
    if total is not None:
        is_free = free_values(forest, ranges)
        price = float(slope[is_free].mean()) if is_free.any() else 0.0
        size, error = sum_with_error(f)
        excess = np.abs(size - total)
        cost = abs(price) * float(excess + error + 2 * EPS * (excess + abs(total)))
    flow = carried(forest, ranges, slope - price)
    cost += float(np.abs(flow[has_parent]) @ drops)
    received = np.bincount(parent, flow[has_parent], len(f))
    sizes = np.bincount(parent, np.abs(flow[has_parent]), len(f))
    additions = np.bincount(parent, minlength=len(f)) + 4
    error = EPS * (4 * abs(price) + additions * (np.abs(flow) + sizes))
    return Prices(price + flow - received, error, np.asarray(cost))


def _of_chain(chain: Index, price: Array, point: _Point, products: Array) -> Prices:
    """Return the prices of a chain, the highest value first: multipliers are prefix sums."""
    if is_long(len(chain)):
        from ldpopt.solve.certificate.prices.tree_prices import chain_prices

        long_price, long_error, of_rows = chain_prices(point.slope, point.f, price[:, 0], chain)
        return Prices(long_price, long_error, products + of_rows)
    flow = np.maximum(np.cumsum(point.slope[:, chain] - price, axis=-1), 0.0)
    # Nothing is below the last value.
    flow[:, -1] = 0.0
    drops = np.maximum(-np.diff(point.f[:, chain], axis=-1), 0.0)
    cost = products + np.sum(flow[:, :-1] * drops, axis=-1)
    received = np.zeros(flow.shape)
    received[:, 1:] = flow[:, :-1]
    # What a value passes on, less what it gets from above; and the size of the two.
    prices = np.empty(flow.shape)
    errors = np.empty(flow.shape)
    prices[:, chain] = flow + price - received
    errors[:, chain] = 8 * EPS * (flow + received + np.abs(price))
    return Prices(prices, errors, cost)


def _of_forest(
    order: ForestOrder, price: Array, slope: Array, point: _Point, products: Array
) -> Prices:
    """Return the prices where no value times the sign is above its parent's."""
    from ldpopt.solve.certificate.prices.tree_prices import flows

    sign = order.sign
    parents = order.parents_of_values
    values = order.values_from_above
    passed, received = flows(slope, values.labels, values.above, sign)
    tied = np.flatnonzero(parents >= 0)
    drops = sign * (point.f[:, parents[tied]] - point.f[:, tied])
    cost = products + np.einsum("tv,tv->t", passed[:, tied], np.maximum(drops, 0.0))
    # What a value receives is a sum over its children.
    additions = np.bincount(parents[tied], minlength=len(parents)) + 4
    error = EPS * (4 * np.abs(price) + additions * (passed + received))
    return Prices(price + sign * (received - passed), error, cost)


def _of_partial_order(order: PartialOrder, point: _Point) -> Prices:
    """Return the prices of any order: what a value lacks comes along its pairs as a flow."""
    from ldpopt.closed_form.partial_order_kernels import flows  # imports numba

    price, products = _price_of_total(point)
    pairs = order.pairs()
    above, below = np.ascontiguousarray(pairs.T)
    flow = np.empty((len(point.f), len(pairs)))
    flows(price - point.slope, np.ascontiguousarray(point.f), above, below, flow)
    moved = np.zeros(point.f.shape)
    size = np.zeros(point.f.shape)
    d = point.f.shape[-1]
    for trial, through in enumerate(flow):
        given = np.bincount(above, through, d)
        taken = np.bincount(below, through, d)
        moved[trial] = given - taken
        size[trial] = given + taken
    # Only pairs of equal values carry anything, so that no distance between values costs.
    degrees = np.bincount(pairs.ravel(), minlength=d) + 4
    error = EPS * (4 * np.abs(price) + degrees * size)
    return Prices(price + moved, error, products)


def _of_top_set(top: TopSetOrder, point: _Point) -> Prices:
    """Return the prices of a top set: the level between both sides passes on what it gets.

    Σ ν f over the members is at least t Σ ν for the level t, and at most that over the others. The
    two sums of ν are equal but for rounding; t times that is at most what the lowest member pays,
    so that it is charged to each of them.
    """
    price, products = _price_of_total(point)
    members = np.flatnonzero(top.is_member)
    trials, d = point.f.shape
    prices = np.repeat(price, d, axis=-1)
    errors = 4 * EPS * np.abs(prices)
    if not 0 < len(members) < d:
        return Prices(prices, errors, products)
    level = point.f[:, members].min(axis=-1, keepdims=True)
    # Few values are at the level, and no other one has a multiplier.
    trial, value = np.nonzero(np.abs(point.f - level) <= _NEAR)
    apart = np.abs(point.f[trial, value] - level[trial, 0])
    slope = point.slope[trial, value] - price[trial, 0]
    is_member = top.is_member[value]
    multiplier = np.maximum(np.where(is_member, slope, -slope), 0.0)
    sums = np.zeros((2, trials))
    np.add.at(sums, (is_member.astype(np.intp), trial), multiplier)
    smaller = np.min(sums, axis=0)
    shares = np.divide(smaller, sums, out=np.zeros(sums.shape), where=sums > 0)
    multiplier *= shares[is_member.astype(np.intp), trial]
    left = (d + 8) * EPS * smaller
    cost = products + 2 * left * np.abs(point.f).max(axis=-1)
    cost = cost + np.bincount(trial, multiplier * apart, trials)
    prices[trial, value] += np.where(is_member, multiplier, -multiplier)
    errors[trial, value] += 4 * EPS * multiplier
    errors[:, members] += left[:, None]
    return Prices(prices, errors, cost)


def _of_variation(variation: Variation, point: _Point, enough: Array | float) -> Iterator[Prices]:
    """Yield prices where total variation along all values is bounded."""
    if variation.order is not None and len(variation.order) < point.f.shape[-1]:
        return
    order = np.arange(point.f.shape[-1]) if variation.order is None else variation.order
    back = np.argsort(order)
    f = point.f[:, order]
    slope = point.slope[:, order]
    freedom = point.freedom[:, order]
    for near in distances(enough):
        along = variation_prices(f, slope, freedom, variation.bound, point.total, near)
        yield along._replace(price=along.price[:, back], error=along.error[:, back])


def _of_groups(groups: Groups, point: _Point) -> Prices:
    """Return the prices of disjoint groups with totals; all other values are one more group."""
    groups = with_rest(groups, point.total)
    weights = point.freedom
    mass = groups.sums(weights)
    moment = groups.sums(weights * point.slope)
    has_freedom = mass > 0
    # To find extremes of groups takes a sort, and mostly every group has some freedom.
    price = np.zeros(mass.shape) if has_freedom.all() else _held_prices(groups, point)
    price = usable(np.divide(moment, mass, out=price, where=has_freedom))
    excess, rounding = _excess_of_groups(groups, point.f)
    cost = np.sum(np.abs(price) * (excess + rounding), axis=-1)
    return Prices(groups.of_each(price, 0.0), np.zeros(point.f.shape), cost)


def with_rest(groups: Groups, total: float | None) -> Groups:
    """Return groups, and all values in none of them as one more with what the total leaves."""
    if total is None or not np.any(groups.of_value == groups.number):
        return groups
    # Rounded once, as the totals that are stated are.
    left = math.fsum([total, *(-groups.totals).tolist()])
    return Groups(groups.of_value, np.append(groups.totals, left))


def _excess_of_groups(groups: Groups, f: Array) -> tuple[Array, Array]:
    """Return by how much sums of groups are off their totals, and bounds of the errors.

    Values are split at a digit above which their sums are exact (Rump, Ogita, Oishi 2008): what
    rounding takes from the rest is of second order.
    """
    d = f.shape[-1]
    largest = max(float(f.max()), -float(f.min()), _SMALLEST)
    unit = np.ldexp(1.0, math.ceil(math.log2(largest)) + math.ceil(math.log2(d + 2)))
    high = (unit + f) - unit
    low = f - high
    excess = (groups.sums(high) - groups.totals) + groups.sums(low)
    additions = np.bincount(groups.of_value, minlength=groups.number)[: groups.number] + 4
    rounding = (additions * EPS) ** 2 * unit + 2 * EPS * (np.abs(excess) + np.abs(groups.totals))
    return np.abs(excess), rounding


def _held_prices(groups: Groups, point: _Point) -> Array:
    """Return prices for groups whose values are all at bounds: between what these allow."""
    at_upper = point.bounds.upper <= point.f
    lowest = groups.extremes(np.where(at_upper, point.slope, -np.inf), np.maximum)
    highest = groups.extremes(np.where(at_upper, np.inf, point.slope), np.minimum)
    price: Array = np.clip(0.0, lowest, np.maximum(highest, lowest))
    return price


def _of_hierarchy(tree: Tree, point: _Point) -> Prices:
    """Return the prices of a hierarchy, whose nodes are the sums of their children."""
    from ldpopt.solve.certificate.prices.tree_prices import tree_multipliers

    parents = tree.parents
    is_held = point.freedom <= 0
    nodes = tree.nodes_from_above
    held = (is_held, nodes.labels, nodes.above)
    multipliers, sums = tree_multipliers(point.slope, point.f, *held)
    has_parent = parents >= 0
    of_parent = np.where(has_parent, multipliers[:, parents], 0.0)
    roots = np.flatnonzero(~has_parent)
    bounds = Box(*(end[:, roots] for end in point.bounds))
    left = point.slope[:, roots] - multipliers[:, roots]
    of_root, products = _price_of_total(_Point(point.f[:, roots], left, bounds, tree.root_total))
    price = multipliers - of_parent + np.where(has_parent, 0.0, of_root)
    error = 4 * EPS * (np.abs(multipliers) + np.abs(of_parent) + np.abs(of_root))
    children = np.bincount(parents[has_parent], minlength=len(parents))
    # A sum of so many children is rounded by their number times the largest partial sum.
    largest = np.max(np.abs(point.f), axis=-1, keepdims=True)
    missed = np.abs(point.f - sums) + (children + 2) ** 2 * EPS * largest
    return Prices(price, error, products + np.sum(np.abs(multipliers) * missed, axis=-1))


_PRICES: Mapping[type, Callable[[Any, _Point, Array | float], Iterable[Prices]]] = {
    Variation: _of_variation,
    Groups: lambda groups, point, _: [_of_groups(groups, point)],
    KnownMargins: lambda margins, point, _: [margin_prices(margins, point.f, point.slope)],
    FewRows: lambda rows, point, _: [row_prices(rows, point.f, point.slope, point.bounds)],
    Equations: lambda rows, point, _: [equation_prices(rows, point.f, point.slope, point.bounds)],
    Tree: lambda tree, point, _: [_of_hierarchy(tree, point)],
    TopSetOrder: lambda top, point, _: [_of_top_set(top, point)],
    PartialOrder: _of_other_order,
    ForestOrder: _of_forest_order,
}
"""What returns the prices of each structure, from (structure, point, enough)."""
