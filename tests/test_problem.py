"""One problem, two paths: closed forms against solvers, and what is refused."""

import functools
import gc
import inspect
import itertools
import pickle
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import (
    FrequencyEstimate,
    Parameter,
    Problem,
    Solution,
    certify,
    oracles,
    postprocess,
    priors,
)
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Hierarchy,
    HierarchyTotals,
    Linear,
    Margins,
    Monotone,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
)
from ldpopt.errors import (
    InfeasibleError,
    InvalidInputError,
    InvalidTypeError,
    LdpoptError,
    SolverError,
)
from ldpopt.losses import (
    BinomialMLE,
    GaussianMLE,
    KullbackLeibler,
    LeastAbsolute,
    LeastSquares,
    MultinomialMLE,
    NormalisedGaussianMLE,
    PosteriorMean,
    WeightedLeastSquares,
)
from ldpopt.solve.paths.closed_forms import CLOSED_FORMS
from ldpopt.solve.planner import KEYWORDS
from ldpopt.solve.programs.solvers import DEFAULT_SOLVER
from tests import reference
from tests.tolerances import CERTIFIED, GAP, OBJECTIVE, ROUNDING, SOLVER

ORACLES = {
    "kappa > 0": oracles.OUE,
    "kappa = 0": oracles.SUE,
    "kappa < 0": oracles.HadamardResponse,
}
SOLVERS = {
    LeastSquares: ["CLARABEL", "OSQP"],
    WeightedLeastSquares: ["CLARABEL", "OSQP"],
    GaussianMLE: ["CLARABEL", "QOCO", "SCS"],
    KullbackLeibler: ["CLARABEL", "SCS"],
    MultinomialMLE: ["CLARABEL", "SCS"],
}
CONVEX = [(loss, kinds) for loss, kinds in CLOSED_FORMS if AtMost not in kinds and loss.convex]
CASES = [(loss, kinds, solver) for loss, kinds in CONVEX for solver in SOLVERS[loss]]
NAMES = [
    f"{loss.__name__}-{'-'.join(sorted(k.__name__ for k in kinds)) or 'free'}-{s}"
    for loss, kinds, s in CASES
]


def collected(d, oracle=oracles.OUE, n=20_000, trials=None, epsilon=1.0):
    population = np.random.default_rng(d).multinomial(
        n, (w := np.arange(1.0, d + 1) ** -1.2) / w.sum()
    )
    chosen = oracle(epsilon=epsilon, d=d)
    return chosen.estimate(chosen.simulate_counts(population, d, trials), n)


def suitable(loss, kind, d):
    """Estimates that the loss is defined for; each of GRR's reports supports one value."""
    if loss is MultinomialMLE:
        return collected(
            d, oracles.GRR, epsilon={"kappa > 0": 1.0, "kappa = 0": 2.0, "kappa < 0": 4.0}[kind]
        )
    return collected(d, ORACLES[kind])


def groups(d):
    """One group, or two, of all values but the last."""
    parts = np.array_split(np.arange(d - 1)[::-1], min(2, d - 1))
    return GroupTotals(parts, [0.5, 0.25][: len(parts)])


