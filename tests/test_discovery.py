"""Closed forms are found where compositions have them, and refuted where they do not."""

import re
from dataclasses import replace

import numpy as np
import pytest

from experiments.bench.discovery import TARGETS, D
from ldpopt import FrequencyEstimate, Problem, discover, losses, oracles
from ldpopt import constraints as c
from ldpopt.discovery import OPERATORS, Setting, register_operator, search
from ldpopt.discovery.counterexample import _simpler, complexity
from ldpopt.discovery.inputs import _simulated, inputs_of
from ldpopt.discovery.judge import TOLERANCE, Solutions, certified, compared, screen_of
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError
from ldpopt.solve.paths.closed_forms import closed_form_for
from ldpopt.solve.status import Status

SIMPLEX = [c.NonNegative(), c.SumsTo(1.0)]
PAIR = c.Linear([[1.0, -1.0, 0.0, 0.0]], 0.0, 0.0)


def pairs_equal(d):
    """Return the simplex where the first two of d values are equal."""
    row = np.eye(1, d) - np.eye(1, d, 1)
    return Problem(losses.LeastSquares(), [*SIMPLEX, c.Linear(row, 0.0, 0.0)])


@pytest.fixture(autouse=True)
def few_explanations(monkeypatch):
    """One counterexample is simplified per search: each takes some solutions by a solver."""
    monkeypatch.setattr("ldpopt.discovery.discovering._EXPLAINED", 1)


@pytest.fixture(scope="module")
def form():
    return discover(pairs_equal, 4, length=2, inputs=24, again=True)


@pytest.fixture(scope="module")
def no_form():
    return discover(
        Problem(losses.LeastSquares(), [*SIMPLEX, c.Smooth(total_variation=0.3)]),
        4,
        length=2,
        inputs=24,
        again=True,
    )


# The others take seconds each for their references: the bench runs all.
CHEAP = [
    "squares, order",
    "binomial, unimodal, caps",
    "weighted MLE, order",
    "KL, order",
    "squares, groups, orders within",
    "squares, mirrored by cvxpy",
    "squares, variation",
    "weighted squares, order",
    "binomial, order, caps of each",
    "squares, two margins",
    "absolute values, order",
    "squares, variation as a price",
]


@pytest.mark.parametrize("name", CHEAP)
def test_targets_with_a_known_answer_are_right(name):
    target = TARGETS[name]
    answer = discover(target.problem, D, length=2, inputs=22, again=True, workers=1)
    assert answer.expression == target.expression
    assert bool(answer) == bool(target.expression)
    assert answer.refuted


def test_ten_targets_have_a_form_and_at_least_five_are_new():
    forms = [target for target in TARGETS.values() if target.expression]
    assert (len(forms), len(TARGETS)) == (10, 20)
    estimate = oracles.OUE(1.0, D).estimate(np.full(D, 1_200), 4_000)
    new = [t for t in forms if closed_form_for(t.problem.at(estimate), estimate) is None]
    assert len(new) >= 5


def test_a_form_solves_stacks_and_is_certified(form):
    values = np.random.default_rng(1).normal(0.25, 0.2, (5, 4))
    solution = form.solve(values)
    assert solution.status is Status.OPTIMAL
    assert (solution.path, solution.solver) == ("closed-form", "mean of ties -> level")
    assert solution.certificate.is_optimal(1e-12)
    np.testing.assert_array_equal(form.apply(values), solution.frequencies)


@pytest.mark.parametrize("d", [2, 7, 300])
def test_a_form_of_a_family_is_certified_at_any_size(form, d):
    values = np.random.default_rng(d).normal(1 / d, 1 / d, d)
    solution = form.solve(values)
    assert solution.frequencies.shape == (d,)
    assert solution.certificate.is_optimal(1e-12)


