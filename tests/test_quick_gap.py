"""The bound that acceptance looks at first: by hand, and never below what the loss exceeds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, certify, oracles
from ldpopt.constraints import Bounds, Fixed, NonNegative, SumsTo
from ldpopt.losses import (
    GaussianMLE,
    Huber,
    KullbackLeibler,
    LeastAbsolute,
    LeastSquares,
    WeightedLeastSquares,
)
from ldpopt.solve.acceptance.quick_gap import quick_gap

F = [0.9, 0.6, -0.1]


def gap_of(loss, where, point, start=F):
    start = FrequencyEstimate.of(start)
    bound = quick_gap(Problem(loss, where), start, np.asarray(point, dtype=float))
    return None if bound is None else bound.gap


@pytest.mark.parametrize(
    ("where", "point", "expected"),
    [
        # g = (-.4, -.1, .1): <g, f> = -.25, and all of the total goes where g is -.4.
        pytest.param([NonNegative(), SumsTo(1.0)], [0.5, 0.5, 0.0], 0.15, id="simplex"),
        # g = (-.4, -.2, .2): <g, f> = -.26. The bounds take .3 of the total, at .1 (-.4 - .2 + .2).
        pytest.param([Bounds(0.1, np.inf), SumsTo(1.0)], [0.5, 0.4, 0.1], 0.06, id="floor"),
        # g = (-.4, -.1, .1) without its mean -2/15: half the sum of the squares.
        pytest.param([SumsTo(1.0)], [0.5, 0.5, 0.0], 0.0633333333333333, id="total"),
        # .3 short of the total: ½ (.16 + .16 + .01) less ½ 3 (.4/3)² of f̃ - .4/3, the minimiser.
        pytest.param([SumsTo(1.0)], [0.5, 0.2, 0.0], 0.415 / 3, id="too little"),
        # The free minimum is f̃: half of .16 + .01 + .01.
        pytest.param([], [0.5, 0.5, 0.0], 0.09, id="nothing"),
        # f̃_3 is out of reach, and the last value stays: half of .16 + .01.
        pytest.param([NonNegative()], [0.5, 0.5, 0.0], 0.085, id="nonnegative"),
        # The minimiser is (.7, .6, -.1): .09 less half of .04.
        pytest.param([Bounds(-1.0, 0.7)], [0.5, 0.5, 0.0], 0.07, id="upper"),
    ],
)
def test_the_bound_is_that_by_hand(where, point, expected):
    assert_allclose(gap_of(LeastSquares(), where, point), expected, rtol=1e-12)


SETS = {
    "nothing": [],
    "nonnegative": [NonNegative()],
    "total": [SumsTo(1.0)],
    "simplex": [NonNegative(), SumsTo(1.0)],
    "capped": [Bounds(0.0, 0.5), SumsTo(1.0)],
    "box": [Bounds(0.0, 0.5)],
    "floor": [Bounds(0.05, np.inf), SumsTo(1.0)],
}
LOSSES = {
    "least squares": LeastSquares(),
    "weighted": WeightedLeastSquares(np.linspace(1, 3, 6)),
    "weighted MLE": GaussianMLE(),
    "divergence": KullbackLeibler(),
}


# The others are not strongly convex on the whole space, which sets without a total need.
PAIRS = [
    pytest.param(loss, where, id=f"{name}, {place}")
    for name, loss in LOSSES.items()
    for place, where in SETS.items()
    if name in ("least squares", "weighted") or place in ("simplex", "capped", "floor")
]


@pytest.mark.parametrize(("loss", "where"), PAIRS)
def test_no_point_exceeds_the_minimum_by_more(loss, where):
    rng = np.random.default_rng(3)
    oracle = oracles.OUE(epsilon=1.0, d=6)
    # So many users that every estimate is positive, as the divergence needs it.
    users = 1000 * np.array([30, 25, 20, 15, 5, 5])
    start = oracle.estimate(oracle.simulate_counts(users, rng, trials=4), 100_000)
    problem = Problem(loss, where)
    best = problem.solve(start).frequencies
    # Between the minimiser and another point of every set.
    point = 0.8 * best + 0.2 / 6
    excess = loss.value(point, start) - loss.value(best, start)
    bound = quick_gap(problem, start, point).gap
    assert bound.shape == (4,)
    assert (excess > 0).all()
    assert (bound >= excess * (1 - 1e-9)).all()
    at_best = quick_gap(problem, start, best).gap
    assert (np.abs(at_best) <= 1e-9 * (1 + np.abs(loss.value(best, start)))).all()


@pytest.mark.parametrize("name", ["nothing", "nonnegative", "total", "simplex", "floor"])
def test_it_is_at_least_the_gap_of_the_certificate(name):
    # The certificate counts the curvature as well, where this bound takes the tangent alone.
    point = [0.5, 0.4, 0.1]
    bound = gap_of(LeastSquares(), SETS[name], point)
    exact = certify(Problem(LeastSquares(), SETS[name]), F, point).gap
    assert exact <= bound * (1 + 1e-9)
    if name in ("nothing", "nonnegative", "total"):
        assert_allclose(bound, exact, rtol=1e-9)


@pytest.mark.parametrize(
    ("loss", "where"),
    [
        pytest.param(LeastAbsolute(), [NonNegative(), SumsTo(1.0)], id="kinks"),
        pytest.param(LeastSquares(), [Fixed([0], [0.5]), SumsTo(1.0)], id="some bounds"),
        pytest.param(KullbackLeibler(), [], id="no strong convexity"),
    ],
)
def test_what_takes_more_passes_is_left_to_the_certificate(loss, where):
    assert gap_of(loss, where, [0.5, 0.5, 0.0]) is None


def test_near_the_end_of_the_domain_it_is_left_to_the_certificate():
    start = FrequencyEstimate([0.5, 0.4], n=100, oracle=oracles.OUE(epsilon=1.0, d=2))
    end = -1 / start.noise.kappa  # where the variance of the model vanishes
    assert gap_of(GaussianMLE(), [SumsTo(1.0)], [end, 1 - end], start) is None


def test_a_gradient_that_its_loss_keeps_is_not_written_to():
    """The array of an own loss may be locked, and is the loss's all the same."""
    kept = np.array([0.3, -0.1, 0.2])
    kept.flags.writeable = False

    class Kept(LeastSquares):
        def gradient(self, f, estimate):
            return kept

    where = [Bounds(0.0, 0.5), SumsTo(1.0)]
    # The last value takes 0.1 from the first, at slopes of 0.2 and 0.3.
    assert_allclose(gap_of(Kept(), where, [0.1, 0.5, 0.4]), 0.01, atol=1e-15)


