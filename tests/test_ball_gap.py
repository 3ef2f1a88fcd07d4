"""Gaps in a ball around a reference from multipliers at hand: small at minima, never too small."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate, Problem, certify, losses
from ldpopt.constraints import Bounds, Near, NonNegative, SumsTo
from ldpopt.solve.acceptance.judge import judge
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.certificate.prices import ball_gap, normals
from ldpopt.solve.plan import Outcome
from tests.exact_minima import fractions
from tests.test_certificate_soundness import wrong_multipliers

D = 40
U = 2.0**-20
RNG = np.random.default_rng(3)
REFERENCE = RNG.dirichlet(np.ones(D))
ESTIMATE = FrequencyEstimate(REFERENCE + RNG.normal(0, 0.02, D))
GROUPS = np.arange(D).reshape(-1, 5)
LOSSES = {
    "squares": losses.LeastSquares(),
    "variation": losses.LeastSquares() + 0.002 * losses.TotalVariation(),
    "distance": losses.LeastSquares() + 0.002 * losses.L1To(np.full(D, 1 / D)),
    "groups": losses.LeastSquares() + 0.002 * losses.GroupNorm(GROUPS),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_minimum_in_a_ball_is_certified_without_a_program(name, monkeypatch):
    ball = Near(REFERENCE, 0.05, 2)
    problem = Problem(LOSSES[name], [NonNegative(), SumsTo(1.0), ball])
    point = problem.minimise(ESTIMATE)
    monkeypatch.setattr(polyhedron, "evidence", None)  # to call it would be an error
    solution = problem.solve(ESTIMATE)
    assert solution.path == "closed-form"
    assert solution.status == "optimal"
    certificate = certify(problem, ESTIMATE, point)
    assert certificate.gap <= 1e-11 * certificate.scale


@pytest.mark.parametrize("ball", [Near(REFERENCE, 0.2, 1), Near(REFERENCE, 0.02, "kl")], ids=str)
def test_a_ball_of_another_kind_is_certified_without_a_program(ball, monkeypatch):
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), ball])
    point = problem.minimise(ESTIMATE)
    monkeypatch.setattr(polyhedron, "evidence", None)
    certificate = certify(problem, ESTIMATE, point)
    assert certificate.gap <= 1e-11 * certificate.scale


@pytest.mark.parametrize("zeros", [0, 3])
@pytest.mark.parametrize("norm", [1, 2, "kl"])
def test_a_divergence_in_a_ball_is_certified_without_a_program(norm, zeros, monkeypatch):
    """Where nothing is held at 0, and where values without an estimate are."""
    estimate = np.append(np.abs(ESTIMATE.frequencies), np.zeros(zeros))
    ball = Near(np.append(REFERENCE, np.zeros(zeros)), 0.02, norm)
    problem = Problem(losses.KullbackLeibler(), [NonNegative(), SumsTo(1.0), ball])
    point = problem.minimise(estimate)
    monkeypatch.setattr(polyhedron, "evidence", None)
    certificate = certify(problem, estimate, point)
    assert certificate.gap <= 1e-11 * certificate.scale
    # Sets are convex: what is between the minimum and the centre is inside, and no better.
    other = 0.999 * point + 0.001 * ball.reference
    rise = problem.loss.value(other, estimate) - problem.loss.value(point, estimate)
    assert rise <= ball_gap.ball_gap(problem, FrequencyEstimate(estimate), other).gap


@pytest.mark.parametrize("loss", [losses.KullbackLeibler(), losses.Entropy()], ids=str)
def test_a_divergence_is_certified_in_any_unit(loss):
    """Cone programs lose digits where frequencies are far from 1, and prove less."""
    estimate = np.array([1.9, 0.95, 0.93, 0.92, 0.93, 0.94, 0.97, 0.96])
    reference = np.array([0.5, 1.0, 1.0, 0.8, 1.3, 0.7, 1.1, 0.9])
    for unit in (1e-60, 1.0, 1e60, 1e121):
        near = Near(unit * reference, 0.1 * unit, "kl")
        sets = [NonNegative(), SumsTo(7.3 * unit), near]
        solution = Problem(1e61 * loss, sets).solve(unit * estimate)
        assert solution.status == "optimal"
        assert solution.certificate.is_optimal(1e-8, relative=True)


def test_the_largest_deviations_settle_the_price_of_a_ball_that_no_other_value_does(monkeypatch):
    rng = np.random.default_rng(2)
    truth = rng.dirichlet(np.ones(64))
    raw = truth + rng.normal(0, 0.01, 64)
    reference = truth * np.exp(0.25 * rng.standard_normal(64))
    ball = Near(reference / reference.sum(), 0.2, 1)
    problem = Problem(losses.MaxAbsolute(), [NonNegative(), SumsTo(1.0), ball])
    monkeypatch.setattr(polyhedron, "evidence", None)
    solution = problem.solve(raw, path="conic", solver="CLARABEL")
    assert solution.status == "optimal"


def test_values_that_a_divergence_holds_at_zero_cost_nothing(monkeypatch):
    reference = np.append(REFERENCE, [0.0, 0.0])
    problem = Problem(
        losses.LeastSquares(), [NonNegative(), SumsTo(1.0), Near(reference, 0.02, "kl")]
    )
    # Free, these two would be the largest.
    estimate = FrequencyEstimate(np.append(ESTIMATE.frequencies, [3.0, 2.0]))
    point = problem.minimise(estimate)
    monkeypatch.setattr(polyhedron, "evidence", None)
    certificate = certify(problem, estimate, point)
    assert certificate.gap <= 1e-11 * certificate.scale


def test_trials_of_a_stack_count_kinks_by_their_own_values():
    reference = np.array([0.4, 0.3, 0.2, 0.1])
    problem = Problem(
        losses.LeastSquares() + 1e-3 * losses.L1To(reference + 1e-4), [Near(reference, 1e-3, 1)]
    )
    near = reference + np.array([5e-4, -5e-4, 1e-8, -1e-8])
    points = np.stack([near, 1e6 * np.array([1.0, 2.0, 3.0, 4.0])])
    raw = reference + np.array([0.3, -0.2, 0.05, 0.02])
    estimates = FrequencyEstimate(np.stack([raw, 1.1 * points[1]]))
    cases = [ball_gap._case_of(problem, estimates, points)]
    cases += [ball_gap._case_of(problem, estimates[i], points[i]) for i in range(2)]
    together, *alone = [ball_gap.proof_at(1e-9, case, 0.0) for case in cases]
    assert_array_equal(together.normal, [proof.normal for proof in alone])
    assert_array_equal(together.mu, [proof.mu for proof in alone])


WEIGHTS = np.linspace(0.5, 2.0, D)
# Each with a factor of 1 cuts off the estimate, and still leaves some values at 0.
BALLS = {
    "2-norm": lambda factor: Near(REFERENCE, 0.05 * factor, 2),
    "1-norm": lambda factor: Near(REFERENCE, 0.3 * factor, 1),
    "weighted 1-norm": lambda factor: Near(REFERENCE, 0.5 * factor, 1, weights=WEIGHTS),
    "divergence": lambda factor: Near(REFERENCE, 0.1 * factor, "kl"),
}
AROUND = {
    "simplex": [NonNegative(), SumsTo(1.0)],
    "total": [SumsTo(1.0)],
    "caps": [Bounds(0.0, 0.12), SumsTo(1.0)],
}


def rate_of(certificate):
    """Return the multiplier of the radius; a 1-norm's is that of its sum of deviations."""
    multipliers = np.asarray(certificate.duals["Near"])
    return multipliers if not multipliers.ndim else multipliers[2 * D]


