"""Certificates: true bounds at any point, sharp enough to refuse a wrong one, right signs."""

import functools
import itertools
import re

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from ldpopt import FrequencyEstimate, Problem, certify, losses, oracles
from ldpopt.closed_form import parts
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Linear,
    LinearInequalities,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
)
from ldpopt.constraints.base import Polyhedron
from ldpopt.errors import InvalidInputError, InvalidTypeError
from ldpopt.losses import (
    BinomialMLE,
    GaussianMLE,
    KullbackLeibler,
    L1To,
    LeastAbsolute,
    LeastSquares,
    WeightedLeastSquares,
)
from ldpopt.solve.certificate.bounds import minorant
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones.conic_program import Multipliers
from ldpopt.solve.certificate.cones.multipliers import shortfall
from ldpopt.solve.certificate.polyhedra import polyhedron
from tests.every_two import every_two
from tests.tolerances import CERTIFIED, FINITE_DIFFERENCE, GAP, SOLVER, SUM

D = 12
SIMPLEX = [NonNegative(), SumsTo(1.0)]
LOSSES = [LeastSquares(), GaussianMLE(), KullbackLeibler()]
PROBLEMS = [Problem(loss, SIMPLEX) for loss in LOSSES]
ORACLES = [oracles.OUE, oracles.SUE, oracles.HadamardResponse]
STEP = 1e-5

seeds = st.integers(0, 2**32 - 1)


def collected(seed, oracle=oracles.OUE, d=D, n=3000):
    population = np.random.default_rng(seed).multinomial(
        n, (w := np.arange(1.0, d + 1) ** -1.2) / w.sum()
    )
    chosen = oracle(epsilon=1.0, d=d)
    return chosen.estimate(chosen.simulate_counts(population, seed), n)


def allowed(problem, estimate, f):
    """Move f to where the loss is finite, keeping its sum."""
    support = problem.loss.support(estimate)
    if support is not None:
        f = np.where(support, f, 0.0)
        f = f / f.sum()
    return f


# --- the gap is a bound ---------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@pytest.mark.parametrize("oracle", ORACLES)
@settings(max_examples=30)
@given(seed=seeds, spread=st.sampled_from([0.05, 1.0, 20.0]))
def test_the_gap_bounds_the_distance_to_the_optimum(problem, oracle, seed, spread):
    estimate = collected(seed % 50, oracle)
    f = allowed(problem, estimate, np.random.default_rng(seed).dirichlet(np.full(D, spread)) + 1e-9)
    f /= f.sum()
    best = problem.solve(estimate).objective
    excess = float(problem.loss.value(f, estimate)) - best
    assert -CERTIFIED <= excess <= certify(problem, estimate, f).gap * (1 + SUM) + CERTIFIED


@pytest.mark.parametrize(
    "constraints", [[], [NonNegative()], [SumsTo(1.0)], [SumsTo(-2.0)]], ids=str
)
@settings(max_examples=30)
@given(seed=seeds)
def test_the_gap_bounds_the_distance_on_sets_without_bound(constraints, seed):
    problem = Problem(LeastSquares(), constraints)
    rng = np.random.default_rng(seed)
    estimate = FrequencyEstimate(rng.normal(0, 1, D))
    f = rng.normal(0, 1, D)
    if any(isinstance(c, NonNegative) for c in constraints):
        f = np.abs(f)
    for c in constraints:
        f = f + (c.total() - f.sum()) / D if isinstance(c, SumsTo) else f
    excess = problem.loss.value(f, estimate) - problem.solve(estimate).objective
    gap = certify(problem, estimate, f).gap
    assert excess <= gap * (1 + SUM) + CERTIFIED
    assert_allclose(
        gap, excess, rtol=1e-9, atol=CERTIFIED
    )  # for least squares this bound is the distance itself


@given(seed=seeds)
def test_least_squares_points_are_within_twice_the_gap(seed):
    estimate = collected(seed % 50)
    f = np.random.default_rng(seed).dirichlet(np.ones(D))
    problem = Problem(LeastSquares(), SIMPLEX)
    distance = np.sum((f - problem.solve(estimate).frequencies) ** 2)
    assert distance <= 2 * certify(problem, estimate, f).gap + CERTIFIED


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_the_gap_on_the_simplex_is_between_the_rise_and_that_of_the_gradient_alone(problem):
    estimate = collected(0)
    f = allowed(problem, estimate, np.full(D, 1 / D))
    gradient = problem.loss.gradient(f, estimate)
    support = f > 0
    frank_wolfe = gradient[support] @ f[support] - gradient[support].min()
    excess = problem.loss.value(f, estimate) - problem.solve(estimate).objective
    assert excess <= certify(problem, estimate, f).gap <= frank_wolfe * (1 + 1e-12)


# --- it accepts the right answer and no other -----------------------------------------------------


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@pytest.mark.parametrize("d", [2, 12, 1000])
def test_the_closed_form_is_certified_to_rounding(problem, oracle, d):
    solution = problem.solve(collected(3, oracle, d))
    assert solution.certificate.is_optimal(CERTIFIED)
    assert solution.certificate.stationarity <= CERTIFIED
    assert solution.certificate.complementarity <= CERTIFIED


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("loss", [LeastSquares(), GaussianMLE()], ids=repr)
@settings(max_examples=30)
@given(seed=seeds)
def test_a_millionth_moved_between_two_values_is_noticed(loss, oracle, seed):
    problem = Problem(loss, SIMPLEX)
    rng = np.random.default_rng(seed)
    estimate = collected(seed % 50, oracle)
    f = problem.solve(estimate).frequencies.copy()
    source = rng.choice(np.flatnonzero(f > 1e-3))
    target = rng.choice(np.delete(np.arange(D), source))
    f[source] -= 1e-6
    f[target] += 1e-6
    assert_noticed(problem, estimate, f)


def assert_noticed(problem, estimate, f):
    """Check that the gap is above the true rise, and far above that of the right answer."""
    solution = problem.solve(estimate)
    certificate = certify(problem, estimate, f)
    assert certificate.violation <= SUM
    # A millionth off raises a quadratic by about 1e-12, and rounding by less than 1e-15.
    rise = problem.loss.value(f, estimate) - solution.objective
    assert certificate.gap >= rise - 1e-15
    assert certificate.gap > 3 * solution.certificate.gap
    assert not certificate.is_optimal(1e-13)


@pytest.mark.parametrize(
    ("f", "violation"),
    [
        ([0.6, 0.3, 0.2], 0.1),
        ([0.8, 0.3, -0.1], 0.1),
        ([0.0, 0.0, 0.0], 1.0),
        ([2.0, -0.5, -0.5], 0.5),
    ],
)
def test_infeasible_points_fail_by_their_violation(f, violation):
    certificate = certify(Problem(LeastSquares(), SIMPLEX), [0.5, 0.2, -0.01], f)
    assert_allclose(certificate.violation, violation, rtol=0, atol=SUM)
    assert not certificate.is_optimal(violation / 2)


