"""Claims about maximum likelihood: the exact likelihoods beside Norm-Sub, and when the approximate one is close to it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.datasets.dataset import apportion
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import BinomialMLE, GaussianMLE, LeastSquares, Loss, MultinomialMLE, PerReportMLE
from ldpopt.oracles import GRR, OLH, ORACLES, OUE, SUE
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.solve.problem import Problem

TITLE = "Maximum likelihood: the exact likelihoods beside Norm-Sub, and the approximate one"
ORDER = 40

Array = NDArray[np.float64]

_Z = 3.0  # half-width of confidence intervals, in standard errors: a Gaussian is outside in 1 of 370 cases


@dataclass(frozen=True, eq=False)
class Setting:
    """A collection that likelihoods are compared on: Zipf(1.5) data through an oracle, and the losses that fit it."""

    name: str
    oracle: FrequencyOracle
    n: int
    losses: tuple[Loss, ...]


def _settings() -> list[Setting]:
    d, n = 1_024, 1_000_000
    independent = (BinomialMLE(), GaussianMLE())
    return [
        Setting("OUE", OUE(epsilon=1.0, d=d), n, independent),
        Setting("OLH", OLH(epsilon=1.0, d=d), n, independent),
        Setting("SUE (basic RAPPOR)", SUE(epsilon=1.0, d=d), n, (BinomialMLE(),)),
        Setting("GRR", GRR(epsilon=1.0, d=d), n, (MultinomialMLE(), GaussianMLE())),
        Setting(
            "GRR with 10,000 users",
            GRR(epsilon=1.0, d=d),
            10_000,
            (MultinomialMLE(), GaussianMLE()),
        ),
    ]


def paired(
    setting: Setting, loss: Loss, rng: np.random.Generator, trials: int
) -> tuple[float, float]:
    """Return by how much a likelihood's MSE exceeds Norm-Sub's, relative, and the half-width of its confidence interval.

    Both are solved on the same draws, so that their difference has little noise.
    """
    data = datasets.load("zipf").scaled(setting.n)
    counts = setting.oracle.simulate_counts(data.counts, rng, trials=trials)
    raw = setting.oracle.estimate(counts, setting.n)
    errors = [
        np.mean(
            (Problem(which, [NonNegative(), SumsTo(1.0)]).solve(raw).frequencies - data.frequencies)
            ** 2,
            axis=-1,
        )
        for which in (loss, LeastSquares())
    ]
    return _relative(errors[0], errors[1])


@claim(
    "exact-mle",
    "N VI, on Kairouz, Bonawitz, Ramage 2016",
    "Exact maximum likelihood performs worse than Norm-Sub (on N's data).",
    Verdict.HOLDS,
)
def _exact_mle(instances: InstanceSet) -> Finding:
    rng, trials = instances.rng(), 20 if instances.quick else 100
    evidence: dict[str, float | int | str] = {}
    worse, better = True, False
    for setting in _settings():
        for loss in setting.losses:
            excess, half = paired(setting, loss, rng, trials)
            exact = not isinstance(loss, GaussianMLE)
            evidence[
                f"{setting.name}, {'exact ' if exact else ''}{loss!r}: MSE above Norm-Sub's"
            ] = f"{100 * excess:+.2f} % ± {100 * half:.2f}"
            if setting.n == 1_000_000:
                worse &= not exact or excess - half > 0
            else:
                better |= excess + half < 0
    return Finding(
        worse,
        trials * len(_settings()),
        {
            **evidence,
            "data": f"Zipf(1.5), d = 1,024, n = 1,000,000 but for the last, ε = 1, {trials} paired draws; ± 3 standard errors",
            "not everywhere": "with few users GRR's exact likelihood is the better one"
            if better
            else "no setting here in which an exact likelihood is better",
        },
    )


@claim(
    "per-report-mle",
    "N VI, with the likelihood of the reports instead of the counts",
    "Exact maximum likelihood performs worse than Norm-Sub also where it sees which values reports support together.",
    Verdict.FAILS,
)
def _per_report(instances: InstanceSet) -> Finding:
    """Look where counts lose most: unary encoding and hashing with a large ε and few values."""
    rng, trials, n, d = instances.rng(), 20 if instances.quick else 100, 5_000, 64
    data = datasets.load("zipf").counts[:d]
    truth = apportion(data, n)
    values = np.repeat(np.arange(d), truth)
    evidence: dict[str, float | int | str] = {}
    better = True
    for oracle in (OUE(epsilon=3.0, d=d), OLH(epsilon=3.0, d=d), OUE(epsilon=1.0, d=d)):
        errors: dict[str, list[float]] = {"reports": [], "counts": [], "Norm-Sub": []}
        for _ in range(trials):
            reports = oracle.perturb(values, rng=rng)
            raw = oracle.estimate(oracle.support_counts(reports), n)
            losses = (PerReportMLE(oracle, reports), BinomialMLE(), LeastSquares())
            for loss, found in zip(losses, errors.values(), strict=True):
                f = Problem(loss, [NonNegative(), SumsTo(1.0)]).solve(raw).frequencies
                found.append(float(np.mean((f - truth / n) ** 2)))
        for other in ("counts", "Norm-Sub"):
            excess, half = _relative(np.array(errors["reports"]), np.array(errors[other]))
            evidence[
                f"{type(oracle).__name__}, ε = {oracle.epsilon:g}: MSE above that of {other}"
            ] = f"{100 * excess:+.2f} % ± {100 * half:.2f}"
            if oracle.epsilon > 1:
                better &= excess + half < 0
    return Finding(
        not better,
        3 * trials,
        {
            **evidence,
            "data": f"Zipf(1.5), d = {d}, n = {n:,}, {trials} paired draws; ± 3 standard errors",
        },
    )


def _relative(errors: Array, others: Array) -> tuple[float, float]:
    """Return by how much errors exceed others drawn in pairs, relative, and the half-width of the confidence interval."""
    difference, scale = errors - others, float(others.mean())
    return float(difference.mean()) / scale, _Z * float(difference.std(ddof=1)) / math.sqrt(
        len(errors)
    ) / scale


def _multiplier(mle: Array, raw: Array, kappa: float) -> Array:
    """Return t of f' = (f̃ + t)/(1 - κt) from the largest value of every vector."""
    top = np.argmax(mle, axis=-1, keepdims=True)
    high, low = (np.take_along_axis(x, top, -1)[..., 0] for x in (mle, raw))
    return np.asarray((high - low) / (1 + kappa * high))