INSTANCES = {
    NonNegative: lambda d: NonNegative(),
    SumsTo: lambda d: SumsTo(),
    Monotone: lambda d: Monotone(np.arange(d)),
    Unimodal: lambda d: Unimodal(d // 2),
    Hierarchy: lambda d: Hierarchy((np.arange(d) - 1) // 3),
    GroupTotals: groups,
    Margins: lambda d: Margins((2 - d % 2, d // (2 - d % 2)), 0, [[0.75, 0.25], [1.0]][d % 2]),
    HierarchyTotals: lambda d: HierarchyTotals(
        [np.arange(d) * 2 // d, [0, 0]], [[0.5, np.nan], [1.0]]
    ),
    TopSet: lambda d: TopSet(range(d // 2)),
}


def build(loss, kinds, d):
    instance = loss(np.linspace(0.5, 2, d)) if loss is WeightedLeastSquares else loss()
    missing = [kind.__name__ for kind in kinds if kind not in INSTANCES]
    assert not missing, f"state an instance of {missing} in INSTANCES"
    return Problem(instance, [INSTANCES[kind](d) for kind in kinds])


def bounded(problem):
    """Whether a linear function has a minimum on the set, so that the gap is finite everywhere."""
    kinds = {type(c) for c in problem.constraints}
    return SumsTo in kinds and (NonNegative in kinds or problem.loss.nonnegative_domain)


def has_a_bound_of_its_own(problem):
    """Whether strong convexity bounds the gap on an unbounded box."""
    return isinstance(problem.loss, LeastSquares) and not {type(c) for c in problem.constraints} - {
        NonNegative,
        SumsTo,
    }


# --- equivalence ----------------------------------------------------------------------------------

# Solvers' programs are kept by a problem, whatever the estimate: the oracles share them.
built = functools.lru_cache(maxsize=3)(build)


USES_NOISE = {loss for loss in SOLVERS if loss is not WeightedLeastSquares and loss().uses_noise}


def settings_of(loss, solver):
    """Yield (kind of noise, d): where the noise is no part of the loss, many values once only.

    Each number of values is another program to state: further solvers get one.
    """
    for number, kind in enumerate(ORACLES):
        sizes = [2, 7, 200] if number == 0 or loss in USES_NOISE else [2, 7]
        yield from ((kind, d) for d in (sizes if solver == SOLVERS[loss][0] else [7]))


AGREEING = [
    pytest.param(*case, kind, d, id=f"{name}-{kind}-{d}")
    for case, name in zip(CASES, NAMES, strict=True)
    for kind, d in settings_of(case[0], case[2])
]


@pytest.mark.parametrize(("loss", "kinds", "solver", "kind", "d"), AGREEING)
def test_closed_form_and_solver_agree(loss, kinds, solver, kind, d):
    if loss in (KullbackLeibler, MultinomialMLE) and solver == "SCS":
        d = min(
            d, 10
        )  # a first-order method needs more than its iterations for more exponential cones
    if kinds & {Monotone, Unimodal} and solver == "OSQP":
        d = min(d, 50)  # long pools are badly conditioned for a first-order method
    problem = built(loss, kinds, d)
    estimate = suitable(loss, kind, d)
    exact = problem.solve(estimate)
    numeric = problem.solve(estimate, path="conic", solver=solver)
    assert (exact.path, numeric.path, numeric.solver) == ("closed-form", "conic", solver)
    assert exact.solver == CLOSED_FORMS[loss, kinds].name
    assert numeric.status == "optimal"
    assert_allclose(numeric.frequencies, exact.frequencies, rtol=0, atol=SOLVER[solver])
    assert_allclose(numeric.objective, exact.objective, rtol=0, atol=OBJECTIVE)
    assert exact.certificate.violation <= CERTIFIED
    assert numeric.certificate.violation <= SOLVER[solver]
    if bounded(problem) or problem.is_box(d):
        assert exact.certificate.gap <= CERTIFIED
    if bounded(problem) or has_a_bound_of_its_own(problem):
        assert numeric.certificate.gap <= GAP * SOLVER[solver]


@pytest.mark.parametrize("order", [[4, 1, 5], [3], [], [6, 5, 4, 3, 2, 1, 0]], ids=str)
@pytest.mark.parametrize("others", [[], [NonNegative()], [NonNegative(), SumsTo()]], ids=str)
def test_a_known_order_of_some_values_agrees_with_the_solver(others, order):
    problem = Problem(LeastSquares(), [Monotone(order), *others])
    estimate = collected(7)
    solution = problem.solve(estimate)
    numeric = problem.solve(estimate, path="conic", solver="OSQP")
    assert solution.certificate.violation <= SOLVER["CLARABEL"]
    assert_allclose(solution.frequencies, numeric.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("total", [None, 0.75, 1.0, 2.0])
@pytest.mark.parametrize(
    ("parts", "totals"),
    [
        ([[0, 1], [1, 2]], [0.5, 0.25]),
        ([[0, 1], []], [0.5, 0.0]),
        ([[0, 1], [2, 3]], [0.5, 0.25]),
        ([[0, 1]], [0.0]),
        ([range(6)], [0.75]),
    ],
    ids=str,
)
def test_groups_of_any_kind_agree_with_the_solver_or_are_infeasible(parts, totals, total):
    kinds = [GroupTotals([list(part) for part in parts], totals), NonNegative()]
    problem = Problem(LeastSquares(), kinds if total is None else [*kinds, SumsTo(total)])
    estimate = collected(6)
    if len(parts[0]) == 6 and total not in (None, 0.75):
        with pytest.raises(InfeasibleError):
            problem.solve(estimate)
        return
    solution = problem.solve(estimate)
    numeric = problem.solve(estimate, path="conic", solver="OSQP")
    assert_allclose(solution.frequencies, numeric.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("total", [1.0, 0.25, 2.0])
@pytest.mark.parametrize("k", [1, 2, 3, 7, 9])
@pytest.mark.parametrize("seed", range(4))
def test_few_nonzeros_are_the_best_of_all_supports(seed, k, total):
    f = (
        np.random.default_rng(seed).normal(0.1, 0.4, 7).round(1 if seed % 2 else 15)
    )  # rounded ones have ties
    candidates = []
    for size in range(1, min(k, 7) + 1):
        for support in itertools.combinations(range(7), size):
            kept = [x if v in support else -np.inf for v, x in enumerate(f)]
            candidates.append(
                np.sum((reference.floats(reference.norm_sub(kept, total)) - f) ** 2) / 2
            )
    solution = Problem(LeastSquares(), [AtMost(k), NonNegative(), SumsTo(total)]).solve(f)
    assert (
        solution.solver == CLOSED_FORMS[LeastSquares, frozenset({AtMost, NonNegative, SumsTo})].name
    )
    assert np.count_nonzero(solution.frequencies) <= k
    assert_allclose(solution.objective, min(candidates), rtol=ROUNDING, atol=ROUNDING)
    assert solution.certificate.is_optimal(CERTIFIED)


def test_constraints_of_cvxpy_are_told_apart():
    import cvxpy as cp

    with pytest.raises(InvalidTypeError, match=r"cvxpy's are stated by Custom\(lambda f"):
        Problem(LeastSquares(), [cp.Variable(2) >= 0])


def test_no_solver_takes_a_set_that_is_not_convex():
    with pytest.raises(InvalidInputError, match=r"AtMost\(2\) is not convex"):
        Problem(LeastSquares(), [AtMost(2), NonNegative(), SumsTo()]).solve(
            [0.5, 0.4, 0.3], path="conic"
        )
    with pytest.raises(InvalidInputError, match="it has a closed form with"):
        Problem(LeastSquares(), [AtMost(2)]).solve([0.5, 0.4, 0.3])


@pytest.mark.parametrize("total", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP"])
def test_least_squares_agree_for_other_totals(solver, total):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(total)])
    exact = problem.solve(collected(20))
    numeric = problem.solve(collected(20), solver=solver)
    assert_allclose(
        numeric.frequencies, exact.frequencies, rtol=0, atol=SOLVER[solver] * max(1, total)
    )


@pytest.mark.parametrize("f", [[0.4], [-3.0]])
@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP"])
def test_a_domain_of_one_value_agrees(solver, f):
    for problem in (Problem(LeastSquares()), Problem(LeastSquares(), [NonNegative(), SumsTo()])):
        exact = problem.solve(f)
        numeric = problem.solve(f, solver=solver)
        assert_allclose(numeric.frequencies, exact.frequencies, rtol=0, atol=SOLVER[solver])


@pytest.mark.parametrize("kind", ["kappa > 0", "kappa < 0"])
@pytest.mark.parametrize("total", [0.25, 0.9])
def test_weighted_mle_agrees_for_smaller_totals(total, kind):
    problem = Problem(GaussianMLE(), [NonNegative(), SumsTo(total)])
    estimate = collected(9, ORACLES[kind])
    exact = problem.solve(estimate)
    numeric = problem.solve(estimate, path="conic")
    assert exact.certificate.is_optimal(CERTIFIED)
    assert_allclose(numeric.frequencies, exact.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


def test_weighted_mle_with_a_total_above_one_is_optimal_or_refused():
    estimate = FrequencyEstimate(
        [0.5, 0.2, 0.1], n=100, oracle=oracles.HadamardResponse(epsilon=6.0, d=3)
    )
    problem = Problem(GaussianMLE(), [NonNegative(), SumsTo(2.0)])  # κ = -0.99, and 2κ < -1
    try:
        solution = problem.solve(estimate)
    except InvalidInputError:
        return
    assert solution.certificate.is_optimal(1e-3)


def test_a_stack_equals_its_trials_on_both_paths():
    problem = Problem(GaussianMLE(), [NonNegative(), SumsTo(1.0)])
    estimate = collected(8, trials=3)
    exact = problem.solve(estimate)
    numeric = problem.solve(estimate, path="conic")
    assert numeric.frequencies.shape == exact.frequencies.shape == (3, 8)
    assert numeric.objective.shape == exact.objective.shape == (3,)
    for trial, row in enumerate(estimate.frequencies):
        alone = problem.solve(FrequencyEstimate(row, n=estimate.n, oracle=estimate.oracle))
        assert_allclose(exact.frequencies[trial], alone.frequencies, rtol=0, atol=CERTIFIED)
        assert_allclose(
            numeric.frequencies[trial], alone.frequencies, rtol=0, atol=SOLVER["CLARABEL"]
        )


# --- which path -----------------------------------------------------------------------------------

NO_FORM = Problem(GaussianMLE(), [SumsTo(1.0), Smooth(second_difference=9.0)])
CLS = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)])


def test_auto_takes_the_closed_form_where_there_is_one():
    solution = CLS.solve([0.5, 0.2, -0.01])
    assert (solution.path, solution.solver, solution.status) == (
        "closed-form",
        "norm-sub",
        "optimal",
    )
    assert solution.seconds >= 0
    assert isinstance(solution.objective, float)


def test_auto_takes_the_solver_where_there_is_none():
    solution = NO_FORM.solve(collected(5))
    assert (solution.path, solution.solver) == ("conic", DEFAULT_SOLVER)
    assert_allclose(solution.frequencies.sum(), 1.0, atol=SOLVER[DEFAULT_SOLVER])


def test_auto_takes_the_solver_that_is_named():
    assert CLS.solve([0.5, 0.2], solver="OSQP").path == "conic"
    assert CLS.solve([0.5, 0.2], solver="osqp", max_iter=500).solver == "OSQP"


def test_the_order_and_repetition_of_constraints_do_not_matter():
    f = [0.5, 0.2, -0.01]
    again = Problem(LeastSquares(), [SumsTo(1.0), NonNegative(), SumsTo(1)]).solve(f)
    assert again.solver == "norm-sub"
    assert_allclose(again.frequencies, CLS.solve(f).frequencies, rtol=0, atol=0)


@pytest.mark.parametrize("problem", [CLS, NO_FORM], ids=repr)
def test_explain_names_the_path_that_solve_takes(problem):
    estimate = collected(5)
    solution = problem.solve(estimate)
    assert problem.explain(estimate).startswith(f"{solution.path}: ")
    assert solution.solver in problem.explain(estimate)


def test_a_plan_and_its_arrays_end_with_the_last_name_for_it():
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)])
    estimate = FrequencyEstimate([0.5, 0.2, -0.01])
    gc.disable()
    try:
        plan = weakref.ref(problem.plan(estimate))
        assert plan() is None
    finally:
        gc.enable()


def test_explain_covers_a_problem_without_constraints():
    assert "no constraints" in Problem(LeastSquares()).explain([0.5, 0.2])


def test_a_closed_form_that_does_not_exist_is_refused_with_the_reason():
    with pytest.raises(
        InvalidInputError,
        match=r"'closed-form' is not available: GaussianMLE\(\) under SumsTo\(1\), Smooth.* has no",
    ):
        NO_FORM.solve(collected(5), path="closed-form")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "OSQP"}, "takes no solver"),
        ({"max_iter": 5}, "those of a solver or an algorithm"),
    ],
)
def test_a_closed_form_takes_no_solver(options, message):
    with pytest.raises(InvalidInputError, match=message):
        CLS.solve([0.5, 0.2], path="closed-form", **options)


