"""Multipliers are the rates at which the minimum rises, also where a proof could do without them.

The minimum is a convex function of all bounds, totals and radii. So a multiplier λ of a number b
is right exactly if min(b + t) >= min(b) + λ t for every t, whether the minimum has a derivative or
not. Bounds that follow from several constraints prove a point with other multipliers as well: those
of the problems here once failed this test.
"""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import Problem, certify, losses
from ldpopt.constraints import (
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    HierarchyTotals,
    Linear,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
)
from ldpopt.losses import Entropy, KLTo, L1To, LeastSquares, MaxAbsolute, TotalVariation
from ldpopt.solve.certificate.bounds.evidence import Explanation
from tests.tolerances import MULTIPLIER

STEP = 1e-3
SIX = [-0.24, -0.293, 0.443, 0.001, 0.057, 0.336]
SEVEN = [0.052, 0.287, 0.099, 0.311, -0.03, 0.19, 0.209]
EIGHT = [0.118, 0.038, 0.005, 0.131, 0.063, 0.17, 0.323, -0.03]
FIVE = [0.128, 0.156, 0.133, 0.368, 0.124]
UPPER = np.array([0.144, 0.4, 0.379, 0.367, 0.418, 0.206, 0.302, 0.217])


def ordered_in_a_ball(t):
    """All values but three are equal, and their common bound follows for each of them."""
    return Entropy(), [
        Bounds(0.0, UPPER + np.array([t, 0, 0, 0, 0, 0, 0, 0])),
        Near([0.142, 0.04, 0.051, 0.38, 0.007, 0.15, 0.169, 0.061], 0.361, 2),
        Monotone([6, 5, 4, 0, 3, 1, 2, 7]),
    ]


def group_of_one_beside_cvxpys_ball(t):
    return LeastSquares(), [
        Bounds([0.0, 0, 0, t, 0, 0, 0], np.inf),
        GroupTotals([[0, 5, 6], [3]], [0.363, 0.316]),
        Custom(lambda f: [cp.norm(f - 1 / 7) <= 0.235], name="ball"),
        SumsTo(1.0),
    ]


def largest_deviation(t):
    return MaxAbsolute(), [
        Bounds([0.0, t, 0, 0, 0, 0], np.inf),
        HierarchyTotals([[0, 1, 0, 0, 0, 1]], [[0.584, 0.416]]),
        Near([0.03, 0.005, 0.091, 0.102, 0.579, 0.194], 0.766, 2),
        Smooth(second_difference=1.998),
        SumsTo(1.0),
    ]


def group_of_one_in_a_ball(t):
    return Entropy(), [
        NonNegative(),
        Linear([[0.4, -0.9, -0.4, 0.1, 0.3]], -np.inf, -0.12),
        GroupTotals([[3, 4], [0]], [0.502, 0.22 + t]),
        Near([0.061, 0.491, 0.078, 0.351, 0.02], 0.404, 2),
    ]


