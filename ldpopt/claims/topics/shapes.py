"""Claims that least squares under orders and hierarchies has closed forms, with certificates and against solvers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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

Solve = Callable[[FrequencyEstimate], Array]

_BRANCHING = 3
_ALONE = 32  # values from which vectors go to the solvers one by one; smaller ones many at a time


def _compared(
    instances: InstanceSet,
    make: Callable[[int], Case],
    solvers: tuple[str, ...],
    seen: Callable[[Instance], Instance] = lambda instance: instance,
) -> Agreement:
    """Return the comparison over random instances and emoji, with one problem for every size.

    ``seen`` makes what the problem is about from an instance.
    """
    emoji = [i for i in instances.real if i.name in ("emoji GRR", "emoji OUE")]
    large = [i for i in instances.random if i.estimate.d >= _ALONE] + emoji
    parts, known = [], dict[int, Case]()
    for instances_of_size, joined in ((large, False), (instances.crowd, True)):
        for instance in instances_of_size:
            d = instance.estimate.d
            if d < 3:
                continue
            case = known.setdefault(d, make(d))
            pool = [seen(instance)]
            if joined:
                parts.append(compare_joined(case, pool, solvers))
            else:
                parts.append(compare_with_solvers(case.problem, case.closed_form, pool, solvers))
    return Agreement.merged(parts)


def _finding(parts: list[Agreement]) -> Finding:
    merged = Agreement.merged(parts)
    return Finding(merged.holds, merged.vectors, merged.evidence, agreement=merged)


# --- hierarchies ----------------------------------------------------------------------------------


def _of_every_level(instance: Instance) -> Instance:
    """Return an instance whose values are the leaves of a tree; what is above is estimated with the same noise."""
    n, oracle = instance.estimate.noise
    tree = Hierarchy.balanced(instance.estimate.d, _BRANCHING)
    exact: Array = np.zeros((*instance.estimate.frequencies.shape[:-1], len(tree.parents)))
    exact[..., tree.leaves] = instance.estimate.frequencies
    for node in range(len(tree.parents) - 1, 0, -1):  # parents come first
        exact[..., tree.parents[node]] += exact[..., node]
    noise = instance.estimate.sigma * np.random.default_rng(n + oracle.d).standard_normal(
        exact.shape
    )
    noise[..., tree.leaves] = 0.0  # they have theirs
    protocol = PureProtocol(oracle.epsilon, len(tree.parents), p=oracle.p, q=oracle.q)
    name = f"{instance.name}, every level"
    return Instance(name, instance.kind, FrequencyEstimate(exact + noise, n, protocol))


def _hierarchies(instances: InstanceSet, others: list[Constraint]) -> Finding:
    """Return the finding of least squares on trees, with equal weights and with random ones."""

    def make(d: int, *, weighted: bool) -> Case:
        tree = Hierarchy.balanced(d, _BRANCHING, total=1.0)
        trust = instances.rng().uniform(0.5, 4.0, len(tree.parents)) if weighted else None
        loss = LeastSquares() if trust is None else WeightedLeastSquares(trust)

        def solve(e: FrequencyEstimate) -> Array:
            return closed_form.tree_consistency(
                e.frequencies, tree.parents, trust, tree.root_total, nonnegative=bool(others)
            )

        if trust is None:
            return Case(Problem(loss, [tree, *others]), solve)
        return Case(
            Problem(loss, [tree, *others]),
            solve,
            lambda copies: WeightedLeastSquares(np.tile(trust, copies)),
        )

    makers = (partial(make, weighted=weighted) for weighted in (False, True))
    return _finding(
        [_compared(instances, maker, ("CLARABEL", "OSQP"), _of_every_level) for maker in makers]
    )


@claim(
    "tree-consistency",
    "Hay, Rastogi, Miklau, Suciu 2010",
    "If parents are the sums of their children, least squares with any weights on any tree is two passes.",
    Verdict.HOLDS,
)
def _tree_consistency(instances: InstanceSet) -> Finding:
    return _hierarchies(instances, [])


@claim(
    "tree-consistency-nonnegative",
    "from the KKT conditions",
    "Of such vectors the nearest non-negative one is two passes, repeated without the leaves that came out below zero.",
    Verdict.HOLDS,
)
def _nonnegative_tree_consistency(instances: InstanceSet) -> Finding:
    return _hierarchies(instances, [NonNegative()])


# --- orders ---------------------------------------------------------------------------------------


def _orders(
    instances: InstanceSet, order: Callable[[int], tuple[Monotone | Unimodal, Index]]
) -> Finding:
    """Return the finding of isotonic regression on trees, then Norm-Sub."""

    def make(d: int) -> Case:
        constraint, above = order(d)
        problem = Problem(LeastSquares(), [constraint, NonNegative(), SumsTo(1.0)])
        return Case(
            problem, lambda e: closed_form.norm_sub(closed_form.isotonic(e.frequencies, above))
        )

    return _finding([_compared(instances, make, ("CLARABEL", "QOCO"))])


@claim(
    "tree-order-simplex",
    "from the KKT conditions; pooling as in Pardalos, Xue 1999",
    "With an order that is a tree, least squares on the simplex is Norm-Sub of the isotonic regression by pooling.",
    Verdict.HOLDS,
)
def _tree_order(instances: InstanceSet) -> Finding:
    def order(d: int) -> tuple[Monotone, Index]:
        rng = np.random.default_rng(instances.seed + d)
        parents = np.array([-1, *(rng.integers(0, v) for v in range(1, d))])
        return Monotone(np.stack([parents[1:], np.arange(1, d)], axis=1)), parents

    return _orders(instances, order)


@claim(
    "unimodal-simplex",
    "from the KKT conditions",
    "With a known mode, least squares on the simplex is Norm-Sub of the unimodal regression by pooling.",
    Verdict.HOLDS,
)
def _unimodal(instances: InstanceSet) -> Finding:
    def order(d: int) -> tuple[Unimodal, Index]:
        mode, v = int(np.random.default_rng(instances.seed + d).integers(0, d)), np.arange(d)
        return Unimodal(mode), np.where(v < mode, v + 1, np.where(v > mode, v - 1, -1))

    return _orders(instances, order)
