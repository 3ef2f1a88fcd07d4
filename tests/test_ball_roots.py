"""Balls whose multipliers are found at once: as by the search, certified, at every radius."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, closed_form, losses, oracles
from ldpopt.closed_form.ball_kernels import deviation_rows, divergence_rows
from ldpopt.constraints import Bounds, Near, NonNegative, SumsTo
from ldpopt.solve.acceptance.judge import size_of
from ldpopt.solve.paths.closed_forms import ball_roots, balls
from tests.tolerances import SUM

D = 12
RNG = np.random.default_rng(7)
REFERENCE = RNG.dirichlet(np.ones(D))
SIMPLEX = [NonNegative(), SumsTo(1.0)]
WEIGHTED = losses.WeightedLeastSquares(1.0 + np.arange(D))
ORACLE = oracles.OUE(1.0, D)
# The first trial is inside the larger balls; ties, and one dominant value.
STARTS = np.stack(
    [
        REFERENCE + RNG.normal(0, 0.01, D),
        REFERENCE + RNG.normal(0, 0.1, D),
        np.full(D, 0.25),
        np.where(np.arange(D) == 3, 2.0, -0.5),
    ]
)
OUTSIDE = np.where(np.arange(D) == 2, -0.1, REFERENCE)

PROBLEMS = {
    "simplex": (losses.LeastSquares(), [*SIMPLEX, Near(REFERENCE, 0.2, 1)]),
    "weights": (WEIGHTED, [*SIMPLEX, Near(REFERENCE, 0.2, 1)]),
    "own bounds": (
        losses.LeastSquares(),
        [Bounds(0.01, np.linspace(0.1, 0.3, D)), SumsTo(1.0), Near(REFERENCE, 0.6, 1)],
    ),
    "no bounds": (losses.LeastSquares(), [SumsTo(0.7), Near(REFERENCE, 0.6, 1)]),
    "reference outside": (losses.LeastSquares(), [*SIMPLEX, Near(OUTSIDE, 0.4, 1)]),
    "likelihood": (losses.GaussianMLE(), [*SIMPLEX, Near(REFERENCE, 0.2, 1)]),
    "sum": (losses.LeastSquares() + 0.1 * losses.Entropy(), [*SIMPLEX, Near(REFERENCE, 0.2, 1)]),
    "weighted deviations": (
        losses.LeastSquares(),
        [*SIMPLEX, Near(REFERENCE, 0.3, 1, weights=1.0 + np.arange(D) % 5)],
    ),
    "weighted deviations, weights, own bounds": (
        WEIGHTED,
        [
            Bounds(0.01, np.linspace(0.1, 0.3, D)),
            SumsTo(1.0),
            Near(REFERENCE, 1.5, 1, weights=np.linspace(3.0, 0.5, D)),
        ],
    ),
    "divergence": (losses.LeastSquares(), [*SIMPLEX, Near(REFERENCE, 0.02, "kl")]),
    "divergence, weights": (WEIGHTED, [SumsTo(0.9), Near(REFERENCE, 0.1, "kl")]),
}


def assert_certified(solution, violation):
    certificate = solution.certificate
    points = solution.frequencies
    size = size_of(solution.problem, solution.estimate, points, solution.objective)
    assert np.max(certificate.gap / size) <= 1e-9
    assert np.max(certificate.violation) <= violation


@pytest.mark.parametrize("name", PROBLEMS)
def test_both_multipliers_at_once_are_those_of_the_search(name, monkeypatch):
    loss, constraints = PROBLEMS[name]
    problem = Problem(loss, constraints)
    # Weights of the Gaussian likelihood must be positive, so its starts are the first two.
    starts = STARTS[:2] if name == "likelihood" else STARTS
    estimate = FrequencyEstimate(starts, 4_000, ORACLE)
    solution = problem.solve(estimate)
    assert "two" in solution.solver
    assert_certified(solution, SUM)
    if "divergence" in name:
        # The search in two levels takes a second for each, and the certificate needs none of it.
        return
    monkeypatch.setattr(balls, "ball_roots", lambda *_: None)
    searched = problem.solve(estimate)
    assert "two" not in searched.solver
    assert_allclose(solution.frequencies, searched.frequencies, atol=1e-7)


@pytest.mark.parametrize("norm", [1, "kl"])
@pytest.mark.parametrize("radius", [0.0, 1e-8, 1e-4, 1.9])
def test_any_radius_is_certified(norm, radius):
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, Near(REFERENCE, radius, norm)])
    estimate = FrequencyEstimate(STARTS)
    solution = problem.solve(estimate)
    assert_certified(solution, 1e-9)


@pytest.mark.parametrize("radius", [1e-8, 0.3])
@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_weighted_deviations_are_certified_at_any_radius(radius, spread):
    weights = np.geomspace(1 / spread, spread, D)[RNG.permutation(D)]
    ball = Near(REFERENCE, radius * float(weights @ REFERENCE), 1, weights=weights)
    # The rest of the simplex is deepest in the ball at the reference; where the caps cut it off, at
    # the values of the smallest weights.
    counts = np.round(4_000 * np.clip(STARTS, 0.05, 0.9))
    capped = [Bounds(0.0, 0.9 * REFERENCE + 0.05), SumsTo(1.0)]
    for first, others in enumerate((SIMPLEX, capped)):
        for loss in (losses.LeastSquares(), WEIGHTED, losses.BinomialMLE()):
            # Each trial of the likelihood is a search: two on one set, two on the other.
            some = slice(None) if loss.separable.is_square else slice(first, None, 2)
            estimate = ORACLE.estimate(counts[some], 4_000)
            solution = Problem(loss, [*others, ball]).solve(estimate)
            # Squares take both multipliers at once, unless no point of the box is in the ball.
            assert solution.solver.startswith("ball, ")
            assert ("two" in solution.solver) == (loss.separable.is_square)
            assert_certified(solution, 1e-9)


def test_the_smallest_weights_take_what_is_missing():
    deepest = Problem(
        losses.L1To([0.5, 0.3, 0.1], weights=[3.0, 1.0, 2.0]), [Bounds(0.0, 0.35), SumsTo(0.9)]
    ).solve([0.4, 0.3, 0.3])
    # 0.35 is the cap of the first two; the third takes the rest.
    assert_allclose(deepest.frequencies, [0.35, 0.35, 0.2], atol=SUM)
    assert deepest.objective == pytest.approx(3 * 0.15 + 0.05 + 2 * 0.1)
    assert deepest.certificate.is_optimal(1e-9)


def test_of_many_weights_only_the_smallest_are_sorted():
    d = 5_000
    weights = RNG.integers(1, 50, d) / 7
    for total in (1.05, 40.0, 2_400.0):
        moved = closed_form.weighted_deviations(
            np.full(d, 1 / d), weights, np.zeros(d), np.full(d, 0.5), total
        )
        # All of them, one after the other.
        expected = np.full(d, 1 / d)
        left = total - 1.0
        for v in np.argsort(weights, kind="stable"):
            step = min(left, 0.5 - 1 / d)
            expected[v] += step
            left -= step
        assert_allclose(moved, expected, atol=1e-10)


def test_deviations_that_a_sample_misses_are_found():
    """Every second value is looked at first; all that pulls is between them."""
    d = 1 << 17
    reference = np.full(d, 1 / d)
    row = reference + np.random.default_rng(5).normal(0, 1e-3 / d, d)
    row[1:41:2] += np.linspace(0.01, 0.05, 20)
    costs = 1.0 + np.arange(d) % 3
    f = np.empty((1, d))
    ends = np.zeros(d), np.full(d, np.inf)
    weights = np.ones(d)
    assert deviation_rows(row[None], weights, reference, costs, *ends, 1.0, 0.2, f).all()
    (f,) = f
    assert_allclose(f.sum(), 1.0, atol=1e-12)
    assert_allclose(costs @ np.abs(f - reference), 0.2, atol=1e-12)
    # What is above its reference pays μ + λ k, and nothing else would rise by moving.
    risen = np.flatnonzero((f - reference > 1e-6) & (f > 0))
    pull = row - f
    system = np.stack([np.ones(len(risen)), costs[risen]], axis=1)
    (mu, price), *_ = np.linalg.lstsq(system, pull[risen], rcond=None)
    assert price > 0
    assert_allclose(system @ [mu, price], pull[risen], atol=1e-10)
    staying = (f == reference) & (f > 0)
    assert np.all(np.abs(pull - mu)[staying] <= price * costs[staying] + 1e-10)


def test_long_vectors_start_from_a_sample():
    """What a sample suggests is a start alone: values that it misses may be most of the mass."""
    d = 1 << 15
    reference = np.full(d, 0.5 / d)
    # No multiple of the sample's stride: the sample sees none of them.
    reference[1:6] = 0.1
    start = reference + RNG.normal(0, 1 / d, d)
    start[2] += 0.2
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, Near(reference, 0.02, "kl")])
    solution = problem.solve(start)
    assert solution.solver == "ball, two multipliers"
    assert problem.constraints[-1].violation(solution.frequencies) <= 1e-12
    f = solution.frequencies
    mu, price = np.linalg.lstsq(
        np.stack([np.ones(d), np.log(f / reference)], axis=1), start - f, rcond=None
    )[0]
    assert price > 0
    assert_allclose(f + mu + price * np.log(f / reference), start, atol=1e-9)


def test_noise_that_hides_the_frequencies_leaves_the_steps_on_course():
    """A share of a whole step that keeps the price positive ends far from the answer here."""
    d = 1 << 15
    reference = 1 / np.arange(1.0, d + 1)
    reference /= reference.sum()
    rows = reference + 0.02 * np.random.default_rng(3).standard_normal((1, d))
    f = np.empty_like(rows)
    assert divergence_rows(rows, np.ones(d), reference, 1.0, 0.05, f).all()
    assert_allclose(f.sum(), 1.0, atol=1e-12)
    assert abs(Near(reference, 0.05, "kl").violation(f[0])) <= 1e-12


@pytest.mark.parametrize("norm", [1, 2])
def test_a_likelihood_that_only_the_ball_holds_has_a_minimum(norm):
    raw = oracles.GRR(1.0, 6).estimate([300, 280, 150, 120, 90, 60], 1_000)
    ball = Near(np.full(6, 1 / 6), 0.2, norm)
    for more in ([], [NonNegative()]):
        solution = Problem(losses.MultinomialMLE(), [*more, ball]).solve(raw)
        assert solution.status == "optimal"
        assert solution.certificate.is_optimal(1e-8)
        # Without a total the likelihood rises to the edge of the ball.
        reached = np.linalg.norm(solution.frequencies - 1 / 6, norm)
        assert reached == pytest.approx(0.2)


def test_a_ball_that_no_point_of_the_total_is_in_solves_no_trial_of_a_stack():
    ball = Near([0.1, 0.1, 0.1, 0.1], 0.3, 1).ball
    rest = Problem(losses.BinomialMLE(), [NonNegative(), SumsTo(1.0)])
    estimate = oracles.OUE(1.0, 4).estimate([[9, 8, 7, 6], [9, 5, 7, 2]], 20)
    _, is_solved = ball_roots._of_deviations(rest, ball, estimate)
    assert is_solved.tolist() == [False, False]
