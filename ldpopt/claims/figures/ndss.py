"""What N states about its figures (N V)."""

from __future__ import annotations

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures.bounds import ANY, EQUAL, TIE
from ldpopt.claims.figures.checks import (
    AddedRanks,
    Against,
    Climb,
    Deviation,
    Growth,
    Ratio,
    Some,
    Spread,
    TopRanks,
    Value,
    Variance,
    Where,
    on_average,
    typical,
)
from ldpopt.claims.figures.statement import Correction, Statement

_ALL = (
    "base",
    "base-pos",
    "post-pos",
    "norm",
    "norm-mul",
    "norm-sub",
    "mle-apx",
    "base-cut",
    "norm-cut",
    "power",
    "power-ns",
)
_RIGHT = ("norm-sub", "mle-apx", "base-cut", "norm-cut", "power", "power-ns")
# Those whose answers sum to 1, Norm-Cut's almost.
_NORMALISED = ("norm", "norm-mul", "norm-sub", "mle-apx", "norm-cut", "power-ns")
_FREE = ("base", "base-pos", "post-pos", "base-cut", "power")
# MLE-Apx is not in N's Figure 2.
_ZERO_SUM = ("norm", "norm-mul", "norm-cut", "norm-sub", "power-ns")
_ZERO_SUM_BY_WORDS = ("norm", "norm-mul", "norm-sub", "power-ns")
_ZIPF = {"dataset": "zipf"}
_EMOJI = {"dataset": "emoji"}
_BIAS = {"metric": "bias (counts)"}
_SUM = {"metric": "bias sum (counts)"}
# A tenth of the standard deviation of one estimated count, √(4e)/(e - 1)·√n = 1,919 counts.
_UNSEEN = 190
# Those that leave most infrequent values at 0, so that their variance is that of rare events.
_RARE = ("base-cut", "power", "power-ns")
_KS = tuple(range(4, 33, 2))
# Base-Cut, Norm-Cut and the two with a power law, on which N V-E makes one sentence.
_GROWING = ("base-cut", "norm-cut", "power", "power-ns")


def _without(*names: str) -> tuple[str, ...]:
    return tuple(m for m in _ALL if m not in names)


def _printed(method: str, number: int, deviation: int) -> Value:
    """Return the check of a sum of biases that N prints, the mean of 5,000 runs.

    Ours is a mean of 5,000 runs too, so that they may differ by four standard errors of their
    difference: 4·√(2/5000) of the standard deviation of a single run.
    """
    reach = 0.08 * deviation
    return Value("ndss-fig2", method, number - reach, number + reach, only=_SUM)


_FREQUENT = 40
# The fewer trials leave a value above 0, the larger is the kurtosis and the less the variance is
# known: 1/p where a share p of them does, 1/1000 at the last ranks for the methods in _RARE.
_KURTOSIS = {10.0: ("base-pos", "norm-mul"), 100.0: ("norm-sub", "norm-cut"), 1000.0: _RARE}


def _variances(low: float, high: float, first: int, last: int) -> tuple[Variance, ...]:
    """Return the checks of all variances but Base's and Norm's over rank 2's, at some ranks."""

    def check(names: tuple[str, ...], kurtosis: float) -> Variance:
        at = _between(first, last)
        return Variance("ndss-fig3", names, low, high, 2, kurtosis=kurtosis, at=at)

    if last <= _FREQUENT:
        # Up to there a value is above 0 in more than one trial of twenty with every method.
        return (check(sum(_KURTOSIS.values(), ()), 20.0),)
    return tuple(check(names, kurtosis) for kurtosis, names in _KURTOSIS.items())


def _between(first: int, last: int) -> Where:
    return lambda rank: first <= rank <= last


