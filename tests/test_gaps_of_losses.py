"""Gaps that rest on what a loss states: slopes in compiled sweeps, and levels on unbounded sets."""

from unittest import mock

import cvxpy as cp
import mpmath
import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Problem, certify, losses, oracles
from ldpopt.closed_form import parts, rows
from ldpopt.constraints import (
    Bounds,
    Fixed,
    GroupTotals,
    Linear,
    Monotone,
    Near,
    NonNegative,
    SumsTo,
    TopSet,
)
from ldpopt.losses.normalised import TiltedGaussianMLE
from ldpopt.solve.acceptance.judge import _of_long_box as of_long_box
from ldpopt.solve.acceptance.judge import judge
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.bounds.kernels import BLOCK
from ldpopt.solve.certificate.bounds.minorant import minorant
from ldpopt.solve.certificate.box import box, long_box, total_prices
from ldpopt.solve.certificate.prices.pooled_gap import pooled_gap
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.status import Status
from tests.test_certificate_soundness import as_if_long

D = 40
SHARES = 1 / np.arange(1, D + 1) / np.sum(1 / np.arange(1, D + 1))


def raw(oracle, seed=0):
    """Return a raw estimate from 10⁴ reports."""
    generator = np.random.default_rng(seed)
    reports = oracle.perturb(generator.choice(D, 10_000, p=SHARES), rng=generator)
    return oracle.estimate(oracle.support_counts(reports), 10_000)


MOVED = np.zeros(D)
"""A step that keeps the total, between two values that no bound holds."""
MOVED[[1, 2]] = [1e-3, -1e-3]

UNARY = raw(oracles.OUE(epsilon=1.0, d=D))
DIRECT = raw(oracles.GRR(epsilon=3.0, d=D))
LOSSES = {
    "squares": (losses.LeastSquares(), UNARY),
    "weighted squares": (losses.WeightedLeastSquares(1 + np.arange(D) % 3), UNARY),
    "weighted MLE": (losses.GaussianMLE(), UNARY),
    "binomial": (losses.BinomialMLE(), UNARY),
    "multinomial": (losses.MultinomialMLE(), DIRECT),
    "divergence": (losses.KullbackLeibler(), UNARY),
    "divergence from a reference": (losses.KLTo(SHARES), UNARY),
    "entropy": (losses.Entropy(), UNARY),
    "Huber": (losses.Huber(0.01), UNARY),
}
BOXES = {
    "simplex": [NonNegative(), SumsTo(1.0)],
    "caps": [Bounds(0.0, 0.2), SumsTo(1.0)],
    "caps of each": [Bounds(0.0, 0.3 + 0.01 * np.arange(D)), SumsTo(1.0)],
    "known value": [NonNegative(), Fixed([3], [0.04]), SumsTo(1.0)],
    "bounds": [Bounds(-0.005, 0.05)],
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("values", BOXES)
def test_two_sweeps_prove_what_many_passes_prove(loss, values):
    function, estimate = LOSSES[loss]
    problem = Problem(function, BOXES[values])
    minimiser = problem.minimise(estimate)
    expected = box.bound(problem, estimate, minimiser)
    with as_if_long(), mock.patch.object(long_box, "is_enough", return_value=True):
        quick = long_box.long_bound(problem, estimate, minimiser)
        if quick is None:
            # A value of 0 has a vertical tangent, or the end of a domain is a value away.
            assert loss.startswith(("divergence", "entropy"))
            assert minimiser.min() <= 0
            return
        beside = long_box.long_bound(problem, estimate, minimiser + MOVED).bound
    quick = quick.bound
    assert quick.gap <= 1e-13 * quick.terms
    assert quick.gap <= 2 * expected.gap + 1e-300
    assert float(quick.mu) == pytest.approx(float(expected.mu), rel=1e-9)
    assert float(quick.terms) == pytest.approx(float(expected.terms), rel=1e-9)
    assert beside.gap > 10 * quick.gap + 1e-14


@pytest.mark.parametrize("place", [10, BLOCK + 10])
@pytest.mark.parametrize("is_minimum", [True, False])
def test_a_part_of_the_values_tells_the_price_where_it_can(place, is_minimum, monkeypatch):
    """Two values are between their bounds, in the part that is looked at first or beside it."""
    d = 2 * parts._EVERY * BLOCK
    raw = np.full(d, -1.0)
    raw[[place, place + 1]] = [1.0, 0.5]
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0)])
    point = problem.minimise(raw)
    if not is_minimum:
        point[[place, place + 1]] += [-0.01, 0.01]
    prices = []
    mean = long_box.mean_multiplier

    def noted(moments):
        prices.append(mean(moments))
        return prices[-1]

    monkeypatch.setattr(long_box, "mean_multiplier", noted)
    monkeypatch.setattr(rows, "_LONG", 0)
    proof = long_box.long_bound(problem, FrequencyEstimate(raw), point)
    # A price that proves a minimum is the last one. Beside the part no value tells one.
    assert len(prices) == 1 + (place < BLOCK and not is_minimum)
    if is_minimum:
        assert proof.bound.gap <= 1e-15
        assert float(prices[-1]) == pytest.approx(0.25, rel=1e-12)
    else:
        assert proof is None


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("step", [0.0, 0.5, -0.5])
def test_what_a_box_or_a_total_misses_is_measured_on_the_way(name, step):
    where = BOXES[name]
    problem = Problem(losses.LeastSquares(), where)
    rows = np.stack([problem.minimise(UNARY), problem.minimise(UNARY)])
    rows[1, 7] += step
    starts = FrequencyEstimate(np.stack([UNARY.frequencies] * 2))
    with as_if_long(), mock.patch.object(long_box, "is_enough", return_value=True):
        seen = long_box.long_bound(problem, starts, rows)
        quick = of_long_box(problem, starts, rows, 1e-8)
    stated = np.max([one.violation(rows) for one in where], axis=0)
    assert (stated[1] > 0.1) == bool(step)
    measured = dict(quick.measured)
    # Bounds of each value take a look of their own.
    is_even = name not in ("caps of each", "known value")
    assert (seen.outside is not None) == is_even
    assert set(measured) == {one for one in where if is_even or isinstance(one, SumsTo)}
    for constraint, violation in quick.measured:
        np.testing.assert_allclose(violation, constraint.violation(rows), rtol=1e-12, atol=1e-15)


