"""The operators of discovery do what is stated of them, and those of a user are checked."""

import numpy as np
import pytest

from ldpopt import Problem, losses, oracles
from ldpopt import constraints as c
from ldpopt.discovery import OPERATORS, Setting, register_operator
from ldpopt.discovery.compositions import available, expression_of, is_redundant
from ldpopt.discovery.row_facts import row_facts
from ldpopt.errors import InvalidInputError, InvalidTypeError

D = 8
ORACLE = oracles.OUE(1.0, D)
SIMPLEX = [c.NonNegative(), c.SumsTo(1.0)]
GROUPS = c.GroupTotals([[0, 1, 2], [3, 4, 5, 6, 7]], [0.6, 0.4])
ORDER = c.Monotone(np.arange(D))
TIES = c.Linear(np.eye(2, D) - np.eye(2, D, 2), 0.0, 0.0)


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(0).normal(1 / D, 0.15, (40, D)).clip(-0.2, 0.9)


@pytest.fixture(scope="module")
def setting(values):
    everything = [*SIMPLEX, c.Bounds(0.0, 0.5), ORDER, GROUPS, TIES, c.AtMost(5)]
    estimate = oracles_estimate(values)
    return Setting.of(Problem(losses.LeastSquares(), everything), estimate)


def oracles_estimate(values):
    from ldpopt import FrequencyEstimate

    return FrequencyEstimate(values, 4_000, ORACLE, is_raw=True)


def test_every_operator_but_that_of_trees_is_available(setting):
    names = {operator.name for operator in available(setting)}
    assert names == set(OPERATORS) - {"tree passes"}


def test_what_is_not_stated_makes_operators_unavailable():
    plain = Setting.of(Problem(losses.LeastSquares(), SIMPLEX), oracles_estimate(np.full(D, 0.1)))
    names = {operator.name for operator in available(plain)}
    assert not names & {"pool", "mean of ties", "level by group", "level the highest", "clip above"}
    assert {"shift", "level", "binomial root"} <= names


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "tree passes"])
def test_the_properties_hold_on_random_vectors(name, setting, values):
    operator = OPERATORS[name]
    once = operator.apply(values, setting)
    assert once.shape == values.shape
    assert operator.is_partial or np.isfinite(once).all()
    if operator.is_idempotent:
        np.testing.assert_allclose(operator.apply(once, setting), once, atol=1e-12)
    for other in operator.commutes_with:
        there = OPERATORS[other].apply(once, setting)
        back = operator.apply(OPERATORS[other].apply(values, setting), setting)
        np.testing.assert_allclose(there, back, atol=1e-12)
        assert name in OPERATORS[other].commutes_with
    if operator.keeps_order:
        falling = operator.apply(-np.sort(-values, axis=-1), setting)
        falling = falling[np.isfinite(falling).all(axis=-1)]
        assert (np.diff(falling, axis=-1) <= 1e-12).all()


@pytest.mark.parametrize("name", ["pool in the loss's mean", "mean of ties in the loss's mean"])
def test_a_mean_of_the_loss_is_not_defined_where_the_loss_is_not(name, values):
    """No count gives a frequency of -9: the row is left out, and the others are as without it."""
    problem = Problem(losses.BinomialMLE(), [*SIMPLEX, ORDER, TIES])
    stated = Setting.of(problem, oracles_estimate(values))
    impossible = values.copy()
    impossible[3, 0] = -9.0
    partial = OPERATORS[name].apply(impossible, stated)
    whole = OPERATORS[name].apply(values, stated)
    assert np.isnan(partial[3]).all()
    np.testing.assert_array_equal(np.delete(partial, 3, 0), np.delete(whole, 3, 0))


def test_a_tree_is_consistent_after_its_passes():
    tree = c.Hierarchy([-1, 0, 0, 1, 1], total=1.0)
    estimate = oracles.OUE(1.0, 5).estimate([700, 500, 400, 450, 400], 1_000)
    stated = Setting.of(Problem(losses.LeastSquares(), [tree]), estimate)
    passed = OPERATORS["tree passes"].apply(estimate.frequencies[None], stated)
    assert tree.violation(passed) <= 1e-12


