"""The definitions of the methods in plain Python and rational numbers: slow, literal, independent.

Vectors are lists. Functions marked *exact* take floats at face value and calculate with fractions.
"""

import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from tests.tolerances import EPS


def exact(numbers):
    return [Fraction(float(x)) for x in numbers]


def over_one_denominator(numbers):
    """Return the integers and the denominator whose ratios the numbers are, exactly."""
    ratios = [float(x).as_integer_ratio() for x in numbers]
    unit = math.lcm(*(denominator for _, denominator in ratios))
    return [number * (unit // denominator) for number, denominator in ratios], unit


def water_level(f, total=1, slope=0):
    """The exact t with Σ max(f+t, 0) + slope·t = total.

    It is that of the largest k for which the k-th highest value stays positive.
    """
    # In integers, which have no common divisors to look for at every step.
    values, unit = over_one_denominator(f)
    falling = sorted(values, reverse=True)
    total = Fraction(total) * unit
    slope = Fraction(slope)
    kept = 1
    above = 0
    above_of_kept = falling[0]
    for k, value in enumerate(falling, start=1):
        above += value
        # value + (total - above) / (k + slope) <= 0, times the denominators, which are positive.
        times = (k * slope.denominator + slope.numerator) * total.denominator
        rest = (total.numerator - above * total.denominator) * slope.denominator
        if value * times + rest <= 0:
            break
        kept = k
        above_of_kept = above
    return (total - above_of_kept) / (kept + slope) / unit


def water_level_by_supports(f, total=1, slope=0):
    """The same by trying every support: the level keeps it positive and nothing else."""
    values, total, slope = exact(f), Fraction(total), Fraction(slope)
    for size in range(1, len(values) + 1):
        for support in itertools.combinations(range(len(values)), size):
            t = (total - sum(values[i] for i in support)) / (size + slope)
            if all((value + t > 0) == (i in support) for i, value in enumerate(values)):
                return t
    raise AssertionError("no support fits: total must be positive")


def norm_sub(f, total=1):
    """Exact: max(f + δ, 0); -inf marks zeros."""
    finite = [x for x in f if x != -math.inf]
    delta = water_level(finite, total)
    return [Fraction(0) if x == -math.inf else positive_part_of_sum(x, delta) for x in f]


def positive_part_of_sum(x, delta):
    """Exact: max(x + delta, 0) of a float and a fraction, with one fraction built."""
    number, unit = float(x).as_integer_ratio()
    shifted = number * delta.denominator + delta.numerator * unit
    return Fraction(max(shifted, 0), unit * delta.denominator)


def mle_apx(f, kappa, total=1):
    """Exact: max(f + t, 0)/(1 - κt), t the water level with the slope κ·total."""
    kappa, total = Fraction(kappa), Fraction(total)
    t = water_level(f, total, total * kappa)
    return [max(x + t, Fraction(0)) / (1 - kappa * t) for x in exact(f)]


def base(f):
    return list(f)


def base_pos(f):
    return [x if x > 0 else 0.0 for x in f]


def threshold(d, sigma, alpha=2.0):
    """T = Φ⁻¹(1 - α/d) σ, never below 0."""
    return 0.0 if alpha / d >= 0.5 else NormalDist().inv_cdf(1 - alpha / d) * sigma


def threshold_of_top(f, k):
    return max(sorted(f, reverse=True)[k - 1], 0.0)


def base_cut(f, cut):
    return [x if x >= cut else 0.0 for x in f]


def norm(f, total=1):
    """Exact."""
    values = exact(f)
    shift = (Fraction(total) - sum(values)) / len(values)
    return [x + shift for x in values]


def norm_mul(f, total=1):
    """Exact."""
    positive = [max(x, Fraction(0)) for x in exact(f)]
    return [Fraction(total) * x / sum(positive) for x in positive]


def norm_cut(f):
    """All θ from the highest value down; sums are exact, and 1 is reached within d roundings."""
    positive = [max(x, Fraction(0)) for x in exact(f)]
    fits = 1 + len(f) * Fraction(EPS)
    if sum(positive) <= fits:
        return base_pos(f)
    kept = math.inf
    for theta in sorted(set(positive), reverse=True):
        if sum(x for x in positive if x >= theta) > fits:
            break
        kept = theta
    return [float(x) if x >= kept else 0.0 for x in positive]


def norm_hyb(f, cut):
    """Exact. The highest k: of equal values the first."""
    values = exact(f)
    fixed = [i for i, x in enumerate(f) if x >= cut]
    if sum(values[i] for i in fixed) > 1:
        ranked = sorted(range(len(f)), key=lambda i: (-values[i], i))
        k = max(k for k in range(len(fixed) + 1) if sum(values[i] for i in ranked[:k]) < 1)
        fixed = ranked[:k]
    if len(fixed) == len(f):
        return norm_sub(f)
    others = [i for i in range(len(f)) if i not in set(fixed)]
    adjusted = norm_sub([f[i] for i in others], 1 - sum((values[i] for i in fixed), Fraction(0)))
    result = list(values)
    for i, x in zip(others, adjusted, strict=True):
        result[i] = x
    return result


def power_law_mean(alpha, n):
    weights = [
        (k / n) ** -alpha for k in range(1, n + 1)
    ]  # relative to the last: steep rising laws overflow otherwise
    return math.fsum(k * w for k, w in enumerate(weights, start=1)) / math.fsum(weights)


def power_law_exponent(mean, n):
    """The exponent with that mean: bisection, the mean falls as the exponent rises."""
    low, high = -20.0, 40.0
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if power_law_mean(middle, n) > mean else (low, middle)
    return (low + high) / 2


def posterior_mean(y, alpha, n, noise):
    """Σ k π(k) φ((y-k)/s) / Σ π(k) φ((y-k)/s) over all counts 1 .. n."""
    exponents = [-0.5 * ((y - k) / noise) ** 2 - alpha * math.log(k) for k in range(1, n + 1)]
    top = max(exponents)
    weights = [math.exp(x - top) for x in exponents]
    return math.fsum(k * w for k, w in enumerate(weights, start=1)) / math.fsum(weights)


def posterior(prior, y, counts, noise, slope=0.0):
    """Mean, variance and log-evidence by summation over the given counts in extended precision.

    The prior is given by the logarithm of each count's weight; weights need no sum of 1.
    """
    k = np.asarray(counts, dtype=np.longdouble)
    total = prior.max() + np.log(np.exp(prior - prior.max()).sum())
    variance = np.longdouble(noise) ** 2 + np.longdouble(slope) * k
    level = prior - (np.longdouble(y) - k) ** 2 / (2 * variance) - np.log(variance) / 2
    weight = np.exp(level - level.max())
    mean = (weight * k).sum() / weight.sum()
    spread = (weight * (k - mean) ** 2).sum() / weight.sum()
    evidence = level.max() + np.log(weight.sum()) - np.log(2 * np.longdouble(np.pi)) / 2 - total
    return float(mean), float(spread), float(evidence)


def quantile(prior, y, counts, noise, probability):
    """The smallest count with at least that much posterior mass up to it."""
    level = prior - (np.longdouble(y) - np.asarray(counts)) ** 2 / (2 * np.longdouble(noise) ** 2)
    upto = np.cumsum(np.exp(level - level.max()))
    return counts[int(np.argmax(upto >= probability * upto[-1]))]


def power(f, n, sigma):
    counts = [x * n for x in f]
    mean = math.fsum(counts) / len(counts)
    if mean <= 1:
        return [1 / n] * len(f)
    alpha = power_law_exponent(mean, n)
    return [posterior_mean(y, alpha, n, sigma * n) / n for y in counts]


def floats(numbers):
    return np.array([float(x) for x in numbers])