class StricterTotal(SumsTo):
    """A total of somebody else, who allows no value above a half."""

    def violation(self, f):
        return np.maximum(super().violation(f), f.max(axis=-1) - 0.5)

    total = SumsTo.total
    rows = SumsTo.rows
    cone_form = SumsTo.cone_form


def test_a_total_of_somebody_else_measures_its_violation_itself():
    problem = Problem(losses.LeastSquares(), [NonNegative(), StricterTotal(1.0)])
    point = np.full(D, 0.25 / (D - 1))
    point[0] = 0.75
    start = FrequencyEstimate(point)
    with as_if_long():
        # The sweep sees a sum of 1, which is not all that this total asks for.
        assert of_long_box(problem, start, point, 1e-8).measured
        judgement = judge(problem, start, Outcome(point), problem.plan(start), "high")
    assert judgement.status is Status.INACCURATE
    assert "is violated by 0.25" in judgement.reason


@pytest.mark.parametrize("name", ["simplex", "caps", "bounds"])
@pytest.mark.parametrize("off", [0.3, -0.3, np.nan])
def test_a_long_point_outside_its_box_is_not_optimal(name, off):
    """The loss has no slope there, so that nothing else is wrong."""
    problem = Problem(losses.LeastSquares(), BOXES[name])
    point = problem.minimise(UNARY).copy()
    inside = FrequencyEstimate(point.copy())
    point[7] += off
    start = inside if np.isnan(off) else FrequencyEstimate(point)
    with as_if_long():
        is_right = judge(problem, inside, Outcome(inside.frequencies), problem.plan(inside), "high")
        judgement = judge(problem, start, Outcome(point), problem.plan(start), "high")
    assert is_right.status is Status.OPTIMAL
    assert judgement.status is Status.INACCURATE
    assert "is violated by" in judgement.reason


