"""Exact certificates: against enumeration in fractions, planted errors, and what is refused."""

import itertools
import math
import sys
from dataclasses import FrozenInstanceError
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.testing import assert_allclose

import ldpopt
from ldpopt import losses
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Hierarchy,
    Linear,
    Monotone,
    Near,
    NonNegative,
    SumsTo,
)
from ldpopt.errors import UnsupportedProblemError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.oracles import GRR, OUE, SUE
from ldpopt.solve.certificate.exact import box as exact_box
from ldpopt.solve.certificate.exact import enclosed_price, exact_price, likelihoods
from ldpopt.solve.certificate.exact import rows as exact_rows
from ldpopt.solve.certificate.exact.enclosures import enclosure
from ldpopt.solve.certificate.exact.rationals import integers, rounded_up
from tests import reference
from tests.tolerances import EPS

SIMPLEX = [NonNegative(), SumsTo(1.0)]
CLS = ldpopt.Problem(losses.LeastSquares(), SIMPLEX)


def certified(problem, estimate, f):
    return ldpopt.certify(problem, estimate, f, exact=True)


def fractions(values):
    return [Fraction(float(value)) for value in values]


def rounded(value):
    """The smallest double that is not below a fraction, another way than the library's."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else float(np.nextafter(nearest, np.inf))


def assert_proved(result, loss, minimiser, point):
    """The certificate's numbers are those of a minimiser in fractions, rounded up."""
    point = fractions(point)
    distance = max(abs(x - y) for x, y in zip(point, minimiser, strict=True))
    assert result.minimiser.tolist() == [float(value) for value in minimiser]
    assert float(result.distance) == rounded(distance)
    unit = Fraction(math.ulp(max(abs(float(value)) for value in minimiser)))
    assert float(result.ulps) == rounded(distance / unit)
    assert result.reason == ""
    rise = loss(point) - loss(minimiser)
    # Sums of different denominators are proved with guard digits, all others exactly.
    assert Fraction(float(result.gap)) >= rise
    assert float(result.gap) <= max(float(rise) * (1 + 1e-15), 1e-50)


def smallest(loss, candidates):
    return min(candidates, key=loss)


def box_minimiser(loss, target, spread, growth, lower, upper, total):
    """The best of the feasible stationary points of all 3^d choices of sides.

    With r = (f - f̃)/(s + b f) the same for all free values, f = (f̃ + s r)/(1 - b r).
    """
    candidates = []
    for sides in itertools.product((-1, 0, 1), repeat=len(target)):
        bounds = {-1: lower, 1: upper}
        f = [bounds[side][v] if side else None for v, side in enumerate(sides)]
        if any(side and not math.isfinite(bounds[side][v]) for v, side in enumerate(sides)):
            continue
        f = [None if value is None else Fraction(value) for value in f]
        free = [v for v, value in enumerate(f) if value is None]
        r = Fraction(0)
        if total is not None:
            rest = Fraction(total) - sum(value for value in f if value is not None)
            divisor = sum(spread[v] for v in free) + growth * rest
            if divisor == 0:
                continue
            r = (rest - sum(target[v] for v in free)) / divisor
        if growth * r >= 1:
            continue
        for v in free:
            f[v] = (target[v] + spread[v] * r) / (1 - growth * r)
        inside = all(low <= x <= high for low, x, high in zip(lower, f, upper, strict=True))
        if inside and (total is None or sum(f) == Fraction(total)):
            candidates.append(f)
    return smallest(loss, candidates)


def squares(target, weights):
    def loss(f):
        terms = zip(weights, f, target, strict=True)
        return sum((w * (x - y) ** 2 for w, x, y in terms), Fraction(0)) / 2

    return loss


def gaussian(target, a, b):
    def loss(f):
        return sum(((x - y) ** 2 / (s + b * x) for x, y, s in zip(f, target, a, strict=True)))

    return loss


BOXES = [
    (SIMPLEX, 0.0, np.inf, 1.0),
    ([NonNegative()], 0.0, np.inf, None),
    ([SumsTo(0.7)], -np.inf, np.inf, 0.7),
    ([Bounds(0.05, 0.4), SumsTo(1.0)], 0.05, 0.4, 1.0),
    ([Bounds(-0.3, 0.5)], -0.3, 0.5, None),
]
"""Constraints with their bounds and their total."""


@pytest.mark.parametrize("box", BOXES, ids=range(len(BOXES)))
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("d", [3, 5])
def test_squares_on_boxes_are_those_of_all_choices_of_sides(box, is_weighted, d):
    constraints, low, high, total = box
    rng = np.random.default_rng(d)
    for _ in range(4):
        target = rng.normal(0.2, 0.4, d)
        weights = rng.uniform(0.1, 9.0, d) if is_weighted else np.ones(d)
        loss = losses.WeightedLeastSquares(weights) if is_weighted else losses.LeastSquares()
        exact_loss = squares(fractions(target), fractions(weights))
        inverse = [1 / weight for weight in fractions(weights)]
        bounds = [low] * d, [high] * d
        minimiser = box_minimiser(exact_loss, fractions(target), inverse, 0, *bounds, total)
        problem = ldpopt.Problem(loss, constraints)
        for point in (problem.solve(target).frequencies, rng.normal(0.2, 0.3, d)):
            assert_proved(certified(problem, target, point), exact_loss, minimiser, point)


@pytest.mark.parametrize("box", BOXES[:4], ids=range(4))
@pytest.mark.parametrize("oracle", [OUE(1.0, 4), GRR(1.0, 4), SUE(3.0, 4), OUE(0.2, 4)])
def test_weighted_mle_on_boxes_is_that_of_all_choices_of_sides(box, oracle):
    constraints, low, high, total = box
    rng = np.random.default_rng(3)
    for _ in range(2):
        counts = oracle.simulate_counts(rng.multinomial(300, [0.7, 0.2, 0.1, 0.0]), rng)
        estimate = oracle.estimate(counts, 300)
        target = fractions(estimate.frequencies)
        a = [Fraction(float(oracle.a))] * 4
        b = Fraction(float(oracle.b))
        exact_loss = gaussian(target, a, b)
        minimiser = box_minimiser(exact_loss, target, a, b, [low] * 4, [high] * 4, total)
        problem = ldpopt.Problem(losses.GaussianMLE(), constraints)
        # A point of Dirichlet is far away from the minimiser, but within every domain.
        for point in (problem.solve(estimate).frequencies, rng.dirichlet(np.ones(4))):
            assert_proved(certified(problem, estimate, point), exact_loss, minimiser, point)


