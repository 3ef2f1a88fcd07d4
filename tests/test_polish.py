"""Polished answers: certified to rounding, in the set, and only where nobody named a solver."""

import itertools
import warnings
from dataclasses import replace
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, certify, datasets, oracles
from ldpopt.closed_form import norm_sub
from ldpopt.constraints import (
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Hierarchy,
    Linear,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
)
from ldpopt.errors import InfeasibleError, LdpoptWarning
from ldpopt.losses import (
    BinomialMLE,
    GaussianMLE,
    Huber,
    KLTo,
    KullbackLeibler,
    LeastAbsolute,
    LeastSquares,
    MultinomialMLE,
    WeightedLeastSquares,
)
from ldpopt.losses import Custom as CustomLoss
from ldpopt.solve import polish as polish_module
from ldpopt.solve import second_try
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones import compiled_problem
from ldpopt.solve.paths.conic import ConicPath
from ldpopt.solve.plan import Outcome
from ldpopt.solve.polish import polish, polished_by_differences
from tests.tolerances import CERTIFIED, ROUNDING, SOLVER, SUM

D = 7
SIMPLEX = [NonNegative(), SumsTo()]
STEEP = WeightedLeastSquares([1e9, *[1.0] * (D - 1)])
LOSSES = [
    LeastSquares(),
    GaussianMLE(),
    BinomialMLE(),
    KullbackLeibler(),
    WeightedLeastSquares([1.0, 5.0, 2.0, 9.0, 3.0, 1.0, 4.0]),
    STEEP,
    Huber(0.02),
]
POLYHEDRA = {
    "chain": [Monotone(range(D))],
    "pairs and row": [Monotone([4, 2]), Linear([[1, 1] + [0] * (D - 2)], -np.inf, 0.45)],
    "overlapping groups": [GroupTotals([[0, 1], [1, 2]], [0.52, 0.45])],
    "caps and chain": [Bounds(0, 0.28), Monotone(range(D))],
    "linear for cvxpy alone": [Custom(lambda f: [f[0] == 0.3, f[1] >= f[2]])],
}


def collected(seed=0):
    oracle = oracles.OUE(epsilon=1.0, d=D)
    users = [3000, 2500, 2000, 1000, 800, 500, 200]
    return oracle.estimate(oracle.simulate_counts(users, seed), sum(users))


