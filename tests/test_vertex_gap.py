"""The bound from the slopes at the vertices of orders and hierarchies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

from ldpopt import FrequencyEstimate, Problem, losses, oracles
from ldpopt.closed_form import rows
from ldpopt.closed_form.parts import absolute_sum
from ldpopt.constraints import (
    Bounds,
    GroupTotals,
    Hierarchy,
    Monotone,
    NonNegative,
    SumsTo,
    Unimodal,
)
from ldpopt.constraints.orders import ForestOrder
from ldpopt.solve.acceptance import judge as acceptance
from ldpopt.solve.acceptance.group_prices import rises
from ldpopt.solve.acceptance.vertex_gap import vertex_gap
from ldpopt.solve.certificate.prices.tree_prices import (
    lowest_around,
    lowest_means,
    lowest_sums,
    smallest_product,
)
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.status import Status

D = 12
SQUARES = losses.LeastSquares()
WEIGHTED = losses.WeightedLeastSquares(np.linspace(1.0, 3.0, D))
SIMPLEX = (NonNegative(), SumsTo(1.0))
# Two trees, whose labels are in no order.
ABOVE = np.array([3, 3, 7, -1, 3, 2, -1, 6, 7, 0, 0, 6])
CHILDREN = np.flatnonzero(ABOVE >= 0)
FALLING = np.stack([ABOVE[CHILDREN], CHILDREN], axis=1)
ORDERS = {
    "chain": Monotone(np.random.default_rng(2).permutation(D)),
    "chain in order": Monotone(np.arange(D)),
    "two chains": Monotone([(2, 5), (5, 1), (7, 3)]),
    "mode": Unimodal(mode=4),
    "roots highest": Monotone(FALLING),
    "roots lowest": Monotone(FALLING[:, ::-1]),
    # No forests: crossings, and crossings of crossings.
    "crossings": Monotone([(k + a, k + b) for k in (0, 4, 8) for a in (0, 1) for b in (2, 3)]),
    "layers": Monotone([(k + a, k + b) for k in (0, 3, 6) for a in range(3) for b in range(3, 6)]),
}
CAPS = np.random.default_rng(3).uniform(0.1, 0.6, D)
CAPS[ORDERS["chain"].order[0]] = np.inf
TREE = Hierarchy([-1, 0, 0, 1, 1, 1, 2, 2, 6, 6, 4, 4], total=1.0)
GROUPS = GroupTotals([[7, 0, 3, 9], [1, 2, 10], [11]], [0.4, 0.35, 0.02])
BY_GROUP = np.where(np.isin(np.arange(D), [5, 6]), np.inf, np.linspace(0.13, 0.4, D))
SETS = {
    **{name: (*SIMPLEX, order) for name, order in ORDERS.items()},
    "chain, one cap": (Bounds(0.0, 0.15), SumsTo(1.0), ORDERS["chain"]),
    "chain in order, caps": (Bounds(0.0, CAPS), SumsTo(1.0), ORDERS["chain in order"]),
    "chain, caps": (Bounds(0.0, CAPS), SumsTo(1.0), ORDERS["chain"]),
    "groups": (NonNegative(), GROUPS),
    "groups, a total": (*SIMPLEX, GROUPS),
    "groups, caps": (Bounds(0.0, BY_GROUP), GROUPS),
    "groups, caps, a total": (Bounds(0.0, BY_GROUP), SumsTo(1.0), GROUPS),
    "hierarchy": (TREE,),
    "hierarchy, nonnegative": (TREE, NonNegative()),
}


@pytest.fixture(autouse=True)
def _groups_of_short_vectors(monkeypatch):
    """Short vectors have programs, which give more; the sums are the same."""
    monkeypatch.setattr("ldpopt.solve.acceptance.vertex_gap.is_long", lambda d: True)


def reports(seed, trials=4):
    """Return estimates of so few users that many are negative."""
    rng = np.random.default_rng(seed)
    oracle = oracles.OUE(epsilon=1.0, d=D)
    users = rng.multinomial(20_000, rng.dirichlet(np.full(D, 0.4)))
    return oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), 20_000)


def lowest_products(slopes, where):
    """Return min g·s over the set for each vector of slopes, by linear programs."""
    parts = [constraint.rows(D) for constraint in where]
    limits = optimize.LinearConstraint(
        np.vstack([part.matrix.toarray() for part in parts]),
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
    )
    programs = [optimize.milp(g, constraints=limits, bounds=(-np.inf, np.inf)) for g in slopes]
    assert all(program.status == 0 for program in programs)
    return np.array([program.fun for program in programs])


@pytest.mark.parametrize("loss", [SQUARES, WEIGHTED], ids=["least squares", "weighted"])
@pytest.mark.parametrize("name", SETS)
def test_it_is_nothing_at_a_minimum_and_never_below_the_rise(name, loss):
    start = reports(1)
    problem = Problem(loss, SETS[name])
    best = problem.solve(start).frequencies
    at_best = vertex_gap(problem, start, best)
    terms = absolute_sum(loss.gradient(best, start), best)
    assert (at_best.gap <= 1e-13 * terms).all()
    # What gaps are relative to may be smaller, and never larger.
    assert (at_best.terms <= terms * (1 + 1e-12)).all()
    # Another point of the set: the answer of other reports.
    other = problem.solve(reports(2)).frequencies
    for share in (1e-9, 1e-6, 1e-3, 1.0):
        step = share * (other - best)
        # The loss itself would have no digits left: a parabola rises by its slope half-way.
        rise = np.sum(loss.gradient(best + step / 2, start) * step, axis=-1)
        bound = vertex_gap(problem, start, best + step).gap
        assert (rise > 0).all()
        assert (bound >= rise * (1 - 1e-6) - 1e-13 * terms).all()


BOUNDED = [name for name in SETS if name not in {"hierarchy", "groups", "groups, caps"}]


@pytest.mark.parametrize("name", BOUNDED)
def test_it_is_at_least_what_a_linear_program_says(name):
    """Where all vertices are seen, a linear function has its exact minimum over them."""
    start = reports(3, trials=10)
    problem = Problem(SQUARES, SETS[name])
    point = problem.solve(reports(4, trials=10)).frequencies
    slopes = SQUARES.gradient(point, start)
    exact = np.sum(slopes * point, axis=-1) - lowest_products(slopes, SETS[name])
    bound = vertex_gap(problem, start, point).gap
    if name.startswith("hierarchy") or name == "groups, a total":
        assert_allclose(bound, exact, rtol=1e-9)
    else:
        assert (bound >= exact * (1 - 1e-9)).all()
        # Up to d vertices at once, where one of them counts.
        assert (bound <= D * exact).all()


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("scale", [0.999, 1.001])
def test_a_point_off_its_totals_pays_for_it(name, scale):
    start = reports(9, trials=10)
    problem = Problem(SQUARES, SETS[name])
    point = scale * problem.solve(start).frequencies
    slopes = SQUARES.gradient(point, start)
    exact = np.sum(slopes * point, axis=-1) - lowest_products(slopes, SETS[name])
    assert (vertex_gap(problem, start, point).gap >= exact * (1 - 1e-9)).all()


def gap_at(f, slopes, where):
    """Return the bound at a point where the loss has these slopes."""
    start = FrequencyEstimate(np.subtract(f, slopes))
    return vertex_gap(Problem(SQUARES, where), start, np.array(f)).gap


@pytest.mark.parametrize("name", [name for name in SETS if name.startswith("groups")])
@pytest.mark.parametrize("off", [0.0, 1e-9, 0.1, -0.1, np.nan])
def test_the_missed_total_of_groups_is_what_the_groups_state(name, off):
    start = reports(1)
    problem = Problem(SQUARES, SETS[name])
    point = problem.solve(start).frequencies.copy()
    # In the second trial a group is off its total, and in the third what is in no group.
    point[1, 7] += off
    point[2, 5] += 0.1
    with np.errstate(invalid="ignore"):
        bound = vertex_gap(problem, start, point)
    if np.isnan(off):
        # Without a slope there is no bound.
        assert bound is None
        return
    assert GROUPS in {one.constraint for one in bound.measured}
    assert_measured(bound, point)


@pytest.mark.parametrize("name", [name for name in SETS if "cap" in name])
@pytest.mark.parametrize("off", [0.0, 0.5, -0.5])
def test_what_is_outside_bounds_or_an_order_is_measured_on_the_way(name, off):
    start = reports(1)
    problem = Problem(SQUARES, SETS[name])
    point = problem.solve(start).frequencies.copy()
    # One value in each trial, among them the first and the last of the chains.
    for trial, value in enumerate((0, D - 1, 6, int(ORDERS["chain"].order[0]))):
        point[trial, value] += off
    bound = vertex_gap(problem, start, point)
    (bounds,) = [one for one in SETS[name] if isinstance(one, Bounds)]
    assert bounds in {one.constraint for one in bound.measured}
    assert_measured(bound, point)
    assert (bounds.violation(point) > 0.01).any() == bool(off)


@pytest.mark.parametrize("name", [name for name in SETS if "groups" not in name])
@pytest.mark.parametrize("off", [0.0, 0.25, -0.25])
def test_a_sweep_for_slopes_measures_bounds_of_0_and_a_total(name, off, monkeypatch):
    monkeypatch.setattr(rows, "_LONG", 0)
    start = FrequencyEstimate(reports(1).frequencies[0])
    problem = Problem(SQUARES, SETS[name])
    point = problem.solve(start).frequencies.copy()
    point[5] += off
    bound = vertex_gap(problem, start, point)
    seen = {one.constraint for one in bound.measured}
    assert seen >= {one for one in SETS[name] if isinstance(one, (NonNegative, SumsTo))}
    assert_measured(bound, point)


def assert_measured(bound, point):
    """Compare what was measured on the way with what each constraint states."""
    for constraint, violation in bound.measured:
        assert violation.shape == point.shape[:-1]
        assert_allclose(violation, constraint.violation(point), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["chain in order, caps", "groups, caps"])
@pytest.mark.parametrize("place", [0, 5, D - 1])
def test_what_is_no_number_is_no_violation_of_0(name, place):
    where = SETS[name]
    (bounds,) = [one for one in where if isinstance(one, Bounds)]
    f = np.full((1, D), 1 / D)
    f[0, place] = np.nan
    slopes = np.ones((1, D))
    caps = np.broadcast_to(bounds.upper, (D,))
    if "chain" in name:
        _, *violations = smallest_product(slopes, f, caps, 1.0, np.zeros(1))
    else:
        groups = GROUPS.disjoint_groups(D)
        of_value = groups.of_value.view(np.uint64)
        _, _, *violations = rises(slopes, f, of_value, groups.totals, groups.number, caps)
    assert np.isnan(violations).all()


@pytest.mark.parametrize("place", [0, 255, 256, 599])
@pytest.mark.parametrize(("value", "outside"), [(-0.25, 0.25), (1.5, 0.5), (np.nan, np.nan)])
def test_values_of_groups_are_looked_at_in_every_block(place, value, outside):
    d = 600
    f = np.full((1, d), 1e-3)
    f[0, place] = value
    one_group = np.zeros(d, np.uint64)
    _, missed, beyond = rises(np.ones((1, d)), f, one_group, np.ones(1), 1, np.ones(d))
    assert_allclose(beyond, outside, rtol=1e-12)
    assert_allclose(missed, abs(f.sum() - 1.0), rtol=1e-12)


@pytest.mark.parametrize("place", [3, 256, 597])
def test_values_between_their_bounds_tell_the_level_of_groups_in_every_block(place):
    """At any other level the two free values could gain."""
    d = 600
    f = np.zeros((1, d))
    slopes = np.ones((1, d))
    f[0, [place, place + 2]] = 0.25
    slopes[0, [place, place + 2]] = 0.5
    rise, *_ = rises(slopes, f, np.zeros(d, np.uint64), np.array([0.5]), 1, np.ones(d))
    assert rise == 0


class Stricter(GroupTotals):
    """Groups of somebody else, who counts violations in another way."""

    def violation(self, f):
        return super().violation(f) + 1.0

    rows = GroupTotals.rows


def test_a_class_of_somebody_else_measures_what_it_misses_itself():
    start = reports(1)
    groups = Stricter([[7, 0, 3, 9], [1, 2, 10], [11]], [0.4, 0.35, 0.02])
    point = Problem(SQUARES, SETS["groups"]).solve(start).frequencies
    bound = vertex_gap(Problem(SQUARES, [NonNegative(), groups]), start, point)
    assert bound is None or not bound.measured


@pytest.mark.parametrize("name", ["chain", "mode", "groups", "groups, caps", *BOUNDED[-2:]])
@pytest.mark.filterwarnings("ignore:overflow")
def test_infinite_slopes_prove_nothing(name):
    loss = losses.WeightedLeastSquares(np.where(np.arange(D) == 3, 1e308, 1.0))
    point = np.full(D, 1 / D)
    point[3] = 100.0
    start = FrequencyEstimate(np.full(D, 1 / D))
    assert np.isposinf(loss.gradient(point, start)).sum() == 1
    assert vertex_gap(Problem(loss, SETS[name]), start, point) is None


def test_by_hand():
    falling = [NonNegative(), SumsTo(1.0), Monotone([0, 1, 2])]
    # g·f = .1 - .03 + .02 = .09. The means of the first slopes are .2, .05 and .2/3.
    assert_allclose(gap_at([0.5, 0.3, 0.2], [0.2, -0.1, 0.1], falling), 0.04)
    # All are equal at the level .075. 2 lacks .175 of it, which 0 has to spare, and 3 lacks .125,
    # which 1 has.
    crossed = [NonNegative(), SumsTo(1.0), Monotone([(0, 2), (1, 2), (1, 3)])]
    assert_allclose(gap_at([0.25] * 4, [0.25, 0.2, -0.1, -0.05], crossed), 0.0, atol=1e-16)
    # 0 is higher than 2, which gets the .07 that 1 has above the level .03. 3 gets nothing: all of
    # the total would go there.
    gap = gap_at([0.4, 0.2, 0.2, 0.2], [0.1, 0.1, -0.1, -0.05], crossed)
    assert_allclose(gap, 0.03 - -0.05)
    # The caps along the chain are .6, .3, .3. The first and the last value are off them, and .15 is
    # their mean slope. What the slopes are above it adds up to .05, -.2, -.25: the bound is
    # .15 + .3 * min(0, .05) + 0 * -.2 + .3 * -.25 = .075, where the least product is .08. At the
    # level .05 no sum is negative, and the bound that level, which is less.
    capped = [Bounds(0.0, [0.6, 0.3, 0.4]), SumsTo(1.0), Monotone([0, 1, 2])]
    assert_allclose(gap_at([0.5, 0.3, 0.2], [0.2, -0.1, 0.1], capped), 0.015)
    # The first two values can gain .4 * .3 by the second's lower slope, and the last, in no group,
    # .1 * .2 by going to 0.
    groups = [NonNegative(), GroupTotals([[0, 1]], [0.9])]
    assert_allclose(gap_at([0.4, 0.5, 0.1], [0.1, -0.2, 0.2], groups), 0.14)
    # To its cap .25 the last would gain .15 * .2. Of the others the level is their mean by the
    # distances .1 and .05, which is 0: the first gains .4 * .1 and the second .05 * .2.
    capped = [Bounds(0.0, [0.5, 0.55, 0.25]), GroupTotals([[0, 1]], [0.9])]
    assert_allclose(gap_at([0.4, 0.5, 0.1], [0.1, -0.2, -0.2], capped), 0.08)
    # Without its cap nothing bounds it.
    assert gap_at([0.4, 0.5, 0.1], [0.1, -0.2, -0.2], groups) == np.inf
    # Root 0 has the leaves 1 and 2, whose slopes with the root's are .3 and .1; the root is their
    # sum. g·f = .2 + .06 - .04 = .22, and all of the total goes to leaf 2.
    tree = [NonNegative(), Hierarchy([-1, 0, 0], total=1.0)]
    assert_allclose(gap_at([1.0, 0.6, 0.4], [0.2, 0.1, -0.1], tree), 0.12)
    # Without signs the leaves go half of their distance .2 apart: .1² + .1² over 2.
    assert_allclose(gap_at([1.0, 0.6, 0.4], [0.2, 0.1, -0.1], tree[1:]), 0.01)


@pytest.mark.parametrize(
    ("loss", "where"),
    [
        pytest.param(losses.LeastAbsolute(), SETS["chain"], id="kinks"),
        pytest.param(SQUARES, (ORDERS["chain"], SumsTo(1.0)), id="without signs"),
        pytest.param(SQUARES, (ORDERS["chain"], NonNegative()), id="without a total"),
        pytest.param(SQUARES, (ORDERS["mode"], Bounds(0.0, 0.5), SumsTo(1.0)), id="caps, no chain"),
        pytest.param(
            SQUARES, (ORDERS["chain"], Bounds(0.01, 0.9), SumsTo(1.0)), id="other low bounds"
        ),
        pytest.param(SQUARES, (TREE, Bounds(0.0, 0.5)), id="hierarchy with caps"),
        pytest.param(SQUARES, (*SIMPLEX, Monotone([(0, 1)]), Monotone([(1, 0)])), id="equal"),
        pytest.param(
            SQUARES, (Bounds(0.0, 0.5), SumsTo(1.0), ORDERS["layers"]), id="caps, no forest"
        ),
        pytest.param(SQUARES, (Hierarchy(TREE.parents),), id="hierarchy without a total"),
        pytest.param(SQUARES, SIMPLEX, id="no structure"),
    ],
)
def test_other_sets_are_left_to_the_certificate(loss, where):
    start = reports(5)
    point = np.full(start.frequencies.shape, 1 / D)
    assert vertex_gap(Problem(loss, where), start, point) is None


@pytest.mark.parametrize("name", SETS)
def test_a_closed_form_is_accepted_by_it_alone(name, monkeypatch):
    def at_hand(*_):
        raise AssertionError("multipliers were looked for")

    monkeypatch.setattr(acceptance, "_at_hand", at_hand)
    solution = Problem(SQUARES, SETS[name]).solve(reports(6), path="closed-form")
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("name", SETS)
def test_a_point_beside_the_minimum_is_not_accepted(name):
    """Half a thousandth of the way to the answer of other reports."""
    problem = Problem(SQUARES, SETS[name])
    start = reports(7)
    best = problem.solve(start, path="closed-form").frequencies
    moved = best + 5e-4 * (problem.solve(reports(8)).frequencies - best)
    plan = Plan("closed-form", "moved", problem, "")
    outcome = Outcome(moved, Status.OPTIMAL)
    judgement = acceptance.judge(problem, start, outcome, plan, "high")
    assert judgement.status is Status.INACCURATE


def test_a_heavy_root_hides_nothing():
    """Its slope is that of all leaves, and 10¹³ times what these differ by."""
    weights = np.array([2.0**43, 1.0, 1.5, 1.0, 2.0])
    start = FrequencyEstimate([1.25, 0.2, 0.3, 0.1, 0.2])
    problem = Problem(losses.WeightedLeastSquares(weights), [Hierarchy([-1, 0, 0, 0, 0], total=1)])
    best = problem.minimise(start)
    for size in (1e-3, 1.0, 1e3):
        # So many bits that the leaves sum to 1 exactly.
        leaves = np.round((best[1:] + size * np.array([1.0, -1.0, 0.5, -0.5])) * 2**30) / 2**30
        leaves[-1] = 1 - leaves[:-1].sum()
        f = np.append(1.0, leaves)
        middle = (f + best) / 2 - start.frequencies
        excess = np.sum((weights * (f - best) * middle)[1:])
        assert excess > 0
        gap, terms, _ = vertex_gap(problem, start, f)
        assert gap >= excess * (1 - 1e-6) - 1e-15 * terms


@pytest.mark.parametrize("at", [0, 3, 1023, 1024, 1300, 2047, 2048, 2999])
def test_the_least_mean_of_a_beginning_is_bounded_in_every_block(at):
    slope = np.full(3_000, 1.0)
    slope[at] = -1.0 - 2.0 * at
    means = (np.cumsum(slope - 1.0)) / np.arange(1, 3_001)
    (bound,) = lowest_means(slope[None], np.ones(1))
    assert means.min() < 0
    assert 2 * means.min() <= bound <= means.min()
    # Beginnings whose sums are 0 have nothing to gain.
    assert lowest_means(np.full((1, 3_000), 2.0), np.full(1, 2.0)) == 0


@pytest.mark.parametrize("length", [1, 3, 1024, 1025, 2047, 3_001])
def test_the_least_mean_of_a_beginning_is_bounded_among_any_slopes(length):
    generator = np.random.default_rng(length)
    slopes = generator.normal(0, 1, (400, length))
    levels = generator.normal(0, 1, 400)
    # A way down that ends anywhere, and a steeper one up: the lowest sum is in any part of a block.
    begin = np.sort(generator.integers(0, length + 1, (400, 2)), axis=-1)
    place = np.arange(length)
    slopes -= 3.0 * ((begin[:, :1] <= place) & (place < begin[:, 1:]))
    slopes += 9.0 * (place >= begin[:, 1:])
    sums = np.cumsum(slopes - levels[:, None], axis=-1)
    lowest = np.minimum((sums / (place + 1)).min(axis=-1), 0.0)
    bound = lowest_means(slopes, levels)
    assert (bound <= lowest + 1e-12).all()
    assert (bound >= 2 * lowest - 1e-12).all()


@pytest.mark.parametrize("nearest", [1, 40, 3_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_lowest_sum_of_a_forest_is_that_of_its_branches(nearest, sign):
    """Values hang from the one before, from near ones in the same block, or from any."""
    d = 3_000
    generator = np.random.default_rng(nearest)
    values = np.arange(d)
    parents = values - generator.integers(1, np.maximum(np.minimum(values, nearest), 1) + 1)
    parents[generator.random(d) < 0.01] = -1
    parents[0] = -1
    order = ForestOrder(parents, sign)
    slopes = generator.normal(0.2, 1, (3, d))
    levels = generator.normal(0, 0.1, 3)
    exact = []
    for slope, level in zip(slopes, levels, strict=True):
        # Of the branches below each value: the lowest sum, and the sum of all.
        best = np.zeros(d + 1)
        whole = np.append(slope - level, 0.0)
        for v in range(d - 1, -1, -1):
            lowest = min(whole[v] + best[v], 0.0) if sign > 0 else min(whole[v], best[v])
            best[parents[v]] += lowest
            if parents[v] >= 0:
                whole[parents[v]] += 0.0 if sign > 0 else whole[v]
        exact.append(best[-1])
    assert min(exact) < -1
    lowest = lowest_sums(slopes.copy(), levels, order.values_from_above, sign)
    assert_allclose(lowest, exact, rtol=1e-11)


@pytest.mark.parametrize("mode", [0, 1, 1023, 1500, 1976, 2999])
def test_the_lowest_sum_around_a_mode_is_that_of_both_sides(mode):
    generator = np.random.default_rng(mode)
    slopes = generator.normal(-0.1, 1, (50, 3_000))
    levels = generator.normal(0, 0.1, 50)
    sides = [slopes[:, :mode][:, ::-1], slopes[:, mode + 1 :]]
    sums = [np.cumsum(side - levels[:, None], axis=-1).min(axis=-1, initial=0.0) for side in sides]
    exact = np.minimum(slopes[:, mode] - levels + sums[0] + sums[1], 0.0)
    assert (exact < 0).any()
    assert_allclose(lowest_around(slopes, levels, mode), exact, atol=1e-11)
    # The first half of the trials has a value whose slope is too steep for any sum.
    slopes[:25, mode // 2] = np.inf
    assert (lowest_around(slopes, levels, mode)[:25] == (-np.inf if mode else 0.0)).all()


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [5, 1500, 2999])
def test_slopes_that_are_no_numbers_bound_nothing(odd, at):
    slope = np.full((2, 3_000), 2.0)
    slope[1, at] = odd
    assert_allclose(lowest_means(slope, np.ones(2)), [0.0, -np.inf])


def test_all_blocks_of_a_chain_are_looked_at_where_a_few_are_not_enough():
    """The first block has another mean slope than the rest: a bound at its level is too low."""
    d = 4_000
    f = np.repeat([4.0, 3.0, 2.0, 1.0], d // 4)[None]
    slope = np.where(np.arange(d) < d // 4, 0.5, 0.25)[None]
    arguments = (slope, f, np.full(d, 5.0), f.sum())
    of_a_few = smallest_product(*arguments, np.array([-np.inf])).bound
    of_all = smallest_product(*arguments, np.array([np.inf])).bound
    # Never above the true minimum: all as far down the chain as it may be, all values equal.
    assert of_a_few < of_all <= np.mean(slope) * f.sum() * (1 + 1e-12)
    lowest = optimize.linprog(
        slope[0],
        A_ub=-Monotone(np.arange(d)).rows(d).matrix,
        b_ub=np.zeros(d - 1),
        A_eq=np.ones((1, d)),
        b_eq=[f.sum()],
        bounds=(0, 5),
    )
    assert of_all <= lowest.fun * (1 + 1e-9)
