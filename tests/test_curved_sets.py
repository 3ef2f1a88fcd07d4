"""Certificates on sets with curved constraints: multipliers of all others are numbers as well."""

from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from ldpopt import FrequencyEstimate, Problem, certify, losses, oracles
from ldpopt.constraints import (
    Bounds,
    Constraint,
    Custom,
    Fixed,
    GroupTotals,
    Linear,
    Near,
    NonNegative,
    SumsTo,
    custom,
)
from ldpopt.losses import KullbackLeibler, LeastAbsolute, LeastSquares
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones import cone_gap
from ldpopt.solve.certificate.cones.compiled_problem import compiled_set
from ldpopt.solve.certificate.cones.conic_program import ConicProgram
from ldpopt.solve.certificate.polyhedra import polyhedron, rows
from ldpopt.solve.formulation import Formulation
from tests.tolerances import CERTIFIED, OBJECTIVE, SOLVER

RAW = np.array([0.5, 0.4, 0.3, 0.1, -0.1, 0.02])
CENTRE = np.full(6, 1 / 6)
SIMPLEX = [NonNegative(), SumsTo(1.0)]
ROWS = [
    [],
    [Linear([[1.0, 1.0, 0, 0, 0, 0]], -np.inf, 0.55)],
    [GroupTotals([[0, 1], [2, 3]], [0.6, 0.3])],
    [Fixed([5], [0.05]), Linear([[0, 0, 1.0, -1.0, 0, 0]], -np.inf, 0.05)],
]


def ball(radius):
    return Custom(lambda f: [cp.norm(f - CENTRE) <= radius], name="ball")


def refuse(*_, **__):
    raise AssertionError("a program was solved")


