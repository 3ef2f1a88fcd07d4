"""Claims that a closed form solves an optimisation problem, or that two of them agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.agreement import Agreement, compare_with_solvers
from ldpopt.claims.engine.batches import Case, compare_joined
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet, binary_response
from ldpopt.claims.engine.tolerances import EXACT, GAP
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

_CONE_LIMIT = {"CLARABEL": 4096, "QOCO": 4096, "SCS": 300}


def _compare(
    instances: InstanceSet,
    problem: Problem,
    solve: Callable[[FrequencyEstimate], Array],
    joined: Problem | None = None,
) -> Agreement:
    """Compare a closed form of least squares with two solvers: vector by vector, and many small vectors at a time.

    ``joined`` stands for the problem where vectors are joined.
    """
    solvers = ("CLARABEL", "OSQP")
    parts = [
        compare_with_solvers(problem, solve, instances.all, solvers),
        compare_joined(Case(joined or problem, solve), instances.crowd, solvers),
    ]
    return Agreement.merged(parts)


@claim(
    "cls-norm-sub",
    "N IV-C, Appendix A",
    "Norm-Sub, f' = max(f̃ + δ, 0) with Σf' = 1, solves constrained least squares.",
    Verdict.HOLDS,
)
def _cls_norm_sub(instances: InstanceSet) -> Finding:
    agreement = _compare(instances, CLS, lambda e: closed_form.norm_sub(e.frequencies))
    error = max(
        float(np.max(np.abs(closed_form.norm_sub(f) - exact_solution(f, 0.0))))
        for f in instances.extreme
    )
    return Finding(
        holds=agreement.holds and bool(error <= EXACT),
        instances=agreement.vectors + len(instances.extreme),
        evidence={
            **agreement.evidence,
            "largest error against exact arithmetic, values up to 1e308": error,
        },
        agreement=agreement,
    )


@claim(
    "mle-apx",
    "N IV-D Eq. 12, Appendix B",
    "MLE-Apx, f' = f̃γ + δ on its active set, solves the weighted maximum likelihood problem.",
    Verdict.CORRECTED,
)
def _mle_apx(instances: InstanceSet) -> Finding:
    rows = [[1e17, 0.2, 0.1], [1e-300, 2e-300, 0.0], [0.3], [0.5, 0.2, -0.01], [-0.9, -0.9, -0.5]]
    error = max(
        float(
            np.max(
                np.abs(
                    closed_form.mle_apx(np.array(row), kappa) - exact_solution(np.array(row), kappa)
                )
            )
        )
        for kappa in (-0.2, 0.27, 0.9)
        for row in rows
        if kappa > 0 or max(row) < 1
    )
    agreement = Agreement.merged(
        [
            compare_with_solvers(
                WEIGHTED_MLE, _apply_mle_apx, instances.all, ("CLARABEL", "QOCO"), _CONE_LIMIT
            ),
            compare_joined(
                Case(WEIGHTED_MLE, _apply_mle_apx), instances.crowd, ("CLARABEL", "QOCO")
            ),
        ]
    )
    mass_error, excess, repair, right = 0.0, 0.0, 0.0, True
    for instance in instances.random + instances.real:
        estimate = instance.estimate
        oracle = estimate.noise[1]
        if abs(oracle.kappa) < 1e-12:
            continue  # the signs do not matter then
        best = _apply_mle_apx(estimate)
        fraction, line = _printed(estimate, best > 0, sign=-1)
        repaired = _printed(estimate, best > 0, sign=1)
        repair = max(repair, *(float(np.max(np.abs(form - best))) for form in repaired))
        mass_error = max(mass_error, float(np.max(np.abs(fraction.sum(axis=-1) - 1))))
        gain = WEIGHTED_MLE.loss.value(line, estimate) - WEIGHTED_MLE.loss.value(best, estimate)
        feasible = line.min(axis=-1) >= 0
        excess = max(excess, float(np.max(np.where(feasible, gain, 0.0))))
        right &= float(np.max(np.abs(line - best))) < 1e-9
    return Finding(
        holds=right and mass_error < 1e-9,
        corrected=bool(agreement.holds and repair < 1e-9 and error <= 100 * EXACT),
        instances=agreement.vectors,
        evidence={
            "with the printed x_v, Eq. 12 sums to 1 but for at most": mass_error,
            "with the printed γ and δ the objective exceeds the minimum by up to": excess,
            "correction, D1 the values with f' > 0": (
                "x_v = (p-q)(1 - Σ_D1 f̃) / (|D1|q(1-q) + (p-q)(1-p-q)); γ and δ over p-q - (p-q)(1-p-q)x_v"
            ),
            "largest difference of the corrected formulas to the closed form": repair,
            "largest error against exact arithmetic, values up to 1e17": error,
            **agreement.evidence,
        },
        agreement=agreement,
    )


def _printed(
    estimate: FrequencyEstimate, active: NDArray[np.bool_], sign: int
) -> tuple[Array, Array]:
    """Return N's Eq. 12 with its x_v, and f̃γ + δ with its γ, δ and x_v, on a given active set.

    ``sign`` is -1 for the signs as printed in x_v, γ and δ, and 1 for the corrected ones.
    """
    oracle = estimate.noise[1]
    p, q = oracle.p, oracle.q
    f = estimate.frequencies
    mass = np.sum(f, axis=-1, keepdims=True, where=active)
    size = np.count_nonzero(active, axis=-1, keepdims=True)
    x = (p - q) * (1 - mass) / (size * q * (1 - q) + sign * (p - q) * (1 - p - q))
    eq12 = (q * (1 - q) * x + f * (p - q)) / (p - q - (p - q) * (1 - p - q) * x)
    below = p - q - sign * (p - q) * (1 - p - q) * x
    line = f * (p - q) / below + q * (1 - q) * x / below
    return np.where(active, eq12, 0.0), np.where(active, line, 0.0)


def _apply_mle_apx(estimate: FrequencyEstimate) -> Array:
    return closed_form.mle_apx(estimate.frequencies, estimate.noise[1].kappa)


@claim(
    "mle-apx-draft",
    "D 3.4 Eq. 14, Appendix A",
    "D's form of MLE-Apx, with negative values moved to D0 until none is left, solves the same problem.",
    Verdict.HOLDS,
)
def _mle_apx_draft(instances: InstanceSet) -> Finding:
    worst, vectors = 0.0, 0
    for instance in instances.all:
        f = _draft(instance.estimate)
        worst = max(worst, float(np.max(np.abs(f - _apply_mle_apx(instance.estimate)))))
        vectors += instance.vectors
    return Finding(worst <= 1e-10, vectors, {"largest difference to MLE-Apx by one sort": worst})


def _draft(estimate: FrequencyEstimate) -> Array:
    """Return D's Eq. 14 in terms of c/n, iterated as D 3.4 says."""
    oracle = estimate.noise[1]
    p, q = oracle.p, oracle.q
    share = q + (p - q) * estimate.frequencies
    active = np.ones(share.shape, dtype=np.bool_)
    while True:
        size = np.count_nonzero(active, axis=-1, keepdims=True)
        x = np.sum(share, axis=-1, keepdims=True, where=active) - size * q - (p - q)
        x /= (p - q) * (1 - p - q) + size * q * (1 - q)
        f = (share - q - q * (1 - q) * x) / (p - q + (p * (1 - p) - q * (1 - q)) * x)
        negative = active & (f < 0)
        if not negative.any():
            return np.where(active, f, 0.0)
        active &= ~negative