def test_bounds_of_each_value_are_read_past_the_first_block():
    d = 3 * BLOCK
    generator = np.random.default_rng(2)
    upper = generator.uniform(0.5, 4, d) / d
    problem = Problem(losses.LeastSquares(), [Bounds(0.0, upper), SumsTo(1.0)])
    estimate = FrequencyEstimate(generator.normal(1, 1, d) / d)
    minimiser = problem.minimise(estimate)
    expected = box.bound(problem, estimate, minimiser)
    with as_if_long():
        quick = long_box.long_bound(problem, estimate, minimiser).bound
    assert quick.gap <= 1e-13 * quick.terms
    assert float(quick.mu) == pytest.approx(float(expected.mu), rel=1e-9)


@pytest.mark.parametrize("order", [np.arange(D), np.random.default_rng(3).permutation(D)])
def test_one_sweep_along_a_chain_proves_what_prefix_sums_prove(order):
    problem = Problem(losses.LeastSquares(), [*BOXES["simplex"], Monotone(order)])
    minimiser = problem.minimise(UNARY)
    for step, accepts in ((0.0, True), (1e-3, False)):
        point = minimiser + step * MOVED[np.argsort(order)]
        expected = pooled_gap(problem, UNARY, point)
        with as_if_long():
            swept = pooled_gap(problem, UNARY, point)
        assert float(swept.gap) == pytest.approx(float(expected.gap), rel=1e-6, abs=1e-16)
        assert (swept.gap <= 1e-12 * swept.terms) == accepts


def test_gaps_above_rounding_and_other_losses_are_for_all_multipliers():
    problem = Problem(losses.LeastSquares(), BOXES["simplex"])
    minimiser = problem.minimise(UNARY)
    with as_if_long(), mock.patch.object(long_box, "is_enough", total_prices.is_enough):
        assert long_box.long_bound(problem, UNARY, minimiser) is not None
        assert long_box.long_bound(problem, UNARY, minimiser + MOVED) is None
        absolute = Problem(losses.LeastAbsolute(), BOXES["simplex"])
        assert long_box.long_bound(absolute, UNARY, minimiser) is None


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("values", ["simplex", "bounds of 0"])
def test_the_sign_of_a_zero_changes_no_gap(loss, values):
    function, estimate = LOSSES[loss]
    boxes = {**BOXES, "bounds of 0": [Bounds(np.zeros(D), np.where(np.arange(D) < 20, 0.0, 1.0))]}
    problem = Problem(function, boxes[values])
    # The frequencies are 0 where the estimate is on both sides of it, near and far.
    for share in (0.0, 0.5, 1.0):
        point = share * np.where(np.arange(D) < 20, 0.0, problem.minimise(estimate))
        gaps = [
            float(certify(problem, estimate, np.where(point == 0, zero, point)).gap)
            for zero in (0.0, -0.0)
        ]
        assert gaps[0] == gaps[1]


def test_a_gap_at_a_negative_zero_is_above_the_rise():
    estimate = FrequencyEstimate([0.5, -0.25, 0.75])
    problem = Problem(losses.Huber(1e-3), [NonNegative(), SumsTo(1.0)])
    point = np.array([-0.0, 1.0, -0.0])
    best = problem.minimise(estimate)
    rise = float(problem.loss.value(point, estimate) - problem.loss.value(best, estimate))
    assert certify(problem, estimate, point).gap >= rise > 1e-4


UNBOUNDED = {
    "nonnegative": [NonNegative()],
    "chain": [Monotone(np.arange(D))],
    "top set": [TopSet([0, 1, 2])],
    "rows": [Linear(np.ones((1, D)), 0.9, 1.0)],
    "total": [SumsTo(1.0)],
}


@pytest.mark.parametrize("values", UNBOUNDED)
@pytest.mark.parametrize("loss", ["weighted MLE", "divergence", "entropy", "binomial", "Huber"])
def test_no_bounds_are_needed_where_a_loss_states_its_levels(loss, values):
    function, estimate = LOSSES[loss]
    problem = Problem(function, UNBOUNDED[values])
    solution = problem.solve(estimate)
    assert solution.certificate.is_optimal(1e-9, relative=True)
    minimum = problem.loss.value(solution.frequencies, estimate)
    generator = np.random.default_rng(1)
    for size in (1e-6, 1e-3, 1.0):
        point = solution.frequencies * np.exp(size * generator.normal(size=D))
        rise = problem.loss.value(point, estimate) - minimum
        gap = certify(problem, estimate, point).gap
        assert gap >= rise - 1e-12 * abs(minimum)