@pytest.mark.parametrize("rows", ROWS, ids=str)
@pytest.mark.parametrize("loss", [LeastSquares(), KullbackLeibler()], ids=repr)
def test_a_constraint_that_does_not_hold_changes_no_multiplier_and_takes_no_program(
    rows, loss, monkeypatch
):
    # The conic path, and its point polished.
    solution = Problem(loss, [*SIMPLEX, *rows, ball(0.9)]).solve(RAW)
    without = Problem(loss, [*SIMPLEX, *rows]).solve(RAW)
    assert_allclose(solution.frequencies, without.frequencies, atol=CERTIFIED)
    monkeypatch.setattr(polyhedron.cone, "evidence", refuse)
    certificate = solution.certificate
    assert certificate.is_optimal(1e-13, relative=True)
    for name in ("sum_multiplier", "bound_multipliers", "row_multipliers"):
        expected = getattr(without.certificate, name)
        assert_allclose(getattr(certificate, name), expected, atol=1e-9)
    duals = dict(certificate.duals)
    assert [np.ravel(part).tolist() for part in duals.pop("ball")] == [[0.0]]
    for name, expected in without.duals.items():
        assert_allclose(duals[name], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_divergence_that_is_far_from_its_limit_leaves_bounds_their_multipliers(seed):
    """It states f >= 0 as well, and a solver's multipliers may be shared between the two."""
    rng = np.random.default_rng(seed)
    reference = rng.dirichlet(np.ones(6))
    raw = reference + rng.normal(0, 0.15, 6)
    loss = losses.Huber(0.05)
    solution = Problem(loss, [*SIMPLEX, Near(reference, 3.0, "kl")]).solve(raw)
    without = Problem(loss, SIMPLEX).solve(raw)
    assert solution.path == "conic"
    assert_allclose(solution.duals["Near"], 0.0, atol=1e-9)
    for name, expected in without.duals.items():
        assert_allclose(solution.duals[name], expected, atol=1e-6)


@pytest.fixture(params=["tangents", "cones"])
def way(request):
    """Prove points by either way."""
    if request.param == "cones":
        request.getfixturevalue("by_cones")


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_where_it_holds_the_multipliers_explain_the_gradient_together(rows, way):
    stack = np.stack([RAW, RAW[::-1]])
    problem = Problem(LeastSquares(), [*SIMPLEX, *rows, ball(0.26)])
    solution = problem.solve(stack)
    certificate = solution.certificate
    assert certificate.is_optimal(1e-8, relative=True)
    for trial, f in enumerate(solution.frequencies):
        rest = f - stack[trial] + certificate.sum_multiplier[trial]
        rest = rest - certificate.bound_multipliers[trial]
        offset = 0
        for constraint in rows:
            if constraint.box(6) is None:
                matrix = constraint.rows(6).matrix
                share = certificate.row_multipliers[trial, offset : offset + matrix.shape[0]]
                rest = rest - matrix.T @ share
                offset += matrix.shape[0]
        price = float(np.ravel(certificate.duals["ball"][trial][0])[0])
        assert price > 0
        outward = (f - CENTRE) / np.linalg.norm(f - CENTRE)
        assert_allclose(rest, -price * outward, atol=1e-5)
        # Between their bounds values have none.
        is_free = (f > 1e-6) & (np.abs(f - 0.05) > 1e-6)
        assert_allclose(certificate.bound_multipliers[trial][is_free], 0.0, atol=1e-5)
    assert np.all(certificate.stationarity <= 1e-5)


def test_absolute_deviations_have_numbers_too():
    rows = [Linear([[1.0, 1.0, 0, 0, 0, 0]], -np.inf, 0.55), Bounds(0.0, 0.4)]
    solution = Problem(LeastAbsolute(), [*rows, SumsTo(1.0), ball(0.3)]).solve(RAW)
    certificate = solution.certificate
    assert certificate.is_optimal(1e-7, relative=True)
    price = -certificate.sum_multiplier + certificate.bound_multipliers
    price = price + rows[0].rows(6).matrix.T @ certificate.row_multipliers
    f = solution.frequencies
    multiplier = float(np.ravel(certificate.duals["ball"][0])[0])
    price = price - multiplier * (f - CENTRE) / np.linalg.norm(f - CENTRE)
    # What all multipliers price a value at is a subgradient of |f - f̃| there.
    away = np.abs(f - RAW) > 1e-5
    assert_allclose(price[away], np.sign(f - RAW)[away], atol=1e-5)
    assert np.all(np.abs(price) <= 1 + 1e-5)


def test_without_a_bound_the_multipliers_are_unknown_and_the_reason_is_stated():
    # Nothing keeps the values from falling for ever.
    problem = Problem(
        losses.Custom(lambda f: cp.sum(f)), [Custom(lambda f: [cp.norm(f[:3]) <= 0.9])]
    )
    certificate = certify(problem, np.abs(RAW), np.abs(RAW))
    assert certificate.gap == np.inf
    assert certificate.reason
    assert np.isnan(certificate.stationarity)


FAR_BALL = Near([0.3, 0.3, 0.4], 5.0, "kl")
HELD_AT_ZERO = {
    "a group": lambda total: [FAR_BALL, GroupTotals([[0, 1]], [total])],
    "an equation": lambda total: [FAR_BALL, Linear([[1.0, 1.0, 0.0]], total, total)],
    "a total": lambda total: [FAR_BALL, SumsTo(total)],
    "a group and known values": lambda total: [
        FAR_BALL,
        GroupTotals([[0, 1]], [total]),
        Fixed([2], [0.3]),
    ],
    "an active ball": lambda total: [
        Near([0.3, 0.3, 0.4], 0.35, "kl"),
        GroupTotals([[0, 1]], [total]),
    ],
}


@pytest.mark.parametrize("name", HELD_AT_ZERO)
def test_what_a_divergence_alone_keeps_at_zero_has_no_part_in_other_multipliers(name, way):
    """Its slope is infinite there: the total's multiplier is that of the values above 0.

    It is how fast the minimum rises with the total.
    """
    estimate = [0.8, -0.5, 0.3]
    step = 1e-5
    problems = [
        Problem(LeastSquares(), HELD_AT_ZERO[name](total))
        for total in (0.5 - step, 0.5, 0.5 + step)
    ]
    less, at, more = (problem.solve(estimate) for problem in problems)
    of_total = list(at.duals.values())[1]
    rate = (more.objective - less.objective) / (2 * step)
    assert_allclose(np.ravel(of_total)[0], rate, atol=2e-5)
    # Where the ball is active the point is a solver's.
    assert at.certificate.stationarity < 1e-5


@pytest.mark.parametrize("lower", [-np.inf, -5.0])
def test_the_end_of_a_domain_is_no_bound_that_somebody_stated(lower):
    """A bound beyond it holds nothing back."""
    estimate = oracles.OUE(epsilon=1.0, d=3).estimate([700, 300, 0], 1_000)
    problem = Problem(losses.BinomialMLE(), [Bounds(lower, 0.3), GroupTotals([[0, 1]], [0.55])])
    solution = problem.solve(estimate)
    first, _ = losses.BinomialMLE().domain(losses.BinomialMLE().constants(estimate))
    assert_allclose(solution.frequencies, [0.3, 0.25, first], rtol=1e-6)
    multipliers = solution.duals["Bounds"]
    assert multipliers[0] < -0.1
    assert_array_equal(multipliers[1:], [0.0, 0.0])
    stated = Problem(losses.BinomialMLE(), [Bounds(first, 0.3), GroupTotals([[0, 1]], [0.55])])
    assert stated.solve(estimate).duals["Bounds"][2] > 0.1


def two_balls(radius):
    # Of one ball alone the slopes prove a point.
    return Near(CENTRE, radius), Near(CENTRE, 5.0, "kl")


def kept_by(problem, monkeypatch):
    """Return the sets that cvxpy compiles for proofs of a problem at three estimates."""
    compiled = []

    def count(variable, forms):
        compiled.append(forms)
        return compiled_set(variable, forms)

    monkeypatch.setattr(rows, "compiled_set", count)
    # Tangents prove them without.
    monkeypatch.setattr(polyhedron, "with_tangents", lambda *_: None)
    for shift in (0.0, 0.01, 0.02):
        assert problem.solve(RAW + shift, path="conic").certificate.is_optimal(1e-7, relative=True)
    return compiled


def test_a_set_is_compiled_once_for_the_proofs_of_all_estimates(monkeypatch):
    problem = Problem(LeastSquares(), [*SIMPLEX, *two_balls(0.1)])
    assert len(kept_by(problem, monkeypatch)) == 1


def test_what_solvers_take_of_a_set_is_put_together_once_per_bounds(monkeypatch):
    ranges = []
    propagate = cone_gap.propagate
    monkeypatch.setattr(cone_gap, "propagate", lambda *_: ranges.append(1) or propagate(*_))
    problem = Problem(LeastSquares(), [*SIMPLEX, *two_balls(0.1)])
    kept_by(problem, monkeypatch)
    assert len(ranges) == 1


def test_a_solver_s_point_that_is_better_by_what_is_proved_ends_the_search(by_cones, monkeypatch):
    """The point is off by what its solver left: no multipliers prove a smaller gap."""
    programs = []
    solve = ConicProgram.solve
    monkeypatch.setattr(ConicProgram, "solve", lambda *_: programs.append(1) or solve(*_))
    rng = np.random.default_rng(2)
    raw = rng.dirichlet(np.ones(64)) + rng.normal(0, 0.02, 64)
    estimate = FrequencyEstimate(raw, n=10_000, oracle=oracles.OUE(1.0, 64), is_raw=True)
    smooth = Custom(lambda f: [cp.sum_squares(cp.diff(f)) <= 0.001])
    problem = Problem(losses.BinomialMLE(), [*SIMPLEX, smooth])
    f = problem.solve(estimate).frequencies
    programs.clear()
    certificate = certify(problem, estimate, f)
    assert 0 < certificate.gap <= CERTIFIED * certificate.scale
    assert len(programs) == 1


def test_one_vector_takes_no_bar(monkeypatch):
    wanted = []
    track = polyhedron.progress.track

    def noted(*arguments, **options):
        wanted.append(options["wanted"])
        return track(*arguments, **options)

    monkeypatch.setattr(polyhedron.progress, "track", noted)
    problem = Problem(LeastSquares(), [*SIMPLEX, *two_balls(0.1)])
    certify(problem, RAW, CENTRE)
    assert set(wanted) == {False}
    wanted.clear()
    certify(problem, np.stack([RAW, RAW]), np.stack([CENTRE, CENTRE]))
    assert set(wanted) == {None}


def test_what_is_kept_of_a_set_is_not_for_other_bounds():
    source = rows.RowsOfTrials(Formulation(LeastSquares(), [*SIMPLEX, *two_balls(0.1)]), 6)
    stated = source.stated_in(1.0)
    unit = Box(np.zeros(6), np.ones(6))
    kept = stated.set_within(unit)
    assert stated.set_within(Box(np.zeros(6), np.ones(6))) is kept
    half = stated.set_within(Box(np.zeros(6), np.full(6, 0.2)))
    assert_array_equal(half.box.upper[half.columns], np.full(6, 0.2))
    raised = stated.set_within(Box(np.full(6, 0.1), np.full(6, 0.2)))
    assert_array_equal(raised.box.lower[raised.columns], np.full(6, 0.1))


def test_what_is_kept_of_a_set_depends_on_no_point_that_was_proved_before():
    def stated():
        source = rows.RowsOfTrials(Formulation(LeastSquares(), [*SIMPLEX, *two_balls(0.1)]), 6)
        return source.stated_in(1.0).set_within(Box(np.zeros(6), np.ones(6)))

    kept = stated()
    f = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    slope = f - RAW
    kept.gap(2.0**30 * slope, 0.0, 2.0**30 * f, 1.0)
    after = kept.gap(slope, 0.0, f, 1.0)
    fresh = stated().gap(slope, 0.0, f, 1.0)
    assert after.gap == fresh.gap
    assert_array_equal(after.residual, fresh.residual)


def test_the_units_of_a_set_are_looked_for_once_per_size(monkeypatch):
    looks = []
    units_near = ConicProgram.units_near
    monkeypatch.setattr(ConicProgram, "units_near", lambda *_: looks.append(1) or units_near(*_))
    problem = Problem(LeastSquares(), [*SIMPLEX, *two_balls(0.1)])
    kept_by(problem, monkeypatch)
    assert len(looks) == 1


def test_what_another_value_of_a_parameter_states_is_compiled_anew(monkeypatch):
    radius = cp.Parameter(nonneg=True, value=0.1)
    problem = Problem(LeastSquares(), [*SIMPLEX, *two_balls(radius)])
    assert len(kept_by(problem, monkeypatch)) == 1
    radius.value = 0.2
    # A set of the smaller radius would prove what is no proof.
    assert len(kept_by(problem, monkeypatch)) == 1
    apart = problem.solve(RAW).frequencies - CENTRE
    assert_allclose(np.linalg.norm(apart), 0.2, rtol=OBJECTIVE)


def test_what_a_function_states_once_more_is_not_compiled_again(monkeypatch):
    radii = [0.1]
    near = Custom(lambda f: cp.norm(f - CENTRE) <= radii[0])
    problem = Problem(LeastSquares(), [*SIMPLEX, near])
    assert len(kept_by(problem, monkeypatch)) == 1
    stated = problem.at(RAW).constraints[-1]
    assert problem.at(RAW + 0.5).constraints[-1] is stated
    radii[0] = 0.2
    assert len(kept_by(problem, monkeypatch)) == 1
    apart = problem.solve(RAW).frequencies - CENTRE
    assert_allclose(np.linalg.norm(apart), 0.2, rtol=OBJECTIVE)
    # A parameter of another value, in a constraint that is compiled to the same program.
    radius = cp.Parameter(nonneg=True, value=0.1)
    open_radius = Custom(lambda f: cp.norm(f - CENTRE) <= radius)
    first, *_ = Problem(LeastSquares(), [open_radius]).at(RAW).constraints
    radius.value = 0.2
    second, *_ = Problem(LeastSquares(), [open_radius]).at(RAW).constraints
    point = CENTRE + 0.15 * np.eye(6)[0]
    assert first.violation(point) > 0.04
    assert second.violation(point) <= 0


def test_indices_that_were_written_to_are_not_served_again():
    chosen = [np.array([0, 1])]
    capped = Custom(lambda f: f[chosen[0]] <= 0.2)
    problem = Problem(LeastSquares(), [*SIMPLEX, capped])
    before = problem.at(RAW).constraints[-1]
    assert_allclose(before.violation(RAW), 0.3)
    first, chosen[0] = chosen[0], chosen[0].copy()
    first[0] = 5
    assert_allclose(problem.at(RAW).constraints[-1].violation(RAW), 0.3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("reference", [[0.5, 0.5, 0.0], [0.4, 0.3, 0.3], [1e-300, 0.5, 0.5]])
@pytest.mark.parametrize("loss", [LeastSquares(), losses.KLTo([0.3, 0.3, 0.4])], ids=repr)
@pytest.mark.parametrize("f", [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [1e-320, 0.5, 0.5]], ids=str)
def test_divergences_that_overflow_print_no_warning_of_numpy(reference, loss, f):
    problem = Problem(loss, [*SIMPLEX, Near(reference, 0.1, "kl")])
    certificate = certify(problem, [0.6, 0.3, 0.1], f)
    assert not certificate.is_optimal(1e-8, relative=True)
    assert certificate.duals


def test_threads_share_nothing_at_whose_value_violations_are_measured():
    problem = Problem(LeastSquares(), [*SIMPLEX, Custom(lambda f: cp.norm(f - CENTRE) <= 0.1)])
    with ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(problem.at, RAW).result()
    assert elsewhere.constraints[-1] is not problem.at(RAW).constraints[-1]


def test_solutions_that_share_what_is_stated_are_measured_in_any_thread(monkeypatch):
    halves = Custom(lambda f: [f[0] <= 0.5, f[1] <= 0.5])
    problem = Problem(LeastSquares(), [*SIMPLEX, halves])
    first = problem.solve(RAW).problem.constraints[-1]
    assert problem.solve(RAW + 0.5).problem.constraints[-1] is first
    measure = custom.outside_domain
    threads = []

    def interrupted(form):
        # Between two forms another thread measures something else, or waits.
        if not threads:
            threads.append(Thread(target=first.violation, args=(np.full(6, 0.25),)))
            threads[0].start()
            threads[0].join(0.05)
        return measure(form)

    monkeypatch.setattr(custom, "outside_domain", interrupted)
    assert first.violation(np.eye(6)[1]) == 0.5
    threads[0].join()


class Foreign(Constraint):
    """A class of somebody else, whose numbers may change where nobody sees it."""

    def __init__(self):
        self.numbers = SimpleNamespace(radius=0.1)

    def violation(self, f):
        return np.maximum(np.linalg.norm(f - CENTRE, axis=-1) - self.numbers.radius, 0.0)

    def cone_form(self, f):
        return [cp.norm(f - CENTRE) <= self.numbers.radius]


def test_nothing_is_kept_of_a_constraint_that_may_change(monkeypatch):
    problem = Problem(LeastSquares(), [*SIMPLEX, Foreign()])
    assert len(kept_by(problem, monkeypatch)) > 1


def test_each_thread_has_a_set_of_its_own():
    formulation = Formulation(LeastSquares(), (*SIMPLEX, Near(CENTRE, 0.1)))
    here = formulation.kept_set("place", object)
    assert formulation.kept_set("place", object) is here
    # Cvxpy's variables hold the numbers of the thread that uses them.
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(formulation.kept_set, "place", object).result()
    assert there is not here
    assert formulation.kept_set("another", object) is not here


def test_a_set_has_units_by_the_size_of_the_point_and_keeps_them_apart():
    variable = cp.Variable(3)
    compiled = compiled_set(variable, [cp.norm(variable) <= 2.0, cp.sum(variable) == 1])
    stated = cone_gap.ConeSet.of(compiled, variable, np.zeros(3), np.ones(3))
    for size in (2.0**-12, 8.0, 1.4 * 2.0**-12):
        columns = stated._units(np.full(3, size)).columns[stated.columns]
        assert_array_equal(columns, 8.0 if size == 8 else 2.0**-12)
    assert_array_equal(stated._units(np.zeros(3)).columns, 1.0)


def of_three(forms, lower, upper):
    variable = cp.Variable(3)
    compiled = compiled_set(variable, forms(variable))
    return cone_gap.ConeSet.of(compiled, variable, np.asarray(lower), np.asarray(upper))


@pytest.mark.parametrize(
    ("forms", "lower", "stated"),
    [
        # Of a total of 1 no value is left more than 1, or less than 0.9 beside 0.1.
        (lambda f: [cp.sum(f) == 1], [0.0, 0.0, 0.0], [np.inf, np.inf, 0.9]),
        (lambda f: [cp.sum(f) == 1], [0.05, 0.05, 0.0], [np.inf, np.inf, np.inf]),
        # Without a lower bound of one of them nothing caps a value.
        (lambda f: [cp.sum(f) == 1], [0.0, -np.inf, 0.0], [1.0, 1.0, 0.9]),
        (lambda f: [f[0] + f[1] - f[2] == 1], [0.0, 0.0, 0.0], [1.0, 1.0, 0.9]),
        (lambda f: [cp.norm(f) <= 0.5], [0.0, 0.0, 0.0], [np.inf, np.inf, np.inf]),
    ],
    ids=["total", "narrower", "open", "difference", "ball"],
)
def test_bounds_that_follow_from_the_rest_are_no_rows_of_the_program(forms, lower, stated):
    compiled = of_three(forms, lower, [1.0, 1.0, 0.9])
    assert_array_equal(compiled.stated.upper, stated)
    assert_array_equal(compiled.stated.lower, lower)
    # What a proof counts with are all bounds.
    assert np.all(compiled.box.upper[compiled.columns] <= [1.0, 1.0, 0.9])


def test_an_inequality_holds_where_its_sides_differ_by_a_solver_s_tolerance():
    def held(f, *forms):
        constraints = (*SIMPLEX, *(Custom(form) for form in forms))
        source = rows.RowsOfTrials(Formulation(LeastSquares(), constraints), len(f))
        return [entries.tolist() for _, entries in source.stated_in(1.0).held(np.asarray(f))]

    def squares(f):
        return [cp.sum_squares(f) <= 0.5]

    def cone(f):
        return [cp.SOC(cp.Constant(np.sqrt(0.5)), f)]

    assert held([0.5, 0.5], squares) == [[0]]
    assert held([0.5 + 1e-7, 0.5], squares) == [[0]]
    assert held([0.5 - 1e-5, 0.5], squares) == []
    assert held([0.5, 0.5], cone) == []
    assert held([1e200, 0.5], squares) == []
    # Lines are the linear constraints' own.
    assert held([0.5, 0.0], lambda f: [*squares(f), f[1] >= 0]) == []
    # The terms of a - b <= 0 are as large as those of a <= b, also where matrices are sparse.
    assert held([0.5, 0.5], lambda f: [cp.sum_squares(f) - 0.5 <= 0]) == [[0]]
    assert held([0.5 - 1e-5, 0.5], lambda f: [cp.sum_squares(f) - 0.5 <= 0]) == []
    corners = sparse.csr_array(np.eye(2))
    pairs = lambda f: cp.multiply(corners, cp.reshape(cp.square(f), (2, 2), order="C"))  # noqa: E731
    assert held([0.5, 0.1, 0.1, 0.3], lambda f: [pairs(f) <= 0.25]) == [[0]]
    # Of several entries each is looked at, along the rows of a table.
    assert held([0.5, 0.1, 0.5], lambda f: [cp.square(f) <= [0.25, 0.25, 0.25]]) == [[0, 2]]
    table = lambda f: [cp.reshape(cp.square(f), (2, 2), order="F") <= 0.25]  # noqa: E731
    assert held([0.1, 0.2, 0.5, 0.1], table) == [[1]]


def test_where_a_curved_constraint_holds_no_multipliers_of_the_others_are_tried(
    by_cones, monkeypatch
):
    tried = []
    monkeypatch.setattr(polyhedron, "_best_proof", lambda *_, **__: tried.append(1))
    solution = Problem(LeastSquares(), [*SIMPLEX, ball(0.05)]).solve(RAW, path="conic")
    assert solution.status == "optimal"
    assert not tried


def test_after_hopeless_multipliers_no_others_are_tried(monkeypatch):
    monkeypatch.setattr(rows.StatedRows, "held", lambda *_: [])
    tried = []
    proof = polyhedron._proof
    monkeypatch.setattr(polyhedron, "_proof", lambda *given: tried.append(1) or proof(*given))
    formulation = Formulation(LeastSquares(), (*SIMPLEX, ball(0.6)))
    # The minimum, and a point far from it, but for a value that is 0 at the first distance alone.
    moved = np.array([-1e-7, 0, 0, 0, 1e-7, 0])
    for point, count in (
        (np.array([0.425, 0.325, 0.225, 0.025, 0.0, 0.0]), 2),
        (np.array([0.1, 0.3, 0.6, 0.0, 0.0, 0.0]), 1),
    ):
        tried.clear()
        evidence = polyhedron.evidence(formulation, FrequencyEstimate(RAW), point + moved)
        assert np.isfinite(evidence.gap)
        assert len(tried) == count


def test_rows_of_a_problem_are_looked_for_once_for_polish_and_certificate(monkeypatch):
    looks = []
    forest_of = rows.forest_of
    monkeypatch.setattr(rows, "forest_of", lambda *given: looks.append(1) or forest_of(*given))
    problem = Problem(LeastSquares(), [*SIMPLEX, ball(0.05)])
    for _ in range(2):
        problem.solve(RAW, path="conic")
    assert len(looks) == 1


def test_limits_are_those_of_the_bounds_that_are_stated():
    formulation = Formulation(LeastSquares(), (*SIMPLEX, ball(0.5)))
    common = rows._Common(formulation, 6)
    wide = common.limits(Box(np.zeros(6), np.ones(6)))
    assert common.limits(Box(np.zeros(6), np.ones(6))) is wide
    narrow = common.limits(Box(np.zeros(6), np.full(6, 0.3)))
    assert_array_equal(narrow.upper, np.full(6, 0.3))


def test_a_point_that_the_search_cannot_count_with_has_no_bound():
    held = of_three(lambda f: [cp.sum(f) == 1, cp.norm(f) <= 0.8], np.zeros(3), np.ones(3))
    for size in (1e160, 1e300):
        f = size * np.array([0.5, 0.3, 0.2])
        with np.errstate(all="ignore"):
            result = held.gap(f - 0.3, 0.0, f, 1.0)
        assert result.gap == np.inf
        assert "overflow" in result.reason


def test_values_between_bounds_have_rows_on_either_side_and_fixed_ones_an_equation():
    """Counted in units of rounding: what differs by that alone is one value."""
    variable = cp.Variable(3)
    compiled = compiled_set(variable, [cp.norm(variable) <= 2.0])
    lower = np.array([0.25, 0.5, 0.1])
    upper = np.array([0.75, np.inf, 0.1 * (1 + 2.0**-51)])
    stated = cone_gap.ConeSet.of(compiled, variable, lower, upper)
    program = stated._with_bounds
    before = stated.program
    assert program.cones.zero == before.cones.zero + 1
    # The norm bounds the second value by 2, and needs no row for it.
    assert program.cones.nonneg == before.cones.nonneg + 3
    first = before.cones.zero
    assert_allclose(program.right[first : first + 4], [0.1, -0.25, -0.5, 0.75], rtol=1e-13)


def fourth_powers(limit):
    return Custom(lambda f: [cp.sum(cp.power(f, 4)) <= limit])


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        # 16e-12 - 1e-12 over the slope 4 * 8e-9.
        (lambda f: [cp.power(f[0], 4) <= 1e-12], 15e-12 / 32e-9),
        # By entries, and the last of them, which is met, has no slope.
        (lambda f: [cp.power(f[[1, 0, 2]], 4) <= 1e-12], 15e-12 / 32e-9),
        (lambda f: [1e-9 * (f[0] - f[1]) == 0], 1e-3),
        # The largest of the two slopes, of which one is 4.
        (lambda f: [4 * f[0] + 1e-9 * f[1] <= 1e-9], 8e-3 + 1e-12 - 1e-9),
        # No point meets it, as its slope of 0 at the minimum proves.
        (lambda f: [cp.square(f[2]) <= -1e-12], np.inf),
        # Cones measure distances: cvxpy knows no slopes of (t, X).
        (lambda f: [cp.SOC(f[1], f[:1])], 5e-4 * np.sqrt(2)),
    ],
)
def test_violations_that_small_slopes_hide_count_as_distances(build, expected):
    violation = Custom(build).violation(np.array([2e-3, 1e-3, 0.0]))
    assert_allclose(violation, expected, rtol=CERTIFIED)


