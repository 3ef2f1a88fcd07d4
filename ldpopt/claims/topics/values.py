"""Claims about single values in N's setting: what methods do to rare and to frequent ones."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ldpopt import closed_form, datasets
from ldpopt.claims.engine.claim import Finding, Verdict, claim
from ldpopt.claims.engine.draws import (
    DRAFT,
    NDSS,
    RARE,
    SETTING,
    answers_of,
    collected,
    errors_of,
    is_larger,
    mse_of,
    single_errors,
    zipf_draws,
)
from ldpopt.claims.engine.instances import InstanceSet
from ldpopt.claims.engine.measures import largest, smallest
from ldpopt.claims.engine.tolerances import CONFIDENCE, IDENTITY, SIGMAS
from ldpopt.datasets.dataset import apportion
from ldpopt.methods import postprocess
from ldpopt.oracles import OUE

TITLE = "Single values: what methods do to rare and to frequent ones"
ORDER = 76


@claim(
    "rare-values-left",
    "N Fig. 1",
    "In the mean of many runs all methods but Base and Norm leave the true counts of rare values.",
    Verdict.HOLDS,
)
def rare_values_left(instances: InstanceSet) -> Finding:
    """Average the errors of the rarer half of the values, for all of N's methods.

    Red if the mean error of a method other than Base and Norm is within CONFIDENCE standard errors
    of 0, or if that of Base or Norm is not within SIGMAS.
    """
    # Distances from 0 in standard errors: biases themselves differ by orders of magnitude.
    scores = {}
    for name in NDSS:
        # One mean per draw: the errors of a draw's values depend on each other.
        rare = single_errors(instances, name)[:, RARE].mean(axis=-1)
        scores[name] = float(rare.mean() / rare.std(ddof=1) * math.sqrt(len(rare)))
    # Taken out: what is left in the table are the methods that must be biased.
    unbiased = largest([scores.pop("base"), scores.pop("norm")])
    return Finding(
        holds=unbiased < SIGMAS and smallest(np.abs(list(scores.values()))) > CONFIDENCE,
        instances=len(rare),
        evidence={
            **{f"mean error of the rarer half, standard errors, {n}": z for n, z in scores.items()},
            "Base and Norm, at most": unbiased,
            "data": SETTING,
        },
    )


@claim(
    "norm-sub-higher",
    "N IV-B",
    "Under Norm-Sub higher frequencies have higher negative biases.",
    Verdict.CORRECTED,
)
def norm_sub_higher(instances: InstanceSet) -> Finding:
    """Compare Norm-Sub's mean bias in four ranges of ranks, and within the top eight.

    Values that are never set to 0 all lose the same δ: among them a higher frequency has no higher
    bias. Red if the bias of the top four differs from that of the next four by CONFIDENCE standard
    errors (then the statement may hold), or if it does not fall from each range to the next.
    """
    errors = errors_of(instances, "norm-sub")
    ranges = {"1 .. 8": (0, 8), "33 .. 64": (32, 64), "65 .. 128": (64, 128), "513 ..": (512, None)}
    means = [errors[:, low:high].mean(axis=-1) for low, high in ranges.values()]
    rises = all(is_larger(less, more) for more, less in itertools.pairwise(means))
    # Among values that are never set to 0 the statement would still say "the higher, the more".
    first = errors[:, :4].mean(axis=-1)
    second = errors[:, 4:8].mean(axis=-1)
    # Paired draws: the noise of four values each is what remains.
    differs = is_larger(first, second) or is_larger(second, first)
    return Finding(
        holds=differs and rises,
        corrected=rises,
        instances=len(errors),
        evidence={
            **{
                f"mean bias, ranks {ranks}": float(mean.mean())
                for ranks, mean in zip(ranges, means, strict=True)
            },
            "ranks 1 .. 4 less ranks 5 .. 8": float(np.mean(first - second)),
            "correction": "values that are likely to stay positive all have the same bias, E δ; "
            "only rarer values have a smaller one",
            "data": SETTING,
        },
    )


def _correlation(instances: InstanceSet, first: str, second: str) -> float:
    """Return the correlation over the values of two methods' mean errors."""
    means = [errors_of(instances, name).mean(axis=0) for name in (first, second)]
    return float(np.corrcoef(*means)[0, 1])


