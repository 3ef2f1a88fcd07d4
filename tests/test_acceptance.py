"""What an optimal status promises on every path; no answer is that of a changed problem."""

from contextlib import nullcontext
from dataclasses import FrozenInstanceError, replace
from statistics import NormalDist

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from ldpopt import FrequencyEstimate, Parameter, Problem, certify, oracles
from ldpopt.constraints import (
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Linear,
    LinearInequalities,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
)
from ldpopt.constraints.base import Polyhedron
from ldpopt.errors import InfeasibleError, LdpoptWarning, PrecisionError, SolverError
from ldpopt.losses import (
    BinomialMLE,
    ChannelMLE,
    GaussianMLE,
    KLTo,
    KullbackLeibler,
    L1To,
    LeastAbsolute,
    LeastSquares,
    MaxAbsolute,
    MultinomialMLE,
    NormalisedGaussianMLE,
    PerReportMLE,
    WeightedLeastSquares,
)
from ldpopt.losses import Custom as CustomLoss
from ldpopt.solve import feasibility
from ldpopt.solve.acceptance import stacks as judging
from ldpopt.solve.acceptance.judge import judge
from ldpopt.solve.acceptance.stacks import judged
from ldpopt.solve.certificate import certificate as certificates
from ldpopt.solve.certificate.box import box
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.paths import conic, convex_concave
from ldpopt.solve.paths.closed_forms import CLOSED_FORMS, registry, solves
from ldpopt.solve.paths.closed_forms.lookup import closed_form_for
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.programs.program import ConeProgram
from ldpopt.solve.programs.solvers import Running
from ldpopt.solve.status import ACCURACIES, Status
from tests.every_two import every_two
from tests.test_certificate_soundness import as_if_long
from tests.tolerances import CERTIFIED, SOLVER

SIMPLEX = [NonNegative(), SumsTo(1.0)]
CLS = Problem(LeastSquares(), SIMPLEX)
F = [0.9, 0.6, -0.1]  # its projection is (0.65, 0.35, 0)


class SumAtMost(Polyhedron):
    """Σ f <= limit."""

    def __init__(self, limit):
        self.limit = limit

    def rows(self, d):
        everything = sparse.csr_array(np.ones((1, d)))
        return LinearInequalities(everything, np.array([-np.inf]), np.array([self.limit]))


@pytest.fixture
def registered(monkeypatch):
    """Let a test register closed forms that are gone afterwards."""
    monkeypatch.setattr(CLOSED_FORMS, "_forms", dict(CLOSED_FORMS._forms))
    monkeypatch.setattr(registry, "CLOSED_FORMS", CLOSED_FORMS)
    return solves


# --- closed forms ---------------------------------------------------------------------------------


def test_a_closed_form_of_an_infeasible_problem_is_not_optimal(registered):
    @registered(LeastSquares, NonNegative, SumAtMost, name="clip")
    def clip(loss, estimate, _, limit):
        return np.zeros(estimate.frequencies.shape)

    problem = Problem(LeastSquares(), [NonNegative(), SumAtMost(-1.0)])
    assert problem.plan([0.5, 0.2]).name == "clip"
    with pytest.raises(InfeasibleError, match=r"these conflict: .*; 0 <= f\[0\]"):
        problem.solve([0.5, 0.2])


def test_a_closed_form_outside_the_set_is_inaccurate(registered):
    @registered(LeastSquares, NonNegative, SumAtMost, name="clip")
    def clip(loss, estimate, _, limit):
        return np.maximum(estimate.frequencies, 0.0)

    problem = Problem(LeastSquares(), [NonNegative(), SumAtMost(0.5)])
    with pytest.warns(LdpoptWarning, match=r"SumAtMost.* is violated by 0\.2; see its cert"):
        assert problem.solve([0.5, 0.2], path="closed-form").status == "inaccurate"
    assert problem.solve([0.2, 0.2]).status == "optimal"


def test_a_closed_form_that_is_wrong_on_the_simplex_is_inaccurate(registered, monkeypatch):
    form = CLOSED_FORMS[LeastSquares, frozenset({NonNegative, SumsTo})]
    monkeypatch.delitem(CLOSED_FORMS._forms, (form.loss, frozenset(form.constraints)))

    @registered(LeastSquares, NonNegative, SumsTo, name="uniform")
    def uniform(loss, estimate, _, total):
        return np.full(estimate.frequencies.shape, total.total() / estimate.d)

    # At (1/3, 1/3, 1/3) the gradient is 1/3 - f, of mean -.13: half its squared distance from that
    # is the rise of the loss without the bounds, and the gap of the tangent .43.
    with pytest.warns(LdpoptWarning, match=r"its certified gap is 0\.2"):
        solution = CLS.solve(F, path="closed-form")
    assert (solution.solver, solution.status) == ("uniform", "inaccurate")
    off = np.array([0.9, 0.6, -0.1]) - (0.9 + 0.6 - 0.1) / 3
    rise = solution.objective - CLS.solve(F, path="conic").objective
    assert rise < solution.certificate.gap <= off @ off / 2 * (1 + 1e-12)


def test_two_closed_forms_of_one_problem_are_an_error(registered):
    with pytest.raises(ValueError, match=r"NonNegative, SumsTo is already solved by 'norm-sub'"):
        registered(LeastSquares, NonNegative, SumsTo, name="again")(lambda *_: None)


# --- solvers --------------------------------------------------------------------------------------