@pytest.mark.parametrize("name", BALLS)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("size", [1.0, 1e4], ids=["active", "wide"])
def test_multipliers_of_a_closed_form_take_no_program(name, around, size, monkeypatch):
    """They satisfy the conditions, and are how fast the minimum rises with the radius."""
    problems = [
        Problem(losses.LeastSquares(), [*AROUND[around], BALLS[name](size * factor)])
        for factor in (1 - 1e-4, 1, 1 + 1e-4)
    ]
    smaller, at, larger = (problem.solve(ESTIMATE) for problem in problems)
    monkeypatch.setattr(polyhedron, "evidence", None)  # to call it would be an error
    certificate = certify(problems[1], ESTIMATE, at.frequencies)
    assert certificate.stationarity <= 1e-12
    assert certificate.complementarity <= 1e-12
    step = problems[2].constraints[-1].radius - problems[0].constraints[-1].radius
    slope = (larger.objective - smaller.objective) / step
    assert rate_of(certificate) == pytest.approx(slope, rel=1e-4, abs=1e-12)
    assert (abs(rate_of(certificate)) > 1e-4) == (size == 1.0)


@pytest.mark.parametrize("name", BALLS)
def test_multipliers_of_rows_and_cones_are_those_of_a_program(name):
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), BALLS[name](1.0)])
    point = problem.minimise(ESTIMATE)
    at_hand = ball_gap.ball_explanation(problem, ESTIMATE, point)
    program = polyhedron.evidence(problem, ESTIMATE, point).explain()
    assert at_hand.row_sizes == program.row_sizes
    scale = np.abs(problem.loss.gradient(point, ESTIMATE)).max()
    for field in ("sum_multiplier", "bound_multipliers"):
        assert_allclose(getattr(at_hand, field), getattr(program, field), atol=1e-4 * scale)
    if program.row_sizes == (None,):
        assert_allclose(at_hand.of_curved[0], np.ravel(program.of_curved[0]), rtol=1e-3)
        return
    # Of deviations that are 0 the shares are not unique, but what they leave to a value is.
    for part in (at_hand, program):
        above, below = part.row_multipliers[: 2 * D].reshape(2, D)
        assert (above <= 1e-9 * scale).all()
        assert (below >= -1e-9 * scale).all()
    sums = [part.row_multipliers[: 2 * D].reshape(2, D).sum(axis=0) for part in (at_hand, program)]
    assert_allclose(*sums, atol=1e-4 * scale)