def test_an_infeasible_point_may_have_a_small_gap_and_still_fails():
    estimate = [0.6, 0.6]
    certificate = certify(Problem(LeastSquares(), SIMPLEX), estimate, estimate)
    assert certificate.gap <= CERTIFIED
    assert not certificate.is_optimal(1e-6)


def test_zeroing_the_negatives_first_is_not_optimal():
    certificate = certify(Problem(LeastSquares(), SIMPLEX), [0.5, 0.2, -0.01], [0.65, 0.35, 0.0])
    assert certificate.violation <= SUM
    # The projection (.60, .30, .09) has a loss of .01602, that point one of .02255.
    assert 0.00653 < certificate.gap <= 0.15 - 0.01
    assert certificate.stationarity > 0.1


def test_one_wrong_trial_spoils_the_stack():
    problem = Problem(LeastSquares(), SIMPLEX)
    estimate = np.array([[0.5, 0.2, -0.01], [0.3, 0.3, 0.3]])
    f = problem.solve(estimate).frequencies.copy()
    assert certify(problem, estimate, f).is_optimal(CERTIFIED)
    f[1] = [0.5, 0.3, 0.2]
    certificate = certify(problem, estimate, f)
    assert certificate.gap.shape == (2,)
    assert certificate.gap[0] <= CERTIFIED < certificate.gap[1]
    assert not certificate.is_optimal(1e-6)


@pytest.mark.parametrize("tol", [0, -1e-9, np.nan, np.inf])
def test_a_tolerance_must_be_a_positive_number(tol):
    with pytest.raises(InvalidInputError, match="tol must be"):
        certify(Problem(LeastSquares()), [0.5], [0.5]).is_optimal(tol)


# --- undefined is infinite ------------------------------------------------------------------------


def test_mass_where_the_divergence_forbids_it_has_an_infinite_gap():
    problem = Problem(KullbackLeibler(), SIMPLEX)
    certificate = certify(problem, [0.5, 0.2, -0.1], [0.5, 0.4, 0.1])
    assert certificate.gap == np.inf
    assert not certificate.is_optimal(1e9)


def test_no_mass_where_the_divergence_is_infinitely_steep_is_far_from_optimal():
    # The tangent at 0 is vertical; that beside it is steep.
    certificate = certify(Problem(KullbackLeibler(), SIMPLEX), [0.5, 0.5], [1.0, 0.0])
    assert np.log(2) <= certificate.gap < np.inf
    assert not certificate.is_optimal(0.1, relative=True)


def test_a_zero_that_stands_for_less_than_the_smallest_double_is_optimal():
    loss = LeastSquares() + 1e-5 * losses.Entropy()
    y = np.array([0.6, 0.4, -0.2, -0.5])
    solution = Problem(loss, SIMPLEX).solve(y)
    assert solution.frequencies[3] == 0
    assert solution.certificate.is_optimal(1e-12, relative=True)


@pytest.mark.parametrize(
    ("further", "sentence"),
    [
        (Linear(np.eye(D)[:1] - np.eye(D)[1:2], 0.0, 0.5), "no multipliers of the rows"),
        (Custom(lambda f: [cp.norm(f) <= 0.6]), "a solver's point is better by"),
    ],
    ids=["rows", "cones"],
)
def test_a_gap_that_is_more_than_rounding_has_a_reason(further, sentence):
    estimate = collected(1)
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), further])
    point = problem.solve(estimate).frequencies
    assert not certify(problem, estimate, point).reason
    moved = 0.9 * point + 0.1 / D
    assert sentence in certify(problem, estimate, moved).reason


def better_by(attained, missed=0.0):
    return Multipliers(np.zeros(1), np.zeros(1), attained=attained, missed=missed)


def test_a_gap_is_blamed_on_the_point_where_a_solver_has_a_better_one():
    # That of an own loss on 736 values: with a tighter tolerance its point is right to 1e-11.
    assert "better by 8.2e-06" in shortfall(1.86e-5, better_by(8.2e-6), 1664.0)
    # A point that is outside proves it only where multipliers are no larger than this.
    outside = better_by(8.2e-6, missed=1e-9)
    assert "unless multipliers exceed 8e+03" in shortfall(1.86e-5, outside, 1664.0)
    assert "unless multipliers exceed 8e+06" in shortfall(1.86e-5, outside, 1664.0, 1e3)
    # Such multipliers are at hand.
    usual = outside._replace(z=np.array([1e3]))
    assert "its accuracy ends there" in shortfall(1.86e-5, usual, 1664.0)
    assert "its accuracy ends there" in shortfall(1.86e-5, better_by(1e-6), 1664.0)
    assert not shortfall(1e-5, better_by(8.2e-6), 1664.0)


def test_a_solver_s_point_that_beats_the_proven_bound_is_no_reason_for_a_gap():
    # No point of the set is that good: it violates the constraints.
    assert "better" not in shortfall(3.1e-12, better_by(8.8e-4), 1e-10)


def test_what_a_solver_s_point_is_better_by_is_stated_in_the_unit_of_the_loss():
    small = 1e-5 * np.array([0.5, 0.3, 0.2])
    loss = LeastSquares() + 1e-6 * L1To(small)
    problem = Problem(loss, [SumsTo(1e-5), Smooth(total_variation=1e-5)])
    certificate = certify(problem, 2 * small, small[::-1])
    stated = re.search(r"better by (\S+):", certificate.reason)
    assert stated is not None
    assert 0 < float(stated[1]) <= 1.1 * certificate.gap


def test_without_constraints_what_has_no_larger_loss_bounds_the_gap():
    estimate = collected(1)
    problem = Problem(GaussianMLE())
    uniform = np.full(D, 1 / D)
    gap = certify(problem, estimate, uniform).gap
    # The minimum is 0, at the estimate.
    assert problem.loss.value(uniform, estimate) <= gap < np.inf
    assert certify(problem, estimate, estimate.frequencies).gap == 0


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_total_of_zero_is_certified(loss):
    certificate = Problem(loss, [NonNegative(), SumsTo(0.0)]).solve(collected(1)).certificate
    assert certificate.violation == 0
    assert not np.isnan(certificate.gap)


# --- multipliers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS[:2], ids=repr)
@pytest.mark.parametrize("oracle", ORACLES)
def test_the_lagrangian_is_stationary_with_the_multipliers(problem, oracle):
    f = [0.7, 0.5, 0.2, 0.1, 0.05, 0.0, 0.0, -0.02, -0.05, -0.1, -0.2, -0.3]
    estimate = FrequencyEstimate(f, n=3000, oracle=oracle(epsilon=1.0, d=D))
    solution = problem.solve(estimate)
    mu = solution.certificate.sum_multiplier
    lambdas = solution.certificate.bound_multipliers
    assert lambdas.min() >= 0
    assert_allclose(lambdas * solution.frequencies, 0, atol=CERTIFIED)
    assert lambdas.max() > 0.01  # a bound holds with equality, or nothing is tested

    def lagrangian(f):
        return problem.loss.value(f, estimate) + mu * (f.sum() - 1) - lambdas @ f

    for direction in np.eye(D) * STEP:
        slope = (
            lagrangian(solution.frequencies + direction)
            - lagrangian(solution.frequencies - direction)
        ) / (2 * STEP)
        assert abs(slope) <= FINITE_DIFFERENCE