LEVELS = {name: LOSSES[name] for name in ("weighted MLE", "divergence", "entropy", "Huber")} | {
    "squares": LOSSES["squares"],
    "weighted squares": LOSSES["weighted squares"],
    "absolute": (losses.LeastAbsolute(), UNARY),
    "largest": (losses.MaxAbsolute(), UNARY),
    "with a tangent": (losses.NormalisedGaussianMLE().majorant(SHARES, UNARY), UNARY),
    "with a steep tangent": (TiltedGaussianMLE(np.full(D, 3.0)), UNARY),
    "sum": (losses.GaussianMLE() + 0.5 * losses.TotalVariation() + losses.L1To(SHARES), UNARY),
}


@pytest.mark.parametrize("loss", LEVELS)
def test_what_is_below_a_level_lies_within_its_bounds(loss):
    function, estimate = LEVELS[loss]
    generator = np.random.default_rng(2)
    points = generator.normal(size=(300, D)) * 10 ** generator.uniform(-3, 3, (300, 1))
    if loss in ("divergence", "entropy"):
        points = np.abs(points)
        points[:, function.target(estimate) <= 0] = 0.0
    stack = FrequencyEstimate(
        np.tile(estimate.frequencies, (300, 1)), n=estimate.n, oracle=estimate.oracle
    )
    levels = function.value(points, stack)
    is_finite = np.isfinite(levels)
    assert is_finite.sum() > 50
    lower, upper = function.sublevel(np.where(is_finite, levels, 0.0), stack)
    assert np.all((lower <= points)[is_finite])
    assert np.all((points <= upper)[is_finite])
    at_minimum = function.sublevel(np.asarray(1.0), estimate)
    assert np.isfinite(at_minimum).all()


@pytest.mark.parametrize("price", [losses.TotalVariation(), losses.MaxAbsolute()], ids=repr)
def test_a_price_beside_a_loss_with_levels_needs_no_bounds(price):
    solution = Problem(losses.GaussianMLE() + 0.5 * price, []).solve(UNARY)
    assert solution.status == "optimal"
    assert solution.certificate.is_optimal(1e-8, relative=True)


def test_a_tangent_beside_the_weighted_mle_is_no_part_of_its_level():
    # Half the distance counts: bounds as of the whole left out the minimum itself.
    estimate = oracles.OUE(epsilon=1.0, d=3).estimate([720, 700, 850], 2000)
    problem = Problem(losses.NormalisedGaussianMLE(), [Linear([[1.0, 1.0, 0.0]], lower=[2.0])])
    minimiser = problem.minimise(estimate)
    point = minimiser - 1e-3 * np.array([1.0, -1.0, 0.0])
    tangent = problem.loss.convexified(point, estimate)
    rise = tangent.value(point, estimate) - tangent.value(minimiser, estimate)
    assert certify(problem, estimate, point).gap >= rise > 1e-8


def test_a_slope_without_a_lowest_value_has_no_level():
    falling = TiltedGaussianMLE(np.full(D, -1.0))
    assert falling.sublevel(np.asarray(1.0), UNARY) is None


def test_the_level_of_a_sum_is_the_tightest_of_its_terms_over_their_weights():
    near = losses.LeastSquares()
    wide = losses.L1To(SHARES)
    lower, upper = (4 * near + 0.5 * wide).sublevel(np.asarray(1.0), UNARY)
    ends = [near.sublevel(np.asarray(0.25), UNARY), wide.sublevel(np.asarray(2.0), UNARY)]
    np.testing.assert_array_equal(lower, np.maximum(ends[0][0], ends[1][0]))
    np.testing.assert_array_equal(upper, np.minimum(ends[0][1], ends[1][1]))


