"""Claims that a closed form solves an optimisation problem, or that two of them agree."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.agreement import Agreement, ClosedForm, compare_with_solvers
from ldpopt.claims.engine.batches import Case, compare_joined
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet, binary_response
from ldpopt.claims.engine.measures import largest
from ldpopt.claims.engine.tolerances import EXACT, FORMULA, GAP, IDENTITY, ULPS
from ldpopt.claims.reference.multipliers import multiplier
from ldpopt.claims.reference.published import repeated_partition
from ldpopt.claims.reference.rational import exact_solution
from ldpopt.constraints import Bounds, NonNegative, SumsTo
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import GaussianMLE, KullbackLeibler, LeastSquares
from ldpopt.oracles import SUE
from ldpopt.solve.certificate import certify
from ldpopt.solve.problem import Problem

TITLE = "Closed forms that solve an optimisation problem, or that agree with each other"
ORDER = 10

Array = NDArray[np.float64]

CLS = Problem(LeastSquares(), [NonNegative(), SumsTo(1.0)])
WEIGHTED_MLE = Problem(GaussianMLE(), [NonNegative(), SumsTo(1.0)])

_LEAST_SQUARES_SOLVERS = ("CLARABEL", "OSQP")
_CONE_SOLVERS = ("CLARABEL", "QOCO")  # OSQP takes no second-order cones

# Largest d of a vector that a solver is given: beyond it, one takes seconds.
_LARGEST_SOLVED = dict.fromkeys(("CLARABEL", "OSQP", "QOCO", "SCS"), 1024)

# SCS needs a few hundred iterations on the exponential cones, or does not converge at all.
_FEW_ITERATIONS = {"SCS": {"max_iters": 4000}}


def _against_least_squares(
    instances: InstanceSet,
    problem: Problem,
    solution: ClosedForm,
    joined: Problem | None = None,
) -> Agreement:
    """Compare a closed form with two solvers: vector by vector, and many small vectors at a time.

    ``joined`` stands for the problem where vectors are joined.
    """
    # Joined vectors are one problem, in which a bound may have to be stated anew.
    case = Case(joined or problem, solution)
    parts = [
        compare_with_solvers(
            problem, solution, instances.all, _LEAST_SQUARES_SOLVERS, largest=_LARGEST_SOLVED
        ),
        compare_joined(case, instances.crowd, _LEAST_SQUARES_SOLVERS),
    ]
    return Agreement.merged(parts)


def _apply_mle_apx(estimate: FrequencyEstimate) -> Array:
    return closed_form.mle_apx(estimate.frequencies, estimate.noise.kappa)


@claim(
    "cls-norm-sub",
    "N IV-C, Appendix A",
    "Norm-Sub, f' = max(f̃ + δ, 0) with Σf' = 1, solves constrained least squares.",
    Verdict.PROVED,
    theorems=("norm_sub_is_the_solution_to_cls", "delta_exists"),
)
def cls_norm_sub(instances: InstanceSet) -> Finding:
    """Compare Norm-Sub with the exact minimiser on all instances, and with two solvers on some.

    On eight vectors with values up to 1e308, beyond the solvers' arithmetic, the reference is the
    solution in exact fractions. Red if a point is more than ULPS from the exact minimiser, if a gap
    exceeds GAP, if a wrong point is certified, if a solver converges to a point that differs by
    more than its objective allows, or if a value on the eight differs by more than EXACT.
    """
    agreement = _against_least_squares(
        instances, CLS, lambda e: closed_form.norm_sub(e.frequencies)
    )
    # No solver takes these.
    errors = [
        largest(closed_form.norm_sub(f) - exact_solution(f, kappa=0.0)) for f in instances.extreme
    ]
    return Finding(
        holds=agreement.holds and agreement.exact.ulps <= ULPS and largest(errors) <= EXACT,
        instances=agreement.vectors + len(instances.extreme),
        evidence={
            **agreement.evidence,
            "largest error against exact arithmetic, values up to 1e308": largest(errors),
        },
        agreement=agreement,
    )


@claim(
    "norm-sub-delta",
    "N IV-B, IV-C; D 3.5",
    "There is a δ with Σ max(f̃ + δ, 0) = 1, and it is -(Σ_D1 f̃ - 1)/|D1|, D1 the positive values.",
    Verdict.PROVED,
    theorems=("delta_exists", "delta_is_unique", "delta_has_the_printed_form"),
)
def norm_sub_delta(instances: InstanceSet) -> Finding:
    """Read δ off Norm-Sub's largest value on all instances, and put it into both formulas.

    Red if the sum differs from 1 by IDENTITY or more, relative to 1 + |δ| d, or δ from the printed
    form by as much; or if the sum does not grow on both sides of δ, which makes δ the only one.
    """
    sums = []
    differences = []
    grows = True
    vectors = 0
    for instance in [*instances.all, *instances.crowd]:
        raw = instance.estimate.frequencies
        solution = closed_form.norm_sub(raw)
        delta = multiplier(solution, raw, kappa=0.0)[..., None]
        active = solution > 0
        size = np.maximum(np.count_nonzero(active, axis=-1, keepdims=True), 1)
        mass = np.sum(raw, axis=-1, keepdims=True, where=active)
        # The sum has d terms of the size of δ, whose rounding adds up.
        scale = 1 + np.abs(delta) * raw.shape[-1]
        sums.append(largest((_lifted(raw, delta) - 1) / scale))
        differences.append(largest((delta + (mass - 1) / size) / scale))
        grows &= bool(
            np.all(_lifted(raw, delta - 1e-6) < 1) and np.all(_lifted(raw, delta + 1e-6) > 1)
        )
        vectors += instance.vectors
    return Finding(
        holds=largest([*sums, *differences]) < IDENTITY and grows,
        instances=vectors,
        evidence={
            "largest |Σ max(f̃ + δ, 0) - 1|, relative": largest(sums),
            "largest difference of δ to -(Σ_D1 f̃ - 1)/|D1|, relative": largest(differences),
            "a millionth to either side": "the sum is on the other side of 1 everywhere"
            if grows
            else "the sum does not move everywhere",
        },
    )


def _lifted(raw: Array, shift: Array) -> Array:
    """Return Σ max(f̃ + shift, 0), shape (..., 1)."""
    return np.asarray(np.sum(np.maximum(raw + shift, 0.0), axis=-1, keepdims=True))


@claim(
    "cls-partition",
    "N Appendix A, D Appendix B",
    "D0 of constrained least squares can be found as for the MLE: negative values are removed "
    "until none is left.",
    Verdict.PROVED,
    theorems=("search_for_D0_ends_with_norm_sub", "norm_sub_is_the_solution_to_cls"),
)
def cls_partition(instances: InstanceSet) -> Finding:
    """Run the repeated removal on all vectors of the small instances, and compare with Norm-Sub.

    Red if an answer differs by 1e-10 or more, the rounding of repeated sums.
    """
    errors = []
    for instance in [*instances.random, *instances.adversarial]:
        for f in instance.estimate.frequencies:
            # Vector by vector: each has its own number of rounds.
            answer, _ = repeated_partition(f)
            errors.append(largest(answer - closed_form.norm_sub(f)))
    return Finding(
        holds=largest(errors) < 1e-10,
        instances=len(errors),
        evidence={"largest difference to Norm-Sub": largest(errors)},
    )


@claim(
    "mle-apx",
    "N IV-D Eq. 12, Appendix B",
    "MLE-Apx, f' = f̃γ + δ on its active set, solves the weighted maximum likelihood problem.",
    Verdict.CORRECTED,
    theorems=("mle_apx_is_the_solution_to_mle", "t_exists", "printed_x_is_wrong"),
)
def mle_apx(instances: InstanceSet) -> Finding:
    """Evaluate the formulas with printed and with corrected signs, and compare with the minimum.

    Both are evaluated on the true active set of every random and real instance. The closed form is
    compared with the exact minimiser on all instances, with two cone solvers on some, and with
    exact fractions for three values of κ. Red if the printed formulas come out right to FORMULA, or
    if the corrected ones differ from the closed form by more than that, or if the closed form is
    more than ULPS from the exact minimiser or does not agree with the solvers.
    """
    solvers = _CONE_SOLVERS
    agreement = Agreement.merged(
        [
            compare_with_solvers(
                WEIGHTED_MLE, _apply_mle_apx, instances.all, solvers, largest=_LARGEST_SOLVED
            ),
            *_crowd_by_cones(instances, solvers),
        ]
    )
    exact_error = _mle_apx_against_fractions()
    errors = _FormulaErrors()
    for instance in instances.random + instances.real:
        # With κ = 0 the signs do not matter.
        if abs(instance.estimate.noise.kappa) >= IDENTITY:
            errors.add(instance.estimate)
    # Both ways to read the print: it holds only if neither is off.
    printed_error = largest([*errors.printed_line, *errors.printed_mass])
    corrected_error = largest(errors.corrected)
    return Finding(
        holds=printed_error < FORMULA,
        corrected=(
            agreement.holds
            and agreement.exact.ulps <= ULPS
            and corrected_error < FORMULA
            and exact_error <= 100 * EXACT  # values up to 1e17 cancel in Σf̃ + κ
        ),
        instances=agreement.vectors,
        evidence={
            "with the printed x_v, the sum of Eq. 12 differs from 1 by up to": largest(
                errors.printed_mass
            ),
            "with the printed γ and δ the objective exceeds the minimum by up to": largest(
                errors.printed_excess
            ),
            "correction": (
                "with x_v = (p-q)(1 - Σ_D1 f̃) / (|D1|q(1-q) + (p-q)(1-p-q)), D1 the values with "
                "f' > 0, and γ and δ over p-q - (p-q)(1-p-q)x_v"
            ),
            "largest difference of the corrected formulas to the closed form": corrected_error,
            "largest error against exact arithmetic, values up to 1e17": exact_error,
            **agreement.evidence,
        },
        agreement=agreement,
    )


def _crowd_by_cones(instances: InstanceSet, solvers: tuple[str, ...]) -> list[Agreement]:
    """Return MLE-Apx's comparisons on the crowd: pairs and triples go to no solver.

    Every stack has a κ of its own, and compiling its cones takes longer than solving them.
    """
    case = Case(WEIGHTED_MLE, _apply_mle_apx)
    # Where a solver's start is worth it.
    large = [i for i in instances.crowd if i.estimate.d > 3]
    small = [i for i in instances.crowd if i.estimate.d <= 3]
    return [compare_joined(case, large, solvers), compare_joined(case, small, ())]


@dataclass
class _FormulaErrors:
    """How far N's formulas are from the weighted MLE's minimum, one number per instance.

    Attributes
    ----------
    printed_mass
        Largest |sum of the printed Eq. 12 - 1|.
    printed_line
        Largest difference of the printed f̃γ + δ to the minimum.
    printed_excess
        Largest excess of its objective, where it has no negative value.
    corrected
        Largest difference of both formulas with corrected signs to the minimum.
    """

    printed_mass: list[float] = field(default_factory=list)
    printed_line: list[float] = field(default_factory=list)
    printed_excess: list[float] = field(default_factory=list)
    corrected: list[float] = field(default_factory=list)

    def add(self, estimate: FrequencyEstimate) -> None:
        """Evaluate the formulas on the active sets of an estimate's solutions."""
        # The objective as the library states it: the formulas under test know nothing of it.
        loss = WEIGHTED_MLE.loss
        best = _apply_mle_apx(estimate)
        # On the true active set, so that the formulas alone are judged and not the search for it.
        fraction, line = _formulas(estimate, best > 0, sign=-1)
        self.printed_mass.append(largest(fraction.sum(axis=-1) - 1))
        self.printed_line.append(largest(line - best))
        excess = loss.value(line, estimate) - loss.value(best, estimate)
        # Outside the set a point may lie below the minimum, which would prove nothing.
        feasible = line.min(axis=-1) >= 0
        self.printed_excess.append(float(np.max(np.where(feasible, excess, 0.0))))
        fraction, line = _formulas(estimate, best > 0, sign=1)
        self.corrected.append(largest([fraction - best, line - best]))


