"""Projections in the Kullback-Leibler divergence, on hierarchies and on linear equations.

The reference is weak duality in 50 digits: at any multipliers λ of A f = b the minimum is at least
b·λ - Σ r exp(Aᵀλ - 1).
"""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import Problem, certify, closed_form
from ldpopt.constraints import (
    Fixed,
    GroupTotals,
    Hierarchy,
    Linear,
    Margins,
    Monotone,
    NonNegative,
    SumsTo,
)
from ldpopt.errors import InfeasibleError
from ldpopt.losses import Entropy, KLTo, KullbackLeibler
from ldpopt.solve.certificate.prices.equation_prices import equations_of
from tests.tolerances import CERTIFIED, SUM

DIGITS = 50


def rise_above_bound(f, reference, matrix, right):
    """How far Σ f log(f/r) is above a lower bound, and the size of its terms, in 50 digits."""
    slopes = 1 + np.log(f) - np.log(reference)
    # Any multipliers do: these are the best but for their last digits.
    multipliers, *_ = np.linalg.lstsq(matrix.T, slopes, rcond=None)
    # Once more for what rounding has left.
    multipliers += np.linalg.lstsq(matrix.T, slopes - matrix.T @ multipliers, rcond=None)[0]
    with mpmath.workdps(DIGITS):
        value = mpmath.fsum(
            mpmath.mpf(x) * mpmath.log(mpmath.mpf(x) / mpmath.mpf(r))
            for x, r in zip(f.tolist(), reference.tolist(), strict=True)
        )
        bound = mpmath.fsum(
            mpmath.mpf(b) * mpmath.mpf(price)
            for b, price in zip(right.tolist(), multipliers.tolist(), strict=True)
        )
        for column, r in zip(matrix.T.tolist(), reference.tolist(), strict=True):
            price = mpmath.fsum(
                mpmath.mpf(a) * mpmath.mpf(y)
                for a, y in zip(column, multipliers.tolist(), strict=True)
            )
            bound -= mpmath.mpf(r) * mpmath.exp(price - 1)
        return float(value - bound), float(np.abs(slopes) @ f)


def deep_tree(rng, depth):
    """Parents of a random tree of so many levels, whose leaves are at all of them."""
    parents = [-1]
    level = [0]
    for _ in range(depth - 1):
        below = []
        for node in level:
            if node != level[0] and rng.random() < 0.3:
                continue
            for _ in range(rng.integers(1, 4)):
                below.append(len(parents))
                parents.append(node)
        level = below if len(parents) < 120 else level[:1]
    return np.array(parents)


def contradicting(seed):
    """A tree, and numbers between 1e-12 and 1 for its nodes that are no sums of each other."""
    rng = np.random.default_rng(seed)
    tree = Hierarchy(deep_tree(rng, int(rng.integers(3, 9))), [None, 1.0, 0.25, 2.0][seed % 4])
    return tree, 10.0 ** rng.uniform(-12, 0, len(tree.parents))


# --- hierarchies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(24))
def test_deep_hierarchies_are_certified_whatever_contradicts_them(seed):
    tree, reference = contradicting(seed)
    more = [NonNegative()] if seed % 3 else []
    solution = Problem(KullbackLeibler(), [tree, *more]).solve(reference)
    assert (solution.solver, solution.status) == ("scaled tree", "optimal")
    assert solution.certificate.is_optimal(1e-12, relative=True)
    rows = tree.rows(len(reference))
    f = solution.frequencies
    rise, terms = rise_above_bound(f, reference, rows.matrix.toarray(), rows.lower)
    assert rise <= CERTIFIED * terms