def test_variances_by_hand_that_differ_are_weights():
    variances = [0.5, 0.01, 0.25, 0.1]
    target = [0.7, 0.3, -0.4, 0.2]
    estimate = FrequencyEstimate(target, noise=Noise(variances))
    a = fractions(variances)
    exact_loss = gaussian(fractions(target), a, Fraction(0))
    bounds = [0.0] * 4, [np.inf] * 4
    minimiser = box_minimiser(exact_loss, fractions(target), a, Fraction(0), *bounds, 1)
    problem = ldpopt.Problem(losses.GaussianMLE(), SIMPLEX)
    point = problem.solve(estimate).frequencies
    assert_proved(certified(problem, estimate, point), exact_loss, minimiser, point)
    growing = FrequencyEstimate(target, noise=Noise(variances, [0.1, 0.2, 0.3, 0.4]))
    refused = exact_box.exact(problem, growing, point, problem.region(4))
    assert refused.gap == np.inf
    assert "irrational" in refused.reason


@pytest.mark.parametrize("box", BOXES, ids=range(len(BOXES)))
def test_the_search_finds_what_the_repair_finds(box, monkeypatch):
    constraints, *_ = box
    rng = np.random.default_rng(8)
    weights = [1.0, 3.0, 0.1, 2.0, 7.0, 1.0]
    oracle = OUE(1.0, 6)
    estimate = oracle.estimate(oracle.simulate_counts([500, 100, 60, 20, 9, 2], rng), 691)
    point = rng.dirichlet(np.ones(6))
    kinds = (losses.LeastSquares(), losses.WeightedLeastSquares(weights), losses.GaussianMLE())
    for loss in kinds:
        problem = ldpopt.Problem(loss, constraints)
        repaired = certified(problem, estimate, point)
        with monkeypatch.context() as patch:
            patch.setattr(exact_price, "_ROUNDS", 0)
            searched = certified(problem, estimate, point)
        assert searched.minimiser.tolist() == repaired.minimiser.tolist()
        assert searched.gap == repaired.gap


@pytest.mark.parametrize(("slope", "low", "high"), [(-0.9, 0.0, 1.2), (50.0, -0.3, 0.6)])
def test_bounds_beyond_the_place_where_the_variance_vanishes(slope, low, high, monkeypatch):
    target = [1.05, 0.3, 0.05, 0.0]
    estimate = FrequencyEstimate(target, noise=Noise(1.0, slope))
    a = [Fraction(1)] * 4
    b = Fraction(slope)
    exact_loss = gaussian(fractions(target), a, b)

    def loss(f):
        is_inside = all(1 + b * value > 0 for value in f)
        return exact_loss(f) if is_inside else Fraction(10**9)

    for total in (1.0, 0.2, 2.0):
        problem = ldpopt.Problem(losses.GaussianMLE(), [Bounds(low, high), SumsTo(total)])
        bounds = [low] * 4, [high] * 4
        minimiser = box_minimiser(loss, fractions(target), a, b, *bounds, total)
        # The sides that these points suggest are wrong.
        for point in ([0.25] * 4, [0.0, 0.0, 0.5, 0.5], [0.6, 0.0, 0.0, 0.0]):
            for rounds in (12, 0):
                monkeypatch.setattr(exact_price, "_ROUNDS", rounds)
                result = certified(problem, estimate, point)
                assert_proved(result, exact_loss, minimiser, point)


def test_few_guard_digits_round_upwards(monkeypatch):
    oracle = OUE(1.0, 4)
    counts = oracle.simulate_counts([70, 20, 9, 1], 3)
    estimate = oracle.estimate(counts, 100)
    a = [Fraction(float(oracle.a))] * 4
    b = Fraction(float(oracle.b))
    loss = gaussian(fractions(estimate.frequencies), a, b)
    bounds = [0.0] * 4, [np.inf] * 4
    minimiser = box_minimiser(loss, fractions(estimate.frequencies), a, b, *bounds, 1)
    problem = ldpopt.Problem(losses.GaussianMLE(), SIMPLEX)
    f = problem.solve(estimate).frequencies
    monkeypatch.setattr(exact_box, "_GUARD", -80)
    rng = np.random.default_rng(2)
    for _ in range(10):
        point = f + 1e-9 * rng.normal(size=4)
        rise = loss(fractions(point)) - loss(minimiser)
        assert Fraction(float(certified(problem, estimate, point).gap)) >= rise


def test_one_last_place_is_seen():
    target = [0.5, 0.25, -0.125]
    right = np.array([0.625, 0.375, 0.0])
    assert certified(CLS, target, right).distance == 0
    for v, step in itertools.product(range(3), (-1, 1)):
        wrong = right.copy()
        wrong[v] = np.nextafter(wrong[v], step * np.inf)
        planted = abs(wrong[v] - right[v])
        result = certified(CLS, target, wrong)
        assert result.distance == planted
        assert result.ulps == rounded(Fraction(planted) / Fraction(math.ulp(0.625)))
        assert result.violation == planted
        assert result.minimiser.tolist() == right.tolist()


def test_gap_of_a_last_place_is_not_lost():
    # On the line the loss rises by ½ (2 δ²), with δ = 2^-53 about 1e-32.
    target = [0.5, 0.5]
    wrong = [0.5 + 2.0**-53, 0.5 - 2.0**-53]
    wrong[0] = 0.5 + 2.0**-52
    wrong[1] = 0.5 - 2.0**-52
    result = certified(CLS, target, wrong)
    assert result.violation == 0
    assert result.gap == 2.0**-104


def test_ties():
    # The second and third value meet 0 exactly; in the second case all values are equal.
    for target, minimiser in (
        ([1.5, 0.5, 0.5, -1.0], [1.0, 0.0, 0.0, 0.0]),
        ([0.125] * 4, [0.25] * 4),
        ([2.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]),
    ):
        for point in (minimiser, [0.0, 0.0, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0]):
            result = certified(CLS, target, point)
            assert result.minimiser.tolist() == minimiser
            assert result.distance == max(abs(np.subtract(point, minimiser)))


def test_all_values_at_their_bounds():
    # The total is the sum of the lower bounds: no value is free.
    for bounds, total in (((0.25, 0.5), 1.0), ((0.0, 0.25), 1.0)):
        problem = ldpopt.Problem(losses.LeastSquares(), [Bounds(*bounds), SumsTo(total)])
        result = certified(problem, [0.9, 0.1, -0.3, 0.2], [0.25] * 4)
        assert (result.gap, result.distance, result.violation) == (0, 0, 0)
        assert result.reason == ""


def test_a_set_that_rounding_empties():
    # 0.1 · 10 is above 1 by the error of the double 0.1.
    problem = ldpopt.Problem(losses.LeastSquares(), [Bounds(0.1, 1.0), SumsTo(1.0)])
    result = certified(problem, np.zeros(10), np.full(10, 0.1))
    assert result.gap == np.inf
    assert result.minimiser is None
    assert "exactly this total" in result.reason
    assert not result.is_optimal(1.0)