def test_a_stopped_solver_warns_with_its_violation():
    with pytest.warns(LdpoptWarning) as record:
        solution = CLS.solve(F, path="conic", solver="OSQP", max_iter=1)
    # Each thing once: what failed, by how much, and what to do.
    assert str(record[0].message) == (
        "the solution is inaccurate: OSQP stopped before it met its tolerances, SumsTo(1) is "
        f"violated by 1 and its certified gap is {solution.certificate.gap:.2g}; allow more "
        "iterations or time, or leave out solver and path: others are tried then, and the point is "
        "polished"
    )
    assert solution.status == "inaccurate"
    assert_allclose(solution.certificate.violation, 1.0)  # it returns the origin


@pytest.mark.parametrize(
    "constraints", [SIMPLEX, [*SIMPLEX, Monotone([0, 1])]], ids=["box", "order"]
)
def test_a_point_that_a_solver_calls_optimal_and_is_not_is_inaccurate(constraints, monkeypatch):
    original = conic.CompiledProblem.solve

    def moved(self, *args):
        result = original(self, *args)
        result.point[:2] += [0.05, -0.05]
        return result

    monkeypatch.setattr(conic.CompiledProblem, "solve", moved)
    # The loss rises by 0.05², half of it for each value that moved.
    with pytest.warns(LdpoptWarning, match=r"inaccurate: its certified gap is 0\.002"):
        assert Problem(LeastSquares(), constraints).solve(F, path="conic").status == "inaccurate"


def test_huge_frequencies_of_one_trial_excuse_no_violation_of_another(monkeypatch):
    problem = Problem(LeastSquares(), [SumsTo(1.0)])
    start = FrequencyEstimate([[1e9, -1e9], [0.5, 0.2]])
    # The second trial stays where it was, where the loss is 0 and the total 0.7.
    point = np.array([[1e9 + 0.5, -1e9 + 0.5], [0.5, 0.2]])
    match = closed_form_for(problem, start)._replace(evaluate=lambda: point)
    monkeypatch.setattr("ldpopt.solve.planner.closed_form_for", lambda *_: match)
    with pytest.warns(LdpoptWarning, match=r"violated by 0\.3"):
        assert problem.solve(start, path="closed-form").status == "inaccurate"


