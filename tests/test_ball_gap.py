"""Gaps in a ball around a reference from multipliers at hand: small at minima, never too small."""

from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Problem, certify, losses
from ldpopt.constraints import Near, NonNegative, SumsTo
from ldpopt.solve.certificate import ball_gap, polyhedron
from tests.exact_minima import fractions
from tests.test_certificate_soundness import wrong_multipliers

D = 40
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


def test_a_ball_of_the_1_norm_is_certified_without_a_program(monkeypatch):
    ball = Near(REFERENCE, 0.2, 1)
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), ball])
    point = problem.minimise(ESTIMATE)
    monkeypatch.setattr(polyhedron, "evidence", None)
    certificate = certify(problem, ESTIMATE, point)
    assert certificate.gap <= 1e-11 * certificate.scale


def dyadic(generator, d, total):
    """Return whole multiples of 2⁻²⁰ with a total of as many of them."""
    return generator.multinomial(total, np.full(d, 1 / d)) / 2**20


def distance_of(f, reference, norm, weights=None):
    """Return Σ w |f - r|, or the sum of squares, in fractions."""
    steps = [a - b for a, b in zip(fractions(f), fractions(reference), strict=True)]
    if weights is not None:
        steps = [a * b for a, b in zip(fractions(weights), steps, strict=True)]
    return sum(map(abs, steps)) if norm == 1 else sum(step**2 for step in steps)


@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize(("norm", "weighted"), [(1, False), (1, True), (2, False)])
def test_no_gap_in_a_ball_is_below_the_rise(norm, weighted, planted):
    generator = np.random.default_rng(norm)
    multiplier = ball_gap._multiplier

    def wrong(tangent, *rest, **options):
        normal, mu = multiplier(tangent, *rest, **options)
        if generator.random() < 0.5:
            return normal, np.abs(wrong_multipliers(generator, mu.shape))
        return normal + generator.normal(size=normal.shape), mu

    compared = 0
    for _ in range(60):
        d = int(generator.integers(2, 6))
        reference, f, s = (dyadic(generator, d, 2**20) for _ in range(3))
        target = generator.normal(size=d) * 10 ** generator.uniform(-2, 9)
        weights = 4.0 ** generator.integers(-6, 0, d) if weighted else None
        distance = np.linalg.norm(
            s - reference if weights is None else weights * (s - reference), norm
        )
        radius = float(generator.uniform(0.5, 2) * distance)
        # Of points outside the ball nothing is known.
        if distance_of(s, reference, norm, weights) > Fraction(radius) ** norm:
            continue
        ball = Near(reference, radius, norm, weights=weights)
        problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), ball])
        with mock.patch.object(ball_gap, "_multiplier", wrong if planted else multiplier):
            bound = ball_gap.ball_gap(problem, FrequencyEstimate(target), f)
        rise = (distance_of(f, target, 2) - distance_of(s, target, 2)) / 2
        compared += 1
        assert bound.gap == np.inf or Fraction(float(bound.gap)) >= rise
    assert compared > 20


@pytest.mark.parametrize("share", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("norm", [1, 2])
def test_a_point_on_the_way_to_the_minimum_has_at_least_its_rise(norm, share):
    ball = Near(REFERENCE, 0.1, norm)
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), ball])
    minimiser = problem.minimise(ESTIMATE)
    point = REFERENCE + share * (minimiser - REFERENCE)
    values = [problem.loss.value(f, ESTIMATE) for f in (point, minimiser)]
    bound = ball_gap.ball_gap(problem, ESTIMATE, point)
    assert bound.gap >= (values[0] - values[1]) * (1 - 1e-9)
