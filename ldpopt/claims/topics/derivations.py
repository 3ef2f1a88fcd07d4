"""The papers' derivations, line by line in exact fractions at random rational points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.measures import relative_error
from ldpopt.claims.engine.tolerances import FORMULA
from ldpopt.claims.reference.dual import Dual

TITLE = "Derivations: the printed lines, in exact fractions"
ORDER = 15

_EXACT = "exact fractions at random rational p, q, f̃ and sets D1; an identity of such low degree "
_EXACT += "that is wrong holds at one of them with a probability below 1 in 100"


@dataclass(frozen=True)
class Point:
    """Random rational numbers in place of the papers' letters.

    Attributes
    ----------
    p, q
        Probabilities of support, 0 < q < p < 1.
    f
        Estimates f̃ of five values, of either sign.
    y
        Frequencies f' of the values, in (0, 1); they need not be a solution.
    active
        The values of D1, at least one.
    """

    p: Fraction
    q: Fraction
    f: tuple[Fraction, ...]
    y: tuple[Fraction, ...]
    active: tuple[int, ...]

    @property
    def slope(self) -> Fraction:
        """(p-q)(1-p-q), the factor of f' in the variance."""
        return (self.p - self.q) * (1 - self.p - self.q)

    @property
    def constant(self) -> Fraction:
        """q(1-q), the variance without f'."""
        return self.q * (1 - self.q)

    def shares(self) -> list[Fraction]:
        """Return c/n of each value, which D writes in place of f̃."""
        # From f̃ = (c/n - q)/(p - q).
        return [self.q + (self.p - self.q) * f for f in self.f]


def _points(instances: InstanceSet) -> Iterator[Point]:
    """Yield the random points; as many in a quick run, since each takes microseconds."""
    rng = instances.rng()

    def draw(low: int, high: int) -> Fraction:
        return Fraction(int(rng.integers(low, high)), 1_000)

    # Thousandths with denominators that cancel: fractions stay short.
    for _ in range(30):
        # Away from 0 and 1, where the formulas divide by 0.
        q = draw(10, 500)
        p = q + draw(10, 480)
        size = int(rng.integers(1, 6))
        yield Point(
            p,
            q,
            f=tuple(draw(-300, 700) for _ in range(5)),
            y=tuple(draw(1, 999) for _ in range(5)),
            active=tuple(sorted(int(v) for v in rng.permutation(5)[:size])),
        )


def _identity(instances: InstanceSet, wrong: Callable[[Point], bool]) -> Finding:
    """Return the finding that no point is wrong; the evidence gives the number of wrong ones."""
    flags = [wrong(point) for point in _points(instances)]
    return Finding(
        holds=not any(flags),
        instances=len(flags),
        evidence={"points at which a printed line is wrong": sum(flags), "checked in": _EXACT},
    )


def _target(point: Point, y: Dual | Fraction, f: Fraction) -> Dual:
    """Return a value's term (f'-f̃)²(p-q)²/(q(1-q) + f'(p-q)(1-p-q)), with its derivative."""
    # As numbers with a slope: a derivative by hand would be what is under test.
    move = Dual.of(y) - f
    variance = Dual.of(y) * point.slope + point.constant
    return move * move * (point.p - point.q) ** 2 / variance


def _x(point: Point, y: Fraction, f: Fraction) -> Fraction:
    """Return N's x_v of a value."""
    return (y - f) * (point.p - point.q) / (point.constant + y * point.slope)


def _from_x(point: Point, x: Fraction, f: Fraction) -> Fraction:
    """Return f' by N Eq. 14."""
    above = point.constant * x + f * (point.p - point.q)
    return above / (point.p - point.q - point.slope * x)


# --- constrained least squares --------------------------------------------------------------------


