"""Exact certificates of sets with auxiliary variables, of cvxpy's rows, of absolute deviations.

Each set is written out in f alone by hand, with all signs of its sums, and its minimiser is the
best of all choices of active rows in fractions.
"""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ldpopt
from ldpopt import losses
from ldpopt.constraints import (
    Bounds,
    Custom,
    Linear,
    LinearInequalities,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
)
from ldpopt.constraints.base import Polyhedron
from ldpopt.errors import UnsupportedProblemError
from ldpopt.solve.certificate.exact import duality, kinked
from ldpopt.solve.certificate.exact import rows as exact_rows
from ldpopt.solve.certificate.exact.half_spaces import Rows
from tests.test_exact_certificate import (
    assert_proved,
    certified,
    fractions,
    polyhedron_minimiser,
    rounded,
    rows_of,
    solved_system,
    squares,
)

SIMPLEX = [NonNegative(), SumsTo(1.0)]


def signed_sums(matrix, bound, centre=0.0, weights=1.0):
    """Σ w |A f - c| <= bound as one row for each choice of signs."""
    matrix = np.asarray(matrix, dtype=float)
    m = len(matrix)
    terms = weights * np.ones(m)
    rows = []
    limits = []
    for signs in itertools.product((-1.0, 1.0), repeat=m):
        rows.append((terms * signs) @ matrix)
        limits.append(bound + (terms * signs) @ (centre * np.ones(m)))
    return Linear(rows, -math.inf, limits)


FIRST = np.diff(np.eye(4), axis=0)
SECOND = np.diff(np.eye(4), 2, axis=0)
PAIRS = [[1, -1, 0, 0], [1, 0, 0, -1], [0, -1, 1, 0], [0, 0, 1, -1]]

SETS = {
    "top set": ([*SIMPLEX, TopSet([0, 2])], [*SIMPLEX, Linear(PAIRS, 0.0)]),
    "top set alone": ([TopSet([0, 2])], [Linear(PAIRS, 0.0)]),
    "variation": (
        [SumsTo(1.0), Smooth(total_variation=0.25)],
        [SumsTo(1.0), signed_sums(FIRST, 0.25)],
    ),
    "variation along an order": (
        [SumsTo(1.0), Smooth(total_variation=0.25, order=[3, 0, 2])],
        [SumsTo(1.0), signed_sums([[1, 0, 0, -1], [-1, 0, 1, 0]], 0.25)],
    ),
    "second differences": (
        [Bounds(0.0, math.inf), Smooth(second_difference=0.125)],
        [Bounds(0.0, math.inf), signed_sums(SECOND, 0.125)],
    ),
    "no variation": (
        [SumsTo(1.0), Smooth(total_variation=0.0)],
        [SumsTo(1.0), Linear(FIRST, 0.0, 0.0)],
    ),
    "ball of the 1-norm": (
        [Near([0.5, 0.25, 0.125], 0.125, norm=1)],
        [signed_sums(np.eye(3), 0.125, [0.5, 0.25, 0.125])],
    ),
    "ball with weights": (
        [Near([0.5, 0.25, 0.125], 0.25, norm=1, weights=[1.0, 2.0, 0.5])],
        [signed_sums(np.eye(3), 0.25, [0.5, 0.25, 0.125], np.array([1.0, 2.0, 0.5]))],
    ),
    "rows of cvxpy": (
        [*SIMPLEX, Custom(lambda f: [f[0] - 0.3 * f[1] <= 0.1, f[2] == f[3]])],
        [*SIMPLEX, Linear([[1.0, -0.3, 0.0, 0.0]], -math.inf, 0.1), Linear([[0, 0, 1, -1]], 0, 0)],
    ),
}
"""Constraints, and what they are in f alone."""


def size_of(name):
    """Fewer values where there is a row for each choice of signs of all of them."""
    return 3 if name.startswith("ball") else 4


@cache
def minimiser_on(name, target, weights):
    """The minimiser in fractions: for steps of both kinds, whose choices of rows are the same."""
    _, written_out = SETS[name]
    return polyhedron_minimiser(target, weights, *rows_of(written_out, size_of(name)))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("steps", ["both", "dual"])
