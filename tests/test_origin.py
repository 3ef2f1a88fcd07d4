"""Squared distances to estimates far from the set, against fractions: nothing that matters is lost.

A minimum is made from its multipliers: f̃ = f - (Eᵀp + λ)/w, all of it exact in doubles.
"""

from fractions import Fraction
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Problem, certify
from ldpopt.constraints import (
    Bounds,
    GroupTotals,
    Hierarchy,
    Linear,
    Margins,
    Monotone,
    Near,
    NonNegative,
    SumsTo,
    TopSet,
)
from ldpopt.losses import LeastSquares, WeightedLeastSquares
from ldpopt.losses.expanded import ExpandedSquares
from ldpopt.solve.certificate.prices import origin
from tests import exact_minima
from tests.tolerances import ROUNDING

SIZES = (1e8, 1e12, 1e15, -1e12)
"""Of the estimates: doubles of the largest are eighths."""

STEP = 2.0**-14
"""By how much a point is off, 6e-5: its loss is 3.7e-9 above the minimum."""

ZEROS = np.zeros(6)
SIMPLEX = [NonNegative(), SumsTo(1.0)]


class Case(NamedTuple):
    """A set with its minimum f, the prices of its rows in units of the size, and those of bounds.

    The values in ``pair`` can pass something from the second to the first.
    """

    constraints: list
    f: list
    rows: list
    prices: list
    of_bounds: list
    pair: list
    weights: list | float = 1.0


ALL = [1.0] * 6
CASES = {
    "simplex": Case(SIMPLEX, [0.5, 0.25, 0.25, 0, 0, 0], [ALL], [-1], [0, 0, 0, 0.5, 1, 2], [1, 0]),
    "box": Case(
        [Bounds(0.0, 0.5), SumsTo(1.0)],
        [0.5, 0.375, 0.125, 0, 0, 0],
        [ALL],
        [-1],
        [-1, 0, 0, 0.5, 0.125, 2],
        [1, 2],
    ),
    "plane": Case([SumsTo(1.0)], [0.5, 0.25, 0.25, -0.5, 0.75, -0.25], [ALL], [-1], ZEROS, [3, 4]),
    "weighted": Case(
        SIMPLEX,
        [0.5, 0.25, 0.25, 0, 0, 0],
        [ALL],
        [-1],
        [0, 0, 0, 0.5, 1, 2],
        [1, 0],
        [1.0, 2.0, 4.0, 1.0, 0.5, 2.0],
    ),
    "groups": Case(
        [NonNegative(), GroupTotals([[0, 1, 2], [3, 4, 5]], [0.5, 0.5])],
        [0.25, 0.25, 0, 0.375, 0.125, 0],
        [[1.0, 1, 1, 0, 0, 0], [0.0, 0, 0, 1, 1, 1]],
        [-1, -0.5],
        [0, 0, 0.5, 0, 0, 1],
        [3, 4],
    ),
    "equation": Case(
        [*SIMPLEX, Linear([[1.0, 1, 0, 0, 0, 0]], [0.5], [0.5])],
        [0.25, 0.25, 0.25, 0.25, 0, 0],
        [ALL, [1.0, 1, 0, 0, 0, 0]],
        [-1, 0.5],
        [0, 0, 0, 0, 0.5, 1],
        [3, 2],
    ),
    "idle row": Case(
        [*SIMPLEX, Linear([[1.0, -2, 0, 0, 1, 0]], [-1.0], [1.0])],
        [0.5, 0.25, 0.25, 0, 0, 0],
        [ALL],
        [-1],
        [0, 0, 0, 0.5, 1, 2],
        [1, 0],
    ),
    "chain": Case(
        [*SIMPLEX, Monotone(np.arange(6))],
        [0.5, 0.25, 0.25, 0, 0, 0],
        [ALL],
        [-1],
        [0, 0, 0, 0.5, 1, 2],
        [0, 2],
    ),
    "idle ball": Case(
        [*SIMPLEX, Near(np.full(6, 1 / 6), 1.5, 2)],
        [0.5, 0.25, 0.25, 0, 0, 0],
        [ALL],
        [-1],
        [0, 0, 0, 0.5, 1, 2],
        [1, 0],
    ),
    "hierarchy": Case(
        [NonNegative(), Hierarchy([-1, 0, 0, 1, 1, 2], total=1.0)],
        [1, 0.5, 0.5, 0.25, 0.25, 0.5],
        [[1.0, 0, 0, 0, 0, 0], [-1.0, 1, 1, 0, 0, 0], [0.0, -1, 0, 1, 1, 0], [0, 0, -1.0, 0, 0, 1]],
        [-1, -0.75, -0.5, -0.25],
        ZEROS,
        [3, 4],
    ),
    "margins": Case(
        [NonNegative(), Margins((2, 3), 0, [0.5, 0.5])],
        [0.25, 0.25, 0, 0.375, 0.125, 0],
        [[1.0, 1, 1, 0, 0, 0], [0.0, 0, 0, 1, 1, 1]],
        [-1, 0.5],
        [0, 0, 0.5, 0, 0, 1],
        [0, 1],
    ),
}


