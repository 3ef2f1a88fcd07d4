"""Algorithms that step: likelihoods of reports, and the normalised Gaussian."""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, certify, oracles
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Monotone,
    NonNegative,
    SumsTo,
)
from ldpopt.errors import (
    InvalidInputError,
    InvalidTypeError,
    LdpoptWarning,
    UnsupportedProblemError,
)
from ldpopt.losses import (
    GaussianMLE,
    MultinomialMLE,
    NormalisedGaussianMLE,
    PerReportMLE,
    per_report,
)
from ldpopt.oracles import ORACLES
from ldpopt.solve.paths import conic, convex_concave
from ldpopt.solve.status import ACCURACIES
from tests.test_oracles import enumerable, enumerate_channel, naive_support
from tests.tolerances import CERTIFIED, FINITE_DIFFERENCE, GAP, SOLVER, UNPOLISHED

SIMPLEX = [NonNegative(), SumsTo()]
STEP = 1e-5
every_oracle = pytest.mark.parametrize("name", list(ORACLES))


def reported(oracle, n=60, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.arange(1.0, oracle.d + 1) ** -1.2
    reports = oracle.perturb(rng.choice(oracle.d, n, p=weights / weights.sum()), rng=seed)
    return reports, oracle.estimate(oracle.support_counts(reports), n)


# --- the likelihood of reports --------------------------------------------------------------------


@enumerable
def test_the_loss_is_minus_the_mean_log_probability_of_the_reports_up_to_a_constant(oracle):
    channel = enumerate_channel(oracle)
    rows = {
        tuple(support): probability
        for probability, support in zip(channel.probability.T, channel.support, strict=True)
    }
    reports, estimate = reported(oracle)
    likelihoods = np.array(
        [rows[tuple(np.isin(range(oracle.d), naive_support(oracle, r)) * 1.0)] for r in reports]
    )
    loss = PerReportMLE(oracle, reports)
    differences = []
    for f in np.random.default_rng(1).dirichlet(np.ones(oracle.d), 10):
        differences.append(float(loss.value(f, estimate)) + np.log(likelihoods @ f).mean())
    assert_allclose(differences, differences[0], rtol=0, atol=CERTIFIED)


@every_oracle
def test_the_gradient_of_the_report_likelihood_equals_central_differences(name):
    oracle = ORACLES[name](1.0, 6)
    reports, estimate = reported(oracle)
    loss = PerReportMLE(oracle, reports)
    f = np.random.default_rng(2).dirichlet(np.ones(6))
    gradient = loss.gradient(f, estimate)
    for v, step in enumerate(np.eye(6) * STEP):
        slope = (loss.value(f + step, estimate) - loss.value(f - step, estimate)) / (2 * STEP)
        assert_allclose(gradient[v], slope, rtol=FINITE_DIFFERENCE, atol=FINITE_DIFFERENCE)


def test_an_impossible_report_makes_the_loss_infinite():
    oracle = oracles.GRR(1.0, 3)
    reports, estimate = reported(oracle)
    f = np.array([-5.0, 3.0, 3.0])
    assert PerReportMLE(oracle, reports).value(f, estimate) == np.inf
    assert certify(Problem(PerReportMLE(oracle, reports), SIMPLEX), estimate, f).gap == np.inf


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_report_likelihood_of_grr_is_the_multinomial_one(epsilon):
    oracle = oracles.GRR(epsilon, 8)
    reports, estimate = reported(oracle, 500)
    loss = PerReportMLE(oracle, reports)
    other = MultinomialMLE()
    f = np.random.default_rng(3).dirichlet(np.ones(8), 5)
    differences = [float(loss.value(x, estimate) - other.value(x, estimate)) for x in f]
    assert_allclose(differences, differences[0], rtol=0, atol=CERTIFIED)
    expected = Problem(other, SIMPLEX).solve(estimate).frequencies
    assert_allclose(Problem(loss, SIMPLEX).solve(estimate).frequencies, expected, rtol=0, atol=1e-5)


@UNPOLISHED
@every_oracle
@pytest.mark.parametrize("total", [1.0, 0.5])
def test_em_the_accelerated_method_and_a_solver_agree(name, total):
    oracle = ORACLES[name](2.0, 6)
    reports, estimate = reported(oracle, 200)
    problem = Problem(PerReportMLE(oracle, reports), [NonNegative(), SumsTo(total)])
    fast = problem.solve(estimate)
    assert (fast.path, fast.solver, fast.status) == ("iterative", "accelerated", "optimal")
    assert fast.iterations > 0
    assert fast.certificate.is_optimal(ACCURACIES["high"].stop * 2)
    slow = problem.solve(estimate, solver="em", accuracy="default", max_steps=100_000)
    assert (slow.path, slow.solver, slow.status) == ("iterative", "em", "optimal")
    assert slow.certificate.is_optimal(ACCURACIES["default"].stop * 1.01)
    numeric = problem.solve(estimate, path="conic")
    assert numeric.solver == "CLARABEL"
    assert_allclose(numeric.objective, fast.objective, rtol=0, atol=1e-7)
    assert (
        0 <= slow.objective - fast.objective + CERTIFIED <= ACCURACIES["default"].stop + CERTIFIED
    )


def test_the_accuracy_is_the_gap_at_which_it_stops():
    oracle = oracles.OUE(1.0, 10)
    reports, estimate = reported(oracle, 400)
    problem = Problem(PerReportMLE(oracle, reports), SIMPLEX)
    solved = [
        problem.solve(estimate, solver="em", accuracy=a, max_steps=100_000)
        for a in ("low", "default")
    ]
    gaps = [float(solution.certificate.gap) for solution in solved]
    assert ACCURACIES["default"].stop < gaps[0] <= ACCURACIES["low"].stop
    assert gaps[1] <= ACCURACIES["default"].stop


@pytest.mark.parametrize("options", [{"solver": "em"}, {"path": "iterative"}])
def test_a_stopped_algorithm_is_inaccurate_with_a_warning(options):
    oracle = oracles.OUE(1.0, 10)
    reports, estimate = reported(oracle, 400)
    problem = Problem(PerReportMLE(oracle, reports), SIMPLEX)
    with pytest.warns(LdpoptWarning, match="stopped before it met its tolerances") as caught:
        solution = problem.solve(estimate, max_steps=1, **options)
    assert len(caught) == 1
    assert (solution.status, solution.iterations) == ("inaccurate", 1)
    assert not solution.certificate.is_optimal(1e-9)


@pytest.mark.parametrize(
    "constraints",
    [[*SIMPLEX, Monotone(range(4))], [*SIMPLEX, Bounds(0, 0.4)]],
    ids=["order", "caps"],
)
def test_other_constraints_go_to_a_solver(constraints):
    oracle = oracles.OUE(2.0, 4)
    reports, estimate = reported(oracle, 100)
    problem = Problem(PerReportMLE(oracle, reports), constraints)
    solution = problem.solve(estimate)
    assert solution.path == "conic"
    assert solution.certificate.is_optimal(GAP * SOLVER["CLARABEL"])
    with pytest.raises(InvalidInputError, match="'iterative' is not available"):
        problem.solve(estimate, path="iterative")


@pytest.mark.parametrize("name", ["em", "EM", "accelerated"])
@pytest.mark.parametrize("constraints", [SIMPLEX, [*SIMPLEX, Bounds(0, 0.4)]])
def test_an_algorithm_of_other_problems_says_which_these_are(name, constraints):
    problem = Problem(MultinomialMLE(), constraints)
    estimate = reported(oracles.GRR(1.0, 4))[1]
    message = rf"solver='{name}' is for likelihoods of reports \(PerReportMLE, .* and not for Multi"
    with pytest.raises(UnsupportedProblemError, match=message):
        problem.solve(estimate, solver=name)
    with pytest.raises(InvalidInputError, match="is no solver of cvxpy"):
        problem.solve(estimate, solver=name, path="conic")


def test_an_algorithm_or_option_that_does_not_exist_is_an_error():
    oracle = oracles.OUE(1.0, 4)
    reports, estimate = reported(oracle)
    problem = Problem(PerReportMLE(oracle, reports), SIMPLEX)
    with pytest.raises(InvalidInputError, match="unknown algorithm 'emm': did you mean 'em'"):
        problem.solve(estimate, path="iterative", solver="emm")
    with pytest.raises(
        InvalidInputError, match="unknown option of em 'max_step': did you mean 'max_steps'"
    ):
        problem.solve(estimate, solver="em", max_step=3)


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (lambda o, e: FrequencyEstimate(e.frequencies), "noise level"),
        (
            lambda o, e: FrequencyEstimate(e.frequencies, n=61, oracle=o),
            "comes from 61 reports.* the loss holds 60",
        ),
        (
            lambda o, e: FrequencyEstimate(e.frequencies, n=60, oracle=oracles.OUE(1.1, 5)),
            r"epsilon=1\.1",
        ),
        (lambda o, e: FrequencyEstimate(e.frequencies, n=60, oracle=oracles.SUE(1.0, 5)), "SUE"),
        (
            lambda o, e: FrequencyEstimate(e.frequencies[::-1], n=60, oracle=o),
            "not that of these reports: pass oracle",
        ),
        (
            lambda o, e: FrequencyEstimate([e.frequencies], n=60, oracle=o),
            "takes one estimate, not a stack",
        ),
    ],
    ids=["bare", "n", "epsilon", "protocol", "values", "stack"],
)
@pytest.mark.parametrize("path", ["auto", "conic"])
def test_an_estimate_of_other_reports_is_refused(other, match, path):
    oracle = oracles.OUE(1.0, 5)
    reports, estimate = reported(oracle)
    with pytest.raises(InvalidInputError, match=match):
        Problem(PerReportMLE(oracle, reports), SIMPLEX).solve(other(oracle, estimate), path=path)