@pytest.mark.parametrize(("wrong", "right"), [("accurracy", "accuracy"), ("worker", "workers")])
def test_a_misspelt_keyword_is_answered_with_the_nearest(wrong, right):
    with pytest.raises(InvalidInputError, match=rf"\({wrong}\) are .*; did you mean {right}\?$"):
        CLS.solve([0.5, 0.2], **{wrong: 1})
    assert set(KEYWORDS) == set(inspect.signature(CLS.solve).parameters) - {
        "estimate",
        "solver_options",
    }


@pytest.mark.parametrize(
    ("path", "hint"), [("closed_form", "closed-form"), ("Conic", "conic"), (None, "auto")]
)
def test_an_unknown_path_is_answered_with_the_known_ones(path, hint):
    with pytest.raises(InvalidInputError, match=f"unknown path .*'?{hint}'?"):
        CLS.solve([0.5, 0.2], path=path)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [LeastSquares, "LeastSquares", None])
def test_a_loss_must_be_an_instance(loss):
    with pytest.raises(
        InvalidTypeError, match=r"loss must be an instance .* such as LeastSquares\(\)"
    ):
        Problem(loss)


@pytest.mark.parametrize("constraints", [NonNegative(), [NonNegative], ["f >= 0"], [None]])
def test_constraints_must_be_a_list_of_instances(constraints):
    with pytest.raises(
        InvalidTypeError,
        match=r"constraints must be a list of instances .* such as \[NonNegative\(\)\]",
    ):
        Problem(LeastSquares(), constraints)


