"""Normal equations of sparse rows: their solution, and how much a factorisation fills in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.sparse import linalg

from ldpopt.solve.certificate.prices import normal_equations
from ldpopt.solve.certificate.prices.normal_equations import NormalEquations


def factors_of(monkeypatch):
    """Return a list to which every sparse factorisation is added."""
    factors = []
    splu = linalg.splu
    monkeypatch.setattr(linalg, "splu", lambda m, **o: factors.append(splu(m, **o)) or factors[-1])
    return factors


def chain_with_groups(d, groups):
    """Return the rows of a chain, of groups that are far from each other in it, and of a total."""
    pairs = sparse.diags_array([np.ones(d - 1), -np.ones(d - 1)], offsets=[0, 1], shape=(d - 1, d))
    of_groups = sparse.csr_array((np.ones(d), (groups, np.arange(d))))
    return sparse.vstack([pairs, of_groups, np.ones((1, d))]).tocsr()


def test_a_crowded_column_leaves_the_equations_sparse_and_their_solution_as_it_is(monkeypatch):
    rng = np.random.default_rng(0)
    size = 400
    # One column holds a part of every row, as that of a sum of auxiliary variables does.
    rows = sparse.hstack(
        [sparse.random_array((size, size), density=0.01, rng=rng), np.ones((size, 1))]
    ).tocsr()
    weights = rng.uniform(0.5, 2.0, size + 1)
    right = rng.normal(size=size)
    gram = (rows * weights) @ rows.T
    equations = NormalEquations(rows, weights, 1e-3)
    exact = np.linalg.solve(gram.toarray() + np.diag(1e-3 * gram.diagonal()), right)
    assert_allclose(equations.solve(right), exact, rtol=1e-9, atol=1e-9)
    assert_allclose(equations.product(right), gram @ right, rtol=1e-12)
    # Without an unknown of its own the column makes the matrix dense.
    sizes = []
    splu = linalg.splu
    monkeypatch.setattr(linalg, "splu", lambda m, **o: sizes.append(m.nnz) or splu(m, **o))
    NormalEquations(rows, weights, 1e-3)
    monkeypatch.setattr(normal_equations, "_FEW", 0)
    NormalEquations(rows, weights, 1e-3)
    assert sizes[0] < sizes[1] / 5
    assert sizes[1] == size**2


@pytest.mark.parametrize("arrangement", ["one after the other", "spread"])
def test_long_rows_beside_a_chain_fill_no_more_than_their_own_entries(arrangement, monkeypatch):
    d = 4000
    count = 25
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(count, size=d))
    if arrangement == "spread":
        rng.shuffle(groups)
    rows = chain_with_groups(d, groups)
    # Values that no bound holds, and some that one does.
    weights = np.where(rng.random(d) < 0.9, 1.0, 0.0)
    factors = factors_of(monkeypatch)
    equations = NormalEquations(rows, weights, 1e-11)
    gram = (rows * weights) @ rows.T
    (factor,) = factors
    assert factor.L.nnz + factor.U.nnz < 2 * gram.nnz
    right = equations.product(rng.normal(size=d + count))
    solution = equations.solve(right)
    for _ in range(3):
        solution = solution + equations.solve(right - equations.product(solution))
    # The groups add up to the total: the multipliers are not unique, and their product is.
    assert_allclose(equations.product(solution), right, rtol=0, atol=1e-9 * np.abs(right).max())


@pytest.mark.parametrize("count", [2, 16, 40])
@pytest.mark.parametrize("has_crowded_column", [False, True])
def test_long_rows_that_come_last_solve_the_same_system(count, has_crowded_column, monkeypatch):
    d = 4000
    rng = np.random.default_rng(count)
    groups = rng.integers(count, size=d)
    rows = chain_with_groups(d, groups)[:-1]
    if has_crowded_column:
        column = np.where(rng.random((rows.shape[0], 1)) < 0.5, 1.0, 0.0)
        rows = sparse.hstack([rows, column]).tocsr()
    weights = rng.uniform(0.5, 2.0, rows.shape[1])
    right = rng.normal(size=rows.shape[0])
    factors = factors_of(monkeypatch)
    by_parts = NormalEquations(rows, weights, 1e-6).solve(right)
    monkeypatch.setattr(normal_equations, "_MOST_LONG", 0)
    as_a_whole = NormalEquations(rows, weights, 1e-6).solve(right)
    assert_allclose(by_parts, as_a_whole, rtol=0, atol=1e-9 * np.abs(as_a_whole).max())
    # What comes last is no part of the sparse matrix.
    assert factors[1].shape[0] - factors[0].shape[0] == count
