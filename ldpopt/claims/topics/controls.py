"""Negative controls: what the ledger's own instruments must refuse, and sizes that speed is about.

A check that accepts everything is green as well. These claims are about the checks: a certificate
that proves a wrong point, or a comparison that agrees with it, is red here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldpopt import closed_form
from ldpopt.claims.engine.agreement import ClosedForm, compare_with_solvers
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import Instance, InstanceSet
from ldpopt.claims.engine.measures import largest, smallest
from ldpopt.claims.engine.tolerances import IDENTITY, ULPS
from ldpopt.claims.engine.wrong_points import is_accepted, wrong_points
from ldpopt.claims.reference.multipliers import multiplier
from ldpopt.claims.topics.equivalences import CLS, WEIGHTED_MLE
from ldpopt.closed_form import water_level
from ldpopt.constraints import GroupTotals, NonNegative
from ldpopt.estimate import FrequencyEstimate
from ldpopt.losses import LeastSquares
from ldpopt.oracles import ORACLES, OUE, FrequencyOracle, HadamardResponse
from ldpopt.solve.certificate import certify
from ldpopt.solve.problem import Problem

TITLE = "Negative controls: what certificates and comparisons refuse, and long vectors"
ORDER = 900

Array = NDArray[np.float64]

# Errors of a point: the smallest moves the gap by its square, 1e-10, far above rounding.
_STEPS = (1e-2, 1e-3, 1e-5)


def _norm_sub(estimate: FrequencyEstimate) -> Array:
    return closed_form.norm_sub(estimate.frequencies)


def _mle_apx(estimate: FrequencyEstimate) -> Array:
    return closed_form.mle_apx(estimate.frequencies, estimate.noise.kappa)


def _base_pos(estimate: FrequencyEstimate) -> Array:
    return closed_form.base_pos(estimate.frequencies)


@claim(
    "instances-cover",
    "negative control of the ledger's instances",
    "The estimates that claims are checked on need post-processing: values are negative, sums are "
    "not 1, sizes differ, every oracle is among them, and κ has every sign.",
    Verdict.HOLDS,
)
def instances_cover(instances: InstanceSet) -> Finding:
    """Count what the random and the real instances contain, and the adversarial ones' κ.

    Red if fewer than half of the vectors with three values and more have a negative value, or of
    those of oracles without a fixed size a sum that differs from 1 by 1e-6; if the random ones have
    fewer than three sizes, or not all oracles are there; or if κ is not positive, negative and 0.
    """
    # Adversarial ones are left out of the shares: they are extreme by design.
    natural = [*instances.random, *instances.crowd, *instances.real]
    estimates = [instance.estimate for instance in natural]
    negative, off = _shares_in_need([estimate for estimate in estimates if estimate.d > 2])
    needs_processing = negative > 0.5 and off > 0.5
    sizes = {instance.estimate.d for instance in instances.random}
    oracles = {type(estimate.oracle) for estimate in estimates}
    all_oracles = {type(make(1.0, 4)) for make in ORACLES.values()}
    stacks = [*instances.random, *instances.adversarial]
    signs = {float(np.sign(instance.estimate.noise.kappa)) for instance in stacks}
    is_varied = len(sizes) >= 3 and oracles >= all_oracles and signs == {-1.0, 0.0, 1.0}
    return Finding(
        holds=needs_processing and is_varied,
        instances=sum(len(estimate.frequencies) for estimate in estimates),
        evidence={
            "share of vectors with a negative value": negative,
            "share of vectors whose sum is not 1": off,
            "sizes of the random ones": ", ".join(map(str, sorted(sizes))),
            "oracles": len(oracles),
        },
    )


def _shares_in_need(estimates: list[FrequencyEstimate]) -> tuple[float, float]:
    """Return which shares of vectors have a negative value, and a sum that is not 1."""
    lowest = np.concatenate([estimate.frequencies.min(axis=-1) for estimate in estimates])
    # GRR's and subset selection's estimates sum to 1 before any post-processing.
    free = [each for each in estimates if not each.noise.require_protocol().has_fixed_size]
    sums = np.concatenate([estimate.frequencies.sum(axis=-1) for estimate in free])
    return float(np.mean(lowest < 0)), float(np.mean(np.abs(sums - 1) > 1e-6))


def _small(instances: InstanceSet) -> list[Instance]:
    """Return the random instances with 7 values and the adversarial ones, with every sign of κ."""
    random = [i for i in instances.random if i.estimate.d == 7]
    return [*random, *instances.adversarial]


@dataclass
class _Refusals:
    """How certificates judge right points and wrong ones.

    Attributes
    ----------
    right, wrong
        Number of points.
    rejected
        Number of right points that were not accepted.
    accepted
        Number of wrong points that were.
    shortfalls
        By how much a certified gap was below the exact one, relative.
    violation_errors, distance_errors
        Differences of certified violations, and of exact distances, to what was planted.
    """

    right: int = 0
    wrong: int = 0
    rejected: int = 0
    accepted: int = 0
    shortfalls: list[float] = field(default_factory=list)
    violation_errors: list[float] = field(default_factory=list)
    distance_errors: list[float] = field(default_factory=list)

    def add(self, problem: Problem, instance: Instance, solution: ClosedForm) -> None:
        """Judge the closed form's points on an instance, and wrong ones beside the first."""
        estimate = instance.estimate
        points = solution(estimate)
        self.right += len(points)
        # A check that refuses everything would pass as well: minimisers must be accepted.
        self.rejected += int(np.count_nonzero(~is_accepted(problem, estimate, points)))
        for step in _STEPS:
            wrong = wrong_points(points[0], step)
            copies = estimate[np.zeros(len(wrong), dtype=np.intp)]
            self.wrong += len(wrong)
            self.accepted += int(np.count_nonzero(is_accepted(problem, copies, wrong)))
            certificate = certify(problem, copies, wrong)
            if not problem.is_box(estimate.d):
                # There the exact minimiser is searched from the point, which takes long from afar.
                continue
            exact = certify(problem, copies, wrong, exact=True)
            # Both are upper bounds; the exact one is the gap itself, rounded up.
            # Positive where the certificate claims more than is true.
            shortfall = (exact.gap - certificate.gap) / np.maximum(exact.gap, IDENTITY)
            self.shortfalls.append(float(np.max(shortfall)))
            self.violation_errors.append(largest(certificate.violation - exact.violation))
            # As planted: the exact distance to the minimiser must give it back.
            moved = np.max(np.abs(wrong - points[0]), axis=-1)
            self.distance_errors.append(largest(exact.distance - moved))