@pytest.mark.parametrize("constraints", [None, 3, NonNegative])
def test_what_is_no_list_at_all_is_a_type_error(constraints):
    with pytest.raises(InvalidTypeError, match="constraints must be a list"):
        Problem(LeastSquares(), constraints)


def test_two_totals_are_infeasible():
    with pytest.raises(InfeasibleError, match=r"different totals: 1.0 and 2.0; keep one"):
        Problem(LeastSquares(), [SumsTo(1), SumsTo(2)])


def test_a_negative_total_of_nonnegative_values_is_infeasible():
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(-1)])
    with pytest.raises(InfeasibleError, match=r"a sum of -1 cannot be met: .* from 0 to inf"):
        problem.solve([0.5, 0.2])


@pytest.mark.parametrize("path", ["auto", "conic"])
def test_a_negative_total_of_a_loss_on_nonnegative_values_is_infeasible(path):
    with pytest.raises(InfeasibleError):
        Problem(KullbackLeibler(), [SumsTo(-1)]).solve([0.5, 0.2], path=path)


def test_infeasible_is_a_value_error():
    assert issubclass(InfeasibleError, ValueError)


@pytest.mark.parametrize(
    ("total", "error"),
    [("1", TypeError), (None, TypeError), (True, TypeError), (np.inf, ValueError)],
)
def test_a_total_must_be_a_finite_number(total, error):
    with pytest.raises(error, match="total must be"):
        SumsTo(total)


