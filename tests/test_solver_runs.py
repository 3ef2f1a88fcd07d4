"""How a solver is run: output, warm starts, time limits, what it reports, and the cvxpy problem."""

import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cvxpy.reductions.solvers.solving_chain import SolvingChain
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, losses
from ldpopt.constraints import Custom, Monotone, NonNegative, SumsTo
from ldpopt.errors import InvalidInputError, LdpoptWarning, SolverError
from ldpopt.solve.paths.conic import CompiledProblem, ConicPath
from ldpopt.solve.programs.solvers import SOLVERS, by_name, installed_solvers
from ldpopt.solve.programs.solvers import settings as solver_settings
from tests.tolerances import SOLVER

D = 12
RNG = np.random.default_rng(0)
Y = RNG.dirichlet(np.ones(D)) + RNG.normal(0, 0.02, D)
SIMPLEX = [NonNegative(), SumsTo(1.0)]
PROBLEM = Problem(losses.LeastSquares(), [*SIMPLEX, Monotone([0, 1, 2])])
RUNS = [name for name in SOLVERS if name in installed_solvers()]


@pytest.mark.parametrize("solver", RUNS)
def test_a_warm_start_changes_no_answer(solver):
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    for shift in (0.0, 0.01, -0.02):
        estimate = Y + shift * np.sin(np.arange(D))
        warm = problem.solve(estimate, solver=solver, warm_start=True)
        assert_allclose(
            warm.frequencies,
            problem.solve(estimate).frequencies,
            rtol=0,
            atol=max(SOLVER[solver], 1e-6),
        )


LOOSE = {"primal_feasibility_tolerance": 1e-3}


def test_options_in_a_dictionary_of_highs_go_before_settings():
    nested = {"highs_options": LOOSE, "presolve": "off"}
    given = by_name("HIGHS", nested)
    assert given == {**LOOSE, "presolve": "off"}
    assert nested["highs_options"] is LOOSE
    assert solver_settings("HIGHS", "high", given)["primal_feasibility_tolerance"] == 1e-3
    # cvxpy knows the dictionary of HiGHS alone.
    assert by_name("SCIP", {"scip_params": {}}) == {"scip_params": {}}


@pytest.mark.parametrize("accuracy", ["low", "default", "high"])
def test_highs_takes_options_in_a_dictionary(accuracy):
    plain = Problem(losses.LeastSquares(), SIMPLEX)
    nested = {"highs_options": {"primal_feasibility_tolerance": 1e-9, "time_limit": 100.0}}
    solution = plain.solve(Y, solver="HIGHS", accuracy=accuracy, time_limit=50.0, **nested)
    assert_allclose(solution.frequencies, plain.solve(Y).frequencies, rtol=0, atol=SOLVER["HIGHS"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"highs_options": LOOSE, **LOOSE}, "HIGHS gets the option primal_fea.* twice: 0.001, and"),
        (
            {"highs_options": 3},
            "highs_options must be a dictionary from names of options .*, got 3",
        ),
        ({"highs_options": {"no_such": 1}}, "HIGHS does not take the option no_such=1"),
    ],
)
def test_wrong_options_of_highs_are_named(options, message):
    with pytest.raises(SolverError, match=message):
        Problem(losses.LeastSquares(), SIMPLEX).solve(Y, solver="HIGHS", **options)


@pytest.mark.parametrize(
    ("solver", "option"), [("CLARABEL", {"max_iter": 2}), ("OSQP", {"time_limit": 1e-5})]
)
def test_an_option_of_one_solve_does_not_stay_for_a_warm_start(solver, option):
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, Custom(lambda f: f[0] >= f[1])])
    problem.solve(Y, solver=solver, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops before it has an answer
        problem.solve(Y, solver=solver, **option)
    assert problem.solve(Y, solver=solver, warm_start=True).status == "optimal"


def test_printing_does_not_stay_for_a_warm_start(monkeypatch):
    # QOCO, once it has printed, goes on for as long as cvxpy keeps it.
    warm = []
    monkeypatch.setattr(SolvingChain, "solve_via_data", _noting(warm, SolvingChain.solve_via_data))
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, Custom(lambda f: f[0] >= f[1])])
    for verbose in (False, False, True, False):
        problem.solve(Y, solver="QOCO", warm_start=True, verbose=verbose)
    assert warm == [False, True, False, False]


def _noting(warm, solve):
    """Return a solve that notes whether it may start at the result of the one before."""

    def noting(*arguments, warm_start, **options):
        warm.append(warm_start)
        return solve(*arguments, warm_start=warm_start, **options)

    return noting