def _mle_apx_against_fractions() -> float:
    """Return MLE-Apx's largest error against exact fractions, for κ < 0 and κ > 0."""
    # Values that cancel, values near underflow, a single one, N's counter-example, and none
    # positive.
    rows = [
        [1e17, 0.2, 0.1],
        [1e-300, 2e-300, 0.0],
        [0.3],
        [0.5, 0.2, -0.01],
        [-0.9, -0.9, -0.5],
    ]
    errors = []
    for kappa in (-0.2, 0.27, 0.9):
        for row in rows:
            # With κ < 0 the model's variance is negative at f = 1e17.
            if kappa > 0 or max(row) < 1:
                f = np.array(row)
                errors.append(largest(closed_form.mle_apx(f, kappa) - exact_solution(f, kappa)))
    return largest(errors)


def _formulas(
    estimate: FrequencyEstimate, active: NDArray[np.bool_], sign: int
) -> tuple[Array, Array]:
    """Return N's Eq. 12 with its x_v, and f̃γ + δ with its γ, δ and x_v, on a given active set.

    ``sign`` is -1 for the signs as printed in x_v, γ and δ, and 1 for the corrected ones.
    """
    oracle = estimate.noise.require_protocol()
    p, q = oracle.p, oracle.q
    f = estimate.frequencies
    # Over D1 alone, as the papers write Σ_D1.
    mass = np.sum(f, axis=-1, keepdims=True, where=active)
    size = np.count_nonzero(active, axis=-1, keepdims=True)
    slope = (p - q) * (1 - p - q)
    x = (p - q) * (1 - mass) / (size * q * (1 - q) + sign * slope)
    # N Eq. 12 itself has the right signs; x_v, γ and δ below have not.
    fraction = (q * (1 - q) * x + f * (p - q)) / (p - q - slope * x)
    denominator = p - q - sign * slope * x
    gamma = (p - q) / denominator
    delta = q * (1 - q) * x / denominator
    return np.where(active, fraction, 0.0), np.where(active, f * gamma + delta, 0.0)