@pytest.mark.parametrize("path", ["auto", "conic"])
def test_an_estimate_that_is_not_finite_is_refused_on_both_paths(path):
    with pytest.raises(InvalidInputError, match="found nan at index 1"):
        CLS.solve([0.5, np.nan], path=path)


@pytest.mark.parametrize("path", ["auto", "conic"])
def test_a_loss_that_needs_the_noise_level_says_so_on_both_paths(path):
    with pytest.raises(InvalidInputError, match="needs the noise level"):
        Problem(GaussianMLE(), [NonNegative(), SumsTo()]).solve([0.5, 0.2], path=path)


@pytest.mark.parametrize("path", ["auto", "conic"])
def test_kullback_leibler_without_a_positive_estimate_is_refused_on_both_paths(path):
    with pytest.raises(InvalidInputError, match="positive"):
        Problem(KullbackLeibler(), [SumsTo()]).solve([[0.5, 0.2], [-0.5, 0.0]], path=path)


def test_the_solution_shows_what_matters():
    solution = CLS.solve([0.5, 0.2, -0.01])
    assert isinstance(solution, Solution)
    for part in ("closed-form", "norm-sub", "optimal", "gap "):
        assert part in repr(solution)


# --- what users do with problems and solutions ----------------------------------------------------


def test_a_solution_pickles_after_a_conic_solve():
    solution = CLS.solve([0.5, 0.2, -0.01], path="conic")
    again = pickle.loads(pickle.dumps(solution))
    assert_allclose(again.frequencies, solution.frequencies, rtol=0, atol=0)
    assert_allclose(again.certificate.gap, solution.certificate.gap, rtol=0, atol=0)
    assert again.problem.solve([0.5, 0.2, -0.01], path="conic").status == "optimal"


