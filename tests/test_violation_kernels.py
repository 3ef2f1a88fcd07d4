"""Violations of long vectors: what numpy computes, whatever the numbers are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ldpopt.closed_form import rows
from ldpopt.constraints import (
    Bounds,
    GroupTotals,
    Hierarchy,
    Monotone,
    Unimodal,
    violation_kernels,
)
from ldpopt.constraints.orders import Order
from ldpopt.errors import InvalidInputError

D = 12
RANKS = np.arange(D)
PARENTS = np.array([3, 3, 7, -1, 3, 2, -1, 6, 7, 0, 0, 6])
CHILDREN = np.flatnonzero(PARENTS >= 0)
UPPER = np.where(RANKS % 3 == 0, np.inf, 0.1 + 0.01 * RANKS)
SETS = {
    "chain": Monotone(np.random.default_rng(2).permutation(D)),
    "chain in order": Monotone(RANKS),
    "mode": Unimodal(4),
    "part of a chain": Monotone([2, 9, 4, 1]),
    "pairs": Monotone(np.stack([PARENTS[CHILDREN], CHILDREN], axis=1)),
    "pairs from below": Monotone(np.stack([CHILDREN, PARENTS[CHILDREN]], axis=1)[::-1]),
    "pairs, no forest": Monotone([(0, 2), (1, 2), (0, 3), (1, 3), (9, 1)]),
    "caps": Bounds(0.0, UPPER),
    "floors": Bounds(-UPPER, 0.2),
    "both ends": Bounds(-UPPER, UPPER),
    "hierarchy": Hierarchy(PARENTS),
    "hierarchy, a root alone": Hierarchy(np.where(np.isin(RANKS, [1, 4, 5]), -1, PARENTS)),
    "hierarchy with a total": Hierarchy(PARENTS, total=1.0),
    "hierarchy in order": Hierarchy([-1, -1, 0, 0, 0, 1, 1, 3, 3, 6, 6, 6]),
    "hierarchy in order, roots alone": Hierarchy([-1, -1, -1, 2, 2, 3, 3, 3, 3, 4, 4, 9], 0.75),
    "groups": GroupTotals([[7, 0, 3, 9], [1, 2, 10], [11]], [0.4, 0.35, 0.02]),
    "groups that overlap": GroupTotals([[7, 0, 3, 9], [1, 2, 10, 7]], [0.4, 0.35]),
    "groups, one empty": GroupTotals([[7, 0], [], [11]], [0.4, 0.35, 0.02]),
    "no group": GroupTotals([], []),
}


def both(constraint, f, monkeypatch):
    """Return the violation by numpy, and by the compiled sweeps of long vectors."""
    plain = constraint.violation(f)
    monkeypatch.setattr(rows, "_LONG", 0)
    compiled = constraint.violation(f)
    monkeypatch.undo()
    return plain, compiled


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("shape", [(D,), (3, D), (2, 3, D)])
def test_both_say_the_same(name, shape, monkeypatch):
    f = np.random.default_rng(1).normal(0.1, 0.2, shape)
    plain, compiled = both(SETS[name], f, monkeypatch)
    assert plain.shape == compiled.shape == shape[:-1]
    assert_allclose(compiled, plain, rtol=1e-14, atol=1e-16)
    assert (plain.max() > 0) == (name != "no group")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", [">f8", "<f8", "f4"])
def test_numbers_of_other_machines_are_read_as_what_they_are(name, kind, monkeypatch):
    f = np.random.default_rng(3).integers(-8, 9, D) / 8
    plain, compiled = both(SETS[name], f.astype(kind), monkeypatch)
    assert_allclose(compiled, plain, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_no_number_hides(name, odd, monkeypatch):
    """Each value in turn is odd, and in a stack it spoils its own trial alone."""
    f = np.full((D, D), 1 / D)
    f[RANKS, RANKS] = odd
    plain, compiled = both(SETS[name], f, monkeypatch)
    assert_allclose(compiled, plain, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("order", [Monotone(np.arange(700)), Unimodal(300)], ids=["chain", "mode"])
@pytest.mark.parametrize("at", [0, 255, 256, 299, 300, 511, 512, 698])
def test_each_step_between_neighbours_counts(order, at, monkeypatch):
    """One step is the wrong way, in each block and between two."""
    highest = 0 if isinstance(order, Monotone) else 300
    f = -np.abs(np.arange(700.0) - highest)
    f[[at, at + 1]] = f[[at + 1, at]]
    plain, compiled = both(order, f, monkeypatch)
    assert compiled == plain == 1.0


@pytest.mark.parametrize("name", ["chain", "pairs", "both ends", "hierarchy", "groups"])
def test_a_vector_of_the_set_has_none(name, monkeypatch):
    points = {
        "chain": -np.argsort(SETS["chain"].order).astype(float),
        "pairs": np.zeros(D),
        "both ends": np.zeros(D),
        "hierarchy": np.zeros(D),
        "groups": np.array([0.1, 0.2, 0.1, 0.1, 9, 9, 9, 0.1, 9, 0.1, 0.05, 0.02]),
    }
    plain, compiled = both(SETS[name], points[name], monkeypatch)
    assert plain <= 1e-16
    assert compiled <= 1e-16


@pytest.mark.parametrize("name", sorted(set(SETS) - {"no group"}))
def test_vectors_that_are_too_short_are_refused(name, monkeypatch):
    """Compiled code would read, or write, beyond their end."""
    monkeypatch.setattr(rows, "_LONG", 0)
    with pytest.raises(InvalidInputError):
        SETS[name].violation(np.zeros(2))


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ([-1, -1, -1], (0.0, 6.0)),  # no node has a parent
        ([-1, 0, 0], (4.0, 1.0)),
    ],
)
def test_nothing_behind_the_last_node_is_read(parents, expected):
    """In Python, where that is an error: compiled code reads what lies there in memory."""
    in_python = violation_kernels.largest_differences_in_order.py_func
    (difference,), (of_roots,) = in_python(np.array([[1.0, 2.0, 3.0]]), np.array(parents))
    assert (difference, of_roots) == expected


def test_long_groups_round_as_little_as_numpy_does():
    """One by one, a million additions of .1 are off by 1e-6."""
    d = 1_000_000
    groups = GroupTotals([np.arange(d)], [0.1 * d])
    assert groups.violation(np.full(d, 0.1)) <= 1e-9


def test_groups_that_take_turns_round_as_little():
    """Of three groups the neighbours are in different ones; of a thousand each sum is short."""
    d = 1_000_000
    for number in (3, 1_000):
        groups = [np.arange(first, d, number) for first in range(number)]
        totals = [0.1 * len(group) for group in groups]
        assert GroupTotals(groups, totals).violation(np.full(d, 0.1)) <= 1e-9


@pytest.mark.parametrize("kind", ["low", "high", "both"])
@pytest.mark.parametrize("place", [0, 255, 256, 511, 588])
@pytest.mark.parametrize("odd", [-3.0, 3.0, np.nan])
def test_bounds_are_looked_at_in_every_block(kind, place, odd, monkeypatch):
    """Two blocks of values and a part of one, with bounds that differ and with one number."""
    d = 589
    rng = np.random.default_rng(4)
    width = rng.uniform(0.5, 1.0, d)
    lower = {"low": -width, "high": -0.5, "both": -width}[kind]
    upper = {"low": 0.5, "high": width, "both": width}[kind]
    f = rng.uniform(-0.4, 0.4, (2, d))
    f[1, place] = odd
    plain, compiled = both(Bounds(lower, upper), f, monkeypatch)
    assert_allclose(compiled, plain, rtol=1e-15)
    assert compiled[0] == 0
    assert compiled[1] != 0


class BeyondTheDomain(Order):
    """An order of a user that names a value which is not there, and does not look."""

    def pairs(self, d):
        return np.array([[d + 5, 0]])

    def violation(self, f):
        return self._violation_of_long(f)


def test_pairs_of_an_order_of_ones_own_are_looked_at():
    with pytest.raises(InvalidInputError, match=r"pairs must lie in 0 .. 11, found 17"):
        BeyondTheDomain().violation(np.zeros(D))
