"""Claims about maximum likelihood: the exact ones beside Norm-Sub, and the approximate one."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form, datasets
from ldpopt.channels import Matrix, mix
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.measures import largest, smallest
from ldpopt.claims.engine.tolerances import CONFIDENCE, IDENTITY
from ldpopt.claims.reference.multipliers import multiplier
from ldpopt.constraints import NonNegative, SumsTo
from ldpopt.datasets.dataset import apportion
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import BinomialMLE, GaussianMLE, LeastSquares, Loss, MultinomialMLE, PerReportMLE
from ldpopt.oracles import GRR, OLH, ORACLES, OUE, SUE, HadamardResponse
from ldpopt.oracles.base import FrequencyOracle
from ldpopt.priors.mixture_weights import mixture_weights
from ldpopt.solve.problem import Problem

TITLE = "Maximum likelihood: the exact likelihoods beside Norm-Sub, and the approximate one"
ORDER = 40

Array = NDArray[np.float64]

_MANY_USERS = 1_000_000  # as in N's evaluation
_FEW_USERS = 10_000
_APPROXIMATE = GaussianMLE()
_NEAR = 1e-4  # nats: EM takes some thousand steps to it, and ten times as many to a tenth of it


@dataclass(frozen=True, eq=False)
class Setting:
    """Zipf(1.5) data collected through an oracle, and the likelihoods that fit its reports."""

    name: str
    oracle: FrequencyOracle
    n: int
    losses: tuple[Loss, ...]


def _settings() -> list[Setting]:
    # N's own size, which its sentence is about.
    d = 1_024
    grr_losses = (MultinomialMLE(), _APPROXIMATE)
    independent_losses = (BinomialMLE(), _APPROXIMATE)
    return [
        Setting("OUE", OUE(epsilon=1.0, d=d), _MANY_USERS, independent_losses),
        Setting("OLH", OLH(epsilon=1.0, d=d), _MANY_USERS, independent_losses),
        # SUE's Gaussian likelihood is least squares: κ = 0.
        Setting("SUE (basic RAPPOR)", SUE(epsilon=1.0, d=d), _MANY_USERS, (BinomialMLE(),)),
        Setting("GRR", GRR(epsilon=1.0, d=d), _MANY_USERS, grr_losses),
        Setting("GRR with 10,000 users", GRR(epsilon=1.0, d=d), _FEW_USERS, grr_losses),
    ]


@dataclass(frozen=True)
class Excess:
    """By how much one mean squared error exceeds another, relative, from paired draws.

    ``half_width`` is that of its confidence interval.
    """

    relative: float
    half_width: float

    @classmethod
    def of(cls, errors: Array, others: Array) -> Excess:
        """Return the excess of errors over others, drawn in pairs: their difference varies less."""
        # On the same draws: what both have in common is nearly all of their noise.
        difference = errors - others
        scale = float(others.mean())
        standard_error = float(difference.std(ddof=1)) / math.sqrt(len(errors))
        return cls(float(difference.mean()) / scale, CONFIDENCE * standard_error / scale)

    @property
    def is_positive(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.relative - self.half_width > 0

    @property
    def is_negative(self) -> bool:
        """Whether the whole interval is below 0."""
        return self.relative + self.half_width < 0

    def __str__(self) -> str:
        return f"{100 * self.relative:+.2f} % ± {100 * self.half_width:.2f}"


def _squared_errors(loss: Loss, raw: FrequencyEstimate, truth: Array) -> Array:
    """Return the mean squared error of a loss's solution on the simplex, per draw."""
    solution = Problem(loss, [NonNegative(), SumsTo(1.0)]).solve(raw)
    return np.asarray(np.mean((solution.frequencies - truth) ** 2, axis=-1))


def excess_over_norm_sub(
    setting: Setting, loss: Loss, rng: np.random.Generator, trials: int
) -> Excess:
    """Return by how much a likelihood's mean squared error exceeds Norm-Sub's.

    Both are solved on the same draws.
    """
    # The same shape with fewer users, so that n alone differs between the settings.
    data = datasets.load("zipf").scaled(setting.n)
    counts = setting.oracle.simulate_counts(data.counts, rng, trials=trials)
    raw = setting.oracle.estimate(counts, setting.n)
    return Excess.of(
        _squared_errors(loss, raw, data.frequencies),
        _squared_errors(LeastSquares(), raw, data.frequencies),
    )