@pytest.mark.parametrize(
    "target",
    [
        [1e300, -1e300, 1e-300, 5e-324],
        [1e16, 1e16, 3.0, -1.0],
        [5e-324, 0.0, -5e-324, 1e-310],
        [1.0, 1.0 - 2.0**-53, 1e-17, -1e-17],
    ],
)
def test_huge_and_tiny_numbers(target):
    minimiser = reference.norm_sub(target)
    point = [0.75, 0.25, 0.0, 0.0]
    result = certified(CLS, target, point)
    assert_proved(result, squares(fractions(target), [Fraction(1)] * 4), minimiser, point)


def test_huge_totals_and_weights():
    problem = ldpopt.Problem(
        losses.WeightedLeastSquares([1e300, 1e-300, 1.0]), [NonNegative(), SumsTo(1e20)]
    )
    target = fractions([1e20, 3.0, -2.0])
    weights = fractions([1e300, 1e-300, 1.0])
    exact_loss = squares(target, weights)
    inverse = [1 / weight for weight in weights]
    bounds = [0.0] * 3, [np.inf] * 3
    minimiser = box_minimiser(exact_loss, target, inverse, 0, *bounds, 1e20)
    point = [1e20, 0.0, 0.0]
    assert_proved(certified(problem, [1e20, 3.0, -2.0], point), exact_loss, minimiser, point)


def test_points_outside_the_set_say_so():
    estimate = [0.75, 0.25]
    outside = certified(CLS, estimate, [0.75, 0.5])
    assert outside.violation == 0.25
    assert outside.gap == 2.0**-5
    assert not outside.is_optimal(0.2)
    assert outside.is_optimal(0.25)
    # Nearer to the estimate than every vector of the set: the gap is 0 and not negative.
    below = certified(CLS, [1.0, 1.0], [1.0, 1.0])
    assert below.gap == 0
    assert below.violation == 1.0
    negative = certified(CLS, [1.0, -1.0], [1.25, -0.25])
    assert negative.violation == 0.25
    # The sum of ten times the double 0.1 is above 1 by less than half a last place.
    tenths = certified(CLS, np.full(10, 0.1), np.full(10, 0.1))
    assert tenths.violation == rounded(10 * Fraction(0.1) - 1)


def test_points_outside_the_domain_have_no_gap():
    oracle = GRR(1.0, 3)
    estimate = oracle.estimate([60, 30, 10], 100)
    problem = ldpopt.Problem(losses.GaussianMLE(), SIMPLEX)
    beyond = [-2 * oracle.a / oracle.b, 0.5, 0.5]
    result = certified(problem, estimate, beyond)
    assert result.gap == np.inf
    assert "infinite" in result.reason


def test_stacks():
    rng = np.random.default_rng(4)
    raw = rng.normal(0.2, 0.3, (2, 3, 5))
    f = CLS.solve(raw).frequencies
    result = certified(CLS, raw, f)
    assert result.gap.shape == result.distance.shape == (2, 3)
    assert result.minimiser.shape == (2, 3, 5)
    assert result.ulps.max() < 2
    assert result.is_optimal(1e-15)
    for trial in np.ndindex(2, 3):
        assert result.gap[trial] == certified(CLS, raw[trial], f[trial]).gap
    with pytest.raises(FrozenInstanceError):
        result.gap = 0
    with pytest.raises(ValueError, match="read-only"):
        result.minimiser[0] = 0
    assert "ulps=" in repr(result)


@pytest.mark.parametrize("box", BOXES, ids=range(len(BOXES)))
def test_an_enclosed_price_proves_what_the_exact_one_does(box, monkeypatch):
    """As with 10^5 different weights, whose price of the total has too many digits."""
    constraints, low, high, total = box
    rng = np.random.default_rng(12)
    monkeypatch.setattr(exact_box, "_LARGEST", 1)  # bits
    for weights in (rng.uniform(0.1, 3.0, 4), [1e10, 1e-10, 1.0, 3.0], [0.1, 0.1, 7.0, 7.0]):
        target = rng.normal(0.25, 0.4, 4)
        exact_loss = squares(fractions(target), fractions(weights))
        inverse = [1 / weight for weight in fractions(weights)]
        bounds = [low] * 4, [high] * 4
        minimiser = box_minimiser(exact_loss, fractions(target), inverse, 0, *bounds, total)
        problem = ldpopt.Problem(losses.WeightedLeastSquares(weights), constraints)
        for point in (problem.solve(target).frequencies, rng.normal(0.2, 0.3, 4)):
            result = certified(problem, target, point)
            rise = exact_loss(fractions(point)) - exact_loss(minimiser)
            assert rise <= Fraction(float(result.gap)) <= max(rise, 0) * Fraction(1 + EPS) + EPS**4
            distance = max(abs(x - y) for x, y in zip(fractions(point), minimiser, strict=True))
            # What encloses it may be above a double that the distance itself is.
            assert distance <= Fraction(float(result.distance)) <= distance * Fraction(1 + 2 * EPS)
            # A value may be right between two doubles, where no enclosure tells which is nearer.
            if result.minimiser is None:
                assert "between two doubles" in result.reason
            else:
                assert result.minimiser.tolist() == [float(value) for value in minimiser]


def test_an_enclosure_that_misses_the_total_proves_nothing(monkeypatch):
    monkeypatch.setattr(exact_box, "_LARGEST", 1)
    bounds = [Bounds(0.1, 1.0), SumsTo(1.0)]
    problem = ldpopt.Problem(losses.WeightedLeastSquares(np.arange(1.0, 11.0)), bounds)
    result = certified(problem, np.zeros(10), np.full(10, 0.1))
    assert result.gap == np.inf
    assert "exactly this total" in result.reason
    # A price that is wrong by a millionth is noticed.
    problem = ldpopt.Problem(losses.WeightedLeastSquares([1.1, 1.2, 1.3]), SIMPLEX)
    right = enclosed_price.near_parameter
    for factor in (-1, 1):
        wrong = lambda problem, bits, sign=factor: (  # noqa: E731
            right(problem, bits) + sign * abs(right(problem, bits)) // 10**6
        )
        monkeypatch.setattr(enclosed_price, "near_parameter", wrong)
        assert certified(problem, [0.5, 0.5, 0.5], [0.4, 0.3, 0.3]).gap == np.inf


@pytest.mark.parametrize(("weights", "bits"), [(None, 0), ([1], 1), ([3, 8, 3, 1], 7)])
def test_a_sum_of_inverses_has_the_bits_of_all_different_weights(weights, bits):
    given = None if weights is None else np.array(weights)
    assert exact_box._bits(SimpleNamespace(weights=given)) == bits