@claim(
    "mle-apx-draft",
    "D 3.4 Eq. 14, Appendix A",
    "D's form of MLE-Apx, with negative values moved to D0 until none is left, solves the same "
    "problem.",
    Verdict.PROVED,
    theorems=("search_for_D0_ends_with_mle_apx", "mle_apx_is_the_solution_to_mle"),
)
def mle_apx_draft(instances: InstanceSet) -> Finding:
    """Run D's iteration on all instances, and compare it with the closed form by one sort.

    Red if a frequency differs by more than 1e-10, the rounding of D's formula in terms of c/n.
    """
    errors = []
    vectors = 0
    for instance in instances.all:
        errors.append(largest(_draft(instance.estimate) - _apply_mle_apx(instance.estimate)))
        vectors += instance.vectors
    return Finding(
        holds=largest(errors) <= 1e-10,
        instances=vectors,
        evidence={"largest difference to MLE-Apx by one sort": largest(errors)},
    )


def _draft(estimate: FrequencyEstimate) -> Array:
    """Return D's Eq. 14 in terms of c/n, iterated as D 3.4 states."""
    oracle = estimate.noise.require_protocol()
    p, q = oracle.p, oracle.q
    # D writes its formula in c/n, the share of supporting reports.
    share = q + (p - q) * estimate.frequencies
    active = np.ones(share.shape, dtype=np.bool_)
    # At least one value leaves the active set in every round but the last.
    while True:
        size = np.count_nonzero(active, axis=-1, keepdims=True)
        mass = np.sum(share, axis=-1, keepdims=True, where=active)
        x = mass - size * q - (p - q)
        x /= (p - q) * (1 - p - q) + size * q * (1 - q)
        above = share - q - q * (1 - q) * x
        below = p - q + (p * (1 - p) - q * (1 - q)) * x
        f = above / below
        negative = active & (f < 0)
        if not negative.any():
            return np.where(active, f, 0.0)
        active &= ~negative