def test_the_sum_multiplier_is_minus_the_change_of_the_minimum_with_the_total():
    estimate = collected(5)

    def minimum(total):
        return Problem(LeastSquares(), [NonNegative(), SumsTo(total)]).solve(estimate).objective

    mu = Problem(LeastSquares(), SIMPLEX).solve(estimate).certificate.sum_multiplier
    assert abs(mu) > 0.001
    assert_allclose(
        -(minimum(1 + STEP) - minimum(1 - STEP)) / (2 * STEP), mu, rtol=0, atol=FINITE_DIFFERENCE
    )


def test_the_active_set_is_where_values_are_zero():
    solution = Problem(LeastSquares(), SIMPLEX).solve([0.9, 0.4, -0.3])
    assert solution.certificate.active.tolist() == [False, False, True]
    assert not Problem(LeastSquares(), [SumsTo()]).solve([0.9, 0.4, -0.3]).certificate.active.any()


def test_without_constraints_there_are_no_multipliers():
    certificate = Problem(LeastSquares()).solve([0.9, -0.3]).certificate
    assert certificate.sum_multiplier == 0
    assert certificate.bound_multipliers.tolist() == [0.0, 0.0]


# --- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_equals_central_differences_of_the_value(loss, oracle, seed):
    estimate = collected(seed, oracle)
    f = 0.5 / D + np.random.default_rng(seed).dirichlet(np.ones(D))
    support = loss.support(estimate)
    gradient = loss.gradient(f, estimate)
    for v in range(D):
        up, down = f.copy(), f.copy()
        up[v] += STEP
        down[v] -= STEP
        if support is not None and not support[v]:
            assert gradient[v] == np.inf
            continue
        inside = np.ones(D, bool) if support is None else support
        up, down = np.where(inside, up, 0.0), np.where(inside, down, 0.0)
        slope = (loss.value(up, estimate) - loss.value(down, estimate)) / (2 * STEP)
        assert_allclose(gradient[v], slope, rtol=FINITE_DIFFERENCE, atol=FINITE_DIFFERENCE)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_values_and_gradients_of_a_stack_are_those_of_its_rows(loss):
    oracle = oracles.OUE(epsilon=1.0, d=3)
    rows = np.array([[0.5, 0.2, 0.1], [0.3, 0.6, 0.2]])
    stack = FrequencyEstimate(rows, n=100, oracle=oracle)
    f = np.array([[0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])
    for i, row in enumerate(rows):
        alone = FrequencyEstimate(row, n=100, oracle=oracle)
        assert_allclose(loss.value(f, stack)[i], loss.value(f[i], alone), rtol=SUM)
        assert_allclose(loss.gradient(f, stack)[i], loss.gradient(f[i], alone), rtol=SUM)


def test_the_divergence_is_infinite_outside_its_domain():
    estimate = FrequencyEstimate([0.5, 0.2, -0.1])
    assert KullbackLeibler().value(np.array([0.5, 0.4, 0.1]), estimate) == np.inf
    assert KullbackLeibler().value(np.array([1.1, -0.1, 0.0]), estimate) == np.inf


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f", [[0.5, 0.5], [[0.5, 0.3, 0.2]], [0.5, 0.3, np.nan], [0.5, 0.3, np.inf]]
)
def test_a_point_of_another_shape_or_not_finite_is_refused(f):
    with pytest.raises(InvalidInputError, match=r"shape|finite"):
        certify(Problem(LeastSquares(), SIMPLEX), [0.5, 0.2, -0.01], f)


def test_a_loss_that_is_not_defined_for_the_estimate_is_refused():
    with pytest.raises(InvalidInputError, match="noise level"):
        certify(Problem(GaussianMLE(), SIMPLEX), [0.5, 0.5], [0.5, 0.5])


# --- polyhedra: one linear program ----------------------------------------------------------------

