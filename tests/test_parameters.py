"""Parameters: numbers that change between solves, kept solutions that do not."""

import copy
import pickle
import threading

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Parameter, Problem, losses
from ldpopt.adjustable import number_of
from ldpopt.constraints import (
    Bounds,
    Custom,
    Fixed,
    GroupTotals,
    Hierarchy,
    HierarchyTotals,
    Linear,
    Margins,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
)
from ldpopt.errors import InfeasibleError, InvalidInputError, InvalidTypeError
from ldpopt.solve import feasibility, formulation

D = 8
Y = np.array([0.32, 0.22, 0.18, 0.12, 0.08, 0.05, 0.03, -0.02])
SIMPLEX = [NonNegative(), SumsTo(1.0)]
REFERENCE = np.linspace(1.0, 0.0, D)
SLOPES = np.array([[3.0, -2.0, *np.zeros(6)], [0.0, 1.0, 1.0, *np.zeros(4), -4.0]])


def places(lam):
    """Return problems with a parameter in a place of its own each, and in numbers alone."""
    order = Monotone([0, 1])
    return {
        "weight": (losses.LeastSquares() + lam * losses.TotalVariation(), SIMPLEX),
        "weight of data": (losses.LeastSquares() + lam * losses.LeastAbsolute(), [*SIMPLEX, order]),
        "argument of a loss": (losses.Huber(lam), [*SIMPLEX, order]),
        "own loss": (
            losses.Custom(lambda f, y: cp.sum_squares(f - y) + lam * cp.norm_inf(f)),
            SIMPLEX,
        ),
        "total": (losses.LeastSquares(), [NonNegative(), SumsTo(5 * lam), Linear(np.eye(1, D), 0)]),
        "bound": (losses.LeastSquares(), [Bounds(0, [1, lam, *[1] * 6]), SumsTo(1.0), order]),
        "groups": (
            losses.LeastSquares(),
            [NonNegative(), GroupTotals([[0, 1], [1, 2]], [2 * lam, 0.1])],
        ),
        "variation": (losses.LeastSquares(), [*SIMPLEX, Smooth(total_variation=lam)]),
        "weights": (
            losses.WeightedLeastSquares(lam * np.arange(1.0, 9.0)) + losses.TotalVariation(),
            SIMPLEX,
        ),
        "weights of groups": (
            losses.LeastSquares() + losses.GroupNorm([[0, 1], [1, 2, 3]], lam * np.ones(2)),
            SIMPLEX,
        ),
        "centre of a ball": (losses.Huber(0.1), [*SIMPLEX, Near(lam * REFERENCE + 0.075, 0.2)]),
        "reference of a divergence": (
            losses.Huber(0.1),
            [*SIMPLEX, Near(lam * REFERENCE + 0.075, 0.2, "kl")],
        ),
        "matrix": (losses.LeastSquares(), [*SIMPLEX, Linear(lam * SLOPES, -0.01, 0.004)]),
        "entry of a matrix": (
            losses.LeastSquares(),
            [*SIMPLEX, Linear([[lam, *np.zeros(D - 2), -0.3]], -np.inf, [0.01])],
        ),
        "own constraint": (losses.LeastSquares(), [*SIMPLEX, Custom(lambda f: cp.tv(f) <= lam)]),
    }


CASES = list(places(0.1))


@pytest.mark.parametrize("case", CASES)
def test_a_parameter_is_its_number_and_nothing_is_compiled_twice(case):
    lam = Parameter("lam", 0.1)
    problem = Problem(*places(lam)[case])
    first = problem.solve(Y)
    lam.value = 0.2
    solution = problem.solve(Y)
    lam.value = 0.02
    assert solution.compile_seconds == 0
    expected = Problem(*places(0.2)[case]).solve(Y)
    assert solution.objective == pytest.approx(expected.objective, abs=1e-8)
    assert_allclose(solution.frequencies, expected.frequencies, rtol=0, atol=2e-5)
    # Both are about the values that they were solved with.
    for kept, value in ((first, 0.1), (solution, 0.2)):
        assert kept.certificate.is_optimal(1e-6, relative=True)
        assert kept.problem.statement == Problem(*places(value)[case]).statement


@pytest.mark.parametrize("case", ["matrix", "entry of a matrix"])
def test_a_solver_gets_the_present_entries_of_a_matrix(case):
    """On the solver's path: elsewhere the last steps towards the minimum would hide others."""
    lam = Parameter("lam", 0.1)
    problem = Problem(*places(lam)[case])
    problem.solve(Y, path="conic")
    lam.value = 0.2
    expected = Problem(*places(0.2)[case]).solve(Y)
    solution = problem.solve(Y, path="conic")
    assert_allclose(solution.frequencies, expected.frequencies, rtol=0, atol=2e-5)
    # Entries that vanish make another program, here one without effect.
    lam.value = 0.0
    expected = Problem(losses.LeastSquares(), SIMPLEX).solve(Y)
    solution = problem.solve(Y, path="conic")
    assert_allclose(solution.frequencies, expected.frequencies, rtol=0, atol=2e-5)