def test_a_term_that_may_be_negative_takes_its_lowest_value_from_the_level():
    entropy = losses.Entropy()
    upper = (losses.LeastSquares() + 0.1 * entropy).sublevel(np.asarray(1.0), UNARY)[1]
    d = UNARY.d
    # Each f log f is at least -1/e, at 1/e.
    assert entropy.lowest(UNARY) == pytest.approx(entropy.value(np.full(d, 1 / np.e), UNARY))
    of_squares = losses.LeastSquares().sublevel(np.asarray(1.0 + 0.1 * d / np.e), UNARY)[1]
    np.testing.assert_array_less(upper, of_squares * (1 + 1e-6) + 1e-6)


def test_a_sum_with_a_term_without_a_lowest_value_has_no_level():
    loss = losses.LeastSquares() + 0.1 * losses.BinomialMLE()
    assert loss.sublevel(np.asarray(1.0), UNARY) is None


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("spread", [1e-3, 1e-2, 0.05])
def test_curvature_bounds_what_is_at_stake(loss, spread):
    function, estimate = LOSSES[loss]
    problem = Problem(function)
    point = np.abs(SHARES + np.random.default_rng(8).normal(0, spread, D))
    value = float(function.value(point, estimate))
    at_zero = float(function.value(np.zeros(D), estimate))
    terms = np.sum(np.abs(function.gradient(point, estimate) * point))
    with as_if_long():
        stake = long_box.least_stake(problem, estimate, point)
    if loss.startswith(("divergence", "entropy")):
        # Their slopes are no formula of numbers, and an end of the domain is at 0.
        assert stake is None
        return
    assert 0 < stake <= (terms + abs(at_zero - value)) * (1 + 1e-12)


def test_a_loss_that_may_be_infinite_at_zero_has_nothing_at_stake_there(monkeypatch):
    problem = Problem(losses.GaussianMLE())
    monkeypatch.setattr(long_box, "domain_of", lambda *_: (0.0, np.inf))
    with as_if_long():
        assert long_box.least_stake(problem, UNARY, np.full(D, 0.1)) is None


@pytest.mark.parametrize("place", [0, 7, D - 1])
def test_slopes_that_are_lost_leave_nothing_at_stake(place):
    point = SHARES.copy()
    point[place] *= 1.5
    # The slopes are 0 but for one.
    with as_if_long():
        for weight, is_lost in ((1.0, False), (1e-250, False), (1e-290, True)):
            problem = Problem(losses.WeightedLeastSquares(np.full(D, weight)))
            stake = long_box.least_stake(problem, FrequencyEstimate(SHARES), point)
            assert (stake is None) == is_lost
        still = long_box.least_stake(problem, FrequencyEstimate(SHARES), SHARES)
    assert still is not None


def test_a_threshold_is_proved_on_the_support_found():
    loss = losses.HardThreshold(20.0)
    problem = Problem(loss, [NonNegative()])
    cut = problem.minimise(UNARY)
    kept = np.flatnonzero(cut)
    assert 1 < len(kept) < D
    beside = cut.copy()
    beside[kept[0]] += 1e-3
    with as_if_long():
        # All slopes are 0, and so is the gap, in any unit.
        assert long_box.long_bound(problem, UNARY, cut).bound.gap == 0
        assert long_box.least_stake(problem, UNARY, cut) > 0
        bound = long_box.long_bound(problem, UNARY, beside).bound
        assert float(bound.gap) == pytest.approx(0.5e-6, rel=1e-9)
        # The loss is not convex: with slopes its curvature bounds nothing.
        assert long_box.least_stake(problem, UNARY, beside) is None


def test_values_outside_of_the_support_found_are_no_competitors():
    loss = losses.HardThreshold(20.0)
    cut = Problem(loss, [NonNegative()]).minimise(UNARY)
    kept = cut > 0
    # All that is kept has to rise, which values left out would do at no cost.
    problem = Problem(loss, [NonNegative(), SumsTo(cut.sum() + 1.0)])
    shares = np.where(kept, cut + 1.0 / kept.sum(), 0.0)
    with as_if_long():
        bound = long_box.long_bound(problem, UNARY, shares).bound
    assert bound.gap <= 1e-13 * bound.terms