@claim(
    "mle-cls-identical",
    "N IV-D, from the KKT conditions",
    "Where p + q = 1 (SUE; GRR with d = 2) the weighted MLE and least squares have the same solution.",
    Verdict.HOLDS,
)
def _identical(instances: InstanceSet) -> Finding:
    rng = instances.rng()
    worst, gap, vectors = 0.0, 0.0, 0
    estimates = [i.estimate for i in instances.all if isinstance(i.estimate.oracle, SUE)]
    for epsilon in (0.1, 1.0, 4.0):
        stack = rng.normal(0.5, 1.0, size=(200, 2))
        estimates.append(FrequencyEstimate(stack, 1_000, binary_response(epsilon)))
    for estimate in estimates:
        cls = closed_form.norm_sub(estimate.frequencies)
        worst = max(worst, float(np.max(np.abs(_apply_mle_apx(estimate) - cls))))
        gap = max(gap, float(np.max(certify(WEIGHTED_MLE, estimate, cls).gap)))
        vectors += int(np.prod(estimate.frequencies.shape[:-1]))
    return Finding(
        bool(worst <= EXACT) and gap <= GAP,
        vectors,
        {
            "largest difference between Norm-Sub and MLE-Apx": worst,
            "largest gap of Norm-Sub's answer in the weighted MLE problem": gap,
        },
    )