@pytest.mark.parametrize("name", BALLS)
def test_multipliers_of_a_stack_are_those_of_its_trials(name):
    raw = ESTIMATE.frequencies + np.random.default_rng(4).normal(0, 0.01, (3, D))
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), BALLS[name](1.0)])
    stack = FrequencyEstimate(raw)
    points = problem.minimise(stack)
    whole = certify(problem, stack, points)
    for trial in range(3):
        part = certify(problem, stack[trial], points[trial])
        for field in ("sum_multiplier", "bound_multipliers", "row_multipliers"):
            expected = getattr(part, field)
            assert_allclose(getattr(whole, field)[trial], expected, rtol=1e-9, atol=1e-15)
        assert_allclose(whole.duals["Near"][trial], part.duals["Near"], rtol=1e-9, atol=1e-15)


def test_a_point_that_is_no_minimum_is_not_explained(monkeypatch):
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), BALLS["2-norm"](1.0)])
    point = problem.minimise(ESTIMATE)
    point[:2] += [1e-3, -1e-3]
    explanation = ball_gap.ball_explanation(problem, ESTIMATE, point)
    assert explanation.stationarity >= 1e-4


def test_a_price_of_a_limit_that_is_far_shows():
    ball = BALLS["2-norm"](1.0)
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), ball])
    inside = (problem.minimise(ESTIMATE) + REFERENCE) / 2
    explanation = ball_gap.ball_explanation(problem, ESTIMATE, inside)
    price = D * float(explanation.of_curved[0][0])
    # The ball's slack at its price: half of the radius is left.
    assert price > 1e-2
    assert explanation.complementarity == pytest.approx(price * ball.radius / 2, rel=1e-3)


@pytest.mark.parametrize("distance", [0.0, 1e-10])
def test_values_that_are_nearly_those_of_the_reference_count_as_equal(distance):
    """How near counts as equal depends on the path: the multipliers that prove most are shown."""
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), BALLS["1-norm"](1.0)])
    point = problem.minimise(ESTIMATE)
    assert np.count_nonzero(np.abs(point - REFERENCE) < 1e-12) > 5
    point += distance * np.sign(np.sin(np.arange(D)))
    explanation = ball_gap.ball_explanation(problem, ESTIMATE, np.maximum(point, 0.0))
    assert explanation.stationarity <= 10 * distance + 1e-15


