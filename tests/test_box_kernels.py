"""Weighted squares on a box with a total, compiled, against the search for any loss."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import Problem
from ldpopt.constraints import Bounds, NonNegative, SumsTo
from ldpopt.errors import InvalidInputError
from ldpopt.losses import LeastSquares, WeightedLeastSquares
from ldpopt.solve.paths.closed_forms import one_root
from tests.tolerances import SUM

D = 130


@pytest.fixture
def compiled(monkeypatch):
    """Let stacks of any size be solved by the compiled code."""
    monkeypatch.setattr(one_root, "LARGE", 0)


def estimates(scale, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(D), 4) + rng.normal(0, scale, (4, D))


CAPS = np.random.default_rng(5).uniform(0.01, 0.3, D)
FLOORS = np.random.default_rng(6).uniform(-0.02, 0.0, D)
WEIGHTS = 10.0 ** np.random.default_rng(7).uniform(-3, 3, D)
PROBLEMS = {
    "weighted simplex": (WeightedLeastSquares(WEIGHTS), [NonNegative(), SumsTo(1.0)]),
    "capped": (LeastSquares(), [Bounds(0.0, 0.05), SumsTo(1.0)]),
    "own bounds": (WeightedLeastSquares(WEIGHTS), [Bounds(FLOORS, CAPS), SumsTo(1.0)]),
    "all at their caps": (LeastSquares(), [Bounds(0.0, 1 / D), SumsTo(1.0)]),
    "another total": (WeightedLeastSquares(WEIGHTS), [Bounds(-1.0, 2.0), SumsTo(-0.5)]),
    "one interval is a point": (
        LeastSquares(),
        [Bounds(np.zeros(D), np.where(np.arange(D) < 3, 0.0, 1.0)), SumsTo(1.0)],
    ),
}


@pytest.mark.parametrize("scale", [0.0, 0.01, 3.0, 1e6])
@pytest.mark.parametrize("name", PROBLEMS)
def test_points_are_certified_and_those_of_the_search(name, scale, monkeypatch):
    problem = Problem(*PROBLEMS[name])
    stack = estimates(scale)
    monkeypatch.setattr(one_root, "LARGE", 0)
    solution = problem.solve(stack, path="closed-form")
    assert solution.certificate.is_optimal(1e-9 * max(1.0, scale))
    assert np.max(solution.certificate.violation) <= SUM
    monkeypatch.setattr(one_root, "LARGE", 1 << 40)
    searched = problem.minimise(stack)
    assert_allclose(solution.frequencies, searched, rtol=0, atol=1e-9 * max(1.0, scale))


def test_rows_do_not_depend_on_each_other(compiled):
    problem = Problem(*PROBLEMS["own bounds"])
    stack = estimates(0.05)
    together = problem.minimise(stack)
    for row, vector in zip(together, stack, strict=True):
        assert (row == problem.minimise(vector)).all()


def test_estimates_beyond_double_precision_are_refused(compiled):
    # Both values jump from one bound to the other at one multiplier: their last bit is worth 16.
    stack = np.array([[0.1, 0.2], [1e17, 1e17]])
    problem = Problem(LeastSquares(), [Bounds(0.0, 0.8), SumsTo(1.0)])
    with pytest.raises(InvalidInputError, match="trial 1 is beyond double precision"):
        problem.minimise(stack)