def test_few_bits_of_an_enclosure_prove_a_larger_gap_and_distance(monkeypatch):
    weights = [1.1, 1.2, 1.3]
    problem = ldpopt.Problem(losses.WeightedLeastSquares(weights), SIMPLEX)
    point = problem.solve([0.5, 0.5, 0.5]).frequencies
    exactly = certified(problem, [0.5, 0.5, 0.5], point)
    monkeypatch.setattr(exact_box, "_LARGEST", 1)
    monkeypatch.setattr(exact_box, "_ENCLOSING", -48)
    roughly = certified(problem, [0.5, 0.5, 0.5], point)
    assert roughly.gap > exactly.gap
    assert roughly.distance > exactly.distance
    assert roughly.minimiser is None
    assert "between two doubles" in roughly.reason


def test_few_bits_of_the_multiplier_decide_like_all(monkeypatch):
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.1, 1.0, 6)
    problem = ldpopt.Problem(losses.WeightedLeastSquares(weights), SIMPLEX)
    raw = rng.normal(0.2, 0.2, 6)
    points = [problem.solve(raw).frequencies, rng.dirichlet(np.ones(6))]
    before = [certified(problem, raw, point) for point in points]
    monkeypatch.setattr(exact_box, "_FINE", 0)
    for point, expected in zip(points, before, strict=True):
        result = certified(problem, raw, point)
        assert result.minimiser.tolist() == expected.minimiser.tolist()
        assert result.distance == expected.distance


# Polyhedra


def solved_system(matrix, right):
    """A solution of a square system in fractions by elimination, None if it is singular.

    In integers, without fractions on the way: each division is by the pivot before, and leaves no
    remainder, since every number is a determinant of a part of the system (Bareiss 1968).
    """
    rows = [whole_numbers([*row, value]) for row, value in zip(matrix, right, strict=True)]
    before = 1
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        chosen = rows[k]
        scale = chosen[k]
        for i, row in enumerate(rows):
            if i != k:
                factor = row[k]
                rows[i] = [
                    (scale * x - factor * y) // before for x, y in zip(row, chosen, strict=True)
                ]
        before = scale
    return [Fraction(row[-1], row[k]) for k, row in enumerate(rows)]