BOX_ROWS = Linear(np.eye(D), 0, 1)
POLYHEDRA = {
    "linear": [
        NonNegative(),
        SumsTo(),
        Linear(np.eye(D)[:3], -np.inf, 0.2),
        Linear([[1, 2] * (D // 2)], 1.3, 1.6),
    ],
    "monotone": [NonNegative(), SumsTo(), Monotone(np.arange(D))],
    "partly monotone": [NonNegative(), SumsTo(), Monotone([5, 1, 7])],
    "groups": [
        NonNegative(),
        GroupTotals([[0, 1, 2], [2, 3, 4], [4, 5]], [0.5, 0.4, 0.2]),
        SumsTo(),
    ],
    "groups apart": [NonNegative(), GroupTotals([range(6), range(6, D)], [0.75, 0.25])],
    "rows of a box": [BOX_ROWS, SumsTo()],
}


def feasible(constraints, seed):
    """A random point of the set: the mean of two vertices and a projection, seldom the best."""
    rng = np.random.default_rng(seed)
    f = cp.Variable(D)
    forms = [form for c in constraints for form in c.cone_form(f)]
    points = []
    for objective in (
        rng.normal(0, 1, D) @ f,
        rng.normal(0, 1, D) @ f,
        cp.sum_squares(f - rng.dirichlet(np.ones(D))),
    ):
        cp.Problem(cp.Minimize(objective), forms).solve(solver="CLARABEL")
        points.append(f.value)
    return rng.dirichlet(np.ones(3)) @ np.array(points)


@functools.cache
def point_of(kind, seed):
    """Return a random point of a polyhedron: three programs, whose answer serves every loss."""
    return feasible(POLYHEDRA[kind], seed)


@functools.lru_cache(maxsize=len(POLYHEDRA))
def problem_on(kind, loss):
    """Return a problem on a polyhedron, whose program serves every estimate."""
    return Problem(loss, POLYHEDRA[kind])


@every_two(
    kind=list(POLYHEDRA),
    seed=range(2),
    loss={repr(loss): loss for loss in (LeastSquares(), GaussianMLE(), BinomialMLE())},
)
def test_the_gap_on_a_polyhedron_bounds_the_distance_to_the_optimum(kind, loss, seed):
    problem = problem_on(kind, loss)
    estimate = collected(seed)
    best = problem.solve(estimate, path="conic")
    assert best.certificate.gap <= GAP * SOLVER["CLARABEL"]
    for again in range(3):
        f = point_of(kind, 10 * seed + again)
        excess = float(loss.value(f, estimate)) - best.objective
        certificate = certify(problem, estimate, f)
        assert certificate.violation <= SOLVER["CLARABEL"]
        assert 0 < excess <= certificate.gap + SOLVER["CLARABEL"]
        assert np.isfinite(certificate.gap)


@pytest.mark.parametrize("kind", ["monotone", "groups apart"])
@pytest.mark.parametrize("oracle", ORACLES)
def test_shapes_in_closed_form_are_certified_by_the_linear_program(kind, oracle):
    problem = Problem(LeastSquares(), POLYHEDRA[kind])
    estimate = collected(2, oracle)
    solution = problem.solve(estimate)
    assert solution.path == "closed-form"
    assert solution.certificate.is_optimal(CERTIFIED)
    assert solution.certificate.stationarity <= CERTIFIED
    assert solution.certificate.complementarity <= CERTIFIED


@pytest.mark.parametrize("kind", ["monotone", "groups apart"])
@pytest.mark.parametrize("seed", range(20))
def test_a_millionth_moved_inside_a_polyhedron_is_noticed(kind, seed):
    problem = Problem(LeastSquares(), POLYHEDRA[kind])
    estimate = collected(seed)
    f = problem.solve(estimate).frequencies.copy()
    if kind == "monotone":
        # A block of the highest takes from a block of the lowest that are not zero.
        lowest = f[np.flatnonzero(f > 1e-6)[-1]]
        source = np.flatnonzero(f == lowest)[-1]
        target = 0
    else:
        source = np.argmax(f[:6])
        target = int(np.argmin(f[:6]))
    f[source] -= 1e-6
    f[target] += 1e-6
    assert_noticed(problem, estimate, f)


BOXES = {
    "capped": Bounds(0, 0.25),
    "low": Bounds(0.05, 1),
    "mixed": Bounds(np.linspace(0, 0.05, D), np.linspace(0.1, 0.9, D)),
    "one-sided": Bounds(0.01, np.inf),
    "upper only": Bounds(-np.inf, 0.2),
    "half and half": Bounds(
        np.where(np.arange(D) % 2, 0, -1.0), np.where(np.arange(D) % 3, 0.5, np.inf)
    ),
}


@every_two(
    box=list(BOXES),
    loss={repr(loss): loss for loss in (LeastSquares(), BinomialMLE(), GaussianMLE())},
    seed=range(4),
)
def test_the_gap_of_a_box_is_at_most_that_of_the_tangent_however_the_box_is_stated(box, loss, seed):
    estimate = collected(seed)
    bounds = BOXES[box]
    lower, upper = bounds.box(D)
    rows = Linear(np.eye(D), lower, upper)
    f = (
        Problem(LeastSquares(), [bounds, SumsTo()])
        .solve(np.random.default_rng(seed).normal(0.1, 0.2, D))
        .frequencies
    )
    if loss.value(f, estimate) == np.inf or np.any(f < 0):
        f = np.full(D, 1 / D)
    # The linear program that minimises the tangent, by HiGHS itself.
    gradient = loss.gradient(f, estimate)
    domain = loss.domain(loss.constants(estimate))
    ends = np.clip(lower, *domain), np.clip(upper, *domain)
    program = linprog(gradient, A_eq=np.ones((1, D)), b_eq=[1.0], bounds=np.transpose(ends))
    frank_wolfe = gradient @ f - program.fun
    for stated in ([bounds, SumsTo()], [rows, SumsTo()]):
        certificate = certify(Problem(loss, stated), estimate, f)
        assert 1e-3 < certificate.gap <= frank_wolfe * (1 + 1e-6)
        assert_allclose(certificate.violation, bounds.violation(f), rtol=0, atol=SUM)


@pytest.mark.parametrize("box", BOXES)
def test_a_millionth_moved_inside_a_box_is_noticed(box):
    problem = Problem(LeastSquares(), [BOXES[box], SumsTo()])
    estimate = collected(1)
    solution = problem.solve(estimate)
    assert solution.certificate.is_optimal(CERTIFIED)
    lower, upper = problem.box(D)
    f = solution.frequencies.copy()
    source = int(np.argmax(np.minimum(f - lower, 1)))
    target = int(np.argmax(np.where(np.arange(D) == source, 0, np.minimum(upper - f, 1))))
    f[source] -= 1e-6
    f[target] += 1e-6
    assert_noticed(problem, estimate, f)


@pytest.mark.parametrize("trials", [1, 3])
def test_a_stack_on_a_polyhedron_is_certified_trial_by_trial(trials):
    problem = Problem(LeastSquares(), POLYHEDRA["monotone"])
    rows = np.array([collected(seed).frequencies for seed in range(trials)])
    f = problem.solve(rows).frequencies.copy()
    f[-1] = 1 / D
    certificate = certify(problem, rows, f)
    assert (
        certificate.gap.shape
        == certificate.violation.shape
        == certificate.stationarity.shape
        == (trials,)
    )
    assert np.all(certificate.gap[:-1] <= CERTIFIED)
    assert_allclose(certificate.gap[-1], certify(problem, rows[-1], f[-1]).gap, rtol=1e-9)
    assert certificate.gap[-1] > 1e-3


def test_trials_of_a_stack_take_no_program_for_what_is_far_below_the_promise(monkeypatch):
    d = 12
    rows = [Monotone(np.arange(d)), Linear(np.arange(d)[None], 0.0, 3.0)]
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), *rows])
    raw = np.linspace(0.2, -0.05, d)
    point = problem.minimise(raw).copy()
    # The minimum is the same there, and Σ |g f| is far above the square of a step.
    raw = raw + 10
    point[:3] += 1e-5 * np.array([1.0, -2.0, 1.0])
    calls = []
    programs = polyhedron._of_programs
    monkeypatch.setattr(
        polyhedron, "_of_programs", lambda *a, **k: calls.append(1) or programs(*a, **k)
    )
    alone = certify(problem, raw, point)
    assert calls == [1]
    stack = certify(problem, np.tile(raw, (2, 1)), np.tile(point, (2, 1)))
    assert calls == [1]
    assert_allclose(stack.gap, alone.gap, rtol=1e-6)


# --- sets that only a solver knows, and sets that are not convex ----------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_custom_set_gets_a_finite_gap_that_bounds_the_distance(seed):
    constraints = [NonNegative(), SumsTo(), Custom(lambda f: [cp.sum_squares(f) <= 0.2])]
    problem = Problem(LeastSquares(), constraints)
    estimate = collected(seed)
    best = problem.solve(estimate)
    assert best.path == "conic"
    assert best.certificate.gap <= GAP * SOLVER["CLARABEL"]
    for again in range(3):
        f = feasible(constraints, 10 * seed + again)
        gap = certify(problem, estimate, f).gap
        assert np.isfinite(gap)
        assert 0 < problem.loss.value(f, estimate) - best.objective <= gap + SOLVER["CLARABEL"]


