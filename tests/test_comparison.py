"""Closed forms beside solvers: every problem, every way a solver can end, and the clock."""

import csv
import json
import math
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest

import ldpopt
from ldpopt import constraints, losses, oracles
from ldpopt.errors import (
    ImplausibleUnitWarning,
    InfeasibleError,
    InvalidInputError,
    InvalidTypeError,
    SolverError,
)
from ldpopt.studies import comparison
from ldpopt.studies.comparison import CASES, compare_solvers
from ldpopt.studies.comparison_rows import ComparisonRow, to_csv, to_json
from tests.tolerances import CERTIFIED, SOLVER


@pytest.mark.parametrize("problem", CASES)
def test_every_problem_can_be_compared(problem):
    closed, solved = compare_solvers([8], ["CLARABEL"], cases=[problem])
    assert closed.path == "closed-form"
    assert closed.gap < CERTIFIED
    assert closed.slowdown == 1
    assert closed.difference == 0
    assert solved.status == "optimal"
    assert solved.compile_seconds > 0
    assert solved.slowdown == solved.seconds / closed.seconds
    assert solved.gap < 1e-4
    # The solutions of least absolute deviations are not unique.
    assert problem == "absolute" or solved.difference < SOLVER["CLARABEL"]


def test_rows_come_by_size_problem_solver_and_accuracy():
    rows = compare_solvers([8, 9], ["OSQP"], cases=["cls", "norm"], accuracies=["low", "high"])
    expected = [
        (d, label, accuracy)
        for d in (8, 9)
        for label in ("CLS", "Norm")
        for accuracy in ("", "low", "high")
    ]
    assert [(row.d, row.problem, row.accuracy) for row in rows] == expected


def test_the_estimate_is_that_of_a_million_zipf_users():
    estimate = comparison.zipf_estimate(4, np.random.default_rng(0))
    assert estimate.n == 1_000_000
    assert type(estimate.oracle).__name__ == "OUE"
    shares = np.array([1, 2**-1.5, 3**-1.5, 4**-1.5])
    assert np.abs(estimate.frequencies - shares / shares.sum()).max() < 5 * estimate.sigma


def test_the_budget_of_the_estimate_is_one():
    assert comparison.zipf_estimate(4, np.random.default_rng(0)).oracle.epsilon == 1


def test_the_seed_draws_the_estimate():
    def difference(seed):
        rows = compare_solvers([64], ["OSQP"], cases=["norm"], seed=seed)
        return list(rows)[1].difference

    assert difference(0) == difference(0)
    assert difference(0) != difference(1)


def test_every_row_pays_for_its_own_compilation():
    accuracies = ["high", "low"]
    _, high, low = compare_solvers([8], ["OSQP"], cases=["norm"], accuracies=accuracies)
    assert high.compile_seconds > 0
    assert low.compile_seconds > 0


def test_a_row_has_the_times_of_both_solves_and_the_certificate_of_the_second():
    closed, first, second = (
        SimpleNamespace(
            start=SimpleNamespace(d=2),
            frequencies=np.array([share, 1 - share]),
            path="conic",
            solver="SCS",
            status="optimal",
            seconds=seconds,
            compile_seconds=seconds / 4,
            certificate=SimpleNamespace(
                gap=gap, violation=gap * 2, is_optimal=lambda *_, gap=gap, **__: gap == 0
            ),
            iterations=25,
        )
        for share, seconds, gap in ((0.5, 0.25, 0.0), (0.6, 8.0, 1.0), (0.75, 2.0, 1e-3))
    )
    ours = comparison._Run("norm-sub", "", closed, closed)
    run = comparison._Run("SCS", "low", first, second)
    assert comparison._row("CLS", run, ours, closed) == ComparisonRow(
        "CLS",
        2,
        "conic",
        "SCS",
        "low",
        "optimal",
        first_seconds=8.0,
        compile_seconds=2.0,
        seconds=2.0,
        slowdown=8.0,
        difference=0.25,
        gap=1e-3,
        violation=2e-3,
        iterations=25,
    )
    assert comparison._row("CLS", ours, ours, closed).is_reference