def test_closed_forms_read_parameters_too():
    lam = Parameter("lam", 0.5)
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(lam)])
    assert problem.solve(Y).solver == "norm-sub"
    assert problem.minimise(Y).sum() == pytest.approx(0.5)
    lam.value = 2.0
    assert problem.minimise(Y).sum() == pytest.approx(2.0)
    assert "SumsTo(2)" in problem.explain(Y)


def test_arrays_and_expressions_of_parameters_are_numbers_as_well():
    reference = Parameter("reference", np.full(D, 1 / D))
    lam = Parameter("lam", 0.1)
    loss = losses.LeastSquares() + (2 * lam) * losses.L1To(reference)
    problem = Problem(loss, [NonNegative(), SumsTo(1 - lam)])
    plain = losses.LeastSquares() + 0.2 * losses.L1To(np.full(D, 1 / D))
    expected = Problem(plain, [NonNegative(), SumsTo(0.9)]).solve(Y)
    assert_allclose(problem.solve(Y).frequencies, expected.frequencies, rtol=0, atol=1e-12)
    reference.value = np.linspace(0, 0.25, D)
    assert problem.solve(Y).objective != pytest.approx(expected.objective)


@pytest.mark.parametrize(
    "scale",
    [
        lambda lam, loss: lam * loss,
        lambda lam, loss: loss * lam,
        lambda lam, loss: (2 * lam - 0.1) * loss,
        lambda lam, loss: (1 / cp.inv_pos(lam)) * loss,
        lambda lam, loss: loss / (10 * lam) / 10 / lam * lam,
    ],
)
def test_losses_scale_by_what_is_made_of_parameters(scale):
    lam = Parameter("lam", 0.1)
    scaled = scale(lam, losses.LeastSquares())
    assert repr(scaled) == "0.1 * LeastSquares()"
    lam.value = 0.3
    assert scaled.at(None, {}).weights != scaled.weights


@pytest.mark.parametrize(
    ("scale", "match"),
    [
        (lambda loss: loss / 0, "the divisor of a loss must be a finite number > 0, got 0"),
        (lambda loss: -1 * loss, "the factor of a loss must be a finite number >= 0, got -1"),
        (lambda loss: None * loss, "the factor of a loss must be a number, got None"),
        (lambda loss: np.ones(2) * loss, r"must be a number, got array\(\[1., 1.\]\)"),
        (lambda loss: loss / (Parameter("lam", 1.0) - 1), "must be a finite number >= 0, got inf"),
        (lambda loss: cp.Variable() * loss, "has variables: .* only parameters may stand"),
    ],
)
def test_what_a_loss_cannot_be_scaled_by_is_named(scale, match):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        scale(losses.LeastSquares())


def test_a_value_that_the_place_does_not_allow_is_refused_in_its_own_words():
    lam = Parameter("lam", 0.1)
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, Smooth(total_variation=lam)])
    with pytest.raises(InvalidInputError, match=r"the parameter lam must be >= 0, got -0\.5"):
        lam.value = -0.5
    free = Parameter("free", 0.1, nonneg=False)
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, Smooth(total_variation=free)])
    free.value = -0.5
    with pytest.raises(InvalidInputError, match=r"total_variation must be >= 0, got -0.5"):
        problem.solve(Y)


EVERY_NUMBER = {
    "WeightedLeastSquares": lambda p: losses.WeightedLeastSquares([p, 1.0]),
    "L1To": lambda p: losses.L1To([p, 1.0]),
    "KLTo": lambda p: losses.KLTo([p, 1.0]),
    "Huber": lambda p: losses.Huber(p),
    "GroupNorm": lambda p: losses.GroupNorm([[0]], [p]),
    "HardThreshold": lambda p: losses.HardThreshold(p),
    "WeightedSum": lambda p: (2 * p) * losses.LeastSquares() + losses.Entropy(),
    "Bounds": lambda p: Bounds(0.0, p),
    "Fixed": lambda p: Fixed([0], [p]),
    "SumsTo": lambda p: SumsTo(p),
    "GroupTotals": lambda p: GroupTotals([[0, 1]], [p]),
    "Margins": lambda p: Margins((2, 1), 0, [p, 0.5]),
    "HierarchyTotals": lambda p: HierarchyTotals([[0, 0, 1]], [[p, 0.5]]),
    "Hierarchy": lambda p: Hierarchy([-1, 0, 0], total=p),
    "Linear": lambda p: Linear([[1.0, 2.0]], p),
    "Near": lambda p: Near([0.5, 0.5], p, "kl"),
    "Smooth": lambda p: Smooth(second_difference=p),
}


