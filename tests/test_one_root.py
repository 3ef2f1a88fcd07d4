"""Separable losses on boxes: against solvers, their own gap and exact reasoning."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate, Problem, certify, closed_form, losses, oracles
from ldpopt.constraints import (
    Bounds,
    Fixed,
    GroupTotals,
    Linear,
    Margins,
    Near,
    NonNegative,
    SumsTo,
)
from ldpopt.solve.paths.closed_forms import closed_form_for, solve_one_root
from tests import reference
from tests.every_two import every_two
from tests.tolerances import CERTIFIED, OBJECTIVE, SOLVER, SUM

INF = np.inf
ONE_ROOT = "one root"
N = 5000
LOSSES = {
    "least squares": (lambda d: losses.LeastSquares(), oracles.OUE),
    "weighted": (
        lambda d: losses.WeightedLeastSquares(np.random.default_rng(d).uniform(0.2, 5, d)),
        oracles.OUE,
    ),
    "gaussian, kappa > 0": (lambda d: losses.GaussianMLE(), oracles.OUE),
    "gaussian, kappa = 0": (lambda d: losses.GaussianMLE(), oracles.SUE),
    "gaussian, kappa < 0": (lambda d: losses.GaussianMLE(), oracles.HadamardResponse),
    "binomial, kappa > 0": (lambda d: losses.BinomialMLE(), oracles.OUE),
    "binomial, kappa = 0": (lambda d: losses.BinomialMLE(), oracles.SUE),
    "binomial, kappa < 0": (lambda d: losses.BinomialMLE(), oracles.HadamardResponse),
    "multinomial": (lambda d: losses.MultinomialMLE(), oracles.GRR),
}
QUADRATIC = ("least squares", "weighted")


def collected(oracle, d, trials=None, seed=0):
    if d == 1:  # no oracle: there is nothing to hide
        return FrequencyEstimate(
            [0.7] if trials is None else np.linspace(0.5, 1.5, trials)[:, None]
        )
    population = np.random.default_rng(seed).multinomial(
        N, (w := np.arange(1.0, d + 1) ** -1.2) / w.sum()
    )
    chosen = oracle(epsilon=1.5, d=d)
    return chosen.estimate(chosen.simulate_counts(population, seed, trials), N)


def random_box(d):
    """Different bounds a value, around a distribution."""
    rng = np.random.default_rng(d + 1)
    centre = rng.dirichlet(np.ones(d))
    lower, upper = centre * rng.uniform(0.2, 0.9, d), np.minimum(1, centre * rng.uniform(1.1, 3, d))
    return [Bounds(lower, upper)]


BOXES = {
    "random": random_box,
    "capped": lambda d: [NonNegative(), Bounds(-INF, min(1.0, 3 / d))],
    "one-sided below": lambda d: [Bounds(0.2 / d, INF)],
    "one-sided above": lambda d: [Bounds(-INF, min(1.0, 2 / d))],
    "fixed": lambda d: [NonNegative(), Fixed([0], [0.25])],
    "mixed sides": lambda d: [Bounds(0.1 / d, np.where(np.arange(d) % 2, INF, 1.5 / d))],
    "a point": lambda d: [Bounds(1 / d, 1 / d)],
    "wide": lambda d: [Bounds(-1, 1)],
}
SIDES = ["one-sided above", "wide"]
"""Boxes with values far below zero, where likelihoods and the weighted MLE are undefined."""


def attained(name, box, total):
    """Whether there is a minimum: the multinomial likelihood grows with every value."""
    return name != "multinomial" or total is not None or box in ("random", "capped", "a point")


def problem_of(name, box, d, total=1.0):
    constraints = BOXES[box](d)
    return Problem(
        LOSSES[name][0](d), constraints if total is None else [*constraints, SumsTo(total)]
    )


def smallest(name, d):
    return d if name in QUADRATIC else max(d, 2)  # an oracle needs two values


def defined(name, box):
    return name in QUADRATIC or box not in SIDES


CASES = [(name, box) for name in LOSSES for box in BOXES if defined(name, box)]
SMALL = {
    "random": 11,
    "capped": 12,
    "one-sided below": 7,
    "one-sided above": 9,
    "fixed": 2,
    "mixed sides": 6,
    "a point": 3,
    "wide": 5,
}


# --- solvers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "box", "total"),
    [(*case, t) for case in CASES for t in (1.0, None) if attained(*case, t)],
)
def test_one_root_and_two_solvers_agree(name, box, total):
    problem = problem_of(name, box, SMALL[box], total)
    estimate = collected(LOSSES[name][1], SMALL[box])
    exact = problem.solve(estimate)
    assert exact.path == "closed-form"
    # A second opinion where there is a root: without a total values are clipped one by one.
    second = "OSQP" if name in QUADRATIC else "SCS"
    for solver in ("CLARABEL",) if total is None else ("CLARABEL", second):
        numeric = problem.solve(estimate, path="conic", solver=solver)
        assert numeric.certificate.violation <= SOLVER[solver]
        assert_allclose(numeric.objective, exact.objective, rtol=0, atol=OBJECTIVE)
        curvature = (
            1
            if name in QUADRATIC or "gaussian" in name
            else flattest(problem, estimate, exact.frequencies)
        )
        atol = (
            SOLVER["CLARABEL"] / min(1, curvature) ** 0.5
        )  # the error in x is the root of that in the objective
        assert_allclose(numeric.frequencies, exact.frequencies, rtol=0, atol=atol)


@pytest.mark.parametrize("path", ["auto", "conic"])
@pytest.mark.parametrize("constraints", [[NonNegative()], [Bounds(0.1, [1, 1, INF])]], ids=str)
def test_a_problem_without_a_minimum_is_refused(constraints, path):
    with pytest.raises((ValueError, RuntimeError)):
        Problem(losses.MultinomialMLE(), constraints).solve(collected(oracles.GRR, 3), path=path)


def flattest(problem, estimate, f, step=1e-6):
    """The least second derivative at f: how well the objective fixes the point."""
    return np.min(
        (problem.loss.gradient(f + step, estimate) - problem.loss.gradient(f - step, estimate))
        / (2 * step)
    )


# --- its own certificate --------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5, 40, 300])
@pytest.mark.parametrize(("name", "box"), CASES)
def test_the_gap_is_rounding(name, box, d):
    if (d == 1 and box in ("fixed", "mixed sides")) or (d == 2 and box == "one-sided above"):
        box = "random"
    d = smallest(name, d)
    solution = problem_of(name, box, d).solve(collected(LOSSES[name][1], d))
    assert solution.path == "closed-form"
    assert solution.certificate.violation <= CERTIFIED
    assert solution.certificate.gap <= CERTIFIED


@pytest.mark.parametrize(("name", "box"), CASES)
def test_a_stack_equals_its_rows(name, box):
    d = 30
    problem = problem_of(name, box, d)
    stack = collected(LOSSES[name][1], d, trials=5)
    together = problem.solve(stack)
    assert together.path == "closed-form"
    assert together.certificate.gap.shape == (5,)
    for row, f in zip(stack.frequencies, together.frequencies, strict=True):
        alone = problem.solve(FrequencyEstimate(row, n=N, oracle=stack.oracle))
        assert_allclose(f, alone.frequencies, rtol=0, atol=CERTIFIED)


@pytest.mark.parametrize("name", LOSSES)
def test_two_leading_axes_are_kept(name):
    stack = collected(LOSSES[name][1], 6, trials=4)
    shaped = FrequencyEstimate(stack.frequencies.reshape(2, 2, 6), n=N, oracle=stack.oracle)
    problem = problem_of(name, "random", 6)
    flat = problem.solve(stack).frequencies
    assert_allclose(problem.solve(shaped).frequencies, flat.reshape(2, 2, 6), rtol=0, atol=0)


@every_two(name=[*LOSSES], d=[1, 2, 9, 100], side=["lower", "upper"])
def test_a_total_equal_to_the_sum_of_the_bounds_leaves_one_point(name, d, side):
    d = smallest(name, d)
    rng = np.random.default_rng(d)
    lower = rng.uniform(0.01, 0.5, d) / d
    upper = lower + rng.uniform(0.1, 1, d) / d
    edge = {"lower": lower, "upper": upper}[side]
    for total in (edge.sum(), float(sum(edge)), edge.sum() * (1 + 1e-14), edge.sum() * (1 - 1e-14)):
        solution = Problem(LOSSES[name][0](d), [Bounds(lower, upper), SumsTo(total)]).solve(
            collected(LOSSES[name][1], d)
        )
        assert_allclose(solution.frequencies, edge, rtol=0, atol=CERTIFIED)
        assert np.all((solution.frequencies >= lower - SUM) & (solution.frequencies <= upper + SUM))


@pytest.mark.parametrize("name", LOSSES)
def test_values_that_all_are_fixed_stay(name):
    values = np.array([0.5, 0.25, 0.125, 0.125])
    problem = Problem(LOSSES[name][0](4), [NonNegative(), Fixed(range(4), values), SumsTo()])
    solution = problem.solve(collected(LOSSES[name][1], 4))
    assert solution.frequencies.tolist() == values.tolist()
    assert solution.certificate.is_optimal(CERTIFIED)


@pytest.mark.parametrize("name", LOSSES)
def test_fixed_values_stay_and_the_others_take_the_rest(name):
    estimate = collected(LOSSES[name][1], 8)
    solution = Problem(
        LOSSES[name][0](8), [NonNegative(), Fixed([2, 5], [0.0, 0.375]), SumsTo()]
    ).solve(estimate)
    assert solution.solver == ONE_ROOT
    assert solution.frequencies[[2, 5]].tolist() == [0.0, 0.375]
    assert_allclose(solution.frequencies.sum(), 1, rtol=0, atol=SUM)
    assert solution.certificate.is_optimal(CERTIFIED)


def test_a_small_move_along_the_total_fails():
    for name in LOSSES:
        problem = problem_of(name, "random", 12)
        estimate = collected(LOSSES[name][1], 12)
        f = problem.solve(estimate).frequencies.copy()
        lower, upper = problem.box(12)
        source = np.argmax(f - lower)
        target = np.argmax(np.where(np.arange(12) == np.argmax(f - lower), 0, upper - f))
        f[source] -= 1e-3
        f[target] += 1e-3
        certificate = certify(problem, estimate, f)
        assert certificate.violation <= SUM
        assert not certificate.is_optimal(1e-9)


# --- one root is the closed form where there is one -----------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 17, 300])
@pytest.mark.parametrize("total", [0.25, 1.0])
@pytest.mark.parametrize(
    "name", ["least squares", "gaussian, kappa > 0", "gaussian, kappa < 0", "multinomial"]
)
def test_one_root_equals_the_sorted_closed_form_on_the_simplex(name, total, d):
    d = smallest(name, d)
    problem = Problem(LOSSES[name][0](d), [NonNegative(), SumsTo(total)])
    estimate = collected(LOSSES[name][1], d, trials=3)
    assert closed_form_for(problem, estimate).name != ONE_ROOT
    assert_allclose(
        solve_one_root(estimate, problem),
        problem.solve(estimate).frequencies,
        rtol=0,
        atol=CERTIFIED,
    )


@pytest.mark.parametrize("name", ["least squares", "gaussian, kappa > 0", "gaussian, kappa < 0"])
@pytest.mark.parametrize("trials", [None, 3])
def test_without_a_total_one_root_clips(name, trials):
    estimate = collected(LOSSES[name][1], 20, trials=trials)
    solution = Problem(LOSSES[name][0](20), [Bounds(0.01, 0.2)]).solve(estimate)
    assert solution.solver == ONE_ROOT
    assert_allclose(
        solution.frequencies, np.clip(estimate.frequencies, 0.01, 0.2), rtol=0, atol=SUM
    )


@pytest.mark.parametrize("total", [0.0, 1e-9, 1.0, 40.0])
def test_least_squares_reach_totals_of_any_size(total):
    solution = Problem(losses.LeastSquares(), [Bounds(0, 10), SumsTo(total)]).solve(
        [0.5, 0.2, -0.1, 0.1]
    )
    assert_allclose(solution.frequencies.sum(), total, rtol=SUM, atol=CERTIFIED)
    assert solution.certificate.gap <= CERTIFIED * max(1, total)


def test_estimates_of_any_size_are_solved():
    for scale in (1e-300, 1e-12, 1e6, 1e12):
        solution = Problem(losses.LeastSquares(), [Bounds(0, 0.6), SumsTo()]).solve(
            scale * np.array([1.0, -1.0, 0.5])
        )
        assert_allclose(solution.frequencies.sum(), 1, rtol=0, atol=SUM)
        assert np.all((solution.frequencies >= 0) & (solution.frequencies <= 0.6))
        expected = [1 / 3] * 3 if scale < 1e-6 else [0.6, 0.0, 0.4]
        assert_allclose(solution.frequencies, expected, rtol=0, atol=2e-12)


# --- water-filling --------------------------------------------------------------------------------


def exact_water_filling(share, floor, total):
    """By fractions: most of the largest shares whose level leaves each above the floor."""
    shares, floor, total = reference.exact(share), Fraction(float(floor)), Fraction(float(total))
    falling = sorted(shares, reverse=True)
    levels = [sum(falling[:k]) / (total + k * floor) for k in range(1, len(shares) + 1)]
    nu = next(level for k, level in reversed(list(enumerate(levels))) if falling[k] > level * floor)
    return [max(x / nu - floor, Fraction(0)) for x in shares]


@pytest.mark.parametrize(
    ("share", "floor", "expected"),
    [
        ([0.5, 0.5], 0.25, [0.5, 0.5]),
        ([1.0, 0.0, 0.0], 0.5, [1.0, 0.0, 0.0]),
        ([0.75, 0.25, 0.0], 1.0, [1.0, 0.0, 0.0]),  # level 3/8 with one, and 1/4 is below 3/8
        ([0.625, 0.375, 0.0], 1.0, [0.875, 0.125, 0.0]),  # level 1/3 with two
        ([1.0], 3.0, [1.0]),
    ],
)
def test_water_is_filled_as_by_hand(share, floor, expected):
    assert_allclose(closed_form.water_filling(np.array(share), floor), expected, rtol=0, atol=SUM)


def test_water_is_filled_in_every_row_of_a_stack():
    rows = np.array([[0.75, 0.25, 0.0], [0.625, 0.375, 0.0], [0.25, 0.0, 0.75]])
    filled = closed_form.water_filling(rows, 1.0)
    expected = [[1.0, 0.0, 0.0], [0.875, 0.125, 0.0], [0.0, 0.0, 1.0]]
    assert_allclose(filled, expected, rtol=0, atol=SUM)


@given(
    share=st.integers(1, 30).flatmap(
        lambda d: arrays(np.float64, d, elements=st.integers(0, 50).map(float))
    ),
    floor=st.floats(1e-3, 1e3),
    total=st.sampled_from([0.25, 1.0, 3.0]),
)
def test_water_filling_is_exact(share, floor, total):
    share[0] += 1  # one of them is positive
    share /= share.sum()
    expected = reference.floats(exact_water_filling(share, floor, total))
    assert_allclose(
        closed_form.water_filling(share, floor, total),
        expected,
        rtol=0,
        atol=CERTIFIED * max(1, floor),
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_water_filling_is_certified_and_equals_one_root(epsilon, seed):
    oracle = oracles.GRR(epsilon=epsilon, d=50)
    population = np.random.default_rng(seed).multinomial(
        N, np.random.default_rng(seed).dirichlet(np.full(50, 0.1))
    )
    estimate = oracle.estimate(oracle.simulate_counts(population, seed, 3), N)
    problem = Problem(losses.MultinomialMLE(), [NonNegative(), SumsTo()])
    solution = problem.solve(estimate)
    assert solution.solver == "water-filling"
    assert solution.certificate.is_optimal(CERTIFIED)
    assert_allclose(
        solution.frequencies, solve_one_root(estimate, problem), rtol=0, atol=CERTIFIED * 50
    )


# --- capped simplex -------------------------------------------------------------------------------

CAPPED = 12
vectors = arrays(np.float64, CAPPED, elements=st.floats(-2, 2, allow_subnormal=False))


@settings(deadline=None)
@given(f=vectors, cap=st.sampled_from([1 / CAPPED, 0.1, 0.25, 0.5, 1.0]))
def test_the_capped_simplex_projection_is_feasible_optimal_and_idempotent(f, cap):
    problem = Problem(losses.LeastSquares(), [NonNegative(), Bounds(-INF, cap), SumsTo()])
    solution = problem.solve(f)
    assert solution.solver == ONE_ROOT
    projection = solution.frequencies
    assert np.all((projection >= 0) & (projection <= cap))
    assert solution.certificate.is_optimal(CERTIFIED)
    again = problem.solve(projection).frequencies
    assert_allclose(again, projection, rtol=0, atol=CERTIFIED)


@settings(deadline=None)
@given(f=vectors, seed=st.integers(0, 2**32 - 1))
def test_the_capped_simplex_projection_is_nearer_than_any_other_point(f, seed):
    problem = Problem(losses.LeastSquares(), [Bounds(0, 0.25), SumsTo()])
    nearest = problem.solve(f).frequencies
    other = problem.solve(np.random.default_rng(seed).normal(0, 1, CAPPED)).frequencies
    assert np.sum((nearest - f) ** 2) <= np.sum((other - f) ** 2) + CERTIFIED
    assert (f - nearest) @ (other - nearest) <= CERTIFIED


@settings(deadline=None)
@given(f=vectors)
def test_a_cap_of_one_does_not_bind(f):
    solution = Problem(losses.LeastSquares(), [Bounds(0, 1), SumsTo()]).solve(f)
    assert_allclose(solution.frequencies, closed_form.norm_sub(f), rtol=0, atol=CERTIFIED)


@settings(deadline=None)
@given(f=vectors, shift=st.floats(-1, 1), seed=st.integers(0, 2**32 - 1))
def test_the_capped_simplex_projection_ignores_shifts_and_follows_permutations(f, shift, seed):
    problem = Problem(losses.LeastSquares(), [Bounds(0, 0.25), SumsTo()])
    projection = problem.solve(f).frequencies
    assert_allclose(problem.solve(f + shift).frequencies, projection, rtol=0, atol=CERTIFIED)
    order = np.random.default_rng(seed).permutation(CAPPED)
    assert_allclose(problem.solve(f[order]).frequencies, projection[order], rtol=0, atol=CERTIFIED)
    assert np.all(np.diff(projection[np.argsort(f, kind="stable")]) >= -CERTIFIED)


# --- absolute deviations --------------------------------------------------------------------------

DEVIATIONS = {
    "simplex": ([0.9, 0.6, -0.1, 0.0], 0.0, INF, 1.0),
    "too little": ([0.1, -0.6, 0.2, 0.0], 0.0, INF, 1.0),
    "caps": ([0.9, 0.6, -0.1, 0.2], 0.0, 0.4, 1.0),
    "floors": ([0.9, 0.6, -0.1, 0.2], [0.1, 0.2, 0.3, 0.1], INF, 1.0),
    "no bounds": ([0.9, 0.6, -0.1, 0.2], -INF, INF, 1.0),
    "one side": ([0.9, 0.6, -0.1, 0.2], -INF, 0.3, -1.0),
    "mixed": ([0.9, 0.6, -0.1, 0.2], [-INF, 0, -1, -INF], [INF, 0.2, INF, 0.1], 1.0),
    "kinks outside": ([3.0, -2.0, 5.0, -1.0], 0.0, 0.5, 1.0),
    "ties": ([0.5, 0.5, 0.5, 0.5], 0.0, INF, 1.0),
    "a sum that fits": ([0.4, 0.3, 0.2, 0.1], 0.0, INF, 1.0),
    "one value": ([0.3], 0.0, INF, 1.0),
    "one value above": ([7.0], -INF, INF, 1.0),
    "fixed": ([0.9, 0.6, -0.1, 0.2], [0.25, 0.0, 0.0, 0.0], [0.25, 1.0, 1.0, 1.0], 1.0),
    "without a total": ([0.9, 0.6, -0.1, 0.2], 0.0, 0.5, None),
    "nothing at all": ([0.9, 0.6, -0.1, 0.2], -INF, INF, None),
}


def deviations(name):
    f, lower, upper, total = DEVIATIONS[name]
    return np.array(f), Problem(
        losses.LeastAbsolute(),
        [Bounds(lower, upper), *([SumsTo(total)] if total is not None else [])],
    )


@pytest.mark.parametrize("solver", ["CLARABEL", "HIGHS", "SCIPY"])
@pytest.mark.parametrize("name", DEVIATIONS)
def test_absolute_deviations_agree_with_linear_programs(name, solver):
    f, problem = deviations(name)
    exact = problem.solve(f)
    numeric = problem.solve(f, path="conic", solver=solver)
    assert (exact.path, exact.solver) == ("closed-form", "clip, then least squares")
    assert_allclose(exact.objective, numeric.objective, rtol=0, atol=OBJECTIVE)
    for solution, accuracy in ((exact, CERTIFIED), (numeric, OBJECTIVE)):
        certificate = solution.certificate
        assert certificate.is_optimal(accuracy)
        assert (
            max(certificate.stationarity, certificate.complementarity) <= accuracy
        )  # at a vertex too


@pytest.mark.parametrize("name", DEVIATIONS)
def test_of_all_minimisers_of_absolute_deviations_it_is_the_nearest(name):
    import cvxpy as cp

    f, problem = deviations(name)
    solution = problem.solve(f)
    x = cp.Variable(len(f))
    forms = [form for c in problem.constraints for form in c.cone_form(x)]
    nearest = cp.Problem(
        cp.Minimize(cp.sum_squares(x - f)), [*forms, cp.norm1(x - f) <= solution.objective + 1e-9]
    )
    nearest.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert_allclose(solution.frequencies, x.value, rtol=0, atol=1e-5)


# A dozen programs per draw. A fault that one draw of ten shows passes 40 draws with probability
# 0.9⁴⁰ = 1.5 %.
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 8))
def test_stacks_of_absolute_deviations_are_certified_by_the_box_and_by_a_linear_program(seed, d):
    rng = np.random.default_rng(seed)
    lower = np.where(rng.random(d) < 0.3, -INF, rng.normal(0, 0.3, d).round(1))
    upper = np.where(
        rng.random(d) < 0.3, INF, np.where(np.isinf(lower), 0.5, lower) + rng.random(d).round(1)
    )
    low, high = np.clip(lower, -2, 2).sum(), np.clip(upper, -2, 2).sum()
    total = low + rng.random() * (high - low)
    f = rng.normal(1 / d, 0.5, (3, d)).round(1)
    problem = Problem(losses.LeastAbsolute(), [Bounds(lower, upper), SumsTo(total)])
    rows = Problem(losses.LeastAbsolute(), [Linear(np.eye(d), lower, upper), SumsTo(total)])
    solution = problem.solve(f)
    assert solution.certificate.is_optimal(CERTIFIED)
    assert certify(rows, f, solution.frequencies).is_optimal(1e-10)
    other = np.clip(solution.frequencies + rng.normal(0, 0.1, (3, d)), lower, upper)
    assert_allclose(certify(problem, f, other).gap, certify(rows, f, other).gap, rtol=0, atol=1e-9)
    alone = [problem.solve(row).frequencies for row in f]
    assert_allclose(solution.frequencies, alone, rtol=0, atol=CERTIFIED)


@pytest.mark.parametrize("off", [1e-10, -1e-10, 1e-13])
def test_a_point_just_off_a_kink_is_certified_and_one_further_off_is_not(off):
    estimate = np.array([0.5, 0.3, 0.25, -0.05])
    problem = Problem(losses.LeastAbsolute(), [NonNegative(), SumsTo()])
    f = np.array([0.45, 0.3, 0.25, 0.0])  # one of the minimisers
    assert certify(problem, estimate, f).is_optimal(CERTIFIED)
    near = f + np.array([0, off, -off, 0])
    certificate = certify(problem, estimate, near)
    assert certificate.is_optimal(1e-9)
    assert certificate.stationarity <= CERTIFIED
    assert not certify(problem, estimate, f + np.array([0, 1e-6, -1e-6, 0])).is_optimal(1e-9)


def test_without_a_total_every_vector_of_a_stack_is_cut_by_itself():
    problem = Problem(losses.WeightedLeastSquares([1.0, 2.0]), [Bounds(0.0, 0.6)])
    stack = [[0.5, -0.1], [-0.2, 0.7], [0.3, 0.1]]
    solution = problem.solve(stack)
    assert solution.solver == "one root"
    assert solution.frequencies.tolist() == [[0.5, 0.0], [0.0, 0.6], [0.3, 0.1]]


ZERO_COUNTS = [10, 7, 0, 0]
TAKEN_BY_ZERO_COUNTS = {
    "groups": [NonNegative(), GroupTotals([[0, 1], [2, 3]], [0.7, 0.3])],
    "a group and a total": [NonNegative(), SumsTo(1.0), GroupTotals([[2, 3]], [0.3])],
    "capped groups": [
        Bounds([0.0, 0.0, 0.1, 0.0], [1.0, 1.0, 1.0, 0.15]),
        GroupTotals([[0, 1], [2, 3]], [0.7, 0.3]),
    ],
    "caps": [Bounds(0.0, 0.4), SumsTo(1.0)],
    "fixed": [NonNegative(), SumsTo(1.0), Fixed([0, 1], [0.4, 0.4])],
    "margins": [NonNegative(), Margins((2, 2), 0, [0.7, 0.3])],
    "a row": [NonNegative(), SumsTo(1.0), Linear([[1.0, 1, 0, 0]], -INF, 0.8)],
    "a ball": [NonNegative(), SumsTo(1.0), Near([0.25] * 4, 0.3, 1)],
}


@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("name", TAKEN_BY_ZERO_COUNTS)
def test_values_without_reports_take_what_others_may_not(name, stack):
    """Their loss is flat, so that the sum jumps at the multiplier 0, where every mixture is best.

    The likelihood of one trial with reports for all values beside them has an ordinary root.
    """
    oracle = oracles.GRR(epsilon=1.0, d=4)
    estimate = oracle.estimate(ZERO_COUNTS, 17)
    if stack:
        estimate = oracle.estimate([ZERO_COUNTS, [5, 4, 5, 3]], 17)
    problem = Problem(losses.MultinomialMLE(), TAKEN_BY_ZERO_COUNTS[name])
    solution = problem.solve(estimate)
    assert solution.path == "closed-form"
    assert "CLARABEL" not in solution.solver
    certificate = solution.certificate
    assert np.max(certificate.gap / certificate.scale) < CERTIFIED
    assert np.max(certificate.violation) < SUM


def test_values_without_reports_share_what_is_left():
    estimate = oracles.GRR(epsilon=1.0, d=4).estimate(ZERO_COUNTS, 17)
    f = Problem(losses.MultinomialMLE(), TAKEN_BY_ZERO_COUNTS["groups"]).minimise(estimate)
    assert_allclose(f[2:], [0.15, 0.15], rtol=SUM)


@pytest.mark.parametrize(
    "loss", [losses.LeastAbsolute(), losses.Huber(0.1), losses.MaxAbsolute()], ids=repr
)
def test_a_group_of_total_zero_has_tiny_estimates(loss):
    """Tolerances relative to a total of 0 were absolute, or nothing met them."""
    groups = [NonNegative(), GroupTotals([[0, 1], [2, 3]], [1.0, 0.0])]
    solution = Problem(loss, groups).solve([0.5, 0.4, 1e-12, 0.0])
    assert solution.path == "closed-form"
    assert_allclose(solution.frequencies, [0.55, 0.45, 0.0, 0.0], rtol=SUM)
    assert solution.status == "optimal"


@pytest.mark.parametrize("weight", [0.03, 0.018, 0.01])
def test_tiny_values_of_a_logarithm_take_no_equal_share_of_what_rounding_leaves(weight):
    """Of 1e-12 it would be a part that changes the slope."""
    loss = losses.LeastSquares() + weight * losses.Entropy()
    problem = Problem(loss, [NonNegative(), SumsTo(1.0)])
    for seed in range(60):
        rng = np.random.default_rng(seed)
        target = rng.dirichlet(np.ones(6)) + rng.normal(size=6) / 2
        solution = problem.solve(target, path="closed-form")
        assert solution.certificate.gap <= 2e-9 * solution.certificate.scale, seed


@pytest.mark.parametrize("epsilon", [0.1, 0.05, 0.001])
@pytest.mark.parametrize("loss", [losses.MultinomialMLE(), losses.BinomialMLE()], ids=repr)
def test_the_end_of_a_domain_is_reached_relative_to_its_size(loss, epsilon):
    """With little privacy budget the end is at -1,000, and a billionth of it is no rounding of 1.

    Paths stay short of the end by a relative billionth.
    """
    estimate = oracles.GRR(epsilon=epsilon, d=4).estimate([20, 13, 0, 12], 45)
    solution = Problem(loss, [SumsTo(1.0)]).solve(estimate, path="closed-form")
    assert solution.status == "optimal"


@pytest.mark.parametrize("kind", ["binomial", "weighted", "weighted, own variances"])
def test_responses_of_long_vectors_are_those_of_short_ones(kind):
    """They are computed in parts, each with multipliers of its own or one for all."""
    d = 300_001
    rng = np.random.default_rng(8)
    loss = losses.BinomialMLE() if kind == "binomial" else losses.GaussianMLE()
    estimate = oracles.OUE(1.0, d).estimate(rng.binomial(1_000, 0.3, d), 1_000)
    if kind == "weighted, own variances":
        estimate = FrequencyEstimate(rng.normal(size=d), noise=rng.uniform(0.5, 2.0, d))
    data = loss.data(estimate)
    constants = loss.constants(estimate)
    of_each = rng.normal(size=(1, d))
    long = loss.response(of_each, tuple(array[None] for array in data), constants)
    assert long.shape == (1, d)
    for part in np.array_split(np.arange(d), 7):
        pieces = tuple(array[None, part] for array in data)
        assert_array_equal(loss.response(of_each[:, part], pieces, constants), long[:, part])
    one = np.array([[0.25]])
    of_one = loss.response(one, tuple(array[None] for array in data), constants)
    same = loss.response(np.full((1, d), 0.25), tuple(array[None] for array in data), constants)
    assert_array_equal(of_one, same)


def test_a_value_without_reports_has_the_second_root_from_a_negative_sum_on():
    """-log(1 - P) + m P is least at 1 - P = -1/m, which is P = 1/3 at m = -1.5."""
    floor = 0.25
    slope = 0.25
    share = np.array([[0.0, 1e-9]])
    f = losses.BinomialMLE().response(np.array([[-1.5 * slope]]), (share,), (floor, slope))
    assert_allclose(f, (1 / 3 - floor) / slope, rtol=1e-6)