def test_certify_takes_an_estimate_as_the_point():
    estimate = collected(8)
    assert certify(CLS, estimate, postprocess(estimate, "norm-sub")).is_optimal(1e-12)


def test_solvers_are_named_in_any_case():
    assert CLS.solve([0.5, 0.2], solver="clarabel").solver == "CLARABEL"


@pytest.mark.parametrize("option", ["qcp", "gp"])
def test_options_of_cvxpy_itself_are_refused(option):
    with pytest.raises(SolverError, match=f"'{option}' is not a solver option"):
        CLS.solve([0.5, 0.2], path="conic", **{option: True})


def test_a_misspelt_solver_option_is_an_error_of_ours():
    with pytest.raises(SolverError, match="tol_gpa"):
        CLS.solve([0.5, 0.2], path="conic", tol_gpa=1.0)


@pytest.mark.parametrize(
    "call", [lambda x: CLS.solve(x), lambda x: certify(CLS, x, x), lambda x: postprocess(x, "norm")]
)
@pytest.mark.parametrize(
    "wrong", [[[1, 2], [3]], None, "0.5", {"a": 1}], ids=["ragged", "none", "text", "dict"]
)
def test_what_is_no_array_is_refused_by_ours(call, wrong):
    with pytest.raises(LdpoptError, match="frequencies must be"):
        call(wrong)


def test_a_large_feasible_problem_is_not_called_infeasible():
    # In units of the frequency, 1/5000 here, OSQP once reported this problem as infeasible.
    d = 5000
    f = np.random.default_rng(0).normal(1 / d, 0.002, d)
    assert_allclose(
        CLS.solve(f, path="conic", solver="OSQP").frequencies,
        CLS.solve(f).frequencies,
        rtol=0,
        atol=1e-8,
    )


# --- explain is what solve does -------------------------------------------------------------------

D = 6
MATRIX_LOSSES = {
    "least squares": LeastSquares(),
    "weighted": WeightedLeastSquares([1.0, 2.0, 0.5, 1.0, 4.0, 1.0]),
    "gaussian": GaussianMLE(),
    "binomial": BinomialMLE(),
    "multinomial": MultinomialMLE(),
    "divergence": KullbackLeibler(),
    "deviations": LeastAbsolute(),
    "posterior": PosteriorMean(priors.PowerLaw),
    "normalised": NormalisedGaussianMLE(),
}
MATRIX_SETS = {
    "simplex": [NonNegative(), SumsTo()],
    "twice": [NonNegative(), SumsTo(), NonNegative()],
    "capped": [Bounds(0, 0.5), SumsTo()],
    "box": [Bounds(0, 0.5)],
    "fixed": [NonNegative(), Fixed([0], [0.25]), SumsTo()],
    "order": [NonNegative(), SumsTo(), Monotone(range(D))],
    "part of an order": [NonNegative(), SumsTo(), Monotone([0, 1])],
    "two orders": [NonNegative(), SumsTo(), Monotone([0, 1]), Monotone([3, 2])],
    "groups": [NonNegative(), GroupTotals([[0, 1], [2, 3]], [0.5, 0.25])],
    "groups and total": [NonNegative(), SumsTo(), GroupTotals([[0, 1], [2, 3]], [0.5, 0.25])],
    "all groups and total": [
        NonNegative(),
        SumsTo(),
        GroupTotals([[0, 1], range(2, D)], [0.7, 0.3]),
    ],
    "overlapping groups": [NonNegative(), SumsTo(), GroupTotals([[0, 1], [1, 2]], [0.5, 0.25])],
    "rows": [NonNegative(), SumsTo(), Linear([[1, -1, 0, 0, 0, 0]], 0, np.inf)],
    "custom": [NonNegative(), SumsTo(), Custom(lambda f: [f[0] >= f[1]])],
}


