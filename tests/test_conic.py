"""The solver's path: compiled once, no loop over values, honest about how it ended."""

import dataclasses
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, constraints, losses, oracles, priors
from ldpopt.constraints import Constraint, Near, NonNegative, SumsTo
from ldpopt.errors import (
    InfeasibleError,
    InvalidInputError,
    LdpoptWarning,
    SolverError,
    UnsupportedProblemError,
)
from ldpopt.losses import (
    BinomialMLE,
    GaussianMLE,
    KullbackLeibler,
    LeastAbsolute,
    LeastSquares,
    MultinomialMLE,
    NormalisedGaussianMLE,
    PerReportMLE,
    PosteriorMean,
    WeightedLeastSquares,
)
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths import conic
from ldpopt.solve.paths.conic import CompiledProblem
from ldpopt.solve.planner import Planner, Request
from ldpopt.solve.programs import program, solvers
from ldpopt.solve.programs.solvers import DEFAULT_SOLVER, SOLVERS
from ldpopt.solve.second_try import remedy
from ldpopt.solve.status import Status
from tests.tolerances import OBJECTIVE, SOLVER, UNPOLISHED

SIMPLEX = [NonNegative(), SumsTo(1.0)]
SIMPLE = Problem(LeastSquares(), SIMPLEX)
LOSSES = [LeastSquares(), GaussianMLE(), KullbackLeibler()]
TOL = SOLVER[DEFAULT_SOLVER]
OPTIONAL = [solver.name for solver in SOLVERS.values() if solver.extra]


def estimate_of(f, oracle=oracles.OUE, epsilon=1.0):
    return FrequencyEstimate(f, n=10_000, oracle=oracle(epsilon=epsilon, d=np.shape(f)[-1]))


def compile_for(loss, d):
    estimate = estimate_of(np.linspace(0.0, 0.5, d))
    return CompiledProblem(
        Formulation(loss, SIMPLEX), loss.data(estimate), loss.constants(estimate), DEFAULT_SOLVER
    )


FIRST = np.array([0.5, 0.3, 0.25, -0.05])
SECOND = np.array([0.1, 0.05, 0.6, 0.4])


# --- effort ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", "SCS"])
def test_a_solvers_iterations_are_counted_over_all_trials(solver):
    problem = Problem(LeastSquares(), SIMPLEX)
    first, second = (problem.solve(f, solver=solver).iterations for f in (FIRST, SECOND))
    assert min(first, second) > 0
    assert problem.solve(np.stack([FIRST, SECOND]), solver=solver).iterations == first + second
    assert problem.solve(FIRST).iterations == 0  # a closed form


# --- compilation ----------------------------------------------------------------------------------


def reuses_its_compilation(compiled):
    """Return whether cvxpy keeps what it compiled when parameters change (DPP)."""
    return compiled._program.problem.is_dcp(dpp=True)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_solving_again_reuses_the_compilation(loss):
    assert reuses_its_compilation(compile_for(loss, 6))


def nodes(expression):
    """Return the size of a cvxpy expression tree: a loop over the values would show in it."""
    return 1 + sum(map(nodes, expression.args))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_neither_constraints_nor_expressions_grow_with_the_domain(loss):
    small, large = (compile_for(loss, d)._program.problem for d in (5, 50))
    assert len(small.constraints) == len(large.constraints) <= 3
    assert nodes(small.objective) == nodes(large.objective)
    assert list(map(nodes, small.constraints)) == list(map(nodes, large.constraints))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_second_estimate_gets_its_own_answer(loss):
    problem = Problem(loss, SIMPLEX)
    for f in (FIRST, SECOND, FIRST):
        frequencies = problem.solve(estimate_of(f), path="conic").frequencies
        assert_allclose(frequencies, problem.solve(estimate_of(f)).frequencies, rtol=0, atol=TOL)
    assert len(problem._planner.conic.compiled) == 1