def test_a_solver_is_behind_a_closed_form_that_is_wrong_on_some_trials(monkeypatch):
    match = closed_form_for(CLS, FrequencyEstimate([F, F]))
    right = match.evaluate()
    wrong = right + np.array([[0.1, -0.1, 0.0], [0.0, 0.0, 0.0]])
    changed = match._replace(evaluate=lambda: wrong)
    monkeypatch.setattr("ldpopt.solve.planner.closed_form_for", lambda *_: changed)
    solution = CLS.solve([F, F])
    assert (solution.solver, solution.status) == ("norm-sub, CLARABEL", "optimal")
    assert_allclose(solution.frequencies, right, rtol=0, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("trials", [None, 2])
def test_a_solver_is_behind_a_closed_form_that_is_beyond_double_precision(trials, monkeypatch):
    """Of a stack it gets the trials that the form cannot solve by itself."""
    original = closed_form_for

    def fragile(problem, estimate, **further):
        match = original(problem, estimate, **further)

        def evaluate():
            if (estimate.frequencies == F).all(axis=-1).any():
                raise PrecisionError("too coarse")
            return match.evaluate()

        return match._replace(evaluate=evaluate)

    easy = [0.5, 0.3, 0.2]
    start = F if trials is None else [F, easy]
    expected = CLS.solve(start).frequencies
    for module in ("planner", "problem"):
        monkeypatch.setattr(f"ldpopt.solve.{module}.closed_form_for", fragile)
    solution = CLS.solve(start)
    assert (solution.solver, solution.status) == ("norm-sub, CLARABEL", "optimal")
    assert_allclose(solution.frequencies, expected, rtol=0, atol=SOLVER["CLARABEL"])
    if trials is not None:
        assert_array_equal(solution.frequencies[1], expected[1])
    assert_array_equal(CLS.minimise(start), solution.frequencies)
    with pytest.raises(PrecisionError, match="too coarse"):
        CLS.solve(start, path="closed-form")


def test_beyond_double_precision_an_error_is_better_than_an_inaccurate_point():
    """The last bit of these estimates is worth more than the total, for solvers too."""
    problem = Problem(LeastSquares(), [Bounds(0.0, 0.8), SumsTo(1.0)])
    estimate = FrequencyEstimate([[0.1, 0.2], [1e17, 1e17]])

    def evaluate():
        raise PrecisionError("trial 1 is beyond double precision")

    for trial in (0, 1):
        match = closed_form_for(problem, estimate[trial])._replace(evaluate=evaluate)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ldpopt.solve.planner.closed_form_for", lambda *_, m=match: m)
            if trial == 0:
                assert problem.solve(estimate[trial]).status == "optimal"
                continue
            with pytest.raises(PrecisionError, match="trial 1 is beyond double precision"):
                problem.solve(estimate[trial])


def test_no_solver_is_behind_the_closed_form_of_a_long_vector(monkeypatch):
    """It would take minutes for what the form says at once."""
    assert CLS.plan(F).again is not None
    monkeypatch.setattr("ldpopt.solve.planner.LARGEST", 2)
    assert CLS.plan(F).again is None


@pytest.mark.parametrize("kind", ["curved", "rows"])
def test_points_of_solvers_are_judged_by_their_gap_at_every_size(kind, monkeypatch):
    d = feasibility.LARGEST + 2
    target = np.full(d, 1 / d)
    target[:2] += [0.7, -0.1]
    more = {
        "curved": Custom(lambda f: [cp.norm(f - 1 / d) <= 0.4]),
        "rows": Linear(sparse.csr_array(([1.0, -1.0], ([0, 0], [0, 1])), shape=(1, d)), upper=0.5),
    }
    problem = Problem(LeastSquares(), [*SIMPLEX, more[kind]])
    solution = problem.solve(target, path="conic")
    assert solution.status == "optimal"
    original = conic.CompiledProblem.solve

    def moved(self, *args):
        result = original(self, *args)
        return replace(result, point=result.point * 0.5 + 0.5 / d)

    monkeypatch.setattr(conic.CompiledProblem, "solve", moved)
    with pytest.warns(LdpoptWarning, match="its certified gap is"):
        assert problem.solve(target, path="conic").status == "inaccurate"


@pytest.mark.parametrize(
    "constraints", [SIMPLEX, [*SIMPLEX, Monotone([0, 1])]], ids=["box", "order"]
)
@pytest.mark.parametrize("status", ["optimal_inaccurate", "user_limit"])
def test_a_right_point_is_optimal_whatever_the_solver_says_of_it(status, constraints, monkeypatch):
    original = ConeProgram.solve

    def solve(self, options=None, *more):
        solution = original(self, options, *more)
        return replace(solution, status=status)

    problem = Problem(LeastSquares(), constraints)
    monkeypatch.setattr(ConeProgram, "solve", solve)
    solution = problem.solve(F, path="conic")  # a warning would be an error
    assert solution.status == "optimal"
    assert solution.certificate.gap <= ACCURACIES["high"].gap


def test_a_point_that_comes_with_an_error_of_the_solver_is_not_taken(monkeypatch):
    original = ConeProgram.solve

    def solve(self, options=None, *more):
        solution = original(self, options, *more)
        points = {place: 0 * point + 0.25 for place, point in solution.points.items()}
        return replace(solution, status="solver_error", points=points)

    monkeypatch.setattr(ConeProgram, "solve", solve)
    with pytest.raises(SolverError):
        Problem(LeastSquares(), SIMPLEX).solve(F, path="conic")


def test_the_small_gap_of_a_convex_part_is_no_proof_of_the_problem(monkeypatch):
    monkeypatch.setattr(convex_concave, "MAX_STEPS", 1)
    oracle = oracles.OUE(epsilon=1.0, d=3)
    # Few users: the concave part moves the minimum by more than a step does.
    estimate = oracle.estimate([600, 360, 240], 1_200)
    with pytest.warns(LdpoptWarning, match="convex-concave stopped before"):
        solution = Problem(NormalisedGaussianMLE(), SIMPLEX).solve(estimate)
    assert solution.status == "inaccurate"
    assert solution.certificate.gap <= ACCURACIES["high"].gap * solution.certificate.scale


def test_an_infinite_gap_is_no_proof_of_a_point_at_which_a_solver_stopped():
    oracle = oracles.OUE(epsilon=1.0, d=3)
    estimate = FrequencyEstimate([0.7, 0.4, -0.1], n=1000, oracle=oracle)
    problem = Problem(GaussianMLE(), [Bounds(-0.5, np.inf)])
    with pytest.warns(LdpoptWarning, match="CLARABEL stopped before it met its tolerances"):
        assert problem.solve(estimate, path="conic", max_iter=4).status == "inaccurate"


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", "SCS"])
def test_optimal_means_what_the_table_says(solver, accuracy):
    f = np.random.default_rng(3).normal(0.05, 0.1, 20)
    solution = CLS.solve(f, solver=solver, accuracy=accuracy)
    tolerances = ACCURACIES[accuracy]
    assert solution.status == "optimal"
    assert solution.certificate.violation <= tolerances.violation
    assert solution.certificate.gap <= tolerances.gap * (1 + solution.objective)


def test_small_prices_do_not_look_unbounded():
    """OSQP's own tolerance finds a ray here along which the loss seems to fall for ever."""
    rng = np.random.default_rng(256)
    f = np.full(256, 1 / 256) + 0.002 * rng.standard_normal(256)
    price = Parameter("price", 1e-4)
    problem = Problem(LeastSquares() + price * L1To(rng.dirichlet(np.ones(256))), SIMPLEX)
    assert problem.solve(f, path="conic", solver="OSQP").status == "optimal"


def test_the_point_of_a_solver_takes_one_look(monkeypatch):
    looks = []
    gap_at = box.Model._gap_at
    counted = lambda model, *given: looks.append(0) or gap_at(model, *given)  # noqa: E731
    monkeypatch.setattr(box.Model, "_gap_at", counted)
    f = np.random.default_rng(3).normal(0.05, 0.02, 20)
    problem = Problem(LeastSquares() + 0.01 * L1To(np.full(20, 0.05)), SIMPLEX)
    assert problem.solve(f, path="conic").status == "optimal"
    assert len(looks) == 1


@pytest.mark.parametrize("ball", [Near([0.1, 0.4, 0.3, 0.2], 0.5, 1), Near([0.25] * 4, 0.5, "kl")])
def test_a_largest_deviation_at_a_bound_takes_no_program(ball, monkeypatch):
    """There Σ |g_v f_v| vanishes, and a gap is small only beside the loss itself."""
    monkeypatch.setattr(polyhedron, "evidence", None)
    solution = Problem(MaxAbsolute(), [*SIMPLEX, ball]).solve([-0.3, 0.5, 0.5, 0.3], path="conic")
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(0.3)


class LosesTheLast:
    """An executor whose last outcome is lost."""

    def run(self, task, items, in_order):
        done = [(item, task(item)) for item in items]
        return iter(done[:-1])


def test_every_trial_of_a_stack_is_judged(monkeypatch):
    start = CLS.accept([F, [0.5, 0.4, 0.3], [0.2, 0.9, 0.1]])
    points = CLS.minimise(start)
    moved = points + np.outer([0, 0, 1e-3], [1, -1, 0])
    plan = Plan("conic", "CLARABEL", CLS, "")
    given = (plan, "high", Running(workers=2))
    assert judged(CLS, start, Outcome(points), *given).status == "optimal"
    judgement = judged(CLS, start, Outcome(moved), *given)
    assert judgement.status == "inaccurate"
    assert "its certified gap is" in judgement.reason
    monkeypatch.setattr(judging, "executor_for", lambda workers: LosesTheLast())
    # A trial that nobody has looked at must not count as optimal.
    with pytest.raises(ValueError, match="shorter"):
        judged(CLS, start, Outcome(moved), *given)


def test_the_table_is_ordered_by_accuracy():
    low, default, high = (ACCURACIES[name] for name in ("low", "default", "high"))
    for name in ("stop", "violation", "gap"):
        assert getattr(low, name) > getattr(default, name) > getattr(high, name)


def test_a_right_answer_without_bounds_is_proved_by_the_points_of_smaller_loss():
    oracle = oracles.OUE(epsilon=1.0, d=3)
    estimate = FrequencyEstimate([0.7, 0.4, -0.1], n=1000, oracle=oracle)
    solution = Problem(GaussianMLE(), [Bounds(-0.5, np.inf)]).solve(estimate, path="conic")
    assert solution.status == "optimal"
    assert_allclose(solution.frequencies, estimate.frequencies, atol=SOLVER["CLARABEL"])


def test_where_no_bound_is_known_a_point_is_inaccurate_with_the_reason():
    # Of the likelihood of reports nothing is known that would bound its values.
    oracle = oracles.OUE(epsilon=1.0, d=3)
    reports = oracle.perturb([0] * 30 + [1] * 20 + [2] * 10, rng=0)
    estimate = oracle.estimate(oracle.support_counts(reports), 60)
    problem = Problem(PerReportMLE(oracle, reports), [SumsTo(1.0)])
    with pytest.warns(LdpoptWarning, match="no bound of its gap is known: value 0 is not bounded"):
        solution = problem.solve(estimate)
    assert solution.status == "inaccurate"
    assert solution.certificate.gap == np.inf


def test_em_that_stops_early_is_inaccurate():
    oracle = oracles.GRR(epsilon=0.5, d=64)
    estimate = oracle.estimate(np.arange(64) + 100, 8_416)
    loss = ChannelMLE(
        np.full((64, 64), oracle.q) + np.eye(64) * (oracle.p - oracle.q), np.arange(64) + 100
    )
    with pytest.warns(LdpoptWarning, match="em stopped before it met its tolerances"):
        assert Problem(loss, SIMPLEX).solve(estimate, solver="em").status == "inaccurate"


# --- what a solver reports ------------------------------------------------------------------------


def reports(monkeypatch, status):
    """Let every solve of a loss end with a status and no point; programs of feasibility work."""
    original = ConeProgram.solve

    def solve(self, options=None, *more):
        solution = original(self, options, *more)
        if options is None:
            return solution
        return replace(solution, status=status)

    monkeypatch.setattr(ConeProgram, "solve", solve)


@pytest.mark.parametrize("status", ["infeasible", "infeasible_inaccurate"])
@pytest.mark.parametrize("more", [[], [Custom(lambda f: [f[0] <= 0.9])]], ids=["rows", "custom"])
def test_a_feasible_problem_is_never_called_infeasible(status, more, monkeypatch):
    reports(monkeypatch, status)
    with pytest.raises(SolverError, match=f"{status}, yet a vector satisfies the constraints"):
        Problem(LeastSquares(), [*SIMPLEX, *more]).solve(F, path="conic")


def test_an_own_loss_that_is_finite_nowhere_is_named():
    # Of a value below 0 no divergence is finite.
    loss = CustomLoss(lambda f, y: cp.sum(cp.kl_div(f, y)), name="divergence")
    match = r"Custom\(divergence\) is not finite there: state one that is finite on the set"
    with pytest.raises(SolverError, match=match):
        Problem(loss, SIMPLEX).solve([0.7, 0.5, -0.2])


def test_of_constraints_without_names_the_remedy_is_to_name_them():
    first = Custom(lambda f: [f[0] >= 0.8])
    second = Custom(lambda f: [f[1] >= 0.3])
    remedy = "; give each Custom a name to tell them apart"
    with pytest.raises(InfeasibleError, match=rf"Custom\(\), Custom\(\){remedy}$"):
        Problem(LeastSquares(), [*SIMPLEX, first, second]).solve([0.5, 0.3, 0.2])
    named = Custom(lambda f: [f[1] >= 0.3], name="second")
    with pytest.raises(InfeasibleError, match=r"Custom\(\), Custom\(second\)$"):
        Problem(LeastSquares(), [*SIMPLEX, first, named]).solve([0.5, 0.3, 0.2])


@pytest.mark.parametrize("status", ["infeasible", "infeasible_inaccurate"])
@pytest.mark.parametrize(
    ("more", "match"),
    [
        ([GroupTotals([[0, 1]], [1.5])], "group 0 of 2 values sums to 1.5"),
        ([Custom(lambda f: [f[0] >= 2])], r"SumsTo\(1\), Custom\(\)"),
    ],
    ids=["rows", "custom"],
)
def test_an_infeasible_problem_is_named_whatever_the_solver_reports(
    status, more, match, monkeypatch
):
    reports(monkeypatch, status)
    monkeypatch.setattr(feasibility, "LARGEST", 1)  # the solver answers first
    with pytest.raises(InfeasibleError, match=match):
        Problem(LeastSquares(), [*SIMPLEX, *more]).solve(F, path="conic")


@pytest.mark.parametrize("error", [TypeError, ValueError, AttributeError])
def test_an_error_inside_a_solver_is_not_blamed_on_options(error, monkeypatch):
    def fail(self, options=None, *more):
        raise error("what went wrong")

    monkeypatch.setattr(ConeProgram, "solve", fail)
    expected = f"CLARABEL failed with {error.__name__}: what went wrong"
    for options in ({}, {"max_iter": 50}):
        with pytest.raises(SolverError, match=expected) as caught:
            CLS.solve(F, path="conic", **options)
        assert "does not take" not in str(caught.value)
        assert isinstance(caught.value.__cause__, error)


@pytest.mark.parametrize("options", [{"no_such_option": 1}, {"max_iter": "many"}])
def test_an_error_about_an_option_names_it(options):
    (name,) = options
    with pytest.raises(SolverError, match=f"CLARABEL does not take the option {name}="):
        CLS.solve(F, path="conic", **options)


def test_errors_of_osqp_about_options_are_one_line_that_names_them():
    with pytest.raises(SolverError, match=r"^OSQP does not take the option maxiter=4: "):
        CLS.solve(F, path="conic", solver="OSQP", maxiter=4)
    expected = r"^OSQP failed .*; check the options {'max_iter': 'many'}, or try another solver"
    with pytest.raises(SolverError, match=expected) as caught:
        CLS.solve(F, path="conic", solver="OSQP", max_iter="many")
    assert "\n" not in str(caught.value)


# --- nothing goes stale ---------------------------------------------------------------------------


def conic_answer(problem, f=F):
    return problem.solve(f, path="conic").frequencies


@pytest.mark.parametrize("part", ["loss", "constraints", "anything"])
def test_a_problem_cannot_be_changed(part):
    for problem in (Problem(LeastSquares(), SIMPLEX), Formulation(LeastSquares(), SIMPLEX)):
        with pytest.raises(FrozenInstanceError):
            setattr(problem, part, GaussianMLE())
        with pytest.raises(FrozenInstanceError):
            delattr(problem, part)


def test_weights_cannot_be_changed_and_are_not_the_callers():
    weights = np.array([1.0, 2.0, 4.0])
    problem = Problem(WeightedLeastSquares(weights), SIMPLEX)
    before = conic_answer(problem)
    weights[1] = 100.0
    with pytest.raises(ValueError, match="read-only"):
        problem.loss.weights[1] = 100.0
    with pytest.raises(FrozenInstanceError):
        problem.loss.weights = weights
    assert_allclose(conic_answer(problem), before, rtol=0, atol=CERTIFIED)
    assert_allclose(problem.solve(F).frequencies, before, rtol=0, atol=SOLVER["CLARABEL"])
    other = Problem(WeightedLeastSquares(weights), SIMPLEX)
    assert np.abs(conic_answer(other) - before).max() > 0.01


CALLERS = {
    "bounds": (np.array([0.4, 1.0, 1.0]), lambda a: Bounds(0.0, a)),
    "fixed": (np.array([0.2]), lambda a: Fixed([0], a)),
    "groups": (np.array([0.3]), lambda a: GroupTotals([[0, 2]], a)),
    "linear": (np.array([0.0]), lambda a: Linear([[1.0, -1.0, 0.0]], -np.inf, a)),
}


@pytest.mark.parametrize("name", CALLERS)
def test_writing_into_the_callers_arrays_changes_nothing(name):
    array, build = CALLERS[name]
    argument = array.copy()
    constraints = [*SIMPLEX, build(argument)]
    problem = Problem(LeastSquares(), constraints)
    before = conic_answer(problem)
    argument += 0.1
    constraints.clear()
    assert_allclose(conic_answer(problem), before, rtol=0, atol=CERTIFIED)
    assert certify(problem, F, before).violation < 1e-6
    changed = conic_answer(Problem(LeastSquares(), [*SIMPLEX, build(argument)]))
    assert np.abs(changed - before).max() > 0.01


def test_a_function_of_custom_that_reads_what_changed_is_compiled_anew():
    limit = [0.5]
    problem = Problem(LeastSquares(), [*SIMPLEX, Custom(lambda f: [f[0] <= limit[0]])])
    assert_allclose(conic_answer(problem)[0], 0.5, atol=SOLVER["CLARABEL"])
    limit[0] = 0.2
    assert_allclose(conic_answer(problem)[0], 0.2, atol=SOLVER["CLARABEL"])


def test_what_is_compiled_is_kept_by_all_that_was_compiled_in():
    path = conic.ConicPath()
    start = FrequencyEstimate([0.6, 0.5, 0.2])
    losses = [LeastSquares(), WeightedLeastSquares([1, 1, 9]), WeightedLeastSquares([9, 1, 1])]
    for loss in losses:
        for where in (SIMPLEX, [*SIMPLEX, Bounds(0.0, 0.45)]):
            answer = path.solve(Formulation(loss, where), start, "CLARABEL", {}, {}).frequencies
            exact = Problem(loss, where).solve(start).frequencies
            assert_allclose(answer, exact, rtol=0, atol=1e-4)
    assert len(path.compiled) == 6


def test_equal_parts_make_equal_problems():
    loss = LeastSquares()
    assert Problem(loss, SIMPLEX) == Problem(loss, SIMPLEX)
    assert hash(Problem(loss, SIMPLEX)) == hash(Problem(loss, SIMPLEX))
    assert Problem(loss, SIMPLEX) != Problem(LeastSquares(), SIMPLEX)
    assert Problem(loss, SIMPLEX) != Problem(loss, SIMPLEX[:1])


# --- a solution is a result -----------------------------------------------------------------------


def test_a_solution_is_an_estimate_with_its_start_and_its_noise():
    oracle = oracles.OUE(epsilon=1.0, d=3)
    raw = oracle.estimate([4_300, 3_300, 2_650], 10_000)
    solution = CLS.solve(raw)
    estimate = solution.estimate
    assert solution.start is raw
    assert estimate.raw is raw
    assert (estimate.n, estimate.oracle, estimate.method) == (10_000, oracle, "norm-sub")
    assert estimate.is_raw is False
    assert_allclose(estimate.frequencies, solution.frequencies, rtol=0, atol=0)
    assert_allclose(solution.query([[0, 1]]), [solution.frequencies[:2].sum()])
    for sets in (None, [[0, 2]]):
        expected = estimate.interval(0.9, sets, simultaneous=True)
        for end, other in zip(
            solution.interval(0.9, sets, simultaneous=True), expected, strict=True
        ):
            assert end.tolist() == other.tolist()


def test_the_intervals_of_a_solution_cover():
    oracle = oracles.OUE(epsilon=1.0, d=4)
    counts = np.array([7_000, 2_000, 800, 200])
    raw = oracle.estimate(oracle.simulate_counts(counts, 5, trials=2_000), 10_000)
    lower, upper = CLS.solve(raw).interval(0.95)
    truth = counts / 10_000
    coverage = np.mean((lower <= truth) & (truth <= upper), axis=0)
    # Three standard deviations of 2,000 draws are 1.5 %.
    assert np.all(coverage >= 0.935)
    assert coverage[0] <= 0.965


def test_intervals_around_processed_numbers_are_refused():
    solution = CLS.solve(FrequencyEstimate(F, n=1000, oracle=oracles.OUE(epsilon=1.0, d=3)))
    with pytest.raises(ValueError, match="raw estimate"):
        solution.interval()


# --- numbers computed by hand ---------------------------------------------------------------------


def test_the_joint_intervals_share_the_failures_of_values_and_sets():
    oracle = oracles.OUE(epsilon=1.0, d=2)
    raw = oracle.estimate([4_000, 3_500], 10_000)
    lower, upper = Problem(LeastSquares(), []).interval(raw, 0.95, [[0]])
    # Without constraints the range of a value is its own interval. Two values and one set share
    # the failures: each end is the root of (f̃ - f)² = z² (a + b f)/n, z the quantile of 0.05/6.
    z = NormalDist().inv_cdf(1 - 0.05 / 6)
    for end in (lower[0], upper[0]):
        left = (raw.frequencies[0] - end) ** 2
        assert_allclose(left, z**2 * (oracle.a + oracle.b * end) / 10_000, rtol=1e-6)
    assert lower[0] < raw.frequencies[0] < upper[0]


@pytest.mark.parametrize("status", ["optimal_inaccurate", "user_limit", "unbounded"])
def test_an_inaccurate_end_of_an_interval_is_an_error(status, monkeypatch):
    original = ConeProgram.solve

    def solve(self, options=None, *more):
        solution = original(self, options, *more)
        return replace(solution, status=status)

    monkeypatch.setattr(ConeProgram, "solve", solve)
    raw = oracles.OUE(epsilon=1.0, d=2).estimate([4_000, 3_500], 10_000)
    problem = Problem(LeastSquares(), [Custom(lambda f: [cp.sum(f) == 1])])
    with pytest.raises(SolverError, match=f"found no range of an answer: {status}"):
        problem.interval(raw)


def test_values_with_an_infinite_gradient_are_fixed_in_the_certificate():
    f = [0.5, 0.3, 0.2, -0.1]
    problem = Problem(KullbackLeibler(), [GroupTotals([[0, 1], [2, 3]], [0.6, 0.4])])
    # By hand: each group in proportion to its positive estimates.
    point = np.array([0.375, 0.225, 0.4, 0.0])
    assert certify(problem, f, point).is_optimal(1e-9)
    assert_allclose(problem.solve(f).frequencies, point, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("excess", [1e-6, 1e-8])
def test_totals_that_differ_by_more_than_rounding_conflict(excess):
    groups = GroupTotals([[0, 1], [2, 3]], [0.5, 0.5 + excess])
    # Three equalities share the excess: each of them gives way by a third.
    with pytest.raises(InfeasibleError, match=f"give way by {excess / 3:.3g}"):
        feasibility.require_feasible([*SIMPLEX, groups], 4)


def test_what_is_feasible_for_one_size_is_checked_for_another(monkeypatch):
    problem = Problem(LeastSquares(), [*SIMPLEX, GroupTotals([[0, 1], [0]], [0.5, 0.2])])
    assert problem.solve(F, path="conic").status == "optimal"

    def refuse(*_):
        raise AssertionError("a solver was called")

    monkeypatch.setattr(conic, "CompiledProblem", refuse)
    with pytest.raises(InfeasibleError, match=r"group 0 of 2 values sums to 0\.5"):
        problem.solve(F[:2], path="conic")


def test_values_stay_short_of_the_end_of_a_loss():
    oracle = oracles.OUE(epsilon=1.0, d=2)
    estimate = oracle.estimate([1000, 300], 1000)  # every report supports the first value
    solution = Problem(BinomialMLE(), [NonNegative()]).solve(estimate)
    end = (1 - oracle.q) / (oracle.p - oracle.q)
    assert_allclose(solution.frequencies[0], (1 - 1e-9) * end, rtol=1e-12)


@pytest.mark.parametrize("oracle", [oracles.OUE, oracles.OLH])
def test_solvers_maximise_the_binomial_likelihood_of_a_million_reports(oracle):
    chosen = oracle(epsilon=0.5, d=40)
    users = np.floor(1e6 * (w := np.arange(1, 41) ** -1.5) / w.sum()).astype(int)
    estimate = chosen.estimate(chosen.simulate_counts(users, 1), int(users.sum()))
    problem = Problem(BinomialMLE(), SIMPLEX)
    exact = problem.solve(estimate).frequencies
    for solver, accuracy, error in (("SCS", "default", 2e-5), ("CLARABEL", "high", 2e-5)):
        solution = problem.solve(estimate, solver=solver, accuracy=accuracy)
        assert solution.status == "optimal"
        assert_allclose(solution.frequencies, exact, rtol=0, atol=error)


def test_a_solver_that_stops_for_numerical_reasons_gets_a_careful_try(monkeypatch):
    original = ConeProgram.solve
    seen = []

    def solve(self, options=None, *more):
        seen.append(dict(options or {}))
        solution = original(self, options, *more)
        if len(seen) == 1:
            return replace(solution, status="solver_error")
        return solution

    monkeypatch.setattr(ConeProgram, "solve", solve)
    solution = CLS.solve(F, path="conic", max_iter=77)
    assert solution.status == "optimal"
    assert "min_switch_step_length" not in seen[0]
    assert seen[1]["min_switch_step_length"] == 1e-3
    assert seen[1]["max_iter"] == 77  # what the caller chose stays


def test_a_solver_that_stops_again_gets_the_objective_in_smaller_units(monkeypatch):
    original = ConeProgram.solve
    objectives = []

    def solve(self, options=None, *more):
        objectives.append(self.problem.objective.expr)
        solution = original(self, options, *more)
        if len(objectives) <= 2:
            return replace(solution, status="solver_error")
        return solution

    monkeypatch.setattr(ConeProgram, "solve", solve)
    solution = CLS.solve(F, path="conic")
    assert solution.status == "optimal"
    assert_allclose(solution.frequencies, CLS.solve(F).frequencies, atol=1e-6)
    # A plain try, a careful one, and one in units of which there are d in the first.
    first, second, third = objectives
    assert first is second
    for objective in (first, third):
        for variable in objective.variables():
            variable.value = np.ones(variable.shape)
    assert float(third.value) == pytest.approx(float(first.value) / len(F), rel=1e-12)


# --- a second try ---------------------------------------------------------------------------------

BALL = Custom(lambda f: [cp.norm(f - 1 / 3) <= 0.3], name="ball")
ROUND = Problem(LeastSquares(), [*SIMPLEX, BALL])


def failing(monkeypatch, *names, with_point=False):
    """Let solvers end for numerical reasons, without a point or with the uniform one."""
    original = conic.CompiledProblem.solve

    def solve(self, *args):
        result = original(self, *args)
        # The ball is what they fail at.
        if self._solver not in names or "orm" not in str(self._program.problem):
            return result
        if with_point:
            return replace(result, point=np.full(3, 1 / 3), reported="optimal_inaccurate")
        return replace(result, point=None, status=None, reported="solver_error")

    monkeypatch.setattr(conic.CompiledProblem, "solve", solve)


@pytest.mark.parametrize("with_point", [False, True])
def test_another_solver_gets_what_the_first_one_cannot_solve(with_point, monkeypatch):
    expected = ROUND.solve(F).frequencies
    failing(monkeypatch, "CLARABEL", with_point=with_point)
    solution = Problem(ROUND.loss, ROUND.constraints).solve(F)
    assert solution.status == "optimal"
    assert_allclose(solution.frequencies, expected, rtol=0, atol=1e-4)
    assert solution.solver == ("CLARABEL, QOCO" if with_point else "CLARABEL")


def test_of_a_stack_only_inaccurate_trials_are_solved_again(monkeypatch):
    expected = ROUND.solve(F).frequencies
    failing(monkeypatch, "CLARABEL", with_point=True)
    problem = Problem(ROUND.loss, ROUND.constraints)
    # The uniform point is right for the uniform estimate.
    solution = problem.solve([[1 / 3] * 3, F])
    assert solution.status == "optimal"
    assert_allclose(solution.frequencies, [[1 / 3] * 3, expected], rtol=0, atol=1e-4)
    assert solution.solver == "CLARABEL, QOCO"


def test_a_solver_that_is_named_is_not_replaced(monkeypatch):
    failing(monkeypatch, "CLARABEL")
    with pytest.raises(SolverError, match=r"CLARABEL returned no point \(status solver_error\)"):
        Problem(ROUND.loss, ROUND.constraints).solve(F, solver="CLARABEL")


def test_where_all_fail_the_error_says_what_was_tried_and_which_constraint_is_to_blame(monkeypatch):
    failing(monkeypatch, "CLARABEL", "QOCO", "SCS")
    message = (
        r"CLARABEL returned no point .*QOCO returned no point .*; without ball there is a point"
    )
    with pytest.raises(SolverError, match=message):
        Problem(ROUND.loss, ROUND.constraints).solve(F)


def test_points_of_solvers_on_tied_values_are_judged_without_a_program(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a program was solved")

    generator = np.random.default_rng(0)
    estimate = oracles.OUE(epsilon=1.0, d=12).estimate(generator.integers(300, 400, 12), 1_000)
    values = [NonNegative(), SumsTo(1.0)]
    smooth = Smooth(total_variation=0.1)
    problem = Problem(GaussianMLE(), [*values, smooth])
    assert problem.plan(estimate).path == "conic"
    point = problem.solve(estimate)
    monkeypatch.setattr(polyhedron, "evidence", refuse)
    assert problem.solve(estimate, path="conic").status == "optimal"
    # Nor does the certificate of a long vector take one.
    monkeypatch.setattr(certificates, "_LONG_FOR_ROWS", 1)
    proof = certify(problem, estimate, point.frequencies)
    assert proof.is_optimal(1e-8, relative=True)


# --- numbers beyond the doubles -------------------------------------------------------------------


@pytest.mark.parametrize("total", [1e-200, 1e200])
def test_a_loss_whose_numbers_are_lost_is_not_optimal(total):
    loss = WeightedLeastSquares([1.0, 2.0, 3.0, 4.0])
    chain = [NonNegative(), SumsTo(total), Monotone(np.arange(4))]
    with np.errstate(all="ignore"):
        with pytest.warns(LdpoptWarning, match="inaccurate"):
            solution = Problem(loss, chain).solve(total * np.array([0.6, 0.2, 0.25, -0.1]))
        assert not solution.certificate.is_optimal(1e-8, relative=True)
        assert solution.certificate.reason


@pytest.mark.parametrize("factor", [1e-300, 1e-285, 1e-265, 1e-255])
def test_no_floor_of_a_scale_excuses_a_point_off_the_minimum(factor):
    problem = Problem(factor * LeastSquares(), [NonNegative(), SumsTo(1.0)])
    assert not certify(problem, [0.6, 0.3, -0.1], [0.62, 0.38, 0.0]).is_optimal(relative=True)


@pytest.mark.parametrize("more", [GroupTotals([[0, 1]], [0.5]), Monotone([0, 1]), Unimodal(0)])
def test_a_point_near_the_largest_double_is_refused_without_an_error(more):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), more])
    with np.errstate(all="ignore"):
        certificate = certify(problem, [0.6, 0.3, 0.1], [1e308, 0.0, 0.0])
        assert not certificate.is_optimal(1e-8, relative=True)


