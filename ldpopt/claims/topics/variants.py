"""Claims that variants of the papers' problems have closed forms, derived here from the KKT conditions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.agreement import Agreement, compare_with_solvers
from ldpopt.claims.engine.batches import Case, batches, by_block, compare_joined
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import Instance, InstanceSet
from ldpopt.claims.reference.rational import exact_solution
from ldpopt.claims.topics.equivalences import CLS
from ldpopt.constraints import Bounds, Fixed, GroupTotals, Monotone, NonNegative, SumsTo
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import BinomialMLE, LeastSquares, Loss, MultinomialMLE, WeightedLeastSquares
from ldpopt.oracles import FrequencyOracle
from ldpopt.solve.paths.closed_forms import solve_one_root
from ldpopt.solve.problem import Problem

TITLE = "Closed forms of variants of the papers' problems, derived here from the KKT conditions"
ORDER = 20

Array = NDArray[np.float64]
Solve = Callable[[FrequencyEstimate], Array]

_FIRST_ORDER = (
    40  # values up to which SCS reaches its tolerances on exponential cones in reasonable time
)
_EXPONENTIAL = {
    "CLARABEL": {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}
}  # its limit on these cones
_SIZES = (7, 32, 128)


def _sized(instances: list[Instance], sizes: tuple[int, ...] = _SIZES) -> list[Instance]:
    return [i for i in instances if i.estimate.d in sizes]


def _over_sizes(
    instances: InstanceSet, make: Callable[[int], Case], solvers: tuple[str, ...]
) -> Finding:
    """Return the finding of a problem that is made for every size of the random and the emoji instances."""
    pool = instances.random + [i for i in instances.real if i.name.startswith("emoji")]
    sizes = sorted({i.estimate.d for i in pool if i.estimate.d > 2})
    parts = [_alone(make(d), _sized(pool, (d,)), solvers) for d in sizes]
    return _finding(Agreement.merged(parts + _joined(instances, make, solvers)))


def _joined(
    instances: InstanceSet, make: Callable[[int], Case], solvers: tuple[str, ...]
) -> list[Agreement]:
    """Return the comparisons of a problem that is made for every size, many small vectors at a time."""
    sizes = sorted({i.estimate.d for i in instances.crowd if i.estimate.d > 2})
    return [compare_joined(make(d), _sized(instances.crowd, (d,)), solvers) for d in sizes]


def _alone(case: Case, chosen: list[Instance], solvers: tuple[str, ...]) -> Agreement:
    return compare_with_solvers(case.problem, case.closed_form, chosen, solvers)


def _finding(agreement: Agreement) -> Finding:
    return Finding(agreement.holds, agreement.vectors, agreement.evidence, agreement=agreement)


@claim(
    "capped-simplex",
    "from the KKT conditions",
    "With 0 ≤ f ≤ u and Σf = 1 least squares has f' = clip(f̃ - μ, 0, u), one multiplier for all values.",
    Verdict.HOLDS,
)
def _capped_simplex(instances: InstanceSet) -> Finding:
    def make(d: int) -> Case:
        problem = Problem(LeastSquares(), [Bounds(0.0, 3.0 / d), SumsTo(1.0)])
        return Case(problem, lambda e: solve_one_root(e, problem))

    return _over_sizes(instances, make, ("CLARABEL", "OSQP"))


@claim(
    "weighted-simplex",
    "from the KKT conditions",
    "On the simplex weighted least squares has f' = max(f̃ - μ/w, 0).",
    Verdict.HOLDS,
)
def _weighted_simplex(instances: InstanceSet) -> Finding:
    def make(d: int) -> Case:
        weights = instances.rng().uniform(0.5, 4.0, d)
        problem = Problem(WeightedLeastSquares(weights), [NonNegative(), SumsTo(1.0)])
        return Case(
            problem,
            lambda e: solve_one_root(e, problem),
            lambda copies: WeightedLeastSquares(np.tile(weights, copies)),
        )

    return _over_sizes(instances, make, ("CLARABEL", "OSQP"))


@claim(
    "group-totals",
    "from the KKT conditions",
    "With disjoint group totals known, least squares is Norm-Sub in each group.",
    Verdict.HOLDS,
)
def _group_totals(instances: InstanceSet) -> Finding:
    def make(d: int) -> Case:
        groups = np.array_split(instances.rng().permutation(d), 3)
        totals = np.array([0.6, 0.3, 0.1])
        problem = Problem(LeastSquares(), [NonNegative(), GroupTotals(groups, totals)])
        return Case(problem, lambda e: closed_form.group_totals(e.frequencies, groups, totals))

    return _over_sizes(instances, make, ("CLARABEL", "OSQP"))


@claim(
    "monotone-simplex",
    "from the KKT conditions",
    "With a known order, least squares on the simplex is Norm-Sub of the isotonic regression.",
    Verdict.HOLDS,
)
def _monotone(instances: InstanceSet) -> Finding:
    def make(d: int) -> Case:
        order = np.arange(d)
        problem = Problem(LeastSquares(), [Monotone(order), NonNegative(), SumsTo(1.0)])
        return Case(
            problem, lambda e: closed_form.norm_sub(closed_form.monotone(e.frequencies, order))
        )

    sizes = sorted(
        {i.estimate.d for i in instances.random if i.estimate.d > 2}
    )  # a chain of differences is slow to factor
    parts = [_alone(make(d), _sized(instances.random, (d,)), ("CLARABEL", "QOCO")) for d in sizes]
    return _finding(Agreement.merged(parts + _joined(instances, make, ("CLARABEL", "QOCO"))))


def _likelihood(
    instances: InstanceSet, loss: Loss, solve: Solve, fits: Callable[[Instance], bool]
) -> Finding:
    problem = Problem(loss, [NonNegative(), SumsTo(1.0)])
    # Exponential cones on thousands of values are beyond both solvers: the random instances, up to 128 values.
    chosen = list(filter(fits, instances.random))
    crowd = list(filter(fits, instances.crowd))
    parts = [
        compare_with_solvers(
            problem, solve, chosen, ("CLARABEL", "SCS"), {"SCS": _FIRST_ORDER}, _EXPONENTIAL
        ),
        compare_with_solvers(problem, solve, crowd, ()),  # by the closed form's own gap alone
    ]
    return _finding(Agreement.merged(parts))


def _fixed_size(instance: Instance) -> int | None:
    """Return how many values every report behind an estimate supports; None where that differs."""
    oracle = instance.estimate.oracle
    return oracle.report_form.fixed_size if isinstance(oracle, FrequencyOracle) else None


@claim(
    "multinomial-mle",
    "Kairouz, Bonawitz, Ramage 2016",
    "The exact maximum likelihood estimate from GRR's counts is water-filling: max(0, c/ν - q/(p-q)).",
    Verdict.HOLDS,
)
def _multinomial(instances: InstanceSet) -> Finding:
    def solve(e: FrequencyEstimate) -> Array:
        oracle = e.noise[1]
        return closed_form.water_filling(MultinomialMLE.shares(e), oracle.q / (oracle.p - oracle.q))

    return _likelihood(instances, MultinomialMLE(), solve, lambda i: _fixed_size(i) == 1)


@claim(
    "binomial-mle",
    "from the KKT conditions",
    "The exact maximum likelihood estimate from independent counts is one root: m P² - (n+m) P + c = 0 for every value.",
    Verdict.HOLDS,
)
def _binomial(instances: InstanceSet) -> Finding:
    problem = Problem(BinomialMLE(), [NonNegative(), SumsTo(1.0)])
    return _likelihood(
        instances,
        BinomialMLE(),
        lambda e: solve_one_root(e, problem),
        lambda i: _fixed_size(i) is None,
    )


@claim(
    "at-most",
    "derived here; not convex",
    "The nearest distribution with at most k non-zeros is Norm-Sub of the k largest estimates.",
    Verdict.HOLDS,
)
def _at_most(instances: InstanceSet) -> Finding:
    """Every support of k values is tried: in exact arithmetic for all vectors, by two solvers for some."""
    d = 7
    stacks = [i.estimate.frequencies for i in instances.random if i.estimate.d == d]
    vectors = np.concatenate(stacks)[: 6 if instances.quick else None]
    advantage, beyond, solved, tried = 0.0, 0.0, dict.fromkeys(("CLARABEL", "OSQP"), 0.0), 0
    for k in range(1, d):
        found = closed_form.at_most(vectors, k)
        error = np.sum((found - vectors) ** 2, axis=-1)
        beyond = max(beyond, float(np.abs(found.sum(axis=-1) - 1).max()), float(-found.min()))
        beyond = max(beyond, float((np.count_nonzero(found, axis=-1) > k).any()))
        for number, (vector, reached) in enumerate(zip(vectors, error, strict=True)):
            parts = np.array(
                [vector[list(support)] for support in itertools.combinations(range(d), k)]
            )
            outside = np.sum(vector**2) - np.sum(parts**2, axis=-1)
            exact = np.array([exact_solution(part, 0.0) for part in parts])
            best = float(np.min(np.sum((exact - parts) ** 2, axis=-1) + outside))
            advantage = max(advantage, (reached - best) / (1 + best))
            tried += len(parts)
            if k == 3 and number % 14 == 0:
                estimate = FrequencyEstimate(parts)
                for solver in solved:
                    points = CLS.solve(estimate, path="conic", solver=solver).frequencies
                    least = float(np.min(np.sum((points - parts) ** 2, axis=-1) + outside))
                    solved[solver] = max(solved[solver], abs(reached - least) / (1 + least))
    return Finding(
        advantage < 1e-12 and beyond < 1e-12 and max(solved.values()) < 1e-6,
        len(vectors) * (d - 1),
        {
            "supports tried in exact arithmetic, d = 7, k = 1 .. 6": tried,
            "largest advantage of another support, relative": advantage,
            **{
                f"largest relative difference to the best support by {s}": value
                for s, value in solved.items()
            },
            "largest violation of the sum, the sign or the number of non-zeros": beyond,
        },
    )


@claim(
    "base-cut-l0",
    "N IV-A, derived here; not convex",
    "Base-Cut minimises ½‖f - f̃‖² + ½T²‖f‖₀ over f >= 0, ‖f‖₀ the number of non-zeros.",
    Verdict.HOLDS,
)
def _base_cut(instances: InstanceSet) -> Finding:
    """Every support is tried: on it max(f̃, 0) is the nearest vector that is not negative."""
    d = 7
    supports = np.array(list(itertools.product([False, True], repeat=d)))
    advantage, vectors = 0.0, 0
    for instance in instances.crowd:
        if instance.estimate.d != d:
            continue
        raw = instance.estimate.frequencies
        threshold = closed_form.significance_threshold(d, instance.estimate.sigma)

        def cost(f: Array, raw: Array = raw, threshold: float = threshold) -> Array:
            return np.asarray(np.sum((f - raw) ** 2 + threshold**2 * (f != 0), axis=-1) / 2)

        reached = cost(closed_form.base_cut(raw, threshold))
        best = np.min(
            [cost(np.where(support, np.maximum(raw, 0.0), 0.0)) for support in supports], axis=0
        )
        advantage = max(advantage, float(np.max((reached - best) / (1 + best))))
        vectors += instance.vectors
    return Finding(
        advantage < 1e-12,
        vectors,
        {
            "supports tried for each vector": len(supports),
            "largest advantage of another support, relative": advantage,
        },
    )


@claim(
    "norm-hyb-cls",
    "D 3.3, derived here",
    "Norm-Hyb solves constrained least squares with the estimates above T fixed.",
    Verdict.HOLDS,
)
def _norm_hyb(instances: InstanceSet) -> Finding:
    parts = []
    for instance in instances.crowd:
        d = instance.estimate.d
        threshold = closed_form.significance_threshold(d, instance.estimate.sigma)

        def solve(e: FrequencyEstimate, threshold: float = threshold) -> Array:
            return closed_form.norm_hyb(e.frequencies, threshold)

        for batch in batches(instance)[
            :1
        ]:  # what is fixed differs from vector to vector: every batch is compiled anew
            joined = batch.estimate.frequencies[0]
            kept = np.concatenate([_kept(vector, threshold) for vector in joined.reshape(-1, d)])
            fixed = [Fixed(np.flatnonzero(kept), joined[kept])] if kept.any() else []
            problem = Problem(
                LeastSquares(), [*Case(CLS, solve).joined(d, batch.joined).constraints, *fixed]
            )
            parts.append(
                compare_with_solvers(problem, by_block(solve, d), [batch], ("CLARABEL", "OSQP"))
            )
    return _finding(Agreement.merged(parts))


def _kept(vector: Array, threshold: float) -> NDArray[np.bool_]:
    """Return what D 3.3 keeps: the estimates above T, or the k highest with a sum below 1 if they exceed 1.

    Where that is every value D leaves open what to adjust; all of them, here.
    """
    kept = vector >= threshold
    if vector[kept].sum() > 1:
        kept = np.zeros(len(vector), dtype=np.bool_)
        for index in np.argsort(-vector, kind="stable"):
            if vector[kept].sum() + vector[index] >= 1:
                break
            kept[index] = True
    return np.asarray(kept & ~kept.all())
