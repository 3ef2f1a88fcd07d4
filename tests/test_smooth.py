"""Smooth: its rows with auxiliary variables against cvxpy's norm, and too small domains."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import Problem, certify
from ldpopt.constraints import NonNegative, Smooth, SumsTo
from ldpopt.errors import InvalidInputError
from ldpopt.losses import LeastSquares
from tests.tolerances import GAP, SOLVER

BOUNDS = {
    "variation": {"total_variation": 0.08},
    "bend": {"second_difference": 0.02},
    "both": {"total_variation": 0.08, "second_difference": 0.05},
    "constant": {"total_variation": 0.0},
    "slack": {"total_variation": 1e3},
}


def smoothed(target, total_variation=None, second_difference=None):
    """The projection onto the simplex as cvxpy states it with norms."""
    d = len(target)
    f = cp.Variable(d)
    forms = [f >= 0, cp.sum(f) == d]
    if total_variation is not None:
        forms.append(cp.norm1(cp.diff(f)) <= d * total_variation)
    if second_difference is not None:
        forms.append(cp.norm1(cp.diff(f, 2)) <= d * second_difference)
    cp.Problem(cp.Minimize(cp.sum_squares(f - d * target)), forms).solve(solver="CLARABEL")
    return f.value / d


@pytest.mark.parametrize("solver", ["CLARABEL", "QOCO"])
@pytest.mark.parametrize("kind", BOUNDS)
def test_the_rows_say_what_the_norms_say(kind, solver):
    d = 60
    hill = np.exp(-(((np.arange(d) - 25) / 10) ** 2))
    noisy = hill / hill.sum() + np.random.default_rng(1).normal(0, 0.02, d)
    constraint = Smooth(**BOUNDS[kind])
    assert (constraint.violation(noisy) > 0) == (kind != "slack")
    result = (
        Problem(LeastSquares(), [NonNegative(), SumsTo(), constraint])
        .solve(noisy, solver=solver)
        .frequencies
    )
    assert constraint.violation(result) <= SOLVER[solver]
    assert_allclose(result, smoothed(noisy, **BOUNDS[kind]), rtol=0, atol=SOLVER[solver])


@pytest.mark.parametrize("kind", ["variation", "bend", "both"])
def test_the_gap_sees_the_auxiliary_variables(kind):
    rng = np.random.default_rng(3)
    noisy = rng.dirichlet(np.ones(20)) + rng.normal(0, 0.05, 20)
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(), Smooth(**BOUNDS[kind])])
    best = problem.solve(noisy)
    assert abs(best.certificate.gap) <= GAP * SOLVER["CLARABEL"]
    inside = 0.9 * best.frequencies + 0.1 / 20  # towards the constant, which is smooth
    excess = float(problem.loss.value(inside, best.start)) - best.objective
    assert 0 < excess <= certify(problem, noisy, inside).gap + SOLVER["CLARABEL"]


def test_one_compilation_smooths_a_stack():
    stack = np.random.default_rng(2).normal(0.1, 0.2, (3, 10))
    problem = Problem(LeastSquares(), [SumsTo(), Smooth(total_variation=0.3)])
    together = problem.solve(stack).frequencies
    alone = [Problem(LeastSquares(), problem.constraints).solve(row).frequencies for row in stack]
    assert_allclose(together, alone, rtol=0, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize(
    ("bound", "d"), [({"total_variation": 1}, 1), ({"second_difference": 1}, 2)], ids=str
)
def test_a_domain_without_a_difference_is_refused(bound, d):
    with pytest.raises(InvalidInputError, match=f"needs at least {d + 1} values, got {d}"):
        Problem(LeastSquares(), [Smooth(**bound)]).solve(np.zeros(d))
    Smooth(**bound).validate_for(d + 1)


def test_the_message_of_a_row_is_the_constraint():
    assert Smooth(total_variation=0.5).row_name(3, 5) == "Smooth(total_variation=0.5)"
    assert repr(Smooth(0.5, 0.25)) == "Smooth(total_variation=0.5, second_difference=0.25)"