STATEMENTS = (
    # --- the conclusions of N V and V-F ---
    Statement(
        id="n-full-domain-base-cut",
        source="N V, V-F",
        text="For full-domain query, Base-Cut performs the best.",
        figure="ndss-fig4",
        how="MSE of Base-Cut over every other method's, at most 1 at every ε",
        checks=(Ratio("ndss-fig4", "base-cut", _without("base-cut"), 0, 1),),
        expected=Verdict.FAILS,
        why=(
            "Power and PowerNS have smaller errors at every ε, by up to a third: N V-C itself "
            "finds PowerNS the best."
        ),
    ),
    Statement(
        id="n-sets-power-ns",
        source="N V, V-D",
        text="For set-value query, PowerNS performs the best.",
        figure="ndss-fig6",
        how="MSE of PowerNS over every other method's, at most 1 at every ρ",
        checks=(Ratio("ndss-fig6", "power-ns", _without("power-ns"), 0, 1, "parameter"),),
    ),
    Statement(
        id="n-top-norm",
        source="N V, V-F",
        text="For high-frequency-value query, Norm performs the best.",
        figure="ndss-fig10",
        how=(
            "MSE of Norm over every other method's, at most 1.05 at every k (Base and Norm differ"
            " by chance)"
        ),
        checks=(Ratio("ndss-fig10", "norm", _without("norm"), 0, TIE, "parameter"),),
        expected=Verdict.INCONCLUSIVE,
        why=(
            "At k ≥ 30 Base-Pos is better by 4 %, give or take 3: 30 trials do not tell whether by "
            "more than 5 %."
        ),
    ),
    Statement(
        id="n-norm-below-base",
        source="N V-F",
        text="While Base can also be used, Norm reduces variance.",
        figure="ndss-fig4",
        how="MSE of Norm over Base's, below 1 at every ε",
        checks=(Ratio("ndss-fig4", "norm", "base", 0, 1),),
    ),
    Statement(
        id="n-std-small",
        source="N V-A",
        text="The standard deviation is typically very small, and barely noticeable.",
        figure="ndss-fig4",
        how=(
            "Median over all methods and ε of the standard deviation of the MSE over its mean, "
            "below 0.25 (a quarter is a hair on the logarithmic axis)"
        ),
        checks=(typical(Deviation("ndss-fig4", _ALL, 0, 0.25)),),
    ),
    # --- bias and variance ---
    Statement(
        id="n-fig1-follow",
        source="N V-B",
        text="In the mean of 5,000 runs Base and Norm follow the true counts.",
        figure="ndss-fig1",
        how=(
            "Mean estimate over true count within 10 % of 1 for ranks up to 50, where a mean of "
            "5,000 runs has a standard error of 2.5 %"
        ),
        checks=(
            Ratio(
                "ndss-fig1",
                ("base", "norm"),
                "truth",
                0.9,
                1.1,
                "parameter",
                at=lambda r: r <= 50,
            ),
        ),
    ),
    Statement(
        id="n-fig2-base",
        source="N Fig. 2a",
        text="Sum of biases of Base: −1405.",
        figure="ndss-fig2",
        how=(
            "Within 4 standard errors of the difference of two means of 5,000 runs, ± 5,080 (it "
            "is noise around 0)"
        ),
        checks=(_printed("base", -1_405, 63_500),),
    ),
    Statement(
        id="n-fig2-base-pos",
        source="N Fig. 2b",
        text="Sum of biases of Base-Pos: +711,932.",
        figure="ndss-fig2",
        how="Within 4 standard errors of the difference of two means of 5,000 runs, ± 3,096",
        checks=(_printed("base-pos", 711_932, 38_700),),
    ),
    Statement(
        id="n-fig2-base-cut",
        source="N Fig. 2c",
        text="Sum of biases of Base-Cut: −137,449.",
        figure="ndss-fig2",
        how="Within 4 standard errors of the difference of two means of 5,000 runs, ± 1,344",
        checks=(_printed("base-cut", -137_449, 16_800),),
    ),
    Statement(
        id="n-fig2-power",
        source="N Fig. 2h",
        text="Sum of biases of Power: −96,332.",
        figure="ndss-fig2",
        how="Within 4 standard errors of the difference of two means of 5,000 runs, ± 1,072",
        checks=(_printed("power", -96_332, 13_400),),
    ),
    Statement(
        id="n-fig2-zero",
        source="N Fig. 2d-g, i",
        text="Sum of biases of Norm, Norm-Mul, Norm-Cut, Norm-Sub and PowerNS: 0.",
        figure="ndss-fig2",
        how="Below half a user in a million",
        checks=(Value("ndss-fig2", _ZERO_SUM, -0.5, 0.5, only=_SUM),),
        expected=Verdict.CORRECTED,
        why=(
            "Norm-Cut by N's words does not sum to 1. The authors' code rescales what it keeps, "
            "which explains the printed 0."
        ),
        correction=Correction(
            text=(
                "0 for Norm, Norm-Mul, Norm-Sub and PowerNS. Norm-Cut leaves out what would exceed"
                " 1, 0.2 % of the users, unless the values that it keeps are rescaled."
            ),
            checks=(
                Value("ndss-fig2", _ZERO_SUM_BY_WORDS, -0.5, 0.5, only=_SUM),
                Value("ndss-fig2", "norm-cut", -3_000, -1_500, only=_SUM),
            ),
        ),
    ),
    Statement(
        id="n-fig2-unbiased",
        source="N V-B",
        text="Base and Norm are unbiased.",
        figure="ndss-fig2",
        how="Every shown bias within ±190 counts, a tenth of the standard deviation of an estimate",
        checks=(Value("ndss-fig2", ("base", "norm"), -_UNSEEN, _UNSEEN, "parameter", only=_BIAS),),
    ),
    Statement(
        id="n-fig2-base-pos-positive",
        source="N V-B",
        text="Base-Pos introduces systematic positive bias.",
        figure="ndss-fig2",
        how="Bias of every rank from 100 on, above 0",
        checks=(
            Value("ndss-fig2", "base-pos", 0, ANY, "parameter", at=lambda r: r >= 100, only=_BIAS),
        ),
    ),
    Statement(
        id="n-fig2-base-cut-top",
        source="N V-B",
        text="Base-Cut gives unbiased estimations for the first few most frequent values.",
        figure="ndss-fig2",
        how=(
            "Bias of ranks 1 to 10 within ±190 counts, a tenth of the standard deviation of an "
            "estimate"
        ),
        checks=(
            Value(
                "ndss-fig2",
                "base-cut",
                -_UNSEEN,
                _UNSEEN,
                "parameter",
                at=lambda r: r <= 10,
                only=_BIAS,
            ),
        ),
    ),
    Statement(
        id="n-fig2-norm-sub-rises",
        source="N V-B",
        text="We see an increasing line for Norm-Sub.",
        figure="ndss-fig2",
        how=(
            "Bias at each of the ranks 1, 30, 59, 103, 181 and 365 above that at the one before "
            "(nearly flat before and after), from below −500 counts to above 0"
        ),
        checks=(
            Climb("ndss-fig2", "norm-sub", 0, ANY, (1, 30, 59, 103, 181, 365), only=_BIAS),
            Value(
                "ndss-fig2", "norm-sub", -ANY, -500, "parameter", at=lambda r: r <= 10, only=_BIAS
            ),
            Value("ndss-fig2", "norm-sub", 0, ANY, "parameter", at=lambda r: r > 500, only=_BIAS),
        ),
    ),
    Statement(
        id="n-fig2-power-top",
        source="N V-B",
        text="Power changes little to the top estimations.",
        figure="ndss-fig2",
        how="Bias of the top 10 over Norm-Sub's, between −0.75 and 0.75",
        checks=(
            Ratio(
                "ndss-fig2",
                "power",
                "norm-sub",
                -0.75,
                0.75,
                "parameter",
                at=lambda r: r <= 10,
                only=_BIAS,
                signed=True,
            ),
        ),
    ),
    Statement(
        id="n-fig3-base-flat",
        source="N V-B",
        text="The variance is similar for all the values in Base and Norm.",
        figure="ndss-fig3",
        how="Largest over smallest variance of all shown ranks, at most 1.5",
        checks=(Spread("ndss-fig3", ("base", "norm"), 1, 1.5, variances=True),),
    ),
    Statement(
        id="n-fig3-norm-smaller",
        source="N V-B",
        text="Norm's variance is slightly smaller than Base's.",
        figure="ndss-fig3",
        how=(
            "Mean of the ratios at all shown ranks, below 1 and above 0.99; its interval follows "
            "from how the ratios differ (at a single rank chance decides)"
        ),
        checks=(on_average(Ratio("ndss-fig3", "norm", "base", 0.99, 1.0, "parameter")),),
    ),
    Statement(
        id="n-fig3-others-drop",
        source="N V-B",
        text="For all other methods, the variance drops with the rank.",
        figure="ndss-fig3",
        how=(
            "Variance over rank 2's: at most 1.25 at the ranks 3 to 40, 1 up to 500 and 0.5 beyond"
        ),
        checks=(
            *_variances(0, 1.25, first=3, last=_FREQUENT),
            *_variances(0, 1, first=_FREQUENT + 1, last=500),
            *_variances(0, 0.5, first=501, last=1_024),
        ),
        expected=Verdict.CORRECTED,
        why=(
            "N's reason, that estimates are mostly zeros, is about infrequent values; among the "
            "frequent ones the variance of the methods with a threshold rises first, threefold."
        ),
        correction=Correction(
            text=(
                "From rank 40 on; up to there, where values are about as large as the threshold, "
                "that of Base-Cut, Norm-Cut, Power and PowerNS is up to five times rank 2's."
            ),
            checks=(
                *_variances(0, 5, first=3, last=_FREQUENT),
                *_variances(0, 1, first=_FREQUENT + 1, last=500),
                *_variances(0, 0.5, first=501, last=1_024),
            ),
        ),
    ),
    # --- full domain ---
    Statement(
        id="n-fig4-base-norm",
        source="N V-C",
        text="Base performs very close to Norm.",
        figure="ndss-fig4",
        how="Ratio of MSEs within 2 % of 1",
        checks=(Ratio("ndss-fig4", "norm", "base", 0.98, 1.02),),
    ),
    Statement(
        id="n-fig4-base-pos-half",
        source="N V-C",
        text="Base-Pos (equivalent to Post-Pos here): its MSE is around half that of Base.",
        figure="ndss-fig4",
        how="Ratio of MSEs between 0.4 and 0.6; Post-Pos over Base-Pos exactly 1",
        checks=(
            Ratio("ndss-fig4", "base-pos", "base", 0.4, 0.6),
            Ratio("ndss-fig4", "post-pos", "base-pos", *EQUAL),
        ),
    ),
    Statement(
        id="n-fig4-norm-sub-10",
        source="N V-C",
        text="Norm-Sub is able to reduce the MSE of Base by about a factor of 10 in Zipf's.",
        figure="ndss-fig4",
        how="Base over Norm-Sub between 5 and 20 at every ε",
        checks=(Ratio("ndss-fig4", "base", "norm-sub", 5, 20, only=_ZIPF),),
        data=("zipf",),
        expected=Verdict.FAILS,
        why="By 18 times at ε = 0.2, 8 at ε = 1, 3 at ε = 4; the sentence names no ε.",
    ),
    Statement(
        id="n-fig4-norm-sub-100",
        source="N V-C",
        text="... and 100 in the Emoji dataset.",
        figure="ndss-fig4",
        how="Base over Norm-Sub between 50 and 200 at every ε",
        checks=(Ratio("ndss-fig4", "base", "norm-sub", 50, 200, only=_EMOJI),),
        data=("emoji",),
        expected=Verdict.UNCHECKED,
        why="Emoji as N had it is gone; what 736 emoji of today show decides nothing.",
    ),
    Statement(
        id="n-fig4-norm-mul-slow",
        source="N V-C",
        text="For Norm-Mul the MSE decreases much slower than for other methods.",
        figure="ndss-fig4",
        how=(
            "Norm-Mul over every other method of the left column: this ratio at ε = 4 at least "
            "twice that at ε = 0.2"
        ),
        checks=(
            Growth(
                "ndss-fig4",
                "norm-mul",
                ("base", "base-pos", "post-pos", "norm", "norm-sub"),
                0.2,
                4.0,
                2,
                ANY,
            ),
        ),
        expected=Verdict.INCONCLUSIVE,
        why="Than Norm-Sub by 1.9 times, give or take 0.2: whether that is much is open.",
    ),
    Statement(
        id="n-fig4-mle-norm-sub",
        source="N V-C, V-F",
        text="Norm-Sub and MLE-Apx perform almost exactly the same.",
        figure="ndss-fig4",
        how="Ratio of MSEs within 5 % of 1",
        checks=(Ratio("ndss-fig4", "mle-apx", "norm-sub", 0.95, 1.05),),
        expected=Verdict.INCONCLUSIVE,
        why="Within 5 % up to ε = 3.8; at ε = 4 they differ by 5 %, give or take 1.5.",
    ),
    Statement(
        id="n-fig4-similar",
        source="N V-C",
        text="Norm-Sub, MLE-Apx, Power, PowerNS and Base-Cut perform very similarly.",
        figure="ndss-fig4",
        how=(
            "Each over Norm-Sub between 0.5 and 2 at every ε: little on the figure's logarithmic "
            "axis, and the lead of PowerNS, which the next sentence states, is within it"
        ),
        checks=(
            Ratio("ndss-fig4", ("mle-apx", "power", "power-ns", "base-cut"), "norm-sub", 0.5, 2),
        ),
    ),
    Statement(
        id="n-fig4-power-ns-best",
        source="N V-C",
        text="In these two datasets, PowerNS performs the best.",
        figure="ndss-fig4",
        how="MSE of PowerNS over every other method's, at most 1 at every ε",
        checks=(Ratio("ndss-fig4", "power-ns", _without("power-ns"), 0, 1),),
    ),
    Statement(
        id="n-fig5-slope",
        source="N V-C",
        text="Base and Norm are two straight lines with the slope of 1.",
        figure="ndss-fig5",
        how="n′/n within 5 % of 1 at every n",
        checks=(Value("ndss-fig5", ("base", "norm"), 0.95, 1.05, "n", per_user=True),),
    ),
    Statement(
        id="n-fig5-norm-mul",
        source="N V-C",
        text="The value for Norm-Mul grows even slower than Base.",
        figure="ndss-fig5",
        how="Norm-Mul over Base: this ratio at n = 2·10⁶ below that at n = 0.2·10⁶",
        checks=(Growth("ndss-fig5", "norm-mul", "base", 200_000.0, 2_000_000.0, 0, 1, along="n"),),
    ),
    Statement(
        id="n-fig5-pairs",
        source="N Fig. 5",
        text=(
            "Three pairs have similar performance: Base and Norm, Base-Pos and Post-Pos, Norm-Sub"
            " and MLE-Apx."
        ),
        figure="ndss-fig5",
        how="Ratios of n′ within 5 % of 1",
        checks=tuple(
            Ratio("ndss-fig5", a, b, 0.95, 1.05, "n")
            for a, b in (("norm", "base"), ("post-pos", "base-pos"), ("mle-apx", "norm-sub"))
        ),
    ),
    Statement(
        id="n-fig5-saves-90",
        source="N V-C",
        text="PowerNS gives the best performance, which saves around 90 % of users.",
        figure="ndss-fig5",
        how="n/n′ of PowerNS between 5 % and 15 % at every n, and n′ above every other method's",
        checks=(
            Value("ndss-fig5", "power-ns", 1 / 0.15, 1 / 0.05, "n", per_user=True),
            Ratio("ndss-fig5", "power-ns", _without("power-ns"), 1, ANY, "n"),
        ),
    ),
    # --- sets ---
    Statement(
        id="n-fig6-normalised",
        source="N V-D",
        text=(
            "Overall, the approaches that exploit the summing-to-1 requirement perform well, "
            "especially when ρ is large."
        ),
        figure="ndss-fig6",
        how="At ρ = 90, the MSE of each over each of the others', below 1",
        checks=(Ratio("ndss-fig6", _NORMALISED, _FREE, 0, 1, "parameter", at=lambda r: r == 90),),
        expected=Verdict.INCONCLUSIVE,
        why="Norm-Mul's error at ρ = 90 is 0.8 to 1.7 times Base's; for all other pairs it holds.",
    ),
    Statement(
        id="n-fig6-symmetric",
        source="N V-D",
        text="Their MSE is symmetric with ρ = 50.",
        figure="ndss-fig6",
        how="MSE at ρ over that at 100 − ρ, between 2/3 and 3/2 (200 sets for each ρ and trial)",
        checks=(
            Against(
                "ndss-fig6",
                _NORMALISED,
                2 / 3,
                3 / 2,
                partner=lambda r: 100 - r,
                at=lambda r: r > 50,
            ),
        ),
    ),
    Statement(
        id="n-fig6-power-ns-90",
        source="N V-D",
        text=(
            "When ρ = 90, the best norm-based method, PowerNS, outperforms any of the non-norm "
            "based methods by at least 2 orders of magnitude."
        ),
        figure="ndss-fig6",
        how="MSE of each non-normalised method over PowerNS's, at least 100",
        checks=(
            Ratio("ndss-fig6", _FREE, "power-ns", 100, ANY, "parameter", at=lambda r: r == 90),
        ),
        expected=Verdict.INCONCLUSIVE,
        why=(
            "Base's error is 55 to 115 times PowerNS's, so that it may or may not be 100 times; "
            "that of the others is."
        ),
    ),
    Statement(
        id="n-fig6-base-pos",
        source="N V-D",
        text="The MSE for Base-Pos is higher than other methods.",
        figure="ndss-fig6",
        how="Over every other method, above 1",
        checks=(Ratio("ndss-fig6", "base-pos", _without("base-pos"), 1, ANY, "parameter"),),
    ),
    Statement(
        id="n-fig6-post-pos",
        source="N V-D",
        text="Post-Pos is slightly better than Base.",
        figure="ndss-fig6",
        how=(
            "Ratio at least 0.5, at no ρ above 1 by more than 1 % (where no answer is negative "
            "they are the same) and at some below 1"
        ),
        checks=(
            Ratio("ndss-fig6", "post-pos", "base", 0.5, 1.01, "parameter"),
            Some(Ratio("ndss-fig6", "post-pos", "base", 0.5, 1, "parameter")),
        ),
    ),
    Statement(
        id="n-fig6-base-cut",
        source="N V-D",
        text="In the settings we evaluated, Base-Cut also outperforms Base.",
        figure="ndss-fig6",
        how="Ratio below 1 at every ρ",
        checks=(Ratio("ndss-fig6", "base-cut", "base", 0, 1, "parameter"),),
        expected=Verdict.FAILS,
        why="Worse than Base from ρ = 20 on: what Base-Cut leaves out adds up over a set.",
    ),
    Statement(
        id="n-fig6-power-ns-power",
        source="N V-D",
        text="PowerNS further makes Power's estimates sum up to 1, thus achieving better utility.",
        figure="ndss-fig6",
        how="PowerNS over Power, below 1",
        checks=(Ratio("ndss-fig6", "power-ns", "power", 0, 1, "parameter"),),
    ),
    Statement(
        id="n-fig7-rises",
        source="N V-D",
        text="Within ρ = 1 to 10, the errors of all methods increase with ρ.",
        figure="ndss-fig7",
        how=(
            "MSE at ρ = 10 over that at ρ = 1, and at 2, 4, 8 and 10 over that at half of it, "
            "above 1, for every method"
        ),
        checks=(
            Against("ndss-fig7", _ALL, 1, ANY, partner=1.0, at=lambda r: r == 10),
            Against(
                "ndss-fig7",
                _ALL,
                1,
                ANY,
                partner=lambda r: r / 2,
                at=lambda r: r in (2, 4, 8, 10),
            ),
        ),
    ),
    Statement(
        id="n-fig7-small-sets",
        source="N V-D",
        text=(
            "When ρ becomes small, the performance of different methods approaches to that of "
            "full-domain estimation."
        ),
        figure="ndss-fig7",
        how=(
            "MSE of Base-Pos, Post-Pos, Base-Cut and Power over Base's, which is larger for large "
            "sets than for single values: at ρ = 10 above that at ρ = 1"
        ),
        checks=tuple(
            Growth("ndss-fig7", method, "base", 1, 10, 1, ANY, along="parameter")
            for method in ("base-pos", "post-pos", "base-cut", "power")
        ),
    ),
    Statement(
        id="n-fig7-norm-cut",
        source="N V-D",
        text="Norm-Cut is better than Base-Cut, especially when ρ ≥ 2.",
        figure="ndss-fig7",
        how="Norm-Cut over Base-Cut below 1 at every ρ from 1 to 10",
        checks=(Ratio("ndss-fig7", "norm-cut", "base-cut", 0, 1, "parameter"),),
        expected=Verdict.CORRECTED,
        why="At ρ = 1 it is 27 % worse, give or take 11, and at ρ = 2 as good.",
        correction=Correction(
            text="From ρ = 3 on.",
            checks=(
                Ratio("ndss-fig7", "norm-cut", "base-cut", 0, 1, "parameter", at=lambda r: r >= 3),
            ),
        ),
    ),
    Statement(
        id="n-fig7-norm-mul",
        source="N V-D",
        text="Intuitively, the norm-based methods should perform better. But Norm-Mul does not.",
        figure="ndss-fig7",
        how="Norm-Mul over Base, and over every other normalised method, above 1",
        checks=(
            Ratio(
                "ndss-fig7",
                "norm-mul",
                ("base", "norm", "norm-sub", "mle-apx", "norm-cut", "power-ns"),
                1,
                ANY,
                "parameter",
            ),
        ),
    ),
    Statement(
        id="n-fig8-post-pos",
        source="N V-D",
        text="Post-Pos works best in the left sub-figure.",
        figure="ndss-fig8",
        how="Over Base, Base-Pos, Norm, Norm-Mul and Norm-Sub, at most 1",
        checks=(
            Ratio(
                "ndss-fig8", "post-pos", ("base", "base-pos", "norm", "norm-mul", "norm-sub"), 0, 1
            ),
        ),
        expected=Verdict.UNCHECKED,
        why="Emoji as N had it is gone; what 736 emoji of today show decides nothing.",
    ),
    Statement(
        id="n-fig8-norm-cut",
        source="N V-D",
        text="Norm-Cut from the right performs even better, especially when ε < 3.",
        figure="ndss-fig8",
        how="Norm-Cut over Post-Pos, below 1 for ε < 3",
        checks=(Ratio("ndss-fig8", "norm-cut", "post-pos", 0, 1, at=lambda e: e < 3),),
        expected=Verdict.UNCHECKED,
        why="Emoji as N had it is gone; what 736 emoji of today show decides nothing.",
    ),
    Statement(
        id="n-fig9-norm-sub",
        source="N V-D",
        text=(
            "If the results are processed by Norm-Sub, the optimal method can be found quite "
            "accurately."
        ),
        figure="ndss-fig9",
        how="Mean error of the choice at most 15 % above the best method's at every ε",
        checks=(
            Value(
                "ndss-fig9",
                "selected",
                -1,
                0.15,
                only={"parameter": "norm-sub", "metric": "regret"},
            ),
        ),
        expected=Verdict.UNCHECKED,
        why="Emoji as N had it is gone; what 736 emoji of today show decides nothing.",
    ),
    Statement(
        id="n-fig9-power-ns",
        source="N V-D",
        text="If PowerNS is used, PowerNS will be selected.",
        figure="ndss-fig9",
        how="Share of the trials whose choice is PowerNS, above one half at every ε",
        checks=(
            Value(
                "ndss-fig9",
                "power-ns",
                0.5,
                1,
                only={"parameter": "power-ns", "metric": "share of choices"},
            ),
        ),
        expected=Verdict.UNCHECKED,
        why="Emoji as N had it is gone; what 736 emoji of today show decides nothing.",
    ),
    # --- the most frequent values ---
    Statement(
        id="n-fig10-flat",
        source="N V-E",
        text="Base, Base-Pos, Post-Pos and Norm perform consistently well for different k.",
        figure="ndss-fig10",
        how=(
            "MSE at every k from 4 to 32 over that at k = 2, between 0.5 and 2, from the 5,000 "
            "trials of Figs. 2 and 3 (for single values Post-Pos is Base-Pos)"
        ),
        checks=(TopRanks(("base", "base-pos", "norm"), tuple((k, 2) for k in _KS), 0.5, 2),),
    ),
    Statement(
        id="n-fig10-norm-mul-10",
        source="N V-E",
        text="Norm-Mul performs at least 10× worse than any other methods.",
        figure="ndss-fig10",
        how="Norm-Mul over every other method, at least 10 at every k",
        checks=(Ratio("ndss-fig10", "norm-mul", _without("norm-mul"), 10, ANY, "parameter"),),
    ),
    Statement(
        id="n-fig10-norm-sub",
        source="N V-E",
        text="Norm-Sub performs worse than Base, but better than Norm-Mul.",
        figure="ndss-fig10",
        how="Norm-Sub over Base above 1, over Norm-Mul below 1",
        checks=(
            Ratio("ndss-fig10", "norm-sub", "base", 1, ANY, "parameter"),
            Ratio("ndss-fig10", "norm-sub", "norm-mul", 0, 1, "parameter"),
        ),
    ),
    Statement(
        id="n-fig10-consistent",
        source="N V-E",
        text="Base and Norm-Sub have consistent MSE for different k.",
        figure="ndss-fig10",
        how=(
            "MSE at every k from 4 to 32 over that at k = 2, between 0.5 and 2, from the 5,000 "
            "trials of Figs. 2 and 3"
        ),
        checks=(TopRanks(("base", "norm-sub"), tuple((k, 2) for k in _KS), 0.5, 2),),
    ),
    Statement(
        id="n-fig10-grow",
        source="N V-E",
        text="Base-Cut, Norm-Cut, Power and PowerNS all have MSE that grows with k.",
        figure="ndss-fig10",
        how=(
            "Error of the two values that every k from 4 to 32 adds over that of the values before "
            "them, above 1, from the 5,000 trials of Figs. 2 and 3"
        ),
        checks=(AddedRanks(_GROWING, tuple((k, k - 2) for k in _KS), 1, ANY),),
        expected=Verdict.CORRECTED,
        why=(
            "Up to k = 10 all values are above the threshold, and from k = 28 on those that are "
            "added have smaller errors than those near it."
        ),
        correction=Correction(
            text=(
                "From k = 12 to 24, where values are about as large as the threshold. Up to k = 10 "
                "it is flat, and beyond 24 it changes by less than a fifth."
            ),
            checks=(
                AddedRanks(_GROWING, ((16, 12), (20, 16), (24, 20)), 1, ANY),
                TopRanks(_GROWING, tuple((k, 2) for k in _KS if k <= 10), 0.5, 2),
                TopRanks(_GROWING, tuple((k, 24) for k in _KS if k > 24), 0.8, 1.2),
            ),
        ),
    ),
    Statement(
        id="n-fig10-ten-values",
        source="N V-E",
        text="At ε = 1, around 10 values can be reliably estimated.",
        figure="ndss-fig10",
        how="Base-Cut over Base within 0.5 .. 2 for k ≤ 10, above 2 at k = 32, on Zipf's",
        checks=(
            Ratio(
                "ndss-fig10",
                "base-cut",
                "base",
                0.5,
                2,
                "parameter",
                at=lambda k: k <= 10,
                only=_ZIPF,
            ),
            Ratio(
                "ndss-fig10",
                "base-cut",
                "base",
                2,
                ANY,
                "parameter",
                at=lambda k: k == 32,
                only=_ZIPF,
            ),
        ),
    ),
    Statement(
        id="n-fig10-norm-cut",
        source="N V-E",
        text="Norm-Cut is better than Base-Cut.",
        figure="ndss-fig10",
        how="Ratio at most 1.05 at every k (up to k = 10 they are the same), below 1 at some",
        checks=(
            Ratio("ndss-fig10", "norm-cut", "base-cut", 0, TIE, "parameter"),
            Some(Ratio("ndss-fig10", "norm-cut", "base-cut", 0, 1, "parameter")),
        ),
    ),
    Statement(
        id="n-fig10-power-similar",
        source="N V-E",
        text="The performances of Power and PowerNS are similar.",
        figure="ndss-fig10",
        how="PowerNS over Power between 0.5 and 2 at every k",
        checks=(Ratio("ndss-fig10", "power-ns", "power", 0.5, 2, "parameter"),),
    ),
    Statement(
        id="n-fig10-power",
        source="N V-E",
        text="Power and PowerNS are worse than Base-Cut, especially when k > 10.",
        figure="ndss-fig10",
        how=(
            "Both over Base-Cut at least 1/1.05 at every k (up to k = 10 they are the same), above "
            "1 for k > 10"
        ),
        checks=(
            Ratio("ndss-fig10", ("power", "power-ns"), "base-cut", 1 / TIE, ANY, "parameter"),
            Ratio(
                "ndss-fig10",
                ("power", "power-ns"),
                "base-cut",
                1,
                ANY,
                "parameter",
                at=lambda k: k > 10,
            ),
        ),
        expected=Verdict.FAILS,
        why="From k = 24 on PowerNS is better than Base-Cut, and from k = 28 on Power.",
    ),
)
