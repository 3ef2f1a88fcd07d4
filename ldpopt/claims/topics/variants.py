"""Claims that variants of the papers' problems have closed forms, from the KKT conditions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.agreement import Agreement, ClosedForm, compare_with_solvers
from ldpopt.claims.engine.batches import Case, batches, by_block, compare_joined
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import Instance, InstanceSet
from ldpopt.claims.engine.measures import largest
from ldpopt.claims.engine.tolerances import IDENTITY, OBJECTIVE
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

_QUADRATIC_SOLVERS = ("CLARABEL", "OSQP")

# A chain of differences is slow to factor for OSQP's first-order steps; QOCO solves it directly.
_CHAIN_SOLVERS = ("CLARABEL", "QOCO")

# On exponential cones SCS reaches its tolerances in reasonable time up to this many values, and
# CLARABEL reaches these and no smaller ones.
_SCS_LIMIT = {"SCS": 40}
_CLARABEL_REACH = {"CLARABEL": {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}}

_SUPPORT_SIZE = 7  # values of a vector whose 2⁷ supports are all tried


def _of_size(instances: list[Instance], d: int) -> list[Instance]:
    return [instance for instance in instances if instance.estimate.d == d]


def _sizes(instances: list[Instance]) -> list[int]:
    """Return the sizes above 2 of some instances, where the variants differ from the simplex."""
    return sorted({i.estimate.d for i in instances if i.estimate.d > 2})


def _over_sizes(
    make: Callable[[int], Case],
    singly: list[Instance],
    crowd: list[Instance],
    solvers: tuple[str, ...],
) -> Finding:
    """Return the finding of a case that is made for every size.

    Vectors of ``singly`` go to the solvers one by one, those of ``crowd`` many at a time.
    """
    parts = []
    for d in _sizes(singly):
        case = make(d)
        chosen = _of_size(singly, d)
        parts.append(compare_with_solvers(case.problem, case.closed_form, chosen, solvers))
    for d in _sizes(crowd):
        parts.append(compare_joined(make(d), _of_size(crowd, d), solvers))
    return Finding.of(Agreement.merged(parts))


def _random_and_emoji(instances: InstanceSet) -> list[Instance]:
    emoji = [instance for instance in instances.real if instance.name.startswith("emoji")]
    return instances.random + emoji


@claim(
    "capped-simplex",
    "from the KKT conditions",
    "With 0 ≤ f ≤ u and Σf = 1 least squares has f' = clip(f̃ - μ, 0, u), one multiplier for all "
    "values.",
    Verdict.PROVED,
    theorems=("capped_norm_sub_is_cls_with_caps", "shift_exists_in_a_box"),
)
def capped_simplex(instances: InstanceSet) -> Finding:
    """Certify the clipped form with u = 3/d, and compare it with two solvers.

    On the random, emoji and crowd instances with d > 2. Red if a gap exceeds GAP or a solver
    converges to a point that differs by more than its objective allows.
    """

    def make(d: int) -> Case:
        # A third of the values can reach the cap.
        problem = Problem(LeastSquares(), [Bounds(0.0, 3.0 / d), SumsTo(1.0)])
        return Case(problem, lambda e: solve_one_root(e, problem))

    return _over_sizes(make, _random_and_emoji(instances), instances.crowd, _QUADRATIC_SOLVERS)


@claim(
    "weighted-simplex",
    "from the KKT conditions",
    "On the simplex weighted least squares has f' = max(f̃ - μ/w, 0).",
    Verdict.PROVED,
    theorems=("weighted_norm_sub_is_weighted_cls", "weighted_shift_exists"),
)
def weighted_simplex(instances: InstanceSet) -> Finding:
    """Certify the form for random weights between 0.5 and 4, and compare it with two solvers.

    On the random, emoji and crowd instances with d > 2. Red if a gap exceeds GAP or a solver
    converges to a point that differs by more than its objective allows.
    """

    def make(d: int) -> Case:
        # The same weights for the same size: both comparisons solve one problem.
        weights = instances.rng().uniform(0.5, 4.0, d)
        problem = Problem(WeightedLeastSquares(weights), [NonNegative(), SumsTo(1.0)])
        return Case(
            problem,
            lambda e: solve_one_root(e, problem),
            tiled_loss=lambda copies: WeightedLeastSquares(np.tile(weights, copies)),
        )

    return _over_sizes(make, _random_and_emoji(instances), instances.crowd, _QUADRATIC_SOLVERS)


@claim(
    "group-totals",
    "from the KKT conditions",
    "With disjoint group totals known, least squares is Norm-Sub in each group.",
    Verdict.PROVED,
    theorems=("group_totals_are_norm_sub_in_each_group", "group_shifts_exist"),
)
def group_totals(instances: InstanceSet) -> Finding:
    """Certify Norm-Sub in three random groups with totals 0.6, 0.3, 0.1; compare with two solvers.

    On the random, emoji and crowd instances with d > 2. Red if a gap exceeds GAP or a solver
    converges to a point that differs by more than its objective allows.
    """

    def make(d: int) -> Case:
        # Random groups: runs of neighbours would hide a mistake in the indices.
        groups = np.array_split(instances.rng().permutation(d), 3)
        totals = np.array([0.6, 0.3, 0.1])
        problem = Problem(LeastSquares(), [NonNegative(), GroupTotals(groups, totals)])
        return Case(problem, lambda e: closed_form.group_totals(e.frequencies, groups, totals))

    return _over_sizes(make, _random_and_emoji(instances), instances.crowd, _QUADRATIC_SOLVERS)


@claim(
    "monotone-simplex",
    "from the KKT conditions",
    "With a known order, least squares on the simplex is Norm-Sub of the isotonic regression.",
    Verdict.PROVED,
    theorems=("norm_sub_of_isotonic_regression_is_ordered_cls", "isotonic_regression_exists"),
)
def monotone_simplex(instances: InstanceSet) -> Finding:
    """Certify Norm-Sub of the isotonic regression, and compare it with two solvers.

    The order is that of the values' indices. On the random and crowd instances with d > 2. Red if
    a gap exceeds GAP or a solver converges to a point that differs by more than its objective
    allows.
    """

    def make(d: int) -> Case:
        # A chain, the longest order there is on d values.
        order = np.arange(d)
        problem = Problem(LeastSquares(), [Monotone(order), NonNegative(), SumsTo(1.0)])
        return Case(
            problem, lambda e: closed_form.norm_sub(closed_form.monotone(e.frequencies, order))
        )

    return _over_sizes(make, instances.random, instances.crowd, _CHAIN_SOLVERS)


def _likelihood(
    loss: Loss, solution: ClosedForm, chosen: list[Instance], crowd: list[Instance]
) -> Finding:
    """Return the finding of an exact likelihood on the simplex.

    Exponential cones on thousands of values are beyond both solvers, and so are joined ones: the
    crowd is certified by the closed form's own gap alone.
    """
    problem = Problem(loss, [NonNegative(), SumsTo(1.0)])
    solvers = ("CLARABEL", "SCS")
    parts = [
        compare_with_solvers(
            problem, solution, chosen, solvers, largest=_SCS_LIMIT, options=_CLARABEL_REACH
        ),
        # The certificate needs no solver: the crowd is proved optimal all the same.
        compare_with_solvers(problem, solution, crowd, solvers=()),
    ]
    return Finding.of(Agreement.merged(parts))


def _fixed_size(instance: Instance) -> int | None:
    """Return how many values every report behind an estimate supports; None where that differs.

    Where it is fixed, the counts of different values are not independent.
    """
    oracle = instance.estimate.oracle
    return oracle.report_form.fixed_size if isinstance(oracle, FrequencyOracle) else None


@claim(
    "multinomial-mle",
    "Kairouz, Bonawitz, Ramage 2016",
    "The exact maximum likelihood estimate from GRR's counts is water-filling: "
    "max(0, c/ν - q/(p-q)).",
    Verdict.PROVED,
    theorems=("water_filling_is_maximum_likelihood", "water_level_exists"),
)
def multinomial_mle(instances: InstanceSet) -> Finding:
    """Certify water-filling where a report supports one value; compare with two cone solvers.

    On the random and crowd instances of GRR, and of subset selection with k = 1, which is GRR.

    Red if a gap exceeds GAP or a solver converges to a point that differs by more than its
    objective allows.
    """

    def water_filling(estimate: FrequencyEstimate) -> Array:
        oracle = estimate.noise.require_protocol()
        # c/n, to which the estimates are brought back.
        shares = MultinomialMLE.shares(estimate)
        return closed_form.water_filling(shares, oracle.q / (oracle.p - oracle.q))

    # Its counts are multinomial; with more values per report they would not be.
    chosen = [i for i in instances.random if _fixed_size(i) == 1]
    crowd = [i for i in instances.crowd if _fixed_size(i) == 1]
    return _likelihood(MultinomialMLE(), water_filling, chosen, crowd)


@claim(
    "binomial-mle",
    "from the KKT conditions",
    "The exact maximum likelihood estimate from independent counts is one root: "
    "m P² - (n+m) P + c = 0 for every value.",
    Verdict.HOLDS,
)
def binomial_mle(instances: InstanceSet) -> Finding:
    """Certify the one-root form where reports support a random number of values; use two solvers.

    On the random and crowd instances of all other oracles but subset selection. Red if a gap
    exceeds GAP or a solver converges to a point that differs by more than its objective allows.
    """
    # Counts of a fixed total would not be independent, as this likelihood takes them to be.
    problem = Problem(BinomialMLE(), [NonNegative(), SumsTo(1.0)])
    chosen = [i for i in instances.random if _fixed_size(i) is None]
    crowd = [i for i in instances.crowd if _fixed_size(i) is None]
    return _likelihood(BinomialMLE(), lambda e: solve_one_root(e, problem), chosen, crowd)


@claim(
    "at-most",
    "derived here; not convex",
    "The nearest distribution with at most k non-zeros is Norm-Sub of the k largest estimates.",
    Verdict.PROVED,
    theorems=("nearest_sparse_distribution_is_norm_sub_of_the_largest",),
)
def at_most(instances: InstanceSet) -> Finding:
    """Try every support of k values: in exact fractions for all vectors, by two solvers for some.

    On the random instances with d = 7, for k = 1 .. 6. Red if another support has a smaller
    distance by more than IDENTITY, if a result has a wrong sum, sign or number of non-zeros, or if
    the best support of a solver differs in its objective by more than OBJECTIVE.
    """
    d = _SUPPORT_SIZE
    # Seven values have at most 35 supports of one size: all can be tried.
    stacks = [i.estimate.frequencies for i in _of_size(instances.random, d)]
    vectors = np.concatenate(stacks)[: 6 if instances.quick else None]
    advantages = [0.0]
    violations = []
    supports_tried = 0
    for k in range(1, d):
        solutions = closed_form.at_most(vectors, k)
        # A point outside of the set could beat every support.
        violations.append(_at_most_violation(solutions, k))
        for vector, solution in zip(vectors, solutions, strict=True):
            parts, outside = _supported_parts(vector, k)
            # On its support, the problem is the projection onto a smaller simplex.
            exact = np.array([exact_solution(part, kappa=0.0) for part in parts])
            advantages.append(_advantage(solution, vector, exact, parts, outside))
            supports_tried += len(parts)
    # Every fourteenth vector, so that several oracles are among them.
    solver_differences = _at_most_by_solvers(vectors[::14], k=3)
    advantage = float(np.max(advantages))
    return Finding(
        holds=(
            advantage < IDENTITY
            and largest(violations) < IDENTITY
            and largest(list(solver_differences.values())) < OBJECTIVE
        ),
        instances=len(vectors) * (d - 1),
        evidence={
            "supports tried in exact arithmetic, d = 7, k = 1 .. 6": supports_tried,
            "largest advantage of another support, relative": advantage,
            **{
                f"largest relative difference to the best support by {solver}": difference
                for solver, difference in solver_differences.items()
            },
            "largest violation of the sum, the sign or the number of non-zeros": largest(
                violations
            ),
        },
    )


def _advantage(
    solution: Array, vector: Array, points: Array, parts: Array, outside: Array
) -> float:
    """Return by what share a solution's squared distance exceeds that of the best support.

    ``points`` solve the problem on each support; ``outside`` are the squares that it drops.
    """
    distance = np.sum((solution - vector) ** 2)
    # What a support drops is at a distance of its own size from zero.
    best = np.min(np.sum((points - parts) ** 2, axis=-1) + outside)
    return float((distance - best) / (1 + best))


def _at_most_by_solvers(vectors: Array, k: int) -> dict[str, float]:
    """Return the largest difference in the objective to the best support by each solver.

    Solvers take a millisecond per support: for a sample of the vectors, at one k.
    """
    solutions = closed_form.at_most(vectors, k)
    differences: dict[str, list[float]] = {solver: [] for solver in _QUADRATIC_SOLVERS}
    for vector, solution in zip(vectors, solutions, strict=True):
        parts, outside = _supported_parts(vector, k)
        for solver in _QUADRATIC_SOLVERS:
            solved = CLS.solve(FrequencyEstimate(parts), path="conic", solver=solver)
            advantage = _advantage(solution, vector, solved.frequencies, parts, outside)
            differences[solver].append(advantage)
    return {solver: largest(values) for solver, values in differences.items()}


def _at_most_violation(solutions: Array, k: int) -> float:
    """Return by how much solutions miss a sum of 1 or the sign; 1 if one has too many non-zeros."""
    if (np.count_nonzero(solutions, axis=-1) > k).any():
        return 1.0
    below_zero = np.maximum(-solutions, 0.0)
    return largest([largest(solutions.sum(axis=-1) - 1), largest(below_zero)])


def _supported_parts(vector: Array, k: int) -> tuple[Array, Array]:
    """Return what each support of k values keeps of a vector, and the squares of what it drops."""
    supports = itertools.combinations(range(len(vector)), k)
    parts = np.array([vector[list(support)] for support in supports])
    return parts, np.sum(vector**2) - np.sum(parts**2, axis=-1)


@claim(
    "base-cut-l0",
    "N IV-A, derived here; not convex",
    "Base-Cut minimises ½‖f - f̃‖² + ½T²‖f‖₀ over f >= 0, ‖f‖₀ the number of non-zeros.",
    Verdict.PROVED,
    theorems=("base_cut_is_least_squares_with_a_price_of_nonzeros",),
)
def base_cut_l0(instances: InstanceSet) -> Finding:
    """Try every support of each vector: on it max(f̃, 0) is the nearest non-negative vector.

    On the crowd instances with d = 7. Red if a support has a smaller cost by more than IDENTITY.
    """
    d = _SUPPORT_SIZE
    # Not convex: only a search of all supports can show the minimum.
    supports = np.array(list(itertools.product([False, True], repeat=d)))
    advantages = [0.0]
    vectors = 0
    for instance in _of_size(instances.crowd, d):
        raw = instance.estimate.frequencies
        # The papers' T, although the claim is true of any.
        threshold = closed_form.significance_threshold(d, instance.estimate.sigma)
        reached = _l0_cost(closed_form.base_cut(raw, threshold), raw, threshold)
        candidates = [np.where(support, np.maximum(raw, 0.0), 0.0) for support in supports]
        best = np.min([_l0_cost(f, raw, threshold) for f in candidates], axis=0)
        advantages.append(float(np.max((reached - best) / (1 + best))))
        vectors += instance.vectors
    return Finding(
        holds=largest(advantages) < IDENTITY,
        instances=vectors,
        evidence={
            "supports tried for each vector": len(supports),
            "largest advantage of another support, relative": largest(advantages),
        },
    )


def _l0_cost(f: Array, raw: Array, threshold: float) -> Array:
    """Return ½‖f - f̃‖² + ½T²‖f‖₀."""
    return np.asarray(np.sum((f - raw) ** 2 + threshold**2 * (f != 0), axis=-1) / 2)


@claim(
    "norm-hyb-cls",
    "D 3.3, derived here",
    "Norm-Hyb solves constrained least squares with the estimates above T fixed.",
    Verdict.PROVED,
    theorems=("norm_hyb_is_cls_with_the_kept_values_fixed",),
)
def norm_hyb_cls(instances: InstanceSet) -> Finding:
    """Certify Norm-Hyb with the kept values as constraints, and compare it with two solvers.

    On the first batch of every crowd instance. Red if a gap exceeds GAP or a solver converges to
    a point that differs by more than its objective allows.
    """
    parts = []
    for instance in instances.crowd:
        d = instance.estimate.d
        threshold = closed_form.significance_threshold(d, instance.estimate.sigma)

        def norm_hyb(estimate: FrequencyEstimate, threshold: float = threshold) -> Array:
            return closed_form.norm_hyb(estimate.frequencies, threshold)

        # The fixed values differ from vector to vector, so that every batch is compiled anew: one
        # batch per instance.
        for batch in batches(instance)[:1]:
            # Vectors end to end make one larger problem: a solver's start costs more than its
            # steps.
            joined = batch.estimate.frequencies[0]
            kept = np.concatenate([_kept(row, threshold) for row in joined.reshape(-1, d)])
            fixed = [Fixed(np.flatnonzero(kept), joined[kept])] if kept.any() else []
            simplex = Case(CLS, norm_hyb).joined(d, batch.joined)
            problem = Problem(LeastSquares(), [*simplex.constraints, *fixed])
            solution = by_block(norm_hyb, d)
            parts.append(compare_with_solvers(problem, solution, [batch], _QUADRATIC_SOLVERS))
    return Finding.of(Agreement.merged(parts))


def _kept(vector: Array, threshold: float) -> NDArray[np.bool_]:
    """Return what D 3.3 keeps: the estimates above T, or the k highest with a sum below 1.

    The second rule applies where the estimates above T sum to more than 1. D does not state what
    to adjust where every value is kept; here all values are adjusted.
    """
    kept = vector >= threshold
    if vector[kept].sum() > 1:
        kept = np.zeros(len(vector), dtype=np.bool_)
        # Stable, so that of equal values the first is kept, as the method does.
        for index in np.argsort(-vector, kind="stable"):
            if vector[kept].sum() + vector[index] >= 1:
                break
            kept[index] = True
    return np.asarray(kept & ~kept.all())