def test_huber_in_a_ball_is_judged_without_a_program(monkeypatch):
    problem = Problem(losses.Huber(0.01), [NonNegative(), SumsTo(1.0), Near(REFERENCE, 0.2, 1)])
    monkeypatch.setattr(polyhedron, "evidence", None)
    assert problem.solve(ESTIMATE).status == "optimal"


def dyadic(generator, d, total):
    """Return whole multiples of 2⁻²⁰ with a total of as many of them."""
    return generator.multinomial(total, np.full(d, 1 / d)) * U


def distance_of(f, reference, norm, weights=None):
    """Return Σ w |f - r|, the sum of squares, in fractions; the divergence to 60 digits."""
    if norm == "kl":
        # Of two vectors with the same total.
        with localcontext(prec=60):
            pairs = [(Decimal(a), Decimal(b)) for a, b in zip(f, reference, strict=True) if a]
            return Fraction(sum(a * (a.ln() - b.ln()) for a, b in pairs))
    steps = [a - b for a, b in zip(fractions(f), fractions(reference), strict=True)]
    if weights is not None:
        steps = [a * b for a, b in zip(fractions(weights), steps, strict=True)]
    return sum(map(abs, steps)) if norm == 1 else sum(step**2 for step in steps)


@pytest.mark.parametrize("norm", [1, 2, "kl"])
def test_the_slack_of_a_normal_is_what_the_ball_allows_and_no_less(norm):
    generator = np.random.default_rng(5)
    for _ in range(20):
        reference, f, s = (dyadic(generator, 5, 2**20) for _ in range(3))
        weights = 4.0 ** generator.integers(-6, 0, 5) if norm == 1 else None
        distance = float(distance_of(s, reference, norm, weights)) ** (0.5 if norm == 2 else 1.0)
        ball = Near(reference, math.nextafter(distance, math.inf), norm, weights=weights)
        vector = normals.normal_of(ball, s, 0.0).vector
        # Of all points of the ball, s is the furthest in the direction of its normal.
        steps = [a - b for a, b in zip(fractions(s), fractions(f), strict=True)]
        exact = sum(n * step for n, step in zip(fractions(vector), steps, strict=True))
        slack = normals.slack(ball, vector, f).bound
        assert Fraction(float(slack)) >= exact
        assert float(slack) == pytest.approx(float(exact), abs=1e-13)
        # Both have one total, so that a number added to n changes nothing but how good it is.
        assert Fraction(float(normals.slack(ball, vector + 0.05, f).bound)) >= exact


def test_the_bend_of_huber_is_the_largest_between_the_bounds():
    generator = np.random.default_rng(6)
    loss = losses.Huber(0.25)
    straight = 0
    for _ in range(200):
        target, lower, f, upper = generator.integers(-64, 64, 4) / 64
        lower, f, upper = sorted([lower, f, upper])
        estimate = FrequencyEstimate([target])
        bend = float(loss.bend(np.array([f]), estimate, np.array([lower]), np.array([upper]))[0])
        slope = Fraction(float(loss.gradient(np.array([f]), estimate)[0]))
        ratios = []
        for s in np.linspace(lower, upper, 65):
            step = Fraction(float(s)) - Fraction(float(f))
            rise = exact_value(loss, [s], [target]) - exact_value(loss, [f], [target])
            if step:
                ratios.append(2 * (rise - slope * step) / step**2)
        assert all(ratio >= Fraction(bend) * (1 - Fraction(2) ** -45) for ratio in ratios)
        straight += bend == 0
        if ratios and abs(f - target) < 0.25:
            assert bend == pytest.approx(float(min(ratios)), abs=1e-12)
    assert 100 < straight < 190


def exact_value(loss, f, target):
    """Return Σ of half the squares, or of Huber's function, in fractions."""
    steps = [abs(a - b) for a, b in zip(fractions(f), fractions(target), strict=True)]
    if isinstance(loss, losses.LeastSquares):
        return sum(step**2 for step in steps) / 2
    delta = Fraction(loss.delta)
    return sum(min(step, delta) * (step - min(step, delta) / 2) for step in steps)


