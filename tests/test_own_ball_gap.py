"""Own losses in a ball are proved by multipliers at hand: soundly, closely, without a program."""

import mpmath
import numpy as np
import pytest

from ldpopt import Problem, certify, losses
from ldpopt.constraints import Linear, Near, NonNegative, SumsTo
from ldpopt.solve.certificate.bounds.dual import usable
from ldpopt.solve.certificate.cones.conic_program import ConicProgram
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.certificate.prices import ball_gap
from ldpopt.solve.certificate.prices import own_ball_gap as module
from ldpopt.solve.certificate.prices.own_ball_gap import own_ball_explanation, own_ball_gap
from ldpopt.solve.status import ACCURACIES, Status
from tests.test_own_slopes import (
    COUPLED,
    OWN,
    D,
    exact_value,
    feasible,
    loss_of,
    points_beside,
    vector,
)

DIGITS = 40
PROMISED = ACCURACIES["high"].gap
exact = mpmath.mpf

REFERENCE = np.random.default_rng(5).dirichlet(np.full(D, 3.0))
WEIGHTS = np.linspace(1.0, 2.0, D)
BALLS = {
    "1-norm": Near(REFERENCE, 0.2, 1),
    "weighted 1-norm": Near(REFERENCE, 0.3, 1, weights=WEIGHTS),
    "2-norm": Near(REFERENCE, 0.05, 2),
    "divergence": Near(REFERENCE, 0.03, "kl"),
    "far": Near(REFERENCE, 1e3, 2),
}
# Solvers leave values in a 1-norm's kinks to some 1e-8, where the tangent's error counts fully.
CLOSE = ["2-norm", "divergence", "far"]


def around(ball):
    return [NonNegative(), SumsTo(1.0), BALLS[ball]]


def gap_of(problem, y, f):
    return gap_at(*stated(problem, y), f)


def stated(problem, y):
    """Return a problem with its parameters' values, and its estimate."""
    present = problem.at(y)
    return present, present.accept(y)


def gap_at(present, start, f):
    return float(own_ball_gap(present, start, f, PROMISED).gap)


@pytest.fixture
def no_programs(monkeypatch):
    """Let proofs fail where they solve a program, or look at all constraints as rows."""

    def refuse(*_, **__):
        raise AssertionError("a program is solved")

    monkeypatch.setattr(ConicProgram, "solve", refuse)
    monkeypatch.setattr(polyhedron, "evidence", refuse)


@pytest.mark.parametrize("ball", CLOSE)
@pytest.mark.parametrize("name", OWN)
def test_points_of_solvers_are_proved_without_a_program(name, ball, no_programs):
    solution = Problem(loss_of(name), around(ball)).solve(vector(D))
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.is_optimal(PROMISED, relative=True)


@pytest.mark.parametrize("name", COUPLED)
def test_losses_that_tie_values_together_are_proved_without_a_program(name, no_programs):
    loss = losses.Custom(COUPLED[name], name=name)
    assert Problem(loss, around("2-norm")).solve(vector(D)).status is Status.OPTIMAL


def test_a_stack_is_proved_trial_by_trial(no_programs):
    stack = np.stack([vector(D, seed) for seed in range(3)])
    problem = Problem(loss_of("exp"), around("2-norm"))
    solution = problem.solve(stack)
    assert solution.status is Status.OPTIMAL
    single = [gap_of(problem, y, f) for y, f in zip(stack, solution.frequencies, strict=True)]
    present = problem.at(stack)
    together = own_ball_gap(present, present.accept(stack), solution.frequencies, PROMISED)
    assert together.gap.tolist() == single


def in_ball(numbers, ball):
    """Return frequencies on the way to the reference that are in the ball by exact arithmetic."""
    center = feasible(REFERENCE)
    near = BALLS[ball]
    for k in range(12, 2, -1):
        part = 1 - exact(10) ** -k
        moved = [c + part * (f - c) for f, c in zip(numbers, center, strict=True)]
        if _distance(moved, near) <= exact(float(near.radius)):
            return moved
    raise AssertionError("nothing is in the ball")