def test_a_custom_polyhedron_has_about_the_gap_of_its_rows():
    estimate = collected(3)
    f = np.full(D, 1 / D)
    custom = Problem(LeastSquares(), [NonNegative(), SumsTo(), Custom(lambda f: [f[:-1] >= f[1:]])])
    rows = Problem(LeastSquares(), POLYHEDRA["monotone"])
    rise = rows.loss.value(f, estimate) - rows.solve(estimate).objective
    for problem in (custom, rows):
        assert rise <= certify(problem, estimate, f).gap <= 1.05 * rise


@pytest.mark.parametrize("k", [1, 3, D])
def test_few_nonzeros_are_certified_against_the_best_support(k):
    problem = Problem(LeastSquares(), [AtMost(k), NonNegative(), SumsTo()])
    estimate = collected(4)
    solution = problem.solve(estimate)
    assert solution.certificate.is_optimal(CERTIFIED)
    assert solution.certificate.scope == "the problem"
    for support in itertools.combinations(range(D), k):
        zeros = np.setdiff1d(np.arange(D), support)
        fixed = [NonNegative(), SumsTo(), Fixed(zeros, np.zeros(len(zeros)))]
        other = Problem(LeastSquares(), fixed).solve(estimate)
        rise = other.objective - solution.objective
        gap = certify(problem, estimate, other.frequencies).gap
        assert rise - CERTIFIED <= gap <= rise + CERTIFIED


def test_the_worst_support_is_not_optimal():
    problem = Problem(LeastSquares(), [AtMost(1), NonNegative(), SumsTo()])
    certificate = certify(problem, [0.9, 0.1], [0.0, 1.0])
    # ½ (.9² + .9²) against ½ (.1² + .1²).
    assert_allclose(certificate.gap, 0.8, rtol=1e-12)
    assert not certificate.is_optimal(0.79)


@pytest.mark.parametrize("k", [1, 3, D - 1])
def test_multipliers_of_few_nonzeros_are_those_on_their_support(k):
    estimates = collected(4)
    stack = FrequencyEstimate(np.stack([estimates.frequencies, estimates.frequencies[::-1]]))
    step = 1e-4
    objectives = {}
    for total in (1 - step, 1.0, 1 + step):
        problem = Problem(LeastSquares(), [NonNegative(), SumsTo(total), AtMost(k)])
        objectives[total] = problem.solve(stack).objective
    rate = (objectives[1 + step] - objectives[1 - step]) / (2 * step)
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(), AtMost(k)])
    solution = problem.solve(stack)
    certificate = solution.certificate
    assert_allclose(certificate.duals["SumsTo"], rate, atol=FINITE_DIFFERENCE)
    # What holds the other values at 0 is AtMost, and no bound of a value that is not 0.
    assert np.all(certificate.duals["NonNegative"] >= 0)
    assert np.all(certificate.stationarity <= CERTIFIED)
    assert np.all(certificate.complementarity <= CERTIFIED)
    assert certificate.duals["AtMost"] is None


def test_nothing_but_the_support_holds_values_at_zero():
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(), AtMost(2)])
    # A second value may join, and its slope is lower by 1.
    certificate = certify(problem, [0.5, 0.5, 0.0], [1.0, 0.0, 0.0])
    assert max(certificate.stationarity, certificate.complementarity) >= 0.5
    assert certify(problem, [0.5, 0.5, 0.5], [0.5, 0.5, 0.0]).stationarity <= CERTIFIED


def test_too_many_nonzeros_fail_by_their_violation():
    problem = Problem(LeastSquares(), [AtMost(2), NonNegative(), SumsTo()])
    certificate = certify(problem, [0.5, 0.4, 0.3], [0.5, 0.3, 0.2])
    assert_allclose(certificate.violation, 0.2)
    assert not certificate.is_optimal(0.1)


def test_a_value_that_must_be_zero_leaves_the_gap_a_number():
    # Its gradient is infinite and its distance to the bound 0: the product is nothing, not NaN.
    problem = Problem(KullbackLeibler(), [NonNegative()])
    certificate = problem.solve([0.5, 0.6, -0.1]).certificate
    assert not np.isnan(certificate.gap)
    bounded = Problem(KullbackLeibler(), [Bounds(0.0, 1.0)])
    scaled = certify(bounded, [0.5, 0.6, -0.1], np.array([0.5, 0.6, 0.0]) / np.e)
    assert abs(float(scaled.gap)) < 1e-12


# Neither set binds at the minimum, which is f̃ itself.
@pytest.mark.parametrize(
    "wide",
    [Smooth(total_variation=1.2), Near([0.3, 0.3, 0.4, 0.0], 0.5)],
    ids=["rows", "ball"],
)
def test_the_gap_leaves_out_a_value_that_the_divergence_keeps_at_zero(wide):
    """By hand: Σ f log(f/f̃) - Σ f + Σ f̃, whose slope at the value of 0 is infinite."""
    problem = Problem(KullbackLeibler(), [*SIMPLEX, wide])
    certificate = certify(problem, [0.5, 0.3, 0.2, 0.0], [0.501, 0.299, 0.2, 0.0])
    excess = 0.501 * np.log(0.501 / 0.5) + 0.299 * np.log(0.299 / 0.3)
    assert excess <= certificate.gap <= 4 * excess


@pytest.mark.parametrize("kinked", [LeastAbsolute(), L1To([0.4, 0.3, 0.3, 0.0])], ids=repr)
@pytest.mark.parametrize("weight", [0.01, 0.1, 1.0])
def test_a_value_that_must_be_zero_allows_any_price_beside_kinks(kinked, weight):
    """The divergence holds the last value at 0, whatever the slopes of the others are."""
    problem = Problem(KullbackLeibler() + weight * kinked, SIMPLEX)
    solution = problem.solve([0.5, 0.3, 0.2, 0.0])
    assert solution.status == "optimal"
    assert solution.certificate.is_optimal(1e-12)
    # Another point is not better, and its gap says by how much at least it is worse.
    other = certify(problem, [0.5, 0.3, 0.2, 0.0], [0.52, 0.28, 0.2, 0.0])
    value = problem.loss.value(np.array([0.52, 0.28, 0.2, 0.0]), solution.start)
    assert 0 < value - solution.objective <= other.gap < 1


# --- multipliers on polyhedra ---------------------------------------------------------------------

EVERY_SET = {
    **POLYHEDRA,
    "simplex": SIMPLEX,
    "capped": [Bounds(0, 0.25), SumsTo()],
    "crossed orders": [
        *SIMPLEX,
        Monotone([0, 1, 2]),
        Monotone([4, 3]),
        Linear([[1, 1] + [0] * (D - 2)], -np.inf, 0.5),
    ],
    "monotone alone": [Monotone(range(D))],
    "linear alone": [Linear(np.eye(D)[:4], [-np.inf, 0, 0.2, -np.inf], [0.3, 0.2, np.inf, np.inf])],
    "sum alone as a row": [Linear(np.ones((1, D)), 1, 1)],
    "custom": [*SIMPLEX, Custom(lambda f: [f[:-1] >= f[1:]])],
}
BOUNDED = [name for name in EVERY_SET if "alone" not in name and name != "custom"]