@pytest.mark.parametrize("share", np.geomspace(5e-8, 1e-7, 5))
def test_at_kinks_an_optimal_status_is_the_certificate_s_too(share):
    rng = np.random.default_rng(5)
    reference = 7e-3 * rng.dirichlet(np.full(5, 2.0))
    raw = reference + rng.normal(0, 3e-3, 5)
    problem = Problem(LeastAbsolute(), [Fixed([0], reference[:1]), Near(reference, 5e-4, "kl")])
    best = problem.solve(raw, path="conic", solver="CLARABEL", tol_gap_abs=1e-13).frequencies
    point = best + share * (reference - best)
    start = FrequencyEstimate(raw)
    plan = problem.plan(raw)
    judgement = judge(problem, start, Outcome(point), plan, "high")
    is_optimal = certify(problem, start, point).is_optimal(1e-8, relative=True)
    assert (judgement.status is Status.OPTIMAL) == is_optimal


OF_GRR = oracles.GRR(epsilon=1.0, d=2).estimate([40, 60], 100)
OF_OUE = oracles.OUE(epsilon=1.0, d=2).estimate([40, 60], 100)
BEYOND_THE_DOMAIN = [
    (MultinomialMLE(), OF_GRR, -0.6),
    (2 * MultinomialMLE(), OF_GRR, -0.6),
    (BinomialMLE(), OF_OUE, -1.2),
    (BinomialMLE(), OF_OUE, 3.2),
    (GaussianMLE(), OF_OUE, -3.7),
]


