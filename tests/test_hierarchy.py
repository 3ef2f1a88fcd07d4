"""Hierarchies: two passes against dense algebra, solvers, KKT conditions and zeroed subtrees."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import FrequencyEstimate, Problem, certify, closed_form, oracles
from ldpopt.constraints import (
    Bounds,
    Fixed,
    GroupTotals,
    Hierarchy,
    Monotone,
    NonNegative,
    SumsTo,
)
from ldpopt.losses import LeastSquares, WeightedLeastSquares
from tests.every_two import every_two
from tests.test_orders import random_forest
from tests.tolerances import CERTIFIED, ROUNDING, SOLVER, SUM

seeds = st.integers(0, 2**32 - 1)
CHAIN = np.array([1, 2, 3, -1])
SHAPES = {
    "one node": np.array([-1]),
    "star": np.array([-1, 0, 0, 0, 0]),
    "path": CHAIN,
    "roots alone": np.full(4, -1),
    "leaves of every depth": np.array([-1, 0, 0, 1, 1, 3, 3, -1, 7, 7]),
    "balanced": Hierarchy.balanced(9, 2).parents,
}


def sums_of_leaves(parents):
    """The (d, leaves) 0/1 matrix that adds up the leaves below each node: up from each leaf."""
    leaves = [v for v in range(len(parents)) if v not in parents]
    matrix = np.zeros((len(parents), len(leaves)))
    for column, leaf in enumerate(leaves):
        v = leaf
        while v >= 0:
            matrix[v, column] = 1
            v = parents[v]
    return matrix


def by_normal_equations(f, parents, weights, total):
    """Least squares over the leaves by dense algebra, the total as one more equation."""
    A = sums_of_leaves(parents)
    H = A.T @ (weights[:, None] * A)
    b = A.T @ (weights * f)
    if total is None:
        return A @ np.linalg.solve(H, b)
    ones = np.ones((len(b), 1))
    system = np.block([[H, ones], [ones.T, np.zeros((1, 1))]])
    return A @ np.linalg.solve(system, np.r_[b, total])[:-1]


def drawn(seed, d=None):
    rng = np.random.default_rng(seed)
    d = d or int(rng.integers(1, 30))
    parents = random_forest(rng, d, roots=int(rng.integers(1, min(d, 3) + 1)))
    total = [None, 1.0, 0.0, 0.25][seed % 4]
    return rng.normal(2 / d, 0.3, d), parents, np.exp(rng.normal(0, 1, d)), total


# --- equalities only ------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [None, 1.0, -2.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_two_passes_solve_the_normal_equations(shape, total):
    parents = SHAPES[shape]
    rng = np.random.default_rng(1)
    f = rng.normal(0, 1, len(parents))
    weights = rng.uniform(0.1, 10, len(parents))
    result = closed_form.tree_consistency(f, parents, weights, total)
    assert_allclose(
        result, by_normal_equations(f, parents, weights, total), rtol=0, atol=10 * CERTIFIED
    )


@given(seeds)
def test_two_passes_solve_the_normal_equations_of_any_tree(seed):
    f, parents, weights, total = drawn(seed)
    result = closed_form.tree_consistency(f, parents, weights, total)
    assert_allclose(
        result, by_normal_equations(f, parents, weights, total), rtol=0, atol=10 * CERTIFIED
    )
    assert Hierarchy(parents, total).violation(result) <= SUM


def test_hay_et_al_on_a_complete_binary_tree():
    # Their two recursions (2010, section 4.1) for k = 2 children, equal weights and a free root,
    # written out for 3 levels.
    f = np.array([1.0, 0.7, 0.5, 0.2, 0.3, 0.1, 0.6])
    z = f.copy()
    for v in (1, 2):  # height 2: (2² - 2)/(2² - 1) own + (2 - 1)/(2² - 1) children
        z[v] = 2 / 3 * f[v] + 1 / 3 * (z[2 * v + 1] + z[2 * v + 2])
    z[0] = 4 / 7 * f[0] + 3 / 7 * (z[1] + z[2])
    h = z.copy()
    for v in range(1, 7):
        parent = (v - 1) // 2
        sibling = v + 1 if v % 2 else v - 1
        h[v] = z[v] + (h[parent] - z[v] - z[sibling]) / 2
    result = closed_form.tree_consistency(f, np.array([-1, 0, 0, 1, 1, 2, 2]))
    assert_allclose(result, h, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_labels_of_the_nodes_do_not_matter(nonnegative):
    rng = np.random.default_rng(2)
    f, parents, weights, _ = drawn(4, d=40)
    place = rng.permutation(40)
    moved = np.full(40, -1)
    moved[place] = np.where(parents < 0, -1, place[parents])
    shuffled = np.empty(40)
    heavy = np.empty(40)
    shuffled[place] = f
    heavy[place] = weights
    result = closed_form.tree_consistency(f, parents, weights, 1.0, nonnegative=nonnegative)
    again = closed_form.tree_consistency(shuffled, moved, heavy, 1.0, nonnegative=nonnegative)
    assert_allclose(again[place], result, rtol=0, atol=CERTIFIED)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_trials_of_a_stack_are_solved_one_by_one(nonnegative):
    rng = np.random.default_rng(3)
    parents = random_forest(rng, 30)
    f = rng.normal(0, 1, (2, 4, 30))
    stacked = closed_form.tree_consistency(f, parents, total=1.0, nonnegative=nonnegative)
    for trial in np.ndindex(2, 4):
        alone = closed_form.tree_consistency(f[trial], parents, total=1.0, nonnegative=nonnegative)
        assert_array_equal(stacked[trial], alone)


def test_a_leaf_that_is_trusted_stays_and_one_that_is_not_takes_the_rest():
    result = closed_form.tree_consistency(
        np.array([1.0, 0.5, 0.2]), np.array([-1, 0, 0]), np.array([1, 1e9, 1e-9]), 1.0
    )
    assert_allclose(result, [1.0, 0.5, 0.5], rtol=0, atol=1e-8)


def test_a_million_nodes_in_one_path_take_no_recursion():
    d = 10**6
    result = closed_form.tree_consistency(np.linspace(0, 1, d), np.arange(d) - 1)
    assert_allclose(result, 0.5, rtol=0, atol=1e-9)


# --- non-negative ---------------------------------------------------------------------------------


@given(seeds)
def test_the_nonnegative_passes_meet_the_kkt_conditions(seed):
    f, parents, weights, total = drawn(seed)
    result = closed_form.tree_consistency(f, parents, weights, total, nonnegative=True)
    assert result.min() >= 0
    assert Hierarchy(parents, total).violation(result) <= SUM
    A = sums_of_leaves(parents)
    positive = result[np.setdiff1d(np.arange(len(f)), parents)] > 0
    slope = A.T @ (
        weights * (result - f)
    )  # of the leaves; equal on the positive ones, and no lower on the others
    if total is not None and not positive.any():
        return  # the total is 0, and so is every leaf: nothing else is feasible
    level = 0.0 if total is None else slope[positive].min()
    scale = 1 + np.abs(slope).max()
    assert (slope[positive] <= level + CERTIFIED * 10 * scale).all()
    assert (slope >= level - CERTIFIED * 10 * scale).all()


@given(seeds)
def test_the_nonnegative_passes_are_certified_where_the_total_is_known(seed):
    f, parents, weights, _ = drawn(seed, d=12)
    problem = Problem(WeightedLeastSquares(weights), [Hierarchy(parents, total=1.0), NonNegative()])
    solution = problem.solve(f)
    assert solution.path == "closed-form"
    assert solution.certificate.is_optimal(100 * CERTIFIED)


def test_a_star_with_a_known_root_is_norm_sub():
    f = np.random.default_rng(5).normal(0.01, 0.1, 200)
    result = closed_form.tree_consistency(
        np.r_[7.0, f], np.r_[-1, np.zeros(200, int)], total=1.0, nonnegative=True
    )
    assert result[0] == pytest.approx(1.0, abs=SUM)
    assert_allclose(result[1:], closed_form.norm_sub(f), rtol=0, atol=10 * ROUNDING)


def test_zeroing_the_subtrees_below_zero_is_not_the_projection():
    # Hay et al. (2010, section 4.2) zero the whole subtree of a node that comes out at or below
    # zero, and change nothing else.
    parents = np.array([-1, 0, 0, 1, 1])
    f = np.array([1.0, 0.1, 0.8, 0.5, -0.6])
    equal = closed_form.tree_consistency(f, parents)
    assert equal[4] < 0 < equal[3]
    zeroed = np.where(equal > 0, equal, 0.0)
    hierarchy = Hierarchy(parents)
    assert hierarchy.violation(zeroed) > 0.1  # no longer consistent
    added_up = zeroed.copy()  # nor is it nearest once parents are added up again
    added_up[1] = added_up[3] + added_up[4]
    added_up[0] = added_up[1] + added_up[2]
    right = closed_form.tree_consistency(f, parents, nonnegative=True)
    assert hierarchy.violation(added_up) <= SUM
    assert np.sum((right - f) ** 2) < np.sum((added_up - f) ** 2) - 0.01


@every_two(
    shape=[*SHAPES, "random"],
    total=[None, 1.0, 0.0],
    others={"any sign": [], "nonnegative": [NonNegative()]},
    weighted=[False, True],
)
def test_the_closed_forms_agree_with_two_solvers(shape, total, others, weighted):
    rng = np.random.default_rng(6)
    parents = random_forest(rng, 40, 2) if shape == "random" else SHAPES[shape]
    d = len(parents)
    loss = WeightedLeastSquares(rng.uniform(0.2, 5, d)) if weighted else LeastSquares()
    problem = Problem(loss, [Hierarchy(parents, total), *others])
    f = rng.normal(1 / d, 0.3, (2, d))
    exact = problem.solve(f, path="closed-form").frequencies
    for solver in ("CLARABEL", "OSQP"):
        numeric = problem.solve(f, path="conic", solver=solver).frequencies
        assert_allclose(exact, numeric, rtol=0, atol=SOLVER["CLARABEL"])


def test_a_fixed_root_is_the_same_as_a_known_total_and_has_another_form():
    parents = np.array([-1, 0, 0])
    f = np.array([0.9, 0.8, -0.1])
    fixed = Problem(LeastSquares(), [Hierarchy(parents), Fixed([0], [1.0]), NonNegative()])
    with_total = Problem(LeastSquares(), [Hierarchy(parents, total=1.0), NonNegative()])
    assert "newton on multipliers" in fixed.explain(f)
    assert "newton on multipliers" not in with_total.explain(f)
    assert with_total.explain(f).startswith("closed-form")
    assert_allclose(
        fixed.solve(f).frequencies, with_total.solve(f).frequencies, rtol=0, atol=SOLVER["CLARABEL"]
    )


def test_a_millionth_moved_below_the_root_is_noticed():
    problem = Problem(
        LeastSquares(), [Hierarchy(np.array([-1, 0, 0, 1, 1]), total=1.0), NonNegative()]
    )
    f = np.array([1.0, 0.4, 0.7, 0.3, 0.2])
    right = problem.solve(f).frequencies
    assert certify(problem, f, right).is_optimal(CERTIFIED)
    assert not certify(problem, f, right + np.array([0, 1e-6, -1e-6, 1e-6, 0])).is_optimal(1e-13)


# --- estimates far away ---------------------------------------------------------------------------


def exact_projection(f, weights, rows):
    """Least squares on equations in exact arithmetic: what the multipliers of A W⁻¹ Aᵀ leave."""
    A = [[Fraction(x) for x in row] for row in rows.matrix.toarray().tolist()]
    start = [Fraction(x) for x in f.tolist()]
    share = [1 / Fraction(w) for w in weights.tolist()]
    missing = [
        Fraction(b) - sum(a * x for a, x in zip(row, start, strict=True))
        for row, b in zip(A, rows.lower.tolist(), strict=True)
    ]
    system = [
        [sum(a * s * b for a, s, b in zip(row, share, other, strict=True)) for other in A]
        for row in A
    ]
    for i in range(len(A)):
        # Positive definite: no pivot is 0.
        for k in range(i + 1, len(A)):
            factor = system[k][i] / system[i][i]
            system[k] = [x - factor * y for x, y in zip(system[k], system[i], strict=True)]
            missing[k] -= factor * missing[i]
    multipliers = [Fraction(0)] * len(A)
    for i in reversed(range(len(A))):
        done = sum(system[i][k] * multipliers[k] for k in range(i + 1, len(A)))
        multipliers[i] = (missing[i] - done) / system[i][i]
    return np.array(
        [
            float(x + s * sum(row[v] * y for row, y in zip(A, multipliers, strict=True)))
            for v, (x, s) in enumerate(zip(start, share, strict=True))
        ]
    )


@pytest.mark.parametrize("far", [-1e9, 1e9, -3e15])
@pytest.mark.parametrize("parents", [[-1], [-1, 0], [-1, 0, 1], [-1, -1, 1], [-1, 0, 0, 1, 1]])
def test_the_total_is_met_whatever_an_estimate_is(parents, far):
    rng = np.random.default_rng(8)
    d = len(parents)
    for v in range(d):
        f = rng.normal(0.2, 0.3, d)
        f[v] = far
        weights = np.where(np.arange(d) == v, 1e3, rng.uniform(0.5, 3, d))
        problem = Problem(WeightedLeastSquares(weights), [Hierarchy(parents, total=0.3)])
        solution = problem.solve(f)
        assert solution.status == "optimal"
        assert solution.certificate.is_optimal(1e-8, relative=True)
        expected = exact_projection(f, weights, Hierarchy(parents, total=0.3).rows(d))
        size = max(1.0, np.abs(expected).max())
        assert_allclose(solution.frequencies, expected, rtol=0, atol=1e-9 * size)
        positive = Problem(problem.loss, [*problem.constraints, NonNegative()]).solve(f)
        assert positive.status == "optimal"
        assert positive.certificate.violation <= SUM


@pytest.mark.parametrize("far", [-1e9, 1e9])
def test_a_known_node_beside_an_estimate_far_away(far):
    parents = [-1, 0, 1, 1]
    rng = np.random.default_rng(9)
    for v in range(4):
        f = rng.normal(0.2, 0.3, 4)
        f[v] = far
        weights = np.where(np.arange(4) == v, 1e5, 1.0)
        constraints = [Hierarchy(parents), Fixed([0], [0.3])]
        solution = Problem(WeightedLeastSquares(weights), constraints).solve(f)
        assert solution.status == "optimal"
        expected = exact_projection(f, weights, Hierarchy(parents, total=0.3).rows(4))
        size = max(1.0, np.abs(expected).max())
        assert_allclose(solution.frequencies, expected, rtol=0, atol=1e-9 * size)


@pytest.mark.parametrize("far", [-1e9, 1.4e9, 6e7])
def test_a_single_value_has_what_its_total_leaves(far):
    loss = WeightedLeastSquares([1e3])
    for constraints in (
        [SumsTo(0.3), NonNegative()],
        [SumsTo(0.3), Bounds(-0.5, 1.5)],
        [GroupTotals([[0]], [0.3]), NonNegative()],
        [Monotone([0]), SumsTo(0.3), NonNegative()],
        [Hierarchy([-1]), Fixed([0], [0.3])],
        [Hierarchy([-1], total=0.3)],
    ):
        solution = Problem(loss, constraints).solve([far])
        assert solution.status == "optimal"
        assert solution.frequencies[0] == pytest.approx(0.3, rel=1e-15)


def test_roots_alone_are_a_total_or_nothing():
    assert Hierarchy([-1, -1], total=2.0).total(2) == 2.0
    assert Hierarchy([-1, -1]).total(2) is None
    assert_array_equal(Hierarchy([-1, -1]).box(2), [[-np.inf, -np.inf], [np.inf, np.inf]])
    assert Hierarchy([-1, 0], total=2.0).total(2) is None
    assert Hierarchy([-1, 0]).box(2) is None
    assert Hierarchy([-1, -1], total=2.0).box(2) is None


# --- trees made from something else ---------------------------------------------------------------


@pytest.mark.parametrize("leaves", [1, 2, 3, 7, 8, 9, 100])
@pytest.mark.parametrize("branching", [2, 3, 10])
def test_a_balanced_tree_has_its_leaves_last_and_full_groups_but_the_last(leaves, branching):
    tree = Hierarchy.balanced(leaves, branching)
    d = len(tree.parents)
    assert_array_equal(tree.leaves, np.arange(d - leaves, d))
    assert np.count_nonzero(tree.parents == -1) == 1
    children = np.bincount(tree.parents[1:], minlength=d)[: d - leaves]
    assert (children >= 1).all()
    assert (children <= branching).all()
    depth = np.zeros(d, int)
    for v in range(1, d):
        depth[v] = depth[tree.parents[v]] + 1
    assert (np.diff(depth) >= 0).all()
    assert len(set(depth[tree.leaves])) == 1


def test_groups_of_groups():
    tree = Hierarchy.of_groups([0, 1, 1, 2], [0, 0, 1], total=1.0)
    assert_array_equal(tree.parents, [-1, -1, 0, 0, 1, 2, 3, 3, 4])
    exact = np.array([0.7, 0.3, 0.1, 0.6, 0.3, 0.1, 0.2, 0.4, 0.3])
    assert tree.violation(exact) <= SUM
    assert [tree.row_name(row, 9) for row in (0, 2, 5)] == [
        "f[0] = sum of its children",
        "f[2] = sum of its children",
        "the roots sum to 1",
    ]


def test_the_stacked_estimates_of_all_levels_beat_those_of_the_leaves():
    data = np.random.default_rng(7).dirichlet(np.full(64, 0.3))
    tree = Hierarchy.of_groups(np.arange(64) // 8, total=1.0)
    levels = [data.reshape(8, 8).sum(axis=1), data]
    estimates = []
    for f, seed in zip(levels, range(2), strict=True):
        oracle = oracles.OUE(1.0, len(f))
        counts = np.round(f * 20_000).astype(int)
        estimates.append(
            oracle.estimate(oracle.simulate_counts(counts, seed, trials=50), int(counts.sum()))
        )
    stacked, weights = Hierarchy.stack(estimates)
    assert stacked.shape == (50, 72)
    assert_allclose(weights, np.repeat([e.sigma**-2 for e in estimates], [8, 64]))
    solved = (
        Problem(WeightedLeastSquares(weights), [tree, NonNegative()])
        .solve(FrequencyEstimate(stacked))
        .frequencies
    )
    alone = closed_form.norm_sub(estimates[1].frequencies)
    groups = [np.arange(8) + 8 * i for i in range(8)]
    better = np.mean((solved[:, :8] - levels[0]) ** 2, axis=1)
    worse = np.mean(
        (np.stack([alone[:, g].sum(axis=1) for g in groups], axis=1) - levels[0]) ** 2, axis=1
    )
    assert (better - worse).mean() < -3 * (better - worse).std() / np.sqrt(
        50
    )  # paired; 1 in 700 if they were alike