@claim(
    "certificates-refuse",
    "negative control of the ledger's certificates",
    "A certificate accepts the minimiser and no other point: not where mass is moved, a value is "
    "negative or the sum is off, by 1e-2 down to 1e-5.",
    Verdict.HOLDS,
)
def certificates_refuse(instances: InstanceSet) -> Finding:
    """Certify minimisers, and wrong points beside them, in doubles and in exact numbers.

    For Norm-Sub, MLE-Apx, Base-Pos and group totals on the small random and the adversarial
    instances. Red if a minimiser is refused or a wrong point accepted; or, but for group totals, if
    a certified gap is below the exact one, or a violation or an exact distance is not the planted
    one to IDENTITY.
    """
    refusals = _Refusals()
    # Two groups of different sizes, interleaved so that an index out of place would show.
    groups = [np.array([0, 2]), np.array([1, 3, 4, 5, 6])]
    totals = np.array([0.7, 0.3])
    by_group = Problem(LeastSquares(), [NonNegative(), GroupTotals(groups, totals)])

    def group_totals(estimate: FrequencyEstimate) -> Array:
        return closed_form.group_totals(estimate.frequencies, groups, totals)

    for instance in _small(instances):
        refusals.add(CLS, instance, _norm_sub)
        refusals.add(WEIGHTED_MLE, instance, _mle_apx)
        refusals.add(Problem(LeastSquares(), [NonNegative()]), instance, _base_pos)
        # A set that is no box: its multipliers are found in another way.
        if instance.estimate.d == 7:
            refusals.add(by_group, instance, group_totals)
    shortfall = float(np.max(refusals.shortfalls))
    return Finding(
        holds=(
            refusals.rejected == 0
            and refusals.accepted == 0
            and shortfall <= 0
            and largest(refusals.violation_errors) <= IDENTITY
            and largest(refusals.distance_errors) <= IDENTITY
        ),
        instances=refusals.right + refusals.wrong,
        evidence={
            "minimisers that were accepted": (
                f"{refusals.right - refusals.rejected:,} of {refusals.right:,}"
            ),
            "wrong points that were refused": (
                f"{refusals.wrong - refusals.accepted:,} of {refusals.wrong:,}"
            ),
            "largest amount by which a certified gap is below the exact one, relative": shortfall,
            "largest error of a violation": largest(refusals.violation_errors),
            "largest error of an exact distance": largest(refusals.distance_errors),
        },
    )