def slope_nearest(target, loss, f, estimate):
    """Return the subgradient at f that is nearest to the target: the gradient but at kinks."""
    if not loss.has_kinks:
        return loss.gradient(f, estimate)
    (kinks,) = loss.kinks(loss.data(estimate), loss.constants(estimate))
    return kinks.subgradient(f, target)


def other_rows(problem):
    """Matrix and bounds of all rows that are neither bounds nor the total."""
    parts = [
        c.rows(D) for c in problem.constraints if not isinstance(c, SumsTo) and c.box(D) is None
    ]
    matrix = np.vstack([np.zeros((0, D)), *(part.matrix.toarray() for part in parts)])
    return (
        matrix,
        *(np.concatenate([[], *(getattr(p, side) for p in parts)]) for side in ("lower", "upper")),
    )


@pytest.mark.parametrize("name", [name for name in EVERY_SET if name != "custom"])
@pytest.mark.parametrize(
    "loss", [LeastSquares(), GaussianMLE(), LeastAbsolute(), BinomialMLE()], ids=repr
)
def test_multipliers_explain_the_gradient_with_the_documented_signs(loss, name):
    if "alone" in name and not isinstance(loss, LeastSquares | LeastAbsolute):
        return  # no bound is known
    problem = Problem(loss, EVERY_SET[name])
    estimate = collected(6)
    solution = problem.solve(estimate)
    f = solution.frequencies
    certificate = solution.certificate
    near = 1e-6 if solution.path == "conic" else CERTIFIED
    matrix, lower, upper = other_rows(problem)
    mu = certificate.sum_multiplier
    lambdas = certificate.bound_multipliers
    nu = certificate.row_multipliers
    assert nu.shape == (len(matrix),)
    explained = lambdas + matrix.T @ nu - mu
    slope = slope_nearest(explained, loss, f, estimate)
    assert_allclose(slope, explained, rtol=0, atol=certificate.stationarity + SUM)
    limit = 200 * SOLVER["CLARABEL"] if solution.path == "conic" else CERTIFIED
    assert certificate.stationarity <= limit
    low, high = problem.box(D)
    values = matrix @ f
    # Positive only where a lower bound pushes up, negative only where an upper one pushes down.
    for multipliers, room_below, room_above in (
        (lambdas, f - low, high - f),
        (nu, values - lower, upper - values),
    ):
        assert np.all(np.isfinite(room_below[multipliers > 0]))
        assert np.all(np.isfinite(room_above[multipliers < 0]))
        distance = np.where(multipliers > 0, room_below, room_above)
        products = np.abs(multipliers) * np.where(multipliers == 0, 0.0, distance)
        assert products.max(initial=0) <= certificate.complementarity + near
    assert certificate.active.tolist() == (np.minimum(f - low, high - f) <= 1e-9).tolist()


def test_a_multiplier_of_a_row_is_the_change_of_the_minimum_with_its_bound():
    estimate = collected(6)

    def solved(shift):
        cap = Linear([[1.0, 1.0] + [0.0] * (D - 2)], -np.inf, 0.4 + shift)
        floor = Linear(np.eye(D)[5:6], 0.2 - shift, np.inf)
        return Problem(LeastSquares(), [*SIMPLEX, cap]).solve(estimate, path="conic"), Problem(
            LeastSquares(), [*SIMPLEX, floor]
        ).solve(estimate, path="conic")

    for before, at, after, sign in zip(
        solved(-1e-3), solved(0.0), solved(1e-3), (-1, 1), strict=True
    ):
        nu = float(at.certificate.row_multipliers[0])
        assert sign * nu > 0.01  # a cap pushes down, a floor up
        assert_allclose((after.objective - before.objective) / 2e-3, -abs(nu), rtol=0, atol=1e-4)


@pytest.mark.parametrize("box", ["capped", "low", "mixed", "half and half"])
@pytest.mark.parametrize("loss", [LeastSquares(), BinomialMLE()], ids=repr)
def test_multipliers_of_bounds_and_total_agree_whichever_way_the_set_is_said(loss, box):
    if box == "half and half" and isinstance(loss, BinomialMLE):
        return  # not defined below zero
    estimate = collected(1)
    bounds = BOXES[box]
    f = Problem(loss, [bounds, SumsTo()]).solve(estimate).frequencies
    greedy = certify(Problem(loss, [bounds, SumsTo()]), estimate, f)
    rows = certify(Problem(loss, [Linear(np.eye(D), *bounds.box(D)), SumsTo()]), estimate, f)
    all_rows = certify(
        Problem(loss, [Linear(np.eye(D), *bounds.box(D)), Linear(np.ones((1, D)), 1, 1)]),
        estimate,
        f,
    )
    assert np.abs(greedy.bound_multipliers).max() > 1e-3
    assert_allclose(rows.sum_multiplier, greedy.sum_multiplier, rtol=0, atol=1e-9)
    assert_allclose(rows.row_multipliers, greedy.bound_multipliers, rtol=0, atol=1e-9)
    assert_allclose(
        all_rows.row_multipliers,
        [*greedy.bound_multipliers, -greedy.sum_multiplier],
        rtol=0,
        atol=1e-9,
    )
    assert_allclose([rows.gap, all_rows.gap], greedy.gap, rtol=0, atol=CERTIFIED)
    assert_allclose(rows.bound_multipliers, 0, rtol=0, atol=SUM)


# One conic program and one gap cost 7 ms each. A bound that is too small in one draw of ten would
# pass 30 draws with probability 0.9³⁰ = 4 %; all draws have 12 values, so faults are seldom rarer.
@functools.cache
def problem_without_bound(name):
    """Return a problem whose program serves every draw."""
    return Problem(LeastSquares(), EVERY_SET[name])


@pytest.mark.parametrize("name", ["monotone alone", "linear alone", "sum alone as a row"])
@settings(max_examples=30)
@given(seed=seeds)
def test_the_gap_on_polyhedra_without_bound_bounds_the_distance(name, seed):
    problem = problem_without_bound(name)
    rng = np.random.default_rng(seed)
    estimate = rng.normal(0.1, 0.3, D)
    f = problem.solve(rng.normal(0.1, 0.3, D)).frequencies  # some feasible point
    best = problem.solve(estimate)
    certificate = certify(problem, estimate, f)
    distance = problem.loss.value(f, FrequencyEstimate(estimate)) - best.objective
    assert certificate.gap - distance >= -1e-6
    assert np.isfinite(certificate.gap)
    assert certify(problem, estimate, best.frequencies).gap <= 1e-8


