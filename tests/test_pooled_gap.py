"""The bound that judges closed forms on orders, top sets, groups, trees and small supports."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import FrequencyEstimate, Problem, certify, closed_form, constraints, losses
from ldpopt.closed_form import Groups
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Fixed,
    GroupTotals,
    Hierarchy,
    Margins,
    Monotone,
    NonNegative,
    Smooth,
    SumsTo,
    TopSet,
    Unimodal,
)
from ldpopt.errors import LdpoptWarning
from ldpopt.solve.certificate import certificate
from ldpopt.solve.certificate.box import few_values
from ldpopt.solve.certificate.polyhedra import polyhedron
from ldpopt.solve.certificate.prices.pooled_gap import _excess_of_groups, pooled_gap
from ldpopt.solve.paths.closed_forms.lookup import closed_form_for

D = 12
RNG = np.random.default_rng(11)
PARENTS = np.array([-1, *(int(RNG.integers(0, v)) for v in range(1, D))])
PAIRS = np.array([(PARENTS[v], v) for v in range(1, D)])
WEIGHTED = losses.WeightedLeastSquares(RNG.uniform(0.5, 3.0, D))
SETS = {
    "chain": Monotone(RNG.permutation(D)),
    "chain in order": Monotone(np.arange(D)),
    "part of a chain": Monotone(RNG.permutation(D)[:5]),
    "highest roots": Monotone(PAIRS),
    "lowest roots": Monotone(PAIRS[:, ::-1]),
    "no forest": Monotone(np.concatenate([PAIRS, [(2, 9), (9, 4), (3, 10)]])),
    "mode": Unimodal(4),
    "top set": TopSet([1, 5, 7]),
    "groups": GroupTotals([np.arange(3), np.arange(5, 9)], [0.3, 0.4]),
    "a group of nothing": GroupTotals([np.arange(3), np.arange(5, 9)], [0.0, 0.4]),
    "variation": Smooth(total_variation=0.2),
    "variation of another order": Smooth(total_variation=0.1, order=RNG.permutation(D)),
    "groups that overlap": GroupTotals([np.arange(5), np.arange(3, 9)], [0.4, 0.5]),
    "margin of a table": Margins((2, 2, 3), (1, 2), np.full((2, 3), 1 / 6)),
    "crossing margins": [
        Margins((2, 6), 0, [0.3, 0.7]),
        Margins((2, 6), 1, np.full(6, 1 / 6)),
    ],
    "tree": Hierarchy(PARENTS),
    "tree of a known root": Hierarchy(PARENTS, 1.0),
}
FURTHER = {
    "nothing": [],
    "nonnegative": [NonNegative()],
    "total": [SumsTo(1.0)],
    "simplex": [NonNegative(), SumsTo(1.0)],
    "own bounds": [Bounds(0.0, RNG.uniform(0.1, 0.3, D)), SumsTo(1.0)],
    "a cap": [Bounds(-0.05, 0.15)],
    "a cap, a total": [Bounds(0.0, 0.15), SumsTo(1.0)],
}


def problems():
    """Return every problem that has a closed form, with its name."""
    result = {}
    for name, member in SETS.items():
        for more, rest in FURTHER.items():
            # The total of all nodes contradicts that of the root.
            if "known root" in name:
                rest = [one for one in rest if not isinstance(one, SumsTo)]
            # The root of a tree is the total, above any of the bounds.
            if "tree" in name and more in {"own bounds", "a cap", "a cap, a total"}:
                continue
            for loss in (losses.LeastSquares(), WEIGHTED):
                stated = member if isinstance(member, list) else [member]
                problem = Problem(loss, [*stated, *rest])
                estimate = FrequencyEstimate(np.full(D, 1 / D))
                form = closed_form_for(problem, estimate)
                if problem.is_separate(D) or form is None:
                    continue
                result[f"{name}, {more}, {type(loss).__name__}"] = problem
    return result


PROBLEMS = problems()


def with_losses_in_turns():
    """Return names of problems: each set and all that is beside it once, with the losses in turns.

    A few have a closed form under one of the two losses alone.
    """
    names_of = defaultdict(list)
    for name in PROBLEMS:
        names_of[name.rpartition(", ")[0]].append(name)
    return [names[place % len(names)] for place, names in enumerate(names_of.values())]


def estimates(trials):
    rng = np.random.default_rng(2)
    return FrequencyEstimate(
        rng.dirichlet(np.full(D, 0.5), trials) + rng.normal(0, 0.1, (trials, D))
    )


@pytest.mark.parametrize("name", with_losses_in_turns())
def test_it_is_rounding_at_the_minimum_and_no_less_than_the_rise_elsewhere(name):
    problem = PROBLEMS[name]
    start = estimates(6)
    best = problem.minimise(start)
    minimum = problem.loss.value(best, start)
    at_best = pooled_gap(problem, start, best)
    assert np.all(at_best.gap <= 1e-12 * (at_best.terms + minimum))
    # The minima of other estimates are points of the set, and what is between them too.
    for share in (1e-7, 1e-3, 0.5, 1.0):
        point = (1 - share) * best + share * np.roll(best, 1, axis=0)
        bound = pooled_gap(problem, start, point)
        rise = problem.loss.value(point, start) - minimum
        assert np.all(bound.gap >= rise - 1e-15)


@pytest.mark.parametrize("k", [1, 3, D])
def test_points_with_few_values_are_judged_against_the_best_support(k):
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), AtMost(k)])
    start = estimates(6)
    best = problem.minimise(start)
    minimum = problem.loss.value(best, start)
    assert_allclose(few_values.quick_gap(problem, start, best).gap, 0.0, atol=1e-14)
    for other in np.eye(D)[:4]:
        point = np.broadcast_to(other, best.shape)
        rise = problem.loss.value(point, start) - minimum
        assert np.all(few_values.quick_gap(problem, start, point).gap >= rise - 1e-15)


@pytest.mark.parametrize("k", range(1, 7))
def test_of_equal_values_any_may_complete_the_best_support(k):
    """On each support the best point is known, and the least loss of all of them is the minimum."""
    d = 6
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), AtMost(k)])
    rng = np.random.default_rng(k)
    for _ in range(30):
        target = rng.integers(-1, 3, d) / 8
        start = FrequencyEstimate(target)
        points = np.zeros((math.comb(d, k), d))
        for f, support in zip(points, itertools.combinations(range(d), k), strict=True):
            f[list(support)] = closed_form.norm_sub(target[list(support)])
        values = problem.loss.value(points, start)
        rises = values - values.min()
        gaps = np.array([few_values.quick_gap(problem, start, f).gap for f in points])
        assert np.all(gaps >= rises - 1e-15)
        assert np.all(gaps[rises < 1e-15] <= 1e-15)
        stack = few_values.quick_gap(problem, FrequencyEstimate(target + 0 * points), points)
        assert_allclose(stack.gap, gaps, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(losses.LeastAbsolute(), [SETS["groups"], NonNegative()]),
        Problem(losses.LeastSquares(), [constraints.Smooth(second_difference=0.1)]),
        Problem(losses.LeastSquares(), [SETS["chain"], SETS["groups"]]),
    ],
)
def test_other_losses_and_sets_are_left_to_the_certificate(problem):
    start = estimates(1)
    assert pooled_gap(problem, start, start.frequencies) is None
    assert few_values.quick_gap(problem, start, start.frequencies) is None


@pytest.mark.parametrize("name", ["chain, simplex", "highest roots, nothing", "top set, simplex",
                                  "groups, simplex", "tree, nonnegative"])  # fmt: skip
def test_a_closed_form_that_is_wrong_is_inaccurate(name, monkeypatch):
    problem = PROBLEMS[f"{name}, LeastSquares"]
    start = estimates(2)
    assert problem.solve(start).status == "optimal"
    other = problem.minimise(start)[::-1].copy()
    match = closed_form_for(problem, start)._replace(evaluate=lambda: other)
    monkeypatch.setattr("ldpopt.solve.planner.closed_form_for", lambda *_: match)
    with pytest.warns(LdpoptWarning, match="its certified gap is"):
        assert problem.solve(start, path="closed-form").status == "inaccurate"
    # Where no path is named, the solver behind the form finds the minimum.
    rescued = problem.solve(start)
    assert rescued.status == "optimal"
    assert rescued.solver.endswith(", CLARABEL")


def test_few_values_on_the_wrong_support_are_inaccurate(monkeypatch):
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0), AtMost(2)])
    start = FrequencyEstimate([0.5, 0.3, 0.1])
    match = closed_form_for(problem, start)
    wrong = match._replace(evaluate=lambda: np.array([0.0, 0.6, 0.4]))
    monkeypatch.setattr("ldpopt.solve.planner.closed_form_for", lambda *_: wrong)
    with pytest.warns(LdpoptWarning, match="its certified gap is"):
        assert problem.solve(start).status == "inaccurate"


def test_a_form_that_nothing_else_knows_is_judged_by_a_program(monkeypatch):
    # Bounds inside an order: what hangs below a value may go through its bound too.
    problem = Problem(losses.LeastAbsolute(), [SETS["groups"], NonNegative()])
    start = FrequencyEstimate(estimates(2).frequencies[0])
    other = problem.minimise(FrequencyEstimate(start.frequencies[::-1]))
    match = closed_form_for(problem, start)._replace(evaluate=lambda: other)
    monkeypatch.setattr("ldpopt.solve.planner.closed_form_for", lambda *_: match)
    with pytest.warns(LdpoptWarning, match="its certified gap is"):
        assert problem.solve(start, path="closed-form").status == "inaccurate"


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_a_status_does_not_depend_on_the_unit_of_the_loss(factor, monkeypatch):
    start = FrequencyEstimate([0.5, 0.3, 0.1])
    problem = Problem(factor * losses.LeastSquares(), [NonNegative(), SumsTo(1.0)])
    assert problem.solve(start).status == "optimal"
    off = problem.minimise(start) + np.array([0.02, -0.02, 0.0])
    match = closed_form_for(problem, start)._replace(evaluate=lambda: off)
    monkeypatch.setattr("ldpopt.solve.planner.closed_form_for", lambda *_: match)
    with pytest.warns(LdpoptWarning, match="its certified gap is"):
        assert problem.solve(start, path="closed-form").status == "inaccurate"


def test_a_minimum_of_zero_without_a_slope_is_optimal():
    # Every term of the scale is about 0 there; what the loss of no frequencies is counts.
    start = FrequencyEstimate([0.5, 0.3, 0.2])
    problem = Problem(losses.LeastSquares(), [NonNegative(), SumsTo(1.0)])
    for solver in ("CLARABEL", "OSQP"):
        assert problem.solve(start, path="conic", solver=solver).status == "optimal"
    order = Problem(losses.LeastSquares(), [Bounds(0.0, 0.6), Monotone([0, 1, 2])])
    assert order.solve(start).status == "optimal"


@pytest.mark.parametrize("name", ["chain", "top set", "groups", "groups that overlap", "tree"])
def test_a_certificate_of_a_closed_form_needs_no_rows_until_its_multipliers_are_read(
    name, monkeypatch
):
    def evidence(*_):
        raise AssertionError("rows were taken")

    problem = Problem(losses.LeastSquares(), [NonNegative(), SETS[name]])
    solution = problem.solve(RNG.uniform(0.0, 0.2, D))
    with monkeypatch.context() as without_rows:
        without_rows.setattr(certificate.polyhedron, "evidence", evidence)
        proof = certify(problem, solution.start, solution.frequencies)
        assert proof.is_optimal(1e-13, relative=True)
        with pytest.raises(AssertionError, match="rows were taken"):
            proof.duals  # noqa: B018
    assert proof.duals.keys() == solution.duals.keys()


def test_sums_of_groups_are_rounded_in_second_order_alone():
    # Each sum is as near to its total as doubles can be, though a thousand values are added up.
    values = RNG.dirichlet(np.ones(4000))
    groups = Groups(np.arange(4000) % 2, np.zeros(2))
    exact = [math.fsum(values[0::2]), math.fsum(values[1::2])]
    groups = groups._replace(totals=np.array(exact))
    excess, error = _excess_of_groups(groups, values[None])
    assert (excess <= error).all()
    assert (error <= 1e-15).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_the_sum_of_a_small_group_is_within_its_bound_in_exact_fractions(size):
    rng = np.random.default_rng(3)
    groups = Groups(np.zeros(size, np.int64), np.zeros(1))
    for _ in range(1500):
        # Values of very different sizes that cancel, so that only the rounding is left.
        values = rng.normal(size=size) * 2.0 ** rng.integers(-60, 1, size)
        values[-1] = -math.fsum(values[:-1])
        excess, error = _excess_of_groups(groups, values[None])
        exact = abs(sum(map(Fraction, values.tolist())))
        assert abs(exact - Fraction(float(excess[0, 0]))) <= Fraction(float(error[0, 0]))


def test_what_a_row_between_bounds_is_short_of_its_end_costs():
    problem = Problem(
        losses.LeastSquares(), [Monotone([0, 1]), Bounds(0.0, np.array([0.9, 0.8])), SumsTo(1.0)]
    )
    start = FrequencyEstimate([[0.2, 0.8]])
    # Equal up to what counts as equal, and yet above the minimum, where both are 1/2.
    point = np.array([[0.5 + 4e-13, 0.5 - 4e-13]])
    rise = 2 * 0.3 * 4e-13
    assert pooled_gap(problem, start, point).gap == pytest.approx(rise, rel=1e-2, abs=0.0)


def solvers_point(weights, further):
    """Return a problem under a bounded variation, an estimate, and what a solver returns."""
    y = np.array([0.5, 0.6, 0.1, -0.2, 0.15, 0.05])
    where = [NonNegative(), SumsTo(1.0), Smooth(0.4), *further]
    problem = Problem(losses.WeightedLeastSquares(weights), where)
    return problem, y, problem.solve(y, path="conic", solver="CLARABEL").frequencies


def test_a_solvers_point_of_bounded_variation_takes_no_program(monkeypatch):
    problem, y, point = solvers_point(np.ones(6), [])
    at_hand = pooled_gap(problem, FrequencyEstimate(y), point)
    # Above rounding: under other constraints a smaller gap would be sought.
    assert 1e-13 * at_hand.terms < at_hand.gap < 1e-9 * at_hand.terms
    monkeypatch.setattr(polyhedron, "evidence", None)  # to call it would be an error
    assert certify(problem, y, point).gap == at_hand.gap


def test_a_program_looks_behind_a_steep_value_that_is_held(monkeypatch):
    """Its terms, which are beside the point, would make any gap of the others look small."""
    weights = np.array([1e12, 1, 1, 1, 1, 1])
    problem, y, point = solvers_point(weights, [Fixed([0], [0.25])])
    called = []
    original = polyhedron.evidence
    monkeypatch.setattr(
        polyhedron, "evidence", lambda *a, **k: called.append(a) or original(*a, **k)
    )
    moved = point + np.array([0, 1e-4, -1e-4, 0, 0, 0])
    assert certify(problem, y, moved).gap > 1e-9
    assert called
