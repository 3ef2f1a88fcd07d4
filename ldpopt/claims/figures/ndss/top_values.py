"""What N states about the most frequent values (N V-E, Fig. 10)."""

from __future__ import annotations

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures import shared
from ldpopt.claims.figures.bounds import ANY, TIE
from ldpopt.claims.figures.checks import (
    AddedRanks,
    Ratio,
    TopRanks,
)
from ldpopt.claims.figures.ndss.common import without
from ldpopt.claims.figures.shared import Place
from ldpopt.claims.figures.statement import Correction, Statement

# The figure's axis but for its first point, k = 2, with which the others are compared.
_KS = tuple(range(4, 33, 2))
# Base-Cut, Norm-Cut and the two with a power law, on which N V-E makes one sentence.
_GROWING = ("base-cut", "norm-cut", "power", "power-ns")
_FIG_10 = Place("ndss", "fig10", "N V-E")


STATEMENTS = (
    Statement(
        id="n-fig10-flat",
        source="N V-E",
        text="Base, Base-Pos, Post-Pos and Norm perform consistently well for different k.",
        figure="ndss-fig10",
        how=(
            "MSE at every k from 4 to 32 over that at k = 2, between 0.5 and 2, from the 5,000 "
            "trials of Figs. 2 and 3 (for single values Post-Pos is Base-Pos)"
        ),
        # Thirty trials of the figure say little about two values: hence the trials of other
        # figures.
        checks=(TopRanks(("base", "base-pos", "norm"), tuple((k, 2) for k in _KS), 0.5, 2),),
    ),
    shared.norm_mul_tenfold(_FIG_10, without("norm-mul")),
    Statement(
        id="n-fig10-norm-sub",
        source="N V-E",
        text="Norm-Sub performs worse than Base, but better than Norm-Mul.",
        figure="ndss-fig10",
        how="Norm-Sub over Base above 1, over Norm-Mul below 1",
        checks=(
            # A sentence with two halves: both must agree.
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
        # "Consistent" is read as "consistently well" above.
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
        # Of nested sets of values a ratio would depend on what both have in common.
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
                # In steps of four: what two values add is little beside the error of a bias.
                AddedRanks(_GROWING, ((16, 12), (20, 16), (24, 20)), 1, ANY),
                TopRanks(_GROWING, tuple((k, 2) for k in _KS if k <= 10), 0.5, 2),
                TopRanks(_GROWING, tuple((k, 24) for k in _KS if k > 24), 0.8, 1.2),
            ),
        ),
    ),
    shared.ten_values(_FIG_10),
    shared.norm_cut_on_top(_FIG_10),
    Statement(
        id="n-fig10-power-similar",
        source="N V-E",
        text="The performances of Power and PowerNS are similar.",
        figure="ndss-fig10",
        how="PowerNS over Power between 0.5 and 2 at every k",
        # "Similar" is read as a factor of two, as for the methods of Figure 4.
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
            # Up to k = 10 all values are above every threshold, and the methods answer alike.
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