def exact_point(problem, estimate):
    """A right answer: the closed form, or the solver's point improved until its gap is rounding."""
    if problem.explain(estimate).startswith("closed-form"):
        return problem.solve(estimate).frequencies
    if any(isinstance(c, Custom) for c in problem.constraints):
        return Problem(problem.loss, POLYHEDRA["monotone"]).solve(estimate).frequencies
    # Least squares on the rows that hold with equality at the solver's point.
    f = problem.solve(estimate, path="conic", solver="PIQP").frequencies
    rows = [c.rows(D) for c in problem.constraints]
    matrix = np.vstack([r.matrix.toarray() for r in rows])
    lower, upper = (np.concatenate([getattr(r, side) for r in rows]) for side in ("lower", "upper"))
    values = matrix @ f
    bound = np.where(values - lower < 1e-7, lower, upper)
    held = (values - lower < 1e-7) | (upper - values < 1e-7)
    target = estimate.frequencies
    return target + np.linalg.pinv(matrix[held]) @ (bound[held] - matrix[held] @ target)


@pytest.mark.parametrize("name", EVERY_SET)
def test_a_millionth_off_a_right_answer_fails_and_the_answer_does_not(name):
    problem = Problem(LeastSquares(), EVERY_SET[name])
    estimate = collected(7)
    f = exact_point(problem, estimate)
    custom = name == "custom"
    right = certify(problem, estimate, f)
    assert right.is_optimal(1e-9 if custom else 1e-11)
    rng = np.random.default_rng(0)
    refused = 0
    # Mixtures of a few points of the set, most of them near one: each point costs a program.
    some = [problem.solve(rng.normal(1 / D, 0.1, D), path="conic").frequencies for _ in range(4)]
    for shares in rng.dirichlet(np.full(len(some), 0.3), 6):
        # Towards another feasible point: still feasible, a millionth away.
        step = shares @ some - f
        moved = f + 1e-6 * step / np.abs(step).max()
        certificate = certify(problem, estimate, moved)
        assert certificate.violation <= 1e-9
        # A millionth along an active face raises the loss by its square only.
        rise = problem.loss.value(moved, estimate) - problem.loss.value(f, estimate)
        assert certificate.gap >= rise - 1e-15
        refused += not certificate.is_optimal(1e-14)
    if "alone" not in name:
        assert refused == 6
    # And out of the set in any direction.
    assert not certify(problem, estimate, f + 1e-6).is_optimal(1e-9) or "alone" in name


@pytest.mark.parametrize(
    ("accuracy", "solver"), [("low", "CLARABEL"), ("low", "PIQP"), ("low", "QOCO")]
)
@pytest.mark.parametrize("name", ["simplex", "capped", "monotone", "groups"])
def test_an_optimal_solver_is_told_apart_from_an_exact_one(name, accuracy, solver):
    problem = Problem(LeastSquares(), EVERY_SET[name])
    estimate = collected(8)
    solution = problem.solve(estimate, path="conic", solver=solver, accuracy=accuracy)
    assert solution.status == "optimal"
    exact = exact_point(problem, estimate)
    assert solution.certificate.gap > 10 * certify(problem, estimate, exact).gap
    rise = solution.objective - problem.loss.value(exact, estimate)
    assert rise - 1e-15 <= solution.certificate.gap


@pytest.mark.parametrize(
    "solver", ["SCS"]
)  # the others do better than their default tolerances here
def test_default_tolerances_on_a_real_size_are_optimal_and_not_exact(solver):
    problem = Problem(LeastSquares(), SIMPLEX)
    estimate = collected(8, d=1000, n=10**5)
    solution = problem.solve(estimate, path="conic", solver=solver, accuracy="default")
    assert solution.status == "optimal"
    exact = problem.solve(estimate)
    assert solution.certificate.gap > 1e3 * exact.certificate.gap
    assert exact.certificate.is_optimal(CERTIFIED)


class TotalVariation(Polyhedron):
    """Σ |f_{v+1} - f_v| <= limit: steps -t <= f_{v+1} - f_v <= t and Σ t <= limit."""

    def __init__(self, limit):
        self.limit = limit

    def violation(self, f):
        return np.maximum(np.abs(np.diff(f, axis=-1)).sum(axis=-1) - self.limit, 0.0)

    def rows(self, d):
        from scipy import sparse

        steps = sparse.diags_array(
            [-np.ones(d - 1), np.ones(d - 1)], offsets=[0, 1], shape=(d - 1, d)
        )
        one = sparse.eye_array(d - 1)
        matrix = sparse.vstack([steps, -steps, sparse.csr_array((1, d))], format="csr")
        auxiliary = sparse.vstack([one, one, sparse.csr_array(np.ones((1, d - 1)))], format="csr")
        lower = np.concatenate([np.zeros(2 * (d - 1)), [-np.inf]])
        upper = np.concatenate([np.full(2 * (d - 1), np.inf), [self.limit]])
        return LinearInequalities(matrix, lower, upper, auxiliary)


@pytest.mark.parametrize("loss", [LeastSquares(), GaussianMLE(), LeastAbsolute()], ids=repr)
def test_rows_with_auxiliary_variables_are_certified(loss):
    estimate = collected(9)
    limit = 0.2
    stated = Problem(loss, [*SIMPLEX, TotalVariation(limit)])
    custom = Problem(loss, [*SIMPLEX, Custom(lambda f: [cp.tv(f) <= limit])])
    solution = stated.solve(estimate)
    assert_allclose(solution.objective, custom.solve(estimate).objective, rtol=0, atol=1e-6)
    certificate = solution.certificate
    assert certificate.is_optimal(GAP * SOLVER["CLARABEL"])
    assert certificate.row_multipliers.shape == (2 * (D - 1) + 1,)
    assert certificate.row_multipliers[-1] < 0  # the limit pushes down
    matrix = stated.constraints[-1].rows(D)
    assert_allclose(
        matrix.auxiliary.T @ certificate.row_multipliers, 0, atol=1e-9
    )  # t costs nothing
    explained = (
        certificate.bound_multipliers
        + matrix.matrix.T @ certificate.row_multipliers
        - certificate.sum_multiplier
    )
    slope = slope_nearest(explained, loss, solution.frequencies, estimate)
    assert_allclose(slope, explained, rtol=0, atol=certificate.stationarity + SUM)
    for seed in range(3):
        f = feasible(custom.constraints, seed)
        rise = loss.value(f, estimate) - solution.objective
        for problem in (stated, custom):
            assert rise <= certify(problem, estimate, f).gap + SOLVER["CLARABEL"]


def test_a_steep_loss_does_not_hide_a_millionth_in_the_programs_tolerances():
    # HiGHS's own tolerance, 1e-7 of the largest slope, would let such points pass.
    weights = np.ones(D)
    estimate = np.linspace(0.3, 0.05, D)
    # Its slope at 0 is 50, and those of the others are of order 0.1.
    weights[0] = 100.0
    estimate[0] = -0.5
    simplex = Problem(WeightedLeastSquares(weights), SIMPLEX)
    problem = Problem(simplex.loss, [BOX_ROWS, SumsTo()])
    f = simplex.solve(estimate).frequencies
    assert f[0] == 0
    assert certify(problem, estimate, f).is_optimal(1e-14)
    for v in range(2, np.count_nonzero(f)):
        moved = f.copy()
        moved[[1, v]] += 1e-6, -1e-6
        # Two values moved by 1e-6 in a sum of squares with the weight 1.
        for stated in (simplex, problem):
            assert 0.999e-12 <= certify(stated, estimate, moved).gap <= 2e-12