@claim(
    "mle-cls-identical",
    "N IV-D, from the KKT conditions",
    "Where p + q = 1 (SUE; GRR with d = 2) the weighted MLE and least squares have the same "
    "solution.",
    Verdict.PROVED,
    theorems=("identical_for_constant_variance", "symmetric_protocols_have_constant_variance"),
)
def mle_cls_identical(instances: InstanceSet) -> Finding:
    """Compare Norm-Sub and MLE-Apx under SUE and under GRR on two values, where κ = 0.

    The vectors are SUE's instances and 600 Gaussian ones. Red if a frequency differs by more than
    EXACT, or if Norm-Sub's gap in the weighted MLE problem exceeds GAP.
    """
    rng = instances.rng()
    # SUE has p + q = 1 at every size, GRR on two values alone.
    estimates = [i.estimate for i in instances.all if isinstance(i.estimate.oracle, SUE)]
    for epsilon in (0.1, 1.0, 4.0):
        # GRR has κ = 0 on two values alone.
        # Most of these have a value outside [0, 1], where the two could differ.
        stack = rng.normal(0.5, 1.0, size=(200, 2))
        estimates.append(FrequencyEstimate(stack, 1_000, binary_response(epsilon), is_raw=True))
    differences = []
    gaps = []
    vectors = 0
    for estimate in estimates:
        cls = closed_form.norm_sub(estimate.frequencies)
        differences.append(largest(_apply_mle_apx(estimate) - cls))
        # In the other problem than the one it is the closed form of.
        gaps.append(largest(certify(WEIGHTED_MLE, estimate, cls).gap))
        vectors += int(np.prod(estimate.frequencies.shape[:-1]))
    return Finding(
        holds=largest(differences) <= EXACT and largest(gaps) <= GAP,
        instances=vectors,
        evidence={
            "largest difference between Norm-Sub and MLE-Apx": largest(differences),
            "largest gap of Norm-Sub's answer in the weighted MLE problem": largest(gaps),
        },
    )


