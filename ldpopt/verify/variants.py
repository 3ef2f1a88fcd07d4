"""Claims that variants of the papers' problems have closed forms, derived here from the KKT conditions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.constraints import Bounds, GroupTotals, Monotone, NonNegative, SumsTo
from ldpopt.dispatch import solve_one_root
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import BinomialMLE, LeastSquares, Loss, MultinomialMLE, WeightedLeastSquares
from ldpopt.oracles import GRR, SubsetSelection
from ldpopt.problem import Problem
from ldpopt.verify.agreement import Agreement, compare
from ldpopt.verify.claim import Finding, Verdict, claim
from ldpopt.verify.instances import Bench, Instance

Array = NDArray[np.float64]
Solve = Callable[[FrequencyEstimate], Array]

_FIRST_ORDER = 40  # values up to which SCS reaches its tolerances on exponential cones in reasonable time
_EXPONENTIAL = {"CLARABEL": {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}}  # its limit on these cones
_SIZES = (7, 32, 128)


def _sized(instances: list[Instance], sizes: tuple[int, ...] = _SIZES) -> list[Instance]:
    return [i for i in instances if i.estimate.d in sizes]


def _over_sizes(bench: Bench, make: Callable[[int], tuple[Problem, Solve]], solvers: tuple[str, ...]) -> Finding:
    """Return the finding of a problem that is made for every size of the random and the emoji instances."""
    pool = bench.random + [i for i in bench.real if i.name.startswith("emoji")]
    sizes = sorted({i.estimate.d for i in pool if i.estimate.d > 2})
    agreements = [compare(*make(d), _sized(pool, (d,)), solvers) for d in sizes]
    return _finding(Agreement.merged(agreements))


def _finding(agreement: Agreement) -> Finding:
    return Finding(agreement.holds, agreement.vectors, agreement.evidence, agreement=agreement)


@claim(
    "capped-simplex",
    "from the KKT conditions",
    "With 0 ≤ f ≤ u and Σf = 1 least squares has f' = clip(f̃ - μ, 0, u), one multiplier for all values.",
    Verdict.HOLDS,
)
def _capped_simplex(bench: Bench) -> Finding:
    def make(d: int) -> tuple[Problem, Solve]:
        problem = Problem(LeastSquares(), [Bounds(0.0, 3.0 / d), SumsTo(1.0)])
        return problem, lambda e: solve_one_root(e, problem)

    return _over_sizes(bench, make, ("CLARABEL", "OSQP"))


@claim(
    "weighted-simplex",
    "from the KKT conditions",
    "On the simplex weighted least squares has f' = max(f̃ - μ/w, 0).",
    Verdict.HOLDS,
)
def _weighted_simplex(bench: Bench) -> Finding:
    def make(d: int) -> tuple[Problem, Solve]:
        loss = WeightedLeastSquares(bench.rng().uniform(0.5, 4.0, d))
        problem = Problem(loss, [NonNegative(), SumsTo(1.0)])
        return problem, lambda e: solve_one_root(e, problem)

    return _over_sizes(bench, make, ("CLARABEL", "OSQP"))


@claim(
    "group-totals",
    "from the KKT conditions",
    "With disjoint group totals known, least squares is Norm-Sub in each group.",
    Verdict.HOLDS,
)
def _group_totals(bench: Bench) -> Finding:
    def make(d: int) -> tuple[Problem, Solve]:
        groups = np.array_split(bench.rng().permutation(d), 3)
        totals = np.array([0.6, 0.3, 0.1])
        problem = Problem(LeastSquares(), [NonNegative(), GroupTotals(groups, totals)])
        return problem, lambda e: closed_form.group_totals(e.frequencies, groups, totals)

    return _over_sizes(bench, make, ("CLARABEL", "OSQP"))


@claim(
    "monotone-simplex",
    "from the KKT conditions",
    "With a known order, least squares on the simplex is Norm-Sub of the isotonic regression.",
    Verdict.HOLDS,
)
def _monotone(bench: Bench) -> Finding:
    def make(d: int) -> tuple[Problem, Solve]:
        order = np.arange(d)
        problem = Problem(LeastSquares(), [Monotone(order), NonNegative(), SumsTo(1.0)])
        return problem, lambda e: closed_form.norm_sub(closed_form.monotone(e.frequencies, order))

    sizes = sorted({i.estimate.d for i in bench.random if i.estimate.d > 2})  # a chain of differences is slow to factor
    parts = [compare(*make(d), _sized(bench.random, (d,)), ("CLARABEL", "QOCO")) for d in sizes]
    return _finding(Agreement.merged(parts))


def _likelihood(bench: Bench, loss: Loss, solve: Solve, kinds: tuple[type, ...], *, among: bool) -> Finding:
    problem = Problem(loss, [NonNegative(), SumsTo(1.0)])
    # Exponential cones on thousands of values are beyond both solvers: the random instances, up to 128 values.
    chosen = [i for i in bench.random if isinstance(i.estimate.oracle, kinds) == among]
    return _finding(compare(problem, solve, chosen, ("CLARABEL", "SCS"), {"SCS": _FIRST_ORDER}, _EXPONENTIAL))


@claim(
    "multinomial-mle",
    "Kairouz, Bonawitz, Ramage 2016",
    "The exact maximum likelihood estimate from GRR's counts is water-filling: max(0, c/ν - q/(p-q)).",
    Verdict.HOLDS,
)
def _multinomial(bench: Bench) -> Finding:
    def solve(e: FrequencyEstimate) -> Array:
        oracle = e.noise[1]
        return closed_form.water_filling(MultinomialMLE.shares(e), oracle.q / (oracle.p - oracle.q))

    return _likelihood(bench, MultinomialMLE(), solve, (GRR,), among=True)


@claim(
    "binomial-mle",
    "from the KKT conditions",
    "The exact maximum likelihood estimate from independent counts is one root: m P² - (n+m) P + c = 0 for every value.",
    Verdict.HOLDS,
)
def _binomial(bench: Bench) -> Finding:
    problem = Problem(BinomialMLE(), [NonNegative(), SumsTo(1.0)])
    return _likelihood(bench, BinomialMLE(), lambda e: solve_one_root(e, problem), (GRR, SubsetSelection), among=False)
