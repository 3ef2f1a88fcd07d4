"""Stacks that several processes solve: the same points, bit by bit, for any number of them."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ldpopt import Problem, progress
from ldpopt.constraints import Custom, NonNegative, SumsTo
from ldpopt.errors import InvalidInputError, SolverError, WorkersError
from ldpopt.executors import InProcess
from ldpopt.losses import KullbackLeibler, LeastSquares
from ldpopt.solve import jobs
from ldpopt.solve.paths import conic
from ldpopt.solve.solvers import installed_solvers

SIMPLEX = [NonNegative(), SumsTo(1.0)]
# A lambda: no other process could be given it.
BALL = Custom(lambda f: [cp.norm(f - 0.2) <= 0.2])
STACK = np.random.default_rng(1).normal(0.2, 0.2, (3, 5))


@pytest.fixture
def ran(monkeypatch):
    """Let jobs run in this process, packed and unpacked as for another one; count them."""
    seen = []
    original = jobs.run
    monkeypatch.setattr(jobs, "run", lambda job: seen.append(job) or original(job))
    monkeypatch.setattr(conic, "executor_for", lambda workers: InProcess())
    return seen


@pytest.mark.parametrize("solver", ["CLARABEL", "QOCO", "SCS", "OSQP", "PIQP", "HIGHS"])
def test_points_do_not_depend_on_where_trials_are_solved(solver, ran):
    if solver not in installed_solvers():
        pytest.skip(f"{solver} is not installed")
    curved = [BALL] if solver in ("CLARABEL", "QOCO", "SCS") else []
    problem = Problem(LeastSquares(), [*SIMPLEX, *curved])
    here = problem.solve(STACK, path="conic", solver=solver)
    there = problem.solve(STACK, path="conic", solver=solver, workers=2)
    assert len(ran) == len(STACK)
    assert_array_equal(there.frequencies, here.frequencies)
    assert (there.status, there.iterations) == (here.status, here.iterations)
    assert there.solver_seconds > 0


def test_the_stack_of_a_curved_loss_is_the_same_too(ran):
    problem = Problem(KullbackLeibler(), [*SIMPLEX, BALL])
    here, there = (problem.solve(np.abs(STACK), path="conic", workers=n) for n in (1, 2))
    assert len(ran) == len(STACK)
    assert_array_equal(there.frequencies, here.frequencies)


def test_an_error_of_a_solver_is_the_same_wherever_it_runs(ran):
    problem = Problem(LeastSquares(), [*SIMPLEX, BALL])
    with pytest.raises(SolverError, match="no_such_option"):
        problem.solve(STACK, path="conic", workers=2, no_such_option=1)
    assert ran


def test_workers_that_died_end_the_solve(monkeypatch):
    """The trial that killed them may not be tried again in the caller's process."""

    class Killed:
        def run(self, function, work, *, in_order):
            return ((job, WorkersError("a worker process died")) for job in work)

    monkeypatch.setattr(conic, "executor_for", lambda workers: Killed())
    with pytest.raises(WorkersError, match="a worker process died"):
        Problem(LeastSquares(), [*SIMPLEX, BALL]).solve(STACK, path="conic", workers=2)


def test_one_vector_and_one_worker_need_no_other_process(ran):
    problem = Problem(LeastSquares(), [*SIMPLEX, BALL])
    problem.solve(STACK[0], workers=2)
    problem.solve(STACK, workers=1)
    assert not ran


@pytest.mark.parametrize("workers", [0, -1])
def test_a_wrong_number_of_workers_is_refused(workers):
    with pytest.raises(InvalidInputError, match="workers"):
        Problem(LeastSquares(), SIMPLEX).solve(STACK, workers=workers)


def test_a_bar_counts_trials_beside_the_results(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    problem = Problem(LeastSquares(), [*SIMPLEX, BALL])
    expected = problem.solve(STACK).frequencies
    assert_array_equal(problem.solve(STACK, show_progress=True).frequencies, expected)
    captured = capsys.readouterr()
    assert not captured.out
    assert "CLARABEL" in captured.err
