"""Contradictory constraints: found before any solve, and none of those named can be left out."""

import re
import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from ldpopt import Problem
from ldpopt.constraints import (
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Linear,
    Monotone,
    NonNegative,
    SumsTo,
)
from ldpopt.errors import InfeasibleError, InvalidInputError
from ldpopt.losses import KullbackLeibler, LeastAbsolute, LeastSquares
from ldpopt.solve import feasibility
from ldpopt.solve.paths.conic import CompiledProblem
from ldpopt.solve.programs.program import ConeProgram

D = 5
ESTIMATE = [0.5, 0.3, 0.2, -0.05, 0.05]
SIMPLEX = [NonNegative(), SumsTo()]
FIRST_LEADS = Linear([[-1, 0, 1, 0, 0]], 0.1, np.inf)  # f[2] >= f[0] + 0.1
CONFLICTS = {
    "overlapping groups": (
        [NonNegative(), GroupTotals([[0, 1], [1, 2], [0, 2]], [0.5, 0.1, 0.9])],
        [
            "0 <= f[1]",
            "group 0 of 2 values sums to 0.5",
            "group 1 of 2 values sums to 0.1",
            "group 2 of 2",
        ],
    ),
    "groups beyond the total": (
        [*SIMPLEX, GroupTotals([[0, 1], [2, 3]], [0.5, 0.7])],
        ["0 <= f[4]", "group 0", "group 1", "SumsTo(1)"],
    ),
    "an empty group": ([*SIMPLEX, GroupTotals([[]], [0.3])], ["group 0 of 0 values sums to 0.3"]),
    "an order against a row": (
        [*SIMPLEX, Monotone([0, 1, 2]), FIRST_LEADS],
        ["f[0] >= f[1]", "f[1] >= f[2]", "row 0 of Linear(<1 row>)"],
    ),
    "crossed orders": (
        [*SIMPLEX, Monotone([0, 1]), Monotone([1, 0]), Fixed([0, 1], [0.3, 0.2])],
        ["f[1] >= f[0]", "f[0] = 0.3", "f[1] = 0.2"],
    ),
    "an order against bounds": (
        [*SIMPLEX, Monotone([3, 0]), Bounds([0.4, 0, 0, 0, 0], [1, 1, 1, 0.1, 1])],
        ["f[3] >= f[0]", "0.4 <= f[0] <= 1", "0 <= f[3] <= 0.1"],
    ),
    "a row of zeros": ([Linear(np.zeros((1, D)), 1, 1)], ["row 0 of Linear"]),
}


@pytest.fixture
def no_solver(monkeypatch):
    def refuse(*_):
        raise AssertionError("a solver was called")

    monkeypatch.setattr(CompiledProblem, "__init__", refuse)


@pytest.mark.parametrize("path", ["auto", "conic"])
@pytest.mark.parametrize("name", CONFLICTS)
@pytest.mark.usefixtures("no_solver")
def test_a_conflict_is_named_before_any_solve(name, path):
    constraints, rows = CONFLICTS[name]
    with pytest.raises(
        InfeasibleError, match="no vector satisfies the constraints; these conflict"
    ) as error:
        Problem(LeastSquares(), constraints).solve(ESTIMATE, path=path)
    message = str(error.value)
    assert all(row in message for row in rows)
    assert message.count(";") == len(rows)  # and nothing else


@pytest.mark.parametrize("name", CONFLICTS)
def test_how_much_must_give_way_is_the_least_for_all_rows(name):
    constraints, _ = CONFLICTS[name]
    with pytest.raises(InfeasibleError) as error:
        feasibility.require_feasible(constraints, D)
    amount = float(re.search(r"give way by ([^)]*)\)", str(error.value)).group(1))
    f = cp.Variable(D)
    t = cp.Variable()
    forms = []
    for rows in (c.rows(D) for c in constraints):
        low, high = np.isfinite(rows.lower), np.isfinite(rows.upper)
        forms += [
            (rows.matrix @ f)[low] >= rows.lower[low] - t,
            (rows.matrix @ f)[high] <= rows.upper[high] + t,
        ]
    assert amount == pytest.approx(
        cp.Problem(cp.Minimize(t), forms).solve(solver="CLARABEL"), rel=0.01
    )


