"""Tangents of curved constraints are rows that hold on the set, and prove its minimum."""

from fractions import Fraction
from functools import cache

import cvxpy as cp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate, Problem, certify, losses, oracles
from ldpopt.constraints import Bounds, Custom, GroupTotals, Linear, Near, NonNegative, SumsTo
from ldpopt.losses import LeastAbsolute, LeastSquares, WeightedLeastSquares
from ldpopt.losses.enclosure import Enclosure
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.cones.cone_gap import TARGET
from ldpopt.solve.certificate.polyhedra import cone, polyhedron, tangent_rows
from ldpopt.solve.certificate.polyhedra.rows import RowsOfTrials
from ldpopt.solve.certificate.polyhedra.tangent_rows import with_tangents
from ldpopt.solve.formulation import Formulation
from ldpopt.solve.status import ACCURACIES, Status
from tests.tolerances import OBJECTIVE, SOLVER

D = 24
SIMPLEX = [NonNegative(), SumsTo(1.0)]
PROMISED = ACCURACIES["high"].gap


def population(d=D, seed=0):
    """Return true frequencies and an estimate of them."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(d, 0.5)) + 1e-4
    truth /= truth.sum()
    oracle = oracles.OUE(1.0, d)
    counts = oracle.simulate_counts(rng.multinomial(30_000, truth), rng)
    return truth, oracle.estimate(counts, 30_000)


TRUTH, ESTIMATE = population()
CENTRE = np.random.default_rng(1).dirichlet(np.ones(D))
MIX = np.random.default_rng(2).normal(size=(D // 4, D)) / D


def halfway(function):
    """Return a constraint that holds half as far away as the truth is, where h(CENTRE) = 0."""
    variable = cp.Variable(D)
    expression = function(variable)
    variable.value = TRUTH
    limit = float(expression.value) / 2
    return Custom(lambda f: [function(f) <= limit], name="curve")


CURVES = {
    "norm": halfway(lambda f: cp.norm(f[: D // 2] - CENTRE[: D // 2])),
    "norm of mixtures": halfway(lambda f: cp.norm(MIX @ (f - CENTRE))),
    "squares": halfway(lambda f: cp.sum_squares(f - CENTRE)),
    "quotient": halfway(lambda f: cp.quad_over_lin(f[:8], f[8])),
    "divergence": halfway(lambda f: cp.sum(cp.rel_entr(f, CENTRE))),
    "entropy": Custom(lambda f: [cp.sum(cp.entr(f)) >= 0.5 * float(
        np.log(D) - TRUTH @ np.log(TRUTH))], name="curve"),
    "logarithms": Custom(lambda f: [cp.sum(cp.log(f + 0.01)) >= 0.5 * float(
        np.log(TRUTH + 0.01).sum() + D * np.log(1 / D + 0.01))], name="curve"),
    "logarithm of a sum": Custom(lambda f: [cp.log_sum_exp(5 * f) <= float(
        np.log(np.exp(5 * (0.9 * TRUTH + 0.1 / D)).sum()))], name="curve"),
    "two": Custom(lambda f: [
        cp.sum_squares(f) <= 0.9 * float(TRUTH @ TRUTH),
        cp.sum_squares(MIX @ f) <= 0.8 * float(np.sum((MIX @ TRUTH) ** 2)),
    ], name="curve"),
    "squares of values": Custom(lambda f: [cp.square(f - CENTRE) <= 2e-3], name="curve"),
}  # fmt: skip

LOSSES = {
    "squares": LeastSquares(),
    "weights": WeightedLeastSquares(np.linspace(0.5, 2, D)),
    "likelihood": losses.BinomialMLE(),
    "own": losses.Custom(lambda f, y: cp.sum(cp.logistic(D * (f - y)) - D / 2 * (f - y))),
}


@pytest.fixture
def no_program(monkeypatch):
    """Let proofs fail that take a program for cones."""

    def refuse(*_):
        raise AssertionError("a program is solved")

    monkeypatch.setattr(cone, "evidence", refuse)
    monkeypatch.setattr(cone, "evidence_beside", refuse)


def rows_of(constraints, f, limits=None):
    """Return the rows of constraints with tangents at f, or None."""
    f = np.asarray(f, dtype=np.float64)
    source = RowsOfTrials(Formulation(LeastSquares(), tuple(constraints)), len(f))
    rows = source.of(LeastSquares(), FrequencyEstimate(f))
    if limits is not None:
        rows = rows._replace(limits=limits)
    stated = source.stated_in(1.0)
    return with_tangents(stated, stated.held(f), rows, f)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("curve", CURVES)
def test_a_solver_s_point_on_a_curve_is_proved_without_a_program(curve, loss, no_program):
    problem = Problem(LOSSES[loss], [*SIMPLEX, CURVES[curve]])
    assert problem.solve(ESTIMATE).status is Status.OPTIMAL


@pytest.mark.parametrize("curve", CURVES)
def test_multipliers_are_those_of_the_solver(curve, no_program):
    problem = Problem(LeastSquares(), [*SIMPLEX, CURVES[curve]])
    solution = problem.solve(ESTIMATE, solver="CLARABEL")
    stated = problem.to_cvxpy(ESTIMATE)
    stated.solve(solver="CLARABEL")
    ours = np.concatenate([np.ravel(part) for part in solution.duals["curve"]])
    assert np.max(ours) > 0
    assert np.min(ours) >= 0
    theirs = np.concatenate([
        np.ravel(form.dual_value)
        for form in stated.constraints[-len(solution.duals["curve"]) :]
    ])  # fmt: skip
    # A solver leaves an error of its tolerance in points, and slopes turn with these.
    assert_allclose(ours, theirs, rtol=0, atol=1e-3 * np.max(theirs))


def test_a_tangent_is_the_row_that_is_computed_by_hand():
    """h = Σ f² - 0.46 at (0.6, 0.3, 0.1): k = 2 f, and k·f - h = 2 0.46 - 0 = 0.92."""
    squares = Custom(lambda f: [cp.sum_squares(f) <= 0.46])
    rows = rows_of([*SIMPLEX, squares], [0.6, 0.3, 0.1])
    assert_allclose(rows.system.matrix.toarray(), [[1.0, 1.0, 1.0], [1.2, 0.6, 0.2]], rtol=1e-15)
    assert_allclose(rows.system.upper, [1.0, 0.92], rtol=1e-14)
    assert_array_equal(rows.system.lower, [1.0, -np.inf])
    # The multiplier 3 of an upper bound is -3 among rows.
    mu, others = rows.shared_out(np.array([0.5, -3.0]))
    assert (mu, len(others)) == (-0.5, 0)
    ((multiplier,),) = rows.tangents.of_curved(np.array([0.5, -3.0]))
    assert multiplier == 3.0


def test_every_entry_that_holds_has_its_own_row_and_multiplier():
    limits = np.array([[0.5, 0.04], [1.0, 1.0]])
    table = Custom(lambda f: [cp.reshape(cp.square(f), (2, 2), order="F") <= limits])
    rows = rows_of([*SIMPLEX, table], [0.1, 0.1, 0.2, 0.6])
    # Of the table [[f0, f2], [f1, f3]] the second entry of the first line holds.
    assert_allclose(rows.system.matrix.toarray()[1:], [[0.0, 0.0, 0.4, 0.0]], rtol=1e-15)
    ((multipliers,),) = rows.tangents.of_curved(np.array([0.0, -2.0]))
    assert_array_equal(multipliers, [[0.0, 2.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    "build",
    [
        lambda f: [cp.sum_squares(f) <= 0.9],  # does not hold
        lambda f: [cp.norm1(f - 0.25) <= 0.5],  # has a kink at the point
        lambda f: [cp.sum_squares(f) <= 0.34, cp.norm1(f - 0.25) <= 0.5],  # and so one of two
        lambda f: [cp.SOC(cp.Constant(np.sqrt(0.34)), f)],  # is a cone
        lambda f: [f[0] <= 0.5],  # is straight
    ],
)
def test_what_has_no_tangent_at_the_point_is_left_to_cones(build):
    f = [0.5, 0.25, 0.125, 0.125]
    assert rows_of([*SIMPLEX, Custom(build)], f) is None


def test_constraints_of_too_many_values_are_left_to_cones():
    many = tangent_rows._MOST + 1
    each = Custom(lambda f: [cp.square(f) <= 1 / len(np.ones(f.shape)) ** 2])
    assert rows_of([*SIMPLEX, each], np.full(many, 1 / many)) is None
    assert rows_of([*SIMPLEX, each], np.full(many - 1, 1 / (many - 1))) is not None


def test_a_gradient_that_may_be_wrong_proves_nothing_of_values_without_bounds():
    squares = Custom(lambda f: [cp.sum_squares(f / 3) <= 0.46 / 9])
    f = np.array([0.6, 0.3, 0.1])
    endless = Box(np.full(3, -np.inf), np.full(3, np.inf))
    assert rows_of([*SIMPLEX, squares], f, endless) is None
    assert rows_of([*SIMPLEX, squares], f, Box(np.zeros(3), np.ones(3))) is not None


def test_errors_of_a_gradient_count_over_the_whole_reach():
    """Counted by hand: k·s may exceed k·f - h by 0.5 2 + 0.25 4, and the value's error is 0.125."""
    tangent = Enclosure(-1.0, 0.125, np.array([1.0, 2.0]), np.array([0.5, 0.25]))
    end = tangent_rows._upper_end(tangent, np.array([3.0, 4.0]), np.array([2.0, 4.0]))
    expected = 11.0 + 1.0 + 0.125 + 2.0
    assert expected <= end <= expected * (1 + 1e-14)
    # If all values together move by 3 at most, the largest error counts for that.
    end = tangent_rows._upper_end(tangent, np.array([3.0, 4.0]), np.array([2.0, 4.0]), 3.0)
    assert 13.625 <= end <= 13.625 * (1 + 1e-14)