def test_where_the_loss_is_infinite_so_is_the_gap():
    estimate = collected(1)
    wide = [Bounds(-100, 100), SumsTo()]
    f = np.array([60.0, -59.0, *[0.0] * (D - 2)])
    assert BinomialMLE().value(f, estimate) == np.inf
    assert certify(Problem(BinomialMLE(), wide), estimate, f).gap == np.inf
    assert certify(Problem(GaussianMLE(), wide), estimate, f).gap == np.inf


# --- boxes without bounds on some values, and losses that end -------------------------------------


@pytest.mark.parametrize(
    ("constraints", "raw", "mu"),
    [
        ([SumsTo(1), Fixed([0], [0.2])], [0.5, 0.4, 0.3], -0.05),
        ([SumsTo(1), Bounds([0, -np.inf, -np.inf], np.inf)], [-0.5, 0.4, 0.3], -0.15),
        ([SumsTo(1), Bounds(-np.inf, [0.3, np.inf, np.inf])], [0.5, 0.4, 0.3], 0.0),
    ],
    ids=["fixed", "lower", "upper"],
)
def test_a_total_with_bounds_on_some_values_is_certified(constraints, raw, mu):
    problem = Problem(LeastSquares(), constraints)
    certificate = problem.solve(raw).certificate
    assert certificate.is_optimal(1e-8)
    assert certificate.stationarity < 1e-8
    assert certificate.sum_multiplier == pytest.approx(mu, abs=1e-8)
    worse = certify(problem, raw, problem.solve(raw).frequencies + np.array([0, 1e-3, -1e-3]))
    assert 1e-8 < worse.gap < 1e-5


@pytest.mark.parametrize("where", [[Bounds(-5, 5)], [NonNegative()], []], ids=str)
def test_a_count_of_zero_or_all_is_certified_at_the_end_of_the_likelihood(where):
    estimate = oracles.OUE(epsilon=1.0, d=3).estimate([0, 50, 100], 100)
    certificate = Problem(BinomialMLE(), where).solve(estimate).certificate
    assert certificate.is_optimal(1e-9)
    assert certificate.stationarity < 1e-9


def test_unbounded_sets_with_auxiliary_variables_are_certified():
    solution = Problem(LeastSquares(), [Smooth(0.1)]).solve([0.5, 0.1, 0.7, 0.2])
    assert solution.certificate.is_optimal(1e-8)


def test_only_a_problem_can_be_certified():
    with pytest.raises(InvalidTypeError, match="takes a Problem or a cvxpy"):
        certify(LeastSquares(), [0.5], [0.5])


@pytest.mark.parametrize("bounds", [NonNegative(), Bounds(-0.1, 0.1)])
def test_parts_of_a_vector_change_no_certificate(bounds, monkeypatch):
    rng = np.random.default_rng(5)
    start = rng.normal(0.02, 0.1, (2, 50))
    problem = Problem(LeastSquares(), [bounds, SumsTo(1.0)])
    point = problem.solve(start).frequencies + rng.uniform(0, 1e-3, start.shape)
    whole = certify(problem, start, point)
    monkeypatch.setattr(parts, "_PART", 7)
    assert parts.count_of_parts(50) == 8
    in_parts = certify(problem, start, point)
    for name in ("gap", "stationarity", "complementarity", "sum_multiplier", "scale"):
        assert_allclose(getattr(in_parts, name), getattr(whole, name), rtol=1e-9)
    assert_allclose(in_parts.bound_multipliers, whole.bound_multipliers, atol=1e-12)


def test_an_infinite_gradient_of_a_zero_adds_nothing_to_a_scale():
    gradient = np.array([[np.inf, 2.0, -3.0], [np.inf, 1.0, 1.0]])
    weights = np.array([[0.0, -1.0, 2.0], [0.5, 0.0, 0.0]])
    np.testing.assert_array_equal(parts.absolute_sum(gradient, weights), [8.0, np.inf])


def test_a_value_that_cannot_move_needs_no_slope():
    """Of two infinite slopes, the one whose bounds meet at the point; none of a loss's support."""

    class Steep:
        def support(self, estimate):
            return None

    f = np.array([1.0, 0.5, 1.0])
    bounds = Box(np.array([1.0, 0.5, 0.0]), np.ones(3))
    held = minorant._held(Steep(), None, f, np.array([np.inf, 1.0, -np.inf]), bounds)
    assert held.tolist() == [True, False, False]
    assert minorant._held(Steep(), None, f, np.ones(3), bounds) is None


@pytest.mark.parametrize("seed", [1, 2, 4, 6, 11, 15])
def test_rows_that_were_left_out_come_back_where_they_explain_more(seed, monkeypatch):
    """A chain across groups: of rows left out one after the other, these needed a program."""

    def no_program(*_):
        raise AssertionError("a program was solved")

    d = 48
    rng = np.random.default_rng(seed)
    exact = rng.dirichlet(np.full(d, 0.5))
    raw = FrequencyEstimate(exact + rng.normal(0, 0.02, d))
    groups = GroupTotals(np.arange(d).reshape(6, 8), exact.reshape(6, 8).sum(axis=1))
    ranks = Monotone(np.argsort(-exact))
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), ranks, groups])
    point = problem.minimise(raw)
    for name in ("by_linear_program", "by_curved_program"):
        monkeypatch.setattr(polyhedron, name, no_program)
    proof = certify(problem, raw, point)
    assert proof.gap <= 1e-11 * proof.scale
    assert proof.stationarity <= 1e-9


def test_a_view_computes_no_multipliers_that_take_seconds():
    d = 4_095
    below = np.arange(1, d)
    tree = Monotone(np.stack([(below - 1) // 2, below], axis=1))
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), tree])
    solution = problem.solve(np.random.default_rng(0).normal(1 / d, 1 / d, d))
    certificate = solution.certificate
    texts = (repr(certificate), certificate._repr_html_(), repr(solution), solution._repr_html_())
    for text in texts:
        assert "gap" in text
        assert "stationarity" not in text
    assert "_multipliers" not in vars(certificate)
    assert certificate.duals["SumsTo"].size == 1
    # Once they are there, they are shown.
    assert "stationarity" in repr(certificate)
    assert "SumsTo" in certificate._repr_html_()
    # Short vectors and boxes take no time.
    alone = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)])
    assert "stationarity" in repr(alone.solve(solution.start).certificate)


def test_two_vectors_where_three_arguments_are_needed_are_named():
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0)])
    with pytest.raises(InvalidTypeError, match=r"f is missing: certify\(problem, estimate, f\)"):
        certify(problem, [0.5, 0.5])
