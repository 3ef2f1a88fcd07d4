"""Gaps with a price on variation: never too small, and small at the minima of closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, losses, oracles
from ldpopt.constraints import Bounds, Monotone, NonNegative, SumsTo
from ldpopt.losses import LeastSquares, TotalVariation
from ldpopt.solve.acceptance.variation_gap import _FEW, _bound, _only_price, variation_gap
from ldpopt.solve.certificate.bounds.variation_kernel import add_pulls
from ldpopt.solve.certificate.box import box
from ldpopt.solve.status import Status

D = 24
RAW = np.repeat([0.0, 0.1, 0.02, 0.0, 0.08, 0.05], 4) + np.random.default_rng(3).normal(
    0, 0.03, (5, D)
)
SHUFFLED = np.random.default_rng(4).permutation(D)
FLOOR = Bounds(0.01, np.inf)
SETS = {
    "nothing": [],
    "nonnegative": [NonNegative()],
    "total": [SumsTo(1.0)],
    "simplex": [NonNegative(), SumsTo(1.0)],
    "floor": [FLOOR, SumsTo(1.0)],
    "capped": [Bounds(0.0, 0.07), SumsTo(1.0)],
    "box": [Bounds(0.0, 0.07)],
}
ORDERS = {"as they stand": None, "shuffled": SHUFFLED, "some values": SHUFFLED[:15]}


def loss_of(order, price=0.02):
    return 2 * LeastSquares() + price * TotalVariation(ORDERS[order])


@pytest.mark.parametrize("price", [1e-3, 0.02, 1.0])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SETS)
def test_minima_are_proved_by_it_alone(name, order, price, monkeypatch):
    def bound(*_):
        raise AssertionError("other slopes were looked for")

    monkeypatch.setattr(box, "bound", bound)
    problem = Problem(loss_of(order, price), SETS[name])
    solution = problem.solve(RAW)
    assert solution.path == "closed-form"
    assert solution.status is Status.OPTIMAL
    point = solution.frequencies
    gap, terms, _ = variation_gap(problem, solution.start, point)
    assert gap.shape == terms.shape == (5,)
    sizes = np.sum(np.abs(2 * (point - RAW) * point), axis=-1)
    assert (terms <= (1 + 1e-12) * sizes).all()
    assert (gap <= 1e-13 * sizes).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SETS)
def test_no_gap_is_smaller_than_the_true_one(name, order):
    """Between the minimum and points of the set with as many jumps, with fewer, and with none."""
    loss = loss_of(order)
    problem = Problem(loss, SETS[name])
    start = FrequencyEstimate(RAW)
    best = problem.solve(start)
    others = [
        problem.minimise(np.roll(RAW, 1, axis=0)),
        Problem(loss_of(order, 0.5), SETS[name]).minimise(RAW),
        np.full(RAW.shape, 1 / D),
    ]
    for share in (1e-4, 0.1, 1.0):
        for other in others:
            f = (1 - share) * best.frequencies + share * other
            excess = loss.value(f, start) - best.objective
            gap = variation_gap(problem, start, f).gap
            assert (excess > 0).all()
            assert (gap >= excess * (1 - 1e-9) - 1e-15).all()


@pytest.mark.parametrize("name", ["total", "simplex", "floor", "capped"])
@pytest.mark.parametrize("scale", [0.999, 1.001])
def test_a_point_off_its_total_pays_for_it(name, scale):
    problem = Problem(loss_of("shuffled"), SETS[name])
    # Far above the total, and far below it, so that it has a price.
    for start in (FrequencyEstimate(RAW + 1), FrequencyEstimate(RAW - 1)):
        best = problem.solve(start)
        f = scale * best.frequencies
        excess = problem.loss.value(f, start) - best.objective
        assert (variation_gap(problem, start, f).gap >= excess * (1 - 1e-9)).all()


def gap_at(f, slopes, where, price):
    """Return the bound at a point where the squares have these slopes."""
    problem = Problem(LeastSquares() + price * TotalVariation(), where)
    start = FrequencyEstimate(np.subtract(f, slopes))
    return variation_gap(problem, start, np.array(f)).gap


SIMPLEX = SETS["simplex"]


@pytest.mark.parametrize(
    ("f", "slopes", "where", "price", "expected"),
    [
        # The jump down has y = -.1: slopes .1 + .1 and .4 - .1, and f is at the first alone.
        pytest.param([1.0, 0.0], [0.1, 0.4], SIMPLEX, 0.1, 0.0, id="one jump"),
        # Slopes .1 + .1 and .1 - .1: all of the total would go to the second.
        pytest.param([1.0, 0.0], [0.1, 0.1], SIMPLEX, 0.1, 0.2, id="a jump too far"),
        # The mean slope is .25. The first value passes on -.1 at most, and keeps .15 - .25 + .1.
        pytest.param([0.5, 0.5], [0.1, 0.4], SIMPLEX, 0.15, 0.0, id="a run"),
        # Slopes .1 + .1 and .4 - .1: half of the total would move by .1.
        pytest.param([0.5, 0.5], [0.1, 0.4], SIMPLEX, 0.1, 0.05, id="a run that should jump"),
        # Zeros between jumps up and down: y is -.1, then at most .1 - the level is .2 + .1.
        pytest.param(
            [0.5, 0.0, 0.0, 0.5], [0.2, 0.3, 0.5, 0.2], SIMPLEX, 0.1, 0.0, id="zeros between"
        ),
        # The two zeros have .7 together, where twice the level .3 and twice the price are needed.
        pytest.param(
            [0.5, 0.0, 0.0, 0.5], [0.2, 0.3, 0.4, 0.2], SIMPLEX, 0.1, 0.1, id="zeros too cheap"
        ),
        # Both slopes are 0 with y = .1: without a total that is the level.
        pytest.param([0.5, 0.5], [0.1, -0.1], [], 0.1, 0.0, id="no total"),
        # With y = .05 each slope is .05 off: half the sum of the squares.
        pytest.param([0.5, 0.5], [0.1, -0.1], [], 0.05, 0.0025, id="no total, a low price"),
    ],
)
def test_the_bound_is_that_by_hand(f, slopes, where, price, expected):
    assert_allclose(gap_at(f, slopes, where, price), expected, atol=1e-15)


@pytest.mark.parametrize(
    ("loss", "where"),
    [
        (LeastSquares(), SIMPLEX),
        (losses.L1To(np.full(D, 1 / D)), SIMPLEX),
        (loss_of("shuffled") + 0.1 * losses.L1To(np.full(D, 1 / D)), SIMPLEX),
        (loss_of("shuffled") + 0.1 * TotalVariation(), SIMPLEX),
        (TotalVariation(), SIMPLEX),
        (losses.HardThreshold(0.1) + 0.1 * TotalVariation(), SIMPLEX),
        (loss_of("shuffled"), [*SIMPLEX, Monotone(np.arange(D))]),
        (loss_of("shuffled"), [Bounds(0.0, np.append(np.full(D - 1, np.inf), 1.0)), SumsTo(1.0)]),
    ],
)
def test_other_losses_and_sets_are_left_to_others(loss, where):
    inside = np.full(D, 1 / D)
    assert variation_gap(Problem(loss, where), FrequencyEstimate(RAW[0]), inside) is None


def test_an_infinite_slope_proves_nothing():
    start = FrequencyEstimate(np.full(4, 0.25))
    problem = Problem(losses.KullbackLeibler() + 0.1 * TotalVariation(), SIMPLEX)
    assert variation_gap(problem, start, np.array([0.5, 0.5, 0.0, 0.0])) is None


def test_nothing_is_proved_at_the_end_of_a_domain():
    start = oracles.OUE(epsilon=1.0, d=3).estimate(np.array([40, 30, 20]), 60)
    likelihood = losses.BinomialMLE()
    first, _ = likelihood.domain(likelihood.constants(start))
    problem = Problem(likelihood + 0.1 * TotalVariation(), [SumsTo(1.0)])
    for distance, is_proved in ((1e-10, False), (1e-3, True)):
        lowest = first + distance
        f = np.array([lowest, 0.4, 0.6 - lowest])
        assert (variation_gap(problem, start, f) is not None) == is_proved


def test_a_term_that_counts_nothing_is_no_price():
    loss = LeastSquares() + 0.02 * TotalVariation() + 0.0 * TotalVariation(SHUFFLED)
    problem = Problem(loss, SIMPLEX)
    solution = problem.solve(RAW)
    gap, terms, _ = variation_gap(problem, solution.start, solution.frequencies)
    assert (gap <= 1e-13 * terms).all()


@pytest.mark.parametrize("price", [0.0, 1e-12, 1e-9, 1e-3])
@pytest.mark.parametrize(
    ("raw", "total", "expected"),
    [([-0.76, -1.86], 1.0, [1.0, 0.0]), ([4.0, 4.31, 1.78], 2.0, [1.0, 1.0, 0.0])],
)
def test_where_all_values_are_at_bounds_the_level_is_between_their_slopes(
    raw, total, expected, price
):
    problem = Problem(LeastSquares() + price * TotalVariation(), [Bounds(0, 1), SumsTo(total)])
    solution = problem.solve(raw)
    assert solution.status is Status.OPTIMAL
    assert_allclose(solution.frequencies, expected, atol=1e-15)
    if price > 0:
        assert variation_gap(problem, solution.start, solution.frequencies).gap <= 1e-15


@pytest.mark.parametrize("price", [1e3, 1e14, 1e18, 1e300])
def test_at_any_large_price_the_mean_is_all_that_is_left(price):
    solution = Problem(LeastSquares() + price * TotalVariation(), []).solve(RAW)
    assert solution.status is Status.OPTIMAL
    means = np.mean(RAW, axis=-1, keepdims=True)
    assert_allclose(solution.frequencies, np.broadcast_to(means, RAW.shape), rtol=1e-14)


def test_all_runs_are_looked_at_where_a_few_are_not_enough():
    """The first runs are moved by more than rounding: the others tell a level that proves more."""
    d = 6_000
    generator = np.random.default_rng(5)
    raw = np.repeat(generator.uniform(0.5, 1.5, 6), d // 6) + generator.normal(0, 0.1, d)
    problem = Problem(LeastSquares() + 0.5 * TotalVariation(), [SumsTo(raw.sum())])
    start = FrequencyEstimate(raw)
    moved = problem.solve(start).frequencies.copy()
    # Whole runs: a jump within one would cost its price.
    runs = np.flatnonzero(np.diff(moved)) + 1
    end = runs[runs > _FEW][0]
    moved[:end] += 1e-5
    moved[end:] -= 1e-5 * end / (d - end)
    arguments = (problem, start, moved, problem.loss.smooth_part, _only_price(problem.loss))
    of_a_few = _bound(*arguments, _FEW)
    of_all = _bound(*arguments, d)
    assert of_all.gap < of_a_few.gap / 1.05
    assert variation_gap(problem, start, moved).gap == of_all.gap


def _level_by_runs(slope, f, price):
    """Return the mean slope of runs above 0, or of those at 0 the least one, at most 0."""
    ends = np.flatnonzero(np.diff(f)) + 1
    pulls = np.concatenate([[0.0], price * np.sign(f[ends] - f[ends - 1]), [0.0]])
    runs = np.split(slope, ends)
    passed_on = np.array([run.sum() for run in runs]) - np.diff(pulls)
    lengths = np.array(list(map(len, runs)))
    is_low = f[np.append(0, ends)] == 0
    if is_low.all():
        return min(0.0, (passed_on / lengths).min())
    return passed_on[~is_low].sum() / lengths[~is_low].sum()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 17, 1000])
@pytest.mark.parametrize("height", [0, 1, 3])
@pytest.mark.parametrize("longest", [1, 5, 400])
def test_pulls_are_those_of_one_walk_wherever_the_jumps_are(length, height, longest):
    """The sweep takes four parts at a time, each after a jump; without jumps there is one."""
    generator = np.random.default_rng(length)
    price = 0.5
    for _ in range(20):
        runs = generator.integers(1, longest + 1, length)
        f = np.repeat(generator.integers(0, height + 1, length), runs)[:length].astype(float)
        slope = generator.normal(0, 0.3, length)
        level = _level_by_runs(slope, f, price)
        pulls = np.zeros(length + 1)
        for i in range(length - 1):
            jump = np.sign(f[i + 1] - f[i])
            beyond = pulls[i] + (slope[i] - level)
            pulls[i + 1] = price * jump if jump else np.clip(beyond, -price, price)
        levelled = slope[None].copy()
        add_pulls(levelled, f[None], price, np.zeros(length), np.empty(0), length)
        assert_allclose(levelled[0], slope - np.diff(pulls), atol=1e-13)