@pytest.mark.parametrize(
    ("build", "estimate", "of_number"),
    [
        (ordered_in_a_ball, EIGHT, lambda duals: duals["Bounds"][0]),
        (group_of_one_beside_cvxpys_ball, SEVEN, lambda duals: duals["Bounds"][3]),
        (largest_deviation, SIX, lambda duals: duals["Bounds"][1]),
        (group_of_one_in_a_ball, FIVE, lambda duals: duals["GroupTotals"][1]),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_no_minimum_at_another_bound_is_below_what_a_multiplier_says(build, estimate, of_number):
    def solved(t):
        return Problem(*build(t)).solve(estimate)

    at = solved(0.0)
    rate = float(of_number(at.duals))
    for t in (-STEP, STEP):
        assert at.objective + rate * t <= solved(t).objective + MULTIPLIER * STEP
    slopes = np.abs(at.problem.loss.gradient(at.frequencies, at.start))
    assert at.certificate.stationarity <= MULTIPLIER * slopes.max()


@pytest.mark.parametrize("rows", [[], [TopSet([0, 2])]], ids=["", "TopSet"])
def test_a_term_that_may_be_negative_leaves_the_others_their_bounds(rows):
    """Nothing bounds the frequencies but the loss: below a level, what its terms can fall by."""
    reference = np.array([0.2, 0.05, 0.3, 0.15, 0.3])
    loss = L1To(reference[::-1]) + KLTo(reference)
    solution = Problem(loss, [Fixed([1], [0.1]), *rows]).solve(FIVE)
    assert solution.certificate.is_optimal(1e-8, relative=True)
    f = solution.frequencies
    # Without further rows the other values are free: at a kink, or at r e^{-1 ± 1}.
    if not rows:
        slopes = np.log(f / reference) + 1 + np.sign(f - reference[::-1])
        at_kink = np.isclose(f, reference[::-1], atol=1e-9)
        assert np.all(at_kink | (np.abs(slopes) < 1e-9) | (np.arange(5) == 1))
        assert solution.duals["Fixed"][1] == pytest.approx(slopes[1])


def test_what_a_reference_holds_at_0_is_stationary_beside_shared_kinks_too():
    reference = [0.19, 0.06, 0.13, 0.06, 0.0, 0.31, 0.12, 0.13]
    loss = KLTo(reference) + 0.4 * TotalVariation()
    sets = [HierarchyTotals([[0, 1, 0, 1, 0, 1, 0, 1]], [[0.4, 0.6]]), TopSet([0, 5]), SumsTo(1.0)]
    certificate = Problem(loss, sets).solve(EIGHT).certificate
    assert certificate.is_optimal(1e-8, relative=True)
    assert certificate.stationarity < 1e-8


def test_without_a_gap_cvxpys_constraint_has_a_multiplier_that_is_no_number():
    ball = Custom(lambda f: [cp.norm(f[:2]) <= 0.1], name="ball")
    falls = losses.Custom(lambda f, y: cp.sum(cp.abs(f[:2] - y[:2])) + cp.sum(f), name="falls")
    certificate = certify(Problem(falls, [ball]), FIVE, np.zeros(5))
    assert np.isinf(certificate.gap)
    assert np.isnan(certificate.duals["ball"][0])


STACK = np.array([SEVEN, np.roll(SEVEN, 2)])
ENDS = np.array([0.15, 0.25])


def lines(f):
    """State an upper bound, an equation, lower bounds and, of a matrix, the sums of columns."""
    table = cp.reshape(f[:6], (3, 2), order="F")
    return [f[0] - f[3] <= -0.3, f[1] == f[2], f[5:] >= ENDS, cp.sum(table, axis=0) <= [0.4, 0.3]]


def test_lines_that_cvxpy_states_have_its_dual_values_in_the_order_of_the_lines():
    solution = Problem(LeastSquares(), [SumsTo(1.0), Custom(lines, name="lines")]).solve(STACK)
    alone = Problem(LeastSquares(), [SumsTo(1.0), Custom(lines, name="lines")]).solve(STACK[0])
    for trial, estimate in enumerate(STACK):
        f = cp.Variable(7)
        stated = lines(f)
        nearest = cp.Minimize(cp.sum_squares(f - estimate) / 2)
        cp.Problem(nearest, [cp.sum(f) == 1, *stated]).solve(solver="CLARABEL")
        expected = [np.asarray(form.dual_value) for form in stated]
        assert min(np.abs(part).max() for part in expected) > STEP
        for part, printed in zip(expected, solution.duals["lines"][trial], strict=True):
            np.testing.assert_allclose(printed, part, atol=MULTIPLIER)
    for one, other in zip(alone.duals["lines"], solution.duals["lines"][0], strict=True):
        np.testing.assert_allclose(one, other, atol=MULTIPLIER)


def test_lines_have_nothing_where_cvxpy_states_none_and_no_numbers_without_a_bound():
    nothing = Custom(lambda f: [], name="nothing")
    assert Problem(LeastSquares(), [nothing]).solve(FIVE).duals["nothing"] == []
    falls = losses.Custom(lambda f, y: cp.sum(cp.abs(f[:2] - y[:2])) + cp.sum(f), name="falls")
    half = Custom(lambda f: [f[:2] <= 0.1], name="half")
    certificate = certify(Problem(falls, [half]), FIVE, np.zeros(5))
    assert np.isinf(certificate.gap)
    assert np.isnan(certificate.duals["half"][0]).all()
    assert certificate.duals["half"][0].shape == (2,)


def test_where_every_value_is_at_a_kink_bounds_that_are_far_have_no_multiplier():
    """The estimate itself is in the set: no number that the constraints state costs anything."""
    estimate = [0.2985, 0.2447, 0.1753, 0.1143, 0.0863, 0.0454, 0.0247]
    ball = Custom(lambda f: [cp.norm(f[:3]) + cp.norm(f[3:]) <= 0.63], name="ball")
    solution = Problem(losses.LeastAbsolute(), [Unimodal(0), ball, Bounds(0.0, np.inf)]).solve(
        estimate
    )
    np.testing.assert_allclose(solution.frequencies, estimate, atol=1e-8)
    np.testing.assert_allclose(solution.duals["Bounds"], 0.0, atol=1e-6)


def test_rows_with_further_variables_have_multipliers_on_a_set_that_nothing_bounds():
    """Bounds prove the gap that follow from the loss; the tangent alone has no minimum."""
    estimate = [0.305, 0.312, 0.268, 0.12, -0.095, -0.089, -0.004]
    sets = [Monotone([[0, 1], [0, 2], [1, 3], [2, 3]]), Smooth(second_difference=0.037)]
    solution = Problem(LeastSquares() + 0.01 * Entropy(), sets).solve(estimate)
    slopes = np.abs(solution.problem.loss.gradient(solution.frequencies, solution.start))
    assert solution.certificate.stationarity <= MULTIPLIER * slopes.max()


CENTRE = np.array([0.3, 0.1, 0.2, 0.15, 0.05, 0.2])
OWN_LOSSES = {
    "quartic": lambda f, y: cp.sum(cp.power(f - y, 4)),
    "logistic": lambda f, y: cp.sum(cp.logistic(5 * (f - y))),
    "relative entropy": lambda f, y: cp.sum(cp.rel_entr(f, CENTRE)) + cp.sum_squares(f - y),
    "flat": lambda f, y: np.array([3.0, -1.0, 0.5, 2.0, -2.0, 1.0]) @ f,
}
ROW = np.arange(6.0)
OWN_SETS = {
    "simplex": [],
    "row": [Linear([ROW], upper=[1.5])],
    "own ball": [Custom(lambda f: [cp.norm(f - CENTRE) <= 0.05], name="ball")],
    "ball": [Near(CENTRE, 0.05)],
    "deviations": [Near(CENTRE, 0.1, 1)],
}


def left_at_point(solution, further):
    """Return the largest component of the Lagrangian's gradient at a solution, by its fields."""
    certificate = solution.certificate
    f = solution.frequencies
    left = solution.problem.loss.gradient(f, solution.start)
    left = left + certificate.sum_multiplier - certificate.bound_multipliers
    away = (f - CENTRE) / np.linalg.norm(f - CENTRE)
    if further == "row":
        left = left - ROW * certificate.duals["Linear"]
    elif further == "own ball":
        left = left + away * certificate.duals["ball"][0]
    elif further == "ball":
        left = left - away * certificate.duals["Near"]
    return np.max(np.abs(left))


@pytest.mark.parametrize("further", [name for name in OWN_SETS if name != "deviations"])
@pytest.mark.parametrize("loss", OWN_LOSSES)
def test_what_multipliers_leave_counts_at_the_point_itself(loss, further):
    """Proofs may count beside the point, or in the variables of a compiled program."""
    problem = Problem(
        losses.Custom(OWN_LOSSES[loss]), [NonNegative(), SumsTo(1.0), *OWN_SETS[further]]
    )
    solution = problem.solve(np.array(SIX), path="conic")
    assert solution.status == "optimal"
    size = np.max(np.abs(solution.problem.loss.gradient(solution.frequencies, solution.start)))
    stated = float(solution.certificate.stationarity)
    assert stated == pytest.approx(left_at_point(solution, further), rel=1e-6, abs=1e-12 * size)


@pytest.mark.parametrize("loss", [LeastSquares(), Entropy() + LeastSquares()], ids=str)
@pytest.mark.parametrize("further", ["own ball", "ball"])
def test_what_is_left_under_curved_constraints_counts_at_the_point_itself(loss, further):
    problem = Problem(loss, [NonNegative(), SumsTo(1.0), *OWN_SETS[further]])
    solution = problem.solve(np.array(SIX), path="conic")
    size = np.max(np.abs(solution.problem.loss.gradient(solution.frequencies, solution.start)))
    stated = float(solution.certificate.stationarity)
    assert stated == pytest.approx(left_at_point(solution, further), rel=1e-6, abs=1e-12 * size)


def test_a_point_where_rounding_hides_the_curvature_has_multipliers_of_its_bounds():
    """Beside data of hundreds a step from 1e-9 is lost, though the gradient is known."""
    data = np.array([179.0, 133.0, 299.0, 300.0, 215.0, 230.0])
    problem = Problem(losses.Custom(lambda f: cp.log_sum_exp((f - data) / 300)), [NonNegative()])
    point = np.full(6, 1e-9)
    certificate = certify(problem, data, point)
    slopes = problem.at(data).loss.gradient(point, problem.accept(data))
    assert certificate.stationarity <= MULTIPLIER * slopes.max()
    assert_allclose(certificate.duals["NonNegative"], slopes, rtol=MULTIPLIER)


def test_variables_that_rows_need_are_no_values_of_the_point():
    """Prices of rows with variables of their own are compared with the gradient as well."""
    loss = losses.Custom(OWN_LOSSES["logistic"])
    problem = Problem(loss, [NonNegative(), SumsTo(1.0), *OWN_SETS["deviations"]])
    solution = problem.solve(np.array(SIX), path="conic")
    certificate = solution.certificate
    system = OWN_SETS["deviations"][0].rows(6)
    price = system.matrix.T @ certificate.row_multipliers
    of_others = system.auxiliary.T @ certificate.row_multipliers
    left = solution.problem.loss.gradient(solution.frequencies, solution.start)
    left = left + certificate.sum_multiplier - certificate.bound_multipliers - price
    expected = max(np.max(np.abs(left)), np.max(np.abs(of_others)))
    size = np.max(np.abs(left)) + np.max(np.abs(price))
    assert certificate.stationarity == pytest.approx(expected, rel=1e-6, abs=1e-12 * size)


def test_values_that_are_nearly_at_a_bound_have_any_slope_towards_it():
    """In a divergence's ball the slope of a value near 0 is off by as much as its logarithm is."""
    sets = [
        NonNegative(),
        SumsTo(1.0),
        Near(np.full(6, 1 / 6), 1.1, "kl"),
        Linear([ROW], upper=[2.2]),
    ]
    problem = Problem(losses.WeightedLeastSquares([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]), sets)
    solution = problem.solve(np.array([0.9, -0.3, 0.5, -0.2, -0.4, 0.05]), path="conic")
    certificate = solution.certificate
    steepest = np.max(np.abs(problem.loss.gradient(solution.frequencies, solution.start)))
    assert 0 < solution.frequencies.min() < 1e-9
    assert certificate.stationarity <= MULTIPLIER * steepest
    products = certificate.bound_multipliers * solution.frequencies
    assert np.max(products) <= certificate.complementarity <= MULTIPLIER * certificate.scale


@pytest.mark.parametrize(
    "loss", [MaxAbsolute(), losses.Custom(lambda f, y: cp.norm(f - y), name="distance")], ids=str
)
@pytest.mark.parametrize("further", ["row", "ball"])
def test_a_point_better_than_any_inside_has_the_multipliers_of_the_minimum(loss, further):
    """Its bound needs none: no point of the set has a value as good as its own."""
    estimate = np.array([0.9, -0.3, 0.5, -0.2, -0.4, 0.05])
    problem = Problem(loss, [NonNegative(), SumsTo(1.0), *OWN_SETS[further]])
    solution = problem.solve(estimate)
    certificate = certify(problem, estimate, estimate)
    assert certificate.gap == 0
    assert certificate.violation > 0.1
    expected = solution.certificate.duals
    for name, multipliers in certificate.duals.items():
        assert_allclose(multipliers, expected[name], atol=MULTIPLIER)
    assert certificate.stationarity <= MULTIPLIER


def test_kinks_of_a_constraint_have_slopes_of_their_own():
    """A subgradient of cvxpy is one of many there: the program knows which of them counts."""
    ball = Custom(lambda f: cp.norm1(f - CENTRE) <= 0.1, name="ball")
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), ball])
    solution = problem.solve(np.array(SIX), path="conic")
    assert np.any(np.abs(solution.frequencies - CENTRE) < 1e-6)
    assert solution.certificate.stationarity <= MULTIPLIER * np.max(np.abs(CENTRE - SIX))


