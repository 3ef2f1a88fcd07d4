"""Certificates on sets with curved constraints: multipliers of all others are numbers as well."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import Problem, certify, losses
from ldpopt.constraints import Bounds, Custom, Fixed, GroupTotals, Linear, Near, NonNegative, SumsTo
from ldpopt.losses import KullbackLeibler, LeastAbsolute, LeastSquares
from ldpopt.solve.certificate import polyhedron
from tests.tolerances import CERTIFIED

RAW = np.array([0.5, 0.4, 0.3, 0.1, -0.1, 0.02])
CENTRE = np.full(6, 1 / 6)
SIMPLEX = [NonNegative(), SumsTo(1.0)]
ROWS = [
    [],
    [Linear([[1.0, 1.0, 0, 0, 0, 0]], -np.inf, 0.55)],
    [GroupTotals([[0, 1], [2, 3]], [0.6, 0.3])],
    [Fixed([5], [0.05]), Linear([[0, 0, 1.0, -1.0, 0, 0]], -np.inf, 0.05)],
]


def ball(radius):
    return Custom(lambda f: [cp.norm(f - CENTRE) <= radius], name="ball")


def refuse(*_, **__):
    raise AssertionError("a program was solved")


@pytest.mark.parametrize("rows", ROWS, ids=str)
@pytest.mark.parametrize("loss", [LeastSquares(), KullbackLeibler()], ids=repr)
def test_a_constraint_that_does_not_hold_changes_no_multiplier_and_takes_no_program(
    rows, loss, monkeypatch
):
    # The conic path, and its point polished.
    solution = Problem(loss, [*SIMPLEX, *rows, ball(0.9)]).solve(RAW)
    without = Problem(loss, [*SIMPLEX, *rows]).solve(RAW)
    assert_allclose(solution.frequencies, without.frequencies, atol=CERTIFIED)
    monkeypatch.setattr(polyhedron.cone, "evidence", refuse)
    certificate = solution.certificate
    assert certificate.is_optimal(1e-13, relative=True)
    for name in ("sum_multiplier", "bound_multipliers", "row_multipliers"):
        expected = getattr(without.certificate, name)
        assert_allclose(getattr(certificate, name), expected, atol=1e-9)
    duals = dict(certificate.duals)
    assert [np.ravel(part).tolist() for part in duals.pop("ball")] == [[0.0]]
    for name, expected in without.duals.items():
        assert_allclose(duals[name], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_divergence_that_is_far_from_its_limit_leaves_bounds_their_multipliers(seed):
    """It states f >= 0 as well, and a solver's multipliers may be shared between the two."""
    rng = np.random.default_rng(seed)
    reference = rng.dirichlet(np.ones(6))
    raw = reference + rng.normal(0, 0.15, 6)
    loss = losses.Huber(0.05)
    solution = Problem(loss, [*SIMPLEX, Near(reference, 3.0, "kl")]).solve(raw)
    without = Problem(loss, SIMPLEX).solve(raw)
    assert solution.path == "conic"
    assert_allclose(solution.duals["Near"], 0.0, atol=1e-9)
    for name, expected in without.duals.items():
        assert_allclose(solution.duals[name], expected, atol=1e-6)


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_where_it_holds_the_multipliers_explain_the_gradient_together(rows):
    stack = np.stack([RAW, RAW[::-1]])
    problem = Problem(LeastSquares(), [*SIMPLEX, *rows, ball(0.26)])
    solution = problem.solve(stack)
    certificate = solution.certificate
    assert certificate.is_optimal(1e-8, relative=True)
    for trial, f in enumerate(solution.frequencies):
        rest = f - stack[trial] + certificate.sum_multiplier[trial]
        rest = rest - certificate.bound_multipliers[trial]
        offset = 0
        for constraint in rows:
            if constraint.box(6) is None:
                matrix = constraint.rows(6).matrix
                share = certificate.row_multipliers[trial, offset : offset + matrix.shape[0]]
                rest = rest - matrix.T @ share
                offset += matrix.shape[0]
        price = float(np.ravel(certificate.duals["ball"][trial][0])[0])
        assert price > 0
        outward = (f - CENTRE) / np.linalg.norm(f - CENTRE)
        assert_allclose(rest, -price * outward, atol=1e-5)
        # Between their bounds values have none.
        is_free = (f > 1e-6) & (np.abs(f - 0.05) > 1e-6)
        assert_allclose(certificate.bound_multipliers[trial][is_free], 0.0, atol=1e-5)
    assert np.all(certificate.stationarity <= 1e-5)


def test_absolute_deviations_have_numbers_too():
    rows = [Linear([[1.0, 1.0, 0, 0, 0, 0]], -np.inf, 0.55), Bounds(0.0, 0.4)]
    solution = Problem(LeastAbsolute(), [*rows, SumsTo(1.0), ball(0.3)]).solve(RAW)
    certificate = solution.certificate
    assert certificate.is_optimal(1e-7, relative=True)
    price = -certificate.sum_multiplier + certificate.bound_multipliers
    price = price + rows[0].rows(6).matrix.T @ certificate.row_multipliers
    f = solution.frequencies
    multiplier = float(np.ravel(certificate.duals["ball"][0])[0])
    price = price - multiplier * (f - CENTRE) / np.linalg.norm(f - CENTRE)
    # What all multipliers price a value at is a subgradient of |f - f̃| there.
    away = np.abs(f - RAW) > 1e-5
    assert_allclose(price[away], np.sign(f - RAW)[away], atol=1e-5)
    assert np.all(np.abs(price) <= 1 + 1e-5)


def test_without_a_bound_the_multipliers_are_unknown_and_the_reason_is_stated():
    # Nothing keeps the values from falling for ever.
    problem = Problem(
        losses.Custom(lambda f: cp.sum(f)), [Custom(lambda f: [cp.norm(f[:3]) <= 0.9])]
    )
    certificate = certify(problem, np.abs(RAW), np.abs(RAW))
    assert certificate.gap == np.inf
    assert certificate.reason
    assert np.isnan(certificate.stationarity)