@claim(
    "mle-cls-bound",
    "N IV-D, 'very close results'; bound derived from the KKT conditions",
    "‖f_MLE - f_CLS‖₁ ≤ 2|κ||t|, and ≤ 2κ|δ| where κ ≥ 0.",
    Verdict.PROVED,
    theorems=("mle_is_near_cls", "mle_is_near_cls_by_delta"),
)
def mle_cls_bound(instances: InstanceSet) -> Finding:
    """Compare the distance of the two closed forms with both bounds, on all instances.

    Red if a distance exceeds a bound by more than IDENTITY, or if none comes within a factor of
    ten of it: a bound that is never near would state nothing.
    """
    ratios = [0.0]
    real_distances = [0.0]
    within = True
    vectors = 0
    for instance in instances.all:
        estimate = instance.estimate
        raw = estimate.frequencies
        kappa = estimate.noise.kappa
        mle = _apply_mle_apx(estimate)
        cls = closed_form.norm_sub(raw)
        distance = np.sum(np.abs(mle - cls), axis=-1)
        # Rescaling and shift each move the mass |κ t|: hence the factor of two.
        bound = 2 * abs(kappa) * np.abs(multiplier(mle, raw, kappa))
        within &= bool(np.all(distance <= bound + IDENTITY))
        if kappa >= 0:
            delta = multiplier(cls, raw, kappa=0.0)
            within &= bool(np.all(distance <= 2 * kappa * np.abs(delta) + IDENTITY))
        # A bound of the size of the rounding has no meaningful ratio.
        ratio = np.divide(distance, bound, out=np.zeros_like(bound), where=bound > 1e-9)
        ratios.append(largest(ratio))
        if instance.kind == "real":
            real_distances.append(largest(distance))
        vectors += instance.vectors
    return Finding(
        holds=within and largest(ratios) > 0.1,
        instances=vectors,
        evidence={
            "largest ratio of the distance to the bound": largest(ratios),
            "largest distance ‖f_MLE - f_CLS‖₁ on real data": largest(real_distances),
        },
    )