def test_a_gradient_that_is_infinite_at_a_zero_adds_nothing():
    # f̃_3 < 0 must be zero. The scaled (.6, .4) is the minimiser: the gradient is log(2/3) + 1.
    bound = gap_of(KullbackLeibler(), [SumsTo(1.0)], [0.6, 0.4, 0.0])
    assert_allclose(bound, 0.0, atol=1e-12)


def test_logarithms_of_quotients_beyond_the_floats_are_subtracted():
    start = FrequencyEstimate([1e-310, 1e10, 1.0])
    gradient = KullbackLeibler().gradient(np.array([1.0, 1e-310, 1.0]), start)
    # log(1e310) and log(1e-320): neither quotient is a normal number.
    assert_allclose(gradient, [1 + 310 * np.log(10), 1 - 320 * np.log(10), 1.0], rtol=1e-10)


@pytest.mark.parametrize("weight", [1e-6, 1e-10, 1e-14])
def test_a_small_modulus_does_not_make_rounding_large(weight):
    loss = weight * LeastSquares() + Huber(0.07)
    rng = np.random.default_rng(7)
    start = FrequencyEstimate(rng.normal(0, 1, 8))
    # At the minimum of this function all slopes are equal, and of order 1.
    best = start.frequencies + (1 - start.frequencies.sum()) / 8
    problem = Problem(loss, [SumsTo(1.0)])
    assert abs(quick_gap(problem, start, best).gap) <= 1e-15
    step = 1e-3 * (np.arange(8) - 3.5)
    # Huber's function is linear there: only the squares rise.
    excess = weight * np.sum(step**2) / 2
    assert_allclose(quick_gap(problem, start, best + step).gap, excess, rtol=0.1)