def _slope(problem: Problem, points: Array, estimate: FrequencyEstimate) -> Array:
    """Return the gradient of least squares or of the weighted likelihood, from their definition."""
    # Written anew: the losses' own gradients are under test.
    residual = points - estimate.frequencies
    if problem is CLS:
        return residual
    protocol = estimate.noise.require_protocol()
    variance = protocol.a + protocol.b * points
    # The quotient rule as it stands, not in terms of the ratio.
    return np.asarray((2 * residual * variance - protocol.b * residual**2) / variance**2)


@dataclass
class _Multipliers:
    """What certificates say of the multipliers, beside what follows from the definition.

    Attributes
    ----------
    sum_errors
        Differences of μ to the multiplier that the largest value gives.
    unexplained
        Gradients that μ and λ do not explain, at minimisers.
    wrong_signs
        The smallest λ of each vector, which must not be negative.
    unnoticed
        Number of wrong points whose stationarity and complementarity are those of a minimiser.
    wrong
        Number of wrong points.
    """

    sum_errors: list[float] = field(default_factory=list)
    unexplained: list[float] = field(default_factory=list)
    wrong_signs: list[float] = field(default_factory=list)
    unnoticed: int = 0
    wrong: int = 0

    def add(self, problem: Problem, instance: Instance, points: Array, kappa: float) -> None:
        """Compare the multipliers at minimisers, and look at mass moved between two values."""
        estimate = instance.estimate
        certificate = certify(problem, estimate, points)
        slope = _slope(problem, points, estimate)
        # Slopes of the likelihood are over variances of any size: an absolute tolerance would mean
        # nothing.
        scale = np.maximum(1.0, np.abs(slope).max(axis=-1))
        t = multiplier(points, estimate.frequencies, kappa)
        # Of a positive value the gradient is -μ: for the likelihood (t/a)(2 - κt), else t.
        expected = -t
        if problem is WEIGHTED_MLE:
            expected = -t * (2 - kappa * t) / estimate.noise.require_protocol().a
        self.sum_errors.append(largest((certificate.sum_multiplier - expected) / scale))
        mu = certificate.sum_multiplier[:, None]
        rest = slope + mu - certificate.bound_multipliers
        self.unexplained.append(largest(rest / scale[:, None]))
        self.wrong_signs.append(smallest(certificate.bound_multipliers / scale[:, None]))
        # The first wrong point: mass moved from the largest value to the smallest.
        wrong = np.stack([wrong_points(point, _STEPS[0])[0] for point in points])
        refused = certify(problem, estimate, wrong)
        signs = (refused.stationarity > IDENTITY) | (refused.complementarity > IDENTITY)
        self.wrong += len(wrong)
        self.unnoticed += int(np.count_nonzero(~signs))


@claim(
    "multipliers",
    "negative control of the ledger's certificates; KKT conditions as in N Appendix A, B",
    "The certificate's multipliers explain the gradient at a minimiser and at no other point: "
    "g + μ = λ, λ ≥ 0.",
    Verdict.HOLDS,
)
def multipliers(instances: InstanceSet) -> Finding:
    """Compare μ and λ with the gradient as the losses define it, and look at wrong points.

    For Norm-Sub and MLE-Apx on the random and the adversarial instances. Red if μ differs from the
    multiplier that the largest value gives, if g + μ - λ is not 0, or if λ is negative, each by
    more than 1e-9 relative to the largest slope; or if stationarity and complementarity do not show
    that 1 % of mass was moved.
    """
    checked = _Multipliers()
    vectors = 0
    for instance in [*instances.random, *instances.adversarial]:
        estimate = instance.estimate
        # Both problems on one instance: κ is what tells them apart.
        checked.add(CLS, instance, _norm_sub(estimate), kappa=0.0)
        checked.add(WEIGHTED_MLE, instance, _mle_apx(estimate), estimate.noise.kappa)
        vectors += 2 * instance.vectors
    # Rounding of slopes over some thousand values, with room to spare.
    tolerance = 1e-9
    return Finding(
        holds=(
            largest(checked.sum_errors) <= tolerance
            and largest(checked.unexplained) <= tolerance
            and smallest(checked.wrong_signs) >= -tolerance
            and checked.unnoticed == 0
        ),
        instances=vectors + checked.wrong,
        evidence={
            "largest error of μ": largest(checked.sum_errors),
            "largest part of a gradient that μ and λ do not explain": largest(checked.unexplained),
            "smallest λ": smallest(checked.wrong_signs),
            "points with 1 % of mass moved that stationarity or complementarity shows": (
                f"{checked.wrong - checked.unnoticed:,} of {checked.wrong:,}"
            ),
        },
    )