def test_a_form_that_is_not_defined_for_an_estimate_says_so(form):
    partial = replace(
        OPERATORS["level"], function=lambda values, setting: np.full(values.shape, np.nan)
    )
    with pytest.raises(InvalidInputError, match=r"level is not defined for this estimate: solve"):
        replace(form, operators=(partial,)).solve([0.25] * 4)


def test_one_kind_of_input_is_simulated_from_a_tenth_of_the_reports():
    oracle = oracles.OUE(1.0, 400)
    kind, values = _simulated(oracle, 50_000, 5, np.random.default_rng(1))
    assert kind == "simulated from few reports"
    # 400 variances: their mean is off by 30 % in less than one of a million seeds.
    spread = np.mean(values**2)
    assert spread == pytest.approx(oracle.variance(5_000), rel=0.3)


def test_a_problem_that_accepts_no_input_says_why_by_the_first():
    class Refusing:
        refused = 0

        def accept(self, estimate):
            self.refused += 1
            raise InvalidInputError(f"refused, {self.refused}")

    problem = Refusing()
    with pytest.raises(InvalidInputError, match="refused, 1"):
        inputs_of(problem, oracles.OUE(1.0, 4), 1_000, 5, np.random.default_rng(0))
    assert problem.refused == 5


def test_evidence_states_what_was_looked_at(form):
    evidence = form.evidence
    assert sum(evidence.inputs.values()) == 24
    assert evidence.is_complete
    assert evidence.gap <= TOLERANCE
    assert evidence.violation <= TOLERANCE
    operators = len([one for one in OPERATORS.values() if one.is_available(form.setting)])
    assert evidence.tried + evidence.pruned + evidence.left == operators + operators**2


def test_the_refuted_are_variants_with_a_checkable_counterexample(form):
    wrong = form.refuted[0]
    assert wrong.expression == "level -> mean of ties"
    assert np.count_nonzero(wrong.frequencies) <= 2
    problem = pairs_equal(4)
    leveled = OPERATORS["level"].apply(wrong.frequencies[None], form.setting)
    point = OPERATORS["mean of ties"].apply(leveled, form.setting)[0]
    start = FrequencyEstimate(wrong.frequencies)
    best = problem.solve(start)
    excess = problem.loss.value(point, start) - best.objective
    assert excess == pytest.approx(wrong.gap, rel=1e-6)
    assert wrong.right < wrong.compared


def test_none_survives_is_an_answer_too(no_form):
    assert not no_form
    assert no_form.expression == ""
    assert no_form.evidence.left == 0
    assert re.match(r"none of [\d,]+ compositions survives; the best, .* is right on", str(no_form))
    with pytest.raises(InvalidInputError, match=r"use problem\.solve\(estimate\)"):
        no_form.solve([0.25] * 4)


def test_answers_show_themselves(form, no_form):
    assert repr(form).startswith("Form mean of ties -> level\n  of LeastSquares() under")
    assert "refuted" in repr(form)
    assert repr(no_form).startswith("NoForm: none of")
    assert "mean of ties -&gt; level" in form._repr_html_()
    assert "No form" in no_form._repr_html_()
    assert form.latex() == (r"\hat f = \operatorname{clip}_{[l,u]}(\overline{\tilde f} - t)")


def test_refuted_compositions_are_a_frame(form):
    pytest.importorskip("pandas")
    frame = form.to_frame()
    assert list(frame["expression"]) == [one.expression for one in form.refuted]


def test_the_same_seed_gives_the_same_answer(form):
    again = discover(pairs_equal, 4, length=2, inputs=24, again=True)
    assert again.expression == form.expression
    assert again.evidence == form.evidence  # but for the seconds
    np.testing.assert_array_equal(again.refuted[0].frequencies, form.refuted[0].frequencies)


def test_the_answer_does_not_depend_on_the_number_of_workers(monkeypatch, no_form):
    monkeypatch.setattr(search, "_CHUNK", 2)
    parallel = discover(no_form.problem, 4, length=2, inputs=24, again=True, workers=2)
    assert parallel.evidence == no_form.evidence
    assert parallel.refuted[0].expression == no_form.refuted[0].expression