def problem_and_estimate(case, size):
    f = np.array(case.f, dtype=float)
    slope = np.array(case.rows).T @ (size * np.array(case.prices)) + np.array(case.of_bounds)
    target = f - slope / case.weights
    # The minimum is what it is made to be only if no digit is lost.
    w = exact_minima.fractions(np.broadcast_to(case.weights, 6))
    exact = [a * (x - t) for a, x, t in zip(w, fractions(f), fractions(target), strict=True)]
    assert exact == fractions(slope)
    loss = LeastSquares() if np.ndim(case.weights) == 0 else WeightedLeastSquares(case.weights)
    return Problem(loss, case.constraints), target, f


def fractions(numbers):
    return exact_minima.fractions(numbers)


def rise_above(case, target, f, point):
    """Return L(point) - L(f) in fractions."""
    weights = fractions(np.broadcast_to(case.weights, 6))
    columns = (weights, *map(fractions, (target, f, point)))
    return sum(w * (x - s) * (x + s - 2 * t) for w, t, s, x in zip(*columns, strict=True)) / 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_the_minimum_is_certified_and_a_point_beside_it_is_not(name, size):
    case = CASES[name]
    problem, target, f = problem_and_estimate(case, size)
    beside = f.copy()
    beside[case.pair] += [STEP, -STEP]
    rise = rise_above(case, target, f, beside)
    certificate = certify(problem, np.array([target, beside]), np.array([f, beside]))
    assert certificate.gap[0] <= 1e-12
    certificate = certify(problem, target, f)
    assert certificate.is_optimal(1e-12)
    certificate = certify(problem, target, beside)
    assert rise > Fraction(1, 10**9)
    assert Fraction(float(certificate.gap)) >= rise
    assert not certificate.is_optimal(1e-9)
    assert certificate.gap <= 2 * float(rise) + ROUNDING


def test_a_total_that_is_missed_by_its_last_bit_is_charged_with_its_price():
    problem, target, f = problem_and_estimate(CASES["simplex"], 1e12)
    below = f.copy()
    above = f.copy()
    below[0] = np.nextafter(f[0], 0)
    above[0] = np.nextafter(f[0], 1)
    gaps = certify(problem, np.tile(target, (3, 1)), np.array([f, below, above])).gap
    missed = float(rise_above(CASES["simplex"], target, f, below))
    assert missed > 5e-5
    assert gaps == pytest.approx([0.0, missed, 0.0], rel=1e-9, abs=1e-12)


LONG = 4096
LONG_SETS = {
    "simplex": SIMPLEX,
    "groups": [NonNegative(), GroupTotals(np.arange(LONG).reshape(4, -1), [0.5, 0.5, 0, 0])],
    "chain": [*SIMPLEX, Monotone(np.arange(LONG))],
    "top set": [*SIMPLEX, TopSet(np.arange(10))],
}