def test_what_is_no_oracle_or_no_reports_is_refused():
    with pytest.raises(InvalidTypeError, match="oracle must be an oracle"):
        PerReportMLE("OUE", [[1]])
    with pytest.raises(InvalidInputError, match="no reports"):
        PerReportMLE(oracles.GRR(1.0, 3), np.empty(0, dtype=np.int64))
    with pytest.raises((InvalidInputError, InvalidTypeError)):
        PerReportMLE(oracles.GRR(1.0, 3), [7])


def test_a_total_of_zero_makes_every_report_impossible():
    oracle = oracles.OUE(1.0, 4)
    reports, estimate = reported(oracle)
    problem = Problem(PerReportMLE(oracle, reports), [NonNegative(), SumsTo(0.0)])
    with pytest.raises(InvalidInputError, match="every report is impossible"):
        problem.solve(estimate)
    assert certify(problem, estimate, np.zeros(4)).gap == np.inf


def test_too_many_reports_for_a_solver_are_refused_with_the_way_out(monkeypatch):
    oracle = oracles.GRR(1.0, 4)
    reports, estimate = reported(oracle, 100)
    monkeypatch.setattr(per_report, "_LARGEST", 399)
    problem = Problem(PerReportMLE(oracle, reports), SIMPLEX)
    with pytest.raises(
        InvalidInputError, match="100 reports and 400 numbers: use path='iterative'"
    ):
        problem.solve(estimate, path="conic")
    assert problem.solve(estimate).status == "optimal"