@claim(
    "exact-mle",
    "N VI, on Kairouz, Bonawitz, Ramage 2016",
    "Exact maximum likelihood performs worse than Norm-Sub.",
    Verdict.CORRECTED,
)
def exact_mle(instances: InstanceSet) -> Finding:
    """Compare the mean squared errors on paired draws of Zipf(1.5) through four oracles.

    Red if an exact likelihood is significantly worse in every setting (then the statement holds),
    or if one is not with a million users, as N has. With 10,000 users GRR's is the better one.
    """
    rng = instances.rng()
    trials = 20 if instances.quick else 100
    evidence: dict[str, float | int | str] = {}
    worse_with_many = True
    better_with_few = False
    for setting in _settings():
        for loss in setting.losses:
            excess = excess_over_norm_sub(setting, loss, rng, trials)
            # The approximate likelihood is shown beside the exact one.
            is_exact = loss is not _APPROXIMATE
            name = f"exact {loss!r}" if is_exact else repr(loss)
            evidence[f"{setting.name}, {name}: MSE above Norm-Sub's"] = str(excess)
            if setting.n == _FEW_USERS:
                better_with_few |= excess.is_negative
            elif is_exact:
                worse_with_many &= excess.is_positive
    return Finding(
        holds=worse_with_many and not better_with_few,
        corrected=worse_with_many and better_with_few,
        instances=trials * len(_settings()),
        evidence={
            **evidence,
            "data": "Zipf(1.5), d = 1,024, n = 1,000,000 except in the last setting, ε = 1, "
            f"{trials} paired draws; ± 3 standard errors",
            "correction": "with as many users as N has; with few users the exact likelihood of "
            "GRR's counts is better than Norm-Sub",
        },
    )


@claim(
    "ibu-mle",
    "Arcolezi, Cerna, Palamidessi (arXiv 2307.07744)",
    "The iterative Bayesian update converges to the maximum likelihood estimate.",
    Verdict.HOLDS,
)
def ibu_mle(instances: InstanceSet) -> Finding:
    """Run it as EM on the channel's convex problem until its gap proves how near it is.

    For GRR, Hadamard response, and users of whom half have GRR at another ε. Red unless the gap
    falls below 10⁻⁴ nats, and the likelihood is within that of the one which Newton steps reach
    with a gap of 10⁻⁹. The numbers of steps stand beside each other.
    """
    rng = instances.rng()
    d = 16
    f = 1 / np.arange(1, d + 1)
    f /= f.sum()
    weak = Matrix(_grr_matrix(GRR(epsilon=1.0, d=d)))
    strong = Matrix(_grr_matrix(GRR(epsilon=3.0, d=d)))
    hadamard = Matrix(_index_matrix(HadamardResponse(epsilon=1.0, d=d)))
    channels = {"GRR": weak, "Hadamard response": hadamard, "two budgets": mix([weak, strong])}
    evidence: dict[str, float | int | str] = {}
    nearest = []
    for name, channel in channels.items():
        counts = rng.multinomial(20_000, channel.matrix @ f)
        ours = mixture_weights(channel.matrix, counts, tol=1e-9)
        # EM gains one digit in ever more steps, so that its tolerance is the looser one.
        update = mixture_weights(channel.matrix, counts, method="em", tol=_NEAR, max_steps=50_000)
        evidence[f"{name}: steps to a gap of {_NEAR:g}"] = update.steps
        evidence[f"{name}: Newton steps to a gap of 1e-9"] = ours.steps
        nearest += [update.gap, abs(update.log_likelihood - ours.log_likelihood)]
    return Finding(
        holds=largest(nearest) <= _NEAR,
        instances=len(channels),
        evidence={
            **evidence,
            "largest gap or difference of mean log likelihoods": largest(nearest),
        },
    )


def _grr_matrix(oracle: GRR) -> Array:
    """Return the channel of GRR: p on the diagonal, q elsewhere."""
    return np.where(np.eye(oracle.d, dtype=bool), oracle.p, oracle.q)


def _index_matrix(oracle: HadamardResponse) -> Array:
    """Return the channel of Hadamard response, whose columns are alike: half of them support v."""
    supports = oracle.report_form.supports()
    half = len(supports) / 2
    return np.where(supports, oracle.p, 1 - oracle.p) / half