@pytest.mark.parametrize("name", POLYHEDRA)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_answers_on_polyhedra_are_certified_to_rounding(loss, name):
    problem = Problem(loss, [*SIMPLEX, *POLYHEDRA[name]])
    estimate = collected()
    solution = problem.solve(estimate)  # a warning would be an error
    certificate = solution.certificate
    assert certificate.gap <= 1e-14 * (1 + certificate.scale)
    assert certificate.violation <= 1e-14
    assert solution.status == "optimal"
    # The same minimum as that of a solver, which is not polished.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = problem.solve(estimate, path="conic")
    assert solution.objective <= raw.objective + 1e-9 * (1 + abs(raw.objective))
    if loss is not STEEP:
        assert_allclose(solution.frequencies, raw.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("delta", [1e-3, 0.01, 0.1])
@pytest.mark.parametrize("more", [[], [NonNegative()]], ids=["any sign", "nonnegative"])
def test_values_on_the_straight_part_of_a_loss_are_polished(delta, more):
    """Where children contradict their parent, most deviations are outliers."""
    rng = np.random.default_rng(8)
    for _ in range(3):
        parents = [-1, *(int(rng.integers(0, v)) for v in range(1, 20))]
        raw = rng.normal(0.05, 0.1, 20)
        solution = Problem(Huber(delta), [Hierarchy(parents, total=1.0), *more]).solve(raw)
        assert solution.path == "conic"
        assert np.sum(np.abs(solution.frequencies - raw) > delta) >= 3
        assert solution.status == "optimal"
        assert solution.certificate.gap <= 1e-12 * solution.certificate.scale


def test_a_solver_that_is_named_is_seen_as_it_is():
    problem = Problem(GaussianMLE(), [*SIMPLEX, Monotone(range(D))])
    estimate = collected()
    free = problem.solve(estimate)
    named = problem.solve(estimate, solver="CLARABEL")
    conic = problem.solve(estimate, path="conic")
    assert np.array_equal(named.frequencies, conic.frequencies)
    assert not np.array_equal(free.frequencies, conic.frequencies)
    assert free.certificate.gap < conic.certificate.gap


def test_stacks_are_polished_trial_by_trial():
    problem = Problem(BinomialMLE(), [*SIMPLEX, Monotone(range(D))])
    oracle = oracles.OUE(epsilon=1.0, d=D)
    stack = oracle.estimate(
        oracle.simulate_counts([3000, 2500, 2000, 1000, 800, 500, 200], 3, trials=3), 10_000
    )
    solution = problem.solve(stack)
    assert (solution.certificate.gap <= 1e-14).all()
    for trial in range(3):
        one = problem.solve(stack[trial])
        assert_allclose(solution.frequencies[trial], one.frequencies, rtol=0, atol=1e-14)


def test_a_point_far_from_the_minimum_is_brought_there_or_left():
    problem = Problem(LeastSquares(), [*SIMPLEX, Monotone(range(D))])
    estimate = collected()
    best = problem.solve(estimate).frequencies
    uniform = np.full(D, 1 / D)
    moved = polish(problem, estimate, Outcome(uniform)).frequencies
    assert certify(problem, estimate, moved).gap <= certify(problem, estimate, uniform).gap
    assert_allclose(moved, best, rtol=0, atol=1e-12)


def test_steps_that_do_not_settle_leave_the_point_as_it_was(monkeypatch):
    monkeypatch.setattr(polish_module, "_MAX_STEPS", 1)
    problem = Problem(GaussianMLE(), [*SIMPLEX, Monotone(range(D))])
    estimate = collected()
    uniform = np.full(D, 1 / D)
    assert np.array_equal(polish(problem, estimate, Outcome(uniform)).frequencies, uniform)


@pytest.mark.parametrize(
    "where",
    [
        [Smooth(total_variation=0.3)],
        [Custom(lambda f: [cp.norm(f) <= 0.45])],
        [Custom(lambda f: [cp.sum(cp.kl_div(f, np.full(D, 1 / D))) <= 0.05])],
    ],
    ids=["auxiliary", "ball", "divergence"],
)
def test_what_newton_does_not_take_is_certified_as_the_solver_left_it(where):
    for loss in (LeastSquares(), BinomialMLE(), LeastAbsolute()):
        problem = Problem(loss, [*SIMPLEX, *where])
        certificate = problem.solve(collected()).certificate
        assert certificate.is_optimal(1e-8, relative=True), (loss, certificate)


def test_answers_on_a_top_set_beside_rows_are_certified_to_rounding():
    # Its rows have a further variable, the smallest of the members.
    rows = Linear([[1.0, -2.0, 0.0, 1.0, 0.0, 0.0, 0.0]], -0.01, 0.0)
    certificate = (
        Problem(GaussianMLE(), [*SIMPLEX, TopSet([0, 2]), rows]).solve(collected()).certificate
    )
    assert certificate.gap <= 1e-14 * (1 + certificate.scale)


@pytest.mark.parametrize("f", [[0.3, 0.2, 0.1, 0.2, 0.2], [0.1, 0.3, 0.3, 0.0, 0.1]])
def test_a_face_of_a_top_set_is_inside_it_and_holds_its_points(f):
    top = TopSet([1, 2, 4])
    face = top.face(np.array(f), 0.0)
    moved = np.array(f) + np.random.default_rng(0).normal(0, 0.1, (200, 5))
    inside = (moved @ face.matrix.T >= face.lower).all(axis=1)
    assert 0 < inside.sum() < 200
    assert (top.violation(moved[inside]) == 0).all()
    # Where the smallest member is the same, nothing of the set is left out.
    same = moved[:, [1, 2, 4]].argmin(axis=1) == np.array(f)[[1, 2, 4]].argmin()
    assert np.array_equal(inside[same], top.violation(moved[same]) == 0)
    assert TopSet([]).face(np.array(f), 0.0) is None


def test_pairs_of_constraints_are_certified():
    # Every kind of polyhedron with every other one.
    estimate = collected(1)
    for first, second in itertools.combinations(POLYHEDRA.values(), 2):
        problem = Problem(GaussianMLE(), [*SIMPLEX, *first, *second])
        try:
            solution = problem.solve(estimate)
        except InfeasibleError:  # these two contradict each other
            continue
        # Two constraints may leave one point, at which the last digits of the solver's stay.
        assert solution.certificate.is_optimal(1e-8, relative=True)


def test_constraints_within_a_thousandth_of_a_step_are_added_together():
    # The values fall to 0 after 10⁻⁴, 2·10⁻⁴ and half of the step, the row after 3·10⁻⁴ of it.
    f = np.array([1e-4, 2e-4, 0.5])
    step = np.array([-1.0, -1.0, -1.0])
    box = SimpleNamespace(lower=np.zeros(3), upper=np.full(3, np.inf))
    matrix = np.array([[0.0, 0.0, 1.0]])
    system = SimpleNamespace(matrix=matrix, lower=np.array([0.5 - 3e-4]), upper=np.array([1.0]))
    rows = SimpleNamespace(system=system)
    none = np.zeros(3, dtype=bool)
    face = polish_module._Face(none[:1].copy(), np.zeros(1), none.copy(), none.copy())
    length, blocking = polish_module._longest(
        f, step, rows, box, face, none, polish_module._TOGETHER
    )
    assert length == 1e-4
    polish_module._add(face, blocking, rows)
    assert face.low.tolist() == [True, True, False]
    assert face.rows.tolist() == [True]
    assert face.ends.tolist() == [0.5 - 3e-4]
    assert not face.high.any()


# --- sums of absolute differences -----------------------------------------------------------------

VARIATIONS = {
    "variation": {"total_variation": 0.06},
    "bend": {"second_difference": 0.02},
    "both": {"total_variation": 0.06, "second_difference": 0.02},
}


def noisy_hill(d):
    hill = np.exp(-(((np.arange(d) - 0.4 * d) / (d / 6)) ** 2))
    return hill / hill.sum() + np.random.default_rng(1).normal(0, 0.01, d)


@pytest.mark.parametrize("kind", VARIATIONS)
def test_points_of_smooth_sets_are_polished_with_the_signs_of_their_differences(kind):
    smooth = Smooth(**VARIATIONS[kind])
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), smooth])
    start = noisy_hill(30)
    polished = problem.solve(start).certificate
    bare = problem.solve(start, path="conic").certificate
    assert polished.is_optimal(1e-13, relative=True)
    assert not bare.is_optimal(1e-13, relative=True)