def test_a_survivor_of_the_screen_is_refuted_by_a_certificate(monkeypatch):
    """With a screen of one input nearly everything survives it: all inputs then judge."""
    monkeypatch.setattr("ldpopt.discovery.discovering._SCREEN", 1)
    answer = discover(TARGETS["squares, order"].problem, D, length=2, inputs=30, again=True)
    assert answer.expression == "pool -> level"


def test_a_reference_refutes_from_below():
    problem = Problem(losses.LeastSquares(), SIMPLEX)
    estimates = FrequencyEstimate(np.array([[0.9, 0.6], [0.5, 0.5]]))
    solutions = Solutions(problem)
    points, is_solved = solutions.of(estimates)
    screen = screen_of(solutions, estimates, points)
    worse = np.array([[0.5, 0.5], [0.5, 0.5]])
    outside = np.array([[0.7, 0.2], [np.nan, 0.5]])
    # The estimates themselves: below the minimum, and outside.
    below = estimates.frequencies
    right, wrong, infeasible, lower = compared(screen, np.stack([points, worse, outside, below]))
    assert is_solved.all()
    assert right.is_right.all()
    assert wrong.is_right.tolist() == [False, True]
    assert wrong.gap[0] == pytest.approx(0.0225)  # ½‖(.5, .5) - (.65, .35)‖²
    assert not infeasible.is_right.any()
    assert infeasible.violation.tolist() == [pytest.approx(0.1), np.inf]
    assert lower.is_right.tolist() == [False, True]


def test_an_input_without_a_solution_does_not_count_against_a_form():
    """KL has no value where a group with a positive total has no positive estimate."""
    groups = c.GroupTotals([[0, 1], [2, 3]], [0.5, 0.5])
    problem = Problem(losses.KullbackLeibler(), [c.NonNegative(), groups])
    estimates = FrequencyEstimate([[0.3, 0.2, 0.4, 0.1], [0.5, 0.5, -0.1, -0.1]])
    points = np.array([[0.3, 0.2, 0.4, 0.1], [0.25, 0.25, 0.25, 0.25]])
    verdict, is_rejected = certified(Solutions(problem), estimates, points)
    assert is_rejected.tolist() == [False, True]
    assert verdict.is_right.all()
    wrong, is_rejected = certified(Solutions(problem), estimates[:1], points[1:])
    assert wrong.is_right.tolist() == [False]
    assert is_rejected.tolist() == [False]


def test_what_equals_an_earlier_composition_is_not_extended(no_form):
    """Both of shift -> level and level -> shift are level, so that nothing of length 3 is left."""
    answer = discover(
        no_form.problem, 4, length=3, inputs=24, again=True, operators=["shift", "level"]
    )
    assert (answer.evidence.tried, answer.evidence.pruned) == (4, 10)


def test_simpler_vectors_come_in_their_order():
    vectors = _simpler(np.array([0.512, -0.204, 0.001, 0.03]))
    sizes = [complexity(vector) for vector in vectors]
    assert sizes == sorted(sizes)
    assert vectors[0].tolist() == [0.5, 0.0, 0.0, 0.0]
    assert _simpler(np.zeros(4)) == []


def test_the_simplest_vector_has_fewest_values_then_digits():
    vectors = [np.array([0.5, 0.25]), np.array([0.0, 0.123]), np.array([0.0, 0.5])]
    assert sorted(range(3), key=lambda i: complexity(vectors[i])) == [2, 1, 0]


# --- bad input ------------------------------------------------------------------------------------


def test_a_form_that_there_is_already_is_named():
    with pytest.raises(InvalidInputError, match=r"closed form already, 'norm-sub'.*again=True"):
        discover(Problem(losses.LeastSquares(), SIMPLEX), 4)


