"""Multipliers of a cone solver after their repair: what they leave costs less."""

import cvxpy as cp
import numpy as np
import pytest

from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones.compiled_problem import compiled_problem
from ldpopt.solve.certificate.cones.conic_program import Multipliers
from ldpopt.solve.certificate.cones.open_variables import ranges_below
from ldpopt.solve.certificate.cones.repair import repaired

D = 200


@pytest.fixture(scope="module")
def deviations():
    """Absolute deviations on the simplex, as Clarabel sees and solves them, and their ranges."""
    rng = np.random.default_rng(4)
    x = cp.Variable(D)
    target = rng.dirichlet(np.ones(D)) + rng.normal(0, 0.01, D)
    objective = 100 * cp.norm1(x - target) + cp.sum_squares(x)
    problem = cp.Problem(cp.Minimize(objective), [x >= 0, cp.sum(x) == 1])
    program = compiled_problem(problem).program
    solved = program.solve(1e-9)
    value = program.value(solved.x)[0]
    box = ranges_below(program, value, 1 + abs(value))
    return program, solved._replace(x=np.clip(solved.x, box.lower, box.upper)), box


def rise(program, point, box):
    return program.rise(point, box, program.curvature).value


def test_residuals_of_many_auxiliary_variables_cost_next_to_nothing_after_it(deviations):
    program, solved, box = deviations
    noise = 1e-7 * np.random.default_rng(1).normal(size=len(solved.z))
    noisy = solved._replace(z=solved.z + noise)
    better = repaired(program, noisy, box)
    assert rise(program, better, box) < rise(program, noisy, box) / 10


def test_a_total_s_multiplier_is_the_best_one_wherever_it_was(deviations):
    program, solved, box = deviations
    total = int(np.argmax(np.diff(program.matrix[: program.cones.zero].tocsr().indptr)))
    at_best = rise(program, repaired(program, solved, box), box)
    for step in (-1e-4, 1e-4, 1.0):
        z = solved.z.copy()
        z[total] += step
        moved = repaired(program, solved._replace(z=z), box)
        assert rise(program, moved, box) == pytest.approx(at_best, rel=1e-3)


@pytest.mark.parametrize("number", [1e308, -1e308, 0.0])
def test_numbers_near_the_end_of_the_doubles_are_repaired_or_left_out(deviations, number):
    program, solved, box = deviations
    planted = Multipliers(solved.x, np.full(len(solved.z), number))
    result = repaired(program, planted, box)
    assert result is None or np.isfinite(result.z).all()


@pytest.mark.parametrize("is_many", [False, True], ids=["one row", "many rows"])
def test_residuals_of_auxiliary_variables_vanish_from_either_side(is_many):
    """Those of 20 variables t, by the multiplier of their sum or by one of each t too."""
    x = cp.Variable(20)
    t = cp.Variable(20)
    rows = [t >= 0.1] if is_many else []
    objective = cp.Minimize(np.arange(20) @ t) if is_many else cp.Minimize(-cp.sum(t))
    problem = cp.Problem(objective, [cp.sum(x) == 1, x >= 0, cp.sum(t) <= 3, *rows])
    program = compiled_problem(problem).program
    solved = program.solve(1e-9)
    noisy = solved._replace(z=solved.z * (1 + 1e-6))
    box = Box(np.full(len(program.linear), -10.0), np.full(len(program.linear), 10.0))
    variables = np.flatnonzero(program.linear)

    def left(point):
        return np.abs((program.linear + program.matrix.T @ point.z)[variables]).max()

    assert left(noisy) > 5e-7
    assert left(repaired(program, noisy, box)) < 1e-12


def test_without_an_equation_of_several_variables_there_is_nothing_to_move():
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [x >= 0, x[0] == 1, x <= 2])
    program = compiled_problem(problem).program
    solved = program.solve(1e-9)
    assert repaired(program, solved, ranges_below(program, 3.0, 4.0)) is None