@claim(
    "per-report-mle",
    "N VI, with the likelihood of the reports instead of the counts",
    "Exact maximum likelihood performs worse than Norm-Sub also where it uses which values reports "
    "support together.",
    Verdict.FAILS,
)
def per_report_mle(instances: InstanceSet) -> Finding:
    """Compare the mean squared errors where counts lose most: a large ε and few values.

    Red (that is, the statement would hold) unless the likelihood of the reports is significantly
    better than that of the counts and than Norm-Sub, for OUE and OLH at ε = 3.
    """
    rng = instances.rng()
    trials = 20 if instances.quick else 50
    # Few users, since this likelihood has a term per report.
    n = 5_000
    d = 64
    # Few values and a large ε: there a report often supports its user's value and few others.
    users = apportion(datasets.load("zipf").counts[:d], n)
    values = np.repeat(np.arange(d), users)
    evidence: dict[str, float | int | str] = {}
    better = True
    # ε = 1 is shown beside: there the reports hardly tell more than the counts.
    for oracle in (OUE(epsilon=3.0, d=d), OLH(epsilon=3.0, d=d), OUE(epsilon=1.0, d=d)):
        errors: dict[str, list[float]] = {"reports": [], "counts": [], "Norm-Sub": []}
        for _ in range(trials):
            # By the client: simulated counts do not show which values are supported together.
            reports = oracle.perturb(values, rng=rng)
            raw = oracle.estimate(oracle.support_counts(reports), n)
            losses = (PerReportMLE(oracle, reports), BinomialMLE(), LeastSquares())
            for loss, drawn in zip(losses, errors.values(), strict=True):
                drawn.append(float(_squared_errors(loss, raw, users / n)))
        for other in ("counts", "Norm-Sub"):
            excess = Excess.of(np.array(errors["reports"]), np.array(errors[other]))
            name = f"{type(oracle).__name__}, ε = {oracle.epsilon:g}"
            evidence[f"{name}: MSE above that of {other}"] = str(excess)
            if oracle.epsilon > 1:
                # Where nothing is expected, at ε = 1, nothing is required.
                better &= excess.is_negative
    return Finding(
        holds=not better,
        instances=3 * trials,
        evidence={
            **evidence,
            "data": f"Zipf(1.5), d = {d}, n = {n:,}, {trials} paired draws; ± 3 standard errors",
        },
    )


def _both(estimate: FrequencyEstimate) -> tuple[Array, Array, Array]:
    """Return MLE-Apx's answer, Norm-Sub's, and the multiplier t of the first."""
    # Both from one estimate: their distance is about the methods, not about draws.
    raw = estimate.frequencies
    kappa = estimate.noise.kappa
    mle = closed_form.mle_apx(raw, kappa)
    return mle, closed_form.norm_sub(raw), multiplier(mle, raw, kappa)


@claim(
    "gamma-near-one",
    "N IV-D, V-C; D 3.4, 4.2",
    "Norm-Sub and MLE-Apx give very close results, as γ ~ 1.",
    Verdict.HOLDS,
)
def gamma_near_one(instances: InstanceSet) -> Finding:
    """Measure γ = 1/(1 - κt) over N's budgets, and compare both accuracies on the same draws.

    OLH on Zipf and emoji. Red if γ differs from 1 by 0.01 or more, or if the mean squared errors
    differ by a tenth or more.
    """
    rng = instances.rng()
    trials = 5 if instances.quick else 20
    epsilons = (0.2, 1.0, 2.0, 3.0, 4.0)
    departures = []
    error_ratios = []
    distances = []
    evidence: dict[str, float | int | str] = {}
    for data_name in ("zipf", "emoji"):
        data = datasets.load(data_name)
        for epsilon in epsilons:
            oracle = OLH(epsilon=epsilon, d=data.d)
            raw = oracle.estimate(oracle.simulate_counts(data.counts, rng, trials=trials), data.n)
            mle, cls, t = _both(raw)
            # N's scale factor, written with the multiplier t: one per draw, since "γ ~ 1" should
            # hold for every collection.
            gamma = 1 / (1 - oracle.kappa * t)
            departures.append(largest(gamma - 1))
            mle_error = np.mean((mle - data.frequencies) ** 2)
            cls_error = np.mean((cls - data.frequencies) ** 2)
            error_ratios.append(largest(mle_error / cls_error - 1))
            distances.append(largest(np.sum(np.abs(mle - cls), axis=-1)))
            # Five rows per data set are too many for the report.
            if epsilon in (1.0, 4.0):
                name = f"γ on {data_name}, OLH, ε = {epsilon:g}"
                evidence[name] = f"{gamma.min():.4f} .. {gamma.max():.4f}"
    return Finding(
        holds=largest(departures) < 0.01 and largest(error_ratios) < 0.1,
        instances=2 * len(epsilons) * trials,
        evidence={
            **evidence,
            "largest |γ - 1|, ε from 0.2 to 4": largest(departures),
            "largest relative difference of the mean squared errors": largest(error_ratios),
            "largest distance ‖f_MLE - f_CLS‖₁": largest(distances),
        },
    )