@every_two(
    case=BEYOND_THE_DOMAIN,
    kind=["bounds", "total", "order", "top set", "group"],
    path=["closed-form", "conic"],
    is_long=[False, True],
)
def test_where_the_loss_is_infinite_nothing_is_optimal(case, kind, path, is_long):
    loss, estimate, outside = case
    # One value is beyond the end alone, and the first one is the larger.
    point = np.array([outside, 0.0] if outside > 0 else [0.0, outside])
    further = {
        "bounds": [],
        "total": [SumsTo(outside)],
        "order": [Monotone([0, 1])],
        "top set": [TopSet([0])],
        "group": [GroupTotals([[0, 1]], [outside])],
    }
    problem = Problem(loss, [Bounds(point - 0.01, point + 0.01), *further[kind]])
    plan = Plan(path, "planted", problem, "")
    with as_if_long() if is_long else nullcontext():
        judgement = judge(problem, estimate, Outcome(point), plan, "high")
        assert judgement.status is Status.INACCURATE
        assert certify(problem, estimate, point).gap == np.inf


@pytest.mark.parametrize(("loss", "estimate", "outside"), BEYOND_THE_DOMAIN)
@pytest.mark.parametrize(
    "more", [(), (SumsTo(0.5),), (Monotone([0, 1]),), (TopSet([0]),), (Near([0.5, 0.5], 30.0),)]
)
def test_bounds_beyond_the_end_of_a_loss_are_an_infeasible_problem(loss, estimate, outside, more):
    far = 1.1 * outside
    bounds = Bounds([min(far, 2 * far), -9.0], [max(far, 2 * far), 9.0])
    with pytest.raises(InfeasibleError, match=r"is infinite|where the loss is finite"):
        Problem(loss, [bounds, *more]).solve(estimate)