def whole_numbers(row):
    """A row times the least number that makes integers of its fractions."""
    common = math.lcm(*(value.denominator for value in row))
    return [value.numerator * (common // value.denominator) for value in row]


def choices_of_rows(d, lower, upper):
    """Every choice of up to d rows, each with one of its finite bounds."""
    ends = [
        list(dict.fromkeys(end for end in pair if math.isfinite(end)))
        for pair in zip(lower, upper, strict=True)
    ]
    for m in range(d + 1):
        for chosen in itertools.combinations(range(len(ends)), m):
            for sides in itertools.product(*(ends[i] for i in chosen)):
                yield list(zip(chosen, sides, strict=True))


def polyhedron_minimiser(target, weights, matrix, lower, upper):
    """The best of the feasible minimisers of all choices of active rows with one solution.

    For rows C that hold with c it is f = f̃ + W⁻¹ Cᵀ y, where C W⁻¹ Cᵀ y = c - C f̃.
    """
    matrix = [[Fraction(x) for x in row] for row in matrix]
    turned = [[x / w for x, w in zip(row, weights, strict=True)] for row in matrix]
    products = [[inner(row, other) for other in turned] for row in matrix]
    heights = [inner(row, target) for row in matrix]
    lower, upper = map(exact_ends, (lower, upper))
    best = None
    loss = squares(target, weights)
    for pairs in choices_of_rows(len(target), lower, upper):
        chosen = [i for i, _ in pairs]
        system = [[products[i][k] for k in chosen] for i in chosen]
        y = solved_system(system, [end - heights[i] for i, end in pairs])
        if y is None:
            continue
        # Not all heights: most choices of rows leave one of the first.
        reached = (
            heights[j] + sum(products[j][i] * of_row for i, of_row in zip(chosen, y, strict=True))
            for j in range(len(matrix))
        )
        if all(low <= x <= high for low, x, high in zip(lower, reached, upper, strict=True)):
            moves = [
                sum(a * turned[i][v] for i, a in zip(chosen, y, strict=True))
                for v in range(len(target))
            ]
            f = [x + move for x, move in zip(target, moves, strict=True)]
            best = f if best is None else smallest(loss, [best, f])
    return best


def exact_ends(ends):
    """Ends of rows as fractions, once and not in each comparison; infinite ones stay."""
    return [Fraction(end) if math.isfinite(end) else end for end in ends]


def inner(first, second):
    return sum((x * y for x, y in zip(first, second, strict=True)), Fraction(0))


def rows_of(constraints, d):
    """All rows of the constraints in full, bounds and total as rows."""
    matrix = []
    lower = []
    upper = []
    for constraint in constraints:
        total = constraint.total(d)
        if total is not None:
            matrix.append(np.ones(d))
            lower.append(total)
            upper.append(total)
            continue
        rows = constraint.rows(d)
        matrix += list(rows.matrix.toarray())
        lower += list(rows.lower)
        upper += list(rows.upper)
    return matrix, lower, upper


POLYHEDRA = [
    [*SIMPLEX, Monotone([0, 1, 2, 3])],
    [Monotone([(0, 1), (0, 2), (0, 3)])],
    [*SIMPLEX, GroupTotals([[0, 1], [2, 3]], [0.5, 0.5])],
    [NonNegative(), GroupTotals([[0, 1]], [0.3])],
    [NonNegative(), SumsTo(1.0), Linear([[1.0, 2.0, -1.0, 0.1]], 0.2, 0.4)],
    [*SIMPLEX, Fixed([1], [0.125]), Monotone([(0, 3)])],
]


@pytest.mark.parametrize("constraints", POLYHEDRA, ids=range(len(POLYHEDRA)))
@pytest.mark.parametrize("is_weighted", [False, True])
def test_polyhedra_are_those_of_all_choices_of_rows(constraints, is_weighted):
    rng = np.random.default_rng(6)
    for _ in range(2):
        target = rng.normal(0.25, 0.3, 4)
        weights = rng.uniform(0.2, 5.0, 4) if is_weighted else np.ones(4)
        loss = losses.WeightedLeastSquares(weights) if is_weighted else losses.LeastSquares()
        problem = ldpopt.Problem(loss, constraints)
        exact_target = fractions(target)
        exact_weights = fractions(weights)
        rows = rows_of(constraints, 4)
        minimiser = polyhedron_minimiser(exact_target, exact_weights, *rows)
        right = problem.solve(target).frequencies
        for point in (right, right + rng.normal(0, 1e-3, 4), np.full(4, 0.25)):
            result = certified(problem, target, point)
            assert_proved(result, squares(exact_target, exact_weights), minimiser, point)


def test_rows_that_depend_on_each_other():
    doubled = [Monotone([0, 1, 2]), Linear([[1.0, -1.0, 0.0], [2.0, -2.0, 0.0]], 0.0)]
    problem = ldpopt.Problem(losses.LeastSquares(), [*SIMPLEX, *doubled])
    result = certified(problem, [0.25, 0.5, 0.25], [0.375, 0.375, 0.25])
    assert (result.gap, result.distance, result.reason) == (0, 0, "")


DEGENERATE = {
    "a chain at its caps": (
        [*SIMPLEX, Bounds(-math.inf, [0.2304, 0.2405, 0.5292]), Monotone([2, 1, 0])],
        [1.375, 2.125, 2.5],
        [-0.5, -1.25, 1.625],
    ),
    "rows through a vertex": (
        [
            *SIMPLEX,
            Bounds(-math.inf, [0.25, 0.3125, 0.5625]),
            Linear([[0.0, 1.0, -1.0], [2.0, 0.0, 0.0]], -math.inf, [-0.25, 0.375]),
        ],
        [20000.0, 3.0, 71.0],
        [-0.1875, 0.25, -0.5],
    ),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_vertices_are_those_of_all_choices_of_rows(name):
    """More rows hold there than there are values: some of them have multipliers of right signs."""
    constraints, weights, target = DEGENERATE[name]
    d = len(target)
    rng = np.random.default_rng(3)
    problem = ldpopt.Problem(losses.WeightedLeastSquares(weights), constraints)
    exact_target = fractions(target)
    exact_weights = fractions(weights)
    minimiser = polyhedron_minimiser(exact_target, exact_weights, *rows_of(constraints, d))
    right = np.array([float(value) for value in minimiser])
    for size in (0.0, 1e-12, 1e-9, 1e-3):
        point = right + size * rng.normal(size=d)
        result = certified(problem, target, point)
        assert_proved(result, squares(exact_target, exact_weights), minimiser, point)


@pytest.mark.parametrize("seed", range(40))
def test_the_dual_steps_alone_find_the_minimiser(seed, monkeypatch):
    """Without suggested rows: among caps and rows that touch where all values are 1/4."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-2, 3, (3, 4)).astype(float)
    matrix[:, 0] += ~matrix.any(axis=1)
    limit = matrix.sum(axis=1) / 4 + rng.choice([0.0, 0.125], 3)
    constraints = [SumsTo(1.0), Bounds(-math.inf, 0.375), Linear(matrix, -math.inf, limit)]
    weights = rng.choice([1.0, 2.0, 64.0], 4)
    target = rng.integers(-8, 9, 4) / 8
    monkeypatch.setattr(exact_rows, "_by_repairs", lambda *_: None)
    problem = ldpopt.Problem(losses.WeightedLeastSquares(weights), constraints)
    exact_target = fractions(target)
    exact_weights = fractions(weights)
    minimiser = polyhedron_minimiser(exact_target, exact_weights, *rows_of(constraints, 4))
    point = np.full(4, 0.25)
    result = certified(problem, target, point)
    assert_proved(result, squares(exact_target, exact_weights), minimiser, point)


def test_rows_that_contradict_each_other():
    # A solver's tolerance hides that 0.1 + 0.2 is not 0.3.
    tenths = GroupTotals([[0, 1], [0], [1]], [0.3, 0.1, 0.2])
    problem = ldpopt.Problem(losses.LeastSquares(), [NonNegative(), tenths])
    result = certified(problem, [0.1, 0.2, 0.5], [0.1, 0.2, 0.5])
    assert result.gap == np.inf
    assert "contradict" in result.reason
    assert result.violation == rounded(abs(Fraction(0.1) + Fraction(0.2) - Fraction(0.3)))


def test_rows_that_do_not_settle_say_so(monkeypatch):
    monkeypatch.setattr(exact_rows, "_ROUNDS", 1)
    group = GroupTotals([[0, 1]], [0.5])
    problem = ldpopt.Problem(losses.LeastSquares(), [*SIMPLEX, group, Monotone([0, 1, 2])])
    result = certified(problem, [0.1, 0.3, 0.7], [0.8, 0.1, 0.1])
    assert "do not settle" in result.reason
    problem = ldpopt.Problem(losses.LeastSquares(), [*SIMPLEX, Monotone([0, 1, 2])])
    monkeypatch.setattr(exact_rows, "_LARGEST", 0)
    result = certified(problem, [0.1, 0.3, 0.7], [1 / 3] * 3)
    assert "too many" in result.reason


def test_trees_and_constant_variances():
    tree = Hierarchy([-1, 0, 0, 1, 1, 2, 2], total=1.0)
    rng = np.random.default_rng(0)
    raw = rng.normal(0.2, 0.2, 7)
    problem = ldpopt.Problem(losses.LeastSquares(), [tree])
    result = certified(problem, raw, problem.solve(raw).frequencies)
    assert result.ulps < 16
    estimate = FrequencyEstimate([0.1, 0.5, 0.3], noise=Noise([0.1, 0.2, 0.4]))
    by_variance = ldpopt.Problem(losses.GaussianMLE(), [*SIMPLEX, Monotone([0, 1, 2])])
    by_weight = ldpopt.Problem(
        losses.WeightedLeastSquares([8.0, 4.0, 2.0]), by_variance.constraints
    )
    point = by_variance.solve(estimate).frequencies
    first = certified(by_variance, estimate, point).minimiser
    second = certified(by_weight, [0.1, 0.5, 0.3], point).minimiser
    np.testing.assert_allclose(first, second, rtol=1e-15)


# What is refused


@pytest.mark.parametrize(
    ("loss", "constraints"),
    [
        (losses.Huber(0.1), SIMPLEX),
        (losses.LeastSquares(), [*SIMPLEX, AtMost(1)]),
        (losses.LeastSquares(), [*SIMPLEX, Near([0.5, 0.25, 0.25], 0.1)]),
        (losses.LeastAbsolute(), [*SIMPLEX, Near([0.5, 0.25, 0.25], 0.1)]),
        (losses.LeastSquares(), [*SIMPLEX, Custom(lambda f: [f[0] ** 2 <= 0.5])]),
        (losses.GaussianMLE(), [*SIMPLEX, Monotone([0, 1])]),
        (losses.KullbackLeibler(), [*SIMPLEX, Monotone([0, 1])]),
    ],
)
def test_other_kinds_are_refused(loss, constraints):
    oracle = OUE(1.0, 3)
    estimate = oracle.estimate([50, 40, 30], 100)
    problem = ldpopt.Problem(loss, constraints)
    with pytest.raises(UnsupportedProblemError, match="leave out exact=True"):
        certified(problem, estimate, [0.5, 0.25, 0.25])


def test_losses_of_users_are_refused():
    class Doubled(losses.LeastSquares):
        def value(self, f, estimate):
            return 2 * super().value(f, estimate)

        def gradient(self, f, estimate):
            return 2 * super().gradient(f, estimate)

    with pytest.raises(UnsupportedProblemError, match="takes the losses"):
        certified(ldpopt.Problem(Doubled(), SIMPLEX), [0.5, 0.25], [0.625, 0.375])


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    problem = ldpopt.Problem(losses.KullbackLeibler(), SIMPLEX)
    with pytest.raises(UnsupportedProblemError, match=r"pip install .ldpopt\[exact\]"):
        certified(problem, [0.5, 0.25], [0.5, 0.5])


# Likelihoods


def rise_of_divergence(f, raw):
    """KL of a vector above its minimum log(total/Σ max(f̃, 0)), with 60 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        pairs = [(mpmath.mpf(x), y) for x, y in zip(f, raw, strict=True) if x > 0]
        terms = [x * mpmath.log(x / y) for x, y in pairs]
        positive = mpmath.fsum(mpmath.mpf(y) for y in raw if y > 0)
        return mpmath.fsum(terms) + mpmath.log(positive)


def test_gaps_of_the_divergence_hold_and_are_tight():
    pytest.importorskip("flint")
    problem = ldpopt.Problem(losses.KullbackLeibler(), SIMPLEX)
    # These vectors sum to 1 exactly.
    raw = [0.5, 0.25, 0.125, -0.25]
    # The last two vectors have other sums: the multiplier of the total counts.
    for f in (
        [0.5, 0.25, 0.25, 0.0],
        [0.5625, 0.3125, 0.125, 0.0],
        [0.25, 0.125, 0.0625, 0.0],
        [1.0, 0.5, 0.25, 0.0],
    ):
        gap = float(certified(problem, raw, f).gap)
        rise = float(rise_of_divergence(f, raw))
        assert rise <= gap
    at_minimum = certified(problem, [0.5, 0.25, 0.25, -1.0], [0.5, 0.25, 0.25, 0.0])
    assert at_minimum.gap < 1e-40
    assert at_minimum.minimiser.tolist() == [0.5, 0.25, 0.25, 0.0]
    assert at_minimum.ulps < 1e-15
    assert at_minimum.reason == ""
    step = 2.0**-53
    near = [0.5 + step, 0.25 - step, 0.25, 0.0]
    gap = float(certified(problem, [0.5, 0.25, 0.25, -1.0], near).gap)
    rise = float(rise_of_divergence(near, [0.5, 0.25, 0.25, -1.0]))
    assert rise <= gap <= 1e-25
    assert certified(problem, raw, [0.5, 0.25, 0.0, 0.25]).gap == np.inf
    assert certified(problem, raw, [0.5, 0.5, 0.0, 0.0]).gap == np.inf


@pytest.mark.parametrize("kind", [losses.BinomialMLE, losses.MultinomialMLE])
def test_gaps_of_likelihoods_hold_and_are_tight(kind):
    pytest.importorskip("flint")
    mpmath = pytest.importorskip("mpmath")
    is_binomial = kind is losses.BinomialMLE
    oracle = OUE(1.0, 2) if is_binomial else GRR(1.0, 2)
    estimate = oracle.estimate([60, 45] if is_binomial else [60, 40], 100)
    loss = kind()
    problem = ldpopt.Problem(loss, SIMPLEX)
    shares = loss.shares(estimate)
    floor, slope = map(mpmath.mpf, loss.constants(estimate))

    def value(x):
        total = mpmath.mpf(0)
        for share, f in zip(map(mpmath.mpf, map(float, shares)), (x, 1 - x), strict=True):
            probability = floor + slope * f
            total -= share * mpmath.log(probability)
            if is_binomial:
                total -= (1 - share) * mpmath.log(1 - probability)
        return total

    with mpmath.workdps(60):
        best = mpmath.findroot(lambda x: mpmath.diff(value, x), 0.6)
        lowest = value(best)
        for x in (0.25, 0.5, 0.75, round(float(best) * 2**40) / 2**40):
            result = certified(problem, estimate, [x, 1 - x])
            rise = value(mpmath.mpf(x)) - lowest
            assert result.violation == 0
            assert rise <= float(result.gap)
            distance = abs(mpmath.mpf(x) - best)
            assert distance <= float(result.distance) <= distance * (1 + 4 * EPS)
            assert result.minimiser.tolist() == [float(best), float(1 - best)]
    # 2^-40 from the minimiser: a gap of second order.
    assert float(result.gap) < 1e-23


@pytest.mark.parametrize(
    ("kind", "total"),
    [
        (losses.BinomialMLE, []),
        (losses.BinomialMLE, [SumsTo(1.0)]),
        (losses.MultinomialMLE, [SumsTo(1.0)]),
        (losses.KullbackLeibler, []),
        (losses.KullbackLeibler, [SumsTo(1.0)]),
    ],
)
def test_the_minimiser_of_a_likelihood_is_right_to_half_a_last_place(kind, total):
    pytest.importorskip("flint")
    counts = [0, 260, 190, 150, 140, 130, 80, 50]
    estimate = GRR(1.0, 8).estimate(counts, 1000)
    problem = ldpopt.Problem(kind(), [Bounds(0.0, 0.375), *total])
    first = certified(problem, estimate, np.full(8, 1 / 8))
    f = first.minimiser
    at_minimum = certified(problem, estimate, f)
    assert at_minimum.minimiser.tolist() == f.tolist()
    assert at_minimum.ulps <= 0.5
    largest = int(np.argmax(f))
    for places in (-3, -5):
        moved = f.copy()
        moved[largest] += places * np.spacing(f[largest])
        distance = certified(problem, estimate, moved).ulps
        assert abs(places) - 0.5 <= distance <= abs(places) + 0.5
    assert first.distance >= np.max(np.abs(f - 1 / 8))


def test_the_minimiser_of_a_divergence_from_what_is_in_the_set_is_that():
    pytest.importorskip("flint")
    result = certified(
        ldpopt.Problem(losses.KullbackLeibler(), SIMPLEX), [0.5, 0.25, 0.25], [0.75, 0.25, 0]
    )
    assert result.minimiser.tolist() == [0.5, 0.25, 0.25]
    assert 0.25 <= result.distance <= 0.25 * (1 + EPS)


def test_without_a_total_the_divergence_is_least_at_a_share_of_the_reference():
    pytest.importorskip("flint")
    result = certified(
        ldpopt.Problem(losses.KullbackLeibler(), [NonNegative()]), [0.5, 2.0], [1, 1]
    )
    assert result.minimiser.tolist() == [0.5 / math.e, 2.0 / math.e]


def of_its_own_each(formulation, start, point, region):
    places = np.arange(len(point))
    return likelihoods._Kinds(places, [1] * len(point), places)


@pytest.mark.parametrize("kind", ["binomial", "multinomial", "divergence"])
@pytest.mark.parametrize("where", ["simplex", "caps", "no total"])
@pytest.mark.parametrize("moved", [0.0, 1e-3, -1e-3])
def test_values_that_agree_are_calculated_once_and_count_as_often_as_they_are(
    kind, where, moved, monkeypatch
):
    """Some agree in their counts alone, and not in their bounds, or not at the point."""
    flint = pytest.importorskip("flint")
    counts = np.array([30, 80, 80, 30, 30, 150, 80, 30, 30, 30])
    if kind == "multinomial":
        start = GRR(3.0, 10).estimate(counts, counts.sum())
    else:
        start = OUE(3.0, 10).estimate(counts, 600)
    loss = {
        "binomial": losses.BinomialMLE(),
        "multinomial": losses.MultinomialMLE(),
        "divergence": losses.KullbackLeibler(),
    }[kind]
    caps = np.where(np.arange(10) % 3, 0.9, 0.04)
    boxes = {"simplex": NonNegative(), "caps": Bounds(0.0, caps), "no total": Bounds(0.0, 0.5)}
    box = boxes[where]
    sets = [box] if where == "no total" else [box, SumsTo(1.0)]
    problem = ldpopt.Problem(loss, sets)
    start = FrequencyEstimate(np.abs(start.frequencies)) if kind == "divergence" else start
    point = problem.minimise(start)
    point[4] += moved * (point[4] > 0)
    together = ldpopt.certify(problem, start, point, exact=True)
    kinds = likelihoods._kinds(problem, start, point, problem.region(10))
    assert len(kinds.places) < 8
    assert sum(kinds.counts) == 10
    monkeypatch.setattr(likelihoods, "_kinds", of_its_own_each)
    apart = ldpopt.certify(problem, start, point, exact=True)
    assert_allclose(together.gap, apart.gap, rtol=1e-12)
    assert_allclose(together.distance, apart.distance, rtol=1e-12)
    assert together.violation == apart.violation
    assert (together.minimiser is None) == (apart.minimiser is None)
    if apart.minimiser is not None:
        assert together.minimiser.tolist() == apart.minimiser.tolist()
    assert flint.ctx.prec == 53


def test_an_enclosure_is_as_wide_as_the_responses_leave_it():
    flint = pytest.importorskip("flint")

    def jump(mu):
        return flint.arb(1) if mu < 0.25 else flint.arb(0)

    bounds = np.array([-np.inf]), np.array([np.inf])
    result = enclosure([jump], np.array([0.625]), *bounds, [1], 0.5, 0.0, flint)
    # At the price the response is anything from 0 to 1.
    assert (result.distance, result.minimiser) == (0.625, None)
    assert "one nearest double" in result.reason


def test_where_rounding_hides_the_price_it_is_enclosed_from_both_sides():
    """One value f = 1 - price, known to 2^-120, with the total 0: f* is 0."""
    flint = pytest.importorskip("flint")
    bounds = np.array([-np.inf]), np.array([np.inf])
    before = flint.ctx.prec
    flint.ctx.prec = 160
    try:
        one = flint.arb(1, 2.0**-120)
        # The prices beside it are 2^-112 of the last bracket away, whose ends are up to 16.
        for point in (1.5 * 2.0**-108, -1.5 * 2.0**-108):
            result = enclosure(
                [lambda mu: one - mu], np.array([point]), *bounds, [1], 0.0, 0.0, flint
            )
            assert abs(point) <= result.distance <= 4 * abs(point)
    finally:
        flint.ctx.prec = before


@pytest.mark.parametrize(
    ("of_price", "total", "price"),
    [
        (lambda mu: -mu, 1e-30, 5.0),
        # The first secant ends at the price, where the excess is 0.
        (lambda mu: -mu, 0.5, 0.0),
        (lambda mu: (-mu).exp(), 1e-30, 5.0),
        (lambda mu: -mu.exp(), -1e-30, 5.0),
    ],
)
def test_a_price_is_enclosed_however_far_the_first_one_is(of_price, total, price):
    """One value with a total is that total."""
    flint = pytest.importorskip("flint")
    bounds = np.array([-np.inf]), np.array([np.inf])
    before = flint.ctx.prec
    flint.ctx.prec = 160
    try:
        result = enclosure([of_price], np.array([0.0]), *bounds, [1], total, price, flint)
    finally:
        flint.ctx.prec = before
    assert result.minimiser.tolist() == [total]
    assert_allclose(result.distance, abs(total), rtol=EPS)


def test_minimisers_that_are_not_the_only_ones_or_of_no_set_have_no_distance():
    pytest.importorskip("flint")
    # No report names the second value, whose loss is level.
    level = GRR(1.0, 4).estimate([64, 0, 32, 32], 128)
    assert losses.MultinomialMLE().shares(level)[1] == 0
    box = ldpopt.Problem(losses.MultinomialMLE(), [Bounds(0.0, 0.5)])
    # Bounds that add up to the total: prices of a whole range are right.
    lower = [0.5, 0.25, 0.125, 0.125]
    tight = ldpopt.Problem(losses.MultinomialMLE(), [Bounds(lower, 1.0), SumsTo(1.0)])
    for problem, f in ((box, np.full(4, 0.5)), (tight, lower)):
        result = certified(problem, level, f)
        assert (result.distance, result.ulps, result.minimiser) == (np.inf, np.inf, None)
        assert "enclose" in result.reason
        assert result.gap < 1e-30


def test_bounds_without_a_finite_loss_have_no_minimiser():
    pytest.importorskip("flint")
    # The divergence holds its last value at 0, and a probability below 0 has no logarithm.
    held = ldpopt.Problem(losses.KullbackLeibler(), [Bounds(0.125, 0.5)])
    below = ldpopt.Problem(losses.BinomialMLE(), [Bounds(-6.0, -5.0)])
    reports = OUE(1.0, 3).estimate([60, 45, 40], 100)
    for problem, raw, f in ((held, [0.5, 0.25, 0.0], [0.25, 0.25, 0]), (below, reports, [-5] * 3)):
        result = certified(problem, raw, f)
        assert (result.distance, result.minimiser) == (np.inf, None)
        assert result.reason


def test_likelihoods_beyond_their_set_and_domain():
    pytest.importorskip("flint")
    oracle = OUE(1.0, 2)
    estimate = oracle.estimate([60, 45], 100)
    problem = ldpopt.Problem(losses.BinomialMLE(), SIMPLEX)
    outside = certified(problem, estimate, [1.25, -0.25])
    assert outside.violation == 0.25
    beyond = certified(problem, estimate, [5.0, -4.0])
    assert beyond.gap == np.inf
    assert "infinite" in beyond.reason
    # A fixed value: the point above it can only come down.
    fixed = ldpopt.Problem(losses.BinomialMLE(), [*SIMPLEX, Fixed([0], [0.25])])
    assert certified(fixed, estimate, [0.25, 0.75]).gap < 1e-30
    below = float(certified(fixed, estimate, [0.125, 0.875]).gap)
    loss = problem.loss
    rise = loss.value(np.array([0.125, 0.875]), estimate) - loss.value(
        np.array([0.25, 0.75]), estimate
    )
    assert below >= float(rise)


def test_a_loss_that_may_be_flat_bounds_no_rise_towards_a_side_without_an_end():
    flint = pytest.importorskip("flint")
    # 0, and a ball around it: neither bounds a division from above.
    for modulus in (flint.arb(0), flint.arb(0, 1)):
        for gradient, ends in ((1, (-np.inf, 1.0)), (-1, (0.0, np.inf))):
            slope = likelihoods.Slope(flint.arb(gradient), modulus)
            assert likelihoods._rise(slope, 0.0, 0.5, *ends, flint) == flint.arb("inf")
    # To the end on the other side there is half the slope.
    slope = likelihoods.Slope(flint.arb(1), flint.arb(0))
    assert likelihoods._rise(slope, 0.0, 0.5, 0.0, np.inf, flint) == 0.5


# Integers


def test_integers_lose_nothing():
    numbers = np.array([5e-324, 1.7e308, -0.1, 0.0, -1.0, 3.0])
    (whole, one), e = integers(numbers, 1.0)
    assert [Fraction(int(n), 2**e) for n in whole] == fractions(numbers)
    assert int(one[()]) == 2**e
    assert integers(np.zeros(2))[0][0].tolist() == [0, 0]


@pytest.mark.parametrize(
    "value",
    [Fraction(1, 3), Fraction(-1, 3), Fraction(1, 2), Fraction(1, 10**400), Fraction(7)],
)
def test_rounding_up(value):
    result = rounded_up(value.numerator, value.denominator)
    assert Fraction(result) >= value
    assert Fraction(float(np.nextafter(result, -np.inf))) < value


def test_rounding_up_beyond_all_doubles():
    assert rounded_up(10**400, 1) == math.inf
    assert rounded_up(-(10**400), 1) == -sys.float_info.max


@pytest.mark.parametrize("constraints", [[], [NonNegative()], [SumsTo(1)]])
def test_a_divergence_without_upper_bounds_has_a_gap(constraints):
    pytest.importorskip("flint")
    estimate = np.array([0.45, 0.3, 0.2, 0.12, 0.02, 0.05])
    problem = ldpopt.Problem(losses.KullbackLeibler(), constraints)
    minimum = problem.solve(estimate).frequencies
    certificate = ldpopt.certify(problem, estimate, minimum, exact=True)
    assert certificate.gap <= 1e-16
    assert certificate.reason == ""
    if not constraints:
        # Beside the minimum the rise is known: that of Σ f log(f/f̃) above -Σ f̃/e.
        moved = 1.25 * minimum
        with mp.workdps(60):
            value = mp.fsum(
                mpf(x) * mp.log(mpf(x) / mpf(y)) for x, y in zip(moved, estimate, strict=True)
            )
            rise = value + mp.fsum(map(mpf, estimate)) / mp.e
            gap = ldpopt.certify(problem, estimate, moved, exact=True).gap
            assert rise <= mpf(float(gap)) <= 3 * rise
        # Too far for the second derivative at hand: no bound, which is no infinite loss.
        far = ldpopt.certify(problem, estimate, 0.01 * minimum, exact=True)
        assert far.gap == np.inf
        assert far.reason.startswith("no bound follows from the slopes")


def test_a_multinomial_likelihood_without_lower_bounds_has_a_gap():
    pytest.importorskip("flint")
    estimate = GRR(1.0, 4).estimate([60, 30, 20, 10], 120)
    problem = ldpopt.Problem(losses.MultinomialMLE(), [SumsTo(1)])
    certificate = ldpopt.certify(problem, estimate, problem.solve(estimate).frequencies, exact=True)
    assert certificate.gap <= 1e-16
    assert certificate.reason == ""


@pytest.mark.parametrize("d", [3, 50, 2048])
@pytest.mark.parametrize("more", [(), (NonNegative(),), (Bounds(0.0, 0.9),)])
@pytest.mark.parametrize("moved", [1e-6, 1e-3])
def test_weights_over_twenty_orders_have_the_gap_of_exact_arithmetic(d, more, moved):
    rng = np.random.default_rng(3)
    weights = 10.0 ** rng.uniform(-10, 10, d)
    # Some values are at 0 where that is a bound.
    estimate = rng.normal(1 / d, 1 / d, d)
    problem = ldpopt.Problem(losses.WeightedLeastSquares(weights), [SumsTo(1.0), *more])
    point = problem.minimise(estimate)
    largest = np.argmax(point)
    point[np.argmax(np.where(point > 0, weights, 0.0))] += moved
    point[largest] -= moved
    gap = ldpopt.certify(problem, estimate, point).gap
    exact = ldpopt.certify(problem, estimate, point, exact=True)
    assert exact.gap <= gap <= exact.gap * (1 + 1e-9)


def test_minima_of_weights_over_twenty_orders_are_proved_beside_tiny_estimates():
    d = 5000
    for seed in range(3):
        rng = np.random.default_rng(seed)
        estimate = 1e-8 * rng.normal(1 / d, 1e-4, d)
        loss = losses.WeightedLeastSquares(10.0 ** rng.uniform(-10, 10, d))
        solution = ldpopt.Problem(loss, [SumsTo(1.0)]).solve(estimate)
        assert solution.status == "optimal"
        assert solution.certificate.is_optimal(1e-8, relative=True)


def test_a_flat_value_at_its_bound_does_not_set_the_price_of_steep_ones():
    loss = losses.WeightedLeastSquares([1e-6, 1.0, 1e6, 1e6])
    problem = ldpopt.Problem(loss, [SumsTo(1.0), NonNegative()])
    estimate = [-1e7, 0.4, 0.7, 0.2]
    point = problem.minimise(estimate) + np.array([0.0, 0.0, 1e-3, -1e-3])
    assert point[0] == 0
    gap = ldpopt.certify(problem, estimate, point).gap
    assert gap <= ldpopt.certify(problem, estimate, point, exact=True).gap * (1 + 1e-9)
