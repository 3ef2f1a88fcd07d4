"""What N says about its figures (N V)."""

from __future__ import annotations

import math

from experiments.compare.checks import Against, Deviation, Growth, Ratio, Spread, Value
from experiments.compare.statement import Statement

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
_NORMALISED = ("norm", "norm-mul", "norm-sub", "mle-apx", "norm-cut", "power-ns")
_FREE = ("base", "base-pos", "post-pos", "base-cut", "power")
_ZERO_SUM = ("norm", "norm-mul", "norm-cut", "norm-sub", "power-ns")
_ZIPF, _EMOJI = {"dataset": "zipf"}, {"dataset": "emoji"}
_BIAS, _SUM = {"metric": "bias (counts)"}, {"metric": "bias sum (counts)"}
_ANY = math.inf


def _without(*names: str) -> tuple[str, ...]:
    return tuple(m for m in _ALL if m not in names)


STATEMENTS = (
    # --- the conclusions of N V and V-F ---
    Statement(
        "n-full-domain-base-cut", "N V, V-F", "For full-domain query, Base-Cut performs the best.", "ndss-fig4",
        "MSE of Base-Cut over every other method's, at most 1 at every ε",
        (Ratio("ndss-fig4", "base-cut", _without("base-cut"), 0, 1),),
    ),
    Statement(
        "n-sets-power-ns", "N V, V-D", "For set-value query, PowerNS performs the best.", "ndss-fig6",
        "MSE of PowerNS over every other method's, at most 1 at every ρ",
        (Ratio("ndss-fig6", "power-ns", _without("power-ns"), 0, 1, "parameter"),),
    ),
    Statement(
        "n-top-norm", "N V, V-F", "For high-frequency-value query, Norm performs the best.", "ndss-fig10",
        "MSE of Norm over every other method's, at most 1.02 at every k (Base and Norm differ by chance)",
        (Ratio("ndss-fig10", "norm", _without("norm"), 0, 1.02, "parameter"),),
    ),
    Statement(
        "n-norm-below-base", "N V-F", "While Base can also be used, Norm reduces variance.", "ndss-fig4",
        "MSE of Norm over Base's, below 1 at every ε",
        (Ratio("ndss-fig4", "norm", "base", 0, 1),),
    ),
    Statement(
        "n-std-small", "N V-A", "The standard deviation is typically very small, and barely noticeable.", "ndss-fig4",
        "Standard deviation of the MSE over its mean, below 0.25 at every ε (a quarter is a hair on the logarithmic axis)",
        (Deviation("ndss-fig4", _ALL, 0, 0.25),),
    ),
    # --- bias and variance ---
    Statement(
        "n-fig1-follow", "N V-B", "In the mean of 5,000 runs Base and Norm follow the true counts.", "ndss-fig1",
        "Mean estimate over true count within 5 % of 1 for ranks up to 50",
        (Ratio("ndss-fig1", ("base", "norm"), "truth", 0.95, 1.05, "parameter", at=lambda r: r <= 50),),
    ),
    Statement(
        "n-fig2-base", "N Fig. 2a", "Sum of biases of Base: −1405.", "ndss-fig2",
        "Sum over the domain, mean of all trials: noise of standard deviation about 870 around 0, so within ±3,500",
        (Value("ndss-fig2", "base", -3500, 3500, only=_SUM),),
    ),
    Statement(
        "n-fig2-base-pos", "N Fig. 2b", "Sum of biases of Base-Pos: +711,932.", "ndss-fig2",
        "Within 0.5 % of the printed number", (Value("ndss-fig2", "base-pos", 708_372, 715_492, only=_SUM),),
    ),
    Statement(
        "n-fig2-base-cut", "N Fig. 2c", "Sum of biases of Base-Cut: −137,449.", "ndss-fig2",
        "Within 2 % of the printed number", (Value("ndss-fig2", "base-cut", -140_198, -134_700, only=_SUM),),
    ),
    Statement(
        "n-fig2-power", "N Fig. 2h", "Sum of biases of Power: −96,332.", "ndss-fig2",
        "Within 5 % of the printed number", (Value("ndss-fig2", "power", -101_149, -91_515, only=_SUM),),
    ),
    Statement(
        "n-fig2-zero", "N Fig. 2d-g, i", "Sum of biases of Norm, Norm-Mul, Norm-Cut, Norm-Sub and PowerNS: 0.", "ndss-fig2",
        "Below half a user in a million", (Value("ndss-fig2", _ZERO_SUM, -0.5, 0.5, only=_SUM),),
    ),
    Statement(
        "n-fig2-unbiased", "N V-B", "Base and Norm are unbiased.", "ndss-fig2",
        "Every shown bias within ±125 counts: 5 standard errors of 5,000 trials",
        (Value("ndss-fig2", ("base", "norm"), -125, 125, "parameter", only=_BIAS),),
    ),
    Statement(
        "n-fig2-base-pos-positive", "N V-B", "Base-Pos introduces systematic positive bias.", "ndss-fig2",
        "Bias of every rank from 100 on, above 0",
        (Value("ndss-fig2", "base-pos", 0, _ANY, "parameter", at=lambda r: r >= 100, only=_BIAS),),
    ),
    Statement(
        "n-fig2-base-cut-top", "N V-B", "Base-Cut gives unbiased estimations for the first few most frequent values.",
        "ndss-fig2", "Bias of ranks 1 to 10 within ±125 counts",
        (Value("ndss-fig2", "base-cut", -125, 125, "parameter", at=lambda r: r <= 10, only=_BIAS),),
    ),
    Statement(
        "n-fig2-norm-sub-rises", "N V-B", "We see an increasing line for Norm-Sub.", "ndss-fig2",
        "Bias of the top 10 below −500 counts, of ranks beyond 500 above 0",
        (
            Value("ndss-fig2", "norm-sub", -_ANY, -500, "parameter", at=lambda r: r <= 10, only=_BIAS),
            Value("ndss-fig2", "norm-sub", 0, _ANY, "parameter", at=lambda r: r > 500, only=_BIAS),
        ),
    ),
    Statement(
        "n-fig2-power-top", "N V-B", "Power changes little to the top estimations.", "ndss-fig2",
        "Bias of the top 10 smaller than Norm-Sub's",
        (Ratio("ndss-fig2", "power", "norm-sub", -0.75, 0.75, "parameter", at=lambda r: r <= 10, only=_BIAS),),
    ),
    Statement(
        "n-fig3-base-flat", "N V-B", "The variance is similar for all the values in Base and Norm.", "ndss-fig3",
        "Largest over smallest variance of ranks from 2 on, at most 1.25 (5,000 trials: ± 6 %)",
        (Spread("ndss-fig3", ("base", "norm"), 1, 1.25, at=lambda r: r >= 2),),
    ),
    Statement(
        "n-fig3-norm-smaller", "N V-B", "Norm's variance is slightly smaller than Base's.", "ndss-fig3",
        "Ratio at every shown rank, below 1 and above 0.99",
        (Ratio("ndss-fig3", "norm", "base", 0.99, 1.0, "parameter"),),
    ),
    Statement(
        "n-fig3-others-drop", "N V-B", "For all other methods, the variance drops with the rank.", "ndss-fig3",
        "Variance at rank 1,024 over rank 2's, below 0.5",
        (
            Against(
                "ndss-fig3", ("base-pos", "base-cut", "norm-mul", "norm-cut", "norm-sub", "power", "power-ns"), 0, 0.5,
                partner=2.0, at=lambda r: r == 1024,
            ),
        ),
    ),
    # --- full domain ---
    Statement(
        "n-fig4-base-norm", "N V-C", "Base performs very close to Norm.", "ndss-fig4", "Ratio of MSEs within 2 % of 1",
        (Ratio("ndss-fig4", "norm", "base", 0.98, 1.02),),
    ),
    Statement(
        "n-fig4-base-pos-half", "N V-C", "Base-Pos (equivalent to Post-Pos here): its MSE is around half that of Base.",
        "ndss-fig4", "Ratio of MSEs between 0.4 and 0.6; Post-Pos over Base-Pos exactly 1",
        (
            Ratio("ndss-fig4", "base-pos", "base", 0.4, 0.6),
            Ratio("ndss-fig4", "post-pos", "base-pos", 1, 1),
        ),
    ),
    Statement(
        "n-fig4-norm-sub-10", "N V-C", "Norm-Sub is able to reduce the MSE of Base by about a factor of 10 in Zipf's.",
        "ndss-fig4", "Base over Norm-Sub between 5 and 20 at every ε", (Ratio("ndss-fig4", "base", "norm-sub", 5, 20, only=_ZIPF),),
    ),
    Statement(
        "n-fig4-norm-sub-100", "N V-C", "... and 100 in the Emoji dataset.", "ndss-fig4",
        "Base over Norm-Sub between 50 and 200 at every ε", (Ratio("ndss-fig4", "base", "norm-sub", 50, 200, only=_EMOJI),),
    ),
    Statement(
        "n-fig4-norm-mul-slow", "N V-C", "For Norm-Mul the MSE decreases much slower than for other methods.", "ndss-fig4",
        "Norm-Mul over every other method of the left column: this ratio at ε = 4 at least twice that at ε = 0.2",
        (Growth("ndss-fig4", "norm-mul", ("base", "base-pos", "post-pos", "norm", "norm-sub"), 0.2, 4.0, 2, _ANY),),
    ),
    Statement(
        "n-fig4-mle-norm-sub", "N V-C, V-F", "Norm-Sub and MLE-Apx perform almost exactly the same.", "ndss-fig4",
        "Ratio of MSEs within 5 % of 1", (Ratio("ndss-fig4", "mle-apx", "norm-sub", 0.95, 1.05),),
    ),
    Statement(
        "n-fig4-similar", "N V-C", "Norm-Sub, MLE-Apx, Power, PowerNS and Base-Cut perform very similarly.", "ndss-fig4",
        "Each over Norm-Sub between 0.5 and 2 at every ε",
        (Ratio("ndss-fig4", ("mle-apx", "power", "power-ns", "base-cut"), "norm-sub", 0.5, 2),),
    ),
    Statement(
        "n-fig4-power-ns-best", "N V-C", "In these two datasets, PowerNS performs the best.", "ndss-fig4",
        "MSE of PowerNS over every other method's, at most 1 at every ε",
        (Ratio("ndss-fig4", "power-ns", _without("power-ns"), 0, 1),),
    ),
    Statement(
        "n-fig5-slope", "N V-C", "Base and Norm are two straight lines with the slope of 1.", "ndss-fig5",
        "n′/n within 5 % of 1 at every n",
        tuple(
            Value("ndss-fig5", ("base", "norm"), 0.95, 1.05, "n", at=lambda n, m=n: n == m, unit=n)
            for n in range(200_000, 2_000_001, 200_000)
        ),
    ),
    Statement(
        "n-fig5-norm-mul", "N V-C", "The value for Norm-Mul grows even slower than Base.", "ndss-fig5",
        "Norm-Mul over Base: this ratio at n = 2·10⁶ below that at n = 0.2·10⁶",
        (Growth("ndss-fig5", "norm-mul", "base", 200_000.0, 2_000_000.0, 0, 1, along="n"),),
    ),
    Statement(
        "n-fig5-pairs", "N Fig. 5", "Three pairs have similar performance: Base and Norm, Base-Pos and Post-Pos, Norm-Sub and "
        "MLE-Apx.", "ndss-fig5", "Ratios of n′ within 5 % of 1",
        tuple(
            Ratio("ndss-fig5", a, b, 0.95, 1.05, "n")
            for a, b in (("norm", "base"), ("post-pos", "base-pos"), ("mle-apx", "norm-sub"))
        ),
    ),
    Statement(
        "n-fig5-saves-90", "N V-C", "PowerNS gives the best performance, which saves around 90 % of users.", "ndss-fig5",
        "n/n′ of PowerNS between 5 % and 15 % at every n, and n′ above every other method's",
        (
            *(
                Value("ndss-fig5", "power-ns", 1 / 0.15, 1 / 0.05, "n", at=lambda n, m=n: n == m, unit=n)
                for n in range(200_000, 2_000_001, 200_000)
            ),
            Ratio("ndss-fig5", "power-ns", _without("power-ns"), 1, _ANY, "n"),
        ),
    ),
    # --- sets ---
    Statement(
        "n-fig6-normalised", "N V-D", "The approaches that exploit the summing-to-1 requirement perform well, especially when ρ "
        "is large.", "ndss-fig6", "At ρ = 90, the MSE of each over each of the others', below 1",
        (Ratio("ndss-fig6", _NORMALISED, _FREE, 0, 1, "parameter", at=lambda r: r == 90),),
    ),
    Statement(
        "n-fig6-symmetric", "N V-D", "Their MSE is symmetric with ρ = 50.", "ndss-fig6",
        "MSE at ρ over that at 100 − ρ, between 2/3 and 3/2 (200 sets drawn for each ρ)",
        (
            Against(
                "ndss-fig6", _NORMALISED, 2 / 3, 3 / 2, partner=lambda r: 100 - r, at=lambda r: r > 50,
            ),
        ),
    ),
    Statement(
        "n-fig6-power-ns-90", "N V-D", "When ρ = 90, the best norm-based method, PowerNS, outperforms any of the non-norm based "
        "methods by at least 2 orders of magnitude.", "ndss-fig6", "MSE of each non-normalised method over PowerNS's, at least 100",
        (Ratio("ndss-fig6", _FREE, "power-ns", 100, _ANY, "parameter", at=lambda r: r == 90),),
    ),
    Statement(
        "n-fig6-base-pos", "N V-D", "The MSE for Base-Pos is higher than other methods.", "ndss-fig6",
        "Over every other method, above 1",
        (Ratio("ndss-fig6", "base-pos", _without("base-pos"), 1, _ANY, "parameter"),),
    ),
    Statement(
        "n-fig6-post-pos", "N V-D", "Post-Pos is slightly better than Base.", "ndss-fig6", "Ratio between 0.5 and 1",
        (Ratio("ndss-fig6", "post-pos", "base", 0.5, 1, "parameter"),),
    ),
    Statement(
        "n-fig6-base-cut", "N V-D", "In the settings we evaluated, Base-Cut also outperforms Base.", "ndss-fig6",
        "Ratio below 1 at every ρ", (Ratio("ndss-fig6", "base-cut", "base", 0, 1, "parameter"),),
    ),
    Statement(
        "n-fig6-power-ns-power", "N V-D", "PowerNS further makes Power's estimates sum up to 1, thus achieving better utility.",
        "ndss-fig6", "PowerNS over Power, below 1",
        (Ratio("ndss-fig6", "power-ns", "power", 0, 1, "parameter"),),
    ),
    Statement(
        "n-fig7-rises", "N V-D", "Within ρ = 1 to 10, the errors of all methods increase with ρ.", "ndss-fig7",
        "MSE at ρ = 10 over that at ρ = 1, above 1, for every method",
        (Against("ndss-fig7", _ALL, 1, _ANY, partner=1.0, at=lambda r: r == 10),),
    ),
    Statement(
        "n-fig7-small-sets", "N V-D", "When ρ becomes small, the performance of different methods approaches to that of "
        "full-domain estimation.", "ndss-fig7", "At ρ = 1, Base-Pos, the worst at large ρ, is within a factor of 2 of Base",
        (Ratio("ndss-fig7", "base-pos", "base", 0.5, 2, "parameter", at=lambda r: r == 1),),
    ),
    Statement(
        "n-fig7-norm-cut", "N V-D", "Norm-Cut is better than Base-Cut, especially when ρ ≥ 2.", "ndss-fig7",
        "Norm-Cut over Base-Cut below 1 for ρ ≥ 2",
        (Ratio("ndss-fig7", "norm-cut", "base-cut", 0, 1, "parameter", at=lambda r: r >= 2),),
    ),
    Statement(
        "n-fig7-norm-mul", "N V-D", "Intuitively, the norm-based methods should perform better. But Norm-Mul does not.",
        "ndss-fig7", "Norm-Mul over Norm, Norm-Sub, Norm-Cut and PowerNS, above 1",
        (Ratio("ndss-fig7", "norm-mul", ("norm", "norm-sub", "norm-cut", "power-ns"), 1, _ANY, "parameter"),),
    ),
    Statement(
        "n-fig8-post-pos", "N V-D", "Post-Pos works best in the left sub-figure.", "ndss-fig8",
        "Over Base, Base-Pos, Norm, Norm-Mul and Norm-Sub, at most 1",
        (Ratio("ndss-fig8", "post-pos", ("base", "base-pos", "norm", "norm-mul", "norm-sub"), 0, 1),),
    ),
    Statement(
        "n-fig8-norm-cut", "N V-D", "Norm-Cut from the right performs even better, especially when ε < 3.", "ndss-fig8",
        "Norm-Cut over Post-Pos, below 1 for ε < 3", (Ratio("ndss-fig8", "norm-cut", "post-pos", 0, 1, at=lambda e: e < 3),),
    ),
    Statement(
        "n-fig9-norm-sub", "N V-D", "If the results are processed by Norm-Sub, the optimal method can be found quite accurately.",
        "ndss-fig9", "Mean error of the choice at most 15 % above the best method's at every ε",
        (Value("ndss-fig9", "selected", -1, 0.15, only={"parameter": "norm-sub", "metric": "regret"}),),
    ),
    Statement(
        "n-fig9-power-ns", "N V-D", "If PowerNS is used, PowerNS will be selected.", "ndss-fig9",
        "Share of the trials whose choice is PowerNS, above one half at every ε",
        (Value("ndss-fig9", "power-ns", 0.5, 1, only={"parameter": "power-ns", "metric": "share of choices"}),),
    ),
    # --- the most frequent values ---
    Statement(
        "n-fig10-flat", "N V-E", "Base, Base-Pos, Post-Pos and Norm perform consistently well for different k.", "ndss-fig10",
        "Largest over smallest MSE along k, at most 2",
        (Spread("ndss-fig10", ("base", "base-pos", "post-pos", "norm"), 1, 2),),
    ),
    Statement(
        "n-fig10-norm-mul-10", "N V-E", "Norm-Mul performs at least 10× worse than any other methods.", "ndss-fig10",
        "Norm-Mul over every other method, at least 10 at every k",
        (Ratio("ndss-fig10", "norm-mul", _without("norm-mul"), 10, _ANY, "parameter"),),
    ),
    Statement(
        "n-fig10-norm-sub", "N V-E", "Norm-Sub performs worse than Base, but better than Norm-Mul.", "ndss-fig10",
        "Norm-Sub over Base above 1, over Norm-Mul below 1",
        (
            Ratio("ndss-fig10", "norm-sub", "base", 1, _ANY, "parameter"),
            Ratio("ndss-fig10", "norm-sub", "norm-mul", 0, 1, "parameter"),
        ),
    ),
    Statement(
        "n-fig10-consistent", "N V-E", "Base and Norm-Sub have consistent MSE for different k.", "ndss-fig10",
        "Largest over smallest MSE along k, at most 2", (Spread("ndss-fig10", ("base", "norm-sub"), 1, 2),),
    ),
    Statement(
        "n-fig10-grow", "N V-E", "Base-Cut, Norm-Cut, Power and PowerNS all have MSE that grows with k.", "ndss-fig10",
        "MSE at k = 32 over that at k = 2, above 1",
        (
            Against(
                "ndss-fig10", ("base-cut", "norm-cut", "power", "power-ns"), 1, _ANY, partner=2.0, at=lambda k: k == 32
            ),
        ),
    ),
    Statement(
        "n-fig10-ten-values", "N V-E", "At ε = 1, around 10 values can be reliably estimated.", "ndss-fig10",
        "Base-Cut over Base within 0.5 .. 2 for k ≤ 10, above 2 at k = 32, on Zipf's",
        (
            Ratio("ndss-fig10", "base-cut", "base", 0.5, 2, "parameter", at=lambda k: k <= 10, only=_ZIPF),
            Ratio("ndss-fig10", "base-cut", "base", 2, _ANY, "parameter", at=lambda k: k == 32, only=_ZIPF),
        ),
    ),
    Statement(
        "n-fig10-norm-cut", "N V-E", "Norm-Cut is better than Base-Cut.", "ndss-fig10", "Ratio at most 1 (1.02) at every k",
        (Ratio("ndss-fig10", "norm-cut", "base-cut", 0, 1.02, "parameter"),),
    ),
    Statement(
        "n-fig10-power", "N V-E", "Power and PowerNS are similar, and worse than Base-Cut, especially when k > 10.", "ndss-fig10",
        "PowerNS over Power between 0.5 and 2; both over Base-Cut above 1 for k > 10",
        (
            Ratio("ndss-fig10", "power-ns", "power", 0.5, 2, "parameter"),
            Ratio("ndss-fig10", ("power", "power-ns"), "base-cut", 1, _ANY, "parameter", at=lambda k: k > 10),
        ),
    ),
)  # fmt: skip