def test_the_cap_of_the_capped_simplex_is_half_of_the_largest_estimate():
    estimate = comparison.zipf_estimate(64, np.random.default_rng(0))
    capped, _ = CASES["capped"].constraints(estimate)
    assert capped.upper == estimate.frequencies.max() / 2
    small = comparison.zipf_estimate(2, np.random.default_rng(0))
    assert CASES["capped"].constraints(small)[0].upper == 1  # less than 1/2 would be infeasible


class Clock:
    """A solve that takes the given seconds, one after the other."""

    def __init__(self, *seconds):
        self.solutions = [SimpleNamespace(seconds=s) for s in seconds]
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return self.solutions[self.calls - 1]


def test_the_fastest_of_three_repetitions_counts():
    solve = Clock(0.9, 0.3, 0.1, 0.2, 0.0)
    first, repeated = comparison._timed(solve)
    assert (first.seconds, repeated.seconds) == (0.9, 0.1)
    assert solve.calls == 4


def test_a_solve_of_a_second_is_repeated_once():
    solve = Clock(1.0, 2.0, 0.0)
    first, repeated = comparison._timed(solve)
    assert (first.seconds, repeated.seconds) == (1.0, 2.0)
    assert solve.calls == 2


@pytest.mark.parametrize("error", [SolverError, InfeasibleError])
def test_a_solver_that_fails_gives_a_row_with_the_reason(error, monkeypatch):
    solve = comparison.Problem.solve

    def fails(problem, start, path="auto", *arguments, **options):
        if path == "conic":
            raise error("no luck\nat all")
        return solve(problem, start, path, *arguments, **options)

    monkeypatch.setattr(comparison.Problem, "solve", fails)
    _, failed = compare_solvers([8], ["SCS"], cases=["cls"])
    assert failed == ComparisonRow("CLS", 8, "conic", "SCS", "high", "failed", note="no luck")


def test_a_solver_is_stopped_after_the_time_limit(monkeypatch):
    given = []
    solve = comparison.Problem.solve

    def noting(problem, start, path="auto", *arguments, **options):
        if path == "conic":
            given.append(options)
            raise SolverError("stopped")
        return solve(problem, start, path)

    monkeypatch.setattr(comparison.Problem, "solve", noting)
    solvers = ["CLARABEL", "HIGHS", "OSQP", "SCS", "QOCO"]
    list(compare_solvers([8], solvers, cases=["cls"], time_limit=7.0))
    assert given == [*[{"time_limit": 7.0}] * 3, {"time_limit_secs": 7.0}, {}]


def test_unknown_problems_are_refused():
    with pytest.raises(InvalidInputError, match="did you mean 'cls'"):
        list(compare_solvers([8], ["OSQP"], cases=["clss"]))


ROWS = [
    ComparisonRow("CLS", 8, "closed-form", "norm-sub", "", "optimal", seconds=0.5, gap=0.0),
    ComparisonRow("CLS", 8, "conic", "SCS", "high", "inaccurate", gap=math.inf, violation=math.nan),
]


def test_csv_leaves_missing_numbers_empty():
    lines = to_csv(ROWS).splitlines()
    assert lines[0].startswith("problem,d,path,solver,accuracy,status,first_seconds,")
    first, second = csv.DictReader(lines)
    assert (first["seconds"], first["gap"], first["violation"]) == ("0.5", "0.0", "")
    assert (second["gap"], second["seconds"]) == ("inf", "")


def test_json_has_null_for_missing_numbers_and_text_for_infinite_ones():
    first, second = json.loads(to_json(ROWS))
    assert (first["seconds"], first["gap"], first["violation"]) == (0.5, 0.0, None)
    assert (second["gap"], second["violation"]) == ("inf", "nan")


# --- problems and vectors of the user -------------------------------------------------------------