@pytest.mark.parametrize("kind", MATRIX_SETS)
@pytest.mark.parametrize("name", MATRIX_LOSSES)
def test_explain_says_what_solve_does(name, kind):
    loss = MATRIX_LOSSES[name]
    problem = Problem(loss, MATRIX_SETS[kind])
    chosen = (oracles.GRR if name == "multinomial" else oracles.OUE)(epsilon=3.0, d=D)
    estimate = chosen.estimate(chosen.simulate_counts([900, 500, 300, 150, 100, 50], 0), 2000)
    explanation = problem.explain(estimate)
    if (name, kind) == ("multinomial", "groups"):  # values outside the groups are unbounded
        with pytest.raises(InvalidInputError, match="no minimum, add"):
            problem.solve(estimate)
        return
    solution = problem.solve(estimate)
    path, _, rest = explanation.partition(": ")
    assert path == solution.path
    assert rest.startswith(f"{loss!r} under ")
    assert solution.solver in rest
    assert solution.certificate.violation <= SOLVER["CLARABEL"]
    if problem.total(D) is not None:
        assert solution.certificate.gap <= GAP * SOLVER["CLARABEL"]
    for other in ("closed-form", "iterative"):
        if other == solution.path:
            assert problem.solve(estimate, path=other).solver == solution.solver
        else:
            with pytest.raises(InvalidInputError, match=f"path='{other}' is not available"):
                problem.solve(estimate, path=other)


def test_groups_that_hold_every_value_and_their_total_have_the_closed_form():
    problem = Problem(LeastSquares(), MATRIX_SETS["all groups and total"])
    solution = problem.solve(collected(D))
    assert solution.solver == "norm-sub by group"
    assert solution.certificate.is_optimal(CERTIFIED)
    numeric = problem.solve(collected(D), path="conic", solver="OSQP").frequencies
    assert_allclose(numeric, solution.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


def test_groups_that_leave_nothing_to_the_others_have_the_closed_form():
    groups = GroupTotals(
        [[0, 1], [2, 3]], [0.1 + 0.2, 0.7]
    )  # 0.1 + 0.2 + 0.7 is not 1 in floating point
    solution = Problem(LeastSquares(), [NonNegative(), SumsTo(), groups]).solve(collected(D))
    assert solution.solver == "norm-sub by group"
    assert solution.frequencies[4:].tolist() == [0.0, 0.0]
    assert solution.certificate.is_optimal(CERTIFIED)


def test_without_constraints_no_trial_of_a_stack_is_violated():
    solution = Problem(LeastSquares(), []).solve([[0.5, -0.2], [0.1, 0.9]])
    assert solution.certificate.violation.tolist() == [0.0, 0.0]
    assert solution.problem.violation(np.zeros((3, 2))).tolist() == [0.0, 0.0, 0.0]


def test_an_empty_mapping_of_bounds_and_weights_beyond_a_double_are_refused():
    with pytest.raises(InvalidInputError, match="lower must map labels to numbers, and the mapp"):
        Problem(LeastSquares(), [Bounds(lower={})]).solve([0.5, 0.2])
    with pytest.raises(InvalidInputError, match="the sum of the weights is beyond the largest"):
        WeightedLeastSquares([1e308, 1e308])


def test_the_problem_of_a_solution_is_one_that_solves_at_the_parameters_values():
    total = Parameter("total", 1.0)
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(total)])
    solution = problem.solve([0.5, 0.2, 0.1])
    total.value = 2.0
    assert type(solution.problem) is Problem
    again = solution.problem.solve([0.5, 0.2, 0.1])
    assert_allclose(again.frequencies, solution.frequencies, rtol=0, atol=0)
    assert problem.solve([0.5, 0.2, 0.1]).frequencies.sum() == pytest.approx(2.0)