@pytest.mark.parametrize("name", EVERY_NUMBER)
def test_wherever_a_number_goes_a_parameter_does_and_needs_a_value(name):
    lam = Parameter("lam", 0.5)
    held = EVERY_NUMBER[name](lam)
    assert held.varies
    assert repr(held.at(None, {})) == repr(EVERY_NUMBER[name](0.5))
    match = r"the parameter empty has no value: set empty\.value first, to any number"
    with pytest.raises(InvalidInputError, match=match):
        EVERY_NUMBER[name](Parameter("empty"))


def test_a_parameter_of_a_function_without_a_value_is_named_before_any_solve():
    lam = Parameter("lam")
    problem = Problem(losses.LeastSquares(), [Custom(lambda f: cp.tv(f) <= lam)])
    with pytest.raises(InvalidInputError, match=r"the parameter lam in .* has no value"):
        problem.solve(Y)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Parameter("", 1.0), "name of a parameter must be a text"),
        (lambda: Parameter("lam", np.nan), "the parameter lam must be finite, got nan"),
        (lambda: Parameter("lam", "0.1"), "the parameter lam must be an array of numbers"),
        (lambda: SumsTo(cp.Variable()), r"has variables: .*constraints\.Custom take a function"),
        (lambda: losses.Custom(cp.sum(cp.Variable(3))), "take a function, lambda f: .*, and its f"),
    ],
)
def test_bad_parameters_are_refused(build, match):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        build()
    lam = Parameter("lam", [0.1, 0.2])
    with pytest.raises(InvalidInputError, match=r"shape \(2,\), its value has shape \(3,\)"):
        lam.value = [1.0, 2.0, 3.0]


def test_parameters_pickle_with_what_holds_them_and_show_their_value():
    lam = Parameter("lam", 0.1)
    constraint = SumsTo(lam)
    for same in (pickle.loads(pickle.dumps(constraint)), copy.copy(constraint)):
        assert same.varies
        assert same.total() == 0.1
        assert [p.name() for p in same.parameters_for(FrequencyEstimate(Y))] == ["lam"]
    assert repr(lam) == "Parameter('lam', 0.1)"
    assert repr(pickle.loads(pickle.dumps(lam))) == "Parameter('lam', 0.1)"


def variation_within(f):
    return cp.tv(f) <= 0.2


def squares(f, y):
    return cp.sum_squares(f - y)


def test_solutions_pickle_with_what_they_were_solved_for():
    lam = Parameter("lam", 0.1)
    functions = Problem(losses.Custom(squares), [*SIMPLEX, Custom(variation_within)])
    for problem in (functions, Problem(*places(lam)["variation"])):
        solution = problem.solve(Y)
        restored = pickle.loads(pickle.dumps(solution))
        assert restored.certificate.is_optimal(1e-6, relative=True)
        again = pickle.loads(pickle.dumps(problem)).solve(Y)
        assert_allclose(again.frequencies, solution.frequencies, rtol=0, atol=1e-12)


# --- along a grid ---------------------------------------------------------------------------------

GRID = [0.05, 0.1, 0.2]


def fused(lam):
    return Problem(losses.LeastSquares() + lam * losses.TotalVariation(), SIMPLEX)


@pytest.mark.parametrize(
    ("accuracy", "too_small"),
    # The solver says so; or it is content with a point that is a little outside.
    [("high", 0.4), ("low", 0.49999)],
)
def test_feasibility_is_proved_once_and_a_value_without_a_point_is_refused(
    accuracy, too_small, monkeypatch
):
    programs = []
    elastic = feasibility._elastic
    monkeypatch.setattr(feasibility, "_elastic", lambda *of: programs.append(of) or elastic(*of))
    radius = Parameter("radius", 0.9)
    # From half the mass at one value, equal frequencies are outside: a linear program is needed.
    reference = np.zeros(len(Y))
    reference[0] = 0.5
    problem = Problem(losses.LeastAbsolute(), [*SIMPLEX, Near(reference, radius, 1)])
    problem.solve(Y, path="conic")
    assert len(programs) == 1
    radius.value = 0.8
    problem.solve(Y, path="conic")
    assert len(programs) == 1
    radius.value = too_small
    with pytest.raises(InfeasibleError, match="these conflict"):
        problem.solve(Y, path="conic", accuracy=accuracy)