def test_values_with_a_total_move_together_by_what_it_leaves():
    """By hand: f is 0.3 above the lower bounds 0.1, and each s of the total 1 is 0.7 above them."""
    f = np.array([0.2, 0.15, 0.25])
    source = RowsOfTrials(Formulation(LeastSquares(), (Bounds(0.1, 1.0), SumsTo(1.0))), 3)
    rows = source.of(LeastSquares(), FrequencyEstimate(f))
    assert tangent_rows._reach_together(rows, f) == pytest.approx(0.3 + 0.7, rel=1e-14)
    free = rows._replace(has_total=False)
    assert tangent_rows._reach_together(free, f) == np.inf
    endless = rows._replace(limits=Box(np.array([0.1, -np.inf, 0.1]), rows.limits.upper))
    assert tangent_rows._reach_together(endless, f) == np.inf


def test_the_reach_is_the_way_to_the_farther_bound(monkeypatch):
    """Counted by hand, with slopes of 0 that may be wrong by 1: 2.5 down, and 4 up."""
    unknown = Enclosure(0.0, 0.0, np.zeros(2), np.ones(2))
    monkeypatch.setattr(tangent_rows, "enclosures", lambda *_: [unknown])
    squares = Custom(lambda f: [cp.sum_squares(f) <= 0.5])
    limits = Box(np.array([-2.0, -1.0]), np.array([1.0, 4.5]))
    rows = rows_of([squares], [0.5, 0.5], limits)
    assert_allclose(rows.system.upper, [6.5], rtol=1e-14)