@claim(
    "power-shape",
    "N V-B",
    "The shape of Power's biases over the values is similar to that of Norm-Cut's.",
    Verdict.HOLDS,
)
def power_shape(instances: InstanceSet) -> Finding:
    """Correlate both methods' mean errors over the 1,024 values.

    Red if less than half of the variation is common: a correlation of 0.7 or less.
    """
    correlation = _correlation(instances, "power", "norm-cut")
    return Finding(
        holds=correlation > 0.7,
        instances=len(errors_of(instances, "power")),
        evidence={
            "correlation of the biases of Power and Norm-Cut": correlation,
            "of Power and Base-Cut": _correlation(instances, "power", "base-cut"),
            "of Power and Base-Pos, beside": _correlation(instances, "power", "base-pos"),
            "data": SETTING,
        },
    )


@claim(
    "power-ns-shape",
    "N V-B",
    "The shape of PowerNS's biases is close to Power's, as Norm-Sub subtracts some amount.",
    Verdict.CORRECTED,
)
def power_ns_shape(instances: InstanceSet) -> Finding:
    """Compare the mean errors of both over the values, up to one constant.

    Power's answers sum to less than 1 here: Norm-Sub adds. Red if a bias differs from Power's by
    more than the constant and 1e-6, or if the constant is negative (then the statement holds).
    """
    difference = (errors_of(instances, "power-ns") - errors_of(instances, "power")).mean(axis=0)
    # What is common to all values is the δ that Norm-Sub adds or subtracts.
    constant = float(difference.mean())
    # Where δ is negative in a draw small values may be cut off: the limit leaves room for few.
    close = largest(difference - constant) < 1e-6
    return Finding(
        holds=close and constant < 0,
        corrected=close and constant > 0,
        instances=len(errors_of(instances, "power")),
        evidence={
            "PowerNS's bias less Power's, mean over the values": constant,
            "largest departure from it": largest(difference - constant),
            "correction": "adds some amount: Power's answers sum to less than 1 (Fig. 2h)",
            "data": SETTING,
        },
    )


@claim(
    "power-changes-low",
    "N V-B",
    "Power changes the top estimations little, but the low ones more.",
    Verdict.HOLDS,
)
def power_changes_low(instances: InstanceSet) -> Finding:
    """Compare the mean change of an estimate among the top 10 values and among the rarer half.

    Red if that of the rarer half is not larger by CONFIDENCE standard errors, or if that of the top
    is half a standard deviation of the noise or more.
    """
    # In units of the noise, by which "little" has a meaning.
    _, raw = zipf_draws(instances)
    change = np.abs(answers_of(instances, "power") - raw.frequencies) / float(raw.sigma)
    # About ten values stand out of the noise at ε = 1 (N V-E): these are the "top".
    top = change[:, :10].mean(axis=-1)
    rare = change[:, RARE].mean(axis=-1)
    return Finding(
        holds=is_larger(rare, top) and float(top.mean()) < 0.5,
        instances=len(change),
        evidence={
            "mean |f' - f̃| of the top 10, in σ": float(top.mean()),
            "the same, rarer half": float(rare.mean()),
            "data": SETTING,
        },
    )


@claim(
    "mostly-zeros",
    "N V-B",
    "Under all methods but Base and Norm the estimates of low-frequency values are mostly zeros.",
    Verdict.FAILS,
)
def mostly_zeros(instances: InstanceSet) -> Finding:
    """Count the zeros among the answers to the rarer half of the values.

    Red if every method gives 0 to more than half of them (then the statement holds), or if Power
    gives 0 to one, which it cannot.
    """
    shares = {}
    for name in NDSS:
        if name not in ("base", "norm"):
            # Post-Pos has no zeros among its frequencies; its answers to single values are
            # Base-Pos's.
            answers = answers_of(instances, "base-pos" if name == "post-pos" else name)
            shares[name] = float(np.mean(answers[:, RARE] == 0))
    return Finding(
        # A posterior mean over counts from 1 on is positive: a zero would be an error of the code.
        holds=min(shares.values()) > 0.5 or shares["power"] > 0,
        instances=len(answers_of(instances, "base-pos")),
        evidence={
            **{f"share of zeros, rarer half, {name}": share for name, share in shares.items()},
            "so": "zeros explain the small variance of Base-Cut, Norm-Cut, Norm-Sub and MLE-Apx; "
            "Base-Pos, Post-Pos and Norm-Mul give 0 to one half, Power and PowerNS never do",
            "data": SETTING,
        },
    )