def test_an_order_among_many_zeros_is_polished_in_every_trial():
    """Its multipliers are not unique: a search by their signs goes round in circles."""
    data = datasets.load("emoji").scaled(884_427)
    groups = data.sets["category"]
    totals = [data.frequencies[members].sum() for members in groups]
    moved = data.frequencies * np.exp(0.25 * np.random.default_rng(1).standard_normal(data.d))
    order = Monotone(np.argsort(-moved, kind="stable"))
    problem = Problem(LeastSquares(), [NonNegative(), order, GroupTotals(groups, totals)])
    oracle = oracles.OUE(epsilon=1.0, d=data.d)
    start = oracle.estimate(oracle.simulate_counts(data.counts, rng=0, trials=5), data.n)
    solution = problem.solve(start)
    assert solution.path == "conic"
    assert np.all(solution.certificate.gap <= 1e-15 * solution.certificate.scale)


def test_what_a_rough_point_is_not_next_to_holds_once_it_is_in_the_way(monkeypatch):
    """Cone programs of likelihoods end a millionth from what holds: multipliers take longer."""
    monkeypatch.setattr(polish_module, "_face_of", None)
    raw = collected()
    groups = GroupTotals([[0, 3, 6], [1, 2, 4, 5]], [0.4, 0.6])
    problem = Problem(BinomialMLE(), [NonNegative(), Monotone([6, 5]), groups])
    minimum = problem.solve(raw, path="conic", accuracy="high").frequencies
    assert_allclose(minimum[6], minimum[5], rtol=0, atol=1e-6)
    # In the set and in both groups, and 1e-5 from equality.
    rough = minimum + 1e-5 * np.array([1, 1, 0, -1, 0, -1, 0])
    polished = polish(problem.at(raw), raw, Outcome(rough)).frequencies
    assert certify(problem, raw, polished).is_optimal(1e-15, relative=True)