def test_no_other_thread_solves_while_a_compiled_problem_holds_numbers(monkeypatch):
    conic = ConicPath()
    free = []
    solve = CompiledProblem.solve

    def watched(*arguments):
        with ThreadPoolExecutor(1) as other:
            free.append(other.submit(conic._one_at_a_time.acquire, blocking=False).result())
        return solve(*arguments)

    monkeypatch.setattr(CompiledProblem, "solve", watched)
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    settings = solver_settings("CLARABEL", "high", {})
    conic.solve(problem, problem.accept(Y), "CLARABEL", settings, {})
    assert free == [False]
    assert conic._one_at_a_time.acquire(blocking=False)


def test_a_warm_start_at_the_answer_takes_no_more_steps():
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    cold = problem.solve(Y, solver="SCS", warm_start=True)
    warm = problem.solve(Y, solver="SCS", warm_start=True)
    assert warm.iterations < cold.iterations


def test_a_solver_prints_only_if_that_is_requested(capfd):
    PROBLEM.solve(Y, solver="OSQP")
    assert capfd.readouterr().out == ""
    PROBLEM.solve(Y, solver="OSQP", verbose=True)
    assert "OSQP" in capfd.readouterr().out


def test_highs_prints_its_name_only_if_that_is_requested():
    """It does so once per process, when its first object is made: the quiet solve comes first."""
    pytest.importorskip("highspy")
    script = (
        "from ldpopt import Problem, constraints, losses\n"
        "simplex = [constraints.NonNegative(), constraints.SumsTo(1)]\n"
        "problem = Problem(losses.LeastAbsolute(), simplex)\n"
        "for verbose in (False, True):\n"
        "    problem.solve([0.7, 0.4, -0.1], solver='HIGHS', verbose=verbose)\n"
        "    print('a result')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    quiet, verbose, rest = done.stdout.split("a result\n")
    assert (quiet, rest) == ("", ""), done.stderr
    assert "HiGHS" in verbose
    assert done.stderr == ""


@pytest.mark.parametrize("solver", RUNS)
def test_a_time_limit_has_one_name_for_all_solvers(solver):
    if SOLVERS[solver].time_limit is None:
        with pytest.raises(SolverError, match=rf"{solver} has no time limit.* one of CLARABEL"):
            PROBLEM.solve(Y, solver=solver, time_limit=10.0)
        return
    solution = PROBLEM.solve(Y, solver=solver, time_limit=10.0)
    assert solution.status == "optimal"
    with pytest.raises(InvalidInputError, match=r"time_limit must be .* > 0"):
        PROBLEM.solve(Y, solver=solver, time_limit=0)


def test_a_solver_that_runs_out_of_time_is_inaccurate():
    noisy = np.random.default_rng(1).dirichlet(np.ones(400)) + 0.01
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    with pytest.warns(LdpoptWarning, match="stopped before it met its tolerances"):
        solution = problem.solve(noisy, solver="SCS", time_limit=1e-9, max_iters=100_000)
    assert solution.status == "inaccurate"


def test_what_a_solver_reports_is_there_for_each_trial():
    one = PROBLEM.solve(Y, path="conic")
    assert one.solver_stats.solver_name == "CLARABEL"
    assert one.solver_stats.num_iters == one.iterations > 0
    stack = PROBLEM.solve(np.stack([Y, Y[::-1]]), path="conic")
    assert len(stack.solver_stats) == 2
    assert sum(stats.num_iters for stats in stack.solver_stats) == stack.iterations
    assert PROBLEM.solve(Y).solver_stats is None
    # Reports of some solvers hold objects of their own, which do not pickle.
    by_osqp = PROBLEM.solve(Y, solver="OSQP")
    for solution in (one, stack, by_osqp):
        again = pickle.loads(pickle.dumps(solution))
        assert again.iterations == solution.iterations
        assert_allclose(again.frequencies, solution.frequencies, rtol=0, atol=0)


@pytest.mark.parametrize(
    "loss",
    [
        losses.LeastSquares(),
        losses.Huber(0.02),
        losses.LeastSquares() + 0.05 * losses.Entropy(),
        losses.LeastAbsolute() + losses.LeastSquares(),
    ],
    ids=repr,
)
def test_the_cvxpy_problem_has_the_same_minimum(loss):
    problem = Problem(loss, [*SIMPLEX, Custom(lambda f: f[0] <= 0.1)])
    stated = problem.to_cvxpy(Y)
    stated.solve(solver="CLARABEL")
    f = stated.var_dict["f"].value
    expected = problem.solve(Y)
    assert problem.violation(f) <= 1e-6
    assert float(problem.loss.value(f, FrequencyEstimate(Y))) == pytest.approx(
        expected.objective, abs=1e-6
    )


def test_the_cvxpy_problem_is_that_of_one_vector():
    with pytest.raises(InvalidInputError, match=r"one vector, not a stack.*estimate\[0\]"):
        PROBLEM.to_cvxpy(np.stack([Y, Y]))
