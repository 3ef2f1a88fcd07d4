"""Points of long vectors: a tight gap by way of the closed form's point, and no large programs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ldpopt import FrequencyEstimate, Parameter, Problem, certify, oracles
from ldpopt.constraints import GroupTotals, Monotone, Near, NonNegative, SumsTo, Unimodal
from ldpopt.losses import BinomialMLE, GaussianMLE, LeastSquares, MaxAbsolute, MultinomialMLE
from ldpopt.solve.certificate import certificate as certificates
from ldpopt.solve.certificate.another_point import gap_by_way_of
from ldpopt.solve.certificate.polyhedra import polyhedron
from tests.tolerances import CERTIFIED


def _refuse(*_, **__):
    raise AssertionError("a program was solved")


LONG_SETS = [
    [Monotone(np.arange(12))],
    [Unimodal(4)],
    [Monotone([[0, 1], [0, 2], [1, 3], [1, 4]])],
    [Monotone([[0, 2], [0, 3], [1, 2], [1, 3]])],
    [GroupTotals([[0, 3, 5], [1, 2]], [0.5, 0.2])],
    [Near(np.full(12, 1 / 12), 0.1, norm=2)],
    [Near(np.full(12, 1 / 12), 0.2, norm=1)],
    [Near(np.full(12, 1 / 12), 0.05, norm="kl")],
]
"""Sets with closed forms, of 12 values beside f >= 0 and a total."""


@pytest.mark.parametrize("further", LONG_SETS)
@pytest.mark.parametrize("step", [0.02, 1.0])
def test_a_wrong_point_of_a_long_vector_gets_a_tight_gap_without_a_program(
    further, step, monkeypatch
):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), *further])
    generator = np.random.default_rng(0)
    estimates = generator.normal(1 / 12, 0.1, (2, 12))
    best, other = (problem.minimise(one) for one in estimates)
    point = (1 - step) * best + step * other
    monkeypatch.setattr(polyhedron, "evidence", _refuse)
    monkeypatch.setattr(certificates, "_LONG_FOR_ROWS", 1)
    certificate = certify(problem, estimates[0], point)
    exact = [Fraction(value) for value in estimates[0].tolist()]
    squares = [
        sum((Fraction(value) - near) ** 2 for value, near in zip(f.tolist(), exact, strict=True))
        for f in (point, best)
    ]
    rise = float((squares[0] - squares[1]) / 2)
    assert rise > 0
    assert rise <= certificate.gap <= rise + CERTIFIED
    assert not certificate.is_optimal(1e-8, relative=True)
    assert "lower loss" in certificate.reason


@pytest.mark.parametrize("weight", [2.0, Parameter("weight", 2.0)], ids=["number", "parameter"])
@pytest.mark.parametrize("further", LONG_SETS)
def test_the_certificate_of_a_solution_goes_by_way_of_the_closed_form_too(
    further, weight, monkeypatch
):
    """A solution keeps what a problem with parameters stated when it was solved."""
    problem = Problem(weight * LeastSquares(), [NonNegative(), SumsTo(1.0), *further])
    estimates = np.random.default_rng(2).normal(1 / 12, 0.1, (2, 12))
    solution = replace(problem.solve(estimates[0]), frequencies=problem.minimise(estimates[1]))
    monkeypatch.setattr(polyhedron, "evidence", _refuse)
    monkeypatch.setattr(certificates, "_LONG_FOR_ROWS", 1)
    certificate = certify(problem, estimates[0], solution.frequencies)
    assert solution.certificate.gap == certificate.gap
    assert "lower loss" in certificate.reason


def test_a_closed_form_that_is_wrong_makes_no_point_optimal(monkeypatch):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), Monotone(np.arange(12))])
    estimate = np.random.default_rng(0).normal(1 / 12, 0.1, 12)
    best = problem.minimise(estimate)
    wrong = np.full(12, 1 / 12)
    monkeypatch.setattr(certificates, "_LONG_FOR_ROWS", 1)
    for elsewhere in (wrong, np.full(12, np.nan), np.full(12, 1e200), -best):
        monkeypatch.setattr(Problem, "near_minimum", lambda *_, point=elsewhere: point)
        assert not certify(problem, estimate, wrong).is_optimal(1e-8, relative=True)
        assert certify(problem, estimate, best).is_optimal(1e-8, relative=True)


@pytest.mark.parametrize(
    ("loss", "more"),
    [
        (LeastSquares(), [GroupTotals([[0, 3, 5], [1, 2]], [0.5, 0.2])]),
        (LeastSquares(), [Near(np.full(12, 1 / 12), 0.1, norm=2)]),
        (MaxAbsolute(), []),
    ],
)
def test_no_program_is_solved_for_a_point_of_a_vector_that_is_too_long(loss, more, monkeypatch):
    order = Monotone([[0, 1], [0, 2], [3, 4], [5, 4]])
    problem = Problem(loss, [NonNegative(), SumsTo(1.0), order, *more])
    estimate = np.random.default_rng(0).normal(1 / 12, 0.1, 12)
    point = np.full(12, 1 / 12)
    for name in ("by_linear_program", "by_curved_program"):
        monkeypatch.setattr(polyhedron, name, _refuse)
    for name in ("evidence", "evidence_beside", "by_stated_bounds"):
        monkeypatch.setattr(polyhedron.cone, name, _refuse)
    monkeypatch.setattr(certificates, "_LONG_FOR_ROWS", 1)
    monkeypatch.setattr(polyhedron, "LONG_FOR_PROGRAMS", 12)
    monkeypatch.setattr(polyhedron, "_LONG_FOR_A_SEARCH", 12)
    certificate = certify(problem, estimate, point)
    assert not certificate.is_optimal(1e-8, relative=True)
    assert "programs are not tried from 12 values on" in certificate.reason
    assert certificate.duals


@pytest.mark.parametrize("further", LONG_SETS)
def test_a_gap_by_way_of_any_point_is_above_the_rise(further):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), *further])
    generator = np.random.default_rng(1)
    start, *others = (FrequencyEstimate(f) for f in generator.normal(1 / 12, 0.1, (4, 12)))
    best = problem.minimise(start)
    point, *elsewhere = (problem.minimise(one) for one in others)
    rise = float(problem.loss.value(point, start) - problem.loss.value(best, start))
    for other in (*elsewhere, point, generator.normal(0.0, 1.0, 12)):
        detour = gap_by_way_of(problem, start, point, other)
        assert detour is not None
        assert detour.gap >= rise - CERTIFIED


@pytest.mark.parametrize(
    ("loss", "oracle"),
    [
        (GaussianMLE(), oracles.OUE(1.0, 4)),
        (BinomialMLE(), oracles.OUE(1.0, 4)),
        (MultinomialMLE(), oracles.GRR(1.0, 4)),
    ],
)
@pytest.mark.parametrize("further", [[], [Monotone(np.arange(4))]])
def test_a_point_at_which_the_loss_is_infinite_proves_no_gap_of_another_one(loss, oracle, further):
    problem = Problem(loss, [NonNegative(), SumsTo(1.0), *further])
    generator = np.random.default_rng(0)
    exact = np.array([0.4, 0.3, 0.2, 0.1])
    start = oracle.estimate(oracle.simulate_counts((1000 * exact).astype(int), generator), 1000)
    best = problem.minimise(start)
    point = np.array([1.0, 0.0, 0.0, 0.0])
    rise = float(loss.value(point, start) - loss.value(best, start))
    assert gap_by_way_of(problem, start, point, best).gap >= rise > 0
    for _ in range(100):
        # All values are alike, or nearly, as they are at many minima.
        level = -generator.uniform(5.0, 20.0)
        other = level + 10 ** generator.uniform(-9, -1) * np.sort(generator.normal(size=4))[::-1]
        assert not np.isfinite(loss.value(other, start))
        detour = gap_by_way_of(problem, start, point, other)
        assert detour is None or detour.gap >= rise


@pytest.mark.parametrize("loss", [BinomialMLE(), LeastSquares()])
def test_another_point_of_no_finite_numbers_proves_nothing(loss):
    problem = Problem(loss, [NonNegative(), GroupTotals([[0, 1]], [0.5])])
    start = oracles.OUE(1.0, 3).estimate([600, 500, 400], 1000)
    for number in (np.nan, np.inf, -np.inf):
        assert gap_by_way_of(problem, start, np.full(3, 0.25), np.full(3, number)) is None


@pytest.mark.parametrize("further", LONG_SETS)
@pytest.mark.parametrize("size", [1e160, 1e300])
def test_a_point_of_a_long_vector_that_overflows_gets_a_reason(further, size, monkeypatch):
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0), *further])
    estimate = np.random.default_rng(0).normal(1 / 12, 0.1, 12)
    point = size * problem.minimise(estimate)
    monkeypatch.setattr(certificates, "_LONG_FOR_ROWS", 1)
    with np.errstate(all="ignore"):
        certificate = certify(problem, estimate, point)
    assert certificate.gap == np.inf
    assert certificate.reason
