"""Norm-Sub and MLE-Apx in passes over a large domain, and every closed form in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.bench import populations
from experiments.bench.row import COPY, PASS, Row
from experiments.bench.timing import measure
from ldpopt import FrequencyEstimate, Problem, Solution, closed_form, oracles
from ldpopt.constraints import (
    AtMost,
    Bounds,
    Constraint,
    GroupTotals,
    Hierarchy,
    HierarchyTotals,
    Linear,
    Margins,
    Monotone,
    Near,
    NonNegative,
    SumsTo,
    Unimodal,
)
from ldpopt.losses import (
    BinomialMLE,
    GaussianMLE,
    LeastSquares,
    Loss,
    MultinomialMLE,
    TotalVariation,
    WeightedLeastSquares,
)
from ldpopt.solve.paths import closed_forms

Array = NDArray[np.float64]
Named = tuple[str, Loss, list[Constraint]]

TARGET = 4.0
SECONDS = 0.5  # for every closed form on 10^6 values
_PASSES = 20
PROOF = 10.0  # passes that the certificate of such a form may take


def run(settings: Mapping[str, Any]) -> list[Row]:
    """Return both closed forms on real counts' estimates and on frequencies with little noise."""
    d, n, epsilon, repeats = (settings[key] for key in ("d", "n", "epsilon", "repeats"))
    rng = np.random.default_rng(0)
    kappa = oracles.OUE(epsilon, d).kappa
    ranked = {
        f"OUE counts of {n:,} users": populations.oue_estimate(d, n, epsilon, rng).frequencies,
        "noise of sd 1/d": populations.zipf(d) + rng.standard_normal(d) / d,
    }
    # The answer does not depend on the order of the domain; the time should not either.
    instances = {f"{name}, frequent first": f for name, f in ranked.items()}
    instances |= {f"{name}, random order": rng.permutation(f) for name, f in ranked.items()}
    methods: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "norm-sub": closed_form.norm_sub,
        "mle-apx": lambda f: closed_form.mle_apx(f, kappa),
    }
    rows = []
    # The cheapest pass is the unit: its cost depends on the allocator's state, not on the values.
    one_pass = min(
        measure(lambda f=f: np.maximum(f, 0).sum(), repeats=repeats).best
        for f in instances.values()
    )
    one_read = min(measure(f.sum, repeats=repeats).best for f in instances.values())
    (f, *_) = instances.values()
    one_copy = measure(partial(np.copyto, np.empty_like(f), f), repeats=repeats)
    rows.append(Row(COPY, one_copy.best, "cost", PASS, one_pass))
    for instance, f in instances.items():
        for name, method in methods.items():
            timing = measure(lambda f=f, method=method: method(f), repeats=repeats)
            rows.append(
                Row(
                    what=f"{name}, {instance}",
                    seconds=timing.best,
                    measure="cost",
                    against=PASS,
                    against_seconds=one_pass,
                    target=TARGET,
                    first_seconds=timing.first,
                    detail=f"{timing.best / one_read:.1f} times x.sum(); "
                    f"{np.count_nonzero(timing.value):,} values stay positive",
                )
            )
    return rows


def every(settings: Mapping[str, Any]) -> list[Row]:
    """Return every closed form on one estimate through ``Problem.solve``, and its proof."""
    d, n, epsilon, repeats = (settings[key] for key in ("d", "n", "epsilon", "repeats"))
    rng = np.random.default_rng(0)
    flat = populations.oue_estimate(d, n, epsilon, rng)
    grr = oracles.GRR(epsilon, d)
    # The multinomial likelihood is that of reports which support one value each.
    single = grr.estimate(rng.multinomial(n, grr.q + (grr.p - grr.q) * populations.zipf(d)), n)
    one_pass = measure(lambda: float(np.maximum(flat.frequencies, 0).sum()), repeats=_PASSES).best
    rows = []
    for name, loss, constraints in _problems(d, rng):
        problem = Problem(loss, constraints)
        estimate = single if isinstance(loss, MultinomialMLE) else flat
        for tree in (c for c in constraints if isinstance(c, Hierarchy)):
            estimate = _levels(tree, flat.sigma, rng)
        proofs: list[float] = []
        timing = measure(partial(_proved, problem, estimate, proofs), repeats=repeats)
        rows.append(
            Row(
                what=name,
                seconds=timing.best,
                measure="seconds",
                target=SECONDS,
                first_seconds=timing.first,
                detail=timing.value.solver,
            )
        )
        rows.append(
            Row(
                what=f"proof: {name}",
                seconds=min(proofs),
                measure="cost",
                against=PASS,
                against_seconds=one_pass,
                target=PROOF,
            )
        )
    return rows