def test_sums_beyond_the_doubles_are_left_to_cones():
    slopes = np.full(2, 1.5e308)
    tangent = Enclosure(-1.0, 0.0, slopes, np.zeros(2))
    assert tangent_rows._upper_end(tangent, np.ones(2), np.ones(2)) == np.inf
    # And where a divisor is so small that its own derivative is.
    small = 2e-155
    quotient = Custom(lambda f: [cp.quad_over_lin(f[:2], f[2]) <= 0.5 / small])
    problem = Problem(LeastSquares(), [NonNegative(), quotient])
    certificate = certify(problem, [0.6, 0.5, 0.0], [0.5, 0.5, small])
    assert 0.005 <= certificate.gap < 1


@pytest.mark.parametrize(
    "build",
    [
        lambda f: [cp.sum_squares(f) <= 0.26],
        lambda f: [cp.sum_squares(f) - 0.26 <= 0],
        lambda f: [cp.quad_over_lin(f[:3], f[3] + 0.1) <= 0.3],
        lambda f: [cp.norm(f) <= 0.52],
    ],
)
def test_the_multiplier_of_one_inequality_is_one_number_by_either_way(build, request):
    problem = Problem(LeastSquares(), [*SIMPLEX, Custom(build, name="curve")])
    raw = np.array([0.7, 0.4, 0.1, -0.1])
    first = problem.solve(raw)
    (ours,) = first.duals["curve"]
    request.getfixturevalue("by_cones")
    (theirs,) = certify(problem, raw, first.frequencies).duals["curve"]
    assert np.shape(ours) == np.shape(theirs) == ()
    assert_allclose(ours, theirs, rtol=SOLVER["CLARABEL"])


def test_a_constraint_without_a_multiplier_has_a_plain_zero():
    rows = rows_of([*SIMPLEX, Custom(lambda f: [cp.sum_squares(f) <= 0.46])], [0.6, 0.3, 0.1])
    ((multiplier,),) = rows.tangents.of_curved(np.zeros(2))
    assert not np.signbit(multiplier)