@claim(
    "mle-cls-dominated",
    "N IV-D, IV-F; D 3.5, 3.6",
    "Constrained least squares is equivalent to the weighted MLE when f's part of the variance is "
    "dominated.",
    Verdict.HOLDS,
)
def mle_cls_dominated(instances: InstanceSet) -> Finding:
    """Compare the distance of both answers with 2|κ||t| in four settings of OUE on Zipf.

    The papers state that dominance suffices, not that it is needed: the two also agree where
    little mass must move. Red if a distance exceeds the bound, if dominance leaves a distance
    above 0.01, if the distance of a random vector does not vanish with κ, or if no setting without
    dominance has a distance above 0.01: then dominance would not matter.
    """
    rng = instances.rng()
    evidence: dict[str, float | int | str] = {}
    within_bound = True
    dominated_but_far = False
    far_undominated = False
    vectors = 0
    # Dominated; in between; not dominated with little noise, and with much.
    for epsilon, n in ((0.2, 10**6), (1.0, 10**6), (4.0, 10**8), (4.0, 10**4)):
        # Zipf's top value has f = 0.39: where f's part matters it is seen there first.
        data = datasets.load("zipf").scaled(n)
        oracle = OUE(epsilon=epsilon, d=data.d)
        raw = oracle.estimate(oracle.simulate_counts(data.counts, rng, trials=5), n)
        mle, cls, t = _both(raw)
        distance = np.sum(np.abs(mle - cls), axis=-1)
        bound = 2 * oracle.kappa * np.abs(t)
        within_bound &= bool(np.all(distance <= bound + IDENTITY))
        # f's part of the variance over the constant part, where it is largest.
        part = oracle.kappa * float(data.frequencies.max())
        farthest = largest(distance)
        # Dominated is below 1 %.
        is_dominated = part < 0.01
        is_far = farthest > 0.01
        dominated_but_far |= is_dominated and is_far
        far_undominated |= is_far and not is_dominated
        name = f"ε = {epsilon:g}, n = {n:,}: κ f of the top value; 2κ|t|; ‖f_MLE - f_CLS‖₁"
        evidence[name] = f"{part:.3g}; {largest(bound):.2g}; {farthest:.2g}"
        vectors += len(distance)
    # The distance is proportional to κ, so that the ratio must be a thousand; at a vertex of the
    # simplex both are 0.
    distances = _distances_at_small_kappa(rng)
    vanishes = distances[0] == 0 or math.isclose(distances[0] / distances[1], 1e3, rel_tol=0.01)
    return Finding(
        holds=within_bound and vanishes and far_undominated and not dominated_but_far,
        instances=vectors + 2,
        evidence={
            **evidence,
            "distance on a random vector at κ = 1e-3 and 1e-6": (
                f"{distances[0]:.2g}, {distances[1]:.2g}"
            ),
            "beyond the statement": "dominance is not needed: the distance is at most 2κ|t|, so "
            "that the two also agree where f's part is the larger one but little mass has to move",
        },
    )


def _distances_at_small_kappa(rng: np.random.Generator) -> list[float]:
    """Return ‖f_MLE - f_CLS‖₁ of a random vector at κ = 1e-3 and 1e-6: proportional to κ."""
    # So wide that some values become 0, as in a real answer.
    raw = rng.normal(1 / 8, 0.3, size=8)
    cls = closed_form.norm_sub(raw)
    return [float(np.sum(np.abs(closed_form.mle_apx(raw, k) - cls))) for k in (1e-3, 1e-6)]