def test_minima_without_constraints_are_accepted_without_a_value_of_the_loss(monkeypatch):
    def value(*_):
        raise AssertionError("the loss was evaluated")

    for name in ("weighted MLE", "squares", "binomial"):
        function, estimate = LOSSES[name]
        problem = Problem(function)
        solution = problem.solve(estimate, path="closed-form")
        with as_if_long(), monkeypatch.context() as patched:
            patched.setattr(type(function), "value", value)
            outcome = Outcome(solution.frequencies)
            plan = Plan("closed-form", "", problem, "")
            judgement = judge(problem, solution.start, outcome, plan, "high")
        assert judgement.status is Status.OPTIMAL


# --- what rounding of a slope may cost in a program -----------------------------------------------


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_slope_within_its_error_is_that_of_a_point_beside(sign, monkeypatch):
    """On unbounded sets no range limits the error's cost, and the loss's own bend does."""
    error = 1e-6
    gradient = losses.Entropy.gradient
    wrong = 0.9 * sign * error
    monkeypatch.setattr(losses.Entropy, "gradient", lambda *given: gradient(*given) + wrong)
    monkeypatch.setattr(losses.Entropy, "gradient_error", lambda _, f, *__: np.full(f.shape, error))
    f = np.array([0.3, 0.2, 0.7])
    free = Box(np.zeros(3), np.full(3, np.inf))
    loss = losses.Entropy() + losses.GroupNorm([[0, 1]])
    tangent = minorant(loss, FrequencyEstimate(f), f, *free)
    # The largest excess of the loss's tangent is where the loss has its slope.
    with mpmath.workdps(50):
        cost = 0
        for value, slope in zip(f, tangent.smooth.slope, strict=True):
            there = mpmath.exp(mpmath.mpf(slope) - 1)
            rise = value * mpmath.log(mpmath.mpf(value)) - there * mpmath.log(there)
            cost += rise - slope * (value - there)
        assert 0 < cost <= tangent.rounding(free) < 10 * cost
    # A value of which the error is more than its neighbourhood bends away stays open.
    small = np.array([0.3, 0.2, 1e-300])
    monkeypatch.setattr(losses.Entropy, "gradient_error", lambda _, f, *__: np.full(f.shape, 0.1))
    assert minorant(loss, FrequencyEstimate(f), small, *free).rounding(free) == np.inf


@pytest.mark.parametrize("name", ["entropy", "divergence", "huber"])
def test_own_losses_beside_smooth_ones_are_certified_on_unbounded_sets(name):
    start = np.array([0.5, 0.3, 0.2])
    smooth = {
        "entropy": losses.Entropy(),
        "divergence": losses.KLTo(start),
        "huber": losses.Huber(1),
    }
    stated = losses.Custom(lambda f, y: cp.sum(cp.logistic(f - y)))
    problem = Problem(stated + smooth[name], [NonNegative(), GroupTotals([[0, 1]], [0.7])])
    assert problem.solve(start).status is Status.OPTIMAL
    assert not certify(problem, start, [0.4, 0.3, 0.21]).is_optimal(1e-8, relative=True)


def test_an_infinite_gap_beside_a_straight_loss_has_a_reason():
    start = np.array([0.5, 0.3, 0.2])
    loss = losses.Custom(lambda f, y: cp.sum(cp.logistic(f - y))) + losses.Huber(0.1)
    problem = Problem(loss, [NonNegative(), GroupTotals([[0, 1]], [0.7])])
    certificate = certify(problem, start, [0.45, 0.25, 0.0])
    assert np.isfinite(certificate.gap) or "without finite bounds" in certificate.reason


@pytest.mark.parametrize("point", [[0.2, 0.2], [0.4, 0.2], [0.5, 0.5]])
def test_no_gap_is_negative_where_constraints_contradict_each_other(point):
    loss = 4 * losses.WeightedLeastSquares([1.7, 3.5]) + 70 * losses.TotalVariation()
    problem = Problem(loss, [SumsTo(0.4), Near([0.5, 0.5], 0.2, 2)])
    for size in (1.0, 1e3, 1e6):
        assert certify(problem, [-size, size], point).gap >= 0