@given(
    numbers=st.lists(st.floats(0.01, 1.0), min_size=3, max_size=6),
    others=st.lists(st.floats(-1.0, 1.0), min_size=6, max_size=6),
    scale=st.sampled_from([1.0, 1e-9, 1e9]),
)
def test_no_point_of_the_set_is_beyond_its_tangents(numbers, others, scale):
    """In fractions: Σ w s² <= limit implies k·s <= upper for the row that was computed."""
    f = np.array(numbers)
    weights = scale * (1 + np.arange(len(f)) / 3)
    limit = float(weights @ f**2)
    squares = Custom(lambda x: [cp.sum(cp.multiply(weights, cp.square(x))) <= limit])
    rows = rows_of([Bounds(-2.0, 2.0), squares], f)
    slopes = [Fraction(float(k)) for k in rows.system.matrix.toarray()[-1]]
    exact = [Fraction(float(w)) for w in weights]
    apart = [Fraction(float(x)) for x in others[: len(f)]]
    # The point of the set that is farthest along the slopes, and one in any direction.
    for way in ([k / w for k, w in zip(slopes, exact, strict=True)], apart):
        size = sum(w * x * x for w, x in zip(exact, way, strict=True))
        if size == 0:
            continue
        along = sum(k * x for k, x in zip(slopes, way, strict=True))
        with mpmath.workdps(60):
            root = mpmath.sqrt(mpmath.mpf(limit) * size.denominator / size.numerator)
            end = root * along.numerator / along.denominator
            assert end <= mpmath.mpf(float(rows.system.upper[-1])) * (1 + mpmath.mpf(10) ** -50)


SIZES = [1e-7, 1e-5, 1e-3, 3e-2]


@cache
def solved_on(curve):
    """Return least squares on a curve, and the solution."""
    problem = Problem(LeastSquares(), [*SIMPLEX, CURVES[curve]])
    return problem, problem.solve(ESTIMATE)


@pytest.mark.parametrize("curve", ["norm", "squares", "divergence", "entropy", "two"])
@pytest.mark.parametrize("size", SIZES)
def test_a_gap_is_never_below_the_true_rise(curve, size):
    """At points of the set that lie on the curve, near its minimum or not."""
    problem, best = solved_on(curve)
    # Points differ with the size too.
    rng = np.random.default_rng(SIZES.index(size))
    inner = np.full(D, 1 / D) if curve == "entropy" else CENTRE
    for _ in range(2):
        moved = best.frequencies + size * rng.normal(size=D) * best.frequencies
        moved = np.maximum(moved, 0) / np.maximum(moved, 0).sum()
        low, high = 0.0, 1.0
        # Back on the curve along the line to a point inside it, to a part of 2^-32.
        for _ in range(32):
            middle = (low + high) / 2
            point = inner + middle * (moved - inner)
            # All else holds between two points of the simplex.
            is_inside = CURVES[curve].violation(point) <= 0
            low, high = (middle, high) if is_inside else (low, middle)
        f = inner + low * (moved - inner)
        rise = float(
            LeastSquares().value(f, ESTIMATE) - LeastSquares().value(best.frequencies, ESTIMATE)
        )
        certificate = certify(problem, ESTIMATE, f)
        assert certificate.gap >= rise - best.certificate.gap


def test_a_curve_that_is_not_the_reason_for_a_point_proves_nothing():
    """On the curve, but its tangent points elsewhere: the point is far from the minimum."""
    problem = Problem(LeastSquares(), [*SIMPLEX, Custom(lambda f: [cp.sum_squares(f) <= 0.5])])
    raw = np.array([0.0, 0.5, 0.5])
    corner = np.array([0.5, 0.5, 0.0])
    certificate = certify(problem, raw, corner)
    # The minimum is (0, ½, ½), a quarter lower.
    assert 0.25 <= certificate.gap <= 0.25 * (1 + OBJECTIVE)


def test_where_tangents_prove_too_little_cones_are_tried(monkeypatch):
    """Of a point beside the minimum its tangents prove no small gap, and nothing else does."""
    tried = []
    by_cones = cone.evidence
    monkeypatch.setattr(cone, "evidence", lambda *given: tried.append(1) or by_cones(*given))
    squares = Custom(lambda f: [cp.sum_squares(f - 0.25) <= 0.01])
    problem = Problem(LeastSquares(), [*SIMPLEX, squares])
    raw = np.array([0.5, 0.3, 0.1, 0.0])
    best = problem.solve(raw).frequencies
    tried.clear()
    beside = best + 1e-4 * np.array([1.0, -1.0, 1.0, -1.0])
    beside = 0.25 + (beside - 0.25) * 0.1 / np.linalg.norm(beside - 0.25)
    certificate = certify(problem, raw, beside)
    assert tried
    assert certificate.gap >= LeastSquares().value(beside, raw) - LeastSquares().value(best, raw)


