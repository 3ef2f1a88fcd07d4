"""Partial orders: pooling on trees against solvers and a reference, forests, and cycles."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ldpopt import Problem, certify, closed_form
from ldpopt.closed_form import tree_kernels
from ldpopt.constraints import Bounds, Monotone, NonNegative, Order, SumsTo, Unimodal
from ldpopt.constraints.isotonic import ForestOrder, order_of
from ldpopt.errors import FunctionError, InvalidInputError
from ldpopt.losses import L1To, LeastSquares, WeightedLeastSquares
from tests.tolerances import CERTIFIED, ROUNDING, SOLVER

OTHERS = {
    "alone": [],
    "non-negative": [NonNegative()],
    "total": [SumsTo()],
    "simplex": [NonNegative(), SumsTo()],
}


def random_forest(rng, d, roots=1):
    """Parents of d shuffled values; each but the roots hangs below an earlier one."""
    above = np.array([-1 if v < roots else rng.integers(0, v) for v in range(d)])
    place = rng.permutation(d)
    parents = np.full(d, -1)
    parents[place] = np.where(above < 0, -1, place[above])
    return parents


def pairs_of(parents):
    children = np.flatnonzero(parents >= 0)
    return np.stack([parents[children], children], axis=1)


def isotonic_by_minimax(f, parents, weights):
    """The min-max formula: the least over lower sets of the greatest mean over upper sets. Slow."""
    d = len(f)
    sets = [np.array(bits, dtype=bool) for bits in itertools.product([0, 1], repeat=d)]
    uppers = [s for s in sets if all(parents[v] < 0 or s[parents[v]] for v in np.flatnonzero(s))]

    def mean(s):
        return np.average(f[s], weights=weights[s])

    result = np.empty(d)
    for v in range(d):
        result[v] = max(
            min(mean(up & ~low) for low in uppers if not low[v]) for up in uppers if up[v]
        )
    return result


# --- pooling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_pooling_on_a_tree_is_the_min_max_formula(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 8))
    parents = random_forest(rng, d, roots=int(rng.integers(1, d + 1)))
    f = rng.normal(0, 1, d)
    weights = rng.uniform(0.2, 5, d)
    expected = isotonic_by_minimax(f, parents, weights)
    assert_allclose(closed_form.isotonic(f, parents, weights), expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 2, 50, 1000])
def test_a_chain_pools_alike_as_a_chain_and_as_a_tree(d, weighted):
    rng = np.random.default_rng(d)
    f = rng.normal(0, 1, (3, 2, d))
    order = rng.permutation(d)
    weights = rng.uniform(0.2, 5, d) if weighted else None
    parents = np.full(d, -1)
    parents[order[1:]] = order[:-1]
    chain = closed_form.monotone(f, order, weights)
    assert_allclose(closed_form.isotonic(f, parents, weights), chain, rtol=0, atol=10 * ROUNDING)


def isotonic_properties(f, result, parents):
    """Return how far the point breaks the KKT conditions, by the residuals' flow up the tree."""
    depth = np.zeros(len(f), dtype=int)
    for v in range(len(f)):
        u = v
        while parents[u] >= 0:
            u = parents[u]
            depth[v] += 1
    flow = f - result  # a child pushes its parent up by what its own subtree is held down by
    broken = 0.0
    for v in np.argsort(-depth):
        if parents[v] < 0:
            broken = max(broken, abs(flow[v]))
            continue
        slack = result[parents[v]] - result[v]
        broken = max(broken, -slack, -flow[v], min(abs(flow[v]), slack))
        flow[parents[v]] += flow[v]
    return broken


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 5), st.booleans())
def test_pooling_on_any_forest_meets_the_kkt_conditions(seed, d, roots, ties):
    rng = np.random.default_rng(seed)
    parents = random_forest(rng, d, min(roots, d))
    f = rng.integers(-2, 3, d) / 4 if ties else rng.normal(0, 1, d)
    result = closed_form.isotonic(f.astype(float), parents)
    assert isotonic_properties(f, result, parents) <= d * ROUNDING


def test_the_trials_of_a_stack_are_solved_one_by_one():
    rng = np.random.default_rng(3)
    parents = random_forest(rng, 30, 3)
    f = rng.normal(0, 1, (2, 4, 30))
    stacked = closed_form.isotonic(f, parents)
    for trial in np.ndindex(2, 4):
        assert_array_equal(stacked[trial], closed_form.isotonic(f[trial], parents))


