"""The bound under an order from what values lack, passed on towards the roots."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, losses, oracles
from ldpopt.closed_form import rows
from ldpopt.constraints import Bounds, Monotone, NonNegative, SumsTo, TopSet, Unimodal
from ldpopt.solve.acceptance import judge as acceptance
from ldpopt.solve.acceptance.order_gap import order_gap
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.status import Status

D = 12
SQUARES = losses.LeastSquares()
LOSSES = {
    "least squares": SQUARES,
    "weighted": losses.WeightedLeastSquares(np.linspace(1.0, 3.0, D)),
}
# Two trees, whose labels are in no order.
ABOVE = np.array([3, 3, 7, -1, 3, 2, -1, 6, 7, 0, 0, 6])
CHILDREN = np.flatnonzero(ABOVE >= 0)
FALLING = np.stack([ABOVE[CHILDREN], CHILDREN], axis=1)
ORDERS = {
    "chain in order": Monotone(np.arange(D)),
    "chain": Monotone(np.random.default_rng(2).permutation(D)),
    "pairs": Monotone([(2, 5), (5, 1), (7, 3)]),
    "mode": Unimodal(mode=4),
    "mode at the end": Unimodal(mode=D - 1),
    "roots highest": Monotone(FALLING),
    "roots lowest": Monotone(FALLING[:, ::-1]),
}
BOXES = {
    "no bounds": [],
    "nonnegative": [NonNegative()],
    "bounds": [Bounds(-0.02, 0.15)],
    "a cap": [Bounds(upper=0.1)],
    "some bounds": [Bounds(np.where(np.arange(D) % 3 == 0, 0.0, -np.inf), np.inf)],
    "a total": [SumsTo(1.0)],
    "bounds and a total": [Bounds(-0.02, 0.2), SumsTo(1.0)],
    "a simplex": [NonNegative(), SumsTo(1.0)],
}


def reports(seed, trials=4):
    """Return estimates of so few users that many are negative."""
    rng = np.random.default_rng(seed)
    oracle = oracles.OUE(epsilon=1.0, d=D)
    users = rng.multinomial(20_000, rng.dirichlet(np.full(D, 0.4)))
    return oracle.estimate(oracle.simulate_counts(users, rng, trials=trials), 20_000)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("order", ORDERS)
def test_it_is_nothing_at_a_minimum_and_never_below_the_rise(order, box, loss):
    start = reports(1)
    problem = Problem(LOSSES[loss], [*BOXES[box], ORDERS[order]])
    best = problem.solve(start).frequencies
    at_best = order_gap(problem, start, best)
    slope = problem.loss.gradient(best, start)
    assert_allclose(at_best.terms, np.abs(slope * best).sum(axis=-1), rtol=1e-12)
    # A bound of one value may hold any of its block: then what the block lacks is not at its root.
    if box != "some bounds":
        assert (at_best.gap <= 1e-13 * at_best.terms).all()
    # Another point of the set: the answer of other reports.
    other = problem.solve(reports(2)).frequencies
    for share in (1e-9, 1e-6, 1e-3, 1.0):
        step = share * (other - best)
        # The loss itself would have no digits left: a parabola rises by its slope half-way.
        rise = np.sum(problem.loss.gradient(best + step / 2, start) * step, axis=-1)
        bound = order_gap(problem, start, best + step).gap
        assert (rise > 0).all()
        assert (bound >= rise * (1 - 1e-6) - 1e-13 * at_best.terms).all()


def bound_by_hand(g, f, above, lower, upper, modulus):
    """Return the bound of one vector, value by value; each comes after the one above it."""
    lacks = -np.array(g)
    gap = 0.0
    for v in reversed(range(len(f))):
        passed = 0.0
        if above[v] >= 0:
            passed = max(lacks[v], 0.0)
            lacks[above[v]] += passed
            gap += passed * (f[above[v]] - f[v])
        left = passed - lacks[v]
        step = np.clip(left / modulus, f[v] - upper, f[v] - lower)
        gap += left * step - modulus / 2 * step**2
    return gap


def turned(pairs):
    return [(low, high) for high, low in pairs]


@pytest.mark.parametrize("lower", [-np.inf, 0.05, 0.0])
@pytest.mark.parametrize("upper", [np.inf, 0.45])
@pytest.mark.parametrize(
    ("above", "sign"),
    [
        ([-1, 0, 1, 2, 3], 1),
        ([-1, -1, 0, 1, 2], 1),
        ([-1, 0, 0, 1, 1], 1),
        ([-1, 0, 0, 1, 2], 1),
        # Turned over, chains would have the highest value at their roots as well.
        ([-1, 0, 0, 1, 1], -1),
        ([-1, 0, 0, 0, 2], -1),
    ],
)
def test_it_is_that_of_a_loop_over_values_at_any_point(above, sign, upper, lower):
    rng = np.random.default_rng(5)
    pairs = [(a, v) for v, a in enumerate(above) if a >= 0]
    f = rng.uniform(lower if lower > -np.inf else -0.1, min(upper, 0.5), (3, 5))
    slopes = rng.normal(size=(3, 5))
    order = Monotone(pairs if sign > 0 else turned(pairs))
    box = Bounds(lower, upper) if np.isfinite([lower, upper]).any() else None
    where = [one for one in (box, order) if one is not None]
    start = FrequencyEstimate(f - slopes / 2)
    modulus = float(SQUARES.curvature(start).max())
    slopes = SQUARES.gradient(f, start)
    ends = (lower, upper) if sign > 0 else (-upper, -lower)
    by_hand = [
        bound_by_hand(sign * g, sign * row, above, *ends, modulus)
        for g, row in zip(slopes, f, strict=True)
    ]
    result = order_gap(Problem(SQUARES, where), start, f)
    assert_allclose(result.gap, np.maximum(by_hand, 0.0), rtol=1e-12)


@pytest.mark.parametrize("box", [name for name in BOXES if "total" in name])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scale", [0.99, 1.01])
def test_a_point_off_its_total_pays_for_it(order, box, scale):
    """The point of another total would be better: its sum has a price."""
    start = reports(1)
    problem = Problem(SQUARES, [*BOXES[box], ORDERS[order]])
    point = scale * problem.solve(start).frequencies
    best = problem.solve(start).frequencies
    rise = SQUARES.value(point, start) - SQUARES.value(best, start)
    assert (order_gap(problem, start, point).gap >= rise * (1 - 1e-9)).all()


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_counts_as_measured_where_none_of_its_rows_is_violated(order):
    start = reports(1)
    problem = Problem(SQUARES, [ORDERS[order]])
    best = problem.solve(start).frequencies
    ((constraint, violation),) = order_gap(problem, start, best).measured
    assert constraint is ORDERS[order]
    assert not violation.any()
    rising = best.copy()
    rising[1] = np.roll(rising[1], 3)
    assert order_gap(problem, start, rising).measured == ()
    assert ORDERS[order].violation(rising)[1] > 0


def test_two_orders_hold_where_the_rows_of_both_together_do():
    start = reports(1)
    orders = [Monotone([(0, 1)]), Monotone([(1, 2), (2, 3)])]
    problem = Problem(SQUARES, orders)
    best = problem.solve(start).frequencies
    assert [one.constraint for one in order_gap(problem, start, best).measured] == orders


class Own(Monotone):
    """An order that measures its violation in a way of its own."""

    pairs = Monotone.pairs
    isotonic = Monotone.isotonic

    def violation(self, f):
        return 1.0 + super().violation(f)


def test_the_violation_of_a_users_order_is_its_own():
    start = reports(1)
    best = Problem(SQUARES, [ORDERS["chain in order"]]).solve(start).frequencies
    for order, status in ((Monotone, Status.OPTIMAL), (Own, Status.INACCURATE)):
        problem = Problem(SQUARES, [order(np.arange(D))])
        plan = Plan("closed-form", "pava", problem, "")
        outcome = Outcome(best, Status.OPTIMAL)
        judgement = acceptance.judge(problem, start, outcome, plan, "high")
        assert judgement.status is status, judgement
    assert judgement.reason.endswith("is violated by 1")


@pytest.mark.parametrize(
    ("loss", "where"),
    [
        (SQUARES, [NonNegative()]),
        (SQUARES, [TopSet([1, 3])]),
        (SQUARES, [Monotone([(0, 1)]), Monotone([(1, 0)])]),
        (SQUARES, [Monotone([(0, 2), (1, 2), (0, 3), (1, 3)])]),
        (losses.TotalVariation(), [ORDERS["mode"]]),
        (losses.HardThreshold(0.01), [ORDERS["mode"]]),
    ],
    ids=["no order", "a top set", "equal values", "crossings", "kinks", "not convex"],
)
def test_there_is_none_for_other_sets_and_losses(loss, where):
    start = reports(1)
    point = np.full(start.frequencies.shape, 1 / D)
    assert order_gap(Problem(loss, where), start, point) is None


@pytest.mark.filterwarnings("ignore:overflow")
def test_there_is_none_where_a_slope_is_infinite():
    loss = losses.WeightedLeastSquares(np.where(np.arange(D) == 3, 1e308, 1.0))
    point = np.full(D, 1 / D)
    point[3] = 100.0
    start = FrequencyEstimate(np.full(D, 1 / D))
    assert np.isposinf(loss.gradient(point, start)).sum() == 1
    assert order_gap(Problem(loss, [ORDERS["mode"]]), start, point) is None


def test_without_a_modulus_and_a_bound_there_is_no_bound():
    """A likelihood is no parabola: what a row leaves over may go as far as it likes."""
    counts = np.random.default_rng(1).multinomial(20_000, np.full(D, 1 / D), size=4)
    start = oracles.GRR(epsilon=1.0, d=D).estimate(counts, 20_000)
    likelihood = losses.MultinomialMLE()
    assert not likelihood.curvature(start).any()
    inside = [Bounds(0.0, 1.0), SumsTo(1.0), ORDERS["mode"]]
    best = Problem(likelihood, inside).solve(start).frequencies
    at_best = order_gap(Problem(likelihood, inside), start, best)
    assert (at_best.gap <= 1e-12 * at_best.terms).all()
    elsewhere = order_gap(Problem(likelihood, inside), start, best + np.eye(D)[0] / 4)
    assert (elsewhere.gap > 0.01 * elsewhere.terms).all()
    # No upper bound holds what the root leaves over.
    outside = order_gap(Problem(likelihood, [ORDERS["mode"], NonNegative()]), start, 2 * best)
    assert np.isposinf(outside.gap).all()


@pytest.mark.parametrize("box", ["no bounds", "nonnegative", "bounds and a total"])
@pytest.mark.parametrize("order", ["chain", "mode", "roots lowest"])
@pytest.mark.parametrize("weight", [2.0**-800, 2.0**-700, 2.0**-340, 2.0**340, 2.0**700])
def test_it_has_the_unit_of_the_loss(order, box, weight):
    start = reports(1)
    where = [*BOXES[box], ORDERS[order]]
    point = Problem(SQUARES, where).solve(reports(2)).frequencies
    once = order_gap(Problem(SQUARES, where), start, point)
    assert (once.gap > 0).all()
    bound = order_gap(Problem(weight * SQUARES, where), start, point)
    assert_allclose(bound.gap / weight, once.gap, rtol=1e-12)
    assert_allclose(bound.terms / weight, once.terms, rtol=1e-12)


@pytest.mark.parametrize("unit", [2.0**-400, 2.0**-340, 2.0**340, 2.0**400])
def test_it_has_the_unit_of_the_frequencies(unit):
    """The curvature of a loss of order 1 is that of its unit, squared."""
    start = reports(1)
    point = Problem(SQUARES, [ORDERS["mode"]]).solve(reports(2)).frequencies
    once = order_gap(Problem(SQUARES, [ORDERS["mode"]]), start, point)
    loss = losses.WeightedLeastSquares(np.full(D, unit**-2))
    there = FrequencyEstimate(start.frequencies * unit)
    bound = order_gap(Problem(loss, [ORDERS["mode"]]), there, point * unit)
    assert_allclose(bound.gap, once.gap, rtol=1e-12)


def test_a_curvature_whose_inverse_is_no_double_is_none():
    start = FrequencyEstimate(np.array([0.5, 0.3, 0.1]) * 2.0**520)
    point = np.array([0.9, 0.3, 0.1]) * 2.0**520
    loss = 2.0**-530 * losses.WeightedLeastSquares(np.full(3, 2.0**-500))
    assert 0 < loss.curvature(start).min() < np.finfo(np.float64).tiny
    # Nothing else bounds the rise.
    assert np.isposinf(order_gap(Problem(loss, [Unimodal(0)]), start, point).gap)
    # A bound does: the second value would fall by .15 of the unit, and could by .45 of it.
    beside = np.array([0.5, 0.45, 0.1]) * 2.0**520
    bound = order_gap(Problem(loss, [NonNegative(), Unimodal(0)]), start, beside)
    rise = np.sum(loss.gradient(beside, start) * (beside - start.frequencies)) / 2
    assert bound.gap >= rise > 1


@pytest.mark.parametrize("box", ["no bounds", "nonnegative", "bounds", "a total"])
@pytest.mark.parametrize("order", ["chain in order", "mode", "roots lowest"])
def test_a_long_closed_form_needs_no_prices_beside_it(order, box, monkeypatch):
    monkeypatch.setattr(rows, "_LONG", 0)

    def prices(*_):
        raise AssertionError("the certificate's prices")

    monkeypatch.setattr(acceptance, "pooled_gap", prices)
    start = FrequencyEstimate(reports(1).frequencies[0])
    problem = Problem(SQUARES, [*BOXES[box], ORDERS[order]])
    solution = problem.solve(start, path="closed-form")
    assert solution.status is Status.OPTIMAL
