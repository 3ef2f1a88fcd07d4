"""Constraints: violations by hand, one set in every form, and clear errors before any solve."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, sparse

from ldpopt import FrequencyEstimate, Problem, certify
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Constraint,
    Custom,
    Fixed,
    GroupTotals,
    Hierarchy,
    Linear,
    Monotone,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
    custom,
)
from ldpopt.constraints.custom import StatedConstraint
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError
from ldpopt.losses import Huber, LeastAbsolute, LeastSquares
from tests.tolerances import CERTIFIED, SOLVER, SUM

F = np.array([0.5, 0.3, -0.1, 0.2])
NAN = np.nan
INF = np.inf

BY_HAND = [
    (NonNegative(), 0.1),
    (Bounds(-1, 1), 0.0),
    (Bounds(0, 0.4), 0.1),
    (Bounds([0.75, 0, -1, 0], INF), 0.25),
    (Bounds(-INF, [0.5, 0.3, -0.35, 0.2]), 0.25),
    (Bounds(-INF, INF), 0.0),
    (Bounds(upper=0.4), 0.1),
    (Bounds(lower=[0.75, 0, -1, 0]), 0.25),
    (Fixed([0, 3], [0.5, 0.5]), 0.3),
    (Fixed([2], [-0.1]), 0.0),
    (Fixed([], []), 0.0),
    (SumsTo(1.0), 0.1),
    (SumsTo(0.25), 0.65),
    (GroupTotals([[0, 1], [1, 2]], [0.5, 0.2]), 0.3),
    (GroupTotals([[0, 1, 2, 3]], [0.9]), 0.0),
    (GroupTotals([], []), 0.0),
    (Monotone([0, 1, 2, 3]), 0.3),
    (Monotone([0, 1, 3, 2]), 0.0),
    (Monotone([2, 0]), 0.6),
    (Monotone([2]), 0.0),
    (Monotone([]), 0.0),
    (Monotone([(0, 1), (0, 3), (2, 3)]), 0.3),
    (Monotone([(0, 1), (3, 2)]), 0.0),
    (Monotone(np.empty((0, 2))), 0.0),
    (Unimodal(0), 0.3),
    (Unimodal(2), 0.4),
    (Unimodal(3), 0.4),
    (Hierarchy([-1, 0, 0, 0]), 0.1),
    (Hierarchy([-1, 0, 1, 0], total=0.25), 0.4),
    (Hierarchy([-1, -1, 0, 0]), 0.4),
    (Hierarchy([-1, -1, -1, -1], total=0.9), 0.0),
    (Hierarchy([3, 3, 3, -1], total=0.2), 0.5),
    (Smooth(total_variation=0.5), 0.4),
    (Smooth(total_variation=1.5), 0.0),
    (Smooth(second_difference=0.25), 0.65),
    (Smooth(total_variation=0.0, second_difference=0.75), 0.9),
    (Smooth(total_variation=0.75, second_difference=0.0), 0.9),
    (Linear([[1, -1, 0, 0], [0, 0, 1, 1]], [0.1, 0.5], [0.15, INF]), 0.4),
    (Linear([1, 1, 1, 1], 0.9, 0.9), 0.0),
    (Linear(sparse.csr_array(np.eye(4)), -INF, 0.25), 0.25),
    (AtMost(1), 0.3),
    (AtMost(3), 0.1),
    (AtMost(4), 0.0),
    (AtMost(9), 0.0),
    (Custom(lambda f: [f[0] <= 0.25, cp.sum(f) >= 1]), 0.25),
    (Custom(lambda f: [cp.norm1(f) <= 1]), 0.1),
    (Custom(lambda f: []), 0.0),
]
CONVEX = [c for c, _ in BY_HAND if not isinstance(c, AtMost)]
POLYHEDRAL = [c for c in CONVEX if c.rows(4) is not None]
DIRECT = [c for c in CONVEX if c.rows(4) is None or c.rows(4).auxiliary is None]
BOXES = [c for c in CONVEX if c.box(4) is not None]


def name(constraint):
    return repr(constraint) if isinstance(constraint, Constraint) else ""


# --- one set in every form ------------------------------------------------------------------------


@pytest.mark.parametrize(("constraint", "violation"), BY_HAND, ids=name)
def test_the_violation_is_the_one_by_hand(constraint, violation):
    constraint.validate_for(4)
    assert_allclose(constraint.violation(F), violation, rtol=0, atol=SUM)


@pytest.mark.parametrize(
    ("form", "distances", "looks"),
    [
        (lambda f: 0.5 * f[0] <= 0.1, [0.2, 0.3, 0.6], 1),
        # Slopes of 2 f_0, of which the last is above 1.
        (lambda f: cp.square(f[0]) <= 0.01, [0.15 / 0.8, 0.24 / 1.0, 0.63], 3),
    ],
    ids=["affine", "curved"],
)
def test_slopes_are_computed_once_where_they_are_the_same_everywhere(
    form, distances, looks, monkeypatch
):
    here = custom.Slopes.here
    seen = []

    def noted(slopes):
        seen.append(slopes)
        return here(slopes)

    monkeypatch.setattr(custom.Slopes, "here", noted)
    stated = StatedConstraint(Custom(form), 2, {})
    points = np.array([[0.4, 0.6], [0.5, 0.5], [0.8, 0.2]])
    assert_allclose(stated.violation(points), distances, rtol=1e-12)
    assert len(seen) == looks


@pytest.mark.parametrize(("constraint", "violation"), BY_HAND, ids=name)
def test_the_violation_of_a_stack_is_that_of_its_rows(constraint, violation):
    rows = np.random.default_rng(0).normal(0, 1, (2, 3, 4))
    rows[1, 2] = F
    result = constraint.violation(rows)
    assert result.shape == (2, 3)
    assert_allclose(result[1, 2], violation, rtol=0, atol=SUM)
    for at in np.ndindex(2, 3):
        assert_allclose(result[at], constraint.violation(rows[at]), rtol=0, atol=SUM)


@pytest.mark.parametrize("constraint", CONVEX, ids=name)
def test_a_projection_onto_the_cone_form_lands_inside(constraint):
    f = cp.Variable(4)
    target = cp.Parameter(4)
    # One program, stated once.
    problem = cp.Problem(cp.Minimize(cp.sum_squares(f - target)), constraint.cone_form(f))
    for point in (F, *np.random.default_rng(1).normal(0, 1, (3, 4))):
        target.value = point
        problem.solve(solver="CLARABEL")
        assert problem.status == "optimal"
        assert constraint.violation(f.value) <= SOLVER["CLARABEL"]


@pytest.mark.parametrize("constraint", DIRECT, ids=name)
def test_the_cone_form_has_the_violation_up_to_its_scale(constraint):
    f = cp.Variable(4)
    forms = constraint.cone_form(f)
    for target in (F, np.full(4, 0.25), *np.random.default_rng(2).normal(0, 0.5, (50, 4))):
        f.value = target
        scaled = max((float(np.max(form.violation())) for form in forms), default=0.0)
        violation = constraint.violation(target)
        assert (
            violation - SUM <= scaled <= 4 * violation + SUM
        )  # rows count in units of 1/d, functions as they are


@pytest.mark.parametrize("constraint", [c for c in POLYHEDRAL if c in DIRECT], ids=name)
def test_the_rows_have_the_same_violation(constraint):
    rows = constraint.rows(4)
    assert rows.matrix.shape == (len(rows.lower), 4)
    for f in (F, *np.random.default_rng(3).normal(0, 1, (50, 4))):
        values = rows.matrix @ f
        worst = np.max([0.0, *(rows.lower - values), *(values - rows.upper)])
        assert_allclose(constraint.violation(f), worst, rtol=0, atol=SUM)


@pytest.mark.parametrize("constraint", [c for c in POLYHEDRAL if c not in DIRECT], ids=name)
def test_rows_with_auxiliary_variables_can_be_met_exactly_where_there_is_no_violation(constraint):
    rows = constraint.rows(4)
    variables = rows.auxiliary.shape[1]
    assert rows.matrix.shape == (len(rows.lower), 4)
    assert len(rows.lower) == len(rows.upper) == rows.auxiliary.shape[0]
    sides = np.random.default_rng(3)
    inside = 0
    for f in (
        F,
        np.full(4, 0.25),
        *sides.normal(0, 0.05, (20, 4)),
        *(0.25 + sides.normal(0, 1e-3, (20, 1)) * np.ones(4)),
    ):
        fixed = rows.matrix @ f
        limits = optimize.LinearConstraint(rows.auxiliary, rows.lower - fixed, rows.upper - fixed)
        met = optimize.milp(
            np.zeros(variables), constraints=limits, bounds=optimize.Bounds(-INF, INF)
        ).success
        assert met == (constraint.violation(f) <= 1e-7)  # HiGHS's tolerance
        inside += met
    assert inside > 0


@pytest.mark.parametrize("constraint", BOXES, ids=name)
def test_the_box_has_the_same_violation(constraint):
    lower, upper = constraint.box(4)
    for f in (F, *np.random.default_rng(4).normal(0, 1, (50, 4))):
        assert_allclose(
            constraint.violation(f), np.max(np.abs(f - np.clip(f, lower, upper))), rtol=0, atol=SUM
        )


def test_what_is_no_set_of_bounds_has_no_box():
    assert {type(c) for c in BOXES} == {NonNegative, Bounds, Fixed}


def test_sets_that_are_not_known_to_be_polyhedral_have_no_rows():
    assert AtMost(1).rows(4) is None
    assert Custom(lambda f: [f >= 0]).rows(4) is None


@pytest.mark.parametrize("constraint", CONVEX, ids=name)
def test_the_solution_is_inside_and_nearest(constraint):
    solution = Problem(LeastSquares(), [constraint]).solve(F)
    numeric = Problem(LeastSquares(), [constraint]).solve(F, path="conic")
    assert constraint.violation(solution.frequencies) <= SOLVER["CLARABEL"]
    assert_allclose(solution.frequencies, numeric.frequencies, rtol=0, atol=SOLVER["CLARABEL"])
    assert (solution.objective <= CERTIFIED) == (constraint.violation(F) <= CERTIFIED)


def test_constraints_keep_what_they_were_given():
    lower = np.zeros(4)
    indices = np.array([0])
    values = np.ones(1)
    order = np.array([0, 1])
    totals = np.ones(1)
    constraints = [
        Bounds(lower, INF),
        Fixed(indices, values),
        Monotone(order),
        GroupTotals([indices], totals),
    ]
    matrix = np.ones((1, 4))
    constraints.append(Linear(matrix, 0, 1))
    before = [c.violation(F) for c in constraints]
    lower[:] = 9
    indices[:] = 3
    values[:] = 9
    order[:] = [2, 3]
    totals[:] = 9
    matrix[:] = 9
    assert_allclose([c.violation(F) for c in constraints], before)


# --- bad input ------------------------------------------------------------------------------------

REFUSED = {
    "crossed bounds": (
        lambda: Bounds([0, 0.5, 0.9], [1, 0.4, 0.8]),
        r"lower must be <= upper, found 0.5 and 0.4 at index 1",
    ),
    "crossed numbers": (lambda: Bounds(1, 0), "lower must be <= upper"),
    "NaN bound": (lambda: Bounds([0, NAN], 1), "lower must not be NaN, found it at index 1"),
    "NaN upper bound": (lambda: Bounds(0, [NAN, 1]), "upper must not be NaN, found it at index 0"),
    "lengths of bounds": (lambda: Bounds([0, 0], [1, 1, 1]), r"one shape, got \(2,\) and \(3,\)"),
    "text as a bound": (lambda: Bounds("0", 1), "lower must be an array of numbers"),
    "no bound at all": (lambda: Bounds(None, 1), "lower must be an array of numbers"),
    "neither bound": (Bounds, r"write Bounds\(upper=0.08\) or Bounds\(lower=0.01, upper=0.08\)"),
    "one bound without a name": (lambda: Bounds(0.08), r"write Bounds\(upper=0.08\)"),
    "unreachable lower bound": (lambda: Bounds(INF, INF), "lower"),
    "unreachable upper bound": (lambda: Bounds(-INF, -INF), "upper"),
    "repeated index": (
        lambda: Fixed([0, 2, 0], [1, 2, 1]),
        "indices must not repeat an index, found 0 again at position 2",
    ),
    "rows of indices": (
        lambda: Fixed([[0, 1], [2]], [1, 2]),
        "indices must be a rectangular array of numbers, got rows of different lengths",
    ),
    "ragged matrix": (lambda: Linear([[0, 1], [2]], 0, 1), "A must be a rectangular array"),
    "rows of parents": (lambda: Hierarchy([[0, 1], [2]]), "parents must be a rectangular array"),
    "negative index": (lambda: Fixed([-1], [1]), r"indices must be >= 0, found -1 at index 0$"),
    "half an index": (lambda: Fixed([0.5], [1]), "indices must be whole numbers, found 0.5"),
    "boolean index": (
        lambda: Fixed(np.array([True, False]), [1]),
        r"must be an array of numbers, got an array of bool: pass np\.flatnonzero\(\.\.\.\)$",
    ),
    "fewer values": (lambda: Fixed([0, 1], [1]), "values must be 2 finite numbers"),
    "NaN value": (lambda: Fixed([0, 1], [1, NAN]), "values must be 2 finite numbers"),
    "infinite value": (lambda: Fixed([0], [INF]), "values must be 1 finite numbers"),
    "matrix of indices": (lambda: Fixed([[0, 1]], [[1, 2]]), "indices"),
    "NaN total": (lambda: SumsTo(NAN), "total must be a finite number"),
    "repeated in a group": (
        lambda: GroupTotals([[0], [1, 1]], [1, 1]),
        "group 1 must not repeat an index, found 1",
    ),
    "fewer totals": (lambda: GroupTotals([[0], [1]], [1]), "totals must be 2 finite numbers"),
    "NaN group total": (lambda: GroupTotals([[0]], [NAN]), "totals must be 1 finite numbers"),
    "groups that are no list": (lambda: GroupTotals(3, [1]), "groups"),
    "repeated in the order": (
        lambda: Monotone([2, 0, 2]),
        "order must not repeat an index, found 2 again at position 2",
    ),
    "text as an order": (lambda: Monotone("01"), "order must be indices, got the text '01'"),
    "text as a group": (
        lambda: GroupTotals(["tea"], [0.5]),
        r"group 0 must be indices, got the text 'tea': pass a list, \['tea'\]",
    ),
    "triples as an order": (
        lambda: Monotone([[0, 1, 2]]),
        r"a chain of indices or pairs.*got shape \(1, 3\)",
    ),
    "number as an order": (lambda: Monotone(4), r"a chain of indices or pairs.*got 4"),
    "tensor as an order": (
        lambda: Monotone(np.zeros((2, 2, 2))),
        "order must be a one-dimensional array",
    ),
    "repeated pair": (
        lambda: Monotone([(0, 1), (1, 2), (0, 1)]),
        r"order must not repeat a pair, found \(0, 1\) again at position 2",
    ),
    "value above itself": (
        lambda: Monotone([(0, 1), (2, 2)]),
        r"order must not put a value above itself, found \(2, 2\) at position 1",
    ),
    "half an index in a pair": (
        lambda: Monotone([(0, 0.5)]),
        "order must be whole numbers, found 0.5",
    ),
    "negative index in a pair": (lambda: Monotone([(0, -1)]), "order must be >= 0, found -1"),
    "opposite pairs": (
        lambda: Monotone([(4, 1), (0, 3), (1, 4)]),
        "no cycle, found (4 >= 1 >= 4|1 >= 4 >= 1)",
    ),
    "negative mode": (lambda: Unimodal(-1), "mode must be at least 0"),
    "half a mode": (lambda: Unimodal(0.5), "mode must be a whole number"),
    "parent outside": (
        lambda: Hierarchy([-1, 0, 3]),
        r"parents must lie in -1 \.\. 2, found 3 at index 2",
    ),
    "its own parent": (lambda: Hierarchy([-1, 0, 2]), "node 2 is its own parent"),
    "nodes in a cycle": (
        lambda: Hierarchy([-1, 2, 3, 1, 3]),
        r"in a cycle: (\d) above (\d) above (\d) above \1",
    ),
    "no nodes": (lambda: Hierarchy([]), "parents must have shape|parents must be"),
    "matrix of parents": (lambda: Hierarchy([[-1, 0]]), r"parents must have shape \(d,\)"),
    "NaN total of a hierarchy": (
        lambda: Hierarchy([-1], total=NAN),
        "total must be a finite number",
    ),
    "no leaves": (lambda: Hierarchy.balanced(0, 2), "leaves must be at least 1"),
    "no branching": (lambda: Hierarchy.balanced(4, 1), "branching must be at least 2"),
    "no grouping": (lambda: Hierarchy.of_groups(), "at least one array"),
    "group that does not exist": (
        lambda: Hierarchy.of_groups([0, 2], [0, 0]),
        r"grouping 0 must lie in 0 \.\. 1, found 2",
    ),
    "empty group": (lambda: Hierarchy.of_groups([0, 2]), "grouping 0 puts nothing into group 1"),
    "matrix as a grouping": (
        lambda: Hierarchy.of_groups([[0, 1]]),
        "a grouping must be a one-dimensional array",
    ),
    "levels without noise": (
        lambda: Hierarchy.stack([FrequencyEstimate([0.5, 0.5])]),
        "noise level",
    ),
    "levels of other trials": (
        lambda: Hierarchy.stack([FrequencyEstimate([0.5, 0.5]), FrequencyEstimate([[0.5, 0.5]])]),
        "same trials",
    ),
    "smooth in no sense": (lambda: Smooth(), "needs a total_variation or a second_difference"),
    "negative variation": (
        lambda: Smooth(total_variation=-0.5),
        "total_variation must be >= 0, got -0.5",
    ),
    "infinite difference": (
        lambda: Smooth(second_difference=INF),
        "second_difference must be a finite number",
    ),
    "NaN in A": (lambda: Linear([[1, NAN]], 0, 1), "A must be finite"),
    "sparse NaN in A": (lambda: Linear(sparse.csr_array([[1, NAN]]), 0, 1), "A must be finite"),
    "bounds of other rows": (
        lambda: Linear([[1, 1]], [0, 0], 1),
        r"lower and upper must be .*shape \(1,\)",
    ),
    "crossed rows": (lambda: Linear([[1, 1]], 1, 0), "lower must be <= upper"),
    "tensor as A": (lambda: Linear(np.ones((2, 2, 2)), 0, 1), "A must"),
    "text as A": (lambda: Linear("A", 0, 1), "A must be an array of numbers"),
    "no values at all": (lambda: AtMost(0), "k must be at least 1"),
    "half a value": (lambda: AtMost(1.5), "k must be a whole number"),
    "no function": (lambda: Custom([1]), "Custom takes a function"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_when_the_constraint_is_made(case):
    make, match = REFUSED[case]
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        make()


UNFIT = {
    "lower of another length": (
        Bounds([0, 0], 1),
        r"lower of Bounds must be a number or have shape \(4,\), got \(2,\)",
    ),
    "upper of another length": (
        Bounds(0, [1] * 5),
        r"upper of Bounds must be a number or have shape \(4,\), got \(5,\)",
    ),
    "fixed outside": (Fixed([4], [0]), r"indices of Fixed .* 3, found 4 at index 0"),
    "group outside": (
        GroupTotals([[0], [1, 7]], [0, 0]),
        r"group 1 of GroupTotals must lie in 0 \.\. 3, found 7",
    ),
    "pair outside": (Monotone([(0, 1), (5, 0)]), r"order of Monotone .* 3, found 5"),
    "mode outside": (Unimodal(4), r"mode of Unimodal must lie in 0 \.\. 3, found 4$"),
    "order outside": (Monotone([0, 4]), r"order of Monotone must lie in 0 \.\. 3, found 4"),
    "fewer nodes": (Hierarchy([-1, 0]), "parents of Hierarchy must .* 2 for 4 estimates"),
    "columns": (Linear(np.ones((2, 3)), 0, 1), r"A of Linear must have 4 columns.* shape \(2, 3\)"),
}


@pytest.mark.parametrize("constraint", [Unimodal(4), TopSet([0, 1, 2, 4])])
def test_a_violation_is_refused_where_the_vector_lacks_a_value_that_is_named(constraint):
    with pytest.raises(InvalidInputError, match=r"of \w+ must lie in 0 \.\. 3, found 4"):
        constraint.violation(np.full(4, 0.25))


@pytest.fixture
def no_solver(monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("a solver was called")

    monkeypatch.setattr(cp.Problem, "solve", fail)


@pytest.mark.parametrize("path", ["auto", "conic"])
@pytest.mark.parametrize("case", UNFIT)
def test_a_constraint_that_does_not_fit_the_domain_is_refused_before_any_solve(
    case, path, no_solver
):
    constraint, match = UNFIT[case]
    problem = Problem(LeastSquares(), [constraint, SumsTo()])
    with pytest.raises(InvalidInputError, match=match):
        problem.solve(F, path=path)
    with pytest.raises(InvalidInputError, match=match):
        certify(problem, F, F)


@pytest.mark.parametrize(
    "returned",
    [None, 3, lambda f: f[0], [True], ["f >= 0"]],
    ids=["none", "number", "expression", "booleans", "text"],
)
def test_a_function_that_returns_anything_else_than_constraints_is_refused(returned, no_solver):
    build = returned if callable(returned) else lambda f: returned
    with pytest.raises(
        InvalidTypeError, match=r"must return a cvxpy constraint or a list .* compare"
    ):
        Problem(LeastSquares(), [Custom(build)]).solve(F)


# --- infeasible on its face -----------------------------------------------------------------------

EMPTY = {
    "total above": (
        [Bounds(0, 0.2), SumsTo(1)],
        "a sum of 1 cannot be met: the bounds allow sums from 0 to 0.8",
    ),
    "total below": (
        [Bounds(0.5, INF), SumsTo(1)],
        "a sum of 1 cannot be met: the bounds allow sums from 2 to inf$",
    ),
    "fixed in percent": (
        [NonNegative(), Fixed([2, 0], [25, 1]), SumsTo(1)],
        "26 to inf; the value at index 2 alone is at least 25: if that is percent, divide it by",
    ),
    "fixed above": ([NonNegative(), Fixed([0, 1], [0.75, 0.75]), SumsTo(1)], "cannot be met"),
    "all fixed": ([Fixed([0, 1, 2, 3], [0.25, 0.25, 0.25, 0.5]), SumsTo(1)], "cannot be met"),
    "two boxes": (
        [Bounds(0.5, 1), Bounds(0, [1, 1, 0.25, 1])],
        "at index 2: at least 0.5, at most 0.25",
    ),
    "fixed outside its bounds": (
        [NonNegative(), Fixed([3], [-0.25])],
        "at index 3: at least 0, at most -0.25",
    ),
    "fixed twice": (
        [Fixed([1], [0.25]), Fixed([1], [0.5])],
        "at index 1: at least 0.5, at most 0.25",
    ),
    "negative total": ([NonNegative(), SumsTo(-1)], "a sum of -1 cannot be met"),
}


@pytest.mark.parametrize("path", ["auto", "conic"])
@pytest.mark.parametrize("case", EMPTY)
def test_an_empty_box_is_infeasible_before_any_solve(case, path, no_solver):
    constraints, match = EMPTY[case]
    with pytest.raises(InfeasibleError, match=match):
        Problem(LeastSquares(), constraints).solve(F, path=path)


@pytest.mark.parametrize(
    "constraints",
    [
        [NonNegative(), GroupTotals([[0], [0, 1]], [0.5, 0.25])],
        [Linear([[1, 1, 0, 0], [1, 1, 0, 0]], [0.5, -INF], [INF, 0.25])],
        [Monotone([0, 1]), Fixed([0, 1], [0.25, 0.5])],
        [Unimodal(1), Fixed([0, 1], [0.5, 0.25])],
        [Hierarchy([-1, 0, 0, 0], total=-0.5), NonNegative()],
        [Hierarchy([-1, 0, 0, 0], total=1.0), SumsTo(1.0)],
        [Custom(lambda f: [cp.sum(f) >= 2]), SumsTo(1)],
    ],
    ids=str,
)
def test_what_only_a_solver_finds_empty_is_infeasible_too(constraints):
    with pytest.raises(InfeasibleError):
        Problem(LeastSquares(), constraints).solve(F)


@pytest.mark.parametrize("raw", [F, np.stack([F, F[::-1]])], ids=["one vector", "a stack"])
@pytest.mark.parametrize("loss", [LeastSquares(), Huber(0.1), LeastAbsolute()])
@pytest.mark.parametrize("total", [0.8, 0.8 + 1e-12, 0.0, -1e-12])
def test_a_total_at_the_edge_of_the_box_is_feasible(total, loss, raw):
    for stated in (SumsTo(total), GroupTotals([range(4)], [total])):
        solution = Problem(loss, [Bounds(0, 0.2), stated]).solve(raw)
        assert_allclose(solution.frequencies, max(total, 0) / 4, rtol=0, atol=CERTIFIED)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda f: [f[0] ** 2 >= 0.1], "not convex by cvxpy"),
        (lambda f: [f[9] >= 0.1], "function of Custom failed on 3 values"),
        (lambda f: [0 <= f[0] <= 1], "function of Custom failed on 3 values"),
        # cvxpy raises it within an operator of this library.
        (lambda f: [f - np.ones(5) == 0], r"ValueError: .* \(test_constraints.py, line \d+\)"),
    ],
    ids=["not convex", "index", "chained", "size"],
)
def test_a_custom_function_that_fails_is_named(build, match):
    with pytest.raises(InvalidInputError, match=match):
        Problem(LeastSquares(), [Custom(build)]).solve([0.5, 0.1, 0.4])


def test_sparsity_without_a_closed_form_is_explained_and_refused():
    problem = Problem(LeastSquares(), [AtMost(2)])
    assert problem.explain([0.5, 0.1, 0.4]).startswith("none: ")
    with pytest.raises(InvalidInputError, match="closed form with LeastSquares"):
        problem.solve([0.5, 0.1, 0.4])


def test_constraints_cannot_change_after_the_problem_is_made():
    assert isinstance(Problem(LeastSquares(), [NonNegative()]).constraints, tuple)


# --- what constraints state about themselves ------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "on_three", "on_any"),
    [
        (SumsTo(0.75), 0.75, 0.75),
        (GroupTotals([[2, 0, 1]], [2.0]), 2.0, None),
        (GroupTotals([[0, 1]], [2.0]), None, None),
        (GroupTotals([[0, 1, 2], [0]], [2.0, 0.5]), None, None),
        (NonNegative(), None, None),
        (Hierarchy([-1, 0, 0], total=1.0), None, None),
        (Linear([[1.0, 1.0, 1.0]], 1.0, 1.0), None, None),
    ],
    ids=name,
)
def test_a_total_is_the_sum_that_a_constraint_fixes_and_nothing_else(constraint, on_three, on_any):
    assert constraint.total(3) == on_three
    assert constraint.total() == on_any


def test_few_values_are_not_convex_and_state_how_many():
    few = AtMost(2)
    assert not few.convex
    assert few.largest_support == 2
    assert "closed form with LeastSquares()" in few.remedy


def test_few_values_are_restricted_to_those_of_a_point():
    held = AtMost(2).restricted_to(np.array([0.5, 0.0, -0.25, 0.0]))
    assert held.convex
    lower, upper = held.box(4)
    assert lower.tolist() == [-INF, 0.0, -INF, 0.0]
    assert upper.tolist() == [INF, 0.0, INF, 0.0]
    # Any third value may join.
    lower, upper = AtMost(3).restricted_to(np.array([0.5, 0.0, -0.25, 0.0])).box(4)
    assert not np.isfinite([lower, upper]).any()


@pytest.mark.parametrize("constraint", CONVEX, ids=name)
def test_a_convex_constraint_allows_any_number_of_values(constraint):
    assert constraint.convex
    assert constraint.restricted_to(np.full(4, 0.25)) is constraint
    assert constraint.largest_support is None
    assert constraint.remedy == ""


@pytest.mark.parametrize(
    ("constraint", "row", "text"),
    [
        (NonNegative(), 2, "0 <= f[2]"),
        (Bounds(-INF, 0.5), 1, "f[1] <= 0.5"),
        (Bounds(0.25, 0.5), 0, "0.25 <= f[0] <= 0.5"),
        (Fixed([3], [0.5]), 3, "f[3] = 0.5"),
        (SumsTo(0.5), 0, "SumsTo(0.5)"),
        (GroupTotals([[0], [1, 3]], [0.5, 0.25]), 1, "group 1 of 2 values sums to 0.25"),
        (Monotone([2, 0, 1]), 1, "f[0] >= f[1]"),
        (Unimodal(1), 0, "f[1] >= f[0]"),
        (Unimodal(1), 1, "f[1] >= f[2]"),
        (Hierarchy([-1, 0, 0, 1], total=0.5), 1, "f[1] = sum of its children"),
        (Hierarchy([-1, 0, 0, 1], total=0.5), 2, "the roots sum to 0.5"),
        (Linear([[1, 1, 0, 0]], 0.5), 0, "row 0 of Linear(<1 row>)"),
    ],
)
def test_a_row_is_named_as_a_reader_would_write_it(constraint, row, text):
    assert constraint.row_name(row, 4) == text


def test_a_custom_constraint_on_other_variables_or_empty_parameters_is_refused():
    other = cp.Variable(name="t")
    empty = cp.Parameter(name="limit")
    cases = [(other, "has the variable t besides f"), (empty, "the parameter limit in .* no value")]
    for bound, match in cases:
        constraint = Custom(lambda f, bound=bound: [f[0] <= bound])
        with pytest.raises(InvalidInputError, match=match):
            constraint.violation(np.array([0.5, 0.5]))
        with pytest.raises(InvalidInputError, match=match):
            Problem(LeastSquares(), [constraint]).solve([0.5, 0.5])
    empty.value = 0.25
    solution = Problem(LeastSquares(), [Custom(lambda f: [f[0] <= empty])]).solve([0.5, 0.5])
    assert solution.frequencies[0] == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize("entries", [[[1j, 1.0]], [[True, False]]], ids=["complex", "boolean"])
def test_a_matrix_is_one_of_numbers_sparse_or_not(entries):
    for matrix in (entries, sparse.csr_array(np.array(entries))):
        with pytest.raises(InvalidTypeError, match="A must be an array of numbers, got"):
            Linear(matrix, 0.0, 1.0)
    assert Linear(sparse.csr_array([[1, 2]]), 0.0).matrix.dtype == np.float64


# --- what users write -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda f: f[0] <= NAN, InvalidInputError, "a number in .* is NaN: state another one"),
        (lambda f: f[0] <= -INF, InvalidInputError, "is infinite: state a finite one, or leave"),
        (lambda f: f[0] >= INF, InvalidInputError, "is infinite"),
        (lambda f: f[0] == INF, InvalidInputError, "is infinite"),
        (lambda f: [INF, 1, 1, 1] @ f <= 1, InvalidInputError, "is infinite"),
        (lambda f: sparse.csr_array([[INF, 0, 0, 0]]) @ f <= 1, InvalidInputError, "is infinite"),
        (lambda f: cp.Constant(3) <= 2, InfeasibleError, "3.0 <= 2.0 is not met, whatever f is"),
        (lambda f: [f >= 0, cp.Constant(3) == 2], InfeasibleError, "is not met, whatever f is"),
    ],
)
def test_numbers_that_no_problem_can_have_are_refused_before_any_solve(build, error, message):
    with pytest.raises(error, match=message):
        Problem(LeastSquares(), [Custom(build)]).plan(F)


def test_an_infinite_side_bounds_nothing_and_what_is_always_met_is_left_out():
    start = [0.5, 0.3, 0.2]
    capped = Custom(lambda f: [f <= [0.4, INF, INF], f >= [-INF, -INF, -INF]])
    met = Custom(lambda f: cp.Constant(1) <= 2)
    solution = Problem(LeastSquares(), [SumsTo(1.0), capped, met]).solve(start)
    # What the first one loses goes to the others in equal parts.
    assert_allclose(solution.frequencies, [0.4, 0.35, 0.25], atol=SOLVER["CLARABEL"])
    alone = Problem(LeastSquares(), [met]).solve(start, path="conic")
    assert_allclose(alone.frequencies, start, atol=SOLVER["CLARABEL"])


def test_a_function_of_further_arguments_is_refused_where_it_is_given():
    for build in (lambda f, y: f <= y, lambda: True):
        with pytest.raises(InvalidTypeError, match="takes f alone: give further arguments a def"):
            Custom(build)
    assert Custom(lambda f, y=0.5: f <= y).violation(F) == 0


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])
@pytest.mark.parametrize(
    "entries", [[1.0, -2.0, 0.5, 3.0], [0.0, -2.0, 0.5, 3.0], [0.0, 0.0, 0.5, 0.0]]
)
def test_one_row_is_a_vector_however_many_entries_it_has(unit, entries):
    """Full, mostly full, or nearly empty, in any unit, dense or sparse in any order."""
    row = unit * np.array(entries)
    places = np.array([2, 0, 3, 1])
    backwards = sparse.csr_array((row[places], places, [0, 4]), shape=(1, 4))
    f = np.random.default_rng(0).normal(size=(3, 4))
    for stated in (row, sparse.csr_array([row]), backwards):
        constraint = Linear(stated, 0.1 * unit, 0.2 * unit)
        unit_of_row = constraint.row_units[0]
        coefficients, lower, upper, _ = constraint.row(4)
        assert_allclose(coefficients * unit_of_row, row, rtol=1e-15)
        assert_allclose(np.array([lower, upper]) * unit_of_row, [0.1 * unit, 0.2 * unit])
        value = f @ coefficients
        expected = np.maximum(np.maximum(lower - value, value - upper), 0)
        assert_allclose(constraint.violation(f), expected, rtol=1e-13)
        assert constraint.violation(f[0]).shape == ()
        assert np.isnan(constraint.violation(np.full(4, np.nan)))