def test_bounds_that_an_order_makes_contradictory_are_named_with_the_chain():
    bounds = c.Bounds([0.0, 0.0, 0.5], [0.2, 1.0, 1.0])
    chain = [bounds, c.SumsTo(1.0), c.Monotone([0, 1, 2])]
    with pytest.raises(InfeasibleError, match=re.escape("f[0] >= f[1]; f[1] >= f[2]")):
        discover(Problem(losses.LeastSquares(), chain), 3, again=True)


def test_losses_that_no_composition_can_be_judged_by_are_refused():
    oracle = oracles.GRR(1.0, 4)
    per_report = losses.PerReportMLE(oracle, oracle.perturb([0, 1, 2, 3], rng=0))
    channel = losses.ChannelMLE(np.eye(4) * 0.6 + 0.1, [5, 4, 3, 2])
    for loss in (per_report, channel):
        with pytest.raises(InvalidInputError, match="has no value-by-value form"):
            discover(Problem(loss, SIMPLEX), 4, oracle)
    with pytest.raises(InvalidInputError, match="its certificate covers"):
        discover(Problem(losses.NormalisedGaussianMLE(), SIMPLEX), 4)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"d": 1}, "d .* must be .* 2"),
        ({"length": 0}, "length"),
        ({"inputs": 0}, "inputs"),
        ({"n": 0}, "n "),
        ({"seconds": 0}, "seconds"),
        ({"workers": 0}, "workers"),
        ({"operators": []}, "at least one operator"),
        ({"operators": ["pol"]}, "unknown operator 'pol'"),
        ({"operators": ["pool"]}, "no operator applies"),
        ({"oracle": oracles.OUE(1.0, 5)}, "the oracle has 5 values and the search 4"),
    ],
)
def test_bad_numbers_and_names_are_clear_errors(options, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        discover(pairs_equal(4), **({"d": 4, "again": True} | options))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"operators": "pool"}, "a list of names"),
        ({"oracle": "OUE"}, "one of ldpopt.oracles"),
        ({"problem": "simplex"}, "a Problem, or a function"),
        ({"problem": lambda d: d}, "a Problem, or a function"),
    ],
)
def test_arguments_of_another_kind_are_clear_errors(options, sentence):
    with pytest.raises(InvalidTypeError, match=sentence):
        discover(**({"problem": pairs_equal(4), "d": 4} | options))


def test_inputs_without_a_solution_are_counted():
    answer = discover(
        Problem(losses.KullbackLeibler(), [*SIMPLEX, PAIR]), 4, length=2, inputs=24, again=True
    )
    rejected = answer.evidence.rejected
    assert rejected["zero"] == 1
    assert sum(rejected.values()) + sum(answer.evidence.inputs.values()) == 24
    assert "without a solution" in repr(answer)


def test_a_budget_of_time_states_what_is_left(monkeypatch):
    monkeypatch.setattr(search, "_CHUNK", 2)
    answer = discover(pairs_equal(4), 4, length=3, inputs=4, again=True, seconds=1e-9)
    assert not answer
    assert not answer.evidence.is_complete
    assert answer.evidence.left > 0
    assert "time was up with" in str(answer)


def test_a_hostile_operator_ends_the_search_with_its_name():
    register_operator("halved", lambda x: x[:, ::2])
    try:
        with pytest.raises(InvalidInputError, match="the operator 'halved' must return the shape"):
            discover(pairs_equal(4), 4, length=1, inputs=4, again=True)
    finally:
        OPERATORS.remove("halved")


def test_an_operator_that_no_process_can_get_is_refused(monkeypatch):
    monkeypatch.setattr(search, "_CHUNK", 2)
    register_operator("local", lambda x: x)
    try:
        with pytest.raises(InvalidInputError, match="at the top of a module, or use workers=1"):
            discover(pairs_equal(4), 4, length=2, inputs=4, again=True, workers=2)
    finally:
        OPERATORS.remove("local")