@pytest.mark.parametrize("distance", [3e-9, 3e-8, 9e-8])
def test_a_value_next_to_a_bound_is_not_held_there(distance):
    """Held at 0 its gap would be rounding, but not what its multiplier leaves of the slope."""
    start = FrequencyEstimate([0.6, 0.3, 0.1 - distance, distance])
    row = Linear([[1, 0, 0, 0]], upper=[0.7])
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), row])
    rough = start.frequencies + np.array([-1e-10, 0, 0, 1e-10])
    polished = polish(problem.at(start), start, Outcome(rough)).frequencies
    assert_allclose(polished, start.frequencies, rtol=0, atol=1e-16)


@pytest.mark.parametrize("distance", [3e-9, 3e-8, 9e-8])
def test_a_value_next_to_a_cap_is_not_held_there(distance):
    """Its slope, away from the cap, could be that of a multiplier of the bound far below."""
    start = FrequencyEstimate([0.5, 0.3, 0.2])
    caps = Bounds(0.0, [1.0, 1.0, 0.2 + distance])
    problem = Problem(LeastSquares(), [caps, SumsTo(1.0), Linear([[1, 0, 0]], upper=[0.7])])
    rough = start.frequencies + np.array([-1e-10, 0, 1e-10])
    polished = polish(problem.at(start), start, Outcome(rough)).frequencies
    assert_allclose(polished, start.frequencies, rtol=0, atol=1e-16)


def test_a_lone_bound_of_differences_is_polished():
    smooth = Smooth(**VARIATIONS["both"])
    problem = Problem(LeastSquares(), [smooth])
    start = problem.accept(noisy_hill(30))
    rough = problem.solve(start, path="conic").frequencies
    polished = polish(problem, start, Outcome(rough)).frequencies
    assert certify(problem, start, rough).gap > 1e-13
    assert certify(problem, start, polished).is_optimal(1e-13, relative=True)


@pytest.mark.parametrize("kind", VARIATIONS)
def test_a_face_says_the_same_as_the_set_where_signs_stay(kind):
    smooth = Smooth(**VARIATIONS[kind])
    f = noisy_hill(12)
    f[4:7] = f[4]
    face = smooth.face(f, 1e-9)
    moved = f + np.random.default_rng(2).normal(0, 1e-5, 12)
    moved[4:7] = moved[4]
    for point in (f, moved):
        values = face.matrix @ point
        excess = np.max(values - face.upper)
        assert_allclose(max(excess, 0.0), smooth.violation(point), atol=1e-15)
        # A difference that is 0 at f is held there.
        assert_allclose(values[face.lower == 0], 0.0, atol=1e-15)
    assert np.count_nonzero(face.lower == 0) >= 1


@pytest.mark.parametrize(
    "bound",
    [
        lambda f: cp.norm(f - 0.2) <= 0.1,
        lambda f: cp.tv(f) <= 0.3,
        lambda f: f[0] >= f[1] + 0.1,  # polished
    ],
)
def test_certificates_of_a_stack_compile_their_set_once(bound, by_cones, monkeypatch):
    compiled = []
    compile_it = compiled_problem.reduced_problem

    def counted(*arguments, **options):
        compiled.append(arguments)
        return compile_it(*arguments, **options)

    monkeypatch.setattr(compiled_problem, "reduced_problem", counted)
    numbers = []
    for trials in (2, 6):
        # A problem of its own: what one has compiled it keeps for further solves.
        problem = Problem(LeastSquares(), [*SIMPLEX, Custom(bound)])
        rng = np.random.default_rng(1)
        stack = rng.dirichlet(np.ones(5), trials) + rng.normal(0, 0.1, (trials, 5))
        compiled.clear()
        assert problem.solve(stack).status == "optimal"
        numbers.append(len(compiled))
    assert numbers[0] == numbers[1] > 0


