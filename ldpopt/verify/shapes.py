"""Claims that least squares under orders and hierarchies has closed forms, with certificates and against solvers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import Constraint, Hierarchy, Monotone, NonNegative, SumsTo, Unimodal
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares, WeightedLeastSquares
from ldpopt.problem import Problem
from ldpopt.verify.agreement import Agreement, compare
from ldpopt.verify.claim import Finding, Verdict, claim
from ldpopt.verify.instances import Bench, Instance

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_BRANCHING = 3


def _finding(parts: list[Agreement]) -> Finding:
    merged = Agreement.merged(parts)
    return Finding(merged.holds, merged.vectors, merged.evidence, agreement=merged)


def _collected(bench: Bench) -> list[Instance]:
    """Return the random instances, and emoji."""
    return [i for i in bench.random + bench.real if i.kind == "random" or i.name.startswith("emoji")]


# --- hierarchies ----------------------------------------------------------------------------------


def _of_every_level(instance: Instance, rng: np.random.Generator) -> tuple[Instance, Hierarchy]:
    """Return an instance whose values are the leaves of a tree; what is above is estimated with the same noise."""
    leaves = instance.estimate.frequencies.reshape(-1, instance.estimate.d)
    tree = Hierarchy.balanced(leaves.shape[1], _BRANCHING, total=1.0)
    exact = np.zeros((len(leaves), len(tree.parents)))
    exact[:, tree.leaves] = leaves
    for node in range(len(tree.parents) - 1, 0, -1):  # parents come first
        exact[:, tree.parents[node]] += exact[:, node]
    noise = instance.estimate.sigma * rng.standard_normal(exact.shape)
    noise[:, tree.leaves] = 0.0  # they have theirs
    return Instance(f"{instance.name}, every level", instance.kind, FrequencyEstimate(exact + noise)), tree


def _hierarchies(bench: Bench, others: list[Constraint]) -> Finding:
    """Return the finding of least squares on trees, with equal weights and with random ones."""
    parts, rng = [], bench.rng()
    for instance in _collected(bench):
        nodes, tree = _of_every_level(instance, rng)
        weights = rng.uniform(0.5, 4.0, len(tree.parents))
        for loss, trust in ((LeastSquares(), None), (WeightedLeastSquares(weights), weights)):

            def solve(e: FrequencyEstimate, tree: Hierarchy = tree, trust: Array | None = trust) -> Array:
                return closed_form.tree_consistency(
                    e.frequencies, tree.parents, trust, tree.total, nonnegative=bool(others)
                )

            parts.append(compare(Problem(loss, [tree, *others]), solve, [nodes], ("CLARABEL", "OSQP")))
    return _finding(parts)


@claim(
    "tree-consistency",
    "Hay, Rastogi, Miklau, Suciu 2010",
    "If parents are the sums of their children, least squares with any weights on any tree is two passes.",
    Verdict.HOLDS,
)
def _tree_consistency(bench: Bench) -> Finding:
    return _hierarchies(bench, [])


@claim(
    "tree-consistency-nonnegative",
    "from the KKT conditions",
    "Of such vectors the nearest non-negative one is two passes, repeated without the leaves that came out below zero.",
    Verdict.HOLDS,
)
def _nonnegative_tree_consistency(bench: Bench) -> Finding:
    return _hierarchies(bench, [NonNegative()])


# --- orders ---------------------------------------------------------------------------------------


def _orders(bench: Bench, make: Callable[[int, np.random.Generator], tuple[Monotone | Unimodal, Index]]) -> Finding:
    """Return the finding of isotonic regression on trees, then Norm-Sub."""
    parts, rng = [], bench.rng()
    for instance in _collected(bench):
        order, above = make(instance.estimate.d, rng)

        def solve(e: FrequencyEstimate, above: Index = above) -> Array:
            return closed_form.norm_sub(closed_form.isotonic(e.frequencies, above))

        problem = Problem(LeastSquares(), [order, NonNegative(), SumsTo(1.0)])
        parts.append(compare(problem, solve, [instance], ("CLARABEL", "QOCO")))
    return _finding(parts)


@claim(
    "tree-order-simplex",
    "from the KKT conditions; pooling as in Pardalos, Xue 1999",
    "With an order that is a tree, least squares on the simplex is Norm-Sub of the isotonic regression by pooling.",
    Verdict.HOLDS,
)
def _tree_order(bench: Bench) -> Finding:
    def make(d: int, rng: np.random.Generator) -> tuple[Monotone, Index]:
        parents = np.array([-1, *(rng.integers(0, v) for v in range(1, d))])
        return Monotone(np.stack([parents[1:], np.arange(1, d)], axis=1)), parents

    return _orders(bench, make)


@claim(
    "unimodal-simplex",
    "from the KKT conditions",
    "With a known mode, least squares on the simplex is Norm-Sub of the unimodal regression by pooling.",
    Verdict.HOLDS,
)
def _unimodal(bench: Bench) -> Finding:
    def make(d: int, rng: np.random.Generator) -> tuple[Unimodal, Index]:
        mode, v = int(rng.integers(0, d)), np.arange(d)
        return Unimodal(mode), np.where(v < mode, v + 1, np.where(v > mode, v - 1, -1))

    return _orders(bench, make)