def _zeroed_first(estimate: FrequencyEstimate) -> Array:
    """Return what N IV-B says in words: negative values stay 0, and the others are shifted."""
    f = estimate.frequencies
    # -inf marks values that must be zero, whatever the shift.
    return closed_form.norm_sub(np.where(f > 0, f, -np.inf))


def _moved(estimate: FrequencyEstimate) -> Array:
    """Return Norm-Sub with 1e-5 of mass moved."""
    points = _norm_sub(estimate)
    return np.stack([wrong_points(point, 1e-5)[0] for point in points])


@claim(
    "comparisons-refuse",
    "negative control of the ledger's comparisons",
    "A comparison agrees with the closed form that solves the problem, and with no other one.",
    Verdict.HOLDS,
)
def comparisons_refuse(instances: InstanceSet) -> Finding:
    """Compare wrong closed forms with a solver, as the ledger does with right ones.

    N's words for Norm-Sub (negatives stay 0), 1e-5 of mass moved, Base-Pos under a total, Norm-Sub
    for the weighted likelihood, and a comparison whose solver gets no vector. Red if one of them
    agrees, or if Norm-Sub or MLE-Apx does not.
    """
    solver = ("CLARABEL",)
    chosen = [i for i in _small(instances) if i.name.startswith(("random", "small"))]
    # Near κ = 0 both problems have one solution, and κ ignored would be no error.
    ill = [i for i in chosen if abs(i.estimate.noise.kappa) > 0.01]
    # Of vectors without a positive value the words say nothing.
    adversarial = [i for i in chosen if i.kind == "adversarial"]
    positive = [i.where(i.estimate.frequencies.max(axis=-1) > 0) for i in adversarial]
    wrong: dict[str, tuple[Problem, ClosedForm, list[Instance]]] = {
        "negatives stay 0": (CLS, _zeroed_first, positive),
        "1e-5 of mass moved": (CLS, _moved, chosen),
        "no total": (CLS, _base_pos, chosen),
        "κ ignored": (WEIGHTED_MLE, _norm_sub, ill),
    }
    agreeing = [
        name
        for name, (problem, form, stacks) in wrong.items()
        if compare_with_solvers(problem, form, stacks, solver).holds
    ]
    # A comparison that compares nothing must not pass for agreement.
    if compare_with_solvers(CLS, _norm_sub, chosen, solver, largest={"CLARABEL": 1}).holds:
        agreeing.append("a solver without vectors")
    right = [
        compare_with_solvers(CLS, _norm_sub, chosen, solver).holds,
        compare_with_solvers(WEIGHTED_MLE, _mle_apx, ill, solver).holds,
    ]
    cases = len(wrong) + 1 + len(right)
    return Finding(
        holds=not agreeing and all(right),
        instances=cases,
        evidence={
            "right closed forms that agree": f"{sum(right)} of {len(right)}",
            "wrong ones that do not": f"{len(wrong) + 1 - len(agreeing)} of {len(wrong) + 1}",
            "wrong ones": ", ".join([*wrong, "a solver without vectors"]),
        },
    )


def _hidden_from_the_sample() -> Array:
    """Return values that mislead a sample with an even stride: all are positive, 200 look so.

    Every tenth value, which is what the sample of the fast path sees, is at least 1 % above the
    others: from these alone the level would lie between them and the rest.
    """
    # So that the sample takes every tenth value.
    d = 10 * water_level._SAMPLE
    top = 0.01
    f = np.full(d, 0.90 * top)
    seen = np.arange(0, d, 10)
    f[seen] = 0.91 * top
    f[seen[:100]] = top
    f[seen[100:200]] = 0.95 * top
    return f