@pytest.fixture
def steps(monkeypatch):
    """Return a list that gets a number at each step of a polish."""
    taken = []
    newton_step = polish_module._newton_step
    monkeypatch.setattr(
        polish_module, "_newton_step", lambda *_: taken.append(1) or newton_step(*_)
    )
    return taken


FAR_FROM_UNIFORM = np.array([0.5, 0.3, 0.2, 0.1, -0.05, -0.05, 0.0])


def test_values_that_are_pushed_to_their_bounds_are_held_from_the_first_step_on(steps):
    # The last two values are pushed by 0.2 and 0.25, the price of the total less their estimates.
    raw = np.array([0.9, 0.6, 0.05, 0.0])
    loss = CustomLoss(lambda f, y: cp.sum_squares(f - y))
    stated = Problem(loss, SIMPLEX).at(raw)
    point = np.array([0.65 - 1e-6, 0.35, 5e-7, 5e-7])
    polished = polished_by_differences(stated, stated.accept(raw), point)
    assert_allclose(polished, [0.65, 0.35, 0, 0], atol=1e-15)
    # One to the minimum, and one that no longer moves.
    assert len(steps) == 2


def test_a_step_out_of_a_curved_constraint_is_the_last(steps):
    ball = Custom(lambda f: [cp.norm(f - 1 / D) <= 0.05])
    f = Problem(LeastSquares(), [*SIMPLEX, ball]).solve(FAR_FROM_UNIFORM).frequencies
    assert_allclose(np.linalg.norm(f - 1 / D), 0.05, atol=SOLVER["CLARABEL"])
    # One of each way: with what is next to the point, and with what multipliers say.
    assert len(steps) == 2
    # One that does not hold leaves the others their steps.
    steps.clear()
    far = Custom(lambda f: [cp.norm(f - 1 / D) <= 5.0])
    solution = Problem(LeastSquares(), [*SIMPLEX, far]).solve(FAR_FROM_UNIFORM)
    assert solution.certificate.is_optimal(1e-15)
    assert len(steps) > 1


OF_GRADIENTS = {
    "fourth power": lambda f, y: cp.sum((f - y) ** 4),
    "logistic": lambda f, y: cp.sum(cp.logistic(D * (f - y)) - D * (f - y) / 2),
    "with squares": lambda f, y: cp.sum(cp.exp(f - y) - f) + cp.sum_squares(f - y),
}
NEARLY = np.array([0.31, 0.24, 0.2, 0.14, 0.08, 0.05, -0.02])


@pytest.mark.parametrize("name", OF_GRADIENTS)
@pytest.mark.parametrize("more", [[], POLYHEDRA["chain"], POLYHEDRA["pairs and row"]], ids=len)
def test_own_losses_are_polished_by_differences_of_their_gradients(name, more):
    problem = Problem(CustomLoss(OF_GRADIENTS[name]), [*SIMPLEX, *more])
    best = problem.solve(NEARLY)
    stated = problem.at(NEARLY)
    start = stated.accept(NEARLY)
    rough = np.abs(best.frequencies + 1e-5 * np.cos(np.arange(D)))
    # All sets hold what is mixed with a point that they hold.
    rough = np.where(best.frequencies > 1e-3, rough, best.frequencies)
    rough /= rough.sum()
    polished = polished_by_differences(stated, start, rough)
    after = certify(stated, start, polished)
    assert after.gap <= 1e-12 * after.scale
    assert certify(stated, start, rough).gap > 100 * after.gap