@pytest.mark.parametrize("seed", range(6))
def test_a_point_beside_the_minimum_is_refused(seed):
    tree, reference = contradicting(seed)
    problem = Problem(KullbackLeibler(), [tree])
    right = problem.minimise(reference)
    # Another reference has another minimum on the same tree, which is feasible here.
    other = problem.minimise(
        reference * np.exp(np.random.default_rng(seed).normal(0, 0.1, len(right)))
    )
    certificate = certify(problem, reference, other)
    assert not certificate.is_optimal(1e-8, relative=True)
    loss = KullbackLeibler()
    rise = loss.value(other, problem.accept(reference)) - loss.value(
        right, problem.accept(reference)
    )
    assert certificate.gap >= rise > 0


@pytest.mark.parametrize("loss", ["given", "entropy", "scaled"])
def test_all_divergences_have_the_form(loss):
    tree, reference = contradicting(5)
    losses = {"given": KLTo(reference), "entropy": Entropy(), "scaled": 3.0 * KLTo(reference)}
    solution = Problem(losses[loss], [tree]).solve(np.ones(len(reference)))
    assert (solution.solver, solution.status) == ("scaled tree", "optimal")


def test_a_sum_and_its_parts_meet_at_a_geometric_mean():
    reference = np.array([0.5, 1e-9, 3e-9])
    f = closed_form.tree_scaling(reference, np.array([-1, 0, 0]))
    expected = np.sqrt(0.5 * 4e-9) / np.e
    assert_allclose(f, expected * np.array([1, 0.25, 0.75]), rtol=1e-14)


def test_the_labels_of_the_nodes_do_not_matter():
    tree, reference = contradicting(9)
    d = len(reference)
    place = np.random.default_rng(1).permutation(d)
    moved = np.full(d, -1)
    moved[place] = np.where(tree.parents < 0, -1, place[tree.parents])
    shuffled = np.empty(d)
    shuffled[place] = reference
    f = closed_form.tree_scaling(reference, tree.parents, 1.0)
    assert_allclose(closed_form.tree_scaling(shuffled, moved, 1.0)[place], f, rtol=1e-11)


@pytest.mark.parametrize("total", [None, 1.0])
def test_a_hundred_thousand_levels_take_no_more_steps(total):
    levels = 100_000
    node = np.arange(2 * levels + 1)
    # A leaf and an inner node at each level.
    parents = np.where(node % 2 == 1, node - 1, node - 2)
    parents[0] = -1
    reference = 10.0 ** np.random.default_rng(2).uniform(-2, 0, len(node))
    f = closed_form.tree_scaling(reference, parents, total)
    assert Hierarchy(parents, total).violation(f) <= SUM
    # The nearest consistent vector in the metric of the second derivative is the point itself.
    nearest = closed_form.tree_consistency(f, parents, 1 / f, total)
    assert_allclose(nearest, f, rtol=1e-7)


def test_nodes_without_a_positive_reference_are_zero_with_all_below_them():
    parents = np.array([-1, 0, 0, 1, 1, 2, 2])
    reference = np.array([[1.0, -0.1, 0.5, 0.5, 0.2, 0.3, 0.1], [1, 0.5, 0.5, 0.2, 0.2, 0, -1]])
    solution = Problem(KullbackLeibler(), [Hierarchy(parents, 1.0)]).solve(reference)
    assert solution.status == "optimal"
    assert_array_equal(solution.frequencies > 0, [[1, 0, 1, 0, 0, 1, 1], [1, 1, 0, 1, 1, 0, 0]])
    assert_allclose(solution.frequencies[:, 0], 1.0, rtol=1e-15)


@pytest.mark.parametrize("reference", [[-0.1, 0.5, 0.5], [1.0, -0.5, 0.0]])
def test_a_total_that_zeros_cannot_have_is_named(reference):
    problem = Problem(KullbackLeibler(), [Hierarchy([-1, 0, 0], total=1.0), NonNegative()])
    # One estimate has to be positive for the loss to be defined at all.
    with pytest.raises(InfeasibleError, match=r"the roots sum to 1.*else KullbackLeibler"):
        problem.solve(reference)


# --- equations ------------------------------------------------------------------------------------