@claim(
    "mse-split",
    "N V-C; K II-C",
    "MSE is squared bias plus variance; for an unbiased estimate it is the variance.",
    Verdict.PROVED,
    theorems=("squared_error_is_squared_bias_plus_variance",),
)
def mse_split(instances: InstanceSet) -> Finding:
    """Split the mean squared error of every value, for all of N's methods.

    Red if the parts do not add up to IDENTITY, or if Base's mean squared error over all values is
    SIGMAS standard deviations or more from its variance by Eq. 5.
    """
    truth, raw = zipf_draws(instances)
    gaps = []
    for name in NDSS:
        errors = single_errors(instances, name)
        # With the divisor n, not n - 1: then the identity is exact.
        parts = errors.mean(axis=0) ** 2 + errors.var(axis=0)
        gaps.append(largest(np.mean(errors**2, axis=0) - parts))
    base = np.mean(errors_of(instances, "base") ** 2, axis=-1)
    variance = float(np.mean(raw.noise.variance(truth)))
    score = float((base.mean() - variance) / base.std(ddof=1) * math.sqrt(len(base)))
    return Finding(
        holds=largest(gaps) < IDENTITY and abs(score) < SIGMAS,
        instances=len(base) * len(NDSS),
        evidence={
            "largest |MSE - bias² - variance| of a value": largest(gaps),
            "Base's MSE over the mean of Eq. 5": float(base.mean()) / variance,
            "their difference in standard errors": score,
            "data": SETTING,
        },
    )


@claim(
    "no-dramatic-change",
    "N V-F",
    "Norm and Base change no value dramatically.",
    Verdict.HOLDS,
)
def no_dramatic_change(instances: InstanceSet) -> Finding:
    """Measure the change of a value by Norm, in standard deviations of its noise.

    Red if a value changes by half a standard deviation or more in any draw, or if none changes:
    OLH's estimates do not sum to 1. Base changes nothing.
    """
    _, raw = zipf_draws(instances)
    # Norm shifts by (1 - Σf̃)/d, whose standard deviation is σ/√d: half a σ is far beyond it.
    change = largest(answers_of(instances, "norm") - raw.frequencies) / float(raw.sigma)
    # Zero by definition, and measured like the other so that the comparison is one.
    of_base = largest(answers_of(instances, "base") - raw.frequencies)
    return Finding(
        holds=0 < change < 0.5 and of_base == 0,
        instances=len(raw.frequencies),
        evidence={
            "largest change by Norm, in σ": change,
            "in theory its standard deviation, 1/sqrt(d)": 1 / math.sqrt(raw.d),
            "largest change by Base": of_base,
            "data": SETTING,
        },
    )


# --- errors over the domain -----------------------------------------------------------------------


@claim(
    "error-near-zero",
    "N V-C, D 4.2",
    "The dominating source of errors is that many values with frequencies close to 0 are randomly "
    "perturbed.",
    Verdict.HOLDS,
)
def error_near_zero(instances: InstanceSet) -> Finding:
    """Add up Base's squared error over the values whose frequency is below its noise, σ.

    Red if they have less than nine tenths of it.
    """
    truth, raw = zipf_draws(instances)
    squares = (errors_of(instances, "base") ** 2).mean(axis=0)
    # Below its own noise a single value cannot be distinguished from 0.
    near = truth < float(raw.sigma)
    share = float(squares[near].sum() / squares.sum())
    return Finding(
        holds=share > 0.9,
        instances=len(raw.frequencies),
        evidence={
            "share of Base's squared error at values with f < σ": share,
            "share of such values": float(near.mean()),
            "data": SETTING,
        },
    )


@claim(
    "most-values-rare",
    "D 3.6",
    "In a large domain the vast majority of the true values are 0 or close to 0.",
    Verdict.HOLDS,
)
def most_values_rare(instances: InstanceSet) -> Finding:
    """Count the values below Base-Cut's threshold T at ε = 1, on three data sets with d > 700.

    Zipf, emoji and US cities; T is where two empty values are seen by chance. Red if less than
    nine tenths are below it in one of them.
    """
    shares = {}
    for name in ("zipf", "emoji", "us-cities"):
        data = datasets.load(name)
        # As many users as a collection has, not the whole population of the US.
        sigma = OUE(epsilon=1.0, d=data.d).sd(min(data.n, 1_000_000))
        threshold = closed_form.significance_threshold(data.d, sigma)
        # By T, the papers' own border between values that can be seen and others.
        shares[name] = float(np.mean(data.frequencies < threshold))
    return Finding(
        holds=min(shares.values()) > 0.9,
        instances=len(shares),
        evidence={f"share of values with f < T, {name}": s for name, s in shares.items()},
    )


