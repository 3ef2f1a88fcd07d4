"""Own losses are proved by tangents beside the point: soundly, closely, and without programs."""

from fractions import Fraction

import cvxpy as cp
import mpmath
import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Problem, certify, losses
from ldpopt.constraints import Bounds, Custom, Linear, NonNegative, SumsTo
from ldpopt.solve.certificate.bounds.evidence import Evidence
from ldpopt.solve.certificate.certificate import scale_of, terms_of
from ldpopt.solve.certificate.cones import cone_gap
from ldpopt.solve.certificate.cones.conic_program import ConicProgram
from ldpopt.solve.certificate.polyhedra import cone, polyhedron
from ldpopt.solve.certificate.prices import own_slopes
from ldpopt.solve.status import ACCURACIES, Status
from tests.tolerances import ENCLOSED

D = 40
DIGITS = 40
PROMISED = ACCURACIES["high"].gap
exact = mpmath.mpf


def vector(d, seed=0):
    """Return frequencies with noise, some of them negative."""
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.full(d, 0.5)) + generator.normal(0, 0.7 / d, d)


SIMPLEX = [NonNegative(), SumsTo(1.0)]
HALF = Linear(np.repeat([1.0, 0.0], D // 2)[None, :], np.array([0.3]), np.array([0.6]))
BALL = Custom(lambda f: [cp.norm(f - 1 / D) <= 0.1], name="ball")
POWER_BALL = Custom(lambda f: [cp.pnorm(f - 1 / D, 3) <= 0.1])
SETS = {"simplex": SIMPLEX, "row": [*SIMPLEX, HALF], "ball": [*SIMPLEX, BALL]}

# Each with cvxpy, for frequencies and estimates in units of 1/d, and with mpmath's numbers.
OWN = {
    "logistic": (
        lambda f, y: cp.sum(cp.logistic(2 * (f - y)) - (f - y)),
        lambda f, y: mpmath.log1p(mpmath.exp(2 * (f - y))) - (f - y),
    ),
    "log_sum_exp": (
        lambda f, y: cp.sum(cp.log_sum_exp(cp.vstack([f - y, y - f]), axis=0)),
        lambda f, y: mpmath.log(mpmath.exp(f - y) + mpmath.exp(y - f)),
    ),
    "exp": (
        lambda f, y: cp.sum(cp.exp(f - y) - f),
        lambda f, y: mpmath.exp(f - y) - f,
    ),
    "entropy": (lambda f, y: -cp.sum(cp.entr(f)), lambda f, y: f * mpmath.log(f)),
    "fourth power": (lambda f, y: cp.sum((f - y) ** 4), lambda f, y: (f - y) ** 4),
    "sum": (
        lambda f, y: cp.sum(cp.logistic(f - y)) + 0.5 * cp.sum(cp.kl_div(f, 1)),
        lambda f, y: mpmath.log1p(mpmath.exp(f - y)) + (f * mpmath.log(f) - f + 1) / 2,
    ),
}


def loss_of(name, d=D):
    build, _ = OWN[name]
    return losses.Custom(lambda f, y: build(d * f, d * y), name=name)


def exact_value(name, f, y):
    _, function = OWN[name]
    d = len(f)
    return mpmath.fsum(function(d * a, d * exact(float(b))) for a, b in zip(f, y, strict=True))


@pytest.fixture
def no_programs(monkeypatch):
    """Let proofs fail where they solve a program."""

    def refuse(*_):
        raise AssertionError("a program is solved")

    monkeypatch.setattr(ConicProgram, "solve", refuse)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("where", SETS)
def test_points_of_solvers_are_proved_without_a_program(name, where, no_programs):
    assert Problem(loss_of(name), SETS[where]).solve(vector(D)).status is Status.OPTIMAL


@pytest.mark.parametrize("name", ["logistic", "log_sum_exp"])
def test_many_exponential_cones_are_proved_without_a_program(name, no_programs):
    d = 736
    assert Problem(loss_of(name, d), SIMPLEX).solve(vector(d)).status is Status.OPTIMAL


MIXED = np.random.default_rng(3).normal(size=(12, D))

# Every gradient depends on all values.
COUPLED = {
    "one sum": lambda f, y: cp.log_sum_exp(D * (f - y)),
    "mixtures": lambda f, y: cp.sum(cp.logistic(MIXED @ (f - y))) + cp.sum_squares(f - y),
    "entropy and mixtures": lambda f, y: cp.sum(cp.exp(MIXED @ f)) - cp.sum(cp.entr(D * f)),
}


@pytest.mark.parametrize("where", SETS)
@pytest.mark.parametrize("name", COUPLED)
def test_losses_that_tie_values_together_are_proved_without_a_program(name, where, no_programs):
    loss = losses.Custom(COUPLED[name], name=name)
    assert Problem(loss, SETS[where]).solve(vector(D)).status is Status.OPTIMAL


SUMS = {
    "squares": losses.LeastSquares() + loss_of("logistic") / D**2,
    "weights": losses.WeightedLeastSquares(np.linspace(1, 2, D)) + 0.1 * loss_of("exp") / D**2,
    "two of one's own": 2 * loss_of("logistic") + loss_of("entropy"),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_own_losses_and_squares_are_proved_without_a_program(name, no_programs):
    assert Problem(SUMS[name], SIMPLEX).solve(vector(D)).status is Status.OPTIMAL


def test_the_exact_value_and_gradient_of_a_sum_lie_in_the_ranges():
    f = vector(D, seed=1)
    y = vector(D)
    weights = np.linspace(1, 2, D)
    square = losses.WeightedLeastSquares(weights)
    start = FrequencyEstimate(y)
    ranges = (0.3 * square + 0.7 * losses.LeastSquares()).enclosed(start)(f)
    with mpmath.workdps(DIGITS):
        factors = [exact(0.3) * exact(float(w)) + exact(0.7) for w in weights]
        away = [exact(float(a)) - exact(float(b)) for a, b in zip(f, y, strict=True)]
        value = mpmath.fsum(w * a * a for w, a in zip(factors, away, strict=True)) / 2
        assert abs(value - ranges.value) <= ranges.value_error
        gradient = [w * a for w, a in zip(factors, away, strict=True)]
        for number, middle, radius in zip(
            gradient, ranges.gradient, ranges.gradient_error, strict=True
        ):
            assert abs(number - exact(float(middle))) <= exact(float(radius))
            assert radius <= ENCLOSED


@pytest.mark.parametrize("name", ["logistic", "log_sum_exp", "entropy"])
def test_gradients_take_no_look_at_cvxpy_s_own(name, monkeypatch):
    def refuse(_):
        raise AssertionError("cvxpy's gradient is read")

    monkeypatch.setattr(cp.atoms.atom.Atom, "grad", property(refuse))
    assert Problem(loss_of(name), SIMPLEX).solve(vector(D)).status is Status.OPTIMAL


def test_the_cones_of_a_loss_are_in_no_program_for_a_ball(by_cones, monkeypatch):
    exponential = []
    solve = ConicProgram.solve

    def counted(self, *arguments):
        exponential.append(self.cones.exponential)
        return solve(self, *arguments)

    monkeypatch.setattr(ConicProgram, "solve", counted)
    solution = Problem(loss_of("logistic"), SETS["ball"]).solve(vector(D))
    assert solution.status is Status.OPTIMAL
    assert exponential == [0]


def test_a_loss_that_is_straight_at_outliers_takes_one_program_for_a_ball(by_cones, monkeypatch):
    y = vector(D)
    problem = Problem(losses.Custom(lambda f, y: cp.sum(cp.huber(f - y, 0.005))), SETS["ball"])
    f = problem.solve(y).frequencies
    is_straight = np.abs(f - y) > 0.005
    assert 5 < is_straight.sum() < D - 5
    programs = []
    solve = ConicProgram.solve
    monkeypatch.setattr(ConicProgram, "solve", lambda *_: programs.append(1) or solve(*_))
    certificate = certify(problem, y, f)
    assert certificate.gap <= PROMISED * certificate.scale
    assert len(programs) == 1


@pytest.mark.parametrize("name", ["exp", "log_sum_exp"])
def test_a_proof_as_close_as_a_program_s_ends_the_search(name, by_cones, monkeypatch):
    problem = Problem(loss_of(name), SETS["ball"])
    y = vector(D)
    f = problem.solve(y).frequencies

    def refuse(*_):
        raise AssertionError("the program of all cones is solved")

    monkeypatch.setattr(cone, "evidence", refuse)
    certificate = certify(problem, y, f)
    assert certificate.gap <= PROMISED * certificate.scale


def test_second_derivatives_are_zero_where_a_loss_is_straight():
    """Steps take the largest one there; a value of 0 has its own, though differences are small."""
    y = FrequencyEstimate([0.5, 0.3, 0.2, 0.1])
    f = np.array([0.502, 0.3, 0.0, 0.4])
    loss = losses.Custom(lambda f, y: cp.sum(cp.huber(f - y, 0.25)))
    around = own_slopes.Surroundings.of(loss.at(y, {}), y, f)
    np.testing.assert_allclose(around.bend, [2.0, 2.0, 2.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(around.steep, 2.0, rtol=1e-6)


def test_multipliers_that_prove_enough_are_not_improved(monkeypatch):
    """They prove more than a program would look for, and less than rows alone would allow."""
    problem = Problem(loss_of("exp"), [*SIMPLEX, POWER_BALL])
    y = vector(D)
    f = problem.solve(y).frequencies

    def refuse(*_):
        raise AssertionError("multipliers are improved")

    monkeypatch.setattr(cone_gap, "polished", refuse)
    certificate = certify(problem, y, f)
    assert polyhedron.SUFFICIENT * certificate.scale < certificate.gap
    assert certificate.gap <= cone_gap.TARGET * certificate.scale


# Of six values, where a solver's multipliers are poor.
SIX = losses.Custom(lambda f, y: cp.log_sum_exp(6 * (f - y)))


def test_multipliers_that_prove_too_little_are_improved_before_a_program(by_cones, monkeypatch):
    ball = Custom(lambda f: [cp.norm(f - 1 / 6) <= 0.1])
    problem = Problem(SIX, [*SIMPLEX, ball])
    f = problem.solve(vector(6), solver="CLARABEL").frequencies

    def refuse(*_):
        raise AssertionError("the program of all cones is solved")

    monkeypatch.setattr(cone, "evidence", refuse)
    certificate = certify(problem, vector(6), f)
    assert certificate.gap <= PROMISED * certificate.scale


def test_where_tangents_prove_too_little_a_program_proves_more(by_cones):
    divergence = Custom(lambda f: [cp.sum(cp.kl_div(f, 1 / 6)) <= 0.1])
    problem = Problem(SIX, [*SIMPLEX, divergence])
    f = problem.solve(vector(6), solver="CLARABEL").frequencies
    certificate = certify(problem, vector(6), f)
    assert certificate.gap <= PROMISED * certificate.scale


def test_rows_that_leave_a_ball_out_get_one_look(by_cones, monkeypatch):
    looks = []
    proof = polyhedron._proof
    monkeypatch.setattr(polyhedron, "_proof", lambda *_: looks.append(1) or proof(*_))
    assert Problem(loss_of("logistic"), SETS["ball"]).solve(vector(D)).status is Status.OPTIMAL
    assert len(looks) <= len(polyhedron._NEARNESS)


def feasible(f):
    """Return frequencies that sum to 1 exactly, none of them 0."""
    numbers = [max(exact(float(x)), exact(10) ** -20) for x in f]
    whole = mpmath.fsum(numbers)
    return [x / whole for x in numbers]


@pytest.fixture
def by_tangents(monkeypatch):
    """Return the function that returns the gap which tangents alone prove."""

    def nothing(*_):
        return Evidence(np.asarray(np.inf), np.asarray(1.0), np.asarray("none"), lambda: None)

    monkeypatch.setattr(cone, "evidence", nothing)

    def gap(present, start, f):
        return float(polyhedron.evidence(present, start, f, PROMISED).gap)

    return gap


def points_beside(best, problem, name, y, lowest):
    """Yield relative distances from a point, points there, and what no gap may be below."""
    generator = np.random.default_rng(1)
    for size in (0.0, 1e-9, 1e-6, 1e-3, 0.3):
        f = best * (1 + size * generator.uniform(-1, 1, D))
        f = f / f.sum()
        rise = exact_value(name, [exact(float(x)) for x in f], y) - lowest
        # The sum of doubles is not exactly 1, nor are their rows and balls met exactly.
        missed = mpmath.fsum(map(float, f)) - 1
        slope = np.abs(problem.loss.gradient(f, y)).max()
        yield size, f, rise - 2 * slope * abs(missed)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("where", SETS)
def test_no_gap_is_below_the_exact_rise_and_those_near_the_minimum_are_close(
    name, where, by_tangents
):
    y = vector(D)
    problem = Problem(loss_of(name), SETS[where])
    best = problem.solve(y).frequencies
    present = problem.at(y)
    start = present.accept(y)
    with mpmath.workdps(DIGITS):
        # A minimum is at most the loss of any member of the set; other points of it are near it.
        lowest = exact_value(name, feasible(best), y)
        for size, f, rise in points_beside(best, problem, name, y, lowest):
            gap = by_tangents(present, start, f)
            assert gap >= rise
            if size <= 1e-9:
                terms = terms_of(present, start, f)
                assert gap <= PROMISED * scale_of(present, start, f, terms)


def test_wrong_second_derivatives_prove_less_but_nothing_wrong(by_tangents, monkeypatch):
    y = vector(D)
    problem = Problem(loss_of("logistic"), SIMPLEX)
    best = problem.solve(y).frequencies
    f = best * (1 + 1e-5 * np.random.default_rng(2).uniform(-1, 1, D))
    f = f / f.sum()
    with mpmath.workdps(DIGITS):
        lowest = exact_value("logistic", feasible(best), y)
        rise = exact_value("logistic", [exact(float(x)) for x in f], y) - lowest
    present = problem.at(y)
    for factor in (1e-3, 0.1, 10.0, 1e6):
        wrong = np.full(D, factor * D**2)
        monkeypatch.setattr(own_slopes, "second_derivatives", lambda *_, wrong=wrong, **__: wrong)
        gap = by_tangents(present, present.accept(y), f)
        assert gap >= rise


def test_a_point_that_is_no_minimum_is_not_certified():
    y = vector(D)
    problem = Problem(loss_of("logistic"), SETS["ball"])
    f = np.full(D, 1 / D)
    assert not certify(problem, y, f).is_optimal(1e-3, relative=True)


def test_a_program_pays_for_what_numpy_s_value_of_a_loss_rounds():
    """Squares of small differences are as wrong as these: the sums that leave them are rounded."""
    rng = np.random.default_rng(3)
    box = [Bounds(-1e3, 1e3)]
    for _ in range(12):
        matrix = rng.normal(size=(2, 3))
        target = rng.normal(size=2)
        best = np.linalg.lstsq(matrix, target, rcond=None)[0]
        f = best * (1 + 1e-7 * rng.uniform(-1, 1, 3))
        loss = losses.Custom(lambda f, m=matrix, t=target: cp.sum_squares(m @ f - t))
        gap = Fraction(float(certify(Problem(loss, box), best, f).gap))
        squares = [_exact_squares(matrix, target, point) for point in (f, best)]
        assert gap >= squares[0] - squares[1]


def _exact_squares(matrix, target, point):
    total = Fraction(0)
    for row, goal in zip(matrix.tolist(), target.tolist(), strict=True):
        products = [Fraction(a) * Fraction(x) for a, x in zip(row, point.tolist(), strict=True)]
        total += (sum(products) - Fraction(goal)) ** 2
    return total