SIMPLEX = [constraints.NonNegative(), constraints.SumsTo(1.0)]
CLS = ldpopt.Problem(losses.LeastSquares(), SIMPLEX)
NEAR = ldpopt.Problem(
    losses.LeastSquares(),
    [*SIMPLEX, constraints.Custom(lambda f: [cp.norm2(f - 0.25) <= 0.1], name="near")],
)
VECTOR = np.array([0.7, 0.4, -0.1, 0.05])


@pytest.fixture(scope="module")
def compared():
    """A closed form and a problem without one, with a solver that cannot take the second."""
    return ldpopt.compare({"cls": CLS, "near": NEAR}, VECTOR, solvers=["OSQP", "CLARABEL", "SCS"])


def test_own_problems_are_compared_on_own_vectors(compared):
    rows = {(row.problem, row.solver): row for row in compared.rows}
    closed = rows["cls", "norm-sub"]
    assert closed.is_reference
    assert (closed.d, closed.difference, closed.slowdown) == (4, 0, 1)
    for solver in ("OSQP", "CLARABEL", "SCS"):
        assert rows["cls", solver].status == "optimal"
        assert rows["cls", solver].difference < SOLVER[solver]
        assert rows["cls", solver].iterations > 0


def test_without_a_closed_form_the_best_certified_point_is_the_reference(compared):
    near = [row for row in compared.rows if row.problem == "near"]
    assert len(near) == 4
    (reference,) = (row for row in near if row.is_reference)
    inexact = {id(r): max(abs(r.gap), r.violation) for r in near if r.gap is not None}
    assert inexact[id(reference)] == min(inexact.values())
    assert reference.difference == 0
    assert all(row.difference < 1e-4 for row in near if row.difference is not None)


ROUGH = [0.31, 0.22, 0.25, 0.13, 0.16, 0.04, 0.02, 0.07]


@pytest.mark.parametrize("loss", [losses.LeastAbsolute(), losses.Huber(0.01)])
def test_points_that_are_far_apart_and_equally_good_are_remarked(loss):
    problem = ldpopt.Problem(loss, SIMPLEX)
    compared = ldpopt.compare({"flat": problem}, ROUGH, solvers=["CLARABEL", "OSQP"])
    far = [row.solver for row in compared.rows if row.difference > 1e-2 * max(ROUGH)]
    assert [row.solver for row in compared.rows if row.note] == far == ["CLARABEL", "OSQP"]
    (note,) = repr(compared).splitlines()[4:]
    assert note.startswith("CLARABEL; OSQP on flat: far from the reference, and both are optimal")


@pytest.mark.parametrize(
    "loss",
    [
        losses.LeastSquares(),
        1e-8 * losses.LeastSquares(),
        losses.Custom(lambda f, y: cp.sum_squares(f - y)),
        losses.KullbackLeibler(),
    ],
)
def test_of_one_minimum_nothing_is_remarked(loss):
    compared = ldpopt.compare(ldpopt.Problem(loss, SIMPLEX), ROUGH, solvers=["CLARABEL", "SCS"])
    assert not any(row.note for row in compared.rows)


def test_a_solver_that_cannot_take_the_problem_names_all_that_can(compared):
    row = next(row for row in compared.rows if (row.problem, row.solver) == ("near", "OSQP"))
    assert row.status == "unsupported"
    assert "OSQP cannot take this problem" in row.note
    assert row.note.endswith("these can: CLARABEL, QOCO, SCS")
    assert f"OSQP on near: {row.note}" in repr(compared)


def test_own_comparisons_are_tables_and_pictures(compared, tmp_path):
    records = list(csv.DictReader(compared.to_csv(tmp_path / "c.csv").splitlines()))
    assert len(records) == len(compared.rows) == 8
    assert (tmp_path / "c.csv").read_text(encoding="utf-8").startswith("problem,d,path")
    lines = repr(compared).splitlines()
    assert lines[0].split()[:3] == ["problem", "solver", "setting"]
    assert "reference" in lines[1]
    assert compared._repr_html_().count("<tr>") == 9
    titles = [axes.get_title() for axes in compared.plot().axes]
    assert titles == ["cls, d = 4", "near, d = 4"]


