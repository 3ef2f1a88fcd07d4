"""Margins of a table with no bounds beside them: one shift each, whatever their axes are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt import Problem, certify, losses, oracles, priors
from ldpopt.constraints import GroupTotals, Margins, NonNegative, SumsTo
from ldpopt.errors import InfeasibleError
from ldpopt.solve.certificate.prices.pooled_gap import pooled_gap
from tests.tolerances import CERTIFIED, ROUNDING

FORM = "one shift per margin"
TABLES = {
    "rows and columns": ((3, 4), [(0,), (1,)]),
    "one axis of three": ((2, 3, 4), [(0,), (2,)]),
    "pairs that overlap": ((2, 3, 4), [(0, 1), (1, 2)]),
    "all pairs of four axes": (
        (2, 3, 2, 2),
        [(a, b) for a in range(4) for b in range(a + 1, 4)],
    ),
    "a margin within another one": ((3, 2, 2), [(0, 1), (0,), (2,)]),
    "axes in another order": ((2, 3, 2, 2), [(3, 0, 1), (2, 1), (3, 2)]),
    "every cell": ((3, 2), [(0, 1), (1,)]),
    "an axis of one value": ((1, 3, 2), [(0, 1), (2,)]),
}


def margin_of(table, axes):
    others = tuple(axis for axis in range(table.ndim) if axis not in axes)
    # NumPy keeps the table's order of axes, and a margin the order in which they are stated.
    sums = table.sum(axis=others).transpose(np.argsort(np.argsort(axes)))
    return Margins(table.shape, axes, sums)


def known_margins(shape, kept, seed=0):
    """Return the margins of a random table, and an estimate."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(np.prod(shape))).reshape(shape)
    return [margin_of(table, axes) for axes in kept], rng.normal(0.1, 0.3, table.size)


def nearest(margins, target, weights):
    """Return the nearest vector by least squares on the stacked rows."""
    d = len(target)
    rows = np.concatenate([one.rows(d).matrix.toarray() for one in margins])
    right = np.concatenate([one.totals for one in margins])
    roots = np.sqrt(weights)
    step = np.linalg.lstsq(rows / roots, right - rows @ target, rcond=None)[0]
    return target + step / roots


@pytest.mark.parametrize("total", [[], [SumsTo(1.0)]], ids=["", "total"])
@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_the_nearest_one(name, total):
    shape, kept = TABLES[name]
    margins, target = known_margins(shape, kept)
    problem = Problem(losses.LeastSquares(), [*total, *margins])
    assert problem.plan(target).name == FORM
    solution = problem.solve(target)
    assert_allclose(
        solution.frequencies, nearest(margins, target, np.ones(len(target))), atol=8 * ROUNDING
    )
    assert solution.status == "optimal"
    assert certify(problem, target, solution.frequencies).is_optimal(1e-14)
    start = problem.accept(target)
    at_best = pooled_gap(problem, start, solution.frequencies)
    assert at_best.gap <= CERTIFIED * at_best.terms
    # Points off the set pay for what they miss.
    for seed in range(4):
        point = solution.frequencies + np.random.default_rng(seed).normal(0, 0.01, start.d)
        rise = float(problem.loss.value(point, start)) - solution.objective
        assert pooled_gap(problem, start, point).gap >= rise


def test_stacks_and_posterior_means_are_shifted_too():
    margins, target = known_margins((3, 4), [(0,), (1,)])
    stack = np.stack([target, 2 * target, -target]).reshape(3, 1, 12)
    problem = Problem(losses.LeastSquares(), margins)
    solved = problem.solve(stack).frequencies
    for one, start in zip(solved[:, 0], stack[:, 0], strict=True):
        assert_allclose(one, nearest(margins, start, np.ones(12)), atol=8 * ROUNDING)
    problem = Problem(losses.PosteriorMean(priors.PowerLaw(1.5, 400)), margins)
    raw = oracles.OUE(1.0, 12).estimate([200] * 12, n=400)
    assert problem.plan(raw).name == f"{FORM} of the posterior mean"
    assert problem.solve(raw).status == "optimal"


