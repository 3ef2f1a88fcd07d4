"""Gaps on tables with known margins: never below the rise, and rounding at the minimum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, losses
from ldpopt.constraints import Linear, NonNegative, SumsTo
from ldpopt.solve.acceptance.margin_gap import margin_gap
from tests.own_simplex import Simplex
from tests.test_margins import TABLES, known_margins

SQUARES = losses.LeastSquares()


def start_of(name, trials=3):
    shape, kept = TABLES[name]
    margins, _ = known_margins(shape, kept)
    rng = np.random.default_rng(5)
    return margins, FrequencyEstimate(rng.normal(0.1, 0.3, (trials, int(np.prod(shape)))))


@pytest.mark.parametrize("total", [[], [SumsTo(1.0)]], ids=["", "total"])
@pytest.mark.parametrize("name", TABLES)
def test_it_is_rounding_at_a_minimum_and_never_below_the_rise(name, total):
    margins, start = start_of(name)
    problem = Problem(SQUARES, [*margins, *total])
    best = problem.solve(start).frequencies
    lowest = problem.loss.value(best, start)
    assert (margin_gap(problem, start, best).gap <= 1e-15 * (1 + lowest)).all()
    # Another table of the set, and one that is off its sums.
    other = problem.solve(np.zeros(best.shape)).frequencies
    for point in (other, best + 0.1 * (other - best), 1.01 * other, 0.99 * other):
        rise = problem.loss.value(point, start) - lowest
        gap, _, measured = margin_gap(problem, start, point)
        assert (gap >= rise - 1e-15).all()
        assert {one.constraint for one in measured} == {*margins, *total}
        for constraint, violation in measured:
            assert_allclose(violation, constraint.violation(point), rtol=1e-12, atol=1e-14)


def test_a_bound_by_hand():
    """Of squares all is exact: half the squared distance, and a price for what a sum misses."""
    margins, _ = known_margins((2, 2), [(0,)])
    start = FrequencyEstimate(np.zeros(4))
    rows = margins[0].totals
    best = np.repeat(rows / 2, 2)
    away = np.array([0.1, -0.1, 0.2, -0.2])
    gap, terms, _ = margin_gap(Problem(SQUARES, margins), start, best + away)
    assert_allclose(gap, 0.5 * (away @ away), rtol=1e-12)
    assert_allclose(terms, (best + away) @ (best + away), rtol=1e-12)
    # Each cell is .05 too large, at a slope of its own size.
    moved = best + 0.05
    paid = 0.1 * (moved[0] + moved[2])
    assert_allclose(margin_gap(Problem(SQUARES, margins), start, moved).gap, paid, rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "more"),
    [
        (SQUARES, [NonNegative()]),
        (SQUARES, [Linear([np.arange(12.0)], upper=9.0)]),
        (losses.LeastSquares() + losses.MaxAbsolute(), []),
        (losses.LeastAbsolute(), []),
    ],
)
def test_others_are_left_to_other_bounds(loss, more):
    margins, start = start_of("rows and columns")
    assert margin_gap(Problem(loss, [*margins, *more]), start, start.frequencies) is None


def test_a_total_with_bounds_is_violated_by_these_too():
    margins, start = start_of("rows and columns")
    whole = Simplex(1.0)
    bound = margin_gap(Problem(SQUARES, [*margins, whole]), start, start.frequencies)
    assert bound is None or whole not in dict(bound.measured)


def test_infinite_slopes_prove_nothing():
    margins, start = start_of("rows and columns")
    far = np.full(start.frequencies.shape, 1e200)
    with np.errstate(over="ignore"):
        bound = margin_gap(Problem(SQUARES, margins), start, far)
    assert bound is None or not (bound.gap < np.inf).any()