def _pair(estimate: FrequencyEstimate) -> tuple[Array, Array, Array]:
    """Return MLE-Apx's answer, Norm-Sub's, and t."""
    kappa = estimate.noise[1].kappa
    mle = closed_form.mle_apx(estimate.frequencies, kappa)
    return (
        mle,
        closed_form.norm_sub(estimate.frequencies),
        _multiplier(mle, estimate.frequencies, kappa),
    )


@claim(
    "gamma-near-one",
    "N IV-D, V-C; D 3.4, 4.2",
    "Norm-Sub and MLE-Apx give very close results, as γ ~ 1.",
    Verdict.HOLDS,
)
def _gamma(instances: InstanceSet) -> Finding:
    """γ = 1/(1 - κt). Measured over N's budgets; the accuracy of both is compared on the same draws."""
    rng, trials = instances.rng(), 5 if instances.quick else 20
    epsilons = (0.2, 1.0, 2.0, 3.0, 4.0)
    away, gap, distance = 0.0, 0.0, 0.0
    evidence: dict[str, float | int | str] = {}
    for data_name in ("zipf", "emoji"):
        data = datasets.load(data_name)
        for epsilon in epsilons:
            oracle = OLH(epsilon=epsilon, d=data.d)
            raw = oracle.estimate(oracle.simulate_counts(data.counts, rng, trials=trials), data.n)
            mle, cls, t = _pair(raw)
            gamma = 1 / (1 - oracle.kappa * t)
            errors = [float(np.mean((f - data.frequencies) ** 2)) for f in (mle, cls)]
            away = max(away, float(np.max(np.abs(gamma - 1))))
            gap = max(gap, abs(errors[0] / errors[1] - 1))
            distance = max(distance, float(np.max(np.sum(np.abs(mle - cls), axis=-1))))
            if epsilon in (1.0, 4.0):
                evidence[f"γ on {data_name}, OLH, ε = {epsilon:g}"] = (
                    f"{gamma.min():.4f} .. {gamma.max():.4f}"
                )
    return Finding(
        away < 0.01 and gap < 0.1,
        2 * len(epsilons) * trials,
        {
            **evidence,
            "largest |γ - 1|, ε from 0.2 to 4": away,
            "largest relative difference of the mean squared errors": gap,
            "largest distance ‖f_MLE - f_CLS‖₁": distance,
        },
    )