def margins(rng):
    shape = tuple(rng.integers(2, 7, rng.integers(2, 4)))
    table = rng.dirichlet(np.full(np.prod(shape), 0.3)).reshape(shape)
    axes = range(len(shape))
    sums = [table.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    return table.size, [Margins(shape, axis, sums[axis]) for axis in axes]


def nested_groups(rng):
    d = int(rng.integers(10, 60))
    table = rng.dirichlet(np.full(d, 0.3))
    sizes = sorted(set(rng.integers(1, d, 5).tolist()))
    totals = [table[:size].sum() for size in sizes]
    return d, [SumsTo(float(table.sum())), GroupTotals([np.arange(n) for n in sizes], totals)]


def signed_rows(rng):
    d = int(rng.integers(10, 60))
    table = rng.dirichlet(np.full(d, 0.3))
    A = rng.normal(0, 1, (3, d))
    return d, [SumsTo(float(table.sum())), Linear(A, A @ table, A @ table)]


def tree_with_known_root(rng):
    parents = deep_tree(rng, 5)
    return len(parents), [Hierarchy(parents), Linear([np.eye(len(parents))[0]], 0.5, 0.5)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("stated", [margins, nested_groups, signed_rows, tree_with_known_root])
def test_equations_are_met_and_the_point_certified(stated, seed):
    rng = np.random.default_rng(seed)
    d, constraints = stated(rng)
    reference = 10.0 ** rng.uniform(-12, 0, d)
    solution = Problem(KullbackLeibler(), [*constraints, NonNegative()]).solve(reference)
    assert (solution.solver, solution.status) == ("newton on multipliers", "optimal")
    assert solution.certificate.is_optimal(1e-11, relative=True)
    equations = equations_of(constraints, d)
    matrix = equations.matrix.toarray()
    rise, terms = rise_above_bound(solution.frequencies, reference, matrix, equations.right)
    assert rise <= 1e-10 * terms


def test_margins_are_those_of_iterative_proportional_fitting():
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.ones(4))
    columns = rng.dirichlet(np.ones(5))
    reference = rng.uniform(0.1, 1, (4, 5))
    table = reference.copy()
    for _ in range(500):
        table *= (rows / table.sum(axis=1))[:, None]
        table *= columns / table.sum(axis=0)
    margins_of_table = [Margins((4, 5), 0, rows), Margins((4, 5), 1, columns)]
    f = Problem(KullbackLeibler(), margins_of_table).minimise(reference.ravel())
    assert_allclose(f.reshape(4, 5), table, rtol=1e-10)


def test_sums_of_zero_leave_zeros():
    margins_of_table = [Margins((2, 2), 0, [1.0, 0.0]), Margins((2, 2), 1, [0.25, 0.75])]
    solution = Problem(KullbackLeibler(), margins_of_table).solve([0.2, 0.3, 0.1, 0.4])
    assert solution.status == "optimal"
    assert_allclose(solution.frequencies, [0.25, 0.75, 0, 0], rtol=1e-14)


@pytest.mark.parametrize(
    ("rows", "reference"),
    [([0.5, 0.7], [0.2, 0.3, 0.1, 0.4]), ([0.6, 0.4], [0.2, -0.3, -0.1, 0.4])],
    ids=["totals", "zeros"],
)
def test_margins_that_no_table_has_are_named(rows, reference):
    margins_of_table = [Margins((2, 2), 0, [0.5, 0.5]), Margins((2, 2), 1, rows)]
    with pytest.raises(InfeasibleError, match="these conflict"):
        Problem(KullbackLeibler(), margins_of_table).solve(reference)


@pytest.mark.parametrize("more", [Monotone([1, 2]), Fixed([1], [0.25])])
def test_what_is_no_equation_is_left_to_the_solver(more):
    tree = Hierarchy([-1, 0, 0], total=1.0)
    plan = Problem(KullbackLeibler(), [tree, more]).plan([1.0, 0.5, 0.4])
    assert plan.path == "conic"