@claim(
    "cls-derivation",
    "N Appendix A, D Appendix B",
    "2(f' - f̃) + μ + λ = 0 and a sum of 1 give f' = f̃ - (Σ_D1 f̃ - 1)/|D1| on D1.",
    Verdict.PROVED,
    theorems=("cls_on_D1",),
)
def cls_derivation(instances: InstanceSet) -> Finding:
    """Differentiate the augmented target at the printed solution, for random D1.

    μ is what the line 1 = Σ_D1 f̃ - |D1| μ/2 states. Red if a derivative on D1 is not 0, or if the
    solution does not sum to 1, in exact fractions.
    """

    def wrong(point: Point) -> bool:
        size = len(point.active)
        mass = sum(point.f[v] for v in point.active)
        # The printed line solved for μ.
        mu = 2 * (mass - 1) / Fraction(size)
        solution = [point.f[v] - (mass - 1) / size for v in point.active]
        slopes = []
        for v, y in zip(point.active, solution, strict=True):
            move = Dual(Fraction(y), Fraction(1)) - point.f[v]
            slopes.append((move * move).slope + mu)
        return any(slopes) or sum(solution) != 1

    return _identity(instances, wrong)


def _stationary(f: Sequence[Fraction], kappa: Fraction) -> list[tuple[tuple[int, ...], bool]]:
    """Return all sets D1 whose point satisfies the printed conditions, and whether all λ <= 0.

    The target is Σ (f'-f̃)²/(1 + κf'), least squares for κ = 0. λ is the papers': minus the
    multiplier of f' >= 0.
    """
    points = []
    values = range(len(f))
    for size in range(1, len(f) + 1):
        for active in itertools.combinations(values, size):
            # Σ_D1 (f̃ + t)/(1 - κt) = 1.
            t = (1 - sum(f[v] for v in active)) / (size + kappa)
            solution = [(f[v] + t) / (1 - kappa * t) for v in active]
            if not all(0 < y <= 1 for y in solution):
                continue
            # The derivative is t(2 - κt) on D1, and -2f̃ - κf̃² at 0.
            mu = -t * (2 - kappa * t)
            multipliers = [2 * f[v] + kappa * f[v] ** 2 - mu for v in values if v not in active]
            points.append((active, all(x <= 0 for x in multipliers)))
    return points


@claim(
    "kkt-sign",
    "N Appendices A and B, D Appendices A and B",
    "The printed conditions (stationarity, Σf' = 1, 0 <= f' <= 1, λf' = 0) determine the solution.",
    Verdict.CORRECTED,
    theorems=(
        "seven_points_satisfy_the_printed_conditions",
        "kkt_with_dual_feasibility_is_norm_sub",
    ),
)
def kkt_sign(instances: InstanceSet) -> Finding:
    """List all points that satisfy the conditions, for [0.5, 0.2, -0.01] and for random vectors.

    The conditions never say that λ has a sign. For least squares and for the weighted MLE, κ = 1/4.
    Red if only one point satisfies them everywhere (then the statement holds), or if λ <= 0 leaves
    none or more than one.
    """
    example = [Fraction(1, 2), Fraction(1, 5), Fraction(-1, 100)]
    # Four values: all 15 sets D1 of each are tried.
    vectors = [example, *(list(point.f[:4]) for point in _points(instances))]
    settings = [(f, kappa) for f in vectors for kappa in (Fraction(0), Fraction(1, 4))]
    numbers = []
    with_sign = []
    for f, kappa in settings:
        points = _stationary(f, kappa)
        # Counted, not compared: the conditions should leave exactly one point.
        numbers.append(len(points))
        with_sign.append(sum(is_signed for _, is_signed in points))
    supports = [
        " ".join(str(v + 1) for v in active) for active, _ in _stationary(example, Fraction(0))
    ]
    shown = ", ".join(f"{float(x):g}" for x in example)
    return Finding(
        holds=set(numbers) == {1},
        corrected=set(with_sign) == {1},
        instances=len(settings),
        evidence={
            f"points that satisfy the conditions for [{shown}]": numbers[0],
            "their sets D1": "; ".join(supports),
            "the words of N IV-B pick": "1 2, that is [0.65, 0.35, 0]; the solution has 1 2 3",
            "largest number of points, random vectors": max(numbers),
            "correction": "and λ <= 0, dual feasibility: then exactly one point is left, in all "
            "settings",
        },
    )


# --- the weighted likelihood ----------------------------------------------------------------------