# --- the normalised Gaussian ----------------------------------------------------------------------

KAPPAS = {"kappa > 0": oracles.OUE, "kappa = 0": oracles.SUE, "kappa < 0": oracles.HadamardResponse}
LOSS = NormalisedGaussianMLE()
every_kappa = pytest.mark.parametrize("kappa", KAPPAS)


def collected(kappa, d, n=300, seed=0, epsilon=2.0, trials=None):
    oracle = KAPPAS[kappa](epsilon=epsilon, d=d)
    population = np.random.default_rng(seed).multinomial(
        n, (w := np.arange(1.0, d + 1) ** -1.2) / w.sum()
    )
    return oracle.estimate(oracle.simulate_counts(population, seed, trials), n)


@every_kappa
def test_the_loss_is_minus_the_mean_log_density_up_to_a_constant(kappa):
    estimate = collected(kappa, 4)
    n = estimate.noise.require_n()
    oracle = estimate.noise.require_protocol()
    f = np.random.default_rng(1).dirichlet(np.ones(4), 10)
    variance = (oracle.a + oracle.b * f) / n
    density = np.exp(-((estimate.frequencies - f) ** 2) / (2 * variance)) / np.sqrt(
        2 * np.pi * variance
    )
    differences = LOSS.value(f, estimate) + np.log(density).sum(axis=-1) / n
    assert_allclose(differences, differences[0], rtol=0, atol=CERTIFIED)


