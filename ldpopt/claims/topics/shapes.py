"""Claims that least squares under orders and hierarchies has closed forms."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.agreement import Agreement, compare_with_solvers
from ldpopt.claims.engine.batches import Case, compare_joined
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import Instance, InstanceSet
from ldpopt.constraints import Constraint, Hierarchy, Monotone, NonNegative, SumsTo, Unimodal
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares, WeightedLeastSquares
from ldpopt.protocol import PureProtocol
from ldpopt.solve.problem import Problem

TITLE = "Closed forms of least squares under orders and hierarchies"
ORDER = 30

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_BRANCHING = 3
_ROOT = 1.0  # the frequencies of all users together
_ALONE = 32  # values from which vectors go to the solvers one by one; smaller ones many at a time


def _unchanged(instance: Instance) -> Instance:
    return instance


def _over_sizes(
    instances: InstanceSet,
    make: Callable[[int], Case],
    solvers: tuple[str, ...],
    transform: Callable[[Instance], Instance] = _unchanged,
) -> Agreement:
    """Return the comparison over random instances and emoji, with one case for every size.

    ``transform`` makes what the problem is about from an instance.
    """
    case_of = functools.cache(make)
    parts = []
    # One estimate that sums to 1 and one that does not.
    emoji = [i for i in instances.real if i.name in ("emoji grr", "emoji oue")]
    large = [i for i in instances.random if i.estimate.d >= _ALONE]
    small = [i for i in instances.crowd if i.estimate.d > 2]  # two values have one order and tree
    for instance in large + emoji:
        case = case_of(instance.estimate.d)
        stack = [transform(instance)]
        parts.append(compare_with_solvers(case.problem, case.closed_form, stack, solvers))
    # All stacks of a size at once: they share one joined problem, and compiling it takes longer
    # than solving it for all of them.
    for d in sorted({instance.estimate.d for instance in small}):
        stacks = [transform(instance) for instance in small if instance.estimate.d == d]
        parts.append(compare_joined(case_of(d), stacks, solvers))
    return Agreement.merged(parts)


# --- hierarchies ----------------------------------------------------------------------------------


def _with_every_level(instance: Instance) -> Instance:
    """Return an instance of all nodes of a tree whose leaves are the given instance's values.

    Nodes above the leaves are estimated with the same noise.
    """
    n = instance.estimate.noise.require_n()
    oracle = instance.estimate.noise.require_protocol()
    leaves = instance.estimate.frequencies
    tree = Hierarchy.balanced(instance.estimate.d, _BRANCHING)
    nodes = len(tree.parents)
    totals: Array = np.zeros((*leaves.shape[:-1], nodes))
    totals[..., tree.leaves] = leaves
    for node in range(nodes - 1, 0, -1):  # parents come first, so children are complete
        totals[..., tree.parents[node]] += totals[..., node]
    # By n and d, so that both kinds of weights see the same noise.
    rng = np.random.default_rng(n + oracle.d)
    # Each level collected by as many users as the leaves: hence the same σ.
    noise = instance.estimate.sigma * rng.standard_normal(totals.shape)
    noise[..., tree.leaves] = 0.0  # the leaves have theirs
    protocol = PureProtocol(oracle.epsilon, nodes, p=oracle.p, q=oracle.q)
    estimate = FrequencyEstimate(totals + noise, n, protocol, is_raw=True)
    return Instance(f"{instance.name}, every level", instance.kind, estimate)


def _tree_case(d: int, weights_rng: np.random.Generator | None, others: list[Constraint]) -> Case:
    """Return least squares on a balanced tree, with random weights if there is a generator."""
    tree = Hierarchy.balanced(d, _BRANCHING, total=_ROOT)
    weights = None
    if weights_rng is not None:
        # Far enough from equal that ignoring the weights would be seen.
        weights = weights_rng.uniform(0.5, 4.0, len(tree.parents))

    def two_passes(estimate: FrequencyEstimate) -> Array:
        return closed_form.tree_consistency(
            estimate.frequencies, tree.parents, weights, _ROOT, nonnegative=bool(others)
        )

    if weights is None:
        return Case(Problem(LeastSquares(), [tree, *others]), two_passes)
    return Case(
        Problem(WeightedLeastSquares(weights), [tree, *others]),
        two_passes,
        tiled_loss=lambda copies: WeightedLeastSquares(np.tile(weights, copies)),
    )


def _hierarchies(instances: InstanceSet, others: list[Constraint]) -> Finding:
    """Return the finding of least squares on trees, with equal weights and with random ones."""
    solvers = ("CLARABEL", "OSQP")

    def equal(d: int) -> Case:
        return _tree_case(d, None, others)

    def weighted(d: int) -> Case:
        return _tree_case(d, instances.rng(), others)

    parts = [
        _over_sizes(instances, make, solvers, transform=_with_every_level)
        for make in (equal, weighted)
    ]
    return Finding.of(Agreement.merged(parts))


@claim(
    "tree-consistency",
    "Hay, Rastogi, Miklau, Suciu 2010",
    "If parents are the sums of their children, least squares with any weights on any tree is two "
    "passes.",
    Verdict.HOLDS,
)
def tree_consistency(instances: InstanceSet) -> Finding:
    """Certify the two passes on balanced trees with equal and random weights; use two solvers.

    Every node is estimated; the root is 1. On random instances with d ≥ 32, emoji and the crowd
    instances with d > 2. Red if a gap exceeds GAP or a solver converges to a point that differs by
    more than its objective allows.
    """
    return _hierarchies(instances, [])


@claim(
    "tree-consistency-nonnegative",
    "from the KKT conditions",
    "The nearest such vector without negative values is two passes, repeated without the leaves "
    "that came out below zero.",
    Verdict.HOLDS,
)
def tree_consistency_nonnegative(instances: InstanceSet) -> Finding:
    """Certify the repeated passes on balanced trees with equal and random weights; use two solvers.

    On the instances of `tree-consistency`. Red if a gap exceeds GAP or a solver converges to
    a point that differs by more than its objective allows.
    """
    return _hierarchies(instances, [NonNegative()])


# --- orders ---------------------------------------------------------------------------------------


def _orders(
    instances: InstanceSet, order: Callable[[int], tuple[Monotone | Unimodal, Index]]
) -> Finding:
    """Return the finding of Norm-Sub after isotonic regression on trees.

    ``order`` returns the constraint on d values, and for each value the one above it (-1: none).
    """

    def make(d: int) -> Case:
        constraint, above = order(d)
        problem = Problem(LeastSquares(), [constraint, NonNegative(), SumsTo(1.0)])
        return Case(
            problem, lambda e: closed_form.norm_sub(closed_form.isotonic(e.frequencies, above))
        )

    return Finding.of(_over_sizes(instances, make, ("CLARABEL", "QOCO")))


@claim(
    "tree-order-simplex",
    "from the KKT conditions; pooling as in Pardalos, Xue 1999",
    "With an order that is a tree, least squares on the simplex is Norm-Sub of the isotonic "
    "regression by pooling.",
    Verdict.HOLDS,
)
def tree_order_simplex(instances: InstanceSet) -> Finding:
    """Certify pooling and Norm-Sub on random trees, one per size, and compare with two solvers.

    On random instances with d ≥ 32, emoji and the crowd instances with d > 2. Red if a gap exceeds
    GAP or a solver converges to a point that differs by more than its objective allows.
    """

    def order(d: int) -> tuple[Monotone, Index]:
        # Each value is below an earlier one: a random tree.
        rng = np.random.default_rng(instances.seed + d)
        parents = np.array([-1, *(rng.integers(0, v) for v in range(1, d))])
        edges = np.stack([parents[1:], np.arange(1, d)], axis=1)
        return Monotone(edges), parents

    return _orders(instances, order)


@claim(
    "unimodal-simplex",
    "from the KKT conditions",
    "With a known mode, least squares on the simplex is Norm-Sub of the unimodal regression by "
    "pooling.",
    Verdict.HOLDS,
)
def unimodal_simplex(instances: InstanceSet) -> Finding:
    """Certify pooling and Norm-Sub with a random mode per size, and compare with two solvers.

    On random instances with d ≥ 32, emoji and the crowd instances with d > 2. Red if a gap exceeds
    GAP or a solver converges to a point that differs by more than its objective allows.
    """

    def order(d: int) -> tuple[Unimodal, Index]:
        mode = int(np.random.default_rng(instances.seed + d).integers(0, d))
        values = np.arange(d)
        towards_mode = values + np.sign(mode - values)
        return Unimodal(mode), np.where(values == mode, -1, towards_mode)

    return _orders(instances, order)