def _distance(numbers, near):
    reference = [exact(float(r)) for r in near.reference]
    pairs = list(zip(numbers, reference, strict=True))
    if near.norm == "kl":
        return mpmath.fsum(f * mpmath.log(f / r) - f + r for f, r in pairs)
    if near.norm == 2:
        return mpmath.sqrt(mpmath.fsum((f - r) ** 2 for f, r in pairs))
    weights = np.ones(D) if near.weights is None else near.weights
    return mpmath.fsum(
        exact(float(w)) * abs(f - r) for w, (f, r) in zip(weights, pairs, strict=True)
    )


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("name", OWN)
def test_no_gap_is_below_the_exact_rise(name, ball):
    y = vector(D)
    problem = Problem(loss_of(name), around(ball))
    best = problem.solve(y).frequencies
    present, start = stated(problem, y)
    with mpmath.workdps(DIGITS):
        lowest = exact_value(name, in_ball(feasible(best), ball), y)
        for _, f, rise in points_beside(best, problem, name, y, lowest):
            assert gap_at(present, start, f) >= rise


@pytest.mark.parametrize("wrong", [0.0, 0.5, 2.0, -1.0, np.nan, np.inf])
def test_wrong_prices_of_a_ball_prove_less_but_nothing_wrong(wrong, monkeypatch):
    y = vector(D)
    problem = Problem(loss_of("exp"), around("2-norm"))
    best = problem.solve(y).frequencies
    right = gap_of(problem, y, best)
    multiplier = ball_gap._multiplier

    def planted(*arguments, **more):
        normal, mu = multiplier(*arguments, **more)
        # Normals are finite, wherever they are from.
        return usable(wrong * normal), np.maximum(wrong * mu, 0.0)

    monkeypatch.setattr(ball_gap, "_multiplier", planted)
    assert gap_of(problem, y, best) >= right
    f = 0.5 * best + 0.5 * REFERENCE
    with mpmath.workdps(DIGITS):
        lowest = exact_value("exp", in_ball(feasible(best), "2-norm"), y)
        rise = exact_value("exp", [exact(float(x)) for x in f], y) - lowest
    assert gap_of(problem, y, f) >= rise


def test_a_point_that_is_no_minimum_is_not_certified():
    problem = Problem(loss_of("logistic"), around("2-norm"))
    assert not certify(problem, vector(D), REFERENCE).is_optimal(1e-3, relative=True)


def test_the_multipliers_are_those_of_a_program():
    y = vector(D)
    problem = Problem(loss_of("exp"), around("2-norm"))
    solution = problem.solve(y)
    present = problem.at(y)
    start = present.accept(y)
    at_hand = own_ball_explanation(present, start, solution.frequencies)
    by_program = polyhedron.evidence(present, start, solution.frequencies, PROMISED).explain()
    (of_hand,) = at_hand.of_curved
    (of_program,) = by_program.of_curved
    assert float(of_hand[0]) == pytest.approx(float(of_program[0]), rel=1e-4)
    assert float(at_hand.sum_multiplier) == pytest.approx(
        float(by_program.sum_multiplier), rel=1e-4
    )
    assert at_hand.bound_multipliers == pytest.approx(by_program.bound_multipliers, abs=1e-3)


@pytest.mark.parametrize("more", [[Near(REFERENCE, 0.4, 1)], [Linear(WEIGHTS, 0.0, 1.5)]])
def test_other_sets_are_not_for_it(more):
    y = vector(D)
    present = Problem(loss_of("exp"), [*around("2-norm"), *more]).at(y)
    assert own_ball_gap(present, present.accept(y), REFERENCE, PROMISED) is None


def test_a_loss_without_a_gradient_is_not_for_it(monkeypatch):
    y = vector(D)
    present = Problem(loss_of("exp"), around("2-norm")).at(y)
    monkeypatch.setattr(module.Surroundings, "of", lambda *_: None)
    assert own_ball_gap(present, present.accept(y), REFERENCE, PROMISED) is None
    assert own_ball_explanation(present, present.accept(y), REFERENCE) is None