def test_rows_of_two_entries_state_orders_and_ties():
    stated = c.Linear([[1.0, -1.0, 0.0], [0.0, 2.0, -2.0]], [0.0, 0.0], [np.inf, np.inf])
    reversed_rows = c.Linear([[0.0, 1.0, -1.0]], -np.inf, 0.0)
    estimate = oracles.OUE(1.0, 3).estimate([30, 40, 50], 100)
    order = Setting.of(Problem(losses.LeastSquares(), [stated]), estimate).order
    assert sorted(map(tuple, order.pairs())) == [(0, 1), (1, 2)]
    order = Setting.of(Problem(losses.LeastSquares(), [reversed_rows]), estimate).order
    assert order.pairs().tolist() == [[2, 1]]
    ties = c.Linear([[1.0, 0.0, -1.0]], 0.0, 0.0)
    stated_ties = Setting.of(Problem(losses.LeastSquares(), [ties]), estimate).ties
    assert stated_ties[0] == stated_ties[2] != stated_ties[1]


def test_what_the_total_leaves_is_one_more_group():
    problem = Problem(losses.LeastSquares(), [*SIMPLEX, c.GroupTotals([[0, 1]], [0.25])])
    stated = Setting.of(problem, oracles_estimate(np.full(D, 0.1)))
    assert stated.groups.totals.tolist() == [0.25, 0.75]


def test_redundant_compositions_are_recognised(setting):
    def redundant(*names):
        *prefix, following = [OPERATORS[name] for name in names]
        return is_redundant(tuple(prefix), following, setting)

    assert redundant("pool", "pool")
    assert redundant("pool", "shift", "pool")  # they change places
    assert redundant("pool", "level", "pool")  # the order is kept
    assert redundant("shift", "pool") != redundant("pool", "shift")
    assert not redundant("pool", "level by group", "pool")
    assert not redundant("clip", "shift", "clip")
    assert not redundant("binomial root", "binomial root")


def test_an_expression_names_the_operators_in_their_sequence():
    assert expression_of([OPERATORS["pool"], OPERATORS["level"]]) == "pool -> level"


# --- operators of a user --------------------------------------------------------------------------


@pytest.fixture
def registered():
    names = []

    def register(function, **options):
        names.append("mine")
        return register_operator("mine", function, **options)

    yield register
    for name in names:
        OPERATORS.remove(name)


def test_a_users_operator_gets_the_parameters_that_it_names(registered, setting, values):
    operator = registered(
        lambda x, total, upper: np.minimum(x, upper) * total, parameters=("total", "upper")
    )
    np.testing.assert_array_equal(operator.apply(values, setting), np.minimum(values, 0.5))
    assert operator in available(setting)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: x[:, :-1], r"must return the shape of its argument, \(40, 8\), got \(40, 7\)"),
        (lambda x: x * np.where(x == x[3, 2], np.nan, 1), "got nan at value 2 of row 3"),
        (lambda x: x * np.inf, "must return finite numbers, got"),
        (lambda _: "text", "must return an array of numbers, got 'text'"),
    ],
)
def test_a_hostile_operator_is_a_clear_error(registered, setting, values, function, sentence):
    operator = registered(function)
    with pytest.raises(InvalidInputError, match=f"the operator 'mine' .*{sentence}"):
        operator.apply(values, setting)


def test_an_operator_cannot_change_its_argument(registered, setting, values):
    def spoil(x):
        x[:] = 0
        return x

    before = values.copy()
    registered(spoil).apply(values, setting)
    np.testing.assert_array_equal(values, before)