@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", "SCS"])
def test_a_path_is_its_solutions_one_by_one_and_they_stay(solver):
    lam = Parameter("lam", 7.0)
    problem = fused(lam)
    solutions = problem.path(Y, solver=solver, lam=GRID)
    assert lam.value == 7.0
    assert len(problem._planner.conic.compiled) == 1
    # What is kept does not grow with the number of values.
    bounds = Problem(losses.LeastSquares(), [*SIMPLEX, Smooth(total_variation=lam)])
    bounds.path(Y, solver=solver, lam=GRID)
    assert len(bounds._planner.conic._feasible) == 1
    lam.value = 3.0
    for value, solution in zip(GRID, solutions, strict=True):
        expected = fused(value).solve(Y)
        assert solution.objective == pytest.approx(expected.objective, abs=1e-6)
        assert solution.certificate.is_optimal(1e-5, relative=True)
        assert repr(solution.problem.loss) == repr(expected.problem.loss)
    with_functions = Problem(losses.LeastSquares(), [*SIMPLEX, Custom(lambda f: cp.tv(f) <= lam)])
    bounded = with_functions.path(Y, lam=GRID)
    for value, solution in zip(GRID, bounded, strict=True):
        assert np.abs(np.diff(solution.frequencies)).sum() == pytest.approx(value, abs=1e-6)
        assert solution.certificate.violation <= 1e-6


def test_parameters_of_a_path_move_together():
    weight = Parameter("weight", 1.0)
    total = Parameter("total", 1.0)
    loss = losses.LeastSquares() + weight * losses.L1To(np.full(D, 1 / D))
    problem = Problem(loss, [NonNegative(), SumsTo(total)])
    first, second = problem.path(Y, weight=[0.1, 0.3], total=[1.0, 0.5])
    assert first.frequencies.sum() == pytest.approx(1.0)
    assert second.frequencies.sum() == pytest.approx(0.5)
    assert second.problem.statement.startswith("LeastSquares() + 0.3 * L1To")


@pytest.mark.parametrize(
    ("grids", "match"),
    [
        ({}, "takes the values of a parameter under its name.*: lam$"),
        ({"lamb": GRID}, "unknown parameter 'lamb': did you mean 'lam'"),
        ({"lam": 0.1}, "lam must be a list of values, got 0.1"),
        ({"lam": [-0.1]}, "the parameter lam must be >= 0"),
        ({"lam": ["a"]}, "lam must be an array of numbers"),
    ],
    ids=str,
)
def test_a_path_names_what_is_wrong_with_its_grids(grids, match):
    with pytest.raises((InvalidInputError, InvalidTypeError), match=match):
        fused(Parameter("lam", 0.1)).path(Y, **grids)


def test_a_path_of_a_problem_without_parameters_has_a_remedy():
    plain = Problem(losses.LeastSquares(), [NonNegative()])
    with pytest.raises(InvalidInputError, match=r"no parameters: put Parameter\('lam', \.\.\.\)"):
        plain.path(Y, lam=GRID)


def test_names_of_a_path_are_of_one_parameter_and_their_grids_as_long():
    one = Parameter("lam", 0.1)
    other = Parameter("lam", 0.1)
    loss = losses.LeastSquares() + one * losses.Entropy()
    with pytest.raises(InvalidInputError, match="2 parameters of this problem have the name 'lam'"):
        Problem(loss, [NonNegative(), SumsTo(other)]).path(Y, lam=GRID)
    total = Parameter("total", 1.0)
    with pytest.raises(InvalidInputError, match="as many values, got lam 3, total 1"):
        Problem(loss, [NonNegative(), SumsTo(total)]).path(Y, lam=GRID, total=[1.0])


def test_a_path_in_one_thread_changes_no_parameter_for_another():
    level = Parameter("level", 1.0)
    seen = []

    class Slow(type(level * 2)):
        """A product that another thread may interrupt while its parameter holds a value."""

        @property
        def value(self):
            other = threading.Thread(target=lambda: seen.append(number_of(level + 0, {})))
            if level.value == 3.0:
                other.start()
                other.join(0.05)
                waiting.append(other)
            return super().value

    waiting = []
    assert number_of(Slow(cp.Constant(2.0), level), {level.id: 3.0}) == 6.0
    for other in waiting:
        other.join()
    assert seen == [1.0]


def test_what_is_around_a_ball_is_looked_at_once_for_all_its_radii(monkeypatch):
    """Each radius makes another set; the simplex beside it stays the same one."""
    looked_at = []
    original = formulation._region
    monkeypatch.setattr(formulation, "_region", lambda *a: looked_at.append(a[1]) or original(*a))
    radius = Parameter("radius", 0.1)
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, Near(REFERENCE / REFERENCE.sum(), radius)])
    for value in np.linspace(0.1, 0.2, 9):
        radius.value = value
        assert problem.solve(Y).status == "optimal"
    assert sum(len(constraints) == 3 for constraints in looked_at) == 9
    assert sum(len(constraints) == 2 for constraints in looked_at) == 1
    # Few are kept: nothing grows with the number of solves.
    assert len(problem.at(Y)._regions) <= 3