@every_kappa
def test_the_gradient_of_the_normalised_loss_equals_central_differences(kappa):
    estimate = collected(kappa, 5)
    f = np.random.default_rng(2).dirichlet(np.ones(5))
    tangent = LOSS.majorant(np.full(5, 0.2), estimate)
    for loss in (LOSS, tangent):
        gradient = loss.gradient(f, estimate)
        for v, step in enumerate(np.eye(5) * STEP):
            slope = (loss.value(f + step, estimate) - loss.value(f - step, estimate)) / (2 * STEP)
            assert_allclose(gradient[v], slope, rtol=FINITE_DIFFERENCE, atol=FINITE_DIFFERENCE)


@every_kappa
@given(seed=st.integers(0, 2**32 - 1))
def test_the_majorant_touches_the_loss_and_is_nowhere_below(kappa, seed):
    n = int(np.random.default_rng(seed).integers(1, 500))
    estimate = collected(kappa, 4, n=n, seed=seed)
    rng = np.random.default_rng(seed)
    f = rng.dirichlet(np.ones(4))
    others = rng.dirichlet(np.ones(4), 20)
    majorant = LOSS.majorant(f, estimate)
    constant = LOSS.value(f, estimate) - majorant.value(f, estimate)
    assert_allclose(
        majorant.gradient(f, estimate), LOSS.gradient(f, estimate), rtol=0, atol=CERTIFIED
    )
    above = majorant.value(others, estimate) + constant - LOSS.value(others, estimate)
    assert above.min() >= -CERTIFIED * (1 + np.abs(LOSS.value(others, estimate)).max())


@pytest.mark.parametrize("path", ["auto", "conic"])
@every_kappa
def test_the_loss_never_rises_over_steps(kappa, path, monkeypatch):
    estimate = collected(kappa, 6, n=40)
    points = []
    original = NormalisedGaussianMLE.majorant
    monkeypatch.setattr(
        NormalisedGaussianMLE, "majorant", lambda s, f, e: points.append(f) or original(s, f, e)
    )
    solution = Problem(LOSS, SIMPLEX).solve(estimate, path=path)
    # Certificates ask for the majorant at a point once more: only moves are steps.
    visited = [f for f, before in zip(points, [None, *points], strict=False) if f is not before]
    values = [float(LOSS.value(f, estimate)) for f in [*visited, solution.frequencies]]
    assert len(values) >= solution.iterations + 1
    assert np.all(np.diff(values) <= (CERTIFIED if path == "auto" else 1e-8))