def test_sets_are_those_of_all_choices_of_rows_in_f_alone(name, is_weighted, steps, monkeypatch):
    constraints, _ = SETS[name]
    rng = np.random.default_rng(4)
    if steps == "dual":
        monkeypatch.setattr(exact_rows, "_by_repairs", lambda *_: None)
    d = size_of(name)
    target = rng.normal(0.25, 0.4, d)
    weights = rng.uniform(0.2, 5.0, d) if is_weighted else np.ones(d)
    loss = losses.WeightedLeastSquares(weights) if is_weighted else losses.LeastSquares()
    problem = ldpopt.Problem(loss, constraints)
    exact_target = fractions(target)
    exact_weights = fractions(weights)
    minimiser = minimiser_on(name, tuple(exact_target), tuple(exact_weights))
    right = problem.solve(target).frequencies
    for point in (right, right + rng.normal(0, 1e-3, d), np.full(d, 0.25)):
        result = certified(problem, target, point)
        assert_proved(result, squares(exact_target, exact_weights), minimiser, point)


eighths = st.integers(-8, 16).map(lambda number: number / 8)


@given(
    target=st.lists(eighths, min_size=3, max_size=3),
    point=st.lists(eighths, min_size=3, max_size=3),
    bound=st.integers(0, 6).map(lambda number: number / 8),
    orders=st.sampled_from([(1,), (2,), (1, 2)]),
)
@settings(max_examples=25)
def test_ties_and_vertices_of_bounded_sums(target, point, bound, orders):
    """Multiples of 1/8 meet each other, their bounds and the corners of the sums."""
    bounds = {1: "total_variation", 2: "second_difference"}
    smooth = Smooth(**{bounds[order]: bound for order in orders})
    written_out = [signed_sums(np.diff(np.eye(3), order, axis=0), bound) for order in orders]
    minimiser = polyhedron_minimiser(
        fractions(target), [Fraction(1)] * 3, *rows_of([SumsTo(1.0), *written_out], 3)
    )
    problem = ldpopt.Problem(losses.LeastSquares(), [SumsTo(1.0), smooth])
    result = certified(problem, target, point)
    assert_proved(result, squares(fractions(target), [Fraction(1)] * 3), minimiser, point)


@pytest.mark.parametrize("name", SETS)
def test_violations_are_exact(name):
    constraints, written_out = SETS[name]
    problem = ldpopt.Problem(losses.LeastSquares(), constraints)
    d = size_of(name)
    point = [0.7, 0.1, 0.3, -0.2][:d]
    here = fractions(point)
    matrix, lower, upper = rows_of(written_out, d)
    excess = Fraction(0)
    for row, low, high in zip(matrix, lower, upper, strict=True):
        height = sum(x * y for x, y in zip(fractions(row), here, strict=True))
        excess = max([excess, *(Fraction(low) - height for _ in [0] if math.isfinite(low))])
        excess = max([excess, *(height - Fraction(high) for _ in [0] if math.isfinite(high))])
    # Rows of sums that are 0 at their bound count each term in the sum, not alone.
    if name == "no variation":
        excess = sum(abs(x - y) for x, y in itertools.pairwise(here))
    assert certified(problem, [0.25] * d, point).violation == rounded(excess)


@pytest.mark.parametrize("name", ["top set", "variation", "ball with weights", "rows of cvxpy"])
def test_one_last_place_is_seen(name):
    constraints, _ = SETS[name]
    problem = ldpopt.Problem(losses.LeastSquares(), constraints)
    d = size_of(name)
    target = [0.7, 0.6, -0.3, 0.25][:d]
    right = certified(problem, target, [0.25] * d).minimiser
    assert certified(problem, target, right).ulps <= 0.5
    for v in range(d):
        wrong = right.copy()
        wrong[v] += 3 * math.ulp(max(abs(right)))
        assert 2.5 <= certified(problem, target, wrong).ulps <= 3.5