@pytest.mark.parametrize("name", LONG_SETS)
def test_long_vectors_are_certified_without_a_program(name, monkeypatch):
    monkeypatch.setattr("ldpopt.solve.certificate.polyhedra.polyhedron.evidence", None)
    f = np.where(np.arange(LONG) < LONG // 2, 2 / LONG, 0.0)
    target = f + 1e12 - (f == 0)
    assert np.all(target - 1e12 == f - (f == 0))
    certificate = certify(Problem(LeastSquares(), LONG_SETS[name]), target, f)
    assert certificate.is_optimal(1e-12)


def far_programs(generator, d):
    """Yield hostile squares on boxes with a total, far away, and points of the set and beside it.

    Some values of an estimate are far, or all are, with digits or without.
    """
    while True:
        size = float(generator.choice([-1, 1])) * 10 ** generator.uniform(4, 18)
        target = generator.normal(size=d)
        is_far = generator.random(d) < generator.choice([0.5, 1.0])
        target = np.where(is_far, size + target * generator.choice([1.0, size / 10]), target)
        weights = np.ones(d) if generator.random() < 0.5 else 10 ** generator.uniform(-2, 2, d)
        upper = np.full(d, generator.choice([1.0, 0.5]))
        reference = exact_minima.Quadratic.of(weights, target, np.zeros(d), upper, 1.0)
        minimiser = exact_minima.as_doubles(reference.minimiser)
        points = np.tile(minimiser, (6, 1))
        # Off the total by bits, within the set, and outside of it.
        points[1] *= 1 + 2.0**-52
        points[2] *= 1 - 2.0**-52
        step = min(points[3].max(), 2.0 ** -generator.integers(2, 40))
        points[3, points[3].argmax()] -= step
        points[3, generator.integers(d)] += step
        points[4] = generator.dirichlet(np.ones(d))
        points[5] += generator.normal(size=d) * 1e-10
        yield weights, target, upper, points, reference


def test_no_point_is_nearer_to_the_minimum_than_its_gap_says(monkeypatch):
    rng = np.random.default_rng(11)
    restated = []
    find = origin.restated

    def counted(*args):
        result = find(*args)
        restated.extend(result.excess)
        return result

    monkeypatch.setattr("ldpopt.solve.certificate.certificate.restated", counted)
    smallest = []
    for _, (weights, target, upper, points, reference) in zip(
        range(150), far_programs(rng, 5), strict=False
    ):
        loss = LeastSquares() if np.all(weights == 1) else WeightedLeastSquares(weights)
        problem = Problem(loss, [Bounds(0.0, upper), SumsTo(1.0)])
        gaps = certify(problem, np.tile(target, (len(points), 1)), points).gap
        rises = [reference.rise(point) for point in points]
        assert all(Fraction(float(g)) >= r for g, r in zip(gaps, rises, strict=True))
        smallest.append(gaps[0] <= 1e-9 + 1.1 * max(float(rises[0]), 0.0))
    # Most points are restated, and hardly a gap is more than the point's own distance.
    assert len(restated) > 300
    assert np.mean(smallest) > 0.95


@pytest.mark.parametrize("at_once", [1, 12, 1_000])
def test_trials_of_a_stack_have_the_gaps_that_each_has_by_itself(at_once, monkeypatch):
    """One by one, two at a time, and all together."""
    monkeypatch.setattr("ldpopt.solve.certificate.certificate._AT_ONCE", at_once)
    rng = np.random.default_rng(15)
    problem = Problem(LeastSquares(), SIMPLEX)
    # Some are so far off that they have another origin, and some are not.
    targets = rng.normal(size=(4, 3, 6)) * 10 ** rng.uniform(-1, 17, (4, 3, 1))
    points = problem.minimise(targets)
    gaps = certify(problem, targets, points).gap
    assert gaps.shape == (4, 3)
    for trial in np.ndindex(4, 3):
        alone = certify(problem, targets[trial], points[trial]).gap
        assert gaps[trial] == pytest.approx(alone, rel=0, abs=ROUNDING)
    # Doubles of 1e17 are 16 apart.
    assert np.all(gaps <= 1e-9)


def test_a_trial_whose_numbers_are_lost_has_no_origin_and_the_others_have_theirs():
    f = np.array([0.5, 0.25, 0.25])
    # Times a weight of 1e160 the second estimate is beyond the doubles.
    targets = np.array([[1e12, 1e12, 1e12], [1e160, 1e160, 1e160]])
    problem = Problem(WeightedLeastSquares(np.full(3, 1e160)), SIMPLEX)
    equations = origin.equations_of(problem, 3)
    prices = np.full((2, 1), -1e172)
    both = origin.restated(
        problem, FrequencyEstimate(targets), np.tile(f, (2, 1)), equations, prices
    )
    alone = origin.restated(problem, FrequencyEstimate(targets[0]), f, equations, prices[0])
    assert both.excess.tolist() == [float(alone.excess), np.inf]
    assert both.loss.slope[0].tolist() == alone.loss.slope.tolist()
    assert np.abs(alone.loss.slope).max() > 0


def test_groups_that_are_missed_are_charged_with_the_price_of_each():
    rng = np.random.default_rng(12)
    groups = ([0, 1, 2], [3, 4, 5])
    problem = Problem(LeastSquares(), [NonNegative(), GroupTotals(groups, [0.25, 0.75])])
    for _ in range(40):
        target = rng.normal(size=6) * 10 ** rng.uniform(3, 17)
        parts = [
            exact_minima.Quadratic.of(np.ones(3), target[g], np.zeros(3), np.ones(3), total)
            for g, total in zip(groups, [0.25, 0.75], strict=True)
        ]
        f = np.concatenate([exact_minima.as_doubles(part.minimiser) for part in parts])
        points = np.array([f, f * (1 + 2.0**-52), f * (1 - 2.0**-52), np.full(6, 1 / 6)])
        gaps = certify(problem, np.tile(target, (4, 1)), points).gap
        for gap, point in zip(gaps, points, strict=True):
            rise = sum(part.rise(point[g]) for part, g in zip(parts, groups, strict=True))
            assert Fraction(float(gap)) >= rise


def test_estimates_of_the_size_of_frequencies_have_no_other_origin(monkeypatch):
    monkeypatch.setattr(origin, "column_totals", None)
    problem = Problem(LeastSquares(), SIMPLEX)
    target = np.random.default_rng(13).normal(size=50)
    assert certify(problem, target, problem.minimise(target)).is_optimal(1e-12)


@pytest.mark.parametrize("total", [1e-200, 1e160, 1e300])
def test_totals_whose_squares_leave_the_doubles_are_no_error(total):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(total)])
    certificate = certify(problem, np.array([0.5, 0.75]) * total, np.array([0.25, 0.75]) * total)
    assert not certificate.is_optimal(1e-9, relative=True)


def test_expanded_squares_are_the_squares_but_for_a_constant():
    f, centre, target, weights = np.random.default_rng(14).random((4, 5))
    estimate = FrequencyEstimate(target)
    squares = WeightedLeastSquares(weights)
    loss = ExpandedSquares(centre, squares.gradient(centre, estimate), np.zeros(5), weights)
    rise = squares.value(f, estimate) - squares.value(centre, estimate)
    assert loss.value(f, estimate) == pytest.approx(rise, rel=0, abs=ROUNDING)
    assert loss.gradient(f, estimate) == pytest.approx(
        squares.gradient(f, estimate), rel=0, abs=ROUNDING
    )
    form, cones = loss.cone_form(cp.Constant(f), loss.data(estimate), ())
    assert not cones
    assert form.value == pytest.approx(rise, rel=0, abs=ROUNDING)