def test_deep_and_wide_trees_take_no_recursion():
    d = 200_000
    f = np.random.default_rng(4).normal(0, 1, d)
    for parents in (np.arange(d) - 1, np.r_[-1, np.zeros(d - 1, dtype=int)]):
        result = closed_form.isotonic(f, parents)
        below = np.flatnonzero(parents >= 0)
        assert (result[parents[below]] >= result[below]).all()
        assert_allclose(result.sum(), f.sum(), rtol=0, atol=1e-9)


# --- problems -------------------------------------------------------------------------------------

ORDERS = {
    "tree": lambda d, rng: Monotone(pairs_of(random_forest(rng, d))),
    "tree with its root lowest": lambda d, rng: Monotone(pairs_of(random_forest(rng, d))[:, ::-1]),
    "two trees and free values": lambda d, rng: Monotone(pairs_of(random_forest(rng, d, 4))),
    "several chains": lambda d, rng: Monotone([(v, v + 1) for v in range(d - 1) if v % 4]),
    "unimodal": lambda d, rng: Unimodal(int(rng.integers(0, d))),
    "rising": lambda d, rng: Unimodal(d - 1),
}


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("kind", ORDERS)
def test_the_closed_form_of_an_order_agrees_with_two_solvers(kind, others):
    first = [*ORDERS].index(kind) + [*OTHERS].index(others)
    for seed, d in enumerate([2, 5, 30]):
        rng = np.random.default_rng(seed)
        f = rng.normal(1 / d, 0.3, (2, d))
        problem = Problem(LeastSquares(), [ORDERS[kind](d, rng), *OTHERS[others]])
        exact = problem.solve(f, path="closed-form")
        assert exact.certificate.violation.max() <= CERTIFIED
        # In turns: each size, order and set of others meets both.
        solver = ("CLARABEL", "QOCO")[(first + seed) % 2]
        numeric = problem.solve(f, path="conic", solver=solver)
        assert_allclose(exact.frequencies, numeric.frequencies, rtol=0, atol=SOLVER[solver])


@pytest.mark.parametrize("others", ["alone", "non-negative"])
@pytest.mark.parametrize("kind", [*ORDERS, "chain"])
def test_the_weighted_closed_form_agrees_with_the_solver(kind, others):
    d = 12
    rng = np.random.default_rng(5)
    order = Monotone(rng.permutation(d)) if kind == "chain" else ORDERS[kind](d, rng)
    problem = Problem(WeightedLeastSquares(rng.uniform(0.2, 5, d)), [order, *OTHERS[others]])
    f = rng.normal(1 / d, 0.3, d)
    exact = problem.solve(f, path="closed-form")
    numeric = problem.solve(f, path="conic")
    assert_allclose(exact.frequencies, numeric.frequencies, rtol=0, atol=SOLVER["CLARABEL"])


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(ORDERS)))
def test_pooling_then_norm_sub_is_certified_on_every_forest(kind_seed, kind):
    rng = np.random.default_rng(kind_seed)
    d = int(rng.integers(2, 15))
    problem = Problem(LeastSquares(), [ORDERS[kind](d, rng), NonNegative(), SumsTo()])
    solution = problem.solve(rng.normal(1 / d, 0.4, d))
    assert solution.solver == "pava, norm-sub"
    assert solution.certificate.is_optimal(CERTIFIED)


def test_a_millionth_moved_within_a_tree_is_noticed():
    problem = Problem(LeastSquares(), [Monotone([(0, 1), (0, 2), (2, 3)]), NonNegative(), SumsTo()])
    f = np.array([0.2, 0.5, 0.4, 0.1])
    right = problem.solve(f).frequencies
    assert certify(problem, f, right).is_optimal(CERTIFIED)
    assert not certify(problem, f, right + np.array([1e-6, 0, 0, -1e-6])).is_optimal(1e-9)


def test_a_row_is_named_by_its_pair():
    assert Monotone([(3, 1), (0, 2)]).row_name(1, 4) == "f[0] >= f[2]"
    assert [Unimodal(1).row_name(row, 3) for row in range(2)] == ["f[1] >= f[0]", "f[1] >= f[2]"]