def _proved(problem: Problem, estimate: FrequencyEstimate, proofs: list[float]) -> Solution:
    """Return a solution, and append the seconds of the call that are not those of its path."""
    began = time.perf_counter()
    solution = problem.solve(estimate, path="closed-form")
    proofs.append(time.perf_counter() - began - solution.seconds)
    return solution


def _problems(d: int, rng: np.random.Generator) -> list[Named]:
    """Return every registered closed form, with more shapes and losses for the general ones."""
    weights = rng.uniform(0.5, 2.0, d)
    # By loss and constraints: several forms share a name.
    named = [
        (f"{type(loss).__name__}, {', '.join(map(repr, where)) or 'no constraints'}", loss, where)
        for loss, where in (*_registered(d, weights, rng), *_under_orders(d, weights))
    ]
    return named + _further(d, weights, rng)


def _registered(
    d: int, weights: Array, rng: np.random.Generator
) -> list[tuple[Loss, list[Constraint]]]:
    """Return a problem of every registered closed form."""
    ranks = np.arange(d)
    # Half of the values, in groups that are scattered over the domain.
    grouped = rng.permutation(d)[: d // 2]
    # Ten categories of ten groups each, of which every third has a known total too.
    groups = np.arange(100)
    of_groups = np.where(groups % 3 == 0, 0.004, np.nan)
    instances: dict[type[Constraint], Constraint] = {
        NonNegative: NonNegative(),
        SumsTo: SumsTo(1.0),
        GroupTotals: GroupTotals(np.array_split(grouped, 100), np.full(100, 0.005)),
        HierarchyTotals: HierarchyTotals(
            [ranks * 100 // d, groups // 10], [of_groups, np.full(10, 0.1)]
        ),
        Margins: _margins(d)[0],
        AtMost: AtMost(max(d // 1000, 1)),
        Hierarchy: Hierarchy((ranks - 1) // 16, total=1.0),
    }
    # Always in one order, by which the row is found again.
    order = list(instances)

    def of(loss: type[Loss]) -> Loss:
        return WeightedLeastSquares(weights) if loss is WeightedLeastSquares else loss()

    return [
        (of(loss), [instances[kind] for kind in sorted(kinds, key=order.index)])
        for loss, kinds in closed_forms.CLOSED_FORMS
    ]


def _under_orders(d: int, weights: Array) -> list[tuple[Loss, list[Constraint]]]:
    """Return problems whose order is pooled before a form is looked up: no list has them."""
    bounds = NonNegative()
    total = SumsTo(1.0)
    table: list[tuple[Loss, list[Constraint]]] = []
    for order in (Monotone(np.arange(d)), Unimodal(d // 3)):
        for where in ([], [bounds], [total], [bounds, total]):
            table.append((LeastSquares(), [*where, order]))
        for where in ([], [bounds]):
            table.append((WeightedLeastSquares(weights), [*where, order]))
    return table


def _margins(d: int) -> list[Constraint]:
    """Return both margins of a table of d frequencies, as near to a square as d divides."""
    rows = next(k for k in range(int(d**0.5), 0, -1) if d % k == 0)
    cells = populations.zipf(d).reshape(rows, d // rows)
    return [Margins(cells.shape, k, cells.sum(axis=1 - k)) for k in (0, 1)]


def _further(d: int, weights: Array, rng: np.random.Generator) -> list[Named]:
    """Return further shapes and losses of the general forms."""
    ranks = np.arange(d)
    zipf = populations.zipf(d)
    simplex: list[Constraint] = [NonNegative(), SumsTo(1.0)]
    children = ranks[1:]
    halves = np.stack([(children - 1) // 2, children], axis=1)
    # In random order: pairs sorted from the root down would be the easy case.
    shuffled = Monotone(halves[rng.permutation(d - 1)])
    # Each value hangs from any earlier one.
    parents = (rng.random(d - 1) * children).astype(np.int64)
    attached = Monotone(np.stack([parents, children], axis=1))
    binary = Hierarchy((ranks - 1) // 2, total=1.0)
    chain = Monotone(ranks)
    mode = Unimodal(d // 3)
    # Of each value its own, so that blocks depend on the multiplier.
    caps = Bounds(0.0, rng.uniform(2.0, 100.0, d) / d)
    near = Near(zipf, 0.05, norm=2)
    deviations = Near(zipf, 0.3, norm=1)
    priced = Near(zipf, 0.3, norm=1, weights=weights)
    divergence = Near(zipf, 0.05, norm="kl")
    fused = LeastSquares() + 1e-4 * TotalVariation()
    place = ranks / d
    # A tenth below the mean that the frequencies have: the row binds.
    row = Linear([place], -np.inf, 0.9 * float(place @ zipf))
    # Of every four values the first two are above both others: no forest, yet in small pieces.
    fours = ranks[: d // 4 * 4].reshape(-1, 4)
    crossing = Monotone(np.concatenate([fours[:, [i, j]] for i in (0, 1) for j in (2, 3)]))
    parts = GroupTotals(np.array_split(rng.permutation(d), 1_000), np.full(1_000, 0.001))
    return [
        ("capped simplex by one root", LeastSquares(), [Bounds(0.0, 100.0 / d), SumsTo(1.0)]),
        ("weighted simplex by one root", WeightedLeastSquares(weights), simplex),
        ("binomial likelihood by one root", BinomialMLE(), simplex),
        ("simplex with a binary tree's order", LeastSquares(), [shuffled, *simplex]),
        ("simplex with a random tree's order", LeastSquares(), [attached, *simplex]),
        ("binomial likelihood under a chain, pooled first", BinomialMLE(), [chain, *simplex]),
        ("weighted MLE under a mode, pooled first", GaussianMLE(), [mode, *simplex]),
        ("chain, caps and total, pooled in the root", LeastSquares(), [chain, caps, SumsTo(1.0)]),
        ("binomial likelihood, caps, a root per group", BinomialMLE(), [parts, caps]),
        ("2-norm ball around a reference, simplex", LeastSquares(), [near, *simplex]),
        ("1-norm ball around a reference, simplex", LeastSquares(), [deviations, *simplex]),
        ("1-norm ball with weights, simplex", LeastSquares(), [priced, *simplex]),
        ("divergence ball around a reference, simplex", LeastSquares(), [divergence, *simplex]),
        ("variation as a penalty, simplex", fused, simplex),
        ("one row, simplex", LeastSquares(), [row, *simplex]),
        ("one row, simplex, weighted MLE", GaussianMLE(), [row, *simplex]),
        ("one row, simplex, binomial likelihood", BinomialMLE(), [row, *simplex]),
        ("interleaved pairs, a partial order", LeastSquares(), [crossing, *simplex]),
        ("both margins of a table", LeastSquares(), _margins(d)),
        ("binary hierarchy", LeastSquares(), [binary]),
        ("binary hierarchy, non-negative", LeastSquares(), [binary, NonNegative()]),
    ]


def _levels(tree: Hierarchy, sigma: float, rng: np.random.Generator) -> FrequencyEstimate:
    """Return estimates of all nodes, as noisy as an oracle's, of Zipf frequencies at the leaves."""
    exact = np.zeros(len(tree.parents))
    exact[tree.leaves] = rng.permutation(populations.zipf(len(tree.leaves)))
    # Leaves have nearly all the weight: the inner nodes become their sums.
    trust = np.full(len(exact), 1e-9)
    trust[tree.leaves] = 1.0
    summed = closed_form.tree_consistency(exact, tree.parents, trust)
    return FrequencyEstimate(summed + sigma * rng.standard_normal(len(exact)))
