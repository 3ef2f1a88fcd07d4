"""What N concludes from its figures (N V, V-A, V-F)."""

from __future__ import annotations

from ldpopt.claims.engine.claim import Verdict
from ldpopt.claims.figures import shared
from ldpopt.claims.figures.checks import (
    Deviation,
    Ratio,
    typical,
)
from ldpopt.claims.figures.ndss.common import ALL, without
from ldpopt.claims.figures.shared import Place
from ldpopt.claims.figures.statement import Statement

STATEMENTS = (
    Statement(
        id="n-full-domain-base-cut",
        source="N V, V-F",
        text="For full-domain query, Base-Cut performs the best.",
        figure="ndss-fig4",
        how="MSE of Base-Cut over every other method's, at most 1 at every ε",
        # "The best" leaves no room for a method that is better, however little.
        checks=(Ratio("ndss-fig4", "base-cut", without("base-cut"), 0, 1),),
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
        # Figure 6 and not 7: it shows sets of every size.
        checks=(Ratio("ndss-fig6", "power-ns", without("power-ns"), 0, 1, "parameter"),),
    ),
    shared.norm_on_top(
        # By the same rule as D's sentence on its Figure 5.
        Place("ndss", "fig10", "N V, V-F"),
        "n-top-norm",
        "For high-frequency-value query, Norm performs the best.",
        without("norm"),
    ),
    Statement(
        id="n-norm-below-base",
        source="N V-F",
        text="While Base can also be used, Norm reduces variance.",
        figure="ndss-fig4",
        how="MSE of Norm over Base's, below 1 at every ε",
        # By one part in d: pairs of answers to the same draws show it, two means would not.
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
        # "Typically": half of the points may have more.
        checks=(typical(Deviation("ndss-fig4", ALL, 0, 0.25)),),
    ),
)
