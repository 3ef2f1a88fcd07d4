"""What N states about queries of sets (N V-D, Figs. 6 to 9)."""

from __future__ import annotations

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures import shared
from ldpopt.claims.figures.bounds import ANY
from ldpopt.claims.figures.checks import (
    Ratio,
    Value,
)
from ldpopt.claims.figures.ndss.common import ALL, FREE, NORMALISED, OTHER_EMOJI, without
from ldpopt.claims.figures.shared import Place
from ldpopt.claims.figures.statement import Statement

_FIG_6 = Place("ndss", "fig6", "N V-D")
_FIG_7 = Place("ndss", "fig7", "N V-D")


STATEMENTS = (
    shared.normalised_win(
        _FIG_6,
        "Overall, the approaches that exploit the summing-to-1 requirement perform well, "
        "especially when ρ is large.",
        NORMALISED,
        FREE,
        expected=Verdict.INCONCLUSIVE,
        why="Norm-Mul's error at ρ = 90 is 0.8 to 1.7 times Base's; for all other pairs it holds.",
    ),
    shared.symmetric(_FIG_6, "Their MSE is symmetric with ρ = 50.", NORMALISED),
    Statement(
        id="n-fig6-power-ns-90",
        source="N V-D",
        text=(
            "When ρ = 90, the best norm-based method, PowerNS, outperforms any of the non-norm "
            "based methods by at least 2 orders of magnitude."
        ),
        figure="ndss-fig6",
        how="MSE of each non-normalised method over PowerNS's, at least 100",
        # "Any of the non-norm based methods": each of them, not their best.
        checks=(Ratio("ndss-fig6", FREE, "power-ns", 100, ANY, "parameter", at=lambda r: r == 90),),
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
        # At every ρ: its positive biases add up over any set.
        checks=(Ratio("ndss-fig6", "base-pos", without("base-pos"), 1, ANY, "parameter"),),
    ),
    shared.post_pos_like_base(_FIG_6, "Post-Pos is slightly better than Base."),
    Statement(
        id="n-fig6-base-cut",
        source="N V-D",
        text="In the settings we evaluated, Base-Cut also outperforms Base.",
        figure="ndss-fig6",
        how="Ratio below 1 at every ρ",
        # "In the settings we evaluated" are all points of the figure.
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
        # "Better" is at every ρ, by however little.
        checks=(Ratio("ndss-fig6", "power-ns", "power", 0, 1, "parameter"),),
    ),
    shared.errors_rise(_FIG_7, ALL),
    # Figure 7 shows the sets of 1 to 10 % of the domain, which Figure 6 leaves out.
    shared.small_sets(_FIG_7),
    shared.norm_cut_on_sets(
        _FIG_7, "At ρ = 1 it is 27 % worse, give or take 11, and at ρ = 2 as good."
    ),
    shared.norm_mul_worst(_FIG_7, NORMALISED),
    Statement(
        id="n-fig8-post-pos",
        source="N V-D",
        text="Post-Pos works best in the left sub-figure.",
        figure="ndss-fig8",
        how="Over Base, Base-Pos, Norm, Norm-Mul and Norm-Sub, at most 1",
        checks=(
            Ratio(
                # The methods of the left sub-figure; the right one has the others.
                "ndss-fig8",
                "post-pos",
                ("base", "base-pos", "norm", "norm-mul", "norm-sub"),
                0,
                1,
            ),
        ),
        expected=Verdict.UNCHECKED,
        why=OTHER_EMOJI,
    ),
    Statement(
        id="n-fig8-norm-cut",
        source="N V-D",
        text="Norm-Cut from the right performs even better, especially when ε < 3.",
        figure="ndss-fig8",
        how="Norm-Cut over Post-Pos, below 1 for ε < 3",
        # Below ε = 3 alone: from there on N claims less, "even better" without a number.
        checks=(Ratio("ndss-fig8", "norm-cut", "post-pos", 0, 1, at=lambda e: e < 3),),
        expected=Verdict.UNCHECKED,
        why=OTHER_EMOJI,
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
                # "Quite accurately" is about the error: a choice that costs 15 % may be another
                # method.
                "selected",
                -1,
                0.15,
                only={"parameter": "norm-sub", "metric": "regret"},
            ),
        ),
        expected=Verdict.UNCHECKED,
        why=OTHER_EMOJI,
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
                # More often than not: single trials may choose another one by chance.
                only={"parameter": "power-ns", "metric": "share of choices"},
            ),
        ),
        expected=Verdict.UNCHECKED,
        why=OTHER_EMOJI,
    ),
)