def test_an_own_operator_may_be_the_form():
    """Least squares where the first value is twice the second: a projection of no operator here."""
    d = 3
    row = np.array([1.0, -2.0, 0.0])

    def on_the_plane(values):
        return values - np.outer(values @ row, row) / (row @ row)

    problem = Problem(losses.LeastSquares(), [c.Linear(row[None], 0.0, 0.0)])
    register_operator("plane", on_the_plane, is_idempotent=True)
    try:
        answer = discover(problem, d, length=1, inputs=10, again=True)
        assert answer.expression == "plane"
    finally:
        OPERATORS.remove("plane")
    assert not discover(problem, d, length=1, inputs=10, again=True)


# --- attacks --------------------------------------------------------------------------------------


def test_a_tiny_total_does_not_hide_a_wrong_form():
    """Beside a tolerance of 1e-9 every violation of values of 1e-9 would be nothing."""
    constraints = [c.NonNegative(), c.SumsTo(1e-9), c.Monotone(np.arange(4))]
    problem = Problem(losses.LeastSquares(), constraints)
    answer = discover(problem, 4, length=2, inputs=30, again=True)
    assert answer.expression == "pool -> level"


def test_a_likelihood_that_is_nearly_constant_does_not_make_everything_optimal():
    """Very private reports say little, and their likelihood is a large constant and a small rest.

    Shifted, clipped and scaled every estimate is feasible, but not optimal.
    """
    problem = Problem(losses.BinomialMLE(), SIMPLEX)
    answer = discover(
        problem,
        4,
        oracle=oracles.OUE(1e-7, 4),
        length=3,
        inputs=24,
        again=True,
        operators=["clip at 0", "scale", "shift"],
    )
    assert not answer


def _halve_the_imaginary(values):
    return values + 0.5j


def _mask_the_negative(values):
    return np.ma.masked_array(values, values < 0)


def _fail(values):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (_halve_the_imaginary, "must return plain real numbers, got ndarray of complex128"),
        (_mask_the_negative, "must return plain real numbers, got MaskedArray of float64"),
        (_fail, "failed: ZeroDivisionError"),
    ],
)
def test_what_an_own_operator_returns_is_not_mended_in_silence(function, sentence, registering):
    registering("hostile", function)
    with pytest.raises(InvalidInputError, match=f"the operator 'hostile' {sentence}"):
        discover(Problem(losses.LeastSquares(), SIMPLEX), 4, length=1, inputs=10, again=True)


def test_an_order_of_one_value_is_no_order():
    """It would name a pooling that leaves every vector as it is."""
    estimate = FrequencyEstimate([0.5, 0.3, 0.2])
    orders = [
        Setting.of(Problem(losses.LeastSquares(), [c.Monotone(along)]), estimate).order
        for along in ([0], [0, 1])
    ]
    assert [order is None for order in orders] == [True, False]


def test_an_own_operator_that_looks_at_other_rows_is_no_form(registering):
    """Right for a stack whose first row is of zeros, as the inputs', and wrong for any other."""

    def leveled(values):
        right = OPERATORS["level"].function(values, setting)
        return right + values[:1] - values[0].mean() + np.zeros(values.shape)

    problem = Problem(losses.LeastSquares(), SIMPLEX)
    setting = Setting.of(problem, FrequencyEstimate(np.zeros((1, 4)), 4_000, oracles.OUE(1.0, 4)))
    registering("leveled", leveled)
    with pytest.raises(InvalidInputError, match="'leveled' must be a function of each row alone"):
        discover(problem, 4, length=1, inputs=20, again=True, operators=["leveled"])


@pytest.fixture
def registering():
    names = []

    def register(name, function):
        register_operator(name, function)
        names.append(name)

    yield register
    for name in names:
        OPERATORS.remove(name)