@claim(
    "likelihood-coefficient",
    "N Eq. 11, D Eq. 12",
    "The product of 1/sqrt(2πσ_v²) over the values is 1/sqrt(2π ∏σ_v²).",
    Verdict.CORRECTED,
)
def likelihood_coefficient(instances: InstanceSet) -> Finding:
    """Multiply the factors for one to eight values, and compare with both forms.

    Red if the printed form is right to FORMULA for all numbers of values (then the statement
    holds), or if (2π)^d in place of 2π is not.
    """
    # Away from 1, where a power would not show, and different from each other, since equal ones
    # could hide an exchange of sum and product.
    variances = instances.rng().uniform(0.1, 2.0, size=8)
    sizes = range(1, len(variances) + 1)
    product = np.cumprod(1 / np.sqrt(2 * math.pi * variances))
    of_variances = np.cumprod(variances)
    printed = 1 / np.sqrt(2 * math.pi * of_variances)
    corrected = 1 / np.sqrt((2 * math.pi) ** np.arange(1, 9) * of_variances)
    return Finding(
        holds=relative_error(printed, product) < FORMULA,
        corrected=relative_error(corrected, product) < FORMULA,
        instances=len(sizes),
        evidence={
            "printed form over the product, d = 1, 2, 3": ", ".join(
                f"{ratio:.3f}" for ratio in (printed / product)[:3]
            ),
            "correction": "1/sqrt((2π)^d ∏σ_v²); the factor does not depend on f', so that the "
            "maximum is where it was",
        },
    )


@claim(
    "likelihood-exponent",
    "N Appendix B, D 3.4 Eq. 13",
    "With Eq. 5's variance the exponent is n/2 Σ (f'-f̃)²(p-q)²/(q(1-q) + f'(p-q)(1-p-q)), which in "
    "terms of c/n is n/2 Σ (c/n - q - (p-q)f')²/(q(1-q) + f'(p-q)(1-p-q)).",
    Verdict.PROVED,
    theorems=("the_exponent_has_the_printed_form",),
)
def likelihood_exponent(instances: InstanceSet) -> Finding:
    """Evaluate all printed forms at random points, with N Eq. 5 for the variance.

    Red if two of them differ, in exact fractions.
    """

    def wrong(point: Point) -> bool:
        p, q = point.p, point.q
        # Any n: it multiplies all three forms.
        n = 1_000
        of_variance = Fraction(0)
        in_estimates = Fraction(0)
        in_shares = Fraction(0)
        for f, y, share in zip(point.f, point.y, point.shares(), strict=True):
            spread = point.constant + y * point.slope
            # N Eq. 5.
            variance = spread / (n * (p - q) ** 2)
            of_variance += (y - f) ** 2 / (2 * variance)
            in_estimates += (y - f) ** 2 * (p - q) ** 2 / spread
            in_shares += (share - q - (p - q) * y) ** 2 / spread
        return not of_variance == n * in_estimates / 2 == n * in_shares / 2

    return _identity(instances, wrong)


@claim(
    "likelihood-derivative",
    "N Appendix B, D Appendix A",
    "The derivative of the target in f'_v is -(f'-f̃)²(p-q)²(p-q)(1-p-q)/V² + 2(f'-f̃)(p-q)²/V, V "
    "the denominator; D's form in c/n is the same.",
    Verdict.PROVED,
    theorems=("the_derivative_has_the_printed_form", "the_drafts_derivative_is_the_same"),
)
def likelihood_derivative(instances: InstanceSet) -> Finding:
    """Differentiate the target exactly at random points, and evaluate both papers' lines.

    Red if a printed derivative differs from the exact one, in exact fractions.
    """

    def wrong(point: Point) -> bool:
        p, q = point.p, point.q
        for f, y, share in zip(point.f, point.y, point.shares(), strict=True):
            exact = _target(point, Dual(y, Fraction(1)), f).slope
            spread = point.constant + y * point.slope
            ndss = -((y - f) ** 2) * (p - q) ** 2 * point.slope / spread**2
            ndss += 2 * (y - f) * (p - q) ** 2 / spread
            # D's numerator, in shares of reports instead of estimates: c/n less its mean.
            miss = share - q - y * (p - q)
            # D's own factor, which `variance-difference` shows to be N's.
            growth = p * (1 - p) - q * (1 - q)
            draft = -(miss**2) * growth / spread**2
            draft += 2 * miss * (q - p) / spread
            # All numbers are fractions, so that equality needs no tolerance.
            if not exact == ndss == draft:
                return True
        return False

    return _identity(instances, wrong)