@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize(("norm", "weighted"), [(1, False), (1, True), (2, False), ("kl", False)])
@pytest.mark.parametrize("loss", [losses.LeastSquares(), losses.Huber(0.01)], ids=str)
def test_no_gap_in_a_ball_is_below_the_rise(loss, norm, weighted, planted):
    generator = np.random.default_rng(3)
    multiplier = ball_gap._multiplier

    def wrong(tangent, *rest, **options):
        normal, mu = multiplier(tangent, *rest, **options)
        if generator.random() < 0.5:
            return normal, np.abs(wrong_multipliers(generator, mu.shape))
        return normal + generator.normal(size=normal.shape), mu

    compared = 0
    for _ in range(25):
        d = int(generator.integers(2, 6))
        reference, f, s = (dyadic(generator, d, 2**20) for _ in range(3))
        weights = 4.0 ** generator.integers(-6, 0, d) if weighted else None
        normal = normals.normal_of(Near(reference, 1.0, norm, weights=weights), s, 0.0).vector
        # Most estimates are such that s is near the minimum of a ball which it is at the end of.
        away = normal if generator.random() < 0.8 else generator.normal(size=d)
        target = s + away * 10 ** generator.uniform(-2, 9)
        distance = distance_of(s, reference, norm, weights)
        radius = math.nextafter(float(distance) ** (0.5 if norm == 2 else 1.0), math.inf)
        ball = Near(reference, radius, norm, weights=weights)
        problem = Problem(loss, [NonNegative(), SumsTo(1.0), ball])
        step = generator.permutation(np.append([1, -1], np.zeros(d - 2))) * U
        points = np.array([f, s, s + step, s + 2.0**-20 * step])
        starts = FrequencyEstimate(np.tile(target, (len(points), 1)))
        with mock.patch.object(ball_gap, "_multiplier", wrong if planted else multiplier):
            bound = ball_gap.ball_gap(problem, starts, points)
        for point, gap in zip(points, bound.gap, strict=True):
            rise = exact_value(loss, point, target) - exact_value(loss, s, target)
            compared += 1
            assert gap == np.inf or Fraction(float(gap)) >= rise
    assert compared == 100


@pytest.mark.parametrize("share", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("norm", [1, 2, "kl"])
def test_a_point_on_the_way_to_the_minimum_has_at_least_its_rise(norm, share):
    ball = Near(REFERENCE, 0.1, norm)
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), ball])
    minimiser = problem.minimise(ESTIMATE)
    point = REFERENCE + share * (minimiser - REFERENCE)
    values = [problem.loss.value(f, ESTIMATE) for f in (point, minimiser)]
    bound = ball_gap.ball_gap(problem, ESTIMATE, point)
    assert bound.gap >= (values[0] - values[1]) * (1 - 1e-9)


@pytest.mark.parametrize("accuracy", ["high", "low"])
def test_the_search_for_multipliers_ends_where_the_status_is_proved(accuracy, monkeypatch):
    """In units of slopes times frequencies, which are larger here than the loss itself."""
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), Near(REFERENCE, 0.1, 1)])
    minimiser = problem.minimise(ESTIMATE)
    step = np.zeros(D)
    step[np.argsort(minimiser)[-2:]] = 4e-9, -4e-9
    point = minimiser + step
    terms = np.sum(np.abs(problem.loss.gradient(point, ESTIMATE) * point))
    value = problem.loss.value(point, ESTIMATE)
    gap = ball_gap.ball_gap(problem, ESTIMATE, point).gap
    assert 1e-8 * value < gap < 1e-8 * terms
    tried = []
    original = ball_gap.proof_at
    monkeypatch.setattr(ball_gap, "proof_at", lambda *a: tried.append(a) or original(*a))
    plan = SimpleNamespace(path="conic", name="by hand")
    judgement = judge(problem, ESTIMATE, Outcome(point), plan, accuracy)
    assert judgement.status == "optimal"
    assert len(tried) == 1