def test_a_long_title_does_not_reach_the_legend():
    ordered = [*SIMPLEX, constraints.Monotone(range(4)), constraints.Bounds(upper=0.75)]
    problem = ldpopt.Problem(losses.WeightedLeastSquares([1, 2, 3, 4]), ordered)
    figure = ldpopt.compare(problem, VECTOR, solvers=["OSQP"]).plot()
    figure.draw_without_rendering()
    (legend,) = figure.legends
    title = figure.axes[0].title.get_window_extent()
    assert "d = 4" in figure.axes[0].get_title()
    # Nor is a part of the statement torn apart.
    lines = figure.axes[0].get_title().splitlines()
    assert all(line.count("(") == line.count(")") for line in lines)
    assert not legend.get_window_extent().overlaps(title)


@pytest.mark.parametrize(
    ("problems", "vector", "options", "message"),
    [
        (CLS, [VECTOR, VECTOR], {}, r"takes one vector.*estimate\[0\]"),
        ([CLS, CLS], VECTOR, {}, "two problems are called 'LeastSquares"),
        ([], VECTOR, {}, "at least one problem"),
        ("cls", VECTOR, {}, "takes problems, got"),
        ({"p": 3}, VECTOR, {}, "takes problems, got 3"),
        (CLS, VECTOR, {"solvers": ["OSPQ"]}, "did you mean 'OSQP'"),
        (CLS, VECTOR, {"accuracies": ["hihg"]}, "did you mean 'high'"),
        (CLS, VECTOR, {"solvers": ["OSQP", "osqp"]}, "solvers must be distinct, got 'OSQP' again"),
        (CLS, VECTOR, {"accuracies": ["low", "low"]}, "accuracies must be distinct, got 'low'"),
        (CLS, VECTOR, {"solvers": "OSQP"}, r"list of names, got 'OSQP': pass \['OSQP'\]"),
        (CLS, VECTOR, {"time_limit": 0}, "time_limit"),
        (
            {"ours": ldpopt.Problem(losses.GaussianMLE(), SIMPLEX)},
            VECTOR,
            {},
            "the problem 'ours': .*noise",
        ),
        (
            {"ours": ldpopt.Problem(losses.GaussianMLE(), [*SIMPLEX, constraints.AtMost(2)])},
            oracles.OUE(1.0, 4).estimate([9, 8, 7, 6], 20),
            {},
            "the problem 'ours': .*AtMost",
        ),
        (
            {"ours": ldpopt.Problem(losses.LeastSquares(), [constraints.Monotone(range(9))])},
            VECTOR,
            {},
            "the problem 'ours': order",
        ),
        (
            "norm-sub",
            VECTOR,
            {},
            r"got 'norm-sub': that of a method is METHODS\[name\].problem",
        ),
        (CLS, VECTOR, {"solvers": 3}, "solvers must be a list of names, got 3"),
    ],
)
def test_what_cannot_be_compared_is_said_before_any_solve(
    problems, vector, options, message, monkeypatch
):
    def solve(*arguments, **more):
        raise AssertionError("a problem was solved")

    monkeypatch.setattr(comparison.Problem, "solve", solve)
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        ldpopt.compare(problems, vector, **options)


def test_counts_for_frequencies_are_noticed_once_though_solves_are_quiet():
    problem = ldpopt.Problem(
        losses.LeastSquares(), [constraints.NonNegative(), constraints.SumsTo()]
    )
    with pytest.warns(ImplausibleUnitWarning) as noticed:
        ldpopt.compare({"ours": problem}, [300.0, 200.0, 100.0], solvers=["CLARABEL"])
    assert len(noticed) == 1


def test_a_method_in_place_of_a_problem_is_named():
    with pytest.raises(
        InvalidTypeError, match="a method that returns frequencies is not a problem"
    ):
        ldpopt.compare(np.array([0.5, 0.5]), [0.5, 0.5])
