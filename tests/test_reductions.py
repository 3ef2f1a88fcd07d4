"""Problems that are reduced to others with closed forms: by hand, by a solver, certified."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import Problem, closed_form, losses
from ldpopt.closed_form.brackets import End, bracketed_root
from ldpopt.constraints import (
    Bounds,
    GroupTotals,
    HierarchyTotals,
    Linear,
    Margins,
    Monotone,
    Near,
    NonNegative,
    Smooth,
    SumsTo,
)
from ldpopt.errors import InfeasibleError
from tests.tolerances import SOLVER, SUM

D = 12
SIMPLEX = [NonNegative(), SumsTo(1.0)]
RNG = np.random.default_rng(5)
REFERENCE = np.arange(D, 0, -1.0) / np.sum(np.arange(D, 0, -1.0))
WITH_ZEROS = np.where(np.arange(D) % 4 == 3, 0.0, REFERENCE) / 0.8
Y = REFERENCE + RNG.normal(0, 0.04, (2, D))
ORDER = RNG.permutation(D)
GROUPS = [[0, 1, 2], [4, 7], [11]]
TABLE = REFERENCE.reshape(3, 4)
SQUARES = losses.LeastSquares()

PROBLEMS = {
    "L1 ball": (
        SQUARES,
        [*SIMPLEX, Near(REFERENCE, 0.1, 1)],
        "ball, two roots",
    ),
    "L1 ball with zeros": (
        SQUARES,
        [NonNegative(), SumsTo(0.8), Near(WITH_ZEROS, 0.4, 1)],
        "ball, two roots",
    ),
    "ball": (SQUARES, [*SIMPLEX, Near(REFERENCE, 0.03)], "ball, norm-sub"),
    "ball without a total": (SQUARES, [NonNegative(), Near(REFERENCE, 0.03)], "ball, base-pos"),
    "ball and ranks": (
        SQUARES,
        [*SIMPLEX, Monotone(np.arange(D)), Near(REFERENCE, 0.02)],
        "ball, pava, norm-sub",
    ),
    "KL ball": (SQUARES, [*SIMPLEX, Near(REFERENCE, 0.01, "kl")], "ball, two multipliers"),
    "KL ball with zeros": (
        SQUARES,
        [*SIMPLEX, Near(WITH_ZEROS, 0.02, "kl")],
        "ball, two multipliers",
    ),
    "divergence in an L1 ball": (
        losses.Entropy(),
        [SumsTo(1.0), Near(REFERENCE, 0.1, 1)],
        "ball, one root",
    ),
    "weights in an L1 ball": (
        losses.WeightedLeastSquares(1.0 + np.arange(D)),
        [*SIMPLEX, Near(REFERENCE, 0.1, 1)],
        "ball, two roots",
    ),
    "variation": (SQUARES + 0.01 * losses.TotalVariation(), SIMPLEX, "fused lasso, norm-sub"),
    "variation of some": (
        SQUARES + 0.02 * losses.TotalVariation([3, 1, 8, 2]),
        SIMPLEX,
        "fused lasso, norm-sub",
    ),
    "variation in a box": (
        2 * SQUARES + 0.02 * losses.TotalVariation(ORDER),
        [Bounds(0.02, 0.12), SumsTo(1.0)],
        "fused lasso, one root",
    ),
    "bounded variation": (
        SQUARES,
        [*SIMPLEX, Smooth(0.4, order=ORDER)],
        "ball, fused lasso, norm-sub",
    ),
    "variation in a ball": (
        SQUARES + 0.01 * losses.TotalVariation(ORDER),
        [*SIMPLEX, Near(REFERENCE, 0.03)],
        "ball, fused lasso, norm-sub",
    ),
    "group norms": (SQUARES + 0.05 * losses.GroupNorm(GROUPS), SIMPLEX, "group shrinkage"),
    "group norms and a total": (
        2 * SQUARES + losses.GroupNorm(GROUPS, [0.1, 0.02, 0.01]),
        [SumsTo(1.0)],
        "group shrinkage",
    ),
    "group norms alone": (SQUARES + 0.05 * losses.GroupNorm(GROUPS), [], "group shrinkage"),
    "two margins": (
        SQUARES,
        [*SIMPLEX, Margins((3, 4), 0, TABLE.sum(axis=1)), Margins((3, 4), 1, TABLE.sum(axis=0))],
        "newton on multipliers",
    ),
    "overlapping groups": (
        SQUARES,
        [Bounds(0.0, 0.2), GroupTotals([[0, 1, 2], [2, 3]], [0.35, 0.2]), SumsTo(1.0)],
        "newton on multipliers",
    ),
    "equations": (
        SQUARES,
        [NonNegative(), Linear(np.vstack([REFERENCE, np.arange(D)]), [0.1, 3.6], [0.1, 3.6])],
        "newton on multipliers",
    ),
    "two squares": (
        SQUARES + 3 * losses.LeastSquares(),
        [*SIMPLEX, Monotone(np.arange(D))],
        "pava, norm-sub",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_form_is_the_minimum_that_a_solver_finds(name):
    loss, constraints, form = PROBLEMS[name]
    problem = Problem(loss, constraints)
    solution = problem.solve(Y)
    assert (solution.path, solution.solver) == ("closed-form", form)
    assert np.all(problem.violation(solution.frequencies) <= SUM)
    assert np.all(solution.certificate.is_optimal(1e-8, relative=True))
    numeric = problem.solve(Y, path="conic")
    atol = SOLVER["CLARABEL"]
    assert_allclose(solution.frequencies, numeric.frequencies, rtol=0, atol=atol)
    # Each trial on its own.
    assert_allclose(problem.minimise(Y[1]), solution.frequencies[1], rtol=0, atol=SUM)


@pytest.mark.parametrize("norm", [1, 2, "kl"])
def test_a_ball_that_does_not_bind_changes_nothing(norm):
    ball = Near(REFERENCE, 2.0, norm)
    expected = closed_form.norm_sub(Y)
    assert_allclose(Problem(SQUARES, [*SIMPLEX, ball]).minimise(Y), expected, rtol=0, atol=0)


@pytest.mark.parametrize("norm", [1, 2, "kl"])
def test_a_ball_of_no_size_is_its_reference(norm):
    solution = Problem(SQUARES, [*SIMPLEX, Near(REFERENCE, 0.0, norm)]).solve(Y[0])
    atol = {1: 1e-15, 2: 1e-12, "kl": 1e-6}[norm]
    assert_allclose(solution.frequencies, REFERENCE, rtol=0, atol=atol)


@pytest.mark.parametrize("norm", [1, 2, "kl"])
def test_a_ball_out_of_reach_is_a_conflict_with_a_name(norm):
    far = Near(2 * REFERENCE, 0.01, norm)
    with pytest.raises(InfeasibleError, match=r"these conflict: .*SumsTo\(1\)"):
        Problem(SQUARES, [*SIMPLEX, far]).solve(Y[0])


def test_equations_that_contradict_each_other_are_named():
    sums = HierarchyTotals([np.arange(D) % 2], [[0.4, 0.4]])
    problem = Problem(SQUARES, [*SIMPLEX, Linear(np.eye(1, D, 2), 0.1, 0.1), sums])
    with pytest.raises(InfeasibleError, match="these conflict"):
        problem.solve(Y[0])


def test_values_with_bounds_of_their_own_are_not_fused_first():
    bounds = Bounds(np.linspace(0, 0.01, D), 1.0)
    problem = Problem(SQUARES + 0.01 * losses.TotalVariation(), [bounds, SumsTo(1.0)])
    assert problem.plan(Y).path == "conic"
    shared = losses.GroupNorm([[0, 1], [1, 2]])
    assert Problem(SQUARES + 0.01 * shared, SIMPLEX).plan(Y).path == "conic"


# --- the functions themselves ---------------------------------------------------------------------


@pytest.mark.parametrize("price", [0.0, 0.01, 0.2, 5.0])
@pytest.mark.parametrize("total", [0.3, 1.0, 4.0])
def test_the_form_towards_a_reference_is_the_root_of_its_multiplier(price, total):
    loss = SQUARES + price * losses.L1To(WITH_ZEROS)
    stated = Problem(loss, [NonNegative(), SumsTo(total)])
    expected = stated.solve(Y)
    assert expected.solver in ("one root", "norm-sub")
    f = closed_form.towards_reference(Y, WITH_ZEROS, price, total)
    assert_allclose(f, expected.frequencies, rtol=0, atol=1e-11)


def test_a_domain_along_an_order_is_the_ordered_domain():
    placed = np.empty(D)
    placed[ORDER] = Y[0]
    along = Smooth(0.3, 0.5, order=ORDER)
    straight = Smooth(0.3, 0.5)
    assert along.violation(placed) == straight.violation(Y[0]) > 0
    solutions = [
        Problem(SQUARES, [*SIMPLEX, smooth]).solve(start).frequencies
        for smooth, start in ((along, placed), (straight, Y[0]))
    ]
    atol = SOLVER["CLARABEL"]
    assert_allclose(solutions[0][ORDER], solutions[1], rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("function", "root"),
    [
        (lambda x: x**3 - 2, 2 ** (1 / 3)),
        (lambda x: np.sign(x - 0.7), 0.7),
        (lambda x: 1 / (x + 1e-9) - 1e6, 1e-6 - 1e-9),
        (lambda x: np.exp(-50 * x) - 1e-3, np.log(1e3) / 50),
    ],
)
def test_a_root_is_bracketed_in_few_steps(function, root):
    places = []

    def counted(place):
        places.append(place)
        return function(place)

    ends = (End(0.0, function(0.0)), End(2.0, function(2.0)))
    bracket = bracketed_root(counted, ends, lambda value: abs(value) <= 1e-14)
    assert min(abs(end.place - root) for end in bracket) <= 1e-12
    assert len(places) <= 70
