"""Multipliers of orders by pooling: by hand, complete on random forests, without a program."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from ldpopt import Problem, certify, closed_form
from ldpopt.constraints import (
    Bounds,
    GroupTotals,
    LinearInequalities,
    Monotone,
    NonNegative,
    SumsTo,
    Unimodal,
)
from ldpopt.losses import KullbackLeibler, LeastSquares, WeightedLeastSquares
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.certificate.prices import forest_loops
from ldpopt.solve.certificate.prices.forests import bounds_along, flowing_multipliers, forest_of
from tests.tolerances import CERTIFIED, SUM

D = 40
SIMPLEX = [NonNegative(), SumsTo(1.0)]
TREE = [((i - 1) // 3, i) for i in range(1, D)]
ORDERS = {
    "chain": [Monotone(np.arange(D))],
    "half of a chain": [Monotone(np.arange(D // 2))],
    "highest roots": [Monotone(TREE)],
    "lowest roots": [Monotone([(child, parent) for parent, child in TREE])],
    "one mode": [Unimodal(4)],
}


def free(d):
    return Box(np.full(d, -np.inf), np.full(d, np.inf))


def differences(pairs, d, factors=None, lower=0.0, upper=np.inf):
    """Return rows c (f_i - f_j)."""
    matrix = np.zeros((len(pairs), d))
    for row, (i, j) in enumerate(pairs):
        matrix[row, i] += 1.0
        matrix[row, j] -= 1.0
    if factors is not None:
        matrix *= np.asarray(factors)[:, None]
    rows = len(pairs)
    lower = np.broadcast_to(np.asarray(lower, dtype=float), rows)
    return LinearInequalities(sparse.csr_array(matrix), lower, np.broadcast_to(upper, rows))


# --- by hand --------------------------------------------------------------------------------------


def test_multipliers_of_a_pooled_chain_are_sums_of_what_stands_before_them():
    # The mean of 0.1, 0.4 and 0.7 is 0.4: the gradient there is 0.3, 0, -0.3.
    system = differences([(0, 1), (1, 2)], 3)
    point = np.full(3, 0.4)
    slope = np.array([0.3, 0.0, -0.3])
    forest = forest_of(system.matrix)
    result = flowing_multipliers(forest, point, slope, system, free(3))
    assert_allclose(result, [0.3, 0.3], rtol=SUM)


def test_a_pooled_block_of_zeros_leaves_the_rest_to_a_bound():
    system = differences([(0, 1)], 2)
    forest = forest_of(system.matrix)
    bounds = Box(np.zeros(2), np.full(2, np.inf))
    # From -0.3 and -0.1: least squares under f_0 >= f_1 >= 0 has both at 0.
    slope = np.array([0.3, 0.1])
    result = flowing_multipliers(forest, np.zeros(2), slope, system, bounds)
    assert result.tolist() == [0.0]
    # From -0.1 and 0.05 the row has to push with at least 0.05, and the bound takes the other 0.05.
    slope = np.array([0.1, -0.05])
    result = flowing_multipliers(forest, np.zeros(2), slope, system, bounds)
    assert_allclose(result, [0.05], rtol=SUM)


@pytest.mark.parametrize("factor", [1.0, -2.0])
def test_signs_follow_the_bound_that_holds_and_the_factor(factor):
    ends = {"lower": 0.0} if factor > 0 else {"lower": -np.inf, "upper": 0.0}
    system = differences([(0, 1)], 2, [factor], **ends)
    slope = np.array([0.5, -0.5])
    forest = forest_of(system.matrix)
    result = flowing_multipliers(forest, np.zeros(2), slope, system, free(2))
    assert_allclose(result, [0.5 / factor], rtol=SUM)
    # The other way round no multiplier of the right sign explains the slope.
    result = flowing_multipliers(forest, np.zeros(2), -slope, system, free(2))
    assert result.tolist() == [0.0]


def test_the_total_has_the_mean_slope_of_blocks_that_no_bound_holds():
    everything = sparse.csr_array(np.ones((1, 4)))
    order = differences([(0, 1), (2, 3)], 4)
    system = LinearInequalities(
        sparse.vstack([everything, order.matrix], format="csr"),
        np.array([1.0, 0.0, 0.0]),
        np.array([1.0, np.inf, np.inf]),
    )
    forest = forest_of(system.matrix)
    bounds = Box(np.zeros(4), np.full(4, np.inf))
    point = np.array([0.5, 0.5, 0.0, 0.0])
    slope = np.array([0.3, 0.1, 0.9, 0.4])
    result = flowing_multipliers(forest, point, slope, system, bounds)
    assert_allclose(result[:2], [0.2, 0.1], rtol=SUM)
    # One value at its bound holds its whole block.
    one_bound = Box(np.array([0.0, 0.0, -np.inf, 0.0]), np.full(4, np.inf))
    result = flowing_multipliers(forest, point, slope, system, one_bound)
    assert_allclose(result[:2], [0.2, 0.1], rtol=SUM)
    # Of two free blocks each value counts the same, whatever the size of its block.
    point = np.array([0.3, 0.3, 0.3, 0.1])
    result = flowing_multipliers(forest, point, slope, system, bounds)
    assert_allclose(result[0], np.mean(slope), rtol=SUM)
    # Where a bound holds every block the price is open.
    assert flowing_multipliers(forest, np.zeros(4), slope, system, bounds) is None


@pytest.mark.parametrize(
    "pairs",
    [[(0, 1), (1, 2), (2, 0)], [(0, 1), (0, 1)], [(0, 1), (0, 2), (1, 3), (2, 3)]],
    ids=["cycle", "twice", "diamond"],
)
def test_what_is_no_forest_is_none(pairs):
    assert forest_of(differences(pairs, 5).matrix) is None


@pytest.mark.parametrize("row", [[1.0, 1.0, 0.0], [1.0, -1.0, -1.0], [1.0, -2.0, 0.0]], ids=str)
def test_rows_that_are_no_differences_are_no_forest(row):
    assert forest_of(sparse.csr_array(np.array([row]))) is None


def test_a_row_that_names_one_value_twice_ties_nothing():
    entries = (np.array([1.0, -1.0, 1.0, -1.0]), np.array([0, 0, 0, 1]), np.array([0, 2, 4]))
    forest = forest_of(sparse.csr_array(entries, (2, 2)))
    assert forest.row[forest.has_row].tolist() == [1]


def test_rows_beside_a_forest_explain_the_sum_of_each_block():
    # The blocks {0, 1} and {2, 3}, and a value by itself; the groups {0, 2} and {1, 3, 4}.
    order = differences([(0, 1), (2, 3)], 5)
    groups = sparse.csr_array(np.array([[1.0, 0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0, 1.0]]))
    system = LinearInequalities(
        sparse.vstack([order.matrix, groups], format="csr"),
        np.array([0.0, 0.0, 0.4, 0.6]),
        np.array([np.inf, np.inf, 0.4, 0.6]),
    )
    point = np.array([0.3, 0.3, 0.1, 0.1, 0.2])
    # 0.5 goes through the group of values 0 and 2, 0.2 through the other.
    slope = np.array([0.8, -0.1, 0.6, 0.1, 0.2])
    forest = forest_of(system.matrix)
    result = flowing_multipliers(forest, point, slope, system, free(5))
    assert_allclose(result, [0.3, 0.1, 0.5, 0.2], rtol=SUM)
    # A limit that may only push up gets nothing where the slope asks it to push down.
    only_up = LinearInequalities(system.matrix, system.lower, np.array([np.inf] * 3 + [0.6]))
    turned = slope - 1.0 * np.array([1.0, 0.0, 1.0, 0.0, 0.0])
    assert flowing_multipliers(forest, point, turned, only_up, free(5))[2] == 0.0


# --- random forests -------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1))
def test_every_slope_that_has_multipliers_gets_some(seed):
    generator = np.random.default_rng(seed)
    d = int(generator.integers(2, 9))
    pairs = []
    for child in range(1, d):
        if generator.random() < 0.8:
            pair = (child, int(generator.integers(child)))
            pairs.append(pair if generator.random() < 0.5 else pair[::-1])
    if not pairs:
        return
    factors = generator.choice([-2.0, 1.0, 0.5], len(pairs))
    kinds = generator.integers(3, size=len(pairs))
    lower = np.where(kinds == 1, -np.inf, 0.0)
    system = differences(pairs, d, factors, lower, np.where(kinds == 0, np.inf, 0.0))
    ends = generator.choice([-np.inf, 0.0], d), generator.choice([0.0, np.inf], d)
    # At 0 every row and every finite bound holds.
    rows = np.abs(generator.normal(size=len(pairs))) * np.array([1, -1, 1])[kinds]
    rows[generator.random(len(pairs)) < 0.3] = 0.0
    of_bounds = generator.normal(size=d)
    of_bounds[(of_bounds > 0) & np.isinf(ends[0])] = 0.0
    of_bounds[(of_bounds < 0) & np.isinf(ends[1])] = 0.0
    slope = system.matrix.T @ rows + of_bounds
    forest = forest_of(system.matrix)
    result = flowing_multipliers(forest, np.zeros(d), slope, system, Box(*ends))
    assert np.all(result[kinds == 0] >= 0)
    assert np.all(result[kinds == 1] <= 0)
    rest = slope - system.matrix.T @ result
    assert np.all(np.isfinite(ends[0]) | (rest <= CERTIFIED))
    assert np.all(np.isfinite(ends[1]) | (rest >= -CERTIFIED))


# --- certificates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("further", [[], [NonNegative()], SIMPLEX], ids=str)
def test_orders_are_certified_without_a_program(name, further, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a program was solved")

    monkeypatch.setattr(polyhedron, "_of_programs", refuse)
    monkeypatch.setattr(polyhedron, "explaining_multipliers", refuse)
    raw = np.random.default_rng(0).normal(1 / D, 0.1, (5, D))
    problem = Problem(LeastSquares(), [*ORDERS[name], *further])
    solution = problem.solve(raw)
    assert solution.certificate.is_optimal(1e-14, relative=True)
    assert np.all(solution.certificate.stationarity <= SUM)


def test_capped_and_weighted_orders_are_certified_too():
    weights = np.linspace(1, 5, D)
    raw = np.random.default_rng(0).normal(1 / D, 0.1, D)
    constraints = [Monotone(np.arange(D)), Bounds(-0.05, 0.04)]
    problem = Problem(WeightedLeastSquares(weights), constraints)
    # Clipping keeps an order, and is right for squares of any weights.
    point = np.clip(closed_form.monotone(raw, np.arange(D), weights), -0.05, 0.04)
    assert certify(problem, raw, point).is_optimal(1e-15, relative=True)
    moved = point.copy()
    moved[:2] -= 1e-5
    assert not certify(problem, raw, moved).is_optimal(1e-10)


@pytest.mark.parametrize("d", [40, 300])
def test_totals_of_groups_beside_a_chain_with_a_tail_of_zeros_need_no_program(d, monkeypatch):
    """Which rows of the tail carry something is open, so that least squares may go round."""

    def refuse(*_, **__):
        raise AssertionError("a program or a least-squares problem of all rows was solved")

    monkeypatch.setattr(polyhedron, "_of_programs", refuse)
    monkeypatch.setattr(polyhedron, "explaining_multipliers", refuse)
    generator = np.random.default_rng(0)
    truth = np.sort(generator.dirichlet(np.full(d, 0.1)))[::-1]
    groups = [np.arange(start, d, 7) for start in range(7)]
    totals = [truth[group].sum() for group in groups]
    constraints = [NonNegative(), Monotone(np.arange(d)), GroupTotals(groups, totals)]
    raw = truth + generator.normal(0, 0.3 / d, d)
    solution = Problem(LeastSquares(), constraints).solve(raw)
    assert np.count_nonzero(solution.frequencies < 1e-12) > 5
    assert solution.certificate.is_optimal(1e-12, relative=True)


def test_an_order_passes_bounds_on_and_rounds_nothing():
    # 3 >= 0 >= 1 and 0 >= 2.
    system = differences([(0, 1), (0, 2), (3, 0)], 4)
    forest = forest_of(system.matrix)
    bounds = Box(np.array([0.1, 0.0, 0.3, 0.0]), np.array([1.0, 1.0, 1.0, 0.7]))
    result = bounds_along(forest, system, bounds)
    assert result.lower.tolist() == [0.3, 0.0, 0.3, 0.3]
    assert result.upper.tolist() == [0.7, 0.7, 0.7, 0.7]
    # The last row is about others than a root, whose bounds go no further.
    apart = bounds_along(
        forest_of(system.matrix[:1]),
        LinearInequalities(system.matrix[:1], system.lower[:1], system.upper[:1]),
        Box(np.zeros(4), np.array([0.7, 0.7, 1.0, 1.0])),
    )
    assert apart.upper.tolist() == [0.7, 0.7, 1.0, 1.0]
    # Rows with another bound than 0 leave it to propagation.
    shifted = differences([(0, 1), (0, 2), (3, 0)], 4, lower=0.1)
    result = bounds_along(forest, shifted, bounds)
    assert result.lower.tolist() == bounds.lower.tolist()
    assert result.upper.tolist() == bounds.upper.tolist()


def test_values_below_a_zero_of_an_order_are_zero_though_the_loss_is_infinitely_steep():
    # Value 2 has no estimate, so that it and all values after it are 0.
    raw = np.array([0.5, 0.3, -0.1, 0.2, 0.1, 0.3])
    problem = Problem(KullbackLeibler(), [*SIMPLEX, Monotone(np.arange(6))])
    solution = problem.solve(raw)
    assert solution.status == "optimal"
    assert solution.frequencies[2:].tolist() == [0.0] * 4
    assert_allclose(solution.frequencies[:2], [0.625, 0.375], rtol=SUM)
    assert solution.certificate.is_optimal(1e-14, relative=True)
    assert np.isfinite(solution.certificate.row_multipliers).all()
    # Any mass there is outside the set, and the gap says nothing about it.
    assert not certify(problem, raw, [0.6, 0.3, 0.0, 0.1, 0.0, 0.0]).is_optimal(1e-3)


def test_compiled_loops_return_the_very_numbers_of_plain_ones(monkeypatch):
    generator = np.random.default_rng(8)
    d = 300
    # Trees and a chain, with labels in any order.
    label = generator.permutation(d)
    parents = [max(0, v - int(generator.integers(1, 4))) if v % 50 else v - 1 for v in range(1, d)]
    pairs = [(int(label[p]), int(label[v])) for v, p in enumerate(parents, start=1) if v != 150]
    system = differences(pairs, d)
    f = generator.integers(0, 4, d) / 4
    bounds = Box(f - generator.choice([0.0, 0.5], d), f + generator.choice([0.0, 0.5], d))
    slope = generator.normal(size=d)

    def everything():
        forest = forest_of(system.matrix)
        flows = flowing_multipliers(forest, f, slope, system, bounds)
        return [*forest, flows, *bounds_along(forest, system, bounds)]

    plain = everything()
    monkeypatch.setattr(forest_loops, "_LONG", 0)
    for one, other in zip(plain, everything(), strict=True):
        np.testing.assert_array_equal(one, other)