@pytest.mark.parametrize("mode", range(5))
def test_the_tree_of_a_mode_is_that_of_its_pairs(mode):
    pairs = Monotone(Unimodal(mode).pairs(5))
    parents, sign = Unimodal(mode).forest(5)
    assert sign == pairs.forest(5)[1] == 1
    assert_array_equal(parents, pairs.forest(5)[0])


def test_orders_that_are_no_forest_are_pooled_by_flows():
    diamond = Monotone([(0, 1), (0, 2), (1, 3), (2, 3)])
    problem = Problem(LeastSquares(), [diamond, NonNegative(), SumsTo()])
    f = np.array([0.1, 0.5, 0.2, 0.4])
    # By hand: 0 and 1 pool at 0.3, 2 and 3 at 0.3, and all have one mean; 1.2 is then shared.
    solution = problem.solve(f)
    assert solution.solver == "pooling by flows, norm-sub"
    assert_allclose(solution.frequencies, 0.25, rtol=0, atol=1e-15)
    # Bounds of each value would cut a block that is pooled already.
    caps = Problem(LeastSquares(), [diamond, Bounds(0.0, [0.4, 0.3, 0.3, 0.3]), SumsTo()])
    assert caps.explain(f).startswith("conic")
    assert_allclose(caps.solve(f).frequencies, 0.25, rtol=0, atol=SOLVER["CLARABEL"])


def test_a_weighted_tree_on_the_simplex_is_pooled_inside_the_root():
    problem = Problem(WeightedLeastSquares([1, 2, 3]), [Unimodal(1), NonNegative(), SumsTo()])
    solution = problem.solve([0.6, 0.5, 0.3])
    assert solution.solver == "pava between bounds, one root"
    assert solution.certificate.is_optimal(CERTIFIED)


# --- cycles ---------------------------------------------------------------------------------------


def test_an_error_names_a_cycle_in_the_order_of_its_pairs():
    pairs = [(0, 1), (1, 2), (2, 7), (7, 5), (5, 1), (0, 9), (9, 5)]
    with pytest.raises(InvalidInputError, match="cycle, found ") as error:
        Monotone(pairs)
    cycle = [int(v) for v in str(error.value).split("found ")[1].split(":")[0].split(" >= ")]
    assert cycle[0] == cycle[-1]
    assert sorted(cycle[1:]) == [1, 2, 5, 7]
    assert set(itertools.pairwise(cycle)) <= set(pairs)


@given(st.integers(0, 2**32 - 1), st.integers(2, 12))
def test_pairs_are_refused_exactly_if_they_have_a_cycle(seed, d):
    rng = np.random.default_rng(seed)
    pairs = np.unique([rng.choice(d, 2, replace=False) for _ in range(d)], axis=0)
    reach = np.eye(d, dtype=bool)
    for _ in range(d):
        for a, b in pairs:
            reach[a] |= reach[b]
    cyclic = (reach & reach.T & ~np.eye(d, dtype=bool)).any()
    if cyclic:
        with pytest.raises(InvalidInputError, match="cycle"):
            Monotone(pairs)
    else:
        Monotone(pairs).validate_for(d)


@pytest.mark.parametrize("tight", [False, True], ids=["loose caps", "caps that hold everywhere"])
@pytest.mark.parametrize("seed", range(3))
def test_a_chain_with_own_caps_takes_newton_steps_to_the_root_of_a_stack(seed, tight, monkeypatch):
    rng = np.random.default_rng(seed)
    d = 60
    spread = 1.3 if tight else 20.0
    caps = rng.uniform(0.9, 1.1, d) * spread / d
    where = [Monotone(rng.permutation(d)), Bounds(0.0, caps), SumsTo(1.0)]
    problem = Problem(LeastSquares(), where)
    stack = rng.normal(0.0 if tight else 1 / d, 0.5 if tight else 0.05, (3, d))
    searched = problem.minimise(stack)
    evaluations = []
    right = tree_kernels.pool_chain

    def counted(*arguments):
        evaluations.append(len(arguments[0]))
        return right(*arguments)

    monkeypatch.setattr(tree_kernels, "pool_chain", counted)
    for vector, expected in zip(stack, searched, strict=True):
        solution = problem.solve(vector)
        assert solution.certificate.is_optimal(1e-12)
        assert_allclose(solution.frequencies, expected, rtol=0, atol=1e-10)
    # The search takes 12 to 20 evaluations per vector.
    assert len(evaluations) <= 30


