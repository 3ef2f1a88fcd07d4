"""A linear row is the same set in any unit: so are its point, its violation and its multiplier."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import Parameter, Problem, certify
from ldpopt.constraints import Linear, NonNegative, SumsTo
from ldpopt.losses import Huber, LeastAbsolute, LeastSquares, WeightedLeastSquares
from tests.every_two import every_two

D = 9
RNG = np.random.default_rng(4)
ROWS = RNG.normal(0, 1, (2, D))
INSIDE = RNG.dirichlet(np.ones(D))
ESTIMATE = RNG.normal(1 / D, 0.2, D)
SIMPLEX = [NonNegative(), SumsTo(1.0)]
LOSSES = {
    "squares": LeastSquares(),
    "weights": WeightedLeastSquares(np.linspace(1, 3, D)),
    "Huber": Huber(0.05),
    "absolute": LeastAbsolute(),
}
# Powers of two, so that the rows are the same numbers in another unit.
FACTORS = [2.0**664, 2.0**-664, 2.0**996, 2.0**-996, 2.0**100, 2.0**-30]


def rows(factor, *, equations):
    right = ROWS @ INSIDE
    lower = factor * right if equations else -np.inf
    return Linear(factor * ROWS, lower, factor * right)


@functools.cache
def in_the_usual_unit(loss, equations):
    return Problem(LOSSES[loss], [*SIMPLEX, rows(1.0, equations=equations)]).solve(ESTIMATE)


@every_two(factor=FACTORS, loss=[*LOSSES], equations=[False, True])
def test_rows_in_any_unit_have_the_same_answer(factor, loss, equations):
    # A unit alone is enough to tell both apart from rows that are taken as they are.
    usual = in_the_usual_unit(loss, equations)
    solution = Problem(LOSSES[loss], [*SIMPLEX, rows(factor, equations=equations)]).solve(ESTIMATE)
    assert usual.status == solution.status == "optimal"
    assert solution.certificate.is_optimal(1e-8, relative=True)
    # The unit of a row is next to its largest coefficient: other bits, of a solver above all.
    if loss != "absolute":
        assert_allclose(solution.frequencies, usual.frequencies, rtol=0, atol=1e-6)
    value = LOSSES[loss].value
    start = usual.problem.accept(ESTIMATE)
    expected = float(value(usual.frequencies, start))
    assert float(value(solution.frequencies, start)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("factor", FACTORS)
def test_a_multiplier_is_that_of_the_stated_bound(factor):
    expected = certify(Problem(LeastSquares(), [rows(1.0, equations=True)]), ESTIMATE, INSIDE).duals
    problem = Problem(LeastSquares(), [rows(factor, equations=True)])
    certificate = certify(problem, ESTIMATE, INSIDE)
    assert_allclose(certificate.duals["Linear"] * factor, expected["Linear"], rtol=1e-9)


@pytest.mark.parametrize("factor", [2.0**100, 2.0**-100])
def test_the_conditions_hold_at_the_solution(factor):
    problem = Problem(LeastSquares(), [rows(factor, equations=False)])
    solution = problem.solve(ESTIMATE)
    assert problem.kkt().residuals(solution).largest < 1e-12


@pytest.mark.parametrize("factor", [1e200, 1e-200, 1e-100, 1e300])
def test_a_point_off_its_rows_is_refused_in_any_unit(factor):
    problem = Problem(LeastSquares(), [*SIMPLEX, Linear([factor, 0, 0], upper=0.25 * factor)])
    met = certify(problem, [0.5, 0.5, 0.0], [0.25, 0.5, 0.25])
    missed = certify(problem, [0.5, 0.5, 0.0], [0.3, 0.5, 0.2])
    assert met.violation <= 1e-15
    # But for a power of two.
    assert 0.025 <= missed.violation <= 0.1
    assert not missed.is_optimal(1e-8, relative=True)


def test_usual_rows_are_taken_as_they_are():
    A = np.array([[1e-6, 1.0, 1e-300], [2.0**20, 1.0, 0.0], [0.0, 0.0, 0.0]])
    stated = Linear(A, [-1.0, 0.0, 0.0], [2.0, np.inf, 1e9])
    assert_array_equal(stated.rows(3).matrix.toarray(), A)
    assert_array_equal(stated.rows(3).upper, [2.0, np.inf, 1e9])
    assert_array_equal(stated.row_units, 1.0)


def test_what_is_stated_stays_so_and_bounds_stay_finite():
    stated = Linear([[3e200, 1e200], [1e-250, 0.0]], [-1e200, -np.inf], [np.inf, 1e100])
    assert_array_equal(stated.matrix.toarray(), [[3e200, 1e200], [1e-250, 0.0]])
    rows = stated.rows(2)
    assert 1 <= abs(rows.matrix.toarray()).max() < 2
    assert rows.lower[0] == stated.lower[0] / stated.row_units[0]
    assert_array_equal(np.isfinite(rows.lower), [True, False])
    # A bound that no frequency comes near is none, but no infinity either.
    assert rows.upper[1] == np.finfo(float).max


def test_rows_that_are_a_parameter_have_units_too():
    A = Parameter("A", ROWS[:1], shape=(1, D))
    problem = Problem(Huber(0.05), [*SIMPLEX, Linear(A, upper=0.0)])
    row = ROWS[:1] - ROWS[:1] @ INSIDE
    usual, *others = problem.path(ESTIMATE, A=[factor * row for factor in (1.0, *FACTORS)])
    assert len(problem._planner.conic.compiled) <= 1
    for solution in others:
        assert solution.status == "optimal"
        assert_allclose(solution.frequencies, usual.frequencies, rtol=0, atol=1e-6)
