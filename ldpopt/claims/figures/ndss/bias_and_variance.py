"""What N states about bias and variance (N V-B, Figs. 1 to 3)."""

from __future__ import annotations

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures.bounds import ANY
from ldpopt.claims.figures.checks import (
    Climb,
    Ratio,
    Spread,
    Value,
    Variance,
    Where,
    on_average,
)
from ldpopt.claims.figures.statement import Correction, Statement

# MLE-Apx is not in N's Figure 2.
_ZERO_SUM = ("norm", "norm-mul", "norm-cut", "norm-sub", "power-ns")
_ZERO_SUM_BY_WORDS = ("norm", "norm-mul", "norm-sub", "power-ns")
_BIAS = {"metric": "bias (counts)"}
# Figure 2 draws the biases and prints their sum.
_SUM = {"metric": "bias sum (counts)"}
# A tenth of the standard deviation of one estimated count, √(4e)/(e - 1)·√n = 1,919 counts.
_UNSEEN = 190
# Those that leave most infrequent values at 0, so that their variance is that of rare events.
_RARE = ("base-cut", "power", "power-ns")
# Up to this rank every method keeps a value in more than one trial of twenty.
_FREQUENT = 40
# The fewer trials leave a value above 0, the larger is the kurtosis and the less the variance is
# known: 1/p where a share p of them does, 1/1000 at the last ranks for the methods in _RARE.
_KURTOSIS = {10.0: ("base-pos", "norm-mul"), 100.0: ("norm-sub", "norm-cut"), 1000.0: _RARE}


def _printed(
    part: str, method: str, text: str, *, number: int, deviation: int, remark: str = ""
) -> Statement:
    """Return the statement of a sum of biases that N prints, the mean of 5,000 runs.

    Ours is a mean of 5,000 runs too, so that they may differ by four standard errors of their
    difference: 4·√(2/5000) of the standard deviation of a single run, which is ``deviation``.
    """
    reach = 0.08 * deviation
    return Statement(
        id=f"n-fig2-{method}",
        source=f"N Fig. {part}",
        text=text,
        figure="ndss-fig2",
        how=(
            "Within 4 standard errors of the difference of two means of 5,000 runs, "
            f"± {reach:,.0f}{remark}"
        ),
        checks=(Value("ndss-fig2", method, number - reach, number + reach, only=_SUM),),
    )


def _variances(low: float, high: float, first: int, last: int) -> tuple[Variance, ...]:
    """Return the checks of all variances but Base's and Norm's over rank 2's, at some ranks."""

    def check(names: tuple[str, ...], kurtosis: float) -> Variance:
        at = _between(first, last)
        return Variance("ndss-fig3", names, low, high, 2, kurtosis=kurtosis, at=at)

    if last <= _FREQUENT:
        # One kurtosis for all methods: 1/p with p a twentieth.
        return (check(sum(_KURTOSIS.values(), ()), 20.0),)
    return tuple(check(names, kurtosis) for kurtosis, names in _KURTOSIS.items())


def _between(first: int, last: int) -> Where:
    return lambda rank: first <= rank <= last


STATEMENTS = (
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
    _printed(
        "2a",
        "base",
        "Sum of biases of Base: −1405.",
        number=-1_405,
        deviation=63_500,
        remark=" (it is noise around 0)",
    ),
    _printed(
        "2b", "base-pos", "Sum of biases of Base-Pos: +711,932.", number=711_932, deviation=38_700
    ),
    _printed(
        "2c", "base-cut", "Sum of biases of Base-Cut: −137,449.", number=-137_449, deviation=16_800
    ),
    _printed("2h", "power", "Sum of biases of Power: −96,332.", number=-96_332, deviation=13_400),
    Statement(
        id="n-fig2-zero",
        source="N Fig. 2d-g, i",
        text="Sum of biases of Norm, Norm-Mul, Norm-Cut, Norm-Sub and PowerNS: 0.",
        figure="ndss-fig2",
        how="Below half a user in a million",
        # Whole counts are printed: below half of one they read 0.
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
                # Norm-Cut apart: by N's words its sum may be below 1.
                Value("ndss-fig2", _ZERO_SUM_BY_WORDS, -0.5, 0.5, only=_SUM),
                # What rounds to 0.2 % of a million users, and half as much again.
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
        # An unbiased estimate has a bias of chance: seven standard errors of 5,000 runs.
        checks=(Value("ndss-fig2", ("base", "norm"), -_UNSEEN, _UNSEEN, "parameter", only=_BIAS),),
    ),
    Statement(
        id="n-fig2-base-pos-positive",
        source="N V-B",
        text="Base-Pos introduces systematic positive bias.",
        figure="ndss-fig2",
        how="Bias of every rank from 100 on, above 0",
        checks=(
            # More frequent values are rarely clipped, and their bias is within its error.
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
            # Far apart: between neighbours the bias changes by less than its standard error.
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
        # Base's variance grows with f, by κ f₁ at most, and a variance of 5,000 runs by chance.
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
        # "Slightly": Norm takes away one part in d.
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
            # The most frequent values have more noise of their own: a quarter is allowed for that.
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
)
