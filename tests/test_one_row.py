"""One linear row beside bounds and a total: certified, whichever end binds."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from ldpopt import FrequencyEstimate, Problem, closed_form, losses, oracles
from ldpopt.closed_form import equations
from ldpopt.constraints import Bounds, Fixed, Linear, NonNegative, SumsTo
from ldpopt.errors import InfeasibleError
from ldpopt.solve.acceptance.judge import size_of
from ldpopt.solve.paths.closed_forms import one_row

D = 12
RNG = np.random.default_rng(11)
ORACLE = oracles.OUE(1.0, D)
SIMPLEX = [NonNegative(), SumsTo(1.0)]
# A mean score: most starts are outside of it, on either side.
SCORE = np.linspace(-1.0, 1.0, D)
ROW = Linear([SCORE], [-0.05], [0.05])
STARTS = np.stack(
    [
        *RNG.normal(1 / D, 0.1, (3, D)).clip(-0.2, 0.9),
        np.arange(D) / 40 - 0.1,
        0.3 - np.arange(D) / 30,
        np.full(D, 0.2),
        np.where(np.arange(D) == D - 1, 0.9, 0.01),
    ]
)

PROBLEMS = {
    "squares": (losses.LeastSquares(), [*SIMPLEX, ROW]),
    "squares, free": (losses.LeastSquares(), [ROW]),
    "squares, caps": (losses.LeastSquares(), [Bounds(0.0, 0.3), SumsTo(1.0), ROW]),
    "equation": (
        losses.WeightedLeastSquares(1.0 + np.arange(D)),
        [*SIMPLEX, Linear([SCORE], 0, 0)],
    ),
    "weights": (losses.WeightedLeastSquares(1.0 + np.arange(D)), [*SIMPLEX, ROW]),
    "weights, no total": (losses.WeightedLeastSquares(1.0 + np.arange(D)), [NonNegative(), ROW]),
    "binomial": (losses.BinomialMLE(), [*SIMPLEX, ROW]),
    "binomial, known value": (losses.BinomialMLE(), [*SIMPLEX, Fixed([3], [0.2]), ROW]),
    "one side": (losses.BinomialMLE(), [*SIMPLEX, Linear([SCORE], [0.1], np.inf)]),
    "weighted likelihood": (losses.GaussianMLE(), [*SIMPLEX, ROW]),
    "weights, free": (losses.WeightedLeastSquares(1.0 + np.arange(D)), [SumsTo(1.0), ROW]),
    "divergence": (losses.KullbackLeibler(), [NonNegative(), SumsTo(1.0), ROW]),
    "sum": (losses.LeastSquares() + 0.1 * losses.Entropy(), [*SIMPLEX, ROW]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_row_is_met_and_the_point_certified(name):
    loss, constraints = PROBLEMS[name]
    positive = name.startswith(("weighted likelihood", "divergence"))
    starts = np.abs(STARTS) + 0.01 if positive else STARTS
    problem = Problem(loss, constraints)
    solution = problem.solve(FrequencyEstimate(starts, 4_000, ORACLE))
    assert (solution.path, "one root for a row" in solution.solver) == ("closed-form", True)
    # Some trials are at the row's end, so that the search is looked at.
    assert np.ptp(solution.frequencies @ SCORE) <= 0.1 + 1e-9 or name == "one side"
    certificate = solution.certificate
    size = size_of(problem, solution.estimate, solution.frequencies, solution.objective)
    assert np.max(certificate.gap / size) <= 1e-10
    assert np.max(certificate.violation) <= 1e-12


@pytest.mark.parametrize(
    "name", ["weights", "weights, no total", "binomial", "weighted likelihood", "sum"]
)
def test_newton_in_both_multipliers_finds_what_a_root_inside_a_root_does(name, monkeypatch):
    loss, constraints = PROBLEMS[name]
    start = np.abs(STARTS) + 0.01 if name == "weighted likelihood" else STARTS
    estimate = FrequencyEstimate(start[[0, 4, 5]], 4_000, ORACLE)
    problem = Problem(loss, constraints)
    settled = []
    by_newton = one_row._Tilted.by_newton

    def noted(*arguments):
        settled.append(by_newton(*arguments))
        return settled[-1]

    monkeypatch.setattr(one_row._Tilted, "by_newton", noted)
    by_steps = problem.minimise(estimate)
    # Where it gives up every time, nothing would be compared.
    assert any(f is not None for f in settled)
    monkeypatch.setattr(one_row._Tilted, "by_newton", lambda *_: None)
    np.testing.assert_allclose(by_steps, problem.minimise(estimate), rtol=0, atol=1e-10)


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("free", [0, 1, 9, 300])
def test_tables_of_products_have_the_bits_of_sparse_matrices(monkeypatch, m, free):
    rng = np.random.default_rng(m)
    rows = rng.normal(size=(m, 320)) * 10 ** rng.uniform(-6, 6, (m, 320))
    rows[rng.random((m, 320)) < 0.2] = 0.0
    f = np.where(np.arange(320) < free, 0.5, -1.0)
    bounds = (np.zeros(320), np.ones(320))
    matrix = sparse.csc_array(rows)
    problem = equations._Problem(f, matrix, matrix.T, np.ones(m), *bounds)
    place = equations._Place(problem, np.zeros(m))
    by_table = place.normal()
    monkeypatch.setattr(equations, "_SHORT", -1)
    assert by_table.tobytes() == place.normal().tobytes()


def test_many_equations_take_no_table_of_all_products():
    """A table of 100 equations of 320 values has 3.2 million numbers, 26 MB."""
    rows = np.random.default_rng(0).normal(size=(100, 320))
    matrix = sparse.csc_array(rows)
    bounds = (np.zeros(320), np.ones(320))
    problem = equations._Problem(np.full(320, 0.5), matrix, matrix.T, np.ones(100), *bounds)
    place = equations._Place(problem, np.zeros(100))
    tracemalloc.start()
    try:
        normal = place.normal()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(normal, rows @ rows.T, rtol=0, atol=1e-10)
    assert peak < 5e6


def test_long_vectors_are_moved_by_compiled_readings(monkeypatch):
    rng = np.random.default_rng(3)
    f = rng.normal(0.2, 0.3, 5_000)
    rows = sparse.csr_array(np.stack([np.ones(5_000), rng.normal(size=5_000)]))
    right = np.array([900.0, -20.0])
    bounds = (np.zeros(5_000), np.full(5_000, 0.6))
    short = closed_form.with_equations(f, rows, right, *bounds)
    monkeypatch.setattr(equations, "LARGE", 0)
    long = closed_form.with_equations(f, rows, right, *bounds)
    np.testing.assert_allclose(long, short, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rows @ long, right, rtol=0, atol=1e-10)


def test_a_row_that_no_point_meets_is_named():
    problem = Problem(losses.BinomialMLE(), [*SIMPLEX, Linear([SCORE], [1.5], np.inf)])
    with pytest.raises(InfeasibleError, match="conflict"):
        problem.solve(FrequencyEstimate(STARTS[0], 4_000, ORACLE))


def test_a_row_that_one_point_meets_has_that_point():
    """The highest score of the simplex: the row leaves its last corner alone."""
    for loss in (losses.LeastSquares(), losses.WeightedLeastSquares(1.0 + np.arange(D))):
        problem = Problem(loss, [*SIMPLEX, Linear([SCORE], [1.0], np.inf)])
        solution = problem.solve(STARTS[1])
        np.testing.assert_allclose(solution.frequencies, np.eye(D)[-1], atol=1e-7)


def test_a_price_without_a_minimum_is_left_to_a_solver():
    """The likelihood grows like a straight line: without bounds a steeper price has no minimum."""
    problem = Problem(losses.GaussianMLE(), [SumsTo(1.0), ROW])
    assert problem.explain(FrequencyEstimate(STARTS[0], 4_000, ORACLE)).startswith("conic")