@every_kappa
def test_the_point_is_stationary_and_the_certificate_says_of_what(kappa):
    estimate = collected(kappa, 12, trials=4)
    solution = Problem(LOSS, SIMPLEX).solve(estimate)
    assert (solution.path, solution.solver, solution.status) == (
        "iterative",
        "convex-concave",
        "optimal",
    )
    assert solution.certificate.scope == "the last convexified step"
    assert "convexified" in repr(solution)
    assert solution.certificate.is_optimal(ACCURACIES["high"].stop)
    for trial, f in enumerate(solution.frequencies):
        alone = FrequencyEstimate(estimate.frequencies[trial], estimate.n, estimate.oracle)
        assert certify(Problem(LOSS.majorant(f, alone), SIMPLEX), alone, f).is_optimal(
            ACCURACIES["high"].stop
        )
    weighted = Problem(GaussianMLE(), SIMPLEX).solve(estimate).frequencies
    assert np.all(
        LOSS.value(solution.frequencies, estimate) <= LOSS.value(weighted, estimate) + CERTIFIED
    )
    moved = np.abs(weighted - solution.frequencies).max()
    assert moved < CERTIFIED if kappa == "kappa = 0" else moved > 1e-6


@functools.cache
def grid(d, cells):
    points = [p for p in itertools.product(range(cells + 1), repeat=d - 1) if sum(p) <= cells]
    return np.array([[*p, cells - sum(p)] for p in points]) / cells


@pytest.mark.parametrize(("d", "cells"), [(2, 20_000), (3, 400)])
@pytest.mark.parametrize("n", [20, 400])
@pytest.mark.parametrize("seed", range(3))
@every_kappa
def test_no_point_of_a_grid_is_better(kappa, seed, n, d, cells):
    estimate = collected(kappa, d, n=n, seed=seed)
    points = grid(d, cells)
    values = LOSS.value(points, estimate)
    solution = Problem(LOSS, SIMPLEX).solve(estimate)
    assert solution.objective <= values.min() + CERTIFIED
    assert solution.objective >= values.min() - 5 / cells
    assert np.abs(points[values.argmin()] - solution.frequencies).max() <= 3 / cells


@pytest.mark.parametrize(
    "constraints",
    [
        [*SIMPLEX, Monotone(range(6))],
        [NonNegative(), GroupTotals([[0, 1, 2], [2, 3]], [0.7, 0.3]), SumsTo()],
        [Bounds(0, 0.4), SumsTo()],
        [NonNegative(), Fixed([0], [0.5]), SumsTo()],
        [NonNegative()],
    ],
    ids=["order", "groups", "caps", "fixed", "no total"],
)
@every_kappa
def test_other_constraints_are_stepped_in_too(kappa, constraints):
    estimate = collected(kappa, 6)
    problem = Problem(LOSS, constraints)
    solution = problem.solve(estimate)
    numeric = problem.solve(estimate, path="conic")
    assert (solution.path, numeric.path, numeric.solver) == ("iterative", "conic", "CLARABEL")
    assert solution.certificate.violation <= 1e-8
    assert_allclose(numeric.frequencies, solution.frequencies, rtol=0, atol=3 * SOLVER["CLARABEL"])
    if problem.total(6) is not None:
        assert solution.certificate.gap <= GAP * SOLVER["CLARABEL"]
    weighted = Problem(GaussianMLE(), constraints).solve(estimate).frequencies
    assert LOSS.value(solution.frequencies, estimate) <= LOSS.value(weighted, estimate) + 1e-9


def test_steps_reuse_what_was_compiled(monkeypatch):
    compilations = []
    original = conic.CompiledProblem
    monkeypatch.setattr(conic, "CompiledProblem", lambda *a: compilations.append(a) or original(*a))
    # No step has a closed form under a constraint that cvxpy states.
    first_two = Custom(lambda f: [f[0] >= f[1]])
    solution = Problem(LOSS, [*SIMPLEX, first_two]).solve(collected("kappa > 0", 6, n=40))
    assert solution.iterations > 1
    assert len(compilations) == 1


