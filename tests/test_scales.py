"""Frequencies of any size have the same answers: counts of users, shares, and shares of shares."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, certify
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Hierarchy,
    Linear,
    Margins,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
)
from ldpopt.errors import LdpoptWarning
from ldpopt.losses import (
    Entropy,
    Huber,
    KullbackLeibler,
    L1To,
    LeastAbsolute,
    LeastSquares,
    MaxAbsolute,
    TotalVariation,
    WeightedLeastSquares,
)
from ldpopt.solve.acceptance import judge as acceptance
from ldpopt.solve.plan import Outcome, Plan
from ldpopt.solve.status import Status
from tests.every_two import every_two

D = 9
RNG = np.random.default_rng(0)
ABOVE = RNG.normal(0.4, 0.05, D)
AROUND = RNG.normal(1 / D, 0.2, D)
WEIGHTS = RNG.uniform(1, 5, D)
REFERENCE = RNG.dirichlet(np.ones(D))
PLACES = np.arange(float(D))
SQUARES = LeastSquares()
GROUPS = ([0, 1, 2], [3, 4])
# From a unit to loss and constraints, all of whose numbers count in that unit.
FAMILIES = {
    "simplex": lambda c: (SQUARES, [NonNegative(), SumsTo(c)]),
    "total": lambda c: (SQUARES, [SumsTo(c)]),
    "floor": lambda c: (SQUARES, [Bounds(0.02 * c, np.inf), SumsTo(c)]),
    "caps": lambda c: (SQUARES, [Bounds(0, np.linspace(0.2, 0.5, D) * c), SumsTo(c)]),
    "weights": lambda c: (WeightedLeastSquares(WEIGHTS), [NonNegative(), SumsTo(c)]),
    "weights, caps": lambda c: (WeightedLeastSquares(WEIGHTS), [Bounds(0, 0.4 * c), SumsTo(c)]),
    "fixed": lambda c: (SQUARES, [NonNegative(), SumsTo(c), Fixed([2], [0.1 * c])]),
    "few values": lambda c: (SQUARES, [NonNegative(), SumsTo(c), AtMost(3)]),
    "chain": lambda c: (SQUARES, [NonNegative(), SumsTo(c), Monotone(np.arange(D))]),
    "chain, caps": lambda c: (SQUARES, [Bounds(0, 0.2 * c), SumsTo(c), Monotone(np.arange(D))]),
    "pairs": lambda c: (
        SQUARES,
        [NonNegative(), SumsTo(c), Monotone([(0, 5), (1, 5), (0, 6), (1, 6)])],
    ),
    "mode": lambda c: (SQUARES, [NonNegative(), SumsTo(c), Unimodal(4)]),
    "top set": lambda c: (SQUARES, [NonNegative(), SumsTo(c), TopSet([0, 1])]),
    "groups": lambda c: (
        SQUARES,
        [NonNegative(), SumsTo(c), GroupTotals(GROUPS, [0.3 * c, 0.2 * c])],
    ),
    "groups, caps": lambda c: (
        WeightedLeastSquares(WEIGHTS),
        [Bounds(0, 0.3 * c), SumsTo(c), GroupTotals(GROUPS, [0.3 * c, 0.2 * c])],
    ),
    "groups, weights": lambda c: (
        WeightedLeastSquares(WEIGHTS),
        [GroupTotals(GROUPS, [0.3 * c, 0.2 * c])],
    ),
    "groups, weights, floor": lambda c: (
        WeightedLeastSquares(WEIGHTS),
        [NonNegative(), GroupTotals(GROUPS, [0.3 * c, 0.2 * c])],
    ),
    "groups, Huber": lambda c: (
        Huber(0.05 * c),
        [NonNegative(), SumsTo(c), GroupTotals(GROUPS, [0.3 * c, 0.2 * c])],
    ),
    "groups, deviations": lambda c: (
        SQUARES + 0.05 * c * L1To(REFERENCE * c),
        [NonNegative(), GroupTotals(GROUPS, [0.3 * c, 0.2 * c])],
    ),
    "groups, variation": lambda c: (
        SQUARES + 0.05 * c * TotalVariation(),
        [NonNegative(), SumsTo(c), GroupTotals(GROUPS, [0.3 * c, 0.2 * c])],
    ),
    "groups, largest deviation": lambda c: (
        SQUARES + 0.2 * c * MaxAbsolute(),
        [NonNegative(), SumsTo(c), GroupTotals(GROUPS, [0.3 * c, 0.2 * c])],
    ),
    "hierarchy": lambda c: (
        SQUARES,
        [NonNegative(), Hierarchy([-1, 0, 0, 1, 1, 1, 2, 2, 2], total=c)],
    ),
    "margins": lambda c: (
        SQUARES,
        [NonNegative(), Margins((3, 3), 0, c * np.array([0.2, 0.3, 0.5]))],
    ),
    "1-norm": lambda c: (SQUARES, [NonNegative(), SumsTo(c), Near(REFERENCE * c, 0.2 * c, 1)]),
    "2-norm": lambda c: (SQUARES, [NonNegative(), SumsTo(c), Near(REFERENCE * c, 0.1 * c)]),
    "largest": lambda c: (
        SQUARES,
        [NonNegative(), SumsTo(c), Near(REFERENCE * c, 0.1 * c, np.inf)],
    ),
    "row": lambda c: (SQUARES, [NonNegative(), SumsTo(c), Linear([PLACES], upper=[3 * c])]),
    "weights, row": lambda c: (
        WeightedLeastSquares(WEIGHTS),
        [NonNegative(), SumsTo(c), Linear([PLACES], upper=[3 * c])],
    ),
    "two rows": lambda c: (
        SQUARES,
        [NonNegative(), SumsTo(c), Linear([PLACES, PLACES**2], upper=[3 * c, 12 * c])],
    ),
    "bounded variation": lambda c: (
        SQUARES,
        [NonNegative(), SumsTo(c), Smooth(total_variation=0.3 * c)],
    ),
    "variation": lambda c: (SQUARES + 0.1 * c * TotalVariation(), [Bounds(0, 0.4 * c), SumsTo(c)]),
    "deviations": lambda c: (SQUARES + 0.05 * c * L1To(REFERENCE * c), [NonNegative(), SumsTo(c)]),
    "Huber": lambda c: (Huber(0.05 * c), [NonNegative(), SumsTo(c)]),
    "absolute": lambda c: (LeastAbsolute(), [NonNegative(), SumsTo(c)]),
}


RAW = {"above": ABOVE, "around": AROUND}


@functools.cache
def in_unit_one(name, start):
    return Problem(*FAMILIES[name](1.0)).solve(RAW[start])


@every_two(name=[*FAMILIES], exponent=[-33, -60, -150, 40, 200], start=[*RAW])
def test_an_answer_has_the_unit_of_its_problem(name, exponent, start):
    unit = 2.0**exponent
    expected = in_unit_one(name, start)
    solution = Problem(*FAMILIES[name](unit)).solve(unit * RAW[start])
    assert solution.status is expected.status is Status.OPTIMAL
    assert_allclose(solution.frequencies / unit, expected.frequencies, atol=1e-7)
    certificate = solution.certificate
    assert certificate.is_optimal(1e-8, relative=True)
    assert certificate.size <= 20 * unit


# At 2^-400 and 2^480 squares are 1e-241 and 1e289: nearer to the ends their digits are lost.
@pytest.mark.parametrize(
    ("name", "exponent"),
    # In turns one of them near an end, and one further inside on the other side.
    [(n, e) for place, n in enumerate(FAMILIES) for e in ((-400, 300), (-300, 480))[place % 2]],
)
def test_an_answer_has_the_unit_of_its_problem_as_far_as_its_loss_has_numbers(name, exponent):
    unit = 2.0**exponent
    expected = in_unit_one(name, "around")
    solution = Problem(*FAMILIES[name](unit)).solve(unit * AROUND)
    assert solution.status is Status.OPTIMAL
    assert_allclose(solution.frequencies / unit, expected.frequencies, atol=1e-7)
    assert solution.certificate.is_optimal(1e-8, relative=True)


@pytest.mark.parametrize(
    ("exponent", "reason"),
    [(-480, "vanish below the smallest doubles"), (520, "beyond the largest double")],
)
@pytest.mark.parametrize("name", ["simplex", "caps", "chain", "groups", "hierarchy"])
def test_a_loss_without_numbers_is_refused_in_words(name, exponent, reason):
    unit = 2.0**exponent
    with np.errstate(over="ignore"), pytest.warns(LdpoptWarning, match=reason):
        solution = Problem(*FAMILIES[name](unit)).solve(unit * AROUND)
    assert solution.status is Status.INACCURATE


def judged(constraints, point):
    problem = Problem(SQUARES, constraints)
    point = np.array(point)
    outcome = Outcome(frequencies=point, status=Status.OPTIMAL)
    plan = Plan("closed-form", "planted", problem, "")
    return acceptance.judge(problem, FrequencyEstimate(point), outcome, plan, "high").status


@pytest.mark.parametrize(
    ("constraints", "met", "missed"),
    [
        ([NonNegative(), SumsTo(1e-12)], [1e-12, 0.0], [0.0, 0.0]),
        ([SumsTo(1e-12)], [4e-13, 6e-13], [4e-13, 7e-13]),
        ([Bounds(0, 1e-10)], [1e-10, 0.0], [1.1e-10, 0.0]),
        ([Monotone([0, 1])], [2e-11, 1e-11], [1e-11, 2e-11]),
        ([GroupTotals([[0], [1]], [1e-10, 3e-10])], [1e-10, 3e-10], [1e-10, 2e-10]),
        ([Linear([[1.0, 2.0]], upper=[1e-10])], [1e-10, 0.0], [1.1e-10, 0.0]),
        ([Near([1e-12, 1e-12], 1e-13)], [1e-12, 1.1e-12], [1e-12, 1.2e-12]),
    ],
)
def test_a_violation_counts_in_the_unit_of_the_set(constraints, met, missed):
    assert judged(constraints, met) is Status.OPTIMAL
    assert judged(constraints, missed) is Status.INACCURATE


def test_a_constraint_that_does_not_say_its_numbers_has_the_unit_of_frequencies():
    inside = Custom(lambda f: [f[0] <= 1e-10], name="small")
    assert certify(Problem(SQUARES, [inside]), [1e-10, 0.0], [1e-10, 0.0]).size == 1


@pytest.mark.parametrize("total", [1e5, 1e9, 1e12])
def test_a_divergence_of_counts_is_that_of_shares(total):
    """Under a smooth shape a cone solver takes it, whose numbers must be near 1."""
    rng = np.random.default_rng(0)
    shares = np.maximum(rng.dirichlet(np.ones(12)) + rng.normal(0, 0.02, 12), 1e-4)

    def solved(unit):
        smooth = Smooth(total_variation=0.5 * unit)
        sets = [NonNegative(), SumsTo(unit), smooth]
        return Problem(KullbackLeibler(), sets).solve(shares * unit)

    counts = solved(total)
    assert counts.path == "conic"
    assert counts.status is Status.OPTIMAL
    assert_allclose(counts.frequencies / total, solved(1.0).frequencies, atol=1e-7)


SUMS = {
    "entropy": SQUARES + 0.1 * Entropy(),
    "deviations": SQUARES + 0.1 * LeastAbsolute(),
    "Huber": Huber(0.01),
    "deviations alone": LeastAbsolute(),
}


ORDERS = {"chain": Monotone(np.arange(D)), "mode": Unimodal(3)}


@functools.cache
def split_by_slopes(loss, order):
    once = Problem(SUMS[loss], [SumsTo(1.0), ORDERS[order]]).solve(AROUND, path="closed-form")
    assert "split by slopes" in once.solver
    return once


@every_two(loss=[*SUMS], order=[*ORDERS], exponent=[-100, -53, -40, 40, 100])
def test_a_loss_under_an_order_and_a_total_has_the_same_answer_in_any_unit(loss, order, exponent):
    once = split_by_slopes(loss, order)
    where = [SumsTo(1.0), ORDERS[order]]
    scaled = Problem(2.0**exponent * SUMS[loss], where).solve(AROUND, path="closed-form")
    assert scaled.status is Status.OPTIMAL
    assert_allclose(scaled.frequencies, once.frequencies, rtol=0, atol=1e-7)