def test_another_size_or_kappa_is_compiled_apart():
    problem = Problem(GaussianMLE(), SIMPLEX)
    for estimate in (estimate_of(FIRST), estimate_of(FIRST[:3]), estimate_of(FIRST, oracles.SUE)):
        frequencies = problem.solve(estimate, path="conic").frequencies
        assert_allclose(frequencies, problem.solve(estimate).frequencies, rtol=0, atol=TOL)
    assert len(problem._planner.conic.compiled) == 3


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_stack_is_solved_trial_by_trial(loss):
    problem = Problem(loss, SIMPLEX)
    stack = estimate_of(np.stack([FIRST, SECOND]))
    numeric = problem.solve(stack, path="conic")
    assert numeric.status is Status.OPTIMAL
    assert_allclose(numeric.frequencies, problem.solve(stack).frequencies, rtol=0, atol=TOL)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_above_the_parametric_limit_the_estimate_is_a_constant_and_the_answer_the_same(
    loss, monkeypatch
):
    problem = Problem(loss, SIMPLEX)
    compiled = problem.solve(estimate_of(FIRST), path="conic").frequencies
    monkeypatch.setattr(conic, "_PARAMETRIC", len(FIRST) - 1)
    uncompiled = problem.solve(estimate_of(np.stack([FIRST, SECOND])), path="conic").frequencies
    assert len(problem._planner.conic.compiled) == 1  # nothing new is kept
    assert_allclose(uncompiled[0], compiled, rtol=0, atol=TOL)
    assert_allclose(uncompiled[1], problem.solve(estimate_of(SECOND)).frequencies, rtol=0, atol=TOL)


# --- solvers --------------------------------------------------------------------------------------


def test_an_unknown_solver_is_answered_with_the_installed_ones():
    with pytest.raises(SolverError, match=r"'CLARABLE'.* CLARABEL, .*OSQP"):
        Problem(LeastSquares(), SIMPLEX).solve(FIRST, solver="CLARABLE")


@pytest.mark.parametrize("loss", [GaussianMLE(), KullbackLeibler()], ids=repr)
def test_a_solver_that_does_not_take_the_problem_says_so(loss):
    able = "CLARABEL, QOCO, SCS" if isinstance(loss, GaussianMLE) else "CLARABEL, SCS"
    match = rf"OSQP cannot take this problem .*; these can: {able}$"
    with pytest.raises(SolverError, match=match):
        Problem(loss, SIMPLEX).solve(estimate_of(FIRST), path="conic", solver="OSQP")


def test_a_solver_that_would_fill_the_memory_is_refused(monkeypatch):
    def with_limit(entries):
        record = dataclasses.replace(SOLVERS["QOCO"], largest_cone=entries)
        monkeypatch.setattr(program, "SOLVERS", SOLVERS | {"QOCO": record})

    ball = Near(np.full(4, 0.25), 0.125)
    problem = Problem(LeastSquares(), [*SIMPLEX, ball])
    right = problem.solve([0.75, 0.5, 0.0, -0.25], path="conic", solver="QOCO").frequencies
    # The cone has an entry per value and one for the radius.
    with_limit(5)
    again = Problem(LeastSquares(), [*SIMPLEX, ball])
    f = again.solve([0.75, 0.5, 0.0, -0.25], path="conic", solver="QOCO").frequencies
    assert_allclose(f, right, rtol=0, atol=0)
    with_limit(4)
    with pytest.raises(UnsupportedProblemError, match="one has 5 entries: more than 4 take"):
        Problem(LeastSquares(), [*SIMPLEX, ball]).solve([0.75, 0.5, 0.0, -0.25], solver="QOCO")


def test_settings_exist_for_every_solver_that_the_tests_use():
    assert set(SOLVER) - {"SCIPY"} == set(SOLVERS)
    assert DEFAULT_SOLVER in solvers.installed_solvers()


# --- how it ended ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "options"),
    [("CLARABEL", {"max_iter": 2}), ("OSQP", {"max_iter": 1}), ("SCS", {"max_iters": 1})],
)
def test_a_solver_that_was_stopped_is_inaccurate_and_its_point_is_not_certified(solver, options):
    with pytest.warns(LdpoptWarning, match=f"inaccurate: {solver} stopped before it met its tol"):
        solution = Problem(LeastSquares(), SIMPLEX).solve(FIRST, solver=solver, **options)
    assert solution.status is Status.INACCURATE
    assert solution.status != "optimal"
    assert not solution.certificate.is_optimal(1e-9)