@every_two(
    power=[250, 255, 290, 299, 305],
    more=[(), (Monotone([0, 1, 2]),), (Near([0.3, 0.3, 0.4], 0.1),)],
    plain=[LeastSquares(), KLTo([0.3, 0.3, 0.4])],
)
@pytest.mark.filterwarnings("ignore:the solution is inaccurate")
def test_in_huge_units_the_status_is_that_of_the_certificate(plain, more, power):
    problem = Problem(10.0**power * plain, [NonNegative(), SumsTo(1.0), *more])
    solution = problem.solve([0.9, 0.3, -0.1])
    is_optimal = solution.certificate.is_optimal(1e-8, relative=True)
    assert (solution.status is Status.OPTIMAL) == is_optimal
    # A loss of least squares may be proved up to the largest multipliers that are used.
    assert is_optimal or power > 290


@pytest.mark.parametrize("norm", [1, 2, "kl"])
@pytest.mark.filterwarnings("ignore:the solution is inaccurate")
def test_a_minimum_far_out_in_a_ball_is_not_called_unbounded(norm):
    estimate = oracles.GRR(epsilon=1.0, d=3).estimate([40, 60, 30], 130)
    ball = Near([5e14, 3e14, 2e14], 1e14, norm)
    point = Problem(MultinomialMLE(), [NonNegative(), ball]).solve(estimate).frequencies
    assert ball.violation(point) <= 1e8