@claim(
    "norm-cls",
    "N IV-C on [16]",
    "Norm solves least squares with the sum constraint alone.",
    Verdict.PROVED,
    theorems=("norm_is_the_solution_to_cls_without_nonnegativity",),
)
def norm_cls(instances: InstanceSet) -> Finding:
    """Certify Norm on all instances, and compare it with two solvers.

    Red if a gap exceeds GAP or a solver converges to a point that differs by more than its
    objective allows.
    """
    problem = Problem(LeastSquares(), [SumsTo(1.0)])
    # Without bounds the gap of joined vectors is infinite for the smallest rounding of a
    # multiplier. These bounds are never reached.
    bounded = Problem(LeastSquares(), [SumsTo(1.0), Bounds(-1e3, 1e3)])
    return Finding.of(
        _against_least_squares(
            instances, problem, lambda e: closed_form.norm(e.frequencies), joined=bounded
        )
    )


@claim(
    "base-pos-ls",
    "N IV-A",
    "Base-Pos solves least squares with non-negativity alone.",
    Verdict.PROVED,
    theorems=("base_pos_is_least_squares_with_nonnegativity",),
)
def base_pos_ls(instances: InstanceSet) -> Finding:
    """Certify Base-Pos on all instances, and compare it with two solvers.

    Red if a gap exceeds GAP or a solver converges to a point that differs by more than its
    objective allows.
    """
    problem = Problem(LeastSquares(), [NonNegative()])
    return Finding.of(
        _against_least_squares(instances, problem, lambda e: closed_form.base_pos(e.frequencies))
    )


@claim(
    "norm-mul-kl",
    "N IV-B",
    "Norm-Mul is the Kullback-Leibler projection of max(f̃, 0) onto Σf = 1.",
    Verdict.PROVED,
    theorems=("norm_mul_is_the_projection_by_divergence", "gamma_exists"),
)
def norm_mul_kl(instances: InstanceSet) -> Finding:
    """Certify Norm-Mul on all vectors with a positive value, and compare it with two solvers.

    The crowd and US cities are certified alone: solvers take seconds on so many exponential cones,
    or do not converge. Red if
    a gap exceeds GAP or a solver converges to a point that differs by more than its objective
    allows.
    """
    problem = Problem(KullbackLeibler(), [SumsTo(1.0)])
    positive = [i for i in instances.all if (i.estimate.frequencies > 0).any(axis=-1).all()]
    # Row by row here: no solver gets these, so that a stack may lose some.
    crowd = [i.where(i.estimate.frequencies.max(axis=-1) > 0) for i in instances.crowd]

    def norm_mul(estimate: FrequencyEstimate) -> Array:
        return closed_form.norm_mul(estimate.frequencies)

    solvers = ("CLARABEL", "SCS")
    parts = [
        compare_with_solvers(
            problem, norm_mul, positive, solvers, largest=_LARGEST_SOLVED, options=_FEW_ITERATIONS
        ),
        compare_with_solvers(problem, norm_mul, crowd, solvers=()),
    ]
    return Finding.of(Agreement.merged(parts))