@claim(
    "mle-cls-bound",
    "N IV-D, 'very close results'; bound derived from the KKT conditions",
    "‖f_MLE - f_CLS‖₁ ≤ 2|κ||t|, and ≤ 2κ|δ| where κ ≥ 0.",
    Verdict.HOLDS,
)
def _bound(instances: InstanceSet) -> Finding:
    ratios, vectors, holds, real = [0.0], 0, True, 0.0
    for instance in instances.all:
        estimate = instance.estimate
        kappa = estimate.noise[1].kappa
        mle, cls = _apply_mle_apx(estimate), closed_form.norm_sub(estimate.frequencies)
        distance = np.sum(np.abs(mle - cls), axis=-1)
        delta = _shift(cls, estimate.frequencies)
        # f' = (f̃ + t)/(1 - κt) on the active set: its largest value gives t.
        top = np.argmax(mle, axis=-1, keepdims=True)
        high, raw = (
            np.take_along_axis(mle, top, -1)[..., 0],
            np.take_along_axis(estimate.frequencies, top, -1)[..., 0],
        )
        t = (high - raw) / (1 + kappa * high)
        limit = 2 * abs(kappa) * np.abs(t)
        if kappa >= 0:
            holds &= bool(np.all(distance <= 2 * kappa * np.abs(delta) + 1e-12))
        holds &= bool(np.all(distance <= limit + 1e-12))
        ratio = float(
            np.max(np.divide(distance, limit, out=np.zeros_like(limit), where=limit > 1e-9))
        )
        ratios.append(ratio)
        real = max(real, float(np.max(distance)) if instance.kind == "real" else 0.0)
        vectors += instance.vectors
    return Finding(
        holds and max(ratios) > 0.1,  # a bound that is never near says nothing
        vectors,
        {
            "largest ratio of the distance to the bound": max(ratios),
            "largest distance ‖f_MLE - f_CLS‖₁ on real data": real,
        },
    )


def _shift(f: Array, raw: Array) -> Array:
    top = np.argmax(f, axis=-1, keepdims=True)
    return np.asarray((np.take_along_axis(f, top, -1) - np.take_along_axis(raw, top, -1))[..., 0])


@claim(
    "norm-cls",
    "N IV-C on [16]",
    "Norm solves least squares with the sum constraint alone.",
    Verdict.HOLDS,
)
def _norm(instances: InstanceSet) -> Finding:
    problem = Problem(LeastSquares(), [SumsTo(1.0)])
    # The gap of several vectors without bounds is infinite for the least rounding; these bounds are never reached.
    bounded = Problem(LeastSquares(), [SumsTo(1.0), Bounds(-1e3, 1e3)])
    agreement = _compare(instances, problem, lambda e: closed_form.norm(e.frequencies), bounded)
    return Finding(agreement.holds, agreement.vectors, agreement.evidence, agreement=agreement)


@claim(
    "base-pos-ls",
    "N IV-A",
    "Base-Pos solves least squares with non-negativity alone.",
    Verdict.HOLDS,
)
def _base_pos(instances: InstanceSet) -> Finding:
    problem = Problem(LeastSquares(), [NonNegative()])
    agreement = _compare(instances, problem, lambda e: closed_form.base_pos(e.frequencies))
    return Finding(agreement.holds, agreement.vectors, agreement.evidence, agreement=agreement)


@claim(
    "norm-mul-kl",
    "N IV-B",
    "Norm-Mul is the Kullback-Leibler projection of max(f̃, 0) onto Σf = 1.",
    Verdict.HOLDS,
)
def _norm_mul(instances: InstanceSet) -> Finding:
    problem = Problem(KullbackLeibler(), [SumsTo(1.0)])
    positive = [i for i in instances.all if (i.estimate.frequencies > 0).any(axis=-1).all()]
    patience: dict[str, dict[str, float]] = {
        "SCS": {"max_iters": 4000}
    }  # it needs a few hundred, or does not arrive at all
    crowd = [i.where(i.estimate.frequencies.max(axis=-1) > 0) for i in instances.crowd]

    def solve(e: FrequencyEstimate) -> Array:
        return closed_form.norm_mul(e.frequencies)

    agreement = Agreement.merged(
        [
            compare_with_solvers(problem, solve, positive, ("CLARABEL", "SCS"), options=patience),
            compare_with_solvers(
                problem, solve, crowd, ()
            ),  # exponential cones: by the closed form's own gap alone
        ]
    )
    return Finding(agreement.holds, agreement.vectors, agreement.evidence, agreement=agreement)