@pytest.mark.filterwarnings("ignore:the solution is inaccurate")
def test_one_stopped_trial_marks_the_stack():
    stack = np.stack([np.full(4, 0.25), np.array([9.0, -4.0, 0.3, 0.2])])
    problem = Problem(LeastSquares(), SIMPLEX)
    limits = [
        problem.solve(row, solver="CLARABEL", max_iter=limit).status
        for limit in range(2, 15)
        for row in stack
    ]
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
    class Half(Constraint):
        def violation(self, f):
            return np.maximum(0.5 - f.min(axis=-1), 0.0)

        def cone_form(self, f):
            return [f >= 0.5]

    problem = Problem(LeastSquares(), [NonNegative(), Half(), SumsTo(1.0)])
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


# --- accuracy -------------------------------------------------------------------------------------

BIG = np.random.default_rng(0).normal(1 / 60, 0.02, 60)


@pytest.mark.parametrize(
    "solver", ["CLARABEL", "PIQP", "QOCO", "SCS"]
)  # OSQP polishes to the last bit at any
def test_a_higher_accuracy_has_a_smaller_gap(solver):
    problem = Problem(LeastSquares(), SIMPLEX)
    errors = []
    for accuracy in ("low", "high"):
        certificate = problem.solve(BIG, solver=solver, accuracy=accuracy).certificate
        errors.append(max(abs(float(certificate.gap)), float(certificate.violation)))
    assert errors[1] < errors[0] / 10


@pytest.mark.parametrize("path", ["auto", "closed-form", "conic"])
@pytest.mark.parametrize("accuracy", ["hihg", "", None, 1e-9])
def test_an_unknown_accuracy_is_named_on_every_path(path, accuracy):
    with pytest.raises(
        InvalidInputError, match=r"unknown accuracy .*(high|known: low, default, high)"
    ):
        Problem(LeastSquares(), SIMPLEX).solve(FIRST, path=path, accuracy=accuracy)


def options_passed(monkeypatch, solver, **keywords):
    seen = []
    original = CompiledProblem.solve
    monkeypatch.setattr(
        CompiledProblem,
        "solve",
        lambda s, *a: seen.append(a[2]) or original(s, *a),
    )
    Problem(LeastSquares(), SIMPLEX).solve(FIRST, path="conic", solver=solver, **keywords)
    return seen[0]


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_default_passes_nothing_and_options_go_over_settings(solver, monkeypatch):
    assert options_passed(monkeypatch, solver, accuracy="default") == {}
    assert options_passed(monkeypatch, solver, accuracy="low") == SOLVERS[solver].low
    assert options_passed(monkeypatch, solver) == SOLVERS[solver].high


def test_an_option_overrides_a_setting_of_the_accuracy(monkeypatch):
    options = options_passed(monkeypatch, "CLARABEL", tol_feas=1e-3)
    assert options == {**SOLVERS["CLARABEL"].high, "tol_feas": 1e-3}


# --- times ----------------------------------------------------------------------------------------


def test_compilation_is_reported_once_a_shape_and_solver():
    problem = Problem(LeastSquares(), SIMPLEX)
    first, again, smaller, other = (
        problem.solve(f, path="conic", solver=solver)
        for f, solver in (
            (FIRST, "CLARABEL"),
            (SECOND, "CLARABEL"),
            (FIRST[:3], "CLARABEL"),
            (FIRST, "OSQP"),
        )
    )
    assert again.compile_seconds == 0.0
    for solution in (first, smaller, other):
        assert 0 < solution.compile_seconds < solution.seconds
    for solution in (first, again, smaller, other):
        assert 0 < solution.solver_seconds <= solution.seconds - solution.compile_seconds
    closed = problem.solve(FIRST)
    assert closed.compile_seconds == closed.solver_seconds == 0.0


def test_the_proof_is_timed_apart_from_the_path(monkeypatch):
    readings = iter([1.0, 2.0, 4.0, 8.0])
    clock = SimpleNamespace(perf_counter=lambda: next(readings))
    monkeypatch.setattr("ldpopt.solve.problem.time", clock)
    solution = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)]).solve(FIRST)
    # From 1 to 2, and from 4 to 8.
    assert (solution.seconds, solution.proof_seconds) == (1.0, 4.0)