def test_a_solver_s_point_needs_no_second_look(monkeypatch):
    """The rows that its point suggests are the active ones, in long vectors too."""
    monkeypatch.setattr(exact_rows, "_by_dual_steps", lambda *_: "not tried")
    rng = np.random.default_rng(0)
    d = 24
    for constraint in (
        TopSet([0, 1, 3]),
        Smooth(total_variation=0.3),
        Smooth(0.3, 0.2),
        Near(np.full(d, 1 / d), 0.2, norm=1),
    ):
        problem = ldpopt.Problem(losses.LeastSquares(), [*SIMPLEX, constraint])
        raw = rng.normal(1 / d, 1 / d, d)
        f = problem.solve(raw, accuracy="high").frequencies
        result = certified(problem, raw, f)
        assert result.reason == ""
        assert result.distance < 1e-12


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_multipliers_that_point_to_a_side_without_a_bound_hold_no_row(name, sign, monkeypatch):
    """What rounding leaves of multipliers, where a total explains all, has any sign."""
    constraints, written_out = SETS[name]
    d = size_of(name)
    target = [0.7, -0.2, 0.4, 0.1][:d]
    ones = [Fraction(1)] * d
    suggested = duality.suggested
    monkeypatch.setattr(duality, "suggested", lambda *given: sign + 0.0 * suggested(*given))
    minimiser = polyhedron_minimiser(fractions(target), ones, *rows_of(written_out, d))
    result = certified(ldpopt.Problem(losses.LeastSquares(), constraints), target, [0.25] * d)
    assert_proved(result, squares(fractions(target), ones), minimiser, [0.25] * d)


def test_the_answer_under_a_total_and_a_loose_variation_is_certified_exactly():
    loss = losses.WeightedLeastSquares([1e6, 1.0])
    problem = ldpopt.Problem(loss, [SumsTo(0.1), Smooth(0.55), Monotone([1, 0])])
    target = [-0.21, 0.98]
    assert certified(problem, target, problem.solve(target).frequencies).ulps < 4