def test_a_rough_point_of_an_own_loss_needs_no_second_solver(monkeypatch):
    problem = Problem(CustomLoss(OF_GRADIENTS["logistic"]), SIMPLEX)
    solve = ConicPath.solve
    calls = []

    def roughly(*arguments):
        calls.append(arguments)
        outcome = solve(*arguments)
        moved = outcome.frequencies + 1e-3 * np.array([1, -1, 0, 0, 0, 0, 0])
        return replace(outcome, frequencies=moved)

    monkeypatch.setattr(ConicPath, "solve", roughly)
    solution = problem.solve(NEARLY)
    assert solution.status == "optimal"
    assert (solution.solver, len(calls)) == ("CLARABEL", 1)


def test_a_polished_point_that_is_not_proved_is_not_called_optimal(monkeypatch):
    problem = Problem(CustomLoss(OF_GRADIENTS["logistic"]), SIMPLEX)
    solve = ConicPath.solve
    away = 1e-3 * np.array([1, -1, 0, 0, 0, 0, 0])

    def roughly(*arguments):
        outcome = solve(*arguments)
        return replace(outcome, frequencies=outcome.frequencies + away)

    monkeypatch.setattr(ConicPath, "solve", roughly)
    monkeypatch.setattr(second_try, "polished_by_differences", lambda *_: np.full(D, 1 / D))
    with pytest.warns(LdpoptWarning, match="inaccurate"):
        solution = problem.solve(NEARLY)
    assert solution.status == "inaccurate"


def test_what_has_formulas_or_ties_values_is_not_polished_by_differences():
    tied = CustomLoss(lambda f, y: cp.sum_squares(cp.cumsum(f - y)))
    # Steps by the values alone would settle here.
    little = CustomLoss(lambda f, y: cp.sum_squares(f - y) + 0.01 * cp.square(f[0] - f[1]))
    for loss in (LeastSquares(), tied, little, CustomLoss(lambda f, y: cp.norm1(f - y))):
        stated = Problem(loss, SIMPLEX).at(NEARLY)
        start = stated.accept(NEARLY)
        assert polished_by_differences(stated, start, np.abs(NEARLY)) is None
    ball = Custom(lambda f: [cp.norm(f - 1 / D) <= 0.05])
    stated = Problem(CustomLoss(OF_GRADIENTS["logistic"]), [*SIMPLEX, ball]).at(NEARLY)
    start = stated.accept(NEARLY)
    assert polished_by_differences(stated, start, np.full(D, 1 / D)) is None


def test_steps_that_leave_a_curved_constraint_by_little_are_no_polish():
    # By 1e-6, which is near enough to go on, and more than the point itself violates.
    loss = CustomLoss(lambda f, y: cp.sum_squares(f - y))
    bound = (8 / 15 - 1e-6) ** 2
    ball = Custom(lambda f: [cp.square(f[0]) <= bound])
    raw = np.array([0.6, 0.4, 0.2])
    point = np.array([8, 5, 2]) / 15 + np.array([-2e-6, 1e-6, 1e-6])
    for more, is_polished in ([], True), ([ball], False):
        stated = Problem(loss, [*SIMPLEX, *more]).at(raw)
        polished = polished_by_differences(stated, stated.accept(raw), point)
        assert (polished is not None) == is_polished


def test_second_derivatives_of_small_values_are_those_of_logarithms():
    loss = CustomLoss(lambda f, y: -cp.sum(cp.multiply(y, cp.log(f))))
    raw = np.array([0.5, 0.3, 0.2])
    stated = Problem(loss, SIMPLEX).at(raw)
    f = np.array([1e-7, 1e-4, 1.0])
    model = polish_module._Model.of_differences(stated.loss, stated.accept(raw), f)
    assert_allclose(model.slope(f), -raw / f, rtol=1e-9)
    # By differences of a step that is small beside the value.
    assert_allclose(model.curvature(f), raw / f**2, rtol=1e-2)