def is_of_lines(members, comparable):
    """Whether the members of each column are comparable to each other."""
    return all(comparable[np.ix_(column, column)].all() for column in members.T)


def test_an_order_is_a_forest_where_all_above_or_all_below_a_value_are_in_one_line():
    rng = np.random.default_rng(0)
    d = 8
    forests = 0
    for _ in range(300):
        is_pair = np.triu(rng.random((d, d)) < rng.uniform(0.05, 0.4), 1)
        reaches = is_pair.copy()
        for middle in range(d):
            reaches |= reaches[:, [middle]] & reaches[[middle]]
        comparable = reaches | reaches.T | np.eye(d, dtype=bool)
        expected = is_of_lines(reaches, comparable) or is_of_lines(reaches.T, comparable)
        pairs = rng.permutation(d)[rng.permutation(np.argwhere(is_pair))]
        assert isinstance(order_of(pairs, d), ForestOrder) == expected
        forests += expected
    assert 50 < forests < 250


@pytest.mark.parametrize("lower", [0.0, [-1.0, 0.0, 0.0, 0.0, 0.0]], ids=["zeros", "others below"])
def test_values_split_down_to_a_bound_are_at_the_bound(lower):
    """Halving ends at 1e-20, which is more than nothing beside a minimum of 0."""
    loss = LeastSquares() + 1e-4 * L1To(np.full(5, 0.1))
    problem = Problem(loss, [Bounds(lower, np.inf), Monotone([0, 1, 2, 3, 4])])
    for seed in range(10):
        target = np.random.default_rng(seed).normal(size=5) - 0.7
        solution = problem.solve(target, path="closed-form")
        f = solution.frequencies
        assert not ((f > 0) & (f < 1e-15)).any(), seed
        assert solution.status == "optimal", seed


# --- splitting by slopes --------------------------------------------------------------------------


def split_by_halving(slopes, lowest, highest, parents):
    """The minimiser by 60 halvings; each time all sets that hold the parents are tried."""
    d = len(parents)
    sets = [np.array(bits, dtype=bool) for bits in itertools.product([0, 1], repeat=d)]
    closed = np.array(
        [s for s in sets if all(parents[v] < 0 or s[parents[v]] for v in np.flatnonzero(s))]
    )
    low = np.full(d, lowest)
    high = np.full(d, highest)
    for _ in range(60):
        middle = low + (high - low) / 2
        above = np.zeros(d, dtype=bool)
        for first, last in {*zip(low, high, strict=True)}:
            block = (low == first) & (high == last)
            at = slopes(middle)
            inside = closed & block
            # Of sets with the same sum the smallest.
            first_of_all = np.lexsort((inside.sum(axis=1), inside @ at))[0]
            above |= inside[first_of_all]
        low = np.where(above, middle, low)
        high = np.where(above, high, middle)
    return low + (high - low) / 2


KINDS_OF_SLOPES = {
    "squares": lambda t, place, weight: weight * (t - place),
    "fourth powers": lambda t, place, weight: weight * (t - place) ** 3 + 1e-3 * (t - place),
    "logarithms": lambda t, place, weight: weight - np.abs(place) / np.maximum(t, 1e-300),
    "deviations": lambda t, place, weight: weight * np.sign(t - place),
    "squares between bounds": lambda t, place, weight: np.where(
        t >= 0.5, np.inf, np.where(t < 0.125, -np.inf, weight * (t - place))
    ),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS_OF_SLOPES)
