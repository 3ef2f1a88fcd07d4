"""Stacks that several processes solve: the same points, bit by bit, for any number of them."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ldpopt import Problem, progress
from ldpopt.constraints import Custom, NonNegative, SumsTo
from ldpopt.errors import InvalidInputError, LdpoptWarning, SolverError, WorkersError
from ldpopt.executors import InProcess
from ldpopt.losses import KullbackLeibler, LeastSquares
from ldpopt.solve.acceptance import stacks as judging
from ldpopt.solve.acceptance.judge import Judgement
from ldpopt.solve.paths import conic
from ldpopt.solve.programs import jobs
from ldpopt.solve.programs.solvers import installed_solvers
from ldpopt.solve.status import Status

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


def in_ball(f):
    return [cp.norm(f - 0.2) <= 0.2]


@pytest.fixture
def judged_apart(monkeypatch):
    """Let every trial but the first be judged as in another process; count the workers."""
    seen = []
    monkeypatch.setattr(judging, "_WORTHWHILE", 0.0)
    monkeypatch.setattr(judging, "executor_for", lambda n: seen.append(n) or InProcess())
    return seen


@pytest.mark.parametrize("limit", ["the point is good", "the point is bad"])
def test_a_judgement_does_not_depend_on_where_it_is_made(limit, ran, judged_apart, monkeypatch):
    problem = Problem(LeastSquares(), [*SIMPLEX, Custom(in_ball)])
    here = problem.solve(STACK, path="conic")
    if limit == "the point is bad":
        # After one step of the solver no point is near.
        with pytest.warns(LdpoptWarning) as first:
            here = problem.solve(STACK, path="conic", max_iter=1)
        with pytest.warns(LdpoptWarning) as second:
            there = problem.solve(STACK, path="conic", workers=2, max_iter=1)
        assert str(second[0].message) == str(first[0].message)
    else:
        there = problem.solve(STACK, path="conic", workers=2)
    assert judged_apart == [2]
    assert there.status is here.status


def test_what_cannot_be_sent_is_judged_here(ran, judged_apart):
    solution = Problem(LeastSquares(), [*SIMPLEX, BALL]).solve(STACK, path="conic", workers=2)
    assert solution.status is Status.OPTIMAL
    assert judged_apart == []


def test_judging_stays_here_where_it_is_quick(ran, monkeypatch):
    seen = []
    monkeypatch.setattr(judging, "executor_for", lambda n: seen.append(n) or InProcess())
    Problem(LeastSquares(), SIMPLEX).solve(STACK, path="conic", workers=2)
    assert seen == [1]


def test_one_doubtful_trial_of_a_stack_is_noticed(ran, judged_apart, monkeypatch):
    problem = Problem(LeastSquares(), [*SIMPLEX, Custom(in_ball)])
    points = problem.solve(STACK, path="conic").frequencies
    second = points[1, 0]

    def judge(formulation, start, outcome, plan, accuracy):
        is_second = outcome.frequencies[..., 0] == second
        reason = f"{is_second.sum()} of {is_second.size} is the second"
        return Judgement(Status.INACCURATE if is_second.any() else Status.OPTIMAL, reason)

    monkeypatch.setattr(judging, "judge", judge)
    with pytest.warns(LdpoptWarning, match="1 of 1 is the second"):
        solution = problem.solve(STACK, path="conic", workers=2)
    assert solution.status is Status.INACCURATE