@claim(
    "kkt-equation",
    "N Appendix B Eq. 15",
    "With x_v = (f'-f̃)(p-q)/V stationarity is (p-q)(1-p-q) x² - 2(p-q) x - μ - λ = 0.",
    Verdict.PROVED,
    theorems=("equation_15_is_stationarity",),
)
def kkt_equation(instances: InstanceSet) -> Finding:
    """Compare Eq. 15's left side, with μ + λ = minus the derivative, with the exact derivative.

    Red if the derivative is not minus the printed polynomial in x, in exact fractions.
    """

    def wrong(point: Point) -> bool:
        for f, y in zip(point.f, point.y, strict=True):
            # At random f', which need not be a solution: Eq. 15 is an identity in f'.
            x = _x(point, y, f)
            polynomial = point.slope * x**2 - 2 * (point.p - point.q) * x
            if polynomial != -_target(point, Dual(y, Fraction(1)), f).slope:
                return True
        return False

    return _identity(instances, wrong)


@claim(
    "x-inverse",
    "N Eq. 14, D Appendix A",
    "f' follows from x_v by N Eq. 14, and from D's x_v by D's line, which has the other sign.",
    Verdict.PROVED,
    theorems=("equation_14_inverts_x", "draft_inverts_x"),
)
def x_inverse(instances: InstanceSet) -> Finding:
    """Go from random f' to x_v and back, in both papers' letters.

    Red if f' does not come back, or if D's x_v is not minus N's, in exact fractions.
    """

    def wrong(point: Point) -> bool:
        p, q = point.p, point.q
        for f, y, share in zip(point.f, point.y, point.shares(), strict=True):
            x = _x(point, y, f)
            # D's x_v, whose sign is the opposite of N's.
            drafts = (share - q - y * (p - q)) / (point.constant + y * point.slope)
            above = share - q - point.constant * drafts
            below = p - q + (p * (1 - p) - q * (1 - q)) * drafts
            back = above / below
            if drafts != -x or _from_x(point, x, f) != y or back != y:
                return True
        return False

    return _identity(instances, wrong)


@claim(
    "x-root",
    "N Appendix B, D Appendix A",
    "For the values of D1, with λ = 0, the solution x_v of Eq. 15 does not depend on v.",
    Verdict.CORRECTED,
    theorems=("x_does_not_depend_on_v",),
)
def x_root(instances: InstanceSet) -> Finding:
    """Take the other root of the quadratic for one value, and the f' that follows from it.

    Eq. 15 has the roots x and 2/(1-p-q) - x: two values may take different ones. Red if the other
    root is none (then the statement holds), or if the variance that follows from it is not below
    0: then V > 0 would not choose.
    """
    refuted = 0
    excluded = 0
    vectors = 0
    for point in _points(instances):
        if point.slope == 0:
            continue  # p + q = 1: Eq. 15 is linear
        for f, y in zip(point.f, point.y, strict=True):
            x = _x(point, y, f)
            other = 2 / (1 - point.p - point.q) - x
            # Both roots must belong to one μ: otherwise they would be of two equations.
            same_mu = _multiplier(point, x) == _multiplier(point, other)
            refuted += same_mu and other != x
            # What excludes the other root is the variance at its f', which must be positive.
            at_other = _from_x(point, other, f)
            excluded += point.constant + at_other * point.slope < 0
            vectors += 1
    return Finding(
        holds=refuted == 0,
        corrected=refuted == excluded == vectors,
        instances=vectors,
        evidence={
            "values with two roots for the same μ": refuted,
            "of these, values whose other root has a negative variance V": excluded,
            "correction": "with V = q(1-q) + f'(p-q)(1-p-q) > 0, which holds for f' in [0, 1]; it "
            "leaves one root",
            "checked in": _EXACT,
        },
    )


def _multiplier(point: Point, x: Fraction) -> Fraction:
    """Return μ of Eq. 15 for a value of D1."""
    return point.slope * x**2 - 2 * (point.p - point.q) * x


