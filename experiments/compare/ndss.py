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
# Those whose answers sum to 1, Norm-Cut's almost.
_NORMALISED = ("norm", "norm-mul", "norm-sub", "mle-apx", "norm-cut", "power-ns")
_FREE = ("base", "base-pos", "post-pos", "base-cut", "power")
# MLE-Apx is not in N's Figure 2.
_ZERO_SUM = ("norm", "norm-mul", "norm-cut", "norm-sub", "power-ns")
_ZIPF = {"dataset": "zipf"}
_EMOJI = {"dataset": "emoji"}
_BIAS = {"metric": "bias (counts)"}
_SUM = {"metric": "bias sum (counts)"}
_ANY = math.inf


def _without(*names: str) -> tuple[str, ...]:
    return tuple(m for m in _ALL if m not in names)


STATEMENTS = (
    # --- the conclusions of N V and V-F ---
    Statement(
        id="n-full-domain-base-cut",
        source="N V, V-F",
        text="For full-domain query, Base-Cut performs the best.",
        figure="ndss-fig4",
        how="MSE of Base-Cut over every other method's, at most 1 at every ε",
        checks=(Ratio("ndss-fig4", "base-cut", _without("base-cut"), 0, 1),),
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
            "MSE of Norm over every other method's, at most 1.02 at every k (Base and Norm differ"
            " by chance)"
        ),
        checks=(Ratio("ndss-fig10", "norm", _without("norm"), 0, 1.02, "parameter"),),
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
            "Standard deviation of the MSE over its mean, below 0.25 at every ε (a quarter is a "
            "hair on the logarithmic axis)"
        ),
        checks=(Deviation("ndss-fig4", _ALL, 0, 0.25),),
    ),
    # --- bias and variance ---
    Statement(
        id="n-fig1-follow",
        source="N V-B",
        text="In the mean of 5,000 runs Base and Norm follow the true counts.",
        figure="ndss-fig1",
        how="Mean estimate over true count within 5 % of 1 for ranks up to 50",
        checks=(
            Ratio(
                "ndss-fig1",
                ("base", "norm"),
                "truth",
                0.95,
                1.05,
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
            "Sum over the domain, mean of all trials: noise of standard deviation about 870 "
            "around 0, so within ±3,500"
        ),
        checks=(Value("ndss-fig2", "base", -3500, 3500, only=_SUM),),
    ),
    Statement(
        id="n-fig2-base-pos",
        source="N Fig. 2b",
        text="Sum of biases of Base-Pos: +711,932.",
        figure="ndss-fig2",
        how="Within 0.5 % of the printed number",
        checks=(Value("ndss-fig2", "base-pos", 708_372, 715_492, only=_SUM),),
    ),
    Statement(
        id="n-fig2-base-cut",
        source="N Fig. 2c",
        text="Sum of biases of Base-Cut: −137,449.",
        figure="ndss-fig2",
        how="Within 2 % of the printed number",
        checks=(Value("ndss-fig2", "base-cut", -140_198, -134_700, only=_SUM),),
    ),
    Statement(
        id="n-fig2-power",
        source="N Fig. 2h",
        text="Sum of biases of Power: −96,332.",
        figure="ndss-fig2",
        how="Within 5 % of the printed number",
        checks=(Value("ndss-fig2", "power", -101_149, -91_515, only=_SUM),),
    ),
    Statement(
        id="n-fig2-zero",
        source="N Fig. 2d-g, i",
        text="Sum of biases of Norm, Norm-Mul, Norm-Cut, Norm-Sub and PowerNS: 0.",
        figure="ndss-fig2",
        how="Below half a user in a million",
        checks=(Value("ndss-fig2", _ZERO_SUM, -0.5, 0.5, only=_SUM),),
    ),
    Statement(
        id="n-fig2-unbiased",
        source="N V-B",
        text="Base and Norm are unbiased.",
        figure="ndss-fig2",
        how="Every shown bias within ±125 counts: 5 standard errors of 5,000 trials",
        checks=(Value("ndss-fig2", ("base", "norm"), -125, 125, "parameter", only=_BIAS),),
    ),
    Statement(
        id="n-fig2-base-pos-positive",
        source="N V-B",
        text="Base-Pos introduces systematic positive bias.",
        figure="ndss-fig2",
        how="Bias of every rank from 100 on, above 0",
        checks=(
            Value("ndss-fig2", "base-pos", 0, _ANY, "parameter", at=lambda r: r >= 100, only=_BIAS),
        ),
    ),
    Statement(
        id="n-fig2-base-cut-top",
        source="N V-B",
        text="Base-Cut gives unbiased estimations for the first few most frequent values.",
        figure="ndss-fig2",
        how="Bias of ranks 1 to 10 within ±125 counts",
        checks=(
            Value(
                "ndss-fig2", "base-cut", -125, 125, "parameter", at=lambda r: r <= 10, only=_BIAS
            ),
        ),
    ),
    Statement(
        id="n-fig2-norm-sub-rises",
        source="N V-B",
        text="We see an increasing line for Norm-Sub.",
        figure="ndss-fig2",
        how="Bias of the top 10 below −500 counts, of ranks beyond 500 above 0",
        checks=(
            Value(
                "ndss-fig2", "norm-sub", -_ANY, -500, "parameter", at=lambda r: r <= 10, only=_BIAS
            ),
            Value("ndss-fig2", "norm-sub", 0, _ANY, "parameter", at=lambda r: r > 500, only=_BIAS),
        ),
    ),
    Statement(
        id="n-fig2-power-top",
        source="N V-B",
        text="Power changes little to the top estimations.",
        figure="ndss-fig2",
        how="Bias of the top 10 smaller than Norm-Sub's",
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
            ),
        ),
    ),
    Statement(
        id="n-fig3-base-flat",
        source="N V-B",
        text="The variance is similar for all the values in Base and Norm.",
        figure="ndss-fig3",
        how="Largest over smallest variance of ranks from 2 on, at most 1.25 (5,000 trials: ± 6 %)",
        checks=(Spread("ndss-fig3", ("base", "norm"), 1, 1.25, at=lambda r: r >= 2),),
    ),
    Statement(
        id="n-fig3-norm-smaller",
        source="N V-B",
        text="Norm's variance is slightly smaller than Base's.",
        figure="ndss-fig3",
        how="Ratio at every shown rank, below 1 and above 0.99",
        checks=(Ratio("ndss-fig3", "norm", "base", 0.99, 1.0, "parameter"),),
    ),
    Statement(
        id="n-fig3-others-drop",
        source="N V-B",
        text="For all other methods, the variance drops with the rank.",
        figure="ndss-fig3",
        how="Variance at rank 1,024 over rank 2's, below 0.5",
        checks=(
            Against(
                "ndss-fig3",
                ("base-pos", "base-cut", "norm-mul", "norm-cut", "norm-sub", "power", "power-ns"),
                0,
                0.5,
                partner=2.0,
                at=lambda r: r == 1024,
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
            Ratio("ndss-fig4", "post-pos", "base-pos", 1, 1),
        ),
    ),
    Statement(
        id="n-fig4-norm-sub-10",
        source="N V-C",
        text="Norm-Sub is able to reduce the MSE of Base by about a factor of 10 in Zipf's.",
        figure="ndss-fig4",
        how="Base over Norm-Sub between 5 and 20 at every ε",
        checks=(Ratio("ndss-fig4", "base", "norm-sub", 5, 20, only=_ZIPF),),
    ),
    Statement(
        id="n-fig4-norm-sub-100",
        source="N V-C",
        text="... and 100 in the Emoji dataset.",
        figure="ndss-fig4",
        how="Base over Norm-Sub between 50 and 200 at every ε",
        checks=(Ratio("ndss-fig4", "base", "norm-sub", 50, 200, only=_EMOJI),),
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
                _ANY,
            ),
        ),
    ),
    Statement(
        id="n-fig4-mle-norm-sub",
        source="N V-C, V-F",
        text="Norm-Sub and MLE-Apx perform almost exactly the same.",
        figure="ndss-fig4",
        how="Ratio of MSEs within 5 % of 1",
        checks=(Ratio("ndss-fig4", "mle-apx", "norm-sub", 0.95, 1.05),),
    ),
    Statement(
        id="n-fig4-similar",
        source="N V-C",
        text="Norm-Sub, MLE-Apx, Power, PowerNS and Base-Cut perform very similarly.",
        figure="ndss-fig4",
        how="Each over Norm-Sub between 0.5 and 2 at every ε",
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
        checks=tuple(
            Value("ndss-fig5", ("base", "norm"), 0.95, 1.05, "n", at=lambda n, m=n: n == m, unit=n)
            for n in range(200_000, 2_000_001, 200_000)
        ),
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
            *(
                Value(
                    "ndss-fig5",
                    "power-ns",
                    1 / 0.15,
                    1 / 0.05,
                    "n",
                    at=lambda n, m=n: n == m,
                    unit=n,
                )
                for n in range(200_000, 2_000_001, 200_000)
            ),
            Ratio("ndss-fig5", "power-ns", _without("power-ns"), 1, _ANY, "n"),
        ),
    ),
    # --- sets ---
    Statement(
        id="n-fig6-normalised",
        source="N V-D",
        text=(
            "The approaches that exploit the summing-to-1 requirement perform well, especially "
            "when ρ is large."
        ),
        figure="ndss-fig6",
        how="At ρ = 90, the MSE of each over each of the others', below 1",
        checks=(Ratio("ndss-fig6", _NORMALISED, _FREE, 0, 1, "parameter", at=lambda r: r == 90),),
    ),
    Statement(
        id="n-fig6-symmetric",
        source="N V-D",
        text="Their MSE is symmetric with ρ = 50.",
        figure="ndss-fig6",
        how="MSE at ρ over that at 100 − ρ, between 2/3 and 3/2 (200 sets drawn for each ρ)",
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
            Ratio("ndss-fig6", _FREE, "power-ns", 100, _ANY, "parameter", at=lambda r: r == 90),
        ),
    ),
    Statement(
        id="n-fig6-base-pos",
        source="N V-D",
        text="The MSE for Base-Pos is higher than other methods.",
        figure="ndss-fig6",
        how="Over every other method, above 1",
        checks=(Ratio("ndss-fig6", "base-pos", _without("base-pos"), 1, _ANY, "parameter"),),
    ),
    Statement(
        id="n-fig6-post-pos",
        source="N V-D",
        text="Post-Pos is slightly better than Base.",
        figure="ndss-fig6",
        how="Ratio between 0.5 and 1",
        checks=(Ratio("ndss-fig6", "post-pos", "base", 0.5, 1, "parameter"),),
    ),
    Statement(
        id="n-fig6-base-cut",
        source="N V-D",
        text="In the settings we evaluated, Base-Cut also outperforms Base.",
        figure="ndss-fig6",
        how="Ratio below 1 at every ρ",
        checks=(Ratio("ndss-fig6", "base-cut", "base", 0, 1, "parameter"),),
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
        how="MSE at ρ = 10 over that at ρ = 1, above 1, for every method",
        checks=(Against("ndss-fig7", _ALL, 1, _ANY, partner=1.0, at=lambda r: r == 10),),
    ),
    Statement(
        id="n-fig7-small-sets",
        source="N V-D",
        text=(
            "When ρ becomes small, the performance of different methods approaches to that of "
            "full-domain estimation."
        ),
        figure="ndss-fig7",
        how="At ρ = 1, Base-Pos, the worst at large ρ, is within a factor of 2 of Base",
        checks=(Ratio("ndss-fig7", "base-pos", "base", 0.5, 2, "parameter", at=lambda r: r == 1),),
    ),
    Statement(
        id="n-fig7-norm-cut",
        source="N V-D",
        text="Norm-Cut is better than Base-Cut, especially when ρ ≥ 2.",
        figure="ndss-fig7",
        how="Norm-Cut over Base-Cut below 1 for ρ ≥ 2",
        checks=(
            Ratio("ndss-fig7", "norm-cut", "base-cut", 0, 1, "parameter", at=lambda r: r >= 2),
        ),
    ),
    Statement(
        id="n-fig7-norm-mul",
        source="N V-D",
        text="Intuitively, the norm-based methods should perform better. But Norm-Mul does not.",
        figure="ndss-fig7",
        how="Norm-Mul over Norm, Norm-Sub, Norm-Cut and PowerNS, above 1",
        checks=(
            Ratio(
                "ndss-fig7",
                "norm-mul",
                ("norm", "norm-sub", "norm-cut", "power-ns"),
                1,
                _ANY,
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
    ),
    Statement(
        id="n-fig8-norm-cut",
        source="N V-D",
        text="Norm-Cut from the right performs even better, especially when ε < 3.",
        figure="ndss-fig8",
        how="Norm-Cut over Post-Pos, below 1 for ε < 3",
        checks=(Ratio("ndss-fig8", "norm-cut", "post-pos", 0, 1, at=lambda e: e < 3),),
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
    ),
    # --- the most frequent values ---
    Statement(
        id="n-fig10-flat",
        source="N V-E",
        text="Base, Base-Pos, Post-Pos and Norm perform consistently well for different k.",
        figure="ndss-fig10",
        how="Largest over smallest MSE along k, at most 2",
        checks=(Spread("ndss-fig10", ("base", "base-pos", "post-pos", "norm"), 1, 2),),
    ),
    Statement(
        id="n-fig10-norm-mul-10",
        source="N V-E",
        text="Norm-Mul performs at least 10× worse than any other methods.",
        figure="ndss-fig10",
        how="Norm-Mul over every other method, at least 10 at every k",
        checks=(Ratio("ndss-fig10", "norm-mul", _without("norm-mul"), 10, _ANY, "parameter"),),
    ),
    Statement(
        id="n-fig10-norm-sub",
        source="N V-E",
        text="Norm-Sub performs worse than Base, but better than Norm-Mul.",
        figure="ndss-fig10",
        how="Norm-Sub over Base above 1, over Norm-Mul below 1",
        checks=(
            Ratio("ndss-fig10", "norm-sub", "base", 1, _ANY, "parameter"),
            Ratio("ndss-fig10", "norm-sub", "norm-mul", 0, 1, "parameter"),
        ),
    ),
    Statement(
        id="n-fig10-consistent",
        source="N V-E",
        text="Base and Norm-Sub have consistent MSE for different k.",
        figure="ndss-fig10",
        how="Largest over smallest MSE along k, at most 2",
        checks=(Spread("ndss-fig10", ("base", "norm-sub"), 1, 2),),
    ),
    Statement(
        id="n-fig10-grow",
        source="N V-E",
        text="Base-Cut, Norm-Cut, Power and PowerNS all have MSE that grows with k.",
        figure="ndss-fig10",
        how="MSE at k = 32 over that at k = 2, above 1",
        checks=(
            Against(
                "ndss-fig10",
                ("base-cut", "norm-cut", "power", "power-ns"),
                1,
                _ANY,
                partner=2.0,
                at=lambda k: k == 32,
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
                _ANY,
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
        how="Ratio at most 1 (1.02) at every k",
        checks=(Ratio("ndss-fig10", "norm-cut", "base-cut", 0, 1.02, "parameter"),),
    ),
    Statement(
        id="n-fig10-power",
        source="N V-E",
        text="Power and PowerNS are similar, and worse than Base-Cut, especially when k > 10.",
        figure="ndss-fig10",
        how="PowerNS over Power between 0.5 and 2; both over Base-Cut above 1 for k > 10",
        checks=(
            Ratio("ndss-fig10", "power-ns", "power", 0.5, 2, "parameter"),
            Ratio(
                "ndss-fig10",
                ("power", "power-ns"),
                "base-cut",
                1,
                _ANY,
                "parameter",
                at=lambda k: k > 10,
            ),
        ),
    ),
)
