"""Exact certificates of sums: squares, absolute deviations, the largest one, total variation.

Where a loss has kinks it is linear in pieces, each with rows that bound it. The minimum is the
smallest of those of all pieces, in fractions.
"""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import ldpopt
from ldpopt import losses
from ldpopt.constraints import (
    Bounds,
    Custom,
    Linear,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
)
from ldpopt.errors import UnsupportedProblemError
from ldpopt.estimate import FrequencyEstimate
from ldpopt.estimate.noise import Noise
from ldpopt.solve.certificate.exact import duality, kinked
from ldpopt.solve.certificate.exact import rows as exact_rows
from ldpopt.solve.certificate.exact.half_spaces import HalfSpace, Rows, violation_of
from ldpopt.solve.certificate.exact.limits import _pass, limits_of
from ldpopt.solve.certificate.exact.terms import Kink, Term, stated
from tests.every_two import every_two
from tests.test_exact_certificate import (
    assert_proved,
    certified,
    exact_ends,
    fractions,
    polyhedron_minimiser,
    rounded,
    rows_of,
    solved_system,
    squares,
)

SIMPLEX = [NonNegative(), SumsTo(1.0)]
D = 3
REFERENCE = [0.25, 0.5, 0.125]
WEIGHTS = [1.0, 0.375, 3.5]
UNITS = np.eye(D)


def absolute(places, weights):
    """Σ w |f - place| as a list of choices, one for each value: slope and constant of each side."""
    parts = []
    for v, (place, weight) in enumerate(zip(places, weights, strict=True)):
        side = [weight * x for x in fractions(UNITS[v])]
        parts.append([(side, -weight * place), ([-x for x in side], weight * place)])
    return parts


def largest(places):
    return [[piece for part in absolute(places, [Fraction(1)] * D) for piece in part]]


def variation(chain):
    parts = []
    for first, second in itertools.pairwise(chain):
        step = fractions(UNITS[second] - UNITS[first])
        parts.append([(step, Fraction(0)), ([-x for x in step], Fraction(0))])
    return parts


def scaled(factor, parts):
    factor = Fraction(factor)
    return [
        [([factor * x for x in slope], factor * constant) for slope, constant in part]
        for part in parts
    ]


def value_of_kinks(parts, f):
    """Σ of the largest piece of each part."""
    return sum(
        max(
            sum(a * x for a, x in zip(slope, f, strict=True)) + constant for slope, constant in part
        )
        for part in parts
    )


def minimum_of_sum(target, weights, parts, matrix, lower, upper):
    """The minimiser of ½ Σ w (f - f̃)² and parts: the best of the minimisers of all pieces."""
    best = None
    for pieces in itertools.product(*parts):
        slope = [sum(piece[0][v] for piece in pieces) for v in range(D)]
        rows = [list(row) for row in matrix]
        lows = list(lower)
        for part, piece in zip(parts, pieces, strict=True):
            for other in part:
                if other is not piece:
                    rows.append([x - y for x, y in zip(piece[0], other[0], strict=True)])
                    lows.append(other[1] - piece[1])
        highs = [*upper, *([math.inf] * (len(rows) - len(upper)))]
        shifted = [y - g / w for y, g, w in zip(target, slope, weights, strict=True)]
        f = polyhedron_minimiser(shifted, weights, rows, lows, highs)
        if f is not None:
            value = squares(target, weights)(f) + value_of_kinks(parts, f)
            best = min(best, (value, f)) if best is not None else (value, f)
    return best


def minimum_of_kinks(parts, matrix, lower, upper):
    """The minimum of parts alone: at a vector where as many pieces or rows meet as there are."""
    planes = set()
    for part in parts:
        for first, second in itertools.combinations(part, 2):
            row = [x - y for x, y in zip(first[0], second[0], strict=True)]
            planes.add(plane_of(row, second[1] - first[1]))
    rows = [fractions(row) for row in matrix]
    lower, upper = map(exact_ends, (lower, upper))
    for row, low, high in zip(rows, lower, upper, strict=True):
        planes |= {plane_of(row, end) for end in (low, high) if math.isfinite(end)}
    best = None
    for chosen in itertools.combinations(sorted(planes), D):
        f = solved_system([list(row) for row, _ in chosen], [end for _, end in chosen])
        if f is None:
            continue
        heights = [sum(a * x for a, x in zip(row, f, strict=True)) for row in rows]
        if all(low <= x <= high for low, x, high in zip(lower, heights, upper, strict=True)):
            value = value_of_kinks(parts, f)
            best = value if best is None else min(best, value)
    return best


