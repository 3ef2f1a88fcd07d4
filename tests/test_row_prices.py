"""The gap of many values beside a few rows, which no program looks for."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from ldpopt import Problem, certify, losses, oracles
from ldpopt.constraints import Bounds, Linear, Monotone, NonNegative, SumsTo
from ldpopt.solve.certificate.bounds.intervals import Box
from ldpopt.solve.certificate.prices import equation_prices, row_prices
from ldpopt.solve.certificate.prices.pooled_gap import pooled_gap
from ldpopt.solve.paths.closed_forms import closed_form_for

D = 400
RNG = np.random.default_rng(4)
RANKED = np.arange(float(D))
OUE = oracles.OUE(1.0, D)
LAW = np.arange(1.0, D + 1) ** -1.1
RAW = OUE.estimate(OUE.simulate_counts(RNG.multinomial(50_000, LAW / LAW.sum()), RNG), 50_000)
SIMPLEX = [NonNegative(), SumsTo(1.0)]
CAPS = Bounds(0.0, RNG.uniform(1.0, 20.0, D) / D)
SETS = {
    "a row from above": [*SIMPLEX, Linear([RANKED], -np.inf, 30.0)],
    "a row from below": [CAPS, SIMPLEX[1], Linear([RANKED], 190.0, np.inf)],
    "a row that holds by itself": [*SIMPLEX, Linear([RANKED], 0.0, 1e4)],
    "an equation without a total": [SIMPLEX[0], Linear([RANKED], 40.0, 40.0)],
    "no bounds": [SIMPLEX[1], Linear([RANKED], 0.0, 20.0)],
}
LOSSES = [losses.LeastSquares(), losses.GaussianMLE(), losses.BinomialMLE()]


@pytest.fixture(autouse=True)
def _all_are_long(monkeypatch):
    monkeypatch.setattr(row_prices, "is_long", lambda d: True)


PROBLEMS = {
    f"{name}, {loss!r}": problem
    for name, sets in SETS.items()
    for loss in LOSSES
    if closed_form_for(problem := Problem(loss, sets), RAW) is not None
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_is_small_at_the_minimum_and_no_less_than_the_rise_elsewhere(name):
    problem = PROBLEMS[name]
    loss = problem.loss
    start = problem.accept(RAW)
    best = problem.minimise(start)
    minimum = float(loss.value(best, start))
    at_best = pooled_gap(problem, start, best)
    assert at_best.gap <= 1e-11 * (at_best.terms + abs(minimum))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        # In the set but for the row, and beside it.
        other = np.clip(best + rng.normal(0, 1e-3, D), 0.0, None)
        for share in (1e-6, 1e-2, 1.0):
            point = (1 - share) * best + share * other
            rise = float(loss.value(point, start)) - minimum
            assert pooled_gap(problem, start, point).gap >= rise


def test_several_rows_are_explained_together():
    rows = np.stack([RANKED / D, (RANKED % 2) - 0.5, RANKED < 20])
    problem = Problem(
        losses.LeastSquares(), [*SIMPLEX, Linear(rows, [0.2, -0.1, 0.5], [0.2, -0.1, 0.5])]
    )
    f = problem.minimise(RAW)
    assert problem.plan(RAW).name == "newton on multipliers"
    gap = pooled_gap(problem, problem.accept(RAW), f)
    assert gap.gap <= 1e-12 * gap.terms
    assert_allclose(certify(problem, RAW, f).violation, 0.0, atol=1e-12)


def test_other_sets_have_no_few_rows():
    many = Linear(RNG.normal(size=(9, D)), -1.0, 1.0)
    chain = Monotone(np.arange(D))
    assert row_prices.few_rows_of([many], 1.0, D) is None
    assert row_prices.few_rows_of([chain, Linear([RANKED], 0.0, 1.0)], None, D) is None


@pytest.mark.parametrize("name", PROBLEMS)
def test_points_that_miss_a_row_pay_for_it(name):
    problem = PROBLEMS[name]
    start = problem.accept(RAW)
    best = problem.minimise(start)
    minimum = float(problem.loss.value(best, start))
    # Values at 0 stay there; first so little that the row still counts as one that holds.
    for step in (1e-10, 1e-5):
        for sign in (-1, 1):
            point = (1 + sign * step) * best
            rise = float(problem.loss.value(point, start)) - minimum
            assert pooled_gap(problem, start, point).gap >= rise - 1e-18


def test_a_row_on_its_wrong_side_has_no_multiplier():
    held = Problem(losses.LeastSquares(), [*SIMPLEX, Linear([RANKED], 110.0, 110.0)])
    point = held.minimise(RAW)
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, Linear([RANKED], -np.inf, 110.0)])
    start = problem.accept(RAW)
    rise = float(problem.loss.value(point, start)) - problem.solve(start).objective
    gap = float(pooled_gap(problem, start, point).gap)
    assert 0 < rise <= gap < np.inf


@pytest.mark.parametrize(("side", "sign"), [("lower", 1.0), ("upper", -1.0)])
@pytest.mark.parametrize(("farther", "holds"), [(1.0, True), (1.01, False)])
def test_a_row_holds_up_to_a_distance_that_is_stated(side, sign, farther, holds):
    f = np.array([0.25, 0.25, 0.5, 0.5])
    # The row is 0 at the point, and its bound so far away.
    away = farther * row_prices._NEAR
    ends = {"lower": np.array([-np.inf]), "upper": np.array([np.inf])}
    ends[side] = np.array([-sign * away])
    rows = row_prices.FewRows(np.array([[1.0, -1.0, 0.0, 0.0]]), **ends)
    slope = sign * np.array([[1.0, -1.0, 0.0, 0.0]])
    free = Box(np.full((1, 4), -1.0), np.full((1, 4), 2.0))
    prices = row_prices.row_prices(rows, f[None], slope, free)
    assert bool(prices.price.any()) == holds


def test_prices_of_equations_are_known_to_their_stated_errors(monkeypatch):
    # The first value is in one equation, and all from the fourth on in four.
    rng = np.random.default_rng(5)
    table = np.triu(rng.uniform(0.1, 1.0, (4, 12)))
    multipliers = rng.normal(size=4)
    monkeypatch.setattr(equation_prices, "_explaining", lambda *_: multipliers)
    equations = equation_prices.Equations(sparse.csr_array(table), np.zeros(4))
    point = np.zeros((1, 12))
    prices = equation_prices.equation_prices(equations, point, point, Box(point - 1, point + 1))
    for value, column in enumerate(table.T):
        exact = sum(Fraction(y) * Fraction(a) for y, a in zip(multipliers, column, strict=True))
        missed = abs(Fraction(float(prices.price[0, value])) - exact)
        assert missed <= Fraction(float(prices.error[0, value]))