@claim(
    "draft-gamma-delta",
    "D 3.4 Eq. 14, Appendix A",
    "D's x_v by summation gives f' = f̃γ + δ, γ = (p-q)/(p-q + (p(1-p)-q(1-q))x_v) and "
    "δ = -q(1-q)x_v/(the same), which sums to 1.",
    Verdict.PROVED,
    theorems=("draft_gamma_and_delta", "draft_x_adds_up"),
)
def draft_gamma_delta(instances: InstanceSet) -> Finding:
    """Evaluate D's x_v, Eq. 14, γ and δ for random sets D1.

    Red if Eq. 14 and f̃γ + δ differ, or do not sum to 1, in exact fractions.
    """

    def wrong(point: Point) -> bool:
        p, q = point.p, point.q
        size = len(point.active)
        shares = point.shares()
        # Over D1 alone: values outside have frequency 0 and no equation.
        mass = sum(shares[v] for v in point.active)
        x = (mass - size * q - (p - q)) / (point.slope + size * point.constant)
        below = p - q + (p * (1 - p) - q * (1 - q)) * x
        by_equation = [(shares[v] - q - point.constant * x) / below for v in point.active]
        # γ and δ are the same for all values of D1, as a line needs them.
        gamma = (p - q) / below
        delta = -point.constant * x / below
        by_line = [point.f[v] * gamma + delta for v in point.active]
        return by_equation != by_line or sum(by_line) != 1

    return _identity(instances, wrong)


@claim(
    "variance-difference",
    "D Appendix A",
    "p(1-p) - q(1-q) = (p-q)(1-p-q).",
    Verdict.PROVED,
    theorems=("both_slopes_are_the_same",),
)
def variance_difference(instances: InstanceSet) -> Finding:
    """Evaluate both sides, which D's lines use in turn, at random p and q.

    Red if they differ, in exact fractions.
    """

    def wrong(point: Point) -> bool:
        return point.p * (1 - point.p) - point.constant != point.slope

    return _identity(instances, wrong)


@claim(
    "norm-formula",
    "D 3.2",
    "Norm's δ = (1 - Σf̃)/d gives f' = 1/d + ((d-1)f̃_v - Σ of the other f̃)/d.",
    Verdict.HOLDS,
)
def norm_formula(instances: InstanceSet) -> Finding:
    """Evaluate f̃ + δ and the printed form for random estimates of five values.

    Red if they differ, or if f' does not sum to 1, in exact fractions.
    """

    def wrong(point: Point) -> bool:
        d = len(point.f)
        # Estimates that do not sum to 1: otherwise δ would be 0 and nothing be shown.
        total = sum(point.f)
        shifted = [f + (1 - total) / Fraction(d) for f in point.f]
        printed = [Fraction(1, d) + ((d - 1) * f - (total - f)) / Fraction(d) for f in point.f]
        return shifted != printed or sum(printed) != 1

    return _identity(instances, wrong)


@claim(
    "uniform-prior",
    "N IV-D Eq. 10, D 3.4 Eq. 11",
    "With a uniform prior the distribution with the largest posterior probability is the maximum "
    "likelihood estimate.",
    Verdict.HOLDS,
)
def uniform_prior(instances: InstanceSet) -> Finding:
    """Compute posterior and likelihood of GRR's counts at all distributions with step 1/24, d = 3.

    Red if they are largest at different distributions, or if a prior that favours the last value
    does not move the largest posterior towards it each time: then the comparison would show
    nothing.
    """
    steps = 24
    # A grid, where the largest of finitely many numbers is found without a solver.
    cells = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    grid = np.array(cells) / steps
    # GRR at e^ε = 2: p = 1/2, q = 1/4.
    support = 0.25 + 0.25 * grid
    moved = 0
    equal = 0
    samples = instances.rng().multinomial(30, [0.5, 0.3, 0.2], size=20)
    for counts in samples:
        log_likelihood = np.log(support) @ counts
        likelihood = np.exp(log_likelihood - log_likelihood.max())
        prior = np.full(len(grid), 1 / len(grid))
        # Bayes' theorem as it stands, although the divisor moves no maximum.
        posterior = likelihood * prior / np.sum(likelihood * prior)
        most_likely = np.argmax(log_likelihood)
        equal += bool(np.argmax(posterior) == most_likely)
        # A prior that is not uniform, as a control: strong enough to win against 30 reports.
        favouring = likelihood * np.exp(20 * grid[:, -1])
        moved += bool(grid[np.argmax(favouring), -1] > grid[most_likely, -1])
    return Finding(
        holds=equal == moved == len(samples),
        instances=len(samples),
        evidence={
            "count vectors whose largest posterior is the likelihood's maximum": equal,
            "count vectors for which another prior moves it": moved,
            "distributions": len(grid),
        },
    )