@pytest.mark.parametrize("name", ["rows and columns", "pairs that overlap"])
def test_weights_that_are_products_have_the_form_and_others_have_another_one(name):
    shape, kept = TABLES[name]
    margins, target = known_margins(shape, kept)
    factors = [np.random.default_rng(axis).uniform(0.5, 2.0, n) for axis, n in enumerate(shape)]
    weights = _product(factors)
    problem = Problem(losses.WeightedLeastSquares(weights), margins)
    assert problem.plan(target).name == FORM
    f = problem.minimise(target)
    assert_allclose(f, nearest(margins, target, weights), atol=16 * ROUNDING)
    assert certify(problem, target, f).is_optimal(1e-14)
    weights[0] *= 1.001
    other = Problem(losses.WeightedLeastSquares(weights), margins)
    assert other.plan(target).name != FORM
    assert_allclose(other.minimise(target), nearest(margins, target, weights), atol=1e-8)


def _product(factors):
    result = np.ones(1)
    for factor in factors:
        result = np.multiply.outer(result, factor).reshape(-1)
    return result


def test_what_else_is_known_is_left_to_other_paths():
    margins, target = known_margins((3, 4), [(0,), (1,)])
    others = [
        [NonNegative(), *margins],
        [*margins, GroupTotals([[0, 5]], [0.2])],
        [margins[0], Margins((4, 3), 0, [0.25] * 4)],
    ]
    for sets in others:
        assert Problem(losses.LeastSquares(), sets).plan(target).name != FORM
    assert Problem(losses.Huber(0.1), margins).plan(target).name != FORM


@pytest.mark.parametrize(
    ("kept", "wrong", "message"),
    [
        (
            [(0,), (1,)],
            1,
            r"axes \(0,\) and the margin of axes \(1,\) .* totals differ",
        ),
        ([(0, 1), (1, 2)], 1, r"their sums along axes \(1,\) differ by up to 0\.1"),
    ],
)
def test_margins_that_contradict_each_other_are_named(kept, wrong, message):
    # More values than programs look through.
    shape = (40, 60) if len(kept[0]) == 1 else (20, 12, 10)
    margins, target = known_margins(shape, kept)
    table = margins[wrong].totals.reshape([shape[axis] for axis in kept[wrong]]).copy()
    table.flat[0] += 0.1
    margins[wrong] = Margins(shape, kept[wrong], table)
    with pytest.raises(InfeasibleError, match=message):
        Problem(losses.LeastSquares(), margins).solve(target)
    with pytest.raises(InfeasibleError, match="and the total"):
        Problem(losses.LeastSquares(), [margins[0], SumsTo(150.0)]).solve(target)


def test_margins_that_were_rounded_are_no_contradiction():
    margins, target = known_margins((3, 4), [(0,), (1,)])
    rounded = [Margins((3, 4), axis, margins[axis].totals.round(10)) for axis in (0, 1)]
    solution = Problem(losses.LeastSquares(), rounded).solve(target)
    assert solution.status == "optimal"


def test_many_sums_are_certified_without_a_system():
    """Six hundred rows and five columns: more equations than a dense system takes."""
    margins, target = known_margins((600, 5), [(0,), (1,)])
    problem = Problem(losses.LeastSquares(), margins)
    f = problem.minimise(target)
    assert certify(problem, target, f).is_optimal(CERTIFIED, relative=True)
    # Within the set, and off the minimum: an interaction.
    moved = f.reshape(600, 5).copy()
    moved[:2, :2] += 0.01 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    rise = problem.loss.value(moved.ravel(), problem.accept(target)) - problem.loss.value(
        f, problem.accept(target)
    )
    certificate = certify(problem, target, moved.ravel())
    assert certificate.violation <= CERTIFIED
    # The gap is the rise to the minimum and what is proved of that point.
    assert 0 <= certificate.gap - rise <= CERTIFIED * certificate.scale