@claim(
    "normaliser-vanishes",
    "N Appendix B, D 3.4",
    "For large n the exponent dominates the Gaussian likelihood's coefficient, so that leaving it "
    "out changes little.",
    Verdict.HOLDS,
)
def normaliser_vanishes(instances: InstanceSet) -> Finding:
    """Find the maximum with the coefficient on a grid, and compare it with MLE-Apx.

    On two values, OUE, ε = 2. Red unless the coefficient moves the maximum by less than 0.1 σ at
    n = 100, and a hundred times less for each hundred times as many users.
    """
    oracle = OUE(epsilon=2.0, d=2)
    # A sum other than 1: otherwise the estimate itself would be the maximum.
    raw = np.array([0.72, 0.31])
    without = float(closed_form.mle_apx(raw, oracle.kappa)[0])
    sizes = (100, 10_000, 1_000_000)
    shifts = [abs(_maximum_with_coefficient(oracle, raw, n) - without) for n in sizes]
    # The shift is of order 1/n.
    falls = all(
        math.isclose(early / late, 100, rel_tol=0.2) for early, late in itertools.pairwise(shifts)
    )
    return Finding(
        holds=falls and shifts[0] < 0.1 * oracle.sd(100),
        instances=len(sizes),
        evidence={
            **{
                f"the coefficient moves the maximum by, n = {n:,}, in σ": shift / oracle.sd(n)
                for n, shift in zip(sizes, shifts, strict=True)
            },
            "falls like": "1/n, and 1/sqrt(n) in units of σ",
            "example": "OUE, ε = 2, f̃ = (0.72, 0.31)",
        },
    )


def _maximum_with_coefficient(oracle: FrequencyOracle, raw: Array, n: int) -> float:
    """Return x of f = (x, 1-x) that minimises n/2 Σ (f-f̃)²/(a+bf) + ½ Σ log(a+bf).

    On a grid that is refined around its best point twelve times, by a factor of 250 each.
    """
    # Without a solver, and without the derivative that MLE-Apx is built on.
    low = 0.0
    high = 1.0
    for _ in range(12):
        x = np.linspace(low, high, 1_001)
        f = np.stack([x, 1 - x], axis=-1)
        variance = oracle.a + oracle.b * f
        value = np.sum(n / 2 * (f - raw) ** 2 / variance + np.log(variance) / 2, axis=-1)
        best = float(x[np.argmin(value)])
        step = (high - low) / 1_000
        # Two steps: the minimum may lie between the grid's points.
        low = max(0.0, best - 2 * step)
        high = min(1.0, best + 2 * step)
    return best


@claim(
    "mle-convex",
    "N Appendix B, D Appendix A",
    "The target Σ (f' - f̃)²/(a + b f') is convex.",
    Verdict.PROVED,
    theorems=("weighted_target_is_convex",),
)
def mle_convex(instances: InstanceSet) -> Finding:
    """Compare second differences with 2(a + b f̃)²/(a + b f')³, positive where the variance is.

    At 200 random points for every oracle and three budgets. Red if a second derivative is negative
    or if the formula differs by more than 1 % of its largest value.
    """
    rng = instances.rng()
    lowest = []
    errors = []
    settings = 0
    for make in ORACLES.values():
        for epsilon in (0.2, 1.0, 4.0):
            oracle = make(epsilon, 16)
            f = rng.uniform(0.01, 0.99, 200)
            raw = rng.uniform(-0.5, 1.5, 200)
            # Small beside the distance to the pole of the target, at f = -a/b, but not too small:
            # rounding counts with the inverse square of the step.
            step = 1e-3 * np.minimum(f, oracle.a / (oracle.a + abs(oracle.b)))
            before, here, after = (
                (x - raw) ** 2 / (oracle.a + oracle.b * x) for x in (f - step, f, f + step)
            )
            measured = (after - 2 * here + before) / step**2
            formula = 2 * (oracle.a + oracle.b * raw) ** 2 / (oracle.a + oracle.b * f) ** 3
            errors.append(largest(measured - formula) / largest(formula))
            lowest.append(smallest(formula))
            settings += len(f)
    return Finding(
        holds=smallest(lowest) >= 0 and largest(errors) < 1e-2,
        instances=settings,
        evidence={
            "smallest second derivative": smallest(lowest),
            "largest difference of a second difference to the formula, over its largest value": (
                largest(errors)
            ),
        },
    )