def test_a_stack_reports_the_compilation_of_its_shape_once(monkeypatch):
    compilations = []
    original = CompiledProblem.__init__
    monkeypatch.setattr(
        CompiledProblem, "__init__", lambda s, *a: compilations.append(a) or original(s, *a)
    )
    problem = Problem(LeastSquares(), SIMPLEX)
    assert problem.solve(np.stack([FIRST, SECOND, FIRST]), path="conic").compile_seconds > 0
    assert problem.solve(np.stack([FIRST, SECOND]), path="conic").compile_seconds == 0.0
    assert len(compilations) == 1


# --- every loss, every solver ---------------------------------------------------------------------


def collected(loss, d=6):
    oracle = (oracles.GRR if isinstance(loss, MultinomialMLE) else oracles.OUE)(epsilon=2.0, d=d)
    return oracle.estimate(
        oracle.simulate_counts(np.arange(d)[::-1] * 200, 0), 200 * d * (d - 1) // 2
    )


def reported(d=6):
    oracle = oracles.OUE(epsilon=2.0, d=d)
    reports = oracle.perturb(np.repeat(np.arange(d), np.arange(d)[::-1] * 4), rng=0)
    return PerReportMLE(oracle, reports), oracle.estimate(
        oracle.support_counts(reports), len(reports)
    )


ALL_LOSSES = {
    "least squares": LeastSquares(),
    "weighted": WeightedLeastSquares([1.0, 2.0, 0.5, 1.0, 4.0, 1.0]),
    "gaussian": GaussianMLE(),
    "binomial": BinomialMLE(),
    "multinomial": MultinomialMLE(),
    "divergence": KullbackLeibler(),
    "deviations": LeastAbsolute(),
    "posterior": PosteriorMean(priors.PowerLaw),
    "tilted": NormalisedGaussianMLE().majorant(np.full(6, 1 / 6), collected(None)),
    "reports": reported()[0],
}
QUADRATIC = ("least squares", "weighted", "posterior")
LINEAR = ("deviations",)
EXPONENTIAL = ("binomial", "multinomial", "divergence", "reports")
TAKES = {
    "CLARABEL": tuple(ALL_LOSSES),
    "SCS": tuple(ALL_LOSSES),
    "QOCO": (*QUADRATIC, *LINEAR, "gaussian", "tilted"),
    "OSQP": (*QUADRATIC, *LINEAR),
    "PIQP": (*QUADRATIC, *LINEAR),
    "HIGHS": (*QUADRATIC, *LINEAR),
    "SCIPY": LINEAR,
}


def estimate_for(name):
    return reported()[1] if name == "reports" else collected(ALL_LOSSES[name])


@pytest.mark.parametrize("name", ALL_LOSSES)
def test_every_loss_is_compiled_once(name):
    loss = ALL_LOSSES[name]
    estimate = estimate_for(name)
    compiled = CompiledProblem(
        Formulation(loss, SIMPLEX), loss.data(estimate), loss.constants(estimate), "CLARABEL"
    )
    assert reuses_its_compilation(compiled)


@UNPOLISHED
@pytest.mark.parametrize(
    ("solver", "name"), [(s, name) for s, names in TAKES.items() for name in names]
)
def test_every_solver_solves_what_it_takes(solver, name):
    problem = Problem(ALL_LOSSES[name], SIMPLEX)
    estimate = estimate_for(name)
    exact = problem.solve(estimate)
    assert exact.path != "conic"
    numeric = problem.solve(estimate, path="conic", solver=solver)
    assert (numeric.path, numeric.solver) == ("conic", solver)
    # Of the likelihood of reports no curvature is known.
    assert numeric.status == "optimal" or name == "reports"
    assert numeric.certificate.violation <= SOLVER[solver]
    assert_allclose(numeric.objective, exact.objective, rtol=0, atol=10 * OBJECTIVE)
    if name not in LINEAR:  # which has many minimisers
        curvature = 50 if name in EXPONENTIAL else 1  # flat likelihoods fix the point less well
        assert_allclose(
            numeric.frequencies, exact.frequencies, rtol=0, atol=curvature * SOLVER[solver]
        )


@pytest.mark.parametrize(
    ("solver", "name"),
    [(s, name) for s, names in TAKES.items() for name in ALL_LOSSES if name not in names],
)
def test_every_solver_refuses_what_it_does_not_take(solver, name):
    with pytest.raises(SolverError, match=f"{solver} cannot take this problem"):
        Problem(ALL_LOSSES[name], SIMPLEX).solve(estimate_for(name), path="conic", solver=solver)


