"""Multipliers of programs, by hand."""

import numpy as np
from numpy.testing import assert_allclose
from scipy import sparse

from ldpopt.constraints import LinearInequalities
from ldpopt.solve.programs.program import LinearProgram, quadratic_multipliers
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
