"""The solver's path: compiled once, no loop over values, honest about how it ended."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, conic, oracles
from ldpopt.conic import CompiledProblem, Status
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.errors import InfeasibleError, InvalidInputError, SolverError
from ldpopt.losses import GaussianMLE, KullbackLeibler, LeastSquares
from tests.tolerances import SOLVER

SIMPLEX = [NonNegative(), SumsTo(1.0)]
LOSSES = [LeastSquares(), GaussianMLE(), KullbackLeibler()]
TOL = SOLVER[conic.DEFAULT_SOLVER]


def estimate_of(f, oracle=oracles.OUE, epsilon=1.0):
    return FrequencyEstimate(f, n=10_000, oracle=oracle(epsilon=epsilon, d=np.shape(f)[-1]))


def compile_for(loss, d):
    estimate = estimate_of(np.linspace(0.0, 0.5, d))
    return CompiledProblem(loss, SIMPLEX, loss.data(estimate), loss.constants(estimate), conic.DEFAULT_SOLVER)


FIRST = np.array([0.5, 0.3, 0.25, -0.05])
SECOND = np.array([0.1, 0.05, 0.6, 0.4])


# --- compilation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_solving_again_reuses_the_compilation(loss):
    assert compile_for(loss, 6).is_dpp


def nodes(expression):
    """Return the size of a cvxpy expression tree: a loop over the values would show in it."""
    return 1 + sum(map(nodes, expression.args))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_neither_constraints_nor_expressions_grow_with_the_domain(loss):
    small, large = (compile_for(loss, d)._problem for d in (5, 50))
    assert len(small.constraints) == len(large.constraints) <= 3
    assert nodes(small.objective) == nodes(large.objective)
    assert list(map(nodes, small.constraints)) == list(map(nodes, large.constraints))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_second_estimate_gets_its_own_answer(loss):
    problem = Problem(loss, SIMPLEX)
    for f in (FIRST, SECOND, FIRST):
        found = problem.solve(estimate_of(f), path="conic").frequencies
        assert_allclose(found, problem.solve(estimate_of(f)).frequencies, rtol=0, atol=TOL)
    assert len(problem._compiled) == 1


def test_another_size_or_kappa_is_compiled_apart():
    problem = Problem(GaussianMLE(), SIMPLEX)
    for estimate in (estimate_of(FIRST), estimate_of(FIRST[:3]), estimate_of(FIRST, oracles.SUE)):
        found = problem.solve(estimate, path="conic").frequencies
        assert_allclose(found, problem.solve(estimate).frequencies, rtol=0, atol=TOL)
    assert len(problem._compiled) == 3


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_stack_is_solved_trial_by_trial(loss):
    problem, stack = Problem(loss, SIMPLEX), estimate_of(np.stack([FIRST, SECOND]))
    found = problem.solve(stack, path="conic")
    assert found.status is Status.OPTIMAL
    assert_allclose(found.frequencies, problem.solve(stack).frequencies, rtol=0, atol=TOL)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_above_the_parametric_limit_the_estimate_is_a_constant_and_the_answer_the_same(loss, monkeypatch):
    problem = Problem(loss, SIMPLEX)
    compiled = problem.solve(estimate_of(FIRST), path="conic").frequencies
    monkeypatch.setattr(conic, "_PARAMETRIC", len(FIRST) - 1)
    uncompiled = problem.solve(estimate_of(np.stack([FIRST, SECOND])), path="conic").frequencies
    assert len(problem._compiled) == 1  # nothing new is kept
    assert_allclose(uncompiled[0], compiled, rtol=0, atol=TOL)
    assert_allclose(uncompiled[1], problem.solve(estimate_of(SECOND)).frequencies, rtol=0, atol=TOL)


# --- solvers --------------------------------------------------------------------------------------


def test_an_unknown_solver_is_answered_with_the_installed_ones():
    with pytest.raises(SolverError, match=r"'CLARABLE'.* CLARABEL, .*OSQP"):
        Problem(LeastSquares(), SIMPLEX).solve(FIRST, solver="CLARABLE")


@pytest.mark.parametrize("loss", [GaussianMLE(), KullbackLeibler()], ids=repr)
def test_a_solver_that_does_not_take_the_problem_says_so(loss):
    with pytest.raises(SolverError, match="OSQP cannot take this problem"):
        Problem(loss, SIMPLEX).solve(estimate_of(FIRST), path="conic", solver="OSQP")


def test_settings_exist_for_every_solver_that_the_tests_use():
    assert set(SOLVER) <= set(conic.SETTINGS["high"]) == set(conic.SETTINGS["low"])
    assert conic.DEFAULT_SOLVER in conic.installed_solvers()


# --- how it ended ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "options"), [("CLARABEL", {"max_iter": 2}), ("OSQP", {"max_iter": 1}), ("SCS", {"max_iters": 1})]
)
def test_a_solver_that_was_stopped_is_inaccurate_and_its_point_is_not_certified(solver, options):
    solution = Problem(LeastSquares(), SIMPLEX).solve(FIRST, solver=solver, **options)
    assert solution.status is Status.INACCURATE
    assert solution.status != "optimal"
    assert not solution.certificate.is_optimal(1e-9)


def test_one_stopped_trial_marks_the_stack():
    stack = np.stack([np.full(4, 0.25), np.array([9.0, -4.0, 0.3, 0.2])])
    problem = Problem(LeastSquares(), SIMPLEX)
    limits = [problem.solve(row, solver="CLARABEL", max_iter=limit).status for limit in range(2, 15) for row in stack]
    assert {Status.OPTIMAL, Status.INACCURATE} == set(limits)
    separating = next(i for i in range(0, len(limits), 2) if limits[i] != limits[i + 1])
    limit = 2 + separating // 2
    for order in (stack, stack[::-1]):
        assert problem.solve(order, solver="CLARABEL", max_iter=limit).status is Status.INACCURATE


@pytest.mark.parametrize("status", Status)
def test_a_status_equals_its_short_name_and_carries_an_explanation(status):
    assert status == status.value == str(status)
    assert " " not in status.value
    assert len(status.explanation.split()) > 5


def test_inaccurate_is_not_optimal():
    assert Status.OPTIMAL == "optimal" != Status.INACCURATE == "inaccurate"


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
def test_a_solver_that_proves_infeasibility_raises(solver):
    class Half(NonNegative):
        def cone_form(self, f):
            return [f >= 0.5]

    problem = Problem(LeastSquares(), [Half(), SumsTo(1.0)])
    with pytest.raises(InfeasibleError, match=f"no vector satisfies the constraints .{solver}"):
        problem.solve(FIRST, path="conic", solver=solver)


def test_a_problem_without_minimum_returns_no_point():
    class Slope(LeastSquares):
        def cone_form(self, f, data, constants):
            return f @ data[0], []

    with pytest.raises(SolverError, match="returned no point"):
        Problem(Slope()).solve(FIRST, path="conic")


def test_an_option_that_the_solver_does_not_know_is_an_error():
    with pytest.raises((InvalidInputError, TypeError), match="no_such_option"):
        Problem(LeastSquares(), SIMPLEX).solve(FIRST, solver="CLARABEL", no_such_option=1)


def test_the_solvers_residue_outside_the_support_is_removed():
    solution = Problem(KullbackLeibler(), SIMPLEX).solve([0.5, 0.25, -0.1], path="conic")
    assert solution.frequencies[2] == 0
    assert np.isfinite(solution.objective)
