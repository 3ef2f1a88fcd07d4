"""Gaps from slopes at hand: never too small, and small at the minima of closed forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, losses
from ldpopt.closed_form import parts, rows
from ldpopt.closed_form.parts import _BLOCK as BLOCK
from ldpopt.closed_form.parts import _EVERY as EVERY
from ldpopt.constraints import Bounds, Linear, Monotone, Near, NonNegative, SumsTo
from ldpopt.solve.acceptance import slope_gap as slope_gap_module
from ldpopt.solve.acceptance.judge import judge
from ldpopt.solve.acceptance.slope_gap import slope_gap
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.plan import Outcome
from ldpopt.solve.status import Status
from tests.own_simplex import Simplex

D = 16
# The mean of the values' places, which is 5 at LAST.
PLACES = np.arange(float(D))
SIMPLEX = [NonNegative(), SumsTo(1.0)]
LAST = np.arange(D, 0, -1.0) / np.sum(np.arange(1.0, D + 1))
SPARSE = np.where(PLACES % 4 == 0, 0.0, LAST) / LAST[PLACES % 4 > 0].sum()
RAW = LAST + np.random.default_rng(3).normal(0, 0.05, (4, D))
SQUARES = losses.LeastSquares()
WEIGHTED = losses.WeightedLeastSquares(np.linspace(0.5, 2.0, D))
CASES = {
    "1-norm": (SQUARES, [Near(LAST, 0.2, 1)]),
    "1-norm, wide": (SQUARES, [Near(LAST, 2.0, 1)]),
    "weighted 1-norm": (SQUARES, [Near(LAST, 0.2, 1, weights=np.linspace(0.5, 2.0, D))]),
    "2-norm": (SQUARES, [Near(LAST, 0.05)]),
    "2-norm, raised": (SQUARES, [Near(LAST, 0.05), Bounds(0.003, np.inf)]),
    "divergence": (SQUARES, [Near(LAST, 0.01, "kl")]),
    "divergence, zeros": (SQUARES, [Near(SPARSE, 0.02, "kl")]),
    "row, above": (SQUARES, [Linear([PLACES], lower=[7.0])]),
    "row, below": (
        losses.WeightedLeastSquares(np.linspace(0.5, 2.0, D)),
        [Linear([PLACES], upper=[3.0])],
    ),
    "row, equation": (SQUARES, [Linear([PLACES], lower=[6.0], upper=[6.0])]),
    "row, wide": (SQUARES, [Linear([PLACES], upper=[15.0])]),
    "two terms": (SQUARES + 0.01 * losses.KLTo(LAST), [Near(LAST, 0.05)]),
    "groups": (SQUARES + 0.02 * losses.GroupNorm([[0, 1, 2], [3, 4, 5, 6]]), []),
    "largest": (losses.MaxAbsolute(), []),
}


@pytest.fixture(autouse=True, params=["short", "long"])
def raw(request, monkeypatch):
    """All is computed twice, for one vector by the compiled sweeps that long ones take."""
    if request.param == "short":
        return RAW
    monkeypatch.setattr(rows, "_LONG", 0)
    # Of a vector in parts the sums must be those of all.
    monkeypatch.setattr(parts, "_PART", 5)
    return RAW[0]


def problem_of(case):
    loss, more = CASES[case]
    return Problem(loss, [*SIMPLEX, *more])


@pytest.mark.parametrize("case", CASES)
def test_minima_are_proved_without_a_program(case, raw, monkeypatch):
    def evidence(*_):
        raise AssertionError("a program was solved")

    monkeypatch.setattr(polyhedron, "evidence", evidence)
    problem = problem_of(case)
    solution = problem.solve(raw)
    assert solution.path == "closed-form"
    assert solution.status is Status.OPTIMAL
    gap, terms, _ = slope_gap(problem, solution.start, solution.frequencies)
    assert gap.shape == terms.shape == raw.shape[:-1]
    assert (gap <= 1e-9 * np.maximum(terms, 1e-3)).all()


@pytest.mark.parametrize("case", CASES)
def test_no_gap_is_smaller_than_the_true_one(case):
    """At points between the minimum and random ones of the set, some of them on its boundary."""
    problem = problem_of(case)
    estimate = FrequencyEstimate(RAW[0])
    best = problem.solve(estimate)
    rng = np.random.default_rng(5)
    other = problem.minimise(RAW[1])
    points = [(1 - share) * best.frequencies + share * other for share in (1e-6, 1e-3, 0.1)]
    points += [problem.minimise(target) for target in rng.normal(LAST, 0.1, (5, D))]
    for f in points:
        excess = problem.loss.value(f, estimate) - best.objective
        gap = slope_gap(problem, estimate, f).gap
        assert gap >= excess * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("scale", [0.999, 1.001])
def test_a_point_off_its_total_pays_for_it(case, scale):
    """One of both points has a lower loss than the minimum has, and the other a higher one."""
    problem = problem_of(case)
    # Far above the total, so that it has a price.
    estimate = FrequencyEstimate(RAW[0] + 1)
    best = problem.solve(estimate)
    f = scale * best.frequencies
    excess = problem.loss.value(f, estimate) - best.objective
    gap = slope_gap(problem, estimate, f).gap
    assert gap >= excess * (1 - 1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("share", [0.0, 1e-3, 0.3])
def test_compiled_sweeps_give_what_numpy_gives(case, share, monkeypatch):
    """Also where the reference of a divergence has zeros, and a value is below its bound."""
    problem = problem_of(case)
    estimate = FrequencyEstimate(RAW[2])
    points = problem.solve(RAW[2:]).frequencies
    f = (1 - share) * points[0] + share * points[1]
    if share == 0.3 and case != "two terms":  # which are infinite there
        f[3] = -1e-12
    one = slope_gap(problem, estimate, f)
    monkeypatch.setattr(rows, "_LONG", 1 << 60)
    other = slope_gap(problem, estimate, f)
    # Open numbers of a normal are chosen by slopes that may be rounded otherwise.
    assert_allclose(one.gap, other.gap, rtol=1e-9, atol=1e-14)
    assert_allclose(one.terms, other.terms, rtol=1e-12)


WEIGHTS = np.linspace(0.5, 2.0, D)
BALLS = [Near(LAST, 0.2, 1), Near(LAST, 0.2, 1, weights=WEIGHTS), Near(LAST, 0.05)]
BALLS += [Near(LAST, 0.01, "kl"), Near(LAST / 2, 0.01, "kl")]


@pytest.mark.parametrize("ball", BALLS, ids=str)
@pytest.mark.parametrize("share", [0.0, 0.5, 3.0])
def test_the_violation_of_a_ball_is_what_the_ball_states(ball, share, raw):
    """Inside, outside, and where some values are those of the reference."""
    problem = Problem(SQUARES, [*SIMPLEX, ball])
    estimate = FrequencyEstimate(RAW[0])
    away = np.where(PLACES < D / 2, np.sin(PLACES), 0.0)
    f = LAST * np.exp(share * away)
    measured = measured_at(problem, estimate, f)
    if raw.ndim > 1:
        assert not measured
        return
    assert set(measured) == set(problem.constraints)
    for constraint, violation in measured.items():
        assert_allclose(violation, constraint.violation(f), rtol=1e-12, atol=1e-15)
    assert (measured[ball] > 0) == (ball.violation(f) > 0)


def measured_at(problem, estimate, f):
    """Return what the sweeps have measured, by constraint."""
    return dict(slope_gap(problem, estimate, f).measured)


@pytest.mark.parametrize("scale", [0.9, 1.0, 2.0])
def test_values_at_zero_add_their_reference_to_a_divergence(scale, raw):
    f = scale * np.where(PLACES == 2, 0.0, LAST)
    ball = Near(LAST, 0.11, "kl")
    total = SumsTo(1.0)
    problem = Problem(SQUARES, [NonNegative(), total, ball])
    measured = measured_at(problem, FrequencyEstimate(RAW[0]), f)
    if raw.ndim > 1:
        assert not measured
        return
    assert_allclose(measured[total], total.violation(f), rtol=1e-12)
    assert_allclose(measured[ball], ball.violation(f), rtol=1e-12, atol=1e-15)
    assert (measured[ball] > 0) == (ball.violation(f) > 0) == (scale == 2.0)


@pytest.mark.parametrize("value", [1e-3, -1e-3])
def test_where_a_divergence_is_infinite_the_ball_measures_its_violation_itself(value, monkeypatch):
    # Of two parts of a vector the first has a zero too, and the last has zeros alone.
    monkeypatch.setattr(parts, "_PART", 8)
    f = SPARSE.copy()
    # A reference of 0 has no value above it, and none is below 0.
    f[4] = value
    ball = Near(SPARSE, 0.02, "kl")
    problem = Problem(SQUARES, [*SIMPLEX, ball])
    assert ball not in measured_at(problem, FrequencyEstimate(RAW[0]), f)


class Stricter(Near):
    """A ball of somebody else, who counts violations in another way."""

    def violation(self, f):
        return super().violation(f) + 1.0

    cone_form = Near.cone_form


class StricterRow(Linear):
    """A row of somebody else, who counts violations in another way."""

    def violation(self, f):
        return super().violation(f) + 1.0

    rows = Linear.rows
    cone_form = Linear.cone_form


ROWS = [
    Linear([PLACES], lower=[7.0]),
    Linear([PLACES], upper=[3.0]),
    Linear([PLACES], lower=[5.5], upper=[5.5]),
    Linear([PLACES], lower=[3.0], upper=[7.0]),
    Linear([PLACES], lower=[-np.inf], upper=[np.inf]),
]


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_the_violation_of_a_row_is_what_the_row_states(row, scale, raw):
    f = scale * LAST
    measured = measured_at(Problem(SQUARES, [*SIMPLEX, row]), FrequencyEstimate(RAW[0]), f)
    if raw.ndim > 1:
        assert not measured
        return
    assert measured[row] == row.violation(f)


def test_a_total_with_bounds_is_violated_by_these_too(raw):
    whole = Simplex(1.0)
    row = ROWS[0]
    f = np.append(-0.25, np.full(D - 1, 1.25 / (D - 1)))
    measured = measured_at(Problem(SQUARES, [whole, row]), FrequencyEstimate(RAW[0]), f)
    assert whole not in measured
    assert whole.violation(f) == 0.25


@pytest.mark.parametrize("cut", [Stricter(LAST, 0.05), StricterRow([PLACES], upper=[7.0])])
def test_a_class_of_somebody_else_measures_its_violation_itself(cut):
    problem = Problem(SQUARES, [*SIMPLEX, cut])
    bound = slope_gap(problem, FrequencyEstimate(RAW[0]), LAST)
    assert bound is None or cut not in dict(bound.measured)


@pytest.mark.parametrize("ball", BALLS[:-1], ids=str)
@pytest.mark.parametrize("further", [1e-6, np.nan])
def test_a_point_outside_its_ball_is_not_optimal(ball, further):
    """The loss has no slope at one of them, so that nothing else is wrong."""
    problem = Problem(SQUARES, [*SIMPLEX, ball])
    away = np.sin(PLACES) * LAST
    away -= away.sum() * LAST
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        is_inside = ball.violation(LAST + middle * away) == 0
        low, high = (middle, high) if is_inside else (low, middle)
    inside = LAST + (low - 1e-6) * away
    outside = LAST + (high + further) * away
    plan = problem.plan(inside)
    for point, is_optimal in ((inside, True), (outside, False)):
        judgement = judge(problem, FrequencyEstimate(inside), Outcome(point), plan, "high")
        assert (judgement.status is Status.OPTIMAL) == is_optimal
        assert is_optimal or "is violated by" in judgement.reason


@pytest.mark.parametrize("blocks", [3, 2 * EVERY + 3])
@pytest.mark.parametrize("block", [0, 1, EVERY, 2 * EVERY + 2])
def test_the_values_that_tell_a_price_may_be_in_any_block(blocks, block, monkeypatch):
    """Of a long vector only two values are free, in a block that is looked at first or is not."""

    def all_of(_):
        raise AssertionError("all values were looked at")

    if parts._PART < BLOCK:
        # A part that ends within a block still: of five values there would be thousands.
        monkeypatch.setattr(parts, "_PART", BLOCK + 5)
    d = blocks * BLOCK
    first = min(block, blocks - 1) * BLOCK
    target = np.full(d, -1.0)
    target[first : first + 2] = 0.4, 0.5
    # All but the first of the two share .3.
    shared = np.where(np.arange(d) == first, 0.0, 1.0)
    row = Linear([shared], upper=[0.3])
    problem = Problem(SQUARES, [*SIMPLEX, row])
    estimate = FrequencyEstimate(target)
    best = np.zeros(d)
    best[first : first + 2] = 0.7, 0.3
    with monkeypatch.context() as context:
        if block % EVERY == 0 and block < blocks:
            context.setattr(slope_gap_module, "whole", all_of)
        gap, terms, _ = slope_gap(problem, estimate, best)
    assert gap <= 1e-12 * terms
    moved = best.copy()
    moved[first : first + 2] += 1e-3, -1e-3
    assert slope_gap(problem, estimate, moved).gap > 1e-6


@pytest.mark.parametrize("case", ["1-norm", "1-norm, steep", 2, "kl"])
def test_a_point_inside_the_ball_pays_for_what_is_left_of_it(case):
    """The slopes at f cancel against the normal, so that μ slack is all that is left of the gap."""
    slopes = np.sin(np.arange(D))
    slopes -= slopes.mean()
    step = 1e-4 * slopes
    norm = case
    if case == "1-norm":
        step = 1e-3 * (np.eye(D)[slopes.argmax()] - np.eye(D)[slopes.argmin()])
        norm = 1
    elif case == "1-norm, steep":
        # Slopes of values at the reference are steeper than those of the two that are off it.
        step = 1e-3 * (np.eye(D)[1] - np.eye(D)[3])
        norm = 1
    f = LAST - step if norm != "kl" else LAST * np.exp(-step)
    f = f / f.sum()
    # So far away that the loss is nearly linear on the set.
    estimate = FrequencyEstimate(f - 1e3 * slopes)
    problem = Problem(SQUARES, [*SIMPLEX, Near(LAST, 0.01, norm)])
    best = problem.solve(estimate)
    excess = problem.loss.value(f, estimate) - best.objective
    assert excess > 1
    assert slope_gap(problem, estimate, f).gap >= excess * (1 - 1e-6)


def test_slopes_that_overflow_prove_nothing():
    loss = losses.WeightedLeastSquares(np.geomspace(1.0, 1e14, D))
    problem = Problem(loss, [*SIMPLEX, Near(LAST, 2.0, "kl")])
    far = np.zeros(D)
    far[-2:] = 0.5
    assert np.isposinf(slope_gap(problem, FrequencyEstimate(RAW[0]), far).gap)


def test_infinite_slopes_prove_nothing():
    loss = SQUARES + 0.01 * losses.KLTo(LAST)
    f = LAST.copy()
    f[0] += f[3]
    f[3] = 0.0
    problem = Problem(loss, [*SIMPLEX, Near(LAST, 2.0)])
    assert slope_gap(problem, FrequencyEstimate(RAW[0]), f) is None


@pytest.mark.parametrize(
    "sets",
    [
        [*SIMPLEX, Near(LAST, 0.2), Near(LAST, 0.3, 1)],
        [*SIMPLEX, Bounds(0.0, 0.5), Near(LAST, 0.2)],
        [NonNegative(), Near(LAST, 0.2)],
        [SumsTo(1.0), Near(LAST, 0.2)],
        [*SIMPLEX, Monotone(np.arange(D)), Near(LAST, 0.2)],
    ],
)
def test_other_sets_are_left_to_programs(sets):
    inside = 0.9 * LAST + 0.1 / D
    assert slope_gap(Problem(SQUARES, sets), FrequencyEstimate(RAW[0]), inside) is None


@pytest.mark.filterwarnings("ignore:the solution is inaccurate")
@pytest.mark.parametrize("exponent", [20, 24, 28, 32, 36])
def test_a_row_that_is_nearly_the_total_is_known_to_bits_alone(exponent):
    """With 1,024 + e k for k it states the same, and rounding of its value costs 1/e times."""
    rng = np.random.default_rng(exponent)
    e = 2.0**-exponent
    # A bound that leaves the rounding out is below the rise at 2^-20 alone, in one of 20 problems.
    for _ in range(20 if exponent == 20 else 6):
        k = rng.integers(-8, 9, D).astype(float)
        limit = np.round(rng.uniform(k.min(), k.max()) * 16) / 16
        raw = rng.normal(1 / D, 1.0, D)
        plain = Problem(SQUARES, [*SIMPLEX, Linear([k], upper=[limit])]).solve(raw)
        steep_row = Linear([1024 + e * k], upper=[1024 + e * limit])
        steep = Problem(SQUARES, [*SIMPLEX, steep_row]).minimise(raw)
        excess = SQUARES.value(steep, plain.start) - plain.objective
        bound = slope_gap(Problem(SQUARES, [*SIMPLEX, steep_row]), plain.start, steep)
        assert bound.gap >= excess * (1 - 1e-6) - 1e-13 * bound.terms