@pytest.mark.parametrize("chosen", [{"path": "iterative"}, {"solver": "convex-concave"}])
def test_steps_take_their_number_and_the_gap_at_which_to_stop(chosen):
    problem = Problem(LOSS, SIMPLEX)
    estimate = collected("kappa > 0", 6, n=20)
    whole = problem.solve(estimate, **chosen)
    assert whole.iterations > 2
    with pytest.warns(LdpoptWarning, match="convex-concave stopped"):
        assert problem.solve(estimate, max_steps=2, **chosen).iterations == 2
    loose = problem.solve(estimate, accuracy="low", tol=1e-4, **chosen)
    assert loose.iterations < whole.iterations
    assert whole.certificate.gap < float(loose.certificate.gap) <= 1e-4


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"max_iter": 5}, "option of convex-concave 'max_iter'.*'max_steps'.*need path='conic'"),
        ({"max_steps": 0}, "max_steps must be at least 1, got 0"),
        ({"tol": -1.0}, "tol must be a finite number > 0, got -1.0"),
    ],
)
def test_other_options_of_the_steps_are_errors(options, match):
    with pytest.raises(InvalidInputError, match=match):
        Problem(LOSS, SIMPLEX).solve(collected("kappa > 0", 3), path="iterative", **options)


def test_few_values_with_a_loss_that_is_not_convex_are_refused_in_the_words_of_the_problem():
    problem = Problem(LOSS, [*SIMPLEX, AtMost(2)])
    estimate = collected("kappa > 0", 3)
    stated = r"NormalisedGaussianMLE\(\) under NonNegative\(\), SumsTo\(1\), AtMost\(2\) is not"
    assert problem.plan(estimate).path is None
    with pytest.raises(InvalidInputError, match=f"^{stated} convex and has no closed form"):
        problem.solve(estimate)
    for path in ("closed-form", "iterative"):
        with pytest.raises(InvalidInputError, match=f"^path='{path}' is not available: {stated}"):
            problem.solve(estimate, path=path)
    with pytest.raises(InvalidInputError, match=r"^AtMost\(2\) is not convex"):
        problem.solve(estimate, path="conic")
    assert repr(LOSS.majorant(np.full(3, 1 / 3), estimate)) == "NormalisedGaussianMLE()"


def test_steps_without_end_are_inaccurate(monkeypatch):
    monkeypatch.setattr(convex_concave, "MAX_STEPS", 1)
    estimate = collected("kappa > 0", 6, n=20)
    with pytest.warns(LdpoptWarning, match="convex-concave stopped"):
        assert Problem(LOSS, SIMPLEX).solve(estimate).status == "inaccurate"


def test_outside_its_domain_the_loss_is_infinite():
    estimate = collected("kappa > 0", 3)
    f = np.array([-2 / estimate.oracle.kappa, 0.5, 0.5])
    for loss in (LOSS, GaussianMLE(), LOSS.majorant(np.full(3, 1 / 3), estimate)):
        assert loss.value(f, estimate) == np.inf
        assert certify(Problem(loss, SIMPLEX), estimate, f).gap == np.inf
    assert math.isfinite(LOSS.value(np.array([0.2, 0.3, 0.5]), estimate))


def test_it_has_no_closed_form_and_needs_the_noise_level():
    with pytest.raises(InvalidInputError, match="it is solved by convex-concave"):
        Problem(LOSS, SIMPLEX).solve(collected("kappa > 0", 3), path="closed-form")
    with pytest.raises(InvalidInputError, match="noise level"):
        Problem(LOSS, SIMPLEX).solve([0.5, 0.5])


def test_mixture_weights_are_for_the_whole_simplex_alone():
    oracle = oracles.OUE(1.0, 4)
    reports, estimate = reported(oracle, 100)
    loss = PerReportMLE(oracle, reports)
    for where, path in (
        ([NonNegative(), SumsTo(1.0)], "iterative"),
        ([Bounds(0.1, np.inf), SumsTo(1.0)], "conic"),
        ([Bounds(0.0, 0.5), SumsTo(1.0)], "conic"),
        ([NonNegative()], "conic"),
    ):
        assert Problem(loss, where).plan(estimate).path == path