def plane_of(row, end):
    """The plane where a row has a value: one and the same of a row and of its multiples."""
    first = next(x for x in row if x)
    return tuple(x / first for x in row), end / first


SUMS = {
    "absolute": (
        losses.LeastSquares() + 0.1 * losses.L1To(REFERENCE),
        lambda _: (fractions(np.ones(D)), scaled(0.1, absolute(fractions(REFERENCE), [1] * D))),
    ),
    "absolute with weights": (
        losses.WeightedLeastSquares(WEIGHTS) + 0.25 * losses.L1To(REFERENCE, [1.0, 2.0, 0.5]),
        lambda _: (
            fractions(WEIGHTS),
            scaled(0.25, absolute(fractions(REFERENCE), fractions([1.0, 2.0, 0.5]))),
        ),
    ),
    "variation": (
        losses.LeastSquares() + 0.0625 * losses.TotalVariation([2, 0, 1]),
        lambda _: (fractions(np.ones(D)), scaled(0.0625, variation([2, 0, 1]))),
    ),
    "largest": (
        2.0 * losses.WeightedLeastSquares(WEIGHTS) + 0.25 * losses.MaxAbsolute(),
        lambda target: (fractions(2 * np.array(WEIGHTS)), scaled(0.25, largest(target))),
    ),
    "two kinds": (
        losses.LeastSquares()
        + 0.1 * (losses.TotalVariation([0, 1]) + 0.3 * losses.LeastAbsolute()),
        lambda target: (
            fractions(np.ones(D)),
            scaled(0.1, variation([0, 1])) + scaled(0.03, absolute(target, [Fraction(1)] * D)),
        ),
    ),
}
"""Losses; and from an estimate to the weights of their squares and their pieces."""

SETS = {
    "no constraints": [],
    "simplex": SIMPLEX,
    "bounds": [Bounds(0.05, 0.4), SumsTo(1.0)],
    "chain": [*SIMPLEX, Monotone([0, 1, 2])],
    "top set": [*SIMPLEX, TopSet([1])],
    "rows": [Linear([[1.0, -1.0, 0.5]], -0.1, 0.2)],
}

TARGETS = ([0.7, 0.4, -0.1], [0.25, 0.5, 0.125], [-0.3, 0.1, 0.2])


def written_out(name):
    if name == "top set":
        return rows_of([*SIMPLEX, Linear([[-1, 1, 0], [0, 1, -1]], 0.0)], D)
    return rows_of(SETS[name], D)


def target_of(kinds, kind, name):
    """An estimate: every one meets each kind and each set, but not every pair of them."""
    return TARGETS[(list(SETS).index(name) + list(kinds).index(kind)) % len(TARGETS)]


@cache
def least_of_sum(kind, name):
    """Minimum and minimiser of a sum on a set: there are hundreds of choices of pieces and rows."""
    _, pieces_of = SUMS[kind]
    target = fractions(target_of(SUMS, kind, name))
    return minimum_of_sum(target, *pieces_of(target), *written_out(name))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", SUMS)
def test_gap_and_distance_of_sums_hold_and_are_tight(kind, name):
    loss, pieces_of = SUMS[kind]
    problem = ldpopt.Problem(loss, SETS[name])
    rng = np.random.default_rng(3)
    target = target_of(SUMS, kind, name)
    weights, parts = pieces_of(fractions(target))
    lowest, minimiser = least_of_sum(kind, name)
    best = [float(x) for x in minimiser]
    results = []
    for point in (best, np.array(best) + rng.normal(0, 1e-3, D), np.full(D, 1 / 3)):
        result = certified(problem, target, point)
        results.append(result)
        f = fractions(point)
        rise = squares(fractions(target), weights)(f) + value_of_kinks(parts, f) - lowest
        # Elsewhere than at the minimiser multipliers of tangents prove a little less.
        assert rise <= Fraction(float(result.gap)) <= max(rise, 0) * 2 + Fraction(1, 10**10)
        away = max(abs(x - y) for x, y in zip(f, minimiser, strict=True))
        assert away <= Fraction(float(result.distance))
        assert float(away) / math.ulp(max(map(abs, best))) <= float(result.ulps) * (1 + 1e-15)
        assert result.minimiser is None
        assert "no minimiser is known" in result.reason
    # Of the minimiser rounded to doubles the certificate proves nearly that.
    assert float(results[0].gap) < 1e-13
    assert float(results[0].distance) < 1e-5