@pytest.mark.parametrize("d", [2, 60, 300])
@pytest.mark.parametrize("solver", ["PIQP", "HIGHS"])
def test_the_optional_solvers_solve_least_squares(solver, d):
    problem = Problem(LeastSquares(), SIMPLEX)
    f = np.random.default_rng(d).normal(1 / d, 0.02, d)
    numeric = problem.solve(f, solver=solver)
    assert numeric.status == "optimal"
    assert_allclose(numeric.frequencies, problem.solve(f).frequencies, rtol=0, atol=SOLVER[solver])


@pytest.mark.parametrize("solver", OPTIONAL)
def test_a_missing_optional_solver_is_named_with_its_extra(solver, monkeypatch):
    monkeypatch.setattr(solvers, "installed_solvers", lambda: ("CLARABEL", "SCS"))
    with pytest.raises(
        SolverError,
        match=rf"CLARABEL, SCS; {solver} comes with: pip install 'ldpopt\[solvers\]'",
    ):
        Problem(LeastSquares(), SIMPLEX).solve(FIRST, solver=solver.lower())
    with pytest.raises(SolverError) as error:
        Problem(LeastSquares(), SIMPLEX).solve(FIRST, solver="MOSEK")
    assert "pip" not in str(error.value)


def test_the_extra_brings_the_optional_solvers():
    import tomllib
    from pathlib import Path

    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    extra = " ".join(tomllib.loads(text)["project"]["optional-dependencies"]["solvers"])
    assert {"PIQP": "piqp", "HIGHS": "highspy"}.keys() == set(OPTIONAL)
    assert all(package in extra for package in ("piqp>=", "highspy>="))


def test_a_divergence_of_the_solver_below_zero_is_removed(monkeypatch):
    original = CompiledProblem.solve
    monkeypatch.setattr(
        CompiledProblem,
        "solve",
        lambda *a: dataclasses.replace(
            answer := original(*a), point=answer.point - [0, 0, 1e-2, 0]
        ),
    )
    with pytest.warns(LdpoptWarning, match=r"SumsTo\(1\) is violated by 0\.005"):
        solution = Problem(KullbackLeibler(), SIMPLEX).solve([0.5, 0.3, 0.005, 0.195], path="conic")
    assert solution.frequencies[2] == 0
    assert solution.status is Status.INACCURATE
    assert np.isfinite(solution.objective)


def test_first_order_solvers_get_the_signs_of_absolute_values():
    # Without these rows SCS takes 29,100 steps for this one.
    rng = np.random.default_rng(0)
    start = rng.dirichlet(np.full(48, 0.3)) + rng.normal(0.0, 0.02, 48)
    order = rng.permutation(48)
    near = constraints.Custom(lambda f: cp.tv(f[order]) <= 0.06)
    solution = Problem(LeastSquares(), [*SIMPLEX, near]).solve(start, solver="SCS")
    assert solution.status is Status.OPTIMAL
    assert solution.iterations < 2000
    # cvxpy's own table, which serves other problems, is as it was.
    x = cp.Variable(2)
    data, _, _ = cp.Problem(cp.Minimize(cp.norm1(x))).get_problem_data("SCS")
    assert data["A"].shape == (4, 4)


def test_what_was_tried_for_an_inaccurate_point_is_said():
    problem = Problem(losses.Custom(lambda f, y: cp.norm(f - y)), SIMPLEX)
    assert remedy(problem.plan([0.5, 0.3, 0.1])).startswith("another solver does no better")
    # A closed form that is named has no solver behind it.
    start = FrequencyEstimate([0.5, 0.3])
    named = Planner().plan(SIMPLE, start, Request("closed-form"))
    assert remedy(named) == "see its certificate, or allow more iterations or time"


@pytest.mark.parametrize(
    ("d", "steps"), [(10, 50_000), (300, 50_000), (3_000, 5_000), (10**6, 100)]
)
def test_a_second_try_ends_by_its_work_so_that_a_busy_machine_has_the_same_answer(d, steps):
    assert solvers.patient("SCS", None, d) == {"max_iters": steps, "time_limit_secs": 120.0}
    assert solvers.patient("QOCO", None, d) == {}


def test_a_time_that_was_stated_limits_a_second_try_alone():
    assert solvers.patient("SCS", 3.0, 300) == {"time_limit_secs": 3.0}
