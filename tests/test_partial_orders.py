"""Any partial order: pooled by flows, before everything else, and certified."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, closed_form, losses, oracles
from ldpopt.closed_form.orders import _pieces
from ldpopt.closed_form.partial_order_kernels import pooled_rows
from ldpopt.constraints import Bounds, Monotone, NonNegative, SumsTo
from ldpopt.solve.acceptance.judge import size_of

D = 12
ORACLE = oracles.OUE(1.0, D)
RNG = np.random.default_rng(3)
# A table of 3 × 4 values that falls along rows and columns.
CELLS = np.arange(D).reshape(3, 4)
TABLE = np.concatenate(
    [
        np.stack([CELLS[:-1].ravel(), CELLS[1:].ravel()], axis=1),
        np.stack([CELLS[:, :-1].ravel(), CELLS[:, 1:].ravel()], axis=1),
    ]
)
RANDOM = RNG.permutation(D)[np.argwhere(np.triu(RNG.random((D, D)) < 0.2, 1))]
SIMPLEX = [NonNegative(), SumsTo(1.0)]
STARTS = np.stack(
    [
        *RNG.normal(1 / D, 0.1, (4, D)).clip(-0.2, 0.9),
        np.arange(D) / 40 - 0.1,
        np.full(D, 0.2),
        np.where(np.arange(D) % 3 == 0, 0.3, -0.1),
        np.where(np.arange(D) == D - 1, 0.9, 0.0),
    ]
)

PROBLEMS = {
    "squares": (losses.LeastSquares(), [Monotone(TABLE), *SIMPLEX]),
    "squares, caps": (losses.LeastSquares(), [Monotone(RANDOM), Bounds(0.0, 0.2), SumsTo(1.0)]),
    "binomial": (losses.BinomialMLE(), [Monotone(TABLE), *SIMPLEX]),
    "weighted likelihood": (losses.GaussianMLE(), [Monotone(RANDOM), *SIMPLEX]),
    "weights without a total": (
        losses.WeightedLeastSquares(np.linspace(0.5, 3.0, D)),
        [Monotone(TABLE), NonNegative()],
    ),
    # Together they make the last three values equal.
    "equal values": (
        losses.LeastSquares(),
        [Monotone(TABLE), Monotone([11, 10, 9]), *SIMPLEX],
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_pooling_by_flows_is_certified(name):
    loss, constraints = PROBLEMS[name]
    starts = np.abs(STARTS) if name == "weighted likelihood" else STARTS
    problem = Problem(loss, constraints)
    solution = problem.solve(FrequencyEstimate(starts, 4_000, ORACLE))
    assert solution.path == "closed-form"
    assert solution.solver.startswith("pooling by flows")
    certificate = solution.certificate
    size = size_of(problem, solution.estimate, solution.frequencies, solution.objective)
    assert np.max(certificate.gap / size) <= 1e-12
    assert np.max(certificate.violation) <= 1e-15


def test_a_chain_of_pairs_is_pooled_as_chains_are():
    """Blocks of one algorithm are those of the other, to the last bits of their means."""
    values = RNG.normal(size=(3, 300))
    weights = RNG.uniform(0.1, 2.0, 300)
    pairs = np.stack([np.arange(299), np.arange(1, 300)], axis=1)
    by_flows = closed_form.isotonic_on_pairs(values, pairs, weights)
    by_pava = closed_form.isotonic(values, np.arange(-1, 299), weights)
    assert_allclose(by_flows, by_pava, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_every_block_is_needed_at_any_scale(scale):
    """The least max-min of means over sets that the order allows, by enumeration."""
    values = scale * np.array([0.1, 0.5, 0.2, 0.4, 0.4])
    pairs = np.array([[0, 1], [0, 2], [1, 3], [2, 3], [2, 4]])
    above = [0, 0b00001, 0b00001, 0b00111, 0b00101]
    uppers = [
        s for s in range(1, 32) if all(above[v] & s == above[v] for v in range(5) if s >> v & 1)
    ]

    def mean(members):
        return np.mean([values[v] for v in range(5) if members >> v & 1])

    # f_v is the largest over upper sets U with v of the smallest over upper sets without v.
    expected = [
        max(
            min(mean(u & ~w) for w in (0, *uppers) if not w >> v & 1 and u & ~w)
            for u in uppers
            if u >> v & 1
        )
        for v in range(5)
    ]
    pooled = closed_form.isotonic_on_pairs(values[None], pairs, np.ones(5))[0]
    assert_allclose(pooled, expected, rtol=1e-14)


def test_parts_that_no_pair_joins_are_pooled_by_themselves():
    # Interleaved parts of about five values, and together more than are pooled at a time.
    d = 3_000
    part = RNG.integers(0, 600, d)
    along = np.argsort(part)
    first = RNG.integers(0, d - 4, 9_000)
    second = first + RNG.integers(1, 4, len(first))
    pairs = np.stack([along[first], along[second]], axis=1)
    pairs = pairs[part[pairs[:, 0]] == part[pairs[:, 1]]]
    values = RNG.normal(size=(2, d))
    weights = RNG.uniform(0.1, 2.0, d)
    assert len(_pieces(pairs, d)[0]) > 1
    pooled = closed_form.isotonic_on_pairs(values, pairs, weights)
    above, below = np.ascontiguousarray(pairs.T)
    at_once = np.empty(values.shape)
    # Whatever the blocks that it begins with: one of all values falls apart into the parts.
    pooled_rows(values, weights, above, below, np.zeros(d, dtype=np.int64), at_once)
    assert_allclose(pooled, at_once, atol=1e-14)
    assert np.all(pooled[:, above] >= pooled[:, below])


def test_values_without_pairs_and_an_empty_order_stay():
    values = RNG.normal(size=(2, 4))
    nothing = np.empty((0, 2), dtype=np.int64)
    kept = closed_form.isotonic_on_pairs(values, nothing, np.ones(4))
    np.testing.assert_array_equal(kept, values)