def systems(seed):
    """Random rows of few small whole numbers: about half of these systems have no solution."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(4, 9))
    matrix = rng.integers(-1, 2, (m, 3)) * (rng.random((m, 3)) < 0.8)
    lower = np.where(rng.random(m) < 0.7, rng.integers(-2, 3, m) / 4, -np.inf)
    upper = np.where(
        rng.random(m) < 0.3, lower.clip(min=-1), np.where(rng.random(m) < 0.5, np.inf, lower + 0.5)
    )
    return matrix.astype(float), lower, np.where(np.isneginf(lower) & np.isinf(upper), 0.25, upper)


def solvable(matrix, lower, upper):
    above, below = np.isfinite(upper), np.isfinite(lower)
    rows = np.vstack([matrix[above], -matrix[below]])
    caps = np.concatenate([upper[above], -lower[below]])
    result = optimize.linprog(
        np.zeros(matrix.shape[1]), A_ub=rows, b_ub=caps, bounds=[(None, None)] * matrix.shape[1]
    )
    assert result.status in (0, 2)
    return result.status == 0


@given(seed=st.integers(0, 2**32 - 1))
def test_the_rows_named_conflict_and_without_any_of_them_the_others_do_not(seed):
    matrix, lower, upper = systems(seed)
    try:
        feasibility.require_feasible([Linear(matrix, lower, upper)], 3)
    except InfeasibleError as error:
        named = [int(i) for i in re.findall(r"row (\d+) of Linear", str(error))]
        if len(named) == feasibility._SHOWN:  # more may be left unnamed
            return
        assert not solvable(matrix[named], lower[named], upper[named])
        for left_out in named:
            kept = [i for i in named if i != left_out]
            assert solvable(matrix[kept], lower[kept], upper[kept])
    else:
        assert solvable(matrix, lower, upper)


def test_random_systems_are_of_both_kinds():
    kinds = [solvable(*systems(seed)) for seed in range(60)]
    assert 10 < sum(kinds) < 50


def test_many_rows_in_conflict_are_counted():
    with pytest.raises(InfeasibleError, match=r"f\[0\] >= f\[1\]; .*; … \(11 rows\)"):
        feasibility.require_feasible(
            [Monotone(range(10)), Bounds([0.1, *[-1] * 8, 0.2], [0.15, *[1] * 9])], 10
        )


@pytest.mark.parametrize("excess", [1e-13, -1e-13])
def test_totals_that_differ_by_rounding_do_not_conflict(excess):
    groups = GroupTotals([[0, 1], [2, 3, 4]], [0.5, 0.5 + excess])
    assert Problem(LeastSquares(), [*SIMPLEX, groups]).solve(ESTIMATE).certificate.is_optimal(1e-9)
    assert (
        Problem(LeastSquares(), [*SIMPLEX, groups])
        .solve(ESTIMATE, path="conic")
        .certificate.is_optimal(1e-8)
    )


# --- constraints that only cvxpy knows ------------------------------------------------------------


def named(problem, estimate=ESTIMATE):
    with pytest.raises(InfeasibleError) as error:
        problem.solve(estimate)
    return str(error.value).partition("these conflict: ")[2]


def test_a_conflict_of_cvxpy_constraints_names_those_needed_for_it():
    first = Custom(lambda f: [f[0] >= 0.6])
    both = Custom(lambda f: [f[1] >= 0.6])
    apart = Custom(lambda f: [f[2] <= 0.9])
    assert named(Problem(LeastSquares(), [*SIMPLEX, apart, first, both])) == (
        "NonNegative(), SumsTo(1), Custom(), Custom(); give each Custom a name to tell them apart"
    )
    assert named(
        Problem(LeastSquares(), [SumsTo(), NonNegative(), Custom(lambda f: [f[0] + f[1] <= -0.1])])
    ) == ("NonNegative(), Custom()")
    assert (
        named(Problem(LeastSquares(), [*SIMPLEX, Custom(lambda f: [f[0] >= 1, f[0] <= 0.5])]))
        == "Custom()"
    )


def test_the_polyhedral_part_is_checked_before_the_cvxpy_constraints(no_solver):
    with pytest.raises(InfeasibleError, match=r"group 0 .*group 1"):
        Problem(
            LeastSquares(),
            [*CONFLICTS["groups beyond the total"][0], Custom(lambda f: [f[0] >= 0])],
        ).solve(ESTIMATE)


def test_constraints_that_leave_the_loss_no_point_are_not_said_to_conflict():
    allowed = Custom(lambda f: [f[3] >= 0.1])  # where the estimate is negative
    with pytest.raises(InfeasibleError, match="KullbackLeibler") as error:
        Problem(KullbackLeibler(), [SumsTo(), allowed]).solve(ESTIMATE)
    assert "Custom()" in str(error.value)
    assert "SumsTo" not in str(error.value).partition("these conflict")[2]


def test_a_large_problem_names_its_conflict_after_the_solver_found_it(monkeypatch):
    monkeypatch.setattr(feasibility, "LARGEST", 4)
    with pytest.raises(InfeasibleError, match=r"these conflict: .*group 0"):
        Problem(LeastSquares(), CONFLICTS["overlapping groups"][0]).solve(ESTIMATE)


def test_a_search_without_any_condition_has_a_vector():
    """Infinite bounds state nothing: cvxpy makes no cone program of that."""
    outcome, point = feasibility._search([Bounds(-np.inf, np.inf)], 3)
    assert outcome == "feasible"
    assert point.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("status", "expected"),
    [("optimal", "feasible"), ("optimal_inaccurate", "undecided"), ("infeasible", "undecided")],
)
def test_only_an_optimal_point_proves_that_constraints_agree(status, expected, monkeypatch):
    """And a status alone does not prove that they conflict: that takes a ray."""
    original = ConeProgram.solve

    def solve(self, options=None, *more):
        solution = original(self, options, *more)
        return replace(solution, status=status)

    monkeypatch.setattr(ConeProgram, "solve", solve)
    outcome, point = feasibility._search([SumsTo(1), NonNegative()], 3)
    assert outcome == expected
    assert (point is not None) == (outcome == "feasible")


@pytest.mark.parametrize(
    "further",
    [[Linear([[1, 2, 0, 0, -1]], 0.7, 0.7)], [Custom(lambda f: [cp.norm(f - 0.2) <= 0.5])]],
    ids=["rows", "curved"],
)
def test_a_solver_that_calls_a_set_empty_is_replaced_unless_a_program_agrees(further, monkeypatch):
    original = CompiledProblem.solve
    wrong = []

    def solve(self, *arguments):
        result = original(self, *arguments)
        if wrong:
            return result
        wrong.append(self)
        return replace(result, point=None, status=None, reported="infeasible")

    monkeypatch.setattr(CompiledProblem, "solve", solve)
    groups = GroupTotals([[0, 1], [1, 2]], [0.6, 0.4])
    solution = Problem(LeastAbsolute(), [*SIMPLEX, groups, *further]).solve(ESTIMATE)
    assert wrong
    assert solution.certificate.is_optimal(1e-8, relative=True)


def test_an_empty_curved_set_is_proved_by_a_ray():
    balls = [Custom(lambda f, c=c: [cp.norm(f[:2] - c) <= 0.1]) for c in (0.0, 0.5)]
    assert feasibility._search(balls, D)[0] == "infeasible"
    touching = Custom(lambda f: [cp.norm(f[:2] - np.array([0.2, 0])) <= 0.1])
    assert feasibility._search([balls[0], touching], D)[0] != "infeasible"


def test_looking_for_a_conflict_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "do not conflict" in feasibility.conflict(SIMPLEX, D)


# --- what the loss itself asks for ----------------------------------------------------------------

DEAD = [0.5, 0.3, -0.1, -0.2]


@pytest.mark.parametrize(
    ("constraints", "rows"),
    [
        (
            [GroupTotals([[0, 1], [2, 3]], [0.5, 0.5])],
            ["group 1", "f[2] = 0, else KullbackLeibler() is infinite", "f[3]"],
        ),
        ([Fixed([2], [0.2]), SumsTo()], ["f[2] = 0.2", "f[2] = 0, else"]),
        ([Bounds(0.1, 1), SumsTo()], ["0.1 <= f[", "= 0, else"]),
        (
            [Monotone([2, 0, 1]), Monotone([1, 3]), SumsTo()],
            ["f[2] >= f[0]", "f[0] >= f[1]", "f[2] = 0, else"],
        ),
        ([GroupTotals([[0, 1], [2, 3]], [1.5, -0.5]), SumsTo()], ["group 1"]),
    ],
    ids=["group", "fixed", "bounds", "order", "negative group"],
)
@pytest.mark.usefixtures("no_solver")
def test_values_that_the_divergence_keeps_at_zero_are_part_of_the_conflict(constraints, rows):
    with pytest.raises(InfeasibleError) as error:
        Problem(KullbackLeibler(), constraints).solve(DEAD)
    assert all(row in str(error.value) for row in rows)


@pytest.mark.parametrize(
    ("constraints", "rows"),
    [
        ([Bounds(0.01, 0.9), Monotone(range(4))], ["0.01 <= f[", "= 0, else"]),
        ([Bounds(0.01, 0.9), Monotone([(0, 3), (0, 2)])], ["0.01 <= f[", "= 0, else"]),
        ([Bounds([0, 0.3, 0, 0], 0.9), Monotone([(2, 1)])], ["f[2] >= f[1]", "f[2] = 0, else"]),
    ],
    ids=["chain", "tree", "pair"],
)
def test_so_are_those_that_a_divergence_in_a_sum_keeps_there(constraints, rows):
    with pytest.raises(InfeasibleError) as error:
        Problem(KullbackLeibler() + 0.5 * LeastSquares(), constraints).solve(DEAD)
    assert all(row in str(error.value) for row in rows)


def test_one_dead_trial_of_a_stack_is_found():
    problem = Problem(KullbackLeibler(), [GroupTotals([[0, 1], [2, 3]], [0.5, 0.5])])
    alive = [0.5, 0.3, 0.1, -0.2]
    assert problem.solve([alive, alive]).certificate.violation.max() < 1e-8
    with pytest.raises(InfeasibleError, match=r"f\[2\] = 0, else"):
        problem.solve([alive, DEAD])


def test_a_feasible_problem_is_checked_once(monkeypatch):
    calls = []
    original = feasibility._elastic
    monkeypatch.setattr(feasibility, "_elastic", lambda *a: calls.append(a) or original(*a))
    problem = Problem(LeastAbsolute(), [*SIMPLEX, GroupTotals([[0, 1], [1, 2]], [0.5, 0.4])])
    problem.solve(ESTIMATE)
    problem.solve([ESTIMATE, ESTIMATE])
    assert len(calls) == 1


def test_equal_frequencies_that_satisfy_all_need_no_program(monkeypatch):
    programs = []
    monkeypatch.setattr(feasibility, "_elastic", lambda *parts: programs.append(parts))
    feasibility.require_feasible([*SIMPLEX, Monotone(range(D)), Bounds(0, 0.5)], D)
    feasibility.require_feasible([NonNegative(), SumsTo(2.0), Fixed([1], [0.0])], D)
    assert programs == []


def test_contradicting_bounds_are_found_without_a_program():
    with pytest.raises(InvalidInputError, match="contradict each other at index 1"):
        Problem(LeastSquares(), [Bounds(0.2, 1), Fixed([1], [0.1])]).solve(ESTIMATE)


def test_totals_in_a_conflict_are_named_before_the_bounds_of_many_values():
    totals = GroupTotals([[0, 1], [2, 3]], [0.7, 0.7])
    problem = Problem(LeastSquares(), [NonNegative(), SumsTo(1), totals])
    with pytest.raises(InfeasibleError) as error:
        problem.solve(np.full(50, 0.02))
    names = str(error.value).partition("these conflict: ")[2].split("; ")
    assert all("0 <= f" not in name for name in names[:3])
    assert names[3] == "0 <= f[4]"
    assert "(49 rows)" in names[6]