@pytest.mark.parametrize("unit", [1.0, 2.0**40])
def test_a_step_to_the_end_of_a_curved_constraint_is_not_the_last(unit, steps):
    """The minimum under the other constraints lies on the ball, but for rounding."""
    simplex = [NonNegative(), SumsTo(unit)]
    raw = unit * FAR_FROM_UNIFORM
    nearest = Problem(LeastSquares(), simplex).solve(raw).frequencies
    radius = float(np.linalg.norm(nearest - unit / D)) * (1 - 2.0**-51)
    ball = Custom(lambda f: [cp.norm(f - unit / D) <= radius])
    assert 0 < ball.violation(nearest) < 1e-15 * unit
    solution = Problem(LeastSquares(), [*simplex, ball]).solve(raw)
    assert solution.certificate.is_optimal(1e-15, relative=True)
    assert len(steps) > 1


@pytest.mark.filterwarnings("ignore:invalid value")  # of roots of negative numbers
@pytest.mark.parametrize("root", [lambda f: cp.sum(cp.sqrt(f)), cp.geo_mean], ids=["sum", "mean"])
def test_a_point_where_a_constraint_is_not_defined_is_no_better(root):
    # The nearest vector with the total alone has a negative value, which has no root.
    problem = Problem(LeastSquares(), [Custom(lambda f: [root(f) >= 0.01]), SumsTo(1.0)])
    solution = problem.solve([1.2, -0.5, 0.3])
    assert (solution.frequencies >= 0).all()
    assert solution.certificate.is_optimal(1e-8)


def test_from_far_off_all_constraints_in_the_way_hold_together():
    d = 128
    raw = np.random.default_rng(0).normal(1 / d, 0.1, d)
    stated = Problem(CustomLoss(lambda f, y: cp.sum_squares(f - y)), SIMPLEX).at(raw)
    point = polished_by_differences(stated, stated.accept(raw), np.full(d, 1 / d))
    nearest = norm_sub(raw)
    # One more per step is not enough.
    assert np.count_nonzero(nearest == 0) > 100
    assert_allclose(point, nearest, rtol=0, atol=SUM)


GROUPS = GroupTotals([[0, 1, 2, 3], [4, 5, 6, 7], [3, 7, 8, 9]], [0.3, 0.4, 0.35])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "constraints",
    [
        pytest.param([GROUPS, Smooth(total_variation=1.9)], id="a sum that is not reached"),
        pytest.param([GROUPS, Monotone([[0, 1], [2, 3], [4, 5], [1, 6]])], id="ties"),
        pytest.param([GroupTotals([[8, 9, 10, 11]], [0.0])], id="values that can only be 0"),
    ],
)
def test_values_that_a_divergence_keeps_above_0_are_polished_however_small(seed, constraints):
    """A solver returns 1e-11 or 0 for values of 1e-30 or 1e-200, where the slope is the price."""
    rng = np.random.default_rng(seed)
    reference = rng.dirichlet(np.ones(12))
    estimate = rng.dirichlet(np.ones(12)) + 0.08 * rng.standard_normal(12)
    loss = LeastSquares() + 3e-4 * KLTo(reference)
    problem = Problem(loss, [NonNegative(), SumsTo(1.0), *constraints])
    solution = problem.solve(estimate)
    assert solution.status == "optimal"
    assert solution.certificate.is_optimal(ROUNDING)
    f = solution.frequencies
    free = f[: 8 if f[8] == 0 else 12]
    assert free.min() > 0


@pytest.mark.parametrize("weights", [None, np.linspace(1, 2, 12)], ids=["even", "weighted"])
@pytest.mark.parametrize("radius", [0.25, 1.5], ids=["reached", "not reached"])
def test_points_in_a_ball_of_the_1_norm_are_polished(radius, weights):
    rng = np.random.default_rng(0)
    reference = rng.dirichlet(np.ones(12))
    estimate = rng.dirichlet(np.ones(12)) + 0.08 * rng.standard_normal(12)
    ball = Near(reference, radius, 1, weights=weights)
    groups = [[0, 1, 2, 3], [3, 4, 5]]
    totals = GroupTotals(groups, [reference[group].sum() for group in groups])
    problem = Problem(GaussianMLE(), [NonNegative(), SumsTo(1.0), totals, ball])
    raw = FrequencyEstimate(estimate, noise=np.full(12, 0.0064))
    solution = problem.solve(raw, solver="CLARABEL", path="conic")
    polished = polish_module.polish(problem.at(raw), raw, Outcome(solution.frequencies))
    certificate = certify(problem, raw, polished.frequencies)
    assert certificate.is_optimal(ROUNDING, relative=True)
    assert certificate.gap < 1e-2 * solution.certificate.gap