def test_contradictions_and_other_auxiliary_variables():
    problem = ldpopt.Problem(
        losses.LeastSquares(), [Smooth(total_variation=0.1), Bounds([0, 0.5], [0.1, 0.6])]
    )
    result = certified(problem, [0.3, 0.3], [0.3, 0.3])
    assert result.gap == np.inf
    assert "contradict" in result.reason

    class Apart(Polyhedron):
        """f_0 - f_1 <= s - t for some s and t between 0 and 0.1: no t fits all rows best."""

        def rows(self, d):
            matrix = np.zeros((3, d))
            matrix[0, :2] = [1.0, -1.0]
            auxiliary = np.array([[-1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
            from scipy import sparse

            return LinearInequalities(
                sparse.csr_array(matrix),
                np.array([-np.inf, 0.0, 0.0]),
                np.array([0.0, 0.1, 0.1]),
                sparse.csr_array(auxiliary),
            )

        def violation(self, f):
            return np.maximum(f[..., 0] - f[..., 1] - 0.1, 0.0)

    problem = ldpopt.Problem(losses.LeastSquares(), [Apart()])
    with pytest.raises(UnsupportedProblemError, match="sums of absolute values"):
        certified(problem, [0.5, 0.2], [0.4, 0.3])


def test_a_candidate_outside_the_set_is_none(monkeypatch):
    """A sum that is held without its terms ties no value: the dual steps take over."""
    constraints, written_out = SETS["variation"]
    target = [0.7, -0.2, 0.4, 0.1]
    ones = [Fraction(1)] * 4
    monkeypatch.setattr(exact_rows, "_suggested", lambda *_: ({0: -1, 7: 1}, {}))
    monkeypatch.setattr(exact_rows, "_hold_terms", lambda *_: False)
    minimiser = polyhedron_minimiser(fractions(target), ones, *rows_of(written_out, 4))
    problem = ldpopt.Problem(losses.LeastSquares(), constraints)
    result = certified(problem, target, [0.25] * 4)
    assert_proved(result, squares(fractions(target), ones), minimiser, [0.25] * 4)


def test_multipliers_that_leave_a_slope_of_an_auxiliary_variable_prove_nothing():
    one = Fraction(1)
    # f >= s + t holds for any f, with s and t low enough.
    free = [Fraction(0)] * 2
    loose = Rows([{0: one, 1: -one, 2: -one}], [Fraction(0)], [None], 1, 3)
    assert duality.lower_bound(np.ones(1), loose, lambda *_: one, free) is None
    assert duality.lower_bound(np.zeros(1), loose, lambda *_: one, free) == 1


@pytest.mark.parametrize("name", ["top set", "variation", "second differences", "rows of cvxpy"])
def test_where_rows_do_not_settle_the_gap_is_proved_all_the_same(name, monkeypatch):
    constraints, _ = SETS[name]
    problem = ldpopt.Problem(losses.WeightedLeastSquares([1.0, 0.3, 2.0, 0.7]), constraints)
    target = [0.7, 0.6, -0.3, 0.25]
    f = problem.solve(target).frequencies
    for point in (f, f + np.array([0.01, 0.0, 0.02, 0.0])):
        settled = certified(problem, target, point)
        with monkeypatch.context() as patch:
            patch.setattr(exact_rows, "_minimiser", lambda *_: "not tried")
            proved = certified(problem, target, point)
        assert proved.reason == "not tried"
        assert proved.distance == np.inf
        assert settled.gap <= proved.gap
    # At the minimum a gap of rounding is left.
    with monkeypatch.context() as patch:
        patch.setattr(exact_rows, "_minimiser", lambda *_: "not tried")
        assert certified(problem, target, f).gap < 1e-9


# Absolute deviations


def smallest_deviation(target, weights, matrix, lower, upper):
    """min Σ w |f - f̃| of all points where d rows or kinks meet: a linear program has one there."""
    d = len(target)
    planes = {(tuple(Fraction(int(v == u)) for u in range(d)), target[v]) for v in range(d)}
    rows = [fractions(row) for row in matrix]
    for row, low, high in zip(rows, lower, upper, strict=True):
        planes |= {(tuple(row), Fraction(end)) for end in (low, high) if math.isfinite(end)}
    best = None
    for chosen in itertools.combinations(sorted(planes), d):
        f = solved_system([row for row, _ in chosen], [end for _, end in chosen])
        if f is None:
            continue
        heights = [sum(x * y for x, y in zip(row, f, strict=True)) for row in rows]
        if all(low <= x <= high for low, x, high in zip(lower, heights, upper, strict=True)):
            value = deviation(f, target, weights)
            best = value if best is None else min(best, value)
    return best


def deviation(f, target, weights):
    terms = zip(weights, f, target, strict=True)
    return sum((w * abs(x - y) for w, x, y in terms), Fraction(0))


POLYHEDRA = {
    "no constraints": ([], []),
    "total": ([SumsTo(1.0)], [SumsTo(1.0)]),
    "simplex": (SIMPLEX, SIMPLEX),
    "bounds": ([Bounds(0.05, 0.4), SumsTo(1.0)], [Bounds(0.05, 0.4), SumsTo(1.0)]),
    "chain": ([*SIMPLEX, Monotone([0, 1, 2, 3])], [*SIMPLEX, Monotone([0, 1, 2, 3])]),
    **{name: SETS[name] for name in ("top set", "second differences", "rows of cvxpy")},
}


@pytest.mark.parametrize("name", POLYHEDRA)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_gaps_of_absolute_deviations_hold_and_are_tight(name, is_weighted):
    constraints, written_out = POLYHEDRA[name]
    rng = np.random.default_rng(5)
    reference = rng.normal(0.25, 0.3, 4)
    weights = rng.uniform(0.2, 5.0, 4) if is_weighted else np.ones(4)
    loss = losses.L1To(reference, weights) if is_weighted else losses.LeastAbsolute()
    problem = ldpopt.Problem(loss, constraints)
    exact_weights = fractions(weights)
    lowest = smallest_deviation(fractions(reference), exact_weights, *rows_of(written_out, 4))
    f = problem.solve(reference, accuracy="high").frequencies
    for point in (f, f + rng.normal(0, 1e-6, 4), f + rng.normal(0, 0.1, 4), np.full(4, 0.25)):
        result = certified(problem, reference, point)
        rise = deviation(fractions(point), fractions(reference), exact_weights) - lowest
        gap = Fraction(float(result.gap))
        assert rise <= gap
        assert gap <= max(rise, 0) + Fraction(1, 10**9)
        assert (result.distance, result.minimiser) == (np.inf, None)
        assert "several minimisers" in result.reason
        # On bounds and a total, multipliers are exact.
        if problem.is_box(4):
            assert float(result.gap) == max(rounded(rise), 0.0)


def test_a_planted_error_of_absolute_deviations_is_counted_exactly():
    problem = ldpopt.Problem(losses.LeastAbsolute(), SIMPLEX)
    right = [0.5, 0.5, 0.0]
    assert certified(problem, [0.5, 0.625, -0.125], right).gap == 0
    wrong = [0.5 - 2.0**-50, 0.5, 2.0**-50]
    result = certified(problem, [0.5, 0.625, -0.125], wrong)
    assert (result.gap, result.violation) == (2.0**-49, 0)


def test_any_multipliers_prove_a_gap_that_holds(monkeypatch):
    """Random and wrong multipliers prove less, never too much."""
    rng = np.random.default_rng(9)
    for name in ("chain", "top set", "second differences", "rows of cvxpy"):
        constraints, written_out = POLYHEDRA[name]
        target = rng.normal(0.25, 0.3, 4)
        ones = [Fraction(1)] * 4
        lowest = smallest_deviation(fractions(target), ones, *rows_of(written_out, 4))
        problem = ldpopt.Problem(losses.LeastAbsolute(), constraints)
        point = problem.solve(target).frequencies
        right = duality.suggested(problem, problem.start_of(target), point)
        rise = deviation(fractions(point), fractions(target), ones) - lowest
        for size in (1e-9, 0.1, 10.0):
            wrong = right + size * rng.normal(size=len(right))
            monkeypatch.setattr(duality, "suggested", lambda *_, wrong=wrong: wrong)
            gap = float(certified(problem, target, point).gap)
            assert rise <= (Fraction(gap) if math.isfinite(gap) else math.inf)
        monkeypatch.undo()


@pytest.mark.parametrize(
    "constraints",
    [
        [*SIMPLEX, Linear([[1.0, 1.0, 1.0]], 2.0)],
        [*SIMPLEX, Near([1.0, 1.0, 1.0], 0.5, norm=1)],
        [Linear([[0.1, 0.2, 0.0], [0.1, 0.2, 0.0]], [0.0, 1e-300], [0.0, 1e-300])],
        # In doubles these sum to 0.6, in truth to more.
        [Bounds([0.1, 0.2, 0.3], math.inf), SumsTo(0.6)],
    ],
)
def test_absolute_deviations_on_empty_sets_have_no_gap(constraints):
    problem = ldpopt.Problem(losses.LeastAbsolute(), constraints)
    estimate = ldpopt.FrequencyEstimate([0.5, 0.25, 0.0])
    for point in ([0.5, 0.25, 0.0], [0.1, 0.2, 0.3], [0.0, 0.0, 0.0]):
        result = certified(problem, estimate, np.array(point))
        assert result.gap == math.inf
        assert "contradict" in result.reason


def test_gaps_of_absolute_deviations_are_tight_on_a_single_vector_and_far_away():
    """Bounds that follow from rows have no multipliers, and a far point no size of the program."""
    order = [2, 3, 4, 0, 5, 1]
    smooth = Smooth(total_variation=1 / 3, second_difference=1.4, order=order)
    reference = np.array([-1.625, 0.375, -0.25, -0.5, 0.75, 0.25])
    weights = np.array([1.0, 0.875, 3.75, 2.0, 2.0, 1.0])
    loss = losses.L1To(reference, weights)
    problem = ldpopt.Problem(loss, [NonNegative(), SumsTo(0.0), smooth])
    estimate = ldpopt.FrequencyEstimate(reference)
    minimum = sum(w * abs(x) for w, x in zip(fractions(weights), fractions(reference), strict=True))
    for point in (np.zeros(6), np.full(6, -1e-11), np.full(6, 1e-100), np.full(6, 10.0)):
        parts = zip(fractions(weights), fractions(point), fractions(reference), strict=True)
        rise = sum(w * abs(x - y) for w, x, y in parts) - minimum
        assert certified(problem, estimate, point).gap == rounded(max(rise, Fraction(0)))


def test_gaps_of_absolute_deviations_are_at_most_the_loss(monkeypatch):
    monkeypatch.setattr(duality, "suggested", lambda *_: np.array([1e22, -1e22]))
    monkeypatch.setattr(kinked, "_programs", lambda *_: [])
    constraints = [SumsTo(1.0), Linear([[1.0, 0.0, 0.0]], 0.0, 1.0)]
    problem = ldpopt.Problem(losses.LeastAbsolute(), constraints)
    estimate = ldpopt.FrequencyEstimate([0.5, 0.25, 0.0])
    assert certified(problem, estimate, np.array([0.5, 0.5, 0.0])).gap <= 0.25
