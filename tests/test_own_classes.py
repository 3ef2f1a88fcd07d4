"""Losses and constraints of classes outside the package: what they state must fit together."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, certify, constraints, losses, postprocess
from ldpopt.constraints import (
    Constraint,
    GroupTotals,
    Hierarchy,
    Margins,
    Monotone,
    Near,
    NonNegative,
    SumsTo,
    Unimodal,
)
from ldpopt.constraints.base import LinearInequalities, Polyhedron
from ldpopt.errors import (
    FunctionError,
    InvalidInputError,
    InvalidTypeError,
    UnsupportedProblemError,
)
from ldpopt.losses import LeastSquares
from ldpopt.losses.base import SeparableLoss
from ldpopt.solve.programs.solvers import DEFAULT_SOLVER
from tests.tolerances import SOLVER

START = [0.6, 0.3, 0.2, -0.1]
SIMPLEX = [NonNegative(), SumsTo(1.0)]


class Quartic(SeparableLoss):
    """Σ (f - f̃)⁴, of which subclasses state a part wrong."""

    def value(self, f, estimate):
        return np.sum((f - estimate.frequencies) ** 4, axis=-1)

    def gradient(self, f, estimate):
        return 4 * (f - estimate.frequencies) ** 3

    def data(self, estimate):
        return (estimate.frequencies,)

    def cone_form(self, f, data, constants):
        return cp.sum(cp.power(f.size * (f - data[0]), 4)), []

    def cone_factor(self, d, constants):
        return float(d) ** 4

    def response(self, mu, data, constants):
        return data[0] - np.cbrt(mu / 4)


class Caps(Polyhedron):
    """f <= .5."""

    def rows(self, d):
        return LinearInequalities(np.eye(d), np.full(d, -np.inf), np.full(d, 0.5))


class Within(Constraint):
    """‖f‖ <= .6."""

    def violation(self, f):
        return np.maximum(np.linalg.norm(f, axis=-1) - 0.6, 0)

    def cone_form(self, f):
        return [cp.norm(f) <= 0.6]


def with_part(base, name, part):
    """Return an instance of a class with another method, which may use the right one."""
    return type("Mine", (base,), {name: part, "__module__": __name__})()


def test_what_fits_together_is_solved_and_looked_at_once():
    seen = []

    def gradient(self, f, estimate):
        seen.append(f)
        return Quartic.gradient(self, f, estimate)

    problem = Problem(with_part(Quartic, "gradient", gradient), [*SIMPLEX, Caps(), Within()])
    assert problem.solve(START).certificate.is_optimal(1e-6)
    problem.solve(START)
    # The look begins at equal frequencies, which nothing else does.
    assert sum(np.array_equal(f, np.full(4, 0.25)) for f in seen) == 1


@pytest.mark.parametrize(
    ("name", "part", "message"),
    [
        ("gradient", lambda self, f, e: 2 * (f - e.frequencies), "is not that of its value"),
        ("gradient", lambda self, f, e: -4 * (f - e.frequencies) ** 3, "is not that of its value"),
        ("gradient", lambda self, f, e: 4 * (f - e.frequencies) ** 3 + 1, "is not that of its"),
        ("gradient", lambda self, f, e: np.ones(3), r"must be numbers of shape \(\.\.\., d\)"),
        ("gradient", lambda self, f, e: f * np.nan, "none of them NaN; at one vector"),
        (
            "value",
            lambda self, f, e: (f - e.frequencies) ** 4,
            r"numbers of shape \(\.\.\.\)",
        ),
        ("value", lambda self, f, e: None, "at one vector it is No"),
        ("value", lambda self, f, e: -np.sum((f - e.frequencies) ** 4, axis=-1), "not convex"),
        ("response", lambda self, mu, data, c: data[0] + np.cbrt(mu / 4), "its sign of μ is wrong"),
        ("response", lambda self, mu, data, c: data[0] - np.cbrt(mu), r"lower by [\d.e-]+$"),
        ("response", lambda self, mu, data, c: data[0] + 0.01, r"lower by [\d.e-]+$"),
        ("response", lambda self, mu, data, c: data[0][0], r"of shape \(m, d\), none of them NaN"),
        ("response", lambda self, mu, data, c: data[0] * np.nan, "for m = 1 and d = 4 it is"),
    ],
)
def test_a_loss_whose_parts_do_not_fit_is_refused_before_any_solve(name, part, message):
    loss = with_part(Quartic, name, part)
    for problem in (Problem(loss, SIMPLEX), Problem(LeastSquares() + loss, [*SIMPLEX, Caps()])):
        for _ in range(2):  # the second time as well
            with pytest.raises(InvalidInputError, match=message):
                problem.plan(START)


@pytest.mark.parametrize(
    ("base", "name", "part", "message"),
    [
        (Within, "violation", lambda self, f: 0 * f, "the violation of Mine.. at f of shape"),
        (
            Caps,
            "rows",
            lambda self, d: LinearInequalities(np.eye(d), np.zeros(d), np.full(d, np.nan)),
            "a bound that is NaN: where there is no bound it is -inf or inf",
        ),
        (
            Within,
            "rows",
            lambda self, d: LinearInequalities(np.eye(d), np.zeros(2), np.ones(d)),
            r"matrix of shape \(4, 4\) and bounds of the shapes \(2,\) and \(4,\)",
        ),
        (
            Within,
            "rows",
            lambda self, d: LinearInequalities(np.eye(d), np.zeros(d), np.full(d, np.nan)),
            "a bound that is NaN: where there is no bound it is -inf or inf",
        ),
    ],
)
def test_a_constraint_of_wrong_shapes_is_refused_before_any_solve(base, name, part, message):
    problem = Problem(LeastSquares(), [*SIMPLEX, with_part(base, name, part)])
    with pytest.raises(InvalidInputError, match=message):
        problem.plan(START)


def test_an_error_in_a_class_is_one_sentence_with_its_place():
    loss = with_part(Quartic, "gradient", lambda self, f, e: {}["x"])
    with pytest.raises(FunctionError, match=r"gradient of Mine.. failed: KeyError: 'x' \(test"):
        Problem(loss, SIMPLEX).plan(START)


class AtLeastTotals(GroupTotals):
    """Groups that sum to at least their totals: another set than that of its base."""

    def rows(self, d):
        rows = super().rows(d)
        return LinearInequalities(rows.matrix, rows.lower, np.full(len(rows.lower), np.inf))


class AtLeastChildren(Hierarchy):
    """Parents that are at least the sum of their children."""

    def rows(self, d):
        rows = super().rows(d)
        return LinearInequalities(rows.matrix, rows.lower, np.full(len(rows.lower), np.inf))


class AnySum(SumsTo):
    """The sum is at least a number: the base has a total, and this has none."""

    def rows(self, d):
        rows = super().rows(d)
        return LinearInequalities(rows.matrix, rows.lower, [np.inf])


class SmallSquares(LeastSquares):
    """1e-3 ½‖f - f̃‖²: its curvature is not that of its base."""

    def value(self, f, estimate):
        return 1e-3 * super().value(f, estimate)

    def gradient(self, f, estimate):
        return 1e-3 * super().gradient(f, estimate)

    def cone_form(self, f, data, constants):
        expression, constraints = super().cone_form(f, data, constants)
        return 1e-3 * expression, constraints


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        # The start is in the set: nothing moves. That of the base would move it.
        (AtLeastTotals([[0, 1], [2, 3]], [0.5, 0.5]), [0.5, 0.4, 0.1, 0.4]),
        (AtLeastChildren([-1, 0, 0, 0], 0.5), [0.9, 0.3, 0.1, 0.2]),
        (AnySum(0.5), [0.5, 0.4, 0.1, 0.4]),
    ],
)
def test_a_derived_class_that_defines_its_set_is_not_taken_for_its_base(constraint, expected):
    solution = Problem(LeastSquares(), [constraint]).solve(expected)
    assert_allclose(solution.frequencies, expected, atol=SOLVER[DEFAULT_SOLVER])
    assert solution.certificate.is_optimal(1e-9)


class LowerSides:
    """The lower bounds of rows alone, for any class that has rows."""

    def rows(self, d):
        rows = super().rows(d)
        return LinearInequalities(rows.matrix, rows.lower, np.full(len(rows.lower), np.inf))


class AtLeast(LowerSides, GroupTotals):
    """Groups that sum to at least their totals, by a class that is no constraint itself."""


def test_a_set_that_another_base_defines_is_not_taken_for_that_of_the_library():
    start = [0.5, 0.4, 0.1, 0.4]
    solution = Problem(LeastSquares(), [AtLeast([[0, 1], [2, 3]], [0.5, 0.5])]).solve(start)
    assert_allclose(solution.frequencies, start, atol=SOLVER[DEFAULT_SOLVER])
    assert solution.certificate.is_optimal(1e-9)


def test_what_a_class_of_a_user_states_is_no_statement_about_one_that_defines_another_set():
    class Halves(GroupTotals):
        def rows(self, d):
            return super().rows(d)

        def disjoint_groups(self, d):
            return super().disjoint_groups(d)

    class AtLeastHalves(LowerSides, Halves):
        pass

    class NamedHalves(Halves):
        def __repr__(self):
            return "halves"

    start = [0.5, 0.4, 0.1, 0.4]
    halves = ([[0, 1], [2, 3]], [0.5, 0.5])
    assert NamedHalves(*halves).disjoint_groups(4) is not None
    assert AtLeastHalves(*halves).disjoint_groups(4) is None
    solution = Problem(LeastSquares(), [AtLeastHalves(*halves)]).solve(start)
    assert_allclose(solution.frequencies, start, atol=SOLVER[DEFAULT_SOLVER])


def test_a_total_is_a_definition():
    class Twice(SumsTo):
        def total(self, d=None):
            return 2.0

    with pytest.raises(InvalidTypeError, match="define rows as well"):
        Twice()


def test_bounds_that_a_derived_class_states_are_those_that_it_is_measured_by():
    class AtMostHalf(NonNegative):
        def box(self, d):
            return np.zeros(d), np.full(d, 0.5)

    assert AtMostHalf().violation([0.75, 0.25]) == pytest.approx(0.25)


def test_a_derived_class_that_leaves_a_part_of_its_set_open_is_no_class_yet():
    class Around(Near):
        def violation(self, f):
            return super().violation(f)

    with pytest.raises(InvalidTypeError, match=r"stays by cone_form = Near.cone_form in the class"):
        Around(START, 0.1)

    class AroundAsBefore(Around):
        cone_form = Near.cone_form

    assert AroundAsBefore(START, 0.1).violation(np.array(START)) == 0


def test_an_order_is_defined_by_its_pairs_or_not_at_all():
    class Rising(Monotone):
        def rows(self, d):
            rows = super().rows(d)
            return LinearInequalities(-rows.matrix, rows.lower, rows.upper)

    with pytest.raises(InvalidTypeError, match=r"pairs = Monotone\.pairs"):
        Rising([0, 1, 2, 3])

    class FirstIsLargest(Unimodal):
        def pairs(self, d):
            return np.stack([np.zeros(d - 1, dtype=np.int64), np.arange(1, d)], axis=1)

    class FirstOfChain(Monotone):
        pairs = FirstIsLargest.pairs

    # As a chain it would be violated by .2.
    assert FirstOfChain([0, 1, 2, 3]).violation(np.array([0.4, 0.1, 0.3, 0.0])) == 0
    order = FirstIsLargest(2)
    assert order.violation(np.array([0.4, 0.1, 0.5, 0.0])) == pytest.approx(0.1)
    solution = Problem(LeastSquares(), [order]).solve([0.4, 0.1, 0.5, 0.0])
    assert_allclose(solution.frequencies, [0.45, 0.1, 0.45, 0.0], atol=SOLVER[DEFAULT_SOLVER])


def test_a_derived_loss_keeps_no_curvature_of_its_base():
    start = FrequencyEstimate(START)
    loss = SmallSquares()
    assert not loss.curvature(start).any()
    assert not loss.is_square
    # 1e-3 ½ (.1² + .1²) above the minimum, in which a curvature of 1 would leave out a part.
    point = np.array([0.5, 0.2, 0.1, 0.2])
    best = Problem(LeastSquares(), SIMPLEX).solve(START).frequencies
    rise = float(loss.value(point, start) - loss.value(best, start))
    assert certify(Problem(loss, SIMPLEX), start, point).gap >= rise


class PairedSquares(LeastSquares):
    """½‖f - f̃‖² + 5 (f_0 + f_1 - 0.2)²: no sum over values, as its base is."""

    def value(self, f, estimate):
        return super().value(f, estimate) + 5 * (f[..., 0] + f[..., 1] - 0.2) ** 2

    def gradient(self, f, estimate):
        slope = super().gradient(f, estimate).copy()
        slope[..., :2] += 10 * (f[..., :2].sum(axis=-1, keepdims=True) - 0.2)
        return slope

    def cone_form(self, f, data, constants):
        expression, constraints = super().cone_form(f, data, constants)
        return expression + f.size**2 * 5 * cp.square(f[0] + f[1] - 0.2), constraints


def test_a_derived_loss_is_no_sum_over_values_unless_it_states_its_response():
    problem = Problem(PairedSquares(), SIMPLEX)
    solution = problem.solve(START)
    assert solution.certificate.is_optimal(1e-9)
    # Where nothing is certified the point is the same.
    assert_allclose(
        postprocess(START, problem).frequencies, solution.frequencies, atol=SOLVER[DEFAULT_SOLVER]
    )


def test_a_gradient_that_leaves_out_a_term_of_two_values_is_refused():
    loss = with_part(PairedSquares, "gradient", LeastSquares.gradient)
    with pytest.raises(InvalidInputError, match="is not that of its value"):
        Problem(loss, SIMPLEX).solve([*START, 0.1, -0.1])


@pytest.mark.parametrize(
    ("base", "method", "general"),
    [
        (constraints.Custom, "violation", "Constraint"),
        (losses.Custom, "value", "Loss"),
        (losses.WeightedSum, "gradient", "Loss"),
    ],
)
def test_methods_that_would_not_count_are_refused(base, method, general):
    with pytest.raises(InvalidTypeError, match=f"would count: derive from {general}"):
        type("Mine", (base,), {method: getattr(base, method), "__module__": __name__})
    # Any other method may be there.
    type("Mine", (base,), {"__repr__": lambda self: "mine", "__module__": __name__})


def test_a_sum_of_a_user_s_class_stays_one_term_of_a_larger_sum():
    class Named(losses.base.WeightedSum):
        @property
        def latex(self):
            return "a name"

    named = Named([LeastSquares()], [1.0])
    assert (2 * named).terms == (named,)
    assert "a name" in (LeastSquares() + named).latex
    assert (2 * (LeastSquares() + losses.Entropy())).weights == (2.0, 2.0)


def test_a_definition_after_the_class_was_made_is_refused():
    """Nothing would look at it: the sum of two values stays what the base states."""

    class Pair(constraints.SumsTo):
        pass

    def loose(self, f):
        return np.abs(f[..., 0] - self.value)

    with pytest.raises(InvalidTypeError, match="violation of Pair is set after the class was made"):
        Pair.violation = loose
    Pair.note = "anything else may be set"
    assert Pair(1.0).violation(np.array([0.5, 0.5])) == 0

    class Half(LeastSquares):
        def __init__(self):
            self.value = lambda f, estimate: np.zeros(f.shape[:-1])

    with pytest.raises(InvalidTypeError, match="value of Half is set after the class was made"):
        Half()


def test_a_derived_class_keeps_what_it_states_itself():
    class Halves(GroupTotals):
        def rows(self, d):
            return super().rows(d)

        def disjoint_groups(self, d):
            return super().disjoint_groups(d)

    halves = Halves([[0, 1], [2, 3]], [0.5, 0.5])
    assert halves.disjoint_groups(4).number == 2
    assert Problem(LeastSquares(), [halves]).plan(START).path == "closed-form"


def test_a_derived_class_without_another_set_keeps_its_paths():
    class Named(GroupTotals):
        def __repr__(self):
            return "halves"

    halves = Named([[0, 1], [2, 3]], [0.5, 0.5])
    assert Problem(LeastSquares(), [halves]).plan(START).path == "closed-form"


def test_classes_of_the_library_state_what_they_stated():
    # Margins add up tables in a way of their own, and are disjoint groups all the same.
    assert Margins((2, 2), 0, [0.5, 0.5]).disjoint_groups(4) is not None
    assert Margins((2, 2), 0, [0.5, 0.5]).margins.shape == (2, 2)


@pytest.mark.parametrize("matrix", [np.eye(4)[:1], np.eye(4)], ids=["one row", "rows"])
def test_rows_of_dense_matrices_are_made_sparse(matrix):
    class Dense(Polyhedron):
        def rows(self, d):
            return LinearInequalities(
                matrix, np.full(len(matrix), -np.inf), np.full(len(matrix), 0.5)
            )

    solution = Problem(LeastSquares(), [*SIMPLEX, Dense()]).solve([0.75, 0.25, 0.25, 0.0])
    assert_allclose(solution.frequencies, [0.5, 0.25, 0.25, 0.0], rtol=0, atol=SOLVER["CLARABEL"])
    assert solution.status == "optimal"


def test_rows_of_another_width_are_named_before_what_they_measure():
    class Wide(Polyhedron):
        def rows(self, d):
            return LinearInequalities(np.eye(d + 1), np.zeros(d + 1), np.ones(d + 1))

    with pytest.raises(InvalidInputError, match=r"have a matrix of shape \(5, 5\) and bounds"):
        Problem(LeastSquares(), [*SIMPLEX, Wide()]).solve(START)


def test_a_sum_over_values_without_a_formula_says_so():
    with pytest.raises(UnsupportedProblemError, match="states no formula of its slope"):
        Problem(Quartic(), SIMPLEX).kkt()
