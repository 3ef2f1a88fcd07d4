"""Balls, top sets, margins and nested totals: by hand, by solvers, certified, or refused."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from ldpopt import Parameter, Problem, certify, closed_form
from ldpopt.closed_form import parts
from ldpopt.constraints import (
    Custom,
    GroupTotals,
    HierarchyTotals,
    Margins,
    Monotone,
    Near,
    NonNegative,
    SumsTo,
    TopSet,
)
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError
from ldpopt.losses import Huber, KLTo, LeastAbsolute, LeastSquares, TotalVariation
from ldpopt.solve.status import Status
from tests.tolerances import CERTIFIED, SOLVER, SUM

D = 12
SIMPLEX = [NonNegative(), SumsTo(1.0)]
REFERENCE = np.arange(D, 0, -1.0) / np.sum(np.arange(D, 0, -1.0))
Y = REFERENCE + np.random.default_rng(0).normal(0, 0.03, D)
NAN = np.nan
CENSUS = HierarchyTotals(
    [np.arange(D) // 2, [0, 0, 0, 1, 1, 1]], [[0.3, NAN, NAN, NAN, 0.05, NAN], [0.75, NAN]]
)
SETS = {
    "L1 ball": Near(REFERENCE, 0.05, 1),
    "weighted L1 ball": Near(REFERENCE, 0.05, 1, weights=np.arange(1.0, D + 1)),
    "ball": Near(REFERENCE, 0.02),
    "cube": Near(REFERENCE, 0.01, np.inf),
    "KL ball": Near(REFERENCE, 0.01, "kl"),
    "top set": TopSet([0, 1, 2, 6]),
    "margins": Margins((3, 4), 0, [0.5, 0.3, 0.2]),
    "nested totals": CENSUS,
}
STATED = {
    "L1 ball": lambda f: cp.norm1(f - REFERENCE) <= 0.05,
    "weighted L1 ball": lambda f: np.arange(1.0, D + 1) @ cp.abs(f - REFERENCE) <= 0.05,
    "ball": lambda f: cp.norm(f - REFERENCE) <= 0.02,
    "cube": lambda f: cp.norm_inf(f - REFERENCE) <= 0.01,
    "KL ball": lambda f: cp.sum(cp.kl_div(f, REFERENCE)) <= 0.01,
    "top set": lambda f: [f[a] >= f[b] for a in (0, 1, 2, 6) for b in range(D) if b not in
                          (0, 1, 2, 6)],
    "margins": lambda f: cp.sum(cp.reshape(f, (3, 4), order="C"), axis=1) == [0.5, 0.3, 0.2],
    "nested totals": lambda f: [
        cp.sum(f[:2]) == 0.3, cp.sum(f[8:10]) == 0.05, cp.sum(f[:6]) == 0.75
    ],
}  # fmt: skip


# --- one set in every form ------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_the_set_is_the_one_that_cvxpy_states(name):
    ready = Problem(LeastSquares(), [*SIMPLEX, SETS[name]]).solve(Y)
    stated = Problem(LeastSquares(), [*SIMPLEX, Custom(STATED[name])]).solve(Y)
    assert SETS[name].violation(Y) > 0
    assert SETS[name].violation(ready.frequencies) <= 1e-9
    assert_allclose(ready.frequencies, stated.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("name", SETS)
def test_the_violation_of_a_stack_is_that_of_its_rows_and_grows_with_the_distance(name):
    inside = Problem(LeastSquares(), [*SIMPLEX, SETS[name]]).solve(Y).frequencies
    stack = np.stack([inside + step * (Y - inside) for step in (0.0, 0.5, 1.0)])
    violations = SETS[name].violation(stack[:, None])
    assert violations.shape == (3, 1)
    for row, violation in zip(stack, violations[:, 0], strict=True):
        assert_allclose(SETS[name].violation(row), violation, rtol=0, atol=SUM)
    assert violations[0] <= 1e-9 < violations[1] < violations[2]


@pytest.mark.parametrize("name", SETS)
def test_the_minimum_is_certified_with_multipliers_by_name_and_a_moved_point_is_not(name):
    problem = Problem(Huber(0.01) + 0.02 * TotalVariation(), [*SIMPLEX, SETS[name]])
    solution = problem.solve(Y)
    assert solution.certificate.is_optimal(1e-6, relative=True)
    assert list(solution.duals) == ["NonNegative", "SumsTo", type(SETS[name]).__name__]
    assert np.isfinite(np.concatenate([np.ravel(part) for part in solution.duals.values()
                                       if not isinstance(part, list)])).all()  # fmt: skip
    # Towards the uniform vector, which is in none of the sets that are exact, or outside.
    for moved in (0.99 * solution.frequencies + 0.01 / D, np.roll(solution.frequencies, 1)):
        assert not certify(problem, Y, moved).is_optimal(1e-6, relative=True)


@pytest.mark.parametrize("name", ["cube", "top set", "margins", "nested totals"])
def test_closed_forms_solve_what_has_one(name):
    problem = Problem(LeastSquares(), [*SIMPLEX, SETS[name]])
    solution = problem.solve(Y)
    assert solution.path == "closed-form"
    assert solution.certificate.is_optimal(CERTIFIED, relative=True)
    numeric = problem.solve(Y, path="conic")
    assert_allclose(numeric.frequencies, solution.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


@pytest.mark.parametrize("norm", [1, 2, "kl"])
def test_a_radius_whose_square_is_no_double_holds_nothing_back(norm):
    solution = Problem(LeastSquares(), [*SIMPLEX, Near(REFERENCE, 1e300, norm)]).solve(Y)
    assert_allclose(solution.frequencies, closed_form.norm_sub(Y), rtol=0, atol=SUM)


@pytest.mark.parametrize("part", [5, 1 << 16], ids=["in parts", "whole"])
@pytest.mark.parametrize("shape", [(D,), (3, D), (2, 3, D)])
def test_the_excess_of_a_divergence_is_that_of_scipy(shape, part, monkeypatch):
    monkeypatch.setattr(parts, "_PART", part)
    rng = np.random.default_rng(5)
    reference = np.where(np.arange(D) % 4 == 3, 0.0, REFERENCE)
    f = rng.dirichlet(np.ones(D), shape[:-1]) * (rng.uniform(size=shape) > 0.2)
    held = reference == 0
    ball = Near(reference, 1e-3, "kl")
    inside = np.where(held, 0.0, f)
    excess = special.kl_div(inside, reference).sum(axis=-1) - 1e-3
    assert_allclose(ball.violation(inside), excess, rtol=1e-12)
    # What is left where the reference is 0 hides nothing of the rest.
    residue = inside + 1e-5 * held
    assert_allclose(ball.violation(residue), excess, rtol=1e-12)
    # Far outside: where the reference is 0, and below 0.
    for value in (5.0, -5.0):
        outside = inside.copy()
        outside[..., 3] = value
        assert_allclose(ball.violation(outside), 5.0)
        outside = inside.copy()
        outside[..., 0] = -5.0
        assert_allclose(ball.violation(outside), 5.0)
    assert ball.violation(reference) == 0
    spoilt = inside.copy()
    spoilt[..., 1] = NAN
    assert np.isnan(ball.violation(spoilt)).all()


def test_a_zero_of_the_reference_stays_zero_in_a_divergence():
    reference = np.append(REFERENCE[:-1], 0.0)
    near = Near(reference / reference.sum(), 0.02, "kl")
    solution = Problem(LeastSquares(), [*SIMPLEX, near]).solve(np.abs(Y))
    assert abs(solution.frequencies[-1]) <= 1e-9
    assert near.violation(np.append(reference[:-1] / reference.sum(), 0.25)) == 0.25
    assert near.violation(np.append(-0.125, reference[1:])) >= 0.125


@pytest.mark.parametrize("norm", [2, "kl"])
def test_a_curved_ball_bounds_its_values_where_nothing_else_does(norm):
    reference = np.array([0.5, 0.3, 0.2, 0.0])
    near = Near(reference, 0.05, norm)
    lower, upper = near.extent(4)
    for v, step in ((0, 0.2), (1, -0.2), (2, 0.1)):
        moved = reference.copy()
        moved[v] += step
        inside = near.violation(moved) == 0
        assert not inside or lower[v] <= moved[v] <= upper[v]
    # Along one axis the bounds are not far from the set.
    edge = reference.copy()
    edge[0] = upper[0]
    assert 0 <= near.violation(edge) <= 0.05
    # Without them no competitor would be bounded, and the gap infinite.
    loss = LeastAbsolute() + 0.1 * KLTo([0.4, 0.3, 0.0, 0.3])
    solution = Problem(loss, [Near(reference, 0.5, norm)]).solve([0.6, 0.2, 0.1, 0.1])
    assert solution.certificate.gap <= 1e-4


# --- top sets -------------------------------------------------------------------------------------

CHOSEN = np.isin(np.arange(6), [0, 3, 5])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("more", [[], [NonNegative()], [SumsTo(1.0)], SIMPLEX], ids=str)
def test_the_form_of_a_top_set_is_the_projection(seed, more):
    y = np.random.default_rng(seed).normal(0.15, 0.2, (2, 6))
    if seed == 5:
        y = np.round(y, 1)  # with ties
    problem = Problem(LeastSquares(), [TopSet([0, 3, 5]), *more])
    solution = problem.solve(y)
    assert solution.solver.startswith("top set")
    # Any partial order: the pairs are rows of their own.
    pairs = Monotone([(a, b) for a in (0, 3, 5) for b in (1, 2, 4)])
    stated = Problem(LeastSquares(), [pairs, *more]).solve(y, path="conic")
    assert_allclose(solution.frequencies, stated.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


def test_a_top_set_moves_nothing_that_is_in_order_and_all_or_none_are_no_condition():
    y = np.array([0.4, 0.1, -0.2, 0.2, 0.1, 0.3])
    assert_allclose(closed_form.top_set(y, CHOSEN), y, rtol=0, atol=0)
    for none in ([], range(6)):
        assert TopSet(none).violation(y) == 0
        assert_allclose(Problem(LeastSquares(), [TopSet(none)]).solve(y).frequencies, y)


def test_a_level_is_the_mean_of_all_that_moves():
    y = np.array([0.1, 0.5, 0.2, 0.3, 0.0, 0.9])
    # Members 0.1, 0.3, 0.9; others 0.5, 0.2, 0.0: 0.1, 0.5, 0.3 meet at 0.3.
    expected = [0.3, 0.3, 0.2, 0.3, 0.0, 0.9]
    assert_allclose(closed_form.top_set(y, CHOSEN), expected, rtol=0, atol=SUM)


# --- margins and nested totals --------------------------------------------------------------------


def test_margins_are_sums_of_cells():
    table = np.random.default_rng(1).dirichlet(np.ones(24)).reshape(2, 3, 4)
    for axes in (0, 1, [2], (0, 2), (2, 0), (0, 1, 2)):
        chosen = np.atleast_1d(axes)
        others = tuple(axis for axis in range(3) if axis not in chosen)
        sums = table.sum(axis=others)
        order = np.argsort(np.argsort(chosen))
        margins = Margins((2, 3, 4), axes, np.transpose(sums, order))
        margins.validate_for(24)
        assert margins.violation(table.ravel()) <= SUM
        assert margins.violation(table.ravel() + 0.25 * np.eye(24)[5]) == pytest.approx(0.25)
        assert margins.disjoint


def test_two_margins_are_met_together():
    rows = Margins((3, 4), 0, [0.5, 0.3, 0.2])
    columns = Margins((3, 4), 1, [0.4, 0.3, 0.2, 0.1])
    solution = Problem(LeastSquares(), [NonNegative(), rows, columns]).solve(Y)
    table = solution.frequencies.reshape(3, 4)
    assert_allclose(table.sum(axis=1), rows.totals, rtol=0, atol=1e-9)
    assert_allclose(table.sum(axis=0), columns.totals, rtol=0, atol=1e-9)
    assert list(solution.duals) == ["NonNegative", "Margins", "Margins 2"]
    assert solution.certificate.is_optimal(1e-9, relative=True)
    assert rows.row_name(1, D) == "the margin at (1) of axes (0,) is 0.3"


def test_nested_totals_are_totals_of_disjoint_groups():
    assert [group.tolist() for group in CENSUS.groups] == [[0, 1], [8, 9], [2, 3, 4, 5]]
    assert_allclose(CENSUS.totals, [0.3, 0.05, 0.45])
    assert CENSUS.row_name(2, D) == "grouping 1, group 0 sums to 0.45"
    flat = GroupTotals([[0, 1], [8, 9], range(6)], [0.3, 0.05, 0.75])
    f = np.random.default_rng(2).dirichlet(np.ones(D))
    assert (CENSUS.violation(f) <= 1e-12) == (flat.violation(f) <= 1e-12)
    # A group whose parts are all known adds nothing, or contradicts them.
    redundant = HierarchyTotals([[0, 0, 1], [0, 0]], [[0.5, 0.25], [0.75]])
    assert len(redundant.groups) == 2
    with pytest.raises(
        InfeasibleError, match=r"grouping 1, group 0 has the total 0\.9.*sum to 0\.75"
    ):
        HierarchyTotals([[0, 0, 1], [0, 0]], [[0.5, 0.25], [0.9]])


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [1, 2, np.inf, "kl"])
def test_a_radius_may_be_a_parameter(norm):
    radius = Parameter("radius", 0.02)
    loss = Huber(0.01) + 0.01 * TotalVariation()
    problem = Problem(loss, [*SIMPLEX, Near(REFERENCE, radius, norm)])
    solutions = problem.path(Y, radius=[0.005, 0.02])
    assert len(problem._planner.conic.compiled) == 1
    fixed = Problem(loss, [*SIMPLEX, Near(REFERENCE, 0.005, norm)]).solve(Y)
    atol = SOLVER["CLARABEL"]
    assert_allclose(solutions[0].frequencies, fixed.frequencies, rtol=0, atol=atol)
    for solution in solutions:
        assert solution.certificate.is_optimal(1e-6, relative=True)


# --- refused --------------------------------------------------------------------------------------

BAD = {
    "other norm": (lambda: Near(REFERENCE, 0.1, 3), 'norm must be 1, 2, inf or "kl", got 3'),
    "negative radius": (lambda: Near(REFERENCE, -0.1), "radius must be .* >= 0"),
    "weights of another norm": (
        lambda: Near(REFERENCE, 0.1, weights=np.ones(D)),
        "weights are for norm=1 alone, got norm=2",
    ),
    "zero weight": (
        lambda: Near([0.5, 0.5], 0.1, 1, weights=[1.0, 0.0]),
        "weights must be positive and finite, found 0 at index 1",
    ),
    "too few weights": (lambda: Near(REFERENCE, 0.1, 1, weights=[1.0]), "weights has 1 value for"),
    "NaN reference": (lambda: Near([0.5, NAN], 0.1), "reference must be finite, found nan"),
    "negative reference": (
        lambda: Near([0.5, -0.5], 0.1, "kl"),
        "reference must be >= 0 with norm='kl', found -0.5 at index 1",
    ),
    "repeated index": (lambda: TopSet([0, 0]), "must not repeat an index, found 0"),
    "axis that does not exist": (lambda: Margins((2, 3), 2, [0.5]), r"axes must lie in 0 \.\. 1"),
    "repeated axis": (lambda: Margins((2, 3), [0, 0], np.ones((2, 2))), "axes must not repeat"),
    "no axis": (lambda: Margins((2, 3), [], 1.0), "axes must name at least one axis"),
    "values of another shape": (
        lambda: Margins((2, 3), 1, [0.5, 0.5]),
        r"values must have shape \(3,\), that of the axes \(1,\), got \(2,\)",
    ),
    "NaN margin": (lambda: Margins((2, 3), 0, [0.5, NAN]), "must be 2 finite numbers"),
    "nothing known": (lambda: HierarchyTotals([[0, 1]], [[NAN, NAN]]), "no total is known"),
    "no groupings": (lambda: HierarchyTotals([], []), "groupings are needed"),
    "groupings that are no list": (
        lambda: HierarchyTotals(None, []),
        "groupings .* got None",
    ),
    "shape that is no list": (lambda: Margins(6, 0, [1.0]), "shape must be a list of lengths.* 6"),
    "axes of unequal rows": (lambda: Margins((2, 3), [[0, 1], [0]], [1.0]), "axes must be a rect"),
    "norm that is an array": (lambda: Near([0.5], 0.1, np.ones(2)), "norm must be 1, 2, inf"),
    "totals of other groups": (
        lambda: HierarchyTotals([[0, 1]], [[0.5]]),
        r"one number per group of each grouping, \[2\] in all, got shapes \[\(1,\)\]",
    ),
    "empty group": (lambda: HierarchyTotals([[0, 2]], [[1, 1, 1]]), "puts nothing into group 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_when_the_constraint_is_made(case):
    make, match = BAD[case]
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        make()


@pytest.mark.parametrize(
    ("constraint", "match"),
    [
        (Near([0.5, 0.5], 0.1), "reference of Near has 2 values for a domain of 12"),
        (TopSet([12]), r"indices of TopSet must lie in 0 \.\. 11"),
        (Margins((2, 3), 0, [0.5, 0.5]), r"shape \(2, 3\) has 6 cells, the domain 12 values"),
        (HierarchyTotals([[0, 1]], [[0.5, 0.5]]), "2 members for a domain of 12 values"),
    ],
    ids=repr,
)
def test_a_constraint_that_does_not_fit_the_domain_is_refused_before_any_solve(constraint, match):
    with pytest.raises(InvalidInputError, match=match):
        Problem(LeastSquares(), [constraint]).solve(Y)


@pytest.mark.parametrize("norm", [1, 2, np.inf, "kl"])
@pytest.mark.parametrize(("values", "of_reference"), [(4, 5), (5, 4), (1, 5), (5, 6)])
def test_distances_of_another_number_of_values_are_refused(norm, values, of_reference, monkeypatch):
    """In parts of 4 a last part of one value would broadcast with one of none, and count as 0."""
    monkeypatch.setattr(parts, "_PART", 4)
    ball = Near(np.ones(of_reference), 0.1, norm)
    with pytest.raises(InvalidInputError, match=f"{of_reference} values for a domain of {values}"):
        ball.violation(np.ones(values))


def test_conflicts_with_them_are_named():
    far = Near(np.eye(D)[0], 0.1, 1)
    with pytest.raises(InfeasibleError, match=r"Near\(<12 values>, 0\.1, norm=1\)"):
        Problem(LeastSquares(), [*SIMPLEX, far, Near(np.eye(D)[1], 0.1, 1)]).solve(Y)
    margins = [Margins((3, 4), 0, [0.5, 0.3, 0.2]), Margins((3, 4), 0, [0.4, 0.3, 0.2])]
    with pytest.raises(InfeasibleError, match=r"the margin at \(0\) of axes \(0,\)"):
        Problem(LeastSquares(), margins).solve(Y)


def test_an_exact_point_is_not_doubted_because_a_loose_search_fails():
    """Tiny references make the looser programs of the judge miss by 0.01 what is proved to 1e-9."""
    rng = np.random.default_rng(0)
    reference = rng.dirichlet(np.full(48, 0.1))
    rng.random(48)
    raw = reference + rng.normal(0, 2 / 48, 48)
    last = rng.dirichlet(np.full(48, 0.3))
    loss = LeastAbsolute() + 0.1 * KLTo(reference)
    problem = Problem(loss, [NonNegative(), SumsTo(1.0), Near(last, 0.4, norm=2)])
    solution = problem.solve(raw)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.gap < 1e-6


def test_a_ball_that_the_zeros_of_a_loss_leave_is_a_conflict():
    """A value that the reference keeps at 0 is .4 of the ball's middle: the form finds no root."""
    loss = KLTo([0.5, 0.3, 0.2, 0.0])
    problem = Problem(loss, [*SIMPLEX, Near([0.2, 0.2, 0.2, 0.4], 0.05, norm=2)])
    with pytest.raises(
        InfeasibleError, match=r"these conflict: .*Near\(<4 values>, 0.05, norm=2\)"
    ):
        problem.solve([0.4, 0.3, 0.2, 0.1])


def test_a_constraint_states_the_ball_that_it_is():
    """Certificates and closed forms ask for it; with the largest deviation it is a box instead."""
    reference = [0.5, 0.3, 0.2]
    ball = Near(reference, 0.25, 1, weights=[1.0, 2.0, 3.0]).ball
    assert (ball.radius, ball.norm) == (0.25, 1)
    assert (ball.reference.tolist(), ball.weights.tolist()) == (reference, [1.0, 2.0, 3.0])
    assert Near(reference, 0.25, "kl").ball.norm == "kl"
    assert Near(reference, 0.25, np.inf).ball is None
    assert NonNegative().ball is None


def test_what_is_around_the_balls_is_the_problem_without_them():
    box = Near([0.5, 0.5], 0.25, np.inf)
    problem = Problem(LeastSquares(), [*SIMPLEX, Near([0.5, 0.5], 0.125), box])
    balls, around = problem.around_balls()
    assert [ball.radius for ball in balls] == [0.125]
    assert around.constraints == (*SIMPLEX, box)
    assert around.loss == problem.loss