@claim(
    "mle-cls-dominated",
    "N IV-D, IV-F; D 3.5, 3.6",
    "Constrained least squares is equivalent to the weighted MLE when f's part of the variance is dominated.",
    Verdict.CORRECTED,
)
def _dominated(instances: InstanceSet) -> Finding:
    """Sufficient, not necessary: ‖f_MLE - f_CLS‖₁ <= 2|κ||t|, small where |κ| is or where little mass must move."""
    rng = instances.rng()
    evidence: dict[str, float | int | str] = {}
    within, dominated_and_far, close_undominated = True, 0, False
    rows = 0
    for epsilon, n in ((0.2, 10**6), (1.0, 10**6), (4.0, 10**8), (4.0, 10**4)):
        d = 1_024
        data = datasets.load("zipf").scaled(n)
        oracle = OUE(epsilon=epsilon, d=d)
        raw = oracle.estimate(oracle.simulate_counts(data.counts, rng, trials=5), n)
        mle, cls, t = _pair(raw)
        distance = np.sum(np.abs(mle - cls), axis=-1)
        bound = 2 * oracle.kappa * np.abs(t)
        within &= bool(np.all(distance <= bound + 1e-12))
        part = oracle.kappa * float(data.frequencies.max())
        far = float(distance.max())
        dominated_and_far += part < 0.01 and far > 0.01
        close_undominated |= part > 1 and far < 1e-3
        evidence[f"ε = {epsilon:g}, n = {n:,}: κ f of the top value; 2κ|t|; ‖f_MLE - f_CLS‖₁"] = (
            f"{part:.3g}; {float(bound.max()):.2g}; {far:.2g}"
        )
        rows += len(distance)
    # What is left when f's part vanishes: the two differ in proportion to κ.
    raw_vector = rng.normal(1 / 8, 0.3, size=8)
    small = [
        float(np.sum(np.abs(closed_form.mle_apx(raw_vector, k) - closed_form.norm_sub(raw_vector))))
        for k in (1e-3, 1e-6)
    ]
    vanishing = math.isclose(small[0] / small[1], 1e3, rel_tol=0.01) or small[0] == 0
    return Finding(
        holds=not close_undominated,
        corrected=within and vanishing and dominated_and_far == 0,
        instances=rows + 2,
        evidence={
            **evidence,
            "distance on a random vector at κ = 1e-3 and 1e-6": f"{small[0]:.2g}, {small[1]:.2g}",
            "correction": "dominance suffices but is not needed: the distance is at most 2κ|t|, so the two also agree where f's "
            "part is the larger one but little mass has to be moved",
        },
    )


@claim(
    "normaliser-vanishes",
    "N Appendix B, D 3.4",
    "For large n the exponent dominates the Gaussian likelihood's coefficient, so that leaving it out changes little.",
    Verdict.HOLDS,
)
def _normaliser(instances: InstanceSet) -> Finding:
    """On two values: min n/2 Σ (f-f̃)²/(a+bf) + ½ Σ log(a+bf) over f = (x, 1-x), on a grid refined around its best point."""
    oracle = OUE(epsilon=2.0, d=2)
    raw = np.array([0.72, 0.31])
    best = float(closed_form.mle_apx(raw, oracle.kappa)[0])

    def exact(n: int) -> float:
        low, high = 0.0, 1.0
        for _ in range(12):
            x = np.linspace(low, high, 1_001)
            f = np.stack([x, 1 - x], axis=-1)
            variance = oracle.a + oracle.b * f
            value = np.sum(n / 2 * (f - raw) ** 2 / variance + np.log(variance) / 2, axis=-1)
            at, step = float(x[np.argmin(value)]), (high - low) / 1_000
            low, high = max(0.0, at - 2 * step), min(1.0, at + 2 * step)
        return at

    sizes = (100, 10_000, 1_000_000)
    moved = [abs(exact(n) - best) for n in sizes]
    falls = all(
        math.isclose(early / late, 100, rel_tol=0.2) for early, late in itertools.pairwise(moved)
    )
    return Finding(
        falls and moved[0] < 0.1 * oracle.sd(100),
        len(sizes),
        {
            **{
                f"the coefficient moves the maximum by, n = {n:,}, in σ": m / oracle.sd(n)
                for n, m in zip(sizes, moved, strict=True)
            },
            "falls like": "1/n, and 1/sqrt(n) in units of σ",
            "example": "OUE, ε = 2, f̃ = (0.72, 0.31)",
        },
    )


@claim(
    "mle-convex",
    "N Appendix B, D Appendix A",
    "The target Σ (f' - f̃)²/(a + b f') is convex.",
    Verdict.HOLDS,
)
def _convex(instances: InstanceSet) -> Finding:
    """Its second derivative is 2(a + b f̃)²/(a + b f')³, positive wherever the variance is."""
    rng, smallest, relative, settings = instances.rng(), math.inf, 0.0, 0
    for make in ORACLES.values():
        for epsilon in (0.2, 1.0, 4.0):
            oracle = make(epsilon, 16)
            f = rng.uniform(0.01, 0.99, 200)
            raw = rng.uniform(-0.5, 1.5, 200)
            step = 1e-3 * np.minimum(f, oracle.a / (oracle.a + abs(oracle.b)))

            def value(
                x: Array, raw: Array = raw, a: float = oracle.a, b: float = oracle.b
            ) -> Array:
                return np.asarray((x - raw) ** 2 / (a + b * x))

            found = (value(f + step) - 2 * value(f) + value(f - step)) / step**2
            right = 2 * (oracle.a + oracle.b * raw) ** 2 / (oracle.a + oracle.b * f) ** 3
            scale = float(np.max(right))
            relative = max(relative, float(np.max(np.abs(found - right))) / scale)
            smallest = min(smallest, float(right.min()))
            settings += len(f)
    return Finding(
        smallest >= 0 and relative < 1e-2,
        settings,
        {
            "smallest second derivative": smallest,
            "largest difference of a second difference to the formula, over its largest value": relative,
        },
    )