def test_a_function_without_slopes_counts_by_its_values(monkeypatch):
    def refuse(_):
        raise NotImplementedError

    monkeypatch.setattr(cp.atoms.atom.Atom, "grad", property(refuse))
    violation = Custom(lambda f: [cp.power(f[0], 4) <= 1e-12]).violation(np.array([2e-3]))
    assert_allclose(violation, 15e-12, rtol=CERTIFIED)


@pytest.mark.parametrize("norm", [cp.max, cp.norm])
def test_cumulative_sums_of_many_values_take_no_table_of_pairs(norm):
    # Of a hundred gigabytes. The sums are exact.
    d = 1 << 17
    constraint = Custom(lambda f: [norm(cp.cumsum(f)) <= 0.5])
    sums = np.arange(1, d + 1) / d
    expected = {cp.max: 1.0, cp.norm: np.linalg.norm(sums)}[norm] - 0.5
    assert_allclose(constraint.violation(np.full(d, 1 / d)), expected, rtol=CERTIFIED)


def test_a_point_far_outside_fourth_powers_of_small_numbers_is_not_optimal():
    d = 1_024
    raw = np.arange(d) / (d * (d - 1) / 2)
    problem = Problem(LeastSquares(), [*SIMPLEX, fourth_powers(2 / d**3)])
    # It has 3.2 / d^3, and no gap, since it is the estimate itself.
    outside = certify(problem, raw, raw)
    assert not outside.is_optimal(1e-4)
    assert not outside.is_optimal(1e-4, relative=True)
    solution = problem.solve(raw)
    assert solution.status == "optimal"
    assert_allclose(np.sum(solution.frequencies**4), 2 / d**3, rtol=SOLVER["CLARABEL"])