def _rare_in_the_sample() -> Array:
    """Return values at every ninth place, so that an even stride meets few of them."""
    # Negative values: the level lies among the few at the ninth places.
    f = np.full(10 * water_level._SAMPLE, -1.0)
    f[::9] = -np.arange(len(f[::9])) / 50_000
    return f


def _estimate(d: int, rng: np.random.Generator, oracle: FrequencyOracle, n: int) -> Array:
    """Return one raw estimate of a power law."""
    # Flat for a power law, so that many values are near the level.
    weights = np.arange(1, d + 1) ** -1.1
    users = rng.multinomial(n, weights / weights.sum())
    return oracle.estimate(oracle.simulate_counts(users, rng), n).frequencies


@claim(
    "long-vectors",
    "negative control: the sizes that speed is about",
    "Norm-Sub and MLE-Apx are within a few units in the last place of the exact minimiser for long "
    "vectors too, also where their sample misleads.",
    Verdict.HOLDS,
)
def long_vectors(instances: InstanceSet) -> Finding:
    """Compare both with the exact minimiser, for up to a million values.

    Power laws through OUE with much and with little noise, a dense distribution, and two vectors
    made to mislead the sample from which the fast path (above 8,192 values) starts; κ is positive
    and negative. Red if a point is more than ULPS from the exact minimiser.
    """
    rng = instances.rng()
    sizes = (3_500, 8_192, 10_000) if instances.quick else (3_500, 8_192, 10_000, 100_000)
    vectors = {
        "sample misled from above": _hidden_from_the_sample(),
        "sample misled from below": _rare_in_the_sample(),
    }
    for d in sizes:
        oracle = OUE(epsilon=1.0, d=d)
        vectors[f"much noise, d = {d:,}"] = _estimate(d, rng, oracle, n=100_000)
        vectors[f"little noise, d = {d:,}"] = _estimate(d, rng, oracle, n=10**9)
        # Nearly all values stay positive: the closed forms cannot set most of them aside.
        vectors[f"dense, d = {d:,}"] = rng.uniform(0.5, 1.5, d) / d
    if not instances.quick:
        million = OUE(epsilon=1.0, d=10**6)
        vectors["d = 1,000,000"] = _estimate(million.d, rng, million, n=10**7)
    ulps: list[float] = []
    evidence: dict[str, float | int | str] = {}
    for name, f in vectors.items():
        distances = _exact_distances(f)
        ulps += distances
        evidence[f"{name}: distance to the exact minimiser in units in the last place"] = ", ".join(
            f"{distance:.2f}" for distance in distances
        )
    return Finding(
        holds=largest(ulps) <= ULPS,
        instances=len(ulps),
        evidence={
            **evidence,
            "the three numbers": "Norm-Sub, MLE-Apx with κ > 0 (OUE), MLE-Apx with κ < 0 (Hadamard "
            "response)",
            "largest of them in units in the last place": largest(ulps),
        },
    )


def _exact_distances(f: Array) -> list[float]:
    """Return how far Norm-Sub, and MLE-Apx for two κ, are from the exact minimisers, in ulps."""
    d = len(f)
    kinds: list[tuple[Problem, Callable[[FrequencyEstimate], Array], FrequencyOracle]] = [
        (CLS, _norm_sub, OUE(epsilon=1.0, d=d)),
        (WEIGHTED_MLE, _mle_apx, OUE(epsilon=1.0, d=d)),
        (WEIGHTED_MLE, _mle_apx, HadamardResponse(epsilon=1.0, d=d)),
    ]
    distances = []
    for problem, solution, oracle in kinds:
        kappa = 0.0 if problem is CLS else oracle.kappa
        # Where 1 + κ f̃ is not positive the likelihood is not defined.
        inside = np.maximum(f, -0.9 / kappa) if kappa > 0 else f
        estimate = FrequencyEstimate(inside, 1_000_000, oracle, is_raw=True)
        exact = certify(problem, estimate, solution(estimate), exact=True)
        distances.append(float(exact.ulps))
    return distances