def test_kinks_have_no_slopes_at_hand():
    squares = Custom(lambda f: [cp.sum_squares(f - 1 / 6) <= 0.05])
    problem = Problem(LeastAbsolute(), [*SIMPLEX, squares])
    solution = problem.solve([0.5, 0.4, 0.3, 0.1, -0.1, 0.02])
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize(
    "further",
    [
        GroupTotals([[0, 1], [2, 3]], CENTRE[[0, 2]] + CENTRE[[1, 3]]),
        Linear(np.arange(D, dtype=float)[None, :], -np.inf, np.arange(D) @ CENTRE),
        Near(np.full(D, 1 / D), 1.9, norm=1),
    ],
    ids=["groups", "row", "sum of deviations"],
)
def test_tangents_stand_beside_any_rows(further, no_program):
    """Also beside rows with auxiliary variables, whose columns the tangents leave empty."""
    problem = Problem(LeastSquares(), [*SIMPLEX, further, CURVES["squares"]])
    solution = problem.solve(ESTIMATE)
    assert solution.status is Status.OPTIMAL
    assert len(solution.duals) == 4


def beside_the_minimum(problem):
    """Return a point on the curve of squares that is a little above the minimum, and the rise."""
    best = problem.solve(ESTIMATE).frequencies
    is_free = best > 1e-4
    # A turn of the values above 0 around the centre, which keeps their sum and their distance.
    apart = (best - CENTRE)[is_free]
    mean = apart.mean()
    first = apart - mean
    second = np.random.default_rng(4).normal(size=len(apart))
    second -= second.mean()
    second -= (second @ first) / (first @ first) * first
    second *= np.linalg.norm(first) / np.linalg.norm(second)
    moved = best.copy()
    angle = 2e-4
    turned = mean + np.cos(angle) * first + np.sin(angle) * second
    moved[is_free] = CENTRE[is_free] + turned
    value = LeastSquares().value
    return moved, float(value(moved, ESTIMATE) - value(best, ESTIMATE))


def test_tangents_count_where_cones_prove_far_less(monkeypatch):
    problem = Problem(LeastSquares(), [*SIMPLEX, CURVES["squares"]])
    f, rise = beside_the_minimum(problem)
    by_cones = cone.evidence

    def poor(*given):
        evidence = by_cones(*given)
        return evidence._replace(gap=np.float64(1e6) * evidence.gap)

    monkeypatch.setattr(cone, "evidence", poor)
    certificate = certify(problem, ESTIMATE, f)
    assert TARGET * certificate.scale < rise <= certificate.gap <= 3 * rise


def test_a_long_vector_beside_the_minimum_has_the_gap_of_its_tangents(monkeypatch):
    problem = Problem(LeastSquares(), [*SIMPLEX, CURVES["squares"]])
    f, rise = beside_the_minimum(problem)
    monkeypatch.setattr(polyhedron, "LONG_FOR_PROGRAMS", D)
    certificate = certify(problem, ESTIMATE, f)
    assert TARGET * certificate.scale < rise <= certificate.gap <= 3 * rise


def test_a_long_vector_on_a_curve_is_proved_where_no_program_is_solved(monkeypatch):
    monkeypatch.setattr(polyhedron, "LONG_FOR_PROGRAMS", D)
    problem = Problem(LeastSquares(), [*SIMPLEX, CURVES["squares"]])
    certificate = certify(problem, ESTIMATE, problem.solve(ESTIMATE).frequencies)
    assert certificate.gap <= PROMISED * certificate.scale
    custom = Problem(LOSSES["own"], [*SIMPLEX, CURVES["squares"]])
    certificate = certify(custom, ESTIMATE, custom.solve(ESTIMATE).frequencies)
    assert certificate.gap <= PROMISED * certificate.scale


def test_proofs_by_tangents_and_by_cones_agree(request):
    solved = {}
    for name in ("squares", "divergence"):
        problem = Problem(LeastSquares(), [*SIMPLEX, CURVES[name]])
        solved[name] = problem, problem.solve(ESTIMATE)
    # Read before the way is changed: multipliers are computed when they are read.
    prices = {name: float(np.ravel(one.duals["curve"])[0]) for name, (_, one) in solved.items()}
    request.getfixturevalue("by_cones")
    for name, (problem, solution) in solved.items():
        certificate = certify(problem, ESTIMATE, solution.frequencies)
        assert certificate.gap <= max(2 * solution.certificate.gap, TARGET * certificate.scale)
        price = float(np.ravel(certificate.duals["curve"])[0])
        assert_allclose(prices[name], price, rtol=SOLVER["CLARABEL"])