def test_values_are_split_where_halving_splits_them(kind, seed):
    rng = np.random.default_rng(seed)
    parents = random_forest(rng, 6, roots=1 + seed % 2)
    places = rng.normal(0.4, 0.4, (3, 6))
    # No two sums of them are equal: a minimum of deviations is one vector.
    weights = rng.uniform(0.5, 2.0, (3, 6))

    def slopes(t):
        return KINDS_OF_SLOPES[kind](t, places, weights)

    ends = (np.zeros((3, 1)), np.ones((3, 1)))
    split = closed_form.split_by_slopes(slopes, *ends, parents)
    steepest = closed_form.STEEPEST_SLOPE
    for trial in range(3):
        expected = split_by_halving(
            lambda t: np.clip(slopes(np.tile(t, (3, 1)))[trial], -steepest, steepest),  # noqa: B023
            *(0.0, 1.0),
            parents,
        )
        assert_allclose(split[trial], expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("unit", [1e-320, 1e-300, 1.0, 1e150])
def test_intervals_of_any_size_end(unit):
    places = unit * np.array([[0.25, 0.5, 0.75]])
    ends = (np.zeros((1, 1)), np.full((1, 1), unit))
    split = closed_form.split_by_slopes(lambda t: t - places, *ends, np.array([-1, 0, 1]))
    assert_allclose(split, np.full((1, 3), unit / 2), rtol=ROUNDING, atol=5e-324)


class OwnOrder(Order):
    """An order that a user states, rightly or wrongly."""

    def __init__(self, stated):
        self.stated = stated

    def pairs(self, d):
        return self.stated


@pytest.mark.parametrize("stated", [[(1, 0), (1, 2)], [(0, 1), (2, 1), (2, 3)], [(3, 2), (2, 0)]])
def test_an_order_of_ones_own_is_that_of_its_pairs(stated):
    x = [0.1, 0.5, 0.2, 0.3]
    minimiser = Problem(LeastSquares(), [OwnOrder(np.array(stated)), SumsTo()]).minimise(x)
    assert_array_equal(minimiser, Problem(LeastSquares(), [Monotone(stated), SumsTo()]).minimise(x))


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ([(0, 1)], r"an array of whole numbers of shape \(m, 2\), got \[\(0, 1\)\]"),
        (np.array([(0.0, 1.0)]), r"an array of whole numbers of shape \(m, 2\)"),
        (np.array([0, 1, 2]), r"of shape \(m, 2\), got array\(\[0, 1, 2\]\)"),
        (np.array([(0, 1, 2)]), r"of shape \(m, 2\), got array\(\[\[0, 1, 2\]\]\)"),
        (np.array([(0, 1), (1, 4)]), r"of the values 0 .. 3, found \(1, 4\) at position 1"),
        (np.array([(0, 1), (-1, 2)]), r"of the values 0 .. 3, found \(-1, 2\) at position 1"),
        (np.array([(0, 1), (1, 1)]), r"put a value above itself, found \(1, 1\) at position 1"),
        (np.array([(0, 1), (0, 1)]), r"not repeat a pair, found \(0, 1\) again at position 1"),
        (np.array([(0, 1), (1, 0), (2, 3)]), "no cycle, found (0 >= 1 >= 0|1 >= 0 >= 1)"),
        (np.array([(0, 1), (1, 2), (2, 0)]), "no cycle, found"),
    ],
)
@pytest.mark.parametrize("others", ["alone", "simplex"])
def test_pairs_of_ones_own_that_are_no_order_are_refused(stated, sentence, others):
    """The forest of a cycle has no root, and a passage along it proved any point."""
    problem = Problem(LeastSquares(), [OwnOrder(stated), *OTHERS[others]])
    sentence = rf"the pairs of OwnOrder\(\) must .*{sentence}"
    with pytest.raises(InvalidInputError, match=sentence):
        problem.solve([0.1, 0.5, 0.2, 0.3])
    with pytest.raises(InvalidInputError, match=sentence):
        certify(problem, [0.1, 0.5, 0.2, 0.3], np.full(4, 0.25))


def test_an_error_in_the_pairs_says_where_it_is():
    problem = Problem(LeastSquares(), [OwnOrder(None)])
    with pytest.raises(InvalidInputError, match=r"the pairs of OwnOrder\(\) must be an array"):
        problem.solve([0.1, 0.5])

    class Broken(Order):
        def pairs(self, d):
            raise KeyError("rank")

    with pytest.raises(FunctionError, match=r"the pairs of Broken\(\) failed: KeyError"):
        Problem(LeastSquares(), [Broken()]).solve([0.1, 0.5])


def test_a_chain_that_nobody_states_is_pooled_in_one_pass(monkeypatch):
    """The kernel of forests sorts: O(d log d) in place of O(d)."""
    monkeypatch.setattr(tree_kernels, "pool", lambda *_: pytest.fail("pooled as a forest"))
    chain = np.array([-1, 0, 1])
    pooled = closed_form.isotonic(np.array([0.1, 0.5, 0.3]), chain)
    assert_allclose(pooled, [0.3, 0.3, 0.3], rtol=0, atol=ROUNDING)