def test_bad_registrations_are_clear_errors():
    with pytest.raises(InvalidInputError, match="already: choose another name"):
        register_operator("pool", lambda x: x)
    with pytest.raises(InvalidTypeError, match="a text without '->'"):
        register_operator("a -> b", lambda x: x)
    with pytest.raises(InvalidTypeError, match="must be a function"):
        register_operator("mine too", 3)
    with pytest.raises(InvalidInputError, match="unknown parameter of operators 'totals'"):
        register_operator("mine too", lambda x: x, parameters=("totals",))
    with pytest.raises(InvalidInputError, match="only your own are removed"):
        OPERATORS.remove("pool")
    with pytest.raises(InvalidInputError, match="unknown operator 'mine too'"):
        OPERATORS.remove("mine too")


# --- facts of rows --------------------------------------------------------------------------------


def test_rows_and_cvxpy_constraints_state_bounds_totals_and_groups():
    rows = c.Linear([[-2.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 3.0, 3.0]], [-1, 1, 1.5], [0, 1, 1.5])
    stated = row_facts((rows,), 3)
    assert stated.lower.tolist() == [0.0, -np.inf, -np.inf]
    assert stated.upper.tolist() == [0.5, np.inf, np.inf]
    assert stated.total == 1.0
    ((members, total),) = stated.groups
    assert (members.tolist(), total) == ([1, 2], 0.5)
    custom = c.Custom(lambda f: [f[0] >= 0.25, f[1] == f[2], f[0] >= f[1], sum(f) == 1])
    by_cvxpy = row_facts((custom,), 3)
    assert by_cvxpy.lower[0] == 0.25
    assert by_cvxpy.equal.tolist() == [[1, 2]]
    assert by_cvxpy.above.tolist() == [[0, 1]]
    assert by_cvxpy.total == 1.0


def test_curved_sets_and_rows_of_other_kinds_state_nothing():
    curved = c.Near(np.full(3, 1 / 3), 0.1, 2)
    other = c.Linear([[1.0, -2.0, 0.0], [1.0, 1.0, 0.0]], [0.0, 0.2], [0.0, np.inf])
    stated = row_facts((curved, other), 3)
    assert not np.isfinite([stated.lower, stated.upper]).any()
    assert stated.total is None
    assert stated.groups == []
    assert len(stated.above) == 0
    assert len(stated.equal) == 0


def test_groups_that_overlap_are_no_parameter():
    problem = Problem(losses.LeastSquares(), [c.GroupTotals([[0, 1], [1, 2]], [0.5, 0.5])])
    assert Setting.of(problem, oracles_estimate(np.full(D, 0.1))).groups is None


def test_a_row_without_a_minimum_is_found_among_many(setting, values):
    """By halves: the other rows get what they get without it."""
    operator = OPERATORS["KL root by group"]
    # Of the first group no value is positive: no factor gives it a total.
    rows = np.abs(values) + 0.01
    rows[[3, 17, 18], :3] = -0.1
    applied = operator.apply(rows, setting)
    assert np.flatnonzero(np.isnan(applied).any(axis=1)).tolist() == [3, 17, 18]
    kept = np.setdiff1d(np.arange(len(rows)), [3, 17, 18])
    np.testing.assert_allclose(applied[kept], operator.apply(rows[kept], setting), atol=1e-12)


def test_a_negative_total_does_not_turn_an_order_over(values):
    """A negative factor would: what a search knows of the operator is that it keeps orders."""
    problem = Problem(losses.LeastSquares(), [c.SumsTo(-1.0)])
    negative = Setting.of(problem, oracles_estimate(values))
    rows = np.sort(np.abs(values), axis=1)
    assert np.all(np.diff(OPERATORS["scale"].apply(rows, negative), axis=1) >= 0)


def test_the_mean_of_ties_is_that_of_each_class(setting, values):
    means = OPERATORS["mean of ties"].apply(values, setting)
    expected = values.copy()
    for pair in ([0, 2], [1, 3]):
        expected[:, pair] = values[:, pair].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(means, expected, atol=1e-15)


def test_the_registry_shows_what_each_operator_does():
    lines = str(OPERATORS).splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == list(OPERATORS)
    assert all(operator.text in str(OPERATORS) for operator in OPERATORS.values())
    assert repr(OPERATORS).startswith("Operators(pool, mean of ties, ")