KINKS = {
    "largest": (losses.MaxAbsolute(), largest),
    "absolute and variation": (
        losses.LeastAbsolute() + 0.5 * losses.TotalVariation(),
        lambda target: absolute(target, [1] * D) + scaled(0.5, variation([0, 1, 2])),
    ),
    "two references": (
        losses.LeastAbsolute() + losses.L1To(REFERENCE, WEIGHTS),
        lambda target: (
            absolute(target, [1] * D) + absolute(fractions(REFERENCE), fractions(WEIGHTS))
        ),
    ),
    "largest and absolute": (
        0.3 * losses.MaxAbsolute() + 0.1 * losses.L1To(REFERENCE),
        lambda target: (
            scaled(0.3, largest(target)) + scaled(0.1, absolute(fractions(REFERENCE), [1] * D))
        ),
    ),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", KINKS)
def test_gaps_of_kinks_alone_hold_and_are_tight(kind, name):
    loss, pieces_of = KINKS[kind]
    problem = ldpopt.Problem(loss, SETS[name])
    rng = np.random.default_rng(4)
    target = target_of(KINKS, kind, name)
    parts = pieces_of(fractions(target))
    lowest = minimum_of_kinks(parts, *written_out(name))
    f = problem.solve(target, accuracy="high").frequencies
    for point in (f, f + rng.normal(0, 1e-3, D), np.full(D, 1 / 3)):
        result = certified(problem, target, point)
        rise = value_of_kinks(parts, fractions(point)) - lowest
        assert rise <= Fraction(float(result.gap)) <= max(rise, 0) + Fraction(1, 10**9)
        assert result.distance == math.inf


def test_sums_of_squares_are_one_square_with_an_exact_minimiser():
    loss = 2.0 * losses.LeastSquares() + losses.WeightedLeastSquares(WEIGHTS)
    target = [0.7, 0.4, -0.1]
    weights = [2 + w for w in fractions(WEIGHTS)]
    for name, constraints in SETS.items():
        problem = ldpopt.Problem(loss, constraints)
        minimiser = polyhedron_minimiser(fractions(target), weights, *written_out(name))
        for point in (problem.solve(target).frequencies, np.full(D, 0.25)):
            result = certified(problem, target, point)
            assert_proved(result, squares(fractions(target), weights), minimiser, point)


def test_a_planted_error_beside_a_price_is_counted_exactly():
    # Beside 0.25 a step the two values are 0.5 at the minimum, with any price above 0.125.
    problem = ldpopt.Problem(losses.LeastSquares() + 0.25 * losses.TotalVariation(), SIMPLEX)
    right = certified(problem, [0.625, 0.375], [0.5, 0.5])
    assert (right.gap, right.distance) == (0, 0)
    step = Fraction(1, 2**30)
    point = [float(Fraction(1, 2) + step), float(Fraction(1, 2) - step)]
    # ½ Σ (f - f̃)² rises by step² - step/4 and the price by step/2.
    rise = step**2 + step / 4
    result = certified(problem, [0.625, 0.375], point)
    assert rise <= Fraction(float(result.gap)) <= rise * (1 + Fraction(1, 10**6))
    assert Fraction(float(result.distance)) >= step


def test_factors_count_with_their_exact_product():
    """0.7 · 0.7 in doubles is another number than the product of the two."""
    inner = losses.WeightedSum([losses.LeastAbsolute()], [0.7])
    problem = ldpopt.Problem(losses.WeightedSum([inner], [0.7]), [Bounds(0.0, 1.0)])
    result = certified(problem, [0.5], [1.0])
    assert float(result.gap) == rounded(Fraction(0.7) * Fraction(0.7) / 2)
    # A sum times a number is stated with the product in doubles.
    problem = ldpopt.Problem(0.7 * (0.7 * losses.LeastAbsolute()), [Bounds(0.0, 1.0)])
    assert float(certified(problem, [0.5], [1.0]).gap) == 0.7 * 0.7 / 2
    assert rounded(Fraction(0.7) * Fraction(0.7) / 2) != 0.7 * 0.7 / 2


def test_terms_without_weight_do_not_count():
    loss = losses.LeastSquares() + 0.0 * losses.Entropy()
    problem = ldpopt.Problem(loss, SIMPLEX)
    assert certified(problem, [0.75, 0.25], [0.75, 0.25]).gap == 0
    price = ldpopt.Parameter("price", nonneg=True)
    price.value = 0.5
    problem = ldpopt.Problem(losses.LeastSquares() + price * losses.TotalVariation(), SIMPLEX)
    for value, gap in ((0.0, 0.0), (0.5, 0.1875)):
        price.value = value
        assert float(certified(problem, [0.75, 0.25], [0.75, 0.25]).gap) == pytest.approx(gap)


@pytest.mark.parametrize(
    ("loss", "constraints"),
    [
        (losses.LeastSquares() + losses.Entropy(), SIMPLEX),
        (losses.LeastSquares() + losses.GroupNorm([[0, 1]]), SIMPLEX),
        (losses.LeastSquares() + losses.TotalVariation(), [*SIMPLEX, Near([0.5, 0.3, 0.2], 0.1)]),
        (losses.MaxAbsolute(), [*SIMPLEX, Near([0.5, 0.3, 0.2], 0.1)]),
        (losses.GaussianMLE() + losses.TotalVariation(), SIMPLEX),
    ],
)
def test_other_sums_are_refused(loss, constraints):
    estimate = ldpopt.oracles.OUE(1.0, D).estimate([50, 40, 30], 100)
    with pytest.raises(UnsupportedProblemError, match="leave out exact=True"):
        certified(ldpopt.Problem(loss, constraints), estimate, [0.5, 0.25, 0.25])


def test_sums_on_empty_sets_have_no_gap():
    constraints = [*SIMPLEX, Linear([[1.0, 1.0, 1.0]], 2.0)]
    for loss in (losses.MaxAbsolute(), losses.LeastSquares() + losses.TotalVariation()):
        problem = ldpopt.Problem(loss, constraints)
        result = certified(problem, [0.5, 0.25, 0.0], [0.5, 0.25, 0.25])
        assert result.gap == math.inf
        assert "contradict" in result.reason


def test_any_multipliers_prove_a_gap_of_a_sum_that_holds(monkeypatch):
    """Random and wrong multipliers prove less, never too much; without any, at most the loss."""
    rng = np.random.default_rng(10)
    for kind, (loss, pieces_of) in SUMS.items():
        for name in ("chain", "top set", "rows"):
            target = target_of(SUMS, kind, name)
            weights, parts = pieces_of(fractions(target))
            lowest, minimiser = least_of_sum(kind, name)
            problem = ldpopt.Problem(loss, SETS[name])
            point = [float(x) for x in minimiser]
            f = fractions(point)
            value = squares(fractions(target), weights)(f) + value_of_kinks(parts, f)
            monkeypatch.setattr(kinked, "_refined", lambda prices, *_: prices)
            for size in (1e-9, 0.1, 10.0):
                monkeypatch.setattr(
                    kinked,
                    "_programs",
                    lambda _, joined, *rest, size=size: [
                        size * rng.normal(size=len(joined.matrix))
                    ],
                )
                gap = Fraction(float(certified(problem, target, point).gap))
                assert value - lowest <= gap <= Fraction(rounded(value)), (kind, name)
            monkeypatch.undo()


def test_without_programs_the_gap_is_at_most_the_loss(monkeypatch):
    monkeypatch.setattr(kinked, "LONG_FOR_PROGRAMS", 1)
    target = TARGETS[0]
    for loss, pieces_of in SUMS.values():
        weights, parts = pieces_of(fractions(target))
        f = fractions([0.5, 0.25, 0.25])
        value = squares(fractions(target), weights)(f) + value_of_kinks(parts, f)
        result = certified(ldpopt.Problem(loss, SETS["chain"]), target, [0.5, 0.25, 0.25])
        assert 0 < Fraction(float(result.gap)) <= value * Fraction(1 + 1e-15)


def test_a_distance_needs_a_vector_of_the_set(monkeypatch):
    loss = losses.LeastSquares() + losses.TotalVariation()
    problem = ldpopt.Problem(loss, [*SIMPLEX, Monotone([0, 1, 2])])
    monkeypatch.setattr(exact_rows, "_FEW", 0)
    result = certified(problem, [0.5, 0.3, 0.2], [0.5, 0.3, 0.4])
    assert math.isfinite(result.gap)
    assert result.distance == math.inf
    assert "near enough" in result.reason


@pytest.mark.parametrize("price", [1.0, 1000.0])
def test_a_minimiser_may_have_a_larger_loss_than_a_point_outside(price):
    """Then it is beyond the limits within which losses are as small as the point's own."""
    weights = [1.0, 3.0]
    loss = losses.WeightedLeastSquares(weights) + price * losses.L1To([0.0, 0.0])
    # A row besides, so that the nearest vector is projected: (1/2, 1/2), and (3/4, 1/4) is best.
    problem = ldpopt.Problem(loss, [SumsTo(1.0), Linear([[1.0, -1.0]], -5.0, 5.0)])
    for x in (0.0, 0.015625, 0.125, 0.375):
        result = certified(problem, [0.0, 0.0], [x, x])
        assert 0.75 - x <= result.distance < 2
        assert (0.75 - x) / math.ulp(0.75) <= result.ulps


def test_sums_without_any_term_that_counts_are_0():
    for constraints in ([], [SumsTo(1.0)], SIMPLEX, [*SIMPLEX, Monotone([0, 1])]):
        for loss in (
            0.0 * losses.LeastSquares(),
            0.0 * (losses.TotalVariation() + losses.L1To([0.5, 0.5])),
        ):
            problem = ldpopt.Problem(loss, constraints)
            assert certified(problem, [0.5, 0.5], [0.75, 0.25]).gap == 0


TINY_NOISE = FrequencyEstimate([0.5, 0.5], noise=Noise(1e-310))
USUAL_NOISE = FrequencyEstimate([1e15, 0.5], noise=Noise(1.0))


@pytest.mark.filterwarnings("error")
@every_two(
    kinks=[losses.L1To([0.0, 1.0]), losses.TotalVariation(), losses.L1To([0, 1], [1e-300, 1e300])],
    constraints=[[], SIMPLEX, [*SIMPLEX, Monotone([0, 1])]],
    extreme={
        "tiny noise": (TINY_NOISE, [0.5, 0.25], losses.GaussianMLE()),
        "tiny weight": (USUAL_NOISE, [0.5, 1e300], losses.WeightedLeastSquares([1e-300, 1.0])),
        "huge point": (USUAL_NOISE, [0.5, -1e308], losses.LeastSquares()),
        "tiny point": (USUAL_NOISE, [5e-324, 1e-310], losses.LeastSquares()),
    },
)
def test_numbers_beyond_doubles_end_in_no_error_and_no_warning(kinks, constraints, extreme):
    estimate, point, square = extreme
    for loss in (square + kinks, 1e10 * square + 1e-10 * kinks, kinks + kinks):
        result = certified(ldpopt.Problem(loss, constraints), estimate, point)
        assert result.gap >= 0
        assert result.violation >= 0


@pytest.mark.parametrize("size", [1e-22, 1e-90])
def test_an_estimate_may_be_tiny_beside_the_set(size):
    """Programs whose unit is the estimate's size alone prove nothing."""
    target = size * np.array(TARGETS[0])
    for loss, _ in SUMS.values():
        # The squares are least where all values are nearly the same, in proportion to 1/w.
        problem = ldpopt.Problem(loss, [*SIMPLEX, Monotone([0, 1, 2])])
        f = problem.solve(np.zeros(D)).frequencies
        result = certified(problem, target, f)
        assert result.gap < 1e-9
        assert result.distance < 1e-4


PENALTIES = {
    "simplex": SIMPLEX,
    "rows": [*SIMPLEX, Linear([[-1.0, 0.25, 0.5]], 0.0, 0.125)],
    "chain": [Bounds([0.125, -np.inf, -np.inf], [0.5, np.inf, np.inf]), Monotone([0, 1, 2])],
    "sum": [NonNegative(), Smooth(total_variation=0.5), Linear([[1.0, 1.0, 1.0]], 0.75, 1.0)],
}


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_alone_have_tight_gaps_where_rows_limit_the_values(name):
    """No value has a term of its own: without limits rounding of a slope leaves nothing proved."""
    loss = 0.1875 * losses.TotalVariation() + 0.1 * losses.TotalVariation([2, 0, 1])
    problem = ldpopt.Problem(loss, PENALTIES[name])
    target = [0.75, 0.0, 0.25]
    f = problem.solve(target, accuracy="high").frequencies
    assert certified(problem, target, f).gap < 1e-9


@pytest.mark.parametrize("entry", ["1/3", "1", "7", "-1/3", "-1", "-7"])
def test_a_limit_that_follows_from_a_row_is_rounded_outward(entry):
    row = {0: Fraction(entry)}
    bound = Fraction(1, 3)
    lower, upper = [None], [None]
    assert _pass([HalfSpace(row, bound, is_equation=False)], lower, upper)
    # x >= bound/entry, or x <= bound/entry: no double, and the next double lets it be.
    exact = bound / row[0]
    (limit,) = lower if row[0] > 0 else upper
    assert (lower if row[0] < 0 else upper) == [None]
    assert limit <= exact if row[0] > 0 else limit >= exact
    assert abs(limit - exact) <= Fraction(math.ulp(float(exact)))


LIMITING = {
    "rows alone": 0.1875 * losses.TotalVariation() + 0.5 * losses.TotalVariation([2, 0]),
    "values": 0.25 * losses.L1To([0.5, 0.25, 0.0]) + 0.5 * losses.TotalVariation([2, 0]),
    "the largest deviation": 2.0 * losses.MaxAbsolute(),
}


@pytest.mark.parametrize("limiting", LIMITING)
@pytest.mark.parametrize("name", PENALTIES)
def test_limits_hold_all_vectors_whose_loss_is_so_small(name, limiting):
    loss = LIMITING[limiting]
    problem = ldpopt.Problem(loss, PENALTIES[name])
    estimate = FrequencyEstimate([0.75, 0.0, 0.25])
    statement = stated(loss, estimate)
    region = problem.region(D)
    system = exact_rows.rows_of(problem, region, D)
    bounds = exact_rows.bounds_of(region)
    joined = kinked._joined(system, statement)
    # Sixteenths: sums of so few are exact in doubles.
    points = np.array(list(itertools.product(range(-4, 17), repeat=D))) / 16
    inside = points[problem.violation(points) == 0]
    for point in inside:
        f = fractions(point)
        assert violation_of(f, system, bounds) == 0
        limits = limits_of(statement, statement.value(f), bounds, joined)
        assert all(low <= x <= high for x, (low, high) in zip(f, limits, strict=True))
    assert len(inside) > 10


def smallest_by_search(term, slope, lower, upper):
    """The minimum of a term minus slope times x over all places where its derivative may change."""
    low = -50 if lower is None else lower
    high = 50 if upper is None else upper
    ends = sorted({Fraction(low), Fraction(high), *(kink.place for kink in term.kinks)})
    ends = [end for end in ends if low <= end <= high]
    candidates = list(ends)
    for first, second in itertools.pairwise(ends):
        # The parabola through three points of a piece.
        middle = (first + second) / 2
        values = [term.value(x) - slope * x for x in (first, middle, second)]
        bend = (values[0] - 2 * values[1] + values[2]) / ((second - first) / 2) ** 2
        if bend > 0:
            rise = (values[2] - values[0]) / (second - first)
            x = middle - rise / bend
            if first <= x <= second:
                candidates.append(x)
    return min(term.value(x) - slope * x for x in candidates)


def test_terms_are_smallest_where_a_search_says():
    rng = np.random.default_rng(6)

    def number(low=-4, high=5):
        return Fraction(int(rng.integers(low, high)), 4)

    for _ in range(500):
        kinks = tuple(Kink(number(1, 9), number()) for _ in range(int(rng.integers(0, 4))))
        square = number(0, 3)
        term = Term(square, number() if square else Fraction(0), number(), kinks)
        lower = number() if rng.random() < 0.5 else None
        upper = (lower or Fraction(0)) + number(0, 9) if rng.random() < 0.5 else None
        if lower is None and upper is not None:
            upper = number()
        slope = number()
        smallest = term.smallest(slope, lower, upper)
        outer = sum(kink.weight for kink in kinks)
        is_open = (lower is None and slope < -outer) or (upper is None and slope > outer)
        if square == 0 and is_open:
            assert smallest is None
        else:
            assert smallest == smallest_by_search(term, slope, lower, upper)


def test_what_is_left_of_a_cost_goes_to_a_row_that_holds():
    """Two rows bound one variable: the other one would take a first-order part of the gap."""
    one = Fraction(1)
    # t >= f and t >= -f at f = 1, with the cost 1 of t.
    both = Rows([{0: one, 1: one}, {0: -one, 1: one}], [Fraction(0)] * 2, [None] * 2, 1, 2)
    prices = duality._balanced({1: Fraction(7, 8)}, both, [one])
    assert prices == {1: one}


def test_a_set_may_have_no_rows_at_all():
    loss = losses.LeastSquares() + 0.25 * losses.L1To(REFERENCE)
    problem = ldpopt.Problem(loss, [Custom(lambda f: [])])
    f = problem.solve(TARGETS[0]).frequencies
    assert certified(problem, TARGETS[0], f).gap < 1e-9
