"""Multipliers of programs, by hand."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from ldpopt.constraints import LinearInequalities
from ldpopt.solve.programs.program import (
    LinearProgram,
    Sides,
    quadratic_multipliers,
    stacked,
)
from tests.tolerances import SOLVER


def test_multipliers_of_a_quadratic_program_by_hand():
    # (x² + y²)/2 - x - y, whose minimum is at (1, 1) without any row.
    slope = np.array([-1.0, -1.0])
    matrix = sparse.csr_array([[1.0, 1.0], [1.0, 0.0], [1.0, -1.0]])
    free = -np.inf, np.inf
    for rows, expected in (
        # x + y <= 1 holds at (.5, .5), where the gradient is (-.5, -.5); the others are idle.
        ([(-np.inf, 1.0), (-2.0, 2.0), free], [-0.5, 0.0, 0.0]),
        # x >= 3 holds at (3, 1), where the gradient is (2, 0).
        ([free, (3.0, np.inf), free], [0.0, 2.0, 0.0]),
        # x - y = 1 at (1.5, .5), where the gradient is (.5, -.5).
        ([free, free, (1.0, 1.0)], [0.0, 0.0, 0.5]),
    ):
        lower, upper = np.array(rows).T
        system = LinearInequalities(matrix, lower, upper)
        multipliers = quadratic_multipliers(system, slope, np.ones(2))
        assert_allclose(multipliers, expected, rtol=0, atol=SOLVER["CLARABEL"])


def test_a_quadratic_program_without_a_feasible_point_has_no_multipliers():
    matrix = sparse.csr_array([[1.0], [1.0]])
    system = LinearInequalities(matrix, np.array([1.0, -np.inf]), np.array([np.inf, 0.0]))
    assert quadratic_multipliers(system, np.zeros(1), np.ones(1)) is None


def test_multipliers_of_a_linear_program_by_hand():
    # -x - 2y under x + y <= 1, x - y >= -0.5 and x = 0.25 is smallest at (.25, .75).
    matrix = sparse.csr_array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0]])
    lower = np.array([-np.inf, -0.5, 0.25])
    upper = np.array([1.0, np.inf, 0.25])
    solution = LinearProgram(LinearInequalities(matrix, lower, upper)).minimise(
        np.array([-1.0, -2.0])
    )
    assert_allclose(solution.point, [0.25, 0.75], rtol=0, atol=SOLVER["CLARABEL"])
    # Both rows hold there. Their multipliers add up to the cost: the cap pulls y down by its cost
    # alone or together with the second row, and x = .25 gets what is left of the first cost.
    cap, floor, fixed = solution.multipliers
    assert cap <= 0 <= floor
    assert_allclose([cap + floor + fixed, cap - floor], [-1.0, -2.0], rtol=0, atol=1e-9)


def test_rows_of_several_parts_stand_below_each_other_with_columns_of_their_own():
    plain = LinearInequalities(sparse.csr_array([[1.0, 2.0]]), np.zeros(1), np.ones(1))
    wider = LinearInequalities(
        sparse.csc_array([[3.0, 0.0], [0.0, 4.0]]),
        np.zeros(2),
        np.full(2, np.inf),
        sparse.coo_array([[5.0, 0.0, 6.0], [0.0, 7.0, 0.0]]),
    )
    system = stacked([plain, wider, plain, wider], 2)
    row = [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert_array_equal(
        system.matrix.toarray(),
        [
            row,
            [3.0, 0.0, 5.0, 0.0, 6.0, 0.0, 0.0, 0.0],
            [0.0, 4.0, 0.0, 7.0, 0.0, 0.0, 0.0, 0.0],
            row,
            [3.0, 0.0, 0.0, 0.0, 0.0, 5.0, 0.0, 6.0],
            [0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 7.0, 0.0],
        ],
    )
    assert_array_equal(system.upper, [1, np.inf, np.inf, 1, np.inf, np.inf])
    assert stacked([plain, plain], 2).matrix.toarray().tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert stacked([], 2).matrix.shape == (0, 2)


def test_sides_are_equations_then_what_is_at_most_its_cap():
    matrix = sparse.csr_array([[1.0, 0.0], [2.0, 3.0], [0.0, 4.0], [5.0, 5.0], [0.0, 0.0]])
    lower = np.array([0.0, 1.0, -np.inf, 2.0, -np.inf])
    upper = np.array([np.inf, 1.0, 6.0, 7.0, np.inf])
    sides = Sides(LinearInequalities(matrix, lower, upper))
    assert_array_equal(
        sides.matrix.toarray(), [[2.0, 3.0], [0.0, 4.0], [5.0, 5.0], [-1.0, 0.0], [-5.0, -5.0]]
    )
    assert_array_equal(sides.values, [1.0])
    assert_array_equal(sides.caps, [6.0, 7.0, 0.0, -2.0])
    multipliers = sides.multipliers(np.array([-1.0]), np.array([-2.0, -3.0, -4.0, -5.0]))
    assert_array_equal(multipliers, [4.0, -1.0, -2.0, 2.0, 0.0])