def test_the_end_of_a_likelihood_s_domain_raises_no_warning():
    """There no report supports a value, which divides by 0 where some did, and 0 where none did."""
    oracle = oracles.GRR(1.0, 4)
    estimate = oracle.estimate([40, 30, 0, 50], 120)
    end = -oracle.q / (oracle.p - oracle.q)
    rows = Linear([[1.0, -1.0, 0.0, 0.0], [0.0, 1.0, 2.0, 3.0]], upper=[0.0, 1.9])
    problem = Problem(MultinomialMLE(), [SumsTo(1.0), Bounds(end, 1.0), rows])
    solution = problem.solve(estimate)
    assert solution.path == "conic"
    assert solution.certificate.is_optimal(CERTIFIED, relative=True)


def test_steep_ends_are_looked_for_without_a_warning():
    lower = np.array([0.0, 0.0, -np.inf, 0.0])
    model = SimpleNamespace(slope=lambda f: np.array([-1.0, 0.0, 1.0, 1.0]) / f)
    bounds = Box(lower, np.ones(4))
    steep = polish_module._steep_ends(model, np.full(4, 0.25), bounds)
    assert steep.tolist() == [True, False, False, False]


def test_a_point_with_an_infinite_loss_is_no_better_though_nearer_to_the_set():
    problem = Problem(KullbackLeibler(), [NonNegative(), SumsTo(1.0)])
    start = FrequencyEstimate([[0.5, 0.5, 0.0]])
    # Where the estimate is 0 no value can be.
    points = [[0.5, 0.5 + 1e-9, 0.0]], [[0.5, 0.25, 0.25]]
    both = np.ones(1, dtype=bool)
    old, new = (
        polish_module._Candidates.of(problem, start, np.array(point), both) for point in points
    )
    np.testing.assert_array_equal(old.or_better(new).points, old.points)


@pytest.mark.parametrize("weight", [1e3, 1e8, 1e12])
@pytest.mark.parametrize(
    ("further", "answer"),
    [
        (Smooth(0.4), [0.3, 11 / 28, 31 / 140, 3 / 35]),
        (TopSet([1, 2]), [0.3, 0.4, 0.3, 0.0]),
    ],
    ids=["smooth", "top set"],
)
def test_a_steep_value_that_is_held_hides_no_other(weight, further, answer):
    # Its loss is a constant, of any size: to be right relative to that says nothing of the others.
    loss = WeightedLeastSquares([weight, 1, 1, 1])
    problem = Problem(loss, [NonNegative(), SumsTo(1.0), Fixed([0], [0.3]), further])
    solution = problem.solve([0.5, 0.6, 0.1, -0.2])
    assert_allclose(solution.frequencies, answer, atol=np.sqrt(2 * CERTIFIED))
    assert solution.certificate.is_optimal(CERTIFIED)


@pytest.mark.parametrize(
    ("gap", "violation", "is_taken"),
    [
        (2e-17, 1e-9, False),  # both are exact and as far from the set: the smaller gap stays
        (1e-17, 1e-9, False),
        (5e-18, 1e-9, True),
        (2e-17, 0.0, True),  # nearer to the set
    ],
)
def test_another_point_is_taken_only_if_it_is_better(gap, violation, is_taken):
    def candidate(value, gap, violation):
        numbers = (np.array([number]) for number in (gap, 1.0, violation))
        return polish_module._Candidates(np.full((1, 2), value), *numbers, np.array([True]))

    here = candidate(0.25, 1e-17, 1e-9)
    better = here.or_better(candidate(0.75, gap, violation))
    assert better.points[0, 0] == (0.75 if is_taken else 0.25)
    assert better.gap[0] == (gap if is_taken else 1e-17)