@claim(
    "norm-mul-smooth",
    "N IV-B, on Kairouz, Bonawitz, Ramage 2016",
    "Norm-Mul performs well where the distribution is smooth.",
    Verdict.HOLDS,
)
def norm_mul_smooth(instances: InstanceSet) -> Finding:
    """Compare its MSE with those of seven methods on a uniform law, a hump and a slope.

    OUE, ε = 1, d = 256, n = 100,000. Red if another method has a smaller MSE on one of them by
    CONFIDENCE standard errors; on Zipf(1.5) it must have the largest, or smoothness would not
    matter.
    """
    d = 256
    shapes = {
        # Smooth in three ways; the last one has the sharp peak of the papers' data.
        "uniform": np.ones(d),
        "hump": np.exp(-(np.linspace(-3, 3, d) ** 2) / 2),
        "slope": np.arange(1.0, d + 1),
        "Zipf(1.5)": np.arange(1.0, d + 1) ** -1.5,
    }
    others = ("base", "base-pos", "base-cut", "norm", "norm-cut", "norm-sub", "mle-apx")
    beaten = []
    evidence: dict[str, float | int | str] = {}
    for shape, weights in shapes.items():
        truth, raw = collected(apportion(weights, 100_000), 1.0, 40, instances)
        of_norm_mul = mse_of(raw, truth, "norm-mul")
        rivals = {name: mse_of(raw, truth, name) for name in others}
        beaten.append([name for name, errors in rivals.items() if is_larger(of_norm_mul, errors)])
        smallest_rival = min(float(errors.mean()) for errors in rivals.values())
        evidence[f"Norm-Mul's MSE over the smallest other, {shape}"] = (
            float(of_norm_mul.mean()) / smallest_rival
        )
    return Finding(
        holds=not any(beaten[:3]) and len(beaten[3]) == len(others),
        instances=40 * len(shapes),
        evidence={**evidence, "data": f"OUE, ε = 1, d = {d}, n = 100,000"},
    )


@claim(
    "mae-above-mse",
    "D C.2",
    "MAE is typically greater than MSE.",
    Verdict.HOLDS,
)
def mae_above_mse(instances: InstanceSet) -> Finding:
    """Compare both for D's methods, draw by draw.

    Errors are below 1, where |x| > x². Red if one MSE reaches its MAE.
    """
    # Without a bound from theory but |x| > x² below 1: the largest ratio must show it.
    ratios = []
    for name in DRAFT:
        errors = single_errors(instances, name)
        # Draw by draw: a mean over the draws could hide one that is the other way round.
        ratios.append(largest(np.mean(errors**2, -1) / np.mean(np.abs(errors), -1)))
    return Finding(
        holds=largest(ratios) < 1,
        instances=len(DRAFT) * len(errors),
        evidence={"largest MSE over its MAE": largest(ratios), "data": SETTING},
    )


@claim(
    "mae-order",
    "D C.2",
    "The relative performance of different methods by MAE is that by MSE.",
    Verdict.FAILS,
)
def mae_order(instances: InstanceSet) -> Finding:
    """Compare all pairs of D's methods on Beta(50, 2), one of D's four data sets, by both measures.

    OUE, four budgets. Red unless some pair is in one order by MSE and in the other by MAE, each by
    CONFIDENCE standard errors of the paired difference.
    """
    # On single values Post-Pos is Base-Pos, and Base nearly Norm.
    names = [name for name in DRAFT if name not in ("post-pos", "base")]
    data = datasets.load("beta")
    reversed_pairs = []
    # D's axis from end to end: which methods change places depends on ε.
    for epsilon in (0.2, 0.6, 1.0, 2.0):
        truth, raw = collected(data.counts, epsilon, 40, instances)
        errors = {name: postprocess(raw, name).frequencies - truth for name in names}
        squares = {name: np.mean(e**2, axis=-1) for name, e in errors.items()}
        sizes = {name: np.mean(np.abs(e), axis=-1) for name, e in errors.items()}
        # Each pair is met twice, and at most one of its two orders is reversed.
        for first, second in itertools.product(names, repeat=2):
            is_worse_by_mse = is_larger(squares[first], squares[second])
            is_better_by_mae = is_larger(sizes[second], sizes[first])
            if is_worse_by_mse and is_better_by_mae:
                reversed_pairs.append(f"{first} and {second} at ε = {epsilon:g}")
    return Finding(
        holds=not reversed_pairs,
        instances=4 * 40,
        evidence={
            "pairs in the other order": len(reversed_pairs),
            "some of them": "; ".join(reversed_pairs[:4]),
            "data": "Beta(50, 2), d = 400, n = 100,000, OUE; POS, Fire and Kosarak are not here, "
            "and one data set is enough to refute",
        },
    )