def test_values_nearly_at_0_in_a_divergence_have_the_slope_of_their_logarithm():
    """A proof may take any slope there; what the logarithm does not explain the bound does."""
    estimate = np.array([0.8, -0.9, 0.5, 0.6, -0.7, 0.2])
    huber = losses.Custom(lambda f, y: cp.sum(cp.huber(10 * (f - y), 0.5)))
    for loss in (LeastSquares(), huber):
        sets = [NonNegative(), SumsTo(1.0), Near(CENTRE, 1.0, "kl")]
        solution = Problem(loss, sets).solve(estimate, path="conic")
        certificate = solution.certificate
        f = solution.frequencies
        assert 0 < f.min() < 1e-9
        slopes = solution.problem.loss.gradient(f, solution.start)
        left = slopes + certificate.sum_multiplier - certificate.bound_multipliers
        left = left - np.log(f / CENTRE) * certificate.duals["Near"]
        size = np.max(np.abs(slopes))
        assert np.max(np.abs(left)) <= certificate.stationarity + 1e-12 * size
        assert certificate.stationarity <= MULTIPLIER * size
        assert np.max(certificate.bound_multipliers * f) <= certificate.complementarity
        assert certificate.complementarity <= 1e-8 * size


def test_multipliers_fail_by_slopes_and_by_products_relative_to_both():
    slope = np.array([2.0, -4.0])
    point = np.array([1.5, 0.25])
    nothing = np.zeros(())

    def failure(left, product):
        parts = (np.asarray(left), np.asarray(product), nothing, np.zeros(2), np.zeros(0))
        return Explanation(*parts).failure(slope, point)

    # The steepest slope is 4, and Σ |g f| is 2·1.5 + 4·0.25 = 4.
    assert failure(1.0, 0.0) == 0.25
    assert failure(0.0, 2.0) == 0.5
    assert failure(1.0, 2.0) == 0.5
    # At the point 0 every product is too large.
    point[:] = [0.0, 0.0]
    assert failure(0.0, 2.0) > 1e300
